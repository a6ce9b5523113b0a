"""``python -m benchmarks [topic ...]``: measure, print, and write the record of this kind of processor.

A topic is any module of this folder with a function ``run(quick) -> Table``; a new file is found automatically. A topic
that cannot be measured here returns None, and its section stays as it is, with its day. Without topics all are measured
at full size and every section is written to the record when it is ready; after an interruption the same command goes on
with what is left, as long as the code and the versions are the same. Some topics alone are written with ``--write``.
``--quick`` only prints.
"""

import argparse
import pkgutil
import platform
import resource
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

import benchmarks
from benchmarks.machine import description
from benchmarks.measure import describe_spread, few_rounds, measured_figures
from benchmarks.record import Entry, Progress, Record, duration, entry_of
from benchmarks.table import Table

Run = Callable[[bool], Table | None]

#: The figures that are asked for most, measured first; and those that take longest, last.
FIRST = (
    "sparse_fit",
    "regression_fit",
    "classification_svc",
    "solution_paths",
    "fused_paths",
    "model_selection",
    "pruning",
    "basis_selection",
    "imports",
    "device",
    "l1_substrate",
    "conjugate_gradient",
)
LAST = ("peers", "growth", "intervals", "preconditioned", "streaming", "certified_width", "joint_fusion", "accuracy")


def topics() -> dict[str, Run]:
    """Return every module below this folder that can be run, by its name, in the order of measurement."""
    runs: dict[str, Run] = {}
    for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."):
        name = module.name.removeprefix("benchmarks.")
        if not name.rpartition(".")[2].startswith("_"):
            run = getattr(import_module(module.name), "run", None)
            if callable(run):
                runs[name] = run
    return {name: runs[name] for name in sorted(runs, key=place)}


def place(name: str) -> tuple[int, int, str]:
    """Return where a topic comes in a run, and its section in the record."""
    if name in FIRST:
        return 0, FIRST.index(name), name
    return (2, LAST.index(name), name) if name in LAST else (1, 0, name)


def cpu_seconds() -> float:
    """CPU time so far, with that of processes started from here."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, whose))


def measure_topic(name: str, run: Run, quick: bool) -> Entry | None:
    command = " ".join(["python -m benchmarks", name, *(["--quick"] if quick else [])])
    cpu, wall = cpu_seconds(), time.perf_counter()
    with few_rounds(quick), measured_figures() as figures:
        table = run(quick)
    if table is None:
        return None
    table = replace(table, rounds=describe_spread(figures))
    return entry_of(name, table, command, cpu_seconds() - cpu, time.perf_counter() - wall, quick)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def describe_remaining_time(names: list[str], record: Record) -> str:
    """Return the time that topics took when they were last measured, in words."""
    taken = (record.entries[name].wall_seconds for name in names if name in record.entries)
    measured_seconds = [seconds for seconds in taken if seconds is not None]
    unknown = len(names) - len(measured_seconds)
    return f"about {duration(sum(measured_seconds))} left" + (
        f", without {unknown} topics of unknown length" if unknown else ""
    )


def parse(arguments: list[str] | None, runs: dict[str, Run]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and write the record.")
    parser.add_argument("topics", nargs="*", metavar="topic", help=f"one or more of {', '.join(runs)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds, printed and never written")
    parser.add_argument("--write", action="store_true", help="write the sections of the given topics to the record")
    parser.add_argument("--restart", action="store_true", help="begin anew; an interrupted run is continued otherwise")
    parser.add_argument("--record", default="", help="the record to write to; default: that of this processor")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.topics) - set(runs))
    if unknown:
        parser.error(f"unknown topic {', '.join(unknown)}; known are {', '.join(runs)}")
    if options.quick and options.write:
        parser.error("--quick is never written to the record; leave out one of --quick and --write")
    return options


def main(arguments: list[str] | None = None) -> int:
    runs = topics()
    options = parse(arguments, runs)
    whole = not options.topics and not options.quick
    record = Record.read(options.record)
    progress = Progress(record.machine, restart=options.restart or not whole)
    chosen = [name for name in runs if not options.topics or name in options.topics]
    if progress.done:
        say(f"{len(progress.done)} topics were measured before the interruption and are kept; --restart begins anew")
    waiting, failed, start = [name for name in chosen if name not in progress.done], [], time.perf_counter()
    if (whole or options.write) and record.machine == platform.machine():
        record.facts = description()
    while waiting:
        name, elapsed = waiting[0], duration(time.perf_counter() - start)
        remaining = describe_remaining_time(waiting, record)
        say(f"{name}, {len(chosen) - len(waiting) + 1} of {len(chosen)}; {elapsed} so far, {remaining}")
        waiting = waiting[1:]
        try:
            entry = measure_topic(name, runs[name], options.quick)
            if entry is not None and (whole or options.write):
                record.put(entry, runs)
        except KeyboardInterrupt:
            say("interrupted; the same command continues" if whole else "interrupted")
            return 130
        except Exception:  # what the other topics measure is not lost
            traceback.print_exc()
            failed.append(name)
            continue
        if entry is None:
            say(f"{name} cannot be measured on this machine; its section stays as it is")
        else:
            print(entry.section(), flush=True)
        if whole:
            progress.add(name)
    if failed:
        say(f"not measured, see above: {', '.join(failed)}" + ("; the same command tries again" if whole else ""))
    elif whole:
        progress.complete()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
