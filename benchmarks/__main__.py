"""``python -m benchmarks [topic ...] [--quick] [--write]``: measure, print, and write RESULTS.md.

A topic is any module of this folder with a function ``run(quick) -> Table``; a new file is found automatically. A topic
that cannot be measured here returns None, and its section stays as it is. A full run of all topics writes RESULTS.md; a
quick or partial one writes only with ``--write``, and then the sections of its own topics only.
"""

import argparse
import datetime
import pkgutil
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import benchmarks
from benchmarks.machine import description
from benchmarks.table import Table

Run = Callable[[bool], Table | None]
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


def sections(text: str) -> dict[str, str]:
    """The sections of a written report by their titles."""
    parts = text.split("\n## ")[1:]
    return {part.partition("\n")[0]: f"## {part.rstrip()}\n" for part in parts}


def section(table: Table, command: str) -> str:
    """One table with the command and the day that made it."""
    return f"{table.markdown().rstrip()}\n\nMade by `{command}` on {datetime.date.today().isoformat()}.\n"


def verdicts(text: str) -> list[bool]:
    """The entries of the columns "met" of all tables in a report."""
    found, columns = [], []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            columns = []
        elif any(cell.startswith("met") for cell in cells):
            columns = [i for i, cell in enumerate(cells) if cell.startswith("met")]
        found += [cells[i] == "yes" for i in columns if i < len(cells) and cells[i] in ("yes", "no")]
    return found


def counted(body: str) -> str:
    """How many targets the tables of a report meet, in a sentence."""
    met = verdicts(body)
    return f"{sum(met)} of {len(met)} targets met."


def replaced(text: str, title: str, made: str) -> str:
    """A written report with one section replaced or added; the description of its machine stays."""
    head, _, _ = text.partition("\n## ")
    body = "\n".join({**sections(text), title: made}.values())
    return re.sub(r"\d+ of \d+ targets met\.", counted(body), head) + f"\n{body}"


def report(parts: dict[str, str]) -> str:
    """The whole report: the machine, the count, and one section per topic."""
    body = "\n".join(parts.values())
    head = [
        "# Benchmark results",
        "",
        "Made by `python -m benchmarks`, each section by the command below it; not edited.",
        "",
    ]
    facts = [f"- {fact}" for fact in description()]
    return "\n".join([*head, *facts, "", counted(body), "", body])


def main(arguments: list[str] | None = None) -> int:
    known = topics()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure and write RESULTS.md.")
    parser.add_argument("topics", nargs="*", metavar="topic", help=f"one or more of {', '.join(known)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds; figures are rough")
    parser.add_argument("--write", action="store_true", help="write after a quick or partial run too")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.topics) - set(known))
    if unknown:
        parser.error(f"unknown topic {', '.join(unknown)}; known are {', '.join(known)}")
    chosen = [name for name in known if not options.topics or name in options.topics]
    made: dict[str, str] = {}
    for name in chosen:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        command = " ".join(["python -m benchmarks", name, *(["--quick"] if options.quick else [])])
        table = known[name](options.quick)
        if table is None:
            print(f"{name} cannot be measured on this machine; its section stays as it is", file=sys.stderr, flush=True)
            continue
        made[table.title] = section(table, command)
        print(made[table.title], flush=True)
        if options.write or (not options.quick and len(chosen) == len(known)):
            # section by section: what was measured is not lost if a later topic fails
            kept = sections(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
            RESULTS.write_text(report({**kept, **made}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
