r"""Structure first, then a classical model: the choice of rho by the error of the machine refitted to what it selects.

[Pelckmans2005]_ uses the 1-norm "to detect structure, while the final predictions should be made based on a classical
model with the selected components" (end of section 3.1). With :math:`S(\rho)` the components that maximal variation
selects (:mod:`substrate.fits.selected_sets`) and :math:`F(S, \gamma)` the error of the componentwise
LS-SVM on them, on validation rows, on folds, or left out in turn,

.. math:: \min_{\rho} \min_{\gamma} F(S(\rho), \gamma) = \min_{S \in \{S(\rho)\}} \min_{\gamma} F(S, \gamma) .

There are finitely many S, each with a lower bound over gamma (:mod:`substrate.search.gamma_search`): the smallest of
these bounds holds for every rho. Of folds each has its own path and its own sets, :math:`S_1(\rho), S_2(\rho), \dots`,
and one gamma for all of them; a combination whose folds cannot even with a gamma each be better than the best one known
is not searched. Leaving out rows of the refitted machine is conditional on the set, which all rows have selected.

The least of many errors on the same rows prefers sets with inputs that lower it by chance. With c standard errors, the
rule of [Breiman1984]_ for c = 1, the smallest set is taken among those with

.. math:: F(S) \le F_{\min} + c \, \frac{\operatorname{sd}(e_1^2, \dots, e_n^2)}{\sqrt n} ,

e the errors of the best machine on the rows that judge. The bound is compared with :math:`F_{\min}`.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.estimators.chosen.fused import Choice, FusionRound
from problems.estimators.chosen.tasks import validation_at
from problems.estimators.full.ls_svm import LSSVMRegressor
from substrate.arrays import Array, non_negative
from substrate.certificates import WIDER, Row
from substrate.errors import DeclarationError
from substrate.fits.selected_sets import SelectedSets
from substrate.gram import Gram
from substrate.kernels import Componentwise, Kernel, Linear
from substrate.least_squares.criteria import Criterion, LeaveOneOut
from substrate.least_squares.spectrum import Spectrum, centred_spectrum
from substrate.least_squares.validation import CriterionSum
from substrate.reduced.features import basis_features
from substrate.search.gamma_result import GammaSearch
from substrate.search.gamma_search import search_spectra

__all__ = [
    "ComponentJudge",
    "Structure",
    "SupportJudge",
    "check_refit",
    "choose_structure",
    "rows_of",
]

#: What a refit by leave-one-out rests on, for a certificate.
CONDITIONAL = ("conditional on", "what was selected: each row took part in the selection before it was left out")

#: What the bound over all weights rests on, for a certificate.
FOLLOWED = ("paths", "the sets are those of the paths as double precision follows them")

Members = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """What is chosen: the weight, gamma of the refitted machine, what it is refitted to, and the search of gamma.

    ``members`` are the numbers of its components, or of its support vectors; None where every fold had its own: those
    of the final machine are then selected at the weight.
    """

    value: float
    gamma: float
    members: Members | None
    search: GammaSearch

    def selection(self, components: Any) -> tuple[Row, ...]:
        """Check that a machine at the weight selects the components that were judged."""
        if self.members is None:
            return ()
        differ = np.setxor1d(np.flatnonzero(components), self.members).size
        formula = "components that only the machine at rho, or only its path, selects"
        return (Row(name="selected components", value=float(differ), scale=1.0, tolerance=0.0, formula=formula),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the range and the effort of the search of gamma."""
        return tuple(fact for fact in self.search.facts() if fact[0] != WIDER)  # there is no range to be given


def check_refit(model: Any, others: tuple[tuple[str, Any], ...]) -> None:
    """Refuse a way of refitting that there is not, or that the other parameters exclude."""
    if (
        non_negative(model.standard_errors, "standard_errors", "since it counts standard errors") > 0.0
        and model.refit is False
    ):
        raise DeclarationError(
            f"standard_errors={model.standard_errors!r} compares refitted machines; set refit=True as well, or "
            "standard_errors=0"
        )
    if model.refit is False:
        return
    if model.refit is not True and not (isinstance(model.refit, str) and model.refit == "loo"):
        raise DeclarationError(f"refit must be False, True or 'loo', received {model.refit!r}")
    for name, value in others:
        if value is not None:
            raise DeclarationError(
                f"refit={model.refit!r} goes through the sets along the path of one weight, and {name} asks for "
                f"several; set {name}=None, or refit=False"
            )
    if model.refit == "loo" and model.cv is not None:
        raise DeclarationError(
            f"refit='loo' leaves out rows of the refitted machine and uses no folds, received cv={model.cv!r}; "
            "set cv=None, or refit=True to judge by folds"
        )


