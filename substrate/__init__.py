"""Ingredients of least-squares support vector machines, declared as convex problems and certified.

The rooms, each of which imports from those before it only: :mod:`substrate.arrays` and :mod:`substrate.numbers`,
:mod:`substrate.certificate`, :mod:`substrate.kernels`, :mod:`substrate.operators`, :mod:`substrate.losses` and
:mod:`substrate.penalties`, :mod:`substrate.fits`, :mod:`substrate.bounds`, :mod:`substrate.left_out`,
:mod:`substrate.intervals` and :mod:`substrate.spectral`, :mod:`substrate.select`, :mod:`substrate.declare`,
:mod:`substrate.shapes` and :mod:`substrate.fusion`. Models are in the package :mod:`problems`.
"""

from importlib import import_module
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


#: Where each name is; these modules bring cvxpy, which kernels and closed forms must not pay for.
_HOMES = {
    "Column": "substrate.declare.outputs",
    "Everywhere": "substrate.shapes.everywhere",
    "Fusion": "substrate.fusion.result",
    "KernelAction": "substrate.declare.linear_operators",
    "LinearOperator": "substrate.declare.linear_operators",
    "LinearPart": "substrate.declare.outputs",
    "Machine": "substrate.declare.machine",
    "Measure": "substrate.declare.linear_operators",
    "Result": "substrate.declare.result",
    "Substrate": "substrate.declare.level",
    "check_proof": "substrate.fusion.fuse",
    "fuse": "substrate.fusion.fuse",
    "load": "substrate.declare.result",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'substrate' has no attribute {name!r}")
