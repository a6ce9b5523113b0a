r"""Component functions of an additive model, with the partial residuals of each.

.. math:: f(x) = \sum_l f^l(x^l) + b, \qquad r_i^l = y_i - b - \sum_{m \ne l} f^m(x_i^m) = f^l(x_i^l) + e_i

([Pelckmans2005]_ Fig. 5 and 7). The partial residuals :math:`r^l` are y less the other components: the data that the
curve :math:`f^l` goes through.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.displays.canvas import (
    ACCENT,
    GREY,
    LEGEND,
    axes_for,
    column_names,
    component_columns,
    demand,
    one_of,
    unit_of,
    with_unit,
)
from substrate.arrays import Array, is_sparse
from substrate.errors import DataError, DeclarationError

__all__ = ["Component", "ComponentFunctionsDisplay"]

#: Share of the largest maximal variation up to which a component does not matter, unless the estimator has one.
_RELEVANCE = 0.05
#: Points of a curve.
_GRID = 200
#: Largest number of panels, unless components are named.
_PANELS = 12


@dataclass(frozen=True, slots=True)
class Component:
    """One panel: the curve, and the partial residuals at the rows, if there are targets.

    Of a component of several inputs, ``grid`` and ``places`` are values of the component itself.
    """

    name: str
    grid: Array
    curve: Array
    places: Array
    partial_residuals: Array | None
    one_input: bool


@dataclass(eq=False, repr=False)
class ComponentFunctionsDisplay:
    """A plot of components as curves, one panel per component.

    Parameters
    ----------
    components : tuple of Component
        The components that are drawn.
    target : str
        The name of y, in whose unit the functions are given.

    Attributes
    ----------
    axes_, figure_
        One axes per component, and their figure.
    """

    components: tuple[Component, ...]
    target: str = "y"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        components: Any = None,
        *,
        machine: int = 0,
        names: Any = None,
        target: str = "y",
        ax: Any = None,
    ) -> Self:
        """Draw components at the rows of X, with partial residuals if there is y.

        ``components`` are their numbers; None takes those that matter to the model (at most twelve), largest first.
        ``machine`` is the number of the machine, where a coding of classes has several.
        """
        usable = "additive models: componentwise LS-SVMs, maximal variation, fused or not"
        demand(estimator, "component_functions", cls.__name__, usable)
        values = one_of(estimator.component_functions(X), machine, "machine", 2, axis=2)
        X = np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
        chosen = _choose_components(estimator, components, machine)
        residuals = None
        if y is not None:
            bias = float(np.atleast_1d(estimator.bias_)[machine])
            residuals = _targets(estimator, y, X.shape[0], machine) - bias - values.sum(axis=1)
        inputs = column_names(estimator, names)
        components_drawn = []
        for number in chosen:
            columns = component_columns(estimator)[number]
            name = ", ".join(inputs[column] for column in columns)
            component_values = values[:, number]
            partial = None if residuals is None else residuals + component_values
            if len(columns) == 1:
                places = X[:, columns[0]]
                grid = np.linspace(places.min(), places.max(), _GRID)
                points = np.tile(X[:1], (_GRID, 1))  # a component uses one column only
                points[:, columns[0]] = grid
                with warnings.catch_warnings():  # a grid has no column names, whatever the fit had
                    warnings.filterwarnings("ignore", "X does not have valid feature names")
                    curve = one_of(estimator.component_functions(points), machine, "machine", 2, axis=2)[:, number]
            else:
                places, grid = component_values, np.array([component_values.min(), component_values.max()])
                curve = grid
            components_drawn.append(
                Component(
                    name=name,
                    grid=grid,
                    curve=curve,
                    places=places,
                    partial_residuals=partial,
                    one_input=len(columns) == 1,
                )
            )
        return cls(tuple(components_drawn), target).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, one per component, or on new ones."""
        count = len(self.components)
        columns = min(count, 3)
        rows = -(-count // columns)
        if ax is None:
            self.figure_, grid = axes_for(None, rows, columns, (3.1 * columns + 1.5, 2.7 * rows + 0.3), sharey=True)
            for unused in grid[count:]:
                unused.remove()
            self.axes_ = grid[:count]
        else:
            self.figure_, self.axes_ = axes_for(ax, count)
        for number, (axes, component) in enumerate(zip(self.axes_, self.components, strict=True)):
            if component.partial_residuals is not None:
                axes.plot(
                    component.places,
                    component.partial_residuals,
                    "o",
                    color=GREY,
                    markersize=3.5,
                    label="partial residual",
                )
            axes.plot(component.grid, component.curve, "-", color=ACCENT, linewidth=2.0, label="component")
            axes.set_xlabel(
                with_unit(component.name) if component.one_input else f"f({component.name}) ({unit_of(self.target)})"
            )
            if number % columns == 0 or ax is not None:
                axes.set_ylabel(f"contribution ({unit_of(self.target)})")
        # outside, where it hides no row
        self.axes_[columns - 1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **LEGEND)
        return self


def _choose_components(estimator: Any, components: Any, machine: int) -> list[int]:
    variation = np.atleast_2d(estimator.maximal_variation_)[machine]
    if components is None:
        share = getattr(estimator, "relevance", _RELEVANCE)
        (enough,) = np.nonzero(variation > share * variation.max())
        if not enough.size:
            raise DataError("no component varies; name those to draw: components=[0, 1]")
        return [int(number) for number in enough[np.argsort(-variation[enough], kind="stable")][:_PANELS]]
    numbers = [int(number) for number in np.atleast_1d(components)]
    if not numbers or min(numbers) < 0 or max(numbers) >= variation.size:
        raise DeclarationError(f"components must be numbers from 0 to {variation.size - 1}; received {components!r}")
    return numbers


def _targets(estimator: Any, y: Any, rows: int, machine: int) -> Array:
    """Return targets of a regression, codes of a machine of a classifier; NaN for rows that are not in that machine."""
    targets = np.asarray(y)
    if targets.shape != (rows,):
        raise DataError(f"y must have one entry per row of X: expected {rows}, received shape {targets.shape}")
    if not hasattr(estimator, "classes_"):
        return targets.astype(np.float64)
    strange = np.setdiff1d(targets, estimator.classes_)
    if strange.size:
        raise DataError(f"y has classes {strange[:5]} that the model does not know")
    codes = estimator.code_book_[np.searchsorted(estimator.classes_, targets), machine]
    return np.where(codes == 0.0, np.nan, codes)
