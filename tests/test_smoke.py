"""A short proof of life, run on every interpreter and on the lowest versions of the dependencies that are allowed.

Everything that is exported is imported and used once: each estimator is fitted, saved, loaded and certified, each
problem is declared and solved, and the command line goes from a table to predictions.
"""

import csv
import pkgutil
from importlib import import_module

import numpy as np
import pytest
from every_model import quick_kernel, small_arguments
from numpy.testing import assert_array_equal
from sklearn.base import is_classifier

import problems
import substrate
from problems.command_line.main import main
from problems.command_line.verify import problem_modules

pytestmark = pytest.mark.smoke

ESTIMATORS = [getattr(problems, name) for name in problems.ESTIMATORS]
MODULES = problem_modules()


@pytest.mark.parametrize("package", [substrate, problems], ids=lambda package: package.__name__)
def test_every_module_is_imported(package):
    names = [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    assert len(names) > 50
    for name in names:
        assert import_module(name).__doc__ or name.endswith("__main__")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_is_fitted_saved_and_loaded(estimator, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    signal = np.sin(2.0 * X[:, 0]) + X[:, 1]
    y = np.where(signal > np.median(signal), "up", "down") if is_classifier(estimator()) else signal
    chosen = {"kernel": quick_kernel(estimator), "random_state": 0}
    model = estimator(**{name: chosen[name] for name in chosen if name in estimator().get_params()}).fit(X, y)
    assert model.score(X, y) > 0.25  # an even machine has half of this signal
    assert model.certificate_.holds
    model.save(tmp_path / "model.npz")
    assert_array_equal(problems.load(tmp_path / "model.npz").predict(X), model.predict(X))


@pytest.mark.parametrize("name", MODULES)
def test_every_problem_is_declared_and_solved(name):
    module = MODULES[name]
    case = module.DEMONSTRATION.cases[0]
    declared = module.declare(**small_arguments(case, 20, seed=1), **case.choice)
    declared.solve()
    assert declared.certificate().holds


def test_from_a_table_to_predictions(tmp_path, capsys):
    table, model, out = tmp_path / "table.csv", tmp_path / "model.npz", tmp_path / "predictions.csv"
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2))
    with table.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["a", "b", "y"])
        noise = 0.1 * rng.normal(size=60)
        writer.writerows([*row, np.sin(row[0]) + row[1] + e] for row, e in zip(X.tolist(), noise, strict=True))
    assert main(["fit", str(table), "--target", "y", "--out", str(model), "--quiet"]) == 0
    assert main(["predict", str(model), str(table), "--drop", "y", "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 61
    assert capsys.readouterr().err == ""
