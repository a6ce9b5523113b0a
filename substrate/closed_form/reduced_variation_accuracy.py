r"""How far the fitted values of maximal variation on a reduced basis are from those of its exact optimum.

In the notation of :mod:`~substrate.closed_form.reduced_variation`, with weights v of the stored expansions,
:math:`H = R^T R` and multipliers xi with :math:`\|\xi^l\|_1 \le \rho`, the duality gap is a sum of terms none of which
is negative,

.. math:: \tfrac12 \|f - f^\star\|^2 \le P - D = \tfrac12 \| R^{-T} g \|^2
          + \sum_l \Big( \rho \max_i |f^l(x_i)| - \sum_{i \in W} \xi^l_i f^l(x_i) \Big), \qquad
          g = \tau v - Z_c^T e + \sum_l \sum_{i \in W} \xi^l_i z^l_i .

The multipliers may come from anywhere: any that are within their balls are a dual point. Rounding of kernel values, of
components and of sums is added to each term.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from substrate.arrays import EPS, Array
from substrate.certificates.accuracy import Accuracy, accuracy_row
from substrate.certificates.doubled_precision import add, exact_product, minus
from substrate.closed_form.component_features import ComponentFeatures
from substrate.closed_form.variation_errors import VariationErrors, VariationErrorsOfLeaf
from substrate.streaming.passes import Passes
from substrate.streaming.source import Source
from substrate.streaming.target_summary import TargetSummary

__all__ = ["FORMULA", "VariationJudge"]

FORMULA = "sqrt(2 (primal - dual objective)) + rounding, over all rows"
_HALF = EPS / 2.0


def _value(row: Accuracy) -> float:
    return row.value


@dataclass(frozen=True, slots=True)
class VariationJudge:
    """All rows and the problem, in units of the targets; ``scatter`` and ``mean`` are those of the features.

    ``bounded`` are the rows that have multipliers ``xi``, one row of them per component.
    """

    values: ComponentFeatures
    source: Source
    passes: Passes
    targets: TargetSummary
    unit: float
    scatter: Array
    mean: Array
    rho: float
    ridge: float
    bounded: Any
    xi: Array
    tolerance: float

    def best(self, coefficients: Array, bias: float) -> Accuracy:
        """The row for stored coefficients, one column per component; with care where that is needed."""
        row = self.of(coefficients, bias, False)
        if not row.passes and not coefficients.any():
            # of a constant target no multiplier is needed, and those of a solver are rounding
            row = min(row, replace(self, xi=np.zeros_like(self.xi)).of(coefficients, bias, False), key=_value)
        return row if row.passes else min(row, self.of(coefficients, bias, True), key=_value)

    def of(self, coefficients: Array, bias: float, careful: bool) -> Accuracy:
        """In one pass over the rows."""
        parts = self.values.components
        points = parts[0].points
        sizes = np.column_stack(
            [np.sqrt(np.maximum(part.kernel.diag(points) if part.kernel is not None else 1.0, 0.0)) for part in parts]
        )
        centre = float(self.targets.about(self.unit)[0])
        leaf = VariationErrorsOfLeaf(parts, self.unit, coefficients, bias, sizes, centre, careful)
        found: VariationErrors = self.passes.without_checkpoint().sums(self.source, leaf, "errors of components")
        moved = self._moved(leaf, found, coefficients, sizes)
        root = math.sqrt(found.count)
        shift = found.shifts / found.count
        spread = self.unit * math.sqrt(max(found.spreads / found.count - shift**2, 0.0))
        bound = 1.01 * self.unit * moved / root
        rounding = found.count * EPS * float(np.abs(self.targets.extremes).max())
        formula = f"{FORMULA}, in doubled precision" if careful else FORMULA
        bound = bound if math.isfinite(bound) else math.inf
        return accuracy_row(bound, spread, formula, tolerance=self.tolerance, rounding=rounding)

    def _moved(self, leaf: VariationErrorsOfLeaf, found: VariationErrors, beta: Array, sizes: Array) -> float:
        root, unsure = math.sqrt(found.count), math.sqrt(found.unsure)
        length = math.sqrt(found.squares) + unsure
        spreads = np.sqrt(found.diagonal)
        terms = (16.0 if leaf.careful else 512.0) + found.count.bit_length() + 32.0
        xi = self.xi * np.minimum(1.0, self.rho / np.maximum(np.abs(self.xi).sum(axis=1), self.rho))[:, None]
        f, f_unsure = leaf.values(self.bounded) if xi.shape[1] else (np.zeros((0, len(xi))), np.zeros((0, len(xi))))
        pulls = leaf.pulled(self.bounded, xi) if xi.shape[1] else np.zeros_like(beta)
        v, gradient, rest, apart, off = [], [], 0.0, 0.0, []
        gap = 0.0
        for k, (T, place) in enumerate(zip(self.values.transforms, self.values.slices, strict=True)):
            weights, left = _weights(T, beta[:, k])
            v.append(weights)
            lost = float(sizes[:, k] @ left)  # of f at a row, in terms of its length
            apart += float(spreads[k]) * lost
            beside = math.sqrt(float(found.longest[k])) * lost
            top = float(found.largest[k]) + beside
            reached = float(xi[k] @ f[:, k]) - float(np.abs(xi[k]) @ (f_unsure[:, k] + beside))
            gap += max(self.rho * top - reached, 0.0) + 8.0 * EPS * self.rho * top
            product, check = exact_product(np.ascontiguousarray(T.T), found.slopes[:, k] - pulls[:, k])
            zero = np.zeros(T.shape[1])
            made = add((self.ridge * weights + self.mean[place] * found.total, zero), minus(product))
            gradient.append(made[0] + made[1])
            rest += float(np.sum((check + EPS * (self.ridge * np.abs(weights) + np.abs(made[0]))) ** 2))
            relative = (
                (float(found.rounding[k]) + terms * _HALF) * float(spreads[k]) * (length + abs(found.total) / root)
            )
            pulled = float(np.abs(xi[k]).sum()) * math.sqrt(float(found.longest[k]))
            relative += (float(found.rounding[k]) + xi.shape[1] * _HALF) * pulled
            off.append(relative * sizes[:, k] + 2.0 * EPS * (np.abs(found.slopes[:, k]) + np.abs(pulls[:, k])))
        R: Array = np.asarray(
            np.linalg.cholesky(self.scatter + self.ridge * np.eye(self.scatter.shape[0])).T, dtype=np.float64
        )
        energy = float(np.linalg.norm(solve_triangular(R, np.concatenate(gradient), trans="T")))
        energy += math.sqrt(rest / self.ridge)
        eta, doubt = self._eta(R, found, sizes, off, terms)
        if eta > 0.5:
            return math.inf
        energy = (energy + doubt) / math.sqrt(1.0 - eta) + unsure + apart
        gap += 0.5 * energy**2
        moved = math.sqrt(2.0 * gap) + apart + abs(found.total) / root + terms * _HALF * length
        # predict may add its components up in another order
        sizes_of_outputs = math.sqrt(found.spreads) + root * abs(leaf.centre) + length
        return moved + unsure + math.sqrt(found.apart) + (len(xi) + 2.0) * EPS * sizes_of_outputs

    def _eta(
        self, R: Array, found: VariationErrors, sizes: Array, off: list[Array], terms: float
    ) -> tuple[float, float]:
        """How well H is known, and what the rounding of the slopes may add to the norm of R^-T g."""
        r, inverse = R.shape[0], solve_triangular(R, np.eye(R.shape[0]), trans="T")
        moved, doubt = 0.0, np.zeros(r)
        for k, (T, place) in enumerate(zip(self.values.transforms, self.values.slices, strict=True)):
            across = np.abs(inverse[:, place] @ T.T)
            own = float(found.rounding[k]) + (T.shape[0] + 8.0) * _HALF
            moved += own * math.sqrt(float(found.diagonal[k])) * float(np.linalg.norm(across @ sizes[:, k]))
            doubt += across @ off[k]
        lengths = np.sqrt(self.scatter.diagonal() + found.count * self.mean**2)
        summed = (terms + 4096.0 + r) * _HALF * float(np.sum((np.abs(inverse) @ lengths) ** 2))
        return 2.0 * moved + moved**2 + summed + 4.0 * r * r * EPS, float(np.linalg.norm(doubt))


def _weights(T: Array, beta: Array) -> tuple[Array, Array]:
    """Weights v of an expansion, and a bound on ``abs(beta - T v)``, entry by entry."""
    squares = np.square(T).sum(axis=0)
    weights = np.where(squares > 0.0, (T.T @ beta) / np.where(squares > 0.0, squares, 1.0), 0.0)
    product, check = exact_product(T, weights)
    rest = add((beta, np.zeros_like(beta)), minus(product))
    return weights, np.abs(rest[0] + rest[1]) + check
