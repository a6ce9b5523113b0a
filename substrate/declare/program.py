r"""A convex problem as a conic program that is affine in parameters: its optimum at any of their values, and a bound.

.. math::

    \min_x \; \tfrac12 x^T P(\theta) x + q(\theta)^T x \quad \text{s.t.} \quad A x + b(\theta) \in \mathcal{K},
    \qquad P(\theta) = P_0 + \sum_i \theta_i P_i , \quad q, b \text{ alike.}

The coefficients are columns of cvxpy's own tensors, so that the dependence on the parameters is exact; Clarabel is
given new numbers for other values and keeps its ordering. Programs are stacked (the folds, for example), and others are
added to them (a validation error, for example); squared validation errors :math:`\|M x - v\|^2` enter the quadratic
term.

A solver's point is not trusted. For every w, every :math:`z \in \mathcal{K}^*` and :math:`r = P w + q - A^T z`, every
feasible x has, with :math:`\delta = x - w`,

.. math::

    \tfrac12 x^T P x + q^T x \ge \tfrac12 x^T P x + q^T x - z^T (A x + b)
    = \tfrac12 w^T P w + q^T w - z^T (A w + b) + r^T \delta + \tfrac12 \delta^T P \delta ,

and the last two terms are at least :math:`-r_j^2 / (2 p_j)` in a coordinate whose diagonal entry :math:`p_j` is the
only one of its row in P, and at least :math:`-|r_j| R_j` elsewhere, where an optimum is taken to be within
:math:`R_j` of w. w and z are corrected first, so that r is zero to rounding in the coordinates of the second kind.
Squares are bounded by tangents, :math:`\|M x - v\|^2 \ge 2 u^T (M x - v) - u^T u`, which are exact at u = M w - v.
"""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from substrate.arrays import Array
from substrate.certificate import power_of_two
from substrate.declare.cones import (
    KINDS,
    SEMIDEFINITE,
    Cone,
    clarabel_cones,
    dual_point,
    inward,
    is_inside,
    read_cones,
)
from substrate.errors import DeclarationError, SolverError
from substrate.numbers import relative_rounding

__all__ = [
    "FeasiblePoint",
    "Point",
    "Program",
    "compiled_program",
    "parameters_at",
    "read_answer",
    "read_problem",
    "squares_of",
    "stack",
]

#: The largest distance of an optimum from a point that is assumed, in multiples of the variable's size.
FAR = 1000.0
#: Accuracy requested from the solver, and what it may say of a point that is worth a look.
_ACCURACY, _ENOUGH = 1e-12, 1e-9
#: Accuracy of a point with room in every cone, and the least room of a row as a share of the largest.
_ROOM, _LITTLE = 1e-8, 1e-2
_USABLE = ("Solved", "AlmostSolved", "InsufficientProgress", "MaxIterations")
#: Corrections of a dual point, the smallest share of the largest multiplier that one may move, and the share of the
#: value that a residual may take off before the point is corrected once more.
_CORRECTIONS, _SMALLEST, _SETTLED = 3, 1e-9, 1e-11
#: Shares of the way to an interior point by which a point is moved.
_SHARES = tuple(1e-15 * 2.0**k for k in range(40))
#: Rounded operations that are allowed for in addition to the operations of a row.
_OPERATIONS = 16
#: Diagonal that makes the conditions of optimality regular, and the refinements that remove its effect.
_REGULAR, _REFINEMENTS = 1e-9, 8
#: Smallest singular value, as a share of the largest, of equalities that count as independent.
_INDEPENDENT = 1e-10
#: How far the equations that mend equalities may be from these, as a share of what is missed.
_INEXACT = 1e-2


class Point(NamedTuple):
    """A point and multipliers."""

    x: Array
    z: Array


class FeasiblePoint(NamedTuple):
    """x, and the distance in each coordinate to a point that satisfies all constraints exactly."""

    x: Array
    radius: Array


