r"""The support vectors of a machine of this package, beside those of a support vector machine.

.. math:: f(x) = \sum_{i \in S} \alpha_i k(x_i, x) + b

([Pelckmans2005]_ Fig. 2 and 3): regression in one input, or two classes in two inputs. A ring marks a row of the
support S; its area grows with :math:`|\alpha_i|`. Support vectors of an SVM lie at the tube or the margin; those of
the sparse substrate are spread over the data.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.displays.canvas import ACCENT, GREY, LEGEND, axes_for, column_names, demand, training_rows, with_unit
from problems.estimators.shared.base import KernelEstimator
from substrate.arrays import Array, real_array
from substrate.errors import DataError, DeclarationError

__all__ = ["SupportVectorsDisplay", "Supported"]

_GRID = 200
#: Area of the largest ring, and of the smallest, in points squared.
_LARGEST, _SMALLEST = 170.0, 25.0


@dataclass(frozen=True, slots=True)
class Supported:
    """One panel: which rows support a machine, by how much, and its output on a grid."""

    title: str
    support: Any
    sizes: Array
    output: Array


@dataclass(eq=False, repr=False)
class SupportVectorsDisplay:
    """Data, machines and their support vectors, one panel per machine.

    Parameters
    ----------
    X : array of shape (n, 1) or (n, 2)
        The rows.
    y : array of shape (n,)
        Targets, or the numbers 0 and 1 of the classes.
    machines : tuple of Supported
        The SVM's first, if there is one.
    grid : tuple of arrays
        Where the outputs are given: points of one input, or of each of two.
    names : list of str
        The names of the inputs.
    classes : array of shape (2,) or None
        None in regression.
    target : str
        The name of y.

    Attributes
    ----------
    axes_, figure_
        One axes per machine, and their figure.
    """

    X: Array
    y: Array
    machines: tuple[Supported, ...]
    grid: tuple[Array, ...]
    names: list[str]
    classes: Any = None
    target: str = "y"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, svm: Any = None, *, names: Any = None, target: str = "y", ax: Any = None
    ) -> Self:
        """Draw a machine and, if given, a fitted SVC, NuSVC, SVR or NuSVR beside it, both fitted to these rows."""
        from sklearn.svm import SVC, SVR, NuSVC, NuSVR

        demand(estimator, (KernelEstimator,), cls.__name__, "kernel machines of this package")
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
        training_rows(estimator, X)
        numbers = real_array(y, "y", ndim=1) if classes is None else (targets == classes[1]).astype(np.float64)
        grid = tuple(np.linspace(*_wide(column), _GRID) for column in X.T)
        points = np.stack([coordinate.ravel() for coordinate in np.meshgrid(*grid)], axis=1)
        machines = [_machine(estimator, type(estimator).__name__, estimator.support_values_, points, classes)]
        if svm is not None:
            if not isinstance(svm, (SVR, NuSVR) if classes is None else (SVC, NuSVC)):
                usable = "SVR or NuSVR" if classes is None else "SVC or NuSVC"
                raise DeclarationError(f"svm must be a fitted {usable} beside this machine; received {svm!r}")
            check_is_fitted(svm)
            training_rows(svm, X)
            machines.insert(0, _machine(svm, type(svm).__name__, svm.dual_coef_, points, classes))
        return cls(
            X=X,
            y=numbers,
            machines=tuple(machines),
            grid=grid,
            names=column_names(estimator, names),
            classes=classes,
            target=target,
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, one per machine, or on new ones."""
        count = len(self.machines)
        self.figure_, self.axes_ = axes_for(ax, 1, count, (4.6 * count + 1.4, 4.2), sharex=True, sharey=True)
        draw = self._curve if self.classes is None else self._plane
        for axes, machine in zip(self.axes_, self.machines, strict=True):
            draw(axes, machine)
            axes.set_title(f"{machine.title}: {machine.support.size} of {self.X.shape[0]} rows", fontsize="medium")
            axes.set_xlabel(with_unit(self.names[0]))
        # outside, where it hides no row
        self.axes_[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **LEGEND)
        self.axes_[0].set_ylabel(with_unit(self.target if self.classes is None else self.names[1]))
        return self

    def _curve(self, axes: Any, machine: Supported) -> None:
        axes.plot(self.X[:, 0], self.y, "o", color=GREY, markersize=3.5, label="data")
        axes.plot(self.grid[0], machine.output, "-", color=ACCENT, linewidth=2.0, label="f")
        self._rings(axes, machine, self.y)

    def _plane(self, axes: Any, machine: Supported) -> None:
        for number, (mark, shade) in enumerate((("o", "0.55"), ("x", "0.2"))):
            rows = self.y == number
            points = self.X[rows]
            axes.plot(points[:, 0], points[:, 1], mark, color=shade, markersize=4.5, label=str(self.classes[number]))
        heights = machine.output.reshape(_GRID, _GRID)
        for level, shade, line, width in (
            (-1.0, "black", "--", 0.9),
            (0.0, ACCENT, "-", 2.0),
            (1.0, "black", "--", 0.9),
        ):
            if heights.min() < level < heights.max():  # matplotlib warns of a level that is never reached
                axes.contour(*self.grid, heights, [level], colors=shade, linestyles=line, linewidths=width)
        axes.plot([], [], "-", color=ACCENT, linewidth=2.0, label="f = 0")
        axes.plot([], [], "--", color="black", linewidth=0.9, label="f = -1 and 1")
        self._rings(axes, machine, self.X[:, 1])

    def _rings(self, axes: Any, machine: Supported, height: Array) -> None:
        largest = float(machine.sizes.max(initial=0.0)) or 1.0
        area = _SMALLEST + (_LARGEST - _SMALLEST) * machine.sizes / largest
        places = (self.X[machine.support, 0], height[machine.support])
        axes.scatter(*places, s=area, facecolors="none", edgecolors="black", linewidths=1.0, label="support vector")


def _wide(column: Array) -> tuple[float, float]:
    """Return the range of an input, slightly widened."""
    margin = 0.04 * float(np.ptp(column)) or 0.5
    return float(column.min()) - margin, float(column.max()) + margin


def _machine(machine: Any, title: str, alpha: Any, points: Array, classes: Any) -> Supported:
    if isinstance(machine, KernelEstimator):
        output = machine._evaluate(points)
    else:
        with warnings.catch_warnings():  # a grid has no column names, whatever the fit had
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            output = machine.predict(points) if classes is None else machine.decision_function(points)
    sizes = np.abs(np.asarray(alpha)).ravel()
    if sizes.size != machine.support_.size:  # one expansion per component: the norm of a row's coefficients
        sizes = np.linalg.norm(np.asarray(alpha).reshape(machine.support_.size, -1), axis=1)
    return Supported(title, np.asarray(machine.support_), sizes, np.asarray(output))
