"""relevance_ of fitted models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

import problems
from problems import LSSVMClassifier, LSSVMRegressor, MaximalVariationRegressor
from substrate.kernels import RBF, Componentwise, Linear, Polynomial, Precomputed
from substrate.kernels.terms import term_shares

X = np.random.default_rng(4).normal(size=(24, 3)) * [1.0, 5.0, 0.2]
Y = np.sin(X[:, 0]) + X[:, 1]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if "Fused" in n or "L1" in n else n for n in sorted(problems.ESTIMATORS)],
)
@pytest.mark.some_cases(1)
def test_every_estimator_has_relevances(name):
    model = getattr(problems, name)(kernel=Componentwise(RBF(), order=2))
    with pytest.raises(NotFittedError):
        _ = model.relevance_
    model.fit(X, np.where(np.median(Y) < Y, "a", "b") if "Classifier" in name else Y)
    assert model.relevance_.shape == (3,)
    assert model.relevance_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("kernel", [Linear(), 3.0 * Linear().on(2, 0, 1)], ids=repr)
def test_a_linear_machine_is_judged_by_its_weights(kernel):
    model = LSSVMRegressor(kernel, 1.0).fit(X + 10.0, Y)
    slopes = model.predict(10.0 + np.eye(3)) - model.predict(np.full((1, 3), 10.0))
    expected = np.abs(slopes) * X.std(axis=0)
    assert_allclose(model.relevance_, expected / expected.sum(), atol=1e-7)


def test_linear_terms_have_weights_of_their_own():
    split = LSSVMRegressor(Linear().on(0) + 2.0 * Linear().on(2, 1), 1.0).fit(X, Y)
    shares = term_shares(split.kernel_, X)
    slopes = np.abs(split.predict(np.eye(3)) - split.predict(np.zeros((1, 3)))) * X.std(axis=0)
    rest = shares[1] * slopes[1:] / slopes[1:].sum()
    assert_allclose(split.relevance_, [shares[0], *rest], atol=1e-7)


def test_the_slopes_of_several_outputs_and_of_classes():
    model = LSSVMRegressor(Linear(), 10.0).fit(X, np.stack([Y, X[:, 2]], axis=1))
    weights = X.T @ model.support_values_
    expected = np.linalg.norm(weights, axis=1) * X.std(axis=0)
    assert_allclose(model.relevance_, expected / expected.sum())
    labels = LSSVMClassifier(Linear(), 10.0).fit(X, Y > 0.0)
    expected = np.abs(X.T @ (labels.support_codes_ * labels.support_values_)) * X.std(axis=0)
    assert_allclose(labels.relevance_, expected / expected.sum())


def test_why_there_is_none():
    with pytest.raises(AttributeError, match=r"Polynomial.* has no widths; use left_out_importance\(\)"):
        _ = LSSVMRegressor(Polynomial(2)).fit(X, Y).relevance_
    with pytest.raises(AttributeError, match="a precomputed kernel matrix has none"):
        _ = LSSVMRegressor(Precomputed()).fit(RBF(1.0)(X), Y).relevance_
    shared = LSSVMRegressor(RBF(1.0)).fit(X, Y)
    assert not hasattr(shared, "relevance_")
    with pytest.raises(AttributeError, match="one width for all inputs, which says nothing of any of them"):
        _ = shared.relevance_
    assert LSSVMRegressor(RBF(1.0)).fit(X[:, :1], Y).relevance_ == [1.0]
    assert LSSVMRegressor(RBF(1.0) + Linear()).fit(X, Y).relevance_.shape == (3,)
    decoupled = MaximalVariationRegressor(Linear(), rho=0.1, expansion="decoupled", ridge=0.1).fit(X, Y)
    with pytest.raises(AttributeError, match="an expansion of its own"):
        _ = decoupled.relevance_
    assert not hasattr(decoupled, "relevance_")


def test_units_do_not_matter_where_widths_come_from_the_data():
    units = np.array([1e-12, 1e12, 1.0])
    for kernel in (RBF("each"), Componentwise(RBF()), Componentwise(RBF(), order=2)):
        found = [LSSVMRegressor(kernel).fit(points, Y).relevance_ for points in (X, X * units)]
        assert_allclose(found[1], found[0], rtol=1e-6)
