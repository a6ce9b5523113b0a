r"""The largest error as the loss of a machine, solved and bounded as losses of single rows are.

.. math:: \min_{w, b} \; p\, w^T w + C \max_i |e_i|, \qquad e_i = s_i f_i + c_i .

The conjugate is finite for :math:`g_i = s_i u_i` with :math:`\sum_i |u_i| \le C`, and the inequality of Fenchel and
Young is a sum of terms that are not negative: with :math:`M = \max_i |e_i|`,

.. math:: C M - u^T e = \sum_i |u_i| (M - \operatorname{sign}(u_i)\, e_i) + (C - \|u\|_1)\, M .

The optimum has few rows with :math:`|e_i| = M`. An interior-point method [Mehrotra1992]_ in the multipliers
:math:`\beta^\pm` of :math:`M \mp e_i \ge 0` finds them, and a linear system in these rows, b and M makes it exact.
"""

import math
import time
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.row_reader import ReadLosses, affine_entries
from substrate.errors import SolverError
from substrate.fits.definite_factor import factor_definite, solve_factored
from substrate.fits.row_newton import GramRows, RowPoint
from substrate.losses import RowLoss

__all__ = ["LargestLoss", "read_largest_loss", "solve_largest"]

_STEPS, _ROUNDS = 40, 12
#: Relative gap at which the interior-point iteration ends, and the share of the way to the boundary of its steps.
_CENTRAL, _SHARE = 1e-8, 0.99
_FAILED = "the rows with the largest error were not found"


@dataclass(frozen=True)
class LargestLoss(RowLoss):
    r"""The loss :math:`C \max |e|` with e = ``factor`` f + ``offset``: its bound is a sum over the rows, too."""

    weight: float
    factor: Array
    offset: Array
    has_kinks = True

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return int(self.factor.size)

    @property
    def centre(self) -> Array:
        """Return the values without an error."""
        return np.asarray(-self.offset / self.factor)

    def errors(self, f: Array) -> Array:
        """Return e."""
        return np.asarray(self.factor * f + self.offset)

    def values(self, f: Array) -> Array:
        """Return the loss in the first entry of an array of all rows."""
        values = np.zeros(self.n)
        values[0] = self.weight * float(np.abs(self.errors(f)).max())
        return values

    def slopes(self, f: Array, right: bool = True) -> Array:
        """Return a subgradient: that of the row with the largest error."""
        e, slopes = self.errors(f), np.zeros(self.n)
        row = int(np.argmax(np.abs(e)))
        slopes[row] = self.weight * self.factor[row] * np.sign(e[row])
        return slopes

    def curvatures(self, f: Array) -> Array:
        """Return zeros."""
        return np.zeros(self.n)

    def slope_range(self) -> tuple[Array, Array]:
        """Return the range of every row alone."""
        return -self.weight * np.abs(self.factor), self.weight * np.abs(self.factor)

    def limit_slopes(self, g: Array) -> Array:
        """Return slopes whose sizes sum to less than C."""
        total = math.fsum(np.abs(g / self.factor).tolist())
        room = 1.0 - relative_rounding(16.0 * self.n)
        return np.asarray(g * min(room * self.weight / total, 1.0) if total > 0.0 else g)

    def enclose_slopes(self, f: Any, right: bool) -> Any:
        """Return slopes of which nothing is known."""
        return type(f).about(np.zeros(self.n), np.full(self.n, np.inf))

    def enclose_values(self, g: Any) -> tuple[Any, Any, Array, Array]:
        """Return ends of which none is finite: single rows are not confined."""
        nowhere = type(g).exact(np.zeros(self.n))
        return nowhere, nowhere, np.zeros(self.n, dtype=bool), np.zeros(self.n, dtype=bool)

    def reach(self, g: Array, gap: float) -> Array:
        """Return infinity: single rows are not confined."""
        return np.full(self.n, np.inf)

    def fenchel_young(self, f: Any, g: Any) -> Any:
        """Bound the terms of loss + conjugate - f'g; infinite unless the sizes of g surely sum to C at most."""
        numbers = type(g)
        u, e = g / numbers.exact(self.factor), f * self.factor + self.offset
        largest = numbers.exact(np.full(self.n, abs(e).upper_ends().midpoint.max()))
        sides = np.where(np.asarray(u.midpoint) < 0.0, -1.0, 1.0)
        left = numbers.exact(self.weight) - abs(u).sum()
        first = left.positive_part() * float(largest.midpoint[0])
        if not numbers.exact(0.0).is_below(left):
            return numbers.about(np.zeros(self.n), np.full(self.n, np.inf))
        return abs(u) * (largest - e * sides).positive_part() + first.place(np.array([0]), self.n)

    def tension(self, f: Array, g: Array, size: float) -> float:
        """Return the largest share by which a row with a multiplier is below the largest error, or C is not used."""
        u, e = g / self.factor, self.errors(f)
        largest = float(np.abs(e).max())
        total = float(np.abs(u).sum())
        shares = np.abs(u) / (total or 1.0) * (largest - np.sign(u) * e) / (largest + size or 1.0)
        used = abs(self.weight - total) / self.weight if largest > 0.0 else 0.0
        return max(float(shares.max()), used)


