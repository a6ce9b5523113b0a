"""``fuse``: the global optimum over all values of a parameter, its proof, and what it refuses."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import splu

from substrate import Fusion, Machine, Substrate, fuse
from substrate.errors import DataError, DeclarationError
from substrate.fits.coordinates import shared_coordinates
from substrate.fits.l1 import solve_l1, zeta_max
from substrate.fits.variation import rho_max, solve_maximal_variation
from substrate.kernels import RBF, Componentwise, Linear

KERNEL, ATOMS = Componentwise(RBF(1.5)), RBF(1.0)


def case(n=20, d=3, n_val=12, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, d)), rng.uniform(-2.0, 2.0, size=(n_val, d))
    y, w = (np.sin(P[:, 0]) + 0.3 * P[:, 1] ** 2 + 0.4 * rng.normal(size=len(P)) for P in (X, V))
    return X, y, V, w


def variation_machine(X, y, kernel=KERNEL, **options):
    s = Substrate(kernel, X, y, **options)
    rho = cp.Parameter(nonneg=True, name="rho")
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation)), rho


def sparse_machine(X, y, kernel=ATOMS, **options):
    s = Substrate(kernel, X, y, **options)
    zeta = cp.Parameter(nonneg=True, name="zeta")
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha)), zeta


@pytest.fixture(scope="module")
def fused():
    """A fusion over maximal variation that several tests look at, its machine, and the states of its search."""
    X, y, V, w = case()
    machine, rho = variation_machine(X, y)
    seen = []
    best = fuse(machine, over=rho, validation=(V, w), gap=1e-3, progress=lambda *state: seen.append(state))
    return best, machine, np.array(seen), V, w


def variation_errors(X, y, V, w, grid, kernel=KERNEL):
    """The validation error at each rho by the fast path, which fuse does not use."""
    parts = kernel.components(X.shape[1])
    coordinates = shared_coordinates([part(X) for part in parts])
    below = sum(part(V, X) for part in parts)
    errors = []
    for rho in grid:
        v = solve_maximal_variation(coordinates, y, rho).v
        errors.append(np.mean((w - below @ coordinates.expand(v) - coordinates.bias_of(y, v)) ** 2))
    return np.array(errors), rho_max(coordinates, y)


def sparse_errors(X, y, V, w, grid, kernel=ATOMS):
    solved = [solve_l1(kernel(X), y, zeta) for zeta in grid]
    return np.array([np.mean((w - kernel(V, X) @ one.coefficients - one.bias) ** 2) for one in solved])


def assert_global(best, errors, gap):
    """No value of an independent grid is better than the answer by more than the gap, nor below the bound."""
    assert best.certificate.holds, str(best.certificate)
    assert best.validation_error <= errors.min() * (1.0 + gap)
    assert best.lower_bound <= errors.min()
    assert best.lower_bound <= best.validation_error
    assert best.gap <= gap
    assert best.path.stop == f"the gap of {gap:g} is met"


def test_maximal_variation_is_below_every_point_of_a_grid():
    X, y, V, w = case(n=16, seed=0)
    machine, rho = variation_machine(X, y)
    best = fuse(machine, over=rho, validation=(V, w), gap=1e-3)
    errors, top = variation_errors(X, y, V, w, np.geomspace(1e-4, 30.0, 60))
    assert_global(best, errors, 1e-3)
    inside = best.path.values[(best.path.values > 0.0) & (best.path.values < top)]
    between = np.concatenate([np.linspace(a, b, 6)[1:-1] for a, b in pairwise(inside)])
    dense, _ = variation_errors(X, y, V, w, np.sort(between)[:: max(between.size // 60, 1)])
    assert best.lower_bound <= dense.min()


def test_the_sparse_substrate_is_below_a_dense_grid():
    X, y, V, w = case(n=16, d=2, seed=0)
    machine, zeta = sparse_machine(X, y)
    best = fuse(machine, over=zeta, validation=(V, w), gap=1e-3)
    top = zeta_max(RBF(1.0)(X), y)
    grid = np.concatenate([np.linspace(1e-4, top, 60), np.geomspace(1e-5, 0.1 * top, 20)])
    assert_global(best, sparse_errors(X, y, V, w, grid), 1e-3)
    assert_allclose(best.validation_error, sparse_errors(X, y, V, w, [max(best.zeta, 1e-9)])[0], rtol=1e-5)


def test_the_answer_is_the_machine_at_its_value(fused):
    best, machine, _, V, w = fused
    assert isinstance(best, Fusion)
    assert best.rho == best.value
    again = machine.solve(rho=best.rho)
    assert_allclose(best.predict(V), again.predict(V), rtol=0.0, atol=1e-6)
    assert_array_equal(best.maximal_variation, best.result.maximal_variation)
    assert_array_equal(best.alpha, best.result.alpha)
    assert_allclose(np.mean((w - best.predict(V)) ** 2), best.validation_error, rtol=1e-4)
    with pytest.raises(AttributeError, match="no attribute 'gamma'"):
        best.gamma  # noqa: B018


def test_the_fourth_script_of_the_design():
    X, y, X_val, y_val = case(n=14, d=3)
    X_low, X_high = X.copy(), X.copy()
    X_high[:, 0] += 0.2
    s = Substrate(Componentwise(RBF(1.0)), X, y)
    rho = cp.Parameter(nonneg=True, name="rho")
    machine = Machine(
        s,
        minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation),
        subject_to=[s.f(X_low) <= s.f(X_high)],
    )
    best = fuse(machine, over=rho, validation=(X_val, y_val), gap=1e-3)
    assert best.lower_bound <= best.validation_error
    assert best.gap <= 1e-3
    assert best.certificate.holds, str(best.certificate)
    grid = [np.mean((y_val - machine.solve(rho=value).predict(X_val)) ** 2) for value in np.geomspace(1e-2, 20.0, 6)]
    assert best.validation_error <= min(grid) * (1.0 + 1e-3)
    assert best.lower_bound <= min(grid)
    assert best.path.values[0] == best.proved_on["rho"][0]
    pytest.importorskip("matplotlib").use("Agg")
    axes = best.plot()
    assert axes.get_xlabel() == "rho"
    assert [line.get_label() for line in axes.get_lines()][-1].startswith("lower bound, rho from 0.001 to ")


@pytest.mark.parametrize("factor", [1e9, 1e-9])
def test_targets_in_other_units(factor):
    X, y, V, w = case(n=12)
    plain = fuse(*variation_machine(X, y), validation=(V, w))
    scaled = fuse(*variation_machine(X, factor * y), validation=(V, factor * w))
    assert_allclose(scaled.rho, factor * plain.rho, rtol=1e-3)
    assert_allclose(scaled.validation_error, factor**2 * plain.validation_error, rtol=1e-4)
    assert scaled.certificate.holds, str(scaled.certificate)


# --- folds ----------------------------------------------------------------------------------------------------------


def thirds(n):
    rows = np.arange(n)
    return [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]


def build(X, y):
    return sparse_machine(X, y)[0]


def test_folds_minimise_their_sum():
    X, y, _, _ = case(n=12, d=2)
    best = fuse(build, over="zeta", data=(X, y), cv=thirds(12), gap=1e-3)
    grid = np.geomspace(1e-3, 10.0, 30)
    each = [sparse_errors(X[a], y[a], X[b], y[b], grid) * b.size for a, b in thirds(12)]
    errors = np.sum(each, axis=0) / 12
    assert best.validation_error <= errors.min() * (1.0 + 1e-3)
    assert best.lower_bound <= errors.min()
    assert best.certificate.holds, str(best.certificate)
    assert len(best.folds) == 3
    final = build(X, y).solve(zeta=best.zeta)
    assert_allclose(best.predict(X), final.predict(X), atol=1e-7)


@pytest.mark.parametrize(
    ("cv", "error", "words"),
    [
        ([], DataError, "gives no split"),
        (1, DataError, "a number of folds from 2 on, 'loo', a scikit-learn splitter or a list"),
        (True, DataError, "a number of folds from 2 on"),
        (2.5, DataError, "a number of folds from 2 on"),
        ("folds", DataError, "a number of folds from 2 on"),
        (13, DataError, "cv=13 does not split 12 rows"),
        ([1, 2], DataError, r"cv=\[1, 2\] does not split 12 rows into \(train, test\)"),
        ([(np.arange(6), np.arange(5, 9))], DataError, "trains on row 5 and validates on it"),
        ([(np.arange(6), np.arange(0))], DataError, "test must be row numbers, at least one"),
        ([(np.arange(0), np.arange(3))], DataError, "train must be row numbers, at least one"),
        ([(np.arange(6), np.array([11, 12]))], DataError, "names row 12 of 12"),
        ([(np.arange(6), np.array([-1]))], DataError, "names row -1 of 12"),
        ([(np.ones(12, dtype=bool), np.arange(2))], DataError, "row numbers"),
    ],
)
def test_folds_that_make_no_sense_are_refused(cv, error, words):
    X, y, _, _ = case(n=12, d=2)
    with pytest.raises(error, match=words):
        fuse(build, over="zeta", data=(X, y), cv=cv)


# --- where no chord proves anything ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["huber", "pinball"])
def test_losses_without_squares_are_proved_over_a_range(loss, monkeypatch):
    """Nor is a matrix with rows of zeros factored, which crashes SuperLU now and then."""

    def factor_checked(matrix):
        assert (abs(matrix).sum(axis=1) > 0.0).all()
        return splu(matrix)

    monkeypatch.setattr("substrate.declare.program.splu", factor_checked)
    X, y, V, w = case(n=14, d=2)
    s = Substrate(RBF(1.0), X, y)
    zeta = cp.Parameter(nonneg=True, name="zeta")
    costs = {"huber": 0.5 * cp.sum(cp.huber(s.e, 0.3)), "pinball": cp.sum(cp.maximum(0.7 * s.e, -0.3 * s.e))}
    machine = Machine(s, minimize=costs[loss] + zeta * cp.norm1(s.alpha))
    best = fuse(machine, over=zeta, validation=(V, w), gap=0.05, box={zeta: (1e-2, 3.0)})
    assert best.certificate.holds, str(best.certificate)
    assert best.lower_bound >= 0.95 * best.validation_error
    assert best.proved_on == {"zeta": (1e-2, 3.0)}
    assert_allclose(best.validation_error, np.mean((w - best.predict(V)) ** 2), rtol=1e-9)
    grid = [np.mean((w - machine.solve(zeta=value).predict(V)) ** 2) for value in np.geomspace(1e-2, 3.0, 8)]
    assert min(grid) >= best.lower_bound * (1.0 - 1e-6)


# --- refusals -------------------------------------------------------------------------------------------------------


def test_a_parameter_in_a_constraint_needs_a_range():
    X, y, V, w = case(n=8, d=2)
    s = Substrate(RBF(1.0), X, y)
    p = cp.Parameter(nonneg=True, name="p")
    bound = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + cp.norm1(s.alpha), subject_to=[cp.norm1(s.alpha) <= p])
    with pytest.raises(DeclarationError, match=r"'p' is in a constraint.*box=\{'p': \(low, high\)\}"):
        fuse(bound, over=p, validation=(V, w))


def test_a_parameter_that_does_nothing_or_is_not_one_number_is_refused():
    X, y, V, w = case(n=8, d=2)
    s = Substrate(RBF(1.0), X, y)
    signed, vector, other = cp.Parameter(name="q"), cp.Parameter(8, nonneg=True, name="r"), cp.Parameter(nonneg=True)
    with pytest.raises(DeclarationError, match="'q' must be one non-negative number"):
        fuse(Machine(s, minimize=cp.sum_squares(s.e) + signed * s.b), over=signed, validation=(V, w))
    with pytest.raises(DeclarationError, match="'r' must be one non-negative number"):
        fuse(Machine(s, minimize=cp.sum_squares(s.e) + vector @ cp.abs(s.alpha)), over=vector, validation=(V, w))
    machine, zeta = sparse_machine(X, y)
    with pytest.raises(DeclarationError, match=r"has no parameter 'nothing'; it has \['zeta'\]"):
        fuse(machine, over="nothing", validation=(V, w))
    for several in ([zeta, other], ("zeta", "eta")):
        with pytest.raises(DeclarationError, match=r"no parameter '.*'; it has \['zeta'\]"):
            fuse(machine, over=several, validation=(V, w))
    with pytest.raises(DeclarationError, match=r"a cvxpy.Parameter or its name, or a tuple of them, received 3"):
        fuse(machine, over=3, validation=(V, w))
    cost = 0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha) + other * cp.sum(cp.abs(s.alpha))
    with pytest.raises(DeclarationError, match="have no value; give them one"):
        fuse(Machine(s, minimize=cost), over=zeta, validation=(V, w))


def test_validation_that_does_not_fit_is_refused():
    X, y, V, w = case(n=8, d=2)
    machine, zeta = sparse_machine(X, y)
    for given, words in [
        ((V[:0], w[:0]), "empty|at least one|0 rows|minimum"),
        ((V[:, :1], w), "X_val has 1 columns, the training points have 2"),
        ((V, w[1:]), "one entry per row of X_val: expected 12, received 11"),
        ((V, np.full(12, np.nan)), "NaN"),
    ]:
        with pytest.raises(DataError, match=words):
            fuse(machine, over=zeta, validation=given)


def test_arguments_that_contradict_each_other_are_refused():
    X, y, V, w = case(n=8, d=2)
    machine, zeta = sparse_machine(X, y)
    for options, words in [
        ({}, "a machine is fused with validation"),
        ({"validation": (V, w), "cv": thirds(8)}, "a machine is fused with validation"),
        ({"validation": (V, w), "budget": 0}, "budget must be a positive integer"),
        ({"validation": (V, w), "budget": True}, "budget must be a positive integer"),
        ({"validation": (V, w), "gap": 0.0}, "gap must be"),
    ]:
        with pytest.raises(DeclarationError, match=words):
            fuse(machine, zeta, **options)
    for options in ({}, {"cv": thirds(8), "validation": (V, w)}):
        with pytest.raises(DeclarationError, match="needs either cv or validation"):
            fuse(build, "zeta", data=(X, y), **options)
    with pytest.raises(DeclarationError, match="needs data="):
        fuse(build, "zeta", cv=thirds(8))
    with pytest.raises(DeclarationError, match=r"a Machine, a cvxpy\.Problem or a function"):
        fuse(3.0, "zeta", validation=(V, w))
    with pytest.raises(DeclarationError, match="must return a Machine"):
        fuse(lambda X, y: 3.0, "zeta", data=(X, y), cv=thirds(8))


def test_rows_that_the_objective_fits_cannot_choose_its_weight():
    """The penalized fusion (23) judges validation rows; to tune its weight on them is refused, on others it is not."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (36, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=36)
    s = Substrate(RBF(1.0), X[:12], y[:12])
    xi = cp.Parameter(nonneg=True, name="xi")
    both = cp.sum_squares(s.e) + cp.sum_squares(s.errors(X[12:24], y[12:24]))
    machine = Machine(s, minimize=0.5 * both + xi * cp.norm_inf(s.f()))
    with pytest.raises(DataError, match=r"rows \[0, 1, 2, 3, 4\] of X_val are fitted by the objective already"):
        fuse(machine, over=xi, validation=(X[12:24], y[12:24]))
    assert np.isfinite(fuse(machine, over=xi, validation=(X[24:], y[24:]), gap=1e-2).validation_error)


def test_the_bound_of_a_list_of_kernels_is_the_smallest_of_their_bounds():
    """Three levels of [Pelckmans2005] Fig. 1: parameters, the weight above them, and a list of kernels above both."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(30, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=30)

    def build(kernel):
        s, rho = Substrate(Componentwise(kernel), X[:15], y[:15]), cp.Parameter(nonneg=True, name="rho")
        return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))

    machines = [build(kernel) for kernel in (Linear(), RBF(1.0))]
    fusions = [fuse(machine, over="rho", validation=(X[15:], y[15:]), gap=0.05) for machine in machines]
    assert all(one.certificate.holds for one in fusions)
    lower_bound = min(one.lower_bound for one in fusions)
    assert 0.0 < lower_bound <= min(one.validation_error for one in fusions)
    for machine, one in zip(machines, fusions, strict=True):
        for rho in np.geomspace(1e-3, one.proved_on["rho"][1], 40):
            error = np.mean((y[15:] - machine.solve(rho=float(rho)).predict(X[15:])) ** 2)
            assert error >= lower_bound * (1.0 - 1e-9)
