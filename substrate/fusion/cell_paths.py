"""The record of a search over cells: what was tried, in one parameter or in several, and what is proved between."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from substrate.fusion.cell_search import Cell, CellSearch
from substrate.fusion.result import FusedPath, JointPath

__all__ = ["record_cells"]


def record_cells(
    names: Sequence[str], box: Sequence[tuple[float, float]], search: CellSearch, weight: float = 1.0
) -> FusedPath | JointPath:
    """Return the vertices with their validation errors, and the cells between them; ``weight`` divides the sums."""
    return _line(names[0], box[0], search, weight) if len(names) == 1 else _simplices(names, search, weight)


def _line(name: str, ends: tuple[float, float], search: CellSearch, weight: float) -> FusedPath:
    thetas = sorted(search.knots)
    errors = np.array([sum(knot.validation for knot in search.knots[theta]) for theta in thetas]) / weight
    knots = tuple(zip(*(search.knots[theta] for theta in thetas), strict=True))
    return FusedPath(
        parameter=name,
        values=np.array(thetas).ravel(),
        validation_errors=errors,
        knots=knots,
        coverage=ends,
        stop=search.stop,
        solves=search.solves,
    )


def _simplices(names: Sequence[str], search: CellSearch, weight: float) -> JointPath:
    thetas = list(search.knots)
    numbers = {theta: k for k, theta in enumerate(thetas)}
    errors = np.array([sum(knot.validation for knot in search.knots[theta]) for theta in thetas]) / weight
    knots = tuple(zip(*(search.knots[theta] for theta in thetas), strict=True))
    base = search.families[0].base
    simplices, bounds = [], []
    for cell in search.cells:
        for corners in _staircases(cell):
            simplices.append([numbers[base.join(*corner)] for corner in corners])
            bounds.append(cell.bound / weight)
    shaped = np.array(simplices, dtype=np.intp).reshape(-1, len(names) + 1)
    return JointPath(
        parameters=tuple(names),
        values=np.array(thetas),
        validation_errors=errors,
        knots=knots,
        simplices=shaped,
        bounds=np.array(bounds),
        stop=search.stop,
        solves=search.solves,
    )


def _staircases(cell: Cell) -> Iterator[list[tuple[tuple[float, ...], tuple[float, ...]]]]:
    """Return simplices that make up the product of both simplices of a cell, one for each way up both."""
    across, up = len(cell.corners) - 1, len(cell.places) - 1
    for steps in combinations(range(across + up), across):
        i, j = 0, 0
        corners = [(cell.corners[0], cell.places[0])]
        for step in range(across + up):
            i, j = (i + 1, j) if step in steps else (i, j + 1)
            corners.append((cell.corners[i], cell.places[j]))
        yield corners