@dataclass(eq=False)
class Program:
    """The parts of P, q, b and of the constant d: what does not depend on parameters, and what each multiplies.

    Values are given as coefficients of the parts: 1, the parameters, and a weight of what was added, or of squares.
    ``columns`` are the places of the problem's variables by their identities, ``rounding`` is what each entry of b may
    be off by, ``unit`` a size of the variables that matters.
    """

    P: tuple[Any, ...]
    q: Array
    b: Array
    d: Array
    A: Any
    cones: tuple[Cone, ...]
    columns: dict[int, int]
    rounding: Array
    unit: float = np.inf
    #: M and v of the squares, which are the last part.
    squares: tuple[Any, Array] | None = None
    #: The largest size of each variable at any point so far.
    reach: Array = field(init=False)
    _solver: Any = field(default=None, init=False)
    _inside: Array | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        edges = [*sorted(set(self.columns.values())), self.q.shape[1]]
        self._blocks = np.searchsorted(edges, np.arange(self.q.shape[1]), side="right")
        self.reach = np.zeros(int(self._blocks.max(initial=0)) + 1)

    # --- other programs -----------------------------------------------------------------------------------------------

    def plus_squares(self, M: Any, v: Array) -> "Program":
        """Return the program with one more part, the squares of M x - v."""
        M = sp.csr_array(M)
        return replace(
            self,
            P=(*self.P, sp.csr_array(2.0 * (M.T @ M))),
            q=np.vstack([self.q, -2.0 * (M.T @ v)]),
            b=np.vstack([self.b, np.zeros(self.b.shape[1])]),
            d=np.append(self.d, float(v @ v)),
            squares=(M, v),
        )

    def plus(self, other: "Program") -> "Program":
        """Return the program with one more part, the objective of another in the same variables and new ones."""
        n, more, size = self.q.shape[1], other.q.shape[1], other.A.shape[0]
        place = np.full(more, -1)
        for key, start in other.columns.items():
            if key in self.columns:
                stop = min([s for s in other.columns.values() if s > start], default=more)
                place[start:stop] = self.columns[key] + np.arange(stop - start)
        new = place < 0
        place[new] = n + np.arange(int(new.sum()))
        width = n + int(new.sum())
        exchange = sp.csr_array((np.ones(more), (np.arange(more), place)), shape=(more, width))
        P = [_widen(P, width) for P in self.P]
        height = self.A.shape[0]
        shifted = tuple(Cone(kind, slice(rows.start + height, rows.stop + height)) for kind, rows in other.cones)
        b = np.zeros((len(self.P) + 1, height + size))
        b[:-1, :height], b[0, height:] = self.b, other.b[0]
        return replace(
            self,
            P=(*P, sp.csr_array(exchange.T @ other.P[0] @ exchange)),
            q=np.vstack([np.hstack([self.q, np.zeros((len(P), width - n))]), exchange.T @ other.q[0]]),
            b=b,
            d=np.append(self.d, other.d[0]),
            A=sp.csr_array(sp.vstack([_widen(self.A, width, height), sp.csr_array(other.A @ exchange)])),
            cones=(*self.cones, *shifted),
            columns=self.columns | {-1: n},
            rounding=np.append(self.rounding, np.zeros(size)),
        )

    def over(self, thetas: Array, weights: Array, levels: Array) -> "Program":
        r"""Return the program with its constants anywhere between those at some values, less a function of them.

        .. math:: \min_{x, \mu} \; \varphi(x) - \sum_j \mu_j l_j \quad \text{s.t.} \quad
                  A x + \sum_j \mu_j b(\theta_j) \in \mathcal{K}, \quad \mu \ge 0, \quad 1^T \mu = 1

        ``weights`` are the coefficients of the parts that become one; those after them stay.
        """
        count, (m, n) = len(thetas), self.A.shape
        constants = thetas @ self.b[: thetas.shape[1]]
        sizes = (np.abs(thetas) @ np.abs(self.b[: thetas.shape[1]])).max(axis=0)
        mu, zeros = sp.eye_array(count), sp.csr_array((count, n))
        ones = sp.csr_array(np.ones((1, count)))
        A = sp.block_array([[self.A, sp.csr_array(constants.T)], [zeros, mu], [zeros[:1], ones]], format="csr")
        summands = zip(weights, self.P, self.q, strict=False)
        P, q = sp.csr_array((n, n)), np.zeros(n)
        for weight, quadratic, linear in summands:
            P, q = P + weight * quadratic, q + weight * linear
        zeros_of_mu = np.zeros((len(self.P) - len(weights), count))
        linears = np.vstack([np.append(q, -levels), np.hstack([self.q[len(weights) :], zeros_of_mu])])
        b = np.zeros((len(linears), m + count + 1))
        b[0, -1] = -1.0
        return replace(
            self,
            P=tuple(_widen(quadratic, n + count) for quadratic in (P, *self.P[len(weights) :])),
            q=linears,
            b=b,
            d=np.zeros(len(linears)),
            A=A,
            cones=(*self.cones, Cone("NonNeg", slice(m, m + count)), Cone("Zero", slice(m + count, m + count + 1))),
            columns=self.columns | {-2: n},
            rounding=np.append(relative_rounding(2.0 * thetas.shape[1]) * sizes, np.zeros(count + 1)),
        )

    # --- solutions ----------------------------------------------------------------------------------------------------

    @cached_property
    def _pattern(self) -> tuple[Any, Array, NDArray[np.bool_]]:
        """Return the pattern of P, the entries of its parts there, and which of these are above the diagonal."""
        n = self.q.shape[1]
        pattern = sp.csr_array(sum((abs(P) for P in self.P), sp.csr_array((n, n))) + sp.eye_array(n))
        pattern.sort_indices()
        rows = np.repeat(np.arange(n), np.diff(pattern.indptr))
        entries = np.array([np.asarray(sp.csr_array(P)[rows, pattern.indices]).ravel() for P in self.P])
        return pattern, entries, pattern.indices >= rows

    def matrix(self, weights: Array) -> Any:
        """Return P at coefficients of the first parts."""
        pattern, entries, _ = self._pattern
        return sp.csr_array((weights @ entries[: len(weights)], pattern.indices, pattern.indptr), pattern.shape)

    def solve(self, weights: Array) -> Point:
        """Return the solver's point at coefficients of the parts; raise where it finds none."""
        _, entries, upper = self._pattern
        unit = self._unit
        data, q, b = unit**2 * (weights @ entries), unit * (weights @ self.q), weights @ self.b / unit
        size = max(float(np.abs(q).max(initial=0.0)), float(np.abs(data).max(initial=0.0)))
        scale = power_of_two(size) if size > 0.0 else 1.0
        best, status = None, ""
        for factor in (scale, scale / 64.0, scale * 64.0):  # a solver that stalls at one may not at another
            solution = self._run(data[upper] / factor, q / factor, b)
            x, z, status = unit * np.array(solution.x), np.array(solution.z) * (factor / unit), str(solution.status)
            if status in _USABLE and np.isfinite(x).all() and np.isfinite(z).all():
                best = Point(x, z)
            if status in ("Solved", "AlmostSolved"):
                break
            self._solver = None
        if best is None:
            raise SolverError(
                f"Clarabel found no optimum at {tuple(map(float, weights[1:]))}: {status}; leave out values for which "
                "the constraints have no solution"
            )
        self.remember(best.x)
        return best

    @cached_property
    def _unit(self) -> float:
        """Return a unit of x in which constraints are neither tiny nor huge: solvers have absolute tolerances there."""
        size = min(float(np.abs(self.b).max(initial=0.0)), self.unit)
        return power_of_two(size) if 0.0 < size < 1.0 or size > 1e3 else 1.0

    def _run(self, data: Array, q: Array, b: Array) -> Any:
        import clarabel

        if self._solver is None:
            pattern, _, upper = self._pattern
            n = q.size
            rows = np.repeat(np.arange(n), np.diff(pattern.indptr))[upper]
            starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
            # the upper triangle by rows is the lower one by columns, and both are the same matrix
            lower = sp.csc_matrix((np.arange(1.0, data.size + 1.0), pattern.indices[upper], starts), shape=(n, n))
            triangle = sp.csc_matrix(lower.T)
            self._order = triangle.data.astype(np.intp) - 1
            triangle.data = data[self._order]
            cones, A = clarabel_cones(self.cones), sp.csc_matrix(-self.A)
            self._solver = clarabel.DefaultSolver(triangle, q, A, b, cones, _settings())
        else:
            self._solver.update(P=data[self._order], q=q, b=b)
        return self._solver.solve()

    def remember(self, x: Array) -> None:
        """Keep the sizes of the variables of a point: they set the assumed radius."""
        np.maximum.at(self.reach, self._blocks, np.abs(x))

    def radius(self) -> Array:
        """Return the largest distance of each coordinate of an optimum from a point that is assumed."""
        least = 1e-3 * float(self.reach.max(initial=0.0))
        return FAR * np.maximum(self.reach, least)[self._blocks]

    # --- feasible points ----------------------------------------------------------------------------------------------

    @cached_property
    def equal(self) -> NDArray[np.intp]:
        """Return the rows of equalities."""
        rows = [np.arange(rows.start, rows.stop) for kind, rows in self.cones if kind == "Zero"]
        return np.concatenate([np.zeros(0, dtype=np.intp), *rows]).astype(np.intp)

    @cached_property
    def _constant(self) -> NDArray[np.bool_]:
        """Return which rows of A have no entry."""
        return np.asarray(np.diff(sp.csr_array(self.A).indptr) == 0)

    @cached_property
    def _repair(self) -> "_Repair":
        """Return how points are changed so that equalities hold."""
        return _Repair.of(sp.csr_array(self.A[self.equal]))

    def tolerates(self, distance: float) -> bool:
        """Return whether equalities within a distance of the program's, as matrices, are mended like these."""
        return self._repair.inverse * distance <= 0.2 * _INEXACT

    def slack(self, x: Array, b: Array) -> tuple[Array, Array]:
        """Return A x + b, and how far rounding may have moved it."""
        size = abs(self.A) @ np.abs(x) + np.abs(b)
        heights = np.diff(self.A.indptr) + _OPERATIONS
        return self.A @ x + b, relative_rounding(1.0) * heights * size + self.rounding

    def feasible(self, x: Array, weights: Array) -> FeasiblePoint:
        """Return a point near x, moved as little as is enough towards the interior; raise where none is found.

        The way there leads to a point with room in every cone, one that is known or a new one.
        """
        b = weights @ self.b
        point = self._confirm(x, b)
        for find in (lambda *_: self._inside, self._interior):
            inside = find(x, b) if point is None else None
            if inside is None:
                continue
            low = 0
            high = len(_SHARES)
            while low < high:  # the smallest share that is enough
                middle = (low + high) // 2
                tried = self._confirm(x + _SHARES[middle] * (inside - x), b)
                if tried is None:
                    low = middle + 1
                else:
                    high = middle
                    point = tried
        if point is not None:
            return point
        raise SolverError(
            f"no feasible point was found next to the solver's at {tuple(map(float, weights[1:]))}, and nothing can be "
            "proved; leave out values for which the constraints have no solution with room"
        )

    def _confirm(self, x: Array, b: Array) -> FeasiblePoint | None:
        """Return x with its equalities mended, and its distance to a feasible point; None if that is not certain."""
        repair, x, constants = self._repair, x.copy(), b[self.equal]
        for _ in range(2 if self.equal.size else 0):
            repair.mend(x, constants)
        slack, rounding = self.slack(x, b)
        radius = repair.radius((np.abs(slack) + rounding)[self.equal])
        inside = is_inside(self.cones, slack, rounding + abs(self.A) @ radius)
        return FeasiblePoint(x, radius) if inside else None

    def _interior(self, x: Array, b: Array) -> Array | None:
        """Return a point near x with room in every cone; None if there is no such point."""
        import clarabel

        slack, rounding = self.slack(x, b)
        radius = self._repair.radius((np.abs(slack) + rounding)[self.equal])
        missed = np.maximum(-slack, 0.0) + rounding + abs(self.A) @ radius
        # a point that serves other values of parameters too has as much room everywhere
        least = _LITTLE if len(self.P) == 1 else 1.0
        n, room = x.size, inward(self.cones, b.size) * np.maximum(missed / missed.max(), least)
        size = max(float(np.abs(x).max(initial=0.0)), np.finfo(float).tiny)
        A = sp.vstack([sp.hstack([-self.A, room[:, None]]), sp.csr_array(([1.0], ([0], [n])), shape=(1, n + 1))])
        P = sp.diags_array(np.append(np.full(n, 1e-3 / size**2), 0.0))
        q = np.append(-1e-3 * x / size**2, -1.0 / size)
        cones = [*clarabel_cones(self.cones), clarabel.NonnegativeConeT(1)]
        settings = _settings()  # no more is wanted than room
        settings.tol_feas, settings.tol_gap_abs, settings.tol_gap_rel = _ROOM, 1e-2, 1e-2
        solver = clarabel.DefaultSolver(sp.csc_matrix(P), q, sp.csc_matrix(A), np.append(b, size), cones, settings)
        point = np.array(solver.solve().x)
        self._inside = point[:n] if np.isfinite(point).all() and point[n] > 1e-9 * size else None
        return self._inside

    # --- bounds -------------------------------------------------------------------------------------------------------

    def terms(self, x: Array, radius: Array) -> tuple[Array, Array]:
        """Return the parts of the objective at x, and how far they may be from the parts at a point within a radius."""
        values, errors = np.zeros(len(self.q)), np.zeros(len(self.q))
        for i, (P, q) in enumerate(zip(self.P, self.q, strict=True)):
            Px, sizes = P @ x, abs(P) @ np.abs(x)
            values[i] = 0.5 * float(x @ Px) + float(q @ x)
            products = (np.diff(P.indptr) + x.size + _OPERATIONS) @ (np.abs(x) * (0.5 * sizes + np.abs(q)))
            change = float((np.abs(Px) + np.abs(q) + 0.5 * (abs(P) @ radius)) @ radius)
            errors[i] = 1.01 * (relative_rounding(1.0) * float(products) + change)
        return values, errors

    def lower_value(self, weights: Array, point: Point, enough: float = 0.0) -> tuple[float, Point]:
        """Bound the optimal value at coefficients of the parts from below, with all rounding, without the constant.

        Return the bound and the point behind it: the given one, corrected until its residual takes off no more than
        ``enough``.
        """
        best, before, kept = -np.inf, np.inf, point
        w, z = point
        for correction in range(_CORRECTIONS + 1):
            z = dual_point(self.cones, z, self._constant)
            value, loss, r = self._dual_value(weights, w, z)
            if value > best:
                best, kept = value, Point(w, z)
            if correction == _CORRECTIONS or loss <= max(_SETTLED * abs(value), enough) or loss > 0.5 * before:
                break
            before, step = loss, self.correction(weights, z, r, move=True)
            if step is None:
                break
            w, z = w + step[0], z + step[1]
        return best, kept

    def nearest_dual(self, weights: Array, x: Array, z: Array) -> Array:
        """Return multipliers near z whose residual of stationarity at x is least where no diagonal of P bounds it."""
        weak = self.alone(self._objective(weights)[0]) == 0.0
        best, least = z, np.inf
        for _ in range(_CORRECTIONS + 1):
            z = dual_point(self.cones, z, self._constant)
            r, _ = self.residual(weights, x, z)
            lost = float(np.abs(r[weak]) @ self.radius()[weak])
            if lost < least:
                best = z
            step = self.correction(weights, z, r, move=False) if lost < 0.5 * least else None
            least = min(lost, least)
            if step is None:
                break
            z = z + step[1]
        return best

    def residual(self, weights: Array, w: Array, z: Array) -> tuple[Array, Array]:
        """Return the residual of stationarity at w and z, squares by their tangent, and what rounding may change."""
        P, sizes, q, linear = self._objective(weights)
        if self.squares is not None:
            M, v = self.squares
            u = M @ w - v
            q = q + 2.0 * weights[-1] * (M.T @ u)
            linear = linear + 2.0 * weights[-1] * (abs(M).T @ np.abs(u)) * (v.size + 1.0)
        depths = np.diff(P.indptr) + np.bincount(self.A.indices, minlength=w.size) + 4.0
        error = relative_rounding(1.0) * depths * (sizes @ np.abs(w) + linear + abs(self.A).T @ np.abs(z))
        return P @ w + q - self.A.T @ z, error

    def _objective(self, weights: Array) -> tuple[Any, Any, Array, Array]:
        """Return P and q at coefficients of the parts but the squares, with the sums of sizes."""
        c = weights if self.squares is None else weights[:-1]
        P, (_, entries, _) = self.matrix(c), self._pattern
        sizes = sp.csr_array((np.abs(c) @ np.abs(entries[: c.size]), P.indices, P.indptr), P.shape)
        return P, sizes, c @ self.q[: c.size], np.abs(c) @ np.abs(self.q[: c.size])

    def alone(self, P: Any) -> Array:
        """Return the diagonal of P where it is the only entry of its row, zero elsewhere."""
        diagonal = P.diagonal()
        entries = np.diff(sp.csr_array(P != 0).indptr)
        return np.where((entries == 1) & (diagonal > 0.0), diagonal, 0.0)

    def _dual_value(self, weights: Array, w: Array, z: Array) -> tuple[float, float, Array]:
        """Return the lower bound, how much the residual of stationarity takes off, and the residual."""
        P, sizes, q, linear = self._objective(weights)
        r, error = self.residual(weights, w, z)
        alone, steep, b = self.alone(P), np.abs(r) + error, weights @ self.b
        with np.errstate(over="ignore"):  # infinite where nothing is known
            lost = np.where(alone > 0.0, steep**2 / (2.0 * np.where(alone > 0.0, alone, 1.0)), steep * self.radius())
        value = 0.5 * float(w @ (P @ w)) + float(q @ w) - float(z @ (self.A @ w + b))
        size = float(np.abs(w) @ (0.5 * (sizes @ np.abs(w)) + linear))
        size += float(np.abs(z) @ (abs(self.A) @ np.abs(w) + np.abs(b)))
        if self.squares is not None:
            M, v = self.squares
            u = M @ w - v
            value += weights[-1] * float(u @ u)
            size += 2.0 * weights[-1] * float(np.abs(u) @ (abs(M) @ np.abs(w) + np.abs(v)))
        operations = 2.0 * (w.size + z.size) + len(weights) + _OPERATIONS
        lost_by_rounding = 1.01 * (relative_rounding(operations) * size + float(np.abs(z) @ self.rounding))
        loss = 1.001 * float(lost.sum())
        return value - loss - lost_by_rounding, loss, r

    def correction(self, weights: Array, z: Array, r: Array, move: bool) -> tuple[Array, Array] | None:
        """Return a change of w, where that may ``move``, and of z that removes r in the coordinates that no diagonal
        entry of P bounds.

        Multipliers of inequalities move in proportion to their size, so that they stay positive.
        """
        P = self._objective(weights)[0]
        weak = self.alone(P) == 0.0
        if not weak.any():
            return None
        largest = max(float(np.abs(z).max(initial=0.0)), np.finfo(float).tiny)
        scale = np.maximum(np.abs(z), _SMALLEST * largest)
        scale[self.equal] = largest
        A, squares = sp.csr_array(self.A[:, weak]), scale**2
        gram = sp.csr_array(A.T.multiply(squares[None, :])) @ A
        rows = None
        if move and abs(P[weak]).sum() > 0.0:
            size = float(self.reach.max(initial=0.0)) or 1.0
            rows = size * sp.csr_array(P[weak])
            gram = gram + rows @ rows.T
        diagonal = gram.diagonal()
        shift = 1e-10 * np.where(diagonal > 0.0, diagonal, 1e-2)
        try:
            factor = splu(sp.csc_matrix(gram) + sp.csc_matrix(sp.diags_array(shift)))
        except RuntimeError:
            return None
        dw, dz, target = np.zeros_like(r), np.zeros_like(z), -r[weak]
        for _ in range(3):
            y = factor.solve(target)
            dz -= squares * (A @ y)
            if rows is not None:
                dw += size * (rows.T @ y)
            target = -r[weak] + A.T @ dz - (P @ dw)[weak]
        return (dw, dz) if np.isfinite(dz).all() and np.isfinite(dw).all() else None

    def conditions(self, weights: Array) -> "Conditions":
        """Return the norm of the quadratic term on the equalities, at coefficients of the parts."""
        return Conditions(self._objective(weights)[0], sp.csr_array(self.A[self.equal]))


