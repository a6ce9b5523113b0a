"""Every kernel under every array namespace there is, against numpy's."""

import numpy as np
import pytest
from array_homes import HOMES, assert_close, sender
from kernel_examples import ALL

from substrate.arrays import namespace_of, to_numpy
from substrate.errors import DataError
from substrate.kernels import RBF, CurlFree, DivergenceFree, Foreign, Laplacian, Matern, Separable

#: Those that numpy computes alone.
ON_THE_HOST = (Foreign, CurlFree, DivergenceFree, Separable)
FORMULAS = [example for example in ALL if not isinstance(example.kernel, ON_THE_HOST)]

every = pytest.mark.parametrize("example", FORMULAS, ids=str)
everywhere = pytest.mark.parametrize("home", HOMES)


@everywhere
@every
@pytest.mark.some_cases(43)
def test_the_matrix_is_that_of_numpy(example, home):
    send, X = sender(home), example.points(9)
    tolerance = 1e-10 if example.rounding == 1.0 else 1e-6
    K = example.kernel(send(X))
    assert_close(K, example.kernel(X), tolerance)
    np.testing.assert_array_equal(to_numpy(K), to_numpy(K).T)
    assert_close(example.kernel.diag(send(X)), example.kernel.diag(X), tolerance)
    if not example.kernel.pairwise:
        Z = example.points(5, seed=1)
        assert_close(example.kernel(send(X), send(Z)), example.kernel(X, Z), tolerance)


@everywhere
def test_blocks_join_without_seams(home, monkeypatch):
    send, X = sender(home), np.random.default_rng(0).normal(size=(23, 3))
    monkeypatch.setattr("substrate.arrays._BLOCK_ENTRIES", 23 * 5)
    kernel = RBF(1.3) + Laplacian(0.7).on(1)
    assert_close(kernel(send(X)), kernel(X))
    assert_close(kernel(send(X), send(X[:7])), kernel(X, X[:7]))


@everywhere
@pytest.mark.parametrize("scale", [1e3, 1e155, 1e-170])
@pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(1.0), Matern(1.0, 2.5)], ids=repr)
def test_no_scale_of_points_or_width_is_too_large(home, kernel, scale):
    send, X = sender(home), np.random.default_rng(1).normal(size=(8, 2))
    wide = kernel.with_params(sigma=scale)
    assert_close(wide(send(scale * X)), kernel(X))
    far = kernel(send(1e308 * np.sign(X)))
    assert np.isfinite(to_numpy(far)).all()


@everywhere
@pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(1.0)], ids=repr)
def test_an_offset_costs_nothing(home, kernel):
    X = np.random.default_rng(2).integers(-4, 5, size=(8, 2)) / 4.0
    far = sender(home)(X + 2.0**26)
    assert_close(kernel(far), kernel(X), 1e-13)
    assert_close(kernel.evaluate(far, far, namespace_of(far).float32), kernel(X).astype(np.float32), 1e-6)


@pytest.mark.parametrize("home", ["numpy", *HOMES])
@pytest.mark.parametrize("kernel", [RBF(1.3), Laplacian(0.7), Matern(1.1, 2.5)], ids=repr)
def test_single_precision_is_computed_in_float32(home, kernel):
    rng = np.random.default_rng(4)
    X, Z = rng.normal(size=(30, 3)), rng.normal(size=(20, 3))
    send = np.asarray if home == "numpy" else sender(home)
    left, right = send(X), send(Z)
    values, exact = to_numpy(kernel.evaluate(left, right, namespace_of(left).float32)), kernel(X, Z)
    assert values.dtype == np.float32
    assert not np.array_equal(values, exact.astype(np.float32)), "computed in double, rounded at the end"
    np.testing.assert_allclose(values, exact, rtol=0.0, atol=1e-6)


@everywhere
def test_the_median_width_is_that_of_numpy(home):
    X = np.random.default_rng(3).normal(size=(40, 3))
    for kernel in (RBF(), Laplacian().on(0, 2), 2.0 * RBF() + Matern()):
        assert kernel.resolved(sender(home)(X)) == kernel.resolved(X)


def test_a_function_must_stay_where_its_points_are():
    send, X = sender("array_api_strict"), np.eye(3)
    assert_close(Foreign(lambda A, B: A @ B.T)(send(X)), X)
    with pytest.raises(DataError, match="must live in one place"):
        Foreign(lambda A, B: np.asarray(A) @ np.asarray(B).T)(send(X))
    with pytest.raises(DataError, match="must return a matrix of shape"):
        Foreign(lambda A, B: A)(send(X[:, :2]))
    with pytest.raises(DataError, match="raised ZeroDivisionError"):
        Foreign(lambda A, B: A / (1 // 0))(send(X))


def test_point_sets_must_agree():
    send = sender("array_api_strict")
    with pytest.raises(DataError, match="must live in one place"):
        RBF(1.0)(send(np.eye(3)), np.eye(3))
    with pytest.raises(DataError, match="X has 3 columns and Z has 2"):
        RBF(1.0)(send(np.eye(3)), send(np.eye(2)))
    with pytest.raises(DataError, match="overflows"):
        (RBF(1.0) * 1e300 * 1e300)(send(np.eye(3)))
