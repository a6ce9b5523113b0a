"""The one result of every fusion: the best values of its parameters, the machine there, and the proof."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates import Certificate
from substrate.errors import DeclarationError
from substrate.fits.paths import describe_coverage
from substrate.fusion.validation_loss import SQUARED
from substrate.search.best_first import TimeEstimate

__all__ = ["FusedPath", "Fusion", "JointPath"]


@dataclass(frozen=True, slots=True)
class FusedPath:
    """The path of a search.

    Parameters
    ----------
    parameter
        Its name.
    values
        The parameter at the knots, ascending.
    validation_errors
        The mean validation error at each.
    knots
        For each fold its knots with primal and dual points; for an exact path, its record.
    coverage
        The values over which the lower bound holds.
    stop
        Why the search ended, in words.
    maximal_variation
        Maximal variations of the components at the knots (one row per knot), where there are components and one
        validation set.
    solves
        How many programs were solved.
    """

    parameter: str
    values: Array = field(repr=False)
    validation_errors: Array = field(repr=False)
    knots: tuple[Any, ...] = field(repr=False)
    coverage: tuple[float, float]
    stop: str
    maximal_variation: Array | None = field(default=None, repr=False)
    solves: int = 0

    def __len__(self) -> int:
        return self.values.size

    @property
    def claim(self) -> str:
        """Return the values that the lower bound covers, in words."""
        return describe_coverage(self.parameter, self.coverage)


@dataclass(frozen=True, slots=True)
class JointPath:
    """The knots of a search over several parameters, and the simplices between them.

    Parameters
    ----------
    parameters
        Their names.
    values
        The parameters at the knots, one row per knot and one column per parameter.
    validation_errors
        The mean validation error at each knot.
    knots
        For each fold its knots with primal and dual points.
    simplices
        The numbers of the knots at the vertices, one row per simplex.
    bounds
        The lower bound of the validation error over each simplex.
    stop
        Why the search ended, in words.
    solves
        How many programs were solved.
    """

    parameters: tuple[str, ...]
    values: Array = field(repr=False)
    validation_errors: Array = field(repr=False)
    knots: tuple[Any, ...] = field(repr=False)
    simplices: NDArray[np.intp] = field(repr=False)
    bounds: Array = field(repr=False)
    stop: str
    solves: int = 0

    def __len__(self) -> int:
        return int(self.values.shape[0])


@dataclass(frozen=True, repr=False)
class Fusion:
    """Training and validation fused: the values of the parameters whose optimum validates best, over ``proved_on``.

    What :func:`~substrate.fuse` returns. Of a cvxpy problem it has no ``result``: the optimum is left in the variables
    of the problem.

    Every parameter's value is an attribute under its own name (``fusion.rho``); the quantities of the machine there
    (``alpha``, ``b``, ``maximal_variation``, ...) are those of ``result``.

    Parameters
    ----------
    values
        The best value of each parameter, by name.
    validation_error
        The mean loss over the validation rows, that of squares unless another was asked for; with several outputs, the
        sum of theirs.
    lower_bound
        No values within ``proved_on`` validate better; minus infinity where nothing is proved. Where several optima
        exist at some values, this is a statement about the one that validates best.
    proved_on
        The box over which the bound holds: ``(low, high)`` by name.
    result
        The machine at the best values, trained on all training rows; None for a problem that is no machine.
    path
        The knots, with the intervals or simplices between them.
    certificate
        The certificate of the machine and of the search: it holds where the gap that was asked for is proved.
    loss
        The loss of the validation, in words.
    least
        The validation error below which one counts as none: ``gap`` is relative to the larger of both.
    folds
        The machines of the folds at the best values, in the order of the folds; empty for one validation set. Their
        predictions on the rows held back have ``validation_error``.
    estimate
        How long the search was expected to take, from its first solves; None where it was not searched for.
    """

    values: dict[str, float]
    validation_error: float
    lower_bound: float
    proved_on: dict[str, tuple[float, float]]
    result: Any
    path: Any
    certificate: Certificate
    loss: str = SQUARED.words
    least: float = 0.0
    folds: tuple[Any, ...] = ()
    estimate: TimeEstimate | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name} = {_format(value)}" for name, value in self.values.items())
        ranges = ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in self.proved_on.items())
        proved = f"no value below {_format(self.lower_bound)} for {ranges}"
        bound = proved if np.isfinite(self.lower_bound).all() else "nothing is proved of other values"
        return f"Fusion({chosen}; {self.loss} {_format(self.validation_error)}, {bound}; {self.stop})"

    @property
    def parameter(self) -> str:
        """Return the name of the parameter; of several, the first."""
        return next(iter(self.values))

    @property
    def value(self) -> float:
        """Return the best value of the parameter; of several, of the first."""
        return self.values[self.parameter]

    @property
    def stop(self) -> str:
        """Return why the search ended, in words."""
        return str(self.path.stop)

    @property
    def gap(self) -> float:
        """validation_error - lower_bound, relative to the error, or to ``least`` where that is more.

        Of outputs with a weight each, the largest.
        """
        error = np.atleast_1d(np.asarray(self.validation_error, dtype=float))
        difference = np.maximum(error - self.lower_bound, 0.0)
        scale = np.maximum(np.abs(error), self.least)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(difference > 0.0, difference / scale, 0.0).max())

    @property
    def tried(self) -> Array:
        """Return the values at which there are knots, one row each and one column per parameter."""
        return np.asarray(self.path.values).reshape(len(self.path), -1)

    @property
    def validation_errors(self) -> Array:
        """Return the validation errors at the values tried."""
        return np.asarray(self.path.validation_errors)

    @property
    def solves(self) -> int:
        """Return how many programs were solved, those with the validation error in the objective included."""
        return int(self.path.solves)

    def predict(self, X: Any) -> Any:
        """Return the machine's values at the rows of X: an array, or a dict of arrays where its outputs have names."""
        if self.result is None:
            raise DeclarationError("this is the fusion of a problem: its variables have the optimum, var.value")
        return self.result.predict(X)

    def plot(self, ax: Any = None, over: tuple[str, str] | None = None) -> Any:
        """Draw the validation error and what is proved, and return the axes.

        Over one parameter: the evolution diagram, maximal variations, where there are any, above the validation error
        and its bound; with ``ax`` given, the second part alone. Over several: the map of the error over two of them
        (``over``, the first two unless given), with the others at any value.
        """
        if isinstance(self.path, JointPath):
            from substrate.fusion.error_map import draw_map

            return draw_map(self, ax, over)
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plots need matplotlib; run `pip install matplotlib`") from error
        shown = (self.path.values > 0.0) & np.isfinite(self.path.values)  # the axis is logarithmic
        if ax is None and self.path.maximal_variation is not None:
            _, (above, ax) = plt.subplots(2, 1, sharex=True, layout="constrained", figsize=(6.4, 6.4))
            for component, variation in enumerate(self.path.maximal_variation[shown].T, start=1):
                style = ("-", "--", ":", "-.")[(component - 1) % 4]
                above.plot(self.path.values[shown], variation, style, linewidth=1.0, label=f"component {component}")
            above.axvline(self.value, color="0.5", linewidth=1.0)
            above.set_ylabel("maximal variation (units of y)")
            if self.path.maximal_variation.shape[1] <= 8:
                above.legend()
        elif ax is None:
            _, ax = plt.subplots(layout="constrained")
        ax.plot(self.path.values[shown], self.path.validation_errors[shown], "k-", linewidth=1.0, label="validation")
        ax.plot([self.value], [self.validation_error], "ko", label=f"best: {self.parameter} = {self.value:.4g}")
        if np.isfinite(self.lower_bound):
            ax.axhline(self.lower_bound, color="0.5", linestyle="--", linewidth=1.0, label=self.path.claim)
        ax.set_xscale("log")
        ax.set_xlabel(self.parameter)
        ax.set_ylabel("validation error (mean square)" if self.loss == SQUARED.words else self.loss)
        ax.legend()
        return ax

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        result = self.__dict__.get("result")
        if result is None:
            raise AttributeError(f"'Fusion' object has no attribute {name!r}; its parameters are {sorted(values)}")
        return getattr(result, name)


def _format(numbers: Any) -> str:
    """Return a number with six digits; of several outputs, the first five."""
    every = np.ravel(numbers)
    return ", ".join(f"{number:.6g}" for number in every[:5]) + (", ..." if every.size > 5 else "")
