"""Passes over rows that need not be in memory; how they are made is one value, :class:`Passes`."""

import os
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

    It changes how a fit is done and not what comes out. Estimators also take the name of an executor
    (``passes="joblib"``), and None for all defaults. It is a frozen value, as kernels are:
    ``estimator.set_params(passes__verbose=True)`` replaces it. It is no part of a model file.

    Parameters
    ----------
    executor : None, str, dask.distributed.Client or Executor, default=None
        The executor: this process (None, with threads for a basis so large that products profit from
        them; ``"serial"``, without), its threads (``"joblib"``), a cluster of this machine made for the fit
        (``"dask"``), a Dask scheduler by its address (``"tcp://host:8786"``), or a client. The result is the same to
        the last bit, on workers with one kind of processor and BLAS library.
    memory_budget : float, default=64 MiB
        Bytes of rows that a process reads at a time, also of mapped files, which are read and not mapped. It changes no
        bit of the model.
    checkpoint : path, default=None
        A file in which an interrupted fit leaves its sums, and from which the same call continues; it is removed
        when the fit is done. Needs an integer ``random_state`` of the basis.
    verbose : bool, default=False
        Whether a line on the terminal shows the progress of a pass, in rows and rows per second.

    Examples
    --------
    >>> from substrate.streaming import Passes
    >>> Passes(executor="joblib", verbose=True)
    Passes(executor='joblib', verbose=True)
    """

    executor: Any = None
    memory_budget: float = BUDGET
    checkpoint: Any = None
    verbose: bool = False

    def __post_init__(self) -> None:
        positive(self.memory_budget, "passes.memory_budget")
        if self.executor is not None:
            from substrate.streaming.dask_client import executor_of  # brings asyncio, which few need

            executor_of(self.executor)
        if not (self.checkpoint is None or isinstance(self.checkpoint, (str, os.PathLike))):
            raise DeclarationError(f"passes.checkpoint must be a path or None, received {self.checkpoint!r}")
        if not isinstance(self.verbose, int):
            raise DeclarationError(f"passes.verbose must be True or False, received {self.verbose!r}")

    @classmethod
    def of(cls, value: Any) -> "Passes":
        """Return the value for all that ``passes`` may be: one already, the name of an executor, or None."""
        if isinstance(value, Passes):
            return value
        if value is None or isinstance(value, str):
            return cls(executor=value)
        raise DeclarationError(
            f"passes must be a Passes, the name of an executor or None, received {value!r}; write "
            "Passes(executor=...) for a client"
        )
