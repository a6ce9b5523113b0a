r"""One eigendecomposition of the centred kernel matrix, and every gamma after it.

With :math:`P = I - 11^T/N`, :math:`P K P = U \operatorname{diag}(s) U^T` off the direction 1,
:math:`\lambda = 1/\gamma` and :math:`z = U^T y`,

.. math::

    \alpha = U \frac{z}{s + \lambda}, \qquad b = \bar y - \bar k^T \alpha, \qquad
    B_{ii} = \sum_k \frac{u_{ik}^2}{s_k + \lambda}, \qquad
    \operatorname{tr} H = m + \sum_k \frac{s_k}{s_k + \lambda},

with :math:`\bar k` the mean row of K: the solution of the bordered system [Suykens2002]_ eq. (5) and the quantities of
:mod:`~substrate.left_out.leave_one_out` as matrix products with one column per gamma. The direction 1 is removed
by a reflection first (:mod:`~substrate.fits.stacked_least_squares`), so :math:`1^T \alpha = 0` to rounding.

With weights :math:`V = \operatorname{diag}(v)` of the rows the diagonal is :math:`\lambda V^{-1}`, and all of this
holds for :math:`V^{1/2} K V^{1/2}` and :math:`V^{1/2} y` with :math:`V^{1/2} 1` in place of 1: support values are
:math:`V^{1/2}` times those, and a left-out residual is one over :math:`v_i^{1/2}` times its own.

With further columns Q that are not penalised (:mod:`~substrate.operators.border`, orthonormal by the weights and to
1) their directions are removed too, so that the dimension N - m is left, and :math:`\theta = W y - W K \alpha` are
their coefficients, :math:`W = Q^T V / \sum_i v_i`.

A matrix with a negative eigenvalue is lifted by it: ``values`` are then the eigenvalues of K + ``lift`` I, which is the
same family of machines with lambda counted from ``lift`` on, :math:`s_k + \lambda = (s_k + \ell) + (\lambda - \ell)`.

Computed values belong to a nearby matrix, and the distance can be measured. With

.. math:: R = P K P\, U - U S, \qquad D = U^T U - I ,

:math:`T = (U^T U)^{1/2}` and the orthonormal :math:`V = U T^{-1}`, the inverse of :math:`U (S + \lambda)^{-1} U^T` is
:math:`V T^{-1} (S + \lambda) T^{-1} V^T`, and since :math:`V^T P K P V = T S T^{-1} + V^T R T^{-1}` it differs from
:math:`P K P + \lambda P` by at most :math:`\|R\| + \|D S\| + \lambda \|D\|` to first order, and what the kernel values
are off by. Divided by lambda this is the number q, the relative error of everything computed at lambda.

**Sums.** In the coordinates where the machine is diagonal are all sums of model selection, at every gamma. With B the
inverse of the centred kernel matrix plus :math:`\lambda = 1/\gamma` among the F = N - m directions that m columns
without a penalty leave, and :math:`\alpha = B y` the support values, an orthonormal basis of eigenvectors :math:`u_k`
turns B into :math:`\operatorname{diag}(g)`, :math:`g_k = 1/(s_k + \lambda)`. A matrix of low rank, as on a reduced
basis, has a few eigenvalues :math:`s_k` and otherwise zeros, and in those directions B is :math:`1/\lambda`. With
:math:`z_k = u_k^T y`, the remainder :math:`\rho = \|y\|^2 - \sum_k z_k^2` of the squares outside, the masses :math:`m_k
= \sum_i v_i u_{ik}^2` of weights v of mean one (one without weights) and M the sum of the masses of all F directions,

.. math::

    \|\alpha\|^2 = \sum_k z_k^2 g_k^2 + \frac{\rho}{\lambda^2}, \qquad
    Q = y^T \alpha = \sum_k z_k^2 g_k + \frac{\rho}{\lambda}, \qquad
    \operatorname{tr} V B = \sum_k m_k g_k + \frac{M - \sum_k m_k}{\lambda},

.. math::

    \Big( \prod_{k=1}^{F} (s_k + \lambda) \Big)^{1/F}
    = \lambda \exp \Big( \frac1F \sum_k \log \big( 1 + \frac{s_k}{\lambda} \big) \Big), \qquad
    \operatorname{tr} H = m + \sum_k \frac{s_k}{s_k + \lambda} .

All terms but the rest are positive, so that nothing cancels at any :math:`\lambda`. The rest is a difference, zero
where the directions are all there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import (
    Array,
    ascending_pair,
    blas_threads,
    blocks_beside,
    namespace_of,
    on_device_of,
    strips,
    target_unit,
    to_numpy,
    zeros_beside,
)
from substrate.certificate import roundoff
from substrate.errors import DataError, DeclarationError
from substrate.numbers import ROUNDED_ONCE, at_most, random_rounding, relative_rounding
from substrate.operators.border import ONES, Border
from substrate.operators.gram import Gram

__all__ = ["LeastSquares", "Spectrum", "Targets", "centred_spectrum", "lambda_range"]


@dataclass(frozen=True, slots=True)
class LeastSquares:
    """Eigenvalues ``values``, the ``squares`` of the coordinates, one column per output, and the number of ``rows``.

    ``remainder`` has the squares outside of the directions, one number per output: zeros if nothing is outside, which
    ``is_whole`` states. ``free`` is N less the columns without a penalty. ``masses`` are the m_k and ``mass`` is M;
    None and ``free`` where rows have no weights. Arrays may be on a device; sums are returned in numpy, one line per
    lambda.
    """

    values: Array
    squares: Array
    remainder: Array
    rows: int
    free: int
    masses: Array | None = None
    mass: float | None = None
    is_whole: bool = False

    @classmethod
    def of_products(
        cls,
        values: Array,
        cross: Array,
        total: Array,
        rows: int,
        free: int,
        heavy: Array | None = None,
        mass: float | None = None,
    ) -> "LeastSquares":
        r"""Make it from sums over rows in coordinates :math:`x_k` that are not of length one, in numpy.

        These have the squares :math:`s_k = \sum_i v_i x_{ik}^2`, the products ``cross`` :math:`c_k = \sum_i v_i x_{ik}
        y_i = s_k^{1/2} z_k` and ``heavy`` :math:`\sum_i v_i^2 x_{ik}^2 = s_k m_k`; ``total`` are the squares of y.
        A direction below the square of the rounding unit is one of the zeros: by Cauchy's inequality
        :math:`c_k^2 / \lambda \le s_k \|y\|^2 / \lambda`, it explains less than rounding at any :math:`\lambda` above
        :math:`\epsilon s_{max}`, and the quotients would be rounding.
        """
        inside = values > ROUNDED_ONCE**2 * float(values.max(initial=0.0))
        lengths = np.where(inside, values, 1.0)
        squares = np.where(inside[:, None], np.square(cross) / lengths[:, None], 0.0)
        masses = None if heavy is None else np.where(inside, heavy / lengths, 0.0)
        return cls(
            values=values,
            squares=squares,
            remainder=total - squares.sum(axis=0),
            rows=rows,
            free=free,
            masses=masses,
            mass=mass,
        )

    def inverses(self, lambdas: Array) -> Array:
        """Return 1/(s + lambda), one column per lambda."""
        inverses: Array = 1.0 / (self.values[:, None] + on_device_of(self.values, np.atleast_1d(lambdas)))
        return inverses

    @property
    def whole(self) -> Array:
        """The size of the terms whose difference is the remainder, one number per output; zeros without one."""
        return np.asarray(np.abs(self.remainder) + (not self.is_whole) * to_numpy(self.squares).sum(axis=0))

    def support_squares(self, g: Array, lambdas: Array) -> Array:
        """Return the squares of the support values, one column per output, from ``g`` = 1/(s + lambda)."""
        outside = self.remainder / np.square(lambdas)[:, None]
        return np.asarray(np.maximum(to_numpy((g**2).T @ self.squares) + outside, 0.0))

    def quadratic(self, g: Array, lambdas: Array) -> Array:
        """Return Q, one column per output."""
        outside = self.remainder / lambdas[:, None]
        return np.asarray(np.maximum(to_numpy(g.T @ self.squares) + outside, 0.0))

    def trace(self, g: Array, lambdas: Array) -> Array:
        """Return the sum of B_ii, each by its weight, which is 1 - H_ii over lambda."""
        inside = to_numpy(namespace_of(g).sum(g, axis=0) if self.masses is None else self.masses @ g)
        if self.is_whole:
            return np.asarray(inside)
        mass = float(g.shape[0]) if self.masses is None else float(self.masses.sum())
        outside = (self.free if self.mass is None else self.mass) - mass
        return np.asarray(np.maximum(inside + outside / lambdas, np.finfo(np.float64).tiny))

    def mean_log_stretch(self, lambdas: Array) -> Array:
        """Return the mean of log(1 + s/lambda) over all directions: lambda times its exponential is the mean of s +
        lambda.
        """
        stretched = 1.0 + self.values[:, None] / on_device_of(self.values, lambdas)  # twice as fast as log1p
        xp = namespace_of(stretched)
        return np.asarray(to_numpy(xp.sum(xp.log(stretched), axis=0)) / self.free)

    def degrees_of_freedom(self, lambdas: Any) -> Array:
        """Return the trace of the hat matrix."""
        shares = self.values[:, None] / (self.values[:, None] + on_device_of(self.values, np.atleast_1d(lambdas)))
        return np.asarray((self.rows - self.free) + to_numpy(namespace_of(shares).sum(shares, axis=0)))

    def noise_variance(self, lam: float) -> Array:
        """Return the variance of the noise with the largest evidence, lambda Q / F, one number per output."""
        lambdas = np.array([lam])
        return np.asarray(lam * self.quadratic(self.inverses(lambdas), lambdas)[0] / self.free)


#: Columns whose residuals are formed at a time.
_COLUMNS = 512


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets in the coordinates of a spectrum, one column per output: z, their means, and the unit all are divided by.

    ``fit`` are the coefficients W of the border of y less its mean, whose first row is what the means lack: y less both
    is exact to the last place of the difference, whatever the offset of y. ``total`` are the squares of the centred
    targets where the coordinates do not have them all.
    """

    coordinates: Array
    mean: Array
    unit: float
    fit: Any = 0.0
    total: Array | None = None

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return int(self.coordinates.shape[1])

    @property
    def squares(self) -> Array:
        """The squares of the centred targets, one number per output, in the square of their unit, on the host."""
        if self.total is not None:
            return self.total
        return np.asarray(np.square(to_numpy(self.coordinates)).sum(axis=0))


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Orthonormal ``basis`` (N x N-m, off the ``border``), and ``values`` in ascending order.

    ``projection`` is W, and ``means`` are W K: a row for every column of the border, the mean row of K first. ``error``
    and ``skew`` bound the distance of the decomposed matrix from K, and its part relative to lambda. ``root`` holds the
    roots of the weights of the rows, if any.
    """

    basis: Array
    values: Array
    border: Border
    projection: Array
    means: Array
    lift: float
    trace: float
    norm: float
    error: float
    skew: float
    root: Array | None = None

    @property
    def n(self) -> int:
        """Number of points."""
        return int(self.basis.shape[0])

    @property
    def mass(self) -> float:
        """The weight of all rows."""
        return float(self.n) if self.root is None else float(np.square(to_numpy(self.root)).sum())

    def machine(self, targets: Targets, weighted: bool = False) -> LeastSquares:
        """Return the machine on these targets in the coordinates of this spectrum; nothing is outside of them.

        ``weighted`` states that traces are by the weights of the rows.
        """
        free, masses = int(self.values.shape[0]), self.masses() if weighted else None
        return LeastSquares(
            values=self.values,
            squares=targets.coordinates**2,
            remainder=np.zeros(targets.outputs),
            rows=self.n,
            free=free,
            masses=masses,
            is_whole=True,
        )

    def targets(self, Y: Array) -> Targets:
        """Return z = U'y for every column of Y (a vector is one column)."""
        Y = Y[:, None] if Y.ndim == 1 else Y
        if Y.shape[0] != self.n:
            raise DataError(f"y must have one entry for each of the {self.n} rows, received {Y.shape[0]}")
        unit, xp = target_unit(Y), namespace_of(Y)
        scaled = Y / unit
        # exact where y is constant
        mean = xp.clip(self.projection[0, :] @ scaled, xp.min(scaled, axis=0), xp.max(scaled, axis=0))
        fit = self.projection @ (scaled - mean)
        centred = (scaled - mean) - self.border.matrix(Y) @ fit
        coordinates = self.basis.T @ (centred if self.root is None else self.root[:, None] * centred)
        return Targets(coordinates, mean, unit, fit)

    def support_values(self, targets: Targets, lambdas: Array) -> Array:
        """Return alpha, of shape (N, number of lambdas, outputs), in the units of y."""
        xp, shifted = namespace_of(self.basis), on_device_of(self.values, np.asarray(lambdas) - self.lift)
        g = 1.0 / (self.values[:, None] + shifted)
        columns = xp.reshape(g[:, :, None] * targets.coordinates[:, None, :], (g.shape[0], -1))
        with blas_threads(self.n):
            alpha = self.basis @ columns if self.root is None else self.root[:, None] * (self.basis @ columns)
        support_values: Array = targets.unit * xp.reshape(alpha, (self.n, g.shape[1], targets.outputs))
        return support_values

    def bias(self, targets: Targets, support_values: Array) -> Array:
        """Return b, of shape (number of lambdas, outputs)."""
        xp = namespace_of(self.means)
        bias: Array = targets.unit * targets.mean - xp.tensordot(self.means[0, :], support_values, axes=1)
        return bias

    def masses(self) -> Array | None:
        """Return the sum of v_i u_ik^2 for every column of the basis, weights of mean one; None without weights: all
        one.
        """
        if self.root is None:
            return None
        shares = self.root**2 * (self.n / self.mass)
        total: Array = zeros_beside(shares, self.values.shape[0])
        for rows in blocks_beside(shares, self.n, self.n):
            total += shares[rows] @ self.basis[rows, :] ** 2
        return total

    def decomposition_error(self, lam: Any) -> Any:
        """Return q, the relative error of what is computed at these lambda: the measured error over s_1 + lambda."""
        return self.error / (float(self.values[0]) + lam - self.lift) + self.skew

    def sums_error(self, lam: Any) -> None:
        """Return None: nothing here is a sum over rows, of which the criteria do not know the rounding."""


