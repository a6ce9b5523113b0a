"""Outputs that are affine expressions of functions and variables, on different inputs, and labels."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate import Column, LinearPart, Machine, Substrate
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear


def case(n=24, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * np.cos(X[:, 0]) + 0.1 * rng.normal(size=n)


def test_a_coefficient_that_varies_with_an_input():
    """y = f(x) + z g(x), as one machine; against the one kernel that it has, k + z k z'."""
    X, y = case()
    level, slope = Substrate(RBF(1.0), X[:, :1], y), Substrate(RBF(1.0), X[:, :1], y, bias=False)
    z = X[:, 1]
    errors = y - level.f() - cp.multiply(z, slope.f())
    machine = Machine(
        level,
        slope,
        minimize=0.5 * level.squared_norm + 0.5 * slope.squared_norm + 5.0 * cp.sum_squares(errors),
        predict=level.on(0) + slope.on(0) * Column(1),
    )
    result = machine.solve()
    assert result.certificate.holds, str(result.certificate)
    K = RBF(1.0)(X[:, :1])
    joint = K + np.outer(z, z) * K
    system = np.block([[joint + np.eye(24) / 10.0, np.ones((24, 1))], [np.ones((1, 24)), np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.append(y, 0.0))
    assert_allclose(result.predict(X), joint @ solved[:24] + solved[24], atol=1e-6)
    new = case(5, seed=1)[0]
    expected = result[level].predict(new[:, :1]) + new[:, 1] * result[slope].predict(new[:, :1])
    assert_allclose(result.predict(new), expected, rtol=1e-12)
    with pytest.raises(DataError, match="takes column 1 of X, which has 1"):
        result.predict(new[:, :1])


def test_differences_multiples_numbers_and_thresholds():
    X, y = case()
    low, high = (Substrate(RBF(1.0), X, y, name=name) for name in ("low", "high"))
    shift = cp.Variable(name="shift")
    tilted = [cp.sum(cp.maximum(q * s.e, (q - 1.0) * s.e)) for q, s in ((0.2, low), (0.8, high))]
    cost = sum(tilted) + 0.1 * low.squared_norm + 0.1 * high.squared_norm + cp.square(shift - 2.0)
    width = {"width": high - low, "middle": (low + high) / 2, "above": 1.0 - 2.0 * low + shift, "same": low + 3 * low}
    result = Machine(low, high, minimize=cost, predict=width).solve()
    assert result.certificate.holds, str(result.certificate)
    bottom, top = result[low].predict(X), result[high].predict(X)
    found = result.predict(X)
    assert_allclose(found["width"], top - bottom)
    assert_allclose(found["middle"], (top + bottom) / 2.0)
    assert_allclose(found["above"], 1.0 - 2.0 * bottom + shift.value)
    assert_allclose(found["same"], 4.0 * bottom)
    assert_allclose(shift.value, 2.0, atol=1e-4)


def test_what_is_bounded_is_the_output_with_its_weights():
    """Only the weighted sum is in the loss: its bound is true, against a closed form."""
    X, y = case()
    s, w = Substrate(RBF(1.0), X, y), cp.Variable(1)
    u = 1.0 + X[:, 1] ** 2
    errors = y - cp.multiply(u, s.f()) - X[:, :1] @ w
    machine = Machine(
        s,
        minimize=0.5 * s.squared_norm + 5.0 * cp.sum_squares(errors),
        predict=s * (lambda rows: 1.0 + rows[:, 1] ** 2) + LinearPart(w, columns=[0]),
    )
    result = machine.solve()
    assert result.certificate.holds, str(result.certificate)
    rows = [row for row in result.certificate.answer.each if "sums" in row.about]
    assert len(rows) == 1
    assert rows[0].about.startswith("values of f")
    K = np.outer(u, u) * RBF(1.0)(X)
    Z = np.column_stack([u, X[:, 0]])
    system = np.block([[K + np.eye(24) / 10.0, Z], [Z.T, np.zeros((2, 2))]])
    solved = np.linalg.solve(system, np.append(y, np.zeros(2)))
    exact = K @ solved[:24] + Z @ solved[24:]
    assert np.sqrt(np.mean((result.predict(X) - exact) ** 2)) <= rows[0].value < 1e-4


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_labels_by_the_sign_of_one_output(task):
    X, y = case()
    labels = np.sign(y)
    s = Substrate(RBF(1.0), X, labels, task)
    loss = cp.sum(cp.pos(s.e)) if task == "classification" else cp.sum_squares(s.e)
    machine = Machine(s, minimize=0.1 * s.squared_norm + loss, task="classification")
    result = machine.solve()
    values = result.decision_function(X)
    assert_array_equal(result.predict(X), np.where(values < 0.0, -1.0, 1.0))
    assert (result.predict(X) == labels).mean() > 0.9
    again = pickle.loads(pickle.dumps(machine)).solve()
    assert_array_equal(again.predict(X), result.predict(X))


def test_labels_by_the_largest_of_several_outputs():
    X, _ = case(45)
    names = np.array(["left", "middle", "right"])
    kinds = np.digitize(X[:, 0], [-0.7, 0.7])
    parts = [Substrate(RBF(1.0), X, 2.0 * (kinds == k) - 1.0, name=name) for k, name in enumerate(names)]
    cost = sum(0.1 * s.squared_norm + cp.sum_squares(s.e) for s in parts)
    result = Machine(parts, minimize=cost, task="classification").solve()
    assert (result.predict(X) == names[kinds]).mean() > 0.9
    together = Substrate(Linear() + RBF(1.0), X, 2.0 * np.equal.outer(kinds, np.arange(3)) - 1.0)
    result = Machine(
        together, minimize=0.1 * together.squared_norm + cp.sum_squares(together.e), task="classification"
    ).solve()
    assert (result.predict(X) == kinds).mean() > 0.9


def test_what_is_no_output_is_refused():
    X, y = case()
    s = Substrate(RBF(1.0), X, y)
    cost = s.squared_norm + cp.sum_squares(s.e)
    for make, reason in [
        (lambda: s + y, "received ndarray"),
        (lambda: s + cp.Variable(2), "received Variable"),
        (lambda: s * s, "received Substrate"),
        (lambda: s * y, "received ndarray"),
        (lambda: s * np.inf, "must be finite"),
        (lambda: s / 0.0, "a number that is not zero"),
        (lambda: s.on(), "columns are numbers from 0 on"),
        (lambda: s.on(-1), "columns are numbers from 0 on"),
        (lambda: (s * Column(0)).on(1), "before anything is multiplied"),
        (lambda: s + s, "write 2.0"),
        (
            lambda: Machine(s, minimize=cost, predict=(s - s * 1.0) * 0.0 + cp.Variable(nonneg=True)),
            "without attributes",
        ),
        (lambda: Machine(s, minimize=cost, task="regression"), "task is 'classification' for labels"),
        (lambda: Machine(s, minimize=cost, predict=s - cp.Variable(name="w")), "weights w, which are no variable"),
    ]:
        with pytest.raises(DeclarationError, match=reason):
            make()
    wrong = Machine(s, minimize=cost, predict=s * (lambda rows: rows)).solve
    with pytest.raises(DataError, match="a factor of an output"):
        wrong().predict(X)
