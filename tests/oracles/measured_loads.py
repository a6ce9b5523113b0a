"""Loads of model files in a child process that may not run away: the outcome of each, and the most memory it took.

The child ends by the system if it takes more CPU time or address space than any load should, so that a file that is
neither loaded nor refused fails its test instead of hanging it. One child serves many tests, since starting it takes
longer than most of its loads.
"""

import atexit
import json
import subprocess
import sys
from functools import cache

import pytest

#: Limits of the child: seconds of CPU time for all files, and bytes of address space.
MOST_SECONDS, MOST_SPACE = 900, 6 * 2**30

_PROGRAM = """
import json, resource, sys, tracemalloc, warnings
seconds, space = {limits}
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
resource.setrlimit(resource.RLIMIT_AS, (space, space))
import problems
from problems import load
from substrate.errors import SubstrateError
warnings.simplefilter("ignore")
for name in problems.ESTIMATORS:
    getattr(problems, name)().get_params()
warm = False
for line in sys.stdin:
    path, max_bytes, honest = json.loads(line)
    if not warm:  # imports, and whatever else the first load makes
        load(honest)
        tracemalloc.start()
        warm = True
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
    print(json.dumps([outcome, tracemalloc.get_traced_memory()[1] - before]), flush=True)
"""


@cache
def _child():
    """Return the process, which ends when this one does."""
    program = _PROGRAM.format(limits=(MOST_SECONDS, MOST_SPACE))
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.kill)
    return process


def loads_of(honest, paths, max_bytes):
    """Return the outcome and the peak of traced memory of every file, by its path; ``honest`` is one that loads."""
    pytest.importorskip("resource")
    child, loads = _child(), {}
    for path in map(str, paths):
        child.stdin.write(json.dumps([path, max_bytes, str(honest)]) + "\n")
        child.stdin.flush()
        answer = child.stdout.readline()
        if not answer:
            _child.cache_clear()
            pytest.fail(f"the process that loads ended with {child.wait()} at {path}")
        loads[path] = json.loads(answer)
    return loads
