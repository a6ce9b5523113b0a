r"""Kernel spectral clustering: clusters by the signs of weighted components, also of rows that come later.

.. math:: D^{-1} M_D K \alpha_l = \lambda_l \alpha_l, \qquad e_l(x) = \sum_i \alpha_{il} k(x_i, x) + b_l

[Alzate2010]_; see :mod:`problems.kernel_spectral_clustering` for the problem and :mod:`substrate.spectral.clusters` for
codes and the choice of kernel and number of clusters.
"""

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.base import Uses
from problems.estimators.spectral.components import (
    ComponentsModel,
    KernelComponents,
    PointRows,
    all_equal,
    bias_row,
    check_count,
    check_points,
    find_components,
    kernel_matrix_of,
    orient,
    prove_components,
    scaled_components,
    state_components,
    stored_pairs,
)
from substrate.arrays import Array, is_sparse
from substrate.certificates import Certificate, Row
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel, as_kernel
from substrate.least_squares.kernel_products import expansion_values
from substrate.operators import SymmetricOperator
from substrate.spectral.centred_operator import CentredOperator
from substrate.spectral.clusters import CodeBook, Degrees, balanced_line_fit, check_degrees, signs_of
from substrate.spectral.eigen_bound import EigenBound
from substrate.spectral.eigenpairs import Eigenpairs

__all__ = ["KernelSpectralClustering"]


class _Candidate(NamedTuple):
    """A kernel with a number of clusters, and its criterion on rows left out."""

    kernel: Kernel
    clusters: int
    criterion: float


class _Found(NamedTuple):
    """The operator of rows, their eigenpairs, the bound on these, support values and biases."""

    operator: CentredOperator
    pairs: Eigenpairs
    bound: EigenBound
    alpha: Array
    bias: Array


