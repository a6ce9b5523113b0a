"""An executor from what a user may say: a word, the address of a scheduler, a Dask client, or an executor."""

from typing import Any

from substrate.errors import DeclarationError
from substrate.streaming.executors.base import Executor
from substrate.streaming.executors.dask_client import DaskClient, DaskCluster
from substrate.streaming.executors.joblib_threads import Joblib
from substrate.streaming.executors.serial import Serial

__all__ = ["executor_of", "is_client"]


def is_client(value: Any) -> bool:
    """Whether a value is a client of ``dask.distributed``, asked without importing it."""
    return any(cls.__module__.startswith("distributed.") and cls.__name__ == "Client" for cls in type(value).__mro__)


def executor_of(value: Any) -> Executor:
    """``None`` and ``"serial"``, ``"joblib"``, ``"dask"``, ``"tcp://host:port"``, a client, or what is one already."""
    if isinstance(value, Executor):
        return value
    if is_client(value):
        return DaskClient(value)
    if value is None:
        return Serial()
    if isinstance(value, str):
        if value == "serial":
            return Serial(alone=True)
        if value == "joblib":
            return Joblib()
        if value == "dask":
            return DaskCluster()
        if "://" in value:
            return DaskCluster(value)
    raise DeclarationError(
        "executor must be None, 'serial', 'joblib', 'dask', the address of a Dask scheduler (tcp://host:8786), a "
        f"dask.distributed Client, or an Executor; received {value!r}"
    )
