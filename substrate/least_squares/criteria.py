r"""Criteria of model selection as analytic functions of :math:`t = \log\lambda`: values and bounds.

With :math:`g_k = 1/(s_k + \lambda)`, :math:`z = U^T y` and the notation of :mod:`~substrate.least_squares.spectrum`,

- leaving blocks of rows S out (:mod:`~substrate.least_squares.left_out_blocks`; leave-one-out is blocks of one row),
  :math:`F = \frac1N \sum_i r_i^2` with :math:`r_S = B_{SS}^{-1} \alpha_S`, i among the rows of S that count. By
  Cauchy's inequality :math:`r_i^2 \le (B_{SS}^{-1})_{ii}\, Q` with :math:`Q = \sum_k z_k^2 g_k`, so
  :math:`F \le Q \cdot \frac1N \sum_i (B_{SS}^{-1})_{ii}`: a falling times a rising function of t. For one row
  :math:`(B_{SS}^{-1})_{ii} = 1/B_{ii}`.
- generalised cross-validation [Golub1979]_, :math:`F = N \sum_k z_k^2 g_k^2 / (\sum_k m_k g_k)^2`, in O(N), with
  :math:`m_k = \sum_i v_i u_{ik}^2` for weights v of mean one, and one without weights:
  :math:`\lambda \sum_k m_k g_k = \sum_i v_i (1 - H_{ii})`. Leverages are averaged by weight, as squared errors are, so
  a row whose weight tends to zero counts as an absent one. (Counted by number, it would have a whole degree of freedom,
  and a machine that interpolates the other rows a criterion near zero.)
- validation, :math:`F = \frac1n \sum_j (y^v_j - \bar y - \sum_k c_{jk} z_k g_k)^2` with
  :math:`c_j = U^T (k(x_j) - \bar k)`; bounded by the mean of :math:`(|y^v_j - \bar y| + \sqrt{\kappa_j Q})^2`,
  :math:`\kappa_j = \sum_k c_{jk}^2 g_k`.
- folds: a weighted sum of validation criteria, each with a spectrum of its own.

The relative error q of the decomposition (:mod:`~substrate.least_squares.spectrum`) moves the root of a criterion
from r to at least :math:`\phi\, r - w` (``shrink`` and ``shifts`` of :class:`Samples`). With B the computed inverse and
:math:`B^\star` the exact one, :math:`B^\star - B = B^\star E B`, :math:`q = \|E\| \|B\|` and :math:`\|B^\star x\| \le
\|B x\| / (1 - q)`:

- blocks left out: with :math:`P_i = B_{\cdot S} B_{SS}^{-1} e_i` and the machine without the block,
  :math:`\alpha^{(-S)} = \alpha - B_{\cdot S}\, r_S`,

  .. math:: r_i^\star - r_i = P_i^{\star T} E\, \alpha^{(-S)}, \qquad \|P_i^\star\| \le \frac{\|P_i\|}{1 - q}, \qquad
            \|P_i\|^2 = e_i^T B_{SS}^{-1} (B^2)_{SS} B_{SS}^{-1} e_i = \frac{d}{d\lambda} (B_{SS}^{-1})_{ii},

  so :math:`\phi = 1` and :math:`w^2 = (\|E\| / (1-q))^2 \cdot \frac1N \sum_i \|P_i\|^2\, \|\alpha^{(-S)}\|^2`, where
  :math:`\|\alpha^{(-S)}\| \le \|\alpha\| + (\|B\|\, \alpha_S^T r_S)^{1/2}`;
- generalised cross-validation: :math:`\|\alpha^\star\| \ge \|\alpha\| / (1 + q)` and, since
  :math:`B^\star \preceq B / (1 - q)`, :math:`\sum_i v_i B^\star_{ii} \le \sum_i v_i B_{ii} / (1 - q)`, so
  :math:`\phi = (1 - q)/(1 + q)`, :math:`w = 0`;
- validation: :math:`\phi = 1` and, c_j the centred kernel row of a point,
  :math:`w^2 = (\|E\| \|\alpha\| / (1 - q))^2 \cdot \frac1n \sum_j \|B c_j\|^2`, and the rounding of those rows.

All factors fall in lambda but :math:`(B_{SS}^{-1})_{ii}`, which rises, and is concave (a Schur complement of
:math:`K + \lambda`), so that :math:`\|P_i\|^2` falls. :math:`\|\alpha^{(-S)}\|` falls as that of every machine. So
between two points the left one bounds all that falls.

Cauchy's bound holds term by term for complex lambda too (:mod:`~substrate.search.polynomial_minimum`), with
:math:`\cos(\theta/2)^{-4}` for ratios and :math:`\cos(\theta/2)^{-2}` without. For blocks: turned by half of its angle,
:math:`B_{SS}(z)` has a real part H of at least :math:`\cos(\theta/2)\, B_{SS}(|z|)`, and with
:math:`D = \operatorname{diag}(e^{i\theta/2} g)`, :math:`A = U_S (\operatorname{Re} D)^{1/2}`,
:math:`D = (\operatorname{Re} D)^{1/2} (I + i T) (\operatorname{Re} D)^{1/2}`,

.. math:: r = (A (I + i T) A^T)^{-1} A (I + i T) w, \qquad |r_i|^2 \le (H^{-1})_{ii}\, \|(I + i T) w\|^2
          \le \cos(\theta/2)^{-3}\, (B_{SS}^{-1})_{ii}(|z|)\, Q(|z|),

since :math:`A = H^{1/2} V^T`, V with orthonormal columns, and :math:`I + i V^T T V` shortens no vector.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from substrate.arrays import (
    Array,
    blocks_beside,
    namespace_of,
    on_device_of,
    paired_sums,
    take_rows,
    to_numpy,
    zeros_beside,
)
from substrate.errors import SolverError
from substrate.least_squares.coordinates import LeastSquares
from substrate.least_squares.left_out_blocks import BlockBatch, LeftOutBlocks
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.spectrum import Spectrum, Targets
from substrate.numbers import at_most, relative_rounding
from substrate.threads import blas_threads

__all__ = [
    "Criterion",
    "LeaveOneOut",
    "LeftOutCriterion",
    "OfMachine",
    "Samples",
    "Spectral",
    "between",
    "following",
    "unknown_at",
]


@dataclass(frozen=True, slots=True)
class Samples:
    """Values of shape (intervals, points, outputs), and a ceiling of shape (intervals, outputs).

    On an interval the exact criterion's root is at least ``shrink``, of the shape of the ceiling, times that of the
    values, less ``shifts``, of the shape of the values, each of which holds from its point to the next. None where
    nothing is subtracted.

    ``condition``, one number per interval, is by how much rounding errors of the sums can be larger in the residuals;
    None where they are not.
    """

    values: Array
    ceiling: Array
    shrink: Array | None = None
    shifts: Array | None = None
    condition: Array | None = None


class Spectral(Protocol):
    """The interface of a spectrum, dense or on a reduced basis, for criteria and the range of a search."""

    @property
    def n(self) -> int:
        """Number of points."""

    @property
    def values(self) -> Array:
        """Eigenvalues, none negative."""

    @property
    def lift(self) -> float:
        """The number that was added to make them non-negative."""

    @property
    def trace(self) -> float:
        """Their sum, from the matrix."""

    @property
    def norm(self) -> float:
        """The size of the matrix whose rounding they carry."""

    @property
    def mass(self) -> float:
        """The weight of all rows."""

    @property
    def skew(self) -> float:
        """How far eigenvectors are from orthonormal; zero where errors are bounded from the rows."""

    def decomposition_error(self, lam: float) -> float:
        """Return the relative error of what is computed at this lambda."""

    def perturbations(self, lambdas: Array) -> tuple[Array, Array]:
        """Return the norm of E, and q, at some lambdas; zero where errors are bounded from the rows instead."""

    def targets(self, Y: Any) -> Targets:
        """Return targets in the coordinates of the spectrum; those of its sums, where it has them."""

    def machine(self, targets: Targets, weighted: bool = False) -> LeastSquares:
        """Return the machine on these targets in the coordinates of the spectrum, with traces by weight where asked."""


@dataclass(frozen=True, slots=True)
class Criterion(ABC):
    """A criterion on one spectrum; ``pooled`` averages outputs that share one gamma.

    ``cone`` is the power of 1/cos(theta/2) in the bound on an ellipse, ``growth`` the power of e^x by which the ceiling
    may grow at distance x outside an interval. lambda is counted from ``lift`` on, zero for a positive semi-definite
    matrix: :math:`\\lambda = e^t + \\text{lift}`.
    """

    cone: ClassVar[int] = 4
    growth: ClassVar[float] = 1.0

    spectrum: Spectral
    targets: Targets
    lift: float
    pooled: bool

    @property
    def size(self) -> int:
        """Terms in a sum, for its rounding error."""
        return self.spectrum.n

    @property
    def outputs(self) -> int:
        """The number of criteria, one per gamma to choose."""
        return 1 if self.pooled else self.targets.outputs

    @property
    def unit(self) -> float:
        """The unit of y; values are in its square."""
        return self.targets.unit

    @property
    def spread(self) -> Array:
        """The mean square of the centred targets, in the unit's square, one number per criterion."""
        squares = self.targets.squares / self.spectrum.mass
        return np.asarray(squares.mean(keepdims=True) if self.pooled else squares)

    def with_lift(self, lift: float) -> Self:
        """Return the same with lambda counted from a common point on, not below its own."""
        return replace(self, lift=max(lift, self.lift))

    @abstractmethod
    def sample(self, t: Array) -> Samples:
        """Evaluate at points t of shape (intervals, points), ascending in each interval."""

    def _shrink_and_shift(self, q: Array, share: Array, sizes: Array, shrink: Array) -> tuple[Array, Array]:
        """Shrink per interval and shifts from each point on, from their two factors; no bound is left from q = 1/2 on.

        ``q`` and ``share`` have the shape of the points, ``sizes`` one axis more, the outputs.
        """
        lost = q[:, 0] >= 0.5
        shifts = at_most(1.0) * share[:, :, None] * sizes
        if self.pooled:
            with np.errstate(over="ignore"):  # infinite where nothing is known
                shifts = np.sqrt(np.mean(shifts**2, axis=2, keepdims=True))
        shifts = np.where(lost[:, None, None], 0.0, shifts) * np.ones((*q.shape, self.outputs))
        return np.where(lost, 0.0, shrink)[:, None] * np.ones((len(q), self.outputs)), shifts

    def _inverses(self, t: Array) -> Array:
        values = self.spectrum.values + (self.lift - self.spectrum.lift)
        inverses: Array = 1.0 / (values[:, None] + on_device_of(values, np.exp(t.ravel())))
        return inverses

    def _shape(self, values: Array, t: Array) -> Array:
        """Reshape (points, outputs) to (intervals, points, outputs), outputs averaged where they share a gamma."""
        values = values.mean(axis=1, keepdims=True) if self.pooled else values
        return values.reshape(*t.shape, -1)


