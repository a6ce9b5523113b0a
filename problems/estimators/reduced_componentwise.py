r"""Componentwise LS-SVMs on a reduced basis: the sparse machine with a kernel that is a sum over the inputs.

.. math:: f(x) = \sum_l f^l(x^l) + b, \qquad f^l(x^l) = \sum_{j \in S} \beta_j k^l(x^l, z_j^l)

([Pelckmans2005]_ eq. (6)-(8) with the expansion of [Cawley2004]_ eq. (2).) How much a component varies is found in a
pass over all rows.
"""

from typing import Any

import numpy as np

from problems.estimators.additive import AdditiveEstimator
from problems.estimators.basis_choice import BasisChoice
from problems.estimators.reduced_basis import SparseLSSVMRegressor
from problems.estimators.reduced_fit import ReducedFit
from substrate.arrays import non_negative
from substrate.certificates.accuracy import ACCURATE
from substrate.closed_form.component_features import VariationOfLeaf, component_functions
from substrate.kernels.base import symmetric_matrix
from substrate.streaming.passes import BUDGET

__all__ = ["SparseComponentwiseLSSVMRegressor"]


class SparseComponentwiseLSSVMRegressor(AdditiveEstimator, SparseLSSVMRegressor):
    """The componentwise LS-SVM on a reduced basis, at any number of rows ([Pelckmans2005]_ eq. (6)-(8)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.ComponentwiseLSSVMRegressor`.
    tolerance : float, default=0.05
        Share of the largest maximal variation up to which an input counts as irrelevant.
    gamma, n_basis, basis, n_candidates, n_scoring, random_state, executor, memory_budget, checkpoint, verbose
        As for :class:`~problems.SparseLSSVMRegressor`; the basis is chosen by the sum of the components' kernels.
    tol : float, default=1e-6
        Share of the spread of y that the accuracy of the fitted values may be for the certificate to hold.

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

    def __init__(
        self,
        kernel: Any = "rbf",
        gamma: float = 1.0,
        n_basis: Any = None,
        basis: Any = "feature_vectors",
        n_candidates: Any = 2000,
        n_scoring: Any = 1000,
        tolerance: float = 0.05,
        random_state: Any = None,
        executor: Any = None,
        memory_budget: float = BUDGET,
        checkpoint: Any = None,
        verbose: bool = False,
        tol: float = ACCURATE,
    ) -> None:
        super().__init__(
            kernel, gamma, n_basis, basis, n_candidates, n_scoring, tolerance, random_state, executor, memory_budget,
            checkpoint, verbose, tol=tol,
        )  # fmt: skip

    def _choice(self) -> BasisChoice:
        non_negative(self.tolerance, "tolerance", "as a share of the largest maximal variation")
        return BasisChoice(self.basis, self.n_basis, self.n_candidates, self.n_scoring, 0.0, self.random_state)

    def _keep_of_rows(self, fit: ReducedFit) -> None:
        rows, kernel, beta = fit.prepared.host_rows, fit.prepared.kernel, fit.coefficients[:, 0]
        points, unit = fit.prepared.basis.points, fit.prepared.origin.unit
        parts = kernel.components(rows.source.n_features)  # type: ignore[attr-defined]
        functions = component_functions(parts, points, beta / unit)
        self.maximal_variation_ = unit * rows.sums(VariationOfLeaf(functions), "variation of components").largest
        squares = np.array([beta / unit @ symmetric_matrix(part, points) @ (beta / unit) for part in parts])
        self.component_norms_ = unit * np.sqrt(np.maximum(squares, 0.0))
