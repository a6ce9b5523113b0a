r"""How far the fitted values of a machine can be from the exact optimum, over all w.

A machine is, with the values :math:`v_j` that it reads, the bias and all other variables in y,

.. math:: \min_{w, y} \; \tfrac c2 w^T w + \tfrac12 y^T P y + q^T y \quad \text{s.t.} \quad
          v_j = \langle w, r_j \rangle + b, \qquad A y + a \in \mathcal{K} .

Let :math:`(\tilde w, \tilde y)` be feasible, :math:`u_j` and :math:`z \in \mathcal{K}^*` multipliers, s the slacks,
:math:`d = (w^\star - \tilde w, y^\star - \tilde y)`, and :math:`r = (c \tilde w - \sum_j u_j r_j, \, r_y)` the
residual of stationarity. By the optimality of :math:`w^\star`

.. math:: \|d\|^2 := c \|d_w\|^2 + d_y^T P d_y \le z^T s - r^T d .

The product is at most :math:`a \|d\| + g^T R` with :math:`a^2 = \|r_w\|^2/c + \sum_j r_j^2/p_j`, where :math:`p_j` is
the only entry of P in its row, and where the others are within R of an optimum; so

.. math:: \|d\| \le \tfrac12 \left( a + \sqrt{a^2 + 4 (z^T s + g^T R)} \right) , \qquad
          p^\star \ge J(\tilde w, \tilde y) - z^T s - g^T R - \tfrac12 a^2 .

R enters linearly under a root. A squared loss determines the fitted values, :math:`\|f - f^\star\|_p \le \|d\|`;
:math:`w^T w` determines them about their mean, :math:`|d_f(x)| \le \|r_x - \bar r\| \, \|d_w\|`.

*All of w.* A solver knows w by coordinates :math:`\zeta`, :math:`v = L \zeta + b`, which leave directions out and have
the rounding of the kernel. With :math:`\rho = c \zeta - L^T u` and the coefficients :math:`A_\zeta \zeta` of
coordinates,

.. math:: \tilde w = \tfrac1c \sum_j \big( u_j + (A_\zeta \rho)_j \big) r_j , \qquad
          c \tilde w - \sum_j u_j r_j = \sum_j (A_\zeta \rho)_j r_j ,

has a residual with nothing in the directions that were cut. Its readings are computed with the matrix of all inner
products of representers; how far they are from :math:`L \zeta`, rounding of the kernel included, is what the equations
of v are taken to be off by.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from substrate.arrays import Array, is_sparse
from substrate.certificate import NO_BOUND, UNPOLISHED, VALUES, Accuracy, Row, Tolerance, accuracy_of_outputs
from substrate.declare.compiled import CompiledSubstrate
from substrate.declare.linear_operators import add_lengths, bound_rounding
from substrate.declare.outputs import LinearPart, One, Outputs, Term, WeightedTerm, base_of, scale_of_targets
from substrate.declare.program import FeasiblePoint, Point, Program
from substrate.declare.span import SubstrateSpan, points_of
from substrate.errors import SolverError
from substrate.numbers import relative_rounding, root_mean_square

__all__ = ["AnswerCheck", "OptimalValue"]

Facts = tuple[tuple[str, str], ...]
Indices = NDArray[np.intp]
#: What a certificate bounds.
FITTED = "fitted values"
FORMULA = "||f - f~|| + c sqrt(z's + |r|'R), f~ of a feasible point; with rounding"
_BY_VALUE = "c sqrt(2 (v - p)), v the value of a feasible machine, p a dual value; with rounding"
_RADIUS = "radius of the check"
_TAKEN = (
    "where squares do not determine a variable, its optimum is taken to be within 1000 times (its size + the spread of "
    "y); were it k times farther, the accuracy would be at most sqrt(k) times larger"
)
_NEITHER = (
    "the solver was given neither a squared loss in f nor (w'w)/2, so that the objective's value does not bound the "
    "answer; CLARABEL and SCS take squares as such"
)
_FREE = (
    "squares in the objective determine {known}, but not {free}; add a squared loss in these, or the squares of the "
    "weights of the linear part"
)
_CUT_OFF = (
    "the coordinates leave directions of w out that nothing counts; add s.squared_norm to the objective, and leave "
    "the basis out, for a bound"
)
_NO_INSIDE = "its constraints leave no inside that could be reached from the solver's point"
_ROOM = 1.0 + 1e-3
#: Representers up to which their matrix is made for the check.
_LARGEST = 2000
#: Room for what a step towards feasibility changes in the readings, and how often it is tried.
_MARGIN, _ROUNDS = 1.1, 4
#: Least number of terms that are added up at once, and entries of a column whose sum is formed exactly.
_BLOCK, _LONG = 16, 50
#: Inner products of components lose so many times what inner products of the whole lose.
_COMPONENTS = 16.0


# --- functions over all of w -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Representers:
    """The matrix of inner products of what a substrate reads; the first ``values`` are centred where ``balanced``.

    ``lengths`` are the lengths of the representers, ``relative`` is the rounding of an entry in units of two of them.
    """

    matrix: Array
    lengths: Array
    relative: float
    values: int
    balanced: bool

    @classmethod
    def of(cls, span: SubstrateSpan) -> "_Representers":
        """Return the matrix by the more accurate formula of the kernel, if it has one."""
        kernel, points = span.substrate.kernel, [points_of(span.substrate, reading) for reading in span.readings]
        plain = all(reading.operator is None and reading.part is None for reading in span.readings)
        if plain and not kernel.pairwise and not any(is_sparse(rows) for rows in points):
            every = np.vstack(points)
            G = kernel.enclose(every, every).midpoint
            G, relative = (G + G.T) / 2.0, float(kernel.rounding(every, by_differences=True))
        else:
            readings = [(r.operator, at) for r, at in zip(span.readings, points, strict=True)]
            G, relative = span.matrix(), bound_rounding(kernel, readings)
            relative *= 1.0 if plain or any(operator for operator, _ in readings) else _COMPONENTS
        lengths = np.sqrt(np.maximum(np.diagonal(G), 0.0))
        # the rounding of an operator is relative to the sum of the lengths of all its terms
        terms = [np.zeros(at.shape[0]) for at in points]
        for k, (reading, at) in enumerate(zip(span.readings, points, strict=True)):
            if reading.operator is not None:
                own_kernel = kernel if reading.part is None else span.substrate.components[reading.part]
                terms[k] = add_lengths(own_kernel, reading.operator, at)
        return cls(G, np.maximum(lengths, np.concatenate(terms)), relative, span.values, span.balanced)

    def balance(self, pull: Array) -> Array:
        """Return coefficients; the coefficients of values of f sum to zero if they are centred."""
        if not self.balanced:
            return pull
        pull = pull.copy()
        pull[: self.values] -= pull[: self.values].mean()
        return pull

    def readings(self, a: Array) -> tuple[Array, Array]:
        """Return the readings of a function, and how far the readings by the exact kernel can be."""
        length, m = max(_BLOCK, math.isqrt(a.size)), self.values
        blocks = [slice(start, start + length) for start in range(0, a.size, length)]
        values = np.sum([self.matrix[:, rows] @ a[rows] for rows in blocks], axis=0)
        relative = self.relative + relative_rounding(3.0 * (length + len(blocks)) + 8.0)
        radius = relative * self.lengths * float(self.lengths @ np.abs(a))
        if self.balanced:
            values[:m] -= values[:m].mean()
            radius[:m] += float(radius[:m].mean()) + relative_rounding(2.0) * np.abs(values[:m])
        return values, radius

    def norm(self, a: Array, sign: float = 1.0) -> float:
        """Return the norm of a function, rounded up, or down for a negative sign."""
        loss = (self.relative + relative_rounding(2.0 * a.size + 16.0)) * float(self.lengths @ np.abs(a)) ** 2
        return math.sqrt(max(float(a @ (self.matrix @ a)) + sign * loss, 0.0))

    def centred_lengths(self, n: int, centred: bool) -> Array:
        """Return bounds on the lengths of the representers of the first rows, less their mean if asked."""
        if not centred:
            return self.lengths[:n]
        G = self.matrix[:n, :n]
        mean = G.mean(axis=0)
        squares = np.diagonal(G) - 2.0 * mean + mean.mean()
        loss = 4.0 * (self.relative + relative_rounding(2.0 * n + 8.0)) * float(self.lengths[:n].max()) ** 2
        return np.asarray(np.sqrt(np.maximum(squares, 0.0) + loss))


@dataclass(frozen=True, slots=True, eq=False)
class _Function:
    """w of one column of one substrate in a program: its coordinates and weight, and the equations of its readings."""

    compiled: CompiledSubstrate
    representers: _Representers
    z: Indices
    shift: Indices
    weight: float
    rows: Indices
    columns: Indices
    pivots: Array
    places: Indices

    @property
    def coordinates(self) -> Array:
        """The readings of the representers in coordinates."""
        frame = self.compiled.frame
        return frame.training if frame.representers is None else frame.representers

    def coefficients(self, x: Array, z: Array) -> tuple[Array, Array]:
        r"""Return the coefficients of the function, and of its residual :math:`c w - \sum u_j r_j`."""
        u = -self.pivots * z[self.rows]
        rho = self.weight * x[self.z] - self.coordinates[self.places].T @ u
        pull, change = np.zeros(self.representers.lengths.size), self.compiled.frame.expand(rho)
        np.add.at(pull, self.places, u)
        return (self.representers.balance(pull) + change) / self.weight, change

    def missed(self, x: Array, z: Array) -> Array:
        """Return the residuals of the equations of the readings."""
        values, radius = self.representers.readings(self.coefficients(x, z)[0])
        products, sizes = self.coordinates @ x[self.z], np.abs(self.coordinates) @ np.abs(x[self.z])
        off = np.abs(values - products) + radius + relative_rounding(self.z.size + 4.0) * sizes
        return np.asarray(np.abs(self.pivots) * off[self.places])

    def residual(self, x: Array, z: Array) -> float:
        """Return the norm of the residual, with what rounding may change in the pulls."""
        a, change = self.coefficients(x, z)
        rounding = relative_rounding(16.0) * self.weight * float(self.representers.lengths @ np.abs(a))
        return self.representers.norm(change) + rounding

    def fitted(self, point: FeasiblePoint, z: Array) -> tuple[Array, Array]:
        """Return the fitted values, and how far the fitted values of the feasible point may be."""
        n = self.compiled.substrate.n
        values, radius = (side[:n] for side in self.representers.readings(self.coefficients(point.x, z)[0]))
        deviation = 2.0 * float(np.linalg.norm(point.radius[self.z])) * self.representers.lengths[:n]
        bias, bias_radius = float(point.x[self.shift].sum()), float(point.radius[self.shift].sum())
        fitted = values + bias
        return fitted, radius + deviation + bias_radius + relative_rounding(2.0) * np.abs(fitted)

    def lost(self) -> float:
        """Bound how far coordinates can be from the functions that they stand for, by the norms of their readings."""
        A, G = self.compiled.frame.coefficients, self.representers
        images = G.matrix @ A
        if G.balanced:
            images[: G.values] -= images[: G.values].mean(axis=0)
        rounding = 2.0 * (G.relative + relative_rounding(A.shape[0] + 4.0)) * float(np.linalg.norm(G.lengths))
        return float(np.linalg.norm(images - self.coordinates)) + rounding * float(
            np.linalg.norm(G.lengths @ np.abs(A))
        )


def _functions(
    program: Program, compiled: Sequence[CompiledSubstrate], representers: dict[int, _Representers]
) -> list[_Function] | None:
    """Return every w that coordinates do not know exactly; None if one enters by more than readings and w'w."""
    defined = [(each, holder, variable) for each in compiled for holder, variable in each.defined]
    starts = program.equal.size - np.cumsum([variable.size for *_, variable in reversed(defined)])[::-1]
    P, functions = program.alone(program.P[0]), list[_Function]()
    for each in compiled:
        if each.complete:
            continue
        L = each.frame.training if each.frame.representers is None else each.frame.representers
        if each.substrate.basis is not None or "features" not in each.frame.kind or L.shape[0] != each.span.size:
            return None
        if each.span.size > _LARGEST or not each.frame.size:
            return None
        if id(each) not in representers:
            representers[id(each)] = _Representers.of(each.span)
        for column in range(each.z.shape[1] if each.z.ndim == 2 else 1):
            z, shift = np.split(each.places(program.columns, column), [L.shape[1]])
            rows, columns, places = [], [], []
            for start, (owner, holder, variable) in zip(starts, defined, strict=True):
                if owner is each:
                    n = holder.leaf.shape[0]
                    is_training = holder.role == "f" and holder.points is None
                    places.append(
                        np.arange(n) if is_training else each.span.places.get(id(holder.leaf), np.zeros(0, int))
                    )
                    rows.append(program.equal[start + column * n : start + (column + 1) * n])
                    columns.append(program.columns[variable.id] + column * n + np.arange(n))
            if not rows or not (P[z] == P[z[0]]).all() or P[z[0]] <= 0.0:
                return None
            every, read, values = (np.concatenate(blocks) for blocks in (rows, places, columns))
            entries = sp.csc_array(program.A[:, z]).indices
            if read.size != every.size or not np.isin(entries, every).all():
                return None
            pivots = np.asarray(program.A[every, values]).ravel()
            functions.append(
                _Function(each, representers[id(each)], z, shift, float(P[z[0]]), every, values, pivots, read)
            )
    return functions


