"""Prediction intervals of regressors: by explicit refits, on loaded models and devices, and what they guarantee."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_regressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as process_kernels
from variants import componentwise_machine, robust_machine, symmetric_machine

import problems
from problems import KernelRegressor, LSSVMRegressor, LSSVMRegressorCV, PrunedLSSVMRegressor
from substrate.errors import DataError, DeclarationError
from substrate.intervals.conformal import rank
from substrate.kernels import RBF, Componentwise, Linear

RNG = np.random.default_rng(3)
N = 14
X = RNG.normal(size=(N, 2))
Y = np.sin(X[:, 0]) + 0.4 * RNG.normal(size=N)
V = RNG.uniform(0.3, 3.0, size=N)
NEW = 1.5 * RNG.normal(size=(6, 2))
POINTS = RNG.normal(size=(7, 2))
EVERY = ("conformal", "jackknife+")
REGRESSORS = {name: kind for name in problems.ESTIMATORS if is_regressor((kind := getattr(problems, name))())}

MACHINES = {
    "dense": (LSSVMRegressor(RBF(1.0), gamma=4.0), None),
    "weighted": (LSSVMRegressor(RBF(1.0), gamma=4.0), V),
    "linear": (LSSVMRegressor(Linear(), gamma=1e5), None),
    "linear, weighted": (LSSVMRegressor(Linear(), gamma=1e5), V),
    "components": (componentwise_machine(RBF(1.0), gamma=4.0), V),
    "even": (symmetric_machine(RBF(1.0), gamma=4.0), None),
    "partially linear": (LSSVMRegressor(RBF(1.0), gamma=4.0, linear_columns=[1]), V),
    "gradients": (LSSVMRegressor(RBF(1.0), gamma=4.0, solver="cg", tol=1e-12), None),
    "reduced": (LSSVMRegressor(RBF(1.0), gamma=4.0, basis=POINTS), None),
    "reduced, weighted": (LSSVMRegressor(RBF(1.0), gamma=4.0, basis=POINTS), V),
    "reduced, partially linear": (
        LSSVMRegressor(RBF(1.0), gamma=4.0, basis=POINTS, linear_columns=[1]),
        V,
    ),
    "reduced components": (LSSVMRegressor(Componentwise(RBF(1.0)), gamma=4.0, basis=POINTS), None),
}


def fitted(machine, points, targets, weights=None):
    return machine.fit(points, targets) if weights is None else machine.fit(points, targets, sample_weight=weights)


def rows_of(model, weights=None):
    if getattr(model, "basis", None) is None:
        return {}
    return {"rows": (X, Y) if weights is None else (X, Y, weights)}


def refits(machine, points, targets, weights, new):
    """Predictions at new points and errors at the row of the machines without each row."""
    outputs, errors = [], []
    for i in range(targets.size):
        rest = np.arange(targets.size) != i
        model = fitted(machine, points[rest], targets[rest], None if weights is None else weights[rest])
        outputs.append(model.predict(new))
        errors.append(targets[i] - model.predict(points[[i]])[0])
    return np.array(outputs), np.array(errors)


@pytest.mark.parametrize("name", MACHINES)
def test_jackknife_intervals_equal_refits(name):
    """:place [Barber2021]_ jackknife+: the interval from left-out machines and residuals"""
    machine, weights = MACHINES[name]
    outputs, errors = refits(machine, X, Y, weights, NEW)
    k, sizes = rank(0.8, N), np.abs(errors)
    low, high = np.sort(outputs - sizes[:, None], axis=0)[N - k], np.sort(outputs + sizes[:, None], axis=0)[k - 1]
    model = fitted(machine, X, Y, weights)
    plus = model.predict_interval(NEW, 0.8, "jackknife+", **rows_of(model, weights))
    assert_allclose(plus, np.column_stack([low, high]), atol=1e-9)


def test_error_bars_are_those_of_scikit_learns_process():
    model = LSSVMRegressor(RBF(1.0), gamma=4.0).fit(X, Y)
    noise = model.noise_variance_
    prior = process_kernels.ConstantKernel(4.0 * noise, "fixed") * process_kernels.RBF(1.0 / np.sqrt(2.0), "fixed")
    kernel = prior + process_kernels.WhiteKernel(noise, "fixed") + process_kernels.ConstantKernel(1e6, "fixed")
    peer = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X, Y)
    mean, deviation = model.predict(NEW, return_std=True)
    its_mean, its_deviation = peer.predict(NEW, return_std=True)
    assert_allclose(mean, its_mean, atol=1e-4)
    assert_allclose(deviation, its_deviation, atol=1e-4)


def test_the_evidence_chooses_gamma_and_the_noise():
    model = LSSVMRegressorCV(RBF(1.0), cv="evidence").fit(X, Y)
    K = RBF(1.0)(X)

    def likelihood(gamma, noise):
        S = noise * (gamma * K + np.eye(N))
        eta = np.linalg.solve(S, np.ones(N))
        quadratic = Y @ np.linalg.solve(S, Y) - (eta @ Y) ** 2 / eta.sum()
        # of N - 1 orthonormal contrasts
        sizes = np.linalg.slogdet(S)[1] + np.log(eta.sum() / N) + (N - 1) * np.log(2.0 * np.pi)
        return -0.5 * (quadratic + sizes)

    def log_evidence(criterion):
        return -0.5 * (N - 1) * (np.log(2.0 * np.pi * criterion) + 1.0)

    best = likelihood(model.gamma_, model.noise_variance_)
    assert_allclose(best, log_evidence(model.criterion_), rtol=1e-10)
    assert log_evidence(model.criterion_lower_bound_) >= best
    for factor in (0.5, 0.99, 1.01, 2.0):
        assert likelihood(factor * model.gamma_, model.noise_variance_) < best
        assert likelihood(model.gamma_, factor * model.noise_variance_) < best
    assert model.certificate_["gap of gamma"].passes


@pytest.mark.parametrize("name", sorted(REGRESSORS))
def test_every_regressor_is_calibrated_alike(name):
    kind = REGRESSORS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind().fit(X, Y)
    if "nested" not in model._interval_methods:
        with pytest.raises(DataError, match=r"has no calibration rows; call calibrate\(X, y\) first"):
            model.predict_interval(NEW)
    targets = np.linspace(-1.0, 1.0, 6)
    before = model.predict(NEW)
    assert model.calibrate(NEW, targets) is model
    reach = np.sort(np.abs(targets - before))[rank(0.8, 6) - 1]
    ends = model.predict_interval(NEW, 0.8, "split")
    assert_allclose(ends, np.column_stack([before - reach, before + reach]))
    assert_array_equal(model.predict(NEW), before)
    assert model.interval_guarantee(0.8, "split").holds


@pytest.mark.parametrize("name", ["dense", "linear", "partially linear", "reduced"])
@pytest.mark.parametrize("weight", [None, 2.5])
@pytest.mark.covering
def test_as_many_rows_as_guaranteed_are_covered_exactly(name, weight):
    """All rows but one fit, in turn: every machine has the same enlarged set of scores, so k of n + 1 are covered."""
    machine, weights, covered = MACHINES[name][0], None if weight is None else np.full(N - 1, weight), 0
    for j in range(N):
        rest = np.arange(N) != j
        model = fitted(machine, X[rest], Y[rest], weights)
        given = (X[rest], Y[rest]) if weights is None else (X[rest], Y[rest], weights)
        rows = {"rows": given} if isinstance(machine, LSSVMRegressor) else {}
        low, high = model.predict_interval(X[[j]], 0.7, "conformal", **rows)[0]
        covered += int(low <= Y[j] <= high)
    assert covered == rank(0.7, N - 1)


def test_a_model_says_what_breaks_its_guarantee():
    twice = LSSVMRegressor(RBF(1.0)).fit(X, Y, sample_weight=np.full(N, 2.0))
    assert twice.interval_guarantee(0.9).holds, "the new row has the weight of the others"
    fixed = LSSVMRegressor(RBF(1.0)).fit(X, Y)
    assert fixed.interval_guarantee(0.9).level == 0.9
    assert fixed.interval_guarantee(0.9, "jackknife+").level == 0.8
    assert fixed.interval_guarantee(0.3, "jackknife+").level == 0.0
    assert str(fixed.interval_guarantee()).startswith("covers at least 0.9 of new rows in finite samples, if the")
    broken = {
        "the width of the kernel is computed from these rows": LSSVMRegressor().fit(X, Y),
        "gamma was chosen on these rows": LSSVMRegressorCV(RBF(1.0), cv="groups").fit(X, Y, groups=np.arange(N)),
        "the kernel was chosen on these rows": LSSVMRegressorCV(kernels=[RBF(1.0), RBF(2.0)]).fit(X[:9], Y[:9]),
        "rows of unequal weight are not exchangeable": LSSVMRegressor(RBF(1.0)).fit(X, Y, sample_weight=V),
        "the basis was chosen among these rows": LSSVMRegressor(RBF(1.0), basis=5).fit(X, Y),
    }
    for words, model in broken.items():
        guarantee = model.interval_guarantee()
        assert not guarantee.holds
        assert any(words in reason for reason in guarantee.broken), guarantee
        assert str(guarantee).startswith("approximate: ")
        assert "calibrate(X, y)" in str(guarantee)
        assert model.interval_guarantee(0.9, "split").holds, "rows kept apart are not affected"
    assert LSSVMRegressor(RBF(1.0), basis=POINTS).fit(X, Y).interval_guarantee().holds


@pytest.mark.parametrize("machine", [LSSVMRegressor(RBF(1.0)), robust_machine(RBF(1.0))], ids=["full", "split"])
def test_wrong_levels_and_methods_are_refused(machine):
    model = machine.fit(X, Y).calibrate(X, Y)
    for coverage in (0.0, 1.0, -0.5, np.nan, np.inf, 90):
        with pytest.raises(DeclarationError, match="coverage must be above 0 and below 1"):
            model.predict_interval(NEW, coverage)
        with pytest.raises(DeclarationError, match="coverage must be above 0 and below 1"):
            model.interval_guarantee(coverage)
    names = ", ".join(model._interval_methods)
    for method in ("jackknife", "Conformal", None, 3):
        for ask in (model.predict_interval, lambda _, c, m: model.interval_guarantee(c, m)):
            with pytest.raises(DeclarationError, match=f"method must be one of {names.replace('+', '.')}, received"):
                ask(NEW, 0.9, method)
    with pytest.raises(DataError, match=r"expected shape \(6,\), received \(5,\)"):
        model.calibrate(NEW, np.zeros(5))
    with pytest.raises(DataError, match="y contains NaN or infinity"):
        model.calibrate(NEW, np.full(6, np.nan))
    with pytest.raises(ValueError, match="features"):
        model.predict_interval(NEW[:, :1])


def test_a_pruned_and_a_robust_machine_have_no_interval_of_rows_left_out():
    with pytest.raises(DeclarationError, match="is a closed form of the machine without robust weights"):
        robust_machine(RBF(1.0)).fit(X, Y).predict_interval(NEW, 0.9, "jackknife+")
    for kind in (PrunedLSSVMRegressor, KernelRegressor):
        with pytest.raises(DeclarationError, match=r"one of auto, split, received 'jackknife\+'"):
            kind(RBF(1.0)).fit(X, Y).predict_interval(NEW, 0.9, "jackknife+")


def coverages(draw, machine, methods, sets, coverage=0.8, n=20, **fit):
    """The share of sets in which the interval holds a new target."""
    held = dict.fromkeys(methods, 0)
    for seed in range(sets):
        points, targets = draw(np.random.default_rng(seed), n + 1)
        model = machine.fit(points[:-1], targets[:-1], **fit)
        for method in methods:
            low, high = model.predict_interval(points[-1:], coverage, method)[0]
            held[method] += int(low <= targets[-1] <= high)
    return {method: count / sets for method, count in held.items()}


def exchangeable(rng, n):
    points = rng.normal(size=(n, 1))
    return points, np.sin(2.0 * points[:, 0]) + rng.standard_t(3, size=n) * (0.2 + np.abs(points[:, 0]))


def test_coverage_of_exchangeable_rows_is_what_is_guaranteed():
    """k/(n + 1) for conformal sets without ties; within four binomial deviations over 300 sets."""
    sets, wanted = 300, 17 / 21
    found = coverages(exchangeable, LSSVMRegressor(RBF(1.0), gamma=5.0), EVERY, sets)
    deviation = 4.0 * np.sqrt(0.8 * 0.2 / sets)
    assert abs(found["conformal"] - wanted) <= deviation
    assert found["jackknife+"] >= 0.6
    assert abs(found["jackknife+"] - 0.8) <= deviation + 0.02


def test_rows_kept_apart_calibrate_any_machine():
    sets, held = 300, 0
    for seed in range(sets):
        points, targets = exchangeable(np.random.default_rng(seed), 41)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = robust_machine(gamma=5.0).fit(points[:20], targets[:20])
        low, high = model.calibrate(points[20:40], targets[20:40]).predict_interval(points[40:], 0.8)[0]
        held += int(low <= targets[40] <= high)
    assert abs(held / sets - 17 / 21) <= 4.0 * np.sqrt(0.8 * 0.2 / sets)


def test_where_rows_are_not_exchangeable_the_guarantee_says_so_and_fails():
    """The weights say that the rows are precise, and they are not precise as the new one is not: too narrow."""

    def drifting(rng, n):
        points = rng.normal(size=(n, 1))
        noise = np.append(np.full(n - 1, 0.1), 1.0)
        return points, np.sin(points[:, 0]) + noise * rng.normal(size=n)

    machine, weights = LSSVMRegressor(RBF(1.0), gamma=1.0), np.linspace(50.0, 100.0, 20)
    found = coverages(drifting, machine, ("jackknife+",), 200, sample_weight=weights)["jackknife+"]
    assert found < 0.6
    broken = machine.interval_guarantee(0.8).broken
    assert any("rows of unequal weight" in reason for reason in broken)
