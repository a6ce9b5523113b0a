r"""The proof of a fusion over a list of kernels: one proof for each, and the smallest of their bounds.

With :math:`v_k(\theta) \ge l_k` for all weights of kernel k, :math:`\min_k l_k` is a bound for the whole list. Every
proof is of its own kind, and is checked as if it stood alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from substrate.fusion.fusion_proof import FusionProof
from substrate.fusion.gamma_proof import GammaProof
from substrate.fusion.path_proof import PathProof
from substrate.fusion.saved_proof import SavedProof, UnprovedError, arrays_under, refuse_numbers
from substrate.fusion.shaped_proof import ShapedProof
from substrate.fusion.simplex_proof import SimplexProof
from substrate.fusion.unsaved_proof import UnsavedProof

__all__ = ["PROOFS", "ListProof", "collect_proofs", "common_ranges"]

#: The proofs of single fusions.
PROOFS: tuple[type[SavedProof], ...] = (FusionProof, SimplexProof, PathProof, GammaProof, ShapedProof)


@dataclass(frozen=True, kw_only=True)
class ListProof(SavedProof):
    """The proofs of all kernels of a list, by name."""

    kinds = ("proofs of a fusion over a list of kernels",)

    proofs: dict[str, SavedProof]

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the headers and the arrays of all proofs."""
        headers, arrays = [], dict[str, Any]()
        for number, (name, proof) in enumerate(self.proofs.items()):
            header, numbers = proof.contents()
            headers.append([name, header])
            arrays |= {f"kernel{number}.{key}": array for key, array in numbers.items()}
        return {"kernels": headers}, arrays

    @classmethod
    def read(cls, statement: dict[str, Any], archive: Any) -> "ListProof":
        """Return the proofs of a file; raise where the numbers of one do not fit together."""
        proofs: dict[str, SavedProof] = {}
        for number, (name, header) in enumerate(archive.content["kernels"]):
            arrays = arrays_under(archive.arrays, f"kernel{number}.")
            (kind,) = [proof for proof in PROOFS if header["kind"] in proof.kinds]
            proofs[str(name)] = kind.recall(SimpleNamespace(content=header, arrays=arrays))
        if not proofs:
            refuse_numbers()
        return cls(**statement, proofs=proofs)

    def describe(self) -> tuple[tuple[str, str], ...]:
        """State the sizes of all proofs, and what they assume."""
        facts = [(f"kernel {name}", dict(proof.describe())["proof"]) for name, proof in self.proofs.items()]
        assumed = dict.fromkeys(
            fact for proof in self.proofs.values() for fact in proof.describe() if fact[0] != "proof"
        )
        return (*facts, *assumed)

    @property
    def how(self) -> str:
        """State how a check computes the bounds, each kind once."""
        return "; ".join(dict.fromkeys(proof.how for proof in self.proofs.values()))

    def _check_boxes(self) -> None:
        for name, proof in self.proofs.items():
            ends = dict(zip(proof.names, proof.box, strict=True))
            for weight, (low, high) in zip(self.names, self.box, strict=True):
                inner = ends.get(weight, (1.0, 0.0))
                if not (inner[0] <= low and high <= inner[1]):
                    raise UnprovedError(f"the proof of {name} covers {weight} from {inner[0]:g} to {inner[1]:g} only")

    def bound(self) -> float:
        """Compute the smallest bound of all proofs again."""
        self._check_boxes()
        return self.divisor * min(proof.bound() / proof.divisor for proof in self.proofs.values())

    def bound_in_balls(self) -> float:
        """Compute the smallest bound of all proofs again in ball arithmetic, where all have one."""
        self._check_boxes()
        return self.divisor * min(proof.bound_in_balls() / proof.divisor for proof in self.proofs.values())


def common_ranges(fusions: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the values of each weight over which the bound holds for every kernel that was fused."""
    ranges = [fusion.proved_on for fusion in fusions.values()]
    return {
        name: (max(range_[name][0] for range_ in ranges), min(range_[name][1] for range_ in ranges))
        for name in ranges[0]
    }


def collect_proofs(
    fusions: Mapping[str, Any], failures: Mapping[str, str], best: Any, lower: float, gap: float
) -> ListProof | UnsavedProof:
    """Return the proofs of all kernels, or why there is one without."""
    reasons = [*failures.items()]
    reasons += [(name, fusion.proof.reason) for name, fusion in fusions.items() if not fusion.proof]
    if reasons:
        return UnsavedProof("; ".join(f"{name}: {reason}" for name, reason in reasons))
    ranges = common_ranges(fusions)
    return ListProof(
        names=tuple(ranges),
        box=tuple(ranges.values()),
        values=dict(best.values),
        validation_error=best.validation_error,
        lower_bound=lower,
        gap=gap,
        divisor=1.0,
        least=best.least,
        proofs={name: fusion.proof for name, fusion in fusions.items()},
    )
