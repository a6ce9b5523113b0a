"""Maximal variation on a reduced basis: declared = by generated rows, bounds at all rows, and inputs that vanish."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import MaximalVariationRegressor, SparseMaximalVariationRegressor, load
from problems.reduced_maximal_variation import closed_form, declare
from substrate.errors import DeclarationError, SolverError
from substrate.fits import variation_on_a_basis as reduced_variation
from substrate.fits.component_features import ComponentFeatures
from substrate.fits.variation import solve_on_rows
from substrate.fits.variation_on_a_basis import VariationRows, VariationSweep, solve_reduced_variation
from substrate.kernels import RBF, Componentwise, Linear, Precomputed
from substrate.reduced import Basis
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.streaming.rows import Block

RNG = np.random.default_rng(9)
X = RNG.uniform(-1.0, 1.0, size=(150, 4))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=150)
KERNEL = Componentwise(RBF(0.7))
PARTS = KERNEL.components(4)
S = np.arange(0, 150, 6)


def rows_of(X=X, y=Y, points=X[S], cutoff=1e-6):
    features = ComponentFeatures.of([KernelValues(k, points) for k in PARTS], [k(points) for k in PARTS], cutoff)
    given = KernelRows.of(Precomputed(), X, S, y[:, None])
    return VariationRows(features, given.source, given.target_summary(), 1.0, points)


def model(rho=5.0, **parameters):
    return SparseMaximalVariationRegressor(KERNEL, rho, ridge=0.5, **{"basis": S, **parameters})


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


def test_few_rows_are_bounded_and_the_bounds_hold_at_all():
    solved = solve_reduced_variation(rows_of(), 5.0, 0.5, 1e-6)
    features = rows_of().values
    values = features.split(features.matrix(X)) @ solved.v
    assert len(solved.numbers) < 100
    assert (np.abs(values).max(axis=1) <= solved.maximal_variation + 1e-9).all()
    assert_allclose(np.abs(values).max(axis=1), solved.maximal_variation, atol=1e-9)
    assert all(row.passes for row in solved.rows)


def test_a_row_far_out_is_found():
    """One row among many, at an input that no other has, raises the maximal variation and is bounded for it."""
    far = np.vstack([X, [[3.0, 0.0, 0.0, 0.0]]])
    y = np.append(Y, Y.mean())
    found = solve_reduced_variation(rows_of(far, y, far[[*S, 150]]), 5.0, 0.5, 1e-6)
    features = rows_of(far, y, far[[*S, 150]]).values
    values = features.split(features.matrix(far)) @ found.v
    assert (np.abs(values).max(axis=1) <= found.maximal_variation + 1e-9).all()


def test_rows_that_are_still_joining_are_no_solution(monkeypatch):
    monkeypatch.setattr(reduced_variation, "_ROUNDS", 1)
    monkeypatch.setattr(reduced_variation, "_JOIN", 1)
    with pytest.raises(SolverError, match="after 1 rounds"):
        solve_reduced_variation(rows_of(), 5.0, 0.5, 1e-6)


def test_the_check_sees_bounds_that_do_not_hold(monkeypatch):
    """A sweep that misses the rows above their bounds still measures them."""
    honest = reduced_variation._join_rows
    calls = []

    def blind(bounded, swept):
        calls.append(1)
        return honest(bounded, swept) if len(calls) == 1 else {}

    monkeypatch.setattr(reduced_variation, "_JOIN", 1)
    monkeypatch.setattr(reduced_variation, "_join_rows", blind)
    solved = solve_reduced_variation(rows_of(), 5.0, 0.5, 1e-6)
    wrong = {row.name for row in solved.rows if not row.passes}
    assert "(27d) bounds at all rows" in wrong


def test_the_sweep_keeps_the_rows_furthest_above():
    features = rows_of().values
    v = RNG.normal(size=features.n_basis)
    Z = features.matrix(X)
    values = np.column_stack([Z[:, place] @ v[place] for place in features.slices])
    bounds = 0.3 * np.abs(values).max(axis=0)
    sweep = VariationSweep(features, 2.0, v, 0.25, bounds, 3)
    blocks = [Block(X[start : start + 40], Y[start : start + 40, None], start) for start in range(0, 150, 40)]
    swept = sum(map(sweep, blocks[1:]), start=sweep(blocks[0]))
    above = np.concatenate([values - bounds, -values - bounds], axis=1)
    for place in range(8):
        order = np.argsort(-above[:, place], kind="stable")[:3]
        expected = [row for row in order if above[row, place] > 0.0]
        assert swept.above.number[swept.above.place == place].tolist() == expected
    assert_array_equal(swept.above.features, Z[swept.above.number])
    errors = Y / 2.0 - values.sum(axis=1) - 0.25
    assert_allclose(swept.slope, Z.T @ errors, atol=1e-10)
    assert_allclose([swept.total, swept.squares], [errors.sum(), errors @ errors])
    assert_allclose(swept.largest, np.abs(values).max(axis=0))
    parts = sweep(blocks[0]) + (sweep(blocks[1]) + (sweep(blocks[2]) + sweep(blocks[3])))
    assert_array_equal(parts.above.number, swept.above.number)


# --- the estimator --------------------------------------------------------------------------------------------------


def test_inputs_that_do_not_matter_vanish_exactly():
    fitted = model(10.0).fit(X, Y)
    assert fitted.certificate_.holds
    assert_array_equal(fitted.get_support(indices=True), [0, 1])
    assert_array_equal(fitted.maximal_variation_[2:], 0.0)
    assert np.abs(fitted.component_functions(X)[:, 2:]).max() < 1e-9


def test_a_large_weight_leaves_the_bias():
    fitted = model(1e4).fit(X, Y)
    assert not fitted.maximal_variation_.any()
    assert_allclose(fitted.predict(X), Y.mean(), atol=1e-9)
    assert fitted.certificate_.holds


def test_units_of_the_target_do_not_matter():
    plain, large = model().fit(X, Y), model(5e200).fit(X, 1e200 * Y)
    assert_allclose(large.predict(X), 1e200 * plain.predict(X), rtol=1e-6)


def test_kernels_of_finite_rank_and_files(tmp_path):
    fitted = SparseMaximalVariationRegressor(Linear(), 5.0, ridge=0.1, basis=Basis(20, random_state=0)).fit(X, Y)
    fitted.save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    assert_array_equal(back.predict(X), fitted.predict(X))
    assert_allclose(fitted.predict([X]), fitted.predict(X), atol=1e-12)


@pytest.mark.parametrize("name", ["rho", "ridge", "cutoff"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, "much", None])
def test_bad_weights_are_refused(name, value):
    with pytest.raises(DeclarationError, match=name):
        SparseMaximalVariationRegressor(**{name: value}).fit(X, Y)


def test_few_rows_bound_few_directions():
    """Where the bounded rows all vanish, what they do not see is fitted freely."""
    parts = np.zeros((2, 1, 5))
    parts[0, 0, :3], parts[1, 0, 3:] = [1.0, 2.0, 0.0], [0.5, 1.0]
    target = np.array([1.0, -1.0, 2.0, 0.5, 0.3])
    rows = parts[:, 0]
    free = target - rows.T @ np.linalg.solve(rows @ rows.T, rows @ target)
    found = solve_on_rows(parts, np.eye(5), target, 100.0)
    assert_allclose(found.point.u, free, atol=1e-8)
    assert_allclose(target - np.tensordot(found.point.xi, parts, 2), free, atol=1e-8)