@dataclass(frozen=True, slots=True, eq=False)
class _Repair:
    """Equalities, by rows with a variable that no other row has, and the others as a dense matrix.

    A variable belongs to a row if only rows of earlier levels have it too; so the last level is mended first, and then
    the levels before it.
    """

    rows: Any
    levels: tuple[tuple[NDArray[np.intp], NDArray[np.intp], Array], ...]
    shared: NDArray[np.intp]
    back: Array
    inverse: float

    @classmethod
    def of(cls, rows: Any) -> "_Repair":
        """Return the levels of equalities; raise where those that remain depend on each other."""
        shared, levels = np.arange(rows.shape[0]), []
        while shared.size:
            block = sp.csc_array(rows[shared])
            single = np.flatnonzero(np.diff(block.indptr) == 1)
            variables, pivots = np.full(shared.size, -1, dtype=np.intp), np.zeros(shared.size)
            at, values = block.indices[block.indptr[single]], block.data[block.indptr[single]]
            order = np.argsort(np.abs(values), kind="stable")  # the largest entry of a row comes last, and stays
            variables[at[order]], pivots[at[order]] = single[order], values[order]
            has_variable = pivots != 0.0
            if not has_variable.any():
                break
            levels.append((shared[has_variable], variables[has_variable], pivots[has_variable]))
            shared = shared[~has_variable]
        dense = rows[shared].toarray()
        values = np.linalg.svd(dense, compute_uv=False) if shared.size else np.ones(1)
        back = -np.linalg.pinv(dense) if shared.size else np.zeros((rows.shape[1], 0))
        residual = np.linalg.norm(dense @ back + np.eye(shared.size))
        if shared.size > rows.shape[1] or values[-1] <= _INDEPENDENT * values[0] or not residual <= 0.2 * _INEXACT:
            raise SolverError("its equality constraints depend on each other; leave out what follows from the others")
        return cls(rows, tuple(levels), shared, back, 1.0 / float(values[-1]) if shared.size else 0.0)

    def mend(self, x: Array, constants: Array) -> None:
        """Change x so that the equalities hold up to rounding."""
        if self.shared.size:
            x += self.back @ (self.rows[self.shared] @ x + constants[self.shared])
        for rows, columns, pivots in reversed(self.levels):
            x[columns] -= (self.rows[rows] @ x + constants[rows]) / pivots

    def radius(self, missed: Array) -> Array:
        """Bound the distance to a point at which they hold, by what each misses."""
        radius = np.zeros(self.rows.shape[1])
        if self.shared.size:
            radius += abs(self.back) @ (missed[self.shared] + _INEXACT * np.linalg.norm(missed[self.shared]))
        for rows, columns, pivots in reversed(self.levels):
            radius[columns] = 1.01 * (missed[rows] + abs(self.rows[rows]) @ radius) / np.abs(pivots)
        return radius


