"""What the terminal says: how good first, in measures that are recomputed here, then choice, proof and certificate."""

import csv
import io
import re
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score

import problems
from problems.command_line.main import main
from problems.command_line.summary import _short, describe_file, said, summary
from problems.tables import fit as fitting
from problems.tables.effort import Effort, effort_of
from problems.tables.fit import Choices, fit_prepared, prepare
from problems.tables.models import Weights
from problems.tables.quality import quality_of
from problems.tables.table import Table
from substrate.certificates import Certificate, Row
from substrate.kernels import RBF

RNG = np.random.default_rng(4)
X = RNG.normal(size=(80, 3))
Y = np.sin(X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=80)
SPLIT = np.digitize(X[:, 0] + 0.5 * RNG.normal(size=80), [-0.4, 0.9])
GIVEN = Weights(gamma=3.0)


def table_of(y, n=80):
    cells = {f"x{k}": tuple(map(str, X[:n, k])) for k in range(3)}
    return Table("t.csv", {**cells, "y": tuple(map(str, y))})


def values(quality):
    return {one.name: (one.value, one.baseline) for one in quality.measures}


def test_numbers_are_judged_by_the_rows_held_out():
    fit = fit_prepared(prepare(table_of(Y), Choices("y", weights=GIVEN)))
    errors = fit.y_val - fit.model.estimator.predict(fit.X_val)
    found = values(fit.quality)
    mean = np.full(fit.y_val.size, fit.y.mean())
    assert found["RMSE"] == pytest.approx((np.sqrt(np.mean(errors**2)), np.sqrt(np.mean((fit.y_val - mean) ** 2))))
    assert found["MAE"] == pytest.approx((np.mean(np.abs(errors)), np.mean(np.abs(fit.y_val - mean))))
    assert found["R squared"] == pytest.approx((r2_score(fit.y_val, fit.y_val - errors), r2_score(fit.y_val, mean)))
    assert (fit.quality.rows, fit.quality.n_rows) == ("held-out rows", 20)


def test_without_rows_held_out_every_row_is_left_out_in_turn():
    fit = fit_prepared(prepare(table_of(Y), Choices("y", weights=GIVEN, validation=0.0)))
    left = fit.model.estimator.leave_one_out()
    found = values(fit.quality)
    assert found["RMSE"][0] == pytest.approx(np.sqrt(np.mean(left.residuals**2)))
    others = [np.delete(Y, k).mean() for k in range(80)]
    assert found["MAE"][1] == pytest.approx(np.mean(np.abs(Y - others)))
    assert fit.quality.rows == "rows, each left out in turn"
    assert fit.saved is fit.model
    sparse = fit_prepared(prepare(table_of(Y), Choices("y", model="sparse", weights=GIVEN, validation=0.0, n_basis=20)))
    again = sparse.model.estimator.leave_one_out(sparse.X, sparse.y)
    assert values(sparse.quality)["RMSE"][0] == pytest.approx(np.sqrt(np.mean(again.residuals**2)))
    few = fit_prepared(prepare(table_of(Y), Choices("y", model="l1", weights=Weights(zeta=0.5), validation=0.0)))
    assert few.quality.rows == "training rows"
    assert "new rows are worse" in few.quality.caveat


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_judged_by_accuracy_its_mean_over_classes_and_auc(classes):
    labels = np.minimum(SPLIT, classes - 1)
    fit = fit_prepared(prepare(table_of(labels), Choices("y", task="classification", weights=GIVEN)))
    model, found = fit.model.estimator, values(fit.quality)
    predicted, outputs = model.predict(fit.X_val), model.decision_function(fit.X_val)
    usual = np.bincount(fit.y).argmax()
    assert found["accuracy"] == pytest.approx((np.mean(predicted == fit.y_val), np.mean(fit.y_val == usual)))
    assert found["balanced accuracy"] == pytest.approx((balanced_accuracy_score(fit.y_val, predicted), 1.0 / classes))
    auc = (
        roc_auc_score(fit.y_val, outputs)
        if classes == 2
        else np.mean([roc_auc_score(fit.y_val == k, outputs[:, k]) for k in range(3)])
    )
    assert found["AUC"] == (pytest.approx(auc), 0.5)
    assert fit.quality.confusion.counts.sum() == fit.y_val.size
    assert np.trace(fit.quality.confusion.counts) == np.sum(predicted == fit.y_val)


