r"""Regression with Huber's loss: the pull of outliers is bounded, and the problem remains convex.

.. math:: \min_{w, b, e} \tfrac12 w^T w + \gamma \sum_i v_i h_\delta(e_i), \qquad y_i = w^T \varphi(x_i) + b + e_i

See :mod:`problems.huber_ls_svm` for the problem and :mod:`substrate.penalized.huber.active_set` for the fast path.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from problems.estimators.full.saddle_machine import LeavesOut, leave_one_out, left_out_importance
from problems.estimators.shared.checked_again import Added, StoredFit, definite_gram
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, positive
from substrate.certificates import NO_BOUND, Certificate, Row, warn_unless_holds
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.kernel_products import CarefulProducts, PlainProducts, expansion_values
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.robust_weights import robust_scale
from substrate.least_squares.saddle_system import solve_saddle_system
from substrate.penalized.huber.accuracy import HuberMachine, huber_accuracy
from substrate.penalized.huber.active_set import huber_solution_rows, solve_huber
from substrate.proof import Proof, tolerance_in_balls
from substrate.proof.duality import prove_huber

__all__ = ["HuberLSSVMRegressor"]

INDEFINITE = "the kernel matrix is not positive semi-definite, so the fit is a saddle point and no minimum"
_UNKNOWN = (
    "rounding",
    "these are not known to be the support values of a minimum; scale the columns of X, centre them, or take a larger "
    "delta or a smaller gamma",
)
Facts = tuple[tuple[str, str], ...]
#: In robust deviations: 95 % as efficient as least squares for Gaussian noise.
_DELTA = 1.345


class HuberModel(LeavesOut):
    """A machine with Huber's loss; it is the LS-SVM with weights min(1, delta/|e|) of its errors."""

    conditional = "kernel, gamma, delta, the weights min(1, delta/|e|) of the errors and preparation of the columns"

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Return the machine on its rows of positive weight."""
        model = self.estimator
        X, y, weights, _ = model._keep_weighted(*model._check_again(X, y, sample_weight, numeric=True))
        if not model.kernel_.pairwise and X.shape[1] != model.n_features_in_:
            raise DataError(f"X has {X.shape[1]} features, this model was fitted to {model.n_features_in_}")
        alpha = model.support_values_
        if y.size != alpha.size:
            raise DataError(f"the model has {alpha.size} support values, these are {y.size} rows")
        gram = definite_gram(model.kernel_, X)
        machine = HuberMachine(
            y=y,
            gamma=positive(model.gamma, "gamma"),
            weights=weights,
            delta=model.delta_,
            a=alpha,
            b=float(model.bias_),
            fitted=model._fitted_values(X),
            diagonal=gram.diagonal,
            negative=gram.negative,
        )
        return nullcontext(
            StoredFit(
                (StoredHuber(kernel=model.kernel_, points=X, gram=gram, machine=machine, tolerance=model._tolerance()),)
            )
        )

    def check_loaded(self) -> None:
        """Refuse a delta and outliers that no fit leaves."""
        model = self.estimator
        super().check_loaded()
        delta, outliers = model.delta_, model.outliers_
        if not isinstance(delta, float) or not 0.0 < delta < np.inf:
            raise DataError(f"delta_ must be a positive number, received {delta!r}")
        if outliers.dtype.kind not in "iu" or not np.isin(outliers, model.support_).all():
            raise DataError("the outliers are not rows of this model")


@dataclass(eq=False, repr=False)
class HuberLSSVMRegressor(Regressor):
    """Support vector regression with Huber's loss and an unpenalised bias ([Huber1964]_).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    gamma : float, default=1.0
        Weight of the errors against the norm.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    delta : float or "auto", default="auto"
        The error, in the units of y, from which the loss is linear. ``"auto"`` is
        1.345 times the robust deviation (MAD) of the errors of the LS-SVM with the same kernel and gamma.

    Attributes
    ----------
    delta_ : float
        The delta used.
    outliers_ : array of int
        The rows of X whose error is larger than that, and whose support value is at its bound.
    support_values_ : array of shape (n_support,)
        alpha = gamma v clip(e, -delta, delta), the multipliers of y = f + e.
    ridge_ : array of shape (n_support,)
        The diagonal max(1, abs(e) / delta) / (gamma v) of the LS-SVM with weights v min(1, delta / abs(e)), whose
        solution this is: the errors are ``ridge_ * support_values_``.
    bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`.

    Examples
    --------
    >>> from problems import HuberLSSVMRegressor
    >>> from substrate.datasets import sinc_outliers
    >>> from substrate.kernels import RBF
    >>> X, y = sinc_outliers(random_state=0)
    >>> model = HuberLSSVMRegressor(kernel=RBF(sigma=1.0), gamma=10.0, delta=1.0).fit(X, y)
    >>> len(model.outliers_)
    3
    """

    _model_type = HuberModel
    _typical = ({"delta": 0.5},)
    _page, _title, _location = "huber_ls_svm", "Huber LS-SVM", "huber"
    gamma: float = 1.0
    _: KW_ONLY
    delta: float | str = "auto"

    leave_one_out = leave_one_out
    left_out_importance = left_out_importance

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        self._begin_fit()
        gamma = positive(self.gamma, "gamma")
        delta_given = _delta(self.delta)
        X, y, weights = self._check_data(X, y, sample_weight, numeric=True)
        X, y, weights, rows = self._keep_weighted(X, y, weights)
        kernel = self._resolved_kernel(X)
        gram = definite_gram(kernel, X)
        ridge = Regularization(gamma).ridge(weights)
        delta = _deviation(gram, y, ridge, weights) if delta_given is None else delta_given
        solved = solve_huber(gram, y, ridge, delta)
        alpha, bias = solved.support_values, solved.bias
        checks = huber_solution_rows(solved.products, gram.diagonal, y, ridge, delta, alpha, bias)
        linear = np.flatnonzero(solved.signs)
        facts = (
            ("gamma", f"{gamma:g}"),
            ("delta", f"{delta:.6g}{', 1.345 robust deviations of the LS-SVM' if delta_given is None else ''}"),
            ("linear rows", f"{linear.size} of {y.size}"),
            ("solver", f"active set of linear rows, {solved.steps} systems"),
        )
        points = None if kernel.pairwise else X
        fitted = expansion_values(kernel, points, alpha, bias, X)
        machine = HuberMachine(
            y=y,
            gamma=gamma,
            weights=weights,
            delta=delta,
            a=alpha,
            b=bias,
            fitted=fitted,
            diagonal=gram.diagonal,
            negative=gram.negative,
        )
        answer, more = _answer(kernel, X, gram, machine, self._tolerance())
        self.certificate_ = Certificate(self._title, (*answer, *checks), (*gram.record(), *facts, *more))
        warn_unless_holds(self.certificate_)
        self.delta_, self.outliers_ = delta, rows[linear]
        self.ridge_ = ridge * np.maximum(1.0, np.abs(y - machine.fitted) / delta)
        self._keep_expansion(X, rows, kernel, alpha, bias)
        return self


@dataclass(frozen=True, slots=True)
class StoredHuber:
    """A Huber LS-SVM on its rows of positive weight.

    Where no row is known to be inside, the bias need not be unique: the bound is then of the fitted values about their
    mean, as the texts of the proof and of the certificate state.
    """

    kernel: Kernel
    points: Any
    gram: Gram
    machine: HuberMachine
    tolerance: float

    def certify(self) -> Added:
        """Bound the answer, and check the conditions of optimality."""
        gram, machine = self.gram, self.machine
        system = (
            gram.product(machine.a),
            gram.diagonal,
            machine.y,
            Regularization(machine.gamma).ridge(machine.weights),
        )
        rows = huber_solution_rows(*system, machine.delta, machine.a, machine.b)
        answer, facts = _answer(self.kernel, self.points, gram, machine, self.tolerance)
        return (*answer, *rows), (*gram.record(), *facts)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        tolerance = tolerance_in_balls(self.machine.y, self.machine.weights, self.tolerance)
        if not np.isfinite(self.machine.negative):
            return Proof.of(float("inf"), tolerance, 0, INDEFINITE)
        return prove_huber(self.kernel, self.points, self.machine, tolerance)


def _answer(
    kernel: Kernel, X: Any, gram: Gram, machine: HuberMachine, tolerance: float
) -> tuple[tuple[Row, ...], Facts]:
    """Return the row that bounds the answer, and facts about it."""
    if not np.isfinite(machine.negative):
        return (), ((NO_BOUND, INDEFINITE),)
    plain = PlainProducts(np.asarray(gram.matrix), kernel.rounding(X), kernel.trusted and not kernel.pairwise)
    permitted = Tolerance.of(machine.y, machine.weights, tolerance)
    row, careful = huber_accuracy(machine, CarefulProducts(kernel, X, plain), permitted)
    if row.passes:
        return (row,), (("check", "in doubled precision"),) if careful else ()
    return (row,), (_UNKNOWN,)


def _delta(delta: Any) -> float | None:
    """Return a number, or None for ``"auto"``."""
    if not isinstance(delta, str):
        return positive(delta, "delta")
    if delta != "auto":
        raise DeclarationError(f"delta must be a positive number or 'auto', received {delta!r}")
    return None


def _deviation(gram: Gram, y: Array, ridge: Array, weights: Array) -> float:
    """Return 1.345 robust deviations of the errors of the LS-SVM; where that is zero, more than any error."""
    errors = ridge * solve_saddle_system(gram, y, ridge).support_values
    gram.release()
    return _DELTA * robust_scale(errors, "mad", weights) or 2.0 * float(np.abs(errors).max()) or 1.0
