"""Derivatives of criteria in kernel values: against differences of criteria that are known to hundreds of digits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.gram import Gram
from substrate.kernels import RBF, Laplacian, Matern, Polynomial
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.least_squares.spectrum import centred_spectrum
from substrate.least_squares.validation import CriterionSum, ValidationCriterion
from tests.oracles.exact_criteria import exact_criterion

RNG = np.random.default_rng(5)
X = RNG.normal(size=(9, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.normal(size=9)
SPLITS = [(np.setdiff1d(np.arange(9), fold), fold) for fold in np.array_split(RNG.permutation(9), 3)]
KERNELS = {
    "one width": RBF(1.3),
    "a width per column": RBF((0.7, 2.1)),
    "factors and an offset": 0.7 * RBF(1.5) + 0.4 * Polynomial(2, 1.3),
    "Matern": Matern((1.1, 2.0), nu=1.5),
    "Laplacian": Laplacian((1.9, 3.0)),
}
GAMMA = 3.0
#: Fourth-order differences in a logarithm: the error is of the fourth power of the step and of rounding over the step.
STEP, STENCIL = 2e-3, ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0))


def slopes_of(which, kernel):
    """dF/dK summed over the parts, and F itself in the units of y, at one gamma."""
    t, one = np.log([1.0 / GAMMA]), np.ones(1)
    gram = Gram.of(kernel, X)
    if which == "folds":
        parts = []
        for train, valid in SPLITS:
            rows = gram.matrix[np.ix_(valid, train)]
            parts.append(ValidationCriterion.of(centred_spectrum(gram.restrict(train)), Y[train], rows, Y[valid]))
        criterion = CriterionSum.of(parts, [1.0 / 3.0] * 3)
        W = np.zeros((9, 9))
        for (train, valid), slope in zip(SPLITS, criterion.slopes(t, one), strict=True):
            W[np.ix_(train, train)] += slope.within
            W[np.ix_(valid, train)] += slope.below
    else:
        criterion = OF_SPECTRUM[which].of(centred_spectrum(gram), Y)
        (slope,) = criterion.slopes(t, one)
        W = slope.within
        assert_allclose(W, W.T, rtol=0.0, atol=1e-14 * np.abs(W).max())
    return W * criterion.unit**2, float(criterion.sample(t[None]).values[0, 0, 0]) * criterion.unit**2


#: The ordinary run has every criterion and every kernel, not every pair of them.
SOME = [
    ("loo", "factors and an offset"),
    ("loo", "Matern"),
    ("gcv", "one width"),
    ("evidence", "a width per column"),
    ("evidence", "Laplacian"),
    ("folds", "a width per column"),
]
PAIRS = [(which, name) for which in ("loo", "gcv", "evidence", "folds") for name in KERNELS]


@pytest.mark.parametrize(
    ("which", "name"), [pair if pair in SOME else pytest.param(*pair, marks=pytest.mark.slow) for pair in PAIRS]
)
def test_slopes_are_differences_of_the_exact_criterion(which, name):
    kernel = KERNELS[name]
    W, value = slopes_of(which, kernel)
    assert_allclose(value, exact_criterion(which, kernel, X, Y, [GAMMA], SPLITS)[0], rtol=1e-12)
    found = kernel.scale_gradient(X, X, W)
    for slope, (scale, width) in zip(found, kernel.scales().items(), strict=True):
        moved = {place: kernel.with_scales({scale: width * np.exp(place * STEP)}) for place, _ in STENCIL}
        exact = {place: exact_criterion(which, one, X, Y, [GAMMA], SPLITS)[0] for place, one in moved.items()}
        difference = sum(weight * exact[place] for place, weight in STENCIL) / (12.0 * STEP)
        assert_allclose(slope, difference, rtol=1e-8, atol=1e-9 * value)


@pytest.mark.parametrize("which", ["loo", "gcv", "evidence", "folds"])
def test_a_common_factor_of_kernel_and_lambda_changes_nothing(which):
    """W : K is minus the derivative in the logarithm of lambda, and zero at the best gamma."""
    kernel = RBF((0.7, 2.1))
    W, value = slopes_of(which, kernel)
    gammas = [GAMMA * np.exp(-place * STEP) for place, _ in STENCIL]
    exact = exact_criterion(which, kernel, X, Y, gammas, SPLITS)
    along = sum(weight * one for (_, weight), one in zip(STENCIL, exact, strict=True)) / (12.0 * STEP)
    assert_allclose(np.vdot(W, kernel(X)), -along, rtol=1e-8, atol=1e-10 * value)
