"""Rows against a chosen basis, before targets and gamma have their say."""

from dataclasses import dataclass

from problems.estimators.basis_choice import ChosenBasis
from substrate.arrays import Array
from substrate.closed_form.eigen_features import EigenFeatures
from substrate.closed_form.fold_labels import Folds
from substrate.closed_form.kernel_rows import KernelRows
from substrate.closed_form.moment_sums import RowWeights
from substrate.closed_form.moments import Origin, origin_of
from substrate.closed_form.reduced_statistic import Statistic, spread_rows
from substrate.closed_form.rows_anywhere import Rows, in_passes, statistic_of
from substrate.closed_form.saddle_system import target_unit
from substrate.kernels import Kernel
from substrate.streaming.target_summary import TargetSummary

__all__ = ["Prepared", "basis_facts"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows against a chosen basis: everything but the targets' statistic."""

    kernel: Kernel
    basis: ChosenBasis
    rows: Rows
    K: Array
    features: EigenFeatures
    facts: tuple[tuple[str, str], ...]
    reconstruction: float
    targets: TargetSummary

    @property
    def origin(self) -> Origin:
        """What is taken off kernel values and targets."""
        return origin_of(self.K, self.targets, target_unit(self.targets.extremes))

    @property
    def host_rows(self) -> KernelRows:
        """The rows, for machines that are computed in numpy's passes only."""
        return in_passes(self.rows)

    def statistic(
        self, lam: float, folds: Folds | None = None, method: str = "auto", weights: RowWeights | None = None
    ) -> Statistic:
        """One pass over all rows, good for every 1/gamma from ``lam`` on."""
        some = self.basis.sample[spread_rows(self.rows.n_rows)] if method == "auto" else None
        return statistic_of(self.rows, self.features, self.origin, lam, folds, method, some, weights)


def basis_facts(
    record: tuple[tuple[str, str], ...], basis: ChosenBasis, features: EigenFeatures, error: float
) -> tuple[tuple[str, str], ...]:
    """What a certificate tells of a basis, after the record of its kernel matrix."""
    return (
        *((name, fact) for name, fact in record if name != "Gram matrix"),
        ("basis", basis.told),
        ("rank", f"{features.rank} of {basis.size}, directions of K_SS above rounding"),
        ("reconstruction error", f"{error:.2e}, mean over {len(basis.scoring)} rows"),
    )
