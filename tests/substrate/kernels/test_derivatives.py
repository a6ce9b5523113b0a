"""Derivatives of kernels against differences of their formulas in exact arithmetic, and refusals with the reason."""

import numpy as np
import pytest
from kernel_examples import ALL, N_FEATURES
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Foreign, Kernel, Laplacian, Linear, Matern, Precomputed, Symmetric
from substrate.kernels.derivatives import Derivatives

flint = pytest.importorskip("flint")

SMOOTH = [example for example in ALL if not example.kernel.not_smooth]
ROUGH = [example for example in ALL if example.kernel.not_smooth]
MORE = (Matern(1.2, nu=1.05), Matern(0.8, nu=1.9), Matern(0.8, nu=2.0), Matern(2.0, nu=30.0), Matern(1.5, 1.5).on(0, 2))


@pytest.fixture(autouse=True)
def many_digits():
    kept, flint.ctx.prec = flint.ctx.prec, 400
    yield
    flint.ctx.prec = kept


STEP = 2.0**-60


def moved(x, column, sign):
    point = [flint.arb(value) for value in x]
    point[column] = point[column] + sign * flint.arb(STEP)
    return point


def differences(kernel, x, z, column, other=None):
    """Central differences of the exact formula; of both arguments where ``other`` is given."""
    k = kernel.exact_formula(flint.arb, len(x))
    if other is None:
        z = [flint.arb(value) for value in z]
        return float((k(moved(x, column, 1), z) - k(moved(x, column, -1), z)) / (2 * STEP))
    corners = [(s, t, k(moved(x, column, s), moved(z, other, t))) for s in (1, -1) for t in (1, -1)]
    return float(sum(s * t * value for s, t, value in corners) / flint.arb(4 * STEP * STEP))


@pytest.mark.parametrize("kernel", [*(example.kernel for example in SMOOTH), *MORE], ids=repr)
@pytest.mark.some_cases(21)
def test_derivatives_are_limits_of_differences(kernel):
    """Also near x = z, where the formulas of a Matérn kernel cancel."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(3, N_FEATURES)), rng.normal(size=(4, N_FEATURES))
    Z[0] = X[0] + 1e-3 * rng.normal(size=N_FEATURES)
    for column, other in ((0, 0), (2, 0), (1, 1)):
        slope = [[differences(kernel, x, z, column) for z in Z] for x in X]
        bend = [[differences(kernel, x, z, column, other) for z in Z] for x in X]
        assert_allclose(kernel.gradient(X, Z, column), slope, rtol=1e-8, atol=1e-10)
        assert_allclose(kernel.mixed_derivative(X, Z, column, other), bend, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kernel", [*(example.kernel for example in SMOOTH), *MORE], ids=repr)
@pytest.mark.some_cases(21)
def test_values_and_derivatives_are_inner_products_of_features(kernel):
    """The matrix of values and of derivatives in two inputs is symmetric and positive semi-definite, at x = z too."""
    X = np.random.default_rng(1).normal(size=(6, N_FEATURES))
    blocks = [[kernel(X)] + [kernel.gradient(X, X, c).T for c in (0, 1)]]
    for c in (0, 1):
        blocks.append([kernel.gradient(X, X, c)] + [kernel.mixed_derivative(X, X, c, d) for d in (0, 1)])
    G = np.block(blocks)
    size = np.abs(G).max()
    assert_allclose(G, G.T, atol=1e-12 * max(size, 1e-300))
    assert np.linalg.eigvalsh(G)[0] >= -1e-10 * size


def test_the_same_point_has_the_limit():
    """-2 k'(0) is the squared length of the derivative: 2/sigma^2, and nu/(nu - 1)/sigma^2."""
    x = np.array([[0.3, -0.2]])
    assert_allclose(RBF(0.5).mixed_derivative(x, x, 0, 0), 8.0)
    for nu in (1.2, 1.5, 2.5, 4.0):
        kernel = Matern(0.5, nu)
        assert_allclose(kernel.mixed_derivative(x, x, 1, 1), 4.0 * nu / (nu - 1.0))
        assert_array_equal(kernel.gradient(x, x, 1), 0.0)
        assert_array_equal(kernel.mixed_derivative(x, x, 0, 1), 0.0)


