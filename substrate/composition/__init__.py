"""The grammar of hierarchical machines: level 1 is a :class:`~substrate.Substrate`, everything above it is cvxpy.

Terms and constraints are written on expressions of the substrate; a :class:`~substrate.Machine` combines them into one
convex problem, chooses well-conditioned coordinates for it, solves it, and reads, predicts with and certifies the
solution.
"""

from substrate.composition.everywhere import Everywhere
from substrate.composition.level import Substrate
from substrate.composition.linear_operators import KernelAction, LinearOperator, Measure
from substrate.composition.machine import Machine
from substrate.composition.outputs import Column, LinearPart
from substrate.composition.result import Result, load

__all__ = [
    "Column",
    "Everywhere",
    "KernelAction",
    "LinearOperator",
    "LinearPart",
    "Machine",
    "Measure",
    "Result",
    "Substrate",
    "load",
]
