"""What the build of the documentation does to docstrings and names leaves their text as it is."""

import importlib
import sys
from pathlib import Path

import pytest

docutils_nodes = pytest.importorskip("docutils.nodes", reason="pip install '.[docs]'")
pytest.importorskip("sphinx", reason="pip install '.[docs]'")


@pytest.fixture
def extension(monkeypatch):
    """A module of docs/_ext, by its name."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "docs" / "_ext"))
    yield importlib.import_module
    for name in ("api_pages", "own_names"):
        sys.modules.pop(name, None)


def test_equations_are_listed_once_with_their_continuations(extension):
    lines = [
        "Summary.",
        "",
        ":equation [Suykens2002]_ (9): the dual",
        "    system",
        ":place [Suykens2002]_ Algorithm 1: weights",
        "",
        ":Parameters:",
        "    **x** : array",
    ]
    extension("api_pages").list_equations(None, "function", "f", None, None, lines)
    assert lines == [
        "Summary.",
        "",
        "",
        ".. rubric:: Equations",
        "",
        "- [Suykens2002]_ (9): the dual",
        "  system",
        "- [Suykens2002]_ Algorithm 1: weights",
        "",
        ":Parameters:",
        "    **x** : array",
    ]


def test_a_docstring_without_equations_stays_as_it_is(extension):
    lines = ["Summary.", "", "    indented", ":Parameters:"]
    extension("api_pages").list_equations(None, "function", "f", None, None, lines)
    assert lines == ["Summary.", "", "    indented", ":Parameters:"]


@pytest.mark.parametrize("name", ["tests/a_b.py::test_c_d", "substrate.kernels.RBF", "gamma", "a b, c", "__init__"])
def test_a_name_breaks_at_separators_only_and_keeps_its_text(extension, name):
    own_names = extension("own_names")
    literal = docutils_nodes.literal(name, name)
    own_names.breakable(literal)
    parts = [child.astext() for child in literal.children if not isinstance(child, docutils_nodes.raw)]
    assert "".join(parts) == own_names.spell(literal) == name
    assert all(part[-1] in "._/:=," for part in parts[:-1])
