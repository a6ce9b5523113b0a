"""What a release says of itself is one thing everywhere: the version, the interpreters, the license, and the policy."""

import re
import tomllib
from pathlib import Path

import pytest

import substrate

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_there_is_one_version(project):
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert project["version"] == substrate.__version__
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == substrate.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", substrate.__version__), "major, minor and patch"
    assert f"## [{substrate.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_citation_has_what_its_format_asks_for(project):
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    keys = set(re.findall(r"^([\w-]+):", citation, re.MULTILINE))
    assert {"cff-version", "message", "title", "authors", "version", "date-released", "license"} <= keys
    assert f"license: {project['license']}" in citation


def test_classifiers_are_the_interpreters_that_are_tested(project):
    versions = {c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r"Python :: 3\.\d+$", c)}
    tested = re.search(r"for version in ([\d. ]+);", (ROOT / ".ci" / "other_interpreters").read_text(encoding="utf-8"))
    lowest = project["requires-python"].removeprefix(">=")
    assert versions == {lowest, *tested[1].split()}
    assert all(not c.startswith("License ::") for c in project["classifiers"]), "the expression says it"
    for package in ("substrate", "problems"):
        assert (ROOT / package / "py.typed").exists(), "Typing :: Typed"


def test_every_extra_that_a_message_names_exists(project):
    named = {
        extra
        for folder in ("substrate", "problems")
        for path in (ROOT / folder).rglob("*.py")
        for extra in re.findall(r"lssvm-substrate\[(\w+)\]", path.read_text(encoding="utf-8"))
    }
    assert {"onnx", "proof"} <= named
    assert named <= set(project["optional-dependencies"])


def test_policies_are_where_they_are_looked_for():
    policy = (ROOT / ".github" / "SECURITY.md").read_text(encoding="utf-8")
    assert "Report a weakness" in policy
    stability = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    assert "Deprecation" in stability
    assert "semver.org" in stability