# --- outputs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Output:
    """Fitted values: sums of substrates and linear parts with weights, their targets and what ``predict`` returns now.

    Without targets, y is None, and the unit is the spread of the fitted values; constants are left out.
    """

    terms: tuple[tuple[Array, CompiledSubstrate | LinearPart], ...]
    column: int
    y: Array | None
    fitted: Callable[[], Array]
    about: str

    def scale(self, weights: Array) -> tuple[float, float]:
        """Return the spread of y and the accepted rounding; without targets, of the fitted values."""
        return scale_of_targets(self.fitted() if self.y is None else self.y, weights)

    @property
    def rows(self) -> Any:
        """The rows of the training points."""
        return next(term.substrate.X for _, term in self.terms if isinstance(term, CompiledSubstrate))


def _list_outputs(compiled: list[CompiledSubstrate], outputs: Outputs, predicted: bool) -> list[_Output]:
    """Return the values of every substrate and the outputs with linear parts; or all that ``predict`` returns."""
    values = []
    for each in compiled if not predicted else ():
        about = f"{FITTED} of {each.label}" if each.label else FITTED
        values += [_output([each], [each.substrate], about, column) for column in _columns(each)]
    for name, terms in outputs.items():
        bases = [base_of(term) for term in terms]
        used = [each for each in compiled if any(each.substrate is base for base in bases)]
        weighted = [term for term in terms if isinstance(term, WeightedTerm)]
        asked = predicted or any(isinstance(base, LinearPart) for base in bases)
        if asked and used and _same_rows(used) and all(term.columns is None for term in weighted):
            about = FITTED if name is None else f"{FITTED} of {name}"
            if len(terms) > 1:
                about = "sums of the substrates' fitted values" if name is None else f"sums of {FITTED} of {name}"
            values += [_output(used, terms, about, column) for column in _columns(used[0])]
    return values


