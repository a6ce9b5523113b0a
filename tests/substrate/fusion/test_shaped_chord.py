"""The bound between two weights of a shaped machine, on machines in the plane that are solved by hand.

The functions are :math:`f(x) = w^T x` with one rule :math:`D^T w \\ge d` or none, so that the admissible set of the
inequality can be searched: no weight between the ends validates better than the bound says. The settings are those at
which it is nearly reached, so that a bound without one of its terms, or with half of one, claims too much.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from substrate.fusion.shaped_chord import ShapedKnot, bound_chord


def optimum(theta, X, y, rates, D, d):
    """Return w and the multiplier of the rule at weights theta * rates of the errors, beside w'w/2."""
    g = theta * rates
    H, right = np.eye(2) + X.T @ (g[:, None] * X), X.T @ (g * y)
    w = np.linalg.solve(H, right)
    if D is None or D @ w >= d:
        return w, 0.0
    step = np.linalg.solve(H, D)
    mu = float((d - D @ w) / (D @ step))
    return w + mu * step, mu


def knot(theta, X, y, rates, z, target, D=None, d=0.0):
    """Return the knot of one validation row z, exact: nothing is left of the conditions at its own weight."""
    g = theta * rates
    w, mu = optimum(theta, X, y, rates, D, d)
    q = np.array([target - z @ w])
    beta = np.linalg.solve(X @ X.T + np.diag(1.0 / g), X @ (z * q[0]))
    point = SimpleNamespace(
        w=w,
        mu=mu,
        weights=SimpleNamespace(c=1.0, g=g),
        e=y - X @ w,
        radius=0.0,
        unbalanced=0.0,
        reach_of_bias=lambda c, g: 0.0,
        root_left=lambda c, g: 0.0,
    )
    pull = float(np.linalg.norm(z * q[0] - X.T @ beta))
    return ShapedKnot(
        theta=theta,
        multipliers=(),
        point=point,
        errors=q,
        error_radius=0.0,
        beta=beta,
        pull=pull,
        sum_left=0.0,
        q_radius=0.0,
        q_length=0.0,
    )


def bound_and_errors(numbers, rule=None):
    """Return the bound between two weights, and the validation errors at many of them, the ends first and last."""
    (sizes, y, rates, z), (low, high, beyond) = np.array(numbers[:8]).reshape(4, 2), numbers[8:]
    D, d = (None, 0.0) if rule is None else (np.array(rule[:2]), rule[2])
    X = np.diag(sizes)
    values = [z @ optimum(theta, X, y, rates, D, d)[0] for theta in (low, high)]
    machine = X, y, rates, z, max(values) + beyond, D, d
    knots = [knot(float(theta), *machine) for theta in np.linspace(low, high, 101)]
    first, second = knots[0], knots[-1]
    slacks = [0.0 if D is None else float(D @ each.point.w - d) for each in (first, second)]
    crossed = first.point.mu * slacks[1] + second.point.mu * slacks[0]
    return bound_chord(first, second, crossed, (0.0, 0.0))[0], [each.validation for each in knots]


