"""The cost of imports: closed forms must not import cvxpy, and an estimator must add little to what it stands on."""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.measure import ROUNDS, measure_rounds
from benchmarks.table import Headline, Table, yes_no

__all__ = ["run"]

#: What every estimator stands on.
GROUND = "import numpy, scipy.linalg, sklearn.base"
STATEMENTS = (
    "import numpy",
    "import cvxpy",
    "import sklearn.base",
    GROUND,
    "import substrate.kernels",
    "from problems import LSSVMRegressor",
    "from problems import LSSVMRegressorCV",
    "from problems import SparseLSSVMRegressor",
)
ESTIMATORS = tuple(statement for statement in STATEMENTS if statement.startswith("from problems"))
#: Before the name of a statement: its time after the ground.
_AFTER = "after the ground: "
LIGHT, HEAVY = "import substrate.kernels", "import cvxpy"
MOST = 0.25
#: Seconds of an estimator after the ground, and the estimator that is judged.
MOST_OWN, ESTIMATOR = 0.1, "from problems import LSSVMRegressor"
#: Times that the profile is made.
_PROFILES = 3
_ROOT = Path(__file__).resolve().parents[1]


def cpu_seconds(stored: str, *statements: str) -> list[float]:
    """CPU seconds of statements one after another in a fresh interpreter, whose own start is not counted.

    Compiled files are kept in a folder of the run, as they are for a user from the second import on, whatever the
    environment says about writing them.
    """
    program = "; ".join(
        ["import time; clock = [time.process_time()]"]
        + [f"{statement}; clock.append(time.process_time())" for statement in statements]
        + ["print(*(after - before for before, after in zip(clock, clock[1:])))"]
    )
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": stored}
    command = [sys.executable, "-c", program]
    process = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=True)
    return [float(seconds) for seconds in process.stdout.split()]


#: Prints, after the imports of the ground: the seconds in which dataclasses are made, their number, and the modules.
_PROFILE = """
import dataclasses, sys, time
{before}
known, made, ordinary = set(sys.modules), [], dataclasses.dataclass

def timed(cls=None, /, **options):
    if cls is None:
        return lambda given: timed(given, **options)
    start = time.perf_counter()  # the clock of the process advances in longer steps
    found = ordinary(cls, **options)
    made.append(time.perf_counter() - start)
    return found

dataclasses.dataclass = timed
{statement}
own = [name for name in sys.modules if name not in known and name.split(".")[0] in ("problems", "substrate")]
print(sum(made), len(made), len(own))
"""


def profile(statement: str, stored: str) -> str:
    """Return where the own share of an estimator goes: to how many modules, and to making their frozen records."""
    program = _PROFILE.format(before=GROUND, statement=statement)
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": stored}
    command = [sys.executable, "-c", program]
    ask = partial(subprocess.run, cwd=_ROOT, env=environment, capture_output=True, text=True, check=True)
    # of wall time, in which others run too, the least counts
    seconds, record_seconds, modules = min(
        (ask(command).stdout.split() for _ in range(_PROFILES)), key=lambda row: float(row[0])
    )
    return f"{modules} modules are imported, and {float(seconds):.3f} s make their {record_seconds} dataclasses"


def run(quick: bool) -> Table:
    with tempfile.TemporaryDirectory() as stored:

        def measure_round(turn: int) -> dict[str, float]:  # the first one reads the files from disk, and compiles
            seconds = {name: cpu_seconds(stored, name)[0] for name in STATEMENTS if name not in (GROUND, *ESTIMATORS)}
            for name in ESTIMATORS:
                seconds[GROUND], seconds[_AFTER + name] = cpu_seconds(stored, GROUND, name)
                seconds[name] = seconds[GROUND] + seconds[_AFTER + name]
            return seconds

        t = measure_rounds(measure_round, 3 if quick else ROUNDS, always=True)
        why = profile(ESTIMATOR, stored)
    added_seconds = {name: t[_AFTER + name] for name in ESTIMATORS}
    shortfalls = []
    if t[LIGHT] > MOST * t[HEAVY]:
        shortfalls.append(
            f"`import numpy`, which the kernels need, is {100.0 * t['import numpy'] / t[LIGHT]:.0f} % of "
            f"`{LIGHT}` and {100.0 * t['import numpy'] / t[HEAVY]:.0f} % of `{HEAVY}`."
        )
    if added_seconds[ESTIMATOR] > MOST_OWN:
        shortfalls.append(
            f"`{ESTIMATOR}` adds {added_seconds[ESTIMATOR]:.3f} s to numpy, scipy and scikit-learn: {why}."
        )
    rows = []
    for name in STATEMENTS:
        target, met = "", ""
        if name == LIGHT:
            target, met = f"share ≤ {MOST:g}", yes_no(t[name] <= MOST * t[HEAVY])
        elif name == ESTIMATOR:
            target, met = f"own ≤ {MOST_OWN:g}", yes_no(added_seconds[name] <= MOST_OWN)
        more = f"{added_seconds[name]:.3f}" if name in added_seconds else ""
        rows.append((f"`{name}`", f"{t[name]:.3f}", f"{t[name] / t[HEAVY]:.2f}", more, target, met))
    return Table(
        "Import time",
        "Median CPU seconds in fresh interpreters that take turns, from compiled files; the start of the interpreter "
        f"is not counted. An estimator is imported after `{GROUND}`, which it stands on; its own share is what it "
        "takes after that, and its time that of both.",
        ("statement", "CPU s", "share of cvxpy's", "own, s", "target", "met"),
        tuple(rows),
        tuple(shortfalls),
        (
            Headline("import of an estimator: own share, s", "", added_seconds[ESTIMATOR], most=MOST_OWN),
            Headline("import of the kernels", "import cvxpy", t[LIGHT] / t[HEAVY], most=MOST),
        ),
    )
