"""The kernel of categories next to 0-1 columns, its median width, its slopes, and a machine of mixed columns."""

import numpy as np

from problems import LSSVMRegressor, LSSVMRegressorCV
from substrate.kernels import RBF, Categorical, Laplacian


def make_codes(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, 5, n), rng.integers(0, 3, n)]).astype(float)


def as_indicators(X):
    return np.column_stack([X[:, c, None] == np.arange(6.0)[None, :] for c in range(X.shape[1])]).astype(float)


def test_it_is_the_laplacian_kernel_of_indicators():
    X = make_codes()
    np.testing.assert_allclose(Categorical(0.7)(X), Laplacian(1.4)(as_indicators(X)), rtol=1e-14)


def test_codes_are_names():
    """Neither their size nor their order matters, nor an affine map of them."""
    X = make_codes()
    renamed = np.array([7.0, -3.0, 1e9, 0.5, 2.0])[X.astype(int)]
    np.testing.assert_array_equal(Categorical((0.3, 2.0))(X), Categorical((0.3, 2.0))(renamed))
    np.testing.assert_array_equal(Categorical(0.3)(X), Categorical(0.3)((X - X.mean(axis=0)) / X.std(axis=0)))


def test_the_median_width_counts_the_codes_that_differ():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    assert Categorical().resolved(X).sigma == 1.0  # 1, 2 and 1 codes of three distinct points
    assert Categorical("each").resolved(X).sigma == (1.0, 1.0)
    assert Categorical().resolved(X[2:]).sigma == 1.0


def test_a_tiny_width_is_the_identity_and_a_large_one_the_constant():
    X = np.unique(make_codes(), axis=0)
    np.testing.assert_array_equal(Categorical(1e-300)(X), np.eye(len(X)))
    np.testing.assert_allclose(Categorical(1e300)(X), 1.0)


def test_a_machine_of_mixed_columns_finds_the_category_that_matters():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=120), make_codes(120, 1)])
    y = np.sin(2.0 * X[:, 0]) + np.array([0.0, 2.0, -1.0, 1.0, 0.5])[X[:, 1].astype(int)]
    y += 0.1 * rng.normal(size=120)
    kernel = RBF("each").on(0) * Categorical("each").on(1, 2)
    model = LSSVMRegressorCV(kernel, search="gradient").fit(X, y)
    widths = model.kernel_.right.kernel.sigma
    assert 10.0 * widths[0] < widths[1]
    assert model.certificate_.holds
    assert LSSVMRegressor(model.kernel_, model.gamma_).fit(X, y).certify(X, y).holds
