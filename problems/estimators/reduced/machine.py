"""Machines on a reduced basis: how rows are read and predicted, their basis, fitted state, certificates, proofs."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from problems.estimators.reduced.fit import FitData, PreparedRows
from problems.estimators.reduced.weighed import ALIKE, Weighed, weight_facts
from problems.estimators.shared.checked_again import (
    Added,
    Facts,
    StoredFit,
    StoredMachine,
    refuse_strange_classes,
)
from problems.estimators.shared.checks import check_home, warn_if_unscaled, warn_of_scales
from problems.estimators.shared.coded import Classes
from problems.estimators.shared.model import Model
from problems.estimators.shared.probabilities import Calibration
from substrate.arrays import Array, is_sparse
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.kernel_products import expansion_values
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_system import target_unit
from substrate.namespaces import is_device_array, on_device_of, own_copy, to_numpy, where_it_lives
from substrate.proof import Proof, proof_of_outputs, tolerance_in_balls
from substrate.proof.reduced import BasisRows, GivenRows, prove_reduced
from substrate.reduced import Basis
from substrate.reduced.features import basis_features, independent_vectors
from substrate.reduced.left_out import LeverageFactor, OutputsOfBlock
from substrate.reduced.linear_columns import LinearColumns, columns_of
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.reduced.solution import AnswerBound
from substrate.streaming.passes import each_block, sum_blocks
from substrate.streaming.rows import (
    ArraySource,
    LabelCodes,
    SlicedSource,
    Source,
    is_mapped,
    numbers,
    source_of,
    streams,
    weights_of_source,
)
from substrate.streaming.survey import Survey, SurveyOfBlock
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.rows_on_a_basis import machines_without_rows

__all__ = ["ReducedModel", "RegressedCalibration", "TrainingRows", "basis_rows"]


def basis_rows(kernel: Kernel, X: Any, points: Any, support: Any) -> BasisRows | GivenRows:
    """Return rows and basis; for a precomputed kernel, the columns and the square matrix of the basis."""
    if not kernel.pairwise:
        return BasisRows(kernel, X, points)
    matrix = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return GivenRows(matrix[:, support], matrix[support][:, support])


def kept_vectors(K: Array, coefficients: Array) -> Any:
    """Return the numbers of the vectors of a machine: those that can be told apart, and those that it uses."""
    used = np.flatnonzero(to_numpy(coefficients)[: K.shape[0]].any(axis=1))
    return np.union1d(independent_vectors(K), used)


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Rows of a fit in memory, targets, what predict returns for them (one column per output), and their weights."""

    X: Any
    Y: Array
    fitted: Array
    weights: Array
    weighed: Weighed


class RegressedCalibration(Calibration):
    """Rows left out in folds, on the basis of the fit."""

    def fold_machine(self, X: Any) -> Any:
        """Return the machine on the same basis vectors, unless they are columns of a matrix."""
        model = self.estimator
        machine = super().fold_machine(X)
        if model.kernel_.pairwise:
            return machine
        return machine.set_params(kernel=model.kernel_, basis=model.support_vectors_)


