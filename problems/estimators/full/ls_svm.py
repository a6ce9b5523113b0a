r"""The LS-SVM family: regression and classification through one saddle system.

.. math:: \min_{w,b,e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i e_i^2

subject to :math:`y_i = f(x_i) + e_i` or :math:`y_i f(x_i) = 1 - e_i`; see :mod:`problems.ls_svm_regression`,
:mod:`problems.ls_svm_classification`, and :mod:`substrate.operators.saddle_system` for the fast path. In regression
f may have a shape that holds everywhere, slopes, curvatures and bounds with proof,

.. math:: \sigma_j (D_j f)(x) \ge c_j \quad\text{for all } x \text{ of the box of the rows.}

That machine is composed (:mod:`substrate.shapes.shaped_machine`), so that cvxpy is imported by such a fit and by
no other. A stored one has its own bracket, from which ``certify`` and ``prove`` start
(:mod:`substrate.shapes.shaped_least_squares`).
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from problems.estimators.full.intervals import IntervalRegressor, confidence_band, influence_of_rows
from problems.estimators.full.required_gamma import gamma_for
from problems.estimators.full.saddle_machine import ChosenKernel, LSSVMModel, Way
from problems.estimators.shared.base import StoredFit, Uses, WeightedRows, certify_stored
from problems.estimators.shared.checks import column_number
from problems.estimators.shared.classifier import CalibrationScores, Classifier, equal_rows
from problems.estimators.shared.coded import Coding, numbers_of_codes, scores_of
from problems.estimators.shared.left_out import LeftOutOutputs, left_out_importance, refuse_closed_form, refuse_shape
from problems.estimators.shared.linear_part import PartlyLinear
from substrate.arrays import (
    Array,
    is_device_array,
    namespace_of,
    positive,
    target_unit,
    to_dense,
    to_numpy,
    whole_number,
)
from substrate.certificate import Certificate, spread_of, warn_unless_holds
from substrate.errors import DataError, DeclarationError, SolverError
from substrate.kernels import RBF, Componentwise, Restricted, as_kernel
from substrate.operators.saddle_system import ridge_of

if TYPE_CHECKING:
    from substrate.kernels.nodes import Node

__all__ = ["LSSVM", "LSSVMClassifier", "LSSVMRegressor"]


#: Facts of the composed machine that the certificate of the estimator repeats.
_FACTS = ("solver", "points of the shapes", "no machine that holds everywhere")


def read_shapes(model: Any, n_features: int) -> Any:
    """Return the shapes by column number, checked."""
    from substrate.shapes.shaped_least_squares import ShapeParameters

    names = getattr(model, "feature_names_in_", ())

    def signs(given: Any, name: str) -> dict[int, int]:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise DeclarationError(f"{name} must be a dict of columns to 1 or -1, as {{0: 1}}; received {given!r}")
        wrong = [sign for sign in given.values() if isinstance(sign, bool) or sign not in (1, -1)]
        if wrong:
            raise DeclarationError(f"{name} has 1 (rising, convex) or -1 (falling, concave), received {wrong[0]!r}")
        return {column_number(column, name, n_features, names): int(sign) for column, sign in given.items()}

    convex, jointly = model.convex, False
    if isinstance(convex, str):
        if convex != "jointly":
            raise DeclarationError(f"convex must be 'jointly', a list of columns or a dict, received {convex!r}")
        convex, jointly = None, True
    elif convex is not None and not isinstance(convex, Mapping):
        convex = dict.fromkeys(np.atleast_1d(np.asarray(convex, dtype=object)).tolist(), 1)
    return ShapeParameters(
        monotone=signs(model.monotone, "monotone"),
        convex=signs(convex, "convex"),
        jointly=jointly,
        bounds=_ends(model.bounds),
        names=tuple(map(str, names)),
    )


def _ends(bounds: Any) -> tuple[float | None, float | None]:
    if bounds is None:
        return None, None
    try:
        lower, upper = (None if end is None else float(end) for end in bounds)
    except (TypeError, ValueError) as error:
        raise DeclarationError(
            f"bounds must be a pair of numbers or None, as (0, None); received {bounds!r}"
        ) from error
    ends = [end for end in (lower, upper) if end is not None]
    if not all(np.isfinite(ends)) or (len(ends) == 2 and ends[0] >= ends[1]):
        raise DeclarationError(f"bounds must be finite, the lower below the upper, received {bounds!r}")
    return lower, upper


class ShapedModel(LSSVMModel):
    """The LS-SVM on all rows with a shape: further terms of the expansion, ``shape_points_``, hold it everywhere."""

    def refuse_combinations(self) -> None:
        """Refuse parameters that exclude each other, before any work."""
        model = self.model
        if model.robust is not None:
            raise DeclarationError("robust weights are of a machine without a shape; leave robust out, or the shape")
        if model.c is not None:
            raise DeclarationError("c is given to the plain machine: leave robust, monotone, convex and bounds out")
        if np.size(model.linear_columns):
            raise DeclarationError("shapes are of the kernel machine alone; leave linear_columns out, or the shape")
        super().refuse_combinations()

    def fit_rows(self, rows: WeightedRows, coded: Coding, Y: Array, chosen: ChosenKernel) -> None:
        """Fit the machine with its shape, and keep its expansion and its certificate."""
        import cvxpy as cp

        from substrate.declare.level import Substrate
        from substrate.declare.machine import Machine
        from substrate.shapes.shaped_least_squares import ShapedExpansion

        model, kernel, gamma, v = self.model, chosen.kernel, chosen.gammas[0], np.asarray(rows.weights)
        if Y.shape[1] > 1:
            raise DataError(f"a shape is of one output, received {Y.shape[1]}; fit one model for each")
        if is_device_array(rows.X):
            raise DataError("a machine with a shape works on numpy arrays; take X and y to numpy first")
        if kernel.pairwise:
            raise DeclarationError("a precomputed matrix says nothing between its points; pass X and the kernel itself")
        X = np.asarray(to_dense(rows.X))
        y = np.ascontiguousarray(Y[:, 0])
        shapes = read_shapes(model, X.shape[1])
        box = np.column_stack([X.min(axis=0), X.max(axis=0)])
        center, unit = center_and_unit(y)
        lower, upper = (None if end is None else (end - center) / unit for end in shapes.bounds)
        scaled = replace(shapes, bounds=(lower, upper))
        s = Substrate(kernel, X, (y - center) / unit)
        loss = cp.sum_squares(cp.multiply(np.sqrt(0.5 * gamma * v), s.e))
        constraints = scaled.constraints(s, box)
        result = Machine(s, minimize=loss + 0.5 * s.squared_norm, subject_to=constraints).solve()
        further = ShapedExpansion.of(result, constraints)
        a = unit * result.expansions[0].coefficients
        b = unit * float(result.expansions[0].b) + center
        model.shape_points_, model.shape_orders_ = further.points, further.orders
        model.shape_coefficients_ = unit * further.coefficients
        model.shape_multipliers_ = unit * further.multipliers
        model.shape_box_ = box
        facts = tuple(fact for fact in result.certificate.record if fact[0] in _FACTS)
        facts += (("box of the shapes", " x ".join(f"[{low:g}, {high:g}]" for low, high in box)),)
        model.solver_, model.ridge_, model.n_iter_ = "cvxpy", ridge_of(gamma, v), 1
        model._keep_expansion(X, rows.numbers, kernel, a, b)
        checked = certify_stored(model._title, self.recall_rows(X, Y, v, chosen.gammas))
        added_rows, added_facts = chosen.added
        model.certificate_ = Certificate(model._title, (*checked.rows, *added_rows), (*facts, *added_facts))
        warn_unless_holds(model.certificate_, dict(facts).get("no machine that holds everywhere", ""))

    def recall_rows(self, X: Any, Y: Array, weights: Array, gammas: tuple[float, ...]) -> StoredFit:
        """Return the stored machine on the rows of its fit, which carries its own bracket."""
        from substrate.shapes.shaped_least_squares import ShapedLeastSquares

        model = self.model
        points = np.asarray(to_dense(X))
        stored = ShapedLeastSquares(
            kernel=model.kernel_,
            X=points,
            y=np.ascontiguousarray(Y[:, 0]),
            gamma=gammas[0],
            weights=np.asarray(weights),
            a=np.asarray(model.support_values_),
            b=float(model.bias_),
            further=self.further,
            shapes=read_shapes(model, points.shape[1]),
            box=model.shape_box_,
            fitted=np.asarray(model._fitted_values(points)),
        )
        return StoredFit([stored])

    @property
    def further(self) -> Any:
        """Return the further terms of the expansion."""
        from substrate.shapes.shaped_least_squares import ShapedExpansion

        model = self.model
        multipliers = model.shape_multipliers_
        return ShapedExpansion(model.shape_points_, model.shape_orders_, model.shape_coefficients_, multipliers)

    def evaluate(self, X: Any) -> Array:
        """Return the further terms at rows, and warn once where rows are outside the box."""
        model, points = self.model, to_dense(to_numpy(X))
        box = model.shape_box_
        if not getattr(model, "_told_outside", False) and ((points < box[:, 0]) | (points > box[:, 1])).any():
            model._told_outside = True
            warnings.warn(
                "some rows are outside the box of the training rows, in which the shape holds; nothing is promised "
                "there",
                UserWarning,
                stacklevel=5,
            )
        return np.asarray(self.further.values(model.kernel_, points))

    def express(self, x: "Sequence[Node]", outputs: "list[Node]") -> "list[Node]":
        """Return formulas with the further terms, derivatives of the kernel at their points."""
        from substrate.kernels.nodes import add_outputs, expand_kernel

        further = self.further
        for orders, at in further.kinds():
            terms = expand_kernel(self.model.kernel_, further.points[at], further.coefficients[at, None], x, orders)
            outputs = add_outputs(outputs, terms)
        return outputs


def center_and_unit(y: Array) -> tuple[float, float]:
    """Return mean and spread of the targets: the free bias absorbs the mean, all other quantities scale with the
    spread.

    A solver stops at a share of the given numbers, which an offset must not dominate.
    """
    largest = target_unit(y)
    center = largest * float(np.clip(np.mean(y / largest), (y / largest).min(), (y / largest).max()))
    spread, rounding = spread_of(y - center, np.ones(y.size))
    return center, spread if spread > rounding else max(largest, 1.0)


def has_components(model: Any) -> bool:
    """Return whether the machine is additive; raise an AttributeError with a remedy otherwise."""
    kernel: Any = getattr(model, "kernel_", model.kernel)
    inner = kernel.kernel if isinstance(kernel, Restricted) else kernel
    if not isinstance(inner, Componentwise):
        raise AttributeError(
            f"component functions need a kernel that is a sum over the inputs, such as Componentwise(RBF(1.0)); this "
            f"one is {kernel!r}"
        )
    return True


@dataclass(eq=False, repr=False)
class LSSVM(PartlyLinear):
    """A base of LS-SVMs, of numbers or of classes: their parameters, and the fit.

    :class:`LSSVMRegressor` documents them. A machine on all rows, one with a shape, or one on a basis does the work.
    """

    _on_devices = True
    gamma: Any = 1.0
    _: KW_ONLY
    solver: str = "auto"
    max_iter: int = 1000
    solver_: Way = field(init=False)
    basis: Any = None
    linear_columns: Any = ()

    @property
    def _model(self) -> Any:
        """Return the machine: on all rows, or on a basis."""
        if self.basis is None:
            return LSSVMModel(self)
        from problems.estimators.reduced_ls_svm import BasisModel  # not needed by fits to all rows

        return BasisModel(self)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y, or labels of any kind; a row of weight 2 counts as two rows, one of weight 0 not
        at all.

        With a basis, rows may be blocks ``(X, y)`` that can be iterated again, or Dask collections; the choice of the
        basis ignores the weights, except that rows of weight zero are absent, and on a given basis a row of weight 2
        counts as two rows. The rule ``"pruned"``, which is based on fits, weighs their errors.

        :place [Suykens2002]_ Algorithm 1: the weighted LS-SVM
        """
        self._begin_fit()
        self._model.refuse_combinations()
        whole_number(self.max_iter, "max_iter", 1)
        self._model.fit(X, y, sample_weight)
        return self

    @property
    def effective_parameters_(self) -> Any:
        r"""The effective number of parameters, :math:`\operatorname{tr} H` of the fitted values :math:`H y`, bias
        included.

        With :math:`\lambda_k` the eigenvalues of the centred kernel matrix and weights of one it is
        :math:`1 + \sum_k \gamma \lambda_k / (1 + \gamma \lambda_k)`, from 1 to the number of distinct rows; one number,
        or one for each output or machine, computed on request. With a precomputed kernel it is
        ``leave_one_out(K).degrees_of_freedom``.

        :place [Suykens2002b]_ chapter 4: the effective number of parameters
        """
        check_is_fitted(self)
        if self.kernel_.pairwise:
            raise AttributeError(
                "effective_parameters_ needs the kernel matrix of the training rows, which the model does not keep; "
                "use leave_one_out(K).degrees_of_freedom"
            )
        refuse_shape(self, "effective_parameters_")
        return self._model.effective_parameters()

    @available_if(has_components)  # type: ignore[untyped-decorator]
    def component_functions(self, X: Any) -> Array:
        """Return f^l at the rows of X, without bias: of shape (n, n_components), or (n, n_components, n_machines)."""
        return self._component_values(self._new_points(X))

    @property
    def maximal_variation_(self) -> Array:
        """The largest size of every component at the rows of the expansion, max_i abs(f^l(x_i)), on request."""
        check_is_fitted(self)
        has_components(self)
        model = self.to_numpy()
        return np.ascontiguousarray(np.abs(model._component_values(model.support_vectors_)).max(axis=0).T)

    left_out_importance = left_out_importance

    def _leave_rows_out(self, X: Any, y: Any, sample_weight: Any) -> LeftOutOutputs:
        refuse_shape(self, "leave_one_out")
        return self._model.leave_rows_out(X, y, sample_weight)

    def _recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        return self._model.recall_fit(X, y, sample_weight)

    def _keep_units(self, gammas: Sequence[float], noise: Array | None, one_output: bool) -> None:
        """Keep what a new row of weight one needs besides the expansion, whatever the parameters are set to later."""
        ridge = 1.0 / np.array(gammas)
        self.unit_ridge_ = float(ridge[0]) if one_output else ridge
        if noise is not None:
            self.noise_variance_ = float(noise[0]) if one_output else noise


