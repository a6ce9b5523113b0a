"""The result of every fusion: the best values of its parameters, the machine there, and the proof."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates import Certificate
from substrate.errors import DeclarationError

__all__ = ["FusedPath", "Fusion"]


@dataclass(frozen=True, slots=True)
class FusedPath:
    """The vertices of a search, and the simplices between them.

    Parameters
    ----------
    parameters
        The names of the parameters.
    values
        The parameters at the vertices: ascending numbers for one, one row per vertex for several.
    validation_errors
        The mean validation error at each vertex.
    simplices
        The numbers of the vertices of each simplex.
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
    of the problem. Every parameter's value is an attribute under its own name (``fusion.rho``); the quantities of the
    machine there (``alpha``, ``b``, ``maximal_variation``, ...) are those of ``result``.

    Parameters
    ----------
    values
        The best value of each parameter, by name.
    validation_error
        The mean loss over the validation rows, squared unless another was asked for; with several outputs, the sum of
        theirs.
    lower_bound
        No values within ``proved_on`` validate better; minus infinity where nothing is proved. Where several optima
        exist at some values, this is a statement about the one that validates best.
    proved_on
        The box over which the bound holds: ``(low, high)`` by name.
    certificate
        The certificate of the machine and of the search: it holds where the gap that was asked for is proved.
    result
        The machine at the best values, trained on all training rows; None for a problem that is no machine.
    path
        The vertices of the search, with the simplices between them.
    loss
        The loss of the validation, in words.
    least
        The validation error below which one counts as none: ``gap`` is relative to the larger of both.
    folds
        The machines of the folds at the best values, in the order of the folds; empty for one validation set. Their
        predictions on the rows held back have ``validation_error``.
    """

    values: dict[str, float]
    validation_error: float
    lower_bound: float
    proved_on: dict[str, tuple[float, float]]
    certificate: Certificate
    result: Any
    path: FusedPath
    loss: str
    least: float = 0.0
    folds: tuple[Any, ...] = ()
    #: What a proof is saved from: the name of the bound, its family, and the first cells.
    _proof: Any = None

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name} = {value:.6g}" for name, value in self.values.items())
        ranges = ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in self.proved_on.items())
        bound = "nothing is proved of other values"
        if np.isfinite(self.lower_bound):
            bound = f"no value below {self.lower_bound:.6g} for {ranges}"
        return f"Fusion({chosen}; {self.loss} {self.validation_error:.6g}, {bound}; {self.stop})"

    @property
    def value(self) -> float:
        """Return the best value of the parameter; of several, of the first."""
        return next(iter(self.values.values()))

    @property
    def stop(self) -> str:
        """Return why the search ended, in words."""
        return self.path.stop

    @property
    def gap(self) -> float:
        """Return the error less its bound, relative to the error, or to ``least`` where that is more."""
        difference = max(self.validation_error - self.lower_bound, 0.0)
        return difference / max(abs(self.validation_error), self.least) if difference else 0.0

    @property
    def solves(self) -> int:
        """Return how many programs were solved, those with the validation error in the objective included."""
        return self.path.solves

    def predict(self, X: Any) -> Any:
        """Return the machine's values at the rows of X: an array, or a dict of arrays where its outputs have names."""
        if self.result is None:
            raise DeclarationError("this is the fusion of a problem: its variables have the optimum, var.value")
        return self.result.predict(X)

    def save_proof(self, path: Any) -> None:
        """Write the points and cells of the search, from which :func:`~substrate.check_proof` bounds again."""
        from substrate.fusion.proof import save_proof

        save_proof(self, path)

    def plot(self, ax: Any = None, over: tuple[str, str] | None = None) -> Any:
        """Draw the validation error and what is proved, and return the axes.

        Over one parameter a curve; over several the map of the error over two of them (``over``, the first two unless
        given), with the others at any value.
        """
        from substrate.fusion.plots import draw_curve, draw_map

        return draw_curve(self, ax) if len(self.values) == 1 else draw_map(self, ax, over)

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
