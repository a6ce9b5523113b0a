"""Tables as they are: each decision about columns and rows is said, kept in the model file, and repeated by predict."""

import csv
import io

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from treated_tables import treated

import problems
from problems import load
from problems.command_line.main import main
from problems.tables.columns import dates_of
from problems.tables.table import Table, read_table
from substrate.errors import DataError
from substrate.kernels import RBF

RNG = np.random.default_rng(0)
U, V = RNG.normal(size=(2, 40)).round(3)
Y = (2.0 * U - V + 0.1 * RNG.normal(size=40)).round(3)
NAMES = tuple(f"car {k}" for k in range(40))
TOWNS = tuple(np.array(["Ghent", "Leuven", "Bruges"])[np.arange(40) % 3])
FIT = ["--gamma", "2", "--sigma", "2"]


def texts(values):
    return tuple(map(str, values))


def table_of(**columns):
    return Table("t.csv", {name: texts(cells) for name, cells in columns.items()})


def write(path, separator=",", **columns):
    rows = zip(*(texts(cells) for cells in columns.values()), strict=True)
    lines = [separator.join(columns), *(separator.join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(*words):
    return main([str(word) for word in words])


def predicted(capsys, *words):
    assert run("predict", *words) == 0
    out, err = capsys.readouterr()
    return list(csv.DictReader(io.StringIO(out))), err


def test_the_index_of_pandas_and_names_and_empty_columns_are_left_out_and_said():
    found = treated(
        table_of(**{"Unnamed: 0": range(40), "u": U, "name": NAMES, "note": [""] * 40, "town": TOWNS, "y": Y}),
        "y",
    )
    assert [one.name for one in found.inputs] == ["u", "town"]
    said = " / ".join(found.remarks)
    assert "left out: Unnamed: 0, which numbers the rows (the index of a pandas frame)" in said
    assert "left out: name, a text with 40 values in 40 rows, a name rather than a category" in said
    assert "left out: note, which is empty" in said
    assert "one-hot: town (3 categories), one 0-1 input per category" in said


def test_a_column_that_could_be_two_things_is_refused_with_the_option_that_decides():
    dates = [f"2020-01-{1 + k % 28:02d}" for k in range(40)]
    many = [f"c{k % 19}" for k in range(40)]
    typed = [*U[:-1], "abc"]
    for cells, message in (
        (
            dates,
            r"column 'u' of t.csv holds dates \(row 1 has '2020-01-01'\); use them by --dates u, or leave it out by",
        ),
        ([f"{1 + k % 9}/2/2020" for k in range(40)], "holds dates"),
        ([f"1,{k}" for k in range(40)], r"has decimal commas \(row 1 has '1,0'\); give --decimal ,"),
        (
            typed,
            r"is not numeric \(row 40 has 'abc'\); correct that cell, or empty it, code the column by --categories u",
        ),
    ):
        with pytest.raises(DataError, match=message):
            treated(table_of(u=cells, y=Y), "y")
    long = {"u": [f"c{k % 60}" for k in range(400)], "y": np.arange(400.0)}
    with pytest.raises(
        DataError, match="a text with 60 values, each of which would be an input; code them by --categories u"
    ):
        treated(table_of(**long), "y")
    assert len(treated(table_of(**long), "y", categories=["u"]).inputs[0].categories) == 60
    assert len(treated(table_of(u=many, y=Y), "y").inputs[0].categories) == 19


@pytest.mark.parametrize(
    ("cells", "task", "words"),
    [
        ([0, 1] * 20, "classification", r"has two values (--task regression for numbers)"),
        (["0", "0.0", "1", "1.0"] * 10, "classification", "has two values"),
        ([1.5] * 40, "regression", "numeric"),
        ([1, 2, 3, 4] * 10, "regression", "it has 4 values; if they are classes, --task classification"),
        (Y, "regression", "since the target y is numeric"),
        (["a", "b"] * 20, "classification", "is not numeric"),
    ],
)
def test_the_task_follows_from_the_target_and_is_said(cells, task, words):
    found = treated(table_of(u=U, y=cells))
    assert found.task == task
    assert words in found.remarks[0]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([*Y[:-1], "abc"], r"neither numeric \(row 40 has 'abc'\) nor a few classes .*; correct the cell"),
        (NAMES, "neither numeric .* nor a few classes .40 values in 40 rows.; .*--task classification"),
        ([f"{k},5" for k in range(40)], "for numbers with a decimal comma give --decimal ,"),
    ],
)
def test_a_target_that_is_neither_is_refused(cells, message):
    with pytest.raises(DataError, match=message):
        treated(table_of(u=U, y=cells))


