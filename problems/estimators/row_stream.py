"""Rows that need not be in memory, for machines on a reduced basis: reading, resuming, and who does the work."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from problems.estimators.base import KernelEstimator
from problems.estimators.fit_data import FitData
from substrate.arrays import is_sparse
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel, as_kernel
from substrate.namespaces import is_device_array
from substrate.streaming.array_source import ArraySource
from substrate.streaming.checkpoint import Checkpoint, digest
from substrate.streaming.executors.choice import executor_of
from substrate.streaming.npy_source import NpySource, is_mapped
from substrate.streaming.passes import Passes
from substrate.streaming.source import Source
from substrate.streaming.sources import source_of, streams
from substrate.streaming.survey import Survey, SurveyOfLeaf
from substrate.streaming.target_summary import summary_of_targets
from substrate.whole_file import writable_file

__all__ = ["RowStream"]

#: Parameters that change how a fit is done and not what comes out.
_MEANS = ("executor", "memory_budget", "checkpoint", "verbose")


class RowStream(KernelEstimator):
    """The parameters ``executor``, ``memory_budget``, ``checkpoint`` and ``verbose``."""

    executor: Any
    memory_budget: float
    checkpoint: Any
    verbose: Any
    random_state: Any

    def __sklearn_clone__(self) -> Self:
        """A client is a connection and cannot be copied: a clone has the same one."""
        bare = copy(self)
        bare.executor = None
        made: Self = BaseEstimator.__sklearn_clone__(bare)
        made.executor = self.executor
        return made

    @contextmanager
    def _passes(self) -> Iterator[Passes]:
        with executor_of(self.executor) as executor:
            yield Passes(executor, self.memory_budget, None, bool(self.verbose))

    @contextmanager
    def _reading(self, X: Any, y: Any, *, coding: str | None = None) -> Iterator[FitData]:
        """The rows and targets of a fit, checked; ``coding`` None: targets are numbers."""
        self._check_means()
        with self._passes() as passes:
            data = self._data(X, y, coding, passes)
            if self.checkpoint is None:
                yield data
                return
            kept = Checkpoint(self.checkpoint, self._problem(data))
            yield replace(data, passes=replace(passes, checkpoint=kept))
            kept.done()

    def _check_means(self) -> None:
        executor_of(self.executor)
        if self.checkpoint is None:
            return
        if isinstance(self.random_state, bool) or not isinstance(self.random_state, Integral):
            raise DeclarationError(
                f"a checkpoint needs an integer random_state, received {self.random_state!r}: a basis drawn by another "
                "lot is another problem"
            )
        writable_file(self.checkpoint)

    def _data(self, X: Any, y: Any, coding: str | None, passes: Passes) -> FitData:
        rows = self._streamed(X, y)
        if rows is None:
            X, y, _ = self._checked(X, y, None, numeric=coding is None)
            if is_device_array(X):
                self._check_device_means()
            return FitData.of_numbers(X, y, passes) if coding is None else FitData.of_labels(X, y, coding, passes)
        self._take_names(rows)
        targets = "numbers" if coding is None else "labels"
        survey: Survey = passes.sums(rows, SurveyOfLeaf(targets, rows.name), "reading all rows")
        return FitData.of_stream(rows, survey, coding, passes)

    def _check_device_means(self) -> None:
        """On a device nobody else works and nothing is resumed."""
        for name in ("executor", "checkpoint"):
            if getattr(self, name) is not None:
                raise DeclarationError(
                    f"{name}={getattr(self, name)!r} is for rows that are read in passes, and X is on a device; leave "
                    f"{name} at None, or fit numpy arrays (X.cpu().numpy(), X.get())"
                )

    def _streamed(self, X: Any, y: Any) -> Source | None:
        """A source where rows are named as one, and for mapped files, which are read and not held."""
        if streams(X, y):
            return source_of(X, y)
        if self.__sklearn_tags__().input_tags.pairwise or not is_mapped(X, 2):
            return None
        return NpySource.mapped(X, y) if y is None or is_mapped(y, 1) else None

    def _take_names(self, rows: Source) -> None:
        self.n_features_in_ = rows.n_features
        if rows.feature_names is not None:
            self.feature_names_in_ = np.array(rows.feature_names, dtype=object)

    def _problem(self, data: FitData) -> str:
        survey = data.survey
        if survey is None and isinstance(data.source, ArraySource):
            rows = data.source.X.tocsr() if is_sparse(data.source.X) else data.source.X
            targets = data.passes.sums(data.source, summary_of_targets, "targets")
            return digest(self._what_is_fitted(), rows, targets)
        return digest(self._what_is_fitted(), survey)

    def _what_is_fitted(self) -> list[Any]:
        parameters = self.get_params(deep=False)
        return [type(self).__name__, *([key, parameters[key]] for key in sorted(parameters) if key not in _MEANS)]

    def _data_kernel(self, data: FitData) -> Kernel:
        """The kernel with its width, warned about where columns are on different scales."""
        kernel, survey = self._own_kernel(), data.survey
        if survey is None and isinstance(data.source, ArraySource):
            X = data.source.X
            if kernel.pairwise:
                return self._resolved_kernel(X)
            if not is_sparse(X):
                for columns in kernel.compared_columns(X.shape[1]):
                    self._warn_if_unscaled(X, columns, kernel)
        elif survey is not None:
            if kernel.pairwise:
                raise DataError(
                    f"a precomputed kernel matrix must be in memory, and {data.source.name} is read in passes"
                )
            for columns in kernel.compared_columns(survey.low.size):
                here = list(columns)
                with np.errstate(over="ignore"):
                    ranges = survey.high[here] - survey.low[here]
                self._warn_of_scales(columns, ranges, survey.standard_deviation[here], kernel)
        return next(_resolved([kernel], data))

    def _data_kernels(self, kernels: Any, data: FitData) -> list[Kernel]:
        """A list of candidates with their widths, each once."""
        return list(dict.fromkeys(_resolved([as_kernel(kernel) for kernel in kernels], data)))


def _resolved(kernels: list[Kernel], data: FitData) -> Iterator[Kernel]:
    """Kernels with their widths as numbers. Rows of a file are read for that once, and only where one has to be found.

    Whether it has to be is asked of the two rows of the survey: a kernel that they change depends on data.
    """
    rows = None if data.survey is not None else data.width_rows()
    for kernel in kernels:
        if rows is None and data.survey is not None:
            if kernel.resolved(np.stack([data.survey.low, data.survey.high])) == kernel:
                yield kernel
                continue
            rows = data.width_rows()
        yield kernel.resolved(rows)
