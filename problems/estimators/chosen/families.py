r"""Families of kernels: which ones ``kernels="families"`` tries, and at which widths.

.. math:: k_0(x, z) = x^T z, \qquad k_{f, c}(x, z) = f\!\left(\frac{d_f(x, z)}{c\, m_f}\right), \qquad
          m_f = \operatorname{median}_{i < j} d_f(x_i, x_j), \qquad c \in \{\tfrac14, \tfrac12, 1, 2, 4\}

with f the RBF, the Matérn kernels of smoothness 3/2 and 5/2 (d the Euclidean distance) and the Laplacian kernel (d the
sum of absolute differences): 21 kernels. They differ in how smooth the fitted function is, which no width can replace:
from no derivative (Laplacian) over one and two to all of them (RBF), and a plane. The widths are multiples of the
median distance, so a common unit of the columns, and an offset, change nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from substrate.errors import DeclarationError
from substrate.kernels import RBF, Kernel, Laplacian, Linear, Matern, PowerExponential, Restricted, as_kernel

__all__ = [
    "FAMILIES",
    "MULTIPLES",
    "RECOMMENDED",
    "at_all_widths",
    "at_median_widths",
    "check_kernels",
    "family_name",
    "is_families",
    "list_unresolved",
]

#: The parameters of ``recommended``, of which an estimator takes those that it has.
RECOMMENDED: Mapping[str, Any] = {"kernels": "families", "search": "gradient"}

#: One kernel of each family, its width taken from the data.
FAMILIES: tuple[Kernel, ...] = (Linear(), RBF(), Laplacian(), Matern(nu=1.5), Matern(nu=2.5))
#: The widths that are tried, in median distances.
MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)

_LEAST, _MOST = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)


def is_families(kernels: Any) -> bool:
    """Return whether the parameter ``kernels`` asks for the families."""
    return isinstance(kernels, str) and kernels == "families"


def check_kernels(kernels: Any, pairwise: bool) -> None:
    """Refuse a parameter ``kernels`` that is given and no list of kernels; ``pairwise``: X is a kernel matrix."""
    if kernels is None:
        return
    if is_families(kernels):
        if pairwise:
            raise DeclarationError(
                "kernels='families' computes kernels of the inputs, and kernel='precomputed' has none; pass X itself "
                "and leave kernel at its default"
            )
        return
    if isinstance(kernels, (str, Kernel)) or not isinstance(kernels, Sequence) or not kernels:
        raise DeclarationError(f"kernels must be a list of kernels, at least one, or 'families', received {kernels!r}")
    if any(as_kernel(kernel).pairwise for kernel in kernels):
        raise DeclarationError("a precomputed kernel is no candidate; pass it as kernel='precomputed'")


def list_unresolved(kernels: Any) -> list[Kernel]:
    """Return the given kernels, or one of each family, with widths that may depend on the data."""
    return list(FAMILIES) if is_families(kernels) else [as_kernel(kernel) for kernel in kernels]


def at_all_widths(kernels: Any, resolved: Iterable[Kernel]) -> list[Kernel]:
    """Return the candidates, each once: families at all their widths, a list at its own widths."""
    if not is_families(kernels):
        return list(dict.fromkeys(resolved))
    kernels_found: list[Kernel] = []
    for kernel in resolved:
        kernels_found += [_widen(kernel, factor) for factor in MULTIPLES]
    return list(dict.fromkeys(kernels_found))


def _widen(kernel: Kernel, factor: float) -> Kernel:
    """Return a kernel with its width, or the width of the kernel on its columns, times a factor; others unchanged."""
    if isinstance(kernel, Restricted):
        return replace(kernel, kernel=_widen(kernel.kernel, factor))
    if isinstance(kernel, (RBF, Laplacian, Matern, PowerExponential)):
        width: Any = kernel.sigma
        return replace(kernel, sigma=min(max(factor * width, _LEAST), _MOST))
    return kernel


def at_median_widths(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Return, of candidates of families, one of each, at the middle of its widths."""
    by_family: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        by_family.setdefault(family_name(kernel), []).append(kernel)
    return [kernels_of_family[len(kernels_of_family) // 2] for kernels_of_family in by_family.values()]


def family_name(kernel: Kernel) -> str:
    """Return the family of a kernel, for a certificate: its class, and its smoothness or powers."""
    kernel = kernel.kernel if isinstance(kernel, Restricted) else kernel
    name = type(kernel).__name__
    if isinstance(kernel, PowerExponential):
        return f"{name} {kernel.p:g} {kernel.q:g}"
    return f"{name} {kernel.nu:g}" if isinstance(kernel, Matern) else name
