"""Fits on a reduced basis, from rows and parameters: the basis, one statistic of all rows, the solution."""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from problems.estimators.basis_choice import BasisChoice, ChosenBasis
from problems.estimators.device_fit import prepare_on_device
from problems.estimators.fit_data import FitData
from problems.estimators.prepared import Prepared, basis_facts
from substrate.arrays import Array, check_memory
from substrate.certificates import Row
from substrate.closed_form.eigen_features import EigenFeatures, eigen_features, reconstruction_errors
from substrate.closed_form.kernel_rows import KernelRows, KernelValues
from substrate.closed_form.reduced_gradient import TOLERANCE, solve_by_gradients
from substrate.closed_form.reduced_left_out import LeverageFactor, leverage_factor
from substrate.closed_form.reduced_spectrum import ReducedSpectrum, reduced_spectrum
from substrate.closed_form.reduced_statistic import Statistic
from substrate.closed_form.rows_anywhere import solution_of
from substrate.device_gram import DeviceGram
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.kernels.base import symmetric_matrix
from substrate.namespaces import is_device_array
from substrate.streaming.array_source import ArraySource
from substrate.streaming.source import Source

__all__ = ["CONDITIONAL", "ReducedFit", "fit_reduced", "iterated_fit", "one_fit", "prepare"]

#: What leave-one-out of a sparse machine takes for granted.
CONDITIONAL = "the basis, kernel, gamma and scaling of the columns, chosen with the left-out row in sight"
#: Rows up to which all pairs of them are looked at for a width that makes no sense.
_FEW_ROWS = 500


@dataclass(frozen=True, slots=True)
class ReducedFit:
    """The solution of all outputs at one gamma; leverages and degrees of freedom where the sums for them were taken."""

    prepared: Prepared
    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    factor: LeverageFactor | None
    freedom: float | None
    warned: bool = False


def prepare(kernel: Kernel, data: FitData, choice: BasisChoice, lam: float) -> Prepared:
    """Choose the basis and decompose its kernel matrix, where the rows are."""
    source = data.source
    if isinstance(source, ArraySource) and is_device_array(source.X):
        if source.n_rows <= _FEW_ROWS and not kernel.pairwise:
            DeviceGram.of(kernel, source.X)  # warns, as below
        return prepare_on_device(kernel, source, data.targets, choice, lam)
    whole = None
    if kernel.pairwise:
        whole, source = _given_matrix(kernel, source)
    basis = choice.chosen(None if whole is not None else kernel, source, data.passes, lam)
    n = basis.size
    check_memory(56.0 * n * n, f"the sums over {n} basis vectors", "take a smaller n_basis, a more reduced set.")
    if whole is None:
        if source.n_rows <= _FEW_ROWS:
            # warns of a kernel that tells no rows apart; a basis of spread points always seems to
            Gram.of(kernel, source.taken(np.arange(source.n_rows)))
        part = Gram(symmetric_matrix(kernel, basis.points), kernel)
        if not kernel.trusted:
            part.check_definite()
        values, record = KernelValues(kernel, basis.points), part.record()
    else:
        part = whole.block(basis.rows)
        values, record = KernelValues(None, basis.rows), whole.record()
    rows = KernelRows(values, source, data.passes.shared(source, n))
    K = part.matrix
    features = eigen_features(K)
    error = _reconstruction(kernel, whole, values, basis, features)
    facts = basis_facts(record, basis, features, error)
    known = rows.target_summary() if data.targets is None else data.targets
    return Prepared(kernel, basis, rows, K, features, facts, error, known)


def _given_matrix(kernel: Kernel, source: Source) -> tuple[Gram, Source]:
    """A precomputed kernel matrix, checked, as the rows of a source."""
    if not isinstance(source, ArraySource):
        raise DataError(f"a precomputed kernel matrix must be in memory, and {source.name} is read in passes")
    whole = Gram.of(kernel, source.X)
    whole.check_definite()
    return whole, ArraySource(whole.matrix, source.Y)


def _reconstruction(
    kernel: Kernel, whole: Gram | None, values: KernelValues, basis: ChosenBasis, features: EigenFeatures
) -> float:
    total, scoring = 0.0, basis.scoring
    for start in range(0, len(scoring), values.step):
        some = scoring[start : start + values.step]
        X = basis.sample[some]
        diagonal = whole.matrix.diagonal()[some] if whole is not None else kernel.diag(X)
        total += float(reconstruction_errors(values.matrix(X), diagonal, features).sum())
    return total / len(scoring)


@np.errstate(over="ignore", invalid="ignore")  # what overflows is not finite, and its rows fail
def fit_reduced(
    prepared: Prepared, gamma: float, spectrum: ReducedSpectrum, statistic: Statistic, tolerance: float
) -> ReducedFit:
    """Solve at one gamma, refine, certify, and keep what leave-one-out needs.

    ``tolerance`` is the share of the spread of y that the accuracy may be.
    """
    lam = 1.0 / gamma
    known = (statistic.kernel_squares, prepared.targets)
    solved = solution_of(prepared.rows, spectrum, lam, prepared.K, *known, tolerance)
    how = (
        ("statistic", f"{statistic.method}, error estimated at {spectrum.error:.1e}"),
        ("solver", f"eigen-features, refined {solved.refinements} times"),
    )
    facts = (*_facts(prepared, gamma, how), *solved.facts)
    factor = leverage_factor(spectrum, lam)
    freedom = spectrum.degrees_of_freedom(lam)
    return ReducedFit(prepared, solved.coefficients, solved.bias, solved.rows, facts, factor, freedom)


def one_fit(prepared: Prepared, gamma: float, tolerance: float) -> ReducedFit:
    """Statistic and solution at one gamma."""
    statistic = prepared.statistic(1.0 / gamma)
    spectrum = reduced_spectrum(prepared.features, statistic.origin, statistic.total, statistic.error)
    return fit_reduced(prepared, gamma, spectrum, statistic, tolerance)


def iterated_fit(prepared: Prepared, gamma: float, tolerance: float) -> ReducedFit:
    """The solution at one gamma by conjugate gradients, without a statistic and so without leverages."""
    rows, features = prepared.host_rows, prepared.features
    solved = solve_by_gradients(
        rows, features, prepared.origin, 1.0 / gamma, prepared.K, targets=prepared.targets, answer_tolerance=tolerance
    )
    if not solved.converged:
        warnings.warn(
            f"conjugate gradients stopped after {solved.iterations} iterations above the tolerance {TOLERANCE:g}, and "
            "the certificate does not hold; lower gamma, or use solver='direct'",
            ConvergenceWarning,
            stacklevel=4,
        )
    told = f"conjugate gradients, {solved.iterations} iterations, preconditioned by the sums of {solved.sampled} rows"
    facts = (*_facts(prepared, gamma, (("solver", told),)), *solved.facts)
    warned = not solved.converged
    return ReducedFit(prepared, solved.coefficients, solved.bias, solved.rows, facts, None, None, warned)


def _facts(prepared: Prepared, gamma: float, how: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    facts = (*prepared.facts, ("gamma", f"{gamma:g}"), *how)
    return facts if prepared.origin.unit == 1.0 else (*facts, ("units", "residuals in units of max|y|"))
