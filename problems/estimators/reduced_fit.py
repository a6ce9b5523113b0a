"""Rows on a reduced basis: their weights and targets, in memory or read in passes, and the choice of the basis.

A weight multiplies the squared error of its row. Rows of weight zero are absent, also for the choice of the basis; the
rules of a basis use the inputs of the other rows and ignore their weights.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.estimators.shared.base import WeightedRows
from problems.estimators.shared.checks import definite_gram
from problems.estimators.shared.coded import NUMBERS, Coding
from substrate.arrays import HOST, Array, is_sparse, namespace_of, own_copy, room_on_device, target_unit, to_numpy
from substrate.basis import Basis
from substrate.errors import DataError
from substrate.kernels import Kernel
from substrate.operators.basis_choice import ChosenBasis, chosen_basis
from substrate.operators.features import (
    Features,
    Origin,
    basis_features,
    independent_vectors,
    origin_of,
    reconstruction_errors,
)
from substrate.operators.gram import Gram
from substrate.operators.kernel_rows import KernelRows, KernelValues, LinearColumns
from substrate.operators.passes import Labels, TargetSummary
from substrate.operators.sources import ArraySource, LabelCodes, Source, numbers, width_rows

__all__ = ["CONDITIONAL", "FitData", "PreparedRows", "basis_choice", "choose_basis", "prepare"]

#: The choices that leave-one-out on a basis does not repeat.
CONDITIONAL = "the basis, kernel, gamma and preparation of the columns"


@dataclass(frozen=True, slots=True)
class FitData:
    """The rows of a fit with targets, one column per output, and weights; their coding, and a summary if known.

    ``kept`` are the numbers of the rows of positive weight among the ``n_given`` ones, None where these are all of
    them; the weights of the source are in units of ``unit``.
    """

    source: Source
    coded: Coding = NUMBERS
    targets: TargetSummary | None = None
    kept: Any = None
    n_given: int = 0
    unit: float = 1.0

    @classmethod
    def of_rows(cls, rows: WeightedRows, Y: Array, coded: Coding = NUMBERS, *, mean_one: bool = False) -> "FitData":
        """Return rows in memory and their targets, or the codes of their labels."""
        data = cls(ArraySource(rows.X, own_copy(Y)), coded)
        data = data.weigh(rows.weights, rows.numbers, rows.n_given, mean_one)
        if coded.names is None:
            return data
        _, counts = np.unique(to_numpy(rows.y), return_counts=True)
        return replace(data, targets=_summary(coded, counts))

    def weigh(self, weights: Any, kept: Any, n_given: int, mean_one: bool) -> "FitData":
        """Return the rows with positive weights, divided by their mean where ``mean_one``."""
        host: Array = to_numpy(weights)
        unit = float(host.mean()) if mean_one else 1.0
        source: Any = self.source
        source = replace(source, weights=None if (host == unit).all() else weights / unit)
        kept = None if len(kept) == n_given else kept
        return replace(self, source=source, kept=kept, n_given=n_given, unit=unit)

    def code(self, targets: TargetSummary | Labels, coding: str) -> "FitData":
        """Return rows that are read in passes with codes of what a first pass found: numbers, or labels."""
        source: Any = self.source
        if source.n_rows < 2:
            raise DataError(f"{source.name} holds {source.n_rows} row; at least two are needed")
        if not isinstance(targets, Labels):
            return replace(self, source=replace(source, code=numbers), targets=targets)
        coded = Coding.of_labels(targets.classes, coding)
        source = replace(source, code=LabelCodes(coded.names, coded.book))
        return replace(self, source=source, coded=coded, targets=_summary(coded, targets.counts))

    def width_rows(self) -> Any:
        """Return rows that determine the width of a kernel, and say whether the scales of the columns agree: the same
        numbers wherever the rows are.
        """
        chosen, block = width_rows(self.source.n_rows), self.source.block_in_memory
        if block is not None and chosen.size == self.source.n_rows:
            return block.X
        return self.source.take_rows(chosen)

    def given_numbers(self, rows: Any) -> Any:
        """Return numbers of rows of the fit as numbers of the rows given."""
        return rows if rows is None or self.kept is None else self.kept[rows]

    def own_numbers(self, rows: Any) -> Any:
        """Return numbers of the rows given as numbers of rows of the fit; rows of weight zero have none."""
        if self.kept is None or min(rows, default=0) < 0 or max(rows, default=0) >= self.n_given:
            return rows  # which the choice of a basis refuses by their number
        places = np.searchsorted(self.kept, rows).clip(max=self.kept.size - 1)
        strange = self.kept[places] != rows
        if strange.any():
            raise DataError(
                f"basis names row {int(np.asarray(rows)[strange][0])}, whose sample_weight is zero; name rows of "
                "positive weight, or give the basis as points"
            )
        return places

    def renumber(self, choice: Basis) -> Basis:
        """Return the choice of a basis with the rows that it names numbered as in the fit."""
        rule = to_numpy(choice.rule)
        if self.kept is None or isinstance(rule, str) or is_sparse(rule):
            return choice
        values = np.asarray(rule)
        if values.ndim != 1 or values.dtype.kind not in "iu" or not values.size:
            return choice
        return choice.with_params(rule=self.own_numbers(values))


def _summary(classes: Coding, counts: Any) -> TargetSummary:
    """Return the summary of the codes, by counting."""
    total, book = int(counts.sum()), classes.book
    return TargetSummary(total, np.asarray((counts / total) @ book), book.min(axis=0), book.max(axis=0))


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """The rows on a chosen basis: everything except the statistic of the targets."""

    kernel: Kernel
    basis: ChosenBasis
    rows: KernelRows
    K: Array
    features: Features
    facts: tuple[tuple[str, str], ...]
    reconstruction: float
    targets: TargetSummary
    data: FitData

    @property
    def origin(self) -> Origin:
        """Return what is subtracted from kernel values and targets."""
        return origin_of(self.K, self.targets, target_unit(self.targets.extremes), self.features.free)


#: Number of rows up to which all pairs of them are examined for a degenerate width.
_FEW_ROWS = 500


def prepare(
    kernel: Kernel, data: FitData, choice: Basis, lam: float, *, linear: LinearColumns | None = None
) -> PreparedRows:
    """Choose the basis and factor its kernel matrix, where the rows are.

    A rule chooses no vectors that are in the span of the others up to rounding. ``linear`` are columns that are not
    penalised.
    """
    source, whole = data.source, None
    if kernel.pairwise:
        whole, source = _given_matrix(kernel, source)
    basis = chosen_basis(data.renumber(choice), kernel, source, lam)
    n = basis.size
    advice = "take a smaller basis.n, a more reduced set."
    room_on_device(basis.points, 56.0 * n * n, f"the sums over {n} basis vectors", advice)
    if whole is None and source.n_rows <= _FEW_ROWS:
        # warns of a kernel that does not distinguish rows, which a basis of spread points would hide
        Gram.of(kernel, source.take_rows(np.arange(source.n_rows)))
    gram = Gram(kernel(basis.points), kernel) if whole is None else whole.restrict(basis.rows)
    if whole is None and not kernel.trusted:
        gram.check_definite()
    kept = independent_vectors(to_numpy(gram.matrix))
    if isinstance(choice.rule, str) and 0 < kept.size < n:
        basis = basis.keep(kept)
        gram = gram.restrict(kept)
        kept = np.arange(basis.size)
    features = basis_features(gram.matrix, kept)
    values = KernelValues(kernel, basis.points if whole is None else basis.rows, linear)
    rows = KernelRows(values, source)
    error = _reconstruction(kernel, whole, values.of_kernel, source, basis, features)
    record = gram.record() if whole is None else whole.record()
    facts = (
        *((name, fact) for name, fact in record if name != "Gram matrix"),
        ("basis", basis.description),
        ("rank", f"{features.rank} of {basis.size} vectors that double precision can tell apart"),
        ("reconstruction error", f"{error:.2e}, mean over {len(basis.scoring)} rows"),
    )
    return PreparedRows(
        kernel=kernel,
        basis=basis,
        rows=rows,
        K=gram.matrix,
        features=features.beside(linear),
        facts=facts,
        reconstruction=error,
        targets=rows.target_summary() if data.targets is None else data.targets,
        data=data,
    )


def _given_matrix(kernel: Kernel, source: Source) -> tuple[Gram, Source]:
    """Return a precomputed kernel matrix, checked, as the rows of a source."""
    block = source.whole("a precomputed kernel matrix must be in memory")
    if source.home != HOST:
        raise DataError("a reduced basis of a precomputed kernel works on numpy arrays (K.cpu().numpy(), K.get())")
    whole = definite_gram(kernel, block.X)
    return whole, ArraySource(whole.matrix, block.Y, weights=block.weights)


def _reconstruction(
    kernel: Kernel,
    whole: Gram | None,
    values: KernelValues,
    source: Source,
    basis: ChosenBasis,
    features: Features,
) -> float:
    total, scoring = 0.0, basis.scoring
    for start in range(0, len(scoring), values.step):
        rows = scoring[start : start + values.step]
        X = source.beside(basis.sample[start : start + values.step])
        diagonal = kernel.diag(X) if whole is None else whole.matrix.diagonal()[rows]
        errors = reconstruction_errors(values.matrix(X), diagonal, features)
        total += float(namespace_of(errors).sum(errors))
    return total / len(scoring)


def basis_choice(basis: Any, rule: str = "feature_vectors") -> Basis:
    """Return how a basis is chosen; by ``rule`` where none is named."""
    choice = Basis.of(basis)
    return choice if choice.rule is not None else choice.with_params(rule=rule)


def choose_basis(estimator: Any, rule: str, kernel: Kernel, given: WeightedRows, Y: Array) -> ChosenBasis:
    """Return the basis of an estimator among its rows; ``rule`` where it names none."""
    rows = given._replace(X=Gram.of(kernel, given.X).matrix) if kernel.pairwise else given
    data = FitData.of_rows(rows, Y)
    return chosen_basis(data.renumber(basis_choice(estimator.basis, rule)), kernel, data.source, 1.0)