@dataclass(eq=False, repr=False)
class LSSVMRegressor(MultiOutputMixin, LSSVM, IntervalRegressor):
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
        :class:`~substrate.basis.Basis`, or how many, a rule, rows or points. All rows are in the objective; time is
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
    maximal_variation_ : array of shape (n_components,) or (n_outputs, n_components)
        With a componentwise kernel: max_i abs(f^l(x_i)) over the rows of the expansion.

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
    _: KW_ONLY
    robust: Any = None
    c: Any = None
    monotone: Any = None
    convex: Any = None
    bounds: Any = None

    gamma_for = gamma_for
    confidence_band = confidence_band
    influence_of_rows = influence_of_rows

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict f(x) = sum_i alpha_i k(x_i, x) + b, in constant memory; with ``return_std`` also a Gaussian error
        bar.

        :equation [Suykens2002]_ (9): the predictor
        """
        if not return_std:
            return self._expansion(X)
        check_is_fitted(self)
        refuse_closed_form(self, "return_std")
        points, diagonal = self._points_and_diagonal(X, "return_std")
        p, xp = self._model.spread(points, diagonal), namespace_of(diagonal)
        noise, gammas = (np.atleast_1d(values) for values in (self.noise_variance_, 1.0 / self.unit_ridge_))
        variances = [float(s) * (float(g) * p[:, k] + 1.0) for k, (s, g) in enumerate(zip(noise, gammas, strict=True))]
        return self._evaluate(points), self._joined([xp.sqrt(variance) for variance in variances])

    @property
    def _model(self) -> Any:
        """Return the machine: with a shape, on all rows, or on a basis."""
        has_shape = not (self.monotone is self.convex is self.bounds is None) or hasattr(self, "shape_points_")
        return ShapedModel(self) if has_shape and self.basis is None else super()._model

    def _evaluate(self, X: Any) -> Array:
        """Return the predictions of rows that were checked, with the further terms of a shape."""
        values = super()._evaluate(X)
        return values + ShapedModel(self).evaluate(X) if hasattr(self, "shape_points_") else values

    def _express(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the expansion, with the further terms of a shape."""
        outputs = super()._express(x)
        return ShapedModel(self).express(x, outputs) if hasattr(self, "shape_points_") else outputs

    def _gammas(self, n_outputs: int) -> tuple[float, ...]:
        """Return one positive gamma per output, from one for all or one for each."""
        gamma = self.gamma
        if isinstance(gamma, Real) or (isinstance(gamma, np.ndarray) and gamma.ndim == 0):
            return (positive(gamma, "gamma"),) * n_outputs
        if isinstance(gamma, str) or not hasattr(gamma, "__len__"):
            raise DeclarationError(f"gamma must be a positive number or one for each output, received {gamma!r}")
        if len(gamma) != n_outputs:
            raise DeclarationError(
                f"gamma has {len(gamma)} entries for {n_outputs} outputs; give one each or one for all"
            )
        return tuple(positive(value, "gamma") for value in gamma)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.basis is None
        return tags


