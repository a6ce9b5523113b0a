r"""How far the fitted values of a column-reduced machine are from those of its exact least-squares solution.

With :math:`C = A_S` the kept columns of the bordered system, :math:`x = (b, \alpha_S)` and errors :math:`e = B - C x`,
the exact solution is :math:`x + \delta` with :math:`C^T C \delta = C^T e`, and with
:math:`D_S = \operatorname{diag}(1/\gamma)` its fitted values are

.. math:: f^\star = f + K_S \delta_\alpha + \delta_b 1, \qquad
          K_S \delta_\alpha + \delta_b 1 = \big[ C \delta \big]_{2 \dots n+1} - P D_S \delta_\alpha ,

P placing the kept rows. The kernel need not be positive semi-definite for that. For any :math:`\hat\delta` near
:math:`\delta`, with what it leaves, :math:`\hat e = e - C \hat\delta` and :math:`\hat g = C^T \hat e`,

.. math::

    \|f - f^\star\| \le \|K_S \hat\delta_\alpha + \hat\delta_b 1\| + \sqrt{\hat g^T (C^T C)^{-1} \hat g}
    + \tfrac1\gamma \big\| \big[ (C^T C)^{-1} \hat g \big]_\alpha \big\| .

:func:`bound_columns` is this formula, over numbers with a radius (:mod:`~substrate.certificates.enclosed`). An error z
of e, its radius, changes f by at most :math:`\|z\| + \tfrac1\gamma \|[(C^T C)^{-1} C^T z]_\alpha\|`. In double
precision :math:`\hat\delta` is zero and the inverse that of a factor R of C (:class:`KeptColumnFactor`); what the
radius of :math:`\hat g` adds is at most its size over the smallest singular value of R, columns scaled to one length.
Where R is too near a singular matrix to be accurate to one part in a hundred there is no bound. In balls the inverse is
enclosed, :math:`\hat\delta` is exact up to its radius, and the formula is a proof
(:mod:`substrate.proof.least_squares`).
"""

import math
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from substrate.arrays import Array
from substrate.certificates.enclosed import Double, Enclosed, sum_rounding
from substrate.kernels import Kernel
from substrate.least_squares.regularization import Regularization

__all__ = [
    "FORMULA",
    "ColumnMachine",
    "EnclosedColumns",
    "KeptColumnFactor",
    "bound_columns",
    "bound_columns_by_factor",
    "enclose_columns",
]

FORMULA = "||R^-T A_S'e|| + ||D (A_S'A_S)^-1 A_S'e|| + rounding"
#: Relative error of R up to which its inverse is accurate to one part in a hundred.
_TRUSTED = 0.01
#: Random directions by which the smallest singular value is bounded.
_DIRECTIONS = 8

N = TypeVar("N", bound=Enclosed)


@dataclass(frozen=True, slots=True)
class ColumnMachine:
    """A stored machine: targets of n rows, which of them are kept, gamma, bias, and coefficients of the kept ones."""

    y: Array
    columns: Any
    gamma: float
    bias: float
    coefficients: Array

    def add_border(self, values: Array) -> Array:
        """Return the columns of the bordered system from kernel values of all rows against the kept ones."""
        C = np.empty((self.y.size + 1, self.columns.size + 1))
        C[0, 0], C[0, 1:], C[1:, 0], C[1:, 1:] = 0.0, 1.0, 1.0, values
        C[self.columns + 1, np.arange(self.columns.size) + 1] += Regularization(self.gamma).lam
        return C


@dataclass(frozen=True, slots=True)
class EnclosedColumns(Generic[N]):
    """K_S as a map of enclosed vectors, and its adjoint."""

    matrix: N

    def times(self, x: Any) -> Any:
        """Return K_S x."""
        return (self.matrix * x).add_up()

    def adjoint(self, z: Any) -> Any:
        """Return K_S'z."""
        return (self.matrix.T * z).add_up()


