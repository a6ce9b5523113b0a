"""The two bounds under the search: of an interpolant's error, and of a polynomial's minimum."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from numpy.testing import assert_allclose

from substrate.gram import Gram
from substrate.kernels import RBF, Linear
from substrate.least_squares.criteria import LeaveOneOut, unknown_at
from substrate.least_squares.evidence import GeneralizedCrossValidation
from substrate.least_squares.spectrum import centred_spectrum
from substrate.least_squares.validation import ValidationCriterion
from substrate.search.polynomial_minimum import (
    DEGREE,
    coefficients,
    ellipse,
    growth_on_ellipse,
    interpolation_error,
    largest_on_cells,
    minimum_of_polynomial,
    points,
)

RNG = np.random.default_rng(4)
X = RNG.normal(size=(30, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=30)


def test_polynomials_are_their_own_interpolants():
    c = RNG.normal(size=DEGREE + 1)
    assert_allclose(coefficients(chebyshev.chebval(points(), c)), c, atol=1e-12)


@pytest.mark.parametrize("half", [0.5, 1.5, 3.0, 6.0])
@pytest.mark.parametrize("centre", [-18.0, -7.0, -1.0, 3.0])
@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(3.0), Linear()], ids=repr)
@pytest.mark.some_cases(24)
def test_the_error_of_interpolation_is_below_its_bound(half, centre, kernel):
    spectrum = centred_spectrum(Gram.of(kernel, X))
    inner = centred_spectrum(Gram.of(kernel, X[::2]))
    for criterion in (
        LeaveOneOut.of(spectrum, Y),
        GeneralizedCrossValidation.of(spectrum, Y),
        ValidationCriterion.of(inner, Y[::2], kernel(X[1::2], X[::2]), Y[1::2]),
    ):
        samples = criterion.sample((centre + half * points())[None, :])
        x = np.linspace(-1.0, 1.0, 301)
        exact = criterion.sample((centre + half * x)[None, :]).values[0, :, 0]
        seen = np.abs(chebyshev.chebval(x, coefficients(samples.values[0, :, 0])) - exact).max()
        bound = interpolation_error(half, samples.ceiling[0], criterion.cone, criterion.growth)[0]
        assert seen <= bound + 1e-11 * np.abs(exact).max()
        assert exact.max() <= samples.ceiling[0, 0] * (1.0 + 1e-10)


def complex_values(criterion, z):
    """The criteria by their formulas at complex lambda."""
    spectrum, coordinates = criterion.spectrum, criterion.targets.coordinates[:, 0]
    g = 1.0 / (spectrum.values[:, None] + z)
    if isinstance(criterion, ValidationCriterion):
        return np.mean((criterion.offsets - criterion.directions @ (g * coordinates[:, None])) ** 2, axis=0)
    if isinstance(criterion, GeneralizedCrossValidation):
        return spectrum.n * (coordinates**2 @ g**2) / g.sum(axis=0) ** 2
    return np.mean((spectrum.basis @ (g * coordinates[:, None]) / (spectrum.basis**2 @ g)) ** 2, axis=0)


@pytest.mark.parametrize("angle", [0.5, 1.5, 2.5, 3.0, 3.14])
@pytest.mark.parametrize("half", [0.5, 3.0])
def test_no_criterion_exceeds_its_ceiling_on_an_ellipse(angle, half):
    centred = np.linspace(-1.0, 1.0, 6)
    K = np.outer(centred, centred)  # one eigenvalue: nothing averages its pole out
    spectrum = centred_spectrum(Gram.from_matrix(K))
    y = centred + 0.01 * centred**2
    below = np.outer(np.array([3.0, -2.0]), centred)
    made = (
        LeaveOneOut.of(spectrum, y),
        GeneralizedCrossValidation.of(spectrum, y),
        ValidationCriterion.of(spectrum, y, below, np.zeros(2)),
    )
    rho, beyond = ellipse(half, np.array([angle]))
    for criterion in made:
        assert_allclose(
            complex_values(criterion, np.exp([0.3]))[0], criterion.sample(np.array([[0.3]])).values[0, 0, 0]
        )
        for centre in np.log(spectrum.values[-1]) + np.array([-4.0, 0.0, 4.0]):
            phase = np.exp(1j * np.linspace(0.0, 2.0 * np.pi, 721))
            t = centre + 0.5 * half * (rho * phase + 1.0 / (rho * phase))
            assert_allclose(np.abs(t.imag).max(), angle, rtol=1e-4)
            ceiling = criterion.sample((centre + half * points())[None, :]).ceiling[0, 0]
            factor = np.exp(growth_on_ellipse(half, np.array([angle]), criterion.cone, criterion.growth))[0]
            assert np.abs(complex_values(criterion, np.exp(t))).max() <= ceiling * factor * (1.0 + 1e-9)
    assert beyond[0] > 0.0


def test_the_bound_means_something():
    # so near that most of the digits of a double are proven, on an interval of the usual length
    assert interpolation_error(2.5, np.ones(1), 4, 1.0)[0] < 1e-9
    assert interpolation_error(1.0, np.ones(1), 4, 1.0)[0] < interpolation_error(2.0, np.ones(1), 4, 1.0)[0]


@pytest.mark.parametrize("seed", range(20))
def test_the_minimum_of_a_polynomial_is_bounded_closely(seed):
    rng = np.random.default_rng(seed)
    c = rng.normal(size=DEGREE + 1) * 0.7 ** np.arange(DEGREE + 1)
    x = np.linspace(-1.0, 1.0, 20001)
    truth = float(chebyshev.chebval(x, c).min())
    found = minimum_of_polynomial(c, np.inf, 1e-9)
    assert found.lower_bound <= truth + 1e-12
    assert found.lower_bound >= truth - 1e-6
    assert -1.0 <= found.point <= 1.0
    assert_allclose(chebyshev.chebval(found.point, c), found.value, atol=1e-12)
    assert found.value <= truth + 1e-9


def test_a_minimum_above_what_is_known_is_not_pursued():
    c = np.zeros(DEGREE + 1)
    c[:3] = [10.0, 0.0, 1.0]  # 9 + 2 x^2
    found = minimum_of_polynomial(c, 1.0, 1e-9)
    assert 1.0 <= found.lower_bound <= 9.0


def test_ends_and_constants():
    line = np.zeros(DEGREE + 1)
    line[1] = 1.0
    found = minimum_of_polynomial(line, np.inf, 1e-12)
    assert found.point == -1.0
    assert_allclose(found.lower_bound, -1.0, atol=1e-12)
    flat = np.zeros(DEGREE + 1)
    assert minimum_of_polynomial(flat, np.inf, 0.0).lower_bound == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_every_cell_has_its_own_bound(seed):
    c = np.random.default_rng(seed).normal(size=DEGREE + 1) / (1.0 + np.arange(DEGREE + 1)) ** 2
    found = minimum_of_polynomial(c, 1e9, 1e-6)
    edges = np.linspace(-1.0, 1.0, found.cells.size + 1)
    seen = np.array([chebyshev.chebval(np.linspace(*ends, 41), c).min() for ends in pairwise(edges)])
    assert (found.cells <= seen + 1e-13).all()
    assert found.cells.min() >= found.lower_bound
    assert found.cells.min() >= found.value - 2e-6


def test_a_number_per_stretch_covers_the_cells_that_meet_it():
    stretches = np.random.default_rng(0).random(DEGREE + 1)
    cells, x = largest_on_cells(stretches), points()
    edges = np.linspace(-1.0, 1.0, cells.size + 1)
    for place in np.random.default_rng(1).uniform(-1.0, 1.0, 500):
        stretch = min(int(np.searchsorted(x, place, side="right")) - 1, DEGREE - 1)
        cell = min(int(np.searchsorted(edges, place, side="right")) - 1, cells.size - 1)
        assert cells[cell] >= stretches[stretch]
    assert cells[0] >= stretches[0]
    assert cells[-1] >= stretches[DEGREE - 1]


@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(3.0), Linear()], ids=repr)
@pytest.mark.parametrize("centre", [-20.0, -8.0, 2.0])
def test_shifts_cover_the_exact_ones_between_the_points(kernel, centre):
    """Those of leave-one-out by their formula, with every column of B, at places between the points."""
    spectrum = centred_spectrum(Gram.of(kernel, X))
    criterion = LeaveOneOut.of(spectrum, Y)
    t = centre + 3.0 * points()
    samples = criterion.sample(t[None, :])
    between = np.sort(np.concatenate([t, 0.5 * (t[1:] + t[:-1]), t[:-1] + 0.9 * np.diff(t)]))
    unknown, q = (values[0] for values in unknown_at(spectrum, between[None, :]))
    g = 1.0 / (spectrum.values[:, None] + np.exp(between))
    diagonal, lengths = spectrum.basis**2 @ g, spectrum.basis**2 @ g**2
    alpha = np.sqrt((g**2).T @ criterion.targets.coordinates[:, 0] ** 2)
    exact = unknown * alpha / (1.0 - 2.0 * q) * np.sqrt(np.mean(lengths / diagonal**2, axis=0))
    shrink = 1.0 / (1.0 + unknown / (1.0 - q) * (lengths / diagonal).max(axis=0))
    stretch = np.minimum(np.searchsorted(t, between, side="right") - 1, DEGREE - 1)
    kept = q < 0.4
    assert (exact[kept] <= samples.shifts[0, stretch[kept], 0] * (1.0 + 1e-9)).all()
    if kept.all():
        assert (shrink >= samples.shrink[0, 0] - 1e-12).all()
        # bounds, and no more than that: chords between neighbouring points are nearly tangents
        assert (samples.shifts[0, :-1, 0] <= 3.0 * exact[np.isin(between, t)][:-1]).all()


def test_an_interval_that_is_a_point_has_the_shift_of_that_point():
    criterion = LeaveOneOut.of(centred_spectrum(Gram.of(RBF(3.0), X)), Y)
    alone = criterion.sample(np.array([[-8.0]])).shifts[0]
    assert_allclose(criterion.sample(np.full((1, DEGREE + 1), -8.0)).shifts[0], np.tile(alone, (DEGREE + 1, 1)))
    assert (alone > 0.0).all()
