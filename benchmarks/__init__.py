"""Measurements of speed, memory and import time against other packages; ``python -m benchmarks`` writes the record.

One BLAS thread, set here because a BLAS reads it when numpy is first imported: two contenders that share the cores
of one machine otherwise measure each other.
"""

import os

THREAD_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

for _name in THREAD_SETTINGS:
    os.environ[_name] = "1"
