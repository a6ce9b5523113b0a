"""Two ways to a machine of maximal variation, one record: generated rows, and the declared problem."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, non_negative, positive
from substrate.certificates import Row
from substrate.closed_form.component_coordinates import ComponentCoordinates, decoupled_coordinates, shared_coordinates
from substrate.closed_form.maximal_variation import solve_maximal_variation
from substrate.closed_form.variation_accuracy import VariationWitness
from substrate.closed_form.variation_certificate import solution_rows
from substrate.closed_form.variation_refinement import refined_witness
from substrate.errors import DeclarationError, SolverError
from substrate.solvers import canonical_name

__all__ = ["Variation", "VariationFit"]

#: Relative residual of the optimality conditions at which a fit counts as solved.
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class VariationFit:
    """Coefficients (N, or N x d decoupled) in regression's sign, bias, maximal variations, rows and facts."""

    coefficients: Array
    bias: float
    maximal_variation: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    #: Whether the active rows were identified and solved for, so that zeros are zeros.
    exact: bool
    #: The point in coordinates and its multipliers, which prove how near it is.
    witness: VariationWitness


@dataclass(frozen=True, slots=True)
class Variation:
    """The choices of a machine of maximal variation, checked."""

    rho: float
    expansion: str
    ridge: float
    cutoff: float
    solver: str

    def __post_init__(self) -> None:
        positive(self.rho, "rho")
        if self.expansion not in ("shared", "decoupled"):
            raise DeclarationError(f"expansion must be 'shared' or 'decoupled', received {self.expansion!r}")
        non_negative(self.ridge, "ridge", "as the weight of a squared norm")
        positive(self.cutoff, "cutoff")
        if not isinstance(self.solver, str) or self.solver not in ("auto", "cvxpy"):
            object.__setattr__(self, "solver", canonical_name(self.solver))

    def coordinates(self, matrices: list[Array]) -> ComponentCoordinates:
        """The coordinates of the chosen expansion."""
        make = shared_coordinates if self.expansion == "shared" else decoupled_coordinates
        return make(matrices, True, float(self.cutoff), float(self.ridge))

    def fit(self, coordinates: ComponentCoordinates, y: Array) -> VariationFit:
        """Fit one target; if the rows do not settle, the declared problem does it, and the record says so."""
        rho = float(self.rho)
        facts = (*coordinates.record(), ("rho", f"{rho:g}"))
        note: tuple[tuple[str, str], ...] = ()
        if self.solver == "auto":
            try:
                solved = solve_maximal_variation(coordinates, y, rho)
            except SolverError as error:
                note = (("fallback", str(error)),)
            else:
                rows = solution_rows(coordinates, y, rho, solved, _TOLERANCE)
                how = "active set polished" if solved.polished else "interior point, not polished"
                record = ("solver", f"PIQP with {solved.rows} generated rows in {solved.rounds} rounds, {how}")
                a, b = coordinates.expand(solved.v), coordinates.bias_of(y, solved.v)
                witness = VariationWitness(solved.v, solved.xi_plus - solved.xi_minus)
                witness = refined_witness(coordinates, witness, rho) if solved.polished else witness
                return VariationFit(a, b, solved.maximal_variation, rows, (*facts, record), solved.polished, witness)
        return self._declared(coordinates, y, rho, (*facts, *note))

    def _declared(
        self, coordinates: ComponentCoordinates, y: Array, rho: float, facts: tuple[tuple[str, str], ...]
    ) -> VariationFit:
        from problems.variation_expansion import variation_expansion  # brings cvxpy; the fast path must not pay it

        name = None if self.solver in ("auto", "cvxpy") else self.solver
        # the bias takes a constant up; left in y it would drown what is to be fitted in the solver's tolerance
        center = float(np.clip(y.mean(), y.min(), y.max())) if coordinates.bias else 0.0
        level = variation_expansion(coordinates, y - center, rho)
        declared: Any = level.declared("Maximal variation", "regression", ()).solve(name)
        v = np.asarray(level.v.value)
        record, rows = declared.solver_record.facts(), declared.certificate().rows
        variation = np.abs(coordinates.parts @ v).max(axis=1)
        minus, plus = level.bounds.multipliers
        witness, facts = VariationWitness(v, np.asarray(plus - minus)), (*facts, *record)
        a, b = coordinates.expand(v), coordinates.bias_of(y, v)
        return VariationFit(a, b, variation, rows, facts, False, witness)
