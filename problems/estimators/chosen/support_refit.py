r"""Sparseness first, then a classical model: the sparse LS-SVM whose basis is the support that zeta selects.

The support :math:`S(\zeta)` of the L1 substrate ([Pelckmans2005]_ eq. (16)) changes at knots of its path and nowhere
else. Refitted, its machine is

.. math:: f(x) = \sum_{j \in S} \beta_j k(x_j, x) + b, \qquad
          \min_{\beta, b} \tfrac12 \beta^T K_{SS} \beta + \tfrac{\gamma}{2} \sum_{i=1}^N (y_i - f(x_i))^2 ,

which counts **all** rows ([Cawley2004]_ (2)): the support is where the machine is expanded, not what it is fitted to.
Its criterion is that of an LS-SVM on the features of the basis (:mod:`substrate.reduced.features`), one for each
machine of a classifier. Which rows support is a discrete question, and on a smooth kernel rounding decides it between
neighbours: the sets are those of the paths as double precision follows them, and the bound is over those.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from problems.estimators.chosen.structure_refit import Members, RefittedRows, SetJudge
from problems.estimators.penalised.l1 import L1Model
from problems.estimators.penalised.refit import Refit, StoredRefit
from problems.estimators.shared.base import WeightedRows
from problems.estimators.shared.machine_rows import MachineRows, each_machine
from substrate.arrays import Array
from substrate.kernels import Kernel, Linear
from substrate.reduced.features import basis_features

__all__ = ["FusedL1Model", "SupportJudge", "support_refit", "supports_of"]


class SupportJudge(SetJudge):
    """The sparse LS-SVM on some support vectors: their numbers run over the rows of all machines of a round."""

    def machines(self, number: int, members: Members) -> Iterator[RefittedRows]:
        """Return the machines of one round on some support vectors, as linear ones of features; those that are
        judged.
        """
        round_ = self.rounds[number]
        machines = list(round_.machines(self.pooled))
        supports = supports_of([train for train, _ in machines], members)
        for (train, check), support in zip(machines, supports, strict=True):
            if not (check.rows.size or self.by_loo):
                continue
            points = train.points(round_.X, self.kernel.pairwise)
            below = round_.X_check[check.rows]
            below = below[:, train.rows] if self.kernel.pairwise else below
            Z, Z_check = self._features(points, below, support)
            yield RefittedRows(kernel=Linear(), points=Z, y=train.y, below=Z_check, y_check=check.y)

    def every_member(self, number: int) -> Members:
        """Return all rows of all machines of a round."""
        return tuple(range(sum(train.y.size for train, _ in self.rounds[number].machines(self.pooled))))

    def _features(self, points: Any, below: Any, support: Array) -> tuple[Array, Array]:
        """Return the features of training and of validation rows, centred; a column of zeros without support."""
        n, m = points.shape[0], below.shape[0]
        if not support.size:
            return np.zeros((n, 1)), np.zeros((m, 1))
        if self.kernel.pairwise:
            values, values_check = np.asarray(points[:, support]), np.asarray(below[:, support])
        else:
            values = self.kernel(points, points[support])
            values_check = self.kernel(below, points[support]) if m else np.zeros((0, support.size))
        transform = basis_features(np.ascontiguousarray(values[support])).transform
        Z, Z_check = values @ transform, values_check @ transform
        center = Z.mean(axis=0)  # the bias absorbs it
        return np.ascontiguousarray(Z - center), np.ascontiguousarray(Z_check - center)


def supports_of(machines: Sequence[MachineRows], members: Members) -> list[Any]:
    """Return the support of every machine, as numbers among its own rows."""
    numbers, ends = np.asarray(members, dtype=np.int64), np.cumsum([0, *(machine.y.size for machine in machines)])
    return [numbers[(numbers >= low) & (numbers < high)] - low for low, high in pairwise(ends)]


def support_refit(model: Any, kernel: Kernel, points: Any, y: Array, support: Any, gamma: float) -> Refit:
    """Return the sparse LS-SVM of one machine on all its rows; its basis are the rows with these numbers."""
    selected = kernel if support.size else None
    return Refit(selected, points, y, np.ones(y.size), gamma, model._tolerance(), support)


class FusedL1Model(L1Model):
    """The L1 substrate at a chosen zeta, or the sparse LS-SVM on its support."""

    def recall_machines(self, given: WeightedRows, Y: Array) -> Iterator[Any]:
        """Return every machine; a refitted one is fitted again on its basis, and compared with what is stored."""
        model, X = self.estimator, given.X
        if not model.refit:
            yield from super().recall_machines(given, Y)
            return
        rows, stored = model.training_rows_, model._coefficients()
        stored = stored[:, None] if stored.ndim == 1 else stored
        fitted = np.reshape(self.evaluate(X), Y.shape)
        for machine in each_machine(Y[rows], model._labels):
            numbers = rows[machine.rows]
            used = model.support_[stored[:, machine.column] != 0.0]
            points = X[numbers][:, numbers] if model.kernel_.pairwise else X[numbers]
            data = (points, machine.y, np.searchsorted(numbers, used), float(model.gamma_))
            yield StoredRefit(support_refit(model, model.kernel_, *data), fitted[numbers, machine.column])
