"""Structure detection: which inputs matter, exact zeros, selection as scikit-learn has it, refits, own machines."""

import warnings

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline
from variants import componentwise_classifier, componentwise_machine

from problems import (
    LSSVMRegressor,
    MaximalVariationClassifier,
    MaximalVariationRegressor,
    load,
    maximal_variation,
)
from substrate import Machine, Substrate
from substrate.datasets import additive_function
from substrate.errors import DataError, DeclarationError
from substrate.fits.coordinates import decoupled_coordinates, shared_coordinates
from substrate.fits.variation import rho_max
from substrate.kernels import RBF, Componentwise, Linear, Polynomial

RELEVANT = {0, 1, 2, 3}


def fitted(X, y, kernel=None, **parameters):
    model = MaximalVariationRegressor(RBF(1.0) if kernel is None else kernel, **parameters).fit(X, y)
    assert model.certificate_.holds, str(model.certificate_)
    return model


def top_four(model):
    return set(np.argsort(-model.maximal_variation_)[:4].tolist())


def matrices(kernel, X):
    return [kernel(X[:, [part]]) for part in range(X.shape[1])]


# ---- the function (31) ---------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(80, 10), pytest.param(100, 25, marks=pytest.mark.slow)])
@pytest.mark.parametrize("variance", [1.0, 10.0])
def test_inputs_one_to_four_of_31_come_first(n, d, variance):
    for seed in (0, 1):
        X, y = additive_function(n, d, random_state=seed)
        model = fitted(X, y, RBF(np.sqrt(variance)), rho=10.0)
        assert top_four(model) == RELEVANT
        # the model's own threshold separates them too
        order = np.sort(model.maximal_variation_)[::-1]
        chosen = model.get_support((order[3] + order[4]) / 2.0 / order[0], indices=True)
        assert_array_equal(chosen, [0, 1, 2, 3])


def test_active_rows_that_depend_on_each_other_leave_the_answer_accurate():
    """One of them is beyond its bound by 3e-11 of the values, at the solution with the others."""
    X, y = additive_function(100, 25, random_state=4)
    certificate = fitted(X, y, RBF(np.sqrt(10.0)), rho=10.0).certificate_
    assert certificate.accuracy <= 1e-6 * certificate.spread


@pytest.mark.parametrize("variance", [0.1, 1.0, 10.0])
def test_every_rho_and_width_converges_with_a_certificate_that_holds(variance):
    X, y = additive_function(60, 10, random_state=0)
    for rho in (1e-2, 1.0, 30.0, 300.0):
        model = fitted(X, y, RBF(np.sqrt(variance)), rho=rho)
        assert "fallback" not in dict(model.certificate_.record)


def test_no_rbf_component_vanishes_alone_and_all_do_together():
    X, y = additive_function(60, 8, random_state=0)
    largest = rho_max(shared_coordinates(matrices(RBF(1.0), X)), y)
    for share in (0.01, 0.5, 0.99):
        model = fitted(X, y, rho=share * largest)
        assert (model.maximal_variation_ > 0.0).all()
        assert model.get_support(0.0).all()
    model = fitted(X, y, rho=1.001 * largest)
    assert_array_equal(model.maximal_variation_, 0.0)
    assert_allclose(model.predict(X), y.mean())
    assert not model.get_support(0.0).any()


def test_the_decoupled_expansion_finds_the_inputs_by_exact_zeros():
    X, y = additive_function(80, 10, random_state=0)
    largest = rho_max(decoupled_coordinates(matrices(RBF(1.0), X), ridge=0.1), y)
    model = fitted(X, y, rho=0.25 * largest, expansion="decoupled", ridge=0.1, relevance=0.0)
    assert set(model.get_support(indices=True)) <= RELEVANT
    assert (model.maximal_variation_ == 0.0).sum() >= 6


# ---- agreement -----------------------------------------------------------------------------------


def test_the_regressor_is_the_fast_path():
    X, y = additive_function(40, 5, random_state=1)
    model = fitted(X, y, rho=5.0)
    fast = maximal_variation.closed_form(matrices(RBF(1.0), X), y, 5.0)
    assert_allclose(model.maximal_variation_, fast["maximal_variation"], rtol=1e-9)
    assert_allclose(model.component_functions(X).T, fast["component_values"], atol=1e-6 * np.abs(y).max())
    assert_allclose(y - model.predict(X), fast["errors"], atol=1e-6 * np.abs(y).max())


