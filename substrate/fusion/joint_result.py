"""The result of a fusion over several parameters: the best values, the machine there, and the proof."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates import Certificate

__all__ = ["JointFusion", "JointPath"]


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
        The mean squared validation error at each knot.
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
class JointFusion:
    """Training and validation fused: the values of several parameters whose machine validates best, over ``proved_on``.

    Every parameter's value is an attribute under its own name (``fusion.rho``); the quantities of the machine there
    (``alpha``, ``b``, ``maximal_variation``, ...) are those of ``result``.

    Parameters
    ----------
    values
        The best value of each parameter, by name.
    validation_error
        The mean square of y - f over the validation rows; with several outputs, the sum of theirs.
    lower_bound
        No values within ``proved_on`` validate better; minus infinity where nothing is proved.
    proved_on
        The box over which the bound holds: ``(low, high)`` by name. An infinite end is proved too.
    result
        The machine at the best values, trained on all training rows.
    path
        The knots and simplices.
    certificate
        The certificate of the machine and of the search.
    """

    values: dict[str, float]
    validation_error: float
    lower_bound: float
    proved_on: dict[str, tuple[float, float]]
    result: Any
    path: JointPath
    certificate: Certificate

    @property
    def gap(self) -> float:
        """(validation_error - lower_bound) / validation_error; infinite where nothing is proved."""
        if self.validation_error == 0.0:
            return 0.0
        return (self.validation_error - self.lower_bound) / self.validation_error

    def predict(self, X: Any) -> Any:
        """The machine's values at the rows of X: an array, or a dict of arrays where its outputs have names."""
        return self.result.predict(X)

    def plot(self, ax: Any = None, over: tuple[str, str] | None = None) -> Any:
        """The map of the validation error: simplices, the optimum, and what is proved.

        Of more than two parameters, two are drawn (``over``, the first two unless given), with the others at any value.
        Returns the axes.
        """
        from substrate.fusion.error_map import draw_map

        return draw_map(self, ax, over)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        return getattr(self.__dict__["result"], name)
