r"""The 2-norm SVM by an active set: an LS-SVM on its support rows.

.. math:: \min_{w, b} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i \max(0, 1 - y_i f(x_i))^2, \qquad
          f(x) = w^T \varphi(x) + b, \quad y_i = \pm 1

Where the rows S with :math:`y_i f(x_i) < 1` are known, the others have no part in the objective, and the minimum is the
LS-SVM of the labels on S,

.. math::

    \begin{bmatrix} 0 & 1^T \\ 1 & K_{SS} + D_S \end{bmatrix} \begin{bmatrix} b \\ a_S \end{bmatrix} =
    \begin{bmatrix} 0 \\ y_S \end{bmatrix}, \qquad a_i = y_i \alpha_i, \quad D = \operatorname{diag}(1/(\gamma v)),

which is where [Cawley2004]_ section 4 takes the leave-one-out formula of the LS-SVM over to this machine. From the
LS-SVM on all rows on, the minimum of the quadratic for the present S is found, the objective, convex, differentiable
and quadratic in pieces, is minimised exactly on the line to it, and S is determined anew: Newton's method with exact
line searches ([Keerthi2005]_, [Chapelle2007]_), which ends after finitely many steps since the objective falls in
finitely many pieces. Rows that rounding cannot tell from :math:`y_i f(x_i) = 1` do not keep it from ending.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rows import gap_row, roundoff
from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.ingredients.zero_sum import zero_sum_row
from substrate.least_squares.saddle_system import solve_saddle_system
from substrate.penalized.clipped_slope import find_root

__all__ = ["MOST_SYSTEMS", "HingeSolution", "hinge_rows", "solve_squared_hinge"]

#: Largest number of systems solved.
MOST_SYSTEMS = 100
#: A share of the way to the minimum of a quadratic that is one, up to rounding.
_WHOLE_STEP = 1e-12

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HingeSolution:
    """Coefficients a = y alpha and bias, K a, the support rows, the systems solved, and whether the set has settled."""

    coefficients: Array
    bias: float
    products: Array
    active: Mask
    steps: int
    settled: bool


@dataclass(frozen=True, slots=True)
class _HingePoint:
    """Coefficients, bias and K times the coefficients."""

    a: Array
    b: float
    products: Array

    def towards(self, other: "_HingePoint", share: float) -> "_HingePoint":
        """Return the point at a share of the way to another."""
        a, b, products = other.a - self.a, other.b - self.b, other.products - self.products
        return _HingePoint(self.a + share * a, self.b + share * b, self.products + share * products)


def solve_squared_hinge(gram: Gram, y: Array, ridge: Array, start: Mask | None = None) -> HingeSolution:
    """Solve for labels -1 and +1; ``ridge`` is the diagonal 1/(gamma v), ``start`` a set of rows to begin with.

    :place [Cawley2004]_ section 4: the 2-norm SVM as an LS-SVM on its support rows
    """
    active = np.ones(y.size, dtype=bool) if start is None else start
    point = _on_rows(gram, y, ridge, active, 0.0)
    slack = _slack(point, y, ridge, active)
    best, least, systems = point, np.inf, 1
    while systems < MOST_SYSTEMS:
        is_first = systems == 1 and np.array_equal(slack > 0.0, active)
        active = slack > 0.0
        end = point if is_first else _on_rows(gram, y, ridge, active, point.b)
        systems += int(not is_first)
        slack = _slack(end, y, ridge, active)
        changed = (slack > 0.0) != active
        noise = roundoff(y.size) * (1.0 + float(np.abs(end.products).max(initial=0.0)) + abs(end.b))
        misfit = float(np.abs(slack[changed]).max(initial=0.0))
        if misfit < least:
            best, least = end, misfit
        if misfit <= noise:
            return _conclude(gram, y, ridge, end, active & (slack > 0.0), systems, True)
        share = _search_line(point, end, y, ridge)
        if share == 0.0:
            break
        if abs(share - 1.0) > _WHOLE_STEP:  # at the end of the step the slack is known more accurately
            point = point.towards(end, share)
            slack = 1.0 - y * (point.products + point.b)
        else:
            point = end
    slack = 1.0 - y * (best.products + best.b)
    return _conclude(gram, y, ridge, best, (slack > 0.0) & (y * best.a > 0.0), systems, False)


def _conclude(
    gram: Gram, y: Array, ridge: Array, point: _HingePoint, active: Mask, systems: int, settled: bool
) -> HingeSolution:
    """Return the solution, with exact zeros outside of its support."""
    a = np.where(active, point.a, 0.0)
    products = point.products if np.array_equal(a, point.a) else gram.product(a)
    return HingeSolution(coefficients=a, bias=point.b, products=products, active=active, steps=systems, settled=settled)


def _on_rows(gram: Gram, y: Array, ridge: Array, active: Mask, bias: float) -> _HingePoint:
    """Return the LS-SVM on some of the rows; without any the norm alone is left, and b stays."""
    a = np.zeros(y.size)
    (rows,) = np.nonzero(active)
    if rows.size == 0:
        return _HingePoint(a, bias, np.zeros(y.size))
    try:
        solved = solve_saddle_system(gram if rows.size == y.size else gram.restrict(rows), y[rows], ridge[rows])
    finally:
        gram.release()
    a[rows] = solved.support_values
    if not np.isfinite(a).all():
        raise SolverError("the system of the support rows has no finite solution; use a smaller gamma")
    return _HingePoint(a, float(solved.bias), gram.product(a))


def _slack(point: _HingePoint, y: Array, ridge: Array, active: Mask) -> Array:
    """Return 1 - y f; of a support row of this LS-SVM by its coefficient, more accurate than a difference."""
    return np.where(active, ridge * y * point.a, 1.0 - y * (point.products + point.b))


def _search_line(start: _HingePoint, end: _HingePoint, y: Array, ridge: Array) -> float:
    """Return where the objective is smallest on the line through both points: 0 at the first, 1 at the second."""
    a, b, products = end.a - start.a, end.b - start.b, end.products - start.products
    slack, move = 1.0 - y * (start.products + start.b), y * (products + b)
    return find_root(slack, move, 1.0 / ridge, (0.0, np.inf), float(start.a @ products), float(a @ products))


def hinge_rows(products: Array, diagonal: Array, y: Array, ridge: Array, a: Array, bias: float) -> tuple[Row, ...]:
    """Return the conditions for optimality and the duality gap; ``products`` is K a."""
    tolerance, alpha, slack = roundoff(y.size), y * a, 1.0 - y * (products + bias)
    size = float(np.linalg.norm(a))
    norm_k = max(float(np.linalg.norm(products)) / size if size > 0.0 else 0.0, float(diagonal.max()))
    root = float(np.sqrt(y.size))
    scale = (norm_k + float(ridge.max(where=alpha > 0.0, initial=0.0))) * size + root * (abs(bias) + 1.0)
    # in units of the margin: a row of weight 1e-30 has a support value that no error shows
    error = np.where(alpha > 0.0, ridge * alpha - slack, np.maximum(slack, 0.0))
    norm_squared, pulls = float(a @ products), 1.0 / ridge
    gap = gap_row(
        primal=(0.5 * norm_squared, 0.5 * float(pulls @ np.square(np.maximum(slack, 0.0)))),
        dual=(float(alpha.sum()), -0.5 * norm_squared, -0.5 * float(alpha @ (ridge * alpha))),
        tolerance=tolerance,
        data=scale * size,
    )
    return (
        Row(
            name="slack of the margin",
            value=float(np.linalg.norm(error)),
            scale=scale,
            tolerance=tolerance,
            formula="||alpha/(gamma v) - max(0, 1 - y f)||",
        ),
        Row(
            name="alpha >= 0",
            value=float(np.maximum(-alpha, 0.0).max()),
            scale=float(np.abs(alpha).max()),
            tolerance=tolerance,
            formula="max(-alpha)",
        ),
        zero_sum_row(a, tolerance, letter="y"),
        gap,
    )
