"""Where the time of the ordinary tests goes, by folder and by file, in seconds of CPU time.

``python tests/times.py`` runs the tests of every folder in one process each, one after the other, and prints a map of
the folders: what they check, how many cases they have and what they take. ``--write`` writes it to ``tests/README.md``;
with the names of folders (``python tests/times.py tests/bad_input --write``) only these are run, and the rows of the
others stay. Tests of which a case takes long are listed in ``tests/long_tests.txt`` and take turns in the ordinary run;
here they are run whole. CPU time, with that of the processes that a test starts, is the same on a machine that does
other work too; on two cores the whole run takes about half of it.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "oracles"))

from sampled_cases import LONG_TESTS, TURNS, read_long_tests  # noqa: E402  by the path above

PAGE = ROOT / "tests" / "README.md"
#: The folders with tests, and what they check.
FOLDERS = {
    "tests": "the README, examples and tutorials; the direction of imports; laws that hypothesis tries on all models; "
    "the smoke test of other interpreters",
    "tests/bad_input": "every estimator and every page on bad, strange and extreme input: refused in words, or right",
    "tests/benchmarks": "how times become rows of the table of benchmarks",
    "tests/docs": "generated pages: ledger, errata, vocabulary, reference; the page on which points are dragged",
    "tests/problems": "pages and estimators: against solvers, oracles and exact arithmetic; searches, intervals, files",
    "tests/problems/tables": "frames in, predictions out: the tabular estimators",
    "tests/problems/command_line": "the command `substrate`: tables, reports, interrupts, terminals",
    "tests/problems/displays": "the numbers in the pictures",
    "tests/problems/export": "ONNX of every estimator against the estimator",
    "tests/problems/spectral": "components, clusters and two views: against their eigenproblems and their peers",
    "tests/substrate": "the ground: arrays, archives, conventions, data sets, the Gram matrix, solvers, threads",
    "tests/substrate/certificates": "certificates, exact sums, doubled precision, numbers with a radius",
    "tests/substrate/composition": "composed machines: grammar, spans, the structured method, certificates",
    "tests/substrate/declarations": "what declared pages share",
    "tests/substrate/formulas": "formulas of kernels, the bound on their rounding, and graphs written from them",
    "tests/substrate/fusion": "`fuse`: paths, bounds, searches of one to three parameters",
    "tests/substrate/ingredients": "terms and constraints with their multipliers",
    "tests/substrate/kernels": "kernels: naive loops, algebra, derivatives, rounding",
    "tests/substrate/least_squares": "saddle systems, leave-one-out, spectra, conjugate gradients, pruning, weights",
    "tests/substrate/penalized": "L1, Huber and maximal variation: active sets and exact paths",
    "tests/substrate/reduced": "reduced bases: sums over rows, criteria, folds",
    "tests/substrate/search": "the searches of gamma and of widths, and their bounds",
    "tests/substrate/spectral": "eigenpairs, their bounds and counts: against more digits",
    "tests/substrate/streaming": "rows in passes: sources, sums, threads and Dask, the same bits",
    "tests/substrate/uncertainty": "calibration, conformal sets, jackknife, label sets",
}
#: How many files are listed by themselves, and the seconds from which on the cases of a test take turns.
SLOWEST, LONG = 12, 0.2
#: Folders and files of which every version runs all: what a submission may not break even once.
ALWAYS = ("tests/test_import_direction.py", "tests/test_readme.py", "tests/test_sampled_cases.py")
HEADING = "| folder | checks | cases | CPU seconds |"
FILES = "| file | cases | CPU seconds |"


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


class Clock:
    """A plugin that adds up the CPU time of the cases of every test, with their fixtures."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure one test."""
        before = cpu_seconds()
        result = yield
        name = item.nodeid.partition("[")[0]
        self.cases[name] += 1
        self.seconds[name] += cpu_seconds() - before
        return result


def files_of(folder: str) -> list[str]:
    """Return the test files of a folder, without those of the folders in it."""
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob("test_*.py"))


def measure_here(folder: str, target: str) -> int:
    """Run a folder in this process, write what its tests took, and return the exit status."""
    clock = Clock()
    options = ["-n0", "-q", "-p", "no:cacheprovider", "--every-turn"]
    status = pytest.main([*options, *files_of(folder)], plugins=[clock])
    shared = cpu_seconds() - sum(clock.seconds.values())  # imports and collection
    tests = {name: (clock.cases[name], seconds) for name, seconds in clock.seconds.items()}
    Path(target).write_text(json.dumps({"shared": shared, "tests": tests}), encoding="utf-8")
    return int(status)


def find_long_tests(times: dict[str, dict[str, Any]], old: Iterable[str] = ()) -> list[str]:
    """Return the tests that take turns: the long ones of what was run, and those of the other folders as they were."""
    found = {name: seconds / cases for one in times.values() for name, (cases, seconds) in one["tests"].items()}
    kept = [name for name in old if str(Path(name.partition("::")[0]).parent) not in times]
    return sorted([*kept, *(name for name, mean in found.items() if mean >= LONG and not name.startswith(ALWAYS))])


