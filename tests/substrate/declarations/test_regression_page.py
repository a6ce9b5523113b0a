"""The data of a regression page: what they refuse, and the unit of y in which the trivial machine costs 1."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.declarations.regression_page import RegressionData, declared_targets
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

RNG = np.random.default_rng(0)
X = RNG.normal(size=(15, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=15)
V = RNG.uniform(0.5, 2.0, size=15)


def data(y=Y, gamma=3.0, weights=V):
    return RegressionData.of(RBF(1.5)(X), y, gamma, weights)


def test_the_coordinates_are_those_of_the_kernel_matrix():
    given = data()
    assert_allclose(given.R @ given.R.T, RBF(1.5)(X), atol=1e-12)
    assert_array_equal(given.gamma_v, 3.0 * V)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_in_its_unit_the_constant_machine_costs_one(scale):
    given = data(scale * (Y + 3.0))
    assert_allclose(replace(given, y=given.y / given.unit()).cost, 1.0, rtol=1e-12)


@pytest.mark.parametrize(("constant", "unit"), [(0.0, 1.0), (5.0, 5.0), (-2e-7, 2e-7)])
def test_a_constant_target_is_its_own_unit(constant, unit):
    assert data(np.full(15, constant)).unit() == unit


def test_units_are_the_sizes_at_the_machine_that_fits_nothing():
    units = data().units()
    assert_allclose(units["support_values"], np.abs(3.0 * V * Y).max())
    assert units["bias"] == units["errors"] == np.abs(Y).max()


@pytest.mark.parametrize("factor", [1e60, 1e-60, 1e200])
def test_targets_that_cannot_be_squared_are_refused(factor):
    with pytest.raises(DataError, match=r"max\|y\| is .* measure y in other units"):
        declared_targets(factor * Y, 15)


def test_what_leaves_floating_point_is_refused():
    with pytest.raises(DataError, match=r"1/\(gamma v\) leaves the range"):
        data(gamma=1e300, weights=np.full(15, 1e300))
    with pytest.raises(DeclarationError, match="gamma"):
        data(gamma=-1.0)
