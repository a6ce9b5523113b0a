"""A hierarchical machine: substrates, and any convex terms and constraints on them, as one cvxpy problem."""

import numbers
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array, positive
from substrate.certificates import NO_BOUND, Certificate, Row
from substrate.composition.accuracy import AnswerCheck, OptimalValue
from substrate.composition.compiled import CompiledSubstrate
from substrate.composition.conic import Witness, witness_of
from substrate.composition.everywhere import ShapeConstraint
from substrate.composition.level import Substrate
from substrate.composition.outputs import declared_outputs, linear_parts
from substrate.composition.place_holders import Standing, give_new_identities, size_at
from substrate.composition.refusals import (
    find_contradiction,
    refuse_broadcast,
    refuse_incomplete,
    refuse_non_convex,
    refuse_parameter_names,
    refuse_parameters,
)
from substrate.composition.result import Result
from substrate.composition.row_method import ROWS, RowMethod, RowSolution
from substrate.composition.shape_oracle import ShapePlan
from substrate.composition.shaped_machine import solve_shaped
from substrate.composition.span import penalises
from substrate.errors import CertificateError, DeclarationError, SolverError
from substrate.solvers import (
    OUT_OF_TIME,
    Answer,
    Attempt,
    SolverRecord,
    Units,
    solve_problem,
    take_answer,
    tolerance_of,
)

__all__ = ["Machine", "Trials"]


_UNSOLVABLE = {
    "infeasible": "its constraints contradict each other; leave some out, or give them slack",
    "unbounded": "its objective falls without end; add a penalty, such as s.squared_norm, or a bound",
}