def test_a_class_without_a_training_row_is_counted_as_missed():
    labels = [*(["x"] * 6), "z", "q"]
    seeds = (fit_prepared(prepare(table_of(labels, 8), Choices("y", weights=GIVEN, seed=seed))) for seed in range(20))
    fit = next(one for one in seeds if set(one.y_val) - set(one.y))
    assert fit.quality.confusion.classes == ("q", "x", "z")
    assert values(fit.quality)["balanced accuracy"][0] == pytest.approx(
        np.mean([np.mean(fit.model.estimator.predict(fit.X_val)[fit.y_val == k] == k) for k in set(fit.y_val)])
    )
    assert values(fit.quality)["balanced accuracy"][0] < 1.0


def test_what_cannot_be_measured_is_a_dash_and_no_warning():
    fit = fit_prepared(prepare(table_of(Y), Choices("y", weights=GIVEN)))
    same = np.zeros(fit.y_val.size)
    flat = quality_of(fit.model.estimator, fit.choices, "regression", fit.X, fit.y, fit.X_val, same)
    assert np.isnan(values(flat)["R squared"][0])
    classes = fit_prepared(prepare(table_of(SPLIT > 0), Choices("y", weights=GIVEN)))
    alone = np.full(classes.y_val.size, "True")
    known = (classes.model.estimator, classes.choices, "classification", classes.X, classes.y, classes.X_val, alone)
    assert np.isnan(values(quality_of(*known))["AUC"][0])


def test_the_lines_come_in_order_and_the_long_table_by_verbose():
    fit = fit_prepared(prepare(table_of(X[:, 0] ** 2 + Y), Choices("y")))
    lines = summary(fit, verbose=False)
    begin = [line.partition(":")[0] for line in lines if ":" in line]
    assert begin == ["inputs that matter", "choice", "tried", "proof", "certificate"]
    assert lines[1].split() == ["on", "20", "held-out", "rows", "this", "model", "always", "the", "mean"]
    assert [line.split()[0] for line in lines[2:5]] == ["RMSE", "MAE", "R"]
    bound = fitting.bound_of(fit)
    assert f"below {np.sqrt(bound.lower_bound):.5g}; this one has {np.sqrt(bound.error):.5g}" in "\n".join(lines)
    assert "tried: 4 kernels (RBF)" in lines
    assert not any("fit equalities" in line for line in lines)
    long = "\n".join(summary(fit, verbose=True))
    assert long.count("fit equalities") == 2, "of the model that is saved, and of the one that chose"
    assert long.count("gamma ") > 4
    assert max(map(len, lines[:5])) <= 80


def test_families_are_searched_within_a_budget_and_what_was_tried_is_said():
    ready = prepare(table_of(Y[:40], 40), Choices("y", kernel="families", evaluations=4))
    fit = fit_prepared(ready)
    by_hand = problems.LSSVMRegressorCV(kernels="families", search="gradient", max_evaluations=4, random_state=0)
    by_hand.fit(fit.X, fit.y)
    found = fit.model.estimator
    assert (found.kernel_, found.gamma_) == (by_hand.kernel_, by_hand.gamma_)
    assert fit.saved.estimator.kernel_ == found.kernel_
    (line,) = [line for line in summary(fit, verbose=False) if line.startswith("tried")]
    judged = len(found.cv_results_["params"])
    assert judged > 5, "every family and what the search ended with"
    families = "Linear, RBF, Laplacian, Matern 1.5, Matern 2.5"
    assert re.match(rf"tried: {families}, along slopes \({judged} evaluated, \d+ more tried on the way\)", line)
    without = fit_prepared(prepare(table_of(Y[:40], 40), Choices("y", kernel="families", evaluations=0)))
    assert len(without.model.estimator.cv_results_["params"]) == 21
    assert "along slopes" not in "\n".join(summary(without, verbose=False))


