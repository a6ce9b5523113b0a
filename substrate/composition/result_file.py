"""Results as files: the expansion of every substrate, the outputs and the certificate (:mod:`substrate.files`).

What is a function of the user's own cannot be in one: a kernel that is a function, the features of a linear part, the
coefficients and maps of a linear operator. The machine itself, its terms and constraints, is not saved; what it found
is. Substrates are declared again from their rows, which checks them as a declaration does.
"""

import os
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from substrate import files
from substrate.arrays import Array, is_sparse
from substrate.certificates import Certificate
from substrate.composition.level import Substrate
from substrate.composition.linear_operators import Integral, LinearOperator, OperatorTerm
from substrate.composition.measures import Measure
from substrate.composition.outputs import Outputs
from substrate.composition.result import Further, KernelExpansion, Result
from substrate.composition.terms import Column, FittedPart, FittedTerm, LinearPart, One, WeightedTerm, take_ones
from substrate.errors import DataError
from substrate.files import store_as, stored
from substrate.kernels import Kernel
from substrate.solvers import Attempt, SolverRecord

__all__ = ["load"]

for _kind in (Attempt, Column, Further, Integral, LinearOperator, Measure, One, OperatorTerm):
    stored(_kind)


@dataclass(frozen=True, slots=True)
class StoredSubstrate:
    """The declaration of a substrate; ``observed`` has kinds and places if f itself was not observed at X."""

    kernel: Kernel
    X: Any
    y: Array | None
    observed: tuple[tuple[Any, Any], ...] | None
    task: str
    bias: bool
    basis: Any
    name: str | None
    column_names: tuple[str, ...]

    @classmethod
    def of(cls, s: Substrate) -> Self:
        """Return the declaration of a substrate."""
        observed = None if s.observed is None else tuple((block.kind, block.at) for block in s.observed.blocks)
        X, y = (s.X, s.y) if s.observed is None else (None, s.observed.targets)
        return cls(s.kernel, X, y, observed, s.task, s.bias, s.basis, s.name, s.column_names)

    def restore(self) -> Substrate:
        """Declare the substrate again."""
        how: dict[str, Any] = {"bias": self.bias, "basis": self.basis, "name": self.name}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the declaration has given them
            if self.observed is None:
                s = Substrate(self.kernel, self.X, self.y, self.task, **how)
            else:
                kinds, places = ([pair[side] for pair in self.observed] for side in (0, 1))
                s = Substrate(self.kernel, places, self.y, self.task, observed=kinds, **how)
        s.column_names = self.column_names
        return s


