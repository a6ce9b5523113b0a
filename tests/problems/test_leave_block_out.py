"""The page of refits without blocks of rows, and the page of a nonlinear autoregression."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import leave_block_out, ls_svm_regression, narx_ls_svm
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF
from substrate.windows import windowize

RNG = np.random.default_rng(7)
X = RNG.normal(size=(14, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=14)
K = RBF(1.5)(X)


@pytest.mark.parametrize(
    "choice", [{"groups": 3}, {"groups": list("aabbbaccccddda")}, {"reach": 1}, {"reach": 0}], ids=str
)
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 14)], ids=["equal", "weighted"])
def test_declared_refits_are_the_closed_form(choice, weights):
    declared = leave_block_out.declare(K, Y, 5.0, weights, **choice).solve()
    assert declared.certificate().holds
    exact = leave_block_out.closed_form(K, Y, 5.0, weights, **choice)
    assert_allclose(declared.solution()["residuals"], exact["residuals"], atol=1e-6)


def test_residuals_by_hand():
    """A machine of two rows has the value of the other: of y = (1, 3) without one row the residuals are -2 and 2."""
    exact = leave_block_out.closed_form(np.eye(2), [1.0, 3.0], 1.0, reach=0)
    assert_allclose(exact["residuals"], [-2.0, 2.0])


def test_blocks_are_asked_for_once():
    with pytest.raises(DeclarationError, match="give groups="):
        leave_block_out.closed_form(K, Y, 1.0)
    with pytest.raises(DeclarationError, match="give groups="):
        leave_block_out.declare(K, Y, 1.0, groups=2, reach=1)
    with pytest.raises(DataError, match="for each of the 14 rows"):
        leave_block_out.closed_form(K, Y, 1.0, groups=[0, 0, 0, 1, 1, 1])
    with pytest.raises(DataError, match="fewer than two are left"):
        leave_block_out.closed_form(K, Y, 1.0, reach=13)


def test_an_autoregression_is_an_ls_svm_on_windows():
    y = np.sin(0.7 * np.arange(25)) + 0.05 * RNG.normal(size=25)
    windows = windowize(y, lags=2)
    gram = RBF(1.0)(windows.X)
    declared = narx_ls_svm.declare(gram, windows.y, 10.0).solve()
    assert declared.certificate().holds
    exact = narx_ls_svm.closed_form(gram, windows.y, 10.0)
    assert_allclose(declared.solution()["support_values"], exact["support_values"], atol=1e-5)
    assert_allclose(exact["bias"], ls_svm_regression.closed_form(gram, windows.y, 10.0)["bias"])
