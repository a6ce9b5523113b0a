"""The rule that says how many neighbours to leave out."""

import numpy as np
import pytest

from substrate.least_squares.correlated_errors import choose_reach, correlation_reach

N = 160
TIMES = np.linspace(0.0, 1.0, N)
FUNCTIONS = {"smooth": np.sin(7.0 * TIMES), "rough": 2.0 * np.sin(40.0 * TIMES)}


def autoregressive(n, share, rng):
    errors = np.zeros(n)
    for row in range(1, n):
        errors[row] = share * errors[row - 1] + np.sqrt(1.0 - share**2) * rng.normal()
    return errors


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_rule_finds_how_far_errors_are_correlated(name):
    """Next to nothing for white errors, more for those of a slower autoregression.

    :place [DeBrabanter2011b]_ Algorithm 1: how many neighbours to leave out, by the errors of a pilot
    """
    found = {}
    for share in (0.0, 0.8):
        draws = (FUNCTIONS[name] + 0.3 * autoregressive(N, share, np.random.default_rng(seed)) for seed in range(3))
        found[share] = [choose_reach(TIMES, y) for y in draws]
    assert max(found[0.0]) <= 3
    # a function that changes as fast hides some of it
    assert min(found[0.8]) >= (3 if name == "smooth" else 1)
    assert np.mean(found[0.8]) > np.mean(found[0.0])


def test_units_offsets_and_columns_change_nothing():
    y = FUNCTIONS["smooth"] + 0.3 * autoregressive(N, 0.7, np.random.default_rng(5))
    reach = choose_reach(TIMES, y)
    assert reach >= 1
    assert choose_reach(1e9 * TIMES + 1e8, 1e-9 * y) == reach
    assert choose_reach(np.column_stack([TIMES, np.zeros(N)]), np.column_stack([y, np.ones(N), 1e200 * y])) == reach


def test_what_has_no_correlation_has_no_reach():
    assert correlation_reach(np.zeros(50)) == 0
    assert correlation_reach(np.tile([1.0, -1.0], 50)) == 0  # negative: neighbours do not share it
    assert choose_reach(np.zeros(30), np.arange(30.0)) == 0
    assert choose_reach(TIMES, np.full(N, 3.0)) == 0
    assert choose_reach([0.0, 1.0, 2.0], [1.0, 2.0, 0.0]) == 0


def test_lags_do_not_cross_series():
    steps = np.repeat([1.0, -1.0, 1.0, -1.0], 20)
    together = correlation_reach(steps)
    apart = correlation_reach(np.random.default_rng(0).normal(size=80), np.repeat([0, 1], 40))
    assert together >= 3
    assert apart <= 2
    series = np.repeat([0, 1], N // 2)
    y = FUNCTIONS["smooth"] + 0.3 * autoregressive(N, 0.8, np.random.default_rng(1))
    assert 1 <= choose_reach(TIMES, y, series) <= N // 16


def test_correlation_by_hand():
    errors = np.cumsum(np.random.default_rng(3).normal(size=400))
    centred = errors - errors.mean()
    limit = 1.959964 / 20.0
    lags = [float(centred[:-k] @ centred[k:] / (centred @ centred)) for k in range(1, 399)]
    first = next(k for k, value in enumerate(lags) if value <= limit)
    decay = int(np.ceil(np.log(limit) / np.log(lags[0]))) - 1
    assert correlation_reach(errors) == max(first, decay)
