r"""Eigenproblems of kernel matrices: leading eigenpairs, clusters, pairs of two views, and what is proved of them.

Kernel PCA, kernel spectral clustering and the machines of two views are stationary points of one LS-SVM each, and their
conditions of optimality are eigenproblems. With weights :math:`v_i > 0` of the rows and
:math:`q = v^{1/2} / \|v^{1/2}\|`, the components are eigenvectors of the centred and weighted kernel matrix

.. math:: A = P\, S K S\, P, \qquad S = \operatorname{diag}(v^{1/2}), \quad P = I - q q^T ,

or, in the span of few features :math:`z(x)`, of their second moment :math:`\sum_i v_i (z_i - \bar z)(z_i - \bar z)^T`.

**What is proved.** Of computed pairs U, :math:`\Theta` of a symmetric A let :math:`\delta = \|U^T U - I\|` and, with
the orthonormal :math:`\tilde U = U (U^T U)^{-1/2}`,

.. math::

    \rho = \|A \tilde U - \tilde U \Theta\| \le
    \frac{\|A U - U \Theta\| + 2 \delta \|\Theta\| + \|\Delta A\| (1 + \delta)}{\sqrt{1 - \delta}} ,

in which rounding and the error :math:`\Delta A` of the entries of A are counted. In a basis that begins with
:math:`\tilde U`, A differs from the matrix with the blocks :math:`\Theta` and D by at most :math:`2 \rho`, where D is A
on the complement, and :math:`\|D\| \le f = \|A - U \Theta U^T\|_F`. So, by Weyl's inequality, the k leading eigenvalues
are within :math:`2 \rho` of the k leading values of :math:`\Theta` if the k-th of these exceeds f; no other exceeds
:math:`\max(\theta_{k+1}, f) + 2 \rho`; and the subspace is spanned by the k leading eigenvectors up to an angle whose
sine is :math:`\rho` over the gap between both ([Davis1970]_). Where all pairs were computed there is no D, and
:math:`\rho` takes the place of :math:`2 \rho`.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import Array, blas_threads
from substrate.certificate import NO_BOUND, PROVED, Certificate, Row
from substrate.errors import DataError
from substrate.kernels.kernel import Kernel
from substrate.numbers import Double, at_most, relative_rounding
from substrate.operators.sources import Source

__all__ = [
    "BasisMoments",
    "Centred",
    "CodeBook",
    "Components",
    "Pairs",
    "View",
    "balanced_line_fit",
    "centre",
    "centre_by_degrees",
    "check_degrees",
    "class_codes",
    "correlations",
    "decompose",
    "find_components",
    "find_pairs",
    "optimality_rows",
    "orient",
    "pairs_certificate",
    "signs_of",
    "state_components",
    "view_of",
]

Facts = tuple[tuple[str, str], ...]

#: Number of rows up to which all eigenpairs are computed.
ALL_BELOW = 700
#: Pairs that are computed in addition to the wanted ones, where not all are: they take their part of the remainder.
_FURTHER = 20
#: Defect of orthonormality beyond which nothing is said.
_MOST_DEFECT = 0.1
#: Norm of a matrix below which squares of its errors may leave the range of doubles.
_LEAST_NORM = 1e-130
#: Share of the largest eigenvalue of a basis below which directions are left out.
_CUT = 1e-10
#: Deviation of features from coordinates of an orthonormal basis beyond which nothing is said.
_MOST_DEVIATION = 0.05
#: Share of the largest singular value below which one that rounding explains is a zero.
_NO_DIRECTION = 1e-7
#: Share of the line fit in the criterion of clusters; the rest is their balance.
_LINES = 0.75


# ---- eigenpairs and their bounds ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Centred:
    """The matrix A, a bound on the norm of its error, the roots of the weights, and the weighted mean row of K."""

    matrix: Array
    error: float
    root: Array
    mean_row: Array

    def biases(self, support_values: Array) -> Array:
        """Return b = -v'K alpha / 1'v for every column alpha: the scores of the rows have the weighted mean zero."""
        return np.asarray(-(self.mean_row @ support_values))

    def expand(self, components: "Components") -> tuple[Array, Array, Array]:
        r"""Return support values :math:`S u \lambda^{-1/2}`, biases, and the scores :math:`S^{-1} u \lambda^{1/2}`."""
        roots, vectors = np.sqrt(components.values), orient(components.vectors)
        alpha = components.padded(self.root[:, None] * vectors / roots)
        return alpha, self.biases(alpha), components.padded(vectors * roots / self.root[:, None])

    def bias_row(self, bias: Any, support_values: Any, tolerance: float) -> Row:
        """Return the row that compares the stored biases with the biases of the stored support values."""
        alpha = np.asarray(support_values)
        value = np.max(np.abs(self.biases(alpha) - bias), initial=0.0)
        scale = float(np.max(np.abs(self.mean_row) @ np.abs(alpha), initial=0.0))
        tolerance = max(tolerance, relative_rounding(4.0 * self.root.size))
        return Row(name="bias", value=float(value), scale=scale, tolerance=tolerance, formula="|b + v'K alpha / 1'v|")


def centre(kernel: Kernel, X: Any, weights: Array | None = None) -> Centred:
    """Return the centred and weighted kernel matrix of rows, with the rounding of its entries."""
    K = np.array(kernel(X), dtype=np.float64)
    n = K.shape[0]
    v = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    root = np.sqrt(v)
    sizes = np.abs(np.asarray(kernel.envelope.diag(X), dtype=np.float64))
    error = kernel.value_rounding(X) * float(v @ sizes)
    mean_row = (v / v.sum()) @ K
    K *= root[:, None]
    K *= root
    size, q = float(np.linalg.norm(K)), root / np.linalg.norm(root)
    means = K @ q
    middle = 0.5 * float(q @ means) * q - means
    K += np.outer(q, middle)
    K += np.outer(middle, q)
    # scaling, two projections and a product of N terms lose at most 3N + 20 roundings of the norm
    error = at_most(error + relative_rounding(3.0 * n + 20.0) * size)
    return Centred(matrix=(K + K.T) / 2.0, error=error, root=root, mean_row=mean_row)


@dataclass(frozen=True, slots=True)
class Eigenpairs:
    """Eigenpairs of a symmetric matrix, largest first, with the residual rho, the defect of U and the norm of D.

    ``beyond`` is minus infinity where all pairs are there.
    """

    values: Array
    vectors: Array
    residual: float
    defect: float
    beyond: float

    @property
    def radius(self) -> float:
        """Return a bound on the distance of the eigenvalues of A from the eigenvalues of the blocks."""
        return self.residual if math.isinf(self.beyond) else 2.0 * self.residual


def decompose(matrix: Array, error: float = 0.0, count: int | None = None) -> Eigenpairs:
    """Return all eigenpairs of a matrix whose error is bounded, or the ``count`` leading ones and some more."""
    n, beyond = matrix.shape[0], -math.inf
    with blas_threads(n):
        values, vectors = _compute_pairs(matrix, n if count is None else count + _FURTHER)
        residual, defect = bound_residual(matrix, error, values, vectors)
        if values.size < n:
            beyond = at_most(bound_size(matrix - (Double(vectors) * values) @ vectors.T) + error)
    return Eigenpairs(values=values, vectors=vectors, residual=residual, defect=defect, beyond=beyond)


def _compute_pairs(matrix: Array, count: int) -> tuple[Array, Array]:
    """Return eigenpairs, largest first: the leading ones by iteration, or all where that is not much more work."""
    from scipy.linalg import eigh
    from scipy.sparse.linalg import ArpackError, eigsh

    n = matrix.shape[0]
    try:
        few = n > ALL_BELOW and 4 * count <= n
        start = np.random.default_rng(n).standard_normal(n)
        values, vectors = eigsh(matrix, count, which="LA", v0=start) if few else eigh(matrix, check_finite=False)
    except ArpackError:  # of a matrix of zeros, and where an iteration does not end
        values, vectors = eigh(matrix, check_finite=False)
    return values[::-1], np.ascontiguousarray(vectors[:, ::-1])


def bound_residual(matrix: Array, error: float, values: Array, vectors: Array) -> tuple[float, float]:
    """Bound the residual of eigenpairs and the defect of orthonormality of their vectors."""
    U, size, largest = Double(vectors), float(np.linalg.norm(matrix)), float(np.abs(values).max(initial=0.0))
    defect = bound_size(U.T @ U - np.eye(values.size))
    length = bound_size(Double(matrix) @ U - U * values)
    if not (defect <= _MOST_DEFECT and math.isfinite(length) and (size > _LEAST_NORM or size == 0.0)):
        return math.inf, defect
    turned = 2.0 * defect * largest * math.sqrt(1.0 + defect)
    return at_most((length + turned + error * (1.0 + defect)) / math.sqrt(1.0 - defect)), defect


@dataclass(frozen=True, slots=True)
class Components:
    """The leading eigenpairs and their bounds; ``values`` and ``vectors`` are larger than rounding.

    Parameters
    ----------
    values, vectors
        The eigenvalues, largest first, and their vectors.
    radius
        How far an exact eigenvalue is from each of them at most.
    residual
        A bound on the residual of the vectors, with their coupling to directions that were left out.
    following
        A number that no other eigenvalue exceeds; infinite where it is not proved that these are the leading ones.
    trace
        The trace of the matrix.
    count
        How many were asked for.
    """

    values: Array
    vectors: Array
    radius: float
    residual: float
    following: float
    trace: float
    count: int

    @property
    def angle(self) -> float:
        """Return a bound on the sine of the largest angle between the computed subspace and the exact one."""
        gap = float(self.values[-1]) - self.radius - self.following
        gap -= relative_rounding(4.0) * float(self.values[0])
        return at_most(self.residual / gap) if gap > 0.0 else math.inf

    @property
    def turn(self) -> float:
        """Return a bound on the sine of the angle of a single vector from the exact one: infinite where eigenvalues
        agree to rounding, so that their vectors can be turned into each other.
        """
        ends = self.values if math.isinf(self.following) else np.append(self.values, self.following)
        gap = float(np.min(-np.diff(ends), initial=math.inf)) - 2.0 * self.radius
        return at_most(self.residual / gap) if gap > 0.0 else math.inf

    def padded(self, array: Array) -> Array:
        """Return eigenvalues or vectors with zeros for those that cannot be told from zero."""
        return np.concatenate([array, np.zeros((*array.shape[:-1], self.count - self.values.size))], axis=-1)

    @property
    def shares(self) -> Array:
        """The shares of the trace."""
        return np.minimum(self.padded(self.values) / self.trace, 1.0) if self.trace > 0.0 else np.zeros(self.count)


def find_components(
    matrix: Array,
    error: float,
    count: int,
    *,
    stored: tuple[Array, Array] | None = None,
    coupling: float = 0.0,
) -> Components:
    """Return the leading eigenpairs that are larger than rounding, or the ``stored`` ones, with their bounds.

    ``coupling`` bounds the products of the vectors with directions that the matrix leaves out.
    """
    spectrum = decompose(matrix, error, count if stored is None else None)
    values, vectors = spectrum.values[:count], spectrum.vectors[:, :count]
    radius, residual = spectrum.radius, spectrum.residual
    if stored is not None:
        values, vectors = stored
        residual, _ = bound_residual(matrix, error, values, vectors)
        radius += float(np.max(np.abs(values - spectrum.values[: values.size]), initial=0.0))
    k = int(np.sum(values > radius)) if math.isfinite(radius) else 0
    following = float(spectrum.values[k]) if spectrum.values.size > k else 0.0
    following = max(following, spectrum.beyond) + spectrum.radius
    leading = k > 0 and float(spectrum.values[k - 1]) >= spectrum.beyond
    return Components(
        values=values[:k],
        vectors=vectors[:, :k],
        radius=at_most(radius),
        residual=at_most(residual + coupling),
        following=following if leading else math.inf,
        trace=float(np.trace(matrix)),
        count=count,
    )


def state_components(
    title: str, components: Components, tolerance: float, facts: Facts, equal_rows: bool
) -> Certificate:
    """Return the certificate of components.

    ``equal_rows`` says whether all rows are one: then, and only then, nothing larger than rounding is no fault.
    """
    rank, count = components.values.size, components.count
    if rank == 0:
        row = Row(
            name="variance",
            value=0.0 if equal_rows else math.inf,
            scale=1.0,
            tolerance=0.0,
            formula="zero where all rows are equal",
        )
        if equal_rows:
            promise = f"all {count} eigenvalues are zero: the rows are equal"
            return Certificate(title, (row,), (*facts, (PROVED, promise)))
        text = (
            f"no eigenvalue is larger than the rounding of the kernel values, {components.radius:.1e}; subtract the "
            "means of the columns, or take a narrower kernel"
        )
        return Certificate(title, (row,), (*facts, (NO_BOUND, text), ("rounding", text)))
    largest = float(components.values[0])
    rows = tuple(
        Row(name=name, value=value, scale=largest, tolerance=tolerance, formula=formula)
        for name, value, formula in (
            ("eigenvalues", components.radius, "rho or 2 rho, and the distance from eigenvalues of A"),
            ("components", components.residual, "rho = ||AU - U Theta||, with rounding"),
        )
    )
    text = f"{rank} eigenvalues within {components.radius:.1e} (the largest is {largest:.3g})"
    if not math.isfinite(components.following):
        text += "; that no larger one was missed is not proved"
        facts = (*facts, ("larger ones", "certify(X) computes all eigenvalues"))
    elif components.angle <= 1.0:
        text += f", proved to be the leading ones, their subspace within an angle of {components.angle:.1e}"
    else:
        text += ", proved to be the leading ones; the next one is as near, so the subspace of the last is not unique"
    if rank < count:
        zeros = f"{rank} of {count} components; the other eigenvalues cannot be told from zero, as their scores are"
        facts = (*facts, ("rank", zeros))
    return Certificate(title, rows, (*facts, (PROVED, text)))


def orient(vectors: Array) -> Array:
    """Return columns whose largest entry by size is positive."""
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.asarray(vectors * np.where(largest < 0.0, -1.0, 1.0))


# ---- components in the span of few features ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BasisMoments:
    r"""The centred second moment M of coordinates z(x) of the projections on the span of a basis, over all rows.

    With :math:`K_{SS} = V \operatorname{diag}(s) V^T` they are :math:`z(x) = T^T k_S(x)`, :math:`T = V s^{-1/2}`, for
    the eigenvalues that are not small. With :math:`E = T^T K_{SS} T - I`, coordinates in an orthonormal basis are
    :math:`(I + E)^{-1/2} z`, and where :math:`\|E\| \le 1/20` their second moment differs from M by at most
    :math:`1.2 \|E M\|`. Everything is computed from kernel values with a radius.

    Parameters
    ----------
    kernel, points, transform
        The kernel, the vectors of the basis and T.
    complete
        Whether T leaves out nothing but rounding.
    matrix, mean, mass
        M, the mean of the coordinates, and the sum of the weights.
    error
        A bound on the norm of the error of M.
    unreached
        A bound on the variance in directions that the coordinates leave out, times the mass: no eigenvalue of the
        centred kernel matrix of all rows exceeds the eigenvalue of M by more (Weyl); none is below it (Poincaré).
    reach
        The largest root of k(x, x) times the rounding of a sum of kernel values.
    rows
        The number of rows.
    """

    kernel: Kernel
    points: Any
    transform: Array
    complete: bool
    matrix: Array
    mean: Array
    mass: float
    error: float
    unreached: float
    reach: float
    rows: int

    @classmethod
    def of(cls, kernel: Kernel, points: Any, source: Source, weights: Array | None) -> Self:
        """Add up the moments of all rows, read once, about an origin near the mean."""
        K = kernel.enclose(points, points)
        values, vectors = np.linalg.eigh(K.midpoint)
        kept = values > _CUT * max(float(values[-1]), 0.0)
        rank, T = int(kept.sum()), vectors[:, kept] / np.sqrt(values[kept])
        origin, off = (K.midpoint @ T).mean(axis=0), Double(T.T) @ (K @ T) - np.eye(rank)
        sums, diagonal, rounding, longest = Double(np.zeros((rank + 1, rank + 1))), 0.0, 0.0, 0.0
        for block in source.blocks():
            X = np.asarray(block.X)
            v = np.ones(X.shape[0]) if weights is None else weights[block.rows]
            Z = (kernel.enclose(X, points) @ T - origin).beside(Double(np.ones((X.shape[0], 1))))
            sums = sums + (Z.T * v) @ Z
            heights = np.abs(np.asarray(kernel.diag(X)))
            diagonal += float(v @ heights)
            longest = max(longest, math.sqrt(float(heights.max(initial=0.0))))
            rounding = max(rounding, float(kernel.rounding(np.concatenate([X, points]))))
        inside, last = slice(rank), slice(rank, rank + 1)
        first, mass = sums.take((inside, last)), sums.take((last, last))
        scatter, mean = sums.take((inside, inside)) - first @ first.T / mass, first / mass + origin[:, None]
        about_zero = scatter + mean @ mean.T * mass
        every, share = np.arange(rank), rounding + relative_rounding(source.n_rows + 8.0)
        lost = Double(diagonal, share * diagonal) - about_zero.take((every, every)).total()
        near = bound_size(off) <= _MOST_DEVIATION
        return cls(
            kernel=kernel,
            points=points,
            transform=T,
            complete=bool(kept.all()) or rank == kernel.rank(points.shape[1]),
            matrix=(scatter.midpoint + scatter.midpoint.T) / 2.0,
            mean=mean.midpoint[:, 0],
            mass=float(mass.midpoint[0, 0]),
            error=bound_size(scatter.error()) + 1.2 * bound_size(off @ scatter) if near else math.inf,
            unreached=max(float(lost.upper()), 0.0) + 1.2 * math.sqrt(rank) * bound_size(off @ about_zero),
            reach=longest * (rounding + relative_rounding(points.shape[0] + 2.0)),
            rows=source.n_rows,
        )

    @property
    def rank(self) -> int:
        """The number of coordinates."""
        return int(self.transform.shape[1])

    @property
    def lost(self) -> float:
        r"""Return a bound on the variance in directions of the basis that were left out, times the mass.

        With coordinates Z that were kept and W that were left out, one column per row, the eigenvalues of all that the
        basis spans are the eigenvalues of :math:`Z^T Z + W^T W`, and the second term has at most this norm.
        """
        return 0.0 if self.complete else self.unreached

    def weights(self, coefficients: Array) -> Double:
        """Return the weights of the coordinates that coefficients of the points stand for."""
        return Double(self.transform.T) @ (self.kernel.enclose(self.points, self.points) @ coefficients)

    def components(self, count: int, stored: tuple[Array, Array] | None = None) -> Components:
        """Return the leading components, or the stored ones, with bounds that count what the basis leaves out.

        ``stored`` are eigenvalues and coefficients of the points.
        """
        largest = float(np.linalg.norm(self.matrix)) + self.error
        coupling, pairs = math.sqrt(largest * self.lost), None
        if stored is not None:
            weights = self.weights(stored[1])
            coupling, pairs = coupling + 2.0 * largest * bound_size(weights.error()), (stored[0], weights.midpoint)
        error = self.error + self.lost
        return find_components(self.matrix, error, count, stored=pairs, coupling=at_most(coupling))

    def score_row(self, coefficients: Array, largest: float, tolerance: float) -> Row:
        """Return the row that compares what rounding may change in the scores of a row with their deviation."""
        lengths = np.sqrt(np.abs(np.asarray(self.kernel.diag(self.points))))
        return Row(
            name="scores",
            value=at_most(self.reach * float(np.max(lengths @ np.abs(coefficients), initial=0.0))),
            scale=math.sqrt(largest / self.mass),
            tolerance=tolerance,
            formula="rounding of sum_j beta_j k(s_j, x), relative to (lambda / 1'v)^(1/2)",
        )


def bound_size(matrix: Double) -> float:
    """Bound the norm of an enclosed matrix by its Frobenius norm."""
    return at_most(float(np.linalg.norm(matrix.sizes)))


# ---- clusters ----------------------------------------------------------------------------------------------------


def check_degrees(sums: Array) -> Array:
    """Return the inverses of the sums of the kernel values of rows, refused where a sum is not positive."""
    values = np.asarray(sums, dtype=np.float64)
    if not (values > 0.0).all() or not np.isfinite(values).all():
        worst = int(np.argmin(values))
        raise DataError(
            f"clustering weighs rows by their inverse degrees, and the kernel values of row {worst} sum to "
            f"{values[worst]:.3g}; use a kernel without negative values, for instance an RBF"
        )
    return np.asarray(1.0 / values)


def centre_by_degrees(kernel: Kernel, X: Any) -> Centred:
    """Return the kernel matrix centred and weighted by inverse degrees, with the rounding of these.

    A relative error r of the weights changes scaling by r/2 on either side and the direction that is projected out by
    r, of a matrix whose norm is at most the largest sum over a row of :math:`D^{-1} |K|`.
    """
    K = np.asarray(kernel(X))
    weights = check_degrees(K.sum(axis=1))
    centred, sizes = centre(kernel, X, weights), np.abs(K).sum(axis=1) * weights
    relative = relative_rounding(K.shape[0] + 4.0) * float(sizes.max())
    heights = np.sqrt(np.abs(np.asarray(kernel.diag(X))))
    relative += kernel.rounding(X) * float(np.max(heights * heights.sum() * weights))
    return replace(centred, error=at_most(centred.error + 6.0 * relative * float(sizes.max())))


@dataclass(frozen=True, slots=True)
class CodeBook:
    r"""The codes of clusters, one row of signs each, in descending order of their training rows.

    With the weights :math:`v_i = 1/d_i`, :math:`d_i = \sum_j k(x_i, x_j)`, the support values of a component are
    constant over a cluster where clusters do not touch each other, and k clusters have k patterns of signs over k - 1
    components ([Alzate2010]_ section 4).
    """

    codes: Array

    @classmethod
    def of(cls, scores: Array, clusters: int) -> "CodeBook":
        """Return the codes that most rows have; fewer than ``clusters`` if there are fewer codes.

        :place [Alzate2010]_ code book: the most frequent sign patterns of the training scores
        """
        codes, counts = np.unique(signs_of(scores), axis=0, return_counts=True)
        order = np.lexsort((np.arange(counts.size), -counts))
        return cls(codes[order[:clusters]])

    def assign(self, scores: Array) -> Array:
        """Return the number of the nearest code of every row; of equally near codes, the one with more training rows.

        :place [Alzate2010]_ out-of-sample extension: the code at the smallest Hamming distance
        """
        distances = (signs_of(scores)[:, None, :] != self.codes[None, :, :]).sum(axis=2)
        return np.asarray(distances.argmin(axis=1))


def signs_of(scores: Array) -> Array:
    """Return 1.0 and -1.0; zero counts as positive."""
    return np.where(np.asarray(scores) < 0.0, -1.0, 1.0)


def balanced_line_fit(
    scores: Array, degrees: Array, labels: Array, clusters: int, line_weight: float = _LINES
) -> float:
    r"""Return the criterion of left-out rows, which is one for lines and clusters of one size.

    Where clusters do not touch, the scores of a cluster lie on a line through the origin. With :math:`\zeta^{(p)}` the
    eigenvalues of the second moment of the m = k - 1 scores of cluster p (of score and degree where k is two) and
    :math:`n_p` the number of its rows,

    .. math::

        \mathrm{BLF} = \eta \, \frac1k \sum_{p=1}^k \frac{m}{m - 1} \Big( \frac{\zeta_1^{(p)}}{\sum_l
        \zeta_l^{(p)}} - \frac1m \Big) + (1 - \eta) \, \frac{\min_p n_p}{\max_p n_p} .

    A cluster without a row has a line fit of zero, and makes the balance zero.

    :place [Alzate2010]_ balanced line fit: collinearity of the scores of clusters, and their balance
    """
    columns = scores
    if clusters == 2:
        columns = np.column_stack([scores[:, 0], degrees])
        scale = np.abs(columns).max(axis=0)
        columns = columns / np.where(scale > 0.0, scale, 1.0)
    sizes, m, fits = np.bincount(labels, minlength=clusters), columns.shape[1], np.zeros(clusters)
    for p in range(clusters):
        zeta = np.square(np.linalg.svd(columns[labels == p], compute_uv=False))
        if zeta.sum() > 0.0:
            fits[p] = m / (m - 1.0) * (float(zeta[0] / zeta.sum()) - 1.0 / m)
    balance = float(sizes.min()) / max(float(sizes.max()), 1.0)
    return float(line_weight * fits.mean() + (1.0 - line_weight) * balance)


# ---- two views ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    r"""One view of the rows: its centred kernel matrix :math:`K = U \operatorname{diag}(s) U^T` above rounding.

    ``radius`` bounds the distance of the exact K from the matrix of these pairs, with orthonormal U.
    """

    kernel: Kernel
    points: Any
    centred: Centred
    values: Array
    vectors: Array
    radius: float
    defect: float

    def factor(self, nu: float) -> Array:
        """Return F with F F' = H = K (I + nu K)^-1."""
        return np.asarray(self.vectors * np.sqrt(self.values / (1.0 + nu * self.values)))

    def factor_error(self, nu: float) -> float:
        """Bound the error of F F' by the error of K, since (I + nu K)^-1 has a norm of one but for the error of K."""
        negative = nu * self.radius
        return at_most(self.radius / (1.0 - negative)) if negative < 0.5 else math.inf

    def coefficients(self, coordinates: Array, nu: float) -> Array:
        """Return the support values of directions with these coordinates: the shortest with their scores."""
        roots = np.sqrt(self.values * (1.0 + nu * self.values))
        return np.asarray(self.vectors @ (coordinates / roots[:, None]))

    def scores(self, X: Any, support_values: Array, bias: Array) -> Array:
        """Return the scores of rows of this view."""
        return self.kernel.expansion_values(self.points, support_values, bias, X)


