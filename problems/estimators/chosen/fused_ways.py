"""The hyper-parameters zeta and rho, fused by exact paths, and several weights by a search over simplices.

For gamma see ``problems.LSSVMRegressorCV``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from problems.estimators.chosen.fused import Choice, Final, FusedSearch, FusionRound
from problems.estimators.chosen.joint_search import Ends, checked_range, joint_choice, sparse_fold
from problems.estimators.chosen.joint_search import variation_fold as fold_of_groups
from problems.estimators.chosen.structure_refit import (
    ComponentJudge,
    Structure,
    SupportJudge,
    check_refit,
    choose_structure,
    rows_of,
)
from problems.estimators.penalised.group_weights import GroupWeights
from problems.estimators.penalised.l1 import LEAST_ZETA, L1Columns, L1Machine
from problems.estimators.penalised.variation_fit import Variation
from problems.estimators.shared.additive import AdditiveModel, kernel_matrices
from problems.estimators.shared.holding import HeldModel
from substrate.arrays import Array, non_negative, positive, whole_number
from substrate.errors import DeclarationError
from substrate.fits.l1 import zeta_max
from substrate.fits.path_bounds import Fold, ReadOff, l1_fold, l1_path_of, read_off, variation_fold
from substrate.fits.paths import Path, correlation_noise
from substrate.fits.selected_sets import (
    SelectedSets,
    merge_sets,
    select_along_path,
    supports_along_paths,
)
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.search.range_end import HIGHEST_PRICE, NEGLIGIBLE, end_row, is_affordable

__all__ = ["SOLVES", "FusedVariationModel", "OverRho", "OverZeta"]

#: Factor of a default end of the range of zeta where double precision cannot determine the machine there.
_RETREAT = 10.0
#: Factor of the default end of zeta where the error still falls there.
_FURTHER = 1e-4
#: Default end of zeta as a share of the largest, and number of solves, where several weights are chosen.
_SMALLEST, SOLVES = 1e-4, 2000
#: The range of a weight, unless given.
_EVERY = (0.0, float("inf"))


def _gram(kernel: Kernel, X: Any) -> Gram:
    gram = Gram.of(kernel, X)
    if not kernel.trusted:
        gram.check_definite()
    return gram


def _kernel_rows(kernel: Kernel, round_: FusionRound) -> Array:
    """Return kernel values of validation and training rows."""
    rows = np.empty((round_.Y_check.shape[0], round_.Y.shape[0]))
    kernel.fill(round_.X_check, None if kernel.pairwise else round_.X, rows)
    return rows


class _FoldOfPath(NamedTuple):
    """One machine of a round: its points, the noise of its correlations, kernel matrix and target; validation rows."""

    points: Any
    noise: float
    K: Array
    y: Array
    rows: Array
    known: Array


class OverZeta(FusedSearch):
    """The L1 substrate: (16) of [Pelckmans2005]_ along its exact path, or over zeta and a ridge together.

    No path reaches zeta = 0 in double precision on a smooth kernel; the bound is over the range on the certificate. The
    estimator has ``zeta_min``, ``ridge_range`` and ``max_evaluations`` beside the parameters of every fused one.
    """

    widened = "zeta_min"

    def check_rules(self) -> None:
        """Refuse parameters before any long work."""
        model = self.estimator
        if model.zeta_min is not None and model.zeta_min != 0.0:
            positive(model.zeta_min, "zeta_min")
        whole_number(model.max_evaluations, "max_evaluations", 1)
        if model.ridge_range is not None:
            checked_range(model.ridge_range, "ridge_range", positive=True)
        check_refit(model, (("ridge_range", model.ridge_range),))
        super().check_rules()

    def each_fold(self, kernel: Kernel, rounds: tuple[FusionRound, ...]) -> Iterator[_FoldOfPath]:
        """Yield every machine of every round that validates some rows."""
        for one in rounds:
            K, below = np.array(_gram(kernel, one.X).matrix), _kernel_rows(kernel, one)
            for y, y_check in one.targets() if len(below) else ():
                center = np.clip(y.mean(), y.min(), y.max())  # the bias absorbs it; otherwise it would hide small zetas
                yield _FoldOfPath(one.X, correlation_noise(K, y), K, y - center, below, y_check - center)

    def choose(self, kernel: Kernel, rounds: tuple[FusionRound, ...]) -> Choice:
        """Choose zeta, or zeta and the ridge, with one kernel."""
        model = self.estimator
        if model.refit:
            return self.choose_refitted(kernel, rounds)
        if model.ridge_range is not None:
            return self.choose_both(kernel, rounds)
        folds, machines, largest = self.paths(kernel, rounds, model.zeta_min)
        if all(fold.path.values[-1] == 0.0 for fold in folds):  # nothing to fit: the machine is its bias at every zeta
            read = read_off(folds)
            return _choose(kernel, "zeta", replace(read, value=largest), folds)
        if model.zeta_min is not None:
            return _choose(kernel, "zeta", read_off(folds), folds)
        gap, negligible = float(model.gap), NEGLIGIBLE * float(np.mean([np.var(y) for _, _, y, _ in machines]))
        first = read_off(folds, gap)
        if not end_row("zeta", first.error, first.beyond, negligible).passes:  # worth a longer path
            lowest = min(float(fold.path.values[0]) for fold in folds)
            folds, machines, _ = self.paths(kernel, rounds, _FURTHER * lowest)
            first = read_off(folds, gap)
        if not is_affordable(first.error, first.least_squares_seen, gap, negligible, HIGHEST_PRICE):
            first = read_off(folds)  # the proof costs too much
        read, beyond, tolerance = first, first.beyond, model._tolerance()
        while not all(_is_known(kernel, *machine, read.value, tolerance) for machine in machines):
            if _RETREAT * read.value >= first.values[-1]:  # no end of the range would help
                return _choose(kernel, "zeta", first, folds, beyond)
            read = read_off(folds, gap, _RETREAT * read.value)
            if not is_affordable(read.error, first.error, gap, negligible, HIGHEST_PRICE):
                return _choose(kernel, "zeta", first, folds, beyond)  # too high a cost for a certificate
        return _choose(kernel, "zeta", read, folds, beyond)

    def paths(
        self, kernel: Kernel, rounds: tuple[FusionRound, ...], zeta_min: float | None
    ) -> tuple[list[Fold], list[tuple[Any, Array, Array, Path]], float]:
        """Return the paths down to a zeta, what they are of, and the largest noise of a machine's correlations."""
        folds, machines, largest = list[Fold](), list[tuple[Any, Array, Array, Path]](), 0.0
        for one in self.each_fold(kernel, rounds):
            fold = l1_fold(one.K, one.y, one.rows, one.known, zeta_min)
            folds.append(fold)
            machines.append((one.points, one.K, one.y, fold.path))
            largest = max(largest, one.noise)
        return folds, machines, largest

    def choose_both(self, kernel: Kernel, rounds: tuple[FusionRound, ...]) -> Choice:
        """Choose zeta up to the largest at which some machine is more than its bias, whatever the ridge, and the
        ridge.
        """
        model = self.estimator
        known = list(self.each_fold(kernel, rounds))
        largest = max(zeta_max(one.K, one.y) for one in known) or 1.0
        least = _SMALLEST * largest if model.zeta_min is None else float(model.zeta_min)
        ends = (
            (min(least, 0.5 * largest), largest),
            checked_range(model.ridge_range, "ridge_range", positive=True),
        )
        folds = [sparse_fold(one.K, one.y, one.rows, one.known) for one in known]
        found = joint_choice(kernel, ("zeta", "ridge"), folds, ends, float(model.gap), model.max_evaluations)
        covered = {"proved_on_": found.kept["proved_on_"] | {"zeta": (ends[0][0], float("inf"))}}
        return replace(found, kept=covered)  # beyond, all machines are their biases

    def supports(self, kernel: Kernel, X: Any, Y: Array) -> tuple[SelectedSets, list[str]]:
        """Return the supports of all machines of a round, and why their paths end."""
        K, paths = np.array(_gram(kernel, X).matrix), list[Path]()
        for y in np.ascontiguousarray(Y.T):
            center = np.clip(y.mean(), y.min(), y.max())
            paths.append(l1_path_of(K, y - center, self.estimator.zeta_min))
        return supports_along_paths(paths), [path.stop for path in paths]

    def choose_refitted(self, kernel: Kernel, rounds: tuple[FusionRound, ...]) -> Choice:
        """Choose zeta by the machine that is refitted on its support, with one kernel."""
        selected, stops = list[SelectedSets](), list[str]()
        for round_ in rounds:
            sets, more = self.supports(kernel, round_.X, round_.Y)
            selected.append(sets)
            stops += more
        judge = SupportJudge.of(self.estimator, kernel, rounds)
        return choose_structure(self.estimator, judge, merge_sets(selected), "; ".join(dict.fromkeys(stops)))

    def fit_final(self, kernel: Kernel, X: Any, y: Any, value: Any) -> Final:
        """Fit the machine at the chosen value, or the sparse LS-SVM on the support there."""
        model = self.estimator
        if isinstance(value, Structure):
            return self.fit_refitted(kernel, X, y, value)
        both = value if isinstance(value, dict) else {"zeta": value, "ridge": 0.0}
        machine = self.substrate(kernel, both["zeta"], both["ridge"]).fit(X, y)
        return Final(
            machine, {"zeta_": both["zeta"]} | ({} if model.ridge_range is None else {"ridge_": both["ridge"]})
        )

    def substrate(self, kernel: Kernel, zeta: float, ridge: float = 0.0) -> Any:
        """Return the L1 substrate at given weights; zeta is above zero."""
        return self.estimator._machine_with(
            self.estimator._plain_type, kernel=kernel, zeta=max(zeta, LEAST_ZETA), ridge=ridge
        )

    def fit_refitted(self, kernel: Kernel, X: Any, y: Any, structure: Structure) -> Final:
        """Fit the sparse LS-SVM on the support, which counts all rows; without support the bias is left."""
        machine: Any = None
        if not structure.members:  # folds have their own supports, or there is none
            machine = self.substrate(kernel, structure.value).fit(X, y)
        support = machine.support_ if machine is not None else rows_of(structure.members or (), X.shape[0])
        if support.size:
            how = {"kernel": kernel, "gamma": structure.gamma, "basis": support}
            machine = self.estimator._machine_with(self.estimator._refitted_type, **how).fit(X, y)
        told = ("refit", f"sparse LS-SVM on {support.size} support vectors and all {X.shape[0]} rows")
        return Final(machine, {"zeta_": structure.value}, (), (told, *structure.facts()))


