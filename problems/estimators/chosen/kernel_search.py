r"""The search of kernels: over a list, and down the slopes of the criterion in the logarithms of a kernel's scales.

A descent minimises

.. math:: \log F\big(K(x), \lambda(x, t)\big) + c\, \|D (x - x_0)\|^2, \qquad
          \lambda(x, t) = e^t \operatorname{tr} P K(x) P + \epsilon \operatorname{tr} K(x), \qquad x = \log s,

over x and t by a limited-memory quasi-Newton method within bounds [Byrd1995]_. A kernel on the way takes one Cholesky
factor, which has both derivatives (:mod:`substrate.left_out.factored_criteria`), and only the end is judged at its
best gamma, by a decomposition with a bound. :math:`e^t`, the ridge as a share of the trace of the centred matrix, does
not depend on the unit of the kernel, so that a factor of a kernel and gamma do not compensate each other; the second
term keeps :math:`\lambda` where rounding does not decide. In a given range of gamma t is :math:`\log \lambda`. With W
the slope in K, V the weights of the rows, of mean one, and :math:`\partial F / \partial \lambda = \operatorname{tr}
V^{-1} W`,

.. math:: \frac{d F}{d x} = \Big( W + \frac{\partial F}{\partial \lambda} \big( e^t P + \epsilon I \big) \Big) :
          \frac{\partial K}{\partial x}, \qquad
          \frac{d F}{d t} = e^t \operatorname{tr} P K P\, \frac{\partial F}{\partial \lambda} .

Folds are blocks of rows that are left out together. Outputs share a gamma on the way, and count in units of their
variances; a row that is absent from a machine of two classes counts as one between them.

**The penalty.** With c a ten-thousandth, the criterion changes by as much for a scale that changes by a factor of e:
that keeps the width of a column without effect finite. D shrinks the mean of the logarithms of several widths, so that
a factor which all of them have in common costs a tenth. A search of one width for each of many inputs, chosen by the
rows that they predict, is regularised more [Cawley2007]_: :math:`c = 1 / (N \tau^2)`, :math:`\tau^2 = \tfrac1{10}`, is
what a normal prior of the logarithms, of deviation :math:`\tau` about the logarithm of the shared width, adds to the
logarithm of a criterion of N rows. The evidence weighs all functions of a width ([Rasmussen2006]_ section 5.4), and
needs
:math:`\tau = 5` only. Machines are compared by F alone.

**One width for all inputs, or one for each.** Widths of d inputs make a criterion smaller whether or not they predict
better. So one width for each is taken where the mean square of its left-out errors, plus a share :math:`2 (d - 1) / N`
of it for the d - 1 numbers more that these rows have chosen, is smaller by more than a standard
error; of classes, where the wrong rows are fewer by more than two
(:mod:`~problems.estimators.chosen.judgement`).
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from problems.estimators.chosen.judgement import (
    EvaluatedKernel,
    LeftOutLosses,
    Task,
    centred_points,
    evaluate,
    judge_each,
)
from problems.estimators.chosen.rules import Widths, at_median_widths, is_width
from substrate.arrays import Array, blas_threads, is_device_array, is_sparse
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Kernel, Laplacian, Matern, PowerExponential
from substrate.kernels.kernel import symmetric_matrix
from substrate.left_out.factored_criteria import FactoredCriterion
from substrate.left_out.leave_one_out import LeftOutBlocks
from substrate.numbers import ROUNDED_ONCE
from substrate.progress import Progress

__all__ = ["check_slopes", "search_by_slopes"]

#: Kernels of a distance, whose width may be shared.
Shared = RBF | Laplacian | Matern | PowerExponential

#: Multiples of the widths at which a descent begins, at the best of them.
_MULTIPLES = (3.0, 1.0 / 3.0)
#: c of the penalty; tau squared of one width for each input, and where the evidence judges.
_PENALTY, _PRIOR, _PRIOR_OF_EVIDENCE = 1e-4, 0.1, 25.0
#: How much of a factor that all widths have in common counts in it.
_COMMON = 0.1**0.5
#: A criterion below this share of its largest value belongs to an exact fit, and is not searched further.
_EXACT = 1e-12
#: A descent whose criterion is larger than the best one by more than this share goes no further.
_REACH = 0.05
#: Largest distance of a logarithm from its start: beyond it kernels are the identity or constant, or overflow.
_FARTHEST = 12.0
#: The relative decrease of the criterion per step, twice in a row, below which a descent ends, and a first, rough one.
_SETTLED, _NEARLY = 1e-3, 1e-2
#: How many standard errors better one width for each input has to be for classes, whose wrong rows are few.
_FOR_CLASSES = 2.0
#: The unit of a step in logarithms, which is also the length of the first one.
_STEP = 0.5
#: The ridges at which a descent begins, as shares of the mean eigenvalue of the centred matrix.
_RIDGES = (0.1, 1.0, 3e-2, 1e-3)
#: How much the logarithm of the criterion rises where it cannot be computed, which makes a step shorter.
_UNKNOWN = 1e2
#: Smallest and largest ridge of a default range, as a share of the trace of the centred matrix, in logarithms.
_ENDS = (float(np.log(1e-11)), float(np.log(10.0)))


def check_slopes(kernels: Sequence[Kernel], X: Any) -> None:
    """Refuse a gradient search on points or kernels that it cannot use."""
    if is_device_array(X) or is_sparse(X):
        kind = "a dense numpy array (X.cpu().numpy(), X.get())" if is_device_array(X) else "dense (X.toarray())"
        raise DeclarationError(f"search='gradient' needs points whose columns it can weigh: X must be {kind}")
    for kernel in kernels:
        if kernel.scales():
            kernel.scale_gradient(X[:1], X[:1], np.zeros((1, 1)))  # a kernel without a formula refuses, before any work
    if not any(kernel.scales() for kernel in kernels) or any(kernel.pairwise for kernel in kernels):
        raise DeclarationError(f"{kernels[0]!r} has no parameter to search; give kernels= or search=None")


@dataclass(frozen=True, slots=True)
class JointCriterion:
    """The criterion F of a task as a function of a kernel and t; ``floor`` is epsilon, zero with a given range of
    gamma."""

    X: Any
    criterion: FactoredCriterion
    weights: Array
    unit: float
    floor: float
    ends: tuple[float, float]
    is_given: bool

    @classmethod
    def of(cls, kernel: Kernel, task: Task) -> Self:
        """Build the criterion of a task, for kernels with the parameters of this one."""
        X = centred_points(kernel, task.X)
        kind, blocks = task.criterion, task.blocks
        if kind == "folds":
            kind, blocks = "blocks", LeftOutBlocks.of_splits(int(task.Y.shape[0]), task.splits)
        floor, ends = 10.0 / max(task.gap, 1e-5) * (ROUNDED_ONCE + kernel.rounding(X)), _ENDS
        if task.gammas is not None:
            low, high = task.gammas
            floor, ends = 0.0, (-float(np.log(high)), -float(np.log(low)))
        return cls(
            X=X,
            criterion=FactoredCriterion.of(kind, task.unit_targets(), task.row_weights, blocks),
            weights=task.row_weights,
            unit=task.unit,
            floor=floor,
            ends=ends,
            is_given=task.gammas is not None,
        )

    def at(self, kernel: Kernel, t: float) -> tuple[float, Array, float] | None:
        """Return F, its derivatives in the logarithms of the scales and in t, and gamma; None where the matrix is not
        positive definite to rounding, or not finite.
        """
        with blas_threads(self.weights.size):
            v = self.weights
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                K = symmetric_matrix(kernel, self.X)
                total = float(v @ K.diagonal())  # the trace of V^(1/2) K V^(1/2), and with the projection
                trace = max(total - float(v @ (K @ v)) / float(v.sum()), 0.0)
            step = float(np.exp(t)) * (1.0 if self.is_given else trace)
            lam = step + self.floor * total
            if not (np.isfinite(total) and np.isfinite(lam) and lam > 0.0):
                return None
            sloped = self.criterion.value_and_slope(K, lam)
            if sloped is None:
                return None
            value, slope = sloped
            rate = float(np.sum(slope.diagonal() / v))
            if not self.is_given:
                share = rate * float(np.exp(t))
                slope -= np.outer(share / v.sum() * v, v)
                slope.flat[:: v.size + 1] += (share + self.floor * rate) * v
            slopes = np.append(kernel.scale_gradient(self.X, self.X, slope), step * rate)
        is_known = np.isfinite(value) and value > 0.0 and np.isfinite(slopes).all()
        return (value, slopes, 1.0 / (lam * self.unit)) if is_known else None


class End(NamedTuple):
    """A kernel with its gamma, and the logarithm of the criterion there."""

    kernel: Kernel
    gamma: float
    value: float = np.inf


class _SpentError(Exception):
    """An exception: the search has tried its last kernel, or its time is over."""


class Descent:
    """A descent from one kernel, with c as the factor of the penalty.

    It begins at the best of a few ridges and multiples of the widths; ``end`` is the best point so far.
    """

    def __init__(self, kernel: Kernel, task: Task, penalty: float, deadline: float, progress: Progress) -> None:
        self.kernel, self.penalty, self.deadline, self.progress = kernel, penalty, deadline, progress
        self.names, self.joint, self.tried = tuple(kernel.scales()), JointCriterion.of(kernel, task), 0
        self.widths = np.array([is_width(name) for name in self.names])
        self.origin = np.log(np.array(list(kernel.scales().values())))
        self.end, self._z, self._at_end = End(kernel, 1.0), np.append(self.origin, 0.0), (0.0, np.zeros(0))
        # where a machine interpolates its slope in gamma vanishes, and no descent leaves
        ridges = np.log(np.array(_RIDGES) / self.joint.weights.size)
        for t in np.linspace(*self.joint.ends, 5)[1:-1] if self.joint.is_given else ridges:
            self._value(np.append(self.origin, t))
        best = self._z
        for factor in _MULTIPLES if self.widths.any() else ():
            self._value(best + np.append(np.log(factor) * self.widths, 0.0))

    def settle(self, most: int, small: float = _SETTLED) -> Self:
        """Try at most ``most`` more kernels, until two steps in a row gain less than ``small``."""
        from scipy.optimize import minimize

        start, first, limit, values = self._z, self._at_end, self.tried + most, list[float]()
        if most < 1 or not np.isfinite(self.end.value):
            return self

        def value(v: Array) -> tuple[float, Array]:
            if v.any() and (self.tried >= limit or time.monotonic() > self.deadline):
                raise _SpentError
            f, slope = self._value(start + _STEP * v) if v.any() else first
            return f, _STEP * slope

        def end_where_settled(intermediate_result: Any) -> None:
            values.append(float(intermediate_result.fun))
            if len(values) > 2 and values[-3] - values[-1] < 2.0 * small:
                raise StopIteration

        low, high = (
            np.append(self.origin - _FARTHEST, self.joint.ends[0]),
            np.append(self.origin + _FARTHEST, self.joint.ends[1]),
        )
        bounds = list(zip((low - start) / _STEP, (high - start) / _STEP, strict=True))
        options = {"maxiter": 10_000, "maxfun": 10_000, "ftol": 0.0, "gtol": small}
        with suppress(_SpentError):
            begin = np.zeros(start.size)
            minimize(
                value, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options, callback=end_where_settled
            )
        return self

    def _value(self, z: Array) -> tuple[float, Array]:
        """Return the logarithm of the criterion with the penalty, and its slope; keep the best point."""
        x, kernel = z[:-1], self.kernel
        if not np.array_equal(x, self.origin):  # exp(log(v)) may differ from v by rounding
            kernel = kernel.with_scales(dict(zip(self.names, np.exp(x).tolist(), strict=True)))
        self.tried += 1
        self.progress.step(kernel)
        place, away = self.joint.at(kernel, float(z[-1])), self._away(x - self.origin)
        if place is None:
            return self._at_end[0] + _UNKNOWN, np.zeros(z.size)
        value, slopes, gamma = place
        pull = np.append(2.0 * self.penalty * self._away(away), 0.0)
        at_z = float(np.log(value)) + self.penalty * float(away @ away), slopes / value + pull
        if not np.isfinite(self.end.value) or at_z[0] < self._at_end[0]:
            self.end, self._z, self._at_end = End(kernel, gamma, float(np.log(value))), z, at_z
        return at_z

    def _away(self, step: Array) -> Array:
        """Return D times a step in the logarithms of the scales."""
        if self.widths.sum() < 2:
            return step
        return np.asarray(step - (1.0 - _COMMON) * self.widths * step[self.widths].mean())


def search_by_slopes(
    kernels: list[Kernel],
    task: Task,
    widths: Widths | None,
    by_family: bool,
    most: int,
    deadline: float,
    n_jobs: Any,
    progress: Progress,
) -> tuple[list[EvaluatedKernel], int, tuple[tuple[str, str], ...]]:
    """Return the judged candidates and the ends of descents of at most ``most`` kernels each, the number of kernels
    tried on the way, and the decisions.

    Of families one kernel each descends, of a list the best one; ``widths`` is how the search treats a kernel of one
    shared width; None: it only refines it.
    """
    middle = at_median_widths(kernels) if by_family else []
    starts = [kernel for kernel in middle if kernel.scales()]
    fixed = [kernel for kernel in middle if not kernel.scales()] if by_family else kernels
    judged = judge_each(fixed, task, deadline, n_jobs, progress)
    if not by_family:
        best = min(
            (candidate for candidate in judged if candidate.kernel.scales()), key=lambda candidate: candidate.score
        )
        if (best.search.values <= np.maximum(_EXACT * best.search.curve.max(axis=0), best.search.floor)).all():
            return judged, 0, ()
        starts = [best.kernel]
    few, how = max(5, most // 8), (deadline, progress)
    descents = [Descent(kernel, task, _PENALTY, *how).settle(few, _NEARLY) for kernel in starts]
    least = min(descent.end.value for descent in descents)
    for descent in descents:
        if descent.end.value <= least + _REACH:
            descent.settle(most - descent.tried)
    ended = [descent for descent in descents if by_family or descent.end.kernel != descent.kernel]
    judged += [evaluate(descent.end.kernel, task) for descent in ended]
    tried = sum(descent.tried - 1 for descent in ended)
    ends = sorted((descent.end for descent in descents), key=lambda end: end.value)
    is_late = time.monotonic() > deadline
    wide = (
        [widen_to_inputs(end.kernel, task.X) for end in ends[:2]] if widths in ("auto", "each") and not is_late else []
    )
    penalty = 1.0 / (int(task.Y.shape[0]) * (_PRIOR_OF_EVIDENCE if task.criterion == "evidence" else _PRIOR))
    further = [Descent(kernel, task, penalty, *how).settle((most * 3) // 8) for kernel in wide if kernel is not None]
    if not further:
        return judged, tried, ()
    each = min((descent.end for descent in further), key=lambda end: end.value)
    is_better, said = True, "one per input, as asked for"
    if widths == "auto":
        is_better, said = predicts_better(each, ends[0], task)
    if is_better:
        judged.append(evaluate(each.kernel, task))
        tried += sum(descent.tried for descent in further) - 1
    return judged, tried, (("widths", said),)


def predicts_better(each: End, shared: End, task: Task) -> tuple[bool, str]:
    """Return whether one width per input predicts rows left out better than a shared one, and by how much, in words."""
    first, second = (LeftOutLosses.of(end.kernel, end.gamma, task) for end in (each, shared))
    gain, error = first.gain_over(second)
    loses = "squares of rows left out"
    if task.pooled:
        loses, error = "wrong rows", _FOR_CLASSES * error
    else:  # the optimism of that many more numbers
        gain -= 2.0 * (task.X.shape[1] - 1) / first.losses.size * float(first.shares @ first.losses)
    said = f"{loses} with one per input less by {gain:.3g}, more than {error:.2g} is needed: "
    return gain > error, said + ("one per input" if gain > error else "shared")


def widen_to_inputs(kernel: Kernel, X: Any) -> Kernel | None:
    """Return the kernel with one width per input, at the same multiple of what the data suggest, or None."""
    if X.shape[1] < 2 or not isinstance(kernel, Shared) or isinstance(kernel.sigma, tuple):
        return None
    shared: Any = kernel.sigma
    middle, each = (replace(kernel, sigma=word).resolved(X).scales() for word in ("median", "each"))
    return replace(kernel, sigma=tuple(shared / middle["sigma"] * width for width in each.values()))
