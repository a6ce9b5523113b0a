"""The sums of a least-squares machine in its own coordinates are those of its matrices, zero directions included."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.gram import Gram
from substrate.least_squares.coordinates import LeastSquares
from substrate.least_squares.spectrum import centred_spectrum

LAMBDAS = np.array([1e-6, 1e-2, 1.0, 1e3])


def machines(seed, weighted):
    """A linear machine of few columns: by the spectrum of its N x N matrix, by sums over rows, and its matrices."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    v = rng.uniform(0.2, 2.0, size=20) if weighted else np.ones(20)
    v /= v.mean()
    mean = v @ X / 20.0
    values, Q = np.linalg.eigh((v[:, None] * (X - mean)).T @ (X - mean))
    centred, y = (X - mean) @ Q, Y - v @ Y / 20.0
    cross, heavy = (v[:, None] * centred).T @ y, (v**2) @ centred**2
    by_sums = LeastSquares.of_products(
        values, cross, v @ y**2, 20, 19, heavy if weighted else None, 20.0 - v @ v / 20.0 if weighted else None
    )
    spectrum = centred_spectrum(Gram.from_matrix(X @ X.T), 0.0, v if weighted else None)
    by_matrix = spectrum.machine(spectrum.targets(Y), weighted)
    return by_sums, by_matrix, spectrum.targets(Y).unit, X, Y, v


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_zero_directions_are_those_of_the_whole_matrix(seed, weighted):
    by_sums, by_matrix, unit, X, Y, v = machines(seed, weighted)
    root = np.sqrt(v)
    for machine, scale in ((by_sums, 1.0), (by_matrix, unit)):
        g = machine.inverses(LAMBDAS)
        found = (machine.support_squares(g, LAMBDAS) * scale**2, machine.quadratic(g, LAMBDAS) * scale**2)
        traces, freedom = machine.trace(g, LAMBDAS), machine.degrees_of_freedom(LAMBDAS)
        stretch = machine.mean_log_stretch(LAMBDAS)
        for j, lam in enumerate(LAMBDAS):
            A = root[:, None] * (X @ X.T) * root + lam * np.eye(20)
            inverse = np.linalg.inv(A)
            eta = inverse @ root
            B = inverse - np.outer(eta, eta) / (root @ eta)
            alpha = B @ (root[:, None] * Y)
            assert_allclose(found[0][j], np.square(alpha).sum(axis=0), rtol=1e-6)
            assert_allclose(found[1][j], (root[:, None] * Y * alpha).sum(axis=0), rtol=1e-6)
            assert_allclose(traces[j], v @ B.diagonal(), rtol=1e-6)
            assert_allclose(freedom[j], 20.0 - lam * B.trace(), rtol=1e-6)
            logs = np.linalg.slogdet(A)[1] + np.log(root @ eta) - np.log(root @ root)
            assert_allclose(stretch[j] + np.log(lam), logs / 19.0, rtol=1e-8, atol=1e-8)
        noise = machine.noise_variance(0.1) * scale**2
        assert_allclose(noise, 0.1 * machine.quadratic(machine.inverses([0.1]), np.array([0.1]))[0] * scale**2 / 19.0)


def test_a_direction_that_is_rounding_explains_nothing():
    values, cross = np.array([0.0, 1e-40, 1.0]), np.array([[1e-17], [1e-17], [0.5]])
    machine = LeastSquares.of_products(values, cross, np.array([1.0]), 10, 9)
    assert_allclose(machine.squares[:, 0], [0.0, 0.0, 0.25])
    assert_allclose(machine.rest, [0.75])
