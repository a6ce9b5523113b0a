r"""Which solver a dense least-squares fit takes: a factorisation, or conjugate gradients on a stored or blocked matrix.

Costs of N rows, m of them sampled for the preconditioner, and k iterations for c outputs:

.. math:: \tfrac13 N^3 t_f \qquad\text{against}\qquad
          N m\, t_k + N m^2\, t_f + k c\, (N^2 t_e + 2 N m\, t_e) ,

with the time of a floating-point operation of a factorisation :math:`t_f`, of an entry of a stored matrix in a product
:math:`t_e` and of a kernel value :math:`t_k`; a matrix that is not stored costs :math:`\tfrac12 N^2 t_k` per iteration
more. The times are constants, between those of two processors (Neoverse N1 and a recent x86-64): a fit takes the same
solver everywhere. The iterations follow from the share of the kernel that a sample of the rows leaves, in units of
1/(gamma v), and from the digits requested; the formula was fitted to measurements, and where the first iterations
contradict it, the matrix is factored after all.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from substrate.arrays import Array, stated_memory
from substrate.closed_form.projected_gradients import Patience
from substrate.closed_form.saddle_system import FACTORED_ROWS
from substrate.closed_form.stored_kernel import KernelSample
from substrate.kernels import Kernel

__all__ = ["Plan", "planned", "sample_size"]

#: Nanoseconds: an operation of a factorisation, an entry of a stored product, a kernel value.
_FLOP, _ENTRY, _VALUE = 0.03, 0.4, 12.0
#: Iterations do not reach smaller tolerances reliably.
_LEAST_TOLERANCE = 1e-9
#: Bytes of a stored triangle, unless a memory limit is stated.
_STORED = 4.0 * 2**30
#: After every so many iterations the estimate is judged by the eigenvalues they show.
_JUDGED = 8
#: Iterations that are allowed at most, whatever a factorisation costs.
_MOST = 1000

Way = Literal["cholesky", "stored_cg", "cg"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The solver, the sampled rows of its preconditioner, how long it may try, and a line for the certificate."""

    way: Way
    sample: KernelSample | None = None
    patience: Patience | None = None
    fact: str = ""


def sample_size(n: int, ridge: Array, diagonal: Array) -> int:
    """More sampled rows where the diagonal of K is large in units of 1/(gamma v)."""
    with np.errstate(all="ignore"):
        size = float(np.mean(diagonal / ridge))
    digits = math.log10(1.0 + size) if math.isfinite(size) else 4.0
    return min(n // 2, round(math.sqrt(n) * min(2.0 + 2.0 * digits, 10.0)))


def planned(kernel: Kernel, X: Any, n_outputs: int, ridge: Array, tolerance: float) -> Plan:
    """The plan for targets of ``n_outputs`` columns, each to be known to ``tolerance`` times its spread."""
    n = X.shape[0]
    if n < FACTORED_ROWS:
        return Plan("cholesky")
    if not kernel.trusted:
        return Plan("cholesky", fact="a factorisation, which also shows whether the given kernel is definite")
    if tolerance < _LEAST_TOLERANCE:
        return Plan("cholesky", fact=f"a factorisation: the tolerance is below {_LEAST_TOLERANCE:g}")
    sample = KernelSample.of(kernel, X, sample_size(n, ridge, kernel.diag(X)))
    limit = stated_memory()
    triangle = 4.0 * n * n
    stored = triangle <= _STORED
    if limit is not None:
        if sample.bytes > limit:
            return Plan("cholesky")  # which is refused for the same reason, with what to do
        stored = triangle + sample.bytes <= limit
    expected = _iterations(sample.remainder(ridge), tolerance)
    m = sample.rows.size
    direct = n**3 / 3.0 * _FLOP
    product = n_outputs * (n * n + 2.0 * n * m) * _ENTRY + (0.0 if stored else 0.5 * n * n * _VALUE)
    share = (n * m * _VALUE + n * m * m * _FLOP + expected * product) / direct
    most = min(max(math.ceil(direct / product), 1), _MOST)
    way: Way = "stored_cg" if stored else "cg"
    if limit is not None and 2.0 * triangle > limit:
        return Plan(way, sample, Patience(_MOST, _MOST), "conjugate gradients: a factorisation would not fit")
    if share >= 1.0:
        times = f"{share:.2g}" if share < 100.0 else "over 100"
        return Plan("cholesky", fact=f"a factorisation: conjugate gradients would cost {times} times as much")
    return Plan(
        way, sample, Patience(most, _JUDGED), f"conjugate gradients: {share:.2g} of the cost of a factorisation"
    )


def _iterations(remainder: float, tolerance: float) -> float:
    """The iterations expected, fitted to measurements: a few for every digit, more where the sample leaves much."""
    digits = max(-math.log10(tolerance), 1.0)
    return digits * (1.3 + 3.0 * math.sqrt(remainder))
