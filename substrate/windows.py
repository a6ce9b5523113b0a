r"""Windows of a series: rows of past outputs and inputs, and the outputs that follow.

.. math:: x_t = \big( y_{t - a_1}, \dots, y_{t - a_p},\; u_{t - d_1}, \dots, u_{t - d_q} \big), \qquad
          \text{targets } y_t, \dots, y_{t + h - 1}

with the lags a of the output, the delays d of every input u, and the horizon h: the regression of a nonlinear
autoregression with exogenous inputs (NARX). Windows do not cross from one series to another.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, real_array, whole_number
from substrate.errors import DataError, DeclarationError

__all__ = ["Windows", "read_delays", "read_series", "windowize"]


@dataclass(frozen=True, slots=True)
class Windows:
    """Rows of windows with their targets.

    Parameters
    ----------
    X
        One row per window: outputs by lag, then inputs by column and delay.
    y
        The target of every window; with a horizon above one, one column per step.
    rows
        The number of the row of the series that the first target of a window is.
    names
        The columns, as ``y(t-1)`` and ``u0(t-2)``.
    """

    X: Array
    y: Array
    rows: NDArray[np.intp]
    names: tuple[str, ...]


def read_delays(value: Any, name: str, least: int) -> tuple[int, ...]:
    """Return delays in ascending order: a number n stands for 1 to n; each is at least ``least``."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return tuple(range(1, whole_number(value, name, least if least else 0) + 1))
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise DeclarationError(f"{name} must be a number or a list of delays, received {value!r}")
    delays = sorted({whole_number(delay, f"{name}: a delay", least) for delay in value})
    if not delays and least:
        raise DeclarationError(f"{name} must name at least one delay")
    return tuple(delays)


def read_series(X: Any, y: Any, inputs: tuple[int, ...]) -> tuple[Array | None, Array]:
    """Return the checked inputs, None without delays of inputs, and outputs: finite, with equally many rows."""
    outputs = real_array(y, "y", ndim=1)
    if not inputs:
        if X is not None and np.asarray(X).shape[:1] != (outputs.size,):
            rows = (*np.asarray(X).shape, 0)[0]
            raise DataError(f"X has {rows} rows, y has {outputs.size}; a series has one of each per time")
        return None, outputs
    if X is None:
        raise DataError("inputs= asks for delays of inputs: give X, one row per time, or inputs=0")
    values = real_array(X, "X", ndim=(1, 2))
    values = values[:, None] if values.ndim == 1 else values
    if values.shape[0] != outputs.size or values.shape[1] == 0:
        raise DataError(f"X must have a row of inputs for each of the {outputs.size} outputs, received {values.shape}")
    return values, outputs


def windowize(
    y: Any, X: Any = None, *, lags: Any = 1, inputs: Any = 0, horizon: int = 1, groups: Any = None
) -> Windows:
    """Return all windows of a series whose lags, delays and targets are inside of it.

    Parameters
    ----------
    y : array of shape (T,)
        The outputs, in the order of time, at equal distances.
    X : array of shape (T, m), default=None
        Inputs, where ``inputs`` has delays.
    lags : int or list of int, default=1
        The lags of the output: a number p stands for 1 to p.
    inputs : int or list of int, default=0
        The delays of every input: a number q stands for 1 to q, zero for none; a list may have 0, the input of the time
        that is predicted.
    horizon : int, default=1
        The number of steps that are targets.
    groups : array of shape (T,), default=None
        One label per row where there are several series; rows of a series are together and in order.

    Examples
    --------
    >>> from problems import windowize
    >>> windows = windowize([1.0, 2.0, 3.0, 4.0, 5.0], lags=2)
    >>> windows.X.tolist(), windows.y.tolist()
    ([[2.0, 1.0], [3.0, 2.0], [4.0, 3.0]], [3.0, 4.0, 5.0])
    """
    output_lags, delays = read_delays(lags, "lags", 1), read_delays(inputs, "inputs", 0)
    steps = whole_number(horizon, "horizon", 1)
    values, outputs = read_series(X, y, delays)
    reach = max((*output_lags, *delays))
    rows = _first_targets(outputs.size, reach, steps, groups)
    if rows.size == 0:
        raise DataError(
            f"no window fits: lags and delays up to {reach} and {steps} targets need {reach + steps} rows of one "
            f"series, received {outputs.size}; use fewer lags, a shorter horizon, or a longer series"
        )
    columns = [outputs[rows - lag] for lag in output_lags]
    names = [f"y(t-{lag})" for lag in output_lags]
    for column in range(0 if values is None else values.shape[1]):
        columns += [values[rows - delay, column] for delay in delays]  # type: ignore[index]
        names += [f"u{column}(t-{delay})" if delay else f"u{column}(t)" for delay in delays]
    targets = outputs[rows] if steps == 1 else np.column_stack([outputs[rows + step] for step in range(steps)])
    return Windows(X=np.column_stack(columns), y=targets, rows=rows, names=tuple(names))


def _first_targets(n: int, reach: int, steps: int, groups: Any) -> NDArray[np.intp]:
    """Return the rows of first targets whose windows and targets are in one series."""
    rows = np.arange(reach, n - steps + 1)
    if groups is None or not rows.size:
        return rows
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise DataError(f"groups must have one label for each of the {n} rows, received shape {labels.shape}")
    changes = np.concatenate([[0], np.cumsum(labels[1:] != labels[:-1])])
    if np.unique(labels).size != changes[-1] + 1:
        raise DataError("rows of a series must be together: a label of groups comes back after another one")
    return np.asarray(rows[changes[rows - reach] == changes[rows + steps - 1]])
