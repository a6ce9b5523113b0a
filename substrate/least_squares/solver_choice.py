r"""Which solver a dense least-squares fit takes: a factorisation, or conjugate gradients on a stored or blocked matrix.

Costs of N rows, m of them sampled for the preconditioner, and k iterations for c outputs:

.. math:: \tfrac13 N^3 t_f \qquad\text{against}\qquad
          N m\, t_k + N m^2\, t_f + k c\, (N^2 t_e + 2 N m\, t_e) ,

with the time of a floating-point operation of a factorisation :math:`t_f`, of an entry of a stored matrix in a product
:math:`t_e` and of a kernel value :math:`t_k`; a matrix that is not stored costs :math:`\tfrac12 N^2 t_k` per iteration
more. The times are constants, between those of two processors (Neoverse N1 and a recent x86-64): a fit takes the same
solver everywhere. The iterations follow from the share of the kernel that a sample of the rows leaves, in units of
1/(gamma v), and from the digits requested; the formula was fitted to measurements, and where the first iterations
contradict it, the matrix is factored after all, if it fits memory.

What the chosen solver takes by these constants is known before it begins: above ten minutes a warning states time and
memory, and that a reduced basis takes a fraction of both. What does not fit memory is refused before it is allocated.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from substrate.arrays import Array, available_memory, stated_memory
from substrate.errors import LongFitWarning
from substrate.kernels import Kernel
from substrate.least_squares.preconditioner import KernelSample
from substrate.least_squares.saddle_system import FACTORED_ROWS
from substrate.namespaces import has_room, to_numpy

__all__ = [
    "Plan",
    "factored_seconds",
    "iterated_seconds",
    "plan",
    "plan_on_device",
    "sample_size",
    "warn_of_long_fit",
]

#: Nanoseconds: an operation of a factorisation, an entry of a stored product, a kernel value.
_FLOP, _ENTRY, _VALUE = 0.03, 0.4, 12.0
#: Iterations do not reach smaller tolerances reliably.
_LEAST_TOLERANCE = 1e-9
#: Bytes of a stored matrix, unless a memory limit is stated.
_STORED = 8.0 * 2**30
#: Iterations that are allowed at most, whatever a factorisation costs.
_MOST = 1000
#: Sampled rows on a device, relative to the host, and the room for their columns: with a copy of them, and tiles.
_MORE_ON_DEVICE, _BESIDE_SAMPLE = 2, 2.5
#: Seconds of an estimate above which a fit warns before it begins.
_LONG = 600.0

Way = Literal["cholesky", "cg"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The solver, the sampled rows of its preconditioner, the iterations allowed, and a line for the certificate.

    ``stored`` states that the matrix is stored, and ``only`` that a factorisation cannot follow.
    """

    way: Way
    sample: KernelSample | None = None
    most: int = 0
    fact: str = ""
    stored: bool = False
    only: bool = False


def factored_seconds(n: int) -> float:
    """Estimate the time of a factorisation, and of the matrix that it takes."""
    return 1e-9 * (n**3 / 3.0 * _FLOP + 0.5 * n * n * _VALUE)


def iterated_seconds(
    n: int, m: int, n_outputs: int, share: float, remainder: float = 0.0, *, stored: bool = False
) -> float:
    """Estimate the time of conjugate gradients with m columns in the preconditioner; at least, where it leaves nothing.

    Outputs are to be known to about a ``share`` of their size: a few iterations for every digit, more where the sample
    leaves much (fitted to measurements). A ``remainder`` that is not known to be finite counts as nothing: the estimate
    is then from below.
    """
    unexplained = remainder if math.isfinite(remainder) else 0.0
    iterations = max(-math.log10(share), 1.0) * (1.3 + 3.0 * math.sqrt(unexplained))
    preparation = n * m * _VALUE + float(n) * m * m * _FLOP + (0.5 * n * n * _VALUE if stored else 0.0)
    return 1e-9 * (preparation + iterations * _product(n, m, n_outputs, stored))


def _product(n: int, m: int, n_outputs: int, stored: bool) -> float:
    """Estimate the nanoseconds of an iteration."""
    return n_outputs * (float(n) * n + 2.0 * n * m) * _ENTRY + (0.0 if stored else 0.5 * n * n * _VALUE)


