"""Kernel matrices of which nothing is stored: two precisions, any number of threads, the host and a device."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import LSSVMRegressor
from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Foreign, Laplacian, Linear, Matern, Polynomial, Precomputed
from substrate.least_squares import conjugate_gradient, kernel_tiles, preconditioner
from substrate.least_squares.conjugate_gradient import solve_by_conjugate_gradients
from substrate.least_squares.kernel_tiles import KernelTiles
from substrate.least_squares.preconditioner import sample_rows
from substrate.operators import KernelOperator
from substrate.threads import one_blas_thread

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1300, 3))  # more than two tiles
V = RNG.normal(size=(1300, 2))


@pytest.mark.parametrize("kernel", [RBF(2.0), Laplacian(3.0), Matern(2.0, 1.5), Linear(), Polynomial(2)], ids=repr)
def test_steps_have_half_the_digits_and_residuals_all(kernel):
    tiles, K = KernelTiles(kernel, X), kernel(X)
    size = np.sqrt(np.diag(K))[:, None] * (np.sqrt(np.diag(K)) @ np.abs(V))
    assert tiles.is_single
    single = np.abs(tiles.product(V) - K @ V) / size
    assert 1e-12 < single.max() < 1e-5, "single precision"
    assert (np.abs(tiles.accurate_product(V) - K @ V) <= 1e-12 * size).all()
    assert tiles.use_accurate_products()
    assert_array_equal(tiles.product(V), tiles.accurate_product(V))
    assert not tiles.use_accurate_products(), "they are accurate already"


def test_what_has_no_formula_is_never_rounded_to_single_precision():
    K = RBF(1.0)(X[:50])
    for kernel, points in ((Precomputed(), K), (Foreign(lambda x, z: x @ z.T), X[:50])):
        assert not KernelTiles(kernel, points).is_single


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch):
    tiles = KernelTiles(RBF(2.0), X)
    products = []
    for count in (1, 2, 5):
        monkeypatch.setattr(kernel_tiles, "threads_for", lambda order, count=count: count)
        products.append(tiles.product(V))
    with one_blas_thread():
        products.append(tiles.product(V))
    for product in products[1:]:
        assert_array_equal(product, products[0])


def test_an_interrupt_ends_a_product_at_the_next_tile(monkeypatch):
    class Interrupting(RBF):
        def evaluate(self, X, Z, dtype):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        KernelTiles(Interrupting(1.0), X).accurate_product(V)


@pytest.mark.parametrize("place", ["numpy", "torch", "strict"])
def test_a_device_has_the_same_tiles(place):
    points = X
    if place == "torch":
        points = pytest.importorskip("torch").asarray(X)
    elif place == "strict":
        points = pytest.importorskip("array_api_strict").asarray(X)
    tiles, K = KernelTiles(RBF(2.0), points), RBF(2.0)(X)
    assert_allclose(tiles.product(V), K @ V, atol=1e-4)
    assert_allclose(tiles.accurate_product(V), K @ V, atol=1e-11)
    assert_allclose(tiles.block(np.array([3, 1]), np.array([0, 1200, 7])), K[np.ix_([3, 1], [0, 1200, 7])], atol=1e-13)
    assert_allclose(tiles.diagonal, 1.0)


class Coarse(KernelOperator):
    """A matrix whose products have a relative error, until they are asked to have none."""

    def __init__(self, K: Array, error: float) -> None:
        noise = np.random.default_rng(1).normal(size=K.shape)
        self.K, self.rough = K, K + error * np.abs(K).max() * (noise + noise.T)
        self.is_rough = True

    @property
    def n(self):
        return self.K.shape[0]

    @property
    def diagonal(self):
        return np.diag(self.K)

    def product(self, V):
        return (self.rough if self.is_rough else self.K) @ V

    def accurate_product(self, V):
        return self.K @ V

    def use_accurate_products(self):
        changed, self.is_rough = self.is_rough, False
        return changed

    def block(self, rows, columns):
        return self.K[np.ix_(rows, columns)]


@pytest.mark.parametrize(("error", "refined"), [(1e-7, True), (2.5e-4, False), (1e-2, False), (np.nan, False)])
def test_refinement_goes_on_while_it_contracts_and_then_in_all_digits(error, refined):
    """Single precision is enough for most of the way; where it is not, the iteration notices and says nothing false."""
    n = 120
    points, y = X[:n], V[:n]
    K, ridge = RBF(1.0)(points), np.full(n, 0.01)
    matrix = Coarse(K, error)
    radii = 1e-9 * np.ones(2)
    solved = solve_by_conjugate_gradients(matrix, None, y, ridge, radii, 4000)
    assert not solved.reason
    assert matrix.is_rough == refined
    residual = y - K @ solved.support_values - ridge[:, None] * solved.support_values - solved.bias
    assert (np.sqrt(np.square(residual - residual.mean(axis=0)).mean(axis=0)) <= radii).all()
    assert_allclose(solved.products, K @ solved.support_values, atol=1e-12)


def test_a_residual_of_rough_products_does_not_end_the_iteration(monkeypatch):
    """Broken on purpose: with the residual of the rough matrix the iteration believes a false answer."""
    n = 120
    points, y = X[:n], V[:n, :1]
    K, ridge = RBF(1.0)(points), np.full(n, 0.01)
    monkeypatch.setattr(Coarse, "accurate_product", Coarse.product)
    monkeypatch.setattr(Coarse, "use_accurate_products", lambda self: False)
    solved = solve_by_conjugate_gradients(Coarse(K, 1e-4), None, y, ridge, np.array([1e-6]), 4000)
    residual = y - K @ solved.support_values - ridge[:, None] * solved.support_values - solved.bias
    assert np.sqrt(np.square(residual - residual.mean()).mean()) > 1e-6, "what the law above would notice"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a bound is true whether or not it holds
@pytest.mark.parametrize("gamma", [1e-6, 10.0, 1e7])
@pytest.mark.parametrize(("unit", "offset"), [(1.0, 0.0), (1e9, 1e8), (1e-9, 0.0)])
def test_a_certificate_of_tiles_is_true(gamma, unit, offset):
    rng = np.random.default_rng(2)
    points = 1e6 + rng.normal(size=(300, 2))
    y = offset + unit * (np.sin(3.0 * points[:, 0]) + 0.1 * rng.normal(size=300))
    exact = LSSVMRegressor(RBF(1.0), gamma, solver="cholesky", tol=1e-9).fit(points, y)
    model = LSSVMRegressor(RBF(1.0), gamma, solver="cg", tol=1e-4, max_iter=5000).fit(points, y)
    bound = model.certificate_.rows[0].value
    distance = np.sqrt(np.square(model.predict(points) - exact.predict(points)).mean())
    assert distance <= bound + exact.certificate_.rows[0].value


def test_numbers_beyond_single_precision_are_computed_in_double():
    rng = np.random.default_rng(3)
    points = 1e10 * rng.normal(size=(200, 2))  # kernel values of 1e40
    y = points[:, 0] / 1e10 + 0.1 * rng.normal(size=200)
    model = LSSVMRegressor(Polynomial(2), gamma=1e-40, solver="cg", tol=1e-3, max_iter=5000)
    with np.errstate(all="ignore"):
        model.fit(points, y)
    assert np.isfinite(model.predict(points)).all()
    exact = LSSVMRegressor(Polynomial(2), gamma=1e-40, solver="cholesky").fit(points, y)
    distance = np.sqrt(np.square(model.predict(points) - exact.predict(points)).mean())
    assert distance <= model.certificate_.rows[0].value + exact.certificate_.rows[0].value


def test_one_row_beyond_single_precision_is_enough():
    points = np.vstack([X[:600], [[1e30, 0.0, 0.0]]])
    tiles, ones = KernelTiles(Polynomial(2), points), np.ones((601, 1))
    assert tiles.is_single, "the first row shows nothing of it"
    with np.errstate(all="ignore"):
        found = tiles.product(ones)
    assert_allclose(found, Polynomial(2)(points) @ ones, rtol=1e-9)


def test_a_device_takes_conjugate_gradients_and_refuses_what_has_no_formula():
    torch = pytest.importorskip("torch")
    points, y = X[:300], np.sin(X[:300, 0])
    exact = LSSVMRegressor(RBF(2.0), gamma=10.0).fit(points, y)
    model = LSSVMRegressor(RBF(2.0), gamma=10.0, solver="cg", tol=1e-6).fit(torch.asarray(points), torch.asarray(y))
    assert model.certificate_.holds
    assert isinstance(model.predict(torch.asarray(points)), torch.Tensor)
    distance = np.sqrt(np.square(model.predict(torch.asarray(points)).numpy() - exact.predict(points)).mean())
    assert distance <= model.certificate_.rows[0].value + exact.certificate_.rows[0].value
    assert dict(model.certificate_.record)["precision"] == "steps in single, residuals in double precision"
    with pytest.raises(DeclarationError, match="positive semi-definite by its formula"):
        LSSVMRegressor(lambda x, z: x @ z.T, solver="cg").fit(torch.asarray(points), torch.asarray(y))


def test_the_preconditioner_of_a_device_is_as_large_as_its_memory_allows(monkeypatch):
    points, ridge = pytest.importorskip("torch").asarray(X), np.full(1300, 1e-3)
    free = sample_rows(RBF(2.0), points, ridge).size
    room = 0.3 * preconditioner._BESIDE_SAMPLE * 8.0 * 1300 * free
    monkeypatch.setattr(preconditioner, "has_room", lambda array, n_bytes: n_bytes <= room)
    assert sample_rows(RBF(2.0), points, ridge).size == free // 4


def test_the_iteration_judges_by_a_named_share():
    assert 0.0 < conjugate_gradient._CONTRACTED < 1.0
