"""Ctrl-C and SIGTERM: one line, the exit status of a shell, and files that are as they were or whole."""

import gc
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from sampled_cases import first

from problems.command_line import main as command
from problems.command_line.main import main
from problems.tables import fit as fitting
from problems.tables.tabular_model import TabularModel

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
LINE = ["fit", "@motorcycle", "--gamma", "2", "--quiet"]
#: So that programs in other folders find this package.
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path) or "."}
#: Seconds after which a test gives up; none depends on how long anything takes.
GIVE_UP = 300


def sent(number):
    def during(*arguments, **named):
        signal.raise_signal(number)

    return during


def handlers():
    return [signal.getsignal(number) for number in STATUS], sys.unraisablehook


@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize("old", [None, "before"])
def test_an_interrupted_fit_leaves_what_was_there(tmp_path, monkeypatch, capsys, number, old):
    out = tmp_path / "m.npz"
    if old is not None:
        out.write_text(old, encoding="utf-8")
    before = handlers()
    monkeypatch.setattr(fitting, "fit_prepared", sent(number))
    assert main([*LINE, "--out", str(out)]) == STATUS[number]
    kept = "" if old is None else f", and {out} was left as before"
    assert capsys.readouterr() == ("", f"substrate: {WORDS[number]}; nothing was written{kept}\n")
    assert [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()] == ([] if old is None else [old])
    assert handlers() == before


def test_between_two_files_the_first_is_there_and_said(tmp_path, monkeypatch, capsys):
    out, page = tmp_path / "m.npz", tmp_path / "r.html"
    monkeypatch.setattr(TabularModel, "save", sent(signal.SIGINT))
    assert main([*LINE, "--out", str(out), "--report", str(page)]) == 130
    assert capsys.readouterr().err == f"substrate: interrupted; {page} was written, {out} not\n"
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_half_a_file_is_not_left(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "chmod", sent(signal.SIGTERM))
    assert main(["datasets", "motorcycle", "--out", str(tmp_path / "m.csv")]) == 143
    assert capsys.readouterr().err == "substrate: terminated; nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_that_somebody_caught_still_ends_the_command(tmp_path, monkeypatch, capsys):
    true = fitting.fit_prepared

    def caught(*arguments):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return true(*arguments)

    monkeypatch.setattr(fitting, "fit_prepared", caught)
    assert main([*LINE, "--out", str(tmp_path / "m.npz")]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_error_that_an_interrupt_caused_is_no_error_of_the_data(tmp_path, monkeypatch, capsys):
    def half_imported(*arguments):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise ValueError("a module is half there")

    monkeypatch.setattr(fitting, "fit_prepared", half_imported)
    assert main([*LINE, "--out", str(tmp_path / "m.npz")]) == 130
    assert "half there" not in capsys.readouterr().err


class Interrupting:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_inside_a_finalizer_is_not_lost(tmp_path, monkeypatch, capsys):
    def finalized(*arguments):
        Interrupting()
        gc.collect()
        for _ in range(20 * GIVE_UP):  # the work that would go on, in steps: a signal just before one is heard after it
            threading.Event().wait(0.05)

    monkeypatch.setattr(fitting, "fit_prepared", finalized)
    assert main([*LINE, "--out", str(tmp_path / "m.npz")]) == 130
    assert capsys.readouterr().err == "substrate: interrupted; nothing was written\n"


def test_in_another_thread_the_command_runs_and_sets_no_handler(tmp_path):
    codes = []
    before = handlers()
    thread = threading.Thread(target=lambda: codes.append(main([*LINE, "--out", str(tmp_path / "m.npz")])))
    thread.start()
    thread.join()
    assert codes == [0]
    assert handlers() == before


def test_signals_that_somebody_else_hears_are_left_to_them(tmp_path, monkeypatch):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        monkeypatch.setattr(fitting, "treat", sent(signal.SIGTERM))
        with pytest.raises(AttributeError):
            main([*LINE, "--out", str(tmp_path / "m.npz")])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def terminal_of(words, marker, folder, number):
    """Run a command whose standard error is a terminal, signal its group when the marker appears, read the rest."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, *words], cwd=folder, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    watchdog = threading.Timer(GIVE_UP, os.killpg, (child.pid, signal.SIGKILL))
    watchdog.start()
    said, sent_at = b"", None
    try:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how Linux says that nobody holds the other end: the command and its workers are gone
                break
            if not part:
                break
            said += part
            if sent_at is None and marker.encode() in said:
                sent_at = len(said)
                os.killpg(child.pid, number)
        out, _ = child.communicate()
    finally:
        watchdog.cancel()
        os.close(ours)
    assert sent_at is not None, said
    return child.returncode, out, said.decode().replace("\r\n", "\n")


COMMAND = ("-m", "problems.command_line.main")


def last_line(said):
    """What is left on the screen when a terminal has cleared the bar."""
    return said.rsplit("\r\x1b[K", 1)[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_fit_on_a_basis_can_be_interrupted(tmp_path, number):
    X = np.random.default_rng(0).normal(size=(20_000, 4))
    columns = np.column_stack([X, X.sum(axis=1)])
    np.savetxt(tmp_path / "t.csv", columns, delimiter=",", header="a,b,c,d,y", comments="")
    (tmp_path / "m.npz").write_bytes(b"before")
    line = ["fit", "t.csv", "--target", "y", "--model", "sparse", "--n-basis", "500", "--out", "m.npz"]
    code, _, said = terminal_of([*COMMAND, *line], "fitting", tmp_path, number)
    assert code == STATUS[number], said
    assert last_line(said) == f"substrate: {WORDS[number]}; nothing was written, and m.npz was left as before\n", said
    assert "Traceback" not in said
    assert (tmp_path / "m.npz").read_bytes() == b"before"


@pytest.mark.parametrize("module", ["numpy", pytest.param("sklearn.base", marks=pytest.mark.slow)])
def test_an_import_can_be_interrupted(tmp_path, module):
    line = ["-X", "importtime", *COMMAND, "fit", "@motorcycle", "--out", "m.npz"]
    code, _, said = terminal_of(line, f" {module}\r\n", tmp_path, signal.SIGINT)
    assert code == 130, said
    assert last_line(said).startswith("substrate: interrupted; nothing was written\n"), said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_inside_compiled_text_keeps_the_exit_status(tmp_path):
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "from problems.command_line.interruption import interruptible\n"
        "def interrupted():\n"
        "    raise KeyboardInterrupt\n"
        "with interruptible(ending=True) as interruption:\n"
        "    try:\n"
        "        eval('interrupted()')\n"
        "    except KeyboardInterrupt:\n"
        "        status = interruption.report()\n"
        "sys.exit(status)\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, "-m", "program"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 130, done.stderr


@pytest.mark.slow
def test_reading_a_table_can_be_interrupted(tmp_path):
    with (tmp_path / "t.csv").open("w", encoding="utf-8") as stream:
        stream.write("a,b,y\n")
        stream.write("0.25,1.5,3.75\n" * 3_000_000)
    line = [*COMMAND, "fit", "t.csv", "--target", "y", "--out", "m.npz"]
    code, _, said = terminal_of(line, "reading t.csv", tmp_path, signal.SIGINT)
    assert code == 130, said
    assert last_line(said) == "substrate: interrupted; nothing was written\n"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


SHUTDOWN = """
import atexit, os, signal, sys, threading
from problems.command_line import main as command

number, place = int(sys.argv[1]), sys.argv[2]
returned = threading.Event()
truly = command._datasets

def send():
    os.kill(os.getpid(), number)

def later():
    returned.wait()
    send()

class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=number):
        kill(pid, number)

