r"""Leave-one-out of a fitted LS-SVM, from its fitted state: no refit, no training target.

The support values, the bias and the diagonal D of the system give the targets back,
:math:`y = K \alpha + b + D \alpha`, and :mod:`substrate.least_squares.leave_one_out` the residuals
:math:`\alpha_i / B_{ii}`. One row, the one of largest leverage, is refitted as a check. Operations on all pairs of rows
are done where the kernel matrix is; vectors of the length of y are handled on the host. Everything is written over the
diagonal of B and the influence of the rows (:mod:`substrate.uncertainty.influence`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Certificate, Row
from substrate.certificates.rounding import relative_rounding
from substrate.gram import Gram
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.leave_one_out import (
    generalized_cross_validation,
    leave_one_out_residuals,
    mean_absolute,
    mean_square,
    median_absolute,
    press,
    projected_diagonal,
    trimmed_mean_square,
)
from substrate.least_squares.saddle_system import solve_saddle_system, target_unit
from substrate.namespaces import namespace_of, on_device_of, to_numpy
from substrate.uncertainty.influence import Influence, kernel_influence

__all__ = [
    "KernelSystem",
    "LeftOut",
    "LeftOutSums",
    "LeftOutSystem",
    "MachinesLeftOut",
    "MachinesOnRows",
    "leave_rows_out",
    "machine_groups",
]


@dataclass(frozen=True, slots=True)
class LeftOutSums:
    """Criteria of the machines fitted without each row, one number or one per output.

    ``press`` is the predicted residual sum of squares, ``degrees_of_freedom`` the trace of H, ``misclassification`` the
    share of rows decoded to a wrong class, None in regression; for ``gcv`` squared errors and leverages are
    averaged by weight where rows have weights.
    """

    n_rows: int
    press: Any
    mean_absolute: Any
    gcv: Any
    degrees_of_freedom: float
    misclassification: float | None
    certificate: Certificate

    @property
    def mean_square(self) -> Any:
        """PRESS over the number of rows."""
        return self.press / self.n_rows


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The outputs of the machines for each row when fitted without it.

    Parameters
    ----------
    outputs
        f(x_i) of the machine without row i; a machine that never used the row is unchanged.
    residuals
        y_i minus that, NaN where a machine never used the row.
    predictions
        The outputs in regression, the classes they decode to in classification.
    degrees_of_freedom
        trace H, one number or one per machine.
    gcv
        Generalised cross-validation; where rows have weights, squared errors and leverages are averaged by weight.
    misclassification
        The share of rows decoded to a wrong class; None in regression.
    certificate
        The check by one refit, and the conditions under which these numbers hold.
    """

    outputs: Array
    residuals: Array
    predictions: Any
    degrees_of_freedom: Any
    gcv: Any
    misclassification: float | None
    certificate: Certificate

    def _arrays_in_use(self) -> list[Array]:
        residuals: Array = to_numpy(self.residuals)
        columns = residuals[:, None] if residuals.ndim == 1 else residuals
        return [column[~np.isnan(column)] for column in columns.T]

    def _each(self, criterion: Any) -> Any:
        values = np.array([float(criterion(column)) for column in self._arrays_in_use()])
        return float(values[0]) if self.residuals.ndim == 1 else values

    @property
    def press(self) -> Any:
        """Predicted residual sum of squares, one number or one per output."""
        return self._each(press)

    @property
    def mean_square(self) -> Any:
        """PRESS over the number of rows."""
        return self._each(mean_square)

    @property
    def mean_absolute(self) -> Any:
        """Mean absolute residual."""
        return self._each(mean_absolute)

    @property
    def median_absolute(self) -> Any:
        """Median absolute residual."""
        return self._each(median_absolute)

    def trimmed_mean_square(self, share: float = 0.1) -> Any:
        """Return mean square without a share of the largest residuals."""
        return self._each(lambda column: trimmed_mean_square(column, share))


class MachinesLeftOut(NamedTuple):
    """Outputs, residuals, degrees of freedom and GCV of all machines, one column per machine, and a certificate row."""

    outputs: Array
    residuals: Array
    degrees_of_freedom: Array
    gcv: Array
    row: Row


class MachinesOnRows(Protocol):
    """Machines on the same rows with the same diagonal 1/(gamma v): all that leaving these rows out needs."""

    def diagonal(self) -> Array:
        """Return B_ii, in numpy."""

    def influence(self, entries: bool = False) -> "Influence":
        """Return the influence of the rows; ``entries`` where single entries of c are needed."""

    def diagonal_of(self, influence: "Influence") -> Array:
        """Return B_ii from this influence, in numpy."""

    def refit(self, Y: Array, residuals: Array, row: int) -> Row:
        """Return the machines without one row by an actual fit, compared with the closed form."""


class LeftOutSystem(Protocol):
    """Machines on the same points, as far as leaving rows out needs them."""

    def compute_fitted(self, alpha: Array, bias: Array) -> Array:
        """Return the fitted values of all machines, in numpy; ``bias`` is what they add to their kernel expansions."""

    def on(self, rows: Any, ridge: Array) -> MachinesOnRows:
        """Return the machines on some rows."""


