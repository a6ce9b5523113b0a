"""The warning of columns whose scales are far apart, for kernels that compare distances."""

import warnings
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import ScaleWarning
from substrate.kernels import Kernel
from substrate.namespaces import is_device_array, namespace_of, on_device_of, to_numpy

__all__ = ["warn_if_unscaled", "warn_of_scales"]

#: Ratio of the columns' spreads beyond which a distance depends on one column only.
_SCALES_APART = 100.0
#: Number of cells of a matrix whose spreads are computed at a time.
_SPREAD_CELLS = 2**18


def warn_if_unscaled(model: Any, X: Array, columns: tuple[int, ...], kernel: Kernel) -> None:
    """Warn where the given columns of X, whose distances the kernel compares, have scales far apart."""
    # Both spreads must differ: a pixel that is almost always dark has a small deviation but the range of all
    # others, a single outlier a large range but an ordinary deviation.
    low, high, deviations = (_spreads_on_device if is_device_array(X) else _spreads)(X, columns)
    with np.errstate(over="ignore"):
        ranges = high - low
    warn_of_scales(model, columns, ranges, deviations, kernel)


def warn_of_scales(model: Any, columns: tuple[int, ...], ranges: Array, deviations: Array, kernel: Kernel) -> None:
    """As :func:`warn_if_unscaled`, from the ranges and standard deviations of the columns."""
    (moving,) = np.nonzero(ranges > 0.0)
    if moving.size < 2:
        return
    small, large = moving[deviations[moving].argmin()], moving[deviations[moving].argmax()]
    with np.errstate(over="ignore", invalid="ignore"):
        apart = min(deviations[large] / deviations[small], ranges[large] / ranges[small])
    if apart > _SCALES_APART:
        names = getattr(model, "feature_names_in_", np.arange(model.n_features_in_))
        warnings.warn(
            f"{kernel!r} compares distances, and column {names[columns[large]]!s} (standard deviation "
            f"{deviations[large]:.3g}) drowns column {names[columns[small]]!s} ({deviations[small]:.3g}); scale "
            "the columns first, for instance make_pipeline(StandardScaler(), ...)",
            ScaleWarning,
            stacklevel=5,
        )


def _spreads_on_device(X: Any, columns: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """On the host: lowest and highest value of the columns, and their standard deviations."""
    xp = namespace_of(X)
    part = xp.take(X, on_device_of(X, np.asarray(columns)), axis=1)
    low, high = to_numpy(xp.min(part, axis=0)), to_numpy(xp.max(part, axis=0))
    with np.errstate(over="ignore"):
        ranges = np.minimum(high - low, 1e300)
    units = np.where(ranges > 0.0, ranges, 1.0)
    scaled = (part - on_device_of(X, low)) / on_device_of(X, units)
    return low, high, to_numpy(xp.std(scaled, axis=0)) * units


def _spreads(X: Array, columns: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Lowest and highest value of the columns, and their standard deviations."""
    low, high, deviations = np.empty(len(columns)), np.empty(len(columns)), np.empty(len(columns))
    width = max(_SPREAD_CELLS // X.shape[0], 1)  # a few at a time: a copy of all rows may not fit
    for first in range(0, len(columns), width):
        some = slice(first, first + width)
        points = np.ascontiguousarray(X[:, columns[some]].T)
        low[some], high[some] = points.min(axis=1), points.max(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            ranges = high[some] - low[some]
            units = np.where(ranges > 0.0, np.minimum(ranges, 1e300), 1.0)
            deviations[some] = ((points - low[some, None]) / units[:, None]).std(axis=1) * units
    return low, high, deviations
