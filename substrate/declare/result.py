"""The solution of a machine: plain numbers, a predictor, a certificate; and its file (:mod:`substrate.files`).

What is a function of the user's own cannot be in a file: a kernel that is a function, the features of a linear part,
the coefficients and maps of a linear operator. The machine itself, its terms and constraints, is not saved; what it
found is. Substrates are declared again from their rows, which checks them as a declaration does.
"""

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np

from substrate.arrays import Array, real_points, to_dense
from substrate.bounds.proof import Proof
from substrate.certificate import Certificate
from substrate.declare.linear_operators import Integral, LinearOperator, Measure, OperatorTerm
from substrate.declare.outputs import Column, LinearPart, One, Outputs, Term, WeightedTerm
from substrate.declare.solvers import Attempt, SolverRecord
from substrate.declare.span import Further, KernelExpansion
from substrate.declare.squares import SquaredRows
from substrate.errors import DataError, DeclarationError
from substrate.files import load as load_file
from substrate.files import save, store_as, stored

__all__ = ["Result", "load"]


#: Quantities of a substrate that a result of one substrate has as attributes.
_QUANTITIES = ("alpha", "b", "c", "e", "f", "norm", "squared_norm", "maximal_variation", "further")


@dataclass(frozen=True, repr=False)
class Result:
    """A machine's solution.

    With one substrate its quantities are attributes here: ``alpha, b, c, e, f, norm, squared_norm, maximal_variation``
    and ``further``; with several, ``result[s]``, or ``result["name"]`` of a substrate with a name, has the quantities
    of s. It can be pickled, and saved to a file that executes nothing.
    """

    objective: float
    parameters: Mapping[str, Any]
    expansions: tuple[KernelExpansion, ...]
    certificate: Certificate
    solver_record: SolverRecord
    outputs: InitVar[Outputs]
    #: ``"classification"`` where labels are predicted.
    task: str | None = None
    #: The objective as declared and the number of constraints; None of a result from elsewhere.
    declared: tuple[Any, int] | None = field(default=None, repr=False, compare=False)
    #: The machine as one with a loss for every row, which is proved in ball arithmetic; None of other machines.
    rows: Any = field(default=None, repr=False, compare=False)
    #: Of a machine whose shapes hold everywhere, a number that the optimal value is at least; what was proved of each
    #: shape; and the points at which it was imposed, with their multipliers.
    lower_bound: float = -math.inf
    shapes: tuple[Any, ...] = ()
    multipliers: tuple[Any, ...] = ()
    _told: list[bool] = field(default_factory=list, init=False, compare=False, repr=False)
    #: The fitted terms of each output by its name; None names the only one.
    fitted: Mapping[str | None, tuple[KernelExpansion | LinearPart | WeightedTerm | One, ...]] = field(init=False)

    def __post_init__(self, outputs: Outputs) -> None:
        fitted = {name: tuple(self._fitted_term(term) for term in terms) for name, terms in outputs.items()}
        object.__setattr__(self, "fitted", fitted)

    def _fitted_term(self, term: Term) -> KernelExpansion | LinearPart | WeightedTerm | One:
        if isinstance(term, WeightedTerm):
            return replace(term, base=self._fitted_term(term.base))
        return (
            term if isinstance(term, One) else term.at_present_value() if isinstance(term, LinearPart) else self[term]
        )

    def __getitem__(self, substrate: Any) -> KernelExpansion:
        named = isinstance(substrate, str)
        for expansion in self.expansions:
            if expansion.substrate is substrate or (named and expansion.substrate.name == substrate):
                return expansion
        if named:
            raise KeyError(f"no substrate of the machine is named {substrate!r}")
        raise KeyError("this substrate is not part of the machine")

    def predict(self, X: Any) -> Any:
        """Return the machine's values at the rows of X: an array, or a dict of arrays where its outputs have names.

        Outputs on different inputs take a dict of their rows by name. With ``task="classification"`` these are labels:
        -1 and +1 by the sign of one output, or the name (of columns the number) of the largest of several.
        """
        if self.shapes and not self._told:
            warn_outside([shape.box for shape in self.shapes], X, self._told)
        values = self.decision_function(X)
        if self.task != "classification":
            return values
        if not isinstance(values, dict):
            return np.argmax(values, axis=1) if values.ndim == 2 else np.where(values < 0.0, -1.0, 1.0)
        return np.array(list(values))[np.argmax(np.column_stack(list(values.values())), axis=1)]

    def decision_function(self, X: Any) -> Any:
        """Return the machine's values at the rows of X, also where it predicts labels."""
        if isinstance(X, Mapping) and set(X) != set(self.fitted):
            raise DataError(
                f"rows are given for the outputs {sorted(map(str, X))}, the machine has {list(self.fitted)}"
            )
        rows = X if isinstance(X, Mapping) else dict.fromkeys(self.fitted, X)
        values = {name: _total([term.predict(rows[name]) for term in terms]) for name, terms in self.fitted.items()}
        return values.get(None, values)

    def component(self, part: int, X: Any) -> Array:
        """Return one component of a machine with one substrate."""
        return self._only("component").component(part, X)

    def derivative(self, X: Any, orders: Any) -> Array:
        """Return the derivative of f of these orders by column, of a machine with one substrate."""
        return self._only("derivative").derivative(X, orders)

    def integral(self, boxes: Any) -> Array:
        """Return the integral of f over boxes or against measures, of a machine with one substrate."""
        return self._only("integral").integral(boxes)

    def apply(self, operator: LinearOperator, X: Any) -> Array:
        """Return what a linear operator makes of f at the rows of X, of a machine with one substrate."""
        return self._only("apply").apply(operator, X)

    def leave_one_out(self) -> Array:
        """Return the errors of the machine without each observation at that observation, of a machine of least squares.

        In closed form, for the parameters it was solved with: ``s.e`` of a machine of one substrate that minimises
        ``s.squared_norm`` and ``cp.sum_squares(s.e)``, with weights; any other machine is refused. Observations may be
        derivatives or integrals, see ``observed`` of :class:`~substrate.Substrate`.
        """
        return self._squared_rows("leave_one_out").leave_one_out()

    def predict_interval(self, X: Any, coverage: float = 0.9, method: str = "conformal") -> Array:
        """Return lower and upper ends for new values at the rows of X, of a machine of least squares, without a refit.

        ``method`` is ``"conformal"`` or ``"jackknife+"``. The guarantees (:mod:`substrate.intervals.conformal`) need
        exchangeable values of equal weight; observations of another kind are taken as fixed.
        """
        return self._squared_rows("predict_interval").predict_interval(self.predict(X), X, coverage, method)

    def prove(self) -> Proof:
        """Bound in ball arithmetic how far the fitted values are from the exact optimum, by the certificate's formula.

        For machines that minimise ``s.squared_norm`` and a loss of every row of one substrate, without constraints,
        whichever solver solved them. It needs python-flint, ``pip install "lssvm-substrate[proof]"``.
        """
        if self.rows is None:
            raise DeclarationError(
                "prove is for machines of s.squared_norm and a loss of every row of one substrate, with a kernel that "
                "has a formula and without constraints; the certificate has what is known of this one in double "
                "precision"
            )
        proof: Proof = self.rows.prove(self.expansions[0].predict(self.expansions[0].substrate.X))
        return proof

    def _squared_rows(self, name: str) -> SquaredRows:
        expansion = self._only(name)
        if self.declared is None:
            raise DeclarationError(
                f"{name} needs the machine itself, which a result from a file does not hold; solve it"
            )
        objective, constraints = self.declared
        return SquaredRows.of(expansion.substrate, objective, self.parameters, constraints > 0)

    def _only(self, name: str) -> KernelExpansion:
        if len(self.expansions) != 1:
            raise DeclarationError(f"{name!r} is ambiguous in a machine of several substrates; ask result[substrate]")
        return self.expansions[0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the solution to a file that :func:`substrate.load` reads back; no pickle, nothing executed.

        The expansions, the outputs, the parameters and the certificate are saved; the machine, its terms and its
        constraints, is not, nor is any function: kernels, features and operators that are functions are refused.
        """
        save(self, path)

    def __repr__(self) -> str:
        verdict = "holds" if self.certificate.holds else "does not hold"
        values = "".join(
            f", {name}={value if np.ndim(value) == 0 else f'<{np.size(value)} numbers>'}"
            for name, value in self.parameters.items()
        )
        substrates = ", ".join(repr(expansion.substrate) for expansion in self.expansions)
        return f"<Result: objective {self.objective:.6g}{values}; its certificate {verdict}; {substrates}>"

    def __dir__(self) -> list[str]:
        quantities = _QUANTITIES if len(self.expansions) == 1 else ()
        return sorted({*super().__dir__(), *quantities})

    def __getattr__(self, name: str) -> Any:
        if name in _QUANTITIES:
            return getattr(self._only(name), name)
        raise AttributeError(f"a result has no attribute {name!r}")


def warn_outside(boxes: Sequence[Array], X: Any, told: list[bool]) -> None:
    """Warn where a row is outside a box in which a shape was proved, and note it."""
    rows = to_dense(real_points(X))
    if any(((rows < box[:, 0]) | (rows > box[:, 1])).any() for box in boxes if box.shape[0] == rows.shape[1]):
        told.append(True)
        warnings.warn(
            "some rows are outside the box in which the shape holds; nothing is promised there. Give a wider box, "
            "Everywhere(box), to have it there too",
            UserWarning,
            stacklevel=3,
        )


def _total(values: list[Array]) -> Array:
    if any(part.ndim == 2 for part in values):
        values = [part if part.ndim == 2 else part[:, None] for part in values]
    return np.asarray(sum(values))


# --- files ----------------------------------------------------------------------------------------------------------

for _kind in (
    *(Attempt, Column, Further, Integral, KernelExpansion, LinearOperator),
    *(LinearPart, Measure, One, OperatorTerm, WeightedTerm),
):
    stored(_kind)


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A solution; outputs name their expansions by number."""

    objective: float
    task: Literal["regression", "classification"] | None
    parameters: dict[str, Any]
    certificate: Certificate
    attempts: tuple[Attempt, ...]
    expansions: tuple[KernelExpansion, ...]
    outputs: tuple[tuple[str | None, tuple[Any, ...]], ...]

    @classmethod
    def of(cls, result: Result) -> Self:
        """Return the part of a result that a file stores."""
        numbers = {id(expansion): number for number, expansion in enumerate(result.expansions)}
        outputs = [
            (name, tuple(_exchange(term, lambda part: numbers.get(id(part), part)) for term in terms))
            for name, terms in result.fitted.items()
        ]
        task: Any = result.task
        return cls(
            objective=float(result.objective),
            task=task,
            parameters=dict(result.parameters),
            certificate=result.certificate,
            attempts=result.solver_record.attempts,
            expansions=result.expansions,
            outputs=tuple(outputs),
        )

    def restore(self) -> Result:
        """Return the result, after one prediction of each expansion, so that what is inconsistent is refused now."""
        for expansion in self.expansions:
            expansion.predict(to_dense(expansion.substrate.X[:1]))
        result = Result(
            objective=self.objective,
            parameters=self.parameters,
            expansions=self.expansions,
            certificate=self.certificate,
            solver_record=SolverRecord(self.attempts),
            outputs={},
            task=self.task,
        )
        fitted = {name: tuple(_exchange(term, self._find) for term in terms) for name, terms in self.outputs}
        object.__setattr__(result, "fitted", fitted)
        return result

    def _find(self, part: Any) -> Any:
        """Return the expansion of a number, and other parts of outputs unchanged."""
        if type(part) is int and 0 <= part < len(self.expansions):
            return self.expansions[part]
        if not isinstance(part, (LinearPart, One)):
            raise DataError(f"an output has a part that is none: {part!r}")
        return part


def _exchange(term: Any, find: Any) -> Any:
    """Return a term of an output with its innermost part exchanged."""
    return replace(term, base=find(term.base)) if isinstance(term, WeightedTerm) else find(term)


store_as(Result, StoredResult)


def load(path: str | os.PathLike[str], max_bytes: float | None = None) -> Result:
    """Read a result back; a damaged, foreign or hostile file is refused and nothing of it is executed.

    Parameters
    ----------
    path
        A file written by :meth:`~substrate.Result.save`. One that was changed since then is refused.
    max_bytes
        The memory that it may use, added up before anything is allocated; None is 1 GiB, or four times the size of
        the file if that is more.
    """
    result = load_file(path, _refuse_estimators, max_bytes)
    if not isinstance(result, Result):
        raise DataError(f"{path} is no result of a machine; a model is read by problems.load")
    return result


def _refuse_estimators(name: str) -> Any:
    raise DataError(f"it holds a {name}, and not the result of a machine; a model is read by problems.load")
