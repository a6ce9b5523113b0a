"""Several substrates are outputs or summands, as the machine says; what it says is what it predicts and certifies."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate import LinearPart, Machine, Substrate
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear

LEVELS = {"low": 0.1, "median": 0.5, "high": 0.9}


def pinball(e, level):
    return cp.sum(cp.maximum(level * e, (level - 1.0) * e))


def case(n=24, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, d))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * X[:, -1] + 0.3 * rng.normal(size=n)


def quantiles(X, y):
    """Three quantile machines that do not cross at the training points, as one problem."""
    parts = [Substrate(RBF(1.0), X, y, name=name) for name in LEVELS]
    low, median, high = parts
    cost = sum(0.05 * s.squared_norm + pinball(s.e, level) for s, level in zip(parts, LEVELS.values(), strict=True))
    return parts, cost, [low.f() <= median.f(), median.f() <= high.f()]


@pytest.fixture(scope="module")
def three():
    X, y = case()
    parts, cost, rules = quantiles(X, y)
    return X, parts, Machine(*parts, minimize=cost, subject_to=rules).solve()


def test_named_substrates_are_outputs_by_name(three):
    X, parts, result = three
    values = result.predict(X[:5])
    assert list(values) == list(LEVELS)
    for s in parts:
        assert_array_equal(values[s.name], result[s].predict(X[:5]))
        assert result[s.name] is result[s]
    assert (values["low"] <= values["high"] + 1e-6).all()
    with pytest.raises(KeyError, match="no substrate of the machine is named 'mean'"):
        _ = result["mean"]


def test_two_outputs_that_share_a_component():
    """Two targets, a function in common and one of their own each: outputs are sums, by name."""
    X, y = case()
    other = y + 0.5 * X[:, 1]
    common = Substrate(RBF(1.0), X, y, bias=False, name="common")
    first, second = Substrate(Linear(), X, y, name="first"), Substrate(Linear(), X, other, name="second")
    e1, e2 = first.e - common.f(), second.e - common.f()
    result = Machine(
        common,
        first,
        second,
        minimize=common.squared_norm
        + first.squared_norm
        + second.squared_norm
        + 5.0 * cp.sum_squares(cp.hstack([e1, e2])),
        predict={"first": common + first, "second": common + second},
    ).solve()
    assert result.certificate.holds, str(result.certificate)
    values = result.predict(X)
    assert_allclose(values["first"], result[common].f + result[first].f)
    assert_allclose(values["second"], other - e2.value, atol=1e-7)
    # one linear system: the kernel matrix of both tasks together, with a bias each
    n, K, L, Z = 24, RBF(1.0)(X), Linear()(X), np.zeros((24, 24))
    joint = np.block([[K, K], [K, K]]) + np.block([[L, Z], [Z, L]])
    ones = np.kron(np.eye(2), np.ones((n, 1)))
    system = np.block([[joint + np.eye(2 * n) / 5.0, ones], [ones.T, np.zeros((2, 2))]])
    solved = np.linalg.solve(system, np.concatenate([y, other, np.zeros(2)]))
    expected = joint @ solved[: 2 * n] + ones @ solved[2 * n :]
    assert_allclose(np.concatenate([values["first"], values["second"]]), expected, atol=1e-6)


def test_an_answer_is_bounded_where_the_output_is():
    """Nothing is squared of the other substrate, so only what is predicted has a bound."""
    X, y = case()
    s, other = Substrate(RBF(1.0), X, y, name="f"), Substrate(RBF(1.0), X, y**2, name="other")
    cost = s.squared_norm + cp.sum_squares(s.e) + cp.norm1(other.e) + cp.norm1(other.alpha)
    predicted = Machine(s, other, minimize=cost, predict=s).solve().certificate
    assert predicted.holds, str(predicted)
    assert predicted.answer.about == "fitted values"
    assert predicted.accuracy <= 1e-3 * predicted.spread
    assert Machine(s, other, minimize=cost).solve().certificate.answer is None


# --- variables of one's own -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["columns", "features"])
def test_a_partly_linear_model_predicts_new_rows(form):
    """Unpenalised linear weights beside a kernel, against the bordered linear system."""
    X, y = case()
    new, _ = case(n=7, seed=3)
    w = cp.Variable(2, name="w")
    part = {
        "columns": LinearPart(w, columns=[1, 0]),
        "features": LinearPart(w, features=lambda X: np.column_stack([X[:, 1], X[:, 0]])),
    }[form]
    s = Substrate(RBF(0.7), X, y)
    machine = Machine(s, minimize=0.5 * s.squared_norm + cp.sum_squares(s.e - part(X)), predict=s + part)
    result = machine.solve()
    assert result.certificate.holds, str(result.certificate)
    assert_allclose(part(new).value, new[:, [1, 0]] @ w.value)
    T = np.column_stack([np.ones(24), X[:, 1], X[:, 0]])
    system = np.block([[RBF(0.7)(X) + 0.5 * np.eye(24), T], [T.T, np.zeros((3, 3))]])
    solved = np.linalg.solve(system, np.append(y, np.zeros(3)))
    expected = RBF(0.7)(new, X) @ solved[:24] + np.column_stack([np.ones(7), new[:, 1], new[:, 0]]) @ solved[24:]
    assert_allclose(result.predict(new), expected, atol=1e-6)
    kept = result.predict(new)
    w.save_value(np.zeros(2))
    assert_array_equal(result.predict(new), kept, "a result does not change with the variable")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LinearPart([0.0, 0.0]), "are a cvxpy.Variable of one or two dimensions"),
        (
            lambda: LinearPart(cp.Variable(2, nonneg=True)),
            "without attributes; write what restricts them as constraints",
        ),
        (lambda: LinearPart(cp.Variable(2), columns=[0]), r"columns must be 2 column numbers, one per weight"),
        (lambda: LinearPart(cp.Variable(2), columns=["a", "b"]), "column numbers"),
        (lambda: LinearPart(cp.Variable(1), columns=[0], features=len), "columns or features, not both"),
        (lambda: LinearPart(cp.Variable(1), features=3), "must be a function of X"),
        (lambda: LinearPart(cp.Variable(3)).matrix(np.ones((4, 2))), "takes 3 columns of X, which has 2"),
        (lambda: LinearPart(cp.Variable(1), columns=5).matrix(np.ones((4, 2))), r"columns \[5\] of X, which has 2"),
        (lambda: LinearPart(cp.Variable(2), features=lambda X: X[:, :1]).matrix(np.ones((4, 2))), r"shape \(4, 2\)"),
    ],
)
def test_a_linear_part_that_makes_no_sense_is_refused(make, words):
    with pytest.raises((DataError, DeclarationError), match=words):
        make()


# --- refusals -------------------------------------------------------------------------------------------------------


def test_a_prediction_that_makes_no_sense_is_refused():
    X, y = case()
    s, stranger, w = Substrate(RBF(1.0), X, y), Substrate(RBF(1.0), X, y), cp.Variable(2, name="w")
    cost = s.squared_norm + cp.sum_squares(s.e)
    for predict, words in [
        ([s], "predict is a substrate, an affine expression of substrates and linear parts"),
        ({}, "predict is a substrate, an affine"),
        ({1: s}, "are named by text, received 1"),
        ({"f": s.f()}, "output 'f' of predict must be a substrate, a linear part or an affine"),
        (stranger, "uses a substrate that the machine was not given"),
        ({"f": s + stranger}, "output 'f' of predict uses a substrate that the machine was not given"),
        (s + LinearPart(w), "predict uses the weights w, which are no variable that a term or a constraint"),
        (s + LinearPart(np.zeros(2)), "which are no variable that a term"),
    ]:
        with pytest.raises(DeclarationError, match=words):
            Machine(s, minimize=cost, predict=predict)
    for sum_ in (lambda: s + X @ w, lambda: s + np.inf, lambda: X[:, 0] + s):
        with pytest.raises(DeclarationError, match=r"made of substrates, linear parts, .*received .*LinearPart\(w"):
            sum_()
    with pytest.raises(DeclarationError, match="twice in a sum"):
        _ = s + stranger + s
