"""The report: everything it promises is on the page, and a browser shows it without complaint."""

import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from problems import TabularRegressor
from problems.command_line.main import main
from problems.command_line.report import report
from problems.command_line.words import in_shell
from problems.tables.quality import importance

VOID = {"meta", "link", "img", "br", "input"}
RNG = np.random.default_rng(0)
POINTS = RNG.uniform(size=(60, 3))
COLUMNS = {"first": POINTS[:, 0], "second": POINTS[:, 1], "idle": POINTS[:, 2]}
Y = 3.0 * np.sin(6.0 * POINTS[:, 0]) + 4.0 * POINTS[:, 1] + 0.1 * RNG.normal(size=60)
GIVEN = {"kernel": "rbf", "gamma": 50.0, "validation": 0.25}


def page_of(model, path=None):
    return report(model, "task: by the test", path, importance(model))


@pytest.fixture(scope="module")
def fitted():
    pytest.importorskip("matplotlib")
    model = TabularRegressor(kernel="rbf", validation=0.25).fit(COLUMNS, Y)
    return model, page_of(model, "folder/model.npz")


class Page(HTMLParser):
    """Checks that tags close in order, and gathers text and addresses."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.addresses, self.tags = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def test_the_page_fetches_nothing_and_runs_nothing(fitted):
    page = Page(fitted[1])
    assert all(address.startswith("data:") for address in page.addresses)
    assert not {"iframe", "object", "embed", "form", "script"} & set(page.tags)
    assert "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\"" in fitted[1]
    assert fitted[1].count("url(") == fitted[1].count("url(#")


def test_the_sections_are_there_and_the_numbers_are_those_of_the_model(fitted):
    model, text = fitted
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings[:4] == ["How good is it?", "How sure is it?", "Which inputs matter?", "Is it solved?"]
    assert headings[4:] == ["Accuracy", "Pictures", "Model", "Use it"]
    words, judged = Page(text).words, model.judged_
    certificate = judged.machine.certificate_
    assert f"Yes, the certificate holds {certificate.promise[0].upper()}{certificate.promise[1:]}." in words
    assert all(row.name in words and f"{row.relative:.1e}" in words for row in certificate.rows)
    inside = judged.machine.predict(judged.X) - judged.y
    outside = judged.machine.predict(judged.X_val) - judged.y_val
    root = [np.sqrt(np.mean(errors**2)) for errors in (inside, outside)]
    assert f"RMSE {root[0]:.3g} {root[1]:.3g}" in words
    assert all(f"{name} third" in words for name in ("lowest", "middle", "highest"))
    assert "45 train, 15 held out" in words
    assert "problems.load('model.npz')" in words
    assert "substrate predict model.npz new.csv" in words


def test_the_inputs_that_matter_are_those_whose_shuffled_values_do_harm(fitted):
    words = Page(fitted[1]).words
    assert re.search(r"Which inputs matter\? (first, second|second, first) 2 of 3 inputs", words)
    assert 'alt="Which inputs matter"' in fitted[1]


@pytest.mark.parametrize("hostile", ["a\n<script>alert(1)</script>", r"$\bad{ <script>$"])
def test_names_from_the_table_cannot_become_tags_or_formulas(hostile):
    model = TabularRegressor(**GIVEN).fit({**COLUMNS, hostile: POINTS[:, 0], "y " + hostile: Y}, "y " + hostile)
    text = page_of(model, f"{hostile}.npz")
    assert text.count("<script") == text.count("</script") == 0
    assert "&lt;script&gt;" in text
    Page(text)


@pytest.mark.parametrize("line", [["fit", "--report", "r.html"], ["map", "--out", "m.png"]])
def test_without_matplotlib_a_picture_is_refused_before_any_work(monkeypatch, capsys, tmp_path, line):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert main([*line, "@motorcycle"]) == 2
    assert 'matplotlib: pip install "lssvm-substrate[tables]"' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_same_fit_makes_the_same_page(fitted):
    assert page_of(fitted[0], "folder/model.npz") == fitted[1]


def test_a_report_of_the_command_line_says_remarks_in_its_words(tmp_path):
    lines = [f"[it's {k}],{x!r},{y!r}" for k, (x, y) in enumerate(zip(POINTS[:, 0].tolist(), Y.tolist(), strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(["na]me,x,y", *lines]))
    line = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--gamma", "9", "--report", str(tmp_path / "r.html")]
    assert main(line) == 0
    assert "a name rather than a category" in Page((tmp_path / "r.html").read_text()).words
    assert (
        in_shell("give id=['a b'] or impute='median', refit=False") == "give --id 'a b' or --impute median, --no-refit"
    )
