"""What a fit on a reduced basis is made from: rows with coded targets, and how passes over them are made."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.estimators.shared.coded import classes_of, codes_of
from substrate.arrays import Array
from substrate.codings import code_book
from substrate.errors import DataError
from substrate.namespaces import namespace_of, own_copy, to_numpy
from substrate.streaming.array_source import ArraySource, CodedSource, LabelCodes, numbers, width_rows
from substrate.streaming.passes import Passes
from substrate.streaming.source import Source
from substrate.streaming.survey import Labels, Survey, TargetSummary

__all__ = ["Classes", "FitData"]


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a classification, their codes, a row each, and how many rows have them."""

    names: Any
    book: Array
    counts: Any

    @classmethod
    def of(cls, labels: Any, coding: str) -> "Classes":
        """From all labels, wherever they are."""
        names, counts = (to_numpy(part) for part in namespace_of(labels).unique_counts(labels))
        order = np.argsort(names)  # the standard promises none
        return cls.counted(Labels(names[order], counts[order]), coding)

    @classmethod
    def counted(cls, labels: Labels, coding: str) -> "Classes":
        """From labels that were counted."""
        names = classes_of(labels.classes)
        return cls(names, code_book(coding, names.size), labels.counts)

    @property
    def targets(self) -> TargetSummary:
        """The summary of the codes, by counting."""
        total = int(self.counts.sum())
        mean = np.asarray((self.counts / total) @ self.book)
        return TargetSummary(total, mean, self.book.min(axis=0), self.book.max(axis=0))

    def codes(self, labels: Any) -> Array:
        """The codes of labels, a row each, where the labels are."""
        codes: Array = own_copy(codes_of(labels, self.names, self.book))
        return codes


@dataclass(frozen=True, slots=True)
class FitData:
    """Rows and targets, one column per output; what is known of the targets already (None: nothing); the classes.

    ``survey`` is what was learnt of rows that are read in passes; None where they are in memory.
    """

    source: Source
    passes: Passes
    targets: TargetSummary | None = None
    classes: Classes | None = None
    survey: Survey | None = None

    @classmethod
    def of_numbers(cls, X: Any, y: Array, passes: Passes) -> "FitData":
        """Rows in memory and their targets."""
        return cls(ArraySource(X, y[:, None]), passes)

    @classmethod
    def of_labels(cls, X: Any, labels: Any, coding: str, passes: Passes) -> "FitData":
        """Rows in memory and their labels."""
        classes_of(labels)
        classes = Classes.of(labels, coding)
        return cls(ArraySource(X, classes.codes(labels)), passes, classes.targets, classes)

    @classmethod
    def of_stream(cls, rows: Source, survey: Survey, coding: str | None, passes: Passes) -> "FitData":
        """Rows that are read in passes, after a first one."""
        if survey.count < 2:
            raise DataError(f"{rows.name} holds {survey.count} row; at least two are needed")
        if isinstance(survey.targets, Labels):
            classes = Classes.counted(survey.targets, "one_vs_rest" if coding is None else coding)
            coded = CodedSource(rows, LabelCodes(classes.names, classes.book))
            return cls(coded, passes, classes.targets, classes, survey)
        return cls(CodedSource(rows, numbers), passes, survey.targets, None, survey)

    @property
    def outputs(self) -> int:
        """How many machines there are."""
        return 1 if self.classes is None else int(self.classes.book.shape[1])

    def width_rows(self) -> Any:
        """Rows by which a kernel finds its width: the same numbers wherever the rows are."""
        some, held = width_rows(self.source.n_rows), self.source.held
        if held is not None and some.size == self.source.n_rows:
            return held.X
        return self.passes.taken(self.source, some)
