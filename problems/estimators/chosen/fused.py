r"""Fused estimators: training, and the choice of one hyper-parameter by validation, in one fit with a proof.

A choice ends in a machine with the value that was chosen, which is a separate estimator on the rows that train it:
predictions, certificates and probabilities come from that machine. Every estimator with an exact path decides what is
chosen along it (:mod:`problems.estimators.chosen.fused_l1`, :mod:`problems.estimators.chosen.fused_variation`). Several
weights of one machine are chosen together, the problems of the folds as one of cvxpy, which is affine in the weights
and over which :func:`substrate.fuse` searches with a bound; the bias is eliminated there, as the mean of y less the
mean of the fitted values. [Pelckmans2005]_ eq. (28) with several weights.

**Refitted machines.** [Pelckmans2005]_ uses the 1-norm "to detect structure, while the final predictions should be made
based on a classical model with the selected components" (end of section 3.1). With :math:`S(\rho)` the components that
maximal variation selects (:mod:`substrate.select.selected_sets`) and :math:`F(S, \gamma)` the error of the
componentwise LS-SVM on them, on validation rows, on folds, or left out in turn,

.. math:: \min_{\rho} \min_{\gamma} F(S(\rho), \gamma) = \min_{S \in \{S(\rho)\}} \min_{\gamma} F(S, \gamma) .

There are finitely many S, each with a lower bound over gamma (:mod:`substrate.select.gamma_search`): the smallest of
these bounds holds for every rho. Of folds each has its own path and its own sets, :math:`S_1(\rho), S_2(\rho), \dots`,
and one gamma for all of them. Leaving out rows of the refitted machine is conditional on the set, which all rows have
selected.

The least of many errors on the same rows prefers sets with inputs that lower it by chance. With c standard errors, the
rule of [Breiman1984]_ for c = 1, the smallest set is taken among those with

.. math:: F(S) \le F_{\min} + c \, \frac{\operatorname{sd}(e_1^2, \dots, e_n^2)}{\sqrt n} ,

e the errors of the best machine on the rows that judge. The bound is compared with :math:`F_{\min}`.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from problems.estimators.chosen.judgement import validation_criterion
from problems.estimators.chosen.rules import judged_by, refuse_device, splits_of, trainable_splits
from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.shared.base import Facts
from problems.estimators.shared.checks import definite_gram
from problems.estimators.shared.classifier import CalibrationScores, take_block
from problems.estimators.shared.held_machine import HoldsMachine
from substrate.arrays import Array, non_negative, positive, whole_number
from substrate.certificate import WIDER, Certificate, Row, warn_unless_holds
from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning
from substrate.kernels import Kernel
from substrate.left_out.criteria import CriterionSum, LeaveOneOut
from substrate.left_out.leave_one_out import Split
from substrate.numbers import relative_rounding
from substrate.operators.gram import Gram
from substrate.operators.spectrum import centred_spectrum
from substrate.select.gamma_search import NEGLIGIBLE, GammaSearch, end_row, search_gamma
from substrate.select.path_bounds import Fold, ReadOff
from substrate.select.selected_sets import merge_sets

__all__ = [
    "Choice",
    "Final",
    "FusedChoice",
    "FusionRound",
    "Members",
    "RefittedRows",
    "Structure",
    "WeighedFold",
    "along_path",
    "check_refit",
    "jointly",
]


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
    facts: Facts
    kept: Mapping[str, Any] = field(default_factory=dict)
    beyond: float | None = None
    least: float | None = None


#: Numbers of components, or of support vectors.
Members = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """A chosen structure: the weight, gamma of the refitted machine, its members, and the search of gamma.

    ``members`` are the numbers of its components, or of its support vectors; None where every fold had its own: the
    members of the final machine are then selected at the weight.
    """

    value: float
    gamma: float
    members: Members | None
    search: GammaSearch


class RefittedRows(NamedTuple):
    """A refitted machine: the kernel on its points, their targets, and the rows that judge it with theirs."""

    kernel: Kernel
    points: Any
    y: Array
    below: Any
    y_check: Array

    def criterion(self, by_loo: bool) -> tuple[Any, int]:
        """Return its error as a function of gamma, and the number of rows that judge it."""
        gram, Y, kernel = Gram.of(self.kernel, self.points), self.y[:, None], self.kernel
        if by_loo:
            return LeaveOneOut.of(centred_spectrum(gram, kernel.rounding(self.points)), Y), self.y.size
        rows, diagonal = kernel(self.below, self.points), np.asarray(kernel.diag(self.below))
        p = kernel.rounding(np.vstack([self.points, self.below]))
        return validation_criterion(gram, Y, rows, self.y_check[:, None], False, p, diagonal), self.y_check.size

    def errors(self, gamma: float, by_loo: bool) -> Array:
        """Return its errors on the rows that judge it, or on its own, each left out in turn."""
        machine: Any = LSSVMRegressor(self.kernel, gamma).fit(self.points, self.y)
        if by_loo:
            return np.asarray(machine.leave_one_out().residuals)
        return np.asarray(self.y_check - machine.predict(self.below))


#: The fitted machine at the value that was chosen, attributes, and rows and facts that it adds to the certificate.
Final = tuple[Any, Mapping[str, Any], tuple[Row, ...], Facts]


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
        X_val, y_val = model._validation(X_val, y_val)
        if model._labels and (strange := np.setdiff1d(y_val, coded.names)).size:
            raise DataError(f"y_val has classes {strange[:5]} that y lacks")
        return (FusionRound(X, Y, X_val, coded.codes(y_val)),), every, f"{y_val.shape[0]} rows given"
    rows = every
    if model.cv is None:
        labels = y if model._labels else None
        splits = trainable_splits([held_out_rows(model, every.size, labels)], every.size, labels)
        rows, how = splits[0][0], f"{splits[0][1].size} of {every.size} rows held out"
    else:
        splits = splits_of(model, X, y)
        how = "every row left out in turn" if isinstance(model.cv, str) else f"{len(splits)} folds"
    pairwise = model.__sklearn_tags__().input_tags.pairwise
    rounds = tuple(
        FusionRound(take_block(X, train, train, pairwise), Y[train], take_block(X, test, train, pairwise), Y[test])
        for train, test in splits
    )
    return rounds, rows, how


@dataclass(eq=False, repr=False)
class FusedChoice(HoldsMachine):
    """A base of estimators that choose weights of a machine by validation: their shared parameters, and the fit.

    :class:`~problems.FusedL1SubstrateRegressor` documents them.
    """

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
        self._begin_fit()
        self._check_rules()
        whole_number(self.max_evaluations, "max_evaluations", 1)
        positive(self.gap, "gap")
        if judged_by(self.cv, ("loo",), ", or None for validation rows") == "validation":
            held_out_rows(self, 4)  # refuses the share
        X, y, _ = self._check_data(X, y, None)
        coded = self._encode(y)
        alterations: Facts = ()
        with warnings.catch_warnings():
            pairwise = self.__sklearn_tags__().input_tags.pairwise
            if pairwise:  # a whole matrix is checked, before it is split
                record = definite_gram(self._resolved_kernel(X), X).record()
                alterations = tuple(fact for fact in record if fact[0] == "alteration")
                warnings.simplefilter("ignore", IndefiniteKernelWarning)  # once is enough
            rounds, rows, how = divide_rows(self, X, y, X_val, y_val, coded)
            X_final = take_block(X, rows, rows, pairwise)
            kernel = self._resolved_kernel(X_final)
            choice = choose_structure(self, kernel, rounds) if self.refit else self._choose(kernel, rounds)
            warnings.simplefilter("ignore", ConvergenceWarning)  # the certificate of this fit says the same, and more
            machine, fitted, rows_of_machine, told = self._fit_chosen(kernel, X_final, y[rows], choice.value)
        # an error of rounding size needs no bound, nor does one within the rounding of the targets
        Y, name = coded.codes(y), str(self._chooses)
        unknown, spread = relative_rounding(Y.shape[0]) * float(np.abs(Y).max()), float(np.mean(np.var(Y, axis=0)))
        least = choice.error if choice.least is None else choice.least
        added = [
            Row(
                name=f"gap of {name}",
                value=least - choice.lower_bound,
                scale=least + 1e-9 * spread + unknown * unknown / float(self.gap),
                tolerance=float(self.gap),
                formula=f"{'criterion' if choice.least is None else 'least criterion'} - lower bound over {name}",
            )
        ]
        answer = machine.certificate_
        facts = [*answer.record, *told, *alterations, ("validated on", how), *choice.facts]
        if choice.beyond is not None:
            end = end_row(name, choice.error, choice.beyond, NEGLIGIBLE * spread, f"{name}_min")
            added.append(end)
            if not end.passes:
                said = f"the error may fall below {name} = {choice.path['coverage'][0]:.3g}"
                facts.append((WIDER, f"{said}: a smaller {name}_min searches there"))
        self.criterion_, self.criterion_lower_bound_ = choice.error, choice.lower_bound
        self.path_, self.training_rows_ = choice.path, rows
        for attribute, value in {**choice.kept, **fitted}.items():
            setattr(self, attribute, value)
        self.certificate_ = Certificate(self._title, (*answer.rows, *rows_of_machine, *added), tuple(facts))
        warn_unless_holds(self.certificate_)
        self.machine_ = machine
        return self

    def _keeps_rows(self) -> bool:
        """Return False: the machine keeps them."""
        return False

    def _score_left_out(self, rows: tuple[Any, Any, Any]) -> CalibrationScores:
        """Return the scores of the machine that was fitted at the chosen value, by the rows that trained it."""
        return self.machine_._find_scores(None if rows[0] is None else self._rows_that_trained(*rows[:2])[:2])


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


def check_refit(model: Any, several: str) -> None:
    """Refuse an unknown way of refitting, or one that other parameters exclude, such as ``several`` weights."""
    errors = non_negative(model.standard_errors, "standard_errors", "since it counts standard errors")
    if model.refit is False and errors > 0.0:
        raise DeclarationError(
            f"standard_errors={model.standard_errors!r} compares refitted machines; set refit=True as well, or "
            "standard_errors=0"
        )
    if model.refit is False:
        return
    if model.refit is not True and not (isinstance(model.refit, str) and model.refit == "loo"):
        raise DeclarationError(f"refit must be False, True or 'loo', received {model.refit!r}")
    if getattr(model, several) is not None:
        raise DeclarationError(
            f"refit={model.refit!r} goes through the sets along the path of one weight, and {several} asks for "
            f"several; set {several}=None, or refit=False"
        )
    if model.refit == "loo" and model.cv is not None:
        raise DeclarationError(
            f"refit='loo' leaves out rows of the refitted machine and uses no folds, received cv={model.cv!r}; "
            "set cv=None, or refit=True to judge by folds"
        )


def choose_structure(model: Any, kernel: Any, rounds: Sequence[FusionRound]) -> Choice:
    """Return the weight whose selected set is refitted best, and the bound over all of them.

    The model selects sets along the paths of a round, ``_select``, and yields what is refitted to some, ``_refit``.

    :place [Pelckmans2005]_ end of section 3.1: the final predictions by a classical model with the selected components
    """
    selected, paths = zip(*(model._select(kernel, division) for division in rounds), strict=True)
    sets, stop = merge_sets(list(selected)), "; ".join(dict.fromkeys(path.stop for each in paths for path in each))
    by_loo, name, one_round = model.refit == "loo", str(model._chooses), sets.masks.shape[1] == 1

    def machines(number: int, members: Members) -> list[RefittedRows]:
        division = rounds[number]
        return list(model._refit(kernel, division, members)) if len(division.Y_check) or by_loo else []

    @lru_cache(maxsize=2 * len(rounds))  # of neighbouring cells most rounds have the same
    def criteria_of(number: int, members: Members) -> list[Any]:
        return [machine.criterion(by_loo) for machine in machines(number, members)]

    @cache
    def search(each: tuple[Members, ...]) -> GammaSearch:
        parts, counts = zip(*(part for place in enumerate(each) for part in criteria_of(*place)), strict=True)
        return search_gamma(CriterionSum.of(parts, [n / sum(counts) for n in counts]), None, float(model.gap))

    of_cell = [sets.sets_of(cell) for cell in range(len(sets))]
    searches = [search(each) for each in of_cell]
    criteria, bounds, gammas = (
        np.array([float(getattr(each, what)[0]) for each in searches]) for what in ("criterion", "lower_bound", "gamma")
    )
    sizes, narrow = np.array([sum(map(len, each)) for each in of_cell]), -np.diff(sets.edges)
    best = least = int(np.lexsort((narrow, sizes, criteria))[0])
    low, high = coverage = float(sets.edges[0]), float(sets.edges[-1])
    count = len(set(of_cell))
    facts = [
        ("fused over", f"{name} from {low:g} " + ("on" if np.isinf(high) else f"to {high:g}")),
        ("selected sets", f"{count} refitted, each with its own gamma and bound, in {len(sets)} cells of {name}"),
        ("paths", "the sets of the paths, as double precision follows them"),
    ]
    if by_loo:
        selected_on = "what was selected: each row took part in the selection before it was left out"
        facts.append(("conditional on", selected_on))
    if model.standard_errors > 0.0:
        judges = [machine for place in enumerate(of_cell[least]) for machine in machines(*place)]
        deviation = _standard_error(np.concatenate([judge.errors(gammas[least], by_loo) for judge in judges]))
        limit = criteria[least] + float(model.standard_errors) * deviation
        best = int(np.lexsort((narrow, criteria, sizes, criteria > limit))[0])
        said = f"within {model.standard_errors:g} standard errors, {deviation:.3g} each, of the least criterion, "
        facts.append(("smallest set", f"{said}{criteria[least]:.6g}"))
    support = sets.masks[:, 0] if one_round else sets.masks
    selection = {"start": sets.edges[:-1], "stop": sets.edges[1:], "support": support}
    selection |= {"criterion": criteria, "lower_bound": bounds, "gamma": gammas}
    gamma, members = float(gammas[best]), of_cell[best][0] if one_round else None
    path = {"parameter": name, "values": sets.edges[:-1], "criterion": criteria, "coverage": coverage, "stop": stop}
    return Choice(
        value=Structure(sets.value_inside(best), gamma, members, searches[best]),
        error=float(criteria[best]),
        lower_bound=float(min(criteria[best], bounds.min())),
        path=path,
        facts=tuple(facts),
        kept={"selection_path_": selection, "gamma_": gamma},
        least=None if of_cell[best] == of_cell[least] else float(criteria[least]),
    )


def _standard_error(errors: Array) -> float:
    """Return the standard error of the mean of squares."""
    unit = float(np.abs(errors).max()) or 1.0
    squares = np.square(errors / unit)
    return unit**2 * float(np.std(squares, ddof=1)) / math.sqrt(errors.size) if errors.size > 1 else 0.0
