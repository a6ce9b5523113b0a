"""What every machine on a reduced basis shares: how its basis is chosen, and what a fit leaves behind."""

from typing import Any

import numpy as np

from problems.estimators.base import KernelEstimator
from problems.estimators.basis_choice import BasisChoice
from problems.estimators.reduced_fit import Prepared
from substrate.arrays import Array
from substrate.closed_form.kernel_rows import KernelRows
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels.base import symmetric_matrix

__all__ = ["ReducedMachine"]


class ReducedMachine(KernelEstimator):
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

    def _keep_machine(self, prepared: Prepared, coefficients: Array, bias: Array, one: bool) -> None:
        """Set what an expansion on the whole basis has, the attribute that says "fitted" last."""
        self._keep_basis(prepared)
        basis = prepared.basis
        self.support_ = np.arange(basis.size) if basis.rows is None else basis.rows
        if basis.points is not None:
            self.support_vectors_ = basis.points
        self.bias_ = float(bias[0]) if one else bias
        self.support_values_ = np.ascontiguousarray(coefficients[:, 0] if one else coefficients)

    def _training_rows(self, X: Any, Y: Array) -> KernelRows:
        if X.shape[0] != self.n_rows_:
            raise DataError(f"the model was fitted to {self.n_rows_} rows, these are {X.shape[0]}")
        if self.kernel_.pairwise:
            return KernelRows.of(None, Gram.of(self.kernel_, X).matrix, self.support_, Y)
        return KernelRows.of(self.kernel_, X, self.support_vectors_, Y)

    def _basis_matrix(self, rows: KernelRows) -> Array:
        if rows.values.kernel is None:
            return rows.taken(self.support_)
        return symmetric_matrix(self.kernel_, self.support_vectors_)

    def _columns(self) -> tuple[Array, Array]:
        alpha = self.support_values_
        return (alpha[:, None] if alpha.ndim == 1 else alpha), np.atleast_1d(self.bias_)

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if self.__sklearn_is_fitted__() and (
            isinstance(self.n_rows_, bool) or not isinstance(self.n_rows_, int) or self.n_rows_ < 2
        ):
            raise DataError(f"n_rows_ must be a number of rows, received {self.n_rows_!r}")