def _columns(compiled: CompiledSubstrate) -> range:
    return range(*compiled.substrate.columns) if compiled.substrate.columns else range(1)


def _same_rows(compiled: list[CompiledSubstrate]) -> bool:
    first = compiled[0].substrate.X
    matrices = [each.substrate.X for each in compiled[1:]]
    return all(X is first or (X.shape == first.shape and not bool((first != X).sum())) for X in matrices)


def _output(compiled: list[CompiledSubstrate], terms: Sequence[Term], about: str, column: int) -> _Output:
    first = compiled[0].substrate
    weighed: list[tuple[Array, Any]] = []
    for base in dict.fromkeys(map(base_of, terms)):
        if isinstance(base, One):
            continue
        summands = [term for term in terms if base_of(term) is base]
        ones = np.ones(first.n)
        weights = np.sum([t.weights(first.X) if isinstance(t, WeightedTerm) else ones for t in summands], axis=0)
        weighed.append((weights, next((each for each in compiled if each.substrate is base), base)))

    def fit_values() -> Array:
        values = [
            (weights * (base.predict(first.X) if isinstance(base, LinearPart) else base.fitted_values()).T).T
            for weights, base in weighed
        ]
        total = np.asarray(np.sum(values, axis=0))
        return total[:, column] if total.ndim == 2 else total

    is_weighted = any(isinstance(term, WeightedTerm) for term in terms)
    # targets that are all zero stand for none, and have no unit
    y = None if is_weighted or first.y is None or not np.any(first.y) else first.y
    if y is None:
        about = about.replace(FITTED, VALUES) if about.startswith(FITTED) else f"{VALUES}: {about}"
    if first.columns:
        y, about = (None if y is None else y[:, column]), f"{about}, column {column}"
    return _Output(tuple(weighed), column, y, fit_values, about)


