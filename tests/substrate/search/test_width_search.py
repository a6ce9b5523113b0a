"""No width and no gamma lies below the bound: kernel matrices, cells and whole searches, on benign and wild data."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from wild_widths import KERNELS, criterion_of, wild

from substrate.arrays import EPS
from substrate.datasets import motorcycle
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Linear, Matern
from substrate.search.width_bounds import WidthFamily, Zone, largest_eigenvalue
from substrate.search.width_criteria import CELL_CRITERIA, _WidthCells, bounded_cells
from substrate.search.width_search import search_widths

NAMES = [repr(kernel) for kernel in KERNELS]
X, Y = (part[::9] for part in motorcycle())
Y = Y[:, None]


def worst_of_cells(seed, zones=2, cells=2):
    """By how much, relatively, a bound exceeds the criterion at some point of its cell, beyond that one's rounding."""
    X, Y, kernel, weights, rng = wild(seed)
    spread = np.abs(X - X[:1]).max()
    family = WidthFamily.of(type(kernel)(**{**kernel.get_params(), "sigma": float(spread or 1.0)}), X)
    worst, bounded, n = -np.inf, 0, len(X)
    for _ in range(zones):
        t, half = rng.uniform(*family.default_range()), 10.0 ** rng.uniform(-4.0, -0.6) / family.dimension**0.5
        zone = Zone.of(family, t, half, weights)
        targets = zone.spectrum.targets(Y)
        u, du = rng.uniform(np.log(1e-6 * n), np.log(10.0 * n), size=cells), 10.0 ** rng.uniform(-4.0, 0.0, size=cells)
        for which in CELL_CRITERIA:
            middle = bounded_cells(zone, targets, np.column_stack([u - du, u + du]), which, 0.0).values
            wanted = float(rng.choice([0.0, 0.8])) * middle.min()
            found = bounded_cells(zone, targets, np.column_stack([u - du, u + du]), which, wanted)
            for j in np.flatnonzero(found.lower > 0.0):
                places = [(1, 1), (1, -1), (-1, 1), (-1, -1), *rng.uniform(-1.0, 1.0, size=(2, 2))]
                at = [(family.kernel_at(t + a * half), math.exp(u[j] + b * du[j])) for a, b in places]
                least = min(criterion_of(k, X, Y, lam, which, weights) for k, lam in at) / targets.unit**2
                rounding = 1e-12 + 1e3 * EPS * n * n / math.exp(u[j] - du[j])
                worst = max(worst, found.lower[j] / least - 1.0 - rounding)
                bounded += 1
    return worst, bounded


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_the_remainder_of_the_first_order_lies_between_the_two_bounds(kernel):
    rng = np.random.default_rng(1)
    line = np.linspace(0.0, 4.0, 40)[:, None]  # smooth directions, for which the upper bound is tight
    for points, t, half in (
        (rng.normal(size=(12, 1)), 0.5, 0.3),
        (rng.normal(size=(12, 3)), 1.0, 0.05),
        (line, -1.5, 1e-3),
    ):
        family = WidthFamily.of(kernel, points)
        zone = Zone.of(family, t, half)
        basis = zone.spectrum.basis
        K = basis.T @ family.derivatives(t)[0] @ basis
        for tau in half * np.array([-1.0, -0.6, 0.3, 1.0]):
            rest = basis.T @ family.derivatives(t + tau)[0] @ basis - K - tau * zone.slope
            share, noise = 0.5 * tau**2, 1e-13
            assert np.linalg.eigvalsh(rest + share * zone.low).min() >= -noise
            assert np.linalg.eigvalsh(share * (zone.whole - zone.low) - rest).min() >= -noise


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_derivatives_in_the_logarithm_of_the_width(kernel):
    points = np.random.default_rng(2).normal(size=(9, 2))
    family, step = WidthFamily.of(kernel, points), 1e-4
    values, slope, bend = family.derivatives(0.3)
    assert_allclose(values, family.kernel_at(0.3)(points), atol=1e-14)
    before, after = family.derivatives(0.3 - step)[0], family.derivatives(0.3 + step)[0]
    assert_allclose(slope, (after - before) / (2.0 * step), atol=1e-7)
    assert_allclose(bend, (after - 2.0 * values + before) / step**2, atol=1e-6)


