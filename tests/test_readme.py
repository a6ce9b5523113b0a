"""The README's programs run as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_there_are_programs():
    assert len(PROGRAMS) >= 2


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_and_its_certificates_hold(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "holds" in done.stdout
    assert "DOES NOT HOLD" not in done.stdout
