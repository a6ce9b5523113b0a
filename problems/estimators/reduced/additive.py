r"""Additive machines on a reduced basis: the componentwise LS-SVM, and structure detection by maximal variation.

.. math:: f(x) = \sum_l f^l(x^l) + b, \qquad f^l(x^l) = \sum_{j \in S} \beta_j k^l(x^l, z_j^l)

([Pelckmans2005]_ eq. (6)-(8) with the expansion of [Cawley2004]_ eq. (2).) The variation of a component is computed in
a pass over all rows. Structure detection, see :mod:`problems.reduced_maximal_variation`, is

.. math::

    \min \; \tfrac12 \sum_{i=1}^l v_i \Big( y_i - \sum_k f^k(x_i) - b \Big)^2 + \tfrac{\tau}{2} \sum_k w_k^T w_k
        + \rho \sum_k t_k \quad \text{s.t.} \quad |f^k(x_i)| \le t_k \text{ at every row}

with one expansion per component in few basis vectors; the bounds hold at all rows, by passes over them. The weights v
of the errors are one unless ``sample_weight`` gives others.
"""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from problems.estimators.reduced.fit import FitData, PreparedRows, ReducedFit, prepare
from problems.estimators.reduced.ls_svm import SparseLSSVMRegressor
from problems.estimators.reduced.ls_svm_machine import SparseModel
from problems.estimators.reduced.machine import BASIS, READERS, ReducedModel
from problems.estimators.reduced.weighed import weight_facts
from problems.estimators.shared.additive import AdditiveEstimator, AdditiveModel, DecoupledModel
from problems.estimators.shared.checked_again import Added, StoredMachine
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import non_negative, positive
from substrate.certificates import Certificate, warn_unless_holds
from substrate.certificates.rows import WITH_CUTOFF
from substrate.fits.component_features import ComponentFeatures, VariationOfBlock, component_functions
from substrate.fits.coordinates import CUTOFF
from substrate.fits.variation_on_a_basis import ReducedVariation, VariationRows, solve_reduced_variation
from substrate.kernels.base import symmetric_matrix
from substrate.least_squares.saddle_system import target_unit
from substrate.penalties import VariationMachine
from substrate.proof import Proof, tolerance_in_balls
from substrate.proof.penalties import prove_variation
from substrate.reduced import Basis
from substrate.reduced.left_out import OutputsOfBlock
from substrate.reduced.rows import KernelValues
from substrate.streaming.survey import TargetSummary

__all__ = ["SparseComponentwiseLSSVMRegressor", "SparseMaximalVariationRegressor"]


class SparseComponentwiseModel(AdditiveModel, SparseModel):
    """The LS-SVM on a reduced basis as a sum of components, whose variation is found in a pass over all rows."""

    def choice(self) -> Basis:
        non_negative(self.estimator.relevance, "relevance", "as a share of the largest maximal variation")
        return super().choice()

    def keep_of_rows(self, fit: ReducedFit) -> None:
        rows, kernel, beta = fit.prepared.rows, fit.prepared.kernel, fit.coefficients[:, 0]
        points, unit = fit.prepared.basis.points, fit.prepared.origin.unit
        components = kernel.components(rows.source.n_features)  # type: ignore[attr-defined]
        functions = component_functions(components, points, beta / unit)
        self.estimator.maximal_variation_ = unit * rows.sums(VariationOfBlock(functions)).largest
        squares = np.array(
            [beta / unit @ symmetric_matrix(component, points) @ (beta / unit) for component in components]
        )
        self.estimator.component_norms_ = unit * np.sqrt(np.maximum(squares, 0.0))


@dataclass(eq=False, repr=False)
class SparseComponentwiseLSSVMRegressor(AdditiveEstimator, SparseLSSVMRegressor):
    """The componentwise LS-SVM on a reduced basis, at any number of rows ([Pelckmans2005]_ eq. (6)-(8)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel of every input; or a :class:`~substrate.kernels.Componentwise` that names one for each input or group
        of inputs. ``"rbf"`` takes the median distance of each input as its width.
    gamma, tol, basis
        As for :class:`~problems.SparseLSSVMRegressor`; the basis is chosen by the sum of the components' kernels.
    relevance : float, default=0.05
        Share of the largest maximal variation up to which an input counts as irrelevant.

    Attributes
    ----------
    maximal_variation_ : array of shape (n_components,)
        max_i abs(f^l(x_i)) over all rows.
    component_norms_ : array of shape (n_components,)
        The norms of w_l.
    support_values_, bias_, basis_, basis_indices_, support_, support_vectors_, reconstruction_error_, rank_
        As for :class:`~problems.SparseLSSVMRegressor`.
    degrees_of_freedom_, leverage_factor_, leverage_offset_, n_rows_, kernel_, certificate_
        As for :class:`~problems.SparseLSSVMRegressor`.
    """

    _model_type = SparseComponentwiseModel
    _typical = ({"gamma": 10.0},)
    _title = "Sparse componentwise LS-SVM regression"
    _: KW_ONLY
    relevance: float = 0.05


