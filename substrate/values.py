"""Frozen values that are parameters: a kernel, a basis, the passes over rows.

A value is replaced and never changed; two are equal when their contents are.
"""

from dataclasses import MISSING, fields, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import is_sparse
from substrate.errors import DeclarationError
from substrate.namespaces import to_numpy

__all__ = ["Record", "Value"]


class Record:
    """A frozen dataclass that may hold arrays; two are equal when all their fields are, entry by entry."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    one, other = to_numpy(one), to_numpy(other)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if is_sparse(one) and is_sparse(other):
        return bool(one.shape == other.shape and (one != other).nnz == 0)
    return type(one) is type(other) and bool(one == other)


class Value:
    """A frozen dataclass whose fields are parameters in scikit-learn's convention.

    There is no ``set_params``: a frozen value could only return a new one, and scikit-learn would drop it silently. The
    estimators replace their values instead, so that ``estimator.set_params(kernel__sigma=2.0)`` works.
    """

    __slots__ = ()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; those of a value inside this one as ``outer__inner``."""
        params: dict[str, Any] = {}
        for parameter in fields(self):  # type: ignore[arg-type]
            value = getattr(self, parameter.name)
            params[parameter.name] = value
            if deep and isinstance(value, Value):
                params |= {f"{parameter.name}__{key}": inner for key, inner in value.get_params().items()}
        return params

    def with_params(self, **params: Any) -> Self:
        """A new value with some parameters replaced; ``left__sigma=2.0`` reaches into a sum of kernels."""
        direct: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        known = {parameter.name for parameter in fields(self)}  # type: ignore[arg-type]
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in known:
                raise DeclarationError(f"{self!r} has no parameter {name!r}; it has {sorted(known)}")
            if rest:
                nested.setdefault(name, {})[rest] = value
            else:
                direct[name] = value
        for name, inner in nested.items():
            value = direct.get(name, getattr(self, name))
            if not isinstance(value, Value):
                raise DeclarationError(f"{name!r} of {self!r} is not a kernel and has no parameters")
            direct[name] = value.with_params(**inner)
        return replace(self, **direct)  # type: ignore[type-var]

    def __sklearn_clone__(self) -> Self:
        return self  # a frozen value is its own copy

    def __repr__(self) -> str:
        """As it can be written: the fields that differ from their defaults."""
        held = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]  # type: ignore[arg-type]
        shown = (f"{name}={value!r}" for name, value, usual in held if usual is MISSING or not _same(value, usual))
        return f"{type(self).__name__}({', '.join(shown)})"