@dataclass(eq=False, repr=False)
class KernelSpectralClustering(ClusterMixin, KernelComponents):
    """Spectral clustering as a weighted LS-SVM, which also assigns rows that were not in the fit [Alzate2010]_.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel without negative values: rows are weighted by the inverses of their sums of kernel values.
    n_clusters : int or list of int, default=2
        Number of clusters; of several, the one with the largest balanced line fit of rows left out.
    tol : float, default=1e-6
        Distance of the eigenvalues from exact ones, as a share of the largest, up to which the certificate holds.
    kernels : list of kernels, default=None
        Kernels to choose from by the same criterion; None: ``kernel`` only.
    line_weight : float, default=0.75
        Share of the line fit in the criterion, from 0 to 1; the rest is the balance of the sizes of clusters.
    validation_fraction : float, default=0.3
        Share of the rows that are left out to choose; the components are those of all rows afterwards.
    random_state : int, RandomState or None, default=0
        Which rows are left out.

    Attributes
    ----------
    labels_ : array of shape (n_rows,)
        The cluster of every row, larger clusters first.
    code_book_ : array of shape (n_clusters, n_clusters - 1)
        The signs of the scores that stand for every cluster.
    n_clusters_ : int
        The number of clusters: fewer than asked for where fewer patterns of signs occur.
    eigenvalues_, support_values_, bias_ : arrays
        The components, as of :class:`~problems.LSSVMKernelPCA`.
    criterion_ : float
        The largest balanced line fit, where there was a choice.
    certificate_ : Certificate
        What is proved of the eigenvalues and of the subspace.

    Examples
    --------
    >>> import numpy as np
    >>> from problems import KernelSpectralClustering
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(20, 2)) + 8.0])
    >>> model = KernelSpectralClustering("rbf", 2).fit(X)
    >>> model.predict([[0.0, 0.0], [8.0, 8.0]]), model.certificate_.holds
    (array([0, 1]), True)
    """

    n_components: Any = field(default=None, init=False)
    n_clusters: Any = 2
    _: KW_ONLY
    kernels: Any = None
    line_weight: float = 0.75
    validation_fraction: float = 0.3
    random_state: Any = 0
    _page: ClassVar[str] = "kernel_spectral_clustering"
    _title: ClassVar[str] = "Kernel spectral clustering"
    _typical: ClassVar[Uses] = ({"n_clusters": 3}, {"n_clusters": [2, 3, 4]})
    _model_type: ClassVar[type[Any]] = ComponentsModel
    _on_devices: ClassVar[bool] = False
    _takes_weights: ClassVar[bool] = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the clusters of the rows of X; ``y`` is ignored."""
        self._begin_fit()
        counts = self._counts()
        share = _share(self.line_weight, "line_weight")
        _share(self.validation_fraction, "validation_fraction")
        rows = check_points(self, X)
        n = int(rows.X.shape[0])
        if max(counts) > n:
            raise DataError(f"n_clusters={max(counts)} exceeds the {n} rows; use at most {n}")
        if self.kernels is None and len(counts) == 1:
            kernel, clusters = self._resolved_kernel(rows.X), counts[0]
        else:
            best, tried = self._choose(rows.X, counts, share)
            kernel, clusters = best.kernel, best.clusters
            self.criterion_ = best.criterion
            self.candidate_kernels_ = [candidate.kernel for candidate in tried]
            self.candidate_clusters_ = np.array([candidate.clusters for candidate in tried])
            self.candidate_criteria_ = np.array([candidate.criterion for candidate in tried])
        matrix = kernel_matrix_of(kernel, rows.X)
        degrees = _degrees_of(matrix, kernel, rows.X)
        count = max(clusters - 1, 1)  # one cluster has one code too
        found = _components(matrix, kernel, rows.X, degrees, count)
        self.eigenvalues_, _ = scaled_components(found.bound, count)
        trace = found.operator.trace
        self.explained_variance_ratio_ = (
            np.minimum(self.eigenvalues_ / trace, 1.0) if trace > 0.0 else np.zeros_like(self.eigenvalues_)
        )
        scores = matrix.product(found.alpha) + found.bias
        book = CodeBook.of(scores, clusters)
        self.code_book_, self.n_clusters_ = book.codes, int(book.codes.shape[0])
        self.labels_ = book.assign(scores)
        self._state(found.bound, count, self._facts(kernel, clusters, book), all_equal(rows.X))
        self._keep_expansion(rows.X, rows.numbers, kernel, found.alpha, found.bias)
        return self

    def predict(self, X: Any) -> Array:
        """Return the cluster of every row: that of the code nearest to the signs of its scores."""
        check_is_fitted(self)
        return CodeBook(self.code_book_).assign(self._expansion(X))

    def codes(self, X: Any) -> Array:
        """Return the signs of the scores of rows, 1.0 or -1.0."""
        return signs_of(self._expansion(X))

    def _counts(self) -> list[int]:
        given = self.n_clusters
        if isinstance(given, (list, tuple, range, np.ndarray)) and len(given):
            return [check_count(count, "n_clusters", 2) for count in given]
        return [check_count(given, "n_clusters")]

    def _choose(self, X: Any, counts: list[int], share: float) -> tuple[_Candidate, list[_Candidate]]:
        """Return the candidate with the largest balanced line fit of rows left out, and all of them."""
        if is_sparse(X):
            raise DataError("a choice by rows left out needs dense rows; pass X.toarray(), or one n_clusters")
        given = [self.kernel] if self.kernels is None else list(self.kernels)
        if not given:
            raise DeclarationError("kernels is empty; give at least one, or None")
        candidates = [as_kernel(kernel) for kernel in given]
        if any(kernel.pairwise for kernel in candidates):
            raise DeclarationError(
                "a choice by rows left out needs points; with a precomputed kernel give one n_clusters"
            )
        n = int(X.shape[0])
        left_out = min(max(round(self.validation_fraction * n), 1), n - 2)
        order = check_random_state(self.random_state).permutation(n)
        held, train = np.sort(order[:left_out]), np.sort(order[left_out:])
        if max(counts) > train.size:
            raise DataError(f"n_clusters={max(counts)} exceeds the {train.size} rows that are not left out")
        tried = [
            _Candidate(kernel, clusters, criterion)
            for kernel in (kernel.resolved(X) for kernel in candidates)
            for clusters, criterion in zip(counts, _criteria(kernel, X[train], X[held], counts, share), strict=True)
        ]
        return max(tried, key=lambda candidate: candidate.criterion), tried

    def _facts(self, kernel: Kernel, clusters: int, book: CodeBook) -> tuple[tuple[str, str], ...]:
        facts = [("kernel", repr(kernel)), ("clusters", f"{book.codes.shape[0]} codes of {book.codes.shape[1]} signs")]
        if book.codes.shape[0] < clusters:
            facts.append(("fewer clusters", f"{clusters} were asked for, and no other pattern of signs occurs"))
        if hasattr(self, "criterion_"):
            facts.append(
                ("balanced line fit", f"{self.criterion_:.4f}, the largest of {self.candidate_criteria_.size}")
            )
        return tuple(facts)

    def _stored_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = super()._stored_shapes()
        return shapes | {
            "code_book_": (self.n_clusters_, self._n_features_out),
            "labels_": (int(self.support_.size),),
        }

    def _certify_rows(self, rows: PointRows) -> Certificate:
        if int(rows.X.shape[0]) != int(self.support_values_.shape[0]):
            raise DataError(
                f"this model was fitted to {self.support_values_.shape[0]} rows, X has {rows.X.shape[0]}; pass those"
            )
        matrix = kernel_matrix_of(self.kernel_, rows.X)
        degrees = _degrees_of(matrix, self.kernel_, rows.X)
        operator = _operator(matrix, self.kernel_, rows.X, degrees)
        rank, tolerance = int(np.sum(self.eigenvalues_ > 0.0)), self._tolerance()
        bound = prove_components(
            operator, stored_pairs(operator, self.eigenvalues_[:rank], self.support_values_[:, :rank])
        )
        labels = CodeBook(self.code_book_).assign(matrix.product(self.support_values_) + self.bias_)
        others = int(np.sum(labels != self.labels_))
        further = (
            bias_row(operator, self.bias_, self.support_values_, tolerance),
            Row(
                name="labels",
                value=float(others),
                scale=1.0,
                tolerance=0.0,
                formula="labels that differ from the codes",
            ),
        )
        book, count = CodeBook(self.code_book_), int(self.eigenvalues_.size)
        facts = self._facts(self.kernel_, self.n_clusters_, book)
        equal = all_equal(rows.X)
        return state_components(self._title, bound, count, tolerance, facts, equal).extended(*further)


def _share(value: Any, name: str) -> float:
    number = float(value) if isinstance(value, (int, float, np.floating)) and not isinstance(value, bool) else np.nan
    if not 0.0 < number <= 1.0 or (name == "validation_fraction" and number >= 1.0):
        raise DeclarationError(f"{name} must be a number above 0 and at most 1, received {value!r}")
    return number


def _degrees_of(matrix: SymmetricOperator, kernel: Kernel, X: Any) -> Degrees:
    return check_degrees(matrix.product(np.ones(matrix.n)), kernel, X)


def _operator(matrix: SymmetricOperator, kernel: Kernel, X: Any, degrees: Degrees) -> CentredOperator:
    operator = CentredOperator.of(matrix, kernel, X, degrees.weights)
    return replace(operator, matrix_error=operator.matrix_error + degrees.matrix_error)


def _components(matrix: SymmetricOperator, kernel: Kernel, X: Any, degrees: Degrees, count: int) -> _Found:
    operator = _operator(matrix, kernel, X, degrees)
    pairs, bound = find_components(operator, count)
    _, inverse_roots = scaled_components(bound, count)
    alpha = operator.support_values(orient(pairs.vectors[:, :count])) * inverse_roots
    return _Found(operator=operator, pairs=pairs, bound=bound, alpha=alpha, bias=operator.biases(alpha))


def _criteria(kernel: Kernel, X: Array, held: Array, counts: list[int], share: float) -> list[float]:
    """Return the balanced line fit of the rows left out for every number of clusters, from one decomposition."""
    matrix = kernel_matrix_of(kernel, X)
    found = _components(matrix, kernel, X, _degrees_of(matrix, kernel, X), max(counts) - 1)
    scores = matrix.product(found.alpha) + found.bias
    outside = expansion_values(kernel, X, found.alpha, found.bias, held)
    degrees = expansion_values(kernel, X, np.ones(X.shape[0]), 0.0, held)
    criteria = []
    for clusters in counts:
        book = CodeBook.of(scores[:, : clusters - 1], clusters)
        labels = book.assign(outside[:, : clusters - 1])
        criteria.append(balanced_line_fit(outside[:, : clusters - 1], degrees, labels, clusters, share))
    return criteria
