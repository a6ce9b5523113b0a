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
from substrate.uncertainty.rows_on_a_basis import LeverageCoordinates, ProjectedSpread, machines_without_rows

__all__ = ["ReducedIntervals"]


class ReducedIntervals(LeftOutIntervals, SparseMachine):
    """A model keeps its basis and not its rows: they are given again as ``rows``, but for Gaussian error bars."""

    def _left_out_machines(self, rows: Any) -> tuple[LeftOutMachines, ...]:
        self._check_factor()
        if rows is None:
            raise DataError(
                f"{type(self).__name__} keeps its basis and not its rows; give the training rows again, "
                "rows=(X_train, y_train), and their sample_weight if there was one, or use method='gaussian'"
            )
        given = rows if isinstance(rows, tuple) and 2 <= len(rows) <= 3 else (rows, None)
        beta, bias = self._columns()
        with self._reading_again(*given) as data:
            again = self._training_rows(data)
            factor = LeverageFactor(self.leverage_factor_, self.leverage_offset_, again.mass)
            return machines_without_rows(again, beta, bias, factor, self._interval_gamma(), self.degrees_of_freedom_)

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
        mass = getattr(self, "mass_", float(self.n_rows_))  # a file of release 0.1 has no weights
        factor = LeverageFactor(self.leverage_factor_, self.leverage_offset_, mass)
        spread = ProjectedSpread(LeverageCoordinates(values, factor, gamma), eigen_features(K), gamma * mass)
        nothing = on_device_of(bias, np.zeros(1))
        return (LeftOutMachines(spread, nothing, nothing, nothing, gamma),) * int(bias.shape[0])

    def _noise(self, rows: Any) -> Array:
        self._check_factor()
        if not hasattr(self, "noise_variance_"):
            raise DataError("this model file has no noise variance, as those of release 0.1; fit the model again")
        return np.atleast_1d(self.noise_variance_)

    def _keep(self, fit: ReducedFit, one: bool, rows: tuple[Row, ...] = ()) -> None:
        if fit.noise is not None and fit.factor is not None:
            noise = fit.noise * fit.prepared.weighed.unit  # of a row of weight one, not of the mean weight
            self.noise_variance_ = float(noise[0]) if one else noise
            self.unit_ridge_, self.mass_ = 1.0 / self._fitted_gamma(), float(fit.factor.mass)
            self.weighted_ = fit.prepared.rows.weights is not None
        super()._keep(fit, one, rows)

    def _interval_gamma(self) -> float:
        """That of the fit; a file of release 0.1 has the parameter only."""
        return 1.0 / self.unit_ridge_ if hasattr(self, "unit_ridge_") else self._fitted_gamma()

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
        if getattr(self, "weighted_", False):
            found.append("rows of unequal weight are not exchangeable with a new row of weight one")
        return tuple(found)
