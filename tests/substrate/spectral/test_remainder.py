"""What a space leaves of a matrix: no eigenvalue but the leading ones exceeds the bound."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.gram import Gram
from substrate.kernels import RBF, Linear, Precomputed
from substrate.least_squares.stored_kernel import KernelTriangle
from substrate.spectral.centred_operator import CentredOperator
from substrate.spectral.eigen_bound import bound_eigenpairs, prove_leading
from substrate.spectral.eigenpairs import leading_eigenpairs
from substrate.spectral.remainder import bound_remainder


def operator_of(kernel, X, weights=None):
    return CentredOperator.of(KernelTriangle.of(kernel, X), kernel, X, weights)


def space_of(operator, m, seed=0):
    """Return orthonormal rows that lean towards the leading eigenvectors, and their products."""
    rng = np.random.default_rng(seed)
    block = operator.product(operator.product(rng.normal(size=(operator.n, m))))
    V = np.linalg.qr(block)[0].T
    return V, operator.product(V.T).T


@pytest.mark.parametrize("m", [1, 5, 20])
@pytest.mark.parametrize(
    ("unit", "shift", "weighted"), [(1.0, 0.0, False), (1e-9, 0.0, False), (1e9, 0.0, True), (1.0, 1e8, True)]
)
def test_no_other_eigenvalue_exceeds_it(m, unit, shift, weighted):
    rng = np.random.default_rng(0)
    X = unit * rng.normal(size=(60, 3)) + shift
    weights = rng.uniform(1e-6, 3.0, 60) if weighted else None
    operator = operator_of(RBF(2.0 * unit), X, weights)
    expected = np.linalg.eigvalsh(operator.dense())[::-1]
    remainder = bound_remainder(operator, *space_of(operator, m))
    assert remainder is not None
    for count in range(m + 2):
        assert expected[count] <= remainder.above(count)
        # no worse than what the sum of squares leaves of the leading Ritz values
        squares = operator.square_sum - np.square(remainder.values[:count]).sum()
        assert remainder.above(count) <= 1.001 * np.sqrt(max(squares, 0.0)) + 1e-3 * expected[0]


def test_it_is_the_next_eigenvalue_where_the_space_is_that_of_eigenvectors():
    X = np.random.default_rng(0).normal(size=(50, 2))
    operator = operator_of(RBF(2.0), X)
    values, vectors = np.linalg.eigh(operator.dense())
    V = np.ascontiguousarray(vectors[:, ::-1][:, :30].T)
    remainder = bound_remainder(operator, V, operator.product(V.T).T)
    bounds = [remainder.above(count) for count in range(6)]
    assert_allclose(bounds, values[::-1][:6], rtol=1e-5)


def test_a_matrix_that_is_not_positive_semi_definite():
    K = np.random.default_rng(0).normal(size=(30, 30))
    K = K + K.T
    operator = CentredOperator.of(Gram.from_matrix(K), Precomputed(), K)
    expected = np.linalg.eigvalsh(operator.dense())[::-1]
    remainder = bound_remainder(operator, *space_of(operator, 6))
    assert all(expected[count] <= remainder.above(count) for count in range(8))


def test_vectors_that_are_not_orthonormal_are_counted_or_refused():
    operator = operator_of(RBF(2.0), np.random.default_rng(0).normal(size=(40, 3)))
    V, W = space_of(operator, 4)
    expected = np.linalg.eigvalsh(operator.dense())[::-1]
    off = np.eye(4) + 0.01 * np.random.default_rng(1).normal(size=(4, 4))
    remainder = bound_remainder(operator, off @ V, off @ W)
    assert all(expected[count] <= remainder.above(count) for count in range(5))
    assert bound_remainder(operator, V[[0, 0]], W[[0, 0]]) is None


def test_products_that_leave_less_than_nothing_are_refused():
    operator = operator_of(RBF(2.0), np.random.default_rng(0).normal(size=(40, 3)))
    V, W = space_of(operator, 1)
    assert bound_remainder(operator, V, W) is not None
    assert bound_remainder(operator, V, 3.0 * W) is None


@pytest.mark.parametrize("unit", [1e-100, 1e-80])
def test_squares_below_the_range_of_doubles_prove_nothing(unit):
    X = unit * np.random.default_rng(0).normal(size=(40, 3))
    operator = operator_of(Linear(), X)
    assert operator.square_sum == np.inf
    remainder = bound_remainder(operator, *space_of_unit(operator))
    assert remainder.above(0) == np.inf


def space_of_unit(operator):
    V = np.linalg.qr(np.random.default_rng(0).normal(size=(operator.n, 2)))[0].T
    return V, operator.product(V.T).T


def test_an_iteration_proves_what_its_pairs_alone_do_not():
    """Eigenvalues that decay slowly: the pairs that are kept leave more of the squares than the space does."""
    X = np.random.default_rng(1).normal(size=(300, 3))
    operator = operator_of(RBF(0.9), X)
    expected = np.linalg.eigvalsh(operator.dense())[::-1]
    pairs = leading_eigenpairs(operator, 4, dense=False)
    bound = bound_eigenpairs(operator, pairs)
    alone = prove_leading(bound, operator, pairs.following, factorize=False)
    within = prove_leading(bound, operator, pairs.following, factorize=False, remainder=pairs.remainder)
    assert not alone.leading
    assert (within.leading, within.method) == (True, "the sum of squares")
    assert int(np.sum(expected > within.following)) <= within.counted
    assert_allclose(pairs.values[:4], expected[:4], rtol=1e-12)


def test_a_missed_eigenvalue_is_noticed_with_the_remainder_of_the_space():
    operator = operator_of(RBF(2.0), np.random.default_rng(0).normal(size=(300, 3)))
    pairs = leading_eigenpairs(operator, 4, dense=False)
    assert prove_leading(bound_eigenpairs(operator, pairs), operator, 0.0, False, pairs.remainder).leading
    keep = [0, 2, 3]
    missing = replace(
        pairs, values=pairs.values[keep], vectors=pairs.vectors[:, keep], products=pairs.products[:, keep], wanted=3
    )
    assert not prove_leading(bound_eigenpairs(operator, missing), operator, 0.0, False, pairs.remainder).leading
