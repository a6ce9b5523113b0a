"""The descent in scales and gamma together: exact derivatives, and an end that, judged, is not worse than the start."""

import flint
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import LSSVMRegressorCV
from problems.estimators.chosen import kernel_search
from problems.estimators.chosen.judgement import Task
from problems.estimators.chosen.kernel_search import JointCriterion
from substrate.kernels import RBF, Laplacian, Matern

RNG = np.random.default_rng(5)
N = 6
X, Y, V = RNG.normal(size=(N, 2)), RNG.normal(size=N), RNG.uniform(0.3, 2.0, size=N)
FOLDS = ((np.array([0, 1, 2, 3]), np.array([4, 5])), (np.array([1, 3, 4, 5]), np.array([0, 2])))
CRITERIA = ("loo", "gcv", "evidence", "folds")
KERNELS = (RBF((1.3, 0.8)), Laplacian((2.0, 3.0)), Matern((1.5, 0.9), nu=1.5), Matern((1.5, 0.9), nu=2.5), RBF(1.1))


def task_of(criterion, weighted, gammas=None):
    splits = FOLDS if criterion == "folds" else ()
    return Task(X, Y[:, None], criterion, splits, gammas, 1e-4, False, V / V.mean() if weighted else None)


def exact_values(kernel, x, points, others):
    """Kernel values by their formulas, at the logarithms x of the widths, in ball arithmetic."""
    arb = flint.arb

    def value(a, b):
        apart = [
            (arb(float(p)) - arb(float(q))) / x[c % len(x)].exp() for c, (p, q) in enumerate(zip(a, b, strict=True))
        ]
        if isinstance(kernel, Laplacian):
            return (-sum((abs(d) for d in apart), arb(0))).exp()
        square = sum((d * d for d in apart), arb(0))
        if isinstance(kernel, RBF):
            return (-square).exp()
        r = (arb(2) * arb(kernel.nu) * square).sqrt() if square != 0 else arb(0)
        return (1 + r + (r * r / 3 if kernel.nu == 2.5 else 0)) * (-r).exp()

    return [[value(a, b) for b in others] for a in points]


def exact_machine(K, y, v, lam):
    """The inverse of the bordered system: B, alpha, b, and the determinant of the centred matrix plus the ridge."""
    n, arb = len(y), flint.arb
    rows = [[arb(0), *[arb(1)] * n]]
    rows += [[arb(1), *(K[i][j] + (lam / v[i] if i == j else 0) for j in range(n))] for i in range(n)]
    M = flint.arb_mat(rows)
    inverse = M.inv()
    B = [[inverse[i + 1, j + 1] for j in range(n)] for i in range(n)]
    alpha = [sum((B[i][j] * y[j] for j in range(n)), arb(0)) for i in range(n)]
    bias = sum((inverse[0, j + 1] * y[j] for j in range(n)), arb(0))
    product = arb(1)
    for each in v:
        product *= each
    return B, alpha, bias, -M.det() * product / sum(v, arb(0))


