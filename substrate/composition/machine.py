"""A hierarchical machine: substrates, and any convex terms and constraints on them, as ONE cvxpy problem."""

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.certificates import Certificate, Row
from substrate.composition.compiled import CompiledSubstrate
from substrate.composition.lagrangian import constraint_rows, stationarity_row
from substrate.composition.level import Substrate
from substrate.composition.result import Expansion, Result
from substrate.errors import DeclarationError
from substrate.solvers import SolverRecord, solve_problem

__all__ = ["Machine"]

_TOLERANCE = 1e-6


class Machine:
    """Levels above one or several substrates.

    Parameters
    ----------
    *substrates
        The substrates, each once (a list is accepted too).
    minimize
        A convex cvxpy expression of the substrates' expressions, of parameters and of variables of one's own.
    subject_to
        Convex cvxpy constraints.

    Attributes
    ----------
    problem : cvxpy.Problem
        What is solved: the place-holders replaced by well-conditioned coordinates.
    """

    def __init__(self, *substrates: Any, minimize: Any, subject_to: Iterable[Any] = ()) -> None:
        flat = [s for item in substrates for s in (item if isinstance(item, (list, tuple)) else (item,))]
        if not flat or not all(isinstance(s, Substrate) for s in flat):
            raise DeclarationError(f"a machine is built on substrates, received {substrates!r}")
        if len({id(s) for s in flat}) != len(flat):
            raise DeclarationError("a substrate is named twice")
        self.substrates: tuple[Substrate, ...] = tuple(flat)
        objective = cp.Constant(minimize) if isinstance(minimize, numbers.Real) else minimize
        if not isinstance(objective, cp.Expression) or not objective.is_scalar():
            raise DeclarationError(f"minimize must be a scalar cvxpy expression, received {minimize!r}")
        self._given = list(subject_to)
        if not all(isinstance(constraint, cp.Constraint) for constraint in self._given):
            raise DeclarationError(
                f"subject_to holds cvxpy constraints, received {[type(c).__name__ for c in self._given]}; a comparison "
                "of two numbers is a plain bool, so make sure that one side is an expression of the substrate"
            )
        self._compile(objective)

    def solve(self, solver: str | None = None, *, verbose: bool = False, **parameters: Any) -> Result:
        """Set parameters by name, solve, and return the solution; options of a solver go through ``problem.solve``."""
        self._set(parameters)
        record = solve_problem(self.problem, self._worst, solver, verbose=verbose)
        for compiled in self._compiled:
            compiled.write_back()
        for mine, theirs in zip(self._given, self._own, strict=True):
            for dual, other in zip(mine.dual_variables, theirs.dual_variables, strict=True):
                dual.save_value(other.value)
        return Result(
            float(self.problem.objective.value),
            {parameter.name(): parameter.value for parameter in self.problem.parameters()},
            tuple(_expansion(compiled) for compiled in self._compiled),
            self.certificate(record),
            record,
        )

    def certificate(self, record: SolverRecord | None = None) -> Certificate:
        """The report on the values the problem's variables hold now."""
        facts = [fact for compiled in self._compiled for fact in compiled.record()]
        facts += [(f"parameter {p.name()}", f"{p.value}") for p in self.problem.parameters()]
        return Certificate("Machine", self._rows(_TOLERANCE), (*facts, *(record.facts() if record else ())))

    def _compile(self, objective: Any) -> None:
        leaves = {id(v) for part in (objective, *self._given) for v in part.variables()}
        self._compiled = [
            CompiledSubstrate(s, tuple(h for h in s.holders() if id(h.leaf) in leaves)) for s in self.substrates
        ]
        exchange: dict[int, Any] = {}
        for compiled in self._compiled:
            exchange |= compiled.replacements()
        total = objective.tree_copy(exchange)
        for compiled in self._compiled:
            if compiled.substrate.ridge > 0.0:
                total = total + 0.5 * compiled.substrate.ridge * compiled.squared_norm()
        self._own = [constraint.tree_copy(exchange) for constraint in self._given]
        _refuse_non_convex(objective, total, self._given, self._own)
        structure = [constraint for compiled in self._compiled for constraint in compiled.constraints]
        self.problem = cp.Problem(cp.Minimize(total), [*self._own, *structure])
        foreign = [v for v in self.problem.variables() if v.name() in ("alpha", "f", "component", "squared_norm")]
        known = {id(compiled.z) for compiled in self._compiled}
        if any(id(v) not in known and v.name() != "alpha" for v in foreign):
            raise DeclarationError(
                "a term speaks of a substrate that the machine was not given; name all its substrates"
            )
        if not self.problem.is_dpp():
            raise DeclarationError(
                "the machine is convex but not affine in its parameters (DPP), so every new value would compile it "
                "anew; write products of parameters, or functions of one, as a parameter of their own"
            )
        names = [parameter.name() for parameter in self.problem.parameters()]
        if len(set(names)) != len(names):
            raise DeclarationError(
                f"two parameters share a name: {sorted(names)}; give each cp.Parameter its own name="
            )

    def _set(self, values: Mapping[str, Any]) -> None:
        parameters = {parameter.name(): parameter for parameter in self.problem.parameters()}
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
        value = float(self.problem.objective.value)
        names = [constraint.label or f"constraint {k + 1}" for k, constraint in enumerate(self._own)]
        rows = [row for compiled in self._compiled for row in compiled.rows(tolerance)]
        rows += constraint_rows(self._own, names, value, tolerance)
        rows.append(
            stationarity_row(self.problem.objective, self.problem.constraints, self.problem.variables(), tolerance)
        )
        return tuple(rows)

    def _worst(self, tolerance: float) -> float:
        return max(row.relative / row.tolerance for row in self._rows(tolerance))


def _refuse_non_convex(objective: Any, total: Any, given: list[Any], own: list[Any]) -> None:
    """Name the term or constraint that breaks cvxpy's rules, as the user wrote it."""
    if not total.is_convex():
        terms = objective.args if type(objective).__name__ == "AddExpression" else [objective]
        copies = total.args if type(total).__name__ == "AddExpression" else [total]
        bad = [str(term) for term, copy in zip(terms, copies, strict=False) if not copy.is_convex()]
        raise DeclarationError(
            f"the objective is not convex by cvxpy's rules; see the term {bad[0] if bad else objective}. Minimise "
            "convex functions (squares, norms, huber, pos), scaled by non-negative numbers or parameters"
        )
    for constraint, copy in zip(given, own, strict=True):
        if not copy.is_dcp():
            raise DeclarationError(
                f"the constraint {constraint} is not convex by cvxpy's rules; write convex <= concave or affine == affine"
            )


def _expansion(compiled: CompiledSubstrate) -> Expansion:
    s = compiled.substrate
    a, b = compiled.coefficients(), compiled.bias()
    f = s.gram.product(a) + b
    e = s.y - f if s.task == "regression" else 1.0 - s.y * f
    parts = range(len(s.components))
    variation = np.array([float(np.abs(s.kernel_rows(None, part) @ a).max()) for part in parts])
    return Expansion(s, s.signs * a, b, e, f, max(float(a @ (f - b)), 0.0), variation)
