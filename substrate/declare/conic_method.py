r"""A machine as one convex problem in well-conditioned coordinates, solved by conic solvers and certified.

cvxpy writes every problem as

.. math:: \min_x \; \tfrac12 x^T P x + q^T x \quad \text{s.t.} \quad s = A x + b \in \mathcal{K},

in which kinks have become cones, and a point is optimal exactly when for some z

.. math:: s \in \mathcal{K}, \qquad z \in \mathcal{K}^*, \qquad P x + q = A^T z, \qquad s^T z = 0

([Boyd2004]_ section 5.9.2). The solver's x and z are witnesses: they are not trusted, and the four conditions are
recomputed from the data. This proves optimality where losses and penalties have kinks, which no finite number of
directions can.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.unary_operators import NegExpression

from substrate.arrays import Array
from substrate.certificate import NO_BOUND, Certificate, Row
from substrate.declare.accuracy import AnswerCheck, Facts, OptimalValue
from substrate.declare.compiled import CompiledSubstrate
from substrate.declare.cones import dual_point, misalignment, violation
from substrate.declare.outputs import Outputs, linear_parts
from substrate.declare.place_holders import PlaceHolder, size_at
from substrate.declare.program import Point, Program, read_answer
from substrate.declare.refusals import (
    find_contradiction,
    refuse_incomplete,
    refuse_non_convex,
    refuse_parameters,
)
from substrate.declare.solvers import Answer, Attempt, SolverRecord, Units, solve_problem, take_answer
from substrate.declare.span import NORMS, KernelExpansion
from substrate.errors import DeclarationError, SolverError

__all__ = ["ConicMethod", "Solution"]

#: A solver's point in the program that it was given.
Witnessed = tuple[Program, Point]

_UNSOLVABLE = {
    "infeasible": "its constraints contradict each other; leave some out, or give them slack",
    "unbounded": "its objective falls without end; add a penalty, such as s.squared_norm, or a bound",
}
_TOLERANCE = 1e-6
#: Share of its unit by which a number is measured where the targets are zero, and everything vanishes at the optimum.
_FAINT = 1e-6


class Solution(NamedTuple):
    """What was found: the objective, the substrates' parts, the certificate, and all attempts."""

    objective: float
    expansions: tuple[KernelExpansion, ...]
    certificate: Certificate
    record: SolverRecord


class _UnsolvableError(SolverError):
    """The problem has no solution."""


class _Trials:
    """The answers of the solvers to one problem: their statuses, and the certificate of the best point."""

    def __init__(self, method: "ConicMethod", certify: bool) -> None:
        self._method, self._certify = method, certify
        self._words: dict[str, str] = {}
        self._latest: Witnessed | None = None
        self._worst = np.inf
        self.witness: Witnessed | None = None
        self.rows: tuple[Row, ...] = ()
        self.facts: Facts = ()

    def keep(self, answer: Answer) -> None:
        """Record a solver's status and point; two solvers suffice to state that no solution exists."""
        self._latest = read_answer(answer)
        self._words[answer.solver] = answer.status
        self.refuse_unsolvable(among=2)

    def weigh(self, tolerance: float) -> float:
        """Return the largest ``relative / tolerance`` of the latest point's rows; keep the rows of the best."""
        answer: Row | None = None
        facts: Facts = ((NO_BOUND, "certify=False leaves it out"),)
        with np.errstate(all="ignore"):  # a divergent point is judged like any other
            rows = self._method.rows(self._latest, tolerance)
            if self._certify and all(row.passes for row in rows):  # then by its answer too
                answer, facts = self._method.check.row(self._latest)
            elif self._certify:
                facts = ((NO_BOUND, "the solver's point is none of an optimum"),)
        rows = rows if answer is None else (answer, *rows)
        worst = max(row.relative / row.tolerance for row in rows)
        if worst < self._worst or not self.rows:
            self._worst, self.witness, self.rows, self.facts = worst, self._latest, rows, facts
        return worst

    def refuse_unsolvable(self, among: int = 1) -> None:
        """Raise with the reason if this many solvers agree that no solution exists."""
        for word, why in _UNSOLVABLE.items():
            accepted = (word,) if among > 1 else (word, f"{word}_inaccurate")
            solvers = [solver for solver, status in self._words.items() if status in accepted]
            if len(solvers) >= among:
                verb = "reports" if len(solvers) == 1 else "report"
                reason = f"{' and '.join(solvers)} {verb} that the machine is {word}"
                if word == "infeasible":
                    why = self._method.explain_infeasible() or why
                raise _UnsolvableError(f"{reason}: {why}")


