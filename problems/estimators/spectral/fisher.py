r"""The kernel Fisher discriminant: directions that separate classes, and the class whose mean is nearest there.

.. math:: K_1 K_2 K_1 \alpha = \sigma^2 (I + \nu K_1) K_1 \alpha

[Mika1999b]_; see :mod:`problems.kernel_fisher_discriminant` for the problem and
:mod:`problems.estimators.spectral.two_views` for the two views, rows and codes of classes.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from problems.estimators.shared.base import Uses
from problems.estimators.spectral.components import check_count
from problems.estimators.spectral.two_views import WeighedViews
from substrate.arrays import Array
from substrate.certificates import Certificate
from substrate.errors import DataError
from substrate.spectral.two_views import class_codes

__all__ = ["KernelFisherDiscriminant"]


@dataclass(eq=False, repr=False)
class KernelFisherDiscriminant(ClassifierMixin, WeighedViews):
    """The kernel Fisher discriminant of two or more classes, regularised by a weight that left-out rows choose.

    Rows are classified by the nearest class mean of the scores, in units of their deviation within classes
    [Mika1999b]_.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of :mod:`substrate.kernels`, its name, or a function of two point sets.
    n_components : int or None, default=None
        Number of directions; None is one less than there are classes, which is all there are.
    tol : float, default=1e-6
        Distance of the singular values from exact ones, as a share of the largest, up to which the certificate holds.
    nu : float or None, default=None
        Weight of the variance of all scores beside the norm of the direction: the larger, the less is regularised.
        None: the one of eight with the largest correlation of scores and codes of rows left out.
    cv : int, default=5
        Number of folds in which rows are left out, if ``nu`` is None.
    random_state : int, RandomState or None, default=0
        Which rows make a fold.

    Attributes
    ----------
    classes_ : array
        The classes.
    singular_values_, correlations_, nus_, criterion_ : arrays and a float
        As of :class:`~problems.KernelCCA`.
    class_means_ : array of shape (n_classes, n_components)
        Means of the training scores of every class.
    within_ : array of shape (n_components,)
        Deviations of the scores within classes.
    certificate_ : Certificate
        What is proved of the singular values, and the conditions of optimality.

    Examples
    --------
    >>> import numpy as np
    >>> from problems import KernelFisherDiscriminant
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 4.0])
    >>> model = KernelFisherDiscriminant().fit(X, np.repeat(["a", "b"], 30))
    >>> model.predict([[0.0, 0.0], [4.0, 4.0]]).tolist(), model.certificate_.holds
    (['a', 'b'], True)
    """

    n_components: Any = None
    kernel_y: Any = field(default="linear", init=False)
    _page: ClassVar[str] = "kernel_fisher_discriminant"
    _title: ClassVar[str] = "Kernel Fisher discriminant"
    _typical: ClassVar[Uses] = ({"nu": 1.0},)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Find the directions that separate the classes y of the rows of X."""
        if y is None:
            raise DataError(f"{type(self).__name__} requires y to be passed, but the target y is None: the classes")
        labels = column_or_1d(y, warn=True)
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise DataError("y contains NaN or infinity; drop those rows")
        check_classification_targets(labels)
        classes, numbers = np.unique(labels, return_inverse=True)
        if classes.size == 1:  # without any, the rows are none
            raise DataError(f"y has {classes.size} class, {classes.tolist()}; a discriminant needs two or more")
        super().fit(X, class_codes(numbers))
        self.classes_ = classes
        scores = self._expansion(X)
        means = np.array([scores[numbers == c].mean(axis=0) for c in range(classes.size)])
        within = np.sqrt(np.mean(np.square(scores - means[numbers]), axis=0))
        self.class_means_ = means
        # a direction without scores separates nothing, and one without deviation separates by any distance
        spread = np.abs(means).max(axis=0, initial=0.0)
        self.within_ = np.where(within > 1e-9 * spread, within, np.where(spread > 0.0, 1e-9 * spread, 1.0))
        return self

    def decision_function(self, X: Any) -> Array:
        """Return minus half the squared distances to the class means; of two classes, the difference."""
        check_is_fitted(self)
        scaled = np.asarray(self._expansion(X)) / self.within_
        distances = np.sum(np.square(scaled[:, None, :] - (self.class_means_ / self.within_)[None, :, :]), axis=2)
        values = -0.5 * distances
        return np.asarray(values[:, 1] - values[:, 0] if self.classes_.size == 2 else values)

    def predict(self, X: Any) -> Array:
        """Return the class with the nearest mean."""
        values = self.decision_function(X)
        numbers = (values > 0.0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
        return np.asarray(self.classes_[numbers])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows that are classified correctly."""
        return float(ClassifierMixin.score(self, X, y, sample_weight))

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the present coefficients on the rows and classes of the fit, given again."""
        check_is_fitted(self)
        if y is None:
            raise DataError(f"{type(self).__name__}.certify needs y, the classes of the rows of the fit")
        labels = column_or_1d(y)
        if strange := sorted({str(label) for label in labels} - {str(label) for label in self.classes_}):
            raise DataError(f"y holds {strange[0]!r}, which is no class of the fit")
        return super().certify(X, class_codes(np.searchsorted(self.classes_, labels)), sample_weight)

    def _directions(self, second_columns: int) -> int:
        most = second_columns - 1
        if self.n_components is None:
            return most
        count = check_count(self.n_components, "n_components")
        if count > most:
            raise DataError(f"n_components={count}, and {most + 1} classes have {most} directions; use at most {most}")
        return count

    def _stored_shapes(self) -> dict[str, tuple[int, ...]]:
        count = self._n_features_out
        return super()._stored_shapes() | {
            "class_means_": (int(self.classes_.size), count),
            "within_": (count,),
        }

    def _both(self, nu: float) -> tuple[float, float]:
        """Return the weight of the scores; codes of classes have none."""
        return nu, 0.0
