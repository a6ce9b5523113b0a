r"""One width for all inputs, or one for each: the rule that decides, and the search by slopes that it is a part of.

Widths of d inputs that are chosen by leave-one-out, or by the evidence, make that criterion smaller whether or not they
predict better: it is a minimum over d numbers, on the rows that chose them. So the choice itself is validated. The rows
are cut into two halves A and B. On A both searches are done, that of the shared width and that of one width per input,
with their gammas; the machines that they lead to predict B, and those of B predict A. One width per input is searched
on all rows where its errors on these halves, which no search has seen, are smaller by more than a standard error, for
classes also in the number of wrong rows (:mod:`~problems.estimators.chosen.width_verdict`), and the machine keeps its
shared width otherwise. A search on a half costs an eighth of one on all rows.

The search of w is regularised [Cawley2007]_: it minimises

.. math:: \log F(w) + \frac{1}{N \tau^2} \sum_c \Big( \log \frac{w_c}{w_{0c}} \Big)^2, \qquad \tau^2 = \tfrac1{10},

which is what a normal prior of the logarithms of the widths, of deviation :math:`\tau` about those of the shared width
:math:`w_0`, adds to the logarithm of a criterion F of N rows. Machines are compared by F alone. The evidence is no
minimum over the rows' errors: it weighs all functions of a width ([Rasmussen2006]_ section 5.4), loses by a
width that is too short, and needs a prior only for widths of inputs without effect to stay finite, :math:`\tau = 5`.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from problems.estimators.chosen.candidates import EvaluatedKernel, evaluate
from problems.estimators.chosen.families import family_name
from problems.estimators.chosen.kernel_search import NEARLY, Descent, End, Judge, compute_each, descend
from problems.estimators.chosen.row_halves import halves, on_rows
from problems.estimators.chosen.tasks import Task, centred_points
from problems.estimators.chosen.width_verdict import WidthComparison, Wrong, wrong_rows
from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import Array
from substrate.errors import DeclarationError, DegenerateKernelWarning
from substrate.gram import Gram
from substrate.kernels import RBF, Kernel, Laplacian, Matern, PowerExponential
from substrate.kernels.widths import spreads_of
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_system import solve_saddle_system, target_unit
from substrate.progress import Progress

__all__ = ["Widths", "check_widths", "compare_searches", "refine_widths", "search_widths", "widen_to_inputs"]

Widths = Literal["auto", "shared", "each"]
#: Kernels of a distance, whose width may be shared.
Shared = RBF | Laplacian | Matern | PowerExponential
#: Part of the evaluations that goes to a shared width, which is one number; of the others, the eighths that go to the
#: first descent in one width per input.
_SHARED, _FIRST = 8, 4
#: The deviation tau of the prior, squared; and where the evidence judges.
_PRIOR, _PRIOR_OF_EVIDENCE = 0.1, 25.0
#: Most kernels of another family that are tried with the same ratios of widths, before the best family goes on.
_RIVAL = 10
#: Ratio of the spreads of two columns above which they have different units.
_UNITS_APART = 100.0


def check_widths(widths: Any, search: Any) -> None:
    """Refuse a parameter ``widths`` that is none, or that no search would heed."""
    if widths is not None and not (isinstance(widths, str) and widths in get_args(Widths)):
        raise DeclarationError(f"widths must be None, 'auto', 'shared' or 'each', received {widths!r}")
    if widths is not None and search != "gradient":
        raise DeclarationError(f"widths={widths!r} is decided by search='gradient', received search={search!r}")


def refine_widths(
    judged: list[EvaluatedKernel],
    task: Task,
    judge: Judge,
    widths: Widths | None,
    most: int,
    n_jobs: Any,
    progress: Progress,
) -> list[EvaluatedKernel]:
    """Return the judged kernels, and the end of a search by slopes from the best of them, of ``most`` kernels.

    ``widths`` is what the search may do with a kernel of one shared width; None: no more than refine it.
    """
    first = _best_to_search(judged)
    if not first.kernel.scales() or first.kernel.pairwise:
        raise DeclarationError(f"{first.kernel!r} has no parameter to search; give kernels= or search=None")
    if widths in (None, "shared") or widen_to_inputs(first.kernel, task.X) is None:
        return judged + descend(first, task, judge, most, progress)
    few, larger_budget = max(1, most // _SHARED), max(1, (most * 3) // 8)
    differ = widths == "auto" and _have_other_units(task.X)
    widths = "each" if differ else widths
    # where one width per input is asked for, a shared one is where its search starts
    candidates = judged if widths == "each" else judged + descend(first, task, judge, few, progress)
    best = min(candidates, key=_score)
    rich, gammas = widen_to_inputs(_best_to_search(candidates).kernel, task.X), best.search.gamma
    if rich is None:
        raise TypeError("a search over a shared width ends with one")
    said, start = "one per input, as asked for" if not differ else "one per input, since their units differ", None
    if widths == "auto":
        searches = (best.kernel, few), (rich, larger_budget)
        comparison, start = compare_searches(*searches, gammas, task, n_jobs, progress)
        said = "shared; too few rows to decide" if comparison is None else str(comparison)
        if comparison is None or not comparison.takes_each:
            return _saying(candidates, said)
    by_score = [each.kernel for each in sorted(candidates, key=_score)]
    descents = search_widths(rich, by_score, task, gammas, max(1, most - few), progress, start)
    tried = sum(descent.n_tried for descent in descents)
    end = min(descents, key=_end_value).judged_end(judge)
    return _saying([*candidates, replace(end, tried=tried)], said)


def _have_other_units(X: Array) -> bool:
    """Return whether the spreads of columns that vary are so far apart that a shared width compares few of them."""
    spreads = spreads_of(X)
    varying = spreads[spreads > 0.0]
    return varying.size > 1 and float(varying.max()) > _UNITS_APART * float(varying.min())


def search_widths(
    rich: Kernel,
    shared: list[Kernel],
    task: Task,
    gammas: Any,
    most: int,
    progress: Progress,
    start: End | None = None,
) -> list[Descent]:
    """Return descents in one width per input, from ``rich`` and of rival families, by at most so many kernels.

    ``shared`` are kernels of one width, the best of every family before its others. A rival begins with the ratios of
    widths where the first descent ended, or with those of the data where that is better, and the best one goes on.
    ``start`` is where searches on halves of the rows ended, in which the first one then begins.
    """
    factor = _penalty(task)
    descents = [Descent(rich, task, gammas, factor, progress, start)]
    descents[0].settle(max(1, (most * _FIRST) // 8))
    for kernel in _rivals(descents[0].end.kernel, shared):
        left = most - sum(descent.n_tried for descent in descents)
        own = next(each for each in shared if family_name(each) == family_name(kernel))
        starts = [each for each in (kernel, widen_to_inputs(own, task.X)) if each is not None and left > 0]
        if starts:
            rivals = [Descent(each, task, descents[0].end.gammas, factor, progress) for each in starts]
            descents.append(min(rivals, key=_end_value))
            descents[-1].settle(min(_RIVAL, left), NEARLY)
    best = min(descents, key=_end_value)
    if not best.is_settled:
        best.settle(max(0, most - sum(descent.n_tried for descent in descents)))
    return descents


def _end_value(descent: Descent) -> float:
    return descent.end.value


def _rivals(each: Any, shared: list[Kernel]) -> list[Kernel]:
    """Return kernels of the other families with the same ratios of widths, each at the best shared width of its
    family, its first one.
    """
    families: dict[str, Any] = {}
    for kernel in filter(_has_shared_width, shared):
        families.setdefault(family_name(kernel), kernel)
    width = families.pop(family_name(each)).sigma
    ratios = [own / width for own in each.sigma]
    return [replace(kernel, sigma=tuple(kernel.sigma * ratio for ratio in ratios)) for kernel in families.values()]


def _has_shared_width(kernel: Any) -> bool:
    return isinstance(kernel, Shared) and not isinstance(kernel.sigma, tuple)


def widen_to_inputs(kernel: Kernel, X: Any) -> Kernel | None:
    """Return the kernel with one width per input, at the same multiple of what the data suggest; None where there is
    none.
    """
    if X.shape[1] < 2 or not isinstance(kernel, Shared) or isinstance(kernel.sigma, tuple):
        return None
    shared: Any = kernel.sigma
    middle, each = (_resolved_width(kernel, word, X) for word in ("median", "each"))
    return replace(kernel, sigma=tuple(shared / middle * width for width in each))


def _resolved_width(kernel: Shared, word: str, X: Any) -> Any:
    return replace(kernel, sigma=word).resolved(X).sigma


def compare_searches(
    simple: tuple[Kernel, int], rich: tuple[Kernel, int], gammas: Any, task: Task, n_jobs: Any, progress: Progress
) -> tuple[WidthComparison | None, End | None]:
    """Return both searches, from some gammas, on either half, compared on the other one, and the mean of the ends of
    the second one, in which a search on all rows begins; None where a half is too small.
    """
    halves_of_rows = halves(task)
    if halves_of_rows is None:
        return None, None
    losses, units = np.zeros((task.Y.shape[0], 2)), _units(task)
    wrong = np.zeros(losses.shape, dtype=bool)
    rounds = [(on_rows(task, train), test) for train, test in (halves_of_rows, halves_of_rows[::-1])]
    searches = [(kernel, gammas, half, budget) for half, _ in rounds for kernel, budget in (simple, rich)]
    ends: list[End] = []
    for number, end in enumerate(compute_each(_search_half, searches, n_jobs)):
        ends += [end] if number % 2 else []
        progress.step(end.kernel)
        (half, test), column = rounds[number // 2], number % 2
        rows = task.X[test], task.Y[test]
        losses[test, column], wrong[test, column] = _errors(end.kernel, end.gammas, half, *rows, units)
    square = 1.0 if units.size > 1 else float(units[0]) ** 2
    comparison = WidthComparison.of(losses, wrong if task.pooled else None, task.weights, square)
    logarithms = np.log([list(end.kernel.scales().values()) for end in ends]).mean(axis=0)
    middle = rich[0].with_scales(dict(zip(rich[0].scales(), np.exp(logarithms).tolist(), strict=True)))
    return comparison, End(middle, np.exp(np.log([end.gammas for end in ends]).mean(axis=0)), np.inf)


def _search_half(kernel: Kernel, gammas: Any, half: Task, budget: int) -> End:
    """Return the kernel and the gammas that a search on some of the rows leads to."""
    if not kernel.scales():
        return End(kernel, evaluate(kernel, half).search.gamma, np.inf)
    descent = Descent(kernel, half, gammas, _penalty(half), Progress(0, shown=False))
    descent.settle(budget)
    return descent.end


def _penalty(task: Task) -> float:
    """Return the factor of the penalty."""
    return 1.0 / (int(task.Y.shape[0]) * (_PRIOR_OF_EVIDENCE if task.criterion == "evidence" else _PRIOR))


def _score(evaluated: EvaluatedKernel) -> float:
    return evaluated.score


def _best_to_search(judged: Sequence[EvaluatedKernel]) -> EvaluatedKernel:
    """Return the best one that has scales to search; where none has, the best."""
    return min([evaluated for evaluated in judged if evaluated.kernel.scales()] or judged, key=_score)


def _units(task: Task) -> Array:
    """Return the unit of the errors of each output: one for all, or of several targets their deviations."""
    if task.pooled or task.Y.shape[1] == 1:
        return np.array([target_unit(task.Y)])
    spread = np.std(task.Y / target_unit(task.Y), axis=0) * target_unit(task.Y)
    return np.where(spread > 0.0, spread, 1.0)


def _errors(kernel: Kernel, gammas: Array, task: Task, X: Array, Y: Array, units: Array) -> tuple[Array, Wrong]:
    """Return the errors of a machine at new rows: the mean over outputs of squared errors, in the units of the outputs
    squared, and whether a row is decoded to a wrong class.
    """
    points, X = centred_points(kernel, task.X, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateKernelWarning)  # of the chosen machine alone
        gram = Gram.of(kernel, points)
    gammas, units = (np.broadcast_to(each, Y.shape[1]) for each in (gammas, units))
    weights = np.ones(points.shape[0]) if task.weights is None else task.weights
    errors, counted = np.zeros(Y.shape), np.ones(Y.shape, dtype=bool)
    for machine in each_machine(task.Y, task.pooled):
        k = machine.column
        gram_of_machine = gram if machine.whole else gram.restrict(machine.rows)
        solution = solve_saddle_system(
            gram_of_machine, machine.y / units[k], Regularization(float(gammas[k])).ridge(weights[machine.rows])
        )
        outputs = kernel(X, points[machine.rows]) @ solution.support_values + solution.bias
        errors[:, k] = np.ravel(outputs) - Y[:, k] / units[k]
        counted[:, k] = (Y[:, k] != 0.0) | (not task.pooled)  # a row that is not in a machine of two classes
    wrong = wrong_rows(errors + Y / units, Y) if task.pooled else np.zeros(Y.shape[0], dtype=bool)
    return np.asarray(np.square(errors).mean(axis=1, where=counted)), wrong


def _saying(judged: list[EvaluatedKernel], said: str) -> list[EvaluatedKernel]:
    return [replace(evaluated, facts=(("widths", said),)) for evaluated in judged]
