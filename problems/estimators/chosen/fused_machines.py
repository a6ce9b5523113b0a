"""Estimators whose hyper-parameter is chosen by validation with a proof: zeta and rho, for both tasks."""

from dataclasses import dataclass

from problems.estimators.chosen.fused import FusedClassifier, FusedRegressor
from problems.estimators.chosen.fused_ways import OverRho, OverZeta
from problems.estimators.shared.additive import DecoupledExpansion

__all__ = [
    "FusedL1SubstrateClassifier",
    "FusedL1SubstrateRegressor",
    "FusedMaximalVariationClassifier",
    "FusedMaximalVariationRegressor",
]


@dataclass(eq=False, repr=False)
class FusedL1SubstrateRegressor(OverZeta, FusedRegressor):
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
        value, or before, where rounding hides the bound or the machine. The bound is over that range; the certificate
        states where it ends, and whether the best zeta is there.

    Attributes
    ----------
    zeta_ : float
        The zeta whose machine validates best.
    criterion_ : float
        Its mean squared error on the rows that validate.
    criterion_lower_bound_ : float
        No zeta of the range on the certificate (``path_["coverage"]``) validates better; smaller
        ones are not covered.
    path_ : dict
        Knots (``values``), the ``criterion`` at them, ``coverage``, ``holes`` and why it ends (``stop``).
    n_support_ : int
        Number of rows with a nonzero support value.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        The machine at that zeta, as for :class:`~problems.LSSVMRegressor`.
    """

    _title = "Fusion over zeta, regression"


@dataclass(eq=False, repr=False)
class FusedMaximalVariationRegressor(OverRho, DecoupledExpansion, FusedRegressor):
    """Structure detection for regression with rho fused, by its exact path ([Pelckmans2005]_ eq. (28)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.ComponentwiseLSSVMRegressor`.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
        For the point of a conic solver, the root of ``tol``: its duality gap is the square of its error.
    kernels : list of kernels, default=None
        Candidates instead of ``kernel``; the one that validates best is taken, and the bound holds over all of them.
    cv : int, splitter, iterable, "loo" or None, default=None
        How a machine is judged: folds over which the error is added up, or every row left out in turn, one path
        each, and the final machine is then trained on all rows; None is validation rows, those given to :meth:`fit` or
        a share of X.
    validation_fraction : float, default=0.25
        Share of the rows held out where ``cv`` is None and :meth:`fit` is given no validation rows.
    gap : float, default=1e-3
        Relative distance between error and bound that the certificate demands.
    random_state : int, RandomState or None, default=None
        Seed of the rows held out.
    relevance, expansion, ridge, cutoff
        As for :class:`~problems.MaximalVariationRegressor`.

    Attributes
    ----------
    rho_ : float
        The rho whose machine validates best.
    criterion_ : float
        Its mean squared error on the rows that validate.
    criterion_lower_bound_ : float
        No rho of the range on the certificate validates better.
    path_ : dict
        Knots (``values``), the ``criterion`` at them, ``coverage``, ``holes``, why it ends (``stop``), and for
        one validation set the ``maximal_variation`` at the knots.
    maximal_variation_ : array of shape (n_components,) or (n_machines, n_components)
        t of the machine at that rho.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        The machine at that rho, as for :class:`~problems.LSSVMRegressor`.
    """

    _title = "Fusion over rho, regression"


@dataclass(eq=False, repr=False)
class FusedL1SubstrateClassifier(OverZeta, FusedClassifier):
    """The L1 substrate for classification with zeta fused, by its exact path ([Pelckmans2005]_ eq. (16), (28)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines; one zeta for all of them.
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
        value, or before, where rounding hides the bound or the machine. The bound is over that range; the certificate
        states where it ends, and whether the best zeta is there.

    Attributes
    ----------
    zeta_ : float
        The zeta whose machine validates best.
    criterion_ : float
        Its mean squared error on the rows that validate.
    criterion_lower_bound_ : float
        No zeta of the range on the certificate (``path_["coverage"]``) validates better; smaller
        ones are not covered.
    path_ : dict
        Knots (``values``), the ``criterion`` at them, ``coverage``, ``holes`` and why it ends (``stop``).
    n_support_ : int
        Number of rows with a nonzero support value.
    classes_, code_book_, support_codes_
        As for :class:`~problems.LSSVMClassifier`.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        The machine at that zeta, as for :class:`~problems.LSSVMRegressor`.
    """

    _title = "Fusion over zeta, classification"


@dataclass(eq=False, repr=False)
class FusedMaximalVariationClassifier(OverRho, DecoupledExpansion, FusedClassifier):
    """Structure detection for classification with rho fused, by its exact path ([Pelckmans2005]_ eq. (28)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.ComponentwiseLSSVMRegressor`.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
        For the point of a conic solver, the root of ``tol``: its duality gap is the square of its error.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines; one rho for all of them.
    kernels : list of kernels, default=None
        Candidates instead of ``kernel``; the one that validates best is taken, and the bound holds over all of them.
    cv : int, splitter, iterable, "loo" or None, default=None
        How a machine is judged: folds over which the error is added up, or every row left out in turn, one path
        each, and the final machine is then trained on all rows; None is validation rows, those given to :meth:`fit` or
        a share of X.
    validation_fraction : float, default=0.25
        Share of the rows held out where ``cv`` is None and :meth:`fit` is given no validation rows.
    gap : float, default=1e-3
        Relative distance between error and bound that the certificate demands.
    random_state : int, RandomState or None, default=None
        Seed of the rows held out.
    relevance, expansion, ridge, cutoff
        As for :class:`~problems.MaximalVariationRegressor`.

    Attributes
    ----------
    rho_ : float
        The rho whose machine validates best.
    criterion_ : float
        Its mean squared error on the rows that validate.
    criterion_lower_bound_ : float
        No rho of the range on the certificate validates better.
    path_ : dict
        Knots (``values``), the ``criterion`` at them, ``coverage``, ``holes``, why it ends (``stop``), and for
        one validation set the ``maximal_variation`` at the knots.
    maximal_variation_ : array of shape (n_components,) or (n_machines, n_components)
        t of the machine at that rho.
    classes_, code_book_, support_codes_
        As for :class:`~problems.LSSVMClassifier`.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        The machine at that rho, as for :class:`~problems.LSSVMRegressor`.
    """

    _title = "Fusion over rho, classification"
