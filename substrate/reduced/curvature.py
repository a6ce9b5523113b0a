r"""The curvature of a fit on a reduced basis, from sums over its rows, and what errors in the gradient change.

Errors in the gradient change the fitted values as follows. With features :math:`z(x) = T^T k_S(x)`
(:mod:`~substrate.reduced.features`) the machine is

.. math:: \min_{u, b} \tfrac{\lambda}{2} u^T u + \tfrac12 \sum_i v_i (y_i - z_i^T u - b)^2, \qquad
          H = A + \lambda I, \quad A = \sum_i v_i (z_i - \bar z)(z_i - \bar z)^T .

It is quadratic, so a gradient g in u, with b optimal, changes the fitted values by :math:`\|Z_c H^{-1} g\|_v` exactly,
which is at most :math:`\|H^{-1/2} g\|`. A is obtained from sums, up to rounding. With :math:`\hat H` computed and
:math:`\|\hat H^{-1/2} (H - \hat H) \hat H^{-1/2}\| \le \eta < 1`, and features with errors :math:`\Delta`,

.. math:: \|Z_c H^{-1} g\| \le (\hat x^T \hat A \hat x)^{1/2} + \|\Delta \hat x\|
          + \frac{\eta}{\sqrt{1 - \eta}} \|\hat H^{-1/2} g\|, \qquad \hat x = \hat H^{-1} g .

Where the penalty is :math:`\tfrac{\lambda}{2} u^T (I + E) u` (:mod:`~substrate.reduced.basis_matrix`), H has
:math:`\lambda E` besides, and :math:`\eta` grows by :math:`\lambda \|\hat H^{-1/2} E \hat H^{-1/2}\|`.

A direction whose eigenvalue is small relative to lambda magnifies the rounding of kernel values in g, but hardly
affects the fitted values; so the first term is much sharper than the last. Sums over some of the rows only bound H from
below, and leave only the last term.

Sums of kernel values about an origin, transformed afterwards, have errors of their own: with the norms d of the columns
of kernel values, :math:`|\Delta \sum_i k_{ij} k_{ik}| \le \gamma_c d_j d_k`, and the sums by which they are centred
are as accurate, so that :math:`\eta` grows by :math:`2 \gamma_c \| |\hat H^{-1/2} T^T| d \|^2`, and by
:math:`\gamma_{2c'} \| |\hat H^{-1/2}| |T^T| d \|^2` for the products with T, whose entries are sums of c' terms in
sequence.
"""

import math
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, sum_rounding
from substrate.namespaces import invert_triangle, multiply_triangle, namespace_of, on_device_of, to_numpy
from substrate.reduced.basis_matrix import BasisMatrix, Deviation
from substrate.reduced.features import INNER, EigenFeatures
from substrate.threads import blas_threads

__all__ = ["Curvature", "Reach"]