# --- the check -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bound:
    r"""An output, and for all d: :math:`\|d_f\|_v \le` ``factor`` :math:`\|d\| +` ``remainder``; of values about their
    mean where ``centred``; the values at the point of the check, within a radius.
    """

    output: _Output
    weights: Array
    factor: float
    remainder: float
    centred: bool
    values: Array
    radius: Array

    @property
    def about(self) -> str:
        """Return what is bounded."""
        return f"{self.output.about} about their mean" if self.centred else self.output.about

    def distance(self, near: float) -> float:
        """Return the distance of the reference from the optimum, root mean square."""
        return (self.factor * near + self.remainder) / math.sqrt(float(self.weights.sum()))

    def share(self, near: float) -> float:
        """Return the distance of the reference from the optimum as a share of the tolerance."""
        spread, rounding = self.output.scale(self.weights)
        return self.distance(near) / max(UNPOLISHED * spread, rounding)

    def row(self, near: float) -> Accuracy:
        """Return the row at the present values, with the distance of the predictions from the reference added."""
        spread, rounding = self.output.scale(self.weights)
        fitted = self.output.fitted()
        differences, radius = fitted - self.values, self.radius + relative_rounding(4.0) * np.abs(fitted)
        if self.centred:
            differences = differences - differences.mean()
            radius = radius + radius.mean() + relative_rounding(differences.size) * float(np.abs(differences).mean())
        bound = _ROOM * (root_mean_square(np.abs(differences) + radius, self.weights) + self.distance(near))
        return Tolerance(UNPOLISHED, spread, rounding).row(bound, FORMULA, self.about)