def unknown_at(spectrum: Spectral, t: Array) -> tuple[Array, Array]:
    """Return the norm of E, and q, at the points; lambda is counted from some lift on, which only makes B smaller."""
    norms, q = spectrum.perturbations(Regularization.from_log_lambda(t, spectrum.lift).lam.ravel())
    return norms.reshape(t.shape), q.reshape(t.shape)


def between(falling: Array, rising: Array) -> Array:
    """Return the largest of (falling at a point) x (rising at the next one): above their product in between."""
    if falling.shape[1] == 1:
        return np.asarray((falling * rising)[:, 0])
    return np.asarray((falling[:, :-1] * rising[:, 1:]).max(axis=1))


@dataclass(frozen=True, slots=True)
class OfMachine(Criterion):
    """A criterion of a machine in the coordinates of its spectrum, dense or on a reduced basis.

    ``weighted`` states that the traces of the machine are by the weights of the rows.
    """

    weighted: ClassVar[bool] = False

    machine: LeastSquares

    @classmethod
    def of(cls, spectrum: Spectral, Y: Any = None, *, pooled: bool = False) -> Self:
        """Return the criterion on the targets Y, one column per output; on those of its sums, for the spectrum of a
        reduced basis.
        """
        targets = spectrum.targets(Y)
        return cls(
            spectrum=spectrum,
            targets=targets,
            lift=spectrum.lift,
            pooled=pooled,
            machine=spectrum.machine(targets, cls.weighted),
        )

    def _at(self, t: Array) -> tuple[Array, Array]:
        """Return 1/(s + lambda) at all points, one column each, and lambda less the lift."""
        return self._inverses(t), np.exp(t.ravel())


