r"""Criteria of model selection bounded from below over a cell: a zone of widths times an interval of :math:`\lambda`.

In the coordinates of the spectrum at the middle of the cell (:mod:`~substrate.search.width_bounds`),
:math:`A = A_0^{1/2} (I + X) A_0^{1/2}` with :math:`X = M + E`: M is
:math:`A_0^{-1/2} (\tau K_1 + \eta I) A_0^{-1/2}`, :math:`|\tau| \le h`, :math:`|\eta| \le \hat\eta`, and E the
remainder and all rounding, :math:`\|E\| \le \rho`. Let
:math:`\|X\| \le \epsilon < 1`, :math:`\beta = A_0^{-1/2} z`, :math:`Q = \|\beta\|^2`, :math:`\alpha = A_0^{-1} z`.

- evidence: by Cauchy's inequality :math:`\beta^T (I + X)^{-1} \beta \ge Q / (1 + \beta^T X \beta / Q)`, and
  :math:`\log(1 + x) \ge x - x^2 / (2 (1 - \epsilon))` for every eigenvalue of X, so

  .. math:: \log F \ge \log F_0 - \frac{\beta^T X \beta}{Q} + \frac{\operatorname{tr} X}{N - 1}
            - \frac{\|X\|_F^2}{2 (1 - \epsilon) (N - 1)} .

- generalised cross-validation and leave-one-out:
  :math:`A^{-1} z = A_0^{-1/2} (\beta - M\beta - E\beta + M^2\beta + \dots)`, where what is not written has at most the
  length :math:`\nu + \epsilon / (1 - \epsilon)\, (\|M^2 \beta\| + \nu)`,
  :math:`\nu = (\|M\| + \rho) \|E\beta\| + \rho \|M\beta\|`. With
  :math:`E = R' - L', \; 0 \preceq R' \preceq U' + L'` one has
  :math:`\|E \beta\| \le (\|U' + L'\| \, \beta^T (U' + L') \beta)^{1/2} + \|L' \beta\|`: the remainder as it acts on
  these targets, not on the worst ones.
- the trace and the diagonal of the inverse: :math:`(I + X)^{-1} = I - X + X (I + X)^{-1} X`, whose last term is at most
  :math:`X^2 / (1 - \epsilon)`. With weights of the rows the trace is :math:`\operatorname{tr} V A^{-1}`: in the
  coordinates of the spectrum V is :math:`U^T V U`, first derivatives stay exact, and the last term is at most
  :math:`\epsilon^2 / (1 - \epsilon) \operatorname{tr} V A_0^{-1}`.

First derivatives in :math:`\tau` and :math:`\eta` are exact, so the bound of a cell of size h is within a multiple of
:math:`h^2` of the criterion. Outputs that share a gamma are one long vector. The quotient
:math:`\alpha_i / B_{ii}` of left-out residuals costs a product of matrices per cell for the derivatives of
:math:`B_{ii}`; a first bound takes the norm of M for them, and the product is computed only where it can decide.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.least_squares.coordinates import LeastSquares
from substrate.least_squares.evidence import log_rounding
from substrate.least_squares.spectrum import Targets
from substrate.search.width_bounds import Zone

__all__ = ["CELL_CRITERIA", "CellBounds", "bounded_cells"]

#: Above this norm of X nothing is bounded.
_MOST = 0.8
#: The share of a rough loss that remains at least, as a rule, when it is computed exactly.
_HOPE = 0.15


@dataclass(frozen=True, slots=True)
class CellBounds:
    """Per cell: a lower bound and the value in the middle, and how far X reaches by the width and by lambda."""

    lower: Array
    values: Array
    by_width: Array
    by_lambda: Array


def bounded_cells(zone: Zone, targets: Targets, cells: Array, criterion: str, wanted: float) -> CellBounds:
    """Bound a criterion on cells, given as logarithms of lambda, one row (start, stop) per cell.

    A bound matters where it can reach ``wanted``; elsewhere a cheaper one may be returned.
    """
    with np.errstate(all="ignore"):  # nothing is known where a norm overflows or the targets vanish
        cell = _WidthCells(zone, targets.coordinates, cells)
        values, lower = CELL_CRITERIA[criterion](cell, wanted)
    is_known = cell.known & np.isfinite(lower)
    return CellBounds(np.where(is_known, np.maximum(lower, 0.0), 0.0), values, cell.reach, cell.eta / cell.least)


class _WidthCells:
    """What the criteria share; the last axis of an array is the cells."""

    def __init__(self, zone: Zone, z: Array, cells: Array) -> None:
        low, high = np.exp(cells[:, 0]) * (1.0 - 1e-12), np.exp(cells[:, 1]) * (1.0 + 1e-12)
        self.zone, self.z, self.outputs = zone, z, z.shape[1]
        self.lam, self.eta, self.h, self.bend = 0.5 * (low + high), 0.5 * (high - low), zone.half, zone.bend
        values = zone.spectrum.values
        self.machine = LeastSquares(
            values=values, squares=np.square(z), rest=None, rows=zone.spectrum.n, free=z.shape[0]
        )
        self.g = self.machine.inverses(self.lam)
        self.least = zone.lowest + self.lam
        norms = np.array([zone.norms(float(lam)) for lam in self.lam])
        self.kernel_radius = zone.radius(self.lam)
        self.reach = self.h * norms[:, 0]
        self.rho = self.bend * norms[:, 1] + self.kernel_radius
        self.size = self.reach + self.eta / self.least
        reached = self.size + self.rho
        self.known = reached < _MOST
        self.eps = np.minimum(reached, _MOST)
        self.rest = 1.0 - self.eps
        self.rounding = 8.0 * relative_rounding(zone.spectrum.n + 16.0)

    def total(self, products: Array) -> Array:
        """Return sums over coordinates and outputs."""
        return np.asarray(products.reshape(products.shape[0], self.lam.size, self.outputs).sum(axis=(0, 2)))

    def length(self, vectors: Array) -> Array:
        """Return the lengths of vectors over coordinates and outputs."""
        return np.sqrt(self.total(np.square(vectors)))

    def each(self, by_cell: Array) -> Array:
        """Return numbers per cell, repeated for its outputs."""
        return np.repeat(by_cell, self.outputs, axis=-1)

    @cached_property
    def inverse(self) -> Array:
        """Return 1/(s + lambda), per coordinate, and per output of a cell."""
        return self.each(self.g)

    @cached_property
    def alpha(self) -> Array:
        """Return the support values in the coordinates of the spectrum."""
        return np.asarray(self.g[:, :, None] * self.z[:, None, :]).reshape(self.z.shape[0], -1)

    @cached_property
    def quadratic(self) -> Array:
        """Return Q."""
        return np.asarray(self.machine.quadratic(self.g, self.lam).sum(axis=1))

    def value(self, factors: tuple[Array, Array]) -> Array:
        """Return the mean criterion of all outputs in the middle of the cells, from its two factors."""
        falling, rising = factors
        return np.asarray(falling.mean(axis=1) * rising)

    @cached_property
    def slope_of_alpha(self) -> Array:
        """Return K_1 alpha."""
        return np.asarray(self.zone.slope @ self.alpha)

    @cached_property
    def bends(self) -> tuple[Array, Array]:
        """Return (U + L) alpha and L alpha, times half the square of h."""
        return self.bend * (self.zone.whole @ self.alpha), self.bend * (self.zone.low @ self.alpha)

    @cached_property
    def frobenius(self) -> Array:
        """Return the Frobenius norm of K_1 relative to A_0."""
        return np.sqrt(_form(self.g, self.zone.slope_squares, self.g))

    @cached_property
    def roughness(self) -> Array:
        """Return what rounding of sums may change, relative to their largest terms."""
        return np.asarray(self.rounding * (1.0 + self.h * self.frobenius + self.eta / self.least))

    @cached_property
    def second(self) -> list[Array]:
        """Return M^2 beta as a sum of terms, each multiplied by A_0^{1/2} on the left."""
        g, h, eta = self.inverse, self.h, self.each(self.eta)
        twice = self.zone.slope @ np.concatenate([g * self.slope_of_alpha, g * self.alpha], axis=1)
        cut = self.alpha.shape[1]
        mixed = h * eta * (twice[:, cut:] + g * self.slope_of_alpha)
        return [h * h * twice[:, :cut], mixed, eta * eta * (g * self.alpha)]

    @cached_property
    def beyond(self) -> Array:
        """Return the length of A^{-1} z less its first two orders, relative to A_0^{-1/2}."""
        root, Q = np.sqrt(self.inverse), np.sqrt(self.quadratic)
        whole, low = self.bends
        acting = np.sqrt(self.rho * self.total(self.alpha * whole)) + self.length(root * low) + self.kernel_radius * Q
        shift = np.minimum(acting, self.rho * Q)
        by_first = self.h * self.length(root * self.slope_of_alpha) + self.eta * self.length(root * self.alpha)
        crossed = (self.size + self.rho) * shift + self.rho * by_first
        squared = sum(self.length(root * term) for term in self.second)
        return np.asarray(shift + crossed + self.eps / self.rest * (squared + crossed))


def _form(first: Array, matrix: Array, right: Array) -> Array:
    """Return quadratic forms, one per column."""
    return np.asarray(np.maximum(np.einsum("kj,kj->j", first, matrix @ right), 0.0))


def _evidence(cell: _WidthCells, wanted: float) -> tuple[Array, Array]:
    zone, g, h, eta = cell.zone, cell.g, cell.h, cell.eta
    n, Q = cell.machine.free, cell.quadratic
    whole, low = cell.bends
    upward = cell.total(cell.alpha * (whole - low)) / Q
    by_width = h * np.abs(zone.slope.diagonal() @ g / n - cell.total(cell.alpha * cell.slope_of_alpha) / Q)
    by_lambda = eta * np.abs(g.sum(axis=0) / n - cell.total(np.square(cell.alpha)) / Q)
    downward = cell.bend * (zone.low.diagonal() @ g) / n
    remainder = np.sqrt(_form(g, zone.whole_squares, g)) + np.sqrt(_form(g, zone.low_squares, g))
    root = np.sqrt(float(n))
    length = h * cell.frobenius + eta * np.sqrt(np.square(g).sum(axis=0))
    length = length + cell.bend * remainder + cell.kernel_radius * root
    lost = upward + by_width + by_lambda + downward + length**2 / (2.0 * n * cell.rest) + 2.0 * cell.kernel_radius
    logs = cell.machine.mean_log_stretch(cell.lam)
    values = cell.value(cell.machine.evidence(g, cell.lam, logs))
    rounding = log_rounding(n, logs) + 4.0 * cell.roughness + 2.0 * zone.spectrum.skew
    return values, values * np.exp(-lost - rounding)


def _generalized_cross_validation(cell: _WidthCells, wanted: float) -> tuple[Array, Array]:
    zone, g, h, eta = cell.zone, cell.g, cell.h, cell.eta
    inverse, squares = cell.inverse, np.square(cell.g)
    length = cell.length(cell.alpha)
    # relative derivatives of the length of alpha and of the trace, and what either may lose or gain beyond
    down, down_lambda = (
        cell.total(cell.alpha * inverse * factor) / length**2 for factor in (cell.slope_of_alpha, cell.alpha)
    )
    second = sum(cell.length(inverse * term) for term in cell.second)
    loss = (cell.beyond / np.sqrt(cell.least) + second) / length
    machine = cell.machine if zone.masses is None else replace(cell.machine, masses=zone.masses.diagonal())
    trace = machine.trace(g, cell.lam)
    if zone.masses is None:
        up, up_lambda = zone.slope.diagonal() @ squares / trace, squares.sum(axis=0) / trace
        turned = h * np.sqrt(_form(g, zone.slope_squares, squares)) + eta * np.sqrt((g**3).sum(axis=0))
        bent = zone.low.diagonal() @ squares
        most = np.square(turned + cell.rho * np.sqrt(trace))
    else:
        masses = zone.masses
        up = np.einsum("kj,kj->j", g, (masses * zone.slope) @ g) / trace
        up_lambda, bent = masses.diagonal() @ squares / trace, _form(g, masses * zone.low, g)
        most = np.square(cell.eps) * trace
    gain = (cell.bend * bent + cell.kernel_radius * trace + most / cell.rest) / trace
    rounding = cell.roughness * (1.0 + np.sqrt(cell.quadratic / cell.least) / length) + 2.0 * zone.spectrum.skew
    first = h * np.abs(up - down) + eta * np.abs(up_lambda - down_lambda)
    falls, rises = h * np.abs(down) + eta * down_lambda + loss, h * np.abs(up) + eta * up_lambda + gain
    root = 1.0 - first - loss - gain - falls * rises - 4.0 * rounding
    values = cell.value(machine.gcv(g, cell.lam))
    return values, values * np.square(np.where(falls < 1.0, np.maximum(root, 0.0), 0.0))


def _leave_one_out(cell: _WidthCells, wanted: float) -> tuple[Array, Array]:
    basis, n, inverse = cell.zone.spectrum.basis, cell.zone.spectrum.n, cell.inverse
    squared = np.square(basis)
    B = squared @ cell.g
    width = cell.alpha.shape[1]
    terms = [cell.alpha, inverse * cell.slope_of_alpha, inverse * cell.alpha, *(inverse * term for term in cell.second)]
    rows = (basis @ np.concatenate(terms, axis=1)).reshape(n, len(terms), width) / cell.each(B)[:, None, :]
    residuals, by_width, by_lambda = rows[:, 0], rows[:, 1], rows[:, 2]
    length = cell.length(residuals)
    second = sum(cell.length(rows[:, k]) for k in range(3, len(terms)))
    sums = np.minimum(np.sqrt((1.0 / B).sum(axis=0)), (1.0 / B).max(axis=0) / np.sqrt(cell.least))
    ceiling = np.sqrt(cell.quadratic * (1.0 / B).sum(axis=0)) / length
    fixed = (1.0 + cell.eps) * (cell.beyond * sums + second) / length + 4.0 * cell.roughness * ceiling
    fixed = fixed + 4.0 * cell.zone.spectrum.skew
    values = length**2 / (n * cell.outputs)
    leverages = (squared @ np.square(cell.g)) / B, np.sqrt((squared @ cell.g**3) / B)
    shared = (cell, residuals, by_width, by_lambda, length, leverages)
    lost = _quotients(*shared, None)
    rough = values * np.square(np.maximum(1.0 - fixed - lost, 0.0))
    hoped = values * np.square(np.maximum(1.0 - fixed - _HOPE * lost, 0.0))
    (cells,) = np.nonzero(cell.known & (rough < wanted) & (hoped >= wanted))
    if cells.size:
        exact = values * np.square(np.maximum(1.0 - fixed - _quotients(*shared, cells), 0.0))
        rough[cells] = np.maximum(rough[cells], exact[cells])
    return values, rough


def _quotients(
    cell: _WidthCells,
    residuals: Array,
    by_width: Array,
    by_lambda: Array,
    length: Array,
    leverages: tuple[Array, Array],
    cells: NDArray[np.intp] | None,
) -> Array:
    """Return what the quotients by B_ii and the first derivatives lose, relative to the length of the residuals.

    The derivatives of B_ii in the width are computed for ``some`` of the cells; without these, bounded by a norm.
    """
    h, eta, (slopes_lambda, turned_lambda) = cell.h, cell.eta, leverages
    if cells is None:
        slopes, turned = np.zeros_like(slopes_lambda), np.broadcast_to(cell.reach, slopes_lambda.shape)
        most, unknown = cell.reach + eta * slopes_lambda, cell.reach
    else:
        slopes, turned = np.zeros_like(slopes_lambda), np.zeros_like(slopes_lambda)
        basis, squared = cell.zone.spectrum.basis, np.square(cell.zone.spectrum.basis)
        for j in cells:
            root = np.sqrt(cell.g[:, j])
            product = (basis * cell.g[:, j]) @ (cell.zone.slope * root)
            diagonal = squared @ cell.g[:, j]
            slopes[:, j] = np.einsum("ik,ik->i", product, basis * root) / diagonal
            turned[:, j] = h * np.sqrt(np.square(product).sum(axis=1) / diagonal)
        most, unknown = h * np.abs(slopes) + eta * slopes_lambda, np.zeros_like(cell.reach)
    shift = cell.rho + np.square(turned + eta * turned_lambda + cell.rho) / cell.rest
    curved = (1.0 + cell.eps) * (most**2 + shift * (1.0 + most))
    most, curved = cell.each(most), cell.each(curved)
    sizes = h * np.abs(by_width) + cell.each(eta) * np.abs(by_lambda)
    beside = cell.length(np.abs(residuals) * curved + sizes * (most + curved)) / length
    first = h * np.abs(cell.total(residuals * (residuals * cell.each(slopes) - by_width)))
    first = first + eta * np.abs(cell.total(residuals * (residuals * cell.each(slopes_lambda) - by_lambda)))
    return np.asarray(first / length**2 + beside + unknown)


#: From cells and the value that a bound should reach to values in the middle and lower bounds.
CELL_CRITERIA: Mapping[str, Callable[[_WidthCells, float], tuple[Array, Array]]] = {
    "loo": _leave_one_out,
    "gcv": _generalized_cross_validation,
    "evidence": _evidence,
}
