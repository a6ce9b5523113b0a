"""Ctrl-C and SIGTERM at the prompt: one line that states what is on disk, and the exit status that shells expect.

A signal becomes a :class:`KeyboardInterrupt`, which ends the running code: temporary files are removed, a cluster is
closed, and existing files keep their bytes, since every output replaces its file as a whole or not at all. What was
written is read from the disk afterwards, so the line is right whenever the signal arrives.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

__all__ = ["Interruption", "interruptible"]

#: Signals that end a command, with their names; each is handled only where no other handler is installed.
_WORDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "terminated"}
#: Seconds after which an interrupt that a finalizer suppressed is sent again.
_AGAIN = 0.05


@dataclass(slots=True)
class Interruption:
    """The signal received, if any, and the output files as they were before the command began."""

    number: int | None = None
    files: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    #: A further remark, for instance where finished studies are.
    remark: str = ""
    #: The checkpoint from which the same command continues, if there is one.
    checkpoint: str | None = None
    reported: bool = False
    hook: Callable[[Any], Any] = sys.unraisablehook
    #: Sends an interrupt again that a finalizer suppressed.
    again: threading.Timer | None = None

    def watch(self, files: Sequence[str | None], remark: str = "", checkpoint: str | None = None) -> None:
        """Remember the files that the command may write, as they are now."""
        self.files = {path: _identity(path) for path in files if path is not None}
        self.remark, self.checkpoint = remark, checkpoint

    def check(self) -> None:
        """Raise, before anything is written, if a signal arrived and its exception was caught."""
        if self.number is not None:
            raise KeyboardInterrupt

    def report(self) -> int:
        """Report it in one line on standard error; the exit status is 128 plus the number of the signal."""
        self.reported = True
        if self.again is not None:  # another interrupt was raised: one more would end the process without its status
            self.again.cancel()
            self.again.join()
        number = signal.SIGINT if self.number is None else self.number
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # a progress bar may be there
        print(f"{clear}substrate: {_WORDS[signal.Signals(number).name]}; {self._left()}", file=sys.stderr, flush=True)
        return 128 + int(number)

    def _left(self) -> str:
        if self.remark:
            return self.remark
        now = {path: _identity(path) for path in self.files}
        written = [path for path, identity in now.items() if identity != self.files[path]]
        others = [path for path in self.files if path not in written]
        if written:
            rest = f", {_listed(others)} not" if others else ""
            return f"{_listed(written)} {_were(written)} written{rest}"
        kept = [path for path, identity in self.files.items() if identity is not None]
        intact = f", and {_listed(kept)} {_were(kept)} left as before" if kept else ""
        begun = self.checkpoint is not None and os.path.exists(self.checkpoint)
        return f"nothing was written{intact}" + (f"; this command continues from {self.checkpoint}" if begun else "")

    def heard(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signals."""
        if not self.reported:
            self.number = number
            raise KeyboardInterrupt

    def swallowed(self, unraisable: Any) -> None:
        """An interrupt cannot leave a finalizer: send it again a moment later; print other errors as usual."""
        if self.number is None or not isinstance(unraisable.exc_value, KeyboardInterrupt):
            self.hook(unraisable)
        elif not self.reported:
            self.again = threading.Timer(_AGAIN, self._sent_again)
            self.again.daemon = True
            self.again.start()

    def _sent_again(self) -> None:
        if self.number is not None and not self.reported:
            _sent(self.number)


@contextmanager
def interruptible(ending: bool) -> Iterator[Interruption]:
    """Signals that end the command are handled inside the block; ``ending`` is whether the process ends with it.

    Then a second signal, while libraries shut down, ends the process at once and without a traceback.
    """
    made = Interruption(hook=sys.unraisablehook)
    if threading.current_thread() is not threading.main_thread():  # the main thread alone handles signals
        yield made
        return
    before: Mapping[int, Any] = {
        number: signal.getsignal(number)
        for number in (getattr(signal, name) for name in _WORDS if hasattr(signal, name))
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
    }
    for number in before:
        signal.signal(number, made.heard)
    sys.unraisablehook = made.swallowed
    try:
        yield made
    finally:
        ended = ending and made.reported
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if ended else handler)
        if ended:
            # Python ends itself by SIGINT, whatever the exit status, once an interrupt has left code that was compiled
            # from a string, as imports do for named tuples; further code of this kind resets that
            exec("")
        else:
            sys.unraisablehook = made.hook


def _sent(number: int) -> None:
    """Send it to the main thread, even where that waits for a lock."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, number)
    else:
        signal.raise_signal(number)


def _identity(path: str) -> tuple[int, ...] | None:
    """What identifies a file and changes when it is replaced; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _listed(paths: Sequence[str]) -> str:
    return " and ".join(paths)


def _were(paths: Sequence[str]) -> str:
    return "was" if len(paths) == 1 else "were"
