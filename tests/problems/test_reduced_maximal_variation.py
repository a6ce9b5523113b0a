"""Maximal variation on a reduced basis: declared = by generated rows, bounds at all rows, and inputs that vanish."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import MaximalVariationClassifier, MaximalVariationRegressor
from problems.reduced_maximal_variation import closed_form, declare
from substrate.errors import DeclarationError
from substrate.fits.variation import VariationPoint, polish
from substrate.kernels import RBF, Componentwise

RNG = np.random.default_rng(9)
X = RNG.uniform(-1.0, 1.0, size=(150, 4))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=150)
KERNEL = Componentwise(RBF(0.7))
PARTS = KERNEL.components(4)
S = np.arange(0, 150, 6)


def model(rho=5.0, **parameters):
    chosen = {"kernel": KERNEL, "basis": S, "expansion": "decoupled", "ridge": 0.5, **parameters}
    return MaximalVariationRegressor(rho=rho, **chosen)


# --- the problem ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.5, 10.0])
def test_declared_is_by_generated_rows(rho):
    few = slice(0, 60)
    K = [part(X[few]) for part in PARTS]
    declared = declare(K, Y[few], rho, ridge=0.5, basis=np.arange(0, 60, 5)).solve()
    certificate = declared.certificate(against=closed_form(K, Y[few], rho, ridge=0.5, basis=np.arange(0, 60, 5)))
    assert certificate.holds, str(certificate)
    assert declared.support_values.shape == (12, 4)


def test_on_all_points_it_is_the_decoupled_machine():
    whole = MaximalVariationRegressor(KERNEL, 5.0, expansion="decoupled", ridge=0.5).fit(X, Y)
    here = model(basis=np.arange(150)).fit(X, Y)
    assert_allclose(here.maximal_variation_, whole.maximal_variation_, atol=1e-8)
    assert_allclose(here.predict(X), whole.predict(X), atol=1e-8)
    assert_allclose(here.component_functions(X), whole.component_functions(X), atol=1e-8)


# --- bounds at all rows ---------------------------------------------------------------------------------------------


def test_the_bounds_hold_at_all_rows():
    solved = model().fit(X, Y)
    values = np.abs(solved.component_functions(X)).max(axis=0)
    assert_allclose(values, solved.maximal_variation_, atol=1e-8)
    assert solved.certificate_.holds


@pytest.mark.parametrize("expansion", ["shared", "decoupled"])
def test_of_many_rows_some_are_bounded_and_the_bounds_hold_at_all(expansion):
    many = RNG.uniform(-1.0, 1.0, size=(4000, 4))
    y = np.sin(3.0 * many[:, 0]) + many[:, 1] ** 2 + 0.1 * RNG.normal(size=4000)
    fitted = model(100.0, basis=12, expansion=expansion).fit(many, y)
    assert fitted.certificate_.holds, str(fitted.certificate_)
    assert (np.abs(fitted.component_functions(many)).max(axis=0) <= fitted.maximal_variation_ + 1e-8).all()
    assert set(fitted.get_support(indices=True)) >= {0, 1}


def test_classes_and_groups_take_a_basis():
    labels = np.where(Y > 0.6, "high", np.where(Y > 0.1, "middle", "low"))
    classes = MaximalVariationClassifier(KERNEL, 2.0, basis=S, expansion="decoupled", ridge=0.5).fit(X, labels)
    assert classes.certificate_.holds
    assert classes.certify(X, labels).holds
    assert classes.score(X, labels) > 0.7
    grouped = model([1.0, 50.0], groups=[[0, 1], [2, 3]]).fit(X, Y)
    assert grouped.certificate_.holds
    assert_array_equal(grouped.get_support(indices=True), [0, 1])


def test_a_refit_on_a_basis_is_refused():
    with pytest.raises(DeclarationError, match="leave one of them out"):
        model(refit=True).fit(X, Y)


# --- the estimator --------------------------------------------------------------------------------------------------


def test_inputs_that_do_not_matter_vanish_exactly():
    fitted = model(10.0).fit(X, Y)
    assert fitted.certificate_.holds
    assert_array_equal(fitted.get_support(indices=True), [0, 1])
    assert_array_equal(fitted.maximal_variation_[2:], 0.0)
    assert np.abs(fitted.component_functions(X)[:, 2:]).max() < 1e-9


@pytest.mark.parametrize("name", ["rho", "cutoff"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, "much", None])
def test_bad_weights_are_refused(name, value):
    with pytest.raises(DeclarationError, match=name):
        MaximalVariationRegressor(**{"basis": S, name: value}).fit(X, Y)


def test_few_rows_bound_few_directions():
    """Where the bounded rows all vanish, what they do not see is fitted freely."""
    parts = np.zeros((2, 1, 5))
    parts[0, 0, :3], parts[1, 0, 3:] = [1.0, 2.0, 0.0], [0.5, 1.0]
    target = np.array([1.0, -1.0, 2.0, 0.5, 0.3])
    rows = parts[:, 0]
    free = target - rows.T @ np.linalg.solve(rows @ rows.T, rows @ target)
    found = polish(parts, target, np.full(2, 100.0), VariationPoint(free, np.zeros((2, 1))))
    assert_allclose(found.u, free, atol=1e-8)
    assert_allclose(target - np.tensordot(found.xi, parts, 2), free, atol=1e-8)