@pytest.mark.parametrize("expansion", ["shared", "decoupled"])
def test_zeros_of_linear_components_are_those_of_the_lasso(expansion):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    y = X[:, :3] @ [2.0, -1.0, 0.5] + 0.5 * rng.normal(size=60)
    seen = set()
    for rho in (1.0, 10.0, 40.0, 100.0):
        model = fitted(X, y, Linear(), rho=rho, expansion=expansion)
        lasso = Lasso(alpha=rho / 60, tol=1e-13, max_iter=100000).fit(X / np.abs(X).max(axis=0), y)
        assert_allclose(model.maximal_variation_, np.abs(lasso.coef_), atol=1e-7)
        assert_array_equal(model.maximal_variation_ == 0.0, lasso.coef_ == 0.0)
        assert_array_equal(model.get_support(0.0), lasso.coef_ != 0.0)
        assert_allclose(model.predict(X), lasso.predict(X / np.abs(X).max(axis=0)), atol=1e-6)
        seen.add(int((lasso.coef_ == 0.0).sum()))
    assert len(seen) > 2


@pytest.mark.parametrize("seed", range(2))
def test_zeros_of_quadratic_components_are_those_of_a_conic_solver(seed):
    """Written down in the features x and x^2 of every input: with a bias the constants sum to nought."""
    X, y = additive_function(40, 7, random_state=seed)
    kernel = Polynomial(degree=2)
    largest = rho_max(shared_coordinates(matrices(kernel, X)), y)
    for share in (0.7, 0.3):
        rho = share * largest
        w, b = cp.Variable((7, 2)), cp.Variable()
        parts = [np.column_stack([X[:, part], X[:, part] ** 2]) @ w[part] for part in range(7)]
        penalty = sum(cp.norm_inf(part) for part in parts)
        problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(y - sum(parts) - b) + rho * penalty))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it may fall short of 1e-11 and say so
            problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        t = np.array([np.abs(part.value).max() for part in parts])
        model = fitted(X, y, kernel, rho=rho)
        assert_allclose(model.maximal_variation_, t, atol=1e-4)
        assert_array_equal(model.maximal_variation_ == 0.0, t < 1e-4)
        assert (model.maximal_variation_ == 0.0).any()


# ---- invariance ----------------------------------------------------------------------------------

CHOICES = (
    {"kernel": RBF(1.0)},
    {"kernel": Linear()},
    {"kernel": RBF(1.0), "expansion": "decoupled", "ridge": 0.1},
    {"kernel": RBF(1.0), "refit": True, "gamma": 5.0, "relevance": 0.1},
)
over_choices = pytest.mark.parametrize("parameters", CHOICES, ids=str)


@over_choices
def test_the_order_of_inputs_and_of_rows_does_not_matter(parameters):
    X, y = additive_function(50, 7, random_state=0)
    rng = np.random.default_rng(0)
    columns, rows = rng.permutation(7), rng.permutation(50)
    plain = fitted(X, y, rho=10.0, **parameters)
    moved = fitted(X[:, columns], y, rho=10.0, **parameters)
    size = np.abs(y).max()
    assert_allclose(moved.maximal_variation_, plain.maximal_variation_[columns], atol=1e-6 * size)
    assert_allclose(moved.predict(X[:, columns]), plain.predict(X), atol=1e-5 * size)
    shuffled = fitted(X[rows], y[rows], rho=10.0, **parameters)
    assert_allclose(shuffled.maximal_variation_, plain.maximal_variation_, atol=1e-6 * size)
    assert_allclose(shuffled.predict(X), plain.predict(X), atol=1e-5 * size)


# ---- predictions ---------------------------------------------------------------------------------


