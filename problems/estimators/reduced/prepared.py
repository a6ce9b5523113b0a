"""Rows and a chosen basis, before targets and gamma enter."""

from dataclasses import dataclass, replace

from problems.estimators.reduced.weighed import ALIKE, Weighed
from substrate.arrays import Array
from substrate.kernels import Kernel
from substrate.least_squares.saddle_system import target_unit
from substrate.reduced.basis_matrix import BasisMatrix, resolved_features
from substrate.reduced.choice import ChosenBasis
from substrate.reduced.features import EigenFeatures
from substrate.reduced.folds import Folds
from substrate.reduced.moments import Origin, RowWeights, origin_of
from substrate.reduced.rows import KernelRows
from substrate.reduced.statistic import LARGEST_ERROR, Statistic, accumulate, spread_rows
from substrate.streaming.survey import TargetSummary

__all__ = ["Prepared", "basis_facts", "rank_fact"]


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
    targets: TargetSummary
    weighed: Weighed = ALIKE

    @property
    def origin(self) -> Origin:
        """What is taken off kernel values and targets."""
        return origin_of(self.K, self.targets, target_unit(self.targets.extremes))

    def resolved(self) -> "Prepared | None":
        """The same in features of directions far below rounding; None where doubled precision does not find more."""
        features = resolved_features(
            BasisMatrix(self.rows.values.kernel, self.rows.values.points, self.K, self.features)
        )
        if features is None:
            return None
        facts = tuple(
            (name, rank_fact(features, self.basis)) if name == "rank" else (name, fact) for name, fact in self.facts
        )
        return replace(self, features=features, facts=facts)

    def statistic(
        self,
        lam: float,
        folds: Folds | None = None,
        method: str = "auto",
        weights: RowWeights | None = None,
        largest: float = LARGEST_ERROR,
    ) -> Statistic:
        """One pass over all rows, good for every 1/gamma from ``lam`` on, up to the error that is accepted."""
        some = None
        if method == "auto":
            some = self.rows.source.beside(self.basis.sample[spread_rows(self.rows.n_rows)])
        return accumulate(self.rows, self.features, self.origin, lam, folds, method, some, weights, largest)


def rank_fact(features: EigenFeatures, basis: ChosenBasis) -> str:
    """How many directions are kept, and how they were found."""
    way = "above rounding" if features.dual is None else "by doubled precision"
    return f"{features.rank} of {basis.size}, directions of K_SS {way}"


def basis_facts(
    record: tuple[tuple[str, str], ...], basis: ChosenBasis, features: EigenFeatures, error: float
) -> tuple[tuple[str, str], ...]:
    """The facts of a basis on a certificate, after the record of its kernel matrix."""
    return (
        *((name, fact) for name, fact in record if name != "Gram matrix"),
        ("basis", basis.description),
        ("rank", rank_fact(features, basis)),
        ("reconstruction error", f"{error:.2e}, mean over {len(basis.scoring)} rows"),
    )
