"""Puts on the path the oracles, slow and obvious programs that the fast ones are compared with, and the docs."""

import os
import sys
from pathlib import Path

for folder in (Path(__file__).parent / "oracles", Path(__file__).parents[1] / "docs"):
    sys.path.insert(0, str(folder))

# the tests are shared out over all cores: more BLAS threads would only wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
