r"""One width per direction: the search of widths after a rotation of the inputs by gradients of a machine.

Widths of inputs are of no use to a function of few directions, :math:`f(x) = g(w^T x)`. The average gradient outer
product of a machine, in closed form (:mod:`substrate.least_squares.gradient_product`),

.. math:: M = V \Lambda V^T, \qquad x \mapsto V^T (x - \bar x) ,

has those directions for its first eigenvectors. It is one step of a recursive feature machine ([Radhakrishnan2024]_),
after which widths of the rotated inputs are searched as those of inputs are, from :math:`\Lambda_{cc}^{-1/2}` on. The
machine is a kernel of the inputs again (:class:`~substrate.kernels.Mapped`), and is weighed by its exact left-out
errors beside all others: where inputs themselves are what counts, it has no weight.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from problems.estimators.chosen.joint_descent import Trail
from problems.estimators.chosen.row_halves import sample_of
from problems.estimators.chosen.tasks import Task
from problems.estimators.chosen.width_rule import gradient_product, search_widths, widen_to_inputs
from substrate.kernels import RBF, Kernel, Mapped, Matern
from substrate.progress import Progress

__all__ = ["search_directions"]

#: Most inputs that are rotated: a kernel of directions has a number for every two of them.
_MOST_INPUTS = 50
#: Part of the kernels of a search of widths, which here starts from those that gradients give; and of many rows, where
#: it goes on from a descent on half of them.
_PART, _PART_OF_MANY = 2, 6
#: A direction with so large a share in one input is that input.
_ALONG_INPUT = 0.98


def search_directions(
    trails: Sequence[Trail], task: Task, budgets: tuple[int, int], progress: Progress
) -> list[tuple[Kernel, float]]:
    """Return the machine of one width per direction, if there is one: directions by the best of the descents that has
    derivatives, from the first kernel of a shared width that has.
    """
    smooth = [trail for trail in trails if isinstance(trail.kernel, (RBF, Matern)) and not trail.kernel.not_smooth]
    shared = [trail for trail in smooth if isinstance(getattr(trail.kernel, "sigma", None), float)]
    if not shared or not 2 <= task.X.shape[1] <= _MOST_INPUTS:
        return []
    best = min(smooth, key=lambda trail: trail.end.value)
    product = gradient_product(best.kernel, best.gamma, task)
    if not np.isfinite(product).all():
        return []
    directions = _directions(product)
    if (np.abs(directions).max(axis=1) >= _ALONG_INPUT).all():
        return []
    center = task.X.mean(axis=0)
    rotated = replace(task, X=np.ascontiguousarray((task.X - center) @ directions.T))
    first = min(shared, key=lambda trail: trail.end.value)
    rich = widen_to_inputs(first.kernel, rotated.X)
    if rich is None:
        return []
    part = _PART if sample_of(task) is None else _PART_OF_MANY
    few = (max(1, budgets[0] // part), max(1, budgets[1] // part))
    found = search_widths(rich, [first.kernel], rotated, first.gamma, None, few, progress)
    matrix, middle = tuple(map(tuple, directions.tolist())), tuple(center.tolist())
    return [(Mapped(trail.kernel, matrix, middle), trail.gamma) for trail in found]


def _directions(product: np.ndarray) -> np.ndarray:
    """Return the eigenvectors of M, one a row, the largest eigenvalue first, each with its largest entry positive."""
    vectors = np.linalg.eigh(product)[1][:, ::-1].T
    largest = np.argmax(np.abs(vectors), axis=1)
    signs = np.where(vectors[np.arange(vectors.shape[0]), largest] < 0.0, -1.0, 1.0)
    return np.asarray(signs[:, None] * vectors)
