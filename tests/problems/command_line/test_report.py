"""The report: everything it promises is on the page, and a browser shows it without complaint."""

import base64
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from sampled_cases import first

from problems.command_line.importances import importance, important
from problems.command_line.report.answers import measures
from problems.command_line.report.formulas import kernel_formula
from problems.command_line.report.pictures import COVERAGES, measure_coverage, title_of
from problems.command_line.report.report import describe_facts, report
from problems.tables.fit import Choices, bound_of, fit_prepared, prepare
from problems.tables.models import Weights
from problems.tables.table import Table, read_table
from substrate.kernels import RBF, Laplacian

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
VOID = {"meta", "link", "img", "br", "input"}


def small(names, columns):
    return Table("small.csv", {name: tuple(map(str, column)) for name, column in zip(names, columns, strict=True)})


@pytest.fixture(scope="module")
def additive():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 3))
    y = 3.0 * np.sin(6.0 * X[:, 0]) + 4.0 * X[:, 1] + 0.1 * rng.normal(size=60)
    return small(["first", "second", "idle", "y"], [*X.T.tolist(), y.tolist()])


@pytest.fixture(scope="module")
def structure(additive):
    pytest.importorskip("matplotlib")
    fit = fit_prepared(prepare(additive, Choices("y", model="structure")))
    return fit, report(fit, "folder/model.npz")


@pytest.fixture(scope="module")
def motorcycle():
    pytest.importorskip("matplotlib")
    fit = fit_prepared(prepare(read_table("@motorcycle"), Choices("accel")))
    return fit, report(fit, "model.npz")


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


def test_the_page_fetches_nothing_and_runs_nothing(motorcycle, structure):
    for _, text in (motorcycle, structure):
        page = Page(text)
        assert all(address.startswith("data:") for address in page.addresses)
        assert not {"iframe", "object", "embed", "form", "script"} & set(page.tags)
        assert "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\"" in text
        assert "@import" not in text
        assert text.count("url(") == text.count("url(#")
        assert 'name="viewport" content="width=device-width, initial-scale=1"' in text


def test_the_sections_are_there(motorcycle):
    fit, text = motorcycle
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings[:4] == ["How good is it?", "How sure is it?", "Which inputs matter?", "Is it solved?"]
    assert headings[4:7] == ["Errors", "Pictures", "Inputs"]
    assert headings[7:] == ["What was fitted", "Certificate", "Warnings", "Use it"]
    words = Page(text).words
    promise = fit.model.estimator.certificate_.promise
    assert f"Yes, the certificate holds {promise[0].upper()}{promise[1:]}. All 9 checks" in words
    assert "The sum over i is over all 99 training rows." in words
    assert "γ was chosen by the error of every training row left out in turn, n = 99:" in words
    assert "99 train, 34 held out" in words
    assert "None were raised." in words
    assert "TabularModel.load('model.npz')" in words
    assert "substrate predict model.npz new.csv" in words
    model = fit.model.estimator
    for row in model.certificate_.rows:
        assert row.name in words
        assert f"{row.relative:.1e}" in words
    assert f"less than {model.criterion_lower_bound_:.7g}" in words
    assert f"leave-one-out error of {model.criterion_:.7g}" in words
    assert f"σ = {model.kernel_.sigma:.4g} (inputs standardised)" in words


def test_the_errors_are_those_of_the_model(motorcycle):
    fit, text = motorcycle
    root, absolute, explained = measures(fit)
    model = fit.model.estimator
    inside, outside = model.predict(fit.X) - fit.y, model.predict(fit.X_val) - fit.y_val
    assert root[0] == "RMSE"
    assert root[1:3] == pytest.approx((np.sqrt(np.mean(inside**2)), np.sqrt(np.mean(outside**2))))
    assert root[3] == pytest.approx(np.sqrt(np.mean((fit.y_val - fit.y.mean()) ** 2)))
    assert absolute[1:3] == pytest.approx((np.mean(np.abs(inside)), np.mean(np.abs(outside))))
    assert explained[1:3] == pytest.approx((model.score(fit.X, fit.y), model.score(fit.X_val, fit.y_val)))
    words = Page(text).words
    assert f"R² = {explained[2]:.3g} On 34 held-out rows: RMSE {root[2]:.4g}, against" in words
    ends = model.predict_interval(fit.X_val, 0.9, "split")
    assert f"± {np.median(ends[:, 1] - ends[:, 0]) / 2.0:.3g}" in words


