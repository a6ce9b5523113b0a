"""Rows of machines with a norm as penalty: of positive weight, in memory, with the points of a basis if there is one.

Blocks of rows and Dask collections are read into memory once: the columns of such a machine are kernel values of all
rows, which are few on a basis. Predictions are made block by block.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from problems.estimators.reduced.weighed import Weighed
from problems.estimators.shared.base import KernelEstimator, WeightedRows
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.reduced import Basis
from substrate.reduced.choice import ChosenBasis, chosen_basis
from substrate.streaming.rows import ArraySource, source_of, streams

__all__ = ["WithBasis", "basis_facts", "choose_basis", "read_rows", "weights_of_rows"]


@dataclass(eq=False, repr=False)
class WithBasis(KernelEstimator):
    """A base of estimators that combine the kernel functions of all rows, or of the points of a given ``basis``."""

    _readers: ClassVar[Mapping[str, Callable[[Any], Any]]] = {**KernelEstimator._readers, "basis": Basis.of}
    _: KW_ONLY
    basis: Any = None

    @property
    def _rows_have_targets(self) -> bool:  # type: ignore[override]
        return self.basis is not None


def read_rows(estimator: Any, X: Any, y: Any, sample_weight: Any, again: bool = False) -> tuple[WeightedRows, int]:
    """Return the rows of positive weight, checked, and the number of rows given.

    ``again`` is for the rows of a fit, which are checked without changing the model.
    """
    if getattr(estimator, "basis", None) is not None and streams(X, y):
        X, y = _read_blocks(X, y)
    check = estimator._check_again if again else estimator._check_data
    X, y, weights = check(X, y, sample_weight, numeric=not estimator._labels)
    if X.shape[1] != estimator.n_features_in_:
        raise DataError(f"X has {X.shape[1]} features, this model was fitted to {estimator.n_features_in_}")
    given: WeightedRows = estimator._weighted(X, y, weights)
    if again and getattr(estimator, "n_rows_", given.numbers.size) != given.numbers.size:
        suffix = "" if given.numbers.size == X.shape[0] else " of positive weight"
        raise DataError(f"the model was fitted to {estimator.n_rows_} rows, these are {given.numbers.size}{suffix}")
    return given, int(X.shape[0])


def weights_of_rows(given: WeightedRows) -> tuple[tuple[str, str], ...]:
    """Return the weights of the rows, for the record of a certificate; nothing where all are one."""
    low, high = float(given.weights.min()), float(given.weights.max())
    return () if low == high == 1.0 else (("sample_weight", f"{low:.3g} to {high:.3g}; residuals are weighted"),)


def choose_basis(estimator: Any, rule: str, kernel: Kernel, given: WeightedRows, Y: Array, n: int) -> ChosenBasis:
    """Return the basis of an estimator among its rows; ``rule`` where it names none, ``n`` the number of rows given."""
    choice = Basis.of(estimator.basis)
    choice = choice if choice.rule is not None else choice.with_params(rule=rule)
    X = Gram.of(kernel, given.X).matrix if kernel.pairwise else given.X
    weights = None if (given.weights == 1.0).all() else given.weights
    kept = None if given.numbers.size == n else given.numbers
    return chosen_basis(Weighed(kept=kept, n_given=n).renumber(choice), kernel, ArraySource(X, Y, weights=weights), 1.0)


def basis_facts(basis: ChosenBasis) -> tuple[tuple[str, str], ...]:
    """Return how a basis was chosen, for the record of a certificate."""
    return (("basis", basis.description),)


def _read_blocks(X: Any, y: Any) -> tuple[Any, Any]:
    """Return the rows and targets of blocks or of a Dask collection, with the names of the columns."""
    source = source_of(X, y)
    blocks = list(source.blocks())
    rows: Any = np.concatenate([block.X for block in blocks])
    if any(block.Y is None for block in blocks):
        raise DataError(f"{source.name} has no targets; give blocks (X, y), or y beside X")
    if source.feature_names is not None:
        from pandas import DataFrame  # the names of columns come from a data frame

        rows = DataFrame(rows, columns=list(source.feature_names))
    return rows, np.concatenate([block.Y for block in blocks])
