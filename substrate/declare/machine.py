"""A hierarchical machine: substrates, and any convex terms and constraints on them, as one cvxpy problem."""

import numbers
import sys
import threading
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import cvxpy as cp

from substrate.arrays import Array, positive
from substrate.declare.conic_method import ConicMethod, Solution
from substrate.declare.level import Substrate
from substrate.declare.outputs import declared_outputs
from substrate.declare.place_holders import RegionConstraint, Standing, give_new_identities
from substrate.declare.refusals import refuse_broadcast, refuse_parameter_names
from substrate.declare.result import Result
from substrate.declare.row_method import ROWS, RowMethod, RowSolution
from substrate.declare.solvers import Attempt, SolverRecord
from substrate.declare.span import penalises
from substrate.errors import DeclarationError, SolverError

__all__ = ["Machine"]


class Machine:
    """Levels above one or several substrates.

    Parameters
    ----------
    *substrates
        The substrates, each once (a list is accepted too).
    minimize
        A convex cvxpy expression of the substrates' expressions, of parameters and of further variables.
    subject_to
        Convex cvxpy constraints; and shapes that hold at all points of a box, see :class:`~substrate.Everywhere`.
    predict
        What ``predict`` of the result returns: a substrate; an affine expression of substrates, linear parts and
        variables of one entry, ``s1 - s2``, ``2.0 * s``, ``s * Column(1)``, ``s.on(0, 2) + LinearPart(w, columns)``,
        ``s - threshold``; or a dict of those, for outputs by name. A machine of one substrate needs none; one of
        several whose substrates all have a name has one output per substrate.
    task
        ``"classification"`` for labels in the place of values: -1 and +1 by the sign of one output, or the name of the
        largest of several. ``result.decision_function`` has the values.

    Attributes
    ----------
    problem : cvxpy.Problem
        The problem that is solved: the place-holders replaced by well-conditioned coordinates. With a shape that holds
        everywhere, the problem without it.
    outputs : mapping
        What is predicted: the terms of each output by its name, None for the only one.
    shapes : tuple of RegionConstraint
        The shapes that hold everywhere.
    """

    def __init__(
        self,
        *substrates: Any,
        minimize: Any,
        subject_to: Iterable[Any] = (),
        predict: Any = None,
        task: str | None = None,
    ) -> None:
        if task not in (None, "classification"):
            raise DeclarationError(f"task is 'classification' for labels, or None for values, received {task!r}")
        self.task = task
        flat = [s for item in substrates for s in (item if isinstance(item, (list, tuple)) else (item,))]
        if not flat or not all(isinstance(s, Substrate) for s in flat):
            raise DeclarationError(f"a machine is built on substrates, received {substrates!r}")
        if len({id(s) for s in flat}) != len(flat):
            raise DeclarationError("a substrate is named twice")
        self.substrates: tuple[Substrate, ...] = tuple(flat)
        self._labels = _labels_of(self.substrates)
        self.outputs = declared_outputs(predict, self.substrates)
        objective = cp.Constant(minimize) if isinstance(minimize, numbers.Real) else minimize
        if not isinstance(objective, cp.Expression) or not objective.is_scalar():
            raise DeclarationError(f"minimize must be a scalar cvxpy expression, received {minimize!r}")
        constraints = [subject_to] if isinstance(subject_to, (cp.Constraint, RegionConstraint)) else list(subject_to)
        self.shapes = tuple(constraint for constraint in constraints if isinstance(constraint, RegionConstraint))
        self._constraints = [constraint for constraint in constraints if not isinstance(constraint, RegionConstraint)]
        if not all(isinstance(constraint, cp.Constraint) for constraint in self._constraints):
            raise DeclarationError(
                f"subject_to holds cvxpy constraints, received {[type(c).__name__ for c in self._constraints]}; a "
                "comparison of two numbers is a plain bool, so make sure that one side is an expression of the "
                "substrate"
            )
        refuse_broadcast([objective, *self._constraints])
        self._objective, self._predicted = objective, predict
        self._prepare()

    def _refuse_shapes(self) -> None:
        """Refuse shapes that hold everywhere where they cannot be proved."""
        leaves = {id(v) for v in self._objective.variables()}
        for s in (s for shape in self.shapes for s in shape.substrates):
            if not any(s is substrate for substrate in self.substrates):
                raise DeclarationError("a shape is of a substrate that the machine was not given")
            if not penalises({h.role for h in s.holders() if id(h.leaf) in leaves}):
                raise DeclarationError(
                    "a shape that holds everywhere needs the norm of w in the objective, as 0.5 * s.squared_norm: what "
                    "is proved between points follows from it"
                )
        for shape in self.shapes:
            shape.refuse()

    def with_cuts(self, cuts: list[Any]) -> "Machine":
        """Return the machine with constraints at points in place of its shapes."""
        declared: dict[str, Any] = {"minimize": self._objective, "predict": self._predicted, "task": self.task}
        return Machine(*self.substrates, subject_to=[*self._constraints, *cuts], **declared)

    def own_variables(self) -> list[Any]:
        """Return the user's own variables in objective and constraints."""
        leaves = [v for expression in (self._objective, *self._constraints) for v in expression.variables()]
        return [v for v in dict.fromkeys(leaves) if not isinstance(v, Standing)]

    def value_at(self, expansions: Iterable[Any], values: list[Any]) -> float:
        """Give place-holders and own variables the values of a solution, and return the objective there."""
        for expansion in expansions:
            expansion.substrate.remember(expansion.value_of)
        for variable, value in zip(self.own_variables(), values, strict=True):
            variable.save_value(value)
        return float(self._objective.value)

    def _prepare(self) -> None:
        #: One solve at a time: the values of variables and parameters belong to the problem, not to a thread.
        self.lock = threading.RLock()
        self._conic: ConicMethod | None = None
        declared = self._objective, self._constraints, self.substrates
        self._rows = RowMethod.of(*declared, self.outputs, self._labels[0])
        if self._rows is None:
            _ = self.conic
        else:
            refuse_parameter_names(self._objective.parameters())
        self._refuse_shapes()

    @property
    def conic(self) -> ConicMethod:
        """The machine as one convex problem; a machine that is solved row by row is compiled where it is asked for."""
        with self.lock:
            if self._conic is None:
                declared = self._objective, self._constraints, self.substrates
                self._conic = ConicMethod(*declared, self._labels, self.outputs)
            return self._conic

    @property
    def problem(self) -> cp.Problem:
        """The compiled problem."""
        return self.conic.problem

    @property
    def fitted_points(self) -> tuple[Any, ...]:
        """Points besides the training points whose values enter the objective, as in (20) and (23)."""
        judged = {id(v) for v in self._objective.variables()}
        holders = [holder for s in self.substrates for holder in s.holders() if id(holder.leaf) in judged]
        return tuple(h.points for h in holders if h.role == "f" and h.points is not None)

    def __repr__(self) -> str:
        names = [parameter.name() for parameter in self._objective.parameters()]
        parameters = f", parameters {', '.join(names)}" if names else ""
        count = len(self._constraints)
        constraints = f", {count} constraint{'s' if count > 1 else ''}" if count else ""
        return f"<Machine on {', '.join(map(repr, self.substrates))}{constraints}{parameters}>"

    def __getstate__(self) -> dict[str, Any]:
        """Return the declaration; it is compiled and solved again after unpickling."""
        names = ("substrates", "outputs", "task", "_labels", "_constraints", "_objective", "shapes", "_predicted")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        leaves = [h.leaf for s in self.substrates for h in s.holders()]
        give_new_identities([self._objective, *self._constraints, *leaves])
        self._prepare()

    def solve(
        self,
        solver: str | None = None,
        *,
        verbose: bool = False,
        time_limit: float | None = None,
        options: Mapping[str, Any] | None = None,
        certify: bool = True,
        **parameters: Any,
    ) -> Result:
        """Set parameters by name, solve, and return the solution.

        ``time_limit`` is in seconds for all solvers together, as in :func:`~substrate.declare.solvers.solve_problem`.
        ``options`` are passed to the named solver instead of our accurate ones; its point is judged by the same rows.
        ``certify=False`` leaves out the bound on the answer if the compiled problem is solved; the rows of its
        optimality stay. Several threads may call it: they wait for each other.
        """
        with self.lock:
            self._set(parameters)
            limit = None if time_limit is None else positive(time_limit, "time_limit")
            if not self.shapes:
                return self._solve(solver, certify, verbose, limit, options or {})
            if options:
                raise DeclarationError(
                    "options are of one solve, and a shape that holds everywhere takes several: leave them out"
                )
            if not certify:
                raise DeclarationError("a shape that holds everywhere is solved by its bound: leave certify out")
            result: Result = self.shapes[0].region.solve(self, solver, verbose, limit)
            return result

    def take_optimum(self, x: Array, z: Array, **parameters: Any) -> Result:
        """Return the result at an optimum of the compiled problem that is known, judged like a solver's; ``x`` and
        ``z`` are its point and multipliers in the numbers that cvxpy gives to Clarabel.
        """
        with self.lock:
            self._set(parameters)
            return self._conic_result(self.conic.take(x, z))

    def _solve(
        self,
        solver: str | None,
        certify: bool,
        verbose: bool,
        time_limit: float | None,
        options: Mapping[str, Any],
    ) -> Result:
        earlier: tuple[Attempt, ...] = ()
        if self._rows is not None and not options and (solver is None or str(solver).upper() == ROWS):
            answer = self._rows.solve(time_limit)
            if answer is not None:
                attempt, solution = answer
                if verbose:
                    print(attempt, file=sys.stderr)
                if attempt.accepted or attempt.out_of_time or solver is not None:
                    return self._row_result(attempt, solution)
                earlier = (attempt,)
                time_limit = None if time_limit is None else max(time_limit - attempt.seconds, 1e-3)
        return self._conic_result(self.conic.solve(solver, certify, verbose, time_limit, options, earlier))

    def _conic_result(self, solution: Solution) -> Result:
        rows = None
        if self._rows is not None:
            (expansion,) = solution.expansions
            rows = self._rows.of_coefficients(expansion.coefficients, float(expansion.b))
        return self._result(solution, rows)

    def _row_result(self, attempt: Attempt, rows: RowSolution | None) -> Result:
        """Return the solution that was found row by row; it warns where that is not good enough."""
        if rows is None:
            longer = "rescale the data, or allow a longer time_limit"
            advice = longer if attempt.out_of_time else "leave solver= out to try the others"
            error = SolverError(f"no solver returned a point ({attempt}); {advice}")
            error.attempts = (attempt,)
            raise error
        if not attempt.accepted:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(f"the certificate does not hold: {attempt}", ConvergenceWarning, stacklevel=4)
        expansion, record = rows.expansion(), SolverRecord((attempt,))
        expansion.substrate.remember(expansion.value_of)
        facts = [(f"parameter {p.name()}", f"{p.value}") for p in self._objective.parameters()]
        certificate = rows.certificate([*facts, *record.facts()])
        return self._result(Solution(rows.own_rows[2], (expansion,), certificate, record), rows)

    def _result(self, solution: Solution, rows: RowSolution | None) -> Result:
        return Result(
            objective=solution.objective,
            parameters={parameter.name(): parameter.value for parameter in self._parameters()},
            expansions=solution.expansions,
            certificate=solution.certificate,
            solver_record=solution.record,
            outputs=self.outputs,
            declared=(self._objective, len(self._constraints)),
            task=self.task,
            rows=rows,
        )

    def _parameters(self) -> list[Any]:
        expressions = (self._objective, *self._constraints)
        return list(dict.fromkeys(parameter for each in expressions for parameter in each.parameters()))

    def _set(self, values: Mapping[str, Any]) -> None:
        parameters = {parameter.name(): parameter for parameter in self._parameters()}
        unknown = sorted(set(values) - set(parameters))
        if unknown:
            raise DeclarationError(f"the machine has no parameter {unknown}; it has {sorted(parameters)}")
        for name, value in values.items():
            try:
                parameters[name].value = value
            except ValueError as error:
                raise DeclarationError(f"parameter {name!r} cannot be {value!r}: {error}") from error
        missing = sorted(name for name, parameter in parameters.items() if parameter.value is None)
        if missing:
            raise DeclarationError(f"parameters {missing} have no value; pass them to solve({missing[0]}=...)")


def _labels_of(substrates: tuple[Substrate, ...]) -> tuple[str, ...]:
    """Return the name of each substrate in the rows of a certificate: its own, or its number among several."""
    names = [s.name for s in substrates if s.name is not None]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DeclarationError(f"two substrates are named {twice[0]!r}; each needs its own name")
    several = len(substrates) > 1
    return tuple(s.name or (f"substrate {k}" if several else "") for k, s in enumerate(substrates, start=1))
