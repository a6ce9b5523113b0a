r"""The structure of a quadratic program built on kernels: dense kernel coordinates beside small sparse blocks.

Equalities that define a variable of their own (cvxpy's residuals of squares, values of f) are substituted, the others
solved once by a QR decomposition. What remains is

.. math::

    \min_{u, v} \; \tfrac12 u^T P u + c^T (u, v) + \tfrac12 \sum_j p_j (C_j v + t_j F_{(j)} u + d_j)^2
    \quad \text{s.t.} \quad s_i = C_i v + t_i F_{(i)} u + h_i \ge 0 ,

with u the dense coordinates (kernel coordinates, and variables that many rows contain), and v the slacks, bounds and
own variables of a few rows each. Rows of F that are multiples of each other, as in :math:`|e| \le t`, are kept once.
Rows that share a variable v, or a row of F, form a block of a few numbers.

Its Newton matrix is factored in :mod:`substrate.composition.newton_factor`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dormqr
from scipy.sparse.linalg import splu

from substrate.arrays import Array
from substrate.composition.cone_program import ConeProgram, IntegerArray

__all__ = ["Blocks", "EliminatedVariables", "Significance", "Structure", "Substituted", "apply_reflectors"]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of one shape: their rows (-1: none), variables v, rows of F, and coefficients [C, T]."""

    rows: IntegerArray
    sparse_columns: IntegerArray
    dense: IntegerArray
    coefficients: Array


@dataclass(frozen=True, slots=True)
class EliminatedVariables:
    """x = [rest; defined]: the substituted columns, their constants and their rows over the other columns."""

    columns: IntegerArray
    rows: IntegerArray
    pivots: Array
    constants: Array
    over: Any


@dataclass(frozen=True, slots=True)
class Significance:
    """What columns and rows of F contribute: the squares of F, and their sums over the columns in units of P.

    The columns are in order of their part, the largest first.
    """

    squares: Array
    rows: Array


@dataclass(frozen=True)
class Structure:
    """The numbers above; ``n_rows`` inequalities first, then the squares with weights ``squares``.

    ``P`` is the matrix, or its diagonal where it has no other entries; ``keep`` are the inequalities that contain a
    variable. The coordinates are u = [v, dense]; see :meth:`whole` for x.
    """

    program: ConeProgram
    sparse_columns: IntegerArray
    dense: IntegerArray
    eliminated: EliminatedVariables
    offset: Array
    reflectors: tuple[Array, Array, int] | None
    equal: IntegerArray
    P: Array
    F: Array
    dense_blocks: tuple[tuple[IntegerArray, IntegerArray], ...]
    C: Any
    T: Any
    constants: Array
    squares: Array
    squared: IntegerArray
    keep: IntegerArray
    blocks: tuple[Blocks, ...]
    linear: Array
    significance: Significance | None

    @property
    def n_rows(self) -> int:
        """The number of inequalities."""
        return int(self.keep.size)

    def rows(self, u: Array) -> Array:
        """Return the rows at u, without their constants."""
        k = self.sparse_columns.size
        return np.asarray(self.C @ u[:k] + self.T @ (self.F @ u[k:]))

    @cached_property
    def transposes(self) -> tuple[Any, Any]:
        """The transposed C and T."""
        return self.C.T, self.T.T

    @cached_property
    def definitions(self) -> Any:
        """The equalities that define variables, transposed and factored.

        A definition uses its own variable and later ones: the matrix is triangular, and its factors are no fuller.
        """
        E = self.program.equalities[self.eliminated.rows][:, self.eliminated.columns]
        return splu(sp.csc_matrix(E.T), permc_spec="NATURAL", diag_pivot_thresh=0.0)

    def pull(self, weights: Array) -> Array:
        """Return the transposed rows times weights."""
        C, T = self.transposes
        return np.concatenate([C @ weights, self.F.T @ (T @ weights)])

    def quadratic(self, u: Array) -> Array:
        """Return P u in the dense coordinates."""
        k = self.sparse_columns.size
        return np.concatenate([np.zeros(k), self.P * u[k:] if self.P.ndim == 1 else self.P @ u[k:]])

    def whole(self, u: Array) -> Array:
        """Return x, of all columns of the program."""
        k, x = self.sparse_columns.size, np.zeros(self.program.q.size)
        x[self.sparse_columns], x[self.dense] = u[:k], self.offset + self._turn(u[k:])
        eliminated = self.eliminated
        x[eliminated.columns] = eliminated.constants + eliminated.over @ x
        return x

    def multipliers(self, x: Array, z: Array) -> Array:
        """Return the multipliers of all rows of the program, of equalities by stationarity."""
        program, eliminated = self.program, self.eliminated
        every = np.zeros(program.b.size)
        every[program.linear[self.keep]] = z
        slope = program.P @ x + program.q - program.A.T @ every
        if eliminated.columns.size:
            every[program.equal[eliminated.rows]] = self.definitions.solve(slope[eliminated.columns])
        if self.reflectors is not None:
            slope = program.P @ x + program.q - program.A.T @ every
            E = program.equalities[self.equal][:, self.dense].toarray()
            every[program.equal[self.equal]] = np.linalg.lstsq(E.T, slope[self.dense], rcond=None)[0]
        return every

    def without_definitions(self, protected: Iterable[int]) -> "Substituted":
        """Return the variables that equalities define and P does not weigh, but the protected ones, substituted."""
        program, eliminated = self.program, self.eliminated
        gone = (program.P.diagonal()[eliminated.columns] == 0.0) & ~np.isin(
            eliminated.columns, np.fromiter(protected, np.intp)
        )
        columns = np.delete(np.arange(program.q.size), eliminated.columns[gone])
        rows = np.delete(np.arange(program.b.size), program.equal[eliminated.rows[gone]])
        over, constants = sp.csr_array(eliminated.over[gone]), eliminated.constants[gone]
        through = sp.csr_array(program.A[:, eliminated.columns[gone]])
        A = sp.csr_array(sp.csr_array(program.A + _product(through, over))[rows][:, columns])
        A.sort_indices()
        place = np.full(program.b.size, -1, dtype=np.intp)
        place[rows] = np.arange(rows.size)
        equal = place[program.equal]
        b = (program.b + through @ constants)[rows]
        return Substituted(
            eliminated=eliminated,
            columns=columns,
            rows=rows,
            over=over,
            gone=eliminated.columns[gone],
            fixed=(A, b, equal[equal >= 0], place[program.linear]),
        )

    def _turn(self, u: Array) -> Array:
        if self.reflectors is None:
            return u
        factor, tau, rank = self.reflectors
        return apply_reflectors(factor, tau, np.concatenate([np.zeros(rank), u])[:, None], "N")[:, 0]


