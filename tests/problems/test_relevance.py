"""relevance_ of fitted models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

import problems
from problems import LSSVMRegressor
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial, Precomputed

X = np.random.default_rng(4).normal(size=(24, 3)) * [1.0, 5.0, 0.2]
Y = np.sin(X[:, 0]) + X[:, 1]


@pytest.mark.parametrize("name", sorted(problems.ESTIMATORS))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of rows that are drawn to validate
def test_every_estimator_says_why_it_has_no_relevances(name):
    model = getattr(problems, name)(kernel=Componentwise(RBF()))
    with pytest.raises(NotFittedError):
        _ = model.relevance_
    model.fit(X, np.where(np.median(Y) < Y, "a", "b") if "Classifier" in name else Y)
    with pytest.raises(AttributeError, match=r"needs one width per input, .*use left_out_importance\(\)"):
        _ = model.relevance_


@pytest.mark.parametrize("kind", [RBF, Laplacian, Matern, lambda sigma: 2.0 * RBF(sigma)])
def test_relevances_are_inverse_widths_in_units_of_the_spread(kind):
    model = LSSVMRegressor(kind((1.0, 2.0, 4.0))).fit(X, Y)
    expected = X.std(axis=0) / [1.0, 2.0, 4.0]
    assert_allclose(model.relevance_, expected / expected.sum())
    assert LSSVMRegressor(kind(1.0)).fit(X[:, :1], Y).relevance_ == [1.0]


@pytest.mark.parametrize("kernel", [Polynomial(2), Linear(), RBF(1.0), RBF(1.0) + Linear(), Precomputed()], ids=repr)
def test_why_there_is_none(kernel):
    model = LSSVMRegressor(kernel).fit(RBF(1.0)(X) if kernel.pairwise else X, Y)
    assert not hasattr(model, "relevance_")
    with pytest.raises(AttributeError, match="needs one width per input"):
        _ = model.relevance_
