r"""LS-SVMs refitted to what a norm has selected: on components of a kernel, or on a basis of support vectors.

[Pelckmans2005]_ uses the 1-norm "to detect structure, while the final predictions should be made based on a classical
model with the selected components" (end of section 3.1). The certificate of such a model is that of the classical one;
what is selected is taken as it is.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.shared.checked_again import Added, Facts
from problems.estimators.shared.machine_rows import MachineRows, each_machine
from substrate.arrays import Array
from substrate.certificates import NO_BOUND, Accuracy, Row
from substrate.kernels import Componentwise, Kernel, Linear
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.numbers import at_most, root_mean_square
from substrate.proof import Proof

__all__ = ["Refit", "RefittedMachines", "StoredRefit", "component_refits", "fit_refits", "of_selection"]

#: Facts of a refitted machine that its model states.
_STATED = ("basis", "rank", NO_BOUND, "rounding")


@dataclass(frozen=True, slots=True)
class Refit:
    """One LS-SVM: its kernel, points, targets, weights and gamma.

    ``basis`` are the numbers of the rows in whose kernel functions it is expanded, None for all. Where nothing was
    selected the kernel is None, and the bias alone is left.
    """

    kernel: Kernel | None
    points: Any
    y: Array
    weights: Array
    gamma: float
    tolerance: float
    basis: Any = None

    def fit(self) -> LSSVMRegressor:
        """Return the machine, without warnings: its rows are on the certificate."""
        kernel, points = self.kernel, self._points
        basis = None if self.basis is None or kernel is None else [int(row) for row in self.basis]
        parameter = Linear() if kernel is None else "precomputed" if kernel.pairwise else kernel
        machine = LSSVMRegressor(parameter, self.gamma, basis=basis, tol=self.tolerance)
        with warnings.catch_warnings(action="ignore"):
            return machine.fit(points, self.y, self.weights)

    def fitted(self, machine: LSSVMRegressor) -> Array:
        """Return what the machine predicts for its rows."""
        return np.asarray(machine.predict(self._points))

    def prove(self, machine: LSSVMRegressor) -> Proof:
        """Prove the answer of the machine."""
        proof: Proof = machine.prove(self._points, self.y, self.weights)
        return proof

    @property
    def _points(self) -> Any:
        return np.zeros((self.y.size, 1)) if self.kernel is None else self.points


class RefittedMachines(NamedTuple):
    """Coefficients on n rows, one column per machine, biases, rows and facts."""

    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: Facts


def fit_refits(machines: Sequence[MachineRows], refits: Sequence[Refit], n: int) -> RefittedMachines:
    """Fit every machine; a row outside its expansion has no coefficient."""
    a, fits = np.zeros((n, len(refits))), [refit.fit() for refit in refits]
    for machine, refit, fit in zip(machines, refits, fits, strict=True):
        if refit.kernel is not None:
            rows = machine.rows if refit.basis is None else machine.rows[refit.basis]
            a[rows, machine.column] = fit.support_values_
    facts = dict.fromkeys(fact for fit in fits for fact in fit.certificate_.record if fact[0] in _STATED)
    bias, rows = np.array([fit.bias_ for fit in fits]), worst_rows([fit.certificate_.rows for fit in fits])
    return RefittedMachines(a, bias, rows, tuple(facts))


def component_refits(
    model: Any, X: Any, Y: Array, kernel: Componentwise, chosen: Any, gamma: float, weights: Array
) -> tuple[list[MachineRows], list[Refit]]:
    """Return the machines on the chosen components, a mask."""
    parts = tuple(part for part, keep in zip(kernel.components(X.shape[1]), chosen, strict=True) if keep)
    selected, machines = Componentwise(parts) if parts else None, list(each_machine(Y, model._labels))
    refits = [
        Refit(selected, machine.points(X, False), machine.y, weights[machine.rows], gamma, model._tolerance())
        for machine in machines
    ]
    return machines, refits


def of_selection(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return the rows of the machine that selected, whose accuracy is not that of the answer."""
    return tuple(row.plain(f"selection: {row.name}") if isinstance(row, Accuracy) else row for row in rows)


@dataclass(frozen=True, slots=True)
class StoredRefit:
    """A refitted machine as a model predicts its rows: it is fitted again, and compared."""

    refit: Refit
    fitted: Array

    def certify(self) -> Added:
        """Add how far the stored machine is from one fitted again to the bound of that one."""
        machine = self.refit.fit()
        distance, certificate = self._distance(machine), machine.certificate_
        rows = (
            replace(row, value=row.value + distance) if isinstance(row, Accuracy) else row for row in certificate.rows
        )
        return tuple(rows), tuple(fact for fact in certificate.record if fact[0] in _STATED)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        machine = self.refit.fit()
        proof = self.refit.prove(machine)
        return replace(proof, value=math.nextafter(proof.accuracy + self._distance(machine), math.inf))

    def _distance(self, machine: LSSVMRegressor) -> float:
        """Bound the root mean square distance of the stored fitted values from those of a machine."""
        return at_most(root_mean_square(self.fitted - self.refit.fitted(machine), self.refit.weights))
