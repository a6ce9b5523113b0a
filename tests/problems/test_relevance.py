"""relevance_ of fitted models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError

import problems
from problems import LSSVMRegressor
from substrate.kernels import RBF, Categorical, Componentwise, Laplacian, Linear, Matern, Polynomial, Precomputed

X = np.random.default_rng(4).normal(size=(24, 3)) * [1.0, 5.0, 0.2]
Y = np.sin(X[:, 0]) + X[:, 1]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if "Fused" in n or "L1" in n else n for n in sorted(problems.ESTIMATORS)],
)
@pytest.mark.some_cases(1)
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


def test_a_code_has_no_unit():
    codes = np.random.default_rng(0).integers(0, 3, size=(24, 3)) * [1.0, 100.0, 0.0]
    assert_allclose(LSSVMRegressor(Categorical((1.0, 2.0, 4.0))).fit(codes, Y).relevance_, [2.0 / 3.0, 1.0 / 3.0, 0.0])


@pytest.mark.parametrize("kernel", [Polynomial(2), Linear(), RBF(1.0), RBF(1.0) + Linear(), Precomputed()], ids=repr)
def test_why_there_is_none(kernel):
    model = LSSVMRegressor(kernel).fit(RBF(1.0)(X) if kernel.pairwise else X, Y)
    assert not hasattr(model, "relevance_")
    with pytest.raises(AttributeError, match="needs one width per input"):
        _ = model.relevance_


def test_units_do_not_matter_where_widths_come_from_the_data():
    units = np.array([1e-12, 1e12, 1.0])
    found = [LSSVMRegressor(RBF("each")).fit(points, Y).relevance_ for points in (X, X * units)]
    assert_allclose(found[1], found[0], rtol=1e-6)


def test_a_constant_column_is_exactly_irrelevant():
    points = np.column_stack([X[:, 0], np.full(24, 0.1), np.full(24, 1e8 + 0.1)])
    for given in (points, csr_matrix(points)):
        assert_array_equal(LSSVMRegressor(RBF("each")).fit(given, Y).relevance_, [1.0, 0.0, 0.0])