@dataclass(frozen=True, slots=True)
class Curvature:
    """A with bounds on its rounding.

    ``mean`` is the mean feature about zero; ``offsets`` that about the origin of the sums, whose squares were
    subtracted; ``sizes`` the roots of k(z_j, z_j) of the basis; ``terms`` the number of terms added sequentially;
    ``accumulated`` states that kernel values were summed before they became features; ``whole`` that A is of all rows;
    ``columns`` are the norms of the kernel values of every basis vector about the origin of the sums, if known;
    ``basis`` is the matrix of the penalty, None where that is exactly the identity, or there is none.
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
    columns: Array | None = None
    basis: BasisMatrix | None = None

    @property
    def penalty_matrix(self) -> BasisMatrix:
        """The matrix of the penalty."""
        if self.basis is None:
            raise ValueError("the curvature of a machine without the penalty w'w has no matrix of the basis")
        return self.basis

    def at(self, lam: float, rounding: float, spread: float, deviation: Deviation | None = None) -> "Reach":
        """Return the reach at one lambda, for kernel values accurate to ``rounding``; ``spread`` is the root of the sum
        of v k(x, x).

        ``deviation`` is that of the penalty from the identity.
        """
        xp, r, m = namespace_of(self.scatter), self.features.rank, self.features.n_basis
        T, A, s = self.features.transform, self.scatter, self.sizes
        diagonal, ridges = xp.linalg.diagonal(A), self.features.ridges(lam)
        roots = xp.sqrt(xp.clip(diagonal, min=0.0) + ridges)
        lengths = xp.sqrt(xp.clip(diagonal, min=0.0) + self.mass * self.offsets * self.offsets)
        relative_radius = rounding + (0.0 if self.accumulated else sum_rounding(m + 4))
        # of the products of features, and twice that of the sums by which they are centred, once for either factor
        summed = sum_rounding(3 * self.terms + r + 8)
        if r == 0:
            return Reach(
                curvature=self,
                root=A,
                pull=A,
                eta=0.0,
                own=relative_radius,
                spread=spread,
                summed=summed,
                lengths=lengths,
            )
        with blas_threads(r):
            try:
                penalty = ridges * xp.eye(r, dtype=A.dtype, device=A.device)
                with np.errstate(divide="ignore", invalid="ignore"):  # a direction without any weight is not known
                    scaled = (A + penalty) / roots[:, None] / roots
                L = xp.linalg.cholesky(scaled)
                inner = invert_triangle(L)
            except Exception as error:  # every namespace raises an error of its own here
                if type(error).__name__ not in ("LinAlgError", "_LinAlgError"):
                    raise
                return Reach(
                    curvature=self,
                    root=A,
                    pull=A,
                    eta=math.inf,
                    own=relative_radius,
                    spread=spread,
                    summed=summed,
                    lengths=lengths,
                )
            W = inner / roots
            pull = multiply_triangle(W, T.T)
            faint = float(xp.linalg.vector_norm(xp.abs(pull) @ s))
        eta = 2.0 * relative_radius * spread * faint + (relative_radius * spread * faint) ** 2
        eta += summed * float(xp.sum((xp.abs(W) @ lengths) ** 2))
        if self.accumulated and self.columns is not None:  # the sums, and their products with T from both sides
            once, after = self._of_sums()
            eta += once * float(xp.linalg.vector_norm(xp.abs(pull) @ self.columns)) ** 2
            eta += after * float(xp.linalg.vector_norm(xp.abs(W) @ (xp.abs(T.T) @ self.columns))) ** 2
        elif self.accumulated:
            eta += summed * (2.0 * spread * faint) ** 2
        eta += sum_rounding(8 * r) * float(xp.sum(inner * inner))
        bent = 0.0 if deviation is None else deviation.norm(W[:, : r - self.features.free], lam)
        eta += bent
        return Reach(
            curvature=self,
            root=W,
            pull=pull,
            eta=eta if math.isfinite(eta) else math.inf,
            own=relative_radius,
            spread=spread,
            summed=summed,
            lengths=lengths,
            bent=bent,
        )

    def outside(self, diagonal: float, rounding: float, deviation: Deviation | None) -> tuple[float, float]:
        """Bound the squared lengths of all rows outside the kept directions, from the sums; may be infinite.

        ``diagonal`` is the sum of all v k(x, x). The second bound is one from below, up to the rounding of K_SS.
        """
        if not self.whole or self.accumulated or deviation is None:
            return math.inf, 0.0
        xp, relative_radius = namespace_of(self.scatter), rounding + sum_rounding(self.features.n_basis + 4)
        second = self.scatter + self.mass * self.mean[:, None] * self.mean
        kept = self.features.rank - self.features.free
        second = second[:kept, :kept]
        squares = xp.clip(xp.linalg.diagonal(second), min=0.0)
        inside = float(xp.sum(squares)) - deviation.quadratic(second)
        lengths = relative_radius * math.sqrt(diagonal) * deviation.lengths
        radius = 2.0 * float(xp.sqrt(squares) @ lengths) + float(lengths @ lengths)
        radius += sum_rounding(2 * (3 * self.terms + self.features.rank + 16)) * (diagonal + float(xp.sum(squares)))
        return max(diagonal - inside, 0.0) + radius, max(diagonal - float(xp.sum(squares)) - radius, 0.0)

    def _of_sums(self) -> tuple[float, float]:
        """Return the relative rounding of sums of kernel values, and that of their products with T from both sides.

        The first counts twice: once for the products, once for the sums by which they are centred. That is a product of
        two factors, below the mean of their squares; the other square is among the rounding of features.
        """
        n = self.features.n_basis
        return sum_rounding(2 * (self.terms + 8)), sum_rounding(2 * (min(n, INNER) + -(-n // INNER) + 8))

    def bound_change_of_sums(self, x: Array, beta: Array) -> Array:
        """Return what the rounding of the sums adds to the norm of Z x, with beta = T x, column by column."""
        xp, T = namespace_of(x), self.features.transform
        once, after = self._of_sums()
        single = math.sqrt(once) * (self.columns @ xp.abs(beta))
        two = math.sqrt(after) * ((xp.abs(T.T) @ self.columns) @ xp.abs(x))
        return np.asarray(to_numpy(single + two))


@dataclass(frozen=True, slots=True)
class Reach:
    """The inverse root of H, that times T', its accuracy, and the effect of a gradient on the fitted values.

    ``bent`` is the part of the accuracy that the matrix of the penalty has.
    """

    curvature: Curvature
    root: Array
    pull: Array
    eta: float
    own: float
    spread: float
    summed: float
    lengths: Array
    bent: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether H is accurate enough for a bound."""
        return self.eta <= 0.5

    def of_gradient(self, g: Array) -> Array:
        """Return the bound for every column of g, on the host."""
        if not self.is_known:
            return np.full(g.shape[1], math.inf)
        return self._bound_move(self.root @ g)

    def of_rounding(self, errors: Array, lam: float) -> Array:
        """Return the bound for a gradient of which only the sizes of its entries are known, one column per output."""
        if self.curvature.features.free == 0:  # H is at least lambda
            return np.asarray(np.linalg.norm(errors, axis=0) / math.sqrt(lam))
        if not self.is_known:
            return np.full(errors.shape[1], math.inf)
        xp, sizes = namespace_of(self.root), on_device_of(self.root, errors)
        norms = to_numpy(xp.linalg.vector_norm(xp.abs(self.root) @ sizes, axis=0))
        return np.asarray(norms / math.sqrt(1.0 - self.eta))

    def of_radius(self, radius: Array, *, sharp: bool = True) -> Array:
        """Return the bound for g = T'w, for any w of which only the sizes of the entries are known, one column per
        output.

        All together by the norm of H^-1/2 g, or, where ``sharp``, one by one by the effect of each on the fitted
        values, if that is less.
        """
        if not self.is_known:
            return np.full(radius.shape[1], math.inf)
        c = self.curvature
        xp = namespace_of(c.scatter)
        if c.features.rank == 0:
            return np.zeros(radius.shape[1])
        sizes = on_device_of(c.scatter, radius)
        whole = to_numpy(xp.linalg.vector_norm(xp.abs(self.pull) @ sizes, axis=0)) / math.sqrt(1.0 - self.eta)
        return np.minimum(self._bound_move(self.pull) @ radius, whole) if sharp else np.asarray(whole)

    def of_slopes(
        self, size: float, leverages: Array | None = None, *, sharp: bool = True, summed: bool = False
    ) -> float:
        """Return the bound for g = T'w, for any w with ``|w_j|`` at most ``size`` times the size of basis vector j.

        ``seen`` is the scatter of other rows about the same mean, whose fitted values are bounded instead; with
        ``summed`` the size is the norm of the vector's kernel values. Where ``sharp`` is false a bound that may be
        larger is found in less time.
        """
        c = self.curvature
        sizes = c.columns if summed else c.sizes
        if not self.is_known or sizes is None:
            return math.inf
        xp = namespace_of(c.scatter)
        if c.features.rank == 0:
            return 0.0
        pulled = self.pull * sizes
        # all together by the norm of H^-1/2 g, or one by one by the effect of each on the fitted values
        whole = self.lever(leverages) * float(xp.linalg.vector_norm(xp.sum(xp.abs(pulled), axis=1)))
        whole /= math.sqrt(1.0 - self.eta)
        return size * (min(float(self._bound_move(pulled, leverages).sum()), whole) if sharp else whole)

    def lever(self, leverages: Array | None = None) -> float:
        """Bound the norm of Z H^-1/2 up to the rounding of H: one for the rows of the fit."""
        if leverages is None:
            return 1.0
        trace = float(namespace_of(leverages).sum(self.root * (self.root @ leverages)))
        return at_most(math.sqrt(max(trace, 0.0))) + 1e-6

    def _bound_move(self, half: Array, leverages: Array | None = None) -> Array:
        """Return the bound from H^-1/2 g, column by column."""
        c = self.curvature
        xp = namespace_of(c.scatter)
        energy = to_numpy(xp.sqrt(xp.sum(half * half, axis=0)))
        energy = self.lever(leverages) * energy
        most = energy / math.sqrt(1.0 - self.eta)
        if not c.whole or c.features.rank == 0:
            return np.asarray(most)
        x = self.root.T @ half
        squares = to_numpy(xp.sum(x * ((c.scatter if leverages is None else leverages) @ x), axis=0))
        sums = to_numpy(self.lengths @ xp.abs(x))
        beta = c.features.transform @ x
        radius = self.spread * to_numpy(c.sizes @ xp.abs(beta))
        bound = np.sqrt(np.maximum(squares, 0.0)) + math.sqrt(self.summed) * sums + self.own * radius
        if c.accumulated:
            bound += 2.0 * math.sqrt(self.summed) * radius if c.columns is None else c.bound_change_of_sums(x, beta)
        return np.asarray(np.minimum(bound + self.eta / math.sqrt(1.0 - self.eta) * energy, most))