class Conditions:
    r"""The norm of a quadratic term on the equalities, :math:`\|d\|_P` for A d = 0, and its dual.

    A representation :math:`c = P X + A^T Y + E` gives :math:`c^T d \le \sqrt{X^T P X} \, \|d\|_P + |E|^T |d|`.
    """

    def __init__(self, P: Any, A: Any) -> None:
        self._P, self._A = P, A
        n, m = P.shape[0], A.shape[0]
        self._full = sp.csc_array(sp.block_array([[P, A.T], [A, sp.csr_array((m, m))]]))
        size = (float(abs(P).max()) if P.nnz else 0.0) or 1.0  # with rows of zeros alone SuperLU may crash
        shift = np.append(np.full(n, _REGULAR * size), np.full(m, -_REGULAR))
        self._factor = splu(sp.csc_matrix(self._full + sp.diags_array(shift)))

    def solve(self, right: Array) -> Array:
        """Return a solution of the conditions without the added diagonal, by refinement."""
        solution = np.zeros_like(right)
        for _ in range(_REFINEMENTS):
            solution = solution + self._factor.solve(right - self._full @ solution)
        return solution

    def represent(self, c: Array) -> tuple[Array, Array]:
        """Return, for each column of c, its norm dual to the norm of P, rounded up, and the sizes of E."""
        n = self._P.shape[0]
        solution = self.solve(np.concatenate([c, np.zeros((self._A.shape[0], *c.shape[1:]))]))
        X, Y = solution[:n], solution[n:]
        sizes = abs(self._P) @ np.abs(X)
        E = np.abs(c - self._P @ X - self._A.T @ Y)
        E = E + relative_rounding(n + self._A.shape[0] + 4.0) * (np.abs(c) + sizes + abs(self._A).T @ np.abs(Y))
        squares = np.maximum((X * (self._P @ X)).sum(axis=0), 0.0)
        squares = squares + relative_rounding(4.0 * n) * (np.abs(X) * sizes).sum(axis=0)
        return (1.0 + 1e-9) * np.sqrt(squares), E


