"""Fused estimators: training, and the choice of one hyper-parameter by validation, in one fit with a proof.

A choice ends in a machine with the value that was chosen, which is an estimator of its own on the rows that train it:
predictions, certificates and probabilities are those of that machine.
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from problems.estimators.chosen.search import Search
from problems.estimators.shared.base import Fitted
from problems.estimators.shared.calibration_scores import CalibrationScores
from problems.estimators.shared.probabilities import Calibration
from substrate.arrays import Array
from substrate.certificates import WIDER, Certificate, Row, warn_unless_holds
from substrate.errors import DataError, IndefiniteKernelWarning
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.numbers import target_rounding
from substrate.search.range_end import NEGLIGIBLE, end_row

__all__ = ["Choice", "Final", "FusedCalibration", "FusedSearch", "FusionRound", "fit_fused"]


@dataclass(frozen=True, slots=True)
class FusionRound:
    """Training and validation rows: points and targets, one column per machine."""

    X: Any
    Y: Array
    X_check: Any
    Y_check: Array

    def targets(self) -> Iterator[tuple[Array, Array]]:
        """Yield the targets of the training and of the validation rows of every machine."""
        return zip(np.ascontiguousarray(self.Y.T), np.ascontiguousarray(self.Y_check.T), strict=True)


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
    least error to expect beyond a default range, None where a range was given or all values are covered. ``folds`` are
    the paths, where there are some. ``least`` is the smallest error that was found, where a simpler machine was taken.
    """

    kernel: Kernel
    value: Any
    error: float
    lower_bound: float
    path: dict[str, Any]
    facts: tuple[tuple[str, str], ...]
    kept: Mapping[str, Any] = field(default_factory=dict)
    beyond: float | None = None
    folds: tuple[Any, ...] = ()
    least: float | None = None

    @property
    def least_error(self) -> float:
        """The smallest error that was found: what the lower bound is compared with."""
        return self.error if self.least is None else self.least


