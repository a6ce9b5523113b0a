r"""The support vectors of a machine.

.. math:: f(x) = \sum_{i \in S} \alpha_i k(x_i, x) + b

([Pelckmans2005]_ Fig. 2 and 3): regression in one input, or two classes in two inputs. A ring marks a row of the
support S; its area grows with :math:`|\alpha_i|`.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, GREY, LEGEND, axes_for, column_names, demand, with_unit
from substrate.arrays import Array, is_sparse, real_array
from substrate.errors import DataError

__all__ = ["SupportVectorsDisplay"]

_GRID = 200
#: Area of the largest ring, and of the smallest, in points squared.
_LARGEST, _SMALLEST = 170.0, 25.0


@dataclass(eq=False, repr=False)
class SupportVectorsDisplay:
    """A plot of data, a machine and its support vectors.

    Parameters
    ----------
    X : array of shape (n, 1) or (n, 2)
        The rows.
    y : array of shape (n,)
        Targets, or the numbers 0 and 1 of the classes.
    support : array of int of shape (n_support,)
        The numbers of the rows that support the machine.
    sizes : array of shape (n_support,)
        The absolute support values.
    output : array
        The output of the machine on the grid.
    grid : tuple of arrays
        Where the output is given: points of one input, or of each of two.
    names : list of str
        The names of the inputs.
    classes : array of shape (2,) or None
        None in regression.
    target, title : str
        The name of y, and of the machine.

    Attributes
    ----------
    ax_, figure_
        Axes and figure.
    """

    X: Array
    y: Array
    support: Any
    sizes: Array
    output: Array
    grid: tuple[Array, ...]
    names: list[str]
    classes: Any = None
    target: str = "y"
    title: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, names: Any = None, target: str = "y", ax: Any = None
    ) -> Self:
        """Draw a machine that was fitted to these rows."""
        demand(estimator, "support_values_", cls.__name__, "kernel machines of this package")
        X, targets = real_array(X, "X", ndim=2), np.asarray(y)
        classes = getattr(estimator, "classes_", None)
        wanted = 1 if classes is None else 2
        if X.shape[1] != wanted or not hasattr(estimator, "support_vectors_"):
            raise DataError(
                f"a {'regression' if classes is None else 'classifier'} is drawn over {wanted} input(s), not "
                f"precomputed; received {X.shape[1]} columns"
            )
        if classes is not None and len(classes) != 2:
            raise DataError(f"two classes can be drawn, the model has {len(classes)}")
        if targets.shape != (X.shape[0],) or np.ndim(estimator.bias_) > 0:
            raise DataError(f"y must be one target per row of X, {X.shape[0]}; received shape {targets.shape}")
        vectors = estimator.support_vectors_
        vectors, last = vectors.toarray() if is_sparse(vectors) else vectors, int(estimator.support_.max(initial=-1))
        if last >= X.shape[0] or not np.allclose(X[estimator.support_], vectors):
            raise DataError(
                "X does not hold the support vectors where the model has them; pass the rows of fit, in order"
            )
        grid = tuple(np.linspace(*_wide(column), _GRID) for column in X.T)
        points = np.stack([coordinate.ravel() for coordinate in np.meshgrid(*grid)], axis=1)
        with warnings.catch_warnings():  # a grid has no column names, whatever the fit had
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            output = estimator.predict(points) if classes is None else estimator.decision_function(points)
        sizes = np.abs(np.asarray(estimator.support_values_)).reshape(estimator.support_.size, -1)
        return cls(
            X=X,
            y=real_array(y, "y", ndim=1) if classes is None else (targets == classes[1]).astype(np.float64),
            support=np.asarray(estimator.support_),
            sizes=np.linalg.norm(sizes, axis=1),
            output=np.asarray(output),
            grid=grid,
            names=column_names(estimator, names),
            classes=classes,
            target=target,
            title=type(estimator).__name__,
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.figure_, (self.ax_,) = axes_for(ax)
        if self.classes is None:
            height, label = self.y, self.target
            self.ax_.plot(self.X[:, 0], self.y, "o", color=GREY, markersize=3.5, label="data")
            self.ax_.plot(self.grid[0], self.output, "-", color=ACCENT, linewidth=2.0, label="f")
        else:
            height, label = self.X[:, 1], self.names[1]
            self._plane()
        largest = float(self.sizes.max(initial=0.0)) or 1.0
        area = _SMALLEST + (_LARGEST - _SMALLEST) * self.sizes / largest
        places = (self.X[self.support, 0], height[self.support])
        rings = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.0, "label": "support vector"}
        self.ax_.scatter(*places, s=area, **rings)
        self.ax_.set_title(f"{self.title}: {self.support.size} of {self.X.shape[0]} rows", fontsize="medium")
        self.ax_.set(xlabel=with_unit(self.names[0]), ylabel=with_unit(label))
        # outside, where it hides no row
        self.ax_.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **LEGEND)
        return self

    def _plane(self) -> None:
        for number, (mark, shade) in enumerate((("o", "0.55"), ("x", "0.2"))):
            points = self.X[self.y == number]
            self.ax_.plot(*points.T, mark, color=shade, markersize=4.5, label=str(self.classes[number]))
        heights = self.output.reshape(_GRID, _GRID)
        for level, shade, line, width in (
            (-1.0, "black", "--", 0.9),
            (0.0, ACCENT, "-", 2.0),
            (1.0, "black", "--", 0.9),
        ):
            if heights.min() < level < heights.max():  # matplotlib warns of a level that is never reached
                self.ax_.contour(*self.grid, heights, [level], colors=shade, linestyles=line, linewidths=width)
        self.ax_.plot([], [], "-", color=ACCENT, linewidth=2.0, label="f = 0")
        self.ax_.plot([], [], "--", color="black", linewidth=0.9, label="f = -1 and 1")


def _wide(column: Array) -> tuple[float, float]:
    """Return the range of an input, slightly widened."""
    margin = 0.04 * float(np.ptp(column)) or 0.5
    return float(column.min()) - margin, float(column.max()) + margin
