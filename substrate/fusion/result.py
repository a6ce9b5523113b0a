"""The result of a fusion: the best values of its parameters, the machine there, and the proof."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates import Certificate
from substrate.fusion.unsaved_proof import CHORDS
from substrate.fusion.validation_loss import SQUARED
from substrate.penalized.homotopy.knots import describe_coverage
from substrate.search.best_first import TimeEstimate

__all__ = ["FusedPath", "Fusion", "JointFusion", "JointPath"]


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
    holes
        Intervals inside the coverage on which the bound is not claimed.
    stop
        Why the search ended, in words.
    maximal_variation
        Maximal variations of the components at the knots (one row per knot), where there are components and one
        validation set.
    """

    parameter: str
    values: Array
    validation_errors: Array
    knots: tuple[Any, ...]
    coverage: tuple[float, float]
    holes: tuple[tuple[float, float], ...]
    stop: str
    maximal_variation: Array | None = None

    def __len__(self) -> int:
        return self.values.size

    @property
    def claim(self) -> str:
        """Return the values that the lower bound covers, in words."""
        return describe_coverage(self.parameter, self.coverage, self.holes)


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
    """

    parameters: tuple[str, ...]
    values: Array
    validation_errors: Array
    knots: tuple[Any, ...]
    simplices: NDArray[np.intp]
    bounds: Array
    stop: str

    def __len__(self) -> int:
        return int(self.values.shape[0])


@dataclass(frozen=True)
class Fusion:
    """Training and validation fused: the values of the parameters whose machine validates best, over ``proved_on``.

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
        No values within ``proved_on`` validate better; minus infinity where nothing is proved.
    proved_on
        The box over which the bound holds: ``(low, high)`` by name. An infinite end is proved too.
    result
        The machine at the best values, trained on all training rows.
    path
        The knots, with the intervals or simplices between them.
    certificate
        The certificate of the machine and of the search.
    loss
        The loss of the validation, in words.
    least
        The validation error below which one counts as none: ``gap`` is relative to the larger of both.
    folds
        The machines of the folds at the best values, in the order of the folds; empty for one validation set. Their
        predictions on the rows held back have ``validation_error``.
    proof
        The numbers behind the bound, a :class:`~substrate.fusion.fusion_proof.FusionProof`, where a range was searched
        (``box=`` given, or no path over all values exists): ``proof.save(path)`` writes them, and
        ``substrate.fusion.check_fusion`` checks such a file without solving anything. Elsewhere ``save`` says why there
        is nothing to write.
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
    proof: Any = field(default=CHORDS, repr=False)
    estimate: TimeEstimate | None = field(default=None, repr=False)

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
        """validation_error - lower_bound, relative to the error, or to ``least`` where that is more."""
        difference = self.validation_error - self.lower_bound
        if difference <= 0.0:
            return 0.0
        scale = max(self.validation_error, self.least)
        return difference / scale if scale > 0.0 else np.inf

    def predict(self, X: Any) -> Any:
        """Return the machine's values at the rows of X: an array, or a dict of arrays where its outputs have names."""
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
        return getattr(self.__dict__["result"], name)


#: The name of the class for several parameters in earlier versions.
JointFusion = Fusion
