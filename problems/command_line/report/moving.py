"""The numbers of a page that moves: what is drawn at every value of the weight, thinned out to fit, as plain JSON.

A page stops at a few hundred values of the weight. What it draws there follows by the formula of
:mod:`problems.command_line.report.model_path`; the errors are those of all rows, computed here.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from problems.command_line.report.machine_paths import GammaPath, RhoPath, ZetaPath, path_of
from problems.command_line.report.model_path import Affine, KnotPath, ModelPath
from problems.command_line.report.subject import Subject
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.namespaces import to_numpy

__all__ = ["IN_REPORT", "LARGEST", "DrawnCurve", "Moving", "encode_numbers", "moving"]

#: Most bytes of the numbers in a page of its own, and in a report.
LARGEST, IN_REPORT = 4_500_000, 3_000_000
#: Points of a curve over the only input, over one of several, and how many of those there are.
_POINTS, _FEW, _INPUTS = 161, 61, 6


@dataclass(frozen=True, slots=True)
class DrawnCurve:
    """One number at every stop; ``drawn`` in the picture of the errors, as a line of this ``style``."""

    name: str
    values: Array
    drawn: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Moving:
    """What a page draws.

    Parameters
    ----------
    path
        The machine as a function of its weight.
    stops, start
        The values at which the page stops, ascending, and the number of the one that it begins with, the model's own.
    vectors
        Quantities that move, by name.
    constants
        Quantities that do not.
    curves
        Errors and counts at every stop, of all rows.
    lines
        What does not move in the picture of the errors: a name and a value.
    inputs
        Numbers of the inputs that can be put on the x axis.
    notes
        What the page leaves out, in sentences.
    """

    path: ModelPath
    stops: Array
    start: int
    vectors: Mapping[str, Affine]
    constants: Mapping[str, Array]
    curves: tuple[DrawnCurve, ...]
    lines: tuple[tuple[str, float], ...]
    inputs: tuple[int, ...]
    notes: tuple[str, ...] = field(default=())

    def at(self, name: str, stop: int) -> Array:
        """Return a quantity at one stop: what the page computes."""
        return self.vectors[name].at(self.path.states(self.stops[[stop]]))[:, 0]

    def numbers(self) -> dict[str, Any]:
        """Return state, vectors and constants in the shorter of two forms: by the formula, or by their values at the
        stops.
        """
        vectors = dict(self.vectors)
        if isinstance(self.path, GammaPath) and self.path.eigenvalues.size <= self.stops.size:
            state: dict[str, Any] = {"eigenvalues": encode_numbers(self.path.eigenvalues)}
        else:
            few = isinstance(self.path, KnotPath) and len(self.path.path) <= self.stops.size
            at = self.path.path.values if few else self.stops  # type: ignore[attr-defined]
            rows, vectors = _at_knots(self.path.states(at), vectors)
            state = {"knots": encode_numbers(at), "rows": encode_numbers(rows), "width": int(rows.shape[1])}
        constants = {name: encode_numbers(values) for name, values in self.constants.items()}
        return {
            "state": state,
            "vectors": {name: _short(vector) for name, vector in vectors.items()},
            "constants": constants,
        }

    def size(self) -> int:
        """Return bytes of the numbers."""
        return len(json.dumps(self.numbers()))


def encode_numbers(values: Any) -> str:
    """Return numbers without any loss: 64-bit floats, least significant byte first, in base64; never NaN or
    infinite.
    """
    array = np.ascontiguousarray(values, dtype="<f8")
    if not np.isfinite(array).all():
        raise DataError("a page cannot draw numbers that are not finite; check the units of the columns")
    return base64.b64encode(array.tobytes()).decode("ascii")


def _at_knots(states: Array, vectors: dict[str, Affine]) -> tuple[Array, dict[str, Affine]]:
    """Return the states, less the entries that nothing uses; or the values themselves, where these are fewer
    numbers.
    """
    used = np.flatnonzero(np.any([vector.matrix.any(axis=0) for vector in vectors.values()], axis=0))
    less = {name: Affine(vector.offset, vector.matrix[:, used]) for name, vector in vectors.items()}
    products = sum(vector.matrix.size for vector in less.values() if not _is_selection(vector))
    width = sum(len(vector.offset) for vector in vectors.values())
    if len(states) * used.size + products <= len(states) * width:
        return states[:, used], less
    places, start = {}, 0
    for name, vector in vectors.items():
        place = np.eye(len(vector.offset), width, start)
        places[name], start = Affine(np.zeros(len(vector.offset)), place), start + len(vector.offset)
    return np.hstack([vector.at(states).T for vector in vectors.values()]), places


def _is_selection(vector: Affine) -> bool:
    """Return whether every number is one entry of the state, or zero."""
    ones = np.isin(vector.matrix, (0.0, 1.0)).all() and not vector.offset.any()
    return bool(ones and (np.count_nonzero(vector.matrix, axis=1) <= 1).all() and vector.matrix.shape[1])


def _short(vector: Affine) -> dict[str, Any]:
    """Return entries of the state by number (-1 is zero), where that is all; else offset and matrix."""
    if _is_selection(vector):
        place = np.argmax(vector.matrix, axis=1)
        return {"take": [int(k) if row[k] else -1 for k, row in zip(place, vector.matrix, strict=True)]}
    return {"offset": encode_numbers(vector.offset), "matrix": encode_numbers(vector.matrix)}


def moving(subject: Subject, largest: int = LARGEST, first: Sequence[int] = ()) -> Moving:
    """Return all that a page of at most ``largest`` bytes needs; rows and points are thinned out if it is more.

    ``first`` are inputs that come before the others where one is put on the x axis.
    """
    X, y, X_val, y_val = subject.targets()
    path = path_of(subject.estimator, X, y)
    stops = path.stops()
    curves, lines = _curves(subject, path, stops, X_val, y_val)
    inputs = _inputs(subject, path, first)
    rows, points = 400, 1.0
    while True:
        drawing = _draw(subject, path, stops, (X_val, y_val), (curves, lines), inputs, rows, points)
        if drawing.size() <= largest or rows <= 10:
            return drawing
        rows, points = int(0.7 * min(rows, max(y.size, y_val.size))), max(0.8 * points, 0.2)


def _curves(
    subject: Subject, path: ModelPath, stops: Array, X_val: Array, y_val: Array
) -> tuple[tuple[DrawnCurve, ...], tuple[tuple[str, float], ...]]:
    """Return errors of all rows at every stop, counts, and the bound on the error by which the weight was chosen."""
    states, y = path.states(stops), path.y
    fitted = path.predictions(path.X).at(states)
    errors = y[:, None] - fitted
    if isinstance(path, GammaPath):
        errors = path.multipliers.at(states) / stops
        fitted = y[:, None] - errors
    curves = [DrawnCurve("RMSE, training rows", _root(errors), "train")]
    if y_val.size:
        outside = path.predictions(X_val).at(states)
        wrong = y_val[:, None] - outside
        curves.append(DrawnCurve("RMSE, held-out rows", _root(wrong), "held"))
        scatter = float(np.sum((y_val - y_val.mean()) ** 2))
        if scatter > 0.0 and not subject.classes:
            curves.append(DrawnCurve("R², held-out rows", 1.0 - np.sum(wrong**2, axis=0) / scatter))
        if subject.classes:
            curves.append(
                DrawnCurve(
                    "wrong side of zero, held-out rows (share)", np.mean(outside * y_val[:, None] <= 0.0, axis=0)
                )
            )
    if subject.classes:
        curves.append(
            DrawnCurve("wrong side of zero, training rows (share)", np.mean(fitted * y[:, None] <= 0.0, axis=0))
        )
    if isinstance(path, GammaPath):
        left_out = path.multipliers.at(states) / path.leverages.at(states)
        curves.append(DrawnCurve("RMSE, each row left out", _root(left_out), "loo"))
        curves.append(DrawnCurve("degrees of freedom", path.degrees_of_freedom(stops)))
    if isinstance(path, ZetaPath):
        a, slack = path.multipliers.at(states), stops - np.abs(path.correlations.at(states))
        curves.append(DrawnCurve("support vectors", np.count_nonzero(a, axis=0).astype(np.float64), whole=True))
        curves.append(DrawnCurve("largest |multiplier × slack|", np.abs(a * slack).max(axis=0)))
    if isinstance(path, RhoPath):
        count = len(path.kernel.components(path.X.shape[1]))
        values = np.array([path.component(k, path.X).at(states) for k in range(count)])
        levels = np.abs(values).max(axis=1)
        used = levels > subject.estimator.relevance * levels.max(axis=0)
        curves.append(DrawnCurve("inputs in use", used.sum(axis=0).astype(np.float64), whole=True))
        xi = np.array([path.component_multipliers(k).at(states) for k in range(count)])
        curves.append(
            DrawnCurve("largest |multiplier × slack|", np.abs(xi * (levels[:, None] - np.abs(values))).max((0, 1)))
        )
    return tuple(curves), _bound(subject)


def _root(errors: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(errors**2, axis=0)))


def _bound(subject: Subject) -> tuple[tuple[str, float], ...]:
    """Return the lower bound of the error over the range of the weight, where it is one of this machine alone."""
    bound = np.ravel(getattr(subject.estimator, "criterion_lower_bound_", -np.inf))
    alone = bound.size == 1 and len(subject.classes) <= 2 and np.ndim(to_numpy(subject.y)) == 1
    judged = getattr(subject.estimator, "cv", "loo")
    by_rows = judged is None and len(subject.y_val) > 0
    if not alone or not (by_rows or judged == "loo") or not np.isfinite(bound[0]):
        return ()
    which = "held-out rows" if judged is None else "each row left out"
    return ((f"lower bound, {which}", float(np.sqrt(max(bound[0], 0.0)))),)


def _some(count: int, most: int) -> Any:
    """Return all rows, or so many at equal distances."""
    return np.arange(count) if count <= most else np.unique(np.linspace(0, count - 1, most).astype(int))


def _draw(
    subject: Subject,
    path: ModelPath,
    stops: Array,
    validation: tuple[Array, Array],
    extras: tuple[tuple[DrawnCurve, ...], tuple[tuple[str, float], ...]],
    inputs: tuple[int, ...],
    most: int,
    share: float,
) -> Moving:
    X_val, y_val = validation
    rows, rows_val = _some(path.y.size, most), _some(y_val.size, most)
    constants = {"y": path.y[rows], "y_held": y_val[rows_val], "ends": np.array([path.y.min(), path.y.max()])}
    vectors = {"held": path.predictions(X_val[rows_val])} if rows_val.size else {}
    if isinstance(path, GammaPath):
        vectors["alpha"] = path.multipliers.some(rows)
    else:
        vectors["train"] = path.predictions(path.X[rows])
    if isinstance(path, ZetaPath):
        vectors |= {"a": path.multipliers.some(rows), "c": path.correlations.some(rows)}
    middle, points = np.median(path.X, axis=0), max(int(share * (_POINTS if len(inputs) == 1 else _FEW)), 20)
    for k, column in enumerate(inputs):
        grid = np.linspace(path.X[:, column].min(), path.X[:, column].max(), points)
        at = np.tile(middle, (points, 1))
        at[:, column] = grid
        unscaled = [
            subject.own_units(column, values) for values in (grid, path.X[rows, column], X_val[rows_val, column])
        ]
        constants |= dict(zip((f"grid{k}", f"x{k}", f"x_held{k}"), unscaled, strict=True))
        if isinstance(path, RhoPath):
            vectors |= {f"curve{k}": path.component(column, at), f"part{k}": path.component(column, path.X[rows])}
            vectors[f"xi{k}"] = path.component_multipliers(column).some(rows)
        else:
            vectors[f"curve{k}"] = path.predictions(at)
    start = int(np.argmin(np.abs(stops - path.chosen)))
    curves, lines = extras
    return Moving(
        path=path,
        stops=stops,
        start=start,
        vectors=vectors,
        constants=constants,
        curves=curves,
        lines=lines,
        inputs=inputs,
        notes=_notes(subject, path, rows, rows_val, inputs),
    )


def _inputs(subject: Subject, path: ModelPath, first: Sequence[int]) -> tuple[int, ...]:
    """Return the inputs that can be on the x axis: numbers that vary, at most six; of components the largest."""
    moves = np.ptp(path.X, axis=0) > 0.0
    order = np.array([*first, *(k for k in range(path.X.shape[1]) if k not in first)], dtype=int)
    order_found = order[(moves & ~subject.coded)[order]]
    if isinstance(path, RhoPath):
        components = path.kernel.components(path.X.shape[1])
        if [component.columns for component in components] != [(k,) for k in range(path.X.shape[1])]:
            return ()
        order = np.argsort(-np.atleast_2d(subject.estimator.maximal_variation_)[0], kind="stable")
        order_found = order[np.isin(order, order_found)]
    return tuple(int(k) for k in order_found[:_INPUTS])


def _notes(subject: Subject, path: ModelPath, rows: Array, rows_val: Array, inputs: Sequence[int]) -> tuple[str, ...]:
    notes = []
    if rows.size < path.y.size or rows_val.size < len(subject.y_val):
        drawn = f"{rows.size} of {path.y.size} training rows and {rows_val.size} of {len(subject.y_val)} held-out rows"
        notes.append(f"To keep the page small, {drawn} are drawn; the errors are those of all rows.")
    if len(inputs) < len(subject.features) and len(inputs):
        notes.append(
            f"{len(inputs)} of {len(subject.features)} inputs can be put on the x axis, the most important first."
        )
    if len(subject.classes) > 2:
        notes.append(f"Of the machines of this classifier the first is shown; +1 is {subject.plus}.")
    if np.ndim(to_numpy(subject.y)) == 2:
        notes.append("The first of several outputs is shown.")
    return tuple(notes)
