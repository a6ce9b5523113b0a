"""The map of the validation error over two parameters: its simplices, the optimum, and the bound."""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.fusion.validation_loss import SQUARED

__all__ = ["draw_map"]

#: The optimum; dark enough to be distinguished from the map in a print without colour.
_ACCENT = "#b03060"
#: Share of the knots whose errors the shades distinguish; the larger ones all have the lightest shade.
_SHADED = 0.8
#: Parts of each edge of a triangle, which is a curve on a logarithmic axis.
_STEPS = 24


def draw_map(fusion: Any, ax: Any = None, over: tuple[str, str] | None = None) -> Any:
    """Draw the errors at the knots of a joint fusion over two of its parameters, and return the axes."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib; run `pip install matplotlib`") from error
    path = fusion.path
    chosen = path.parameters[:2] if over is None else tuple(over)
    if len(set(chosen)) != 2 or not set(chosen) <= set(path.parameters):
        raise DeclarationError(f"over names two of the parameters {list(path.parameters)}, received {over!r}")
    places = [path.parameters.index(name) for name in chosen]
    x, y = path.values[:, places].T
    if ax is None:
        _, ax = plt.subplots(layout="constrained", figsize=(6.8, 5.2))
    top = float(np.quantile(path.validation_errors, _SHADED))
    shades = {"cmap": "Greys_r", "vmin": fusion.validation_error, "vmax": max(top, 1.001 * fusion.validation_error)}
    if len(path.parameters) == 2 and path.simplices.size:
        drawn = _triangles(path, places, shades)
        ax.add_collection(drawn)
        ax.plot(x, y, ".", color="black", markersize=1.5, label=f"{len(path)} knots, {len(path.simplices)} simplices")
    else:
        order = np.argsort(path.validation_errors)[::-1]  # the smallest errors on top
        drawn = ax.scatter(x[order], y[order], c=path.validation_errors[order], s=14, edgecolors="0.3", **shades)
    _mark(fusion, ax, chosen)
    for axis, values in (("x", x), ("y", y)):
        _scale(ax, axis, values)
    ax.set_xlabel(chosen[0])
    ax.set_ylabel(chosen[1])
    label = "validation error (mean square)" if fusion.loss == SQUARED.words else fusion.loss
    bar = ax.figure.colorbar(drawn, ax=ax, extend="max", label=label)
    bar.ax.axhline(fusion.validation_error, color=_ACCENT, linewidth=2.5)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize="small", framealpha=0.9, edgecolor="none")
    return ax


def _triangles(path: Any, places: list[int], shades: dict[str, Any]) -> Any:
    """Return the simplices in the shade of their errors, their edges as many short ones.

    On a logarithmic axis a straight edge is a curve. Drawn as one segment it would leave gaps beside a triangle that
    was not cut where its neighbour was.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Normalize

    corners = path.values[:, places][path.simplices]
    shares = np.linspace(0.0, 1.0, _STEPS, endpoint=False)[:, None]
    outlines = [
        np.concatenate([(1.0 - shares) * coordinate[k] + shares * coordinate[(k + 1) % 3] for k in range(3)])
        for coordinate in corners
    ]
    drawn = PolyCollection(
        outlines, cmap=shades["cmap"], norm=Normalize(shades["vmin"], shades["vmax"]), edgecolors="0.6", linewidths=0.2
    )
    drawn.set_array(path.validation_errors[path.simplices].mean(axis=1))
    return drawn


def _mark(fusion: Any, ax: Any, chosen: tuple[str, ...]) -> None:
    """Mark the optimum, and what is proved about all other values."""
    at = [fusion.values[name] for name in chosen]
    place = ", ".join(f"{name} = {value:.4g}" for name, value in fusion.values.items())
    label = f"best: {place}; error {fusion.validation_error:.4g}"
    style = {"color": _ACCENT, "markeredgecolor": "white", "markersize": 9, "zorder": 5}
    ax.plot(*([value] for value in at), "o", clip_on=False, label=label, **style)  # whole at an end of the box too
    if np.isfinite(fusion.lower_bound):
        proved = ", ".join(f"{name} from {low:.4g} to {high:.4g}" for name, (low, high) in fusion.proved_on.items())
        ax.plot([], [], " ", label=f"lower bound {fusion.lower_bound:.4g}, {proved}")


def _scale(ax: Any, axis: str, values: Array) -> None:
    """Set a logarithmic axis, with a linear part next to zero where zero is among the values."""
    low, high = float(values.min()), float(values.max())
    if low > 0.0:
        getattr(ax, f"set_{axis}scale")("log")
    else:
        first = float(np.quantile(values[values > 0.0], 0.1)) if (values > 0.0).any() else 1.0
        getattr(ax, f"set_{axis}scale")("symlog", linthresh=first, linscale=1.0)
        getattr(ax, f"{axis}axis").set_major_locator(_ticks(first, high))
    getattr(ax, f"set_{axis}lim")(low, high)


def _ticks(first: float, high: float) -> Any:
    """Return zero, and the powers of ten beyond the linear part."""
    from matplotlib.ticker import FixedLocator

    powers = 10.0 ** np.arange(np.ceil(np.log10(first)), np.floor(np.log10(high)) + 1)
    return FixedLocator([0.0, *powers])
