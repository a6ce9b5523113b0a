r"""The LS-SVM family: regression and classification through one saddle system.

.. math:: \min_{w,b,e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i e_i^2

subject to :math:`y_i = f(x_i) + e_i` or :math:`y_i f(x_i) = 1 - e_i`; see :mod:`problems.ls_svm_regression`,
:mod:`problems.ls_svm_classification`, and :mod:`substrate.closed_form.saddle_system` for the fast path.
"""

from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from problems.estimators.base import KernelEstimator
from problems.estimators.coded import CodedClassifier, classes_of, scores_of, winners
from problems.estimators.left_out import LeftOut, leave_rows_out
from problems.estimators.saddle_fit import Method, SaddleFit, fit_saddle, gammas_of
from substrate.arrays import Array, check_memory, positive, real_array
from substrate.certificates import Certificate
from substrate.closed_form.saddle_certificate import saddle_rows, worst_rows
from substrate.closed_form.saddle_system import ridge_of
from substrate.codings import code_book
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram

__all__ = ["LSSVMClassifier", "LSSVMRegressor", "ridges_of"]


def ridges_of(gammas: tuple[float, ...], weights: Array) -> Array:
    """The diagonal of the system, one for all outputs where their gammas agree."""
    if len(set(gammas)) == 1:
        return ridge_of(gammas[0], weights)
    return np.column_stack([ridge_of(gamma, weights) for gamma in gammas])


