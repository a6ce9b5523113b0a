"""Whatever the parameters and the data, a fit is certified and finite, or refused in the package's own words."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from problems import LSSVMClassifier, LSSVMRegressor
from substrate.codings import CODINGS
from substrate.errors import SubstrateError, SubstrateWarning
from substrate.kernels import RBF, Laplacian, Linear, Matern, Polynomial

often = settings(derandomize=True, deadline=None, max_examples=150)
seldom = settings(derandomize=True, deadline=None, max_examples=40)


def powers(low, high):
    """Numbers between two powers of ten, evenly in the exponent."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


@st.composite
def point_sets(draw, most=40, wild=True):
    """Rows with some duplicates and, where ``wild``, of any scale and far from the origin."""
    n = draw(st.integers(2, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, draw(st.integers(1, 3))))
    if draw(st.booleans()):
        X = X[rng.integers(max(1, n // 3), size=n)]
    if wild:
        X = X * draw(powers(-3.0, 3.0)) + draw(st.sampled_from([0.0, 1.0, -1e4, 1e8]))
    return X, rng


@st.composite
def regressions(draw, wild=True):
    X, rng = draw(point_sets(wild=wild))
    y = rng.normal(size=len(X)) * draw(powers(-12.0, 12.0)) + draw(st.sampled_from([0.0, 0.0, 1.0, 1e6]))
    return X, y


@st.composite
def classifications(draw):
    X, rng = draw(point_sets())
    n_classes = draw(st.integers(2, min(5, len(X))))
    labels = np.r_[np.arange(n_classes), rng.integers(n_classes, size=len(X) - n_classes)]
    return X, rng.permutation(labels)


gammas, sigmas = powers(-8.0, 10.0), powers(-4.0, 4.0)


def fitted(model, X, y, weights=None):
    """The fitted model, or None where the package refused; a certificate that fails must have warned."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, sample_weight=weights)
        except SubstrateError:
            assert not hasattr(model, "support_values_")
            return None
    assert {w.category for w in caught if not issubclass(w.category, SubstrateWarning)} <= {ConvergenceWarning}
    warned = any("certificate does not hold" in str(w.message) for w in caught)
    assert warned != model.certificate_.holds, str(model.certificate_)
    return model


def holds_or_cannot_be_known(certificate, gamma):
    """Up to a million, gamma times k(x, x), all hold; beyond, support values may outgrow double precision."""
    return certificate.holds or (gamma > 1e6 and {row.name for row in certificate.failures} == {"accuracy"})


@often
@given(data=regressions(), gamma=gammas, sigma=sigmas)
def test_regression(data, gamma, sigma):
    X, y = data
    model = fitted(LSSVMRegressor(RBF(sigma), gamma=gamma), X, y)
    assert model is not None, "nothing here is a reason to refuse"
    assert holds_or_cannot_be_known(model.certificate_, gamma), str(model.certificate_)
    assert np.isfinite(model.predict(X)).all()
    # the bias is not penalised, so the errors, and with them alpha/gamma, sum to nought
    assert_allclose(model.support_values_.sum(), 0.0, atol=1e-8 * np.abs(model.support_values_).sum())
    assert np.abs(y - model.predict(X)).max() <= 2.0 * (y.max() - y.min()) * len(y) + 1e-9 * np.abs(y).max()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SubstrateWarning)
        assert holds_or_cannot_be_known(model.certify(X, y), gamma)


@often
@given(data=classifications(), gamma=gammas, sigma=sigmas, coding=st.sampled_from(CODINGS))
def test_classification(data, gamma, sigma, coding):
    X, labels = data
    model = fitted(LSSVMClassifier(RBF(sigma), gamma=gamma, coding=coding), X, labels)
    assert model is not None, "nothing here is a reason to refuse"
    assert holds_or_cannot_be_known(model.certificate_, gamma), str(model.certificate_)
    scores = model.decision_function(X)
    assert np.isfinite(scores).all()
    assert scores.shape == ((len(X),) if model.classes_.size == 2 else (len(X), model.classes_.size))
    assert np.isin(model.predict(X), labels).all()


KERNELS = [Linear(), Polynomial(2, 1.0), Laplacian(1.0), Matern(1.0), RBF(), 1e3 * RBF(1.0) + Linear()]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@seldom
@given(data=regressions(wild=False), gamma=gammas, weighted=st.booleans())
def test_other_kernels_and_weights(kernel, data, gamma, weighted):
    X, y = data
    weights = np.linspace(0.1, 10.0, len(y)) if weighted else None
    model = fitted(LSSVMRegressor(kernel, gamma=gamma), X, y, weights)
    assert model is not None, "nothing here is a reason to refuse"
    strongest = gamma * model.kernel_.diag(X).max() * (10.0 if weighted else 1.0)
    assert holds_or_cannot_be_known(model.certificate_, strongest), str(model.certificate_)
    assert np.isfinite(model.predict(X)).all()


@seldom
@given(data=regressions(), gamma=gammas, sigma=sigmas)
def test_conjugate_gradients_hold_or_warn(data, gamma, sigma):
    X, y = data
    model = LSSVMRegressor(RBF(sigma), gamma=gamma, solver="cg", max_iter=300)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert {w.category for w in caught} <= {ConvergenceWarning}, [str(w.message) for w in caught]
    assert model.certificate_.holds or caught, str(model.certificate_)


@seldom
@given(data=regressions(), factor=powers(-12.0, 12.0), gamma=powers(-3.0, 3.0))
def test_equivariant_in_the_target(data, factor, gamma):
    X, y = data
    one = fitted(LSSVMRegressor(RBF(), gamma=gamma), X, y)
    other = fitted(LSSVMRegressor(RBF(), gamma=gamma), X, factor * y)
    scale = np.abs(y).max()
    assert_allclose(other.predict(X) / factor / scale, one.predict(X) / scale, atol=1e-9)
