"""Rows that are left out together: the closed form against refits, its slope and its rules."""

import numpy as np
import pytest

from substrate.kernels import RBF
from substrate.left_out.criteria import LeaveOneOut
from substrate.left_out.leave_one_out import LeftOutBlocks
from substrate.operators import Gram
from substrate.operators.spectrum import centred_spectrum
from substrate.select.gamma_search import _rounding

RNG = np.random.default_rng(11)
N = 36
X = RNG.normal(size=(N, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=N)
BLOCKS = {
    "alone": LeftOutBlocks.centred(N, 0),
    "neighbours": LeftOutBlocks.centred(N, 2),
    "two series": LeftOutBlocks.centred(N, 3, np.arange(N) >= 20),
    "groups": LeftOutBlocks.of_groups(np.arange(N) % 5),
    "unequal groups": LeftOutBlocks.of_groups(["a"] * 3 + ["b"] * 20 + ["c"] * 12 + ["d"]),
}


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
    allowed = _rounding(criterion, samples.values[:, 0], samples.ceilings[:, 0])[:, 0]
    assert np.isfinite(allowed[t > -12.0]).all()
    for place, lam in enumerate(np.exp(t)):
        exact = precise_criterion(spectrum, criterion.targets.coordinates[:, 0], lam, BLOCKS[name])
        assert abs(float(samples.values[place, 0, 0] - exact)) <= allowed[place]