class KernelSystem(NamedTuple):
    """Machines of a kernel matrix and a border; ``represent`` computes kernel values of new points with all rows."""

    gram: Gram
    border: Border = ONES
    represent: Callable[[Any], Array] | None = None

    def compute_fitted(self, alpha: Array, bias: Array) -> Array:
        """Return K alpha plus what the border adds."""
        return np.asarray(to_numpy(self.gram.product(on_device_of(self.gram.diagonal, alpha))) + bias)

    def on(self, rows: Any, ridge: Array) -> "KernelMachines":
        """Return the machines of a block of the matrix."""
        gram = self.gram if rows.size == self.gram.n else self.gram.restrict(rows)
        return KernelMachines(gram, ridge, self.border.take(rows, 1.0 / ridge), self.represent)


class KernelMachines(NamedTuple):
    """Machines of a kernel matrix, by the inverse of its saddle system; ``represent`` is that of the whole system."""

    gram: Gram
    ridge: Array
    border: Border
    represent: Callable[[Any], Array] | None

    def diagonal(self) -> Array:
        """Return the diagonal, at half the work of the inverse."""
        return np.asarray(to_numpy(projected_diagonal(self.gram, self._there(self.ridge), self.border)))

    def influence(self, entries: bool = False) -> "Influence":
        """Return the influence of a triangular root of the inverse, or of the inverse where entries are needed."""
        if self.represent is None:
            raise TypeError("an influence at new points needs their kernel values")
        return kernel_influence(self.gram, self._there(self.ridge), self.represent, self.border, entries)

    def diagonal_of(self, influence: "Influence") -> Array:
        """Return the diagonal as it is: zero, or below, where the other rows determine no machine."""
        return np.asarray(to_numpy(influence.diagonal))

    def refit(self, Y: Array, residuals: Array, row: int) -> Row:
        """Solve the saddle system of the other rows."""
        self.gram.release()
        other_rows = np.flatnonzero(np.arange(self.gram.n) != row)
        border = self.border.take(other_rows, 1.0 / self.ridge[other_rows])
        solved = solve_saddle_system(
            self.gram.restrict(other_rows),
            self._there(Y[other_rows]),
            self._there(self.ridge[other_rows]),
            border=border,
        )
        values = to_numpy(self.gram.matrix[row, :])[other_rows]
        explicit = Y[row] - values @ to_numpy(solved.support_values) - to_numpy(solved.bias)
        if self.border.slopes:
            explicit = explicit - (self.border.columns[row] - self.border.center) @ to_numpy(solved.slopes)
        difference = float(np.abs(explicit - residuals[row]).max())
        scale = float(np.abs(residuals).max()) + float(np.abs(Y - Y.mean(axis=0)).max())
        xp = namespace_of(self.gram.matrix)
        largest = max(float(xp.max(self.gram.matrix)), -float(xp.min(self.gram.matrix)))
        tolerance = 1e-10 + relative_rounding(100.0) * self.gram.n * largest / float(self.ridge.min())
        return Row(
            name=f"refit without row {row}",
            value=difference,
            scale=scale,
            tolerance=tolerance,
            formula="alpha_i/B_ii - (y_i - f^(-i)(x_i))",
        )

    def _there(self, values: Array) -> Array:
        """Return values of rows where the matrix is."""
        return on_device_of(self.gram.diagonal, values)  # type: ignore[no-any-return]


def leave_rows_out(system: LeftOutSystem, alpha: Array, bias: Array, ridge: Array, members: Any) -> MachinesLeftOut:
    """Leave every row out of every machine; ``members`` marks the rows that a machine was fitted to.

    ``bias`` has one number per machine, or one line per row with the values of a whole border. ``alpha``, ``ridge`` and
    ``members`` have one column per machine, in numpy wherever the matrix is. Machines that share rows and ridge share
    an inverse.
    """
    fitted = system.compute_fitted(alpha, bias)
    outputs, residuals = fitted.copy(), np.full(alpha.shape, np.nan)
    freedom, gcv = np.empty(alpha.shape[1]), np.empty(alpha.shape[1])
    checks: list[Row] = []
    for rows, columns, d in machine_groups(ridge, members):
        place, machines = np.ix_(rows, columns), system.on(rows, d)
        diagonal = machines.diagonal()
        errors = d[:, None] * alpha[place]
        residuals[place] = r = leave_one_out_residuals(alpha[place], diagonal)
        outputs[place] = fitted[place] + errors - r
        freedom[columns] = rows.size - d @ diagonal
        v = d.size / (d * (1.0 / d).sum())
        gcv[columns] = _gcv_of(errors, rows.size - v @ (d * diagonal), v)
        checks.append(machines.refit(fitted[place] + errors, r, int((d * diagonal).argmin())))
    worst = max(checks, key=lambda row: row.relative / row.tolerance)
    return MachinesLeftOut(outputs=outputs, residuals=residuals, degrees_of_freedom=freedom, gcv=gcv, row=worst)


def machine_groups(ridge: Array, members: Any) -> Iterator[tuple[Any, Any, Array]]:
    """Yield rows, columns and diagonal of the machines that share rows and diagonal, and so an inverse."""
    groups: dict[bytes, list[int]] = {}
    for k in range(ridge.shape[1]):
        groups.setdefault(ridge[:, k].tobytes() + members[:, k].tobytes(), []).append(k)
    for columns in groups.values():
        (rows,) = np.nonzero(members[:, columns[0]])
        yield rows, np.array(columns), np.ascontiguousarray(ridge[rows, columns[0]])


def _gcv_of(errors: Array, freedom: float, weights: Array) -> Array:
    """Return generalised cross-validation of one column per machine, in units in which no square overflows."""
    unit = target_unit(errors)
    with np.errstate(over="ignore"):  # of targets whose squares overflow it is infinite
        return np.asarray(generalized_cross_validation(errors / unit, freedom, weights)) * unit * unit
