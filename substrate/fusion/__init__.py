"""Fusion of training and validation, with a certified global optimum."""

from substrate.fusion.fuse import fuse
from substrate.fusion.kernel_fusion import fuse_kernels
from substrate.fusion.problem_fusion import fuse_problem
from substrate.fusion.result import FusedPath, Fusion, JointFusion, JointPath, KernelList

__all__ = [
    "FusedPath",
    "Fusion",
    "JointFusion",
    "JointPath",
    "KernelList",
    "fuse",
    "fuse_kernels",
    "fuse_problem",
]
