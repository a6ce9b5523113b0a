r"""How errors in the gradient of a machine on a reduced basis reach its fitted values.

With features :math:`z(x) = T^T k_S(x)` (:mod:`~substrate.closed_form.eigen_features`) the machine is

.. math:: \min_{u, b} \tfrac{\lambda}{2} u^T u + \tfrac12 \sum_i v_i (y_i - z_i^T u - b)^2, \qquad
          H = A + \lambda I, \quad A = \sum_i v_i (z_i - \bar z)(z_i - \bar z)^T .

It is quadratic, so a gradient g in u, with b at its best, moves the fitted values by :math:`\|Z_c H^{-1} g\|_v` exactly,
which is at most :math:`\|H^{-1/2} g\|`. A is known from sums, up to rounding. With :math:`\hat H` computed and
:math:`\|\hat H^{-1/2} (H - \hat H) \hat H^{-1/2}\| \le \eta < 1`, and features off by :math:`\Delta`,

.. math:: \|Z_c H^{-1} g\| \le (\hat x^T \hat A \hat x)^{1/2} + \|\Delta \hat x\|
          + \frac{\eta}{\sqrt{1 - \eta}} \|\hat H^{-1/2} g\|, \qquad \hat x = \hat H^{-1} g .

A direction that is faint beside lambda magnifies the rounding of kernel values in g, but hardly reaches the fitted
values: that is why the first term is worth more than the last one alone. Sums over some of the rows only bound H from
below, and leave the last one alone.
"""

import math
from dataclasses import dataclass

import numpy as np

from substrate.arrays import EPS, Array
from substrate.closed_form.eigen_features import EigenFeatures
from substrate.namespaces import namespace_of, to_numpy
from substrate.threads import blas_threads

__all__ = ["Curvature", "Reach"]

_HALF = EPS / 2.0


@dataclass(frozen=True, slots=True)
class Curvature:
    """A with what is known of its rounding.

    ``mean`` is the mean feature about nought; ``offsets`` that about the origin of the sums, whose squares were taken
    off; ``sizes`` the roots of k(z_j, z_j) of the basis; ``terms`` how many numbers were added up one after the other;
    ``accumulated`` says that kernel values were summed up before they became features; ``whole`` that A is of all rows.
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
        """At one lambda, for kernel values right to ``rounding`` and rows with ``spread`` the root of sum v k(x, x)."""
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
            except Exception as error:
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
    """The inverse root of H, how well it is known, and what a gradient does to the fitted values."""

    curvature: Curvature
    root: Array
    eta: float
    own: float
    spread: float
    summed: float
    lengths: Array

    @property
    def known(self) -> bool:
        """Whether H is known well enough to say anything."""
        return self.eta <= 0.5

    def of_gradient(self, g: Array) -> Array:
        """The bound for every column of g, on the host."""
        if not self.known:
            return np.full(g.shape[1], math.inf)
        return self._moved(self.root @ g)

    def of_slopes(self, size: float, seen: Array | None = None) -> float:
        """The bound for g = T'w, whatever w with ``|w_j|`` at most ``size`` times the size of basis vector j.

        ``seen`` is the scatter of other rows about the same mean, whose fitted values are asked for instead.
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
        # all together by the norm of H^-1/2 g, or one by one by what each does to the fitted values
        return size * min(float(per_vector.sum()), whole / math.sqrt(1.0 - self.eta))

    def lever(self, seen: Array | None = None) -> float:
        """A bound on the norm of Z H^-1/2 up to the rounding of H: one for the rows of the fit."""
        if seen is None:
            return 1.0
        trace = float(namespace_of(seen).sum(self.root * (self.root @ seen)))
        return math.sqrt(max(trace, 0.0)) * 1.01 + 1e-6

    def _moved(self, half: Array, seen: Array | None = None) -> Array:
        """From H^-1/2 g, a column each."""
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
