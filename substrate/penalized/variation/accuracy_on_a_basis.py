r"""How far the fitted values of maximal variation on a reduced basis are from those of its exact optimum.

In the notation of :mod:`~substrate.penalized.variation.on_a_basis`, with weights v of the stored expansions, :math:`H =
R^T R` and multipliers xi with :math:`\|\xi^l\|_1 \le \rho`, the duality gap is a sum of non-negative terms,

.. math:: \tfrac12 \|f - f^\star\|_v^2 \le P - D = \tfrac12 \| R^{-T} g \|^2
          + \sum_l \Big( \rho \max_i |f^l(x_i)| - \sum_{i \in W} \xi^l_i f^l(x_i) \Big), \qquad
          g = \tau v - Z_c^T V e + \sum_l \sum_{i \in W} \xi^l_i z^l_i .

Any multipliers within their balls are a dual point, however they were found. Rounding of kernel values, of
components and of sums is added to each term.

One pass over all rows computes errors, components and their rounding for the stored machine: the coefficients are those
that ``predict`` uses, one column per component. Where it is needed, kernel values are computed accurately and products
are summed in doubled precision (:mod:`~substrate.certificates.doubled_precision`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from scipy.linalg import solve_triangular

from substrate.arrays import Array
from substrate.certificates.doubled_precision import Pair, add, exact_product, minus
from substrate.certificates.enclosed import UNIT
from substrate.certificates.rounding import OF_PAIRS, relative_rounding, target_rounding
from substrate.certificates.rows import Accuracy, accuracy_row, in_kept_directions
from substrate.penalized.variation.component_features import ComponentFeatures
from substrate.reduced.rows import BasisValues
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import Block, Source
from substrate.streaming.survey import TargetSummary
from substrate.streaming.tally import Tally

__all__ = ["FORMULA", "VariationErrors", "VariationErrorsOfLeaf", "VariationJudge"]

_HALF = UNIT
_ROWS = 512


@dataclass(frozen=True, slots=True)
class VariationErrors(Tally):
    """Sums over rows: e; squares of e, of targets about a centre, of error bounds and of deviations of predict.

    Sums are weighted where rows have weights, and ``mass`` is that of all rows. One number per component: ``slopes``
    K_l'e (one column each), ``diagonal`` the sum of k_l(x, x); and the largest ``abs(f^l)`` with its rounding,
    k_l(x, x), and relative error of a kernel value.
    """

    count: int
    mass: float
    total: float
    squares: float
    shifts: float
    spreads: float
    unsure: float
    apart: float
    slopes: Array
    diagonal: Array
    largest: Annotated[Array, np.maximum]
    longest: Annotated[Array, np.maximum]
    rounding: Annotated[Array, np.maximum]


@dataclass(frozen=True, slots=True)
class VariationErrorsOfLeaf:
    """The machine in units of the targets: one expansion per component over the same basis vectors."""

    components: tuple[BasisValues, ...]
    unit: float
    coefficients: Array
    bias: float
    sizes: Array
    centre: float
    careful: bool

    def __call__(self, blocks: Iterable[Block]) -> VariationErrors:
        """Over the micro-blocks of a leaf."""
        m, d = self.coefficients.shape
        none = np.zeros(d)
        total = VariationErrors(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, np.zeros((m, d)), none, none, none, none)
        for block in blocks:
            p = self._rounding(block.X)
            for first in range(0, block.X.shape[0], _ROWS):
                some = slice(first, min(first + _ROWS, block.X.shape[0]))
                light = None if block.weights is None else block.weights[some]
                total = total + self._of_rows(block.X[some], block.Y[some, 0] / self.unit, light, p)
        return total

    def values(self, X: Any) -> tuple[Array, Array]:
        """f^l of given rows, one column per component, and a bound on their errors."""
        f, unsure, _ = self._values(self._tiles(X), X, self._rounding(X))
        return f[0] + f[1], unsure

    def pulled(self, X: Any, multipliers: Array) -> Array:
        """K_l'xi_l of given rows, one column per component."""
        return np.column_stack([tile.T @ xi for tile, xi in zip(self._tiles(X), multipliers, strict=True)])

    def _of_rows(self, X: Any, known: Array, light: Array | None, p: Array) -> VariationErrors:
        tiles, zero = self._tiles(X), np.zeros_like(known)
        (high, low), unsure, lengths = self._values(tiles, X, p)
        rest: Pair = add((known, zero), (np.full_like(known, -self.bias), zero))
        for k in range(p.size):
            rest = add(rest, minus((high[:, k], low[:, k])))
        e = rest[0] + rest[1]
        off = (
            unsure.sum(axis=1)
            + relative_rounding(1.0) * np.abs(e)
            + OF_PAIRS * (np.abs(known) + np.abs(high).sum(axis=1))
        )
        sums = zero
        for values, tile, beta in zip(self.components, tiles, self.coefficients.T, strict=True):
            plain = _values_of(values, X, False) if self.careful else tile  # those that predict uses
            sums = sums + plain @ beta
        about = known - self.centre
        apart = known - e - (sums + self.bias)
        squared = np.square(lengths)
        e_v, about_v, off_v, apart_v = (x if light is None else light * x for x in (e, about, off, apart))
        slopes = np.column_stack([self._slope(tile, e_v) for tile in tiles])
        mass = float(known.size if light is None else light.sum())
        diagonal = squared.sum(axis=0) if light is None else light @ squared
        return VariationErrors(
            known.size,
            mass,
            float(e_v.sum()),
            float(e @ e_v),
            float(about_v.sum()),
            float(about @ about_v),
            float(off @ off_v),
            float(apart @ apart_v),
            slopes,
            diagonal,
            (np.abs(high + low) + unsure).max(axis=0),
            squared.max(axis=0),
            p,
        )

    def _values(self, tiles: list[Array], X: Any, p: Array) -> tuple[Pair, Array, Array]:
        n, (m, d) = tiles[0].shape[0], self.coefficients.shape
        high, low, unsure, lengths = (np.zeros((n, d)) for _ in range(4))
        for k, (values, tile) in enumerate(zip(self.components, tiles, strict=True)):
            beta = self.coefficients[:, k]
            lengths[:, k] = values.sizes(X)
            size = lengths[:, k] * float(self.sizes[:, k] @ np.abs(beta))
            if self.careful:
                (high[:, k], low[:, k]), check = exact_product(tile, beta)
                unsure[:, k] = check + p[k] * size
            else:
                high[:, k] = tile @ beta
                unsure[:, k] = (p[k] + (m + 4.0) * _HALF) * size
        return (high, low), unsure, lengths

    def _slope(self, tile: Array, e: Array) -> Array:
        if not self.careful:
            return np.asarray(tile.T @ e)
        (high, low), _ = exact_product(np.ascontiguousarray(tile.T), e)
        return high + low

    def _rounding(self, X: Any) -> Array:
        """Return the relative errors of kernel values, one per component."""
        return np.array(
            [values.careful_rounding(X) if self.careful else values.rounding(X) for values in self.components]
        )

    def _tiles(self, X: Any) -> list[Array]:
        return [_values_of(values, X, self.careful) for values in self.components]


