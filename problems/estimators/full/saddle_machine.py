"""The common part of LS-SVMs on one saddle system: the method, the expansion, the certificate, leaving rows out."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.full.saddle_fit import Method, SaddleFit
from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.checked_again import SaddleAnswers
from problems.estimators.shared.checks import check_home
from problems.estimators.shared.left_out import (
    KernelSystem,
    LeftOut,
    LeftOutSystem,
    PrimalSystem,
    leave_rows_out,
    machine_groups,
)
from problems.estimators.shared.machine_rows import points_of
from substrate import uncertainty
from substrate.arrays import Array, is_sparse, positive, real_array, whole_number
from substrate.certificates import NO_BOUND, Certificate, Row, warn_unless_holds
from substrate.certificates.rows import roundoff, unpolished
from substrate.device_gram import gram_kind
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.leave_one_out import leave_one_out_residuals
from substrate.least_squares.saddle_system import ridge_of
from substrate.namespaces import (
    device_points,
    is_device_array,
    namespace_of,
    on_device_of,
    own_copy,
    room_on_device,
    take_columns,
    to_numpy,
)

if TYPE_CHECKING:
    from problems.estimators.shared.importance import LeftOutImportance

__all__ = ["LeavesOut", "SaddleMachine", "SolvedMachine", "ridges_of"]

#: Relative residual at which the equations of a conic solver's point are accepted; its accuracy is a row of its own.
_ACCEPTED = 1e-5


def ridges_of(gammas: tuple[float, ...], weights: Array) -> Array:
    """The diagonal of the system, one for all outputs where their gammas agree."""
    if len(set(gammas)) == 1:
        return ridge_of(gammas[0], weights)
    return namespace_of(weights).stack([ridge_of(gamma, weights) for gamma in gammas], axis=1)  # type: ignore[no-any-return]


class LeavesOut(KernelEstimator):
    """Leaving rows out of a machine whose support values solve one saddle system, and which keeps all its rows."""

    #: What is not refitted.
    _conditional: ClassVar[str] = "kernel, gamma, weights and scaling of the columns"

    def leave_one_out(self, X: Any = None, y: Any = None) -> LeftOut:
        """Outputs, residuals and criteria of every row with that row left out, exactly and without refitting.

        Only the fitted state is needed, in the order of ``support_``, neither rows nor targets; ``X``, where given, has
        to be that of the fit. With a precomputed kernel it is needed, the matrix of all training rows. A row is left
        out with its whole weight. Kernel, gamma and scaling are unchanged although the left-out row contributed to
        their choice, which the certificate states.
        """
        check_is_fitted(self)
        home, one = self.support_values_, self.support_values_.ndim == 1
        self._check_room("leave rows out by folds, with cross_val_predict.")
        gram = self._training_gram(X)
        alpha, ridge, codes = self._in_columns()
        members = self._members(alpha, codes)
        done = leave_rows_out(self._left_out_system(gram), alpha, self._border_columns(alpha), ridge, members)
        parts = (on_device_of(home, part) for part in (done.outputs, done.residuals))
        outputs, residuals = (part[:, 0] if one else part for part in parts)
        predictions, wrong = self._judged(outputs)
        facts = (
            *gram.record(),
            ("conditional on", f"{self._conditional}, chosen with the left-out row included"),
            ("a row of weight v", "is left out as a whole"),
            (NO_BOUND, "one refit checks the left-out outputs; the accuracy of the fit is a row"),
        )
        freedom, gcv = ((float(v[0]) if one else v) for v in (done.degrees_of_freedom, done.gcv))
        certificate = Certificate("Leave-one-out without refitting", (done.row, *self._rests_on()), facts)
        return LeftOut(outputs, residuals, predictions, freedom, gcv, wrong, certificate)

    def left_out_importance(
        self, X: Any = None, y: Any = None, n_repeats: int = 5, random_state: Any = 0, *, sample_weight: Any = None
    ) -> "LeftOutImportance":
        """What every input is worth: the loss of left-out predictions when its values are permuted, without a refit.

        Each row is predicted by the machine fitted without it, once as it is and once with the input of another row.
        Of N rows every input and repetition costs one kernel matrix, after one inverse for all of them.

        Parameters
        ----------
        X, y : array, default=None
            As for :meth:`leave_one_out`; not needed.
        n_repeats : int, default=5
            Permutations of each input.
        random_state : int, Generator, RandomState or None, default=0
            Where permutations come from.
        sample_weight : array of shape (n_samples,), default=None
            Weights of the rows of the fit in the mean over rows; None weighs all rows of the model equally.

        Returns
        -------
        LeftOutImportance
            ``importances_mean``, ``importances_std`` and ``importances``, in the units of the mean square error or of
            the accuracy. Kernel, gamma and scaling are not chosen again, neither without a row nor without an input.
        """
        from problems.estimators.shared.importance import Losses, importance_of, refuse_matrix, weights_of  # for few

        check_is_fitted(self)
        refuse_matrix(self)
        weights = weights_of(sample_weight, self.support_)
        self._check_room("permute the inputs of other rows, with scikit-learn's permutation_importance.")
        gram = self._training_gram(X)
        machines, outputs, targets = self._own_rows(gram)
        losses = Losses.of_model(self, targets, weights)
        known = (machines, self.support_vectors_, outputs, losses)
        return importance_of(*known, n_repeats, random_state, self._rests_on())

    def _own_rows(self, gram: Gram) -> "tuple[uncertainty.OwnRows, Array, Array]":
        """The machines without a row, each for copies of that row; their outputs at the rows; and the targets."""
        alpha, ridge, codes = self._in_columns()
        primal, system = self._primal(), self._left_out_system(gram)
        fitted = system.fitted(alpha, self._border_columns(alpha))
        targets, outputs, groups = fitted + ridge * alpha, np.array(fitted), []
        for rows, columns, d in machine_groups(ridge, self._members(alpha, codes)):
            here, on_rows = np.ix_(rows, columns), system.on(rows, d)
            influence = on_rows.influence(entries=True)
            gram.release()
            residuals = leave_one_out_residuals(alpha[here], on_rows.diagonal_of(influence))
            outputs[here] = targets[here] - residuals
            some, linear = None if rows.size == alpha.shape[0] else rows, self._training_border().slopes
            groups.append(uncertainty.MachinesWithoutRows(columns, influence, residuals, some, linear))
        truth = codes if self._labels else targets
        if primal is not None:
            return uncertainty.OwnRows(tuple(groups), None, primal), outputs, truth
        factors, slopes = np.ascontiguousarray(alpha), self._linear_slopes()
        if slopes is not None:
            factors = np.concatenate([factors, slopes])
        bias = np.atleast_1d(to_numpy(self._bias()))
        known = on_device_of(gram.diagonal, factors), on_device_of(gram.diagonal, bias)
        machines = uncertainty.OwnRows(tuple(groups), self._kernel_rows, lambda values: values @ known[0] + known[1])
        return machines, outputs, truth

    def _left_out_system(self, gram: Gram) -> LeftOutSystem:
        """What leaving rows out needs: the kernel matrix of the rows and their border, or primal weights."""
        primal = self._primal()
        if primal is not None:
            return PrimalSystem(primal, self.support_vectors_, self._training_border())
        return KernelSystem(gram, self._training_border(), self._kernel_rows)

    def _kernel_rows(self, X: Any) -> Array:
        """The kernel values of points with the rows of the expansion, and the columns of a linear part."""
        kernel: Kernel = self.kernel_
        if is_device_array(X):
            xp = namespace_of(X)
            given = take_columns(X, self.support_) if kernel.pairwise else X
            points = given if kernel.pairwise else self.support_vectors_
            values: Array = kernel.evaluate(given, points, xp.float64)
            return self._beside(values, X)
        out = np.empty((X.shape[0], self.support_.size))
        if kernel.pairwise:
            kernel.fill(X[:, self.support_], None, out)
        else:
            kernel.fill(X, self.support_vectors_, out)
        return self._beside(out, X)

    def _border_columns(self, alpha: Array) -> Array:
        """What the machines add to their kernel expansions at their rows: a number each, or one line per row."""
        if self._linear_slopes() is None:
            return np.atleast_1d(to_numpy(self._bias()))
        return np.reshape(to_numpy(self._unpenalised(self.support_vectors_)), alpha.shape)

    def _check_room(self, advice: str) -> None:
        """Refuse an inverse that does not fit memory."""
        n, home = self.support_.size, self.support_values_
        copies = 6.0 if is_device_array(home) else 4.0  # a device factors and inverts out of place
        room_on_device(home, 8.0 * copies * n * n, f"the {n} x {n} inverse", advice)

    def _in_columns(self) -> tuple[Array, Array, Array]:
        """Support values in the sign of the expansion, diagonal of the system and codes, one column per machine."""
        alpha, ridge = to_numpy(self._coefficients()), to_numpy(self._ridge())
        alpha = alpha[:, None] if alpha.ndim == 1 else alpha
        codes = np.reshape(to_numpy(getattr(self, "support_codes_", np.ones(alpha.shape))), alpha.shape)
        return alpha, np.broadcast_to(ridge[:, None] if ridge.ndim == 1 else ridge, alpha.shape), codes

    def _rests_on(self) -> tuple[Row, ...]:
        """The accuracy of the fit: left-out residuals are only as accurate as the support values."""
        answer = self.certificate_.answer
        if answer is None:
            return ()
        return (answer.plain("accuracy of the fit"),)

    def _judged(self, outputs: Array) -> tuple[Any, float | None]:
        """Predictions from outputs, and the share of wrong ones in classification."""
        return outputs, None

    def _members(self, alpha: Array, codes: Array) -> Any:
        """The rows that each machine was fitted to."""
        return codes != 0.0

    def _ridge(self) -> Array:
        """The diagonal of the system, one column per machine where they differ."""
        ridge: Array = self.ridge_
        return ridge

    def _training_gram(self, X: Any) -> Gram:
        name = type(self).__name__
        if not self.kernel_.pairwise:
            if X is not None and not _same_rows(X, self.support_, self.support_vectors_):
                raise DataError(f"X does not hold the rows that this {name} was fitted to; leave it out, or give those")
            return gram_kind(self.support_vectors_).of(self.kernel_, self.support_vectors_)
        if X is None:
            raise DataError("with a precomputed kernel leave_one_out needs X, the kernel matrix of the training rows")
        check_home(self, self.support_values_, X, "X")
        matrix = device_points(X, "X") if is_device_array(X) else real_array(X, "X", ndim=2)
        wanted = (self.n_features_in_, self.n_features_in_)
        if tuple(matrix.shape) != wanted:
            raise DataError(f"X must be the training kernel matrix of shape {wanted}, received {tuple(matrix.shape)}")
        matrix = points_of(matrix, self.support_, True)
        return gram_kind(matrix).of(self.kernel_, matrix)


def _same_rows(X: Any, rows: Any, kept: Any) -> bool:
    """Whether a model's rows are those of X."""
    if is_device_array(X) or is_device_array(kept):
        X, kept = to_numpy(X), to_numpy(kept)
    X = X if is_sparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[1] != kept.shape[1] or (rows.size and X.shape[0] <= int(rows.max())):
        return False
    some = X.tocsr()[rows] if is_sparse(X) else X[rows]
    apart = some != kept
    return not (apart.nnz if is_sparse(apart) else np.asarray(apart).any())


