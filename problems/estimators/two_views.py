r"""Kernel CCA, kernel PLS and the kernel Fisher discriminant: directions of two views with correlated scores.

.. math::

    K_2 \beta = \sigma (I + \nu_1 K_1) \alpha, \qquad K_1 \alpha = \sigma (I + \nu_2 K_2) \beta

[Suykens2002b]_ chapter 8; of the Fisher discriminant the second view are codes of classes [Mika1999b]_. See
:mod:`problems.kernel_cca`, :mod:`problems.kernel_pls` and :mod:`problems.kernel_fisher_discriminant` for the problems
and :mod:`substrate.spectral` for the method and what is proved.
"""

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.model_selection import KFold
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d

from problems.estimators.components import KernelComponents, check_points
from problems.estimators.shared.base import Uses
from problems.estimators.shared.coded import Coding, winners
from substrate.arrays import Array, is_sparse, non_negative, refuse_disguised, whole_number
from substrate.certificate import Certificate, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.kernels import as_kernel
from substrate.robust_weights import check_choice
from substrate.spectral import (
    Pairs,
    View,
    class_codes,
    correlations,
    find_pairs,
    pairs_certificate,
    view_of,
)

__all__ = ["KernelCCA", "KernelFisherDiscriminant"]

#: Weights of the variances that are tried, in units of one over the trace of a centred kernel matrix: from hardly more
#: than covariance to hardly regularised correlation.
_NUS = np.geomspace(1e-2, 1e5, 8)


