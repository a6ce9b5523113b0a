"""What every machine on a reduced basis shares: how its basis is chosen, and what a fit leaves behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.basis_choice import BasisChoice
from problems.estimators.fit_data import FitData
from problems.estimators.on_device import check_home
from problems.estimators.prepared import Prepared
from problems.estimators.reduced_proof import basis_rows, proof_of_outputs
from problems.estimators.streamed_prediction import StreamedPrediction
from substrate.arrays import Array
from substrate.closed_form.device_rows import DeviceRows
from substrate.closed_form.kernel_rows import KernelRows, KernelValues
from substrate.closed_form.rows_anywhere import Rows
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels.base import symmetric_matrix
from substrate.kernels.device_matrix import device_matrix
from substrate.namespaces import is_device_array, own_copy, to_numpy
from substrate.proof import Proof
from substrate.streaming.array_source import ArraySource
from substrate.streaming.coded_source import CodedSource, numbers
from substrate.streaming.source import Source

__all__ = ["ReducedMachine", "needs_targets"]


def needs_targets(y: Any) -> None:
    """Refuse an array of rows without targets."""
    if y is None:
        raise DataError(
            "y is missing: rows in an array come with their targets, certify(X, y); only a file or blocks of rows "
            "bring their own"
        )


class ReducedMachine(StreamedPrediction):
    """Few vectors in the expansion, all rows in the objective; targets are columns of numbers."""

    basis: Any
    n_basis: Any
    n_candidates: Any
    n_scoring: Any
    tolerance: float
    random_state: Any

    @property
    def basis_(self) -> Any:
        """The basis vectors, a row each (absent for a precomputed kernel)."""
        return self.support_vectors_

    def _choice(self) -> BasisChoice:
        return BasisChoice(
            self.basis, self.n_basis, self.n_candidates, self.n_scoring, self.tolerance, self.random_state
        )

    def _keep_basis(self, prepared: Prepared) -> None:
        """Set what is known of the basis, of the rows, and of how the one spans the others."""
        self.basis_indices_ = prepared.basis.rows
        self.n_rows_ = prepared.rows.n_rows
        self.rank_ = prepared.features.rank
        self.reconstruction_error_ = float(prepared.reconstruction)
        self.kernel_ = prepared.kernel

    def _keep_machine(self, prepared: Prepared, support_values: Array, bias: Any) -> None:
        """Set what an expansion on the whole basis has, the attribute that says "fitted" last."""
        self._keep_basis(prepared)
        basis = prepared.basis
        self.support_ = np.arange(basis.size) if basis.rows is None else basis.rows
        if basis.points is not None:
            self.support_vectors_ = basis.points
        self.bias_ = bias
        self.support_values_ = own_copy(support_values)

    @contextmanager
    def _reading_again(self, X: Any, y: Any) -> Iterator[FitData]:
        """Training rows and numbers once more, for a check of what is held now."""
        with self._passes() as passes:
            rows = self._streamed(X, y)
            if rows is not None:
                yield FitData(CodedSource(rows, numbers), passes)
                return
            needs_targets(y)
            X, y, _ = type(self)(self.kernel)._checked(X, y, None, numeric=True)
            yield FitData.of_numbers(X, y, passes)

    def _refuse_weights(self, sample_weight: Any) -> None:
        if sample_weight is not None:
            raise DataError(
                f"{type(self).__name__} draws and counts rows and is fitted without weights: sample_weight must be "
                f"None, received {type(sample_weight).__name__}"
            )

    def _in_memory(self, X: Any, y: Any) -> tuple[Any, Array, Array]:
        """Training rows, targets, and what predict returns for them, on the host; one column per output."""
        check_is_fitted(self)
        with self._reading_again(X, y) as data:
            source = data.source
            self._training_rows(data)
            if not isinstance(source, ArraySource):
                raise DataError(f"a proof goes through all rows in memory, and {source.name} is read in passes")
            held = self._expansion_on_device(source.X) if is_device_array(source.X) else self._evaluated(source.X)
            Y = to_numpy(source.Y)
            return to_numpy(source.X), Y, np.reshape(to_numpy(held), Y.shape)

    def _proved(self, X: Any, y: Any, gamma: float, weights: Array | None = None) -> Proof:
        points, Y, fitted = self._in_memory(X, y)
        vectors = None if self.kernel_.pairwise else to_numpy(self.support_vectors_)
        rows = basis_rows(self.kernel_, points, vectors, self.support_)
        v = np.ones(Y.shape[0]) if weights is None else weights
        return proof_of_outputs(rows, Y, gamma, v, fitted, self.rank_, self._tolerance())

    def _check_source(self, source: Source) -> None:
        """Refuse rows that are not where the model is."""
        if isinstance(source, ArraySource):
            check_home(self, self.support_values_, source.X)
        else:
            self._refuse_passes()

    def _training_rows(self, data: FitData) -> Rows:
        source = data.source
        self._check_source(source)
        if source.n_rows != self.n_rows_:
            raise DataError(f"the model was fitted to {self.n_rows_} rows, these are {source.n_rows}")
        if not self.kernel_.pairwise:
            if source.n_features != self.n_features_in_:
                raise DataError(f"{source.name} has {source.n_features} columns, the model has {self.n_features_in_}")
            if isinstance(source, ArraySource) and is_device_array(source.X):
                return DeviceRows(self.kernel_, source.X, source.Y, self.support_vectors_)
            return KernelRows(KernelValues(self.kernel_, self.support_vectors_), source, data.passes)
        if not isinstance(source, ArraySource):
            raise DataError(f"a precomputed kernel matrix must be in memory, and {source.name} is read in passes")
        matrix = Gram.of(self.kernel_, source.X).matrix
        return KernelRows(KernelValues(None, self.support_), ArraySource(matrix, source.Y), data.passes)

    def _basis_matrix(self, rows: Rows) -> Array:
        if isinstance(rows, DeviceRows):
            matrix: Array = device_matrix(self.kernel_, self.support_vectors_)
            return matrix
        if rows.values.kernel is None:
            return rows.taken(self.support_)
        return symmetric_matrix(self.kernel_, self.support_vectors_)

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if self.__sklearn_is_fitted__() and (
            isinstance(self.n_rows_, bool) or not isinstance(self.n_rows_, int) or self.n_rows_ < 2
        ):
            raise DataError(f"n_rows_ must be a number of rows, received {self.n_rows_!r}")
