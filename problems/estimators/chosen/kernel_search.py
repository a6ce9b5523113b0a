r"""The search of kernels: over a list, and down the slopes of the criterion in the logarithms of a kernel's scales.

A descent minimises

.. math:: \log F(k_x, \gamma) + c\, \|D (x - x_0)\|^2, \qquad x = \log s,

by a limited-memory quasi-Newton method within bounds [Byrd1995]_. The second term, a ten-thousandth of the criterion
for a scale that changes by a factor of e, keeps the width of a column without effect finite; it is no part of the
criterion by which kernels are compared. D shrinks the mean of the logarithms of several widths, so that a factor
which all of them have in common costs a tenth. Where all outputs share one gamma, the descent is in x and gamma
together: a kernel on the way takes one Cholesky factor (:mod:`~problems.estimators.chosen.joint_criterion`), and the
end alone is evaluated at its best gamma, with a bound. Otherwise every kernel on the way is evaluated so.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from problems.estimators.chosen.candidates import SMOOTH, EvaluatedKernel
from problems.estimators.chosen.joint_criterion import JointCriterion
from problems.estimators.chosen.tasks import Task
from substrate.arrays import Array, is_sparse
from substrate.errors import DeclarationError
from substrate.kernels import Kernel
from substrate.namespaces import is_device_array
from substrate.progress import Progress

__all__ = [
    "MOST_KERNELS",
    "NEARLY",
    "PENALTY",
    "Descent",
    "End",
    "Judge",
    "check_slopes",
    "compute_each",
    "descend",
    "family_descents",
    "judge_each",
    "kernels_fact",
]

#: A function that finds the best gamma of a kernel, with its bound.
Judge = Callable[[Kernel], EvaluatedKernel]

#: Most kernels that a search tries, unless another number is given.
MOST_KERNELS = 96
#: Widths that are tried besides the start of a single descent, as multiples of it.
_MULTIPLES = (3.0, 1.0 / 3.0)
#: c of the penalty.
PENALTY = 1e-4
#: How much of a factor that all widths have in common counts in it.
_COMMON = 0.1**0.5
#: A criterion below this share of its largest value is that of an exact fit, and is not searched further.
_EXACT = 1e-12
#: A descent whose criterion is larger than the best one by more than this share goes no further.
_REACH = 0.05
#: Largest distance of a logarithm from its start: beyond it kernels are the identity or constant, or overflow.
_FARTHEST = 12.0
#: The relative decrease of the criterion per step, twice in a row, below which a descent ends, and below which one does
#: that another one will go on from.
SETTLED, NEARLY = 1e-3, 1e-2
#: The unit of a step in logarithms, which is also the length of the first one.
_STEP = 0.5
#: The ridge at which a descent begins without a gamma, as a share of the mean eigenvalue of the centred matrix.
_RIDGE = 0.1
#: Ridges that are tried besides that of an end, as shares of the mean eigenvalue of the centred matrix; and, in a
#: given range of gamma, distances in its logarithm.
_RIDGES, _SHIFTS = (1.0, 3e-2, 1e-3), (-4.0, 4.0)
#: How much the logarithm of the criterion rises where it cannot be computed, which makes a step shorter.
_UNKNOWN = 1e2


class End(NamedTuple):
    """Where a descent ended: the kernel, its gammas, and the criterion there."""

    kernel: Kernel
    gammas: Array
    value: float


def compute_each(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], n_jobs: Any) -> Iterator[Any]:
    """Yield the values of a function, in order, several computed at a time if requested."""
    if n_jobs in (None, 1) or len(arguments) == 1:
        yield from (function(*each) for each in arguments)
        return
    from joblib import Parallel, delayed

    yield from Parallel(n_jobs=n_jobs, return_as="generator")(delayed(function)(*each) for each in arguments)


def judge_each(kernels: Sequence[Kernel], judge: Judge, n_jobs: Any, progress: Progress) -> list[EvaluatedKernel]:
    """Judge every kernel, several at a time if requested."""
    judged = []
    for result in compute_each(judge, [(kernel,) for kernel in kernels], n_jobs):
        progress.step(result.kernel)
        judged.append(result)
    return judged


def check_slopes(kernels: Sequence[Kernel], X: Any, criterion: str) -> None:
    """Refuse a search by slopes where there are none."""
    if criterion not in SMOOTH:
        raise DeclarationError(
            f"search='gradient' needs a criterion with derivatives, and loss={criterion!r} has none: use "
            "loss='squared', or search=None with a list of kernels"
        )
    if is_device_array(X) or is_sparse(X):
        kind = "a dense numpy array (X.cpu().numpy(), X.get())" if is_device_array(X) else "dense (X.toarray())"
        raise DeclarationError(f"search='gradient' needs points whose columns it can weigh: X must be {kind}")
    for kernel in kernels:
        if kernel.scales():
            kernel.scale_gradient(X[:1], X[:1], np.zeros((1, 1)))  # a kernel without a formula refuses, before any work


class _SpentError(Exception):
    """No kernel is tried any more."""


class Descent:
    """A descent from one kernel in its scales, and in the gammas.

    Parameters
    ----------
    kernel
        Where it begins, and the kernel from which the penalty counts.
    task
        The criterion.
    gammas
        The gammas at which it begins; None takes a ridge of a tenth of the mean eigenvalue of the centred matrix.
    penalty
        c, the factor of the penalty.
    progress
        What is told of every kernel that is tried.
    start
        Where a descent of the same kernel on other rows ended, to begin there.
    """

    def __init__(
        self, kernel: Kernel, task: Task, gammas: Any, penalty: float, progress: Progress, start: End | None = None
    ) -> None:
        if not kernel.scales():
            raise DeclarationError(f"{kernel!r} has no parameter to search; give kernels= or search=None")
        self.kernel, self.penalty, self.progress = kernel, penalty, progress
        self.names, self.n_tried, self.is_settled = tuple(kernel.scales()), 0, False
        self.joint = JointCriterion.of(kernel, task)
        self.origin = x = np.log(np.array(list(kernel.scales().values())))
        if start is not None:
            x, gammas = np.log(list(start.kernel.scales().values())), start.gammas
            x = np.clip(x, self.origin - _FARTHEST, self.origin + _FARTHEST)
        t = np.full(self.joint.outputs, np.log(_RIDGE / self.joint.weights.size))
        self._z = np.append(x, t if gammas is None else self.joint.place_of(self.kernel_at(x), gammas))
        self._at_end, self.end = (0.0, np.zeros(0)), End(kernel, np.ones(self.joint.outputs), np.inf)
        self._value(self._z, is_counted=False)

    @property
    def widths(self) -> NDArray[np.bool_]:
        """Return which scales are widths."""
        return np.array([name.rpartition("__")[2].partition("[")[0] == "sigma" for name in self.names])

    def kernel_at(self, x: Array) -> Kernel:
        """Return the kernel with scales e^x; itself at the origin, where exp(log(v)) may differ from v by rounding."""
        if np.array_equal(x, self.origin):
            return self.kernel
        moved: Kernel = self.kernel.with_scales(dict(zip(self.names, np.exp(x).tolist(), strict=True)))
        return moved

    def settle(self, most: int, small: float = SETTLED) -> None:
        """Descend by at most so many kernels, until two steps in a row gain less than ``small``; also from the best of
        some other gammas, since the slope in gamma vanishes where a machine interpolates.
        """
        limit, x = self.n_tried + most, self.origin.size
        self._run(limit, small)
        before, z = self.end.value, self._z
        if not np.isfinite(before):
            return
        ridges = np.log(np.array(_RIDGES) / self.joint.weights.size)
        for t in z[x:] + np.array(_SHIFTS)[:, None] if self.joint.is_given else ridges[:, None]:
            self._value(np.append(z[:x], np.clip(t + np.zeros(self.joint.outputs), *self.joint.ends)), is_counted=False)
        if self.end.value < before:
            self._run(limit, small)

    def try_multiples(self, most: int) -> None:
        """Try all widths at some multiples of those at the start."""
        z = self._z
        for factor in _MULTIPLES[:most] if self.widths.any() else ():
            self._value(z + np.append(np.log(factor) * self.widths, np.zeros(self.joint.outputs)))

    def judged_end(self, judge: Judge) -> EvaluatedKernel:
        """Return the kernel at the end, at its best gamma, with the number of those on the way to it."""
        return replace(judge(self.end.kernel), tried=max(self.n_tried - 1, 1))

    def _run(self, limit: int, small: float) -> None:
        """Descend from the best point so far."""
        from scipy.optimize import minimize

        start, first, values = self._z, self._at_end, list[float]()
        if not np.isfinite(self.end.value):
            return

        def value(v: Array) -> tuple[float, Array]:
            if v.any() and self.n_tried >= limit:
                raise _SpentError
            f, slope = self._value(start + _STEP * v) if v.any() else first
            return f, _STEP * slope

        def end_where_settled(intermediate_result: Any) -> None:
            values.append(float(intermediate_result.fun))
            if len(values) > 2 and values[-3] - values[-1] < 2.0 * small:
                raise StopIteration

        ends = [np.full(self.joint.outputs, end) for end in self.joint.ends]
        low, high = np.append(self.origin - _FARTHEST, ends[0]), np.append(self.origin + _FARTHEST, ends[1])
        bounds = list(zip((low - start) / _STEP, (high - start) / _STEP, strict=True))
        options = {"maxiter": 10_000, "maxfun": 10_000, "ftol": 0.0, "gtol": small}
        self.is_settled = False
        with suppress(_SpentError):
            minimize(
                value,
                np.zeros(start.size),
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options=options,
                callback=end_where_settled,
            )
            self.is_settled = small <= SETTLED

    def _value(self, z: Array, is_counted: bool = True) -> tuple[float, Array]:
        """Return the logarithm of the criterion with the penalty, and its slope; keep the best point."""
        x = z[: self.origin.size]
        kernel, away = self.kernel_at(x), self._away(x - self.origin)
        if is_counted:
            self.n_tried += 1
            self.progress.step(kernel)
        place = self.joint.at(kernel, z[x.size :])
        if place is None:
            return self._at_end[0] + _UNKNOWN, np.zeros(z.size)
        pull = np.append(2.0 * self.penalty * self._away(away), np.zeros(z.size - x.size))
        at_z = float(np.log(place.value)) + self.penalty * float(away @ away), place.slope / place.value + pull
        if not np.isfinite(self.end.value) or at_z[0] < self._at_end[0]:
            self.end, self._z, self._at_end = End(kernel, place.gammas, place.value), z, at_z
        return at_z

    def _away(self, step: Array) -> Array:
        """Return D times a step in the logarithms of the scales."""
        if self.widths.sum() < 2:
            return step
        return np.asarray(step - (1.0 - _COMMON) * self.widths * step[self.widths].mean())


def descend(start: EvaluatedKernel, task: Task, judge: Judge, most: int, progress: Progress) -> list[EvaluatedKernel]:
    """Return the end of a descent from a kernel that was judged, by at most ``most`` kernels; none if it is the start.

    A kernel where an earlier descent ended is not searched again, nor one that predicts exactly.
    """
    search = start.search
    exact = (search.values <= np.maximum(_EXACT * search.curve.max(axis=0), search.floor)).all()
    if start.tried or exact:
        return []
    descent = Descent(start.kernel, task, search.gamma, PENALTY, progress)
    descent.try_multiples(most)
    descent.settle(most - descent.n_tried)
    return [descent.judged_end(judge)] if descent.end.kernel != start.kernel else []


def family_descents(kernels: Sequence[Kernel], task: Task, most: int, progress: Progress) -> list[Descent]:
    """Return the descents of kernels of several families from their widths, in their order.

    All descend roughly, and those that are then within reach of the best one until they settle.
    """
    descents = [Descent(kernel, task, None, PENALTY, progress) for kernel in kernels]
    for descent in descents:
        descent.settle(most, NEARLY)
    for descent in sorted(descents, key=lambda descent: descent.end.value):
        if descent.end.value <= (1.0 + _REACH) * min(each.end.value for each in descents):
            descent.settle(most - descent.n_tried)
    return descents


def kernels_fact(evaluated: Sequence[EvaluatedKernel], local: bool) -> str:
    """Return how many kernels a search evaluated, and how many more it tried."""
    tried = sum(each.tried for each in evaluated)
    more = f", {tried} more tried on the way" if tried else ""
    return f"{len(evaluated)} evaluated{more}{'; the search among them is local' if local else ''}"
