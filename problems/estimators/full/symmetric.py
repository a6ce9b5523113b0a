"""LS-SVM regression with an even or odd function, see :mod:`problems.symmetric_ls_svm`."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from sklearn.utils import Tags

from problems.estimators.full.ls_svm import LSSVMModel, LSSVMRegressor
from substrate.kernels import Kernel, Symmetric

__all__ = ["SymmetricLSSVMRegressor"]


class SymmetricModel(LSSVMModel):
    """The LS-SVM with the even or odd part of a kernel."""

    def own_kernel(self, given: Any = None) -> Kernel:
        """Return that part."""
        return Symmetric(super().own_kernel(given), self.estimator.symmetry)


@dataclass(eq=False, repr=False)
class SymmetricLSSVMRegressor(LSSVMRegressor):
    """LS-SVM regression whose function is even or odd but for its bias ([Espinoza2005]_).

    Parameters
    ----------
    kernel, gamma, tol, solver, max_iter, monotone, convex, bounds
        As for :class:`~problems.LSSVMRegressor`, like all attributes. All kernels of this package can be given, and
        functions with k(-x, -z) = k(x, z); ``kernel_`` is the even or odd part.
    symmetry : {"even", "odd"}, default="even"
        Whether f(-x) - b is f(x) - b or its negative; for a mirror other than the origin, shift X first.
    """

    _model_type = SymmetricModel
    _: KW_ONLY
    symmetry: Literal["even", "odd"] = "even"
    _typical = ({"symmetry": "odd"},)
    _page, _title = "symmetric_ls_svm", "Symmetric LS-SVM regression"
    _takes_matrix = False

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # data without the symmetry that was asked for are not fitted well; those of scikit-learn's checks have none
        tags.regressor_tags.poor_score = True
        return tags
