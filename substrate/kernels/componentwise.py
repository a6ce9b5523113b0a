r"""Componentwise kernels: one component per input, or per group of inputs.

.. math:: k(x, z) = \sum_{l} k^l(x^l, z^l), \qquad \Omega = \sum_l \Omega^l

[Pelckmans2005]_ eq. (6)-(8). With groups of columns, interactions of an ANOVA decomposition can be written too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import EPS, Array
from substrate.errors import DataError, DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import Formula, Number
from substrate.kernels.nested import Restricted, column_tuple

__all__ = ["Componentwise"]


@dataclass(frozen=True, repr=False)
class Componentwise(Kernel):
    """A sum of kernels on columns.

    ``Componentwise(RBF(1.0))`` has one component per input; ``Componentwise([RBF(1.0), Linear()])`` names a kernel
    for each column in turn; ``Componentwise({0: RBF(1.0), (1, 2): RBF(2.0)})`` names columns and groups.
    """

    kernel: Any

    def __post_init__(self) -> None:
        given = self.kernel
        if isinstance(given, Kernel):
            if given.pairwise:
                raise DeclarationError("a precomputed matrix has no inputs to be taken one at a time")
            return
        if isinstance(given, Mapping):
            parts = tuple(Restricted(kernel, column_tuple(columns)) for columns, kernel in given.items())
        elif isinstance(given, Sequence) and all(isinstance(part, Restricted) for part in given):
            parts = tuple(given)
        elif isinstance(given, Sequence) and not isinstance(given, str):
            parts = tuple(Restricted(kernel, (column,)) for column, kernel in enumerate(given))
        else:
            raise DeclarationError(
                f"Componentwise takes a kernel, a list of kernels or a mapping of columns to kernels, not {given!r}"
            )
        if not parts:
            raise DeclarationError("Componentwise needs at least one component")
        object.__setattr__(self, "kernel", parts)

    def components(self, n_features: int) -> tuple[Kernel, ...]:
        """The kernels k^l, each on its own columns."""
        if isinstance(self.kernel, Kernel):
            return tuple(Restricted(self.kernel, (column,)) for column in range(n_features))
        if all(len(part.columns) == 1 for part in self.kernel) and len(self.kernel) > n_features:
            raise DataError(f"{self!r} names {len(self.kernel)} columns, the points have {n_features}")
        parts: tuple[Kernel, ...] = self.kernel
        return parts

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """All of them where one number is the width for every column; else what each component compares."""
        if isinstance(self.kernel, Kernel):
            own_width = "median" in self.kernel.get_params().values()
            return () if own_width else self.kernel.compared_columns(n_features)
        return tuple(group for part in self.kernel for group in part.compared_columns(n_features))

    @property
    def trusted(self) -> bool:
        """Whether every component is trusted."""
        return self.kernel.trusted if isinstance(self.kernel, Kernel) else all(part.trusted for part in self.kernel)

    @property
    def decays(self) -> bool:
        """Whether every component decays."""
        return self.kernel.decays if isinstance(self.kernel, Kernel) else all(part.decays for part in self.kernel)

    def _resolved(self, X: Any) -> Self:
        parts = self.components(X.shape[1])
        fixed = tuple(part.resolved(X) for part in parts)
        return self if fixed == parts else replace(self, kernel=fixed)

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the sum over the components into ``out``."""
        term = np.empty_like(out)
        out[...] = 0.0
        for part in self.components(X.shape[1]):
            part.fill(X, Z, term)
            out += term

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """The sum over the components as a new array."""
        first, *others = self.components(X.shape[1])
        values = first.evaluate(X, Z, dtype)
        for part in others:
            values = values + part.evaluate(X, Z, dtype)
        return values

    @property
    def not_smooth(self) -> str:
        """The reason of the first component that has no derivatives."""
        parts = (self.kernel,) if isinstance(self.kernel, Kernel) else self.kernel
        return next((part.not_smooth for part in parts if part.not_smooth), "")

    def _gradient(self, X: Array, Z: Array, column: int) -> Array:
        """The sum over the components."""
        return np.asarray(sum(part._gradient(X, Z, column) for part in self.components(X.shape[1])))

    def _mixed_derivative(self, X: Array, Z: Array, column: int, other: int) -> Array:
        """The sum over the components."""
        return np.asarray(sum(part._mixed_derivative(X, Z, column, other) for part in self.components(X.shape[1])))

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Those of all components; of one kernel for every column, their sum."""
        parts = [part._scale_gradient(X, Z, weights) for part in self.components(X.shape[1])]
        return np.asarray(sum(parts)) if isinstance(self.kernel, Kernel) else np.concatenate(parts)

    def rank(self, n_features: int) -> int | None:
        """The features of all components."""
        ranks = [part.rank(n_features) for part in self.components(n_features)]
        return None if None in ranks else sum(rank for rank in ranks if rank is not None)

    def features(self, X: Any) -> Array:
        """The features of all components, side by side."""
        return np.concatenate([part.features(X) for part in self.components(X.shape[1])], axis=1)

    def feature_rounding(self) -> float:
        """The largest of the components'."""
        parts = (self.kernel,) if isinstance(self.kernel, Kernel) else self.kernel
        return max(part.feature_rounding() for part in parts)

    def rounding(self, X: Any) -> float:
        """The largest of the components', and the rounding of their sum."""
        parts = self.components(X.shape[1])
        return max(part.rounding(X) for part in parts) + len(parts) * EPS

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """The sum over the components, by the more accurate formulas."""
        term = np.empty_like(out)
        out[...] = 0.0
        for part in self.components(X.shape[1]):
            part.fill_carefully(X, Z, term)
            out += term

    def careful_rounding(self, X: Any) -> float:
        """As :meth:`rounding`."""
        parts = self.components(X.shape[1])
        return max(part.careful_rounding(X) for part in parts) + len(parts) * EPS

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """The sum of the components' formulas."""
        parts = [part.exact_formula(number, n_features) for part in self.components(n_features)]
        return lambda x, z: sum(part(x, z) for part in parts)

    def exact_features(self, number: Number, x: Sequence[Any]) -> list[Any]:
        """The features of all components, side by side."""
        return [value for part in self.components(len(x)) for value in part.exact_features(number, x)]

    def diag(self, X: Any) -> Any:
        """Sum of the components' diagonals."""
        first, *others = (part.diag(X) for part in self.components(X.shape[1]))
        return sum(others, start=first)

    def __repr__(self) -> str:
        if isinstance(self.kernel, Kernel):
            return f"Componentwise({self.kernel!r})"
        columns = [part.columns for part in self.kernel]
        if len(set(columns)) < len(columns) or any(isinstance(part.kernel, Restricted) for part in self.kernel):
            return f"Componentwise([{', '.join(map(repr, self.kernel))}])"
        if columns == [(column,) for column in range(len(columns))]:
            return f"Componentwise([{', '.join(repr(part.kernel) for part in self.kernel)}])"
        named = (f"{_key(part.columns)}: {part.kernel!r}" for part in self.kernel)
        return f"Componentwise({{{', '.join(named)}}})"


def _key(columns: tuple[int, ...]) -> str:
    return str(columns[0]) if len(columns) == 1 else repr(columns)
