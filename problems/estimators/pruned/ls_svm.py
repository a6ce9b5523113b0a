r"""Pruned LS-SVMs: few support vectors, by leaving out the rows with the smallest support values.

.. math:: \text{fit, sort } |\alpha_k|, \text{ remove the smallest few, fit again, until the index degrades}

[Suykens2002]_ Algorithm 2, [Carvalho2006]_ section 3.2; the path is in :mod:`problems.estimators.pruned.pruning_path`,
the index in ``problems.estimators.pruned.performance_index``. With ``sample_weight`` all machines are weighted LS-SVMs,
:math:`\alpha_k = \gamma v_k e_k`. A row of weight two leaves as one row, where of two equal rows one leaves before the
other: the errors are weighed, and rows are what leaves.
"""

from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.full.saddle_fit import gammas_of
from problems.estimators.full.saddle_machine import leave_one_out, left_out_importance
from problems.estimators.pruned.pruned_machine import PrunedModel
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import Classes, scores_of, winners
from problems.estimators.shared.probabilities import Calibration
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, positive
from substrate.errors import DataError, DeclarationError
from substrate.least_squares.robust_weights import SCALES, WEIGHTINGS, check_choice

__all__ = ["PrunedLSSVMClassifier", "PrunedLSSVMRegressor"]


class PrunedCalibration(Calibration):
    """Rows left out in folds, of machines that are pruned as this one was."""

    def fold_machine(self, X: Any) -> Any:
        """Return a machine pruned to the same share of the rows, with the gamma and the kernel of this machine."""
        model = self.estimator
        most = int(0.8 * X.shape[0]) - model.classes_.size  # the rows of the smallest fold's machine
        kept = {"n_support": max(2, min(round(0.8 * model.support_.size), most)), "cv": "training"}
        parameters = {"gamma": model.gamma_, "kernel": model.kernel_, "retune": False}
        return super().fold_machine(X).set_params(**kept, **parameters)


@dataclass(eq=False, repr=False)
class PrunedLSSVMRegressor(Regressor):
    """Least-squares support vector regression with few support vectors ([Suykens2002]_ Algorithm 2).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    gamma : float, default=1.0
        Weight of the squared errors against the norm.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    step : float or int, default=0.05
        Rows removed at a time: a share of the rows left, at least one row; or a number of rows.
    n_support : int, default=None
        Number of rows at which pruning stops, whatever the index; None lets the index decide.
    cv : {"training", "loo"}, int, splitter, iterable or None, default="training"
        How a machine is judged, by the mean squared error over all training rows: fitted; with each kept row left out;
        with folds left out (for a number, row i is in fold i modulo that number), in closed form; None is validation
        rows, ``X_val`` and ``y_val`` in :meth:`fit`. See ``problems.estimators.pruned.performance_index``.
    growth : float, default=0.1
        Share by which the index may exceed that of the machine on all rows.
    retune : bool, default=False
        Whether gamma and the kernel's widths are searched nearby where the index degrades, before pruning stops.
    weighting : {"hampel", "huber", "logistic", "myriad"}, default=None
        Robust weights as of :class:`~problems.LSSVMRegressor`; None prunes the plain LS-SVM, which keeps outliers
        longest, where the weighted one drops them first.
    scale : {"iqr", "mad"}, default="iqr"
        The robust scale of the weights.
    reweight : bool, default=False
        Whether every step computes new weights, as in the paper, by two fits per step; otherwise those of the machine
        on all rows are kept and machines are down-dated.

    Attributes
    ----------
    pruning_path_ : tuple of PruningStep
        Every machine of the path: its rows, weights, support values, sorted spectrum, bias, score, gamma and kernel.
        The last is the one whose index degraded, if one did.
    step_ : int
        The number of the chosen machine.
    gamma_ : float
        Its gamma.
    weights_ : array of shape (n_support,)
        Its robust weights, without ``sample_weight``; ones without ``weighting``.
    ridge_ : array of shape (n_support,)
        The diagonal 1/(gamma v) of its system, ``sample_weight`` included.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`, of the rows left.

    Examples
    --------
    >>> from problems import PrunedLSSVMRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> model = PrunedLSSVMRegressor(kernel=RBF(sigma=6.6), gamma=2.0, n_support=40).fit(X, y)
    >>> model.support_.size, model.model_at(0, X, y).support_.size
    (40, 133)
    """

    _model_type = PrunedModel
    _typical = ({"cv": "loo"},)
    _page, _title, _location = "ls_svm_regression", "Pruned LS-SVM regression", "kept"
    gamma: Any = 1.0
    _: KW_ONLY
    step: Any = 0.05
    n_support: Any = None
    cv: Any = "training"
    growth: float = 0.1
    retune: bool = False
    weighting: Any = None
    scale: str = "iqr"
    reweight: bool = False

    leave_one_out = leave_one_out
    left_out_importance = left_out_importance

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y, and prune; validation rows are for ``cv=None``.

        ``sample_weight`` weighs the errors, in every machine and in the index; validation rows count alike. Rows of
        weight zero are absent.

        :place [Suykens2002]_ Algorithm 2: weighted LS-SVM pruning
        """
        self._begin_fit()
        (gamma,) = gammas_of(self.gamma, 1)
        self._model.check_settings(X_val, y_val)
        if self.weighting is not None:
            check_choice(self.weighting, WEIGHTINGS, "weighting")
        check_choice(self.scale, SCALES, "scale")
        if self.reweight and self.weighting is None:
            raise DeclarationError("reweight=True finds weights at every step: choose a weighting")
        rows = self._model.check_rows(X, y, sample_weight, True)
        points, targets_val = (None, rows.y) if X_val is None else self._validation(X_val, y_val)
        kernel = self._resolved_kernel(rows.X)
        index = self._model.index(lambda outputs: np.square(targets_val - outputs[:, 0]), points, rows, False)
        robust = {"weighting": self.weighting, "scale": self.scale, "reweight": bool(self.reweight)}
        task = self._model.task(rows.X, rows.y[:, None], index, given=rows.weights, **robust)
        self._model.keep(rows, *self._model.prune(task, kernel, gamma), 1.0)
        return self

    def predict(self, X: Any) -> Array:
        """Predict f(x) = sum_k alpha_k k(x_k, x) + b over the rows left."""
        return self._expansion(X)

    def model_at(self, step: int, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Return the machine of another step as a separate model, from the training rows, and certified on them."""
        check_is_fitted(self)
        number = self._model.number(step)
        rows = self._model.check_rows_again(X, y, sample_weight, True)
        model = copy(self)
        model._model.keep(rows, self._model.own_path(rows), number, None, 1.0)
        model._model.certify_step(number, rows, rows.y[:, None])
        return model