@over_choices
def test_component_functions_add_up(parameters):
    X, y = additive_function(40, 6, random_state=0)
    points = additive_function(23, 6, random_state=9)[0]
    model = fitted(X, y, rho=8.0, **parameters)
    values = model.component_functions(points)
    assert values.shape == (23, 6)
    assert_allclose(values.sum(axis=1) + model.bias_, model.predict(points), atol=1e-8 * np.abs(y).max())
    moved = points.copy()
    moved[:, 2] = 0.5
    changed = np.abs(model.component_functions(moved) - values).max(axis=0) > 0.0
    assert_array_equal(changed, np.arange(6) == 2)
    if not model.refit:
        training = model.component_functions(X)
        assert_allclose(np.abs(training).max(axis=0), model.maximal_variation_, atol=1e-6 * np.abs(y).max())


def test_decoupled_predictions_by_brute_force():
    X, y = additive_function(30, 5, random_state=0)
    points = additive_function(7, 5, random_state=9)[0]
    model = fitted(X, y, rho=4.0, expansion="decoupled", ridge=0.2)
    assert model.support_values_.shape == (30, 5)
    expected = np.full(7, model.bias_)
    for at, x in enumerate(points):
        for part in range(5):
            for i in range(30):
                expected[at] += model.support_values_[i, part] * np.exp(-((X[i, part] - x[part]) ** 2))
    assert_allclose(model.predict(points), expected, rtol=1e-8)


def test_shared_predictions_by_brute_force():
    """:equation [Pelckmans2005]_ (30): against the sum written out."""
    X, y = additive_function(30, 5, random_state=0)
    points = additive_function(7, 5, random_state=9)[0]
    model = fitted(X, y, rho=4.0)
    distances = (points[:, None, :] - X[None, :, :]) ** 2
    expected = np.exp(-distances).sum(axis=2) @ model.support_values_ + model.bias_
    assert_allclose(model.predict(points), expected, atol=1e-7 * np.abs(y).max())


# ---- selection -----------------------------------------------------------------------------------


def test_support_names_and_transform():
    X, y = additive_function(80, 8, random_state=0)
    names = [f"input {k}" for k in range(1, 9)]
    frame = pd.DataFrame(X, columns=names)
    model = fitted(frame, y, rho=10.0, relevance=0.1)
    assert_array_equal(model.get_support(), [True] * 4 + [False] * 4)
    assert_array_equal(model.get_support(indices=True), [0, 1, 2, 3])
    assert_array_equal(model.get_feature_names_out(), names[:4])
    assert_array_equal(model.transform(frame), X[:, :4])
    out = clone(model).set_output(transform="pandas").fit(frame, y).transform(frame)
    assert list(out.columns) == names[:4]
    assert_array_equal(out.to_numpy(), X[:, :4])
    assert_array_equal(model.inverse_transform(X[:, :4])[:, 4:], 0.0)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[names[::-1]])


def test_the_tolerance_is_a_share_of_the_largest():
    X, y = additive_function(80, 8, random_state=0)
    model = fitted(X, y, rho=10.0)
    share = model.maximal_variation_ / model.maximal_variation_.max()
    for relevance in (0.0, 0.03, 0.2, 0.9):
        assert_array_equal(model.get_support(relevance), share > relevance)
        assert_array_equal(clone(model).set_params(relevance=relevance).fit(X, y).get_support(), share > relevance)
    assert not model.get_support(1.0).any()


@pytest.mark.parametrize("wrong", [-0.1, np.nan, "much"])
def test_a_bad_tolerance_is_refused(wrong):
    X, y = additive_function(30, 4, random_state=0)
    with pytest.raises(DeclarationError, match="relevance must be"):
        fitted(X, y).get_support(wrong)


def test_groups_of_columns():
    X, y = additive_function(60, 6, random_state=0)
    kernel = Componentwise({0: RBF(1.0), (1, 2): RBF(1.0), 3: Linear(), (4, 5): RBF(1.0)})
    model = fitted(X, y, kernel, rho=8.0, relevance=0.15)
    assert model.maximal_variation_.shape == (4,)
    assert model.component_functions(X).shape == (60, 4)
    assert_array_equal(model.get_support(), [True, True, True, True, False, False])
    grams = [RBF(1.0)(X[:, [0]]), RBF(1.0)(X[:, [1, 2]]), Linear()(X[:, [3]]), RBF(1.0)(X[:, [4, 5]])]
    assert_allclose(model.maximal_variation_, maximal_variation.closed_form(grams, y, 8.0)["maximal_variation"])
    refitted = fitted(X, y, kernel, rho=8.0, relevance=0.15, refit=True)
    assert_array_equal(refitted.component_support_, [True, True, True, False])