def centred_spectrum(
    gram: Gram,
    rounding: float = 0.0,
    weights: Array | None = None,
    border: Border = ONES,
) -> Spectrum:
    """Decompose; the Gram matrix is left unchanged.

    ``rounding`` is the kernel's p: a computed k(x, z) is within p sqrt(k(x, x) k(z, z)) of the true one. ``weights``
    has one weight per row, all positive. ``border`` holds a constant, and further columns, orthonormal by these
    weights.
    """
    if not border.constant:
        raise DeclarationError("a spectrum needs a machine with a bias; without one, solve for each gamma")
    n = gram.n
    if n < 2:
        raise DataError(f"a centred kernel matrix needs at least two rows, received {n}")
    if n <= border.count:
        raise DataError(f"{border.count} unpenalised columns fit all {n} rows, which leaves none to the kernel")
    xp, K, root = namespace_of(gram.matrix), gram.matrix, None
    v, Z = np.ones(n), to_numpy(border.matrix(K))
    if weights is not None:
        v, Z = to_numpy(weights), np.sqrt(to_numpy(weights))[:, None] * Z
        root = on_device_of(K, np.sqrt(v))
        K = root[:, None] * K * root[None, :]
        rounding += relative_rounding(4.0)  # scaling rounds an entry twice, besides the error of the kernel value
    projection = on_device_of(K, to_numpy(border.matrix(K)).T * (v / v.sum()))
    means: Array = projection @ gram.matrix
    constant = abs(
        float(means[0, :] @ on_device_of(K, v))
    )  # v'K v over the sum of v, mostly the largest eigenvalue of K
    # errors of p s_i s_j are a matrix of norm at most p sum s_i^2, and columns that are off by an angle remove
    # directions that are off by it
    kernel_rounding = (rounding + 4.0 * border.misfit(v)) * float(xp.abs(gram.diagonal) @ on_device_of(K, v))
    # of ones exactly parallel to them
    direction = on_device_of(K, Z / np.linalg.norm(Z) if border.plain else np.linalg.qr(Z)[0])
    with blas_threads(n):
        trace, values, basis = _decomposition(K, Z)
    largest = float(xp.max(xp.abs(values)))
    lowest, norm = float(values[0]), max(largest, constant)
    # below the noise of the matrix itself an eigenvalue is a zero, whatever its sign
    lift = -lowest if lowest < -roundoff(n, 1.0) * norm else 0.0
    values = xp.where(values + lift > 0.25 * random_rounding(n) * norm, values + lift, xp.zeros_like(values))
    with blas_threads(n):
        error, skew = _measure_error(K, basis, values, lift, norm, direction)
    return Spectrum(
        basis=basis,
        values=values,
        border=border,
        projection=projection,
        means=means,
        lift=lift,
        trace=max(trace, 0.0),
        norm=norm,
        error=error + ROUNDED_ONCE * norm + kernel_rounding,
        skew=skew,
        root=root,
    )


