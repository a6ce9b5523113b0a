r"""Kernel principal components as an LS-SVM: the directions of feature space in which the rows spread most.

.. math:: \max_{w, e} \; \tfrac{\gamma}{2} \sum_i v_i e_i^2 - \tfrac12 w^T w \quad \text{s.t.} \quad
          e_i = w^T (\varphi(x_i) - \bar\varphi)

[Suykens2003]_; see :mod:`problems.kernel_pca` for the problem, :mod:`substrate.spectral.eigenpairs` for the method and
:mod:`substrate.spectral.eigen_bound` for what is proved.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from problems.estimators.shared.base import KernelEstimator, Uses
from problems.estimators.spectral.components import (
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
from substrate.arrays import Array, is_sparse, refuse_disguised
from substrate.certificates import Certificate, Row
from substrate.certificates.rounding import at_most
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel
from substrate.least_squares.robust_weights import check_choice
from substrate.namespaces import is_device_array, namespace_of, on_device_of, to_numpy
from substrate.reduced import Basis
from substrate.reduced.choice import chosen_basis
from substrate.reduced.features import EigenFeatures
from substrate.spectral.centred_operator import CentredOperator
from substrate.spectral.eigen_bound import EigenBound
from substrate.spectral.eigenpairs import Eigenpairs, eigenpairs_of_matrix
from substrate.spectral.moments import FeatureMoments, feature_moments
from substrate.spectral.pre_images import PreImageMap, fit_pre_images, follow_fixed_point, refuse_other_kernels
from substrate.streaming.array_source import ArraySource, width_rows
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import LEAF, Source, streams
from substrate.streaming.sources import source_of

__all__ = ["LSSVMKernelPCA"]


_ON_A_BASIS = "components on a basis need dense rows; pass X.toarray(), or leave basis out"


def _read_basis(value: Any) -> Any:
    return None if value is None else Basis.of(value)


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
        :class:`~problems.SparseLSSVMRegressor`; rows are then read block by block, and may be a Dask collection, or
        an iterable of blocks that can be iterated again.
    fit_inverse_transform : bool, default=False
        Whether :meth:`inverse_transform` and :meth:`denoise` are to be used: training scores are kept, and the function
        from scores to rows is fitted, which takes a few eigendecompositions of the order of the rows.
    pre_image : {"ridge", "fixed_point"}, default="ridge"
        How a point is found for scores: by regression, or by the fixed point of an RBF kernel, which starts there.

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components,)
        Of the centred kernel matrix with its weights, largest first: gamma is 1/eigenvalue in the problem of each.
    explained_variance_ratio_ : array of shape (n_components,)
        Their shares of the trace; on a basis, of the variance within its span.
    support_values_ : array of shape (n_rows, n_components)
        Coefficients of the expansion; on a basis, of its vectors.
    bias_ : array of shape (n_components,)
        What is added, so that the scores of the training rows have the mean zero.
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
    fit_inverse_transform: bool = False
    pre_image: Literal["ridge", "fixed_point"] = "ridge"
    _readers: ClassVar[Mapping[str, Callable[[Any], Any]]] = {**KernelEstimator._readers, "basis": _read_basis}
    _page: ClassVar[str] = "kernel_pca"
    _title: ClassVar[str] = "Kernel PCA"
    _typical: ClassVar[Uses] = ({"n_components": 3}, {"basis": 8}, {"fit_inverse_transform": True})

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components of the rows of X; ``y`` is ignored.

        ``sample_weight`` multiplies the squared scores of the rows: a row of weight two is two rows.
        """
        self._begin_fit()
        count = check_count(self.n_components, "n_components")
        check_choice(self.pre_image, ("ridge", "fixed_point"), "pre_image")
        choice = _read_basis(self.basis)
        if choice is not None:
            return self._fit_on_basis(X, choice, count, sample_weight)
        if streams(X):
            raise DeclarationError(
                "rows that are read in passes need a basis, whose vectors the components are made of; give basis=200, "
                "or an array"
            )
        rows = check_points(self, X, sample_weight)
        _refuse_count(count, int(rows.X.shape[0]) - 1, f"the {rows.X.shape[0]} rows")
        kernel = self._resolved_kernel(rows.X)
        self._refuse_inverse(kernel, rows.X)
        operator = CentredOperator.of(kernel_matrix_of(kernel, rows.X), kernel, rows.X, rows.weights)
        pairs, bound = find_components(operator, count)
        values, inverse_roots = scaled_components(bound, count)
        U = orient(pairs.vectors[:, :count])
        alpha = operator.support_values(U) * on_device_of(U, inverse_roots)[None, :]
        self.eigenvalues_ = values
        self.explained_variance_ratio_ = _shares(values, operator.trace)
        bias = operator.biases(alpha)
        if self.fit_inverse_transform:
            scores = np.asarray(U) * np.sqrt(values)
            if rows.weights is not None:
                scores = scores / np.sqrt(rows.weights)[:, None]
            self._keep_pre_images(fit_pre_images(scores, rows.X))
            shares = np.full(scores.shape[0], 1.0 / scores.shape[0]) if rows.weights is None else rows.weights
            self.mean_coefficients_ = shares / shares.sum()
        self._state(bound, count, _facts(kernel, pairs.steps, operator.n), all_equal(rows.X))
        self._keep_expansion(rows.X, rows.numbers, kernel, alpha, bias)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return the scores of the same rows, without kernel values beside those of the fit."""
        self.fit(X, y, **fit_params)
        if not hasattr(self, "basis_rank_") and fit_params.get("sample_weight") is None:
            roots = on_device_of(self.support_values_, self.eigenvalues_)
            return self.support_values_ * roots[None, :]  # e = K alpha + b = lambda alpha
        return self.transform(X)

    def inverse_transform(self, Z: Any) -> Array:
        """Return a point for every row of scores, as ``pre_image`` says; needs ``fit_inverse_transform=True``."""
        check_is_fitted(self)
        if not hasattr(self, "preimage_values_"):
            raise DeclarationError("inverse_transform needs a fit with fit_inverse_transform=True")
        check_choice(self.pre_image, ("ridge", "fixed_point"), "pre_image")
        refuse_disguised(Z, "Z")
        scores = check_array(Z, dtype=np.float64, input_name="Z")
        if scores.shape[1] != self._n_features_out:
            raise DataError(f"Z has {scores.shape[1]} columns, this model has {self._n_features_out} components")
        by_ridge = PreImageMap(
            kernel=self.preimage_kernel_,
            scores=self.preimage_scores_,
            coefficients=self.preimage_values_,
            bias=self.preimage_bias_,
            left_out=float("nan"),
        )
        points = by_ridge(scores)
        if self.pre_image == "ridge":
            return points
        coefficients = scores @ self.support_values_.T + self.mean_coefficients_
        return follow_fixed_point(self.kernel_, self.support_vectors_, coefficients, points)

    def denoise(self, X: Any) -> Array:
        """Return the points nearest to the components of rows: the pre-images of their scores."""
        return self.inverse_transform(self.transform(X))

    def count_above(self, X: Any, threshold: float, sample_weight: Any = None) -> tuple[int, float]:
        """Count the eigenvalues of the centred kernel matrix of the training rows above a threshold, by inertia.

        Returns the count and a radius: at most so many are above ``threshold + radius``, and at least so many are not
        below ``threshold - radius``, with all rounding counted.
        """
        from substrate.spectral.inertia import count_above

        check_is_fitted(self)
        self._refuse_basis("count_above")
        rows = check_points(self, X, sample_weight, reset=False)
        operator = CentredOperator.of(kernel_matrix_of(self.kernel_, rows.X), self.kernel_, rows.X, rows.weights)
        counted = count_above(operator.dense(), float(threshold), operator.product_error + operator.matrix_error)
        return counted.count, counted.radius

    def _certify_rows(self, rows: PointRows) -> Certificate:
        if hasattr(self, "basis_rank_"):
            return self._certify_on_basis(rows)
        if int(rows.X.shape[0]) != int(self.support_values_.shape[0]):
            raise DataError(
                f"this model was fitted to {self.support_values_.shape[0]} rows, X has {rows.X.shape[0]}; pass those"
            )
        operator = CentredOperator.of(kernel_matrix_of(self.kernel_, rows.X), self.kernel_, rows.X, rows.weights)
        rank = int(np.sum(self.eigenvalues_ > 0.0))
        facts = _facts(self.kernel_, 0, operator.n)
        further = (
            bias_row(operator, self.bias_, self.support_values_, self._tolerance()),
            _points_row(self, rows.X),
        )
        pairs = stored_pairs(operator, self.eigenvalues_[:rank], self.support_values_[:, :rank])
        bound = prove_components(operator, pairs)
        count = self._n_features_out
        equal = all_equal(rows.X)
        return state_components(self._title, bound, count, self._tolerance(), facts, equal).extended(*further)

    # ---- on a basis ------------------------------------------------------------------------------

    def _fit_on_basis(self, X: Any, choice: Basis, count: int, sample_weight: Any) -> Self:
        if self.fit_inverse_transform:
            raise DeclarationError("pre-images need all rows; leave basis or fit_inverse_transform out")
        choice = choice if choice.rule is not None else choice.with_params(rule="feature_vectors")
        source, weights, numbers = self._open(X, sample_weight)
        kernel = self._resolved_kernel(source.take_rows(width_rows(source.n_rows)))
        if kernel.pairwise:
            raise DeclarationError("a basis needs points; with a precomputed kernel leave it out")
        passes = OpenPasses()
        basis = chosen_basis(choice, kernel, source, passes, 1.0)
        points = basis.points
        moments, features = self._moments(kernel, points, source, weights)
        _refuse_count(count, moments.n, f"the basis of {points.shape[0]} vectors, of rank {moments.n},")
        pairs = eigenpairs_of_matrix(moments, count)
        bound = _prove_on_basis(moments, pairs)
        values, _ = scaled_components(bound, count)
        U = pairs.vectors[:, :count] * (np.arange(count) < bound.wanted)
        turned = np.asarray(to_numpy(features.transform)) @ U
        beta = orient(turned)
        signs = np.where(np.sum(beta * turned, axis=0) < 0.0, -1.0, 1.0)
        self.eigenvalues_ = values
        self.explained_variance_ratio_ = _shares(values, moments.trace)
        self.basis_rank_, self.n_rows_ = moments.n, moments.rows
        equal = _equal_blocks(source) if bound.wanted == 0 else False
        self._state(bound, count, _basis_facts(kernel, moments, basis.description), equal)
        support = np.arange(points.shape[0]) if basis.rows is None else numbers[basis.rows]
        beta, bias = on_device_of(points, beta), on_device_of(points, -(moments.mean @ U) * signs)
        self._keep_expansion(points, np.arange(points.shape[0]), kernel, beta, bias)
        self.support_ = np.asarray(support)
        return self

    def _moments(
        self, kernel: Kernel, points: Any, source: Source, weights: Any
    ) -> tuple[FeatureMoments, EigenFeatures]:
        if is_sparse(points):
            raise DataError(_ON_A_BASIS)
        return feature_moments(kernel, points, source, weights)

    def _open(self, X: Any, sample_weight: Any) -> tuple[Source, Any, Any]:
        """Return the source of the rows, their weights, and the numbers of the rows that count."""
        if not streams(X):
            rows = check_points(self, X, sample_weight)
            if is_sparse(rows.X):
                raise DataError(_ON_A_BASIS)
            return ArraySource(rows.X, None), rows.weights, rows.numbers
        if sample_weight is not None:
            raise DataError("rows that are read in passes have no sample_weight here; leave it out, or give an array")
        source = source_of(X)
        if source.n_rows < 2:
            raise DataError(f"at least two rows are needed, {source.name} has {source.n_rows}")
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, dtype=object)
        for _ in source.blocks(0, source.n_rows, LEAF):  # every block is checked before any work
            pass
        return source, None, np.arange(source.n_rows)

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the present coefficients on the rows of the fit, given again, and count the eigenvalues by inertia.

        Everything is recomputed from ``X``, ``sample_weight`` (those of the fit) and what :meth:`transform` uses. A
        factorisation of a matrix of the order of the rows counts the eigenvalues above the next one, so that the
        components are proved to be the leading ones wherever rounding does not hide the gap behind them. On a basis the
        rows are read once more.
        """
        check_is_fitted(self)
        if not streams(X):
            return super().certify(X, y, sample_weight)
        self._refuse_all_rows()
        source, weights, _ = self._open(X, sample_weight)
        return self._certify_source(source, weights)

    def _certify_on_basis(self, rows: PointRows) -> Certificate:
        return self._certify_source(ArraySource(rows.X, None), rows.weights)

    def _certify_source(self, source: Source, weights: Any) -> Certificate:
        moments, features = self._moments(self.kernel_, self.support_vectors_, source, weights)
        rank, tolerance = int(np.sum(self.eigenvalues_ > 0.0)), self._tolerance()
        # u from beta: s^(1/2) V'beta, and T'K_SS T is the identity
        values = self.kernel_(self.support_vectors_) @ self.support_values_[:, :rank]
        U, bias_stored = (np.asarray(to_numpy(array)) for array in (features.transform.T @ values, self.bias_))
        facts = _basis_facts(self.kernel_, moments, f"{self.support_vectors_.shape[0]} vectors")
        bias = Row(
            name="bias",
            value=float(np.max(np.abs(bias_stored[:rank] + moments.mean @ U), initial=0.0)),
            scale=float(np.linalg.norm(moments.mean)),
            tolerance=max(tolerance, 1e-10),
            formula="|b + u'z|",
        )
        found = eigenpairs_of_matrix(moments, max(rank, 1))
        pairs = Eigenpairs(
            values=self.eigenvalues_[:rank],
            vectors=U,
            products=moments.product(U),
            wanted=rank,
            following=float(found.values[rank]) if found.values.size > rank else found.following,
            product_error=found.product_error,
            steps=0,
        )
        bound = _prove_on_basis(moments, pairs)
        count, equal = self._n_features_out, _equal_blocks(source) if bound.wanted == 0 else False
        return state_components(self._title, bound, count, tolerance, facts, equal).extended(bias)

    def _stored_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = super()._stored_shapes()
        if hasattr(self, "preimage_values_"):
            n, count = self.support_values_.shape
            shapes |= {
                "preimage_values_": (n, self.n_features_in_),
                "preimage_scores_": (n, count),
                "preimage_bias_": (self.n_features_in_,),
                "mean_coefficients_": (n,),
            }
        return shapes

    # ---- refusals --------------------------------------------------------------------------------

    def _refuse_basis(self, what: str) -> None:
        if hasattr(self, "basis_rank_"):
            raise DeclarationError(f"{what} is of the kernel matrix of all rows; this model was fitted on a basis")

    def _refuse_all_rows(self) -> None:
        if not hasattr(self, "basis_rank_"):
            raise DeclarationError("this model was fitted to an array; certify it on that")

    def _refuse_inverse(self, kernel: Kernel, X: Any) -> None:
        """Refuse before any work what pre-images cannot be found for."""
        if not self.fit_inverse_transform:
            return
        if is_sparse(X) or is_device_array(X) or kernel.pairwise:
            raise DeclarationError(
                "pre-images are points of numpy: fit_inverse_transform=True needs dense rows, and no precomputed kernel"
            )
        if self.pre_image == "fixed_point":
            refuse_other_kernels(kernel)

    def _keep_pre_images(self, found: PreImageMap) -> None:
        self.preimage_kernel_, self.preimage_scores_ = found.kernel, found.scores
        self.preimage_values_, self.preimage_bias_ = found.coefficients, found.bias
        self.preimage_error_ = found.left_out