#: Sizes of two inputs, targets, rates of the weights, the validation row, the ends, and how far its target is beyond.
SETTINGS = {
    "the path bends away from its chord": (0.902, 0.528, 0.2346, 0.6725, 8.84, 1.4, 1.859, -1.054, 0.102, 0.731, 0.26),
    "the error falls as steeply as it may": (0.14, 5.114, -0.842, 1.215, 0.398, 0.294, 0.266, 2.67, 2.113, 2.92, 1.756),
    "nearly as steeply": (0.1955, 7.33, -2.373, 1.548, 0.797, 0.525, 0.32, 2.701, 0.331, 0.4415, 0.773),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_weight_between_the_ends_is_below_the_bound(name):
    bound, errors = bound_and_errors(SETTINGS[name])
    assert bound <= min(errors) * (1.0 + 1e-12)
    assert min(errors) < 0.9999 * min(errors[0], errors[-1])  # the smallest is inside: the ends do not show it


def test_a_rule_that_binds_at_one_end_only_counts_with_its_multiplier():
    """The path has a kink where the rule ceases to bind, of which both ends know by the product of one another."""
    numbers = (0.8807, 0.5597, -0.1021, -0.8995, 0.7911, 2.1236, -1.3874, -0.2634, 0.7999, 0.8625, 0.8654)
    bound, errors = bound_and_errors(numbers, (2.2741, 1.1613, -0.7542))
    assert 0.0 < bound <= min(errors) * (1.0 + 1e-12)
    assert min(errors) < 0.9999 * min(errors[0], errors[-1])


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_is_true_of_machines_at_random(seed):
    rng = np.random.default_rng(seed)
    low = np.exp(rng.uniform(-2.0, 1.0))
    numbers = (
        *np.exp(rng.uniform(-1.5, 1.5, 2)),
        *rng.normal(size=2),
        *np.exp(rng.uniform(-1.0, 1.0, 2)),
        *rng.normal(size=2),
        *(low, low * (1.0 + np.exp(rng.uniform(-3.0, 1.0))), np.exp(rng.uniform(-2.0, 2.0))),
    )
    for rule in (None, (*rng.normal(size=2), 0.3 * rng.normal())):
        bound, errors = bound_and_errors(numbers, rule)
        assert bound <= min(errors) * (1.0 + 1e-9)


def moved_knot(theta, rates, y, targets, change):
    """Return a knot beside the optimum of w'w/2 and weighted squares of y - w, whose gap is known exactly.

    J is quadratic, so that the gap of w + D is half of the squared length of D: the distance that the bound takes from
    it is all there is.
    """
    g = theta * rates
    w = g * y / (1.0 + g) + change
    q = targets - w
    beta = g * q / (1.0 + g)
    left = float(np.sqrt(0.5 * ((1.0 + g) * change**2).sum()))
    point = SimpleNamespace(
        weights=SimpleNamespace(c=1.0, g=g),
        e=y - w,
        radius=0.0,
        unbalanced=0.0,
        reach_of_bias=lambda c, g: 0.0,
        root_left=lambda c, g: left,
    )
    return ShapedKnot(
        theta=theta,
        multipliers=(),
        point=point,
        errors=q,
        error_radius=0.0,
        beta=beta,
        pull=float(np.linalg.norm(q - beta)),
        sum_left=0.0,
        q_radius=0.0,
        q_length=0.0,
    )


@pytest.mark.parametrize("size", [0.24, 0.08, 0.01])
def test_knots_beside_their_optimum_are_as_far_from_it_as_their_gap_says(size):
    """All of the distance is towards a smaller error, which no bound may leave out."""
    rates, y = np.array([0.1295, 0.1164]), np.array([-2.0791, -1.1954])
    targets, change, ends = np.array([-0.5894, -0.0920]), np.array([size, 0.0]), (0.7138, 0.7158)
    knots = [moved_knot(theta, rates, y, targets, change) for theta in ends]
    bound = bound_chord(*knots, 0.0, (0.0, 0.0))[0]
    errors = []
    for theta in np.linspace(*ends, 21):
        g = theta * rates
        errors.append(float(np.square(targets - g * y / (1.0 + g)).sum()))
    assert 0.0 < bound <= min(errors) * (1.0 + 1e-12)
    # to the first order the error falls as steeply as the bound
    fall = float(knots[0].errors @ knots[0].errors) - bound
    assert fall <= (1.0 + 2.0 * size) * (float(knots[0].errors @ knots[0].errors) - min(errors)) + 2.0 * size**2


@pytest.mark.parametrize("seed", range(12))
def test_a_part_of_a_chord_is_bounded_by_its_worst_point(seed):
    """The inequality at single places of the chord, by its formula, is nowhere below the bound of the whole."""
    rng = np.random.default_rng(seed)
    rates, y = np.exp(rng.uniform(-1.0, 1.0, 2)), rng.normal(size=2)
    low = float(np.exp(rng.uniform(-1.0, 1.0)))
    ends = (low, low * (1.0 + float(np.exp(rng.uniform(-4.0, -1.0)))))
    first, second = (moved_knot(theta, rates, y, rng.normal(size=2), 0.05 * rng.normal(size=2)) for theta in ends)
    own, crossed = tuple(0.01 * rng.uniform(size=2)), 0.02 * float(rng.uniform())
    bound = bound_chord(first, second, crossed, own)[0]
    c, g = 1.0, np.minimum(first.point.weights.g, second.point.weights.g)
    left = max(first.point.root_left(c, g), second.point.root_left(c, g))
    rise, step = second.point.weights.g - first.point.weights.g, second.point.e - first.point.e
    bend = float(np.sqrt(0.5 * (np.square(rise * step) / g).sum()))
    pointwise = []
    for t in np.linspace(0.0, 1.0, 401):
        gap = (left + t * (1.0 - t) * bend) ** 2 + (1.0 - t) ** 2 * own[0] + t**2 * own[1] + t * (1.0 - t) * crossed
        steep = (1.0 - t) * first.dual_norm(c, g, 0.0) + t * second.dual_norm(c, g, 0.0)
        error = float(np.square((1.0 - t) * first.errors + t * second.errors).sum())
        pointwise.append(error - 2.0 * steep * np.sqrt(2.0 * gap))
    assert bound <= max(min(pointwise), 0.0) * (1.0 + 1e-12)
    # no worse than the parts of the chord make it
    assert bound >= min(pointwise) - 0.5 * (max(first.validation, second.validation) - min(pointwise))


def test_the_error_may_fall_most_where_it_is_smallest():
    """Rows that no function moves keep the error up at one end, and those that are moved bring it down at the other."""
    knots = [moved_knot(1.0, np.ones(2), np.ones(2), np.zeros(2), np.array([0.05, 0.0])) for _ in range(2)]
    first = replace(knots[0], errors=np.array([0.2, 2.0]), beta=np.zeros(2), pull=0.1)
    second = replace(knots[1], errors=np.array([1.0, 1.0]), beta=np.zeros(2), pull=1.0)
    bound = bound_chord(first, second, 0.0, (0.0, 0.0))[0]
    c, g = 1.0, np.ones(2)
    at_end = 2.0 - 2.0 * second.dual_norm(c, g, 0.0) * np.sqrt(2.0) * first.point.root_left(c, g)
    assert bound <= at_end
    assert bound >= at_end - 0.02
