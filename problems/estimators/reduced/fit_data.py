"""The data of a fit on a reduced basis: rows with coded targets, and the settings of passes over them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.estimators.shared.coded import Classes
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.namespaces import namespace_of, own_copy, to_numpy
from substrate.streaming.array_source import ArraySource, CodedSource, LabelCodes, numbers, width_rows
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import Source
from substrate.streaming.survey import Labels, Survey, TargetSummary

__all__ = ["FitData"]


@dataclass(frozen=True, slots=True)
class FitData:
    """Rows and targets, one column per output; a summary of the targets, if known; the classes.

    ``survey`` is that of rows that are read in passes; None where they are in memory.
    """

    source: Source
    passes: OpenPasses
    targets: TargetSummary | None = None
    classes: Classes | None = None
    survey: Survey | None = None

    @classmethod
    def of_numbers(cls, X: Any, y: Array, passes: OpenPasses) -> "FitData":
        """Rows in memory and their targets."""
        return cls(ArraySource(X, y[:, None]), passes)

    @classmethod
    def of_labels(cls, X: Any, labels: Any, coding: str, passes: OpenPasses) -> "FitData":
        """Rows in memory and their labels."""
        classes = Classes.of(labels, coding)
        targets = _summary(classes, _counts(labels))
        return cls(ArraySource(X, own_copy(classes.codes(labels))), passes, targets, classes)

    @classmethod
    def of_stream(cls, rows: Source, survey: Survey, coding: str | None, passes: OpenPasses) -> "FitData":
        """Rows that are read in passes, after a first one."""
        if survey.count < 2:
            raise DataError(f"{rows.name} holds {survey.count} row; at least two are needed")
        if isinstance(survey.targets, Labels):
            classes = Classes.of(survey.targets.classes, "one_vs_rest" if coding is None else coding)
            coded = CodedSource(rows, LabelCodes(classes.names, classes.book))
            return cls(coded, passes, _summary(classes, survey.targets.counts), classes, survey)
        return cls(CodedSource(rows, numbers), passes, survey.targets, None, survey)

    @property
    def outputs(self) -> int:
        """The number of machines."""
        return 1 if self.classes is None else int(self.classes.book.shape[1])

    def width_rows(self) -> Any:
        """Rows that determine the width of a kernel: the same numbers wherever the rows are."""
        some, held = width_rows(self.source.n_rows), self.source.held
        if held is not None and some.size == self.source.n_rows:
            return held.X
        return self.passes.taken(self.source, some)


def _counts(labels: Any) -> Any:
    """The number of rows of each class, in the order of the classes."""
    names, counts = (to_numpy(part) for part in namespace_of(labels).unique_counts(labels))
    return counts[np.argsort(names)]  # the standard guarantees no order


def _summary(classes: Classes, counts: Any) -> TargetSummary:
    """The summary of the codes, by counting."""
    total, book = int(counts.sum()), classes.book
    return TargetSummary(total, np.asarray((counts / total) @ book), book.min(axis=0), book.max(axis=0))
