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
:math:`w_0`, adds to the logarithm of a criterion F of N rows. Machines are compared by F alone.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from problems.estimators.chosen.candidates import EvaluatedKernel, evaluate
from problems.estimators.chosen.families import family_name
from problems.estimators.chosen.joint_criterion import JointCriterion
from problems.estimators.chosen.joint_descent import NEARLY, begun
from problems.estimators.chosen.kernel_search import JudgedBy, best_of, descend
from problems.estimators.chosen.tasks import Task, centred_points
from problems.estimators.chosen.term_weights import weighed_descent
from problems.estimators.chosen.width_verdict import WidthComparison, Wrong, wrong_rows
from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import Array, is_sparse
from substrate.errors import DeclarationError, DegenerateKernelWarning
from substrate.gram import Gram
from substrate.kernels import RBF, Kernel, Laplacian, Matern
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_system import solve_saddle_system, target_unit
from substrate.namespaces import is_device_array
from substrate.progress import Progress
from substrate.streaming.array_source import draw_rows
from substrate.streaming.source import Source

__all__ = ["WidthSetting", "Widths", "best_to_search", "check_widths", "compare_searches", "halves", "refine_widths"]

Widths = Literal["auto", "shared", "each"]
Rows = NDArray[np.intp]
#: Kernels of a distance, whose width may be shared.
Shared = RBF | Laplacian | Matern
#: Part of the evaluations that goes to a shared width, which is one number.
_SHARED = 8
#: The deviation tau of the prior, squared.
_PRIOR = 0.25
#: Most kernels of another family that are tried with the same ratios of widths, before the best family goes on.
_RIVAL = 6
#: Most rows of a machine on a reduced basis that decide.
_DECIDING = 1000
#: Rows that a half must have at least.
_FEWEST = 4


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
    judged: list[EvaluatedKernel], way: WidthSetting, widths: Widths | None, most: int, n_jobs: Any, progress: Progress
) -> list[EvaluatedKernel]:
    """Return the judged kernels and those of a search by slopes from the best of them, ``most`` on all rows.

    ``widths`` is what the search may do with a kernel of one shared width; None: no more than refine it.
    """
    first = best_to_search(judged)
    if first.slope is None and first.kernel.scales() and not JointCriterion.fits(first.kernel, way.task):
        reevaluated = way.evaluate(first.kernel, progress)
        judged, first = [reevaluated if evaluated is first else evaluated for evaluated in judged], reevaluated
    if widths in (None, "shared") or widen_to_inputs(first.kernel, way.X) is None:
        return judged + weighed_descent(first, way.task, way.X, way.n_rows, most, n_jobs, progress)
    few, larger_budget = max(1, most // _SHARED), max(1, (most * 3) // 8)
    candidates = judged + descend(first, way.task, few, n_jobs, progress)
    simple, rich = min(candidates, key=_score).kernel, widen_to_inputs(best_to_search(candidates).kernel, way.X)
    if rich is None:
        raise TypeError("a search over a shared width ends with one")
    said = "one per input, as asked for"
    if widths == "auto":
        if way.decides is None:
            return _saying(candidates, "shared; rows that are not in memory do not decide")
        gamma = float(min(candidates, key=_score).search.gamma[0])
        comparison = compare_searches((simple, few), (rich, larger_budget), gamma, way.decides, n_jobs, progress)
        said = "shared; too few rows to decide" if comparison is None else str(comparison)
        if comparison is None or not comparison.takes_each:
            return _saying(candidates, said)
    pull, run = _pull(way.n_rows), list[EvaluatedKernel]()
    most = max(1, most - few)
    gamma = float(min(candidates, key=_score).search.gamma[0])
    if (trail := begun(rich, way.task, gamma, pull, progress)) is not None:
        trail.settle(larger_budget)
        rivals = [trail]
        for kernel in _same_relevance(trail.kernel, candidates):
            rival = begun(kernel, way.task, trail.gamma, pull, progress)
            if rival is not None and most > sum(each.n_tried for each in rivals):
                rival.ridge()
                rival.descend(_RIVAL, NEARLY)
                rivals.append(rival)
        best = min(rivals, key=lambda each: each.end.value)
        best.descend(max(0, most - sum(each.n_tried for each in rivals)))
        tried = sum(each.n_tried for each in rivals)
        return _saying([*candidates, replace(best.evaluate_end(), tried=tried)], said)
    run += [start := way.evaluate(rich, progress)]
    run += descend(start, way.task, larger_budget, n_jobs, progress, pull)
    run += best_of(_same_relevance(min(run, key=_score).kernel, candidates), way.task, n_jobs, progress, slope=True)
    run += descend(min(run, key=_score), way.task, max(1, most - len(run)), n_jobs, progress, pull)
    return _saying(candidates + run, said)


def _same_relevance(each: Any, judged: list[EvaluatedKernel]) -> list[Kernel]:
    """Return kernels of the other families with the same ratios of widths, each at the best shared width of its
    family.
    """
    families: dict[str, Any] = {}
    for evaluated in sorted(judged, key=_score):
        if isinstance(evaluated.kernel, Shared) and not isinstance(evaluated.kernel.sigma, tuple):
            families.setdefault(family_name(evaluated.kernel), evaluated.kernel)
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
) -> WidthComparison | None:
    """Return both searches, from a gamma, on either half, judged on the other one; None where a half is too small."""
    halves_of_rows = halves(task)
    if halves_of_rows is None:
        return None
    losses, units = np.zeros((task.Y.shape[0], 2)), _units(task)
    wrong = np.zeros(losses.shape, dtype=bool)
    for train, test in (halves_of_rows, halves_of_rows[::-1]):
        task_of_half = _on_rows(task, train)
        for column, (kernel, budget) in enumerate((simple, rich)):
            best = _searched_half(kernel, gamma, task_of_half, budget, n_jobs, progress)
            losses[test, column], wrong[test, column] = _errors(*best, task_of_half, task.X[test], task.Y[test], units)
    square = 1.0 if units.size > 1 else float(units[0]) ** 2
    return WidthComparison.of(losses, wrong if task.pooled else None, task.weights, square)


