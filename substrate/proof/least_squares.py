r"""The bounds of least-squares machines in ball arithmetic, from the stored numbers.

As in :mod:`~substrate.least_squares.answer`: with fitted values f as ``predict`` returned them,
:math:`\tilde f = K \tilde a + b 1` for the support values less their sum, and
:math:`D = \operatorname{diag}(1/(\gamma v_i))`,

.. math:: \|f - f^\star\|_v \le \|f - \tilde f\|_v + \|y - \tilde f - D \tilde a\|_v .

K must be positive semi-definite. The kernels with a formula are; a matrix or a function from elsewhere is tested by a
Cholesky factorisation whose rounding is bounded [Rump2006]_, and where only :math:`K + \lambda I` is semi-definite the
second norm is multiplied by :math:`\max(1, \sigma / (1 - \sigma))`, :math:`\sigma = \lambda \gamma \max_i v_i`.

Where the balls are too wide to decide, the computation is repeated with twice the bits.

On a reduced basis the machine is on the vectors that double precision can distinguish, in exact arithmetic, as for its
certificate (:mod:`~substrate.reduced.solution`). Its coefficients are free, and the penalty is
:math:`\tfrac{\lambda}{2} \beta^T K_{SS} \beta`. It has one exact optimum, with Z the kernel values of the rows, columns
that are not penalised last,

.. math:: H \beta^\star = Z^T V (y - \bar y), \qquad H = \lambda K_{SS} + Z^T V (Z - 1 \bar z^T), \qquad
          f^\star = \bar y + (Z - 1 \bar z^T) \beta^\star ,

which is enclosed, row by row, and compared with what ``predict`` returned.

Least squares on some columns of the LS-SVM's system is bounded as in :mod:`substrate.least_squares.column_reduction`.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.balls import Balls
from substrate.certificates import Tolerance
from substrate.errors import DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.kernels.derivatives import Orders, differentiate_formula
from substrate.least_squares.answer import Expansion, bound_expansion
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.column_reduction import ColumnMachine
from substrate.proof import Proof, above, ball, balls, flint, formula_of, precision

__all__ = [
    "ball_derivatives",
    "ball_matrix",
    "points_of",
    "prove_bound",
    "prove_expansion",
    "prove_kept_columns",
    "prove_reduced",
]

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
    twice = ([c for c, order in orders.items() for _ in range(order)] for orders in (left, right))
    try:
        values = differentiate_formula(kernel.exact_formula(Balls.exact, len(x)), x, z, *twice)
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
