"""Machines without targets: one class, ranks and a density, in units of f."""

import cvxpy as cp
import numpy as np
import pytest
from lying_solver import let_it_lie
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from substrate import Machine, Substrate
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF


@pytest.fixture
def cloud():
    return np.random.default_rng(0).normal(size=(25, 2))


def one_class(s, rho, nu=0.2):
    """Most of the rows are above rho."""
    return 0.5 * s.squared_norm - rho + cp.sum(cp.pos(rho - s.f())) / (nu * s.n)


def test_one_class_has_the_answer_of_scikit_learn(cloud):
    from sklearn.svm import OneClassSVM

    s, rho = Substrate(RBF(1.0), cloud, bias=False), cp.Variable()
    result = Machine(s, minimize=one_class(s, rho)).solve()
    assert result.certificate.holds, str(result.certificate)
    peer = OneClassSVM(gamma=1.0, nu=0.2, tol=1e-10).fit(cloud)
    scale = 0.2 * 25  # its coefficients sum to nu n, ours to one
    assert_allclose(scale * (result.predict(cloud) - rho.value), peer.decision_function(cloud), atol=1e-6)
    assert str(result.certificate).startswith("Machine: holds; values of f within")
    assert "spread of f" in str(result.certificate)
    assert np.isnan(result.e).all()


def test_the_accuracy_is_measured_in_the_spread_of_f(cloud):
    """A machine of ranks with f a thousand times smaller has the same relative bound, and no absolute one."""
    first, second = cloud[:, 0].argsort()[-12:], cloud[:, 0].argsort()[:12]
    rows = []
    for unit in (1.0, 1e-3):
        s = Substrate(RBF(1.0), cloud, bias=False)
        apart = s.f()[first] - s.f()[second]
        result = Machine(s, minimize=0.5 * s.squared_norm / unit + cp.sum(cp.pos(unit - apart))).solve()
        assert result.certificate.holds, str(result.certificate)
        rows.append(result.certificate["accuracy"])
    spreads = [row.spread for row in rows]
    assert_allclose(spreads[0], 1e3 * spreads[1], rtol=1e-3)
    assert all(row.value <= 1e-3 * row.spread for row in rows)


def test_a_bias_is_free_and_a_scaled_point_of_another_machine_does_not_hold(cloud, monkeypatch):
    s = Substrate(RBF(1.0), cloud)
    machine = Machine(s, minimize=s.squared_norm + cp.sum_squares(s.f() - np.sin(cloud[:, 0])))
    result = machine.solve()
    with_targets = Substrate(RBF(1.0), cloud, np.sin(cloud[:, 0]))
    expected = Machine(with_targets, minimize=with_targets.squared_norm + cp.sum_squares(with_targets.e)).solve()
    assert_allclose(result.predict(cloud), expected.predict(cloud), atol=1e-7)
    let_it_lie(monkeypatch, lambda x, z, program, unit: (1.5 * x, z))
    with pytest.warns(ConvergenceWarning):
        assert not machine.solve("CLARABEL").certificate.holds


def test_a_basis_needs_no_targets_either(cloud):
    s, rho = Substrate(RBF(1.0), cloud, bias=False, basis=8), cp.Variable()
    result = Machine(s, minimize=one_class(s, rho)).solve()
    assert result.certificate.holds, str(result.certificate)
    assert result.alpha.shape == (8,)


def test_errors_without_targets_are_refused(cloud):
    s = Substrate(RBF(1.0), cloud)
    with pytest.raises(DeclarationError, match="has no targets, so f has no errors"):
        _ = s.e
    with pytest.raises(DeclarationError, match="needs labels y"):
        Substrate(RBF(1.0), cloud, task="classification")
    assert s.errors(cloud[:3], np.zeros(3)).shape == (3,)
    with pytest.raises(DataError, match="one entry per point"):
        s.errors(cloud[:3], np.zeros(4))
