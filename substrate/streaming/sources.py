"""From what a user names to a source of rows."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from substrate.arrays import is_sparse
from substrate.errors import DataError
from substrate.streaming.dask_source import DaskSource, is_dask
from substrate.streaming.derived_source import DerivedSource
from substrate.streaming.npy_source import NpySource
from substrate.streaming.parquet_source import ParquetSource
from substrate.streaming.row_blocks import RowBlocks
from substrate.streaming.source import Source

__all__ = ["files_behind", "source_of", "streams"]


def streams(X: Any, y: Any = None) -> bool:
    """Whether rows are named in a way that is read in passes: a path, a Dask collection, blocks, or a source."""
    if isinstance(X, (str, os.PathLike, Source)) or is_dask(X):
        return True
    if (
        y is not None
        or X is None
        or is_sparse(X)
        or any(hasattr(X, a) for a in ("shape", "__array__", "__dataframe__"))
    ):
        return False
    if callable(X):
        return True
    if isinstance(X, (list, tuple)):  # blocks are pairs of arrays, rows are lists of numbers
        return len(X) > 0 and isinstance(X[0], tuple) and len(X[0]) == 2 and np.ndim(X[0][0]) == 2
    return isinstance(X, Iterable)


def files_behind(X: Any) -> tuple[str, ...]:
    """The files and folders that rows are read from, as far as they are known: of mapped arrays and of sources."""
    while isinstance(X, DerivedSource):
        X = X.inner
    if isinstance(X, ParquetSource):
        return (X.path,)
    if isinstance(X, NpySource):
        return (X.rows.path, *(() if X.targets is None else (X.targets.path,)))
    found = []
    while isinstance(X, np.ndarray):  # a view keeps what it is a part of
        if isinstance(X, np.memmap) and X.filename is not None:
            found.append(os.fspath(X.filename))
        X = X.base
    return tuple(found)


def source_of(X: Any, y: Any = None) -> Source:
    """``X`` a ``.npy`` file and ``y`` another; a Parquet file or folder and the name of its target; and so on."""
    if isinstance(X, Source):
        if y is not None:
            raise DataError("a source of rows brings its own targets; leave y out")
        return X
    if is_dask(X):
        return DaskSource.of(X, y)
    if isinstance(X, (str, os.PathLike)):
        return _file(X, y)
    if y is not None:
        raise DataError("row blocks bring their own targets, (X, y) each; leave y out")
    return RowBlocks.of(X)


def _file(X: str | os.PathLike[str], y: Any) -> Source:
    if y is not None and not isinstance(y, (str, os.PathLike)):
        raise DataError(
            f"rows in the file {os.fspath(X)} need targets there: the name of a column of a Parquet file, or the path "
            f"of a .npy file beside a .npy file; received {type(y).__name__}"
        )
    path = Path(X)
    if path.suffix == ".npy":
        return NpySource.of(X, y)
    if path.is_dir() or path.suffix in (".parquet", ".pq"):
        return ParquetSource.of(X, None if y is None else os.fspath(y))
    if not path.exists():
        raise DataError(f"there is no file or folder {path}; rows come from .npy files, or Parquet files and folders")
    raise DataError(f"{path} is neither a .npy file nor Parquet (*.parquet, *.pq, or a folder of them)")
