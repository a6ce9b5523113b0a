"""The parts of a structured program: its distinct rows of kernel values, and its blocks of sparse variables."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from substrate.arrays import Array
from substrate.composition.cone_program import IntegerArray
from substrate.composition.structure import Blocks

__all__ = ["blocks_of", "dense_rows", "labels_of", "parts_of"]

#: Largest number of patterns of entries in rows of F that are told apart.
_PATTERNS = 32
#: Relative difference up to which a row counts as a multiple of another.
_SAME = 1e-14


def dense_rows(direct: Any, via: Any, over: Any, height: int) -> tuple[Array, Any]:
    """Return F and T with direct + via @ over = T F, in ``height`` rows (those missing are zero).

    Rows of F that are multiples of each other are kept once.
    """
    used = np.flatnonzero(np.diff(over.indptr) > 0)
    via = sp.csr_array(via[:, used])
    via.eliminate_zeros()
    beside = np.zeros(via.shape[0], dtype=bool)
    beside[: direct.shape[0]] = np.diff(direct.indptr) > 0
    mixed = np.flatnonzero(beside | (np.diff(via.indptr) > 1))
    plain = np.flatnonzero(~beside & (np.diff(via.indptr) == 1))
    direct_rows = sp.csr_array(direct[mixed[mixed < direct.shape[0]]])
    direct_rows = sp.vstack([direct_rows, sp.csr_array((mixed.size - direct_rows.shape[0], direct_rows.shape[1]))])
    chosen = np.unique(via[plain].indices)
    rows = np.vstack([over[used[chosen]].toarray(), (direct_rows + via[mixed] @ over[used]).toarray()])
    places = np.searchsorted(chosen, via.indices[via.indptr[plain]])
    first = sp.csr_array(
        (
            np.append(via.data[via.indptr[plain]], np.ones(mixed.size)),
            (np.append(plain, mixed), np.append(places, chosen.size + np.arange(mixed.size))),
        ),
        (height, rows.shape[0]),
    )
    filled = np.flatnonzero(rows.any(axis=1)) if rows.size else np.zeros(0, np.intp)
    owner, scale = _owners(rows[filled])
    kept, place = np.unique(owner, return_inverse=True)
    T = sp.csr_array(first @ sp.csr_array((scale, (filled, place)), (rows.shape[0], kept.size)))
    T.eliminate_zeros()
    return np.ascontiguousarray(rows[filled][kept]), T


def _owners(rows: Array) -> tuple[IntegerArray, Array]:
    """Return for each row an equal one up to a factor, and the factor."""
    owner, scale = np.arange(rows.shape[0]), np.ones(rows.shape[0])
    if not rows.size:
        return owner, scale
    at = np.abs(rows).argmax(axis=1)
    pivots = rows[np.arange(rows.shape[0]), at]
    keys = (rows @ np.random.default_rng(0).uniform(1.0, 2.0, rows.shape[1])) / pivots
    previous = -1
    for i in np.argsort(keys, kind="stable"):
        if previous >= 0 and abs(keys[i] - keys[previous]) <= 1e-9 * abs(keys[i]):
            factor = pivots[i] / rows[previous, at[i]] if rows[previous, at[i]] else 0.0
            if np.abs(rows[i] - factor * rows[previous]).max() <= _SAME * abs(pivots[i]):
                owner[i], scale[i] = previous, factor
                continue
        previous = int(i)
    return owner, scale


def labels_of(C: Any, T: Any, n_sparse: int, dense: int) -> IntegerArray:
    """Return the block of each sparse variable and of each row of F."""
    joined = sp.hstack([C, T], format="csr")
    pattern = sp.csr_array((np.ones(joined.nnz), joined.indices, joined.indptr), shape=joined.shape)
    m = joined.shape[0]
    graph = sp.block_array([[None, pattern], [pattern.T, None]], format="csr")
    _, labels = connected_components(graph, directed=False)
    return np.asarray(labels[m:])


def blocks_of(C: Any, T: Any, labels: IntegerArray, n_sparse: int) -> tuple[Blocks, ...]:
    """Return blocks of equal shape, together."""
    joined = sp.hstack([C, T], format="csr")
    # rows without a variable are not there: the first entry of a row names its block
    row_label = labels[joined.indices[joined.indptr[:-1]]]
    number = int(labels.max(initial=-1)) + 1
    n_rows = np.bincount(row_label, minlength=number)
    n_own, n_dense = np.bincount(labels[:n_sparse], minlength=number), np.bincount(labels[n_sparse:], minlength=number)
    blocks = []
    shapes = np.column_stack([n_rows, n_own, n_dense])
    row_order, rank_row = np.argsort(row_label, kind="stable"), np.cumsum(np.append(0, n_rows))
    own_order, rank_own = np.argsort(labels[:n_sparse], kind="stable"), np.cumsum(np.append(0, n_own))
    dense_order, rank_dense = np.argsort(labels[n_sparse:], kind="stable"), np.cumsum(np.append(0, n_dense))
    place = np.zeros(labels.size, dtype=np.intp)
    place[own_order] = np.arange(n_sparse) - rank_own[labels[:n_sparse][own_order]]
    place[n_sparse + dense_order] = (
        np.arange(labels.size - n_sparse)
        - rank_dense[labels[n_sparse:][dense_order]]
        + n_own[labels[n_sparse:][dense_order]]
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
        blocks.append(Blocks(rows, own_at, dense_at, coefficients))
    return tuple(blocks)


def parts_of(F: Array) -> tuple[tuple[IntegerArray, IntegerArray], ...]:
    """Return rows of F with the columns in which they have entries: products with zeros are spared."""
    if not F.size:
        return ()
    patterns, which = np.unique(F != 0.0, axis=0, return_inverse=True) if _worthwhile(F) else (None, None)
    if patterns is None or patterns.shape[0] > _PATTERNS:
        return ((np.arange(F.shape[0]), np.arange(F.shape[1])),)
    return tuple((np.flatnonzero(which == i), np.flatnonzero(pattern)) for i, pattern in enumerate(patterns))


def _worthwhile(F: Array) -> bool:
    return bool(2 * np.count_nonzero(F) < F.size)
