r"""The distance of a confined fusion from its exact optimum, in ball arithmetic, from the stored numbers.

Nothing of the fit is used: with exact kernel values the systems

.. math:: (\Omega + I) A + 1 \beta^T = [y, Z], \qquad 1^T A = 0

are enclosed, then the start :math:`r_0` and the slopes M of :mod:`substrate.least_squares.confined_constants`, and the
errors :math:`r^\star = r_0 - M (M^T M)^{-1} M^T r_0` of the optimum. The fitted values that ``predict`` returned are
compared with those. Columns that depend on each other leave :math:`M^T M` singular, and nothing is proved.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.balls import Balls
from substrate.certificates.tolerance import Tolerance
from substrate.kernels import Kernel
from substrate.proof import Proof, ball, balls, flint, formula_of
from substrate.proof.least_squares import points_of, prove_bound, weighted_root

__all__ = ["ConfinedRows", "prove_confined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfinedRows:
    """Training and validation rows: points, kernel values as computed, targets, and the columns of c.

    The values count where the kernel has no formula: a matrix or a function from elsewhere is defined by them.
    """

    kernel: Kernel
    X: Any
    X_check: Any
    matrix: Array
    below: Array
    targets: Array
    columns: Array

    def values(self) -> tuple[list[list[Any]], list[list[Any]]]:
        """Return kernel values of the training rows and of the validation rows with the training rows, in balls."""
        if self.kernel.pairwise or not self.kernel.trusted:
            return [balls(row) for row in self.matrix], [balls(row) for row in self.below]
        points, checks = points_of(self.X), points_of(self.X_check)
        formula = formula_of(self.kernel, len(points[0]))
        return [[formula(x, z) for z in points] for x in points], [[formula(x, z) for z in points] for x in checks]


def prove_confined(rows: ConfinedRows, fitted: Array, tolerance: Tolerance, *, bits: int = 160) -> Proof:
    """Return the proof; ``fitted`` is what predict returned for the training rows, then for the validation rows."""

    def bound() -> Balls:
        optimum = _optimum(rows)
        differences = [ball(f) - exact for f, exact in zip(fitted.tolist(), optimum, strict=True)]
        return Balls(weighted_root(differences, [ball(1.0)] * len(differences)))

    return prove_bound(bound, tolerance, bits)


def _optimum(rows: ConfinedRows) -> list[Any]:
    """Return the exact fitted values of all rows."""
    K, below = rows.values()
    n, one, zero = len(K), ball(1.0), ball(0.0)
    columns = [balls(column) for column in rows.columns.T if np.any(column)]
    q, targets = len(columns), balls(rows.targets)
    system = [[*(K[i][j] + int(i == j) for j in range(n)), one] for i in range(n)]
    sides = [[targets[i], *(column[i] for column in columns)] for i in range(n)]
    solved = _table([*system, [one] * n + [zero]]).solve(_table([*sides, [zero] * (q + 1)]))
    moved = _table([[*row, one] for row in below]) * solved
    start = [[solved[i, 0]] for i in range(n)] + [[t - moved[i, 0]] for i, t in enumerate(targets[n:])]
    errors = _table(start)
    if q:
        slopes = [[columns[j][i] - solved[i, j + 1] for j in range(q)] for i in range(n)]
        M = _table(slopes + [[moved[i, j + 1] for j in range(q)] for i in range(len(below))])
        errors = errors - M * (M.transpose() * M).solve(M.transpose() * errors)
    return [target - errors[i, 0] for i, target in enumerate(targets)]


def _table(rows: Sequence[Sequence[Any]]) -> Any:
    return flint().arb_mat(len(rows), len(rows[0]), [value for row in rows for value in row])