def stack(programs: Sequence[Program]) -> Program:
    """Return the program of several side by side, which share their parameters."""
    if len(programs) == 1:
        return programs[0]
    cones, columns, high, wide = list[Cone](), dict[int, int](), 0, 0
    for program in programs:
        cones += [Cone(kind, slice(rows.start + high, rows.stop + high)) for kind, rows in program.cones]
        columns |= {key: start + wide for key, start in program.columns.items()}
        high, wide = high + program.A.shape[0], wide + program.A.shape[1]
    return Program(
        P=tuple(sp.csr_array(sp.block_diag(parts)) for parts in zip(*(p.P for p in programs), strict=True)),
        q=np.hstack([program.q for program in programs]),
        b=np.hstack([program.b for program in programs]),
        d=np.sum([program.d for program in programs], axis=0),
        A=sp.csr_array(sp.block_diag([program.A for program in programs])),
        cones=tuple(cones),
        columns=columns,
        rounding=np.concatenate([program.rounding for program in programs]),
        unit=min(program.unit for program in programs),
    )


def read_problem(
    problem: Any, parameters: Sequence[Any], unit: float = np.inf
) -> tuple[Program, Callable[[Array], None]]:
    """Read the part of a cvxpy problem without these parameters, and the part of each of them, from cvxpy's tensors.

    Return the program, and the function that gives the problem's variables the values of a point.
    """
    with parameters_at(parameters, [1.0] * len(parameters)):
        data, chain, inverse = problem.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": True})
        compiled = data["param_prob"]
        values = {key: np.array(parameter.value) for key, parameter in compiled.id_to_param.items()}
    zeros = {key: np.zeros(compiled.param_id_to_size[key]) for key in values}
    ids = [parameter.id for parameter in parameters]
    fixed = {key: zeros[key] if key in ids else value for key, value in values.items()}
    cones = read_cones(compiled.constraints)
    parts = [compiled_program(compiled, cones, fixed)]
    for key in ids:
        alone = zeros | {key: np.ones(1)} if key in zeros else zeros
        parts.append(compiled_program(compiled, cones, alone, zero_offset=True))
    exchanged = {}
    for reduction, record in zip(chain.reductions, inverse, strict=True):
        if type(reduction).__name__ == "CvxAttr2Constr" and record:
            exchanged = {key: new.id for key, new in record[0].items()}
    columns = dict(compiled.var_id_to_col)
    for variable in problem.variables():
        new = exchanged.get(variable.id, variable.id)
        if new in columns:
            columns[variable.id] = columns.pop(new)
    _refuse_parts(parts[1:], parameters)
    program = replace(
        parts[0],
        P=tuple(part.P[0] for part in parts),
        q=np.vstack([part.q for part in parts]),
        b=np.vstack([part.b for part in parts]),
        d=np.concatenate([part.d for part in parts]),
        columns=columns,
        unit=unit,
    )
    height = program.A.shape[0]

    def assign(x: Array) -> None:
        point = SimpleNamespace(x=x, z=np.zeros(height), s=np.zeros(height), status="Solved")
        point.obj_val, point.solve_time, point.iterations = 0.0, 0.0, 0
        problem.unpack_results(point, chain, inverse)

    return program, assign


