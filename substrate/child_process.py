"""A call that can be ended: it runs in a child process, which is killed at a time limit or at an interrupt.

Compiled code that does not check a clock, or handles an interrupt itself, cannot be stopped from inside its
process. The child is a fresh interpreter, never a fork (threads of BLAS do not survive one), and runs nothing of the
caller's main module, so that a script needs no ``if __name__ == "__main__"``. It is kept for the next call: only the
first pays for its start, and for the imports of what it runs.
"""

import atexit
import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["call_within", "serve"]

_T = TypeVar("_T")

#: Seconds between two checks of the waiting parent. Windows does not interrupt a wait; an answer ends it at once.
_LOOK_UP = 0.1
#: On POSIX a child whose parent was killed ends this long after the limit, whatever it is doing.
_ORPHANED = 5.0
#: The longest timer that every system accepts, three years.
_LONGEST = 1e8
_START = "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from {module} import serve; serve()"
_ENDED = object()


class _Child:
    """An interpreter that executes one call after another, received through its standard input."""

    def __init__(self) -> None:
        if not sys.executable:
            raise ChildProcessError("this Python does not know its own interpreter (sys.executable is empty)")
        # not reached by the terminal's Ctrl-C: the parent decides
        group_options: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            group_options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        command = [sys.executable, "-c", _START.format(module=__name__)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **group_options)
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._send(sys.path)

    def ask(self, limit: float, call: bytes) -> Any:
        """Return the answer, or TimeoutError, or ChildProcessError where the process ended."""
        self._send((call, limit))
        self._answer(None)  # the function is imported there: the clock starts now
        raised, value = self._answer(time.monotonic() + limit)
        if raised:
            raise value
        return value

    @property
    def alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # what it was never sent
                pipe.close()  # type: ignore[union-attr]

    def _send(self, message: Any) -> None:
        try:
            pickle.dump(message, self._process.stdin)  # type: ignore[arg-type]
            self._process.stdin.flush()  # type: ignore[union-attr]
        except OSError:
            raise self._describe_end() from None

    def _answer(self, deadline: float | None) -> Any:
        while True:
            remaining = _LOOK_UP if deadline is None else deadline - time.monotonic()
            try:
                answer = self._answers.get(timeout=max(min(remaining, _LOOK_UP), 0.0))
            except queue.Empty:
                if remaining <= 0.0:
                    raise TimeoutError from None
                continue
            if answer is _ENDED:
                raise self._describe_end()
            return answer

    def _read(self) -> None:
        try:
            while True:
                self._answers.put(pickle.load(self._process.stdout))  # type: ignore[arg-type]
        except Exception:  # it ended, possibly within an answer
            self._answers.put(_ENDED)

    def _describe_end(self) -> Exception:
        code = self._process.wait()
        if sys.platform != "win32" and code == -signal.SIGALRM:  # while this process was suspended
            return TimeoutError()
        return ChildProcessError(f"its process ended with status {code}")


#: Idle children. Taking one and returning it are atomic; threads that call at the same time have one each.
_idle: list[_Child] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # they belong to the parent


def call_within(limit: float, function: Callable[..., _T], *arguments: Any) -> _T:
    """Call ``function(*arguments)`` in a child process, within a limit in seconds.

    Function, arguments and result are pickled, so the function must be importable. Its exceptions are
    raised here.

    Raises
    ------
    TimeoutError
        At the limit; the child is killed. Its start and its imports do not count.
    ChildProcessError
        If the child ended by itself, by a crash of compiled code for instance.
    """
    call = pickle.dumps((function, arguments))
    child = _idle_child() or _Child()
    answered = False
    try:
        value: _T = child.ask(limit, call)
        answered = True
    except (TimeoutError, ChildProcessError):
        raise
    except Exception:  # raised by the function: the child can be used again
        answered = True
        raise
    finally:  # also after an interrupt
        if answered:
            _idle.append(child)
        else:
            child.close()
    return value


def _idle_child() -> _Child | None:
    """Return an idle child that is still alive, or a new one."""
    while True:
        try:
            child = _idle.pop()
        except IndexError:
            return None
        if child.alive:
            return child
        child.close()


@atexit.register
def _close_idle() -> None:
    while _idle:
        _idle.pop().close()


def serve() -> None:
    """Run in the child: answer calls until the standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    try:  # what compiled code prints must not end up among the answers
        os.dup2(2, 1)
    except OSError:  # there is no standard error
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends the process
    while True:
        try:
            call, limit = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            function, arguments = pickle.loads(call)
        except Exception as error:
            function, arguments = _refuse, (f"{type(error).__name__}: {error}",)
        pickle.dump("ready", answers)
        answers.flush()
        if sys.platform != "win32":
            signal.setitimer(signal.ITIMER_REAL, min(limit + _ORPHANED, _LONGEST))
        answer = _pack_answer(function, arguments)
        if sys.platform != "win32":
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        answers.write(answer)
        answers.flush()


def _refuse(why: str) -> None:
    raise RuntimeError(f"the call cannot be made in a child process: {why}")


def _pack_answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    try:
        return pickle.dumps((False, function(*arguments)))
    except BaseException as error:  # Rust panics are not Exceptions, and nothing may end this loop
        plain = pickle.dumps((True, RuntimeError(f"{type(error).__name__}: {error}")))
        if not isinstance(error, Exception) or isinstance(error, (TimeoutError, ChildProcessError)):
            return plain  # these two types have another meaning for the caller
        try:
            message = pickle.dumps((True, error))
            pickle.loads(message)  # some exceptions can be written but not read
        except Exception:
            return plain
        return message
