"""Sums over rows that are left out alone: those of blocks of one row, with as many strips of rows as there are."""

import numpy as np
import pytest

from substrate.gram import Gram
from substrate.kernels import RBF
from substrate.least_squares.criteria import LeaveOneOut, sum_blocks, sum_single_rows
from substrate.least_squares.left_out_blocks import LeftOutBlocks
from substrate.least_squares.spectrum import centred_spectrum

POINTS = {
    "apart": np.linspace(-6.0, 2.0, 12).reshape(3, 4),
    "two agree": np.array([[-3.0, -3.0, -1.0], [0.0, 0.5, 0.5]]),
    "one each": np.array([[-2.0], [1.0]]),
}


@pytest.mark.parametrize("t", POINTS.values(), ids=POINTS)
@pytest.mark.parametrize("n", [7, 300])
def test_they_are_those_of_blocks_of_one_row(n, t):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    spectrum = centred_spectrum(Gram.of(RBF(1.0), X), RBF(1.0).rounding(X))
    criterion = LeaveOneOut.of(spectrum, Y)
    g, lambdas = criterion._at(t)
    given = (spectrum.basis, g, criterion.targets.coordinates)
    roots = np.sqrt(criterion.machine.quadratic(g, lambdas))
    blocks = LeftOutBlocks.of_groups(np.arange(n))
    for found, expected in zip(sum_single_rows(*given), sum_blocks(*given, roots, blocks)[:3], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert found.shape[0] == t.size