def exact_criterion(kernel, task, floor, x, t):
    """F by the definitions of the criteria, nothing of the package but the parameters."""
    arb, n = flint.arb, len(Y)
    y = [arb(float(value)) for value in task.Y[:, 0]]
    v = [arb(1)] * n if task.weights is None else [arb(float(value)) for value in task.weights]
    K, mass = exact_values(kernel, x, task.X, task.X), sum(v, flint.arb(0))
    total = sum((v[i] * K[i][i] for i in range(n)), arb(0))
    trace = total - sum((v[i] * K[i][j] * v[j] for i in range(n) for j in range(n)), arb(0)) / mass
    lam = t.exp() if task.gammas is not None else t.exp() * trace + arb(floor) * total
    if task.criterion in ("loo", "gcv", "evidence"):
        B, alpha, _, determinant = exact_machine(K, y, v, lam)
        if task.criterion == "loo":
            return sum((v[i] * (alpha[i] / B[i][i]) ** 2 for i in range(n)), arb(0)) / n
        if task.criterion == "gcv":
            freedom = sum((B[i][i] for i in range(n)), arb(0))
            return n * sum((alpha[i] ** 2 / v[i] for i in range(n)), arb(0)) / freedom**2
        quadratic = sum((y[i] * alpha[i] for i in range(n)), arb(0))
        return quadratic / (n - 1) * (determinant.log() / (n - 1)).exp()

    def error(train, below, known, w):
        own = [K[i] for i in train]
        rows = [[row[j] for j in train] for row in own]
        _, alpha, bias, _ = exact_machine(rows, [y[i] for i in train], [v[i] for i in train], lam)
        outputs = [bias + sum((row[k] * alpha[k] for k in range(len(train))), arb(0)) for row in below]
        squares = [w[i] * (arb(float(known[i])) - outputs[i]) ** 2 for i in range(len(known))]
        return sum(squares, arb(0))

    each = [
        error(list(train), [[K[i][j] for j in train] for i in valid], task.Y[valid, 0], [v[i] for i in valid])
        for train, valid in task.splits
    ]
    return sum(each, arb(0)) / n


def assert_derivatives_are_exact(kernel, task):
    joint, t = JointCriterion.of(kernel, task), -1.3
    x = np.log(np.atleast_1d(kernel.sigma))
    found, slope, _ = joint.at(kernel, t)
    before, flint.ctx.prec = flint.ctx.prec, 256
    try:
        at = [flint.arb(float(value)) for value in (*x, t)]
        step, differences = flint.arb(2) ** -64, []

        def value(where):
            return exact_criterion(kernel, task, joint.floor, where[:-1], where[-1])

        assert_allclose(found, float(value(at)), rtol=1e-11)
        for k in range(len(at)):
            low, high = (value([a + sign * step if k == j else a for j, a in enumerate(at)]) for sign in (-1, 1))
            differences.append(float((high - low) / (2 * step)))
    finally:
        flint.ctx.prec = before
    assert_allclose(slope, differences, rtol=1e-9, atol=1e-11 * found)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_value_and_derivatives_are_those_of_the_definitions_in_long_arithmetic(criterion):
    assert_derivatives_are_exact(KERNELS[0], task_of(criterion, True))


@pytest.mark.slow
@pytest.mark.parametrize("gammas", [None, (1e-2, 1e2)], ids=["default range", "given range"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_value_and_derivatives_of_every_criterion_and_kernel(criterion, kernel, weighted, gammas):
    assert_derivatives_are_exact(kernel, task_of(criterion, weighted, gammas))


ROWS = np.random.default_rng(7).uniform(size=(40, 3))
SIGNAL = np.sin(6.0 * ROWS[:, 0]) + ROWS[:, 1] + 0.1 * np.random.default_rng(9).normal(size=40)


def test_interruption_of_a_descent_is_not_swallowed(monkeypatch):
    calls, at = [], JointCriterion.at

    def interrupted(self, *where):
        calls.append(where)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return at(self, *where)

    monkeypatch.setattr(JointCriterion, "at", interrupted)
    with pytest.raises(KeyboardInterrupt):
        LSSVMRegressorCV(RBF("each"), search="gradient").fit(ROWS, SIGNAL)


def test_the_record_counts_kernels_that_were_tried_and_the_search_is_deterministic():
    one, two = (LSSVMRegressorCV(RBF("each"), search="gradient").fit(ROWS, SIGNAL) for _ in range(2))
    assert one.kernel_ == two.kernel_
    assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    record = dict(one.certificate_.record)["kernels"]
    assert record.startswith("2 evaluated, ")
    assert "more tried on the way; the search among them is local" in record
    assert int(record.split()[2]) < kernel_search.MOST_KERNELS
    assert one.certificate_.holds
