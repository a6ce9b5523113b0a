"""Kinds of values that a model file may hold, each a test of one decoded value and its title.

There is a kind for words from a list but none for arbitrary text, except for labels, and for sentences that are only
printed.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import is_sparse
from substrate.certificates import Certificate
from substrate.errors import SubstrateError
from substrate.kernels import Foreign, Kernel, as_kernel
from substrate.values import Record

__all__ = [
    "Allowed",
    "array",
    "certificate",
    "either",
    "entries",
    "flag",
    "kernel",
    "labels",
    "many",
    "nothing",
    "number",
    "pairs",
    "record_of",
    "sentence",
    "sparse",
    "whole",
    "word",
]

_DIGITS = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Allowed:
    """One kind of value: its title, and a test of a value."""

    title: str
    allows: Callable[[Any], bool]


def nothing() -> Allowed:
    """Allow None."""
    return Allowed("None", lambda value: value is None)


def flag() -> Allowed:
    """Allow True or False, but not numbers."""
    return Allowed("True or False", lambda value: isinstance(value, bool))


def whole(low: int = 0) -> Allowed:
    """Allow an integer of at most 64 bits; truth values are not integers here."""
    return Allowed(
        f"an integer from {low} to 2^63 - 1",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**63,
    )


def number(low: float = -math.inf, unbounded: bool = False) -> Allowed:
    """Allow a real number; ``unbounded`` ones may be infinite, or NaN for unknown."""

    def allows(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return unbounded or (math.isfinite(value) and value >= low)

    least = "" if low == -math.inf else f" >= {low:g}"
    return Allowed("a number" if unbounded else f"a finite number{least}", allows)


def word(*words: str, any_case: bool = False) -> Allowed:
    """Allow one of some words."""
    return Allowed(
        f"one of {', '.join(map(repr, words))}",
        lambda value: isinstance(value, str) and (value.upper() if any_case else value) in words,
    )


def sentence() -> Allowed:
    """Allow text that is only printed; without control characters, which a terminal would execute."""
    return Allowed("printable text", lambda value: isinstance(value, str) and value.isprintable())


def array(kinds: str = "f", dimensions: Sequence[int] = (1,), unbounded: bool = False) -> Allowed:
    """Allow a dense array of these kinds of dtype; floats are finite unless ``unbounded``."""

    def allows(value: Any) -> bool:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds or value.ndim not in dimensions:
            return False
        return unbounded or value.dtype.kind != "f" or bool(np.isfinite(value).all())

    finite = "" if unbounded or "f" not in kinds else "finite "
    sizes = " or ".join(f"{size}-D" for size in dimensions)
    return Allowed(f"a {sizes} array of {finite}numbers (dtype kind {' or '.join(kinds)})", allows)


def sparse() -> Allowed:
    """Allow a sparse matrix of finite floats."""
    return Allowed(
        "a sparse matrix of finite numbers",
        lambda value: is_sparse(value) and value.dtype.kind == "f" and bool(np.isfinite(value.data).all()),
    )


def labels(kinds: str = "fiubUO") -> Allowed:
    """Allow names of classes or columns: a 1-D array of text or finite numbers, or of objects that are all text."""

    def allows(value: Any) -> bool:
        if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in kinds:
            return False
        if value.dtype.kind == "O":
            return all(isinstance(label, str) for label in value)
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())

    return Allowed("a 1-D array of labels", allows)


def kernel(named: bool = False) -> Allowed:
    """Allow a kernel of this package, not a user's function; where ``named``, also a kernel's name."""

    def allows(value: Any) -> bool:
        if named and isinstance(value, str):
            try:
                return isinstance(as_kernel(value), Kernel)
            except SubstrateError:
                return False
        return isinstance(value, Kernel) and not isinstance(value, Foreign)

    return Allowed("a kernel of this package", allows)


def certificate() -> Allowed:
    """Allow a certificate of printable words; its numbers may be infinite, which means unknown."""

    def allows(value: Any) -> bool:
        if not isinstance(value, Certificate):
            return False
        words = [
            value.title,
            *(
                text
                for row in value.rows
                for row_of_output in (row, *getattr(row, "outputs", ()))
                for text in (row_of_output.name, row_of_output.formula, getattr(row_of_output, "about", ""))
            ),
        ]
        return all(map(sentence().allows, [*words, *(text for fact in value.record for text in fact)]))

    return Allowed("a certificate of printable words", allows)


def record_of(record: type[Record], fields: Mapping[str, Allowed]) -> Allowed:
    """Allow a record of exactly this class, each field of its kind."""
    return Allowed(
        f"a {record.__name__}",
        lambda value: type(value) is record and all(kind.allows(getattr(value, name)) for name, kind in fields.items()),
    )


def many(kind: Allowed, least: int = 0) -> Allowed:
    """Allow a list or tuple of one kind."""
    return Allowed(
        f"a list of {least} or more entries, each {kind.title}",
        lambda value: isinstance(value, (list, tuple)) and len(value) >= least and all(map(kind.allows, value)),
    )


def pairs(keys: Allowed, values: Allowed) -> Allowed:
    """Allow a mapping from one kind to another."""
    return Allowed(
        f"a mapping from {keys.title} to {values.title}",
        lambda value: (
            isinstance(value, dict) and all(map(keys.allows, value)) and all(map(values.allows, value.values()))
        ),
    )


def entries(kinds_by_name: Mapping[str, Allowed]) -> Allowed:
    """Allow a mapping with some of these keys and no others, each with its kind of value; ``#`` stands for a number."""

    def allows(value: Any) -> bool:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            return False
        kinds = (
            (kinds_by_name.get(key) or kinds_by_name.get(_DIGITS.sub("#", key)), inner) for key, inner in value.items()
        )
        return all(kind is not None and kind.allows(inner) for kind, inner in kinds)

    return Allowed(f"a mapping with the keys {', '.join(kinds_by_name)}", allows)


def either(*kinds: Allowed) -> Allowed:
    """Allow any of some kinds."""
    return Allowed(", or ".join(kind.title for kind in kinds), lambda value: any(kind.allows(value) for kind in kinds))
