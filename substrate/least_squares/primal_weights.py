r"""Kernels of finite rank in their features: the answer where support values cannot represent it.

.. math:: \min_{w, b} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i (y_i - w^T(\varphi(x_i) - c) - b)^2

With p features and many more rows, K has rank p, and where gamma or the features are large the support values are huge
and nearly cancel: even the exact ones, rounded to double precision, may predict nothing. The weights w are not
affected. With an unpenalised bias the features may be centred at any c, here their weighted mean, so an offset costs no
digits.

Bias and weights are computed together. With :math:`\Phi_1 = [\Phi_c, 1]`, errors :math:`e = y - f` and
:math:`\alpha_i = \gamma v_i e_i`, gradient and Hessian of the objective are

.. math::

    g = \begin{bmatrix} w \\ 0 \end{bmatrix} - \Phi_1^T \alpha, \qquad
    H = \begin{bmatrix} I & 0 \\ 0 & 0 \end{bmatrix} + \gamma \Phi_1^T V \Phi_1 = A^T A .

A first point is obtained from a QR factorisation of A with columns scaled to one size; it is refined by g in doubled
precision, and the same g bounds the answer. With :math:`\delta` the distance of w and b from the optimum,

.. math::

    H \delta = g, \quad \gamma \|f - f^\star\|_v^2 \le \delta^T H \delta
    \quad\Longrightarrow\quad \gamma \|f - f^\star\|_v^2 \le g^T H^{-1} g \le \frac{\|T^T g\|^2}{1 - \eta},
    \qquad \eta = \|I - (A T)^T A T\|,

for any T: the inverse of the computed triangle. The factorisation need not be accurate, since eta is measured.
Features are rounded too, by a relative error u each; its effect on f, g and A is included.

The bound follows from the factored Hessian alone.

With features :math:`\Phi_c`, weights v and :math:`H = A^T A`,

.. math:: A = \begin{bmatrix} \sqrt{\gamma V}\, \Phi_c & \sqrt{\gamma V}\, 1 \\ I & 0 \end{bmatrix} .

Let T be any matrix with :math:`\eta = \|I - (A T)^T A T\| < 1`. Then :math:`\|A T z\|^2 \ge (1 - \eta) \|z\|^2`,
so :math:`H \ge (1 - \eta)\, T^{-T} T^{-1}` and

.. math:: g^T H^{-1} g \le \frac{\|T^T g\|^2}{1 - \eta} .

T is the inverse of R in A = QR. Its accuracy does not matter: eta is computed, with its rounding, and with what the
rounding of the features may change in A.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates import Row
from substrate.certificates.doubled_precision import Pair, add, exact_product, minus, multiplied
from substrate.certificates.rows import ACCURATE, Accuracy, accuracy_row, root_mean_square, roundoff, spread_of
from substrate.kernels import Kernel

__all__ = ["Factor", "PrimalWeights", "leverages", "primal_accuracy", "solve_primal", "support_values_of"]

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
        """sqrt(g'H^-1 g), as accurate as T is the inverse of a factor."""
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


FORMULA = "||R^-T (w - Phi' alpha)|| / sqrt(gamma) + rounding, in doubled precision"
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
    """Weights and biases for every column of Y, one gamma per column."""
    Phi = kernel.features(X.toarray() if hasattr(X, "toarray") else X)
    center = _center(Phi, v)
    features = Phi - center
    weights, biases = np.empty((Phi.shape[1], Y.shape[1])), np.empty(Y.shape[1])
    with np.errstate(all="ignore"):  # overflow is not finite, and its certificate gives no bound
        for gamma in dict.fromkeys(gammas):
            factor = Factor.of(features, gamma, v)
            for column in (k for k, other in enumerate(gammas) if other == gamma):
                weights[:, column], biases[column] = _refined(factor, features, Y[:, column], gamma, v)
    return PrimalWeights(kernel, center, weights, biases)


def support_values_of(
    primal: PrimalWeights, X: Any, Y: Array, gammas: tuple[float, ...], v: Array
) -> tuple[Array, Array]:
    """alpha = gamma v (y - f), with f in doubled precision, and the bias of features that are not centred.

    The machine reports them; each is accurate to its own rounding, and their expansion may still be useless.
    """
    features = primal.kernel.features(X.toarray() if hasattr(X, "toarray") else X) - primal.center
    alpha = np.empty_like(Y)
    for column, gamma in enumerate(gammas):
        w, b = primal.weights[:, column], float(primal.bias[column])
        e = _gradient(features, Y[:, column], gamma, v, w, b).errors
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
    primal: PrimalWeights,
    X: Any,
    y: Array,
    gamma: float,
    v: Array,
    column: int,
    *,
    tolerance: float = ACCURATE,
    observed: Array | None = None,
) -> tuple[Accuracy, Row]:
    """The rows for one output, from the stored weights: the answer, and stationarity in w.

    ``observed`` are the targets of the user where y is made of them: the spread is theirs.
    """
    Phi = primal.kernel.features(X.toarray() if hasattr(X, "toarray") else X)
    features = Phi - primal.center
    w, b = primal.weights[:, column], float(primal.bias[column])
    spread, rounding = spread_of(y if observed is None else observed, v)
    with np.errstate(all="ignore"):
        found = _gradient(features, y, gamma, v, w, b)
        # a feature is rounded when it is made and when it is centred
        unsure = primal.kernel.feature_rounding() * np.abs(Phi) + _HALF * np.abs(features)
        moved = unsure @ np.abs(w) + found.unsure
        pulls = gamma * v * np.abs(found.errors[0])
        # gamma v is a rounded product
        doubt = np.append(unsure.T @ pulls + EPS * (np.abs(features).T @ pulls) + found.doubt, EPS * pulls.sum())
        bound = Factor.of(features, gamma, v).bound(found.gradient, doubt, unsure, gamma, v)
        bound += 2.0 * root_mean_square(moved, v)
        apart = add((primal(X)[:, column], np.zeros_like(y)), minus(found.values))
        bound += root_mean_square(apart[0] + apart[1], v)
        # the rounding of w is among the terms of alpha
        alphas = gamma * v * (np.abs(y) + np.abs(features) @ np.abs(w) + abs(b))
        size = float(np.linalg.norm(np.abs(w) + np.abs(features).T @ alphas))
        residual = float(np.linalg.norm(found.gradient[:-1]))
    stationarity = Row("stationarity in w", residual, size, roundoff(y.size), "||w - Phi' alpha||")
    return accuracy_row(1.01 * bound, spread, FORMULA, tolerance=tolerance, rounding=rounding), stationarity


