r"""The bounds of machines on a reduced basis in ball arithmetic, from the stored numbers.

The machine that is fitted has features :math:`z(x) = T^T k_S(x)`, T from the eigenvectors of the kernel matrix of the
basis that were kept. T is a matrix of plain numbers, and the machine with these features has one exact optimum

.. math:: H u^\star = Z^T V (y - \bar y), \qquad H = \lambda I + Z^T V (Z - 1 \bar z^T), \qquad
          f^\star = \bar y + (Z - 1 \bar z^T) u^\star ,

which is enclosed, row by row, and compared with what ``predict`` returned. The uncut machine has the coefficients of
all basis vectors and the penalty :math:`\tfrac{\lambda}{2} \beta^T K_{SS} \beta`; its system is usually nearly
singular, and is solved in as many bits as that requires. A lasso is bounded by the duality gap at a dual point
:math:`\tau V \theta` with :math:`1^T V \theta = 0` and :math:`\tau \le 1` such that no correlation exceeds zeta,

.. math:: \tfrac12 \|f - f^\star\|_v^2 \le P - D = \tfrac12 \|e - \bar e - \tau \theta\|_v^2
          + \sum_j \big( \zeta |\beta_j| - \tau \beta_j\, k_j^T V \theta \big) .
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import ACCURATE
from substrate.kernels import Foreign, Kernel
from substrate.proof import Proof, above, ball, balls, flint, formula_of, precision
from substrate.proof.least_squares import points_of, proof_of, root_of, weighted_root

__all__ = ["BasisRows", "ReducedProof", "prove_reduced", "prove_reduced_l1"]

_BITS = 200
#: Bits tried in turn for the uncut machine, whose system is harder for smoother kernels.
_MANY_BITS = (400, 1200, 3600)


@dataclass(frozen=True, slots=True)
class ReducedProof(Proof):
    """A proof for the machine on the directions that were kept; ``uncut`` is the distance from the uncut machine."""

    uncut: float = float("inf")

    def __str__(self) -> str:
        text = super(ReducedProof, self).__str__()
        return text if self.reason else f"{text}; within {self.uncut:.2e} of the machine on all directions"


@dataclass(frozen=True, slots=True)
class BasisRows:
    """A kernel between rows and basis vectors; without a kernel, matrices of values, taken as exact."""

    kernel: Kernel | None
    X: Any
    points: Any

    def matrix(self, X: Any = None) -> list[list[Any]]:
        """Kernel values of rows (the basis itself unless given), in balls."""
        if self.kernel is None:
            return [balls(row) for row in (self.points if X is None else X)]
        left = self.points if X is None else X
        if isinstance(self.kernel, Foreign):
            return [balls(row) for row in np.asarray(self.kernel(left, self.points))]
        rows, others = points_of(left), points_of(self.points)
        formula = formula_of(self.kernel, len(others[0]))
        return [[formula(x, z) for z in others] for x in rows]

    def directions(self, rank: int) -> Array:
        """T, from the eigenvectors of the largest eigenvalues: plain numbers, which define the machine."""
        K = np.asarray(self.points) if self.kernel is None else np.asarray(self.kernel(self.points))
        values, vectors = np.linalg.eigh(K)
        kept = np.arange(values.size - 1, values.size - 1 - rank, -1)
        return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def prove_reduced(
    rows: BasisRows,
    y: Array,
    gamma: float,
    v: Array,
    fitted: Array,
    rank: int,
    *,
    tolerance: float = ACCURATE,
    bits: int = _BITS,
) -> ReducedProof:
    """The proof for one output; ``fitted`` is what predict returned for the rows."""
    T = rows.directions(rank)
    with precision(bits):
        K = _table(rows.matrix(rows.X), T.shape[0])
        features = K * flint().arb_mat(*T.shape, [value for row in T for value in balls(row)])
        penalty = [[ball(float(i == j)) for j in range(rank)] for i in range(rank)]
        optimum = _optimum(features, penalty, y, gamma, v)
        made = _proof(optimum, y, v, fitted, tolerance, bits)
    return replace(made, uncut=_uncut(rows, y, gamma, v, fitted))


def _uncut(rows: BasisRows, y: Array, gamma: float, v: Array, fitted: Array) -> float:
    """The distance from the optimum over all coefficients; infinite where no number of bits that is tried is enough."""
    # vectors that agree are one: their coefficients add up
    different = rows if rows.kernel is None else replace(rows, points=_distinct(rows.points))
    if rows.kernel is not None and not isinstance(rows.kernel, Foreign):
        features = rows.kernel.rank(rows.points.shape[1])
        if features is not None and features < different.points.shape[0]:
            return float("inf")  # more vectors than the kernel has features: a singular system in any number of bits
    for bits in _MANY_BITS:
        with precision(bits):
            matrix = different.matrix()
            K = _table(different.matrix(rows.X), len(matrix))
            optimum = _optimum(K, matrix, y, gamma, v)
            if optimum is not None:
                apart = [ball(f) - best for f, best in zip(fitted.tolist(), optimum, strict=True)]
                found = above(weighted_root(apart, balls(v)))
                if np.isfinite(found):
                    return found
    return float("inf")


def _optimum(Z: Any, penalty: list[list[Any]], y: Array, gamma: float, v: Array) -> list[Any] | None:
    """The exact fitted values of min 1/2 u'Pu + gamma/2 sum v (y - Zu - b)^2; None where the bits do not suffice."""
    n, r = Z.nrows(), Z.ncols()
    weights, targets, zero = balls(v), balls(y), ball(0.0)
    mass = sum(weights, zero)
    mean = sum((weight * t for weight, t in zip(weights, targets, strict=True)), zero) / mass
    if r == 0:
        return [mean] * n
    row = flint().arb_mat(1, n, weights) * Z
    means = [row[0, k] / mass for k in range(r)]
    centred = flint().arb_mat(n, r, [Z[i, k] - means[k] for i in range(n) for k in range(r)])
    pulled = flint().arb_mat(n, r, [weights[i] * centred[i, k] for i in range(n) for k in range(r)])
    H = pulled.transpose() * centred
    lam = 1 / ball(gamma)
    for i in range(r):
        for j in range(r):
            H[i, j] += lam * penalty[i][j]
    right = pulled.transpose() * flint().arb_mat(n, 1, [t - mean for t in targets])
    try:
        u = H.solve(right)
    except ZeroDivisionError:
        return None
    values = centred * u
    return [mean + values[i, 0] for i in range(n)]