def test_the_inputs_that_matter_are_those_whose_shuffled_values_do_harm(additive):
    fit = fit_prepared(prepare(additive, Choices("y", weights=Weights(gamma=50.0))))
    found = importance(fit)
    assert important(found) == [0, 1] or important(found) == [1, 0]
    text = report(fit, None)
    words = Page(text).words
    names = ", ".join(fit.preparation.features[k] for k in important(found))
    assert f"Which inputs matter? {names} 2 of 3 inputs" in words
    assert f"{found.importances_mean[0]:.3g} ± {found.importances_std[0]:.1g}" in words
    assert 'alt="Which inputs matter"' in text


def test_coverages_are_counted_on_held_out_rows(motorcycle):
    fit, text = motorcycle
    shares = measure_coverage(fit)
    assert len(shares) == len(COVERAGES)
    assert np.all(np.diff(shares) >= 0.0)
    ends = fit.model.estimator.predict_interval(fit.X_val, 0.9, "conformal")
    assert shares[-1] == np.mean((ends[:, 0] <= fit.y_val) & (fit.y_val <= ends[:, 1]))
    assert title_of(shares, fit.y_val.size) in text


def test_a_finished_report_has_no_estimate(motorcycle):
    fit, text = motorcycle
    estimates = ("estimate: about 8 min and 1 GB of memory", "estimate: --model lssvm for all rows takes about 3 h")
    facts = describe_facts(replace(fit, description=(*fit.description, *estimates)))
    assert "estimate" not in facts.lower()
    assert facts.count("<li>") == len(fit.description)
    assert facts in text


def test_intervals_that_hold_less_than_they_promise_are_not_said_to_hold_it():
    promised = np.array(COVERAGES)
    assert title_of(list(promised), 50) == "Intervals that hold what they promise"
    assert title_of(list(promised - 0.02), 50) == "Intervals that hold what they promise"
    short = promised.copy()
    short[-1] = 0.7
    assert title_of(list(short), 50).endswith("less than they promise: 70% of rows where 90% were asked for")
    assert title_of(list(short), 4) == "Intervals that hold what they promise"


def test_pictures_have_colours_for_a_dark_system(motorcycle):
    _, text = motorcycle
    assert "@media screen and (prefers-color-scheme: dark)" in text
    for code in re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)"', text):
        image = base64.b64decode(code).decode()
        style, _, rest = image.partition("</style>")
        assert "@media screen and (prefers-color-scheme:dark){:root{--c000000:#ebebeb;" in style
        assert "--cffffff:#15171c;" in style
        assert re.findall(r": #[0-9a-f]{6}", rest) == []


def test_pictures_are_well_formed_images_with_names(motorcycle, structure):
    for _, text in (motorcycle, structure):
        images = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)" alt="([^"]+)">', text)
        assert len(images) == text.count("<img ") == text.count("<figure>") >= 3
        for code, name in images:
            assert name
            assert ElementTree.fromstring(base64.b64decode(code)).tag == "{http://www.w3.org/2000/svg}svg"
        assert "Not drawn" not in text


def test_a_structured_model_names_its_inputs_and_draws_them(structure):
    fit, text = structure
    words = Page(text).words
    assert "Selected, varying by more than 0.05 of the largest: first, second" in words
    assert "Component of first" in words
    variation = fit.model.estimator.maximal_variation_
    assert all(f"{t:.4g}" in words for t in variation)
    assert "The held-out rows chose this weight" in words
    assert "Not measured The held-out rows chose rho" in words
    bound = bound_of(fit)
    assert (bound.weight, bound.by) == ("rho", "validation")
    assert bound.lower_bound <= bound.error == pytest.approx(measures(fit)[0][2] ** 2)


def test_components_are_drawn_in_the_units_of_the_table(structure, monkeypatch):
    from problems.command_line.report import pictures

    fit, _ = structure
    part = pictures._component(fit, fit.model.estimator, 0, list(fit.preparation.features), "y")
    one = fit.preparation.inputs[0]
    np.testing.assert_allclose(np.sort(part.places), np.sort(fit.X[:, 0] * one.scale + one.center))
    assert 0.0 <= part.grid.min() < part.grid.max() <= 1.0


@pytest.mark.parametrize(
    ("model", "formula"),
    [("lssvm", "min w , b , e 1 2 w T w + γ 2 ∑ i e i 2"), ("l1", "+ ζ ‖ α ‖ 1"), ("robust", "∑ i v i e i 2")],
)
def test_the_mathematics_is_of_the_model(additive, model, formula):
    weight = Weights(zeta=0.5) if model == "l1" else Weights(gamma=2.0)
    text = report(fit_prepared(prepare(additive, Choices("y", model=model, weights=weight))), None)
    assert formula in Page(text).words
    assert "The model was not kept" in text
    for formula in re.findall(r"<math.*?</math>", text):
        ElementTree.fromstring(formula)
    assert text.count("<math") >= 4


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (RBF((1.0, 2.0)), "exp ( − ∑ l ( x l − z l ) 2 σ l 2 )"),
        (Laplacian((1.0, 2.0)), "exp ( − ∑ l | x l − z l | σ l )"),
        (RBF(1.0), "exp ( − ‖ x − z ‖ 2 σ 2 )"),
    ],
)
def test_a_kernel_has_one_width_or_one_for_every_input(kernel, formula):
    assert formula in Page(kernel_formula(kernel)).words


