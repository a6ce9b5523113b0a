r"""Components of two views: pairs of directions whose scores go together, by one singular value decomposition.

With centred kernel matrices :math:`K_1, K_2` of the same rows and :math:`\nu_1, \nu_2 \ge 0`,

.. math::

    K_2 \beta = \sigma (I + \nu_1 K_1) \alpha, \qquad K_1 \alpha = \sigma (I + \nu_2 K_2) \beta ,

so that the :math:`\sigma` are the singular values of :math:`T = F_1^T F_2` with :math:`F_i F_i^T = H_i = K_i (I + \nu_i
K_i)^{-1}`, :math:`F_i = U_i \operatorname{diag}(s / (1 + \nu_i s))^{1/2}` from :math:`K_i = U_i \operatorname{diag}(s)
U_i^T`. Unit singular vectors p, q give :math:`\alpha = U_1 \operatorname{diag}(s (1 + \nu_1 s))^{-1/2} p` with the
scores :math:`e = K_1 \alpha = F_1 p`, and :math:`\nu_1 e^T e + w^T w = 1`. Multipliers may have a part beside these
that :math:`K_1` maps to zero; it changes neither w nor a score.

What is proved: the :math:`\sigma^2` are the eigenvalues of :math:`H_1 H_2`, and with the measured
:math:`\|F_i F_i^T - H_i\| \le \|(I + \nu_i K_i) F_i F_i^T - K_i\| = \epsilon_i` and errors :math:`\Delta_i` of the
kernel matrices, all of them at once satisfy

.. math:: |\sigma_j^2 - \hat\sigma_j^2| \le \|H_1\| (\epsilon_2 + \Delta_2) + (\epsilon_1 + \Delta_1) \|H_2\| + \rho ,

:math:`\rho` from the residual of the decomposition of T (Weyl's inequality, twice). So no count is needed to say that
the computed ones are the leading ones.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import PROVED, Certificate, Row
from substrate.certificates.rounding import at_most, rank_cutoff, relative_rounding
from substrate.kernels import Kernel
from substrate.least_squares.kernel_products import expansion_values
from substrate.least_squares.stored_kernel import KernelTriangle
from substrate.spectral.centred_operator import CentredOperator
from substrate.threads import blas_threads

__all__ = [
    "PairedComponents",
    "SolvedViews",
    "View",
    "class_codes",
    "correlations",
    "find_pairs",
    "optimality_rows",
    "pairs_certificate",
    "view_of",
]


#: Share of the largest singular value below which one that rounding explains is a zero.
_NO_DIRECTION = 1e-7


@dataclass(frozen=True, slots=True)
class View:
    """One view of the rows: its centred kernel matrix, the eigenvalues above rounding and their vectors."""

    kernel: Kernel
    points: Any
    operator: CentredOperator
    matrix: Array
    values: Array
    vectors: Array

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.operator.n

    @property
    def mean_value(self) -> float:
        """The mean of the diagonal of the centred matrix: the unit of 1/nu."""
        return max(float(np.trace(self.matrix)) / self.n, 0.0)

    @property
    def matrix_error(self) -> float:
        """A bound on the norm of the error of the centred matrix, as it is formed."""
        return self.operator.matrix_error + self.operator.product_error

    def factor(self, nu: float) -> Array:
        """Return F with F F' = K (I + nu K)^-1."""
        return np.asarray(self.vectors * np.sqrt(self.values / (1.0 + nu * self.values)))

    def coefficients(self, coordinates: Array, nu: float) -> Array:
        """Return the support values of directions with these coordinates: the shortest with their scores."""
        roots = np.sqrt(self.values * (1.0 + nu * self.values))
        return np.asarray(self.vectors @ (coordinates / roots[:, None]))

    def factor_error(self, F: Array, nu: float) -> float:
        """Bound the norm of F F' - K (I + nu K)^-1, measured, with its rounding."""
        inner = F @ F.T
        with blas_threads(self.n):
            residual = inner + nu * (self.matrix @ inner) - self.matrix
        sizes = float(np.linalg.norm(inner)) * (1.0 + nu * float(np.linalg.norm(self.matrix)))
        rounding = relative_rounding(2.0 * self.n + 8.0) * (sizes + float(np.linalg.norm(self.matrix)))
        # a matrix that is positive semi-definite up to its own error: the inverse has a norm of little more than one
        negative = nu * self.matrix_error
        if negative >= 0.5:
            return math.inf
        return at_most((float(np.linalg.norm(residual)) + rounding) / (1.0 - negative))

    def scores(self, X: Any, support_values: Array, bias: Array) -> Array:
        """Return the scores of rows of this view."""
        return expansion_values(self.kernel, self.points, support_values, bias, X)