@dataclass(eq=False, repr=False)
class KernelCCA(KernelComponents):
    """Kernel canonical correlation analysis, or kernel partial least squares, of two views [Suykens2002b]_.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel of X.
    n_components : int, default=2
        Number of pairs of directions.
    tol : float, default=1e-6
        Distance of the singular values from exact ones, as a share of the largest, up to which the certificate holds.
    kernel_y : Kernel, str or callable, default="rbf"
        The kernel of Y, the second view.
    nu : float or None, default=None
        Weight of the variances of both scores against the norms of the directions: the larger, the less is regularised.
        None: the one of eight with the largest correlation of rows left out, averaged over pairs and folds. Kernel PLS
        has none.
    cv : int, default=5
        Number of folds in which rows are left out, if ``nu`` is None.
    random_state : int, RandomState or None, default=0
        Which rows make a fold.
    method : {"cca", "pls"}, default="cca"
        Pairs of the largest correlation, regularised, or of the largest covariance: then ``n_components`` regularises.

    Attributes
    ----------
    singular_values_ : array of shape (n_components,)
        1/gamma of every pair; of kernel PLS the covariances of the scores, times the number of rows.
    correlations_ : array of shape (n_components,)
        Correlations of the training scores, which regularisation keeps from being one.
    nus_ : array of shape (2,)
        The weights of the variances.
    criterion_, candidate_nus_, candidate_criteria_ : float, arrays
        The largest left-out correlation, and all of them, where nu was chosen.
    support_values_, bias_, y_support_values_, y_bias_ : arrays
        The expansions of both views.
    certificate_ : Certificate
        What is proved of the singular values, and the conditions of optimality.

    Examples
    --------
    >>> import numpy as np
    >>> from problems import KernelCCA
    >>> t = np.random.default_rng(0).uniform(-1.0, 1.0, 60)
    >>> X, Y = np.column_stack([t, t**2]), np.cos(3.0 * t)
    >>> model = KernelCCA("rbf", 1).fit(X, Y)
    >>> bool(model.correlations_[0] > 0.9), model.certificate_.holds
    (True, True)
    >>> KernelCCA("rbf", 1, method="pls").fit(X, Y).certificate_.holds
    True
    """

    _: KW_ONLY
    kernel_y: Any = "rbf"
    nu: float | None = None
    cv: int = 5
    random_state: Any = 0
    method: Literal["cca", "pls"] = "cca"
    _page: ClassVar[str] = "kernel_cca"
    _title: ClassVar[str] = "Kernel CCA"
    _typical: ClassVar[Uses] = ({"nu": 1.0}, {"method": "pls"})
    _takes_matrix: ClassVar[bool] = False
    _takes_weights: ClassVar[bool] = False

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Find the pairs of directions of the rows of X and of y, the other view; a vector is one column."""
        self._begin_fit()
        self._check_choices()
        if y is None:
            raise DataError(f"{type(self).__name__} requires y to be passed, but the target y is None: the second view")
        rows = check_points(self, X)
        if is_sparse(rows.X):
            raise DataError("sparse data was passed, and two views need dense rows; pass X.toarray()")
        n = int(rows.X.shape[0])
        Y = _second_view(y, n)
        count = self._directions(Y.shape[1])
        if count > n - 1:
            raise DataError(f"n_components={count} exceeds what the {n} rows have; use at most {n - 1}")
        kernel, kernel_y = self._resolved_kernel(rows.X), as_kernel(self.kernel_y).resolved(Y)
        if kernel.pairwise or kernel_y.pairwise:
            raise DeclarationError(f"{type(self).__name__} needs points of both views, not precomputed matrices")
        first, second = view_of(kernel, rows.X), view_of(kernel_y, Y)
        nus = self._choose(first, second, count)
        self.nus_: Any = np.array(nus)
        pairs = find_pairs(first, second, nus, count)
        self.singular_values_ = pairs.values
        self.correlations_ = correlations(first.centred.matrix @ pairs.alpha, second.centred.matrix @ pairs.beta)
        self.y_kernel_, self.y_vectors_ = kernel_y, Y.copy()
        self.y_support_values_, self.y_bias_ = pairs.beta, pairs.beta_bias
        self.certificate_ = self._certificate(first, second, pairs)
        self._keep_expansion(rows.X, rows.numbers, kernel, pairs.alpha, pairs.alpha_bias)
        warn_unless_holds(self.certificate_)
        return self

    def transform(self, X: Any, y: Any = None) -> Any:
        """Return the scores of rows of X; with ``y``, the scores of both views as a pair."""
        scores = self._expansion(X)
        if y is None:
            return scores
        Y = _second_view(y)
        if Y.shape[1] != self.y_vectors_.shape[1]:
            raise DataError(f"y has {Y.shape[1]} columns, this model was fitted to {self.y_vectors_.shape[1]}")
        return scores, self.y_kernel_.expansion_values(self.y_vectors_, self.y_support_values_, self.y_bias_, Y)

    def score(self, X: Any, y: Any) -> float:
        """Return the mean correlation of the pairs of scores of rows, for rows that were not in the fit."""
        first, second = self.transform(X, y)
        return float(correlations(np.asarray(first), second).mean())

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the present coefficients on both views of the rows of the fit, given again."""
        self._check_given_again(X, y, sample_weight)
        rows = check_points(self, X, reset=False)
        Y = _second_view(y, int(rows.X.shape[0]))
        if rows.X.shape != self.support_vectors_.shape or Y.shape != self.y_vectors_.shape:
            raise DataError(f"this model was fitted to {self.support_vectors_.shape[0]} rows of both views; pass those")
        first, second = view_of(self.kernel_, rows.X), view_of(self.y_kernel_, Y)
        again = find_pairs(first, second, self.nus_, int(self.singular_values_.size))
        off = float(np.abs(again.values - self.singular_values_).max())
        # the stored values may differ from the exact ones by their distance from ours
        radius = again.square_radius + off * (2.0 * float(self.singular_values_.max(initial=0.0)) + off)
        stored = replace(
            again,
            values=self.singular_values_,
            alpha=self.support_values_,
            beta=self.y_support_values_,
            square_radius=radius,
        )
        certificate = self._certificate(first, second, stored)
        return certificate.extended(
            first.centred.bias_row(self.bias_, stored.alpha, self._tolerance()),
            second.centred.bias_row(self.y_bias_, stored.beta, self._tolerance()),
        )

    def _certificate(self, first: View, second: View, pairs: Pairs) -> Certificate:
        facts = [("kernels", f"{first.kernel!r} of X, {second.kernel!r} of y")]
        facts.append(("weights of the variances", f"{self.nus_[0]:.4g} and {self.nus_[1]:.4g}"))
        if hasattr(self, "criterion_"):
            text = f"{self.criterion_:.4f}, the largest of {self.candidate_criteria_.size} weights"
            facts.append(("left-out correlation", text))
        return pairs_certificate(self._title, first, second, self.nus_, pairs, self._tolerance(), tuple(facts))

    def _check_choices(self) -> None:
        """Refuse parameters that are not usable, before any work."""
        if self.nu is not None:
            non_negative(self.nu, "nu", "as a weight of variances")
        whole_number(self.cv, "cv", 2)
        check_choice(self.method, ("cca", "pls"), "method")
        if self.method == "pls" and self.nu is not None:
            raise DeclarationError(f"kernel PLS has no weight of the variances, received nu={self.nu!r}; leave nu out")

    def _directions(self, second_columns: int) -> int:
        """Return the number of pairs, for a second view with this number of columns."""
        return whole_number(self.n_components, "n_components", 1)

    def _weigh(self, nu: float, first: View, second: View) -> tuple[float, float]:
        """Return the weights of both views for a given weight, or for a weight without a unit."""
        return (nu, nu) if self.nu is not None else (nu * _unit_of_weight(first), nu * _unit_of_weight(second))

    def _choose(self, first: View, second: View, count: int) -> tuple[float, float]:
        """Return the weights of the variances: given, or with the largest correlation of rows left out."""
        if self.method == "pls":
            return 0.0, 0.0
        if self.nu is not None:
            return self._weigh(self.nu, first, second)
        criteria = self._left_out_correlations(first, second, count)
        best = int(criteria.argmax())
        self.candidate_nus_, self.candidate_criteria_ = _NUS.copy(), criteria
        self.criterion_ = float(criteria[best])
        return self._weigh(float(_NUS[best]), first, second)

    def _left_out_correlations(self, first: View, second: View, count: int) -> Array:
        """Return the correlation of rows left out for every weight, averaged over pairs and folds."""
        n = first.points.shape[0]
        if self.cv > n // 2:
            raise DataError(
                f"cv={self.cv} folds of {n} rows leave out fewer than two; use at most {n // 2}, or give nu"
            )
        splits = list(KFold(self.cv, shuffle=True, random_state=self.random_state).split(np.empty((n, 0))))
        criteria, kept = np.zeros(_NUS.size), min(count, *(train.size - 1 for train, _ in splits))
        for train, test in splits:
            left, right = view_of(first.kernel, first.points[train]), view_of(second.kernel, second.points[train])
            for k, nu in enumerate(_NUS):
                pairs = find_pairs(left, right, self._weigh(float(nu), left, right), kept)
                e = left.scores(first.points[test], pairs.alpha, pairs.alpha_bias)
                r = right.scores(second.points[test], pairs.beta, pairs.beta_bias)
                criteria[k] += float(correlations(e, r).mean()) / self.cv
        return criteria


