r"""The criterion of a task as a function of the scales of a kernel and of gamma together, by one Cholesky factor.

Judging a kernel at its best gamma, with a proof over the range, takes a decomposition. A search need not do that at
every step: it minimises

.. math:: \log F\big(K(x), \lambda(x, t)\big) + c\, \|x - x_0\|^2, \qquad
          \lambda(x, t) = e^t \operatorname{tr} P K(x) P + \epsilon \operatorname{tr} K(x), \qquad x = \log s,

over x and t at once, with both derivatives from a factor (:mod:`substrate.least_squares.factored_criteria`), and only
what it ends with is judged (:mod:`~problems.estimators.chosen.kernel_search`). :math:`e^t`, the ridge as a share of the
trace of the centred matrix, does not depend on the unit of the kernel, so that a factor of a kernel and gamma do not
compensate each other; the second term keeps :math:`\lambda` where rounding does not decide. In a given range of gamma t
is :math:`\log \lambda`.

F does not change when K and :math:`\lambda` are multiplied by the same number, so that with W the slope in K

.. math:: \frac{\partial F}{\partial \log \lambda} = -W : K, \qquad
          \frac{d F}{d x} = \Big( W - \frac{W : K}{\lambda} \big( e^t P + \epsilon I \big) \Big) :
          \frac{\partial K}{\partial x}, \qquad
          \frac{d F}{d t} = -\frac{e^t \operatorname{tr} P K P}{\lambda}\, W : K .
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from problems.estimators.chosen.tasks import Task, centred_points
from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import Array, is_sparse
from substrate.certificates.rounding import ROUNDED_ONCE
from substrate.kernels import Kernel
from substrate.kernels.base import symmetric_matrix
from substrate.kernels.pairs import PairDistances
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.least_squares.factored_criteria import FactoredPart
from substrate.least_squares.saddle_system import target_unit
from substrate.namespaces import is_device_array
from substrate.search.gamma_search import gamma_ends
from substrate.threads import blas_threads

__all__ = ["JointCriterion", "Place"]

#: Smallest and largest ridge of a default range, as a share of the trace of the centred matrix, in logarithms.
_ENDS = (float(np.log(1e-11)), float(np.log(10.0)))


class Place(NamedTuple):
    """F at a kernel and t, with its derivatives in the logarithms of the scales and then in t, and the gamma there."""

    value: float
    slope: Array
    gamma: float


class _WeightedGram(NamedTuple):
    """K, what its derivatives need, and the traces of V^(1/2) K V^(1/2), with and without the projection."""

    matrix: Array
    squared_distances: Array | None
    projected_trace: float
    trace: float


@dataclass(frozen=True, slots=True)
class JointCriterion:
    """F of a task as a function of a kernel and t; ``floor`` is epsilon, zero where a range is given."""

    X: Any
    criteria: tuple[FactoredPart, ...]
    weights: Array
    size: float
    floor: float
    ends: tuple[float, float]
    is_given: bool
    pairs: PairDistances | None = None
    X_check: Any = None

    @staticmethod
    def fits(kernel: Kernel, task: Any) -> bool:
        """Return whether outputs share one gamma, and the kernel is one of this package with scales."""
        if not isinstance(task, Task) or not kernel.trusted or kernel.pairwise or not kernel.scales():
            return False
        if is_device_array(task.X) or is_sparse(task.X) or not (task.pooled or task.Y.shape[1] == 1):
            return False
        return task.criterion in (*OF_SPECTRUM, "blocks", "folds", "validation")

    @classmethod
    def of(cls, kernel: Kernel, task: Any) -> "JointCriterion | None":
        """Build the criterion of a task and a kernel that fit; None for any other."""
        if not cls.fits(kernel, task):
            return None
        n, size = int(task.Y.shape[0]), 1.0 if task.weights is None else float(task.weights.mean())
        task = task if task.weights is None else replace(task, weights=task.weights / size)
        X, *checked = centred_points(kernel, task.X, *(() if task.check is None else (task.check[0],)))
        floor, ends = 10.0 / max(task.gap, 1e-5) * (ROUNDED_ONCE + kernel.rounding(X)), _ENDS
        if task.gammas is not None:
            low, high = (size * end for end in gamma_ends(task.gammas))
            floor, ends = 0.0, (-float(np.log(high)), -float(np.log(low)))
        weights = np.ones(n) if task.weights is None else np.asarray(task.weights)
        pairs = None if checked else PairDistances.of(kernel, X)
        return cls(X, _parts(task), weights, size, floor, ends, task.gammas is not None, pairs, *checked)

    def values(self, kernel: Kernel, ts: Sequence[float]) -> list[float]:
        """Return F at several t; infinity where it is not known."""
        K, _, trace, total = self._matrix(kernel)
        below = None if self.X_check is None else kernel(self.X_check, self.X)
        values = []
        for t in ts:
            lam, value = self._lambda(t, trace, total), 0.0
            for criterion in self.criteria if self._usable(lam, total) else ():
                with blas_threads(self.weights.size):
                    value_and_slope = criterion.value_and_slope(*_rows(criterion, K, below), lam, False)
                value += np.inf if value_and_slope is None else value_and_slope[0]
            values.append(value if np.isfinite(value) and value > 0.0 else np.inf)
        return values

    def t_of(self, kernel: Kernel, gamma: float) -> float:
        """Return the t that belongs to a gamma."""
        _, _, trace, total = self._matrix(kernel)
        lam = 1.0 / (gamma * self.size)
        if not self.is_given:
            lam = (lam - self.floor * total) / trace if trace > 0.0 else 0.0
        return float(np.clip(np.log(max(lam, 1e-300)), *self.ends))

    def at(self, kernel: Kernel, t: float) -> Place | None:
        """Return F and its derivatives; None where the matrix is not positive definite to rounding, or not finite."""
        with blas_threads(self.weights.size):
            return self._at(kernel, t)

    def _at(self, kernel: Kernel, t: float) -> Place | None:
        K, s, trace, total = self._matrix(kernel)
        lam = self._lambda(t, trace, total)
        below = None if self.X_check is None else kernel(self.X_check, self.X)
        if not self._usable(lam, total):
            return None
        value, within = 0.0, np.zeros(0)
        under = None if below is None else np.zeros(below.shape)
        for criterion in self.criteria:
            value_and_slope = criterion.value_and_slope(*_rows(criterion, K, below), lam)
            if value_and_slope is None or value_and_slope[1] is None:
                return None
            value += value_and_slope[0]
            if criterion.train is None:
                within = value_and_slope[1].within  # the only part
                continue
            within = within if within.size else np.zeros(K.shape)
            within[np.ix_(criterion.train, criterion.train)] += value_and_slope[1].within
            below_slope, place = value_and_slope[1].below, (criterion.check, criterion.train)
            if below_slope is not None and under is not None:
                under[np.ix_(*place)] += below_slope
            elif below_slope is not None:  # rows of the same matrix, in which it is symmetric
                within[np.ix_(*place)] += 0.5 * below_slope
                within[np.ix_(*place[::-1])] += 0.5 * below_slope.T
        rate = -float(np.vdot(within, K)) - (0.0 if under is None else float(np.vdot(under, below)))
        along = rate
        if not self.is_given:
            v, share = self.weights, rate / lam * float(np.exp(t))
            within -= np.outer(share / v.sum() * v, v)
            within.flat[:: K.shape[0] + 1] += (share + rate / lam * self.floor) * v
            along = share * trace
        if self.pairs is not None and s is not None:
            slope = self.pairs.scale_gradient(kernel, s, within)
        else:
            slope = kernel.scale_gradient(self.X, self.X, within)
        if under is not None:
            slope = slope + kernel.scale_gradient(self.X_check, self.X, under)
        is_known = np.isfinite(value) and value > 0.0 and np.isfinite(slope).all() and np.isfinite(along)
        return Place(value, np.append(slope, along), 1.0 / (lam * self.size)) if is_known else None

    def _usable(self, lam: float, total: float) -> bool:
        return bool(np.isfinite(total) and np.isfinite(lam) and lam > 0.0)

    def _matrix(self, kernel: Kernel) -> _WeightedGram:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            K, s = (symmetric_matrix(kernel, self.X), None) if self.pairs is None else self.pairs.matrix(kernel)
            v = self.weights
            total = float(v @ K.diagonal())
            return _WeightedGram(K, s, max(total - float(v @ (K @ v)) / float(v.sum()), 0.0), total)

    def _lambda(self, t: float, trace: float, total: float) -> float:
        return float(np.exp(t)) * (1.0 if self.is_given else trace) + self.floor * total


def _rows(criterion: FactoredPart, K: Array, below: Array | None) -> tuple[Array, Array | None]:
    """Return the matrix of the training rows of a part, as a copy, and the kernel rows of those that validate."""
    if criterion.train is None:
        return K.copy(), None
    rows = (
        None if criterion.check is None else (K if below is None else below)[np.ix_(criterion.check, criterion.train)]
    )
    return K[np.ix_(criterion.train, criterion.train)], rows


def _parts(task: Task) -> tuple[FactoredPart, ...]:
    """Return the criterion of a task as parts on rows of their own, as ``criterion_of`` has them."""
    Y, v, n, unit = task.Y, task.weights, int(task.Y.shape[0]), target_unit(task.Y)
    columns: list[Any] = [None] if not task.pooled or (Y != 0.0).all() else list(each_machine(Y, True))
    if task.criterion in OF_SPECTRUM or task.blocks is not None:
        if columns == [None]:
            return (FactoredPart.of(task.criterion, None, Y, 1.0, v, unit=unit, blocks=task.blocks),)
        mass = sum(float(machine.rows.size if v is None else v[machine.rows].sum()) for machine in columns)
        return tuple(
            FactoredPart.of(
                task.criterion,
                machine.rows,
                machine.y,
                machine.rows.size / mass,
                None if v is None else v[machine.rows],
                unit=unit,
                blocks=None if task.blocks is None else task.blocks.restrict(machine.rows),
            )
            for machine in columns
        )
    if task.check is not None:
        ones = np.ones(task.check[1].shape[0]) if task.check_weights is None else task.check_weights
        rounds = [(np.arange(n), np.arange(task.check[1].shape[0]), task.check[1], None if v is None else ones)]
    else:
        rounds = [(train, valid, Y[valid], None if v is None else v[valid]) for train, valid in task.splits]
    criteria: list[FactoredPart] = []
    for train, valid, targets_val, w in rounds:
        criteria_of_round = []
        for machine in columns:
            k = slice(None) if machine is None else machine.column
            rows, checks = np.ones(train.size, dtype=bool), np.ones(valid.size, dtype=bool)
            if machine is not None:
                rows, checks = Y[train, k] != 0.0, targets_val[:, k] != 0.0
            if not checks.any():
                continue
            weights = (None, None) if v is None or w is None else (v[train[rows]], w[checks])
            share = float(checks.sum()) if weights[1] is None else float(weights[1].sum())
            criteria_of_round.append(
                FactoredPart.of(
                    "validation",
                    train[rows],
                    Y[train[rows], k],
                    share,
                    weights[0],
                    valid[checks],
                    targets_val[checks][:, k],
                    weights[1],
                    unit,
                )
            )
        total = sum(criterion.share for criterion in criteria_of_round) * len(rounds)
        criteria += [replace(criterion, share=criterion.share / total) for criterion in criteria_of_round]
    return tuple(criteria)
