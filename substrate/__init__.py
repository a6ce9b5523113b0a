"""Ingredients of least-squares support vector machines, declared as convex problems and certified.

The modules, in the order of their imports: :mod:`substrate.errors` and :mod:`substrate.arrays`,
:mod:`substrate.certificates`, :mod:`substrate.kernels`, :mod:`substrate.gram`, :mod:`substrate.streaming`,
:mod:`substrate.ingredients`, :mod:`substrate.least_squares`, :mod:`substrate.search`, :mod:`substrate.reduced`,
:mod:`substrate.losses`, :mod:`substrate.penalties`, :mod:`substrate.fits`, :mod:`substrate.bounds`,
:mod:`substrate.uncertainty`, :mod:`substrate.proof`, :mod:`substrate.composition`, :mod:`substrate.fusion`,
:mod:`substrate.declarations`. Models are in the package :mod:`problems`.
"""

from typing import Any

__all__ = [
    "DISTRIBUTION",
    "Column",
    "Everywhere",
    "Fusion",
    "KernelAction",
    "LinearOperator",
    "LinearPart",
    "Machine",
    "Measure",
    "Result",
    "Substrate",
    "__version__",
    "check_proof",
    "fuse",
    "load",
]

__version__ = "1.0.0"

#: Another project on the package index also installs a module called ``substrate``; ``problems`` checks this
#: name before it builds on what it imported.
DISTRIBUTION = "lssvm-substrate"


def __getattr__(name: str) -> Any:
    # these bring cvxpy, which kernels and closed forms must not pay for
    if name in (
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
    ):
        from substrate import composition

        return getattr(composition, name)
    if name in ("Fusion", "check_proof", "fuse"):
        from substrate import fusion

        return getattr(fusion, name)
    raise AttributeError(f"module 'substrate' has no attribute {name!r}")
