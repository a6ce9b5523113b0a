"""Results as files: the expansion of every substrate, the outputs and the certificate (:mod:`substrate.files`).

What is a function of the user's own cannot be in one: a kernel that is a function, the features of a linear part, the
coefficients and maps of a linear operator. The machine itself, its terms and constraints, is not saved; what it found
is. Substrates are declared again from their rows, which checks them as a declaration does.
"""

import os
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from substrate import files
from substrate.arrays import Array, is_sparse
from substrate.certificates import Certificate
from substrate.composition.level import Substrate
from substrate.composition.linear_operators import Integral, LinearOperator, Measure, OperatorTerm
from substrate.composition.outputs import Column, LinearPart, One, WeightedTerm
from substrate.composition.result import Result
from substrate.composition.span import Further, KernelExpansion
from substrate.errors import DataError
from substrate.files import store_as, stored
from substrate.kernels.kernel import Kernel
from substrate.solvers import Attempt, SolverRecord

__all__ = ["load"]

for _kind in (
    *(Attempt, Column, Further, Integral, KernelExpansion, LinearOperator),
    *(LinearPart, Measure, One, OperatorTerm, WeightedTerm),
):
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


store_as(Substrate, StoredSubstrate)
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
