"""Variables with attributes in a machine: certified as constraints, and the same answers as plain cvxpy."""

import cvxpy as cp
import numpy as np
import pytest
from lying_solver import let_it_lie
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from substrate import Machine, Substrate
from substrate.errors import DeclarationError
from substrate.kernels import RBF

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, size=(16, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=16)
TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}

#: Shape, attributes, and whether some entries of the optimum are at a bound.
KINDS = {
    "nonneg": ((6,), {"nonneg": True}),
    "pos": ((6,), {"pos": True}),
    "nonpos": ((6,), {"nonpos": True}),
    "neg": ((6,), {"neg": True}),
    "one number": ((), {"nonneg": True}),
    "bounds": ((6,), {"bounds": [-0.2, 0.3]}),
    "bounds of some entries": ((4,), {"bounds": [np.array([-np.inf, 0.2, 0.0, -0.1]), None]}),
    "bounds from above": ((4,), {"bounds": [None, np.array([0.1, -0.2, np.inf, 0.4])]}),
    "symmetric": ((3, 3), {"symmetric": True}),
    "diag": ((3, 3), {"diag": True}),
    "PSD": ((3, 3), {"PSD": True}),
    "NSD": ((3, 3), {"NSD": True}),
}


def penalty(v, values, pull=1.0):
    """A term that pulls v to the fitted values, and a little further down."""
    return 2.0 * cp.sum_squares(values[: v.size] - cp.vec(v, order="F")) + pull * cp.sum(v)


def dense(v):
    value = v.value
    return np.asarray(value.todense() if hasattr(value, "todense") else value)


def machine_of(kind):
    shape, attributes = KINDS[kind]
    s, v = Substrate(RBF(1.0), X, Y), cp.Variable(shape, name="v", **attributes)
    cost = 0.5 * cp.sum_squares(s.e) + 0.5 * s.squared_norm + penalty(v, s.f())
    return Machine(s, minimize=cost), v


def by_cvxpy(kind):
    """The same problem in a factor of the kernel matrix, with cvxpy's own attributes."""
    shape, attributes = KINDS[kind]
    values, vectors = np.linalg.eigh(RBF(1.0)(X))
    F = vectors * np.sqrt(np.maximum(values, 0.0))
    w, b, v = cp.Variable(16), cp.Variable(), cp.Variable(shape, **attributes)
    f = F @ w + b
    cost = 0.5 * cp.sum_squares(Y - f) + 0.5 * cp.sum_squares(w) + penalty(v, f)
    problem = cp.Problem(cp.Minimize(cost))
    problem.solve(solver="CLARABEL", **TIGHT)
    return problem.value, dense(v)


@pytest.mark.parametrize("kind", KINDS)
def test_an_attribute_is_certified_and_agrees_with_cvxpy(kind):
    machine, v = machine_of(kind)
    result = machine.solve()
    assert result.certificate.holds, str(result.certificate)
    value, expected = by_cvxpy(kind)
    assert_allclose(float(machine.problem.objective.value), value, rtol=1e-7)
    assert_allclose(dense(v), expected, atol=2e-5)


def test_constraints_beside_attributes_are_given_their_multipliers():
    s, v = Substrate(RBF(1.0), X, Y), cp.Variable(6, nonneg=True, name="v")
    total = cp.sum(v) <= 0.5
    cost = 0.5 * cp.sum_squares(s.e) + 0.5 * s.squared_norm + penalty(v, s.f(), pull=0.0)
    result = Machine(s, minimize=cost, subject_to=[total]).solve()
    assert result.certificate.holds
    assert_allclose(v.value.sum(), 0.5, atol=1e-6)
    assert total.dual_value > 0.0


@pytest.mark.parametrize("attribute", ["complex", "imag"])
def test_complex_variables_are_refused(attribute):
    s, v = Substrate(RBF(1.0), X, Y), cp.Variable(2, name="v", **{attribute: True})
    with pytest.raises(DeclarationError, match="a machine is of real numbers"):
        Machine(s, minimize=cp.sum_squares(s.e) + cp.norm(v))


def test_a_point_outside_of_an_attribute_is_not_certified(monkeypatch):
    """What an attribute demands is among the cones whose multipliers are checked."""
    machine, _ = machine_of("nonneg")

    def change(x, z, program, unit):
        x[max(program.var_id_to_col.values())] -= 1.0
        return x, z

    let_it_lie(monkeypatch, change)
    with pytest.warns(ConvergenceWarning):
        assert not machine.solve("CLARABEL").certificate.holds
