"""Prediction intervals of machines on a reduced basis: by their leverages, the training rows given again."""

from typing import Any

import numpy as np

from problems.estimators.reduced.fit import ReducedFit
from problems.estimators.reduced.ls_svm_machine import SparseMachine
from problems.estimators.shared.guarantees import chosen_on_rows
from problems.estimators.shared.intervals import LeftOutIntervals
from substrate.arrays import Array, real_array
from substrate.certificates import Row
from substrate.errors import DataError
from substrate.namespaces import on_device_of
from substrate.reduced.features import eigen_features
from substrate.reduced.rows import BasisValues
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.rows_on_a_basis import LeverageCoordinates, ProjectedSpread

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
        with self._reading_again(*given) as data:
            return self._without_rows(self._training_rows(data), self._interval_gamma())

    def _spreading_machines(self, rows: Any) -> tuple[LeftOutMachines, ...]:
        self._check_factor()
        gamma, bias, kernel = self._interval_gamma(), self._columns()[1], self.kernel_
        if not kernel.pairwise:
            values: BasisValues = self._values()
            K = kernel(self.support_vectors_)
        elif rows is None:
            raise DataError("with a precomputed kernel error bars need rows=, the kernel matrix of the training rows")
        else:
            matrix = real_array(rows[0] if isinstance(rows, tuple) else rows, "rows", ndim=2)
            values, K = BasisValues.of(kernel, self.support_), matrix[np.ix_(self.support_, self.support_)]
        mass = getattr(self, "mass_", float(self.n_rows_))  # a file of release 0.1 has no weights
        coordinates = LeverageCoordinates(values, self._leverage_factor(mass), gamma)
        spread = ProjectedSpread(coordinates, eigen_features(K), gamma * mass)
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
        self._check_leverages("intervals need", ", or calibrate(X, y) and use method='split'")

    def _chosen_on_rows(self) -> tuple[str, ...]:
        return chosen_on_rows(
            self, basis=self.basis_indices_ is not None, unequal=bool(getattr(self, "weighted_", False))
        )
