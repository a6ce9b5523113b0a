"""Prediction intervals of machines that keep all their rows: the inverse of the saddle system, or of its features."""

from typing import Any

import numpy as np

from problems.estimators.full.saddle_fit import SaddleFit
from problems.estimators.full.saddle_machine import LeavesOut
from problems.estimators.shared.intervals import LeftOutIntervals
from problems.estimators.shared.left_out import shared_columns
from substrate import uncertainty
from substrate.arrays import Array
from substrate.kernels import Kernel
from substrate.least_squares.leave_one_out import leave_one_out_residuals
from substrate.namespaces import is_device_array, namespace_of, on_device_of, room_on_device, to_numpy

__all__ = ["DenseIntervals"]


class DenseIntervals(LeftOutIntervals, LeavesOut):
    """Intervals from support values and the diagonal of the system: a loaded model has them as well."""

    def _left_out_machines(self, rows: Any) -> "tuple[uncertainty.LeftOutMachines, ...]":
        alpha, ridge = self._support_columns()
        gammas, primal = self._interval_gammas(alpha.shape[1]), self._primal()
        bias, border = np.atleast_1d(to_numpy(self._bias())), self._training_border()
        machines: dict[int, uncertainty.LeftOutMachines] = {}
        if primal is None:
            n = int(alpha.shape[0])
            copies = 4.0 if is_device_array(self.support_values_) else 3.0
            advice = "keep rows for calibrate(X, y), and use method='split'."
            room_on_device(self.support_values_, 8.0 * copies * n * n, f"the {n} x {n} inverse", advice)
            gram = self._training_gram(rows[0] if isinstance(rows, tuple) else rows)
        for columns in shared_columns(ridge, np.ones(ridge.shape, dtype=bool)):
            d = np.array(ridge[:, columns[0]])  # of its own: a view of a broadcast array cannot be sent to a device
            influence: uncertainty.Influence
            if primal is not None:
                influence = uncertainty.primal_influence(primal, self.support_vectors_, 1.0 / d)
            else:
                there, own = on_device_of(gram.diagonal, d), border.take(slice(None), 1.0 / d)
                influence = uncertainty.kernel_influence(gram, there, self._kernel_rows, own)
            home, diagonal = influence.diagonal, to_numpy(influence.diagonal)
            residuals = leave_one_out_residuals(alpha[:, columns], diagonal)
            for k, column in enumerate(columns):
                a, r = (on_device_of(home, np.ascontiguousarray(v)) for v in (alpha[:, column], residuals[:, k]))
                # where there are slopes the whole model predicts
                b = float(bias[int(column)]) if primal is None and border.plain else None
                machines[int(column)] = uncertainty.LeftOutMachines(influence, a, r, home, gammas[int(column)], b)
        return tuple(machines[column] for column in range(alpha.shape[1]))

    def _noise(self, rows: Any) -> Array:
        known = getattr(self, "noise_variance_", None)
        if known is not None:
            return np.atleast_1d(known)
        # a file of release 0.1, which does not have it: the system gives the targets back
        alpha, ridge = self._support_columns()
        if self.kernel_.pairwise:
            fitted = to_numpy(self._training_gram(rows[0] if isinstance(rows, tuple) else rows).product(alpha))
        else:
            fitted = np.reshape(to_numpy(self._evaluated(self.support_vectors_)), alpha.shape)
        return uncertainty.noise_of_targets(fitted + ridge * alpha, alpha, self._interval_gammas(alpha.shape[1]))

    def _support_columns(self) -> tuple[Array, Array]:
        """Support values and diagonal in numpy, one column per output."""
        alpha, ridge = to_numpy(self._coefficients()), to_numpy(self._ridge())
        alpha = alpha[:, None] if alpha.ndim == 1 else alpha
        return alpha, np.broadcast_to(ridge[:, None] if ridge.ndim == 1 else ridge, alpha.shape)

    def _kernel_rows(self, X: Any) -> Array:
        """The kernel values of points with the rows of the expansion, and the columns of a linear part."""
        kernel: Kernel = self.kernel_
        if is_device_array(X):
            xp = namespace_of(X)
            given = xp.take(X, on_device_of(X, self.support_), axis=1) if kernel.pairwise else X
            points = given if kernel.pairwise else self.support_vectors_
            values: Array = kernel.evaluate(given, points, xp.float64)
            return self._beside(values, X)
        out = np.empty((X.shape[0], self.support_.size))
        if kernel.pairwise:
            kernel.fill(X[:, self.support_], None, out)
        else:
            kernel.fill(X, self.support_vectors_, out)
        return self._beside(out, X)

    def _keep_noise(self, Y: Array, fit: SaddleFit, gammas: tuple[float, ...], one_output: bool) -> None:
        """What a new row of weight one needs besides the expansion, whatever the parameters are set to later."""
        noise = uncertainty.noise_of_targets(Y, fit.support_values, gammas, fit.border)
        ridge = 1.0 / np.array(gammas)
        self.noise_variance_ = float(noise[0]) if one_output else noise
        self.unit_ridge_ = float(ridge[0]) if one_output else ridge

    def _interval_gammas(self, n_outputs: int) -> tuple[float, ...]:
        if not hasattr(self, "unit_ridge_"):  # a file of release 0.1
            return tuple(float(gamma) for gamma in self._gammas(n_outputs))
        return tuple(float(1.0 / ridge) for ridge in np.atleast_1d(self.unit_ridge_))

    def _chosen_on_rows(self) -> tuple[str, ...]:
        found = [] if self._chooses is None else [f"{self._chooses} was chosen on these rows"]
        if getattr(self, "kernels", None) or getattr(self, "search", None):
            found.append("the kernel was chosen on these rows")
        elif self._own_kernel() != self.kernel_:
            found.append("the width of the kernel is computed from these rows")
        ridge = to_numpy(self._ridge())
        if (ridge != ridge[0]).any():
            found.append("rows of unequal weight are not exchangeable with a new row of weight one")
        return tuple(found)
