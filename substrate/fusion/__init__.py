"""Fusion of training and validation, with a certified global optimum."""

from substrate.fusion.fuse import fuse
from substrate.fusion.proof import CheckedProof, check_proof
from substrate.fusion.result import FusedPath, Fusion

__all__ = [
    "CheckedProof",
    "FusedPath",
    "Fusion",
    "check_proof",
    "fuse",
]