@dataclass(frozen=True, slots=True)
class LeftOutCriterion(OfMachine):
    """The mean square leave-one-out residual, from sums over the rows."""

    @abstractmethod
    def _sample_left_out(self, g: Array, t: Array) -> tuple[Samples, Array]:
        """Return the mean squares at the points, as samples without a ceiling but for rounding, and the sums of
        1/B_ii.
        """

    def sample(self, t: Array) -> Samples:
        """Sum over the rows, under the ceiling of Cauchy's inequality."""
        g, lambdas = self._at(t)
        samples, reciprocal = self._sample_left_out(g, t)
        falling = self._shape(self.machine.quadratic(g, lambdas), t)
        rising = reciprocal.reshape(*t.shape, 1) / self.spectrum.n
        return replace(samples, ceiling=np.maximum(between(falling, rising), samples.ceiling))


@dataclass(frozen=True, slots=True)
class LeaveOneOut(LeftOutCriterion):
    """The mean square left-out residual of a dense machine: every row alone, or with the rows of its ``blocks``."""

    spectrum: Spectrum
    blocks: LeftOutBlocks | None = None

    @classmethod
    def of_blocks(cls, spectrum: Spectrum, Y: Any, blocks: LeftOutBlocks, *, pooled: bool = False) -> Self:
        """Return the criterion with these blocks left out, on the targets Y, one column per output."""
        if blocks.n != spectrum.n:
            raise TypeError(f"blocks of {blocks.n} rows do not divide {spectrum.n} rows")
        single = cls.of(spectrum, Y, pooled=pooled)
        return single if blocks.largest == 1 else replace(single, blocks=blocks)

    def _sample_left_out(self, g: Array, t: Array) -> tuple[Samples, Array]:
        """Sample by products with the basis and with products of its rows, batch by batch."""
        n, lambdas = self.spectrum.n, np.exp(t.ravel())
        roots = np.sqrt(self.machine.quadratic(g, lambdas))
        basis, z = self.spectrum.basis, self.targets.coordinates
        blocks = self.blocks
        sums = _single_row_sums(basis, g, z) if blocks is None else _left_out_sums(basis, g, z, roots, blocks)
        unknown, q = unknown_at(self.spectrum, t)
        share = following(unknown, t) / np.maximum(1.0 - q, 0.5)
        sizes = np.sqrt(sums.moves / n)
        shrink, shifts = self._shrink_and_shift(q, share, sizes.reshape(*t.shape, -1), np.ones(t.shape[0]))
        condition = None
        if blocks is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                grown = np.sqrt(sums.rounding / sums.reciprocal[:, None]) / roots
            grown = np.where(roots > 0.0, grown, 1.0).max(axis=1)
            condition = np.maximum(np.where(np.isnan(grown), np.inf, grown).reshape(t.shape).max(axis=1), 1.0)
        nothing = np.zeros((t.shape[0], self.outputs))
        values = self._shape(sums.squares / n, t)
        return Samples(values, nothing, shrink, shifts, condition=condition), sums.reciprocal