def test_an_input_in_two_components_needs_one_that_varies():
    X, y = additive_function(60, 5, random_state=0)
    kernel = Componentwise({0: RBF(1.0), 1: RBF(1.0), 2: RBF(1.0), 3: RBF(1.0), (0, 4): Linear()})
    model = fitted(X, y, kernel, rho=10.0)
    model.maximal_variation_ = np.array([1.0, 0.5, 0.1, 0.5, 0.2])
    assert_array_equal(model.get_support(0.3), [True, True, False, True, False])
    model.maximal_variation_ = np.array([0.2, 0.5, 0.1, 0.5, 1.0])
    assert_array_equal(model.get_support(0.3), [True, True, False, True, True])


def test_it_selects_in_a_pipeline():
    X, y = additive_function(80, 8, random_state=0)
    points, targets = additive_function(200, 8, noise=0.0, random_state=5)
    chosen = MaximalVariationRegressor(RBF(1.0), rho=10.0, relevance=0.1)
    pipeline = make_pipeline(chosen, LSSVMRegressor(RBF(1.0), gamma=10.0)).fit(X, y)
    assert pipeline[-1].n_features_in_ == 4
    alone = LSSVMRegressor(RBF(1.0), gamma=10.0).fit(X[:, :4], y)
    assert_allclose(pipeline.predict(points), alone.predict(points[:, :4]), rtol=1e-10)
    assert pipeline.score(points, targets) > 0.8


def test_kernels_that_name_columns_are_not_for_every_input():
    X, y = additive_function(30, 4, random_state=0)
    with pytest.raises(DeclarationError, match="names columns and cannot be the kernel of every input"):
        MaximalVariationRegressor(RBF(1.0).on(0) + Linear()).fit(X, y)
    model = fitted(X, y, RBF(1.0).on(0, 2), rho=1.0)
    assert model.maximal_variation_.shape == (1,)
    assert_array_equal(model.get_support(), [True, False, True, False])
    with pytest.raises((DeclarationError, DataError), match="precomputed"):
        MaximalVariationRegressor("precomputed").fit(np.eye(30), y)
    with pytest.raises(DeclarationError, match="precomputed"):
        componentwise_machine("precomputed")


# ---- refit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, {"expansion": "decoupled", "ridge": 0.1}], ids=str)
def test_a_refit_is_the_componentwise_ls_svm_on_the_inputs_that_matter(parameters):
    X, y = additive_function(80, 8, random_state=0)
    order = [7, 2, 6, 0, 5, 3, 1, 4]  # what matters is neither first nor in one piece
    X, points = X[:, order], additive_function(25, 8, random_state=9)[0][:, order]
    model = fitted(X, y, rho=10.0, relevance=0.1, refit=True, gamma=20.0, **parameters)
    chosen = model.get_support(indices=True)
    assert_array_equal(np.flatnonzero(model.component_support_), chosen)
    assert_array_equal(chosen, [1, 3, 5, 6])
    alone = componentwise_machine(RBF(1.0), gamma=20.0).fit(X[:, chosen], y)
    assert_allclose(model.predict(points), alone.predict(points[:, chosen]), rtol=1e-9)
    assert_allclose(
        model.component_functions(points)[:, chosen], alone.component_functions(points[:, chosen]), rtol=1e-6
    )
    assert_array_equal(np.delete(model.component_functions(points), chosen, axis=1), 0.0)
    unfitted = fitted(X, y, rho=10.0, relevance=0.1, **parameters)
    assert_allclose(model.maximal_variation_, unfitted.maximal_variation_, atol=1e-12)
    names = {row.name for row in model.certificate_.rows}
    assert {"selection: accuracy", "(27a) stationarity"} <= names


def test_a_refit_on_nothing_is_the_mean():
    X, y = additive_function(40, 5, random_state=0)
    model = fitted(X, y, rho=1e5, refit=True)
    assert not model.component_support_.any()
    assert_allclose(model.predict(X), y.mean())
    assert_array_equal(model.component_functions(X), np.zeros((40, 5)))


# ---- classification ------------------------------------------------------------------------------