@dataclass(eq=False, repr=False)
class SaddleMachine(LeavesOut, SaddleAnswers):
    """Base of the machines on one saddle system: gamma, the expansion, the certificate."""

    gamma: Any = 1.0

    def _keep(self, X: Any, rows: Any, kernel: Any, fit: SaddleFit, ridge: Array, one_output: bool) -> None:
        """Set the fitted attributes where X is, all at the end, the one that marks the model as fitted last."""
        self.ridge_ = on_device_of(X, ridge)
        self.certificate_ = Certificate(self._title, fit.rows, fit.facts)
        self.n_iter_ = fit.iterations
        self._keep_primal(fit.primal)
        warn_unless_holds(self.certificate_, fit.reason)
        alpha = on_device_of(X, own_copy(fit.support_values[:, 0] if one_output else fit.support_values))
        self._keep_expansion(X, rows, kernel, alpha, float(fit.bias[0]) if one_output else on_device_of(X, fit.bias))

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if self.__sklearn_is_fitted__():
            ridge, alpha = self.ridge_, self.support_values_
            if ridge.dtype.kind != "f" or ridge.shape not in (alpha.shape[:1], alpha.shape):
                raise DataError(f"a ridge of shape {ridge.shape} does not belong to support values of {alpha.shape}")
            if not (np.isfinite(ridge).all() and (ridge > 0.0).all()):
                raise DataError("the ridge must hold positive numbers")