@dataclass(frozen=True, slots=True)
class OptimalValue:
    """A lower bound on the optimal value of a machine over all w, and how near points of nearly that value are.

    ``near`` bounds the distance of the point of the check from the optimum in the norm of the quadratic term.
    """

    lower: float
    near: float
    bounds: tuple[_Bound, ...]

    def accuracy(self, excess: float, tolerance: float) -> Accuracy:
        r"""Return the row of a feasible point whose value is at most ``excess`` above the optimal one.

        The objective less :math:`\tfrac12 \|x\|^2` is convex, so that :math:`\|x - x^\star\|^2` is at most twice the
        excess, and squares determine the fitted values as elsewhere.
        """
        distance, rows = math.sqrt(2.0 * max(excess, 0.0)), []
        for each in self.bounds:
            spread, rounding = each.output.scale(each.weights)
            bound = _ROOM * each.distance(distance)
            rows.append(Tolerance(tolerance, spread, rounding).row(bound, _BY_VALUE, each.about))
        return accuracy_of_outputs(rows)


class AnswerCheck:
    """The accuracy of one machine; the inner products of its representers are kept between checks."""

    def __init__(self, compiled: list[CompiledSubstrate], outputs: Outputs) -> None:
        self._compiled, self._outputs = compiled, outputs
        self._representers: dict[int, _Representers] = {}

    def row(self, witness: tuple[Program, Point] | None) -> tuple[Row | None, Facts]:
        """Return the row and further facts; no row but the reason if there is no bound."""
        optimum = self.optimal_value(witness)
        if isinstance(optimum, str):
            return None, ((NO_BOUND, optimum),)
        worst = max(each.share(optimum.near) for each in optimum.bounds)
        if not worst <= 1.0:
            return None, ((NO_BOUND, f"the check proves no more than {worst:.1e} times what is tolerated"),)
        row = accuracy_of_outputs([each.row(optimum.near) for each in optimum.bounds])
        return row, ((_RADIUS, _TAKEN),)

    def optimal_value(self, witness: tuple[Program, Point] | None) -> OptimalValue | str:
        """Return what is known of the optimal value at a solver's point, or why nothing is."""
        if witness is None:
            return "the solver left no multipliers that can be read, or has cones beyond this check"
        with np.errstate(all="ignore"):
            try:
                return self._check(*witness)
            except np.linalg.LinAlgError as error:
                return f"the linear algebra of the check failed ({error})"
            except SolverError as error:
                return str(error)

    def _check(self, given: Program, solved: Point) -> OptimalValue | str:
        """Return the bounds at a solver's point, or why there are none."""
        program, (x, z) = replace(given), solved  # what is remembered belongs to this check
        P, q, A, b = program.P[0], program.q[0], program.A, program.b[0]
        if not P.nnz:
            return _NEITHER
        if not all(np.isfinite(values).all() for values in (P.data, q, A.data, b, x, z)):
            return "the solver's point, or a number of the problem, is not finite"
        if not all(leaf.id in program.columns for compiled in self._compiled for leaf in compiled.leaves()):
            return "a variable of the machine is in no term of the compiled problem"
        program.rounding = program.rounding.copy()
        program.remember(x)
        program.reach = np.maximum(program.reach, max(each.spread for each in self._compiled))
        functions = _functions(program, self._compiled, self._representers)
        if functions is None:
            return _CUT_OFF
        point, z = _feasible_point(program, functions, x, z)
        ways = [_list_outputs(self._compiled, self._outputs, predicted) for predicted in (False, True)]
        ways = ways if len(self._compiled) > 1 else ways[:1]
        ties = [[_bind(program, functions, point, z, output) for output in outputs] for outputs in ways]
        candidates = next((bounds for bounds in ties if bounds and None not in bounds), [])
        if not candidates:
            fixed_outputs, free_outputs = (
                " and ".join(o.about for o, tie in zip(ways[0], ties[0], strict=True) if (tie is not None) is wanted)
                for wanted in (True, False)
            )
            return _FREE.format(known=fixed_outputs, free=free_outputs) if fixed_outputs and free_outputs else _NEITHER
        near, lower = _distance(program, functions, point, z)
        bounds = tuple(each for each in candidates if each is not None)
        return OptimalValue(lower, near, bounds)


