r"""One width for all inputs, or one for each: the rule that decides, and the search by slopes that it is a part of.

Widths of d inputs that are chosen by leave-one-out, or by the evidence, make that criterion smaller whether or not they
predict better: it is a minimum over d numbers, on the rows that chose them. So the choice itself is validated. The rows
are cut into two halves A and B. On A both searches are done, that of the shared width and that of one width per input,
with their gammas; the machines that they lead to predict B, and those of B predict A. One width per input is searched
on all rows where its errors on these halves, which no search has seen, are smaller by more than a standard error, for
classes also in the number of wrong rows (:mod:`~problems.estimators.chosen.width_verdict`), and the machine keeps its
shared width otherwise. A search on a half costs an eighth of one on all rows.

The search of w is regularised [Cawley2007]_: it minimises

.. math:: \log F(w) + \frac{1}{N \tau^2} \sum_c \Big( \log \frac{w_c}{w_{0c}} \Big)^2, \qquad \tau = \tfrac12,

which is what a normal prior of the logarithms of the widths, of deviation :math:`\tau` about those of the shared width
:math:`w_0`, adds to the logarithm of a criterion F of N rows. Machines are compared by F alone. The evidence is no
minimum over the rows' errors: it weighs all functions of a width ([Rasmussen2006]_ section 5.4), loses by a
width that is too short, and needs a prior only for widths of inputs without effect to stay finite, :math:`\tau = 5`.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from problems.estimators.chosen.candidates import EvaluatedKernel, evaluate
from problems.estimators.chosen.families import family_name
from problems.estimators.chosen.joint_criterion import JointCriterion
from problems.estimators.chosen.joint_descent import (
    NEARLY,
    Start,
    Trail,
    begin_on_sample,
    begun,
    mean_start,
)
from problems.estimators.chosen.kernel_search import WITHIN, JudgedBy, best_of, descend
from problems.estimators.chosen.row_halves import halves, on_rows, sample_of
from problems.estimators.chosen.tasks import Task, centred_points
from problems.estimators.chosen.width_verdict import WidthComparison, Wrong, wrong_rows
from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import Array, is_sparse
from substrate.errors import DeclarationError, DegenerateKernelWarning
from substrate.gram import Gram
from substrate.kernels import RBF, Kernel, Laplacian, Matern, PowerExponential
from substrate.kernels.terms import spreads_of
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_system import solve_saddle_system, target_unit
from substrate.namespaces import is_device_array
from substrate.progress import Progress
from substrate.streaming.rows import Source, draw_rows

__all__ = [
    "WidthSetting",
    "Widths",
    "best_to_search",
    "check_widths",
    "compare_searches",
    "have_other_units",
    "refine_widths",
    "search_widths",
    "widen_to_inputs",
]

Widths = Literal["auto", "shared", "each"]
#: Kernels of a distance, whose width may be shared.
Shared = RBF | Laplacian | Matern | PowerExponential
#: Part of the evaluations that goes to a shared width, which is one number.
_SHARED = 8
#: The deviation tau of the prior, squared; and where the evidence judges.
_PRIOR, _PRIOR_OF_EVIDENCE = 0.25, 25.0
#: Most kernels of another family that are tried with the same ratios of widths, before the best family goes on.
_RIVAL = 6
#: Ratio of the spreads of two columns above which they have different units.
_UNITS_APART = 100.0
#: Most rows of a machine on a reduced basis that decide.
_DECIDING = 1000


def check_widths(widths: Any, search: Any) -> None:
    """Refuse a parameter ``widths`` that is none, or that no search would heed."""
    if widths is not None and not (isinstance(widths, str) and widths in get_args(Widths)):
        raise DeclarationError(f"widths must be None, 'auto', 'shared' or 'each', received {widths!r}")
    if widths is not None and search != "gradient":
        raise DeclarationError(f"widths={widths!r} is decided by search='gradient', received search={search!r}")


@dataclass(frozen=True, slots=True)
class WidthSetting:
    """How a search judges: on a task, or by a function; the rows that suggest widths; how many judge.

    ``decides`` has the rows of the rule, None where there are none in memory.
    """

    task: Task | JudgedBy
    X: Any
    n_rows: int
    decides: Task | None

    @classmethod
    def on_all_rows(cls, task: Task) -> "WidthSetting":
        """Return the setting in which all rows judge and decide."""
        return cls(task, task.X, int(task.Y.shape[0]), task)

    @classmethod
    def on_a_basis(
        cls, judged: JudgedBy, X: Any, source: Source, criterion: str, gap: float, pooled: bool
    ) -> "WidthSetting":
        """Return the setting in which kernels are judged by passes over the rows; some that are in memory decide, as
        a machine on all of them.
        """
        block, n = source.block_in_memory, source.n_rows
        if block is None or is_sparse(block.X) or is_device_array(block.X):
            return cls(judged, X, n, None)
        rows = draw_rows(n, _DECIDING, np.random.default_rng(0))
        weights = None if block.weights is None else np.asarray(block.weights)[rows]
        cv = criterion if criterion in OF_SPECTRUM else "loo"
        return cls(
            judged,
            X,
            n,
            Task(
                X=block.X[rows],
                Y=block.Y[rows],
                criterion=cv,
                splits=(),
                gammas=None,
                gap=gap,
                pooled=pooled,
                weights=weights,
            ),
        )

    def evaluate(self, kernel: Kernel, progress: Progress) -> EvaluatedKernel:
        """Return a kernel with the slope of its criterion."""
        return best_of([kernel], self.task, None, progress, slope=True)[0]


def refine_widths(
    judged: list[EvaluatedKernel],
    way: WidthSetting,
    widths: Widths | None,
    most: int,
    n_jobs: Any,
    progress: Progress,
    others: Sequence[Kernel] = (),
) -> list[EvaluatedKernel]:
    """Return the judged kernels and those of a search by slopes from the best of them, ``most`` on all rows.

    ``widths`` is what the search may do with a kernel of one shared width; None: no more than refine it. ``others`` are
    kernels of other families that were not judged, and may be better with one width per input.
    """
    first = best_to_search(judged)
    if first.slope is None and first.kernel.scales() and not JointCriterion.fits(first.kernel, way.task):
        reevaluated = way.evaluate(first.kernel, progress)
        judged, first = [reevaluated if evaluated is first else evaluated for evaluated in judged], reevaluated
    if widths in (None, "shared") or widen_to_inputs(first.kernel, way.X) is None:
        return judged + descend(first, way.task, most, n_jobs, progress)
    few, larger_budget = max(1, most // _SHARED), max(1, (most * 3) // 8)
    differ = widths == "auto" and have_other_units(way.X)
    widths = "each" if differ else widths
    # where one width per input is asked for, a shared one is where its search starts
    candidates = judged if widths == "each" else judged + descend(first, way.task, few, n_jobs, progress)
    simple, rich = min(candidates, key=_score).kernel, widen_to_inputs(best_to_search(candidates).kernel, way.X)
    if rich is None:
        raise TypeError("a search over a shared width ends with one")
    said, start = "one per input, as asked for" if not differ else "one per input, since their units differ", None
    gamma = float(min(candidates, key=_score).search.gamma[0])
    if widths == "auto":
        if way.decides is None:
            return _saying(candidates, "shared; rows that are not in memory do not decide")
        comparison, start = compare_searches((simple, few), (rich, larger_budget), gamma, way.decides, n_jobs, progress)
        said = "shared; too few rows to decide" if comparison is None else str(comparison)
        if comparison is None or not comparison.takes_each:
            return _saying(candidates, said)
    most = max(1, most - few)
    by_score = [*(evaluated.kernel for evaluated in sorted(candidates, key=_score)), *others]
    trails = search_widths(rich, by_score, way.task, gamma, start, (larger_budget, most), progress)
    if trails:
        best = min(trails, key=lambda each: each.end.value)
        tried = sum(each.n_tried for each in trails)
        return _saying([*candidates, replace(best.evaluate_end(), tried=tried)], said)
    pull, run = _pull(way.task)(way.n_rows), list[EvaluatedKernel]()
    run += [first := way.evaluate(rich, progress)]
    run += descend(first, way.task, larger_budget, n_jobs, progress, pull)
    run += best_of(_same_relevance(min(run, key=_score).kernel, by_score), way.task, n_jobs, progress, slope=True)
    run += descend(min(run, key=_score), way.task, max(1, most - len(run)), n_jobs, progress, pull)
    return _saying(candidates + run, said)


def have_other_units(X: Any) -> bool:
    """Return whether the spreads of columns that vary are so far apart that a shared width compares few of them."""
    if is_sparse(X) or is_device_array(X):
        return False
    spreads = spreads_of(np.asarray(X))
    varying = spreads[spreads > 0.0]
    return varying.size > 1 and float(varying.max()) > _UNITS_APART * float(varying.min())


def search_widths(
    rich: Kernel,
    shared: list[Kernel],
    task: Any,
    gamma: float,
    start: Start | None,
    budgets: tuple[int, int],
    progress: Progress,
) -> list[Trail]:
    """Return descents in one width per input, from ``rich`` and of rival families, that were settled where they could
    be best; none where there are no factors.

    ``shared`` are kernels of one width, the best of every family before its others; ``start`` is where searches on
    halves of the rows ended; without one, the first descent starts from equal widths in units of the inputs. The
    budgets are those of the first descent and of all.
    """
    if not JointCriterion.fits(rich, task):
        return []
    if start is None:
        trail = begin_on_sample(rich, task, gamma, _pull(task), budgets[0], progress)
    else:
        trail = begun(rich, task, gamma, _pull(task)(int(task.Y.shape[0])), progress, start)
    if trail is None:
        return []
    trail.descend(budgets[0]) if trail.is_near else trail.settle(budgets[0])
    trails = [trail]
    for kernel, place in _rivals(trail, _same_relevance(trail.kernel, shared), budgets[0], progress):
        left = budgets[1] - sum(each.n_tried for each in trails)
        pull = _pull(task)(int(task.Y.shape[0]))
        rival = begun(kernel, task, trail.gamma, pull, progress, place, is_compared=True) if left > 0 else None
        if rival is not None:
            if place is None:
                rival.ridge()
                rival.descend(min(_RIVAL, left), NEARLY)
            elif rival.end.value <= WITHIN * min(each.end.value for each in trails):
                rival.descend(min(_RIVAL, left), NEARLY)
            trails.append(rival)
    best = min(trails, key=lambda each: each.end.value)
    if not best.settled:
        best.descend(max(0, budgets[1] - sum(each.n_tried for each in trails)))
    return trails


def _rivals(trail: Trail, kernels: list[Kernel], most: int, progress: Progress) -> list[tuple[Kernel, Start | None]]:
    """Return kernels of other families with where a descent of each on half of the rows ends, after ``most`` kernels
    at most; without, where rows are few.
    """
    sample = sample_of(trail.space.task)
    if sample is None:
        return [(kernel, None) for kernel in kernels]
    pull, starts = _pull(sample)(int(sample.Y.shape[0])), list[Start | None]()
    for kernel in kernels:
        end = begun(kernel, sample, trail.gamma, pull, progress)
        if end is not None:
            end.inherited = trail.curvature
            end.settle(most, NEARLY)
        starts.append(None if end is None else end.start)
    return list(zip(kernels, starts, strict=True))


def _same_relevance(each: Any, shared: list[Kernel]) -> list[Kernel]:
    """Return kernels of the other families with the same ratios of widths, each at the best shared width of its
    family, its first one.
    """
    families: dict[str, Any] = {}
    for kernel in shared:
        if isinstance(kernel, Shared) and not isinstance(kernel.sigma, tuple):
            families.setdefault(family_name(kernel), kernel)
    kernel_of_family = families.pop(family_name(each))
    return [
        replace(kernel, sigma=tuple(kernel.sigma * (width / kernel_of_family.sigma) for width in each.sigma))
        for kernel in families.values()
    ]


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
    simple: tuple[Kernel, int], rich: tuple[Kernel, int], gamma: float, task: Task, n_jobs: Any, progress: Progress
) -> tuple[WidthComparison | None, Start | None]:
    """Return both searches, from a gamma, on either half, judged on the other one, and the mean of the ends of the
    second one, from which a search on all rows starts; None where a half is too small.
    """
    halves_of_rows = halves(task)
    if halves_of_rows is None:
        return None, None
    losses, units = np.zeros((task.Y.shape[0], 2)), _units(task)
    wrong, starts = np.zeros(losses.shape, dtype=bool), list[Start | None]()
    rounds = [(on_rows(task, train), test) for train, test in (halves_of_rows, halves_of_rows[::-1])]
    searches = [(kernel, gamma, half, budget) for half, _ in rounds for kernel, budget in (simple, rich)]
    if n_jobs in (None, 1):
        ends = [_search_half(*search, progress) for search in searches]
    else:
        from joblib import Parallel, delayed

        ends = Parallel(n_jobs=n_jobs)(delayed(_search_half)(*search, None) for search in searches)
    for number, (kernel, gammas, start) in enumerate(ends):
        (half, test), column = rounds[number // 2], number % 2
        losses[test, column], wrong[test, column] = _errors(kernel, gammas, half, task.X[test], task.Y[test], units)
        starts += [start] if column else []
    square = 1.0 if units.size > 1 else float(units[0]) ** 2
    met = [start for start in starts if start is not None]
    comparison = WidthComparison.of(losses, wrong if task.pooled else None, task.weights, square)
    return comparison, mean_start(met) if len(met) == len(rounds) else None


def _search_half(
    kernel: Kernel, gamma: float, task_of_half: Task, budget: int, progress: Progress | None
) -> tuple[Kernel, Array, Start | None]:
    """Return the kernel and the gammas that a search on some of the rows leads to, and its end, if by factors."""
    progress = Progress(0, shown=False) if progress is None else progress  # a stream is not sent to other processes
    if (trail := begin_on_sample(kernel, task_of_half, gamma, _pull(task_of_half), budget, progress)) is not None:
        trail.descend(budget)
        return trail.kernel, np.array([trail.gamma]), trail.start
    start = evaluate(kernel, task_of_half, bool(kernel.scales()))
    pull = _pull(task_of_half)(task_of_half.Y.shape[0])
    candidates = [start, *(descend(start, task_of_half, budget, None, progress, pull) if kernel.scales() else ())]
    best = min(candidates, key=_score)
    return best.kernel, best.search.gamma, None


def _pull(task: Task | JudgedBy) -> Callable[[int], float]:
    """Return the factor of the penalty as a function of the number of rows."""
    prior = _PRIOR_OF_EVIDENCE if isinstance(task, Task) and task.criterion == "evidence" else _PRIOR

    def factor(n_rows: int) -> float:
        return 1.0 / (n_rows * prior)

    return factor


def _score(evaluated: EvaluatedKernel) -> float:
    return evaluated.score


def best_to_search(judged: list[EvaluatedKernel]) -> EvaluatedKernel:
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
