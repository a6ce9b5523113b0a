"""The effective number of parameters: a trace of the hat matrix, whatever the machine is stored as."""

import numpy as np
import pytest
from bordered_system import hat_matrix
from numpy.testing import assert_allclose
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from variants import robust_machine

from problems import LSSVMClassifier, LSSVMRegressor
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Linear

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (30, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(30)
WEIGHTS = RNG.uniform(0.5, 2.0, 30)


def test_it_is_the_sum_over_eigenvalues():
    """:place [Suykens2002b]_ chapter 4: the effective number of parameters"""
    K = RBF(1.0)(X)
    P = np.eye(30) - 1.0 / 30
    values = np.linalg.eigvalsh(P @ K @ P)
    model = LSSVMRegressor(RBF(1.0), 7.0).fit(X, Y)
    assert_allclose(model.effective_parameters_, 1.0 + np.sum(7.0 * values / (1.0 + 7.0 * values)), rtol=1e-9)
    assert_allclose(LSSVMRegressor(RBF(1.0), 1e-12).fit(X, Y).effective_parameters_, 1.0, rtol=1e-9)


@pytest.mark.parametrize("kernel", [RBF(1.0), Linear()], ids=["rbf", "features"])
def test_it_is_the_trace_with_weights_and_for_every_output(kernel):
    """:place [Cawley2004]_ section 2.6: against the trace of refits of unit vectors."""
    expected = [np.trace(hat_matrix(kernel(X), 1.0 / (gamma * WEIGHTS))) for gamma in (5.0, 0.1)]
    both = LSSVMRegressor(kernel, (5.0, 0.1)).fit(X, np.column_stack([Y, -Y]), WEIGHTS)
    assert_allclose(both.effective_parameters_, expected, rtol=1e-8)
    robust = robust_machine(kernel, 5.0).fit(X, Y)
    assert_allclose(robust.effective_parameters_, np.trace(hat_matrix(kernel(X), robust.ridge_)), rtol=1e-8)


def test_classes_a_linear_part_and_a_matrix():
    A, labels = make_blobs(30, centers=3, random_state=0)
    for coding in ("one_vs_rest", "minimum_output"):
        model = LSSVMClassifier(RBF(3.0), coding=coding).fit(A, labels)
        assert_allclose(model.effective_parameters_, model.leave_one_out().degrees_of_freedom, rtol=1e-10)
    partly = LSSVMRegressor(RBF(1.0), linear_columns=(1,)).fit(X, Y)
    assert_allclose(partly.effective_parameters_, partly.leave_one_out().degrees_of_freedom, rtol=1e-8)
    matrix = LSSVMRegressor("precomputed").fit(RBF(1.0)(X), Y)
    assert not hasattr(matrix, "effective_parameters_")
    with pytest.raises(AttributeError, match="leave_one_out"):
        _ = matrix.effective_parameters_


def test_before_a_fit_and_with_a_shape_there_is_none():
    with pytest.raises(NotFittedError):
        _ = LSSVMRegressor().effective_parameters_
    shaped = LSSVMRegressor(RBF(2.0), 1.0, bounds=(-5.0, 5.0)).fit(X[:, :1], Y)
    with pytest.raises(DeclarationError, match="effective_parameters_"):
        _ = shaped.effective_parameters_
