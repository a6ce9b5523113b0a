"""The tutorials' programs run in order, print what the pages show, and save the pictures the pages show."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
_spec = importlib.util.spec_from_file_location("run_tutorials", DOCS / "run_tutorials.py")
run_tutorials = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run_tutorials)


def test_there_is_one_for_each_kind_of_reader():
    assert {page.stem for page in run_tutorials.PAGES} >= {"composers", "fusers", "practitioners", "teachers"}


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
    assert "## Check it yourself" in page.read_text(encoding="utf-8")
    saved = {picture.name for picture in tmp_path.glob("*.png")}
    assert saved <= {picture.name for picture in run_tutorials.PICTURES.glob("*.png")}
    assert all(f"../images/{name}" in page.read_text(encoding="utf-8") for name in saved)


@pytest.mark.parametrize(
    ("printed", "same"), [("error 1.02 g\n", True), ("error 1.5 g\n", False), ("mistake 1.02 g\n", False)]
)
def test_the_comparison_sees_words_and_numbers(printed, same):
    words, numbers = run_tutorials.words_and_numbers("error 1.02 g\n")
    got_words, got_numbers = run_tutorials.words_and_numbers(printed)
    assert (words == got_words and np.allclose(numbers, got_numbers, rtol=0.02)) is same
