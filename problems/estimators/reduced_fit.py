"""What sparse LS-SVMs share: the basis, one statistic of all rows, the solution, leave-one-out, the certificate."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.estimators.base import KernelEstimator
from problems.estimators.basis_choice import BasisChoice, ChosenBasis
from problems.estimators.left_out import LeftOut
from substrate.arrays import Array, check_memory
from substrate.certificates import Certificate, Row
from substrate.certificates.rows import EPS
from substrate.closed_form.eigen_features import EigenFeatures, eigen_features, reconstruction_errors
from substrate.closed_form.kernel_rows import KernelRows
from substrate.closed_form.leave_one_out import generalized_cross_validation
from substrate.closed_form.reduced_basis import (
    LeverageFactor,
    leave_rows_out_once,
    leverage_factor,
    residual_pass,
    solve_reduced,
)
from substrate.closed_form.reduced_certificate import reduced_rows
from substrate.closed_form.reduced_spectrum import ReducedSpectrum, reduced_spectrum
from substrate.closed_form.reduced_statistic import Statistic, accumulate, origin_of
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.closed_form.saddle_system import target_unit
from substrate.errors import DataError, SolverError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.kernels.base import symmetric_matrix

__all__ = ["CONDITIONAL", "Prepared", "ReducedFit", "SparseMachine"]

#: What leave-one-out of a sparse machine takes for granted.
CONDITIONAL = "the basis, kernel, gamma and scaling of the columns, chosen with the left-out row in sight"
#: Multiplications up to which leave-one-out fits one row's machine anew as a check.
_CHEAP_REFIT = 1e8
#: Rows up to which all pairs of them are looked at for a width that makes no sense.
_FEW_ROWS = 500


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows against a chosen basis: everything but the targets' statistic."""

    kernel: Kernel
    basis: ChosenBasis
    rows: KernelRows
    K: Array
    features: EigenFeatures
    facts: tuple[tuple[str, str], ...]
    reconstruction: float

    def statistic(self, Y: Array, lam: float, folds: Any = ()) -> Statistic:
        """One pass over all rows, good for every 1/gamma from ``lam`` on."""
        origin = origin_of(self.K, Y, target_unit(Y))
        return accumulate(self.rows, Y, self.features, origin, lam, folds)


@dataclass(frozen=True, slots=True)
class ReducedFit:
    """The solution of all outputs at one gamma."""

    prepared: Prepared
    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    factor: LeverageFactor
    freedom: float


def prepare(kernel: Kernel, X: Any, Y: Array, choice: BasisChoice, lam: float) -> Prepared:
    """Choose the basis and decompose its kernel matrix."""
    whole = Gram.of(kernel, X) if kernel.pairwise else None
    if whole is not None:
        whole.check_definite()
        X = whole.matrix
    basis = choice.chosen(None if whole is not None else kernel, X, Y, lam)
    n = basis.size
    check_memory(56.0 * n * n, f"the sums over {n} basis vectors", "take a smaller n_basis, a more reduced set.")
    if whole is None:
        if X.shape[0] <= _FEW_ROWS:
            Gram.of(kernel, X)  # warns of a kernel that tells no rows apart; a basis of spread points always seems to
        part = Gram(symmetric_matrix(kernel, basis.points), kernel)
        if not kernel.trusted:
            part.check_definite()
        rows, record = KernelRows(kernel, X, basis.points), part.record()
    else:
        part = whole.block(basis.rows)
        rows, record = KernelRows(None, X, basis.rows), whole.record()
    K = part.matrix
    features = eigen_features(K)
    error = _reconstruction(kernel if whole is None else None, X, rows, basis, features)
    facts = (
        *((name, fact) for name, fact in record if name != "Gram matrix"),
        ("basis", basis.told),
        ("rank", f"{features.rank} of {n}, directions of K_SS above rounding"),
        ("reconstruction error", f"{error:.2e}, mean over {len(basis.scoring)} rows"),
    )
    return Prepared(kernel, basis, rows, K, features, facts, error)


def _reconstruction(kernel: Kernel | None, X: Any, rows: KernelRows, basis: ChosenBasis, f: EigenFeatures) -> float:
    total, scoring = 0.0, basis.scoring
    for start in range(0, len(scoring), rows.step):
        some = scoring[start : start + rows.step]
        diagonal = X.diagonal()[some] if kernel is None else kernel.diag(X[some])
        total += float(reconstruction_errors(rows.taken(some), diagonal, f).sum())
    return total / len(scoring)


def fit_reduced(prepared: Prepared, Y: Array, gamma: float, spectrum: ReducedSpectrum, method: str) -> ReducedFit:
    """Solve at one gamma, refine, certify, and keep what leave-one-out needs."""
    lam = 1.0 / gamma
    solved = solve_reduced(prepared.rows, Y, spectrum, lam, prepared.K)
    facts = (
        *prepared.facts,
        ("gamma", f"{gamma:g}"),
        ("statistic", f"{method}, error estimated at {spectrum.error:.1e}"),
        ("solver", f"eigen-features, refined {solved.refinements} times"),
    )
    if spectrum.origin.unit != 1.0:
        facts += (("units", "residuals in units of max|y|"),)
    factor = leverage_factor(spectrum, lam)
    freedom = spectrum.degrees_of_freedom(lam)
    return ReducedFit(prepared, solved.coefficients, solved.bias, solved.rows, facts, factor, freedom)


def one_fit(prepared: Prepared, Y: Array, gamma: float) -> ReducedFit:
    """Statistic and solution at one gamma."""
    statistic = prepared.statistic(Y, 1.0 / gamma)
    spectrum = reduced_spectrum(prepared.features, statistic.origin, statistic.total, statistic.error)
    return fit_reduced(prepared, Y, gamma, spectrum, statistic.method)


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
        self.support_values_ = np.ascontiguousarray(fit.coefficients[:, 0] if one else fit.coefficients)

    def _training_rows(self, X: Any) -> KernelRows:
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
        alpha = self.support_values_
        return (alpha[:, None] if alpha.ndim == 1 else alpha), np.atleast_1d(self.bias_)

    def _certified(self, X: Any, Y: Array, gamma: float, title: str) -> Certificate:
        rows = self._training_rows(X)
        K = self._basis_matrix(rows)
        features = eigen_features(K)
        unit = target_unit(Y)
        beta, bias = (part / unit for part in self._columns())
        residuals = residual_pass(rows, Y, unit, beta, bias)
        checks = reduced_rows(residuals, features, K, beta, features.weights(beta), bias, 1.0 / gamma)
        return Certificate(f"{title}, checked again", worst_rows(checks), (("kernel", repr(self.kernel_)),))

    def _left_out(self, X: Any, Y: Array, gamma: float, title: str, one: bool) -> LeftOut:
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
