r"""Which inputs matter: bars of the relevance of every input, and of its importance for rows left out.

.. math:: \frac{s_c / \sigma_c}{\sum_m s_m / \sigma_m}, \qquad
          I_c = \frac1N \sum_i \ell\big(y_i, f^{(-i)}(\tilde x_i^{(c)})\big)
                - \frac1N \sum_i \ell\big(y_i, f^{(-i)}(x_i)\big)

The first is a property of the kernel, how fast it lets the function vary along an input, in units of the spread of that
input; the second is what predictions lose when the values of the input are permuted ([Breiman2001]_ section 10).
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, GREY, axes_for, column_names, demand, unit_of
from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.importance import LeftOutImportance
from substrate.arrays import Array, whole_number
from substrate.errors import DeclarationError

__all__ = ["RelevanceDisplay"]


@dataclass(eq=False, repr=False)
class RelevanceDisplay:
    """Bars of the inputs, the most important one first, one panel per measure.

    Parameters
    ----------
    names : tuple of str
        The inputs.
    relevance : array of shape (n_features,) or None
        ``relevance_`` of the model, None where its kernel has no widths.
    importance : LeftOutImportance or None
        What ``left_out_importance`` returned, None where it was not asked for or the model has none.
    target : str
        The name of y, in whose unit the importance of a regression is given.
    most : int
        Inputs that are drawn, at most.

    Attributes
    ----------
    axes_, figure_
        One axes per measure, relevance first, and their figure.
    order_ : array of int
        The numbers of the inputs that are drawn, from the top.
    """

    names: tuple[str, ...]
    relevance: Array | None
    importance: LeftOutImportance | None
    target: str = "y"
    most: int = 20

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        importance: bool = True,
        n_repeats: int = 5,
        random_state: Any = 0,
        names: Any = None,
        target: str = "y",
        most: int = 20,
        ax: Any = None,
    ) -> Self:
        """Draw what a fitted model says of its inputs.

        ``X``, ``y``, ``sample_weight``, ``n_repeats`` and ``random_state`` are those of ``left_out_importance``: rows
        are given again to machines on a reduced basis. ``importance=False`` draws the relevance alone, which costs
        nothing. A model that has only one of the two measures is drawn with that one.
        """
        demand(estimator, (KernelEstimator,), cls.__name__, "estimators of this package")
        inputs = tuple(column_names(estimator, names))
        relevance = getattr(estimator, "relevance_", None)
        importances = None
        if importance and hasattr(estimator, "left_out_importance"):
            importances = estimator.left_out_importance(X, y, n_repeats, random_state, sample_weight=sample_weight)
        if relevance is None and importances is None:
            raise DeclarationError(
                f"{type(estimator).__name__} has no left_out_importance, or none was asked for, and its kernel "
                f"{estimator.kernel_!r} has no relevance_; use a kernel with widths, for instance RBF(sigma='each')"
            )
        return cls(
            names=inputs, relevance=relevance, importance=importances, target=target, most=whole_number(most, "most", 1)
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, one per measure, or on new ones."""
        panels = [
            draw
            for draw, numbers in ((self._relevance, self.relevance), (self._importance, self.importance))
            if numbers is not None
        ]
        ranked = self.relevance if self.importance is None else self.importance.importances_mean
        if ranked is None:
            raise DeclarationError("RelevanceDisplay needs a relevance, an importance or both")
        self.order_ = np.argsort(-ranked, kind="stable")[: self.most]
        height = 1.3 + 0.32 * self.order_.size
        self.figure_, self.axes_ = axes_for(ax, 1, len(panels), (3.4 * len(panels) + 1.4, height), sharey=True)
        for axes, draw in zip(self.axes_, panels, strict=True):
            draw(axes)
            axes.axvline(0.0, color="black", linewidth=0.8)
            axes.locator_params(axis="x", nbins=5)
            axes.set_yticks(range(self.order_.size), [self.names[number] for number in self.order_])
            axes.set_ylim(self.order_.size - 0.4, -0.6)
        return self

    def _relevance(self, axes: Any) -> None:
        values = np.asarray(self.relevance)[self.order_]
        axes.barh(range(values.size), values, height=0.6, color=GREY)
        axes.set_xlabel("relevance by widths\n(share)")
        axes.set_xlim(left=0.0)

    def _importance(self, axes: Any) -> None:
        importance = self.importance
        if importance is None:
            raise DeclarationError("there is no importance to draw")
        mean, deviation = importance.importances_mean[self.order_], importance.importances_std[self.order_]
        style = {"capsize": 2.5, "ecolor": "black", "error_kw": {"linewidth": 1.0}}
        axes.barh(range(mean.size), mean, height=0.6, color=ACCENT, xerr=deviation, **style)
        unit = f"{unit_of(self.target)}, squared"
        what = "drop of accuracy, left out\n(share of rows)"
        if importance.score == "mean square error":
            what = f"increase of mean square error,\nleft out ({unit})"
        axes.set_xlabel(what)
