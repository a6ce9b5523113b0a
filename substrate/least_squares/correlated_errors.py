r"""How many neighbours to leave out where errors are correlated in time: a rule for l.

The errors are not observed, and an estimate that follows them hides their correlation, so both are found together:

1. A pilot machine, an LS-SVM with the kernel Matern(5/2) of the width of all data, which is nearly a smoothing spline:
   its gamma alone says how smooth it is. Gamma is the best of a grid by leaving every row out with l neighbours on both
   sides (:mod:`~substrate.least_squares.left_out_blocks`); at first l = 3.
2. The left-out residuals e of that machine, about their mean, with N rows, have the correlations

   .. math:: \hat\rho(k) = \frac{\sum_i e_i e_{i+k}}{\sum_i e_i^2}, \qquad c = \frac{\Phi^{-1}(1 - \alpha/2)}{\sqrt N},
             \quad \alpha = 0.05 .

   The reach of their correlation is the last lag before the first with :math:`\hat\rho(k) \le c`, or, where it is more,
   the last before :math:`\hat\rho(1)^k \le c`: an autoregression of order one continued beyond l, where the pilot has
   followed the errors. Negative correlations do not make a criterion collapse and are not counted.
3. While the reach is above l, it becomes l, and the pilot is chosen again.

The reach in the end is the rule's l, at most an eighth of the shortest series. Errors without correlation have l = 0,
and that is leave-one-out. Where the function itself changes as fast as errors are correlated, the two cannot be told
apart, and l should be given. [DeBrabanter2011b]_ Algorithm 1 has the same steps with another pilot, a smoother with a
kernel that vanishes at zero, and without 3.
"""

import math
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.gram import Gram
from substrate.kernels import Matern
from substrate.least_squares.criteria import LeaveOneOut
from substrate.least_squares.left_out_blocks import LeftOutBlocks, block_residuals
from substrate.least_squares.saddle_system import target_unit
from substrate.least_squares.spectrum import Spectrum, centred_spectrum

__all__ = ["choose_reach", "correlation_reach"]

#: Two-sided level of the test, the largest share of a series that l may be, and l of the first pilot.
_LEVEL, _SHARE, _FIRST = 0.05, 0.125, 3
#: The values of lambda of a pilot, as shares of the trace of the centred kernel matrix, and the most rounds.
_SHARES, _ROUNDS = np.geomspace(1e-9, 1.0, 30), 12


def choose_reach(X: Any, Y: Array, series: Any = None) -> int:
    """Return l by the rule, for rows in the order of time; Y has one column per output.

    ``series`` has one label per row, None where all rows are one series.

    :place [DeBrabanter2011b]_ Algorithm 1: how many neighbours to leave out, by the errors of a pilot
    """
    points, targets = _points(X), _standard_targets(Y)
    n = points.shape[0]
    parts = _series_rows(n, series)
    most = int(_SHARE * min(rows.size for rows in parts))
    width = 2.0 * float(np.sqrt(np.square(points).sum(axis=1).max()))
    if most < 1 or targets.shape[1] == 0 or not width > 0.0:
        return 0
    spectrum = centred_spectrum(Gram.of(Matern(width, nu=2.5), points))
    if not spectrum.trace > 0.0:
        return 0
    left_out = min(_FIRST, most)
    for _ in range(_ROUNDS):
        blocks = LeftOutBlocks.centred(n, left_out, series)
        reach = min(correlation_reach(_pilot_errors(spectrum, targets, blocks), series), most)
        if reach <= left_out:
            break
        left_out = reach
    return reach


def correlation_reach(errors: Array, series: Any = None) -> int:
    """Return how far errors in the order of time are correlated, by the second step of the rule.

    ``errors`` have one column per output, and their correlations are averaged; lags do not cross from one series to
    another.
    """
    from scipy.stats import norm

    columns = np.asarray(errors, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    n = columns.shape[0]
    sizes = np.abs(columns).max(axis=0)
    columns = columns[:, sizes > 0.0] / sizes[sizes > 0.0]
    if columns.shape[1] == 0:
        return 0
    columns = columns - columns.mean(axis=0)
    squares = np.square(columns).sum(axis=0)
    parts = [columns[rows] for rows in _series_rows(n, series)]
    limit = float(norm.ppf(1.0 - _LEVEL / 2.0)) / math.sqrt(n)

    def correlation(lag: int) -> float:
        products = np.sum([(part[:-lag] * part[lag:]).sum(axis=0) for part in parts], axis=0)
        return float(np.mean(np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0.0)))

    most = max(0, min(part.shape[0] for part in parts) - 1)
    lags = (lag - 1 for lag in range(1, most + 1) if correlation(lag) <= limit)
    reach = int(next(lags, most))
    first = correlation(1) if most else 0.0
    if first <= limit or limit >= 1.0:
        return reach
    decay = math.ceil(math.log(limit) / math.log(first)) - 1 if first < 1.0 else most
    return int(max(reach, min(decay, most)))


def _pilot_errors(spectrum: Spectrum, targets: Array, blocks: LeftOutBlocks) -> Array:
    """Return the left-out residuals of the pilot at its best lambda."""
    criterion = LeaveOneOut.of_blocks(spectrum, targets, blocks, pooled=True)
    lambdas = spectrum.lift + spectrum.trace * _SHARES
    values = criterion.sample(np.log(spectrum.trace * _SHARES)[:, None]).values[:, 0, 0]
    lam = lambdas[[int(np.argmin(values))]]
    alpha = spectrum.support_values(spectrum.targets(targets), lam)[:, 0, :]
    B = (spectrum.basis * spectrum.inverses(lam)[:, 0]) @ spectrum.basis.T
    return block_residuals(alpha, B, blocks)


def _points(X: Any) -> Array:
    """Return dense points, in units in which their squares do not overflow, about their mean."""
    points = np.asarray(X, dtype=np.float64)
    points = points[:, None] if points.ndim == 1 else points
    centred = points - points.mean(axis=0)
    size = float(np.abs(centred).max(initial=0.0))
    return np.asarray(centred / size if size > 0.0 else centred)


def _standard_targets(Y: Array) -> Array:
    """Return the columns that are not constant, about their mean, in units of their deviation."""
    columns = np.asarray(Y, dtype=np.float64).reshape(len(Y), -1)
    columns = columns / target_unit(columns)
    centred = columns - columns.mean(axis=0)
    sizes = np.sqrt(np.square(centred).mean(axis=0))
    moving = sizes > 1e-12 * np.abs(columns).max(axis=0)
    return np.asarray(centred[:, moving] / sizes[moving])


def _series_rows(n: int, series: Any) -> list[Any]:
    """Return the rows of every series, in their order."""
    if series is None:
        return [np.arange(n)]
    _, labels = np.unique(np.asarray(series), return_inverse=True)
    return [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