def read_largest_loss(objective: Any, leaf: Any, norm: Any, ridge: float = 0.0) -> ReadLosses | None:
    """Return the weight of w'w and the loss; None where the objective has anything else in it."""
    weight, constant, found = ridge, 0.0, None
    for factor, term in _terms(objective, 1.0):
        if term.is_constant():
            constant += factor * float(term.value)
        elif term is norm:
            weight += factor
        elif found is None and _is_largest(term) and factor > 0.0:
            inner = term.args[0]
            entries = affine_entries(inner.args[0] if isinstance(inner, cp.abs) else inner, leaf)
            if entries is None or (entries[0] == 0.0).any():
                return None
            found = factor, entries
        else:
            return None
    if found is None or not weight > 0.0:
        return None
    return ReadLosses(weight, LargestLoss(weight=found[0], factor=found[1][0], offset=found[1][1]), constant)


def _is_largest(term: Any) -> bool:
    if isinstance(term, cp.norm_inf):
        return term.axis is None
    return isinstance(term, cp.max) and term.axis is None and isinstance(term.args[0], cp.abs)


def _terms(expression: Any, factor: float) -> list[tuple[float, Any]]:
    if isinstance(expression, AddExpression):
        return [pair for argument in expression.args for pair in _terms(argument, factor)]
    if isinstance(expression, cp.multiply) and all(argument.is_scalar() for argument in expression.args):
        left, right = expression.args
        constant, other = (left, right) if left.is_constant() else (right, left)
        if constant.is_constant() and not other.is_constant():
            return _terms(other, factor * float(constant.value))
    return [(factor, expression)]


def solve_largest(space: GramRows, loss: LargestLoss, spread: float, deadline: float | None = None) -> RowPoint:
    """Return a point, to the accuracy that rounding allows; TimeoutError is raised beyond the deadline."""
    with np.errstate(all="ignore"):
        try:
            return _meet(space, loss, *_interior(space, loss, spread, deadline))
        except (np.linalg.LinAlgError, ZeroDivisionError) as error:
            raise SolverError(f"the linear systems of the largest errors are singular ({error})") from error


