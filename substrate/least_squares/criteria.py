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
- folds: a weighted sum of validation criteria, each with its own spectrum.

The computed decomposition belongs to a matrix near the exact one (:mod:`~substrate.least_squares.spectrum`). With B the
computed inverse and :math:`B^\star` the exact one, :math:`B^\star - B = -B^\star E B`, :math:`q = \|E\| \|B\|` and
:math:`\|B^\star x\| \le \|B x\| / (1 - q)`. What that takes from the root of a criterion is, for q below 1/2,

- blocks left out: with :math:`P_i = B_{\cdot S} B_{SS}^{-1} e_i` and the machine without the block,
  :math:`\alpha^{(-S)} = \alpha - B_{\cdot S}\, r_S`,

  .. math:: r_i^\star - r_i = -P_i^{\star T} E\, \alpha^{(-S)}, \qquad \|P_i^\star\| \le \frac{\|P_i\|}{1 - q}, \qquad
            \|P_i\|^2 = e_i^T B_{SS}^{-1} (B^2)_{SS} B_{SS}^{-1} e_i = \frac{d}{d\lambda} (B_{SS}^{-1})_{ii},

  so it is at most :math:`\|E\| / (1-q)` times the root of :math:`\frac1N \sum_i \|P_i\|^2\, \|\alpha^{(-S)}\|^2`, where
  :math:`\|\alpha^{(-S)}\| \le \|\alpha\| + (\|B\|\, \alpha_S^T r_S)^{1/2}`;
- validation: :math:`\|E\| \|\alpha\| / (1 - q)` times the root of :math:`\frac1n \sum_j \|B c_j\|^2`, c_j the centred
  kernel row of a point, and the rounding of those rows;
- generalised cross-validation: :math:`\|\alpha^\star\| \ge \|\alpha\| / (1 + q)` and, since
  :math:`B^\star \preceq B / (1 - q)`, :math:`\sum_i v_i B^\star_{ii} \le \sum_i v_i B_{ii} / (1 - q)`, so the root
  keeps :math:`(1 - q)/(1 + q)` and loses at most 2 q of itself.

All factors fall in lambda but :math:`(B_{SS}^{-1})_{ii}`, which rises, and is concave (a Schur complement of
:math:`K + \lambda`), so that :math:`\|P_i\|^2` falls. :math:`\|\alpha^{(-S)}\|` falls, as the norm of the support
values of every machine does. So between two points the left one bounds all that falls, and the right one what rises.

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
from substrate.least_squares.spectrum import Spectrum, Targets
from substrate.numbers import at_most, relative_rounding
from substrate.threads import blas_threads

__all__ = [
    "Criterion",
    "LeaveOneOut",
    "LeftOutCriterion",
    "LeftOutSums",
    "OfMachine",
    "Samples",
    "Spectral",
    "following",
    "lost_by_moves",
]