def _feasible_point(program: Program, functions: list[_Function], x: Array, z: Array) -> tuple[FeasiblePoint, Array]:
    """Return a feasible point near x for the machine over all w, and multipliers near z; raise where none is found."""
    unit_weight = np.ones(1)
    z = program.nearest_dual(unit_weight, x, z)
    if not program.tolerates(sum(each.lost() for each in functions)):
        raise SolverError("its equality constraints depend on each other, up to the rounding of the kernel")
    start = x
    for _ in range(_ROUNDS):
        for each in functions:
            program.rounding[each.rows] = np.maximum(program.rounding[each.rows], _MARGIN * each.missed(x, z))
        try:
            point = program.feasible(start, unit_weight)
        except SolverError as error:
            raise error if "depend" in str(error) else SolverError(_NO_INSIDE) from None
        x = point.x
        if all((each.missed(x, z) <= program.rounding[each.rows]).all() for each in functions):
            return point, z
    raise SolverError("the readings of the kernel at the solver's point are not known well enough")


def _distance(program: Program, functions: list[_Function], point: FeasiblePoint, z: Array) -> tuple[float, float]:
    """Return how far the optimum can be from the point in the norm of the quadratic term, and a lower value."""
    unit_weight, weights = np.ones(1), np.abs(z)
    weights[program.equal] = 0.0  # equalities hold exactly
    slack, rounding = program.slack(point.x, program.b[0])
    products = np.where(weights > 0.0, z * slack, 0.0)
    gap = float(products.sum()) + float(weights @ (rounding + abs(program.A) @ point.radius))
    gap = max(gap + relative_rounding(z.size) * float(np.abs(products).sum()), 0.0)
    r, error = program.residual(unit_weight, point.x, z)
    _add_exactly(program, z, r, error)
    sizes = np.abs(r) + error + abs(program.P[0]) @ point.radius
    (value,), (lost,) = program.terms(point.x, point.radius)
    square = 0.0
    for each in functions:
        deviation = 2.0 * each.weight * float(np.linalg.norm(point.radius[each.z]))
        # values are determined by w and the bias
        lengths, column_sizes = each.representers.lengths, sizes[each.columns]
        lengths = lengths[each.places] + (float(lengths.mean()) if each.representers.balanced else 0.0)
        square += (each.residual(point.x, z) + deviation + float(column_sizes @ lengths)) ** 2 / each.weight
        sizes[each.shift] += column_sizes.sum()
        sizes[each.columns] = sizes[each.z] = 0.0
        # w has the norm of the function
        norm = each.representers.norm(each.coefficients(point.x, z)[0], -1.0)
        lost += 0.5 * each.weight * max(float(np.square(point.x[each.z]).sum()) - norm**2, 0.0)
    alone = program.alone(program.P[0])
    single = alone > 0.0
    square += float(np.sum(np.square(sizes[single]) / alone[single]))
    gap += float(sizes[~single] @ program.radius()[~single])
    near = _ROOM * 0.5 * (math.sqrt(square) + math.sqrt(square + 4.0 * gap))
    lower = value + program.d[0] - lost - _ROOM * (gap + 0.5 * square)
    lower -= relative_rounding(8.0) * (abs(value) + abs(float(program.d[0])))
    return near, lower if math.isfinite(lower) else -math.inf


