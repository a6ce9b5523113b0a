"""CPU time of contenders that take turns, its shares, and peak memory of a call in a process of its own.

Short jobs are measured in at least :data:`ROUNDS` rounds, so that no moment of a shared machine decides, and every
figure knows its spread: that of the rounds, or, for a quotient of two figures, that of the quotients round by round.
Longer jobs have as many rounds as fit into some seconds, and the longest are measured once.
"""

import contextlib
import cProfile
import ctypes
import gc
import json
import math
import os
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

__all__ = [
    "MIB",
    "ROUNDS",
    "Measured",
    "all_cores",
    "cost",
    "cpu_seconds_of",
    "describe_spread",
    "few_rounds",
    "measure_result",
    "measure_rounds",
    "measured_figures",
    "peak_memory",
    "rounds_within",
    "shares",
    "time_interleaved",
]

Result = TypeVar("Result")

MIB = float(2**20)
#: Rounds of short jobs, the CPU seconds of a job up to which it is one, and those that all rounds of such may take.
ROUNDS, _SHORT, _BUDGET_OF_SHORT = 15, 1.0, 60.0
#: CPU seconds that all rounds of longer jobs may take, those of a round beyond which no number of rounds is asked for,
#: and those of a round beyond which it is measured once and not warmed.
_BUDGET, _LONG, _LONGEST = 20.0, 10.0, 20.0
_ROOT = Path(__file__).resolve().parents[1]
_is_quick: ContextVar[bool] = ContextVar("is_quick", default=False)
#: All figures of time that were measured since :func:`measured_figures` began.
_figures: ContextVar[list["Measured"] | None] = ContextVar("figures", default=None)