def compiled_program(
    compiled: Any, cones: tuple[Cone, ...], values: dict[int, Array] | None = None, zero_offset: bool = False
) -> Program:
    """Return the program that cvxpy compiled, at values of its parameters, the present ones unless given."""
    n, height = compiled.x.size, cones[-1].rows.stop if cones else 0
    has_squares = compiled.reduced_P.matrix_data is not None
    *quadratic, q, d, A, b = compiled.apply_parameters(values, zero_offset, quad_obj=has_squares)
    A = sp.csr_array(A) if height else sp.csr_array((0, n))
    A.eliminate_zeros()
    return Program(
        P=(sp.csr_array(quadratic[0] if has_squares else (n, n)),),
        q=np.array(q)[None, :],
        b=(np.array(b) if height else np.zeros(0))[None, :],
        d=np.array([float(np.sum(d))]),
        A=A,
        cones=cones,
        columns=dict(compiled.var_id_to_col),
        rounding=np.zeros(height),
    )


def read_answer(answer: Any) -> tuple[Program, Point] | None:
    """Return the program of a solver's answer and its point; None if cones or multipliers cannot be read."""
    compiled = answer.program
    kinds = {type(constraint).__name__ for constraint in compiled.constraints}
    # SCS has a different order for the entries of a matrix
    misordered = answer.solver == "SCS" and SEMIDEFINITE in kinds
    # some solvers receive bounds of variables apart from the rows, whose multipliers cvxpy does not return
    bounds = [getattr(compiled, name, None) for name in ("lower_bounds", "upper_bounds")]
    bounded = any(bound is not None and bool(np.isfinite(bound).any()) for bound in bounds)
    duals = [answer.duals.get(constraint.id) for constraint in compiled.constraints]
    if answer.x is None or misordered or bounded or not kinds <= KINDS or any(dual is None for dual in duals):
        return None
    # cvxpy changes the sign of the rows of equalities for a conic solver
    signs = [
        -1.0 if type(constraint).__name__ == "Zero" and not compiled.formatted else 1.0
        for constraint in compiled.constraints
    ]
    blocks = [
        sign * np.asarray(dual, dtype=np.float64).ravel(order="F") for sign, dual in zip(signs, duals, strict=True)
    ]
    program, z = compiled_program(compiled, read_cones(compiled.constraints)), np.concatenate([np.zeros(0), *blocks])
    x = np.array(answer.x, dtype=np.float64).ravel()
    return (program, Point(x, z)) if z.size == program.A.shape[0] else None


