"""The direction of a bound is the best one at a place, and the place is where the bound is smallest."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.fusion.simplex_bound import simplex_bound
from substrate.fusion.steered_direction import residual_direction, spectrum_of, worst_place
from tests.oracles.joint_machines import MACHINES, rows, store_of


def problem(seed, sizes=(5, 3)):
    """Errors, squared radii, and matrices S of several folds, of very different sizes."""
    rng = np.random.default_rng(seed)
    matrices = [B @ B.T for B in (rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-2.0, 1.0, n) for n in sizes)]
    return rng, rng.normal(size=sum(sizes)), [0.02, 0.05], matrices


def gain(u, v, scales, matrices):
    """What a direction of length one proves at one place."""
    start, square = 0, 0.0
    for scale, S in zip(scales, matrices, strict=True):
        part = u[start : start + len(S)]
        square, start = square + scale * float(part @ S @ part), start + len(S)
    return float(u @ v) - np.sqrt(square)


@pytest.mark.parametrize("seed", range(5))
def test_no_direction_proves_more_at_its_place(seed):
    rng, v, scales, matrices = problem(seed)
    u = residual_direction(v, scales, [spectrum_of(S) for S in matrices])
    assert u is not None
    u = u / np.linalg.norm(u)
    best = gain(u, v, scales, matrices)
    assert best > 0.0
    for size in (1.0, 0.1, 0.01):
        others = u + size * rng.normal(size=(200, u.size))
        others /= np.linalg.norm(others, axis=1, keepdims=True)
        assert max(gain(other, v, scales, matrices) for other in others) <= best + 1e-2 * abs(best)
    assert best >= gain(v / np.linalg.norm(v), v, scales, matrices)


def test_errors_in_reach_have_no_direction():
    _, v, _, matrices = problem(0)
    spectra = [spectrum_of(S + np.eye(len(S))) for S in matrices]
    assert residual_direction(v, [1e9, 1e9], spectra) is None
    assert residual_direction(v, [0.0, 0.0], spectra) is None
    assert spectrum_of(np.array([[np.nan]])) is None


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_worst_place_is_that_of_the_smallest_bound(n):
    rng = np.random.default_rng(n)
    a, Q = rng.uniform(1.0, 2.0, n), rng.uniform(0.0, 1.0, (n, n))
    Q = (Q + Q.T) * (1.0 - np.eye(n))
    t = worst_place(a, Q)
    assert_allclose(t.sum(), 1.0)
    assert (t >= 0.0).all()
    T = rng.dirichlet(np.ones(n), 2000)
    values = T @ a - np.sqrt(np.einsum("ki,ij,kj->k", T, Q, T))
    assert t @ a - np.sqrt(t @ Q @ t) <= values.min() + 0.05


@pytest.mark.parametrize("name", MACHINES)
def test_a_steered_direction_proves_more_over_a_large_simplex(name, monkeypatch):
    build, box = MACHINES[name]
    X, y, *held = rows(n=10)
    store = store_of(*build(X, y), box, held)
    ends = [
        tuple(low + share * (high - low) for (low, high), share in zip(box, shares, strict=True))
        for shares in ((0.05, 0.05), (0.4, 0.05), (0.05, 0.4))
    ]
    at = [store.add(corner) for corner in ends]
    steered = simplex_bound(store, at).value
    monkeypatch.setattr("substrate.fusion.simplex_bound._STEERED", 0)
    assert steered > simplex_bound(store, at).value