class Measured(float):
    """A number that was measured in several rounds: their median, with the rounds.

    Products with plain numbers, and sums, differences and quotients of figures of the same rounds, have rounds too. The
    number itself is that of the medians.
    """

    rounds: tuple[float, ...]

    def __new__(cls, rounds: Sequence[float], value: float | None = None) -> "Measured":
        made = super().__new__(cls, median(rounds) if value is None else value)
        made.rounds = tuple(rounds)
        return made

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles of the rounds."""
        if len(self.rounds) < 2:
            return float(self), float(self)
        low, _, high = quantiles(self.rounds, n=4, method="inclusive")
        return low, high

    def _with(self, other: Any, operation: Callable[[float, float], float]) -> Any:
        if isinstance(other, Measured):
            if len(other.rounds) != len(self.rounds):  # of another loop: nothing can be compared round by round
                return operation(float(self), float(other))
            pairs = zip(self.rounds, other.rounds, strict=True)
            return Measured([operation(*pair) for pair in pairs], operation(float(self), float(other)))
        if isinstance(other, (int, float)):
            return Measured([operation(mine, other) for mine in self.rounds], operation(float(self), float(other)))
        return NotImplemented

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda mine, given: mine + given)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda mine, given: mine - given)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, lambda mine, given: mine * given)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, _quotient)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda mine, given: _quotient(given, mine))


def _quotient(above: float, below: float) -> float:
    """Return a quotient; a job shorter than a tick of the clock took no time."""
    return above / below if below else math.inf


@contextlib.contextmanager
def all_cores() -> Iterator[int]:
    """Let BLAS use every core inside this block, where the other benchmarks have one thread; yield their number."""
    cores = len(os.sched_getaffinity(0))
    with threadpool_limits(cores, user_api="blas"):
        yield cores


@contextlib.contextmanager
def few_rounds(quick: bool) -> Iterator[None]:
    """Let the jobs inside this block be measured as often as they ask for, if ``quick``."""
    token = _is_quick.set(quick)
    try:
        yield
    finally:
        _is_quick.reset(token)


@contextlib.contextmanager
def measured_figures() -> Iterator[list[Measured]]:
    """Collect the times that are measured inside this block."""
    figures: list[Measured] = []
    token = _figures.set(figures)
    try:
        yield figures
    finally:
        _figures.reset(token)


def time_interleaved(contenders: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Measured]:
    """Return median CPU seconds of each contender.

    They take turns inside one loop, starting with another one each round, so that whatever else the machine does
    falls on all of them alike. The number of rounds is that of :func:`measure_rounds`.
    """
    names = list(contenders)

    def measure_round(turn: int) -> dict[str, float]:
        first = turn % len(names)
        return {name: cpu_seconds_of(contenders[name]) for name in names[first:] + names[:first]}

    return measure_rounds(measure_round, repeats)


def cpu_seconds_of(call: Callable[[], object]) -> float:
    """Return the CPU seconds of one call, without those of collecting garbage before it and after it."""
    return _timed(call)[1]


def measure_rounds(
    measure_round: Callable[[int], Mapping[str, float]], repeats: int, *, always: bool = False
) -> dict[str, Measured]:
    """Return what rounds measure, by name; a first one warms caches and lazy imports and is not counted.

    There are ``repeats`` rounds, and at least :data:`ROUNDS` where every job takes a second at most and they fit into a
    minute; of longer ones as many as fit into twenty seconds. Rounds of more than ten seconds are as many as fit,
    whatever is asked for; where the first one takes more than twenty it is the only one, and counts: the smaller sizes
    before it were its warm-up. With ``always`` there are ``repeats`` rounds whatever they take.
    """
    first = measure_round(0)
    with _forget_older_objects():
        rounds = [first if sum(first.values()) > _LONGEST and not always else measure_round(1)]
        for turn in range(2, (repeats if always else _rounds_of(rounds[0].values(), repeats)) + 1):
            rounds.append(measure_round(turn))
    figures = {name: Measured([taken[name] for taken in rounds]) for name in rounds[0]}
    collected = _figures.get()
    if collected is not None:
        collected.extend(figures.values())
    return figures


def measure_result(call: Callable[[], Result]) -> tuple[Result, Measured]:
    """Return what a call returns, and its CPU seconds: of a long one as it is, of a short one over several rounds.

    The first of several rounds warms caches and lazy imports and is not counted.
    """
    result, first = _timed(call)
    rounds = rounds_within(first)
    with _forget_older_objects():
        taken = [_timed(call)[1] for _ in range(rounds)] if rounds > 1 else [first]
    figure = Measured(taken)
    collected = _figures.get()
    if collected is not None:
        collected.append(figure)
    return result, figure


@contextlib.contextmanager
def _forget_older_objects() -> Iterator[None]:
    """Let collections of garbage inside this block pass over everything that is there now.

    A collection reads all objects, those of every imported library among them: a tenth of a second and more, before
    each call of every round, and inside of a call whenever it has made enough objects.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _timed(call: Callable[[], Result]) -> tuple[Result, float]:
    gc.collect()
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def rounds_within(seconds: float) -> int:
    """Return the number of rounds of a job that takes so long: as many as are asked of short ones, or as fit."""
    return _rounds_of([seconds], 1)


def _rounds_of(seconds: Collection[float], repeats: int) -> int:
    """Return the number of rounds of jobs that take turns, by the seconds of each."""
    if _is_quick.get():
        return repeats
    total, budget = sum(seconds), _BUDGET_OF_SHORT if max(seconds) <= _SHORT else _BUDGET
    return max(int(budget / max(total, budget / ROUNDS)), 1 if total > _LONG else repeats)