def view_of(kernel: Kernel, X: Any) -> View:
    """Return the view of rows, decomposed."""
    from scipy.linalg import eigh

    operator = CentredOperator.of(KernelTriangle.of(kernel, X), kernel, X)
    matrix = operator.dense()
    matrix = (matrix + matrix.T) / 2.0
    with blas_threads(operator.n):
        values, vectors = eigh(matrix, driver="evr", check_finite=False)
    kept = values > rank_cutoff(operator.n) * max(float(values[-1]), 0.0)
    return View(
        kernel=kernel,
        points=X,
        operator=operator,
        matrix=matrix,
        values=values[kept][::-1],
        vectors=np.ascontiguousarray(vectors[:, kept][:, ::-1]),
    )


@dataclass(frozen=True, slots=True)
class PairedComponents:
    """Singular values, and the support values and biases of both views, one column per pair."""

    values: Array
    alpha: Array
    beta: Array
    alpha_bias: Array
    beta_bias: Array


@dataclass(frozen=True, slots=True)
class SolvedViews:
    """The leading pairs, all singular values, and a bound on the distance of every square from an exact one."""

    pairs: PairedComponents
    values: Array
    square_radius: float

    @property
    def radius(self) -> float:
        """A bound on the distance of the leading singular values that are not zero from exact ones."""
        positive = self.pairs.values[self.pairs.values > 0.0]
        by_root = math.sqrt(self.square_radius)
        if not positive.size:
            return at_most(by_root)
        return at_most(min(by_root, self.square_radius / float(positive[-1])))


def find_pairs(first: View, second: View, nus: tuple[float, float], count: int, *, bounded: bool = True) -> SolvedViews:
    """Return the leading pairs of two views; those beyond the rank have the value zero, and scores of zero.

    :place [Suykens2002b]_ kernel CCA: the generalised eigenproblem of two views
    """
    F1, F2 = first.factor(nus[0]), second.factor(nus[1])
    T = F1.T @ F2
    kept = min(T.shape)
    if kept:
        P, values, Qt = np.linalg.svd(T, full_matrices=False)
    else:
        P, values, Qt = np.zeros((T.shape[0], 0)), np.zeros(0), np.zeros((0, T.shape[1]))
    square_radius = _square_radius(first, second, nus, (F1, F2), (T, P, values, Qt)) if bounded else math.inf
    largest = float(values[0]) if kept else 0.0
    # a value that is far below the largest and below its own radius is no direction; any other is kept, and its radius
    # says what it is worth
    hidden = min(math.sqrt(square_radius), _NO_DIRECTION * largest) if bounded else 0.0
    floor = max(rank_cutoff(first.n) * largest, hidden)
    rank = int(np.sum(values[:count] > floor))
    sigma = np.zeros(count)
    sigma[:rank] = values[:rank]
    alpha, beta = np.zeros((first.n, count)), np.zeros((second.n, count))
    if rank:
        e = F1 @ P[:, :rank]  # K alpha = F p
        turn = np.where(e[np.abs(e).argmax(axis=0), np.arange(rank)] < 0.0, -1.0, 1.0)
        alpha[:, :rank] = first.coefficients(turn * P[:, :rank], nus[0])
        beta[:, :rank] = second.coefficients(turn * Qt[:rank].T, nus[1])
    pairs = PairedComponents(
        values=sigma,
        alpha=alpha,
        beta=beta,
        alpha_bias=np.asarray(first.operator.biases(alpha)),
        beta_bias=np.asarray(second.operator.biases(beta)),
    )
    return SolvedViews(pairs, values, square_radius)


def _square_radius(
    first: View,
    second: View,
    nus: tuple[float, float],
    factors: tuple[Array, Array],
    decomposition: tuple[Array, Array, Array, Array],
) -> float:
    (F1, F2), (T, P, values, Qt) = factors, decomposition
    errors = [
        view.factor_error(F, nu) + view.matrix_error for view, F, nu in zip((first, second), (F1, F2), nus, strict=True)
    ]
    sizes = [at_most(float(np.max(np.sum(F * F, axis=0), initial=0.0))) for F in (F1, F2)]
    heights = [size + error for size, error in zip(sizes, errors, strict=True)]
    # T itself is rounded, and so is its decomposition: residual and loss of orthonormality, measured
    largest = float(values[0]) if values.size else 0.0
    norms = float(np.linalg.norm(F1)) * float(np.linalg.norm(F2))
    defect = sum(float(np.linalg.norm(V.T @ V - np.eye(V.shape[1]))) for V in (P, Qt.T))
    off = float(np.linalg.norm(T - (P * values) @ Qt)) + 2.0 * defect * largest
    off += relative_rounding(first.n + 2.0 * max(T.shape, default=0) + 8.0) * norms
    by_decomposition = off * (2.0 * largest + off)
    return at_most(heights[0] * errors[1] + errors[0] * heights[1] + by_decomposition)


