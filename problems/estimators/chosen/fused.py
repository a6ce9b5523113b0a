"""Fused estimators: training, and the choice of one hyper-parameter by validation, in one fit with a proof.

A choice ends in a machine with the value that was chosen, which is a separate estimator on the rows that train it:
predictions, certificates and probabilities come from that machine. Every estimator with an exact path decides what is
chosen along it (:mod:`problems.estimators.chosen.fused_l1`, :mod:`problems.estimators.chosen.fused_variation`). Several
weights of one machine are chosen together, the problems of the folds as one of cvxpy, which is affine in the weights
and over which :func:`substrate.fuse` searches with a bound; the bias is eliminated there, as the mean of y less the
mean of the fitted values. [Pelckmans2005]_ eq. (28) with several weights.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from problems.estimators.chosen.rules import judged_by, refuse_device, splits_of, take_points, trainable_splits
from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.calibration_scores import CalibrationScores
from problems.estimators.shared.checked_again import StoredFit
from substrate.arrays import Array, positive, take_columns, whole_number
from substrate.certificates import WIDER, Certificate, Row, warn_unless_holds
from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning
from substrate.fits.path_bounds import Fold, ReadOff
from substrate.gram import Gram
from substrate.least_squares.leave_one_out import Split
from substrate.numbers import relative_rounding
from substrate.search.gamma_search import NEGLIGIBLE, end_row

__all__ = ["Choice", "Final", "FusedChoice", "FusionRound", "WeighedFold", "along_path", "jointly"]


@dataclass(frozen=True, slots=True)
class FusionRound:
    """The training and validation rows of a round: points and targets, one column per machine."""

    X: Any
    Y: Array
    X_check: Any
    Y_check: Array

    def targets(self) -> Iterator[tuple[Array, Array]]:
        """Yield the targets of the training and of the validation rows of every machine."""
        return zip(np.ascontiguousarray(self.Y.T), np.ascontiguousarray(self.Y_check.T), strict=True)


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of validation: value, mean squared error, lower bound, and the path.

    The value is a number, or several by their names; ``kept`` are further attributes of the model. ``beyond`` is the
    least error to expect beyond a default range, None where a range was given or all values are covered. ``least`` is
    the smallest error that was found, where a simpler machine was taken.
    """

    value: Any
    error: float
    lower_bound: float
    path: dict[str, Any]
    facts: tuple[tuple[str, str], ...]
    kept: Mapping[str, Any] = field(default_factory=dict)
    beyond: float | None = None
    least: float | None = None


