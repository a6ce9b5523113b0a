r"""The sets of components that maximal variation selects, for every rho of its exact path.

Component l is selected where it varies by more than a share r of the largest,

.. math:: t_l(\rho) > r \max_m t_m(\rho) .

Between knots every t is affine in rho, so that :math:`t_l - r\, t_m` changes its sign at most once for each pair: a
component is selected on one interval of a segment, whose ends are roots of affine functions, and the selected set
changes finitely often over all rho. Whatever is computed from the selected inputs alone, the error of a machine that is
refitted to them for instance, is piecewise constant in rho, and its minimum over **all** rho is found by enumeration.

Knots are known to rounding. Let g be the duality gap along a segment (:mod:`.chord_certificate`), so that the exact
:math:`u^\star` is within :math:`\sqrt g` of the computed u. The terms
:math:`\rho t_l - \xi^{lT} B^l u \ge 0` of the gap add up to g, at the optimum too, and
:math:`\|B^l u\|_\infty \ge \xi^{lT} B^l u / \rho`; hence

.. math:: |t_l^\star - t_l| \le \frac{g}{\rho} + \frac{\|B^{lT} \xi^l\|}{\rho} \sqrt g , \qquad
          t_l^\star \le \frac{g}{\rho - \|\xi^l\|_1} ,

and the longest row of :math:`B^l` may stand for :math:`\|B^{lT} \xi^l\| / \rho`. Up to the first knot
:math:`u^\star` is within :math:`\rho` times the sum of the longest rows of :math:`\tilde y`. Where a comparison is
decided by less than these bounds, a component is neither certainly selected nor certainly not, and every subset of such
components counts. Where too many are undecided (next to the rho at which all components vanish together, t is rounding)
the interval is listed as one on which nothing is known.

A component is exactly zero on a segment where its multipliers leave slack, :math:`\|\xi^l\|_1 < \rho`: with an
expansion for each component, or with kernels of finite rank. It is not selected then. Multipliers of a zero component
are not unique, and those of a path need not leave slack; so at r = 0, where nothing but zero is not selected, a
component whose level is within rounding of zero at both ends of a segment counts as zero on it too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, pairwise, product

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding, sum_rounding
from substrate.penalized.homotopy.knots import Path
from substrate.penalized.homotopy.tracks import VariationFold, VariationKnots

__all__ = ["SelectedSets", "merge_sets", "select_along_path", "supports_along_paths"]

Mask = NDArray[np.bool_]

#: Most undecided components of which all subsets are enumerated.
_MOST_UNDECIDED = 5
#: Relative slack of the multipliers at which a component counts as exactly zero, and the level that rounding leaves.
_SLACK, _NEARLY_ZERO = 1e-7, 1e-6
#: Share of the largest level that is rounding, of a component that is zero.
_ROUNDED_ZERO = 1e-9
#: Share of the first knot up to which a path is bounded by its begin.
_BEGIN = 1e-6
_TINY = float(np.finfo(np.float64).tiny)
#: Numbers compared at a time.
_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class SelectedSets:
    """Cells of rho, ascending, with the components selected on each; one path, or one for each of several rounds.

    Parameters
    ----------
    edges
        The ends of the cells, one more than there are cells; the last is infinite where nothing changes beyond.
    certain, possible
        Masks of shape (cells, rounds, components): selected for certain, and perhaps.
    is_covered
        Whether a path is known on a cell at all.
    """

    edges: Array
    certain: Mask
    possible: Mask
    is_covered: Mask

    def __len__(self) -> int:
        return int(self.certain.shape[0])

    @property
    def is_decided(self) -> Mask:
        """Whether the selected sets of a cell are known."""
        return np.asarray(self.is_covered & (self.certain == self.possible).all(axis=(1, 2)))

    @property
    def is_enumerated(self) -> Mask:
        """Whether the selected sets of a cell are among finitely many that are enumerated."""
        undecided = (self.certain != self.possible).sum(axis=(1, 2))
        return np.asarray(self.is_covered & (undecided <= _MOST_UNDECIDED))

    def sets_of(self, cell: int) -> Iterator[tuple[tuple[int, ...], ...]]:
        """Yield the sets that may be selected on a cell: for each round, the numbers of its components."""
        by_round = []
        for certain, possible in zip(self.certain[cell], self.possible[cell], strict=True):
            inside, undecided = np.flatnonzero(certain).tolist(), np.flatnonzero(possible & ~certain).tolist()
            subsets = chain.from_iterable(combinations(undecided, size) for size in range(len(undecided) + 1))
            by_round.append([tuple(sorted((*inside, *subset))) for subset in subsets])
        yield from product(*by_round)

    def value_inside(self, cell: int) -> float:
        """Return a rho inside a cell, away from its ends."""
        low, high = float(self.edges[cell]), float(self.edges[cell + 1])
        if np.isinf(high):
            return 2.0 * low if low > 0.0 else 1.0
        return 0.5 * (low + high)

    def join(self, cells: Mask) -> tuple[tuple[float, float], ...]:
        """Return the marked cells as intervals, neighbours joined."""
        marked = np.concatenate([[False], cells, [False]])
        starts, stops = np.flatnonzero(marked[1:] & ~marked[:-1]), np.flatnonzero(marked[:-1] & ~marked[1:])
        pairs = zip(starts, stops, strict=True)
        return tuple((float(self.edges[start]), float(self.edges[stop])) for start, stop in pairs)


def select_along_path(folds: Sequence[VariationFold], relevance: float) -> SelectedSets:
    """Return the sets that the machines of one round select together, for every rho.

    A component is selected where some machine varies by more than ``relevance`` times the largest variation of all.

    :place [Pelckmans2005]_ end of section 3.1: structure is detected, then a classical model predicts
    """
    if relevance >= 1.0:  # nothing varies by more than the largest
        none = np.zeros((1, 1, folds[0].knots.B.shape[0]), dtype=bool)
        return SelectedSets(np.array([0.0, np.inf]), none, none, np.ones(1, dtype=bool))
    tops = [float(fold.path.values[-1]) for fold in folds]
    begins = [_BEGIN * fold.path.values[1] for fold in folds if len(fold.path) > 1]
    values = np.unique(np.concatenate([[0.0], begins, *(fold.path.values for fold in folds)]))
    known = min([np.inf, *(top for top, fold in zip(tops, folds, strict=True) if not fold.path.constant_above)])
    values = values[values <= known]
    levels, margins, zeros = zip(*(_levels_on(fold, values, relevance) for fold in folds), strict=True)
    count = folds[0].knots.B.shape[0]
    ends = (
        np.concatenate([level[:-1] for level in levels], axis=1),
        np.concatenate([level[1:] for level in levels], axis=1),
    )
    certain, possible, starts = _select(
        values, ends, np.concatenate(margins, axis=1), np.concatenate(zeros, axis=1), count, relevance
    )
    middles = 0.5 * (starts + np.append(starts[1:], values[-1]))
    is_covered = np.array([all(fold.path.covers(float(at)) for fold in folds) for at in middles], dtype=bool)
    if np.isinf(known):  # beyond its last knot every machine is its bias
        beyond = np.zeros((1, count), dtype=bool)
        certain, possible = np.concatenate([certain, beyond]), np.concatenate([possible, beyond])
        starts, is_covered = np.append(starts, values[-1]), np.append(is_covered, True)
    edges = np.append(starts, known)
    return _compress(SelectedSets(edges, certain[:, None], possible[:, None], is_covered))


def supports_along_paths(paths: Sequence[Path]) -> SelectedSets:
    """Return the support of the machines of one round, one after the other, for every zeta that all paths cover.

    An atom is in the support on a segment where its coefficient is not zero at both ends; the supports are those of the
    paths as double precision follows them, each taken for certain.
    """
    low = max(float(path.values[0]) for path in paths)
    ends = [float(path.values[-1]) for path in paths if not path.constant_above]
    high = min([np.inf, *ends])
    values = np.unique(np.concatenate([[low], *(path.values for path in paths)]))
    starts = values[(values >= low) & (values < high)]
    masks = []
    for path in paths:
        used = np.array([path.primal[number] != 0.0 for number in range(len(path))])
        on_segments = np.vstack([used[:-1] | used[1:], np.zeros((1, used.shape[1]), dtype=bool)])
        masks.append(on_segments[np.searchsorted(path.values, starts, side="right") - 1])
    mask = np.concatenate(masks, axis=1)[:, None]
    middles = 0.5 * (starts + np.append(starts[1:], starts[-1]))
    is_covered = np.array([all(path.covers(float(at)) for path in paths) for at in middles], dtype=bool)
    return _compress(SelectedSets(np.append(starts, high), mask, mask, is_covered))


def merge_sets(rounds: Sequence[SelectedSets]) -> SelectedSets:
    """Return the cells of several rounds together: on each, the sets of every round are constant."""
    width = max(sets.certain.shape[2] for sets in rounds)
    rounds = [_pad(sets, width) for sets in rounds]
    low, high = max(float(sets.edges[0]) for sets in rounds), min(float(sets.edges[-1]) for sets in rounds)
    inner = np.unique(np.concatenate([sets.edges[:-1] for sets in rounds]))
    starts = inner[(inner >= low) & (inner < high)]
    places = [np.searchsorted(sets.edges, starts, side="right") - 1 for sets in rounds]
    pairs = list(zip(rounds, places, strict=True))
    merged = SelectedSets(
        edges=np.append(starts, high),
        certain=np.concatenate([sets.certain[place] for sets, place in pairs], axis=1),
        possible=np.concatenate([sets.possible[place] for sets, place in pairs], axis=1),
        is_covered=np.all([sets.is_covered[place] for sets, place in pairs], axis=0),
    )
    return _compress(merged)


def _pad(sets: SelectedSets, width: int) -> SelectedSets:
    """Return the same sets with more members, none of which is selected."""
    none = ((0, 0), (0, 0), (0, width - sets.certain.shape[2]))
    return replace(sets, certain=np.pad(sets.certain, none), possible=np.pad(sets.possible, none))


def _levels_on(fold: VariationFold, values: Array, relevance: float) -> tuple[Array, Array, Mask]:
    """Return the levels at common knots, and on the segments between them how far off they may be and exact zeros."""
    knots, own = fold.knots, fold.path.values
    variations, d = knots.variations(), knots.B.shape[0]
    levels = np.column_stack([np.interp(values, own, variations[:, number]) for number in range(d)])
    if own.size < 2:  # no component does anything
        return 0.0 * levels, np.zeros((values.size - 1, d)), np.ones((values.size - 1, d), dtype=bool)
    bounds = _LevelBounds.of(knots)
    place = np.clip(np.searchsorted(own, values[:-1], side="right") - 1, 0, own.size - 2)
    margins = bounds.margins_from(place, values[:-1])
    begin = values[1:] <= _BEGIN * own[1]
    margins[begin] = bounds.longest * (values[1:][begin, None] * float(bounds.longest.sum()) + bounds.rounding)
    zeros = bounds.zeros(variations, own)
    if relevance == 0.0:
        zeros |= np.maximum(variations[:-1], variations[1:]) <= _ROUNDED_ZERO * float(variations[0].max())
    zeros = zeros[place]
    if fold.path.constant_above:
        passed = values[:-1] >= own[-1]
        levels[values >= own[-1]] = 0.0
        margins[passed], zeros[passed] = 0.0, True
    return levels, margins, zeros


@dataclass(frozen=True, slots=True)
class _LevelBounds:
    """What bounds the levels of the exact path: gaps on the segments, multipliers at the knots.

    ``gaps`` is one number per segment, ``pulls`` and ``sizes`` have the norms of B'xi and of xi, one row per knot,
    ``longest`` the length of the longest row of every component, and ``rounding`` is that of a product with u.
    """

    gaps: Array
    pulls: Array
    sizes: Array
    longest: Array
    rounding: float

    @classmethod
    def of(cls, knots: VariationKnots) -> "_LevelBounds":
        """Compute the bounds, with the rounding of everything in them."""
        (d, n, r), rho, track = knots.B.shape, knots.values, knots.track()
        longest, size = np.linalg.norm(knots.B, axis=2).max(axis=1), float(np.linalg.norm(knots.target))
        net = knots.multipliers.copy()
        net.sum_duplicates()  # both signs of a row cancel: what is left is below rho where a component is zero
        parts = [net[:, number * n : (number + 1) * n] for number in range(d)]
        sizes = np.column_stack([np.asarray(abs(part).sum(axis=1)).ravel() for part in parts])
        pulls = np.column_stack([np.linalg.norm(part @ knots.B[number], axis=1) for number, part in enumerate(parts)])
        lengths = np.linalg.norm(knots.u, axis=1)
        # of u as the multipliers leave it, of the levels, and of the products in gaps and cross terms
        displaced = sum_rounding(1.0) * (np.diff(net.indptr) + 4.0) * (np.minimum(sizes, rho[:, None]) @ longest + size)
        of_levels = sum_rounding(r + 2.0) * rho * float(longest.sum()) * lengths
        totals = rho * knots.variations().sum(axis=1) + lengths * (lengths + size)
        rounding = at_most(1.0) * (lengths * displaced + of_levels + sum_rounding(r + 8.0) * totals)
        gaps = track.gaps + rounding
        crosses = np.maximum(track.crosses, 0.0) + 2.0 * (rounding[:-1] + rounding[1:])
        return cls(
            gaps=np.maximum(gaps[:-1], gaps[1:]) + 0.25 * crosses,
            pulls=pulls,
            sizes=sizes,
            longest=longest,
            rounding=sum_rounding(r + 2.0) * size,
        )

    def margins_from(self, segments: NDArray[np.int64], rho: Array) -> Array:
        """Return how far the exact levels may be off, on segments from the given rho on, one column per component."""
        gaps, low = self.gaps[segments, None], np.maximum(rho, _TINY)[:, None]
        with np.errstate(over="ignore"):
            pulled = np.maximum(self.pulls[segments], self.pulls[segments + 1]) / low
            far = np.minimum(at_most(1.0) * pulled, self.longest) * np.sqrt(gaps)
            return np.asarray(far + gaps / low + self.longest * self.rounding)

    def zeros(self, variations: Array, rho: Array) -> Mask:
        """Mark the components that are exactly zero on a segment: their multipliers leave slack."""
        middle, between = 0.5 * (self.sizes[:-1] + self.sizes[1:]), 0.5 * (rho[:-1] + rho[1:])[:, None]
        slack = between - middle
        high = np.maximum(variations[:-1], variations[1:])
        with np.errstate(divide="ignore", over="ignore"):
            most = np.where(slack > 0.0, self.gaps[:, None] / slack, np.inf)
        nearly = _NEARLY_ZERO * high.max(axis=1, keepdims=True)
        return np.asarray(
            (slack > _SLACK * between) & (high <= nearly + self.longest * self.rounding) & (most <= nearly)
        )


def _select(
    values: Array, ends: tuple[Array, Array], margins: Array, zeros: Mask, count: int, relevance: float
) -> tuple[Mask, Mask, Array]:
    """Return masks of the selected components on pieces of the segments, and where the pieces begin."""
    segments, rows = margins.shape
    certain, possible, starts = [np.zeros((0, count), dtype=bool)], [np.zeros((0, count), dtype=bool)], [np.zeros(0)]
    step = max(1, _AT_ONCE // max(rows * rows, 1))
    for begin in range(0, segments, step):
        block = slice(begin, min(begin + step, segments))
        intervals = np.stack(_intervals(ends[0][block], ends[1][block], margins[block], zeros[block], relevance))
        cut = np.asarray(((intervals > 0.0) & (intervals < 1.0)).any(axis=(0, 2)))
        for first, last in pairwise([0, *(np.flatnonzero(np.diff(cut)) + 1), cut.size]):
            if not cut[first]:  # a run of segments without a crossing: one piece each
                pieces, at = np.arange(first, last), np.zeros(last - first)
                middles = np.full((last - first, 1), 0.5)
            else:
                cuts = [_pieces(intervals[:, number]) for number in range(first, last)]
                pieces, at = np.repeat(np.arange(first, last), [len(each) for each in cuts]), np.concatenate(cuts)
                middles = np.concatenate([0.5 * (each + np.append(each[1:], 1.0)) for each in cuts])[:, None]
            low, high, low_perhaps, high_perhaps = intervals[:, pieces]
            inside = (middles > low) & (middles < high)
            perhaps = (middles > low_perhaps) & (middles < high_perhaps)
            certain.append(inside.reshape(pieces.size, -1, count).any(axis=1))
            possible.append(perhaps.reshape(pieces.size, -1, count).any(axis=1))
            segment = begin + pieces
            starts.append(values[segment] + at * (values[segment + 1] - values[segment]))
    return np.concatenate(certain), np.concatenate(possible), np.concatenate(starts)


def _pieces(intervals: Array) -> Array:
    """Return where the pieces of one segment begin: at its start, and at every end of an interval inside."""
    cuts = np.unique(np.append(0.0, intervals))
    return cuts[(cuts >= 0.0) & (cuts < 1.0)]


def _intervals(
    first: Array, last: Array, margins: Array, zeros: Mask, relevance: float
) -> tuple[Array, Array, Array, Array]:
    """Return the ends, from 0 to 1 on each segment, of where a row is selected for certain, and perhaps."""
    before = first[:, :, None] - relevance * first[:, None, :]
    after = last[:, :, None] - relevance * last[:, None, :]
    doubt = margins[:, :, None] + relevance * margins[:, None, :]
    doubt = doubt + relative_rounding(8.0) * (np.abs(before) + np.abs(after))
    certain, perhaps = _where_positive(before - doubt, after - doubt), _where_positive(before + doubt, after + doubt)
    for _, high in (certain, perhaps):
        high[zeros] = 0.0
    return *certain, *perhaps


def _where_positive(before: Array, after: Array) -> tuple[Array, Array]:
    """Return the interval of [0, 1] on which affine functions, given at both ends, are all positive; empty if low >=
    high.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = before / (before - after)
    low = np.where((before <= 0.0) & (after > 0.0), crossing, 0.0).max(axis=2)
    high = np.where((before > 0.0) & (after <= 0.0), crossing, 1.0).min(axis=2)
    return low, np.where(((before <= 0.0) & (after <= 0.0)).any(axis=2), 0.0, high)


def _compress(sets: SelectedSets) -> SelectedSets:
    """Join cells that do not differ."""
    if not len(sets):
        return sets
    differs = (sets.certain[1:] != sets.certain[:-1]) | (sets.possible[1:] != sets.possible[:-1])
    first = np.append(True, differs.any(axis=(1, 2)) | (sets.is_covered[1:] != sets.is_covered[:-1]))
    edges = np.append(sets.edges[:-1][first], sets.edges[-1])
    return SelectedSets(edges, sets.certain[first], sets.possible[first], sets.is_covered[first])