def two_classes(n=60, d=6, seed=0):
    X, y = additive_function(n, d, random_state=seed)
    return X, np.where(y > np.median(y), "high", "low")


def test_two_classes_are_the_fast_path():
    X, labels = two_classes()
    model = MaximalVariationClassifier(RBF(1.0), rho=2.0).fit(X, labels)
    assert model.certificate_.holds, str(model.certificate_)
    y = model.support_codes_
    assert_array_equal(y, np.where(labels == model.classes_[1], 1.0, -1.0))
    fast = maximal_variation.closed_form(matrices(RBF(1.0), X), y, 2.0, "classification")
    assert_allclose(model.maximal_variation_, fast["maximal_variation"], rtol=1e-9)
    assert_allclose(1.0 - y * model.decision_function(X), fast["errors"], atol=1e-6)
    values = model.component_functions(X)
    assert_allclose(values.sum(axis=1) + model.bias_, model.decision_function(X), atol=1e-8)
    assert model.score(X, labels) > 0.8
    assert set(np.argsort(-model.maximal_variation_)[:3]) <= RELEVANT


def test_swapped_labels_are_the_mirrored_machine():
    X, labels = two_classes()
    plain = MaximalVariationClassifier(RBF(1.0), rho=2.0).fit(X, labels == "high")
    mirrored = MaximalVariationClassifier(RBF(1.0), rho=2.0).fit(X, labels == "low")
    assert_allclose(mirrored.decision_function(X), -plain.decision_function(X), atol=1e-6)
    assert_allclose(mirrored.maximal_variation_, plain.maximal_variation_, atol=1e-7)


@pytest.mark.parametrize("coding", ["one_vs_rest", "minimum_output", "ecoc"])
@pytest.mark.parametrize("parameters", [{}, {"expansion": "decoupled", "ridge": 0.5}, {"refit": True}], ids=str)
@pytest.mark.some_cases(6)
def test_every_coding_is_a_machine_a_column(coding, parameters):
    X, labels = make_blobs(48, n_features=3, centers=4, random_state=2)
    X = np.column_stack([X, np.random.default_rng(0).normal(size=48)])
    kernel = RBF(4.0)
    model = MaximalVariationClassifier(kernel, rho=0.5, coding=coding, **parameters).fit(X, labels)
    assert model.certificate_.holds, str(model.certificate_)
    assert model.score(X, labels) > 0.9
    machines = model.code_book_.shape[1]
    assert model.maximal_variation_.shape == (machines, 4)
    values, decisions = model.component_functions(X), np.empty((48, machines))
    assert values.shape == (48, 4, machines)
    for machine in range(machines):
        codes = model.code_book_[labels, machine]
        rows = codes != 0.0
        # the machine of one column alone, as a two-class problem; its refit takes the components of all machines
        alone = MaximalVariationClassifier(kernel, rho=0.5, **{**parameters, "refit": False}).fit(X[rows], codes[rows])
        assert_allclose(model.maximal_variation_[machine], alone.maximal_variation_, atol=1e-7)
        decisions[:, machine] = values[:, :, machine].sum(axis=1) + model.bias_[machine]
        if not model.refit:
            assert_allclose(decisions[:, machine], alone.decision_function(X), atol=1e-6)
    supported = model.maximal_variation_.max(axis=0)
    assert_array_equal(model.get_support(0.2), supported > 0.2 * supported.max())


def test_a_refitted_classifier_is_the_componentwise_one_on_its_inputs():
    X, labels = two_classes(80, 8)
    model = MaximalVariationClassifier(RBF(1.0), rho=2.0, relevance=0.4, refit=True, gamma=3.0).fit(X, labels)
    chosen = model.get_support(indices=True)
    assert 0 < chosen.size < 8
    alone = componentwise_classifier(RBF(1.0), gamma=3.0).fit(X[:, chosen], labels)
    assert_allclose(model.decision_function(X), alone.decision_function(X[:, chosen]), rtol=1e-8)


def test_a_refitted_classifier_without_components_is_the_balance_of_its_labels():
    X, labels = two_classes()
    labels[:10] = "low"
    model = MaximalVariationClassifier(RBF(1.0), rho=1e4, refit=True).fit(X, labels)
    share = np.mean(np.where(labels == model.classes_[1], 1.0, -1.0))
    assert_allclose(model.decision_function(X), share)


