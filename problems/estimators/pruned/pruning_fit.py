r"""One machine of a pruning path, by a separate fit or down-dated from the previous one.

What to prune is a :class:`Pruning`; a kernel and a gamma with their matrices are a :class:`Setting`; :func:`fitted`
fits the machine on some of the rows, and a :class:`Line` has the machines after one factorisation, each without the
rows of the smallest support values of the previous one (:mod:`substrate.closed_form.pruning`). [Suykens2002]_
Algorithm 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems.estimators.full.robust import reweighted_fits
from problems.estimators.pruned.performance_index import Index, Snapshot
from problems.estimators.shared.encoding import PruningStep, row_sizes
from substrate.arrays import Array, check_memory
from substrate.certificates.rows import roundoff
from substrate.closed_form.leave_one_out import projected_inverse
from substrate.closed_form.pruning import DownDating
from substrate.closed_form.saddle_system import ridge_of, solve_saddle_system
from substrate.gram import Gram
from substrate.kernels import Kernel

__all__ = ["Line", "Pruning", "Setting", "as_step", "fitted", "robust_fit"]

Rows = NDArray[np.intp]

#: Number of rows removed before the machines in between are scored together, by one product of matrices.
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Pruning:
    """The data of pruning, and when it stops.

    Parameters
    ----------
    X, Y
        Rows, and targets, one column per machine.
    groups
        The class of each row where the last row of a class must be kept, or None.
    step
        A share of the rows left, or a number of rows, to remove at a time.
    n_support
        The number of rows to stop at; None leaves the decision to the index.
    index, growth, relative
        The index, and the growth allowed over that of the whole machine: relative to it, or absolute.
    retune
        Whether gamma and the kernel's widths are chosen again where the index degrades.
    weighting, scale, reweight
        The robust weights, if any, and whether every step computes its own.
    """

    X: Any
    Y: Array
    groups: NDArray[np.intp] | None
    step: float | int
    n_support: int | None
    index: Index
    growth: float
    relative: bool
    retune: bool
    weighting: str | None = None
    scale: str = "iqr"
    reweight: bool = False

    def limit(self, score: float) -> float:
        """The largest index that does not count as degraded."""
        return score * (1.0 + self.growth) if self.relative else score + self.growth

    @property
    def least(self) -> int:
        """The number of rows that must be kept."""
        fewest = 2 if self.groups is None else max(2, int(self.groups.max()) + 1)
        return fewest if self.n_support is None else max(fewest, self.n_support)

    def leavers(self, rows: Rows, alpha: Array) -> Rows:
        """The rows of the smallest support values: a step of them, at least one, and never the last of a class."""
        wanted = self.step if isinstance(self.step, int) else max(1, int(self.step * rows.size))
        wanted = min(wanted, rows.size - self.least)
        order = np.argsort(row_sizes(alpha), kind="stable")
        if self.groups is None:
            return rows[order[:wanted]]
        members = np.bincount(self.groups[rows])
        chosen: list[int] = []
        for row in rows[order]:
            if len(chosen) == wanted:
                break
            if members[self.groups[row]] > 1:
                members[self.groups[row]] -= 1
                chosen.append(int(row))
        return np.array(chosen, dtype=np.intp)

    def staying(self, machine: Snapshot) -> Rows:
        """The rows left after the next step."""
        return np.setdiff1d(machine.rows, self.leavers(machine.rows, machine.support_values))


@dataclass(frozen=True, slots=True)
class Setting:
    """A kernel and a gamma, with their kernel matrices."""

    kernel: Kernel
    gamma: float
    gram: Gram
    cross: Array | None

    @classmethod
    def of(cls, task: Pruning, kernel: Kernel, gamma: float) -> "Setting":
        """The matrices of a kernel on the rows to prune, and with the validation rows if they are used."""
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
        """The index of machines on fewer and fewer rows."""
        return task.index.scores(self.gram, self.cross, machines)


def fitted(task: Pruning, setting: Setting, rows: Rows, weights: Array) -> Snapshot:
    """The machine on some of the rows, by a separate fit; with ``reweight``, with new weights."""
    if not task.reweight:
        return Line(task, setting, rows, weights).machine
    part = setting.gram.block(rows)
    alpha, bias, v = robust_fit(task, part, setting.gamma, rows)
    ridge = ridge_of(setting.gamma, v)
    B = projected_inverse(part, ridge) if task.index.leaves_out else np.ones((1, 1))
    seen = task.index.outputs_at_kept_rows(task.Y[rows], ridge, rows, alpha, B.diagonal(), lambda: B)
    return Snapshot(rows, alpha, bias, v, seen)


def robust_fit(task: Pruning, part: Gram, gamma: float, rows: Rows) -> tuple[Array, Array, Array]:
    """Algorithm 1 on some of the rows: support values, bias and weights."""
    assert task.weighting is not None
    ones = np.ones(rows.size)
    solved, history, _ = reweighted_fits(part, task.Y[rows, 0], gamma, ones, task.weighting, task.scale, 1, 0.0)
    return solved.support_values[:, None], np.atleast_1d(solved.bias), history[-1].weights


class Line:
    """The machine on some of the rows, and those after it by down-dating; ``weights`` are those of all rows."""

    def __init__(self, task: Pruning, setting: Setting, rows: Rows, weights: Array) -> None:
        self._task, self._base, self._weights = task, rows, weights[rows]
        self._part = setting.gram.block(rows)
        self._ridge = ridge_of(setting.gamma, self._weights)
        solved = solve_saddle_system(self._part, task.Y[rows], self._ridge)
        self._alpha, self._bias = solved.support_values, solved.bias
        self._engine: DownDating | None = None
        self.machine = self._snapshot(np.arange(rows.size), self._alpha, self._bias)

    def batch(self) -> list[Snapshot]:
        """The next machines, as many as are scored together; none if they do not solve their systems."""
        engine = self._started()
        machines: list[Snapshot] = []
        removed = 0
        while removed < _BATCH and self.machine.rows.size > self._task.least:
            gone = self._task.leavers(self.machine.rows, self.machine.support_values)
            engine.remove(np.searchsorted(self._base, gone))
            removed += gone.size
            self.machine = self._snapshot(engine.rows, engine.support_values, engine.bias)
            machines.append(self.machine)
        return machines if self._sound(engine) else []

    def _started(self) -> DownDating:
        if self._engine is None:
            self._engine = DownDating(self._part, self._alpha, self._bias)
        return self._engine

    def _snapshot(self, left: Rows, alpha: Array, bias: Array) -> Snapshot:
        index, rows = self._task.index, self._base[left]
        engine = self._started() if index.leaves_out else None
        diagonal = np.ones(left.size) if engine is None else engine.diagonal
        seen = index.outputs_at_kept_rows(
            self._task.Y[rows], self._ridge[left], rows, alpha[left], diagonal, lambda: self._started().inverse()
        )
        return Snapshot(rows, alpha[left], bias, self._weights[left], seen)

    def _sound(self, engine: DownDating) -> bool:
        """Whether the last machine solves its system as well as LAPACK would."""
        left, alpha, bias, Y = engine.rows, engine.support_values, engine.bias, self._task.Y[self._base]
        products = self._part.product(alpha)
        residual = (Y - products - self._ridge[:, None] * alpha - bias)[left]
        norm_k = float(self._part.diagonal.max()) + float(self._ridge[left].max())
        scale = norm_k * np.linalg.norm(alpha) + np.sqrt(left.size) * np.abs(bias).max() + np.linalg.norm(Y[left])
        size = np.hypot(np.linalg.norm(residual), np.abs(alpha.sum(axis=0)).max())
        return bool(size <= roundoff(self._base.size) * scale)


def as_step(setting: Setting, machine: Snapshot, score: float, retuned: bool = False) -> PruningStep:
    """The record of a machine, without the column axis where it has one output."""
    one = machine.support_values.shape[1] == 1
    alpha = np.ascontiguousarray(machine.support_values[:, 0] if one else machine.support_values)
    bias = float(machine.bias[0]) if one else machine.bias
    return PruningStep(machine.rows, alpha, bias, machine.weights, score, setting.gamma, setting.kernel, retuned)