class ConicMethod:
    """The compiled problem of a machine: the place-holders replaced by coordinates, and the way back."""

    def __init__(
        self,
        objective: Any,
        constraints: list[Any],
        substrates: Sequence[Any],
        labels: Sequence[str],
        outputs: Outputs,
    ) -> None:
        leaves = {id(v) for expression in (objective, *constraints) for v in expression.variables()}
        mentioned = [tuple(h for h in s.holders() if id(h.leaf) in leaves) for s in substrates]
        sums = _find_sums((objective, *constraints), mentioned)
        summed = frozenset(id(leaf) for group in sums for leaf in group)
        self.compiled = [
            CompiledSubstrate(s, holders, label, summed)
            for s, holders, label in zip(substrates, mentioned, labels, strict=True)
        ]
        self.check = AnswerCheck(self.compiled, outputs)
        #: The witness of the latest solution.
        self.witness: Witnessed | None = None
        exchange = {key: value for each in self.compiled for key, value in each.replacements().items()}
        definitions = []
        for first, *others in sums:
            values = cp.Variable(first.shape, name="values")
            definitions.append(values == sum(exchange[id(leaf)] for leaf in (first, *others)))
            exchange |= {id(first): values} | {id(leaf): cp.Constant(np.zeros(leaf.shape)) for leaf in others}
        total = objective.tree_copy(dict(exchange))
        bounded = {key: value for each in self.compiled for key, value in each.bounded_norm().items()}
        self._given, self._solved = constraints, [c.tree_copy(exchange | bounded) for c in constraints]
        refuse_non_convex(objective, total, constraints, self._solved)
        definitions += [definition for each in self.compiled for definition in each.definitions()]
        self._structure = [*(c for each in self.compiled for c in each.constraints), *definitions]
        self.problem = cp.Problem(cp.Minimize(total), [*self._solved, *self._structure])
        refuse_incomplete(self.problem, self.compiled)
        present = {id(variable) for variable in self.problem.variables()}
        for part in linear_parts(outputs):
            if id(part.weights) not in present:
                raise DeclarationError(
                    f"predict uses the weights {part.weights}, which are no variable that a term or a constraint of "
                    "the machine contains"
                )
        refuse_parameters(self.problem)

    def solve(
        self,
        solver: str | None,
        certify: bool,
        verbose: bool,
        time_limit: float | None,
        options: Mapping[str, Any],
        earlier: tuple[Attempt, ...] = (),
    ) -> Solution:
        """Return the solution of the first solver whose point is accepted, or the best point."""
        trials = _Trials(self, certify)
        try:
            record = solve_problem(
                self.problem,
                trials.weigh,
                solver,
                units=(self._units(),),
                report=trials.keep,
                verbose=verbose,
                time_limit=time_limit,
                **options,
            )
        except _UnsolvableError:
            raise
        except SolverError:
            trials.refuse_unsolvable()
            raise
        return self._finish(trials, (*earlier, *record.attempts))

    def take(self, x: Array, z: Array) -> Solution:
        """Return the solution at an optimum that is known, judged like a solver's.

        ``x`` and ``z`` are its point and multipliers in the numbers that cvxpy gives to Clarabel.
        """
        data, chain, inverse = self.problem.get_problem_data("CLARABEL", solver_opts={})
        slack = data["b"] - data["A"] @ x
        point = SimpleNamespace(x=x, z=z, s=slack, status="Solved", obj_val=0.0, solve_time=0.0, iterations=0)
        trials = _Trials(self, certify=True)
        trials.keep(take_answer(self.problem, point, data["param_prob"], chain, inverse))
        worst = trials.weigh(_TOLERANCE)
        attempt = Attempt(
            solver="CLARABEL", status="another optimum", unit=1.0, worst=worst, accepted=worst <= 1.0, seconds=0.0
        )
        return self._finish(trials, (attempt,))

    def _finish(self, trials: _Trials, attempts: tuple[Attempt, ...]) -> Solution:
        """Return the solution at the present values of the variables and multipliers."""
        self.witness, record = trials.witness, SolverRecord(attempts)
        expansions = tuple(each.expansion() for each in self.compiled)
        for expansion in expansions:
            expansion.substrate.remember(expansion.value_of)
        for given, solved in zip(self._given, self._solved, strict=True):
            for dual, solved_dual in zip(given.dual_variables, solved.dual_variables, strict=True):
                dual.save_value(solved_dual.value)
        missing = tuple(row for each in self.compiled for row in each.missing_values_row())
        for row in missing:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(
                f"the certificate does not hold: {row.value:.0f} of {row.scale:.0f} directions of the kernel are too "
                "small to be represented and are left out, and nothing penalises w, so that the exact optimum uses "
                "them. Add a penalty, such as s.squared_norm",
                ConvergenceWarning,
                stacklevel=5,
            )
        facts = [fact for each in self.compiled for fact in each.record()]
        facts += [*trials.facts, *((f"parameter {p.name()}", f"{p.value}") for p in self.problem.parameters())]
        certificate = Certificate("Machine", (*trials.rows, *missing), (*facts, *record.facts()))
        return Solution(float(self.problem.objective.value), expansions, certificate, record)

    def optimal_value(self) -> OptimalValue | str:
        """Return what is known of the optimal value at the latest solution, or why nothing is."""
        return self.check.optimal_value(self.witness)

    def explain_infeasible(self) -> str:
        """Return which constraints contradict each other, in words; nothing if that cannot be found."""
        unit = max(each.unit for each in self.compiled)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = find_contradiction(self._solved, self._names(), self._structure, unit)
        if names is None:
            return ""
        if not names:
            return (
                "its constraints can be met, but only just, or not where its objective is finite; give them slack, or "
                "change the terms that have a domain"
            )
        *leading, last = names
        if not leading:
            return f"{last} cannot be met by any f; leave it out, or give it slack"
        return (
            f"{', '.join(leading)} and {last} contradict each other, and without any one of them the others can be "
            "met; leave one out, or give it slack"
        )

    def _names(self) -> list[str]:
        """Return the names of the constraints in certificates and errors: their labels, or their numbers."""
        return [constraint.label or f"constraint {k}" for k, constraint in enumerate(self._given, start=1)]

    def rows(self, witness: Witnessed | None, tolerance: float) -> tuple[Row, ...]:
        """Return the conditions of the coordinates, of the constraints and of optimality at a solver's point."""
        cost = self._trivial_cost() + abs(float(self.problem.objective.value))
        if all(each.has_zero_targets for each in self.compiled):
            cost = max(cost, _FAINT * self._unit_cost())
        unit = max(each.unit for each in self.compiled)
        rows = [row for each in self.compiled for row in each.rows(tolerance)]
        rows += [
            _feasibility_row(constraint, name, unit, tolerance)
            for constraint, name in zip(self._solved, self._names(), strict=True)
        ]
        if witness is None:
            formula = "the solver's cones or multipliers cannot be read; CLARABEL can be checked"
            return (*rows, Row(name="cones", value=np.inf, scale=1.0, tolerance=tolerance, formula=formula))
        return (*rows, *_optimality_rows(*witness, cost or 1.0, tolerance, unit))

    def _trivial_cost(self) -> float:
        """Return the objective of a constant machine: the size with which errors are compared."""
        objective, variables = self.problem.objective, self.problem.variables()
        means = {id(each.shift): each.mean for each in self.compiled[:1]}
        constant = [np.full(variable.shape, means.get(id(variable), 0.0)) for variable in variables]
        zero = [np.zeros(variable.shape) for variable in variables]
        # a constant target costs nothing; the size is then a millionth of its level
        return size_at(objective, variables, constant) + 1e-6 * size_at(objective, variables, zero)

    def _unit_cost(self) -> float:
        """Return the objective of a machine of the size of the targets, zero where it is not defined there."""
        unit = max(each.spread for each in self.compiled)
        variables = self.problem.variables()
        sized = [np.full(variable.shape, unit / max(variable.size, 1) ** 0.5) for variable in variables]
        return size_at(self.problem.objective, variables, sized)

    def _units(self) -> Units:
        """Return the units of the targets; a penalty alone costs nothing at w = 0."""
        unit = max(each.spread for each in self.compiled)
        return Units(unit, self._trivial_cost() or self._unit_cost() or 1.0)


