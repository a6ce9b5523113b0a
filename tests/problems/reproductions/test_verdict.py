"""Verdicts follow from claims, claims from numbers, and nothing else."""

import pytest

from problems.reproductions.measured import Claim, Measured, Printed, Round, better, collect, level, verdict
from substrate.errors import DataError, DeclarationError


def claims(ranking, levels):
    return [Claim("", "ranking", "", "", held) for held in ranking] + [
        Claim("", "level", "", "", held) for held in levels
    ]


@pytest.mark.parametrize(
    ("ranking", "levels", "expected"),
    [
        ([True, True], [True], "reproduces"),
        ([True], [], "reproduces"),
        ([False], [False, False], "does not reproduce"),
        ([True, True], [False], "the ranking reproduces, the level does not"),
        ([True], [False, True], "the ranking reproduces, the level in part (1 of 2)"),
        ([False], [True], "the level reproduces, the ranking does not"),
        ([True, False, False], [True], "the level reproduces, the ranking in part (1 of 3)"),
        ([True, False], [False], "reproduces in part: 1 of 2 rankings, 0 of 1 levels"),
        ([True, False], [], "reproduces in part: 1 of 2 rankings"),
    ],
)
def test_the_verdict_counts_what_holds(ranking, levels, expected):
    assert verdict(claims(ranking, levels)) == expected


def test_nothing_claimed_is_nothing_judged():
    with pytest.raises(DeclarationError, match="no verdict"):
        verdict([])


def test_better_needs_three_quarters_of_the_seeds():
    numbers = {"a": (1.0, 1.0, 1.0, 3.0), "b": (2.0, 2.0, 2.0, 2.0), "c": (1.0, 1.0, 3.0, 3.0)}
    measured = Measured(numbers, {})
    assert better(measured, "a", "b", "").holds
    assert not better(measured, "c", "b", "").holds
    assert not better(measured, "b", "b", "").holds, "a tie is not better"
    assert better(measured, "a", "b", "").seen.startswith("on 3 of 4")


@pytest.mark.parametrize(("printed", "holds"), [(0.92, True), (0.88, False), (3.3, True), (3.4, False), (2.0, True)])
def test_a_level_lies_between_widened_quartiles(printed, holds):
    measured = Measured({"a": (0.0, 1.0, 2.0, 3.0, 9.0)}, {})
    assert measured.quartiles("a") == (1.0, 3.0)
    assert level(measured, "a", Printed(str(printed), printed)).holds is holds
    assert level(measured, "a", Printed(str(printed), printed), tolerance=10.0).holds


def test_a_level_that_fails_says_whether_one_split_can_give_it():
    measured = Measured({"a": (1.0, 2.0, 2.0, 2.0, 9.0)}, {})
    inside, outside = (level(measured, "a", Printed(str(p), p), tolerance=0.1) for p in (8.0, 10.0))
    assert not inside.holds
    assert inside.seen.endswith("one draw of many: 4 of 5 seeds are below it")
    assert not outside.holds
    assert outside.seen.endswith("outside of all 5 seeds, 1 to 9")
    assert ";" not in level(measured, "a", Printed("2", 2.0)).seen


def test_words_have_no_level():
    with pytest.raises(DeclarationError, match="not a number"):
        level(Measured({"a": (1.0,)}, {}), "a", Printed("better"))


def test_seeds_are_collected_by_name_and_curves_by_quartiles():
    rounds = [Round({"a": value}, {"c": ((1, 2), (value, 2.0 * value))}) for value in (1.0, 2.0, 3.0)]
    measured = collect(rounds)
    assert measured.of == {"a": (1.0, 2.0, 3.0)}
    assert measured.curves["c"].low == (1.5, 3.0)
    assert measured.curves["c"].middle == (2.0, 4.0)
    assert (measured.seeds, measured.mean("a"), measured.deviation("a")) == (3, 2.0, 1.0)
    with pytest.raises(DataError, match="different things"):
        collect([Round({"a": 1.0}), Round({"b": 1.0})])
