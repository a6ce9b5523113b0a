r"""Kernel principal components and kernel spectral clustering: eigenproblems of one kernel matrix.

.. math:: \max_{w, e} \; \tfrac{\gamma}{2} \sum_i v_i e_i^2 - \tfrac12 w^T w \quad \text{s.t.} \quad
          e_i = w^T (\varphi(x_i) - \bar\varphi)

[Suykens2003]_, and with the inverse degrees as weights v [Alzate2010]_; see :mod:`problems.kernel_pca` and
:mod:`problems.kernel_spectral_clustering` for the problems and :mod:`substrate.spectral` for what is proved.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from problems.estimators.reduced_fit import basis_choice
from problems.estimators.shared.base import KernelEstimator, Uses, WeightedRows, check_weights
from substrate.arrays import (
    Array,
    is_sparse,
    refuse_disguised,
    whole_number,
)
from substrate.basis import Basis
from substrate.certificate import Certificate, Row, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel
from substrate.operators.basis_choice import chosen_basis
from substrate.operators.sources import ArraySource, Source, source_of, streams, width_rows
from substrate.spectral import (
    BasisMoments,
    Centred,
    CodeBook,
    Components,
    Facts,
    balanced_line_fit,
    centre,
    centre_by_degrees,
    find_components,
    orient,
    state_components,
)

__all__ = [
    "KernelComponents",
    "KernelSpectralClustering",
    "LSSVMKernelPCA",
    "check_points",
]

#: The angle by which a component may be off for its signs to be the codes of clusters.
_TURN = 1e-2

#: Weights, and their inverses, from which squares and products with kernel values cannot leave the range of doubles.
_LEAST_WEIGHT = 1e-100


def check_points(estimator: Any, X: Any, sample_weight: Any = None, *, reset: bool = True) -> WeightedRows:
    """Return rows and weights (None: all one), with scikit-learn's checks and a few more; rows of weight zero are left
    out.
    """
    X = estimator._check_points(X, reset=reset, ensure_min_samples=2)
    if sample_weight is None:
        return WeightedRows(X, None, None, np.arange(X.shape[0]), X.shape[0])
    refuse_disguised(sample_weight, "sample_weight")
    weights = check_weights(sample_weight, X)
    kept = estimator._weighted(X, weights, weights)
    if kept.weights.min() < _LEAST_WEIGHT or kept.weights.max() > 1.0 / _LEAST_WEIGHT:
        raise DataError(
            f"sample_weight leaves the range of floating point, received {kept.weights.min():g} to "
            f"{kept.weights.max():g}; multiply all weights by one number, and give rows that should not count a weight "
            "of zero"
        )
    return kept


@dataclass(eq=False, repr=False)
class KernelComponents(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """A base of the estimators with scores for new rows; ``transform`` evaluates a kernel expansion per component.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of :mod:`substrate.kernels`, its name, or a function of two point sets.
    n_components : int, default=2
        Number of components.
    tol : float, default=1e-6
        Distance of the eigenvalues from exact ones, as a share of the largest, up to which the certificate holds.
    """

    n_components: int = 2
    _: KW_ONLY

    @property
    def prove(self) -> Any:
        """Raise an AttributeError: a proof in ball arithmetic is of fitted values, of which there are none."""
        raise AttributeError(f"{type(self).__name__} has no fitted values to prove; see certify")

    def transform(self, X: Any) -> Any:
        """Return the scores of rows, one column per component."""
        return self._expansion(X)

    @property
    def _n_features_out(self) -> int:
        return int(self.support_values_.shape[1])

    def _keep_values(self, components: Components, facts: Facts, equal_rows: bool, *further: Row) -> None:
        """Set the eigenvalues and the certificate of the fit, and warn unless it holds."""
        self.eigenvalues_, self.explained_variance_ratio_ = components.padded(components.values), components.shares
        certificate = state_components(self._title, components, self._tolerance(), facts, equal_rows)
        self.certificate_ = certificate.extended(*further)
        warn_unless_holds(self.certificate_)

    def _check_again_points(self, X: Any, sample_weight: Any = None) -> WeightedRows:
        """Return the rows of the fit, given again."""
        check_is_fitted(self)
        rows, n = check_points(self, X, sample_weight, reset=False), int(self.support_values_.shape[0])
        if int(rows.X.shape[0]) != n:
            raise DataError(f"this model was fitted to {n} rows, X has {rows.X.shape[0]}; pass those")
        return rows

    def _certify_centred(self, centred: Centred, X: Any, facts: Facts) -> Certificate:
        """Return the certificate of the stored components of a centred matrix."""
        alpha, count, tolerance = self.support_values_, self._n_features_out, self._tolerance()
        values = self.eigenvalues_[self.eigenvalues_ > 0.0]
        vectors = alpha[:, : values.size] * np.sqrt(values) / centred.root[:, None]
        components = find_components(centred.matrix, centred.error, count, stored=(values, vectors))
        certificate = state_components(self._title, components, tolerance, facts, _all_equal(X))
        return certificate.extended(centred.bias_row(self.bias_, alpha, tolerance))


@dataclass(eq=False, repr=False)
class LSSVMKernelPCA(KernelComponents):
    """Kernel principal component analysis, with a certificate of its eigenvalues and of their subspace [Suykens2003]_.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of :mod:`substrate.kernels`, its name, or a function of two point sets.
    n_components : int, default=2
        Number of components. Those beyond the rank of the centred kernel matrix have the eigenvalue zero, and scores
        of zero.
    tol : float, default=1e-6
        Distance of the eigenvalues from exact ones, as a share of the largest, up to which the certificate holds.
    basis : Basis, int, str, array of int, or array of points, default=None
        None: all rows are in the expansion. Otherwise the few vectors whose span holds the components, as for
        :class:`~problems.LSSVMRegressor`; rows are then read block by block, and may be a Dask collection, or
        an iterable of blocks that can be iterated again.

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components,)
        Of the centred kernel matrix with its weights, largest first: gamma is 1/eigenvalue in the problem of each.
    explained_variance_ratio_ : array of shape (n_components,)
        Their shares of the trace; on a basis, of the variance within its span.
    support_values_ : array of shape (n_rows, n_components)
        Coefficients of the expansion; on a basis, of its vectors.
    bias_ : array of shape (n_components,)
        The biases, by which the scores of the training rows have the mean zero.
    certificate_ : Certificate
        What is proved of the eigenvalues and of the subspace.

    Examples
    --------
    >>> import numpy as np
    >>> from problems import LSSVMKernelPCA
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> model = LSSVMKernelPCA("rbf", 2).fit(X)
    >>> model.transform(X).shape, model.certificate_.holds
    ((100, 2), True)
    """

    _: KW_ONLY
    basis: Any = None
    _page: ClassVar[str] = "kernel_pca"
    _title: ClassVar[str] = "Kernel PCA"
    _typical: ClassVar[Uses] = ({"n_components": 3}, {"basis": 8})

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components of the rows of X; ``y`` is ignored.

        ``sample_weight`` multiplies the squared scores of the rows: a row of weight two is two rows.
        """
        self._begin_fit()
        count = whole_number(self.n_components, "n_components", 1)
        if self.basis is not None:
            return self._fit_on_basis(X, basis_choice(self.basis), count, sample_weight)
        if streams(X):
            raise DeclarationError(
                "rows that are read in passes need a basis, whose vectors the components are made of; give basis=200, "
                "or an array"
            )
        rows = check_points(self, X, sample_weight)
        n = int(rows.X.shape[0])
        if count > n - 1:
            raise DataError(f"n_components={count} exceeds what the {n} rows have; use at most {n - 1}")
        kernel = self._resolved_kernel(rows.X)
        centred = centre(kernel, rows.X, rows.weights)
        components = find_components(centred.matrix, centred.error, count)
        alpha, bias, _ = centred.expand(components)
        self._keep_values(components, _facts(kernel, n), _all_equal(rows.X))
        self._keep_expansion(rows.X, rows.numbers, kernel, alpha, bias)
        return self

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the present coefficients on the rows of the fit, given again.

        Everything is recomputed from the ``X`` and ``sample_weight`` of the fit and what :meth:`transform` uses, and
        all eigenvalues are computed, so that the components are proved to be the leading ones. On a basis the rows are
        read once more.
        """
        check_is_fitted(self)
        if not hasattr(self, "basis_rank_"):
            return self._certify_all_rows(X, sample_weight)
        source, weights, _ = self._open(X, sample_weight, reset=False)
        moments = BasisMoments.of(self.kernel_, self.support_vectors_, source, weights)
        beta, tolerance = self.support_values_, self._tolerance()
        values = self.eigenvalues_[self.eigenvalues_ > 0.0]
        components = moments.components(self._n_features_out, (values, beta[:, : values.size]))
        facts = _basis_facts(self.kernel_, moments, f"{self.support_vectors_.shape[0]} vectors")
        again = moments.weights(beta).midpoint
        further = (
            moments.score_row(beta, float(self.eigenvalues_[0]), tolerance),
            Row(
                name="bias",
                value=float(np.max(np.abs(self.bias_ + moments.mean @ again))),
                scale=float(np.linalg.norm(moments.mean)),
                tolerance=max(tolerance, 1e-10),
                formula="|b + u'z|",
            ),
        )
        return state_components(self._title, components, tolerance, facts, _all_equal(X)).extended(*further)

    def _certify_all_rows(self, X: Any, sample_weight: Any) -> Certificate:
        if streams(X):
            raise DeclarationError("this model was fitted to an array; certify it on that")
        rows = self._check_again_points(X, sample_weight)
        centred = centre(self.kernel_, rows.X, rows.weights)
        certificate = self._certify_centred(centred, rows.X, _facts(self.kernel_, rows.numbers.size))
        if self.kernel_.pairwise:
            return certificate
        difference = rows.X - self.support_vectors_
        value = float(abs(difference).max())
        formula = "max |X - support vectors|"
        return certificate.extended(Row(name="rows of the fit", value=value, scale=1.0, tolerance=0.0, formula=formula))

    def _fit_on_basis(self, X: Any, choice: Basis, count: int, sample_weight: Any) -> Self:
        source, weights, numbers = self._open(X, sample_weight)
        kernel = self._resolved_kernel(source.take_rows(width_rows(source.n_rows)))
        if kernel.pairwise:
            raise DeclarationError("a basis needs points; with a precomputed kernel leave it out")
        basis = chosen_basis(choice, kernel, source, 1.0)
        points = basis.points
        moments = BasisMoments.of(kernel, points, source, weights)
        rank = moments.rank
        if count > rank:
            raise DataError(
                f"n_components={count} exceeds what the basis of {points.shape[0]} vectors, of rank {rank}, has; use "
                f"at most {rank}"
            )
        components = moments.components(count)
        beta = components.padded(orient(moments.transform @ components.vectors))
        bias = -(moments.mean @ moments.weights(beta).midpoint)
        scores = moments.score_row(beta, float(components.values.max(initial=0.0)), self._tolerance())
        self._keep_values(components, _basis_facts(kernel, moments, basis.description), _all_equal(X), scores)
        self.basis_rank_, self.n_rows_ = rank, moments.rows
        support = np.arange(points.shape[0]) if basis.rows is None else numbers[basis.rows]
        self._keep_expansion(points, np.asarray(support), kernel, beta, bias)
        return self

    def _open(self, X: Any, sample_weight: Any, *, reset: bool = True) -> tuple[Source, Any, Any]:
        """Return the source of the rows, their weights, and the numbers of the rows that count."""
        if not streams(X):
            rows = check_points(self, X, sample_weight, reset=reset)
            if is_sparse(rows.X):
                raise DataError("components on a basis need dense rows; pass X.toarray(), or leave basis out")
            return ArraySource(rows.X, None), rows.weights, rows.numbers
        if sample_weight is not None:
            raise DataError("rows that are read in passes have no sample_weight here; leave it out, or give an array")
        source = source_of(X)
        if source.n_rows < 2:
            raise DataError(f"at least two rows are needed, {source.name} has {source.n_rows}")
        self._keep_columns(source)
        return source, None, np.arange(source.n_rows)


@dataclass(eq=False, repr=False)
class KernelSpectralClustering(ClusterMixin, KernelComponents):
    """Spectral clustering as a weighted LS-SVM, which also assigns rows that were not in the fit [Alzate2010]_.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel without negative values: rows are weighted by the inverses of their sums of kernel values.
    n_clusters : int, default=2
        Number of clusters; :meth:`score` of rows that were not in the fit says how well it, and the kernel, fit.
    tol : float, default=1e-6
        Distance of the eigenvalues from exact ones, as a share of the largest, up to which the certificate holds.

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
    n_clusters: int = 2
    _: KW_ONLY
    _page: ClassVar[str] = "kernel_spectral_clustering"
    _title: ClassVar[str] = "Kernel spectral clustering"
    _typical: ClassVar[Uses] = ({"n_clusters": 3},)
    _takes_weights: ClassVar[bool] = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the clusters of the rows of X; ``y`` is ignored."""
        self._begin_fit()
        clusters = whole_number(self.n_clusters, "n_clusters", 1)
        rows = check_points(self, X)
        n = int(rows.X.shape[0])
        if clusters > n:
            raise DataError(f"n_clusters={clusters} exceeds the {n} rows; use at most {n}")
        kernel = self._resolved_kernel(rows.X)
        count = max(clusters - 1, 1)  # one cluster has one code too
        centred = centre_by_degrees(kernel, rows.X)
        components = find_components(centred.matrix, centred.error, count)
        alpha, bias, scores = centred.expand(components)
        book = CodeBook.of(scores, clusters)
        self.code_book_, self.n_clusters_ = book.codes, int(book.codes.shape[0])
        self.labels_ = book.assign(scores)
        signs = Row(
            name="signs",
            value=components.turn,
            scale=1.0,
            tolerance=_TURN,
            formula="rho / least gap of the eigenvalues; a wider kernel parts them",
        )
        self._keep_values(components, self._facts(kernel, clusters), _all_equal(rows.X), signs)
        self._keep_expansion(rows.X, rows.numbers, kernel, alpha, bias)
        return self

    def predict(self, X: Any) -> Array:
        """Return the cluster of every row, by the code nearest to the signs of its scores."""
        check_is_fitted(self)
        return CodeBook(self.code_book_).assign(self._expansion(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the balanced line fit of rows, one for clusters on lines and of one size; ``y`` is ignored.

        Of rows that were not in the fit it chooses the number of clusters and the kernel, by ``GridSearchCV`` too
        [Alzate2010]_.
        """
        check_is_fitted(self)
        rows = self._new_points(X)
        scores, points = self._evaluate(rows), None if self.kernel_.pairwise else self.support_vectors_
        degrees = self.kernel_.expansion_values(points, np.ones(self.support_.size), 0.0, rows, self.support_)
        return balanced_line_fit(scores, degrees, CodeBook(self.code_book_).assign(scores), max(self.n_clusters_, 2))

    def _facts(self, kernel: Kernel, clusters: int) -> Facts:
        codes, signs = self.code_book_.shape
        facts = [("kernel", repr(kernel)), ("clusters", f"{codes} codes of {signs} signs")]
        if codes < clusters:
            facts.append(("fewer clusters", f"{clusters} were asked for, and no other pattern of signs occurs"))
        return tuple(facts)

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the present coefficients and labels on the rows of the fit, given again, with all eigenvalues."""
        rows = self._check_again_points(X, sample_weight)
        facts = self._facts(self.kernel_, self.n_clusters_)
        certificate = self._certify_centred(centre_by_degrees(self.kernel_, rows.X), rows.X, facts)
        scores = self.kernel_(rows.X) @ self.support_values_ + self.bias_
        others = float(np.sum(CodeBook(self.code_book_).assign(scores) != self.labels_))
        formula = "labels that differ from the codes"
        return certificate.extended(Row(name="labels", value=others, scale=1.0, tolerance=0.0, formula=formula))


def _all_equal(X: Any) -> bool:
    """Return whether all rows are equal, number by number; not checked for rows that are read in passes."""
    if streams(X):
        return False
    if is_sparse(X):
        return bool(abs(X - X[[0] * X.shape[0]]).max() == 0.0)
    return bool((np.asarray(X) == np.asarray(X)[0]).all())


def _facts(kernel: Kernel, n: int) -> Facts:
    return (("kernel", repr(kernel)), ("matrix", f"{n} x {n}, centred"))


def _basis_facts(kernel: Kernel, moments: BasisMoments, description: str) -> Facts:
    return (
        ("kernel", repr(kernel)),
        ("basis", f"{description}; rank {moments.rank}, sums over {moments.rows} rows"),
        (
            "all rows",
            f"no eigenvalue of the centred kernel matrix of all rows exceeds its own here by more than "
            f"{moments.unreached:.2e}",
        ),
        (
            "of the basis",
            f"rounding changes its eigenvalues by at most {moments.error:.2e}, and directions that are left out of it "
            f"by {moments.lost:.2e}; where that is too much, subtract the means of the columns or take fewer vectors",
        ),
    )
