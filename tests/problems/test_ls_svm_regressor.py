"""The regressor: the same numbers by every way, a certificate that notices, and peers that agree."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from problems import LSSVMRegressor
from substrate.datasets import boston, motorcycle
from substrate.errors import IndefiniteKernelWarning, ScaleWarning
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial, Precomputed


@pytest.fixture
def data():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=30)


def test_the_script_of_a_practitioner_works_as_written():
    X, y = motorcycle()
    X_new = np.linspace(2.0, 60.0, 50)[:, None]
    model = LSSVMRegressor(kernel=RBF(sigma=6.6), gamma=2.0).fit(X, y)
    f = model.predict(X_new)
    assert f.shape == (50,)
    expected = RBF(6.6)(X_new, X) @ model.support_values_ + model.bias_
    assert_allclose(f, expected, atol=1e-9)
    report = str(model.certificate_)
    for words in ("residual", "scale", "tolerance", "pass", "RBF(sigma=6.6)", "gamma: 2", "closed form"):
        assert words in report
    assert model.certificate_.holds


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.covering
def test_the_certificate_notices_a_change_in_any_coefficient(data, outputs, weighted):
    X, y = data
    y = y if outputs == 1 else np.column_stack([y, np.cos(y)])
    weights = np.where(np.arange(len(y)) == 3, 0.0, 1.5) if weighted else None
    model = LSSVMRegressor(RBF(2.0), gamma=5.0).fit(X, y, sample_weight=weights)
    assert model.certify(X, y, sample_weight=weights).holds
    original = model.support_values_.copy()
    for index in np.ndindex(original.shape):
        for change in (1e-6, -1e-6):
            model.support_values_ = original.copy()
            model.support_values_[index] += change * np.abs(original).max()
            assert not model.certify(X, y, sample_weight=weights).holds, index
    model.support_values_ = original
    bias = model.bias_
    for output in range(outputs):
        changed = np.atleast_1d(bias).astype(float)
        changed[output] += 1e-6
        model.bias_ = float(changed[0]) if outputs == 1 else changed
        assert not model.certify(X, y, sample_weight=weights).holds
    model.bias_ = bias
    assert model.certify(X, y, sample_weight=weights).holds


def test_unscaled_columns_are_pointed_out():
    X, y = boston()
    with pytest.warns(ScaleWarning, match=r"compares distances, and column 9 .* dominates column 4 .*StandardScaler"):
        LSSVMRegressor().fit(X, y)
    scaled = make_pipeline(StandardScaler(), LSSVMRegressor()).fit(X, y)  # warnings are errors
    assert scaled.score(X, y) > 0.7
    assert np.isfinite(LSSVMRegressor(Linear()).fit(X, y).predict(X)).all()  # compares no distances


KERNELS = [
    RBF(2.0),
    Linear(),
    Polynomial(2, 1.0),
    Laplacian(3.0),
    Matern(sigma=2.0),
    0.5 * RBF(1.0) + Linear(),
    Componentwise(RBF(1.0)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_prediction_in_blocks_is_the_direct_formula(data, kernel):
    """:equation [Suykens2002]_ (9): against the sum written out."""
    X, y = data
    model = LSSVMRegressor(kernel, gamma=3.0).fit(X, y)
    X_new = np.random.default_rng(2).normal(size=(613, 3))  # several blocks, the last one ragged
    direct = kernel(X_new, X) @ model.support_values_ + model.bias_
    assert_allclose(model.predict(X_new), direct, rtol=1e-9, atol=1e-9)
    one_by_one = np.array([model.predict(row[None])[0] for row in X_new[250:262]])
    assert_allclose(model.predict(X_new)[250:262], one_by_one, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.1, 1.0, 50.0])
def test_the_linear_kernel_is_ridge_regression(data, gamma):
    """:equation [Cawley2004]_ (1): against scikit-learn's ridge regression."""
    X, y = data
    weights = np.linspace(0.5, 2.0, 30)
    ridge = Ridge(alpha=1.0 / gamma).fit(X, y, sample_weight=weights)
    model = LSSVMRegressor(Linear(), gamma=gamma).fit(X, y, sample_weight=weights)
    assert_allclose(X.T @ model.support_values_, ridge.coef_, rtol=1e-8)
    assert_allclose(model.bias_, ridge.intercept_, rtol=1e-8)
    assert_allclose(model.predict(X + 1.0), ridge.predict(X + 1.0), rtol=1e-8)


def test_a_matrix_that_is_indefinite_warns_although_its_ridge_hides_it():
    # K + I/gamma is positive definite and its factor exists; K itself is not
    K = np.diag([1.0, 2.0, 3.0, -0.1])
    with pytest.warns(IndefiniteKernelWarning, match=r"smallest eigenvalue -0\.1"):
        model = LSSVMRegressor(kernel=Precomputed(), gamma=1.0).fit(K, [1.0, 2.0, 0.0, 4.0])
    assert "not positive semi-definite" in str(model.certificate_)
