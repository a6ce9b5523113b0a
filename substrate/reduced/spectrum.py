r"""One eigendecomposition of the centred statistic of a reduced basis, and every gamma after it.

With :math:`\tilde z_i = z_i - \bar z`, :math:`\sum_i \tilde z_i \tilde z_i^T = Q \operatorname{diag}(a) Q^T`,
:math:`c = Q^T \sum_i \tilde z_i (t_i - \bar t)`, :math:`g_i = Q^T \tilde z_i` and :math:`\lambda = 1/\gamma`,

.. math::

    u = Q \frac{c}{a + \lambda}, \qquad b = \bar t - \bar z^T u, \qquad
    h_{ii} = \frac1l + \sum_k \frac{g_{ik}^2}{a_k + \lambda}, \qquad t_i - f^{(-i)}(x_i) = \frac{e_i}{1 - h_{ii}},

which is [Cawley2004]_ eq. (3) with its bias eliminated and its section 2.6, with :math:`\lambda = 1/(2 \gamma)` there.
Everything but the leverages and the residuals of single rows is computed from sums; those need one more pass over the
rows.

Errors in the gradient change the fitted values as follows. With features :math:`z(x) = T^T k_S(x)`
(:mod:`~substrate.reduced.features`) the machine is

.. math:: \min_{u, b} \tfrac{\lambda}{2} u^T u + \tfrac12 \sum_i v_i (y_i - z_i^T u - b)^2, \qquad
          H = A + \lambda I, \quad A = \sum_i v_i (z_i - \bar z)(z_i - \bar z)^T .

It is quadratic, so a gradient g in u, with b optimal, changes the fitted values by :math:`\|Z_c H^{-1} g\|_v` exactly,
which is at most :math:`\|H^{-1/2} g\|`. A is obtained from sums, up to rounding. With :math:`\hat H` computed and
:math:`\|\hat H^{-1/2} (H - \hat H) \hat H^{-1/2}\| \le \eta < 1`, and features with errors :math:`\Delta`,

.. math:: \|Z_c H^{-1} g\| \le (\hat x^T \hat A \hat x)^{1/2} + \|\Delta \hat x\|
          + \frac{\eta}{\sqrt{1 - \eta}} \|\hat H^{-1/2} g\|, \qquad \hat x = \hat H^{-1} g .

A direction whose eigenvalue is small relative to lambda magnifies the rounding of kernel values in g, but hardly
affects the fitted values; so the first term is much sharper than the last. Sums over some of the rows only bound H from
below, and leave only the last term.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array
from substrate.closed_form.spectrum import Targets
from substrate.namespaces import is_device_array, namespace_of, on_device_of, to_numpy
from substrate.reduced.features import EigenFeatures
from substrate.reduced.moments import Moments, Origin
from substrate.threads import blas_threads

__all__ = ["Curvature", "Reach", "ReducedSpectrum", "reduced_spectrum"]

_HALF = EPS / 2.0


@dataclass(frozen=True, slots=True)
class Curvature:
    """A with bounds on its rounding.

    ``mean`` is the mean feature about zero; ``offsets`` that about the origin of the sums, whose squares were
    subtracted; ``sizes`` the roots of k(z_j, z_j) of the basis; ``terms`` the number of terms added sequentially;
    ``accumulated`` states that kernel values were summed before they became features; ``whole`` that A is of all rows.
    """

    features: EigenFeatures
    scatter: Array
    mean: Array
    offsets: Array
    mass: float
    sizes: Array
    terms: int
    accumulated: bool
    whole: bool = True

    def at(self, lam: float, rounding: float, spread: float) -> "Reach":
        """At one lambda, for kernel values accurate to ``rounding``; ``spread`` is the root of the sum of v k(x, x)."""
        xp, r, m = namespace_of(self.scatter), self.features.rank, self.features.n_basis
        T, A, s = self.features.transform, self.scatter, self.sizes
        diagonal = xp.linalg.diagonal(A)
        roots = xp.sqrt(xp.clip(diagonal, min=0.0) + lam)
        lengths = xp.sqrt(xp.clip(diagonal, min=0.0) + self.mass * self.offsets * self.offsets)
        own = rounding + (0.0 if self.accumulated else (m + 4.0) * _HALF)
        summed = (self.terms + r + 8.0) * _HALF
        if r == 0:
            return Reach(self, A, 0.0, own, spread, summed, lengths)
        with blas_threads(r):
            try:
                L = xp.linalg.cholesky((A + lam * xp.eye(r, dtype=A.dtype, device=A.device)) / roots[:, None] / roots)
                inner = xp.linalg.inv(L)
            except Exception as error:  # every namespace raises an error of its own here
                if type(error).__name__ not in ("LinAlgError", "_LinAlgError"):
                    raise
                return Reach(self, A, math.inf, own, spread, summed, lengths)
            W = inner / roots
            faint = float(xp.linalg.vector_norm(xp.abs(W @ T.T) @ s))
        eta = 2.0 * own * spread * faint + (own * spread * faint) ** 2
        eta += summed * float(xp.sum((xp.abs(W) @ lengths) ** 2))
        if self.accumulated:
            eta += summed * (2.0 * spread * faint) ** 2
        eta += 4.0 * r * EPS * float(xp.sum(inner * inner))
        return Reach(self, W, eta if math.isfinite(eta) else math.inf, own, spread, summed, lengths)


@dataclass(frozen=True, slots=True)
class Reach:
    """The inverse root of H, its accuracy, and the effect of a gradient on the fitted values."""

    curvature: Curvature
    root: Array
    eta: float
    own: float
    spread: float
    summed: float
    lengths: Array

    @property
    def known(self) -> bool:
        """Whether H is accurate enough for a bound."""
        return self.eta <= 0.5

    def of_gradient(self, g: Array) -> Array:
        """The bound for every column of g, on the host."""
        if not self.known:
            return np.full(g.shape[1], math.inf)
        return self._moved(self.root @ g)

    def of_slopes(self, size: float, seen: Array | None = None) -> float:
        """The bound for g = T'w, for any w with ``|w_j|`` at most ``size`` times the size of basis vector j.

        ``seen`` is the scatter of other rows about the same mean, whose fitted values are bounded instead.
        """
        if not self.known:
            return math.inf
        c = self.curvature
        xp = namespace_of(c.scatter)
        if c.features.rank == 0:
            return 0.0
        pulled = self.root @ (c.features.transform.T * c.sizes)
        per_vector = self._moved(pulled, seen)
        whole = self.lever(seen) * float(xp.linalg.vector_norm(xp.sum(xp.abs(pulled), axis=1)))
        # all together by the norm of H^-1/2 g, or one by one by the effect of each on the fitted values
        return size * min(float(per_vector.sum()), whole / math.sqrt(1.0 - self.eta))

    def lever(self, seen: Array | None = None) -> float:
        """A bound on the norm of Z H^-1/2 up to the rounding of H: one for the rows of the fit."""
        if seen is None:
            return 1.0
        trace = float(namespace_of(seen).sum(self.root * (self.root @ seen)))
        return math.sqrt(max(trace, 0.0)) * 1.01 + 1e-6

    def _moved(self, half: Array, seen: Array | None = None) -> Array:
        """The bound from H^-1/2 g, column by column."""
        c = self.curvature
        xp = namespace_of(c.scatter)
        energy = to_numpy(xp.sqrt(xp.sum(half * half, axis=0)))
        energy = self.lever(seen) * energy
        most = energy / math.sqrt(1.0 - self.eta)
        if not c.whole or c.features.rank == 0:
            return np.asarray(most)
        x = self.root.T @ half
        squares = to_numpy(xp.sum(x * ((c.scatter if seen is None else seen) @ x), axis=0))
        sums = to_numpy(self.lengths @ xp.abs(x))
        beta = c.features.transform @ x
        off = self.spread * to_numpy(c.sizes @ xp.abs(beta))
        doubt = self.own + (2.0 * math.sqrt(self.summed) if c.accumulated else 0.0)
        found = np.sqrt(np.maximum(squares, 0.0)) + math.sqrt(self.summed) * sums + doubt * off
        return np.asarray(np.minimum(found + self.eta / math.sqrt(1.0 - self.eta) * energy, most))


@dataclass(frozen=True, slots=True)
class ReducedSpectrum:
    """Eigenvalues a (ascending) and vectors Q of the scatter; c, one column per output; means about the origin.

    ``scatter`` is Q diag(a) Q'; ``squares`` are those of the centred targets, ``mass`` is the weight of all rows (n
    where they have none), and ``error`` bounds the relative error of the statistic itself.
    """

    features: EigenFeatures
    origin: Origin
    n: int
    values: Array
    rotation: Array
    mean: Array
    cross: Array
    target_mean: Array
    squares: Array
    mass: float
    error: float
    scatter: Array

    def on_host(self) -> "ReducedSpectrum":
        """The same in numpy, for a search: everything in it is small relative to the rows."""
        if not is_device_array(self.values):
            return self
        features = EigenFeatures(to_numpy(self.features.transform), to_numpy(self.features.values))
        origin = Origin(to_numpy(self.origin.kernel_values), to_numpy(self.origin.targets), self.origin.unit)
        names = ("values", "rotation", "mean", "cross", "target_mean", "squares", "scatter")
        moved: dict[str, Any] = {name: to_numpy(getattr(self, name)) for name in names}
        return replace(self, features=features, origin=origin, **moved)

    @property
    def lift(self) -> float:
        """Nothing has to be lifted: a sum of squares has no negative eigenvalue."""
        return 0.0

    @property
    def trace(self) -> float:
        """The norm of the scatter."""
        return float(namespace_of(self.values).sum(self.values))

    @property
    def norm(self) -> float:
        """The norm of the sums before centring, which determines the rounding of kernel values."""
        mean = self.full_mean
        largest = float(namespace_of(self.values).max(self.values)) if self.values.shape[0] else 0.0
        return max(largest, self.mass * float(mean @ mean))

    @property
    def targets(self) -> Targets:
        """c, the coordinates of the targets."""
        return Targets(self.cross, self.target_mean, self.origin.unit)

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

    def curvature(self, K_basis: Array, terms: int) -> Curvature:
        """The curvature for bounds on the answer, from sums of this many sequential ``terms``."""
        xp = namespace_of(K_basis)
        sizes = xp.sqrt(xp.clip(xp.linalg.diagonal(K_basis), min=0.0))
        accumulated = self.error != EPS
        return Curvature(self.features, self.scatter, self.full_mean, self.mean, self.mass, sizes, terms, accumulated)

    def inverses(self, lambdas: Array) -> Array:
        """1/(a + lambda), one column per lambda."""
        inverses: Array = 1.0 / (self.values[:, None] + on_device_of(self.values, np.atleast_1d(lambdas)))
        return inverses

    def weights(self, lam: float) -> Array:
        """The weights u, one column per output, for targets in their unit."""
        weights: Array = self.rotation @ (self.cross / (self.values + lam)[:, None])
        return weights

    def bias(self, weights: Array) -> Array:
        """The bias of each output for these weights."""
        bias: Array = self.origin.targets + self.target_mean - self.full_mean @ weights
        return bias

    def correction(self, slope: Array, total: Array, lam: float) -> tuple[Array, Array]:
        """The change of u and b that brings the gradient (Z'e - lambda u, 1'e) to zero."""
        mean = self.full_mean
        inner = self.rotation.T @ (slope - mean[:, None] * total)
        change = self.rotation @ (inner / (self.values + lam)[:, None])
        return change, total / self.mass - mean @ change

    def degrees_of_freedom(self, lam: float) -> float:
        """The trace of the hat matrix."""
        return 1.0 + float(namespace_of(self.values).sum(self.values / (self.values + lam)))

    def noise_variance(self, lam: float) -> Array:
        """The variance of the noise that the evidence prefers, one number per output, on the host.

        ``y'alpha / (gamma (n - 1))``, see :mod:`substrate.uncertainty.gaussian`.
        """
        c, values = to_numpy(self.cross), to_numpy(self.values)
        explained = (np.square(c) / (values + lam)[:, None]).sum(axis=0)
        unit = self.origin.unit
        with np.errstate(over="ignore"):
            return np.asarray(np.maximum(to_numpy(self.squares) - explained, 0.0) / (self.n - 1) * unit * unit)

    def decomposition_error(self, lam: float) -> float:
        """A bound on the relative effect of rounding in statistic and decomposition on the results."""
        return float(10.0 * np.sqrt(max(self.values.shape[0], 1)) * EPS * self.norm / lam + self.error)


def reduced_spectrum(features: EigenFeatures, origin: Origin, moments: Moments, error: float = EPS) -> ReducedSpectrum:
    """Centre and decompose."""
    xp = namespace_of(moments.second)
    mean, target = moments.first / moments.mass, moments.targets / moments.mass
    centred = moments.about(mean, target)
    with blas_threads(mean.shape[0]):
        values, rotation = xp.linalg.eigh(centred.second)
    # a constant target minus its mean is rounding: it has no slope
    cross = rotation.T @ centred.cross
    rounding = (moments.count * EPS) ** 2 * (moments.mass / moments.count)
    cross = xp.where(centred.squares > rounding, cross, xp.zeros_like(cross))
    values, n, mass = xp.clip(values, min=0.0), moments.count, moments.mass
    return ReducedSpectrum(
        features, origin, n, values, rotation, mean, cross, target, centred.squares, mass, error, centred.second
    )