def _measure_error(K: Any, basis: Any, values: Any, lift: float, norm: float, Q: Any) -> tuple[float, float]:
    """Bound the distance of a decomposition from K + lift I off the directions Q, and its part relative to lambda."""
    if norm == 0.0:
        return 0.0, 0.0
    xp = namespace_of(basis)
    along, skew = Q.T @ basis, basis.T @ basis - xp.eye(basis.shape[1], dtype=basis.dtype, device=basis.device)
    off, weighted = xp.linalg.vector_norm(skew), xp.linalg.vector_norm(skew * (values / norm))
    residual = 0.0 * off
    for columns in strips(int(basis.shape[1]), _COLUMNS):
        inner = basis[:, columns] - Q @ along[:, columns]
        images = K @ inner
        difference = (images - Q @ (Q.T @ images)) / norm - basis[:, columns] * ((values[columns] - lift) / norm)
        residual += xp.sum(difference * difference)
    tilt = float(xp.linalg.vector_norm(along))
    error = norm * (float(xp.sqrt(residual)) + float(weighted) + 2.2 * tilt)
    return at_most(error), 2.2 * (float(off) + tilt + ROUNDED_ONCE)


def _decomposition(K: Any, Z: Array) -> tuple[float, Any, Any]:
    r"""Decompose off the columns of Z, by Householder's reflections of them: :math:`H = I - V T V^T` with
    :math:`T^{-1} + T^{-T} = V^T V`, and

    .. math:: H^T K H = K - V Y^T - Y V^T, \qquad Y = K V T - \tfrac12 V\, T^T V^T K V\, T .
    """
    from scipy.linalg import qr

    xp, m = namespace_of(K), Z.shape[1]
    reflectors = np.tril(qr(Z, mode="raw")[0][0][:, :m], -1)
    reflectors[np.diag_indices(m)] = 1.0
    inverse = np.triu(reflectors.T @ reflectors)
    inverse[np.diag_indices(m)] /= 2.0
    V, T = on_device_of(K, reflectors), on_device_of(K, np.linalg.inv(inverse))
    Y = K @ (V @ T)
    Y = Y - 0.5 * (V @ (T.T @ (V.T @ Y)))
    inner = (K - xp.concat([V, Y], axis=1) @ xp.concat([Y, V], axis=1).T)[m:, m:]
    values, vectors = xp.linalg.eigh(inner)
    basis = xp.concat([zeros_beside(vectors, (m, vectors.shape[1])), vectors], axis=0)
    basis -= V @ (T @ (V[m:, :].T @ vectors))
    return float(xp.linalg.trace(inner)), values, basis


