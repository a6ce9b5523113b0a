r"""The criterion over gamma, with its certified minimum.

The criterion and its lower bound satisfy

.. math:: F(\gamma) \ge \underline F \quad \text{for every } \gamma \text{ of
the range}, \qquad
          F(\gamma^\star) - \underline F \le \text{gap} \cdot F(\gamma^\star)

([Pelckmans2005]_ eq. (17)-(19); :mod:`substrate.select.gamma_search`). The criterion is not convex in gamma; the bound
proves that no minimum was missed.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, LEGEND, axes_for, demand, one_of
from substrate.arrays import Array
from substrate.errors import DataError

__all__ = ["CriterionDisplay"]

_NAMES = {
    "loo": "leave-one-out",
    "blocks": "leave-block-out",
    "groups": "leave-group-out",
    "gcv": "generalised cross-validation",
    "evidence": "evidence, as a variance",
    None: "validation",
}


@dataclass(eq=False, repr=False)
class CriterionDisplay:
    """A plot of the criterion over gamma.

    Parameters
    ----------
    gammas : array of shape (n_points,)
        Where the curve is given, ascending.
    values : array of shape (n_points,)
        The criterion there, in squared units of y.
    best_gamma, best_value, lower_bound : float
        The gamma chosen, its criterion, and the lower bound over all gamma of the range (and all candidate kernels).
    name : str
        The name of the criterion.

    Attributes
    ----------
    ax_, figure_
        Axes and figure.
    """

    gammas: Array
    values: Array
    best_gamma: float
    best_value: float
    lower_bound: float
    name: str

    @classmethod
    def from_estimator(cls, estimator: Any, *, output: int = 0, ax: Any = None) -> Self:
        """Draw the search of a machine that chose its gamma, with the kernel it chose; ``output`` is one of several."""
        demand(estimator, "gamma_", cls.__name__, "machines that chose their gamma, as LSSVMRegressorCV")
        if not np.isfinite(estimator.criterion_lower_bound_).all():
            raise DataError(
                "this choice of gamma has no lower bound: it was made among some values, for a machine without closed "
                "forms; path_ has the criterion at each of them"
            )
        gammas, values = (np.asarray(estimator.path_[name]) for name in ("values", "criterion"))
        numbers = (estimator.gamma_, estimator.criterion_, estimator.criterion_lower_bound_)
        gamma, value, bound = (float(one_of(np.asarray(number), output, "output", 0, axis=0)) for number in numbers)
        name = _NAMES.get(estimator.cv, "folds") if isinstance(estimator.cv, str | None) else "folds"
        curve = values if values.ndim == 1 else values[:, output]
        return cls(gammas=gammas, values=curve, best_gamma=gamma, best_value=value, lower_bound=bound, name=name).plot(
            ax
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, or on new ones."""
        self.figure_, (self.ax_,) = axes_for(ax)
        self.ax_.plot(self.gammas, self.values, "-", color="black", linewidth=1.4, label=f"criterion: {self.name}")
        place = f"chosen: gamma = {self.best_gamma:.4g}, {self.best_value:.6g}"
        self.ax_.plot([self.best_gamma], [self.best_value], "o", color=ACCENT, markersize=8, label=place)
        if np.isfinite(self.lower_bound):
            share = (self.best_value - self.lower_bound) / self.best_value if self.best_value > 0.0 else 0.0
            bound = f"certified lower bound: {self.lower_bound:.6g} ({share:.1e} below)"
            self.ax_.axhline(self.lower_bound, color="0.35", linestyle="--", linewidth=1.2, label=bound)
        self.ax_.axvline(self.best_gamma, color=ACCENT, linestyle=":", linewidth=1.4)
        self.ax_.set_xscale("log")
        if self.values.min() > 0.0 and self.values.max() > 10.0 * self.values.min():
            self.ax_.set_yscale("log")
        self.ax_.set(xlabel="gamma (weight of the squared errors)", ylabel="mean squared error (units of y, squared)")
        self.ax_.legend(**LEGEND)
        return self