def correlations(e: Array, r: Array) -> Array:
    """Return the correlation of every pair of scores; zero where one of them is constant."""
    e, r = e - e.mean(axis=0), r - r.mean(axis=0)
    lengths = np.linalg.norm(e, axis=0) * np.linalg.norm(r, axis=0)
    return np.asarray(np.sum(e * r, axis=0) / np.where(lengths > 0.0, lengths, np.inf))


def optimality_rows(
    first: View, second: View, nus: tuple[float, float], pairs: PairedComponents, tolerance: float
) -> tuple[Row, ...]:
    """Return the conditions of optimality of both views, from plain numbers, and their normalisation.

    :place [Suykens2002b]_ kernel CCA conditions: both equalities of the generalised eigenproblem
    """
    rank = int(np.sum(pairs.values > 0.0))
    alpha, beta, sigma = pairs.alpha[:, :rank], pairs.beta[:, :rank], pairs.values[:rank]
    e, r = first.matrix @ alpha, second.matrix @ beta
    rows = []
    quantities = (("first view", first, r, e, alpha, nus[0]), ("second view", second, e, r, beta, nus[1]))
    for name, view, other, own, coefficients, nu in quantities:
        # what the kernel matrix of a view maps to zero is no part of its direction
        value = float(np.linalg.norm(view.vectors.T @ (other - sigma * (coefficients + nu * own))))
        # what cancels: support values and scores times sigma
        scale = float(np.linalg.norm(other) + np.linalg.norm(sigma * coefficients) + np.linalg.norm(sigma * nu * own))
        rows.append(Row(name=name, value=value, scale=scale, tolerance=tolerance, formula="|K'b - s (I + nu K) a|"))
    inner = alpha.T @ e + nus[0] * (e.T @ e)
    rows.append(
        Row(
            name="directions",
            value=float(np.linalg.norm(inner - np.eye(rank))),
            scale=1.0,
            tolerance=tolerance,
            formula="|a'K a + nu e'e - I|",
        )
    )
    return tuple(rows)


def pairs_certificate(
    title: str,
    first: View,
    second: View,
    nus: tuple[float, float],
    solved: SolvedViews,
    tolerance: float,
    facts: tuple[tuple[str, str], ...],
) -> Certificate:
    """Return the report: how near the singular values are, and the conditions of optimality."""
    values = solved.pairs.values
    largest = max(float(values.max(initial=0.0)), math.sqrt(max(solved.square_radius, 0.0)))
    scale = largest if math.isfinite(largest) and values.any() else max(first.operator.norm, second.operator.norm)
    row = Row(
        name="singular values",
        value=solved.radius,
        scale=scale,
        tolerance=tolerance,
        formula="(|H1| e2 + e1 |H2| + rounding)^(1/2), or that over the value",
    )
    following = float(solved.values[values.size]) if solved.values.size > values.size else 0.0
    top = float(values.max(initial=0.0))
    text = (
        f"{values.size} leading singular values within {solved.radius:.1e} (the largest is {top:.3g}, the next one "
        f"{following:.3g})"
    )
    rank = int(np.sum(values > 0.0))
    if rank < values.size:
        facts = (*facts, ("rank", f"{rank} of {values.size} pairs; the others cannot be told from zero, and are zero"))
    rows = (row, *optimality_rows(first, second, nus, solved.pairs, max(tolerance, 1e-9)))
    return Certificate(title, rows, (*facts, (PROVED, text)))


def class_codes(numbers: Any) -> Array:
    """Return the code of the class of every row: one over the root of the size of the class in its own place.

    The inner products of codes are the projection on vectors that are constant over classes.
    """
    sizes = np.bincount(numbers)
    codes = np.zeros((numbers.size, sizes.size))
    codes[np.arange(numbers.size), numbers] = 1.0 / np.sqrt(sizes[numbers])
    return codes
