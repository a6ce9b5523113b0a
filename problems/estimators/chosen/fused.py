"""Fused estimators: training, and the choice of one hyper-parameter by validation, in one fit with a proof."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.model_selection import LeaveOneOut, check_cv

from problems.estimators.chosen.candidates import held_out_rows
from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.coded import Classes, CodedClassifier
from problems.estimators.shared.intervals import Intervals
from problems.estimators.shared.machine_rows import MachineRows, each_machine
from substrate.arrays import Array, positive
from substrate.certificates import WIDER, Certificate, Row, warn_unless_holds
from substrate.certificates.rounding import target_rounding
from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning
from substrate.gram import Gram
from substrate.kernels import Kernel, as_kernel
from substrate.least_squares.leave_one_out import checked_splits
from substrate.search.range_end import NEGLIGIBLE, end_row

__all__ = ["Choice", "Final", "FusedClassifier", "FusedEstimator", "FusedRegressor", "Round", "Rounds"]


@dataclass(frozen=True, slots=True)
class Round:
    """Training and validation rows: points and targets, one column per machine (0: not in it)."""

    X: Any
    Y: Array
    X_check: Any
    Y_check: Array

    def machines(self, labels: bool) -> Iterator[tuple[MachineRows, MachineRows]]:
        """The training and the validation rows of every machine."""
        return zip(each_machine(self.Y, labels), each_machine(self.Y_check, labels), strict=True)


@dataclass(frozen=True, slots=True)
class Rounds:
    """One round, or one per fold, and the rows of the final machine."""

    rounds: tuple[Round, ...]
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


@dataclass(eq=False, repr=False, kw_only=True)
class FusedEstimator(KernelEstimator):
    """Base: splits the rows, tries the kernels, and keeps the proof."""

    _location = None
    #: The parameter that widens a default range.
    _widened: ClassVar[str] = ""
    kernels: Any = None
    cv: Any = None
    validation_fraction: float = 0.25
    gap: float = 1e-3
    random_state: Any = None

    @abstractmethod
    def _choose(self, kernel: Kernel, rounds: tuple[Round, ...]) -> Choice:
        """The best value of the hyper-parameter with one kernel."""

    @abstractmethod
    def _final(self, kernel: Kernel, X: Any, Y: Array, value: Any) -> Final:
        """The machines at that value."""

    @abstractmethod
    def _targets_again(self, X: Any, y: Any) -> tuple[Any, Array]:
        """The rows and targets of the fit, given again, one column per machine."""

    def _candidates(self, X: Any) -> list[Kernel]:
        """The kernels to choose from, their widths taken from the rows of the final machine."""
        if self.kernels is None:
            return [self._resolved_kernel(X)]
        if isinstance(self.kernels, (str, Kernel)) or not isinstance(self.kernels, Sequence) or not len(self.kernels):
            raise DeclarationError(f"kernels must be a list of kernels, at least one, received {self.kernels!r}")
        given = self.kernel
        try:
            found = []
            for candidate in self.kernels:
                self.kernel = as_kernel(candidate)
                found.append(self._resolved_kernel(X))
        finally:
            self.kernel = given
        return found

    def _rules(self) -> float:
        """The gap, checked, before any long work."""
        if isinstance(self.cv, (bool, float)) or (isinstance(self.cv, str) and self.cv != "loo"):
            raise DeclarationError(
                "cv must be 'loo', a number of folds, a splitter, a list of splits, or None for validation rows; "
                f"received {self.cv!r}"
            )
        held_out_rows(4, self.validation_fraction, 0)
        return positive(self.gap, "gap")

    def _check_pair(self, X_val: Any, y_val: Any) -> None:
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val come together; one of them is missing")
        if X_val is not None and self.cv is not None:
            raise DataError(f"X_val and y_val judge where cv is None, received cv={self.cv!r}")

    def _rounds(self, X: Any, Y: Array, labels: Any, X_val: Any, Y_val: Array | None, classifier: bool) -> Rounds:
        """The split of the rows: a validation set, folds, or a fraction."""
        every = np.arange(Y.shape[0])
        if self.__sklearn_tags__().input_tags.pairwise:
            self._resolved_kernel(X)  # refuses a matrix that is not square, before it is split
        if Y_val is not None:
            return Rounds((Round(X, Y, X_val, Y_val),), every, f"{Y_val.shape[0]} rows given")
        if self.cv is not None:
            splitter = LeaveOneOut() if isinstance(self.cv, str) else check_cv(self.cv, labels, classifier=classifier)
            splits = checked_splits(splitter.split(every, labels), every.size)
            rounds = tuple(
                Round(*self._part(X, Y, train, train), *self._part(X, Y, test, train)) for train, test in splits
            )
            how = "every row left out in turn" if isinstance(self.cv, str) else f"{len(splits)} folds"
            return Rounds(rounds, every, how)
        stratify = labels if classifier else None
        train, test = held_out_rows(every.size, self.validation_fraction, self.random_state, stratify)
        cut = Round(*self._part(X, Y, train, train), *self._part(X, Y, test, train))
        return Rounds((cut,), train, f"{test.size} of {every.size} rows held out")

    def _refuse_small(self, rounds: Rounds) -> Rounds:
        for number, one in enumerate(rounds.rounds):
            if one.Y.shape[0] < 2:
                raise DataError(
                    f"round {number} would train on {one.Y.shape[0]} row, at least two are needed; give more rows, a "
                    "smaller validation_fraction, fewer folds, or a validation set"
                )
        return rounds

    def _part(self, X: Any, Y: Array, rows: Any, columns: Any) -> tuple[Any, Array]:
        """Some of the rows; for a precomputed matrix, also some of the columns."""
        pairwise = self.__sklearn_tags__().input_tags.pairwise
        return (X[rows][:, columns] if pairwise else X[rows]), Y[rows]

    def _best(self, X: Any, rounds: Rounds) -> tuple[Choice, list[Choice]]:
        final = X if not self.__sklearn_tags__().input_tags.pairwise else X[:, rounds.rows]
        choices = [self._choose(kernel, rounds.rounds) for kernel in self._candidates(final[rounds.rows])]
        return min(choices, key=lambda choice: choice.error), choices

    def _keep_fused(self, X: Any, Y: Array, rounds: Rounds, one: bool, also: dict[str, Any] | None = None) -> None:
        """Choose, fit, and set the fitted attributes, all at the end."""
        known: tuple[tuple[str, str], ...] = ()
        with warnings.catch_warnings():
            if self.__sklearn_tags__().input_tags.pairwise:  # a whole matrix is checked, before it is split
                gram = Gram.of(self._resolved_kernel(X), X)
                gram.check_definite()
                known = tuple(fact for fact in gram.record() if fact[0] == "alteration")
                warnings.simplefilter("ignore", IndefiniteKernelWarning)  # once is enough
            X_final, Y_final = self._part(X, Y, rounds.rows, rounds.rows)
            best, choices = self._best(X, rounds)
            final = self._final(best.kernel, X_final, Y_final, best.value)
        lower = min(choice.lower_bound for choice in choices)
        formula = f"criterion - lower bound over {self._chooses}"
        # an error of rounding size needs no bound, nor does one within the rounding of the targets
        unknown = target_rounding(Y.shape[0], float(np.abs(Y).max()))
        scale = best.error + 1e-9 * float(np.mean(np.var(Y, axis=0))) + unknown * unknown / float(self.gap)
        row = Row(f"gap of {self._chooses}", best.error - lower, scale, float(self.gap), formula)
        ends = self._end_rows(choices, best, NEGLIGIBLE * float(np.mean(np.var(Y, axis=0))))
        facts = [*final.facts, *known, ("validated on", rounds.how), *best.facts]
        if len(choices) > 1:
            facts.append(("kernels", f"{len(choices)} candidates, the bound over all of them"))
        if ends and not ends[0].passes:
            said = f"the error may fall below {self._chooses} = {best.path['coverage'][0]:.3g}"
            facts.append((WIDER, f"{said}: a smaller {self._widened} searches there"))
        setattr(self, f"{self._chooses}_", best.value)
        self.criterion_, self.criterion_lower_bound_ = best.error, lower
        self.path_ = best.path
        for name, value in {**best.kept, **final.kept, **(also or {})}.items():
            setattr(self, name, value)
        if self._sparse:  # the support is not the set of training rows
            self.training_rows_ = rounds.rows
        self.certificate_ = Certificate(self._title, (*final.rows, row, *ends), tuple(facts))
        warn_unless_holds(self.certificate_)
        a = final.coefficients
        (used,) = np.nonzero(a.reshape(a.shape[0], -1).any(axis=1)) if self._sparse else (np.arange(a.shape[0]),)
        kept = np.ascontiguousarray((a[:, 0] if one else a)[used])
        if self._labels:  # from regression's sign to that of y f = 1 - e
            codes = np.ascontiguousarray((Y_final[:, 0] if one else Y_final)[used])
            self.support_codes_ = codes
            kept = kept * (codes[..., None] if kept.ndim > codes.ndim else codes)
        bias = float(final.bias[0]) if one else final.bias
        self._keep_expansion(X, rounds.rows[used], best.kernel, kept, bias)

    def _end_rows(self, choices: list[Choice], best: Choice, negligible: float) -> tuple[Row, ...]:
        """What is to expect beyond default ranges, of all candidates."""
        beyond = [choice.beyond for choice in choices if choice.beyond is not None]
        if not beyond:
            return ()
        return (end_row(str(self._chooses), best.error, min(beyond), negligible, self._widened),)

    @property
    def _sparse(self) -> bool:
        """Whether rows without a coefficient are dropped."""
        return False


class FusedRegressor(Intervals, RegressorMixin, FusedEstimator):
    """A fused estimator for one real target."""

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit to rows X and targets y; validate on the given rows, on folds, or on a fraction held out."""
        self._begin_fit()
        self._rules()
        self._check_pair(X_val, y_val)
        X, y, _ = self._checked(X, y, None, numeric=True, multi_output=False)
        known = None
        if X_val is not None:
            X_val, y_val = self._validation(X_val, y_val)
            known = y_val[:, None]
        rounds = self._refuse_small(self._rounds(X, y[:, None], y, X_val, known, False))
        self._keep_fused(X, y[:, None], rounds, True)
        return self

    def predict(self, X: Any) -> Array:
        """f(x) of the machine at the chosen value."""
        return self._expansion(X)

    def _targets_again(self, X: Any, y: Any) -> tuple[Any, Array]:
        """The rows and targets of the fit, given again."""
        X, y, _ = type(self)(self.kernel)._checked(X, y, None, numeric=True, multi_output=False)
        return X, y[:, None]


