"""What is easily done wrong with a machine: it is refused, or it is right."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.lin_ops import lin_utils
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import DataConversionWarning

from substrate import LinearPart, Machine, Substrate
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Componentwise, Linear


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=12)


def ridge(s):
    return 0.5 * s.squared_norm + 5.0 * cp.sum_squares(s.e)


# --- targets of one column ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_targets_of_one_column_are_a_vector_and_it_is_said(data, task):
    X, y = data
    y = y if task == "regression" else np.sign(y)
    with pytest.warns(DataConversionWarning, match=r"y of shape \(12, 1\) is one column"):
        column = Substrate(RBF(1.0), X, y[:, None], task)
    vector = Substrate(RBF(1.0), X, y, task)
    assert column.f().shape == column.e.shape == (12,)
    results = [Machine(s, minimize=ridge(s)).solve() for s in (column, vector)]
    assert_array_equal(results[0].f, results[1].f)
    assert results[0].predict(X[:3]).shape == (3,)


@pytest.mark.parametrize(
    "term",
    [
        lambda s, y: cp.sum_squares(y - s.f()),
        lambda s, y: cp.sum_squares(2.0 * s.f() - 3.0 * y),
        lambda s, y: cp.sum(cp.abs(cp.multiply(y, s.f()))),
        lambda s, y: cp.sum(cp.maximum(y, s.f())),
        lambda s, y: s.f() <= y + 10.0,
        lambda s, y: s.f() == y,
    ],
)
def test_a_vector_beside_a_column_of_numbers_is_refused(data, term):
    X, y = data
    s = Substrate(RBF(1.0), X, y)
    wrong = term(s, y[:, None])
    rules = [wrong] if isinstance(wrong, cp.Constraint) else []
    with pytest.raises(DeclarationError, match=r"12 x 12 matrix of all pairs; .*ravel"):
        Machine(s, minimize=ridge(s) + (0.0 if rules else wrong), subject_to=rules)


# --- expressions of a substrate outside of a machine ----------------------------------------------------------------

EXPRESSIONS = {
    "alpha": lambda s: s.alpha,
    "b": lambda s: s.b,
    "c": lambda s: s.c,
    "e": lambda s: s.e,
    "f": lambda s: s.f(),
    "f elsewhere": lambda s: s.f([[0.0, 0.0]]),
    "component": lambda s: s.component(1),
    "gradient": lambda s: s.gradient([[0.0, 0.0]], 0),
    "maximal variation": lambda s: s.maximal_variation,
    "norm": lambda s: s.norm,
    "squared norm": lambda s: s.squared_norm,
}


@pytest.mark.parametrize("role", EXPRESSIONS)
@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP", None])
@pytest.mark.covering
def test_a_plain_problem_is_refused(data, role, solver):
    X, y = data
    s = Substrate(Componentwise(RBF(1.0)), X, y)
    expression = EXPRESSIONS[role](s)
    for cost, rules in (
        (cp.sum_squares(expression), []),
        (cp.norm1(expression + 1.0), []),
        (cp.square(cp.Variable(name="free")), [cp.sum(expression) <= 1.0]),
    ):
        with pytest.raises(DeclarationError, match=r"is an expression of a substrate, .* Machine\(s, minimize"):
            cp.Problem(cp.Minimize(cost), rules).solve(solver=solver)
    assert all(leaf.value is None for leaf in expression.variables())


# --- messages and parameters ----------------------------------------------------------------------------------------


def test_a_linear_part_that_nothing_determines_is_named(data):
    X, y = data
    s, part = Substrate(RBF(1.0), X, y), LinearPart(cp.Variable(2))
    loss = cp.norm1(y - s.f() - part(X))
    words = str(Machine(s, minimize=0.5 * s.squared_norm + loss, predict=s + part).solve().certificate)
    assert "squares in the objective determine fitted values, but not sums of" in words
    assert "weights of the linear part" in words
    assert "neither" not in words
    bounded = Machine(s, minimize=0.5 * s.squared_norm + loss + 0.5 * cp.sum_squares(part.weights), predict=s + part)
    assert np.isfinite(bounded.solve().certificate.accuracy)
    nothing = Machine(s, minimize=loss + s.norm + cp.norm1(part.weights), predict=s + part).solve()
    assert "neither a squared loss" in str(nothing.certificate)


# --- threads and files ----------------------------------------------------------------------------------------------


def constrained(X, y):
    s = Substrate(RBF(1.0), X, y)
    return Machine(s, minimize=ridge(s), subject_to=[s.f(X[:3] + 0.2) <= 0.1, s.gradient(X[:2], 0) >= 0.0])


def partly_linear(X, y):
    s, part = Substrate(RBF(1.0), X, y), LinearPart(cp.Variable(2))
    return Machine(s, minimize=cp.sum_squares(y - s.f() - part(X)) + s.norm + cp.norm1(part.weights), predict=s + part)


def two_outputs(X, y):
    low, high = (Substrate(RBF(1.0), X, y + k, name=name) for k, name in ((0, "low"), (1, "high")))
    return Machine(low, high, minimize=ridge(low) + ridge(high), subject_to=[low.f() <= high.f()])


def sparse(X, y):
    s, zeta = Substrate(Linear() + RBF(1.0), X, y), cp.Parameter(nonneg=True, name="zeta")
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha))


@pytest.mark.parametrize("build", [constrained, partly_linear, two_outputs, sparse], ids=lambda build: build.__name__)
@pytest.mark.parametrize("solved", [True, False])
@pytest.mark.covering
def test_a_machine_can_be_written_and_read(data, monkeypatch, build, solved):
    X, y = data
    machine = build(X, y)
    given = {"zeta": 0.3} if build is sparse else {}
    result = machine.solve(**given) if solved else None
    written = pickle.dumps((machine, result))
    taken = [leaf.id for leaf in (*machine.problem.variables(), *machine.problem.parameters())]
    # as in another process, where cvxpy counts anew and gives its numbers to other variables
    monkeypatch.setattr(lin_utils.ID_COUNTER, "count", min(taken))
    other = cp.Variable(3)
    again, kept = pickle.loads(written)
    expected, found = machine.solve(**given).predict(X[:4]), again.solve(**given).predict(X[:4])
    for name in expected if isinstance(expected, dict) else (slice(None),):
        assert_allclose(found[name], expected[name], atol=1e-5)  # of a conic solver, with its columns in another order
        if kept is not None:
            assert_allclose(kept.predict(X[:4])[name], expected[name], atol=1e-5)
    leaves = [*again.problem.variables(), *again.problem.parameters()]
    assert len({leaf.id for leaf in (other, *leaves)}) == 1 + len(leaves)
