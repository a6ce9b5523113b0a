r"""Sets of labels that hold the right one with a given probability, by conformal prediction.

A row is the stranger the less its class is ahead of the best other class in a machine that was fitted without it: with
the margins of :func:`~substrate.uncertainty.calibration.margins`, its strangeness is minus the margin of its own class.
A label z belongs to the set of a new row x unless at least :math:`k = \lceil c (n + 1) \rceil` of the n rows are less
strange than (x, z) ([Vovk2005]_).

For the exact set every row is judged by the machine fitted to all other rows and to (x, z), so that the n + 1 rows are
treated alike. A classifier that is a regression on codes has these machines in closed form: with c and p of
:mod:`~substrate.uncertainty.influence`, :math:`S = p + 1/\gamma` and the code :math:`z_j` of the label in machine j,

.. math:: r_{ij}(z) = \frac{S \alpha_{ij} - c_i\, t_j}{S B_{ii} + c_i^2}, \qquad t_j = z_j - f_j(x),

are the left-out residuals of the enlarged machines, and the new row's own are :math:`t_j`. With the classes, kernel and
gamma fixed in advance and exchangeable rows, the right label is in the set with probability at least c. The outputs are
linear in t, so the labels of a row share c, p and the products :math:`S \alpha`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.uncertainty.calibration import margins
from substrate.uncertainty.levels import rank

__all__ = ["enlarged_outputs", "in_set", "less_strange", "less_strange_enlarged", "strangeness"]

#: Cells of the arrays of one block of new rows.
_CELLS = 2**21
#: Share of the largest score within which two count as equal: a set may be larger by rounding, never smaller.
_EQUAL = 1e-10


def strangeness(scores: Array, classes: Any) -> Array:
    """Return how far each row's own class is behind the best other one."""
    return -np.asarray(margins(scores)[np.arange(len(classes)), classes])


def in_set(less: Any, coverage: Any, n: int) -> Any:
    """Return whether labels belong to the set: fewer than ceil(coverage (n + 1)) of n rows are less strange."""
    return np.asarray(less) < rank(coverage, n)


def less_strange(calibration: Array, scores: Array) -> Any:
    """Return how many calibration rows, given by their strangeness, are less strange than each row with each label."""
    return np.searchsorted(np.sort(calibration), -margins(scores), side="left")


def enlarged_outputs(alpha: Array, targets: Array, diagonal: Array, c: Array, S: Array, t: Array) -> Array:
    """Return left-out outputs of all rows in machines enlarged by each new row: (new rows, rows, machines).

    ``alpha`` and ``targets`` have one column per machine, ``c`` one line per new row, ``t`` one line of codes minus
    outputs per new row.
    """
    pull = S[:, None] * diagonal + np.square(c)
    residuals = S[:, None, None] * alpha - c[:, :, None] * t[:, None, :]
    return np.asarray(targets - residuals / pull[:, :, None])


def less_strange_enlarged(
    blocks: Iterator[tuple[Array, Array, Array]],
    training: tuple[Array, Array, Array],
    classes: Any,
    book: Array,
    scores_of: Callable[[Array], Array],
) -> Any:
    """Return how many rows are less strange than each new row with each label, in the machine enlarged by it.

    ``blocks`` yields the outputs of new rows, c and S; ``known`` are alpha, the codes of the rows and the diagonal;
    ``scores_of`` makes decision values from outputs, one column per machine.

    :place [Vovk2005]_ conformal predictor: the labels of a set, exactly and without a refit
    """
    counts = []
    for outputs, c, S in blocks:
        for block in _slices(outputs.shape[0], c.shape[1] * book.size):
            new = -margins(scores_of(outputs[block]))
            less = np.empty(new.shape, dtype=np.intp)
            for label, code in enumerate(book):
                enlarged = enlarged_outputs(*training, c[block], S[block], code - outputs[block])
                decided = scores_of(enlarged.reshape(-1, enlarged.shape[2]))
                scores_of_rows = strangeness(decided, np.tile(classes, enlarged.shape[0])).reshape(enlarged.shape[:2])
                threshold = new[:, label] - _EQUAL * np.abs(scores_of_rows).max(axis=1)
                less[:, label] = (scores_of_rows < threshold[:, None]).sum(axis=1)
            counts.append(less)
    return np.concatenate(counts) if counts else np.empty((0, book.shape[0]), dtype=np.intp)


def _slices(n: int, width: int) -> Iterator[slice]:
    step = max(1, _CELLS // max(width, 1))
    return (slice(start, start + step) for start in range(0, n, step))