def test_rows_without_a_target_are_left_out_and_counted_and_rows_keep_their_numbers():
    cells = ["", *Y[1:39], "NA"]
    found = treated(table_of(u=U, y=cells), "y")
    assert found.table.rows == list(range(1, 39))
    assert "left out: 2 rows without a target (rows 1, 40)" in found.remarks
    np.testing.assert_array_equal(found.y, Y[1:39])
    with pytest.raises(DataError, match=r"column 'u' of t\.csv has no value in row 6; give --impute median"):
        treated(table_of(u=[*U[:5], "?", *U[6:]], y=cells), "y")
    with pytest.raises(DataError, match=r"'y' of t\.csv has no value in any row"):
        treated(table_of(u=U, y=[""] * 40), "y")


@pytest.mark.parametrize(
    ("cells", "name"),
    [
        (["2020-01-31", "2020-02-01T12:00"], "iso"),
        (["31.1.2020", "1.2.2020"], "day.month.year"),
        (["31/1/2020", "1/2/2020"], "day/month/year"),
        (["1/31/2020", "2/1/2020"], "month/day/year"),
        (["1/2/2020", "2/1/2020"], None),
        (["20200131"], None),
        (["2020-01-31", "soon"], None),
        ([], None),
    ],
)
def test_dates_are_known_by_one_clear_format(cells, name):
    found = dates_of(cells)
    assert (found and found[0]) == name


