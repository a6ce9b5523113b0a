r"""The structure of a quadratic program built on kernels: dense kernel coordinates, and small sparse blocks beside them.

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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dgeqp3, dormqr, dpotrf, dpotrs
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve_triangular

from substrate.arrays import Array
from substrate.composition.cone_program import ConeProgram, IntegerArray

__all__ = ["Factor", "Structure"]

#: A variable in more rows than this, or a block with more variables, counts as dense.
_DEGREE, _BLOCK = 12, 24
#: Largest number of dense coordinates.
LARGEST = 12_000
#: Largest number of patterns of entries in rows of F that are told apart.
_PATTERNS = 32
#: How often the diagonal of a singular Newton matrix is raised.
_SHIFTS = 12
#: Relative difference up to which a row counts as a multiple of another.
_SAME = 1e-14


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of one shape: their rows (-1: none), variables v, rows of F, and coefficients [C, T]."""

    rows: IntegerArray
    own: IntegerArray
    dense: IntegerArray
    coefficients: Array


@dataclass(frozen=True, slots=True)
class _Eliminated:
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
    eliminated: _Eliminated
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
    blocks: tuple[_Blocks, ...]
    linear: Array

    @property
    def n_rows(self) -> int:
        """The number of inequalities."""
        return int(self.keep.size)

    @classmethod
    def of(cls, program: ConeProgram, dense: Iterable[int]) -> "Structure | str":
        """The structure of a program whose ``dense`` columns are known, or why there is none."""
        if not program.quadratic:
            return "it has cones"
        chosen = np.zeros(program.q.size, dtype=bool)
        chosen[np.fromiter(dense, dtype=np.intp)] = True
        return _Finder(program, chosen).structure()

    def renewed(self, program: ConeProgram) -> "Structure | None":
        """The structure of a program that differs in P and q only; None where it differs in more."""
        mine = self.program
        same = (
            program.P.shape == mine.P.shape
            and _equal(program.A, mine.A)
            and np.array_equal(program.b, mine.b)
            and np.array_equal(program.P.indptr, mine.P.indptr)
            and np.array_equal(program.P.indices, mine.P.indices)
            and np.array_equal(program.P.diagonal() > 0.0, mine.P.diagonal() > 0.0)
        )
        if not same:
            return None
        known = self.eliminated
        weight = program.P.diagonal()
        squares = np.concatenate([weight[known.columns], weight[self.own]])[self.squared]
        linear, P = _quadratic(program, known, self.own, self.dense, self.offset, self.reflectors)
        return replace(self, program=program, squares=squares, linear=linear, P=P)

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
        return _multiplied(factor, tau, np.concatenate([np.zeros(rank), u])[:, None], "N")[:, 0]


class Factor:
    """The Newton matrix at weights of the rows, factored."""

    def __init__(self, structure: Structure, weights: Array, shift: float = 0.0) -> None:
        self._structure = structure
        root = np.sqrt(np.append(weights, 0.0))  # the last one is the row -1
        sizes, mixed = np.zeros(structure.F.shape[0]), []
        self._solved: list[tuple[_Blocks, Array, Array]] = []
        for blocks in structure.blocks:
            k = blocks.own.shape[1]
            rows = root[blocks.rows][:, :, None] * blocks.coefficients
            if k == 0 and blocks.dense.shape[1] == 1:
                sizes[blocks.dense[:, 0]] = np.linalg.norm(rows[:, :, 0], axis=1)
                continue
            # rows in order of their size: small weights are not drowned by large ones
            order = np.argsort(-np.abs(rows).max(axis=2), axis=1, kind="stable")
            triangle = np.linalg.qr(np.take_along_axis(rows, order[:, :, None], axis=1), mode="r")
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
    return np.linalg.inv(triangles) if k > 1 else 1.0 / triangles


def _multiplied(factor: Array, tau: Array, right: Array, side: str) -> Array:
    """Q right, or Q' right for side "T", by Householder reflectors."""
    work = dormqr("L", side, factor, tau, right, -1)[1]
    return np.asarray(dormqr("L", side, factor, tau, np.asfortranarray(right), int(work[0]))[0])