def _unit_of_weight(view: View) -> float:
    """Return the weight at which the variance along a direction that has the whole trace counts as much as its norm."""
    variance = float(np.trace(view.centred.matrix))
    # a view of equal rows has no variance to weigh
    return 1.0 / variance if variance > view.centred.error else 0.0


def _second_view(y: Any, n: int | None = None) -> Array:
    """Return the second view as a matrix of numbers, one row for each row of X."""
    refuse_disguised(y, "y")
    Y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", order="C")
    Y = Y[:, None] if Y.ndim == 1 else Y
    if n is not None:
        check_consistent_length(np.empty((n, 0)), Y)
    return np.asarray(Y)


@dataclass(eq=False, repr=False)
class KernelFisherDiscriminant(ClassifierMixin, KernelCCA):
    """The kernel Fisher discriminant of two or more classes, regularised by a weight that left-out rows choose.

    Rows are classified by the nearest class mean of the scores, in units of their deviation within classes
    [Mika1999b]_.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of :mod:`substrate.kernels`, its name, or a function of two point sets.
    n_components : int or None, default=None
        Number of directions; None is the number of classes less one, the largest possible.
    tol : float, default=1e-6
        Distance of the singular values from exact ones, as a share of the largest, up to which the certificate holds.
    nu : float or None, default=None
        Weight of the variance of all scores against the norm of the direction: the larger, the less is regularised.
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
    method: Any = field(default="cca", init=False)
    _labels = True
    _page: ClassVar[str] = "kernel_fisher_discriminant"
    _title: ClassVar[str] = "Kernel Fisher discriminant"
    _typical: ClassVar[Uses] = ({"nu": 1.0},)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Find the directions that separate the classes y of the rows of X."""
        _, labels, _ = self._check_data(X, y, None)
        classes = Coding.of_labels(labels, "one_vs_rest").names
        numbers = np.searchsorted(classes, labels)
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
        check_is_fitted(self)
        return np.asarray(self.classes_[winners(self.decision_function(X))])

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the present coefficients on the rows and classes of the fit, given again."""
        self._check_given_again(X, y, sample_weight)
        labels = column_or_1d(y)
        if strange := sorted({str(label) for label in labels} - {str(label) for label in self.classes_}):
            raise DataError(f"y holds {strange[0]!r}, which is no class of the fit")
        return super().certify(X, class_codes(np.searchsorted(self.classes_, labels)), sample_weight)

    def _directions(self, second_columns: int) -> int:
        most = second_columns - 1
        count = most if self.n_components is None else whole_number(self.n_components, "n_components", 1)
        if count > most:
            raise DataError(f"n_components={count}, and {most + 1} classes have {most} directions; use at most {most}")
        return count

    def _weigh(self, nu: float, first: View, second: View) -> tuple[float, float]:
        """Return the weight of the scores; the codes of classes have no weight."""
        return super()._weigh(nu, first, second)[0], 0.0
