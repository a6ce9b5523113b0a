r"""Errors of a robust fit in units of their scale, and what each weighs.

.. math:: r_k = e_k / \hat s, \qquad v_k = v(r_k)

([Suykens2002]_ Fig. 1, 2 and 9). Above, the errors of the plain fit and of the weighted one, counted. Below, the weight
function with every training row on it: the weights of the last fit come from the errors of the one before.
"""

from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, LEGEND, axes_for, demand
from problems.estimators.robust import RobustLSSVMRegressor
from substrate.arrays import Array, real_array
from substrate.closed_form.robust_weights import robust_weights
from substrate.errors import DataError

__all__ = ["ResidualsDisplay"]

#: Width of a bin in units of the scale, and the most bins: an enormous error widens them.
_WIDTH, _BINS = 0.5, 80


class ResidualsDisplay:
    """Histograms of errors, and robust weights over errors.

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

    Attributes
    ----------
    axes_, figure_
        The two axes, histograms and weights, and their figure.
    """

    def __init__(
        self,
        residuals: Array,
        plain_residuals: Array,
        weighing_residuals: Array,
        weights: Array,
        scale: float,
        weighting: str,
    ) -> None:
        self.residuals = residuals
        self.plain_residuals = plain_residuals
        self.weighing_residuals = weighing_residuals
        self.weights = weights
        self.scale = scale
        self.weighting = weighting

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> Self:
        """Draw the errors of a robust machine at the rows of X, those of fit or others."""
        demand(estimator, (RobustLSSVMRegressor,), cls.__name__, "RobustLSSVMRegressor")
        if estimator.scale_ == 0.0:
            raise DataError("the robust scale of the errors is zero, so that they cannot be counted in units of it")
        known = real_array(y, "y", ndim=1)
        outputs = estimator.predict(X)
        if outputs.shape != known.shape:
            raise DataError(f"y must have one entry per row of X: expected {outputs.size}, received {known.size}")
        history, last = estimator.history_, estimator.history_[-1]
        before = history[-2] if len(history) > 1 else last
        # the ridge is 1/(gamma v) with the last v; that of another fit has its own
        plain, weighing = (
            estimator.ridge_ * last.weights / step.weights * step.support_values / estimator.scale_
            for step in (history[0], before)
        )
        residuals = (known - outputs) / estimator.scale_
        weights = np.asarray(estimator.weights_)
        return cls(residuals, plain, weighing, weights, float(estimator.scale_), estimator.weighting).plot(ax)

    def edges(self) -> Array:
        """Edges of the bins, symmetric about zero, such that every error is in one."""
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
        counts.hist(self.plain_residuals, edges, histtype="step", color="black", linestyle="--", linewidth=1.4,
                    label="plain fit, training rows")  # fmt: skip
        counts.set_ylabel("rows (number)")
        counts.legend(**LEGEND)
        r = np.linspace(edges[0], edges[-1], 2001)
        weights.plot(r, robust_weights(r, 1.0, self.weighting), "-", color=ACCENT, linewidth=1.6,
                     label=f"weight function ({self.weighting})")  # fmt: skip
        weights.plot(self.weighing_residuals, self.weights, "o", color="black", markerfacecolor="none", markersize=5,
                     label="training rows")  # fmt: skip
        weights.set(xlabel=f"error / scale (no unit; scale = {self.scale:.3g}, in units of y)", ylim=(-0.06, 1.1))
        weights.set_ylabel("weight v (no unit)")
        weights.legend(**LEGEND)
        return self
