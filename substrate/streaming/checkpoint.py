r"""Sums of an unfinished fit in a file, from which the next attempt goes on.

A fit is several passes. The file holds, for each pass begun, the nodes of its summation tree and the row it came to;
a pass is known by a digest of its function, which contains basis, kernel and targets, and the file by a digest of what
was surveyed of the rows. Whatever does not match is another problem's file and is refused. The file is written whole,
never half, and is gone when the fit is done.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from substrate.archive import read_archive, write_archive
from substrate.errors import DataError
from substrate.streaming.span import LeafSum
from substrate.streaming.tree import SummationTree

__all__ = ["Checkpoint", "digest"]

_KIND = "sums of an unfinished fit"
#: Seconds between two writes.
INTERVAL = 30.0


def digest(*values: Any) -> str:
    """A fingerprint of plain values, arrays and records of them."""
    made = hashlib.blake2b(digest_size=16)
    for part in _parts(values):
        made.update(part)
    return made.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield value.tobytes() if value.dtype.kind != "O" else repr(value.tolist()).encode()
    elif hasattr(value, "tocsr"):
        for part in (value.data, value.indices, value.indptr):
            yield from _parts(part)
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value).__name__.encode()
        for field in fields(value):
            yield from _parts(getattr(value, field.name))
    elif isinstance(value, (tuple, list)):
        yield f"{len(value)}".encode()
        for item in value:
            yield from _parts(item)
    elif callable(value):
        yield getattr(value, "__qualname__", type(value).__name__).encode()
    else:
        yield repr(value).encode()


def _arrays(value: Any) -> Iterator[Any]:
    """The numbers of a sum, in the order of its fields."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _arrays(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _arrays(item)
    elif value is not None:
        yield np.asarray(value)


def _rebuilt(like: Any, arrays: Iterator[Any]) -> Any:
    """A sum with the shape of another one."""
    if is_dataclass(like) and not isinstance(like, type):
        return type(like)(*[_rebuilt(getattr(like, field.name), arrays) for field in fields(like)])
    if isinstance(like, tuple):
        return tuple(_rebuilt(item, arrays) for item in like)
    if like is None:
        return None
    found = next(arrays)
    if isinstance(like, np.ndarray):
        return np.array(found, order="F" if like.flags.f_contiguous and like.ndim == 2 else "C")
    return type(like)(found[()])


class Checkpoint:
    """A file; ``problem`` is the fingerprint of the rows."""

    def __init__(self, path: str | os.PathLike[str], problem: str, interval: float = INTERVAL) -> None:
        self.path, self.problem, self.interval = Path(path), problem, interval
        self._content: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        self._written = time.monotonic()
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        found = read_archive(self.path)
        content, arrays = found.content, found.arrays
        if content.get("kind") != _KIND:
            raise DataError(f"{self.path} is not a checkpoint; name another file")
        if found.as_written is False:
            raise DataError(f"the checkpoint {self.path} was changed after it was written; remove it and begin again")
        if content.get("problem") != self.problem:
            raise DataError(
                f"the checkpoint {self.path} belongs to another problem (other rows, basis, kernel or gamma); go "
                "on with that one, name another file, or remove this one"
            )
        self._content = {str(name): state for name, state in content["passes"].items()}
        self._values = dict(arrays)

    def begun(self, name: str, function: LeafSum) -> tuple[int, SummationTree]:
        """The row to go on from, and the tree so far; the sum over no rows has the shape of all others."""
        if name not in self._content:
            return 0, SummationTree()
        state, like = self._content[name], function(())
        nodes = []
        for number, level in enumerate(state["levels"]):
            held = iter([self._values[f"{name}.{number}.{k}"] for k in range(state["arrays"])])
            nodes.append((int(level), _rebuilt(like, held)))
        return int(state["row"]), SummationTree(nodes)

    def at(self, name: str, row: int, tree: SummationTree) -> None:
        """Keep the state of a pass; written if it is time."""
        for key in [key for key in self._values if key.startswith(f"{name}.")]:
            del self._values[key]
        count = 0
        for number, (_, value) in enumerate(tree.nodes):
            arrays = list(_arrays(value))
            count = len(arrays)
            self._values |= {f"{name}.{number}.{k}": array for k, array in enumerate(arrays)}
        levels = [level for level, _ in tree.nodes]
        self._content[name] = {"row": row, "levels": levels, "arrays": count}
        if time.monotonic() - self._written >= self.interval:
            self.write()

    def write(self) -> None:
        """To the file."""
        content = {"kind": _KIND, "problem": self.problem, "passes": self._content}
        write_archive(self.path, content, self._values)
        self._written = time.monotonic()

    def done(self) -> None:
        """The fit is finished: the file goes; a link to it stays."""
        Path(os.path.realpath(self.path)).unlink(missing_ok=True)