def view_of(kernel: Kernel, X: Any) -> View:
    """Return the view of rows, decomposed."""
    centred = centre(kernel, X)
    spectrum = decompose(centred.matrix, centred.error)
    values = spectrum.values
    kept = values > relative_rounding(values.size) * max(float(values[0]), 0.0)
    return View(
        kernel=kernel,
        points=X,
        centred=centred,
        values=values[kept],
        vectors=np.ascontiguousarray(spectrum.vectors[:, kept]),
        radius=at_most(spectrum.residual + float(np.abs(values[~kept]).max(initial=0.0))),
        defect=spectrum.defect,
    )


@dataclass(frozen=True, slots=True)
class Pairs:
    """The leading singular values, the support values and biases of both views, one column per pair.

    ``following`` is the largest singular value that is not among them, and ``square_radius`` bounds the distance of the
    square of every singular value from an exact one.
    """

    values: Array
    alpha: Array
    beta: Array
    alpha_bias: Array
    beta_bias: Array
    following: float
    square_radius: float

    @property
    def radius(self) -> float:
        """Return a bound on the distance of the leading singular values that are not zero from exact ones."""
        least = float(np.min(self.values[self.values > 0.0], initial=math.inf))
        least = least if math.isfinite(least) else 0.0
        return at_most(self.square_radius / max(least, math.sqrt(self.square_radius), np.finfo(float).tiny))


