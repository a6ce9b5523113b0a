"""The base of pruned regression and classification: checked settings, the chosen machine, and other steps as models."""

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from problems.estimators.full.saddle_machine import LeavesOut
from problems.estimators.pruned.performance_index import Index, Pruning
from problems.estimators.pruned.pruning_path import Pruned, prune
from problems.estimators.shared.checked_again import GivenFit, SaddleAnswers, certify_stored
from problems.estimators.shared.encoding import PruningStep
from problems.estimators.shared.machine_rows import points_of
from substrate.arrays import Array, non_negative, whole_number
from substrate.certificates import Certificate, Row, warn_unless_holds
from substrate.certificates.tolerance import tolerances_of
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.answer import Question, answered
from substrate.least_squares.leave_one_out import checked_splits
from substrate.least_squares.saddle_certificate import saddle_rows, worst_rows
from substrate.least_squares.saddle_system import ridge_of, solve_saddle_system

__all__ = ["PrunedMachine", "PrunedRows"]

_JUDGED = (
    "cv must be 'training', 'loo', a number of folds >= 2, a splitter, a list of splits, or None for validation rows; "
    "received {!r}"
)


@dataclass(frozen=True, slots=True)
class PrunedRows:
    """Rows of positive weight, their targets, their weights (None: all are one), and their numbers as given.

    ``given`` are the targets of all rows given, those of weight zero included.
    """

    X: Any
    y: Any
    weights: Array | None
    numbers: Any
    given: Any

    def weighed(self, rows: Any, robust: Array) -> Array:
        """The weights of the errors of some rows: the given ones times the robust ones."""
        return robust if self.weights is None else self.weights[rows] * robust


