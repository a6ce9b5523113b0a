"""Every example asks a question, is short, runs without a warning, ends with a certificate that holds, and a picture.

The build of the documentation runs all of them for the gallery, and refuses what these tests refuse.
"""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PICTURE = "\n# %%\n"
over_examples = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def gallery():
    """The checks that the build of the gallery makes."""
    pytest.importorskip("sphinx_gallery", reason="pip install '.[docs]'")
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "_ext" / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_examples():
    assert len(EXAMPLES) >= 5


@over_examples
def test_it_is_short_and_asks_a_question(path):
    text = path.read_text(encoding="utf-8")
    page = ast.parse(text)
    before = page.body[0].end_lineno  # the question and its introduction
    assert before <= 22
    assert len(text.partition(PICTURE)[0].splitlines()) - before <= 54
    assert len(text.splitlines()) - before <= 66
    question, rule, *introduction = ast.get_docstring(page).splitlines()
    assert ".. math::" in introduction, "the problem that is solved, or the formula that the page is about"
    assert question.endswith("?")
    assert rule == "=" * len(question), "the question is the title of a page of the gallery"
    assert any(introduction), "a line or two under the question are its card in the gallery"
    assert path.stem.split("_")[0] in {"how", "what", "which", "do", "does", "why", "when", "where", "can", "is"}


@over_examples
def test_it_ends_with_a_picture(path):
    text = path.read_text(encoding="utf-8")
    assert PICTURE in text, "the picture is a separate block, which begins with # %% and a sentence"
    assert text.split(PICTURE)[-1].startswith("# ")
    assert ast.unparse(ast.parse(text).body[-1]) == "plt.show()"
    assert "matplotlib.use" not in text, "the reader, or the build of the gallery, chooses where it is shown"


def test_it_is_in_one_group_of_the_gallery():
    index = (ROOT / "examples" / "index.rst").read_text(encoding="utf-8")
    assert {path.stem: index.count(f"../examples/{path.name}") for path in EXAMPLES} == dict.fromkeys(
        (path.stem for path in EXAMPLES), 1
    )


def test_the_sidebar_has_the_groups_of_the_gallery(gallery):
    index = (ROOT / "examples" / "index.rst").read_text(encoding="utf-8")
    source = [index]
    gallery.group_sidebar(None, "auto_examples/index", source)
    lists = source[0][len(index) :]
    for path in EXAMPLES:
        assert lists.count(f"   {path.stem}\n") == 1
    captions = re.findall(r":caption: (.+)", lists)
    assert captions == re.findall(r"^(.+)\n-{3,}$", index, flags=re.MULTILINE)
    untouched = [index]
    gallery.group_sidebar(None, "auto_examples/other", untouched)
    assert untouched == [index]


HOLDS = """some text

LS-SVM: holds; all is well
check residual scale relative tolerance pass formula
----------------------------------------------------
row 1 2 3 4 yes x
"""


@pytest.mark.parametrize(
    ("printed", "complaint"),
    [
        (HOLDS, ""),
        (HOLDS.replace(" yes ", " NO "), "does not hold"),
        (f"LS-SVM: DOES NOT HOLD\n\n{HOLDS}", "does not hold"),
        (f"{HOLDS}\nand a line after it\n", "does not end with a certificate"),
        ("", "does not end with a certificate"),
    ],
)
def test_the_gallery_refuses_an_example_without_a_certificate_that_holds(gallery, printed, complaint):
    found = gallery.find_misprint(printed)
    assert complaint in found
    assert bool(found) == bool(complaint)


def test_the_gallery_refuses_a_picture_without_title_or_labels(gallery):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    figure, (left, right) = plt.subplots(1, 2)
    left.plot([0.0, 1.0])
    right.barh(["one", "two"], [0.0, 1.0])
    assert [complaint.partition(" of its axes")[0] for complaint in gallery.missing(figure)] == [
        "a title that states the answer",
        "a label on the x-axis",
        "a label on the y-axis",
        "a label on the x-axis",
    ]
    left.set(xlabel="x", ylabel="y", title="the answer")
    right.set(xlabel="y, of names")
    assert gallery.missing(figure) == []
    plt.close(figure)