def _searched_half(
    kernel: Kernel, gamma: float, task_of_half: Task, budget: int, n_jobs: Any, progress: Progress
) -> tuple[Kernel, Array]:
    """Return the kernel and the gammas that a search on some of the rows leads to."""
    pull = _pull(task_of_half.Y.shape[0])
    if (trail := begun(kernel, task_of_half, gamma, pull, progress)) is not None:
        trail.descend(budget)
        return trail.kernel, np.array([trail.gamma])
    start = evaluate(kernel, task_of_half, bool(kernel.scales()))
    candidates = [start, *(descend(start, task_of_half, budget, n_jobs, progress, pull) if kernel.scales() else ())]
    best = min(candidates, key=_score)
    return best.kernel, best.search.gamma


def halves(task: Task) -> tuple[Rows, Rows] | None:
    """Return two halves of the rows, equal rows together, classes in proportion, whatever the order and unit of the
    rows.
    """
    _, groups = np.unique(task.X, axis=0, return_inverse=True)
    groups = groups.ravel()
    kinds = np.unique(task.Y, axis=0, return_inverse=True)[1].ravel() if task.pooled else np.zeros_like(groups)
    kind = np.full(int(groups.max()) + 1, kinds.max())
    np.minimum.at(kind, groups, kinds)
    # by chance, since in the order of the rows' values the halves could differ in one input
    place = np.lexsort((np.random.default_rng(0).permutation(kind.size), kind))
    first = np.zeros(kind.size, dtype=bool)
    first[place[::2]] = True
    row_sets = np.flatnonzero(first[groups]), np.flatnonzero(~first[groups])
    if min(rows.size for rows in row_sets) < _FEWEST or any(np.unique(kinds[p]).size <= kinds.max() for p in row_sets):
        return None
    return row_sets


def _pull(n_rows: int) -> float:
    """Return the factor of the penalty."""
    return 1.0 / (n_rows * _PRIOR)


def _score(evaluated: EvaluatedKernel) -> float:
    return evaluated.score


def best_to_search(judged: list[EvaluatedKernel]) -> EvaluatedKernel:
    """Return the best one that has scales to search; where none has, the best."""
    return min([evaluated for evaluated in judged if evaluated.kernel.scales()] or judged, key=_score)


def _on_rows(task: Task, rows: Rows) -> Task:
    """Return the same task on some of the rows; folds are cut down to them."""
    place = np.full(task.Y.shape[0], -1)
    place[rows] = np.arange(rows.size)
    splits = [tuple(place[side][place[side] >= 0] for side in split) for split in task.splits]
    kept = tuple((train, valid) for train, valid in splits if train.size >= 2 and valid.size >= 1)
    weights = None if task.weights is None else task.weights[rows]
    criterion = task.criterion if kept or not task.splits else "loo"
    blocks = None if task.blocks is None else task.blocks.restrict(rows)
    return replace(
        task, X=task.X[rows], Y=task.Y[rows], splits=kept, weights=weights, criterion=criterion, blocks=blocks
    )


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
