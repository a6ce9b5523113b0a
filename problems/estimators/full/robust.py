r"""Robust LS-SVM regression: weighted fits, each with weights from the errors of the previous one.

.. math:: \min_{w, b, e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_k v_k e_k^2, \qquad
          v_k = v(e_k^{\text{before}} / \hat s)

Algorithm 1 of [Suykens2002]_; see :mod:`problems.weighted_ls_svm` for the problem and
:mod:`substrate.least_squares.robust_weights` for weights and scales. The kernel matrix is computed once; each fit
factors it again in place.
"""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from problems.estimators.full.reweighted_fits import reweighted_fits
from problems.estimators.full.robust_folds import gamma_by_folds
from problems.estimators.full.saddle_fit import gammas_of
from problems.estimators.full.saddle_machine import (
    EFFECTIVE_PARAMETERS,
    LeavesOut,
    check_ridge,
    leave_one_out,
    left_out_importance,
)
from problems.estimators.shared.checked_again import GivenFit
from problems.estimators.shared.encoding import Reweighting
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, positive, whole_number
from substrate.certificates import Certificate, Row, warn_unless_holds
from substrate.certificates.tolerance import tolerances_of
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.least_squares.answer import AnswerProblem, Facts, bound_answer
from substrate.least_squares.error_distribution import ALL_WEIGHTINGS, density_thresholds
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.robust_weights import SCALES, check_choice
from substrate.least_squares.saddle_certificate import saddle_rows
from substrate.least_squares.saddle_system import SaddleSolution

__all__ = ["RobustLSSVMRegressor"]


class RobustModel(LeavesOut):
    """The weighted LS-SVM of the last reweighting."""

    def recall_data(self, X: Any, y: Any, sample_weight: Any) -> GivenFit:
        """Return the data of the last fit, with its robust weights."""
        model = self.estimator
        X, y, weights, _ = model._keep_weighted(*model._check_again(X, y, sample_weight, numeric=True))
        if y.size != model.support_values_.size:
            raise DataError(f"the model has {model.support_values_.size} support values, these are {y.size} rows")
        tolerance = model._tolerance()
        return GivenFit(
            X=X, Y=y[:, None], weights=weights * model.weights_, gammas=gammas_of(model.gamma, 1), tolerance=tolerance
        )

    def check_loaded(self) -> None:
        """Refuse weights and a history that no fit leaves."""
        model = self.estimator
        super().check_loaded()
        check_ridge(model)
        v = model.weights_
        if v.shape != model.support_values_.shape or v.dtype.kind != "f" or not ((v > 0.0) & (v <= 1.0)).all():
            raise DataError("the robust weights and the support values do not belong together")
        thresholds = getattr(model, "thresholds_", None)
        if thresholds is not None and not (
            thresholds.shape == (2,) and thresholds.dtype.kind == "f" and 0.0 <= thresholds[0] < thresholds[1] < np.inf
        ):
            raise DataError("the thresholds of robust weights must be two ascending numbers")
        history = model.history_
        if not all(isinstance(step, Reweighting) for step in history) or not history:
            raise DataError("the history of a robust model must hold one record per fit")


