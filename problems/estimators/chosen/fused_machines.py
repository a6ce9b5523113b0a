"""Estimators whose hyper-parameter is chosen by validation with a proof, and ``fuse`` on an estimator, by them."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

from sklearn.feature_selection import SelectorMixin

from problems.estimators.chosen.fused import FusedCalibration, fit_fused
from problems.estimators.chosen.fused_ways import SOLVES, FusedVariationModel, OverRho, OverZeta
from problems.estimators.full.ls_svm import LSSVMClassifier, LSSVMRegressor
from problems.estimators.penalised.l1 import LEAST_ZETA, L1SubstrateClassifier, L1SubstrateRegressor
from problems.estimators.penalised.structure import MaximalVariationClassifier, MaximalVariationRegressor
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.components import component_functions, get_support
from problems.estimators.shared.holding import HeldModel, HoldsMachine, OfMachine
from problems.estimators.shared.regressor import Regressor
from substrate.fits.coordinates import CUTOFF

__all__ = [
    "FusedL1SubstrateClassifier",
    "FusedL1SubstrateRegressor",
    "FusedMaximalVariationClassifier",
    "FusedMaximalVariationRegressor",
]


@dataclass(eq=False, repr=False)
class ZetaChoice(HoldsMachine):
    """The choice of zeta by validation, of numbers or of classes: its parameters.

    :class:`FusedL1SubstrateRegressor` documents them.
    """

    _model_type: ClassVar[Any] = HeldModel
    _selector_type: ClassVar[Any] = OverZeta
    _page: ClassVar[str] = "fused_l1_substrate"
    _chooses: ClassVar[str | None] = "zeta"
    _location: ClassVar[str | None] = None
    _takes_weights = False
    _: KW_ONLY
    kernels: Any = None
    cv: Any = None
    validation_fraction: float = 0.25
    gap: float = 1e-2
    random_state: Any = None
    zeta_min: float | None = None
    ridge_range: Any = None
    max_evaluations: int = SOLVES
    refit: Any = False
    standard_errors: float = 0.0

    fit = fit_fused

    @property
    def n_support_(self) -> int:
        """The number of rows with a nonzero support value."""
        return int(self.support_.size)

    def _machine_types(self) -> tuple[type[Any], ...]:
        return (self._plain_type, self._refitted_type)

    def _stated(self) -> dict[str, Any]:
        if isinstance(self.machine_, self._refitted_type):
            return {"gamma": self.gamma_, "tol": self.tol}
        return {"tol": self.tol, "zeta": max(self.zeta_, LEAST_ZETA), "ridge": getattr(self, "ridge_", 0.0)}


@dataclass(eq=False, repr=False)
class RhoChoice(SelectorMixin, HoldsMachine):
    """The choice of rho by validation, of numbers or of classes: its parameters.

    :class:`FusedMaximalVariationRegressor` documents them.
    """

    _model_type: ClassVar[Any] = FusedVariationModel
    _selector_type: ClassVar[Any] = OverRho
    _page: ClassVar[str] = "fused_maximal_variation"
    _chooses: ClassVar[str | None] = "rho"
    _location: ClassVar[str | None] = None
    _takes_weights = False
    _additive, _takes_matrix = True, False  # a matrix has no inputs to be taken one at a time, and fit refuses it
    component_functions, get_support, _get_support_mask = component_functions, get_support, get_support
    maximal_variation_, component_support_ = OfMachine(), OfMachine()
    _: KW_ONLY
    kernels: Any = None
    cv: Any = None
    validation_fraction: float = 0.25
    gap: float = 1e-2
    random_state: Any = None
    relevance: float = 0.05
    expansion: str = "shared"
    ridge: float = 0.0
    cutoff: float = CUTOFF
    groups: Any = None
    rho_range: Any = None
    max_evaluations: int = SOLVES
    refit: Any = False
    standard_errors: float = 0.0

    fit = fit_fused

    def _stated(self) -> dict[str, Any]:
        stated = {"rho": self.rho_, "tol": self.tol}
        return stated | {"gamma": self.gamma_} if self.refit else stated


@dataclass(eq=False, repr=False)
class FusedL1SubstrateRegressor(ZetaChoice, Regressor):
    """The L1 substrate for regression with zeta fused, by its exact path ([Pelckmans2005]_ eq. (16), (28)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    kernels : list of kernels, default=None
        Candidates instead of ``kernel``; the one that validates best is taken, and the bound holds over all of them.
    cv : int, splitter, iterable, "loo" or None, default=None
        How a machine is judged: folds over which the error is added up, or every row left out in turn, one path
        each, and the final machine is then trained on all rows; None is validation rows, those given to :meth:`fit` or
        a share of X.
    validation_fraction : float, default=0.25
        Share of the rows held out where ``cv`` is None and :meth:`fit` is given no validation rows.
    gap : float, default=1e-2
        Relative distance between error and bound that the certificate demands. A smooth kernel hardly determines
        predictions by fitted values, and rounding then keeps the bound from coming nearer.
    random_state : int, RandomState or None, default=None
        Seed of the rows held out.
    zeta_min : float, default=None
        Where the path ends, at or above zero; unless given, at a ten-thousandth of the zeta that leaves no support
        value, further down where the error still falls there, or before, where rounding hides the bound or the
        machine. The bound is over that range; the certificate states where it ends, and fails where the error is to be
        expected to fall by more than a tenth below it.
    ridge_range : (float, float) or None, default=None
        Where given, the weight of half the squared norm of w is chosen too, from this range above zero: both
        weights together by a search with a bound over all pairs, zeta up to the largest that matters. Without it
        there is no ridge.
    max_evaluations : int, default=2000
        Largest number of machines solved by that search; one that ends there has a wider gap and says so.
    refit : {False, True, "loo"}, default=False
        Whether zeta is chosen by, and predictions are made by, the sparse LS-SVM whose basis is the support at zeta and
        which counts all rows. All supports along the path are refitted, each at its own best gamma: by the validation
        rows or folds with True, by leaving out each row of the refitted machine in turn with ``"loo"``, conditional on
        the support that all rows have selected.
    standard_errors : float, default=0.0
        With ``refit``, the fewest support vectors are taken whose error is within so many standard errors of the least
        one ([Breiman1984]_: one), the mean of squared errors of the best having one. The bound is that of the least.

    Attributes
    ----------
    zeta_ : float
        The zeta whose machine validates best; with ``refit`` in the middle of those with the best support.
    gamma_ : float
        Gamma of the refitted machine (with ``refit`` only, as the next one).
    selection_path_ : dict
        The intervals of zeta, from ``start`` to ``stop``, with the rows that support there (``support``, with folds one
        mask for each), and the ``criterion``, ``lower_bound`` and ``gamma`` of the machine refitted to them.
    ridge_ : float
        The ridge chosen with it (with ``ridge_range`` only).
    criterion_ : float
        Its mean squared error on the rows that validate.
    criterion_lower_bound_ : float
        No zeta of the range on the certificate (``path_["coverage"]``) validates better.
    path_ : dict
        Knots (``values``), the ``criterion`` at them, ``coverage`` and why it ends (``stop``).
    proved_on_ : dict
        The range of ``"zeta"`` and of ``"ridge"`` over which the bound holds (with ``ridge_range`` only).
    n_support_ : int
        Number of rows with a nonzero support value.
    machine_ : L1SubstrateRegressor or LSSVMRegressor
        The machine at that zeta, or the refitted one, on the rows ``training_rows_``; all that is fitted is in it.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        The machine at that zeta, as for :class:`~problems.LSSVMRegressor`.
    """

    _typical = ({"cv": 3}, {"refit": True})
    _title = "Fusion over zeta, regression"
    _plain_type, _refitted_type = L1SubstrateRegressor, LSSVMRegressor


@dataclass(eq=False, repr=False)
class FusedMaximalVariationRegressor(RhoChoice, Regressor):
    """Structure detection for regression with rho fused, by its exact path ([Pelckmans2005]_ eq. (28)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel of every input; or a :class:`~substrate.kernels.Componentwise` that names one for each input or group
        of inputs. ``"rbf"`` takes the median distance of each input as its width.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
        For the point of a conic solver, the root of ``tol``: its duality gap is the square of its error.
    kernels, cv, validation_fraction
        As for :class:`FusedL1SubstrateRegressor`.
    gap : float, default=1e-2
        Relative distance between error and bound that the certificate demands, and at which a search over the weights
        of groups ends. A smooth kernel hardly determines predictions by fitted values, and rounding then keeps the
        bound of one weight at a few thousandths in the worst case.
    random_state : int, RandomState or None, default=None
        Seed of the rows held out.
    relevance, expansion, ridge, cutoff
        As for :class:`~problems.MaximalVariationRegressor`.
    groups : sequence of sequences, dict or None, default=None
        Two or three groups of inputs as for :class:`~problems.MaximalVariationRegressor`: one rho is chosen for each,
        all together, by a search with a bound over the whole box instead of a path. Three may need many evaluations.
    rho_range : (float, float), dict or None, default=None
        The smallest and the largest rho of the groups, of all or by their names; unless given, all weights from zero
        on, proved as far as ``proved_on_`` states.
    max_evaluations : int, default=2000
        Largest number of machines solved by that search; one that ends there has a wider gap and says so.
    refit : {False, True, "loo"}, default=False
        Whether rho is chosen by, and predictions are made by, the componentwise LS-SVM on the inputs that are selected
        at rho: those that vary by more than ``relevance`` times the largest. Along the exact path there are finitely
        many such sets, and all are refitted, each at its own best gamma, which proves the minimum over all rho. True
        judges them on the validation rows or folds (each fold with its own sets, and one gamma for all), ``"loo"`` by
        leaving out each row of the refitted machine in turn, conditional on the set that all rows have selected.
    standard_errors : float, default=0.0
        With ``refit``, the fewest inputs are taken whose error is within so many standard errors of the least one: one
        is the rule of [Breiman1984]_, which leaves out inputs that lower the error by chance. ``criterion_`` is that of
        the machine taken, the bound that of the least.

    Attributes
    ----------
    rho_ : float or dict
        The rho whose machine validates best, and at which it was solved: a small positive number in place of zero; with
        groups, by their names; with ``refit``, a value in the middle of those that select the best set.
    criterion_ : float
        Its mean squared error on the rows that validate.
    criterion_lower_bound_ : float
        No rho of the range on the certificate validates better.
    path_ : dict
        Knots (``values``), the ``criterion`` at them, ``coverage``, why it ends (``stop``), and for
        one validation set the ``maximal_variation`` at the knots.
    proved_on_ : dict
        The range of the rho of every group over which the bound holds (with groups only).
    maximal_variation_ : array of shape (n_components,) or (n_machines, n_components)
        t of the machine at that rho.
    gamma_ : float
        Gamma of the refitted machine (this and the next three with ``refit`` only).
    component_support_ : array of shape (n_components,)
        A mask of the components of the refitted machine.
    selection_path_ : dict
        The intervals of rho, from ``start`` to ``stop``, with the components selected there (``support``, with folds
        one mask for each), and the ``criterion``, ``lower_bound`` and ``gamma`` of the machine refitted to them. Of
        folds, combinations that were excluded by their bound have an infinite criterion.
    selection_kernel_ : Kernel
        The kernel of all components.
    machine_ : MaximalVariationRegressor
        The machine at that rho, refitted or not, on the rows ``training_rows_``; all that is fitted is in it.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        The machine at that rho, or the refitted one, as for :class:`~problems.LSSVMRegressor`.

    Examples
    --------
    >>> from problems import FusedMaximalVariationRegressor
    >>> from substrate.datasets import additive_function
    >>> from substrate.kernels import RBF
    >>> X, y = additive_function(120, 8, random_state=0)
    >>> model = FusedMaximalVariationRegressor(RBF(1.0), expansion="decoupled", ridge=0.1, refit="loo").fit(X, y)
    >>> model.get_support(indices=True)
    array([0, 1, 2, 3])
    """

    _typical = ({"expansion": "decoupled", "ridge": 0.1}, {"refit": True}, {"refit": "loo"})
    _title = "Fusion over rho, regression"
    _plain_type = MaximalVariationRegressor


@dataclass(eq=False, repr=False)
class FusedL1SubstrateClassifier(ZetaChoice, Classifier):
    """The L1 substrate for classification with zeta fused, by its exact path ([Pelckmans2005]_ eq. (16), (28)).

    Parameters
    ----------
    kernel, tol, kernels, cv, validation_fraction, gap, random_state, zeta_min, ridge_range
        As for :class:`FusedL1SubstrateRegressor`.
    max_evaluations, refit, standard_errors
        As for :class:`FusedL1SubstrateRegressor`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines; one zeta for all of them.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.

    Attributes
    ----------
    zeta_, gamma_, ridge_, criterion_, criterion_lower_bound_, path_, selection_path_, proved_on_, n_support_
        As for :class:`FusedL1SubstrateRegressor`.
    classes_, code_book_, support_codes_
        As for :class:`~problems.LSSVMClassifier`.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        The machine at that zeta, as for :class:`~problems.LSSVMRegressor`.
    """

    _calibration_type = FusedCalibration
    _title = "Fusion over zeta, classification"
    _plain_type, _refitted_type = L1SubstrateClassifier, LSSVMClassifier
    _: KW_ONLY
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"


@dataclass(eq=False, repr=False)
class FusedMaximalVariationClassifier(RhoChoice, Classifier):
    """Structure detection for classification with rho fused, by its exact path ([Pelckmans2005]_ eq. (28)).

    Parameters
    ----------
    kernel, tol, kernels, cv, validation_fraction, gap, random_state, relevance, expansion, ridge
        As for :class:`FusedMaximalVariationRegressor`.
    cutoff, groups, rho_range, max_evaluations, refit, standard_errors
        As for :class:`FusedMaximalVariationRegressor`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines; one rho, or one for each group, for all of them.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.

    Attributes
    ----------
    rho_, criterion_, criterion_lower_bound_, path_, proved_on_, maximal_variation_
        As for :class:`FusedMaximalVariationRegressor`.
    gamma_, component_support_, selection_path_, selection_kernel_
        As for :class:`FusedMaximalVariationRegressor`, with ``refit`` only; an input is selected if some machine needs
        it.
    classes_, code_book_, support_codes_
        As for :class:`~problems.LSSVMClassifier`.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        The machine at that rho, as for :class:`~problems.LSSVMRegressor`.
    """

    _typical = ({"refit": True},)
    _calibration_type = FusedCalibration
    _title = "Fusion over rho, classification"
    _plain_type = MaximalVariationClassifier
    _: KW_ONLY
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
