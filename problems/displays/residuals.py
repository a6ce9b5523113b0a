r"""Residuals: the errors of a robust fit in units of their scale with their weights, and a certificate as bars.

Errors and weights are

.. math:: r_k = e_k / \hat s, \qquad v_k = v(r_k)

([Suykens2002]_ Fig. 1, 2 and 9). The upper panel has histograms of the errors of the plain fit and of the weighted one,
the lower panel the weight function with every training row on it: the weights of the last fit follow from the errors of
the one before.

The bars of a certificate have the length

.. math:: \log_{10} \frac{|\text{residual}| / \text{scale}}{\text{tolerance}}

A bar that ends left of zero passes, and its length shows by how many powers of ten. What the certificate states about
the answer is printed above the bars.
"""

from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, LEGEND, axes_for, demand
from substrate.arrays import Array, real_array
from substrate.certificates import Certificate, Row
from substrate.errors import DataError, DeclarationError
from substrate.least_squares.robust_weights import robust_weights

__all__ = ["CertificateDisplay", "ResidualsDisplay"]

#: Width of a bin in units of the scale, and the largest number of bins: an enormous error widens them.
_WIDTH, _BINS = 0.5, 80


@dataclass(eq=False, repr=False)
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
        """Draw the errors of a robust machine at the rows of X, those of fit or others."""
        demand(estimator, "history_", cls.__name__, "LSSVMRegressor with robust weights, robust='hampel'")
        if estimator.scale_ == 0.0:
            raise DataError("the robust scale of the errors is zero, so that they cannot be counted in units of it")
        targets = real_array(y, "y", ndim=1)
        outputs = estimator.predict(X)
        if outputs.shape != targets.shape:
            raise DataError(f"y must have one entry per row of X: expected {outputs.size}, received {targets.size}")
        history, last = estimator.history_, estimator.history_[-1]
        before = history[-2] if len(history) > 1 else last
        # the ridge is 1/(gamma v) with the last v; that of another fit has its own
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


#: Powers of ten by which an exact zero, or an unknown residual, is drawn farther than the longest bar.
_BEYOND = 2.0
#: Characters in a line of the title.
_LINE = 60


@dataclass(eq=False, repr=False)
class CertificateDisplay:
    """Bars of log10(residual / tolerance), one per row of the certificate.

    Parameters
    ----------
    names : list of str
        The rows.
    margins : array of shape (n_rows,)
        log10 of relative residual over tolerance: minus infinity for an exact zero, infinity for an unknown residual.
    passes : array of bool of shape (n_rows,)
        The verdicts.
    title : str
        The title of the certificate.
    promise : str, default=""
        What it states about the answer: how near the fitted values are to those of the optimum, or why that is unknown.

    Attributes
    ----------
    ax_, figure_, bars_
        Axes, figure and bars of the last :meth:`plot`.
    """

    names: list[str]
    margins: Array
    passes: Any
    title: str
    promise: str = ""

    @classmethod
    def from_certificate(cls, certificate: Certificate, ax: Any = None) -> Self:
        """Draw a certificate with at least one row."""
        if not isinstance(certificate, Certificate):
            raise DeclarationError(
                f"CertificateDisplay draws a Certificate, such as model.certificate_; received {certificate!r}"
            )
        if not certificate.rows:
            raise DeclarationError(f"the certificate {certificate.title!r} has no rows to draw")
        rows = certificate.rows
        margins = np.array([_margin(row) for row in rows])
        verdicts = np.array([row.passes for row in rows])
        return cls(
            names=[row.name for row in rows],
            margins=margins,
            passes=verdicts,
            title=certificate.title,
            promise=certificate.promise,
        ).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Any = None) -> Self:
        """Draw the certificate of a fitted estimator."""
        demand(estimator, "certificate_", cls.__name__, "the certificate of any estimator of this package")
        return cls.from_certificate(estimator.certificate_, ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, or on new ones."""
        count = len(self.names)
        self.figure_, (self.ax_,) = axes_for(ax, size=(6.4, 1.6 + 0.36 * count))
        finite = self.margins[np.isfinite(self.margins)]
        low = float(min(finite.min(initial=0.0), 0.0)) - _BEYOND
        high = float(max(finite.max(initial=0.0), 0.0)) + _BEYOND
        lengths = np.clip(self.margins, low, high)
        places = np.arange(count)[::-1]
        self.bars_ = self.ax_.barh(places, lengths, height=0.6, color=ACCENT, edgecolor="black", linewidth=0.8)
        for bar, margin, place, passed in zip(self.bars_, self.margins, places, self.passes, strict=True):
            if not passed:  # hatching marks a failure without colour
                bar.set(facecolor="white", hatch="////")
            words = "" if passed else "FAILS"
            if np.isinf(margin):
                words = "exactly 0" if margin < 0.0 else "FAILS: no number"
            # on the empty side of zero, so that no bar hides it
            side = {"xytext": (5 if margin < 0.0 else -5, 0), "ha": "left" if margin < 0.0 else "right"}
            self.ax_.annotate(words, (0.0, place), textcoords="offset points", va="center", fontsize="small", **side)
        self.ax_.axvline(0.0, color="black", linewidth=1.2)
        room = 0.25 * (high - low)  # for the text
        low_end, high_end = low - room * (not self.passes.all()), high + room * bool((self.margins == -np.inf).any())
        self.ax_.set(xlim=(low_end - 0.3, high_end), xlabel="log10 (residual / tolerance), no unit; below 0 passes")
        self.ax_.set_yticks(places, self.names)
        outcome = "holds" if self.passes.all() else "DOES NOT HOLD"
        # the sentence of the promise may be longer than the picture is wide
        promise = "".join(f"\n{line}" for line in wrap(self.promise, _LINE))
        self.ax_.set_title(f"{self.title}: {outcome}{promise}", fontsize="medium")
        return self


def _margin(row: Row) -> float:
    if row.relative == 0.0:
        return -np.inf
    if not np.isfinite(row.relative) or row.tolerance <= 0.0:
        return np.inf
    return float(np.log10(row.relative) - np.log10(row.tolerance))
