r"""The proof of a fusion along exact paths, as plain numbers.

The file has for every fold the numbers of its machine, and the multipliers (maximal variation) or coefficients (the L1
substrate) at the knots of its path. That these are on the path is not taken for granted: the gaps of the knots and of
the chords between them are computed again (:mod:`substrate.penalized.homotopy.tracks`), and with them the bound of
every interval (:mod:`substrate.penalized.homotopy.chord_certificate`).

Beyond the last knot the machine is its bias. Of maximal variation, u = 0 has no penalty, and the multipliers
:math:`\xi` of the last knot stay feasible for all larger rho, so that by weak duality

.. math:: \|u^\star_\rho\| \le \| \tilde y - \sum_l B^{lT} \xi^l \| \qquad \text{for all } \rho \ge \rho_{\text{last}} ;

of the L1 substrate, a = 0 has the same gap at every larger zeta.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.fusion.saved_proof import SavedProof, UnprovedError, arrays_under, refuse_numbers
from substrate.penalized.homotopy.chord_certificate import (
    interval_bounds,
    lowest_by_chords,
    merge_tracks,
    most_rows,
)
from substrate.penalized.homotopy.knots import Path, SparseRows
from substrate.penalized.homotopy.tracks import L1Fold, VariationFold

__all__ = ["PathProof"]

PathFold = L1Fold | VariationFold

#: The kinds of folds by the parameter of their path, with the names of their numbers and how many axes each has.
_KINDS: dict[str, tuple[type[L1Fold] | type[VariationFold], dict[str, int]]] = {
    "zeta": (L1Fold, {"Phi": 2, "y": 1, "below": 2, "y_val": 1}),
    "rho": (VariationFold, {"B": 3, "target": 1, "M": 2, "offsets": 1}),
}
#: The effect of rounding in the few operations of a bound.
_BELOW = 1.0 - 1e-10


@dataclass(frozen=True, kw_only=True)
class PathProof(SavedProof):
    """The proof along exact paths: one path and the numbers of its machine for every fold."""

    kinds = ("proof of a fusion along exact paths",)

    paths: tuple[Path, ...]
    machines: tuple[dict[str, Array], ...]

    @classmethod
    def of(cls, folds: Sequence[PathFold], statement: Mapping[str, Any]) -> "PathProof":
        """Copy the paths of all folds."""
        return cls(
            **statement,
            paths=tuple(fold.path for fold in folds),
            machines=tuple(fold.numbers for fold in folds),
        )

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the kinds of the paths, and all arrays."""
        arrays: dict[str, Any] = {}
        for number, (path, machine) in enumerate(zip(self.paths, self.machines, strict=True)):
            arrays |= {f"fold{number}.{name}": array for name, array in machine.items()}
            arrays |= {f"fold{number}.values": path.values}
            for name, rows in (("primal", path.primal), ("dual", path.dual)):
                arrays |= {f"fold{number}.{name}_{part}": array for part, array in _row_arrays(rows).items()}
        return {"folds": [path.parameter for path in self.paths]}, arrays

    @classmethod
    def read(cls, statement: dict[str, Any], archive: Any) -> "PathProof":
        """Return the proof of a file; raise where its numbers do not fit together."""
        paths, machines = [], []
        for number, parameter in enumerate(archive.content["folds"]):
            arrays = arrays_under(archive.arrays, f"fold{number}.")
            machine = {name: arrays[name] for name in _KINDS[parameter][1]}
            path = _read_path(parameter, arrays)
            if not _fit(parameter, path, machine):
                refuse_numbers()
            paths.append(path)
            machines.append(machine)
        if not paths or len(statement["names"]) != 1:
            refuse_numbers()
        return cls(**statement, paths=tuple(paths), machines=tuple(machines))

    def describe(self) -> tuple[tuple[str, str], ...]:
        """State how large the proof is."""
        knots = sum(len(path) for path in self.paths)
        return (("proof", f"{knots} knots of exact paths, {len(self.paths)} machines"),)

    def bound(self) -> float:
        """Compute the bound on the sums of the folds again."""
        ((low, high),) = self.box
        first = max(float(path.values[0]) for path in self.paths)
        last = max(float(path.values[-1]) for path in self.paths)
        if low < first or (math.isfinite(high) and high > min(float(path.values[-1]) for path in self.paths)):
            raise UnprovedError(f"the paths cover values from {first:g} to {last:g} only")
        bounds = [np.inf]
        if math.isinf(high):
            bounds.append(self._beyond())
            high = last
        if low < high:
            bounds.append(self._between(low, high))
        return _BELOW * min(bounds)

    def _between(self, low: float, high: float) -> float:
        """Return the bound over the values between two of them, up to the last knot of all paths."""
        # a path that ends before the others is followed on, with the same points: their gaps show whether it may be
        folds = [
            _KINDS[path.parameter][0].recall(_extend(path, high), machine)
            for path, machine in zip(self.paths, self.machines, strict=True)
        ]
        sources = [fold.knots for fold in folds if isinstance(fold, VariationFold)]
        if len(sources) == len(folds):
            return lowest_by_chords(sources, low, high, self.lower_bound * self.divisor / _BELOW)
        tracks = [fold.track if isinstance(fold, L1Fold) else fold.knots.track() for fold in folds]
        inside = np.unique(np.concatenate([track.values for track in tracks]))
        values = np.unique(np.concatenate([[low], inside[(inside > low) & (inside < high)], [high]]))
        return float(interval_bounds(*merge_tracks(tracks, values), most_rows(tracks))[0].min())

    def _beyond(self) -> float:
        """Return the bound over all values beyond the last knots."""
        total = 0.0
        for path, machine in zip(self.paths, self.machines, strict=True):
            fold = _KINDS[path.parameter][0].recall(path, machine)
            if isinstance(fold, VariationFold):
                length = float(np.linalg.norm(np.abs(fold.knots.u[-1]) + fold.knots.moves[-1]))
                errors, radius = machine["offsets"], at_most(fold.knots.sigma * length)
            else:
                if np.asarray(path.primal[len(path) - 1]).any():
                    raise UnprovedError(
                        "the machine of a last knot is more than its bias: larger values are not covered"
                    )
                errors = fold.track.errors[-1]
                sigma = float(np.ravel(fold.track.sigma)[-1]) if np.size(fold.track.sigma) else 0.0
                floors = fold.track.floors
                floor = 0.0 if floors is None or not floors.size else float(floors[-1])
                radius = math.sqrt(sigma**2 * float(fold.track.gaps[-1]) + floor)
            norm = float(np.linalg.norm(errors)) * (1.0 - relative_rounding(errors.size + 4.0))
            total += max(norm - radius, 0.0) ** 2
        return total


