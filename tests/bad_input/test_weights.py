"""A weight counts rows: none leaves no trace, two is the row twice, and a common weight is a factor of gamma."""

import numpy as np
import pytest
from every_model import (
    KERNELED,
    PAIRWISE,
    SIGMA,
    WEIGHTED,
    WHOLE_ROWS,
    WITH_GAMMA,
    WITH_SOLVER,
    make_data,
    make_estimator,
    output,
    over_weighted,
    parameters_of,
    seeded,
)
from numpy.testing import assert_allclose, assert_array_equal

from substrate.kernels import RBF, Laplacian, Linear, Precomputed


# a row of weight two is left out or pruned as one row, and of two equal rows one at a time
@pytest.mark.parametrize("estimator", [estimator for estimator in WEIGHTED if estimator not in WHOLE_ROWS])
@pytest.mark.parametrize("kernel", [RBF(SIGMA), RBF(), Laplacian(), Linear()], ids=repr)
@pytest.mark.parametrize("solver", ["auto", "cg"])
def test_a_weight_counts_rows(estimator, kernel, solver):
    parameters = {"kernel": kernel} if estimator in KERNELED else {}
    parameters |= {"solver": solver} if estimator in WITH_SOLVER else {}
    X, y = make_data(estimator)
    times = np.arange(len(y)) % 3  # nought, once, twice
    weighted = seeded(estimator, **parameters).fit(X, y, sample_weight=times)
    repeated = seeded(estimator, **parameters).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    scale = np.ptp(output(repeated, X))
    assert_allclose(output(weighted, X), output(repeated, X), atol=(1e-10 if solver == "auto" else 1e-5) * scale)


@over_weighted
def test_rows_of_no_weight_leave_no_trace(estimator):
    X, y = make_data(estimator)
    weights = np.ones(len(y))
    weights[[2, 5]] = 0.0
    kept = weights > 0.0
    spoilt = X.copy()
    spoilt[[2, 5]] = 1e6
    model = seeded(estimator).fit(spoilt, y, sample_weight=weights)
    assert_array_equal(output(model, X), output(seeded(estimator).fit(X[kept], y[kept]), X))
    if estimator in PAIRWISE:
        K = RBF(SIGMA)(X)
        paired = seeded(estimator, kernel=Precomputed()).fit(K, y, sample_weight=weights)
        alone = seeded(estimator, kernel=Precomputed()).fit(K[kept][:, kept], y[kept])
        assert_array_equal(output(paired, K), output(alone, K[:, kept]))


@over_weighted
def test_a_common_weight_is_a_factor_of_gamma(estimator):
    if estimator not in WITH_GAMMA or "refit" in parameters_of(estimator):  # gamma is then chosen by the refit
        pytest.skip("no weight of errors that is called gamma")
    X, y = make_data(estimator)
    weighted = make_estimator(estimator, gamma=1.0).fit(X, y, sample_weight=np.full(len(y), 4.0))
    assert_allclose(output(weighted, X), output(make_estimator(estimator, gamma=4.0).fit(X, y), X), rtol=1e-12)
