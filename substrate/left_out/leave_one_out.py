r"""Exact leave-one-out and left-out-block residuals of an LS-SVM without refitting, and its hat matrix.

With B the block of the inverse of the bordered matrix that maps y to :math:`\alpha`
(:mod:`~substrate.left_out.influence`), eliminating the rows of a set F gives

.. math:: y_F - f^{(-F)}(x_F) = (B_{FF})^{-1} \alpha_F, \qquad y_i - f^{(-i)}(x_i) = \frac{\alpha_i}{B_{ii}},

where :math:`f^{(-F)}` is the machine fitted without those rows, bias included. Weights are in B already; a row of
weight two is left out as a whole. In two-class classification :math:`y_i f^{(-i)}(x_i) = 1 - y_i \alpha_i / B_{ii}`.

[Cawley2004]_ section 2.5 states the single row for a sparse basis; the blocks make k folds a closed form as well. The
residuals are exact for the given kernel, gamma and scaling, which usually depend on the left-out row too.

The fitted values are linear in y, :math:`f = H y`, bias included, and the trace of the hat matrix H is the effective
number of degrees of freedom. With :math:`A = K + D`,

.. math:: \alpha = B y, \qquad B = A^{-1} - \frac{A^{-1} 1 1^T A^{-1}}{1^T A^{-1} 1}, \qquad H = I - D B,

with the columns Z of a :mod:`~substrate.operators.border` in the place of 1 where there are others, since
:math:`y - f = D \alpha`; [Suykens2002]_ eq. (5) and (12) with the errors eliminated. The row numbers of folds and
splits are checked here for every model that is validated.

**Blocks of rows.** Leave-one-out assumes that errors are independent. Where the errors of neighbours are correlated,
the rows next to the one that is left out carry its error too: a machine that follows the noise predicts it well, and
every criterion that leaves single rows out chooses such a machine ([DeBrabanter2011b]_ section 2). Three sets answer
that, all by the formula above:

- every row alone, which is leave-one-out;
- groups (patients, batches, sites): all rows of a group are left out together, and all of them count;
- blocks around every row in turn: the rows :math:`i - l, \ldots, i + l` are left out, fewer at an end of a series, and
  only the residual of row i counts ([Chu1991]_; [DeBrabanter2011b]_ for LS-SVMs).

Every row counts once, so the criterion is a mean over all rows in each case.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import (
    Array,
    blas_threads,
    blocks_beside,
    namespace_of,
    paired_sums,
    take_rows,
    to_numpy,
    zeros_beside,
)
from substrate.errors import DataError, DeclarationError, SolverError
from substrate.numbers import relative_rounding

__all__ = [
    "LeftOutBlocks",
    "Rows",
    "Split",
    "block_residuals",
    "checked_splits",
    "generalized_cross_validation",
    "leave_one_out_residuals",
    "relative_error",
    "sum_blocks",
    "sum_single_rows",
]

Rows = NDArray[np.intp]
Split = tuple[Rows, Rows]
#: Blocks of one size: their rows, one line each, and the places in them whose residuals count.
BlockBatch = tuple[Rows, Rows]


def checked_splits(splits: Iterable[Any], n: int, kept: Any = None) -> tuple[Split, ...]:
    """Check pairs of rows that train and rows that validate: none empty, and no row on both sides of a split.

    Splits name rows by their numbers among the n rows given. Where only some of these are ``kept``, since the others
    have weight zero, the others are left out of both sides, a split without a row on one side is no split, and the
    numbers returned are those among the rows kept.
    """
    checked = []
    for number, (train, test) in enumerate(splits):
        pair = _row_numbers(train, n, f"split {number}: train"), _row_numbers(test, n, f"split {number}: test")
        common = np.intersect1d(*pair)
        if common.size:
            raise DataError(f"split {number} trains on row {common[0]} and validates on it; keep the two apart")
        checked.append(pair)
    if not checked:
        raise DataError("cv gives no split; give at least one")
    if kept is None or len(kept) == n:
        return tuple(checked)
    places = np.full(n, -1, dtype=np.intp)
    places[kept] = np.arange(len(kept))
    kept_splits = [tuple(places[rows][places[rows] >= 0] for rows in pair) for pair in checked]
    usable = tuple((train, test) for train, test in kept_splits if train.size and test.size)
    if not usable:
        raise DataError(
            f"no split of cv has rows of positive weight on both sides, of {len(kept)} such rows; give other splits or "
            "more rows a positive sample_weight"
        )
    return usable


def _row_numbers(rows: Any, n: int, name: str) -> Rows:
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        raise DataError(f"{name} must be row numbers, at least one, received {rows!r}")
    if numbers.min() < 0 or numbers.max() >= n:
        wrong = numbers[(numbers < 0) | (numbers >= n)][0]
        raise DataError(f"{name} names row {wrong} of {n} rows; row numbers run from 0 to {n - 1}")
    return numbers.astype(np.intp)


def leave_one_out_residuals(support_values: Array, diagonal: Array) -> Array:
    """Return alpha_i / B_ii, one column per output; ``diagonal`` is the diagonal of B, with one column per gamma if
    they differ.

    B_ii vanishes only where the other rows do not determine a machine: with a single row, or a kernel matrix that is
    not positive semi-definite.

    :place [Cawley2004]_ section 2.5: leave-one-out in closed form, for the full machine
    """
    (rows,) = np.nonzero(~(np.min(np.atleast_2d(diagonal.T), axis=0) > 0.0))
    if rows.size:
        raise SolverError(
            f"without row {rows[0]} the machine is not determined: B_ii is {np.min(diagonal[rows[0]]):.3g} where it "
            "must be positive; use a positive semi-definite kernel, more rows, or a smaller gamma"
        )
    by_row = diagonal[:, None] if support_values.ndim == 2 and diagonal.ndim == 1 else diagonal
    return np.asarray(support_values / by_row)


def relative_error(explicit: Array, fast: Array) -> float:
    """Return ||e - e^|| / ||e||: how far fast residuals are from explicit refits.

    :equation [Cawley2004]_ (6): the relative error of fast leave-one-out
    """
    return float(np.linalg.norm(explicit - fast) / np.linalg.norm(explicit))


def generalized_cross_validation(errors: Array, degrees_of_freedom: float, weights: Array | None = None) -> Any:
    r"""Return mean square of the training errors over (1 - trace H / N)^2: every leverage replaced by the mean.

    With ``weights`` v of mean one both means are weighted, and :math:`\sum_i v_i H_{ii}` is given for the trace:

    .. math:: \frac1N \sum_i v_i e_i^2 \Big/ \Big( 1 - \frac1N \sum_i v_i H_{ii} \Big)^2 .

    A row whose weight tends to zero then counts as an absent one.
    """
    n = errors.shape[0]
    squares = np.square(errors) if weights is None else (np.square(errors).T * weights).T
    spare = 1.0 - degrees_of_freedom / n
    if spare <= relative_rounding(n):  # the mean of so many leverages
        raise SolverError(
            f"{degrees_of_freedom:g} degrees of freedom on {n} rows leave none for the errors; use a smaller gamma"
        )
    return np.mean(squares, axis=0) / spare**2


@dataclass(frozen=True, eq=False)
class LeftOutBlocks:
    """Sets of rows that are left out together, by row numbers, and the places in each whose residuals count.

    Every row counts once; ``rows`` and ``counted`` have one array per block.
    """

    n: int
    rows: tuple[Rows, ...]
    counted: tuple[Rows, ...]

    @classmethod
    def of_groups(cls, labels: Any) -> "LeftOutBlocks":
        """Return the rows of every group, in the order of its first row; all of them count."""
        values = np.asarray(labels)
        if values.ndim != 1:
            raise DataError(f"groups must have one label per row, a vector, received shape {values.shape}")
        _, first, numbers = np.unique(values, return_index=True, return_inverse=True)
        if first.size < 2:
            raise DataError("groups has one label only, so nothing is left to fit without it; give at least two groups")
        order = np.argsort(first)
        rows = tuple(np.flatnonzero(numbers == number) for number in order)
        return cls._checked(values.size, rows, tuple(np.arange(block.size) for block in rows))

    @classmethod
    def of_splits(cls, n: int, splits: Sequence[Split]) -> "LeftOutBlocks":
        """Return the blocks of splits of n rows: all rows that do not train, of which the validating ones count."""
        rows = tuple(np.setdiff1d(np.arange(n), train) for train, _ in splits)
        places = (np.searchsorted(block, test) for block, (_, test) in zip(rows, splits, strict=True))
        return cls._checked(n, rows, tuple(places))

    @classmethod
    def centred(cls, n: int, reach: int, series: Any = None) -> "LeftOutBlocks":
        """Return the block of every row and ``reach`` neighbours on both sides, of which the row itself counts.

        Rows are in the order of time. Blocks end where a series does: ``series`` has one label per row, None if all
        rows are one series.
        """
        if reach < 0:
            raise DeclarationError(f"reach must be at least 0, received {reach}")
        labels = np.zeros(n, dtype=np.intp) if series is None else np.unique(np.asarray(series), return_inverse=True)[1]
        rows: list[Rows] = [np.empty(0, dtype=np.intp)] * n
        counted: list[Rows] = [np.empty(0, dtype=np.intp)] * n
        for label in range(int(labels.max(initial=0)) + 1):
            of_series = np.flatnonzero(labels == label)
            for place, row in enumerate(of_series):
                start = max(0, place - reach)
                rows[row] = of_series[start : place + reach + 1]
                counted[row] = np.array([place - start], dtype=np.intp)
        return cls._checked(n, tuple(rows), tuple(counted))

    @classmethod
    def _checked(cls, n: int, rows: tuple[Rows, ...], counted: tuple[Rows, ...]) -> "LeftOutBlocks":
        largest = max((block.size for block in rows), default=0)
        if largest > max(n - 2, 1):  # of two rows each may be left out alone
            raise DataError(
                f"without a block of {largest} of {n} rows fewer than two are left to fit; use smaller blocks, more "
                "groups, or more rows"
            )
        return cls(n, rows, counted)

    @cached_property
    def largest(self) -> int:
        """The number of rows of the largest block."""
        return max(block.size for block in self.rows)

    def batches(self, most: int) -> Iterator[BlockBatch]:
        """Yield all blocks, grouped by size, at most ``most`` at a time."""
        sizes: dict[tuple[int, int], list[int]] = {}
        for number, (block, counted) in enumerate(zip(self.rows, self.counted, strict=True)):
            sizes.setdefault((block.size, counted.size), []).append(number)
        for numbers in sizes.values():
            for start in range(0, len(numbers), max(1, most)):
                group = numbers[start : start + max(1, most)]
                yield np.array([self.rows[k] for k in group]), np.array([self.counted[k] for k in group])

    def describe(self) -> str:
        """Describe in words which rows are left out."""
        if all(counted.size == 1 for counted in self.counted) and len(self.rows) == self.n:
            return "every row left out with its neighbours" if self.largest > 1 else "every row left out in turn"
        return f"{len(self.rows)} groups of up to {self.largest} rows left out in turn"


def block_residuals(support_values: Array, B: Array, blocks: LeftOutBlocks) -> Array:
    """Return the residual of every row with its block left out, (B_SS)^{-1} alpha_S at the rows that count.

    :equation [Cawley2004]_ (A.1): the Schur complement of rows left out, which is the inverse of their block of B
    """
    from scipy.linalg import LinAlgError, solve

    residuals = np.empty(support_values.shape)
    for rows, counted in zip(blocks.rows, blocks.counted, strict=True):
        try:
            of_block = solve(B[np.ix_(rows, rows)], support_values[rows], assume_a="pos")
        except LinAlgError as error:
            raise SolverError(_not_determined(rows.size)) from error
        residuals[rows[counted]] = of_block[counted]
    return residuals


def _not_determined(size: int) -> str:
    return (
        f"without a block of {size} rows the machine is not determined (B_SS is singular); use smaller blocks or "
        "groups, more rows, or fewer columns of a linear part"
    )


def sum_single_rows(basis: Array, g: Array, z: Array) -> tuple[Array, Array]:
    """Return the sums of r_i^2 and of 1/B_ii over all rows, each left out alone.

    B_ii is a sum of positive terms, and the rest are quotients: nothing is solved, and the rounding is as for a sum.
    """
    n, points, outputs = int(basis.shape[0]), int(g.shape[1]), int(z.shape[1])
    xp, squares, reciprocal = namespace_of(g), zeros_beside(g, (points, outputs)), zeros_beside(g, points)
    with blas_threads(n), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alphas = [basis @ (g * z[:, k][:, None]) for k in range(outputs)]
        for rows in blocks_beside(g, n, n):
            diagonal = 1.0 / (basis[rows, :] ** 2 @ g)
            reciprocal += xp.sum(diagonal, axis=0)
            for k, alpha in enumerate(alphas):
                residuals = diagonal * alpha[rows, :]
                squares[:, k] += paired_sums(residuals, residuals, 0)
    return to_numpy(squares), to_numpy(reciprocal)


#: Entries of the matrices B_SS, and of the products of rows of the basis, that are computed at a time.
_ENTRIES, _PRODUCTS = 4_000_000, 8_000_000


def sum_blocks(basis: Array, g: Array, z: Array, roots: Array, blocks: LeftOutBlocks) -> tuple[Array, Array, Array]:
    """Return the sums of r_i^2, of (B_SS^-1)_ii, and of the squares of the rounding of r_i, in units of the rounding of
    a sum.

    The products with the basis are computed where it is; all else is small and on the host. ``roots`` has the roots of
    Q, one column per output.
    """
    n, points, outputs = int(basis.shape[0]), int(g.shape[1]), int(z.shape[1])
    squares, rounding, reciprocal = np.zeros((points, outputs)), np.zeros((points, outputs)), np.zeros(points)
    with blas_threads(n), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alphas = [to_numpy(basis @ (g * z[:, k][:, None])) for k in range(outputs)]
        for batch, entries in _left_out_entries(basis, g, blocks):
            of_blocks = np.stack([np.moveaxis(alpha[batch[0]], 2, 1) for alpha in alphas], axis=3)
            diagonal, residuals, roundings = _solve_blocks(entries, of_blocks, roots, batch, n)
            reciprocal += diagonal.sum(axis=(0, 2))
            squares += np.square(residuals).sum(axis=(0, 2))
            rounding += np.square(roundings).sum(axis=(0, 2))
    return squares, reciprocal, rounding


def _left_out_entries(basis: Array, g: Array, blocks: LeftOutBlocks) -> Iterator[tuple[BlockBatch, Array]]:
    """Yield batches of blocks with B_SS at all points, of shape (blocks, points, rows, rows).

    Every pair of rows that some blocks of a batch share is computed once.
    """
    n, count = int(basis.shape[0]), int(g.shape[1])
    for batch in blocks.batches(max(1, _ENTRIES // (blocks.largest**2 * count))):
        low = np.minimum(batch[0][:, :, None], batch[0][:, None, :])
        high = np.maximum(batch[0][:, :, None], batch[0][:, None, :])
        pairs, places = np.unique(low.astype(np.int64) * n + high, return_inverse=True)
        products = np.empty((pairs.size, count))
        step = max(1, _PRODUCTS // n)
        for start in range(0, pairs.size, step):
            first, second = np.divmod(pairs[start : start + step], n)
            products[start : start + step] = to_numpy((take_rows(basis, first) * take_rows(basis, second)) @ g)
        yield batch, np.moveaxis(products[places.reshape(low.shape)], 3, 1)


def _solve_blocks(
    matrices: Array, alphas: Array, roots: Array, batch: BlockBatch, n: int
) -> tuple[Array, Array, Array]:
    r"""Return upper bounds of (B_SS^-1)_ii for the rows of blocks that count, of shape (blocks, points, rows), their
    residuals, with one more axis for the outputs, and bounds on their rounding, in units of the rounding of a sum.

    With :math:`S = \operatorname{diag}(B_{SS})^{1/2}`, :math:`C = S^{-1} B_{SS} S^{-1}`,
    :math:`z_i = C^{-1} S^{-1} e_i` and :math:`w = C^{-1} S^{-1} \alpha_S`, so that :math:`r_S = S^{-1} w`: entries of C
    are known to :math:`\eta`, the rounding of a sum, the entries of :math:`S^{-1} \alpha_S` to :math:`\eta Q^{1/2}`,
    and solutions leave residuals, measured, of :math:`\omega` of the same sizes. Hence, to first order,

    .. math:: |\delta r_i| \le (2 \eta + \omega)\, \|z_i\|_1 \big( Q^{1/2} + \|w\|_1 \big), \qquad
              |\delta (B_{SS}^{-1})_{ii}| \le (2 \eta + \omega)\, \|z_i\|_1^2 ,

    and twice that in all, where :math:`3 b \eta \|C^{-1}\| \le \tfrac12`, b the rows of the block. The latter is known
    where C less :math:`8 b \eta` has a Cholesky factor, whose own rounding is below :math:`b (b + 3)` units.
    """
    rows, chosen = batch
    (b, c), eta = (rows.shape[1], chosen.shape[1]), relative_rounding(n + 16.0)
    S = np.sqrt(matrices.diagonal(axis1=2, axis2=3))
    C = matrices / S[:, :, :, None] / S[:, :, None, :]
    lost = _are_near_singular(C, 8.0 * b * eta)
    counted = np.zeros((rows.shape[0], 1, b, c))
    np.put_along_axis(counted, chosen[:, None, None, :], 1.0, axis=2)
    sides = np.concatenate([counted / S[:, :, :, None], alphas / S[:, :, :, None]], axis=3)
    try:
        solutions = np.linalg.solve(C, sides)
    except np.linalg.LinAlgError as error:
        raise SolverError(_not_determined(b)) from error
    sizes = np.abs(solutions).sum(axis=2)  # ||z_i||_1 and ||w||_1
    levels = sizes + np.concatenate([np.zeros((1, matrices.shape[1], c)), roots[None, :, :]], axis=2)
    defects = np.abs(sides - C @ solutions).max(axis=2) / np.where(levels > 0.0, levels, 1.0)
    omega = defects.max(axis=2) + relative_rounding(b + 4.0)
    lost |= ~(omega <= eta)
    places, share = chosen[:, None, :, None], 2.0 * (2.0 * eta + omega)
    scaled = np.take_along_axis(solutions / S[:, :, :, None], places, axis=2)
    diagonal = scaled[:, :, :, :c].diagonal(axis1=2, axis2=3) + share[:, :, None] * np.square(sizes[:, :, :c])
    share = np.where(lost, np.inf, share / eta)[:, :, None, None]
    return diagonal, scaled[:, :, :, c:], share * sizes[:, :, :c, None] * levels[:, :, None, c:]


def _are_near_singular(matrices: Array, shift: float) -> Any:
    """Return which matrices, with a diagonal of ones, are not proved to be positive definite by this much."""
    shifted = matrices - shift * np.eye(matrices.shape[-1])
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:  # some of them: all are looked at
        return ~(np.linalg.eigvalsh(shifted)[:, :, 0] > shift)
    return np.zeros(matrices.shape[:2], dtype=bool)
