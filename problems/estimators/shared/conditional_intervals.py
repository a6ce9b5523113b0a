"""Intervals that hold near every point, by calibration rows and quantile regression in a space of functions.

The mathematics is in :mod:`substrate.uncertainty.conditional`; here are the scores of a fitted regressor, in units of
the spread of its own predictions, and the kernel, that of its machine unless another is given. Neither looks at the
calibration rows, so that what is guaranteed holds in finite samples.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from substrate import uncertainty
from substrate.arrays import Array, positive, real_array
from substrate.errors import DataError, DeclarationError
from substrate.kernels import as_kernel
from substrate.namespaces import is_device_array, to_numpy

__all__ = ["ConditionalIntervals", "predict_conditional_interval"]

#: Fewest calibration rows with which the machine of a new row is fitted: two quantiles of one row are the same.
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class ConditionalIntervals:
    """Intervals at new rows, and what their coverage is known to be.

    Parameters
    ----------
    ends
        Lower and upper end of every row; infinite where the calibration rows are too few for the coverage.
    losses
        The share of coverage that may be missing near each row, rho h_K(x) / E k(X, x), estimated by the machine of
        the calibration rows.
    coverage
        The share of new rows that is covered at least, in finite samples.
    n_rows
        The number of calibration rows.
    """

    ends: Array
    losses: Array
    coverage: float
    n_rows: int

    def __str__(self) -> str:
        largest = float(self.losses.max(initial=0.0))
        return (
            f"covers at least {self.coverage:g} of new rows in finite samples, if the {self.n_rows} calibration rows "
            "and the new row are exchangeable and the former were not used in the fit; near a row, weighed by the "
            f"kernel, at least {self.coverage:g} less a term of the penalty, here at most {largest:.3f} (an estimate)"
        )


def predict_conditional_interval(
    self: Any, X: Any, rows: Any, coverage: float = 0.9, *, kernel: Any = None, regularization: float = 0.01
) -> ConditionalIntervals:
    """Return intervals that cover near every point, not only on the mean over all rows.

    The scores of rows that the model was not fitted to, \\|y - f(x)\\|, are regressed on the inputs by quantiles in the
    space of a kernel, with the new row among them ([Gibbs2025]_ section 3.2); intervals are wide where errors are.

    Parameters
    ----------
    X : array of shape (n, n_features)
        New rows.
    rows : pair (X, y)
        Calibration rows, which the model was not fitted to.
    coverage : float, default=0.9
        Share of new targets to be covered, above 0 and below 1.
    kernel : Kernel, str or None, default=None
        The kernel of the space; None is that of the machine. A width from the data is taken from the rows of the fit.
    regularization : float, default=0.01
        The weight rho of the squared norm: near infinity the intervals have one width, near zero they follow
        every score. To be chosen before the calibration rows are seen.

    Returns
    -------
    ConditionalIntervals
        ``ends``, and ``losses``, the further term of the coverage near each row.
    """
    check_is_fitted(self)
    level, rho = float(uncertainty.exact_level(coverage)), positive(regularization, "regularization")
    if self._outputs() != ():
        raise DeclarationError("conditional intervals are those of one output; fit one model for each")
    if self.kernel_.pairwise or is_device_array(self.support_values_):
        raise DeclarationError(
            "conditional intervals compare rows by their inputs, in numpy; fit with X itself, or model.to_numpy()"
        )
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        raise DataError(f"rows must be a pair (X, y) of calibration rows, received {type(rows).__name__}")
    points, calibration = self._new_points(X), self._new_points(rows[0])
    targets = real_array(rows[1], "y", ndim=1)
    if targets.size != calibration.shape[0] or targets.size < _FEWEST:
        raise DataError(
            f"rows must have one target for each of at least {_FEWEST} calibration rows, received "
            f"{calibration.shape[0]} rows and {targets.size} targets"
        )
    support = self.support_vectors_
    unit = float(np.std(self._evaluate(support))) if support.shape[0] else 0.0
    unit = unit if np.isfinite(unit) and unit > 0.0 else 1.0
    chosen = self.kernel_ if kernel is None else as_kernel(kernel).resolved(support)
    scores = np.abs(targets - to_numpy(self._evaluate(calibration))) / unit
    quantiles = uncertainty.ConditionalQuantiles.of(np.asarray(chosen(calibration)), scores, level, rho)
    values = np.asarray(chosen(calibration, points))
    bounds = np.maximum(quantiles.bounds(values, np.asarray(chosen.diag(points))), 0.0) * unit
    fitted = to_numpy(self._evaluate(points))
    return ConditionalIntervals(
        ends=np.stack([fitted - bounds, fitted + bounds], axis=1),
        losses=quantiles.losses(values),
        coverage=level,
        n_rows=targets.size,
    )
