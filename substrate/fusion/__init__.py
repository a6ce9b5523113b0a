"""Fusion of training and validation, with a certified global optimum."""

from substrate.fusion.fuse import fuse
from substrate.fusion.fusion_proof import FusionProof
from substrate.fusion.kernel_fusion import fuse_kernels
from substrate.fusion.problem_fusion import fuse_problem
from substrate.fusion.proof_file import check_fusion, load_proof, prove_fusion
from substrate.fusion.result import FusedPath, Fusion, JointFusion, JointPath, KernelList

__all__ = [
    "FusedPath",
    "Fusion",
    "FusionProof",
    "JointFusion",
    "JointPath",
    "KernelList",
    "check_fusion",
    "fuse",
    "fuse_kernels",
    "fuse_problem",
    "load_proof",
    "prove_fusion",
]
