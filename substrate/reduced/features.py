r"""Finite-dimensional features of a reduced basis, rank revealing.

.. math:: K_{SS} = V \operatorname{diag}(s) V^T, \qquad z(x) = \operatorname{diag}(s)^{-1/2} V^T k_S(x)

for the eigenvalues above rounding. They are coordinates of the projection of :math:`\varphi(x)` on the span of the
basis, so :math:`w = \sum_j \beta_j \varphi(z_j)` has :math:`w^T w = u^T u` and :math:`f(x) = u^T z(x) + b` with
:math:`\beta = V \operatorname{diag}(s)^{-1/2} u`. Tied basis vectors only lower the rank: nothing is singular, whereas
the system printed in [Cawley2002]_ is as soon as two inputs agree, or, to working precision, for every smooth kernel.

Components on a reduced basis have one expansion each in the basis vectors, and their features side by side:

.. math:: f^l(x) = \sum_{j \in S} \beta^l_j k^l(x, z_j) = u^{lT} z^l(x), \qquad
          K^l_{SS} = V^l \operatorname{diag}(s^l) V^{lT}, \quad z^l(x) = \operatorname{diag}(s^l)^{-1/2} V^{lT} k^l_S(x)

with :math:`\beta^l = V^l (s^l)^{-1/2} u^l` and :math:`w_l^T w_l = u^{lT} u^l`; directions below a share of the largest
are left out, as in :mod:`~substrate.penalized.variation.component_coordinates`. [Pelckmans2005]_ eq. (6)-(8) with the
expansion of [Cawley2004]_ eq. (2).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np

from substrate.arrays import EPS, Array
from substrate.kernels import Kernel
from substrate.kernels.base import strips
from substrate.namespaces import is_device_array, namespace_of, on_device_of, own_copy, zeros_beside
from substrate.reduced.linear_columns import LinearColumns
from substrate.reduced.rows import KernelValues, RowValues
from substrate.streaming.source import Block
from substrate.streaming.tally import Tally
from substrate.threads import blas_threads

__all__ = [
    "INNER",
    "ComponentFeatures",
    "EigenFeatures",
    "LinearFeatures",
    "VariationOfLeaf",
    "component_functions",
    "eigen_features",
    "product",
    "reconstruction_errors",
]

#: Terms of an entry of a product of matrices that are added in sequence.
INNER = 64
#: Smallest eigenvalue, relative to the largest, for which a mixed direction keeps its digits.
_FAINT = 1e-9


@dataclass(frozen=True, slots=True)
class EigenFeatures:
    """``transform`` is :math:`V s^{-1/2}`, n x r; ``values`` are the kept eigenvalues s, largest first.

    ``dual`` is K_SS times it, where that is not :math:`V s^{1/2}` up to rounding: of features by doubled precision.
    ``linear`` are the sizes of columns that follow the kernel values of a row and are not penalised, None where a bias
    is all that is not: ``transform`` makes features of both, which follow each other too, see :meth:`beside`.
    """

    transform: Array
    values: Array
    dual: Array | None = None
    linear: Array | None = None

    @property
    def n_basis(self) -> int:
        """n."""
        return int(self.transform.shape[0])

    @property
    def rank(self) -> int:
        """r."""
        return int(self.values.shape[0])

    @property
    def well_conditioned(self) -> bool:
        """Whether all directions are kept and no eigenvalue is so small that mixing them would cost digits."""
        return self.rank == self.n_basis and bool(self.values[-1] > _FAINT * self.values[0])

    @property
    def free(self) -> int:
        """The number of features that are not penalised, the last ones."""
        return 0 if self.linear is None else int(self.linear.shape[0])

    def beside(self, linear: "LinearColumns | None") -> "EigenFeatures":
        """Return the same features and, after them, those of columns that are not penalised."""
        if linear is None:
            return self
        xp, turn = namespace_of(self.transform), on_device_of(self.transform, linear.turn)
        (n, r), k = self.transform.shape, turn.shape[0]
        above = xp.concat([self.transform, zeros_beside(self.transform, (n, k))], axis=1)
        below = xp.concat([zeros_beside(self.transform, (k, r)), turn], axis=1)
        values = xp.concat([self.values, 1.0 / xp.sum(turn * turn, axis=0)])
        sizes = on_device_of(self.transform, linear.sizes)
        return EigenFeatures(xp.concat([above, below], axis=0), values, self.dual, sizes)

    @property
    def of_kernel(self) -> "EigenFeatures":
        """The features of the kernel values alone."""
        if self.linear is None:
            return self
        m, r = self.n_basis - self.free, self.rank - self.free
        return EigenFeatures(self.transform[:m, :r], self.values[:r], self.dual)

    def pull(self, weights: Array, lam: float) -> Array:
        """Return the gradient of the penalty, lambda u, zero for what is not penalised."""
        if self.linear is None:
            return lam * weights
        xp, r = namespace_of(weights), self.rank - self.free
        return xp.concat([lam * weights[:r, :], xp.zeros_like(weights[r:, :])], axis=0)  # type: ignore[no-any-return]

    def ridges(self, lam: float) -> Any:
        """Return the diagonal of the penalty: lambda, and zeros for what is not penalised."""
        if self.linear is None:
            return lam
        xp = namespace_of(self.values)
        lams = xp.full_like(self.values[: self.rank - self.free], lam)
        return xp.concat([lams, xp.zeros_like(self.linear)])

    def coefficients(self, weights: Array) -> Array:
        """Beta from the weights u."""
        coefficients: Array = self.transform @ weights
        return coefficients

    def weights(self, coefficients: Array) -> Array:
        """The weights u from beta: :math:`s^{1/2} V^T \\beta`."""
        if self.linear is not None:
            xp, m, r = namespace_of(coefficients), self.n_basis - self.free, self.rank - self.free
            line = coefficients[m:] if coefficients.ndim == 2 else coefficients[m:, None]
            last = xp.linalg.solve(self.transform[m:, r:], line)
            last = last if coefficients.ndim == 2 else last[:, 0]
            return xp.concat([self.of_kernel.weights(coefficients[:m]), last])  # type: ignore[no-any-return]
        if self.dual is not None:
            found: Array = self.dual.T @ coefficients
            return found
        weights: Array = (self.transform.T @ coefficients) * _columns(self.values, coefficients)
        return weights


def _columns(values: Array, like: Array) -> Array:
    return values[:, None] if like.ndim == 2 else values


def eigen_features(K: Any) -> EigenFeatures:
    """Features of the kernel matrix of the basis; directions below n eps times the largest eigenvalue are left out."""
    xp, n = namespace_of(K), K.shape[0]
    with blas_threads(n):
        values, vectors = xp.linalg.eigh(K)  # ascending
    dropped = n - int(xp.sum(xp.astype(values > n * EPS * max(float(values[-1]), 0.0), xp.int64)))
    s = own_copy(xp.flip(values[dropped:]))
    return EigenFeatures(own_copy(xp.flip(vectors[:, dropped:], axis=1) / xp.sqrt(s)), s)


def product(left: Array, right: Array) -> Array:
    """The matrix product; the terms of an entry are added in parts, and their number determines its bound."""
    if right.shape[0] <= INNER or not right.shape[1]:
        made: Array = left @ right
        return made
    if is_device_array(right):
        made = left[:, :INNER] @ right[:INNER, :]
        for part in strips(right.shape[0] - INNER, INNER):
            some = slice(part.start + INNER, part.stop + INNER)
            made += left[:, some] @ right[some, :]
        return made
    from scipy.linalg.blas import dgemm

    total = np.zeros((left.shape[0], right.shape[1]), order="F")
    for part in strips(right.shape[0], INNER):
        total = dgemm(1.0, left[:, part], right[part], beta=1.0, c=total, overwrite_c=1)
    return np.ascontiguousarray(total)


def reconstruction_errors(rows: Array, diagonal: Array, features: EigenFeatures) -> Array:
    r"""The relative errors :math:`\delta_i = 1 - \|z(x_i)\|^2 / k_{ii}` of [Cawley2004]_ eq. (4), row by row.

    :equation [Cawley2004]_ (4): the relative error of reconstruction in feature space
    """
    xp = namespace_of(rows)
    explained = xp.sum((rows @ features.transform) ** 2, axis=1)
    positive = diagonal > 0.0
    errors = 1.0 - explained / xp.where(positive, diagonal, xp.ones_like(diagonal))
    clipped: Array = xp.clip(xp.where(positive, errors, xp.zeros_like(errors)), min=0.0, max=1.0)
    return clipped


def _most_directions(values: KernelValues) -> int:
    """How many directions basis vectors can have: their number, or fewer where the kernel has fewer features."""
    features = None if values.kernel is None else values.kernel.rank(values.points.shape[1])
    return values.n_basis if features is None else min(values.n_basis, features)


@dataclass(frozen=True, slots=True)
class ComponentFeatures(RowValues):
    """Kernel values of every component, each times a matrix of its own (n x r_l), side by side."""

    components: tuple[KernelValues, ...]
    transforms: tuple[Array, ...]

    @classmethod
    def of(cls, components: Sequence[KernelValues], matrices: Sequence[Array], cutoff: float) -> Self:
        """Features of the components' kernel matrices at the basis."""
        transforms = []
        for matrix in matrices:
            with blas_threads(matrix.shape[0]):
                values, vectors = np.linalg.eigh(matrix)
            keep = values > cutoff * max(float(values[-1]), 0.0)
            transforms.append(np.ascontiguousarray(vectors[:, keep] / np.sqrt(values[keep])))
        if not any(transform.shape[1] for transform in transforms):  # zero kernels: one feature, always 0
            transforms[0] = np.zeros((matrices[0].shape[0], 1))
        return cls(tuple(components), tuple(transforms))

    @property
    def ranks(self) -> tuple[int, ...]:
        """Directions kept, one number per component."""
        return tuple(int(transform.shape[1]) for transform in self.transforms)

    @property
    def n_basis(self) -> int:
        """The number of features of a row."""
        return sum(self.ranks)

    @property
    def complete(self) -> bool:
        """Whether every component keeps all directions of the basis that its kernel has."""
        known = [_most_directions(values) for values in self.components]
        return all(kept >= most for kept, most in zip(self.ranks, known, strict=True))

    @property
    def slices(self) -> tuple[slice, ...]:
        """The columns of each component's features."""
        ends = np.cumsum(self.ranks)
        return tuple(slice(int(end) - rank, int(end)) for end, rank in zip(ends, self.ranks, strict=True))

    def fill(self, X: Any, out: Array) -> None:
        """Component by component."""
        for values, transform, place in zip(self.components, self.transforms, self.slices, strict=True):
            out[:, place] = values.matrix(X) @ transform

    def split(self, features: Array) -> Array:
        """Rows of features as matrices C^l, d x N x r, zero outside the component's own columns."""
        parts = np.zeros((len(self.ranks), *features.shape))
        for part, place in zip(parts, self.slices, strict=True):
            part[:, place] = features[:, place]
        return parts

    def coefficients(self, v: Array) -> Array:
        """beta^l of stacked u^l, one column per component."""
        expanded = [T @ v[place] for T, place in zip(self.transforms, self.slices, strict=True)]
        return np.ascontiguousarray(np.column_stack(expanded))


