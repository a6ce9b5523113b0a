r"""What pages of least squares share: their data, and all that follows from the unit in which y is measured.

.. math:: \min_{w, b, e} \; \tfrac12 w^T w + \gamma \sum_{i=1}^N v_i \ell(e_i)
          \quad \text{s.t.} \quad y = R w + b 1 + e, \qquad \ell(e) = \tfrac12 e^2

with :math:`K = R R^T`. At w = 0, b = 0 the multipliers of the equalities are
:math:`\gamma v_i \ell'(y_i)`, and the machine that fits a constant costs :math:`\gamma \sum_i v_i \ell(y_i - \bar y)`.
These are the units in which two computations of a quantity are compared, and the cost gives the unit of y in which a
solver with absolute tolerances receives the problem. A page with another loss derives a class with both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import Array, positive, real_targets, row_weights, target_unit
from substrate.bounds.saddle import FORMULA, Expansion, bound_expansion
from substrate.certificate import UNPOLISHED, Accuracy, Row, Tolerance, gap_row
from substrate.declare.declared import Declared, given_gram
from substrate.errors import DataError
from substrate.ingredients import ClassificationFit, RegressionFit, SquaredErrors, SquaredNorm, zero_sum_row
from substrate.numbers import Double
from substrate.operators.border import ONES, Border
from substrate.operators.saddle_system import ridge_of

__all__ = [
    "RegressionData",
    "declared_targets",
    "least_squares_accuracy",
    "optimality_rows",
    "within_solvers",
]

_Values = Mapping[str, Callable[[], Any]]
_NOTHING = np.zeros(0)


def declared_targets(y: Any, n: int) -> Array:
    """Return real targets for n rows, of a size that solvers can square."""
    return within_solvers(real_targets(y, n))


def within_solvers(target: Array) -> Array:
    """Return the target, refused where its squares leave floating point inside the solvers."""
    if target_unit(target) != 1.0:
        raise DataError(
            f"max|y| is {np.abs(target).max():.3g} and its square leaves the range of floating point inside the "
            "solvers; measure y in other units, and multiply support values and bias by the unit"
        )
    return target


def least_squares_accuracy(
    R: Array,
    y: Array,
    gamma: float,
    v: Array,
    a: Array,
    b: float,
    fitted: Array,
    permitted: Tolerance | None = None,
    border: Border = ONES,
    slopes: Array | None = None,
) -> Accuracy:
    """Bound the answer for K = R R' and coefficients a in regression's sign; ``fitted`` are the values of the solution.

    ``slopes`` are the coefficients of the columns of the border besides the constant, ``b`` is the bias at their
    center. ``permitted`` is the absolute error that the user's y allows; by y itself unless given.
    """
    machine, factor = Expansion(y=y, gamma=gamma, weights=v, a=a, b=b, border=border, slopes=slopes), Double.exact(R)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite is no bound
        bound = bound_expansion(machine, Double, lambda a: factor @ (factor.T @ a), fitted)
    permitted = Tolerance.of_page(y, v, UNPOLISHED) if permitted is None else permitted
    return permitted.row(bound.upper(), FORMULA)


def optimality_rows(
    fit: RegressionFit, norm: SquaredNorm, errors: SquaredErrors, tolerance: float, multipliers: Array = _NOTHING
) -> tuple[Row, ...]:
    """Return the equalities, stationarity in e, w and b, and the duality gap of an LS-SVM in its primal form.

    ``multipliers`` belong to further equalities D w = 0, whose rows follow the rows of the features in the factor of
    the norm. In classification y∘alpha are the support values of the regression on the labels.
    """
    is_signed = isinstance(fit, ClassificationFit)
    y, alpha = fit.y, fit.multiplier
    a = y * alpha if is_signed else alpha
    gamma_v = float(errors.gamma.value) * errors.weights
    dual_at_zero, coefficients = gamma_v * y, np.concatenate([a, multipliers])
    at_zero = np.concatenate([dual_at_zero, np.zeros(multipliers.size)])
    primal = (float(norm.term.value), float(errors.term.value))
    square = float(np.sum((norm.factor.T @ coefficients) ** 2))
    dual = (float(y @ a), -0.5 * square, -0.5 * float(a @ (a / gamma_v)))
    return (
        fit.row(tolerance),
        errors.row(alpha, y, tolerance),
        norm.row(coefficients, tolerance, at_zero),
        zero_sum_row(a, tolerance, dual_at_zero, letter="y" if is_signed else "1"),
        gap_row(primal, dual, tolerance, 0.5 * float(y @ dual_at_zero)),
    )


@dataclass(frozen=True)
class RegressionData:
    """The data of a page, in one unit of y.

    Parameters
    ----------
    record
        The facts of the kernel matrix, for the certificate.
    R
        Coordinates of the rows, one row each: the kernel matrix is R R'.
    y, v
        Targets, and weights of the rows.
    gamma
        The weight of the errors.
    """

    record: Callable[[], tuple[tuple[str, str], ...]]
    R: Array
    y: Array
    v: Array
    gamma: float

    @classmethod
    def of(cls, K: Any, y: Any, gamma: float, weights: Any = None, **more: Any) -> Self:
        """Return the checked data of a kernel matrix (or a Gram); ``more`` are the fields of a derived class."""
        gram = given_gram(K)
        target, v, value = declared_targets(y, gram.n), row_weights(weights, gram.n), positive(gamma, "gamma")
        ridge_of(value, v)  # refuses what leaves the range of floating point
        return cls(record=gram.record, R=gram.coordinates().factor, y=target, v=v, gamma=value, **more)

    @property
    def gamma_v(self) -> Array:
        """Return the weight of the error of every row."""
        return self.gamma * self.v

    @property
    def dual_at_zero(self) -> Array:
        """Return the multipliers of the machine w = 0, b = 0."""
        return self.gamma_v * self.y

    @property
    def cost(self) -> float:
        """Return the cost of the machine that fits a constant."""
        return 0.5 * float(np.sum(self.gamma_v * (self.y - self.y.mean()) ** 2))

    def current(self, parameters: Mapping[str, Any]) -> Self:
        """Return the data at the values that the cvxpy parameters have now."""
        if "inverse_gamma" in parameters:
            return replace(self, gamma=1.0 / float(parameters["inverse_gamma"].value))
        return replace(self, gamma=float(parameters["gamma"].value))

    def unit(self) -> float:
        """Return the unit of y in which w = 0 costs about 1; of a target that is constant up to rounding, its size."""
        largest = float(np.abs(self.y).max())
        if float(np.ptp(self.y)) <= 1e-12 * largest:
            return largest if largest > 0.0 else 1.0
        return float(np.sqrt(self.cost))

    def units(self) -> dict[str, float]:
        """Return the size of each quantity where w = 0: the units in which two computations of it are compared."""
        largest = float(np.abs(self.y).max())
        return {"support_values": float(np.abs(self.dual_at_zero).max()), "bias": largest, "errors": largest}

    def accuracy(self, values: _Values) -> Accuracy:
        """Return how far the fitted values y - e are from the exact optimum."""
        alpha, b, e = (values[name]() for name in ("support_values", "bias", "errors"))
        return least_squares_accuracy(self.R, self.y, self.gamma, self.v, alpha, float(b), self.y - e)

    def declare(
        self,
        title: str,
        problem: Any,
        parameters: Mapping[str, Any],
        values: _Values,
        rows: Callable[[float], tuple[Row, ...]],
        *,
        sizes: Callable[[Self], Mapping[str, float]] | None = None,
        accuracy: Callable[[Self], Accuracy] | None = None,
    ) -> Declared:
        """Return the problem with its names and units.

        ``sizes`` returns the sizes of the quantities that only this page has; ``accuracy`` bounds the answer where the
        loss is not squared.
        """

        def units() -> dict[str, float]:
            data = self.current(parameters)
            return {**data.units(), **({} if sizes is None else sizes(data))}

        def bound() -> Accuracy:
            data = self.current(parameters)
            return data.accuracy(values) if accuracy is None else accuracy(data)

        return Declared(
            title=title,
            problem=problem,
            parameters=parameters,
            values=values,
            rows=rows,
            record=self.record,
            units=units,
            unit=lambda: self.current(parameters).unit(),
            accuracy=bound,
        )
