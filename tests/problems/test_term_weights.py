"""Weights of the terms of a sum: factors that are searched, and terms that the criterion does not need."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import ComponentwiseLSSVMRegressor, LSSVMClassifierCV, LSSVMRegressor, LSSVMRegressorCV, load
from problems.estimators.chosen.candidates import evaluate, over_candidates
from problems.estimators.chosen.tasks import Task
from problems.estimators.chosen.term_weights import weighed_starts, winner, with_factors, without_terms
from substrate.kernels import RBF, Componentwise, Linear, Precomputed
from substrate.kernels.terms import term_shares
from substrate.progress import Progress

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(50, 3))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * _RNG.normal(size=50)
#: Two terms that the data need, and one that they do not.
SUM = RBF(1.5).on(0) + Linear().on(1) + RBF(1.0).on(2)


def task(**changed):
    return Task(
        **{"X": X, "Y": Y[:, None], "criterion": "loo", "splits": (), "gammas": None, "gap": 1e-4, "pooled": False}
        | changed
    )


def dropped(start, most=20):
    return without_terms([start], task(), X, 50, most, Progress(most, shown=False))


@pytest.mark.parametrize(
    ("kernel", "written"),
    [
        (RBF(1.0) + 3.0 * Linear(), "2.0 * RBF(sigma=1.0) + 0.5 * Linear()"),
        (Componentwise([RBF(1.0), Linear()]), "Componentwise([RBF(sigma=1.0), Linear()], factors=(2.0, 0.5))"),
        (
            Componentwise([RBF(1.0), Linear()], factors=(1.0, 7.0)),
            "Componentwise([RBF(sigma=1.0), Linear()], factors=(2.0, 0.5))",
        ),
        (Componentwise([RBF(1.0), 3.0 * Linear()]), "Componentwise([2.0 * RBF(sigma=1.0), 0.5 * Linear()])"),
        (
            Componentwise({2: RBF(1.0) + Linear()}),
            "Componentwise([(2.0 * RBF(sigma=1.0)).on(2), (0.5 * Linear()).on(2)])",
        ),
        (2.0 * (RBF(1.0) + Linear()).on(1), "2.0 * RBF(sigma=1.0).on(1) + 0.5 * Linear().on(1)"),
    ],
    ids=str,
)
def test_factors_are_written_out(kernel, written):
    made = with_factors(kernel, [2.0, 0.5], 3)
    assert repr(made) == written
    terms = [term for _, term in kernel.terms(3)]
    assert made.terms(3) == ((2.0, terms[0]), (0.5, terms[1]))


def test_a_search_starts_from_the_given_factors_and_from_equal_shares():
    own, alike = weighed_starts(SUM + 1e12 * Linear(), X)
    assert_allclose(own(X), (SUM + 1e12 * Linear())(X))
    assert_allclose(term_shares(alike, X), 0.25)
    assert weighed_starts(RBF(1.0), X) == weighed_starts(Precomputed() + Precomputed(), np.eye(3)) == []
    with_constant = weighed_starts(RBF(1.0).on(0) + RBF(1.0).on(1), np.column_stack([X[:, 0], np.full(50, 0.1)]))
    assert with_constant == [1.0 * RBF(1.0).on(0) + 1.0 * RBF(1.0).on(1)]


def test_a_term_is_dropped_where_the_criterion_allows_it():
    start = evaluate(with_factors(SUM, [1.0, 1.0, 1.0], 3), task())
    found = dropped(start)
    best = winner([start, *found])
    assert [factor > 0.0 for factor, _ in best.kernel.terms(3)] == [True, True, False]
    assert best.price == (1.0 + np.log(50.0) / 50.0) ** 2  # a factor and a width
    assert best.score / best.price <= min(one.score / one.price for one in found)
    assert len(dropped(start, 1)) == 1
    assert dropped(evaluate(RBF(1.0), task())) == []


def test_a_term_that_is_needed_stays():
    start = evaluate(with_factors(RBF(1.5).on(0) + Linear().on(1), [1.0, 1.0], 3), task())
    assert winner([start, *dropped(start)]) is start


def test_of_two_equal_terms_one_goes():
    start = evaluate(with_factors(RBF(1.5) + RBF(1.5), [1.0, 1.0], 3), task())
    best = winner([start, *dropped(start)])
    assert sorted(factor for factor, _ in best.kernel.terms(3)) == [0.0, 1.0]


def test_the_bound_is_that_of_all_kernels_after_prices():
    good, worse = evaluate(SUM, task()), evaluate(RBF(3.0), task())
    assert winner([good, worse]) is good
    cheap = replace(worse, price=1.01 * worse.score / good.score)
    assert winner([good, cheap]) is cheap
    bound = over_candidates([good, cheap], cheap).bounds
    assert_allclose(bound, np.minimum(cheap.price * good.search.bounds, worse.search.bounds))
    assert 0.99 * worse.score <= float(bound[0]) <= worse.score


def test_many_terms_are_dropped_together():
    wide = np.random.default_rng(1).normal(size=(40, 6))
    y = np.sin(2.0 * wide[:, 0]) + 0.1 * np.random.default_rng(2).normal(size=40)
    asked = task(X=wide, Y=y[:, None])
    small = Componentwise(RBF(1.5), order=2, factors=[1.0] + [1e-6] * 20)
    start = evaluate(small, asked)
    found = without_terms([start], asked, wide, 40, 40, Progress(40, shown=False))
    assert winner([start, *found]).kernel.factors == (1.0,) + (0.0,) * 20
    assert len(found) <= 6


@pytest.fixture(scope="module")
def searched():
    return LSSVMRegressorCV(SUM, search="gradient", max_evaluations=30).fit(X, Y)


def test_a_useless_kernel_vanishes(searched):
    weights = searched.term_weights_
    assert [name.partition("(")[0] for name in weights] == ["RBF", "Linear", "RBF"]
    assert [share > 0.0 for share in weights.values()] == [True, True, False]
    assert searched.relevance_[2] == 0.0
    assert searched.certificate_.holds
    assert searched.criterion_lower_bound_ <= searched.criterion_ <= 1.001 * searched.criterion_lower_bound_
    chosen = searched.cv_results_["rank_test_score"].argmin()
    assert searched.cv_results_["param_kernel"][chosen] == searched.kernel_


def test_no_worse_than_weights_drawn_at_random(searched):
    """As by a random search over the simplex of the weights, each at its best gamma."""
    drawn = np.random.default_rng(0).dirichlet(np.ones(3), size=10).tolist()
    for kernel in (SUM, searched.kernel_):
        judged = [evaluate(with_factors(kernel, weights, 3), task()) for weights in drawn]
        random = min(one.score * one.search.unit**2 for one in judged)
        assert -searched.cv_results_["mean_test_score"].max() <= random
        assert (
            searched.criterion_ <= (1.0 + np.log(50.0) / 50.0) ** 2 * random
        )  # the price of the term that was dropped


def test_the_kernel_of_a_search_is_one_for_the_machines_of_components(tmp_path):
    model = LSSVMRegressorCV(Componentwise(RBF(), order=2), search="gradient", max_evaluations=12).fit(X, Y)
    kernel = model.kernel_
    assert isinstance(kernel, Componentwise)
    assert len(kernel.factors) == 6
    additive = ComponentwiseLSSVMRegressor(kernel, model.gamma_).fit(X, Y)
    assert_allclose(additive.predict(X), model.predict(X), atol=1e-6)
    assert_allclose(additive.maximal_variation_[np.array(kernel.factors) == 0.0], 0.0)
    model.save(tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").term_weights_ == model.term_weights_


@pytest.mark.slow
def test_classes_evidence_and_other_units():
    labels = np.where(Y > 0.0, "a", "b")
    model = LSSVMClassifierCV(SUM, search="gradient").fit(X, labels)
    assert list(model.term_weights_.values())[1] > 0.0
    units = np.array([1e6, 1e-6, 1.0])
    far = LSSVMRegressorCV(Componentwise(RBF()), search="gradient").fit(X * units, Y)
    near = LSSVMRegressorCV(Componentwise(RBF()), search="gradient").fit(X, Y)
    assert far.criterion_ == pytest.approx(near.criterion_, rel=0.05)
    evidence = LSSVMRegressorCV(SUM, search="gradient", cv="evidence").fit(X, Y)
    assert list(evidence.term_weights_.values())[2] == 0.0


def test_without_a_search_nothing_is_weighed():
    assert LSSVMRegressorCV(SUM).fit(X, Y).kernel_ == SUM
    assert LSSVMRegressor(SUM).fit(X, Y).kernel_ == SUM
