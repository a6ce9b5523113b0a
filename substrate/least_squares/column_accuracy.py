r"""How far the fitted values of a column-reduced machine are from those of its exact least-squares solution.

With :math:`C = A_S` the kept columns of the bordered system, :math:`x = (b, \alpha_S)`, errors :math:`e = B - C x` and
:math:`C = Q R`,

.. math::

    C^T C\, (x - x^\star) = - C^T e \quad\Longrightarrow\quad
    \|C (x - x^\star)\| = \|R^{-T} C^T e\| , \qquad
    f - f^\star = \big[ C (x - x^\star) \big]_{2 \dots n+1} - D_S (\alpha - \alpha^\star) ,

so :math:`\|f - f^\star\| \le \|R^{-T} g\| + \|D_S [R^{-1} R^{-T} g]_\alpha\|` with :math:`g = C^T e`. The kernel
need not be positive semi-definite for that. An error :math:`\delta` of e changes the first term by at most
:math:`\|\delta\|`; an error of the columns, or of their products with e, by its size over the smallest singular value
of R, columns scaled to one length. Where R is too near a singular matrix to be accurate to one part in a hundred there
is no bound.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates.doubled_precision import add, exact_product, minus, multiplied
from substrate.certificates.rows import ACCURATE, Accuracy, accuracy_row, spread_of
from substrate.kernels import Kernel

__all__ = ["FORMULA", "ColumnFactor", "ColumnMachine", "careful_column_accuracy", "column_accuracy", "kept_values"]

FORMULA = "||R^-T A_S'e|| + ||D (A_S'A_S)^-1 A_S'e|| + rounding"
_HALF = EPS / 2.0
#: Relative error of R up to which its inverse is accurate to one part in a hundred.
_TRUSTED = 0.01
_POWERS = 64


@dataclass(frozen=True, slots=True)
class ColumnFactor:
    """R' of the columns scaled to one length: ``lower``, the ``length`` of every column, and two error bounds.

    ``smallest`` bounds the smallest singular value from below, ``doubt`` the relative error of norms by R.
    """

    lower: Array
    length: Array
    smallest: float
    doubt: float

    @classmethod
    def of_normal_equations(cls, lower: Array, length: Array, n: int) -> "ColumnFactor":
        """The factor from a Cholesky factor of the scaled normal equations of n rows."""
        smallest = _smallest(lower)
        m = length.size
        return cls(lower, length, smallest, _over((n + m + 10.0) * m * _HALF, smallest**2))

    @classmethod
    def of_columns(cls, C: Array) -> "ColumnFactor":
        """The factor from a QR factorisation of the columns themselves."""
        length = np.linalg.norm(C, axis=0)
        length = np.where(length > 0.0, length, 1.0)
        R = np.asarray(np.linalg.qr(C / length, mode="r"))
        n, m = C.shape
        rounding = (n + 10.0) * m * EPS
        smallest = max(float(np.linalg.svd(R, compute_uv=False)[-1]) - rounding, 0.0)
        return cls(np.ascontiguousarray(R.T), length, smallest, _over(2.0 * rounding, smallest))


@dataclass(frozen=True, slots=True)
class ColumnMachine:
    """A stored machine: targets of n rows, which of them are kept, ridge and coefficients of those, bias.

    ``diagonal`` holds k(x_i, x_i) of all rows.
    """

    y: Array
    columns: Any
    ridge: Array
    bias: float
    coefficients: Array
    diagonal: Array

    def bordered(self, values: Array) -> Array:
        """The columns of the bordered system from kernel values of all rows against the kept ones."""
        C = np.empty((self.y.size + 1, self.columns.size + 1))
        C[0, 0], C[0, 1:], C[1:, 0], C[1:, 1:] = 0.0, 1.0, 1.0, values
        C[self.columns + 1, np.arange(self.columns.size) + 1] += self.ridge
        return C


def kept_values(kernel: Kernel, points: Any, columns: Any) -> Array:
    """Kernel values of all rows against the kept ones, filled in carefully."""
    values = np.empty((points.shape[0], columns.size))
    if kernel.pairwise:
        kernel.fill(points[:, columns], None, values)
    else:
        kernel.fill_carefully(points, points[columns], values)
    return values


def column_accuracy(
    machine: ColumnMachine,
    values: Array,
    p: float,
    factor: ColumnFactor,
    *,
    pairwise: bool = False,
    tolerance: float = ACCURATE,
) -> Accuracy:
    """The row by kernel values in working precision, each with an error of at most p; a few products with vectors."""
    y, a, b, kept = machine.y, machine.coefficients, machine.bias, machine.columns
    f = values @ a + b
    e = y - f
    e[kept] -= machine.ridge * a
    sizes = np.abs(y) + np.abs(f) + abs(b)
    sizes[kept] += machine.ridge * np.abs(a)
    sums = _sums(machine, values, np.abs(a), pairwise)
    kernel_doubt, rounded = p * sums, a.size * _HALF * sums + 4.0 * _HALF * sizes
    products, total = values.T @ e, float(e.sum())
    doubt = (p + y.size * _HALF) * _sums_over_rows(machine, values, np.abs(e), pairwise)
    total_doubt = y.size * _HALF * float(np.abs(e).sum())
    g = _gradient(machine, products, total, e)
    slack = kernel_doubt + rounded
    doubts = np.append(total_doubt, doubt)
    return _row(machine, values, p, factor, g, slack, slack, doubts, 0.0, FORMULA, pairwise, tolerance)


def careful_column_accuracy(
    machine: ColumnMachine,
    values: Array,
    p: float,
    factor: ColumnFactor,
    fitted: Array,
    *,
    pairwise: bool = False,
    tolerance: float = ACCURATE,
) -> Accuracy:
    """The row with products in doubled precision; ``fitted`` is what predict returns."""
    y, a, kept = machine.y, machine.coefficients, machine.columns
    zero = np.zeros_like(y)
    product, check = exact_product(values, a)
    f = add(product, (np.full_like(y, machine.bias), zero))
    rest = add((y, zero), minus(f))
    pulled = (zero.copy(), zero.copy())
    pulled[0][kept], pulled[1][kept] = multiplied(machine.ridge, a)
    rest = add(rest, minus(pulled))
    e = rest[0] + rest[1]
    sizes = np.abs(y) + np.abs(f[0]) + abs(machine.bias) + np.abs(pulled[0])
    slack = p * _sums(machine, values, np.abs(a), pairwise) + check + EPS**1.9 * sizes + _HALF * np.abs(e)
    inner, inner_check = exact_product(np.ascontiguousarray(values.T), e)
    doubt = p * _sums_over_rows(machine, values, np.abs(e), pairwise) + inner_check
    total = math.fsum(e)
    g = _gradient(machine, inner[0], total, e)
    apart = add((fitted, zero), minus(f))
    distance = float(np.linalg.norm(apart[0] + apart[1]))
    formula = f"{FORMULA}, in doubled precision"
    doubts = np.append(EPS * abs(total), doubt + EPS * np.abs(inner[0]))
    return _row(machine, values, p, factor, g, slack, slack, doubts, distance, formula, pairwise, tolerance)


def _gradient(machine: ColumnMachine, products: Array, total: float, e: Array) -> Array:
    """C'e: the column of the bias, then those kept; the row of zeros holds minus the sum of the coefficients."""
    top = -math.fsum(machine.coefficients)
    return np.append(total, products + machine.ridge * e[machine.columns] + top)


