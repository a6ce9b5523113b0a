r"""Fused maximal variation: rho, or one for each group of inputs, chosen by validation with a proof.

Along the exact path of [Pelckmans2005]_ eq. (28) the bound is over all rho. In the orthonormal coordinates u, with the
components l in groups g, the machine

.. math:: \min_u \; \tfrac12 \|u - \tilde y\|^2 + \sum_g \rho_g \sum_{l \in g} \|B^l u\|_\infty

is affine in the weights of the groups (:func:`problems.estimators.chosen.fused.jointly`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

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
from problems.estimators.penalised.group_weights import GroupWeights
from problems.estimators.penalised.structure import (
    AdditiveEstimator,
    MaximalVariationClassifier,
    MaximalVariationRegressor,
)
from problems.estimators.penalised.variation_fit import Variation, kernel_matrices
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.held_machine import OfMachine
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, non_negative
from substrate.certificate import Row
from substrate.errors import DeclarationError
from substrate.fits.coordinates import CUTOFF, ComponentCoordinates
from substrate.fits.paths import Path
from substrate.fits.variation import divide_from_right, rho_max
from substrate.kernels import Componentwise
from substrate.operators.gram import Gram
from substrate.select.path_bounds import read_off, variation_fold
from substrate.select.selected_sets import SelectedSets, select_along_path

__all__ = ["FusedMaximalVariationClassifier", "FusedMaximalVariationRegressor"]


def grouped_fold(
    coordinates: ComponentCoordinates, y: Array, below: Array, y_check: Array, members: Sequence[int]
) -> WeighedFold:
    """Return the fold of structure detection; ``below`` takes v to values at the validation rows, ``members`` are
    groups.
    """
    R, target = coordinates.metric, coordinates.targets(y)
    # a component with separate coordinates vanishes exactly in v; otherwise u is better conditioned
    components = coordinates.parts if coordinates.is_decoupled else divide_from_right(coordinates.parts, R)
    M = below - coordinates.parts.sum(axis=0).mean(axis=0)
    M = M if coordinates.is_decoupled else solve_triangular(R, M.T, trans="T").T

    def declare(weights: Sequence[Any]) -> tuple[Any, list[Any], Any]:
        import cvxpy as cp

        u = cp.Variable(components.shape[2])
        misfit = R @ u - target if coordinates.is_decoupled else u - target
        penalty = sum(weights[g] * cp.norm_inf(part @ u) for g, part in zip(members, components, strict=True))
        return 0.5 * cp.sum_squares(misfit) + penalty, [], M @ u

    return WeighedFold(declare, y_check - y.mean(), rho_max(coordinates, y))


@dataclass(eq=False, repr=False)
class RhoChoice(AdditiveEstimator, FusedChoice):
    """The choice of rho by validation, of numbers or of classes: its parameters.

    :class:`FusedMaximalVariationRegressor` documents them.
    """

    _page: ClassVar[str] = "fused_maximal_variation"
    _chooses: ClassVar[str | None] = "rho"
    maximal_variation_, component_support_ = OfMachine(), OfMachine()
    _: KW_ONLY
    relevance: float = 0.05
    expansion: str = "shared"
    ridge: float = 0.0
    cutoff: float = CUTOFF
    groups: Any = None

    def _stated(self) -> dict[str, Any]:
        return {"rho": self.rho_} | (super()._stated() if self.refit else {})

    def _options(self) -> Variation:
        """Return the options of the machines, checked."""
        return Variation(expansion=self.expansion, ridge=self.ridge, cutoff=self.cutoff)

    def _check_rules(self) -> None:
        """Refuse parameters before any long work."""
        self._options()
        check_refit(self, "groups")
        count = 2 if self.groups is None else len(GroupWeights.of(1.0, self.groups).groups)
        if count not in (2, 3):
            raise DeclarationError(
                f"two or three weights are chosen with a proof, and groups has {count}; the number of solves grows too "
                "fast beyond, and one group is groups=None"
            )

    def _machines(
        self, kernel: Componentwise, division: FusionRound
    ) -> Iterator[tuple[ComponentCoordinates, Array, Array, Array]]:
        """Yield every machine of a round that is judged: its coordinates, targets, and rows and targets that
        validate.
        """
        Gram.of(kernel, division.X)  # refuses what does not fit memory, warns of a degenerate kernel
        n, n_check = division.X.shape[0], division.X_check.shape[0]
        if not (n_check or self.refit == "loo"):
            return
        coordinates = self._options().coordinates(kernel_matrices(kernel, division.X))
        parts = kernel.components(division.X.shape[1])
        below = coordinates.rows_at(
            [part(division.X_check, division.X) if n_check else np.zeros((0, n)) for part in parts]
        )
        for y, y_check in division.targets():
            yield coordinates, y, below, y_check

    def _choose(self, kernel: Componentwise, rounds: Sequence[FusionRound]) -> Choice:
        """Choose rho by the machine itself, or one rho for each group."""
        machines = [machine for division in rounds for machine in self._machines(kernel, division)]
        if self.groups is not None:
            given, names = GroupWeights.of(1.0, self.groups), getattr(self, "feature_names_in_", None)
            members = given.members(self._component_columns(), self.n_features_in_, names)
            weighed = [grouped_fold(*machine, members) for machine in machines]
            largest = max(fold.largest for fold in weighed) or 1.0
            return jointly(self, weighed, dict.fromkeys(given.groups, (0.0, largest)))
        folds = [variation_fold(*machine) for machine in machines]
        choice = along_path("rho", read_off(folds), folds)
        if len(folds) == 1:
            choice.path["maximal_variation"] = folds[0].levels
        return choice

    def _select(self, kernel: Componentwise, division: FusionRound) -> tuple[SelectedSets, list[Path]]:
        """Return the components that are selected along the paths of a round, and the paths."""
        relevance = non_negative(self.relevance, "relevance", "as a share of the largest maximal variation")
        folds = [variation_fold(*machine) for machine in self._machines(kernel, division)]
        return select_along_path(folds, relevance), [fold.path for fold in folds]

    def _refit(self, kernel: Componentwise, division: FusionRound, members: Members) -> Iterator[RefittedRows]:
        """Yield the machines of a round on some components; a kernel of zeros leaves the bias."""
        parts = kernel.components(division.X.shape[1])
        chosen = Componentwise(tuple(parts[place] for place in members)) if members else 0.0 * parts[0]
        for y, y_check in division.targets():
            yield RefittedRows(chosen, division.X, y, division.X_check, y_check)

    def _fit_chosen(self, kernel: Any, X: Any, y: Any, value: Any) -> Final:
        """Fit the machine at the chosen weights, refitted to its selected components if ``refit``."""
        structure = value if isinstance(value, Structure) else None
        chosen: Any = value if structure is None else structure.value
        spread = 2.0 if self._labels else float(np.ptp(y))
        least = 1e-9 * spread or 1e-9  # in place of zero
        rho = {name: max(each, least) for name, each in chosen.items()} if self.groups else max(float(chosen), least)
        how: dict[str, Any] = {"kernel": kernel, "rho": rho, "refit": structure is not None}
        if self.groups is not None:
            names = getattr(self, "feature_names_in_", None)
            how["groups"] = GroupWeights.of(1.0, self.groups).columns(self.n_features_in_, names)
        if structure is None:
            return self._machine_with(self._plain_type, **how).fit(X, y), {"rho_": rho}, (), ()
        machine = self._machine_with(self._plain_type, **how, gamma=structure.gamma).fit(X, y)
        rows: tuple[Row, ...] = ()
        if structure.members is not None:
            differ = np.setxor1d(np.flatnonzero(machine.component_support_), structure.members).size
            formula = "components that only the machine at rho, or only its path, selects"
            rows = (Row("selected components", float(differ), 1.0, 0.0, formula),)
        return machine, {"rho_": rho, "selection_kernel_": kernel}, rows, structure.search.facts()


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
    cv, validation_fraction
        As for :class:`~problems.FusedL1SubstrateRegressor`.
    gap : float, default=1e-2
        Relative distance between error and bound that the certificate demands, and at which a search over the weights
        of groups ends. A smooth kernel hardly determines predictions by fitted values, and rounding then keeps the
        bound of one weight at a few thousandths in the worst case.
    random_state : int, RandomState or None, default=None
        Seed of the rows held out.
    max_evaluations : int, default=2000
        Largest number of machines solved by a search over the weights of groups; one that ends there has a wider gap
        and reports it.
    refit : {False, True, "loo"}, default=False
        Whether rho is chosen by, and predictions are made by, the componentwise LS-SVM on the inputs that are selected
        at rho: those that vary by more than ``relevance`` times the largest. Along the exact path there are finitely
        many such sets, and all are refitted, each at its own best gamma, which proves the minimum over all rho. True
        judges them on the validation rows or folds (each fold with its own sets, and one gamma for all), ``"loo"`` by
        leaving out each row of the refitted machine in turn, conditional on the set that all rows have selected.
    standard_errors : float, default=0.0
        With ``refit``, the fewest inputs are taken whose error is within so many standard errors of the least one: one
        is the rule of [Breiman1984]_, which leaves out inputs that lower the error by chance. ``criterion_`` is the
        error of the machine taken; the bound belongs to the least error.
    relevance, expansion, ridge, cutoff
        As for :class:`~problems.MaximalVariationRegressor`.
    groups : sequence of sequences, dict or None, default=None
        Two or three groups of inputs as for :class:`~problems.MaximalVariationRegressor`: one rho is chosen for each,
        all together, by a search with a bound over all weights, as far as ``proved_on_`` states, instead of a path.
        Three may need many evaluations.

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
        one validation set, without ``refit``, the ``maximal_variation`` at the knots.
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
        one mask for each), and the ``criterion``, ``lower_bound`` and ``gamma`` of the machine refitted to them.
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
class FusedMaximalVariationClassifier(RhoChoice, Classifier):
    """Structure detection for classification with rho fused, by its exact path ([Pelckmans2005]_ eq. (28)).

    Parameters
    ----------
    kernel, tol, cv, validation_fraction, gap, random_state, max_evaluations
        As for :class:`FusedMaximalVariationRegressor`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines; one rho, or one for each group, for all of them.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.
    refit, standard_errors, relevance, expansion, ridge, cutoff, groups
        As for :class:`FusedMaximalVariationRegressor`.

    Attributes
    ----------
    rho_, criterion_, criterion_lower_bound_, path_, proved_on_, maximal_variation_
        As for :class:`FusedMaximalVariationRegressor`.
    gamma_, component_support_, selection_path_, selection_kernel_
        As for :class:`FusedMaximalVariationRegressor`, with ``refit`` only; an input is selected if some machine needs
        it.
    classes_, code_book_
        As for :class:`~problems.LSSVMClassifier`.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        The machine at that rho, as for :class:`~problems.LSSVMRegressor`.
    """

    _typical = ({"refit": True},)
    _title = "Fusion over rho, classification"
    _plain_type = MaximalVariationClassifier
    _: KW_ONLY