class _LSSVM(KernelEstimator):
    """What regression and classification share: the method, the expansion, the certificate."""

    gamma: Any
    solver: str
    tol: float
    max_iter: int

    def _method(self) -> Method:
        if isinstance(self.max_iter, bool) or not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise DeclarationError(f"max_iter must be an integer >= 1, received {self.max_iter!r}")
        return Method(self.solver, positive(self.tol, "tol"), int(self.max_iter))

    def _keep(self, X: Any, rows: Any, kernel: Any, fit: SaddleFit, ridge: Array, title: str, one_output: bool) -> None:
        """Set the fitted attributes, all at the end, the one that says "fitted" last."""
        self.ridge_ = ridge
        self.certificate_ = Certificate(title, fit.rows, fit.facts)
        self.n_iter_ = fit.iterations
        alpha = np.ascontiguousarray(fit.support_values[:, 0] if one_output else fit.support_values)
        self._keep_expansion(X, rows, kernel, alpha, float(fit.bias[0]) if one_output else fit.bias)

    def _certify(self, X: Any, Y: Array, weights: Array, gammas: tuple[float, ...], title: str) -> Certificate:
        """Rows for the coefficients held now; a zero in a column of labels leaves that row out of the machine."""
        alpha = self._coefficients()
        alpha = alpha[:, None] if alpha.ndim == 1 else alpha
        if alpha.shape != Y.shape:
            raise DataError(f"the model has support values of shape {alpha.shape}, these rows need {Y.shape}")
        gram = Gram.of(self.kernel_, X)
        rows = []
        for column, gamma in enumerate(gammas):
            (members,) = np.nonzero(self._members(Y[:, column]))
            a = np.ascontiguousarray(alpha[members, column])
            part = gram if members.size == gram.n else gram.block(members)
            b = float(np.atleast_1d(self.bias_)[column])
            ridge = ridge_of(gamma, weights[members])
            rows.append(saddle_rows(part.product(a), part.diagonal, Y[members, column], ridge, a, b))
        return Certificate(f"{title}, checked again", worst_rows(rows), gram.record())

    def _members(self, column: Array) -> Any:
        return np.ones(column.size, dtype=bool)

    def leave_one_out(self, K: Any = None) -> LeftOut:
        """Outputs, residuals and criteria of every row with that row left out, exactly and without refitting.

        Works from the fitted state, in the order of ``support_``; with a precomputed kernel, ``K`` is the matrix of all
        training rows again. A row leaves with its whole weight. Kernel, gamma and scaling stay as they are although the
        left-out row had its part in choosing them: the certificate says so.
        """
        check_is_fitted(self)
        n = self.support_.size
        check_memory(32.0 * n * n, f"the {n} x {n} inverse", "leave rows out by folds, with cross_val_predict.")
        gram = self._training_gram(K)
        alpha = self._coefficients()
        one = alpha.ndim == 1
        alpha = alpha[:, None] if one else alpha
        codes = np.reshape(getattr(self, "support_codes_", np.ones(alpha.shape)), alpha.shape)
        ridge = np.broadcast_to(self.ridge_[:, None] if self.ridge_.ndim == 1 else self.ridge_, alpha.shape)
        done = leave_rows_out(gram, alpha, np.atleast_1d(self.bias_), ridge, codes != 0.0)
        outputs, residuals = (part[:, 0] if one else part for part in (done.outputs, done.residuals))
        predictions, wrong = self._judged(outputs)
        facts = (
            *gram.record(),
            (
                "conditional on",
                "kernel, gamma, weights and scaling of the columns, chosen with the left-out row in sight",
            ),
            ("a row of weight v", "leaves as a whole"),
        )
        freedom, gcv = ((float(v[0]) if one else v) for v in (done.degrees_of_freedom, done.gcv))
        certificate = Certificate("Leave-one-out without refitting", (done.row,), facts)
        return LeftOut(outputs, residuals, predictions, freedom, gcv, wrong, certificate)

    def _judged(self, outputs: Array) -> tuple[Any, float | None]:
        """Predictions from outputs, and the share of wrong ones where there are right and wrong ones."""
        return outputs, None

    def _training_gram(self, K: Any) -> Gram:
        if not self.kernel_.pairwise:
            if K is not None:
                raise DataError("K goes with a precomputed kernel; this model computes its own from support_vectors_")
            return Gram.of(self.kernel_, self.support_vectors_)
        if K is None:
            raise DataError("with a precomputed kernel leave_one_out needs K, the kernel matrix of the training rows")
        matrix = real_array(K, "K", ndim=2)
        if matrix.shape != (self.n_features_in_, self.n_features_in_):
            wanted = (self.n_features_in_, self.n_features_in_)
            raise DataError(f"K must be the training kernel matrix of shape {wanted}, received {matrix.shape}")
        return Gram.of(self.kernel_, matrix[np.ix_(self.support_, self.support_)])

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if self.__sklearn_is_fitted__():
            ridge, alpha = self.ridge_, self.support_values_
            if ridge.dtype.kind != "f" or ridge.shape not in (alpha.shape[:1], alpha.shape):
                raise DataError(f"a ridge of shape {ridge.shape} does not belong to support values of {alpha.shape}")
            if not (np.isfinite(ridge).all() and (ridge > 0.0).all()):
                raise DataError("the ridge must hold positive numbers")


