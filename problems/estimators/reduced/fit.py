"""Fits on a reduced basis, from rows and parameters: the basis, one statistic of all rows, the solution.

A reduced basis for rows on a device: chosen by rows on the host; what takes all rows stays where they are.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from problems.estimators.reduced.basis_choice import BasisChoice, ChosenBasis, Prepared, basis_facts
from problems.estimators.reduced.fit_data import FitData
from substrate.arrays import Array, check_memory
from substrate.certificates import Row
from substrate.device_gram import DeviceGram
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.kernels.base import symmetric_matrix
from substrate.namespaces import (
    is_device_array,
    namespace_of,
    on_device_of,
    room_on_device,
    take_rows,
    to_numpy,
    where_it_lives,
)
from substrate.reduced.device_rows import DeviceRows
from substrate.reduced.features import EigenFeatures, eigen_features, reconstruction_errors
from substrate.reduced.gradients import TOLERANCE, solve_by_gradients
from substrate.reduced.left_out import LeverageFactor, leverage_factor
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.reduced.rows_anywhere import solution_of
from substrate.reduced.solution import Statistic
from substrate.reduced.spectrum import ReducedSpectrum, reduced_spectrum
from substrate.streaming.array_source import ArraySource
from substrate.streaming.passes import Passes
from substrate.streaming.source import Source
from substrate.streaming.survey import TargetSummary

__all__ = ["CONDITIONAL", "ReducedFit", "fit_reduced", "iterated_fit", "one_fit", "prepare", "prepare_on_device"]


class _HostRows:
    """Rows of a device, brought to the host by number: selection looks at a few thousand of them."""

    def __init__(self, X: Any) -> None:
        self._X = X
        self.shape = tuple(X.shape)

    def __getitem__(self, rows: Any) -> Any:
        return to_numpy(self._X[rows, :] if isinstance(rows, slice) else take_rows(self._X, rows))


def prepare_on_device(
    kernel: Kernel, source: ArraySource, known: TargetSummary | None, choice: BasisChoice, lam: float
) -> Prepared:
    """Choose the basis and decompose its kernel matrix; ``known`` is what is known of the targets already."""
    if kernel.pairwise:
        raise DataError("a reduced basis of a precomputed kernel works on numpy arrays (K.cpu().numpy(), K.get())")
    X, Y = source.X, source.Y
    basis = _chosen(kernel, X, Y, choice, lam)
    n = basis.size
    room_on_device(X, 56.0 * n * n, f"the sums over {n} basis vectors", "take a smaller n_basis.")
    gram = DeviceGram.of(kernel, basis.points, warn=False)
    if not kernel.trusted:
        gram.check_definite()
    features = eigen_features(gram.matrix)
    rows = DeviceRows(kernel, X, Y, basis.points)
    diagonal = kernel.diag(take_rows(X, basis.scoring))
    errors = reconstruction_errors(rows.taken(basis.scoring), diagonal, features)
    error = float(namespace_of(X).mean(errors))
    targets = rows.target_summary() if known is None else known
    facts = basis_facts(gram.record(), basis, features, error)
    return Prepared(kernel, basis, rows, gram.matrix, features, facts, error, targets)


def _chosen(kernel: Kernel, X: Any, Y: Any, choice: BasisChoice, lam: float) -> ChosenBasis:
    """The choice is made on the host, by the rows it asks for; the basis goes back to the device."""
    if is_device_array(choice.basis):
        if where_it_lives(choice.basis) != where_it_lives(X) and choice.basis.ndim == 2:
            raise DataError(f"basis is {where_it_lives(choice.basis)}, X is {where_it_lives(X)}; move one of them")
        choice = replace(choice, basis=to_numpy(choice.basis))
    targets = to_numpy(Y) if isinstance(choice.basis, str) and choice.basis == "pruned" else np.empty((0, 1))
    basis = choice.chosen(kernel, ArraySource(_HostRows(X), targets), Passes(), lam)
    return replace(basis, points=on_device_of(X, basis.points))


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
