r"""Rows removed from an LS-SVM one after another: the solution without them, by down-dating instead of refitting.

Let M be the bordered matrix of [Suykens2002]_ eq. (5) or (12) and :math:`C = M^{-1}`. Deleting row and column r of M
changes inverse and solution by

.. math:: C' = C - \frac{C_{\cdot r} C_{r \cdot}}{C_{rr}}, \qquad
          \begin{bmatrix} \alpha' \\ b' \end{bmatrix} = \begin{bmatrix} \alpha \\ b \end{bmatrix}
          - \frac{\alpha_r}{C_{rr}} C_{\cdot r} .

That is one step of a Cholesky factorisation of C with pivot r, so pruning all N rows one at a time costs one inverse
and one factorisation with pivots, :math:`O(N^3)` in all, where refitting after every removal would cost
:math:`O(N^4)`. The updates of C are collected and applied a panel at a time as one product of matrices; until then a
column is updated only when its row leaves.

The diagonal of C is updated as well, so the leave-one-out errors :math:`\alpha_i / C_{ii}` of every machine are
available (:mod:`substrate.least_squares.leave_one_out`). Pruning itself is [Suykens2002]_ Algorithm 2 and
[Carvalho2006]_ section 3.2.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.threads import blas_threads

__all__ = ["DownDating", "bordered_inverse"]

#: Number of removals collected before the matrix is updated.
_PANEL = 128


def bordered_inverse(gram: Gram) -> Array:
    """Return the inverse of [K + D, 1; 1', 0] for a factored Gram matrix: the border, and with it the bias, comes
    last.
    """
    n = gram.n
    C = np.empty((n + 1, n + 1))
    C[:n, :n] = gram.inverse()
    eta = C[:n, :n].sum(axis=1)
    total = float(eta.sum())
    if not np.isfinite(total) or total == 0.0:
        raise SolverError("1'(K + D)^{-1} 1 vanishes, so the bias is not determined; use a positive definite kernel")
    C[:n, :n] -= np.outer(eta / total, eta)
    C[n, :n] = C[:n, n] = eta / total
    C[n, n] = -1.0 / total
    return C


class DownDating:
    """Support values, bias and the diagonal of the inverse, for fewer and fewer of n rows.

    :equation [Cawley2004]_ (A.1): its left-hand side, the Schur complement of a leaving row in the bordered inverse

    Parameters
    ----------
    gram
        The factored Gram matrix of all n rows.
    support_values, bias
        The solution on all of them, one column per output.
    """

    def __init__(self, gram: Gram, support_values: Array, bias: Array) -> None:
        with blas_threads(gram.n):
            self._C: Array = bordered_inverse(gram)
        self._n = gram.n
        self._frame: NDArray[np.intp] = np.arange(gram.n + 1)  # the rows of the present matrix; the border comes last
        self._place = self._frame.copy()  # the position of each row in it
        # of the rows of the present matrix: whether they remain, their solution, and the diagonal
        self._kept: Array = np.ones(gram.n + 1)
        self._solution: Array = np.vstack([support_values, bias])
        self._diagonal: Array = self._C.diagonal().copy()
        self._panel: Array = np.empty((_PANEL, gram.n + 1))
        self._pending = 0

    @property
    def rows(self) -> NDArray[np.intp]:
        """The remaining rows."""
        return np.asarray(self._frame[:-1][self._kept[:-1] > 0.0])

    @property
    def kept_values(self) -> Array:
        """alpha of the remaining rows."""
        return np.asarray(self._solution[:-1][self._kept[:-1] > 0.0])

    @property
    def support_values(self) -> Array:
        """alpha of all n rows, zero where a row has left."""
        values = np.zeros((self._n, self._solution.shape[1]))
        values[self._frame[:-1]] = self._solution[:-1]
        return values

    @property
    def bias(self) -> Array:
        """b, one number per output."""
        return np.array(self._solution[-1])

    @property
    def diagonal(self) -> Array:
        """The diagonal of B of the remaining rows, for their leave-one-out errors."""
        return np.asarray(self._diagonal[:-1][self._kept[:-1] > 0.0])

    def inverse(self) -> Array:
        """Return B of the remaining rows: the inverse without its border."""
        self._apply()
        return np.asarray(self._C[:-1, :-1])

    def remove(self, rows: Iterable[int]) -> None:
        """Remove rows, in any order; at least one must remain."""
        for row in rows:
            self._remove(int(row))

    def _remove(self, row: int) -> None:
        place = self._place[row]
        if place < 0 or self._kept[place] == 0.0:
            raise SolverError(f"row {row} was removed before")
        panel = self._panel[: self._pending, : self._frame.size]
        column = self._C[place] - panel[:, place] @ panel
        pivot = float(column[place])
        if not pivot > 0.0:
            raise SolverError(
                f"without row {row} the machine is not determined: its pivot is {pivot:.3g}; use a positive "
                "semi-definite kernel or a smaller gamma"
            )
        column *= self._kept  # rows that have left stay at zero
        self._solution -= column[:, None] * (self._solution[place] / pivot)
        column /= np.sqrt(pivot)
        self._diagonal -= column * column
        self._panel[self._pending, : self._frame.size] = column
        self._pending += 1
        self._kept[place] = 0.0
        self._solution[place] = 0.0
        if self._pending == _PANEL:
            self._apply()

    def _apply(self) -> None:
        """Update the matrix and drop the removed rows from it."""
        if self._pending == 0:
            return
        stay = np.flatnonzero(self._kept)
        with blas_threads(stay.size):
            panel = np.ascontiguousarray(self._panel[: self._pending, stay])
            self._C = self._C.take(stay, axis=0).take(stay, axis=1)  # faster than np.ix_
            self._C -= panel.T @ panel
        self._frame, self._solution = self._frame[stay], self._solution[stay]
        self._place[:] = -1
        self._place[self._frame] = np.arange(stay.size)
        self._kept = np.ones(stay.size)
        self._diagonal = self._C.diagonal().copy()
        self._pending = 0
