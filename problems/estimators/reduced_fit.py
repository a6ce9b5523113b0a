"""Fits on a reduced basis, from rows and parameters: the basis, one statistic of all rows, the solution."""

from dataclasses import dataclass
from typing import Any

from problems.estimators.basis_choice import BasisChoice, ChosenBasis
from substrate.arrays import Array, check_memory
from substrate.certificates import Row
from substrate.closed_form.eigen_features import EigenFeatures, eigen_features, reconstruction_errors
from substrate.closed_form.kernel_rows import KernelRows
from substrate.closed_form.reduced_basis import (
    LeverageFactor,
    leverage_factor,
    solve_reduced,
)
from substrate.closed_form.reduced_spectrum import ReducedSpectrum, reduced_spectrum
from substrate.closed_form.reduced_statistic import Statistic, accumulate, origin_of
from substrate.closed_form.saddle_system import target_unit
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.kernels.base import symmetric_matrix

__all__ = ["CONDITIONAL", "Prepared", "ReducedFit", "fit_reduced", "one_fit", "prepare"]

#: What leave-one-out of a sparse machine takes for granted.
CONDITIONAL = "the basis, kernel, gamma and scaling of the columns, chosen with the left-out row in sight"
#: Rows up to which all pairs of them are looked at for a width that makes no sense.
_FEW_ROWS = 500


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows against a chosen basis: everything but the targets' statistic."""

    kernel: Kernel
    basis: ChosenBasis
    rows: KernelRows
    K: Array
    features: EigenFeatures
    facts: tuple[tuple[str, str], ...]
    reconstruction: float

    def statistic(self, Y: Array, lam: float, folds: Any = ()) -> Statistic:
        """One pass over all rows, good for every 1/gamma from ``lam`` on."""
        origin = origin_of(self.K, Y, target_unit(Y))
        return accumulate(self.rows, Y, self.features, origin, lam, folds)


@dataclass(frozen=True, slots=True)
class ReducedFit:
    """The solution of all outputs at one gamma."""

    prepared: Prepared
    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    factor: LeverageFactor
    freedom: float


def prepare(kernel: Kernel, X: Any, Y: Array, choice: BasisChoice, lam: float) -> Prepared:
    """Choose the basis and decompose its kernel matrix."""
    whole = Gram.of(kernel, X) if kernel.pairwise else None
    if whole is not None:
        whole.check_definite()
        X = whole.matrix
    basis = choice.chosen(None if whole is not None else kernel, X, Y, lam)
    n = basis.size
    check_memory(56.0 * n * n, f"the sums over {n} basis vectors", "take a smaller n_basis, a more reduced set.")
    if whole is None:
        if X.shape[0] <= _FEW_ROWS:
            Gram.of(kernel, X)  # warns of a kernel that tells no rows apart; a basis of spread points always seems to
        part = Gram(symmetric_matrix(kernel, basis.points), kernel)
        if not kernel.trusted:
            part.check_definite()
        rows, record = KernelRows(kernel, X, basis.points), part.record()
    else:
        part = whole.block(basis.rows)
        rows, record = KernelRows(None, X, basis.rows), whole.record()
    K = part.matrix
    features = eigen_features(K)
    error = _reconstruction(kernel if whole is None else None, X, rows, basis, features)
    facts = (
        *((name, fact) for name, fact in record if name != "Gram matrix"),
        ("basis", basis.told),
        ("rank", f"{features.rank} of {n}, directions of K_SS above rounding"),
        ("reconstruction error", f"{error:.2e}, mean over {len(basis.scoring)} rows"),
    )
    return Prepared(kernel, basis, rows, K, features, facts, error)


def _reconstruction(kernel: Kernel | None, X: Any, rows: KernelRows, basis: ChosenBasis, f: EigenFeatures) -> float:
    total, scoring = 0.0, basis.scoring
    for start in range(0, len(scoring), rows.step):
        some = scoring[start : start + rows.step]
        diagonal = X.diagonal()[some] if kernel is None else kernel.diag(X[some])
        total += float(reconstruction_errors(rows.taken(some), diagonal, f).sum())
    return total / len(scoring)


def fit_reduced(prepared: Prepared, Y: Array, gamma: float, spectrum: ReducedSpectrum, method: str) -> ReducedFit:
    """Solve at one gamma, refine, certify, and keep what leave-one-out needs."""
    lam = 1.0 / gamma
    solved = solve_reduced(prepared.rows, Y, spectrum, lam, prepared.K)
    facts = (
        *prepared.facts,
        ("gamma", f"{gamma:g}"),
        ("statistic", f"{method}, error estimated at {spectrum.error:.1e}"),
        ("solver", f"eigen-features, refined {solved.refinements} times"),
    )
    if spectrum.origin.unit != 1.0:
        facts += (("units", "residuals in units of max|y|"),)
    factor = leverage_factor(spectrum, lam)
    freedom = spectrum.degrees_of_freedom(lam)
    return ReducedFit(prepared, solved.coefficients, solved.bias, solved.rows, facts, factor, freedom)


def one_fit(prepared: Prepared, Y: Array, gamma: float) -> ReducedFit:
    """Statistic and solution at one gamma."""
    statistic = prepared.statistic(Y, 1.0 / gamma)
    spectrum = reduced_spectrum(prepared.features, statistic.origin, statistic.total, statistic.error)
    return fit_reduced(prepared, Y, gamma, spectrum, statistic.method)
