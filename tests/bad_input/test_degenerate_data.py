"""Degenerate data and extreme scales give finite numbers, with a warning where double precision cannot do better."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from every_model import (
    KERNELED,
    PAIRWISE,
    SIGMA,
    WITH_GAMMA,
    assert_unfitted,
    in_units,
    location_of,
    make_data,
    make_estimator,
    output,
    over_kerneled,
    over_regressors,
    over_ways_and_uses,
    over_ways_of_regression,
    seeded,
)
from numpy.testing import assert_allclose
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning
from spoilt_values import BAD_NUMBERS, brief

from problems import KernelRegressor
from substrate.errors import DataError, DegenerateKernelWarning, ScaleWarning
from substrate.kernels import RBF, Laplacian, Linear, Matern


@over_ways_of_regression
@pytest.mark.parametrize("constant", [0.0, 3.7, -1e8])
def test_a_constant_target_is_the_bias(estimator, choice, constant):
    X, _ = make_data(estimator)
    if estimator is KernelRegressor and constant == 0.0:  # nothing has a size that its rounding could be a share of
        with pytest.warns(ConvergenceWarning, match="accuracy"):
            model = make_estimator(estimator, **choice).fit(X, np.zeros(len(X)))
        assert model.certificate_.accuracy <= 1e-12
        assert_allclose(model.predict(X), 0.0, atol=1e-15)
        return
    model = make_estimator(estimator, **choice).fit(X, np.full(len(X), constant))
    exact = not choice
    assert_allclose(model.support_values_, 0.0, atol=(1e-16 if exact else 1e-6) * max(abs(constant), 1.0))
    rounding = len(X) * np.finfo(float).eps  # of a mean
    assert_allclose(model.bias_, constant, rtol=rounding if exact else 1e-6, atol=0.0 if exact else 1e-6)
    assert model.certificate_.holds


#: What an estimator predicts where nothing tells rows apart, by the location it states.
LOCATIONS = {
    "mean": lambda model, y, values: y.mean(),
    "kept": lambda model, y, values: np.average(y[model.support_], weights=getattr(model, "weights_", None)),
}


def flat(X):
    return np.where(np.arange(X.shape[1]) == 1, 5.0, X)


def twice(X):
    """Different targets at the same place."""
    return np.repeat(X[::2], 2, axis=0)


DEGENERATE = {
    "one column constant": (flat, RBF()),
    "all rows the same": (np.ones_like, RBF()),
    "all rows the same, linear": (np.ones_like, Linear()),
    "every row twice": (twice, RBF()),
    "every row twice, narrow": (twice, RBF(SIGMA)),
    "nought": (np.zeros_like, RBF()),
    "nought, linear": (np.zeros_like, Linear()),
}


@over_ways_and_uses
@pytest.mark.filterwarnings("ignore::substrate.errors.DegenerateKernelWarning")
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_rows_work(estimator, choice, case):
    X, y = make_data(estimator)
    spoil, kernel = DEGENERATE[case]
    rows = spoil(X)
    parameters = {"kernel": kernel} if estimator in KERNELED else {}
    model = seeded(estimator, **(parameters | choice))
    if "linear_columns" in choice and np.ptp(rows[:, 0]) == 0.0:  # a constant next to the bias has no effect
        with pytest.raises(DataError, match="column"):
            model.fit(rows, y)
        return
    model.fit(rows, y)
    values = output(model, rows)
    assert np.isfinite(values).all()
    if np.ptp(rows) == 0.0:  # nothing to tell rows apart: everyone gets the same answer
        assert_allclose(values, values[0], atol=1e-12)
        if is_regressor(model) and location_of(model) is not None:
            location = LOCATIONS[location_of(model)](model, y, values)
            if "robust" in choice:
                location = np.average(y, weights=model.weights_)
            elif "c" in choice:  # the errors have the mean -c
                location = location - choice["c"]
            assert_allclose(values, location, atol=1e-6)
    if "certificate_" in vars(model):
        assert model.certificate_.holds, str(model.certificate_)


@pytest.mark.parametrize("estimator", WITH_GAMMA)
@pytest.mark.parametrize("gamma", [1e-8, 1e-4, 1e4, 1e8, 1e10])
@pytest.mark.parametrize("kernel", [RBF(SIGMA), RBF(30.0), Linear()], ids=repr)
def test_extreme_gamma_with_duplicates(estimator, gamma, kernel):
    X, y = make_data(estimator)
    X[1::2] = X[::2]
    if is_classifier(estimator()):
        y[1::2] = y[::2]
        y[:2] = "down", "up"
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", ConvergenceWarning)
        model = seeded(estimator, kernel=kernel, gamma=gamma).fit(X, y)
    assert np.isfinite(output(model, X)).all()
    # beyond a million support values may be so large that double precision cannot know the answer, and that is said
    told = gamma > 1e6 and any("the certificate does not hold" in str(one.message) for one in raised)
    assert model.certificate_.holds != told, str(model.certificate_)


@pytest.mark.parametrize("estimator", WITH_GAMMA)
@pytest.mark.parametrize("gamma", [*BAD_NUMBERS, [1.0, 2.0], [[1.0]], np.array([1.0, np.nan])], ids=brief)
def test_bad_gamma_is_refused(estimator, gamma):
    X, y = make_data(estimator)
    model = make_estimator(estimator, gamma=gamma)
    with pytest.raises(ValueError, match="gamma"):
        model.fit(X, y)
    assert_unfitted(model)


#: The rows of what is chosen or cut by rounding where kernel values are nothing else.
CHOICES = ("gap of gamma", "predictions are the projection")


#: At 1e7 the others still tell points apart.
WIDTHS = [(kernel, sigma) for kernel in (RBF, Laplacian, Matern) for sigma in (1e-200, 1e-12, 1e10, 1e200)]


@over_kerneled
@pytest.mark.parametrize(("kernel", "sigma"), [*WIDTHS, (RBF, 1e7)])
def test_a_sigma_that_tells_no_points_apart_warns_and_works(estimator, kernel, sigma):
    X, y = make_data(estimator)
    if estimator in PAIRWISE:  # for an additive machine it would be a component that is rightly constant
        X[:, 1] = 2.0  # a constant column, so that 0 / sigma occurs
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = seeded(estimator, kernel=kernel(sigma=sigma)).fit(X, y)
    # the few rows that are left of a pruned machine may have another scale in a column
    assert {w.category for w in caught} <= {DegenerateKernelWarning, ConvergenceWarning, ScaleWarning}
    told = " ".join(str(w.message) for w in caught)
    assert ("is the identity" if sigma < 1.0 else "is constant") in told
    assert np.isfinite(output(model, X)).all()
    assert np.isfinite(output(model, X + 0.1)).all()
    # what tells the points apart is rounding of the kernel values, and a machine that rests on it cannot be known
    assert {row.name for row in model.certificate_.failures} <= (set() if sigma < 1.0 else {"accuracy", *CHOICES})
    assert ("certificate does not hold" in told) != model.certificate_.holds


@over_kerneled
@pytest.mark.parametrize("kernel", [RBF(), Laplacian(), Matern()], ids=repr)
@pytest.mark.parametrize("factor", [1e150, 1e-150])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_rows_on_an_extreme_scale(estimator, kernel, factor, form):
    X, y = make_data(estimator)
    model = seeded(estimator, kernel=kernel).fit(form(X * factor), y)
    expected = output(seeded(estimator, kernel=kernel).fit(X, y), X)
    assert_allclose(output(model, form(X * factor)), expected, rtol=1e-9, atol=1e-12)


@over_kerneled
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_rows_far_from_the_origin(estimator, form):
    if estimator.__name__.startswith("Symmetric"):
        pytest.skip("the origin matters")
    X, y = make_data(estimator)
    X = np.round(X * 2**20) / 2**20
    far = X + 2.0**27  # about 1e8, and no digit is lost
    assert np.array_equal(far - 2.0**27, X)
    model = make_estimator(estimator).fit(form(far), y)
    assert_allclose(output(model, form(far)), output(make_estimator(estimator).fit(X, y), X), rtol=1e-9, atol=1e-11)


@over_kerneled
def test_a_linear_kernel_that_overflows_says_so(estimator):
    X, y = make_data(estimator)
    with pytest.raises(ValueError, match=r"overflows.*scale X"):
        seeded(estimator, kernel=Linear()).fit(X * 1e160, y)


@over_ways_of_regression
@pytest.mark.parametrize("factor", [1e12, 1e-12, -1.0])
def test_targets_on_an_extreme_scale(estimator, choice, factor):
    X, y = make_data(estimator)
    plain_model = make_estimator(estimator, **choice).fit(X, y)
    model = make_estimator(estimator, **choice, **in_units(estimator, factor)).fit(X, y * factor)
    assert model.certificate_.holds
    tolerance = 1e-5 if choice else 1e-10
    assert_allclose(model.predict(X) / factor, plain_model.predict(X), atol=tolerance)
    largest = np.abs(plain_model.support_values_).max()
    assert_allclose(model.support_values_ / factor, plain_model.support_values_, atol=tolerance * largest)


@over_regressors
def test_a_target_far_from_nought(estimator):
    X, y = make_data(estimator)
    y = np.round(y * 2**20) / 2**20
    model = make_estimator(estimator).fit(X, y + 2.0**27)
    expected = make_estimator(estimator).fit(X, y)
    if location_of(model) is None:  # what is chosen feels the rounding of the target
        assert_allclose(output(model, X) - 2.0**27, output(expected, X), atol=1e-4)
    else:
        assert_allclose(model.support_values_, expected.support_values_, atol=1e-9)
        assert_allclose(model.bias_ - 2.0**27, expected.bias_, atol=1e-6)
    assert model.certificate_.holds