@dataclass(frozen=True, slots=True)
class SetJudge:
    """The error of the refitted machine on given sets, one for each round, as a function of gamma."""

    kernel: Kernel
    rounds: tuple[FusionRound, ...]
    by_loo: bool
    gap: float

    @classmethod
    def of(cls, model: Any, kernel: Kernel, rounds: tuple[FusionRound, ...]) -> Self:
        """Return the judge of an estimator with one kernel."""
        return cls(kernel, rounds, model.refit == "loo", float(model.gap))

    def criteria(self, number: int, members: Members) -> Iterator[tuple[Criterion, int]]:
        """Yield the criterion of one round on the machines of some members, each with the number of its rows."""
        for machine in self.machines(number, members):
            X, Y, gram = machine.points, machine.y[:, None], Gram.of(machine.kernel, machine.points)
            if self.by_loo:
                spectrum = centred_spectrum(gram, machine.kernel.rounding(X))
                yield LeaveOneOut.of(spectrum, Y), machine.y.size
            else:
                yield validation_at(gram, X, Y, machine.below, machine.y_check[:, None]), machine.y_check.size

    @abstractmethod
    def every_member(self, number: int) -> Members:
        """Return all that a round can select."""

    @abstractmethod
    def machines(self, number: int, members: Members) -> Iterator["RefittedRows"]:
        """Return the machines of one round on some members, with the rows that judge them."""

    def standard_error(self, sets: Sequence[Members], gamma: float) -> float:
        """Return the standard error of the criterion of machines on their sets, one for each round, at one gamma."""
        machines = [one for number, members in enumerate(sets) for one in self.machines(number, members)]
        errors = np.concatenate([machine.errors(gamma, self.by_loo) for machine in machines])
        unit = float(np.abs(errors).max()) or 1.0
        squares = np.square(errors / unit)
        return unit**2 * float(np.std(squares, ddof=1)) / math.sqrt(errors.size) if errors.size > 1 else 0.0

    def search(self, sets: Sequence[Members], numbers: Iterable[int], gammas: Any = None) -> GammaSearch:
        """Return the best gamma of the rounds with these numbers, on their sets, with a lower bound."""
        criteria, counts = zip(
            *(one for number, members in zip(numbers, sets, strict=True) for one in self.criteria(number, members)),
            strict=True,
        )
        criterion = CriterionSum.of(criteria, [count / sum(counts) for count in counts])
        spectra = [one.spectrum for one in criteria if isinstance(one.spectrum, Spectrum)]
        return search_spectra(criterion, spectra, gammas, self.gap)


@dataclass(frozen=True, slots=True)
class RefittedRows:
    """A refitted machine: the kernel on its points, their targets, and the rows that judge it with theirs."""

    kernel: Kernel
    points: Any
    y: Array
    below: Any
    y_check: Array

    def errors(self, gamma: float, by_loo: bool) -> Array:
        """Return its errors on the rows that judge it, or on its own, each left out in turn."""
        machine: Any = LSSVMRegressor(self.kernel, gamma).fit(self.points, self.y)
        if by_loo:
            return np.asarray(machine.leave_one_out().residuals)
        return np.asarray(self.y_check - machine.predict(self.below))


class ComponentJudge(SetJudge):
    """The componentwise LS-SVM on some components."""

    def machines(self, number: int, members: Members) -> Iterator[RefittedRows]:
        """Return the machines of one round on some components, with the rows that judge them."""
        round_ = self.rounds[number]
        parts = self.kernel.components(round_.X.shape[1])  # type: ignore[attr-defined]
        # a kernel of zeros leaves the bias
        kernel = Componentwise(tuple(parts[place] for place in members)) if members else 0.0 * parts[0]
        if len(round_.Y_check) or self.by_loo:
            for y, y_check in round_.targets():
                yield RefittedRows(kernel, round_.X, y, round_.X_check, y_check)

    def every_member(self, number: int) -> Members:
        """Return all components."""
        return tuple(range(len(self.kernel.components(self.rounds[number].X.shape[1]))))  # type: ignore[attr-defined]


