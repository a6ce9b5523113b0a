r"""Sparse LS-SVMs that choose their gamma, with a proof.

.. math:: \min_k \; \min_{\gamma_0 \le \gamma \le \gamma_1} F(k, \gamma)

for leave-one-out, generalised cross-validation or folds, on a basis chosen once per kernel. One statistic of all rows
and one eigendecomposition (for folds, one each) suffice for every gamma; see :mod:`substrate.reduced.criteria` for the
criteria, :mod:`substrate.paths.gamma_search` for the lower bound, and :mod:`substrate.reduced.criteria` for the errors
of rounding and decomposition. In every criterion rows are left out of the fit, not of the choice of the basis.
"""

from dataclasses import dataclass

from problems.estimators.chosen.basis_search import SparseSearch
from problems.estimators.reduced.ls_svm import SparseLSSVMClassifier, SparseLSSVMRegressor

__all__ = ["SparseLSSVMClassifierCV", "SparseLSSVMRegressorCV"]


@dataclass(eq=False, repr=False)
class SparseLSSVMRegressorCV(SparseSearch, SparseLSSVMRegressor):
    """A sparse LS-SVM for regression that chooses gamma, provably the best of a range for its basis.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; where ``kernels`` are given, those are used.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    basis, passes
        As for :class:`SparseLSSVMRegressor`; the rule ``"pruned"`` needs a gamma and is refused.
    kernels : list of kernels, default=None
        Candidates, each with a basis of its own, judged at its best gamma.
    cv : {"loo", "gcv"}, int, splitter or iterable, default="loo"
        How a machine is judged: the mean square leave-one-out residual, generalised cross-validation, or the mean
        square error over folds. Every row validates once at most and trains otherwise. A number makes consecutive folds
        in regression and stratified ones in classification, the same ones wherever the rows are. A splitter is given
        the targets of rows that are read in passes, not their inputs. A single validation set is a ``PredefinedSplit``.
    gamma_range : pair of float, default=None
        Lowest and highest gamma; unless given, all that makes a difference to the machine on this basis, up to where
        rounding could change the criterion by a part of the gap. The certificate states the range, and whether the
        best gamma is at an end of it; a wider one is searched when given, and the certificate fails where the lower
        bound is not within the gap.
    gap : float, default=1e-4
        Relative distance between criterion and lower bound at which the search ends.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, path_, cv_results_
        As for :class:`~problems.LSSVMRegressorCV`; the bound is for the machine that is fitted, on the basis and the
        directions of it that were kept, minus the effects of rounding and decomposition.
    support_values_, bias_, basis_, basis_indices_, reconstruction_error_, rank_, degrees_of_freedom_, certificate_
        As for :class:`SparseLSSVMRegressor`; the certificate also has the gap, and for ``cv="loo"`` its recomputation.
    """

    _title = "Sparse LS-SVM regression, gamma selected"


@dataclass(eq=False, repr=False)
class SparseLSSVMClassifierCV(SparseSearch, SparseLSSVMClassifier):
    """A sparse LS-SVM classifier that chooses gamma, provably the best of a range for its basis.

    Parameters
    ----------
    kernel, kernels, cv, gamma_range, gap
        As for :class:`SparseLSSVMRegressorCV`; errors are those of the labels -1 and +1, averaged over the machines.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    basis, passes
        As for :class:`SparseLSSVMRegressorCV`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        As for :class:`SparseLSSVMClassifier`.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, path_, cv_results_
        As for :class:`SparseLSSVMRegressorCV`, one gamma for all machines.
    classes_, code_book_, support_values_, bias_, basis_, basis_indices_, reconstruction_error_, certificate_
        As for :class:`SparseLSSVMClassifier`.
    """

    _title = "Sparse LS-SVM classification, gamma selected"
