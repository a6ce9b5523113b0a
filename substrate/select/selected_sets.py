r"""The sets of components or of atoms that a machine selects, for every value of its parameter along exact paths.

Component l of maximal variation is selected where it varies by more than a share r of the largest,

.. math:: t_l(\rho) > r \max_m t_m(\rho) .

Between knots every t is affine in rho, so that :math:`t_l - r\, t_m` changes its sign at most once for each pair, and
the selected set changes finitely often over all rho. Whatever is computed from the selected inputs alone, the error of
a machine that is refitted to them for instance, is piecewise constant in rho, and its minimum over **all** rho is found
by enumeration. The support of an L1 substrate changes at knots only. The sets are read from the paths as double
precision follows them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.fits.paths import Path
from substrate.select.path_bounds import Fold

__all__ = ["SelectedSets", "merge_sets", "select_along_path", "supports_along_paths"]

Mask = NDArray[np.bool_]

#: Share of the largest level that is rounding, of a component that is zero.
_ROUNDED_ZERO = 1e-9
#: Numbers compared at a time.
_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class SelectedSets:
    """Cells of a parameter, ascending, with what is selected on each; one path, or one for each of several rounds.

    Parameters
    ----------
    edges
        The ends of the cells, one more than there are cells; the last is infinite where nothing changes beyond.
    masks
        What is selected, of shape (cells, rounds, members).
    """

    edges: Array
    masks: Mask

    def __len__(self) -> int:
        return int(self.masks.shape[0])

    def sets_of(self, cell: int) -> tuple[tuple[int, ...], ...]:
        """Return the sets that are selected on a cell: for each round, the numbers of its members."""
        return tuple(tuple(np.flatnonzero(mask).tolist()) for mask in self.masks[cell])

    def value_inside(self, cell: int) -> float:
        """Return a value inside a cell, away from its ends."""
        low, high = float(self.edges[cell]), float(self.edges[cell + 1])
        if np.isinf(high):
            return 2.0 * low if low > 0.0 else 1.0
        return 0.5 * (low + high)


def select_along_path(folds: Sequence[Fold], relevance: float) -> SelectedSets:
    """Return the sets that the machines of one round select together, for every rho.

    A component is selected where some machine varies by more than ``relevance`` times the largest variation of all.

    :place [Pelckmans2005]_ end of section 3.1: structure is detected, then a classical model predicts
    """
    end = min(fold.path.highest for fold in folds)
    values = np.unique(np.concatenate([fold.path.values for fold in folds]))
    values = values[values <= end]

    def levels_at(places: Array) -> Array:
        """Return the levels of all machines, one row per place; beyond its last knot every machine is its bias."""
        columns = [
            np.where(places < fold.path.highest, np.interp(places, fold.path.values, level), 0.0)
            * (places < fold.path.values[-1])
            for fold in folds
            for level in np.asarray(fold.levels).T
        ]
        return np.column_stack(columns)

    edges = np.unique(np.concatenate([values, *_crossings(values, levels_at(values), relevance)]))
    edges = np.append(edges, np.inf) if np.isinf(end) else edges
    middles = 0.5 * (edges[:-1] + np.where(np.isinf(edges[1:]), 3.0 * edges[:-1] + 1.0, edges[1:]))
    levels, largest = levels_at(middles), max(float(np.asarray(fold.levels).max(initial=0.0)) for fold in folds)
    limit = np.maximum(relevance * levels.max(axis=1), _ROUNDED_ZERO * largest)
    masks = (levels > limit[:, None]).reshape(len(middles), len(folds), -1).any(axis=1)
    return _compress(SelectedSets(edges, masks[:, None]))


def _crossings(values: Array, levels: Array, relevance: float) -> list[Array]:
    """Return where a level crosses the given share of another, inside the segments between knots."""
    crossings, step = [np.zeros(0)], max(1, _AT_ONCE // max(levels.shape[1] ** 2, 1))
    for begin in range(0, values.size - 1, step):
        block = slice(begin, begin + step + 1)
        difference = levels[block, :, None] - relevance * levels[block, None, :]
        before, after = difference[:-1], difference[1:]
        segment, *_ = places = np.nonzero(before * after < 0.0)
        share = before[places] / (before[places] - after[places])
        crossings.append(values[block][segment] + share * np.diff(values[block])[segment])
    return crossings


def supports_along_paths(paths: Sequence[Path]) -> SelectedSets:
    """Return the support of the machines of one round, one after the other, for every zeta that all paths cover.

    An atom is in the support on a segment where its coefficient is not zero at both ends.
    """
    low, high = max(float(path.values[0]) for path in paths), min(path.highest for path in paths)
    values = np.unique(np.concatenate([[low], *(path.values for path in paths)]))
    starts = values[(values >= low) & (values < high)]
    masks = []
    for path in paths:
        used = path.primal.toarray() != 0.0
        on_segments = np.vstack([used[:-1] | used[1:], np.zeros((1, used.shape[1]), dtype=bool)])
        masks.append(on_segments[np.searchsorted(path.values, starts, side="right") - 1])
    return _compress(SelectedSets(np.append(starts, high), np.concatenate(masks, axis=1)[:, None]))


def merge_sets(rounds: Sequence[SelectedSets]) -> SelectedSets:
    """Return the cells of several rounds together: on each, the sets of every round are constant."""
    width = max(sets.masks.shape[2] for sets in rounds)
    low, high = max(float(sets.edges[0]) for sets in rounds), min(float(sets.edges[-1]) for sets in rounds)
    inner = np.unique(np.concatenate([sets.edges[:-1] for sets in rounds]))
    starts = inner[(inner >= low) & (inner < high)]
    masks = np.zeros((starts.size, len(rounds), width), dtype=bool)
    for number, sets in enumerate(rounds):
        place = np.searchsorted(sets.edges, starts, side="right") - 1
        masks[:, number, : sets.masks.shape[2]] = sets.masks[place, 0]
    return _compress(SelectedSets(np.append(starts, high), masks))


def _compress(sets: SelectedSets) -> SelectedSets:
    """Join cells that do not differ."""
    if not len(sets):
        return sets
    first = np.append(True, (sets.masks[1:] != sets.masks[:-1]).any(axis=(1, 2)))
    return SelectedSets(np.append(sets.edges[:-1][first], sets.edges[-1]), sets.masks[first])
