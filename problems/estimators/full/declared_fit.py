"""A page of the LS-SVM family solved as the declared problem, one output at a time."""

from typing import Any, NamedTuple

import numpy as np

from problems.estimators.shared.base import import_page
from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rows import Accuracy, spread_of
from substrate.kernels import Kernel
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.least_squares.saddle_system import target_unit

__all__ = ["DeclaredFit", "declared_fit"]


class DeclaredFit(NamedTuple):
    """Support values in regression's sign, biases, slopes, rows and facts.

    The slopes are those of the columns of the border beside the bias, which the page has as ``coefficients``.
    """

    support_values: Array
    bias: Array
    slopes: Array | None
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]


def declared_fit(
    kernel: Kernel,
    X: Any,
    K: Any,
    Y: Array,
    gammas: tuple[float, ...],
    weights: Array,
    page_name: str,
    solver: str | None,
    border: Border = ONES,
) -> DeclaredFit:
    """Solve the page, one output at a time; ``border`` are the columns of its data that are not penalised."""
    page = import_page(page_name)
    build = page.DEMONSTRATION.own_build
    arguments = {"K": K} if build is None else build(kernel, X, Y[:, 0])
    labels = page_name == "ls_svm_classification"  # its support values have the sign of the label
    alpha, bias = np.empty_like(Y), np.empty(Y.shape[1])
    slopes = np.empty((border.slopes, Y.shape[1])) if border.slopes else None
    rows: list[tuple[Row, ...]] = []
    facts: list[tuple[str, str]] = []
    for column, gamma in enumerate(gammas):
        y = np.ascontiguousarray(Y[:, column])
        center, unit = (0.0, 1.0) if labels else _location_and_scale(y)
        declared = page.declare(**{**arguments, "y": (y - center) / unit}, gamma=gamma, weights=weights)
        declared.solve(solver, warn=False)
        alpha[:, column] = unit * (y * declared.support_values if labels else declared.support_values)
        bias[column] = unit * declared.bias + center
        if slopes is not None:
            slopes[:, column] = unit * declared.coefficients
            bias[column] += border.center @ slopes[:, column]
        if not labels:
            facts.append(("targets", "given to the solver without their mean and in units of their spread"))
        # the bound is computed from the numbers that predict uses
        rows.append(tuple(row for row in declared.certificate().rows if not isinstance(row, Accuracy)))
        if (record := declared.solver_record) is not None:
            facts += record.facts()
    return DeclaredFit(
        support_values=alpha, bias=bias, slopes=slopes, rows=worst_rows(rows), facts=tuple(dict.fromkeys(facts))
    )


def _location_and_scale(y: Array) -> tuple[float, float]:
    """Return mean and spread of the targets: the free bias absorbs the mean, all other quantities scale with the
    spread.

    A solver stops at a share of the given numbers, which an offset must not dominate.
    """
    largest = target_unit(y)
    center = largest * float(np.clip(np.mean(y / largest), (y / largest).min(), (y / largest).max()))
    spread, rounding = spread_of(y - center, np.ones(y.size))
    return center, spread if spread > rounding else max(largest, 1.0)