def squares_of(program: Program, into: Program) -> tuple[Any, Array] | None:
    """Return M and v where the objective of a program is ``||M x - v||^2`` in the variables of another; else None."""
    P, q = program.P[0], program.q[0]
    diagonal = P.diagonal()
    if (
        q.any()
        or program.d[0]
        or abs(P - sp.diags_array(diagonal)).sum() > 0.0
        or any(kind not in ("Zero", "NonNeg") for kind, _ in program.cones)
    ):
        return None
    rows, constants = sp.csr_array(program.A[program.equal]), program.b[0][program.equal]
    M, v = list[Any](), list[float]()
    shared = {key: start for key, start in program.columns.items() if key in into.columns}
    ends = sorted([*program.columns.values(), q.size])
    place = np.full(q.size, -1)
    for key, start in shared.items():
        size = ends[ends.index(start) + 1] - start
        place[start : start + size] = into.columns[key] + np.arange(size)
    by_column = sp.csc_array(rows)
    for column in np.flatnonzero(diagonal):
        weight, entries = (
            float(np.sqrt(0.5 * diagonal[column])),
            by_column.indices[by_column.indptr[column] : by_column.indptr[column + 1]],
        )
        if place[column] >= 0:
            M.append(([place[column]], [weight]))
            v.append(0.0)
            continue
        if len(entries) != 1:
            return None
        at = slice(rows.indptr[entries[0]], rows.indptr[entries[0] + 1])
        indices, numbers = rows.indices[at], rows.data[at]
        pivot = -float(numbers[indices == column][0])
        is_other = indices != column
        if (place[indices[is_other]] < 0).any():
            return None
        M.append((place[indices[is_other]], weight * numbers[is_other] / pivot))
        v.append(-weight * float(constants[entries[0]]) / pivot)
    lengths = [len(indices) for indices, _ in M]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)
    indices, numbers = (np.concatenate([np.zeros(0), *(row[k] for row in M)]) for k in range(2))
    return sp.csr_array((numbers, indices.astype(np.intp), starts), (len(M), into.q.shape[1])), np.array(v)