def test_seconds_limit_what_is_tried_and_are_recorded(monkeypatch):
    monkeypatch.setattr(fitting, "fit_model", lambda *_: None)
    ticks = iter(range(1000))
    monkeypatch.setattr(fitting.time, "perf_counter", lambda: float(next(ticks)))  # one kernel takes one second
    table, choices = table_of(Y[:40], 40), Choices("y", kernel="families")
    for seconds, kernel, evaluations, words in (
        (5.0, "rbf", 0, "kernels: the time for 5 of them (--seconds 5), so rbf at a few widths"),
        (30.0, "families", 6, "kernels: 21, then 6 evaluations of 40, for which there is time (--seconds 30)"),
        (1e6, "families", None, None),
    ):
        ready = prepare(table, replace(choices, seconds=seconds))
        assert (ready.choices.kernel, ready.choices.evaluations) == (kernel, evaluations)
        assert words is None or words in ready.preparation.remarks
        assert words is None or words in ready.description


def test_where_only_the_second_certificate_fails_the_first_model_is_kept(monkeypatch):
    failing = Certificate("Broken", (Row("broken row", 1.0, 1.0, 1e-9, "1 - 0"),))
    true = fitting.refit_model

    def broken(*arguments):
        made = true(*arguments)
        made.certificate_ = failing
        return made

    monkeypatch.setattr(fitting, "refit_model", broken)
    fit = fit_prepared(prepare(table_of(Y), Choices("y", weights=GIVEN)))
    assert fit.saved is fit.model
    assert not fit.saved.preparation.refitted
    (line,) = [line for line in describe_file(fit, "m.npz") if line.startswith("saved")]
    assert line.endswith("60 training rows, since the certificate of the one fitted again to all rows does not hold")


def test_a_bar_counts_the_kernels_of_a_basis_and_fits_the_terminal(monkeypatch):
    drawn = io.StringIO()
    monkeypatch.setattr(drawn, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", drawn)
    monkeypatch.setenv("COLUMNS", "50")
    kernels = [RBF(1.0), RBF((1.23456789012345, 2.0, 3.0))]
    problems.SparseLSSVMRegressorCV(kernels=kernels, basis=10, verbose=1).fit(X, Y)
    lines = drawn.getvalue().split("\r\x1b[K")
    assert [line for line in lines if line] == [
        f"[{'.' * 30}] 0/2 RBF(sigma=1.0)"[:49],
        f"[{'#' * 15}{'.' * 15}] 1/2 RBF(sigma=(1.23456789012345, 2.0, 3.0))"[:49],
    ]


def test_inputs_that_matter_are_those_that_do():
    fit = fit_prepared(prepare(table_of(Y), Choices("y", weights=GIVEN)))
    (line,) = [line for line in summary(fit, verbose=False) if line.startswith("inputs")]
    assert re.match(r"inputs that matter: x1 \(\d+%\), x0 \(\d+%\)", line)
    idle = fit_prepared(prepare(table_of(RNG.normal(size=80)), Choices("y", weights=Weights(gamma=1e-6))))
    assert "none is seen to" in "\n".join(summary(idle, verbose=False))


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (RBF(sigma=1.23456789), "RBF(sigma=1.235)"),
        (RBF(sigma=(1.23456789, 2.0, 3.0)), "RBF(sigma=(1.235, 2, 3))"),
        (RBF(sigma=(1.23456789, 2.0, 3.0, 1e-20)), "RBF(sigma=<4 widths, 1e-20 to 3>)"),
    ],
)
def test_kernels_are_printed_short(kernel, text):
    assert _short(repr(kernel)) == text


def test_a_table_of_confusion_has_a_row_for_every_class():
    fit = fit_prepared(prepare(table_of(SPLIT), Choices("y", task="classification", weights=GIVEN)))
    text = "\n".join(summary(fit, verbose=False))
    assert "rows of class  predicted 0  predicted 1  predicted 2" in text
    assert describe_file(fit, None)[0].startswith("not saved: give --out model.npz")
    assert "choice: gamma 3, as given; kernel RBF(sigma=" in text


def test_a_terminal_has_wrapped_lines_and_a_pipe_whole_ones(monkeypatch):
    line = "proof: " + "word " * 40
    assert said([line]) == line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    wrapped = said([line, "short"]).splitlines()
    assert max(map(len, wrapped)) <= 80
    assert all(one.startswith("    word") for one in wrapped[1:-1])


