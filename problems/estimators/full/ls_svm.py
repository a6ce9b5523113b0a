r"""The LS-SVM family: regression and classification through one saddle system.

.. math:: \min_{w,b,e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i e_i^2

subject to :math:`y_i = f(x_i) + e_i` or :math:`y_i f(x_i) = 1 - e_i`; see :mod:`problems.ls_svm_regression`,
:mod:`problems.ls_svm_classification`, and :mod:`substrate.least_squares.saddle_system` for the fast path.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from problems.estimators.full.intervals import (
    LSSVMIntervals,
    confidence_band,
    influence_of_rows,
    predict_left_out_interval,
)
from problems.estimators.full.required_gamma import gamma_for
from problems.estimators.full.robust import check_history, fit_reweighted
from problems.estimators.full.saddle_fit import Method, SaddleFit, Way, fit_saddle, gammas_of
from problems.estimators.full.saddle_machine import (
    EFFECTIVE_PARAMETERS,
    SaddleModel,
    check_ridge,
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
from problems.estimators.shared.base import KernelEstimator, Uses
from problems.estimators.shared.checked_again import StoredFit, recall_saddle
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.components import (
    COMPONENT_NORMS,
    MAXIMAL_VARIATION,
    component_functions,
    get_support,
    has_components,
)
from problems.estimators.shared.encoding import read_robust
from problems.estimators.shared.left_out import leave_one_out, left_out_importance
from problems.estimators.shared.model import Model
from problems.estimators.shared.probabilities import LeftOutCalibration
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, on_device_of, own_copy, positive, real_array, to_numpy, whole_number
from substrate.certificates import Certificate, roundoff, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise
from substrate.reduced import Basis

if TYPE_CHECKING:
    from substrate.kernels.nodes import Node

__all__ = ["LSSVMClassifier", "LSSVMModel", "LSSVMRegressor"]


class LSSVMModel(SaddleModel):
    """The LS-SVM on all rows, of numbers or of the codes of classes.

    Its system is solved in closed form, by conjugate gradients, or as the declared problem. Robust weights, constants
    c and the further terms of a shape are in what it stores: ``weights_``, ``constants_``, ``shape_points_``.
    """

    def refuse_combinations(self) -> None:
        """Refuse parameters that exclude each other, before any work."""
        model = self.estimator
        if model._labels:
            return
        robust, shape = model.robust is not None, has_shape(model)
        constants = getattr(model, "c", None) is not None
        if robust:
            read_robust(model.robust)
        if robust and shape:
            raise DeclarationError("robust weights are of a machine without a shape; leave robust out, or the shape")
        if constants and (robust or shape):
            raise DeclarationError("c is given to the plain machine: leave robust, monotone, convex and bounds out")
        if shape and np.size(model.linear_columns):
            raise DeclarationError("shapes are of the kernel machine alone; leave linear_columns out, or the shape")
        if constants and model.gamma != 1.0:
            raise DeclarationError(f"with c the errors are alpha + c, which is gamma=1; received gamma={model.gamma!r}")
        if (robust or constants) and model.solver not in ("auto", "cholesky"):
            asked = "robust" if robust else "c"
            raise DeclarationError(
                f"with {asked} the machine is solved in closed form, received solver={model.solver!r}; use 'auto'"
            )

    def fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit to numbers, one column per output, or to the codes of labels."""
        model, labels = self.estimator, bool(self.estimator._labels)
        self.refuse_combinations()
        method = self.method()
        model._check_coding()
        X, y, weights = model._check_data(X, y, sample_weight, numeric=not labels, multi_output=not labels)
        constants = self.read_constants(int(X.shape[0]))
        # vectors are on the host until they are kept
        X, y, weights, rows = model._weighted(X, to_numpy(y), to_numpy(weights))
        coded = model._encode(y)
        Y = coded.codes(y)
        gammas, kernel = model._gammas(Y.shape[1]), model._resolved_kernel(X)
        if has_shape(model):
            fit_with_shape(model, X, Y, rows, weights, gammas, kernel)
            return
        if constants is not None:
            constants = constants[rows]
        fit = self.solve(kernel, X, Y, gammas, weights, method, constants)
        one_output = Y.shape[1] == 1 if labels else y.ndim == 1
        self.keep_noise(Y, fit, gammas, one_output)
        model._keep_classes(coded, on_device_of(X, Y))
        signed = fit._replace(support_values=coded.sign(Y, fit.support_values))
        self.keep(X, rows, kernel, signed, gammas, weights, one_output)

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return the machines on the data of the fit, checked as the fit checks them, with its robust weights and its
        constants; a machine with a shape carries its own bracket.
        """
        model, labels = self.estimator, bool(self.estimator._labels)
        checked = model._check_again(X, y, sample_weight, numeric=not labels, multi_output=not labels)
        X, y, weights, _ = model._weighted(*checked)
        Y = model._codes_again(y) if labels else y[:, None] if y.ndim == 1 else y
        for name in ("weights_", "constants_"):
            if hasattr(model, name) and getattr(model, name).size != Y.shape[0]:
                raise DataError(f"the model has {name} of {getattr(model, name).size} rows, these are {Y.shape[0]}")
        if hasattr(model, "weights_"):
            weights = weights * on_device_of(weights, model.weights_)
        gammas, constants = model._gammas(Y.shape[1]), getattr(model, "constants_", None)
        if hasattr(model, "shape_points_"):
            return recall_shaped(model, X, Y, weights, gammas[0])
        # iterations solve the equations to the tolerance
        equations = None if model.solver_ == "cholesky" else max(model._tolerance(), roundoff(model.support_.size))
        targets, observed = (Y, None) if constants is None else (Y - constants[:, None], Y)
        return recall_saddle(model, X, targets, weights, gammas, observed=observed, equations=equations)

    def evaluate(self, X: Any) -> Array:
        """Return the predictions of rows that were checked, with the further terms of a shape."""
        values = super().evaluate(X)
        return evaluate_further(self.estimator, X, values) if hasattr(self.estimator, "shape_points_") else values

    def express(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the expansion, with the further terms of a shape."""
        outputs = super().express(x)
        return express_further(self.estimator, x, outputs) if hasattr(self.estimator, "shape_points_") else outputs

    def refuse_shape(self, name: str) -> None:
        """Refuse what is known of a machine that is the solution of one linear system, of one that is not."""
        refuse_closed_form(self.estimator, name, "shape_points_")

    def read_constants(self, n: int) -> Array | None:
        """Return the constant c of every row, None where there is none."""
        given = getattr(self.estimator, "c", None)
        if given is None:
            return None
        if isinstance(given, (bool, np.bool_)):
            raise DataError(f"c must be one number or one for each row, received {given!r}")
        constants = real_array(given, "c", ndim=(0, 1))
        if constants.ndim == 1 and constants.size != n:
            raise DataError(f"c must be one number or one for each row: expected {n}, received {constants.size}")
        return np.array(np.broadcast_to(constants, n))

    def solve(
        self,
        kernel: Any,
        X: Any,
        Y: Array,
        gammas: tuple[float, ...],
        weights: Array,
        method: Method,
        constants: Array | None = None,
    ) -> SaddleFit:
        """Fit every column of targets less constants, or of codes, with one factorisation."""
        model = self.estimator
        if getattr(model, "robust", None) is not None:
            return fit_reweighted(read_robust(model.robust), kernel, X, Y, gammas, weights, method, self.border)
        if constants is not None:
            fit = fit_saddle(
                kernel, X, Y - constants[:, None], gammas, weights, method, border=self.border(X, weights), observed=Y
            )
            facts = (*fit.facts, ("constants", "closed form on y - c, in double precision"))
            return fit._replace(facts=facts, further={"constants_": constants})
        return fit_saddle(kernel, X, Y, gammas, weights, method, border=self.border(X, weights))

    def keep(
        self,
        X: Any,
        rows: Any,
        kernel: Any,
        fit: SaddleFit,
        gammas: tuple[float, ...],
        weights: Array,
        one_output: bool,
    ) -> None:
        """Set the fitted attributes where X is, all at the end, the one that marks the model as fitted last.

        The coefficients of a linear part have standard errors where the noise is known.
        """
        model, bias = self.estimator, fit.bias
        if np.size(model.linear_columns):
            if hasattr(model, "noise_variance_"):
                scale = np.sqrt(np.atleast_1d(model.noise_variance_) / np.atleast_1d(model.unit_ridge_))
                self.keep_errors(fit.deviations, scale, one_output)
            bias = self.keep_linear(fit.slopes, fit.border.center, bias, one_output, X)
        for name, value in fit.further.items():
            setattr(model, name, value)
        model.solver_ = fit.way
        model.ridge_ = on_device_of(X, ridges_of(gammas, weights * fit.further.get("weights_", 1.0)))
        model.certificate_ = Certificate(model._title, fit.rows, fit.facts)
        model.n_iter_ = fit.iterations
        warn_unless_holds(model.certificate_, fit.reason)
        alpha = on_device_of(X, own_copy(fit.support_values[:, 0] if one_output else fit.support_values))
        model._keep_expansion(X, rows, kernel, alpha, float(bias[0]) if one_output else on_device_of(X, bias))

    def method(self) -> Method:
        """Return how the system is solved, checked."""
        model = self.estimator
        most = whole_number(model.max_iter, "max_iter", 1)
        return Method(solver=model.solver, max_iter=most, tol=model._tolerance())

    def check_loaded(self) -> None:
        """Refuse a diagonal of the system, robust weights, constants and a shape that no fit leaves."""
        super().check_loaded()
        model = self.estimator
        check_ridge(model)
        check_shape(model)
        n = model.support_values_.shape[:1]
        if hasattr(model, "constants_") and model.constants_.shape != n:
            raise DataError("the constants and the support values do not belong together")
        check_history(model, int(model.support_values_.shape[0]))


