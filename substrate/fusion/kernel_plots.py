"""The paths or the maps of all kernels of a list, drawn beside each other."""

from typing import Any

import numpy as np

from substrate.errors import DeclarationError
from substrate.fusion.validation_loss import SQUARED

__all__ = ["draw_kernels"]

_STYLES = ("-", "--", ":", "-.")
#: The chosen machine, as on the map of two weights.
_ACCENT = "#b03060"


def draw_kernels(fusion: Any, ax: Any = None) -> Any:
    """Draw the path of every kernel in one diagram; with two weights, the map of every kernel beside the others.

    Returns the axes, of maps an array of them; ``ax`` is for paths.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib; run `pip install matplotlib`") from error
    chosen, fusions = fusion.kernels.name, fusion.kernels.fusions
    if len(fusion.values) > 1:
        if ax is not None:
            raise DeclarationError("maps of two weights have axes of their own; plot one with fusions[name].plot")
        _, axes = plt.subplots(1, len(fusions), layout="constrained", figsize=(5.6 * len(fusions), 4.8), squeeze=False)
        for each, (name, fusion_of_kernel) in zip(axes[0], fusions.items(), strict=True):
            fusion_of_kernel.plot(each)
            each.set_title(f"{name}{', chosen' if name == chosen else ''}")
        return axes[0]
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    for place, (name, fusion_of_kernel) in enumerate(fusions.items()):
        path = fusion_of_kernel.path
        shown = (path.values > 0.0) & np.isfinite(path.values)  # the axis is logarithmic
        style = _STYLES[place % len(_STYLES)]
        ax.plot(path.values[shown], path.validation_errors[shown], style, linewidth=1.2, label=name)
    label = f"best: {chosen}, {fusion.parameter} = {fusion.value:.4g}"
    ax.plot([fusion.value], [fusion.validation_error], "o", color=_ACCENT, label=label)
    if np.isfinite(fusion.lower_bound):
        bound = f"lower bound, {len(fusions)} kernels"
        ax.axhline(fusion.lower_bound, color="0.5", linestyle="--", linewidth=1.0, label=bound)
    ax.set_xscale("log")
    ax.set_xlabel(fusion.parameter)
    ax.set_ylabel("validation error (mean square)" if fusion.loss == SQUARED.words else fusion.loss)
    ax.legend()
    return ax
