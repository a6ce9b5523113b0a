"""What all displays share: matplotlib on use only, axes given or made, refusals, and names."""

import subprocess
import sys

import pytest

import problems.displays
from problems import LSSVMRegressor
from problems.displays.canvas import pyplot


def test_the_package_is_cheap_and_no_display_needs_matplotlib_to_be_imported():
    code = """
import sys, problems.displays as displays
print([name for name in ("sklearn", "cvxpy", "matplotlib") if name in sys.modules])
for name in displays.__all__:
    getattr(displays, name)
print([name for name in ("cvxpy", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["[]", "[]"], done.stderr


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'NoSuchDisplay'"):
        problems.displays.NoSuchDisplay  # noqa: B018
    assert set(problems.displays.__all__) == set(problems.displays.DISPLAYS) <= set(dir(problems.displays))


def test_without_matplotlib_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        pyplot()
    model = LSSVMRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(ImportError, match="pip install matplotlib"):
        problems.displays.SupportVectorsDisplay.from_estimator(model, [[0.0], [1.0]], [0.0, 1.0])
