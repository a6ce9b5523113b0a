"""The base of every machine on a reduced basis: the choice of its basis, its fitted state, certificates and proofs."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.reduced.fit import FitData
from problems.estimators.reduced.prepared import Prepared
from problems.estimators.reduced.row_stream import RowStream
from problems.estimators.reduced.weighed import Weighed, weight_facts
from problems.estimators.shared.checked_again import (
    Added,
    CheckedAgain,
    Facts,
    StoredFit,
    StoredMachine,
    refuse_strange_classes,
)
from problems.estimators.shared.checks import check_home
from problems.estimators.shared.coded import Classes
from substrate.arrays import Array
from substrate.certificates import Row
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.kernel_products import expansion_values
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.least_squares.saddle_system import target_unit
from substrate.namespaces import own_copy, to_numpy
from substrate.proof import Proof, proof_of_outputs, tolerance_in_balls
from substrate.proof.reduced import BasisRows, GivenRows, prove_reduced
from substrate.reduced import Basis
from substrate.reduced.answer import AnswerJudge, ReducedAnswer
from substrate.reduced.basis_matrix import BasisMatrix, resolved_features
from substrate.reduced.certificate import reduced_rows
from substrate.reduced.features import EigenFeatures, eigen_features
from substrate.reduced.left_out import LeverageFactor
from substrate.reduced.linear_columns import columns_of
from substrate.reduced.moments import RowWeights, origin_of
from substrate.reduced.rows import BasisValues, KernelRows
from substrate.reduced.solution import residual_pass
from substrate.reduced.spectrum import reduced_spectrum
from substrate.reduced.statistic import accumulate
from substrate.streaming.array_source import ArraySource, CodedSource, LabelCodes, numbers
from substrate.streaming.source import Source
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.rows_on_a_basis import machines_without_rows

__all__ = ["ReducedMachine", "TrainingRows", "basis_rows"]


def basis_rows(kernel: Kernel, X: Any, points: Any, support: Any) -> BasisRows | GivenRows:
    """Rows and basis; for a precomputed kernel, the columns and the square matrix of the basis."""
    if not kernel.pairwise:
        return BasisRows(kernel, X, points)
    matrix = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return GivenRows(matrix[:, support], matrix[support][:, support], np.diagonal(matrix))


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Rows of a fit in memory, targets, what predict returns for them (one column per output), and their weights."""

    X: Any
    Y: Array
    fitted: Array
    weights: Array
    weighed: Weighed


