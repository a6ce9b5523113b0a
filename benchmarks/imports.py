"""The seconds that the import of an estimator adds to what it needs: numpy, scipy and scikit-learn."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.measure import ROUNDS, Row

__all__ = ["rows"]

PROGRAM = """
import time
import numpy, scipy.linalg, sklearn.base
start = time.process_time()
from problems import LSSVMRegressor
print(time.process_time() - start)
"""


def rows() -> Iterator[Row]:
    """Yield one row; compiled files are kept, as they are for a user from the second import on."""
    with tempfile.TemporaryDirectory() as stored:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": stored}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command, root = [sys.executable, "-c", PROGRAM], Path(__file__).parents[1]
        seconds = [
            float(subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True).stdout)
            for _ in range(ROUNDS + 1)
        ]
    yield Row("import of an estimator", "CPU seconds of our own", median(seconds[1:]), most=0.3)
