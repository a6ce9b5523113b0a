"""The fit of maximal variation, and the checks and proofs of its answer."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.estimators.penalised.refit_answer import recall_refit
from problems.estimators.shared.additive import DecoupledModel, kernel_matrices
from problems.estimators.shared.checked_again import Added, StoredFit, recall_rows, rows_of_fit
from problems.estimators.shared.machine_rows import MachineRows, each_machine
from substrate.arrays import Array, non_negative, positive
from substrate.certificates import Row
from substrate.certificates.rounding import target_rounding
from substrate.certificates.rows import WITH_CUTOFF, Accuracy, unpolished_tolerance, with_cutoff
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError, DeclarationError
from substrate.fits.coordinates import ComponentCoordinates, decoupled_coordinates, shared_coordinates
from substrate.fits.variation import solution_rows, solve_maximal_variation
from substrate.ingredients.component_weights import Weights, weights_of
from substrate.kernels import Componentwise
from substrate.penalties import VariationMachine
from substrate.proof import Proof, tolerance_in_balls
from substrate.proof.penalties import prove_variation

__all__ = ["PAGES", "Variation", "VariationFit", "VariationModel", "smallest_rho"]

#: The page that states each expansion.
PAGES = {"shared": "maximal_variation", "decoupled": "decoupled_maximal_variation"}
#: Relative residual of the optimality conditions at which a fit counts as solved.
_TOLERANCE = 1e-6
_UNKNOWN = (
    "rounding",
    "double precision cannot give the answer to this tolerance; scale the columns, centre the inputs, or take a "
    "larger cutoff",
)
#: Room for what a first-order bound leaves out.
_ROOM = 4.0
_RELATIVE = ("answer", "the optimum in the directions that the cut-off keeps, as double precision computes them")


@dataclass(frozen=True, slots=True)
class VariationFit:
    """Coefficients (N, or N x d decoupled) in regression's sign, bias, maximal variations, rows and facts.

    ``machine`` is what is certified: a point, and multipliers that prove its accuracy.
    """

    coefficients: Array
    bias: float
    maximal_variation: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    machine: "StoredVariation"


@dataclass(frozen=True, slots=True)
class Variation:
    """The choices of a machine of maximal variation, checked; rho is one number, or one for each component."""

    rho: Weights
    expansion: str
    ridge: float
    cutoff: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", weights_of(self.rho))
        if self.expansion not in ("shared", "decoupled"):
            raise DeclarationError(f"expansion must be 'shared' or 'decoupled', received {self.expansion!r}")
        non_negative(self.ridge, "ridge", "as the weight of a squared norm")
        positive(self.cutoff, "cutoff")

    def coordinates(self, matrices: list[Array]) -> ComponentCoordinates:
        """Return the coordinates of the chosen expansion."""
        make = shared_coordinates if self.expansion == "shared" else decoupled_coordinates
        return make(matrices, True, float(self.cutoff), float(self.ridge))

    def fit(
        self, kernel: Componentwise, X: Any, coordinates: ComponentCoordinates, y: Array, tolerance: float
    ) -> VariationFit:
        """Fit one target by generated rows; ``tolerance`` is that of a point whose active rows settle."""
        solved = solve_maximal_variation(coordinates, y, self.rho)
        how = "zero is optimal"
        if solved.rows:
            state = "active set polished" if solved.polished else "interior point, not polished"
            how = f"PIQP with {solved.rows} generated rows in {solved.rounds} rounds, {state}"
        a, b, xi = coordinates.expand(solved.v), coordinates.bias_of(y, solved.v), solved.xi_plus - solved.xi_minus
        components = kernel.components(X.shape[1])
        values = [
            component(X, X) @ a_l for component, a_l in zip(components, _columns(a, len(components)), strict=True)
        ]
        machine = StoredVariation(
            kernel=kernel,
            points=X,
            coordinates=coordinates,
            y=y,
            rho=self.rho,
            v=solved.v,
            xi=xi,
            a=a,
            b=b,
            fitted=np.sum(values, axis=0) + b,
            tolerance=tolerance if solved.polished else unpolished_tolerance(tolerance),
        )
        answer = machine.bound()
        facts = (*coordinates.record(), ("rho", in_words(self.rho)), ("solver", how), _RELATIVE)
        return VariationFit(
            coefficients=a,
            bias=b,
            maximal_variation=solved.maximal_variation,
            rows=(answer, *solution_rows(coordinates, y, self.rho, solved, _TOLERANCE)),
            facts=facts if answer.passes else (*facts, _UNKNOWN),
            machine=machine,
        )

    def fit_all(
        self, kernel: Componentwise, X: Any, Y: Array, tolerance: float, *, labels: bool
    ) -> tuple[list[MachineRows], list[VariationFit]]:
        """Fit the machine of every column; those on all rows share their coordinates."""
        matrices, machines, fits, whole = kernel_matrices(kernel, X), list(each_machine(Y, labels)), [], None
        for machine in machines:
            coordinates = whole if machine.whole else None
            if coordinates is None:
                coordinates = self.coordinates([machine.square(matrix) for matrix in matrices])
            whole = coordinates if machine.whole else whole
            fits.append(self.fit(kernel, machine.points(X, False), coordinates, machine.y, tolerance))
        return machines, fits


def _columns(a: Array, count: int) -> list[Array]:
    """Return the coefficients of every component."""
    return [a] * count if a.ndim == 1 else [np.ascontiguousarray(column) for column in a.T]


def keeps_all(kernel: Componentwise, X: Any, coordinates: ComponentCoordinates) -> bool:
    """Return whether there are no directions of the components beyond those that the cut-off keeps."""
    n, p = X.shape
    features = [component.rank(p) for component in kernel.components(p)]
    ranks = [n if rank is None else min(n, rank) for rank in features]
    if coordinates.is_decoupled:
        return all(kept >= rank for kept, rank in zip(coordinates.ranks, ranks, strict=True))
    return bool(coordinates.ranks[0] >= min(n - coordinates.bias, sum(ranks)))


def in_words(rho: Weights) -> str:
    """Return the weights as a certificate states them."""
    return f"{rho.min():g} to {rho.max():g}, one per component" if isinstance(rho, np.ndarray) else f"{rho:g}"


def smallest_rho(value: float, Y: Array) -> float:
    """Return a chosen weight; zero is replaced by the smallest positive number."""
    return max(value, 1e-9 * float(np.ptp(Y)) or 1e-9)


@dataclass(frozen=True, slots=True)
class StoredVariation:
    """One machine of maximal variation on its rows, and multipliers that prove its accuracy.

    The directions are those that the cut-off keeps, as double precision computes them; what the multipliers prove does
    not depend on how they were found. ``v`` are the coordinates of a point near the stored coefficients.
    """

    kernel: Componentwise
    points: Any
    coordinates: ComponentCoordinates
    y: Array
    rho: Weights
    v: Array
    xi: Array
    a: Array
    b: float
    fitted: Array
    tolerance: float
    checks: tuple[Row, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    def bound(self) -> Accuracy:
        """Return the row of the answer."""
        tolerance = Tolerance.of(self.y, np.ones(self.y.size), self.tolerance)
        if self.coordinates.bias and self._is_constant():
            return tolerance.row(self._distance_to_mean(), "|f - mean y| + rounding")
        row = self._machine().accuracy(*self._stored(), tolerance)
        row = replace(row, value=row.value + self._turn_of_directions() * row.spread)
        return row if keeps_all(self.kernel, self.points, self.coordinates) else with_cutoff(row)

    def certify(self) -> Added:
        """Bound the answer, beside the rows of the optimum."""
        row = self.bound()
        return (row, *self.checks), self.facts if row.passes else (*self.facts, _UNKNOWN)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        kernels, X, points, y, a, b, fitted = self._stored()
        tolerance = tolerance_in_balls(self.y, np.ones(self.y.size), self.tolerance)
        proof = prove_variation(kernels, X, points, self._machine(), y, a, b, fitted, tolerance)
        proof = replace(proof, accuracy=proof.accuracy + self._turn_of_directions() * proof.spread)
        complete = keeps_all(self.kernel, self.points, self.coordinates)
        return proof if complete else replace(proof, about=f"{proof.about} {WITH_CUTOFF}")

    def _is_constant(self) -> bool:
        """Return whether all components are the same at all rows, so that the bias is all there is."""
        kernels = self.kernel.components(self.points.shape[1])
        return all(float(np.ptp(component(self.points))) == 0.0 for component in kernels)

    def _distance_to_mean(self) -> float:
        """Bound the distance of the fitted values from the mean of the targets."""
        mean = math.fsum(self.y.tolist()) / self.y.size
        rounding = target_rounding(self.y.size, float(np.abs(self.y).max()))
        return float(np.abs(self.fitted - mean).max()) + rounding

    def _turn_of_directions(self) -> float:
        """Return how far rounding of kernel values turns the directions of a component, for the one that it turns most.

        It is first order: radii of the centred values over the smallest eigenvalue that is kept, with room for four.
        """
        n, p = self.points.shape
        share = 0.0
        for component in self.kernel.components(p):
            values = component.enclose(self.points, self.points)
            middle = values.middle - values.middle.mean(axis=0)
            eigenvalues = np.linalg.eigvalsh(middle - middle.mean(axis=1, keepdims=True))[::-1]
            rank = component.rank(p)
            kept = eigenvalues[: n if rank is None else min(n, rank)]
            kept = kept[kept > self.coordinates.cutoff * eigenvalues[0]]
            radius = float(np.max(values.radius))
            # with a ridge small directions are held by it
            share = max(share, n * radius / max(float(kept[-1]), self.coordinates.ridge) if kept.size else 0.0)
        return _ROOM * share

    def _machine(self) -> VariationMachine:
        coordinates = self.coordinates
        return VariationMachine(
            components=coordinates.parts,
            root=coordinates.weights,
            weights=np.ones(self.y.size),
            bias=coordinates.bias,
            ridge=coordinates.ridge,
            rho=self.rho,
            v=self.v,
            xi=self.xi,
        )

    def _stored(self) -> tuple[Any, Any, Any, Array, list[Array], float, Array]:
        """Return kernels, rows, points, targets, coefficients, bias and fitted values."""
        kernels = self.kernel.components(self.points.shape[1])
        return kernels, self.points, self.points, self.y, _columns(self.a, len(kernels)), self.b, self.fitted


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
        tolerance, labels = model._tolerance(), bool(model._labels)
        fits = self.recall_choices(Y).fit_all(model.kernel_, X, Y, tolerance, labels=labels)
        for machine_rows, fit in zip(*fits, strict=True):
            yield replace(
                fit.machine,
                a=np.ascontiguousarray(a[machine_rows.rows, machine_rows.column]),
                b=float(biases[machine_rows.column]),
                fitted=fitted[machine_rows.rows, machine_rows.column],
                checks=fit.rows[1:],
                facts=fit.facts,
            )

    def recall_choices(self, Y: Array) -> Variation:
        """Return the choices of the fit, by the fast path."""
        model = self.estimator
        chosen = getattr(model, "rho_", None)
        rho = self.own_rho() if chosen is None else self.read_rho(chosen, Y)
        return Variation(rho=rho, expansion=model.expansion, ridge=model.ridge, cutoff=model.cutoff)

    def read_rho(self, chosen: Any, Y: Array) -> Weights:
        """Return the weights that a fit chose, above zero."""
        return smallest_rho(float(chosen), Y)

    def own_rho(self) -> Weights:
        """Return the weights that were given, for the columns of the fit."""
        return float(self.estimator.rho)

    def group_facts(self) -> tuple[tuple[str, str], ...]:
        """Return the weight of every group of inputs, where there are some."""
        return ()
