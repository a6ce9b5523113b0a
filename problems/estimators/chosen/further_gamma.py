"""What a search of gamma looks at beyond its range, on all rows and on a basis: a few rows in doubled precision."""

from dataclasses import replace
from typing import Any

import numpy as np

from problems.estimators.chosen.candidates import EvaluatedKernel
from problems.estimators.chosen.tasks import Task, centred_points
from problems.estimators.reduced.prepared import PreparedRows
from substrate.arrays import Array, is_sparse
from substrate.namespaces import is_device_array, to_numpy
from substrate.reduced.folds import Folds
from substrate.search.doubled_criteria import FewRows, least_further
from substrate.streaming.source import LEAF

__all__ = ["look_further", "look_further_on_a_basis"]


def look_further(best: EvaluatedKernel, task: Task) -> EvaluatedKernel:
    """Return the winner with the least criterion that is seen beyond its range, for rows and splits of a task."""
    n, Y = task.Y.shape[0], task.Y
    if task.gammas is not None or best.search.beyond is None or task.border.slopes or _is_alien(best, task.X):
        return best
    if task.pooled and not (to_numpy(Y) != 0.0).all():  # every machine has rows of its own
        return best
    weights = np.ones(n) if task.weights is None else to_numpy(task.weights)
    splits: Any = task.splits if task.criterion == "folds" else [(np.arange(n), None)]
    points = centred_points(best.kernel, task.X)[0]
    if task.check is not None:
        points = np.concatenate(centred_points(best.kernel, task.X, task.check[0]))
        Y, more = np.concatenate([Y, task.check[1]]), task.check[1].shape[0]
        weights = np.concatenate([weights, np.ones(more) if task.check_weights is None else task.check_weights])
        splits = [(np.arange(n), n + np.arange(more))]
    rows = FewRows(
        kernel=best.kernel,
        points=points,
        pivots=points.shape[0],
        Y=to_numpy(Y),
        weights=weights,
        constant=task.border.constant,
    )
    return _with_least(best, rows, task.criterion, splits)


def look_further_on_a_basis(
    best: EvaluatedKernel, prepared: PreparedRows, criterion: str, folds: Folds | None
) -> EvaluatedKernel:
    """Return the winner with the least criterion that is seen beyond its range, for a machine on a basis."""
    rows, basis = prepared.rows, prepared.rows.values.points
    m, n = basis.shape[0], rows.n_rows
    if best.search.beyond is None or m + n > LEAF or _is_alien(best, basis):
        return best
    (block,) = rows.source.blocks(0, n, LEAF)
    if is_sparse(block.X):
        return best
    weights = prepared.weighed.unit * (np.ones(n) if block.weights is None else to_numpy(block.weights))
    Y = to_numpy(block.Y)
    numbers = m + np.arange(n)
    splits: list[tuple[Array, Any]] = [(numbers, None)]
    if folds is not None:
        labels = np.asarray(folds.labels(slice(0, n), block.Y))
        splits = [(numbers[labels != fold], numbers[labels == fold]) for fold in range(folds.count)]
    start = (np.zeros((m, Y.shape[1])), np.ones(m))
    points = FewRows(
        kernel=best.kernel,
        points=np.concatenate([basis, block.X]),
        pivots=m,
        Y=np.concatenate([start[0], Y]),
        weights=np.append(start[1], weights),
    )
    return _with_least(best, points, criterion, splits)


def _is_alien(best: EvaluatedKernel, X: Any) -> bool:
    """Return whether there are no points on the host from which the kernel could be computed with more digits."""
    return best.kernel.pairwise or is_sparse(X) or is_device_array(X)


def _with_least(best: EvaluatedKernel, rows: FewRows, criterion: str, splits: Any) -> EvaluatedKernel:
    search = best.search
    least = least_further(rows, criterion, splits, search)
    if least is None:
        return best
    # what is seen of ten decades takes the place of a fall that is continued there
    passes = search.outside is None or all(row.passes for row in search.rows())
    seen = search.beyond if passes else np.minimum(search.outside, search.values)
    return replace(best, search=replace(search, beyond=np.minimum(seen, least)))
