r"""The componentwise LS-SVM on a reduced basis.

.. math:: f(x) = \sum_l f^l(x^l) + b, \qquad f^l(x^l) = \sum_{j \in S} \beta_j k^l(x^l, z_j^l)

([Pelckmans2005]_ eq. (6)-(8) with the expansion of [Cawley2004]_ eq. (2).) The variation of a component is computed in
a pass over all rows.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from problems.estimators.reduced.fit import ReducedFit
from problems.estimators.reduced.ls_svm import SparseLSSVMRegressor
from problems.estimators.reduced.ls_svm_machine import SparseModel
from problems.estimators.shared.additive import AdditiveEstimator, AdditiveModel
from substrate.arrays import non_negative
from substrate.fits.component_features import VariationOfBlock, component_functions
from substrate.kernels.base import symmetric_matrix
from substrate.reduced import Basis

__all__ = ["SparseComponentwiseLSSVMRegressor"]


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
