"""Rows learned one by one: the machine of a fit to all rows, p-values, the martingale, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad

from problems import LSSVMRegressor, LSSVMRegressorCV, PartiallyLinearLSSVMRegressor, load
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear
from substrate.uncertainty.exchangeability import Exchangeability, smoothed_p_value

RNG = np.random.default_rng(4)
X = RNG.normal(size=(30, 2))
Y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=30)
NEW = RNG.normal(size=(6, 2))


def learn(model, rows, targets):
    for row, target in zip(rows, targets, strict=True):
        assert model.learn_one(row, target) is model
    return model


@pytest.mark.parametrize("weight", [None, 2.0])
@pytest.mark.parametrize(("unit", "offset"), [(1.0, 0.0), (1e-9, 0.0), (1.0, 1e8)])
@pytest.mark.some_cases(3)
def test_rows_learned_one_by_one_are_rows_fitted(weight, unit, offset):
    given = {} if weight is None else {"sample_weight": np.full(20, weight)}
    y = unit * Y + offset
    model = learn(LSSVMRegressor(RBF(1.0), gamma=5.0).fit(X[:20], y[:20], **given), X[20:], y[20:])
    given = {} if weight is None else {"sample_weight": np.full(30, weight)}
    whole = LSSVMRegressor(RBF(1.0), gamma=5.0).fit(X, y, **given)
    assert_allclose(model.predict(NEW), whole.predict(NEW), rtol=1e-9, atol=1e-9 * unit)
    assert_allclose(model.noise_variance_, whole.noise_variance_, rtol=1e-6)
    assert model.certificate_.holds
    assert model.certify(X, y, **given).holds
    assert_array_equal(model.support_, np.arange(30))
    assert_allclose(model.leave_one_out().residuals, whole.leave_one_out().residuals, rtol=1e-6, atol=1e-7 * unit)
    ends, wanted = (one.predict_interval(NEW, 0.8, "studentised") for one in (model, whole))
    assert_allclose(ends, wanted, rtol=1e-7, atol=1e-7 * unit)


def test_p_values_are_ranks_of_explicit_scores():
    """Studentised scores of the enlarged machine by its inverse; ties drawn evenly.

    :place [Vovk2003]_ smoothed p-values: ties are drawn evenly
    """
    model = LSSVMRegressor(RBF(1.0), gamma=5.0).fit(X[:10], Y[:10])
    for n in range(10, 16):
        model.learn_one(X[n], Y[n])
        M = np.zeros((n + 2, n + 2))
        M[0, 1:] = M[1:, 0] = 1.0
        M[1:, 1:] = RBF(1.0)(X[: n + 1]) + np.eye(n + 1) / 5.0
        B = np.linalg.inv(M)[1:, 1:]
        scores = np.abs(B @ Y[: n + 1]) / np.sqrt(B.diagonal())
        above = int((scores[:-1] > scores[-1]).sum())
        assert above / (n + 1) <= model.learned_p_values_[-1] <= (above + 1) / (n + 1)
    assert model.learned_p_values_.size == 6
    assert smoothed_p_value(np.array([1.0, 2.0, 3.0]), 2.0, 0.5) == (1 + 0.5 * 2) / 4
    assert smoothed_p_value(np.array([1.0]), 2.0, 0.0) > 0.0


def test_the_martingale_is_the_integral_that_it_is_stated_as():
    """By quadrature, and where the incomplete gamma function underflows.

    :place [Vovk2003]_ simple mixture: the martingale from p-values
    """
    p = RNG.uniform(size=12)
    value, _ = quad(lambda e: np.prod(e * p ** (e - 1.0)), 0.0, 1.0)
    assert_allclose(Exchangeability(p).log_martingale, np.log(value), rtol=1e-6)
    ones = Exchangeability(np.full(2000, 0.999))
    value, _ = quad(lambda e: np.exp(2000 * (np.log(e) + (e - 1.0) * np.log(0.999))), 0.9, 1.0)
    assert_allclose(ones.log_martingale, np.log(value), rtol=1e-6)
    assert Exchangeability(np.ones(3)).log_martingale == -np.log(4.0)
    small = Exchangeability(np.full(20, 0.01))
    assert small.p_value < 1e-6
    assert small.largest_log_martingale == small.log_martingale
    assert Exchangeability(np.empty(0)).p_value == 1.0


def test_a_change_is_noticed_and_no_change_is_not():
    model = LSSVMRegressor(RBF(1.0), gamma=5.0).fit(X[:10], Y[:10])
    assert learn(model, X[10:], Y[10:]).exchangeability_.p_value > 0.05
    rng = np.random.default_rng(0)
    shifted = rng.normal(size=(20, 2))
    learn(model, shifted, np.sin(shifted[:, 0]) + 5.0 * rng.choice([-1.0, 1.0], size=20))
    assert model.exchangeability_.p_value < 0.01
    assert "40 rows learned; exchangeable rows look as strange" in str(model.exchangeability_)


def test_files_and_outdated_scores(tmp_path):
    model = LSSVMRegressor(RBF(1.0), gamma=5.0).fit(X[:20], Y[:20]).calibrate(X[20:], Y[20:])
    learn(model, X[20:25], Y[20:25])
    assert not hasattr(model, "calibration_scores_"), "those are errors of another machine"
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert_array_equal(again.learned_p_values_, model.learned_p_values_)
    for one in (again, model):
        learn(one, X[25:], Y[25:])
    assert_allclose(again.predict(NEW), model.predict(NEW), atol=1e-12)
    assert_allclose(again.learned_p_values_, model.learned_p_values_, atol=1e-12)
    model.fit(X, Y)
    with pytest.raises(AttributeError, match=r"call learn_one\(x, y\)"):
        model.exchangeability_  # noqa: B018


def test_rounding_that_adds_up_is_fitted_away():
    """A kept inverse that is wrong makes the certificate fail, and the row is fitted."""
    model = LSSVMRegressor(RBF(1.0), gamma=5.0).fit(X[:20], Y[:20]).learn_one(X[20], Y[20])
    model._learner.inverse[:] *= 1.0 + 1e-3
    model.learn_one(X[21], Y[21])
    assert model.certificate_.holds
    assert_allclose(model.predict(NEW), LSSVMRegressor(RBF(1.0), gamma=5.0).fit(X[:22], Y[:22]).predict(NEW), atol=1e-9)
    assert model._learner is None


def test_what_a_row_changes_otherwise_is_refused():
    model = LSSVMRegressor(RBF(1.0)).fit(X, Y)
    for x, message in ((X[0, :1], "x must be one row of 2 features"), ([np.nan, 0.0], "x contains NaN or infinity")):
        with pytest.raises(DataError, match=message):
            model.learn_one(x, 0.0)
    for y, message in ((np.inf, "y contains NaN or infinity"), ([1.0, 2.0], "y must be the target of one row")):
        with pytest.raises(DataError, match=message):
            model.learn_one(X[0], y)
    assert model.support_.size == 30
    others = (
        (LSSVMRegressorCV(RBF(1.0)).fit(X, Y), "fit LSSVMRegressor with kernel_ and gamma_ of the search"),
        (LSSVMRegressor(RBF(1.0)).fit(X, np.column_stack([Y, Y])), "a machine of one output"),
        (PartiallyLinearLSSVMRegressor(RBF(1.0), linear_columns=[0]).fit(X, Y), "without a linear part"),
        (LSSVMRegressor(RBF(1.0)).fit(X, Y, sample_weight=np.linspace(1.0, 2.0, 30)), "rows of equal weight"),
        (LSSVMRegressor("precomputed").fit(X @ X.T, Y), "a kernel of the inputs"),
        (LSSVMRegressor(Linear(), gamma=1e12).fit(X, Y), "support values represent"),
        (LSSVMRegressor(RBF(1.0), bounds=(-9.0, None)).fit(X[:8], Y[:8]), "without a shape"),
    )
    for other, message in others:
        with pytest.raises(DeclarationError, match=message):
            other.learn_one(X[0], 0.0)
