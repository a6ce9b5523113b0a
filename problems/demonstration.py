"""What a problem file says of itself so that ``substrate verify`` can run it: equations, data set, parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from substrate.kernels import Kernel

__all__ = ["Demonstration"]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One worked case: the data set's name in :mod:`substrate.datasets`, the kernel, and the arguments of ``declare``.

    ``every`` takes each k-th row where the whole set would make a slow demonstration; with ``task="classification"``
    the two classes become the labels -1 and +1.
    """

    equations: str
    dataset: str
    kernel: Kernel
    parameters: Mapping[str, Any]
    forms: tuple[str, ...]
    task: str = "regression"
    every: int = 1
    standardize: bool = False
