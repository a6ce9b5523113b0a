"""Fused estimators: training, and the choice of one hyper-parameter by validation, in one fit with a proof."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import LeaveOneOut, check_cv

from problems.estimators.chosen.candidates import held_out_rows
from problems.estimators.shared.base import Fitted
from problems.estimators.shared.coded import Classes
from problems.estimators.shared.machine_rows import MachineRows, each_machine
from problems.estimators.shared.probabilities import Calibration
from problems.estimators.shared.selector import Selector
from substrate.arrays import Array, positive
from substrate.certificates import WIDER, Certificate, Row, warn_unless_holds
from substrate.certificates.rounding import target_rounding
from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning
from substrate.gram import Gram
from substrate.kernels import Kernel, as_kernel
from substrate.least_squares.leave_one_out import checked_splits
from substrate.search.range_end import NEGLIGIBLE, end_row

__all__ = ["Choice", "Final", "FusedCalibration", "FusedSearch", "FusionRound", "Rounds", "fit_classes", "fit_numbers"]


@dataclass(frozen=True, slots=True)
class FusionRound:
    """Training and validation rows: points and targets, one column per machine (0: not in it)."""

    X: Any
    Y: Array
    X_check: Any
    Y_check: Array

    def machines(self, labels: bool) -> Iterator[tuple[MachineRows, MachineRows]]:
        """Return the training and the validation rows of every machine."""
        return zip(each_machine(self.Y, labels), each_machine(self.Y_check, labels), strict=True)


@dataclass(frozen=True, slots=True)
class Rounds:
    """One round, or one per fold, and the rows of the final machine."""

    rounds: tuple[FusionRound, ...]
    rows: Any
    how: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of validation with one kernel: value, mean squared error, lower bound, and the path.

    The value is a number, or several by their names; ``kept`` are further attributes of the model. ``beyond`` is the
    least error to expect beyond a default range, None where a range was given or all values are covered.
    """

    kernel: Kernel
    value: Any
    error: float
    lower_bound: float
    path: dict[str, Any]
    facts: tuple[tuple[str, str], ...]
    kept: Mapping[str, Any] = field(default_factory=dict)
    beyond: float | None = None


@dataclass(frozen=True, slots=True)
class Final:
    """The machines at the chosen value: coefficients (a column per machine), biases, rows, facts, attributes."""

    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    kept: dict[str, Any]


