"""Tracks: gaps, crosses and errors are those of primal and dual points; radii hold against independent solves."""

from dataclasses import replace
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.compilation import run_interpreted
from substrate.kernels import RBF, Linear, Polynomial
from substrate.penalized.homotopy.chord_certificate import Track, interval_bounds
from substrate.penalized.homotopy.homotopies import l1_path, variation_path
from substrate.penalized.homotopy.knots import Path
from substrate.penalized.homotopy.read_off import read_off
from substrate.penalized.homotopy.tracks import L1Fold, VariationFold, VariationKnots, _l1_track
from substrate.penalized.l1.active_set import solve_l1, zeta_max
from substrate.penalized.variation.active_rows import solve_maximal_variation
from substrate.penalized.variation.component_coordinates import decoupled_coordinates, shared_coordinates

SMOOTH = RBF(0.5)


@pytest.fixture(autouse=True)
def _plain_numpy():
    """The compiled twin has its own test; here its compilation would be most of the time."""
    with run_interpreted():
        yield


def rows(n, d, seed):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-1.0, 1.0, size=(n, d)), rng.uniform(-1.0, 1.0, size=(15, d))

    def target(Z):
        return np.sin(3.0 * Z[:, 0]) + Z[:, -1] ** 2 + 0.3 * rng.standard_normal(Z.shape[0])

    return X, target(X), V, target(V)


def coarse(path: Path, kept) -> Path:
    """The same path without most of its knots: its chords leave it, and their gaps are no longer rounding."""
    kept = np.unique(np.asarray(kept) % len(path))
    primal, dual = (np.array([part[k] for k in kept]) for part in (path.primal, path.dual))
    return replace(path, values=path.values[kept], primal=primal, dual=dual, bias=path.bias[kept])


def gap_at(track: Track, k: int, theta: float) -> float:
    """The certificate's gap on the chord from knot k."""
    g1, g2, cross = track.gaps[k], track.gaps[k + 1], track.crosses[k]
    gap = float((1.0 - theta) ** 2 * g1 + theta**2 * g2 + theta * (1.0 - theta) * cross)
    return max(gap, 0.0)  # a gap of nothing may be less than that by rounding


def radius_at(track: Track, k: int, theta: float) -> float:
    _, radii = track.quadratics()
    return float(np.sqrt(max(radii[k] @ [1.0, theta, theta**2], 0.0)))


# ---- maximal variation -----------------------------------------------------------------------------


class Variation:
    """An instance with its path, seen from outside: matrices, coordinates, and plain formulas."""

    def __init__(self, kernel=SMOOTH, n=16, d=3, seed=0, expansion="shared", ridge=0.0):
        X, self.y, V, self.y_val = rows(n, d, seed)
        O = [kernel(X[:, [part]]) for part in range(d)]  # noqa: E741
        make = shared_coordinates if expansion == "shared" else decoupled_coordinates
        self.coordinates = make(O, True, 1e-6, ridge)
        self.below = self.coordinates.rows_at([kernel(V[:, [part]], X[:, [part]]) for part in range(d)])
        self.fold = VariationFold.of(self.coordinates, self.y, self.below, self.y_val)
        self.target = self.coordinates.targets(self.y)
        self.inverse = np.linalg.inv(self.coordinates.metric)
        self.B = self.coordinates.parts @ self.inverse

    def track(self, path: Path) -> Track:
        mean = self.coordinates.parts.sum(axis=0).mean(axis=0)
        M = (self.below - mean) @ self.inverse
        return VariationKnots.of(self.B, self.target, path, M, self.y_val - self.y.mean()).track()

    def primal(self, rho, u, t=None):
        t = np.abs(self.B @ u).max(axis=1) if t is None else t
        return 0.5 * np.sum((u - self.target) ** 2) + rho * t.sum()

    def dual(self, xi):
        u = self.target - np.einsum("lnr,ln->r", self.B, xi.reshape(self.B.shape[:2]))
        return 0.5 * self.target @ self.target - 0.5 * u @ u, u

    def errors(self, u):
        v = self.inverse @ u
        return self.y_val - self.below @ v - self.coordinates.bias_of(self.y, v)


