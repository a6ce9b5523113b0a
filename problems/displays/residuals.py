r"""Residuals of a robust fit: the errors in units of their scale, and their weights,

.. math:: r_k = e_k / \hat s, \qquad v_k = v(r_k)

([Suykens2002]_ Fig. 1, 2 and 9). The upper panel has histograms of the errors of the plain fit and of the weighted one,
the lower panel the weight function with every training row on it: the weights of the last fit follow from the errors of
the one before.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, LEGEND, axes_for, demand
from substrate.arrays import Array, real_array
from substrate.errors import DataError
from substrate.robust_weights import robust_weights

__all__ = ["ResidualsDisplay"]

#: Width of a bin in units of the scale, and the largest number of bins: an enormous error widens them.
_WIDTH, _BINS = 0.5, 80


@dataclass(eq=False, repr=False)
class ResidualsDisplay:
    """A plot of histograms of errors, and of robust weights over errors.

    Parameters
    ----------
    residuals : array of shape (n_rows,)
        y - f of the last fit at the rows given, in units of ``scale``.
    plain_residuals : array of shape (n_support,)
        The same of the plain fit at the training rows.
    weighing_residuals : array of shape (n_support,)
        The same of the fit before the last, from which the weights come.
    weights : array of shape (n_support,)
        The weights of the last fit.
    scale : float
        The robust scale, in units of y.
    weighting : str
        The name of the weight function.
    thresholds : pair of float, default=None
        c1 and c2 of the weights, of ``weighting="density"``.

    Attributes
    ----------
    axes_, figure_
        The two axes, histograms and weights, and their figure.
    """

    residuals: Array
    plain_residuals: Array
    weighing_residuals: Array
    weights: Array
    scale: float
    weighting: str
    thresholds: Any = None

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> Self:
        """Draw the errors of a robust machine at the rows of X, which may be the training rows or others."""
        demand(estimator, "history_", cls.__name__, "LSSVMRegressor with robust weights, robust='hampel'")
        if estimator.scale_ == 0.0:
            raise DataError("the robust scale of the errors is zero, so that they cannot be counted in units of it")
        targets = real_array(y, "y", ndim=1)
        outputs = estimator.predict(X)
        if outputs.shape != targets.shape:
            raise DataError(f"y must have one entry per row of X: expected {outputs.size}, received {targets.size}")
        history, last = estimator.history_, estimator.history_[-1]
        before = history[-2] if len(history) > 1 else last
        # the ridge is 1/(gamma v) with the last v; another fit has other weights
        plain, weighing = (
            estimator.ridge_ * last.weights / step.weights * step.support_values / estimator.scale_
            for step in (history[0], before)
        )
        residuals = (targets - outputs) / estimator.scale_
        weights = np.asarray(estimator.weights_)
        return cls(
            residuals=residuals,
            plain_residuals=plain,
            weighing_residuals=weighing,
            weights=weights,
            scale=float(estimator.scale_),
            weighting=getattr(estimator.robust, "weighting", estimator.robust),
            thresholds=tuple(getattr(estimator, "thresholds_", ())) or None,
        ).plot(ax)

    def edges(self) -> Array:
        """Return edges of the bins, symmetric about zero, such that every error is in one."""
        largest = max(float(np.abs(r).max()) for r in (self.residuals, self.plain_residuals))
        half = int(np.clip(np.ceil(largest / _WIDTH), 4, _BINS // 2))
        reach = max(largest * (1.0 + 1e-9), half * _WIDTH)
        return np.linspace(-reach, reach, 2 * half + 1)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the two axes given, or on new ones."""
        self.figure_, self.axes_ = axes_for(ax, 2, 1, (6.4, 5.6), sharex=True, height_ratios=(3, 2))
        counts, weights = self.axes_
        edges = self.edges()
        counts.hist(self.residuals, edges, color="0.8", edgecolor="0.4", linewidth=0.8, label="weighted fit")
        counts.hist(
            self.plain_residuals,
            edges,
            histtype="step",
            color="black",
            linestyle="--",
            linewidth=1.4,
            label="plain fit, training rows",
        )
        counts.set_ylabel("rows (number)")
        counts.legend(**LEGEND)
        r = np.linspace(edges[0], edges[-1], 2001)
        weights.plot(
            r,
            robust_weights(r, 1.0, self.weighting)
            if self.thresholds is None
            else robust_weights(r, 1.0, "hampel", self.thresholds),
            "-",
            color=ACCENT,
            linewidth=1.6,
            label=f"weight function ({self.weighting})",
        )
        weights.plot(
            self.weighing_residuals,
            self.weights,
            "o",
            color="black",
            markerfacecolor="none",
            markersize=5,
            label="training rows",
        )
        weights.set(xlabel=f"error / scale (no unit; scale = {self.scale:.3g}, in units of y)", ylim=(-0.06, 1.1))
        weights.set_ylabel("weight v (no unit)")
        weights.legend(**LEGEND)
        return self