@dataclass(eq=False, repr=False, kw_only=True)
class SolvedMachine(SaddleMachine):
    """A machine whose system is solved in closed form, by conjugate gradients, or as the declared problem."""

    _solvers: ClassVar[tuple[str, ...]] = ("auto", "cholesky", "stored_cg", "cg", "cvxpy")
    _on_devices = True
    solver: str = "auto"
    cg_tol: float = 1e-8
    max_iter: int = 1000
    solver_: Literal["cholesky", "stored_cg", "cg", "cvxpy"] = field(init=False)

    def _keep(self, X: Any, rows: Any, kernel: Any, fit: SaddleFit, ridge: Array, one_output: bool) -> None:
        self.solver_ = fit.way
        super()._keep(X, rows, kernel, fit, ridge, one_output)

    def _method(self) -> Method:
        most = whole_number(self.max_iter, "max_iter", 1)
        cg_tol = positive(self.cg_tol, "cg_tol")
        return Method(self.solver, cg_tol, most, self._tolerance(), self._own_page(), self._additive)

    def _tolerances(self) -> tuple[float, float | None]:
        """Tolerances of the accuracy and of the equations: those of iterative methods and conic solvers are larger."""
        tol = self._tolerance()
        if self.solver in ("auto", "cholesky", "stored_cg"):
            # models of version 0.1 have no solver_: theirs was the closed form
            direct = getattr(self, "solver_", "cholesky") == "cholesky"
            return tol, None if direct else max(tol, roundoff(self.support_.size))
        return (tol, 10.0 * self.cg_tol) if self.solver == "cg" else (unpolished(tol), _ACCEPTED)
