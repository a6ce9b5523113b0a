"""Common parts of the displays: matplotlib when something is drawn, axes to draw on, and the marks in use.

Marks differ in shape, line style and lightness, so that a print without colour is readable.
"""

from itertools import cycle, islice
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = [
    "ACCENT",
    "GREY",
    "LEGEND",
    "LINES",
    "axes_for",
    "column_names",
    "component_columns",
    "demand",
    "distinct",
    "one_of",
    "pyplot",
    "unit_of",
    "with_unit",
]

#: The model; dark enough to be distinguished from grey data in a print without colour.
ACCENT = "#b03060"
#: Data, and whatever stays in the background.
GREY = "0.6"
#: The style of every legend: a plain background, so that lines behind it do not cross its text.
LEGEND = {"fontsize": "small", "framealpha": 0.9, "edgecolor": "none"}
LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_SHADES = ("black", ACCENT, "0.45")


def pyplot() -> Any:
    """Return matplotlib's pyplot, or raise an error with the command that installs it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('pictures need matplotlib: pip install "lssvm-substrate[tables]"') from error
    return plt


def axes_for(
    ax: Any, rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.4, 4.2), **options: Any
) -> tuple[Any, Any]:
    """Return a figure and a flat array of axes: the given axes, one for each panel, or new ones."""
    plt = pyplot()
    if ax is None:
        figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **options)
        return figure, axes.ravel()
    given_axes = np.array([ax], dtype=object) if hasattr(ax, "plot") else np.ravel(np.asarray(ax, dtype=object))
    if given_axes.size != rows * columns or not all(hasattr(candidate, "plot") for candidate in given_axes):
        needed = "one axes" if rows * columns == 1 else f"{rows * columns} axes, as an array or a list"
        raise DeclarationError(f"this display draws on {needed}; received {given_axes.size}: {ax!r}")
    return given_axes[0].figure, given_axes


def demand(estimator: Any, attribute: str, display: str, usable: str) -> None:
    """Refuse an estimator that is not fitted or lacks an attribute; raise if matplotlib is missing."""
    if not isinstance(estimator, BaseEstimator):
        raise DeclarationError(f"{display} draws {usable}; received {estimator!r}")
    check_is_fitted(estimator)
    if not hasattr(estimator, attribute):
        raise DeclarationError(f"{display} draws {usable}; received {estimator!r}")
    pyplot()


def component_columns(estimator: Any) -> list[tuple[int, ...]]:
    """Return the inputs of each component of an additive model."""
    return [component.columns for component in estimator.kernel_.components(estimator.n_features_in_)]


def column_names(estimator: Any, names: Any = None) -> list[str]:
    """Return names of the inputs: as given, from the data frame of the fit, or x1 for the first column and so on."""
    count = int(estimator.n_features_in_)
    given_names = getattr(estimator, "feature_names_in_", None) if names is None else names
    if given_names is None:
        return [f"x{column + 1}" for column in range(count)]
    if isinstance(given_names, str) or len(given_names) != count:
        raise DeclarationError(f"names must be a list of one name per input, {count} of them; received {given_names!r}")
    return [str(name) for name in given_names]


def one_of(values: Array, number: int, what: str, ndim: int, axis: int = 1) -> Array:
    """Return the output or machine of this number, ``what`` in messages; a single one has no axis."""
    count = 1 if values.ndim == ndim else values.shape[axis]
    if not 0 <= number < count:
        raise DeclarationError(f"the model has {what}s 0 to {count - 1}; received {what}={number!r}")
    return values if values.ndim == ndim else np.take(values, number, axis=axis)


def with_unit(name: str) -> str:
    """Return a label with its unit: in brackets, as in "time (ms)", where the name has one."""
    return name if "(" in name else f"{name} (its unit)"


def unit_of(name: str) -> str:
    """Return the unit in the brackets of a name, or a description of it: "g" of "acceleration (g)", "units of y" of
    "y".
    """
    return name[name.index("(") + 1 :].rstrip(")") if "(" in name else f"units of {name}"


def distinct(count: int) -> list[dict[str, Any]]:
    """Return marks that differ in marker, line style and shade, for a number of curves."""
    styles = zip(cycle(_MARKERS), cycle(LINES), cycle(_SHADES), strict=False)
    return [
        {"marker": marker, "linestyle": line, "color": shade, "markersize": 4.5, "linewidth": 1.4}
        for marker, line, shade in islice(styles, count)
    ]
