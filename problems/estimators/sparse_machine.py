"""What sparse regression and classification share once targets are columns of numbers: state, checks, leave-one-out."""

from typing import Any

import numpy as np

from problems.estimators.base import KernelEstimator
from problems.estimators.basis_choice import BasisChoice
from problems.estimators.device_fit import fit_reduced_on_device
from problems.estimators.left_out import LeftOut
from problems.estimators.on_device import check_home
from problems.estimators.reduced_fit import CONDITIONAL, ReducedFit, one_fit, prepare
from substrate.arrays import Array
from substrate.certificates import Certificate, Row
from substrate.certificates.rows import EPS
from substrate.closed_form.eigen_features import eigen_features
from substrate.closed_form.kernel_rows import KernelRows
from substrate.closed_form.leave_one_out import generalized_cross_validation
from substrate.closed_form.reduced_basis import LeverageFactor, leave_rows_out_once, residual_pass
from substrate.closed_form.reduced_certificate import reduced_rows
from substrate.closed_form.reduced_spectrum import reduced_spectrum
from substrate.closed_form.reduced_statistic import accumulate, origin_of
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.closed_form.saddle_system import target_unit
from substrate.errors import DataError, SolverError
from substrate.gram import Gram
from substrate.kernels.base import symmetric_matrix
from substrate.namespaces import is_device_array, on_device_of, own_copy

__all__ = ["SparseMachine"]

#: Multiplications up to which leave-one-out fits one row's machine anew as a check.
_CHEAP_REFIT = 1e8