class LSSVMRegressor(MultiOutputMixin, RegressorMixin, _LSSVM):
    """Least-squares support vector regression with an unpenalised bias ([Suykens2002]_ eq. (1)-(9)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of :mod:`substrate.kernels`; a name (``"rbf"`` is ``RBF(sigma="median")``); or a function of two
        point sets. ``kernel__sigma`` reaches its width in a grid search.
    gamma : float or sequence of float, default=1.0
        Weight of the squared errors against the norm; one number, or one for each output.
    solver : str, default="auto"
        ``"auto"`` is the closed form. ``"cg"`` computes the kernel in blocks and never stores it, for N whose matrix
        does not fit. ``"cvxpy"`` solves the declared problem by the first solver whose residuals are accepted; a
        solver's name (``"CLARABEL"``, ``"OSQP"``, ...) by that one.
    tol : float, default=1e-8
        Relative residual at which ``"cg"`` stops.
    max_iter : int, default=1000
        Most iterations of ``"cg"``.

    Attributes
    ----------
    support_values_ : array of shape (n_support,) or (n_support, n_outputs)
        alpha, the multipliers of y = f + e.
    bias_ : float or array of shape (n_outputs,)
        b.
    support_ : array of shape (n_support,)
        Rows of X that carry the expansion: all rows of positive weight.
    support_vectors_ : array or sparse matrix of shape (n_support, n_features)
        Those rows (absent for a precomputed kernel).
    kernel_ : Kernel
        The kernel with its width as a number.
    certificate_ : Certificate
        The report on the fit.
    ridge_ : array of shape (n_support,) or (n_support, n_outputs)
        The diagonal 1/(gamma v) of the system, a column an output where gammas differ.
    n_iter_ : int
        Iterations of ``"cg"``; for a direct method, one and its refinements.

    Examples
    --------
    >>> from problems import LSSVMRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> model = LSSVMRegressor(kernel=RBF(sigma=6.6), gamma=2.0).fit(X, y)
    >>> bool(model.certificate_.holds)
    True
    """

    def __init__(
        self, kernel: Any = "rbf", gamma: Any = 1.0, solver: str = "auto", tol: float = 1e-8, max_iter: int = 1000
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        self._forget()
        method = self._method()
        X, y, weights = self._checked(X, y, sample_weight, numeric=True, multi_output=True)
        X, y, weights, rows = self._kept(X, y, weights)
        Y = y[:, None] if y.ndim == 1 else y
        gammas = self._gammas(Y.shape[1])
        kernel = self._resolved_kernel(X)
        fit = fit_saddle(kernel, X, Y, gammas, weights, method)
        self._keep(X, rows, kernel, fit, ridges_of(gammas, weights), "LS-SVM regression", y.ndim == 1)
        return self

    def predict(self, X: Any) -> Array:
        """f(x) = sum_i alpha_i k(x_i, x) + b, in memory that does not grow with the number of rows.

        :equation [Suykens2002]_ (9): the predictor
        """
        return self._expansion(X)

    def certify(self, X: Any, y: Any, sample_weight: Any = None) -> Certificate:
        """Check the coefficients this model holds now against the KKT system on the given training data.

        Everything is computed anew from ``X``, ``y``, ``support_values_`` and ``bias_``; a coefficient changed since
        the fit makes the certificate fail.
        """
        check_is_fitted(self)
        X, y, weights, _ = self._kept(
            *type(self)(self.kernel)._checked(X, y, sample_weight, numeric=True, multi_output=True)
        )
        Y = y[:, None] if y.ndim == 1 else y
        return self._certify(X, Y, weights, self._gammas(Y.shape[1]), "LS-SVM regression")

    def _gammas(self, n_outputs: int) -> tuple[float, ...]:
        return gammas_of(self.gamma, n_outputs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class LSSVMClassifier(CodedClassifier, _LSSVM):
    """The least-squares support vector classifier ([Pelckmans2005]_ eq. (4)-(5)), two classes or more.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`LSSVMRegressor`.
    gamma : float, default=1.0
        Weight of the squared errors against the norm.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`. All but ``one_vs_one`` share
        one factorisation; ``one_vs_one`` factors each pair's block.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into the weights of the rows.
    solver, tol, max_iter
        As for :class:`LSSVMRegressor`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    code_book_ : array of shape (n_classes, n_machines)
        Which side of each machine a class is on.
    support_values_ : array of shape (n_support,) or (n_support, n_machines)
        alpha, the multipliers of y f = 1 - e.
    support_codes_ : array of the same shape
        The labels -1, +1 (0: not in this machine) by which alpha is multiplied in the expansion.
    bias_ : float or array of shape (n_machines,)
        b.
    support_, support_vectors_, kernel_, certificate_, ridge_, n_iter_
        As for :class:`LSSVMRegressor`.

    Notes
    -----
    Least squares estimates no probabilities. For probabilities, calibrate the decision values with scikit-learn:
    ``CalibratedClassifierCV(LSSVMClassifier(...), method="sigmoid", cv=5)`` fits Platt's sigmoid on held-out folds;
    ``method="isotonic"`` is better beyond about a thousand rows.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        gamma: float = 1.0,
        coding: str = "one_vs_rest",
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.coding = coding
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and labels y of any kind; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        self._forget()
        method = self._method()
        gamma = positive(self.gamma, "gamma")
        code_book(self.coding, 2)  # an unknown coding is refused before any work
        X, labels, weights = self._checked(X, y, sample_weight, numeric=False)
        X, labels, weights, rows, classes = self._weighted(X, labels, weights)
        book = code_book(self.coding, classes.size)
        Y = book[np.searchsorted(classes, labels)]
        kernel = self._resolved_kernel(X)
        fit = self._fit_codes(kernel, X, Y, gamma, weights, method)
        self.classes_ = classes
        self.code_book_ = book
        one = Y.shape[1] == 1
        self.support_codes_ = np.ascontiguousarray(Y[:, 0] if one else Y)
        signed = replace(fit, support_values=Y * fit.support_values)
        title = "LS-SVM classification (as regression on the labels)"
        self._keep(X, rows, kernel, signed, ridge_of(gamma, weights), title, one)
        return self

    def certify(self, X: Any, y: Any, sample_weight: Any = None) -> Certificate:
        """Check the coefficients this model holds now against the KKT system on the given training data."""
        check_is_fitted(self)
        fresh = type(self)(self.kernel)
        X, labels, weights = fresh._checked(X, y, sample_weight, numeric=False)
        X, labels, weights, _, classes = self._weighted(X, labels, weights)
        if not np.array_equal(classes, self.classes_):
            raise DataError(f"the model knows classes {self.classes_}, these data have {classes}")
        Y = self.code_book_[np.searchsorted(classes, labels)]
        return self._certify(X, Y, weights, self._class_gammas(Y.shape[1]), "LS-SVM classification")

    def _class_gammas(self, n_machines: int) -> tuple[float, ...]:
        return (positive(self.gamma, "gamma"),) * n_machines

    def _weighted(self, X: Any, labels: Any, weights: Array) -> tuple[Any, Any, Array, Any, Any]:
        """Class weights multiplied in, rows of weight zero dropped, and what classes are left."""
        present = np.unique(labels[weights > 0.0])
        if self.class_weight is not None and present.size:
            kept = weights > 0.0
            factors = compute_class_weight(
                self.class_weight, classes=present, y=labels[kept], sample_weight=weights[kept]
            )
            weights = weights.copy()
            weights[kept] *= np.asarray(factors)[np.searchsorted(present, labels[kept])]
        X, labels, weights, rows = self._kept(X, labels, weights)
        return X, labels, weights, rows, classes_of(labels)

    def _fit_codes(self, kernel: Any, X: Any, Y: Array, gamma: float, weights: Array, method: Method) -> SaddleFit:
        if (Y != 0.0).all():
            return fit_saddle(kernel, X, Y, (gamma,) * Y.shape[1], weights, method, labels=True)
        gram = None if method.solver == "cg" else Gram.of(kernel, X)
        alpha, bias = np.zeros_like(Y), np.empty(Y.shape[1])
        fits = []
        for column in range(Y.shape[1]):
            (rows,) = np.nonzero(Y[:, column])
            part = None if gram is None else gram.block(rows)
            target = Y[rows, column][:, None]
            fit = fit_saddle(kernel, X[rows], target, (gamma,), weights[rows], method, labels=True, gram=part)
            alpha[rows, column], bias[column] = fit.support_values[:, 0], fit.bias[0]
            fits.append(fit)
        facts = dict.fromkeys(fact for fit in fits for fact in fit.facts)
        most = max(fit.iterations for fit in fits)
        return SaddleFit(alpha, bias, worst_rows([fit.rows for fit in fits]), tuple(facts), most)

    def _members(self, column: Array) -> Any:
        return column != 0.0

    def _judged(self, outputs: Array) -> tuple[Any, float | None]:
        predicted = self.classes_[winners(scores_of(outputs, self.coding, self.code_book_))]
        codes = np.reshape(self.support_codes_, (self.support_.size, -1))
        known = self.classes_[(codes[:, None, :] == self.code_book_).all(axis=2).argmax(axis=1)]
        return predicted, float(np.mean(predicted != known))