class FusedSearch(Selector):
    """A choice by validation, along a path or over several weights: it splits the rows and tries the kernels.

    Its rules are parameters of the estimator: ``kernels``, ``cv``, ``validation_fraction``, ``gap``, ``random_state``.
    """

    #: The parameter that widens a default range.
    widened: ClassVar[str] = ""
    #: Whether rows without a coefficient are dropped.
    sparse: ClassVar[bool] = False

    @abstractmethod
    def choose(self, kernel: Kernel, rounds: tuple[FusionRound, ...]) -> Choice:
        """Return the best value of the hyper-parameter with one kernel."""

    @abstractmethod
    def fit_final(self, kernel: Kernel, X: Any, Y: Array, value: Any) -> Final:
        """Fit the machines at that value."""

    def candidates(self, X: Any) -> list[Kernel]:
        """Return the kernels to choose from, their widths taken from the rows of the final machine."""
        model = self.estimator
        if model.kernels is None:
            return [model._resolved_kernel(X)]
        if (
            isinstance(model.kernels, (str, Kernel))
            or not isinstance(model.kernels, Sequence)
            or not len(model.kernels)
        ):
            raise DeclarationError(f"kernels must be a list of kernels, at least one, received {model.kernels!r}")
        given = model.kernel
        try:
            found = []
            for candidate in model.kernels:
                model.kernel = as_kernel(candidate)
                found.append(model._resolved_kernel(X))
        finally:
            model.kernel = given
        return found

    def check_rules(self) -> None:
        """Refuse parameters before any long work."""
        model = self.estimator
        if isinstance(model.cv, (bool, float)) or (isinstance(model.cv, str) and model.cv != "loo"):
            raise DeclarationError(
                "cv must be 'loo', a number of folds, a splitter, a list of splits, or None for validation rows; "
                f"received {model.cv!r}"
            )
        held_out_rows(4, model.validation_fraction, 0)
        positive(model.gap, "gap")

    def check_pair(self, X_val: Any, y_val: Any) -> None:
        """Refuse one of validation rows and targets without the other, or both beside ``cv``."""
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val come together; one of them is missing")
        if X_val is not None and self.estimator.cv is not None:
            raise DataError(f"X_val and y_val are used only with cv=None, received cv={self.estimator.cv!r}")

    def rounds(self, X: Any, Y: Array, labels: Any, X_val: Any, Y_val: Array | None, classifier: bool) -> Rounds:
        """Return the split of the rows: a validation set, folds, or a fraction."""
        model = self.estimator
        every = np.arange(Y.shape[0])
        if model.__sklearn_tags__().input_tags.pairwise:
            model._resolved_kernel(X)  # refuses a matrix that is not square, before it is split
        if Y_val is not None:
            return Rounds((FusionRound(X, Y, X_val, Y_val),), every, f"{Y_val.shape[0]} rows given")
        if model.cv is not None:
            splitter = LeaveOneOut() if isinstance(model.cv, str) else check_cv(model.cv, labels, classifier=classifier)
            splits = checked_splits(splitter.split(every, labels), every.size)
            rounds = tuple(
                FusionRound(*self.part(X, Y, train, train), *self.part(X, Y, test, train)) for train, test in splits
            )
            how = "every row left out in turn" if isinstance(model.cv, str) else f"{len(splits)} folds"
            return Rounds(rounds, every, how)
        stratify = labels if classifier else None
        train, test = held_out_rows(every.size, model.validation_fraction, model.random_state, stratify)
        cut = FusionRound(*self.part(X, Y, train, train), *self.part(X, Y, test, train))
        return Rounds((cut,), train, f"{test.size} of {every.size} rows held out")

    def refuse_small(self, rounds: Rounds) -> Rounds:
        """Refuse rounds that would train on less than two rows."""
        for number, one in enumerate(rounds.rounds):
            if one.Y.shape[0] < 2:
                raise DataError(
                    f"round {number} would train on {one.Y.shape[0]} row, at least two are needed; give more rows, a "
                    "smaller validation_fraction, fewer folds, or a validation set"
                )
        return rounds

    def part(self, X: Any, Y: Array, rows: Any, columns: Any) -> tuple[Any, Array]:
        """Return some of the rows; for a precomputed matrix, also some of the columns."""
        pairwise = self.estimator.__sklearn_tags__().input_tags.pairwise
        return (X[rows][:, columns] if pairwise else X[rows]), Y[rows]

    def best(self, X: Any, rounds: Rounds) -> tuple[Choice, list[Choice]]:
        """Return the best choice over all kernels, and all of them."""
        final = X if not self.estimator.__sklearn_tags__().input_tags.pairwise else X[:, rounds.rows]
        choices = [self.choose(kernel, rounds.rounds) for kernel in self.candidates(final[rounds.rows])]
        return min(choices, key=lambda choice: choice.error), choices

    def keep_fused(self, X: Any, Y: Array, rounds: Rounds, one: bool, also: dict[str, Any] | None = None) -> None:
        """Choose, fit, and set the fitted attributes, all at the end."""
        model = self.estimator
        known: tuple[tuple[str, str], ...] = ()
        with warnings.catch_warnings():
            if model.__sklearn_tags__().input_tags.pairwise:  # a whole matrix is checked, before it is split
                gram = Gram.of(model._resolved_kernel(X), X)
                gram.check_definite()
                known = tuple(fact for fact in gram.record() if fact[0] == "alteration")
                warnings.simplefilter("ignore", IndefiniteKernelWarning)  # once is enough
            X_final, Y_final = self.part(X, Y, rounds.rows, rounds.rows)
            best, choices = self.best(X, rounds)
            final = self.fit_final(best.kernel, X_final, Y_final, best.value)
        lower = min(choice.lower_bound for choice in choices)
        formula = f"criterion - lower bound over {model._chooses}"
        # an error of rounding size needs no bound, nor does one within the rounding of the targets
        unknown = target_rounding(Y.shape[0], float(np.abs(Y).max()))
        scale = best.error + 1e-9 * float(np.mean(np.var(Y, axis=0))) + unknown * unknown / float(model.gap)
        row = Row(
            name=f"gap of {model._chooses}",
            value=best.error - lower,
            scale=scale,
            tolerance=float(model.gap),
            formula=formula,
        )
        ends = self.end_rows(choices, best, NEGLIGIBLE * float(np.mean(np.var(Y, axis=0))))
        facts = [*final.facts, *known, ("validated on", rounds.how), *best.facts]
        if len(choices) > 1:
            facts.append(("kernels", f"{len(choices)} candidates, the bound over all of them"))
        if ends and not ends[0].passes:
            said = f"the error may fall below {model._chooses} = {best.path['coverage'][0]:.3g}"
            facts.append((WIDER, f"{said}: a smaller {self.widened} searches there"))
        setattr(model, f"{model._chooses}_", best.value)
        model.criterion_, model.criterion_lower_bound_ = best.error, lower
        model.path_ = best.path
        for name, value in {**best.kept, **final.kept, **(also or {})}.items():
            setattr(model, name, value)
        if self.sparse:  # the support is not the set of training rows
            model.training_rows_ = rounds.rows
        model.certificate_ = Certificate(model._title, (*final.rows, row, *ends), tuple(facts))
        warn_unless_holds(model.certificate_)
        a = final.coefficients
        (used,) = np.nonzero(a.reshape(a.shape[0], -1).any(axis=1)) if self.sparse else (np.arange(a.shape[0]),)
        kept = np.ascontiguousarray((a[:, 0] if one else a)[used])
        if model._labels:  # from regression's sign to that of y f = 1 - e
            codes = np.ascontiguousarray((Y_final[:, 0] if one else Y_final)[used])
            model.support_codes_ = codes
            kept = kept * (codes[..., None] if kept.ndim > codes.ndim else codes)
        bias = float(final.bias[0]) if one else final.bias
        model._keep_expansion(X, rounds.rows[used], best.kernel, kept, bias)

    def end_rows(self, choices: list[Choice], best: Choice, negligible: float) -> tuple[Row, ...]:
        """Return what is to expect beyond default ranges, of all candidates."""
        beyond = [choice.beyond for choice in choices if choice.beyond is not None]
        if not beyond:
            return ()
        return (end_row(str(self.estimator._chooses), best.error, min(beyond), negligible, self.widened),)


