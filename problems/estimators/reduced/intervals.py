"""Prediction intervals of machines on a reduced basis: by their leverages, the training rows given again."""

from typing import Any

import numpy as np

from problems.estimators.reduced.fit import ReducedFit
from problems.estimators.reduced.ls_svm_machine import SparseMachine
from problems.estimators.shared.intervals import LeftOutIntervals
from substrate.arrays import Array, real_array
from substrate.certificates import Row
from substrate.errors import DataError, DeclarationError
from substrate.namespaces import on_device_of
from substrate.reduced.features import eigen_features
from substrate.reduced.left_out import LeverageFactor
from substrate.reduced.rows import KernelValues
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.reduced_rows import LeverageCoordinates, ProjectedSpread, machines_without_rows

__all__ = ["ReducedIntervals"]


class ReducedIntervals(LeftOutIntervals, SparseMachine):
    """A model keeps its basis and not its rows: they are given again as ``rows``, but for Gaussian error bars."""

    def _left_out_machines(self, rows: Any) -> tuple[LeftOutMachines, ...]:
        self._check_factor()
        if rows is None:
            raise DataError(
                f"{type(self).__name__} keeps its basis and not its rows; give the training rows again, "
                "rows=(X_train, y_train), or use method='gaussian'"
            )
        given = rows if isinstance(rows, tuple) and len(rows) == 2 else (rows, None)
        beta, bias = self._columns()
        with self._reading_again(*given) as data:
            return machines_without_rows(self._training_rows(data), beta, bias, self._factor(), self._interval_gamma())

    def _spreading_machines(self, rows: Any) -> tuple[LeftOutMachines, ...]:
        self._check_factor()
        gamma, bias, kernel = self._interval_gamma(), self._columns()[1], self.kernel_
        if not kernel.pairwise:
            values, K = KernelValues(kernel, self.support_vectors_), kernel(self.support_vectors_)
        elif rows is None:
            raise DataError("with a precomputed kernel error bars need rows=, the kernel matrix of the training rows")
        else:
            matrix = real_array(rows[0] if isinstance(rows, tuple) else rows, "rows", ndim=2)
            values, K = KernelValues(None, self.support_), matrix[np.ix_(self.support_, self.support_)]
        coordinates = LeverageCoordinates(values, self._factor(), gamma)
        spread = ProjectedSpread(coordinates, eigen_features(K), gamma * self.n_rows_)
        nothing = on_device_of(bias, np.zeros(1))
        return (LeftOutMachines(spread, nothing, nothing, nothing, gamma),) * int(bias.shape[0])

    def _noise(self, rows: Any) -> Array:
        self._check_factor()
        if not hasattr(self, "noise_variance_"):
            raise DataError("this model file has no noise variance, as those of release 0.1; fit the model again")
        return np.atleast_1d(self.noise_variance_)

    def _keep(self, fit: ReducedFit, one: bool, rows: tuple[Row, ...] = ()) -> None:
        if fit.noise is not None:
            self.noise_variance_ = float(fit.noise[0]) if one else fit.noise
            self.unit_ridge_ = 1.0 / self._fitted_gamma()
        super()._keep(fit, one, rows)

    def _interval_gamma(self) -> float:
        """That of the fit; a file of release 0.1 has the parameter only."""
        return 1.0 / self.unit_ridge_ if hasattr(self, "unit_ridge_") else self._fitted_gamma()

    def _factor(self) -> LeverageFactor:
        return LeverageFactor(self.leverage_factor_, self.leverage_offset_, self.n_rows_)

    def _check_factor(self) -> None:
        if not hasattr(self, "leverage_factor_"):
            raise DeclarationError(
                "intervals need leverages, and this model was fitted by conjugate gradients, which never form the sums "
                "that they need; fit with solver='direct', or calibrate(X, y) and use method='split'"
            )

    def _chosen_on_rows(self) -> tuple[str, ...]:
        found = [] if self._chooses is None else [f"{self._chooses} was chosen on these rows"]
        if getattr(self, "kernels", None):
            found.append("the kernel was chosen on these rows")
        elif self._own_kernel() != self.kernel_:
            found.append("the width of the kernel is computed from these rows")
        if self.basis_indices_ is not None:
            found.append("the basis was chosen among these rows")
        return tuple(found)