class _Finder:
    """The steps from a program to its structure."""

    def __init__(self, program: ConeProgram, dense: NDArray[np.bool_]) -> None:
        self.program, self.is_dense = program, dense
        self.E, self.I = sp.csr_array(program.A[program.equal]), sp.csr_array(program.A[program.linear])
        off = sp.csc_array(program.P - sp.diags_array(program.P.diagonal()))
        for matrix in (self.E, self.I, off):
            matrix.eliminate_zeros()
        #: Columns that P couples with others.
        self.coupled = np.diff(off.indptr) > 0

    def structure(self) -> Structure | str:
        program = self.program
        known = self._defined()
        rest = np.ones(program.q.size, dtype=bool)
        rest[known.columns] = False
        equal = np.setdiff1d(np.arange(program.equal.size), known.rows)
        through = sp.csr_array(self.I[:, known.columns])  # inequalities over the defined variables
        weight = program.P.diagonal()
        direct = sp.csr_array(self.I @ sp.diags_array(rest.astype(float)))
        over = known.over
        # the dense columns: those given, those of further equalities, those that P couples, those of many rows
        in_equalities = np.diff(sp.csc_array(self.E[equal]).indptr) > 0
        is_dense = rest & (self.is_dense | in_equalities | self.coupled)
        squared = weight[known.columns] > 0.0
        pattern = sp.vstack([abs(direct) + abs(through) @ abs(over), abs(over)[squared]], format="csc")
        pattern.eliminate_zeros()
        is_dense |= rest & (np.diff(pattern.indptr) > _DEGREE)
        while True:
            if int(is_dense.sum()) > LARGEST:
                return f"it has more than {LARGEST} dense variables"
            built = self._built(known, rest, is_dense, equal, direct, through, squared, weight)
            if not isinstance(built, np.ndarray):
                return built
            is_dense = is_dense.copy()
            is_dense[built] = True

    def _defined(self) -> _Eliminated:
        """A variable of its own for as many equalities as have one: not coupled by P, and in no other equality.

        A definition may use variables that are defined later; it is then written over those that remain.
        """
        program = self.program
        left = np.arange(program.equal.size)
        free = ~self.is_dense & ~self.coupled
        used = np.diff(self.I.tocsc().indptr)
        levels = []
        while left.size:
            E = sp.csc_array(self.E[left])
            columns = np.flatnonzero((np.diff(E.indptr) == 1) & free)
            at = E.indptr[columns]
            rows, values = E.indices[at], E.data[at]
            order = np.lexsort((-np.abs(values), used[columns], rows))
            first = order[np.unique(rows[order], return_index=True)[1]]
            if not first.size:
                break
            columns, rows, values = columns[first], rows[first], values[first]
            own = sp.csr_array((values, (np.arange(rows.size), columns)), shape=(rows.size, program.q.size))
            over = sp.csr_array(sp.diags_array(-1.0 / values) @ (self.E[left[rows]] - own))
            over.eliminate_zeros()
            constants = -program.b[program.equal[left[rows]]] / values
            levels.append(_Eliminated(columns, left[rows].astype(np.intp), values, constants, over))
            free[columns] = False
            left = np.delete(left, rows)
        return _resolved(levels, program.q.size)

    def _built(
        self,
        known: _Eliminated,
        rest: NDArray[np.bool_],
        is_dense: NDArray[np.bool_],
        equal: IntegerArray,
        direct: Any,
        through: Any,
        squared: NDArray[np.bool_],
        weight: Array,
    ) -> Structure | str | IntegerArray:
        """The structure with these dense columns; further ones where a block is too large."""
        program = self.program
        dense, own = np.flatnonzero(is_dense), np.flatnonzero(rest & ~is_dense)
        over_own, over_dense = known.over[:, own], known.over[:, dense]
        C = sp.vstack([direct[:, own] + through @ over_own, over_own[squared]], format="csr")
        D = sp.vstack([direct[:, dense] + through @ over_dense, over_dense[squared]], format="csr")
        constants = np.concatenate([program.b[program.linear] + through @ known.constants, known.constants[squared]])
        # squares of single sparse variables are rows too
        single = np.flatnonzero(weight[own] > 0.0)
        numbers = np.append(np.flatnonzero(squared), known.columns.size + single)
        if single.size:
            places = sp.csr_array((np.ones(single.size), (np.arange(single.size), single)), (single.size, own.size))
            C = sp.vstack([C, places], format="csr")
            D = sp.vstack([D, sp.csr_array((single.size, dense.size))], format="csr")
            constants = np.append(constants, np.zeros(single.size))
        C.eliminate_zeros()
        D.eliminate_zeros()
        filled = (np.diff(C.indptr) + np.diff(D.indptr)) > 0
        m = program.linear.size
        if (constants[:m][~filled[:m]] < 0.0).any():
            return "a constraint without a variable is violated"
        keep = np.flatnonzero(filled)
        C, D, constants = C[keep], D[keep], constants[keep]
        numbers = numbers[filled[m:]]
        squares = np.append(weight[known.columns], weight[own])[numbers]
        F, T = _dense_rows(D)
        labels = _labels(C, T, own.size, F.shape[0])
        sizes = np.bincount(labels[: own.size]) if own.size else np.zeros(1)
        large = own[sizes[labels[: own.size]] > _BLOCK] if own.size else own
        if large.size:
            return np.asarray(large)
        offset, reflectors = np.zeros(dense.size), None
        if equal.size:
            E = program.A[program.equal[equal]][:, dense].toarray()
            solved = _solved_equalities(E, -program.b[program.equal[equal]])
            if isinstance(solved, str):
                return solved
            offset, reflectors = solved
            constants = constants + T @ (F @ offset)
            F = _multiplied(*reflectors[:2], F.T, "T")[reflectors[2] :].T.copy()
        linear, P = _quadratic(program, known, own, dense, offset, reflectors)
        kept = keep[keep < m]
        blocks = _blocks(C, T, labels, own.size)
        parts = _parts(F)
        return Structure(
            program, own, dense, known, offset, reflectors, equal, P, F, parts, C, T, constants, squares, numbers, kept,
            blocks, linear,
        )  # fmt: skip