class ReducedModel(Model):
    """Few vectors in the expansion, all rows in the objective; targets are columns of numbers.

    Rows need not be in memory.
    """

    #: The rule of a basis that names none.
    rule: ClassVar[str] = "feature_vectors"

    @property
    def mean_one(self) -> bool:
        """Whether a fit divides the weights of its rows by their mean and multiplies its gamma by it: a search does."""
        return self.estimator._selector_type is not None

    def choice(self) -> Basis:
        """Return how the basis is chosen, every default filled in."""
        basis = Basis.of(self.estimator.basis)
        return basis if basis.rule is not None else basis.with_params(rule=self.rule)

    def read(self, X: Any, y: Any, sample_weight: Any = None) -> FitData:
        """Return the rows, targets and weights of a fit, checked, of rows in memory or read in passes."""
        self.estimator._check_coding()
        coding, rows = getattr(self.estimator, "coding", None), self.open_source(X, y)
        if rows is None:
            X, y, weighed = self.check_rows(X, y, sample_weight, coding is None, self.mean_one)
            return FitData.of_numbers(X, y, weighed) if coding is None else FitData.of_labels(X, y, coding, weighed)
        self.take_names(rows)
        weighed = self.weigh(rows, sample_weight, self.mean_one)
        survey: Survey = sum_blocks(weighed.source(rows, None), SurveyOfBlock(coding is not None, rows.name))
        return FitData.of_stream(rows, survey, coding, weighed)

    def check_rows(
        self, X: Any, y: Any, sample_weight: Any, numeric: bool, mean_one: bool = False
    ) -> tuple[Any, Any, Weighed]:
        """Return rows of positive weight in memory, their targets, and their weights, checked."""
        X, y, weights = self.estimator._check_data(X, y, sample_weight, numeric=numeric)
        factors = self.class_factors(y, weights)
        if sample_weight is None and factors is None:
            return X, y, ALIKE
        n_given, weights = int(X.shape[0]), weights if factors is None else weights * factors
        X, y, weights, kept = self.estimator._keep_weighted(X, y, weights)
        return X, y, Weighed.of(weights, kept, n_given, mean_one=mean_one)

    def class_factors(self, labels: Any, weights: Any) -> Any:
        """Return the weights of the classes, one per row; there are none but of some classifiers."""
        return None

    def weigh(self, rows: Source, sample_weight: Any, mean_one: bool = False) -> Weighed:
        """Return the weights of rows that are read in passes."""
        if sample_weight is None:
            return ALIKE
        weights = weights_of_source(sample_weight, rows)
        (kept,) = np.nonzero(weights)
        return Weighed.of(weights[kept], kept, rows.n_rows, mean_one=mean_one)

    def open_source(self, X: Any, y: Any) -> Source | None:
        """Return a source where X denotes one, and for mapped files, which are read slice by slice."""
        if streams(X, y):
            return source_of(X, y)
        if self.estimator.__sklearn_tags__().input_tags.pairwise or not is_mapped(X, 2):
            return None
        if y is not None and not is_mapped(y, 1):
            return None
        return SlicedSource.of_arrays(X, y)

    def take_names(self, rows: Source) -> None:
        """Set the number and the names of the columns."""
        self.estimator.n_features_in_ = rows.n_features
        if rows.feature_names is not None:
            self.estimator.feature_names_in_ = np.array(rows.feature_names, dtype=object)

    def data_kernel(self, data: FitData, kernel: Kernel | None = None) -> Kernel:
        """Return the kernel, or that of the machine, with its width; warned about where columns are on different
        scales.
        """
        model = self.estimator
        kernel, survey, block = kernel or self.own_kernel(), data.survey, data.source.block_in_memory
        if block is not None:
            X = block.X
            if kernel.pairwise:
                resolved: Kernel = model._resolved_kernel(X)
                return resolved
            if not is_sparse(X):
                for columns in kernel.compared_columns(X.shape[1]):
                    warn_if_unscaled(model, X, columns, kernel)
        elif survey is not None:
            if kernel.pairwise:
                raise DataError(
                    f"a precomputed kernel matrix must be in memory, and {data.source.name} is read in passes"
                )
            for columns in kernel.compared_columns(survey.low.size):
                places = list(columns)
                with np.errstate(over="ignore"):
                    ranges = survey.high[places] - survey.low[places]
                warn_of_scales(model, columns, ranges, survey.standard_deviation[places], kernel)
        return next(_resolve_kernels([kernel], data))

    def data_kernels(self, kernels: Any, data: FitData) -> list[Kernel]:
        """Return a list of candidates with their widths, each once."""
        return list(dict.fromkeys(_resolve_kernels([self.own_kernel(kernel) for kernel in kernels], data)))

    def refuse_passes(self) -> None:
        """Raise for a model on a device, which reads no files, with the remedy."""
        model = self.estimator
        if is_device_array(model.support_values_):
            raise DataError(
                f"this {type(model).__name__} is fitted to arrays of "
                f"{where_it_lives(model.support_values_)}, and rows "
                "that are read in passes are numpy's; model.to_numpy() takes the model to numpy"
            )

    def open_new_rows(self, X: Any) -> Source:
        """Return rows to predict that are read in passes, checked against the columns of the fit."""
        model = self.estimator
        if model.kernel_.pairwise:
            raise DataError("rows of a precomputed kernel matrix are predicted in memory; give them as an array")
        self.refuse_passes()
        rows = source_of(X)
        if rows.n_features != model.n_features_in_:
            raise DataError(f"{rows.name} has {rows.n_features} columns, the model has {model.n_features_in_}")
        return rows

    def evaluate_stream(self, X: Any) -> Array:
        """Return the predictions of rows that are read in passes."""
        blocks = each_block(self.open_new_rows(X), self.outputs_of_rows())
        outputs = np.concatenate(list(blocks))
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def move(self, model: Any) -> None:
        """Take the points of a basis that were given to numpy."""
        if isinstance(model.basis, Basis):
            model.basis = model.basis.with_params(rule=to_numpy(model.basis.rule))

    def outputs_of_rows(self) -> OutputsOfBlock:
        """Return the machine as a function of blocks of rows."""
        return OutputsOfBlock(self.values(), *self.columns())

    def values(self) -> KernelValues:
        """Return what the machine is linear in: kernel values with the basis, and the columns of a linear part."""
        return KernelValues(self.estimator.kernel_, self.estimator.support_vectors_, self.linear_values())

    def linear_values(self) -> LinearColumns | None:
        """Return the columns of a linear part, in the units of the rows; there are none but of some machines."""
        return None

    def columns(self) -> tuple[Array, Array]:
        """Return coefficients and biases, one column per output."""
        alpha, bias = self.estimator.support_values_, self.estimator.bias_
        return (alpha[:, None] if alpha.ndim == 1 else alpha), (
            on_device_of(alpha, [bias]) if isinstance(bias, float) else bias
        )

    def keep_basis(self, prepared: PreparedRows) -> None:
        """Set the attributes of the basis and of the rows, and the reconstruction error."""
        model = self.estimator
        model.basis_indices_ = prepared.weighed.given_numbers(prepared.basis.rows)
        model.n_rows_ = prepared.rows.n_rows
        model.rank_ = prepared.features.of_kernel.rank
        model.reconstruction_error_ = float(prepared.reconstruction)
        model.kernel_ = prepared.kernel

    def keep_machine(self, prepared: PreparedRows, support_values: Array, bias: Any) -> None:
        """Set the attributes of an expansion on the whole basis, the one that marks the model as fitted last."""
        model = self.estimator
        self.keep_basis(prepared)
        basis = prepared.basis
        model.support_ = np.arange(basis.size) if basis.rows is None else model.basis_indices_
        if basis.points is not None:
            model.support_vectors_ = basis.points
        model.bias_ = bias
        model.support_values_ = own_copy(support_values)

    @contextmanager
    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> Iterator[StoredFit]:
        """Read the data of the fit once more, and return all machines on them."""
        data = self.read_again(X, y, sample_weight)
        yield StoredFit((self.recall_machines(data, X, y),))

    @abstractmethod
    def recall_machines(self, data: FitData, X: Any, y: Any) -> StoredMachine:
        """Return all machines on the rows that are read; X and y are those rows as they were given."""

    def read_again(self, X: Any, y: Any, sample_weight: Any = None) -> FitData:
        """Return training rows, targets and weights once more, for a check of what is held now."""
        model = self.estimator
        book = (model.classes_, model.code_book_) if model._labels else None
        rows = self.open_source(X, y)
        if rows is not None:
            weighed = self.weigh(rows, sample_weight)
            return FitData(weighed.source(rows, numbers if book is None else LabelCodes(*book)), weighed=weighed)
        if y is None:
            raise DataError(
                "y is missing: rows in an array come with their targets, certify(X, y); only blocks of rows and Dask "
                "data frames bring their own"
            )
        X, y, weighed = self.make_alike()._model.check_rows(X, y, sample_weight, book is None)
        if book is None:
            return FitData.of_numbers(X, y, weighed)
        refuse_strange_classes(model, to_numpy(y))
        source = ArraySource(X, own_copy(Classes(*book).codes(y)), weights=weighed.weights)
        return FitData(source, weighed=weighed)

    def make_alike(self) -> Any:
        """Return an estimator without a fit, which checks and weighs rows as this one does."""
        model = self.estimator
        parameters = model.get_params(deep=False)
        same = {name: parameters[name] for name in ("class_weight", "linear_columns", "basis") if name in parameters}
        return model._make_checker(**same)

    def read_in_memory(self, data: FitData) -> "TrainingRows":
        """Return the training rows of positive weight, on the host."""
        model = self.estimator
        self.training_rows(data)
        X, Y, _, weights = data.source.whole("a proof goes through all rows in memory")
        numbers = data.weighed.own_numbers(model.support_) if model.kernel_.pairwise else model.support_
        if model.kernel_.pairwise:
            fitted = expansion_values(model.kernel_, None, model._coefficients(), model.bias_, X, numbers)
        else:
            fitted = self.evaluate(X)
        v = np.ones(Y.shape[0]) if weights is None else to_numpy(weights)
        return TrainingRows(
            X=to_numpy(X), Y=to_numpy(Y), fitted=np.reshape(to_numpy(fitted), Y.shape), weights=v, weighed=data.weighed
        )

    def prove(self, known: "TrainingRows", gamma: float, weights: Array) -> Proof:
        """Prove every output; return the worst proof."""
        model = self.estimator
        vectors, support = (
            None if model.kernel_.pairwise else to_numpy(model.support_vectors_),
            model.support_,
        )
        if model.kernel_.pairwise:
            support = known.weighed.own_numbers(support)
        K = known.X[support][:, support] if vectors is None else model.kernel_(vectors)
        kept = kept_vectors(np.asarray(K), self.columns()[0])
        vectors = None if vectors is None else vectors[kept]
        rows, tol = basis_rows(model.kernel_, known.X, vectors, support[kept]), model._tolerance()
        linear = self.linear_values()
        if linear is not None and isinstance(rows, BasisRows):
            rows = replace(rows, linear=columns_of(known.X, linear.numbers), center=linear.center)
        proofs: list[Proof] = [
            prove_reduced(rows, t, gamma, weights, f, tolerance_in_balls(t, weights, tol))
            for t, f in zip(known.Y.T, known.fitted.T, strict=True)
        ]
        return proof_of_outputs(proofs)

    def check_source(self, source: Source) -> None:
        """Refuse rows that are not where the model is."""
        if source.block_in_memory is None:
            self.refuse_passes()
        else:
            check_home(self.estimator, self.estimator.support_values_, source.block_in_memory.X)

    def training_rows(self, data: FitData) -> KernelRows:
        """Return the rows of the fit on the basis; refuse others."""
        model = self.estimator
        source = data.source
        self.check_source(source)
        if source.n_rows != model.n_rows_:
            raise DataError(
                f"the model was fitted to {model.n_rows_} rows, these are {source.n_rows}"
                + (" of positive weight" if data.weighed.kept is not None else "")
            )
        if not model.kernel_.pairwise:
            if source.n_features != model.n_features_in_:
                raise DataError(f"{source.name} has {source.n_features} columns, the model has {model.n_features_in_}")
            return self.rows_on(data, model.support_vectors_)
        return self.rows_on(data, data.weighed.own_numbers(model.support_))

    def rows_on(self, data: FitData, basis: Any) -> KernelRows:
        """Return the rows on basis points, or, for a precomputed kernel, on columns of its matrix by number."""
        model = self.estimator
        source = data.source
        if model.kernel_.pairwise:
            block = source.whole("a precomputed kernel matrix must be in memory")
            source = ArraySource(Gram.of(model.kernel_, block.X).matrix, block.Y, weights=block.weights)
        return KernelRows(KernelValues(model.kernel_, basis, self.linear_values()), source)

    def leverage_factor(self, mass: float) -> LeverageFactor:
        """Return the factor of the leverages of rows of this weight in all."""
        return LeverageFactor(self.estimator.leverage_factor_, self.estimator.leverage_offset_, mass)

    def leave_rows_out(self, rows: KernelRows, gamma: float) -> tuple[LeftOutMachines, ...]:
        """Return all machines without one of the training rows, for every output, in one pass."""
        beta, bias = self.columns()
        freedom: float = self.estimator.degrees_of_freedom_
        return machines_without_rows(rows, beta, bias, self.leverage_factor(rows.mass), gamma, freedom)

    def survey(self, rows: KernelRows) -> KernelRows:
        """Return the rows with what a pass finds of columns that are not penalised; there are none but of some."""
        return rows

    def basis_matrix(self, rows: KernelRows) -> Array:
        """Return the kernel matrix of the basis."""
        model = self.estimator
        if model.kernel_.pairwise:
            return rows.take_rows(rows.values.points)
        matrix: Array = model.kernel_(model.support_vectors_)
        return matrix

    @np.errstate(over="ignore", invalid="ignore")  # what overflows is not finite, and its rows fail
    def certify(self, rows: KernelRows, gamma: float, facts: Facts = ()) -> Added:
        """Bound the answer of the stored coefficients, one column per output, in passes over the rows."""
        K, rows, summary = self.basis_matrix(rows), self.survey(rows), rows.target_summary()
        unit, lam = target_unit(summary.extremes), Regularization(gamma).lam
        beta, shift = (column / unit for column in self.columns())
        features = basis_features(K, kept_vectors(to_numpy(K), beta))
        beta, features = rows.values.scale(beta), features.beside(rows.values.linear)
        judge = AnswerBound.of(rows, features, K, lam, unit, summary, self.estimator._tolerance())
        row = judge.best(beta, shift).row
        record = (("kernel", repr(self.estimator.kernel_)), *weight_facts(rows), *facts, *judge.facts(row))
        return (row,), record

    def check_loaded(self) -> None:
        """Refuse a number of rows that no fit leaves."""
        super().check_loaded()
        n = self.estimator.n_rows_
        if isinstance(n, bool) or not isinstance(n, int) or n < 2:
            raise DataError(f"n_rows_ must be a number of rows, received {n!r}")


def _resolve_kernels(kernels: list[Kernel], data: FitData) -> Iterator[Kernel]:
    """Yield kernels with their widths as numbers. Rows of a file are read for that once, and only where one has to be
    found.

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
