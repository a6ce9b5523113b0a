r"""Errors against the number of vectors: on a reduced basis, and of a pruned machine.

On a reduced basis, the errors and the mean relative reconstruction error are drawn,

.. math:: \delta_S = 1 - \frac1N \sum_i \frac{k_{Si}^T K_{SS}^{-1} k_{Si}}{k_{ii}}

([Cawley2002]_ Fig. 1-2 for several choices of the basis, [Cawley2004]_ Fig. 3). Both are given as plain arrays. For a
pruned machine, its index over the remaining rows and the spectra of support values are drawn,

.. math:: |\alpha_{(1)}| \ge |\alpha_{(2)}| \ge \dots \ge |\alpha_{(n)}|

([Suykens2002]_ Fig. 10 and 11). The rows at the right end of a spectrum are removed next.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, LEGEND, LINES, axes_for, demand, distinct
from problems.estimators.pruned.pruned_machine import PrunedModel
from substrate.arrays import Array, real_array
from substrate.errors import DataError, DeclarationError

__all__ = ["BasisSizeDisplay", "PruningPathDisplay"]


@dataclass(eq=False, repr=False)
class BasisSizeDisplay:
    """Curves over the size of a basis.

    Parameters
    ----------
    sizes : array of shape (n_sizes,)
        Numbers of basis vectors.
    errors : dict of str to array of shape (n_sizes,)
        An error for every size, by the name of the method.
    reconstruction_errors : dict of str to array of shape (n_sizes,)
        Mean relative reconstruction errors, by the name of the selection; may be empty.
    error_label : str
        The name of the errors, with their unit.

    Attributes
    ----------
    axes_, figure_
        One axes for the errors and, where there are any, one for the reconstruction errors; their figure.
    """

    sizes: Array
    errors: Mapping[str, Array]
    reconstruction_errors: Mapping[str, Array]
    error_label: str = "mean squared error (units of y, squared)"

    @classmethod
    def from_arrays(
        cls,
        sizes: Any,
        errors: Any,
        reconstruction_errors: Any = None,
        *,
        error_label: str = "mean squared error (units of y, squared)",
        ax: Any = None,
    ) -> Self:
        """Draw arrays; ``errors`` and ``reconstruction_errors`` are one array, or several by name."""
        counts = real_array(sizes, "sizes", ndim=1)
        drawn = _curves(errors, counts, "errors", "error")
        if not drawn:
            raise DataError("errors names no curve; pass one array, or a dictionary of at least one")
        reconstruction = _curves(
            {} if reconstruction_errors is None else reconstruction_errors,
            counts,
            "reconstruction_errors",
            "reconstruction",
        )
        return cls(counts, drawn, reconstruction, error_label).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, one per panel, or on new ones."""
        panels = 2 if self.reconstruction_errors else 1
        self.figure_, self.axes_ = axes_for(ax, panels, 1, (6.4, 3.4 * panels), sharex=True)
        every = [(self.errors, self.error_label), (self.reconstruction_errors, "relative reconstruction error (share)")]
        for axes, (curves, label) in zip(self.axes_, every, strict=False):
            for (name, values), style in zip(curves.items(), distinct(len(curves)), strict=True):
                axes.plot(self.sizes, values, label=name, **style)
            axes.set_ylabel(label)
            if all((values > 0.0).all() for values in curves.values()) and _decades(curves) > 30.0:
                axes.set_yscale("log")
            axes.legend(**LEGEND)
        self.axes_[-1].set_xlabel("basis vectors (number)")
        return self


def _curves(values: Any, sizes: Array, name: str, single: str) -> dict[str, Array]:
    named = values if isinstance(values, Mapping) else {single: values}
    curves = {str(label): real_array(curve, f"{name}[{label!r}]", ndim=1) for label, curve in named.items()}
    for label, curve in curves.items():
        if curve.size != sizes.size:
            raise DataError(f"{name}[{label!r}] must have one entry per size: {sizes.size}, received {curve.size}")
    return curves


def _decades(curves: Mapping[str, Array]) -> float:
    """Return the ratio of the largest value to the smallest."""
    return max(float(v.max()) for v in curves.values()) / min(float(v.min()) for v in curves.values())


_INDICES = {"training": "error on all training rows", "loo": "leave-one-out error", None: "validation error"}


@dataclass(eq=False, repr=False)
class PruningPathDisplay:
    """Score against size, and sorted support value spectra of some steps.

    Parameters
    ----------
    sizes : array of shape (n_steps,)
        Rows left at every step.
    scores : array of shape (n_steps,)
        The performance index at every step; smaller is better.
    chosen : int
        The step of the model.
    spectra : dict of int to array
        Sizes of the support values, largest first, of some steps.
    index : str
        The name of the index.

    Attributes
    ----------
    axes_, figure_
        The two axes, score and spectra, and their figure.
    """

    sizes: Array
    scores: Array
    chosen: int
    spectra: dict[int, Array]
    index: str

    @classmethod
    def from_estimator(cls, estimator: Any, *, steps: Any = None, ax: Any = None) -> Self:
        """Draw the path of a pruned machine, and the spectra of ``steps``: the first, one half way and the chosen."""
        demand(estimator, (PrunedModel,), cls.__name__, "PrunedLSSVMRegressor and PrunedLSSVMClassifier")
        path, chosen = estimator.pruning_path_, int(estimator.step_)
        drawn = sorted({0, chosen // 2, chosen}) if steps is None else [int(step) for step in np.atleast_1d(steps)]
        if not drawn or min(drawn) < 0 or max(drawn) >= len(path):
            raise DeclarationError(f"steps must be numbers from 0 to {len(path) - 1}; received {steps!r}")
        sizes = np.array([step.size for step in path], dtype=np.float64)
        scores = np.array([step.score for step in path], dtype=np.float64)
        wrong = " (share of rows)" if estimator._labels else " (units of y, squared)"
        named = estimator.cv if estimator.cv is None or isinstance(estimator.cv, str) else "folds"
        index = _INDICES.get(named, "cross-validation error") + wrong
        return cls(
            sizes=sizes,
            scores=scores,
            chosen=chosen,
            spectra={step: path[step].spectrum for step in drawn},
            index=index,
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the two axes given, or on new ones."""
        self.figure_, self.axes_ = axes_for(ax, 1, 2, (10.0, 4.0))
        score, spectrum = self.axes_
        score.plot(self.sizes, self.scores, "o-", color="black", markersize=3.5, linewidth=1.0, label="path")
        chosen_point = (self.sizes[self.chosen], self.scores[self.chosen])
        score.plot(*chosen_point, "D", color=ACCENT, markersize=9, label=f"chosen: {int(chosen_point[0])} rows")
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
            # a mark at its end distinguishes a spectrum from another one below it
            marks = {"marker": "os^D"[number % 4], "markevery": [-1], "linestyle": style, "linewidth": 1.6}
            spectrum.plot(np.arange(1, sizes.size + 1), sizes, color=shade, label=label, **marks)
        spectrum.set(xlabel="rank (number)", ylabel="|alpha|, sorted (units of gamma times y)")
        spectrum.legend(**LEGEND)
        return self