@dataclass(eq=False, repr=False)
class PrunedMachine(LeavesOut, SaddleAnswers):
    """The common part of both: settings, the chosen machine, other steps as models."""

    _location = "kept"
    gamma: float = 1.0
    _: KW_ONLY
    step: Any = 0.05
    n_support: Any = None
    cv: Any = "training"
    growth: float = 0.01
    retune: bool = False
    _conditional = "the rows that were kept, kernel, gamma, weights and scaling of the columns"

    def _check_settings(self, X_val: Any, y_val: Any) -> None:
        """Refuse settings before any work."""
        non_negative(self.growth, "growth", "as growth of the index")
        number = float(self.step) if isinstance(self.step, Real) and not isinstance(self.step, bool) else 0.0
        if not (number >= 1.0 if isinstance(self.step, Integral) else 0.0 < number < 1.0):
            raise DeclarationError(f"step must be a share in (0, 1) or a number of rows >= 1, received {self.step!r}")
        if self.n_support is not None:
            whole_number(self.n_support, "n_support", 2)
        count = isinstance(self.cv, Integral) and not isinstance(self.cv, bool)
        if isinstance(self.cv, (bool, float)) or (count and self.cv < 2) or self.cv == "gcv":
            raise DeclarationError(_JUDGED.format(self.cv))
        if isinstance(self.cv, str) and self.cv not in ("training", "loo"):
            raise DeclarationError(_JUDGED.format(self.cv))
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val come together; one of them is missing")
        if (self.cv is None) != (X_val is not None):
            raise DataError(
                "cv=None judges by X_val and y_val, and only it does: "
                f"received cv={self.cv!r} {'without' if X_val is None else 'with'} them"
            )

    def _index(self, loss: Any, points: Any, rows: PrunedRows, classifier: bool) -> Index:
        """The index by which machines are judged; splits name rows by their numbers as given."""
        if self.cv is None:
            return Index("validation", loss, points)
        if isinstance(self.cv, str):
            return Index(self.cv, loss)
        n, given, y = len(rows.y), len(rows.given), rows.given
        if isinstance(self.cv, Integral):
            return Index("folds", loss, folds=np.arange(n) % int(self.cv))
        folds = np.full(n, -1)
        splits = check_cv(self.cv, y, classifier=classifier).split(np.empty((given, 0)), y)
        for number, (train, test) in enumerate(checked_splits(splits, given, rows.numbers)):
            if train.size + test.size != n or (folds[test] >= 0).any():
                raise DataError(f"split {number} of cv is no fold: every row must be left out once and train otherwise")
            folds[test] = number
        if (folds < 0).any():
            row = int(rows.numbers[folds.argmin()])
            raise DataError(f"cv never leaves out row {row}; every row must be left out once")
        return Index("folds", loss, folds=folds)

    def _task(self, X: Any, Y: Array, index: Index, groups: Any = None, **robust: Any) -> Pruning:
        n = Y.shape[0]
        if self.n_support is not None and self.n_support > n:
            raise DataError(f"n_support = {self.n_support} is more than the {n} rows")
        step = int(self.step) if isinstance(self.step, Integral) else float(self.step)
        target = None if self.n_support is None else int(self.n_support)
        return Pruning(
            X, Y, groups, step, target, index, float(self.growth), groups is None, bool(self.retune), **robust
        )

    def _pruned(self, task: Pruning, kernel: Any, gamma: float) -> tuple[tuple[PruningStep, ...], int, Certificate]:
        """The path, the chosen step, its machine fitted once more, and the certificate of that."""
        pruned = prune(task, kernel, gamma)
        path, chosen = pruned.path, pruned.chosen
        step = path[chosen]
        part, Y = pruned.gram.restrict(step.rows), task.Y[step.rows]
        weights = task.weighed(step.rows, step.weights)
        ridge = ridge_of(step.gamma, weights)
        solved = solve_saddle_system(part, Y, ridge)
        points = points_of(task.X, step.rows, step.kernel.pairwise)
        gammas, tolerances = (step.gamma,) * Y.shape[1], tolerances_of(Y, weights, self._tolerance())
        question = Question(step.kernel, points, Y, gammas, weights, tolerances, part.negative)
        answer = answered(question, solved.support_values, solved.bias, solved.products, part.diagonal, part)
        checks = _checks(part, Y, ridge, answer.support_values, answer.bias)
        one = Y.shape[1] == 1
        alpha = np.ascontiguousarray(answer.support_values[:, 0] if one else answer.support_values)
        step = replace(step, support_values=alpha, bias=float(answer.bias[0]) if one else answer.bias)
        solver = ("solver", f"closed form, refined {solved.refinements} times")
        facts = (*part.record(), *_facts(pruned, task), solver, *answer.facts)
        certificate = Certificate(self._title, (*answer.rows, *checks), facts)
        warn_unless_holds(certificate)
        return (*path[:chosen], step, *path[chosen + 1 :]), chosen, certificate

    def _keep(
        self, known: PrunedRows, path: tuple[PruningStep, ...], chosen: int, certificate: Certificate | None, signs: Any
    ) -> None:
        """Set the fitted attributes; ``signs`` are the labels of the rows by which regression's alpha is multiplied.

        Rows of the path are numbered as those of ``known``, and kept as numbers of the rows given.
        """
        step = path[chosen]
        if certificate is not None:
            self.certificate_ = certificate
        self.pruning_path_ = tuple(replace(step, rows=known.numbers[step.rows]) for step in path)
        self.step_, self.gamma_, self.weights_ = chosen, step.gamma, step.weights
        self.ridge_ = ridge_of(step.gamma, known.weighed(step.rows, step.weights))
        own = known.X if step.kernel.pairwise else points_of(known.X, step.rows, False)
        self._keep_expansion(own, known.numbers[step.rows], step.kernel, signs * step.support_values, step.bias)

    def _ridge(self) -> Array:
        ridge: Array = self.ridge_
        return ridge

    def _held(self, X: Any, y: Any, sample_weight: Any, numeric: bool) -> PrunedRows:
        """Rows of positive weight and their targets, checked."""
        X, given, weights = self._checked(X, y, sample_weight, numeric=numeric)
        X, y, weights, numbers = self._kept(X, given, weights)
        return PrunedRows(X, y, None if (weights == 1.0).all() else weights, numbers, given)

    def _held_again(self, X: Any, y: Any, sample_weight: Any, numeric: bool) -> PrunedRows:
        """The training rows given again; refused where they are not those that the path began with."""
        known = type(self)(self.kernel)._held(X, y, sample_weight, numeric)
        first = self.pruning_path_[0].rows
        if known.numbers.size != first.size:
            raise DataError(f"the path began with {first.size} rows, these are {known.numbers.size}")
        if not np.array_equal(known.numbers, first):
            row = int(np.setdiff1d(first, known.numbers)[0])
            raise DataError(f"row {row} was fitted and has weight zero here; pass the sample_weight of the fit")
        return known

    def _own_path(self, known: PrunedRows) -> tuple[PruningStep, ...]:
        """The path with its rows numbered as those of ``known``."""
        return tuple(replace(step, rows=np.searchsorted(known.numbers, step.rows)) for step in self.pruning_path_)

    def _number(self, step: Any) -> int:
        """The number of a step of the path, counted from its end where negative."""
        if isinstance(step, bool) or not isinstance(step, Integral):
            raise DeclarationError(f"step must be an integer, received {step!r}")
        steps = len(self.pruning_path_)
        if not -steps <= int(step) < steps:
            raise DeclarationError(f"the path has steps 0 to {steps - 1}, received {step}")
        return int(step) % steps

    def _given_fit(self, known: PrunedRows, Y: Array) -> GivenFit:
        """The rows left of the training data given again, with their stored robust weights and gammas."""
        left = np.searchsorted(known.numbers, self.support_)
        points = points_of(known.X, left, self.kernel_.pairwise)
        gammas, tolerance = (self.gamma_,) * Y.shape[1], self._tolerance()
        weights = known.weighed(left, self.weights_)
        return GivenFit(points, Y[left], weights, gammas, tolerance=tolerance)

    def _certify_step(self, number: int, known: PrunedRows, Y: Array) -> None:
        """Set the certificate of a model that is another step of the path."""
        again = certify_stored(self._title, self._stored_saddle(self._given_fit(known, Y)))
        self.certificate_ = replace(again, title=f"{self._title}, step {number}")
        warn_unless_holds(self.certificate_)

    def _check_loaded(self) -> None:
        if self.__sklearn_is_fitted__() and not hasattr(self, "ridge_"):
            self.ridge_ = ridge_of(self.gamma_, self.weights_)  # release 0.1 took no weights but the robust ones
        super()._check_loaded()
        if not self.__sklearn_is_fitted__():
            return
        if self.ridge_.shape != self.support_.shape:
            raise DataError("the diagonal of the system and the support do not belong together")
        path = self.pruning_path_
        if not isinstance(path, tuple) or not all(isinstance(step, PruningStep) and _whole(step) for step in path):
            raise DataError("pruning_path_ must be a sequence of pruning steps, each with as many numbers as rows")
        if isinstance(self.step_, bool) or not isinstance(self.step_, int) or not 0 <= self.step_ < len(path):
            raise DataError(f"step_ must be one of the {len(path)} steps, received {self.step_!r}")
        if not np.array_equal(path[self.step_].rows, self.support_):
            raise DataError("the support is not that of the step chosen")


