r"""The LS-SVM family: regression and classification through one saddle system.

.. math:: \min_{w,b,e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i e_i^2

subject to :math:`y_i = f(x_i) + e_i` or :math:`y_i f(x_i) = 1 - e_i`; see :mod:`problems.ls_svm_regression`,
:mod:`problems.ls_svm_classification`, and :mod:`substrate.closed_form.saddle_system` for the fast path.
"""

from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from problems.estimators.base import KernelEstimator
from problems.estimators.coded import CodedClassifier, classes_of, codes_of, numbers_of_codes, scores_of, winners
from problems.estimators.left_out import LeftOut, leave_rows_out
from problems.estimators.on_device import check_home
from problems.estimators.saddle_fit import Method, SaddleFit, fit_saddle, gammas_of
from problems.estimators.scores import ScoredRegressor
from substrate.arrays import Array, positive, real_array
from substrate.certificates import Certificate, Row, warn_unless_holds
from substrate.certificates.accuracy import ACCURATE, UNPOLISHED
from substrate.closed_form.answer import Question, certified
from substrate.closed_form.saddle_certificate import saddle_rows, worst_rows
from substrate.closed_form.saddle_system import ridge_of
from substrate.codings import code_book
from substrate.device_gram import gram_kind
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.namespaces import (
    device_points,
    is_device_array,
    namespace_of,
    on_device_of,
    own_copy,
    room_on_device,
    take_rows,
    to_numpy,
)
from substrate.proof import Proof, worst_proof
from substrate.proof.least_squares import prove_expansion, prove_primal

__all__ = ["LSSVMClassifier", "LSSVMRegressor", "ridges_of"]


