"""The model of LS-SVMs on all rows, which one saddle system solves: its fit, every row left out, and new points."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from problems.estimators.full.robust import fit_reweighted, read_robust
from problems.estimators.full.saddle_fit import SOLVERS, SaddleFit, fit_saddle, recall_saddle, ridges_of
from problems.estimators.shared.base import Added, StoredFit, WeightedRows
from problems.estimators.shared.checks import check_home
from problems.estimators.shared.coded import Coding
from problems.estimators.shared.partly_linear import LeftOutOutputs, gcv_of
from substrate.arrays import (
    Array,
    is_device_array,
    is_sparse,
    namespace_of,
    on_device_of,
    own_copy,
    real_array,
    real_points,
    room_on_device,
    take_columns,
    take_points,
    take_rows,
    to_numpy,
)
from substrate.certificate import Certificate, Row, roundoff, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.intervals.conformal import LeftOutMachines, kernel_influence
from substrate.kernels import Kernel
from substrate.left_out.leave_one_out import leave_one_out_residuals, projected_diagonal
from substrate.numbers import relative_rounding
from substrate.operators.border import ONES, Border
from substrate.operators.gram import Gram
from substrate.operators.saddle_system import noise_of_targets, solve_saddle_system

__all__ = ["ChosenKernel", "LSSVMModel"]


class ChosenKernel(NamedTuple):
    """The kernel and gammas of a fit, and what their choice adds to its certificate."""

    kernel: Kernel
    gammas: tuple[float, ...]
    added: Added = ((), ())


@dataclass(frozen=True, eq=False, repr=False)
class LSSVMModel:
    """The LS-SVM on all rows, which it keeps, of numbers or of the codes of classes: one saddle system.

    Its system is solved in closed form or by conjugate gradients. Robust weights and constants c are in what it stores:
    ``weights_``, ``constants_``. All that is fitted belongs to the ``estimator``.
    """

    estimator: Any

    #: The choices that are not repeated without a row.
    conditional: ClassVar[str] = "kernel, gamma, weights and preparation of the columns"

    def refuse_combinations(self) -> None:
        """Refuse parameters that exclude each other, before any work."""
        model = self.estimator
        if model.solver not in SOLVERS:
            raise DeclarationError(
                f"solver must be 'auto', 'cholesky' or 'cg', received {model.solver!r}; the problem that a page of "
                "problems declares is solved by every solver of cvxpy"
            )
        if model._labels:
            return
        robust, constants = model.robust is not None, model.c is not None
        if robust:
            read_robust(model.robust)
        if constants and robust:
            raise DeclarationError("c is given to the plain machine: leave robust, monotone, convex and bounds out")
        if constants and model.gamma != 1.0:
            raise DeclarationError(f"with c the errors are alpha + c, which is gamma=1; received gamma={model.gamma!r}")
        if (robust or constants) and model.solver not in ("auto", "cholesky"):
            asked = "robust" if robust else "c"
            raise DeclarationError(
                f"with {asked} the machine is solved in closed form, received solver={model.solver!r}; use 'auto'"
            )

    def fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit to numbers, one column per output, or to the codes of labels."""
        model, (_, rows, coded, Y) = self.estimator, self.read(X, y, sample_weight)
        self.fit_rows(rows, coded, Y, ChosenKernel(model._resolved_kernel(rows.X), model._gammas(Y.shape[1])))

    def read(self, X: Any, y: Any, sample_weight: Any) -> tuple[tuple[Any, Any], WeightedRows, Coding, Array]:
        """Return the rows that were given, and the rows of positive weight with their targets; vectors are on the host
        until they are kept.
        """
        model = self.estimator
        X, y, weights = model._check_data(X, y, sample_weight)
        rows = model._weighted(X, to_numpy(y), to_numpy(weights))
        coded = model._encode(rows.y)
        return (X, y), rows, coded, coded.codes(rows.y)

    def fit_rows(self, rows: WeightedRows, coded: Coding, Y: Array, chosen: ChosenKernel) -> None:
        """Fit to rows of positive weight and their targets, and set the fitted attributes where the rows are, all at
        the end, the one that marks the model as fitted last.
        """
        model, X, weights = self.estimator, rows.X, rows.weights
        fit, gammas, one_output = self.solve(chosen, rows, Y), chosen.gammas, Y.shape[1] == 1
        noise = None if model._labels else noise_of_targets(Y, fit.support_values, gammas, fit.border)
        model._keep_units(gammas, noise, one_output)
        model._keep_classes(coded, on_device_of(X, Y))
        bias, support_values = fit.bias, coded.sign(Y, fit.support_values)
        if np.size(model.linear_columns):
            bias = model._keep_linear(fit.slopes, fit.border.center, bias, one_output, X)
        for name, value in fit.further.items():
            setattr(model, name, value)
        model.solver_ = fit.way
        model.ridge_ = on_device_of(X, ridges_of(gammas, weights * fit.further.get("weights_", 1.0)))
        added_rows, added_facts = chosen.added
        model.certificate_ = Certificate(model._title, (*fit.rows, *added_rows), (*fit.facts, *added_facts))
        model.n_iter_ = fit.iterations
        warn_unless_holds(model.certificate_, fit.reason)
        alpha = on_device_of(X, own_copy(support_values[:, 0] if one_output else support_values))
        biases = float(bias[0]) if one_output else on_device_of(X, bias)
        model._keep_expansion(X, rows.numbers, chosen.kernel, alpha, biases)

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return the machines on the data of the fit, checked as the fit checks them, with its robust weights and its
        constants; a machine with a shape carries its own bracket.
        """
        model = self.estimator
        X, y, weights, *_ = model._read_rows(X, y, sample_weight, again=True)
        Y = model._codes_again(y)
        for name in ("weights_", "constants_"):
            if hasattr(model, name) and getattr(model, name).size != Y.shape[0]:
                raise DataError(f"the model has {name} of {getattr(model, name).size} rows, these are {Y.shape[0]}")
        if hasattr(model, "weights_"):
            weights = weights * on_device_of(weights, model.weights_)
        return self.recall_rows(X, Y, weights, model._gammas(Y.shape[1]))

    def recall_rows(self, X: Any, Y: Array, weights: Array, gammas: tuple[float, ...]) -> StoredFit:
        """Return the machines on the rows of the fit."""
        model, constants = self.estimator, getattr(self.estimator, "constants_", None)
        # iterations solve the equations to the tolerance
        equations = None if model.solver_ == "cholesky" else max(model._tolerance(), roundoff(model.support_.size))
        targets, observed = (Y, None) if constants is None else (Y - constants[:, None], Y)
        how: dict[str, Any] = {"observed": observed, "equations": equations, "slopes": model._linear_slopes()}
        how |= {"border": model._border(X, weights), "bias": model._central_bias()}
        return recall_saddle(model, X, targets, weights, gammas, **how)

    def read_constants(self, rows: WeightedRows) -> Array | None:
        """Return the constant c of every row, or None."""
        given, n = getattr(self.estimator, "c", None), rows.n_given
        if given is None:
            return None
        if isinstance(given, (bool, np.bool_)):
            raise DataError(f"c must be one number or one for each row, received {given!r}")
        constants = real_array(given, "c", ndim=(0, 1))
        if constants.ndim == 1 and constants.size != n:
            raise DataError(f"c must be one number or one for each row: expected {n}, received {constants.size}")
        return np.array(np.broadcast_to(constants, n))[rows.numbers]

    def solve(self, chosen: ChosenKernel, rows: WeightedRows, Y: Array) -> SaddleFit:
        """Fit every column of targets less constants, or of codes, with one factorisation."""
        model, constants, weights = self.estimator, self.read_constants(rows), rows.weights
        tol = model._tolerance()
        if getattr(model, "robust", None) is not None:
            data = (chosen.kernel, rows.X, Y, chosen.gammas, weights)
            return fit_reweighted(read_robust(model.robust), *data, tol, model._border)
        how: dict[str, Any] = {"solver": model.solver, "border": model._border(rows.X, weights)}
        if model.solver != "cholesky":
            how["max_iter"] = model.max_iter
        targets, observed = (Y, None) if constants is None else (Y - constants[:, None], Y)
        fit = fit_saddle(chosen.kernel, rows.X, targets, chosen.gammas, weights, tol, observed=observed, **how)
        if constants is None:
            return fit
        facts = (*fit.facts, ("constants", "closed form on y - c, in double precision"))
        return fit._replace(facts=facts, further={"constants_": constants})

    def leave_rows_out(
        self, X: Any, y: Any = None, sample_weight: Any = None, is_checked: bool = True
    ) -> LeftOutOutputs:
        """Leave every row out of every machine, in closed form."""
        model = self.estimator
        self.check_room()
        gram = self.training_gram(X)
        alpha, ridge, codes = self.to_columns()
        products = to_numpy(gram.product(on_device_of(gram.diagonal, alpha)))
        added = np.atleast_1d(to_numpy(model._central_bias()))
        if model._linear_slopes() is not None:
            added = np.reshape(to_numpy(model._unpenalised(model.support_vectors_)), alpha.shape)
        fitted = products + added
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
        return LeftOutOutputs(points, targets, errors, residuals, weights, freedom, gcv, tuple(worst), gram.record())

    def leave_groups_out(self, left_out: LeftOutOutputs, groups: Any) -> Array:
        """Leave equal rows out as the one row that they are together, of the sum of their weights: near interpolation
        nothing remains of one less the sum of their leverages.
        """
        _, first = np.unique(groups, return_index=True)
        if first.size == groups.size:
            return left_out.residuals
        gram = Gram.of(self.estimator.kernel_, take_rows(self.estimator.support_vectors_, first))
        alpha, residuals = self.to_columns()[0], np.empty(left_out.residuals.shape)
        for columns, d, border in self.groups():
            ridge = 1.0 / np.bincount(groups, 1.0 / d)
            B = to_numpy(projected_diagonal(gram, on_device_of(gram.diagonal, ridge), border.take(first, 1.0 / ridge)))
            is_determined = B > 0.0  # otherwise the columns of a linear part need a row of the group
            for column in columns:
                together = np.bincount(groups, alpha[:, column]) / np.where(is_determined, B, 1.0)
                single = left_out.residuals[:, column]
                residuals[:, column] = np.where(is_determined[groups], together[groups], single)
        return residuals

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
        """Yield columns, diagonal and border for each group of machines that share a system, and so an inverse."""
        alpha, ridge, _ = self.to_columns()
        border, shared = ONES, dict[bytes, list[int]]()
        if self.estimator._linear_slopes() is not None:
            border = self.estimator._border(self.estimator.support_vectors_, np.ones(alpha.shape[0]))
        for k in range(alpha.shape[1]):
            shared.setdefault(ridge[:, k].tobytes(), []).append(k)
        for columns in shared.values():
            d = np.array(ridge[:, columns[0]])  # a copy: a device takes no read-only view
            yield np.array(columns), d, border.take(np.arange(d.size), 1.0 / d)

    def effective_parameters(self) -> Any:
        """Return the trace of the hat matrix, one number or one per machine."""
        self.check_room()
        freedom = np.empty(self.to_columns()[0].shape[1])
        gram = self.training_gram(None)
        for columns, d, border in self.groups():
            freedom[columns] = d.size - d @ to_numpy(projected_diagonal(gram, on_device_of(gram.diagonal, d), border))
        return float(freedom[0]) if self.estimator.support_values_.ndim == 1 else freedom

    def spread(self, points: Any, diagonal: Array) -> Array:
        """Return p(x) of new points, one column per output."""
        machines = self.left_out_machines(None)
        return namespace_of(diagonal).stack([machine.spread(points, diagonal) for machine in machines], axis=1)

    def row_weights(self) -> Array:
        """Return the weights of the rows of the fit, including the weights of their classes, up to a factor."""
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
        linear = model._linear_values(X)
        return values if linear is None else namespace_of(values).concat([values, linear], axis=1)

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
        matrix = take_points(matrix, model.support_, True)
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
    """Return whether a model's rows are the rows of X."""
    rows, kept = model.support_, model.support_vectors_
    if is_device_array(X) or is_device_array(kept):
        X, kept = to_numpy(X), to_numpy(kept)
    X = X if is_sparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[1] != kept.shape[1] or (rows.size and X.shape[0] <= int(rows.max())):
        return False
    rows_of_X = X.tocsr()[rows] if is_sparse(X) else X[rows]
    is_different = rows_of_X != kept
    return not (is_different.nnz if is_sparse(is_different) else np.asarray(is_different).any())
