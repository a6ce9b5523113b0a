"""Rows that need not be in memory, for machines on a reduced basis: reading, resuming, prediction to files."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from problems.estimators.reduced.fit import FitData
from problems.estimators.reduced.weighed import ALIKE, Weighed
from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.checks import warn_if_unscaled, warn_of_scales
from problems.estimators.shared.coded import Classes, scores_of, winners
from substrate.arrays import Array, is_sparse
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel, as_kernel
from substrate.namespaces import HOST, is_device_array, on_device_of, where_it_lives
from substrate.reduced import Basis
from substrate.reduced.left_out import OutputsOfBlock
from substrate.reduced.linear_columns import LinearColumns
from substrate.reduced.rows import KernelValues
from substrate.streaming import Passes
from substrate.streaming.array_source import ArraySource
from substrate.streaming.dask_client import executor_of
from substrate.streaming.parquet_source import SUFFIXES, ParquetSource, column_file
from substrate.streaming.passes import Checkpoint, OpenPasses, digest
from substrate.streaming.source import Source
from substrate.streaming.sources import NpySource, files_behind, is_mapped, source_of, streams
from substrate.streaming.survey import Survey, SurveyOfLeaf, summary_of_targets
from substrate.streaming.weighed_source import WeighedSource, weights_of_source
from substrate.whole_file import refuse_inputs, writable_file

__all__ = ["RowStream"]


@dataclass(eq=False, repr=False, kw_only=True)
class RowStream(KernelEstimator):
    """The parameters ``basis`` and ``passes``, how rows are read by them, and ``predict_to``."""

    basis: Any = None
    passes: Any = None
    _readers: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        **KernelEstimator._readers,
        "basis": Basis.of,
        "passes": Passes.of,
    }
    #: The rule of a basis that names none.
    _rule: ClassVar[str] = "feature_vectors"
    #: Whether a fit divides the weights of its rows by their mean, and multiplies its gamma by it.
    _mean_one: ClassVar[bool] = False

    def _choice(self) -> Basis:
        """How the basis is chosen, every default filled in."""
        basis = Basis.of(self.basis)
        return basis if basis.rule is not None else basis.with_params(rule=self._rule)

    @contextmanager
    def _passes(self) -> Iterator[OpenPasses]:
        passes = Passes.of(self.passes)
        with executor_of(passes.executor) as executor:
            yield OpenPasses(executor, passes.memory_budget, None, bool(passes.verbose))

    @contextmanager
    def _reading(self, X: Any, y: Any, sample_weight: Any = None) -> Iterator[FitData]:
        """The rows, targets and weights of a fit, checked."""
        self._check_coding()
        self._check_means()
        with self._passes() as passes:
            data = self._data(X, y, sample_weight, getattr(self, "coding", None), passes)
            path = Passes.of(self.passes).checkpoint
            if path is None:
                yield data
                return
            kept = Checkpoint(path, self._problem(data))
            yield replace(data, passes=replace(passes, checkpoint=kept))
            kept.finish()

    def _check_coding(self) -> None:
        """Targets are numbers; classifiers have another one."""

    def _keep_classes(self, classes: Classes | None, codes: Any = None) -> None:
        """There are none; classifiers have another one."""

    def _check_means(self) -> None:
        path, seed = Passes.of(self.passes).checkpoint, self._choice().random_state
        if path is None:
            return
        if not isinstance(seed, Integral):
            raise DeclarationError(
                f"a checkpoint needs an integer basis.random_state, received {seed!r}: another draw of the basis is "
                "another problem"
            )
        writable_file(path)

    def _data(self, X: Any, y: Any, sample_weight: Any, coding: str | None, passes: OpenPasses) -> FitData:
        rows = self._streamed(X, y)
        if rows is None:
            X, y, weighed = self._held(X, y, sample_weight, coding is None, self._mean_one)
            held = (
                FitData.of_numbers(X, y, passes, weighed)
                if coding is None
                else FitData.of_labels(X, y, coding, passes, weighed)
            )
            if held.source.home != HOST:
                self._check_device_means()
            return held
        self._take_names(rows)
        rows, weighed = self._weighed(rows, sample_weight, self._mean_one)
        targets = "numbers" if coding is None else "labels"
        survey: Survey = passes.sums(rows, SurveyOfLeaf(targets, rows.name), "reading all rows")
        return FitData.of_stream(rows, survey, coding, passes, weighed)

    def _held(
        self, X: Any, y: Any, sample_weight: Any, numeric: bool, mean_one: bool = False
    ) -> tuple[Any, Any, Weighed]:
        """Rows of positive weight in memory, their targets, and their weights, checked."""
        X, y, weights = self._checked(X, y, sample_weight, numeric=numeric)
        factors = self._class_factors(y, weights)
        if sample_weight is None and factors is None:
            return X, y, ALIKE
        given, weights = int(X.shape[0]), weights if factors is None else weights * factors
        X, y, weights, kept = self._kept(X, y, weights)
        return X, y, Weighed.of(weights, kept, given, mean_one=mean_one)

    def _class_factors(self, labels: Any, weights: Any) -> Any:
        """The weights of the classes, one per row; there are none but of some classifiers."""
        return None

    def _weighed(self, rows: Source, sample_weight: Any, mean_one: bool = False) -> tuple[Source, Weighed]:
        """Rows of positive weight that are read in passes, and their weights."""
        if sample_weight is None:
            return rows, ALIKE
        weights = weights_of_source(sample_weight, rows)
        (kept,) = np.nonzero(weights)
        weighed = Weighed.of(weights[kept], kept, rows.n_rows, mean_one=mean_one)
        plain = weighed.weights is None and weighed.kept is None
        return rows if plain else WeighedSource(rows, weighed.weights, weighed.kept), weighed

    def _check_device_means(self) -> None:
        """Refuse executors and checkpoints on a device."""
        for name in ("executor", "checkpoint"):
            if (value := getattr(Passes.of(self.passes), name)) is not None:
                raise DeclarationError(
                    f"passes.{name}={value!r} is for rows that are read in passes, and X is on a device; leave "
                    f"passes.{name} at None, or fit numpy arrays (X.cpu().numpy(), X.get())"
                )

    def _streamed(self, X: Any, y: Any) -> Source | None:
        """A source where X denotes one, and for mapped files, which are read and not held."""
        if streams(X, y):
            return source_of(X, y)
        if self.__sklearn_tags__().input_tags.pairwise or not is_mapped(X, 2):
            return None
        return NpySource.from_memory_map(X, y) if y is None or is_mapped(y, 1) else None

    def _take_names(self, rows: Source) -> None:
        self.n_features_in_ = rows.n_features
        if rows.feature_names is not None:
            self.feature_names_in_ = np.array(rows.feature_names, dtype=object)

    def _problem(self, data: FitData) -> str:
        held, weights = data.source.block_in_memory, data.source.row_weights()
        more = () if weights is None else (weights,)
        if held is not None:
            rows = held.X.tocsr() if is_sparse(held.X) else held.X
            targets = data.passes.sums(data.source, summary_of_targets, "targets")
            return digest(self._what_is_fitted(), rows, targets, *more)
        return digest(self._what_is_fitted(), data.survey, *more)

    def _what_is_fitted(self) -> list[Any]:
        parameters = self.get_params(deep=False) | {"basis": self._choice()}
        return [type(self).__name__, *([key, parameters[key]] for key in sorted(parameters) if key != "passes")]

    def _data_kernel(self, data: FitData, kernel: Kernel | None = None) -> Kernel:
        """The kernel, or that of the machine, with its width; warned about where columns are on different scales."""
        kernel, survey, held = kernel or self._own_kernel(), data.survey, data.source.block_in_memory
        if held is not None:
            X = held.X
            if kernel.pairwise:
                return self._resolved_kernel(X)
            if not is_sparse(X):
                for columns in kernel.compared_columns(X.shape[1]):
                    warn_if_unscaled(self, X, columns, kernel)
        elif survey is not None:
            if kernel.pairwise:
                raise DataError(
                    f"a precomputed kernel matrix must be in memory, and {data.source.name} is read in passes"
                )
            for columns in kernel.compared_columns(survey.low.size):
                here = list(columns)
                with np.errstate(over="ignore"):
                    ranges = survey.high[here] - survey.low[here]
                warn_of_scales(self, columns, ranges, survey.standard_deviation[here], kernel)
        return next(_resolved([kernel], data))

    def _data_kernels(self, kernels: Any, data: FitData) -> list[Kernel]:
        """A list of candidates with their widths, each once."""
        return list(dict.fromkeys(_resolved([as_kernel(kernel) for kernel in kernels], data)))

    def predict_to(self, X: Any, out: str | os.PathLike[str]) -> None:
        """Predict rows, wherever they are, into a ``.npy``, Parquet or CSV file that is complete or absent.

        A table has a column ``prediction`` and, for classes, further columns with the outputs of the machine; a
        ``.npy`` file has the predictions. Columns of a Parquet file are found by name where the fit knew names. In a
        CSV file, a label that a spreadsheet would take for a formula (it begins with =, +, -, @, a tab or a line break)
        has an apostrophe before it, which a program that reads it must remove; other files hold unchanged labels.
        """
        check_is_fitted(self)
        self._refuse_passes()
        if is_device_array(X):
            raise DataError("predict_to reads numpy arrays, files and blocks; for rows on a device use predict")
        _check_out(out, X)
        with self._passes() as passes:
            rows = self._rows_to_predict(X, passes)
            function = self._outputs_of_rows()
            with column_file(out, rows.n_rows) as write, closing(passes.each(rows, function, "predicting")) as parts:
                for outputs in parts:
                    write(self._said_of(outputs))

    def _refuse_passes(self) -> None:
        """Raise for a model on a device, which reads no files, with the remedy."""
        if is_device_array(self.support_values_):
            raise DataError(
                f"this {type(self).__name__} is fitted to arrays of {where_it_lives(self.support_values_)}, and rows "
                "that are read in passes are numpy's; model.to_numpy() takes the model to numpy"
            )

    def _rows_to_predict(self, X: Any, passes: OpenPasses) -> Source:
        if self.kernel_.pairwise:
            raise DataError("rows of a precomputed kernel matrix are predicted in memory, by predict")
        names = getattr(self, "feature_names_in_", None)
        parquet = isinstance(X, (str, os.PathLike)) and Path(X).suffix != ".npy"
        rows = ParquetSource.of(X, columns=names) if parquet and names is not None else self._streamed(X, None)
        if rows is None:
            return ArraySource(
                validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False), None
            )
        if rows.n_features != self.n_features_in_:
            raise DataError(f"{rows.name} has {rows.n_features} columns, the model has {self.n_features_in_}")
        return rows

    def _expansion(self, X: Any) -> Array:
        if streams(X):
            raise DataError("predictions of rows that are read in passes go to a file: predict_to(rows, 'out.parquet')")
        return super()._expansion(X)

    def _outputs_of_rows(self) -> OutputsOfBlock:
        """The machine as a function of blocks of rows."""
        return OutputsOfBlock(self._values(), *self._columns())

    def _values(self) -> KernelValues:
        """What the machine is linear in: kernel values with the basis, and the columns of a linear part."""
        return KernelValues(self.kernel_, self.support_vectors_, self._linear_values())

    def _linear_values(self) -> LinearColumns | None:
        """The columns of a linear part, in the units of the rows; there are none but of some machines."""
        return None

    def _columns(self) -> tuple[Array, Array]:
        alpha, bias = self.support_values_, self.bias_
        return (alpha[:, None] if alpha.ndim == 1 else alpha), (
            on_device_of(alpha, [bias]) if isinstance(bias, float) else bias
        )

    def _said_of(self, outputs: Array) -> dict[str, Any]:
        """A column ``prediction``; for classes also the outputs, ``decision``, or ``decision_CLASS`` for each."""
        first = outputs[:, 0] if outputs.shape[1] == 1 else outputs
        if not self._labels:
            return {"prediction": first}
        classes = self.classes_ if self.classes_.dtype.kind != "O" else np.array(self.classes_.tolist())
        scores = scores_of(first, self.coding, self.code_book_)
        columns = {"prediction": classes[winners(scores)]}
        if scores.ndim == 1:
            return columns | {"decision": scores}
        return columns | {f"decision_{label}": scores[:, k] for k, label in enumerate(classes)}


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


def _check_out(out: str | os.PathLike[str], rows: Any) -> None:
    """Refuse, before any work, a file that cannot be written, or that holds the rows."""
    path = Path(out)
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"{path} must end in {', '.join(SUFFIXES)}")
    writable_file(path)
    refuse_inputs(path, rows, *files_behind(rows))
