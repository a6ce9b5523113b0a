"""Halves of the rows of a task, for searches whose choice is validated.

A half has the first of every two rows in an order that does not depend on that of the rows, nor on the units of the
inputs; equal rows are in the same half, and classes in both in proportion.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from problems.estimators.chosen.tasks import Task

__all__ = ["Rows", "halves", "on_rows"]

Rows = NDArray[np.intp]
#: Rows that a half must have at least.
_FEWEST = 4


def halves(task: Task) -> tuple[Rows, Rows] | None:
    """Return two halves of the rows, equal rows together, classes in proportion, whatever the order and unit of the
    rows.
    """
    _, groups = np.unique(task.X, axis=0, return_inverse=True)
    groups = groups.ravel()
    kinds = np.unique(task.Y, axis=0, return_inverse=True)[1].ravel() if task.pooled else np.zeros_like(groups)
    kind = np.full(int(groups.max()) + 1, kinds.max())
    np.minimum.at(kind, groups, kinds)
    # by chance, since in the order of the rows' values the halves could differ in one input
    place = np.lexsort((np.random.default_rng(0).permutation(kind.size), kind))
    first = np.zeros(kind.size, dtype=bool)
    first[place[::2]] = True
    row_sets = np.flatnonzero(first[groups]), np.flatnonzero(~first[groups])
    if min(rows.size for rows in row_sets) < _FEWEST or any(np.unique(kinds[p]).size <= kinds.max() for p in row_sets):
        return None
    return row_sets


def on_rows(task: Task, rows: Rows) -> Task:
    """Return the same task on some of the rows; folds are cut down to them."""
    place = np.full(task.Y.shape[0], -1)
    place[rows] = np.arange(rows.size)
    splits = [tuple(place[side][place[side] >= 0] for side in split) for split in task.splits]
    kept = tuple((train, valid) for train, valid in splits if train.size >= 2 and valid.size >= 1)
    weights = None if task.weights is None else task.weights[rows]
    criterion = task.criterion if kept or not task.splits else "loo"
    blocks = None if task.blocks is None else task.blocks.restrict(rows)
    return replace(
        task, X=task.X[rows], Y=task.Y[rows], splits=kept, weights=weights, criterion=criterion, blocks=blocks
    )