def ridges_of(gammas: tuple[float, ...], weights: Array) -> Array:
    """The diagonal of the system, one for all outputs where their gammas agree."""
    if len(set(gammas)) == 1:
        return ridge_of(gammas[0], weights)
    return namespace_of(weights).stack([ridge_of(gamma, weights) for gamma in gammas], axis=1)  # type: ignore[no-any-return]


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
        self._keep_primal(fit.primal)
        warn_unless_holds(self.certificate_)
        alpha = own_copy(fit.support_values[:, 0] if one_output else fit.support_values)
        self._keep_expansion(X, rows, kernel, alpha, float(fit.bias[0]) if one_output else fit.bias)

    def _certify(self, X: Any, Y: Array, weights: Array, gammas: tuple[float, ...], title: str) -> Certificate:
        """Rows for the coefficients held now; a zero in a column of labels leaves that row out of the machine."""
        alpha = self._coefficients()
        alpha = alpha[:, None] if alpha.ndim == 1 else alpha
        check_home(self, alpha, X)
        if alpha.shape != Y.shape:
            raise DataError(f"the model has support values of shape {alpha.shape}, these rows need {Y.shape}")
        gram = gram_kind(X).of(self.kernel_, X)
        if not self.kernel_.trusted:
            gram.check_definite()
        targets, v, bias = to_numpy(Y), to_numpy(weights), np.atleast_1d(to_numpy(self.bias_))
        fitted = np.reshape(to_numpy(self._fitted_values(X)), targets.shape)
        primal = self._primal()
        rows: list[tuple[Row, ...]] = []
        facts: dict[str, str] = {}
        for column, gamma in enumerate(gammas):
            (members,) = np.nonzero(self._members(targets[:, column]))
            a = own_copy(take_rows(alpha[:, column], members))
            part = gram if members.size == gram.n else gram.block(members)
            known = (to_numpy(part.product(a)), to_numpy(part.diagonal), targets[members, column])
            checks = saddle_rows(
                *known, ridge_of(gamma, v[members]), to_numpy(a), float(bias[column]), tolerance=self._row_tolerance()
            )
            target, points = targets[members, column][:, None], take_rows(to_numpy(X), members)
            if self.kernel_.pairwise:
                points = points[:, members]
            question = Question(self.kernel_, points, target, (gamma,), v[members], part.negative, self._tolerance())
            held = None if primal is None else primal.output(column)
            answer = certified(question, to_numpy(a)[:, None], bias[[column]], fitted[members, column][:, None], held)
            # the equations of the support values say nothing of an answer that is carried by primal weights, and a
            # conic solver's point is judged by its answer
            alone = bool(answer.rows) and (primal is not None or self._tolerance() == UNPOLISHED)
            rows.append(answer.rows if alone else (*answer.rows, *checks))
            facts |= dict(answer.facts)
        return Certificate(f"{title}, checked again", worst_rows(rows), (*gram.record(), *facts.items()))

    def _prove(self, X: Any, Y: Array, weights: Array, gammas: tuple[float, ...]) -> Proof:
        """The proof of every output, of which the worst speaks."""
        alpha, X = to_numpy(self._coefficients()), to_numpy(X)
        alpha = alpha[:, None] if alpha.ndim == 1 else alpha
        if alpha.shape != Y.shape:
            raise DataError(f"the model has support values of shape {alpha.shape}, these rows need {Y.shape}")
        targets, v, bias = to_numpy(Y), to_numpy(weights), np.atleast_1d(to_numpy(self.bias_))
        fitted, primal, tolerance = (
            np.reshape(to_numpy(self._fitted_values(X)), targets.shape),
            self._primal(),
            self._tolerance(),
        )
        found = []
        for column, gamma in enumerate(gammas):
            (members,) = np.nonzero(self._members(targets[:, column]))
            points = X[members][:, members] if self.kernel_.pairwise else X[members]
            y, said = targets[members, column], fitted[members, column]
            if primal is not None:
                made = prove_primal(primal.output(column), points, y, gamma, v[members], said, tolerance=tolerance)
            else:
                a, b = alpha[members, column], float(bias[column])
                made = prove_expansion(self.kernel_, points, y, gamma, v[members], a, b, said, tolerance=tolerance)
            found.append(made)
        return worst_proof(found)

    def _tolerance(self) -> float:
        """Of the spread of y: a conic solver's own point is less accurate."""
        return ACCURATE if getattr(self, "solver", "auto") in ("auto", "cg") else UNPOLISHED

    def _row_tolerance(self) -> float | None:
        """Of the equations: LAPACK's for the closed form, else what the iteration or the solver was asked for."""
        solver = getattr(self, "solver", "auto")
        return None if solver == "auto" else 10.0 * positive(self.tol, "tol") if solver == "cg" else UNPOLISHED

    def _members(self, column: Array) -> Any:
        return np.ones(column.size, dtype=bool)

    def leave_one_out(self, K: Any = None) -> LeftOut:
        """Outputs, residuals and criteria of every row with that row left out, exactly and without refitting.

        Works from the fitted state, in the order of ``support_``; with a precomputed kernel, ``K`` is the matrix of all
        training rows again. A row leaves with its whole weight. Kernel, gamma and scaling stay as they are although the
        left-out row had its part in choosing them: the certificate says so.
        """
        check_is_fitted(self)
        n, home = self.support_.size, self.support_values_
        copies = 6.0 if is_device_array(home) else 4.0  # a device factors and inverts out of place
        advice = "leave rows out by folds, with cross_val_predict."
        room_on_device(home, 8.0 * copies * n * n, f"the {n} x {n} inverse", advice)
        gram = self._training_gram(K)
        alpha, ridge = to_numpy(self._coefficients()), to_numpy(self.ridge_)
        one = alpha.ndim == 1
        alpha = alpha[:, None] if one else alpha
        codes = np.reshape(to_numpy(getattr(self, "support_codes_", np.ones(alpha.shape))), alpha.shape)
        ridge = np.broadcast_to(ridge[:, None] if ridge.ndim == 1 else ridge, alpha.shape)
        done = leave_rows_out(gram, alpha, np.atleast_1d(to_numpy(self.bias_)), ridge, codes != 0.0)
        parts = (on_device_of(home, part) for part in (done.outputs, done.residuals))
        outputs, residuals = (part[:, 0] if one else part for part in parts)
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
            return gram_kind(self.support_vectors_).of(self.kernel_, self.support_vectors_)
        if K is None:
            raise DataError("with a precomputed kernel leave_one_out needs K, the kernel matrix of the training rows")
        check_home(self, self.support_values_, K, "K")
        matrix = device_points(K, "K") if is_device_array(K) else real_array(K, "K", ndim=2)
        wanted = (self.n_features_in_, self.n_features_in_)
        if tuple(matrix.shape) != wanted:
            raise DataError(f"K must be the training kernel matrix of shape {wanted}, received {tuple(matrix.shape)}")
        matrix = take_rows(take_rows(matrix, self.support_).T, self.support_).T
        return gram_kind(matrix).of(self.kernel_, matrix)

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if self.__sklearn_is_fitted__():
            ridge, alpha = self.ridge_, self.support_values_
            if ridge.dtype.kind != "f" or ridge.shape not in (alpha.shape[:1], alpha.shape):
                raise DataError(f"a ridge of shape {ridge.shape} does not belong to support values of {alpha.shape}")
            if not (np.isfinite(ridge).all() and (ridge > 0.0).all()):
                raise DataError("the ridge must hold positive numbers")