def following(sums: Array, t: Array) -> Array:
    """Return sums at the next point of the interval; the last one has none."""
    sums = sums.reshape(t.shape)
    return np.asarray(np.concatenate([sums[:, 1:], sums[:, -1:]], axis=1))


@dataclass(frozen=True, slots=True)
class _LeftOutSums:
    """Sums over the rows that count, on the host, one row per point: r_i^2, one column per output; (B_SS^-1)_ii; and
    ||P_i||^2 ||alpha^(-S)||^2 and the squares of the rounding of r_i over that of a sum, one column per output; the
    last are zero of rows that are left out alone.
    """

    squares: Array
    reciprocal: Array
    moves: Array
    rounding: Array


def _single_row_sums(basis: Array, g: Array, z: Array) -> _LeftOutSums:
    """Return the sums where every row is left out alone, all of them where the basis is.

    B_ii is a sum of positive terms, and the rest are quotients: nothing is solved, and rounding is that of a sum.
    """
    n, points, outputs = int(basis.shape[0]), int(g.shape[1]), int(z.shape[1])
    xp, squares, moves = namespace_of(g), zeros_beside(g, (points, outputs)), zeros_beside(g, (points, outputs))
    reciprocal, largest = zeros_beside(g, points), xp.max(g, axis=0)
    with blas_threads(n), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alphas = [basis @ (g * z[:, k][:, None]) for k in range(outputs)]
        lengths = [xp.sqrt(paired_sums(alpha, alpha, 0)) for alpha in alphas]
        for rows in blocks_beside(g, n, n):
            block = basis[rows, :] ** 2
            diagonal = 1.0 / (block @ g)
            moved = (block @ g**2) * diagonal**2
            reciprocal += xp.sum(diagonal, axis=0)
            for k, alpha in enumerate(alphas):
                residuals = diagonal * alpha[rows, :]
                squares[:, k] += paired_sums(residuals, residuals, 0)
                without = lengths[k] + xp.sqrt(xp.clip(residuals * alpha[rows, :] * largest, min=0.0))
                moves[:, k] += paired_sums(moved, without**2, 0)
    return _LeftOutSums(to_numpy(squares), to_numpy(reciprocal), to_numpy(moves), np.zeros((points, outputs)))