@dataclass(frozen=True, slots=True)
class Samples:
    """Values, ceilings and losses of shape (intervals, points, outputs).

    A ceiling, and what errors take from the root of the exact criterion at most, hold from a point to the next.
    ``condition``, one number per interval, is the factor by which rounding errors of the sums can be larger in the
    residuals; None if they are not.
    """

    values: Array
    ceilings: Array
    lost: Array
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

    def decomposition_error(self, lam: Any) -> Any:
        """Return the relative error of all that is computed at these lambda."""

    def targets(self, Y: Any) -> Targets:
        """Return targets in the coordinates of the spectrum; if the spectrum has sums, the targets of the sums."""

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
    def spectra(self) -> tuple[Spectral, ...]:
        """The spectrum, as a sum of criteria has several."""
        return (self.spectrum,)

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

    def _unknown(self, t: Array) -> Array:
        """Return the relative error q at the points; a lift beyond the lift of the spectrum only makes B smaller."""
        return np.asarray(self.spectrum.decomposition_error(np.exp(t) + self.spectrum.lift))

    def _lost(self, t: Array, ceilings: Array) -> Array:
        """Return what errors take from the root from each point on: twice q of it, and all of it from q = 1/2 on."""
        q = self._unknown(t)[:, :, None]
        with np.errstate(over="ignore", invalid="ignore"):  # infinite where nothing is known
            return np.asarray(np.where(q < 0.5, at_most(2.0) * q * np.sqrt(ceilings), np.inf))

    def _pool(self, lost: Array) -> Array:
        """Return losses by output, as one root mean square where outputs share a gamma."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.sqrt(np.square(lost).mean(axis=2, keepdims=True)) if self.pooled else lost

    def _inverses(self, t: Array) -> Array:
        values = self.spectrum.values + (self.lift - self.spectrum.lift)
        inverses: Array = 1.0 / (values[:, None] + on_device_of(values, np.exp(t.ravel())))
        return inverses

    def _shape(self, values: Array, t: Array) -> Array:
        """Reshape (points, outputs) to (intervals, points, outputs), outputs averaged where they share a gamma."""
        values = values.mean(axis=1, keepdims=True) if self.pooled else values
        return values.reshape(*t.shape, -1)


def following(sums: Array, t: Array) -> Array:
    """Return sums at the next point of the interval, of shape (intervals, points, outputs); the last one has none."""
    sums = sums.reshape(*t.shape, -1)
    return np.concatenate([sums[:, 1:], sums[:, -1:]], axis=1)


@dataclass(frozen=True, slots=True)
class OfMachine(Criterion):
    """A criterion of a machine in the coordinates of its spectrum, dense or on a reduced basis.

    ``weighted`` states that the traces of the machine are by the weights of the rows.
    """

    weighted: ClassVar[bool] = False

    machine: LeastSquares

    @classmethod
    def of(cls, spectrum: Spectral, Y: Any = None, *, pooled: bool = False) -> Self:
        """Return the criterion on the targets Y, one column per output; the spectrum of a reduced basis has its own."""
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
    def _sum_left_out(self, g: Array, roots: Array, t: Array) -> "LeftOutSums":
        """Return sums over the rows at the points; ``roots`` has the roots of Q, one column per output."""

    def sample(self, t: Array) -> Samples:
        """Sum over the rows, under the ceiling of Cauchy's inequality."""
        g, lambdas = self._at(t)
        quadratic = self.machine.quadratic(g, lambdas)
        sums = self._sum_left_out(g, np.sqrt(quadratic), t)
        values = self._shape(sums.squares / self.spectrum.n, t)
        ceilings = self._shape(quadratic, t) * following(sums.reciprocal / self.spectrum.n, t)
        ceilings = np.maximum(ceilings, self._shape(sums.rounded * np.ones_like(quadratic), t))
        return Samples(values, ceilings, sums.lost, sums.condition)


@dataclass(frozen=True, slots=True)
class LeftOutSums:
    """Sums over the rows that count, on the host, one row per point: r_i^2, one column per output, and (B_SS^-1)_ii.

    ``rounded`` is a ceiling for which the slack of a search covers the rounding of the values; ``lost`` and
    ``condition`` are as in :class:`Samples`.
    """

    squares: Array
    reciprocal: Array
    rounded: Array | float
    lost: Array
    condition: Array | None = None


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

    def _sum_left_out(self, g: Array, roots: Array, t: Array) -> LeftOutSums:
        """Sum by products with the basis and with products of its rows, batch by batch."""
        basis, z = self.spectrum.basis, self.targets.coordinates
        if self.blocks is None:
            squares, reciprocal, moves = sum_single_rows(basis, g, z)
            return LeftOutSums(squares, reciprocal, 0.0, self._lost_by_moves(t, moves))
        squares, reciprocal, moves, rounding = sum_blocks(basis, g, z, roots, self.blocks)
        with np.errstate(divide="ignore", invalid="ignore"):
            grown = np.sqrt(rounding / reciprocal[:, None]) / roots
        grown = np.where(roots > 0.0, grown, 1.0).max(axis=1)
        condition = np.maximum(np.where(np.isnan(grown), np.inf, grown).reshape(t.shape).max(axis=1), 1.0)
        return LeftOutSums(squares, reciprocal, 0.0, self._lost_by_moves(t, moves), condition)

    def _lost_by_moves(self, t: Array, moves: Array) -> Array:
        """Return what errors take from the root, from the sums of ||P_i||^2 ||alpha^(-S)||^2."""
        return lost_by_moves(self.spectrum, t, self._shape(moves / self.spectrum.n, t))