def test_classes_are_counted(additive):
    table = Table("t.csv", {**additive.columns, "y": tuple("ab"[float(y) > 2.0] for y in additive.columns["y"])})
    fit = fit_prepared(prepare(table, Choices("y")))
    words = Page(report(fit, None)).words
    assert "Held-out rows by their class (down) and the predicted one (across)" in words
    assert "+1 is b" in words
    assert measures(fit)[0][2] == fit.model.estimator.score(fit.X_val, fit.y_val)
    assert f"{100.0 * measures(fit)[0][2]:.3g} % right" in words


@pytest.mark.parametrize("model", first(1, ["lssvm", "structure"]))
@pytest.mark.parametrize(
    "hostile", first(2, ["a\n<script>alert(1)</script>", r"$\bad{ <script>$", "<script>alert(1)</script>"])
)
def test_names_from_the_table_cannot_become_tags_or_formulas(additive, hostile, model):
    columns = {hostile: additive.columns["first"], **additive.columns}
    columns["y " + hostile] = columns.pop("y")
    weights = Weights(gamma=1.0) if model == "lssvm" else Weights(rho=1.0)
    fit = fit_prepared(prepare(Table(hostile, columns), Choices("y " + hostile, model=model, weights=weights)))
    text = report(fit, f"{hostile}.npz")
    assert text.count("<script") == text.count("</script") == 0
    assert "&lt;script&gt;" in text
    assert "Not drawn" not in text
    Page(text)


def test_classes_cannot_become_tags_or_formulas(additive):
    names = (r"$\bad{$", "<b>")
    answer = tuple(names[float(y) > 2.0] for y in additive.columns["y"])
    columns = {"u": additive.columns["first"], "v": additive.columns["second"], "answer": answer}
    text = report(fit_prepared(prepare(Table("t.csv", columns), Choices("answer", weights=Weights(gamma=1.0)))), None)
    assert "&lt;b&gt;" in text
    assert "<b>" not in text


def test_warnings_are_on_the_page(additive):
    columns = {**additive.columns, "huge": tuple(str(1e5 * float(x)) for x in additive.columns["idle"])}
    choices = Choices("y", standardise=False, weights=Weights(gamma=1.0))
    fit = fit_prepared(prepare(Table("t.csv", columns), choices))
    assert len(fit.warnings) == 1
    assert "ScaleWarning" in Page(report(fit, None)).words


def test_without_matplotlib_the_page_says_how_to_get_it(additive, monkeypatch):
    fit = fit_prepared(prepare(additive, Choices("y", weights=Weights(gamma=1.0))))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = report(fit, None)
    assert "pip install &quot;lssvm-substrate[plot]&quot;" in text
    assert "<img" not in text


def test_the_same_fit_makes_the_same_page(motorcycle):
    fit, text = motorcycle
    assert report(fit, "model.npz") == text


FRAME = """<!DOCTYPE html><iframe src="report.html" style="width:{width}px;height:900px;border:0"></iframe>
<pre id="o"></pre>
<script>onload = () => {{
  const page = document.querySelector("iframe").contentDocument;
  const seen = (name, test) => [...page.querySelectorAll(name)].filter(test).length;
  document.getElementById("o").textContent = JSON.stringify({{
    scroll: page.documentElement.scrollWidth,
    wide: seen("body *", e => e.getBoundingClientRect().right > {width} + 1),
    images: seen("img", e => e.naturalWidth > 0 && e.getBoundingClientRect().height > 50),
    formulas: seen("math", e => e.getBoundingClientRect().height > 10 && e.getBoundingClientRect().width > 30),
  }});
}}</script>"""


@pytest.mark.parametrize("width", [1200, 390])
def test_a_browser_shows_figures_and_mathematics_without_complaint(tmp_path, structure, width):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser found ({', '.join(BROWSERS)})")
    _, text = structure
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    (tmp_path / "frame.html").write_text(FRAME.format(width=width), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--allow-file-access-from-files"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width + 40},1000", "--dump-dom"]
    address = (tmp_path / "frame.html").as_uri()
    done = subprocess.run([browser, *flags, address], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    seen = {key: int(value) for key, value in re.findall(r'"(\w+)":(\d+)', done.stdout)}
    assert seen["scroll"] <= width
    assert seen["wide"] == 0
    assert seen["images"] == text.count("<img ")
    assert seen["formulas"] == text.count("<math ")
