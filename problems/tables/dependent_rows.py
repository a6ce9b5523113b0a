"""Rows that depend on each other, because they are of one group or follow each other in time: how they are divided.

Rows of one patient, batch or site are alike, and so are neighbours in time. Where some of them train and others judge,
a model that knows the group again looks better than it is to new groups. Groups are therefore held out whole, and in
time the last rows are. The search leaves out whole groups; in time a regression predicts later rows from earlier ones,
since a kernel that follows a trend between its rows may know nothing beyond the last one, and a classification leaves
out every row with its neighbours (:mod:`substrate.least_squares.left_out_blocks`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems.tables.inputs import dates_of
from problems.tables.table import Table
from substrate.errors import DataError, DeclarationError

__all__ = ["INDEPENDENT", "SPLITS", "DependentRows", "check_split", "hold_out_last", "rule_of", "time_order"]

#: How rows can be held out.
SPLITS = ("random", "time")
#: Folds of a model that is not judged by a closed form.
_FOLDS = 5
#: Rows from which earlier ones can predict later ones in two folds, the first of them from two rows.
_FEWEST_IN_TIME = 4


@dataclass(frozen=True, slots=True, eq=False)
class DependentRows:
    """The group of every row (None: there are none), and whether the rows are in the order of time."""

    groups: NDArray[Any] | None = None
    in_time: bool = False

    @property
    def rule(self) -> str:
        """Return the rule of ``cv`` of a machine on all rows."""
        return rule_of(self.groups is not None, self.in_time)

    @property
    def is_independent(self) -> bool:
        """Return whether rows can be left out one by one."""
        return self.rule == "loo"

    def take(self, rows: Any) -> "DependentRows":
        """Return some of the rows."""
        return DependentRows(None if self.groups is None else self.groups[rows], self.in_time)

    def folds(self, n: int, task: str, seed: int = 0) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return folds of the rows: of whole groups, in time of rows that follow those that train, or drawn at random.

        Earlier rows need not have all classes: those of a classification are neighbours in time.
        """
        from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

        rows = np.empty((n, 0))
        if self.in_time and task == "regression" and n >= _FEWEST_IN_TIME:
            return list(TimeSeriesSplit(min(_FOLDS, max(n // _FEWEST_IN_TIME, 2))).split(rows))
        if self.in_time:
            return list(KFold(min(_FOLDS, n)).split(rows))
        if self.groups is None:
            return list(KFold(min(_FOLDS, n), shuffle=True, random_state=seed).split(rows))
        n_groups = np.unique(self.groups).size
        return list(GroupKFold(min(_FOLDS, n_groups)).split(rows, groups=self.groups))

    def hold_out(self, fraction: float, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return sorted rows that train, and whole groups, drawn at random, with about this share of the rows."""
        if self.groups is None:
            raise TypeError("internal error: only groups are drawn")
        _check_share(fraction)
        labels, numbers, sizes = np.unique(self.groups, return_inverse=True, return_counts=True)
        least = 2 if fraction == 0.0 else 3
        if labels.size < least:
            raise DataError(
                f"the column of --group has {labels.size} {'group' if labels.size == 1 else 'groups'}; at least "
                f"{least} are needed, of which two train; leave --group out, or name another column"
            )
        order = np.random.default_rng(seed).permutation(labels.size)
        n_held = int(np.searchsorted(np.cumsum(sizes[order]), fraction * numbers.size)) + 1 if fraction else 0
        is_held = np.isin(numbers, order[: min(n_held, labels.size - 2)])
        return np.flatnonzero(~is_held), np.flatnonzero(is_held)


#: Rows that do not depend on each other.
INDEPENDENT = DependentRows()


def hold_out_last(times: NDArray[Any], fraction: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows that train and the last ones, both in the order of time; equal times are not divided."""
    _check_share(fraction)
    order = np.argsort(times, kind="stable")
    if fraction == 0.0:
        return order, order[:0]
    n_train = times.size - max(int(np.ceil(fraction * times.size)), 1)
    first = int(np.searchsorted(times[order], times[order[min(n_train, times.size - 1)]]))
    if first < 2:
        raise DataError(
            f"{times.size} rows cannot be divided in time by --validation {fraction:g}, which would leave "
            f"{'no row' if first == 0 else 'one row'} to train; give more rows, or --split random"
        )
    return order[:first], order[first:]


def rule_of(has_groups: bool, in_time: bool) -> str:
    """Return what is left out together: single rows, groups, or blocks of neighbours, by the words of ``cv``."""
    if in_time:
        return "blocks"
    return "groups" if has_groups else "loo"


def time_order(table: Table, dates: Sequence[str]) -> NDArray[Any]:
    """Return the time of every row: its date in the first of the columns ``dates``, or its place where none is."""
    if not dates:
        return np.arange(table.n_rows)
    name = dates[0]
    if lacking := table.missing(name):
        raise DataError(
            f"column {name!r} of {table.source} has no value in {table.name_rows(lacking)}, so that --split time "
            "cannot order the rows; correct these cells, or use --split random"
        )
    found = dates_of(table.column(name))
    if found is None:
        raise DataError(f"column {name!r} of {table.source} is no column of dates in one clear format")
    first = min(found[1])
    return np.array([(day - first).total_seconds() for day in found[1]])


def check_split(split: str, group: str | None, model: str, weight: float | None) -> None:
    """Refuse what a model cannot do, before any work."""
    if split not in SPLITS:
        raise DeclarationError(f"--split must be one of {', '.join(SPLITS)}, received {split!r}")
    if (group is not None or split == "time") and model in ("robust", "stack") and weight is None:
        raise DeclarationError(
            f"--model {model} chooses by single rows left out; with --group or --split time take --model lssvm"
            f"{', or give --gamma' if model == 'robust' else ''}"
        )


def _check_share(fraction: float) -> None:
    if not 0.0 <= fraction < 1.0:
        raise DataError(f"--validation must be at least 0 and below 1, received {fraction:g}")
