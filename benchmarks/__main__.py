"""``python -m benchmarks [topic ...] [--quick] [--write]``: measure, print, and write RESULTS.md.

A topic is any module of this folder with a function ``run(quick) -> Table``; a new file is found by itself. A full
run of all topics writes RESULTS.md; a quick or partial one writes only when ``--write`` asks for it.
"""

import argparse
import datetime
import pkgutil
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import benchmarks
from benchmarks.machine import description
from benchmarks.table import Table

Run = Callable[[bool], Table]
RESULTS = Path(__file__).with_name("RESULTS.md")


def topics() -> dict[str, Run]:
    """Every module below this folder that can be run, by its name."""
    found: dict[str, Run] = {}
    for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."):
        name = module.name.removeprefix("benchmarks.")
        if not name.rpartition(".")[2].startswith("_"):
            run = getattr(import_module(module.name), "run", None)
            if callable(run):
                found[name] = run
    return found


def report(tables: list[Table], command: str) -> str:
    verdicts = [verdict for table in tables for verdict in table.verdicts()]
    head = ["# Benchmark results", "", f"Made by `{command}` on {datetime.date.today().isoformat()}; not edited.", ""]
    facts = [f"- {fact}" for fact in description()]
    count = f"{sum(verdicts)} of {len(verdicts)} targets met."
    return "\n".join([*head, *facts, "", count, "", "\n".join(table.markdown() for table in tables)])


def main(arguments: list[str] | None = None) -> int:
    known = topics()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure and write RESULTS.md.")
    parser.add_argument("topics", nargs="*", metavar="topic", help=f"one or more of {', '.join(known)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds; figures are rough")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md after a quick or partial run too")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.topics) - set(known))
    if unknown:
        parser.error(f"unknown topic {', '.join(unknown)}; known are {', '.join(known)}")
    chosen = [name for name in known if not options.topics or name in options.topics]
    tables = []
    for name in chosen:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        tables.append(known[name](options.quick))
    command = " ".join(["python -m benchmarks", *options.topics, *(["--quick"] if options.quick else [])])
    text = report(tables, command)
    print(text)
    if options.write or (not options.quick and len(chosen) == len(known)):
        RESULTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
