"""Evidence of zones from their ends: both brackets hold on any directions, and a search agrees with one of spectra."""

import math
from dataclasses import replace

import numpy as np
import pytest
from array_homes import sender
from exact_criteria import exact_criterion
from numpy.testing import assert_allclose
from sampled_cases import first
from wild_widths import KERNELS, criterion_of, wild

from substrate.arrays import EPS
from substrate.kernels import RBF
from substrate.search.compressed_search import CompressedZones
from substrate.search.compressed_zone import compress_zone
from substrate.search.width_bounds import WidthFamily, spectral_moment
from substrate.search.width_search import search_widths
from substrate.search.zone_directions import AllDirections, Enough, SomeDirections, centre_targets, leading_directions


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
    t, half = rng.uniform(*family.default_range()), 10.0 ** rng.uniform(-4.0, 0.2) / family.dimension**0.5
    u, du = rng.uniform(np.log(1e-6 * n), np.log(10.0 * n), size=3), 10.0 ** rng.uniform(-4.0, -0.3, size=3)
    cells = np.column_stack([u - du, u + du])
    spans = [
        AllDirections.of(root, n),
        SomeDirections.of(root, some_directions(target, root, int(rng.integers(0, n)), rng)),
    ]
    zones = [compress_zone(family, t, half, target, span) for span in spans]
    lower = [zone.bound_cells(cells).lower for zone in zones]
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
        for zone in zones:
            reached = criterion_of(family.kernel_at(zone.t), X, Y, lam, "evidence", weights) / unit**2
            worst = max(worst, 1.0 - zone.bound_evidence(lam) / reached - rounding) if reached > 0.0 else worst
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
        span = SomeDirections.of(None, some_directions(target, None, count, rng))
        zone = compress_zone(family, 0.0, 0.0, target, span)
        lower = zone.bound_cells(cells).lower
        upper = np.array([zone.bound_evidence(float(lam)) for lam in lambdas])
        assert (lower <= exact).all()
        assert (exact <= upper).all()
        widths.append(np.log(upper / lower)[1:])
    assert (np.diff(widths, axis=0) <= 1e-9).all()
    zone = compress_zone(family, 0.0, 0.0, target, AllDirections.of(None, n))
    lower, upper = zone.bound_cells(cells).lower, np.array([zone.bound_evidence(float(lam)) for lam in lambdas])
    assert (lower <= exact).all()
    assert (exact <= upper).all()
    widths.append(np.log(upper / lower)[1:])
    assert np.max(widths[-2:]) < 1e-6  # of all directions nothing is left but rounding
    enough = Enough(gammas=np.array([1.0 / 3.0]), loss=1e-3, wanted=np.inf, half=0.0)
    chosen = leading_directions(family.derivatives(0.0)[0], None, target, enough)
    assert chosen is None or chosen.columns.shape[1] < n // 2
    if chosen is not None:
        zone = compress_zone(family, 0.0, 0.0, target, chosen)
        assert zone.bound_evidence(3.0) / zone.bound_cells(cells).lower[2] < 1.01


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_matrices_of_a_zone_lie_between_what_its_ends_say(kernel):
    """From below by the widest kernel and its moment, in the Loewner order; forms from above by both ends."""
    rng = np.random.default_rng(2)
    for points, length in ((rng.normal(size=(14, 1)), 0.5), (rng.normal(size=(14, 3)), 0.25)):
        family = WidthFamily.of(kernel, points)
        d, target = family.dimension, centre_targets(rng.normal(size=14), None)[0]
        zone = compress_zone(family, 0.3, 0.5 * length, target, AllDirections.of(None, 14))
        wide, slope, _ = family.derivatives(zone.t)
        moment, u = spectral_moment(d, wide, slope), rng.normal(size=(14, 5))
        (p_near, q_near), (p_far, q_far) = zone.minorants()
        assert q_far > 0.0
        ends = [np.einsum("ik,ik->k", u, family.derivatives(zone.t - end)[0] @ u) for end in (0.0, zone.length)]
        for share in np.linspace(0.0, 1.0, 9):
            K = family.derivatives(zone.t - share * zone.length)[0]
            p, q = p_near + share * (p_far - p_near), q_near + share * (q_far - q_near)
            assert np.linalg.eigvalsh(K - p * wide - q * moment).min() >= -1e-13
            most = zone.stretch * (share * ends[1] + (1.0 - share) * ends[0])
            assert (np.einsum("ik,ik->k", u, K @ u) <= most * (1.0 + 1e-13)).all()


