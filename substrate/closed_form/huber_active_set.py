r"""The Huber LS-SVM by an active set: which rows are linear, and one saddle system for those that are not.

.. math:: \min_{w, b} \; \tfrac12 w^T w + \gamma \sum_i v_i h_\delta(y_i - w^T \varphi(x_i) - b)

Let L be the rows with :math:`|e_i| > \delta`, whose support values are known, :math:`\alpha_i = \pm\gamma v_i \delta`,
and Q the others. Given L, the minimum is that of a quadratic,

.. math::

    \begin{bmatrix} 0 & 1^T \\ 1 & K_{QQ} + D_Q \end{bmatrix} \begin{bmatrix} b \\ \alpha_Q \end{bmatrix} =
    \begin{bmatrix} -1^T \alpha_L \\ y_Q - K_{QL} \alpha_L \end{bmatrix}, \qquad
    D = \operatorname{diag}\!\left(\frac{1}{\gamma v_i}\right),

and where its errors have the same L, it is the minimum of all. Otherwise the objective, convex, differentiable and
quadratic in pieces, is minimised exactly on the way there (its slope is monotone and linear in pieces), L is read off
the errors at that point, and the step repeated: Newton's method with exact line searches, which ends after finitely
many steps since the objective falls and there are finitely many pieces [Madsen1990]_. The LS-SVM is the first point.

Where :math:`\delta` is small against the errors nearly all rows are linear and the pieces are small. If the steps from
the LS-SVM do not soon settle, a larger :math:`\delta` comes first, with the bound :math:`\gamma \delta` as it is, and
leads in stages to the one asked for.
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.duality import gap_row
from substrate.certificates.rows import roundoff
from substrate.closed_form.saddle_system import solve_saddle_system, target_unit
from substrate.gram import Gram
from substrate.ingredients.huber_errors import huber_loss, huber_rows
from substrate.ingredients.zero_sum import zero_sum_row

__all__ = ["HuberSolution", "huber_solution_rows", "solve_huber"]

#: Systems that are solved straight from the LS-SVM before it is done in stages, and at each stage.
_FEW_STEPS, _MOST_STEPS = 25, 100
#: Between one stage and the next, delta falls and gamma grows by this factor.
_COARSER = 4.0


@dataclass(frozen=True, slots=True)
class HuberSolution:
    """Support values and bias, K alpha, the sign of every linear row (zero for the others), and the systems solved.

    ``settled`` is False where the set of linear rows did not settle, as may be for a matrix that is not positive
    semi-definite: then this is no solution, and its certificate does not hold.
    """

    support_values: Array
    bias: float
    products: Array
    signs: NDArray[np.int8]
    steps: int
    settled: bool


@dataclass(frozen=True, slots=True)
class _Point:
    """Coefficients, bias and K times the coefficients."""

    a: Array
    b: float
    products: Array


def solve_huber(gram: Gram, y: Array, ridge: Array, delta: float) -> HuberSolution:
    """Solve for one target; ``ridge`` is the diagonal 1/(gamma v), ``delta`` in the units of y."""
    unit = target_unit(y)
    shift = float(np.median(y)) / unit  # the bias takes a constant up, and an offset then costs no digits
    t, d = y / unit - shift, delta / unit
    point, settled, steps = _descended(gram, t, ridge, d, _plain(gram, t, ridge), _FEW_STEPS)
    stages = int(np.log(max(float(np.median(np.abs(t))), d) / d) / np.log(_COARSER)) + 1
    for stage in range(stages, -1, -1) if not settled else ():
        factor = _COARSER**stage
        start = _plain(gram, t, factor * ridge) if stage == stages else point
        point, settled, taken = _descended(gram, t, factor * ridge, factor * d, start, _MOST_STEPS)
        steps += taken
    signs = _linear_rows(t - point.products - point.b, d)
    return HuberSolution(unit * point.a, unit * (point.b + shift), unit * point.products, signs, steps, settled)


def _plain(gram: Gram, t: Array, ridge: Array) -> _Point:
    """The LS-SVM: no row is linear."""
    solved = solve_saddle_system(gram, t, ridge)
    gram.release()
    return _Point(solved.support_values, float(solved.bias), solved.products)


def _descended(gram: Gram, t: Array, ridge: Array, d: float, point: _Point, most: int) -> tuple[_Point, bool, int]:
    """The minimum from a point, whether it was reached, and the systems it took."""
    noise = roundoff(t.size) * (float(np.abs(t).max(initial=0.0)) + float(np.abs(point.products).max()) + d)
    for step in range(1, most + 1):
        point = _best_bias(point, t, ridge, d)
        signs = _linear_rows(t - point.products - point.b, d)
        end = _given_linear_rows(gram, t, ridge, d, signs, point.b)
        found = end if (signs == 0).any() else _best_bias(end, t, ridge, d)
        errors = t - found.products - found.b
        moved = _linear_rows(errors, d) != signs
        if not moved.any() or float(np.abs(np.abs(errors[moved]) - d).max()) <= noise:
            return found, True, step
        point = _searched(point, end, t, ridge, d)
    return point, False, most


def _linear_rows(errors: Array, d: float) -> NDArray[np.int8]:
    return np.where(np.abs(errors) > d, np.sign(errors), 0.0).astype(np.int8)


def _given_linear_rows(gram: Gram, t: Array, ridge: Array, d: float, signs: NDArray[np.int8], bias: float) -> _Point:
    """The minimum of the quadratic that the objective is where these rows are linear with these signs.

    Where all are, it is linear in b, which then stays as it is.
    """
    a = signs * d / ridge
    (rows,) = np.nonzero(signs == 0)
    if rows.size == 0:
        return _Point(a, bias, gram.product(a))
    if rows.size == t.size:
        return _plain(gram, t, ridge)
    pull = gram.product(a)[rows]
    solved = solve_saddle_system(gram.block(rows), t[rows] - pull, ridge[rows], -float(a.sum()))
    a[rows] = solved.support_values
    return _Point(a, float(solved.bias), gram.product(a))


def _best_bias(point: _Point, t: Array, ridge: Array, d: float) -> _Point:
    """The same coefficients with the bias that costs least."""
    e = t - point.products - point.b
    return _Point(point.a, point.b + _root(e, np.ones(t.size), 1.0 / ridge, d, 0.0, 0.0), point.products)


def _searched(start: _Point, end: _Point, t: Array, ridge: Array, d: float) -> _Point:
    """The minimum of the objective on the line through both points."""
    a, b, products = end.a - start.a, end.b - start.b, end.products - start.products
    e = t - start.products - start.b
    share = _root(e, products + b, 1.0 / ridge, d, float(start.a @ products), float(a @ products))
    return _Point(start.a + share * a, start.b + share * b, start.products + share * products)


def _root(e: Array, move: Array, pulls: Array, d: float, slope: float, curvature: float) -> float:
    """Where slope + curvature s - sum pulls clip(e - s move) move is zero; the middle where it is zero on a stretch.

    It never falls with s, and is linear between the values of s at which a row becomes linear or ceases to be.
    """

    def value(s: float) -> float:
        return slope + curvature * s - float(pulls * np.clip(e - s * move, -d, d) @ move)

    moving = move != 0.0
    knots = np.unique(np.concatenate([(e[moving] - d) / move[moving], (e[moving] + d) / move[moving]]))
    first = bisect_left(range(knots.size), True, key=lambda k: value(float(knots[k])) >= 0.0)
    after = bisect_left(range(knots.size), True, key=lambda k: value(float(knots[k])) > 0.0)
    if first < after:
        return 0.5 * float(knots[first] + knots[after - 1])
    if 0 < first < knots.size:
        left, right = float(knots[first - 1]), float(knots[first])
        low, high = value(left), value(right)
        return left - low * (right - left) / (high - low)
    end = float(knots[0] if first == 0 else knots[-1])  # beyond all knots only the norm of w bends
    return end - value(end) / curvature


def huber_solution_rows(
    products: Array, diagonal: Array, y: Array, ridge: Array, delta: float, support_values: Array, bias: float
) -> tuple[Row, ...]:
    """The conditions for optimality and the duality gap, in units of the target; ``products`` is K alpha."""
    unit = target_unit(y)
    p, t, alpha, b, d = products / unit, y / unit, support_values / unit, bias / unit, delta / unit
    tolerance, e = roundoff(y.size), t - p - b
    norm_alpha = float(np.linalg.norm(alpha))
    # as for the saddle system: the size of what was added up, with ||K|| from below
    norm_k = max(float(np.linalg.norm(p)) / norm_alpha if norm_alpha > 0.0 else 0.0, float(diagonal.max()))
    scale = (norm_k + float(ridge.max())) * norm_alpha + float(np.sqrt(y.size)) * abs(b) + float(np.linalg.norm(t))
    norm_squared = float(alpha @ p)
    gap = gap_row(
        primal=(0.5 * norm_squared, float(huber_loss(e, d) @ (1.0 / ridge))),
        dual=(float(t @ alpha), -0.5 * norm_squared, -0.5 * float(alpha @ (ridge * alpha))),
        tolerance=tolerance,
        data=scale * norm_alpha,
    )
    return (*huber_rows(alpha, 1.0 / ridge, e, d, tolerance, t, scale), zero_sum_row(alpha, tolerance), gap)