def _whole(step: PruningStep) -> bool:
    """Whether rows, weights and support values of a step belong together."""
    arrays = (step.rows, step.weights, step.support_values)
    if not all(isinstance(array, np.ndarray) and array.ndim for array in arrays) or not isinstance(step.kernel, Kernel):
        return False
    return step.rows.dtype.kind in "iu" and len({array.shape[0] for array in arrays}) == 1


def _checks(part: Gram, Y: Array, ridge: Array, alpha: Array, bias: Array) -> tuple[Row, ...]:
    products = part.product(np.ascontiguousarray(alpha))
    return worst_rows(
        [
            saddle_rows(
                products[:, k], part.diagonal, Y[:, k], ridge, np.ascontiguousarray(alpha[:, k]), float(bias[k])
            )
            for k in range(Y.shape[1])
        ]
    )


def _facts(pruned: Pruned, task: Pruning) -> tuple[tuple[str, str], ...]:
    path, chosen = pruned.path, pruned.chosen
    step = path[chosen]
    how = "refitted" if task.reweight else "down-dated"
    if pruned.restarts:
        at = ", ".join(str(size) for size in pruned.restarts[:5]) + (", ..." if len(pruned.restarts) > 5 else "")
        how += f", factored again {len(pruned.restarts)} times where accuracy was lost (at {at} rows)"
    why = f"{step.size} rows were requested" if task.n_support is not None else "no more rows can be removed"
    if chosen + 1 < len(path):
        limit = task.limit(path[0].score)
        why = f"the next machine, of {path[chosen + 1].size} rows, has {path[chosen + 1].score:.4g} > {limit:.4g}"
    retuned = sum(other.retuned for other in path[: chosen + 1])
    facts = [
        ("gamma", f"{step.gamma:g}" + (f", retuned {retuned} times" if retuned else "")),
        ("pruning", f"{path[0].size} rows to {step.size} in {chosen} steps, {how}"),
        ("index", f"{task.index.name}: {path[0].score:.4g} of the whole machine, {step.score:.4g} here; {why}"),
    ]
    if task.given is not None:
        light = f"{task.given.min():.3g} to {task.given.max():.3g}, of the errors, here and in the index"
        facts.append(("sample_weight", light))
    if task.weighting is not None:
        whose = "found at every step" if task.reweight else "of the machine on all rows"
        facts.append(("weights", f"{task.weighting}, {task.scale} scale, {whose}"))
    return tuple(facts)