@contextmanager
def parameters_at(parameters: Sequence[Any], values: Sequence[float]) -> Any:
    """Give parameters values inside a block, and their earlier values back after it."""
    kept = [parameter.value for parameter in parameters]
    try:
        for parameter, value in zip(parameters, values, strict=True):
            parameter.value = value
        yield
    finally:
        for parameter, value in zip(parameters, kept, strict=True):
            parameter.value = value


def _refuse_parts(parts: Sequence[Program], parameters: Sequence[Any]) -> None:
    """Raise if a parameter changes A, or has no effect at all."""
    for parameter, part in zip(parameters, parts, strict=True):
        name = parameter.name()
        weighs = abs(part.P[0]).sum() > 0.0 or part.q.any()
        if abs(part.A).sum() > 0.0:
            raise DeclarationError(
                f"the parameter {name!r} multiplies a variable in a constraint, or inside a loss or a norm, and the "
                "problem is not convex in both together; it must be the weight of a term of the objective, "
                "c * norm(x) instead of norm(c * x), or a bound or a width, norm(x) <= c"
            )
        if weighs and part.b.any():
            raise DeclarationError(
                f"the parameter {name!r} weighs a term of the objective and is in a constraint too; give each its own "
                "parameter"
            )
        if not weighs and not part.b.any():
            raise DeclarationError(
                f"the problem does not depend on {name!r}, or by a constant only, so that nothing can choose it"
            )


def _widen(matrix: Any, width: int, height: int | None = None) -> Any:
    """Return a matrix with empty columns, and rows, up to a size."""
    copy = sp.csr_array(matrix).copy()
    copy.resize((width if height is None else height, width))
    return copy


def _settings() -> Any:
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose, settings.presolve_enable, settings.max_threads = False, False, 1
    settings.input_sparse_dropzeros = settings.chordal_decomposition_enable = False  # numbers are changed afterwards
    settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = _ACCURACY
    settings.reduced_tol_feas = settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = _ENOUGH
    settings.direct_solve_method = "faer"
    return settings