def _find_sums(expressions: Sequence[Any], mentioned: Sequence[Sequence[PlaceHolder]]) -> list[list[Any]]:
    """Return the values of substrates that occur only as summands of one sum: it takes one definition for all of them.

    Only where w is penalised by its norm: elsewhere a bound on the answer needs the values of each substrate.
    """
    roles = [{holder.role for holder in holders} for holders in mentioned]
    penalised = [holders for holders, has in zip(mentioned, roles, strict=True) if {"norm"} == has & NORMS]
    values = {id(holder.leaf) for holders in penalised for holder in holders if holder.role == "f"}
    nodes: dict[int, Any] = {}
    waiting = list(expressions)
    while waiting:
        node = waiting.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            waiting += node.args
    uses = Counter(id(argument) for node in nodes.values() for argument in node.args)
    sums = []
    for node in nodes.values():
        terms = [term for term in node.args if isinstance(node, AddExpression) and uses[id(term)] == 1]
        negated = [term.args[0] for term in terms if isinstance(term, NegExpression)]
        sums += [[leaf for leaf in side if id(leaf) in values and uses[id(leaf)] == 1] for side in (terms, negated)]
    return [group for group in sums if len(group) > 1 and len({leaf.shape for leaf in group}) == 1]


def _feasibility_row(constraint: Any, name: str, unit: float, tolerance: float) -> Row:
    """Return the violation of a constraint, measured by its sides; affine ones have the unit of the targets too."""
    sizes = [float(np.abs(np.asarray(side.value)).max(initial=0.0)) for side in constraint.args]
    if all(side.is_affine() for side in constraint.args):  # of variables that may all be zero
        sizes.append(unit)
    violation = float(np.max(constraint.violation(), initial=0.0))
    scale = sum(sizes) or unit
    return Row(name=f"{name}: feasible", value=violation, scale=scale, tolerance=tolerance, formula="largest violation")