#: Parameters that are frozen values.
_READERS: Mapping[str, Callable[[Any], Any]] = {**KernelEstimator._readers, "basis": Basis.of}


def machine_of(estimator: Any) -> type[Model]:
    """Return the kind of the model: on all rows, or on a basis."""
    if estimator.basis is None:
        return LSSVMModel
    from problems.estimators.reduced.ls_svm import BasisModel  # not needed by fits to all rows

    return BasisModel


@dataclass(eq=False, repr=False)
class LSSVMRegressor(MultiOutputMixin, Regressor):
    r"""Least-squares support vector regression with an unpenalised bias ([Suykens2002]_ eq. (1)-(9)).

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
        ``"cg"`` stops.
    solver : str, default="auto"
        ``"cholesky"`` is the closed form, to rounding; ``"cg"`` are conjugate gradients, which compute the kernel in
        tiles and never store it, also on a device. ``"auto"`` takes the closed form up to 10,000 rows, and on a device
        where the matrix fits it; beyond that conjugate gradients, and the closed form where they do not converge.
    max_iter : int, default=1000
        Maximum number of iterations of ``"cg"``, where it is required.
    basis : Basis, int, str, array of int, or array of points, default=None
        Which vectors the expansion has, where not all rows ([Cawley2002]_, [Cawley2004]_ eq. (2)-(3)): a
        :class:`~substrate.reduced.Basis`, or how many, a rule, rows or points. All rows are in the objective; time is
        linear in their number, and they are read in passes where they are mapped files, blocks ``(X, y)`` or Dask
        collections. The model keeps its basis and not its rows. One output.
    linear_columns : list of int or str, default=()
        Columns z of X whose effect is linear and not penalised ([Espinoza2005b]_), f(x) = beta'z + w'phi(x) + b, by
        number, or by name where X is a data frame; the kernel sees the others. They must not depend on each other or on
        a constant.
    robust : {"hampel", "huber", "logistic", "myriad", "density"} or Robust, default=None
        Weights of the rows that fall with their errors in the plain fit, so that outliers have no say ([Suykens2002]_
        Algorithm 1): the name of a weighting, or :class:`~problems.Robust` with a scale and a number of reweightings.
    c : float or array of shape (n_samples,), default=None
        Constants of additive regularization, in the units of y ([Pelckmans2005]_ eq. (9)-(10)): the errors are
        alpha + c, and gamma is 1.
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
        The solver of the fit; the last one of a machine with a shape.
    shape_points_, shape_coefficients_, shape_orders_ : arrays of shape (n_shape, n_features), (n_shape,)
        With a shape: the further terms of the expansion, coefficients times derivatives of the kernel in the points, of
        these orders in every column.
    shape_multipliers_, shape_box_ : arrays of shape (n_shape,), (n_features, 2)
        With a shape: its multipliers at the points, and the box in which it holds.
    coef_ : array of shape (n_linear,) or (n_outputs, n_linear)
        With linear columns: beta, the effect of one unit of each on y; ``bias_`` is then the value at z = 0.
    coef_standard_errors_ : array of the same shape
        The roots of the diagonal of :math:`\gamma s^2 (Z^T (K + D)^{-1} Z)^{-1}`, with Z the constant and the linear
        columns and :math:`s^2` the ``noise_variance_``: the standard errors of generalised least squares, and of a
        Gaussian process with a flat prior on beta and b; conditional on kernel and gamma. Infinite where the kernel is
        not positive semi-definite, and for conjugate gradients, which do not find them; absent with robust or c.
    linear_columns_, linear_center_ : array of shape (n_linear,)
        The numbers of the linear columns, and their mean by weight.
    linear_bias_ : float or array of shape (n_outputs,)
        The bias there, from which predictions are computed, so that an offset of z costs no digits.
    weights_ : array of shape (n_support,)
        With robust: v, the weights of the last fit, without ``sample_weight``; the errors are
        ``ridge_ * support_values_``.
    scale_, thresholds_ : float, array of shape (2,)
        With robust: the scale of the errors from which they were computed, and with ``"density"`` c1 and c2 in units of
        it.
    history_ : tuple of Reweighting
        With robust: each fit, the plain one first: its weights, support values, bias and the scale of its errors.
    constants_ : array of shape (n_support,)
        With c: the constants; the errors are alpha + c.
    basis_indices_ : array of shape (n_basis,) or None
        With a basis: its rows, ``support_``, or None where points were given; ``support_vectors_`` are its points, and
        ``support_values_`` beta, the coefficients of the expansion.
    reconstruction_error_, rank_ : float, int
        With a basis: the mean relative error with which it spans the scoring rows in feature space, and how many of its
        vectors double precision can tell apart; the coefficients of the others are zero.
    n_rows_, mass_, weighted_ : int, float, bool
        With a basis: the number of rows of positive weight, their weight, and whether they had weights.
    degrees_of_freedom_, leverage_factor_, leverage_offset_ : float, arrays
        With a basis: the trace of the hat matrix, and what leave-one-out needs: the leverage of a row x of weight v is
        ``v (1/mass_ + ||factor k(x) - offset||^2)``, where linear columns, less ``linear_center_``, follow k(x).
    maximal_variation_, component_norms_ : array of shape (n_components,) or (n_outputs, n_components)
        With a componentwise kernel: max_i abs(f^l(x_i)) over the rows of the expansion, and the norms of w_l.

    Notes
    -----
    The componentwise machine of [Pelckmans2005]_ eq. (6)-(8) is ``kernel=Componentwise(RBF(1.0))``, which has
    :meth:`component_functions`; an even or odd function ([Espinoza2005]_) is ``kernel=Symmetric(RBF(1.0), "even")``.

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

    _model_type, _intervals_type = LSSVMModel, LSSVMIntervals
    _typical: ClassVar[Uses] = (
        {"gamma": 10.0},
        {"solver": "cg"},
        {"linear_columns": (0,)},
        {"robust": "huber"},
        {"c": 0.1},
        {"basis": "feature_vectors"},
        {"basis": "feature_vectors", "robust": "hampel"},
        {"basis": "feature_vectors", "linear_columns": (0,)},
        {"kernel": Componentwise(RBF(1.5)), "monotone": {0: 1}},
    )
    _page, _title = "ls_svm_regression", "LS-SVM regression"
    _readers = _READERS
    _on_devices = True
    gamma: Any = 1.0
    _: KW_ONLY
    solver: str = "auto"
    max_iter: int = 1000
    solver_: Way = field(init=False)
    basis: Any = None
    linear_columns: Any = ()
    robust: Any = None
    c: Any = None
    monotone: Any = None
    convex: Any = None
    bounds: Any = None

    effective_parameters_ = EFFECTIVE_PARAMETERS
    maximal_variation_ = MAXIMAL_VARIATION
    component_norms_ = COMPONENT_NORMS
    leave_one_out = leave_one_out
    left_out_importance = left_out_importance
    component_functions = available_if(has_components)(component_functions)
    get_support = available_if(has_components)(get_support)
    gamma_for = gamma_for
    confidence_band = confidence_band
    influence_of_rows = influence_of_rows
    predict_interval = predict_left_out_interval

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y; a row of weight 2 counts as two rows, one of weight 0 not at all.

        With a basis, rows may be blocks ``(X, y)`` that can be iterated again, or Dask collections; the basis is chosen
        without a look at the weights but that rows of weight zero are absent, and on a given one a row of weight 2
        counts as two rows. The rule ``"pruned"``, which goes by fits, weighs their errors.

        :place [Suykens2002]_ Algorithm 1: the weighted LS-SVM
        """
        self._begin_fit()
        self._model.fit(X, y, sample_weight)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict f(x) = sum_i alpha_i k(x_i, x) + b, in constant memory; with ``return_std`` also a Gaussian error
        bar.

        :equation [Suykens2002]_ (9): the predictor
        """
        return self._intervals.predict_deviations(X) if return_std else self._expansion(X)

    def _gammas(self, n_outputs: int) -> tuple[float, ...]:
        return gammas_of(self.gamma, n_outputs)

    def _machine(self) -> type[Model]:
        return machine_of(self)

    @property
    def _rows_have_targets(self) -> bool:  # type: ignore[override]
        return self.basis is not None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.basis is None
        return tags


@dataclass(eq=False, repr=False)
class LSSVMClassifier(Classifier):
    """The least-squares support vector classifier ([Pelckmans2005]_ eq. (4)-(5)), two classes or more.

    Parameters
    ----------
    kernel, gamma, tol, solver, max_iter
        As for :class:`LSSVMRegressor`, with one gamma.
    basis
        As for :class:`LSSVMRegressor`; on a basis all machines are regressions on the codes, of one statistic.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`; they share one
        factorisation.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        The map from decision values of left-out rows to the probabilities of :meth:`predict_proba`, made at its first
        call and without a refit; isotonic regression is better from about a thousand rows on. None: no probabilities.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into the weights of the rows.
    linear_columns
        As for :class:`LSSVMRegressor`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    code_book_ : array of shape (n_classes, n_machines)
        The side of each machine on which a class is.
    support_values_ : array of shape (n_support,) or (n_support, n_machines)
        alpha, the multipliers of y f = 1 - e.
    support_codes_ : array of the same shape
        The labels -1, +1 by which alpha is multiplied in the expansion; absent with a basis.
    bias_ : float or array of shape (n_machines,)
        The bias b.
    calibration_scores_ : CalibrationScores
        Left-out decision values by which the model is calibrated, found when they are first needed.
    support_, support_vectors_, kernel_, certificate_, ridge_, effective_parameters_, n_iter_, solver_
        As for :class:`LSSVMRegressor`.
    basis_indices_, reconstruction_error_, rank_, n_rows_, degrees_of_freedom_, leverage_factor_, leverage_offset_
        As for :class:`LSSVMRegressor`.
    coef_, linear_columns_, linear_center_, linear_bias_, maximal_variation_, component_norms_
        As for :class:`LSSVMRegressor`, of the decision values, one line per machine where there are several.

    Notes
    -----
    Rows that are equal in inputs and class are left out together. With ``class_weight`` or ``sample_weight`` the
    probabilities are those of the weighted rows.
    """

    _model_type, _calibration_type = LSSVMModel, LeftOutCalibration
    _typical: ClassVar[Uses] = (
        {"gamma": 10.0},
        {"solver": "cg"},
        {"linear_columns": (0,)},
        {"basis": "feature_vectors"},
        {"basis": "feature_vectors", "linear_columns": (0,)},
    )
    _page, _title = "ls_svm_classification", "LS-SVM classification (as regression on the labels)"
    _readers = _READERS
    _on_devices = True
    gamma: float = 1.0
    _: KW_ONLY
    solver: str = "auto"
    max_iter: int = 1000
    solver_: Way = field(init=False)
    basis: Any = None
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
    class_weight: Any = None
    linear_columns: Any = ()

    effective_parameters_ = EFFECTIVE_PARAMETERS
    maximal_variation_ = MAXIMAL_VARIATION
    component_norms_ = COMPONENT_NORMS
    leave_one_out = leave_one_out
    left_out_importance = left_out_importance
    component_functions = available_if(has_components)(component_functions)
    get_support = available_if(has_components)(get_support)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and labels y of any kind; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        self._begin_fit()
        self._model.fit(X, y, sample_weight)
        return self

    def _gammas(self, n_machines: int) -> tuple[float, ...]:
        return (positive(self.gamma, "gamma"),) * n_machines

    def _machine(self) -> type[Model]:
        return machine_of(self)

    @property
    def _rows_have_targets(self) -> bool:  # type: ignore[override]
        return self.basis is not None

    @property
    def _regressed(self) -> bool:  # type: ignore[override]
        return self.basis is not None