def test_dates_are_days_since_the_first_and_predict_counts_from_there(tmp_path, capsys):
    days = [f"{1 + k % 28}.{1 + k // 28}.2021" for k in range(40)]
    path, out = write(tmp_path / "t.csv", when=days, u=U, y=Y), tmp_path / "m.npz"
    assert run("fit", path, "--target", "y", "--dates", "when", *FIT, "--no-standardize", "--out", out) == 0
    assert "date: when, as days since 2021-01-01 (dates written day.month.year)" in capsys.readouterr().out
    days_since = [k % 28 + 31 * (k // 28) for k in range(40)]
    expected = problems.LSSVMRegressor(RBF(2.0), 2.0).fit(np.column_stack([days_since, U]), Y)
    new = write(tmp_path / "new.csv", u=[0.5], when=["31.12.2020"])
    (row,), _ = predicted(capsys, out, new)
    assert float(row["prediction"]) == pytest.approx(expected.predict([[-1.0, 0.5]])[0], abs=1e-4)
    assert run("predict", out, write(tmp_path / "bad.csv", u=[0.5], when=["2020-12-31"])) == 2
    assert "'when' of" in (said := capsys.readouterr().err)
    assert "must hold dates (01.01.2021): row 1 ('2020-12-31')" in said


def test_medians_of_the_training_rows_fill_cells_and_are_used_again(tmp_path, capsys):
    u, town = [*U[:3], "", *U[4:]], [*TOWNS[:7], "NA", *TOWNS[8:]]
    path, out = write(tmp_path / "t.csv", u=u, town=town, v=V, y=Y), tmp_path / "m.npz"
    line = ["fit", path, "--target", "y", *FIT, "--out", out]
    assert run(*line) == 2
    said = capsys.readouterr().err
    assert "have no value in some rows: 'u' (row 4), 'town' (row 8); give --impute median" in said
    assert "(--drop u town)" in said
    assert run(*line, "--impute", "median", "--verbose") == 0
    said = capsys.readouterr().out
    preparation = load(out).preparation_
    train, _ = train_test_split(np.arange(40), test_size=0.25, random_state=0)
    values = {name: [cells[k] for k in train] for name, cells in (("u", u), ("town", town), ("v", V))}
    fills = [
        np.median([x for x in values["u"] if x != ""]),
        "(missing)",
        np.median(values["v"]),
    ]
    assert [one.fill for one in preparation.inputs] == fills
    assert f"imputed: u, 1 of 40 cells, by the median {fills[0]:.6g} of the training rows" in said
    assert "imputed: town, 1 of 40 cells, by the separate category (missing)" in said
    assert preparation.inputs[1].categories == tuple(sorted({*TOWNS, "(missing)"}))
    assert "imputed: v" not in said
    some = {"u": [1.0, 1.0], "town": ["Ghent", "Ghent"], "v": ["?", fills[2]]}
    (filled, given), err = predicted(capsys, out, write(tmp_path / "new.csv", **some))
    assert filled == given
    assert err == f"substrate: imputed: v, 1 of 2 cells, by the median {fills[2]:.6g} of the training rows\n"


def test_a_category_that_training_did_not_see_is_refused_or_ignored(tmp_path, capsys):
    path, out = write(tmp_path / "t.csv", town=TOWNS, v=V, y=Y), tmp_path / "m.npz"
    assert run("fit", path, "--target", "y", *FIT, "--out", out, "--quiet", "--impute", "median") == 0
    new = write(tmp_path / "new.csv", town=["Ostend", "Ghent", ""], v=V[:3])
    assert run("predict", out, new) == 2
    assert "give --unknown ignore to predict such rows" in capsys.readouterr().err
    rows, err = predicted(capsys, out, new, "--unknown", "ignore")
    model = load(out)
    X = model.set_params(unknown="ignore").matrix(read_table(new))
    count = len(model.preparation_.inputs[0].categories)
    np.testing.assert_array_equal(X[0, :count], 0.0)
    assert [float(row["prediction"]) for row in rows] == pytest.approx(model.estimator_.predict(X).tolist(), abs=1e-4)
    assert "unknown: town, 1 of 3 cells ('Ostend' in row 1), as none of its categories" in err
    usual = model.preparation_.inputs[0].fill  # no training row lacks a town
    assert f"imputed: town, 1 of 3 cells, by the most frequent category {usual!r} of the training rows" in err


def test_ids_are_no_inputs_and_come_first_in_the_predictions(tmp_path, capsys):
    path, out = write(tmp_path / "t.csv", name=NAMES, u=U, y=Y), tmp_path / "m.npz"
    assert run("fit", path, "--target", "y", "--id", "name", *FIT, "--out", out) == 0
    assert "id: name, not an input, written next to the predictions" in capsys.readouterr().out
    rows, _ = predicted(capsys, out, path)
    assert list(rows[0]) == ["name", "prediction"]
    assert tuple(row["name"] for row in rows) == NAMES
    lacking = write(tmp_path / "new.csv", u=U, label=NAMES)
    assert run("predict", out, lacking) == 2
    assert "no column 'name', which names the rows of this model's tables; give --id" in capsys.readouterr().err
    assert list(predicted(capsys, out, lacking, "--id", "label")[0][0]) == ["label", "prediction"]
    assert list(predicted(capsys, out, lacking, "--id")[0][0]) == ["prediction"]
    assert run("predict", out, write(tmp_path / "p.csv", u=[1], prediction=["a"]), "--id", "prediction") == 2
    assert "'prediction' has the name of a column of predictions" in capsys.readouterr().err
