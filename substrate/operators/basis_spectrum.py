r"""One eigendecomposition of the centred statistic of a reduced basis, and every gamma after it.

With :math:`\tilde z_i = z_i - \bar z`, :math:`\sum_i \tilde z_i \tilde z_i^T = Q \operatorname{diag}(a) Q^T`,
:math:`c = Q^T \sum_i \tilde z_i (t_i - \bar t)`, :math:`g_i = Q^T \tilde z_i` and :math:`\lambda = 1/\gamma`,

.. math::

    u = Q \frac{c}{a + \lambda}, \qquad b = \bar t - \bar z^T u, \qquad
    h_{ii} = \frac1l + \sum_k \frac{g_{ik}^2}{a_k + \lambda}, \qquad t_i - f^{(-i)}(x_i) = \frac{e_i}{1 - h_{ii}},

which is [Cawley2004]_ eq. (3) with its bias eliminated and its section 2.6, with :math:`\lambda = 1/(2 \gamma)` there.
Everything but the leverages and the residuals of single rows is computed from sums; those need one more pass over the
rows.

Features q that are not penalised follow the others where there are any. With :math:`L L^T = \sum_i \tilde q_i \tilde
q_i^T` and :math:`M = L^{-1} \sum_i \tilde q_i \tilde z_i^T` they are eliminated like the bias, and Q diagonalises
:math:`\sum_i \tilde z_i \tilde z_i^T - M^T M`. In the coordinates

.. math:: R = \begin{bmatrix} Q & 0 \\ -L^{-T} M Q & L^{-T} \end{bmatrix}, \qquad
          R^T \Big( \sum_i (\tilde z_i, \tilde q_i) (\tilde z_i, \tilde q_i)^T \Big) R
          = \operatorname{diag}(a, 1), \qquad R^T \operatorname{diag}(1, 0) R = \operatorname{diag}(1, 0) ,

sums and penalty are both diagonal, so that all formulas are the same, with 1 in place of :math:`a + \lambda`.

Leave-one-out is exact, in one pass over the rows:

.. math:: h_{ii} = v_i \Big( \frac1m + \| R\, k_S(x_i) - r \|^2 \Big), \qquad m = \sum_j v_j, \qquad
          t_i - f^{(-i)}(x_i) = \frac{e_i}{1 - h_{ii}}

([Cawley2004]_ section 2.6, where all :math:`v_i = 1` and m = l) with R and r from the spectrum, made
triangular, which halves the work of every row. A row is left out whole,
whatever its weight: with its weight goes its share of the hat matrix of the rows times :math:`v_i^{1/2}`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from substrate.arrays import (
    Array,
    blas_threads,
    diagonal_of,
    namespace_of,
    own_copy,
    paired_sums,
    to_numpy,
    zeros_beside,
)
from substrate.errors import SolverError
from substrate.numbers import at_most, relative_rounding
from substrate.operators.features import (
    Features,
    FoldMoments,
    LinearFeatures,
    Moments,
    Origin,
    Statistic,
    sum_moments,
)
from substrate.operators.kernel_rows import KernelRows, KernelValues, RowValues
from substrate.operators.sources import Block
from substrate.operators.spectrum import LeastSquares, Targets

__all__ = [
    "LeftOutRows",
    "LeverageFactor",
    "ReducedSpectrum",
    "errors_of_block",
    "left_out_rows",
    "leverage_factor",
    "reduced_spectrum",
]


class SpectrumRadius(NamedTuple):
    r"""Bounds on the rounding of a spectrum, in its eigen-coordinates, from which its relative error q follows.

    Features :math:`Z^\star = Z + \Delta` and the penalty :math:`P^\star = T^T K_{SS} T = I + E` of the exact machine
    differ from those that were computed, with :math:`\|\Delta_k\| \le \phi s_k` for every column and
    :math:`|E_{jk}| \le \rho w_j w_k`. With :math:`A = \lambda I + Z Z^T` and :math:`\sigma_k = a_k / (a_k + \lambda)`,
    Cauchy's inequality in the eigenvectors of :math:`Z Z^T` gives

    .. math:: (1 - q) A \preceq \lambda I + Z^\star P^{\star -1} Z^{\star T} \preceq (1 + q) A, \qquad
              q = \frac{2 \phi}{\sqrt\lambda} \Big( \sum_k s_k^2 \sigma_k \Big)^{1/2}
              + \frac{\phi^2}{\lambda} \sum_k s_k^2 + \frac{\rho}{1 - \|E\|} \Big( \Big( \sum_k w_k^2 \sigma_k
              \Big)^{1/2} + \frac{\phi}{\sqrt\lambda} \sum_k w_k s_k \Big)^2 .

    What the penalty adds, the last term, is at most :math:`\frac{\|E\|}{1 - \|E\|}` times one plus the others, since
    :math:`\|P^{\star -1} - I\| \le \frac{\|E\|}{1 - \|E\|}`: less where lambda is small.

    Sums right to :math:`\eta \ell_j \ell_k` and a decomposition right to d belong to :math:`H = Z^T Z + \lambda` up to
    a share p of H. They change a leverage by at most :math:`p / (1 - p)`, and the fitted values by
    :math:`\frac{1}{1 - p} \|H^{-1/2} (\delta c - \delta H u)\|` with the weights u of the machine, of length at most
    :math:`\lambda^{-1/2} \|y\|`, and :math:`|\delta c_k| \le \eta \ell_k \|y\|`,

    .. math:: p = \eta \sum_k \frac{\ell_k^2}{a_k + \lambda} + \frac{d}{\lambda}, \qquad
              \|H^{-1/2} (\delta c - \delta H u)\| \le \eta \Big( \sum_k \frac{\ell_k^2}{a_k + \lambda} \Big)^{1/2}
              \Big( \|y\| + \sum_k \ell_k |u_k| \Big) + \frac{d}{\lambda} \|y\| .

    ``features`` is :math:`\phi` and ``sizes`` s, ``deviation`` :math:`\|E\| / (1 - \|E\|)`, ``penalty``
    :math:`\rho / (1 - \|E\|)`, ``reach`` w, ``sums`` :math:`\eta`, ``lengths`` are :math:`\ell`, and ``decomposed``
    is d.
    """

    features: float
    sizes: Array
    deviation: float
    penalty: float
    reach: Array
    sums: float
    lengths: Array
    decomposed: float


@dataclass(frozen=True, slots=True)
class ReducedSpectrum:
    """Eigenvalues a (ascending) and vectors Q of the scatter; c, one column per output; means about the origin.

    ``squares`` are the squares of the centred targets, ``mass`` is the weight of all rows (n without weights),
    ``lengths`` bound the lengths of the columns of the statistic, by whose products its entries round, on the host.
    ``heavy`` are the sums :math:`\\sum_i v_i^2 g_{ik}^2` by squared weights in the coordinates of Q, ``heavy_mass`` is
    :math:`\\sum_i v_i^2`, and ``radius`` bounds the rounding, where they were asked for.
    """

    #: Nothing has to be lifted: a sum of squares has no negative eigenvalue.
    lift: ClassVar[float] = 0.0

    features: Features
    origin: Origin
    n: int
    values: Array
    rotation: Array
    mean: Array
    cross: Array
    target_mean: Array
    squares: Array
    mass: float
    lengths: Array
    heavy: Array | None = None
    heavy_mass: float = 0.0
    radius: SpectrumRadius | None = None

    def with_squared_weights(self, rows: KernelRows) -> "ReducedSpectrum":
        """Return the same with the sums by squared weights, which traces by weight need; one pass over rows with
        weights.
        """
        if rows.weights is None:
            return self
        sums: FoldMoments = rows.reweigh(rows.weights).sums(sum_moments, self.origin, self.features.transform, None)
        squared, _ = sums.moments()
        heavy = squared.shift_to(self.mean, self.target_mean).transform(self.rotation).second
        return replace(self, heavy=diagonal_of(heavy), heavy_mass=squared.mass)

    def feature_values(self, values: RowValues) -> LinearFeatures:
        """Return the features of rows in eigen-coordinates, about their mean."""
        return LinearFeatures(values, self.origin.kernel_values, self.directions, self.mean @ self.rotation)

    @property
    def trace(self) -> float:
        """The norm of the scatter."""
        return float(namespace_of(self.values).sum(self._take_penalised(self.values)))

    def _take_penalised(self, entries: Array) -> Array:
        """Return the entries of the directions that are penalised."""
        return entries if not self.features.free else entries[: -self.features.free]

    def curvatures(self, lam: float) -> Array:
        """Return a + lambda, the curvature of every direction; one where nothing is penalised."""
        return self.values + self.features.ridges(lam)  # type: ignore[no-any-return]

    @property
    def norm(self) -> float:
        """The norm of the sums before centring, which determines the rounding of kernel values."""
        largest = float(namespace_of(self.values).max(self.values)) if self.values.shape[0] else 0.0
        return max(largest, self.mass * float(self.full_mean @ self.full_mean))

    def targets(self, Y: Any = None) -> Targets:
        """Return c, the products with the targets, which are in the sums."""
        return Targets(self.cross, self.target_mean, self.origin.unit, total=to_numpy(self.squares))

    def machine(self, targets: Targets | None = None, weighted: bool = False) -> LeastSquares:
        r"""Return the machine on the targets of the sums, in numpy.

        ``weighted`` states that traces are by the weights of the rows: with weights v of mean one their mass without
        the bias is :math:`l - \frac1l \sum_i v_i^2`.
        """
        # vectors alone: to take the matrices of a large basis to the host takes a device longer than to decompose them
        values, cross, squares = map(to_numpy, (self.values, self.cross, self.squares))
        heavy = mass = None
        if weighted and self.heavy is not None:
            unit = self.n / self.mass
            heavy = unit * to_numpy(self.heavy)
            mass = self.n - unit * self.heavy_mass / self.mass
        free = self.features.free
        if free:  # what the free columns explain is not among the directions
            squares = np.maximum(squares - np.square(cross[-free:]).sum(axis=0), 0.0)
        penalised = self._take_penalised(values), self._take_penalised(cross)
        return LeastSquares.of_products(*penalised, squares, self.n, self.n - 1 - free, heavy=heavy, mass=mass)

    @property
    def directions(self) -> Array:
        """T Q, n x r: kernel values about the origin times this are features in eigen-coordinates."""
        directions: Array = self.features.transform @ self.rotation
        return directions

    @property
    def full_mean(self) -> Array:
        """The mean feature, about zero."""
        mean: Array = self.mean + self.features.transform.T @ self.origin.kernel_values
        return mean

    def weights(self, lam: float) -> Array:
        """Return the weights u, one column per output, for targets in their unit."""
        weights: Array = self.rotation @ (self.cross / self.curvatures(lam)[:, None])
        return weights

    def bias(self, weights: Array) -> Array:
        """Return the bias of each output for these weights."""
        bias: Array = self.origin.targets + self.target_mean - self.full_mean @ weights
        return bias

    def correction(self, slope: Array, total: Array, lam: float) -> tuple[Array, Array]:
        """Return the change of u and b that brings the gradient (Z'e - lambda u, 1'e) to zero."""
        mean = self.full_mean
        inner = self.rotation.T @ (slope - mean[:, None] * total)
        change = self.rotation @ (inner / self.curvatures(lam)[:, None])
        return change, total / self.mass - mean @ change

    def decomposition_error(self, lam: Any) -> Any:
        """Return q, which bounds the relative error of the machines at these lambda; zero without a radius."""
        if self.radius is None:
            return np.zeros(np.shape(lam))
        lambdas, (phi, s, deviation, rho, w, *_) = np.ravel(lam), self.radius
        explained = self.values[:, None] / (self.values[:, None] + lambdas)
        reached = np.sqrt(np.square(w) @ explained) + phi * float(w @ s) / np.sqrt(lambdas)
        q = 2.0 * phi * np.sqrt(np.square(s) @ explained / lambdas) + phi**2 * float(s @ s) / lambdas
        of_penalty = np.minimum(rho * reached**2, deviation * (1.0 + q))
        return at_most(1.0) * (q + of_penalty).reshape(np.shape(lam))

    def sums_error(self, lam: Array) -> tuple[Array, Array, Array] | None:
        """Bound what the rounding of sums and decomposition changes at some lambda: p, and by output the norm of the
        fitted values and lambda Q; None without a radius.
        """
        if self.radius is None:
            return None
        g, y, (eta, lengths, d) = 1.0 / (self.values[:, None] + lam), np.sqrt(self.squares), self.radius[5:]
        each, decomposed = np.square(lengths) @ g, (d / lam)[:, None]
        share = at_most(1.0) * (eta * each + d / lam)
        sizes = y + np.stack([lengths @ np.abs(g * column[:, None]) for column in self.cross.T], axis=1)
        fitted = eta * np.sqrt(each)[:, None] * sizes + decomposed * y
        quadratic = at_most(1.0) * (eta * sizes**2 + decomposed * self.squares)
        return share, at_most(1.0) * fitted / np.maximum(1.0 - share, 0.5)[:, None], quadratic


def reduced_spectrum(statistic: Statistic, moments: Moments | None = None) -> ReducedSpectrum:
    """Centre and decompose the moments of all rows, or of some of them."""
    sums = statistic.total if moments is None else moments
    features, xp = statistic.features, namespace_of(sums.second)
    mean, target = sums.first / sums.mass, sums.targets / sums.mass
    centred = sums.shift_to(mean, target)
    with blas_threads(mean.shape[0]):
        if features.free:
            values, rotation = _eliminate(centred.second, features.free)
        else:
            values, rotation = xp.linalg.eigh(centred.second)
    # a constant target minus its mean is rounding: it has no slope
    cross = rotation.T @ centred.cross
    rounding = relative_rounding(sums.count) ** 2 * (sums.mass / sums.count)
    cross = xp.where(centred.squares > rounding, cross, xp.zeros_like(cross))
    return ReducedSpectrum(
        features=features,
        origin=statistic.origin,
        n=sums.count,
        values=xp.clip(values, min=0.0),
        rotation=rotation,
        mean=mean,
        cross=cross,
        target_mean=target,
        squares=centred.squares,
        mass=sums.mass,
        lengths=statistic.lengths,
    )


def _eliminate(scatter: Array, free: int) -> tuple[Array, Array]:
    """Return the coordinates in which the scatter and a penalty on all but the last ``free`` features are diagonal."""
    xp, r = namespace_of(scatter), scatter.shape[0] - free
    L = xp.linalg.cholesky(scatter[r:, r:])
    M = xp.linalg.solve(L, scatter[r:, :r])
    values, Q = xp.linalg.eigh(scatter[:r, :r] - M.T @ M)
    inverse = xp.linalg.inv(L).T
    above = xp.concat([Q, zeros_beside(Q, (r, free))], axis=1)
    below = xp.concat([-(inverse @ (M @ Q)), inverse], axis=1)
    return xp.concat([values, xp.ones_like(scatter[r, r:])]), xp.concat([above, below], axis=0)


@dataclass(frozen=True, slots=True)
class LeverageFactor:
    """R and r with :math:`h(x) = v (1/m + \\|R k_S(x) - r\\|^2)`; R is upper triangular.

    ``mass`` is m, the weight of all rows: their number where they have none.
    """

    matrix: Array
    offset: Array
    mass: float

    def in_unit(self, unit: float) -> "LeverageFactor":
        """Return the factor of the same leverages where weights are given as multiples of ``unit`` of those here."""
        root = math.sqrt(unit)
        return LeverageFactor(self.matrix / root, self.offset / root, unit * self.mass)

    def coordinates(self, values: Array) -> Array:
        """Return R k - r of rows of kernel values k."""
        coordinates: Array = values @ self.matrix.T
        coordinates -= self.offset
        return coordinates

    def leverages(self, coordinates: Array, weights: Array | None = None) -> Array:
        """Return h of rows from their coordinates."""
        leverages: Array = 1.0 / self.mass + paired_sums(coordinates, coordinates, 1)
        return leverages if weights is None else weights * leverages


def leverage_factor(spectrum: ReducedSpectrum, lam: float) -> LeverageFactor:
    """Return the factor of the leverages at one lambda; a QR factorisation halves the work of every row."""
    xp = namespace_of(spectrum.values)
    scale = 1.0 / xp.sqrt(spectrum.curvatures(lam))
    W = (spectrum.directions * scale).T
    offset = scale * (spectrum.rotation.T @ spectrum.full_mean)
    with blas_threads(W.shape[1]):
        Q, R = xp.linalg.qr(W)
    return LeverageFactor(own_copy(R), Q.T @ offset, spectrum.mass)


@dataclass(frozen=True, slots=True)
class LeftOutRows:
    """Rows in order: targets, fitted values, leverages, and weights (None: all one).

    ``coordinates`` are computed by :meth:`LeverageFactor.coordinates`, None if they are not kept.
    """

    Y: Array
    fitted: Array
    leverages: Array
    weights: Array | None = None
    coordinates: Array | None = None

    @property
    def residuals(self) -> Array:
        """e_i/(1 - h_ii)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # a row that determines its own fit is refused by name
            residuals: Array = (self.Y - self.fitted) / (1.0 - self.leverages)[:, None]
        return residuals

    def refuse_undetermined(self) -> None:
        """Raise if leaving some row out leaves no machine, and name the row."""
        xp = namespace_of(self.leverages)
        if not bool(xp.all(self.leverages < 1.0)):
            worst = int(xp.argmax(self.leverages))
            raise SolverError(
                f"without row {worst} the machine is not determined: its leverage is "
                f"{float(self.leverages[worst]):.6g} where it must be below 1; use more rows, fewer basis vectors or a "
                "smaller gamma"
            )


