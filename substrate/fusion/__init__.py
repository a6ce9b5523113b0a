"""Fusion of training and validation, with a certified global optimum."""

from substrate.fusion.fuse import fuse
from substrate.fusion.kernel_fusion import KernelFusion, fuse_kernels
from substrate.fusion.problem_fusion import ProblemFusion, fuse_problem
from substrate.fusion.result import FusedPath, Fusion, JointFusion, JointPath

__all__ = [
    "FusedPath",
    "Fusion",
    "JointFusion",
    "JointPath",
    "KernelFusion",
    "ProblemFusion",
    "fuse",
    "fuse_kernels",
    "fuse_problem",
]
