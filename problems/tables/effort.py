r"""What a fit costs, roughly, before it begins: seconds and bytes, from the size of the table and a short measurement.

A dense machine whose search follows slopes computes and factors an n x n matrix for every kernel, about
:math:`1700 n^2 + 0.6 n^3` operations of the kind that is measured; otherwise it decomposes one, about :math:`9 n^3`. It
holds five such matrices. A stack takes about twice that time, of classes a few fits more, and three matrices for each
of about twenty machines. A machine on m basis vectors chooses them from 2000 candidates and forms sums over the rows,
about :math:`16 n m^2` operations and a few vectors of length n. The factors are those of fits of 99 to 15,000 rows.
"""

import time
from dataclasses import dataclass

import numpy as np

from problems.tables.models import N_FAMILIES, SCREENED_ROWS, Choices
from problems.tables.sizes import EVALUATIONS

__all__ = ["Effort", "effort_of"]

#: Rows of the matrix whose decomposition is timed.
_PROBE = 200
#: Matrices of n x n that a dense machine holds at a time; seconds of any fit, and bytes of Python and its libraries.
_COPIES, _OVERHEAD, _LIBRARIES = 5.0, 0.1, 2.0e8
#: What a stack takes, as a multiple of one machine: two criteria, and a fit of every machine, its rows left out.
_STACKED = 2.0
#: Matrices that it holds besides, of about twenty machines.
_MACHINES = 60.0
#: What a stack of classes takes besides: seconds of ten more small fits in folds, for probabilities.
_FOLDED = 0.6
#: Times that the measurement is repeated; the shortest is the one that nothing else has slowed down.
_PROBES = 5


@dataclass(frozen=True, slots=True)
class Effort:
    """Seconds and bytes, to within a factor of about three."""

    seconds: float
    bytes: float

    def __str__(self) -> str:
        return f"about {_duration(self.seconds)} and {_size(self.bytes)} of memory"


def effort_of(choices: Choices, n_rows: int, n_inputs: int, n_kernels: float, classes: bool = False) -> Effort:
    """Return the effort of a fit to so many rows, judging so many kernels, for numbers or for classes."""
    n, speed = float(n_rows), _speed()
    if choices.model == "sparse":
        m = float(min(choices.n_basis, n_rows))
        candidates = float(min(n_rows, 2000))
        operations = n_kernels * (16.0 * n * m * m + 8.0 * candidates * m * (m + 1000.0))
        if choices.is_screened(n_rows):
            operations += (N_FAMILIES + 0.75 * EVALUATIONS) * _searched(float(SCREENED_ROWS))
        n_bytes = 8.0 * (4.0 * n * n_inputs + 3.0 * candidates * 1000.0)
    else:
        is_stack = choices.model == "stack"
        machines, copies = (_STACKED, _COPIES + _MACHINES) if is_stack else (1.0, _COPIES)
        operations = machines * n_kernels * (_searched(n) if choices.budget(n_rows) else 9.0 * n**3)
        n_bytes = 8.0 * (copies * n * n + 4.0 * n * n_inputs)
    overhead = _OVERHEAD + (_FOLDED if classes and choices.model == "stack" else 0.0)
    return Effort(overhead + operations / speed, _LIBRARIES + n_bytes)


def _searched(n: float) -> float:
    """Return the operations of one kernel of a search along slopes."""
    return 1700.0 * n**2 + 0.6 * n**3


def _speed() -> float:
    """Measure operations per second of this machine in the decomposition of a small matrix, by its own time."""
    A = np.random.default_rng(0).normal(size=(_PROBE, _PROBE))
    A = A @ A.T
    times = []
    for _ in range(_PROBES):
        start = time.thread_time()
        np.linalg.eigh(A)
        times.append(time.thread_time() - start)
    return 9.0 * _PROBE**3 / max(min(times), 1e-6)


def _duration(seconds: float) -> str:
    if seconds < 90.0:
        return f"{max(seconds, 1.0):.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"


def _size(size: float) -> str:
    return f"{max(size / 2**20, 1.0):.0f} MB" if size < 2**30 else f"{size / 2**30:.1f} GB"
