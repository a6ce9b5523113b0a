r"""Additive regularization with given constants, see :mod:`problems.ls_svm_substrate`."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.estimators.full.saddle_machine import LeavesOut, leave_one_out, left_out_importance
from problems.estimators.shared.checked_again import GivenFit, add_target_error
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, real_array
from substrate.certificates import Certificate, warn_unless_holds
from substrate.certificates.tolerance import tolerances_of
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.least_squares.answer import AnswerProblem, bound_answer
from substrate.least_squares.saddle_certificate import saddle_rows
from substrate.least_squares.saddle_system import solve_saddle_system

__all__ = ["SubstrateRegressor"]


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
