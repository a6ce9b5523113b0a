"""A stack of machines for a table: what is refused, and every command with its model."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from problems import StackedLSSVMRegressor, TabularRegressor, load
from problems.command_line.main import main
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Laplacian

RNG = np.random.default_rng(12)
N = 44
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * RNG.normal(size=N)
COLUMNS = {"u": X[:, 0], "v": X[:, 1]}


def test_what_a_stack_cannot_do_is_refused_before_the_fit():
    for given, message in (
        ({"group": "site"}, "chooses by single rows left out; with a group or time take model='lssvm'"),
        ({"time": True}, "take model='lssvm'"),
        ({"gamma": 2.0}, "chooses gamma; to give one, take model='lssvm'"),
    ):
        with pytest.raises(DeclarationError, match=message):
            TabularRegressor("stack", **given).fit({**COLUMNS, "site": np.arange(N) % 6}, Y)


def test_the_fit_is_that_of_python_and_its_refit_holds_the_machines():
    model = TabularRegressor("stack", max_evaluations=4, validation=0.25).fit(COLUMNS, Y)
    judged, saved = model.judged_, model.estimator_
    by_hand = StackedLSSVMRegressor(kernels="families").fit(judged.X, judged.y)
    stack = judged.machine
    assert_array_equal(stack.predict(judged.X_val), by_hand.predict(judged.X_val))
    used = [number for number, weight in enumerate(stack.stack_weights_) if weight > 0.0]
    assert saved.kernels == [stack.estimators_[number].kernel_ for number in used]
    assert saved.support_.size == N
    assert saved.certificate_.holds
    assert model.preparation_.refitted


def test_without_rows_held_out_folds_judge():
    model = TabularRegressor("stack", max_evaluations=0).fit(COLUMNS, Y)
    assert model.quality_.rows == "rows, left out in folds"
    assert model.quality_.caveat == "these rows also chose the kernel and gamma"
    guarantee = model.interval_guarantee(0.8)
    assert guarantee.method == "nested"
    assert guarantee.broken == ("the inputs were standardised by these rows",), "the choice of kernels is repeated"


def test_every_command_takes_the_model(tmp_path, capsys):
    table, model, page = tmp_path / "t.csv", tmp_path / "model.npz", tmp_path / "report.html"
    table.write_text("u,v,y\n" + "".join(",".join(map(repr, row)) + "\n" for row in np.column_stack([X, Y]).tolist()))
    fitted = ["fit", str(table), "--target", "y", "--max-evaluations", "2", "--model", "stack"]
    assert main([*fitted, "--out", str(model), "--report", str(page)]) == 0
    assert "model: a stack, weights by leave-one-out error: " in capsys.readouterr().out
    assert "Model: a stack, weights by leave-one-out error: " in page.read_text(encoding="utf-8")
    assert isinstance(load(model).estimator_, StackedLSSVMRegressor)
    for options, method in (([], "nested"), (["--adaptive"], "adaptive")):
        assert main(["predict", str(model), str(table), "--coverage", "0.8", *options]) == 0
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == N + 1
        assert f"method {method}" in err
    assert main(["export", str(model), str(tmp_path / "model.onnx")]) == 0


def test_a_stack_with_a_width_for_each_of_many_columns_is_saved(tmp_path):
    points = RNG.normal(size=(12, 1500))
    widths = tuple(np.linspace(1000.0, 3000.0, 1500).tolist())
    kernels = [Laplacian(widths), RBF(widths)]
    model = StackedLSSVMRegressor(kernels=kernels).fit(points, points[:, 0])
    assert max(len(text) for fact in model.certificate_.record for text in fact) > 10_000
    model.save(tmp_path / "model.npz")
    assert_array_equal(load(tmp_path / "model.npz").predict(points), model.predict(points))


def test_a_model_that_cannot_be_saved_takes_no_report_with_it(tmp_path, capsys, monkeypatch):
    def refuse(*given, **named):
        raise OSError("the disk is full")

    monkeypatch.setattr(TabularRegressor, "save", refuse)
    model, page = tmp_path / "model.npz", tmp_path / "report.html"
    assert main(["fit", "@motorcycle", "--kernel", "rbf", "--out", str(model), "--report", str(page)]) == 2
    out, err = capsys.readouterr()
    assert "model: kernel RBF" in out
    assert "saved" not in out
    assert "the disk is full" in err
    assert "</html>" in page.read_text(encoding="utf-8")
