r"""Exact leave-one-out and left-out-block residuals of an LS-SVM without refitting, and its hat matrix.

With B the block of the inverse of the bordered matrix that maps y to :math:`\alpha`
(:func:`~substrate.least_squares.leave_one_out.projected_inverse`), eliminating the rows of a set F gives

.. math:: y_F - f^{(-F)}(x_F) = (B_{FF})^{-1} \alpha_F, \qquad y_i - f^{(-i)}(x_i) = \frac{\alpha_i}{B_{ii}},

where :math:`f^{(-F)}` is the machine fitted without those rows, bias included. Weights are in B already; a row of
weight two is left out as a whole. In two-class classification :math:`y_i f^{(-i)}(x_i) = 1 - y_i \alpha_i / B_{ii}`.

[Cawley2004]_ section 2.5 states the single row for a sparse basis; the blocks make k folds a closed form as well. The
residuals are exact for the given kernel, gamma and scaling, which usually depend on the left-out row too.

The fitted values are linear in y, :math:`f = H y`, bias included, and the trace of the hat matrix H is the effective
number of degrees of freedom. With :math:`A = K + D`,

.. math:: \alpha = B y, \qquad B = A^{-1} - \frac{A^{-1} 1 1^T A^{-1}}{1^T A^{-1} 1}, \qquad H = I - D B,

with the columns Z of a :mod:`~substrate.least_squares.border` in the place of 1 where there are others, since
:math:`y - f = D \alpha`; [Suykens2002]_ eq. (5) and (12) with the errors eliminated. The row numbers of folds and
splits are checked here for every model that is validated.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.errors import DataError, SolverError
from substrate.gram import Gram
from substrate.least_squares.border import ONES, Border
from substrate.numbers import relative_rounding

__all__ = [
    "Rows",
    "Split",
    "checked_splits",
    "generalized_cross_validation",
    "hat_matrix",
    "leave_one_out_residuals",
    "left_out_residuals",
    "projected_diagonal",
    "projected_inverse",
    "relative_error",
]

Rows = NDArray[np.intp]
Split = tuple[Rows, Rows]


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


def left_out_residuals(support_values: Array, B: Array, rows: Any) -> Array:
    """Return (B_FF)^{-1} alpha_F: the residuals of the rows F when all of them are left out together.

    :equation [Cawley2004]_ (A.1): the Schur complement of rows left out, which is the inverse of their block of B
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    F = np.asarray(rows, dtype=np.intp)
    if F.size >= B.shape[0]:
        raise DataError(f"a fold holds all {B.shape[0]} rows, so nothing is left to fit; use at least two folds")
    block = B[np.ix_(F, F)]
    root = np.sqrt(np.abs(block.diagonal()))
    if not (root > 0.0).all():
        raise SolverError("a left-out block of B has a zero on its diagonal: the other rows determine no machine")
    scaled = block / root / root[:, None]  # makes the solve independent of the weights' scales
    try:
        factor = cho_factor(scaled, lower=True)
    except LinAlgError as error:
        raise SolverError(
            f"a left-out block of {F.size} rows is not positive definite, so the other rows determine no machine; use "
            "a positive semi-definite kernel or a smaller gamma"
        ) from error
    alpha = support_values[F]
    scale = root[:, None] if alpha.ndim == 2 else root
    return np.asarray(cho_solve(factor, alpha / scale) / scale)


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


def projected_inverse(gram: Gram, ridge: Array, border: Border = ONES) -> Array:
    """Return B: the block of the inverse of the bordered matrix that maps y to alpha."""
    gram.factorize(ridge)
    inverse = gram.inverse()
    if border.plain:
        eta = inverse.sum(axis=1)
        return np.asarray(inverse - np.outer(eta, eta) / eta.sum())
    eliminated = border.eliminate(inverse @ border.matrix(inverse))
    projected = np.asarray(inverse - eliminated.share @ eliminated.solved.T)
    np.fill_diagonal(projected, border.without_rows(projected.diagonal(), ridge))
    return projected


def projected_diagonal(gram: Gram, ridge: Array, border: Border = ONES) -> Array:
    """Return the diagonal of B, at half the cost of B."""
    gram.factorize(ridge)
    eliminated = border.eliminate(gram.solve(border.matrix(ridge[:, None])))
    diagonal: Array = gram.inverse_diagonal() - eliminated.diagonal
    return border.without_rows(diagonal, ridge)


def hat_matrix(gram: Gram, ridge: Array, border: Border = ONES) -> Array:
    """Return H with f = H y.

    :place [Cawley2004]_ section 2.6: the hat matrix
    """
    H = -ridge[:, None] * projected_inverse(gram, ridge, border)
    H[np.diag_indices(gram.n)] += 1.0
    return H