def fit_numbers(self: Fitted, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Fitted:
    """Fit to rows X and targets y; validate on the given rows, on folds, or on a fraction held out."""
    estimator: Any = self
    search = estimator._selector
    estimator._begin_fit()
    search.check_rules()
    search.check_pair(X_val, y_val)
    X, y, _ = estimator._check_data(X, y, None, numeric=True, multi_output=False)
    known = None
    if X_val is not None:
        X_val, y_val = estimator._validation(X_val, y_val)
        known = y_val[:, None]
    rounds = search.refuse_small(search.rounds(X, y[:, None], y, X_val, known, False))
    search.keep_fused(X, y[:, None], rounds, True)
    return self


def fit_classes(self: Fitted, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Fitted:
    """Fit to rows X and labels y of any kind; validate on the given rows, on folds, or on a fraction held out."""
    estimator: Any = self
    search = estimator._selector
    estimator._begin_fit()
    search.check_rules()
    estimator._check_coding()
    search.check_pair(X_val, y_val)
    X, labels, _ = estimator._check_data(X, y, None, numeric=False)
    classes = Classes.of(labels, estimator.coding)
    known = None
    if X_val is not None:
        X_val, other = estimator._validation(X_val, y_val, numeric=False)
        strange = np.setdiff1d(other, classes.names)
        if strange.size:
            raise DataError(f"y_val has classes {strange[:5]} that y lacks")
        known = classes.codes(other)
    Y = classes.codes(labels)
    rounds = search.refuse_small(search.rounds(X, Y, labels, X_val, known, True))
    for number, one in enumerate(rounds.rounds):
        for train, _ in one.machines(True):
            if np.unique(train.y).size < 2:
                raise DataError(
                    f"round {number} trains machine {train.column} on one class only; give more rows of the rare "
                    "class, fewer folds, or a validation set"
                )
    also = {"classes_": classes.names, "code_book_": classes.book}
    search.keep_fused(X, Y, rounds, Y.shape[1] == 1, also)
    return self


class FusedCalibration(Calibration):
    """Rows left out in folds, of machines at the value that was chosen on all rows."""

    def fold_machine(self, X: Any) -> Any:
        """Return the machine at the chosen value, which is not chosen again; at zero there is none, and it is."""
        model = self.estimator
        value = getattr(model, f"{model._chooses}_")
        if min(value.values() if isinstance(value, Mapping) else np.atleast_1d(value)) <= 0.0:
            return super().fold_machine(X).set_params(cv=None)
        made: Any = model._plain_type()
        own = model.get_params(deep=False)
        shared = {name: own[name] for name in made.get_params(deep=False) if name in own}
        chosen = {str(model._chooses): value, "kernel": model.kernel_, "calibration": None}
        chosen |= {"ridge": model.ridge_} if hasattr(model, "ridge_") else {}
        return made.set_params(**shared | chosen)
