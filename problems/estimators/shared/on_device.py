"""Rows, targets and labels on a device: the checks that scikit-learn does for numpy."""

from typing import Any

from substrate.errors import DataError
from substrate.namespaces import (
    device_points,
    device_vector,
    is_device_array,
    namespace_of,
    same_home,
    where_it_lives,
)

__all__ = ["check_home", "checked_on_device", "labels_on_device"]


def check_home(estimator: Any, home: Any, X: Any, name: str = "X") -> None:
    """Refuse rows that are not where the fitted model is; arrays are not moved between libraries silently."""
    here, there = where_it_lives(home), where_it_lives(X)
    if here != there:
        advice = f"{name}.cpu().numpy(), {name}.get()"
        if is_device_array(home):
            advice = "model.to_numpy() takes the model to numpy"
        raise DataError(
            f"this {type(estimator).__name__} is fitted to arrays of {here}, {name} is {there}; move {name} to them "
            f"({advice}), or fit where {name} is"
        )


def checked_on_device(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, numeric: bool, multi_output: bool
) -> tuple[Any, Any, Any]:
    """Rows, targets or labels, and weights, all of one library and device."""
    if y is None:
        raise DataError(f"y is missing; give one target or label per row, where X is ({where_it_lives(X)})")
    same_home(X=X, y=y, sample_weight=sample_weight)
    X = device_points(X)
    n = int(X.shape[0])
    if n < 2:
        raise DataError(f"at least two rows are needed, received {n}")
    y = device_vector(y, "y", n=n, multiple=multi_output) if numeric else labels_on_device(y, n)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    xp = namespace_of(X)
    if sample_weight is None:
        weights = xp.ones(n, dtype=xp.float64, device=X.device)
    else:
        weights = device_vector(sample_weight, "sample_weight", n=n)
        if bool(xp.any(weights < 0.0)):
            raise DataError(f"sample_weight must not be negative, received {float(xp.min(weights))}")
    estimator.n_features_in_ = int(X.shape[1])
    return X, y, weights


def labels_on_device(y: Any, n: int) -> Any:
    """One label per row: integers, or floats that are integers."""
    xp = namespace_of(y)
    if y.ndim != 1 or y.shape[0] != n:
        raise DataError(f"y must have one label for each of the {n} rows, received shape {tuple(y.shape)}")
    if xp.isdtype(y.dtype, "real floating") and not bool(xp.all(xp.isfinite(y) & (y == xp.floor(y)))):
        raise DataError("labels on a device are whole numbers, received fractions, NaN or infinity; number the classes")
    if xp.isdtype(y.dtype, ("complex floating", "bool")):
        raise DataError(f"labels on a device are whole numbers, received dtype {y.dtype}; number the classes")
    return y
