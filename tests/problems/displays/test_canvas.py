"""What all displays share: matplotlib on use only, axes given or made, refusals, and names."""

import subprocess
import sys

import pytest

import problems.displays
from problems import LSSVMRegressor


def test_no_display_needs_matplotlib_to_be_imported():
    code = "import sys, problems.displays; print({'cvxpy', 'matplotlib'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["set()"], done.stderr


def test_without_matplotlib_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    model = LSSVMRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(ImportError, match=r"pip install .*tables"):
        problems.displays.SupportVectorsDisplay.from_estimator(model, [[0.0], [1.0]], [0.0, 1.0])
