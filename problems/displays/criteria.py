r"""Criteria of a model: the criterion over gamma with its certified minimum, and leave-one-out predictions of all rows.

The criterion and its lower bound satisfy

.. math:: F(\gamma) \ge \underline F \quad \text{for every } \gamma \text{ of
the range}, \qquad
          F(\gamma^\star) - \underline F \le \text{gap} \cdot F(\gamma^\star)

([Pelckmans2005]_ eq. (17)-(19); :mod:`substrate.search.gamma_search`). The criterion is not convex in gamma; the bound
proves that no minimum was missed. The prediction of a row by the machine that was fitted without it is

.. math:: f^{(-i)}(x_i) = y_i - \frac{\alpha_i}{B_{ii}}

([Cawley2004]_ Fig. 2), exactly and without refitting. Over one input the left-out values are drawn around the fit;
otherwise against it, where distance from the diagonal is what the row itself adds to its own fit.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.displays.canvas import (
    ACCENT,
    GREY,
    LEGEND,
    axes_for,
    column_names,
    demand,
    training_rows,
    unit_of,
    with_unit,
)
from problems.estimators.chosen.candidates import SMOOTH
from problems.estimators.chosen.over_gamma import OverGamma
from problems.estimators.full.ls_svm import LSSVMModel
from problems.estimators.full.robust import RobustModel
from substrate.arrays import Array, is_sparse
from substrate.errors import DataError, DeclarationError

__all__ = ["CriterionDisplay", "LeaveOneOutDisplay"]

_NAMES = {
    "loo": "leave-one-out",
    "blocks": "leave-block-out",
    "groups": "leave-group-out",
    "gcv": "generalised cross-validation",
    "evidence": "evidence, as a variance",
    "folds": "folds",
    "validation": "validation",
}


@dataclass(eq=False, repr=False)
class CriterionDisplay:
    """The criterion over gamma.

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
        usable = "LSSVMRegressorCV, LSSVMClassifierCV, SparseLSSVMRegressorCV and SparseLSSVMClassifierCV"
        demand(estimator, (OverGamma,), cls.__name__, usable)
        if estimator._selector.criterion not in SMOOTH:
            raise DataError(f"loss {estimator.loss!r} has no lower bound; choose gamma by loss='squared'")
        outputs = np.size(estimator.gamma_)
        if not 0 <= output < outputs:
            raise DeclarationError(f"the model has outputs 0 to {outputs - 1}; received output={output!r}")
        gammas, values = (np.asarray(estimator.path_[name]) for name in ("values", "criterion"))
        numbers = (estimator.gamma_, estimator.criterion_, estimator.criterion_lower_bound_)
        gamma, value, bound = (float(np.atleast_1d(number)[output]) for number in numbers)
        name = _NAMES[estimator._selector.criterion]
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


