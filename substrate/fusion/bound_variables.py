r"""Variables that stand for a maximum or an absolute value.

They occur in rows :math:`t_l \ge g_i^T x - h_i` and nowhere else: cvxpy writes :math:`\theta \max_i |f_i|` as
:math:`\theta t` with rows :math:`\pm f_i - t \le 0`. Such a variable is in no equality and in no quadratic term, and
all its rows are of this form. Then

- its smallest feasible value is the largest of the right-hand sides, and no other is better (*lowered*);
- stationarity in it is :math:`\sum_i c_i \mu_i = q_l(\theta)`, which multipliers satisfy after they have been divided
  by their sum (*balanced*), so that a residual remains in the other coordinates only, which the quadratic term
  determines;
- raising it a little satisfies all its rows with a margin (*step*).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.composition.cone_program import IntegerArray

__all__ = ["BoundVariables"]


@dataclass(frozen=True, slots=True)
class BoundVariables:
    """The variables (columns), their rows in the order of the variables, where each begins, and the coefficients.

    ``rest`` are the rows without these variables, ``limits`` their h, ``height`` how many rows there are in all.
    """

    columns: IntegerArray
    rows: IntegerArray
    starts: IntegerArray
    weights: Array
    other_columns: Any
    limits: Array
    height: int
    sizes: Any

    @classmethod
    def of(cls, A: Any, G: Any, h: Array, occupied: Array, q0: Array, q: Array) -> "BoundVariables":
        """Return those of a program with A x = b, G x <= h; ``occupied`` is not zero where a quadratic term has an
        entry.
        """
        by_column = sp.csc_array(G)
        by_column.sum_duplicates()
        by_column.eliminate_zeros()
        in_equality = np.diff(sp.csc_array(A).indptr) > 0
        weighed = (q0 > 0.0) | (q > 0.0).any(axis=0)
        usable = weighed & (q0 >= 0.0) & (q >= 0.0).all(axis=0) & ~in_equality & (occupied == 0.0)
        columns, rows, weights = [], [], []
        taken = np.zeros(h.size, dtype=bool)
        for column in np.flatnonzero(usable):
            entries = slice(by_column.indptr[column], by_column.indptr[column + 1])
            rows_of_column, values = by_column.indices[entries], by_column.data[entries]
            if rows_of_column.size and (values < 0.0).all() and not taken[rows_of_column].any():
                taken[rows_of_column] = True
                columns.append(column)
                rows.append(rows_of_column)
                weights.append(-values)
        starts = np.cumsum([0, *(rows_of_column.size for rows_of_column in rows)]).astype(np.intp)[:-1]
        every = np.concatenate([np.zeros(0, np.intp), *rows]).astype(np.intp)
        kept = np.ones(q0.size)
        kept[columns] = 0.0
        other_columns = sp.csr_array(sp.csr_array(G)[every] @ sp.diags_array(kept))
        return cls(
            columns=np.array(columns, dtype=np.intp),
            rows=every,
            starts=starts,
            weights=np.concatenate([np.zeros(0), *weights]),
            other_columns=other_columns,
            limits=h[every],
            height=h.size,
            sizes=abs(other_columns),
        )

    def lower(self, x: Array, margin: float = 0.0) -> Array:
        """x with each of these variables as small as its rows allow, or larger by a share of what the rows add up."""
        if not self.columns.size:
            return x
        x = x.copy()
        least = self.other_columns @ x - self.limits
        if margin:
            least += margin * (self.sizes @ np.abs(x) + np.abs(self.limits))
        x[self.columns] = np.maximum.reduceat(least / self.weights, self.starts)
        return x

    def balance(self, q: Array, dual: Array, equalities: int, slack: Array) -> Array:
        """Return the multipliers (those of equalities first) with the sums that stationarity in these variables
        asks for.
        """
        if not self.columns.size:
            return dual
        dual = dual.copy()
        mu = np.maximum(dual[equalities + self.rows], 0.0)
        wanted = q[self.columns]
        lengths = np.diff(np.append(self.starts, self.rows.size))
        for _ in range(3):
            sums = np.add.reduceat(self.weights * mu, self.starts)
            empty = (sums <= 0.0) & (wanted > 0.0)
            for k in np.flatnonzero(empty):  # all weight on the row that is nearest
                place = slice(self.starts[k], self.starts[k] + lengths[k])
                nearest = self.starts[k] + int(slack[self.rows[place]].argmin())
                mu[nearest] = wanted[k] / self.weights[nearest]
                sums[k] = wanted[k]
            mu *= np.repeat(wanted / np.where(sums > 0.0, sums, 1.0), lengths)
        dual[equalities + self.rows] = mu
        return dual

    def shift_sizes(self, dual: Array, equalities: int) -> Array:
        """Return the sizes by which these rows change the other coordinates of stationarity with theta."""
        return np.asarray(self.sizes.T @ dual[equalities + self.rows])

    def step(self, near: NDArray[np.bool_], gains: Array) -> Array | None:
        """Return a change of x that raises the rows in a mask by gains; None where some are not of these variables."""
        wanted_gains = np.where(near[: self.height], gains[: self.height], 0.0)
        remaining_gains = wanted_gains.copy()
        remaining_gains[self.rows] = 0.0
        if not self.columns.size or remaining_gains.any():
            return None
        change = np.zeros(self.other_columns.shape[1])
        change[self.columns] = np.maximum.reduceat(wanted_gains[self.rows] / self.weights, self.starts)
        return change