def _interior(space: GramRows, loss: LargestLoss, spread: float, deadline: float | None) -> tuple[Array, Array]:
    """Return the multipliers and the slacks of M - e and M + e, two rows each, near the optimum."""
    K, p, bias = space.K, 0.5 * space.lam, space.Z.shape[1] > 0
    n, s = loss.n, loss.factor
    a, f = np.zeros(n), np.full(n, -float(np.mean(loss.offset / s)) if bias else 0.0)
    e = loss.errors(f)
    signs = np.array([[1.0], [-1.0]])
    largest = float(np.abs(e).max()) + spread
    slack = largest - signs * e
    beta = np.full((2, n), loss.weight / (2.0 * n))
    for _ in range(_STEPS):
        if deadline is not None and time.monotonic() > deadline:
            raise TimeoutError
        products = beta * slack
        gap = float(products.sum())
        if gap <= _CENTRAL * (p * float(a @ (K @ a)) + loss.weight * largest):
            return beta, slack
        ratio = beta / slack
        D, E = s * s * ratio.sum(axis=0), s * (ratio[0] - ratio[1])
        system = np.array(K, order="F")
        system[np.arange(n), np.arange(n)] += 2.0 * p / D
        factor = factor_definite(system)
        ones, tilt = (solve_factored(factor, column) for column in (np.ones(n), E / D))
        g = s * (beta[0] - beta[1])
        wanted = -products
        for is_last in (False, True):
            moved = wanted / slack
            right = f - (g + s * (moved[0] - moved[1])) / D
            plain = solve_factored(factor, right)
            # 1'a = 0 and sum beta = C, in b and the change of M
            lack = loss.weight - float(beta.sum()) - float(moved.sum())
            through = 2.0 * p * E / D
            rows = [
                [-float(ones.sum()), float(tilt.sum())],
                [float(through @ ones), float(E @ (E / D)) - float(through @ tilt) - float(ratio.sum())],
            ]
            known = [-float(plain.sum()), lack - float(E @ (right - f)) + float(through @ plain)]
            if bias:
                b, rise = np.linalg.solve(np.array(rows), np.array(known))
            else:
                b, rise = 0.0, known[1] / rows[1][1]
            new_a = plain - b * ones + rise * tilt
            df = right + (E / D) * rise - (2.0 * p / D) * new_a - f
            d_slack = rise - signs * (s * df)
            d_beta = (wanted - beta * d_slack) / slack
            fall = max(-float((d_slack / slack).min()), -float((d_beta / beta).min()))
            length = min(_SHARE / fall if fall > 0.0 else 1.0, 1.0)
            if not is_last:
                after = float(((slack + length * d_slack) * (beta + length * d_beta)).sum())
                target = gap / (2.0 * n) * min(max(after / gap, 0.0), 1.0) ** 3
                wanted = target - products - d_slack * d_beta
        a, f = a + length * (new_a - a), f + length * df
        slack, beta, largest = slack + length * d_slack, beta + length * d_beta, largest + length * rise
    raise SolverError(_FAILED)


def _meet(space: GramRows, loss: LargestLoss, beta: Array, slack: Array) -> RowPoint:
    """Return the point at which the rows that are active have the largest error, exactly."""
    K, p, bias = space.K, 0.5 * space.lam, space.Z.shape[1] > 0
    s = loss.factor
    signs = np.where(beta[0] >= beta[1], 1.0, -1.0)
    active = (beta > slack).any(axis=0)
    for _ in range(_ROUNDS):
        rows = np.flatnonzero(active)
        if rows.size < 1 + bias:
            break
        k, tilt = rows.size, signs[rows] / s[rows]
        system = np.zeros((k + 2, k + 2))
        system[:k, :k] = K[np.ix_(rows, rows)]
        system[:k, k] = system[k, :k] = 1.0 if bias else 0.0
        system[:k, k + 1] = system[k + 1, :k] = -tilt
        if not bias:
            system[k, k] = 1.0
        right = np.concatenate([-loss.offset[rows] / s[rows], [0.0, loss.weight / (2.0 * p)]])
        solution = np.linalg.solve(system, right)
        a = np.zeros(loss.n)
        a[rows], b, largest = solution[:k], float(solution[k]), float(solution[k + 1])
        f = K @ a + b
        e, u = loss.errors(f), -2.0 * p * a / s
        wrong = active & (u * signs < -1e-12 * loss.weight)
        beyond = ~active & (np.abs(e) > largest * (1.0 + 1e-12))
        if not (wrong.any() or beyond.any()):
            if not (np.isfinite(f).all() and largest >= 0.0):
                break
            return RowPoint(a, np.full(int(bias), b), -2.0 * p * a, f, 0)
        signs = np.where(beyond, np.sign(e), signs)
        active = (active & ~wrong) | beyond
    raise SolverError(_FAILED)
