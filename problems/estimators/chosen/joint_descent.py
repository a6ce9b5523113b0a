r"""The descent in the scales of a kernel and in gamma together: kernels on the way are not judged, its end is.

With the function of :mod:`~problems.estimators.chosen.joint_criterion`, a quasi-Newton method within bounds
[Byrd1995]_ takes one Cholesky factor for each kernel. Widths of columns are changed together first, by one common
factor, and then each on its own; what the penalty counts from, :math:`x_0`, is the start, and moves with that factor.

With 300 rows or more a descent starts on half of them (:mod:`~problems.estimators.chosen.row_halves`), with 600 or more
that one on a quarter: a place on half of the rows takes an eighth of the time, and few are then left to be taken on all
of them. What it learned of the curvature goes with it: with H the inverse Hessian by the secants of its places
(:mod:`~problems.estimators.chosen.secant_curvature`), :math:`H = L L^T`, the next one descends in v,
:math:`(t, x) = (t_0, x_0) + L v`, where the slope is the length of a Newton step and its square twice the gain to
expect, so that it ends where that is small.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from problems.estimators.chosen.candidates import EvaluatedKernel, evaluate
from problems.estimators.chosen.joint_criterion import JointCriterion, Place
from problems.estimators.chosen.row_halves import sample_of
from problems.estimators.chosen.secant_curvature import inverse_curvature
from problems.estimators.chosen.tasks import Task
from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.kernels import Kernel
from substrate.progress import Progress

__all__ = [
    "FARTHEST",
    "FINELY",
    "NEARLY",
    "SETTLED",
    "Space",
    "Start",
    "Trail",
    "begin_on_sample",
    "begun",
    "mean_start",
    "move_scales",
    "searched_scales",
]

#: Largest distance of a logarithm from its start: beyond it kernels are the identity or constant, or overflow.
FARTHEST = 12.0
#: The relative decrease of the criterion per step, twice in a row, below which a search ends, and below which one in
#: common factors of widths does, after which each width goes on by itself.
SETTLED, NEARLY = 1e-3, 1e-2
#: The same for one kernel that is refined without alternatives.
FINELY = 1e-4
#: Length of the first step in logarithms, where slopes do not ask for less; and near the end of another descent.
_FIRST, _FIRST_NEAR = 0.5, 0.1
#: Longest step in units of the inverse root of the curvature: half of its square is what it would gain.
_LONGEST = 3.0
#: The relative difference below which a gamma is the one that was given.
_SAME = 1e-12
#: The ridge at which a descent begins without a gamma, as a share of the mean eigenvalue of the centred matrix.
_RIDGE = 0.1
#: Ridges that are tried besides that of an end, as shares of the mean eigenvalue of the centred matrix; and, in a
#: given range of gamma, distances in its logarithm.
_RIDGES, _SHIFTS = (1.0, 3e-2, 1e-3), (-4.0, 4.0)


@dataclass(frozen=True, slots=True)
class Space:
    """The logarithms of the scales of a kernel, by name, from an origin on, and the factor of the penalty."""

    kernel: Kernel
    names: tuple[str, ...]
    origin: Array
    task: Any
    pull: float

    @property
    def widths(self) -> Array:
        """One for a width, zero for other scales."""
        return np.array([float(name.rpartition("__")[2].partition("[")[0] == "sigma") for name in self.names])

    @property
    def together(self) -> Array:
        """Directions in which scales that differ by the number of a column alone change by the same factor."""
        groups = [re.sub(r"\[\d+\]", "", name) for name in self.names]
        return np.array([[float(group == group_name) for group_name in dict.fromkeys(groups)] for group in groups])

    def kernel_at(self, x: Array) -> Kernel:
        """Return the kernel with scales e^x."""
        return move_scales(self.kernel, self.names, self.origin, x)


def searched_scales(kernel: Kernel) -> tuple[tuple[str, ...], Array]:
    """Return the names of the scales of a kernel, and their logarithms."""
    scales = kernel.scales()
    if not scales:
        raise DeclarationError(f"{kernel!r} has no parameter to search; give kernels= or search=None")
    return tuple(scales), np.log(np.array(list(scales.values())))


def move_scales(kernel: Kernel, names: tuple[str, ...], origin: Array, x: Array) -> Kernel:
    """Return the kernel with scales e^x; itself, exactly, at the origin, where exp(log(v)) may differ from v by
    rounding.
    """
    if np.array_equal(x, origin):
        return kernel
    kernel_moved: Kernel = kernel.with_scales(dict(zip(names, np.exp(x).tolist(), strict=True)))
    return kernel_moved


@dataclass(frozen=True, slots=True)
class Start:
    """Where a descent on other rows ended: the logarithms of scales, those that the penalty counts from, and gamma.

    ``curvature`` is the inverse of that of the descent, in t and then in the scales, if it is known.
    """

    x: Array
    anchor: Array
    gamma: float
    curvature: Array | None = None


def mean_start(starts: Sequence[Start]) -> Start:
    """Return the geometric mean of scales and gammas."""
    x, anchor = (np.mean([getattr(start, name) for start in starts], axis=0) for name in ("x", "anchor"))
    gamma = float(np.exp(np.mean([np.log(start.gamma) for start in starts])))
    curvatures = [start.curvature for start in starts if start.curvature is not None]
    return Start(x, anchor, gamma, np.mean(curvatures, axis=0) if len(curvatures) == len(starts) else None)


def begun(
    kernel: Kernel,
    task: Any,
    gamma: float | None,
    pull: float,
    progress: Progress,
    start: Start | None = None,
    *,
    is_compared: bool = False,
) -> "Trail | None":
    """Return a descent from a kernel and a gamma, or from a ``start``; None where there is none by factors.

    Where gamma is None, it begins at a ridge of a tenth of the mean eigenvalue of the centred matrix. ``is_compared``
    states that starts are compared before one goes on: of a ``start`` the value alone is taken then, in half of the
    time, and its slope where the descent goes on.
    """
    if not JointCriterion.fits(kernel, task):
        return None
    t = float(np.log(_RIDGE / task.Y.shape[0])) if gamma is None else None
    space = Space(kernel, *searched_scales(kernel), task, pull)
    return Trail.of(space, progress, t, 1.0 if gamma is None else gamma, start, is_compared)


def begin_on_sample(
    kernel: Kernel,
    task: Any,
    gamma: float | None,
    pull: Callable[[int], float],
    most: int,
    progress: Progress,
) -> "Trail | None":
    """Return a descent that starts where one on half of the rows settled, after ``most`` kernels at most, if they are
    many; None where there is none by factors.

    ``pull`` is the factor of the penalty as a function of the number of rows.
    """
    if not JointCriterion.fits(kernel, task):
        return None
    sample, n = sample_of(task), int(task.Y.shape[0])
    if sample is None or (trail := begin_on_sample(kernel, sample, gamma, pull, most, progress)) is None:
        return begun(kernel, task, gamma, pull(n), progress)
    trail.settle(most, NEARLY)
    return begun(kernel, task, gamma, pull(n), progress, trail.start)


def _known(slope: Array | None) -> Array:
    if slope is None:
        raise TypeError("internal error: a descent goes on from a place whose slope is known")
    return slope


class _DescentSpentError(Exception):
    """No kernel is evaluated any more in this run."""


@dataclass(slots=True)
class Trail:
    """The places of a descent from one kernel, the first one its start, and whether nothing was left to gain.

    ``anchor`` is what the penalty counts from, and ``is_near`` whether the start is the end of a descent on other rows.
    ``inherited`` is the inverse curvature of a descent of the same scales, if there was one.
    """

    joint: JointCriterion
    space: Space
    progress: Progress
    anchor: Array
    is_near: bool = False
    places: list[Place] = field(default_factory=list)
    settled: bool = False
    inherited: Array | None = None

    @classmethod
    def of(
        cls,
        space: Space,
        progress: Progress,
        t: float | None,
        gamma: float = 1.0,
        start: Start | None = None,
        is_compared: bool = False,
    ) -> "Trail | None":
        """Start the trail from the kernel of a space, at t or at a gamma, or from a ``start`` with the gamma there, of
        which the value alone is taken where it ``is_compared``; None for a task or a kernel without factors.
        """
        joint = JointCriterion.of(space.kernel, space.task)
        if joint is None:
            return None
        if start is not None:
            x = np.clip(start.x, space.origin - FARTHEST, space.origin + FARTHEST)
            kernel = space.kernel_at(x)
            place = joint.value_at(kernel, x, start.gamma) if is_compared else joint.at(kernel, x, None, start.gamma)
            if place is not None:
                # the same machine where it does not move: gamma, t and lambda follow from each other up to rounding
                is_same = abs(place.gamma - start.gamma) <= _SAME * start.gamma
                place = replace(place, gamma=start.gamma) if is_same else place
                return cls(joint, space, progress, start.anchor, True, [place], inherited=start.curvature)
        place = joint.at(space.kernel, space.origin, t, gamma)
        return None if place is None else cls(joint, space, progress, space.origin, False, [place])

    @property
    def start(self) -> Start:
        """The end, as the start of a descent on other rows."""
        return Start(self.end.x, self.anchor, self.end.gamma, self.curvature)

    @property
    def curvature(self) -> Array | None:
        """The inverse curvature of what is minimised, in t and then in the scales; None where too little is known."""
        places = [place for place in self.places if place.slope is not None]
        slopes = [self._slope(place) for place in places]
        points = [np.concatenate([[place.t], place.x]) for place in places]
        return inverse_curvature(points, slopes, self.inherited, 2.0 * self.space.pull)

    def _slope(self, place: Place) -> Array:
        """Return the slope in t and then in the scales, the penalty included."""
        slope = np.append(place.slope_t, _known(place.slope)) / place.value
        slope[1:] += 2.0 * self.space.pull * (place.x - self.anchor)
        return slope

    @property
    def n_tried(self) -> int:
        """The number of kernels but the start."""
        return len(self.places) - 1

    @property
    def end(self) -> Place:
        """The place of the lowest criterion."""
        return min(self.places, key=lambda place: place.value)

    @property
    def kernel(self) -> Kernel:
        """The kernel at the end."""
        return self.space.kernel_at(self.end.x)

    @property
    def gamma(self) -> float:
        """The gamma at the end."""
        return self.end.gamma

    @property
    def has_moved(self) -> bool:
        """Whether a kernel is better than the start."""
        return self.end is not self.places[0]

    def evaluate_end(self) -> EvaluatedKernel:
        """Return the end, at its best gamma."""
        if not isinstance(self.space.task, Task):
            raise TypeError("internal error: a descent by factors needs a task")
        return self.of_end(evaluate(self.kernel, self.space.task))

    def of_end(self, judged: EvaluatedKernel) -> EvaluatedKernel:
        """Return the judged end, with what is known of the way to it."""
        return replace(judged, tried=max(self.n_tried - 1, 0), settled=self.settled)

    def look(self, factors: Sequence[float]) -> None:
        """Try all widths times some factors."""
        start = self.places[0]
        for factor in factors if self.space.widths.any() else ():
            self._add(start.x + np.log(factor) * self.space.widths, start.t)

    def ridge(self) -> bool:
        """Return whether one of some other gammas is better at the end, which then is the end.

        Where a machine interpolates, slopes in gamma vanish, and lead nowhere.
        """
        end, n, low, high = self.end, self.joint.weights.size, *self.joint.ends
        places = [min(max(end.t + shift, low), high) for shift in _SHIFTS]
        ts = places if self.joint.is_given else [float(np.log(ridge / n)) for ridge in _RIDGES]
        values = self.joint.values(self.kernel, ts)
        best = int(np.argmin(values))
        if not values[best] < end.value:
            return False
        place = self.joint.at(self.kernel, end.x, ts[best])
        self.places += [] if place is None else [place]
        return place is not None

    def descend(self, most: int, small: float = SETTLED) -> None:
        """Descend from the end so far, by at most as many kernels, until a step gains less than ``small``."""
        groups, first = self.space.together, self.n_tried
        if groups.shape[1] < groups.shape[0] and not self.is_near:
            before = self.end.x
            self._run(groups, most, max(small, NEARLY))
            self.anchor = self.anchor + (self.end.x - before)
        self.settled = (
            self._run(np.eye(self.space.origin.size), most - (self.n_tried - first), small) and small <= SETTLED
        )

    def settle(self, most: int, small: float = SETTLED) -> None:
        """Descend until nothing is left to gain, also at some other gammas, by at most as many kernels."""
        first = self.n_tried
        self.descend(most, small)
        if self.ridge():
            self.descend(most - (self.n_tried - first), small)

    def _add(self, x: Array, t: float) -> Place | None:
        kernel = self.space.kernel_at(x)
        self.progress.step(kernel)
        place = self.joint.at(kernel, x, t)
        self.places += [] if place is None else [place]
        return place

    def _sloped_end(self, most: int) -> Place | None:
        """Return the end with its slope, which is computed where the value alone was taken and a kernel is to be
        tried; None where there is none.
        """
        end = self.end
        if end.slope is not None or most <= 0:
            return end if end.slope is not None else None
        place = self.joint.at(self.kernel, end.x, end.t)
        if place is not None:
            self.places[0] = place = replace(place, gamma=end.gamma)  # only a start has a value alone
        return place

    def _run(self, directions: Array, most: int, small: float) -> bool:
        """Return whether a descent along some directions of x, and in t, ended because it settled."""
        if (start := self._sloped_end(most)) is None:
            return False
        d = directions.shape[1]
        is_whole = d == directions.shape[0]
        curvature = self.curvature if is_whole else None
        # a factor common to all widths is free to move from where it is; each of them is pulled to the anchor
        away = start.x - self.anchor if is_whole else np.zeros(d)
        low, high = (end - start.t for end in self.joint.ends)
        first = _FIRST_NEAR if self.is_near else _FIRST
        slope = np.append(start.slope_t, directions.T @ _known(start.slope)) / start.value
        slope[1:] += 2.0 * self.space.pull * away
        steps: Array = np.eye(d + 1)
        if curvature is None:
            # a step of the quasi-Newton method starts as its slope, which is short in logarithms of F
            size = float(np.linalg.norm(slope))
            scale = float(np.clip(first / max(size, 1e-12), 1.0, 0.5 * self.joint.weights.size))
            gentle = small
            bounds = [(low, high)] + [(-FARTHEST, FARTHEST)] * d
        else:
            steps = np.asarray(np.linalg.cholesky(curvature), dtype=np.float64)
            scale = min(1.0, _FIRST / max(float(np.linalg.norm(curvature @ slope)), 1e-12))
            # half of the squared slope is what a step gains
            gentle = float(np.sqrt(2.0 * small / (d + 1)))
            # a step that the curvature of another descent makes too long is not to leave what can be evaluated
            bounds = [(low / steps[0, 0], high / steps[0, 0])] + [(-_LONGEST, _LONGEST)] * d
        descent = _Descent(self, start, directions, away, steps, scale, self.n_tried + most)
        return descent.minimise(bounds, gentle, small)


@dataclass(slots=True)
class _Descent:
    """A run of a trail from one of its places: the function of v, (t, u) = ``steps`` v, of which x moves by
    ``directions`` u, times ``scale``; it ends with ``limit`` kernels.
    """

    trail: Trail
    start: Place
    directions: Array
    away: Array
    steps: Array
    scale: float
    limit: int
    gains: list[float] = field(default_factory=lambda: [0.0])

    def minimise(self, bounds: list[tuple[float, float]], gentle: float, small: float) -> bool:
        """Return whether it ended because the slope was ``gentle``, or steps gained less than ``small``."""
        from scipy.optimize import minimize

        def check_settled(intermediate_result: Any) -> None:
            self.gains.append(float(intermediate_result.fun) / self.scale)
            if len(self.gains) > 2 and self.gains[-3] - self.gains[-1] < 2.0 * small:
                raise StopIteration

        options = {"maxiter": 10_000, "maxfun": 10_000, "ftol": 0.0, "gtol": self.scale * gentle}
        with suppress(_DescentSpentError):
            minimize(
                self.value,
                np.zeros(len(bounds)),
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options=options,
                callback=check_settled,
            )
            return True
        return False

    def value(self, v: Array) -> tuple[float, Array]:
        """Return the function, what it is more than at the start, and its slope."""
        trail, start, pull, w = self.trail, self.start, self.trail.space.pull, self.steps @ v
        place: Place | None = start
        if v.any():
            x = start.x + self.directions @ np.clip(w[1:], -FARTHEST, FARTHEST)
            place = None if trail.n_tried >= self.limit else trail._add(x, start.t + float(w[0]))
        if place is None:
            raise _DescentSpentError
        slope = np.append(place.slope_t, self.directions.T @ _known(place.slope)) / place.value
        slope[1:] += 2.0 * pull * (self.away + w[1:])
        penalty = pull * float(w[1:] @ (2.0 * self.away + w[1:]))
        value = float(np.log(place.value / start.value)) + penalty
        return self.scale * value, self.scale * (self.steps.T @ slope)
