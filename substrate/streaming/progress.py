"""How far a pass is, and how fast: one line on a terminal, silence in a pipe."""

import sys
import time
from typing import TextIO

__all__ = ["RowProgress"]


class RowProgress:
    """Rows done of all, rows a second since the pass began, and the time left at that rate."""

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
