"""The cost of imports: closed forms must not import cvxpy."""

import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks.table import Table, yes_no

__all__ = ["run"]

STATEMENTS = {
    "import numpy": "import numpy",
    "import cvxpy": "import cvxpy",
    "import sklearn.base": "import sklearn.base",
    "import substrate.kernels": "import substrate.kernels",
    "from problems import LSSVMRegressor": "from problems import LSSVMRegressor",
}
MOST = 0.25
_ROOT = Path(__file__).resolve().parents[1]


def cpu_seconds(statement: str) -> float:
    """CPU seconds of one statement in a fresh interpreter, whose own start is not counted."""
    program = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
    done = subprocess.run([sys.executable, "-c", program], cwd=_ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout)


def run(quick: bool) -> Table:
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for turn in range((3 if quick else 11) + 1):
        for name, statement in STATEMENTS.items():
            elapsed = cpu_seconds(statement)
            if turn > 0:  # the first round reads the files from disk
                seconds[name].append(elapsed)
    t = {name: median(values) for name, values in seconds.items()}
    light, heavy = "import substrate.kernels", "import cvxpy"
    shortfalls = []
    if t[light] > MOST * t[heavy]:
        shortfalls.append(
            f"`import numpy`, which the kernels need, is {100.0 * t['import numpy'] / t[light]:.0f} % of "
            f"`{light}` and {100.0 * t['import numpy'] / t[heavy]:.0f} % of `{heavy}`."
        )
    rows = tuple(
        (
            f"`{name}`", f"{t[name]:.3f}", f"{t[name] / t[heavy]:.2f}",
            f"≤ {MOST:g}" if name == light else "", yes_no(t[name] <= MOST * t[heavy]) if name == light else "",
        )
        for name in STATEMENTS
    )  # fmt: skip
    return Table(
        "Import time",
        "Median CPU seconds in fresh interpreters that take turns; the start of the interpreter is not counted.",
        ("statement", "CPU s", "share of cvxpy's", "target", "met"),
        rows,
        tuple(shortfalls),
    )