def _quadratic(
    program: ConeProgram,
    known: _Eliminated,
    own: IntegerArray,
    dense: IntegerArray,
    offset: Array,
    reflectors: tuple[Array, Array, int] | None,
) -> tuple[Array, Array]:
    """The linear term and P, over the coordinates."""
    q = program.q + known.over.T @ program.q[known.columns]
    P, linear = program.P[dense][:, dense].toarray(), q[dense]
    if reflectors is not None:
        factor, tau, rank = reflectors
        linear = _multiplied(factor, tau, (linear + P @ offset)[:, None], "T")[rank:, 0]
        P = _multiplied(factor, tau, _multiplied(factor, tau, P, "T").T, "T")[rank:, rank:]
        P = (P + P.T) / 2.0
    return np.concatenate([q[own], linear]), P


def _equal(one: Any, other: Any) -> bool:
    return one.shape == other.shape and all(
        np.array_equal(a, b)
        for a, b in ((one.indptr, other.indptr), (one.indices, other.indices), (one.data, other.data))
    )


def _resolved(levels: list[_Eliminated], width: int) -> _Eliminated:
    """All definitions, over the variables that none of them defines."""
    known = _Eliminated(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0), np.zeros(0), sp.csr_array((0, width)))
    for level in reversed(levels):
        inner = level.over[:, known.columns]
        outer = np.ones(width)
        outer[known.columns] = 0.0
        over = sp.csr_array(level.over @ sp.diags_array(outer) + inner @ known.over)
        constants = level.constants + inner @ known.constants
        known = _Eliminated(
            np.append(level.columns, known.columns), np.append(level.rows, known.rows),
            np.append(level.pivots, known.pivots), np.append(constants, known.constants),
            sp.csr_array(sp.vstack([over, known.over])),
        )  # fmt: skip
    return known


def _dense_rows(D: Any) -> tuple[Array, Any]:
    """F and T with D = T F: rows that are multiples of each other are kept once."""
    filled = np.flatnonzero(np.diff(D.indptr) > 0)
    rows = D[filled].toarray()
    if not filled.size:
        return np.zeros((0, D.shape[1])), sp.csr_array((D.shape[0], 0))
    at = np.abs(rows).argmax(axis=1)
    pivots = rows[np.arange(filled.size), at]
    weights = np.random.default_rng(0).uniform(1.0, 2.0, D.shape[1])
    keys = (rows @ weights) / pivots
    order = np.argsort(keys, kind="stable")
    owner = np.arange(filled.size)
    scale = np.ones(filled.size)
    previous = -1
    for i in order:
        if previous >= 0 and abs(keys[i] - keys[previous]) <= 1e-9 * abs(keys[i]):
            factor = pivots[i] / rows[previous, at[i]] if rows[previous, at[i]] else 0.0
            if np.abs(rows[i] - factor * rows[previous]).max() <= _SAME * abs(pivots[i]):
                owner[i], scale[i] = previous, factor
                continue
        previous = int(i)
    kept, place = np.unique(owner, return_inverse=True)
    T = sp.csr_array((scale, (filled, place)), shape=(D.shape[0], kept.size))
    return np.ascontiguousarray(rows[kept]), T


def _labels(C: Any, T: Any, own: int, dense: int) -> IntegerArray:
    """The block of each sparse variable and of each row of F."""
    joined = sp.hstack([C, T], format="csr")
    pattern = sp.csr_array((np.ones(joined.nnz), joined.indices, joined.indptr), shape=joined.shape)
    m = joined.shape[0]
    graph = sp.block_array([[None, pattern], [pattern.T, None]], format="csr")
    _, labels = connected_components(graph, directed=False)
    return np.asarray(labels[m:])


