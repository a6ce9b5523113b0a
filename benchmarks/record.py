"""The record of all figures on one kind of processor: RESULTS-<machine>.json, the page made from it, and the index.

The JSON file is the record: one entry per topic, with its table and headline rows, its day, command, commit and CPU
time. RESULTS-<machine>.md is written from it, summary first, and RESULTS.md lists the records.
What a run has measured so far is kept in the folder ``.run`` until the run is complete.
"""

import datetime
import fcntl
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks.machine import description
from benchmarks.table import Headline, Table

__all__ = ["Entry", "Progress", "Record", "commit_of_the_code", "entry_of", "state_of_the_code"]

FOLDER = Path(__file__).parent
_ROOT = FOLDER.parent
#: What figures depend on.
_CODE = ("substrate/*.py", "problems/*.py", "benchmarks/*.py", "pyproject.toml")
_SUMMARY = ("work", "against", "ratio", "of the limit", "target", "met")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one topic measured, and what it took."""

    topic: str
    title: str
    text: str
    command: str
    day: str
    commit: str
    cpu_seconds: float | None
    wall_seconds: float | None
    met: int
    judged: int
    headlines: tuple[Headline, ...] = ()
    quick: bool = False

    def section(self) -> str:
        """Return the section of the page: the table, and below it the command, the day and the CPU time."""
        at = f" at {self.commit}" if self.commit else ""
        took = f", {duration(self.cpu_seconds)} of CPU time" if self.cpu_seconds is not None else ""
        rough = " Rough: small sizes and few rounds." if self.quick else ""
        return f"{self.text.rstrip()}\n\nMade by `{self.command}` on {self.day}{at}{took}.{rough}\n"


def entry_of(topic: str, table: Table, command: str, cpu_seconds: float, wall_seconds: float, quick: bool) -> Entry:
    met, judged = table.verdicts
    today = datetime.date.today().isoformat()
    text = table.markdown()
    provenance = (command, today, commit_of_the_code(), round(cpu_seconds, 1), round(wall_seconds, 1))
    return Entry(topic, table.title, text, *provenance, met, judged, table.summary, quick)


@dataclass(slots=True)
class Record:
    """All entries of one kind of processor, by topic."""

    machine: str
    facts: tuple[str, ...] = ()
    entries: dict[str, Entry] = field(default_factory=dict)
    folder: Path = FOLDER

    @classmethod
    def read(cls, machine: str = "", folder: Path = FOLDER) -> "Record":
        """Return the record as it stands, empty if there is none; by default that of this processor."""
        machine = machine or platform.machine()
        path = folder / f"RESULTS-{machine}.json"
        if not path.exists():
            return cls(machine, folder=folder)
        stored = json.loads(path.read_text(encoding="utf-8"))
        entries = {}
        for stored_entry in stored["entries"]:
            headlines = tuple(Headline(**line) for line in stored_entry.pop("headlines"))
            entries[stored_entry["topic"]] = replace(Entry(**stored_entry), headlines=headlines)
        return cls(machine, tuple(stored["facts"]), entries, folder)

    def put(self, entry: Entry, order: Iterable[str]) -> None:
        """Add or replace an entry, in the given order of topics, and write the record and its pages.

        The entries are read again first: other topics may be measured, and written, by a process beside this one.
        """
        if entry.quick:
            raise ValueError(f"{entry.topic} was measured quickly; the record holds full runs only")
        with _alone_in(self.folder):
            self.entries = Record.read(self.machine, self.folder).entries | {entry.topic: entry}
            places = {topic: place for place, topic in enumerate(order)}
            self.entries = dict(sorted(self.entries.items(), key=lambda item: places.get(item[0], len(places))))
            self.write()

    def add(self, topic: str, table: Table, command: str, cpu_seconds: float, wall_seconds: float) -> None:
        """Add or replace what a command of its own measured, behind the other topics unless it has a place."""
        entry = entry_of(topic, table, command, cpu_seconds, wall_seconds, quick=False)
        self.put(entry, [*self.entries, topic])

    def write(self) -> None:
        entries = [asdict(entry) for entry in self.entries.values()]
        for line in (line for entry in entries for line in entry["headlines"] if line["spread"] is None):
            del line["spread"]  # of a figure that was measured once there is none
        stored = {"machine": self.machine, "facts": self.facts, "entries": entries}
        text = json.dumps(stored, indent=1, ensure_ascii=False)
        (self.folder / f"RESULTS-{self.machine}.json").write_text(text + "\n", encoding="utf-8")
        (self.folder / f"RESULTS-{self.machine}.md").write_text(self.page(), encoding="utf-8")
        (self.folder / "RESULTS.md").write_text(index(self.folder), encoding="utf-8")
        documentation = self.folder.parent / "docs"
        if documentation.is_dir():  # a page by the same name, so that the links of the index hold there too
            page = documentation / f"RESULTS-{self.machine}.md"
            page.write_text(f"```{{include}} ../benchmarks/{page.name}\n```\n", encoding="utf-8")

    @property
    def counts(self) -> str:
        lines = [line for entry in self.entries.values() for line in entry.headlines]
        met = sum(entry.met for entry in self.entries.values())
        judged = sum(entry.judged for entry in self.entries.values())
        said = f"{sum(line.is_met for line in lines)} of {len(lines)} targets of the summary met"
        return f"{said}, {met} of {judged} of all tables." if lines else f"{met} of {judged} targets met."

    @property
    def has_spreads(self) -> bool:
        return any(line.spread is not None for entry in self.entries.values() for line in entry.headlines)

    @property
    def days(self) -> str:
        days = sorted(entry.day for entry in self.entries.values())
        return f"{days[0]} to {days[-1]}" if days and days[0] != days[-1] else "".join(days[:1])

    def summary(self) -> list[str]:
        """Return the headline rows of all topics as a table; a row of a quick section says so."""
        if not any(entry.headlines for entry in self.entries.values()):
            return []
        lines = ["| " + " | ".join(_SUMMARY) + " |", "|" + "---|" * len(_SUMMARY)]
        for entry in self.entries.values():
            for line in entry.headlines:
                work, *cells = line.row()
                lines.append("| " + " | ".join((work + (" (quick)" if entry.quick else ""), *cells)) + " |")
        return lines

    def page(self) -> str:
        """Return the whole page: the machine, the summary, and one section per topic."""
        rough = [entry.title for entry in self.entries.values() if entry.quick]
        return "\n".join(
            [
                f"# Benchmark results, {self.machine}",
                "",
                "Made by `python -m benchmarks`, each section by the command below it; not edited.",
                "",
                *(f"- {fact}" for fact in self.facts),
                "",
                self.counts,
                "",
                "Where the target is a least ratio (≥), the ratio says how many times faster ours is; where it is a "
                "largest one (≤), how many times the cost of the other ours takes. Certificates are on in all of ours. "
                "The limit is the least work that the answer needs, measured in the same run."
                + (" In brackets behind a ratio are its quartiles over the rounds." if self.has_spreads else ""),
                "",
                *self.summary(),
                "",
                *(["Still from a quick run: " + "; ".join(rough) + ".", ""] if rough else []),
                "\n".join(entry.section() for entry in self.entries.values()),
            ]
        )


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Let no other process write to the records of a folder inside this block."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def index(folder: Path) -> str:
    """Return the page that lists the records, each with its summary."""
    lines = ["# Benchmark results", "", "One record for each kind of processor, made by `python -m benchmarks`."]
    for path in sorted(folder.glob("RESULTS-*.json")):
        record = Record.read(path.stem.removeprefix("RESULTS-"), folder)
        page = f"[RESULTS-{record.machine}.md](RESULTS-{record.machine}.md)"
        lines += ["", f"## {record.machine}", "", f"All tables: {page}, {record.days}. {record.counts}", ""]
        lines += record.summary()
    return "\n".join(lines) + "\n"


def _git(*arguments: str) -> str:
    try:
        process = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return process.stdout.strip()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def commit_of_the_code() -> str:
    """Return the commit, with a digest of what differs from it; without a repository that of the environment."""
    if not (_ROOT / ".git").exists():
        return os.environ.get("SUBSTRATE_BENCHMARK_COMMIT", "")
    changed = _git("diff", "HEAD", "--", *_CODE)
    return _git("rev-parse", "--short=9", "HEAD") + (f"+{_digest(changed)}" if changed else "")


def state_of_the_code() -> str:
    """Return a digest of the programs and the versions: figures of equal ones may stand together, whatever else
    changed.
    """
    return _digest("\n".join([_git("ls-files", "--stage", "--", *_CODE), _git("diff", "--", *_CODE), *description()]))


class Progress:
    """The topics that a run has measured so far, in a file, so that the same command goes on after an interruption."""

    def __init__(self, machine: str, *, restart: bool = False, folder: Path = FOLDER) -> None:
        self.path = folder / ".run" / f"{machine}.json"
        self.state = state_of_the_code()
        self.done: list[str] = []
        if self.path.exists() and not restart:
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            if stored["state"] == self.state:
                self.done = stored["done"]

    def add(self, topic: str) -> None:
        self.done.append(topic)
        self.path.parent.mkdir(exist_ok=True)
        text = json.dumps({"state": self.state, "done": self.done})
        self.path.write_text(text, encoding="utf-8")

    def complete(self) -> None:
        self.path.unlink(missing_ok=True)


def duration(seconds: float) -> str:
    """Return seconds in words."""
    if seconds < 100.0:
        return f"{seconds:.1f} s" if seconds < 10.0 else f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"
