r"""Kernel CCA and kernel PLS: directions of two views of the same rows whose scores go together.

.. math::

    K_2 \beta = \sigma (I + \nu K_1) \alpha, \qquad K_1 \alpha = \sigma (I + \nu K_2) \beta

[Suykens2002b]_ chapter 8; see :mod:`problems.kernel_cca` and :mod:`problems.kernel_pls` for the problems and
:mod:`substrate.spectral.two_views` for the method and what is proved.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from problems.estimators.shared.base import KernelEstimator, Uses
from problems.estimators.spectral.components import KernelComponents, PointRows, bias_row, check_count, check_points
from substrate.arrays import Array, is_sparse, non_negative, refuse_disguised
from substrate.certificates import Certificate, Row, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.kernels import as_kernel
from substrate.least_squares.kernel_products import expansion_values
from substrate.spectral.two_views import (
    PairedComponents,
    SolvedViews,
    View,
    correlations,
    find_pairs,
    pairs_certificate,
    view_of,
)

__all__ = ["KernelCCA", "KernelPLS", "TwoViews", "WeighedViews"]

#: Weights of the variances that are tried, in units of one over the mean of the diagonal of a centred kernel matrix
#: and the number of rows: from hardly more than covariance to hardly regularised correlation.
_NUS = np.geomspace(1e-2, 1e5, 8)
#: Pairs that are tried where their number is chosen.
_MOST_PAIRS = 10

#: From a weight without a unit to those of both views.
Weigh = Callable[[float, View, View], tuple[float, float]]


class Choice(NamedTuple):
    """The weights of the variances, all that were tried with their criteria where they were chosen, and the pairs."""

    nus: tuple[float, float]
    tried: Array
    criteria: Array
    pairs: int


@dataclass(eq=False, repr=False)
class TwoViews(KernelComponents):
    """Base of the estimators of two views: scores of both, as kernel expansions.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel of X.
    n_components : int, default=2
        Number of pairs of directions.
    tol : float, default=1e-6
        Distance of the singular values from exact ones, as a share of the largest, up to which the certificate holds.
    kernel_y : Kernel, str or callable, default="rbf"
        The kernel of Y.
    """

    _: KW_ONLY
    kernel_y: Any = "rbf"
    _readers: ClassVar[Mapping[str, Callable[[Any], Any]]] = {**KernelEstimator._readers, "kernel_y": as_kernel}
    _on_devices: ClassVar[bool] = False
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
        self._check_weights()
        if y is None:
            raise DataError(f"{type(self).__name__} requires y to be passed, but the target y is None: the second view")
        rows = check_points(self, X)
        if is_sparse(rows.X):
            raise DataError("sparse data was passed, and two views need dense rows; pass X.toarray()")
        Y = self._second(y, int(rows.X.shape[0]))
        n, count = int(rows.X.shape[0]), self._directions(Y.shape[1])
        if count > n - 1:
            raise DataError(f"n_components={count} exceeds what the {n} rows have; use at most {n - 1}")
        kernel, kernel_y = self._resolved_kernel(rows.X), as_kernel(self.kernel_y).resolved(Y)
        if kernel.pairwise or kernel_y.pairwise:
            raise DeclarationError(f"{type(self).__name__} needs points of both views, not precomputed matrices")
        first, second = view_of(kernel, rows.X), view_of(kernel_y, Y)
        choice = self._choose(first, second, count)
        solved = find_pairs(first, second, choice.nus, choice.pairs)
        pairs = solved.pairs
        self.singular_values_ = pairs.values
        e, r = first.matrix @ pairs.alpha, second.matrix @ pairs.beta
        self.correlations_ = correlations(e, r)
        self.nus_ = np.array(choice.nus)
        if choice.tried.size:
            self.candidate_nus_, self.candidate_criteria_ = choice.tried, choice.criteria
            self.criterion_ = float(choice.criteria.max())
        self.y_kernel_, self.y_vectors_ = kernel_y, Y.copy()
        self.y_support_values_, self.y_bias_ = pairs.beta, pairs.beta_bias
        self.certificate_ = self._certificate(first, second, solved)
        self._keep_expansion(rows.X, rows.numbers, kernel, pairs.alpha, pairs.alpha_bias)
        warn_unless_holds(self.certificate_)
        return self

    def transform(self, X: Any, y: Any = None) -> Any:
        """Return the scores of rows of X; with ``y``, those of both views as a pair."""
        scores = self._expansion(X)
        return scores if y is None else (scores, self.transform_second(y))

    def transform_second(self, y: Any) -> Array:
        """Return the scores of rows of the second view."""
        check_is_fitted(self)
        Y = self._second(y, None)
        if Y.shape[1] != self.y_vectors_.shape[1]:
            raise DataError(f"y has {Y.shape[1]} columns, this model was fitted to {self.y_vectors_.shape[1]}")
        return expansion_values(self.y_kernel_, self.y_vectors_, self.y_support_values_, self.y_bias_, Y)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return the scores of X."""
        return self.fit(X, y, **fit_params).transform(X)

    def score(self, X: Any, y: Any) -> float:
        """Return the mean correlation of the pairs of scores of rows, for rows that were not in the fit."""
        first, second = self.transform(X, y)
        return float(correlations(np.asarray(first), second).mean())

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the present coefficients on both views of the rows of the fit, given again."""
        check_is_fitted(self)
        if y is None:
            raise DataError(f"{type(self).__name__}.certify needs y, the second view of the rows of the fit")
        if sample_weight is not None:
            raise DataError(f"{type(self).__name__}.fit takes no sample_weight; leave it out")
        rows = check_points(self, X, reset=False)
        Y = self._second(y, int(rows.X.shape[0]))
        if rows.X.shape != self.support_vectors_.shape or Y.shape != self.y_vectors_.shape:
            raise DataError(f"this model was fitted to {self.support_vectors_.shape[0]} rows of both views; pass those")
        first, second = view_of(self.kernel_, rows.X), view_of(self.y_kernel_, Y)
        again = find_pairs(first, second, self._nus(), int(self.singular_values_.size))
        off = float(np.abs(again.pairs.values - self.singular_values_).max())
        stored = PairedComponents(
            values=self.singular_values_,
            alpha=self.support_values_,
            beta=self.y_support_values_,
            alpha_bias=self.bias_,
            beta_bias=self.y_bias_,
        )
        # the values in the file may be others than those of the exact problem by their distance from ours
        radius = again.square_radius + off * (2.0 * float(self.singular_values_.max(initial=0.0)) + off)
        certificate = self._certificate(first, second, SolvedViews(stored, again.values, radius))
        return certificate.extended(*_bias_rows(stored, (first, second), self._tolerance()))

    def _stored_shapes(self) -> dict[str, tuple[int, ...]]:
        n, count = self.support_values_.shape
        return {
            "singular_values_": (count,),
            "correlations_": (count,),
            "nus_": (2,),
            "y_support_values_": (n, count),
            "y_bias_": (count,),
            "y_vectors_": (n, self.y_vectors_.shape[1]),
        }

    def _certify_rows(self, rows: PointRows) -> Certificate:
        raise DataError("certify needs both views")

    def _certificate(self, first: View, second: View, solved: SolvedViews) -> Certificate:
        facts = [("kernels", f"{first.kernel!r} of X, {second.kernel!r} of y")]
        facts.append(("weights of the variances", f"{self.nus_[0]:.4g} and {self.nus_[1]:.4g}"))
        if hasattr(self, "criterion_"):
            text = f"{self.criterion_:.4f}, the largest of {self.candidate_criteria_.size} weights"
            facts.append(("left-out correlation", text))
        if hasattr(self, "pair_criteria_"):
            words = ", ".join(f"{value:.2f}" for value in self.pair_criteria_)
            facts.append(("left-out correlations of pairs", words))
        return pairs_certificate(self._title, first, second, self._nus(), solved, self._tolerance(), tuple(facts))

    def _nus(self) -> tuple[float, float]:
        return float(self.nus_[0]), float(self.nus_[1])

    def _second(self, y: Any, n: int | None) -> Array:
        """Return the second view as a matrix of numbers, one row for each row of X."""
        refuse_disguised(y, "y")
        Y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", order="C")
        Y = Y[:, None] if Y.ndim == 1 else Y
        if n is not None:
            check_consistent_length(np.empty((n, 0)), Y)
        return np.asarray(Y)

    def _check_weights(self) -> None:
        """Refuse parameters that are not usable, before any work."""

    def _directions(self, second_columns: int) -> int:
        """Return the number of pairs, for a second view of so many columns."""
        return check_count(self.n_components, "n_components")

    @abstractmethod
    def _choose(self, first: View, second: View, count: int) -> Choice:
        """Return the weights of the variances."""


@dataclass(eq=False, repr=False)
class WeighedViews(TwoViews):
    """Base of the estimators whose weight of the variances is given, or chosen by rows left out.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel of X.
    n_components : int, default=2
        Number of pairs of directions.
    tol : float, default=1e-6
        Distance of the singular values from exact ones, as a share of the largest, up to which the certificate holds.
    kernel_y : Kernel, str or callable, default="rbf"
        The kernel of Y.
    nu : float or None, default=None
        The weight; None chooses it.
    cv : int, default=5
        Number of folds, if ``nu`` is None.
    random_state : int, RandomState or None, default=0
        Which rows make a fold.
    """

    _: KW_ONLY
    nu: float | None = None
    cv: int = 5
    random_state: Any = 0

    def _check_weights(self) -> None:
        if self.nu is not None:
            non_negative(self.nu, "nu", "as a weight of variances")
        check_count(self.cv, "cv", 2)

    def _choose(self, first: View, second: View, count: int) -> Choice:
        if self.nu is not None:
            return Choice(self._both(float(self.nu)), np.zeros(0), np.zeros(0), count)
        return choose_weight(first, second, count, self.cv, self.random_state, self._weigh)

    def _both(self, nu: float) -> tuple[float, float]:
        """Return the weights of both views for a given one."""
        return nu, nu

    def _weigh(self, nu: float, first: View, second: View) -> tuple[float, float]:
        """Return the weights of both views for one without a unit."""
        weights = self._both(nu)
        return float(weights[0] * unit_of_weight(first)), float(weights[1] * unit_of_weight(second))


@dataclass(eq=False, repr=False)
class KernelCCA(WeighedViews):
    """Kernel canonical correlation analysis, regularised by a weight that left-out rows choose [Suykens2002b]_.

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
        Weight of the variances of both scores beside the norms of the directions: the larger, the less is regularised.
        None: the one of eight with the largest correlation of rows left out, averaged over pairs and folds.
    cv : int, default=5
        Number of folds in which rows are left out, if ``nu`` is None.
    random_state : int, RandomState or None, default=0
        Which rows make a fold.

    Attributes
    ----------
    singular_values_ : array of shape (n_components,)
        1/gamma of every pair.
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
    """

    _page: ClassVar[str] = "kernel_cca"
    _title: ClassVar[str] = "Kernel CCA"
    _typical: ClassVar[Uses] = ({"nu": 1.0}, {"n_components": 1})


@dataclass(eq=False, repr=False)
class KernelPLS(TwoViews):
    """Kernel partial least squares: pairs of directions whose scores have the largest covariance [Suykens2002b]_.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel of X.
    n_components : int or None, default=2
        Number of pairs of directions, which is what regularises here. None: as many leading ones, ten at most, as have
        a correlation of rows left out above 2 / N^(1/2), what chance would make of unrelated views; one at least.
    tol : float, default=1e-6
        Distance of the singular values from exact ones, as a share of the largest, up to which the certificate holds.
    kernel_y : Kernel, str or callable, default="rbf"
        The kernel of Y, the second view.
    cv : int, default=5
        Number of folds in which rows are left out, if ``n_components`` is None.
    random_state : int, RandomState or None, default=0
        Which rows make a fold.

    Attributes
    ----------
    singular_values_ : array of shape (n_components,)
        Covariances of the scores, times the number of rows.
    correlations_ : array of shape (n_components,)
        Correlations of the training scores.
    pair_criteria_ : array
        Correlations of rows left out of every pair that was tried, where ``n_components`` is None.
    support_values_, bias_, y_support_values_, y_bias_ : arrays
        The expansions of both views.
    certificate_ : Certificate
        What is proved of the singular values, and the conditions of optimality.

    Examples
    --------
    >>> import numpy as np
    >>> from problems import KernelPLS
    >>> t = np.random.default_rng(0).uniform(-1.0, 1.0, 60)
    >>> KernelPLS("rbf", 1).fit(np.column_stack([t, t**2]), np.cos(3.0 * t)).certificate_.holds
    True
    """

    n_components: Any = 2
    _: KW_ONLY
    cv: int = 5
    random_state: Any = 0
    _page: ClassVar[str] = "kernel_pls"
    _title: ClassVar[str] = "Kernel PLS"
    _typical: ClassVar[Uses] = ({"n_components": 1}, {"n_components": None})

    def _check_weights(self) -> None:
        check_count(self.cv, "cv", 2)

    def _directions(self, second_columns: int) -> int:
        return 1 if self.n_components is None else super()._directions(second_columns)

    def _choose(self, first: View, second: View, count: int) -> Choice:
        if self.n_components is not None:
            return Choice((0.0, 0.0), np.zeros(0), np.zeros(0), count)
        most = min(_MOST_PAIRS, first.n - first.n // self.cv - 1)
        self.pair_criteria_ = _left_out_correlations(
            first, second, max(most, 1), self.cv, self.random_state, np.zeros(1), _no_weights
        )[0]
        (at_chance,) = np.nonzero(self.pair_criteria_ <= 2.0 / np.sqrt(first.n))
        kept = int(at_chance[0]) if at_chance.size else self.pair_criteria_.size
        return Choice((0.0, 0.0), np.zeros(0), np.zeros(0), max(kept, 1))


def choose_weight(first: View, second: View, count: int, folds: int, random_state: Any, weigh: Weigh) -> Choice:
    """Return the weights with the largest correlation of rows left out; of equal ones the more regularised."""
    criteria = _left_out_correlations(first, second, count, folds, random_state, _NUS, weigh).mean(axis=1)
    best = int(np.argmax(criteria))
    return Choice(weigh(float(_NUS[best]), first, second), _NUS.copy(), criteria, count)


def unit_of_weight(view: View) -> float:
    """Return the weight at which the variance of the scores of a direction of all the trace counts as its norm."""
    variance = view.n * view.mean_value
    # a view of equal rows has no variance to weigh
    return 1.0 / variance if variance > view.matrix_error else 0.0


def _no_weights(nu: float, first: View, second: View) -> tuple[float, float]:
    return 0.0, 0.0


def _left_out_correlations(
    first: View, second: View, count: int, folds: int, random_state: Any, nus: Array, weigh: Weigh
) -> Array:
    """Return the correlation of rows left out, averaged over folds: a line per weight, a column per pair."""
    n = first.n
    if folds > n // 2:
        raise DataError(
            f"cv={folds} folds of {n} rows leave out fewer than two; use at most {n // 2}, or give what they choose"
        )
    splits = list(KFold(folds, shuffle=True, random_state=random_state).split(np.empty((n, 0))))
    kept = min(count, *(train.size - 1 for train, _ in splits))
    criteria = np.zeros((nus.size, kept))
    for train, test in splits:
        left, right = view_of(first.kernel, first.points[train]), view_of(second.kernel, second.points[train])
        for k, nu in enumerate(nus):
            pairs = find_pairs(left, right, weigh(float(nu), left, right), kept, bounded=False).pairs
            e = left.scores(first.points[test], pairs.alpha, pairs.alpha_bias)
            r = right.scores(second.points[test], pairs.beta, pairs.beta_bias)
            criteria[k] += correlations(e, r) / folds
    return criteria


def _bias_rows(stored: PairedComponents, views: tuple[View, View], tolerance: float) -> tuple[Row, ...]:
    return (
        bias_row(views[0].operator, stored.alpha_bias, stored.alpha, tolerance),
        bias_row(views[1].operator, stored.beta_bias, stored.beta, tolerance),
    )
