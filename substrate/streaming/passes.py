r"""Passes over all rows of a source, a sum over them in a fixed order or a function of each, and their checkpoints.

A checkpoint is a file with the sums of an unfinished fit, from which the next attempt continues. A fit is several
passes. The file holds, for each pass begun, the nodes of its summation tree and the row reached;
a pass is identified by a digest of its function, which contains basis, kernel and targets, and the file by a digest of
the survey of the rows. A file that does not match belongs to another problem and is refused. The file is always written
completely, and is removed when the fit is done.
"""

import hashlib
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from substrate.archive import read_archive, write_archive
from substrate.arrays import available_memory
from substrate.errors import DataError
from substrate.namespaces import HOST
from substrate.progress import RowProgress
from substrate.streaming import BUDGET
from substrate.streaming.executors import (
    Device,
    Executor,
    Joblib,
    LeafSum,
    Pass,
    Serial,
    SummationTree,
    each_of,
    highest,
    leaves,
    sum_over,
)
from substrate.streaming.source import LEAF, MICRO, Block, Source, micro_blocks
from substrate.threads import one_blas_thread, threads_for

__all__ = ["Checkpoint", "OpenPasses", "digest"]

_KIND = "sums of an unfinished fit"
#: Seconds between two writes.
INTERVAL = 30.0