def warn_of_long_fit(n: int, seconds: float, n_bytes: float, how: str) -> None:
    """Warn, before a fit begins, that it takes more than ten minutes by its estimate."""
    if seconds <= _LONG:
        return
    warnings.warn(
        f"a fit to all {n} rows by {how} takes about {_in_words(seconds)} and {n_bytes / 2**30:.1f} GiB of memory, by "
        "its estimate. A reduced basis takes a fraction of both: LSSVMRegressor or LSSVMClassifier with basis= and "
        "basis=1000 fits the same rows in minutes, and reads them from files too",
        LongFitWarning,
        stacklevel=6,
    )


def _in_words(seconds: float) -> str:
    return f"{seconds / 3600.0:.1f} hours" if seconds > 5400.0 else f"{seconds / 60.0:.0f} minutes"


def sample_size(n: int, ridge: Array, diagonal: Array) -> int:
    """Return the number of rows to sample, more where the diagonal of K is large in units of 1/(gamma v)."""
    with np.errstate(all="ignore"):
        size = float(np.mean(diagonal / ridge))
    digits = math.log10(1.0 + size) if math.isfinite(size) else 4.0
    return min(n // 2, round(math.sqrt(n) * min(2.0 + 2.0 * digits, 10.0)))


def plan(kernel: Kernel, X: Any, n_outputs: int, ridge: Array, share: float) -> Plan:
    """Return the plan for targets of ``n_outputs`` columns, each to be known to about a ``share`` of its size.

    The digits that this asks for enter the estimate of the iterations; what ends these is an absolute error.
    """
    n = X.shape[0]
    if n < FACTORED_ROWS:
        return Plan("cholesky")
    if not kernel.trusted:
        return _plan_factorisation(n, "a factorisation, which also shows whether the given kernel is definite")
    if share < _LEAST_TOLERANCE:
        return _plan_factorisation(n, f"a factorisation: the tolerance is below {_LEAST_TOLERANCE:g}")
    sample = KernelSample.of(kernel, X, sample_size(n, ridge, kernel.diag(X)))
    limit = stated_memory()
    room = available_memory() if limit is None else limit
    whole = 8.0 * n * n
    if sample.bytes > room:
        return Plan("cholesky")  # which is refused for the same reason, with what to do
    fits = whole + sample.bytes <= room
    stored = fits and (whole <= _STORED or (limit is not None and math.isfinite(limit)))
    remainder, m = sample.remainder(ridge), sample.rows.size
    seconds = iterated_seconds(n, m, n_outputs, share, remainder, stored=stored)
    cost = seconds / factored_seconds(n) if math.isfinite(remainder) else math.inf
    if cost >= 1.0 and fits:
        times = f"{cost:.2g}" if cost < 100.0 else "over 100"
        return _plan_factorisation(n, f"a factorisation: conjugate gradients would cost {times} times as much")
    warn_of_long_fit(n, seconds, sample.bytes + (whole if stored else 0.0), "conjugate gradients")
    if not fits:
        fact = "conjugate gradients: a factorisation would not fit"
        return Plan("cg", sample, _MOST, fact, only=True)
    most = min(max(math.ceil(1e9 * factored_seconds(n) / _product(n, m, n_outputs, stored)), 1), _MOST)
    fact = f"conjugate gradients: {cost:.2g} of the cost of a factorisation"
    return Plan("cg", sample, most, fact, stored=stored)


def plan_on_device(kernel: Kernel, X: Any, ridge: Array, max_iter: int | None) -> Plan:
    """Return the plan for points on a device, where the kernel matrix does not fit or the iteration is required.

    A product computes half a kernel matrix anew, so that more sampled rows are worth their price than on the host.
    """
    n = int(X.shape[0])
    size = min(n // 2, _MORE_ON_DEVICE * sample_size(n, ridge, np.asarray(to_numpy(kernel.diag(X)))))
    while size > 1 and not has_room(X, _BESIDE_SAMPLE * 8.0 * n * size):
        size //= 2
    most = _MOST if max_iter is None else max_iter
    fact = "conjugate gradients" + (": the kernel matrix does not fit the device" if max_iter is None else "")
    return Plan(way="cg", sample=KernelSample.of(kernel, X, size), most=most, fact=fact, only=True)


def _plan_factorisation(n: int, fact: str) -> Plan:
    warn_of_long_fit(n, factored_seconds(n), 8.0 * n * n, "a factorisation")
    return Plan("cholesky", fact=fact)
