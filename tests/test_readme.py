"""The README fits on two screens, and its programs run as printed."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


def test_it_fits_on_two_screens():
    assert len(TEXT.splitlines()) <= 130


def test_there_are_programs():
    assert len(PROGRAMS) == 3, "a fit, a machine, a fusion"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_and_its_certificates_hold(program, tmp_path, monkeypatch, capsys):
    # in this process: another one would spend most of its time importing cvxpy
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    exec(compile(program, str(README), "exec"), names)
    printed = capsys.readouterr().out
    assert "holds" in printed
    assert "DOES NOT HOLD" not in printed
    if "fuse" in names:  # a choice at an end of its range would be a poor one to show
        best = names["best"]
        assert best.lower_bound <= best.validation_error
        assert all(low < best.values[name] < high for name, (low, high) in best.proved_on.items())