def _row(
    machine: ColumnMachine,
    values: Array,
    p: float,
    factor: ColumnFactor,
    g: Array,
    slack: Array,
    again: Array,
    doubt: Array,
    distance: float,
    formula: str,
    pairwise: bool,
    tolerance: float,
) -> Accuracy:
    """``slack`` bounds the error of e, ``again`` that of the values of predict, ``doubt`` that of C'e."""
    from scipy.linalg import solve_triangular

    n, sigma = machine.y.size, factor.smallest
    spread, rounding = spread_of(machine.y, np.ones(n))
    bound = math.inf
    length = factor.length
    # a few units in the last place for the terms of g
    doubt = doubt + 4.0 * EPS * np.abs(g)
    doubt[1:] += EPS * machine.ridge * float(np.abs(machine.y).max(initial=1.0))
    off = _over(2.0 * _columns_off(machine, values, p, length, pairwise), sigma) + factor.doubt
    if off <= _TRUSTED and np.isfinite(g).all():
        z = solve_triangular(factor.lower, g / length, lower=True)
        u = solve_triangular(factor.lower, z, lower=True, trans="T") / length
        extra = _over(float(np.linalg.norm(doubt / length)), 0.98 * sigma) + float(np.linalg.norm(slack))
        size = float(np.linalg.norm(z))
        share = float((machine.ridge / length[1:]).max(initial=0.0))
        moved = float(np.linalg.norm(machine.ridge * u[1:])) + 1.02 * share * (4.0 * off * size + extra) / sigma
        bound = 1.02 * size + extra + moved + float(np.linalg.norm(again)) + distance
    bound = 1.01 * bound / math.sqrt(n)
    if not math.isfinite(bound):
        bound = math.inf
    return accuracy_row(bound, spread, formula, tolerance=tolerance, rounding=rounding)