def _row_arrays(rows: Array | SparseRows) -> dict[str, Any]:
    if isinstance(rows, SparseRows):
        return {"starts": rows.starts, "index": rows.index, "value": rows.value, "width": np.array(rows.width)}
    return {"rows": rows}


def _read_rows(arrays: Mapping[str, Any], name: str) -> Array | SparseRows:
    if f"{name}_rows" in arrays:
        return np.asarray(arrays[f"{name}_rows"], dtype=float)
    starts, index, value = (arrays[f"{name}_{part}"] for part in ("starts", "index", "value"))
    width = int(arrays[f"{name}_width"])
    fits = starts.ndim == index.ndim == value.ndim == 1 and starts.dtype.kind == index.dtype.kind == "i"
    fits = fits and starts.size > 1 and starts[0] == 0 and starts[-1] == index.size == value.size
    fits = fits and bool((np.diff(starts) >= 0).all()) and index.min(initial=0) >= 0
    if not (fits and index.max(initial=0) < max(width, 1) and np.isfinite(value).all()):
        refuse_numbers()
    return SparseRows(starts, index, value, width)


def _read_path(parameter: str, arrays: Mapping[str, Any]) -> Path:
    values = arrays["values"]
    return Path(
        parameter=str(parameter),
        values=values,
        primal=_read_rows(arrays, "primal"),
        dual=_read_rows(arrays, "dual"),
        bias=np.zeros(values.size),
        finished=True,
        constant_below=False,
        constant_above=False,
        stop="read from a proof",
        steps=0,
    )


def _fit(parameter: str, path: Path, machine: Mapping[str, Array]) -> bool:
    """Return whether the numbers of a fold fit together."""
    axes = _KINDS[parameter][1]
    fits = all(machine[name].ndim == count and bool(np.isfinite(machine[name]).all()) for name, count in axes.items())
    values, count = path.values, path.values.size
    fits = fits and values.ndim == 1 and count > 0 and bool((np.diff(values) > 0.0).all()) and float(values[0]) >= 0.0
    fits = fits and len(path.primal) == len(path.dual) == count and bool(np.isfinite(values).all())
    if not fits:
        return False
    if parameter == "zeta":
        (n, width), rows = machine["Phi"].shape, machine["y_val"].size
        fits = machine["y"].shape == (n,) and machine["below"].shape == (rows, width)
        return fits and _width(path.primal) == width and _width(path.dual) >= 1
    d, n, r = machine["B"].shape
    fits = machine["target"].shape == (r,) and machine["M"].shape == (machine["offsets"].size, r)
    return fits and _width(path.dual) == d * n


def _width(rows: Array | SparseRows) -> int:
    return rows.width if isinstance(rows, SparseRows) else int(rows.shape[1])


def _extend(path: Path, high: float) -> Path:
    """Return a path with one more knot, at a value beyond its last one: the same point."""
    if float(path.values[-1]) >= high:
        return path
    return replace(
        path,
        values=np.append(path.values, high),
        primal=_repeat_last(path.primal),
        dual=_repeat_last(path.dual),
        bias=np.append(path.bias, path.bias[-1:]),
    )


def _repeat_last(rows: Array | SparseRows) -> Array | SparseRows:
    if not isinstance(rows, SparseRows):
        return np.vstack([rows, rows[-1:]])
    entries = slice(rows.starts[-2], rows.starts[-1])
    return SparseRows(
        np.append(rows.starts, rows.starts[-1] + entries.stop - entries.start),
        np.append(rows.index, rows.index[entries]),
        np.append(rows.value, rows.value[entries]),
        rows.width,
    )
