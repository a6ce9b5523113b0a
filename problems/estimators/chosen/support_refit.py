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

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from problems.estimators.chosen.structure_refit import FOLLOWED, Members, RefittedRows, SetJudge
from problems.estimators.chosen.tasks import CriterionShare, criterion_of
from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.penalised.l1 import L1Model
from problems.estimators.penalised.refit_answer import mean_accuracy, mean_proof
from problems.estimators.shared.base import WeightedRows
from problems.estimators.shared.checked_again import Added
from problems.estimators.shared.machine_rows import MachineRows, each_machine
from substrate.arrays import Array
from substrate.certificates import NO_BOUND, Row
from substrate.certificates.rounding import at_most
from substrate.certificates.rows import root_mean_square
from substrate.gram import Gram
from substrate.kernels import Kernel, Linear
from substrate.proof import Proof
from substrate.reduced.features import basis_features

__all__ = ["FusedL1Model", "SupportFit", "SupportJudge", "fit_on_support", "supports_of"]


class SupportJudge(SetJudge):
    """The sparse LS-SVM on some support vectors: their numbers run over the rows of all machines of a round."""

    def shares(self, number: int, members: Members, gammas: Any = None) -> tuple[CriterionShare, ...]:
        """Return the criterion of one round on the machines of some support vectors."""
        shares = list[CriterionShare]()
        for machine in self.machines(number, members):
            check = (machine.below, machine.y_check[:, None])
            task = replace(self.task(machine.points, machine.y[:, None], check, gammas), pooled=False)
            _, parts = criterion_of(Gram.of(machine.kernel, machine.points), task)
            weight = float(machine.y.size if self.by_loo else machine.y_check.size)
            shares += [replace(part, share=part.share * weight) for part in parts]
        return tuple(shares)

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


class SupportFit(NamedTuple):
    """One machine on its support vectors: their numbers, coefficients, bias, fitted values, rows and facts."""

    support: Any
    coefficients: Array
    bias: float
    fitted: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    #: The sparse LS-SVM; None where only the bias is left.
    machine: Any = None


def fit_on_support(model: Any, kernel: Kernel, points: Any, y: Array, support: Any, gamma: float) -> SupportFit:
    """Fit the sparse LS-SVM of one machine to all its rows; its basis are the rows with these numbers."""
    if not support.size:
        mean = float(np.clip(y.mean(), y.min(), y.max()))
        fitted = np.full(y.size, mean)
        return SupportFit(support, np.zeros(0), mean, fitted, (mean_accuracy(y, fitted, model._tolerance()),), ())
    parameter = "precomputed" if kernel.pairwise else kernel
    machine = LSSVMRegressor(parameter, gamma, basis=[int(row) for row in support], tol=model.tol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its rows are on the certificate
        machine.fit(points, y)
    if not np.array_equal(machine.support_, support):
        raise TypeError("internal error: the basis is not in the order of the support")
    stated = tuple(fact for fact in machine.certificate_.record if fact[0] in ("basis", "rank", NO_BOUND, "rounding"))
    a, b = np.asarray(machine.support_values_), float(machine.bias_)
    return SupportFit(support, a, b, machine.predict(points), machine.certificate_.rows, stated, machine)


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
            yield StoredSupport(
                model=model,
                points=X[numbers][:, numbers] if model.kernel_.pairwise else X[numbers],
                y=machine.y,
                support=np.searchsorted(numbers, used),
                fitted=fitted[numbers, machine.column],
            )


@dataclass(frozen=True, slots=True)
class StoredSupport:
    """One machine on its support vectors, as the model predicts its rows."""

    model: Any
    points: Any
    y: Array
    support: Any
    fitted: Array

    def certify(self) -> Added:
        """Fit the machine again, and add how far the stored one is from it to the bound of the answer."""
        fit = self._fit()
        answer, distance = fit.rows[0], self._distance(fit)
        return (replace(answer, value=answer.value + distance), *fit.rows[1:]), (*fit.facts, FOLLOWED)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        fit = self._fit()
        distance = self._distance(fit)
        if fit.machine is None:
            row = mean_accuracy(self.y, self.fitted, self.model._tolerance())
            return mean_proof(row, self.y, np.ones(self.y.size))
        proof: Proof = fit.machine.prove(self.points, self.y)
        return replace(proof, accuracy=math.nextafter(proof.accuracy + distance, math.inf))

    def _fit(self) -> SupportFit:
        model = self.model
        return fit_on_support(model, model.kernel_, self.points, self.y, self.support, float(model.gamma_))

    def _distance(self, fit: SupportFit) -> float:
        """Bound the root mean square distance of the stored fitted values from those of a fit."""
        return at_most(root_mean_square(self.fitted - fit.fitted, np.ones(self.y.size)))