def test_a_largest_eigenvalue_is_bounded_closely():
    rng = np.random.default_rng(3)
    for n in (1, 2, 30):
        M = rng.normal(size=(n, n))
        M = M @ M.T
        assert 1.0 <= largest_eigenvalue(M) / np.linalg.eigvalsh(M)[-1] <= 1.1
        assert largest_eigenvalue(-M) >= -np.linalg.eigvalsh(M)[0]
    assert largest_eigenvalue(np.zeros((4, 4))) == 0.0
    assert largest_eigenvalue(np.full((2, 2), np.inf)) == np.inf


@pytest.mark.parametrize("kernel", KERNELS[:2], ids=NAMES[:2])
def test_what_the_expansions_leave_out_is_bounded(kernel):
    """Support values beyond the second order, and the trace of the inverse beyond the first, with nothing to spare."""
    family = WidthFamily.of(type(kernel)(10.0), X)
    shares = []
    for t, half, u, du in ((0.0, 0.05, -2.0, 1e-4), (0.5, 0.2, 0.0, 1e-3), (-1.0, 0.02, -4.0, 0.02)):
        zone = Zone.of(family, t, half)
        z, basis = zone.spectrum.targets(Y).coordinates, zone.spectrum.basis
        cell = _WidthCells(zone, z, np.array([[u - du, u + du]]))
        g, root = cell.g[:, 0], np.sqrt(cell.g[:, 0])
        for tau, eta in ((half, cell.eta[0]), (-half, cell.eta[0]), (half, -cell.eta[0])):
            moved = basis.T @ (family.derivatives(t + tau)[0] - family.derivatives(t)[0]) @ basis + eta * np.eye(g.size)
            inverse = np.linalg.inv(np.diag(1.0 / g) + moved)
            M = root[:, None] * (tau * zone.slope + eta * np.eye(g.size)) * root
            beta = root * z[:, 0]
            beyond = (inverse @ z)[:, 0] / root - (beta - M @ beta + M @ (M @ beta))
            shares.append(np.linalg.norm(beyond) / cell.beyond[0])
            assert np.linalg.norm(M @ (M @ beta)) <= sum(np.linalg.norm(root * term[:, 0]) for term in cell.second)
            rest = moved - tau * zone.slope - eta * np.eye(g.size)
            whole, low = cell.bends
            assert cell.alpha[:, 0] @ rest @ cell.alpha[:, 0] <= cell.alpha[:, 0] @ (whole - low)[:, 0]
            first = np.trace(inverse) - (g.sum() - np.trace(root[:, None] * M * root))
            assert first <= cell.bend * zone.low.diagonal() @ g**2 + np.square(M * root).sum() / cell.rest[0] * 1.5
    assert max(shares) <= 1.0
    assert max(shares) >= 0.02


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.some_cases(5)
def test_no_point_of_a_cell_is_below_its_bound(seed):
    worst, _ = worst_of_cells(seed)
    assert worst <= 0.0


@pytest.mark.slow
def test_no_point_of_thousands_of_cells_is_below_its_bound():
    found = [worst_of_cells(seed, zones=4, cells=3) for seed in range(100, 240)]
    assert max(worst for worst, _ in found) <= 0.0
    assert sum(bounded for _, bounded in found) > 2500


@pytest.mark.parametrize("which", list(CELL_CRITERIA))
def test_the_bound_of_a_small_cell_is_close(which):
    family = WidthFamily.of(RBF(10.0), X)
    zone = Zone.of(family, 0.0, 1e-3)
    u = math.log(0.1)
    found = bounded_cells(zone, zone.spectrum.targets(Y), np.array([[u - 1e-3, u + 1e-3]]), which, 0.0)
    assert found.lower[0] >= 0.98 * found.values[0]


