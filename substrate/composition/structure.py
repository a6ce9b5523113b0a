r"""The structure of a quadratic program built on kernels: dense kernel coordinates beside small sparse blocks.

Equalities that define a variable of their own (cvxpy's residuals of squares, values of f) are substituted, the others
solved once by a QR decomposition. What remains is

.. math::

    \min_{u, v} \; \tfrac12 u^T P u + c^T (u, v) + \tfrac12 \sum_j p_j (C_j v + t_j F_{(j)} u + d_j)^2
    \quad \text{s.t.} \quad s_i = C_i v + t_i F_{(i)} u + h_i \ge 0 ,

with u the dense coordinates (kernel coordinates, and variables that many rows contain), and v the slacks, bounds and
own variables of a few rows each. Rows of F that are multiples of each other, as in :math:`|e| \le t`, are kept once.
Rows that share a variable v, or a row of F, form a block of a few numbers.

With weights :math:`w` of the rows (p for squares), a QR decomposition of each block
:math:`W^{1/2} [C, T] = Q \begin{pmatrix} R_v & R_{vg} \\ & R_g \end{pmatrix}` eliminates v without a subtraction: the
Newton matrix in u is :math:`P + \sum (R_g F)^T (R_g F)`, one symmetric rank-k update and one Cholesky factor.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dormqr, dpotrf, dpotrs
from scipy.sparse.linalg import spsolve_triangular

from substrate.arrays import Array
from substrate.composition.cone_program import ConeProgram, IntegerArray

__all__ = ["Blocks", "Eliminated", "Factor", "Structure", "reflected"]

#: How often the diagonal of a singular Newton matrix is raised.
_SHIFTS = 12


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of one shape: their rows (-1: none), variables v, rows of F, and coefficients [C, T]."""

    rows: IntegerArray
    own: IntegerArray
    dense: IntegerArray
    coefficients: Array


@dataclass(frozen=True, slots=True)
class Eliminated:
    """x = [rest; defined]: the substituted columns, their constants and their rows over the other columns."""

    columns: IntegerArray
    rows: IntegerArray
    pivots: Array
    constants: Array
    over: Any


@dataclass(frozen=True, slots=True)
class Structure:
    """The numbers above; ``n_rows`` inequalities first, then the squares with weights ``squares``.

    ``keep`` are the inequalities that contain a variable. The coordinates are u = [v, dense]; see :meth:`whole` for x.
    """

    program: ConeProgram
    own: IntegerArray
    dense: IntegerArray
    eliminated: Eliminated
    offset: Array
    reflectors: tuple[Array, Array, int] | None
    equal: IntegerArray
    P: Array
    F: Array
    parts: tuple[tuple[IntegerArray, IntegerArray], ...]
    C: Any
    T: Any
    constants: Array
    squares: Array
    squared: IntegerArray
    keep: IntegerArray
    blocks: tuple[Blocks, ...]
    linear: Array

    @property
    def n_rows(self) -> int:
        """The number of inequalities."""
        return int(self.keep.size)

    def rows(self, u: Array) -> Array:
        """The rows at u, without their constants."""
        k = self.own.size
        return np.asarray(self.C @ u[:k] + self.T @ (self.F @ u[k:]))

    def pulled(self, weights: Array) -> Array:
        """The transposed rows times weights."""
        return np.concatenate([self.C.T @ weights, self.F.T @ (self.T.T @ weights)])

    def quadratic(self, u: Array) -> Array:
        """P u in the dense coordinates."""
        k = self.own.size
        return np.concatenate([np.zeros(k), self.P @ u[k:]])

    def whole(self, u: Array) -> Array:
        """x, of all columns of the program."""
        k, x = self.own.size, np.zeros(self.program.q.size)
        x[self.own], x[self.dense] = u[:k], self.offset + self._turned(u[k:])
        known = self.eliminated
        x[known.columns] = known.constants + known.over @ x
        return x

    def multipliers(self, x: Array, z: Array) -> Array:
        """The multipliers of all rows of the program, of equalities by stationarity."""
        program, known = self.program, self.eliminated
        every = np.zeros(program.b.size)
        every[program.linear[self.keep]] = z
        slope = program.P @ x + program.q - program.A.T @ every
        # a definition uses its own variable and later ones: a triangular system
        E = sp.csr_array(program.A[program.equal[known.rows]][:, known.columns])
        every[program.equal[known.rows]] = spsolve_triangular(sp.csr_array(E.T), slope[known.columns], lower=True)
        if self.reflectors is not None:
            slope = program.P @ x + program.q - program.A.T @ every
            E = program.A[program.equal[self.equal]][:, self.dense].toarray()
            every[program.equal[self.equal]] = np.linalg.lstsq(E.T, slope[self.dense], rcond=None)[0]
        return every

    def factored(self, weights: Array) -> "Factor":
        """The Newton matrix at weights of the inequalities, with a small multiple of the identity where singular."""
        shift = 0.0
        for _ in range(_SHIFTS):
            factor = Factor(self, np.append(weights, self.squares), shift)
            if factor.regular:
                return factor
            shift = max(100.0 * shift, 1e-12 * factor.largest)
        raise np.linalg.LinAlgError("the Newton matrix is not positive definite")

    def without_definitions(self, protected: Iterable[int]) -> tuple[ConeProgram, IntegerArray, IntegerArray]:
        """The program without the variables that equalities define and P does not weigh, its columns and its rows."""
        program, known = self.program, self.eliminated
        gone = (program.P.diagonal()[known.columns] == 0.0) & ~np.isin(known.columns, np.fromiter(protected, np.intp))
        columns = np.delete(np.arange(program.q.size), known.columns[gone])
        rows = np.delete(np.arange(program.b.size), program.equal[known.rows[gone]])
        if not gone.any():
            return program, columns, rows
        over, constants = known.over[gone], known.constants[gone]
        through = sp.csr_array(program.A[:, known.columns[gone]])
        A = sp.csr_array(sp.csr_array(program.A + through @ over)[rows][:, columns])
        b = program.b + through @ constants
        q = program.q + over.T @ program.q[known.columns[gone]]
        place = np.full(program.b.size, -1, dtype=np.intp)
        place[rows] = np.arange(rows.size)
        equal = place[program.equal]
        P = sp.csr_array(program.P[columns][:, columns])
        return ConeProgram(P, q[columns], A, b[rows], equal[equal >= 0], place[program.linear], ()), columns, rows

    def _turned(self, u: Array) -> Array:
        if self.reflectors is None:
            return u
        factor, tau, rank = self.reflectors
        return reflected(factor, tau, np.concatenate([np.zeros(rank), u])[:, None], "N")[:, 0]


