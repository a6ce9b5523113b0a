"""What a problem file says of itself so that ``substrate verify`` can run it: equations, data set, parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from substrate.kernels import Kernel

__all__ = ["Demonstration"]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One worked case: the data set's name in :mod:`substrate.datasets`, the kernel, and the arguments of ``declare``.

    ``rows`` takes every k-th row where the whole set would make a slow demonstration.
    """

    equations: str
    dataset: str
    kernel: Kernel
    parameters: Mapping[str, Any]
    forms: tuple[str, ...]
    every: int = 1
    standardize: bool = False
