"""Evidence on few directions: both brackets hold for any directions, over whole zones, and a search agrees with all."""

import math

import numpy as np
import pytest
from array_homes import sender
from exact_criteria import exact_criterion
from numpy.testing import assert_allclose
from sampled_cases import first
from wild_widths import criterion_of, wild

from substrate.arrays import EPS
from substrate.kernels import RBF
from substrate.search.compressed_search import CompressedZones
from substrate.search.compressed_zone import centre_targets, compress_zone, leading_directions, narrowest
from substrate.search.monotone_zone import MonotoneZone
from substrate.search.width_bounds import WidthFamily
from substrate.search.width_criteria import bounded_cells
from substrate.search.width_search import search_widths


def some_directions(target, root, count, rng):
    """Orthonormal columns beside the weighted constant, random but for the targets."""
    n = target.shape[0]
    one = np.ones(n) if root is None else root
    columns = np.linalg.qr(np.column_stack([one, target, rng.normal(size=(n, count))]))[0]
    return columns[:, 1:n]


def family_of(kernel, X):
    spread = np.abs(X - X[:1]).max()
    return WidthFamily.of(type(kernel)(**{**kernel.get_params(), "sigma": float(spread or 1.0)}), X)


def excess_of_zones(seed):
    """Return by how much a lower bound exceeds, or an upper one falls below, the criterion, beyond its own rounding."""
    X, Y, kernel, weights, rng = wild(seed)
    n, family = len(X), family_of(kernel, X)
    root = None if weights is None else np.sqrt(weights)
    target, unit = centre_targets(Y, root)
    t, half = rng.uniform(*family.default_range()), 10.0 ** rng.uniform(-4.0, -0.6) / family.dimension**0.5
    u, du = rng.uniform(np.log(1e-6 * n), np.log(10.0 * n), size=3), 10.0 ** rng.uniform(-4.0, -0.3, size=3)
    cells = np.column_stack([u - du, u + du])
    directions = some_directions(target, root, int(rng.integers(0, n)), rng) if seed % 3 else None
    zone = compress_zone(family, t, narrowest(family, t, half), target, directions, weights)
    lower = [
        bounded_cells(zone, zone.targets, cells, "evidence", 0.0).lower,
        MonotoneZone(family, t, half, target, weights).lower_bounds(cells),
    ]
    worst, bounded = -np.inf, 0
    for j in range(3):
        rounding = 1e-12 + 1e3 * EPS * n * n / math.exp(u[j] - du[j])
        places = [(1, 1), (1, -1), (-1, 1), (-1, -1), *rng.uniform(-1.0, 1.0, size=(2, 2))]
        at = [(family.kernel_at(t + a * half), math.exp(u[j] + b * du[j])) for a, b in places]
        least = min(criterion_of(k, X, Y, lam, "evidence", weights) for k, lam in at) / unit**2
        for bounds in lower:
            if bounds[j] > 0.0 and least > 0.0:
                worst, bounded = max(worst, bounds[j] / least - 1.0 - rounding), bounded + 1
        lam = math.exp(u[j])
        middle = criterion_of(family.kernel_at(t), X, Y, lam, "evidence", weights) / unit**2
        worst = max(worst, 1.0 - zone.bound_evidence(lam) / middle - rounding) if middle > 0.0 else worst
    return worst, bounded


@pytest.mark.parametrize("seed", first(24, range(400)))
def test_no_point_of_a_zone_is_outside_of_its_bounds(seed):
    worst, _ = excess_of_zones(seed)
    assert worst <= 0.0


def test_many_zones_are_bounded():
    assert sum(excess_of_zones(seed)[1] for seed in range(12)) > 20


def smooth_rows(n, d=2):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("n", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_the_brackets_hold_the_exact_evidence(n):
    """Against the determinant and the solution with hundreds of digits, kernel values included."""
    X, y = smooth_rows(n)
    family = WidthFamily.of(RBF(1.5), X)
    target, unit = centre_targets(y, None)
    rng, lambdas = np.random.default_rng(0), np.array([1e-3, 0.1, 3.0])
    exact = exact_criterion("evidence", RBF(1.5), X, y, 1.0 / lambdas) / unit**2
    cells = np.log(np.column_stack([lambdas, lambdas]))
    widths = []
    for count in (n // 10, n // 3, n):
        directions = some_directions(target, None, count, rng)
        zone = compress_zone(family, 0.0, narrowest(family, 0.0, 0.0), target, directions)
        lower = bounded_cells(zone, zone.targets, cells, "evidence", 0.0).lower
        upper = np.array([zone.bound_evidence(float(lam)) for lam in lambdas])
        assert (lower <= exact).all()
        assert (exact <= upper).all()
        widths.append(np.log(upper / lower)[1:])
    assert (np.diff(widths, axis=0) <= 1e-9).all()
    assert widths[-1].max() < 1e-6  # of all directions nothing is left but rounding
    chosen = leading_directions(family.derivatives(0.0)[0], None, target, 1e-3 * n)
    zone = compress_zone(family, 0.0, narrowest(family, 0.0, 0.0), target, chosen)
    assert chosen is None or chosen.shape[1] < n // 2
    assert zone.bound_evidence(3.0) / bounded_cells(zone, zone.targets, cells, "evidence", 0.0).lower[2] < 1.01


@pytest.mark.parametrize("weighted", [False, True])
def test_a_search_on_few_directions_agrees_with_that_on_all(weighted):
    X, y = smooth_rows(40, 1)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, 40) if weighted else None
    weights = None if weights is None else weights / weights.mean()
    family, Y = WidthFamily.of(RBF(1.0), X), y[:, None]
    arguments = (family, Y, "evidence", (1e-2, 1e2), (-1.0, 1.0), 0.05, 500, weights)
    few, every = search_widths(*arguments, kind=CompressedZones), search_widths(*arguments)
    assert few.ended == every.ended == ""
    assert_allclose(few.value, every.value, rtol=0.05)
    unit = centre_targets(Y, None)[1]
    grid = [
        criterion_of(family.kernel_at(t), X, Y, lam, "evidence", weights) / unit**2
        for t in np.linspace(-1.0, 1.0, 9)
        for lam in np.geomspace(1e-2, 1e2, 9)
    ]
    assert few.bound <= min(grid)
    assert few.bound >= 0.95 * few.value
    assert few.value >= min(every.bound, 0.0)


def test_distances_may_be_on_a_device():
    send = sender("torch")
    X, y = smooth_rows(40, 1)
    target = centre_targets(y, None)[0]
    cells = np.log([[0.1, 0.12], [1.0, 1.1]])
    bounds = []
    for points in (X, send(X)):
        family = WidthFamily.of(RBF(1.0), points)
        directions = leading_directions(family.derivatives(-0.01)[0], None, target, 0.5)
        zone = compress_zone(family, 0.0, narrowest(family, 0.0, 0.01), target, directions)
        bounds.append(bounded_cells(zone, zone.targets, cells, "evidence", 0.0).lower)
        assert MonotoneZone(family, 0.0, 0.01, target).lower_bounds(cells).min() > 0.0
    assert_allclose(bounds[0], bounds[1], rtol=1e-9)
