"""A page that moves: its numbers are those of the model at every stop, in Python and in a browser."""

import base64
import json
import re
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

import problems
from problems.command_line.explore import moving_document
from problems.command_line.report.machine_paths import path_of
from problems.command_line.report.map_page import map_data, map_page
from problems.command_line.report.moving import encode_numbers, moving
from problems.command_line.report.moving_page import moving_section, script, script_policy
from problems.command_line.report.subject import Subject
from substrate.errors import DataError, DeclarationError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
NAMES = {"gamma": "LSSVMRegressor", "zeta": "L1SubstrateRegressor", "rho": "MaximalVariationRegressor"}


def rows(n=36, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, 1e3 + 5.0 * (np.sin(2.0 * X[:, 0]) + 0.3 * X.sum(axis=1)) + 0.5 * rng.normal(size=n)


def subject_of(model, X, y, held, names=None, **changed):
    d = X.shape[1]
    names = tuple(f"x{k + 1}" for k in range(d)) if names is None else names
    known = {"center": np.arange(d) + 1.0, "scale": 2.0 * np.ones(d), "coded": np.zeros(d, dtype=bool)} | changed
    return Subject(model, X[~held], y[~held], X[held], y[held], names, "y", **known)


@pytest.fixture(scope="module")
def subjects():
    X, y = rows()
    held = np.arange(y.size) % 4 == 0
    inside, outside = (X[~held], y[~held]), (X[held], y[held])
    models = {
        "gamma": problems.LSSVMRegressorCV().fit(*inside),
        "zeta": problems.FusedL1SubstrateRegressor().fit(*inside, *outside),
        "rho": problems.FusedMaximalVariationRegressor().fit(*inside, *outside),
    }
    return {name: subject_of(model, X, y, held) for name, model in models.items()}


@pytest.fixture(scope="module")
def pages(subjects):
    return {name: moving(subject) for name, subject in subjects.items()}


def refit(subject, weight, value):
    made = getattr(problems, NAMES[weight])(subject.estimator.kernel_, **{weight: value})
    return made.fit(subject.X, subject.y)


def decoded(text):
    return np.frombuffer(base64.b64decode(text), dtype="<f8")


def on_the_page(data, stop):
    """The quantities at a stop by the numbers of the page alone, as its script computes them."""
    p, state = decoded(data["stops"])[stop], data["state"]
    if "eigenvalues" in state:
        s = 1.0 / (decoded(state["eigenvalues"]) + 1.0 / p)
    else:
        knots = decoded(state["knots"])
        table = decoded(state["rows"]).reshape(knots.size, state["width"])
        s = np.array([np.interp(p, knots, column) for column in table.T])
    found = {}
    for name, one in data["vectors"].items():
        if "take" in one:
            found[name] = np.array([0.0 if k < 0 else s[k] for k in one["take"]])
        else:
            found[name] = decoded(one["offset"]) + decoded(one["matrix"]).reshape(-1, s.size) @ s
    return found


def data_of(text):
    (found,) = re.findall(r'<script type="application/json" id="numbers">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


@pytest.mark.parametrize("weight", ["gamma", "zeta", "rho"])
def test_the_path_is_the_model_fitted_again_at_every_stop(subjects, pages, weight):
    subject, page = subjects[weight], pages[weight]
    spread = np.ptp(subject.y)
    assert page.stops[page.start] == page.path.chosen
    assert np.all(np.diff(page.stops) > 0.0)
    curves = {one.name: one.values for one in page.curves}
    apart = np.flatnonzero(np.diff(page.stops) > 1e-6 * page.stops[-1])  # nearer ones: rounding decides the piece
    for stop in apart[np.linspace(1, apart.size - 2, 5).astype(int)]:
        model = refit(subject, weight, page.stops[stop])
        held = model.predict(subject.X_val)
        np.testing.assert_allclose(page.at("held", stop), held, rtol=0.0, atol=1e-9 * spread)
        error = np.sqrt(np.mean((held - subject.y_val) ** 2))
        assert curves["RMSE, held-out rows"][stop] == pytest.approx(error, rel=1e-8)
        error = np.sqrt(np.mean((model.predict(subject.X) - subject.y) ** 2))
        assert curves["RMSE, training rows"][stop] == pytest.approx(error, rel=1e-7)
        assert curves["R², held-out rows"][stop] == pytest.approx(model.score(subject.X_val, subject.y_val), abs=1e-8)
        if weight == "gamma":
            left_out = model.leave_one_out()
            error = np.sqrt(np.mean(left_out.residuals**2))
            assert curves["RMSE, each row left out"][stop] == pytest.approx(error, rel=1e-8)
            assert curves["degrees of freedom"][stop] == pytest.approx(left_out.degrees_of_freedom, rel=1e-8)
            np.testing.assert_allclose(
                page.at("alpha", stop), model.support_values_, rtol=0.0, atol=1e-9 * np.abs(model.support_values_).max()
            )
        if weight == "zeta":
            assert abs(curves["support vectors"][stop] - model.support_.size) <= 1  # rounding decides at a knot
        if weight == "rho":
            parts = model.component_functions(subject.X)[:, list(page.inputs)]
            for k in range(len(page.inputs)):
                np.testing.assert_allclose(page.at(f"part{k}", stop), parts[:, k], rtol=0.0, atol=1e-8 * spread)


@pytest.mark.parametrize("weight", ["zeta", "rho"])
def test_multipliers_act_only_where_their_inequality_is_tight(pages, weight):
    page = pages[weight]
    (products,) = [one.values for one in page.curves if one.name == "largest |multiplier × slack|"]
    cost = float(np.sum((page.path.y - page.path.y.mean()) ** 2))
    assert products.max() <= 1e-9 * cost
    for stop in range(0, page.stops.size, 40):
        if weight == "zeta":
            assert np.abs(page.at("c", stop)).max() <= page.stops[stop] * (1.0 + 1e-6)
            assert abs(page.at("a", stop).sum()) <= 1e-9 * np.abs(page.at("a", stop)).sum()
        else:
            sizes = [np.abs(page.at(f"xi{k}", stop)).sum() for k in range(len(page.inputs))]
            np.testing.assert_allclose(sizes, page.stops[stop], rtol=1e-9)


@pytest.mark.parametrize("weight", ["gamma", "zeta", "rho"])
def test_the_numbers_of_the_page_are_all_that_it_needs(subjects, pages, weight):
    data = data_of(moving_section(pages[weight], subjects[weight]))
    for stop in (0, pages[weight].start, pages[weight].stops.size - 1):
        found = on_the_page(data, stop)
        assert found.keys() == pages[weight].vectors.keys()
        for name, values in found.items():
            exact = pages[weight].at(name, stop)
            np.testing.assert_allclose(values, exact, rtol=0.0, atol=1e-11 * (np.abs(exact).max() + 1.0))


@pytest.mark.parametrize(("weight", "largest"), [("gamma", 30_000), ("rho", 100_000)])
def test_a_page_that_would_be_too_large_draws_fewer_rows_and_says_so(subjects, pages, weight, largest):
    full, few = pages[weight], moving(subjects[weight], largest)
    assert few.size() <= largest < full.size()
    assert "are drawn; the errors are those of all rows" in few.notes[0]
    assert not full.notes
    for one, other in zip(full.curves, few.curves, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    found = on_the_page(data_of(moving_section(few, subjects[weight])), few.start)
    np.testing.assert_allclose(found["held"], few.at("held", few.start), rtol=1e-12)


def test_the_bound_is_below_its_curve_everywhere(pages):
    for weight, rule in (("gamma", "each row left out"), ("zeta", "held-out rows"), ("rho", "held-out rows")):
        ((name, bound),) = pages[weight].lines
        assert name == f"lower bound, {rule}"
        (curve,) = [one.values for one in pages[weight].curves if one.name == f"RMSE, {rule}"]
        assert 0.0 < bound <= curve.min() * (1.0 + 1e-9)
        assert curve[pages[weight].start] == pytest.approx(bound, rel=1e-2)


@pytest.mark.parametrize("labels", [("no", "yes"), ("a", "b", "c")])
def test_classes_move_by_their_decision_value(labels):
    X, y = rows()
    y = np.array(labels)[np.digitize(y, np.quantile(y, np.arange(1, len(labels)) / len(labels)))]
    held = np.arange(y.size) % 4 == 0
    model = problems.LSSVMClassifier(gamma=2.0).fit(X[~held], y[~held])
    subject = subject_of(model, X, y, held)
    page = moving(subject)
    value = model.decision_function(X[held])
    expected = value if value.ndim == 1 else value[:, 0]
    np.testing.assert_allclose(page.at("held", page.start), expected, atol=1e-10)
    if len(labels) == 2:
        (wrong,) = [one.values for one in page.curves if one.name.startswith("wrong side of zero, held-out")]
        assert wrong[page.start] == pytest.approx(1.0 - model.score(X[held], y[held]))
    else:
        assert "the first is shown; +1 is a." in page.notes[-1]
        assert page.lines == ()


def test_of_several_outputs_the_first_is_shown():
    X, y = rows(n=12)
    Y, held = np.column_stack([y, -y]), np.arange(12) >= 10
    page = moving(subject_of(problems.LSSVMRegressor(gamma=2.0).fit(X[~held], Y[~held]), X, Y, held))
    model = problems.LSSVMRegressor(gamma=2.0).fit(X[~held], y[~held])
    np.testing.assert_allclose(page.at("held", page.start), model.predict(X[held]), atol=1e-9)
    assert page.notes == ("The first of several outputs is shown.",)


def test_the_x_axis_has_inputs_that_are_numbers_and_vary_in_their_own_units():
    X, y = rows(n=14, d=3)
    X[:, 1] = 4.0
    X = np.column_stack([X, np.arange(14) % 2])
    held = np.arange(14) >= 12
    model = problems.LSSVMRegressor(gamma=2.0).fit(X[~held], y[~held])
    page = moving(subject_of(model, X, y, held, coded=np.array([False, False, False, True])))
    assert page.inputs == (0, 2)
    assert page.constants["grid1"][[0, -1]].tolist() == [2.0 * X[:12, 2].min() + 3.0, 2.0 * X[:12, 2].max() + 3.0]
    middle = np.median(X[:12], axis=0)
    middle[2] = X[:12, 2].min()
    assert page.at("curve1", page.start)[0] == pytest.approx(model.predict(middle[None])[0], abs=1e-9)


def test_three_rows_and_constant_targets_have_a_page():
    X = np.array([[0.0], [1.0], [3.0]])
    for y in (np.array([1.0, 2.0, 0.0]), np.full(3, 1e8)):
        none = np.zeros(3, dtype=bool)
        page = moving(subject_of(problems.LSSVMRegressor(gamma=1.0).fit(X, y), X, y, none))
        assert np.isfinite(page.at("curve0", 0)).all()
        assert "held" not in page.vectors


def test_names_cannot_become_tags(subjects):
    hostile = "</script><b>&amp;"
    X, y = rows(n=12)
    model = problems.LSSVMRegressor(gamma=1.0).fit(X, y)
    subject = subject_of(model, X, y, np.zeros(12, dtype=bool), names=(hostile, "x2"))
    text = moving_document(hostile, subject)
    assert "<b>" not in text
    assert text.count("</script>") == 2
    assert data_of(text)["inputs"] == [hostile, "x2"]


def test_numbers_are_finite_and_lose_nothing():
    values = np.array([0.1, -1e300, 5e-324])
    assert np.array_equal(decoded(encode_numbers(values)), values)
    with pytest.raises(DataError, match="numbers that are not finite"):
        encode_numbers([1.0, np.nan])


def test_the_script_is_short_plain_and_named_by_its_digest():
    assert len(script().splitlines()) <= 300
    for forbidden in ("innerHTML", "eval(", "fetch(", "XMLHttpRequest", "import ", "toLocaleString", "</"):
        assert forbidden not in script()
    assert script_policy().startswith("script-src 'sha256-")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (problems.RobustLSSVMRegressor(), "a RobustLSSVMRegressor has no path in closed form"),
        (problems.L1SubstrateRegressor(zeta=0.5, ridge=0.1), "has a ridge beside zeta"),
        (problems.MaximalVariationRegressor(rho=0.5, refit=True), "refits its components"),
        (problems.LSSVMRegressor(gamma=1.0), "have weights, which an interactive page does not support"),
    ],
)
def test_a_model_without_a_path_says_so(model, message):
    X, y = rows(n=14)
    model.fit(X, y, **({"sample_weight": np.arange(14) + 1.0} if "weights" in message else {}))
    with pytest.raises(DeclarationError, match=message):
        path_of(model, X, y)


def test_a_map_goes_from_the_worst_machine_to_the_best():
    values, errors = np.array([[1.0, 0.0], [2.0, 3.0], [4.0, 5.0]]), np.array([0.5, 0.25, 1.0])
    data, notes = map_data(("rho_1", "<b>"), values, errors, 0.2)
    assert decoded(data["curves"][0]["values"]).tolist() == [1.0, 0.5, 0.25]
    assert data["texts"] == ["rho_1 = 4, <b> = 5", "rho_1 = 1, <b> = 0", "rho_1 = 2, <b> = 3"]
    assert decoded(data["constants"]["w1"]).tolist() == [5.0, 0.1, 3.0]
    assert notes == ("A weight of zero is drawn at 0.1.",)
    many, said = map_data("ab", np.ones((2000, 2)), np.arange(2000.0), -np.inf)
    assert decoded(many["curves"][0]["values"])[[0, -1]].tolist() == [1999.0, 0.0]
    assert "1500 of 2000 machines" in said[0]


@pytest.mark.slow
def test_a_map_is_that_of_the_estimator():
    X, y = rows(n=24)
    groups = {"one": [0], "two": [1]}
    model = problems.FusedMaximalVariationRegressor(groups=groups, gap=0.1, random_state=0).fit(X, y)
    text = map_page("two", model)
    data = data_of(text)
    errors = decoded(data["curves"][0]["values"])
    assert np.all(np.diff(errors) <= 0.0)
    assert errors[data["start"]] == pytest.approx(model.criterion_)
    assert data["texts"][-1] == f"one = {model.rho_['one']:.4g}, two = {model.rho_['two']:.4g}"
    assert data["sign"] == "machine"
    with pytest.raises(DeclarationError, match="two or three weights chosen together"):
        map_page("one", problems.LSSVMRegressor().fit(X, y))


ASKED = """<pre id="answer"></pre><script>
const asked = %s, found = [];
for (const stop of asked) {
  substrate.move(stop);
  found.push(Object.fromEntries(%s.map((name) => [name, Array.from(substrate.vector(name))])));
}
document.getElementById("weight").dispatchEvent(new Event("input"));
document.getElementById("answer").textContent = JSON.stringify(found);
</script>"""


def in_a_browser(tmp_path, text):
    """The page as a browser leaves it, after it has run its script without complaint."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser found ({', '.join(BROWSERS)})")
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--no-first-run"]
    flags += ["--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    address = (tmp_path / "page.html").as_uri()
    done = subprocess.run([browser, *flags, address], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("weight", ["gamma", "zeta", "rho"])
def test_a_browser_computes_the_numbers_of_the_model(tmp_path, subjects, pages, weight):
    subject, page = subjects[weight], pages[weight]
    stops = np.linspace(0, page.stops.size - 1, 10).astype(int).tolist()
    names = list(page.vectors)
    text = moving_document("moves", subject)
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)  # the question is a script too
    text = text.replace("</body>", ASKED % (json.dumps(stops), json.dumps(names)) + "</body>")
    found_page = in_a_browser(tmp_path, text)
    (answer,) = re.findall(r'<pre id="answer">(.*?)</pre>', found_page, re.DOTALL)
    spread = np.ptp(subject.y)
    for stop, found in zip(stops, json.loads(answer), strict=True):
        for name in names:
            exact = page.at(name, stop)
            scale = (
                spread if name in ("held", "train") or name[:4] in ("curv", "part") else np.abs(exact).max() + 1e-300
            )
            assert np.abs(np.array(found[name]) - exact).max() <= 1e-9 * scale
        if page.stops[stop] > 0.0:
            model = refit(subject, weight, page.stops[stop])
            assert np.abs(np.array(found["held"]) - model.predict(subject.X_val)).max() <= 1e-9 * spread


@pytest.mark.slow
def test_a_browser_draws_the_map_of_two_weights(tmp_path):
    values = np.array([[1.0, 0.0], [2.0, 3.0], [4.0, 5.0]])
    errors = np.array([0.5, 0.25, 1.0])
    path = SimpleNamespace(parameters=("rho_1", "rho_2"), values=values, validation_errors=errors)
    fusion = SimpleNamespace(path=path, lower_bound=0.2, validation_error=0.25)
    page = in_a_browser(tmp_path, map_page("two", fusion))
    assert '<output id="weight-value" for="weight">rho_1 = 2, rho_2 = 3, the best</output>' in page
    assert 'aria-valuetext="rho_1 = 2, rho_2 = 3"' in page
    assert '<div id="moving">' in page
    assert page.count("<circle") == 3
    assert '<td class="number">0.25</td>' in page


@pytest.mark.slow
def test_without_a_script_the_still_pictures_are_there(tmp_path, subjects, pages):
    text = moving_section(pages["gamma"], subjects["gamma"], "<figure>still</figure>")
    page = in_a_browser(tmp_path, text.replace(script(), ""))
    assert '<div id="moving" hidden="">' in page
    assert '<div id="still"><figure>still</figure></div>' in page
    page = in_a_browser(tmp_path, text)
    assert '<div id="still" hidden=""><figure>still</figure></div>' in page