@dataclass(eq=False, repr=False)
class PrunedLSSVMClassifier(Classifier):
    """The least-squares support vector classifier with few support vectors ([Carvalho2006]_ section 3.2).

    Parameters
    ----------
    kernel, gamma, tol, step, n_support, cv, retune
        As for :class:`PrunedLSSVMRegressor`. The last row of a class is always kept.
    growth : float, default=0.01
        Amount by which the share of misclassified rows may exceed that of the machine on all rows.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, all on the same rows; a row's size is then the norm of its
        support values. To prune each pair of classes separately, use scikit-learn's ``OneVsOneClassifier``.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.

    Attributes
    ----------
    classes_, code_book_, support_codes_
        As for :class:`~problems.LSSVMClassifier`.
    pruning_path_ : tuple of PruningStep
        Every machine of the path, with support values in the sign of regression on the labels.
    step_, gamma_, weights_, ridge_
        As for :class:`PrunedLSSVMRegressor`.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`, of the rows left.
    """

    _model_type = PrunedModel
    _calibration_type = PrunedCalibration
    _typical = ({"cv": "loo"},)
    _page, _title = "ls_svm_classification", "Pruned LS-SVM classification (as regression on the labels)"
    _location = "kept"
    gamma: float = 1.0
    _: KW_ONLY
    step: Any = 0.05
    n_support: Any = None
    cv: Any = "training"
    growth: float = 0.01
    retune: bool = False
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"

    leave_one_out = leave_one_out
    left_out_importance = left_out_importance

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and labels y of any kind, and prune; validation rows are for ``cv=None``.

        ``sample_weight`` is that of :class:`PrunedLSSVMRegressor`.

        :place [Carvalho2006]_ section 3.2: pruning of the classifier
        """
        self._begin_fit()
        gamma = positive(self.gamma, "gamma")
        self._model.check_settings(X_val, y_val)
        self._check_coding()
        rows = self._model.check_rows(X, y, sample_weight, False)
        classes = Classes.of(rows.y, self.coding)
        book, groups = classes.book, classes.numbers(rows.y)
        points, numbers_val = None, groups
        if X_val is not None:
            points, labels_val = self._validation(X_val, y_val, numeric=False)
            if not np.isin(labels_val, classes.names).all():
                raise DataError(f"y_val has classes {np.setdiff1d(labels_val, classes.names)}, of which y has none")
            numbers_val = classes.numbers(labels_val)
        kernel = self._resolved_kernel(rows.X)

        def loss(outputs: Array) -> Array:
            decision_values = outputs[:, 0] if book.shape[1] == 1 else outputs
            return np.asarray(winners(scores_of(decision_values, self.coding, book)) != numbers_val, dtype=np.float64)

        index = self._model.index(loss, points, rows, True)
        task = self._model.task(rows.X, book[groups], index, groups, given=rows.weights)
        pruned = self._model.prune(task, kernel, gamma)
        self.classes_, self.code_book_ = classes.names, book
        self._model.keep_codes(rows, groups, *pruned)
        return self

    def _check_coding(self) -> None:
        super()._check_coding()
        if self.coding == "one_vs_one":
            raise DeclarationError(
                "coding 'one_vs_one' has other rows in every machine and cannot be pruned as one; use 'one_vs_rest', "
                "'minimum_output' or 'ecoc', or scikit-learn's OneVsOneClassifier around this estimator"
            )

    def model_at(self, step: int, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Return the machine of another step as a separate model, from the training rows, and certified on them."""
        check_is_fitted(self)
        number = self._model.number(step)
        rows, groups = self._model.group_rows(X, y, sample_weight)
        model = copy(self)
        model._model.keep_codes(rows, groups, self._model.own_path(rows), number, None)
        model._model.certify_step(number, rows, self.code_book_[groups])
        model._calibration.begin_by(rows.X, self.classes_[groups], rows.weights)
        return model
