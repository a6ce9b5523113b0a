"""A stack of machines for a table: what is refused, and every command with its model."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import NARXRegressor, StackedLSSVMClassifier, StackedLSSVMRegressor, load
from problems.command_line.importances import importance
from problems.command_line.main import main
from problems.command_line.report.pictures import COVERAGES, measure_coverage
from problems.command_line.summary import summary
from problems.tables import TabularRegressor
from problems.tables import fit as fitting
from problems.tables.effort import effort_of
from problems.tables.fit import Choices, fit_prepared, prepare, stack_errors
from problems.tables.intervals import interval_method
from problems.tables.models import Weights
from problems.tables.quality import quality_of
from problems.tables.table import Table
from problems.tables.tabular_model import TabularModel
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Laplacian

RNG = np.random.default_rng(12)
N = 44
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=N)
COLUMNS = {"u": X[:, 0], "v": X[:, 1], "site": np.arange(N) % 6, "y": Y, "label": np.where(Y > 0.0, "high", "low")}
STACK = {"model": "stack", "kernel": "families", "evaluations": 4}


def table_of(*names, n=N):
    return Table("t.csv", {name: tuple(map(str, COLUMNS[name][:n])) for name in names})


def numbers_of(text):
    return [float(number) for number in re.findall(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?", text)]


@pytest.fixture(scope="module")
def fit():
    return fit_prepared(prepare(table_of("u", "v", "y"), Choices("y", **STACK)))


@pytest.fixture(scope="module")
def classes():
    return fit_prepared(prepare(table_of("u", "v", "label"), Choices("label", **STACK)))


@pytest.fixture
def files(tmp_path):
    rows = zip(*(map(str, COLUMNS[name]) for name in ("u", "v", "y", "label")), strict=True)
    path = tmp_path / "t.csv"
    path.write_text("u,v,y,label\n" + "".join(",".join(row) + "\n" for row in rows))
    return path, tmp_path / "model.npz"


def test_a_stack_is_fitted_where_it_is_asked_for():
    table = table_of("u", "v", "site", "y")
    for given in ({}, {"kernel": "rbf"}, {"group": "site"}, {"split": "time"}, {"seconds": 1e6}):
        ready = prepare(table, Choices("y", **STACK | {"model": "auto"} | given))
        assert ready.choices.model == "lssvm", given
        assert not [line for line in ready.description if line.startswith("model:")]


def test_what_a_stack_cannot_do_is_refused_before_the_fit(monkeypatch):
    table = table_of("u", "v", "site", "y")
    for given, message in (
        ({"group": "site"}, "chooses by single rows left out; with --group or --split time take --model lssvm"),
        ({"split": "time"}, "take --model lssvm"),
        ({"seconds": 3.0}, "--seconds limits the search of one machine; take --model lssvm"),
        ({"weights": Weights(gamma=2.0)}, "chooses its own gamma; to give one, take --model lssvm"),
        ({"shapes": {"convex": ["u"]}}, "are for a regression by --model lssvm"),
    ):
        with pytest.raises(DeclarationError, match=message):
            prepare(table, Choices("y", **STACK | given))
    with pytest.raises(DeclarationError, match="at least three of them, and 2 train; take --model lssvm"):
        prepare(table_of("u", "v", "y", n=3), Choices("y", model="stack"))
    monkeypatch.setattr(fitting, "MOST_LEFT_OUT", N - 1)
    with pytest.raises(DeclarationError, match="at most 43 rows, and the table has 44; take --model lssvm, or sparse"):
        prepare(table, Choices("y", **STACK))


def test_the_fit_is_that_of_python_and_its_refit_holds_the_machines(fit):
    by_hand = StackedLSSVMRegressor(kernels="families").fit(fit.X, fit.y)
    stack, saved = fit.model.estimator, fit.saved.estimator
    assert_array_equal(stack.predict(fit.X_val), by_hand.predict(fit.X_val))
    used = [number for number, weight in enumerate(stack.stack_weights_) if weight > 0.0]
    assert saved.kernels == [stack.kernels_[number] for number in used]
    assert saved.support_.size == N
    assert saved.certificate_.holds
    assert fit.saved.preparation.refitted


def test_what_is_said_of_a_stack(fit, classes):
    for each, what in ((fit, "RMSE"), (classes, "root mean square error of the outputs")):
        stack = each.model.estimator
        lines = summary(each, True)
        (choice,) = [line for line in lines if line.startswith("choice:")]
        (proof,) = [line for line in lines if line.startswith("proof:")]
        u = np.reshape(stack.stack_weights_, (len(stack.kernels_), -1))[:, 0]
        count = int((u > 0.0).sum())
        assert choice.startswith(f"choice: a stack of {'one machine' if count == 1 else f'{count} machines'}, weights")
        assert f"{u.max():.2g} {type(stack.kernel_).__name__}" in choice
        assert f"a leave-one-out {what} below" in proof
        seen = stack_errors(stack)
        assert_allclose(numbers_of(proof)[-2:], [seen.lower_bound, seen.error], rtol=1e-4)
        assert seen.lower_bound <= seen.error
        assert_allclose(seen.lower_bound, seen.error, rtol=1e-6)
        assert seen.error == pytest.approx(np.sqrt(stack.criterion_))


def test_rows_are_left_out_where_none_are_held_out():
    for name, kind in (("y", StackedLSSVMRegressor), ("label", StackedLSSVMClassifier)):
        whole = fit_prepared(prepare(table_of("u", "v", name), Choices(name, **STACK | {"validation": 0.0})))
        stack = whole.model.estimator
        assert isinstance(stack, kind)
        assert whole.quality.rows == "rows, each left out in turn"
        assert whole.quality.caveat == "these rows also chose kernels and gammas"
        measured = {measure.name: measure.value for measure in whole.quality.measures}
        errors = stack._model.targets() - stack._model.leave_rows_out()
        assert_allclose(np.mean(errors**2), stack.criterion_, rtol=1e-9)
        if name == "y":
            assert_allclose(measured["RMSE"] ** 2, stack.criterion_, rtol=1e-9)
        else:
            right = np.sign(stack._model.leave_rows_out()) == stack._model.targets().round()
            assert measured["accuracy"] == pytest.approx(np.mean(right))


def test_intervals_of_a_report_are_not_by_the_rows_that_they_are_judged_by(fit):
    stack = fit.model.estimator
    assert interval_method(stack) == "split", "the rows held out have calibrated it"
    for place in (2, 8):
        low, high = stack.predict_interval(fit.X_val, COVERAGES[place], "jackknife+").T
        assert measure_coverage(fit)[place] == np.mean((low <= fit.y_val) & (fit.y_val <= high))


def test_importance_and_effort_count_the_machines(fit):
    assert importance(fit).importances_mean.shape == (2,)
    one, stack = (effort_of(Choices("y", **STACK | {"model": model}), 500, 3, 30.0) for model in ("lssvm", "stack"))
    assert stack.bytes >= one.bytes
    assert 1.0 < stack.seconds / one.seconds < 4.0
    judged = quality_of(fit.model.estimator, fit.choices, "regression", fit.X, fit.y, fit.X_val, fit.y_val)
    assert judged.measures == fit.quality.measures


@pytest.mark.parametrize("target", ["y", pytest.param("label", marks=pytest.mark.slow)])
def test_every_command_takes_the_model(files, tmp_path, target, capsys):
    table, model = files
    fitted = ["fit", str(table), "--target", target, "--drop", "label" if target == "y" else "y", "--evaluations", "2"]
    fitted += ["--model", "stack"]
    page, graph = tmp_path / "report.html", tmp_path / "model.onnx"
    assert main([*fitted, "--out", str(model), "--report", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "A stack of least-squares support vector machines was fitted" in text
    kind = StackedLSSVMRegressor if target == "y" else StackedLSSVMClassifier
    assert isinstance(TabularModel.load(model).estimator, kind)
    more = ["--adaptive"] if target == "y" else ["--proba"]
    for options in ([], more):
        capsys.readouterr()
        assert main(["predict", str(model), str(table), "--coverage", "0.8", *options]) == 0
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == N + 1
        method = "adaptive" if options else "nested"
        assert (f"method {method}" in err) if target == "y" else ("label sets" in err)
    assert main(["export", str(model), str(graph)]) == 0
    assert main([*fitted, "--no-refit", "--out", str(model), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["predict", str(model), str(table), "--coverage", "0.8"]) == 0
    assert target == "label" or "covers at least 0.8 of new rows" in capsys.readouterr().err


def test_the_estimator_of_tables_is_the_same():
    frame = {"u": X[:, 0], "v": X[:, 1]}
    model = TabularRegressor("stack", max_evaluations=4).fit(frame, Y)
    assert isinstance(model.estimator_, StackedLSSVMRegressor)
    ends = model.predict_interval(frame, 0.8)
    assert (ends[:, 0] < ends[:, 1]).all()
    guarantee = model.interval_guarantee(0.8)
    assert guarantee.method == "nested"
    assert guarantee.broken == ("the inputs were standardised by these rows",), "the choice of kernels is repeated"
    with pytest.raises(DeclarationError, match="model='stack' chooses by single rows left out"):
        TabularRegressor(model="stack", split="time").fit(frame, Y)


def test_a_stack_with_a_width_for_each_of_many_columns_is_saved(tmp_path):
    points = RNG.normal(size=(12, 1500))
    widths = tuple(np.linspace(1000.0, 3000.0, 1500).tolist())
    kernels = [Laplacian(widths), RBF(widths)]
    model = StackedLSSVMRegressor(kernels=kernels).fit(points, points[:, 0])
    assert max(len(text) for fact in model.certificate_.record for text in fact) > 10_000
    model.save(tmp_path / "model.npz")
    assert_array_equal(load(tmp_path / "model.npz").predict(points), model.predict(points))


@pytest.mark.parametrize("more", [[], ["--series"]], ids=["table", "series"])
def test_a_model_that_cannot_be_saved_takes_no_report_with_it(files, tmp_path, more, capsys, monkeypatch):
    def refuse(*given, **named):
        raise DataError("the disk is full")

    monkeypatch.setattr(TabularModel, "save", refuse)
    monkeypatch.setattr(NARXRegressor, "save", refuse)
    table, model = files
    page = tmp_path / "report.html"
    fitted = ["fit", str(table), "--target", "y", "--drop", "label", *(more or ["--kernel", "rbf"])]
    assert main([*fitted, "--out", str(model), "--report", str(page)]) == 2
    out, err = capsys.readouterr()
    assert "certificate: " in out
    assert "saved" not in out
    assert "the disk is full" in err
    assert "</html>" in page.read_text(encoding="utf-8")
