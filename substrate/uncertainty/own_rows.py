r"""Machines without one row, each at changed copies of that row: left-out predictions of permuted inputs.

A copy :math:`\tilde x_i` of row i, changed in some input, is predicted by the machine without row i. In the notation of
:mod:`substrate.uncertainty.influence` with B, the block of :math:`M^{-1}` that maps y to :math:`\alpha`, and
:math:`\eta = (K + D)^{-1} 1`,

.. math:: f^{(-i)}(\tilde x_i) = f(\tilde x_i) - c_i(\tilde x_i)\, r_i, \qquad
          c_i(\tilde x_i) = \frac{\eta_i}{1^T \eta} + \sum_j B_{ij}\, k(x_j, \tilde x_i),

(:math:`(H S^{-1})_i Z(\tilde x_i)` for the first term with a :mod:`~substrate.least_squares.border` Z), a single entry
of c for every copy, so that N changed rows cost N^2 operations where all entries would cost N^3. In features (a reduced
basis, a kernel of few features) it is

.. math:: c_i(\tilde x_i) = P_{ii} \Big( \frac{1}{\operatorname{tr} P} + \psi_i^T \psi(\tilde x_i) \Big).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.gram import Gram
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.leave_one_out import leave_one_out_residuals
from substrate.least_squares.primal_weights import PrimalWeights
from substrate.namespaces import is_device_array, namespace_of, on_device_of, paired_sums, take_rows, to_numpy
from substrate.uncertainty.influence import FeatureInfluence, feature_root

__all__ = ["MachinesInFeatures", "MachinesOnRows", "OwnRows", "machines_on_rows", "primal_influence"]


@dataclass(frozen=True, slots=True)
class MachinesOnRows:
    """Machines on the same rows of a kernel matrix: their columns, the rows, B, :math:`\\eta / 1^T \\eta` and r.

    With further columns in the ``border``, ``share`` is :math:`H S^{-1}`, and the values of a point end with its z
    less the center.
    """

    columns: Any
    rows: Any
    inverse: Array
    share: Array
    residuals: Array
    border: Border = ONES

    def change(self, which: Any, points: Any, values: Array | None) -> tuple[Any, Array]:
        """Positions in ``which`` of rows that these machines used, and c_i r_i there, one column per machine."""
        if values is None:
            raise TypeError("machines of a kernel matrix need kernel values")
        (used,) = np.nonzero(np.isin(which, self.rows))
        own = np.searchsorted(self.rows, which[used])
        here = take_rows(values, used)
        kernel_values = int(values.shape[1]) - self.border.slopes
        lead = take_rows(self.share, own)
        if not self.border.plain:
            lead = paired_sums(lead, self.border.line(here[:, kernel_values:]), 1)
        if self.rows.size < kernel_values or self.border.slopes:
            here = take_rows(here.T, self.rows).T
        c = lead + paired_sums(take_rows(self.inverse, own), here, 1)
        return used, to_numpy(c)[:, None] * self.residuals[own]


@dataclass(frozen=True, slots=True)
class MachinesInFeatures:
    """Machines in features, on all rows: their columns, their influence and r."""

    columns: Any
    influence: FeatureInfluence
    residuals: Array

    def change(self, which: Any, points: Any, values: Array | None) -> tuple[Any, Array]:
        """As :meth:`MachinesOnRows.change`; every machine used every row."""
        known = self.influence
        psi = take_rows(known.rows, which)
        c = take_rows(known.pulls, which) * (1.0 / known.total + paired_sums(psi, known.represent(points), 1))
        return np.arange(which.size), to_numpy(c)[:, None] * self.residuals[which]


@dataclass(frozen=True, slots=True)
class OwnRows:
    """All machines of a model.

    ``represent`` computes the kernel values of points with the rows, None in features; ``expand`` the outputs of the
    whole model, one column per machine, from those or from the points.
    """

    groups: tuple[MachinesOnRows | MachinesInFeatures, ...]
    represent: Callable[[Any], Array] | None
    expand: Callable[[Any], Array]

    def outputs(self, which: Any, points: Any) -> Array:
        """The outputs at changed copies ``points`` of the rows ``which``, by the machines without them, in numpy."""
        values = None if self.represent is None else self.represent(points)
        found = np.array(to_numpy(self.expand(points if values is None else values)))
        for group in self.groups:
            used, change = group.change(which, points, values)
            found[np.ix_(used, group.columns)] -= change
        return found


def machines_on_rows(
    gram: Gram, ridge: Array, columns: Any, rows: Any, alpha: Array, border: Border = ONES
) -> MachinesOnRows:
    """From the kernel matrix of the rows, which is factored, the diagonal 1/(gamma v), and the support values."""
    gram.factorize(on_device_of(gram.diagonal, ridge))
    root = gram.inverse_factor() if is_device_array(gram.diagonal) else None
    inverse = gram.inverse() if root is None else root.T @ root
    gram.release()
    xp = namespace_of(inverse)
    if border.plain:
        eta = xp.sum(inverse, axis=1)
        share = eta / xp.sum(eta)
        inverse -= eta[:, None] * share
    else:
        eliminated = border.eliminate(inverse @ border.matrix(inverse))
        share = eliminated.share
        inverse -= share @ eliminated.solved.T
    diagonal = border.without_rows(to_numpy(xp.linalg.diagonal(inverse)), ridge)
    return MachinesOnRows(columns, rows, inverse, share, leave_one_out_residuals(alpha, diagonal), border)


def primal_influence(primal: PrimalWeights, X: Any, pulls: Array) -> FeatureInfluence:
    """In the features of a kernel of finite rank, where support values do not represent the machine."""
    from scipy.linalg import solve_triangular

    def centred(points: Any) -> Array:
        dense = points.toarray() if hasattr(points, "toarray") else points
        return np.asarray(primal.kernel.features(dense) - primal.center)

    features = centred(X)
    sizes, R = feature_root(features, pulls)

    def represent(points: Any) -> Array:
        return np.asarray(solve_triangular(R, (centred(points) / sizes).T, trans="T")).T

    return FeatureInfluence(represent, represent(X), pulls)
