"""Fusion of training and validation, with a certified global optimum."""

from substrate.fusion.fuse import CheckedProof, check_proof, fuse
from substrate.fusion.result import FusedPath, Fusion

__all__ = [
    "CheckedProof",
    "FusedPath",
    "Fusion",
    "check_proof",
    "fuse",
]
