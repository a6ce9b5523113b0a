"""Fused estimators: training, and the choice of one hyper-parameter by validation, in one fit with a proof."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from problems.estimators.chosen.search import Search
from problems.estimators.shared.base import Fitted
from problems.estimators.shared.machine_rows import MachineRows, each_machine
from problems.estimators.shared.probabilities import Calibration
from substrate.arrays import Array
from substrate.certificates import WIDER, Certificate, Row, warn_unless_holds
from substrate.certificates.rounding import target_rounding
from substrate.errors import DataError, IndefiniteKernelWarning
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.search.range_end import NEGLIGIBLE, end_row

__all__ = ["Choice", "Final", "FusedCalibration", "FusedSearch", "FusionRound", "Rounds", "fit_fused"]


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
    """The machines at the chosen value: coefficients (a column per machine), biases, rows, facts, attributes.

    ``kernel`` and ``support`` are of a refitted machine: its kernel, and the rows of its expansion among those fitted.
    """

    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    kept: dict[str, Any]
    kernel: Kernel | None = None
    support: Any = None


class FusedSearch(Search):
    """A choice by validation, along a path or over several weights: it trains on every round and tries the kernels."""

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

    def basis_of_refit(self) -> dict[str, Any]:
        """Return the parameters of a refitted machine that name its basis, where it has one."""
        return {}

    def rounds(self, X: Any, y: Any, X_val: Any, y_val: Any, coded: Any) -> Rounds:
        """Return the split of the rows: a validation set, folds, or a fraction; ``coded`` makes columns of targets.

        A refitted machine that leaves out rows by itself has all of them, and none that validate.
        """
        if getattr(self.estimator, "refit", False) == "loo":
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

    def best(self, X: Any, rounds: Rounds) -> tuple[Choice, list[Choice]]:
        """Return the best choice over all kernels, and all of them."""
        final = X if not self.estimator.__sklearn_tags__().input_tags.pairwise else X[:, rounds.rows]
        choices = [self.choose(kernel, rounds.rounds) for kernel in self.candidates(final[rounds.rows])]
        return min(choices, key=lambda choice: choice.least_error), choices

    def keep_fused(self, X: Any, Y: Array, rounds: Rounds, coded: Any) -> Choice:
        """Choose, fit, and set the fitted attributes, all at the end; return the choice."""
        model, one = self.estimator, Y.shape[1] == 1
        known: tuple[tuple[str, str], ...] = ()
        with warnings.catch_warnings():
            if model.__sklearn_tags__().input_tags.pairwise:  # a whole matrix is checked, before it is split
                gram = Gram.of(model._resolved_kernel(X), X)
                gram.check_definite()
                known = tuple(fact for fact in gram.record() if fact[0] == "alteration")
                warnings.simplefilter("ignore", IndefiniteKernelWarning)  # once is enough
            X_final, Y_final = self.take_points(X, rounds.rows, rounds.rows), Y[rounds.rows]
            best, choices = self.best(X, rounds)
            final = self.fit_final(best.kernel, X_final, Y_final, best.value)
        lower = min(choice.lower_bound for choice in choices)
        formula = f"{'criterion' if best.least is None else 'least criterion'} - lower bound over {model._chooses}"
        # an error of rounding size needs no bound, nor does one within the rounding of the targets
        unknown = target_rounding(Y.shape[0], float(np.abs(Y).max()))
        scale = best.least_error + 1e-9 * float(np.mean(np.var(Y, axis=0))) + unknown * unknown / float(model.gap)
        row = Row(
            name=f"gap of {model._chooses}",
            value=best.least_error - lower,
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
        for name, value in {**best.kept, **final.kept}.items():
            setattr(model, name, value)
        if self.sparse or final.support is not None:  # the support is not the set of training rows
            model.training_rows_ = rounds.rows
        model.certificate_ = Certificate(model._title, (*final.rows, row, *ends), tuple(facts))
        warn_unless_holds(model.certificate_)
        a, used = final.coefficients, final.support
        if used is None:
            (used,) = np.nonzero(a.reshape(a.shape[0], -1).any(axis=1)) if self.sparse else (np.arange(a.shape[0]),)
            a = a[used]
        codes = np.ascontiguousarray(Y_final[used])
        signs = codes.reshape(
            codes.shape + (1,) * (a.ndim - codes.ndim)
        )  # one expansion per component: its axis is last
        kept = coded.sign(signs, a)
        kept = np.ascontiguousarray(kept[:, 0] if one else kept)
        model._keep_classes(coded, codes)
        bias = float(final.bias[0]) if one else final.bias
        model._keep_expansion(X, rounds.rows[used], final.kernel or best.kernel, kept, bias)
        return best

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
    search.keep_fused(X, coded.codes(y), search.rounds(X, y, X_val, y_val, coded), coded)
    return self


class FusedCalibration(Calibration):
    """Rows left out in folds, of machines at the value that was chosen on all rows."""

    def fold_machine(self, X: Any) -> Any:
        """Return the machine at the chosen value, which is not chosen again; at zero there is none, and it is."""
        model = self.estimator
        value = getattr(model, f"{model._chooses}_")
        if getattr(model, "refit", False):
            return self.refitted_machine(X)
        if min(value.values() if isinstance(value, Mapping) else np.atleast_1d(value)) <= 0.0:
            return super().fold_machine(X).set_params(cv=None)
        made: Any = model._plain_type()
        own = model.get_params(deep=False)
        shared = {name: own[name] for name in made.get_params(deep=False) if name in own}
        chosen = {str(model._chooses): value, "kernel": model.kernel_, "calibration": None}
        chosen |= {"ridge": model.ridge_} if hasattr(model, "ridge_") else {}
        return made.set_params(**shared | chosen)

    def refitted_machine(self, X: Any) -> Any:
        """Return the machine on what was selected; it is selected again where that has no machine of its own.

        That is where nothing was selected, where X is a matrix, and where machines on a basis have rows of their own.
        """
        model = self.estimator
        basis = model._selector.basis_of_refit() if model.support_.size else {}
        apart = basis and model.coding == "one_vs_one"
        if not model.support_.size or model.kernel_.pairwise or apart:
            return super().fold_machine(X).set_params(cv=None)
        made: Any = model._refitted_type()
        own = model.get_params(deep=False)
        shared = {name: own[name] for name in made.get_params(deep=False) if name in own}
        chosen = {"gamma": model.gamma_, "kernel": model.kernel_, "calibration": None}
        return made.set_params(**shared | chosen | basis)