@dataclass(frozen=True, slots=True)
class StoredExpansion:
    """The part of a solution that belongs to one substrate."""

    substrate: Substrate
    alpha: Array
    b: Array
    e: Array
    f: Array
    squared_norm: float
    maximal_variation: Array
    further: tuple[Further, ...]

    @classmethod
    def of(cls, expansion: KernelExpansion) -> Self:
        """Return the numbers of an expansion."""
        return cls(
            substrate=expansion.substrate,
            alpha=expansion.alpha,
            b=np.asarray(expansion.b, dtype=np.float64),
            e=expansion.e,
            f=expansion.f,
            squared_norm=float(expansion.squared_norm),
            maximal_variation=expansion.maximal_variation,
            further=expansion.further,
        )

    def restore(self) -> KernelExpansion:
        """Return the expansion, its shapes checked."""
        s = self.substrate
        errors = (s.n, *s.columns) if s.observed is None else s.observed.targets.shape
        shapes = {"alpha": (s.size, *s.columns), "e": errors, "f": (s.n, *s.columns), "b": s.columns}
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values.shape != shape or values.dtype.kind != "f":
                raise DataError(f"{name} of a substrate has shape {values.shape}, expected {shape}")
        for part in self.further:
            if part.points is not None and part.points.shape[0] != part.coefficients.shape[0]:
                raise DataError("further coefficients do not belong to their points")
            if part.part is not None and not 0 <= part.part < len(s.components):
                raise DataError(f"there is no component {part.part!r}")
        return KernelExpansion(
            substrate=s,
            alpha=self.alpha,
            b=self.b if s.columns else float(self.b),
            e=self.e,
            f=self.f,
            squared_norm=self.squared_norm,
            maximal_variation=self.maximal_variation,
            further=self.further,
        )


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A linear part of a solution by its columns; a variable that is the same for all rows has ones for features."""

    columns: tuple[int, ...] | None
    has_ones: bool
    weights: Array

    @classmethod
    def of(cls, fitted: FittedPart) -> Self:
        """Return the columns and the weights, refused where the features are a function."""
        columns, features = fitted.part.columns, fitted.part.features
        if features is not None and features is not take_ones:
            raise DataError(
                "a linear part with a function of X as its features cannot be saved, since no function is; give it "
                "columns"
            )
        numbers = None if columns is None else tuple(int(c) for c in np.atleast_1d(np.asarray(columns)))
        return cls(numbers, features is take_ones, np.asarray(fitted.weights))

    def restore(self) -> FittedPart:
        """Return the linear part."""
        import cvxpy as cp

        features = take_ones if self.has_ones else None
        return FittedPart(LinearPart(cp.Variable(self.weights.shape), self.columns, features), self.weights)


@dataclass(frozen=True, slots=True)
class StoredTerm:
    """A weighted term of a solution."""

    fitted: Any
    factor: float
    multipliers: tuple[Column, ...]
    columns: tuple[int, ...] | None

    @classmethod
    def of(cls, term: FittedTerm) -> Self:
        """Return the factors of a term, refused where one is a function."""
        if not all(isinstance(multiplier, Column) for multiplier in term.term.multipliers):
            raise DataError(
                "an output with a function of X as its factor cannot be saved, since no function is; multiply by "
                "Column(number)"
            )
        weighted: Any = term.term
        return cls(term.fitted, float(weighted.factor), weighted.multipliers, weighted.columns)

    def restore(self) -> FittedTerm:
        """Return the term."""
        return FittedTerm(WeightedTerm(One(), self.factor, self.multipliers, self.columns), self.fitted)


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
            row = expansion.substrate.X[:1]
            expansion.predict(row.toarray() if is_sparse(row) else row)
        result = Result(
            objective=self.objective,
            parameters=self.parameters,
            expansions=self.expansions,
            certificate=self.certificate,
            solver_record=SolverRecord(self.attempts),
            outputs=Outputs({}),
            task=self.task,
        )
        fitted = {name: tuple(_exchange(term, self._find) for term in terms) for name, terms in self.outputs}
        object.__setattr__(result, "fitted", fitted)
        return result

    def _find(self, part: Any) -> Any:
        """Return the expansion of a number, and other parts of outputs unchanged."""
        if type(part) is int and 0 <= part < len(self.expansions):
            return self.expansions[part]
        if not isinstance(part, (FittedPart, One)):
            raise DataError(f"an output has a part that is none: {part!r}")
        return part


def _exchange(term: Any, find: Any) -> Any:
    """Return a term of an output with its innermost part exchanged."""
    return replace(term, fitted=find(term.fitted)) if isinstance(term, FittedTerm) else find(term)


store_as(Substrate, StoredSubstrate)
store_as(KernelExpansion, StoredExpansion)
store_as(FittedPart, StoredPart)
store_as(FittedTerm, StoredTerm)
store_as(Result, StoredResult)


def load(path: str | os.PathLike[str], max_bytes: float | None = None) -> Result:
    """Read a result back; a damaged, foreign or hostile file is refused and nothing of it is executed.

    Parameters
    ----------
    path
        A file written by :meth:`~substrate.Result.save`. One that was changed since it was written loads with a
        :class:`~substrate.errors.ModelFileWarning`, and its certificate does not hold.
    max_bytes
        The memory that it may use, added up before anything is allocated; None is 1 GiB, or four times the size of
        the file if that is more.
    """
    result = files.load(path, _refuse_estimators, max_bytes)
    if not isinstance(result, Result):
        raise DataError(f"{path} is no result of a machine; a model is read by problems.load")
    return result


def _refuse_estimators(name: str) -> Any:
    raise DataError(f"it holds a {name}, and not the result of a machine; a model is read by problems.load")
