"""Proofs in ball arithmetic: the bounds of the certificates, computed again with rigorous enclosures.

They need python-flint, ``pip install "lssvm-substrate[proof]"``. Nothing here uses the code that fitted a model:
kernels are evaluated from their formulas, on the stored numbers, in as many bits as the verdict needs.
"""

from substrate.proof.balls import Proof, worst_proof

__all__ = ["Proof", "worst_proof"]
