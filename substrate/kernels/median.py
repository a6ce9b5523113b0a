r"""The median heuristic: a width for a kernel that compares distances.

.. math:: \sigma = \operatorname{median}_{i<j} \|x_i - x_j\|

over pairs of distinct points [Gretton2012]_. A point that occurs twice counts once, so that a row of weight two and a
repeated row mean the same. Beyond a thousand points a thousand evenly spaced ones, in sorted order, stand for all: the
answer is deterministic and does not depend on the order of the rows. Machines on a reduced basis hand over some rows
only where there are very many, by :func:`substrate.streaming.row_numbers.width_rows`.
"""

from typing import Any

import numpy as np

from substrate.arrays import is_sparse
from substrate.errors import DeclarationError
from substrate.namespaces import to_numpy

__all__ = ["median_distance", "needs_number"]

_MOST_ROWS = 1000
#: Entries up to which a sparse matrix is made dense to find its distinct rows.
_MOST_DENSE = 10_000_000


def _spaced(X: Any) -> Any:
    n = X.shape[0]
    return X[np.linspace(0, n - 1, min(n, _MOST_ROWS)).astype(np.intp)]


def median_distance(X: Any, metric: str = "euclidean") -> float:
    """Median distance between distinct rows of X; 1 where all rows are the same point."""
    from scipy.spatial.distance import pdist

    X = to_numpy(X)
    sparse = is_sparse(X)
    if sparse and X.shape[0] * X.shape[1] > _MOST_DENSE:
        X = _spaced(X)
    sample = _spaced(np.unique(X.toarray() if sparse else X, axis=0))
    # Distances may overflow or vanish although the points do not: measure in units of their spread.
    halves = sample / 2.0 - sample[:1] / 2.0
    unit = float(np.abs(halves).max())
    if unit == 0.0:
        return 1.0
    distances = pdist(halves / unit, metric)
    typical = float(np.median(distances[distances > 0.0]))
    return min(2.0 * typical * unit, float(np.finfo(np.float64).max))


def needs_number(kernel: object, sigma: Any) -> float:
    """The width as a number, or an error that says how to get one."""
    if isinstance(sigma, str):
        raise DeclarationError(f"{kernel!r} depends on data; call kernel.resolved(X) first (estimators do)")
    return float(sigma)
