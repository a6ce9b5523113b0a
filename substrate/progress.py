"""Progress bars on a terminal: pieces of work done, or rows per second of a pass. Nothing is written to a pipe."""

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TextIO, TypeVar

__all__ = ["Progress", "RowProgress", "stepped"]

_Thing = TypeVar("_Thing")

_WIDTH = 30


class _Line:
    """One line on standard error that is redrawn; nothing is written when that is not a terminal."""

    def __init__(self, stream: TextIO | None, shown: bool) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shown = shown and self._stream.isatty()

    def _draw(self, text: str) -> None:
        if self._shown:
            width = shutil.get_terminal_size().columns - 1  # a line that is wrapped could not be redrawn
            self._stream.write(f"\r\x1b[K{text[:width]}")
            self._stream.flush()

    def close(self) -> None:
        """Clear the line."""
        self._draw("")


class Progress(_Line):
    """Pieces of work done, as a bar, and the name of the present one."""

    def __init__(self, total: int, stream: TextIO | None = None, shown: bool = True) -> None:
        super().__init__(stream, shown)
        self._total, self._done = max(total, 1), 0

    def step(self, label: object) -> None:
        """Announce the next piece of work, by what its label prints as."""
        if self._shown:
            filled = _WIDTH * self._done // self._total
            self._draw(f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {self._done}/{self._total} {label}")
        self._done += 1


def stepped(things: Sequence[_Thing], shown: bool) -> Iterator[_Thing]:
    """The things one by one, each announced by the bar as it is taken."""
    progress = Progress(len(things), shown=shown)
    try:
        for thing in things:
            progress.step(repr(thing))
            yield thing
    finally:
        progress.close()


class RowProgress(_Line):
    """Rows done, rows per second since the pass began, and the time left at that rate."""

    def __init__(self, what: str, total: int, shown: bool, done: int = 0, stream: TextIO | None = None) -> None:
        super().__init__(stream, shown)
        self._what, self._total, self._first = what, total, done
        self._start = time.perf_counter()

    def at(self, done: int) -> None:
        """Redraw the line."""
        rate = (done - self._first) / max(time.perf_counter() - self._start, 1e-9)
        left = (self._total - done) / rate if rate > 0.0 else 0.0
        self._draw(f"{self._what}: {done:,} of {self._total:,} rows, {rate:,.0f} rows/s, {left:.0f} s left")