def find_pairs(first: View, second: View, nus: tuple[float, float], count: int) -> Pairs:
    r"""Return the leading pairs of two views; those beyond the rank have the value zero, and scores of zero.

    With centred kernel matrices :math:`K_1, K_2` of the same rows and :math:`\nu_1, \nu_2 \ge 0`,

    .. math::

        K_2 \beta = \sigma (I + \nu_1 K_1) \alpha, \qquad K_1 \alpha = \sigma (I + \nu_2 K_2) \beta ,

    so that the :math:`\sigma` are the singular values of :math:`T = F_1^T F_2`. Unit singular vectors p, q give
    :math:`\alpha = U_1 \operatorname{diag}(s (1 + \nu_1 s))^{-1/2} p` with the scores :math:`e = K_1 \alpha = F_1 p`,
    and :math:`\nu_1 e^T e + w^T w = 1`. The :math:`\sigma^2` are the eigenvalues of :math:`H_1 H_2`, and with errors
    :math:`\epsilon_i` of the :math:`H_i` all of them at once satisfy

    .. math:: |\sigma_j^2 - \hat\sigma_j^2| \le \|H_1\| \epsilon_2 + \epsilon_1 \|H_2\| + \rho ,

    :math:`\rho` from the residual of the decomposition of T (Weyl's inequality, twice). So the computed ones are the
    leading ones.

    :place [Suykens2002b]_ kernel CCA: the generalised eigenproblem of two views
    """
    F1, F2 = first.factor(nus[0]), second.factor(nus[1])
    T = F1.T @ F2
    P, values, Qt = np.linalg.svd(T, full_matrices=False)
    heights = [float(np.sum(F * F, axis=0).max(initial=0.0)) for F in (F1, F2)]
    errors = [first.factor_error(nus[0]), second.factor_error(nus[1])]
    largest = float(values.max(initial=0.0))
    # T itself is rounded, and so is its decomposition: residual and loss of orthonormality
    turned = sum(bound_size(Double(V.T) @ V - np.eye(V.shape[1])) for V in (P, Qt.T))
    off = bound_size(Double(F1.T) @ F2 - (Double(P) * values) @ Qt) + 2.0 * turned * largest
    off += 1.1 * (first.defect + second.defect) * math.sqrt(heights[0] * heights[1])
    # the factors themselves have a few roundings
    off += relative_rounding(8.0) * float(np.linalg.norm(F1) * np.linalg.norm(F2))
    square_radius = heights[0] * errors[1] + errors[0] * (heights[1] + errors[1]) + off * (2.0 * largest + off)
    square_radius = at_most(square_radius)
    # a value that is far below the largest and below its own radius is no direction; any other is kept, and its radius
    # says what it is worth
    floor = max(relative_rounding(F1.shape[0]) * largest, min(math.sqrt(square_radius), _NO_DIRECTION * largest))
    rank = int(np.sum(values[:count] > floor))
    sigma, alpha, beta = np.zeros(count), np.zeros((F1.shape[0], count)), np.zeros((F2.shape[0], count))
    e = F1 @ P[:, :rank]
    turn = np.where(e[np.abs(e).argmax(axis=0), np.arange(rank)] < 0.0, -1.0, 1.0)
    sigma[:rank] = values[:rank]
    alpha[:, :rank] = first.coefficients(turn * P[:, :rank], nus[0])
    beta[:, :rank] = second.coefficients(turn * Qt[:rank].T, nus[1])
    biases = first.centred.biases(alpha), second.centred.biases(beta)
    following = float(values[count]) if values.size > count else 0.0
    return Pairs(sigma, alpha, beta, *biases, following, square_radius)


