"""Adaptive intervals: errors over a fitted spread, against explicit loops, in files, units, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from problems import LSSVMRegressor, LSSVMRegressorCV, StackedLSSVMRegressor, load
from substrate.intervals.conformal import rank
from substrate.kernels import RBF, Laplacian, Linear

RNG = np.random.default_rng(4)
N = 62
X = RNG.uniform(-2.0, 2.0, size=(N, 2))
Y = 2.0 * X[:, 0] + np.sin(X[:, 1]) + np.exp(0.8 * X[:, 0]) * RNG.normal(size=N) / 4.0
NEW = RNG.uniform(-2.0, 2.0, size=(7, 2))
MACHINES = {
    "fixed": LSSVMRegressor(RBF(1.5), gamma=10.0),
    "searched": LSSVMRegressorCV(kernels=[RBF(1.0), Laplacian(2.0)]),
    "features": LSSVMRegressor(Linear(), gamma=1.0),
    "partially linear": LSSVMRegressor(RBF(1.0), gamma=5.0, linear_columns=[0]),
    "stack": StackedLSSVMRegressor(kernels=[RBF(1.0), Laplacian(2.0)]),
}


def spread_by_hand(K, K_new, residuals, predictions, predicted):
    """The spread at new points by explicit systems, a refit without every row, and a loop over penalties."""
    n, unit = residuals.size, np.abs(residuals).max()
    t = np.abs(residuals / unit) ** (2.0 / 3.0)
    center, deviation = predictions.mean(), predictions.std()
    h, h_new = (predictions - center) / deviation, (predicted - center) / deviation
    L, L_new = (np.exp(-0.5 * (a[:, None] - h[None, :]) ** 2) for a in (h, h_new))
    P = np.eye(n) - 1.0 / n
    size, size_of_levels = (np.trace(P @ matrix @ P) / n for matrix in (K, L))
    joined, joined_new = K / size + L / size_of_levels, K_new / size + L_new / size_of_levels

    def solve(rows, penalty):
        m = rows.size
        matrix = np.block([[np.zeros((1, 1)), np.ones((1, m))], [np.ones((m, 1)), joined[np.ix_(rows, rows)]]])
        matrix[1:, 1:] += n * penalty * np.eye(m)
        return np.linalg.solve(matrix, np.append(0.0, t[rows]))

    def error(penalty):
        others = (np.delete(np.arange(n), i) for i in range(n))
        values = [np.append(1.0, joined[i, rows]) @ solve(rows, penalty) for i, rows in enumerate(others)]
        return np.mean((t - values) ** 2)

    best = min((1e3, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03), key=error)
    s = solve(np.arange(n), best)
    return unit * np.maximum(joined_new @ s[1:] + s[0], 0.1 * t.mean()) ** 1.5


def left_out(machine, X, y):
    """Left-out errors by a refit without every row, with kernel, gamma and weights of the stack held."""
    rows = [np.delete(np.arange(y.size), i) for i in range(y.size)]
    return np.array([y[i] - clone(machine).fit(X[some], y[some]).predict(X[[i]])[0] for i, some in enumerate(rows)])


def test_adaptive_ends_are_those_of_explicit_refits():
    """Left-out errors over the spread at their rows, which a machine without the row states, and the rank of these."""
    kernel, n = RBF(1.5), 30
    x, y = X[:n], Y[:n]
    model = clone(MACHINES["fixed"]).fit(x, y)
    errors = left_out(MACHINES["fixed"], x, y)
    s = spread_by_hand(kernel(x), kernel(NEW, x), errors, y - errors, model.predict(NEW))
    ends = model.predict_interval(NEW, 0.8, "adaptive")
    (spread,) = model.spreads_
    assert_allclose(spread.at(kernel(NEW, x), model.predict(NEW)), s, rtol=1e-6)
    reach = np.sort(spread.scores)[rank(0.8, n) - 1] * s
    assert_allclose(ends, np.column_stack([model.predict(NEW) - reach, model.predict(NEW) + reach]), rtol=1e-6)


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_files_keep_adaptive_intervals(name, tmp_path):
    """Intervals, and what is guaranteed, are the same from a file."""
    model = clone(MACHINES[name]).fit(X, Y)
    ends = model.predict_interval(NEW, 0.8, "adaptive")
    widths = np.diff(ends, axis=1)[:, 0]
    assert widths.max() > 1.2 * widths.min()
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert_array_equal(again.predict_interval(NEW, 0.8, "adaptive"), ends)
    guarantee = again.interval_guarantee(0.8, "adaptive")
    assert guarantee.level is None
    assert "approximate: adaptive covers 0.8" in str(guarantee)


def test_intervals_follow_noise_that_grows():
    """Of noise that grows seven times along an input, intervals do too, and they cover new rows."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-1.0, 1.0, size=(400, 1))
    targets = points[:, 0] + 0.1 * np.exp(points[:, 0]) * rng.normal(size=400)
    model = LSSVMRegressor(RBF(1.0), gamma=10.0).fit(points[:200], targets[:200])
    thirds = np.array_split(np.argsort(model.predict(points[200:])), 3)

    def by_thirds(ends):
        inside = (ends[:, 0] <= targets[200:]) & (targets[200:] <= ends[:, 1])
        return np.array([inside[rows].mean() for rows in thirds])

    ends = model.predict_interval(points[200:], 0.9, "adaptive")
    width = ends[:, 1] - ends[:, 0]
    assert 3.0 < width.max() / width.min() < 15.0
    shares, plain = by_thirds(ends), by_thirds(model.predict_interval(points[200:], 0.9))
    assert shares.min() > 0.8
    assert plain[0] > 0.97
    assert plain[2] < min(0.85, shares[2])
