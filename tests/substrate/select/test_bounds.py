"""The two bounds under the search: of an interpolant's error, and of a polynomial's minimum."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from numpy.testing import assert_allclose

from substrate.kernels import RBF, Linear
from substrate.left_out.criteria import OF_SPECTRUM, GeneralizedCrossValidation, LeaveOneOut, ValidationCriterion
from substrate.left_out.leave_one_out import LeftOutBlocks
from substrate.operators import Gram
from substrate.operators.spectrum import centred_spectrum
from substrate.select.polynomial_minimum import (
    DEGREE,
    coefficients,
    ellipse,
    growth_on_ellipse,
    interpolation_error,
    minima_of_polynomial,
    points,
)

RNG = np.random.default_rng(4)
X = RNG.normal(size=(30, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=30)
BLOCKS = {
    "alone": LeftOutBlocks.centred(30, 0),
    "neighbours": LeftOutBlocks.centred(30, 3),
    "groups": LeftOutBlocks.of_groups(np.arange(30) % 7),
}


@pytest.mark.parametrize("half", [0.5, 1.5, 3.0, 6.0])
@pytest.mark.parametrize("centre", [-18.0, -7.0, -1.0, 3.0])
@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(3.0), Linear()], ids=repr)
@pytest.mark.covering
def test_the_error_of_interpolation_is_below_its_bound(half, centre, kernel):
    spectrum = centred_spectrum(Gram.of(kernel, X))
    inner = centred_spectrum(Gram.of(kernel, X[::2]))
    for criterion in (
        LeaveOneOut.of(spectrum, Y),
        LeaveOneOut.of_blocks(spectrum, Y, BLOCKS["neighbours"]),
        LeaveOneOut.of_blocks(spectrum, Y, BLOCKS["groups"]),
        GeneralizedCrossValidation.of(spectrum, Y),
        ValidationCriterion.of_rows(inner, Y[::2], kernel(X[1::2], X[::2]), Y[1::2]),
    ):
        samples = criterion.sample((centre + half * points())[None, :])
        x = np.linspace(-1.0, 1.0, 301)
        exact = criterion.sample((centre + half * x)[None, :]).values[0, :, 0]
        seen = np.abs(chebyshev.chebval(x, coefficients(samples.values[0, :, 0])) - exact).max()
        bound = interpolation_error(half, samples.ceilings[0].max(axis=0), criterion.cone, criterion.growth)[0]
        assert seen <= bound + 1e-11 * np.abs(exact).max()
        assert exact.max() <= samples.ceilings[0, :, 0].max() * (1.0 + 1e-10)


def complex_values(criterion, z):
    """The criteria by their formulas at complex lambda."""
    spectrum, coordinates = criterion.spectrum, criterion.targets.coordinates[:, 0]
    g = 1.0 / (spectrum.values[:, None] + z)
    if isinstance(criterion, ValidationCriterion):
        return np.mean((criterion.offsets - criterion.directions @ (g * coordinates[:, None])) ** 2, axis=0)
    if isinstance(criterion, GeneralizedCrossValidation):
        return spectrum.n * (coordinates**2 @ g**2) / g.sum(axis=0) ** 2
    if criterion.blocks is None:
        return np.mean((spectrum.basis @ (g * coordinates[:, None]) / (spectrum.basis**2 @ g)) ** 2, axis=0)
    values, alpha = np.zeros(g.shape[1], dtype=g.dtype), (spectrum.basis @ (g * coordinates[:, None])).T
    for block, counted in zip(criterion.blocks.rows, criterion.blocks.counted, strict=True):
        B = (spectrum.basis[block] * g.T[:, None, :]) @ spectrum.basis[block].T
        values += np.square(np.linalg.solve(B, alpha[:, block, None])[:, counted, 0]).sum(axis=1)
    return values / spectrum.n


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
        LeaveOneOut.of_blocks(spectrum, y, LeftOutBlocks.centred(6, 1)),
        LeaveOneOut.of_blocks(spectrum, y, LeftOutBlocks.of_groups([0, 1, 1, 0, 2, 2])),
        GeneralizedCrossValidation.of(spectrum, y),
        ValidationCriterion.of_rows(spectrum, y, below, np.zeros(2)),
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
            ceiling = criterion.sample((centre + half * points())[None, :]).ceilings[0, :, 0].max()
            factor = np.exp(growth_on_ellipse(half, np.array([angle]), criterion.cone, criterion.growth))[0]
            assert np.abs(complex_values(criterion, np.exp(t))).max() <= ceiling * factor * (1.0 + 1e-9)
    assert beyond[0] > 0.0


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("decay", "near"), [(0.7, 1e-6), (0.95, 1e-3)])
def test_the_minimum_of_a_polynomial_is_bounded_closely_on_every_stretch(seed, decay, near):
    rng = np.random.default_rng(seed)
    c = rng.normal(size=DEGREE + 1) * decay ** np.arange(DEGREE + 1)
    lowest, point, value = minima_of_polynomial(c)
    seen = np.array([chebyshev.chebval(np.linspace(*ends, 801), c).min() for ends in pairwise(points())])
    assert (lowest <= seen + 1e-12).all()
    assert (lowest >= seen - near).all()
    assert -1.0 <= point <= 1.0
    assert_allclose(chebyshev.chebval(point, c), value, atol=1e-12)
    assert value <= seen.min() + 1e-12


def changed_by(spectrum, E):
    """The spectrum of the matrix with E added off the ones, and the given one with the size of E as its error."""
    values, vectors = np.linalg.eigh(np.diag(spectrum.values) + E)
    exact = replace(spectrum, values=values, basis=spectrum.basis @ vectors)
    return exact, replace(spectrum, error=float(np.linalg.norm(E, 2)), skew=0.0)


def criteria_of(spectrum, rows, checked):
    """Every criterion of a dense spectrum, by name."""
    made = {name: kind.of(spectrum, Y) for name, kind in OF_SPECTRUM.items()}
    made |= {f"blocks {name}": LeaveOneOut.of_blocks(spectrum, Y, blocks) for name, blocks in BLOCKS.items()}
    return made | {"validation": ValidationCriterion.of_rows(spectrum, Y, rows, checked)}


@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(3.0), Linear()], ids=repr)
@pytest.mark.parametrize("centre", [-20.0, -8.0, 2.0])
@pytest.mark.covering
def test_an_actual_error_takes_no_more_from_the_root_than_what_is_lost(kernel, centre):
    """At places between the points, for random errors that a bound is for, and for the worst of them."""
    rng = np.random.default_rng(5)
    t = centre + 3.0 * points()
    spectrum = centred_spectrum(Gram.of(kernel, X))
    checked = rng.normal(size=(7, X.shape[1]))
    rows, targets, least, seen = kernel(checked, X), rng.normal(size=7), [], 0
    z = spectrum.targets(Y).coordinates[:, 0]
    for share in (0.4, 0.02):
        for E in (rng.normal(size=(z.size, z.size)), np.outer(z, z), -np.outer(z, z)):
            E = (E + E.T) * (share * (spectrum.values[0] + np.exp(t[0])) / np.linalg.norm(E + E.T, 2))
            exact, given = (criteria_of(one, rows, targets) for one in changed_by(spectrum, E))
            between = np.sort(np.concatenate([t, 0.5 * (t[1:] + t[:-1])]))
            stretch = np.minimum(np.searchsorted(t, between, side="right") - 1, DEGREE - 1)
            for name, criterion in given.items():
                lost = criterion.sample(t[None, :]).lost[0, stretch, 0]
                here = criterion.sample(between[None, :]).values[0, :, 0]
                there = exact[name].sample(between[None, :]).values[0, :, 0]
                taken = np.sqrt(here) - np.sqrt(there)
                assert (taken <= lost + 1e-9 * np.sqrt(here)).all(), name
                least.append((taken / lost).max())
                seen += 1
    assert seen == 6 * len(given)
    assert max(least) > 1e-3, "bounds that mean something"