class SupportJudge(SetJudge):
    r"""The sparse LS-SVM on some support vectors, for all machines of a round.

    The support of the L1 substrate ([Pelckmans2005]_ eq. (16)) changes at knots of its path and nowhere else. Refitted,
    its machine is

    .. math:: f(x) = \sum_{j \in S} \beta_j k(x_j, x) + b, \qquad
              \min_{\beta, b} \tfrac12 \beta^T K_{SS} \beta + \tfrac{\gamma}{2} \sum_{i=1}^N (y_i - f(x_i))^2 ,

    which counts **all** rows ([Cawley2004]_ (2)): the support is where the machine is expanded, not what it is fitted
    to. On a smooth kernel rounding decides between neighbours which rows support: the sets are those of the paths as
    double precision follows them, and the bound is over those.
    """

    def machines(self, number: int, members: Members) -> Iterator[RefittedRows]:
        """Return the machines of one round on some support vectors, as linear ones of features; those that are
        judged.
        """
        round_ = self.rounds[number]
        if len(round_.Y_check) or self.by_loo:
            Z, Z_check = self._features(round_, rows_of(members, round_.X.shape[0]))
            for y, y_check in round_.targets():
                yield RefittedRows(Linear(), Z, y, Z_check, y_check)

    def every_member(self, number: int) -> Members:
        """Return all rows of a round."""
        return tuple(range(self.rounds[number].X.shape[0]))

    def _features(self, round_: FusionRound, support: Any) -> tuple[Array, Array]:
        """Return the features of training and of validation rows, centred; a column of zeros without support."""
        X, below = round_.X, round_.X_check
        n, m = X.shape[0], below.shape[0]
        if not support.size:
            return np.zeros((n, 1)), np.zeros((m, 1))
        if self.kernel.pairwise:
            values, values_check = np.asarray(X[:, support]), np.asarray(below[:, support])
        else:
            values = self.kernel(X, X[support])
            values_check = self.kernel(below, X[support]) if m else np.zeros((0, support.size))
        transform = basis_features(np.ascontiguousarray(values[support])).transform
        Z, Z_check = values @ transform, values_check @ transform
        center = Z.mean(axis=0)  # the bias absorbs it
        return np.ascontiguousarray(Z - center), np.ascontiguousarray(Z_check - center)


def rows_of(members: Members, n: int) -> Any:
    """Return the rows that support some machine; members are counted over the n rows of one machine after the other."""
    return np.unique(np.asarray(members, dtype=np.intp) % n)


@dataclass(frozen=True, slots=True)
class _JudgedSets:
    """The judgement of one combination of sets: criterion, lower bound, gamma; the search, where there was one."""

    criterion: float
    lower_bound: float
    gamma: float
    search: GammaSearch | None = None

    @classmethod
    def of(cls, search: GammaSearch) -> "_JudgedSets":
        """Return the judgement by a search of gamma."""
        return cls(float(search.criterion[0]), float(search.lower_bound[0]), float(search.gamma[0]), search)


