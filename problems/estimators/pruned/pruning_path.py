r"""The pruning path: machines on fewer and fewer rows, those of the smallest support values removed first.

[Suykens2002]_ Algorithm 2: fit, sort :math:`|\alpha_k|`, remove the smallest few, fit again, until a number of rows is
reached or the performance index degrades; then, if requested, choose :math:`\gamma` and the kernel's widths again
nearby and continue. With fixed weights the fits are down-dated; with new weights at each step every machine is
refitted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from problems.estimators.pruned.performance_index import Snapshot
from problems.estimators.pruned.pruning_fit import Line, Pruning, Rows, Setting, as_step, fitted, robust_fit
from problems.estimators.shared.encoding import PruningStep
from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.kernels import Kernel

__all__ = ["Pruned", "prune"]

#: Factors of gamma and of the widths tried around the present ones, and the number of moves of the centre.
_GAMMAS, _WIDTHS, _MOVES = (0.25, 1.0, 4.0), (2.0 / 3.0, 1.0, 1.5), 4


@dataclass(frozen=True, slots=True)
class Pruned:
    """Every machine of the path, the number of the chosen one, and its kernel matrix of all rows.

    ``restarts`` are the numbers of rows at which down-dating had lost its accuracy and a new factorisation was made.
    """

    path: tuple[PruningStep, ...]
    chosen: int
    gram: Gram
    restarts: tuple[int, ...]


def prune(task: Pruning, kernel: Kernel, gamma: float) -> Pruned:
    """Prune until a number of rows is reached, or the index has degraded."""
    setting = Setting.of(task, kernel, gamma)
    everyone = np.arange(task.Y.shape[0])
    weights = np.ones(everyone.size)
    if task.weighting is not None:
        weights = robust_fit(task, setting.gram, gamma, everyone)[2]
        setting.gram.release()
        task = replace(task, index=replace(task.index, weights=weights))
    restarts: list[int] = []
    steps = _machines(task, setting, everyone, weights, restarts)
    path = [next(steps)]
    limit = task.limit(path[0].score)
    while path[-1].size > task.least:
        step, before = next(steps), setting
        if step.score > limit and task.retune:
            better, found = _retuned(task, setting, step, weights)
            if better.score < step.score and (better.score <= limit or task.n_support is not None):
                step, setting = better, found
                steps = _machines(task, setting, step.rows, weights, restarts)
                next(steps)  # the machine just retuned
            if task.n_support is not None:  # the number decides: search again when the next machine is worse
                limit = max(limit, task.limit(step.score))
        path.append(step)
        if step.score > limit and task.n_support is None:
            return Pruned(tuple(path), len(path) - 2, before.gram, tuple(restarts))
    return Pruned(tuple(path), len(path) - 1, setting.gram, tuple(restarts))


def _machines(
    task: Pruning, setting: Setting, rows: Rows, weights: Array, restarts: list[int]
) -> Iterator[PruningStep]:
    """The machine on these rows and those after it, down to the fewest rows allowed."""
    refits, follows = _refitted(task, setting, rows, weights), _down_dated(task, setting, rows, weights, restarts)
    for machines in refits if task.reweight else follows:
        for machine, score in zip(machines, setting.scores(task, machines), strict=True):
            yield as_step(setting, machine, score)


def _refitted(task: Pruning, setting: Setting, rows: Rows, weights: Array) -> Iterator[list[Snapshot]]:
    while True:
        machine = fitted(task, setting, rows, weights)
        yield [machine]
        rows = task.staying(machine)


def _down_dated(
    task: Pruning, setting: Setting, rows: Rows, weights: Array, restarts: list[int]
) -> Iterator[list[Snapshot]]:
    while True:
        line = Line(task, setting, rows, weights)
        machines = [line.machine]
        while machines:
            yield machines
            last = machines[-1]
            try:
                machines = line.batch()
            except SolverError:
                machines = []
        # down-dating has lost its accuracy: a new fit of the next machine, and a new line from there
        rows = task.staying(last)
        restarts.append(rows.size)


def _retuned(task: Pruning, setting: Setting, step: PruningStep, weights: Array) -> tuple[PruningStep, Setting]:
    """The best machine on the same rows with gamma and widths nearby; the search moves while it improves."""
    best, centre = step, setting
    for _ in range(_MOVES):
        found, where = best, centre
        for width in _WIDTHS:
            kernel = _wider(centre.kernel, width)
            if kernel is None:
                continue
            tried = centre if kernel == centre.kernel else Setting.of(task, kernel, centre.gamma)
            for factor in _GAMMAS:
                if width == factor == 1.0:
                    continue
                other = replace(tried, gamma=factor * centre.gamma)
                machine = fitted(task, other, step.rows, weights)
                (score,) = other.scores(task, [machine])
                if score < found.score:
                    found, where = as_step(other, machine, score, retuned=True), other
        if found is best:
            break
        best, centre = found, where
    return best, centre


def _wider(kernel: Kernel, factor: float) -> Kernel | None:
    """The kernel with all its widths multiplied, or None where it has none."""
    if factor == 1.0:
        return kernel
    widths = {
        name: factor * value
        for name, value in kernel.get_params().items()
        if name.rpartition("__")[2] == "sigma" and isinstance(value, float)
    }
    return kernel.with_params(**widths) if widths else None
