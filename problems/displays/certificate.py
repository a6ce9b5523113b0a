r"""A certificate as bars.

.. math:: \log_{10} \frac{|\text{residual}| / \text{scale}}{\text{tolerance}}

A bar that ends left of zero passes, and its length says by how many powers of ten. What the certificate promises of
the answer stands above the bars.
"""

from textwrap import wrap
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, axes_for, demand
from problems.estimators.base import KernelEstimator
from substrate.arrays import Array
from substrate.certificates import Certificate, Row
from substrate.errors import DeclarationError

__all__ = ["CertificateDisplay"]

#: How much farther than the longest bar an exact zero, or an unknown residual, is drawn, in powers of ten.
_BEYOND = 2.0
#: Characters in a line of the title.
_LINE = 60


class CertificateDisplay:
    """Bars of log10(residual / tolerance), a row of the certificate each.

    Parameters
    ----------
    names : list of str
        The rows.
    margins : array of shape (n_rows,)
        log10 of relative residual over tolerance: minus infinity for an exact zero, infinity for an unknown residual.
    passes : array of bool of shape (n_rows,)
        The verdicts.
    title : str
        What the certificate is of.
    promise : str, default=""
        What it says of the answer: how near the fitted values are to those of the exact optimum, or why none is known.

    Attributes
    ----------
    ax_, figure_, bars_
        Axes, figure and bars of the last :meth:`plot`.
    """

    def __init__(self, names: list[str], margins: Array, passes: Any, title: str, promise: str = "") -> None:
        self.names = names
        self.margins = margins
        self.passes = passes
        self.title = title
        self.promise = promise

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
        return cls([row.name for row in rows], margins, verdicts, certificate.title, certificate.promise).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Any = None) -> Self:
        """Draw the certificate of a fitted estimator."""
        demand(estimator, (KernelEstimator,), cls.__name__, "the certificate of any estimator of this package")
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
            if not passed:  # hatching tells a failure without colour
                bar.set(facecolor="white", hatch="////")
            words = "" if passed else "FAILS"
            if np.isinf(margin):
                words = "exactly 0" if margin < 0.0 else "FAILS: no number"
            # on the empty side of zero, so that no bar hides it
            side = {"xytext": (5 if margin < 0.0 else -5, 0), "ha": "left" if margin < 0.0 else "right"}
            self.ax_.annotate(words, (0.0, place), textcoords="offset points", va="center", fontsize="small", **side)
        self.ax_.axvline(0.0, color="black", linewidth=1.2)
        room = 0.25 * (high - low)  # for the words
        left, right = low - room * (not self.passes.all()), high + room * bool((self.margins == -np.inf).any())
        self.ax_.set(xlim=(left - 0.3, right), xlabel="log10 (residual / tolerance), no unit; below 0 passes")
        self.ax_.set_yticks(places, self.names)
        verdict = "holds" if self.passes.all() else "DOES NOT HOLD"
        # the sentence of the promise may be longer than the picture is wide
        said = "".join(f"\n{line}" for line in wrap(self.promise, _LINE))
        self.ax_.set_title(f"{self.title}: {verdict}{said}", fontsize="medium")
        return self


def _margin(row: Row) -> float:
    if row.relative == 0.0:
        return -np.inf
    if not np.isfinite(row.relative) or row.tolerance <= 0.0:
        return np.inf
    return float(np.log10(row.relative) - np.log10(row.tolerance))
