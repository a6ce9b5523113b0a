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
@pytest.mark.covering
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


def test_a_function_must_stay_where_its_points_are():
    send, X = sender("array_api_strict"), np.eye(3)
    assert_close(Foreign(lambda A, B: A @ B.T)(send(X)), X)
    with pytest.raises(DataError, match="must live in one place"):
        Foreign(lambda A, B: np.asarray(A) @ np.asarray(B).T)(send(X))
    with pytest.raises(DataError, match="must return a matrix of shape"):
        Foreign(lambda A, B: A)(send(X[:, :2]))
    with pytest.raises(DataError, match="raised ZeroDivisionError"):
        Foreign(lambda A, B: A / (1 // 0))(send(X))
