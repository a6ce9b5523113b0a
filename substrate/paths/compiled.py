"""The optional compiler: the same functions run as plain numpy, or as machine code where numba is installed.

A function marked with :func:`compiled` keeps to the part of numpy that numba knows, and stays what it is.
:func:`chosen` hands out its twin in machine code where numba can be imported (``pip install "lssvm-substrate[fast]"``),
and the function itself elsewhere or inside :func:`interpreted`. numba is imported, and the code made, at the first use;
it is kept on disk under a name that changes whenever any marked function changes.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from types import FunctionType
from typing import Any, TypeVar, cast

__all__ = ["chosen", "compiled", "has_compiler", "interpreted"]

Function = TypeVar("Function", bound=Callable[..., Any])

_interpreted: ContextVar[bool] = ContextVar("interpreted", default=False)
_marked: dict[str, FunctionType] = {}


def compiled(function: Function) -> Function:
    """Mark a function for compilation; marked functions may call each other. Returns it unchanged."""
    _marked[function.__name__] = cast(FunctionType, function)
    return function


@cache
def has_compiler() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


@contextmanager
def interpreted() -> Iterator[None]:
    """Plain numpy inside the block, whatever is installed."""
    token = _interpreted.set(True)
    try:
        yield
    finally:
        _interpreted.reset(token)


def chosen(function: Function) -> Function:
    """The compiled twin of a marked function where there is a compiler, else the function."""
    if _interpreted.get() or not has_compiler():
        return function
    return cast(Function, _twin(function.__name__))


@cache
def _digest() -> str:
    """What all marked functions say: the compiler's own store would not notice a change in one that is called."""
    words = [f"{name}{code.co_code!r}{code.co_consts!r}{code.co_names!r}" for name, code in sorted(_codes().items())]
    return hashlib.sha256("".join(words).encode()).hexdigest()[:12]


def _codes() -> dict[str, Any]:
    return {name: function.__code__ for name, function in _marked.items()}


@cache
def _twin(name: str) -> Any:
    from numba import njit

    function = _marked[name]
    called = {other: _twin(other) for other in function.__code__.co_names if other in _marked and other != name}
    twin = FunctionType(function.__code__, {**function.__globals__, **called}, name)
    twin.__module__, twin.__qualname__ = function.__module__, f"{name}_{_digest()}"
    try:
        return njit(cache=True, error_model="numpy")(twin)
    except RuntimeError:  # no folder to keep the code in
        return njit(error_model="numpy")(twin)
