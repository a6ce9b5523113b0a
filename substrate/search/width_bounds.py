r"""Kernel matrices of all widths in an interval, bounded by those of one width: the ground of a proof over the width.

For one shared width and :math:`t = \log\sigma`, RBF, Laplacian and Matérn kernels are mixtures of Gaussians whose
scales are multiples of :math:`\sigma`. Under the mixture a Gaussian of d columns has the spectral density
:math:`\hat s_t(\omega) \propto e^{dt} e^{-w}` with :math:`w = c_\omega e^{2t} \ge 0`, so derivatives of K in t are
polynomials in w of this density,

.. math:: K' \leftrightarrow (d - 2w)\,\hat s, \qquad K'' \leftrightarrow \big((d - 2w)^2 - 4w\big)\,\hat s ,

and by Bochner's theorem a density that is nowhere negative is a positive semi-definite matrix for any points. Three
such matrices follow from K and two derivatives, which have closed forms:

.. math::

    W = \tfrac12 (dK - K') \leftrightarrow w\hat s, \qquad
    P = K'' + 2dK - 2K' \leftrightarrow (d - 2w)^2 \hat s, \qquad
    V = P + 4dW - d^2 K \leftrightarrow 4w^2 \hat s .

For s in the zone :math:`[t_0 - h, t_0 + h]`, whose narrowest kernel is at :math:`a = t_0 - h`, the density is at most
:math:`e^{2dh}\hat s_a`, and :math:`w_a \le w_s \le e^{4h} w_a`. Hence, in the Loewner order and for any
:math:`\kappa > 0`,

.. math::

    -L \preceq K''(s) \preceq U, \qquad L = 4 e^{2(d+2)h}\, W(a), \qquad
    U = e^{2dh} \big( (1 + \kappa) P(a) + (1 + 1/\kappa) (e^{4h} - 1)^2 V(a) \big),

.. math:: K(t_0 + \tau) = K_0 + \tau K_1 + R, \qquad -\tfrac12 \tau^2 L \preceq R \preceq \tfrac12 \tau^2 U .

The remainder is a matrix, not a number over :math:`\lambda`: relative to :math:`A_0 = K_0 + \lambda I` it grows with
the logarithm of :math:`1/\lambda` only. Euclidean distances of N points are those of N - 1 columns, so d is at most
that, and constant columns do not count.

With :math:`G = (S + \lambda)^{-1}` of the spectrum of the centred :math:`K_0` and its basis Y, all other matrices enter
as :math:`G^{1/2} Y^T (\cdot)\, Y G^{1/2}`; their norms fall in :math:`\lambda`. A norm is bounded by a number c for
which a Cholesky factor of :math:`cI - M` exists. The errors of the decomposition, of the kernel values and of these
products are one more matrix, bounded in norm (``kernel_radius``).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DeclarationError
from substrate.gram import Gram
from substrate.kernels import RBF, Kernel, Laplacian, Matern
from substrate.kernels.distances import metric_distances
from substrate.least_squares.spectrum import Spectrum, centred_spectrum
from substrate.namespaces import namespace_of, on_device_of, to_numpy
from substrate.threads import blas_threads

__all__ = ["WidthFamily", "Zone", "largest_eigenvalue", "remainder_bounds", "spectral_moment"]

#: Norms are computed at multiples of this in log lambda, and hold for larger lambda.
_STEP = 1.0
_POWER_STEPS = 10
_MOST_TRIALS = 80
#: Share of the pairs of rows that may be nearer than the distance at which a default range begins.
_NEAREST = 0.01


@dataclass(frozen=True, slots=True)
class WidthFamily:
    """A kernel of any width on given points: ``distances`` in units of ``unit``, which is the width of ``kernel``.

    ``dimension`` is d; ``rounding`` bounds the error of a computed kernel value.
    """

    kernel: Any
    unit: float
    distances: Array
    dimension: int
    rounding: float

    @classmethod
    def of(cls, kernel: Kernel, X: Any) -> "WidthFamily":
        """Build it of a resolved kernel, where the rows are; other kernels and sparse rows are refused."""
        plain = isinstance(kernel, (RBF, Laplacian)) or (isinstance(kernel, Matern) and kernel.nu in (0.5, 1.5, 2.5))
        if not plain or not isinstance(kernel.sigma, float):  # type: ignore[attr-defined]
            raise DeclarationError(
                "search='certified' is for one width: RBF, Laplacian or Matern with nu = 0.5, 1.5 or 2.5 and a single "
                f"sigma, received {kernel!r}; use one of these, or search='nelder-mead', which proves nothing"
            )
        if is_sparse(X):
            raise DeclarationError("search='certified' computes from dense rows; pass X.toarray()")
        home, X = X, np.asarray(to_numpy(X))
        n, manhattan = X.shape[0], isinstance(kernel, Laplacian)
        distances, unit = np.empty((n, n)), float(kernel.sigma)  # type: ignore[attr-defined]
        metric_distances(X, X, "cityblock" if manhattan else "euclidean", unit, distances)
        columns = int((X.max(axis=0) > X.min(axis=0)).sum())
        dimension = max(1, columns if manhattan else min(columns, n - 1))
        # a distance is a sum over the columns, and no derivative of k in its logarithm exceeds one
        return cls(
            kernel=kernel,
            unit=unit,
            distances=on_device_of(home, distances),
            dimension=dimension,
            rounding=relative_rounding(X.shape[1] + 20.0),
        )

    def kernel_at(self, t: float) -> Any:
        """Return the kernel of this logarithm of the width, in units of ``unit``."""
        return replace(self.kernel, sigma=self.unit * math.exp(t))

    def default_range(self) -> tuple[float, float]:
        """Return the logarithms of the ends: nearly the identity for 99 % of the pairs; ten largest distances."""
        distances = np.asarray(to_numpy(self.distances))
        distances_above_zero = distances[distances > 0.0]
        if not distances_above_zero.size:
            return -1.0, 1.0
        below = 3.0 if isinstance(self.kernel, RBF) else 7.0
        low, high = float(np.quantile(distances_above_zero, _NEAREST)) / below, 10.0 * float(distances_above_zero.max())
        if not (low > 0.0 and math.isfinite(high)):
            raise DeclarationError("distances of the rows overflow or vanish; scale the columns, or give sigma_range")
        return math.log(low), math.log(high)

    def derivatives(self, t: float) -> tuple[Array, Array, Array]:
        """k and its first two derivatives in t, for all pairs, where the distances are."""
        xp = namespace_of(self.distances)
        scaled = xp.clip(self.distances * math.exp(-t), max=1e6)
        if isinstance(self.kernel, RBF):
            x = scaled * scaled
            k = xp.exp(-x)
            return k, 2.0 * x * k, 4.0 * (x * x - x) * k
        if isinstance(self.kernel, Laplacian) or self.kernel.nu == 0.5:
            k = xp.exp(-scaled)
            return k, scaled * k, (scaled * scaled - scaled) * k
        s = math.sqrt(2.0 * self.kernel.nu) * scaled
        e, square = xp.exp(-s), s * s
        if self.kernel.nu == 1.5:
            return (1.0 + s) * e, square * e, (s - 2.0) * square * e
        return (1.0 + s + square / 3.0) * e, square * (1.0 + s) / 3.0 * e, (square - 2.0 * s - 2.0) * square / 3.0 * e


@dataclass(frozen=True)
class Zone:
    """All widths within ``half`` of ``t``: the spectrum at t, and what bounds the others, in its coordinates.

    ``slope`` is K_1, ``low`` is L and ``whole`` is L + U; ``bend`` is half the square of ``half``. ``errors`` bound the
    norm of what rounding changes in slope and in whole.
    """

    t: float
    half: float
    spectrum: Spectrum
    slope: Array
    low: Array
    whole: Array
    errors: tuple[float, float]

    @classmethod
    def of(cls, family: WidthFamily, t: float, half: float, weights: Array | None = None) -> "Zone":
        """Decompose at t. ``weights`` are those of the rows, of mean one."""
        h = half * (1.0 + 1e-9) + 1e-13 * (1.0 + abs(t))  # the ends of neighbours meet whatever their rounding
        d, n = family.dimension, family.distances.shape[0]
        K, slope, _ = family.derivatives(t)
        spectrum = centred_spectrum(Gram(K), family.rounding, weights)
        k, first, second = family.derivatives(t - h)
        low, whole, terms = remainder_bounds(d, h, k, first, second)
        if weights is not None:
            roots = np.sqrt(weights)
            slope, low, whole = (roots[:, None] * matrix * roots for matrix in (slope, low, whole))
        basis, unit = spectrum.basis, relative_rounding(n + 30.0) + family.rounding
        # products with the basis, whose entries have a norm of sqrt(n) together, and entries that are sums of terms
        share = 4.0 * math.sqrt(n) * unit
        errors = (share * (_size(slope) + n), share * (_size(low) + _size(whole)) + family.rounding * terms)
        with blas_threads(n):
            slope, low, whole = (basis.T @ matrix @ basis for matrix in (slope, low, whole))
        slope, low, whole = (0.5 * (matrix + matrix.T) for matrix in (slope, low, whole))
        return cls(t=t, half=h, spectrum=spectrum, slope=slope, low=low, whole=whole, errors=errors)

    @property
    def bend(self) -> float:
        """Return half the square of the half-length."""
        return 0.5 * self.half**2

    @cached_property
    def slope_squares(self) -> Array:
        """Return the squares of the entries of the slope."""
        return np.square(self.slope)

    @cached_property
    def low_squares(self) -> Array:
        """Return the squares of the entries of the lower bound of the remainder."""
        return np.square(self.low)

    @cached_property
    def whole_squares(self) -> Array:
        """Return the squares of the entries of the sum of both bounds."""
        return np.square(self.whole)

    @cached_property
    def masses(self) -> Array | None:
        """Return the weights of the rows, of mean one, in the coordinates of the spectrum; None where there are
        none.
        """
        basis, root = self.spectrum.basis, self.spectrum.root
        if root is None:
            return None
        with blas_threads(basis.shape[0]):
            half = basis * (root * np.sqrt(root.size / float(root @ root)))[:, None]
            return np.asarray(half.T @ half)

    @cached_property
    def _norms(self) -> dict[int, tuple[float, float]]:
        return {}

    def norms(self, lam: float) -> tuple[float, float]:
        """Return bounds on the norms of slope and whole relative to K_0 + lambda, computed at a lambda not larger."""
        step = math.floor(math.log(lam) / _STEP)
        if step not in self._norms:
            root = np.sqrt(1.0 / (self.spectrum.values + math.exp(step * _STEP)))
            with blas_threads(root.size):
                slope = root[:, None] * self.slope * root
                steepest = max(largest_eigenvalue(slope), largest_eigenvalue(-slope))
                self._norms[step] = steepest, largest_eigenvalue(root[:, None] * self.whole * root)
        return self._norms[step]

    def radius(self, lambdas: Array) -> Array:
        """Return a bound on what rounding changes, relative to K_0 + lambda."""
        spectrum = self.spectrum
        spectrum_error = (
            spectrum.error + spectrum.lift
        )  # a lift repairs rounding: these kernels are positive semi-definite
        total = spectrum_error + spectrum.skew * lambdas + self.half * self.errors[0] + self.bend * self.errors[1]
        return np.asarray(total / (self.lowest + lambdas))

    @property
    def lowest(self) -> float:
        """Return the smallest eigenvalue."""
        return float(self.spectrum.values[0])


def spectral_moment(d: int, k: Any, first: Any) -> Any:
    """Return W, which has w times the density of the kernel, from the kernel and its derivative in t."""
    return 0.5 * (d * k - first)


def remainder_bounds(d: int, h: float, k: Any, first: Any, second: Any) -> tuple[Any, Any, float]:
    """Return L and L + U of a zone from the kernel and its derivatives at its narrowest end, and the size of the terms.

    All entries are sums of terms whose sizes, over all rows, add up to at most the last number.
    """
    W = spectral_moment(d, k, first)
    P = second + 2.0 * d * k - 2.0 * first
    V = P + 4.0 * d * W - d * d * k
    kappa = min(max(4.0 * h * d / math.sqrt(2.0 * d), 0.02), 1.0)
    with np.errstate(over="ignore"):
        growth = float(np.exp(2.0 * d * h))
    low = 4.0 * growth * math.exp(4.0 * h) * W
    whole = low + growth * ((1.0 + kappa) * P + (1.0 + 1.0 / kappa) * math.expm1(4.0 * h) ** 2 * V)
    terms = k.shape[0] * growth * math.exp(4.0 * h) * (1.0 + 1.0 / kappa) * 16.0 * (1.0 + d) ** 2
    return low, whole, terms


def _size(matrix: Array) -> float:
    return float(np.sqrt(np.square(matrix).sum()))


def largest_eigenvalue(M: Array) -> float:
    """Return a number that no eigenvalue of a symmetric matrix exceeds, within a few per cent of the largest in
    size.
    """
    from scipy.linalg import LinAlgError, cholesky

    n = M.shape[0]
    size = _size(M)
    if not math.isfinite(size):
        return math.inf
    reached = 0.0
    vector: Array = np.asarray(np.random.default_rng(n).standard_normal(n))
    for _ in range(_POWER_STEPS):
        length = float(np.linalg.norm(vector))
        if length == 0.0:
            break
        image = M @ (vector / length)
        reached, vector = float(np.linalg.norm(image)), image
    # a factor of a matrix within n^2 eps of the given one in trace and norm
    slack = relative_rounding(4.0) * (n + 2.0) * (n * reached + size)
    bound = 1.02 * reached + slack
    for _ in range(_MOST_TRIALS):
        shifted = -M
        shifted[np.diag_indices(n)] += bound
        try:
            cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            bound = 1.05 * bound
        else:
            return float(
                min(
                    bound * (1.0 + relative_rounding(4.0) * n * (n + 2.0)) + slack,
                    size * (1.0 + relative_rounding(4.0) * n),
                )
            )
        if bound > size:
            break
    return float(size * (1.0 + relative_rounding(4.0) * n))
