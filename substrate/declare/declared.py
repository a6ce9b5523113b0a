"""What the pages of :mod:`problems` share, so that a page holds its variables, constraints, rows and citations only.

A declared problem is the cvxpy problem with the names of its parts, ready to be solved, read and certified.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificate import NO_BOUND, Accuracy, Certificate, Row
from substrate.declare.solvers import SolverRecord, Units, solve_problem, tolerance_of
from substrate.errors import DeclarationError
from substrate.operators.gram import Gram

__all__ = ["AGREEMENT", "TOLERANCE", "UNSTATED", "Declared", "agreement_rows", "given_gram", "own_gram"]

#: Relative residual at which a point of an unknown solver is accepted.
TOLERANCE = 1e-6
#: The reason on a certificate where a declaration does not state in what its objective is strongly convex.
UNSTATED = "the declaration does not state in what its objective is strongly convex"
#: Two computations of the same number agree within this multiple of the tolerance.
AGREEMENT = 10.0


@dataclass(frozen=True)
class Declared:
    """One model as one convex problem.

    Parameters
    ----------
    title
        The model's name, with the equations it states.
    problem
        The ``cvxpy.Problem``; DCP, and DPP in its parameters, or the declaration is refused.
    parameters
        The cvxpy parameters by name; assign ``declared.parameters["gamma"].value`` and solve again.
    values
        How to read each quantity of the paper, in the paper's sign, off a solved problem. Each is an attribute too:
        ``declared.support_values``.
    rows
        The certificate rows at a tolerance, recomputed from the solved problem's numbers.
    record
        Facts for the certificate: kernel, Gram matrix, ranks.
    units
        How large each quantity is at a trivial point; an agreement is measured in these units where the quantity itself
        vanishes.
    unit
        A unit of y in which a trivial point costs about 1, in which the problem is solved first: tolerances of solvers
        are absolute in part.
    accuracy
        The row that bounds how far the fitted values of the current point are from the exact optimum, by the strong
        convexity of the objective; or the reason why there is no bound.
    """

    title: str
    problem: Any
    parameters: Mapping[str, Any]
    values: Mapping[str, Callable[[], Any]]
    rows: Callable[[float], tuple[Row, ...]]
    record: Callable[[], tuple[tuple[str, str], ...]]
    units: Callable[[], Mapping[str, float]] = dict
    unit: Callable[[], float] | None = None
    accuracy: Callable[[], Accuracy] | str = UNSTATED
    _log: list[SolverRecord] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.problem.is_dcp():
            raise DeclarationError(f"{self.title} is not convex by cvxpy's rules: {self.problem}")
        if not self.problem.is_dpp():
            raise DeclarationError(f"{self.title} is not affine in its parameters (DPP): {self.problem}")

    def solve(
        self,
        solver: str | None = None,
        *,
        verbose: bool = False,
        time_limit: float | None = None,
        warn: bool = True,
        **options: Any,
    ) -> "Declared":
        """Solve with the named solver, or with the first of the stated order whose residuals we accept.

        ``time_limit`` is in seconds for all solvers together, and ``warn`` whether to warn where no point is accepted,
        as in :func:`~substrate.declare.solvers.solve_problem`.
        """
        unit = 1.0 if self.unit is None else self.unit()
        record = solve_problem(
            self.problem,
            self._worst,
            solver,
            units=(Units(unit, unit * unit), Units()) if unit != 1.0 else (Units(),),
            verbose=verbose,
            time_limit=time_limit,
            warn=warn,
            **options,
        )
        self._log[:] = [record]
        return self

    def solution(self) -> dict[str, Array]:
        """Return all quantities of the solved problem by name."""
        return {name: self._read(name) for name in self.values}

    def certificate(self, against: Mapping[str, Array] | None = None, tolerance: float | None = None) -> Certificate:
        """Return the report on the current point; ``against`` adds the agreement with another computation of them."""
        self._read(next(iter(self.values)))
        chosen = self._tolerance() if tolerance is None else tolerance
        rows = self.rows(chosen)
        if against is not None:
            rows += agreement_rows(self.solution(), against, AGREEMENT * chosen, self.units())
        facts = self.record()
        if callable(self.accuracy):
            rows = (self.accuracy(), *rows)
        else:
            facts = (*facts, (NO_BOUND, self.accuracy))
        solver = self._log[-1].facts() if self._log else (("solver", f"cvxpy directly: {self.problem.status}"),)
        return Certificate(self.title, rows, (*facts, *solver))

    @property
    def solver_record(self) -> SolverRecord | None:
        """Return the record of the last :meth:`solve`."""
        return self._log[-1] if self._log else None

    def __getattr__(self, name: str) -> Array:
        if name.startswith("_") or name not in self.values:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return self._read(name)

    def _read(self, name: str) -> Array:
        if any(variable.value is None for variable in self.problem.variables()):
            raise DeclarationError(f"{self.title}: call solve() before reading {name!r}")
        return np.asarray(self.values[name](), dtype=np.float64)

    def _worst(self, tolerance: float) -> float:
        return max(row.relative / row.tolerance for row in self.rows(tolerance))

    def _tolerance(self) -> float:
        made_by = [attempt.solver for record in self._log for attempt in record.attempts if attempt.accepted]
        return tolerance_of(made_by[-1]) if made_by else TOLERANCE


def agreement_rows(
    solution: Mapping[str, Array],
    reference: Mapping[str, Array],
    tolerance: float,
    units: Mapping[str, float] | None = None,
) -> tuple[Row, ...]:
    """Return one row per shared name: the largest difference against the largest entry, or a thousandth of its unit.

    A bias is measured against its whole unit, as the fitted values in which it is a summand: near zero it has no size.
    """
    shared = [name for name in solution if name in reference]
    least = {name: (1.0 if name == "bias" else 1e-3) * unit for name, unit in (units or {}).items()}
    return tuple(
        Row(
            name=f"agreement: {name.replace('_', ' ')}",
            value=float(np.max(np.abs(solution[name] - reference[name]))),
            scale=max(float(np.max(np.abs(reference[name]), initial=0.0)), least.get(name, 0.0)),
            tolerance=tolerance,
            formula=f"max |{name} - closed form|",
        )
        for name in shared
    )


def given_gram(K: Any) -> Gram:
    """Return the Gram that was given, or one of the matrix that was given."""
    return K if isinstance(K, Gram) else Gram.from_matrix(K)


def own_gram(K: Any) -> Gram:
    """Return a Gram of the same matrix that a closed form may factor in place."""
    return Gram.from_matrix(K.matrix if isinstance(K, Gram) else K)
