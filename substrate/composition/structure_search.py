"""The search for the structure of a quadratic program (:mod:`substrate.composition.structure`).

Equalities that define a variable are substituted, rows of kernel values that are multiples of each other are kept
once, and rows that share a variable are gathered into blocks.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqp3

from substrate.arrays import Array
from substrate.composition.cone_program import ConeProgram, IntegerArray
from substrate.composition.structure import EliminatedVariables, Significance, Structure, apply_reflectors
from substrate.composition.structure_blocks import blocks_of, dense_rows, labels_of, parts_of

__all__ = ["find_structure", "renew"]

#: A variable in more rows than this, or a block with more variables, counts as dense.
_DEGREE, _BLOCK = 12, 24
#: Largest number of dense coordinates.
_LARGEST = 12_000
#: Number of dense coordinates from which their significance is told apart.
_MANY = 128


def find_structure(program: ConeProgram, dense: Iterable[int]) -> Structure | str:
    """Return the structure of a program whose ``dense`` columns are known, or why there is none."""
    if not program.quadratic:
        return "it has cones"
    chosen = np.zeros(program.q.size, dtype=bool)
    chosen[np.fromiter(dense, dtype=np.intp)] = True
    return _Finder(program, chosen).structure()


def renew(structure: Structure, program: ConeProgram) -> Structure | None:
    """Return the structure of a program that differs in P and q only; None where it differs in more."""
    old_program = structure.program
    is_same = (
        program.P.shape == old_program.P.shape
        and _equal(program.A, old_program.A)
        and np.array_equal(program.b, old_program.b)
        and np.array_equal(program.P.indptr, old_program.P.indptr)
        and np.array_equal(program.P.indices, old_program.P.indices)
        and np.array_equal(program.P.diagonal() > 0.0, old_program.P.diagonal() > 0.0)
    )
    if not is_same:
        return None
    s, weight = structure, program.P.diagonal()
    squares = np.concatenate([weight[s.eliminated.columns], weight[s.sparse_columns]])[s.squared]
    linear, P = _quadratic(program, s.eliminated, s.sparse_columns, s.dense, s.offset, s.reflectors)
    significance = None if s.significance is None else _significance(P, s.significance.squares)
    renewed = replace(s, program=program, squares=squares, linear=linear, P=P, significance=significance)
    kept = vars(s)
    vars(renewed).update({name: kept[name] for name in ("transposes", "definitions") if name in kept})
    return renewed


class _Finder:
    """The steps from a program to its structure."""

    def __init__(self, program: ConeProgram, dense: NDArray[np.bool_]) -> None:
        self.program, self.is_dense = program, dense
        self.E, self.I = program.equalities.copy(), sp.csr_array(program.A[program.linear])
        off_diagonal = sp.csc_array(program.P - sp.diags_array(program.P.diagonal()))
        for matrix in (self.E, self.I, off_diagonal):
            matrix.eliminate_zeros()
        #: Columns that P couples with others.
        self.coupled = np.diff(off_diagonal.indptr) > 0

    def structure(self) -> Structure | str:
        program = self.program
        eliminated = self._find_definitions()
        is_kept = np.ones(program.q.size, dtype=bool)
        is_kept[eliminated.columns] = False
        equal = np.setdiff1d(np.arange(program.equal.size), eliminated.rows)
        through = sp.csr_array(self.I[:, eliminated.columns])  # inequalities over the defined variables
        weight = program.P.diagonal()
        direct = sp.csr_array(self.I @ sp.diags_array(is_kept.astype(float)))
        # the dense columns: those given, those of further equalities, those that P couples, those of many rows
        in_equalities = np.diff(sp.csc_array(self.E[equal]).indptr) > 0
        is_dense = is_kept & (self.is_dense | in_equalities | self.coupled)
        squared = weight[eliminated.columns] > 0.0
        candidates = np.flatnonzero(is_kept & ~is_dense)
        over = abs(eliminated.over[:, candidates])
        pattern = sp.vstack([abs(direct[:, candidates]) + abs(through) @ over, over[squared]], format="csc")
        is_dense[candidates[np.diff(pattern.indptr) > _DEGREE]] = True
        while True:
            if int(is_dense.sum()) > _LARGEST:
                return f"it has more than {_LARGEST} dense variables"
            built = self._build(eliminated, is_kept, is_dense, equal, direct, through, squared, weight)
            if not isinstance(built, np.ndarray):
                return built
            is_dense = is_dense.copy()
            is_dense[built] = True

    def _find_definitions(self) -> EliminatedVariables:
        """Return a variable of its own for as many equalities as have one: not coupled by P, and in no other equality.

        A definition may use variables that are defined later; it is then written over those that remain.
        """
        program = self.program
        rows_left = np.arange(program.equal.size)
        free = ~self.is_dense & ~self.coupled
        used = np.diff(self.I.tocsc().indptr)
        levels = []
        while rows_left.size:
            E = self.E if rows_left.size == program.equal.size else self.E[rows_left]
            single = (np.bincount(E.indices, minlength=program.q.size) == 1) & free
            (at,) = np.nonzero(single[E.indices])
            at = at[np.argsort(E.indices[at])]
            columns, values = E.indices[at], E.data[at]
            rows = np.searchsorted(E.indptr, at, side="right") - 1
            order = np.lexsort((-np.abs(values), used[columns], rows))
            first = order[np.unique(rows[order], return_index=True)[1]]
            if not first.size:
                break
            columns, rows, values = columns[first], rows[first], values[first]
            over = E[rows]
            counts = np.diff(over.indptr)
            over.data *= np.repeat(-1.0 / values, counts)
            over.data[over.indices == np.repeat(columns, counts)] = 0.0  # the defined variable itself
            over.eliminate_zeros()
            constants = -program.b[program.equal[rows_left[rows]]] / values
            levels.append(
                EliminatedVariables(
                    columns=columns, rows=rows_left[rows].astype(np.intp), pivots=values, constants=constants, over=over
                )
            )
            free[columns] = False
            rows_left = np.delete(rows_left, rows)
        return _resolve_definitions(levels, program.q.size)

    def _build(
        self,
        eliminated: EliminatedVariables,
        is_kept: NDArray[np.bool_],
        is_dense: NDArray[np.bool_],
        equal: IntegerArray,
        direct: Any,
        through: Any,
        squared: NDArray[np.bool_],
        weight: Array,
    ) -> Structure | str | IntegerArray:
        """Return the structure with these dense columns; further ones where a block is too large."""
        program = self.program
        dense, sparse_columns = np.flatnonzero(is_dense), np.flatnonzero(is_kept & ~is_dense)
        over_own, over_dense = eliminated.over[:, sparse_columns], eliminated.over[:, dense]
        C = sp.vstack([direct[:, sparse_columns] + through @ over_own, over_own[squared]], format="csr")
        constants = np.concatenate(
            [program.b[program.linear] + through @ eliminated.constants, eliminated.constants[squared]]
        )
        # squares of single sparse variables are rows too
        single = np.flatnonzero(weight[sparse_columns] > 0.0)
        numbers = np.append(np.flatnonzero(squared), eliminated.columns.size + single)
        C = sp.vstack([C, _unit_rows(single, sparse_columns.size)], format="csr")
        constants = np.append(constants, np.zeros(single.size))
        C.eliminate_zeros()
        m, width = program.linear.size, eliminated.columns.size
        via = sp.vstack([through, _unit_rows(np.flatnonzero(squared), width)])
        F, T = dense_rows(sp.csr_array(direct[:, dense]), sp.csr_array(via), over_dense, C.shape[0])
        filled = (np.diff(C.indptr) + np.diff(T.indptr)) > 0
        if (constants[:m][~filled[:m]] < 0.0).any():
            return "a constraint without a variable is violated"
        keep = np.flatnonzero(filled)
        C, T, constants = C[keep], T[keep], constants[keep]
        numbers = numbers[filled[m:]]
        squares = np.append(weight[eliminated.columns], weight[sparse_columns])[numbers]
        labels = labels_of(C, T, sparse_columns.size, F.shape[0])
        sizes = np.bincount(labels[: sparse_columns.size]) if sparse_columns.size else np.zeros(1)
        large = sparse_columns[sizes[labels[: sparse_columns.size]] > _BLOCK] if sparse_columns.size else sparse_columns
        if large.size:
            return np.asarray(large)
        offset, reflectors = np.zeros(dense.size), None
        if equal.size:
            E = program.equalities[equal][:, dense].toarray()
            solved = _solved_equalities(E, -program.b[program.equal[equal]])
            if isinstance(solved, str):
                return solved
            offset, reflectors = solved
            constants = constants + T @ (F @ offset)
            F = apply_reflectors(*reflectors[:2], F.T, "T")[reflectors[2] :].T.copy()
        linear, P = _quadratic(program, eliminated, sparse_columns, dense, offset, reflectors)
        kept = keep[keep < m]
        blocks = blocks_of(C, T, labels, sparse_columns.size)
        dense_blocks = parts_of(F)
        significance = None
        if P.ndim == 1 and dense.size >= _MANY and len(dense_blocks) == 1:
            order, significance = _by_significance(P, F)
            dense, F, P, linear[sparse_columns.size :] = (
                dense[order],
                F[:, order].copy(),
                P[order],
                linear[sparse_columns.size :][order],
            )
        return Structure(
            program=program,
            sparse_columns=sparse_columns,
            dense=dense,
            eliminated=eliminated,
            offset=offset,
            reflectors=reflectors,
            equal=equal,
            P=P,
            F=F,
            dense_blocks=dense_blocks,
            C=C,
            T=T,
            constants=constants,
            squares=squares,
            squared=numbers,
            keep=kept,
            blocks=blocks,
            linear=linear,
            significance=significance,
        )


def _by_significance(P: Array, F: Array) -> tuple[IntegerArray, Significance | None]:
    """Return the columns in order of their part in the Newton matrix, the largest first."""
    squares = F * F
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(P > 0.0, squares.sum(axis=0) / P, np.inf)
    order = np.argsort(-shares, kind="stable")
    return order, _significance(P[order], np.asfortranarray(squares[:, order]))


def _significance(P: Array, squares: Array) -> Significance | None:
    """Return the significance; None where P has further entries."""
    if P.ndim != 1:
        return None
    over = np.flatnonzero(P > 0.0)
    return Significance(squares, squares[:, over] @ (1.0 / P[over]))


def _unit_rows(columns: IntegerArray, width: int) -> Any:
    """Return rows with a single one."""
    return sp.csr_array((np.ones(columns.size), (np.arange(columns.size), columns)), (columns.size, width))


def _quadratic(
    program: ConeProgram,
    eliminated: EliminatedVariables,
    sparse_columns: IntegerArray,
    dense: IntegerArray,
    offset: Array,
    reflectors: tuple[Array, Array, int] | None,
) -> tuple[Array, Array]:
    """Return the linear term and P (or its diagonal), over the coordinates."""
    q = program.q + eliminated.over.T @ program.q[eliminated.columns]
    within, linear = sp.csr_array(program.P[dense][:, dense]), q[dense]
    if reflectors is None and within.nnz == np.count_nonzero(within.diagonal()):
        return np.concatenate([q[sparse_columns], linear]), within.diagonal()
    P = within.toarray()
    if reflectors is not None:
        factor, tau, rank = reflectors
        linear = apply_reflectors(factor, tau, (linear + P @ offset)[:, None], "T")[rank:, 0]
        P = apply_reflectors(factor, tau, apply_reflectors(factor, tau, P, "T").T, "T")[rank:, rank:]
        P = (P + P.T) / 2.0
    return np.concatenate([q[sparse_columns], linear]), P


def _equal(first: Any, second: Any) -> bool:
    return first.shape == second.shape and all(
        np.array_equal(a, b)
        for a, b in ((first.indptr, second.indptr), (first.indices, second.indices), (first.data, second.data))
    )


def _resolve_definitions(levels: list[EliminatedVariables], width: int) -> EliminatedVariables:
    """Return all definitions, over the variables that none of them defines."""
    eliminated = EliminatedVariables(
        columns=np.zeros(0, np.intp),
        rows=np.zeros(0, np.intp),
        pivots=np.zeros(0),
        constants=np.zeros(0),
        over=sp.csr_array((0, width)),
    )
    for level in reversed(levels):
        inner = level.over[:, eliminated.columns]
        outer = np.ones(width)
        outer[eliminated.columns] = 0.0
        over = sp.csr_array(level.over @ sp.diags_array(outer) + inner @ eliminated.over)
        constants = level.constants + inner @ eliminated.constants
        eliminated = EliminatedVariables(
            columns=np.append(level.columns, eliminated.columns),
            rows=np.append(level.rows, eliminated.rows),
            pivots=np.append(level.pivots, eliminated.pivots),
            constants=np.append(constants, eliminated.constants),
            over=sp.csr_array(sp.vstack([over, eliminated.over])),
        )
    return eliminated


def _solved_equalities(E: Array, right: Array) -> tuple[Array, tuple[Array, Array, int]] | str:
    """Return a solution of E u = right, the reflectors whose first columns span the rows of E, and its rank."""
    factor, pivots, tau, _, _ = dgeqp3(np.asfortranarray(E.T))
    diagonal = np.abs(np.diagonal(factor))
    rank = int((diagonal > 1e-12 * diagonal.max(initial=0.0)).sum())
    triangle = np.triu(factor[:rank, :rank])
    first = np.linalg.solve(triangle.T, right[pivots[:rank] - 1]) if rank else np.zeros(0)
    offset = apply_reflectors(factor, tau, np.concatenate([first, np.zeros(E.shape[1] - rank)])[:, None], "N")[:, 0]
    missed = float(np.abs(E @ offset - right).max(initial=0.0))
    if missed > 1e-8 * (float(np.abs(right).max(initial=0.0)) + float(np.abs(E).max(initial=0.0))):
        return "its equalities contradict each other"
    return offset, (factor, tau, rank)
