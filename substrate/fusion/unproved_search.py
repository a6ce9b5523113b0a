"""The search over several parameters where nothing can be proved: a grid, then the neighbourhood of its best knot."""

import numpy as np

from substrate.errors import SolverError
from substrate.fusion.affine_program import Corner
from substrate.fusion.box import Box, levels
from substrate.fusion.knot_store import KnotStore
from substrate.fusion.simplex_search import Progress, Searched, cell_simplices
from substrate.search.best_first import end_by

__all__ = ["searched_without_bounds"]

_UNPROVED = "the loss is not strongly convex in f, or does not determine the predictions"
#: Steps in each parameter, as a share of its value, at which the neighbourhood is left.
_FINEST = 0.02


def searched_without_bounds(store: KnotStore, ends: Box, budget: int, progress: Progress) -> Searched:
    """Return the knots of a geometric grid, and then steps from the best one that are halved where they do not help."""
    stop = "the best knot of a grid is settled"
    try:
        for corner in dict.fromkeys(c for cell in cell_simplices([levels(e, len(ends)) for e in ends]) for c in cell):
            if store.solves + len(store.folds) > budget:
                break
            store.add(corner)
        step = 0.5
        while step >= _FINEST and store.solves + len(store.folds) <= budget:
            best = store.best
            progress(store.solves, float(store.squares[best]), -np.inf)
            for corner in _neighbours(store.corners[best], ends, step):
                if store.solves + len(store.folds) <= budget:
                    store.add(corner)
            step = step if store.best != best else 0.5 * step
        if store.solves + len(store.folds) > budget:
            stop = f"the budget of {budget} solves is spent"
    except (KeyboardInterrupt, SolverError) as error:
        stop = end_by(error, bool(store.corners))
    return Searched(simplices=(), bounds=np.zeros(0), lower_bound=-np.inf, stop=stop, unproved=_UNPROVED)


def _neighbours(corner: Corner, ends: Box, step: float) -> list[Corner]:
    neighbours = []
    for k, (low, high) in enumerate(ends):
        for factor in (1.0 - step, 1.0 / (1.0 - step)):
            neighbour = list(corner)
            neighbour[k] = float(np.clip(corner[k] * factor, low, high))
            neighbours.append(tuple(neighbour))
    return neighbours
