"""Ctrl-C and SIGTERM at the prompt: one line that states what is on disk, and the exit status that shells expect.

A signal becomes a :class:`KeyboardInterrupt`, which ends the running code: temporary files are removed, a cluster is
closed, and existing files keep their bytes, since every output replaces its file as a whole or not at all. What was
written is read from the disk afterwards, so the line is right whenever the signal arrives.

The process does not end with the command: threads are joined, exit functions run, modules are torn down. A signal in
that time has no code to interrupt. As long as Python handles signals it prints the same line and ends the process at
once; from the last exit function on, when all that is left is to free memory, it is ignored, and the process ends with
the status of the finished command.
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
    reported: bool = False
    #: Whether the line is on standard error.
    printed: bool = False
    #: Whether the command has returned, so that a signal finds nothing to interrupt.
    finished: bool = False
    #: Whether the process ends with the command, and the handlers that were there before.
    ending: bool = False
    before: Mapping[int, Any] = field(default_factory=dict)
    hook: Callable[[Any], Any] = sys.unraisablehook
    #: Sends an interrupt again that a finalizer suppressed.
    timer: threading.Timer | None = None

    def watch(self, files: Sequence[str | None], remark: str = "") -> None:
        """Remember the files that the command may write, as they are now."""
        self.files = {path: _identity(path) for path in files if path is not None}
        self.remark = remark

    def check(self) -> None:
        """Raise, before anything is written, if a signal arrived and its exception was caught."""
        if self.number is not None:
            raise KeyboardInterrupt

    def finish(self) -> None:
        """Note that the command has returned; a signal whose exception was caught, or waits to be sent again, counts.

        Call it where a :class:`KeyboardInterrupt` is still caught: from here on none is raised.
        """
        self.check()
        self.finished = True

    def report(self) -> int:
        """Report it in one line on standard error; the exit status is 128 plus the number of the signal."""
        self.finished = self.reported = True
        if self.timer is not None:  # another interrupt was raised: one more would end the process without its status
            self.timer.cancel()
            self.timer.join()
        number = signal.SIGINT if self.number is None else self.number
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # a progress bar may be there
        line = f"{clear}substrate: {_WORDS[signal.Signals(number).name]}; {self._describe_files()}"
        try:
            print(line, file=sys.stderr, flush=True)
        except RuntimeError:  # the signal came while something was printed there
            os.write(2, f"\n{line}\n".encode())
        self.printed = True
        return 128 + int(number)

    def _describe_files(self) -> str:
        if self.remark:
            return self.remark
        now = {path: _identity(path) for path in self.files}
        written = [path for path, identity in now.items() if identity != self.files[path]]
        unwritten = [path for path in self.files if path not in written]
        if written:
            ending = f", {_list_paths(unwritten)} not" if unwritten else ""
            return f"{_list_paths(written)} {_were(written)} written{ending}"
        kept = [path for path, identity in self.files.items() if identity is not None]
        intact = f", and {_list_paths(kept)} {_were(kept)} left as before" if kept else ""
        return f"nothing was written{intact}"

    def heard(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if not self.finished:
            self.number = number
            raise KeyboardInterrupt
        if self.ending:
            if self.printed or not self.reported:  # else the line is about to be printed
                self._end(number)
        elif not self.reported:  # it came between the command and its caller, whose handler it is for
            signal.signal(number, self.before[number])
            signal.raise_signal(number)

    def _end(self, number: int) -> None:
        """End the process at once, with the line unless it was printed, and without a traceback."""
        for signal_number in self.before:  # and no signal after this one
            signal.signal(signal_number, signal.SIG_IGN)
        self.number = number if self.number is None else self.number
        status = 128 + int(self.number) if self.reported else self.report()
        with suppress(OSError, ValueError, RuntimeError):  # closed, or being written to when the signal came
            sys.stdout.flush()
        os._exit(status)

    def ignore(self) -> None:
        """Ignore signals, as the last of the exit functions: what follows frees memory and runs no handler."""
        if threading.current_thread() is threading.main_thread():
            for number in self.before:
                if signal.getsignal(number) == self.heard:
                    signal.signal(number, signal.SIG_IGN)

    def resend(self, unraisable: Any) -> None:
        """Send an interrupt that cannot leave a finalizer again a moment later; print other errors as usual."""
        if self.number is None or not isinstance(unraisable.exc_value, KeyboardInterrupt):
            self.hook(unraisable)
        elif not self.reported:
            self.timer = threading.Timer(_AGAIN, self._send_again)
            self.timer.daemon = True
            self.timer.start()

    def _send_again(self) -> None:
        if self.number is not None and not self.finished:
            _send(self.number)


@contextmanager
def interruptible(ending: bool) -> Iterator[Interruption]:
    """Handle signals that end the command inside the block; ``ending`` says whether the process ends with it.

    Then a signal while libraries shut down ends the process at once, with the line and without a traceback.
    """
    interruption = Interruption(hook=sys.unraisablehook, ending=ending)
    if threading.current_thread() is not threading.main_thread():  # the main thread alone handles signals
        yield interruption
        return
    interruption.before = {
        number: signal.getsignal(number)
        for number in (getattr(signal, name) for name in _WORDS if hasattr(signal, name))
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
    }
    if ending:
        atexit.register(interruption.ignore)  # first of all, so that it runs last
    for number in interruption.before:
        signal.signal(number, interruption.heard)
    sys.unraisablehook = interruption.resend
    try:
        yield interruption
    finally:
        interruption.finished = True
        if not ending:
            for number, handler in interruption.before.items():
                signal.signal(number, handler)
        if ending and interruption.reported:
            # Python ends itself by SIGINT, whatever the exit status, once an interrupt has left code that was compiled
            # from a string, as imports do for named tuples; further code of this kind resets that
            exec("")
        else:
            sys.unraisablehook = interruption.hook


def _send(number: int) -> None:
    """Send it to the main thread, even where that waits for a lock."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, number)
    else:
        signal.raise_signal(number)


def _identity(path: str) -> tuple[int, ...] | None:
    """Return what identifies a file and changes when it is replaced; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _list_paths(paths: Sequence[str]) -> str:
    return " and ".join(paths)


def _were(paths: Sequence[str]) -> str:
    return "was" if len(paths) == 1 else "were"
