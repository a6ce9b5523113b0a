"""Fusion of training and validation, with a certified global optimum."""

from substrate.fusion.fuse import fuse
from substrate.fusion.result import FusedPath, Fusion

__all__ = ["FusedPath", "Fusion", "fuse"]
