"""Derivatives of predictions in parameters, against differences of solutions."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import LinearPart, Machine, Substrate
from substrate.errors import DeclarationError, SolverError
from substrate.kernels import RBF

RNG = np.random.default_rng(11)
N = 16
X = RNG.standard_normal((N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.standard_normal(N)
LABELS = np.where(np.median(Y) < Y, 1.0, -1.0)
NEW = RNG.standard_normal((6, 2))


def by_rows(loss, **options):
    C = cp.Parameter(nonneg=True, name="C", value=2.0)
    s = Substrate(RBF(1.0), X, Y, **options)
    return Machine(s, minimize=0.5 * s.squared_norm + C * loss(s.f()))


def width():
    s, C = Substrate(RBF(1.0), X, Y), cp.Parameter(nonneg=True, name="C", value=0.1)
    return Machine(s, minimize=0.5 * s.squared_norm + 2.0 * cp.sum(cp.pos(cp.abs(s.e) - C)))


def bounded():
    s, C = Substrate(RBF(1.0), X, Y), cp.Parameter(name="C", value=0.4)
    return Machine(s, minimize=s.squared_norm + 3.0 * cp.sum_squares(s.e), subject_to=[s.f() <= C, s.f(NEW) >= -0.6])


def largest():
    s, C = Substrate(RBF(1.0), X, Y), cp.Parameter(nonneg=True, name="C", value=3.0)
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.norm_inf(s.e) + cp.sum_squares(s.e))


def several():
    C = cp.Parameter(nonneg=True, name="C", value=2.0)
    low, high = Substrate(RBF(1.0), X, Y, name="low"), Substrate(RBF(2.0), X, Y, name="high")
    cost = low.squared_norm + high.squared_norm + C * cp.sum_squares(low.e) + cp.sum_squares(high.e)
    return Machine(low, high, minimize=cost, subject_to=[low.f() <= high.f()])


def partly_linear():
    s, w, C = Substrate(RBF(1.0), X, Y), cp.Variable(1), cp.Parameter(nonneg=True, name="C", value=2.0)
    part = LinearPart(w, columns=[1])
    cost = s.squared_norm + C * cp.sum_squares(s.e - part(X)) + cp.sum_squares(w)
    return Machine(s, minimize=cost, subject_to=[w <= 0.1], predict=s + part)


MACHINES = {
    "squared": lambda: by_rows(lambda f: cp.sum_squares(Y - f)),
    "tube": lambda: by_rows(lambda f: cp.sum(cp.pos(cp.abs(Y - f) - 0.1))),
    "pinball": lambda: by_rows(lambda f: cp.sum(cp.maximum(0.8 * (Y - f), -0.2 * (Y - f)))),
    "huber": lambda: by_rows(lambda f: cp.sum(cp.huber(Y - f, 0.2))),
    "hinge": lambda: by_rows(lambda f: cp.sum(cp.pos(1.0 - cp.multiply(LABELS, f)))),
    "logistic": lambda: by_rows(lambda f: cp.sum(cp.logistic(-cp.multiply(LABELS, f)))),
    "no bias": lambda: by_rows(lambda f: cp.norm1(Y - f), bias=False),
    "width": width,
    "bounded": bounded,
    "largest": largest,
    "several": several,
    "partly linear": partly_linear,
}


def values_of(prediction):
    parts = [prediction[name] for name in sorted(prediction)] if isinstance(prediction, dict) else [prediction]
    return np.concatenate(parts)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.some_cases(5)
def test_it_is_the_limit_of_differences(name):
    machine = MACHINES[name]()
    C = float(machine._parameters()[0].value)
    result = machine.solve(C=C)
    found = values_of(result.sensitivity("C").predict(NEW))
    assert machine._parameters()[0].value == C
    step = 1e-4 * C
    over, under = (values_of(machine.solve(C=C + sign * step).predict(NEW)) for sign in (1.0, -1.0))
    difference = (over - under) / (2.0 * step)
    assert np.abs(difference).max() > 1e-4, "nothing changes"
    assert_allclose(found, difference, atol=2e-4 * np.abs(difference).max())
    # a later solve does not change what it is asked of
    assert_allclose(values_of(result.sensitivity("C").predict(NEW)), found, atol=1e-9)


def test_it_says_what_it_assumes_and_refuses_where_that_fails():
    result = MACHINES["tube"]().solve()
    sensitivity = result.sensitivity("C")
    assert "strict complementarity" in sensitivity.assumes
    assert "derivative in C" in repr(sensitivity)
    with pytest.raises(DeclarationError, match="no parameter 'D'"):
        result.sensitivity("D")
    with pytest.raises(DeclarationError, match="not part of a file or of a pickle"):
        pickle.loads(pickle.dumps(result)).sensitivity("C")
    s, C = Substrate(RBF(1.0), X, Y), cp.Parameter(N, nonneg=True, name="C", value=np.ones(N))
    with pytest.raises(DeclarationError, match="entries"):
        Machine(s, minimize=s.squared_norm + C @ cp.square(s.e)).solve().sensitivity("C")
    # the bound is met exactly where the machine without it would be
    t, C = Substrate(RBF(1.0), X, Y), cp.Parameter(name="C", value=10.0)
    machine = Machine(t, minimize=t.squared_norm + cp.sum_squares(t.e), subject_to=[t.f()[3] <= C])
    edge = float(machine.solve().f[3])
    with pytest.raises(SolverError, match="strict complementarity fails"):
        machine.solve(C=edge).sensitivity("C")


def test_cones_that_are_not_quadratic_are_refused():
    s, C = Substrate(RBF(1.0), X, Y), cp.Parameter(nonneg=True, name="C", value=1.0)
    machine = Machine(s, minimize=s.squared_norm + C * cp.norm(s.e))
    with pytest.raises(DeclarationError, match="quadratic programs"):
        machine.solve().sensitivity("C")
