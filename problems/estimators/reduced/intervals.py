"""Prediction intervals of machines on a reduced basis: by their leverages, the training rows given again."""

from typing import Any

import numpy as np

from problems.estimators.full.shaped import has_closed_forms, refuse_closed_form
from problems.estimators.reduced.fit import ReducedFit
from problems.estimators.shared.guarantees import chosen_on_rows
from problems.estimators.shared.intervals import LeftOutIntervals
from substrate.arrays import Array, real_array
from substrate.errors import DataError, DeclarationError
from substrate.least_squares.regularization import Regularization
from substrate.namespaces import on_device_of
from substrate.reduced.features import basis_features
from substrate.reduced.rows import KernelValues
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.rows_on_a_basis import LeverageCoordinates, ProjectedSpread

__all__ = ["ReducedIntervals"]


class ReducedIntervals(LeftOutIntervals):
    """A model keeps its basis and not its rows: they are given again as ``rows``, but for Gaussian error bars."""

    def left_out_method(self) -> str:
        """Return the method that repeats no fit."""
        return super().left_out_method() if has_closed_forms(self.estimator) else "split"

    def band(self, *arguments: Any, **options: Any) -> Array:
        """Refuse: a band follows the rows of the machine along curves."""
        raise DeclarationError("a confidence band is of a machine on all rows; leave basis=None")

    def machines(self, rows: Any) -> tuple[LeftOutMachines, ...]:
        """Return all machines without one row, for every output, from rows that are given again."""
        model = self.estimator
        refuse_closed_form(model, "an interval by leaving rows out")
        if rows is None:
            raise DataError(
                f"{type(model).__name__} keeps its basis and not its rows; give the training rows again, "
                "rows=(X_train, y_train), and their sample_weight if there was one, or use predict(X, return_std=True)"
            )
        data_given = rows if isinstance(rows, tuple) and 2 <= len(rows) <= 3 else (rows, None)
        data = model._model.read_again(*data_given)
        training_rows = model._model.training_rows(data)
        machines: tuple[LeftOutMachines, ...] = model._model.leave_rows_out(training_rows, self.gamma())
        return machines

    def spreading_machines(self, rows: Any) -> tuple[LeftOutMachines, ...]:
        """Return the machines as far as p(x) needs them: their basis, and no rows."""
        model = self.estimator
        gamma, bias, kernel = self.gamma(), model._model.columns()[1], model.kernel_
        if not kernel.pairwise:
            values: KernelValues = model._model.values()
            K = kernel(model.support_vectors_)
        elif rows is None:
            raise DataError("with a precomputed kernel error bars need rows=, the kernel matrix of the training rows")
        else:
            matrix = real_array(rows[0] if isinstance(rows, tuple) else rows, "rows", ndim=2)
            values, K = (
                KernelValues(kernel, model.support_),
                matrix[np.ix_(model.support_, model.support_)],
            )
        mass = float(model.mass_)
        coordinates = LeverageCoordinates(values, model._model.leverage_factor(mass), gamma)
        spread = ProjectedSpread(coordinates, basis_features(K), gamma * mass)
        nothing = on_device_of(bias, np.zeros(1))
        return (
            LeftOutMachines(influence=spread, support_values=nothing, residuals=nothing, diagonal=nothing, gamma=gamma),
        ) * int(bias.shape[0])

    def noise(self, rows: Any) -> Array:
        """Return the variance of the noise, one number per output."""
        return np.atleast_1d(self.estimator.noise_variance_)

    def keep_noise(self, fit: ReducedFit, one: bool) -> None:
        """Keep what a new row of weight one needs besides the expansion."""
        model = self.estimator
        noise = fit.noise * fit.prepared.weighed.unit  # of a row of weight one, not of the mean weight
        model.noise_variance_ = float(noise[0]) if one else noise
        model.unit_ridge_ = Regularization(model._model.fitted_gamma()).lam
        model.mass_ = float(fit.factor.mass)
        model.weighted_ = fit.prepared.rows.weights is not None

    def gamma(self) -> float:
        """Return the gamma of the fit."""
        return Regularization.from_lambda(float(self.estimator.unit_ridge_)).gamma

    def has_unequal_weights(self) -> bool:
        """Return whether the rows of the fit had weights."""
        return bool(getattr(self.estimator, "weighted_", False))

    def chosen_on_rows(self) -> tuple[str, ...]:
        """Return what was chosen or computed from the training rows."""
        model = self.estimator
        return chosen_on_rows(
            model,
            basis=model.basis_indices_ is not None,
            unequal=self.has_unequal_weights(),
        )
