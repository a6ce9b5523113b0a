r"""Tallies: records of what was added up over some rows, whose sum is the record of all these rows.

A field of a tally is a sum unless its type states how it is combined otherwise,

.. code-block:: python

    @dataclass(frozen=True, slots=True)
    class Errors(Tally):
        squares: Array
        largest: Annotated[Array, np.maximum]
        numbers: Annotated[Array, join]

by a function of two values: ``max`` and ``min`` of numbers, ``np.maximum`` and ``np.minimum`` of arrays, and those of
this module. The left operand is always that of the rows before; so a summation tree of tallies
(:mod:`~substrate.streaming.summation`) determines the order of every addition, and with it every bit.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import add
from typing import Any, Self

import numpy as np

__all__ = ["Tally", "add_in_pairs", "join"]


def join(first: Any, second: Any) -> Any:
    """Return the entries of both arrays, those of the first one first."""
    return np.concatenate([first, second])


def add_in_pairs(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the sums of the entries of two tuples of one length."""
    return tuple(left + right for left, right in zip(first, second, strict=True))


@cache
def _rules(kind: type) -> tuple[tuple[str, Callable[[Any, Any], Any]], ...]:
    """Return the names of the fields of a tally, in order, each with the function that combines two values."""
    rules: list[tuple[str, Callable[[Any, Any], Any]]] = []
    for field in fields(kind):
        if isinstance(field.type, str):
            raise TypeError(
                f"{kind.__name__}.{field.name} must have a type, not a text, as its annotation: it says how to add"
            )
        stated = [note for note in getattr(field.type, "__metadata__", ()) if callable(note)]
        rules.append((field.name, stated[0] if stated else add))
    return tuple(rules)


class Tally:
    """The base of tallies, which are dataclasses."""

    __slots__ = ()

    def __add__(self, other: Self) -> Self:
        return self.combine(other)

    def __sub__(self, other: Self) -> Self:
        kind: type = type(self)
        if any(rule is not add for _, rule in _rules(kind)):
            raise TypeError(f"not all fields of {kind.__name__} are sums: no rows can be left out of it")
        return type(self)(*(getattr(self, name) - getattr(other, name) for name, _ in _rules(kind)))

    def combine(self, other: Self, **replacements: Any) -> Self:
        """Return the tally of the rows of both; fields that depend on each other are given."""
        kind: type = type(self)
        combined = (
            replacements[name] if name in replacements else rule(getattr(self, name), getattr(other, name))
            for name, rule in _rules(kind)
        )
        return type(self)(*combined)