class FusedVariationModel(HeldModel, AdditiveModel):
    """The machine of maximal variation at the weights that were chosen."""


class OverRho(FusedSearch):
    """Maximal variation: (28) of [Pelckmans2005]_ along its exact path, or over one rho for each group of inputs.

    The estimator has ``groups``, ``rho_range`` and ``max_evaluations`` beside the parameters of every fused one.
    """

    def options(self) -> Variation:
        """Return the options of the machines, checked."""
        model = self.estimator
        return Variation(rho=1.0, expansion=model.expansion, ridge=model.ridge, cutoff=model.cutoff)

    def check_rules(self) -> None:
        """Refuse parameters before any long work."""
        model = self.estimator
        self.options()
        check_refit(model, (("groups", model.groups),))
        whole_number(model.max_evaluations, "max_evaluations", 1)
        if model.groups is not None:
            self.ranges()
        elif model.rho_range is not None:
            raise DeclarationError(f"rho_range is for groups, and groups is None; received {model.rho_range!r}")
        super().check_rules()

    def ranges(self) -> Ends:
        """Return the smallest and largest weight of every group; an infinite one is chosen later."""
        names = [name for name, _ in GroupWeights.of(1.0, self.estimator.groups).groups]
        if len(names) not in (2, 3):
            raise DeclarationError(
                f"two or three weights are chosen with a proof, and groups has {len(names)}; the number of solves "
                "grows too fast beyond, and one group is groups=None"
            )
        given = self.estimator.rho_range
        if not isinstance(given, Mapping):
            return (_EVERY if given is None else checked_range(given, "rho_range"),) * len(names)
        if strange := [name for name in given if name not in names]:
            raise DeclarationError(f"rho_range must have names of groups, {names}; unknown are {strange}")
        ranges = {name: checked_range(ends, f"rho_range[{name!r}]") for name, ends in given.items()}
        return tuple(ranges.get(name, _EVERY) for name in names)

    def machines(
        self, kernel: Kernel, round_: FusionRound, unjudged: bool = False
    ) -> Iterator[tuple[Any, Array, Array, Array]]:
        """Yield every machine of a round: its coordinates, targets, and rows and targets that validate.

        Machines that validate no rows are left out, unless ``unjudged``.
        """
        Gram.of(kernel, round_.X)  # refuses what does not fit memory, warns of a degenerate kernel
        n, n_check = round_.X.shape[0], round_.X_check.shape[0]
        if not (n_check or unjudged):
            return
        coordinates = self.options().coordinates(kernel_matrices(kernel, round_.X))  # type: ignore[arg-type]
        parts = kernel.components(round_.X.shape[1])  # type: ignore[attr-defined]
        rows = [part(round_.X_check, round_.X) if n_check else np.zeros((0, n)) for part in parts]
        below = coordinates.rows_at(rows)
        for y, y_check in round_.targets():
            yield coordinates, y, below, y_check

    def choose(self, kernel: Kernel, rounds: tuple[FusionRound, ...]) -> Choice:
        """Choose rho, or one for each group, with one kernel."""
        model = self.estimator
        if model.refit:
            return self.choose_refitted(kernel, rounds)
        machines = [machine for round_ in rounds for machine in self.machines(kernel, round_)]
        if model.groups is not None:
            given, ends, n = GroupWeights.of(1.0, model.groups), self.ranges(), model.n_features_in_
            columns = tuple(part.columns for part in kernel.components(n))  # type: ignore[attr-defined]
            members = given.members(columns, n, getattr(model, "feature_names_in_", None))
            names = [name for name, _ in given.groups]
            weighed = [fold_of_groups(*machine, members) for machine in machines]
            return joint_choice(kernel, names, weighed, ends, float(model.gap), model.max_evaluations)
        folds = [variation_fold(*machine) for machine in machines]
        choice = _choose(kernel, "rho", read_off(folds), folds)
        if len(folds) == 1:
            choice.path["maximal_variation"] = folds[0].levels
        return choice

    def choose_refitted(self, kernel: Kernel, rounds: tuple[FusionRound, ...]) -> Choice:
        """Choose rho by the machine that is refitted to what it selects, with one kernel."""
        model, selected, stops = self.estimator, [], list[str]()
        relevance = non_negative(model.relevance, "relevance", "as a share of the largest maximal variation")
        for round_ in rounds:
            folds = [variation_fold(*machine) for machine in self.machines(kernel, round_, model.refit == "loo")]
            selected.append(select_along_path(folds, relevance))
            stops += [fold.path.stop for fold in folds]
        judge = ComponentJudge.of(model, kernel, rounds)
        choice = choose_structure(model, judge, merge_sets(selected), "; ".join(dict.fromkeys(stops)))
        if len(rounds) == len(folds) == 1:  # one path: its knots, with the steps of the criterion between them
            own, starts = folds[0].path.values, choice.path["values"]
            values = np.unique(np.concatenate([own, starts]))
            steps = choice.path["criterion"][np.maximum(np.searchsorted(starts, values, side="right") - 1, 0)]
            levels = [np.interp(values, own, column) for column in np.asarray(folds[0].levels).T]
            more = {"values": values, "criterion": steps, "maximal_variation": np.column_stack(levels)}
            choice = replace(choice, path=choice.path | more)
        return choice

    def fit_final(self, kernel: Kernel, X: Any, y: Any, value: Any) -> Final:
        """Fit the machine at the chosen weights, refitted to the components that it selects where that was judged."""
        model = self.estimator
        structure, groups = value if isinstance(value, Structure) else None, model.groups is not None
        chosen: Any = value if structure is None else structure.value
        spread = 2.0 if model._labels else float(np.ptp(y))
        least = 1e-9 * spread or 1e-9  # in place of zero
        rho = {name: max(each, least) for name, each in chosen.items()} if groups else max(float(chosen), least)
        how: dict[str, Any] = {"kernel": kernel, "rho": rho, "refit": structure is not None}
        if groups:
            names = getattr(model, "feature_names_in_", None)
            how["groups"] = GroupWeights.of(1.0, model.groups).columns(model.n_features_in_, names)
        if structure is None:
            return Final(model._machine_with(model._plain_type, **how).fit(X, y), {"rho_": rho})
        machine = model._machine_with(model._plain_type, **how, gamma=structure.gamma).fit(X, y)
        rows = structure.selection(machine.component_support_)
        return Final(machine, {"rho_": rho, "selection_kernel_": kernel}, rows, structure.facts())


