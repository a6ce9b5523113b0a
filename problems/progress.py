"""A progress bar on a terminal, silence in a pipe."""

import sys
from typing import TextIO

__all__ = ["Progress"]

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