def certified(which, gap=0.3, **others):
    family = WidthFamily.of(RBF(10.0), X)
    n = len(X)
    ends = {"logarithms": (-2.0, 3.0), "lambdas": (1e-4 * n, 10.0 * n), "gap": gap, "most": 5000} | others
    return family, search_widths(family, Y, which, **ends)


@pytest.mark.parametrize(
    "which", [pytest.param(which, marks=() if which == "evidence" else pytest.mark.slow) for which in CELL_CRITERIA]
)
def test_no_point_of_the_rectangle_is_below_the_bound_of_a_search(which):
    family, found = certified(which)
    unit = Zone.of(family, 0.0, 0.1).spectrum.targets(Y).unit
    rng = np.random.default_rng(4)
    widths, lambdas = rng.uniform(-2.0, 3.0, size=60), np.exp(rng.uniform(np.log(1e-4), np.log(10.0), size=60)) * len(X)
    seen = [criterion_of(family.kernel_at(t), X, Y, lam, which) for t, lam in zip(widths, lambdas, strict=True)]
    best = criterion_of(family.kernel_at(found.t), X, Y, found.lam, which)
    assert_allclose(found.value * unit**2, best, rtol=1e-9)
    assert found.bound * unit**2 <= min(seen)
    assert found.bound >= 0.69 * found.value
    assert found.ended == ""
    assert found.rows(found.value)[0].passes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_no_exact_criterion_is_below_the_bound_of_a_search(seed):
    """Whole searches on wild data against criteria with hundreds of digits."""
    pytest.importorskip("flint", reason="the exact criteria need python-flint")
    from tests.oracles.exact_criteria import exact_criterion

    X, Y, kernel, _, rng = wild(1000 + seed)
    X, y, which = X[:10], Y[:10, 0], list(CELL_CRITERIA)[seed % 3]
    unit = float(np.abs(X - X[:1]).max() or 1.0)
    family = WidthFamily.of(type(kernel)(**{**kernel.get_params(), "sigma": unit}), X)
    low, high = family.default_range()
    lambdas = (1e-5 * len(X), 10.0 * len(X))
    found = search_widths(family, y[:, None], which, lambdas, (max(low, high - 4.0), high), 0.3, 400)
    scale = Zone.of(family, 0.0, 0.1).spectrum.targets(y[:, None]).unit ** 2
    for _ in range(6):
        width = family.kernel_at(rng.uniform(max(low, high - 4.0), high))
        gammas = np.exp(-rng.uniform(*np.log(lambdas), size=4))
        assert found.bound * scale <= exact_criterion(which, width, X, y, gammas).min() * (1.0 + 1e-12)
    at_best = exact_criterion(which, family.kernel_at(found.t), X, y, [1.0 / found.lam])[0]
    assert found.bound * scale <= at_best * (1.0 + 1e-12)
    assert_allclose(found.value * scale, at_best, rtol=1e-6)


def test_a_search_that_is_cut_short_keeps_a_bound_and_says_why():
    _, short = certified("evidence", gap=0.4, most=20)
    assert short.zones == 20
    assert 0.0 <= short.bound <= short.value
    assert "max_evaluations" in dict(short.facts(RBF(10.0)))["search of width"]
    assert not short.rows(short.value)[0].passes
    counts = iter(range(1000))

    def interrupt(_):
        if next(counts) == 24:
            raise KeyboardInterrupt

    _, stopped = certified("evidence", gap=0.4, step=interrupt)
    assert stopped.zones == 25
    assert short.bound <= stopped.bound <= stopped.value
    assert "interrupted" in stopped.ended


def test_targets_or_rows_that_are_all_the_same():
    family = WidthFamily.of(RBF(10.0), X)
    constant = search_widths(family, np.full_like(Y, 3.0), "loo", (1.0, 10.0), (-1.0, 1.0), 0.1, 100)
    assert constant.bound == 0.0
    assert constant.rows(constant.value)[0].passes
    same = WidthFamily.of(RBF(1.0), np.ones((8, 2)))
    assert same.default_range() == (-1.0, 1.0)
    found = search_widths(same, Y[:8], "gcv", (1.0, 10.0), (-0.1, 0.1), 0.1, 100)
    assert_allclose(found.value * Zone.of(same, 0.0, 0.1).spectrum.targets(Y[:8]).unit ** 2, Y[:8].var() * 64 / 49)
    assert found.bound >= 0.9 * found.value