class ColumnInverse(Protocol):
    """(C'C)^-1: an approximate product, and bounds on exact ones."""

    def step(self, g: Any) -> Any:
        """Return numbers near (C'C)^-1 g, without radius, the bias first; None for zeros."""

    def norms(self, g: Any) -> tuple[Any, Any]:
        """Bound sqrt(g'(C'C)^-1 g), and the norm of the part of (C'C)^-1 g that belongs to the coefficients."""

    def reach(self) -> Any:
        """Bound the latter for g = C'z and every z of norm one."""


def bound_columns(
    machine: ColumnMachine,
    numbers: type[N],
    kernel: EnclosedColumns[N],
    inverse: ColumnInverse,
    fitted: Array | None = None,
) -> Any:
    """Bound the distance of the fitted values from those of the exact solution, root mean square.

    Parameters
    ----------
    machine
        What is stored.
    numbers
        The arithmetic: double or balls.
    kernel, inverse
        K_S and (C'C)^-1 in these numbers.
    fitted
        What predict returns; None where that is as far from K_S a + b as the values in these numbers may be.
    """
    n, kept = machine.y.size, machine.columns
    bordered = np.ones(n + 1)
    ridge = numbers.exact(1.0) / machine.gamma

    def gradient(e: Any, top: Any) -> Any:
        """Return C'e, the bias first; ``top`` is the entry of e in the row of the border."""
        return (kernel.adjoint(e) + ridge * e.take(kept) + top).after(e.total())

    a = numbers.exact(machine.coefficients)
    f = kernel.times(a) + machine.bias
    e, top = machine.y - f - (ridge * a).place(kept, n), -a.total()
    unknown = e.error().after(top.error()).bound_norm(bordered)
    e, top = e.without_radius(), top.without_radius()
    g = gradient(e, top)
    distance = f.error() if fitted is None else fitted - f
    step = inverse.step(g)
    if step is not None:
        shift, change = step.take(0), step.take(slice(1, None))
        change_of_values = kernel.times(change) + shift
        e, top = e - change_of_values - (ridge * change).place(kept, n), top - change.total()
        unknown = unknown + e.error().after(top.error()).bound_norm(bordered)
        g = gradient(e.without_radius(), top.without_radius())
        distance = distance - change_of_values
    unknown = unknown * numbers.exact(n + 1.0).sqrt()
    whole, coefficients = inverse.norms(g)
    radius = whole + ridge * coefficients + unknown + ridge * inverse.reach() * unknown
    return radius / numbers.exact(float(n)).sqrt() + distance.bound_norm(np.ones(n))


@dataclass(frozen=True, slots=True)
class KeptColumnFactor:
    """R' of the columns scaled to one length: ``lower``, the ``length`` of every column, and two error bounds.

    ``smallest`` bounds the smallest singular value from below, ``error`` the relative error of norms by R.
    """

    lower: Array
    length: Array
    smallest: float
    error: float

    @classmethod
    def of_normal_equations(cls, lower: Array, length: Array, n: int) -> "KeptColumnFactor":
        """Make the factor from a Cholesky factor of the scaled normal equations of n rows."""
        smallest = _smallest(lower)
        m = length.size
        return cls(lower, length, smallest, _divide(sum_rounding(n + m + 10) * m, smallest**2))

    @classmethod
    def of_columns(cls, C: Array) -> "KeptColumnFactor":
        """Make the factor from a QR factorisation of the columns themselves."""
        length = np.linalg.norm(C, axis=0)
        length = np.where(length > 0.0, length, 1.0)
        R = np.asarray(np.linalg.qr(C / length, mode="r"))
        n, m = C.shape
        rounding = 2.0 * m * sum_rounding(n + 10)
        smallest = max(float(np.linalg.svd(R, compute_uv=False)[-1]) - rounding, 0.0)
        return cls(np.ascontiguousarray(R.T), length, smallest, _divide(2.0 * rounding, smallest))

    def inverse(self, machine: ColumnMachine, columns: EnclosedColumns[Double]) -> "FactorInverse | None":
        """Return the inverse for the true columns; None where they may be too near to dependent ones."""
        matrix = columns.matrix
        diagonal = matrix.take((machine.columns, np.arange(machine.columns.size))) + Regularization(machine.gamma).lam
        radii = np.linalg.norm(np.broadcast_to(matrix.radius, matrix.middle.shape), axis=0) + 2.0 * diagonal.radius
        distance = float(np.linalg.norm(radii / self.length[1:]))
        relative_radius = _divide(2.0 * distance, self.smallest) + self.error
        return FactorInverse(self, relative_radius) if relative_radius <= _TRUSTED else None


