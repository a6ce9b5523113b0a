r"""A criterion of model selection over gamma, its certified minimum, and the bound below all of it.

.. math:: F(\gamma) \ge \underline F \quad \text{for every } \gamma \text{ of the range}, \qquad
          F(\gamma^\star) - \underline F \le \text{gap} \cdot F(\gamma^\star)

([Pelckmans2005]_ eq. (17)-(19); :mod:`substrate.paths.gamma_search`). The criterion is not convex in gamma; the bound
is what says that no valley was missed.
"""

from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, LEGEND, axes_for, demand
from problems.estimators.candidates import SMOOTH, Task, criterion_of
from problems.estimators.fused_ways import OverGamma
from problems.estimators.model_search import ModelSearch
from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram

__all__ = ["CriterionDisplay"]

#: Points of the curve.
_CURVE = 200
_NAMES = {"loo": "leave-one-out", "gcv": "generalised cross-validation", "folds": "folds"}
#: How far the curve may be off the criterion of the fit; more, and it is another criterion.
_SAME = 1e-6


class CriterionDisplay:
    """The criterion over gamma.

    Parameters
    ----------
    gammas : array of shape (n_points,)
        Where the curve is given, ascending.
    values : array of shape (n_points,)
        The criterion there, in squared units of y.
    best_gamma, best_value, lower_bound : float
        The gamma chosen, its criterion, and what no gamma of the range (and no candidate kernel) can go below.
    name : str
        What the criterion is.

    Attributes
    ----------
    ax_, figure_
        Axes and figure.
    """

    def __init__(
        self, gammas: Array, values: Array, best_gamma: float, best_value: float, lower_bound: float, name: str
    ) -> None:
        self.gammas = gammas
        self.values = values
        self.best_gamma = best_gamma
        self.best_value = best_value
        self.lower_bound = lower_bound
        self.name = name

    @classmethod
    def from_estimator(cls, estimator: Any, *, output: int = 0, ax: Any = None) -> Self:
        """Draw the search of a machine that chose its gamma, with the kernel it chose; ``output`` is one of several."""
        usable = "FusedLSSVMRegressor, FusedLSSVMClassifier, LSSVMRegressorCV and LSSVMClassifierCV"
        demand(estimator, (OverGamma, ModelSearch), cls.__name__, usable)
        if isinstance(estimator, OverGamma):
            path = estimator.path_
            gammas, values = np.asarray(path["values"]), np.asarray(path["validation_errors"])
            best: tuple[float, ...] = (estimator.best_parameter_, estimator.validation_error_, estimator.lower_bound_)
            name = "leave-one-out" if isinstance(estimator.cv, str) else "validation"
        else:
            gammas, values = _curve(estimator, output)
            numbers = (estimator.gamma_, estimator.criterion_, estimator.criterion_lower_bound_)
            best = tuple(float(np.atleast_1d(number)[output]) for number in numbers)
            name = _NAMES[estimator.criterion]
        gamma, value, bound = best
        return cls(gammas, values, gamma, value, bound, name).plot(ax)

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


def _curve(estimator: Any, output: int) -> tuple[Array, Array]:
    """The criterion of a search, computed anew from what the fitted machine knows of its rows."""
    if estimator.criterion not in SMOOTH:
        raise DataError(f"criterion {estimator.criterion!r} has no lower bound; choose gamma by {', '.join(SMOOTH)}")
    if estimator.kernel_.pairwise:
        raise DataError("a model with a precomputed kernel has not kept its matrix; fit it to rows and a kernel")
    outputs = np.size(estimator.gamma_)
    if not 0 <= output < outputs:
        raise DeclarationError(f"the model has outputs 0 to {outputs - 1}; received output={output!r}")
    gram = Gram.of(estimator.kernel_, estimator.support_vectors_)
    pooled = hasattr(estimator, "classes_")
    Y, labels = _targets(estimator, gram, pooled)
    splits = estimator._splits(estimator.support_vectors_, labels, pooled)
    task = Task(estimator.support_vectors_, Y, estimator.criterion, splits, estimator.gamma_range, 1.0, pooled)
    criterion = criterion_of(gram, task)
    high, low = (1.0 / float(end) for end in estimator.gamma_range_)
    t = np.linspace(np.log(high - criterion.lift), np.log(low - criterion.lift), _CURVE)
    chosen = np.log(1.0 / np.atleast_1d(estimator.gamma_)[output] - criterion.lift)
    values = criterion.sample(np.append(t, chosen)[None, :]).values[0, :, output] * criterion.unit**2
    known = float(np.atleast_1d(estimator.criterion_)[output])
    if abs(values[-1] - known) > _SAME * max(abs(known), float(np.abs(values).min())):
        raise DataError(
            f"the criterion at the chosen gamma is {values[-1]:.6g} now and was {known:.6g}: the splits of cv are not "
            "the same twice; give it a random_state"
        )
    return np.asarray(1.0 / (np.exp(t) + criterion.lift)), np.asarray(values[:-1])


def _targets(estimator: Any, gram: Gram, classifier: bool) -> tuple[Array, Any]:
    """Targets one column per output, which y = f + e gives back, and the labels or targets as they were given."""
    if classifier:
        codes = np.reshape(estimator.support_codes_, (gram.n, -1))
        nearest = np.argmin(((codes[:, None, :] - estimator.code_book_[None, :, :]) ** 2).sum(axis=2), axis=1)
        return codes, estimator.classes_[nearest]
    alpha = np.reshape(estimator.support_values_, (gram.n, -1))
    ridge = np.reshape(estimator.ridge_, (gram.n, -1))
    primal = estimator._primal()
    fitted = (
        primal(estimator.support_vectors_)
        if primal is not None
        else gram.product(alpha) + np.atleast_1d(estimator.bias_)
    )
    Y = np.ascontiguousarray(fitted + ridge * alpha)
    return Y, Y[:, 0] if Y.shape[1] == 1 else Y