@dataclass(eq=False, repr=False)
class LeaveOneOutDisplay:
    """Left-out outputs against the fit.

    Parameters
    ----------
    fitted : array of shape (n,)
        f at the rows of the fit.
    left_out : array of shape (n,)
        f at each row, of the machine without it.
    targets : array of shape (n,)
        y, or the codes -1 and +1 of the classes.
    places : array of shape (n,) or None
        The input, where there is only one, or None.
    mean_square : float
        The mean squared leave-one-out residual.
    name, target : str
        Of the input and of y.

    Attributes
    ----------
    ax_, figure_
        Axes and figure.
    """

    fitted: Array
    left_out: Array
    targets: Array
    places: Array | None
    mean_square: float
    name: str = "x"
    target: str = "y"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, output: int = 0, names: Any = None, target: str = "y", ax: Any = None
    ) -> Self:
        """Draw an LS-SVM and the rows it was fitted to; ``output`` is the number of an output or of a machine."""
        usable = "LSSVMRegressor, LSSVMClassifier, their CV twins and RobustLSSVMRegressor"
        demand(estimator, (LSSVMModel, RobustModel), cls.__name__, usable)
        X = np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
        training_rows(estimator, X)
        if np.shape(y)[:1] != (X.shape[0],):
            raise DataError(f"y must have one entry per row of X: {X.shape[0]}, received shape {np.shape(y)}")
        left_out = estimator.leave_one_out(X if estimator.kernel_.pairwise else None)
        outputs, residuals = (
            np.reshape(array, (array.shape[0], -1)) for array in (left_out.outputs, left_out.residuals)
        )
        if not 0 <= output < outputs.shape[1]:
            raise DeclarationError(f"the model has outputs 0 to {outputs.shape[1] - 1}; received output={output!r}")
        rows = np.flatnonzero(~np.isnan(residuals[:, output]))  # those that this machine was fitted to
        targets_of_rows = outputs[rows, output] + residuals[rows, output]
        targets = _own_targets(estimator, np.asarray(y), rows, targets_of_rows, output)
        fitted = np.reshape(estimator._evaluate(X[estimator.support_]), outputs.shape)[rows, output]
        is_curve = X.shape[1] == 1 and not estimator.kernel_.pairwise
        places = X[estimator.support_][rows, 0] if is_curve else None
        name = column_names(estimator, names)[0]
        mean_square = float(np.mean(residuals[rows, output] ** 2))
        return cls(
            fitted=fitted,
            left_out=outputs[rows, output],
            targets=targets,
            places=places,
            mean_square=mean_square,
            name=name,
            target=target,
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, or on new ones."""
        self.figure_, (self.ax_,) = axes_for(ax)
        marks = {"markerfacecolor": "none", "color": "black", "markersize": 5.5, "label": "row left out"}
        if self.places is not None:
            order = np.argsort(self.places, kind="stable")
            self.ax_.plot(self.places, self.targets, "o", color=GREY, markersize=3.5, label="data")
            self.ax_.plot(self.places[order], self.fitted[order], "-", color=ACCENT, linewidth=2.0, label="fit")
            self.ax_.plot(self.places, self.left_out, "D", **marks)
            self.ax_.set(xlabel=with_unit(self.name), ylabel=with_unit(self.target))
        else:
            ends = [min(self.fitted.min(), self.left_out.min()), max(self.fitted.max(), self.left_out.max())]
            self.ax_.plot(ends, ends, "--", color=ACCENT, linewidth=1.4, label="a row that adds nothing to its fit")
            self.ax_.plot(self.fitted, self.left_out, "D", **marks)
            self.ax_.set(xlabel=f"fit ({unit_of(self.target)})", ylabel=f"without the row ({unit_of(self.target)})")
        title = f"mean squared leave-one-out error {self.mean_square:.4g}, of the fit {self.fit_mean_square:.4g}"
        self.ax_.set_title(f"{title} ({unit_of(self.target)}, squared)", fontsize="small")
        self.ax_.legend(**LEGEND)
        return self

    @property
    def fit_mean_square(self) -> float:
        """Return the mean squared error of the fit itself, which is smaller."""
        return float(np.mean((self.targets - self.fitted) ** 2))


def _own_targets(estimator: Any, y: Any, rows: Any, targets: Array, output: int) -> Array:
    """Return targets or codes of these rows; refused unless they are those of the fit, which the model knows by y = f +
    e.
    """
    row_targets = y[estimator.support_][rows]
    if estimator._labels:
        numbers = np.searchsorted(estimator.classes_, row_targets).clip(max=estimator.classes_.size - 1)
        row_targets = estimator.code_book_[numbers, output]
    else:
        row_targets = np.asarray(row_targets if row_targets.ndim == 1 else row_targets[:, output], dtype=np.float64)
    if not np.allclose(row_targets, targets, atol=1e-6 * float(np.abs(targets).max())):
        raise DataError("y does not hold the targets of the fit; pass the rows of fit, in order")
    return np.asarray(row_targets)
