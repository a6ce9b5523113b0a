"""Intervals of a stack by leaving rows out: explicit refits of machines and weights, guarantees, files and refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import LSSVMRegressor, StackedLSSVMClassifier, StackedLSSVMRegressor, load
from problems.estimators.chosen import stacked
from substrate.errors import DataError
from substrate.kernels import RBF, Laplacian, Linear
from substrate.uncertainty.levels import rank

RNG = np.random.default_rng(5)
N = 17
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=N)
V = RNG.uniform(0.5, 2.0, size=N)
NEW = np.concatenate([RNG.normal(size=(4, 2)), [[6.0, 6.0]]])
KERNELS = [RBF(1.0), Laplacian(2.0), Linear(), RBF(0.4)]
GAMMAS = [5.0, 20.0, 1.0, 3.0]


def stack(**parameters):
    return StackedLSSVMRegressor(**{"kernels": KERNELS, "gammas": GAMMAS} | parameters)


def refit_without_rows(points, targets, weights=None, **parameters):
    """Predictions at the new points, and the error of the row, of the whole stack fitted again without each row."""
    predicted, errors = np.empty((len(NEW), len(targets), *targets.shape[1:])), np.empty(targets.shape)
    for i in range(len(targets)):
        others = np.arange(len(targets)) != i
        given = {} if weights is None else {"sample_weight": weights[others]}
        machine = stack(**parameters).fit(points[others], targets[others], **given)
        predicted[:, i], errors[i] = machine.predict(NEW), targets[i] - machine.predict(points[[i]])[0]
    return predicted, errors


def plus(predicted, errors, coverage):
    n, k, size = errors.size, rank(coverage, errors.size), np.abs(errors)
    lower, upper = np.sort(predicted - size, axis=1), np.sort(predicted + size, axis=1)
    return np.column_stack([lower[:, n - k], upper[:, k - 1]])


@pytest.mark.parametrize(("weights", "offset"), [(None, 0.0), (V, 1e6)], ids=["plain", "weighted, with an offset"])
def test_intervals_are_those_of_explicit_refits(weights, offset, tmp_path):
    """Machines and weights without every row: fitted again, and by the closed form; the same from a file.

    :place [Barber2021]_ jackknife+: the interval from left-out machines and residuals
    """
    given = {} if weights is None else {"sample_weight": weights}
    model = stack().fit(X, Y + offset, **given)
    predicted, errors = refit_without_rows(X, Y + offset, weights)
    rounding = 1e-8 + 1e-12 * offset
    (found,) = model._model.left_out_stacks()
    assert_allclose(found.residuals, errors, atol=rounding)
    ends = model.predict_interval(NEW, 0.8, "jackknife+")
    if weights is not None:  # rows of one weight have studentised errors
        assert_allclose(ends, plus(predicted, errors, 0.8), atol=rounding)
    model.save(tmp_path / "stack.npz")
    assert_array_equal(load(tmp_path / "stack.npz").predict_interval(NEW, 0.8), ends)


def test_studentised_scores_are_deviations_of_refits():
    """The deviation of an error, at a new point and at the row, by the inverse of every machine without the row."""
    model = stack().fit(X, Y)
    predicted, errors = refit_without_rows(X, Y)
    reach, u = np.empty((len(NEW), N)), model._model.left_out_stacks()[0].weights
    for i in range(N):
        others = np.arange(N) != i
        at = np.concatenate([NEW, X[[i]]])
        deviations = np.zeros(len(at))
        for weight, kernel, gamma in zip(u[i], KERNELS, GAMMAS, strict=True):
            M = np.zeros((N, N))
            M[0, 1:] = M[1:, 0] = 1.0
            M[1:, 1:] = kernel(X[others]) + np.eye(N - 1) / gamma
            q = np.concatenate([np.ones((len(at), 1)), kernel(at, X[others])], axis=1)
            p = kernel.diag(at) - np.sum(q * np.linalg.solve(M, q.T).T, axis=1)
            deviations += weight * np.sqrt(1.0 + gamma * p)
        reach[:, i] = np.abs(errors[i]) * deviations[:-1] / deviations[-1]
    n, k = N, rank(0.8, N)
    lower, upper = np.sort(predicted - reach, axis=1), np.sort(predicted + reach, axis=1)
    ends = model.predict_interval(NEW, 0.8)
    assert_allclose(ends, np.column_stack([lower[:, n - k], upper[:, k - 1]]), atol=1e-7)
    plain = np.diff(plus(predicted, errors, 0.8))
    assert (np.diff(ends) / plain)[-1] > (np.diff(ends) / plain)[:-1].max(), "wider far from the rows"


def test_a_stack_of_one_machine_has_its_intervals():
    one = stack(kernels=[RBF(1.0)], gammas=[5.0]).fit(X, Y, sample_weight=V)
    machine = LSSVMRegressor(RBF(1.0), gamma=5.0).fit(X, Y, sample_weight=V)
    assert_allclose(one.predict_interval(NEW, 0.7), machine.predict_interval(NEW, 0.7), atol=1e-10)
    assert_allclose(one.predict(NEW), machine.predict(NEW), atol=1e-12)


def test_outputs_units_and_few_rows():
    both = np.column_stack([Y, 1e9 * X[:, 0] ** 2])
    gammas = [[gamma, 2.0 * gamma] for gamma in GAMMAS]
    model = stack(gammas=gammas).fit(X, both)
    ends = model.predict_interval(NEW, 0.7, "jackknife+")
    assert ends.shape == (5, 2, 2)
    for k, unit in enumerate((1.0, 1e9)):
        alone = stack(gammas=[pair[k] for pair in gammas]).fit(X, both[:, k])
        assert_allclose(ends[:, k] / unit, alone.predict_interval(NEW, 0.7) / unit, atol=1e-7)
    assert "each output is asked for on its own" in model.interval_guarantee(0.7).conditions
    two, three = stack().fit(X[:2], Y[:2]), stack().fit(X[:3], Y[:3])
    assert_array_equal(two.predict_interval(NEW, 0.5), np.tile([-np.inf, np.inf], (5, 1)))
    assert np.isfinite(three.predict_interval(NEW, 0.5)).all()
    assert np.isinf(three.predict_interval(NEW, 0.9)).all(), "three rows are too few for nine tenths"
    flat = stack().fit(X, np.full(N, 7.0))
    assert_allclose(flat.predict_interval(NEW, 0.8), 7.0, atol=1e-10)
    twice = stack().fit(np.repeat(X, 2, axis=0), np.repeat(Y, 2))
    assert np.isfinite(twice.predict_interval(NEW, 0.8)).all()


def test_the_guarantee_names_what_was_chosen():
    """Weights of machines that are others without every row break nothing; gammas and kernels that were chosen do.

    :place [Barber2021]_ jackknife+: the interval from left-out machines and residuals
    """
    held = stack().fit(X, Y).interval_guarantee(0.9)
    assert (held.method, held.level) == ("jackknife+", pytest.approx(0.8, abs=1e-15))
    assert held.holds
    for model, reason in (
        (stack(gammas=None, criteria="loo"), "the gammas of the machines were chosen"),
        (stack(kernels=[RBF()], gammas=[3.0]), "the widths of their kernels are computed"),
        (stack(kernels="families", gammas=None, criteria="loo"), "their kernels were chosen"),
    ):
        guarantee = model.fit(X, Y).interval_guarantee(0.9, "jackknife+")
        assert not guarantee.holds
        assert any(reason in said for said in guarantee.broken)
    weighted = stack().fit(X, Y, sample_weight=V).interval_guarantee(0.9)
    assert weighted.method == "jackknife+"
    assert not weighted.holds
    changed = stack().fit(X, Y).set_params(kernels="families", gammas=[1.0])
    assert any("their kernels were chosen" in said for said in changed.interval_guarantee(0.9, "jackknife+").broken)
    assert stack().fit(X, Y).calibrate(NEW, np.zeros(5)).interval_guarantee(0.9, "split").level == 0.9


def test_many_rows_are_refused_before_any_work(monkeypatch):
    model = stack().fit(X, Y)
    monkeypatch.setattr(stacked, "MOST_LEFT_OUT", N - 1)
    with pytest.raises(
        DataError, match=r"up to 16 rows, and this one has 17; keep rows for calibrate.*method='nested'"
    ):
        model.predict_interval(NEW)


def test_given_gammas_are_used():
    model = stack(gammas=np.array(GAMMAS)).fit(X, Y)
    assert_array_equal(model.gammas_, GAMMAS)
    assert model.certificate_.holds
    labels = np.where(Y > 0.0, "b", "a")
    classes = StackedLSSVMClassifier(kernels=KERNELS, gammas=GAMMAS).fit(X, labels)
    assert_array_equal(classes.gammas_, GAMMAS)
    assert_allclose(classes.predict_proba(NEW).sum(axis=1), 1.0)


@pytest.mark.slow
def test_coverage_of_drawn_studies():
    """Of 300 draws, each with one new row, a share near the level is covered: within three standard errors."""
    rng, covered = np.random.default_rng(8), []
    for _ in range(300):
        points = rng.normal(size=(31, 2))
        y = np.sin(2.0 * points[:, 0]) + points[:, 1] + (0.2 + 0.2 * np.abs(points[:, 1])) * rng.normal(size=31)
        model = stack().fit(points[:30], y[:30])
        lower, upper = model.predict_interval(points[30:], 0.8)[0]
        covered.append(lower <= y[30] <= upper)
    deviation = np.sqrt(0.8 * 0.2 / 300)
    assert np.mean(covered) > 0.8 - 3.0 * deviation
    assert np.mean(covered) < 0.8 + 3.0 * deviation + 0.04, "not wide for nothing: 31 rows allow a few ranks more"
