r"""The LS-SVM family: regression and classification through one saddle system.

.. math:: \min_{w,b,e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i e_i^2

subject to :math:`y_i = f(x_i) + e_i` or :math:`y_i f(x_i) = 1 - e_i`; see :mod:`problems.ls_svm_regression`,
:mod:`problems.ls_svm_classification`, and :mod:`substrate.least_squares.saddle_system` for the fast path.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.utils import Tags

from problems.estimators.full.intervals import DenseIntervals
from problems.estimators.full.left_out_classes import LeftOutClasses
from problems.estimators.full.required_gamma import gamma_for
from problems.estimators.full.saddle_fit import Method, SaddleFit, Way, fit_saddle, gammas_of
from problems.estimators.full.saddle_machine import (
    EFFECTIVE_PARAMETERS,
    SOLVERS,
    LeavesOut,
    check_ridge,
    leave_one_out,
    left_out_importance,
    ridges_of,
)
from problems.estimators.full.shaped import (
    check_shape,
    evaluate_further,
    express_further,
    fit_with_shape,
    has_shape,
    recall_shaped,
    refuse_closed_form,
)
from problems.estimators.shared.base import Uses, WeightedRows
from problems.estimators.shared.checked_again import GivenFit, StoredFit
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import Classes, class_factors
from problems.estimators.shared.intervals import (
    confidence_band,
    influence_of_rows,
    predict_left_out_interval,
)
from problems.estimators.shared.left_out import LeftOut
from problems.estimators.shared.machine_rows import each_machine, in_columns
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, positive, whole_number
from substrate.certificates import Certificate, warn_unless_holds
from substrate.certificates.rows import roundoff, unpolished_tolerance
from substrate.gram import Gram
from substrate.kernels import RBF, Componentwise
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.namespaces import on_device_of, own_copy, take_rows, to_numpy

if TYPE_CHECKING:
    from substrate.gram import Gram
    from substrate.kernels.nodes import Node

__all__ = ["LSSVMClassifier", "LSSVMModel", "LSSVMRegressor", "matrix_at_hand"]

#: Relative residual at which the equations of a conic solver's point are accepted; its accuracy is a row of its own.
_ACCEPTED = 1e-5


class LSSVMModel(LeavesOut):
    """The LS-SVM, of numbers or of the codes of classes.

    Its system is solved in closed form, by conjugate gradients, or as the declared problem.
    """

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Return the machines on the data of the fit; that with a shape carries its own bracket."""
        if not hasattr(self.estimator, "shape_points_"):
            return super().recall_fit(X, y, sample_weight)
        return recall_shaped(self.estimator, self.recall_data(X, y, sample_weight))

    def evaluate(self, X: Any) -> Array:
        """Return the predictions of rows that were checked, with the further terms of a shape."""
        values = super().evaluate(X)
        return evaluate_further(self.estimator, X, values) if hasattr(self.estimator, "shape_points_") else values

    def express(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the expansion, with the further terms of a shape."""
        outputs = super().express(x)
        return express_further(self.estimator, x, outputs) if hasattr(self.estimator, "shape_points_") else outputs

    def leave_one_out(self, X: Any) -> LeftOut:
        """Leave every row out, where the machine is the solution of one linear system."""
        refuse_closed_form(self.estimator, "leave_one_out")
        return super().leave_one_out(X)

    def effective_parameters(self) -> Any:
        """Return the trace of the hat matrix, where fitted values are linear in the targets."""
        refuse_closed_form(self.estimator, "effective_parameters_")
        return super().effective_parameters()

    def left_out_importance(self, X: Any, n_repeats: int, random_state: Any, groups: Any, sample_weight: Any) -> Any:
        """Permute every input of rows that are left out, where that is known."""
        refuse_closed_form(self.estimator, "left_out_importance")
        return super().left_out_importance(X, n_repeats, random_state, groups, sample_weight)

    def recall_data(self, X: Any, y: Any, sample_weight: Any) -> GivenFit:
        """Return the data of the fit, checked as the fit checks them."""
        model = self.estimator
        labels = model._labels
        checked = model._check_again(
            X, y, sample_weight, numeric=not labels, **({} if labels else {"multi_output": True})
        )
        if labels:
            X, y, weights, _ = model._weighted(*checked)
            Y = model._codes_again(y)
        else:
            X, y, weights, _ = model._keep_weighted(*checked)
            Y = y[:, None] if y.ndim == 1 else y
        tolerance, equations = self.tolerances()
        return GivenFit(
            X=X,
            Y=Y,
            weights=weights,
            gammas=model._gammas(Y.shape[1]),
            labels=labels,
            tolerance=tolerance,
            equations=equations,
        )

    def fit_codes(self, kernel: Any, X: Any, Y: Array, gamma: float, weights: Array, method: Method) -> SaddleFit:
        """Fit one machine to every column of codes; machines on all rows share one factorisation."""
        border = self.border(X, weights)
        if (to_numpy(Y) != 0.0).all():
            return fit_saddle(kernel, X, Y, (gamma,) * Y.shape[1], weights, method, border=border)
        gram = None if method.solver == "cg" else Gram.of(kernel, X)
        machines, fits = list(each_machine(Y, True)), []
        for machine_rows in machines:
            gram_of_machine = None if gram is None else gram.restrict(machine_rows.rows)
            data = (
                machine_rows.points(X, kernel.pairwise),
                machine_rows.y[:, None],
                (gamma,),
                take_rows(weights, machine_rows.rows),
            )
            border_of_machine = border.take(machine_rows.rows, take_rows(weights, machine_rows.rows))
            fits.append(fit_saddle(kernel, *data, method, gram=gram_of_machine, border=border_of_machine))
        alpha = in_columns(machines, [to_numpy(fit.support_values[:, 0]) for fit in fits], Y.shape[0])
        bias = np.array([float(fit.bias[0]) for fit in fits])
        facts = dict.fromkeys(fact for fit in fits for fact in fit.facts)
        slopes = [fit.slopes for fit in fits if fit.slopes is not None]
        return SaddleFit(
            support_values=on_device_of(Y, alpha),
            bias=on_device_of(Y, bias),
            rows=worst_rows([fit.rows for fit in fits]),
            facts=tuple(facts),
            iterations=max(fit.iterations for fit in fits),
            reason=next((fit.reason for fit in fits if fit.reason), ""),
            way=fits[0].way,
            border=border,
            slopes=np.concatenate(slopes, axis=1) if slopes else None,
        )

    def keep(self, X: Any, rows: Any, kernel: Any, fit: SaddleFit, ridge: Array, one_output: bool) -> None:
        """Set the fitted attributes where X is, all at the end, the one that marks the model as fitted last."""
        model = self.estimator
        model.solver_ = fit.way
        model.ridge_ = on_device_of(X, ridge)
        model.certificate_ = Certificate(model._title, fit.rows, fit.facts)
        model.n_iter_ = fit.iterations
        warn_unless_holds(model.certificate_, fit.reason)
        alpha = on_device_of(X, own_copy(fit.support_values[:, 0] if one_output else fit.support_values))
        model._keep_expansion(X, rows, kernel, alpha, float(fit.bias[0]) if one_output else on_device_of(X, fit.bias))

    def method(self) -> Method:
        """Return how the system is solved, checked."""
        model = self.estimator
        most = whole_number(model.max_iter, "max_iter", 1)
        return Method(
            solver=model.solver,
            max_iter=most,
            tol=model._tolerance(),
            page=self.own_page(),
            componentwise=model._additive,
        )

    def tolerances(self) -> tuple[float, float | None]:
        """Return the tolerances of the accuracy and of the equations: larger for iterations and conic solvers."""
        model = self.estimator
        tol = model._tolerance()
        if model.solver not in ("auto", "cholesky", "cg"):
            return unpolished_tolerance(tol), _ACCEPTED
        return tol, None if model.solver_ == "cholesky" else max(tol, roundoff(model.support_.size))

    def check_loaded(self) -> None:
        """Refuse a diagonal of the system that no fit leaves."""
        super().check_loaded()
        check_ridge(self.estimator)
        check_shape(self.estimator)


@contextmanager
def matrix_at_hand(model: "LSSVMRegressor", gram: "Gram | None") -> Iterator[None]:
    """Let a fit inside this block use a kernel matrix of its rows, which is left with its factor."""
    model.__dict__["_matrix"] = gram
    try:
        yield
    finally:
        del model.__dict__["_matrix"]


@dataclass(eq=False, repr=False)
class LSSVMRegressor(MultiOutputMixin, Regressor):
    """Least-squares support vector regression with an unpenalised bias ([Suykens2002]_ eq. (1)-(9)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of :mod:`substrate.kernels`; a name (``"rbf"`` is ``RBF(sigma="median")``); or a function of two
        point sets. ``kernel__sigma`` reaches its width, or its widths of the columns, in a grid search;
        ``RBF("each")`` takes one per column from the data.
    gamma : float or sequence of float, default=1.0
        Weight of the squared errors against the norm; one number, or one for each output.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds, and at which
        ``"cg"`` stops. For the point of a conic solver, the root of ``tol``: its gap is the square of its error.
    solver : str, default="auto"
        ``"cholesky"`` is the closed form, to rounding; ``"cg"`` are conjugate gradients, which compute the kernel in
        tiles and never store it, also on a device. ``"auto"`` takes the one that costs least, see
        :mod:`substrate.least_squares.solver_choice`: below 2000 rows the closed form. ``"cvxpy"`` solves the declared
        problem by the first solver whose residuals are accepted; a solver's name by that one.
    max_iter : int, default=1000
        Maximum number of iterations of ``"cg"``, where it is required.

    monotone : dict, default=None
        Columns, by number or name, in which f rises (1) or falls (-1) everywhere in the box of the training rows, with
        proof, as ``{"price": -1}``; see :class:`~substrate.Everywhere`.
    convex : list, dict or "jointly", default=None
        Columns along each of which f is convex everywhere in that box, or a dict with -1 for concave ones;
        ``"jointly"``: in all columns at once, of which there are at most three unless the kernel is additive.
    bounds : pair of float or None, default=None
        The lowest and the highest value of f in that box, None for none: ``(0, None)``. With any of the three the
        machine has one output, and no closed forms: leave-one-out, ``return_std`` and intervals by leaving rows out
        are refused.

    Attributes
    ----------
    support_values_ : array of shape (n_support,) or (n_support, n_outputs)
        alpha, the multipliers of y = f + e.
    bias_ : float or array of shape (n_outputs,)
        The bias b.
    support_ : array of shape (n_support,)
        Rows of X in the expansion: all rows of positive weight.
    support_vectors_ : array or sparse matrix of shape (n_support, n_features)
        Those rows (absent for a precomputed kernel).
    kernel_ : Kernel
        The kernel with its width as a number.
    certificate_ : Certificate
        The report on the fit.
    ridge_ : array of shape (n_support,) or (n_support, n_outputs)
        The diagonal 1/(gamma v) of the system, one column per output where gammas differ.
    unit_ridge_, noise_variance_ : float or array of shape (n_outputs,)
        1/gamma, the diagonal of a row of weight one; the variance of the noise where the evidence of y is largest.
    effective_parameters_ : float or array of shape (n_outputs,)
        The trace of the hat matrix, 1 for the bias alone; computed when it is asked for.
    n_iter_ : int
        Iterations of conjugate gradients; for a direct method, one and its refinements.
    solver_ : {"cholesky", "cg", "cvxpy"}
        The solver of the fit.
    shape_points_, shape_coefficients_, shape_orders_ : arrays of shape (n_shape, n_features), (n_shape,)
        With a shape: the further terms of the expansion, coefficients times derivatives of the kernel in the points, of
        these orders in every column.
    shape_multipliers_, shape_box_ : arrays of shape (n_shape,), (n_features, 2)
        With a shape: its multipliers at the points, and the box in which it holds.

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

    _model_type = LSSVMModel
    _intervals_type = DenseIntervals
    _typical: ClassVar[Uses] = (
        {"gamma": 10.0},
        {"solver": "cg"},
        {"kernel": Componentwise(RBF(1.5)), "monotone": {0: 1}},
    )
    _page, _title = "ls_svm_regression", "LS-SVM regression"
    _solvers = SOLVERS
    _on_devices = True
    #: The kernel matrix of the rows of a fit, where it is at hand: :func:`matrix_at_hand`.
    _matrix: "ClassVar[Gram | None]" = None
    gamma: Any = 1.0
    _: KW_ONLY
    solver: str = "auto"
    max_iter: int = 1000
    solver_: Way = field(init=False)
    monotone: Any = None
    convex: Any = None
    bounds: Any = None

    effective_parameters_ = EFFECTIVE_PARAMETERS
    leave_one_out = leave_one_out
    left_out_importance = left_out_importance
    gamma_for = gamma_for
    confidence_band = confidence_band
    influence_of_rows = influence_of_rows
    predict_interval = predict_left_out_interval

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y; a row of weight 2 counts as two rows, one of weight 0 not at all.

        Files, Dask collections and blocks ``(X, y)`` are read into memory, as rows: the kernel matrix may be larger.
        """
        self._begin_fit()
        model = self._model
        method = model.method()
        X, y, weights = self._check_data(X, y, sample_weight, numeric=True, multi_output=True)
        # vectors are on the host until they are kept
        X, y, weights, rows = self._keep_weighted(X, to_numpy(y), to_numpy(weights))
        Y = y[:, None] if y.ndim == 1 else y
        gammas = self._gammas(Y.shape[1])
        kernel = self._resolved_kernel(X)
        if has_shape(self):
            return fit_with_shape(self, X, Y, rows, weights, gammas, kernel)
        border = model.border(X, weights)
        fit = fit_saddle(kernel, X, Y, gammas, weights, method, gram=self._matrix, border=border)
        self._intervals.keep_noise(Y, fit, gammas, y.ndim == 1)
        model.keep(X, rows, kernel, fit, ridges_of(gammas, weights), y.ndim == 1)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict f(x) = sum_i alpha_i k(x_i, x) + b, in constant memory; with ``return_std`` also a Gaussian error
        bar.

        :equation [Suykens2002]_ (9): the predictor
        """
        if return_std:
            refuse_closed_form(self, "return_std")
            return self._intervals.predict_deviations(X)
        return self._expansion(X)

    def _gammas(self, n_outputs: int) -> tuple[float, ...]:
        return gammas_of(self.gamma, n_outputs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@dataclass(eq=False, repr=False)
class LSSVMClassifier(Classifier):
    """The least-squares support vector classifier ([Pelckmans2005]_ eq. (4)-(5)), two classes or more.

    Parameters
    ----------
    kernel, gamma, tol, solver, max_iter
        As for :class:`LSSVMRegressor`, with one gamma.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`. All but ``one_vs_one`` share
        one factorisation; ``one_vs_one`` factors each pair's block.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        The map from decision values of left-out rows to the probabilities of :meth:`predict_proba`, made at its first
        call and without a refit; isotonic regression is better from about a thousand rows on. None: no probabilities.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into the weights of the rows.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    code_book_ : array of shape (n_classes, n_machines)
        The side of each machine on which a class is.
    support_values_ : array of shape (n_support,) or (n_support, n_machines)
        alpha, the multipliers of y f = 1 - e.
    support_codes_ : array of the same shape
        The labels -1, +1 (0: not in this machine) by which alpha is multiplied in the expansion.
    bias_ : float or array of shape (n_machines,)
        The bias b.
    calibration_scores_ : CalibrationScores
        Left-out decision values by which the model is calibrated, found when they are first needed.
    support_, support_vectors_, kernel_, certificate_, ridge_, effective_parameters_, n_iter_, solver_
        As for :class:`LSSVMRegressor`.

    Notes
    -----
    Rows that are equal in inputs and class are left out together. With ``class_weight`` or ``sample_weight`` the
    probabilities are those of the weighted rows.
    """

    _model_type = LSSVMModel
    _calibration_type = LeftOutClasses
    _typical: ClassVar[Uses] = ({"gamma": 10.0}, {"solver": "cg"})
    _page, _title = "ls_svm_classification", "LS-SVM classification (as regression on the labels)"
    _solvers = SOLVERS
    _on_devices = True
    gamma: float = 1.0
    _: KW_ONLY
    solver: str = "auto"
    max_iter: int = 1000
    solver_: Way = field(init=False)
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
    class_weight: Any = None

    effective_parameters_ = EFFECTIVE_PARAMETERS
    leave_one_out = leave_one_out
    left_out_importance = left_out_importance

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and labels y of any kind; a row of weight 2 counts as two rows, one of weight 0 not at all.

        Files, Dask collections and blocks ``(X, y)`` are read into memory, as rows: the kernel matrix may be larger.
        """
        self._begin_fit()
        model = self._model
        method = model.method()
        gamma = positive(self.gamma, "gamma")
        self._check_coding()
        X, labels, weights = self._check_data(X, y, sample_weight, numeric=False)
        X, labels, weights, rows = self._weighted(X, to_numpy(labels), to_numpy(weights))  # kept on the host meanwhile
        classes = Classes.of(labels, self.coding)
        Y = classes.codes(labels)
        kernel = self._resolved_kernel(X)
        fit = model.fit_codes(kernel, X, Y, gamma, weights, method)
        self._keep_classes(classes, on_device_of(X, Y))
        signed = fit._replace(support_values=Y * fit.support_values)
        model.keep(X, rows, kernel, signed, Regularization(gamma).ridge(weights), Y.shape[1] == 1)
        return self

    def _gammas(self, n_machines: int) -> tuple[float, ...]:
        return (positive(self.gamma, "gamma"),) * n_machines

    def _weighted(self, X: Any, labels: Any, weights: Array) -> WeightedRows:
        """Multiply the class weights in, and drop rows of weight zero."""
        if self.class_weight is not None:
            weights_given = to_numpy(weights)
            factors = class_factors(self.class_weight, to_numpy(labels), weights_given)
            weights = on_device_of(weights, weights_given * factors)
        return self._keep_weighted(X, labels, weights)
