"""The map of rows: the scores of two components, with groups or numbers shown by colour and mark."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, GREY, LEGEND, axes_for, demand
from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError

__all__ = ["ComponentMapDisplay"]

#: Marks of groups, which differ without colour; of more groups the others share the last one.
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_COLOURS = ("#1b4f72", ACCENT, "#7d6608", "#0e6655", "#6c3483", "0.25", "#ca6f1e", "#2e86c1", "#943126", GREY)


@dataclass(eq=False)
class ComponentMapDisplay:
    """A plot of rows in the plane of two components.

    Parameters
    ----------
    scores : array of shape (n_rows, 2)
        The scores of both components.
    shares : tuple of two floats
        Their shares of the variance, in the labels of the axes; NaN leaves them out.
    groups : array of shape (n_rows,), default=None
        What the colour shows: labels, or numbers.
    name : str, default=""
        What the groups are, for the legend or the bar of colours.
    components : tuple of two ints, default=(0, 1)
        The numbers of the components, from zero.
    """

    scores: Array
    shares: tuple[float, float]
    groups: Any = None
    name: str = ""
    components: tuple[int, int] = (0, 1)
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        groups: Any = None,
        name: str = "",
        components: tuple[int, int] = (0, 1),
        ax: Any = None,
    ) -> Self:
        """Draw the scores of rows by a fitted estimator of components, for instance ``LSSVMKernelPCA``."""
        demand(estimator, "transform", cls.__name__, "components: LSSVMKernelPCA, KernelSpectralClustering")
        scores = np.asarray(estimator.transform(X))
        if len(components) != 2 or not all(0 <= number < scores.shape[1] for number in components):
            raise DeclarationError(
                f"components must be two numbers from 0 to {scores.shape[1] - 1}, received {components!r}"
            )
        if groups is not None and len(groups) != scores.shape[0]:
            raise DataError(
                f"groups must have one entry for each of the {scores.shape[0]} rows, received {len(groups)}"
            )
        ratios = getattr(estimator, "explained_variance_ratio_", np.full(scores.shape[1], np.nan))
        display = cls(
            scores=scores[:, list(components)],
            shares=(float(ratios[components[0]]), float(ratios[components[1]])),
            groups=None if groups is None else np.asarray(groups),
            name=name,
            components=components,
        )
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``, or on new axes."""
        self.figure_, (self.ax_,) = axes_for(ax, size=(6.4, 5.2))
        x, y = self.scores.T
        if self.groups is None:
            self.ax_.scatter(x, y, s=16, color=ACCENT, alpha=0.7, linewidths=0)
        elif self.groups.dtype.kind == "f" or (self.groups.dtype.kind in "iu" and np.unique(self.groups).size > 10):
            drawn = self.ax_.scatter(x, y, s=18, c=self.groups, cmap="viridis", linewidths=0)
            self.figure_.colorbar(drawn, ax=self.ax_, label=self.name or "value")
        else:
            for number, label in enumerate(np.unique(self.groups)):
                rows = self.groups == label
                mark = min(number, len(_MARKS) - 1)
                style = {"marker": _MARKS[mark], "color": _COLOURS[mark], "s": 20, "alpha": 0.8, "linewidths": 0}
                self.ax_.scatter(x[rows], y[rows], label=str(label), **style)
            self.ax_.legend(title=self.name or None, **LEGEND)
        labels = [
            f"component {number + 1}" + (f" ({100.0 * share:.0f} % of the variance)" if np.isfinite(share) else "")
            for number, share in zip(self.components, self.shares, strict=True)
        ]
        self.ax_.set(xlabel=labels[0], ylabel=labels[1])
        return self
