"""Semi-definite matrices as vectors: the product, the bound on eigenvalues, and vectors that are certainly inside."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.composition.semidefinite import least_eigenvalue, matrix_of, order_of, raise_to_cone, vector_of


def symmetric(n, seed):
    M = np.random.default_rng(seed).normal(size=(n, n))
    return M + M.T


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_product_of_vectors_is_the_trace_of_the_product(n):
    S, Z = symmetric(n, 0), symmetric(n, 1)
    assert order_of(vector_of(S).size) == n
    assert_allclose(matrix_of(vector_of(S)), S, rtol=1e-15)
    assert_allclose(vector_of(S) @ vector_of(Z), np.trace(S @ Z), rtol=1e-13)
    # zeros beside the diagonal stay zeros
    assert_allclose(matrix_of(vector_of(np.diag(np.arange(1.0, n + 1.0)))), np.diag(np.arange(1.0, n + 1.0)))


def test_the_order_of_entries_is_that_of_cvxpy():
    """A matrix that a problem forces to a value: the rows of its cone are this value, as a vector."""
    S = symmetric(3, 2) + 10.0 * np.eye(3)
    X = cp.Variable((3, 3), symmetric=True)
    data, _, _ = cp.Problem(cp.Minimize(cp.trace(X)), [X >> S]).get_problem_data("CLARABEL")
    cone = data["dims"].zero, data["dims"].psd
    assert cone[1] == [3]
    rows = data["b"][cone[0] : cone[0] + 6]  # b - A x in the cone
    assert_allclose(-rows, vector_of(S), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_least_eigenvalue_is_within_its_radius(scale):
    S, step = scale * symmetric(6, 3), scale * 1e-3 * symmetric(6, 4)
    value, radius, direction = least_eigenvalue(vector_of(S), np.abs(vector_of(step)))
    assert abs(np.linalg.eigvalsh(S + step)[0] - value) <= radius
    assert radius < abs(value)
    assert_allclose(direction @ vector_of(S), value, rtol=1e-12)


def test_a_vector_is_raised_into_the_cone():
    S = symmetric(5, 5)
    raised = raise_to_cone(vector_of(S))
    value, radius, _ = least_eigenvalue(raised)
    assert value >= radius
    nearest = np.linalg.norm(np.minimum(np.linalg.eigvalsh(S), 0.0))
    assert_allclose(np.linalg.norm(raised - vector_of(S)), nearest, rtol=1e-9)
    inside = vector_of(S @ S + np.eye(5))
    assert raise_to_cone(inside) is inside
    assert not raise_to_cone(np.zeros(6)).any()