class Factor:
    """The Newton matrix at weights of the rows, factored."""

    def __init__(self, structure: Structure, weights: Array, shift: float = 0.0) -> None:
        self._structure = structure
        root = np.sqrt(np.append(weights, 0.0))  # the last one is the row -1
        sizes = np.zeros(structure.F.shape[0])
        mixed: list[tuple[IntegerArray, Array]] = []
        self._solved: list[tuple[Blocks, Array, Array]] = []
        for blocks in structure.blocks:
            k = blocks.own.shape[1]
            rows = root[blocks.rows][:, :, None] * blocks.coefficients
            if k == 0 and blocks.dense.shape[1] == 1:
                sizes[blocks.dense[:, 0]] = np.linalg.norm(rows[:, :, 0], axis=1)
                continue
            # rows in order of their size: small weights are not drowned by large ones
            order = np.argsort(-np.abs(rows).max(axis=2), axis=1, kind="stable")
            triangle: Array = np.asarray(np.linalg.qr(np.take_along_axis(rows, order[:, :, None], axis=1), mode="r"))
            if k:
                inverse = _inverses(triangle[:, :k, :k])
                self._solved.append((blocks, inverse, triangle[:, :k, k:]))
            if blocks.dense.shape[1] == 1:
                sizes[blocks.dense[:, 0]] = np.abs(triangle[:, k, k])
            elif blocks.dense.shape[1]:
                mixed.append((blocks.dense, triangle[:, k:, k:]))
        scaled = sizes[:, None] * structure.F
        for rows_of, factors in mixed:
            scaled[rows_of] = factors @ structure.F[rows_of]
        M = np.array(structure.P, order="F")
        if shift:
            M[np.diag_indices_from(M)] += shift
        for rows_of, columns in structure.parts:
            part = scaled if rows_of.size == scaled.shape[0] and columns.size == M.shape[0] else None
            part = np.ascontiguousarray(scaled[np.ix_(rows_of, columns)]) if part is None else part
            if columns.size == M.shape[0]:
                M = dsyrk(1.0, part.T, beta=1.0, c=M, lower=1, overwrite_c=1)
            else:
                M[np.ix_(columns, columns)] += dsyrk(1.0, part.T, lower=1)
        self.largest = float(np.abs(M.diagonal()).max(initial=0.0)) or 1.0
        self.regular = True
        if not M.size:
            return
        self._factor, info = dpotrf(M, lower=1, clean=0, overwrite_a=1)
        self.regular = info == 0

    def solve(self, right: Array) -> Array:
        """The solution of the Newton system."""
        s, k = self._structure, self._structure.own.size
        own, g = np.zeros(k), np.zeros(s.F.shape[0])
        for blocks, inverse, beside in self._solved:
            halves = np.einsum("bij,bi->bj", inverse, right[blocks.own])  # R_v^{-T} r
            own[blocks.own] = np.einsum("bij,bj->bi", inverse, halves)
            if blocks.dense.shape[1]:
                np.add.at(g, blocks.dense, np.einsum("bij,bi->bj", beside, halves))
        dense = right[k:] - s.F.T @ g
        if not dense.size:
            return own
        dense, _ = dpotrs(self._factor, dense, lower=1)
        moved = s.F @ dense
        for blocks, inverse, beside in self._solved:
            if blocks.dense.shape[1]:
                change = np.einsum("bij,bj->bi", beside, moved[blocks.dense])
                own[blocks.own] -= np.einsum("bij,bj->bi", inverse, change)
        return np.concatenate([own, dense])


def _inverses(triangles: Array) -> Array:
    """The inverses of upper triangles; a diagonal entry that vanishes is that of an undetermined variable."""
    k = triangles.shape[1]
    diagonal = np.einsum("bii->bi", triangles)
    tiny = np.abs(diagonal) <= 1e-150
    if tiny.any():
        triangles = triangles.copy()
        np.einsum("bii->bi", triangles)[...] = np.where(tiny, 1.0, diagonal)
    return np.asarray(np.linalg.inv(triangles) if k > 1 else 1.0 / triangles)


def reflected(factor: Array, tau: Array, right: Array, side: str) -> Array:
    """Q right, or Q' right for side "T", by Householder reflectors."""
    factor = factor[:, : tau.size]  # of more equalities than variables, the first determine Q
    work = dormqr("L", side, factor, tau, right, -1)[1]
    return np.asarray(dormqr("L", side, factor, tau, np.asfortranarray(right), int(work[0]))[0])
