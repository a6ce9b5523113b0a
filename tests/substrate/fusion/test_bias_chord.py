"""The chord of machines whose bias no square determines: no weight between its ends is below it.

The validation error at a weight is found by cvxpy, without the code of the bound.
"""

import cvxpy as cp
import numpy as np
import pytest

from substrate.fusion import bias_chord
from substrate.fusion.bias_chord import BiasChord
from substrate.fusion.fused_family import FusedFamily

TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
LOSSES = {
    "tube": lambda f, y: cp.sum(cp.pos(cp.abs(y - f) - 0.1)),
    "pinball": lambda f, y: cp.sum(cp.maximum(0.8 * (y - f), -0.2 * (y - f))),
    "absolute": lambda f, y: cp.norm1(y - f),
    "hinge": lambda f, y: cp.sum(cp.pos(1.0 - cp.multiply(y, f))),
}


def problem(loss, seed=0, of_squares=False, n=12, rules=(), bias=True):
    """A machine in plain cvxpy with a weight of its losses, or of its squares, and its squared validation errors."""
    rng = np.random.default_rng([sorted(LOSSES).index(loss), seed])
    X, V = rng.normal(size=(n, 4)), rng.normal(size=(n, 4))
    y, u = (np.sin(A[:, 0]) + A[:, 1] + 0.7 * rng.normal(size=n) for A in (X, V))
    if loss == "hinge":
        y, u = np.sign(y), np.sign(u)
        y[:2] = 1.0, -1.0
    w, weight = cp.Variable(4), cp.Parameter(nonneg=True, name="weight")
    b = cp.Variable() if bias else 0.0
    squares, losses = 0.5 * cp.sum_squares(w), LOSSES[loss](X @ w + b, y)
    cost = weight * squares + losses if of_squares else squares + weight * losses
    made = cp.Problem(cp.Minimize(cost), [rule(w, b) for rule in rules])
    return made, weight, cp.sum_squares(u - V @ w - b)


def error_at(made, weight, validation, value):
    weight.value = float(value)
    made.solve(solver="CLARABEL", **TIGHT)
    return float(validation.value)


def bound_of(made, weight, validation, ends):
    family = FusedFamily(made, [weight], validation)
    assert family.chord is not None
    return family.bound_chord([family.solve((end,)) for end in ends])


@pytest.mark.parametrize("of_squares", [False, True], ids=["losses", "squares"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.some_cases(4)
def test_no_weight_is_below_the_chord(loss, of_squares):
    for seed, ends in enumerate([(0.05, 0.06), (0.3, 0.5), (1.0, 1.1), (2.0, 9.0)]):
        case = problem(loss, seed, of_squares)
        bound = bound_of(*case, ends)
        errors = [error_at(*case, value) for value in np.linspace(*ends, 25)]
        assert bound <= min(errors) * (1.0 + 1e-6), (seed, ends, bound, min(errors))


@pytest.mark.parametrize("loss", LOSSES)
def test_the_chord_of_a_short_interval_is_near_the_error(loss):
    case = problem(loss, 1)
    bounds = [bound_of(*case, (1.0, 1.0 + width)) for width in (1e-1, 1e-3)]
    error = error_at(*case, 1.0)
    assert bounds[1] >= 0.97 * error
    assert bounds[0] <= bounds[1] * (1.0 + 1e-9)


#: What is left of the bound when a part of it is dropped.
BROKEN = {
    "without the radius": lambda patch: patch.setattr(bias_chord, "_largest_radius", lambda *_: 0.0),
    "all of the squares twice": lambda patch: patch.setattr(BiasChord, "length", lambda self, x: 2.0 * plain(self, x)),
}
plain = BiasChord.length


@pytest.mark.parametrize("broken", BROKEN)
def test_the_law_notices_a_broken_chord(monkeypatch, broken):
    def violated(loss, seed):
        case, ends = problem(loss, seed), (0.02, 0.3)
        errors = [error_at(*case, value) for value in np.linspace(*ends, 12)]
        with monkeypatch.context() as patch:
            BROKEN[broken](patch)
            claim = bound_of(*case, ends)
        assert bound_of(*case, ends) <= min(errors) * (1.0 + 1e-6)
        return min(errors) < claim * (1.0 - 1e-6)

    assert any(violated(loss, seed) for seed in range(6) for loss in LOSSES)


def test_several_biases_leave_the_one_that_validates_best(monkeypatch):
    """Both classes are inside the margin at a small weight: every bias of an interval is optimal."""
    X, y = np.array([[1.0], [-1.0]]), np.array([1.0, -1.0])
    w, b, weight = cp.Variable(1), cp.Variable(), cp.Parameter(nonneg=True, name="weight")
    losses = cp.sum(cp.pos(1.0 - cp.multiply(y, X @ w + b)))
    made = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + weight * losses))
    # w = 2 weight, and b from 2 weight - 1 to 1 - 2 weight
    validation = cp.square(b - 0.7) + cp.square(w[0] - 1.0)
    bound = bound_of(made, weight, validation, (0.1, 0.11))
    assert bound <= 0.78**2 + 1e-6
    assert bound >= 0.97 * 0.78**2
    # without the interval of the bias the bound is that of the solver's, above the best one
    monkeypatch.setattr(BiasChord, "_bias_between", lambda *_: (0.0, 0.0))
    assert bound_of(made, weight, validation, (0.1, 0.11)) > 0.8**2


def test_what_has_no_such_chord():
    def chord(*case):
        family = FusedFamily(case[0], [case[1]], case[2])
        return family.chord

    assert chord(*problem("tube", rules=[lambda w, b: b >= 0.1])) is None  # the bias is in a constraint
    assert chord(*problem("tube", rules=[lambda w, b: cp.norm1(w) <= 5.0])) is None
    assert chord(*problem("tube", rules=[lambda w, b: w >= -5.0])) is not None  # a rule of w alone
    assert chord(*problem("tube", bias=False)) is not None
    made, weight, validation = problem("hinge")
    assert chord(made, weight, validation + cp.norm1(made.variables()[0])) is None  # other errors than squares
    huber = cp.Problem(made.objective + cp.Minimize(cp.huber(made.variables()[0][0])), made.constraints)
    assert chord(huber, weight, validation) is None


def test_one_class_and_a_weight_of_zero_are_not_bounded():
    made, weight, validation = problem("hinge")
    assert bound_of(made, weight, validation, (0.0, 1e-3)) == -np.inf
    w, b = cp.Variable(2), cp.Variable()
    rng = np.random.default_rng(0)
    losses = cp.sum(cp.pos(1.0 - (rng.normal(size=(5, 2)) @ w + b)))
    one_class = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + weight * losses))
    assert bound_of(one_class, weight, cp.sum_squares(cp.hstack([w - 1.0, b])), (0.5, 1.0)) == -np.inf