def _add_exactly(program: Program, z: Array, r: Array, error: Array) -> None:
    """Change the residual in long columns of powers of two, such as the column of a bias, to sums without rounding."""
    columns, weak = sp.csc_array(program.A), np.diff(sp.csr_array(program.P[0]).indptr) == 0
    for j in np.flatnonzero((np.diff(columns.indptr) > _LONG) & weak):
        at = slice(columns.indptr[j], columns.indptr[j + 1])
        if (np.abs(np.frexp(columns.data[at])[0]) == 0.5).all():
            r[j] = math.fsum([program.q[0, j], *(-columns.data[at] * z[columns.indices[at]])])
            error[j] = relative_rounding(2.0) * abs(r[j])


def _bind(
    program: Program, functions: list[_Function], point: FeasiblePoint, z: Array, output: _Output
) -> _Bound | None:
    """Return how squares determine the values, or these about their mean; None if they do not."""
    n, column = output.terms[0][0].size, output.column
    values, radius, F = np.zeros(n), np.zeros(n), sp.csr_array((n, point.x.size))
    in_columns, squares = True, list[Array]()
    terms = [term for _, term in output.terms if isinstance(term, CompiledSubstrate)]
    constant = all((weights == weights[0]).all() for weights, _ in output.terms)
    has_linear = len(terms) < len(output.terms)
    centred = any(term.substrate.bias for term in terms) or (output.y is None and has_linear and constant)
    alone = program.alone(program.P[0])
    for weights, term in output.terms:
        if isinstance(term, LinearPart):
            places, M = term.places(program.columns, column), sp.csr_array(term.matrix(output.rows))
            fit = M @ point.x[places]
            fit_radius = abs(M) @ (point.radius[places] + relative_rounding(M.shape[1] + 4.0) * np.abs(point.x[places]))
            columns, squared = M.toarray(), alone[places] > 0.0
            columns = columns - columns.mean(axis=0) if centred else columns
            if not columns[:, ~squared].any():  # nothing in them but constants, which are left out
                squares.append(np.square(weights[:, None] * columns[:, squared]) @ (1.0 / alone[places][squared]))
        else:
            start = next((program.columns[v.id] for h, v in term.defined if h.role == "f" and h.points is None), None)
            in_columns = in_columns and start is not None
            places, M = (start or 0) + column * n + np.arange(n), sp.eye_array(n)
            function = next(
                (f for f in functions if f.compiled is term and f.z[0] == term.places(program.columns, column)[0]), None
            )
            if function is not None:
                fit, fit_radius = function.fitted(point, z)
                lengths = function.representers.centred_lengths(n, centred)
                squares.append(np.square(weights * lengths) / function.weight)
            elif start is None:
                return None
            else:
                fit, fit_radius = point.x[places], point.radius[places]
                coordinates = term.places(program.columns, column)[: term.frame.training.shape[1]]
                if (alone[coordinates] > 0.0).all():
                    K = term.in_variables(column)
                    K = K - K.mean(axis=0) if centred else K
                    squares.append(np.square(weights[:, None] * K) @ (1.0 / alone[coordinates]))
        values, radius = values + weights * fit, radius + np.abs(weights) * fit_radius
        spread = sp.csr_array((M.shape[1], point.x.size))
        if in_columns:
            spread = sp.csr_array((np.ones(places.size), (np.arange(places.size), places)), spread.shape)
        F = sp.csr_array(F + sp.diags_array(weights) @ M @ spread)
    tie = _loss_weights(program, F, np.concatenate([np.zeros(0, np.intp), *(f.z for f in functions)]))
    if in_columns and tie is not None:
        return _Bound(output, tie[0], 1.0 + 1e-9, tie[1], False, values, radius)
    if len(squares) < len(output.terms) or (centred and not constant):
        return None
    # by Cauchy-Schwarz, the squares of the terms add up
    factor = (1.0 + 1e-9) * math.sqrt(float(np.sum(squares)))
    return _Bound(output, np.ones(n), factor, 0.0, centred, values, radius)


