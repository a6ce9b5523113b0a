r"""The maximal variation evolution diagram: the variations of all components, and the validation error, over rho.

It shows which components are left as rho grows,

.. math:: t_l(\rho) = \max_i |f^l(x_i)|, \qquad
          \min_{\alpha, b, t} \tfrac12 \|e\|^2 + \rho \sum_l t_l

([Pelckmans2005]_ Fig. 4 and 6). The upper panel shows t of every component along the exact path, affine in rho between
knots; the lower one the error on the validation rows, the rho that fusion chose, and the lower bound over all rho of
the path. The errors are joined by chords; between two knots the exact error is a parabola below its chord. Near rho = 0
components may be enormous and cancel each other, so that by default the diagram begins a little below the optimum.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.displays.canvas import (
    ACCENT,
    LEGEND,
    axes_for,
    column_names,
    component_columns,
    demand,
    distinct,
    unit_of,
)
from substrate.arrays import Array, non_negative
from substrate.errors import DataError
from substrate.fits.paths import describe_coverage

__all__ = ["EvolutionDiagramDisplay"]

#: Number of components with a name; the others are thin grey lines.
_NAMED = 6
#: Default begin of the diagram, as a share of the chosen rho.
_BELOW_BEST = 0.05
#: Points drawn between the knots: a logarithmic axis bends the lines.
_POINTS = 200


@dataclass(eq=False, repr=False)
class EvolutionDiagramDisplay:
    """A plot of maximal variations and validation error over rho.

    Parameters
    ----------
    values : array of shape (n_knots,)
        rho at the knots of the path, ascending.
    maximal_variation : array of shape (n_knots, n_components)
        t at the knots.
    validation_errors : array of shape (n_knots,)
        Mean squared error on the validation rows at the knots.
    best_parameter, validation_error, lower_bound : float
        The rho of fusion, its error, and the lower bound over all rho of ``coverage``.
    names : list of str
        One name per component.
    target : str
        The name of y, in whose unit t and rho are given.
    rho_min : float or None
        Where the diagram begins; 0 draws all of it on a linear axis.
    coverage : pair of float
        The values of rho that the lower bound covers.

    Attributes
    ----------
    axes_, figure_
        The two axes, maximal variations and validation error, and their figure.
    """

    values: Array
    maximal_variation: Array
    validation_errors: Array
    best_parameter: float
    validation_error: float
    lower_bound: float
    names: list[str]
    target: str = "y"
    rho_min: float | None = None
    coverage: tuple[float, float] = (0.0, np.inf)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Any = None, target: str = "y", rho_min: float | None = None, ax: Any = None
    ) -> Self:
        """Draw the path of a fused maximal variation machine; ``names`` name the inputs, ``target`` names y."""
        usable = "FusedMaximalVariationRegressor and FusedMaximalVariationClassifier"
        demand(estimator, "rho_", cls.__name__, usable)
        path = estimator.path_
        if "parameters" in path:
            raise DataError("this model chose one rho for each group of inputs; fit groups=None for a path in one rho")
        if "maximal_variation" not in path:
            raise DataError(
                "this path is of several folds or machines, which have a maximal variation each, or of refitted ones; "
                "fit two classes or a regression with one validation set: cv=None, refit=False"
            )
        inputs = column_names(estimator, names)
        each = component_columns(estimator)
        components = [", ".join(inputs[column] for column in columns) for columns in each]
        return cls(
            values=np.asarray(path["values"]),
            maximal_variation=np.asarray(path["maximal_variation"]),
            validation_errors=np.asarray(path["criterion"]),
            best_parameter=estimator.rho_,
            validation_error=estimator.criterion_,
            lower_bound=estimator.criterion_lower_bound_,
            names=components,
            target=target,
            rho_min=None if rho_min is None else non_negative(rho_min, "rho_min", "as a weight"),
            coverage=tuple(path["coverage"]),
        ).plot(ax)

    def at_best(self) -> Array:
        """Return t at the chosen rho, interpolated between the two neighbouring knots."""
        return np.array([np.interp(self.best_parameter, self.values, t) for t in self.maximal_variation.T])

    def values_to_draw(self) -> Array:
        """Return the rho at which curves are drawn: the knots from ``rho_min`` on, and points between them."""
        first, largest = float(self.values[0]), float(self.values[-1])
        low = _BELOW_BEST * self.best_parameter if self.rho_min is None else self.rho_min
        low = min(max(low, first), largest)
        between = np.geomspace(low, largest, _POINTS) if 0.0 < low < largest else np.array([low, largest])
        return np.union1d(between.clip(low, largest), self.values[self.values >= low])

    def plot(self, ax: Any = None) -> Self:
        """Draw on the two axes given, or on new ones."""
        self.figure_, self.axes_ = axes_for(ax, 2, 1, (7.0, 6.0), sharex=True, height_ratios=(3, 2))
        above, below = self.axes_
        # the components that matter at the optimum are named; where those are few, the largest elsewhere too
        rank = np.lexsort((self.maximal_variation.max(axis=0), self.at_best()))[::-1]
        styles = distinct(min(_NAMED, rank.size))
        rho = self.values_to_draw()
        t = np.array([np.interp(rho, self.values, column) for column in self.maximal_variation.T])
        for component in rank[_NAMED:]:
            above.plot(rho, t[component], color="0.7", linewidth=0.8)
        if rank.size > _NAMED:
            above.lines[-1].set_label(f"{rank.size - _NAMED} others")
        for component, style in zip(rank, styles, strict=False):
            above.plot(rho, t[component], markevery=0.09, label=self.names[component], **style)
        errors = np.interp(rho, self.values, self.validation_errors)
        below.plot(rho, errors, "-", color="black", linewidth=1.4, label="validation")
        place = f"fused optimum: rho = {self.best_parameter:.4g}, error {self.validation_error:.4g}"
        below.plot([self.best_parameter], [self.validation_error], "o", color=ACCENT, markersize=8, label=place)
        if np.isfinite(self.lower_bound):
            bound = f"{describe_coverage('rho', self.coverage)}: {self.lower_bound:.4g}"
            below.axhline(self.lower_bound, color="0.35", linestyle="--", linewidth=1.2, label=bound)
        for axes in self.axes_:
            axes.axvline(self.best_parameter, color=ACCENT, linestyle=":", linewidth=1.4)
            axes.set_xscale("log" if rho[0] > 0.0 else "linear")
        above.set_ylabel(f"maximal variation t ({unit_of(self.target)})")
        above.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **LEGEND)
        below.set_xlabel(f"rho ({unit_of(self.target)})")
        below.set_ylabel(f"mean squared error\n({unit_of(self.target)}, squared)")
        below.legend(**LEGEND)
        return self