def test_a_form_inside_a_zone_may_need_its_stretch():
    """A wave with w = (d + 1) / 2 in the middle, where the form is most concave, is far above the line of its ends."""
    x = np.linspace(-20.0, 20.0, 801)
    family, target = WidthFamily.of(RBF(1.0), x[:, None]), centre_targets(x, None)[0]
    zone = compress_zone(family, 0.0, 0.4, target, AllDirections.of(None, x.size))
    wave = np.cos(2.0 * x) * np.exp(-np.square(x / 8.0))  # at the width one w is a quarter of the squared frequency
    narrow, middle, wide = (
        float(wave @ family.derivatives(t)[0] @ wave)
        for t in (zone.t - zone.length, zone.t - 0.5 * zone.length, zone.t)
    )
    assert 1.2 * 0.5 * (narrow + wide) < middle <= zone.stretch * 0.5 * (narrow + wide)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 10, 40])
def test_lines_are_below_the_factors_of_zones_of_any_length(d):
    family, target = WidthFamily.of(RBF(1.0), np.arange(4.0)[:, None]), centre_targets(np.arange(4.0), None)[0]
    some, share = compress_zone(family, 0.0, 0.1, target, AllDirections.of(None, 4)), np.linspace(0.0, 1.0, 201)
    for length in (1e-6, 0.01, 0.3 / d, 1.0 / d, 1.9 / d, 2.1 / d, 0.5, 0.9, 1.7):
        zone = replace(some, dimension=d, length=length)
        (p_near, q_near), (p_far, q_far) = zone.minorants()
        theta = share * zone.length
        assert min(p_near, p_far, q_near, q_far) >= 0.0
        assert (p_near + share * (p_far - p_near) <= np.exp(-d * theta) * (1.0 + 1e-14)).all()
        assert (q_near + share * (q_far - q_near) <= np.exp(-d * theta) * -np.expm1(-2.0 * theta) * (1.0 + 1e-14)).all()


def test_a_bound_of_a_small_cell_is_of_second_order():
    """Half the size loses a quarter, on the way to nothing."""
    X, y = smooth_rows(60)
    family, target = WidthFamily.of(RBF(1.5), X), centre_targets(y, None)[0]
    losses = []
    for half in (0.04, 0.02, 0.01):
        zone = compress_zone(family, 0.0, half, target, AllDirections.of(None, 60))
        lower = zone.bound_cells(np.array([[-half, half]])).lower[0]
        corners = [
            compress_zone(family, t, 0.0, target, AllDirections.of(None, 60)).bound_evidence(math.exp(log))
            for t in (-half, 0.0, half)
            for log in (-half, 0.0, half)
        ]
        losses.append(math.log(min(corners) / lower))
    assert losses[0] > losses[1] > losses[2] > 0.0
    assert losses[2] < 0.12 * losses[0]


def test_a_matrix_without_a_factor_bounds_nothing_and_nothing_breaks():
    X, y = smooth_rows(20)
    family, target = WidthFamily.of(RBF(1.5), X), centre_targets(y, None)[0]
    zone = compress_zone(family, 0.0, 0.01, target, AllDirections.of(None, 20))
    broken = replace(zone, wide=-zone.wide * 1e6, narrow=-zone.narrow * 1e6, _corners={})
    assert (broken.bound_cells(np.array([[-1.0, 1.0]])).lower == 0.0).all()
    assert broken.bound_evidence(1.0) == math.inf


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
        zone = compress_zone(family, 0.0, 0.01, target, AllDirections.of(None, 40))
        bounds.append([*zone.bound_cells(cells).lower, zone.bound_evidence(0.3)])
    assert_allclose(bounds[0], bounds[1], rtol=1e-9)


def test_a_search_on_a_device_is_that_of_the_host():
    send = sender("torch")
    X, y = smooth_rows(30, 1)
    here, there = (
        search_widths(
            WidthFamily.of(RBF(1.0), points), y, "evidence", (1e-1, 1e1), (-0.5, 0.5), 0.1, 200, kind=CompressedZones
        )
        for points in (X, send(X))
    )
    assert here.ended == there.ended == ""
    for search in (here, there):
        assert search.bound >= 0.9 * search.value
    assert_allclose(here.value, there.value, rtol=0.1)
