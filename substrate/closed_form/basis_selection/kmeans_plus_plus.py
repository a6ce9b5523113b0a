r"""k-means++ seeding in feature space: points drawn in proportion to their squared distance from the chosen ones.

.. math:: \|\varphi(x) - \varphi(z)\|^2 = k(x, x) - 2 k(x, z) + k(z, z)

([Arthur2007]_.) One column of kernel values over all candidates a step, and two numbers a candidate in memory.
"""

from typing import Any

import numpy as np

from substrate.certificates.rows import EPS
from substrate.closed_form.basis_selection.candidates import Candidates, Chosen

__all__ = ["select_spread"]


def select_spread(candidates: Candidates, count: int, generator: Any) -> Chosen:
    """Choose up to ``count``; fewer where all others sit on chosen ones."""
    rows = candidates.rows
    own = candidates.diagonal(rows)
    chosen = [int(generator.choice(rows.size))]
    distances = np.full(rows.size, np.inf)
    while len(chosen) < count:
        last = chosen[-1]
        column = candidates.block(rows, rows[[last]])[:, 0]
        np.minimum(distances, np.maximum(own - 2.0 * column + own[last], 0.0), out=distances)
        distances[last] = 0.0
        distances[distances <= 16.0 * EPS * own[last]] = 0.0  # on a chosen point, but for rounding
        sums = np.cumsum(distances)
        if not sums[-1] > 0.0:
            return Chosen(rows[chosen], "every candidate on a chosen point")
        chosen.append(int(np.searchsorted(sums, generator.random() * sums[-1], side="right")))
    return Chosen(rows[chosen], f"{count} vectors")
