"""The base of pruned regression and classification: checked settings, the chosen machine, and other steps as models."""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from problems.estimators.full.saddle_machine import LeavesOut
from problems.estimators.pruned.performance_index import Index, Pruning
from problems.estimators.pruned.pruning_path import Pruned, prune
from problems.estimators.shared.checked_again import (
    GivenFit,
    certify_stored,
    recall_saddle,
    refuse_strange_classes,
)
from problems.estimators.shared.encoding import PruningStep
from problems.estimators.shared.machine_rows import points_of
from substrate.arrays import Array, non_negative, whole_number
from substrate.certificates import Certificate, Row, warn_unless_holds
from substrate.certificates.tolerance import tolerances_of
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.answer import AnswerProblem, bound_answer
from substrate.least_squares.leave_one_out import checked_splits
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_certificate import saddle_rows, worst_rows
from substrate.least_squares.saddle_system import solve_saddle_system

__all__ = ["PrunedModel", "PrunedRows"]

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

    def weigh_rows(self, rows: Any, robust: Array) -> Array:
        """Return the weights of the errors of some rows: the given ones times the robust ones."""
        return robust if self.weights is None else self.weights[rows] * robust


class PrunedModel(LeavesOut):
    """Checked settings, the chosen machine, and other steps of the path as models."""

    conditional = "the rows that were kept, kernel, gamma, weights and preparation of the columns"

    def recall_data(self, X: Any, y: Any, sample_weight: Any) -> GivenFit:
        """Return the rows of the chosen step among the data of the fit."""
        if not self.estimator._labels:
            checked = self.check_rows_again(X, y, sample_weight, True)
            return self.given_fit(checked, checked.y[:, None])
        checked, groups = self.group_rows(X, y, sample_weight)
        return self.given_fit(checked, self.estimator.code_book_[groups])

    def group_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[PrunedRows, Any]:
        """Return training rows given again, and the number of the class of each."""
        checked = self.check_rows_again(X, y, sample_weight, False)
        refuse_strange_classes(self.estimator, checked.y)
        return checked, np.searchsorted(self.estimator.classes_, checked.y)

    def keep_codes(
        self,
        known: PrunedRows,
        groups: Any,
        path: tuple[PruningStep, ...],
        chosen: int,
        certificate: Certificate | None,
    ) -> None:
        """Set the codes of the rows left, and the other fitted attributes."""
        model = self.estimator
        codes = model.code_book_[groups[path[chosen].rows]]
        model.support_codes_ = np.ascontiguousarray(codes[:, 0] if codes.shape[1] == 1 else codes)
        self.keep(known, path, chosen, certificate, model.support_codes_)

    def check_settings(self, X_val: Any, y_val: Any) -> None:
        """Refuse settings before any work."""
        model = self.estimator
        non_negative(model.growth, "growth", "as growth of the index")
        number = float(model.step) if isinstance(model.step, Real) and not isinstance(model.step, bool) else 0.0
        if not (number >= 1.0 if isinstance(model.step, Integral) else 0.0 < number < 1.0):
            raise DeclarationError(f"step must be a share in (0, 1) or a number of rows >= 1, received {model.step!r}")
        if model.n_support is not None:
            whole_number(model.n_support, "n_support", 2)
        count = isinstance(model.cv, Integral) and not isinstance(model.cv, bool)
        if isinstance(model.cv, (bool, float)) or (count and model.cv < 2) or model.cv == "gcv":
            raise DeclarationError(_JUDGED.format(model.cv))
        if isinstance(model.cv, str) and model.cv not in ("training", "loo"):
            raise DeclarationError(_JUDGED.format(model.cv))
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val come together; one of them is missing")
        if (model.cv is None) != (X_val is not None):
            raise DataError(
                "cv=None needs X_val and y_val, and no other cv takes them: "
                f"received cv={model.cv!r} {'without' if X_val is None else 'with'} them"
            )

    def index(self, loss: Any, points: Any, rows: PrunedRows, classifier: bool) -> Index:
        """Return the index by which machines are judged; splits name rows by their numbers as given."""
        model = self.estimator
        if model.cv is None:
            return Index("validation", loss, points)
        if isinstance(model.cv, str):
            return Index(model.cv, loss)
        n, n_given, y = len(rows.y), len(rows.given), rows.given
        if isinstance(model.cv, Integral):
            return Index("folds", loss, folds=np.arange(n) % int(model.cv))
        folds = np.full(n, -1)
        splits = check_cv(model.cv, y, classifier=classifier).split(np.empty((n_given, 0)), y)
        for number, (train, test) in enumerate(checked_splits(splits, n_given, rows.numbers)):
            if train.size + test.size != n or (folds[test] >= 0).any():
                raise DataError(f"split {number} of cv is no fold: every row must be left out once and train otherwise")
            folds[test] = number
        if (folds < 0).any():
            row = int(rows.numbers[folds.argmin()])
            raise DataError(f"cv never leaves out row {row}; every row must be left out once")
        return Index("folds", loss, folds=folds)

    def task(self, X: Any, Y: Array, index: Index, groups: Any = None, **robust: Any) -> Pruning:
        """Return what is pruned, and by which rules."""
        model = self.estimator
        n = Y.shape[0]
        if model.n_support is not None and model.n_support > n:
            raise DataError(f"n_support = {model.n_support} is more than the {n} rows")
        step = int(model.step) if isinstance(model.step, Integral) else float(model.step)
        target = None if model.n_support is None else int(model.n_support)
        return Pruning(
            X=X,
            Y=Y,
            groups=groups,
            step=step,
            n_support=target,
            index=index,
            growth=float(model.growth),
            relative=groups is None,
            retune=bool(model.retune),
            **robust,
        )

    def prune(self, task: Pruning, kernel: Any, gamma: float) -> tuple[tuple[PruningStep, ...], int, Certificate]:
        """Return the path, the chosen step, its machine fitted once more, and the certificate of that."""
        pruned = prune(task, kernel, gamma)
        path, chosen = pruned.path, pruned.chosen
        step = path[chosen]
        gram_of_rows, Y = pruned.gram.restrict(step.rows), task.Y[step.rows]
        weights = task.weigh_rows(step.rows, step.weights)
        ridge = Regularization(step.gamma).ridge(weights)
        solved = solve_saddle_system(gram_of_rows, Y, ridge)
        points = points_of(task.X, step.rows, step.kernel.pairwise)
        gammas, tolerances = (step.gamma,) * Y.shape[1], tolerances_of(Y, weights, self.estimator._tolerance())
        question = AnswerProblem(
            kernel=step.kernel,
            X=points,
            Y=Y,
            gammas=gammas,
            weights=weights,
            tolerances=tolerances,
            negative=gram_of_rows.negative,
        )
        answer, doubts = bound_answer(
            question, solved.support_values, solved.bias, solved.products, gram_of_rows.diagonal, gram_of_rows
        )
        checks = _checks(gram_of_rows, Y, ridge, solved.support_values, solved.bias)
        is_single = Y.shape[1] == 1
        alpha = np.ascontiguousarray(solved.support_values[:, 0] if is_single else solved.support_values)
        step = replace(step, support_values=alpha, bias=float(solved.bias[0]) if is_single else solved.bias)
        solver = ("solver", f"closed form, refined {solved.refinements} times")
        facts = (*gram_of_rows.record(), *_facts(pruned, task), solver, *doubts)
        certificate = Certificate(self.estimator._title, (*answer, *checks), facts)
        warn_unless_holds(certificate)
        return (*path[:chosen], step, *path[chosen + 1 :]), chosen, certificate

    def keep(
        self, known: PrunedRows, path: tuple[PruningStep, ...], chosen: int, certificate: Certificate | None, signs: Any
    ) -> None:
        """Set the fitted attributes; ``signs`` are the labels of the rows by which regression's alpha is multiplied.

        Rows of the path are numbered as those of ``known``, and kept as numbers of the rows given.
        """
        model = self.estimator
        step = path[chosen]
        if certificate is not None:
            model.certificate_ = certificate
        model.pruning_path_ = tuple(replace(step, rows=known.numbers[step.rows]) for step in path)
        model.step_, model.gamma_, model.weights_ = chosen, step.gamma, step.weights
        model.ridge_ = Regularization(step.gamma).ridge(known.weigh_rows(step.rows, step.weights))
        points = known.X if step.kernel.pairwise else points_of(known.X, step.rows, False)
        model._keep_expansion(points, known.numbers[step.rows], step.kernel, signs * step.support_values, step.bias)

    def check_rows(self, X: Any, y: Any, sample_weight: Any, numeric: bool) -> PrunedRows:
        """Return rows of positive weight and their targets, checked."""
        X, targets, weights = self.estimator._check_data(X, y, sample_weight, numeric=numeric)
        X, y, weights, numbers = self.estimator._keep_weighted(X, targets, weights)
        return PrunedRows(X=X, y=y, weights=None if (weights == 1.0).all() else weights, numbers=numbers, given=targets)

    def check_rows_again(self, X: Any, y: Any, sample_weight: Any, numeric: bool) -> PrunedRows:
        """Return the training rows given again; refused where they are not those that the path began with."""
        model = self.estimator
        checked: PrunedRows = model._make_checker()._model.check_rows(X, y, sample_weight, numeric)
        first = model.pruning_path_[0].rows
        if checked.numbers.size != first.size:
            raise DataError(f"the path began with {first.size} rows, these are {checked.numbers.size}")
        if not np.array_equal(checked.numbers, first):
            row = int(np.setdiff1d(first, checked.numbers)[0])
            raise DataError(f"row {row} was fitted and has weight zero here; pass the sample_weight of the fit")
        return checked

    def own_path(self, known: PrunedRows) -> tuple[PruningStep, ...]:
        """Return the path with its rows numbered as those of ``known``."""
        return tuple(
            replace(step, rows=np.searchsorted(known.numbers, step.rows)) for step in self.estimator.pruning_path_
        )

    def number(self, step: Any) -> int:
        """Return the number of a step of the path, counted from its end where negative."""
        if isinstance(step, bool) or not isinstance(step, Integral):
            raise DeclarationError(f"step must be an integer, received {step!r}")
        steps = len(self.estimator.pruning_path_)
        if not -steps <= int(step) < steps:
            raise DeclarationError(f"the path has steps 0 to {steps - 1}, received {step}")
        return int(step) % steps

    def given_fit(self, known: PrunedRows, Y: Array) -> GivenFit:
        """Return the rows left of the training data given again, with their stored robust weights and gammas."""
        model = self.estimator
        places = np.searchsorted(known.numbers, model.support_)
        points = points_of(known.X, places, model.kernel_.pairwise)
        gammas, tolerance = (model.gamma_,) * Y.shape[1], model._tolerance()
        weights = known.weigh_rows(places, model.weights_)
        return GivenFit(X=points, Y=Y[places], weights=weights, gammas=gammas, tolerance=tolerance)

    def certify_step(self, number: int, known: PrunedRows, Y: Array) -> None:
        """Set the certificate of a model that is another step of the path."""
        model = self.estimator
        certificate = certify_stored(model._title, recall_saddle(model, self.given_fit(known, Y)))
        model.certificate_ = replace(certificate, title=f"{model._title}, step {number}")
        warn_unless_holds(model.certificate_)

    def check_loaded(self) -> None:
        """Refuse a path that no fit leaves."""
        model = self.estimator
        super().check_loaded()
        if model.ridge_.shape != model.support_.shape:
            raise DataError("the diagonal of the system and the support do not belong together")
        path = model.pruning_path_
        if not isinstance(path, tuple) or not all(isinstance(step, PruningStep) and _whole(step) for step in path):
            raise DataError("pruning_path_ must be a sequence of pruning steps, each with as many numbers as rows")
        if isinstance(model.step_, bool) or not isinstance(model.step_, int) or not 0 <= model.step_ < len(path):
            raise DataError(f"step_ must be one of the {len(path)} steps, received {model.step_!r}")
        if not np.array_equal(path[model.step_].rows, model.support_):
            raise DataError("the support is not that of the step chosen")


def _whole(step: PruningStep) -> bool:
    """Return whether rows, weights and support values of a step belong together."""
    arrays = (step.rows, step.weights, step.support_values)
    if not all(isinstance(array, np.ndarray) and array.ndim for array in arrays) or not isinstance(step.kernel, Kernel):
        return False
    return step.rows.dtype.kind in "iu" and len({array.shape[0] for array in arrays}) == 1


def _checks(gram: Gram, Y: Array, ridge: Array, alpha: Array, bias: Array) -> tuple[Row, ...]:
    products = gram.product(np.ascontiguousarray(alpha))
    return worst_rows(
        [
            saddle_rows(
                products[:, k], gram.diagonal, Y[:, k], ridge, np.ascontiguousarray(alpha[:, k]), float(bias[k])
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
    retuned = sum(step_before.retuned for step_before in path[: chosen + 1])
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
