"""``fuse``: parameters of any convex problem, chosen with a proof."""

import cvxpy as cp
import numpy as np
import pytest
from parametric_problems import KINDS, elastic_net, lasso, parametric_problem, tube

from substrate import Fusion, fuse
from substrate.errors import DeclarationError

#: What the tolerance of the solver in the check may change in a validation error, relative.
ROUNDING = 1e-6
TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


def error_at(problem, weight, validation, value):
    weight.value = value
    problem.solve(solver="CLARABEL", **TIGHT)
    return float(validation.value)


def scan(kind, seed, tried):
    """No value tried has a validation error below the bound; whether the gap is proved."""
    weight, problem, validation = parametric_problem(kind, seed)
    best = fuse(problem, weight, box={weight: (1e-2, 1e2)}, validation=validation, gap=0.02, budget=400)
    assert best.lower_bound <= best.validation_error
    np.testing.assert_allclose(float(validation.value), best.validation_error, rtol=1e-12)
    assert best.certificate.holds == (best.stop == "the gap of 0.02 is met")
    rng = np.random.default_rng(seed)
    values = 10.0 ** rng.uniform(-2.0, 2.0, size=tried)
    values[: tried // 3] = np.clip(best.values["weight"] * (1.0 + 0.1 * rng.normal(size=tried // 3)), 1e-2, 1e2)
    for value in values:
        found = error_at(problem, weight, validation, float(value))
        assert found >= best.lower_bound - ROUNDING * abs(best.lower_bound), (kind.__name__, seed, value)
    return best.certificate.holds


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_value_is_below_the_bound(kind):
    assert scan(kind, 0, 8)


def test_two_weights():
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(15, 4)), rng.normal(size=(15, 4))
    y, u = (P[:, 0] + 0.5 * rng.normal(size=15) for P in (X, V))
    one, two = (cp.Parameter(nonneg=True, name=name) for name in ("one", "two"))
    x = cp.Variable(4)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(X @ x - y) + one * cp.norm1(x) + two * cp.sum_squares(x)))
    validation = cp.sum_squares(V @ x - u) / 15
    best = fuse(problem, (one, "two"), box={one: (0.1, 10.0), "two": (0.1, 10.0)}, validation=validation, gap=0.1)
    assert best.certificate.holds, str(best.certificate)
    assert set(best.values) == set(best.proved_on) == {"one", "two"}
    for _ in range(15):
        one.value, two.value = 10.0 ** rng.uniform(-1.0, 1.0, size=2)
        problem.solve(solver="CLARABEL", **TIGHT)
        assert validation.value >= best.lower_bound * (1.0 - ROUNDING)


def test_the_answer_is_left_in_the_problem():
    weight, problem, validation = parametric_problem(elastic_net, 3)
    best = fuse(problem, "weight", box={"weight": (1e-2, 1e2)}, validation=validation)
    assert weight.value == best.values["weight"]
    left = float(validation.value)
    assert left == best.validation_error
    np.testing.assert_allclose(best.path.validation_errors.min(), left, rtol=1e-12)
    np.testing.assert_allclose(error_at(problem, weight, validation, weight.value), left, rtol=1e-6)
    assert str(best.certificate).startswith("Fusion over weight: holds")
    assert isinstance(best, Fusion)
    assert best.weight == best.value == best.values["weight"]
    assert best.solves >= len(best.path)
    with pytest.raises(DeclarationError, match="the fusion of a problem"):
        best.predict(np.zeros((1, 2)))
    with pytest.raises(AttributeError, match="its parameters are"):
        best.alpha  # noqa: B018
    assert 0.0 <= best.gap <= 0.01


def test_an_interrupt_ends_with_the_best_so_far():
    weight, problem, validation = parametric_problem(tube, 1)
    calls = []

    def interrupt(solves, best, lower):
        calls.append((solves, best, lower))
        if len(calls) == 5:
            raise KeyboardInterrupt

    best = fuse(problem, weight, box={weight: (1e-2, 1e2)}, validation=validation, progress=interrupt)
    assert best.stop == "interrupted; the best so far is kept"
    assert not best.certificate.holds
    assert best.validation_error <= calls[-1][1]


def test_several_optima_are_not_overlooked():
    """A variable that the problem leaves free: the optimum that validates best is found, or nothing holds."""
    x, weight = cp.Variable(2), cp.Parameter(nonneg=True, name="weight")
    problem = cp.Problem(cp.Minimize(cp.abs(x[0] - 1.0) + weight * cp.square(x[0])), [cp.abs(x[1]) <= 2.0])
    validation = cp.square(x[0] - 0.5) + cp.square(x[1] - 1.5) + 0.1
    best = fuse(problem, weight, box={weight: (0.1, 10.0)}, validation=validation, budget=150)
    assert best.lower_bound <= 0.1 + 1e-6
    if best.certificate.holds:
        assert best.validation_error <= 0.102


def test_what_cannot_be_fused_is_refused():
    weight, problem, validation = parametric_problem(lasso, 0)
    x = problem.variables()[0]
    other = cp.Parameter(nonneg=True, name="other")
    cost, given = problem.objective.expr, cp.Parameter(nonneg=True, name="given", value=1.0)
    cases = [
        ((problem, {}, validation), "over is a cvxpy.Parameter or its name"),
        ((problem, {"nothing": (1, 2)}, validation), "no parameter 'nothing'; it has"),
        ((problem, {weight: (2, 1)}, validation), "low < high"),
        ((problem, {weight: (-1, 1)}, validation), "is not negative"),
        ((problem, {weight: 3}, validation), "must be two numbers"),
        ((problem, {weight: (1, 2)}, x), "one number, convex"),
        ((problem, {weight: (1, 2)}, weight * cp.norm1(x)), "must not depend on parameters"),
        ((problem, {weight: (1, 2)}, cp.norm1(cp.Variable(2))), "not in the problem"),
        ((cp.Problem(cp.Minimize(cost), [cp.norm1(x) <= other]), {other: (1, 2)}, validation), "have no value"),
        ((cp.Problem(cp.Minimize(cost + given * weight * cp.norm1(x))), {weight: (1, 2)}, validation), "affine in its"),
        (
            (cp.Problem(cp.Minimize(cp.norm1(x) + cp.norm1(other * x - 1.0))), {other: (1, 2)}, cp.norm1(x)),
            "constraint",
        ),
    ]
    for (refused, ranges, error), words in cases:
        with pytest.raises(DeclarationError, match=words):
            fuse(refused, tuple(ranges), error, box=ranges)
    with pytest.raises(DeclarationError, match="which is not fused over"):
        fuse(problem, weight, validation, box={"other": (1, 2)})
    bounded = cp.Problem(cp.Minimize(cp.sum_squares(x)), [cp.norm1(x - 1.0) <= other])
    with pytest.raises(DeclarationError, match="is in a constraint, or the width of a tube; state which"):
        fuse(bounded, other, cp.norm1(x))
    with pytest.raises(DeclarationError, match="its validation error as a cvxpy expression"):
        fuse(problem, weight, (np.zeros((2, 2)), np.zeros(2)))
    with pytest.raises(DeclarationError, match="budget must be"):
        fuse(problem, weight, box={weight: (1, 2)}, validation=validation, budget=0)
