"""Kernels of many rows are searched on some of them, and the best judged on all."""

import numpy as np
import pytest

from problems.command_line.importances import importance
from problems.command_line.summary import summary
from problems.tables import models
from problems.tables.fit import Choices, fit_prepared, prepare
from problems.tables.frames import frame_of


@pytest.fixture
def few_rows_are_many(monkeypatch):
    monkeypatch.setitem(models.MOST_SEARCHED, "sparse", 50)
    monkeypatch.setattr(models, "SCREENED_ROWS", 40)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_best_kernels_of_some_rows_are_judged_on_all(few_rows_are_many, task):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=90)
    target = y if task == "regression" else np.where(y > 0.0, "up", "down")
    table = frame_of({"a": X[:, 0], "b": X[:, 1], "y": target}).table
    choices = Choices("y", task=task, model="sparse", kernel="families", n_basis=15)
    ready = prepare(table, choices)
    assert any("the best 2 judged on all" in line for line in ready.description)
    fit = fit_prepared(ready)
    assert len(fit.model.estimator.cv_results_["param_kernel"]) == models.SCREENED_KERNELS
    assert fit.model.estimator.certificate_.holds
    everything = prepare(table, Choices("y", task=task, model="sparse", kernel="families", n_basis=15, evaluations=0))
    assert not any("judged on all" in line for line in everything.description)
    assert everything.choices.n_kernels(67) == models.N_FAMILIES


def test_importances_that_were_measured_are_not_measured_again(monkeypatch):
    X = np.random.default_rng(1).normal(size=(40, 2))
    table = frame_of({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0]}).table
    weights = models.Weights(gamma=10.0)
    fit = fit_prepared(prepare(table, Choices("y", kernel="rbf", sigma=1.0, weights=weights, refit=False)))
    importances = importance(fit)
    lines = summary(fit, False)
    monkeypatch.setattr(type(fit.model.estimator), "left_out_importance", None)
    assert summary(fit, False, importances) == lines
    assert any(line.startswith("inputs that matter: a") for line in lines)
