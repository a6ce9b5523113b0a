"""Rows that belong together are held out, and left out, together."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import LeaveOneGroupOut

from problems import LSSVMRegressor, TabularClassifier, TabularRegressor, load
from problems.command_line.main import main
from problems.tables.machines import Search, divide
from substrate.errors import DataError, DeclarationError

N_GROUPS, SIZE = 12, 5
RBF = {"kernel": "rbf", "sigma": 1.0}


def rows(seed=0):
    """Groups with a common error each, and days in no order."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(N_GROUPS), SIZE)
    x = rng.normal(size=group.size)
    y = np.sin(x) + rng.normal(size=N_GROUPS)[group] + 0.1 * rng.normal(size=group.size)
    days = np.datetime64("2024-01-01") + rng.permutation(group.size)
    return {"x": x, "site": [f"s{k}" for k in group], "day": [str(day) for day in days], "y": y}


def without(*names):
    return {name: values for name, values in rows().items() if name not in names}


@pytest.mark.filterwarnings("ignore:this model is worse")
def test_groups_are_held_out_whole_and_chosen_by_leaving_groups_out():
    model = TabularRegressor(group="site", validation=0.25, **RBF).fit(without("day"), "y")
    judged, labels = model.judged_, np.array(rows()["site"])
    assert judged.search.criterion == "groups"
    assert model.preparation_.features == ("x",)
    train = np.array([np.flatnonzero(rows()["y"] == value)[0] for value in judged.y])
    held = np.setdiff1d(np.arange(labels.size), train)
    assert not set(labels[train]) & set(labels[held])
    assert len(set(labels[held])) == 3
    kernel, gamma, errors = judged.machine.kernel_, float(judged.machine.gamma_), []
    for inside, outside in LeaveOneGroupOut().split(judged.X, judged.y, labels[train]):
        refit = LSSVMRegressor(kernel, gamma).fit(judged.X[inside], judged.y[inside])
        errors.append(judged.y[outside] - refit.predict(judged.X[outside]))
    np.testing.assert_allclose(judged.machine.criterion_, np.mean(np.concatenate(errors) ** 2), rtol=1e-8)
    assert "rows of one site depend on each other" in str(model.interval_guarantee(0.9))


@pytest.mark.filterwarnings("ignore:this model is worse")
def test_the_last_rows_in_time_are_held_out():
    columns = without("site")
    model = TabularRegressor(time="day", validation=0.25, **RBF).fit(columns, "y")
    judged, order = model.judged_, np.argsort(columns["day"])
    np.testing.assert_array_equal(judged.y, columns["y"][order[:45]])
    np.testing.assert_array_equal(judged.y_val, columns["y"][order[45:]])
    assert all(train.max() < test.min() for train, test in judged.machine.cv)
    assert judged.search.criterion == "folds"
    assert any("the last in time, by day); earlier rows predict later ones" in line for line in model.remarks_)
    ordered = TabularRegressor(time=True, validation=0.25, gamma=1.0, **RBF).fit(without("site", "day"), "y")
    np.testing.assert_array_equal(ordered.judged_.y, columns["y"][:45])
    assert not any("predict later ones" in line for line in ordered.remarks_), "nothing is chosen"


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_equal_times_are_on_one_side(share):
    times = np.repeat(np.arange(6), 4)
    train, held = divide(24, share, 0, times=times)
    assert not set(times[train]) & set(times[held])
    assert train.size + held.size == times.size
    assert train.size >= 2


@pytest.mark.parametrize("in_time", [False, True])
def test_folds_do_not_divide_what_belongs_together(in_time):
    groups = np.array(list("aabbbcccddeef"))
    for train, test in Search("regression", groups=groups, in_time=in_time).folds(groups.size):
        if in_time:
            assert train.max() < test.min()
            assert (np.diff(test) == 1).all()
        else:
            assert not set(groups[train]) & set(groups[test])