def test_smooth_matern_kernels_approach_the_rbf():
    rng = np.random.default_rng(2)
    X, Z = rng.normal(size=(4, 2)), rng.normal(size=(5, 2))
    rough, smooth = Matern(1.0, nu=40.0), RBF(np.sqrt(2.0))
    assert_allclose(rough.gradient(X, Z, 0), smooth.gradient(X, Z, 0), atol=2e-2)
    assert_allclose(rough.mixed_derivative(X, Z, 0, 1), smooth.mixed_derivative(X, Z, 0, 1), atol=4e-2)


def test_sparse_points_have_the_same_derivatives():
    X = np.random.default_rng(3).normal(size=(5, 3))
    kernel = RBF(1.0) + Linear()
    assert_array_equal(kernel.gradient(csr_array(X), X, 1), kernel.gradient(X, csr_array(X), 1))
    assert_allclose(kernel.mixed_derivative(csr_array(X), X, 0, 1), kernel.mixed_derivative(X, X, 0, 1))


@pytest.mark.parametrize("example", ROUGH, ids=str)
def test_what_has_no_derivatives_says_why(example):
    X = example.points(4)
    with pytest.raises(DeclarationError, match=r"has no derivatives: .*; "):
        example.kernel.gradient(X, X, 0)
    with pytest.raises(DeclarationError, match=r"has no derivatives: .*; "):
        example.kernel.mixed_derivative(X, X, 0, 0)


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (Laplacian(1.0), "a kink where x = z; take RBF"),
        (RBF(1.0) * Matern(1.0, 0.5), "not for nu = 0.5; take nu=1.5"),
        (Matern(1.0, 400.0), r"overflows for such a large nu; take RBF"),
        (Componentwise([RBF(1.0), Matern(1.0, 1.0), RBF(1.0)]), "not for nu = 1"),
        (Symmetric(Laplacian(1.0)), "kink"),
        (2.0 * Precomputed(), "no inputs"),
        (Foreign(np.dot), "only its values are known"),
    ],
    ids=repr,
)
def test_the_reason_is_that_of_the_part(kernel, why):
    with pytest.raises(DeclarationError, match=why):
        kernel.gradient(np.ones((2, 3)), np.ones((2, 3)), 0)


def test_a_kernel_without_formulas_is_refused_not_guessed():
    class Constant(Kernel):
        def fill(self, X, Z, out):
            out[...] = 1.0

        def diag(self, X):
            return np.ones(X.shape[0])

    with pytest.raises(DeclarationError, match="their formula is not known"):
        Constant().gradient(np.ones((2, 3)), np.ones((2, 3)), 0)


@pytest.mark.parametrize("column", [-1, 3, 0.5, True, "x", None])
def test_columns_are_inputs(column):
    X = np.ones((2, 3))
    with pytest.raises(DeclarationError, match="column must be an integer from 0 to 2, received"):
        RBF(1.0).gradient(X, X, column)
    with pytest.raises(DeclarationError, match="column must be an integer from 0 to 2, received"):
        RBF(1.0).mixed_derivative(X, X, 0, column)


def test_points_must_agree_and_be_finite():
    with pytest.raises(DataError, match="X has 3 columns and Z has 2"):
        RBF(1.0).gradient(np.ones((2, 3)), np.ones((2, 2)), 0)
    with pytest.raises(DataError, match="Z contains NaN"):
        RBF(1.0).gradient(np.ones((2, 1)), np.full((2, 1), np.nan), 0)


class _Smooth(RBF):
    """A kernel that states derivatives and leaves their formulas out."""

    _gradient = Derivatives._gradient
    _mixed_derivative = Derivatives._mixed_derivative


def test_a_kernel_that_states_derivatives_without_formulas_is_refused_by_name():
    X = np.zeros((2, 1))
    with pytest.raises(DeclarationError, match=r"_Smooth.*no `_gradient`: write that method"):
        _Smooth(1.0).gradient(X, X, 0)
    with pytest.raises(DeclarationError, match=r"_Smooth.*no `_mixed_derivative`"):
        _Smooth(1.0).mixed_derivative(X, X, 0, 0)
