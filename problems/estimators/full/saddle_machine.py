"""The common part of LS-SVMs on all rows, which one saddle system solves: every row left out, and new points."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.full.saddle_fit import SaddleFit
from problems.estimators.shared.checks import check_home
from problems.estimators.shared.left_out import LeavesOut, RowsLeftOut, gcv_of
from problems.estimators.shared.machine_rows import points_of
from substrate.arrays import (
    Array,
    is_device_array,
    is_sparse,
    namespace_of,
    on_device_of,
    real_array,
    real_points,
    room_on_device,
    take_columns,
    to_numpy,
)
from substrate.certificates import Row
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.least_squares.border import Border
from substrate.least_squares.leave_one_out import leave_one_out_residuals, projected_diagonal
from substrate.least_squares.saddle_system import ridge_of, solve_saddle_system
from substrate.numbers import relative_rounding
from substrate.uncertainty.influence import LeftOutMachines, kernel_influence
from substrate.uncertainty.intervals import noise_of_targets

__all__ = ["EFFECTIVE_PARAMETERS", "SaddleModel", "check_ridge", "ridges_of"]


def ridges_of(gammas: tuple[float, ...], weights: Array) -> Array:
    """Return the diagonal of the system, one for all outputs where their gammas agree."""
    if len(set(gammas)) == 1:
        return ridge_of(gammas[0], weights)
    return namespace_of(weights).stack([ridge_of(gamma, weights) for gamma in gammas], axis=1)  # type: ignore[no-any-return]


def _effective_parameters(self: Any) -> Any:
    r"""Effective number of parameters, :math:`\operatorname{tr} H` of the fitted values :math:`H y`, bias included.

    With :math:`\lambda_k` the eigenvalues of the centred kernel matrix and weights of one it is
    :math:`1 + \sum_k \gamma \lambda_k / (1 + \gamma \lambda_k)`, from 1 to the number of distinct rows; one number, or
    one for each output or machine, computed when it is asked for. With a precomputed kernel it is
    ``leave_one_out(K).degrees_of_freedom``.
    """
    check_is_fitted(self)
    if self.kernel_.pairwise:
        raise AttributeError(
            "effective_parameters_ needs the kernel matrix of the training rows, which the model does not keep; use "
            "leave_one_out(K).degrees_of_freedom"
        )
    self._model.refuse_shape("effective_parameters_")
    return self._model.effective_parameters()


#: ``effective_parameters_`` of estimators whose fitted values are linear in their targets.
EFFECTIVE_PARAMETERS: Any = property(_effective_parameters)


class SaddleModel(LeavesOut):
    """A machine whose support values solve one saddle system, and which keeps all its rows."""

    def leave_rows_out(self, X: Any, y: Any = None, sample_weight: Any = None, is_checked: bool = True) -> RowsLeftOut:
        """Leave every row out of every machine, in closed form."""
        model = self.estimator
        self.check_room()
        gram = self.training_gram(X)
        alpha, ridge, codes = self.to_columns()
        products = to_numpy(gram.product(on_device_of(gram.diagonal, alpha)))
        fitted = products + self.unpenalised_columns(alpha)
        errors = ridge * alpha
        solved = fitted + errors  # what the stored support values solve, which iterations leave near the codes
        targets = codes if model._labels else solved
        residuals, checks = np.empty(alpha.shape), list[Row]()
        freedom, gcv = np.empty(alpha.shape[1]), np.empty(alpha.shape[1])
        for columns, d, border in self.groups():
            B = to_numpy(projected_diagonal(gram, on_device_of(gram.diagonal, d), border))
            residuals[:, columns] = leave_one_out_residuals(alpha[:, columns], B)
            freedom[columns], gcv[columns] = d.size - d @ B, gcv_of(errors[:, columns], 1.0 - d * B, 1.0 / d)
            if is_checked:
                row = int((d * B).argmin())
                checks.append(_refit(gram, d, border, solved[:, columns], residuals[:, columns], row))
        worst = sorted(checks, key=lambda row: row.relative / row.tolerance)[-1:]
        points = None if model.kernel_.pairwise else model.support_vectors_
        weights = self.row_weights()
        return RowsLeftOut(points, targets, errors, residuals, weights, freedom, gcv, tuple(worst), gram.record())

    def left_out_machines(self, rows: Any) -> tuple[LeftOutMachines, ...]:
        """Return all machines without one row, for every output."""
        self.check_room()
        gram = self.training_gram(rows[0] if isinstance(rows, tuple) else rows)
        alpha, _, _ = self.to_columns()
        machines: dict[int, LeftOutMachines] = {}
        for columns, d, border in self.groups():
            ridge = on_device_of(gram.diagonal, d)
            influence = kernel_influence(gram, ridge, self.kernel_rows, border)
            residuals = leave_one_out_residuals(alpha[:, columns], to_numpy(influence.diagonal))
            for k, column in enumerate(columns.tolist()):
                a, r = (on_device_of(ridge, np.ascontiguousarray(v)) for v in (alpha[:, column], residuals[:, k]))
                machines[column] = LeftOutMachines(influence, a, r, ridge)
        gram.release()
        return tuple(machines[column] for column in range(alpha.shape[1]))

    def groups(self) -> "Iterator[tuple[Any, Array, Border]]":
        """Yield columns, diagonal and border of the machines that share these, and so an inverse."""
        alpha, ridge, _ = self.to_columns()
        border, shared = self.training_border(), dict[bytes, list[int]]()
        for k in range(alpha.shape[1]):
            shared.setdefault(ridge[:, k].tobytes(), []).append(k)
        for columns in shared.values():
            d = np.array(ridge[:, columns[0]])  # a copy: a device takes no read-only view
            yield np.array(columns), d, border.take(np.arange(d.size), 1.0 / d)

    def effective_parameters(self) -> Any:
        """Return the trace of the hat matrix, one number or one per machine.

        :place [Suykens2002b]_ chapter 4: the effective number of parameters
        """
        self.check_room()
        freedom = np.empty(self.to_columns()[0].shape[1])
        gram = self.training_gram(None)
        for columns, d, border in self.groups():
            freedom[columns] = d.size - d @ to_numpy(projected_diagonal(gram, on_device_of(gram.diagonal, d), border))
        return float(freedom[0]) if self.estimator.support_values_.ndim == 1 else freedom

    def spread(self, points: Any, diagonal: Array) -> Array:
        """Return p(x) of new points, one column per output."""
        machines = self.left_out_machines(None)
        return namespace_of(diagonal).stack([machine.spread(points, diagonal) for machine in machines], axis=1)  # type: ignore[no-any-return]

    def keep_noise(self, Y: Array, fit: SaddleFit, gammas: tuple[float, ...], one_output: bool) -> None:
        """Keep 1/gamma, and in regression the variance of the noise."""
        noise = None if self.estimator._labels else noise_of_targets(Y, fit.support_values, gammas, fit.border)
        self.keep_units(gammas, noise, one_output)

    def importance_weights(self, left_out: RowsLeftOut, sample_weight: Any) -> Array | None:
        """Return the weights of the rows in a mean: those given, one for each row of the fit."""
        if sample_weight is None:
            return None
        weights, support = real_array(to_numpy(sample_weight), "sample_weight", ndim=1), self.estimator.support_
        if weights.size <= int(support.max()):
            raise DataError(
                f"sample_weight must have one entry per row of the fit: at least {int(support.max()) + 1}, received "
                f"{weights.size}"
            )
        chosen = weights[support]
        if (chosen < 0.0).any() or not chosen.any():
            raise DataError("sample_weight must not be negative, and not zero for all rows of this model")
        return np.asarray(chosen)

    def row_weights(self) -> Array:
        """Return the weights of the rows of the fit, those of their classes included, up to a factor."""
        ridge = self.to_columns()[1][:, 0]
        unit = np.atleast_1d(getattr(self.estimator, "unit_ridge_", ridge.min()))
        return np.asarray(unit[0] / ridge)

    def has_unequal_weights(self) -> bool:
        """Return whether the rows of the fit differ in their weights."""
        weights = self.row_weights()
        return bool((weights != weights[0]).any())

    def kernel_rows(self, X: Any) -> Array:
        """Return the kernel values of points with the rows of the expansion, and the columns of a linear part."""
        model = self.estimator
        kernel = model.kernel_
        new_points = take_columns(X, model.support_) if kernel.pairwise else X
        points = None if kernel.pairwise else model.support_vectors_
        if is_device_array(X):
            xp = namespace_of(X)
            values = kernel.evaluate(new_points, new_points if points is None else points, xp.float64)
        else:
            values = np.empty((X.shape[0], model.support_.size))
            kernel.fill(new_points, points, values)
        return self.append_linear(values, X)

    def unpenalised_columns(self, alpha: Array) -> Array:
        """Return what the machines add to their kernel expansions at their rows: a number each, or one line per row."""
        if self.linear_slopes() is None:
            return np.atleast_1d(to_numpy(self.bias()))
        return np.reshape(to_numpy(self.unpenalised(self.estimator.support_vectors_)), alpha.shape)

    def check_room(self) -> None:
        """Refuse an inverse that does not fit memory."""
        n, home = self.estimator.support_.size, self.estimator.support_values_
        copies = 6.0 if is_device_array(home) else 4.0  # a device factors and inverts out of place
        advice = "leave rows out by folds, with cross_val_predict; keep rows for calibrate(X, y); or give basis=."
        room_on_device(home, 8.0 * copies * n * n, f"the {n} x {n} inverse", advice)

    def to_columns(self) -> tuple[Array, Array, Array]:
        """Return support values in the sign of the expansion, diagonal of the system and codes, one column per
        machine.
        """
        alpha, ridge = to_numpy(self.estimator._coefficients()), to_numpy(self.estimator.ridge_)
        alpha = alpha[:, None] if alpha.ndim == 1 else alpha
        codes = np.reshape(to_numpy(getattr(self.estimator, "support_codes_", np.ones(alpha.shape))), alpha.shape)
        return alpha, np.broadcast_to(ridge[:, None] if ridge.ndim == 1 else ridge, alpha.shape), codes

    def training_gram(self, X: Any) -> Gram:
        """Return the kernel matrix of the rows of the fit, which X holds where the kernel is precomputed."""
        model = self.estimator
        name = type(model).__name__
        if not model.kernel_.pairwise:
            if X is not None and not has_same_rows(model, X):
                raise DataError(f"X does not hold the rows that this {name} was fitted to; leave it out, or give those")
            return Gram.of(model.kernel_, model.support_vectors_)
        if X is None:
            raise DataError("with a precomputed kernel leave_one_out needs X, the kernel matrix of the training rows")
        check_home(model, model.support_values_, X, "X")
        matrix = real_points(X) if is_device_array(X) else real_array(X, "X", ndim=2)
        wanted = (model.n_features_in_, model.n_features_in_)
        if tuple(matrix.shape) != wanted:
            raise DataError(f"X must be the training kernel matrix of shape {wanted}, received {tuple(matrix.shape)}")
        matrix = points_of(matrix, model.support_, True)
        return Gram.of(model.kernel_, matrix)


def _refit(gram: Gram, ridge: Array, border: Border, Y: Array, residuals: Array, row: int) -> Row:
    """Return the machines without one row by the saddle system of the others, compared with the closed form."""
    gram.release()
    others = np.flatnonzero(np.arange(gram.n) != row)
    targets, d = (on_device_of(gram.diagonal, array[others]) for array in (Y, ridge))
    without = border.take(others, 1.0 / ridge[others])
    solved = solve_saddle_system(gram.restrict(others), targets, d, border=without)
    explicit = Y[row] - to_numpy(gram.matrix[row, :])[others] @ to_numpy(solved.support_values) - to_numpy(solved.bias)
    if border.slopes:
        explicit = explicit - (border.columns[row] - border.center) @ to_numpy(solved.slopes)
    xp = namespace_of(gram.matrix)
    largest = max(float(xp.max(gram.matrix)), -float(xp.min(gram.matrix)))
    return Row(
        name=f"refit without row {row}",
        value=float(np.abs(explicit - residuals[row]).max()),
        scale=float(np.abs(residuals).max()) + float(np.abs(Y - Y.mean(axis=0)).max()),
        tolerance=1e-10 + relative_rounding(100.0) * gram.n * largest / float(ridge.min()),
        formula="alpha_i/B_ii - (y_i - f^(-i)(x_i))",
    )


def has_same_rows(model: Any, X: Any) -> bool:
    """Return whether a model's rows are those of X."""
    rows, kept = model.support_, model.support_vectors_
    if is_device_array(X) or is_device_array(kept):
        X, kept = to_numpy(X), to_numpy(kept)
    X = X if is_sparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[1] != kept.shape[1] or (rows.size and X.shape[0] <= int(rows.max())):
        return False
    rows_of_X = X.tocsr()[rows] if is_sparse(X) else X[rows]
    is_different = rows_of_X != kept
    return not (is_different.nnz if is_sparse(is_different) else np.asarray(is_different).any())


def check_ridge(model: Any) -> None:
    """Refuse a diagonal of the system that no fit leaves."""
    ridge, alpha = model.ridge_, model.support_values_
    if ridge.dtype.kind != "f" or ridge.shape not in (alpha.shape[:1], alpha.shape):
        raise DataError(f"a ridge of shape {ridge.shape} does not belong to support values of {alpha.shape}")
    if not (np.isfinite(ridge).all() and (ridge > 0.0).all()):
        raise DataError("the ridge must hold positive numbers")
