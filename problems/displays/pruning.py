r"""The way down of a pruned machine: its index over the rows left, and the spectra of support values.

.. math:: |\alpha_{(1)}| \ge |\alpha_{(2)}| \ge \dots \ge |\alpha_{(n)}|

([Suykens2002]_ Fig. 10 and 11). The rows at the right end of a spectrum are the next to leave.
"""

from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, LEGEND, LINES, axes_for, demand
from problems.estimators.pruned_machine import PrunedMachine
from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = ["PruningPathDisplay"]

_INDICES = {
    "training": "error on all training rows",
    "leave_one_out": "leave-one-out error",
    "cross_validation": "cross-validation error",
    "validation": "validation error",
}


class PruningPathDisplay:
    """Score against size, and sorted support value spectra of some steps.

    Parameters
    ----------
    sizes : array of shape (n_steps,)
        Rows left at every step.
    scores : array of shape (n_steps,)
        The performance index at every step, the smaller the better.
    chosen : int
        The step the model is.
    spectra : dict of int to array
        Sizes of the support values, largest first, of some steps.
    index : str
        What the index is.

    Attributes
    ----------
    axes_, figure_
        The two axes, score and spectra, and their figure.
    """

    def __init__(self, sizes: Array, scores: Array, chosen: int, spectra: dict[int, Array], index: str) -> None:
        self.sizes = sizes
        self.scores = scores
        self.chosen = chosen
        self.spectra = spectra
        self.index = index

    @classmethod
    def from_estimator(cls, estimator: Any, *, steps: Any = None, ax: Any = None) -> Self:
        """Draw the path of a pruned machine, and the spectra of ``steps``: the first, one half way and the chosen."""
        demand(estimator, (PrunedMachine,), cls.__name__, "PrunedLSSVMRegressor and PrunedLSSVMClassifier")
        path, chosen = estimator.pruning_path_, int(estimator.step_)
        drawn = sorted({0, chosen // 2, chosen}) if steps is None else [int(step) for step in np.atleast_1d(steps)]
        if not drawn or min(drawn) < 0 or max(drawn) >= len(path):
            raise DeclarationError(f"steps must be numbers from 0 to {len(path) - 1}; received {steps!r}")
        sizes = np.array([step.size for step in path], dtype=np.float64)
        scores = np.array([step.score for step in path], dtype=np.float64)
        wrong = " (share of rows)" if hasattr(estimator, "classes_") else " (units of y, squared)"
        index = _INDICES.get(estimator.index, estimator.index) + wrong
        return cls(sizes, scores, chosen, {step: path[step].spectrum for step in drawn}, index).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the two axes given, or on new ones."""
        self.figure_, self.axes_ = axes_for(ax, 1, 2, (10.0, 4.0))
        score, spectrum = self.axes_
        score.plot(self.sizes, self.scores, "o-", color="black", markersize=3.5, linewidth=1.0, label="path")
        here = (self.sizes[self.chosen], self.scores[self.chosen])
        score.plot(*here, "D", color=ACCENT, markersize=9, label=f"chosen: {int(here[0])} rows")
        beyond = slice(self.chosen + 1, None)
        if self.sizes[beyond].size:
            score.plot(self.sizes[beyond], self.scores[beyond], "x", color="black", markersize=9, label="degraded")
        score.invert_xaxis()
        score.set(xlabel="support vectors (number), pruned to the right", ylabel=self.index)
        score.legend(**LEGEND)
        for number, (step, sizes) in enumerate(self.spectra.items()):
            style = LINES[number % len(LINES)]
            shade = ACCENT if step == self.chosen else "black"
            label = f"step {step}, {sizes.size} rows" + (", chosen" if step == self.chosen else "")
            # a mark at its end tells a spectrum from another that it lies on
            marks = {"marker": "os^D"[number % 4], "markevery": [-1], "linestyle": style, "linewidth": 1.6}
            spectrum.plot(np.arange(1, sizes.size + 1), sizes, color=shade, label=label, **marks)
        spectrum.set(xlabel="rank (number)", ylabel="|alpha|, sorted (units of gamma times y)")
        spectrum.legend(**LEGEND)
        return self
