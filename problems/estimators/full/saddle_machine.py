"""The common part of LS-SVMs on one saddle system: the method, the expansion, the certificate, leaving rows out."""

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.checked_again import GivenFit, StoredFit, recall_saddle
from problems.estimators.shared.checks import check_home
from problems.estimators.shared.coded import decode_outputs
from problems.estimators.shared.left_out import (
    KernelSystem,
    LeftOut,
    LeftOutSums,
    LeftOutSystem,
    leave_rows_out,
    machine_groups,
)
from problems.estimators.shared.machine_rows import points_of
from problems.estimators.shared.model import Model
from substrate.arrays import Array, is_sparse, real_array
from substrate.certificates import NO_BOUND, Certificate, Row
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.leave_one_out import leave_one_out_residuals
from substrate.least_squares.regularization import Regularization
from substrate.namespaces import (
    device_points,
    is_device_array,
    namespace_of,
    on_device_of,
    room_on_device,
    take_columns,
    to_numpy,
)
from substrate.uncertainty.own_rows import MachinesWithoutRows, OwnRows

if TYPE_CHECKING:
    from problems.estimators.shared.importance import LeftOutImportance

__all__ = [
    "EFFECTIVE_PARAMETERS",
    "LeavesOut",
    "check_ridge",
    "has_same_rows",
    "leave_one_out",
    "left_out_importance",
    "ridges_of",
]


def ridges_of(gammas: tuple[float, ...], weights: Array) -> Array:
    """Return the diagonal of the system, one for all outputs where their gammas agree."""
    if len(set(gammas)) == 1:
        return Regularization(gammas[0]).ridge(weights)
    return namespace_of(weights).stack([Regularization(gamma).ridge(weights) for gamma in gammas], axis=1)  # type: ignore[no-any-return]


def leave_one_out(self: Any, X: Any = None, y: Any = None, sample_weight: Any = None) -> "LeftOut | LeftOutSums":
    """Return outputs, residuals and criteria of every row with that row left out, exactly and without refitting.

    Only the fitted state is needed, in the order of ``support_``, neither rows nor targets; ``X``, where given, has
    to be that of the fit. With a precomputed kernel it is needed, the matrix of all training rows. A row is left
    out with its whole weight. Kernel, gamma and scaling are unchanged although the left-out row contributed to
    their choice, which the certificate states.

    A model with a basis keeps no rows: they are given again, with their targets, and their weights if the fit had any.
    Of rows that are read in passes, those of mapped files among them, only the criteria are kept. The basis stays as
    it is, too.
    """
    left_out: LeftOut | LeftOutSums = self._model.leave_one_out(X, y, sample_weight)
    return left_out


def left_out_importance(
    self: Any,
    X: Any = None,
    y: Any = None,
    n_repeats: int = 5,
    random_state: Any = 0,
    *,
    groups: Any = None,
    sample_weight: Any = None,
) -> "LeftOutImportance":
    """Return what every input is worth: the loss of left-out predictions when its values are permuted, without a refit.

    Each row is predicted by the machine fitted without it, once as it is and once with the input of another row.
    Of N rows every input and repetition costs one kernel matrix, after one inverse for all of them.

    Parameters
    ----------
    X, y : array, default=None
        As for ``leave_one_out``: the training rows, where the model has a basis; not needed otherwise.
    n_repeats : int, default=5
        Permutations of each input.
    random_state : int, Generator, RandomState or None, default=0
        Where permutations come from.
    groups : list of lists of int, default=None
        The columns of every input, such as the 0-1 columns of one category, which are permuted together; None takes
        every column for an input.
    sample_weight : array of shape (n_samples,), default=None
        Weights of the rows of the fit in the mean over rows; None weighs all rows of the model equally.

    Returns
    -------
    LeftOutImportance
        ``importances_mean``, ``importances_std`` and ``importances``, in the units of the mean square error or of
        the accuracy. Kernel, gamma and scaling are not chosen again, neither without a row nor without an input.
    """
    how = n_repeats, random_state, groups, sample_weight
    importance: LeftOutImportance = self._model.left_out_importance(X, *how, y)
    return importance


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
    return self._model.effective_parameters()


#: ``effective_parameters_`` of estimators whose fitted values are linear in their targets.
EFFECTIVE_PARAMETERS: Any = property(_effective_parameters)


