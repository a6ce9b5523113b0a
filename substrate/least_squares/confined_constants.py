r"""Regularization constants confined to a few columns, c = Z u, fused with validation: a projection on few directions.

.. math::

    \min_{u, \alpha, b, e, e^v} \; \|e\|^2 + \|e^v\|^2 \quad \text{s.t.} \quad
    \begin{cases} y = \Omega \alpha + b 1_N + e, \quad 1_N^T \alpha = 0, \quad e = \alpha + Z u, \\
    y^v = \Omega^v \alpha + b 1_n + e^v \end{cases}

For a given u the machine solves the linear system of the substrate, :math:`(\Omega + I) \alpha + b 1 = y - Z u`, whose
solution is affine in u: :math:`\alpha = \alpha_0 - A u`, :math:`b = b_0 - \beta^T u`, where every column of A and
:math:`\beta` belongs to one of Z as target. All errors together are

.. math:: r(u) = r_0 + M u, \qquad r_0 = \begin{bmatrix} \alpha_0 \\ y^v - \Omega^v \alpha_0 - b_0 1 \end{bmatrix},
          \qquad M = \begin{bmatrix} Z - A \\ \Omega^v A + 1 \beta^T \end{bmatrix} ,

and :math:`u = -M^+ r_0`. The columns of Z are measured by their lengths first; directions of M below a cut-off, those
of columns that depend on each other for instance, are left out, and u is the shortest one. The errors are unique.

Their distance from the optimum, for any errors r, is
:math:`\|Q^T r\| + \|(I - Q Q^T)(r - r_0)\|` with Q an orthonormal basis of the range of M; what the residuals of the
linear systems change in :math:`r_0` and M is added. A change d of M turns its range by at most
:math:`\|d\| / \sigma_{min}(M)`.

[Pelckmans2005]_ section 4.2 proposes to confine c against over-fitting of the validation rows.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array, positive, real_array
from substrate.certificates import Row
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.certificates.rows import Accuracy
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.least_squares.saddle_system import solve_saddle_system

__all__ = ["CUTOFF", "ConfinedSolution", "ConfinedSystem", "checked_columns"]

#: Relative size of the directions of M left out.
CUTOFF = 1e-10


def checked_columns(Z: object, n: int) -> Array:
    """Return the columns that c is confined to, refused where they do not fit n rows.

    Columns that depend on each other confine c no less; as many independent ones as rows do not confine it.
    """
    columns = real_array(Z, "Z", ndim=(1, 2))
    columns = columns[:, None] if columns.ndim == 1 else columns
    if columns.shape[0] != n:
        raise DataError(f"Z must have one row per training row: expected {n}, received {columns.shape[0]}")
    return np.asarray(columns)


@dataclass(frozen=True, slots=True)
class ConfinedSolution:
    """Coefficients u of the columns, constants c, support values in regression's sign, bias, and all errors."""

    levels: Array
    constants: Array
    support_values: Array
    bias: float
    errors: Array


