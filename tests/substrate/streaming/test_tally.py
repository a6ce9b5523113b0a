"""Tallies add field by field, as the types of their fields state; those of the package state the right way."""

import pkgutil
from dataclasses import dataclass, fields
from importlib import import_module
from operator import add
from typing import Annotated

import numpy as np
import pytest

import substrate.fits
import substrate.reduced
import substrate.streaming
from substrate.streaming.summation import SummationTree
from substrate.streaming.survey import Survey, TargetSummary
from substrate.streaming.tally import Tally, _rules, add_in_pairs, join

for package in (substrate.streaming, substrate.reduced, substrate.fits):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)

#: Fields of the tallies of the package that are no sums, with the function that combines two values.
COMBINED = {
    "Moments": {},
    "FoldMoments": {"parts": add_in_pairs},
    "SquaredWeights": {},
    "LargestValues": {"largest": np.maximum},
    "Residuals": {"rounding": max},
    "ResidualSums": {"smallest": np.minimum},
    "RowSizes": {"rounding": max},
    "LeftOutSums": {},
    "ScaleSums": {},
    "Products": {},
    "Swept": dict.fromkeys(("largest", "longest"), np.maximum),
    "TargetSummary": {"low": np.minimum, "high": np.maximum},
    "Survey": {"low": np.minimum, "high": np.maximum},
    "SlopeSums": {},
    "LinearColumnFactor": {"low": np.minimum, "high": np.maximum},
    "CellSurvey": {"largest": np.maximum, "categories": add_in_pairs},
}
KINDS = {kind.__name__: kind for kind in Tally.__subclasses__() if kind.__module__.startswith("substrate.")}


def test_every_tally_is_known_here():
    # what a computation on its own has may be absent, a tally that nobody looked at may not
    assert set(KINDS) <= set(COMBINED)
    assert len(KINDS) > 10


@pytest.mark.parametrize("name", sorted(KINDS))
def test_fields_combine_as_they_state(name):
    stated = {field: rule for field, rule in _rules(KINDS[name]) if rule is not add}
    assert stated == COMBINED[name]
    assert [field for field, _ in _rules(KINDS[name])] == [field.name for field in fields(KINDS[name])]


@dataclass(frozen=True, slots=True)
class Example(Tally):
    total: float
    squares: np.ndarray
    largest: Annotated[float, max]
    least: Annotated[np.ndarray, np.minimum]
    numbers: Annotated[np.ndarray, join]
    parts: Annotated[tuple[np.ndarray, ...], add_in_pairs]


def example(rng, first):
    values = rng.normal(size=3)
    return Example(
        float(values.sum()),
        np.square(values),
        float(values.max()),
        values.copy(),
        np.arange(first, first + 2),
        (values, 2.0 * values),
    )


def test_the_order_of_additions_is_that_of_the_tree():
    rng = np.random.default_rng(0)
    leaves = [example(rng, 2 * k) for k in range(7)]
    tree = SummationTree()
    for leaf in leaves:
        tree.push(0, leaf)
    found = tree.total()

    def by_hand(values, combine):
        a, b, c, d, e, f, g = values
        return combine(
            combine(combine(a, b), combine(c, d)),
            combine(combine(e, f), g),
        )

    assert found.total == by_hand([leaf.total for leaf in leaves], add)
    for field in ("squares", "least", "numbers"):
        rule = dict(_rules(Example))[field]
        np.testing.assert_array_equal(getattr(found, field), by_hand([getattr(leaf, field) for leaf in leaves], rule))
    assert found.largest == max(leaf.largest for leaf in leaves)
    np.testing.assert_array_equal(found.numbers, np.arange(14))
    for k in range(2):
        np.testing.assert_array_equal(found.parts[k], by_hand([leaf.parts[k] for leaf in leaves], add))


def test_rows_are_left_out_of_sums_only():
    from substrate.reduced.moments import Moments

    rng = np.random.default_rng(1)
    first, second = (
        Moments(k, rng.normal(size=2), rng.normal(size=(2, 2)), *(rng.normal(size=s) for s in (1, (2, 1), 1)), float(k))
        for k in (5, 3)
    )
    rest = first - second
    assert rest.count == 2
    np.testing.assert_array_equal(rest.second, first.second - second.second)
    with pytest.raises(TypeError, match="not all fields of Example are sums"):
        example(rng, 0) - example(rng, 2)


def test_a_field_must_state_its_type():
    @dataclass(frozen=True)
    class Hidden(Tally):
        largest: "Annotated[float, max]"

    with pytest.raises(TypeError, match=r"Hidden\.largest must have a type, not a text"):
        Hidden(1.0) + Hidden(2.0)


def test_means_of_parts_do_not_overflow():
    huge = np.full(1, 1.7e308)
    both = TargetSummary(2, huge, huge, huge) + TargetSummary(2, huge, -huge, huge)
    np.testing.assert_array_equal(both.mean, huge)
    np.testing.assert_array_equal(both.extremes[:, 0], [-1.7e308, 1.7e308])
    rows = np.random.default_rng(2).normal(size=(9, 2))

    def survey(X):
        mean = X.mean(axis=0)
        return Survey(len(X), X.min(axis=0), X.max(axis=0), mean, np.square(X - mean).sum(axis=0), None)

    found, known = survey(rows[:4]) + survey(rows[4:]), survey(rows)
    assert found.targets is None
    for name in ("count", "low", "high", "mean", "deviations"):
        np.testing.assert_allclose(getattr(found, name), getattr(known, name), rtol=1e-14, atol=1e-15)