def _columns_off(machine: ColumnMachine, values: Array, p: float, length: Array, pairwise: bool) -> float:
    """The Frobenius norm of the errors of the scaled columns, and of their rounding when the ridge is added."""
    sizes = np.abs(values) if pairwise else None
    if sizes is not None:
        norms = np.linalg.norm(sizes, axis=0)
    else:
        s = np.sqrt(np.maximum(machine.diagonal, 0.0))
        norms = s[machine.columns] * float(np.linalg.norm(s))
    own = EPS * (np.abs(machine.diagonal[machine.columns]) + machine.ridge)
    return float(np.linalg.norm((p * norms + own) / length[1:]))


def _sums(machine: ColumnMachine, values: Array, a: Array, pairwise: bool) -> Array:
    """A bound on |K_S| |a|: by Cauchy and Schwarz, or from the entries of a given matrix."""
    if pairwise:
        return np.asarray(np.abs(values) @ a)
    s = np.sqrt(np.maximum(machine.diagonal, 0.0))
    return np.asarray(s * float(s[machine.columns] @ a))


def _sums_over_rows(machine: ColumnMachine, values: Array, e: Array, pairwise: bool) -> Array:
    """A bound on |K_S|' |e|."""
    if pairwise:
        return np.asarray(np.abs(values).T @ e)
    s = np.sqrt(np.maximum(machine.diagonal, 0.0))
    return np.asarray(s[machine.columns] * float(s @ e))


def _smallest(lower: Array) -> float:
    """A lower bound on the smallest singular value, by powers of the inverse of L L' applied to a random vector.

    For a direction x drawn from the sphere, the largest eigenvalue of A is at most 4 (x'A^k x)^(1/k) except with
    probability 0.8 sqrt(m) 4^(-k/2) (Dixon, SIAM J. Numer. Anal. 20, 1983), here below 1e-17.
    """
    from scipy.linalg.lapack import dpotrs

    start = np.random.default_rng(0).normal(size=lower.shape[0])
    x: Array = np.asarray(start / np.linalg.norm(start))
    logarithm = 0.0
    for _ in range(_POWERS // 2):
        x = np.asarray(dpotrs(lower, x, lower=1)[0])
        size = float(np.linalg.norm(x))
        if not 0.0 < size < math.inf:
            return 0.0
        logarithm, x = logarithm + math.log(size), np.asarray(x / size)
    return 0.99 / math.sqrt(4.0 * math.exp(2.0 * logarithm / _POWERS))


def _over(value: float, size: float) -> float:
    return value / size if size > 0.0 else math.inf