def correlations(e: Array, r: Array) -> Array:
    """Return the correlation of every pair of scores; zero where one of them is constant."""
    e, r = e - e.mean(axis=0), r - r.mean(axis=0)
    lengths = np.linalg.norm(e, axis=0) * np.linalg.norm(r, axis=0)
    return np.asarray(np.sum(e * r, axis=0) / np.where(lengths > 0.0, lengths, np.inf))


def optimality_rows(
    first: View, second: View, nus: tuple[float, float], pairs: Pairs, tolerance: float
) -> tuple[Row, ...]:
    """Return the conditions of optimality of both views, from plain numbers, and their normalisation.

    :place [Suykens2002b]_ kernel CCA conditions: both equalities of the generalised eigenproblem
    """
    rank = int(np.sum(pairs.values > 0.0))
    alpha, beta, sigma = pairs.alpha[:, :rank], pairs.beta[:, :rank], pairs.values[:rank]
    e, r = first.centred.matrix @ alpha, second.centred.matrix @ beta
    rows = []
    quantities = (("first view", first, r, e, alpha, nus[0]), ("second view", second, e, r, beta, nus[1]))
    for name, view, other, scores, coefficients, nu in quantities:
        # what the kernel matrix of a view maps to zero is no part of its direction
        value = float(np.linalg.norm(view.vectors.T @ (other - sigma * (coefficients + nu * scores))))
        # what cancels: support values and scores times sigma
        scale = float(
            np.linalg.norm(other) + np.linalg.norm(sigma * coefficients) + np.linalg.norm(sigma * nu * scores)
        )
        rows.append(Row(name=name, value=value, scale=scale, tolerance=tolerance, formula="|K'b - s (I + nu K) a|"))
    value = float(np.linalg.norm(alpha.T @ e + nus[0] * (e.T @ e) - np.eye(rank)))
    formula = "|a'K a + nu e'e - I|"
    rows.append(Row(name="directions", value=value, scale=1.0, tolerance=tolerance, formula=formula))
    return tuple(rows)


