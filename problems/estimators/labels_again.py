"""Training rows and labels of a classifier on a reduced basis once more, for a check of what is held now."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from problems.estimators.coded import codes_of
from problems.estimators.fit_data import FitData
from problems.estimators.given_again import refuse_strange_classes
from problems.estimators.reduced_machine import needs_targets
from substrate.namespaces import own_copy, to_numpy
from substrate.streaming.array_source import ArraySource
from substrate.streaming.coded_source import CodedSource, LabelCodes

__all__ = ["LabelsAgain"]


class LabelsAgain:
    """What classifiers on a reduced basis read their training rows by."""

    kernel: Any
    classes_: Any
    code_book_: Any

    @contextmanager
    def _reading_again(self, X: Any, y: Any) -> Iterator[FitData]:
        with self._passes() as passes:  # type: ignore[attr-defined]
            rows = self._streamed(X, y)  # type: ignore[attr-defined]
            if rows is not None:
                yield FitData(CodedSource(rows, LabelCodes(self.classes_, self.code_book_)), passes)
                return
            needs_targets(y)
            X, labels, _ = type(self)(self.kernel)._checked(X, y, None, numeric=False)  # type: ignore[call-arg, attr-defined]
            refuse_strange_classes(self, to_numpy(labels))
            yield FitData(ArraySource(X, own_copy(codes_of(labels, self.classes_, self.code_book_))), passes)
