"""Progress bars on a terminal: pieces of work done, or rows per second of a pass. Nothing is written to a pipe."""

import sys
import time
from typing import TextIO

__all__ = ["Progress", "RowProgress"]


_WIDTH = 30


class Progress:
    """Redraws one line on standard error; writes nothing when that is not a terminal."""

    def __init__(self, total: int, stream: TextIO | None = None, shown: bool = True) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._total = max(total, 1)
        self._done = 0
        self._shown = shown and self._stream.isatty()

    def step(self, label: str) -> None:
        """Announce the next piece of work."""
        if self._shown:
            filled = _WIDTH * self._done // self._total
            bar = "#" * filled + "." * (_WIDTH - filled)
            self._stream.write(f"\r\x1b[K[{bar}] {self._done}/{self._total} {label}")
            self._stream.flush()
        self._done += 1

    def close(self) -> None:
        """Clear the line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


class RowProgress:
    """Rows done, rows per second since the pass began, and the time left at that rate."""

    def __init__(self, what: str, total: int, shown: bool, done: int = 0, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shown = shown and self._stream.isatty()
        self._what, self._total, self._first = what, total, done
        self._start = time.perf_counter()

    def at(self, done: int) -> None:
        """Redraw the line."""
        if not self._shown:
            return
        rate = (done - self._first) / max(time.perf_counter() - self._start, 1e-9)
        left = (self._total - done) / rate if rate > 0.0 else 0.0
        text = f"{self._what}: {done:,} of {self._total:,} rows, {rate:,.0f} rows/s, {left:.0f} s left"
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
