r"""The Hessian of a machine in primal weights, factored, with a bound that does not trust the factorisation.

With features :math:`\Phi_c`, weights v and :math:`H = A^T A`,

.. math:: A = \begin{bmatrix} \sqrt{\gamma V}\, \Phi_c & \sqrt{\gamma V}\, 1 \\ I & 0 \end{bmatrix} .

Let T be any matrix with :math:`\eta = \|I - (A T)^T A T\| < 1`. Then :math:`\|A T z\|^2 \ge (1 - \eta) \|z\|^2`,
so :math:`H \ge (1 - \eta)\, T^{-T} T^{-1}` and

.. math:: g^T H^{-1} g \le \frac{\|T^T g\|^2}{1 - \eta} .

T is the inverse of R in A = QR. How good it is does not matter: eta is computed, with its rounding, and with what the
rounding of the features may change in A.
"""

import math
from dataclasses import dataclass

import numpy as np

from substrate.arrays import EPS, Array

__all__ = ["Factor"]

_HALF = EPS / 2.0
#: The largest eta at which a bound is given.
_MOST = 0.5


@dataclass(frozen=True, slots=True)
class Factor:
    """A with columns scaled to one size, those sizes, and T; weights first, the bias last."""

    A: Array
    sizes: Array
    T: Array

    @classmethod
    def of(cls, features: Array, gamma: float, v: Array) -> "Factor":
        """For one gamma; not finite where the sizes of the features overflow."""
        from scipy.linalg.lapack import dtrtri

        n, p = features.shape
        roots = np.sqrt(gamma * v)[:, None]
        tall = roots * np.concatenate([features, np.ones((n, 1))], axis=1)
        largest = np.maximum(np.abs(tall).max(axis=0), np.append(np.ones(p), 0.0))
        sizes = largest * np.sqrt(np.square(tall / largest).sum(axis=0) + np.append(1.0 / np.square(largest[:-1]), 0.0))
        A = np.concatenate([tall / sizes, np.diag(1.0 / sizes)[:-1]])
        if not np.isfinite(A).all():
            return cls(A, sizes, np.full((p + 1, p + 1), np.nan))
        T, info = dtrtri(np.linalg.qr(A, mode="r"))
        return cls(A, sizes, np.triu(T) if info == 0 else np.full_like(T, np.nan))

    def norm(self, g: Array) -> float:
        """sqrt(g'H^-1 g), as far as T is the inverse of a factor."""
        return float(np.linalg.norm(self.T.T @ (g / self.sizes)))

    def solve(self, g: Array) -> Array:
        """H^-1 g, likewise."""
        return np.asarray(self.T @ (self.T.T @ (g / self.sizes)) / self.sizes)

    def bound(self, g: Array, doubt: Array, unsure: Array, gamma: float, v: Array) -> float:
        """A bound on sqrt(g'H^-1 g / (gamma sum v)) for a gradient known to ``doubt``, features known to ``unsure``."""
        if not np.isfinite(self.T).all():
            return math.inf
        eta = self._eta(np.sqrt(gamma * v)[:, None] * unsure)
        if not eta <= _MOST:
            return math.inf
        scaled = g / self.sizes
        # T'g is a sum of as many terms as there are columns, each rounded a few times
        known = (np.abs(self.T).T @ (doubt / self.sizes)) + (g.size + 4.0) * _HALF * (np.abs(self.T).T @ np.abs(scaled))
        size = float(np.linalg.norm(np.abs(self.T.T @ scaled) + known))
        return float(1.01 * size / math.sqrt((1.0 - eta) * gamma * float(v.sum())))

    def _eta(self, unsure: Array) -> float:
        """||I - (A T)'(A T)|| from above, in the norm of Frobenius."""
        m, p = self.A.shape
        B = self.A @ self.T
        rounded = (p + 10.0) * _HALF * np.abs(self.A)
        rounded[: unsure.shape[0], :-1] += unsure / self.sizes[:-1]
        error = float(np.linalg.norm(rounded @ np.abs(self.T)))
        length = float(np.linalg.norm(B))
        apart = float(np.linalg.norm(np.eye(p) - B.T @ B))
        return float(1.01 * (apart + 2.0 * length * error + error * error + (m + 2.0) * _HALF * length * length))
