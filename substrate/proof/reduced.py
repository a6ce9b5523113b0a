r"""The bounds of machines on a reduced basis in ball arithmetic, from the stored numbers.

The machine is that on the basis vectors that double precision can tell apart, in exact arithmetic, as for its
certificate (:mod:`~substrate.reduced.solution`): their coefficients are free, and the penalty is
:math:`\tfrac{\lambda}{2} \beta^T K_{SS} \beta`. It has one exact optimum, with :math:`Z = \hat K`,

.. math:: H \beta^\star = Z^T V (y - \bar y), \qquad H = \lambda K_{SS} + Z^T V (Z - 1 \bar z^T), \qquad
          f^\star = \bar y + (Z - 1 \bar z^T) \beta^\star ,

which is enclosed, row by row, and compared with what ``predict`` returned. Columns that are not penalised stand beside
those of kernel values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from substrate.arrays import Array
from substrate.certificates.tolerance import Tolerance
from substrate.kernels import Kernel
from substrate.proof import Proof, ball, balls, flint, precision
from substrate.proof.least_squares import ball_matrix, proof_of, weighted_root

__all__ = ["BasisRows", "GivenRows", "prove_reduced"]

#: Bits tried in turn for the system in all coefficients, which is harder for smoother kernels.
_BITS = (200, 800)


@dataclass(frozen=True, slots=True)
class BasisRows:
    """A kernel between rows and basis vectors.

    ``linear`` are columns of the rows that are not penalised, which are measured from ``center``.
    """

    kernel: Kernel
    X: Any
    points: Any
    linear: Array | None = None
    center: Array | None = None

    def matrix(self, X: Any = None) -> list[list[Any]]:
        """Return kernel values of rows (the basis itself unless given), in balls."""
        values: list[list[Any]] = ball_matrix(self.kernel, self.points if X is None else X, self.points).values.tolist()
        return values

    def free_columns(self) -> list[list[Any]]:
        """Return the columns that are not penalised, one line per row, in balls."""
        if self.linear is None or self.center is None:
            return [[] for _ in range(self.X.shape[0])]
        center = balls(self.center)
        return [[z - c for z, c in zip(balls(row), center, strict=True)] for row in self.linear]


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Given kernel values of rows with basis vectors, and of those with each other (``points``), taken as exact."""

    X: Array
    points: Array

    def matrix(self, X: Any = None) -> list[list[Any]]:
        """Return kernel values of rows (the basis itself unless given), in balls."""
        return [balls(row) for row in (self.points if X is None else X)]

    def free_columns(self) -> list[list[Any]]:
        """Return nothing for every row: given values have no linear columns beside them."""
        return [[] for _ in range(self.X.shape[0])]


def prove_reduced(
    rows: BasisRows | GivenRows, y: Array, gamma: float, v: Array, fitted: Array, tolerance: Tolerance
) -> Proof:
    """Return the proof for one output; ``fitted`` is what predict returned for the rows.

    The vectors of the basis are those that double precision can tell apart.
    """
    bound, used = None, _BITS[0]
    for used in _BITS:
        with precision(used):
            optimum = _optimum(rows, y, gamma, v)
            if optimum is not None:
                differences = [ball(f) - best for f, best in zip(fitted.tolist(), optimum, strict=True)]
                bound = weighted_root(differences, balls(v))
                break
    with precision(used):
        return proof_of(flint().arb("inf") if bound is None else bound, tolerance, used)


def _optimum(rows: BasisRows | GivenRows, y: Array, gamma: float, v: Array) -> list[Any] | None:
    """Return the exact fitted values; None where the bits do not suffice."""
    n, m = int(y.size), int(rows.points.shape[0])
    free = rows.free_columns()
    lines = [[*values, *line] for values, line in zip(rows.matrix(rows.X) if m else free, free, strict=True)]
    weights, targets, zero, r = balls(v), balls(y), ball(0.0), m + len(free[0])
    mass = sum(weights, zero)
    mean = sum((weight * t for weight, t in zip(weights, targets, strict=True)), zero) / mass
    if r == 0:
        return [mean] * n
    Z = _table(lines, r)
    row = flint().arb_mat(1, n, weights) * Z
    centred = _table([[Z[i, k] - row[0, k] / mass for k in range(r)] for i in range(n)], r)
    pulled = _table([[weights[i] * centred[i, k] for k in range(r)] for i in range(n)], r).transpose()
    H, lam = pulled * centred, 1 / ball(gamma)
    for i, line in enumerate(rows.matrix() if m else []):
        for j, value in enumerate(line):
            H[i, j] += lam * value
    try:
        beta = H.solve(pulled * flint().arb_mat(n, 1, [t - mean for t in targets]))
    except ZeroDivisionError:
        return None
    values = centred * beta
    return [mean + values[i, 0] for i in range(n)]


def _table(rows: Sequence[Sequence[Any]], width: int) -> Any:
    return flint().arb_mat(len(rows), width, [value for row in rows for value in row])
