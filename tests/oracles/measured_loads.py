"""Loads of model files in a child process that may not run away: the outcome of each, and the most memory it took.

The child ends by the system if it takes more CPU time or address space than any load should, so that a file that is
neither loaded nor refused fails its test instead of hanging it.
"""

import json
import subprocess
import sys

import pytest

#: Limits of the child: seconds of CPU time for all files, and bytes of address space.
MOST_SECONDS, MOST_SPACE = 240, 6 * 2**30

_PROGRAM = """
import json, resource, sys, tracemalloc, warnings
seconds, space = {limits}
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
resource.setrlimit(resource.RLIMIT_AS, (space, space))
import problems
from problems import load
from substrate.errors import SubstrateError
warnings.simplefilter("ignore")
honest, max_bytes, paths = json.load(sys.stdin)
load(honest)  # imports, and whatever else the first load makes
for name in problems.ESTIMATORS:
    getattr(problems, name)().get_params()
tracemalloc.start()
for path in paths:
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    try:
        load(path, max_bytes=max_bytes)
        outcome = "loads"
    except SubstrateError as error:
        outcome = f"refused: {{error}}"
    except MemoryError:
        outcome = "out of memory"
    except Exception as error:
        outcome = f"raised {{type(error).__name__}}: {{error}}"
    peak = tracemalloc.get_traced_memory()[1] - before
    print(json.dumps([path, outcome, peak]), flush=True)
"""


def loads_of(honest, paths, max_bytes):
    """Return the outcome and the peak of traced memory of every file, by its path."""
    pytest.importorskip("resource")
    program = _PROGRAM.format(limits=(MOST_SECONDS, MOST_SPACE))
    given = json.dumps([str(honest), max_bytes, [str(path) for path in paths]])
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    unfinished = str(paths[len(lines)]) if len(lines) < len(paths) else ""
    assert done.returncode == 0, f"ended with {done.returncode} at {unfinished}: {done.stderr[-500:]}"
    return {path: (outcome, peak) for path, outcome, peak in lines}
