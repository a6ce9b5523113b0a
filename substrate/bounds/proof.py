r"""Proofs in ball arithmetic: the bounds of the certificates, computed again with rigorous enclosures.

They need python-flint, ``pip install "lssvm-substrate[proof]"``. Nothing here uses the code that fitted a model:
kernels are evaluated from their formulas, on the stored numbers, in as many bits as the result needs. The numbers come
from :mod:`~substrate.balls`.

**Least squares**, as in :mod:`~substrate.bounds.saddle`: with fitted values f as ``predict`` returned them,
:math:`\tilde f = K \tilde a + b 1` for the support values less their sum, and
:math:`D = \operatorname{diag}(1/(\gamma v_i))`,

.. math:: \|f - f^\star\|_v \le \|f - \tilde f\|_v + \|y - \tilde f - D \tilde a\|_v .

K must be positive semi-definite. The kernels with a formula are; a matrix or a function from elsewhere is tested by a
Cholesky factorisation whose rounding is bounded [Rump2006]_, and where only :math:`K + \lambda I` is semi-definite the
second norm is multiplied by :math:`\max(1, \sigma / (1 - \sigma))`, :math:`\sigma = \lambda \gamma \max_i v_i`.

Where the balls are too wide to decide, the computation is repeated with twice the bits.

On a reduced basis the machine is on the vectors that double precision can distinguish, in exact arithmetic, as for its
certificate (:mod:`~substrate.fits.basis_solution`). Its coefficients are free, and the penalty is
:math:`\tfrac{\lambda}{2} \beta^T K_{SS} \beta`. It has one exact optimum, with Z the kernel values of the rows, columns
that are not penalised last,

.. math:: H \beta^\star = Z^T V (y - \bar y), \qquad H = \lambda K_{SS} + Z^T V (Z - 1 \bar z^T), \qquad
          f^\star = \bar y + (Z - 1 \bar z^T) \beta^\star ,

which is enclosed, row by row, and compared with what ``predict`` returned.

Least squares on some columns of the LS-SVM's system is bounded as in :mod:`substrate.fits.column_reduction`.

**The L1 substrate, maximal variation, and losses of rows.** Each is the formula of the certificate,
:func:`~substrate.penalties.bound_distance` or :func:`~substrate.bounds.rows.bound_rows`, for exact kernel values.
Maximal variation is the machine in the directions of its coordinates, whose values at the rows are plain numbers as
double precision computed them; the stored expansion in exact kernel values is compared with what ``predict`` returned.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np

from substrate.arrays import Array
from substrate.balls import Balls, above, ball, balls, below, flint, precision
from substrate.bounds.rows import Point, RowMachine, bound_rows
from substrate.bounds.saddle import Expansion, bound_expansion
from substrate.certificate import ACCURATE, Accuracy, Tolerance, ratio_of
from substrate.errors import DeclarationError
from substrate.fits.column_reduction import ColumnMachine
from substrate.kernels.derivatives import Orders, differentiate_formula
from substrate.kernels.kernel import Formula, Kernel
from substrate.numbers import relative_rounding
from substrate.operators.border import ONES, Border
from substrate.operators.gram import Gram
from substrate.penalties import Columns, OneNorm, VariationMachine, bound_distance

__all__ = [
    "Proof",
    "above",
    "ball",
    "ball_derivatives",
    "ball_matrix",
    "balls",
    "below",
    "flint",
    "formula_of",
    "points_of",
    "precision",
    "prove_bound",
    "prove_expansion",
    "prove_kept_columns",
    "prove_l1",
    "prove_reduced",
    "prove_rows",
    "prove_variation",
    "tolerance_in_balls",
]

#: Enough for the spread of targets that agree in all but their last digits.
_SPREAD_BITS = 200


def formula_of(kernel: Kernel, n_features: int) -> Formula:
    """Return the kernel as a function of two points in ball arithmetic."""
    return kernel.exact_formula(flint().arb, n_features)


@dataclass(frozen=True, slots=True)
class Proof(Accuracy):
    """The row of an answer whose bound is rigorous.

    ``value`` and ``spread`` are upper and lower ends of their enclosures, in units of y. ``bits`` is the precision of
    the balls, and ``reason`` states why, if there is no bound. With several outputs ``outputs`` holds the proof of
    each.
    """

    bits: int = 0
    reason: str = ""

    @classmethod
    def of(
        cls, accuracy: float, tolerance: Tolerance, bits: int, reason: str = "", about: str = "fitted values"
    ) -> Self:
        """Return the record of a bound, and of the permitted error for the targets of a user."""
        return cls(
            name="accuracy",
            value=accuracy,
            scale=tolerance.scale,
            tolerance=tolerance.share,
            formula="in ball arithmetic",
            spread=tolerance.spread,
            about=about,
            bits=bits,
            reason=reason,
        )

    @property
    def accuracy(self) -> float:
        """The proved bound, in units of y; of several outputs the largest."""
        return self.value

    @property
    def proved(self) -> bool:
        """Return whether the fitted values of every output are proved to be as near as the tolerance requires."""
        return self.passes

    def __str__(self) -> str:
        if self.reason:
            return f"no proof: {self.reason}"
        with np.errstate(divide="ignore"):  # a bound of zero is right to any number of digits
            digits = -np.log10(max(ratio_of(row.value, row.spread) for row in self.each))
        several = f", the largest of {len(self.outputs)} outputs" if self.outputs else ""
        return (
            f"{'proved' if self.proved else 'not proved'}: {self.about} within {self.value:.2e} of the exact optimum "
            f"(spread of y {self.spread:.3g}){several}, {max(digits, 0.0):.1f} digits, {self.bits} bits"
        )


def tolerance_in_balls(y: Array, weights: Array, share: float = ACCURATE) -> Tolerance:
    """Return the permitted error for the targets of a user and the weights of their rows, not above the exact one."""
    with precision(_SPREAD_BITS):
        targets, v, zero = balls(y), balls(weights), ball(0.0)
        mass = sum(v, zero)
        mean = sum((weight * t for t, weight in zip(targets, v, strict=True)), zero) / mass
        scatter = sum((weight * (t - mean) * (t - mean) for t, weight in zip(targets, v, strict=True)), zero)
        spread = max(below((scatter / mass).sqrt()), 0.0) if scatter > 0 else 0.0
    return Tolerance(share, spread, relative_rounding(y.size) * float(np.abs(y).max(initial=0.0)))


_BITS = 160


#: For the system in all coefficients of a basis, which is harder for smoother kernels.
_BASIS_BITS = 200


_MOST_BITS = 2560


#: A bound whose own enclosure is wider than this share of it is computed with more bits.
_WIDE = 0.01


_INDEFINITE = "the kernel matrix is not positive semi-definite, so the fit is a saddle point and no minimum"


def prove_expansion(
    kernel: Kernel,
    X: Any,
    y: Array,
    gamma: float,
    v: Array,
    a: Array,
    b: float,
    fitted: Array,
    tolerance: Tolerance,
    *,
    bits: int = _BITS,
    border: Border = ONES,
    slopes: Array | None = None,
) -> Proof:
    """Return the proof for one output; ``fitted`` is what predict returned for the rows of X.

    ``tolerance`` applies to the user's targets, from which y may be computed. ``slopes`` are the coefficients of the
    columns of the border besides the constant.
    """
    matrix, negative = given_matrix(kernel, X)
    if not np.isfinite(negative):
        return Proof.of(math.inf, tolerance, bits, _INDEFINITE)

    machine = Expansion(y=y, gamma=gamma, weights=v, a=a, b=b, negative=negative, border=border, slopes=slopes)

    def products(a: Balls) -> Any:
        return (ball_matrix(kernel, X) if matrix is None else Balls.exact(matrix)) @ a

    def bound() -> Any:
        return bound_expansion(machine, Balls, products, fitted)

    return prove_bound(bound, tolerance, bits)


def given_matrix(kernel: Kernel, X: Any) -> tuple[Array | None, float]:
    """Return the values of a given matrix or function, made symmetric, and how far they are from semi-definite.

    None and zero for a kernel that has a formula.
    """
    if kernel.trusted and not kernel.pairwise:
        return None, 0.0
    gram = Gram.of(kernel, X)
    gram.check_definite()
    return np.array(gram.matrix), gram.negative


def ball_matrix(kernel: Kernel, X: Any, Z: Any = None) -> Balls:
    """Return kernel values of the rows of X with the rows of Z, or with each other, in balls of the present precision.

    A matrix or a function from elsewhere is defined by its values; of a matrix Z are the numbers of columns.
    """
    if kernel.pairwise:
        values = np.empty(X.shape)
        kernel.fill(X, X if X.shape[0] == X.shape[1] else np.empty((X.shape[1], X.shape[1])), values)
        return Balls.exact(values if Z is None else values[:, Z])
    if not kernel.trusted:
        return Balls.exact(kernel(X) if Z is None else kernel(X, Z))
    rows = points_of(X)
    formula = formula_of(kernel, len(rows[0]))
    if Z is not None:
        columns = points_of(Z)
        return Balls([[formula(x, z) for z in columns] for x in rows])
    lower = [[formula(x, rows[j]) for j in range(i + 1)] for i, x in enumerate(rows)]  # each value once
    return Balls([[lower[max(i, j)][min(i, j)] for j in range(len(rows))] for i in range(len(rows))])


def ball_derivatives(kernel: Kernel, X: Array, Z: Array, left: Orders, right: Orders) -> Balls:
    """Return derivatives of kernel values of all pairs of rows, of these orders in either, in balls."""
    x, z = ([Balls.exact(column) for column in columns] for columns in (X.T[:, :, None], Z.T[:, None, :]))
    try:
        values = differentiate_formula(kernel.exact_formula(Balls.exact, len(x)), x, z, left, right)
    except (AttributeError, TypeError) as error:
        raise DeclarationError(
            f"derivatives of {kernel!r} are known in double precision only, since its formula has a root; take RBF, "
            "Linear, Polynomial, and sums, products, multiples and Componentwise of these"
        ) from error
    shape = (X.shape[0], Z.shape[0])
    return Balls(np.broadcast_to(values.values if isinstance(values, Balls) else ball(float(values)), shape))


def points_of(X: Any) -> list[list[Any]]:
    """Return the rows of X as balls without radius."""
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return [balls(row) for row in dense]


def prove_bound(bound: Callable[[], Any], tolerance: Tolerance, bits: int) -> Proof:
    """Return the proof of a bound, with more bits as long as they can change the result."""
    while True:
        with precision(bits):
            try:
                bound_found = bound().value
            except ZeroDivisionError:  # a matrix of balls that may be singular
                bound_found = ball(float("nan"))
            accuracy = above(bound_found)
            proof = Proof.of(accuracy, tolerance, bits, "" if np.isfinite(accuracy) else f"{bits} bits are not enough")
            wide = not bound_found.is_finite() or bool(bound_found.rad() > _WIDE * abs(bound_found.mid()))
        if proof.proved or not wide or 2 * bits > _MOST_BITS:
            return proof
        bits *= 2


def prove_reduced(
    matrices: Callable[[], tuple[Balls, Balls]], y: Array, gamma: float, v: Array, fitted: Array, tolerance: Tolerance
) -> Proof:
    """Return the proof for one output on a reduced basis; ``fitted`` is what predict returned for the rows.

    ``matrices`` returns Z and K_SS in balls of the present precision.
    """

    def bound() -> Balls:
        distance: Balls = _fit_exactly(*matrices(), y, gamma, v) - fitted
        return distance.bound_norm(v)

    return prove_bound(bound, tolerance, _BASIS_BITS)


def _fit_exactly(Z: Balls, K: Balls, y: Array, gamma: float, v: Array) -> Balls:
    """Return the fitted values of the exact optimum."""
    weights, targets = Balls.exact(v), Balls.exact(y)
    mass = weights.total()
    mean = (weights * targets).total() / mass
    if not Z.values.shape[1]:
        return mean + np.zeros(y.size)
    table = flint().arb_mat
    centred = Z - (Z.T * weights).add_up() / mass
    columns, pulled = table(centred.values.tolist()), table((centred.T * weights).values.tolist())
    penalty = np.zeros((Z.values.shape[1],) * 2, dtype=object)
    penalty[: len(K.values), : len(K.values)] = (K / gamma).values
    system = pulled * columns + table(penalty.tolist())
    fitted = columns * system.solve(pulled * table([[value] for value in (targets - mean).values.tolist()]))
    return mean + Balls([fitted[i, 0] for i in range(y.size)])


_COLUMN_BITS = 256


def prove_kept_columns(kernel: Kernel, X: Any, machine: ColumnMachine, fitted: Array, tolerance: Tolerance) -> Proof:
    """Return the proof for one machine of the rows X; ``fitted`` is what predict returned for them."""
    bits = _COLUMN_BITS
    with precision(bits):
        try:
            kept = machine.columns if kernel.pairwise else X[machine.columns]
            bound = machine.bound(ball_matrix(kernel, X, kept), fitted)
        except ZeroDivisionError:  # raised by python-flint where no enclosure of an inverse is found
            return Proof.of(math.inf, tolerance, bits, f"{bits} bits cannot tell the columns apart")
        return Proof.of(bound, tolerance, bits, "" if np.isfinite(bound) else f"{bits} bits are not enough")


def prove_l1(
    kernel: Kernel,
    X: Any,
    points: Any,
    y: Array,
    penalty: OneNorm,
    a: Array,
    fitted: Array,
    weights: Array,
    tolerance: Tolerance,
    ridge: float = 0.0,
) -> Proof:
    """Return the proof of one output of an L1 substrate, with more bits if needed.

    ``points`` are the points of the expansion, or the numbers of columns of a given matrix.
    """
    basis = X[points] if kernel.pairwise else points

    def bound() -> Any:
        energy = ball_matrix(kernel, basis, points) if ridge > 0.0 else None
        columns = Columns(ball_matrix(kernel, X, points), weights, True, ridge, energy)
        return bound_distance(columns, penalty, y, a, fitted)

    return prove_bound(bound, tolerance, _BITS)


def prove_variation(
    kernels: Sequence[Kernel],
    X: Any,
    points: Any,
    machine: VariationMachine,
    y: Array,
    coefficients: Sequence[Array],
    bias: float,
    fitted: Array,
    tolerance: Tolerance,
) -> Proof:
    """Return the proof for one machine of maximal variation, with the stored coefficients of every component."""

    def enclosed() -> Any:
        parts, W = [Balls.exact(component) for component in machine.components], Balls.exact(machine.root)
        columns = Columns(reduce(add, parts), machine.weights, machine.bias, machine.ridge, W.T @ W)
        bound = bound_distance(columns, machine.penalty(parts), y, machine.v, fitted)
        expansions = [ball_matrix(kernel, X, points) @ a for kernel, a in zip(kernels, coefficients, strict=True)]
        stored = reduce(add, expansions) + bias
        return bound + (stored - fitted).bound_norm(machine.weights)

    return prove_bound(enclosed, tolerance, _BITS)


def prove_rows(
    machine: RowMachine, enclose: Callable[[], Point], g: Array, y: Array, weights: Array, share: float
) -> Proof:
    """Return the proof for one machine with slopes g of its losses, where ``share`` of the spread of y is permitted.

    ``enclose`` returns the function of the machine in balls of the present precision.
    """
    permitted = Tolerance.of_page(y, weights, share)
    tolerance = tolerance_in_balls(y, weights, share)._replace(rounding=permitted.rounding)
    with precision(_BITS):
        bound = bound_rows(machine, enclose(), g, tolerance.largest_radius)
    return Proof.of(bound.radius, tolerance, _BITS, about=bound.about)