CASES = {
    "smooth": {},
    "narrow": {"kernel": RBF(0.1), "seed": 1},
    "linear": {"kernel": Linear(), "d": 5, "seed": 2},
    "cubic": {"kernel": Polynomial(3), "seed": 3},
    "one component": {"d": 1, "seed": 4},
    "decoupled": {"expansion": "decoupled", "ridge": 0.1, "seed": 5},
}


@pytest.fixture(scope="module", params=CASES, ids=str)
def variation(request):
    with run_interpreted():
        return Variation(**CASES[request.param])


@pytest.mark.parametrize(("every", "share"), [(1, 1.0), (4, 0.8), (1000, 1.0)])
def test_variation_gaps_are_primal_less_dual(variation, every, share):
    """Multipliers that are too small are feasible, and far from optimal."""
    rng = np.random.default_rng(0)
    path = coarse(variation.fold.path, [*range(0, len(variation.fold.path), every), -1])
    path = replace(path, dual=share * path.dual)
    track = variation.track(path)
    cost = 0.5 * variation.target @ variation.target
    xi = np.array([path.dual[k] for k in range(len(path))])
    u = np.array([variation.dual(one)[1] for one in xi])
    t = np.abs(np.einsum("lnr,kr->kln", variation.B, u)).max(axis=2)
    for k in rng.integers(0, len(path), 5):
        expected = variation.primal(path.values[k], u[k]) - variation.dual(xi[k])[0]
        assert track.gaps[k] == pytest.approx(expected, abs=1e-11 * cost)
    for k, theta in zip(rng.integers(0, len(path) - 1, 12), rng.uniform(size=12), strict=True):
        between = lambda part: (1.0 - theta) * part[k] + theta * part[k + 1]  # noqa: B023, E731
        rho, point = between(path.values), between(xi)
        value, at = variation.dual(point)
        assert_allclose(at, between(u), atol=1e-12 * np.abs(variation.target).max())
        # t interpolated is what the chord has; t recomputed is smaller still
        gap, primal = gap_at(track, k, theta), variation.primal(rho, at)
        rounding = 1e-11 * max(cost, primal)  # of a difference, relative to what is subtracted
        assert gap == pytest.approx(variation.primal(rho, at, between(t)) - value, abs=rounding)
        assert primal - value <= gap + rounding


def test_variation_errors_interpolate(variation):
    rng = np.random.default_rng(1)
    path, track = variation.fold.path, variation.fold.knots.track()
    size = np.abs(variation.y_val).max()
    for k, theta in zip(rng.integers(0, len(path) - 1, 8), rng.uniform(size=8), strict=True):
        rho = (1.0 - theta) * path.values[k] + theta * path.values[k + 1]
        expected = (1.0 - theta) * track.errors[k] + theta * track.errors[k + 1]
        assert_allclose(variation.errors(path.at(rho).primal), expected, atol=1e-7 * size)
    assert_allclose(variation.fold.knots.variations()[0], np.abs(variation.B @ variation.target).max(axis=1), rtol=1e-9)
    assert_allclose(track.errors[-1], variation.y_val - variation.y.mean(), atol=1e-7 * size)


def test_variation_errors_move_by_sigma_at_most_and_in_one_direction_by_all_of_it(variation):
    rng = np.random.default_rng(2)
    track = variation.fold.knots.track()
    r = variation.target.size
    for size in (1e-3, 1.0, 1e3):
        for step in size * rng.standard_normal((10, r)):
            moved = variation.errors(variation.target + step) - variation.errors(variation.target)
            assert np.linalg.norm(moved) <= track.sigma * np.linalg.norm(step) * (1.0 + 1e-9)
    matrix = np.column_stack([variation.errors(step) - variation.errors(np.zeros(r)) for step in np.eye(r)])
    assert np.linalg.norm(matrix, 2) == pytest.approx(track.sigma, rel=1e-9)


