"""Functions that run as plain numpy, or as machine code where numba is installed.

A function marked with :func:`compiled` uses only the part of numpy that numba supports, and is returned unchanged.
:func:`choose_twin` returns its compiled twin where numba can be imported (``pip install "lssvm-substrate[fast]"``), and
the function itself elsewhere or inside :func:`run_interpreted`. Where loops make better machine code than products of
arrays, :func:`loops_of` marks them as what is compiled instead. numba is imported, and the code compiled, at the first
use; it is kept on disk under a name that changes whenever the function changes, or one that it calls.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from types import FunctionType
from typing import Any, TypeVar, cast

__all__ = [
    "choose_twin",
    "compiled",
    "entry",
    "entry_in_order",
    "has_compiler",
    "loops_of",
    "run_interpreted",
    "will_compile",
]

Function = TypeVar("Function", bound=Callable[..., Any])

_interpreted: ContextVar[bool] = ContextVar("interpreted", default=False)
_marked: dict[str, FunctionType] = {}
_entries: set[str] = set()
_in_order: set[str] = set()


def compiled(function: Function) -> Function:
    """Mark a function for compilation; marked functions may call each other. Returns it unchanged."""
    _marked[function.__name__] = cast(FunctionType, function)
    return function


def entry(function: Function) -> Function:
    """Mark a function for compilation that is also called from plain Python, which takes code of its own."""
    _entries.add(function.__name__)
    return compiled(function)


def entry_in_order(function: Function) -> Function:
    """Mark an entry whose operations keep the order in which they are written, and which threads may run side by
    side.
    """
    _in_order.add(function.__name__)
    return entry(function)


def loops_of(plain: Callable[..., Any]) -> Callable[[Function], Function]:
    """Mark a function as what is compiled in the place of a plain one, of which it is the same in loops."""

    def mark(function: Function) -> Function:
        _marked[plain.__name__] = cast(FunctionType, function)
        return function

    return mark


@cache
def has_compiler() -> bool:
    """Return whether numba is installed."""
    return find_spec("numba") is not None


@contextmanager
def run_interpreted() -> Iterator[None]:
    """Run plain numpy inside the block, whatever is installed."""
    token = _interpreted.set(True)
    try:
        yield
    finally:
        _interpreted.reset(token)


def will_compile() -> bool:
    """Return whether marked functions run as machine code here."""
    return has_compiler() and not _interpreted.get()


def choose_twin(function: Function) -> Function:
    """Return the compiled twin of a marked function if numba is installed, else the function itself."""
    return cast(Function, _twin(function.__name__, True)) if will_compile() else function


def _called(name: str) -> list[str]:
    """Return the marked functions that a marked function calls."""
    return [callee for callee in _marked[name].__code__.co_names if callee in _marked and callee != name]


@cache
def _digest(name: str) -> str:
    """Return what a function and all that it calls are made of: the compiler's own cache would not notice a change in
    one that is called.
    """
    reached, waiting = {name}, [name]
    while waiting:
        new = [callee for callee in _called(waiting.pop()) if callee not in reached]
        reached.update(new)
        waiting += new
    codes = {callee: _marked[callee].__code__ for callee in reached}
    words = [f"{key}{code.co_code!r}{code.co_consts!r}{code.co_names!r}" for key, code in sorted(codes.items())]
    return hashlib.sha256("".join(words).encode()).hexdigest()[:12]


@cache
def _twin(name: str, is_entry: bool) -> Any:
    """Return the compiled function; one that only compiled ones call has no code that reads its arguments from Python
    objects, which takes a sixth of all time to compile.
    """
    from numba import njit

    function = _marked[name]
    called = {callee: _twin(callee, callee in _entries) for callee in _called(name)}
    twin = FunctionType(function.__code__, {**function.__globals__, **called}, name)
    twin.__module__ = function.__module__
    twin.__qualname__ = f"{name}_{_digest(name)}" + ("" if is_entry else "_inner")
    # sums may be taken in another order, as BLAS takes them, and products added without rounding in between
    freedom = {"contract"} if name in _in_order else {"reassoc", "contract", "nsz"}
    how: dict[str, Any] = {"error_model": "numpy", "fastmath": freedom, "nogil": name in _in_order}
    if not is_entry:
        how |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    try:
        return njit(cache=True, **how)(twin)
    except RuntimeError:  # no folder for the cache
        return njit(**how)(twin)
