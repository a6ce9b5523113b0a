"""What the machines of maximal variation say of their answer: the accuracy row, checks and proofs of what is stored."""

from dataclasses import replace
from typing import Any

import numpy as np

from problems.estimators.additive import DecoupledExpansion, component_matrices
from problems.estimators.coded import CodedClassifier, members_of
from problems.estimators.given_again import given_again, refuse_weights, rows_of_fit
from problems.estimators.sparse_answer import tolerance_of_solver
from problems.estimators.variation_fit import Variation, VariationFit
from substrate.arrays import EPS, Array
from substrate.certificates import Certificate, Row
from substrate.certificates.accuracy import ACCURATE
from substrate.closed_form.component_coordinates import ComponentCoordinates
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.closed_form.variation_accuracy import variation_accuracy
from substrate.errors import DataError
from substrate.kernels import Componentwise
from substrate.proof import Proof
from substrate.proof.variation import prove_variation

__all__ = ["VariationAnswers", "kernel_doubt", "smallest_rho", "with_answer"]

_UNKNOWN = (
    "rounding",
    "double precision cannot tell the answer to this tolerance; scale the columns, centre the inputs, or take a "
    "larger cutoff",
)
_UNPOLISHED = ("rounding", "the solver's point is not near enough; use solver='auto'")
_RELATIVE = ("answer", "the optimum in the directions that the cut-off keeps, as double precision computes them")


def kernel_doubt(kernel: Componentwise, X: Any, a: Array) -> Array:
    """How far the values of this expansion can be from those of exact kernel values: rounding of values and sums."""
    doubt = np.zeros(X.shape[0])
    for number, part in enumerate(kernel.components(X.shape[1])):
        s = np.sqrt(np.maximum(part.diag(X), 0.0))
        size = float(s @ np.abs(a if a.ndim == 1 else a[:, number]))
        doubt += 1.01 * (part.rounding(X) + (a.shape[0] + 2.0) * EPS) * size * s
    return doubt


def with_answer(
    kernel: Componentwise, X: Any, coordinates: ComponentCoordinates, y: Array, choices: Variation, fit: VariationFit
) -> VariationFit:
    """The fit with the row that bounds its answer in front."""
    a = fit.coefficients
    values = np.zeros(y.size)
    for number, part in enumerate(kernel.components(X.shape[1])):
        values += part(X) @ (a if a.ndim == 1 else a[:, number])
    # predict adds up in another order than this
    doubt = 2.0 * kernel_doubt(kernel, X, a)
    tolerance = tolerance_of_solver(choices.solver)
    row = variation_accuracy(
        coordinates, y, float(choices.rho), fit.witness, values + fit.bias, doubt, tolerance=tolerance
    )
    facts = (*fit.facts, _RELATIVE)
    if not row.passes:
        facts += (_UNKNOWN if tolerance == ACCURATE else _UNPOLISHED,)
    return replace(fit, rows=(row, *fit.rows), facts=facts)


def smallest_rho(value: float, Y: Array) -> float:
    """A chosen weight; a weight of nothing is the smallest weight there is."""
    return max(value, 1e-9 * float(np.ptp(Y)) or 1e-9)


class VariationAnswers(DecoupledExpansion):
    """``certify`` and ``prove`` of the machines of maximal variation, from what :meth:`predict` uses."""

    ridge: float
    cutoff: float

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the coefficients this model holds now against the training data, given again.

        The optimum is found anew, with multipliers that bound its distance from the exact one, and what
        :meth:`predict` returns is compared with it. ``X`` and ``y`` are those of the fit; there are no sample weights.
        """
        rows: list[tuple[Row, ...]] = []
        facts: dict[str, str] = {}
        for machine in self._stored(X, y, sample_weight):
            coordinates, target, choices, fit, fitted, doubt, _ = machine
            row = variation_accuracy(
                coordinates, target, float(choices.rho), fit.witness, fitted, doubt, tolerance=self._tolerance()
            )
            rows.append((row, *fit.rows))
            facts |= dict(fit.facts) | dict([_RELATIVE] if row.passes else [_RELATIVE, _UNKNOWN])
        title = f"{self.certificate_.title}, checked again"
        return Certificate(title, worst_rows(rows), (("kernel", repr(self.kernel_)), *facts.items()))

    def prove(self, X: Any, y: Any, sample_weight: Any = None) -> Proof:
        """Prove in ball arithmetic how near the fitted values are to those of the exact optimum.

        ``X`` and ``y`` are those of the fit; of a classifier its codes are fitted. The optimum is that in the
        directions which the cut-off keeps, as double precision computes them; a point and multipliers are found anew,
        and what they prove does not depend on how they were found. Needs python-flint,
        ``pip install "lssvm-substrate[proof]"``.
        """
        found = []
        for machine in self._stored(X, y, sample_weight):
            coordinates, target, choices, fit, fitted, _, (points, kernel, a, b) = machine
            found.append(
                prove_variation(
                    coordinates, target, float(choices.rho), fit.witness, fitted, kernel, points, a, b,
                    tolerance=self._tolerance(),
                )
            )  # fmt: skip
        return min(found, key=lambda one: one.digits)

    def _stored(self, X: Any, y: Any, sample_weight: Any) -> list[Any]:
        """Of every machine coordinates, target, choices, a witness, and what predict returns with its doubt."""
        refuse_weights(self, sample_weight)
        X, Y = given_again(self, X, y, labels=self._of_labels)
        rows = rows_of_fit(self, Y.shape[0])
        X, Y = X[rows], Y[rows]
        held = self._coefficients()
        if held.shape[0] != rows.size:
            raise DataError(f"the model has {held.shape[0]} support values, these are {rows.size} rows")
        one = held.ndim == (2 if self._decoupled else 1)
        a = held[:, None] if one else held
        fitted, biases = np.reshape(self._evaluated(X), Y.shape), np.atleast_1d(self.bias_)
        kernel: Any = self.kernel_
        matrices = component_matrices(kernel, X)
        choices = self._again(Y)
        found = []
        for column in range(Y.shape[1]):
            members = members_of(Y, column, self._of_labels)
            coordinates = choices.coordinates([matrix[np.ix_(members, members)] for matrix in matrices])
            target, points = np.ascontiguousarray(Y[members, column]), X[members]
            fit = choices.fit(coordinates, target)
            doubt = kernel_doubt(kernel, points, a[members, column])
            said = fitted[members, column]
            stored = (points, kernel, a[members, column], float(biases[column]))
            found.append((coordinates, target, choices, fit, said, doubt, stored))
        return found

    def _again(self, Y: Array) -> Variation:
        """The choices of the fit, by the fast path."""
        chosen = getattr(self, "best_parameter_", None)
        rho = float(self.rho) if chosen is None else smallest_rho(float(chosen), Y)  # type: ignore[attr-defined]
        return Variation(rho, self.expansion, self.ridge, self.cutoff, "auto")

    def _tolerance(self) -> float:
        return tolerance_of_solver(getattr(self, "solver", "auto"))

    @property
    def _of_labels(self) -> bool:
        return isinstance(self, CodedClassifier)