def _loss_weights(program: Program, F: Any, coordinates: Indices) -> tuple[Array, float] | None:
    """Return the weights of a squared error of every value F x, and what rounding of F adds; None without them."""
    alone, n = program.alone(program.P[0]), F.shape[0]
    alone[coordinates] = 0.0
    F = sp.csr_array(F)
    F.eliminate_zeros()
    F.sort_indices()
    if not n or (np.diff(F.indptr) == 0).any():
        return None
    lead = F.indices[F.indptr[:-1]]
    if F.nnz == n and (alone[lead] > 0.0).all():  # the square of a value itself
        return alone[lead] / np.square(F.data), 0.0
    rows = sp.csr_array(program.A[program.equal])
    errors = sp.csr_array(rows[:, np.flatnonzero(alone > 0.0)])
    single = np.flatnonzero(np.diff(errors.indptr) == 1)
    at = errors.indptr[single]
    error_columns, scales = np.flatnonzero(alone > 0.0)[errors.indices[at]], errors.data[at]
    plain = rows[single] - sp.csr_array((scales, (np.arange(single.size), error_columns)), (single.size, F.shape[1]))
    entries = sp.csc_array(plain[:, lead])
    entries.eliminate_zeros()
    if (np.diff(entries.indptr) == 0).any():
        return None
    chosen = entries.indices[entries.indptr[:-1]]
    factors = entries.data[entries.indptr[:-1]] / F.data[F.indptr[:-1]]
    if np.unique(error_columns[chosen]).size != n:
        return None
    weights = alone[error_columns[chosen]] * np.square(factors / scales[chosen])
    off = abs(sp.csr_array(sp.diags_array(1.0 / factors) @ plain[chosen]) - F)
    if (off.max(axis=1).toarray().ravel() > 1e-13 * abs(F).max(axis=1).toarray().ravel()).any():
        return None
    if F.nnz > n:
        off = off + relative_rounding(4.0) * abs(F)
    return weights, float(np.linalg.norm(np.sqrt(weights) * (off @ program.radius())))
