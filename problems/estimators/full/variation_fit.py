"""The fit of maximal variation, by generated rows or the declared problem, and the checks and proofs of its answer."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.estimators.full.refit_answer import recall_refit
from problems.estimators.shared.additive import DecoupledModel, kernel_matrices
from problems.estimators.shared.base import import_page
from problems.estimators.shared.checked_again import Added, StoredFit, recall_rows, rows_of_fit
from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import Array, non_negative, positive
from substrate.certificates import Row
from substrate.certificates.enclosed import Doubled, at_most, sum_rounding
from substrate.certificates.rows import WITH_CUTOFF, Accuracy, unpolished_tolerance, with_cutoff
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError, DeclarationError, SolverError
from substrate.ingredients.component_weights import Weights, weights_of
from substrate.kernels import Componentwise
from substrate.kernels.doubled_matrix import doubled_matrix
from substrate.least_squares.kernel_products import (
    CarefulProducts,
    KernelProducts,
    PlainProducts,
    expansion_values,
)
from substrate.penalized.variation.accuracy import (
    DoubledComponents,
    VariationWitness,
    refined_witness,
    solution_rows,
    sum_of,
    variation_accuracy,
)
from substrate.penalized.variation.active_rows import solve_maximal_variation
from substrate.penalized.variation.component_coordinates import (
    ComponentCoordinates,
    decoupled_coordinates,
    shared_coordinates,
)
from substrate.proof import Proof, tolerance_in_balls
from substrate.proof.variation import prove_variation
from substrate.solvers import canonical_name

__all__ = ["PAGES", "Variation", "VariationFit", "VariationModel", "smallest_rho", "with_answer"]

#: The page that states each expansion.
PAGES = {"shared": "maximal_variation", "decoupled": "decoupled_maximal_variation"}
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
    #: Whether the active rows were identified and solved for, so that zeros are exact.
    exact: bool
    #: The point in coordinates and its multipliers, which prove its accuracy.
    witness: VariationWitness


@dataclass(frozen=True, slots=True)
class Variation:
    """The choices of a machine of maximal variation, checked; rho is one number, or one for each component."""

    rho: Weights
    expansion: str
    ridge: float
    cutoff: float
    solver: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", weights_of(self.rho))
        if self.expansion not in ("shared", "decoupled"):
            raise DeclarationError(f"expansion must be 'shared' or 'decoupled', received {self.expansion!r}")
        non_negative(self.ridge, "ridge", "as the weight of a squared norm")
        positive(self.cutoff, "cutoff")
        if not isinstance(self.solver, str) or self.solver not in ("auto", "cvxpy"):
            object.__setattr__(self, "solver", canonical_name(self.solver))

    def coordinates(self, matrices: list[Array]) -> ComponentCoordinates:
        """Return the coordinates of the chosen expansion."""
        make = shared_coordinates if self.expansion == "shared" else decoupled_coordinates
        return make(matrices, True, float(self.cutoff), float(self.ridge))

    def fit(self, coordinates: ComponentCoordinates, y: Array) -> VariationFit:
        """Fit one target; if the rows do not settle, by the declared problem, which the record states."""
        rho = self.rho
        facts = (*coordinates.record(), ("rho", in_words(rho)))
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
                return VariationFit(
                    coefficients=a,
                    bias=b,
                    maximal_variation=solved.maximal_variation,
                    rows=rows,
                    facts=(*facts, record),
                    exact=solved.polished,
                    witness=witness,
                )
        return self._declare(coordinates, y, rho, (*facts, *note))

    def _declare(
        self, coordinates: ComponentCoordinates, y: Array, rho: Weights, facts: tuple[tuple[str, str], ...]
    ) -> VariationFit:
        page = import_page(PAGES[self.expansion])
        name = None if self.solver in ("auto", "cvxpy") else self.solver
        # the bias absorbs a constant; in y it would hide the rest below the solver's tolerance
        center = float(np.clip(y.mean(), y.min(), y.max())) if coordinates.bias else 0.0
        declared: Any = page.declare(coordinates, y - center, rho).solve(name, warn=False)
        v = declared.coordinates
        record, rows = declared.solver_record.facts(), declared.certificate().rows
        variation = np.abs(coordinates.parts @ v).max(axis=1)
        xi = declared.upper_multipliers - declared.lower_multipliers
        witness, facts = VariationWitness(v, xi), (*facts, *record)
        a, b = coordinates.expand(v), coordinates.bias_of(y, v)
        return VariationFit(
            coefficients=a, bias=b, maximal_variation=variation, rows=rows, facts=facts, exact=False, witness=witness
        )


_UNKNOWN = (
    "rounding",
    "double precision cannot give the answer to this tolerance; scale the columns, centre the inputs, or take a "
    "larger cutoff",
)
_UNPOLISHED = ("rounding", "the solver's point is not near enough; use solver='auto'")
_RELATIVE = ("answer", "the optimum in the directions that the cut-off keeps, as double precision computes them")


def _exact_values(kernel: Componentwise, X: Any, a: Array, careful: bool) -> list[Doubled]:
    """Enclose the values of every component in exact kernel values: plainly, or by accurate kernel values.

    ``a`` has one column per component where they have expansions of their own.
    """
    values = []
    for number, component in enumerate(kernel.components(X.shape[1])):
        plain = PlainProducts(np.asarray(component(X)), component.rounding(X), component.trusted)
        products: KernelProducts = CarefulProducts(component, X, plain) if careful else plain
        (high, low), radius = products(a if a.ndim == 1 else np.ascontiguousarray(a[:, number]))
        values.append(Doubled(high, low, radius))
    return values


def _radii_of_parts(kernel: Componentwise, X: Any, coordinates: ComponentCoordinates) -> Array | None:
    """Bound the rounding of the values of every component along the directions of the coordinates.

    For kernels of finite rank, all of whose directions are kept; of others the cut-off leaves directions out, which is
    part of the model, and None is returned.
    """
    components = kernel.components(X.shape[1])
    if any(component.rank(X.shape[1]) is None for component in components):
        return None
    A, bounds = np.abs(coordinates.coefficients), np.zeros_like(coordinates.parts)
    for number, component in enumerate(components):
        s = np.sqrt(np.maximum(component.diag(X), 0.0))
        summed = s @ (A[number] if A.ndim == 3 else A)
        share = at_most(component.rounding(X) + 2.0 * sum_rounding(X.shape[0] + 2))
        bounds[number] = share * np.outer(s, summed)
    return bounds


def _doubled_values(kernel: Componentwise, X: Any, a: Array) -> list[Doubled] | None:
    """Enclose the same by kernel values in doubled precision; None where a kernel has none."""
    values = []
    for number, component in enumerate(kernel.components(X.shape[1])):
        matrix = doubled_matrix(component, X)
        if matrix is None:
            return None
        (high, low), share = matrix
        s = np.sqrt(np.maximum(component.diag(X), 0.0))
        values.append(Doubled(high, low, at_most(share) * np.outer(s, s)) @ (a if a.ndim == 1 else a[:, number].copy()))
    return values


def _point_values(
    kernel: Componentwise, X: Any, coordinates: ComponentCoordinates, v: Array, doubled: bool = False
) -> tuple[Doubled, ...] | None:
    """Enclose the values of the expansion A v, which is not rounded, in accurate kernel values, or in doubled ones."""
    tables = coordinates.coefficients if coordinates.is_decoupled else coordinates.coefficients[None]
    exact = [Doubled(table) @ v for table in tables]
    near = [exact_value.midpoint for exact_value in exact]
    remainders = [(exact_value - high).midpoint for exact_value, high in zip(exact, near, strict=True)]
    a, low_part = (np.column_stack(arrays) if coordinates.is_decoupled else arrays[0] for arrays in (near, remainders))
    values = _doubled_values(kernel, X, a) if doubled else _exact_values(kernel, X, a, True)
    if values is None:
        return None
    return tuple(
        exact_value + correction
        for exact_value, correction in zip(values, _exact_values(kernel, X, low_part, False), strict=True)
    )


def answer_of(
    kernel: Componentwise,
    X: Any,
    coordinates: ComponentCoordinates,
    y: Array,
    rho: Weights,
    witness: VariationWitness,
    a: Array,
    b: float,
    fitted: Array,
    tolerance: float,
) -> Accuracy:
    """Return the row for the stored numbers, by a plain check and then, if needed, an accurate one."""
    rows, radii = [], _radii_of_parts(kernel, X, coordinates)
    permitted = Tolerance.of(y, np.ones(y.size), tolerance)
    values, arguments = DoubledComponents(coordinates, radii), (y, rho, witness, fitted, permitted)
    if radii is not None:
        for doubled in (False, True):
            point = _point_values(kernel, X, coordinates, witness.v, doubled)
            if point is None:
                break
            rows.append(variation_accuracy(replace(values, point=point), *arguments))
            if rows[-1].passes:
                break
    else:  # the directions are those that double precision computes, and the stored expansion is compared
        for careful in (False, True):
            stored = sum_of(_exact_values(kernel, X, a, careful)) + b
            rows.append(variation_accuracy(values, *arguments, stored))
            if rows[-1].passes:
                break
    row = min(rows, key=lambda row: row.value)
    return row if keeps_all(kernel, X, coordinates) else with_cutoff(row)


def keeps_all(kernel: Componentwise, X: Any, coordinates: ComponentCoordinates) -> bool:
    """Return whether there are no directions of the components beyond those that the cut-off keeps."""
    n, p = X.shape
    features = [component.rank(p) for component in kernel.components(p)]
    ranks = [n if rank is None else min(n, rank) for rank in features]
    if coordinates.is_decoupled:
        return all(kept >= rank for kept, rank in zip(coordinates.ranks, ranks, strict=True))
    return bool(coordinates.ranks[0] >= min(n - coordinates.bias, sum(ranks)))


def with_answer(
    kernel: Componentwise,
    X: Any,
    coordinates: ComponentCoordinates,
    y: Array,
    choices: Variation,
    fit: VariationFit,
    tol: float,
) -> VariationFit:
    """Return the fit with the row that bounds its answer in front; ``tol`` is the tolerance of a polished point."""
    a, b, rho = fit.coefficients, fit.bias, choices.rho
    if a.ndim == 1:
        fitted = expansion_values(kernel, X, a, b, X)
    else:
        fitted = (
            np.sum([component(X, X) @ a[:, k] for k, component in enumerate(kernel.components(X.shape[1]))], axis=0) + b
        )
    polished = _is_polished(choices.solver, fit)
    tolerance = tol if polished else unpolished_tolerance(tol)
    row = answer_of(kernel, X, coordinates, y, rho, fit.witness, a, b, fitted, tolerance)
    facts = (*fit.facts, _RELATIVE)
    if not row.passes:
        facts += (_UNKNOWN if polished else _UNPOLISHED,)
    return replace(fit, rows=(row, *fit.rows), facts=facts)


def _is_polished(solver: str, fit: VariationFit) -> bool:
    """Return whether a point is that of an active set; otherwise it is the interior point of a solver."""
    return solver == "auto" and fit.exact


def in_words(rho: Weights) -> str:
    """Return the weights as a certificate states them."""
    return f"{rho.min():g} to {rho.max():g}, one per component" if isinstance(rho, np.ndarray) else f"{rho:g}"


def smallest_rho(value: float, Y: Array) -> float:
    """Return a chosen weight; zero is replaced by the smallest positive number."""
    return max(value, 1e-9 * float(np.ptp(Y)) or 1e-9)


@dataclass(frozen=True, slots=True)
class StoredVariation:
    """One machine of maximal variation on its rows, and the optimum computed again.

    The directions are those that the cut-off keeps, as double precision computes them; what the multipliers of the
    optimum prove does not depend on how they were found.
    """

    kernel: Componentwise
    points: Any
    coordinates: ComponentCoordinates
    y: Array
    rho: Weights
    fit: VariationFit
    a: Array
    b: float
    fitted: Array
    tolerance: float

    def certify(self) -> Added:
        """Bound the answer, beside the rows of the optimum."""
        arguments = (self.kernel, self.points, self.coordinates, self.y, self.rho, self.fit.witness, self.a, self.b)
        row = answer_of(*arguments, self.fitted, self.tolerance)
        facts = (*self.fit.facts, _RELATIVE)
        return (row, *self.fit.rows), facts if row.passes else (*facts, _UNKNOWN)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        arguments = (self.coordinates, self.y, self.rho, self.fit.witness, self.fitted)
        stored = (self.kernel, self.points, self.a, self.b)
        tolerance = tolerance_in_balls(self.y, np.ones(self.y.size), self.tolerance)
        proof = prove_variation(*arguments, *stored, tolerance)
        complete = keeps_all(self.kernel, self.points, self.coordinates)
        return proof if complete else replace(proof, about=f"{proof.about} {WITH_CUTOFF}")


class VariationModel(DecoupledModel):
    """The machines of maximal variation, or the LS-SVM on the components that they select.

    The estimator has ``expansion``, ``ridge``, ``cutoff``, ``refit`` and its weights rho.
    """

    @property
    def decoupled(self) -> bool:
        """Whether every component has an expansion of its own; a refitted machine has one for all."""
        return super().decoupled and not self.estimator.refit

    def refit_gamma(self) -> float:
        """Return gamma of the refitted machine."""
        return float(self.estimator.gamma_)

    @abstractmethod
    def select_again(self, X: Any, Y: Array) -> tuple[tuple[Row, ...], Any]:
        """Return the rows of the machine that selects components, fitted again, and a mask of those it selects."""

    def component_values(self, X: Any) -> Array:
        """Evaluate every component; those that were not refitted are zero."""
        model = self.estimator
        if not model.refit:
            return super().component_values(X)
        values = np.zeros((X.shape[0], model.component_support_.size, *model._coefficients().shape[1:]))
        if model.component_support_.any():
            values[:, model.component_support_] = super().component_values(X)
        return values

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Return all machines on the data of the fit."""
        model = self.estimator
        if model.refit:
            given_X, given_Y = recall_rows(model, X, y, labels=model._labels)
            rows = rows_of_fit(model, given_Y.shape[0])
            return recall_refit(model, given_X[rows], given_Y[rows])
        machines = self.recall_machines(*recall_rows(model, X, y, labels=model._labels))
        facts = (("kernel", repr(model.kernel_)), *self.group_facts())
        return nullcontext(StoredFit(machines, lambda: ((), facts)))

    def recall_machines(self, X: Any, Y: Array) -> Iterator["StoredVariation"]:
        """Return every machine, with the optimum computed again for its multipliers."""
        model = self.estimator
        rows = rows_of_fit(model, Y.shape[0])
        X, Y = X[rows], Y[rows]
        stored = model._coefficients()
        if stored.shape[0] != rows.size:
            raise DataError(f"the model has {stored.shape[0]} support values, these are {rows.size} rows")
        a = stored[:, None] if stored.ndim == (2 if self.decoupled else 1) else stored
        fitted, biases = np.reshape(self.evaluate(X), Y.shape), np.atleast_1d(model.bias_)
        kernel: Any = model.kernel_
        matrices = kernel_matrices(kernel, X)
        choices = self.recall_choices(Y)
        for machine_rows in each_machine(Y, model._labels):
            coordinates = choices.coordinates([machine_rows.square(matrix) for matrix in matrices])
            fit = choices.fit(coordinates, machine_rows.y)
            yield StoredVariation(
                kernel=kernel,
                points=machine_rows.points(X, False),
                coordinates=coordinates,
                y=machine_rows.y,
                rho=choices.rho,
                fit=fit,
                a=np.ascontiguousarray(a[machine_rows.rows, machine_rows.column]),
                b=float(biases[machine_rows.column]),
                fitted=fitted[machine_rows.rows, machine_rows.column],
                tolerance=self.tolerance_of(fit),
            )

    def recall_choices(self, Y: Array) -> Variation:
        """Return the choices of the fit, by the fast path."""
        model = self.estimator
        chosen = getattr(model, "rho_", None)
        rho = self.own_rho() if chosen is None else self.read_rho(chosen, Y)
        return Variation(rho=rho, expansion=model.expansion, ridge=model.ridge, cutoff=model.cutoff, solver="auto")

    def read_rho(self, chosen: Any, Y: Array) -> Weights:
        """Return the weights that a fit chose, above zero."""
        return smallest_rho(float(chosen), Y)

    def own_rho(self) -> Weights:
        """Return the weights that were given, for the columns of the fit."""
        return float(self.estimator.rho)

    def group_facts(self) -> tuple[tuple[str, str], ...]:
        """Return the weight of every group of inputs, where there are some."""
        return ()

    def tolerance_of(self, fit: VariationFit) -> float:
        """Return the tolerance of the accuracy: larger for the point of a conic solver."""
        tol = self.estimator._tolerance()
        return tol if _is_polished(getattr(self.estimator, "solver", "auto"), fit) else unpolished_tolerance(tol)
