"""Rows that belong together are held out, and left out, together."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import LeaveOneGroupOut

from problems import LSSVMRegressor
from problems.command_line.main import main
from problems.tables import TabularClassifier, TabularRegressor
from problems.tables.dependent_rows import DependentRows, hold_out_last
from problems.tables.fit import Choices, bound_of, fit_prepared, prepare
from problems.tables.frames import frame_of
from problems.tables.models import Weights
from problems.tables.tabular_model import TabularModel
from substrate.errors import DataError, DeclarationError

N_GROUPS, SIZE = 12, 5


def rows(seed=0):
    """Groups with an error of their own each, and days in no order."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(N_GROUPS), SIZE)
    x = rng.normal(size=group.size)
    y = np.sin(x) + rng.normal(size=N_GROUPS)[group] + 0.1 * rng.normal(size=group.size)
    days = np.datetime64("2024-01-01") + rng.permutation(group.size)
    return {"x": x, "site": [f"s{k}" for k in group], "day": [str(day) for day in days], "y": y}


def table_of(columns, *left_out):
    return frame_of({name: values for name, values in columns.items() if name not in left_out}).table


def test_groups_are_held_out_whole_and_chosen_by_leaving_groups_out():
    columns = rows()
    ready = prepare(table_of(columns, "day"), Choices("y", kernel="rbf", group="site", sigma=1.0))
    labels = np.array(columns["site"])
    train, held = set(labels[ready.train]), set(labels[ready.validation_rows])
    assert len(held) == 3
    assert not train & held
    assert ready.preparation.features == ("x",)
    fit = fit_prepared(ready)
    bound = bound_of(fit)
    assert bound.by == "groups"
    kernel, gamma, errors = fit.model.estimator.kernel_, float(fit.model.estimator.gamma_), []
    for inside, outside in LeaveOneGroupOut().split(fit.X, fit.y, labels[ready.train]):
        refit = LSSVMRegressor(kernel, gamma).fit(fit.X[inside], fit.y[inside])
        errors.append(fit.y[outside] - refit.predict(fit.X[outside]))
    np.testing.assert_allclose(bound.error, np.mean(np.concatenate(errors) ** 2), rtol=1e-8)


def test_the_last_rows_in_time_are_held_out():
    columns = rows()
    choices = Choices("y", kernel="rbf", sigma=1.0, dates=["day"], split="time")
    ready = prepare(table_of(columns, "site"), choices)
    days = np.array(columns["day"])
    assert (days[ready.train] == np.sort(days)[:45]).all()
    assert (days[ready.validation_rows] == np.sort(days)[45:]).all()
    fit = fit_prepared(ready)
    assert all(train.max() < test.min() for train, test in fit.model.estimator.cv)
    assert bound_of(fit).by == "folds"
    assert fit.preparation.split.kind == "time"
    assert any(
        "the last in time, by day); earlier rows predict later ones to choose" in line for line in ready.description
    )
    ordered = prepare(table_of(columns, "site", "day"), Choices("y", split="time", weights=Weights(gamma=1.0)))
    np.testing.assert_array_equal(ordered.train, np.arange(45))
    assert not any("left out together" in line for line in ordered.description), "nothing is chosen"


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.5])
def test_equal_times_are_on_one_side(fraction):
    times = np.repeat(np.arange(6), 4)
    train, held = hold_out_last(times, fraction)
    assert not set(times[train]) & set(times[held])
    assert train.size + held.size == times.size
    assert train.size >= 2


@pytest.mark.parametrize("in_time", [False, True])
def test_folds_do_not_divide_what_belongs_together(in_time):
    groups = np.array(list("aabbbcccddeef"))
    for train, test in DependentRows(groups, in_time).folds(groups.size, "regression"):
        if in_time:
            assert train.max() < test.min()
            assert (np.diff(test) == 1).all()
        else:
            assert not set(groups[train]) & set(groups[test])


def test_classes_in_time_are_judged_by_folds_of_neighbours_that_hold_every_row_once():
    folds = DependentRows(None, True).folds(13, "classification")
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(13))


@pytest.mark.parametrize("model", ["lssvm", "sparse"])
def test_without_rows_held_out_groups_judge_each_other(model):
    columns = rows()
    choices = Choices("y", model=model, kernel="rbf", sigma=1.0, group="site", validation=0.0, n_basis=10)
    fit = fit_prepared(prepare(table_of(columns, "day"), choices))
    assert fit.quality.rows == "rows, left out in folds of whole groups"
    rmse = fit.quality.measures[0].value
    # an error that all rows of a group share is predicted by none of the others
    assert rmse > 0.8 * float(np.sqrt(fit.model.estimator.criterion_))
    single = fit_prepared(prepare(table_of(columns, "day", "site"), Choices("y", kernel="rbf", sigma=1.0)))
    assert single.preparation.split.group == ""


