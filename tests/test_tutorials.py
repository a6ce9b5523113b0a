"""The tutorials' programs run in order, print what the pages show, and save the pictures the pages show."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
_spec = importlib.util.spec_from_file_location("run_tutorials", DOCS / "run_tutorials.py")
run_tutorials = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run_tutorials)


def test_there_is_one_for_each_kind_of_reader():
    assert {page.stem for page in run_tutorials.PAGES} >= {
        "composers",
        "derivation",
        "fusers",
        "practitioners",
        "teachers",
    }


@pytest.mark.parametrize("page", run_tutorials.PAGES, ids=lambda page: page.stem)
def test_it_prints_what_it_shows(page, tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    compared = 0
    for program, printed in run_tutorials.printed_by(page):
        if program["shown"] is not None:
            shown_words, shown_numbers = run_tutorials.words_and_numbers(program["shown"])
            words, numbers = run_tutorials.words_and_numbers(printed)
            assert words == shown_words
            np.testing.assert_allclose(numbers, shown_numbers, rtol=0.02, atol=1e-5)
            assert "DOES NOT HOLD" not in printed
            compared += 1
    plt.close("all")
    assert compared >= 5
    text = page.read_text(encoding="utf-8")
    exercises = text.partition("## Exercises")[2]
    assert (
        2 <= exercises.count(":::{solution}") == len(re.findall(r"^\*\*\d\.\*\* ", exercises, flags=re.MULTILINE)) <= 3
    )
    assert "## Check it yourself" in page.read_text(encoding="utf-8")
    saved = {picture.name for picture in tmp_path.glob("*.png")}
    assert saved <= {picture.name for picture in run_tutorials.PICTURES.glob("*.png")}
    assert all(f"../images/{name}" in page.read_text(encoding="utf-8") for name in saved)


@pytest.mark.parametrize("page", run_tutorials.PAGES, ids=lambda page: page.stem)
def test_its_notebook_has_its_programs_and_its_text(page):
    text, cells = page.read_text(encoding="utf-8"), run_tutorials.notebook(page)["cells"]
    programs = [program["code"].strip() for program in run_tutorials.PROGRAM.finditer(text)]
    assert [cell["source"].strip() for cell in cells if cell["cell_type"] == "code"] == programs
    assert len({cell["id"] for cell in cells}) == len(cells)
    written = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    assert "## Check it yourself" in written
    assert not re.search(r"\.(md|rst|png)\)|```(python|text)|\{mod\}", written), (
        "a notebook has no page next to it to lead to"
    )
    own = re.sub(r"```.*?```|!\[[^]]*\]\([^)]*\)|\]\([^)]*\)|<a [^>]*>|:::.*?\n", "", text, flags=re.DOTALL)
    assert ":::" not in written
    assert set(re.findall(r"\b[a-z]{4,}\b", own)) <= set(re.findall(r"\b[a-z]{4,}\b", written))


@pytest.mark.parametrize("page", run_tutorials.PAGES, ids=lambda page: page.stem)
def test_its_notebook_runs_in_a_kernel(page, tmp_path):
    client = pytest.importorskip("nbclient", reason="pip install '.[notebooks]'")
    pytest.importorskip("ipykernel", reason="pip install '.[notebooks]'")
    import nbformat

    made = nbformat.from_dict(run_tutorials.notebook(page))
    nbformat.validate(made)
    run = client.NotebookClient(made, resources={"metadata": {"path": str(tmp_path)}}, timeout=300).execute()
    printed = [
        "".join(output["text"] for output in cell["outputs"] if output["output_type"] == "stream")
        for cell in run.cells
        if cell["cell_type"] == "code"
    ]
    assert any("holds; " in text for text in printed)
    assert not any("DOES NOT HOLD" in text for text in printed)


def test_sums_in_single_precision_are_indefinite_and_sums_of_rounded_values_are_not():
    ((program, printed),) = run_tutorials.printed_by(DOCS / "devices.md")
    shown_words, shown = run_tutorials.words_and_numbers(program["shown"])
    words, found = run_tutorials.words_and_numbers(printed)
    assert words == shown_words
    # the last one is rounding, and every library's own: its sign and size are what is said
    for double, rounded, single in (shown, found):
        assert double > 0.0
        assert abs(rounded - double) < 0.1 * double
        assert single < -100.0 * double
