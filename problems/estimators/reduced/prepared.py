"""Rows and a chosen basis, before targets and gamma enter."""

from dataclasses import dataclass, replace
from typing import Any

from problems.estimators.reduced.weighed import ALIKE, Weighed
from substrate.arrays import Array
from substrate.kernels import Kernel
from substrate.least_squares.saddle_system import target_unit
from substrate.reduced.basis_matrix import BasisMatrix, resolved_features
from substrate.reduced.choice import ChosenBasis
from substrate.reduced.features import EigenFeatures
from substrate.reduced.moments import Origin, origin_of
from substrate.reduced.rows import KernelRows
from substrate.reduced.statistic import spread_rows
from substrate.streaming.survey import TargetSummary

__all__ = ["PreparedRows", "basis_facts", "rank_fact"]


@dataclass(frozen=True, slots=True)
class PreparedRows:
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
        return origin_of(self.K, self.targets, target_unit(self.targets.extremes), self.features.free)

    @property
    def spread(self) -> Any:
        """The rows by which the method of summation is chosen, which the choice of the basis has read already."""
        return self.rows.source.beside(self.basis.sample[spread_rows(self.rows.n_rows)])

    def resolve(self) -> "PreparedRows | None":
        """Return the same in features of directions far below rounding; None where doubled precision does not find
        more.
        """
        features = resolved_features(BasisMatrix(self.rows.values.of_kernel, self.K, self.features.of_kernel))
        if features is None:
            return None
        facts = tuple(
            (name, rank_fact(features, self.basis)) if name == "rank" else (name, fact) for name, fact in self.facts
        )
        return replace(self, features=features.beside(self.rows.values.columns), facts=facts)


def rank_fact(features: EigenFeatures, basis: ChosenBasis) -> str:
    """Return how many directions are kept, and how they were found."""
    way = "above rounding" if features.dual is None else "by doubled precision"
    return f"{features.rank} of {basis.size}, directions of K_SS {way}"


def basis_facts(
    record: tuple[tuple[str, str], ...], basis: ChosenBasis, features: EigenFeatures, error: float
) -> tuple[tuple[str, str], ...]:
    """Return the facts of a basis on a certificate, after the record of its kernel matrix."""
    return (
        *((name, fact) for name, fact in record if name != "Gram matrix"),
        ("basis", basis.description),
        ("rank", rank_fact(features, basis)),
        ("reconstruction error", f"{error:.2e}, mean over {len(basis.scoring)} rows"),
    )
