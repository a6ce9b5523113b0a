"""A category that the fit has not seen moves a prediction no further than the known ones of its column differ."""

import numpy as np
import pandas as pd
import pytest

from problems import TabularClassifier, TabularRegressor

#: A category that was not seen is at most this much farther from both known ones, as a share of the targets' spread.
SLACK = 0.05


def houses(seed: int, n: int = 120) -> pd.DataFrame:
    """Return inputs of houses; the garden has no effect on the price."""
    rng = np.random.default_rng(seed)
    area = rng.uniform(30.0, 200.0, n)
    discount, age = rng.uniform(0.0, 0.2, n), rng.integers(0, 80, n)
    return pd.DataFrame({"area": area, "discount": discount, "age": age, "garden": rng.choice(["yes", "no"], n)})


def prices(X: pd.DataFrame, seed: int) -> np.ndarray:
    """Return prices of houses, without an effect of the garden."""
    noise = np.random.default_rng(seed + 100).normal(scale=2000.0, size=len(X))
    return np.asarray(1500.0 * X["area"] * (1.0 - X["discount"]) - 300.0 * X["age"] + noise)


def moved(outputs, X):
    """Return how far an unknown garden is from the nearer of the known ones, beyond the distance of these."""
    yes, no, unknown = (np.asarray(outputs(X.assign(garden=garden))) for garden in ("yes", "no", "maybe"))
    return np.minimum(np.abs(unknown - yes), np.abs(unknown - no)) - np.abs(yes - no)


@pytest.mark.parametrize("model", ["lssvm", "stack"])
def test_an_unknown_category_of_a_regression(model):
    X = houses(0)
    y = prices(X, 0)
    fitted = TabularRegressor(model, unknown="ignore").fit(X, y)
    assert moved(fitted.predict, X).max() <= SLACK * y.std()


@pytest.mark.parametrize("model", ["lssvm", "stack"])
def test_an_unknown_category_of_classes(model):
    X = houses(0)
    y = np.where(prices(X, 0) > 150000.0, "dear", "cheap")
    fitted = TabularClassifier(model, unknown="ignore").fit(X, y)
    assert moved(fitted.predict_proba, X).max() <= SLACK


def test_an_unknown_category_of_a_column_that_matters():
    X = houses(0)
    y = prices(X, 0) + np.where(X["garden"] == "yes", 40000.0, 0.0)
    fitted = TabularRegressor(unknown="ignore").fit(X, y)
    assert moved(fitted.predict, X).max() <= SLACK * y.std()
