"""Components in the span of a basis: against the exact problem of the span in more digits, and in other units."""

import mpmath
import numpy as np
import pytest

from substrate.kernels import RBF
from substrate.spectral.eigen_bound import bound_eigenpairs, prove_leading
from substrate.spectral.eigenpairs import eigenpairs_of_matrix
from substrate.spectral.moments import feature_moments
from substrate.streaming.array_source import ArraySource


def exact_values(X, S, sigma, weights):
    """Return the eigenvalues of K_SS^-1 K_SN V (I - 1 v'/1'v) K_NS in 40 digits, largest first."""
    with mpmath.workdps(40):

        def values(A, B):
            out = mpmath.matrix(len(A), len(B))
            for i, a in enumerate(A.tolist()):
                for j, b in enumerate(B.tolist()):
                    square = sum((mpmath.mpf(u) - mpmath.mpf(v)) ** 2 for u, v in zip(a, b, strict=True))
                    out[i, j] = mpmath.exp(-square / mpmath.mpf(sigma) ** 2)
            return out

        v = [mpmath.mpf(float(w)) for w in weights]
        centring = mpmath.diag(v)
        for i in range(len(v)):
            for j in range(len(v)):
                centring[i, j] -= v[i] * v[j] / sum(v)
        cross = values(X, S)
        inner = mpmath.inverse(values(S, S)) * (cross.T * (centring * cross))
        found = mpmath.eig(inner, left=False, right=False)
        return sorted((mpmath.re(value) for value in found), reverse=True)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_radius_covers_the_exact_eigenvalues_of_the_span(unit, weighted):
    rng = np.random.default_rng(0)
    X = unit * rng.normal(size=(12, 2))
    S, kernel = X[:4], RBF(1.5 * unit)
    weights = rng.uniform(0.1, 3.0, 12) if weighted else np.ones(12)
    moments, features = feature_moments(kernel, S, ArraySource(X, None), weights)
    assert features.rank == 4
    pairs = eigenpairs_of_matrix(moments, 2)
    bound = prove_leading(bound_eigenpairs(moments, pairs), moments, pairs.following)
    exact = exact_values(X, S, 1.5 * unit, weights)
    assert all(abs(mpmath.mpf(float(v)) - e) <= bound.radius for v, e in zip(bound.values[:2], exact[:2], strict=True))
    assert bound.radius < 1e-9 * bound.values[0]
    assert bound.leading
