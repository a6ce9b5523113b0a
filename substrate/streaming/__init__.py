"""Passes over rows that need not be in memory; how they are made is one value, :class:`Passes`."""

from dataclasses import dataclass
from typing import Any

from substrate.arrays import positive
from substrate.errors import DeclarationError
from substrate.values import Record, Value

__all__ = ["BUDGET", "Passes"]

#: Bytes of rows that a process holds at a time by default.
BUDGET = 64 * 2**20


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Passes(Value, Record):
    """How a machine on a reduced basis goes through its rows; the parameter ``passes`` of its estimators.

    It changes how a fit is done and not what comes out. None stands for all defaults. It is a frozen value, as kernels
    are: ``estimator.set_params(passes__verbose=True)`` replaces it. It is no part of a model file.

    Parameters
    ----------
    memory_budget : float, default=64 MiB
        Bytes of rows that a process reads at a time. It changes no bit of the model.
    verbose : bool, default=False
        Whether a line on the terminal shows the progress of a pass, in rows and rows per second.

    Examples
    --------
    >>> from substrate.streaming import Passes
    >>> Passes(verbose=True)
    Passes(verbose=True)
    """

    memory_budget: float = BUDGET
    verbose: bool = False

    def __post_init__(self) -> None:
        positive(self.memory_budget, "passes.memory_budget")
        if not isinstance(self.verbose, int):
            raise DeclarationError(f"passes.verbose must be True or False, received {self.verbose!r}")

    @classmethod
    def of(cls, value: Any) -> "Passes":
        """Return the value for all that ``passes`` may be: one already, or None."""
        if isinstance(value, Passes):
            return value
        if value is None:
            return cls()
        raise DeclarationError(f"passes must be a Passes or None, received {value!r}")