#: Relative residual of the optimality conditions at which a fit counts as solved.
_TOLERANCE = 1e-6


class ReducedVariationModel(DecoupledModel, ReducedModel):
    """Maximal variation with one expansion per component on a basis; bounds hold at all rows."""

    def recall_machines(self, data: FitData, X: Any, y: Any) -> StoredMachine:
        return StoredReducedVariation(self, data, self.estimator._tolerance())

    def solve_again(self, data: FitData) -> tuple[VariationRows, ReducedVariation]:
        """Return rows against the basis of this model, and the problem solved on them."""
        summary = self.training_rows(data).target_summary()
        return self.solve_on(
            self.estimator.support_vectors_, self.estimator.kernel_, data, summary, target_unit(summary.extremes)
        )

    def solve(self, data: FitData) -> tuple[PreparedRows, VariationRows, ReducedVariation]:
        prepared = prepare(self.data_kernel(data), data, self.choice(), float(self.estimator.ridge), independent=False)
        return prepared, *self.solve_on(
            prepared.basis.points, prepared.kernel, data, prepared.targets, prepared.origin.unit
        )

    def solve_on(
        self, points: Any, kernel: Any, data: FitData, known: TargetSummary, unit: float
    ) -> tuple[VariationRows, ReducedVariation]:
        model = self.estimator
        components = kernel.components(data.source.n_features)
        matrices = [symmetric_matrix(component, points) for component in components]
        values = ComponentFeatures.of(
            [KernelValues(component, points) for component in components], matrices, float(model.cutoff)
        )
        rows = VariationRows(values=values, source=data.source, targets=known, unit=unit, anchor=points)
        return rows, solve_reduced_variation(rows, float(model.rho), float(model.ridge), _TOLERANCE)

    def outputs_of_rows(self) -> OutputsOfBlock:
        model = self.estimator
        kernel: Any = model.kernel_
        components = kernel.components(model.n_features_in_)
        values = component_functions(components, model.support_vectors_, model.support_values_)
        return OutputsOfBlock(values, np.ones((values.n_basis, 1)), np.array([model.bias_]))

    @property
    def decoupled(self) -> bool:
        return True


