"""The law of every fusion: no weight validates better than the bound says, whatever the machine, unit and folds.

The validation error at a weight is found without the code that proves the bound, see ``fused_machines``. The law is
itself tested: a part of the inequality is left out, and some weight is below the broken bound.
"""

import cvxpy as cp
import numpy as np
import pytest
from fused_machines import KINDS, fused_machine
from user_problems import USER_PROBLEMS, covariance, low_rank, several_tasks, user_problem

from substrate import Machine, fuse
from substrate.fusion import universal

#: What the tolerance of the solver in the check may change in a validation error, relative.
ROUNDING = 1e-6
#: Share of the variance of the targets below which an error counts as none.
NOTHING = 1e-6
#: Accuracies asked of the solver, in turn: exponential cones may not reach the first.
ACCURACIES = (1e-11, 1e-9)

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


def fused(machine, gap=0.05, budget=300):
    X, y = machine.data
    limits = {"gap": gap, "box": {"weight": machine.box}, "budget": budget}
    if len(machine.folds) > 1:
        best = fuse(machine.build, over="weight", data=machine.data, cv=machine.folds, **limits)
    else:
        ((train, test),) = machine.folds
        best = fuse(machine.build, over="weight", data=(X[train], y[train]), validation=(X[test], y[test]), **limits)
    assert best.certificate["gap of the search"].passes or "is met" not in best.stop
    return best


def weights_to_try(rng, box, best, count):
    """Weights over the whole range, and a third of them next to the one that was chosen."""
    low, high = box
    values = low * (high / low) ** rng.uniform(size=count)
    values[: count // 3] = np.clip(best * (1.0 + 0.1 * rng.normal(size=count // 3)), low, high)
    return values


def assert_law(machine, best, rng, count):
    slack = ROUNDING * abs(best.lower_bound) + ROUNDING * NOTHING * machine.variance
    for value in weights_to_try(rng, machine.box, best.value, count):
        error = machine.error(float(value))
        assert error >= best.lower_bound - slack, (machine.kind, value, error, best.lower_bound)


@pytest.mark.parametrize("kind", KINDS)
def test_no_weight_of_a_machine_is_below_the_bound(kind):
    machine = fused_machine(kind, 1)
    best = fused(machine)
    assert best.certificate.holds, str(best.certificate)
    assert best.lower_bound <= best.validation_error
    np.testing.assert_allclose(machine.error(best.value), best.validation_error, rtol=1e-4)
    assert_law(machine, best, np.random.default_rng(1), 8)


def test_a_machine_with_another_optimal_bias_than_its_knot_is_proved():
    """Both classes have as many rows: the bias of a small weight is anywhere in an interval."""
    best = fused(fused_machine("hinge", 16))
    assert best.certificate.holds, str(best.certificate)
    assert_law(fused_machine("hinge", 16), best, np.random.default_rng(0), 8)


@pytest.mark.parametrize(("kind", "seed"), [("hinge", 14), ("tube", 11)])
def test_the_optimum_that_validates_best_is_returned(kind, seed):
    """At one weight several biases are optimal, and the best of them validates better than all other weights: the
    machine has that bias, and it is certified as an optimum like a solver's.
    """
    machine = fused_machine(kind, seed)
    best = fused(machine)
    assert best.certificate.holds, str(best.certificate)
    X, y = machine.data
    ((_, test),) = machine.folds
    np.testing.assert_allclose(
        np.mean((y[test] - best.result.decision_function(X[test])) ** 2), best.validation_error, rtol=1e-9
    )
    assert machine.error(best.value) > 1.05 * best.validation_error  # of the solver's optimum there
    assert {row.name for row in best.certificate.rows} >= {"accuracy", "cones: slackness", "cones: stationarity"}
    assert "another optimum" in dict(best.certificate.record)["solver"]
    assert_law(machine, best, np.random.default_rng(0), 8)


def test_an_optimum_that_is_not_certified_is_not_taken(monkeypatch):
    """With multipliers of the other sign it is none, and the solver's machine is returned as it is."""
    take = Machine.take_optimum
    monkeypatch.setattr(Machine, "take_optimum", lambda self, x, z, **values: take(self, x, -z, **values))
    best = fused(fused_machine("hinge", 14))
    assert best.result.certificate.holds
    assert "another optimum" not in dict(best.certificate.record)["solver"]
    assert not best.certificate.holds
    assert "machine that was solved at the best does not" in best.stop


@pytest.mark.parametrize("kind", [low_rank, covariance], ids=lambda kind: kind.__name__)
def test_semi_definite_cones(kind):
    weight, problem, validation = user_problem(kind, 0)
    best = fuse(problem, weight, box={weight: (1e-2, 1e1)}, validation=validation, gap=0.05)
    assert best.certificate.holds, str(best.certificate)
    for value in weights_to_try(np.random.default_rng(0), (1e-2, 1e1), best.weight, 12):
        found = error_at(problem, weight, validation, value)
        assert found >= best.lower_bound - ROUNDING * abs(best.lower_bound), (value, found)


@pytest.mark.parametrize("kind", USER_PROBLEMS[:4], ids=lambda kind: kind.__name__)
def test_no_weight_of_a_users_problem_is_below_the_bound(kind):
    weight, problem, validation = user_problem(kind, 0)
    best = fuse(problem, weight, box={weight: (1e-2, 1e2)}, validation=validation, gap=0.01, budget=500)
    assert best.certificate.holds, str(best.certificate)
    rng = np.random.default_rng(0)
    for value in weights_to_try(rng, (1e-2, 1e2), best.values["weight"], 60):
        found = error_at(problem, weight, validation, value)
        assert found >= best.lower_bound - ROUNDING * abs(best.lower_bound), (value, found)


# --- the law notices what is wrong ----------------------------------------------------------------------------------


def error_at(problem, weight, validation, value):
    weight.value = float(value)
    for accuracy in ACCURACIES:
        try:
            problem.solve(solver="CLARABEL", tol_gap_abs=accuracy, tol_gap_rel=accuracy, tol_feas=accuracy)
        except cp.SolverError:
            continue
        return float(validation.value)
    return np.inf


def least_of_grid(kind, seed, grid):
    weight, problem, validation = user_problem(kind, seed)
    return min(error_at(problem, weight, validation, value) for value in grid)


def broken(monkeypatch, change):
    """Change D, by which the objective of a vertex may differ across a simplex."""
    excesses = universal._excesses
    monkeypatch.setattr(universal, "_excesses", lambda knots: change(excesses(knots)))


@pytest.mark.parametrize("change", [lambda D: 0.0 * D, lambda D: D.T - 10.0 * abs(D)], ids=["none", "less"])
def test_the_law_notices_a_broken_inequality(change, monkeypatch):
    """Without the excess the bound of the first simplices is above the error of some weight between."""
    weight, problem, validation = user_problem(several_tasks, 0)
    least = least_of_grid(several_tasks, 0, np.geomspace(1e-2, 1e2, 41))
    validation = cp.norm1(cp.hstack([validation, 0.0]))  # no squares of ours, so that no chord is drawn
    broken(monkeypatch, change)
    best = fuse(problem, weight, box={weight: (1e-2, 1e2)}, validation=validation, gap=1e-4)
    assert best.lower_bound > least or best.validation_error > 1.001 * least
