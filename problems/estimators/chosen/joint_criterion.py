r"""The criterion of a task as a function of the scales of a kernel and of gamma together, by one Cholesky factor.

Judging a kernel at its best gamma, with a proof over the range, takes a decomposition. A search need not do that at
every step: it minimises

.. math:: \log F\big(K(x), \lambda(x, t)\big) + c\, \|x - x_0\|^2, \qquad
          \lambda(x, t) = e^t \operatorname{tr} P K(x) P + \epsilon \operatorname{tr} K(x), \qquad x = \log s,

over x and t at once, with both derivatives from a factor (:mod:`substrate.least_squares.factored_criteria`), and only
what it ends with is judged (:mod:`~problems.estimators.chosen.kernel_search`). :math:`e^t`, the ridge as a share of the
trace of the centred matrix, does not depend on the unit of the kernel, so that a factor of a kernel and gamma do not
compensate each other; the second term keeps :math:`\lambda` where rounding does not decide. In a given range of gamma t
is :math:`\log \lambda`. With W the slope in K, and :math:`\partial F / \partial \lambda = \operatorname{tr} V^{-1} W`
for weights V of the rows, of mean one,

.. math:: \frac{d F}{d x} = \Big( W + \frac{\partial F}{\partial \lambda} \big( e^t P + \epsilon I \big) \Big) :
          \frac{\partial K}{\partial x}, \qquad
          \frac{d F}{d t} = e^t \operatorname{tr} P K P\, \frac{\partial F}{\partial \lambda} .

Outputs that choose gammas of their own have a t each, and F is the mean of their criteria in units of their variances.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from problems.estimators.chosen.tasks import Task, centred_points
from substrate.arrays import Array
from substrate.certificates.rounding import ROUNDED_ONCE
from substrate.kernels import Kernel
from substrate.kernels.base import symmetric_matrix
from substrate.least_squares.factored_criteria import FactoredPart
from substrate.least_squares.saddle_system import target_unit
from substrate.search.gamma_search import gamma_ends
from substrate.threads import blas_threads

__all__ = ["JointCriterion", "Place"]

#: Smallest and largest ridge of a default range, as a share of the trace of the centred matrix, in logarithms.
_ENDS = (float(np.log(1e-11)), float(np.log(10.0)))


class Place(NamedTuple):
    """F at a kernel and t, with its derivatives in the logarithms of the scales and then in t, and the gammas there."""

    value: float
    slope: Array
    gammas: Array


class _WeightedGram(NamedTuple):
    """K, what its derivatives need, and the traces of V^(1/2) K V^(1/2), with and without the projection."""

    matrix: Array
    projected_trace: float
    trace: float


@dataclass(frozen=True, slots=True)
class JointCriterion:
    """F of a task as a function of a kernel and t, one for each of ``outputs`` gammas.

    ``floor`` is epsilon, zero where a range is given.
    """

    X: Any
    parts: tuple[FactoredPart, ...]
    outputs: int
    weights: Array
    size: float
    floor: float
    ends: tuple[float, float]
    is_given: bool
    X_check: Any = None

    @classmethod
    def of(cls, kernel: Kernel, task: Task) -> "JointCriterion":
        """Build the criterion of a task, for kernels with the parameters of this one."""
        n, size = int(task.Y.shape[0]), 1.0 if task.weights is None else float(task.weights.mean())
        task = task if task.weights is None else replace(task, weights=task.weights / size)
        X, *checked = centred_points(kernel, task.X, *(() if task.check is None else (task.check[0],)))
        floor, ends = 10.0 / max(task.gap, 1e-5) * (ROUNDED_ONCE + kernel.rounding(X)), _ENDS
        if task.gammas is not None:
            low, high = (size * end for end in gamma_ends(task.gammas))
            floor, ends = 0.0, (-float(np.log(high)), -float(np.log(low)))
        weights = np.ones(n) if task.weights is None else np.asarray(task.weights)
        return cls(
            X=X,
            parts=tuple(_parts(task)),
            outputs=1 if task.pooled else int(task.Y.shape[1]),
            weights=weights,
            size=size,
            floor=floor,
            ends=ends,
            is_given=task.gammas is not None,
            X_check=checked[0] if checked else None,
        )

    def place_of(self, kernel: Kernel, gammas: Any) -> Array:
        """Return the t that belong to gammas, one for each, or one for all."""
        _, trace, total = self._matrix(kernel)
        lambdas = 1.0 / (np.broadcast_to(gammas, self.outputs) * self.size)
        if not self.is_given:
            lambdas = (lambdas - self.floor * total) / trace if trace > 0.0 else np.zeros(self.outputs)
        return np.clip(np.log(np.maximum(lambdas, 1e-300)), *self.ends)

    def at(self, kernel: Kernel, t: Array) -> Place | None:
        """Return F and its derivatives; None where the matrix is not positive definite to rounding, or not finite."""
        with blas_threads(self.weights.size):
            return self._at(kernel, t)

    def _at(self, kernel: Kernel, t: Array) -> Place | None:
        K, trace, total = self._matrix(kernel)
        steps, v = np.exp(t) * (1.0 if self.is_given else trace), self.weights
        lambdas = steps + self.floor * total
        if not (np.isfinite(total) and np.isfinite(lambdas).all() and (lambdas > 0.0).all()):
            return None
        below = None if self.X_check is None else kernel(self.X_check, self.X)
        value, within, rates = 0.0, np.zeros(0), np.zeros(self.outputs)
        under = None if below is None else np.zeros(below.shape)
        for part in self.parts:
            train = np.arange(v.size) if part.train is None else part.train
            checked = None if part.check is None else (K if below is None else below)[np.ix_(part.check, train)]
            K_train = K.copy() if part.train is None else K[np.ix_(train, train)]
            found = part.value_and_slope(K_train, checked, float(lambdas[part.output]))
            if found is None:
                return None
            value += found.value
            rates[part.output] += float(np.sum(found.within.diagonal() / v[train]))
            if not within.size:
                within = found.within if part.train is None else np.zeros(K.shape)
            if within is not found.within:
                within[np.ix_(train, train)] += found.within
            if found.below is not None and under is not None:
                under[np.ix_(part.check, train)] += found.below
            elif found.below is not None:  # rows of the same matrix, in which it is symmetric
                within[np.ix_(part.check, train)] += 0.5 * found.below
                within[np.ix_(train, part.check)] += 0.5 * found.below.T
        if not self.is_given:
            share = float(rates @ np.exp(t))
            within -= np.outer(share / v.sum() * v, v)
            within.flat[:: v.size + 1] += (share + self.floor * float(rates.sum())) * v
        slope = kernel.scale_gradient(self.X, self.X, within)
        if under is not None:
            slope = slope + kernel.scale_gradient(self.X_check, self.X, under)
        slope = np.append(slope, steps * rates)
        is_known = np.isfinite(value) and value > 0.0 and np.isfinite(slope).all()
        return Place(value, slope, 1.0 / (lambdas * self.size)) if is_known else None

    def _matrix(self, kernel: Kernel) -> _WeightedGram:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            K = symmetric_matrix(kernel, self.X)
            v = self.weights
            total = float(v @ K.diagonal())
            return _WeightedGram(K, max(total - float(v @ (K @ v)) / float(v.sum()), 0.0), total)


def _parts(task: Task) -> list[FactoredPart]:
    """Return the criterion of a task as parts on rows of their own, as ``criterion_of`` has them."""
    Y, v, n = task.Y, task.weights, int(task.Y.shape[0])
    apart = task.pooled and not bool((Y != 0.0).all())  # one against one: every machine has rows of its own
    columns = [slice(k, k + 1) for k in range(Y.shape[1])] if apart or not task.pooled else [slice(None)]
    rounds: list[tuple[Any, Any, Any, Any]] = [(np.arange(n), None, None, None)]
    if task.check is not None:
        ones = np.ones(len(task.check[1]))
        counts = None if v is None else ones if task.check_weights is None else task.check_weights
        rounds = [(np.arange(n), np.arange(ones.size), task.check[1], counts)]
    elif task.criterion == "folds":
        rounds = [(train, valid, Y[valid], None if v is None else v[valid]) for train, valid in task.splits]
    parts: list[FactoredPart] = []
    for train, valid, Y_check, w in rounds:
        parts_of_round, mass = [], 0.0
        for k, column in enumerate(columns):
            unit = target_unit(Y if task.pooled else Y[:, column])
            rows = train[(Y[train, column] != 0.0).all(axis=1)] if apart else train
            weights: Array | None = None if v is None else v[rows]
            checks: Any = None
            Y_checked: Array | None = None
            counted: Array | None = None
            share, spread = float(rows.size), 1.0
            if Y_check is not None:
                checks = np.flatnonzero((Y_check[:, column] != 0.0).all(axis=1)) if apart else np.arange(valid.size)
                Y_checked, counted = Y_check[checks, column] / unit, None if w is None else w[checks]
                share = float(checks.size if counted is None else counted.sum())
            if not share:
                continue
            mass += share if weights is None or Y_check is not None else float(weights.sum())
            if not task.pooled and Y.shape[1] > 1:
                spread = Y.shape[1] * (float(np.var(Y[:, column] / unit)) or 1.0)
            part = FactoredPart.of(
                task.criterion if Y_check is None else "validation",
                Y[rows, column] / unit,
                weights,
                Y_checked,
                counted,
            )
            parts_of_round.append(
                replace(
                    part,
                    share=share / spread,
                    output=0 if task.pooled else k,
                    train=None if rows.size == n else rows,
                    check=None if Y_check is None else valid[checks],
                    blocks=task.blocks if task.blocks is None or rows.size == n else task.blocks.restrict(rows),
                )
            )
        mass = mass if task.pooled else mass / len(columns)
        parts += [replace(part, share=part.share / (mass * len(rounds))) for part in parts_of_round]
    return parts
