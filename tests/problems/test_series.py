"""Windows, forecasts one step and freely ahead, lags by grids, and files."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from problems import KernelRegressor, LSSVMClassifier, LSSVMRegressor, NARXRegressor, load, windowize
from substrate.errors import DataError, SubstrateError
from substrate.kernels import RBF


def simulated(n, seed=0, noise=0.02):
    """A contraction with an input: y_t = 0.4 tanh(y_{t-1}) - 0.2 y_{t-2} + sin(u_{t-1})."""
    rng = np.random.default_rng(seed)
    u, y = rng.uniform(-1.0, 1.0, size=n), np.zeros(n)
    for t in range(2, n):
        y[t] = 0.4 * np.tanh(y[t - 1]) - 0.2 * y[t - 2] + np.sin(u[t - 1]) + noise * rng.normal()
    return u[:, None], y


U, Y = simulated(140)
FIXED = LSSVMRegressor(RBF(3.0), 100.0)


@pytest.fixture(scope="module")
def model():
    return NARXRegressor(FIXED, lags=2, inputs=1).fit(U[:100], Y[:100])


def test_windows_are_those_of_loops():
    rng = np.random.default_rng(1)
    y, X = rng.normal(size=12), rng.normal(size=(12, 2))
    windows = windowize(y, X, lags=[1, 3], inputs=[0, 2], horizon=2)
    assert windows.names == ("y(t-1)", "y(t-3)", "u0(t)", "u0(t-2)", "u1(t)", "u1(t-2)")
    assert_array_equal(windows.rows, np.arange(3, 11))
    for window, targets, t in zip(windows.X, windows.y, windows.rows, strict=True):
        assert_array_equal(window, [y[t - 1], y[t - 3], X[t, 0], X[t - 2, 0], X[t, 1], X[t - 2, 1]])
        assert_array_equal(targets, [y[t], y[t + 1]])
    parts = windowize(y, lags=2, groups=[0] * 5 + [1] * 7)
    assert_array_equal(parts.rows, [2, 3, 4, 7, 8, 9, 10, 11])


def test_one_step_is_the_regressor_on_windows(model):
    windows = windowize(Y, U, lags=2, inputs=1)
    predicted = model.predict_one_step(U, Y)
    assert np.isnan(predicted[:2]).all()
    assert_allclose(predicted[2:], model.regressor_.predict(windows.X))
    assert np.sqrt(np.mean((predicted[100:] - Y[100:]) ** 2)) < 0.1


@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_a_free_run_is_steps_one_after_the_other(horizon):
    narx = NARXRegressor(FIXED, lags=[1, 3], inputs=[0, 2], horizon=horizon).fit(U[:100], Y[:100])
    run, y, u = narx.forecast(7, U[100:107]), list(Y[:100]), U[:107, 0]
    expected = []
    while len(expected) < 7:
        t = len(y)
        window = np.array([[y[t - 1], y[t - 3], u[t], u[t - 2]]])
        steps = np.ravel(narx.regressor_.predict(window))
        expected += steps.tolist()
        y += steps.tolist()
    assert_allclose(run, expected[:7], rtol=1e-10)
    assert_allclose(narx.predict(U[100:107]), run)
    # from the end of the fit, or of any other rows
    assert_array_equal(narx.forecast(7, U[100:107], history=(U[:100], Y[:100])), run)
    later = narx.forecast(1, U[110:111], history=(U[90:110], Y[90:110]))
    assert_allclose(later, narx.predict_one_step(U, Y)[[110]], rtol=1e-10)


@pytest.mark.parametrize(
    "regressor",
    [
        KernelRegressor(RBF(3.0), 10.0),
        LSSVMRegressor(RBF(3.0), 10.0, basis="feature_vectors"),
        LSSVMRegressor(RBF(3.0), 10.0, linear_columns=[0]),
    ],
    ids=lambda regressor: type(regressor).__name__,
)
def test_any_regressor_of_the_package(regressor, tmp_path):
    model = NARXRegressor(regressor, lags=2, inputs=1).fit(U[:80], Y[:80])
    assert np.sqrt(np.mean((model.predict_one_step(U, Y)[80:] - Y[80:]) ** 2)) < 0.25
    assert np.isfinite(model.forecast(4, U[80:84])).all()
    model.save(tmp_path / "model.npz")
    assert_allclose(load(tmp_path / "model.npz").forecast(4, U[80:84]), model.forecast(4, U[80:84]))


def test_scikit_learn_splits_in_time_and_grids():
    scores = cross_val_score(NARXRegressor(FIXED, lags=2, inputs=1), U, Y, cv=TimeSeriesSplit(3))
    assert (scores > 0.8).all()
    grid = GridSearchCV(
        NARXRegressor(FIXED, inputs=1), {"lags": [1, 2], "regressor__gamma": [1.0, 100.0]}, cv=TimeSeriesSplit(2)
    ).fit(U, Y)
    assert grid.best_params_["regressor__gamma"] == 100.0
    assert cross_val_score(NARXRegressor(FIXED, lags=2), Y[:, None], Y, cv=TimeSeriesSplit(2)).shape == (2,)


#: Checks of scikit-learn that do not apply to a series, and why.
OTHER_CHECKS = {
    "check_methods_sample_order_invariance": "rows are in the order of time",
    "check_methods_subset_invariance": "a forecast depends on the rows before it",
    "check_regressors_train": "rows to predict follow the rows of the fit",
    "check_fit1d": "one input may be a vector",
    "check_fit2d_predict1d": "one input may be a vector",
    "check_fit2d_1sample": "a series of one row is refused for its windows",
    "check_supervised_y_2d": "a series is a vector",
    "check_complex_data": "the message is this package's",
    "check_dtype_object": "objects are refused, as in every declaration of this package",
    "check_estimators_empty_data_messages": "the message is this package's",
}


def test_scikit_learn_checks_the_rest():
    series = NARXRegressor(LSSVMRegressor("rbf", 1.0), lags=1, inputs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns that are not scaled, and of checks that are skipped
        results = check_estimator(series, expected_failed_checks=OTHER_CHECKS, on_fail="raise")
    assert sum(result["status"] == "passed" for result in results) >= 35


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"lags": 0}, (None, Y), "lags"),
        ({"lags": []}, (None, Y), "at least one delay"),
        ({"lags": "many"}, (None, Y), "a number or a list"),
        ({"lags": [0, 1]}, (None, Y), "a delay"),
        ({"horizon": 0}, (None, Y), "horizon"),
        ({"inputs": 1}, (None, Y), "give X"),
        ({"inputs": 1}, (U[:10], Y), "a row of inputs"),
        ({}, (U[:10], Y), "one of each per time"),
        ({"lags": 50}, (None, Y[:40]), "no window fits"),
        ({}, (None, np.append(Y, np.nan)), "y"),
        ({}, (None, Y[:, None]), "y"),
        ({"regressor": LSSVMClassifier()}, (None, Y), "a regressor of this package"),
        ({"regressor": "rbf"}, (None, Y), "a regressor of this package"),
    ],
    ids=str,
)
def test_bad_input_is_refused(change, arguments, message):
    with pytest.raises(SubstrateError, match=message):
        NARXRegressor(**{"regressor": FIXED, "lags": 2, **change}).fit(*arguments)


def test_bad_forecasts_are_refused(model):
    with pytest.raises(DataError, match="one row for each of the 5 steps"):
        model.forecast(5, U[:4])
    with pytest.raises(DataError, match="give X"):
        model.forecast(5)
    with pytest.raises(DataError, match="the largest lag"):
        model.forecast(3, U[:3], history=(U[:1], Y[:1]))
    with pytest.raises(DataError, match="a pair"):
        model.forecast(3, U[:3], history=Y)
    with pytest.raises(DataError, match="expecting 1 features"):
        model.predict_one_step(np.hstack([U, U]), Y)