@dataclass(frozen=True, slots=True)
class FactorInverse:
    """(C'C)^-1 of the true columns by a factor whose norms are off by at most a share ``off``."""

    factor: KeptColumnFactor
    relative_radius: float

    def step(self, g: Double) -> None:
        """Return no step: one in double precision leaves as much as it takes."""
        return

    def norms(self, g: Double) -> tuple[Double, Double]:
        """Return the norms of z = R^-T g and R^-1 z, with what the factor and the radius of g may change in them."""
        from scipy.linalg import solve_triangular

        lower, length = self.factor.lower, self.factor.length
        if not np.isfinite(g.middle).all():
            return Double(math.inf), Double(math.inf)
        z = solve_triangular(lower, g.middle / length, lower=True)
        u = solve_triangular(lower, z, lower=True, trans="T") / length
        radius = np.broadcast_to(g.radius, g.middle.shape)
        unknown = float(np.linalg.norm(radius / length)) / (0.98 * self.factor.smallest)
        size = float(np.linalg.norm(z))
        change = self.reach() * (4.0 * self.relative_radius * size + unknown)
        return Double((1.0 + 2.0 * _TRUSTED) * size + unknown), Double(float(np.linalg.norm(u[1:]))) + change

    def reach(self) -> Double:
        """Return the inverse of the smallest singular value, for the shortest column."""
        return Double(1.02 * float((1.0 / self.factor.length[1:]).max(initial=0.0)) / self.factor.smallest)


def bound_columns_by_factor(
    machine: ColumnMachine,
    columns: EnclosedColumns[Double],
    factor: KeptColumnFactor,
    fitted: Array | None = None,
) -> float:
    """Return the bound by a factor; ``fitted`` is what predict returns, where it is to be measured."""
    inverse = factor.inverse(machine, columns)
    if inverse is None:
        return math.inf
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite is no bound
        bound: Double = bound_columns(machine, Double, columns, inverse, fitted)
        return bound.upper()


def enclose_columns(kernel: Kernel, points: Any, columns: Any) -> EnclosedColumns[Double]:
    """Return kernel values of all rows against the kept ones, each with a radius."""
    if kernel.pairwise:
        return EnclosedColumns(Double.exact(kernel.values(points[:, columns], None)))
    return EnclosedColumns(kernel.enclose(points, points[columns]))


def _smallest(lower: Array) -> float:
    """Return a lower bound on the smallest singular value, by powers of the inverse of L L' applied to random vectors.

    For a direction x drawn from the sphere, the largest eigenvalue of A is at most 4 (x'A^k x)^(1/k) except with
    probability 0.8 sqrt(m) 4^(-k/2) (Dixon, SIAM J. Numer. Anal. 20, 1983). Of several drawn independently the largest
    bound fails only where all do: a solution for a few of them takes hardly longer than for one, and k is the smallest
    with which the product of their probabilities is below 1e-17.
    """
    from scipy.linalg.lapack import dpotrs

    m = lower.shape[0]
    halves = max(1, math.ceil(math.log2(0.8 * math.sqrt(m) * 10.0 ** (17.0 / _DIRECTIONS)) / 2.0))
    V = np.asfortranarray(np.random.default_rng(0).normal(size=(_DIRECTIONS, m)).T)
    V /= np.linalg.norm(V, axis=0)
    logarithms = np.zeros(_DIRECTIONS)
    for _ in range(halves):
        V = np.asarray(dpotrs(lower, V, lower=1, overwrite_b=1)[0])
        sizes = np.linalg.norm(V, axis=0)
        if not (np.isfinite(sizes).all() and (sizes > 0.0).all()):
            return 0.0
        logarithms += np.log(sizes)
        V /= sizes
    return 0.99 / math.sqrt(4.0 * math.exp(float(logarithms.max()) / halves))


def _divide(value: float, size: float) -> float:
    return value / size if size > 0.0 else math.inf
