"""The two kinds of figure of the studies: numbers with their spread beside the printed ones, and curves over a grid.

Everything is told apart by shape and line style as well as by shade, on the canvas of :mod:`problems.displays`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from problems.displays.canvas import ACCENT, GREY, LEGEND, distinct
from problems.reproductions.measured import Measured, Printed

__all__ = ["draw_curves", "draw_spread", "legend_above", "logarithmic"]


def draw_spread(
    axes: Any, measured: Measured, names: Sequence[str], published: Mapping[str, Printed], label: str,
    shown: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """A line a number: a dot a seed, a bar from quartile to quartile, its median, and the printed figure."""
    places = np.arange(len(names))[::-1]
    printed = [(place, published[name].value) for place, name in zip(places, names, strict=True) if name in published]
    known = [(value, place) for place, value in printed if value is not None]
    for place, name in zip(places, names, strict=True):
        values, low_high = np.array(measured.of[name]), measured.quartiles(name)
        shift = 0.22 * np.linspace(-1.0, 1.0, values.size) if values.size > 1 else np.zeros(1)
        axes.plot(values, place + shift, ".", color=GREY, markersize=5, label="a seed" if place == 0 else None)
        bar = "quartiles" if place == 0 else None
        axes.plot(low_high, (place, place), "-", color="black", linewidth=2.2, label=bar, solid_capstyle="butt")
        middle = "median" if place == 0 else None
        axes.plot(measured.median(name), place, "|", color="black", markersize=14, markeredgewidth=2.2, label=middle)
    if known:
        style = {"color": ACCENT, "markersize": 9, "markerfacecolor": "none", "markeredgewidth": 1.6}
        axes.plot(*zip(*known, strict=True), "D", label="printed", **style)
    axes.set_yticks(places, names if shown is None else shown)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel(label)


def legend_above(figure: Any, axes: Any) -> None:
    """One legend for all panels, those of the marks of one of them, where it covers nothing."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4, **LEGEND)


def logarithmic(axes: Any, which: str) -> None:
    """A logarithmic axis, "x" or "y": plain numbers at 1, 2 and 5, or at powers of ten alone where there are many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{which}scale": "log"})
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 500.0 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def draw_curves(axes: Any, measured: Measured, names: Sequence[str], x_label: str, y_label: str) -> None:
    """Medians as marked lines, quartiles as thin lines of the same shade."""
    for name, style in zip(names, distinct(len(names)), strict=True):
        curve = measured.curves[name]
        axes.plot(curve.x, curve.middle, label=name, **style)
        for edge in (curve.low, curve.high):
            axes.plot(curve.x, edge, color=style["color"], linestyle=style["linestyle"], linewidth=0.6)
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.legend(**LEGEND)