@dataclass(frozen=True, slots=True)
class Final:
    """The fitted machine at the value that was chosen, attributes, and what the choice adds to its certificate."""

    machine: Any
    kept: Mapping[str, Any]
    rows: tuple[Row, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


class FusedSearch(Search):
    """A choice by validation, along a path or over several weights: it trains on every round and tries the kernels."""

    #: The parameter that widens a default range.
    widened: ClassVar[str] = ""

    @abstractmethod
    def choose(self, kernel: Kernel, rounds: tuple[FusionRound, ...]) -> Choice:
        """Return the best value of the hyper-parameter with one kernel."""

    @abstractmethod
    def fit_final(self, kernel: Kernel, X: Any, y: Any, value: Any) -> Final:
        """Fit the machine at that value."""

    def rounds(self, X: Any, y: Any, X_val: Any, y_val: Any, coded: Any) -> Rounds:
        """Return the split of the rows: a validation set, folds, or a fraction; ``coded`` makes columns of targets.

        A refitted machine that leaves out rows by itself has all of them, and none that validate.
        """
        if self.estimator.refit == "loo":
            if X_val is not None or y_val is not None:
                raise DataError("X_val and y_val are not used with refit='loo'; leave them out, or use refit=True")
            Y = coded.codes(y)
            return Rounds((FusionRound(X, Y, X[:0], Y[:0]),), np.arange(X.shape[0]), "every row left out in turn")
        split = self.part_rows(X, y, X_val, y_val)
        if split.X_check is not None:
            round_ = FusionRound(split.X, coded.codes(split.y), split.X_check, coded.known_codes(split.y_check))
            return Rounds((round_,), split.rows, split.how)
        Y, splits = coded.codes(y), self.splits(X, y)
        rounds = tuple(
            FusionRound(self.take_points(X, train, train), Y[train], self.take_points(X, test, train), Y[test])
            for train, test in splits
        )
        how = "every row left out in turn" if isinstance(self.estimator.cv, str) else f"{len(splits)} folds"
        return Rounds(rounds, split.rows, how)

    def fit(self, X: Any, y: Any, rounds: Rounds, Y: Array) -> None:
        """Choose, fit the machine, and set the fitted attributes, all at the end."""
        model = self.estimator
        known: tuple[tuple[str, str], ...] = ()
        with warnings.catch_warnings():
            if model.__sklearn_tags__().input_tags.pairwise:  # a whole matrix is checked, before it is split
                gram = Gram.of(model._resolved_kernel(X), X)
                gram.check_definite()
                known = tuple(fact for fact in gram.record() if fact[0] == "alteration")
                warnings.simplefilter("ignore", IndefiniteKernelWarning)  # once is enough
            X_final = self.take_points(X, rounds.rows, rounds.rows)
            choices = [self.choose(kernel, rounds.rounds) for kernel in self.candidates(X_final)]
            best = min(choices, key=lambda choice: choice.least_error)
            warnings.simplefilter("ignore", ConvergenceWarning)  # the certificate of this fit says the same, and more
            final = self.fit_final(best.kernel, X_final, y[rounds.rows], best.value)
        lower = min(choice.lower_bound for choice in choices)
        formula = f"{'criterion' if best.least is None else 'least criterion'} - lower bound over {model._chooses}"
        # an error of rounding size needs no bound, nor does one within the rounding of the targets
        unknown = target_rounding(Y.shape[0], float(np.abs(Y).max()))
        spread = float(np.mean(np.var(Y, axis=0)))
        row = Row(
            name=f"gap of {model._chooses}",
            value=best.least_error - lower,
            scale=best.least_error + 1e-9 * spread + unknown * unknown / float(model.gap),
            tolerance=float(model.gap),
            formula=formula,
        )
        ends = self.end_rows(choices, best, NEGLIGIBLE * spread)
        answer = final.machine.certificate_
        facts = [*answer.record, *final.facts, *known, ("validated on", rounds.how), *best.facts]
        if len(choices) > 1:
            facts.append(("kernels", f"{len(choices)} candidates, the bound over all of them"))
        if ends and not ends[0].passes:
            said = f"the error may fall below {model._chooses} = {best.path['coverage'][0]:.3g}"
            facts.append((WIDER, f"{said}: a smaller {self.widened} searches there"))
        model.criterion_, model.criterion_lower_bound_ = best.error, lower
        model.path_, model.training_rows_ = best.path, rounds.rows
        for name, value in {**best.kept, **final.kept}.items():
            setattr(model, name, value)
        model.certificate_ = Certificate(model._title, (*answer.rows, *final.rows, row, *ends), tuple(facts))
        warn_unless_holds(model.certificate_)
        model.machine_ = final.machine

    def end_rows(self, choices: list[Choice], best: Choice, negligible: float) -> tuple[Row, ...]:
        """Return what is to expect beyond default ranges, of all candidates."""
        beyond = [choice.beyond for choice in choices if choice.beyond is not None]
        if not beyond:
            return ()
        return (end_row(str(self.estimator._chooses), best.error, min(beyond), negligible, self.widened),)


def fit_fused(self: Fitted, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Fitted:
    """Fit to rows X and numbers or labels y; validate on the given rows, on folds, or on a fraction held out."""
    estimator: Any = self
    search = estimator._selector
    estimator._begin_fit()
    search.check_rules()
    estimator._check_coding()
    X, y, _ = estimator._check_data(X, y, None, numeric=not estimator._labels)
    coded = estimator._encode(y)
    search.fit(X, y, search.rounds(X, y, X_val, y_val, coded), coded.codes(y))
    return self


class FusedCalibration(Calibration):
    """The calibration of the machine at the value that was chosen, by the rows that trained it."""

    def keeps_rows(self) -> bool:
        """Return False: the machine keeps them."""
        return False

    def score_left_out(self, rows: tuple[Any, Any, Any]) -> CalibrationScores:
        """Return the scores of that machine."""
        model = self.estimator
        given = None if rows[0] is None else model._model.training_rows(*rows[:2])[:2]
        scores: CalibrationScores = model.machine_._calibration.scores(given)
        return scores
