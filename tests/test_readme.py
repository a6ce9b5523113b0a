"""The README's programs run as printed."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_there_are_programs():
    assert len(PROGRAMS) >= 2


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_and_its_certificates_hold(program, tmp_path, monkeypatch, capsys):
    # in this process: another one would spend most of its time importing cvxpy
    monkeypatch.chdir(tmp_path)
    exec(compile(program, str(README), "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert "holds" in printed
    assert "DOES NOT HOLD" not in printed
