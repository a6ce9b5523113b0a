r"""Fused L1 substrates: zeta, or zeta and a ridge, chosen by validation with a proof.

Along the exact path of [Pelckmans2005]_ eq. (16) the bound is over all zeta down to an end, which double precision sets
on a smooth kernel: no path reaches zeta = 0 there. With a ridge, P the projection off 1,

.. math:: \min_\alpha \; \tfrac12 \|P (y - K \alpha)\|^2 + \tfrac{\tau}{2} \alpha^T K \alpha + \zeta \|\alpha\|_1
          \quad \text{s.t.} \quad 1^T \alpha = 0

is affine in both weights (:func:`problems.estimators.chosen.fused.jointly`).

Refitted, the machine is a sparse LS-SVM on the support S, which changes at knots of the path and nowhere else,

.. math:: f(x) = \sum_{j \in S} \beta_j k(x_j, x) + b, \qquad
          \min_{\beta, b} \tfrac12 \beta^T K_{SS} \beta + \tfrac{\gamma}{2} \sum_{i=1}^N (y_i - f(x_i))^2 ,

which counts **all** rows ([Cawley2004]_ (2)): the machine is expanded in the support, and fitted to all rows.
On a smooth kernel rounding decides between neighbours which rows support: the sets come from the paths as double
precision follows them, and the bound is over these sets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from problems.estimators.chosen.fused import (
    Choice,
    Final,
    FusedChoice,
    FusionRound,
    Members,
    RefittedRows,
    Structure,
    WeighedFold,
    along_path,
    check_refit,
    jointly,
)
from problems.estimators.full.ls_svm import LSSVMClassifier, LSSVMRegressor
from problems.estimators.penalised.l1 import (
    LEAST_ZETA,
    L1SubstrateClassifier,
    L1SubstrateRegressor,
)
from problems.estimators.shared.checks import definite_gram
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, ascending_pair, positive
from substrate.fits.l1 import zeta_max
from substrate.fits.paths import Path, correlation_noise
from substrate.kernels import Kernel, Linear
from substrate.operators.features import basis_features
from substrate.select.gamma_search import HIGHEST_PRICE, NEGLIGIBLE, end_row, is_affordable
from substrate.select.path_bounds import l1_fold, l1_path_of, read_off
from substrate.select.selected_sets import SelectedSets, supports_along_paths

__all__ = ["FusedL1SubstrateClassifier", "FusedL1SubstrateRegressor"]

#: Factor of the default end of the range of zeta where the error still falls there.
_FURTHER = 1e-4
#: Default end of zeta as a share of the largest, where a ridge is chosen too.
_SMALLEST = 1e-4


#: A machine of a round: its kernel matrix and target; the kernel rows and targets that validate.
Machine = tuple[Array, Array, Array, Array]


def machines_of(kernel: Kernel, rounds: Sequence[FusionRound]) -> Iterator[Machine]:
    """Yield every machine of every round that validates some rows."""
    for division in rounds:
        K = np.array(definite_gram(kernel, division.X).matrix)
        below = np.empty((division.Y_check.shape[0], division.Y.shape[0]))
        kernel.fill(division.X_check, None if kernel.pairwise else division.X, below)
        for y, y_check in division.targets() if len(below) else ():
            center = np.clip(y.mean(), y.min(), y.max())  # the bias absorbs it; otherwise it would hide small zetas
            yield K, y - center, below, y_check - center


def ridged_fold(K: Array, y: Array, below: Array, y_check: Array) -> WeighedFold:
    """Return the fold of the L1 substrate, over zeta and the ridge."""
    centred, target = K - K.mean(axis=0), y - y.mean()
    values, vectors = np.linalg.eigh(K)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T

    def declare(weights: Sequence[Any]) -> tuple[Any, list[Any], Any]:
        import cvxpy as cp

        alpha = cp.Variable(y.size)
        misfit = 0.5 * cp.sum_squares(target - centred @ alpha)
        cost = misfit + weights[0] * cp.norm1(alpha) + 0.5 * weights[1] * cp.sum_squares(root @ alpha)
        return cost, [cp.sum(alpha) == 0.0], (below - K.mean(axis=0)) @ alpha

    return WeighedFold(declare, y_check - y.mean(), zeta_max(K, y))


@dataclass(eq=False, repr=False)
class ZetaChoice(FusedChoice):
    """The choice of zeta by validation, of numbers or of classes: its parameters.

    :class:`FusedL1SubstrateRegressor` documents them.
    """

    _page: ClassVar[str] = "fused_l1_substrate"
    _chooses: ClassVar[str | None] = "zeta"
    #: The estimator that is fitted on the support.
    _refitted_type: ClassVar[type[Any]]
    _: KW_ONLY
    zeta_min: float | None = None
    ridge_range: Any = None

    @property
    def n_support_(self) -> int:
        """The number of rows with a nonzero support value."""
        return int(self.support_.size)

    def _stated(self) -> dict[str, Any]:
        if isinstance(self.machine_, self._refitted_type):
            return super()._stated()
        return {"zeta": max(self.zeta_, LEAST_ZETA), "ridge": getattr(self, "ridge_", 0.0)}

    def _check_rules(self) -> None:
        """Refuse parameters before any long work."""
        if self.zeta_min is not None and self.zeta_min != 0.0:
            positive(self.zeta_min, "zeta_min")
        if self.ridge_range is not None:
            ascending_pair(self.ridge_range, "ridge_range")
        check_refit(self, "ridge_range")

    def _choose(self, kernel: Kernel, rounds: Sequence[FusionRound]) -> Choice:
        """Choose zeta by the machine itself, or zeta and the ridge."""
        machines = list(machines_of(kernel, rounds))
        if self.ridge_range is not None:
            # beyond the largest zeta all machines are their biases
            largest = max(zeta_max(K, y) for K, y, *_ in machines) or 1.0
            least = _SMALLEST * largest if self.zeta_min is None else float(self.zeta_min)
            ranges = {
                "zeta": (min(least, 0.5 * largest), largest),
                "ridge": ascending_pair(self.ridge_range, "ridge_range"),
            }
            choice = jointly(self, [ridged_fold(*machine) for machine in machines], ranges)
            choice.kept["proved_on_"]["zeta"] = (ranges["zeta"][0], np.inf)
            return choice
        return self._choose_along_path(machines)

    def _choose_along_path(self, machines: Sequence[Machine]) -> Choice:
        """Choose zeta along exact paths, down to an end that is affordable."""
        folds = [l1_fold(*machine, self.zeta_min) for machine in machines]
        if all(fold.path.values[-1] == 0.0 for fold in folds):  # nothing to fit: the machine is its bias at every zeta
            noise = max(correlation_noise(K, y) for K, y, *_ in machines)
            return replace(along_path("zeta", read_off(folds), folds), value=noise)
        if self.zeta_min is not None:
            return along_path("zeta", read_off(folds), folds)
        gap, negligible = float(self.gap), NEGLIGIBLE * float(np.mean([np.var(y) for _, y, *_ in machines]))
        read = read_off(folds, gap)
        if not end_row("zeta", read.error, read.beyond, negligible).passes:  # worth a longer path
            lowest = _FURTHER * min(float(fold.path.values[0]) for fold in folds)
            folds = [l1_fold(*machine, lowest) for machine in machines]
            read = read_off(folds, gap)
        if not is_affordable(read.error, read.least_squares_seen, gap, negligible, HIGHEST_PRICE):
            read = read_off(folds)  # the proof costs too much
        return along_path("zeta", read, folds, read.beyond)

    def _select(self, kernel: Kernel, division: FusionRound) -> tuple[SelectedSets, list[Path]]:
        """Return the supports along the paths of a round, and the paths."""
        K, paths = np.array(definite_gram(kernel, division.X).matrix), list[Path]()
        for y in np.ascontiguousarray(division.Y.T):
            paths.append(l1_path_of(K, y - np.clip(y.mean(), y.min(), y.max()), self.zeta_min))
        return supports_along_paths(paths), paths

    def _refit(self, kernel: Kernel, division: FusionRound, members: Members) -> Iterator[RefittedRows]:
        """Yield the machines of a round on some support vectors, as linear ones of features; a zero without support."""
        support = rows_of(members, len(division.Y))
        if support.size:
            basis = None if kernel.pairwise else division.X[support]
            values, below = np.empty((len(division.Y), support.size)), np.empty((len(division.Y_check), support.size))
            for points, rows in ((division.X, values), (division.X_check, below)):
                if len(rows):
                    kernel.fill(points[:, support] if kernel.pairwise else points, basis, rows)
            transform = basis_features(np.ascontiguousarray(values[support])).transform
            Z, Z_check = values @ transform, below @ transform
        else:
            Z, Z_check = np.zeros((len(division.Y), 1)), np.zeros((len(division.Y_check), 1))
        center = Z.mean(axis=0)  # the bias absorbs it
        for y, y_check in division.targets():
            yield RefittedRows(
                Linear(), np.ascontiguousarray(Z - center), y, np.ascontiguousarray(Z_check - center), y_check
            )

    def _fit_chosen(self, kernel: Kernel, X: Any, y: Any, value: Any) -> Final:
        """Fit the machine at the chosen value, or the sparse LS-SVM on the support there, which counts all rows."""
        structure = value if isinstance(value, Structure) else None
        chosen = value if isinstance(value, dict) else {"zeta": value if structure is None else structure.value}
        weights = {"zeta": max(chosen["zeta"], LEAST_ZETA), "ridge": chosen.get("ridge", 0.0)}
        kept = {f"{name}_": weight for name, weight in chosen.items()}
        machine: Any = None
        if structure is None or not structure.members:  # folds have their own supports, or the support is empty
            machine = self._machine_with(self._plain_type, kernel=kernel, **weights).fit(X, y)
        if structure is None:
            return machine, kept, (), ()
        support = machine.support_ if machine is not None else rows_of(structure.members or (), X.shape[0])
        if support.size:  # without support the bias is left
            how = {"kernel": kernel, "gamma": structure.gamma, "basis": support}
            machine = self._machine_with(self._refitted_type, **how).fit(X, y)
        told = ("refit", f"sparse LS-SVM on {support.size} support vectors and all {X.shape[0]} rows")
        return machine, kept, (), (told, *structure.search.facts())


def rows_of(members: Members, n: int) -> Any:
    """Return the rows that support some machine; members are counted over the n rows of one machine after the other."""
    return np.unique(np.asarray(members, dtype=np.intp) % n)


@dataclass(eq=False, repr=False)
class FusedL1SubstrateRegressor(ZetaChoice, Regressor):
    """The L1 substrate for regression with zeta fused, by its exact path ([Pelckmans2005]_ eq. (16), (28)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
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
    max_evaluations : int, default=2000
        Largest number of machines solved by a search over zeta and the ridge; one that ends there has a wider gap and
        reports it.
    refit : {False, True, "loo"}, default=False
        Whether zeta is chosen by, and predictions are made by, the sparse LS-SVM whose basis is the support at zeta and
        which counts all rows. All supports along the path are refitted, each at its own best gamma: by the validation
        rows or folds with True, by leaving out each row of the refitted machine in turn with ``"loo"``, conditional on
        the support that all rows have selected.
    standard_errors : float, default=0.0
        With ``refit``, the fewest support vectors are taken whose error is within so many standard errors of the least
        one ([Breiman1984]_: one), where the standard error is computed from the squared errors of the best. The bound
        belongs to the least error.
    zeta_min : float, default=None
        Where the path ends, at or above zero; unless given, at a ten-thousandth of the zeta that leaves no support
        value, further down where the error still falls there, or before, where rounding hides the bound. The bound is
        over that range; the certificate states where it ends, and fails where the error is to be expected to fall by
        more than a tenth below it.
    ridge_range : (float, float) or None, default=None
        Where given, the weight of half the squared norm of w is chosen too, from this range above zero: both
        weights together by a search with a bound over all pairs, zeta up to the largest that matters. Without it
        there is no ridge.

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
class FusedL1SubstrateClassifier(ZetaChoice, Classifier):
    """The L1 substrate for classification with zeta fused, by its exact path ([Pelckmans2005]_ eq. (16), (28)).

    Parameters
    ----------
    kernel, tol, cv, validation_fraction, gap, random_state, max_evaluations
        As for :class:`FusedL1SubstrateRegressor`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines; one zeta for all of them.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.
    refit, standard_errors, zeta_min, ridge_range
        As for :class:`FusedL1SubstrateRegressor`.

    Attributes
    ----------
    zeta_, gamma_, ridge_, criterion_, criterion_lower_bound_, path_, selection_path_, proved_on_, n_support_
        As for :class:`FusedL1SubstrateRegressor`.
    classes_, code_book_
        As for :class:`~problems.LSSVMClassifier`.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        The machine at that zeta, as for :class:`~problems.LSSVMRegressor`.
    """

    _title = "Fusion over zeta, classification"
    _plain_type, _refitted_type = L1SubstrateClassifier, LSSVMClassifier
    _: KW_ONLY