def lambda_range(spectra: Sequence[Any], gammas: Any = None) -> tuple[float, float]:
    """Return the range of lambda: from a given range of gamma, or all that matters to machines on these spectra.

    Above 10 trace(PKP) every machine is the mean of y; the lower end is 1e-11 of the trace, or where rounding of the
    kernel matrix begins to matter.
    """
    lift = max(spectrum.lift for spectrum in spectra)
    if gammas is None:
        trace, norm = max(spectrum.trace for spectrum in spectra), max(spectrum.norm for spectrum in spectra)
        noise = relative_rounding(1e3) * norm  # a constant kernel, whose trace is rounding, is measured by its own size
        scale = trace if trace > noise else (norm if norm > 0.0 else 1.0)
        low = max(1e-11 * scale, relative_rounding(1e5) * norm, 2.0 * lift)
        return low, max(10.0 * scale, 10.0 * low)
    lowest, highest = ascending_pair(gammas, "the range of gamma")
    low, high = 1.0 / highest, 1.0 / lowest
    if low <= lift:
        raise DeclarationError(
            f"K + I/gamma is not positive definite above gamma = {1.0 / lift:.3g}: the kernel matrix has the "
            f"eigenvalue {-lift:.3g}; end the range below that, or use a positive semi-definite kernel"
        )
    return low, high