@dataclass(frozen=True, slots=True)
class _SolvedBlocks:
    """What is known of some blocks: the most that (B_SS^-1)_ii and ||P_i||^2 may be of the rows that count, of shape
    (blocks, points, rows that count); and for every output r_S, of shape (blocks, points, rows), and the rounding of
    those that count over that of a sum.
    """

    diagonal: Array
    lengths: Array
    residuals: list[Array]
    roundings: list[Array]


#: Entries of the matrices B_SS, and of the products of rows of the basis, that are computed at a time.
_ENTRIES, _PRODUCTS = 4_000_000, 8_000_000


def _left_out_sums(basis: Array, g: Array, z: Array, roots: Array, blocks: LeftOutBlocks) -> _LeftOutSums:
    """Return the sums; the products with the basis are where it is, all else is small and on the host.

    ``roots`` are those of Q, one column per output.
    """
    n, points, outputs = int(basis.shape[0]), int(g.shape[1]), int(z.shape[1])
    sums = _LeftOutSums(
        np.zeros((points, outputs)), np.zeros(points), np.zeros((points, outputs)), np.zeros((points, outputs))
    )
    with blas_threads(n), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alphas = [to_numpy(basis @ (g * z[:, k][:, None])) for k in range(outputs)]
        norms = [np.sqrt(np.square(alpha).sum(axis=0)) for alpha in alphas]
        largest = to_numpy(namespace_of(g).max(g, axis=0))
        for batch, entries in _left_out_entries(basis, g, blocks):
            of_blocks = [np.moveaxis(alpha[batch.rows], 2, 1) for alpha in alphas]  # blocks, points, rows
            solve = _solve_single_rows if batch.rows.shape[1] == 1 else _solve_blocks
            solved = solve(entries[:, :points], entries[:, points:], of_blocks, roots, batch, n)
            moved = solved.lengths.sum(axis=2)
            np.add(sums.reciprocal, solved.diagonal.sum(axis=(0, 2)), out=sums.reciprocal)
            for k, (alpha, residuals) in enumerate(zip(of_blocks, solved.residuals, strict=True)):
                counted = np.take_along_axis(residuals, batch.counted[:, None, :], axis=2)
                sums.squares[:, k] += np.einsum("bpc,bpc->p", counted, counted)
                sums.rounding[:, k] += np.square(solved.roundings[k]).sum(axis=(0, 2))
                pulled = np.maximum(np.einsum("bpr,bpr->bp", alpha, residuals), 0.0)
                sums.moves[:, k] += np.einsum("bp,bp->p", moved, np.square(norms[k] + np.sqrt(largest * pulled)))
    return sums


