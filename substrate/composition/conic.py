r"""The standard form of a cvxpy problem, and the solver's point in it, kept as a witness.

cvxpy writes every problem as

.. math:: \min_x \; \tfrac12 x^T P x + q^T x \quad \text{s.t.} \quad s = A x + b \in \mathcal{K},

in which kinks have become cones, and a point is optimal exactly when for some z

.. math:: s \in \mathcal{K}, \qquad z \in \mathcal{K}^*, \qquad P x + q = A^T z, \qquad s^T z = 0

([Boyd2004]_ section 5.9.2). The solver's z, and its x where the problem's own variables do not determine it (bounds on
terms), are witnesses: they are not trusted, and the four conditions are recomputed from the data and from the present
values of the variables. This proves optimality where losses and penalties have kinks, which no finite number of
directions can.

The distances of vectors from a cone and from its dual use

.. math::

    \mathcal{Q} = \{(t, u) : \|u\| \le t\} = \mathcal{Q}^*, \qquad
    \mathcal{E} = \overline{\{(u, v, w) : v e^{u/v} \le w, \; v > 0\}}, \qquad
    \mathcal{E}^* = \overline{\{(u, v, w) : -u e^{v/u} \le e\, w, \; u < 0\}}

([Boyd2004]_ sections 2.2 and 2.6).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.composition.semidefinite import SEMIDEFINITE

__all__ = [
    "CONES",
    "StandardForm",
    "StandardNumbers",
    "Witness",
    "WitnessedProblem",
    "dual_excess",
    "jordan_product",
    "misalignment",
    "multipliers_of",
    "primal_excess",
]


#: The supported cones, by cvxpy's names.
CONES = frozenset({"Zero", "NonNeg", "SOC", "ExpCone"})

_LARGEST_EXPONENT = 700.0


def primal_excess(kind: str, s: Array, sizes: Sequence[int]) -> float:
    """Return the largest violation among the cones of one known kind and the given sizes that make up s."""
    if kind == "Zero":
        return float(np.abs(s).max(initial=0.0))
    if kind == "NonNeg":
        return float((-s).max(initial=0.0))
    if kind == "SOC":
        return max((float(np.linalg.norm(block[1:]) - block[0]) for block in _split(s, sizes)), default=0.0)
    return max((_exponential(*map(float, block)) for block in _split(s, sizes)), default=0.0)


def dual_excess(kind: str, z: Array, sizes: Sequence[int]) -> float:
    """Return the same for the dual cones: that of zero is the whole space, and all but the exponential cone are
    self-dual.
    """
    if kind == "Zero":
        return 0.0
    if kind == "ExpCone":
        return max((_exponential_dual(*map(float, block)) for block in _split(z, sizes)), default=0.0)
    return primal_excess(kind, z, sizes)


def misalignment(kind: str, s: Array, z: Array, sizes: Sequence[int]) -> float:
    """Return how far s and z are from complementary, to first order in an error of either.

    Entry by entry in the orthant; in the second-order cone by their Jordan product, since s'z depends on the angle
    between two vectors on the boundary only to second order.
    """
    if kind == "SOC":
        pairs = zip(_split(s, sizes), _split(z, sizes), strict=True)
        return max((float(np.abs(jordan_product(p, q)).max(initial=0.0)) for p, q in pairs), default=0.0)
    if kind == "NonNeg":
        return float(np.abs(s * z).sum())
    return 0.0 if kind == "Zero" else abs(float(s @ z))


def jordan_product(s: Array, z: Array) -> Array:
    """Return (s'z, s_0 z_1 + z_0 s_1): zero exactly for complementary vectors of the second-order cone."""
    return np.append(s[1:] * z[0] + s[0] * z[1:], s @ z)


def _split(s: Array, sizes: Sequence[int]) -> list[Array]:
    return np.split(s, np.cumsum(sizes)[:-1])


def _exponential(u: float, v: float, w: float) -> float:
    """Return v exp(u/v) - w, or, at the edge, what is above or below zero."""
    if v <= 0.0:
        return max(-v, u, -w)
    return float(v * np.exp(min(u / v, _LARGEST_EXPONENT)) - w)


def _exponential_dual(u: float, v: float, w: float) -> float:
    """Return -u exp(v/u - 1) - w, or, at the edge, what is above or below zero."""
    if u >= 0.0:
        return max(u, -v, -w)
    return float(-u * np.exp(min(v / u - 1.0, _LARGEST_EXPONENT)) - w)


class StandardNumbers(NamedTuple):
    """P, q, A and b of the standard form."""

    P: Any
    q: Array
    A: Any
    b: Array


class StandardForm:
    """The numbers a solver is given, and the cones the rows of A belong to."""

    def __init__(self, program: Any, solver: str) -> None:
        self.program = program
        self.solver = solver
        # the parameters' values, and the numbers there; at first of no values
        self._at: tuple[Any, StandardNumbers] = (None, StandardNumbers(None, np.zeros(0), None, np.zeros(0)))
        #: The constant of the objective at the parameters' values of the latest ``numbers``.
        self.offset = 0.0
        self.columns = dict(program.var_id_to_col)
        # cvxpy changes the sign of the rows of equalities for a conic solver
        self.sign = 1.0 if program.formatted else -1.0
        self.cones: list[tuple[str, slice, list[int]]] = []
        self.keys: list[int] = []
        start = 0
        for constraint in program.constraints:
            rows = slice(start, start + constraint.size)
            start = rows.stop
            self.keys.append(constraint.id)
            self.cones.append((type(constraint).__name__, rows, _sizes(constraint)))
        kinds = {kind for kind, _, _ in self.cones}
        # ECOS has an order of its own for the entries of an exponential cone
        self.understood = kinds <= CONES and not (solver == "ECOS" and "ExpCone" in kinds)
        self.height = start
        # some solvers receive bounds of variables apart from the rows
        bounds = [getattr(program, name, None) for name in ("lower_bounds", "upper_bounds")]
        self.bounded = any(bound is not None and bool(np.isfinite(bound).any()) for bound in bounds)

    def numbers(self) -> StandardNumbers:
        """Return the numbers at the parameters' present values."""
        program, size = self.program, self.program.x.size
        key = tuple(np.asarray(parameter.value).tobytes() for parameter in program.parameters)
        if self._at[0] != key:
            if program.reduced_P.matrix_data is None:
                P, (q, offset, A, b) = _nothing(size, size), program.apply_parameters()
            else:
                P, q, offset, A, b = program.apply_parameters(quad_obj=True)
            self.offset = float(np.sum(offset))
            rows = (A, b) if self.height else (_nothing(0, size), np.zeros(0))
            self._at = (key, StandardNumbers(P, q, *rows))
        return self._at[1]

    def point(self, x: Array, values: dict[int, Any]) -> Array:
        """Return x with the given values at the places of their variables."""
        x = x.copy()
        for key, value in values.items():
            if key in self.columns:
                start = self.columns[key]
                x[start : start + np.size(value)] = np.ravel(value, order="F")
        return x

    def multipliers(self, duals: dict[int, Array]) -> Array | None:
        """Return z, row by row; None where its order is not known."""
        if not self.understood or not all(key in duals for key in self.keys):
            return None
        blocks = [
            self.sign * duals[key] if kind == "Zero" else duals[key]
            for key, (kind, _, _) in zip(self.keys, self.cones, strict=True)
        ]
        z = np.concatenate([np.zeros(0), *blocks])
        return z if z.size == self.height else None


def _sizes(constraint: Any) -> list[int]:
    """Return the dimensions of the cones of a constraint; of a semi-definite one, the entries of its triangle."""
    if type(constraint).__name__ == SEMIDEFINITE:
        return [order * (order + 1) // 2 for order in constraint.cone_sizes()]
    return list(constraint.cone_sizes()) if hasattr(constraint, "cone_sizes") else [constraint.size]


def _nothing(rows: int, columns: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((rows, columns))


@dataclass(frozen=True, slots=True)
class Witness:
    """A solver's point for a problem in standard form: x, and a multiplier for each cone.

    ``own`` are the identities of the problem's own variables, ``read`` the multipliers of its constraints as cvxpy
    reads them from these; ``unit`` and ``worth`` as in :class:`WitnessedProblem`; ``structured`` is the point of
    a method that used the structure of the program.
    """

    form: StandardForm
    unit: float
    cost_unit: float
    variable_ids: tuple[int, ...]
    x: Array
    duals: dict[int, Array]
    read: tuple[Array, ...]
    structured: Any = None

    def rows(self, problem: Any, cost: float, tolerance: float, natural: float) -> tuple[Row, ...]:
        """Return the conditions at the present values of a problem or its twin; none where a cone is not supported.

        ``cost`` is the size of the objective, ``natural`` that of the targets.
        """
        form, z = self.form, self.form.multipliers(self.duals)
        if z is None:
            return ()
        x = form.point(
            self.x, {key: v.value / self.unit for key, v in zip(self.variable_ids, problem.variables(), strict=True)}
        )
        P, q, A, b = form.numbers()
        s, ax, az = A @ x + b, np.abs(x), np.abs(z)
        cost = cost / self.cost_unit
        reach = float((abs(A) @ ax + np.abs(b)).max(initial=0.0))
        pull = float((abs(P) @ ax + np.abs(q) + abs(A).T @ az).max(initial=0.0))
        size = float(ax @ (abs(P) @ ax) + np.abs(q) @ ax + np.abs(b) @ az)
        steepest = float(np.abs(P @ x + q - A.T @ z).max(initial=0.0))
        outside = max((primal_excess(kind, s[rows], sizes) for kind, rows, sizes in form.cones), default=0.0)
        negative = max((dual_excess(kind, z[rows], sizes) for kind, rows, sizes in form.cones), default=0.0)
        slack = max((misalignment(kind, s[rows], z[rows], sizes) for kind, rows, sizes in form.cones), default=0.0)
        distance = max((float(np.abs(a - b).max(initial=0.0)) for a, b in self._pairs(problem)), default=0.0)
        largest = max((float(np.abs(b).max(initial=0.0)) for _, b in self._pairs(problem)), default=0.0)
        # where everything vanishes at the optimum, a number is measured by what a change of the size of the targets
        # adds to the cost
        pull += cost / max(float(ax.max(initial=0.0)), natural / self.unit)
        weight = float(az.max(initial=0.0)) + cost / max(reach, natural / self.unit)
        return (
            Row(
                name="cones: feasible",
                value=max(outside, 0.0),
                scale=max(reach, 1e-6 * natural / self.unit),
                tolerance=tolerance,
                formula="excess of A x + b over K",
            ),
            Row(
                name="cones: multipliers",
                value=max(negative, 0.0),
                scale=weight,
                tolerance=tolerance,
                formula="excess of z over K*",
            ),
            Row(
                name="cones: stationarity",
                value=steepest,
                scale=pull,
                tolerance=tolerance,
                formula="max |P x + q - A'z|",
            ),
            Row(
                name="cones: slackness",
                value=slack,
                scale=size + cost,
                tolerance=tolerance,
                formula="|s'z|, cone by cone",
            ),
            Row(
                name="cones: multipliers read",
                value=distance,
                scale=largest,
                tolerance=tolerance,
                formula="|lambda - lambda(z)|",
            ),
        )

    def _pairs(self, problem: Any) -> list[tuple[Array, Array]]:
        """Return the multipliers of a problem, each with its expected value."""
        return list(zip(multipliers_of(problem), [self.unit * value for value in self.read], strict=True))


class WitnessedProblem(cp.Problem):  # type: ignore[misc]
    """A cvxpy problem that also reports every solver's point in standard form.

    ``keep`` is called with the solver's name, its status, and the witness (or None) after each solve. A twin of another
    problem (:mod:`substrate.composition.machine`) has variables that times ``unit``, and an objective that times
    ``worth``, are the other's; so are its multipliers times ``unit``.
    """

    def __init__(
        self,
        objective: Any,
        constraints: list[Any],
        keep: Callable[[str, str, Witness | None], None],
        unit: float = 1.0,
        cost_unit: float = 1.0,
    ) -> None:
        super().__init__(objective, constraints)
        self.unit, self.worth = unit, cost_unit
        self._keep = keep

    def solve(self, *args: Any, **kwargs: Any) -> Any:
        """Solve from scratch: cvxpy would project the values of an earlier solve onto bounds that need not hold."""
        for variable in self.variables():
            variable.save_value(None)
        return super().solve(*args, **kwargs)

    def unpack_results(self, solution: Any, chain: Any, inverse_data: Any) -> None:
        """Unpack a solver's answer as cvxpy does, and report it."""
        super().unpack_results(solution, chain, inverse_data)
        for dual in _duals(self):
            if dual.value is not None:
                dual.save_value(dual.value * (self.worth / self.unit**2))
        inner, name = chain.solver.invert(solution, inverse_data[-1]), chain.solver.name()
        witness = None
        if inner.primal_vars and inner.dual_vars is not None and all(dual.value is not None for dual in _duals(self)):
            x = np.asarray(next(iter(inner.primal_vars.values())), dtype=np.float64).ravel()
            duals = {key: np.asarray(dual, dtype=np.float64).ravel(order="F") for key, dual in inner.dual_vars.items()}
            witness = self.witness_of(name, x, duals)
        self._keep(name, str(self.status), witness)

    def witness_of(self, name: str, x: Array, duals: dict[int, Array]) -> Witness:
        """Return the point of a solver, in the numbers that cvxpy gave it, as a witness."""
        form = StandardForm(self.get_problem_data(name)[0]["param_prob"], name)
        variable_ids = tuple(variable.id for variable in self.variables())
        return Witness(
            form=form,
            unit=self.unit,
            cost_unit=self.worth,
            variable_ids=variable_ids,
            x=x,
            duals=duals,
            read=tuple(multipliers_of(self)),
        )


def _duals(problem: Any) -> list[Any]:
    return [dual for constraint in problem.constraints for dual in constraint.dual_variables]


def multipliers_of(problem: Any) -> list[Array]:
    """Return the values of all multipliers of a problem's constraints."""
    return [np.array(dual.value, dtype=np.float64) for dual in _duals(problem)]
