r"""Structure detection by maximal variation, see :mod:`problems.maximal_variation` and its variants.

On a basis (:mod:`problems.reduced_maximal_variation`) the components are expanded in few kernel functions, and are
bounded at all rows.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.full.saddle_machine import recall_saddle
from problems.estimators.penalised.group_weights import GroupWeights
from problems.estimators.penalised.variation_fit import FittedVariation, Variation
from problems.estimators.reduced_fit import choose_basis
from problems.estimators.shared.base import (
    Facts,
    KernelEstimator,
    StoredFit,
    certify_stored,
    components_of,
    weight_facts,
)
from problems.estimators.shared.checks import names_columns
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, non_negative, positive
from substrate.certificate import NO_BOUND, Accuracy, Certificate, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.fits.coordinates import CUTOFF
from substrate.ingredients import Weights
from substrate.kernels import Componentwise, Restricted
from substrate.operators.gram import Gram

if TYPE_CHECKING:
    from substrate.kernels.nodes import Node

__all__ = ["AdditiveEstimator", "MaximalVariationClassifier", "MaximalVariationRegressor"]


class AdditiveEstimator(SelectorMixin, KernelEstimator):
    """An estimator of a sum of components, with one expansion for all of them unless it says otherwise."""

    _takes_matrix = False  # a matrix has no inputs to be taken one at a time, and fit refuses it
    relevance: float

    def component_functions(self, X: Any) -> Array:
        """Return f^l at the rows of X, without bias: of shape (n, n_components), or (n, n_components, n_machines)."""
        return self._component_values(self._new_points(X))

    def get_support(self, relevance: float | None = None, indices: bool = False) -> Any:
        """Return the relevant inputs: a mask, or their indices.

        An input is relevant if a component that uses it varies by more than ``relevance`` times the largest maximal
        variation: unless given, the parameter of that name. Zero leaves out exact zeros only, which positive definite
        kernels with one expansion for all components never have.
        """
        check_is_fitted(self)
        chosen = self._mark_components(self.relevance if relevance is None else relevance)
        mask = np.zeros(self.n_features_in_, dtype=bool)
        for columns, is_relevant in zip(self._component_columns(), chosen, strict=True):
            mask[list(columns)] |= is_relevant
        return np.flatnonzero(mask) if indices else mask

    _get_support_mask = get_support

    def _mark_components(self, relevance: Any) -> NDArray[np.bool_]:
        """Return a mask of the components that vary enough."""
        if isinstance(relevance, (bool, np.bool_)):
            raise DeclarationError("relevance must be a number; pass indices by name: get_support(indices=True)")
        share = non_negative(relevance, "relevance", "as a share of the largest maximal variation")
        variation = np.atleast_2d(self.maximal_variation_).max(axis=0)
        return np.asarray(variation > share * variation.max())

    def _component_columns(self) -> tuple[tuple[int, ...], ...]:
        """Return the inputs of each component, of which a refit keeps some."""
        return tuple(part.columns for part in self._own_kernel().components(self.n_features_in_))

    def _own_kernel(self, given: Any = None) -> Componentwise:
        """Return the sum of one kernel per component."""
        kernel = super()._own_kernel(given)
        if isinstance(kernel, Componentwise):
            return kernel
        if isinstance(kernel, Restricted):
            return Componentwise([kernel])
        if names_columns(kernel):
            raise DeclarationError(
                f"{kernel!r} names columns and cannot be the kernel of every input; name the components instead, for "
                "instance Componentwise({0: RBF(1.0), (1, 2): RBF(2.0)})"
            )
        return Componentwise(kernel)


@dataclass(eq=False, repr=False)
class MaximalVariationEstimator(AdditiveEstimator):
    """A base of structure detection, of numbers or of classes: its parameters, and the fit.

    :class:`MaximalVariationRegressor` documents them.
    """

    _typical = ({"expansion": "decoupled", "ridge": 0.1}, {"refit": True}, {"basis": 10, "ridge": 0.1})
    _page = "maximal_variation"
    rho: Any = 1.0
    _: KW_ONLY
    basis: Any = None
    relevance: float = 0.05
    expansion: str = "shared"
    ridge: float = 0.0
    cutoff: float = CUTOFF
    groups: Any = None
    refit: bool = False
    gamma: float = 1.0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y, or labels of any kind; ``sample_weight`` weighs the squared errors.

        Every row of positive weight, however small, is bounded alike. With ``basis`` X may be blocks ``(X, y)`` or a
        Dask collection.
        """
        self._begin_fit()
        choices, given = self._choices(), self._read_rows(X, y, sample_weight)
        X = given.X
        coded = self._encode(given.y)
        Y, kernel = coded.codes(given.y), cast(Any, self._resolved_kernel(X))
        basis = None if self.basis is None else choose_basis(self, "feature_vectors", kernel, given, Y)
        points = None if basis is None else basis.points
        Gram.of(kernel, X if points is None else points)  # refuses what does not fit memory, warns of widths
        how: Any = {"weights": given.weights, "points": points}
        fits = choices.fit_all(kernel, X, Y, self._own_rho(), self._tolerance(), **how)
        a, checked = np.stack([fit.a for fit in fits], axis=1), certify_stored(self._title, StoredFit(fits))
        is_single, bias, rows = Y.shape[1] == 1, np.array([fit.b for fit in fits]), checked.rows
        groups = GroupWeights.of(self.rho, self.groups).facts()
        facts: Facts = (("kernel", repr(kernel)), *groups, *checked.record, *weight_facts(given.weights))
        facts += () if basis is None else (("basis", basis.description),)
        variation = np.array([fit.maximal_variation for fit in fits])
        self.maximal_variation_ = variation[0] if is_single else variation
        vectors = X if points is None else points
        if self.refit:
            chosen = self._mark_components(self.relevance)
            self.component_support_, gamma = chosen, float(self.gamma)
            parts = [part for part, keep in zip(kernel.components(X.shape[1]), chosen, strict=True) if keep]
            # a kernel of zeros leaves the bias
            kernel = Componentwise(parts) if parts else 0.0 * kernel.components(X.shape[1])[0]
            with warnings.catch_warnings(action="ignore"):  # its rows are on the certificate
                machine = LSSVMRegressor(kernel, gamma, tol=self._tolerance()).fit(X, Y, given.weights)
            a, bias = np.reshape(machine.support_values_, Y.shape), np.atleast_1d(machine.bias_)
            selection = (row.plain(f"selection: {row.name}") if isinstance(row, Accuracy) else row for row in rows)
            rows, record = (*machine.certificate_.rows, *selection), machine.certificate_.record
            told = f"LS-SVM on {chosen.sum()} of {chosen.size} components, gamma {gamma:g}"
            facts += (("refit", told), *(fact for fact in record if fact[0] in (NO_BOUND, "rounding")))
        self.certificate_ = Certificate(self._title, rows, facts)
        warn_unless_holds(self.certificate_)
        self.n_rows_ = int(Y.shape[0])
        self._keep_classes(coded)
        numbers = given.numbers
        if basis is not None:
            numbers = np.arange(basis.size) if basis.rows is None else given.numbers[basis.rows]
            self.basis_indices_ = None if basis.rows is None else numbers
        self._keep_outputs(vectors, numbers, kernel, a, bias)
        return self

    @property
    def _decoupled(self) -> bool:
        """Return whether every component has its own expansion; a refitted machine has one for all."""
        return bool(self.expansion == "decoupled") and not self.refit

    def _outputs(self) -> tuple[int, ...]:
        """Return the shape of one row's prediction."""
        return self._coefficients_of(0).shape[1:]

    def _coefficients_of(self, component: int) -> Array:
        """Return the coefficients of a component."""
        coefficients = super()._coefficients_of(component)
        return coefficients[..., component] if self._decoupled else coefficients

    def _component_values(self, X: Any) -> Array:
        """Evaluate every component; those that were not refitted are zero."""
        if not self.refit:
            return super()._component_values(X)
        values = np.zeros((X.shape[0], self.component_support_.size, *self._outputs()))
        if self.component_support_.any():
            values[:, self.component_support_] = super()._component_values(X)
        return values

    def _evaluate(self, X: Any) -> Array:
        """Return the predictions of rows that were checked, f(x) = sum_l f^l(x^l) + b.

        :equation [Pelckmans2005]_ (30): the predictor
        """
        if not self._decoupled:
            return super()._evaluate(X)
        return np.asarray(self._component_values(X).sum(axis=1) + self.bias_)

    def _express(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the sum of the expansions of all components."""
        if not self._decoupled:
            return super()._express(x)
        from substrate.kernels.nodes import add_outputs, expand_kernel

        n = self.support_.size
        outputs: list[Any] = list(np.broadcast_to(self.bias_, (int(np.prod(self._outputs() or (1,))),)))
        for number, component in enumerate(cast(Any, self.kernel_).components(len(x))):
            coefficients = np.reshape(self._coefficients_of(number), (n, -1))
            outputs = add_outputs(expand_kernel(component, self.support_vectors_, coefficients, x), outputs)
        return outputs

    def _choices(self) -> Variation:
        """Return the choices, checked before any work."""
        positive(self.gamma, "gamma")
        GroupWeights.of(self.rho, self.groups)
        non_negative(self.relevance, "relevance", "as a share of the largest maximal variation")
        if self.refit and self.basis is not None:
            raise DeclarationError(
                "refit=True fits the LS-SVM on all rows, and basis names few points; leave one of them out, and fit an "
                "LS-SVM on a basis to the inputs of get_support() instead"
            )
        return Variation(expansion=self.expansion, ridge=self.ridge, cutoff=self.cutoff)

    def _own_rho(self) -> Weights:
        """Return the weights that were given, for the columns of the fit."""
        columns = (self.n_features_in_, getattr(self, "feature_names_in_", None))
        return GroupWeights.of(self.rho, self.groups).of_components(self._component_columns(), *columns)

    def _recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return all machines on the data of the fit."""
        given = self._read_rows(X, y, sample_weight, again=True)
        Y = self._codes_again(given.y)
        X, weights = given.X, given.weights
        if self.refit:
            if len(components_of(self.kernel_, X.shape[1])) != self.component_support_.sum():
                raise DataError("component_support_ and the components of kernel_ do not belong together")
            return recall_saddle(self, X, Y, weights, (float(self.gamma),) * Y.shape[1])
        facts = (
            ("kernel", repr(self.kernel_)),
            *GroupWeights.of(self.rho, self.groups).facts(),
            *weight_facts(given.weights),
        )
        return StoredFit(self._recall_machines(X, Y, weights), ((), facts))

    def _recall_machines(self, X: Any, Y: Array, weights: Array) -> Iterator[FittedVariation]:
        """Return every machine, with the optimum computed again for its multipliers."""
        stored, on_basis = self.support_values_, self.basis is not None
        if not on_basis and stored.shape[0] != X.shape[0]:
            raise DataError(f"the model has {stored.shape[0]} support values, these are {X.shape[0]} rows")
        a = stored[:, None] if stored.ndim == (2 if self._decoupled else 1) else stored
        fitted, biases = np.reshape(self._evaluate(X), Y.shape), np.atleast_1d(self.bias_)
        how: Any = {"weights": weights} | ({"points": self.support_vectors_} if on_basis else {})
        kernel = cast(Any, self.kernel_)
        fits = self._choices().fit_all(kernel, X, Y, self._own_rho(), self._tolerance(), **how)
        for k, fit in enumerate(fits):
            yield replace(fit, a=np.ascontiguousarray(a[:, k]), b=float(biases[k]), fitted=fitted[:, k])


@dataclass(eq=False, repr=False)
class MaximalVariationRegressor(MaximalVariationEstimator, Regressor):
    """Structure detection for regression ([Pelckmans2005]_ eq. (13)-(14), (30)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel of every input; or a :class:`~substrate.kernels.Componentwise` that names one for each input or group
        of inputs. ``"rbf"`` takes the median distance of each input as its width.
    rho : float, sequence or dict, default=1.0
        Weight of the sum of maximal variations against half the squared errors, in the units of y; or one weight for
        each of ``groups``, in their order or by their names. All are positive.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
        Where the active rows do not settle, the root of ``tol``: a duality gap is the square of an error.
    basis : Basis, int, str, array or None, default=None
        The points in whose kernel functions the components are expanded, for many rows; None: all rows. A
        :class:`~substrate.basis.Basis` or its short forms, chosen by the sum of the components' kernels.
    relevance : float, default=0.05
        Share of the largest maximal variation up to which an input counts as irrelevant.
    expansion : {"shared", "decoupled"}, default="shared"
        One vector of support values for all components, as in the paper; or one for each, whose components vanish
        exactly.
    ridge : float, default=0.0
        Weight of half the squared norm of w. The decoupled expansion needs it unless its components have finite rank.
    cutoff : float, default=1e-6
        Relative size of the directions of component values left out; with ``ridge=0`` they are not determined
        otherwise.
    groups : sequence of sequences, dict or None, default=None
        A partition of the columns, by number or by name, for a weight each: lists of columns, or a mapping of names
        to them. A component belongs to the group of its columns. Where rho is one number, it applies to all groups.
    refit : bool, default=False
        Whether to predict by the componentwise LS-SVM on the relevant inputs, which is less biased; without ``basis``.
    gamma : float, default=1.0
        Weight of the squared errors in that machine.

    Attributes
    ----------
    maximal_variation_ : array of shape (n_components,)
        t. Zeros are exact where the kernels have finite rank or the expansion is decoupled; with a shared expansion and
        a positive definite kernel no component vanishes alone.
    component_support_ : array of shape (n_components,)
        A mask of the components of the refitted machine (with ``refit=True`` only).
    support_values_ : array of shape (n_samples,), or (n_samples, n_components) if decoupled
        alpha, one row for each vector of the basis where there is one.
    n_rows_ : int
        The number of rows of positive weight.
    basis_indices_ : array of shape (n_basis,) or None
        The rows of the basis vectors, None for points (with ``basis`` only).
    bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`.

    Examples
    --------
    >>> from problems import MaximalVariationRegressor
    >>> from substrate.datasets import additive_function
    >>> from substrate.kernels import RBF
    >>> X, y = additive_function(80, 8, random_state=0)
    >>> model = MaximalVariationRegressor(RBF(1.0), rho=10.0, relevance=0.1).fit(X, y)
    >>> model.get_support(indices=True)
    array([0, 1, 2, 3])
    >>> X, y = additive_function(400, 8, random_state=0)
    >>> few = MaximalVariationRegressor(RBF(1.0), rho=60.0, basis=40, expansion="decoupled", ridge=1.0).fit(X, y)
    >>> few.get_support(indices=True), bool(few.certificate_.holds)
    (array([0, 1, 2, 3]), True)
    """

    _title = "Maximal variation, regression"


@dataclass(eq=False, repr=False)
class MaximalVariationClassifier(MaximalVariationEstimator, Classifier):
    """Structure detection for classification ([Pelckmans2005]_ eq. (13)-(14) with errors 1 - y f).

    Parameters
    ----------
    kernel, rho, tol
        As for :class:`MaximalVariationRegressor`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.
    basis, relevance, expansion, ridge, cutoff, groups, refit, gamma
        As for :class:`MaximalVariationRegressor`.

    Attributes
    ----------
    maximal_variation_ : array of shape (n_components,) or (n_machines, n_components)
        t, one row per machine; an input is supported if some machine needs it.
    classes_, code_book_
        As for :class:`~problems.LSSVMClassifier`.
    component_support_, support_values_, basis_indices_, n_rows_
        As for :class:`MaximalVariationRegressor`, with an axis for the machines where there are several.
    bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`MaximalVariationRegressor`, with an axis for the machines where there are several.
    """

    _title = "Maximal variation, classification"
