r"""The machines of a stack: where descents of several families end, with a shared width and with one for each input.

A search that keeps one machine judges its end by a decomposition, with a proof over gamma. A stack weighs machines by
their exact left-out errors, whatever gamma they have, so that the ends of descents
(:mod:`~problems.estimators.chosen.joint_descent`) are machines as they are. By either criterion these are

- every family at its best shared width,
- the best of them, and its rivals within reach, with one width per input,

and what has no width, at its best gamma. Of classes, one width per input is among them only where the rule between both
takes it (:mod:`~problems.estimators.chosen.width_rule`): left-out squares of codes, which weigh the machines, fall with
many widths also where the number of wrong rows grows (:mod:`~problems.estimators.chosen.width_verdict`).

The evidence is searched first: a place takes it half of the time of leave-one-out, which is then searched from where
the evidence was best, on all rows; both have several minima in many widths, so that the best family is also searched
from a start of its own. A stack has the left-out errors of the machines of the evidence, by which those are known from
where leave-one-out is searched.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from problems.estimators.chosen.candidates import evaluate
from problems.estimators.chosen.joint_descent import Trail
from problems.estimators.chosen.kernel_search import family_trails
from problems.estimators.chosen.tasks import Task
from problems.estimators.chosen.width_rule import (
    compare_searches,
    follow_widths,
    have_other_units,
    search_widths,
    widen_to_inputs,
)
from substrate.kernels import Kernel
from substrate.progress import Progress
from substrate.threads import blas_threads

__all__ = ["Machine", "StackSearch", "search_machines"]

#: A kernel and its gamma.
Machine = tuple[Kernel, float]
#: Part of the evaluations that goes to a shared width, and to the first descent in one width per input, of eight.
_SHARED, _EACH = 1, 3


@dataclass(frozen=True, slots=True)
class StackSearch:
    """The machines of one criterion, and the descents in a shared width and in one per input that end with them."""

    machines: list[Machine]
    shared: list[Trail]
    each: list[Trail]


def search_machines(
    kernels: list[Kernel],
    task: Task,
    most: int,
    n_jobs: Any,
    progress: Progress,
    *,
    earlier: StackSearch | None = None,
    left_out: Mapping[Machine, float] | None = None,
) -> StackSearch | None:
    """Return the machines of one criterion, ``most`` kernels on all rows for each way of widths; None where there is no
    descent by factors. ``kernels`` has one of each family. ``earlier`` is the search of the same kernels by another
    criterion, and ``left_out`` has the mean squares of the left-out errors of its machines, if they are known and the
    criterion of this search.
    """
    few = max(5, most * _SHARED // 8)
    with blas_threads(int(task.Y.shape[0])):
        former = None
        if earlier is not None:
            former = [(trail.start, _value_of(trail, left_out)) for trail in earlier.shared]
        trails = family_trails([kernel for kernel in kernels if kernel.scales()], task, few, n_jobs, progress, former)
        if not trails:
            return None
        ordered = sorted(trails, key=lambda trail: trail.end.value)
        machines = [(trail.kernel, trail.gamma) for trail in trails]
        for kernel in kernels:
            if not kernel.scales():
                progress.step(kernel)
                machines.append((kernel, float(evaluate(kernel, task).search.gamma[0])))
        best, budgets, start = ordered[0], (max(1, most * _EACH // 8), max(1, most - few)), None
        rich = widen_to_inputs(best.kernel, task.X)
        if rich is None:
            return StackSearch(machines, trails, [])
        if task.pooled and not have_other_units(task.X):
            searches = (best.kernel, few), (rich, budgets[0])
            comparison, start = compare_searches(*searches, best.gamma, task, n_jobs, progress)
            if comparison is None or not comparison.takes_each:
                return StackSearch(machines, trails, [])
        followed = []
        if earlier is not None:
            rich_former = [(trail, _value_of(trail, left_out)) for trail in earlier.each]
            followed = follow_widths(rich_former, task, budgets, progress)
        rivals = [best.kernel] if followed else [trail.kernel for trail in ordered]
        each = [*followed, *search_widths(rich, rivals, task, best.gamma, start, budgets, progress)]
        machines += [(trail.kernel, trail.gamma) for trail in each]
        return StackSearch(machines, trails, each)


def _value_of(trail: Trail, left_out: Mapping[Machine, float] | None) -> float | None:
    """Return the mean square of the left-out errors of the machine of a descent, if it is known."""
    return None if left_out is None else left_out.get((trail.kernel, trail.gamma))