class SparseMachine(KernelEstimator):
    """What sparse regression and classification share once targets are columns of numbers."""

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

    def _fit(self, kernel: Any, X: Any, Y: Array, choice: BasisChoice, gamma: float) -> ReducedFit:
        """Choose the basis and solve, where the rows are."""
        if is_device_array(X):
            return fit_reduced_on_device(kernel, X, Y, choice, gamma)
        return one_fit(prepare(kernel, X, Y, choice, 1.0 / gamma), Y, gamma)

    def _keep(self, X: Any, fit: ReducedFit, title: str, one: bool, rows: tuple[Row, ...] = ()) -> None:
        """Set the fitted attributes, the one that says "fitted" last."""
        basis = fit.prepared.basis
        self.basis_indices_ = basis.rows
        self.n_rows_ = int(X.shape[0])
        self.rank_ = fit.prepared.features.rank
        self.reconstruction_error_ = float(fit.prepared.reconstruction)
        self.degrees_of_freedom_ = float(fit.freedom)
        self.leverage_factor_, self.leverage_offset_ = fit.factor.matrix, fit.factor.offset
        self.certificate_ = Certificate(title, (*fit.rows, *rows), fit.facts)
        self.kernel_ = fit.prepared.kernel
        self.support_ = np.arange(basis.size) if basis.rows is None else basis.rows
        if basis.points is not None:
            self.support_vectors_ = basis.points
        self.bias_ = float(fit.bias[0]) if one else fit.bias
        self.support_values_ = own_copy(fit.coefficients[:, 0] if one else fit.coefficients)

    def _training_rows(self, X: Any) -> KernelRows:
        check_home(self, self.support_values_, X)
        if X.shape[0] != self.n_rows_:
            raise DataError(f"the model was fitted to {self.n_rows_} rows, these are {X.shape[0]}")
        if self.kernel_.pairwise:
            return KernelRows(None, Gram.of(self.kernel_, X).matrix, self.support_)
        return KernelRows(self.kernel_, X, self.support_vectors_)

    def _basis_matrix(self, rows: KernelRows) -> Array:
        if rows.kernel is None:
            return np.asarray(rows.X[np.ix_(self.support_, self.support_)])
        return symmetric_matrix(self.kernel_, self.support_vectors_)

    def _columns(self) -> tuple[Array, Array]:
        alpha, bias = self.support_values_, self.bias_
        if isinstance(bias, float):
            bias = on_device_of(alpha, [bias])
        return (alpha[:, None] if alpha.ndim == 1 else alpha), bias

    def _certified(self, X: Any, Y: Array, gamma: float, title: str) -> Certificate:
        if is_device_array(X):
            raise DataError("certify works on numpy arrays here; call model.to_numpy().certify(X.cpu().numpy(), ...)")
        rows = self._training_rows(X)
        K = self._basis_matrix(rows)
        features = eigen_features(K)
        unit = target_unit(Y)
        beta, bias = (part / unit for part in self._columns())
        residuals = residual_pass(rows, Y, unit, beta, bias)
        checks = reduced_rows(residuals, features, K, beta, features.weights(beta), bias, 1.0 / gamma)
        return Certificate(f"{title}, checked again", worst_rows(checks), (("kernel", repr(self.kernel_)),))

    def _left_out(self, X: Any, Y: Array, gamma: float, title: str, one: bool) -> LeftOut:
        if is_device_array(X):
            raise DataError(
                "leave_one_out works on numpy arrays; call model.to_numpy().leave_one_out(X.cpu().numpy(), ...)"
            )
        rows = self._training_rows(X)
        beta, bias = self._columns()
        factor = LeverageFactor(self.leverage_factor_, self.leverage_offset_, self.n_rows_)
        fitted, leverages, residuals = leave_rows_out_once(rows, Y, beta, bias, factor)
        if not (leverages < 1.0).all():
            worst = int(leverages.argmax())
            raise SolverError(
                f"without row {worst} the machine is not determined: its leverage is {leverages[worst]:.6g} where it "
                "must be below 1; use more rows, fewer basis vectors or a smaller gamma"
            )
        outputs = Y - residuals
        freedom = float(leverages.sum())
        unit = target_unit(Y)
        gcv = unit**2 * np.asarray(generalized_cross_validation((Y - fitted) / unit, freedom))
        trace = Row("trace of H", freedom - self.degrees_of_freedom_, self.degrees_of_freedom_,
                    1e-9 + 1e3 * EPS * self.n_rows_, "sum of h_ii - (1 + sum a/(a + 1/gamma))")  # fmt: skip
        checks, facts = [trace], [("conditional on", CONDITIONAL)]
        if float(self.n_rows_) * rows.n_basis**2 <= _CHEAP_REFIT:
            checks.append(self._refitted(rows, Y, gamma, residuals, int(leverages.argmax())))
        else:
            facts.append(("refit", "none: a machine of this size is checked by the trace only"))
        first = outputs[:, 0] if one else outputs
        predictions, wrong = self._judged(first, Y)
        certificate = Certificate(f"{title}, leave-one-out without refitting", tuple(checks), tuple(facts))
        rest = residuals[:, 0] if one else residuals
        return LeftOut(first, rest, predictions, freedom, float(gcv[0]) if one else gcv, wrong, certificate)

    def _refitted(self, rows: KernelRows, Y: Array, gamma: float, residuals: Array, row: int) -> Row:
        """The row of largest leverage by an actual fit to the others on the same basis."""
        others = np.flatnonzero(np.arange(rows.n_rows) != row)
        rest = KernelRows(rows.kernel, rows.X[others], rows.points)
        K = self._basis_matrix(rows)
        features = eigen_features(K)
        statistic = accumulate(rest, Y[others], features, origin_of(K, Y[others], target_unit(Y)), 1.0 / gamma)
        spectrum = reduced_spectrum(features, statistic.origin, statistic.total)
        weights = spectrum.weights(1.0 / gamma)
        predicted = rows.taken([row]) @ features.coefficients(weights) + spectrum.bias(weights)
        explicit = Y[row] - statistic.origin.unit * predicted[0]
        scale = float(np.abs(residuals).max()) + float(np.abs(Y - Y.mean(axis=0)).max())
        tolerance = 1e-9 + 10.0 * spectrum.decomposition_error(1.0 / gamma)
        difference = float(np.abs(explicit - residuals[row]).max())
        return Row(f"refit without row {row}", difference, scale, tolerance, "e_i/(1 - h_ii) - (t_i - f^(-i)(x_i))")

    def _judged(self, outputs: Array, Y: Array) -> tuple[Any, float | None]:
        return outputs, None

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if not self.__sklearn_is_fitted__():
            return
        n = self.support_values_.shape[0]
        factor, offset = self.leverage_factor_, self.leverage_offset_
        if factor.dtype.kind != "f" or factor.shape != (offset.size, n) or offset.ndim != 1:
            raise DataError("the leverage factor and the basis do not belong together")
        if isinstance(self.n_rows_, bool) or not isinstance(self.n_rows_, int) or self.n_rows_ < 2:
            raise DataError(f"n_rows_ must be a number of rows, received {self.n_rows_!r}")