@dataclass(eq=False, repr=False)
class RobustLSSVMRegressor(Regressor):
    """Weighted least-squares support vector regression, robust against outliers ([Suykens2002]_ Algorithm 1).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    gamma : float, default=1.0
        Weight of the squared errors against the norm; a row's is ``gamma`` times its weight.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    weighting : {"hampel", "huber", "logistic", "myriad", "density"}, default="hampel"
        How a row's weight falls with its error; see :mod:`substrate.least_squares.robust_weights`. ``"density"`` is
        Hampel's weight with both thresholds from the density of the errors
        (:mod:`substrate.least_squares.error_distribution`), by every fit anew.
    scale : {"iqr", "mad"}, default="iqr"
        The robust scale of the errors: interquartile range or median absolute deviation.
    max_reweightings : int, default=1
        Maximum number of weighted fits after the plain one. The paper has one; more iterate until convergence.
    weights_tol : float, default=1e-4
        Largest change of a support value, relative to the largest of them, at which the iteration has converged.

    Attributes
    ----------
    weights_ : array of shape (n_support,)
        v, the weights of the last fit, without ``sample_weight``.
    scale_ : float
        The robust scale from which they were computed.
    thresholds_ : array of shape (2,)
        c1 and c2 of the weights, in units of ``scale_``; with ``weighting="density"`` alone.
    history_ : tuple of Reweighting
        Each fit, the plain one first: its weights, support values, bias and the scale of its errors.
    support_values_ : array of shape (n_support,)
        alpha = gamma v e: the errors are ``ridge_ * support_values_``.
    ridge_ : array of shape (n_support,)
        The diagonal 1/(gamma v) of the system (13), ``sample_weight`` included.
    bias_, support_, support_vectors_, kernel_, effective_parameters_
        As for :class:`~problems.LSSVMRegressor`; the last with the weights as they are.
    certificate_ : Certificate
        The report on the last weighted problem.

    Examples
    --------
    >>> from problems import RobustLSSVMRegressor
    >>> from substrate.datasets import sinc_outliers
    >>> from substrate.kernels import RBF
    >>> X, y = sinc_outliers(random_state=0)
    >>> model = RobustLSSVMRegressor(kernel=RBF(sigma=1.0), gamma=10.0).fit(X, y)
    >>> int((model.weights_ < 0.01).sum())  # the three outliers, and two rows of large noise
    5
    """

    _model_type = RobustModel
    _typical = ({"weighting": "huber", "scale": "mad"}, {"weighting": "density"})
    _page, _title, _location = "weighted_ls_svm", "Weighted LS-SVM", "weighted"
    gamma: Any = 1.0
    _: KW_ONLY
    weighting: str = "hampel"
    scale: str = "iqr"
    max_reweightings: int = 1
    weights_tol: float = 1e-4

    effective_parameters_ = EFFECTIVE_PARAMETERS
    gamma_by_folds = gamma_by_folds
    leave_one_out = leave_one_out
    left_out_importance = left_out_importance

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y; a row of weight 2 counts as two rows, also in the robust scale.

        :place [Suykens2002]_ Algorithm 1: the weighted LS-SVM
        """
        self._begin_fit()
        (gamma,) = gammas_of(self.gamma, 1)
        most = whole_number(self.max_reweightings, "max_reweightings")
        tolerance = positive(self.weights_tol, "weights_tol")
        check_choice(self.weighting, ALL_WEIGHTINGS, "weighting")
        check_choice(self.scale, SCALES, "scale")
        X, y, weights = self._check_data(X, y, sample_weight, numeric=True)
        X, y, weights, rows = self._keep_weighted(X, y, weights)
        kernel = self._resolved_kernel(X)
        gram = Gram.of(kernel, X)
        if not kernel.trusted:
            gram.check_definite()

        answers: list[tuple[tuple[Row, ...], Facts]] = []

        def check(solved: SaddleSolution, v: Array) -> None:
            tolerances = tolerances_of(y[:, None], v, self._tolerance())
            question = AnswerProblem(
                kernel=kernel,
                X=X,
                Y=y[:, None],
                gammas=(gamma,),
                weights=v,
                tolerances=tolerances,
                negative=gram.negative,
            )
            solution = (solved.support_values[:, None], np.atleast_1d(solved.bias), solved.products[:, None])
            answers.append(bound_answer(question, *solution, gram.diagonal, gram))

        solved, history = reweighted_fits(gram, y, gamma, weights, self.weighting, self.scale, most, tolerance, check)
        last = history[-1]
        source = history[-2] if len(history) > 1 else last
        if most > 1 and last.change > tolerance:
            warnings.warn(
                f"the support values still changed by {last.change:.2g} of the largest after {most} reweightings; "
                "raise max_reweightings, or weights_tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        ridge = Regularization(gamma).ridge(weights * last.weights)
        alpha, bias = last.support_values, last.bias
        checks, doubts = answers[-1]
        checks += saddle_rows(gram.product(alpha), gram.diagonal, y, ridge, alpha, bias)
        facts = (*gram.record(), ("gamma", f"{gamma:g}"), *self._facts(history, solved, source.scale))
        rows_before = _before(answers[:-1])
        self.certificate_ = Certificate(self._title, (*checks, *rows_before), (*facts, *doubts))
        warn_unless_holds(self.certificate_)
        self.weights_, self.scale_, self.history_, self.ridge_ = last.weights.copy(), source.scale, history, ridge
        if self.weighting == "density":
            errors = Regularization(gamma).ridge(weights * source.weights) * source.support_values
            self.thresholds_ = np.array(density_thresholds(errors, source.scale, weights))
        self._keep_expansion(X, rows, kernel, alpha.copy(), bias)
        return self

    def _facts(
        self, history: tuple[Reweighting, ...], solved: SaddleSolution, scale: float
    ) -> tuple[tuple[str, str], ...]:
        v, last = history[-1].weights, history[-1].change
        settled = f", last change {last:.1e}" if np.isfinite(last) else ""
        light = f"{int((v < 1.0).sum())} of {v.size} rows below one, the least {v.min():.2g}"
        if len(history) > 1 and scale == 0.0:
            light = "all left at one: the robust scale of the errors is zero, so no error is large"
        return (
            ("weights", f"{self.weighting}, {self.scale} scale {scale:.3g}: {light}"),
            ("reweightings", f"{len(history) - 1}{settled}"),
            ("solver", f"closed form, refined {solved.refinements} times"),
        )


def _before(answers: list[tuple[tuple[Row, ...], Facts]]) -> tuple[Row, ...]:
    """Return the worst accuracy of the fits whose errors determine the weights."""
    rows = [row for answer, _ in answers for row in answer[:1]]
    if not rows:
        return ()
    worst = max(rows, key=lambda row: row.relative)
    return (
        Row(
            name="accuracy of the fits before",
            value=worst.value,
            scale=worst.scale,
            tolerance=worst.tolerance,
            formula=worst.formula,
        ),
    )
