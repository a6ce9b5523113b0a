"""A parameter that a class does not inherit from its base."""

from typing import Any, NoReturn

__all__ = ["Absent"]


class Absent:
    """A parameter of the base that this class does not have: reading it raises, and ``hasattr`` is False.

    Tools look for parameters by ``hasattr`` and then call ``set_params``, which would refuse a mere attribute.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> NoReturn:
        name = type(instance).__name__ if owner is None else owner.__name__
        raise AttributeError(f"{name} has no parameter {getattr(self, '_name', '')!r}")