def test_a_frame_has_groups_by_name_or_as_labels():
    columns = rows()
    y = columns.pop("y")
    columns.pop("day")
    by_name = TabularRegressor(kernel="rbf", sigma=1.0).fit(columns, y, groups="site")
    site = columns.pop("site")
    by_label = TabularRegressor(kernel="rbf", sigma=1.0).fit(columns, y, groups=site)
    assert by_label.n_features_in_ == 1
    assert by_name.estimator_.gamma_ == by_label.estimator_.gamma_
    np.testing.assert_array_equal(by_name.predict({"x": [0.5]}), by_label.predict({"x": [0.5]}))
    assert "rows of one group depend on each other" in str(by_label.interval_guarantee(0.9))
    classes = TabularClassifier(kernel="rbf", sigma=1.0).fit(columns, np.where(y > 0.0, "up", "down"), groups=site)
    assert classes.estimator_.cv == "groups"
    with pytest.raises(DataError, match="groups must have one label for each of the 60 rows"):
        TabularRegressor().fit(columns, y, groups=site[:-1])
    with pytest.raises(DataError, match="no column 'nowhere'"):
        TabularRegressor().fit(columns, y, groups="nowhere")


def test_what_cannot_be_done_is_said():
    columns = rows()
    table = table_of(columns, "day")
    with pytest.raises(DataError, match="cannot be the target and a group"):
        prepare(table, Choices("y", group="y"))
    with pytest.raises(DataError, match="cannot be an input and a group"):
        prepare(table, Choices("y", group="site", one_hot=["site"]))
    with pytest.raises(DeclarationError, match="take --model lssvm"):
        prepare(table, Choices("y", group="site", model="robust"))
    with pytest.raises(DataError, match="at least 3 are needed"):
        prepare(table_of(columns | {"site": ["a"] * 30 + ["b"] * 30}, "day"), Choices("y", group="site"))
    with pytest.raises(DataError, match="belong to no group"):
        prepare(table_of(columns | {"site": ["", *columns["site"][1:]]}, "day"), Choices("y", group="site"))
    absent = columns | {"day": ["", *columns["day"][1:]]}
    with pytest.raises(DataError, match="cannot order the rows"):
        prepare(table_of(absent, "site"), Choices("y", dates=["day"], split="time", impute="median"))
    with pytest.raises(DataError, match="one row to train"):
        hold_out_last(np.array([0, 1, 1, 1]), 0.5)


def test_the_command_line_keeps_how_rows_were_divided(tmp_path, capsys):
    columns, path = rows(), tmp_path / "visits.csv"
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines))
    model = tmp_path / "model.npz"
    given = ["--target", "y", "--kernel", "rbf", "--sigma", "1", "--out", str(model), "--date", "day"]
    assert main(["fit", str(path), *given, "--group", "site", "--split", "time", "--no-refit"]) == 0
    printed = capsys.readouterr().out
    assert "15 held out to judge the model (the last in time, by day); earlier rows predict later ones" in printed
    assert "by cross-validation error" in printed
    split = TabularModel.load(model).preparation.split
    assert (split.kind, split.group, split.date) == ("time", "site", "day")
    assert main(["predict", str(model), str(path), "--coverage", "0.9", "--out", str(tmp_path / "p.csv")]) == 0
    assert "rows depend on those before them in time" in capsys.readouterr().err
    assert main(["fit", "@sunspots", "--series", "--split", "time"]) == 2
    assert "leave --split out" in capsys.readouterr().err


def _trend_and_weekday(seed, n=240):
    """Return days, weekdays as numbers, and a target with a trend and an effect of the weekday."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    y = 100.0 + 0.5 * t + np.array([0.0, 2.0, 4.0, 5.0, 8.0, -20.0, -25.0])[t % 7] + 4.0 * rng.normal(size=n)
    days = pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d")
    return pd.DataFrame({"day": days, "weekday": t % 7}), y


@pytest.mark.parametrize("seed", [0, 1])
def test_a_trend_goes_on_beyond_the_last_row(seed):
    X, y = _trend_and_weekday(seed)
    model = TabularRegressor(dates=["day"], split="time", max_evaluations=0).fit(X[:180], y[:180])
    errors = y[180:] - model.predict(X[180:])
    design = np.column_stack([np.ones(y.size), np.arange(y.size), X["weekday"]])
    line = y[180:] - design[180:] @ np.linalg.lstsq(design[:180], y[:180], rcond=None)[0]
    assert np.sqrt(np.mean(errors**2)) < 0.7 * np.sqrt(np.mean(line**2))


def test_what_is_worse_than_a_line_or_the_last_value_says_so_first(tmp_path, capsys):
    X, y = _trend_and_weekday(0)
    X.assign(y=y).to_csv(tmp_path / "trend.csv", index=False)
    given = ["--date", "day", "--split", "time", "--sigma", "0.3", "--gamma", "10"]
    assert main(["fit", str(tmp_path / "trend.csv"), "--target", "y", *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    (first,) = [line for line in lines if line.startswith("NOT GOOD: this model is worse than a straight line")]
    assert lines.index(first) < min(k for k, line in enumerate(lines) if line.startswith("on 60 held-out rows"))
    narrow = TabularRegressor(dates=["day"], split="time", sigma=0.3, gamma=10.0, validation_fraction=0.25)
    with pytest.warns(UserWarning, match="worse than a straight line"):
        narrow.fit(X, y)


def test_a_good_model_is_not_called_worse(tmp_path, capsys):
    X, y = _trend_and_weekday(0)
    X.assign(y=y).to_csv(tmp_path / "trend.csv", index=False)
    options = ["--date", "day", "--split", "time", "--evaluations", "0"]
    assert main(["fit", str(tmp_path / "trend.csv"), "--target", "y", *options]) == 0
    assert "NOT GOOD" not in capsys.readouterr().out
