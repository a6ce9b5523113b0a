"""A kernel after a linear map: exact values, offsets, proofs, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import LSSVMRegressor
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear, Mapped, Matern

RNG = np.random.default_rng(2)
A = tuple(map(tuple, np.linalg.qr(RNG.normal(size=(3, 3)))[0].tolist()))
X = RNG.normal(size=(12, 3))


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_mapped_points_are_rounded_once(offset):
    """Against exact fractions, also far from the origin, where a plain product loses half of the digits."""
    center = (offset, offset + 1.0, -offset)
    points = X + np.array(center)
    mapped = Mapped(RBF(1.0), A, center).map_points(points)
    for row, values in zip(points, mapped, strict=True):
        for line, value in zip(A, values, strict=True):
            terms = zip(line, row, center, strict=True)
            exact = sum(Fraction(entry) * (Fraction(x) - Fraction(c)) for entry, x, c in terms)
            assert abs(Fraction(float(value)) - exact) <= Fraction(2.0**-53) * abs(exact) * Fraction(101, 100)


def test_the_center_changes_no_value_beyond_the_bound():
    plain, centred = Mapped(RBF(1.5), A), Mapped(RBF(1.5), A, (0.3, -1.0, 2.0))
    assert np.abs(plain(X) - centred(X)).max() <= plain.rounding(X) + centred.rounding(X)
    rotated = RBF(1.5)(X)  # a rotation changes no distance
    assert_allclose(plain(X), rotated, atol=1e-13)


def test_a_machine_is_certified_and_proved():
    y = np.sin(X @ np.array(A[0]))
    model = LSSVMRegressor(Mapped(RBF((0.8, 3.0, 9.0)), A), gamma=100.0).fit(X, y)
    assert model.certificate_.holds
    proof = model.prove(X, y)
    assert proof.accuracy <= 1e-9
    resolved = LSSVMRegressor(Mapped(Matern(nu=2.5), A), gamma=1.0).fit(X, y).kernel_
    assert resolved.kernel.sigma == pytest.approx(Matern(nu=2.5).resolved(X @ np.array(A).T).sigma)


def test_scales_are_those_of_the_inner_kernel():
    kernel = Mapped(RBF((0.8, 3.0, 9.0)), A, (1.0, 2.0, 3.0))
    assert list(kernel.scales()) == [f"kernel__sigma[{c}]" for c in range(3)]
    moved = kernel.with_scales({"kernel__sigma[0]": 2.0})
    assert moved.kernel.sigma == (2.0, 3.0, 9.0)
    assert moved.matrix == kernel.matrix
    spreads = np.array([1.0, 2.0, 4.0])
    lengths = np.sqrt(np.square(np.array(A) / np.array([[0.8], [3.0], [9.0]])).sum(axis=0))
    assert_allclose(kernel.relevances(spreads), spreads * lengths)
    assert_array_equal(kernel.diag(X), np.ones(12))


@pytest.mark.parametrize(
    ("kernel", "matrix", "center", "message"),
    [
        (Linear(), A, (), "made of an RBF, a Laplacian or a Matern"),
        (Matern(1.0, nu=0.8), A, (), "of smoothness"),
        (RBF(1.0), ((np.nan, 1.0),), (), "finite rows"),
        (RBF(1.0), A, (1.0, 2.0), "one number per input"),
    ],
)
def test_what_is_refused(kernel, matrix, center, message):
    with pytest.raises(DeclarationError, match=message):
        Mapped(kernel, matrix, center)


def test_other_points_are_refused():
    with pytest.raises(DataError, match="of 3 inputs, the points have 2 columns"):
        Mapped(RBF(1.0), A)(X[:, :2])
