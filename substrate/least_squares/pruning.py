r"""Rows removed from an LS-SVM one after another: the solution without them, by down-dating instead of refitting.

Let M be the bordered matrix of [Suykens2002]_ eq. (5) or (12) and :math:`C = M^{-1}`. Deleting the rows and columns F
of M changes the inverse and the solution on the others, R, by

.. math:: C'_{RR} = C_{RR} - C_{RF}\, C_{FF}^{-1} C_{FR}, \qquad
          \begin{bmatrix} \alpha' \\ b' \end{bmatrix} = \begin{bmatrix} \alpha \\ b \end{bmatrix}_R
          - C_{RF}\, C_{FF}^{-1} \alpha_F ,

so that pruning all N rows costs one inverse and one elimination, :math:`O(N^3)` in all, where refitting after every
removal would cost :math:`O(N^4)`. The diagonal of C gives the leave-one-out errors :math:`\alpha_i / C_{ii}` of every
machine (:mod:`substrate.least_squares.leave_one_out`). Pruning itself is [Suykens2002]_ Algorithm 2 and [Carvalho2006]_
section 3.2.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.threads import blas_threads

__all__ = ["DownDating", "bordered_inverse"]


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
        self._solution: Array = np.vstack([support_values, bias])
        #: The remaining rows.
        self.rows: NDArray[np.intp] = np.arange(gram.n)

    @property
    def kept_values(self) -> Array:
        """alpha of the remaining rows."""
        return self._solution[:-1]

    @property
    def support_values(self) -> Array:
        """alpha of all n rows, zero where a row has left."""
        values = np.zeros((self._n, self._solution.shape[1]))
        values[self.rows] = self.kept_values
        return values

    @property
    def bias(self) -> Array:
        """b, one number per output."""
        return np.array(self._solution[-1])

    @property
    def diagonal(self) -> Array:
        """The diagonal of B of the remaining rows, for their leave-one-out errors."""
        return np.asarray(self._C.diagonal()[:-1])

    def inverse(self) -> Array:
        """Return B of the remaining rows: the inverse without its border."""
        return self._C[:-1, :-1]

    def remove(self, rows: Any) -> None:
        """Remove rows, in any order; at least one must remain."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        leaving = np.asarray(rows, dtype=np.intp)
        gone = np.setdiff1d(leaving, self.rows)
        if gone.size:
            raise SolverError(f"row {gone[0]} was removed before")
        stay, F = np.append(~np.isin(self.rows, leaving), True), np.searchsorted(self.rows, leaving)
        with blas_threads(stay.size):
            # by columns of one scale: rows of small weight have large entries
            root = np.sqrt(np.abs(self._C.diagonal()[F]))
            across = self._C[stay][:, F] / root
            try:
                factor = cho_factor(self._C[np.ix_(F, F)] / root / root[:, None], lower=True)
            except (LinAlgError, ValueError) as error:
                raise SolverError(
                    "without these rows the machine is not determined: their block of the inverse is not positive "
                    "definite; use a positive semi-definite kernel or a smaller gamma"
                ) from error
            C = self._C[stay][:, stay] - across @ cho_solve(factor, across.T)
            self._solution = self._solution[stay] - across @ cho_solve(factor, self._solution[F] / root[:, None])
        self._C, self.rows = (C + C.T) / 2.0, self.rows[stay[:-1]]
