"""Intervals of a stack by leaving rows out: explicit refits of machines at held weights, guarantees and refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import LSSVMRegressor, StackedLSSVMRegressor, load
from substrate.kernels import RBF, Laplacian, Linear
from substrate.uncertainty.intervals import rank

RNG = np.random.default_rng(5)
N = 17
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=N)
V = RNG.uniform(0.5, 2.0, size=N)
NEW = np.concatenate([RNG.normal(size=(4, 2)), [[6.0, 6.0]]])
KERNELS = [RBF(1.0), Laplacian(2.0), Linear(), RBF(0.4)]


def stack(**parameters):
    return StackedLSSVMRegressor(**{"kernels": KERNELS} | parameters)


def refit_without_rows(model, points, targets, weights):
    """Predictions at the new points, and the error of the row, of the machines fitted again without each row."""
    predicted, errors = np.zeros((len(NEW), len(targets))), targets.copy()
    for i in range(len(targets)):
        others = np.arange(len(targets)) != i
        for u, member in zip(model.stack_weights_, model.estimators_, strict=True):
            machine = LSSVMRegressor(member.kernel_, gamma=member.gamma)
            machine.fit(points[others], targets[others], sample_weight=weights[others])
            predicted[:, i] += u * machine.predict(NEW)
            errors[i] -= u * machine.predict(points[[i]])[0]
    return predicted, errors


def plus(predicted, errors, coverage):
    n, k, size = errors.size, rank(coverage, errors.size), np.abs(errors)
    lower, upper = np.sort(predicted - size, axis=1), np.sort(predicted + size, axis=1)
    return np.column_stack([lower[:, n - k], upper[:, k - 1]])


@pytest.mark.parametrize(("weights", "offset"), [(np.ones(N), 0.0), (V, 1e6)], ids=["plain", "weighted, offset"])
def test_intervals_are_those_of_explicit_refits(weights, offset, tmp_path):
    """Machines without every row: fitted again, and by the closed form; the same from a file.

    :place [Barber2021]_ jackknife+: the interval from left-out machines and residuals
    """
    model = stack().fit(X, Y + offset, weights)
    predicted, errors = refit_without_rows(model, X, Y + offset, weights)
    rounding = 1e-8 + 1e-12 * offset
    assert_allclose(model.criterion_, weights @ errors**2 / weights.sum(), rtol=1e-6)
    ends = model.predict_interval(NEW, 0.8, "jackknife+")
    if offset:  # rows of one weight have studentised errors
        assert_allclose(ends, plus(predicted, errors, 0.8), atol=10.0 * rounding)
    model.save(tmp_path / "stack.npz")
    assert_array_equal(load(tmp_path / "stack.npz").predict_interval(NEW, 0.8, "jackknife+"), ends)


def test_studentised_scores_are_deviations_of_refits():
    """The deviation of an error, at a new point and at the row, by the inverse of every machine without the row."""
    model = stack().fit(X, Y)
    predicted, errors = refit_without_rows(model, X, Y, np.ones(N))
    reach = np.empty((len(NEW), N))
    for i in range(N):
        others = np.arange(N) != i
        at = np.concatenate([NEW, X[[i]]])
        deviations = np.zeros(len(at))
        for weight, member in zip(model.stack_weights_, model.estimators_, strict=True):
            kernel, gamma = member.kernel_, member.gamma
            M = np.zeros((N, N))
            M[0, 1:] = M[1:, 0] = 1.0
            M[1:, 1:] = kernel(X[others]) + np.eye(N - 1) / gamma
            q = np.concatenate([np.ones((len(at), 1)), kernel(at, X[others])], axis=1)
            p = kernel.diag(at) - np.sum(q * np.linalg.solve(M, q.T).T, axis=1)
            deviations += weight * np.sqrt(1.0 + gamma * p)
        reach[:, i] = np.abs(errors[i]) * deviations[:-1] / deviations[-1]
    n, k = N, rank(0.8, N)
    lower, upper = np.sort(predicted - reach, axis=1), np.sort(predicted + reach, axis=1)
    ends = model.predict_interval(NEW, 0.8, "jackknife+")
    assert_allclose(ends, np.column_stack([lower[:, n - k], upper[:, k - 1]]), atol=1e-6)
    plain = np.diff(plus(predicted, errors, 0.8))
    assert (np.diff(ends) / plain)[-1] > (np.diff(ends) / plain)[:-1].max(), "wider far from the rows"


def test_the_guarantee_names_what_was_chosen():
    for model, reason in (
        (stack(), "the gammas and the weights of the machines were chosen"),
        (stack(kernels="families"), "their kernels were chosen"),
    ):
        guarantee = model.fit(X, Y).interval_guarantee(0.9, "jackknife+")
        assert not guarantee.holds
        assert any(reason in said for said in guarantee.broken)
    nested = stack().fit(X, Y).interval_guarantee(0.9)
    assert nested.method == "nested"
    assert nested.holds
    assert stack().fit(X, Y).calibrate(NEW, np.zeros(5)).interval_guarantee(0.9, "split").level == 0.9