@dataclass(eq=False, repr=False)
class SparseMaximalVariationRegressor(AdditiveEstimator, Regressor):
    """Structure detection on a reduced basis, at any number of rows; irrelevant inputs vanish exactly.

    [Pelckmans2005]_ eq. (13)-(14), (24)-(27) with one expansion per component in the basis of [Cawley2004]_ eq. (2).

    Parameters
    ----------
    kernel, tol, relevance
        As for :class:`~problems.MaximalVariationRegressor`.
    rho : float, default=1.0
        Weight of the sum of maximal variations against half the squared errors of all rows, in the units of y.
    basis
        As for :class:`~problems.SparseLSSVMRegressor`; the basis is chosen by the sum of the components' kernels.
    ridge : float, default=1.0
        Weight of half the squared norm of w, positive: without it components could exchange constants.
    cutoff : float, default=1e-6
        Relative size of the eigenvalues of a component's kernel matrix at the basis that are left out; certificate and
        proof are of the machine on the directions that are kept.

    Attributes
    ----------
    maximal_variation_ : array of shape (n_components,)
        t, the largest absolute value of each component over all rows; zeros are exact.
    support_values_ : array of shape (n_basis, n_components)
        beta, one column per component.
    n_bounded_ : int
        Number of rows that were bounded for the bounds to hold at all of them.
    bias_, basis_, basis_indices_, support_, support_vectors_, reconstruction_error_, rank_, n_rows_, kernel_
        As for :class:`~problems.SparseLSSVMRegressor`.
    certificate_ : Certificate
        Errors, bounds and the duality gap are those of all rows.

    Examples
    --------
    >>> from problems import SparseMaximalVariationRegressor
    >>> from substrate.datasets import additive_function
    >>> from substrate.kernels import RBF
    >>> X, y = additive_function(400, 8, random_state=0)
    >>> model = SparseMaximalVariationRegressor(RBF(1.0), rho=60.0, basis=40).fit(X, y)
    >>> model.get_support(indices=True), bool(model.certificate_.holds)
    (array([0, 1, 2, 3]), True)
    """

    _page, _title = "reduced_maximal_variation", "Maximal variation on a reduced basis, regression"
    _model_type = ReducedVariationModel
    _readers = READERS
    _rows_have_targets = True
    rho: float = 1.0
    _: KW_ONLY
    basis: Any = None
    relevance: float = 0.05
    ridge: float = 1.0
    cutoff: float = CUTOFF

    basis_ = BASIS

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the basis, sum over all rows, and bound rows until no row exceeds its bound.

        ``sample_weight`` weighs the squared errors against rho and ridge, as in
        :class:`~problems.SparseLSSVMRegressor`; every row of positive weight, however small, is bounded alike.
        """
        self._begin_fit()
        for name in ("rho", "ridge", "cutoff"):
            positive(getattr(self, name), name)
        non_negative(self.relevance, "relevance", "as a share of the largest maximal variation")
        model = self._model
        model.choice()
        data = model.read(X, y, sample_weight)
        prepared, rows, solved = model.solve(data)
        values = rows.values
        coefficients = values.coefficients(solved.v)
        numbers = (float(self.rho), float(self.ridge), coefficients, float(solved.bias), self._tolerance())
        answer = solved.accuracy(rows, *numbers)
        how = "active set polished" if solved.exact else "interior point, not polished"
        facts = (
            *prepared.facts,
            *weight_facts(prepared.rows),
            ("rho", f"{float(self.rho):g}"),
            ("ridge", f"{float(self.ridge):g}/2 w'w is part of the objective"),
            ("coordinates", f"expansions per component, {sum(values.ranks)} kept at cut-off {float(self.cutoff):.1e}"),
            (
                "solver",
                f"PIQP, {len(solved.numbers)} of {data.source.n_rows} rows bounded in {solved.rounds} rounds, {how}",
            ),
        )
        self.maximal_variation_ = solved.maximal_variation
        self.n_bounded_ = len(solved.numbers)
        self.certificate_ = Certificate(self._title, (answer, *solved.rows), facts)
        warn_unless_holds(self.certificate_)
        model.keep_machine(prepared, coefficients, solved.bias)
        return self


@dataclass(frozen=True, slots=True)
class StoredReducedVariation:
    """A machine of maximal variation on a reduced basis; the problem is solved again for a dual point."""

    model: ReducedVariationModel
    data: FitData
    tolerance: float

    def certify(self) -> Added:
        """Bound the answer in passes over the rows."""
        model = self.model.estimator
        rows, solved = self.model.solve_again(self.data)
        numbers = (float(model.rho), float(model.ridge), model.support_values_, float(model.bias_), self.tolerance)
        answer = solved.accuracy(rows, *numbers)
        return (answer,), (("kernel", repr(model.kernel_)), ("dual point", "of the problem, solved again"))

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic, of rows in memory; for any dual point."""
        model, training_rows = self.model.estimator, self.model.read_in_memory(self.data)
        rows, solved = self.model.solve_again(self.data)
        kernels = model.kernel_.components(model.n_features_in_)
        y, fitted, v = training_rows.Y[:, 0], training_rows.fitted[:, 0], training_rows.weights
        xi = np.zeros((len(kernels), y.size))
        xi[:, np.array(solved.numbers, dtype=np.intp)] = rows.unit * solved.xi if solved.numbers else 0.0
        machine = VariationMachine(
            components=rows.values.split(rows.values.matrix(training_rows.X)),
            root=np.eye(rows.values.n_basis),
            weights=v,
            bias=True,
            ridge=float(model.ridge),
            rho=float(model.rho),
            v=rows.values.weights(model.support_values_)[0],
            xi=xi,
        )
        stored = (model.support_values_.T, float(model.bias_), fitted, tolerance_in_balls(y, v, self.tolerance))
        proof = prove_variation(kernels, training_rows.X, model.support_vectors_, machine, y, *stored)
        return proof if rows.values.complete else replace(proof, about=f"{proof.about} {WITH_CUTOFF}")