def test_classes_in_time_are_judged_by_folds_of_neighbours_that_hold_every_row_once():
    folds = Search("classification", in_time=True).folds(13)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(13))
    columns = without("site", "y")
    model = TabularClassifier(time="day", **RBF).fit(columns, np.where(columns["x"] > 0.0, "up", "down"))
    assert (model.estimator_.cv, model.estimator_.reach) == ("blocks", 4)


@pytest.mark.parametrize("model", ["lssvm", "sparse"])
def test_without_rows_held_out_groups_judge_each_other(model):
    fitted = TabularRegressor(model, group="site", n_basis=10, **RBF).fit(without("day"), "y")
    assert fitted.quality_.rows == "rows, left out in folds"
    # an error that all rows of a group share is predicted by none of the others
    assert fitted.quality_.measures[0].value > 0.8 * float(np.sqrt(fitted.judged_.machine.criterion_))


def test_what_cannot_be_done_is_said():
    columns = without("day")

    def refuse(error, message, columns, **parameters):
        with pytest.raises(error, match=message):
            TabularRegressor(**parameters).fit(columns, "y")

    refuse(DataError, "cannot be the target and a group", columns, group="y")
    refuse(DataError, "cannot be an input and a group", columns, group="site", categories=["site"])
    refuse(DataError, "no column 'nowhere'", columns, group="nowhere")
    refuse(DeclarationError, "take model='lssvm'", columns, group="site", model="stack")
    two = columns | {"site": ["a"] * 30 + ["b"] * 30}
    refuse(DataError, "at least 3 are needed", two, group="site", validation=0.25)
    refuse(DataError, "belong to no group", columns | {"site": ["", *columns["site"][1:]]}, group="site")
    absent = without("site") | {"day": ["", *rows()["day"][1:]]}
    refuse(DataError, "cannot order the rows", absent, time="day", impute="median")
    refuse(DataError, "does not hold dates in one clear format", columns, time="site")
    with pytest.raises(DataError, match="one row to train"):
        divide(4, 0.5, 0, times=np.array([0, 1, 1, 1]))


def test_the_command_line_keeps_how_rows_were_divided(tmp_path, capsys):
    columns, path, model = rows(), tmp_path / "visits.csv", tmp_path / "model.npz"
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines))
    given = ["--target", "y", "--kernel", "rbf", "--sigma", "1", "--out", str(model), "--time", "day"]
    assert main(["fit", str(path), *given, "--group", "site", "--no-refit"]) == 0
    printed = capsys.readouterr().out
    assert "15 held out to test the model (the last in time, by day); earlier rows predict later ones" in printed
    assert "by cross-validation error" in printed
    loaded = load(model)
    assert (loaded.time, loaded.group) == ("day", "site")
    assert main(["predict", str(model), str(path), "--coverage", "0.9", "--out", str(tmp_path / "p.csv")]) == 0
    assert "rows depend on earlier rows" in capsys.readouterr().err


def _trend_and_weekday(seed, n=240):
    """Return days, weekdays as numbers, and a target with a trend and an effect of the weekday."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    y = 100.0 + 0.5 * t + np.array([0.0, 2.0, 4.0, 5.0, 8.0, -20.0, -25.0])[t % 7] + 4.0 * rng.normal(size=n)
    days = pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d")
    return pd.DataFrame({"day": days, "weekday": t % 7}), y


def test_a_trend_goes_on_beyond_the_last_row():
    X, y = _trend_and_weekday(0)
    model = TabularRegressor(time="day", max_evaluations=0).fit(X[:180], y[:180])
    errors = y[180:] - model.predict(X[180:])
    design = np.column_stack([np.ones(y.size), np.arange(y.size), X["weekday"]])
    line = y[180:] - design[180:] @ np.linalg.lstsq(design[:180], y[:180], rcond=None)[0]
    assert np.sqrt(np.mean(errors**2)) < 0.7 * np.sqrt(np.mean(line**2))