def _values_of(values: BasisValues, X: Any, careful: bool) -> Array:
    out = np.empty((X.shape[0], values.n_basis))
    (values.fill_carefully if careful else values.fill)(X, out)
    return out


FORMULA = "sqrt(2 (primal - dual objective)) + rounding, over all rows"


def _value(row: Accuracy) -> float:
    return row.value


@dataclass(frozen=True, slots=True)
class VariationJudge:
    """All rows and the problem, in units of the targets; ``scatter`` and ``mean`` are those of the features.

    ``bounded`` are the rows that have multipliers ``xi``, one row of them per component.
    """

    values: ComponentFeatures
    source: Source
    passes: OpenPasses
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
        """The row for stored coefficients, one column per component; in doubled precision where needed."""
        row = self.of(coefficients, bias, False)
        if not row.passes and not coefficients.any():
            # a constant target needs no multiplier, and those of a solver are rounding
            row = min(row, replace(self, xi=np.zeros_like(self.xi)).of(coefficients, bias, False), key=_value)
        row = row if row.passes else min(row, self.of(coefficients, bias, True), key=_value)
        return row if self.values.complete else in_kept_directions(row)

    def of(self, coefficients: Array, bias: float, careful: bool) -> Accuracy:
        """The row from one pass over the rows."""
        parts = self.values.components
        sizes = np.column_stack([part.sizes(parts[0].points) for part in parts])
        centre = float(self.targets.means_in(self.unit)[0])
        leaf = VariationErrorsOfLeaf(parts, self.unit, coefficients, bias, sizes, centre, careful)
        found: VariationErrors = self.passes.without_checkpoint().sums(self.source, leaf, "errors of components")
        moved = self._moved(leaf, found, coefficients, sizes)
        root = math.sqrt(found.mass)
        shift = found.shifts / found.mass
        spread = self.unit * math.sqrt(max(found.spreads / found.mass - shift**2, 0.0))
        bound = 1.01 * self.unit * moved / root
        rounding = target_rounding(found.count, float(np.abs(self.targets.extremes).max()))
        formula = f"{FORMULA}, in doubled precision" if careful else FORMULA
        bound = bound if math.isfinite(bound) else math.inf
        return accuracy_row(bound, spread, formula, tolerance=self.tolerance, rounding=rounding)

    def _moved(self, leaf: VariationErrorsOfLeaf, found: VariationErrors, beta: Array, sizes: Array) -> float:
        root, unsure = math.sqrt(found.mass), math.sqrt(found.unsure)
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
            lost = float(sizes[:, k] @ left)  # of f at a row, relative to its length
            apart += float(spreads[k]) * lost
            beside = math.sqrt(float(found.longest[k])) * lost
            top = float(found.largest[k]) + beside
            reached = float(xi[k] @ f[:, k]) - float(np.abs(xi[k]) @ (f_unsure[:, k] + beside))
            gap += max(self.rho * top - reached, 0.0) + relative_rounding(8.0) * self.rho * top
            product, check = exact_product(np.ascontiguousarray(T.T), found.slopes[:, k] - pulls[:, k])
            zero = np.zeros(T.shape[1])
            made = add((self.ridge * weights + self.mean[place] * found.total, zero), minus(product))
            gradient.append(made[0] + made[1])
            rest += float(
                np.sum((check + relative_rounding(1.0) * (self.ridge * np.abs(weights) + np.abs(made[0]))) ** 2)
            )
            relative = (
                (float(found.rounding[k]) + terms * _HALF) * float(spreads[k]) * (length + abs(found.total) / root)
            )
            pulled = float(np.abs(xi[k]).sum()) * math.sqrt(float(found.longest[k]))
            relative += (float(found.rounding[k]) + xi.shape[1] * _HALF) * pulled
            off.append(
                relative * sizes[:, k] + relative_rounding(2.0) * (np.abs(found.slopes[:, k]) + np.abs(pulls[:, k]))
            )
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
        # predict may add its components in another order
        sizes_of_outputs = math.sqrt(found.spreads) + root * abs(leaf.centre) + length
        return moved + unsure + math.sqrt(found.apart) + relative_rounding(len(xi) + 2.0) * sizes_of_outputs

    def _eta(
        self, R: Array, found: VariationErrors, sizes: Array, off: list[Array], terms: float
    ) -> tuple[float, float]:
        """The accuracy of H, and the effect of the rounding of the slopes on the norm of R^-T g."""
        r, inverse = R.shape[0], solve_triangular(R, np.eye(R.shape[0]), trans="T")
        moved, doubt = 0.0, np.zeros(r)
        for k, (T, place) in enumerate(zip(self.values.transforms, self.values.slices, strict=True)):
            across = np.abs(inverse[:, place] @ T.T)
            own = float(found.rounding[k]) + (T.shape[0] + 8.0) * _HALF
            moved += own * math.sqrt(float(found.diagonal[k])) * float(np.linalg.norm(across @ sizes[:, k]))
            doubt += across @ off[k]
        lengths = np.sqrt(self.scatter.diagonal() + found.mass * self.mean**2)
        summed = (terms + 4096.0 + r) * _HALF * float(np.sum((np.abs(inverse) @ lengths) ** 2))
        return 2.0 * moved + moved**2 + summed + relative_rounding(4.0 * r * r), float(np.linalg.norm(doubt))


def _weights(T: Array, beta: Array) -> tuple[Array, Array]:
    """Weights v of an expansion, and a bound on ``abs(beta - T v)``, entry by entry."""
    squares = np.square(T).sum(axis=0)
    weights = np.where(squares > 0.0, (T.T @ beta) / np.where(squares > 0.0, squares, 1.0), 0.0)
    product, check = exact_product(T, weights)
    rest = add((beta, np.zeros_like(beta)), minus(product))
    return weights, np.abs(rest[0] + rest[1]) + check
