"""The result of a fusion: the best parameter, the machine there, and the proof."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Certificate
from substrate.penalized.homotopy.knots import claimed

__all__ = ["FusedPath", "Fusion"]


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
        The mean squared validation error at each.
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
        """The values that the lower bound covers, in words."""
        return claimed(self.parameter, self.coverage, self.holes)


@dataclass(frozen=True)
class Fusion:
    """Training and validation fused: the parameter whose machine validates best, over the values in ``path.coverage``.

    The parameter's value is an attribute under its own name (``fusion.rho``) and under ``value``; the quantities of the
    machine there (``alpha``, ``b``, ``maximal_variation``, ...) are those of ``result``.

    Parameters
    ----------
    parameter, value
        The name of the parameter, and its best value.
    validation_error
        The mean square of y - f over the validation rows; with several outputs, the sum of theirs.
    lower_bound
        No value of the parameter within ``path.coverage`` validates better; minus infinity where nothing is proved.
    result
        The machine at the best value, trained on all training rows.
    path
        The knots.
    certificate
        The certificate of the machine and of the search.
    proof
        The numbers behind the bound, a :class:`~substrate.fusion.fusion_proof.FusionProof`, where a range was searched
        (``box=`` given, or no path over all values exists): ``proof.save(path)`` writes them, and
        :func:`~substrate.fusion.check_fusion` checks such a file without solving anything. None elsewhere.
    """

    parameter: str
    value: float
    validation_error: float
    lower_bound: float
    result: Any
    path: FusedPath
    certificate: Certificate
    proof: Any = field(default=None, repr=False)

    @property
    def values(self) -> dict[str, float]:
        """The value by the name of its parameter."""
        return {self.parameter: self.value}

    @property
    def gap(self) -> float:
        """(validation_error - lower_bound) / validation_error; infinite where nothing is proved."""
        if self.validation_error == 0.0:
            return 0.0
        return (self.validation_error - self.lower_bound) / self.validation_error

    def predict(self, X: Any) -> Any:
        """The machine's values at the rows of X: an array, or a dict of arrays where its outputs have names."""
        return self.result.predict(X)

    def plot(self, ax: Any = None) -> Any:
        """The evolution diagram: maximal variations, where there are any, above the validation error and its bound.

        Returns the axes of the validation error; with ``ax`` given, that part alone is drawn into it.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plots need matplotlib; run `pip install matplotlib`") from error
        shown = (self.path.values > 0.0) & np.isfinite(self.path.values)  # the axis is logarithmic
        if ax is None and self.path.maximal_variation is not None:
            _, (above, ax) = plt.subplots(2, 1, sharex=True, layout="constrained", figsize=(6.4, 6.4))
            for part, variation in enumerate(self.path.maximal_variation[shown].T, start=1):
                style = ("-", "--", ":", "-.")[(part - 1) % 4]
                above.plot(self.path.values[shown], variation, style, linewidth=1.0, label=f"component {part}")
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
        ax.set_ylabel("validation error (mean square)")
        ax.legend()
        return ax

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name == self.__dict__.get("parameter"):
            return self.value
        return getattr(self.__dict__["result"], name)
