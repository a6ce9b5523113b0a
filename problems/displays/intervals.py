r"""Prediction intervals: a band over one input, or bars at the predictions of several, with the rows that they hold.

.. math:: \text{covered} = \frac1n \sum_j 1\big[\, l(x_j) \le y_j \le u(x_j) \,\big]

Rows of the fit are covered more often than new ones; give rows that were not used.
"""

from dataclasses import dataclass
from textwrap import fill
from typing import Any, Self

import numpy as np

from problems.displays.canvas import ACCENT, GREY, LEGEND, axes_for, column_names, demand, one_of, unit_of, with_unit
from substrate.arrays import Array, is_sparse, real_array
from substrate.errors import DataError, DeclarationError

__all__ = ["IntervalDisplay"]

#: Points of a band, and the share of the range of the input that it reaches beyond the rows.
_POINTS, _BEYOND = 300, 0.05


@dataclass(eq=False, repr=False)
class IntervalDisplay:
    """A plot of prediction intervals and targets.

    Parameters
    ----------
    fitted, targets : array of shape (n_rows,)
        Predictions at the rows given, and their targets.
    ends : array of shape (n_rows, 2)
        Lower and upper ends of their intervals.
    places : array of shape (n_rows,) or None
        The input, where there is only one, or None.
    band : array of shape (n_points, 4) or None
        For one input: places in ascending order, predictions, lower and upper ends.
    coverage : float
        The coverage asked for.
    guarantee : str
        What the intervals guarantee.
    name, target : str
        Of the input and of y.

    Attributes
    ----------
    ax_, figure_
        Axes and figure.
    """

    fitted: Array
    targets: Array
    ends: Array
    places: Array | None
    band: Array | None
    coverage: float
    guarantee: str
    name: str = "x"
    target: str = "y"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        coverage: float = 0.9,
        method: str = "auto",
        output: int = 0,
        rows: Any = None,
        names: Any = None,
        target: str = "y",
        ax: Any = None,
    ) -> Self:
        """Draw the intervals of a regressor at rows that it was not fitted to; ``rows`` as for predict_interval."""
        demand(estimator, "predict_interval", cls.__name__, "regressors")
        if estimator.kernel_.pairwise:
            raise DeclarationError("IntervalDisplay draws over inputs, which a precomputed kernel does not have")
        options = {} if rows is None else {"rows": rows}
        X = np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
        targets = one_of(real_array(y, "y", ndim=(1, 2)), output, "output", 1)
        fitted = one_of(np.asarray(estimator.predict(X)), output, "output", 1)
        if fitted.shape != targets.shape:
            raise DataError(f"y must have one entry per row of X: expected {fitted.size}, received {targets.size}")
        ends = one_of(np.asarray(estimator.predict_interval(X, coverage, method, **options)), output, "output", 2)
        places, band = None, None
        if X.shape[1] == 1:
            places = X[:, 0]
            reach = _BEYOND * float(np.ptp(places))
            grid = np.linspace(places.min() - reach, places.max() + reach, _POINTS)[:, None]
            around = one_of(
                np.asarray(estimator.predict_interval(grid, coverage, method, **options)), output, "output", 2
            )
            band = np.column_stack([grid, one_of(np.asarray(estimator.predict(grid)), output, "output", 1), around])
        statement = str(estimator.interval_guarantee(coverage, method))
        name = column_names(estimator, names)[0]
        return cls(
            fitted=fitted,
            targets=targets,
            ends=ends,
            places=places,
            band=band,
            coverage=float(coverage),
            guarantee=statement,
            name=name,
            target=target,
        ).plot(ax)

    @property
    def held(self) -> Any:
        """Return whether each target is in its interval."""
        return (self.ends[:, 0] <= self.targets) & (self.targets <= self.ends[:, 1])

    @property
    def covered(self) -> float:
        """Return the share of the targets that are in their intervals."""
        return float(np.mean(self.held))

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, or on new ones."""
        self.figure_, (self.ax_,) = axes_for(ax)
        low, high = self._limits()
        is_inside, across = self.held, self.fitted if self.places is None else self.places
        if self.band is not None:
            x, f, lower, upper = self.band.T
            clipped = (np.clip(end, low, high) for end in (lower, upper))
            label = f"interval, coverage {self.coverage:g}"
            self.ax_.fill_between(x, *clipped, color=ACCENT, alpha=0.18, linewidth=0.0, label=label)
            for end in (lower, upper):
                self.ax_.plot(x, np.clip(end, low, high), "--", color=ACCENT, linewidth=1.0)
            self.ax_.plot(x, f, "-", color=ACCENT, linewidth=2.0, label="prediction")
            self.ax_.set(xlabel=with_unit(self.name), ylabel=with_unit(self.target))
        else:
            label = f"interval, coverage {self.coverage:g}"
            self.ax_.vlines(across, *np.clip(self.ends.T, low, high), color=ACCENT, alpha=0.35, label=label)
            line = [float(across.min()), float(across.max())]
            self.ax_.plot(line, line, "-", color=ACCENT, linewidth=1.4, label="prediction")
            self.ax_.set(xlabel=f"prediction ({unit_of(self.target)})", ylabel=with_unit(self.target))
        self.ax_.plot(
            across[is_inside], self.targets[is_inside], "o", color=GREY, markersize=3.5, label="target inside"
        )
        self.ax_.plot(
            across[~is_inside], self.targets[~is_inside], "x", color="black", markersize=6.0, label="target outside"
        )
        self.ax_.set_ylim(low, high)
        title = f"{self.covered:.1%} of {self.targets.size} targets covered\n{fill(self.guarantee, 100)}"
        self.ax_.set_title(title, fontsize="x-small")
        self.ax_.legend(**LEGEND)
        return self

    def _limits(self) -> tuple[float, float]:
        """Return limits of the picture: infinite ends are drawn to its edge."""
        shown = [self.targets, self.ends.ravel()] if self.band is None else [self.targets, self.band[:, 1:].ravel()]
        values = np.concatenate(shown)
        values = values[np.isfinite(values)]
        margin = 0.06 * max(float(np.ptp(values)), 1e-12 * float(np.abs(values).max()), np.finfo(np.float64).tiny)
        return float(values.min()) - margin, float(values.max()) + margin