def lost_by_moves(spectrum: Spectrum, t: Array, moves: Array) -> Array:
    """Return ||E||/(1 - q) times the root of ``moves`` from each point on, and infinity from q = 1/2 on."""
    lam = np.exp(t) + spectrum.lift
    q = spectrum.decomposition_error(lam)[:, :, None]
    with np.errstate(over="ignore", invalid="ignore"):
        lost = following(spectrum.perturbation(lam), t) / np.maximum(1.0 - q, 0.5) * np.sqrt(moves)
        return np.asarray(np.where(q < 0.5, at_most(1.0) * lost, np.inf))


def sum_single_rows(basis: Array, g: Array, z: Array) -> tuple[Array, Array, Array]:
    """Return the sums of r_i^2, of 1/B_ii and of ||P_i||^2 ||alpha^(-i)||^2, all of them where the basis is.

    B_ii is a sum of positive terms, and the rest are quotients: nothing is solved, and the rounding is as for a sum.
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
    return to_numpy(squares), to_numpy(reciprocal), to_numpy(moves)


@dataclass(frozen=True, slots=True)
class _SolvedBlocks:
    """Upper bounds of (B_SS^-1)_ii and ||P_i||^2 for the rows of some blocks that count, of shape (blocks, points, rows
    that count); and for every output r_S, of shape (blocks, points, rows), and the rounding of its rows that count, in
    units of the rounding of a sum.
    """

    diagonal: Array
    lengths: Array
    residuals: list[Array]
    roundings: list[Array]


#: Entries of the matrices B_SS, and of the products of rows of the basis, that are computed at a time.
_ENTRIES, _PRODUCTS = 4_000_000, 8_000_000


def sum_blocks(
    basis: Array, g: Array, z: Array, roots: Array, blocks: LeftOutBlocks
) -> tuple[Array, Array, Array, Array]:
    """Return the sums of r_i^2, of (B_SS^-1)_ii and of ||P_i||^2 ||alpha^(-S)||^2, and the squares of the rounding of
    r_i, in units of the rounding of a sum.

    The products with the basis are computed where it is; all else is small and on the host. ``roots`` has the roots of
    Q, one column per output.
    """
    n, points, outputs = int(basis.shape[0]), int(g.shape[1]), int(z.shape[1])
    squares, moves, rounding = (np.zeros((points, outputs)) for _ in range(3))
    reciprocal = np.zeros(points)
    with blas_threads(n), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alphas = [to_numpy(basis @ (g * z[:, k][:, None])) for k in range(outputs)]
        norms = [np.sqrt(np.square(alpha).sum(axis=0)) for alpha in alphas]
        largest = to_numpy(namespace_of(g).max(g, axis=0))
        for batch, entries in _left_out_entries(basis, g, blocks):
            of_blocks = [np.moveaxis(alpha[batch.rows], 2, 1) for alpha in alphas]  # blocks, points, rows
            solved = _solve_blocks(entries[:, :points], entries[:, points:], of_blocks, roots, batch, n)
            moved = solved.lengths.sum(axis=2)
            reciprocal += solved.diagonal.sum(axis=(0, 2))
            for k, (alpha, residuals) in enumerate(zip(of_blocks, solved.residuals, strict=True)):
                counted = np.take_along_axis(residuals, batch.counted[:, None, :], axis=2)
                squares[:, k] += np.einsum("bpc,bpc->p", counted, counted)
                rounding[:, k] += np.square(solved.roundings[k]).sum(axis=(0, 2))
                pulled = np.maximum(np.einsum("bpr,bpr->bp", alpha, residuals), 0.0)
                moves[:, k] += np.einsum("bp,bp->p", moved, np.square(norms[k] + np.sqrt(largest * pulled)))
    return squares, reciprocal, moves, rounding


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


def _solve_blocks(
    matrices: Array, squared: Array, alphas: list[Array], roots: Array, batch: BlockBatch, n: int
) -> _SolvedBlocks:
    r"""Solve with B_SS for the rows that count and for the support values, and bound the rounding.

    With :math:`S = \operatorname{diag}(B_{SS})^{1/2}`, :math:`C = S^{-1} B_{SS} S^{-1}`,
    :math:`z_i = C^{-1} S^{-1} e_i` and :math:`w = C^{-1} S^{-1} \alpha_S`, so that :math:`r_S = S^{-1} w`: entries of C
    are known to :math:`\eta`, the rounding of a sum, the entries of :math:`S^{-1} \alpha_S` to :math:`\eta Q^{1/2}`,
    and solutions leave residuals, measured, of :math:`\omega` of the same sizes. Hence, to first order,

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