def describe_spread(figures: Sequence[Measured]) -> str:
    """Return in words how often times were measured, and how far the middle half of the rounds is from the median."""
    several = [figure for figure in figures if len(figure.rounds) > 1 and figure > 0.0]
    if not several:
        return ""
    counts = sorted(len(figure.rounds) for figure in several)
    # the half-width of the middle half, as a share of the median
    shares_of_median = sorted((figure.spread[1] - figure.spread[0]) / (2.0 * figure) for figure in several)
    rounds = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    single = sum(len(figure.rounds) == 1 for figure in figures)
    once = f" {single} {'was' if single == 1 else 'were'} measured once." if single else ""
    return (
        f"Times are medians of {rounds} rounds; half of the rounds are within "
        f"{100.0 * median(shares_of_median):.1f} % of them, at the worst of {len(several)} within "
        f"{100.0 * shares_of_median[-1]:.1f} %.{once}"
    )


def shares(call: Callable[[], object], functions: Mapping[str, tuple[str, str]], repeats: int = 3) -> str:
    """Return what share of the CPU time of a call its parts take, in words, largest first.

    A part is a function, by the end of its file's path and its name; none of them may call another. The time of all
    others is "the rest".
    """
    profile = cProfile.Profile(time.process_time)
    for _ in range(repeats):
        profile.runcall(call)
    statistics = pstats.Stats(profile)
    seconds = dict.fromkeys(functions, 0.0)
    for (path, _, name), timings in statistics.stats.items():  # type: ignore[attr-defined]
        for label, (file, function) in functions.items():
            if name == function and path.endswith(file):
                seconds[label] += timings[3]
    whole = float(statistics.total_tt)  # type: ignore[attr-defined]
    seconds["the rest"] = whole - sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return ", ".join(f"{label} {100.0 * spent / whole:.0f} %" for label, spent in ordered if spent >= 0.005 * whole)


def peak_memory(prepare: Callable[..., Callable[[], object]], *arguments: Any, repeats: int = 3) -> float:
    """Return the median, over fresh processes, of the bytes a call needs at its peak beyond what was there before it.

    ``prepare`` is a function of a module; called with the arguments (whatever JSON can carry) it makes the data and
    returns the call to measure.
    """
    return median(cost(prepare, *arguments)[1] for _ in range(repeats))


def cost(prepare: Callable[..., Callable[[], object]], *arguments: Any) -> tuple[float, float]:
    """Return CPU seconds and peak bytes of one call in a fresh process, see :func:`peak_memory`."""
    name = f"{prepare.__module__}:{prepare.__name__}"
    command = [sys.executable, "-m", "benchmarks.measure", name, json.dumps(arguments)]
    process = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    seconds, peak = process.stdout.split()[-2:]
    return float(seconds), float(peak)


# The high-water mark of resident memory is the honest one here. tracemalloc counts what Python and numpy allocate
# but not the work arrays that LAPACK, BLAS and compiled extensions take from malloc. ru_maxrss does see them, yet on
# Linux a child starts with the mark of the process that spawned it, which would hide its own; VmHWM is the same mark
# kept for the new program alone, and writing 5 to clear_refs sets it back to what is resident now.
def _resident_and_peak() -> tuple[float, float]:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        mark = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        mark *= 1.0 if sys.platform == "darwin" else 1024.0
        return mark, mark
    fields = dict(line.split(":", 1) for line in lines)
    return tuple(1024.0 * float(fields[name].split()[0]) for name in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


def _forget_peak() -> None:
    with contextlib.suppress(OSError):  # elsewhere the mark includes the preparation, far below the peak measured
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _give_back_free_memory() -> None:
    """Return what the preparation freed to the system; the call would otherwise use it again and seem to need none."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # glibc only
        ctypes.CDLL(None).malloc_trim(0)


def _main(prepare: str, arguments: str) -> None:
    module, _, function = prepare.partition(":")
    call = getattr(import_module(module), function)(*json.loads(arguments))
    _give_back_free_memory()
    _forget_peak()
    before, _ = _resident_and_peak()
    start = time.process_time()
    result = call()
    seconds = time.process_time() - start
    _, peak = _resident_and_peak()
    del result
    print(seconds, peak - before)


if __name__ == "__main__":
    _main(*sys.argv[1:])
