r"""A stack of machines without one row: its machines have not seen the row, and their weights are held.

For kernels and gammas that are held, the machine m without row i is known without a refit
(:mod:`~substrate.uncertainty.influence`). The stack without row i is therefore

.. math:: f^{(-i)}(x) = \sum_m u_m \big( f_m(x) - c_{mi}(x)\, r_{mi} \big), \qquad
          r_i = y_i - f^{(-i)}(x_i) = \sum_m u_m r_{mi} ,

from which jackknife+ has its intervals (:mod:`~substrate.uncertainty.intervals`, [Barber2021]_).

The deviation of an error, by which scores may be divided, is here :math:`s_i(x) = \sum_m u_m s_{mi}(x)`, with
:math:`s_{mi}^2(x) = \gamma_m (p_m^{(-i)}(x) + D_{m,ii})`, a variance in units of that of the noise, so that machines of
all kernels can be averaged. At the row itself it is :math:`\gamma_m / B_{m,ii}`, and the stretch
:math:`s_i(x) / s_i(x_i)` is a weighted mean of those of the machines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.namespaces import blocks_beside
from substrate.uncertainty.influence import LeftOutMachines, ShiftBlock

__all__ = ["LeftOutStack"]


@dataclass(frozen=True, slots=True)
class LeftOutStack:
    """One output, in numpy: the machines of a stack, each without every row, and the weights without every row, one
    line each.
    """

    members: Sequence[LeftOutMachines]
    weights: Array

    @property
    def residuals(self) -> Array:
        """Return the error of every row in the stack that was made without it."""
        return np.asarray(sum(self.weights[:, m] * member.residuals for m, member in enumerate(self.members)))

    def shifts(
        self, X: Any, diagonals: Array, values: Array, fitted: Array, studentised: bool = False
    ) -> Iterator[ShiftBlock]:
        """Yield what leaving out each row adds to the predictions ``fitted`` of the stack at new points.

        ``values`` are the predictions of its machines there, and ``diagonals`` k(x, x) of their kernels, one column
        each.
        """
        used = [int(m) for m in np.flatnonzero((self.weights > 0.0).any(axis=0))]
        n, parts = self.weights.shape[0], self._parts() if studentised else None
        for block in blocks_beside(self.weights, int(X.shape[0]), n):
            shifts = np.zeros((fitted[block].shape[0], n))
            stretches = None if parts is None else np.zeros(shifts.shape)
            for m in used:
                u, member = self.weights[:, m], self.members[m]
                # differences of predictions: an offset that all machines have in common costs no digits
                differences = values[block, m] - fitted[block]
                shifts += differences[:, None] * u
                for piece in member.shifts(X[block, :], diagonals[block, m], values[block, m], studentised):
                    shifts[piece.block] += piece.shifts * u
                    if stretches is not None and parts is not None and piece.stretches is not None:
                        stretches[piece.block] += piece.stretches * parts[:, m]
            yield ShiftBlock(block, fitted[block], shifts, stretches)

    def _parts(self) -> Array:
        """Return the share of every machine in the deviation of the error at every row, one line each."""
        sizes = np.column_stack([np.sqrt(member.gamma / member.diagonal) for member in self.members])
        parts = self.weights * (sizes / sizes.max(axis=1, keepdims=True))
        return np.asarray(parts / parts.sum(axis=1, keepdims=True))
