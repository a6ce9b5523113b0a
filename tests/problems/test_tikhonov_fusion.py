"""The fusion of (17)-(19): the declared machine at the best gamma, and no gamma that validates better."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import LSSVMRegressor, tikhonov_fusion
from substrate.datasets import motorcycle
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

X, Y = motorcycle()
TRAIN, VALID = slice(1, None, 2), slice(0, None, 2)
K, K_VAL = RBF(10.0)(X[TRAIN]), RBF(10.0)(X[VALID], X[TRAIN])
DATA = {"K": K, "y": Y[TRAIN], "K_val": K_VAL, "y_val": Y[VALID]}


def validation_error(gamma):
    model = LSSVMRegressor(RBF(10.0), gamma).fit(X[TRAIN], Y[TRAIN])
    return float(np.mean((Y[VALID] - model.predict(X[VALID])) ** 2))


def test_no_gamma_validates_better():
    """:equation [Pelckmans2005]_ (3), (18): the criterion against refits, and its minimum against a grid."""
    found = tikhonov_fusion.search(**DATA, gap=1e-6)
    assert_allclose(found.criterion[0], validation_error(found.gamma[0]), rtol=1e-8)
    low, high = found.gamma_range
    errors = [validation_error(gamma) for gamma in np.geomspace(max(low, 1e-3), min(high, 1e6), 45)]
    assert min(errors) >= found.criterion[0] * (1.0 - 1e-9)
    assert min(errors) >= found.lower_bound[0]
    assert found.is_closed


def test_the_closed_form_is_the_machine_at_that_gamma():
    """:equation [Pelckmans2005]_ (17): level 1 at the gamma found is the LS-SVM."""
    solved = tikhonov_fusion.closed_form(**DATA)
    model = LSSVMRegressor(RBF(10.0), float(solved["gamma"])).fit(X[TRAIN], Y[TRAIN])
    assert_allclose(solved["support_values"], model.support_values_, rtol=1e-8, atol=1e-8)
    assert_allclose(solved["bias"], model.bias_, rtol=1e-9)
    assert_allclose(solved["validation_errors"], Y[VALID] - model.predict(X[VALID]), atol=1e-8)
    assert_allclose(solved["errors"], Y[TRAIN] - model.predict(X[TRAIN]), atol=1e-8)


def test_the_declared_problem_agrees_and_its_gamma_stays_a_parameter():
    """:equation [Pelckmans2005]_ (19): the declared optimum validates better than other values of gamma."""
    declared = tikhonov_fusion.declare(**DATA).solve("CLARABEL")
    certificate = declared.certificate(against=tikhonov_fusion.closed_form(**DATA))
    assert certificate.holds
    assert certificate["gap of gamma"].passes
    assert certificate["gap of gamma"].tolerance == 1e-4
    best = float(np.mean(declared.validation_errors**2))
    for factor in (0.1, 10.0):
        gamma = declared.parameters["gamma"]
        gamma.value = factor * float(gamma.value)
        declared.solve("CLARABEL")
        assert float(np.mean(declared.validation_errors**2)) > best
        gamma.value = float(gamma.value) / factor


def test_a_range_is_kept_and_bad_input_is_refused():
    found = tikhonov_fusion.search(**DATA, gamma_range=(1e-3, 1e-1))
    assert 1e-3 <= found.gamma[0] <= 1e-1 * (1.0 + 1e-12)
    with pytest.raises(DataError, match="empty"):
        tikhonov_fusion.search(K, Y[TRAIN], K_VAL[:0], Y[:0])
    with pytest.raises(DataError, match="K_val"):
        tikhonov_fusion.search(K, Y[TRAIN], K_VAL[:, 1:], Y[VALID])
    with pytest.raises(DeclarationError, match="task"):
        tikhonov_fusion.search(**DATA, task="ranking")
