"""``python -m benchmarks [topic ...] [--write]``: measure, print the table, and write it to the record.

A topic is a module of this folder with a function ``rows()`` that yields :class:`benchmarks.measure.Row`. What has been
measured is in ``RESULTS-<processor>.json``; ``RESULTS.md`` is made of these files.
"""

import argparse
import json
import platform
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import date
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import Row

TOPICS = (
    "fits",
    "selection",
    "penalties",
    "libsvm",
    "machines",
    "fused",
    "shapes",
    "imports",
    "tables",
    "large",
    "accuracy",
)
FOLDER = Path(__file__).parent
HEADINGS = ("work", "against", "figure", "target", "met")
INTRODUCTION = """# Benchmark results

Made by `python -m benchmarks --write`. A target "≥ 2" means at least twice as fast as the peer; "≤ 2" means at most
twice the peer's time, or two of the units that are named. Our times include certificates. Times are CPU times on one
BLAS thread, medians of contenders that take turns in one run; quartiles of the ratio are in brackets. Times of a GPU
(one NVIDIA H200) are wall times.
"""


def table_of(rows: Iterable[Row]) -> str:
    """Return rows as a table of Markdown."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def describe_machine() -> str:
    """Return the machine and the versions in one sentence."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn", "cvxpy"))
    return f"{platform.system()}, {platform.machine()}, Python {platform.python_version()}, {versions}"


def read_record(path: Path) -> dict[str, Any]:
    """Return the record of a kind of processor; a new one where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"topics": {}}


def write_record(topic: str, rows: list[Row], folder: Path = FOLDER) -> None:
    """Put the rows of a topic into the record of this kind of processor, and make the page anew."""
    path = folder / f"RESULTS-{platform.machine()}.json"
    record = read_record(path)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    record["machine"] = describe_machine()
    record["topics"][topic] = {
        "day": str(date.today()),
        "commit": commit.stdout.strip(),
        "rows": [{name: value for name, value in asdict(row).items() if value is not None} for row in rows],
    }
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "RESULTS.md").write_text(page_of(folder), encoding="utf-8")


def page_of(folder: Path = FOLDER) -> str:
    """Return the page of all records of a folder."""
    sections = [INTRODUCTION]
    for path in sorted(folder.glob("RESULTS-*.json")):
        record = read_record(path)
        known = {topic: record["topics"][topic] for topic in TOPICS if topic in record["topics"]}
        rows = [Row(**row) for measured in known.values() for row in measured["rows"]]
        days = sorted({measured["day"] for measured in known.values()})
        missed = sum(not row.is_met for row in rows)
        sections.append(
            f"## {path.stem.removeprefix('RESULTS-')}\n\n{record['machine']}. Measured {' to '.join(days)}; "
            f"{len(rows) - missed} of {len(rows)} rows reach their targets.\n\n{table_of(rows)}"
        )
    return "\n".join(sections)


def main(arguments: list[str] | None = None) -> int:
    """Measure the topics that are named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and print a table.")
    parser.add_argument("topics", nargs="*", metavar="topic", help=f"one or more of {', '.join(TOPICS)}; default: all")
    parser.add_argument("--write", action="store_true", help="put the rows into the record of this processor")
    options = parser.parse_args(arguments)
    if unknown := set(options.topics) - set(TOPICS):
        parser.error(f"unknown topic {', '.join(sorted(unknown))}; known are {', '.join(TOPICS)}")
    failed = []
    for topic in options.topics or TOPICS:
        rows: list[Row] = []
        measured: Callable[[], Iterable[Row]] = import_module(f"benchmarks.{topic}").rows
        try:
            for row in measured():
                print(*row.cells(), sep=" | ", file=sys.stderr, flush=True)
                rows.append(row)
        except Exception:  # the other topics are measured all the same
            traceback.print_exc()
            failed.append(topic)
            continue
        print(f"## {topic}\n\n{table_of(rows)}", flush=True)
        if options.write:
            write_record(topic, rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
