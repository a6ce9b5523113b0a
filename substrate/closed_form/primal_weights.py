r"""Kernels of finite rank in their features: the answer that support values cannot carry.

.. math:: \min_{w, b} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i (y_i - w^T(\varphi(x_i) - c) - b)^2

With p features and many more rows, K has rank p, and where gamma or the features are large the support values are huge
and nearly cancel: even the exact ones, rounded to double precision, may predict nothing. The weights w do not suffer
from that. Beside an unpenalised bias the features may be centred at any c, here their weighted mean, so an offset costs
nothing.

The first w comes from a QR factorisation of :math:`[\sqrt{\gamma v_i}\,(\varphi(x_i) - c);\ I] = QR` with columns
scaled to one size. It is then refined by the gradient

.. math:: g = w - \Phi_c^T \alpha, \qquad \alpha_i = \gamma v_i (y_i - f_i),

in doubled precision, and the same g bounds the answer. With :math:`H = I + \gamma \Phi_c^T V \Phi_c = R^T R`,

.. math::

    H (w - w^\star) = g, \quad \gamma \|f - f^\star\|_v^2 \le (w - w^\star)^T H (w - w^\star)
    \quad\Longrightarrow\quad \|f - f^\star\|_v \le \gamma^{-1/2} \|R^{-T} g\| .

Features are rounded too, by a relative error u each; what that moves, of f and of g, is added.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates import Row
from substrate.certificates.accuracy import ACCURATE, Accuracy, accuracy_row, root_mean_square, spread_of
from substrate.certificates.doubled_precision import Pair, add, exact_product, minus, multiplied
from substrate.certificates.rows import roundoff
from substrate.kernels import Kernel

__all__ = ["PrimalWeights", "leverages", "primal_accuracy", "solve_primal", "support_values_of"]

FORMULA = "||R^-T (w - Phi' alpha)|| / sqrt(gamma) + rounding, in doubled precision"
#: Condition of R, columns scaled, up to which its inverse is trusted to one part in a hundred.
_TRUSTED = 1e-2 / EPS
_MOST_STEPS = 10


@dataclass(frozen=True, slots=True)
class PrimalWeights:
    """f(x) = sum_k w_k (phi_k(x) - c_k) + b, one column of weights per output."""

    kernel: Kernel
    center: Array
    weights: Array
    bias: Array

    def output(self, column: int) -> "PrimalWeights":
        """One output alone."""
        return PrimalWeights(self.kernel, self.center, self.weights[:, [column]], self.bias[[column]])

    def __call__(self, X: Any) -> Array:
        """The outputs for the rows of X, one column per output."""
        points = X.toarray() if hasattr(X, "toarray") else X
        values: Array = (self.kernel.features(points) - self.center) @ self.weights + self.bias
        return values


def solve_primal(kernel: Kernel, X: Any, Y: Array, gammas: tuple[float, ...], v: Array) -> PrimalWeights:
    """Weights and biases for every column of Y, one gamma each."""
    Phi = kernel.features(X.toarray() if hasattr(X, "toarray") else X)
    center = _center(Phi, v)
    features = Phi - center
    weights, biases = np.empty((Phi.shape[1], Y.shape[1])), np.empty(Y.shape[1])
    for gamma in dict.fromkeys(gammas):
        factor = _Factor.of(features, gamma, v)
        for column in (k for k, other in enumerate(gammas) if other == gamma):
            weights[:, column], biases[column] = _refined(factor, features, Y[:, column], gamma, v)
    return PrimalWeights(kernel, center, weights, biases)


def support_values_of(
    primal: PrimalWeights, X: Any, Y: Array, gammas: tuple[float, ...], v: Array
) -> tuple[Array, Array]:
    """alpha = gamma v (y - f), with f in doubled precision, and the bias of features that are not centred.

    They are what the machine reports; each is known to its own rounding, and their expansion may still be nothing.
    """
    features = primal.kernel.features(X.toarray() if hasattr(X, "toarray") else X) - primal.center
    alpha = np.empty_like(Y)
    for column, gamma in enumerate(gammas):
        e = _errors(features, Y[:, column], primal.weights[:, column], float(primal.bias[column]))[0]
        alpha[:, column] = gamma * v * (e[0] + e[1])
    return alpha, np.asarray(primal.bias - primal.center @ primal.weights)


def leverages(features: Array, pulls: Array) -> Array:
    r"""How much every fitted value follows its own target, for features centred at their mean with weights ``pulls``.

    .. math:: h_i = \frac{p_i}{\sum_j p_j} + p_i\, \varphi_i^T (I + \Phi_c^T P\, \Phi_c)^{-1} \varphi_i,
              \qquad p_i = \gamma v_i
    """
    tall = np.sqrt(pulls)[:, None] * features
    sizes = np.sqrt(1.0 + np.square(tall).sum(axis=0))
    Q = np.linalg.qr(np.concatenate([tall / sizes, np.diag(1.0 / sizes)]))[0][: pulls.size]
    return np.asarray(pulls / pulls.sum() + np.square(Q).sum(axis=1))


def primal_accuracy(
    primal: PrimalWeights, X: Any, y: Array, gamma: float, v: Array, column: int, *, tolerance: float = ACCURATE
) -> tuple[Accuracy, Row]:
    """The rows for one output, from the stored weights: the answer, and stationarity in w."""
    Phi = primal.kernel.features(X.toarray() if hasattr(X, "toarray") else X)
    features = Phi - primal.center
    w, b = primal.weights[:, column], float(primal.bias[column])
    gradient, unbalanced, f = _gradient(features, y, gamma, v, w, b)
    spread, rounding = spread_of(y, v)
    factor, root = _Factor.of(features, gamma, v), math.sqrt(gamma * float(v.sum()))
    # the features are rounded once, and once more when they are centred
    u, half = primal.kernel.feature_rounding(), EPS / 2.0
    pulls = gamma * v * np.abs(y - f[0])
    doubt = u * (np.abs(Phi).T @ pulls) + half * (np.abs(features).T @ pulls)
    moved = u * (np.abs(Phi) @ np.abs(w)) + half * (np.abs(features) @ np.abs(w))
    bound = (
        factor.norm(gradient) / root + float(np.linalg.norm(doubt / factor.sizes)) / max(factor.smallest, 1e-300) / root
    )
    bound += 3.0 * root_mean_square(moved, v) + abs(unbalanced) / (gamma * float(v.sum()))
    apart = add((primal(X)[:, column], np.zeros_like(y)), minus(f))
    bound += root_mean_square(apart[0] + apart[1], v)
    weights = gamma * v * (np.abs(y - f[0]) + EPS * np.abs(f[0]))
    size = float(np.linalg.norm(np.abs(w) + np.abs(features).T @ weights))
    gradient_row = Row(
        "stationarity in w", float(np.linalg.norm(gradient)), size, roundoff(y.size), "||w - Phi' alpha||"
    )
    row = accuracy_row(1.01 * bound, spread, FORMULA, tolerance=tolerance, rounding=rounding)
    return row, gradient_row


@dataclass(frozen=True, slots=True)
class _Factor:
    """R of the QR factorisation, in columns scaled to one size."""

    R: Array
    sizes: Array
    smallest: float

    @classmethod
    def of(cls, features: Array, gamma: float, v: Array) -> "_Factor":
        tall = np.sqrt(gamma * v)[:, None] * features
        sizes = np.sqrt(1.0 + np.square(tall).sum(axis=0))
        stacked = np.concatenate([tall / sizes, np.diag(1.0 / sizes)])
        R = np.asarray(np.linalg.qr(stacked, mode="r"))
        singular = np.linalg.svd(R, compute_uv=False)
        return cls(R, sizes, float(singular[-1]) if singular[0] * sizes.size <= _TRUSTED * singular[-1] else 0.0)

    def norm(self, g: Array) -> float:
        """||R^{-T} g||, infinite where R is too near a singular matrix to know."""
        from scipy.linalg import solve_triangular

        if self.smallest == 0.0:
            return math.inf
        return float(np.linalg.norm(solve_triangular(self.R, g / self.sizes, trans="T")))

    def solve(self, g: Array) -> Array:
        """(I + gamma Phi'V Phi)^{-1} g."""
        from scipy.linalg import solve_triangular

        inner = solve_triangular(self.R, g / self.sizes, trans="T")
        return np.asarray(solve_triangular(self.R, inner) / self.sizes)


def _center(Phi: Array, v: Array) -> Array:
    shares = v / v.max()
    mean: Array = shares @ Phi / shares.sum()
    return np.clip(mean, Phi.min(axis=0), Phi.max(axis=0))


def _refined(factor: _Factor, features: Array, y: Array, gamma: float, v: Array) -> tuple[Array, float]:
    w = np.zeros(features.shape[1])
    b, best = _mean(y, v), math.inf
    kept = (w, b)
    for _ in range(_MOST_STEPS):
        gradient, unbalanced, _ = _gradient(features, y, gamma, v, w, b)
        size = float(np.linalg.norm(gradient)) + abs(unbalanced) / math.sqrt(gamma * float(v.sum()))
        if not size < best:
            break
        best, kept = size, (w, b)
        w = w - factor.solve(gradient)
        b += _mean(y - b - features @ w, v)
    return kept


def _mean(values: Array, v: Array) -> float:
    shares = v / v.max()
    return float(shares @ values / shares.sum())


def _gradient(features: Array, y: Array, gamma: float, v: Array, w: Array, b: float) -> tuple[Array, float, Pair]:
    """w - Phi'alpha with alpha = gamma v (y - f), the sum of alpha, and f; in doubled precision."""
    e, f = _errors(features, y, w, b)
    zero, pull = np.zeros_like(y), gamma * v
    alpha = add(multiplied(pull, e[0]), (pull * e[1], zero))
    first, _ = exact_product(np.ascontiguousarray(features.T), alpha[0])
    second = features.T @ alpha[1]
    gradient = add((w, np.zeros_like(w)), minus(add(first, (second, np.zeros_like(w)))))
    unbalanced = math.fsum(alpha[0]) + math.fsum(alpha[1])
    return gradient[0] + gradient[1], unbalanced, f


def _errors(features: Array, y: Array, w: Array, b: float) -> tuple[Pair, Pair]:
    """y - f and f, in doubled precision."""
    zero = np.zeros_like(y)
    product, _ = exact_product(features, w)
    f = add(product, (np.full_like(y, b), zero))
    return add((y, zero), minus(f)), f
