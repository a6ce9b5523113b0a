"""CPU time of contenders that take turns, its shares, and peak memory of a call in a process of its own."""

import contextlib
import cProfile
import ctypes
import gc
import json
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["MIB", "cost", "peak_memory", "shares", "time_interleaved"]

MIB = float(2**20)
_ROOT = Path(__file__).resolve().parents[1]


def time_interleaved(contenders: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return median CPU seconds of each contender.

    They take turns inside one loop, starting with another one each round, so that whatever else the machine does
    falls on all of them alike; a first round warms caches and lazy imports and is not counted.
    """
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats + 1):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            call = contenders[name]
            gc.collect()
            start = time.process_time()
            result = call()
            elapsed = time.process_time() - start
            del result
            if turn > 0:
                seconds[name].append(elapsed)
    return {name: median(values) for name, values in seconds.items()}


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


def peak_memory(prepare: str, *arguments: Any, repeats: int = 3) -> float:
    """Return the median, over fresh processes, of the bytes a call needs at its peak beyond what was there before it.

    ``prepare`` is ``"module:function"``; called with the arguments (whatever JSON can carry) it makes the data and
    returns the call to measure.
    """
    return median(cost(prepare, *arguments)[1] for _ in range(repeats))


def cost(prepare: str, *arguments: Any) -> tuple[float, float]:
    """Return CPU seconds and peak bytes of one call in a fresh process, see :func:`peak_memory`."""
    command = [sys.executable, "-m", "benchmarks.measure", prepare, json.dumps(arguments)]
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
