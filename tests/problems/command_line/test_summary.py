"""What the terminal says: at most fifteen lines, how good first, in measures that are recomputed here."""

import re

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score

from problems import TabularClassifier, TabularRegressor
from problems.command_line.main import main
from problems.command_line.summary import summary
from substrate.certificate import Certificate, Row

RNG = np.random.default_rng(4)
X = RNG.normal(size=(80, 3))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=80)
SPLIT = np.digitize(X[:, 0] + 0.5 * RNG.normal(size=80), [-0.4, 0.9])
COLUMNS = {f"x{k}": X[:, k] for k in range(3)}
GIVEN = {"kernel": "rbf", "gamma": 3.0, "validation": 0.25}


def values(quality):
    return {measure.name: (measure.value, measure.baseline) for measure in quality.measures}


def test_numbers_are_judged_by_the_rows_held_out():
    judged = TabularRegressor(**GIVEN).fit(COLUMNS, Y).judged_
    errors = judged.y_val - judged.machine.predict(judged.X_val)
    found, mean = values(judged.quality), np.full(judged.y_val.size, judged.y.mean())
    assert found["RMSE"] == pytest.approx((np.sqrt(np.mean(errors**2)), np.sqrt(np.mean((judged.y_val - mean) ** 2))))
    assert found["MAE"] == pytest.approx((np.mean(np.abs(errors)), np.mean(np.abs(judged.y_val - mean))))
    expected = (r2_score(judged.y_val, judged.y_val - errors), r2_score(judged.y_val, mean))
    assert found["R squared"] == pytest.approx(expected)
    assert (judged.quality.rows, judged.quality.n_rows) == ("held-out rows", 20)


@pytest.mark.parametrize("model", ["lssvm", "sparse"])
def test_without_rows_held_out_every_row_is_left_out_in_turn(model):
    fitted = TabularRegressor(model, **GIVEN | {"validation": 0.0, "n_basis": 20}).fit(COLUMNS, Y)
    judged, machine = fitted.judged_, fitted.judged_.machine
    left = machine.leave_one_out(judged.X, judged.y) if model == "sparse" else machine.leave_one_out()
    found = values(judged.quality)
    assert found["RMSE"][0] == pytest.approx(np.sqrt(np.mean(left.residuals**2)))
    assert found["MAE"][1] == pytest.approx(np.mean(np.abs(Y - [np.delete(Y, k).mean() for k in range(80)])))
    assert judged.quality.rows == "rows, each left out in turn"
    assert fitted.estimator_ is machine


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_judged_by_accuracy_its_mean_over_classes_and_auc(classes):
    judged = TabularClassifier(**GIVEN).fit(COLUMNS, np.minimum(SPLIT, classes - 1)).judged_
    y, found = judged.y_val, values(judged.quality)
    predicted, outputs = judged.machine.predict(judged.X_val), judged.machine.decision_function(judged.X_val)
    usual = np.bincount(judged.y).argmax()
    assert found["accuracy"] == pytest.approx((np.mean(predicted == y), np.mean(y == usual)))
    assert found["balanced accuracy"] == pytest.approx((balanced_accuracy_score(y, predicted), 1.0 / classes))
    auc = [roc_auc_score(y == k, outputs[:, k]) for k in range(3)] if classes == 3 else [roc_auc_score(y, outputs)]
    assert found["AUC"] == (pytest.approx(np.mean(auc)), 0.5)
    assert np.trace(judged.quality.counts) == np.sum(predicted == y)


def test_at_most_fifteen_lines_and_the_rest_by_verbose():
    columns = {**COLUMNS, "idle": [""] * 80, "town": RNG.choice(["a", "b"], 80), "name": [f"n{k}" for k in range(80)]}
    model = TabularRegressor(validation=0.25, max_evaluations=0, id=["name"]).fit(columns, Y)
    lines = summary(model, "task: regression", None)
    assert len(lines) <= 14, "and one more for the file"
    assert any(re.match(r"and \d more remarks on the table", line) for line in lines)
    (head,) = [line for line in lines if line.startswith("on 20 held-out rows")]
    assert head.split()[-5:] == ["this", "model", "always", "the", "mean"]
    (choice,) = [line for line in lines if line.startswith("model: kernel")]
    assert "by leave-one-out error, of 21 kernels" in choice
    assert not any("backward error" in line for line in lines)
    long = "\n".join(summary(model, "task: regression", None, verbose=True))
    assert long.count("backward error") == 2, "of the machine that is saved, and of the one that chose"
    assert "left out: idle, which is empty" in long


def test_where_only_the_second_certificate_fails_the_first_machine_is_kept(monkeypatch, tmp_path, capsys):
    from problems.tables.machines import Search

    refit = Search.refit

    def broken(self, *arguments):
        made = refit(self, *arguments)
        made.certificate_ = Certificate("Broken", (Row("broken row", 1.0, 1.0, 1e-9, "1 - 0"),))
        return made

    monkeypatch.setattr(Search, "refit", broken)
    model = TabularRegressor(**GIVEN).fit(COLUMNS, Y)
    assert model.estimator_ is model.judged_.machine
    assert not model.preparation_.refitted
    given = ["--gamma", "3", "--sigma", "1", "--kernel", "rbf", "--out", str(tmp_path / "m.npz")]
    assert main(["fit", "@motorcycle", *given]) == 0
    assert "since the certificate of the one fitted again to all rows does not hold" in capsys.readouterr().out


def test_a_category_is_one_input_that_matters_or_does_not(tmp_path, capsys):
    levels, x = RNG.choice(["u", "v", "w"], size=60), RNG.normal(size=60)
    y = np.select([levels == "u", levels == "v"], [0.0, 5.0], 10.0) + x
    lines = [f"{a},{b!r},{c!r}" for a, b, c in zip(levels, x.tolist(), y.tolist(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["level,x,y", *lines]))
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y", "--max-evaluations", "0"]) == 0
    shares = re.search(r"inputs that matter: level \((\d+)%\), x \((\d+)%\) \(share", capsys.readouterr().out)
    assert sum(map(int, shares.groups())) in (99, 100, 101)


def test_an_interrupt_is_one_line_and_status_130(monkeypatch, capsys, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(TabularRegressor, "fit", interrupted)
    assert main(["fit", "@motorcycle", "--out", str(tmp_path / "m.npz")]) == 130
    assert "substrate: interrupted; every file is as before, or complete" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_noise_is_called_no_good_first(tmp_path, capsys):
    path, said = tmp_path / "noise.csv", []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        np.savetxt(path, rng.normal(size=(60, 3)), delimiter=",", header="a,b,y", comments="")
        main(["fit", str(path), "--target", "y"])
        first, *others = capsys.readouterr().out.splitlines()
        row = next(line for line in others if line.strip().startswith("RMSE"))
        model, mean = map(float, row.split()[1:])
        said.append(first.startswith("NOT GOOD: this model is "))
        assert model == mean or said[-1] == (model > mean)
    assert any(said)