def datasets(options):
    status = truly(options)
    if place == "exit function":
        atexit.register(send)
    elif place == "thread":
        threading.Thread(target=later).start()
    return status

command._datasets = datasets
if place == "last exit function":
    atexit.register(send)
elif place == "modules":
    sys.modules["last"] = Last()
    kept = Last()
sys.argv = ["substrate", "datasets", "motorcycle", "--out", "m.csv"]
status = command.main()
returned.set()
if place == "returned":
    send()
elif place == "twice":
    atexit.register(send)
    send()
sys.exit(status)
"""


@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize(
    "place", first(3, ["returned", "exit function", "modules", "thread", "twice", "last exit function", "never"])
)
@pytest.mark.some_cases(1)
def test_a_signal_during_shutdown_has_the_line_or_comes_too_late(tmp_path, number, place):
    """Wherever it arrives, the status is that of a shell or of the finished command, and the file is whole."""
    words = [sys.executable, "-c", SHUTDOWN, str(int(number)), place]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT)
    late = place in ("last exit function", "modules", "never")
    line = "" if late else f"substrate: {WORDS[number]}; m.csv was written\n"
    assert (done.returncode, done.stdout, done.stderr) == (0 if late else STATUS[number], "", line)
    assert (tmp_path / "m.csv").read_text(encoding="utf-8").count("\n") > 100


def test_a_signal_behind_the_command_is_reported_to_its_caller_too(tmp_path, monkeypatch, capsys):
    """In a program of somebody's own, which goes on."""
    before = handlers()
    monkeypatch.setattr(command.Interruption, "finish", finish_and(signal.SIGINT))
    assert main(["datasets", "motorcycle", "--out", str(tmp_path / "m.csv")]) == 130
    assert capsys.readouterr().err == f"substrate: interrupted; {tmp_path / 'm.csv'} was written\n"
    assert handlers() == before


def finish_and(number):
    def finish(interruption):
        interruption.finished = True
        signal.raise_signal(number)

    return finish