class ReducedMachine(CheckedAgain, RowStream):
    """Few vectors in the expansion, all rows in the objective; targets are columns of numbers."""

    _rows_have_targets: ClassVar[bool] = True

    @property
    def basis_(self) -> Any:
        """The basis vectors, one per row (absent for a precomputed kernel)."""
        return self.support_vectors_

    def predict(self, X: Any) -> Array:
        """f(x) = sum_j beta_j k(z_j, x) + b over the support; the classes that follow from it in classification."""
        return self._expansion(X)

    def to_numpy(self) -> Self:
        """A copy of this model with its arrays in numpy, wherever it was fitted."""
        moved = super().to_numpy()
        if isinstance(moved.basis, Basis):
            moved.basis = moved.basis.with_params(rule=to_numpy(moved.basis.rule))
        return moved

    def _keep_basis(self, prepared: Prepared) -> None:
        """Set the attributes of the basis and of the rows, and the reconstruction error."""
        self.basis_indices_ = prepared.weighed.given_numbers(prepared.basis.rows)
        self.n_rows_ = prepared.rows.n_rows
        self.rank_ = prepared.features.of_kernel.rank
        self.reconstruction_error_ = float(prepared.reconstruction)
        self.kernel_ = prepared.kernel

    def _keep_machine(self, prepared: Prepared, support_values: Array, bias: Any) -> None:
        """Set the attributes of an expansion on the whole basis, the one that marks the model as fitted last."""
        self._keep_basis(prepared)
        basis = prepared.basis
        self.support_ = np.arange(basis.size) if basis.rows is None else self.basis_indices_
        if basis.points is not None:
            self.support_vectors_ = basis.points
        self.bias_ = bias
        self.support_values_ = own_copy(support_values)

    @contextmanager
    def _stored_again(self, X: Any, y: Any, sample_weight: Any) -> Iterator[StoredFit]:
        with self._reading_again(X, y, sample_weight) as data:
            yield StoredFit((self._stored_machines(data, X, y),))

    @abstractmethod
    def _stored_machines(self, data: FitData, X: Any, y: Any) -> StoredMachine:
        """Return all machines on the rows that are read; X and y are those rows as they were given."""

    @contextmanager
    def _reading_again(self, X: Any, y: Any, sample_weight: Any = None) -> Iterator[FitData]:
        """Training rows, targets and weights once more, for a check of what is held now."""
        book = (self.classes_, self.code_book_) if self._labels else None
        with self._passes() as passes:
            rows = self._streamed(X, y)
            if rows is not None:
                rows, weighed = self._weighed(rows, sample_weight)
                coded = CodedSource(rows, numbers if book is None else LabelCodes(*book))
                yield FitData(coded, passes, weighed=weighed)
                return
            if y is None:
                raise DataError(
                    "y is missing: rows in an array come with their targets, certify(X, y); only a file or blocks of "
                    "rows bring their own"
                )
            X, y, weighed = self._alike()._held(X, y, sample_weight, book is None)
            if book is None:
                yield FitData.of_numbers(X, y, passes, weighed)
                return
            refuse_strange_classes(self, to_numpy(y))
            source = ArraySource(X, own_copy(Classes(*book).codes(y)), weights=weighed.weights)
            yield FitData(source, passes, weighed=weighed)

    def _alike(self) -> Self:
        """A machine without a fit, which checks and weighs rows as this one does."""
        return type(self)(self.kernel)

    def _in_memory(self, data: FitData) -> "TrainingRows":
        """The training rows of positive weight, on the host."""
        self._training_rows(data)
        X, Y, _, weights = data.source.whole("a proof goes through all rows in memory")
        numbers = data.weighed.own_numbers(self.support_) if self.kernel_.pairwise else self.support_
        if self.kernel_.pairwise:
            fitted = expansion_values(self.kernel_, None, self._coefficients(), self.bias_, X, numbers)
        else:
            fitted = self._evaluated(X)
        v = np.ones(Y.shape[0]) if weights is None else to_numpy(weights)
        return TrainingRows(to_numpy(X), to_numpy(Y), np.reshape(to_numpy(fitted), Y.shape), v, data.weighed)

    def _proved(self, known: "TrainingRows", gamma: float, weights: Array) -> Proof:
        """The proof of every output, of which the worst is returned."""
        vectors, support = None if self.kernel_.pairwise else to_numpy(self.support_vectors_), self.support_
        if self.kernel_.pairwise:
            support = known.weighed.own_numbers(support)
        rows, tol = basis_rows(self.kernel_, known.X, vectors, support), self._tolerance()
        linear = self._linear_values()
        if linear is not None and isinstance(rows, BasisRows):
            rows = replace(rows, linear=columns_of(known.X, linear.numbers), center=linear.center)
        found: list[Proof] = [
            prove_reduced(rows, t, gamma, weights, f, tolerance_in_balls(t, weights, tol))
            for t, f in zip(known.Y.T, known.fitted.T, strict=True)
        ]
        return proof_of_outputs(found)

    def _check_source(self, source: Source) -> None:
        """Refuse rows that are not where the model is."""
        if source.block_in_memory is None:
            self._refuse_passes()
        else:
            check_home(self, self.support_values_, source.block_in_memory.X)

    def _training_rows(self, data: FitData) -> KernelRows:
        source = data.source
        self._check_source(source)
        if source.n_rows != self.n_rows_:
            raise DataError(
                f"the model was fitted to {self.n_rows_} rows, these are {source.n_rows}"
                + (" of positive weight" if data.weighed.kept is not None else "")
            )
        if not self.kernel_.pairwise:
            if source.n_features != self.n_features_in_:
                raise DataError(f"{source.name} has {source.n_features} columns, the model has {self.n_features_in_}")
            return self._rows_on(data, self.support_vectors_)
        return self._rows_on(data, data.weighed.own_numbers(self.support_))

    def _rows_on(self, data: FitData, basis: Any) -> KernelRows:
        """Return the rows on basis points, or, for a precomputed kernel, on columns of its matrix by number."""
        source = data.source
        if self.kernel_.pairwise:
            held = source.whole("a precomputed kernel matrix must be in memory")
            source = ArraySource(Gram.of(self.kernel_, held.X).matrix, held.Y, weights=held.weights)
        return KernelRows(BasisValues.of(self.kernel_, basis, self._linear_values()), source, data.passes)

    def _check_leverages(self, asked: str, otherwise: str = "") -> None:
        """Refuse what needs leverages, for a fit without the sums that they need; ``otherwise`` is further advice."""
        check_is_fitted(self)
        if not hasattr(self, "leverage_factor_"):
            raise DeclarationError(
                f"{asked} leverages, and this model was fitted by conjugate gradients, which never form the sums that "
                f"they need; fit with solver='direct'{otherwise}"
            )

    def _leverage_factor(self, mass: float) -> LeverageFactor:
        """The factor of the leverages of rows of this weight in all."""
        return LeverageFactor(self.leverage_factor_, self.leverage_offset_, mass)

    def _without_rows(self, rows: KernelRows, gamma: float) -> tuple[LeftOutMachines, ...]:
        """All machines without one of the training rows, for every output, in one pass."""
        beta, bias = self._columns()
        freedom: float = self.degrees_of_freedom_
        return machines_without_rows(rows, beta, bias, self._leverage_factor(rows.mass), gamma, freedom)

    def _surveyed(self, rows: KernelRows) -> KernelRows:
        """Return the rows with what a pass finds of columns that are not penalised; there are none but of some."""
        return rows

    def _basis_matrix(self, rows: KernelRows) -> Array:
        if self.kernel_.pairwise:
            return rows.taken(rows.values.points)
        matrix: Array = self.kernel_(self.support_vectors_)
        return matrix

    @np.errstate(over="ignore", invalid="ignore")  # what overflows is not finite, and its rows fail
    def _certified(self, rows: KernelRows, gamma: float, weights: RowWeights | None = None, facts: Facts = ()) -> Added:
        """Everything from the rows, the kernel matrix of the basis and the coefficients, one column per output."""
        K, rows = self._basis_matrix(rows), self._surveyed(rows)
        features = eigen_features(K)
        answer, checks = self._bound_answer(rows, K, features, gamma, weights)
        if not answer.passes:
            resolved = resolved_features(BasisMatrix(rows.values, K, features))
            if resolved is not None:
                other, others = self._bound_answer(rows, K, resolved, gamma, weights)
                if other.row.value < answer.row.value:
                    answer, checks = other, others
        record = (("kernel", repr(self.kernel_)), *weight_facts(rows), *facts, *answer.facts)
        return (answer.row, *worst_rows(checks)), record

    def _bound_answer(
        self, rows: KernelRows, K: Array, features: EigenFeatures, gamma: float, weights: RowWeights | None
    ) -> tuple[ReducedAnswer, list[tuple[Row, ...]]]:
        """The bound on the answer in some features, and the other rows of every output."""
        lam, known = 1.0 / gamma, rows.target_summary()
        unit = target_unit(known.extremes)
        beta, shift = (part / unit for part in self._columns())
        beta, features = rows.values.scale(beta), features.beside(rows.values.columns)
        statistic = accumulate(rows, features, origin_of(K, known, unit, features.free), lam, weights=weights)
        spectrum = reduced_spectrum(features, statistic.origin, statistic.total, statistic.error)
        basis = BasisMatrix(rows.values.of_kernel, K, features.of_kernel)
        curvature = spectrum.curvature(basis, rows.product_terms, statistic.columns)
        judge = AnswerJudge(rows, curvature, lam, unit, known, weights, self._tolerance())
        residuals = residual_pass(rows, unit, beta, shift, weights, judge.centre)
        answer = judge.of(residuals, beta, shift)
        of_beta = features.weights(beta)
        checks = reduced_rows(residuals, features, K, beta, of_beta, to_numpy(shift), lam, answer.pull)
        if not (answer.passes or answer.lost or rows.on_device):
            answer = judge.once_more(beta, shift)
        return answer, checks

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if self.__sklearn_is_fitted__() and (
            isinstance(self.n_rows_, bool) or not isinstance(self.n_rows_, int) or self.n_rows_ < 2
        ):
            raise DataError(f"n_rows_ must be a number of rows, received {self.n_rows_!r}")
