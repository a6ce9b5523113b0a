"""What estimators of components have in common: rows without targets, scores as an expansion, certificates of pairs."""

import math
from abc import abstractmethod
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from problems.estimators.shared.absent import Absent
from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.checked_again import StoredFit
from problems.estimators.shared.model import Model
from substrate.arrays import Array, is_sparse, refuse_disguised
from substrate.certificates import NO_BOUND, PROVED, Certificate, Row, warn_unless_holds
from substrate.certificates.rounding import relative_rounding
from substrate.device_gram import gram_kind
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel
from substrate.least_squares.stored_kernel import KernelTriangle
from substrate.namespaces import check_finite, device_numbers, is_device_array, namespace_of, on_device_of, to_numpy
from substrate.operators import SymmetricOperator
from substrate.spectral.centred_operator import CentredOperator, MeasuredOperator
from substrate.spectral.eigen_bound import EigenBound, bound_eigenpairs, eigen_certificate, prove_leading
from substrate.spectral.eigenpairs import Eigenpairs, leading_eigenpairs

__all__ = [
    "ComponentsModel",
    "Facts",
    "KernelComponents",
    "PointRows",
    "all_equal",
    "bias_row",
    "check_count",
    "check_points",
    "find_components",
    "kernel_matrix_of",
    "orient",
    "prove_components",
    "scaled_components",
    "state_components",
    "stored_pairs",
]

#: Number of rows up to which a fit factors a matrix of their order to count its eigenvalues; `certify` always does.
COUNTED_BELOW = 700


#: Bytes of a kernel matrix from which the half that is not read takes up no memory, for slower products.
_SMALL_PAGES_FROM = 2.0**29
#: Weights, and their inverses, from which squares and products with kernel values cannot leave the range of doubles.
_LEAST_WEIGHT = 1e-100
Facts = tuple[tuple[str, str], ...]


class PointRows(NamedTuple):
    """Rows of positive weight, their weights (None: all one), and their numbers among the rows given."""

    X: Any
    weights: Any
    numbers: Any


class ComponentsModel(Model):
    """Columns of one kernel expansion, each with its bias: the scores of components."""

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Refuse: there are no fitted values; ``certify`` checks eigenpairs."""
        raise DeclarationError(
            f"{type(self.estimator).__name__} has no fitted values; certify(X) checks its components"
        )

    def check_loaded(self) -> None:
        """Refuse inconsistent attributes of a fitted model read from a file."""
        super().check_loaded()
        model = self.estimator
        for name, shape in model._stored_shapes().items():
            received = np.shape(getattr(model, name))
            if received != shape:
                raise DataError(f"{name} has the shape {received}, where {shape} belongs to the other attributes")


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return a whole number of at least ``least``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        raise DeclarationError(f"{name} must be an integer >= {least}, received {value!r}")
    return int(value)


def check_points(estimator: Any, X: Any, sample_weight: Any = None, *, reset: bool = True) -> PointRows:
    """Return rows and weights, with scikit-learn's checks and a few more; rows of weight zero are left out."""
    if is_device_array(X):
        estimator._refuse_device()
        X = device_numbers(X, "X", (2,))
        check_finite(X=X)
        n = int(X.shape[0])
        if n < 2:
            raise DataError(f"at least two rows are needed, received {n}")
        if reset:
            estimator.n_features_in_ = int(X.shape[1])
        sample_weight = to_numpy(sample_weight)
    else:
        refuse_disguised(X, "X")
        X = validate_data(
            estimator, X, accept_sparse="csr", dtype=np.float64, order="C", ensure_min_samples=2, reset=reset
        )
    if sample_weight is None:
        return PointRows(X, None, np.arange(X.shape[0]))
    refuse_disguised(sample_weight, "sample_weight")
    host = np.empty((X.shape[0], 0)) if is_device_array(X) else X
    weights = np.asarray(_check_sample_weight(sample_weight, host, dtype=np.float64), dtype=np.float64)
    if (weights < 0.0).any():
        raise DataError(f"sample_weight must not be negative, received {weights.min()} at row {weights.argmin()}")
    counted = weights[weights > 0.0]
    if counted.size and not (counted.min() >= _LEAST_WEIGHT and counted.max() <= 1.0 / _LEAST_WEIGHT):
        raise DataError(
            f"sample_weight leaves the range of floating point, received {counted.min():g} to {counted.max():g}; "
            "multiply all weights by one number, and give rows that should not count a weight of zero"
        )
    kept = estimator._keep_weighted(X, on_device_of(X, weights), on_device_of(X, weights))
    return PointRows(kept.X, np.asarray(to_numpy(kept.weights)), kept.numbers)


