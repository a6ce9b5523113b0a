"""The exceptions and warnings of the package: one base class and four kinds of exceptions.

Every message states what is wrong, where, what was received and what would work. Whether trying again can
help is part of the type, so that a program can read ``error.retry_helps`` instead of parsing text.
"""

import sys
from typing import Any, ClassVar

__all__ = [
    "CertificateError",
    "DataError",
    "DeclarationError",
    "DegenerateKernelWarning",
    "IndefiniteKernelWarning",
    "LongFitWarning",
    "OverfittingWarning",
    "ScaleWarning",
    "SolverError",
    "SubstrateError",
    "SubstrateWarning",
]


class SubstrateError(Exception):
    """Base class of the exceptions of this package."""

    retry_helps: ClassVar[bool] = False


class DataError(SubstrateError, ValueError):
    """An array, weight, label or file cannot be used as given. Correct the data, then call again."""


class DeclarationError(SubstrateError, ValueError):
    """A model is not well formed: a parameter out of range, an unknown form, a kernel that is not convex."""


class SolverError(SubstrateError, RuntimeError):
    """No solver returned an acceptable point. Another solver, option or scaling may succeed.

    ``attempts`` are recorded as in a :class:`~substrate.declare.solvers.SolverRecord`.
    """

    retry_helps: ClassVar[bool] = True
    attempts: tuple[Any, ...] = ()


class CertificateError(SubstrateError, RuntimeError):
    """A certificate was requested where none can exist, or a required certificate does not hold."""


class SubstrateWarning(UserWarning):
    """Base class of the warnings of this package."""


class ScaleWarning(SubstrateWarning):
    """The columns of X have very different scales although the kernel compares distances."""


class DegenerateKernelWarning(SubstrateWarning):
    """The kernel matrix carries no information: it is the identity or it is constant."""


class IndefiniteKernelWarning(SubstrateWarning):
    """The kernel matrix has a negative eigenvalue beyond rounding."""


class LongFitWarning(SubstrateWarning):
    """A fit will take long by its estimate, which is stated before it begins, with what takes less time."""


class OverfittingWarning(SubstrateWarning):
    """The model has so many degrees of freedom that it fits the validation data themselves."""


def user_level() -> int:
    """Return the ``stacklevel`` of a warning at the first line outside of this package, for the function that warns."""
    level, frame = 0, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("substrate", "problems"):
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    return level + 1
