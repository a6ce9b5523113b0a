"""Frozen values that are parameters: a kernel, a basis, the passes over rows.

A value is replaced and never changed; two are equal when their contents are.
"""

from dataclasses import MISSING, fields, replace
from typing import Any, ClassVar, Self

from substrate.errors import DeclarationError

__all__ = ["Named", "Record", "Value"]


class Named:
    """A class of this package that files may name (:mod:`substrate.files`)."""

    __slots__ = ()
    #: The classes by name.
    kinds: ClassVar[dict[str, type["Named"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith(("substrate.", "problems.")):
            Named.kinds[cls.__name__] = cls


class Record(Named):
    """A frozen dataclass that may hold arrays; two are equal when all their fields are, entry by entry."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]


def _same(first: Any, second: Any) -> bool:
    if first is second:
        return True
    if hasattr(first, "shape") and hasattr(second, "shape"):
        if first.shape != second.shape or first.dtype != second.dtype:
            return False
        differs = first != second
        return not (differs.nnz if hasattr(differs, "nnz") else differs.any())
    return type(first) is type(second) and bool(first == second)


class Value(Named):
    """A frozen dataclass whose fields are parameters in scikit-learn's convention.

    There is no ``set_params``: a frozen value could only return a new one, and scikit-learn would drop it silently. The
    estimators replace their values instead, so that ``estimator.set_params(kernel__sigma=2.0)`` works.
    """

    __slots__ = ()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters by name; the parameters of a value inside this one are named ``outer__inner``."""
        params: dict[str, Any] = {}
        for parameter in fields(self):  # type: ignore[arg-type]
            value = getattr(self, parameter.name)
            params[parameter.name] = value
            if deep and isinstance(value, Value):
                params |= {f"{parameter.name}__{key}": inner for key, inner in value.get_params().items()}
        return params

    def with_params(self, **params: Any) -> Self:
        """Return a new value with some parameters replaced; ``left__sigma=2.0`` reaches into a sum of kernels."""
        direct: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        names = {parameter.name for parameter in fields(self)}  # type: ignore[arg-type]
        for key, value in params.items():
            name, _, inner_name = key.partition("__")
            if name not in names:
                raise DeclarationError(f"{self!r} has no parameter {name!r}; it has {sorted(names)}")
            if inner_name:
                nested.setdefault(name, {})[inner_name] = value
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
        """Write it as code: the fields that differ from their defaults."""
        entries = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]  # type: ignore[arg-type]
        shown = (f"{name}={value!r}" for name, value, usual in entries if usual is MISSING or not _same(value, usual))
        return f"{type(self).__name__}({', '.join(shown)})"
