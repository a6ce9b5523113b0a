"""Scales of kernels and their derivatives, against exact arithmetic, sums over pairs, and in all units."""

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_examples import ALL, EXAMPLES, N_FEATURES, cauchy, concrete_kernels
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import DeclarationError
from substrate.kernels import (
    RBF,
    Componentwise,
    CurlFree,
    DivergenceFree,
    Foreign,
    Kernel,
    Laplacian,
    Matern,
    PowerExponential,
    Precomputed,
    Symmetric,
)

flint = pytest.importorskip("flint")

EACH = (0.5, 2.0, 1.0)
BY_COLUMN = [
    RBF(EACH),
    Laplacian(EACH),
    Matern(EACH, 0.5),
    Matern(EACH),
    Matern(EACH, 2.5),
    Matern(EACH, 3.5),
    PowerExponential(EACH, 1.3, 0.7),
]
MORE = [
    *BY_COLUMN[2:],
    Matern(EACH, 10.5),
    RBF(EACH) * Laplacian(EACH) + 0.5 * Matern(1.5),
    Symmetric(RBF(EACH) + Laplacian(1.0), "odd"),
    Componentwise([RBF((1.2,)), 2.0 * Laplacian(0.4), Matern(0.7)]),
]
UNKNOWN = (CurlFree, DivergenceFree)
KNOWN = [
    example.kernel
    for example in ALL
    if "cauchy" not in repr(example) and not example.kernel.pairwise and not isinstance(example.kernel, UNKNOWN)
]


@pytest.fixture(autouse=True)
def many_digits():
    kept, flint.ctx.prec = flint.ctx.prec, 200
    yield
    flint.ctx.prec = kept


def exact_sum(kernel, X, Z, W):
    formula = kernel.exact_formula(flint.arb, X.shape[1])
    rows, others = ([[flint.arb(float(a)) for a in x] for x in points] for points in (X, Z))
    return sum(
        (flint.arb(float(W[i, j])) * formula(x, z) for i, x in enumerate(rows) for j, z in enumerate(others)),
        start=flint.arb(0),
    )


def exact_gradient(kernel, X, Z, W):
    """Central differences in each scale, of two steps, which leave an error of the fourth power of the step."""

    def slope(name, scale, step):
        above, below = scale * (1.0 + step), scale * (1.0 - step)
        sums = [exact_sum(kernel.with_scales({name: value}), X, Z, W) for value in (above, below)]
        return flint.arb(scale) * (sums[0] - sums[1]) / (flint.arb(above) - flint.arb(below))

    pairs = [[slope(name, scale, step) for step in (2.0**-13, 2.0**-14)] for name, scale in kernel.scales().items()]
    return np.array([float((4 * near - far) / 3) for far, near in pairs])


def by_pairs(kernel, X, Z, W):
    """One pair of points at a time, so that nothing is centred and nothing cancels."""
    sums = np.zeros(len(kernel.scales()))
    for i, j in np.ndindex(W.shape):
        sums += kernel.scale_gradient(X[i : i + 1], Z[j : j + 1], W[i : i + 1, j : j + 1])
    return sums


def some_points(seed=0):
    """Points of which two are the same and two are near each other."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(3, N_FEATURES)), rng.normal(size=(3, N_FEATURES))
    Z[0], Z[1] = X[0] + 1e-3 * rng.normal(size=N_FEATURES), X[1]
    return X, Z, rng.normal(size=(3, 3))


def test_every_kernel_class_has_derivatives_in_its_scales_or_a_reason():
    without = {cls for cls in concrete_kernels() if cls._scale_gradient is Kernel._scale_gradient}
    assert without == {CurlFree, DivergenceFree, Foreign, Precomputed}  # the last two have no scales
    assert without.isdisjoint(type(kernel) for kernel in KNOWN)
    assert {type(kernel) for kernel in KNOWN} | without == set(EXAMPLES)


@pytest.mark.parametrize("kernel", [*KNOWN, *MORE], ids=repr)
def test_derivatives_are_limits_of_differences(kernel):
    X, Z, W = some_points()
    exact = exact_gradient(kernel, X, Z, W)
    found = kernel.scale_gradient(X, Z, W)
    assert found.shape == (len(kernel.scales()),)
    assert_allclose(found, exact, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kernel", [*KNOWN, *MORE], ids=repr)
def test_scales_are_replaced_by_name(kernel):
    scales = kernel.scales()
    assert all(type(value) is float and value > 0.0 for value in scales.values())
    assert kernel.with_scales(scales) == kernel
    assert kernel.with_scales({}) is kernel
    for number, name in enumerate(scales):
        other = kernel.with_scales({name: 3.25})
        assert list(other.scales()) == list(scales)
        assert list(other.scales().values()) == [
            3.25 if k == number else value for k, value in enumerate(scales.values())
        ]
    shared = {name: value for name, value in kernel.get_params().items() if name in scales}
    assert shared == {name: scales[name] for name in shared}


@pytest.mark.parametrize("kernel", BY_COLUMN, ids=repr)
def test_units_of_a_column_and_its_width_do_not_matter(kernel):
    X, Z, W = some_points(2)

    def measured(units):
        other = kernel.with_params(sigma=tuple(np.multiply(kernel.sigma, units)))
        return other(X * units, Z * units), other.scale_gradient(X * units, Z * units, W)

    for power in ([0, 60, -40], [3, -200, 200]):
        for found, known in zip(measured(2.0 ** np.array(power)), measured(np.ones(3)), strict=True):
            assert_array_equal(found, known)
    for found, known in zip(measured(np.array([1e-12, 1e6, 1e12])), measured(np.ones(3)), strict=True):
        assert_allclose(found, known, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("kernel", BY_COLUMN, ids=repr)
@pytest.mark.parametrize("apart", [1e4, 1e9, 1e200])
@pytest.mark.covering
def test_clusters_far_apart_do_not_drown_each_other(kernel, apart):
    """Pairs that are near each other count, and lie far from the common centre."""
    rng = np.random.default_rng(5)
    place = np.repeat(np.array([0.0, apart, -apart]), 3)[:, None]
    X = place + np.round(rng.normal(size=(9, 3)) * 64.0) / 64.0
    W = rng.normal(size=(9, 9))
    assert_allclose(kernel.scale_gradient(X, X, W), by_pairs(kernel, X, X, W), rtol=1e-8, atol=1e-300)


def test_a_function_inside_a_kernel_has_no_scales_and_hides_none():
    X, Z, W = some_points(10)
    assert Foreign(cauchy).scale_gradient(X, Z, W).size == Precomputed().scale_gradient(X, X, W).size == 0
    assert_allclose((RBF(0.7) + Foreign(cauchy)).scale_gradient(X, Z, W), RBF(0.7).scale_gradient(X, Z, W))
    product = (RBF(0.7) * Foreign(cauchy)).scale_gradient(X, Z, W)
    assert_allclose(product, RBF(0.7).scale_gradient(X, Z, W * cauchy(X, Z)))
    assert_allclose((3.0 * Precomputed()).scale_gradient(Z, Z, W), [3.0 * (W * Z).sum()])


def test_a_kernel_without_a_formula_is_refused_not_guessed():
    @dataclass(frozen=True)
    class Constant(Kernel):
        height: float = 1.0

        def evaluate(self, X, Z, dtype):
            return np.full((X.shape[0], Z.shape[0]), self.height, dtype=dtype)

        def diag(self, X):
            return np.ones(X.shape[0])

    with pytest.raises(DeclarationError, match="their formula is not known; take a kernel of this package, give its"):
        (2.0 * Constant()).scale_gradient(np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 2)))