def digest(*values: Any) -> str:
    """Return a fingerprint of plain values, arrays and records of them."""
    hasher = hashlib.blake2b(digest_size=16)
    for chunk in _parts(values):
        hasher.update(chunk)
    return hasher.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield value.tobytes() if value.dtype.kind != "O" else repr(value.tolist()).encode()
    elif hasattr(value, "tocsr"):
        for array in (value.data, value.indices, value.indptr):
            yield from _parts(array)
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
    """Yield the numbers of a sum, in the order of its fields."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _arrays(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _arrays(item)
    elif value is not None:
        yield np.asarray(value)


def _rebuild(like: Any, arrays: Iterator[Any]) -> Any:
    """Return a sum from its numbers, with the shape of another one."""
    if is_dataclass(like) and not isinstance(like, type):
        return type(like)(*[_rebuild(getattr(like, field.name), arrays) for field in fields(like)])
    if isinstance(like, tuple):
        return tuple(_rebuild(item, arrays) for item in like)
    if like is None:
        return None
    array = next(arrays)
    if isinstance(like, np.ndarray):
        return np.array(array, order="F" if like.flags.f_contiguous and like.ndim == 2 else "C")
    return type(like)(array[()])


class Checkpoint:
    """A file; ``problem`` is the fingerprint of the rows."""

    def __init__(self, path: str | os.PathLike[str], problem: str, interval: float = INTERVAL) -> None:
        self.path, self.problem, self.interval = Path(path), problem, interval
        #: The state of every pass begun, and its arrays by number of node and of array.
        self._passes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._written = time.monotonic()
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        archive = read_archive(self.path)
        content, arrays = archive.content, archive.arrays
        if content.get("kind") != _KIND:
            raise DataError(f"{self.path} is not a checkpoint; name another file")
        if not archive.as_written:
            raise DataError(f"the checkpoint {self.path} was changed after it was written; remove it and begin again")
        if content.get("problem") != self.problem:
            raise DataError(
                f"the checkpoint {self.path} belongs to another problem (other rows, basis, kernel or gamma); go "
                "on with that one, name another file, or remove this one"
            )
        for name, state in content["passes"].items():
            begin = f"{name}."
            arrays_of_pass = {key.removeprefix(begin): array for key, array in arrays.items() if key.startswith(begin)}
            self._passes[str(name)] = state, arrays_of_pass

    def begun(self, name: str, function: LeafSum) -> tuple[int, SummationTree]:
        """Return the row to continue from, and the tree so far; the sum over no rows has the shape of all others."""
        if name not in self._passes:
            return 0, SummationTree()
        (state, arrays), like = self._passes[name], function(())
        if state["arrays"] != sum(1 for _ in _arrays(like)):
            return 0, SummationTree()  # sums of another version, which had other fields: this pass begins again
        nodes = []
        for number, level in enumerate(state["levels"]):
            remaining = iter([arrays[f"{number}.{k}"] for k in range(state["arrays"])])
            nodes.append((int(level), _rebuild(like, remaining)))
        return int(state["row"]), SummationTree(nodes)

    def at(self, name: str, row: int, tree: SummationTree) -> None:
        """Keep the state of a pass, and write it after enough time."""
        count = 0
        stored: dict[str, Any] = {}
        for number, (_, value) in enumerate(tree.nodes):
            arrays = list(_arrays(value))
            count = len(arrays)
            stored |= {f"{number}.{k}": array for k, array in enumerate(arrays)}
        levels = [level for level, _ in tree.nodes]
        # in one assignment: an interrupt before it leaves the state before, which is whole
        self._passes[name] = {"row": row, "levels": levels, "arrays": count}, stored
        if time.monotonic() - self._written >= self.interval:
            self.write()

    def write(self) -> None:
        """Write the file."""
        states = {name: state for name, (state, _) in self._passes.items()}
        arrays = {f"{name}.{key}": array for name, (_, stored) in self._passes.items() for key, array in stored.items()}
        write_archive(self.path, {"kind": _KIND, "problem": self.problem, "passes": states}, arrays)
        self._written = time.monotonic()

    def finish(self) -> None:
        """Remove the file, but not a link to it: the fit is finished."""
        Path(os.path.realpath(self.path)).unlink(missing_ok=True)


class _OpenSum:
    """A sum over rows in progress: the row reached, the tree so far, the line on the terminal, and the checkpoint.

    On any exit the line is cleared; where the pass was broken off, what was added is written.
    """

    def __init__(self, passes: "OpenPasses", function: LeafSum, what: str, n_rows: int) -> None:
        self.row, self.tree = 0, SummationTree()
        self._checkpoint, self._name = passes.checkpoint, ""
        if self._checkpoint is not None:
            self._name = digest(function)
            self.row, self.tree = self._checkpoint.begun(self._name, function)
        self._start, self._progress = self.row, RowProgress(what, n_rows, passes.verbose, self.row)

    def __enter__(self) -> Self:
        self._progress.at(self.row)
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        self._progress.close()
        if kind is not None and self._checkpoint is not None and self.row > self._start:
            self._checkpoint.write()

    def add(self, stop: int, height: int, value: Any) -> None:
        """Add the sum over the rows from the one reached up to ``stop``."""
        self.tree.push(height, value)
        self.row = stop
        if self._checkpoint is not None:
            self._checkpoint.at(self._name, stop, self.tree)
        self._progress.at(stop)


#: Copies of a block of rows in memory at a time: as read, as numbers, and in a kernel.
_COPIES = 4


@dataclass(frozen=True, slots=True)
class TakenOfBlock:
    """The rows of a block with the given numbers."""

    wanted: Any

    def __call__(self, block: Block) -> Any:
        """Return the rows found, perhaps none."""
        first, last = np.searchsorted(self.wanted, [block.rows.start, block.rows.stop])
        return block.X[self.wanted[first:last] - block.start]


@dataclass(frozen=True, slots=True)
class OpenPasses:
    """Open :class:`~substrate.streaming.Passes`: an executor at work, and sums that are kept."""

    executor: Executor = field(default_factory=Serial)
    memory_budget: float = BUDGET
    checkpoint: Checkpoint | None = None
    verbose: bool = False

    def step(self, source: Source) -> int:
        """Return rows to read at a time: a multiple of :data:`~substrate.streaming.source.MICRO` within the budget."""
        rows = int(self.memory_budget / (8.0 * _COPIES * (source.n_features + 1)))
        return min(max(rows // MICRO, 1) * MICRO, LEAF << self.executor.level)

    def share(self, source: Source, order: int) -> Self:
        """Return the same for sums of matrices of an order: where threads pay off, the spans are distributed among
        them.

        Products are then computed in parallel, each on one thread, so that their bits do not depend on their number.
        """
        if not (isinstance(self.executor, Serial) and source.seekable) or self.executor.alone:
            return self
        n_bytes = 8.0 * order * order * (highest(source.n_rows) + 2)  # the tree of a span, and the sums being computed
        threads = min(threads_for(order), max(int(available_memory() / (2.0 * n_bytes)), 1))
        return self if threads == 1 else replace(self, executor=Joblib(threads))

    def sums(self, source: Source, function: LeafSum, what: str) -> Any:
        """Return the sum of a function of leaves over all rows, continued where a checkpoint has a part of it.

        In this process the function is called here, so that rows in memory are no further away than a loop.
        """
        executor, step, n_rows = self._executor(source), self.step(source), source.n_rows
        with _OpenSum(self, function, what, n_rows) as sums:
            if sums.row == n_rows:
                pass  # the checkpoint has all of it
            elif type(executor) is Serial:
                with one_blas_thread():
                    for stop, leaf in leaves(micro_blocks(source.blocks(sums.row, n_rows, step))):
                        sums.add(min(stop, n_rows), 0, function(leaf))
            else:
                job, level = Pass(sum_over, function, source, step), executor.span_level(n_rows)
                # on any exit the workers are stopped
                with closing(executor.results(job, sums.row, n_rows, level)) as results:
                    for span, value in results:
                        sums.add(span.stop, span.height, value)
        return sums.tree.total()

    def each(self, source: Source, function: Callable[[Block], Any], what: str) -> Generator[Any, None, None]:
        """Yield the function of every micro-block, in order."""
        executor, n_rows = self._executor(source), source.n_rows
        job, level = Pass(each_of, function, source, self.step(source)), executor.span_level(n_rows)
        progress = RowProgress(what, n_rows, self.verbose)
        with closing(progress), closing(executor.results(job, 0, n_rows, level)) as results_of_blocks:
            progress.at(0)
            for span, results in results_of_blocks:
                yield from results
                progress.at(span.stop)

    def take_rows(self, source: Source, rows: Any) -> Any:
        """Return the rows with the given numbers, in ascending order; several workers search in parallel."""
        if isinstance(self.executor, Serial) or source.block_in_memory is not None:
            return source.take_rows(rows)
        return np.concatenate(list(self.each(source, TakenOfBlock(np.asarray(rows, dtype=np.intp)), "some rows")))

    def without_checkpoint(self) -> Self:
        """Return the same settings without a checkpoint."""
        return replace(self, checkpoint=None)

    def _executor(self, source: Source) -> Executor:
        """Return the executor of a pass over the rows of a source; refuse one that cannot read them."""
        if not (source.seekable or isinstance(self.executor, Serial)):
            raise DataError(
                f"{source.name} can be read by this process only, from the first row on; leave passes.executor at "
                "None, or write the rows to Parquet or .npy files, which all workers can open"
            )
        return self.executor if source.home == HOST else Device()