class _UnsolvableError(SolverError):
    """The problem has no solution; ``word`` is infeasible or unbounded, ``reason`` says who found it."""

    def __init__(self, word: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.word, self.reason = word, reason


class Trials:
    """The latest witness, the rows and the witness of the best point so far, and every solver's status."""

    def __init__(self) -> None:
        self.witness: Witness | None = None
        self._words: dict[str, str] = {}
        self._best: tuple[float, Witness | None] = (np.inf, None)

    def begin(self) -> None:
        """Forget earlier solves."""
        self._words, self._best = {}, (np.inf, None)

    def keep(self, problem: Any, answer: Answer) -> None:
        """Record a solver's status and point; two solvers suffice to state that no solution exists."""
        self.witness = witness_of(problem, answer)
        self._words[answer.solver] = answer.status
        self.refuse_unsolvable(among=2)

    def weigh(self, rows: tuple[Row, ...]) -> float:
        """Return the largest ``relative / tolerance`` of the latest point's rows."""
        worst = max(row.relative / row.tolerance for row in rows)
        if worst < self._best[0]:
            self._best = (worst, self.witness)
        return worst

    def settle(self) -> None:
        """Return to the witness of the best point, which is the one that was kept."""
        self.witness = self._best[1]

    def refuse_unsolvable(self, among: int = 1) -> None:
        """Raise with the reason if this many solvers agree that no solution exists."""
        for word, why in _UNSOLVABLE.items():
            accepted = (word,) if among > 1 else (word, f"{word}_inaccurate")
            solvers = [solver for solver, status in self._words.items() if status in accepted]
            if len(solvers) >= among:
                verb = "reports" if len(solvers) == 1 else "report"
                reason = f"{' and '.join(solvers)} {verb} that the machine is {word}"
                raise _UnsolvableError(word, reason, f"{reason}: {why}") from None


_TOLERANCE = 1e-6
#: Share of its unit by which a number is measured where the targets are zero, and everything vanishes at the optimum.
_FAINT = 1e-6
#: What a machine is compiled to, where it is asked for.
_COMPILED = frozenset({"problem", "fitted_points", "_compiled", "_answer", "_compiled_constraints"})


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
    shapes : tuple of ShapePlan
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
        constraints = [subject_to] if isinstance(subject_to, (cp.Constraint, ShapeConstraint)) else list(subject_to)
        shapes = [constraint for constraint in constraints if isinstance(constraint, ShapeConstraint)]
        self._constraints = [constraint for constraint in constraints if not isinstance(constraint, ShapeConstraint)]
        if not all(isinstance(constraint, cp.Constraint) for constraint in self._constraints):
            raise DeclarationError(
                f"subject_to holds cvxpy constraints, received {[type(c).__name__ for c in self._constraints]}; a "
                "comparison of two numbers is a plain bool, so make sure that one side is an expression of the "
                "substrate"
            )
        refuse_broadcast([objective, *self._constraints])
        self._prepare(objective)
        self._shape_parts = (shapes, minimize, predict)
        self.shapes = self._plan_shapes(*self._shape_parts[:2])

    def _plan_shapes(self, shapes: list[ShapeConstraint], minimize: Any) -> tuple[ShapePlan, ...]:
        """Return the shapes that hold everywhere, refused here where they cannot be proved."""
        for s in (s for shape in shapes for s in shape.substrates):
            if not any(s is substrate for substrate in self.substrates):
                raise DeclarationError("a shape is of a substrate that the machine was not given")
            if not penalises({h.role for h in s.holders() if id(h.leaf) in {id(v) for v in minimize.variables()}}):
                raise DeclarationError(
                    "a shape that holds everywhere needs the norm of w in the objective, as 0.5 * s.squared_norm: what "
                    "is proved between points follows from it"
                )
        return tuple(ShapePlan.of(shape) for shape in shapes)

    def with_cuts(self, cuts: list[Any]) -> "Machine":
        """Return the machine with constraints at points in place of its shapes."""
        _, minimize, predict = self._shape_parts
        constraints = [*self._constraints, *cuts]
        return Machine(*self.substrates, minimize=minimize, subject_to=constraints, predict=predict, task=self.task)

    def optimal_value(self) -> "OptimalValue | str":
        """Return what is known of the optimal value at the latest solution, or why nothing is."""
        return self._answer.optimal_value(self.problem, self._trials.witness)

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

    def _prepare(self, objective: Any) -> None:
        #: One solve at a time: the values of variables and parameters belong to the problem, not to a thread.
        self.lock = threading.RLock()
        self._trials = Trials()
        self._record: SolverRecord | None = None
        self._objective = objective
        self._bounded = True
        self._shaped: Result | None = None
        self._row_solution: RowSolution | None = None
        self._compiled_only = False
        self._row_method = RowMethod.of(objective, self._constraints, self.substrates, self.outputs, self._labels[0])
        if self._row_method is None:
            self._compile(objective)
        else:
            refuse_parameter_names(objective.parameters())

    def __repr__(self) -> str:
        names = [parameter.name() for parameter in self._objective.parameters()]
        parameters = f", parameters {', '.join(names)}" if names else ""
        count = len(self._constraints)
        constraints = f", {count} constraint{'s' if count > 1 else ''}" if count else ""
        return f"<Machine on {', '.join(map(repr, self.substrates))}{constraints}{parameters}>"

    def __getattr__(self, name: str) -> Any:
        # a machine that is solved row by row is compiled where its problem is asked for
        if name not in _COMPILED or "_row_solution" not in self.__dict__:
            raise AttributeError(f"a machine has no attribute {name!r}")
        with self.lock:
            if name not in self.__dict__:
                self._compile(self._objective)
            return self.__dict__[name]

    def __getstate__(self) -> dict[str, Any]:
        """Return the declaration; it is compiled and solved again after unpickling."""
        names = ("substrates", "outputs", "task", "_labels", "_constraints", "_objective", "_shape_parts")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        expressions = [self._objective, *self._constraints]
        if self._shape_parts[0]:
            expressions.append(self._shape_parts[1])
        give_new_identities([*expressions, *(h.leaf for s in self.substrates for h in s.holders())])
        self._prepare(self._objective)
        self.shapes = self._plan_shapes(*self._shape_parts[:2])

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

        ``time_limit`` is in seconds for all solvers together, as in :func:`~substrate.solvers.solve_problem`.
        ``options`` are passed to the named solver instead of our accurate ones; its point is judged by the same rows.
        ``certify=False`` leaves out the bound on the answer if the compiled problem is solved; the rows of its
        optimality stay. Several threads may call it: they wait for each other.
        """
        with self.lock:
            self._bounded = bool(certify)
            if not self.shapes:
                return self._solve(solver, verbose, time_limit, parameters, options or {})
            if options:
                raise DeclarationError(
                    "options are of one solve, and a shape that holds everywhere takes several: leave them out"
                )
            if not certify:
                raise DeclarationError("a shape that holds everywhere is solved by its bound: leave certify out")
            self._set(parameters)
            self._shaped = solve_shaped(self, self.shapes, solver, verbose, time_limit)
            return self._shaped

    def solve_program(self, **parameters: Any) -> Result:
        """Solve the compiled problem, never row by row; if several biases are optimal, its multipliers give the
        bias.
        """
        with self.lock:
            self._compiled_only = True
            try:
                return self.solve(**parameters)
            finally:
                self._compiled_only = False

    def _solve(
        self,
        solver: str | None,
        verbose: bool,
        time_limit: float | None,
        parameters: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> Result:
        self._set(parameters)
        if time_limit is not None:
            time_limit = positive(time_limit, "time_limit")
        self._trials.begin()
        self._row_solution = None
        earlier: tuple[Attempt, ...] = ()
        by_rows = self._row_method is not None and not self._compiled_only and not options
        if by_rows and (solver is None or str(solver).upper() == ROWS):
            start = time.perf_counter()
            attempt = self._solve_by_rows(verbose, time_limit)
            if attempt is not None and (attempt.accepted or attempt.out_of_time or solver is not None):
                return self._row_result(attempt)
            earlier, self._row_solution = () if attempt is None else (attempt,), None
            if time_limit is not None and attempt is not None:
                time_limit = max(time_limit - (time.perf_counter() - start), 1e-3)
        try:
            self._record = solve_problem(
                self.problem,
                self._worst,
                solver,
                units=(self._units(),),
                report=partial(self._trials.keep, self.problem),
                verbose=verbose,
                time_limit=time_limit,
                **options,
            )
        except _UnsolvableError as error:
            raise self._explain(error) from None
        except SolverError:
            try:
                self._trials.refuse_unsolvable()
            except _UnsolvableError as error:
                raise self._explain(error) from None
            raise
        self._record = SolverRecord((*earlier, *self._record.attempts))
        self._trials.settle()
        return self._result(self._record)

    def take_optimum(self, x: Array, z: Array, **parameters: Any) -> Result:
        """Return the result at another optimum of the compiled problem than a solver's, judged like that.

        ``x`` and ``z`` are its point and multipliers in the numbers that cvxpy gives to Clarabel.
        """
        with self.lock:
            self._set(parameters)
            self._trials.begin()
            self._row_solution, self._bounded = None, True
            data, chain, inverse = self.problem.get_problem_data("CLARABEL", solver_opts={})
            solution = SimpleNamespace(
                x=x,
                z=z,
                s=data["b"] - data["A"] @ x,
                status="Solved",
                obj_val=0.0,
                solve_time=0.0,
                iterations=0,
            )
            answer = take_answer(self.problem, solution, data["param_prob"], chain, inverse)
            self._trials.keep(self.problem, answer)
            worst = self._worst(_TOLERANCE)
            attempt = Attempt(
                solver="CLARABEL", status="another optimum", unit=1.0, worst=worst, accepted=worst <= 1.0, seconds=0.0
            )
            self._record = SolverRecord((attempt,))
            self._trials.settle()
            return self._result(self._record)

    def _result(self, record: SolverRecord) -> Result:
        """Return the result at the present values of the variables and multipliers."""
        expansions = tuple(compiled.expansion() for compiled in self._compiled)
        for expansion in expansions:
            expansion.substrate.remember(expansion.value_of)
        self._warn_of_directions()
        for given_constraint, solved_constraint in zip(self._constraints, self._compiled_constraints, strict=True):
            for dual, solved_dual in zip(
                given_constraint.dual_variables, solved_constraint.dual_variables, strict=True
            ):
                dual.save_value(solved_dual.value)
        rows = None
        if self._row_method is not None:
            rows = self._row_method.of_coefficients(expansions[0].coefficients, float(expansions[0].b))
        return Result(
            objective=float(self.problem.objective.value),
            parameters={parameter.name(): parameter.value for parameter in self.problem.parameters()},
            expansions=expansions,
            certificate=self.certificate(),
            solver_record=record,
            outputs=self.outputs,
            declared=(self._objective, len(self._constraints)),
            task=self.task,
            rows=rows,
        )

    def _explain(self, error: _UnsolvableError) -> SolverError:
        """Return the same error with the names of the constraints that contradict each other, if they can be found."""
        if error.word != "infeasible":
            return SolverError(str(error))
        structure = [c for compiled in self._compiled for c in (*compiled.constraints, *compiled.definitions())]
        unit = max(compiled.unit for compiled in self._compiled)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = find_contradiction(self._compiled_constraints, self._constraint_names(), structure, unit)
        if names is None:
            return SolverError(str(error))
        if not names:
            return SolverError(
                f"{error.reason}: its constraints can be met, but only just, or not where its objective is finite; "
                "give them slack, or change the terms that have a domain"
            )
        *leading, last = names
        if not leading:
            return SolverError(f"{error.reason}: {last} cannot be met by any f; leave it out, or give it slack")
        return SolverError(
            f"{error.reason}: {', '.join(leading)} and {last} contradict each other, and without any one of them the "
            "others can be met; leave one out, or give it slack"
        )

    def _constraint_names(self) -> list[str]:
        """Return the names of the constraints in certificates and errors: their labels, or their numbers."""
        return [constraint.label or f"constraint {k}" for k, constraint in enumerate(self._constraints, start=1)]

    def _solve_by_rows(self, verbose: bool, time_limit: float | None) -> Attempt | None:
        """Solve row by row; None if the objective turns out to be another one."""
        if self._row_method is None:
            return None
        start = time.perf_counter()
        solution = self._row_method.solve(time_limit)
        if not solution:
            return None
        is_found = isinstance(solution, RowSolution)
        worst = solution.worst() if isinstance(solution, RowSolution) else np.inf
        status = "optimal" if is_found else f"{solution} {time_limit:g} s" if solution == OUT_OF_TIME else str(solution)
        seconds = time.perf_counter() - start
        if verbose:
            print(f"{ROWS}: {status}, {worst:.1e} of the tolerance", file=sys.stderr)
        self._row_solution = solution if isinstance(solution, RowSolution) else None
        return Attempt(solver=ROWS, status=status, unit=1.0, worst=worst, accepted=bool(worst <= 1.0), seconds=seconds)

    def _row_result(self, attempt: Attempt) -> Result:
        """Return the solution that was found row by row; it warns where that is not good enough."""
        solution, self._record = self._row_solution, SolverRecord((attempt,))
        if solution is None:
            longer = "rescale the data, or allow a longer time_limit"
            advice = longer if attempt.out_of_time else "leave solver= out to try the others"
            error = SolverError(f"no solver returned a point ({attempt}); {advice}")
            error.attempts = (attempt,)
            raise error
        if not attempt.accepted:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(f"the certificate does not hold: {attempt}", ConvergenceWarning, stacklevel=4)
        expansion = solution.expansion()
        expansion.substrate.remember(expansion.value_of)
        return Result(
            objective=solution.own_rows[2],
            parameters={parameter.name(): parameter.value for parameter in self._parameters()},
            expansions=(expansion,),
            certificate=self._row_certificate(solution),
            solver_record=self._record,
            outputs=self.outputs,
            declared=(self._objective, len(self._constraints)),
            task=self.task,
            rows=solution,
        )

    def _row_certificate(self, solution: RowSolution) -> Certificate:
        """Return the report on a solution by rows."""
        facts = [(f"parameter {p.name()}", f"{p.value}") for p in self._parameters()]
        facts += self._record.facts() if self._record else ()
        return solution.certificate(facts)

    def certificate(self) -> Certificate:
        """Return the report on the present values of the problem's variables."""
        with self.lock:
            if self._row_solution is not None:
                solution, method = self._row_solution, self._row_method
                return self._row_certificate(solution if method is None else method.at_present_parameters(solution))
            return self._certificate() if self._shaped is None else self._shaped.certificate

    def _certificate(self) -> Certificate:
        if any(variable.value is None for variable in self.problem.variables()):
            raise CertificateError("there is nothing to certify yet; solve the machine first")
        attempts = self._record.attempts if self._record else ()
        made_by = [attempt.solver for attempt in attempts if attempt.accepted]
        facts = [fact for compiled in self._compiled for fact in compiled.record()]
        answer, remarks = self._bound()
        facts += remarks
        facts += [(f"parameter {p.name()}", f"{p.value}") for p in self.problem.parameters()]
        facts += self._record.facts() if self._record else ()
        rows = self._rows(tolerance_of(made_by[-1]) if made_by else _TOLERANCE)
        rows += tuple(row for compiled in self._compiled for row in compiled.missing_values_row())
        return Certificate("Machine", rows if answer is None else (answer, *rows), tuple(facts))

    def _compile(self, objective: Any) -> None:
        leaves = {id(v) for expression in (objective, *self._constraints) for v in expression.variables()}
        self._compiled = [
            CompiledSubstrate(s, tuple(h for h in s.holders() if id(h.leaf) in leaves), label)
            for s, label in zip(self.substrates, self._labels, strict=True)
        ]
        judged = {id(v) for v in objective.variables()}
        #: Points besides the training points whose values enter the objective, as in (20) and (23).
        self.fitted_points = tuple(
            holder.points
            for compiled in self._compiled
            for holder in compiled.mentioned
            if holder.role == "f" and holder.points is not None and id(holder.leaf) in judged
        )
        self._answer = AnswerCheck(self._compiled, self.outputs)
        exchange = {key: value for compiled in self._compiled for key, value in compiled.replacements().items()}
        total = objective.tree_copy(dict(exchange))
        bounded = {key: value for compiled in self._compiled for key, value in compiled.bounded_norm().items()}
        self._compiled_constraints = [constraint.tree_copy(exchange | bounded) for constraint in self._constraints]
        refuse_non_convex(objective, total, self._constraints, self._compiled_constraints)
        structure = [constraint for compiled in self._compiled for constraint in compiled.constraints]
        definitions = [definition for compiled in self._compiled for definition in compiled.definitions()]
        problem = cp.Problem(cp.Minimize(total), [*self._compiled_constraints, *structure, *definitions])
        refuse_incomplete(problem, self._compiled)
        self.problem = problem
        present = {id(variable) for variable in problem.variables()}
        for part in linear_parts(self.outputs):
            if id(part.weights) not in present:
                raise DeclarationError(
                    f"predict uses the weights {part.weights}, which are no variable that a term or a constraint of "
                    "the machine contains"
                )
        refuse_parameters(self.problem)

    def _warn_of_directions(self) -> None:
        for row in (row for compiled in self._compiled for row in compiled.missing_values_row()):
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(
                f"the certificate does not hold: {row.value:.0f} of {row.scale:.0f} directions of the kernel are too "
                "small to be represented and are left out, and nothing penalises w, so that the exact optimum uses "
                "them. Add a penalty, such as s.squared_norm",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _parameters(self) -> list[Any]:
        """Return the parameters, whether or not the machine is compiled."""
        return list((self.problem if self._row_method is None else self._objective).parameters())

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

    def _rows(self, tolerance: float) -> tuple[Row, ...]:
        cost = self._trivial_cost() + abs(float(self.problem.objective.value))
        if all(compiled.has_zero_targets for compiled in self._compiled):
            cost = max(cost, _FAINT * self._unit_cost())
        cost = cost or 1.0
        unit = max(compiled.unit for compiled in self._compiled)
        names = self._constraint_names()
        rows = [row for compiled in self._compiled for row in compiled.rows(tolerance)]
        rows += [
            _feasibility_row(constraint, name, unit, tolerance)
            for constraint, name in zip(self._compiled_constraints, names, strict=True)
        ]
        if self._trials.witness is not None:
            rows += self._trials.witness.rows(self.problem, cost, tolerance, unit)
        return tuple(rows)

    def _trivial_cost(self) -> float:
        """Return the objective of a constant machine: the size with which errors are compared."""
        objective, variables = self.problem.objective, self.problem.variables()
        means = {id(compiled.shift): compiled.mean for compiled in self._compiled[:1]}
        constant = [np.full(variable.shape, means.get(id(variable), 0.0)) for variable in variables]
        zero = [np.zeros(variable.shape) for variable in variables]
        # a constant target costs nothing; the size is then a millionth of its level
        return size_at(objective, variables, constant) + 1e-6 * size_at(objective, variables, zero)

    def _unit_cost(self) -> float:
        """Return the objective of a machine of the size of the targets, zero where it is not defined there."""
        unit = max(compiled.spread for compiled in self._compiled)
        variables = self.problem.variables()
        sized = [np.full(variable.shape, unit / max(variable.size, 1) ** 0.5) for variable in variables]
        return size_at(self.problem.objective, variables, sized)

    def _worst(self, tolerance: float) -> float:
        with np.errstate(all="ignore"):  # a divergent point is judged like any other
            rows = self._rows(tolerance)
            if all(row.passes for row in rows):  # then by its answer too
                answer, _ = self._bound()
                rows = rows if answer is None else (answer, *rows)
            return self._trials.weigh(rows)

    def _bound(self) -> tuple[Row | None, tuple[tuple[str, str], ...]]:
        """Return the bound on the answer and further facts; no bound if ``certify=False`` left it out."""
        if not self._bounded:
            return None, ((NO_BOUND, "certify=False leaves it out"),)
        return self._answer.row(self.problem, self._trials.witness)

    def _units(self) -> Units:
        """Return the units of the targets; a penalty alone costs nothing at w = 0."""
        unit = max(compiled.spread for compiled in self._compiled)
        return Units(unit, self._trivial_cost() or self._unit_cost() or 1.0)


def _labels_of(substrates: tuple[Substrate, ...]) -> tuple[str, ...]:
    """Return the name of each substrate in the rows of a certificate: its own, or its number among several."""
    names = [s.name for s in substrates if s.name is not None]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DeclarationError(f"two substrates are named {twice[0]!r}; each needs a name of its own")
    several = len(substrates) > 1
    return tuple(s.name or (f"substrate {k}" if several else "") for k, s in enumerate(substrates, start=1))


def _feasibility_row(constraint: Any, name: str, unit: float, tolerance: float) -> Row:
    """Return the violation of a constraint, measured by its sides; affine ones have the unit of the targets too."""
    sizes = [float(np.abs(np.asarray(side.value)).max(initial=0.0)) for side in constraint.args]
    if all(side.is_affine() for side in constraint.args):  # of variables that may all be zero
        sizes.append(unit)
    violation = float(np.max(constraint.violation(), initial=0.0))
    scale = sum(sizes) or unit
    return Row(name=f"{name}: feasible", value=violation, scale=scale, tolerance=tolerance, formula="largest violation")
