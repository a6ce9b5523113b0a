"""The result of every fusion: the best values of its parameters, the machine there, and the proof."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificate import Certificate
from substrate.declare.program import Point
from substrate.errors import DeclarationError

__all__ = [
    "FusedPath",
    "Fusion",
    "draw_curve",
    "draw_map",
]


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

    :func:`~substrate.fuse` returns it. For a cvxpy problem it has no ``result``: the optimum is left in the variables
    of the problem. Every parameter's value is an attribute under its own name (``fusion.rho``); the quantities of the
    machine there (``alpha``, ``b``, ``maximal_variation``, ...) are in ``result``.

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
        The machine at the best values, trained on all training rows; None for a problem that is not a machine.
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
        name, family, roots = self._proof
        cells = [cell for root in roots for cell in root.walk()]
        leaves = [cell.corners for cell in cells if cell.cut is None]
        thetas = list(family.knots)
        knots = list(family.knots.values())
        points = [knot.dual if name == "chord" else Point(knot.point, knot.dual.z) for knot in knots]
        fused, joint = [], []
        if name == "universal":
            fused = [
                (k, s, *bound.point)
                for k, knot in enumerate(knots)
                for s, bound in knot.fused.items()
                if bound.point.x.size
            ]
            joint = [
                (leaves.index(corners), k, s, *bound.point)
                for (corners, k), tried in family.joint.items()
                for s, bound in tried.items()
                if corners in leaves and bound.point.x.size
            ]
        with open(path, "wb") as file:
            np.savez(
                file,
                bound=np.array(name),
                names=np.array(list(self.values)),
                box=np.array(list(self.proved_on.values())),
                cuts=np.array([cell.cut or (-1.0, -1.0, 0.0) for cell in cells], dtype=np.float64),
                thetas=np.array(thetas),
                x=np.array([point.x for point in points]),
                z=np.array([point.z for point in points]),
                fused=np.array([pair[:2] for pair in fused]).reshape(-1, 2),
                fused_x=np.array([pair[2] for pair in fused]),
                fused_z=np.array([pair[3] for pair in fused]),
                joint=np.array([pair[:3] for pair in joint]).reshape(-1, 3),
                joint_x=np.array([pair[3] for pair in joint]),
                joint_z=np.array([pair[4] for pair in joint]),
            )

    def plot(self, ax: Any = None, over: tuple[str, str] | None = None) -> Any:
        """Draw the validation error and its lower bound, and return the axes.

        Over one parameter a curve; over several the map of the error over two of them (``over``, the first two unless
        given), with the others at any value.
        """
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


#: The optimum; dark enough to be distinguished from the map in a print without colour.
_ACCENT = "#b03060"
#: Share of the vertices whose errors the shades distinguish; the larger ones all have the lightest shade.
_SHADED = 0.8


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes that are given, or new ones."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib; run `pip install matplotlib`") from error
    return plt.subplots(layout="constrained", figsize=size)[1] if ax is None else ax


def draw_curve(fusion: Any, ax: Any = None) -> Any:
    """Draw the validation error over one parameter and its lower bound, and return the axes."""
    ax = _axes(ax, (6.4, 4.8))
    ((name, value),) = fusion.values.items()
    ((low, high),) = fusion.proved_on.values()
    ax.plot(fusion.path.values, fusion.path.validation_errors, "k-", linewidth=1.0, label="validation")
    ax.plot([value], [fusion.validation_error], "ko", label=f"best: {name} = {value:.4g}")
    if np.isfinite(fusion.lower_bound):
        words = f"lower bound, {name} from {low:g} to {high:g}"
        ax.axhline(fusion.lower_bound, color="0.5", linestyle="--", linewidth=1.0, label=words)
    _scale(ax, "x", fusion.path.values)
    ax.set_xlabel(name)
    ax.set_ylabel(fusion.loss)
    ax.legend()
    return ax


def draw_map(fusion: Any, ax: Any = None, over: tuple[str, str] | None = None) -> Any:
    """Draw the errors at the vertices over two of several parameters, and return the axes."""
    path = fusion.path
    chosen = path.parameters[:2] if over is None else tuple(over)
    if len(set(chosen)) != 2 or not set(chosen) <= set(path.parameters):
        raise DeclarationError(f"over names two of the parameters {list(path.parameters)}, received {over!r}")
    ax = _axes(ax, (6.8, 5.2))
    places = [path.parameters.index(name) for name in chosen]
    x, y = path.values[:, places].T
    order = np.argsort(path.validation_errors)[::-1]  # the smallest errors on top
    top = max(float(np.quantile(path.validation_errors, _SHADED)), 1.001 * fusion.validation_error)
    shades = {"cmap": "Greys_r", "vmin": fusion.validation_error, "vmax": top}
    drawn = ax.scatter(x[order], y[order], c=path.validation_errors[order], s=14, edgecolors="0.3", **shades)
    place = ", ".join(f"{name} = {value:.4g}" for name, value in fusion.values.items())
    style = {"color": _ACCENT, "markeredgecolor": "white", "markersize": 9, "zorder": 5, "clip_on": False}
    label = f"best: {place}; error {fusion.validation_error:.4g}"
    ax.plot(*([fusion.values[name]] for name in chosen), "o", label=label, **style)
    if np.isfinite(fusion.lower_bound):
        proved = ", ".join(f"{name} from {low:.4g} to {high:.4g}" for name, (low, high) in fusion.proved_on.items())
        ax.plot([], [], " ", label=f"lower bound {fusion.lower_bound:.4g}, {proved}")
    for axis, values in (("x", x), ("y", y)):
        _scale(ax, axis, values)
    ax.set_xlabel(chosen[0])
    ax.set_ylabel(chosen[1])
    bar = ax.figure.colorbar(drawn, ax=ax, extend="max", label=fusion.loss)
    bar.ax.axhline(fusion.validation_error, color=_ACCENT, linewidth=2.5)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize="small", framealpha=0.9, edgecolor="none")
    return ax


def _scale(ax: Any, axis: str, values: Array) -> None:
    """Set a logarithmic axis, with a linear part next to zero where zero is among the values."""
    positive = values[values > 0.0]
    if float(values.min()) > 0.0:
        ax.set(**{f"{axis}scale": "log"})
    elif positive.size and float(values.min()) == 0.0:
        linear = {"linthresh": float(np.quantile(positive, 0.1)), "linscale": 1.0}
        (ax.set_xscale if axis == "x" else ax.set_yscale)("symlog", **linear)
    ax.set(**{f"{axis}lim": (float(values.min()), float(values.max()))})