def component_functions(kernels: Sequence[Kernel], points: Any, coefficients: Array) -> ComponentFeatures:
    """f^l as the only feature of rows; ``coefficients`` has one column per component, or one entry per basis vector."""
    columns = coefficients.T if coefficients.ndim == 2 else [coefficients] * len(kernels)
    components = tuple(KernelValues(kernel, points) for kernel in kernels)
    return ComponentFeatures(components, tuple(np.ascontiguousarray(column)[:, None] for column in columns))


@dataclass(frozen=True, slots=True)
class LinearFeatures(RowValues):
    """Linear functions of kernel values about an origin: T'(k_S(x) - o) - m, with m zero where no mean is given."""

    values: RowValues
    origin: Array
    transform: Array
    mean: Array | None = None

    @property
    def n_basis(self) -> int:
        """The number of features of a row."""
        return int(self.transform.shape[1])

    def fill(self, X: Any, out: Array) -> None:
        """Write the features of rows into ``out``."""
        for rows, features in self.tiles(Block(X, None, 0), self.buffer()):
            out[rows, :] = features

    def evaluate(self, X: Any) -> Array:
        """The features of rows on a device."""
        out: Array = zeros_beside(self.transform, (X.shape[0], self.n_basis))
        self.fill(X, out)
        return out

    def tiles(self, block: Block, buffer: Array) -> Iterator[tuple[slice, Array]]:
        """The features of the tiles of kernel values, whose memory ``buffer`` is."""
        for rows, tile in self.values.tiles(block, buffer):
            tile -= self.origin
            features = tile @ self.transform
            yield rows, features if self.mean is None else features - self.mean

    def buffer(self) -> Array:
        """Memory for tiles of kernel values."""
        return self.values.buffer()

    @property
    def step(self) -> int:
        """Rows of a tile of kernel values."""
        return self.values.step


@dataclass(frozen=True, slots=True)
class LargestValues(Tally):
    """max |f^l| over rows."""

    largest: Annotated[Array, np.maximum]


@dataclass(frozen=True, slots=True)
class VariationOfLeaf:
    """The maximal variation of component functions over the rows of a leaf."""

    functions: ComponentFeatures

    def __call__(self, blocks: Iterable[Block]) -> LargestValues:
        """Over its micro-blocks."""
        largest = np.zeros(self.functions.n_basis)
        for _, _, tile in self.functions.walk(blocks):
            np.maximum(largest, np.abs(tile).max(axis=0), out=largest)
        return LargestValues(largest)
