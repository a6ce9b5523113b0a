"""The solution of a machine: plain numbers, a predictor, a certificate."""

import math
import os
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, replace
from typing import Any

import numpy as np

from substrate.arrays import Array, real_points, row_blocks
from substrate.certificates import Certificate
from substrate.composition.level import Substrate
from substrate.composition.linear_operators import Functional, LinearOperator
from substrate.composition.outputs import Outputs
from substrate.composition.place_holders import PlaceHolder
from substrate.composition.span import Reading, SubstrateSpan, inner_products, reading_of
from substrate.composition.squares import SquaredRows
from substrate.composition.terms import LinearPart, One, Term, WeightedTerm
from substrate.errors import DataError, DeclarationError
from substrate.files import save
from substrate.proof import Proof
from substrate.solvers import SolverRecord

__all__ = ["Further", "KernelExpansion", "Result"]


@dataclass(frozen=True, slots=True)
class Further:
    """Coefficients in addition to the training rows': of f at points, of its component ``part``, or of an operator.

    Both are None for f itself.
    """

    points: Any
    coefficients: Array
    part: int | None = None
    operator: Functional | None = None


@dataclass(frozen=True, slots=True)
class KernelExpansion:
    """One substrate's part of a solution: all its quantities, and its values at any points.

    ``alpha`` has one entry per training row, or per vector of the basis where the substrate has one. Where y has
    columns, so have alpha, e, f and the values, and b has one entry per column.
    """

    substrate: Substrate
    alpha: Array
    b: Any
    e: Array
    f: Array
    squared_norm: float
    maximal_variation: Array
    #: The expansion beyond the training rows, see :mod:`substrate.composition.span`; ``predict`` uses it.
    further: tuple[Further, ...] = ()

    @classmethod
    def of(cls, span: SubstrateSpan, a: Array, b: Any) -> "KernelExpansion":
        """Return the solution with these coefficients of a span."""
        s, products = span.substrate, span.product(a)
        f = products + b
        every = range(len(s.components))
        components = [products] if len(every) == 1 else [span.rows(Reading(part=part)) @ a for part in every]
        first, *further_coefficients = span.parts(a)
        expansion = cls(
            substrate=s,
            alpha=s.signs * first,
            b=b,
            e=s.errors_of(f),
            f=f,
            squared_norm=span.squared_norm(a),
            maximal_variation=np.array([float(np.abs(values).max()) for values in components]),
            further=tuple(
                Further(reading.points, coefficients, reading.part, reading.operator)
                for reading, coefficients in zip(span.readings[1:], further_coefficients, strict=True)
            ),
        )
        if s.observed is None:
            return expansion
        return replace(expansion, e=s.observed.targets - s.observed.evaluate(expansion))

    def restore(self) -> "KernelExpansion":
        """Return the expansion that a file holds, refused where its numbers do not belong to the substrate."""
        s = self.substrate
        errors = (s.n, *s.columns) if s.observed is None else s.observed.targets.shape
        shapes = {"alpha": (s.size, *s.columns), "e": errors, "f": (s.n, *s.columns), "b": s.columns}
        for name, shape in shapes.items():
            values = np.asarray(getattr(self, name))
            if values.shape != shape or values.dtype.kind != "f":
                raise DataError(f"{name} of a substrate has shape {values.shape}, expected {shape}")
        for term in self.further:
            if term.points is not None and term.points.shape[0] != term.coefficients.shape[0]:
                raise DataError("further coefficients do not belong to their points")
            if term.part is not None and not 0 <= term.part < len(s.components):
                raise DataError(f"there is no component {term.part!r}")
        return self

    @property
    def c(self) -> Array:
        """The additive regularization constants, e - alpha."""
        self.substrate.refuse_constants()
        return self.e - self.alpha

    @property
    def coefficients(self) -> Array:
        """Return a: alpha, or y∘alpha in classification."""
        return self.substrate.signs * self.alpha

    @property
    def norm(self) -> float:
        """The norm of w."""
        return math.sqrt(self.squared_norm)

    def predict(self, X: Any) -> Array:
        """Return f at the rows of X."""
        return np.asarray(self._values(Reading(real_points(X))) + self.b)

    def component(self, part: int, X: Any) -> Array:
        """Return one component at the rows of X."""
        return self._values(Reading(real_points(X), part=part))

    def gradient(self, X: Any, column: int) -> Array:
        """Return the derivative of f in input ``column`` at the rows of X."""
        return self.derivative(X, {column: 1})

    def derivative(self, X: Any, orders: Any) -> Array:
        """Return the derivative of f of these orders by column, as ``{0: 2}``, at the rows of X."""
        return self.apply(LinearOperator.derivative(orders), X)

    def apply(self, operator: LinearOperator, X: Any) -> Array:
        """Return what a linear operator makes of f at the rows of X."""
        return self._read(self.substrate.resolve_operator(operator), real_points(X))

    def integral(self, boxes: Any) -> Array:
        """Return the integral of f over boxes, one of shape (d, 2) or several, (m, d, 2), or against measures."""
        return self._read(*self.substrate.resolve_integral(boxes))

    def _read(self, functional: Functional, points: Array) -> Array:
        constant = functional.apply_to_constant(points)
        values = self._values(Reading(points, operator=functional))
        return np.asarray(values + (np.multiply.outer(constant, self.b) if constant.any() else 0.0))

    def value_of(self, holder: PlaceHolder) -> Any:
        """Return what a place-holder of the substrate stands for here."""
        if holder.role == "alpha":
            return self.alpha
        if holder.role == "b":
            return np.asarray(self.b)
        if holder.role in ("norm", "squared_norm"):
            return np.asarray(self.squared_norm if holder.role == "squared_norm" else self.norm)
        if holder.role == "f" and holder.points is None:
            return self.f
        points = self.substrate.X if holder.points is None else holder.points
        reading = replace(reading_of(holder), points=points)
        return self._values(reading) + (self.b if holder.role == "f" else 0.0)

    def _values(self, wanted: Reading) -> Array:
        X, a = wanted.points, self.coefficients
        out, s = np.empty((X.shape[0], *a.shape[1:])), self.substrate
        for rows in row_blocks(X.shape[0], a.shape[0]):
            reading = replace(wanted, points=X[rows])
            out[rows] = inner_products(s, reading, Reading(s.basis)) @ a
            for further in self.further:
                at = Reading(further.points, further.part, further.operator)
                out[rows] += inner_products(s, reading, at) @ further.coefficients
        return out


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
    #: The fitted terms of each output by its name; None names the only one.
    fitted: Mapping[str | None, tuple[KernelExpansion | LinearPart | WeightedTerm | One, ...]] = field(init=False)

    def __post_init__(self, outputs: Outputs) -> None:
        fitted = {name: tuple(self._fitted_term(term) for term in terms) for name, terms in outputs.terms.items()}
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
        values = self.decision_function(X)
        if self.task != "classification":
            return values
        if not isinstance(values, dict):
            return np.argmax(values, axis=1) if values.ndim == 2 else np.where(values < 0.0, -1.0, 1.0)
        return np.array(list(values))[np.argmax(np.column_stack(list(values.values())), axis=1)]

    def decision_function(self, X: Any) -> Any:
        """Return the machine's values at the rows of X, also where it predicts labels."""
        if isinstance(X, Mapping) and set(X) != set(self.fitted):
            raise DataError(f"the rows by output are those of {sorted(map(str, X))}, the outputs {list(self.fitted)}")
        rows = X if isinstance(X, Mapping) else dict.fromkeys(self.fitted, X)
        values = {name: _total([term.predict(rows[name]) for term in terms]) for name, terms in self.fitted.items()}
        return values.get(None, values)

    def component(self, part: int, X: Any) -> Array:
        """Return one component of a machine with one substrate."""
        return self._only("component").component(part, X)

    def gradient(self, X: Any, column: int) -> Array:
        """Return the derivative of f in input ``column``, of a machine with one substrate."""
        return self._only("gradient").gradient(X, column)

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

        ``method`` is ``"conformal"`` or ``"jackknife+"``. The guarantees are stated in :mod:`substrate.uncertainty`,
        for exchangeable values of equal weight; observations of another kind are taken as fixed.
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
        values = "".join(f", {name}={value}" for name, value in self.parameters.items())
        substrates = ", ".join(repr(expansion.substrate) for expansion in self.expansions)
        return f"<Result: objective {self.objective:.6g}{values}; its certificate {verdict}; {substrates}>"

    def __dir__(self) -> list[str]:
        quantities = _QUANTITIES if len(self.expansions) == 1 else ()
        return sorted({*super().__dir__(), *quantities})

    def __getattr__(self, name: str) -> Any:
        if name in _QUANTITIES:
            return getattr(self._only(name), name)
        raise AttributeError(f"a result has no attribute {name!r}")


def _total(values: list[Array]) -> Array:
    if any(part.ndim == 2 for part in values):
        values = [part if part.ndim == 2 else part[:, None] for part in values]
    return np.asarray(sum(values))
