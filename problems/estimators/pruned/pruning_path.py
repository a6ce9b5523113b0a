r"""The pruning path: machines on fewer and fewer rows, those of the smallest support values removed first.

[Suykens2002]_ Algorithm 2: fit, sort :math:`|\alpha_k|`, remove the smallest few, fit again, until a number of rows is
reached or the performance index degrades; then, if requested, choose :math:`\gamma` and the kernel's widths again
nearby and continue. Where rows have weights :math:`v_k`, given, robust or both, every machine is the weighted LS-SVM,
:math:`\alpha_k = \gamma v_k e_k`, and rows leave by these :math:`|\alpha_k|`. With fixed weights the machines after one
factorisation, a :class:`Line`, are down-dated (:mod:`substrate.least_squares.pruning`); with new weights at each step
every machine is refitted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from problems.estimators.full.reweighted_fits import reweighted_fits
from problems.estimators.pruned.performance_index import Pruning, Rows, Snapshot
from problems.estimators.shared.encoding import PruningStep
from substrate.arrays import Array, check_memory
from substrate.certificates.rows import roundoff
from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.leave_one_out import projected_inverse
from substrate.least_squares.pruning import DownDating
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_system import solve_saddle_system

__all__ = ["Pruned", "PruningLine", "PruningSetting", "prune"]

#: Number of rows removed before the machines in between are scored together, by one product of matrices.
_BATCH = 64
#: Factors of gamma and of the widths tried around the present ones, and the number of moves of the centre.
_GAMMAS, _WIDTHS, _MOVES = (0.25, 1.0, 4.0), (2.0 / 3.0, 1.0, 1.5), 4


@dataclass(frozen=True, slots=True)
class PruningSetting:
    """A kernel and a gamma, with their kernel matrices."""

    kernel: Kernel
    gamma: float
    gram: Gram
    cross: Array | None

    @classmethod
    def of(cls, task: Pruning, kernel: Kernel, gamma: float) -> "PruningSetting":
        """Return the matrices of a kernel on the rows to prune, and with the validation rows if they are used."""
        gram = Gram.of(kernel, task.X)
        if not kernel.trusted:
            gram.check_definite()
        check_memory(
            36.0 * gram.n**2,
            f"pruning {gram.n} rows: kernel matrix, its inverse, a copy and the path",
            "Prune a reduced set of rows.",
        )
        if task.index.name != "validation":
            return cls(kernel, gamma, gram, None)
        return cls(kernel, gamma, gram, kernel(task.index.points, None if kernel.pairwise else task.X))

    def scores(self, task: Pruning, machines: Sequence[Snapshot]) -> list[float]:
        """Return the index of machines on fewer and fewer rows."""
        return task.index.scores(self.gram, self.cross, machines)


def _fit_snapshot(task: Pruning, setting: PruningSetting, rows: Rows, weights: Array) -> Snapshot:
    """Return the machine on some of the rows, by a separate fit; with ``reweight``, with new weights."""
    if not task.reweight:
        return PruningLine(task, setting, rows, weights).machine
    gram = setting.gram.restrict(rows)
    alpha, bias, v = _robust_fit(task, gram, setting.gamma, rows)
    ridge = Regularization(setting.gamma).ridge(task.weigh_rows(rows, v))
    B = projected_inverse(gram, ridge) if task.index.leaves_out else np.ones((1, 1))
    outputs = task.index.outputs_at_kept_rows(task.Y[rows], ridge, rows, alpha, B.diagonal(), lambda: B)
    return Snapshot(rows=rows, support_values=alpha, bias=bias, weights=v, outputs=outputs)


def _robust_fit(task: Pruning, gram: Gram, gamma: float, rows: Rows) -> tuple[Array, Array, Array]:
    """Run Algorithm 1 on some of the rows: support values, bias and weights."""
    assert task.weighting is not None
    weights = np.ones(rows.size) if task.given is None else task.given[rows]
    solved, history = reweighted_fits(gram, task.Y[rows, 0], gamma, weights, task.weighting, task.scale, 1, 0.0)
    return solved.support_values[:, None], np.atleast_1d(solved.bias), history[-1].weights


class PruningLine:
    """The machine on some of the rows, and those after it by down-dating; ``weights`` are robust ones of all rows."""

    def __init__(self, task: Pruning, setting: PruningSetting, rows: Rows, weights: Array) -> None:
        self._task, self._base, self._weights = task, rows, weights[rows]
        self._part = setting.gram.restrict(rows)
        self._ridge = Regularization(setting.gamma).ridge(task.weigh_rows(rows, self._weights))
        solved = solve_saddle_system(self._part, task.Y[rows], self._ridge)
        self._alpha, self._bias = solved.support_values, solved.bias
        self._engine: DownDating | None = None
        self.machine = self._snapshot(np.arange(rows.size), self._alpha, self._bias)

    def batch(self) -> list[Snapshot]:
        """Return the next machines, as many as are scored together; none if they do not solve their systems."""
        engine = self._start()
        machines: list[Snapshot] = []
        removed = 0
        while removed < _BATCH and self.machine.rows.size > self._task.least:
            gone = self._task.leavers(self.machine.rows, self.machine.support_values)
            engine.remove(np.searchsorted(self._base, gone))
            removed += gone.size
            self.machine = self._snapshot(engine.rows, engine.kept_values, engine.bias)
            machines.append(self.machine)
        return machines if self._sound(engine) else []

    def _start(self) -> DownDating:
        if self._engine is None:
            self._engine = DownDating(self._part, self._alpha, self._bias)
        return self._engine

    def _snapshot(self, kept: Rows, alpha: Array, bias: Array) -> Snapshot:
        """Return the machine on the rows ``left`` of the first ones, with their support values."""
        index, rows = self._task.index, self._base[kept]
        engine = self._start() if index.leaves_out else None
        diagonal = np.ones(kept.size) if engine is None else engine.diagonal
        outputs = index.outputs_at_kept_rows(
            self._task.Y[rows], self._ridge[kept], rows, alpha, diagonal, lambda: self._start().inverse()
        )
        return Snapshot(rows=rows, support_values=alpha, bias=bias, weights=self._weights[kept], outputs=outputs)

    def _sound(self, engine: DownDating) -> bool:
        """Return whether the last machine solves its system as well as LAPACK would."""
        kept, alpha, bias, Y = engine.rows, engine.support_values, engine.bias, self._task.Y[self._base]
        products = self._part.product(alpha)
        residual = (Y - products - self._ridge[:, None] * alpha - bias)[kept]
        norm_k = float(self._part.diagonal.max()) + float(self._ridge[kept].max())
        scale = norm_k * np.linalg.norm(alpha) + np.sqrt(kept.size) * np.abs(bias).max() + np.linalg.norm(Y[kept])
        size = np.hypot(np.linalg.norm(residual), np.abs(alpha.sum(axis=0)).max())
        return bool(size <= roundoff(self._base.size) * scale)


def _as_step(setting: PruningSetting, machine: Snapshot, score: float, retuned: bool = False) -> PruningStep:
    """Return the record of a machine, without the column axis where it has one output."""
    is_single = machine.support_values.shape[1] == 1
    alpha = np.ascontiguousarray(machine.support_values[:, 0] if is_single else machine.support_values)
    bias = float(machine.bias[0]) if is_single else machine.bias
    return PruningStep(
        rows=machine.rows,
        support_values=alpha,
        bias=bias,
        weights=machine.weights,
        score=score,
        gamma=setting.gamma,
        kernel=setting.kernel,
        retuned=retuned,
    )


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
    setting = PruningSetting.of(task, kernel, gamma)
    everyone = np.arange(task.Y.shape[0])
    weights = np.ones(everyone.size)
    if task.weighting is not None:
        weights = _robust_fit(task, setting.gram, gamma, everyone)[2]
        setting.gram.release()
    if task.weighting is not None or task.given is not None:
        task = replace(task, index=replace(task.index, weights=task.weigh_rows(everyone, weights)))
    restarts: list[int] = []
    steps = _machines(task, setting, everyone, weights, restarts)
    path = [next(steps)]
    limit = task.limit(path[0].score)
    while path[-1].size > task.least:
        step, before = next(steps), setting
        if step.score > limit and task.retune:
            better, better_setting = _retune(task, setting, step, weights)
            if better.score < step.score and (better.score <= limit or task.n_support is not None):
                step, setting = better, better_setting
                steps = _machines(task, setting, step.rows, weights, restarts)
                next(steps)  # the machine just retuned
            if task.n_support is not None:  # the number decides: search again when the next machine is worse
                limit = max(limit, task.limit(step.score))
        path.append(step)
        if step.score > limit and task.n_support is None:
            return Pruned(tuple(path), len(path) - 2, before.gram, tuple(restarts))
    return Pruned(tuple(path), len(path) - 1, setting.gram, tuple(restarts))


def _machines(
    task: Pruning, setting: PruningSetting, rows: Rows, weights: Array, restarts: list[int]
) -> Iterator[PruningStep]:
    """Yield the machine on these rows and those after it, down to the fewest rows allowed."""
    refits, follows = _refit(task, setting, rows, weights), _down_date(task, setting, rows, weights, restarts)
    for machines in refits if task.reweight else follows:
        for machine, score in zip(machines, setting.scores(task, machines), strict=True):
            yield _as_step(setting, machine, score)


def _refit(task: Pruning, setting: PruningSetting, rows: Rows, weights: Array) -> Iterator[list[Snapshot]]:
    while True:
        machine = _fit_snapshot(task, setting, rows, weights)
        yield [machine]
        rows = task.staying(machine)


def _down_date(
    task: Pruning, setting: PruningSetting, rows: Rows, weights: Array, restarts: list[int]
) -> Iterator[list[Snapshot]]:
    while True:
        line = PruningLine(task, setting, rows, weights)
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


def _retune(
    task: Pruning, setting: PruningSetting, step: PruningStep, weights: Array
) -> tuple[PruningStep, PruningSetting]:
    """Return the best machine on the same rows with gamma and widths nearby; the search moves while it improves."""
    best, centre = step, setting
    for _ in range(_MOVES):
        best_step, where = best, centre
        for width in _WIDTHS:
            kernel = _wider(centre.kernel, width)
            if kernel is None:
                continue
            tried = centre if kernel == centre.kernel else PruningSetting.of(task, kernel, centre.gamma)
            for factor in _GAMMAS:
                if width == factor == 1.0:
                    continue
                candidate = replace(tried, gamma=factor * centre.gamma)
                machine = _fit_snapshot(task, candidate, step.rows, weights)
                (score,) = candidate.scores(task, [machine])
                if score < best_step.score:
                    best_step, where = _as_step(candidate, machine, score, retuned=True), candidate
        if best_step is best:
            break
        best, centre = best_step, where
    return best, centre


def _wider(kernel: Kernel, factor: float) -> Kernel | None:
    """Return the kernel with all its widths multiplied, or None where it has none."""
    if factor == 1.0:
        return kernel
    scales = kernel.scales().items()
    widths = {name: factor * value for name, value in scales if name.rpartition("__")[2].startswith("sigma")}
    return kernel.with_scales(widths) if widths else None
