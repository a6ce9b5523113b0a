r"""The substrate family: additive regularization with given constants, and sparsity by the 1-norm.

See :mod:`problems.ls_svm_substrate` and :mod:`problems.l1_substrate`.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np

from problems.estimators.full.l1_fit import L1Model, fit_l1
from problems.estimators.full.saddle_machine import LeavesOut, leave_one_out, left_out_importance
from problems.estimators.shared.base import Fitted
from problems.estimators.shared.checked_again import GivenFit, add_target_error
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, positive, real_array
from substrate.certificates import Certificate, warn_unless_holds
from substrate.certificates.tolerance import tolerances_of
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.least_squares.answer import AnswerProblem, bound_answer
from substrate.least_squares.saddle_certificate import saddle_rows
from substrate.least_squares.saddle_system import solve_saddle_system

__all__ = ["L1SubstrateClassifier", "L1SubstrateRegressor", "SubstrateRegressor"]


class SubstrateModel(LeavesOut):
    """The LS-SVM of y - c at gamma = 1; residuals of leave-one-out are those of y - c."""

    conditional = "kernel, the constants c and preparation of the columns"

    def ridge(self) -> Array:
        """Return the diagonal of the system, ones."""
        return np.ones(self.estimator.support_.size)

    def recall_data(self, X: Any, y: Any, sample_weight: Any) -> GivenFit:
        """Return the data of the fit, checked as the fit checks them."""
        model = self.estimator
        X, y, _ = model._check_again(X, y, None, numeric=True, multi_output=False)
        if y.size != model.constants_.size:
            raise DataError(f"the model has {model.constants_.size} constants, these are {y.size} rows")
        return self.subtract_constants(X, y, model.constants_)

    def subtract_constants(self, X: Any, y: Array, constants: Array) -> GivenFit:
        """Return the LS-SVM of y - c at gamma = 1, with the rounding error of that difference."""
        target = y - constants
        back = target - y
        missing = (y - (target - back)) - (constants + back)  # the error of a difference, exactly (Knuth, Moller)
        ones, tolerance = np.ones(y.size), self.estimator._tolerance()
        return GivenFit(
            X=X,
            Y=target[:, None],
            weights=ones,
            gammas=(1.0,),
            tolerance=tolerance,
            missing=missing[:, None],
            observed=y[:, None],
        )


@dataclass(eq=False, repr=False)
class SubstrateRegressor(Regressor):
    """The LS-SVM substrate with given additive regularization constants ([Pelckmans2005]_ eq. (9)-(10)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    c : float, default=0.0
        The constant of every row, in the units of y; pass a vector to :meth:`fit`.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.

    Attributes
    ----------
    support_values_ : array of shape (n_samples,)
        alpha, the multipliers of y = f + e.
    constants_ : array of shape (n_samples,)
        The constants c used; the errors are alpha + c.
    bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`.
    """

    _model_type = SubstrateModel
    _page, _title = "ls_svm_substrate", "LS-SVM substrate"
    _takes_weights = False
    c: float = 0.0

    leave_one_out = leave_one_out
    left_out_importance = left_out_importance

    def fit(self, X: Any, y: Any, c: Any = None) -> Self:
        """Fit to rows X and targets y, with a constant for each row if ``c`` is given."""
        self._begin_fit()
        X, y, _ = self._check_data(X, y, None, numeric=True, multi_output=False)
        chosen = self.c if c is None else c
        if isinstance(chosen, (bool, np.bool_)):
            raise DataError(f"c must be one number or one for each row, received {chosen!r}")
        constant = real_array(chosen, "c", ndim=(0, 1))
        if constant.ndim == 1 and constant.size != y.size:
            raise DataError(f"c must be one number or one for each row: expected {y.size}, received {constant.size}")
        constants = np.array(np.broadcast_to(constant, y.shape))
        kernel = self._resolved_kernel(X)
        gram = Gram.of(kernel, X)
        if not kernel.trusted:
            gram.check_definite()
        fit_data = self._model.subtract_constants(X, y, constants)
        target, ridge = fit_data.Y[:, 0], np.ones(y.size)
        solved = solve_saddle_system(gram, target, ridge)
        tolerances = tolerances_of(y[:, None], fit_data.weights, fit_data.tolerance)
        question = AnswerProblem(
            kernel=kernel,
            X=X,
            Y=fit_data.Y,
            gammas=fit_data.gammas,
            weights=fit_data.weights,
            tolerances=tolerances,
            negative=gram.negative,
        )
        solution = (solved.support_values[:, None], np.atleast_1d(solved.bias), solved.products[:, None])
        answer, doubts = bound_answer(question, *solution, gram.diagonal, gram)
        alpha, bias = solved.support_values, float(solved.bias)
        rows = add_target_error(answer, fit_data.target_error(0))
        rows += saddle_rows(solved.products, gram.diagonal, target, ridge, alpha, bias)
        self.constants_ = constants
        facts = (*gram.record(), ("solver", f"closed form on y - c, refined {solved.refinements} times"))
        self.certificate_ = Certificate(self._title, rows, (*facts, *doubts))
        warn_unless_holds(self.certificate_)
        self._keep_expansion(X, np.arange(y.size), kernel, alpha, bias)
        return self


def _fit_l1(self: Fitted, X: Any, y: Any) -> Fitted:
    """Fit to rows X and targets y, or labels of any kind."""
    model: Any = self
    model._begin_fit()
    zeta, ridge = positive(model.zeta, "zeta"), model._model.ridge_of_w()
    model._check_coding()
    X, y, _ = model._check_data(X, y, None, numeric=not model._labels)
    coded, kernel = model._encode(y), model._resolved_kernel(X)
    Y = coded.codes(y)
    fit = fit_l1(kernel, X, Gram.of(kernel, X), Y, zeta, ridge, model._tolerance(), labels=model._labels)
    (rows,) = np.nonzero(fit.coefficients.any(axis=1))
    one = Y.shape[1] == 1
    codes, kept = np.ascontiguousarray(Y[rows]), fit.coefficients[rows]
    kept = coded.sign(codes, kept)
    model._keep_classes(coded, codes)
    model.n_support_, model.zeta_max_ = int(rows.size), fit.zeta_max
    model.certificate_ = Certificate(model._title, fit.rows, fit.facts)
    warn_unless_holds(model.certificate_)
    bias = float(fit.bias[0]) if one else fit.bias
    model._keep_expansion(X, rows, kernel, np.ascontiguousarray(kept[:, 0] if one else kept), bias)
    return self


@dataclass(eq=False, repr=False)
class L1SubstrateRegressor(Regressor):
    """The sparse LS-SVM substrate ([Pelckmans2005]_ eq. (16)): most support values are exactly zero.

    With a ``ridge``, which is not in the paper, it goes over into the LS-SVM.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    zeta : float, default=1.0
        Weight of the 1-norm against half the squared errors; from ``zeta_max_`` on only the bias is left.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    ridge : float, default=0.0
        Weight of half the squared norm of w: with it and a small zeta the machine is the LS-SVM of gamma = 1/ridge.

    Attributes
    ----------
    support_ : array of shape (n_support,)
        The rows with a support value other than zero.
    n_support_ : int
        The number of those rows.
    support_values_, support_vectors_ : arrays
        Those rows only.
    zeta_max_ : float
        The smallest zeta at which all support values are zero, whatever the ridge.
    bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`.
    """

    _model_type = L1Model
    _page = "l1_substrate"
    _takes_weights = False
    _typical = ({"ridge": 0.1},)
    _title = "L1 substrate, regression"
    zeta: float = 1.0
    _: KW_ONLY
    ridge: float = 0.0

    fit = _fit_l1

    def predict(self, X: Any) -> Array:
        """Predict f(x) = sum_i alpha_i k(x_i, x) + b over the support."""
        return self._expansion(X)


@dataclass(eq=False, repr=False)
class L1SubstrateClassifier(Classifier):
    """The sparse LS-SVM substrate for classes ([Pelckmans2005]_ eq. (16) with errors 1 - y f).

    Parameters
    ----------
    kernel, zeta, tol
        As for :class:`L1SubstrateRegressor`.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.
    ridge
        As for :class:`L1SubstrateRegressor`.

    Attributes
    ----------
    classes_, code_book_, support_codes_
        As for :class:`~problems.LSSVMClassifier`.
    support_, n_support_, support_values_, support_vectors_
        The rows that some machine uses.
    zeta_max_ : float
        The smallest zeta that leaves none in any machine.
    bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    _model_type = L1Model
    _page = "l1_substrate"
    _takes_weights = False
    _typical = ({"ridge": 0.1},)
    _title = "L1 substrate, classification"
    zeta: float = 1.0
    _: KW_ONLY
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
    ridge: float = 0.0

    fit = _fit_l1