class LSSVMRegressor(MultiOutputMixin, ScoredRegressor, _LSSVM):
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

    _on_devices = True

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

        Everything is computed anew from ``X``, ``y``, and what :meth:`predict` uses; a coefficient changed since the
        fit makes the certificate fail.
        """
        X, Y, weights = self._given_again(X, y, sample_weight)
        return self._certify(X, Y, weights, self._gammas(Y.shape[1]), "LS-SVM regression")

    def prove(self, X: Any, y: Any, sample_weight: Any = None) -> Proof:
        """Prove in ball arithmetic how near the fitted values are to those of the exact optimum.

        ``X``, ``y`` and ``sample_weight`` are those of the fit. Nothing of the fit is used but the stored numbers.
        Needs python-flint, ``pip install "lssvm-substrate[proof]"``.
        """
        X, Y, weights = self._given_again(X, y, sample_weight)
        return self._prove(X, Y, weights, self._gammas(Y.shape[1]))

    def _given_again(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Array]:
        check_is_fitted(self)
        X, y, weights, _ = self._kept(
            *type(self)(self.kernel)._checked(X, y, sample_weight, numeric=True, multi_output=True)
        )
        return X, y[:, None] if y.ndim == 1 else y, weights

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

    _on_devices = True

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
        Y = codes_of(labels, classes, book)
        kernel = self._resolved_kernel(X)
        fit = self._fit_codes(kernel, X, Y, gamma, weights, method)
        self.classes_ = classes
        self.code_book_ = book
        one = Y.shape[1] == 1
        self.support_codes_ = own_copy(Y[:, 0] if one else Y)
        signed = replace(fit, support_values=Y * fit.support_values)
        title = "LS-SVM classification (as regression on the labels)"
        self._keep(X, rows, kernel, signed, ridge_of(gamma, weights), title, one)
        return self

    def certify(self, X: Any, y: Any, sample_weight: Any = None) -> Certificate:
        """Check the coefficients this model holds now against the KKT system on the given training data."""
        X, Y, weights = self._given_again(X, y, sample_weight)
        return self._certify(X, Y, weights, self._class_gammas(Y.shape[1]), "LS-SVM classification")

    def prove(self, X: Any, y: Any, sample_weight: Any = None) -> Proof:
        """As :meth:`LSSVMRegressor.prove`, of the codes of the classes."""
        X, Y, weights = self._given_again(X, y, sample_weight)
        return self._prove(X, Y, weights, self._class_gammas(Y.shape[1]))

    def _given_again(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Array]:
        check_is_fitted(self)
        fresh = type(self)(self.kernel)
        X, labels, weights = fresh._checked(X, y, sample_weight, numeric=False)
        X, labels, weights, _, classes = self._weighted(X, labels, weights)
        if not np.array_equal(classes, self.classes_):
            raise DataError(f"the model knows classes {self.classes_}, these data have {classes}")
        return X, codes_of(labels, classes, self.code_book_), weights

    def _class_gammas(self, n_machines: int) -> tuple[float, ...]:
        return (positive(self.gamma, "gamma"),) * n_machines

    def _weighted(self, X: Any, labels: Any, weights: Array) -> tuple[Any, Any, Array, Any, Any]:
        """Class weights multiplied in, rows of weight zero dropped, and what classes are left."""
        if self.class_weight is not None:
            weights = on_device_of(weights, self._class_weighted(to_numpy(labels), to_numpy(weights)))
        X, labels, weights, rows = self._kept(X, labels, weights)
        return X, labels, weights, rows, classes_of(labels)

    def _class_weighted(self, labels: Any, weights: Array) -> Array:
        kept = weights > 0.0
        present = np.unique(labels[kept])
        if not present.size:
            return weights
        factors = compute_class_weight(self.class_weight, classes=present, y=labels[kept], sample_weight=weights[kept])
        weighted = weights.copy()
        weighted[kept] *= np.asarray(factors)[np.searchsorted(present, labels[kept])]
        return weighted

    def _fit_codes(self, kernel: Any, X: Any, Y: Array, gamma: float, weights: Array, method: Method) -> SaddleFit:
        codes = to_numpy(Y)
        if (codes != 0.0).all():
            return fit_saddle(kernel, X, Y, (gamma,) * Y.shape[1], weights, method, labels=True)
        gram = None if method.solver == "cg" else gram_kind(X).of(kernel, X)
        alpha, bias = np.zeros_like(codes), np.empty(Y.shape[1])
        fits = []
        for column in range(Y.shape[1]):
            (rows,) = np.nonzero(codes[:, column])
            part = None if gram is None else gram.block(rows)
            points, target, v = take_rows(X, rows), take_rows(Y[:, column], rows)[:, None], take_rows(weights, rows)
            if kernel.pairwise:
                points = take_rows(points.T, rows).T
            fit = fit_saddle(kernel, points, target, (gamma,), v, method, labels=True, gram=part, primal=False)
            alpha[rows, column], bias[column] = to_numpy(fit.support_values[:, 0]), float(fit.bias[0])
            fits.append(fit)
        facts = dict.fromkeys(fact for fit in fits for fact in fit.facts)
        most, rows_of_all = max(fit.iterations for fit in fits), worst_rows([fit.rows for fit in fits])
        return SaddleFit(on_device_of(Y, alpha), on_device_of(Y, bias), rows_of_all, tuple(facts), most)

    def _members(self, column: Array) -> Any:
        return column != 0.0

    def _judged(self, outputs: Array) -> tuple[Any, float | None]:
        found = winners(scores_of(outputs, self.coding, self.code_book_))
        codes = self.support_codes_[:, None] if self.support_codes_.ndim == 1 else self.support_codes_
        wrong = to_numpy(found != numbers_of_codes(codes, self.code_book_))
        return take_rows(on_device_of(found, self.classes_), found), float(np.mean(wrong))