def _left_out_entries(basis: Array, g: Array, blocks: LeftOutBlocks) -> Iterator[tuple[BlockBatch, Array]]:
    """Yield batches of blocks with B_SS at all points, then B^2_SS, of shape (blocks, twice the points, rows, rows).

    Every pair of rows that some blocks of a batch share is computed once.
    """
    n, columns = int(basis.shape[0]), namespace_of(g).concat([g, g**2], axis=1)
    count = int(columns.shape[1])
    for batch in blocks.batches(max(1, _ENTRIES // (blocks.largest**2 * count))):
        low = np.minimum(batch.rows[:, :, None], batch.rows[:, None, :])
        high = np.maximum(batch.rows[:, :, None], batch.rows[:, None, :])
        pairs, places = np.unique(low.astype(np.int64) * n + high, return_inverse=True)
        products = np.empty((pairs.size, count))
        step = max(1, _PRODUCTS // n)
        for start in range(0, pairs.size, step):
            first, second = np.divmod(pairs[start : start + step], n)
            products[start : start + step] = to_numpy((take_rows(basis, first) * take_rows(basis, second)) @ columns)
        yield batch, np.moveaxis(products[places.reshape(low.shape)], 3, 1)


def _solve_single_rows(
    matrices: Array, squared: Array, alphas: list[Array], roots: Array, batch: BlockBatch, n: int
) -> _SolvedBlocks:
    """Return the same for blocks of one row, where all is a quotient of sums of positive terms and one of others."""
    diagonal = 1.0 / matrices[:, :, :, 0]
    return _SolvedBlocks(
        diagonal=diagonal,
        lengths=squared[:, :, :, 0] * np.square(diagonal),
        residuals=[diagonal * alpha for alpha in alphas],
        roundings=[np.zeros((1, 1, 1)) for _ in alphas],
    )


def _solve_blocks(
    matrices: Array, squared: Array, alphas: list[Array], roots: Array, batch: BlockBatch, n: int
) -> _SolvedBlocks:
    r"""Solve with B_SS for the rows that count and for the support values, and bound the rounding.

    With :math:`S = \operatorname{diag}(B_{SS})^{1/2}`, :math:`C = S^{-1} B_{SS} S^{-1}`,
    :math:`z_i = C^{-1} S^{-1} e_i` and :math:`w = C^{-1} S^{-1} \alpha_S`, so that :math:`r_S = S^{-1} w`: entries of C
    are known to :math:`\eta`, the rounding of a sum, those of :math:`S^{-1} \alpha_S` to :math:`\eta Q^{1/2}`, and
    solutions leave residuals, measured, of :math:`\omega` of the same sizes. Hence, to first order,

    .. math:: |\delta r_i| \le (2 \eta + \omega)\, \|z_i\|_1 \big( Q^{1/2} + \|w\|_1 \big), \qquad
              |\delta (B_{SS}^{-1})_{ii}| \le (2 \eta + \omega)\, \|z_i\|_1^2 ,

    and twice that in all, where :math:`3 b \eta \|C^{-1}\| \le \tfrac12`, b the rows of the block. The latter is known
    where C less :math:`8 b \eta` has a Cholesky factor, whose own rounding is below :math:`b (b + 3)` units.
    """
    b, eta = batch.rows.shape[1], relative_rounding(n + 16.0)
    S = np.sqrt(matrices.diagonal(axis1=2, axis2=3))
    C = matrices / S[:, :, :, None] / S[:, :, None, :]
    lost = _are_near_singular(C, 8.0 * b * eta)
    counted = np.zeros((batch.rows.shape[0], 1, b, batch.counted.shape[1]))
    np.put_along_axis(counted, batch.counted[:, None, None, :], 1.0, axis=2)
    sides = np.concatenate([counted / S[:, :, :, None], *((alpha / S)[:, :, :, None] for alpha in alphas)], axis=3)
    try:
        solutions = np.linalg.solve(C, sides)
    except np.linalg.LinAlgError as error:
        raise SolverError(
            f"without a block of {b} rows the machine is not determined (B_SS is singular); use smaller blocks or "
            "groups, more rows, or fewer columns of a linear part"
        ) from error
    sizes = np.abs(solutions).sum(axis=2)  # ||z_i||_1 and ||w||_1
    levels = sizes + np.concatenate(
        [np.zeros((1, matrices.shape[1], batch.counted.shape[1])), roots[None, :, :]], axis=2
    )
    defects = np.abs(sides - C @ solutions).max(axis=2) / np.where(levels > 0.0, levels, 1.0)
    omega = defects.max(axis=2) + relative_rounding(b + 4.0)
    lost |= ~(omega <= eta)
    eta_of_blocks = 2.0 * (2.0 * eta + omega)
    c = batch.counted.shape[1]
    above = eta_of_blocks[:, :, None] * np.square(sizes[:, :, :c])
    pulls = solutions[:, :, :, :c] / S[:, :, :, None]
    lengths = np.maximum(np.einsum("bprc,bprc->bpc", pulls, squared @ pulls), 0.0)
    S_counted = np.take_along_axis(S, batch.counted[:, None, :], axis=2)
    diagonal = np.take_along_axis(solutions[:, :, :, :c], batch.counted[:, None, None, :], axis=2)[:, :, 0, :]
    if c > 1:
        columns = np.take_along_axis(solutions[:, :, :, :c], batch.counted[:, None, :, None], axis=2)
        diagonal = columns.diagonal(axis1=2, axis2=3)
    eta_of_blocks = np.where(lost, np.inf, eta_of_blocks)
    return _SolvedBlocks(
        diagonal=diagonal / S_counted + above,
        lengths=lengths * np.square(1.0 + above * S_counted / diagonal),
        residuals=[solutions[:, :, :, c + k] / S for k in range(len(alphas))],
        roundings=[
            eta_of_blocks[:, :, None] / eta * sizes[:, :, :c] * levels[:, :, [c + k]] for k in range(len(alphas))
        ],
    )


def _are_near_singular(matrices: Array, shift: float) -> Any:
    """Return which matrices, with a diagonal of ones, are not proved to be positive definite by this much."""
    shifted = matrices - shift * np.eye(matrices.shape[-1])
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:  # some of them: all are looked at
        return ~(np.linalg.eigvalsh(shifted)[:, :, 0] > shift)
    return np.zeros(matrices.shape[:2], dtype=bool)