def prove_reduced_l1(
    rows: BasisRows,
    y: Array,
    zeta: float,
    beta: Array,
    fitted: Array,
    v: Array,
    *,
    tolerance: float = ACCURATE,
    bits: int = _BITS,
) -> Proof:
    """The proof for one output of the L1 substrate; ``beta`` has an entry for every basis vector.

    Correlations may exceed zeta by more powers of ten than ``bits`` can resolve; then four times as many are used.
    """
    made = _proved_l1(rows, y, zeta, beta, fitted, v, tolerance, bits)
    if made.proved:
        return made
    return min(made, _proved_l1(rows, y, zeta, beta, fitted, v, tolerance, 4 * bits), key=lambda one: one.accuracy)


def _proved_l1(
    rows: BasisRows, y: Array, zeta: float, beta: Array, fitted: Array, v: Array, tolerance: float, bits: int
) -> Proof:
    with precision(bits):
        K = _table(rows.matrix(rows.X), beta.size)
        n, zero, a, limit = y.size, ball(0.0), balls(beta), ball(zeta)
        products = K * flint().arb_mat(beta.size, 1, a)
        weights = balls(v)
        mass = sum(weights, zero)
        rest = [t - products[i, 0] for i, t in enumerate(balls(y))]
        mean = sum(_times(weights, rest), zero) / mass
        errors = [one - mean for one in rest]
        bound = min(
            (
                root_of(2 * _gap(K, errors, theta, weights, a, limit) / mass)
                for theta in (errors, _corrected(K, errors, weights, beta, limit))
            ),
            key=above,
        )
        values = [products[i, 0] + mean for i in range(n)]
        apart = weighted_root([ball(f) - value for f, value in zip(fitted.tolist(), values, strict=True)], weights)
        return proof_of(bound + apart, y, weights, tolerance, bits)


def _times(weights: list[Any], values: list[Any]) -> list[Any]:
    return [weight * value for weight, value in zip(weights, values, strict=True)]


def _gap(K: Any, errors: list[Any], theta: list[Any], weights: list[Any], beta: list[Any], zeta: Any) -> Any:
    """The duality gap at the largest multiple of theta, one at most, that is dual feasible."""
    zero = ball(0.0)
    c = K.transpose() * flint().arb_mat(len(theta), 1, _times(weights, theta))
    largest = zero
    for j in range(len(beta)):
        largest = largest.max(abs(c[j, 0]))
    share = ball(1.0) if largest <= zeta else zeta / largest.max(zeta)
    rest = [e - share * t for e, t in zip(errors, theta, strict=True)]
    gap = sum((weight * one * one for weight, one in zip(weights, rest, strict=True)), zero) / 2
    for j, one in enumerate(beta):
        gap += zeta * abs(one) - share * one * c[j, 0]
    return gap


def _corrected(K: Any, errors: list[Any], weights: list[Any], beta: Array, zeta: Any) -> list[Any]:
    """The errors less their part in the columns in use by which correlations there are not zeta; else as they are."""
    used = np.flatnonzero(beta).tolist()
    n, zero = len(errors), ball(0.0)
    if not used:
        return errors
    mass = sum(weights, zero)
    means = [sum((weights[i] * K[i, j] for i in range(n)), zero) / mass for j in used]
    columns = flint().arb_mat(
        n, len(used), [K[i, j] - mean for i in range(n) for j, mean in zip(used, means, strict=True)]
    )
    pulled = flint().arb_mat(n, len(used), [weights[i] * columns[i, k] for i in range(n) for k in range(len(used))])
    c = pulled.transpose() * flint().arb_mat(n, 1, errors)
    left = [c[k, 0] - zeta * (1 if beta[j] > 0 else -1) for k, j in enumerate(used)]
    try:
        x = (pulled.transpose() * columns).solve(flint().arb_mat(len(used), 1, left))
    except ZeroDivisionError:
        return errors
    moved = columns * x
    return [e - moved[i, 0] for i, e in enumerate(errors)]


def _proof(optimum: Any, y: Array, v: Array, fitted: Array, tolerance: float, bits: int) -> ReducedProof:
    if optimum is None:
        made = proof_of(flint().arb("inf"), y, balls(v), tolerance, bits)
    else:
        apart = [ball(f) - best for f, best in zip(fitted.tolist(), optimum, strict=True)]
        made = proof_of(weighted_root(apart, balls(v)), y, balls(v), tolerance, bits)
    return ReducedProof(made.accuracy, made.spread, made.tolerance, made.rounding, made.bits, made.reason)


def _table(rows: Sequence[Sequence[Any]], width: int) -> Any:
    return flint().arb_mat(len(rows), width, [value for row in rows for value in row])


def _distinct(points: Any) -> Any:
    dense = points.toarray() if hasattr(points, "toarray") else np.asarray(points)
    return np.unique(dense, axis=0)
