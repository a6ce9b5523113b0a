"""Structure detection: which inputs matter, exact zeros, selection as scikit-learn has it, refits, own machines."""

import warnings

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Lasso
from variants import componentwise_machine

from problems import (
    MaximalVariationClassifier,
    MaximalVariationRegressor,
    maximal_variation,
)
from substrate.datasets import additive_function
from substrate.errors import DeclarationError
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


@pytest.mark.parametrize(("n", "d"), [(80, 10), (100, 25)])
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


# ---- predictions ---------------------------------------------------------------------------------


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


# ---- classification ------------------------------------------------------------------------------


def two_classes(n=60, d=6, seed=0):
    X, y = additive_function(n, d, random_state=seed)
    return X, np.where(y > np.median(y), "high", "low")


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
