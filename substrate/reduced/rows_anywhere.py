"""What is computed from rows against a reduced basis, done where the rows are: in numpy's passes, or on a device."""

from collections.abc import Iterator
from typing import Any

from substrate.arrays import Array
from substrate.certificates.rows import ACCURATE
from substrate.errors import DataError
from substrate.reduced.certificate import Residuals
from substrate.reduced.device_left_out import left_out_on_device
from substrate.reduced.device_reduced import accumulate_on_device, residuals_on_device, solve_on_device
from substrate.reduced.device_rows import DeviceRows
from substrate.reduced.features import EigenFeatures
from substrate.reduced.folds import Folds
from substrate.reduced.left_out import LeftOutRows, LeverageFactor, left_out_rows
from substrate.reduced.moments import Origin, RowWeights
from substrate.reduced.rows import KernelRows
from substrate.reduced.solution import ReducedSolution, Statistic, accumulate, residual_pass, solve_reduced
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.streaming.survey import TargetSummary

__all__ = ["Rows", "in_passes", "left_out_of", "residuals_of", "solution_of", "statistic_of"]

Rows = KernelRows | DeviceRows


def in_passes(rows: Rows) -> KernelRows:
    """Rows that numpy reads, for what is not computed on a device."""
    if isinstance(rows, DeviceRows):
        raise DataError("this machine is not computed on a device; give it numpy arrays, X.cpu().numpy() of a tensor")
    return rows


def statistic_of(
    rows: Rows,
    features: EigenFeatures,
    origin: Origin,
    lam: float,
    folds: Folds | None = None,
    method: str = "auto",
    some: Any = None,
    weights: RowWeights | None = None,
) -> Statistic:
    """Sums over all rows, see :func:`~substrate.reduced.solution.accumulate`."""
    if isinstance(rows, DeviceRows):
        if weights is not None:
            raise TypeError("rows on a device have no weights yet")
        return accumulate_on_device(rows, features, origin, lam, folds, method)
    return accumulate(rows, features, origin, lam, folds, method, some, weights)


def solution_of(
    rows: Rows,
    spectrum: ReducedSpectrum,
    lam: float,
    K_basis: Array,
    kernel_squares: float | None = None,
    targets: TargetSummary | None = None,
    tolerance: float = ACCURATE,
) -> ReducedSolution:
    """Beta, b and their certificate; a device uses the squares of all kernel values if they are known."""
    if isinstance(rows, DeviceRows):
        return solve_on_device(rows, spectrum, lam, K_basis, kernel_squares, targets, tolerance)
    return solve_reduced(rows, spectrum, lam, K_basis, targets=targets, tolerance=tolerance)


def residuals_of(
    rows: Rows,
    unit: float,
    coefficients: Array,
    bias: Array,
    centre: Array | None = None,
    weights: RowWeights | None = None,
) -> Residuals:
    """The errors of all rows, in sums; ``centre`` is what the targets are near, in their unit."""
    if isinstance(rows, DeviceRows):
        return residuals_on_device(rows, unit, coefficients, bias, centre=centre)
    return residual_pass(rows, unit, coefficients, bias, weights, centre)


def left_out_of(rows: Rows, coefficients: Array, bias: Array, factor: LeverageFactor) -> Iterator[LeftOutRows]:
    """Fitted values, leverages and leave-one-out residuals of all rows in order."""
    if isinstance(rows, DeviceRows):
        return left_out_on_device(rows, coefficients, bias, factor)
    return left_out_rows(rows, coefficients, bias, factor)