def sum_by_file(tests: dict[str, tuple[int, float]], long: Collection[str]) -> dict[str, tuple[int, float]]:
    """Return the cases and seconds of files in the ordinary run, to which the long tests come in turns."""
    cases: dict[str, float] = defaultdict(float)
    seconds: dict[str, float] = defaultdict(float)
    for name, (number, taken) in tests.items():
        turns = TURNS if name in long else 1
        cases[name.partition("::")[0]] += number / turns
        seconds[name.partition("::")[0]] += taken / turns
    return {name: (round(number), seconds[name]) for name, number in cases.items()}


def measure(folder: str) -> dict[str, Any]:
    """Run a folder in a process of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        target = Path(temporary, "times.json")
        command = [sys.executable, __file__, "--here", str(target), folder]
        subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
        return dict(json.loads(target.read_text(encoding="utf-8")))


def read_rows(text: str, heading: str) -> dict[str, list[str]]:
    """Return the cells of a table of the page, by the name in the first."""
    lines = text.splitlines()
    if heading not in lines:
        return {}
    cells = [line.strip("| ").split(" | ") for line in lines[lines.index(heading) + 2 :]]
    ends = next((place for place, row in enumerate(cells) if row == [""]), len(cells))
    return {row[0].strip("`"): row for row in cells[:ends]}


def make_page(times: dict[str, dict[str, Any]], old: str = "", long: Collection[str] = ()) -> str:
    """Return the page, with the times of the folders that were run and those that it had of the others."""
    known, listed = read_rows(old, HEADING), read_rows(old, FILES)
    folders: dict[str, tuple[str, str]] = {}
    files = {name: (row[1], row[2]) for name, row in listed.items() if str(Path(name).parent) not in times}
    for folder in FOLDERS:
        if folder in times:
            found = sum_by_file(times[folder]["tests"], long)
            seconds = times[folder]["shared"] + sum(seconds for _, seconds in found.values())
            folders[folder] = f"{sum(cases for cases, _ in found.values())}", f"{seconds:.0f}"
            files |= {name: (f"{cases}", f"{taken:.1f}") for name, (cases, taken) in found.items()}
        elif folder in known:
            folders[folder] = known[folder][2], known[folder][3]
        else:
            folders[folder] = "?", "?"
    rows = [f"| `{name}` | {FOLDERS[name]} | {cases} | {seconds} |" for name, (cases, seconds) in folders.items()]
    total = [sum(float(part) for part in column if part != "?") for column in zip(*folders.values(), strict=True)]
    said = re.search(r"one process on (\w+)", old)
    machine = platform.machine() if times or said is None else said[1]
    longest = sorted(files, key=lambda name: -float(files[name][1]))[:SLOWEST]
    return "\n".join(
        [
            "# Tests",
            "",
            "What the folders check, and the CPU time of the ordinary run (`pytest`, without the cases that are",
            f"marked slow) in one process on {machine}, imports included. On two cores it takes about half of that.",
            "Made by `python tests/times.py --write`, or with names of folders for these alone; not edited by hand.",
            "",
            HEADING,
            "|---|---|---|---|",
            *rows,
            f"| all | | {total[0]:.0f} | {total[1]:.0f} |",
            "",
            "The files that take most:",
            "",
            FILES,
            "|---|---|---|",
            *(f"| `{name}` | {files[name][0]} | {files[name][1]} |" for name in longest),
            "",
            "`tests/oracles` holds slow and obvious programs that the fast ones are compared with, the walk over",
            "all models (`every_model.py`), and the draw of the cases that the ordinary run has of a check",
            f"which all models share (`sampled_cases.py`). Tests of which a case takes {LONG} s or more take turns:",
            f"`long_tests.txt` names them, and each version of the sources runs one of {TURNS} of their cases.",
            '`pytest -m ""` runs all cases.',
            "",
        ]
    )


def main(arguments: Sequence[str]) -> int:
    """Print or write the map."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", help="folders to run; all by default")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--here", metavar="FILE", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    chosen = [folder.rstrip("/") for folder in given.folders] or list(FOLDERS)
    unknown = sorted(set(chosen) - FOLDERS.keys())
    if unknown:
        parser.error(f"no folders with tests: {', '.join(unknown)}; choose from {', '.join(FOLDERS)}")
    if given.here:
        return measure_here(chosen[0], given.here)
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    times: dict[str, dict[str, Any]] = {}
    for folder in chosen:
        times[folder] = measure(folder)
        long = find_long_tests(times, read_long_tests())
        if given.write:  # after every folder, so that an interrupted run leaves what it has measured
            PAGE.write_text(make_page(times, old, long), encoding="utf-8")
            LONG_TESTS.write_text("\n".join([*long, ""]), encoding="utf-8")
    if not given.write:
        print(make_page(times, old, long))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