def _center(Phi: Array, v: Array) -> Array:
    shares = v / v.max()
    mean: Array = shares @ Phi / shares.sum()
    return np.clip(mean, Phi.min(axis=0), Phi.max(axis=0))


def _refined(factor: Factor, features: Array, y: Array, gamma: float, v: Array) -> tuple[Array, float]:
    shares = v / v.max()
    point = np.append(np.zeros(features.shape[1]), shares @ y / shares.sum())
    kept, best = point, math.inf
    for _ in range(_MOST_STEPS):
        gradient = _gradient(features, y, gamma, v, point[:-1], float(point[-1])).gradient
        size = factor.norm(gradient)
        if not size < best:
            break
        best, kept = size, point
        point = point - factor.solve(gradient)
    return kept[:-1], float(kept[-1])


@dataclass(frozen=True, slots=True)
class _Gradient:
    """The gradient in w and b, f and y - f as pairs, and bounds on the error of products: of f and of the gradient."""

    gradient: Array
    values: Pair
    errors: Pair
    unsure: Array
    doubt: Array


def _gradient(features: Array, y: Array, gamma: float, v: Array, w: Array, b: float) -> _Gradient:
    """In doubled precision, for the features and the products gamma v as they are rounded."""
    zero = np.zeros_like(y)
    product, unsure = exact_product(features, w)
    f = add(product, (np.full_like(y, b), zero))
    e = add((y, zero), minus(f))
    pull = gamma * v
    alpha = add(multiplied(pull, e[0]), (pull * e[1], zero))
    first, doubt = exact_product(np.ascontiguousarray(features.T), alpha[0])
    second = features.T @ alpha[1]
    in_w = add((w, np.zeros_like(w)), minus(add(first, (second, np.zeros_like(w)))))
    gradient = np.append(in_w[0] + in_w[1], -(math.fsum(alpha[0]) + math.fsum(alpha[1])))
    return _Gradient(gradient, f, e, unsure + EPS**1.9 * (np.abs(y) + np.abs(f[0]) + abs(b)), doubt)