def choose_structure(model: Any, judge: SetJudge, sets: SelectedSets, stop: str) -> Choice:
    """Return the weight whose selected set is refitted best, and the bound over all of them.

    :place [Pelckmans2005]_ end of section 3.1: the final predictions by a classical model with the selected components
    """
    kernel, rounds, name = judge.kernel, judge.rounds, str(model._chooses)
    of_cell = [sets.sets_of(number) for number in range(len(sets))]
    distinct = list(dict.fromkeys(of_cell))
    judged = _judge_alone(judge, distinct) if len(rounds) == 1 else _judge_together(judge, distinct)
    width = np.diff(sets.edges)
    least = min(
        range(len(sets)),
        key=lambda number: (judged[of_cell[number]].criterion, sum(map(len, of_cell[number])), -width[number]),
    )
    best, rule = least, tuple[tuple[str, str], ...]()
    if model.standard_errors > 0.0:
        smallest = judged[of_cell[least]]
        deviation = judge.standard_error(of_cell[least], smallest.gamma)
        limit = smallest.criterion + float(model.standard_errors) * deviation
        _judge_those_within(judge, judged, of_cell, limit, smallest.search)
        best = min(
            (number for number in range(len(sets)) if judged[of_cell[number]].criterion <= limit),
            key=lambda number: (sum(map(len, of_cell[number])), judged[of_cell[number]].criterion, -width[number]),
        )
        said = f"within {model.standard_errors:g} standard errors, {deviation:.3g} each, of the least criterion, "
        rule = (("smallest set", f"{said}{smallest.criterion:.6g}"),)
    chosen = judged[of_cell[best]]
    search = chosen.search
    if search is None:
        raise TypeError("internal error: the best sets were not searched")
    lower = min(chosen.criterion, *(judged[one].lower_bound for one in distinct))
    structure = Structure(
        value=sets.value_inside(best),
        gamma=chosen.gamma,
        members=of_cell[best][0] if len(rounds) == 1 else None,
        search=search,
    )
    criteria = np.array([judged[one].criterion for one in of_cell])
    path = {
        "parameter": name,
        "values": sets.edges[:-1],
        "criterion": criteria,
        "coverage": (float(sets.edges[0]), float(sets.edges[-1])),
        "stop": stop,
    }
    selection = {
        "start": sets.edges[:-1],
        "stop": sets.edges[1:],
        "support": sets.masks[:, 0] if len(rounds) == 1 else sets.masks,
        "criterion": criteria,
        "lower_bound": np.array([judged[one].lower_bound for one in of_cell]),
        "gamma": np.array([judged[one].gamma for one in of_cell]),
    }
    return Choice(
        kernel=kernel,
        value=structure,
        error=chosen.criterion,
        lower_bound=lower,
        path=path,
        facts=(*_facts(model, sets, len(distinct)), *rule),
        kept={"selection_path_": selection, "gamma_": chosen.gamma},
        least=None if of_cell[best] == of_cell[least] else judged[of_cell[least]].criterion,
    )


def _facts(model: Any, sets: SelectedSets, count: int) -> Iterator[tuple[str, str]]:
    low, high = float(sets.edges[0]), float(sets.edges[-1])
    name = str(model._chooses)
    yield "fused over", f"{name} from {low:g} " + ("on" if np.isinf(high) else f"to {high:g}")
    yield "selected sets", f"{count} refitted, each with its own gamma and bound, in {len(sets)} cells of {name}"
    yield FOLLOWED
    if model.refit == "loo":
        yield CONDITIONAL


def _judge_alone(judge: SetJudge, distinct: list[tuple[Members, ...]]) -> dict[tuple[Members, ...], _JudgedSets]:
    """Judge every set of one round at its own best gamma."""
    judged = {}
    for sets in distinct:
        judged[sets] = _JudgedSets.of(judge.search(sets, (0,)))
    return judged


def _judge_together(judge: SetJudge, distinct: list[tuple[Members, ...]]) -> dict[tuple[Members, ...], _JudgedSets]:
    """Judge combinations of one set for each round, at one gamma for all; those that cannot be best by their bound."""
    numbers = range(len(judge.rounds))
    whole = judge.search([judge.every_member(number) for number in numbers], numbers)
    gammas = whole.gamma_range
    counts = np.array([sum(count for _, count in judge.criteria(number, ())) for number in numbers])
    weights = counts / counts.sum()
    alone: dict[tuple[int, Members], float] = {}
    for sets in distinct:
        for number, members in enumerate(sets):
            if (number, members) not in alone:
                search = judge.search((members,), (number,), gammas)
                alone[number, members] = float(search.lower_bound[0])

    def least(sets: tuple[Members, ...]) -> float:
        return float(sum(weight * alone[place] for weight, place in zip(weights, enumerate(sets), strict=True)))

    judged, best = dict[tuple[Members, ...], _JudgedSets](), np.inf
    for sets in sorted(distinct, key=least):
        bound = least(sets)
        if bound >= best:
            judged[sets] = _JudgedSets(np.inf, bound, np.nan)
            continue
        search = judge.search(sets, numbers, gammas)
        judged[sets] = _JudgedSets.of(search)
        best = min(best, judged[sets].criterion)
    return judged


def _judge_those_within(
    judge: SetJudge,
    judged: dict[tuple[Members, ...], _JudgedSets],
    combinations: Iterable[tuple[Members, ...]],
    limit: float,
    search: GammaSearch | None,
) -> None:
    """Search the combinations that were left out, since they cannot be best, and that may be within a limit."""
    for sets in dict.fromkeys(combinations):
        if judged[sets].search is None and judged[sets].lower_bound <= limit and search is not None:
            judged[sets] = _JudgedSets.of(judge.search(sets, range(len(judge.rounds)), search.gamma_range))
