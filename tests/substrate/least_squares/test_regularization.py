"""The forms of gamma are one number: each is the others, to the last bit where a formula has it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from substrate.errors import DataError
from substrate.least_squares.regularization import Regularization

WEIGHTS = st.floats(1e-120, 1e120)


@given(WEIGHTS)
def test_a_weight_is_kept_as_it_was_given(value):
    assert Regularization(value).gamma == value
    assert Regularization(value).lam == 1.0 / value
    given_lambda = Regularization.from_lambda(value)
    assert given_lambda.lam == value, "not inverted twice"
    assert given_lambda.gamma == 1.0 / value


def test_inverting_twice_would_change_some_weights():
    values = np.random.default_rng(0).uniform(1.0, 2.0, 200)
    assert (1.0 / (1.0 / values) != values).any()
    assert (Regularization.from_lambda(values).lam == values).all()


@given(WEIGHTS, st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=5))
def test_the_ridge_is_one_over_gamma_v(gamma, v):
    with mp.workdps(40):
        for computed, weight in zip(Regularization(gamma).ridge(np.array(v)), v, strict=True):
            exact = 1 / (mpf(gamma) * mpf(weight))
            assert abs(mpf(float(computed)) - exact) <= 2.0**-52 * exact


@given(st.floats(-40.0, 40.0), st.floats(0.0, 1.0))
def test_a_point_of_a_search_counts_lambda_from_the_lift_on(t, lift):
    weight = Regularization.from_log_lambda(t, lift)
    with mp.workdps(60):
        exact = mp.exp(mpf(t)) + mpf(lift)
        assert abs(mpf(float(weight.lam)) - exact) <= 2.0**-51 * exact
        back = mp.log(mpf(float(weight.lam)) - mpf(lift)) if weight.lam > lift else None
    if back is not None and np.exp(t) > 1e-3 * lift:
        assert weight.log_lambda(lift) == pytest.approx(float(back), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("gamma", "weight"), [(1e-300, 1e-300), (1e300, 1e300)])
def test_a_ridge_outside_floating_point_is_refused(gamma, weight):
    with pytest.raises(DataError, match="leaves the range of floating point"):
        Regularization(gamma).ridge(np.array([1.0, weight]))
