"""Pictures of a fusion: the validation error over one parameter or its map over two, the optimum and the bound."""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = ["draw_curve", "draw_map"]

#: The optimum; dark enough to be distinguished from the map in a print without colour.
_ACCENT = "#b03060"
#: Share of the vertices whose errors the shades distinguish; the larger ones all have the lightest shade.
_SHADED = 0.8


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes that are given, or new ones."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib; run `pip install matplotlib`") from error
    return plt.subplots(layout="constrained", figsize=size)[1] if ax is None else ax


def draw_curve(fusion: Any, ax: Any = None) -> Any:
    """Draw the validation error over one parameter and its lower bound, and return the axes."""
    ax = _axes(ax, (6.4, 4.8))
    ((name, value),) = fusion.values.items()
    ((low, high),) = fusion.proved_on.values()
    ax.plot(fusion.path.values, fusion.path.validation_errors, "k-", linewidth=1.0, label="validation")
    ax.plot([value], [fusion.validation_error], "ko", label=f"best: {name} = {value:.4g}")
    if np.isfinite(fusion.lower_bound):
        words = f"lower bound, {name} from {low:g} to {high:g}"
        ax.axhline(fusion.lower_bound, color="0.5", linestyle="--", linewidth=1.0, label=words)
    _scale(ax, "x", fusion.path.values)
    ax.set_xlabel(name)
    ax.set_ylabel(fusion.loss)
    ax.legend()
    return ax


def draw_map(fusion: Any, ax: Any = None, over: tuple[str, str] | None = None) -> Any:
    """Draw the errors at the vertices over two of several parameters, and return the axes."""
    path = fusion.path
    chosen = path.parameters[:2] if over is None else tuple(over)
    if len(set(chosen)) != 2 or not set(chosen) <= set(path.parameters):
        raise DeclarationError(f"over names two of the parameters {list(path.parameters)}, received {over!r}")
    ax = _axes(ax, (6.8, 5.2))
    places = [path.parameters.index(name) for name in chosen]
    x, y = path.values[:, places].T
    order = np.argsort(path.validation_errors)[::-1]  # the smallest errors on top
    top = max(float(np.quantile(path.validation_errors, _SHADED)), 1.001 * fusion.validation_error)
    shades = {"cmap": "Greys_r", "vmin": fusion.validation_error, "vmax": top}
    drawn = ax.scatter(x[order], y[order], c=path.validation_errors[order], s=14, edgecolors="0.3", **shades)
    place = ", ".join(f"{name} = {value:.4g}" for name, value in fusion.values.items())
    style = {"color": _ACCENT, "markeredgecolor": "white", "markersize": 9, "zorder": 5, "clip_on": False}
    label = f"best: {place}; error {fusion.validation_error:.4g}"
    ax.plot(*([fusion.values[name]] for name in chosen), "o", label=label, **style)
    if np.isfinite(fusion.lower_bound):
        proved = ", ".join(f"{name} from {low:.4g} to {high:.4g}" for name, (low, high) in fusion.proved_on.items())
        ax.plot([], [], " ", label=f"lower bound {fusion.lower_bound:.4g}, {proved}")
    for axis, values in (("x", x), ("y", y)):
        _scale(ax, axis, values)
    ax.set_xlabel(chosen[0])
    ax.set_ylabel(chosen[1])
    bar = ax.figure.colorbar(drawn, ax=ax, extend="max", label=fusion.loss)
    bar.ax.axhline(fusion.validation_error, color=_ACCENT, linewidth=2.5)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize="small", framealpha=0.9, edgecolor="none")
    return ax


def _scale(ax: Any, axis: str, values: Array) -> None:
    """Set a logarithmic axis, with a linear part next to zero where zero is among the values."""
    positive = values[values > 0.0]
    if float(values.min()) > 0.0:
        ax.set(**{f"{axis}scale": "log"})
    elif positive.size and float(values.min()) == 0.0:
        linear = {"linthresh": float(np.quantile(positive, 0.1)), "linscale": 1.0}
        (ax.set_xscale if axis == "x" else ax.set_yscale)("symlog", **linear)
    ax.set(**{f"{axis}lim": (float(values.min()), float(values.max()))})
