"""Progress on a terminal: pieces of work done, or one late line. Nothing is written to a pipe."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

__all__ = ["LateProgress", "Progress"]

_WIDTH = 30
#: Seconds between two drawings of a line.
_REDRAWN = 0.5


class _ProgressLine:
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


class Progress(_ProgressLine):
    """Pieces of work done, as a bar, and the name of the present one."""

    def __init__(self, total: int, stream: TextIO | None = None, shown: bool = True) -> None:
        super().__init__(stream, shown)
        self._total, self._done = max(total, 1), 0

    def step(self, label: object) -> None:
        """Announce the next piece of work by its printed label."""
        if self._shown:
            filled = _WIDTH * self._done // self._total
            self._draw(f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {self._done}/{self._total} {label}")
        self._done += 1


class LateProgress(_ProgressLine):
    """A line that shows what a computation is doing, from ten seconds after its start on."""

    def __init__(
        self,
        stream: TextIO | None = None,
        shown: bool = True,
        *,
        after: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, shown)
        self._clock, self._after = clock, after
        self._start = self._drawn = clock()

    def piece(self, text: str) -> None:
        """Announce the next piece."""
        now = self._clock()
        if now - self._start >= self._after and now - self._drawn >= _REDRAWN:
            self._drawn = now
            self._draw(f"{text}, {now - self._start:.0f} s so far")