def kernel_matrix_of(kernel: Kernel, X: Any) -> SymmetricOperator:
    """Return the kernel matrix: one triangle of it on the host; all of it on a device or where it is given."""
    if is_device_array(X) or kernel.pairwise:
        return gram_kind(X).of(kernel, X)
    return KernelTriangle.of(kernel, X, _SMALL_PAGES_FROM)


@dataclass(eq=False, repr=False)
class KernelComponents(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Base of the estimators with scores for new rows: ``transform`` is a kernel expansion with one column for each.

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
    #: A proof in ball arithmetic is one of fitted values, of which there are none.
    prove: ClassVar[Any] = Absent()
    _model_type: ClassVar[type[Model]] = ComponentsModel
    _on_devices: ClassVar[bool] = True

    def transform(self, X: Any) -> Any:
        """Return the scores of rows, one column per component."""
        return self._expansion(X)

    @property
    def _n_features_out(self) -> int:
        return int(self.support_values_.shape[1])

    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Check the present coefficients on the rows of the fit, given again, and count the eigenvalues by inertia.

        Everything is recomputed from ``X``, ``sample_weight`` (those of the fit) and what :meth:`transform` uses. A
        factorisation of a matrix of the order of the rows counts the eigenvalues above the next one, so that the
        components are proved to be the leading ones wherever rounding does not hide the gap behind them.
        """
        check_is_fitted(self)
        rows = check_points(self, X, sample_weight, reset=False)
        return self._certify_rows(rows)

    @abstractmethod
    def _certify_rows(self, rows: PointRows) -> Certificate:
        """Return the certificate of the stored components on the rows of the fit."""

    def _stored_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes that fitted attributes beside the expansion must have."""
        count = self._n_features_out
        return {"eigenvalues_": (count,), "explained_variance_ratio_": (count,)}

    def _state(self, bound: EigenBound, count: int, facts: Facts, equal_rows: bool) -> None:
        """Set the certificate of the fit, and warn unless it holds."""
        self.certificate_ = state_components(self._title, bound, count, self._tolerance(), facts, equal_rows)
        warn_unless_holds(self.certificate_)


def find_components(operator: CentredOperator, count: int) -> tuple[Eigenpairs, EigenBound]:
    """Return the leading eigenpairs, and what is proved of those that are larger than zero."""
    pairs = leading_eigenpairs(operator, count)
    return pairs, prove_components(operator, pairs, factorize=operator.n <= COUNTED_BELOW)


def prove_components(operator: MeasuredOperator, pairs: Eigenpairs, factorize: bool = True) -> EigenBound:
    """Bound the residual, keep as many pairs as are larger than zero, and count them; ``wanted`` says how many."""
    bound = bound_eigenpairs(operator, pairs)
    bound = replace(bound, wanted=int(np.sum(bound.values[: pairs.wanted] > bound.radius)))
    following = pairs.following if math.isfinite(pairs.following) else 0.0
    return prove_leading(bound, operator, following, factorize, pairs.remainder) if bound.wanted else bound


def state_components(
    title: str, bound: EigenBound, count: int, tolerance: float, facts: Facts, equal_rows: bool
) -> Certificate:
    """Return the certificate of components, of which ``bound.wanted`` are larger than rounding.

    ``equal_rows`` says whether all rows are one: then, and only then, nothing larger than rounding is no fault.
    """
    if bound.wanted == 0:
        row = Row(
            name="variance",
            value=0.0 if equal_rows else math.inf,
            scale=1.0,
            tolerance=0.0,
            formula="zero where all rows are equal",
        )
        if equal_rows:
            return Certificate(
                title, (row,), (*facts, (PROVED, f"all {count} eigenvalues are zero: the rows are equal"))
            )
        text = (
            f"no eigenvalue is larger than the rounding of the kernel values, {bound.radius:.1e}; subtract the means "
            "of the columns, or take a narrower kernel"
        )
        return Certificate(title, (row,), (*facts, (NO_BOUND, text), ("rounding", text)))
    certificate = eigen_certificate(title, bound, tolerance, facts)
    if bound.wanted < count:
        text = (
            f"{bound.wanted} of {count} components; the other eigenvalues cannot be told from zero, as their scores are"
        )
        certificate = certificate.extended(record=(("rank", text),))
    return certificate


def all_equal(X: Any) -> bool:
    """Return whether all rows are one, number by number."""
    if is_sparse(X):
        return bool(abs(X - X[[0] * X.shape[0]]).max() == 0.0)
    host = np.asarray(to_numpy(X))
    return bool((host == host[0]).all())


def scaled_components(bound: EigenBound, count: int) -> tuple[Array, Array]:
    """Return the eigenvalues of ``count`` components, zeros where none is proved, and one over their roots."""
    values, inverse_roots = np.zeros(count), np.zeros(count)
    values[: bound.wanted] = bound.values[: bound.wanted]
    inverse_roots[: bound.wanted] = 1.0 / np.sqrt(values[: bound.wanted])
    return values, inverse_roots


def orient(vectors: Array) -> Array:
    """Return columns whose largest entry by size is positive."""
    host = np.asarray(to_numpy(vectors))
    if not host.size:
        return vectors
    places = np.abs(host).argmax(axis=0)
    signs = np.sign(host[places, np.arange(host.shape[1])])
    oriented: Array = vectors * on_device_of(vectors, np.where(signs == 0.0, 1.0, signs))[None, :]
    return oriented


def stored_pairs(operator: CentredOperator, values: Array, support_values: Array) -> Eigenpairs:
    """Return the eigenpairs that unit support values alpha lambda^(1/2) stand for, with one product."""
    xp = namespace_of(support_values)
    U = support_values * on_device_of(support_values, np.sqrt(values))[None, :]
    if operator.root is not None:
        U = U / operator.root[:, None]
    products = operator.product(U) if values.size else U
    lengths = float(xp.linalg.vector_norm(U))
    following = leading_eigenpairs(operator, max(int(values.size), 1))
    behind = following.values[values.size :] if following.values.size > values.size else [following.following]
    return Eigenpairs(
        values=np.asarray(values),
        vectors=U,
        products=products,
        wanted=int(values.size),
        following=float(behind[0]),
        product_error=operator.product_error * max(lengths, 1.0),
        steps=0,
        remainder=following.remainder,
    )


def bias_row(operator: CentredOperator, bias: Array, support_values: Array, tolerance: float) -> Row:
    """Return the row that compares the stored biases with -v'K alpha / 1'v."""
    again = np.asarray(to_numpy(operator.biases(support_values)))
    scale = float(np.abs(to_numpy(operator.mean_row)) @ np.abs(to_numpy(support_values)).max(axis=1, initial=0.0))
    rounding = relative_rounding(4.0 * operator.n)
    return Row(
        name="bias",
        value=float(np.max(np.abs(again - np.asarray(to_numpy(bias))), initial=0.0)),
        scale=max(scale, float(np.abs(again).max(initial=0.0))),
        tolerance=max(tolerance, rounding) if math.isfinite(rounding) else tolerance,
        formula="|b + v'K alpha / 1'v|",
    )