class FusedClassifier(FusedEstimator, CodedClassifier):
    """A fused estimator for classes: one value of the hyper-parameter for all machines of the coding."""

    #: The classifier whose hyper-parameter is chosen.
    _plain: ClassVar[type[CodedClassifier]]

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit to rows X and labels y of any kind; validate on the given rows, on folds, or on a fraction held out."""
        self._begin_fit()
        self._rules()
        self._check_coding()
        self._check_pair(X_val, y_val)
        X, labels, _ = self._checked(X, y, None, numeric=False)
        classes = Classes.of(labels, self.coding)
        known = None
        if X_val is not None:
            X_val, other = self._validation(X_val, y_val, numeric=False)
            strange = np.setdiff1d(other, classes.names)
            if strange.size:
                raise DataError(f"y_val has classes {strange[:5]} that y lacks")
            known = classes.codes(other)
        Y = classes.codes(labels)
        rounds = self._refuse_small(self._rounds(X, Y, labels, X_val, known, True))
        for number, one in enumerate(rounds.rounds):
            for train, _ in one.machines(True):
                if np.unique(train.y).size < 2:
                    raise DataError(
                        f"round {number} trains machine {train.column} on one class only; give more rows of the rare "
                        "class, fewer folds, or a validation set"
                    )
        also = {"classes_": classes.names, "code_book_": classes.book}
        self._keep_fused(X, Y, rounds, Y.shape[1] == 1, also)
        return self

    def _fold_machine(self, X: Any) -> Any:
        """The machine at the chosen value, which is not chosen again; at zero there is none, and it is."""
        value = getattr(self, f"{self._chooses}_")
        if min(value.values() if isinstance(value, Mapping) else np.atleast_1d(value)) <= 0.0:
            return super()._fold_machine(X).set_params(cv=None)
        made: Any = self._plain()
        own = self.get_params(deep=False)
        shared = {name: own[name] for name in made.get_params(deep=False) if name in own}
        chosen = {str(self._chooses): value, "kernel": self.kernel_, "calibration": None}
        chosen |= {"ridge": self.ridge_} if hasattr(self, "ridge_") else {}
        return made.set_params(**shared | chosen)

    def _targets_again(self, X: Any, y: Any) -> tuple[Any, Array]:
        """The rows of the fit and the codes of their labels, given again."""
        X, labels, _ = type(self)(self.kernel)._checked(X, y, None, numeric=False)
        return X, self._codes_again(labels)
