"""Progress on a terminal: pieces of work done, or one late line. Nothing is written to a pipe."""

import shutil
import sys
import time

__all__ = ["LateProgress", "Progress"]

_WIDTH = 30
#: Seconds after which a late line begins.
_LATE = 10.0
#: Seconds between two drawings of a line.
_REDRAWN = 0.5


class Progress:
    """Pieces of work done, as a bar, and the name of the present one, on one line of standard error.

    The line is redrawn, and cleared at the end; nothing is written where that is not a terminal.
    """

    def __init__(self, total: int = 0, *, shown: bool = True) -> None:
        self._shown = shown and sys.stderr.isatty()
        self._total, self._done = max(total, 1), 0

    def _draw(self, text: str) -> None:
        if self._shown:
            width = shutil.get_terminal_size().columns - 1  # a line that is wrapped could not be redrawn
            sys.stderr.write(f"\r\x1b[K{text[:width]}")
            sys.stderr.flush()

    def step(self, label: object) -> None:
        """Announce the next piece of work by its printed label."""
        filled = _WIDTH * self._done // self._total
        self._draw(f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {self._done}/{self._total} {label}")
        self._done += 1

    def close(self) -> None:
        """Clear the line."""
        self._draw("")


class LateProgress(Progress):
    """A line that shows what a computation is doing, from ten seconds after its start on."""

    def __init__(self) -> None:
        super().__init__()
        self._start = self._drawn = time.monotonic()

    def piece(self, text: str) -> None:
        """Announce the next piece."""
        now = time.monotonic()
        if now - self._start >= _LATE and now - self._drawn >= _REDRAWN:
            self._drawn = now
            self._draw(f"{text}, {now - self._start:.0f} s so far")
