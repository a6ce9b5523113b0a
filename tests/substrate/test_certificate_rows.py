"""A row passes when its residual is small against its scale, and never when something is unknown."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrate.certificate import Row, gap_row, roundoff
from substrate.numbers import EPS

INF, NAN = math.inf, math.nan


def _row(value, scale, tolerance=1e-6):
    return Row("check", value, scale, tolerance, "||r||")


@pytest.mark.parametrize(
    ("value", "scale", "passes"),
    [
        (0.0, 1.0, True),
        (1e-7, 1.0, True),
        (-1e-7, 1.0, True),
        (1e-6, 1.0, True),
        (1.1e-6, 1.0, False),
        (-1.0, 1.0, False),
        (0.0, 0.0, True),
        (1e-300, 0.0, False),
        (1e3, 1e10, True),
        (1e-300, 1e-300, False),
    ],
)
def test_a_row_passes_when_value_over_scale_is_within_tolerance(value, scale, passes):
    assert _row(value, scale).passes is passes


@pytest.mark.parametrize(
    ("value", "scale"),
    [
        (NAN, 1.0),
        (INF, 1.0),
        (-INF, 1.0),
        (0.0, NAN),
        (0.0, INF),
        (NAN, NAN),
        (INF, INF),
        (1.0, INF),
        (NAN, 0.0),
        (1.0, -1.0),
    ],
)
@pytest.mark.parametrize("tolerance", [1e-6, 1e300, INF])
def test_the_unknown_never_passes_at_any_tolerance(value, scale, tolerance):
    assert not _row(value, scale, tolerance).passes
    assert _row(value, scale).relative == INF


@settings(deadline=None, max_examples=100, derandomize=True)
@given(
    value=st.floats(-1e3, 1e3, allow_subnormal=False),
    scale=st.floats(1e-3, 1e3),
    power=st.integers(-300, 300),
)
def test_the_verdict_does_not_depend_on_the_unit(value, scale, power):
    unit = 2.0**power
    if value == 0.0 or abs(value) > 1e-6:
        assert _row(value * unit, scale * unit).passes is _row(value, scale).passes


def test_roundoff_is_lapacks_threshold():
    assert roundoff(100) == 30.0 * 100.0 * EPS
    assert roundoff(0) == 30.0 * EPS
    assert EPS == 2.0**-52


def test_the_gap_is_measured_against_the_terms_and_not_their_difference():
    row = gap_row((5.0, 3.0), (-2.0, 10.0 - 1e-9), tolerance=1e-6)
    assert row.name == "duality gap"
    assert row.value == pytest.approx(1e-9, rel=1e-5)
    assert row.scale == pytest.approx(20.0)
    assert row.passes
    assert not gap_row((5.0, 3.0), (-2.0, 9.0), 1e-6).passes
    assert not gap_row((3.0,), (5.0,), 1e-6).passes
    assert not gap_row((NAN,), (5.0,), 1e-6).passes
    assert gap_row((0.0,), (0.0,), 1e-6).passes
