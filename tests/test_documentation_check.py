"""The check of the built documentation finds what it is there to find, and accepts a sound page."""

import importlib.util
from pathlib import Path

import pytest

_path = Path(__file__).resolve().parents[1] / "docs" / "check_pages.py"
_spec = importlib.util.spec_from_file_location("check_pages", _path)
check_pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_pages)

SOUND = (
    '<html><body><h1 id="top">A page</h1><img src="mark.svg"><a href="#top">up</a><a href="other.html#there">on</a>'
    '<a href="https://example.org/">away</a><span class="math">\\(x\\)</span><pre>$HOME and $PATH</pre>{}</body></html>'
)


def complaints(folder, more=""):
    (folder / "mark.svg").write_text("<svg/>")
    (folder / "other.html").write_text('<p id="there">here</p>')
    (folder / "index.html").write_text(SOUND.format(more))
    return check_pages.complaints(folder).get("index.html", [])


def test_a_sound_page_is_accepted(tmp_path):
    assert complaints(tmp_path) == []


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ('<a href="nowhere.html">x</a>', "is not there"),
        ('<a href="other.html#elsewhere">x</a>', "has no such anchor"),
        ('<a href="#bottom">x</a>', "has no such anchor"),
        ('<img src="missing.png">', "is not there"),
        ('<script src="https://cdn.example.org/m.js"></script>', "from elsewhere"),
        ('<link rel="stylesheet" href="//fonts.example.org/f.css">', "from elsewhere"),
        ("<p>so \\(x\\) follows</p>", "raw mathematics"),
        ("<p>so $x^2$ follows</p>", "raw mathematics"),
    ],
)
def test_what_is_broken_is_named(tmp_path, broken, complaint):
    (found,) = complaints(tmp_path, broken)
    assert complaint in found


def test_no_pages_are_no_success(tmp_path):
    assert check_pages.complaints(tmp_path)
