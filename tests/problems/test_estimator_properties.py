"""What estimators state of themselves is so: their page, their title, their solvers, what they choose."""

import numpy as np
import pytest
from every_model import ESTIMATORS, WITH_SOLVER, make_data, make_estimator, over_estimators, parameters_of
from numpy.testing import assert_allclose

import problems
from problems.command_line.verify import problem_modules
from substrate.kernels import Linear
from tests.oracles.variants import componentwise_classifier, componentwise_machine


@over_estimators
def test_the_page_is_one_of_the_pages(estimator):
    assert estimator._page in problems.PAGES
    assert estimator()._own_page() in problems.PAGES


#: Pages that no estimator states: variants of another page, and what only ``fuse`` declares.
ALONE = {
    "confined_fusion",
    "constrained_ls_svm",
    "kernel_pls",  # a method of KernelCCA
    "decoupled_maximal_variation",
    "fused_least_squares",
    "leave_block_out",
    "maximal_variation_kkt",
    "narx_ls_svm",
    "penalized_fusion",
    # machines that the parameters of the LS-SVM make
    "componentwise_ls_svm",
    "ls_svm_substrate",
    # machines that a basis makes
    "reduced_l1_substrate",
    "reduced_maximal_variation",
    "symmetric_ls_svm",
    "weighted_ls_svm",
}


def test_hardly_a_page_has_no_estimator():
    stated = {estimator._page for estimator in (*ESTIMATORS, *(getattr(problems, name) for name in problems.SPECTRAL))}
    assert set(problems.PAGES) - stated == ALONE, "name a page without an estimator in ALONE"


@over_estimators
def test_certificates_have_the_title_that_is_stated(estimator):
    X, y = make_data(estimator)
    model = make_estimator(estimator, **({"kernel": Linear()} if estimator._additive else {})).fit(X, y)
    assert model.certificate_.title == estimator._title
    assert model.certify(X, y).title == f"{estimator._title}, checked again"


def test_titles_tell_estimators_apart():
    titles = [estimator._title for estimator in ESTIMATORS]
    assert len(set(titles)) == len(titles)


@over_estimators
def test_solvers_are_stated_where_there_is_a_choice(estimator):
    assert bool(estimator._solvers) == ("solver" in parameters_of(estimator))
    assert not estimator._solvers or parameters_of(estimator)["solver"] == estimator._solvers[0] == "auto"


@over_estimators
def test_what_is_chosen_is_not_given(estimator):
    assert estimator._chooses is None or estimator._chooses not in parameters_of(estimator)


def pages_declared(monkeypatch, fit):
    """The names of the pages whose ``declare`` a fit calls."""
    called = set()

    def recorded(name, declare):
        def wrapped(*given, **more):
            called.add(name)
            return declare(*given, **more)

        return wrapped

    for name, module in problem_modules().items():
        monkeypatch.setattr(module, "declare", recorded(name, module.declare))
    fit()
    return called


DECLARED = [
    *(pytest.param(estimator, {}, id=estimator.__name__) for estimator in WITH_SOLVER),
]


@pytest.mark.parametrize(("estimator", "choice"), DECLARED)
def test_the_page_that_is_solved_is_the_one_stated(estimator, choice, monkeypatch):
    X, y = make_data(estimator)
    model = make_estimator(estimator, solver="cvxpy", **choice)
    assert pages_declared(monkeypatch, lambda: model.fit(X, y)) == {model._own_page()}
    assert model.certificate_.holds, str(model.certificate_)
    monkeypatch.undo()
    assert pages_declared(monkeypatch, lambda: make_estimator(estimator, **choice).fit(X, y)) == set()


@pytest.mark.parametrize("estimator", [componentwise_machine, componentwise_classifier])
def test_the_componentwise_page_counts_the_weights_of_rows(estimator):
    X, y = make_data(estimator)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=len(y))
    closed, declared = (make_estimator(estimator, solver=solver).fit(X, y, weights) for solver in ("auto", "cvxpy"))
    assert_allclose(declared.support_values_, closed.support_values_, atol=1e-6 * np.abs(closed.support_values_).max())
    assert_allclose(declared.maximal_variation_, closed.maximal_variation_, rtol=1e-6)
    plain = make_estimator(estimator, solver="cvxpy").fit(X, y)
    assert np.abs(plain.support_values_ - declared.support_values_).max() > 1e-2