@dataclass(frozen=True, slots=True)
class Substituted:
    """A structure's program without defined variables: its columns and rows, and what of it does not depend on P and q.

    ``over`` are the rows of the variables that are ``gone`` over all others, ``fixed`` A, b, and the numbers of the
    equalities and of the inequalities; ``eliminated`` is that of the structure.
    """

    eliminated: EliminatedVariables
    columns: IntegerArray
    rows: IntegerArray
    over: Any
    gone: IntegerArray
    fixed: tuple[Any, Array, IntegerArray, IntegerArray]

    def constant(self, whole: ConeProgram) -> float:
        """The constant that substitution adds to the objective."""
        gone = np.isin(self.eliminated.columns, self.gone)
        return float(whole.q[self.eliminated.columns[gone]] @ self.eliminated.constants[gone])

    def program(self, whole: ConeProgram) -> ConeProgram:
        """Return the program with P and q of the whole one."""
        if not self.gone.size:
            return whole
        q = whole.q + self.over.T @ whole.q[self.gone]
        P = sp.csr_array(whole.P[self.columns][:, self.columns])
        return ConeProgram(P, q[self.columns], *self.fixed, ())


def _product(left: Any, right: Any) -> Any:
    """Return the product of two sparse matrices; where rows on the left have one entry each, rows on the right are
    copied.
    """
    counts = np.diff(left.indptr)
    if not left.nnz or counts.max() > 1:
        return left @ right
    taken_rows = right[left.indices]
    lengths = np.diff(taken_rows.indptr)
    taken_rows.data *= np.repeat(left.data, lengths)
    rows = np.zeros(counts.size, dtype=taken_rows.indptr.dtype)
    rows[counts == 1] = lengths
    return sp.csr_array(
        (taken_rows.data, taken_rows.indices, np.concatenate([[0], np.cumsum(rows)])), (left.shape[0], right.shape[1])
    )


def apply_reflectors(factor: Array, tau: Array, right: Array, side: str) -> Array:
    """Return Q right, or Q' right for side "T", by Householder reflectors."""
    factor = factor[:, : tau.size]  # of more equalities than variables, the first determine Q
    work = dormqr("L", side, factor, tau, right, -1)[1]
    return np.asarray(dormqr("L", side, factor, tau, np.asfortranarray(right), int(work[0]))[0])