def test_variation_optima_lie_within_the_radius_of_a_coarse_path(variation):
    rng = np.random.default_rng(3)
    full = variation.fold.path
    path = coarse(full, [*range(0, len(full), max(2, len(full) // 4)), -1])
    track = variation.track(path)
    used = 0.0
    for k, theta in zip(rng.integers(0, len(path) - 1, 10), rng.uniform(size=10), strict=True):
        rho = (1.0 - theta) * path.values[k] + theta * path.values[k + 1]
        solved = solve_maximal_variation(variation.coordinates, variation.y, rho)
        best = variation.coordinates.metric @ solved.v
        between = (1.0 - theta) * path.primal[k] + theta * path.primal[k + 1]
        gap = gap_at(track, k, theta)
        distance = float(np.sum((best - between) ** 2))
        own = variation.primal(rho, best) - variation.dual((solved.xi_plus - solved.xi_minus).ravel())[0]
        assert np.sqrt(distance) <= np.sqrt(gap) + np.sqrt(max(own, 0.0)) + 1e-9, "the solver's own gap is allowed for"
        used = max(used, distance / (gap + own)) if gap + own > 0.0 else used
        moved = np.linalg.norm(variation.errors(best) - variation.errors(between))
        assert moved <= radius_at(track, k, theta) + track.sigma * (np.sqrt(max(own, 0.0)) + 1e-9)
    assert used > 1e-3, "the coarse path is far enough off for the radius to matter"


@pytest.mark.some_cases(3)
def test_variation_bound_is_below_independent_solves(variation):
    full = variation.fold.path
    solves = []
    for rho in np.geomspace(1e-3, 1.2, 25) * full.values[-1]:
        v = solve_maximal_variation(variation.coordinates, variation.y, rho).v
        solves.append(np.mean(variation.errors(variation.coordinates.metric @ v) ** 2))
    exact = read_off([variation.fold.knots.track()], [full])
    assert exact.error <= min(solves) * (1.0 + 1e-7)
    assert exact.lower_bound <= exact.error
    assert exact.error - exact.lower_bound < 1e-3 * exact.error
    for every in (2, 5, len(full)):
        path = coarse(full, [*range(0, len(full), every), -1])
        read = read_off([variation.track(path)], [path])
        assert read.lower_bound <= exact.error, "however coarse the path"


def test_u_is_recomputed_from_the_multipliers(variation):
    """A path that claims other fitted values gains nothing by it."""
    path = variation.fold.path
    other = replace(path, primal=np.zeros_like(path.primal))
    assert_allclose(variation.track(other).errors, variation.fold.knots.track().errors, atol=1e-9)
    assert_allclose(variation.track(other).gaps, variation.fold.knots.track().gaps, atol=1e-9)


@pytest.mark.parametrize("factor", [0.0, 0.9, 1.1, 3.0, -1.0])
def test_a_tampered_multiplier_raises_the_gap_and_lowers_the_bound(variation, factor):
    path, exact = variation.fold.path, read_off([variation.fold.knots.track()], [variation.fold.path])
    k = int(np.clip(np.searchsorted(path.values, exact.value), 1, len(path) - 2))
    xi = np.array([path.dual[j] for j in range(len(path))])
    xi[k, np.abs(xi[k]).argmax()] *= factor
    track = variation.track(replace(path, dual=xi))
    read = read_off([track], [path])
    cost = 0.5 * variation.target @ variation.target
    assert track.gaps[k] >= variation.fold.knots.track().gaps[k] - 1e-12 * cost
    assert read.lower_bound <= exact.error * (1.0 + 1e-12), "the true optimum is still above the bound"
    if factor <= 0.0:
        assert track.gaps[k] > 1e3 * variation.fold.knots.track().gaps[k] + 1e-12 * cost
        assert read.lower_bound < exact.lower_bound


def test_multipliers_outside_their_balls_are_brought_back():
    instance = Variation()
    path = instance.fold.path
    xi = 5.0 * np.array([path.dual[k] for k in range(len(path))])
    track = instance.track(replace(path, dual=xi))
    sizes = np.abs(xi.reshape(len(path), 3, -1)).sum(axis=2)
    shares = np.minimum(1.0, path.values[:, None] / np.where(sizes > 0.0, sizes, 1.0))
    for k in range(0, len(path), 7):
        inside = (xi[k].reshape(3, -1) * shares[k][:, None]).ravel()
        value, u = instance.dual(inside)
        assert track.gaps[k] == pytest.approx(instance.primal(path.values[k], u) - value, abs=1e-10)


def test_a_component_that_sees_nothing_and_a_target_that_is_constant():
    instance = Variation()
    flat = np.full_like(instance.y, 2.0)
    fold = VariationFold.of(instance.coordinates, flat, instance.below, instance.y_val)
    read = read_off([fold.knots], [fold.path])
    assert read.error == pytest.approx(np.mean((instance.y_val - 2.0) ** 2), rel=1e-9)
    assert read.error - read.lower_bound <= 1e-9 * read.error


# ---- the L1 substrate --------------------------------------------------------------------------------


class Sparse:
    """An instance with its path, seen from outside."""

    def __init__(self, kernel=SMOOTH, n=20, d=2, seed=0, zeta_min=None):
        X, self.y, V, self.y_val = rows(n, d, seed)
        self.Phi, self.below = kernel(X), kernel(V, X)
        self.fold = L1Fold.of(self.Phi, self.y, self.below, self.y_val, zeta_min)

    def track(self, path: Path) -> Track:
        return _l1_track(self.Phi, self.y, path, self.below, self.y_val)

    def fitted(self, a):
        return self.Phi @ a - (self.Phi @ a).mean()

    def gap(self, zeta, a, nu=None):
        """Primal cost less dual value of the residuals, shrunk until they are feasible."""
        e = self.y - self.y.mean() - self.fitted(a)
        c = self.Phi.T @ e
        bound = (c.max() - c.min()) / 2.0 if nu is None else np.abs(c - nu).max()
        share = min(1.0, zeta / bound)
        return 0.5 * e @ e + zeta * np.abs(a).sum() - (share * e @ self.y - 0.5 * share**2 * e @ e)

    def errors(self, a):
        b = self.y.mean() - (self.Phi @ a).mean()
        return self.y_val - self.below @ a - b


SPARSE = {
    "rbf": {},
    "narrow": {"kernel": RBF(0.1), "seed": 1},
    "wide": {"kernel": RBF(2.0), "seed": 2},
    "linear": {"kernel": Linear(), "d": 4, "seed": 3},
    "quadratic": {"kernel": Polynomial(2), "seed": 4, "n": 30},
}


@pytest.fixture(scope="module", params=SPARSE, ids=str)
def sparse(request):
    with run_interpreted():
        return Sparse(**SPARSE[request.param])


def accurate(Phi, y, zeta):
    """A conic solver with tight tolerances: nothing in common with paths and active sets."""
    a, b = cp.Variable(Phi.shape[1]), cp.Variable()
    cost = 0.5 * cp.sum_squares(y - Phi @ a - b) + zeta * cp.norm1(a)
    options = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
    cp.Problem(cp.Minimize(cost), [cp.sum(a) == 0]).solve(solver="CLARABEL", **options)
    return np.asarray(a.value)


def test_l1_gaps_are_primal_less_dual(sparse):
    rng = np.random.default_rng(0)
    full = sparse.fold.path
    cost = 0.5 * np.sum((sparse.y - sparse.y.mean()) ** 2)
    path = coarse(full, [*range(0, len(full), 4), -1])
    track = sparse.track(path)
    for k in range(len(path)):
        gap = sparse.gap(path.values[k], path.primal[k])
        assert gap <= track.gaps[k] + 1e-12 * cost, "what rounding leaves of feasibility is on the safe side"
        assert track.gaps[k] <= gap + 1e-9 * cost
    for k, theta in zip(rng.integers(0, len(path) - 1, 12), rng.uniform(size=12), strict=True):
        between = lambda part: (1.0 - theta) * part[k] + theta * part[k + 1]  # noqa: B023, E731
        zeta, a = between(path.values), between(path.primal)
        e = sparse.y - sparse.y.mean() - sparse.fitted(a)
        sizes = between(np.abs(path.primal).sum(axis=1))
        expected = zeta * sizes - (sparse.Phi.T @ e) @ a
        assert gap_at(track, k, theta) == pytest.approx(expected, abs=1e-9 * cost)
        assert sparse.gap(zeta, a) <= gap_at(track, k, theta) + 1e-9 * cost


def test_l1_errors_are_those_of_the_machine_and_interpolate(sparse):
    rng = np.random.default_rng(1)
    path, track = sparse.fold.path, sparse.fold.track
    for k, theta in zip(rng.integers(0, len(path) - 1, 8), rng.uniform(size=8), strict=True):
        point = path.at((1.0 - theta) * path.values[k] + theta * path.values[k + 1])
        expected = (1.0 - theta) * track.errors[k] + theta * track.errors[k + 1]
        size = 1.0 + np.abs(point.primal).sum()
        assert_allclose(sparse.y_val - sparse.below @ point.primal - point.bias, expected, atol=1e-10 * size)


@pytest.mark.parametrize("every", [3, 1000])
@pytest.mark.some_cases(5)
def test_l1_radii_hold_against_the_active_set(sparse, every):
    rng = np.random.default_rng(2)
    full = sparse.fold.path
    path = coarse(full, [*range(0, len(full), every), -1])
    track = sparse.track(path)
    apart = 0.0
    for k, theta in zip(rng.integers(0, len(path) - 1, 15), rng.uniform(size=15), strict=True):
        zeta = (1.0 - theta) * path.values[k] + theta * path.values[k + 1]
        a = (1.0 - theta) * path.primal[k] + theta * path.primal[k + 1]
        best = solve_l1(sparse.Phi, sparse.y, zeta).coefficients
        distance = np.sum((sparse.fitted(best) - sparse.fitted(a)) ** 2)
        assert distance <= gap_at(track, k, theta) * (1.0 + 1e-9) + 1e-14
        moved = np.linalg.norm(sparse.errors(best) - sparse.errors(a))
        assert moved <= radius_at(track, k, theta) * (1.0 + 1e-9) + 1e-10
        apart = max(apart, distance)
    assert apart > 1e-8, "the coarse path is off, so that the radius is needed"


def test_l1_radii_hold_against_a_conic_solver():
    sparse = Sparse(n=14)
    full = sparse.fold.path
    path = coarse(full, [0, len(full) // 3, 2 * len(full) // 3, -1])
    track = sparse.track(path)
    for k in range(3):
        for theta in (0.2, 0.7):
            zeta = (1.0 - theta) * path.values[k] + theta * path.values[k + 1]
            a = (1.0 - theta) * path.primal[k] + theta * path.primal[k + 1]
            best = accurate(sparse.Phi, sparse.y, zeta)
            moved = np.linalg.norm(sparse.errors(best) - sparse.errors(a))
            assert moved <= radius_at(track, k, theta) * (1.0 + 1e-6) + 1e-6


@pytest.mark.some_cases(3)
def test_l1_bound_is_below_independent_solves(sparse):
    full = sparse.fold.path
    zetas = np.geomspace(full.values[0], 1.1 * full.values[-1], 40)
    solves = [np.mean(sparse.errors(solve_l1(sparse.Phi, sparse.y, zeta).coefficients) ** 2) for zeta in zetas]
    exact = read_off([sparse.fold.track], [full])
    assert exact.error <= min(solves) * (1.0 + 1e-9)
    assert exact.lower_bound <= exact.error
    assert exact.error - exact.lower_bound < 1e-2 * exact.error
    for every in (2, 5, len(full)):
        path = coarse(full, [*range(0, len(full), every), -1])
        assert read_off([sparse.track(path)], [path]).lower_bound <= exact.error


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.99, 1.01, 2.0, -1.0])
@pytest.mark.some_cases(15)
def test_a_tampered_coefficient_raises_the_gap_and_lowers_the_bound(sparse, factor):
    path = sparse.fold.path
    exact = read_off([sparse.fold.track], [path])
    a = np.array([path.primal[k] for k in range(len(path))])
    k = len(path) // 2
    one, other = np.argsort(np.abs(a[k]))[-2:]
    step = (factor - 1.0) * a[k, one]
    a[k, one] += step
    a[k, other] -= step  # the coefficients still sum to zero
    track = sparse.track(replace(path, primal=a))
    assert track.gaps[k] > 1e3 * sparse.fold.track.gaps[k]
    read = read_off([track], [path])
    assert read.lower_bound < exact.lower_bound or read.lower_bound <= exact.error * (1.0 - 1e-9)


@pytest.mark.parametrize("factor", [0.0, 0.3, 0.9, 1.1])
def test_a_path_of_shrunk_coefficients_certifies_no_wrong_optimum(sparse, factor):
    """With a = 0 the alignment is perfect and only the correlations, beyond zeta, tell that it is no optimum."""
    path = sparse.fold.path
    exact = read_off([sparse.fold.track], [path])
    a = factor * np.array([path.primal[k] for k in range(len(path))])
    track = sparse.track(replace(path, primal=a))
    for k in range(0, len(path), 3):
        distance = np.sum((sparse.fitted(path.primal[k]) - sparse.fitted(a[k])) ** 2)
        assert distance <= track.gaps[k] * (1.0 + 1e-9) + 1e-12
    read = read_off([track], [path])
    assert read.lower_bound <= exact.error
    assert read.lower_bound < exact.lower_bound


def test_the_end_at_zeta_zero_is_not_claimed():
    """There the 1-norm of the optimum has no bound, and predictions need one."""
    rng = np.random.default_rng(3)
    Phi, below = rng.standard_normal((25, 12)), rng.standard_normal((15, 12))
    y, y_val = Phi[:, 0] + rng.standard_normal(25), below[:, 0]
    path = l1_path(Phi, y, 0.0)
    assert path.values[0] == 0.0
    exact = read_off([_l1_track(Phi, y, path, below, y_val)], [path])
    ends = coarse(path, [0, -1])
    read = read_off([_l1_track(Phi, y, ends, below, y_val)], [ends])
    assert read.lower_bound <= exact.error < read.error


def test_a_kernel_that_tells_no_points_apart_leaves_the_bias():
    y, y_val = np.arange(6.0), np.array([1.0, 2.0])
    fold = L1Fold.of(np.ones((6, 6)), y, np.ones((2, 6)), y_val)
    assert len(fold.path) == 1
    assert_allclose(fold.track.errors, [y_val - 2.5])
    read = read_off([fold.track], [fold.path])
    assert read.error == read.lower_bound == pytest.approx(np.mean((y_val - 2.5) ** 2))


def test_a_largest_zeta_asked_for_leaves_one_knot():
    sparse = Sparse(zeta_min=2.0 * zeta_max(Sparse().Phi, Sparse().y))
    assert len(sparse.fold.path) == 1
    read = read_off([sparse.fold.track], [sparse.fold.path])
    assert read.error == pytest.approx(np.mean((sparse.y_val - sparse.y.mean()) ** 2), rel=1e-12)
    assert read.coverage[1] == np.inf


def test_quadratics_add_the_floors_and_square_sigma():
    errors = np.array([[3.0, 0.0], [0.0, 4.0]])
    track = Track(np.array([0.0, 1.0]), errors, np.array([0.0, 0.0]), np.array([4.0]), 0.5, np.array([0.25]))
    squares, radii = track.quadratics()
    assert_allclose(squares[0] @ [1.0, 0.5, 0.25], 1.5**2 + 2.0**2)
    assert_allclose(radii[0] @ [1.0, 0.5, 0.25], 0.25 * (0.25 * 4.0) + 0.25)
    low, _ = interval_bounds(squares, radii)
    # the errors are nearest to zero at theta = 0.36, 2.4 away, and the radius is at most that at theta = 0.5
    assert (2.4 - np.sqrt(0.5)) ** 2 <= low[0] <= (2.4 - np.sqrt(0.25 * 4.0 * 0.36 * 0.64 + 0.25)) ** 2


def exact(values):
    """Doubles as fractions."""
    return [Fraction(float(value)) for value in values]


def inner(first, second):
    return sum((a * b for a, b in zip(first, second, strict=True)), Fraction(0))


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
@pytest.mark.parametrize("seed", range(2))
def test_no_gap_of_a_variation_path_is_below_the_exact_one(seed, scale):
    """In fractions: multipliers are inside their balls, and primal less dual value is at most what is computed."""
    rng = np.random.default_rng(seed)
    B, target = rng.normal(size=(2, 5, 4)), scale * rng.normal(size=4)
    path = variation_path(list(B), target)
    knots = VariationKnots.of(B, target, path, rng.normal(size=(3, 4)), scale * rng.normal(size=3))
    track, y = knots.track(), exact(target)
    for k, rho in enumerate(exact(knots.values)):
        u, xi = exact(knots.u[k]), [exact(row) for row in knots.multipliers[[k]].toarray().reshape(2, 5)]
        assert all(sum(map(abs, row)) <= rho for row in xi)
        levels = sum(max(abs(inner(exact(row), u)) for row in part) for part in B)
        dual = [
            y[j] - sum(xi[part][i] * Fraction(float(B[part, i, j])) for part in range(2) for i in range(5))
            for j in range(4)
        ]
        step = [a - b for a, b in zip(u, y, strict=True)]
        gap = inner(step, step) / 2 + rho * levels - inner(y, y) / 2 + inner(dual, dual) / 2
        assert gap <= Fraction(float(track.gaps[k]))


@pytest.mark.parametrize("width", [0.5, 4.0])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_no_gap_of_a_norm_path_is_below_the_exact_one(width, offset):
    """In fractions, with support values that are large beside what they add up to."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 1))
    Phi, y = np.exp(-((X - X.T) ** 2) / width**2), rng.normal(size=8) + offset
    fold = L1Fold.of(Phi, y, Phi[:3], y[:3])
    matrix, targets = [exact(row) for row in Phi], exact(y)
    for k in range(len(fold.path)):
        zeta, nu = Fraction(float(fold.path.values[k])), Fraction(float(fold.path.dual[k][0]))
        a = exact(np.asarray(fold.path.primal[k]))
        e = [target - inner(row, a) for target, row in zip(targets, matrix, strict=True)]
        e = [value - sum(e) / len(e) for value in e]
        c = [inner([row[j] for row in matrix], e) - nu for j in range(8)]
        excess = max(max(map(abs, c)) - zeta, Fraction(0))
        gap = (zeta + excess) * sum(map(abs, a)) - inner(c, a)
        assert gap <= Fraction(float(fold.track.gaps[k]))
