"""Files of proofs: read whatever their kind, and checked by another person."""

import os

from substrate.archive import read_archive
from substrate.certificates import Certificate
from substrate.errors import DataError
from substrate.fusion.list_proof import PROOFS, ListProof
from substrate.fusion.saved_proof import SavedProof

__all__ = ["check_fusion", "load_proof", "prove_fusion"]


def load_proof(path: str | os.PathLike[str], max_bytes: float | None = None) -> SavedProof:
    """Read a proof of any kind; a file that is something else, or damaged, is refused."""
    kind = read_archive(path, max_bytes).content.get("kind")
    kinds: tuple[type[SavedProof], ...] = (*PROOFS, ListProof)
    for proof in kinds:
        if kind in proof.kinds:
            return proof.load(path, max_bytes)
    raise DataError(f"{path} is not a saved proof of a fusion; read a model file with problems.load")


def check_fusion(path: str | os.PathLike[str], max_bytes: float | None = None) -> Certificate:
    """Check a saved proof of a fusion in double precision with all rounding; nothing is solved.

    The certificate holds where the bound that the file states, and its gap, follow from the numbers in it. Whether
    these are the numbers of a problem of yours says ``FusionProof.load(path).matches(problem, validation)``, of
    proofs by the universal inequality.
    """
    return load_proof(path, max_bytes).check()


def prove_fusion(path: str | os.PathLike[str], bits: int = 160) -> Certificate:
    """Check a saved proof of a small fusion in ball arithmetic, with the extra ``[proof]``."""
    return load_proof(path).prove(bits)
