r"""How far the fitted values of maximal variation on a reduced basis are from those of its exact optimum.

In the notation of :mod:`~substrate.penalized.variation.on_a_basis`, with weights v of the stored expansions, :math:`H =
R^T R` and multipliers xi with :math:`\|\xi^l\|_1 \le \rho`, the duality gap is a sum of non-negative terms,

.. math:: \tfrac12 \|f - f^\star\|_v^2 \le P - D = \tfrac12 \| R^{-T} g \|^2
          + \sum_l \Big( \rho \max_i |f^l(x_i)| - \sum_{i \in W} \xi^l_i f^l(x_i) \Big), \qquad
          g = \tau v - Z_c^T V e + \sum_l \sum_{i \in W} \xi^l_i z^l_i .

Any multipliers within their balls are a dual point, however they were found. The last sum is bounded as in
:mod:`~substrate.penalized.variation.accuracy`, and H as in :mod:`~substrate.reduced.curvature`; rounding of kernel
values, of components and of sums is in the radius of each term.

One pass over all rows computes errors, components and their rounding for the stored machine: the coefficients are those
that ``predict`` uses, one column per component. Where it is needed, kernel values are computed accurately and products
are summed in doubled precision (:mod:`~substrate.certificates.doubled_precision`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from scipy.linalg import block_diag

from substrate.arrays import Array
from substrate.certificates.doubled_precision import exact_sum
from substrate.certificates.enclosed import Double, Doubled, at_most, sum_rounding
from substrate.certificates.rows import Accuracy, with_cutoff
from substrate.certificates.tolerance import Tolerance
from substrate.penalized.variation.accuracy import bound_slack_below, shrink, sum_of
from substrate.penalized.variation.component_features import ComponentFeatures
from substrate.reduced.curvature import Curvature
from substrate.reduced.features import EigenFeatures
from substrate.reduced.row_products import CHUNK, terms_in_parts
from substrate.reduced.rows import BasisValues
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import LEAF, Block, Source
from substrate.streaming.summation import highest
from substrate.streaming.survey import TargetSummary
from substrate.streaming.tally import Tally

__all__ = ["FORMULA", "VariationBound", "VariationErrors", "VariationErrorsOfLeaf"]

#: Rows of a tile.
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
    radius_squares: float
    distance_squares: float
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
        """Accumulate over the micro-blocks of a leaf."""
        m, d = self.coefficients.shape
        none = np.zeros(d)
        total = VariationErrors(
            count=0,
            mass=0.0,
            total=0.0,
            squares=0.0,
            shifts=0.0,
            spreads=0.0,
            radius_squares=0.0,
            distance_squares=0.0,
            slopes=np.zeros((m, d)),
            diagonal=none,
            largest=none,
            longest=none,
            rounding=none,
        )
        for block in blocks:
            p = self._rounding(block.X)
            for first in range(0, block.X.shape[0], _ROWS):
                rows = slice(first, min(first + _ROWS, block.X.shape[0]))
                light = None if block.weights is None else block.weights[rows]
                total = total + self._of_rows(block.X[rows], block.Y[rows, 0] / self.unit, light, p)
        return total

    def values(self, X: Any) -> list[Doubled]:
        """Return f^l of given rows, one vector per component."""
        return self._values(self._tiles(X), X, self._rounding(X))[0]

    def pull(self, X: Any, multipliers: Array) -> Array:
        """Return K_l'xi_l of given rows, one column per component."""
        return np.column_stack([tile.T @ xi for tile, xi in zip(self._tiles(X), multipliers, strict=True)])

    def _of_rows(self, X: Any, targets: Array, light: Array | None, p: Array) -> VariationErrors:
        tiles = self._tiles(X)
        values, lengths = self._values(tiles, X, p)
        errors = (Doubled.exact(targets) - self.bias - sum_of(values)).round()
        e, radius = errors.middle, np.broadcast_to(errors.radius, targets.shape)
        sums = np.zeros_like(targets)
        for component, tile, beta in zip(self.components, tiles, self.coefficients.T, strict=True):
            plain = _values_of(component, X, False) if self.careful else tile  # those that predict uses
            sums = sums + plain @ beta
        about = targets - self.centre
        difference = targets - e - (sums + self.bias)
        squared = np.square(lengths)
        e_v, about_v, off_v, apart_v = (x if light is None else light * x for x in (e, about, radius, difference))
        slopes = np.column_stack([self._slope(tile, e_v) for tile in tiles])
        mass = float(targets.size if light is None else light.sum())
        diagonal = squared.sum(axis=0) if light is None else light @ squared
        return VariationErrors(
            count=targets.size,
            mass=mass,
            total=exact_sum(e_v),
            squares=float(e @ e_v),
            shifts=float(about_v.sum()),
            spreads=float(about @ about_v),
            radius_squares=float(radius @ off_v),
            distance_squares=float(difference @ apart_v),
            slopes=slopes,
            diagonal=diagonal,
            largest=np.array([value.round().sizes.max() for value in values]),
            longest=squared.max(axis=0),
            rounding=p,
        )

    def _values(self, tiles: list[Array], X: Any, p: Array) -> tuple[list[Doubled], Array]:
        """Return f^l of every component, and the roots of k_l(x, x), one column per component.

        A kernel value is known to p of the lengths of its points, and a sum of m products in working precision to m u
        of their sizes, with a few more for the sizes themselves.
        """
        components, lengths = [], np.empty((tiles[0].shape[0], len(tiles)))
        for k, (component, tile, beta) in enumerate(zip(self.components, tiles, self.coefficients.T, strict=True)):
            lengths[:, k] = component.sizes(X)
            size = lengths[:, k] * float(self.sizes[:, k] @ np.abs(beta))
            if self.careful:
                components.append((Doubled.exact(tile) @ beta).absorb(Double(p[k] * size)))
            else:
                components.append(Doubled(tile @ beta, None, (p[k] + sum_rounding(beta.size + 4)) * size))
        return components, lengths

    def _slope(self, tile: Array, e: Array) -> Array:
        if not self.careful:
            return np.asarray(tile.T @ e)
        return (Doubled.exact(np.ascontiguousarray(tile.T)) @ e).midpoint

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
class VariationBound:
    """All rows and the problem, in units of the targets; ``scatter`` and ``mean`` are those of the features.

    ``bounded`` are the rows that have multipliers ``xi``, one row of them per component; ``share`` is what is permitted
    relative to the spread of the user's y, which is summed over the same rows.
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
    share: float

    def best(self, coefficients: Array, bias: float) -> Accuracy:
        """Return the row for stored coefficients, one column per component; in doubled precision where needed."""
        row = self.of(coefficients, bias, False)
        if not row.passes and not coefficients.any():
            # a constant target needs no multiplier, and those of a solver are rounding
            row = min(row, replace(self, xi=np.zeros_like(self.xi)).of(coefficients, bias, False), key=_value)
        row = row if row.passes else min(row, self.of(coefficients, bias, True), key=_value)
        return row if self.values.complete else with_cutoff(row)

    def of(self, coefficients: Array, bias: float, careful: bool) -> Accuracy:
        """Return the row from one pass over the rows."""
        components = self.values.components
        sizes = np.column_stack([component.sizes(components[0].points) for component in components])
        centre = float(self.targets.means_in(self.unit)[0])
        leaf = VariationErrorsOfLeaf(
            components=components,
            unit=self.unit,
            coefficients=coefficients,
            bias=bias,
            sizes=sizes,
            centre=centre,
            careful=careful,
        )
        errors: VariationErrors = self.passes.sums(self.source, leaf, "errors of components")
        bound = self._bound(leaf, errors, coefficients, sizes).upper() * self.unit / math.sqrt(errors.mass)
        formula = f"{FORMULA}, in doubled precision" if careful else FORMULA
        return self._tolerance_of(errors).row(bound, formula)

    def _tolerance_of(self, found: VariationErrors) -> Tolerance:
        """Return the absolute error that is permitted, from the sums over the user's targets."""
        largest = float(np.abs(self.targets.extremes).max())
        sums = (found.count, found.mass, found.shifts, found.spreads)
        return Tolerance.of_sums(*sums, largest, self.unit, self.share)

    def _bound(self, leaf: VariationErrorsOfLeaf, found: VariationErrors, beta: Array, sizes: Array) -> Double:
        r"""Bound the norm of f - f*.

        The dual point is made of the errors as they were computed, less their mean. Those of the point v differ by
        their rounding and by what the coefficients are from T v, at every row by at most
        :math:`\sqrt{k^l(x, x)} \sum_j |\beta^l_j - (T v)_j|\, k^l(z_j, z_j)^{1/2}`.
        """
        root, radius = math.sqrt(found.mass), math.sqrt(found.radius_squares)
        length, total = math.sqrt(found.squares), abs(found.total)
        spreads, longest = np.sqrt(found.diagonal), np.sqrt(found.longest)
        summed = sum_rounding(_terms(found.count, leaf.careful))
        xi = shrink(self.xi, self.rho)
        values = leaf.values(self.bounded) if xi.shape[1] else None
        pulls = leaf.pull(self.bounded, xi) if xi.shape[1] else np.zeros_like(beta)
        gradient, radii, slack, distance_of_weights = [], [], Double(0.0), 0.0
        for k, (T, place) in enumerate(zip(self.values.transforms, self.values.slices, strict=True)):
            weights, remainder = _weights(T, beta[:, k])
            lost = float(sizes[:, k] @ remainder)
            distance_of_weights += float(spreads[k]) * lost
            beside = Double(float(longest[k]) * lost)
            top = (beside + float(found.largest[k])).upper_ends()
            near = Doubled.exact(np.zeros(0)) if values is None else values[k].absorb(beside)
            slack = slack + bound_slack_below(Doubled, near, xi[k], self.rho, top)
            s = Doubled.exact(found.slopes[:, k]) - pulls[:, k]
            g = Doubled.exact(weights) * self.ridge + Doubled.exact(self.mean[place]) * found.total
            gradient.append((g - Doubled.exact(np.ascontiguousarray(T.T)) @ s).round())
            # of kernel values and of sums: in the slopes, in the mean that the total multiplies, and in the pulls
            share = (found.rounding[k] + summed) * spreads[k] * (length + 4.0 * total / root)
            share += (found.rounding[k] + sum_rounding(xi.shape[1])) * np.abs(xi[k]).sum() * longest[k]
            radii.append(share * sizes[:, k])
        reach = self._curvature(found, sizes).at(self.ridge, float(found.rounding.max()), 1.0)
        if not reach.is_known:
            return Double(math.inf)
        whole = np.concatenate([enclosed.middle for enclosed in gradient])
        off = np.concatenate([np.broadcast_to(enclosed.radius, enclosed.middle.shape) for enclosed in gradient])
        # leaves of exact sums add up in a tree, in the direction of the mean
        total_off = root * sum_rounding(highest(found.count) + LEAF // _ROWS) * length
        energy = float(np.linalg.norm(reach.root @ whole))
        energy += sum_rounding(whole.size) * float(np.linalg.norm(np.abs(reach.root) @ np.abs(whole)))
        energy += float(np.linalg.norm(reach.root @ self.mean)) * total_off
        energy = energy / math.sqrt(1.0 - reach.eta) + float(reach.of_rounding(off[:, None], self.ridge)[0])
        energy += float(reach.of_radius(np.concatenate(radii)[:, None], sharp=False)[0])
        missed = Double(at_most(energy)) + radius + distance_of_weights
        distance = (missed * missed + slack * 2.0).bound_root() + distance_of_weights
        # predict has another mean, and may add its components in another order
        outputs = math.sqrt(found.spreads) + root * abs(leaf.centre) + length
        distance = distance + (total + total_off) / root + radius + math.sqrt(found.distance_squares)
        return distance + sum_rounding(2 * len(xi) + 4) * outputs

    def _curvature(self, found: VariationErrors, sizes: Array) -> Curvature:
        """Return H from sums over all rows; the coordinates of all components are one basis, in units of their rows."""
        T = block_diag(*self.values.transforms)
        terms = terms_in_parts(min(found.count, LEAF), min(self.values.step, CHUNK)) + highest(found.count)
        scaled = (sizes * np.sqrt(found.diagonal)).T.ravel()
        features = EigenFeatures(T, np.ones(T.shape[1]))
        sums = (self.scatter, self.mean, self.mean, found.mass, scaled, terms)
        return Curvature(features, *sums, accumulated=False)


def _terms(count: int, careful: bool) -> int:
    """Return how many terms a sum over all rows adds sequentially: those of a tile, tiles of a leaf, and the tree.

    Products of a tile are exact but for a few roundings where ``careful``.
    """
    return (16 if careful else _ROWS) + LEAF // _ROWS + highest(count)


def _weights(T: Array, beta: Array) -> tuple[Array, Array]:
    """Return weights v of an expansion, and a bound on ``abs(beta - T v)``, entry by entry."""
    squares = np.square(T).sum(axis=0)
    weights = np.where(squares > 0.0, (T.T @ beta) / np.where(squares > 0.0, squares, 1.0), 0.0)
    remainder: Doubled = beta - Doubled.exact(np.ascontiguousarray(T)) @ weights
    return weights, remainder.round().sizes
