r"""That a penalty is never negative, read off the rows of its program and not computed.

Every variable that a weight multiplies has a positive coefficient and is at least zero, by a row of its own or by two
rows whose sum has no other entry: :math:`-t \le 0`, or :math:`f - t \le 0` and :math:`-f - t \le 0`.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array

__all__ = ["nonnegative_on_rows"]


def nonnegative_on_rows(q: Array, G: Any, h: Array) -> bool:
    """Return whether q'x is at least zero wherever G x <= h, as can be read off the rows."""
    weighed = np.flatnonzero(q)
    if (q[weighed] < 0.0).any():
        return False
    rows = sp.csr_array(G)
    rows.sum_duplicates()
    return all(_implies_bound(rows, h, int(column)) for column in weighed)


def _implies_bound(rows: Any, h: Array, column: int) -> bool:
    """Return whether rows g'x <= h imply x_column >= 0: one alone, or two whose sum has no other entry."""
    at = rows[:, [column]].tocoo()
    single_rows: dict[tuple[tuple[int, ...], bytes], float] = {}
    for row, value in zip(at.coords[0], at.data, strict=True):
        if value >= 0.0:
            continue
        start, stop = rows.indptr[row], rows.indptr[row + 1]
        entries = zip(rows.indices[start:stop], rows.data[start:stop], strict=True)
        other_entries = [(int(j), float(v / -value)) for j, v in entries if j != column and v != 0.0]
        limit = float(h[row] / -value)
        if not other_entries and limit <= 0.0:
            return True
        other_entries.sort()
        key = tuple(j for j, _ in other_entries)
        mirrored = np.array([-v for _, v in other_entries]).tobytes()
        if (key, mirrored) in single_rows and single_rows[key, mirrored] + limit <= 0.0:
            return True
        single_rows[key, np.array([v for _, v in other_entries]).tobytes()] = limit
    return False