def leave_out_of_block(
    values: KernelValues, coefficients: Array, bias: Array, factor: LeverageFactor, is_kept: bool, block: Block
) -> tuple[Any, ...]:
    """Return targets, fitted values, leverages and weights of a block, one row per row of data, and their coordinates
    if they are to be kept.
    """
    n = block.Y.shape[0]
    fitted, leverages = zeros_beside(bias, block.Y.shape), zeros_beside(bias, n)
    kept = zeros_beside(bias, (n, factor.offset.shape[0])) if is_kept else None
    for rows, tile in values.tiles(block.X):
        coordinates = factor.coordinates(tile)
        fitted[rows, :] = tile @ coefficients + bias
        leverages[rows] = factor.leverages(coordinates, None if block.weights is None else block.weights[rows])
        if kept is not None:
            kept[rows, :] = coordinates
    return block.Y, fitted, leverages, block.weights, kept


def left_out_rows(
    rows: KernelRows, coefficients: Array, bias: Array, factor: LeverageFactor, is_kept: bool = False
) -> LeftOutRows:
    """Return fitted values, leverages and leave-one-out residuals of all rows, in one pass.

    :place [Cawley2004]_ section 2.6: e/(1 - h) in one pass, for a reduced basis
    """
    xp = namespace_of(bias)
    columns: Iterable[tuple[Any, ...]] = zip(
        *rows.each(leave_out_of_block, coefficients, bias, factor, is_kept), strict=True
    )
    values: list[Any] = [None if parts[0] is None else xp.concat(parts, axis=0) for parts in columns]
    return LeftOutRows(*values)


def errors_of_block(values: RowValues, coefficients: Array, bias: Array, block: Block) -> Array:
    """Return the targets of the rows of a block less the outputs, one column per machine."""
    return block.Y - (values.product(block.X, coefficients) + bias)  # type: ignore[no-any-return]
