"""The public interface does not change by accident: names, parameters, defaults and options are as on the page."""

import difflib

import pytest
from public_api import PACKAGES, PAGE, PublicInterface

import problems
from substrate import kernels


@pytest.fixture(scope="module")
def page():
    return PublicInterface().page()


def test_the_page_is_what_the_packages_are(page):
    stored = PAGE.read_text(encoding="utf-8")
    changed = list(difflib.unified_diff(stored.splitlines(), page.splitlines(), lineterm="", n=0))
    assert changed == [], "if the change is meant, run python docs/public_api.py --write, and see docs/stability.md"


def test_every_public_estimator_kernel_and_command_is_listed(page):
    lines = page.splitlines()
    names = set(problems.__all__) - {*problems.PAGES, "load"}
    starts = {line.partition("(")[0] for line in lines}
    assert names | set(kernels.__all__) <= starts | {"as_kernel", "component_rows"}
    assert {"fit", "predict", "verify", "export"} <= starts
    assert all(f"## `{package}`" in lines for package in PACKAGES)
    assert "    .predict_proba(X, *, rows=None)" in lines, "also methods that some options take away"


def test_a_changed_default_a_new_name_and_a_lost_method_are_seen(page, monkeypatch):
    monkeypatch.setattr(kernels, "__all__", [*kernels.__all__, "as_kernel_of_points"])
    monkeypatch.setattr(kernels, "as_kernel_of_points", lambda points, metric="euclidean": None, raising=False)
    monkeypatch.delattr(problems.LSSVMRegressor, "influence_of_rows")
    new = set(PublicInterface().page().splitlines()) ^ set(page.splitlines())
    assert "as_kernel_of_points(points, metric='euclidean')" in new
    assert PublicInterface().page().count(".influence_of_rows(") < page.count(".influence_of_rows(")
