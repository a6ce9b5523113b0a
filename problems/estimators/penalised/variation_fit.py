"""The fit of maximal variation, and the checks and proofs of its answer."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.estimators.shared.base import Added
from substrate.arrays import Array, check_memory, is_sparse, non_negative, positive
from substrate.bounds.proof import Proof, prove_variation, tolerance_in_balls
from substrate.certificate import (
    WITH_CUTOFF,
    Accuracy,
    Row,
    Tolerance,
    power_of_two,
    unpolished_tolerance,
)
from substrate.errors import DeclarationError
from substrate.fits.coordinates import ComponentCoordinates, decoupled_coordinates, shared_coordinates
from substrate.fits.variation import solution_rows, solve_maximal_variation
from substrate.ingredients import Weights, weights_of
from substrate.kernels import Componentwise
from substrate.numbers import relative_rounding
from substrate.operators.gram import Gram
from substrate.penalties import VariationMachine

__all__ = ["FittedVariation", "Variation", "kernel_matrices"]

#: Relative residual of the optimality conditions at which a fit counts as solved.
_TOLERANCE = 1e-6
_UNKNOWN = (
    "rounding",
    "double precision cannot give the answer to this tolerance; scale the columns, centre the inputs, or take a "
    "ridge or a larger cutoff",
)
#: Room for what a first-order bound leaves out.
_ROOM = 4.0
_RELATIVE = ("answer", "the optimum in the directions that the cut-off keeps, as double precision computes them")


def kernel_matrices(kernel: Componentwise, X: Any) -> list[Array]:
    """Return the kernel matrices of the components at the points, refused if they do not fit memory."""
    components = kernel.components(X.shape[1])
    n = X.shape[0]
    check_memory(
        3.0 * 8.0 * len(components) * n**2, f"{len(components)} component matrices", "Take fewer rows or fewer inputs."
    )
    matrices = [component(X) for component in components]
    for component, matrix in zip(components, matrices, strict=True):
        if not component.trusted:
            Gram.from_matrix(matrix).check_definite()
    return matrices


@dataclass(frozen=True, slots=True)
class Variation:
    """The choices of a machine of maximal variation other than rho, checked."""

    expansion: str
    ridge: float
    cutoff: float

    def __post_init__(self) -> None:
        if self.expansion not in ("shared", "decoupled"):
            raise DeclarationError(f"expansion must be 'shared' or 'decoupled', received {self.expansion!r}")
        non_negative(self.ridge, "ridge", "as the weight of a squared norm")
        positive(self.cutoff, "cutoff")

    def coordinates(
        self, matrices: list[Array], energies: list[Array] | None = None, mass: Array | None = None
    ) -> ComponentCoordinates:
        """Return the coordinates of the chosen expansion; ``energies`` are the kernel matrices of a basis."""
        make = shared_coordinates if self.expansion == "shared" else decoupled_coordinates
        return make(matrices, True, float(self.cutoff), float(self.ridge), energies=energies, mass=mass)

    def fit(
        self,
        kernel: Componentwise,
        X: Any,
        points: Any,
        coordinates: ComponentCoordinates,
        y: Array,
        rho: Weights,
        tolerance: float,
    ) -> "FittedVariation":
        """Fit one target by generated rows; ``tolerance`` applies to a point whose active rows settle."""
        size = float(np.abs(y).max())
        unit = 1.0 if 1e-100 < size < 1e100 else power_of_two(size)
        solved = solve_maximal_variation(coordinates, y / unit, rho / unit)
        how = "zero is optimal"
        if solved.rows:
            state = "active set polished" if solved.polished else "interior point, not polished"
            how = f"PIQP with {solved.rows} generated rows in {solved.rounds} rounds, {state}"
        v, xi = unit * solved.v, unit * (solved.xi_plus - solved.xi_minus)
        a, b = coordinates.expand(v), unit * coordinates.bias_of(y / unit, solved.v)
        components = kernel.components(X.shape[1])
        Z = X if points is None else points
        values = [
            component(X, Z) @ a_l for component, a_l in zip(components, _columns(a, len(components)), strict=True)
        ]
        return FittedVariation(
            kernel=kernel,
            X=X,
            points=points,
            coordinates=coordinates,
            y=y,
            rho=rho,
            v=v,
            xi=xi,
            a=a,
            b=b,
            fitted=np.sum(values, axis=0) + b,
            tolerance=tolerance if solved.polished else unpolished_tolerance(tolerance),
            maximal_variation=unit * solved.maximal_variation,
            checks=solution_rows(coordinates, y / unit, rho / unit, solved, _TOLERANCE),
            facts=(*coordinates.record(), ("rho", in_words(rho)), ("solver", how), _RELATIVE),
        )

    def fit_all(
        self,
        kernel: Componentwise,
        X: Any,
        Y: Array,
        rho: Weights,
        tolerance: float,
        *,
        weights: Array | None = None,
        points: Any = None,
    ) -> list["FittedVariation"]:
        """Fit the machine of every column in the same coordinates; rho is one number, or one for each component, and
        ``points`` are the points of a basis.
        """
        matrices, energies = kernel_matrices(kernel, X if points is None else points), None
        if points is not None:
            check_memory(
                24.0 * len(matrices) * X.shape[0] * sum(matrix.shape[0] for matrix in matrices),
                f"the features of {len(matrices)} components at {X.shape[0]} rows",
                "Take a smaller basis, a larger cutoff, or fewer rows.",
            )
            energies, matrices = matrices, [component(X, points) for component in kernel.components(X.shape[1])]
        mass = None if weights is None or (weights == 1.0).all() else weights
        coordinates = self.coordinates(matrices, energies, mass)
        weights_of_components = weights_of(rho)
        shared = (kernel, X, points, coordinates)
        return [self.fit(*shared, y, weights_of_components, tolerance) for y in np.ascontiguousarray(Y.T)]


def _columns(a: Array, count: int) -> list[Array]:
    """Return the coefficients of every component."""
    return [a] * count if a.ndim == 1 else [np.ascontiguousarray(column) for column in a.T]


def keeps_all(kernel: Componentwise, points: Any, coordinates: ComponentCoordinates, balanced: bool) -> bool:
    """Return whether the cut-off keeps all directions of the components.

    ``balanced`` is whether coefficients of the points sum to zero.
    """
    n, p = points.shape
    features = [component.rank(p) for component in kernel.components(p)]
    ranks = [n if rank is None else min(n, rank) for rank in features]
    if coordinates.is_decoupled:
        return all(kept >= rank for kept, rank in zip(coordinates.ranks, ranks, strict=True))
    return bool(coordinates.ranks[0] >= min(n - balanced, sum(ranks)))


def in_words(rho: Weights) -> str:
    """Return the weights as a certificate states them."""
    return f"{rho.min():g} to {rho.max():g}, one per component" if isinstance(rho, np.ndarray) else f"{rho:g}"


@dataclass(frozen=True, slots=True)
class FittedVariation:
    """One machine of maximal variation on its rows: its maximal variations, and multipliers that prove its accuracy.

    The coefficients ``a`` are N numbers in regression's sign, or N x d where decoupled. The directions are those that
    the cut-off keeps, as double precision computes them; the multipliers prove it however they were found. ``v`` are
    the coordinates of a point near the stored coefficients.
    """

    kernel: Componentwise
    X: Any
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
    maximal_variation: Array
    checks: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]

    @property
    def weights(self) -> Array:
        """Return the weights of the rows."""
        return np.ones(self.y.size) if self.coordinates.mass is None else self.coordinates.mass

    def bound(self) -> Accuracy:
        """Return the row of the answer."""
        tolerance = Tolerance.of(self.y, self.weights, self.tolerance)
        if self.coordinates.bias and self._is_constant():
            return tolerance.row(self._distance_to_mean(), "|f - mean y| + rounding")
        row = self._machine().accuracy(*self._stored(), tolerance)
        row = replace(row, value=row.value + self._turn_of_directions() * row.spread)
        return row if self._keeps_all() else replace(row, about=f"{row.about} {WITH_CUTOFF}")

    def certify(self) -> Added:
        """Bound the answer, in addition to the rows of the optimum."""
        row = self.bound()
        return (row, *self.checks), self.facts if row.passes else (*self.facts, _UNKNOWN)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        kernels, X, points, y, a, b, fitted = self._stored()
        tolerance = tolerance_in_balls(self.y, self.weights, self.tolerance)
        proof = prove_variation(kernels, X, points, self._machine(), y, a, b, fitted, tolerance)
        proof = replace(proof, value=proof.accuracy + self._turn_of_directions() * proof.spread)
        return proof if self._keeps_all() else replace(proof, about=f"{proof.about} {WITH_CUTOFF}")

    def _keeps_all(self) -> bool:
        Z = self.X if self.points is None else self.points
        return keeps_all(self.kernel, Z, self.coordinates, self.coordinates.bias and self.points is None)

    def _is_constant(self) -> bool:
        """Return whether all rows are equal in the columns of the components, so that only the bias remains.

        Kernel values that are equal as computed may differ by less than their rounding, which decides nothing.
        """
        looked_at = sorted({c for component in self.kernel.components(self.X.shape[1]) for c in component.columns})
        columns = self.X[:, looked_at]
        columns = columns.toarray() if is_sparse(columns) else columns
        return bool((columns == columns[:1]).all())

    def _distance_to_mean(self) -> float:
        """Bound the distance of the fitted values from the mean of the targets."""
        mean = math.fsum((self.weights * self.y).tolist()) / math.fsum(self.weights.tolist())
        rounding = relative_rounding(self.y.size) * float(np.abs(self.y).max())
        return float(np.abs(self.fitted - mean).max()) + rounding

    def _turn_of_directions(self) -> float:
        """Bound how far rounding of kernel values turns the directions of a component, the largest over the components.

        It is first order: radii of the centred values over the smallest eigenvalue that is kept, with room for four.
        On a basis the directions belong to the features as computed, and none is turned.
        """
        if self.points is not None:
            return 0.0
        n, p = self.X.shape
        share = 0.0
        for component in self.kernel.components(p):
            values = component.enclose(self.X, self.X)
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
            weights=self.weights,
            bias=coordinates.bias,
            ridge=coordinates.ridge,
            rho=self.rho,
            v=self.v,
            xi=self.xi,
        )

    def _stored(self) -> tuple[Any, Any, Any, Array, list[Array], float, Array]:
        """Return kernels, rows, points, targets, coefficients, bias and fitted values."""
        kernels, Z = self.kernel.components(self.X.shape[1]), self.X if self.points is None else self.points
        return kernels, self.X, Z, self.y, _columns(self.a, len(kernels)), self.b, self.fitted