class Final(NamedTuple):
    """The fitted machine at the value that was chosen, attributes, and what the choice adds to its certificate."""

    machine: Any
    kept: Mapping[str, Any]
    rows: tuple[Row, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


def held_out_rows(model: Any, n: int, labels: Any = None) -> Split:
    """Return rows that train and a share that validates, drawn at random; for labels in proportion, where there are
    enough.
    """
    share, seed, every = positive(model.validation_fraction, "validation_fraction"), model.random_state, np.arange(n)
    if share >= 1.0:
        raise DeclarationError(f"validation_fraction must be below 1, received {model.validation_fraction!r}")
    try:
        train, test = train_test_split(every, test_size=share, random_state=seed, stratify=labels)
    except ValueError:  # a class too small to be cut in proportion: one row of each trains
        _, first = np.unique(labels, return_index=True) if labels is not None else (None, every[:0])
        remaining = np.setdiff1d(every, first)
        rows = remaining if remaining.size > 1 else every
        train, test = train_test_split(rows, test_size=share, random_state=seed)
        train = np.union1d(train, first if remaining.size > 1 else train)
    return np.sort(train), np.sort(test)


def divide_rows(
    model: Any, X: Any, y: Any, X_val: Any, y_val: Any, coded: Any
) -> tuple[tuple[FusionRound, ...], Any, str]:
    """Return the rounds, the rows of the final machine, and a description: a validation set, folds, or a share.

    A refitted machine that leaves out rows by itself has all of them, and none that validate.
    """
    Y, every, by_loo = coded.codes(y), np.arange(X.shape[0]), model.refit == "loo"
    if (X_val is None) != (y_val is None):
        raise DataError("X_val and y_val come together; one of them is missing")
    if X_val is not None and by_loo:
        raise DataError("X_val and y_val are not used with refit='loo'; leave them out, or use refit=True")
    if X_val is not None and model.cv is not None:
        raise DataError(f"X_val and y_val are used only with cv=None, received cv={model.cv!r}")
    refuse_device(X)
    if by_loo:
        return (FusionRound(X, Y, X[:0], Y[:0]),), every, "every row left out in turn"
    if X_val is not None:
        X_val, y_val = model._validation(X_val, y_val, numeric=not model._labels, outputs=y.shape[1:])
        return (FusionRound(X, Y, X_val, coded.known_codes(y_val)),), every, f"{y_val.shape[0]} rows given"
    rows = every
    if model.cv is None:
        labels = y if model._labels else None
        splits = trainable_splits([held_out_rows(model, every.size, labels)], every.size, labels)
        rows, how = splits[0][0], f"{splits[0][1].size} of {every.size} rows held out"
    else:
        splits = splits_of(model, X, y)
        how = "every row left out in turn" if isinstance(model.cv, str) else f"{len(splits)} folds"
    rounds = tuple(
        FusionRound(take_points(model, X, train, train), Y[train], take_points(model, X, test, train), Y[test])
        for train, test in splits
    )
    return rounds, rows, how


class OfMachine:
    """An attribute of the machine that an estimator holds."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type) -> Any:
        return self if estimator is None else getattr(estimator.machine_, self.name)

    def __set__(self, estimator: Any, value: Any) -> None:
        setattr(estimator.machine_, self.name, value)


@dataclass(eq=False, repr=False)
class FusedChoice(KernelEstimator):
    """A base of estimators that choose weights of a machine by validation: their shared parameters, and the fit.

    :class:`~problems.FusedL1SubstrateRegressor` documents them. The fitted machine, ``machine_``, is an estimator with
    the weights that were chosen, on the rows ``training_rows_``: its coefficients are the coefficients here, and
    ``support_`` are numbers of the rows that were given.
    """

    training_rows_: Any = field(init=False)
    kernel_, support_vectors_, support_values_, bias_ = OfMachine(), OfMachine(), OfMachine(), OfMachine()
    classes_, code_book_, support_codes_ = OfMachine(), OfMachine(), OfMachine()
    _plain_type: ClassVar[type[Any]]
    _refitted_type: ClassVar[type[Any]]
    #: Whether the machines of a classifier are regressions on the codes.
    _regressed: ClassVar[Any] = property(lambda self: hasattr(self, "machine_") and self.machine_._regressed)

    _location: ClassVar[str | None] = None
    _takes_weights = False
    _: KW_ONLY
    cv: Any = None
    validation_fraction: float = 0.25
    gap: float = 1e-2
    random_state: Any = None
    max_evaluations: int = 2000
    refit: Any = False
    standard_errors: float = 0.0

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit to rows X and numbers or labels y; validate on the given rows, on folds, or on a fraction held out."""
        model: Any = self
        model._begin_fit()
        model._check_rules()
        whole_number(model.max_evaluations, "max_evaluations", 1)
        positive(model.gap, "gap")
        if judged_by(model.cv, ("loo",), ", or None for validation rows") == "validation":
            held_out_rows(model, 4)  # refuses the share
        X, y, _ = model._check_data(X, y, None, numeric=not model._labels)
        coded = model._encode(y)
        rounds, rows, how = divide_rows(model, X, y, X_val, y_val, coded)
        known: tuple[tuple[str, str], ...] = ()
        with warnings.catch_warnings():
            if model.__sklearn_tags__().input_tags.pairwise:  # a whole matrix is checked, before it is split
                gram = Gram.of(model._resolved_kernel(X), X)
                gram.check_definite()
                known = tuple(fact for fact in gram.record() if fact[0] == "alteration")
                warnings.simplefilter("ignore", IndefiniteKernelWarning)  # once is enough
            X_final = take_points(model, X, rows, rows)
            kernel = model._resolved_kernel(X_final)
            choice: Choice = model._choose(kernel, rounds)
            warnings.simplefilter("ignore", ConvergenceWarning)  # the certificate of this fit says the same, and more
            final: Final = model._fit_chosen(kernel, X_final, y[rows], choice.value)
        # an error of rounding size needs no bound, nor does one within the rounding of the targets
        Y, name = coded.codes(y), str(model._chooses)
        unknown, spread = relative_rounding(Y.shape[0]) * float(np.abs(Y).max()), float(np.mean(np.var(Y, axis=0)))
        least = choice.error if choice.least is None else choice.least
        added = [
            Row(
                name=f"gap of {name}",
                value=least - choice.lower_bound,
                scale=least + 1e-9 * spread + unknown * unknown / float(model.gap),
                tolerance=float(model.gap),
                formula=f"{'criterion' if choice.least is None else 'least criterion'} - lower bound over {name}",
            )
        ]
        answer = final.machine.certificate_
        facts = [*answer.record, *final.facts, *known, ("validated on", how), *choice.facts]
        if choice.beyond is not None:
            end = end_row(name, choice.error, choice.beyond, NEGLIGIBLE * spread, f"{name}_min")
            added.append(end)
            if not end.passes:
                said = f"the error may fall below {name} = {choice.path['coverage'][0]:.3g}"
                facts.append((WIDER, f"{said}: a smaller {name}_min searches there"))
        model.criterion_, model.criterion_lower_bound_ = choice.error, choice.lower_bound
        model.path_, model.training_rows_ = choice.path, rows
        for attribute, value in {**choice.kept, **final.kept}.items():
            setattr(model, attribute, value)
        model.certificate_ = Certificate(model._title, (*answer.rows, *final.rows, *added), tuple(facts))
        warn_unless_holds(model.certificate_)
        model.machine_ = final.machine
        return self

    @property
    def support_(self) -> Any:
        """The rows of the expansion."""
        return self.training_rows_[self.machine_.support_]

    @property
    def _model(self) -> Any:
        """Return the model of the machine, once there is one."""
        return self.machine_._model if hasattr(self, "machine_") else super()._model

    @abstractmethod
    def _stated(self) -> dict[str, Any]:
        """Return the parameters of the machine, from the fitted estimator."""

    def _coefficients(self) -> Array:
        return self.machine_._coefficients()

    def _new_points(self, X: Any) -> Any:
        """Return rows as the machine takes them: of a precomputed matrix the columns of the rows that trained it."""
        X = super()._new_points(X)
        return take_columns(X, self.training_rows_) if self.kernel_.pairwise else X

    def _rows_that_trained(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the rows that trained the machine, with targets, of the data of the fit given again."""
        X, y, _ = self._check_again(X, y, None, numeric=not self._labels)
        rows = self.training_rows_
        if rows.max() >= X.shape[0]:
            raise DataError(f"the model was fitted to more rows than these {X.shape[0]}; pass the X and y of the fit")
        return (X[rows][:, rows] if self.kernel_.pairwise else X[rows]), y[rows]

    def _recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return the machine on the rows that trained it, with the parameters that the estimator states."""
        machine = copy(self.machine_).set_params(**self._stated())
        return machine._recall_fit(*self._rows_that_trained(X, y), None)

    def _check_loaded(self) -> None:
        """Refuse a machine of another kind, or rows that it was not fitted to."""
        if self.__sklearn_is_fitted__():
            machine, rows = self.machine_, self.training_rows_
            if not isinstance(machine, (self._plain_type, self._refitted_type)):
                raise DataError(f"the machine of a {type(self).__name__} cannot be a {type(machine).__name__}")
            machine._check_loaded()
            if rows.ndim != 1 or rows.dtype.kind not in "iu" or not rows.size or rows.min() < 0:
                raise DataError("training_rows_ must be numbers of rows")
            if rows.size <= machine.support_.max(initial=-1):
                raise DataError("training_rows_ and the support of the machine do not belong together")
        super()._check_loaded()

    def _keeps_rows(self) -> bool:
        """Return False: the machine keeps them."""
        return False

    def _score_left_out(self, rows: tuple[Any, Any, Any]) -> CalibrationScores:
        """Return the scores of the machine that was fitted at the chosen value, by the rows that trained it."""
        return self.machine_._find_scores(None if rows[0] is None else self._rows_that_trained(*rows[:2]))


def along_path(name: str, read: ReadOff, folds: Sequence[Fold], beyond: float | None = None) -> Choice:
    """Return the choice that was read off exact paths."""
    low, high = read.coverage
    path = {
        "parameter": name,
        "values": read.values,
        "criterion": read.errors,
        "coverage": read.coverage,
        "stop": "; ".join(dict.fromkeys(fold.path.stop for fold in folds)),
    }
    covered = f"{name} from {low:g} " + ("on" if np.isinf(high) else f"to {high:g}")
    if read.at_lower_end:
        covered += "; best at the lower end" + (f", {name}_min widens it" if name == "zeta" else "")
    if read.ended:
        covered += "; it ends where rounding hides what is below"
    knots = f"{read.values.size} knots, {read.minima} local minima inside segments"
    facts = (("fused over", covered), ("exact path", knots))
    return Choice(read.value, read.error, read.lower_bound, path, facts, beyond=beyond)


@dataclass(frozen=True, slots=True)
class WeighedFold:
    """The machine of a fold: ``declare`` takes the weights as parameters of cvxpy and returns the objective, the
    constraints and the fitted values of the validation rows; ``targets`` are what these should be, and ``largest`` is
    how large a weight of the linear term can matter.
    """

    declare: Callable[[Sequence[Any]], tuple[Any, list[Any], Any]]
    targets: Array
    largest: float


def jointly(model: Any, folds: Sequence[WeighedFold], ranges: Mapping[Any, tuple[float, float]]) -> Choice:
    """Return the weights that validate best, by their names, each in a range, with the bound over all of them."""
    import cvxpy as cp

    from substrate import fuse

    names, ends, kept = tuple(ranges), tuple(ranges.values()), {"proved_on_": dict(ranges)}
    if not any(fold.largest for fold in folds):
        stop, corner = "there is nothing to fit, all weights give the bias", [low for low, _ in ends]
        error = float(np.mean(np.concatenate([fold.targets for fold in folds]) ** 2))
        path = {"parameters": names, "values": np.array([corner]), "criterion": np.array([error]), "coverage": ends}
        facts = (("fused over", "all weights"), ("search", stop))
        return Choice(dict(zip(names, corner, strict=True)), error, error, path | {"stop": stop}, facts, kept)
    weights = [cp.Parameter(nonneg=True, name=str(name)) for name in names]
    costs, constraints, fitted = zip(*(fold.declare(weights) for fold in folds), strict=True)
    rows = sum(fold.targets.size for fold in folds)
    loss = sum(cp.sum_squares(values - fold.targets) for values, fold in zip(fitted, folds, strict=True)) / rows
    problem = cp.Problem(cp.Minimize(sum(costs)), [rule for rules in constraints for rule in rules])
    how: dict[str, Any] = {"gap": float(model.gap), "budget": model.max_evaluations, "progress": False}
    best = fuse(problem, tuple(weights), loss, box=dict(zip(weights, ends, strict=True)), **how)
    if best.stop.startswith("interrupted"):  # a search keeps the best so far; a fit is finished or it is not
        raise KeyboardInterrupt
    path = {
        "parameters": names,
        "values": best.path.values.reshape(len(best.path), -1),
        "criterion": best.path.validation_errors,
        "coverage": ends,
        "stop": best.stop,
    }
    said = ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in ranges.items())
    search = f"{best.solves} solves, {len(best.path.simplices)} simplices; {best.stop}"
    values, facts = dict(zip(names, best.values.values(), strict=True)), (("fused over", said), ("search", search))
    return Choice(values, best.validation_error, best.lower_bound, path, facts, kept)
