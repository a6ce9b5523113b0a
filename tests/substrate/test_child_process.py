"""Calls in a child process: answered, ended at their limit, ended by an interrupt, and never a hang."""

import math
import operator
import os
import pickle
import signal
import sys
import threading
import time
import warnings

import pytest

from substrate import child_process
from substrate.child_process import call_within

LONG = 600.0


@pytest.fixture(autouse=True)
def fresh():
    """Each test starts without a child, and leaves none."""
    child_process._close_idle()
    yield
    child_process._close_idle()


@pytest.fixture
def helper(tmp_path, monkeypatch):
    """A module that the child can import."""

    def write(source):
        (tmp_path / "helper_of_a_test.py").write_text(source, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "helper_of_a_test", raising=False)
        import helper_of_a_test

        return helper_of_a_test

    yield write
    sys.modules.pop("helper_of_a_test", None)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_answer_comes_from_another_process_which_is_kept():
    first, second = call_within(LONG, os.getpid), call_within(LONG, os.getpid)
    assert first == second != os.getpid()
    assert call_within(LONG, operator.add, "a", "b") == "ab"


def test_at_the_limit_the_child_is_killed_and_the_next_call_has_a_new_one():
    pid = call_within(LONG, os.getpid)
    with pytest.raises(TimeoutError):
        call_within(0.2, time.sleep, LONG)
    assert not alive(pid)
    assert call_within(LONG, os.getpid) != pid


def test_an_exception_is_raised_here_and_the_child_is_kept():
    pid = call_within(LONG, os.getpid)
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        call_within(LONG, math.sqrt, -1.0)
    assert call_within(LONG, os.getpid) == pid


@pytest.mark.parametrize("body", ["raise TimeoutError('mine')", "raise SystemExit('mine')", "raise Odd(1, 'mine')"])
def test_exceptions_that_cannot_travel_arrive_as_text(helper, body):
    source = f"""
class Odd(Exception):
    def __init__(self, number, text):
        super().__init__(text)

def broken():
    {body}
"""
    function = helper(source).broken
    with pytest.raises(RuntimeError, match=r"(TimeoutError|SystemExit|Odd): mine"):
        call_within(LONG, function)
    assert call_within(LONG, operator.neg, 1) == -1


def test_a_function_that_cannot_be_imported_there_is_refused(helper):
    function = helper("def here():\n    return 1\n").here
    assert call_within(LONG, function) == 1
    function.__qualname__ = function.__name__ = "nowhere"
    sys.modules["helper_of_a_test"].nowhere = function  # here only
    with pytest.raises(RuntimeError, match="cannot be made in a child process"):
        call_within(LONG, function)
    with pytest.raises((AttributeError, pickle.PicklingError), match=r"lambda|local object"):
        call_within(LONG, lambda: 1)


def test_a_child_that_ends_by_itself_is_an_error():
    with pytest.raises(ChildProcessError, match="its process ended with status 3"):
        call_within(LONG, os._exit, 3)
    assert call_within(LONG, operator.neg, 1) == -1


def test_an_idle_child_that_was_killed_is_replaced():
    pid = call_within(LONG, os.getpid)
    (idle,) = child_process._idle
    os.kill(pid, signal.SIGTERM)
    idle._process.wait()
    assert call_within(LONG, os.getpid) != pid


def test_what_the_function_prints_goes_to_standard_error(capfd):
    call_within(LONG, print, "from the child")
    call_within(LONG, os.system, "echo from below")
    child_process._close_idle()
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "from below" in captured.err


def test_threads_that_call_at_one_time_have_children_of_their_own():
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(call_within(LONG, os.getpid))) for _ in range(2)]
    gate = threading.Thread(target=call_within, args=(LONG, time.sleep, 0.5))
    for thread in (gate, *threads):
        thread.start()
    for thread in (gate, *threads):
        thread.join()
    assert len(answers) == 2
    assert call_within(LONG, os.getpid) != os.getpid()


@pytest.mark.skipif(sys.platform == "win32", reason="a signal to oneself is no Ctrl-C there")
def test_one_interrupt_ends_the_wait_and_the_child_at_once():
    pid = call_within(LONG, os.getpid)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call_within(LONG, time.sleep, LONG)
    timer.join()
    assert not alive(pid)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_does_not_speak_with_its_parents_child():
    mine = call_within(LONG, os.getpid)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of forks beside threads, and that is the point here
        pid = os.fork()
    if pid == 0:
        os._exit(0 if not child_process._idle else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert call_within(LONG, os.getpid) == mine


def test_without_an_interpreter_it_says_so(monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(ChildProcessError, match=r"sys\.executable is empty"):
        call_within(LONG, os.getpid)