def test_kernels_without_one_width_are_refused():
    for kernel in (Linear(), 2.0 * RBF(1.0), Matern(1.0, nu=0.7)):
        with pytest.raises(DeclarationError, match="one width"):
            WidthFamily.of(kernel, X)


def exact_matrices(points, unit, t, h, weights):
    """Return K_1 in the middle of a zone and L + U, of RBF kernels, with 500 bits; h is the half-length of the zone."""
    import mpmath

    with mpmath.workprec(500):
        exact = [[mpmath.mpf(float(entry)) for entry in row] for row in points]
        n, d = len(exact), points.shape[1]
        roots = [mpmath.sqrt(mpmath.mpf(float(v))) for v in weights]
        t, h = mpmath.mpf(t), mpmath.mpf(h)
        kappa = mpmath.mpf(min(max(4.0 * float(h) * d / math.sqrt(2.0 * d), 0.02), 1.0))
        growth, stretch = mpmath.exp(2 * d * h), mpmath.exp(4 * h)

        def entries(i, j):
            square = sum((a - b) ** 2 for a, b in zip(exact[i], exact[j], strict=True)) / mpmath.mpf(unit) ** 2
            x = square * mpmath.exp(-2 * t)
            slope = 2 * x * mpmath.exp(-x)
            x = square * mpmath.exp(-2 * (t - h))
            k = mpmath.exp(-x)
            first, second = 2 * x * k, 4 * (x * x - x) * k
            W, P = (d * k - first) / 2, second + 2 * d * k - 2 * first
            V = P + 4 * d * W - d * d * k
            whole = 4 * growth * stretch * W + growth * ((1 + kappa) * P + (1 + 1 / kappa) * (stretch - 1) ** 2 * V)
            return slope * roots[i] * roots[j], whole * roots[i] * roots[j]

        pairs = [[entries(i, j) for j in range(n)] for i in range(n)]
        return [mpmath.matrix([[pairs[i][j][k] for j in range(n)] for i in range(n)]) for k in (0, 1)]


@pytest.mark.parametrize(
    ("scale", "offset", "weighted"),
    [(1.0, 0.0, False), (1e9, 0.0, True), (1e-9, 0.0, False), (1.0, 1e6, True), (3.0, 0.0, True)],
)
@pytest.mark.parametrize("t", [-0.7, 1.3])
def test_the_rounding_of_products_with_the_basis_is_bounded(scale, offset, weighted, t):
    """What is computed of K_1 and of L + U in the coordinates of a spectrum is within its bound of exact products.

    The basis is taken as it is: the norm of the difference is that of kernel values, sums and products alone, which
    :attr:`Zone.errors` bounds by the root of n, the norm of the basis, over the share of a sum of n products.
    """
    import mpmath

    rng = np.random.default_rng(7)
    points = offset + scale * rng.normal(size=(13, 2))
    points[3] = points[2]
    weights = rng.uniform(0.01, 2.0, 13) if weighted else np.ones(13)
    weights = weights / weights.mean()
    family = WidthFamily.of(RBF(scale), points)
    zone = Zone.of(family, t, 0.05, weights if weighted else None)
    slope, whole = exact_matrices(points, family.unit, t, zone.half, weights)
    with mpmath.workprec(500):
        basis = mpmath.matrix(zone.spectrum.basis.tolist())
        for computed, exact, bound in ((zone.slope, slope, zone.errors[0]), (zone.whole, whole, zone.errors[1])):
            difference = basis.T * exact * basis - mpmath.matrix(computed.tolist())
            assert 0.0 < float(mpmath.mnorm(difference, "f")) <= bound
