"""A model can be fitted again, interrupted, cloned, stored and searched over, as any estimator of scikit-learn."""

import copy

import numpy as np
import pandas as pd
import pytest
from every_model import (
    KERNELED,
    MULTI_OUTPUT,
    PAIRWISE,
    SIGMA,
    WEIGHTED,
    WITH_GAMMA,
    WITH_SOLVER,
    assert_unfitted,
    make_data,
    make_estimator,
    output,
    over_estimators,
    over_kerneled,
    over_pairwise,
    parameters_of,
    seeded,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from spoilt_values import raises, with_entry

from substrate.errors import SubstrateError
from substrate.kernels import RBF, Linear, Precomputed


@pytest.mark.filterwarnings("ignore:.*gap of gamma:sklearn.exceptions.ConvergenceWarning")  # of a few rows
@over_estimators
def test_fitting_twice_replaces_everything(estimator):
    X, y = make_data(estimator)
    other, target = make_data(estimator, n=17, columns=2, seed=5)
    model = seeded(estimator).fit(pd.DataFrame(X, columns=list("abc")), y, **weight(estimator, y))
    model.fit(other, target)
    fresh = seeded(estimator).fit(other, target)
    assert set(vars(model)) == set(vars(fresh))
    assert_array_equal(output(model, other), output(fresh, other))
    if estimator in PAIRWISE:
        K = RBF(SIGMA)(X)
        model.set_params(kernel=Precomputed()).fit(K, y)
        assert set(vars(model)) == set(vars(seeded(estimator, kernel=Precomputed()).fit(K, y)))


def weight(estimator, y):
    return {"sample_weight": np.linspace(0.5, 2.0, len(y))} if estimator in WEIGHTED else {}


@over_estimators
def test_a_fit_that_fails_leaves_nothing_of_the_one_before(estimator):
    X, y = make_data(estimator)
    spoilt = with_entry(X, np.nan)
    failures = [({}, spoilt, y), ({}, X, y[:-1])]
    failures += [({"gamma": -1.0}, X, y)] if estimator in WITH_GAMMA else []
    failures += [({"kernel": raises}, X, y), ({"kernel": "nonsense"}, X, y)] if estimator in KERNELED else []
    failures += [({"solver": "nonsense"}, X, y)] if estimator in WITH_SOLVER else []
    fitted = make_estimator(estimator).fit(X, y)
    for parameters, rows, target in failures:
        model = copy.deepcopy(fitted)
        model.set_params(**parameters)
        with pytest.raises((ValueError, SubstrateError)):
            model.fit(rows, target)
        assert_unfitted(model)
        with pytest.raises(NotFittedError):
            model.predict(X)


def interrupted(X, Z):
    raise KeyboardInterrupt


@over_kerneled
def test_an_interrupt_goes_through_and_leaves_the_model_unfitted(estimator):
    X, y = make_data(estimator)
    model = make_estimator(estimator).fit(X, y)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(kernel=interrupted).fit(X, y)
    assert_unfitted(model)


@over_kerneled
def test_parameters_of_the_kernel(estimator):
    X, y = make_data(estimator)
    model = make_estimator(estimator)
    kernel = model.kernel
    assert model.get_params()["kernel__sigma"] == SIGMA
    model.set_params(kernel__sigma=0.3)
    assert model.kernel == RBF(0.3)
    assert kernel == RBF(SIGMA), "the kernel itself is a value and did not change"
    assert_array_equal(output(model.fit(X, y), X), output(seeded(estimator, kernel=RBF(0.3)).fit(X, y), X))
    assert seeded(estimator, kernel="rbf").set_params(kernel__sigma=2.0).kernel == RBF(2.0)
    assert estimator().set_params(kernel=RBF(1.0) + Linear(), kernel__left__sigma=4.0).kernel == RBF(4.0) + Linear()
    with pytest.raises(ValueError, match="no parameter 'sigma'"):
        seeded(estimator, kernel=Linear()).set_params(kernel__sigma=1.0)
    with pytest.raises(ValueError, match="sigma"):
        seeded(estimator, kernel=RBF(1.0)).set_params(kernel__sigma=-1.0)


# the widest of these kernels is so smooth that double precision cannot tell every answer
@pytest.mark.filterwarnings("ignore:.*certificate does not hold:sklearn.exceptions.ConvergenceWarning")
@over_kerneled
@pytest.mark.parametrize(("kernel", "scaled"), [("rbf", False), (RBF(5.0), False), (RBF(5.0), True)], ids=str)
def test_grid_search_reaches_the_kernel(estimator, kernel, scaled):
    X, y = make_data(estimator, n=40)
    model = seeded(estimator, kernel=kernel)
    name = "model__kernel__sigma" if scaled else "kernel__sigma"
    if scaled:
        model = Pipeline([("scaler", StandardScaler()), ("model", model)])
    search = GridSearchCV(model, {name: [0.3, 1.0, 30.0]}, cv=2).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    # shares of right answers, of few rows, may coincide
    distinct = 2 if is_classifier(estimator()) else 3
    assert np.unique(np.round(scores, 6)).size >= distinct, scores
    chosen = RBF(search.best_params_[name])
    best = search.best_estimator_["model"] if scaled else search.best_estimator_
    assert best.kernel_ == estimator(kernel=chosen)._own_kernel()


@over_pairwise
@pytest.mark.parametrize("kernel", ["precomputed", Precomputed(), 2.0 * Precomputed()], ids=repr)
def test_cross_validation_cuts_a_precomputed_matrix_both_ways(estimator, kernel):
    X, y = make_data(estimator, n=40)
    factor = 0.5 if kernel == 2.0 * Precomputed() else 1.0
    # a range that nobody gives ends where rounding hides what is beyond, and a given matrix has none
    ranges = {name: (1e-3, 1e3) for name in ("gamma_range",) if name in parameters_of(estimator)}
    given = cross_val_score(seeded(estimator, kernel=kernel, **ranges), factor * RBF(SIGMA)(X), y, cv=2)
    expected = cross_val_score(seeded(estimator, kernel=RBF(SIGMA), **ranges), X, y, cv=2)
    assert_allclose(given, expected, rtol=1e-8)


@pytest.mark.parametrize("estimator", [estimator for estimator in MULTI_OUTPUT if estimator in WITH_GAMMA])
@pytest.mark.parametrize("solver", ["auto", "cg"])
def test_several_outputs_are_several_fits(estimator, solver):
    X, y = make_data(estimator)
    Y = np.column_stack([y, 1e3 * np.cos(y), y**2])
    gammas = [0.5, 20.0, 0.5]
    choice = {"solver": solver} if estimator in WITH_SOLVER else {}
    model = make_estimator(estimator, gamma=gammas, **choice).fit(X, Y, **weight(estimator, y))
    assert model.predict(X).shape == Y.shape
    assert model.certificate_.holds
    for column, gamma in enumerate(gammas):
        alone = make_estimator(estimator, gamma=gamma, **choice).fit(X, Y[:, column], **weight(estimator, y))
        scale = np.abs(Y[:, column]).max()
        assert_allclose(
            model.predict(X)[:, column], alone.predict(X), atol=(1e-9 if solver == "auto" else 1e-6) * scale
        )
    for wrong in ([1.0], [1.0, 2.0], [1.0, 2.0, -3.0]):
        with pytest.raises(ValueError, match="gamma"):
            make_estimator(estimator, gamma=wrong, **choice).fit(X, Y)
