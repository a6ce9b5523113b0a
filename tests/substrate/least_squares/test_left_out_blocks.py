"""Rows that are left out together: the closed form against refits, its slope and its rules."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import RBF
from substrate.least_squares.border import Border
from substrate.least_squares.criteria import LeaveOneOut
from substrate.least_squares.leave_one_out import projected_inverse
from substrate.least_squares.left_out_blocks import LeftOutBlocks, block_residuals
from substrate.least_squares.saddle_system import solve_saddle_system
from substrate.least_squares.spectrum import centred_spectrum
from substrate.search.gamma_search import _rounding, search_gamma

RNG = np.random.default_rng(11)
N = 36
X = RNG.normal(size=(N, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=N)
V = RNG.uniform(0.2, 3.0, size=N)
BLOCKS = {
    "alone": LeftOutBlocks.centred(N, 0),
    "neighbours": LeftOutBlocks.centred(N, 2),
    "two series": LeftOutBlocks.centred(N, 3, np.arange(N) >= 20),
    "groups": LeftOutBlocks.of_groups(np.arange(N) % 5),
    "unequal groups": LeftOutBlocks.of_groups(["a"] * 3 + ["b"] * 20 + ["c"] * 12 + ["d"]),
}
KERNEL = RBF(1.2)


def refit_without(block, ridge, border=None):
    """Residuals of the rows of a block of the machine on the others, by its own system."""
    others = np.setdiff1d(np.arange(N), block)
    given = {} if border is None else {"border": border.take(others, 1.0 / ridge[others])}
    solved = solve_saddle_system(Gram.of(KERNEL, X[others]), Y[others], ridge[others], **given)
    residuals = Y[block] - KERNEL(X[block], X[others]) @ solved.support_values - solved.bias
    return residuals if border is None else residuals - (border.columns[block] - border.center) @ solved.slopes


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("weights", [np.ones(N), V], ids=["equal", "weighted"])
def test_residuals_are_those_of_refits(name, weights):
    blocks, ridge = BLOCKS[name], 0.05 / weights
    gram = Gram.of(KERNEL, X)
    alpha = solve_saddle_system(gram, Y, ridge).support_values
    found = block_residuals(alpha, projected_inverse(gram, ridge), blocks)
    for block, counted in zip(blocks.rows, blocks.counted, strict=True):
        assert_allclose(found[block[counted]], refit_without(block, ridge)[counted], rtol=1e-9, atol=1e-11)
    # the criterion of a spectrum is their weighted mean square
    spectrum = centred_spectrum(gram, 0.0, weights / weights.mean())
    criterion = LeaveOneOut.of_blocks(spectrum, Y, blocks)
    t = np.log(0.05 / weights.mean())
    value = criterion.sample(np.array([[t]])).values[0, 0, 0] * criterion.unit**2
    assert_allclose(value, np.mean(weights / weights.mean() * found**2), rtol=1e-9)


def test_residuals_with_a_linear_part_are_those_of_refits():
    ridge, blocks = np.full(N, 0.1), BLOCKS["groups"]
    border = Border.of(X[:, :1] + 5.0, np.ones(N))
    gram = Gram.of(KERNEL, X)
    alpha = solve_saddle_system(gram, Y, ridge, border=border).support_values
    found = block_residuals(alpha, projected_inverse(gram, ridge, border), blocks)
    for block in blocks.rows:
        assert_allclose(found[block], refit_without(block, ridge, border), rtol=1e-8, atol=1e-10)


def test_blocks_of_one_row_are_leave_one_out():
    spectrum = centred_spectrum(Gram.of(KERNEL, X))
    single = LeaveOneOut.of(spectrum, Y)
    assert LeaveOneOut.of_blocks(spectrum, Y, BLOCKS["alone"]).blocks is None
    assert single.sample(np.array([[0.0]])).condition is None


@pytest.mark.parametrize("name", ["neighbours", "unequal groups"])
def test_the_best_gamma_is_global(name):
    spectrum = centred_spectrum(Gram.of(KERNEL, X))
    criterion = LeaveOneOut.of_blocks(spectrum, Y, BLOCKS[name])
    found = search_gamma(criterion)
    assert found.is_closed
    low, high = found.gamma_range
    t = -np.log(np.geomspace(low, high, 400))[None, ::-1]
    values = criterion.sample(t).values[0, :, 0]
    assert values.min() >= found.bounds[0]
    assert found.values[0] <= values.min() * (1.0 + 1e-9)


def precise_criterion(spectrum, coordinates, lam, blocks):
    """The criterion in extended precision, from the numbers of the spectrum as they are."""
    U, z = (values.astype(np.longdouble) for values in (spectrum.basis, coordinates))
    g = 1.0 / (spectrum.values.astype(np.longdouble) + np.longdouble(lam))
    total = np.longdouble(0.0)
    for block, counted in zip(blocks.rows, blocks.counted, strict=True):
        A, r = (U[block] * g) @ U[block].T, U[block] @ (g * z)
        for pivot in range(block.size):  # elimination without pivoting: the matrix is positive definite
            factors = A[:, pivot] / A[pivot, pivot]
            factors[pivot] = 0.0
            r = r - factors * r[pivot]
            A = A - np.outer(factors, A[pivot])
        total += np.square((r / A.diagonal())[counted]).sum()
    return total / spectrum.n


@pytest.mark.parametrize("name", ["neighbours", "two series", "unequal groups"])
@pytest.mark.parametrize("kernel", [RBF(0.5), RBF(8.0)], ids=repr)
def test_rounding_is_within_what_the_search_takes_off(name, kernel):
    spectrum = centred_spectrum(Gram.of(kernel, X))
    criterion = LeaveOneOut.of_blocks(spectrum, Y, BLOCKS[name])
    t = np.linspace(-28.0, 3.0, 12)
    samples = criterion.sample(t[:, None])
    allowed = _rounding(criterion, samples.values[:, 0], samples.ceilings[:, 0], samples.condition)[:, 0]
    assert np.isfinite(allowed[t > -12.0]).all()
    for place, lam in enumerate(np.exp(t)):
        exact = precise_criterion(spectrum, criterion.targets.coordinates[:, 0], lam, BLOCKS[name])
        assert abs(float(samples.values[place, 0, 0] - exact)) <= allowed[place]


def test_units_and_offsets_change_nothing():
    ridge, gram = np.full(N, 0.05), Gram.of(KERNEL, X)
    B = projected_inverse(gram, ridge)
    plain = block_residuals(solve_saddle_system(gram, Y, ridge).support_values, B, BLOCKS["neighbours"])
    for unit in (1e-9, 1e9):
        alpha = solve_saddle_system(gram, unit * Y, ridge).support_values
        assert_allclose(block_residuals(alpha, B, BLOCKS["neighbours"]) / unit, plain, rtol=1e-9)
    alpha = solve_saddle_system(gram, Y + 1e8, ridge).support_values
    assert_allclose(block_residuals(alpha, B, BLOCKS["neighbours"]), plain, rtol=1e-5, atol=1e-6)


def test_blocks_end_where_a_series_does():
    blocks = LeftOutBlocks.centred(7, 2, [0, 0, 0, 0, 1, 1, 1])
    assert [block.tolist() for block in blocks.rows[2:5]] == [[0, 1, 2, 3], [1, 2, 3], [4, 5, 6]]
    assert [int(block[counted[0]]) for block, counted in zip(blocks.rows, blocks.counted, strict=True)] == list(
        range(7)
    )


def test_blocks_that_leave_nothing_are_refused():
    with pytest.raises(DataError, match="one label only"):
        LeftOutBlocks.of_groups(np.zeros(5))
    with pytest.raises(DataError, match="fewer than two are left"):
        LeftOutBlocks.of_groups([0, 0, 0, 1])
    with pytest.raises(DataError, match="fewer than two are left"):
        LeftOutBlocks.centred(6, 5)
    with pytest.raises(DeclarationError, match="at least 0"):
        LeftOutBlocks.centred(6, -1)
    with pytest.raises(DataError, match="a vector"):
        LeftOutBlocks.of_groups(np.zeros((3, 2)))