def _blocks(C: Any, T: Any, labels: IntegerArray, own: int) -> tuple[_Blocks, ...]:
    """Blocks of equal shape, together."""
    joined = sp.hstack([C, T], format="csr")
    # rows without a variable are not there: the first entry of a row names its block
    row_label = labels[joined.indices[joined.indptr[:-1]]]
    number = int(labels.max(initial=-1)) + 1
    n_rows = np.bincount(row_label, minlength=number)
    n_own, n_dense = np.bincount(labels[:own], minlength=number), np.bincount(labels[own:], minlength=number)
    found = []
    shapes = np.column_stack([n_rows, n_own, n_dense])
    row_order, rank_row = np.argsort(row_label, kind="stable"), np.cumsum(np.append(0, n_rows))
    own_order, rank_own = np.argsort(labels[:own], kind="stable"), np.cumsum(np.append(0, n_own))
    dense_order, rank_dense = np.argsort(labels[own:], kind="stable"), np.cumsum(np.append(0, n_dense))
    place = np.zeros(labels.size, dtype=np.intp)
    place[own_order] = np.arange(own) - rank_own[labels[:own][own_order]]
    place[own + dense_order] = (
        np.arange(labels.size - own) - rank_dense[labels[own:][dense_order]] + n_own[labels[own:][dense_order]]
    )
    place_row = np.zeros(joined.shape[0], dtype=np.intp)
    place_row[row_order] = np.arange(joined.shape[0]) - rank_row[row_label[row_order]]
    at_row = np.repeat(np.arange(joined.shape[0]), np.diff(joined.indptr))
    for shape in np.unique(shapes, axis=0):
        r, k, g = (int(v) for v in shape)
        if not r:
            continue
        which = np.flatnonzero((shapes == shape).all(axis=1))
        height = max(r, k + g)  # a triangle needs as many rows as columns
        rows = np.full((which.size, height), -1, dtype=np.intp)
        rows[:, :r] = row_order[rank_row[which][:, None] + np.arange(r)]
        own_at = own_order[rank_own[which][:, None] + np.arange(k)]
        dense_at = dense_order[rank_dense[which][:, None] + np.arange(g)]
        coefficients = np.zeros((which.size, height, k + g))
        index = np.full(number, -1, dtype=np.intp)
        index[which] = np.arange(which.size)
        entries = np.flatnonzero(index[row_label[at_row]] >= 0)
        coefficients[index[row_label[at_row[entries]]], place_row[at_row[entries]], place[joined.indices[entries]]] = (
            joined.data[entries]
        )
        found.append(_Blocks(rows, own_at, dense_at, coefficients))
    return tuple(found)


def _parts(F: Array) -> tuple[tuple[IntegerArray, IntegerArray], ...]:
    """Rows of F with the columns in which they have entries: products with zeros are spared."""
    if not F.size:
        return ()
    patterns, which = np.unique(F != 0.0, axis=0, return_inverse=True) if _worthwhile(F) else (None, None)
    if patterns is None or patterns.shape[0] > _PATTERNS:
        return ((np.arange(F.shape[0]), np.arange(F.shape[1])),)
    return tuple((np.flatnonzero(which == i), np.flatnonzero(pattern)) for i, pattern in enumerate(patterns))


def _worthwhile(F: Array) -> bool:
    return 2 * np.count_nonzero(F) < F.size


def _solved_equalities(E: Array, right: Array) -> tuple[Array, tuple[Array, Array, int]] | str:
    """A solution of E u = right, the reflectors whose first columns span the rows of E, and its rank."""
    factor, pivots, tau, _, _ = dgeqp3(np.asfortranarray(E.T))
    diagonal = np.abs(np.diagonal(factor))
    rank = int((diagonal > 1e-12 * diagonal.max(initial=0.0)).sum())
    triangle = np.triu(factor[:rank, :rank])
    first = np.linalg.solve(triangle.T, right[pivots[:rank] - 1]) if rank else np.zeros(0)
    offset = _multiplied(factor, tau, np.concatenate([first, np.zeros(E.shape[1] - rank)])[:, None], "N")[:, 0]
    missed = float(np.abs(E @ offset - right).max(initial=0.0))
    if missed > 1e-8 * (float(np.abs(right).max(initial=0.0)) + float(np.abs(E).max(initial=0.0))):
        return "its equalities contradict each other"
    return offset, (factor, tau, rank)