# ---- your own machines -----------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [RBF(1.0), Linear()], ids=repr)
def test_a_machine_with_maximal_variation_is_the_estimator(kernel):
    X, y = additive_function(30, 4, random_state=0)
    s = Substrate(Componentwise(kernel), X, y)
    rho = cp.Parameter(nonneg=True, name="rho")
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))
    for value in (0.5, 8.0):
        result = machine.solve(rho=value)
        assert result.certificate.holds, str(result.certificate)
        model = fitted(X, y, kernel, rho=value)
        size = np.abs(y).max()
        assert_allclose(result.maximal_variation, model.maximal_variation_, atol=1e-5 * size)
        assert_allclose(result.predict(X), model.predict(X), atol=1e-5 * size)
        for part in range(4):
            assert_allclose(result.component(part, X), model.component_functions(X)[:, part], atol=1e-4 * size)


def test_the_sibling_with_a_sum_of_norms_shrinks_whole_components():
    """The group lasso: ||f^l||_2 in place of max|f^l|; against the same problem in the inputs themselves."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    y = X[:, 0] - 2.0 * X[:, 1] + 0.3 * rng.normal(size=40)
    s = Substrate(Componentwise(Linear()), X, y)
    rho = cp.Parameter(nonneg=True, name="rho")
    norms = cp.sum(cp.hstack([cp.norm(s.component(part)) for part in range(6)]))
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * norms)
    result = machine.solve(rho=2.0)
    assert result.certificate.holds, str(result.certificate)
    lasso = Lasso(alpha=2.0 / 40, tol=1e-13, max_iter=100000).fit(X / np.linalg.norm(X, axis=0), y)
    found = np.array([np.linalg.norm(result.component(part, X)) for part in range(6)])
    assert_allclose(found, np.abs(lasso.coef_), atol=1e-4)
    assert (found[lasso.coef_ == 0.0] < 1e-4).all()
    assert (lasso.coef_ == 0.0).any()


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [MaximalVariationRegressor, MaximalVariationClassifier])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rho": 0.0}, "rho must be"),
        ({"rho": True}, "rho must be"),
        ({"ridge": -1.0}, "ridge must be"),
        ({"cutoff": 0.0}, "cutoff must be"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"expansion": "both"}, "expansion must be 'shared' or 'decoupled', received 'both'"),
        ({"expansion": "decoupled"}, r"add a ridge \(ridge=0.1\)"),
    ],
    ids=str,
)
def test_bad_choices_are_refused(estimator, parameters, message):
    X, labels = two_classes(12, 4)
    y = labels if estimator is MaximalVariationClassifier else np.arange(12.0)
    with pytest.raises(DeclarationError, match=message):
        estimator(**{"kernel": RBF(1.0), **parameters}).fit(X, y)


def test_pairs_of_inputs_are_components_of_the_second_order(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(60, 3))
    y = np.sin(3.0 * X[:, 0]) + 2.0 * X[:, 1] * X[:, 2]
    model = fitted(X, y, Componentwise(RBF(1.0), order=2), rho=1.0)
    assert model.maximal_variation_.shape == (6,)
    assert model.maximal_variation_.argmax() == 5, "the pair of the last two"
    assert_allclose(model.component_functions(X).sum(axis=1) + model.bias_, model.predict(X), atol=1e-9)
    assert_array_equal(model.get_support(), True)
    model.save(tmp_path / "pairs.npz")
    again = load(tmp_path / "pairs.npz")
    assert again.kernel_ == model.kernel_
    assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(DataError, match="use order=3 or less"):
        MaximalVariationRegressor(Componentwise(RBF(1.0), order=4)).fit(X, y)


def test_directions_that_rounding_turns_are_counted():
    """Of a kernel this wide the smallest direction that is kept is known to eight digits less than its values."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(30, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=30)
    assert MaximalVariationRegressor(RBF(3.0), rho=0.1).fit(X, y).certificate_.holds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # whether its active set settles is decided by rounding
        wide = MaximalVariationRegressor(RBF(1e3), rho=0.1).fit(X, y).certificate_
    assert wide.accuracy >= 1e-5 * wide.spread
