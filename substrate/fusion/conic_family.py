r"""A convex problem of the user's as a conic program whose objective is affine in parameters, and its re-solves.

.. math::

    \min_x \; \tfrac12 x^T P(\theta) x + q(\theta)^T x + d(\theta) \quad \text{s.t.} \quad A x + b \in \mathcal{K},
    \qquad P(\theta) = P_0 + \sum_i \theta_i P_i , \quad q, d \text{ alike.}

The coefficients are columns of cvxpy's own tensors, so that the dependence on the parameters is exact, and solving for
other values bypasses cvxpy: Clarabel is given new numbers and keeps its ordering.

A parameter omega that is not a weight may be in the constants of the constraints: the width of a tube, the bound of a
norm. :math:`b(\omega) = b_0 + \sum_i \omega_i b_i`, and the program is convex in x and omega together. It is solved at
given omega (``at``), or with omega free in a simplex of vertices :math:`\omega_l` (``over``), as

.. math::

    A x + b(\omega_0) + \sum_{l > 0} \mu_l \, (b(\omega_l) - b(\omega_0)) \in \mathcal{K}, \qquad
    \mu \ge 0, \quad \sum_l \mu_l \le 1 .

A solver's point is not trusted. For every w, every :math:`z \in \mathcal{K}^*` and :math:`r = P w + q - A^T z`, every
feasible x has, with :math:`\delta = x - w`,

.. math::

    \tfrac12 x^T P x + q^T x \ge \tfrac12 x^T P x + q^T x - z^T (A x + b)
    = \tfrac12 w^T P w + q^T w - z^T (A w + b) + r^T \delta + \tfrac12 \delta^T P \delta ,

and the last two terms are at least :math:`-r_j^2 / (2 p_j)` in a coordinate whose diagonal entry :math:`p_j` is the
only one of its row in P, and at least :math:`-|r_j| R_j` elsewhere, where an optimum is taken to be within
:math:`R_j` of w. w and z are corrected first, so that r is zero to rounding in the coordinates of the second kind.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.certificates.rows import power_of_two
from substrate.composition.cone_program import ConeProgram
from substrate.composition.conic import CONES, StandardForm
from substrate.composition.feasible_point import Feasibility
from substrate.composition.nearness import in_dual_cone
from substrate.composition.semidefinite import SEMIDEFINITE, matrix_of, order_of, vector_of
from substrate.errors import DeclarationError, SolverError
from substrate.fusion.program_numbers import TermNumbers, parameters_at, read_terms

__all__ = ["FAR", "ConicFamily", "ConicPoint", "parameters_at"]

#: The largest distance of an optimum from the solver's point that is assumed, in multiples of the variable's size.
FAR = 1000.0
#: Accuracy requested from the solver; what it reaches is computed from its point.
_ACCURACY = 1e-10
#: Corrections of a dual point, and the smallest share of the largest multiplier that one may move.
_CORRECTIONS, _SMALLEST = 3, 1e-9
#: Share of the value that a residual may take off before the point is corrected once more.
_SETTLED = 1e-11
#: Least and largest share of the way to an interior point by which a point is moved.
_SMALLEST_SHARE, _LARGEST_SHARE = 1e-13, 1e-4
#: What the solver may say of a point that is worth a look.
_USABLE = ("Solved", "AlmostSolved", "InsufficientProgress", "MaxIterations")
#: Rounded operations besides those of a row that are allowed for.
_OPERATIONS = 16


class ConicPoint(NamedTuple):
    """A solver's point and multipliers."""

    x: Array
    z: Array


