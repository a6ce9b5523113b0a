r"""Structure detection by maximal variation, see :mod:`problems.maximal_variation` and its decoupled variant."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from problems.estimators.penalised.group_weights import GroupWeights
from problems.estimators.penalised.refit_answer import refit_components
from problems.estimators.penalised.variation_fit import PAGES, Variation, VariationFit, VariationModel
from problems.estimators.shared.additive import AdditiveEstimator
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import Classes, numbers_of_codes
from problems.estimators.shared.machine_rows import in_columns
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, positive
from substrate.certificates import Certificate, Row, warn_unless_holds
from substrate.fits.coordinates import CUTOFF
from substrate.gram import Gram
from substrate.ingredients.component_weights import Weights
from substrate.kernels import Componentwise
from substrate.least_squares.saddle_certificate import worst_rows

__all__ = ["MaximalVariationClassifier", "MaximalVariationRegressor"]


class MaximalVariationModel(VariationModel):
    """The choices, the components, and the refit on those that are relevant."""

    def own_page(self) -> str:
        return PAGES[self.estimator.expansion]

    def choices(self) -> Variation:
        model = self.estimator
        positive(model.gamma, "gamma")
        GroupWeights.of(model.rho, model.groups)
        return Variation(rho=1.0, expansion=model.expansion, ridge=model.ridge, cutoff=model.cutoff)

    def own_rho(self) -> Weights:
        model = self.estimator
        columns = (model.n_features_in_, getattr(model, "feature_names_in_", None))
        return GroupWeights.of(model.rho, model.groups).of_components(self.component_columns(), *columns)

    def group_facts(self) -> tuple[tuple[str, str], ...]:
        return GroupWeights.of(self.estimator.rho, self.estimator.groups).facts()

    def by_number(self) -> dict[str, Any]:
        """Return the groups in numbers of columns, for rows without names."""
        model = self.estimator
        if model.groups is None:
            return {}
        weights = GroupWeights.of(model.rho, model.groups)
        return {"groups": weights.columns(model.n_features_in_, getattr(model, "feature_names_in_", None))}

    def fit_machines(self, X: Any, Y: Array, choices: Variation) -> tuple[Componentwise, list[VariationFit], Array]:
        """Return the kernel, the fit of every machine, and the coefficients of all, one column per machine."""
        model = self.estimator
        choices = replace(choices, rho=self.own_rho())
        kernel: Any = model._resolved_kernel(X)
        Gram.of(kernel, X)  # refuses what does not fit memory, warns of a degenerate kernel
        machines, fits = choices.fit_all(kernel, X, Y, model._tolerance(), labels=bool(model._labels))
        return kernel, fits, in_columns(machines, [fit.coefficients for fit in fits], Y.shape[0])

    def keep_variation(self, X: Any, Y: Array, kernel: Componentwise, fits: list[VariationFit], a: Array) -> None:
        """Set the fitted attributes, refitting on the relevant components if requested."""
        model = self.estimator
        is_single = Y.shape[1] == 1
        bias = np.array([fit.bias for fit in fits])
        rows = worst_rows([fit.rows for fit in fits])
        stated = dict.fromkeys(fact for fit in fits for fact in fit.facts)
        facts = (("kernel", repr(kernel)), *self.group_facts(), *stated)
        variation = np.array([fit.maximal_variation for fit in fits])
        model.maximal_variation_ = variation[0] if is_single else variation
        support = np.arange(X.shape[0])
        if model.refit:
            chosen = self.mark_components(model.relevance)
            model.component_support_ = chosen
            refitted = refit_components(model, X, Y, kernel, chosen, float(model.gamma), rows)
            kernel, support, a, bias, rows, more = refitted
            facts += more
        model.certificate_ = Certificate(model._title, rows, facts)
        warn_unless_holds(model.certificate_)
        kept = np.ascontiguousarray(a[:, 0] if is_single else a)
        if model._labels:  # from regression's sign to that of y f = 1 - e
            codes = np.ascontiguousarray((Y[:, 0] if is_single else Y)[support])
            model.support_codes_ = codes
            kept = kept * (codes[..., None] if kept.ndim > codes.ndim else codes)
        model._keep_expansion(X, support, kernel, kept, float(bias[0]) if is_single else bias)

    def refit_gamma(self) -> float:
        return float(self.estimator.gamma)

    def select_again(self, X: Any, Y: Array) -> tuple[tuple[Row, ...], Any]:
        model = self.estimator
        unrefitted = type(model)(**model.get_params(deep=False) | self.by_number() | {"refit": False})
        targets = model.classes_[numbers_of_codes(Y, model.code_book_)] if model._labels else Y[:, 0]
        unrefitted.fit(X, targets)
        return unrefitted.certificate_.rows, unrefitted._model.mark_components(model.relevance)


@dataclass(eq=False, repr=False)
class MaximalVariationRegressor(AdditiveEstimator, Regressor):
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
        to them. A component belongs to the group of its columns. Where rho is one number, it is that of all groups.
    refit : bool, default=False
        Whether to predict by the componentwise LS-SVM on the relevant inputs, which is less biased.
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
        alpha.
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
    """

    _typical = ({"expansion": "decoupled", "ridge": 0.1}, {"refit": True})
    _title = "Maximal variation, regression"
    _model_type = MaximalVariationModel
    _page = "maximal_variation"
    _takes_weights = False
    rho: Any = 1.0
    _: KW_ONLY
    relevance: float = 0.05
    expansion: str = "shared"
    ridge: float = 0.0
    cutoff: float = CUTOFF
    groups: Any = None
    refit: bool = False
    gamma: float = 1.0

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X and targets y."""
        self._begin_fit()
        choices = self._model.choices()
        X, y, _ = self._check_data(X, y, None, numeric=True, multi_output=False)
        self._model.keep_variation(X, y[:, None], *self._model.fit_machines(X, y[:, None], choices))
        return self

    def predict(self, X: Any) -> Array:
        """Predict f(x) = sum_l f^l(x^l) + b.

        :equation [Pelckmans2005]_ (30): the predictor
        """
        return self._expansion(X)


@dataclass(eq=False, repr=False)
class MaximalVariationClassifier(AdditiveEstimator, Classifier):
    """Structure detection for classification ([Pelckmans2005]_ eq. (13)-(14) with errors 1 - y f).

    Parameters
    ----------
    kernel, rho, tol, relevance, expansion, ridge, cutoff, groups, refit, gamma
        As for :class:`MaximalVariationRegressor`.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.

    Attributes
    ----------
    maximal_variation_ : array of shape (n_components,) or (n_machines, n_components)
        t, one row per machine; an input is supported if some machine needs it.
    classes_, code_book_, support_codes_
        As for :class:`~problems.LSSVMClassifier`.
    component_support_, support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`MaximalVariationRegressor`, with an axis for the machines where there are several.
    """

    _typical = ({"expansion": "decoupled", "ridge": 0.1}, {"refit": True})
    _title = "Maximal variation, classification"
    _model_type = MaximalVariationModel
    _page = "maximal_variation"
    _takes_weights = False
    rho: Any = 1.0
    _: KW_ONLY
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
    relevance: float = 0.05
    expansion: str = "shared"
    ridge: float = 0.0
    cutoff: float = CUTOFF
    groups: Any = None
    refit: bool = False
    gamma: float = 1.0

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X and labels y of any kind."""
        self._begin_fit()
        choices = self._model.choices()
        self._check_coding()
        X, labels, _ = self._check_data(X, y, None, numeric=False)
        classes = Classes.of(labels, self.coding)
        Y = classes.codes(labels)
        machines = self._model.fit_machines(X, Y, choices)
        self.classes_, self.code_book_ = classes.names, classes.book
        self._model.keep_variation(X, Y, *machines)
        return self