def _optimality_rows(program: Program, point: Point, cost: float, tolerance: float, natural: float) -> tuple[Row, ...]:
    """Return the four conditions; ``cost`` is the size of the objective, ``natural`` the size of the targets."""
    (x, z), cones = point, program.cones
    P, q, A, b = program.P[0], program.q[0], program.A, program.b[0]
    s, ax, az = A @ x + b, np.abs(x), np.abs(z)
    reach = float((abs(A) @ ax + np.abs(b)).max(initial=0.0))
    pull = float((abs(P) @ ax + np.abs(q) + abs(A).T @ az).max(initial=0.0))
    size = float(ax @ (abs(P) @ ax) + np.abs(q) @ ax + np.abs(b) @ az)
    steepest = float(np.abs(P @ x + q - A.T @ z).max(initial=0.0))
    negative = float(np.abs(dual_point(cones, z) - z).max(initial=0.0))
    # where everything vanishes at the optimum, a number is measured by what a change of the size of the targets
    # adds to the cost
    pull += cost / max(float(ax.max(initial=0.0)), natural)
    weight = float(az.max(initial=0.0)) + cost / max(reach, natural)
    rows = (
        ("cones: feasible", violation(cones, s), max(reach, 1e-6 * natural), "excess of A x + b over K"),
        ("cones: multipliers", negative, weight, "excess of z over K*"),
        ("cones: stationarity", steepest, pull, "max |P x + q - A'z|"),
        ("cones: slackness", misalignment(cones, s, z), size + cost, "|s'z|, cone by cone"),
    )
    return tuple(
        Row(name=name, value=value, scale=scale, tolerance=tolerance, formula=formula)
        for name, value, scale, formula in rows
    )