class ConicFamily:
    """The programs of a cvxpy problem for all values of some of its parameters; the others keep their values.

    ``unit`` is a size of its variables that matters, where it is smaller than the numbers in the constraints.
    """

    def __init__(self, problem: Any, parameters: Sequence[Any], unit: float = np.inf) -> None:
        self.problem, self.parameters = problem, tuple(parameters)
        with parameters_at(self.parameters, [1.0] * len(self.parameters)):
            data, self._chain, self._inverse = problem.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": True})
            form = StandardForm(data["param_prob"], "CLARABEL")
            unknown = sorted({kind for kind, _, _ in form.cones} - CONES - {SEMIDEFINITE})
            if unknown:
                raise DeclarationError(
                    f"the problem needs the cones {unknown}; what can be fused over are problems of linear, "
                    "second-order, exponential and semi-definite cones: squares, norms, maxima, hinges, logistic "
                    "losses, entropies, eigenvalues, nuclear norms, determinants"
                )
            terms = read_terms(form, self.parameters)
        self.columns = form.columns
        self.A = terms[0][3]
        self._split_parameters(terms)
        weighing = [terms[0], *(terms[1 + i] for i in self.weighing)]
        self.q, self.d = np.array([term[1] for term in weighing]), np.array([term[2] for term in weighing])
        n = self.q.shape[1]
        pattern = sp.csc_array(sum((abs(term[0]) for term in weighing), sp.csc_array((n, n))))
        pattern = sp.csc_array((pattern + sp.eye_array(n, format="csc")) != 0)
        pattern.sort_indices()
        self._indices, self._indptr = pattern.indices, pattern.indptr
        rows, columns = pattern.indices, np.repeat(np.arange(n), np.diff(pattern.indptr))
        self._upper = rows <= columns
        self._diagonal = np.flatnonzero(rows == columns)
        self._P = np.array([_on_pattern(term[0], rows, columns) for term in weighing])
        single = np.zeros(n, dtype=bool)
        single[np.diff(pattern.indptr) == 1] = True
        self._single = single
        self._size = unit
        edges = [*sorted(set(self.columns.values())), n]
        self._blocks = np.searchsorted(edges, np.arange(n), side="right") - 1
        #: The corrected points behind the lower bounds, for a proof that can be checked again.
        self.witnesses: dict[tuple[float, ...], ConicPoint] = {}
        #: The largest size of each coordinate's variable at any point so far.
        self.reach = np.zeros(int(self._blocks.max(initial=0)) + 1)
        self.cones = form.cones
        self._arrange()
        self._at: dict[tuple[float, ...], ConicFamily] = {}
        if not self.placed:
            self._at[()] = self

    def _split_parameters(self, terms: list[TermNumbers]) -> None:
        """Tell the weights of terms from parameters in the constants of the constraints; refuse all others."""
        #: Which of the parameters are weights, and which are in constraints.
        self.weighing: list[int] = []
        self.placed: list[int] = []
        for i, (parameter, (P, q, _, A, b)) in enumerate(zip(self.parameters, terms[1:], strict=True)):
            name = parameter.name()
            if abs(A).sum() > 0.0:
                raise DeclarationError(
                    f"the parameter {name!r} multiplies a variable in a constraint, or inside a loss or a norm, and "
                    "the problem is not convex in both together; it must be the weight of a term of the objective, "
                    "c * norm(x) instead of norm(c * x), or a bound or a width, norm(x) <= c"
                )
            if not np.abs(b).any():
                if not (abs(P).sum() > 0.0 or np.abs(q).any()):
                    raise DeclarationError(
                        f"the problem does not depend on {name!r}, or by a constant only, so that nothing can choose it"
                    )
                self.weighing.append(i)
                continue
            if abs(P).sum() > 0.0 or np.abs(q).any():
                raise DeclarationError(
                    f"the parameter {name!r} weighs a term of the objective and is in a constraint too; give each its "
                    "own parameter"
                )
            self.placed.append(i)
        m = terms[0].b.size
        self.b = self._b0 = terms[0].b
        self._b_places = np.array([terms[1 + i].b for i in self.placed]).reshape(len(self.placed), m)
        self._d_places = np.array([terms[1 + i].d for i in self.placed])
        #: What rounding may change in b at other values.
        self._b_rounding = np.zeros(m)

    def _arrange(self) -> None:
        """Prepare what follows from A, b and the pattern of P."""
        n = self.q.shape[1]
        numbers = (sp.csr_array((n, n)), np.zeros(n), self.A, self.b)
        self.program = ConeProgram.of(numbers, self.cones)
        if self._b_rounding.any():
            self.program = replace(self.program, radius=self._b_rounding)
        self._feasibility: Feasibility | None = None
        self._sizes = abs(self.A)
        self._heights = np.diff(self.A.indptr) + _OPERATIONS
        self._depths = np.diff(self._indptr) + np.bincount(self.A.indices, minlength=n) + _OPERATIONS
        self._solver: Any = None
        self._weak_columns: dict[bytes, tuple[Any, Any]] = {}
        self._inside: Array | None = None
        self._share = _SMALLEST_SHARE
        self._cones = _clarabel_cones(self.cones)
        # x is solved for in a unit in which the constraints are not tiny: the solver's tolerances are absolute there
        size = min(float(np.abs(self.b).max(initial=0.0)), self._size)
        self._unit = power_of_two(size) if 0.0 < size < 1.0 else 1.0

    def split(self, theta: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the values of the weights, and those of the parameters in constraints."""
        return tuple(theta[i] for i in self.weighing), tuple(theta[i] for i in self.placed)

    def join(self, weights: Sequence[float], place: Sequence[float]) -> tuple[float, ...]:
        """Return the values of all parameters, in their order."""
        values = dict(zip([*self.weighing, *self.placed], [*weights, *place], strict=True))
        return tuple(values[i] for i in range(len(self.parameters)))

    def at(self, place: tuple[float, ...]) -> "ConicFamily":
        """Return the family at values of the parameters in constraints."""
        if place not in self._at:
            for family in self._at.values():  # one factor is kept
                family._solver = None
            copy_at = copy.copy(self)
            values = np.array(place)
            copy_at.b = self._b0 + values @ self._b_places
            copy_at._b_rounding = self._rounding_of(values)
            copy_at.d = self.d.copy()
            copy_at.d[0] += float(values @ self._d_places)
            copy_at.witnesses = {}
            copy_at._arrange()
            self._at[place] = copy_at
        return self._at[place]

    def _rounding_of(self, place: Array) -> Array:
        """Return how far b at a place may be from the sum of its products: nothing where one of them is all there
        is.
        """
        products = place[:, None] * self._b_places
        simple = (np.abs(self._b_places) == 1.0) | (self._b_places == 0.0)
        alone = simple.all(axis=0) & ((products != 0.0).sum(axis=0) + (self._b0 != 0.0) <= 1)
        size = np.abs(self._b0) + np.abs(products).sum(axis=0)
        return np.where(alone, 0.0, relative_rounding(2.0 * (len(place) + 1)) * size)

    def slopes(self, point: ConicPoint) -> Array:
        """Return the slope of the optimal value in the parameters of constraints, by the multipliers of a solved
        point.
        """
        return np.asarray(self._d_places - self._b_places @ point.z[: self._b_places.shape[1]])

    def over_simplex(self, corners: Sequence[tuple[float, ...]], offsets: Array) -> "ConicFamily":
        """Return the family with the parameters in constraints free in a simplex, less a function of them.

        ``offsets`` are its values at the corners; it is affine between them, and weighs 1 like the first part.
        """
        first, more = np.array(corners[0]), len(corners) - 1
        steps = np.array(corners[1:]) - first
        copy_over = copy.copy(self.at(corners[0]))
        n, m = self.q.shape[1], self.b.size
        rises = steps @ self._b_places
        change = (np.abs(steps) @ np.abs(self._b_places)).sum(axis=0)
        copy_over._b_rounding = np.append(copy_over._b_rounding + relative_rounding(4.0) * change, np.zeros(more + 1))
        shares = sp.vstack([sp.eye_array(more), sp.csr_array(np.full((1, more), -1.0))])
        copy_over.A = sp.csr_array(
            sp.vstack([sp.hstack([self.A, sp.csr_array(rises.T)]), sp.hstack([sp.csr_array((more + 1, n)), shares])])
        )
        copy_over.b = np.concatenate([copy_over.b, np.zeros(more), [1.0]])
        levels = np.array([float(np.array(corner) @ self._d_places) for corner in corners]) - offsets
        added = np.concatenate([np.zeros(n), levels[1:] - levels[0]])
        copy_over.q = np.vstack([np.hstack([self.q, np.zeros((len(self.q), more))]), added])
        copy_over.d = np.append(self.d, levels[0])
        n_parts, filled = self._P.shape
        copy_over._P = np.vstack([np.hstack([self._P, np.zeros((n_parts, more))]), np.zeros(filled + more)])
        copy_over._indices = np.append(self._indices, np.arange(n, n + more))
        copy_over._indptr = np.append(self._indptr, filled + 1 + np.arange(more))
        copy_over._upper = np.append(self._upper, np.ones(more, dtype=bool))
        copy_over._diagonal = np.append(self._diagonal, filled + np.arange(more))
        copy_over._single = np.append(self._single, np.ones(more, dtype=bool))
        copy_over._blocks = np.append(self._blocks, np.full(more, self.reach.size))
        copy_over.reach = np.append(self.reach, 1.0)
        copy_over.cones = [*self.cones, ("NonNeg", slice(m, m + more + 1), [more + 1])]
        copy_over._free = True
        copy_over.witnesses = {}
        copy_over._arrange()
        return copy_over

    def extent(self, values: Sequence[float]) -> tuple[float, float]:
        """Return the smallest and the largest value of the one parameter in constraints at which the problem has a
        point.
        """
        import clarabel

        (rise,) = self._b_places
        n = self.q.shape[1]
        A = sp.csc_matrix(sp.hstack([-self.A, sp.csr_array(-rise[:, None])]))
        size = max(abs(value) for value in values)
        ends = []
        for sign in (1.0, -1.0):
            q = np.append(np.zeros(n), sign)
            room = [sign * end for end in (min(values), max(values))]
            # beyond the box nothing is asked
            rows = sp.csc_matrix(([-sign], ([0], [n])), shape=(1, n + 1))
            cones = [*self._cones, clarabel.NonnegativeConeT(1)]
            b = np.append(self._b0, -(min(room) - 1e-3 * (size or 1.0)))
            solver = clarabel.DefaultSolver(
                sp.csc_matrix((n + 1, n + 1)), q, sp.csc_matrix(sp.vstack([A, rows])), b, cones, _settings()
            )
            solution = solver.solve()
            if str(solution.status) not in _USABLE:  # at no value
                return np.inf, -np.inf
            ends.append(float(np.array(solution.x)[n]))
        return ends[0], ends[1]

    #: Whether parameters in constraints are variables here, and a function of them is the last part.
    _free = False

    def coefficients(self, theta: Sequence[float]) -> Array:
        """Return the weights of the parts: 1 and the values of the weights."""
        return np.array([1.0, *theta, 1.0] if self._free else [1.0, *theta])

    def matrix(self, weights: Array, sizes: bool = False) -> Any:
        """Return P at the weights of the parts, or the sum of absolute values."""
        data = np.abs(weights) @ np.abs(self._P) if sizes else weights @ self._P
        return sp.csr_array((data, self._indices, self._indptr), shape=(self.q.shape[1],) * 2)

    def solve(self, theta: Sequence[float]) -> ConicPoint:
        """Solve at theta; raise where the solver finds no point."""
        weights = self.coefficients(theta)
        data, q = weights @ self._P, weights @ self.q
        status = ""
        best: ConicPoint | None = None
        unit = self._unit
        data, q = unit**2 * data, unit * q
        for scale in self._scales(data, q):
            solution = self._solution(data / scale, q / scale)
            x, z, status = unit * np.array(solution.x), np.array(solution.z) * (scale / unit), str(solution.status)
            if status not in _USABLE or not (np.isfinite(x).all() and np.isfinite(z).all()):
                continue
            best = ConicPoint(x, z)
            if status == "Solved":
                break
        if best is None:
            raise SolverError(f"Clarabel found no optimum at {tuple(map(float, theta))}: {status}")
        return best

    def _scales(self, data: Array, q: Array) -> Iterator[float]:
        """Yield what the objective is divided by, in turn: a solver that stalls at one may not at another."""
        size = max(float(np.abs(q).max(initial=0.0)), float(np.abs(data).max(initial=0.0)))
        scale = power_of_two(size) if size > 0.0 else 1.0
        for factor in (1.0, 1.0 / 64.0, 64.0):
            yield scale * factor
            self._solver = None

    def _solution(self, data: Array, q: Array) -> Any:
        import clarabel

        if self._solver is None:
            n, mask = q.size, self._upper
            counts = np.bincount(np.repeat(np.arange(n), np.diff(self._indptr))[mask], minlength=n)
            starts = np.concatenate([[0], np.cumsum(counts)])
            P = sp.csc_matrix((data[mask], self._indices[mask], starts), shape=(n, n))
            A, b = sp.csc_matrix(-self.A), self.b / self._unit
            self._solver = clarabel.DefaultSolver(P, q, A, b, self._cones, _settings())
        else:
            self._solver.update(P=data[self._upper], q=q)
        return self._solver.solve()

    def remember(self, x: Array) -> None:
        """Keep the sizes of the variables of a point: they set the assumed radius."""
        np.maximum.at(self.reach, self._blocks, np.abs(x))

    def radius(self) -> Array:
        """Return the largest distance of each coordinate of an optimum from a point that is assumed."""
        least = 1e-3 * float(self.reach.max(initial=0.0))
        return FAR * np.maximum(self.reach, least)[self._blocks]

    def feasible(self, x: Array) -> tuple[Array, Array] | None:
        """Return a point near x, and its distance in every coordinate to a feasible one; None where none is found.

        The point is moved towards one in the interior of the cones, as little as is enough.
        """
        if self._feasibility is None:
            self._feasibility = Feasibility(self.program)
            self._inside = self._interior(x)
        if self._inside is not None:
            for share in (0.0, *(self._share * 8.0**k for k in range(-1, 8))):
                if share > _LARGEST_SHARE:
                    break
                point = self._feasibility.at(x + share * (self._inside - x))
                if point is not None:
                    self._share = max(share, _SMALLEST_SHARE)
                    return point.x, point.radius
        near = self._feasibility.near(x)
        return None if isinstance(near, str) else (near.x, near.radius)

    def _interior(self, x: Array) -> Array | None:
        """Return a point near x with room in every cone; None where there is none."""
        import clarabel

        n, m = x.size, self.b.size
        room = np.zeros(m)
        room[self.program.linear] = 1.0
        for cone in self.program.cone_blocks:
            if cone.kind == "SOC":
                room[cone.rows.start] = 1.0
            elif cone.kind == SEMIDEFINITE:
                room[cone.rows] = vector_of(np.eye(order_of(cone.rows.stop - cone.rows.start)))
            else:
                room[cone.rows] = (-1.0, 1.0, 1.0)
        size = max(float(np.abs(x).max(initial=0.0)), np.finfo(float).tiny)
        A = sp.vstack([sp.hstack([-self.A, room[:, None]]), sp.csr_array(([1.0], ([0], [n])), shape=(1, n + 1))])
        P = sp.diags_array(np.append(np.full(n, 1e-3 / size**2), 0.0))
        q = np.append(-1e-3 * x / size**2, -1.0 / size)
        cones = [*self._cones, clarabel.NonnegativeConeT(1)]
        solver = clarabel.DefaultSolver(
            sp.csc_matrix(P), q, sp.csc_matrix(A), np.append(self.b, size), cones, _settings()
        )
        point = np.array(solver.solve().x)
        return point[:n] if np.isfinite(point).all() and point[n] > 1e-9 * size else None

    def terms(self, x: Array, radius: Array) -> tuple[Array, Array]:
        """Return what each part of the objective is at x, and how far that may be from a feasible point's."""
        values, errors = np.zeros(len(self.d)), np.zeros(len(self.d))
        size = np.abs(x)
        for i, (q, d, data) in enumerate(zip(self.q, self.d, self._P, strict=True)):
            P = sp.csr_array((data, self._indices, self._indptr), shape=(x.size,) * 2)
            Px, sizes = P @ x, abs(P) @ size
            values[i] = 0.5 * float(x @ Px) + float(q @ x) + d
            products = float((self._depths + x.size) @ (size * (0.5 * sizes + np.abs(q))))
            rounding = relative_rounding(1.0) * products + relative_rounding(4.0) * abs(d)
            change = float((np.abs(Px) + np.abs(q) + 0.5 * (abs(P) @ radius)) @ radius)
            errors[i] = 1.01 * (rounding + change) + relative_rounding(4.0) * abs(values[i])
        return values, errors

    def lower_bound(self, theta: Sequence[float], point: ConicPoint, enough: float = 0.0) -> float:
        """Bound the optimal value at theta from below by a dual point, with all rounding.

        The point is corrected until its residual takes off no more than ``enough``.
        """
        weights = self.coefficients(theta)
        P, q = self.matrix(weights), weights @ self.q
        best, before = -np.inf, np.inf
        w, z = point
        for correction in range(_CORRECTIONS + 1):
            z = in_dual_cone(self.program, z)
            r = P @ w + q - self.A.T @ z
            value, loss = self._dual_value(weights, P, q, w, z, r)
            if value > best:
                best, self.witnesses[tuple(theta)] = value, ConicPoint(w, z)
            if correction == _CORRECTIONS or loss <= max(_SETTLED * abs(value), enough) or loss > 0.5 * before:
                break
            before = loss
            step = self._correct(P, w, z, r)
            if step is None:
                break
            w, z = w + step[0], z + step[1]
        return best

    def _dual_value(self, weights: Array, P: Any, q: Array, w: Array, z: Array, r: Array) -> tuple[float, float]:
        """Return the lower bound, and how much the residual of stationarity takes off."""
        sizes = self.matrix(weights, sizes=True) @ np.abs(w)
        linear = np.abs(weights) @ np.abs(self.q)
        slack = self.A @ w + self.b
        spread = self._sizes @ np.abs(w) + np.abs(self.b)
        error = relative_rounding(1.0) * self._depths * (sizes + linear + self._sizes.T @ np.abs(z))
        diagonal = P.data[self._diagonal]
        alone = self._single & (diagonal > 0.0)
        radius = np.abs(r) + error
        room = 2.0 * np.where(alone, diagonal, 1.0)
        with np.errstate(over="ignore"):  # infinite where nothing is known
            lost = np.where(alone, radius**2 / room, radius * self.radius())
        d = float(weights @ self.d)
        value = 0.5 * float(w @ (P @ w)) + float(q @ w) - float(z @ slack) + d
        size = float(np.abs(w) @ (0.5 * sizes + linear)) + float(np.abs(z) @ spread)
        lengths = w.size + z.size + int(self._heights.max(initial=0)) + int(self._depths.max(initial=0))
        rounding = relative_rounding(lengths) * size + relative_rounding(8.0) * float(np.abs(weights) @ np.abs(self.d))
        rounding += float(np.abs(z) @ self._b_rounding)
        loss = 1.001 * float(lost.sum())
        return value - loss - 1.01 * rounding, loss

    def _correct(self, P: Any, w: Array, z: Array, r: Array) -> tuple[Array, Array] | None:
        """Return a change of w and z that removes r in the coordinates that a diagonal entry of P does not bound.

        Multipliers of inequalities move in proportion to their size, so that they stay positive; a matrix Z of them by
        Z S Z with any symmetric S.
        """
        weak = ~(self._single & (P.data[self._diagonal] > 0.0))
        if not weak.any():
            return None
        key = weak.tobytes()
        if key not in self._weak_columns:
            self._weak_columns[key] = sp.csr_matrix(self.A[:, weak].T), sp.csr_matrix(self.A[:, weak])
        AT, A = self._weak_columns[key]
        largest = max(float(np.abs(z).max(initial=0.0)), np.finfo(float).tiny)
        scale = np.maximum(np.abs(z), _SMALLEST * largest)
        scale[self.program.equal] = largest
        squares = scale**2
        matrices = [cone.rows for cone in self.program.cone_blocks if cone.kind == SEMIDEFINITE]
        if matrices:
            scaling = _scaling_of_matrices(squares, z, matrices, _SMALLEST * largest)
            scaled = sp.csr_matrix(AT @ scaling)
        else:
            scaling = sp.diags_array(squares)
            scaled = sp.csr_matrix((AT.data * squares[AT.indices], AT.indices, AT.indptr), shape=AT.shape)
        gram = scaled @ A
        rows = None
        if not self._single[weak].all():
            size = float(np.abs(w).max(initial=0.0)) or 1.0
            rows = size * sp.csr_matrix(P[weak])
            gram = gram + rows @ rows.T
        diagonal = gram.diagonal()
        diagonal[diagonal <= 0.0] = 1.0
        try:
            factor = splu(sp.csc_matrix(gram) + sp.csc_matrix(sp.diags_array(1e-10 * diagonal)))
        except RuntimeError:
            return None
        dw, dz, target = np.zeros_like(w), np.zeros_like(z), -r[weak]
        for _ in range(3):
            y = factor.solve(target)
            dz -= scaling @ (A @ y)
            if rows is not None:
                dw += size * (rows.T @ y)
            target = -r[weak] + AT @ dz - (0.0 if rows is None else (P @ dw)[weak])
        return (dw, dz) if np.isfinite(dz).all() and np.isfinite(dw).all() else None

    def assign(self, x: Array) -> None:
        """Give the variables of the problem the values of a point."""
        solution = SimpleNamespace(
            x=x,
            z=np.zeros(self.b.size),
            s=self.b + self.A @ x,
            status="Solved",
            obj_val=0.0,
            solve_time=0.0,
            iterations=0,
        )
        self.problem.unpack_results(solution, self._chain, self._inverse)


def _scaling_of_matrices(squares: Array, z: Array, matrices: Sequence[slice], least: float) -> Any:
    """Return the map of multipliers that is diagonal but for matrices, where it takes S to Z S Z."""
    kept = np.arange(z.size)
    diagonal = squares.copy()
    blocks = []
    for rows in matrices:
        diagonal[rows] = 0.0
        at = kept[rows]
        Z = matrix_of(z[rows])
        Z = Z + least * np.eye(Z.shape[0])
        block = np.array([vector_of(Z @ matrix_of(unit) @ Z) for unit in np.eye(at.size)])
        i, j = np.meshgrid(at, at, indexing="ij")
        blocks.append(sp.csr_array((block.ravel(), (i.ravel(), j.ravel())), shape=(z.size, z.size)))
    return sp.csr_array(sum(blocks, sp.csr_array(sp.diags_array(diagonal))))


def _on_pattern(P: Any, rows: Any, columns: Any) -> Array:
    """Return the entries of P at the places of a pattern."""
    full = sp.csr_array(P)
    return np.asarray(full[rows, columns]).ravel()


def _clarabel_cones(cone_list: Sequence[Any]) -> list[Any]:
    import clarabel

    cones: list[Any] = []
    for kind, rows, sizes in cone_list:
        if kind == "Zero":
            cones.append(clarabel.ZeroConeT(rows.stop - rows.start))
        elif kind == "NonNeg":
            cones.append(clarabel.NonnegativeConeT(rows.stop - rows.start))
        elif kind == "SOC":
            cones += [clarabel.SecondOrderConeT(size) for size in sizes]
        elif kind == SEMIDEFINITE:
            cones += [clarabel.PSDTriangleConeT(order_of(size)) for size in sizes]
        else:
            cones += [clarabel.ExponentialConeT() for _ in sizes]
    return cones


def _settings() -> Any:
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose, settings.presolve_enable, settings.max_threads = False, False, 1
    settings.input_sparse_dropzeros = settings.chordal_decomposition_enable = False  # numbers are changed afterwards
    settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = _ACCURACY
    return settings
