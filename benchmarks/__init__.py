"""Speed and accuracy against other packages; ``python -m benchmarks`` measures.

One BLAS thread, set here because a BLAS reads it when numpy is first imported: two contenders that share the cores
of one machine otherwise measure each other.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
