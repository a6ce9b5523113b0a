r"""A least-squares machine in the coordinates where it is diagonal: every sum of model selection, at every gamma.

With B the inverse of the centred kernel matrix plus :math:`\lambda = 1/\gamma` among the F = N - m directions that m
columns without a penalty leave, and :math:`\alpha = B y` the support values, an orthonormal basis of eigenvectors
:math:`u_k` turns B into :math:`\operatorname{diag}(g)`, :math:`g_k = 1/(s_k + \lambda)`. A matrix of low rank, as on a
reduced basis, has a few eigenvalues :math:`s_k` and otherwise zeros, and in those directions B is :math:`1/\lambda`.
With :math:`z_k = u_k^T y`, the remainder :math:`\rho = \|y\|^2 - \sum_k z_k^2` of the squares outside, the masses
:math:`m_k = \sum_i v_i u_{ik}^2` of weights v of mean one (one without weights) and M the sum of the masses of all F
directions,

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

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array, namespace_of, on_device_of, to_numpy
from substrate.numbers import ROUNDED_ONCE

__all__ = ["LeastSquares"]


@dataclass(frozen=True, slots=True)
class LeastSquares:
    """Eigenvalues ``values``, the ``squares`` of the coordinates, one column per output, and the number of ``rows``.

    ``remainder`` has the squares outside of the directions, one number per output; None if nothing is outside. ``free``
    is N less the columns without a penalty. ``masses`` are the m_k and ``mass`` is M; None and ``free`` where rows have
    no weights. Arrays may be on a device; sums are returned in numpy, one line per lambda.
    """

    values: Array
    squares: Array
    remainder: Array | None
    rows: int
    free: int
    masses: Array | None = None
    mass: float | None = None

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
        if self.remainder is None:
            return np.zeros(self.squares.shape[1])
        return np.asarray(np.abs(self.remainder) + self.squares.sum(axis=0))

    def support_squares(self, g: Array, lambdas: Array) -> Array:
        """Return the squares of the support values, one column per output, from ``g`` = 1/(s + lambda)."""
        inside: Array = to_numpy((g**2).T @ self.squares)
        if self.remainder is None:
            return inside
        return np.asarray(np.maximum(inside + self.remainder / np.square(lambdas)[:, None], 0.0))

    def quadratic(self, g: Array, lambdas: Array) -> Array:
        """Return Q, one column per output."""
        inside: Array = to_numpy(g.T @ self.squares)
        if self.remainder is None:
            return inside
        return np.asarray(np.maximum(inside + self.remainder / lambdas[:, None], 0.0))

    def trace(self, g: Array, lambdas: Array) -> Array:
        """Return the sum of B_ii, each by its weight, which is 1 - H_ii over lambda."""
        inside = to_numpy(namespace_of(g).sum(g, axis=0) if self.masses is None else self.masses @ g)
        if self.remainder is None:
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

    def degrees_of_freedom(self, lambdas: Array) -> Array:
        """Return the trace of the hat matrix."""
        shares = self.values[:, None] / (self.values[:, None] + on_device_of(self.values, np.atleast_1d(lambdas)))
        return np.asarray((self.rows - self.free) + to_numpy(namespace_of(shares).sum(shares, axis=0)))

    def noise_variance(self, lam: float) -> Array:
        """Return the variance of the noise with the largest evidence, lambda Q / F, one number per output."""
        lambdas = np.array([lam])
        return np.asarray(lam * self.quadratic(self.inverses(lambdas), lambdas)[0] / self.free)
