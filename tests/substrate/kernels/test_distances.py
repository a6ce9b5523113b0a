"""Distances: never negative, not lost far from the origin, not lost between tight points, never NaN."""

import math

import naive_kernels as naive
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from substrate.kernels import RBF, Laplacian, Matern, PowerExponential

DECAYING = [
    (RBF, naive.rbf),
    (Laplacian, naive.laplacian),
    (lambda sigma: Matern(sigma, 0.5), lambda sigma: naive.matern(sigma, 0.5)),
    (lambda sigma: Matern(sigma, 1.5), lambda sigma: _matern_three_halves(sigma)),
]
decaying = pytest.mark.parametrize(("kernel", "pair"), DECAYING, ids=["RBF", "Laplacian", "Matern1/2", "Matern3/2"])
kernels = pytest.mark.parametrize("kernel", [RBF, Laplacian, Matern], ids=lambda kernel: kernel.__name__)
forms = pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])


def _matern_three_halves(sigma):
    def k(x, z):
        s = math.sqrt(3.0) * math.dist(x, z) / sigma
        return (1.0 + s) * math.exp(-s)

    return k


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    seed=st.integers(0, 2**20),
    n=st.integers(1, 20),
    d=st.integers(1, 30),
    offset=st.sampled_from([0.0, 1.0, 1e8, -1e8, 1e150]),
    spread=st.sampled_from([0.0, 1e-8, 1.0, 1e6, 1e100, 1e150, 1e153]),
    unit=st.sampled_from([1e-6, 1e-4, 1.0, 1e4]),
    sparse=st.booleans(),
)
def test_no_sum_is_negative_or_no_number(seed, n, d, offset, spread, unit, sparse):
    X = offset + spread * np.random.default_rng(seed).normal(size=(n, d))
    X[-1] = X[0]
    sets = [scipy.sparse.csr_array(X)] * 2 if sparse else [X, X]
    for kernel in (RBF(unit), Laplacian(unit), PowerExponential(unit, 1.4)):
        K = kernel(*sets)
        assert ((K >= 0.0) & (K <= 1.0)).all()
        assert K[0, -1] == 1.0


@decaying
@pytest.mark.parametrize("offset", [1e8, -1e8, 1e12])
@forms
def test_an_offset_costs_no_more_than_it_costs_the_points(kernel, pair, offset, form):
    rng = np.random.default_rng(3)
    grid = np.round(rng.normal(size=(40, 3)) * 1024.0) / 1024.0  # grid + offset is exact
    assert_allclose(kernel(1.0)(form(grid + offset)), kernel(1.0)(grid), rtol=1e-11, atol=1e-13)
    assert_allclose(kernel(1.0)(form(grid + offset), form(grid[:7] + offset)), kernel(1.0)(grid, grid[:7]), rtol=1e-11)
    rough = rng.normal(size=(40, 3))
    assert_allclose(kernel(1.0)(rough + 1e8), kernel(1.0)(rough), rtol=1e-6)


@decaying
@forms
@pytest.mark.parametrize("offset", [0.0, 3.0])
@pytest.mark.covering
def test_tight_widths_are_accurate(kernel, pair, form, offset):
    rng = np.random.default_rng(4)
    X = 1e4 * rng.uniform(size=(12, 3)) + offset
    X = np.vstack([X, X + 0.3 * rng.normal(size=X.shape)])  # neighbours within a width, the rest 1e4 widths away
    loop = naive.matrix(pair(1.0), X, X)
    assert (loop[:12, 12:].diagonal() > 0.01).all()
    assert_allclose(kernel(1.0)(form(X)), loop, rtol=0.0, atol=1e-12)
    assert_allclose(kernel(1.0)(form(X), form(X[:5])), loop[:, :5], rtol=0.0, atol=1e-12)


@decaying
@forms
@pytest.mark.parametrize("gap", [1e3, 1e6, 1e9])
@pytest.mark.covering
def test_the_structure_inside_two_far_clusters_is_kept(kernel, pair, form, gap):
    rng = np.random.default_rng(5)
    near = rng.normal(size=(10, 2))
    X = np.vstack([near, near[:6] + np.array([gap, 0.0])])
    loop = naive.matrix(pair(0.5), X, X)
    K = kernel(0.5)(form(X))
    assert_allclose(K, loop, rtol=0.0, atol=1e-12)
    assert K[:10, 10:].max() == 0.0 or K[:10, 10:].max() < 1e-200


@kernels
@pytest.mark.parametrize("factor", [1e150, 1e160, 1e300])
@pytest.mark.parametrize("sigma", [1e-10, 1.0, 1e10])
@forms
@pytest.mark.covering
def test_enormous_points_give_no_nan(kernel, factor, sigma, form):
    X = factor * np.random.default_rng(7).normal(size=(20, 3))
    X[5] = X[0]
    K = kernel(sigma)(form(X))
    assert np.isfinite(K).all()
    assert K[0, 5] == 1.0
    assert K[0, 1] == 0.0


@kernels
@pytest.mark.parametrize("sigma", [1e-300, 1e-170, 1e-155, 1e155, 1e200])
@forms
def test_extreme_widths_give_no_nan_and_tell_equal_points_from_others(kernel, sigma, form):
    X = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 2.0], [5.0, -3.0]])
    K = kernel(sigma)(form(X))
    assert np.isfinite(K).all()
    assert K[0, 1] == 1.0
    assert K[0, 2] == (0.0 if sigma < 1.0 else 1.0)
