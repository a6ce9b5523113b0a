r"""Machines without one row, each at changed copies of that row: left-out predictions of permuted inputs.

A copy :math:`\tilde x_i` of row i, changed in some input, is predicted by the machine without row i. In the notation of
:mod:`substrate.uncertainty.influence`

.. math:: f^{(-i)}(\tilde x_i) = f(\tilde x_i) - c_i(\tilde x_i)\, r_i ,

with a single entry of c for every copy, by a row of the inverse or by features
(:meth:`~substrate.uncertainty.influence.Influence.own`), so that N changed rows cost N^2 operations where all entries
would cost N^3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.namespaces import own_copy, take_rows, to_numpy
from substrate.uncertainty.influence import Influence

__all__ = ["MachinesWithoutRows", "OwnRows"]


@dataclass(frozen=True, slots=True)
class MachinesWithoutRows:
    """Machines on the same rows: their columns among all, the influence of these rows, and the left-out residuals.

    ``rows`` are the numbers of the rows, ascending; None where the machines used all. ``linear`` is the number of
    columns of a linear part, by which what represents a point ends.
    """

    columns: Any
    influence: Influence
    residuals: Array
    rows: Any = None
    linear: int = 0

    def change(self, which: Any, points: Any, values: Array | None) -> tuple[Any, Array]:
        """Return the places in ``which`` of rows that these machines used, and c_i r_i there, one column per machine.

        ``values`` are the kernel values of the points with all rows; None: the influence represents the points itself.
        """
        used, places = np.arange(which.size), which
        if self.rows is not None:
            (used,) = np.nonzero(np.isin(which, self.rows))
            places = np.searchsorted(self.rows, which[used])
            points = take_rows(points, used)
        representation = self.influence.represent(points) if values is None else self._copy_of(values, used)
        return used, to_numpy(self.influence.own(places, representation))[:, None] * self.residuals[places]

    def _copy_of(self, values: Array, used: Any) -> Array:
        """Return a copy of the values of some points with the rows of these machines, and of the linear part."""
        if self.rows is None:
            return own_copy(values)  # type: ignore[no-any-return]
        width = int(values.shape[1])
        columns = np.concatenate([self.rows, np.arange(width - self.linear, width)])
        return take_rows(take_rows(values, used).T, columns).T  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class OwnRows:
    """All machines of a model.

    ``represent`` computes the kernel values of points with the rows, None in features; ``expand`` the outputs of the
    whole model, one column per machine, from those or from the points.
    """

    groups: tuple[MachinesWithoutRows, ...]
    represent: Callable[[Any], Array] | None
    expand: Callable[[Any], Array]

    def outputs(self, which: Any, points: Any) -> Array:
        """Return the outputs at changed copies ``points`` of the rows ``which``, by the machines without them, in
        numpy.
        """
        values = None if self.represent is None else self.represent(points)
        outputs = np.array(to_numpy(self.expand(points if values is None else values)))
        for group in self.groups:
            used, change = group.change(which, points, values)
            outputs[np.ix_(used, group.columns)] -= change
        return outputs
