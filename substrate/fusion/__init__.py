"""Fusion of training and validation, with a certified global optimum."""

from substrate.fusion.fuse import fuse
from substrate.fusion.result import FusedPath, Fusion, JointPath

__all__ = [
    "FusedPath",
    "Fusion",
    "JointPath",
    "fuse",
]
