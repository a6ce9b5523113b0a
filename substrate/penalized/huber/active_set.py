r"""The Huber LS-SVM by an active set: the set of linear rows, and one saddle system for the others.

.. math:: \min_{w, b} \; \tfrac12 w^T w + \gamma \sum_i v_i h_\delta(y_i - w^T \varphi(x_i) - b)

Let L be the rows with :math:`|e_i| > \delta`, whose support values are known, :math:`\alpha_i = \pm\gamma v_i \delta`,
and Q the others. Given L, the minimum is that of a quadratic,

.. math::

    \begin{bmatrix} 0 & 1^T \\ 1 & K_{QQ} + D_Q \end{bmatrix} \begin{bmatrix} b \\ \alpha_Q \end{bmatrix} =
    \begin{bmatrix} -1^T \alpha_L \\ y_Q - K_{QL} \alpha_L \end{bmatrix}, \qquad
    D = \operatorname{diag}\!\left(\frac{1}{\gamma v_i}\right),

and where its errors have the same L, it is the global minimum. Otherwise the objective, convex, differentiable and
quadratic in pieces, is minimised exactly on the line to it (its slope is monotone and linear in pieces), L is
determined from the errors at that point, and the step repeated, from the LS-SVM on: Newton's method with exact line
searches, which ends after finitely many steps since the objective falls in finitely many pieces [Madsen1990]_.

Where :math:`\delta` is small against the errors nearly all rows are linear, the pieces are small, and there may be very
many of them. The number of steps is therefore limited; where they do not lead to a point that passes its certificate,
the dual is solved by an interior-point method, the rows that it finds at their bounds are taken as L, and the system is
solved for them, a few times if necessary. The solution is the point with the smallest violation of its certificate: at
most :data:`MOST_SYSTEMS` systems are solved, and ``settled`` states whether it holds. The dual is

.. math::

    \min_\alpha \; \tfrac12 \alpha^T (K + D) \alpha - t^T \alpha
    \quad \text{s.t.} \quad 1^T \alpha = 0, \quad -u \le \alpha \le u, \qquad u_i = \gamma v_i \delta = \delta / D_{ii}

With multipliers z and w of the two bounds, :math:`z - w = t - (K + D) \alpha - b 1`, the products
:math:`z_i (u_i - \alpha_i)` and :math:`w_i (u_i + \alpha_i)` are driven to zero together, for a decreasing common
target :math:`\mu`, by Newton's method:

.. math::

    \begin{bmatrix} 0 & 1^T \\ 1 & K + D + \Sigma \end{bmatrix}
    \begin{bmatrix} \Delta b \\ \Delta \alpha \end{bmatrix} =
    \begin{bmatrix} -1^T \alpha \\ t - (K + D) \alpha - b 1 - \mu (p^{-1} - q^{-1}) \end{bmatrix}, \qquad
    \Sigma = \operatorname{diag}\!\left(\frac{z_i}{p_i} + \frac{w_i}{q_i}\right), \quad p = u - \alpha, \quad
    q = u + \alpha ,

the saddle system of the LS-SVM with a larger diagonal. The initial point is feasible for both problems and has
products within a factor 2 of each other. Path-following methods need at most of the order :math:`N \log(1/\epsilon)`
steps to a share :math:`\epsilon` of the first gap, however the data are scaled ([Wright1997]_ chapter 5). The steps
here are longer than those of the theorem, so their number is bounded by ``MOST_INNER_STEPS``; a point that is not
accurate enough by then fails its certificate.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rows import gap_row, roundoff
from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.ingredients.huber_errors import huber_loss, huber_rows
from substrate.ingredients.zero_sum import zero_sum_row
from substrate.least_squares.saddle_system import solve_saddle_system, target_unit
from substrate.penalized.clipped_slope import find_root

__all__ = ["MOST_SYSTEMS", "HuberSolution", "huber_solution_rows", "solve_huber"]

#: Largest number of systems of the interior-point method.
MOST_INNER_STEPS = 60
#: Share of the products that the next step aims at: after a long step, and after a short one.
_BOLD, _SHY = 0.1, 0.5
#: Length of a step as a share of the distance to the nearest bound.
_SHORT_OF_IT = 0.995
#: Share of the initial products at which the iteration stops, and length of a step below which it stops.
_NOTHING, _NOWHERE = 1e-18, 1e-6
#: Number of systems solved from the LS-SVM, which is the first, and after the interior-point method.
_FEW_STEPS, _LAST_STEPS = 25, 14
#: Share of its bound by which the support value of a linear row may differ from it.
_AT_BOUND = 1e-6
#: Largest number of systems solved, for any data.
MOST_SYSTEMS = 1 + _FEW_STEPS + MOST_INNER_STEPS + _LAST_STEPS


@dataclass(frozen=True, slots=True)
class HuberSolution:
    """Support values and bias, K alpha, the sign of every linear row (zero for the others), and the systems solved.

    ``settled`` is whether its certificate holds. It may not for a matrix that is not positive semi-definite, and where
    K + D is numerically singular.
    """

    support_values: Array
    bias: float
    products: Array
    signs: NDArray[np.int8]
    steps: int
    settled: bool


@dataclass(frozen=True, slots=True)
class _HuberPoint:
    """Coefficients, bias and K times the coefficients."""

    a: Array
    b: float
    products: Array


def solve_huber(gram: Gram, y: Array, ridge: Array, delta: float) -> HuberSolution:
    """Solve for one target; ``ridge`` is the diagonal 1/(gamma v), ``delta`` in the units of y."""
    unit = target_unit(y)
    shift = float(np.median(y)) / unit  # the bias absorbs a constant, and an offset then costs no digits
    t, d = y / unit - shift, delta / unit

    def misfit(point: _HuberPoint) -> float:
        """Return the largest ratio of a row of the certificate to its tolerance; at most 1 where it holds."""
        a, b, products = unit * point.a, unit * (point.b + shift), unit * point.products
        rows = huber_solution_rows(products, gram.diagonal, y, ridge, delta, a, b)
        return max(row.relative / row.tolerance for row in rows)

    point, reached, steps = _descend(gram, t, ridge, d)
    best = misfit(point)
    if not (reached and best <= 1.0):
        candidates, taken = _from_inside(gram, t, ridge, d)
        steps += taken
        for candidate in candidates:
            if (misfit_found := misfit(candidate)) < best or not np.isfinite(best):
                point, best = candidate, misfit_found
    # where delta is below the rounding of the errors, alpha determines the linear rows more reliably
    at_bound = np.abs(ridge * point.a) >= (1.0 - _AT_BOUND) * d
    signs = np.where(at_bound, _linear_rows(t - point.products - point.b, d), 0).astype(np.int8)
    return HuberSolution(
        support_values=unit * point.a,
        bias=unit * (point.b + shift),
        products=unit * point.products,
        signs=signs,
        steps=steps,
        settled=bool(best <= 1.0),
    )


def _from_inside(gram: Gram, t: Array, ridge: Array, d: float) -> tuple[list[_HuberPoint], int]:
    """Return points that may solve the problem, from the interior-point method and the rows it finds linear."""
    inner, signs, systems = _inner_point(gram, t, ridge, d)
    candidates, visited = [inner, _best_bias(inner, t, ridge, d)], set()
    for step in range(_LAST_STEPS):
        if signs.tobytes() in visited:
            return candidates, systems + step
        visited.add(signs.tobytes())
        try:
            point = _given_linear_rows(gram, t, ridge, d, signs, inner.b)
        except SolverError:  # numerically singular
            return candidates, systems + step + 1
        candidates.append(point if (signs == 0).any() else _best_bias(point, t, ridge, d))
        signs = _linear_rows(_errors(candidates[-1], t, ridge, signs), d)
    return candidates, systems + _LAST_STEPS


def _inner_point(gram: Gram, t: Array, ridge: Array, d: float) -> tuple[_HuberPoint, NDArray[np.int8], int]:
    """Return a point of the interior-point method, the sign of every row at a bound, and the number of systems
    solved.
    """
    u = d / ridge
    a, b, p, q = np.zeros(t.size), 0.0, u.copy(), u.copy()
    even = float((u * np.abs(t)).max()) or float(u.max())
    z, w = np.maximum(t, 0.0) + even / u, np.maximum(-t, 0.0) + even / u
    share, first, steps = _BOLD, _mean_product(p, z, q, w), 0
    while steps < MOST_INNER_STEPS and _mean_product(p, z, q, w) > _NOTHING * first:
        target = share * _mean_product(p, z, q, w)
        residual = t - gram.product(a) - ridge * a - b - target / p + target / q
        steps += 1
        try:
            solved = solve_saddle_system(gram, residual, ridge + z / p + w / q, -float(a.sum()))
        except SolverError:  # numerically singular: the present point is as good as rounding allows
            break
        finally:
            gram.release()
        move = solved.support_values
        move_z, move_w = target / p - z + z / p * move, target / q - w - w / q * move
        values, moves = np.concatenate([p, q, z, w]), np.concatenate([-move, move, move_z, move_w])
        falling = moves < 0.0  # all values stay positive
        length = min(1.0, _SHORT_OF_IT * float((values[falling] / -moves[falling]).min(initial=np.inf)))
        if not np.isfinite(moves).all() or length < _NOWHERE:
            break
        a, b = a + length * move, b + length * float(solved.bias)
        p, q, z, w = np.split(values + length * moves, 4)
        share = _BOLD if length > 0.9 else _SHY
    # at a bound the slack goes to zero and its multiplier does not; in between it is the reverse
    size = float(np.abs(t).max()) + d
    signs = np.where(p / u < z / size, 1, np.where(q / u < w / size, -1, 0)).astype(np.int8)
    a = np.clip(a, -u, u)
    return _HuberPoint(a, b, gram.product(a)), signs, steps


def _mean_product(p: Array, z: Array, q: Array, w: Array) -> float:
    return float(p @ z + q @ w) / (2 * p.size)


def _plain(gram: Gram, t: Array, ridge: Array) -> _HuberPoint:
    """Return the LS-SVM: no row is linear."""
    solved = solve_saddle_system(gram, t, ridge)
    gram.release()
    return _HuberPoint(solved.support_values, float(solved.bias), solved.products)


def _descend(gram: Gram, t: Array, ridge: Array, d: float) -> tuple[_HuberPoint, bool, int]:
    """Return the minimum or the last point, whether it is the minimum, and the number of systems including the
    LS-SVM's.
    """
    plain = point = _plain(gram, t, ridge)
    noise = roundoff(t.size) * (float(np.abs(t).max(initial=0.0)) + float(np.abs(point.products).max()) + d)
    systems = 1
    for _ in range(_FEW_STEPS):
        point = _best_bias(point, t, ridge, d)
        signs = _linear_rows(t - point.products - point.b, d)
        end = _given_linear_rows(gram, t, ridge, d, signs, point.b) if signs.any() else plain
        systems += int(signs.any())
        candidate = end if (signs == 0).any() else _best_bias(end, t, ridge, d)
        errors = _errors(candidate, t, ridge, signs)
        has_changed = _linear_rows(errors, d) != signs
        # the error of a linear row is known up to the rounding of t, the others up to that of their alpha
        noise_of_rows = np.where(signs == 0, roundoff(t.size) * d, noise)
        if not has_changed.any() or bool((np.abs(np.abs(errors[has_changed]) - d) <= noise_of_rows[has_changed]).all()):
            return candidate, True, systems
        point = _search_line(point, end, t, ridge, d)
    return point, False, systems


def _errors(point: _HuberPoint, t: Array, ridge: Array, signs: NDArray[np.int8]) -> Array:
    """Return the errors, those of linear rows by definition; the others by alpha, more accurate than a difference of
    large numbers.
    """
    return np.where(signs == 0, ridge * point.a, t - point.products - point.b)


def _linear_rows(errors: Array, d: float) -> NDArray[np.int8]:
    return np.where(np.abs(errors) > d, np.sign(errors), 0.0).astype(np.int8)


def _given_linear_rows(
    gram: Gram, t: Array, ridge: Array, d: float, signs: NDArray[np.int8], bias: float
) -> _HuberPoint:
    """Return the minimum of the objective as a quadratic, where these rows are linear with these signs.

    Where all are, it is linear in b, which is then left unchanged.
    """
    a = signs * d / ridge
    (rows,) = np.nonzero(signs == 0)
    if rows.size == 0:
        return _HuberPoint(a, bias, gram.product(a))
    if rows.size == t.size:
        return _plain(gram, t, ridge)
    pull = gram.product(a)[rows]
    solved = solve_saddle_system(gram.restrict(rows), t[rows] - pull, ridge[rows], -float(a.sum()))
    a[rows] = solved.support_values
    return _HuberPoint(a, float(solved.bias), gram.product(a))


def _best_bias(point: _HuberPoint, t: Array, ridge: Array, d: float) -> _HuberPoint:
    """Return the same coefficients with the bias of the smallest cost."""
    e = t - point.products - point.b
    return _HuberPoint(point.a, point.b + find_root(e, np.ones(t.size), 1.0 / ridge, (-d, d), 0.0, 0.0), point.products)


def _search_line(start: _HuberPoint, end: _HuberPoint, t: Array, ridge: Array, d: float) -> _HuberPoint:
    """Return the minimum of the objective on the line through both points."""
    a, b, products = end.a - start.a, end.b - start.b, end.products - start.products
    e = t - start.products - start.b
    share = find_root(e, products + b, 1.0 / ridge, (-d, d), float(start.a @ products), float(a @ products))
    return _HuberPoint(start.a + share * a, start.b + share * b, start.products + share * products)


def huber_solution_rows(
    products: Array, diagonal: Array, y: Array, ridge: Array, delta: float, support_values: Array, bias: float
) -> tuple[Row, ...]:
    """Return the conditions for optimality and the duality gap, in units of the target; ``products`` is K alpha."""
    unit = target_unit(y)
    p, t, alpha, b, d = products / unit, y / unit, support_values / unit, bias / unit, delta / unit
    tolerance, e = roundoff(y.size), t - p - b
    norm_alpha = float(np.linalg.norm(alpha))
    # as for the saddle system: the size of the terms added up, with a lower bound of ||K||
    norm_k = max(float(np.linalg.norm(p)) / norm_alpha if norm_alpha > 0.0 else 0.0, float(diagonal.max()))
    scale = (norm_k + float(ridge.max())) * norm_alpha + float(np.sqrt(y.size)) * abs(b) + float(np.linalg.norm(t))
    norm_squared = float(alpha @ p)
    gap = gap_row(
        primal=(0.5 * norm_squared, float(huber_loss(e, d) @ (1.0 / ridge))),
        dual=(float(t @ alpha), -0.5 * norm_squared, -0.5 * float(alpha @ (ridge * alpha))),
        tolerance=tolerance,
        data=scale * norm_alpha,
    )
    return (*huber_rows(alpha, 1.0 / ridge, e, d, tolerance, t, scale, d), zero_sum_row(alpha, tolerance), gap)
