r"""The search outside: over a list of kernels, or over the logarithms of a kernel's scales, by slopes.

The search by slopes minimises

.. math:: \log \min_\gamma F(k_x, \gamma) + c\, \|x - x_0\|^2, \qquad x = \log s,

by a limited-memory quasi-Newton method within bounds [Byrd1995]_. The second term, a ten-thousandth of the criterion
for a scale that changes by a factor of e, keeps the width of a column without effect finite; it is no part of the
criterion by which kernels are compared. Where all outputs share one gamma it descends in x and gamma together, and
judges its end (:mod:`~problems.estimators.chosen.joint_descent`). Otherwise every kernel on the way is judged, from
the best of a few multiples of the widths: the derivatives in all scales cost less than the judgement. Widths of columns
are changed together first, by one common factor, and then each on its own from there.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from problems.estimators.chosen.candidates import SMOOTH, EvaluatedKernel, evaluate
from problems.estimators.chosen.joint_criterion import JointCriterion
from problems.estimators.chosen.joint_descent import (
    FARTHEST,
    FINELY,
    NEARLY,
    Space,
    Start,
    Trail,
    begin_on_sample,
    begun,
    searched_scales,
)
from problems.estimators.chosen.row_halves import sample_of
from problems.estimators.chosen.tasks import Task
from substrate.arrays import Array, is_sparse
from substrate.errors import DeclarationError
from substrate.kernels import Kernel
from substrate.namespaces import is_device_array
from substrate.progress import Progress

__all__ = [
    "REACH",
    "WITHIN",
    "JudgedBy",
    "best_of",
    "check_slopes",
    "descend",
    "descend_families",
    "family_trails",
    "kernels_fact",
    "most_evaluations",
]

#: A function that judges a kernel and has its slopes, where that is not the judgement of a :class:`Task`.
JudgedBy = Callable[[Kernel], EvaluatedKernel]

#: Most kernels that a search judges, and that a descent by factors tries, unless another number is given.
_MOST_KERNELS, _MOST_FACTORS = 40, 96


#: Widths of the further starts of a search by slopes, as multiples of the given ones.
_SPREADS = (3.0, 1.0 / 3.0)
#: c of the penalty.
_PULL = 1e-4
#: A criterion below this share of its largest value on the path is that of an exact fit, and is not searched further.
_EXACT = 1e-12
#: A family whose criterion is larger than the best one by more than this share, after a rough descent, goes no further.
REACH = 0.05
#: Most criterion of a kernel where it begins on all rows, at the end of another descent, as a multiple of the best one,
#: to go on from there.
WITHIN = 1.1


def most_evaluations(limit: int | None, by_factors: bool = False) -> int:
    """Return the most kernels that a search looks at; ``by_factors``: without judging each of them."""
    return int(limit or (_MOST_FACTORS if by_factors else _MOST_KERNELS))


def _evaluate_kernel(kernel: Kernel, task: Task | JudgedBy, slope: bool) -> EvaluatedKernel:
    return evaluate(kernel, task, slope) if isinstance(task, Task) else task(kernel)


def best_of(
    kernels: list[Kernel], task: Task | JudgedBy, n_jobs: Any, progress: Progress, slope: bool = False
) -> list[EvaluatedKernel]:
    """Judge every kernel, several at a time if requested."""
    if n_jobs in (None, 1) or len(kernels) == 1:
        judged = []
        for kernel in kernels:
            progress.step(kernel)
            judged.append(_evaluate_kernel(kernel, task, slope))
        return judged
    from joblib import Parallel, delayed

    calls = (delayed(_evaluate_kernel)(kernel, task, slope) for kernel in kernels)
    evaluated = []
    for result in Parallel(n_jobs=n_jobs, return_as="generator")(calls):
        progress.step(result.kernel)
        evaluated.append(result)
    return evaluated


def check_slopes(kernels: Sequence[Kernel], X: Any, criterion: str) -> None:
    """Refuse a search by slopes where there are none."""
    if criterion not in SMOOTH:
        raise DeclarationError(
            f"search='gradient' needs a criterion with derivatives: use loss='squared', or a list of kernels for "
            f"loss={criterion!r}"
        )
    if is_device_array(X) or is_sparse(X):
        kind = "a dense numpy array (X.cpu().numpy(), X.get())" if is_device_array(X) else "dense (X.toarray())"
        raise DeclarationError(f"search='gradient' needs points whose columns it can weigh: X must be {kind}")
    for kernel in kernels:
        if kernel.scales():
            kernel.scale_gradient(X[:1], X[:1], np.zeros((1, 1)))  # a kernel without a formula refuses, before any work


def descend(
    start: EvaluatedKernel, task: Task | JudgedBy, most: int, n_jobs: Any, progress: Progress, pull: float | None = None
) -> list[EvaluatedKernel]:
    """Return kernels along the slopes of their criterion, at most ``most``; those that are judged are returned.

    ``pull`` is the factor c of the penalty, if it is another one. By factors that is the end alone, if it is better
    than the start; by judgements it is all of them.
    """
    names, origin = searched_scales(start.kernel)
    if start.settled or _exact(start):
        return []  # nothing is left to gain
    space = Space(kernel=start.kernel, names=names, origin=origin, task=task, pull=_PULL if pull is None else pull)
    if (trail := _jointly(space, start, most, progress)) is not None:
        return trail
    first = start if start.slope is not None else _evaluate_kernel(start.kernel, task, True)
    return _by_judgements(space, first, most, n_jobs, progress)


def _jointly(space: Space, start: EvaluatedKernel, most: int, progress: Progress) -> list[EvaluatedKernel] | None:
    """Return the descent in scales and gamma together, its end judged; None for a task or a kernel without factors."""
    trail = Trail.of(space, progress, None, float(start.search.gamma[0]))
    if trail is None:
        return None
    trail.look(_SPREADS[:most])
    trail.settle(most - trail.n_tried, FINELY)
    return [trail.evaluate_end()] if trail.has_moved else []


def descend_families(
    kernels: Sequence[Kernel], task: Task, most: int, n_jobs: Any, progress: Progress
) -> tuple[list[EvaluatedKernel], list[Kernel]] | None:
    """Return kernels of several families, each judged where a descent from its median width ends, and those that are
    not judged; None without factors.

    ``kernels`` has one of each family. Where descents began on half of the rows, those that are out of reach of the
    best one are not judged: that takes as long as three places of a descent.
    """
    fixed = [kernel for kernel in kernels if not kernel.scales()]
    trails = family_trails([kernel for kernel in kernels if kernel.scales()], task, most, n_jobs, progress)
    if trails is None:
        return None
    most_value = (1.0 + REACH) * min((trail.end.value for trail in trails), default=0.0)
    others = [trail.kernel for trail in trails if trail.is_near and trail.end.value > most_value]
    trails = [trail for trail in trails if not (trail.is_near and trail.end.value > most_value)]
    ends = best_of([*fixed, *(trail.kernel for trail in trails)], task, n_jobs, progress)
    judged = [trail.of_end(end) for trail, end in zip(trails, ends[len(fixed) :], strict=True)]
    return [*ends[: len(fixed)], *judged], others


def family_trails(
    kernels: Sequence[Kernel],
    task: Task,
    most: int,
    n_jobs: Any,
    progress: Progress,
) -> list[Trail] | None:
    """Return the descents of kernels of several families from their widths, in their order; None without factors.

    All descend roughly, on half of the rows where these are many, and those that are then within reach of the best one
    until they settle.
    """
    trails, first = list[Trail](), _starts_on_sample(kernels, task, most, n_jobs, progress)
    for kernel, start in zip(kernels, first, strict=True):
        trail = begun(kernel, task, None, _PULL, progress, start, is_compared=True)
        if trail is None:
            return None
        trails.append(trail)
    for trail in trails:
        if not trail.is_near:
            trail.descend(most, NEARLY)
    for trail in sorted(trails, key=lambda trail: trail.end.value):
        if trail.end.value <= (1.0 + REACH) * min(each.end.value for each in trails):
            trail.descend(most - trail.n_tried)
    return trails


def _starts_on_sample(
    kernels: Sequence[Kernel], task: Task, most: int, n_jobs: Any, progress: Progress
) -> list[Start | None]:
    """Return where descents on half of the rows end, several at a time if requested; None where rows are few."""
    sample = sample_of(task) if kernels and JointCriterion.fits(kernels[0], task) else None
    if sample is None:
        return [None] * len(kernels)
    if n_jobs in (None, 1):
        return [_start_on_sample(kernel, sample, most, progress) for kernel in kernels]
    from joblib import Parallel, delayed

    calls = (delayed(_start_on_sample)(kernel, sample, most, None) for kernel in kernels)
    return list(Parallel(n_jobs=n_jobs)(calls))


def _start_on_sample(kernel: Kernel, sample: Task, most: int, progress: Progress | None) -> Start | None:
    progress = Progress(0, shown=False) if progress is None else progress  # a stream is not sent to other processes
    trail = begin_on_sample(kernel, sample, None, _pull, most, progress)
    if trail is None:
        return None
    trail.settle(most, NEARLY)
    return trail.start


def _pull(n_rows: int) -> float:
    return _PULL


def _by_judgements(
    space: Space, start: EvaluatedKernel, most: int, n_jobs: Any, progress: Progress
) -> list[EvaluatedKernel]:
    """Return the descent in scales with every kernel on the way judged, from the best multiple of the widths."""
    origin, judged = space.origin, list[EvaluatedKernel]()
    best: _Place = (start, origin)

    def spread(factors: Sequence[float]) -> None:
        nonlocal best
        places = [best[1] + np.log(factor) * space.widths for factor in factors if space.widths.any()]
        places = places[: most - len(judged)]
        evaluated = best_of([space.kernel_at(x) for x in places], space.task, n_jobs, progress, slope=True)
        judged.extend(evaluated)
        best = min([best, *zip(evaluated, places, strict=True)], key=lambda place: place[0].score)

    spread(_SPREADS)
    stages = [np.eye(origin.size)]
    if space.together.shape[1] < origin.size:
        stages.insert(0, space.together)
    for directions in stages:
        run = _run(space, best, directions, most - len(judged), progress)
        judged += [evaluated for evaluated, _ in run]
        best = min([best, *run], key=lambda place: place[0].score)
    return judged


#: A judged kernel and the logarithms of its scales.
_Place = tuple[EvaluatedKernel, Array]


def _exact(judged: EvaluatedKernel) -> bool:
    """Return whether the machine predicts all but exactly what it has not seen."""
    search = judged.search
    return bool((search.values <= np.maximum(_EXACT * search.curve.max(axis=0), search.floor)).all())


class _SearchSpentError(Exception):
    """No kernel is judged any more in this run."""


def _run(space: Space, start: _Place, directions: Array, budget: int, progress: Progress) -> list[_Place]:
    """Return the kernels judged in a descent from one start along some directions, until it settles."""
    from scipy.optimize import minimize

    run, evaluated = list[_Place](), {np.zeros(directions.shape[1]).tobytes(): start[0]}
    unit, steps = start[0].score, [0.0]
    small = NEARLY if directions.shape[1] < directions.shape[0] else FINELY

    def judged_at(u: Array) -> EvaluatedKernel:
        if u.tobytes() not in evaluated:
            if len(run) >= budget or (run and _exact(run[-1][0])):
                raise _SearchSpentError
            x = start[1] + directions @ u
            kernel = space.kernel_at(x)
            progress.step(kernel)
            run.append((_evaluate_kernel(kernel, space.task, True), x))
            evaluated[u.tobytes()] = run[-1][0]
        return evaluated[u.tobytes()]

    def value(u: Array) -> tuple[float, Array]:
        judged = judged_at(u)
        if judged.slope is None:
            raise TypeError("internal error: a search by slopes needs a kernel evaluated with its slopes")
        slope = directions.T @ judged.slope / max(judged.score, np.finfo(np.float64).tiny)
        return _logarithm(judged.score / unit) + space.pull * float(u @ u), slope + 2.0 * space.pull * u

    def check_settled(intermediate_result: Any) -> None:
        steps.append(float(intermediate_result.fun))
        if len(steps) > 2 and steps[-3] - steps[-1] < 2.0 * small:
            raise StopIteration

    u, bounds = np.zeros(directions.shape[1]), [(-FARTHEST, FARTHEST)] * directions.shape[1]
    options = {"maxiter": 10_000, "maxfun": 10_000, "ftol": 0.0, "gtol": small}
    with suppress(_SearchSpentError):
        minimize(value, u, jac=True, method="L-BFGS-B", bounds=bounds, options=options, callback=check_settled)
    return run


def kernels_fact(judged: Sequence[EvaluatedKernel], local: bool) -> str:
    """Return how many kernels a search evaluated, and how many more it tried."""
    tried = sum(evaluated.tried for evaluated in judged)
    more = f", {tried} more tried on the way" if tried else ""
    return f"{len(judged)} evaluated{more}{'; the search among them is local' if local else ''}"


def _logarithm(score: float) -> float:
    return float(np.log(max(score, np.finfo(np.float64).tiny)))
