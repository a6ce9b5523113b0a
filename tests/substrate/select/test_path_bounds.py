"""Gaps along paths are never below exact ones, and made-up points prove nothing."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from substrate.fits.coordinates import shared_coordinates
from substrate.fits.paths import variation_path
from substrate.fits.variation import divide_from_right
from substrate.kernels import RBF
from substrate.numbers import relative_rounding
from substrate.select.path_bounds import Fold, _l1_track, _variation_track, l1_fold, read_off, variation_fold


def rows(n, d, seed):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-1.0, 1.0, size=(n, d)), rng.uniform(-1.0, 1.0, size=(15, d))

    def target(Z):
        return np.sin(3.0 * Z[:, 0]) + Z[:, -1] ** 2 + 0.3 * rng.standard_normal(Z.shape[0])

    return X, target(X), V, target(V)


@pytest.mark.parametrize("factor", [0.0, 0.9, 1.1, 3.0, -1.0])
def test_tampered_multipliers_never_raise_the_bound_above_the_optimum(factor):
    X, y, V, y_val = rows(16, 3, 0)
    parts = [RBF(0.5)(X[:, [part]]) for part in range(3)]
    coordinates = shared_coordinates(parts)
    below = coordinates.rows_at([RBF(0.5)(V[:, [part]], X[:, [part]]) for part in range(3)])
    fold = variation_fold(coordinates, y, below, y_val)
    exact = read_off([fold])
    B, target = divide_from_right(coordinates.parts, coordinates.metric), coordinates.targets(y)
    M = np.linalg.solve(coordinates.metric.T, (below - coordinates.parts.sum(axis=0).mean(axis=0)).T).T
    xi = fold.path.dual.toarray()
    k = len(xi) // 2
    xi[k, np.abs(xi[k]).argmax()] *= factor
    track, _ = _variation_track(B, target, replace(fold.path, dual=csr_array(xi)), M, y_val - y.mean())
    assert track.gaps[k] >= fold.track.gaps[k] * (1.0 - 1e-9)
    assert read_off([Fold(fold.path, track)]).lower_bound <= exact.error * (1.0 + 1e-12)


@pytest.mark.parametrize("factor", [0.0, 0.3, 0.9, 1.1, -1.0])
@pytest.mark.parametrize("kernel", [RBF(0.5), RBF(0.1), RBF(2.0)])
def test_tampered_coefficients_never_raise_the_bound_above_the_optimum(kernel, factor):
    """With a = 0 the alignment is perfect and only the correlations, beyond zeta, tell that it is no optimum."""
    X, y, V, y_val = rows(20, 2, 1)
    Phi, below = kernel(X), kernel(V, X)
    fold = l1_fold(Phi, y, below, y_val)
    exact = read_off([fold])
    track = _l1_track(Phi, y, replace(fold.path, primal=csr_array(factor * fold.path.primal)), below, y_val)
    a = fold.path.primal.toarray()
    for k in range(0, len(a), 3):
        moved = (1.0 - factor) * Phi @ a[k]
        assert np.sum((moved - moved.mean()) ** 2) <= track.gaps[k] * (1.0 + 1e-9) + 1e-12
    read = read_off([Fold(fold.path, track)])
    assert read.lower_bound <= exact.error
    assert read.lower_bound < exact.lower_bound


def exact(values):
    """Doubles as fractions."""
    return [Fraction(float(value)) for value in values]


def inner(first, second):
    return sum((a * b for a, b in zip(first, second, strict=True)), Fraction(0))


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
@pytest.mark.parametrize("seed", range(2))
def test_no_gap_of_a_variation_path_is_below_the_exact_one(seed, scale):
    """In fractions: multipliers are inside their balls, and primal less dual value is at most what is computed."""
    rng = np.random.default_rng(seed)
    B, target = rng.normal(size=(2, 5, 4)), scale * rng.normal(size=4)
    path = variation_path(list(B), target)
    track, _ = _variation_track(B, target, path, np.eye(4), np.zeros(4))  # the errors are -u
    y, multipliers = exact(target), path.dual.toarray().reshape(-1, 2, 5)
    most = float(np.diff(path.dual.indptr).max())
    sizes = np.abs(multipliers).sum(axis=2) * (1.0 + relative_rounding(most + 4.0))
    shares = np.minimum(1.0, path.values[:, None] / np.where(sizes > 0.0, sizes, 1.0))
    for k, rho in enumerate(exact(path.values)):
        u, xi = exact(-track.errors[k]), [exact(row) for row in multipliers[k] * shares[k][:, None]]
        assert all(sum(map(abs, row)) <= rho for row in xi)
        levels = sum(max(abs(inner(exact(row), u)) for row in part) for part in B)
        dual = [
            y[j] - sum(xi[part][i] * Fraction(float(B[part, i, j])) for part in range(2) for i in range(5))
            for j in range(4)
        ]
        step = [a - b for a, b in zip(u, y, strict=True)]
        gap = inner(step, step) / 2 + rho * levels - inner(y, y) / 2 + inner(dual, dual) / 2
        assert gap <= Fraction(1.01 * float(track.gaps[k]))


@pytest.mark.parametrize("width", [0.5, 4.0])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("constant", [0.0, 1e4])
def test_no_gap_of_a_norm_path_is_below_the_exact_one(width, offset, constant):
    """In fractions, with support values that are large compared with their sum, and a kernel of large values."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 1))
    Phi, y = np.exp(-((X - X.T) ** 2) / width**2) + constant, rng.normal(size=8) + offset
    fold = l1_fold(Phi, y, Phi[:3], y[:3])
    matrix, targets = [exact(row) for row in Phi], exact(y)
    for k in range(len(fold.path)):
        zeta, nu = Fraction(float(fold.path.values[k])), Fraction(float(fold.path.dual[k][0]))
        a = exact(fold.path.primal[[k]].toarray()[0])
        e = [target - inner(row, a) for target, row in zip(targets, matrix, strict=True)]
        e = [value - sum(e) / len(e) for value in e]
        c = [inner([row[j] for row in matrix], e) - nu for j in range(8)]
        excess = max(max(map(abs, c)) - zeta, Fraction(0))
        gap = (zeta + excess) * sum(map(abs, a)) - inner(c, a)
        assert gap <= Fraction(float(fold.track.gaps[k]))
