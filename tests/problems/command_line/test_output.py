"""What commands write: nothing but regular files is replaced, and a model that is written can be read."""

import json
import os
import zipfile

import numpy as np
import pytest
from rewritten_files import rewrite

import problems
import problems.tables.estimators
from problems.command_line.main import main
from problems.tables.machines import Search
from substrate.basis import Basis
from substrate.kernels import RBF

X = np.random.default_rng(0).normal(size=(30, 2))
Y = np.sin(X[:, 0]) + X[:, 1]


def write_table(path, rows=X, targets=Y):
    lines = [",".join(map(repr, map(float, line))) for line in np.column_stack([rows, targets])]
    path.write_text("\n".join(["a,b,y", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "rows.csv")


@pytest.fixture
def model(tmp_path, table):
    assert run("fit", table, "--target", "y", "--gamma", 2, "--sigma", 1, "--out", tmp_path / "m.npz", "--quiet") == 0
    return tmp_path / "m.npz"


def run(*arguments):
    return main([str(argument) for argument in arguments])


def never(*_, **__):
    raise AssertionError("work was done before the refusal")


# ---- the model file ------------------------------------------------------------------------------


def test_a_model_file_does_not_tell_where_it_was_made(tmp_path, table, model):
    with zipfile.ZipFile(model) as stored:
        preparation = json.loads(stored.read("header.json"))["content"]["fitted"]["preparation_"]
    assert preparation["fields"]["source"] == "rows.csv"
    assert os.fsencode(tmp_path) not in model.read_bytes()


def test_a_hostile_model_is_refused_by_predict(tmp_path, table, model, capsys):
    problems.LSSVMRegressor(RBF(1.0), basis=Basis(5, random_state=0)).fit(X, Y).save(model)
    rewrite(model, lambda header, arrays: header["content"]["parameters"].update(executor="tcp://127.0.0.1:1"))
    assert run("predict", model, table, "--drop", "y", "--out", tmp_path / "p.csv") == 2
    assert "'executor'" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_an_edited_model_is_refused(table, model, capsys):
    rewrite(model, lambda header, arrays: header["content"]["parameters"].update(gamma=3.0), digest=False)
    assert run("predict", model, table) == 2
    assert capsys.readouterr().err.count("changed after it was written") == 1


# ---- numbers that overflow -----------------------------------------------------------------------


@pytest.mark.parametrize("column", ["a", "b", "y"])
@pytest.mark.parametrize("options", [[], ["--no-standardize"], ["--model", "sparse"]], ids=["plain", "as is", "sparse"])
def test_a_cell_whose_square_is_infinite_is_named_at_the_fit(tmp_path, capsys, monkeypatch, column, options):
    monkeypatch.setattr(Search, "fit", never)
    spoilt = np.column_stack([X, Y])
    spoilt[3, "aby".index(column)] = 1e200
    table = write_table(tmp_path / "rows.csv", spoilt[:, :2], spoilt[:, 2])
    assert run("fit", table, "--target", "y", "--out", tmp_path / "m.npz", *options) == 2
    assert f"column '{column}' has 1e+200 in row 4, whose square is infinite; correct" in capsys.readouterr().err
    assert not (tmp_path / "m.npz").exists()