class LeavesOut(Model):
    """A machine whose support values solve one saddle system, and which keeps all its rows: it can leave each out.

    ``recall_data`` has to be defined, or ``recall_fit``.
    """

    #: What is not refitted.
    conditional: ClassVar[str] = "kernel, gamma, weights and preparation of the columns"

    @abstractmethod
    def recall_data(self, X: Any, y: Any, sample_weight: Any) -> GivenFit:
        """Return the data of the fit, checked as the fit checks them."""

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Return all machines on the data of the fit, least squares unless defined otherwise."""
        return recall_saddle(self.estimator, self.recall_data(X, y, sample_weight))

    def leave_one_out(self, X: Any, y: Any = None, sample_weight: Any = None) -> LeftOut:
        """Leave every row out of the fitted machines."""
        model = self.estimator
        check_is_fitted(model)
        home, is_single = model.support_values_, model.support_values_.ndim == 1
        self.check_room("leave rows out by folds, with cross_val_predict.")
        gram = self.training_gram(X)
        alpha, ridge, codes = self.to_columns()
        members = self.members(alpha, codes)
        left_out = leave_rows_out(self.make_system(gram), alpha, self.border_columns(alpha), ridge, members)
        arrays = (on_device_of(home, array) for array in (left_out.outputs, left_out.residuals))
        outputs, residuals = (array[:, 0] if is_single else array for array in arrays)
        predictions, wrong = self.judge(outputs)
        facts = (
            *gram.record(),
            ("conditional on", f"{self.conditional}, chosen with the left-out row included"),
            ("a row of weight v", "is left out as a whole"),
            (NO_BOUND, "one refit checks the left-out outputs; the accuracy of the fit is a row"),
        )
        freedom, gcv = ((float(v[0]) if is_single else v) for v in (left_out.degrees_of_freedom, left_out.gcv))
        certificate = Certificate("Leave-one-out without refitting", (left_out.row, *self.rests_on()), facts)
        return LeftOut(
            outputs=outputs,
            residuals=residuals,
            predictions=predictions,
            degrees_of_freedom=freedom,
            gcv=gcv,
            misclassification=wrong,
            certificate=certificate,
        )

    def effective_parameters(self) -> Any:
        """Return the trace of the hat matrix, one number or one per machine.

        :place [Suykens2002b]_ chapter 4: the effective number of parameters
        """
        refused = "fit the model to fewer rows, or give basis=, whose parameters are those of the machine on it."
        self.check_room(refused)
        alpha, ridge, codes = self.to_columns()
        system, freedom = self.make_system(self.training_gram(None)), np.empty(alpha.shape[1])
        for rows, columns, d in machine_groups(ridge, self.members(alpha, codes)):
            freedom[columns] = rows.size - d @ system.on(rows, d).diagonal()
        return float(freedom[0]) if self.estimator.support_values_.ndim == 1 else freedom

    def left_out_importance(
        self, X: Any, n_repeats: int, random_state: Any, groups: Any, sample_weight: Any, y: Any = None
    ) -> "LeftOutImportance":
        """Permute every input of rows that are left out."""
        model = self.estimator
        from problems.estimators.shared.importance import Losses, importance_of, refuse_matrix, weights_of  # for few

        check_is_fitted(model)
        refuse_matrix(model)
        weights = weights_of(sample_weight, model.support_)
        self.check_room("permute the inputs of other rows, with scikit-learn's permutation_importance.")
        gram = self.training_gram(X)
        machines, outputs, targets = self.own_rows(gram)
        losses = Losses.of_model(model, targets, weights)
        arguments = (machines, model.support_vectors_, outputs, losses)
        return importance_of(*arguments, n_repeats, random_state, groups, self.rests_on())

    def own_rows(self, gram: Gram) -> "tuple[OwnRows, Array, Array]":
        """Return the machines without a row, each for copies of that row; their outputs there; and the targets."""
        alpha, ridge, codes = self.to_columns()
        system = self.make_system(gram)
        fitted = system.compute_fitted(alpha, self.border_columns(alpha))
        targets, outputs, groups = fitted + ridge * alpha, np.array(fitted), []
        for rows, columns, d in machine_groups(ridge, self.members(alpha, codes)):
            block, on_rows = np.ix_(rows, columns), system.on(rows, d)
            influence = on_rows.influence(entries=True)
            gram.release()
            residuals = leave_one_out_residuals(alpha[block], on_rows.diagonal_of(influence))
            outputs[block] = targets[block] - residuals
            kept_rows, linear = None if rows.size == alpha.shape[0] else rows, self.training_border().slopes
            groups.append(MachinesWithoutRows(columns, influence, residuals, kept_rows, linear))
        truth = codes if self.estimator._labels else targets
        factors, slopes = np.ascontiguousarray(alpha), self.linear_slopes()
        if slopes is not None:
            factors = np.concatenate([factors, slopes])
        bias = np.atleast_1d(to_numpy(self.bias()))
        coefficients = on_device_of(gram.diagonal, factors), on_device_of(gram.diagonal, bias)
        machines = OwnRows(tuple(groups), self.kernel_rows, lambda values: values @ coefficients[0] + coefficients[1])
        return machines, outputs, truth

    def make_system(self, gram: Gram) -> LeftOutSystem:
        """Return what leaving rows out needs: the kernel matrix of the rows and their border."""
        return KernelSystem(gram, self.training_border(), self.kernel_rows)

    def kernel_rows(self, X: Any) -> Array:
        """Return the kernel values of points with the rows of the expansion, and the columns of a linear part."""
        model = self.estimator
        kernel: Kernel = model.kernel_
        if is_device_array(X):
            xp = namespace_of(X)
            new_points = take_columns(X, model.support_) if kernel.pairwise else X
            points = new_points if kernel.pairwise else model.support_vectors_
            values: Array = kernel.evaluate(new_points, points, xp.float64)
            return self.append_linear(values, X)
        out = np.empty((X.shape[0], model.support_.size))
        if kernel.pairwise:
            kernel.fill(X[:, model.support_], None, out)
        else:
            kernel.fill(X, model.support_vectors_, out)
        return self.append_linear(out, X)

    def border_columns(self, alpha: Array) -> Array:
        """Return what the machines add to their kernel expansions at their rows: a number each, or one line per row."""
        if self.linear_slopes() is None:
            return np.atleast_1d(to_numpy(self.bias()))
        return np.reshape(to_numpy(self.unpenalised(self.estimator.support_vectors_)), alpha.shape)

    def check_room(self, advice: str) -> None:
        """Refuse an inverse that does not fit memory."""
        n, home = self.estimator.support_.size, self.estimator.support_values_
        copies = 6.0 if is_device_array(home) else 4.0  # a device factors and inverts out of place
        room_on_device(home, 8.0 * copies * n * n, f"the {n} x {n} inverse", advice)

    def to_columns(self) -> tuple[Array, Array, Array]:
        """Return support values in the sign of the expansion, diagonal of the system and codes, one column per
        machine.
        """
        alpha, ridge = to_numpy(self.estimator._coefficients()), to_numpy(self.ridge())
        alpha = alpha[:, None] if alpha.ndim == 1 else alpha
        codes = np.reshape(to_numpy(getattr(self.estimator, "support_codes_", np.ones(alpha.shape))), alpha.shape)
        return alpha, np.broadcast_to(ridge[:, None] if ridge.ndim == 1 else ridge, alpha.shape), codes

    def rests_on(self) -> tuple[Row, ...]:
        """Return the accuracy of the fit: left-out residuals are only as accurate as the support values."""
        answer = self.estimator.certificate_.answer
        if answer is None:
            return ()
        return (answer.plain("accuracy of the fit"),)

    def judge(self, outputs: Array) -> tuple[Any, float | None]:
        """Return predictions from outputs, and the share of wrong ones in classification."""
        return decode_outputs(self.estimator, outputs) if self.estimator._labels else (outputs, None)

    def members(self, alpha: Array, codes: Array) -> Any:
        """Return the rows that each machine was fitted to."""
        return codes != 0.0

    def ridge(self) -> Array:
        """Return the diagonal of the system, one column per machine where they differ."""
        ridge: Array = self.estimator.ridge_
        return ridge

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
        matrix = device_points(X, "X") if is_device_array(X) else real_array(X, "X", ndim=2)
        wanted = (model.n_features_in_, model.n_features_in_)
        if tuple(matrix.shape) != wanted:
            raise DataError(f"X must be the training kernel matrix of shape {wanted}, received {tuple(matrix.shape)}")
        matrix = points_of(matrix, model.support_, True)
        return Gram.of(model.kernel_, matrix)


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