def test_quiet_says_nothing_and_nothing_need_be_kept(tmp_path, capsys):
    assert main(["fit", "@ripley", "--gamma", "1", "--sigma", "1", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["fit", "@ripley", "--gamma", "1", "--sigma", "1"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    assert out.startswith("task: classification")


def test_unequal_classes_are_said():
    rare = (np.arange(80) % 10 == 0).astype(int)
    assert any("unequal: --class-weight balanced" in line for line in prepare(table_of(rare), Choices("y")).description)
    even = prepare(table_of(np.arange(80) % 2), Choices("y")).description
    assert "classes: 0 (40 rows), 1 (40 rows)" in even


def test_many_rows_are_fitted_on_a_basis_and_the_estimate_is_said_before(monkeypatch):
    monkeypatch.setattr(fitting, "MOST_DENSE", 50)
    monkeypatch.setattr(fitting, "_LONG", 0.0)
    ready = prepare(table_of(Y), Choices("y", model="auto", n_basis=7))
    assert ready.choices.model == "sparse"
    text = "\n".join(ready.description)
    assert "model: sparse, on 7 basis vectors, since more than 50 rows train" in text
    assert "--model lssvm for all rows takes about" in text
    assert f"estimate: {ready.effort}" in text
    assert prepare(table_of(Y[:40], 40), Choices("y", model="auto")).choices.model == "lssvm"
    assert prepare(table_of(Y), Choices("y", model="lssvm")).choices.model == "lssvm"


def test_the_estimate_grows_as_the_work_does():
    dense, sparse = Choices("y"), Choices("y", model="sparse", n_basis=300)
    assert effort_of(dense, 20_000, 8, 4).bytes > 8 * 20_000**2
    assert effort_of(sparse, 20_000, 8, 4).bytes < 2**28
    assert effort_of(dense, 20_000, 8, 4).seconds > 20 * effort_of(sparse, 20_000, 8, 4).seconds
    assert str(Effort(30.0, 2.0**20)) == "about 30 s and 1 MB of memory"
    assert str(Effort(600.0, 3.0 * 2**30)) == "about 10 min and 3.0 GB of memory"
    assert str(Effort(9000.0, 0.0)) == "about 2.5 h and 1 MB of memory"


def test_predictions_of_a_class_with_an_id_are_a_table(tmp_path, capsys):
    path = tmp_path / "t.csv"
    lines = [f"row {k},{X[k, 0]},{SPLIT[k] > 0}" for k in range(80)]
    path.write_text("\n".join(["key,x0,y", *lines]) + "\n", encoding="utf-8")
    out = str(tmp_path / "m.npz")
    assert main(["fit", str(path), "--target", "y", "--id", "key", "--gamma", "1", "--out", out, "--quiet"]) == 0
    assert main(["predict", out, str(path), "--proba"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(rows[0]) == ["key", "prediction", "decision", "probability_False", "probability_True"]


def test_a_category_without_effect_does_not_matter(tmp_path, capsys):
    a = np.arange(40)
    pd.DataFrame({"a": a, "b": np.where(a % 2, "y", "x"), "y": np.sqrt(a)}).to_csv(tmp_path / "t.csv", index=False)
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("inputs that matter")]
    assert re.match(r"inputs that matter: a \((9\d|100)%\)", line)
    assert "b=" not in line


def test_a_category_with_an_effect_is_one_line(tmp_path, capsys):
    rng = np.random.default_rng(0)
    levels, x = rng.choice(["u", "v", "w"], size=60), rng.normal(size=60)
    y = np.select([levels == "u", levels == "v"], [0.0, 5.0], 10.0) + x
    pd.DataFrame({"level": levels, "x": x, "y": y}).to_csv(tmp_path / "t.csv", index=False)
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y", "--evaluations", "0"]) == 0
    assert re.search(r"inputs that matter: level \(\d+%\), x \(\d+%\) \(share", capsys.readouterr().out)


def test_a_table_without_noise_is_good_and_the_command_says_so(tmp_path, capsys):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 120))
    pd.DataFrame({"a": a, "b": b, "y": np.sin(a) + b**2}).to_csv(tmp_path / "t.csv", index=False)
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y", "--report", str(tmp_path / "r.html")]) == 0
    out, err = capsys.readouterr()
    assert "DOES NOT HOLD" not in out
    assert "does not hold" not in err
    assert re.search(r"R squared +1\.000", out)
    assert "not proved to be the best" in out
