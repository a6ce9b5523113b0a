"""Fits on a reduced basis, from rows and parameters: the basis, one statistic of all rows, the solution.

A weight multiplies the squared error of its row. Rows of weight zero are absent, also for the choice of the basis; the
rules of a basis use the inputs of the other rows and ignore their weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from problems.estimators.shared.base import WeightedRows, weight_facts
from problems.estimators.shared.coded import NUMBERS, Coding
from substrate.arrays import (
    HOST,
    Array,
    blas_threads,
    is_device_array,
    namespace_of,
    own_copy,
    room_on_device,
    to_numpy,
)
from substrate.basis import Basis
from substrate.certificate import Row
from substrate.errors import DataError
from substrate.fits.basis_solution import solve_reduced
from substrate.kernels import Kernel
from substrate.operators.basis_choice import ChosenBasis, chosen_basis
from substrate.operators.basis_spectrum import LeverageFactor, ReducedSpectrum, leverage_factor, reduced_spectrum
from substrate.operators.features import (
    Features,
    Origin,
    accumulate,
    basis_features,
    independent_vectors,
    origin_of,
    reconstruction_errors,
)
from substrate.operators.gram import Gram
from substrate.operators.kernel_rows import KernelRows, KernelValues, LinearColumns
from substrate.operators.passes import Labels, TargetSummary
from substrate.operators.saddle_system import target_unit
from substrate.operators.sources import ArraySource, Code, LabelCodes, Source, numbers, width_rows

__all__ = [
    "ALIKE",
    "CONDITIONAL",
    "FitData",
    "PreparedRows",
    "ReducedFit",
    "Weighed",
    "basis_choice",
    "choose_basis",
    "fit_at",
    "prepare",
]


@dataclass(frozen=True, slots=True)
class Weighed:
    """The positive weights of the rows of a fit, None where all are one, and the unit by which they were divided.

    ``kept`` are the numbers of the rows of positive weight among the ``given`` ones, None where these are all of them.
    """

    weights: Any = None
    kept: Any = None
    n_given: int = 0
    unit: float = 1.0

    @classmethod
    def of(cls, weights: Any, kept: Any, n_given: int, *, mean_one: bool) -> "Weighed":
        """Build the record from positive weights and the numbers of their rows; divided by their mean where
        ``mean_one``.
        """
        host: Array = to_numpy(weights)
        unit = float(host.mean()) if mean_one else 1.0
        is_equal = bool((host == unit).all())
        return cls(None if is_equal else weights / unit, None if len(kept) == n_given else kept, n_given, unit)

    def source(self, rows: Any, code: Any) -> Source:
        """Return rows that are read in passes, with their targets coded and their weights."""
        return cast(Source, replace(rows, code=code, weights=self.weights, kept=self.kept))

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
        rule = to_numpy(choice.rule) if is_device_array(choice.rule) else choice.rule
        if self.kept is None or isinstance(rule, str) or hasattr(rule, "tocsr"):
            return choice
        values = np.asarray(rule)
        if values.ndim != 1 or values.dtype.kind not in "iu" or not values.size:
            return choice
        return choice.with_params(rule=self.own_numbers(values))


#: All rows, of weight one.
ALIKE = Weighed()


@dataclass(frozen=True, slots=True)
class FitData:
    """The rows and targets, one column per output; a summary of the targets, if known; their coding.

    ``weighed`` states which of the rows given there are, and the unit of their weights, which come with the source.
    """

    source: Source
    targets: TargetSummary | None = None
    coded: Coding = NUMBERS
    weighed: Weighed = ALIKE

    @classmethod
    def of_rows(cls, rows: WeightedRows, coded: Coding, mean_one: bool = False) -> "FitData":
        """Return rows in memory and their targets, or the codes of their labels."""
        weighed = Weighed.of(rows.weights, rows.numbers, rows.n_given, mean_one=mean_one)
        source = ArraySource(rows.X, own_copy(coded.codes(rows.y)), weights=weighed.weights)
        return cls(source, None if coded.names is None else _summary(coded, _counts(rows.y)), coded, weighed)

    @classmethod
    def of_stream(
        cls, rows: Source, targets: TargetSummary | Labels, coding: str | None, weighed: Weighed = ALIKE
    ) -> "FitData":
        """Return rows that are read in passes, after a first one."""
        if rows.n_rows < 2:
            raise DataError(f"{rows.name} holds {rows.n_rows} row; at least two are needed")
        code: Code = numbers
        coded = NUMBERS
        if isinstance(targets, Labels):
            coded = Coding.of_labels(targets.classes, "one_vs_rest" if coding is None else coding)
            code, targets = LabelCodes(coded.names, coded.book), _summary(coded, targets.counts)
        return cls(weighed.source(rows, code), targets, coded, weighed)

    @property
    def outputs(self) -> int:
        """Return the number of machines."""
        return 1 if self.coded.names is None else int(self.coded.book.shape[1])

    def width_rows(self) -> Any:
        """Return rows that determine the width of a kernel, and say whether the scales of the columns agree: the same
        numbers wherever the rows are.
        """
        numbers, block = width_rows(self.source.n_rows), self.source.block_in_memory
        if block is not None and numbers.size == self.source.n_rows:
            return block.X
        return self.source.take_rows(numbers)


def _counts(labels: Any) -> Any:
    """Return the number of rows of each class, in the order of the classes."""
    names, counts = (to_numpy(array) for array in namespace_of(labels).unique_counts(labels))
    return counts[np.argsort(names)]  # the standard guarantees no order


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
    weighed: Weighed = ALIKE

    @property
    def origin(self) -> Origin:
        """Return what is subtracted from kernel values and targets."""
        return origin_of(self.K, self.targets, target_unit(self.targets.extremes), self.features.free)


#: The choices that leave-one-out on a basis does not repeat.
CONDITIONAL = "the basis, kernel, gamma and preparation of the columns"
#: Number of rows up to which all pairs of them are examined for a degenerate width.
_FEW_ROWS = 500


@dataclass(frozen=True, slots=True)
class ReducedFit:
    """The solution of all outputs at one gamma, its leverages and its degrees of freedom."""

    prepared: PreparedRows
    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    factor: LeverageFactor
    freedom: float
    noise: Array
    #: Further fitted attributes, by name.
    further: Mapping[str, Any] = field(default_factory=dict)


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
    basis = chosen_basis(data.weighed.renumber(choice), kernel, source, lam)
    n = basis.size
    advice = "take a smaller basis.n, a more reduced set."
    room_on_device(basis.points, 56.0 * n * n, f"the sums over {n} basis vectors", advice)
    if whole is None and source.n_rows <= _FEW_ROWS:
        # warns of a kernel that does not distinguish rows, which a basis of spread points would hide
        Gram.of(kernel, source.take_rows(np.arange(source.n_rows)))
    gram = _basis_gram(kernel, whole, basis)
    kept = independent_vectors(to_numpy(gram.matrix))
    if isinstance(choice.rule, str) and 0 < kept.size < n:
        basis = basis.keep(kept)
        gram = _basis_gram(kernel, whole, basis)
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
        weighed=data.weighed,
    )


def _basis_gram(kernel: Kernel, whole: Gram | None, basis: ChosenBasis) -> Any:
    """Return the kernel matrix of the basis, checked where the kernel may not be positive semi-definite."""
    if whole is not None:
        return whole.restrict(basis.rows)
    gram = Gram(kernel(basis.points), kernel)
    if not kernel.trusted:
        gram.check_definite()
    return gram


def _given_matrix(kernel: Kernel, source: Source) -> tuple[Gram, Source]:
    """Return a precomputed kernel matrix, checked, as the rows of a source."""
    block = source.whole("a precomputed kernel matrix must be in memory")
    if source.home != HOST:
        raise DataError("a reduced basis of a precomputed kernel works on numpy arrays (K.cpu().numpy(), K.get())")
    whole = Gram.of(kernel, block.X)
    whole.check_definite()
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


@np.errstate(over="ignore", invalid="ignore")  # overflow is not finite, and its rows fail
def fit_at(
    prepared: PreparedRows, gamma: float, tolerance: float, spectrum: ReducedSpectrum | None = None
) -> ReducedFit:
    """Solve at one gamma, refine, certify, and keep the factor for leave-one-out.

    ``tolerance`` is the accuracy required, as a share of the spread of y; ``spectrum`` is the spectrum of all rows, if
    known.
    """
    lam, rows = 1.0 / gamma, prepared.rows
    with blas_threads(rows.n_basis):  # once: to set the number and restore it takes as long as a small product
        if spectrum is None:
            statistic = accumulate(rows, prepared.features, prepared.origin, lam)
            spectrum = reduced_spectrum(statistic)
        solved = solve_reduced(rows, spectrum, lam, prepared.K, prepared.targets, tolerance)
        facts = (
            *prepared.facts,
            ("gamma", f"{gamma / prepared.weighed.unit:g}"),
            *weight_facts(rows.weights),
            ("solver", f"sums over the rows, refined {solved.refinements} times"),
            *(() if prepared.origin.unit == 1.0 else (("units", "residuals in units of max|y|"),)),
            *solved.facts,
        )
        machine, unit = spectrum.machine(), spectrum.origin.unit
        return ReducedFit(
            prepared=prepared,
            coefficients=solved.coefficients,
            bias=solved.bias,
            rows=(solved.row,),
            facts=facts,
            factor=leverage_factor(spectrum, lam),
            freedom=float(machine.degrees_of_freedom(lam)[0]),
            noise=machine.noise_variance(lam) * unit * unit,
        )


def basis_choice(basis: Any, rule: str = "feature_vectors") -> Basis:
    """Return how a basis is chosen; by ``rule`` where none is named."""
    choice = Basis.of(basis)
    return choice if choice.rule is not None else choice.with_params(rule=rule)


def choose_basis(estimator: Any, rule: str, kernel: Kernel, given: WeightedRows, Y: Array) -> ChosenBasis:
    """Return the basis of an estimator among its rows; ``rule`` where it names none."""
    X = Gram.of(kernel, given.X).matrix if kernel.pairwise else given.X
    weighed = Weighed.of(given.weights, given.numbers, given.n_given, mean_one=False)
    choice = weighed.renumber(basis_choice(estimator.basis, rule))
    return chosen_basis(choice, kernel, ArraySource(X, Y, weights=weighed.weights), 1.0)