def _refuse_count(count: int, most: int, what: str) -> None:
    if count > most:
        raise DataError(f"n_components={count} exceeds what {what} have, {most} directions; use at most {most}")


def _shares(values: Array, trace: float) -> Array:
    return np.minimum(values / trace, 1.0) if trace > 0.0 else np.zeros_like(values)


def _facts(kernel: Kernel, steps: int, n: int) -> tuple[tuple[str, str], ...]:
    how = (
        f"{steps} products with the kernel matrix, by Lanczos"
        if steps
        else "one dense decomposition or the stored pairs"
    )
    return (("kernel", repr(kernel)), ("matrix", f"{n} x {n}, centred; {how}"))


def _prove_on_basis(moments: FeatureMoments, pairs: Eigenpairs) -> EigenBound:
    """Return what is proved of components in the span of a basis, with what was left out of it."""
    bound = prove_components(moments, pairs)
    largest = float(np.abs(bound.values).max(initial=0.0)) + bound.radius
    return replace(bound, outside=at_most(math.sqrt(largest * moments.lost)))


def _basis_facts(kernel: Kernel, moments: FeatureMoments, description: str) -> tuple[tuple[str, str], ...]:
    return (
        ("kernel", repr(kernel)),
        ("basis", f"{description}; rank {moments.n}, sums over {moments.rows} rows"),
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


def _equal_blocks(source: Source) -> bool:
    """Return whether all rows of a source are one."""
    first = source.take_rows(np.array([0]))[0, :]
    blocks = source.blocks(0, source.n_rows, LEAF)
    return all(bool(namespace_of(block.X).all(first[None, :] == block.X)) for block in blocks)


def _points_row(model: Any, X: Any) -> Row:
    """Return the row that compares the rows given with those of the expansion."""
    if model.kernel_.pairwise:
        value = 0.0
    else:
        difference = X - model.support_vectors_
        value = float(abs(difference if is_sparse(difference) else to_numpy(difference)).max())
    return Row(name="rows of the fit", value=value, scale=1.0, tolerance=0.0, formula="max |X - support vectors|")