def pairs_certificate(
    title: str, first: View, second: View, nus: tuple[float, float], pairs: Pairs, tolerance: float, facts: Facts
) -> Certificate:
    """Return the report: how near the singular values are, and the conditions of optimality."""
    count, rank, top = pairs.values.size, int(np.sum(pairs.values > 0.0)), float(pairs.values.max(initial=0.0))
    unit = max(float(view.values.max(initial=view.radius)) for view in (first, second))
    row = Row(
        name="singular values",
        value=pairs.radius,
        scale=max(top, math.sqrt(pairs.square_radius)) if top > 0.0 else unit,
        tolerance=tolerance,
        formula="(|H1| e2 + e1 |H2| + rounding)^(1/2), or that over the value",
    )
    text = (
        f"{count} leading singular values within {pairs.radius:.1e} (the largest is {top:.3g}, the next one "
        f"{pairs.following:.3g})"
    )
    if rank < count:
        facts = (*facts, ("rank", f"{rank} of {count} pairs; the others cannot be told from zero, and are zero"))
    rows = (row, *optimality_rows(first, second, nus, pairs, max(tolerance, 1e-9)))
    return Certificate(title, rows, (*facts, (PROVED, text)))


def class_codes(numbers: Any) -> Array:
    """Return the code of the class of every row: one over the root of the size of the class in its own place.

    The inner products of codes are the projection on vectors that are constant over classes.
    """
    sizes = np.bincount(numbers)
    codes = np.zeros((numbers.size, sizes.size))
    codes[np.arange(numbers.size), numbers] = 1.0 / np.sqrt(sizes[numbers])
    return codes
