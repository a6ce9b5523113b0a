r"""The bound over a simplex of parameters in ball arithmetic, from the stored points and multipliers.

The formulas are those of :mod:`substrate.fusion.simplex_bound` and :mod:`substrate.fusion.faces`; what double precision
bounds by allowances is enclosed here. The equalities are satisfied exactly by a correction of some coordinates,

.. math:: \hat x = x + c, \qquad A_{\cdot J} \, c_J = b - A x ,

so that slacks, errors and the residual of stationarity are balls. A direction u has

.. math:: M^T u = P X + A^T Y + E, \qquad \sigma_u^2 = X^T P X ,

with X and Y from a linear system in double precision, and E enclosed, whatever they are. Last,

.. math:: (a - \beta 1)(a - \beta 1)^T - Q \;\text{ is copositive}

for the :math:`\beta` that double precision finds: a matrix whose principal submatrices of order n - 1 are copositive is
so itself if no entry is negative, if its determinant is not negative, or if its adjugate has a negative entry
[Hadeler1983]_. What is left of the assumptions of a check is the radius of the optimum, and that a corner which was cut
is rounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.certificates.balls import above, ball, balls, below, flint, root_of
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.composition.feasible_point import Conditions
from substrate.fusion.affine_program import PLACES, YOUNG
from substrate.fusion.copositive import least_difference, pairwise_difference
from substrate.fusion.knot_store import KnotStore, ProgramFold, SimplexReach
from substrate.fusion.saved_proof import UnprovedError
from substrate.fusion.simplex_bound import OMEGAS, SimplexBound, bound_simplex, simplex_bound

__all__ = ["MOST_ENTRIES", "BallKnots", "is_copositive"]

#: Entries of the largest program that is proved in balls.
MOST_ENTRIES = 100_000
#: How much later columns in inequalities, and those that a parameter weighs, are taken as pivots.
_LAST = (1e-4, 1e-6)
#: Factor up to which a coordinate counts as determined, and share of its radius that may remain.
_STIFF, _LITTLE = 1e6, 1e-3
#: What is taken from beta before it is tested: the search in double precision rounds.
_BACK = 1e-10

Vector = list[Any]


@dataclass(frozen=True, slots=True, eq=False)
class BallKnot:
    """A point that is exactly feasible, its slacks, its validation errors, and what its residual leaves open."""

    x: Vector
    slack: Vector
    multipliers: Vector
    errors: Vector
    allowance: Any


class _Rows:
    """A sparse matrix, whose products with balls are sums over its entries."""

    def __init__(self, matrix: Any) -> None:
        entries = sp.csr_array(matrix)
        arb = flint().arb
        self.shape = entries.shape
        self.rows = [
            [(int(j), arb(float(v))) for j, v in zip(entries.indices[a:b], entries.data[a:b], strict=True)]
            for a, b in zip(entries.indptr[:-1], entries.indptr[1:], strict=True)
        ]

    def __matmul__(self, x: Vector) -> Vector:
        return [sum((value * x[j] for j, value in row), ball(0.0)) for row in self.rows]


class _FoldInBalls:
    """The program of one fold with its matrices as balls."""

    def __init__(self, fold: ProgramFold) -> None:
        self.fold, program = fold, fold.program
        self.program = program
        self.P0, self.P1 = _Rows(program.P0), _Rows(program.P1)
        self.A, self.AT = _Rows(program.A), _Rows(sp.csr_array(program.A).T)
        self.G, self.GT = _Rows(program.G), _Rows(sp.csr_array(program.G).T)
        self.M, self.MT = _Rows(fold.M), _Rows(sp.csr_array(fold.M).T)
        self.b, self.h = balls(program.b), balls(program.h)
        self.targets = balls(fold.targets)
        self.pivots, self._square = self._choose_pivots()
        self._conditions: dict[float, Conditions] = {}
        self._ties: dict[int, tuple[Any, Vector]] = {}

    def _choose_pivots(self) -> tuple[Any, Any]:
        """Return columns that alone determine the equalities, as few as can be in inequalities or weighed by a
        parameter, so that a correction leaves slacks and penalties nearly as they are.
        """
        A = sp.csr_array(self.program.A).toarray()
        if not A.shape[0]:
            return np.zeros(0, dtype=np.intp), None
        weighed = (self.program.q != 0.0).any(axis=0)
        inside = np.asarray(abs(sp.csr_array(self.program.G)).sum(axis=0)).ravel() > 0.0
        scaled = A * np.where(weighed, _LAST[1], np.where(inside, _LAST[0], 1.0))
        _, triangle, order = scipy.linalg.qr(scaled, mode="economic", pivoting=True)
        sizes = np.abs(np.diag(triangle))
        if A.shape[0] > A.shape[1] or sizes.min() <= 1e-12 * _LAST[1] * sizes.max():
            raise UnprovedError("the equalities depend on each other")
        pivots = order[: A.shape[0]]
        return pivots, flint().arb_mat(A[:, pivots].tolist())

    def feasible(self, x: Array) -> tuple[Vector, Vector]:
        """Return the exactly feasible point next to x, and its slacks; raise where one may be negative."""
        point = balls(x)
        if self._square is not None:
            missing = [b - ax for b, ax in zip(self.b, self.A @ point, strict=True)]
            try:
                change = self._square.solve(flint().arb_mat(len(missing), 1, missing))
            except ZeroDivisionError as error:
                raise UnprovedError("the equalities depend on each other") from error
            for k, j in enumerate(self.pivots):
                point[j] = point[j] + change[k, 0]
        slack = [h - gx for h, gx in zip(self.h, self.G @ point, strict=True)]
        if not all(s >= 0 for s in slack):
            raise UnprovedError("a point is not feasible: an inequality is violated")
        return point, slack

    def quadratic(self, tau: float, x: Vector) -> Vector:
        """Return P(tau) x."""
        products = self.P0 @ x
        if self.program.ridge < 0:
            return products
        return [p + ball(tau) * extra for p, extra in zip(products, self.P1 @ x, strict=True)]

    def knot(self, theta: Sequence[float], x: Array, dual: Array) -> BallKnot:
        """Return the knot of a stored point and multipliers."""
        program, m = self.program, self.program.b.size
        if dual[m:].min(initial=0.0) < 0.0:
            raise UnprovedError("a multiplier is negative")
        point, slack = self.feasible(x)
        tau = program.tau(tuple(theta))
        nu, mu = balls(dual[:m]), balls(dual[m:])
        r = self.quadratic(tau, point)
        for number, (pulled, pressed) in enumerate(zip(self.AT @ nu, self.GT @ mu, strict=True)):
            r[number] = r[number] + pulled + pressed + ball(program.q0[number])
        for value, q in zip(theta, program.q, strict=True):
            weight = ball(value) / ball(program.unit)
            for place in np.flatnonzero(q).tolist():
                r[place] = r[place] + weight * ball(q[place])
        # corners that were cut are rounded: the residual covers parameters next to those of the knot
        room = at_most(relative_rounding(PLACES)) * program.weight_sizes(tuple(theta), x, dual)
        sizes = [abs(value) + ball(more) for value, more in zip(r, room.tolist(), strict=True)]
        allowance = self._allowance(sizes, program.radius(x))
        errors = [
            target - ball(program.unit) * value for target, value in zip(self.targets, self.M @ point, strict=True)
        ]
        return BallKnot(x=point, slack=slack, multipliers=mu, errors=errors, allowance=allowance)

    def _allowance(self, sizes: Vector, radius: Array) -> Any:
        """Bound what a residual adds to the squared distance, by single squares and elsewhere by the radius."""
        alone = self.program.program.alone
        squares, tied, untied = ball(0.0), ball(0.0), ball(0.0)
        for j, (size, p, R) in enumerate(zip(sizes, alone.tolist(), radius.tolist(), strict=True)):
            if p > 0.0:
                squares += size * size / ball(p)
                continue
            factor, remainder = self._tie(j)
            left = _dot(remainder, balls(radius))
            if above(factor) <= _STIFF and above(left) <= _LITTLE * R:
                tied += size * factor
                untied += size * left
            else:
                untied += size * ball(R)
        pull = root_of(squares) + tied
        return (1 + ball(YOUNG)) * (untied + pull * pull / (2 * ball(YOUNG)))

    def _tie(self, j: int) -> tuple[Any, Vector]:
        """Return how the squares and the equalities determine one coordinate, at the smallest ridge weight."""
        if j not in self._ties:
            unit = [ball(0.0)] * self.program.q0.size
            unit[j] = ball(1.0)
            self._ties[j] = self.along(unit, self.program.lowest)
        return self._ties[j]

    def along(self, c: Vector, tau: float) -> tuple[Any, Vector]:
        """Return the norm of a linear function of the optimum in that of P(tau), and the sizes of what is left open."""
        if tau not in self._conditions:
            P = sp.csr_array(self.program.quadratic(tau))
            self._conditions[tau] = Conditions(P, sp.csr_array(self.program.A))
        n, m = self.program.q0.size, self.program.b.size
        right = np.append([float(value) for value in c], np.zeros(m))
        solved = self._conditions[tau].solve(right[:, None], refinements=6)[:, 0]
        if not np.isfinite(solved).all():
            raise UnprovedError("the squares do not determine the validation errors")
        X, Y = balls(solved[:n]), balls(solved[n:])
        PX = self.quadratic(tau, X)
        remainder = [abs(v - p - a) for v, p, a in zip(c, PX, self.AT @ Y, strict=True)]
        return root_of(_dot(X, PX)), remainder


class BallKnots:
    """The knots of all folds in balls, and the bounds over their simplices."""

    def __init__(self, store: KnotStore) -> None:
        size = max(fold.program.A.size + fold.program.G.size for fold in store.folds)
        if size > MOST_ENTRIES:
            raise UnprovedError(f"the program has {size} entries, and proofs in balls are for up to {MOST_ENTRIES}")
        self.store = store
        self.folds = [_FoldInBalls(fold) for fold in store.folds]
        self._knots: dict[tuple[int, int], BallKnot] = {}
        self._vanishing: dict[tuple[int, int, tuple[int, ...]], BallKnot] = {}

    def _knot(self, f: int, i: int) -> BallKnot:
        if (f, i) not in self._knots:
            stored = self.store.knots[f][i]
            self._knots[f, i] = self.folds[f].knot(self.store.corners[i], stored.x, stored.dual)
        return self._knots[f, i]

    def bound(self, vertices: Sequence[int], target: float = np.inf) -> float:
        """Return the bound over the simplex of these knots, by the first direction that double precision has found to
        reach a target.
        """
        at = list(vertices)
        forms = [self._forms(f, at) for f in range(len(self.folds))]
        errors = [[e for f in range(len(self.folds)) for e in self._knot(f, i).errors] for i in at]
        found = simplex_bound(self.store, at, target)
        return self._bound(at, errors, forms, found, target)

    def bound_beyond(
        self, vertices: Sequence[int], beyond: tuple[int, ...], points: dict[Any, Array], target: float = np.inf
    ) -> float:
        """Return the bound over the prism above a simplex, where these parameters grow and their penalties vanish."""
        at, forms = list(vertices), []
        errors: list[Vector] = [[] for _ in at]
        for f in range(len(self.folds)):
            far = [self._far(f, i, beyond, points[f, i, beyond]) for i in at]
            near = [self._knot(f, i) for i in at]
            for row, first, second in zip(errors, far, near, strict=True):
                row += [(a + b) / 2 for a, b in zip(first.errors, second.errors, strict=True)]
            forms.append(self._forms_beyond(f, at, far, near))
        E = np.array([[float(e) for e in row] for row in errors])
        tops = [(_tops(Q), _tops(R)) for Q, R in forms]
        found = bound_simplex(E, np.zeros(len(at)), tops, SimplexReach(self.store, at), target)
        return self._bound(at, errors, forms, found, target)

    def _far(self, f: int, i: int, beyond: tuple[int, ...], x: Array) -> BallKnot:
        """Return a feasible point whose penalties are exactly zero; raise where they may not be."""
        key = f, i, beyond
        if key not in self._vanishing:
            fold = self.folds[f]
            weighed = np.flatnonzero(fold.program.q[list(beyond)].any(axis=0))
            if x[weighed].any() or np.isin(fold.pivots, weighed).any():
                raise UnprovedError("a penalty does not vanish exactly, so that nothing is known of larger weights")
            self._vanishing[key] = fold.knot(self.store.corners[i], x, self.store.knots[f][i].dual)
        return self._vanishing[key]

    def _forms(self, f: int, at: list[int]) -> tuple[list[Vector], list[Vector]]:
        """Return Q and R of a fold, in the units of its program."""
        knots, n = [self._knot(f, i) for i in at], len(at)
        Q = [[ball(0.0)] * n for _ in at]
        for i in range(n):
            for j in range(i + 1):
                first, second = knots[i], knots[j]
                products = _dot(first.multipliers, second.slack) + _dot(second.multipliers, first.slack)
                Q[i][j] = Q[j][i] = ((1 + ball(YOUNG)) * products + first.allowance + second.allowance) / 2
        R, left_open = self._ridge(f, at, knots)
        for i in range(n):
            for j in range(n):
                Q[i][j] = Q[i][j] + left_open[i][j]
        return Q, R

    def _ridge(self, f: int, at: list[int], knots: list[BallKnot]) -> tuple[list[Vector], list[Vector]]:
        """Return the covariance that a ridge weight leaves, and what the squares leave open of it."""
        fold, n = self.folds[f], len(at)
        R, left_open = ([[ball(0.0)] * n for _ in at] for _ in range(2))
        taus = [fold.program.tau(self.store.corners[i]) for i in at]
        for i in range(n):
            for j in range(i):
                difference = abs(ball(taus[i]) - ball(taus[j]))
                if taus[i] == taus[j]:
                    continue
                step = [a - b for a, b in zip(knots[i].x, knots[j].x, strict=True)]
                size, remainder = fold.along(fold.P1 @ step, min(taus))
                radius = np.maximum(self._radius(f, at[i]), self._radius(f, at[j]))
                R[i][j] = R[j][i] = (1 + ball(YOUNG)) * difference * size
                left = (1 + ball(YOUNG)) * difference * _dot(remainder, balls(radius)) / 2
                left_open[i][j] = left_open[j][i] = left
        return R, left_open

    def _forms_beyond(
        self, f: int, at: list[int], far: list[BallKnot], near: list[BallKnot]
    ) -> tuple[list[Vector], list[Vector]]:
        """Return Q and R of the prism: slacks of the far points, and their distance from the knots."""
        fold, n = self.folds[f], len(at)
        R, left_open = self._ridge(f, at, near)
        tau = max(fold.program.tau(self.store.corners[i]) for i in at)
        steps = [[a - b for a, b in zip(x.x, w.x, strict=True)] for x, w in zip(far, near, strict=True)]
        pulled = [fold.quadratic(tau, step) for step in steps]
        share = (0.5 if self.store.ridge else 0.25) + YOUNG
        Q = [[ball(0.0)] * n for _ in at]
        for i in range(n):
            for j in range(n):
                products = _dot(near[i].multipliers, far[j].slack) + _dot(near[j].multipliers, far[i].slack)
                form = products / 2 + ball(share) * _dot(steps[i], pulled[j])
                Q[i][j] = (1 + ball(YOUNG)) * form + near[i].allowance + near[j].allowance + left_open[i][j]
        return Q, [[value * 5 / 4 for value in row] for row in R]

    def _radius(self, f: int, i: int) -> Array:
        return self.folds[f].program.radius(self.store.knots[f][i].x)

    def _bound(
        self, at: list[int], errors: list[Vector], forms: list[Any], found: SimplexBound, target: float
    ) -> float:
        """Return the bound by errors at the vertices and the forms of all folds, in the direction and with the pressed
        rows that double precision has found; one that reaches the target is not sharpened.
        """
        if not found.direction.any():
            return 0.0
        direction = balls(found.direction)
        if not _dot(direction, direction) <= 1:
            raise UnprovedError("a direction is longer than one")
        sigmas, bends, start = [], [], 0
        lost = [ball(0.0) for _ in at]
        for f, fold in enumerate(self.folds):
            part = direction[start : start + len(fold.targets)]
            start += len(fold.targets)
            unit, c, bend = ball(fold.program.unit), fold.MT @ part, ball(0.0)
            if found.etas:
                eta = balls(found.etas[f])
                c = [value - pressed for value, pressed in zip(c, fold.GT @ eta, strict=True)]
                bend, lifts = self._press(f, at, found.etas[f])
                lost = [before + unit * lift for before, lift in zip(lost, lifts, strict=True)]
            sigma, remainder = fold.along(c, min(fold.program.tau(self.store.corners[i]) for i in at))
            sigmas.append(unit * sigma)
            bends.append(unit * bend)
            radius = np.max([self._radius(f, i) for i in at], axis=0)
            left = unit * _dot(remainder, balls(radius))
            lost = [before + left for before in lost]
        a = [_dot(direction, row) - less for row, less in zip(errors, lost, strict=True)]
        enough = float(np.sqrt(target))
        best = max(self._least_difference(a, _stack(forms, sigmas, bends, omega), enough) for omega in OMEGAS)
        return max(best, 0.0) ** 2 * (1.0 - relative_rounding(4.0))

    def _press(self, f: int, at: list[int], eta: Array) -> tuple[Any, Vector]:
        """Return kappa of pressed rows, and what rows that are not pressed add at the vertices."""
        knots, bend = [self._knot(f, i) for i in at], 0.0
        for row in np.flatnonzero(eta < 0.0).tolist():
            least = min(below(knot.multipliers[row]) for knot in knots)
            if least <= 0.0:
                raise UnprovedError("a row is pressed that has no multiplier at a vertex")
            bend = max(bend, above(ball(-eta[row]) / ball(least)))
        lifted = np.flatnonzero(eta > 0.0).tolist()
        lifts = [sum((ball(eta[row]) * knot.slack[row] for row in lifted), ball(0.0)) for knot in knots]
        return ball(bend), lifts

    def _least_difference(self, a: Vector, Q: list[Vector], enough: float) -> float:
        """Return the largest beta that is found, and proved here: the matrix of the two is copositive."""
        lower = np.array([below(value) for value in a])
        upper = np.array([[above(value) for value in row] for row in Q])
        if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
            return -np.inf
        size = float(np.abs(lower).max(initial=0.0))
        # what is taken back from beta below must not take it below the target
        reached = enough + 2.0 * _BACK * size
        for found in (least_difference(lower, upper, reached), pairwise_difference(lower, upper)):
            beta = found - _BACK * size
            if beta > float(lower.min()):
                continue
            steps = [value - ball(beta) for value in a]
            H = [[p * q - form for q, form in zip(steps, row, strict=True)] for p, row in zip(steps, Q, strict=True)]
            if all(step >= 0 for step in steps) and is_copositive(H):
                return beta
        return -np.inf


def is_copositive(H: list[Vector]) -> bool:
    """Return whether a small symmetric matrix of balls is copositive, whatever it is within its radii."""
    n = len(H)
    if all(value >= 0 for row in H for value in row):
        return True
    if n == 1:
        return False
    smaller = [[[v for j, v in enumerate(row) if j != out] for i, row in enumerate(H) if i != out] for out in range(n)]
    if not all(is_copositive(matrix) for matrix in smaller):
        return False
    if _determinant(H) >= 0:
        return True
    return any(_cofactor(H, i, j) < 0 for i in range(n) for j in range(n))


def _cofactor(H: list[Vector], i: int, j: int) -> Any:
    rows = [[v for c, v in enumerate(row) if c != j] for r, row in enumerate(H) if r != i]
    return _determinant(rows) * (-1 if (i + j) % 2 else 1)


def _determinant(H: list[Vector]) -> Any:
    if len(H) == 1:
        return H[0][0]
    return sum((H[0][j] * _cofactor(H, 0, j) for j in range(len(H))), ball(0.0))


def _tops(form: list[Vector]) -> Array:
    """Return the largest values of the entries of a form."""
    return np.array([[above(value) for value in row] for row in form])


def _stack(
    forms: Sequence[tuple[list[Vector], list[Vector]]], sigmas: Vector, bends: Vector, factor: float
) -> list[Vector]:
    """Return one quadratic form for all folds, in units of y squared, ridge weights included."""
    n = len(forms[0][0])
    whole, weights = [], []
    for (Q, R), reach, bend in zip(forms, sigmas, bends, strict=True):
        form, largest = Q, max(above(value) for row in R for value in row)
        if largest > 0.0:
            top = ball(largest) * (1 - ball(1.0) / n) / 2
            most = max(above(value) for row in Q for value in row)
            omega = ball(factor * float(top) / max(np.sqrt(max(most, 0.0)), 1e-12 * float(top)))
            form = [
                [(1 + omega) * q + (1 + 1 / omega) * (top / 2) * r for q, r in zip(rows, more, strict=True)]
                for rows, more in zip(Q, R, strict=True)
            ]
        # bend g is at most bend times the largest root of g, times the root of g
        diagonal = max(above(form[k][k]) for k in range(n))
        most = ball(max(above(value) for row in form for value in row)) * (1 - ball(1.0) / n)
        sigma = reach + bend * root_of(most + ball(max(diagonal, 0.0)))
        whole.append([[sigma * sigma * value for value in row] for row in form])
        weights.append(float(np.sqrt(max(above(value) for row in whole[-1] for value in row))))
    if len(whole) == 1:
        return whole[0]
    shares = [max(weight, 1e-12 * max(*weights, 1e-300)) for weight in weights]
    total = sum((ball(share) for share in shares), ball(0.0))
    return [
        [
            total * sum((form[i][j] / ball(s) for form, s in zip(whole, shares, strict=True)), ball(0.0))
            for j in range(n)
        ]
        for i in range(n)
    ]


def _dot(first: Vector, second: Vector) -> Any:
    return sum((a * b for a, b in zip(first, second, strict=True)), ball(0.0))
