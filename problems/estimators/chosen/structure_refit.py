r"""The choice of rho by the error of the classical machine refitted to the structure that rho selects.

[Pelckmans2005]_ uses the 1-norm "to detect structure, while the final predictions should be made based on a classical
model with the selected components" (end of section 3.1). With :math:`S(\rho)` the components that maximal variation
selects (:mod:`substrate.fits.selected_sets`) and :math:`F(S, \gamma)` the error of the componentwise
LS-SVM on them, on validation rows, on folds, or left out in turn,

.. math:: \min_{\rho} \min_{\gamma} F(S(\rho), \gamma) = \min_{S \in \{S(\rho)\}} \min_{\gamma} F(S, \gamma) .

There are finitely many S, each with a lower bound over gamma (:mod:`substrate.search.gamma_search`): the smallest of
these bounds holds for every rho. Of folds each has its own path and its own sets, :math:`S_1(\rho), S_2(\rho), \dots`,
and one gamma for all of them. Leaving out rows of the refitted machine is conditional on the set, which all rows have
selected.

The least of many errors on the same rows prefers sets with inputs that lower it by chance. With c standard errors, the
rule of [Breiman1984]_ for c = 1, the smallest set is taken among those with

.. math:: F(S) \le F_{\min} + c \, \frac{\operatorname{sd}(e_1^2, \dots, e_n^2)}{\sqrt n} ,

e the errors of the best machine on the rows that judge. The bound is compared with :math:`F_{\min}`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from problems.estimators.chosen.fused import Choice, FusionRound
from problems.estimators.chosen.judgement import validation_criterion
from problems.estimators.full.ls_svm import LSSVMRegressor
from substrate.arrays import Array, non_negative
from substrate.certificates import Row
from substrate.errors import DeclarationError
from substrate.fits.selected_sets import merge_sets
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.criteria import CriterionSum, LeaveOneOut
from substrate.least_squares.spectrum import centred_spectrum
from substrate.search.gamma_search import GammaSearch, search_gamma

__all__ = ["Members", "RefittedRows", "Structure", "check_refit", "choose_structure"]

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

    def selection(self, components: Any) -> tuple[Row, ...]:
        """Check that a machine at the weight selects the components that were judged."""
        if self.members is None:
            return ()
        differ = np.setxor1d(np.flatnonzero(components), self.members).size
        formula = "components that only the machine at rho, or only its path, selects"
        return (Row(name="selected components", value=float(differ), scale=1.0, tolerance=0.0, formula=formula),)


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
    selected, paths = zip(*(model._select(kernel, one) for one in rounds), strict=True)
    sets, stop = merge_sets(list(selected)), "; ".join(dict.fromkeys(path.stop for each in paths for path in each))

    def machines(number: int, members: Members) -> list[RefittedRows]:
        one = rounds[number]
        return list(model._refit(kernel, one, members)) if len(one.Y_check) or model.refit == "loo" else []

    by_loo, name, one_round = model.refit == "loo", str(model._chooses), sets.masks.shape[1] == 1
    of_cell = [sets.sets_of(cell) for cell in range(len(sets))]
    searched = _search_each(of_cell, machines, by_loo, float(model.gap))
    criteria, bounds, gammas = (
        np.array([float(getattr(searched[each], what)[0]) for each in of_cell])
        for what in ("criterion", "lower_bound", "gamma")
    )
    sizes, narrow = np.array([sum(map(len, each)) for each in of_cell]), -np.diff(sets.edges)
    best = least = int(np.lexsort((narrow, sizes, criteria))[0])
    low, high = coverage = float(sets.edges[0]), float(sets.edges[-1])
    facts = [
        ("fused over", f"{name} from {low:g} " + ("on" if np.isinf(high) else f"to {high:g}")),
        (
            "selected sets",
            f"{len(searched)} refitted, each with its own gamma and bound, in {len(sets)} cells of {name}",
        ),
        ("paths", "the sets of the paths, as double precision follows them"),
    ]
    if by_loo:
        known = "what was selected: each row took part in the selection before it was left out"
        facts.append(("conditional on", known))
    if model.standard_errors > 0.0:
        judges = [machine for number, members in enumerate(of_cell[least]) for machine in machines(number, members)]
        deviation = _standard_error(np.concatenate([judge.errors(gammas[least], by_loo) for judge in judges]))
        limit = criteria[least] + float(model.standard_errors) * deviation
        beyond = criteria > limit
        best = int(np.lexsort((narrow, criteria, sizes, beyond))[0])
        said = f"within {model.standard_errors:g} standard errors, {deviation:.3g} each, of the least criterion, "
        facts.append(("smallest set", f"{said}{criteria[least]:.6g}"))
    cells = {"criterion": criteria, "lower_bound": bounds, "gamma": gammas}
    support = sets.masks[:, 0] if one_round else sets.masks
    selection = {"start": sets.edges[:-1], "stop": sets.edges[1:], "support": support} | cells
    gamma = float(gammas[best])
    return Choice(
        value=Structure(
            sets.value_inside(best), gamma, of_cell[best][0] if one_round else None, searched[of_cell[best]]
        ),
        error=float(criteria[best]),
        lower_bound=float(min(criteria[best], bounds.min())),
        path={
            "parameter": name,
            "values": sets.edges[:-1],
            "criterion": criteria,
            "coverage": coverage,
            "stop": stop,
        },
        facts=tuple(facts),
        kept={"selection_path_": selection, "gamma_": gamma},
        least=None if of_cell[best] == of_cell[least] else float(criteria[least]),
    )


def _search_each(
    of_cell: Sequence[tuple[Members, ...]], machines: Any, by_loo: bool, gap: float
) -> dict[tuple[Members, ...], GammaSearch]:
    """Return the best gamma of every combination of sets, one for each round, with a lower bound."""
    searched: dict[tuple[Members, ...], GammaSearch] = {}
    criteria: dict[int, tuple[Members, list[Any]]] = {}  # of neighbouring cells most rounds have the same
    for sets in of_cell:
        for number, members in enumerate(sets):
            if number not in criteria or criteria[number][0] != members:
                criteria[number] = members, [machine.criterion(by_loo) for machine in machines(number, members)]
        if sets not in searched:
            parts, counts = zip(*(part for _, judged in criteria.values() for part in judged), strict=True)
            criterion = CriterionSum.of(parts, [count / sum(counts) for count in counts])
            searched[sets] = search_gamma(criterion, None, gap)
    return searched


def _standard_error(errors: Array) -> float:
    """Return the standard error of the mean of squares."""
    unit = float(np.abs(errors).max()) or 1.0
    squares = np.square(errors / unit)
    return unit**2 * float(np.std(squares, ddof=1)) / math.sqrt(errors.size) if errors.size > 1 else 0.0
