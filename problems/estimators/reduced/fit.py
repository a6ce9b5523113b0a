"""Fits on a reduced basis, from rows and parameters: the basis, one statistic of all rows, the solution."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.estimators.reduced.prepared import PreparedRows, basis_facts
from problems.estimators.reduced.weighed import ALIKE, Weighed, weight_facts
from problems.estimators.shared.coded import Classes
from substrate.arrays import Array
from substrate.certificates import Row
from substrate.device_gram import gram_kind
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.regularization import Regularization
from substrate.namespaces import HOST, namespace_of, own_copy, room_on_device, to_numpy
from substrate.reduced import Basis
from substrate.reduced.choice import ChosenBasis, chosen_basis
from substrate.reduced.features import EigenFeatures, eigen_features, reconstruction_errors
from substrate.reduced.gradients import TOLERANCE, solve_by_gradients
from substrate.reduced.left_out import LeverageFactor, leverage_factor
from substrate.reduced.linear_columns import LinearColumns
from substrate.reduced.moments import RowWeights
from substrate.reduced.rows import BasisValues, KernelRows
from substrate.reduced.solution import ReducedSolution, solve_reduced
from substrate.reduced.spectrum import ReducedSpectrum, reduced_spectrum
from substrate.reduced.statistic import LARGEST_ERROR, Statistic, accepted_error, accumulate
from substrate.streaming.array_source import ArraySource, CodedSource, LabelCodes, numbers, width_rows
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import Source
from substrate.streaming.survey import Labels, Survey, TargetSummary
from substrate.threads import blas_threads

__all__ = [
    "CONDITIONAL",
    "FitData",
    "ReducedFit",
    "fit_reduced",
    "iterated_fit",
    "one_fit",
    "prepare",
    "resolve",
    "solve_at",
]


@dataclass(frozen=True, slots=True)
class FitData:
    """Rows and targets, one column per output; a summary of the targets, if known; the classes.

    ``survey`` is that of rows that are read in passes; None where they are in memory. ``weighed`` states which of the
    rows given there are, and the unit of their weights, which come with the source.
    """

    source: Source
    passes: OpenPasses
    targets: TargetSummary | None = None
    classes: Classes | None = None
    survey: Survey | None = None
    weighed: Weighed = ALIKE

    @classmethod
    def of_numbers(cls, X: Any, y: Array, passes: OpenPasses, weighed: Weighed = ALIKE) -> "FitData":
        """Return rows in memory and their targets."""
        return cls(ArraySource(X, y[:, None], weights=weighed.weights), passes, weighed=weighed)

    @classmethod
    def of_labels(cls, X: Any, labels: Any, coding: str, passes: OpenPasses, weighed: Weighed = ALIKE) -> "FitData":
        """Return rows in memory and their labels."""
        classes = Classes.of(labels, coding)
        targets = _summary(classes, _counts(labels))
        source = ArraySource(X, own_copy(classes.codes(labels)), weights=weighed.weights)
        return cls(source=source, passes=passes, targets=targets, classes=classes, weighed=weighed)

    @classmethod
    def of_stream(
        cls, rows: Source, survey: Survey, coding: str | None, passes: OpenPasses, weighed: Weighed = ALIKE
    ) -> "FitData":
        """Return rows that are read in passes, after a first one."""
        if survey.count < 2:
            raise DataError(f"{rows.name} holds {survey.count} row; at least two are needed")
        if isinstance(survey.targets, Labels):
            classes = Classes.of(survey.targets.classes, "one_vs_rest" if coding is None else coding)
            coded = CodedSource(rows, LabelCodes(classes.names, classes.book))
            return cls(
                source=coded,
                passes=passes,
                targets=_summary(classes, survey.targets.counts),
                classes=classes,
                survey=survey,
                weighed=weighed,
            )
        return cls(
            source=CodedSource(rows, numbers),
            passes=passes,
            targets=survey.targets,
            classes=None,
            survey=survey,
            weighed=weighed,
        )

    @property
    def outputs(self) -> int:
        """The number of machines."""
        return 1 if self.classes is None else int(self.classes.book.shape[1])

    def width_rows(self) -> Any:
        """Return rows that determine the width of a kernel: the same numbers wherever the rows are."""
        numbers, block = width_rows(self.source.n_rows), self.source.block_in_memory
        if block is not None and numbers.size == self.source.n_rows:
            return block.X
        return self.source.take_rows(numbers)


def _counts(labels: Any) -> Any:
    """Return the number of rows of each class, in the order of the classes."""
    names, counts = (to_numpy(array) for array in namespace_of(labels).unique_counts(labels))
    return counts[np.argsort(names)]  # the standard guarantees no order


def _summary(classes: Classes, counts: Any) -> TargetSummary:
    """Return the summary of the codes, by counting."""
    total, book = int(counts.sum()), classes.book
    return TargetSummary(total, np.asarray((counts / total) @ book), book.min(axis=0), book.max(axis=0))


#: The conditions of leave-one-out of a sparse machine.
CONDITIONAL = "the basis, kernel, gamma and preparation of the columns, chosen with the left-out row included"
#: Number of rows up to which all pairs of them are examined for a degenerate width.
_FEW_ROWS = 500


@dataclass(frozen=True, slots=True)
class ReducedFit:
    """The solution of all outputs at one gamma; leverages and degrees of freedom where their sums are available."""

    prepared: PreparedRows
    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    factor: LeverageFactor | None
    freedom: float | None
    reason: str = ""
    noise: Array | None = None
    #: Of the coefficients of linear columns, for noise of variance one; None where there are none.
    deviations: Array | None = None


def prepare(
    kernel: Kernel,
    data: FitData,
    choice: Basis,
    lam: float,
    basis: ChosenBasis | None = None,
    *,
    independent: bool = True,
    linear: LinearColumns | None = None,
) -> PreparedRows:
    """Choose the basis, unless it is given, and decompose its kernel matrix, where the rows are.

    With ``independent`` a rule chooses no vectors that are in the span of the others up to rounding. ``linear`` are
    columns that are not penalised.
    """
    source, whole = data.source, None
    if kernel.pairwise:
        whole, source = _given_matrix(kernel, source)
    independent = independent and basis is None and isinstance(choice.rule, str)
    if basis is None:
        choice = data.weighed.renumber(choice)
        basis = chosen_basis(choice, kernel, source, data.passes, lam)
    n = basis.size
    advice = "take a smaller basis.n, a more reduced set."
    room_on_device(basis.points, 56.0 * n * n, f"the sums over {n} basis vectors", advice)
    if whole is None and source.n_rows <= _FEW_ROWS:
        # warns of a kernel that does not distinguish rows, which a basis of spread points would hide
        gram_kind(basis.points).of(kernel, source.take_rows(np.arange(source.n_rows)))
    gram_of_basis = _basis_gram(kernel, whole, basis)
    features = eigen_features(gram_of_basis.matrix)
    if independent and not features.is_well_conditioned:
        largest = float(features.values[0]) if features.rank else 0.0
        chosen = basis.without_dependent(to_numpy(gram_of_basis.matrix), largest)
        if chosen is not basis:
            basis, gram_of_basis = chosen, _basis_gram(kernel, whole, chosen)
            features = eigen_features(gram_of_basis.matrix)
    record = gram_of_basis.record() if whole is None else whole.record()
    values = BasisValues.of(kernel, basis.points if whole is None else basis.rows, linear)
    rows = KernelRows(values, source, data.passes.share(source, basis.size))
    K = gram_of_basis.matrix
    error = _reconstruction(kernel, whole, values.of_kernel, source, basis, features)
    facts = basis_facts(record, basis, features, error)
    summary = rows.target_summary() if data.targets is None else data.targets
    return PreparedRows(
        kernel=kernel,
        basis=basis,
        rows=rows,
        K=K,
        features=features.beside(linear),
        facts=facts,
        reconstruction=error,
        targets=summary,
        weighed=data.weighed,
    )


def _basis_gram(kernel: Kernel, whole: Gram | None, basis: ChosenBasis) -> Any:
    """Return the kernel matrix of the basis, checked where the kernel may not be positive semi-definite."""
    if whole is not None:
        return whole.restrict(basis.rows)
    gram = gram_kind(basis.points)(kernel(basis.points), kernel)
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
    values: BasisValues,
    source: Source,
    basis: ChosenBasis,
    features: EigenFeatures,
) -> float:
    total, scoring = 0.0, basis.scoring
    for start in range(0, len(scoring), values.step):
        rows = scoring[start : start + values.step]
        X = source.beside(basis.sample[rows])
        diagonal = kernel.diag(X) if whole is None else whole.matrix.diagonal()[rows]
        errors = reconstruction_errors(values.matrix(X), diagonal, features)
        total += float(namespace_of(errors).sum(errors))
    return total / len(scoring)


@np.errstate(over="ignore", invalid="ignore")  # overflow is not finite, and its rows fail
def fit_reduced(
    prepared: PreparedRows, gamma: float, spectrum: ReducedSpectrum, statistic: Statistic, tolerance: float
) -> ReducedFit:
    """Solve at one gamma, refine, certify, and keep the factor for leave-one-out.

    ``tolerance`` is the accuracy required, as a share of the spread of y.
    """
    lam = Regularization(gamma).lam
    solved = SolvedAt(prepared, statistic, spectrum, _solution(prepared, lam, spectrum, statistic, tolerance))
    return _keep(resolve(solved, lam, tolerance), gamma)


@dataclass(frozen=True, slots=True)
class SolvedAt:
    """Statistic, spectrum and solution at one 1/gamma, in the features of ``prepared``."""

    prepared: PreparedRows
    statistic: Statistic
    spectrum: ReducedSpectrum
    solution: ReducedSolution

    @property
    def passes(self) -> bool:
        """Whether the answer is within its tolerance."""
        return self.solution.rows[0].passes


def _keep(solved_at: SolvedAt, gamma: float) -> ReducedFit:
    prepared, statistic, spectrum, solved = (
        solved_at.prepared,
        solved_at.statistic,
        solved_at.spectrum,
        solved_at.solution,
    )
    lam = Regularization(gamma).lam
    how = (
        ("statistic", f"{statistic.method}, error estimated at {spectrum.error:.1e}"),
        ("solver", f"eigen-features, refined {solved.refinements} times"),
    )
    facts = (*_facts(prepared, gamma, how), *solved.facts)
    factor = leverage_factor(spectrum, lam)
    freedom = spectrum.degrees_of_freedom(lam)
    noise = spectrum.noise_variance(lam)
    deviations = spectrum.free_deviations(lam) if spectrum.features.free else None
    return ReducedFit(
        prepared=prepared,
        coefficients=solved.coefficients,
        bias=solved.bias,
        rows=solved.rows,
        facts=facts,
        factor=factor,
        freedom=freedom,
        reason="",
        noise=noise,
        deviations=deviations,
    )


def _solution(
    prepared: PreparedRows,
    lam: float,
    spectrum: ReducedSpectrum,
    statistic: Statistic,
    tolerance: float,
    weights: RowWeights | None = None,
) -> ReducedSolution:
    return solve_reduced(
        prepared.rows,
        spectrum,
        lam,
        prepared.K,
        weights_of_rows=weights,
        targets=prepared.targets,
        share=tolerance,
        kernel_squares=statistic.kernel_squares,
        sums=statistic.sums,
        columns=statistic.columns,
    )


def resolve(solved: SolvedAt, lam: float, tolerance: float, weights: RowWeights | None = None) -> SolvedAt:
    """Return the solution in features by doubled precision, where ``found`` fails and the other is better.

    Directions of the basis that are near rounding or below it are found so.
    """
    if solved.passes:
        return solved
    prepared = solved.prepared.resolve()
    if prepared is None:
        return solved
    solved_again = solve_at(prepared, lam, tolerance, weights)
    return (
        solved_again
        if solved_again.passes or solved_again.solution.rows[0].value < solved.solution.rows[0].value
        else solved
    )


def solve_at(prepared: PreparedRows, lam: float, tolerance: float, weights: RowWeights | None = None) -> SolvedAt:
    """Return statistic, spectrum and solution at one 1/gamma, in the given features.

    Sums of kernel values take half the time of sums of features. They are taken also where they have few digits, if the
    accuracy that is required can be proved of the answer; otherwise the features of all rows are summed. Where that is
    not enough, :func:`resolve` tries other features.
    """
    accepted = LARGEST_ERROR if prepared.rows.on_device else accepted_error(prepared.rows.n_rows)
    rows, features, origin = prepared.rows, prepared.features, prepared.origin
    statistic = accumulate(rows, features, origin, lam, numbers=prepared.spread, weights=weights, largest=accepted)
    while True:
        spectrum = reduced_spectrum(features, statistic.origin, statistic.total, statistic.error)
        solved = _solution(prepared, lam, spectrum, statistic, tolerance, weights)
        if solved.rows[0].passes or statistic.error <= LARGEST_ERROR:
            return SolvedAt(prepared, statistic, spectrum, solved)
        statistic = accumulate(rows, features, origin, lam, method="row-wise", weights=weights)


@np.errstate(over="ignore", invalid="ignore")  # overflow is not finite, and its rows fail
def one_fit(prepared: PreparedRows, gamma: float, tolerance: float) -> ReducedFit:
    """Return the statistic and solution at one gamma."""
    lam = Regularization(gamma).lam
    with blas_threads(prepared.rows.n_basis):  # once: to set the number and restore it takes as long as a small product
        return _keep(resolve(solve_at(prepared, lam, tolerance), lam, tolerance), gamma)


def iterated_fit(prepared: PreparedRows, gamma: float, tolerance: float) -> ReducedFit:
    """Return the solution at one gamma by conjugate gradients, without a statistic and so without leverages."""
    rows, features, lam = prepared.rows, prepared.features, Regularization(gamma).lam
    solved = solve_by_gradients(
        rows, features, prepared.origin, lam, prepared.K, targets=prepared.targets, answer_share=tolerance
    )
    reason = ""
    if not solved.is_converged:
        reason = (
            f"conjugate gradients stopped after {solved.iterations} iterations above the tolerance {TOLERANCE:g}; "
            "lower gamma, or use solver='direct'"
        )
    method = f"conjugate gradients, {solved.iterations} iterations, preconditioned by the sums of {solved.sampled} rows"
    facts = (*_facts(prepared, gamma, (("solver", method),)), *solved.facts)
    return ReducedFit(
        prepared=prepared,
        coefficients=solved.coefficients,
        bias=solved.bias,
        rows=solved.rows,
        facts=facts,
        factor=None,
        freedom=None,
        reason=reason,
    )


def _facts(prepared: PreparedRows, gamma: float, how: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    facts = (*prepared.facts, ("gamma", f"{gamma / prepared.weighed.unit:g}"), *weight_facts(prepared.rows), *how)
    return facts if prepared.origin.unit == 1.0 else (*facts, ("units", "residuals in units of max|y|"))
