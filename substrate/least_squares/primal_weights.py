r"""Kernels of finite rank in their features: the answer where support values cannot represent it.

.. math:: \min_{w, b} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i (y_i - w^T(\varphi(x_i) - c) - b)^2

With p features and many more rows, K has rank p, and where gamma or the features are large the support values are huge
and nearly cancel: even the exact ones, rounded to double precision, may predict nothing. The weights w are not
affected. With an unpenalised bias the features may be centred at any c, here their weighted mean, so an offset costs no
digits.

Bias and weights are computed together. With :math:`\Phi_1 = [\Phi_c, Z]`, where Z are the columns of a
:class:`~substrate.least_squares.border.Border`, a one unless it says otherwise, errors :math:`e = y - f` and
:math:`\alpha_i = \gamma v_i e_i`, gradient and Hessian of the objective are

.. math::

    g = \begin{bmatrix} w \\ 0 \end{bmatrix} - \Phi_1^T \alpha, \qquad
    H = \begin{bmatrix} I & 0 \\ 0 & 0 \end{bmatrix} + \gamma \Phi_1^T V \Phi_1 = A^T A .

With linear columns beside the constant these are weights without a penalty, and the same H gives their deviations:
:math:`(Z^T (K + D)^{-1} Z)^{-1}` is the block of :math:`H^{-1}` that belongs to Z.

A first point is obtained from a QR factorisation of A with columns scaled to one size; it is refined by g in doubled
precision, and the same g bounds the answer (:func:`bound_primal`). With :math:`\delta` the distance of w and b from
the optimum,

.. math::

    H \delta = g, \quad \gamma \|f - f^\star\|_v^2 \le \delta^T H \delta
    \quad\Longrightarrow\quad \gamma \|f - f^\star\|_v^2 \le g^T H^{-1} g .

The bound is a formula over numbers with a radius (:mod:`~substrate.certificates.enclosed`), among them the features,
which are rounded when they are made: in doubled precision it is the certificate, in balls the proof. The factorisation
need not be accurate, since :meth:`~substrate.certificates.enclosed.Double.bound_inverse_norm` measures it.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.enclosed import Doubled, Enclosed
from substrate.certificates.rounding import relative_rounding
from substrate.certificates.rows import roundoff
from substrate.kernels import Kernel
from substrate.least_squares.border import ONES, Border, weighted_center

__all__ = [
    "FORMULA",
    "LinearTerm",
    "PrimalFactor",
    "PrimalFit",
    "PrimalWeights",
    "bound_primal",
    "primal_accuracy",
    "primal_gradient",
    "solve_primal",
    "support_values_of",
]

N = TypeVar("N", bound=Enclosed)


class PrimalFactor(NamedTuple):
    """A with columns scaled to one size, those sizes, and T; weights first, the coefficients of the border last."""

    A: Array
    sizes: Array
    T: Array

    @classmethod
    def of(cls, features: Array, gamma: float, v: Array, border: Border = ONES) -> "PrimalFactor":
        """Compute the factor for one gamma; not finite where the sizes of the features overflow."""
        from scipy.linalg.lapack import dtrtri

        p = features.shape[1]
        roots, free = np.sqrt(gamma * v)[:, None], np.zeros(border.count)
        tall = roots * np.concatenate([features, border.matrix(features)], axis=1)
        largest = np.maximum(np.abs(tall).max(axis=0), np.append(np.ones(p), free))
        penalty = np.append(1.0 / np.square(largest[:p]), free)
        sizes = largest * np.sqrt(np.square(tall / largest).sum(axis=0) + penalty)
        A = np.concatenate([tall / sizes, np.diag(1.0 / sizes)[:p]])
        if not np.isfinite(A).all():
            return cls(A, sizes, np.full((sizes.size, sizes.size), np.nan))
        T, info = dtrtri(np.linalg.qr(A, mode="r"))
        return cls(A, sizes, np.triu(T) if info == 0 else np.full_like(T, np.nan))

    def norm(self, g: Array) -> float:
        """Return sqrt(g'H^-1 g), as accurate as T is the inverse of a factor."""
        return float(np.linalg.norm(self.T.T @ (g / self.sizes)))

    def solve(self, g: Array) -> Array:
        """Return H^-1 g, likewise."""
        return np.asarray(self.T @ (self.T.T @ (g / self.sizes)) / self.sizes)

    def deviations(self, border: Border) -> Array:
        """Return the roots of the diagonal of (Z'(K + D)^-1 Z)^-1 that belong to the slopes, in the units of z."""
        first = self.sizes.size - border.slopes
        root = self.T[first:] / self.sizes[first:, None]  # the block of the inverse of H is root root'
        return np.asarray(np.linalg.norm(border.transform @ root, axis=1))


FORMULA = "||R^-T (w - Phi' alpha)|| / sqrt(gamma) + rounding, in doubled precision"
_MOST_STEPS = 10


class LinearTerm(NamedTuple):
    """(z - center)'beta of the columns of these ``numbers``, one column of slopes per output."""

    numbers: tuple[int, ...]
    center: Array
    slopes: Array

    def center_columns(self, X: Array) -> Array:
        """Return the columns of the rows of X, less the center."""
        centred: Array = X[:, list(self.numbers)] - self.center
        return centred

    def output(self, column: int) -> "LinearTerm":
        """Return one output alone."""
        return LinearTerm(self.numbers, self.center, self.slopes[:, [column]])


@dataclass(frozen=True, slots=True)
class PrimalWeights:
    """f(x) = sum_k w_k (phi_k(x) - c_k) + b, one column of weights per output, and a linear term where there is one."""

    kernel: Kernel
    center: Array
    weights: Array
    bias: Array
    linear: LinearTerm | None = None

    def output(self, column: int) -> "PrimalWeights":
        """Return one output alone."""
        linear = None if self.linear is None else self.linear.output(column)
        return PrimalWeights(
            kernel=self.kernel,
            center=self.center,
            weights=self.weights[:, [column]],
            bias=self.bias[[column]],
            linear=linear,
        )

    def __call__(self, X: Any) -> Array:
        """Return the outputs for the rows of X, one column per output."""
        points = X.toarray() if hasattr(X, "toarray") else X
        values: Array = (self.kernel.features(points) - self.center) @ self.weights + self.bias
        return values if self.linear is None else values + self.linear.center_columns(points) @ self.linear.slopes


class PrimalFit(NamedTuple):
    """Primal weights, the slopes of a border beside the constant, and their deviations, one column per output."""

    weights: PrimalWeights
    slopes: Array
    deviations: Array


def solve_primal(
    kernel: Kernel, X: Any, Y: Array, gammas: tuple[float, ...], v: Array, border: Border = ONES
) -> PrimalFit:
    """Return weights, biases and slopes for every column of Y, one gamma per column; the border has a constant."""
    Phi = kernel.features(X.toarray() if hasattr(X, "toarray") else X)
    center = weighted_center(Phi, v / v.max())
    features = Phi - center
    weights, biases = np.empty((Phi.shape[1], Y.shape[1])), np.empty(Y.shape[1])
    slopes, deviations = np.empty((border.slopes, Y.shape[1])), np.empty((border.slopes, Y.shape[1]))
    with np.errstate(all="ignore"):  # overflow is not finite, and its certificate gives no bound
        for gamma in dict.fromkeys(gammas):
            factor = PrimalFactor.of(features, gamma, v, border)
            for column in (k for k, gamma_of_output in enumerate(gammas) if gamma_of_output == gamma):
                weights[:, column], c = _refine(factor, features, Y[:, column], gamma, v, border)
                bias, more = border.split(c[:, None])
                biases[column], slopes[:, column] = bias[0], more[:, 0]
                if border.slopes:
                    deviations[:, column] = factor.deviations(border)
    return PrimalFit(PrimalWeights(kernel, center, weights, biases), slopes, deviations)


def support_values_of(
    primal: PrimalWeights,
    X: Any,
    Y: Array,
    gammas: tuple[float, ...],
    v: Array,
    border: Border = ONES,
    slopes: Array | None = None,
) -> tuple[Array, Array]:
    """Return alpha = gamma v (y - f), with f in doubled precision, and the bias of features that are not centred.

    The machine reports them; each is accurate to its own rounding, and their expansion may still be useless.
    """
    features = primal.kernel.features(X.toarray() if hasattr(X, "toarray") else X) - primal.center
    alpha = np.empty_like(Y)
    for column, gamma in enumerate(gammas):
        w, b = primal.weights[:, column], float(primal.bias[column])
        f = Doubled.exact(features) @ w + b
        if border.slopes and slopes is not None:
            f = f + border.enclose_values(Doubled, slopes[:, column])
        alpha[:, column] = gamma * v * (Y[:, column] - f).midpoint
    return alpha, np.asarray(primal.bias - primal.center @ primal.weights)


def bound_primal(
    features: N, y: Array, gamma: float, v: Array, w: Array, c: Array, fitted: Array, border: Border = ONES
) -> tuple[Enclosed, N]:
    r"""Bound the distance of the fitted values from those of the exact optimum; return the gradient in w and c with it.

    For any vector :math:`\hat e`, here the midpoints of e, and its gradient :math:`\hat g`, since
    :math:`\gamma^2 z^T V \Phi_1 H^{-1} \Phi_1^T V z \le \gamma \|z\|_v^2`,

    .. math:: \|f - f^\star\|_v \le \sqrt{\hat g^T H^{-1} \hat g / \gamma} + \|e - \hat e\|_v ,

    and what predict returns may be further from it by its distance from f.

    Parameters
    ----------
    features
        The centred features, enclosed: their arithmetic is that of the bound.
    y, gamma, v
        The data.
    w, c
        What is stored: the weights, and the coefficients of the columns of the ``border``.
    fitted
        What predict returns.
    """
    pulls = features.exact(v) * gamma
    f, e, gradient = primal_gradient(features, y, pulls, w, c, border)
    roots = pulls.sqrt()
    tall = features.beside(border.enclose(features)).round().T * roots
    penalty = tall.exact(np.eye(w.size + border.count, w.size))
    norm = tall.beside(penalty).T.bound_inverse_norm(gradient.round()) / pulls.sum().sqrt()
    return norm + e.error().bound_norm(v) + (fitted - f).bound_norm(v), gradient


def primal_gradient(features: N, y: Array, pulls: N, w: Array, c: Array, border: Border = ONES) -> tuple[N, N, N]:
    """Return f, y - f, and the gradient in w and c at the midpoints of y - f, with gamma v given as ``pulls``."""
    Z = border.enclose(features)
    f = features @ w + (float(c[0]) if border.plain else Z @ c)
    e = y - f
    gradient = np.append(w, np.zeros(border.count)) - features.beside(Z).T @ (pulls * e.without_radius())
    return f, e, gradient


def primal_accuracy(
    primal: PrimalWeights,
    X: Any,
    y: Array,
    gamma: float,
    v: Array,
    column: int,
    border: Border = ONES,
    slopes: Array | None = None,
) -> tuple[float, Row]:
    """Return the bound for one output in doubled precision, and the row of stationarity in w.

    ``slopes`` are those of the columns of the border beside the constant, of all outputs.
    """
    Phi = primal.kernel.features(X.toarray() if hasattr(X, "toarray") else X)
    w, b = primal.weights[:, column], float(primal.bias[column])
    beta = None if slopes is None else slopes[:, column]
    fitted = primal(X)[:, column]
    if primal.linear is None:
        fitted = fitted + border.slope_values(beta)
    with np.errstate(all="ignore"):
        features = Doubled(Phi, radius=primal.kernel.feature_rounding() * np.abs(Phi)) - primal.center
        bound, gradient = bound_primal(features, y, gamma, v, w, border.join(b, beta), fitted, border)
        # the rounding of w is among the terms of alpha
        sizes = np.abs(features.midpoint)
        alphas = gamma * v * (np.abs(y) + sizes @ np.abs(w) + abs(b) + border.slope_sizes(beta))
        size = float(np.linalg.norm(np.abs(w) + sizes.T @ alphas))
        residual = float(np.linalg.norm(gradient.midpoint[: w.size]))
        # other outputs beside this one, or another processor, and predict adds up in another order
        terms = (w.size + 1.0) * (sizes @ np.abs(w)) + abs(b) + border.slope_sizes(beta)
        order = relative_rounding(1.0) * float(np.sqrt(v @ np.square(terms) / v.sum()))
    return bound.upper() + order, Row(
        name="stationarity in w", value=residual, scale=size, tolerance=roundoff(y.size), formula="||w - Phi' alpha||"
    )


def _refine(
    factor: PrimalFactor, features: Array, y: Array, gamma: float, v: Array, border: Border
) -> tuple[Array, Array]:
    """Return w and the coefficients of the border."""
    shares, p = v / v.max(), features.shape[1]
    point = np.concatenate([np.zeros(p), [shares @ y / shares.sum()], np.zeros(border.slopes)])
    kept, best = point, math.inf
    numbers, pulls = Doubled.exact(features), Doubled.exact(gamma * v)
    for _ in range(_MOST_STEPS):
        gradient = primal_gradient(numbers, y, pulls, point[:p], point[p:], border)[2].midpoint
        size = factor.norm(gradient)
        if not size < best:
            break
        best, kept = size, point
        point = point - factor.solve(gradient)
    return kept[:p], kept[p:]