def _is_known(kernel: Kernel, X: Any, matrix: Array, y: Array, path: Path, zeta: float, tolerance: float) -> bool:
    """Return whether double precision determines the L1 substrate at zeta to the tolerance, by a point of its path."""
    point = path.at(zeta)
    columns, weights = L1Columns(kernel, X, X, matrix, matrix), np.ones(y.size)
    fitted = matrix @ point.primal + point.bias
    machine = L1Machine(columns, y, weights, max(zeta, LEAST_ZETA), 0.0, tolerance, point.primal, 0.0, fitted)
    return machine.bound().passes


def _choose(kernel: Kernel, name: str, read: ReadOff, folds: list[Any], beyond: float | None = None) -> Choice:
    low, high = read.coverage
    stops = dict.fromkeys(fold.path.stop for fold in folds)
    path = {
        "parameter": name,
        "values": read.values,
        "criterion": read.errors,
        "coverage": read.coverage,
        "stop": "; ".join(stops),
    }
    covered = f"{name} from {low:g} " + ("on" if np.isinf(high) else f"to {high:g}")
    if read.at_lower_end:
        covered += "; best at the lower end" + (f", {name}_min widens it" if name == "zeta" else "")
    if read.ended:
        covered += "; it ends where rounding hides what is below"
    facts = [
        ("fused over", covered),
        ("exact path", f"{read.values.size} knots, {read.minima} local minima inside segments"),
    ]
    return Choice(
        kernel=kernel,
        value=read.value,
        error=read.error,
        lower_bound=read.lower_bound,
        path=path,
        facts=tuple(facts),
        beyond=beyond,
        folds=tuple(folds),
    )