@dataclass(frozen=True, slots=True)
class ConfinedSystem:
    """The errors of all rows as an affine function of u, with the machines that belong to y and to every column of Z.

    ``start`` is r_0, ``slopes`` is M for columns of unit length, ``lengths`` are those of the given ones; ``machines``
    has the support values of y and of the columns, ``biases`` the biases; ``directions`` is the orthonormal basis Q of
    the range of M, ``levels_of`` takes coordinates in it to u; ``errors`` bound what the residuals of the linear
    systems change in r_0 and in M, and ``smallest`` is the smallest singular value kept.
    """

    columns: Array
    start: Array
    slopes: Array
    lengths: Array
    machines: Array
    biases: Array
    directions: Array
    levels_of: Array
    errors: tuple[float, float]
    smallest: float

    @classmethod
    def of(
        cls, gram: Gram, target: Array, below: Array, target_val: Array, Z: Array, cutoff: float = CUTOFF
    ) -> "ConfinedSystem":
        """Solve the linear systems of y and of every column."""
        positive(cutoff, "cutoff")
        sizes = np.abs(Z).max(axis=0)  # in two steps: squares of large or small columns leave the range
        scaled = Z / np.where(sizes > 0.0, sizes, 1.0)
        lengths = np.linalg.norm(scaled, axis=0)
        scaled = scaled / np.where(lengths > 0.0, lengths, 1.0)
        ridge = np.ones(gram.n)
        solved = [solve_saddle_system(gram, column, ridge) for column in (target, *scaled.T)]
        machines = np.column_stack([one.support_values for one in solved])
        biases = np.array([one.bias for one in solved])
        moved = below @ machines + biases
        start = np.append(machines[:, 0], target_val - moved[:, 0])
        slopes = np.vstack([scaled - machines[:, 1:], moved[:, 1:]])
        radii = [
            _error_of_machine(gram, below, column, machines[:, number], float(biases[number]))
            for number, column in enumerate((target, *scaled.T))
        ]
        Q, s, Vt = np.linalg.svd(slopes, full_matrices=False)
        keep = s > max(cutoff, relative_rounding(float(slopes.shape[0]))) * max(float(s[0]), 1e-300)
        return cls(
            columns=Z,
            start=start,
            slopes=slopes,
            lengths=sizes * lengths,
            machines=machines,
            biases=biases,
            directions=Q[:, keep],
            levels_of=Vt[keep].T / s[keep],
            errors=(radii[0], float(np.linalg.norm(radii[1:]))),
            smallest=float(s[keep][-1]) if keep.any() else np.inf,
        )

    def solve(self) -> ConfinedSolution:
        """Project: the errors orthogonal to all directions in which c can move them."""
        scaled = -self.levels_of @ (self.directions.T @ self.start)
        levels = np.divide(scaled, self.lengths, out=np.zeros_like(scaled), where=self.lengths > 0.0)
        alpha = self.machines[:, 0] - self.machines[:, 1:] @ scaled
        bias = float(self.biases[0] - self.biases[1:] @ scaled)
        errors = self.start - self.directions @ (self.directions.T @ self.start)
        return ConfinedSolution(levels, self.columns @ levels, alpha, bias, errors)

    def rows(self, errors: Array, size: float, tolerance: float) -> tuple[Row, ...]:
        """Check that errors can be had by some c of the columns, and are orthogonal to what c can change."""
        moved = errors - self.start
        beside = moved - self.directions @ (self.directions.T @ moved)
        along = self.directions.T @ errors
        return (
            Row(
                name="errors of some c = Z u",
                value=float(np.linalg.norm(beside)),
                scale=size,
                tolerance=tolerance,
                formula="||(I - QQ')(r - r_0)||",
            ),
            Row(
                name="errors orthogonal to M",
                value=float(np.linalg.norm(along)),
                scale=size,
                tolerance=tolerance,
                formula="||Q'r||",
            ),
        )

    def radius(self, errors: Array, size: float) -> float:
        """Bound the distance of errors from those of the optimum, as a length; ``size`` is that of the targets."""
        moved = errors - self.start
        beside = moved - self.directions @ (self.directions.T @ moved)
        along = self.directions.T @ errors
        of_start, of_slopes = self.errors
        turned = of_slopes / self.smallest * (float(np.linalg.norm(errors)) + float(np.linalg.norm(moved)))
        rounding = relative_rounding(8.0 * errors.size) * (size + float(np.linalg.norm(self.start)))
        return at_most(float(np.linalg.norm(beside)) + float(np.linalg.norm(along)) + of_start + turned + rounding)

    def accuracy(self, errors: Array, targets: Array, tolerance: Tolerance) -> Accuracy:
        """Return that bound as a row, root mean square over training and validation rows."""
        radius = self.radius(errors, float(np.linalg.norm(targets)))
        return tolerance.row_of_norm(radius, errors.size, "||Q'r|| + ||(I - QQ')(r - r_0)|| + rounding")


def _error_of_machine(gram: Gram, below: Array, target: Array, alpha: Array, bias: float) -> float:
    """Bound what the residual of a linear system changes in the errors of all rows.

    With residual p and sum s of the support values, they are off by at most ||p|| + |s| (||K 1||/N + 1/sqrt(N)), since
    K + I is at least I.
    """
    K, n = gram.matrix, gram.n
    size = float(np.linalg.norm(K))
    terms = size * float(np.linalg.norm(alpha)) + float(np.linalg.norm(alpha)) + float(np.sqrt(n)) * abs(bias)
    rounding = relative_rounding(2.0 * (n + 4.0)) * (terms + float(np.linalg.norm(target)))
    residual = float(np.linalg.norm(target - K @ alpha - alpha - bias)) + rounding
    total = abs(float(alpha.sum())) + relative_rounding(float(n)) * float(np.abs(alpha).sum())
    off = residual + total * (float(np.linalg.norm(K.sum(axis=1))) / n + 1.0 / float(np.sqrt(n)))
    off_bias = (residual + (1.0 + size) * off) / float(np.sqrt(n))
    lost = relative_rounding(2.0 * (n + 4.0)) * float(np.linalg.norm(below)) * float(np.linalg.norm(alpha))
    return at_most(off + float(np.linalg.norm(below)) * off + float(np.sqrt(below.shape[0])) * off_bias + lost)