@dataclass(eq=False, repr=False)
class LSSVMClassifier(LSSVM, Classifier):
    """The least-squares support vector classifier ([Pelckmans2005]_ eq. (4)-(5)), two classes or more.

    Parameters
    ----------
    kernel, gamma, tol
        As for :class:`LSSVMRegressor`, with one gamma.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`; they share one
        factorisation.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        The map from decision values of left-out rows to the probabilities of :meth:`predict_proba`, made at its first
        call and without a refit; isotonic regression is better from about a thousand rows on. None: no probabilities.
    solver, max_iter
        As for :class:`LSSVMRegressor`.
    basis
        As for :class:`LSSVMRegressor`; on a basis all machines are regressions on the codes, of one statistic.
    linear_columns
        As for :class:`LSSVMRegressor`.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into the weights of the rows.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    code_book_ : array of shape (n_classes, n_machines)
        The side of each machine on which a class is.
    support_values_ : array of shape (n_support,) or (n_support, n_machines)
        The multipliers of y = f + e of the codes y, one column per machine: alpha y, with alpha the multipliers of
        y f = 1 - e.
    bias_ : float or array of shape (n_machines,)
        The bias b.
    calibration_scores_ : CalibrationScores
        Left-out decision values by which the model is calibrated, found when they are first needed.
    support_, support_vectors_, kernel_, certificate_, ridge_, effective_parameters_, n_iter_, solver_
        As for :class:`LSSVMRegressor`.
    basis_indices_, reconstruction_error_, rank_, n_rows_, degrees_of_freedom_, leverage_factor_, leverage_offset_
        As for :class:`LSSVMRegressor`.
    coef_, linear_columns_, linear_center_, linear_bias_, maximal_variation_
        As for :class:`LSSVMRegressor`, of the decision values, one line per machine where there are several.

    Notes
    -----
    Rows that are equal in inputs and class are left out together. With ``class_weight`` or ``sample_weight`` the
    probabilities refer to the weighted rows.
    """

    _left_out = "left-out rows"
    _typical: ClassVar[Uses] = (
        {"gamma": 10.0},
        {"solver": "cg"},
        {"linear_columns": (0,)},
        {"basis": "feature_vectors"},
        {"basis": "feature_vectors", "linear_columns": (0,)},
    )
    _page, _title = "ls_svm_classification", "LS-SVM classification (as regression on the labels)"
    _: KW_ONLY
    class_weight: Any = None

    def _gammas(self, n_machines: int) -> tuple[float, ...]:
        return (positive(self.gamma, "gamma"),) * n_machines

    def _keeps_rows(self) -> bool:
        """Return whether rows are to be kept: for a basis, a matrix, and for folds if the kernel is not definite."""
        return super()._keeps_rows() and (self.basis is not None or not as_kernel(self.kernel).trusted)

    def _score_left_out(self, rows: tuple[Any, Any, Any]) -> CalibrationScores:
        """Leave out every row in closed form, with the rows that equal it in inputs and class.

        So a row of weight two equals two equal rows, and no copy of a row tells its class; the rows of a precomputed
        matrix, and those that are read in passes, count as different. Where the kernel is not positive semi-definite
        and leaves some machine undefined, rows are left out in folds.
        """
        try:
            left_out = self._model.leave_rows_out(*rows, is_checked=False)
            classes, residuals = numbers_of_codes(left_out.targets, self.code_book_), left_out.residuals
            if left_out.X is not None:
                residuals = self._model.leave_groups_out(left_out, equal_rows(to_numpy(left_out.X), classes))
        except SolverError:
            if rows[0] is None:
                raise
            return super()._score_left_out(rows)
        scores = scores_of(left_out.targets - residuals, self.coding, self.code_book_)
        return CalibrationScores.of(scores, classes, left_out.weights, "left out")
