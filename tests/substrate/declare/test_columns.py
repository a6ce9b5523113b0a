"""A target of several columns: one kernel matrix, one coefficient vector and one bias per column."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import Machine, Substrate, fuse
from substrate.errors import DataError
from substrate.kernels import RBF, Componentwise

KERNEL = RBF(1.0)


def case(n=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    Y = np.column_stack([np.sin(2.0 * X[:, 0]), 3.0 + X[:, 1] ** 2, X[:, 0] * X[:, 1]])
    return X, Y + 0.2 * rng.normal(size=(n, 3))


def labels():
    X, Y = case()
    return X, np.where(np.median(Y, axis=0) < Y, 1.0, -1.0)


def ridge(s):
    return 0.5 * s.squared_norm + cp.sum_squares(s.e)


def solved(machine, **parameters):
    result = machine.solve(**parameters)
    assert result.certificate.holds, str(result.certificate)
    return result


def test_everything_has_the_columns_of_y():
    X, Y = case()
    s = Substrate(Componentwise(KERNEL), X, Y)
    new = X[:4] + 0.1
    for expression, shape in [
        (s.alpha, (20, 3)),
        (s.b, (3,)),
        (s.c, (20, 3)),
        (s.e, (20, 3)),
        (s.f(), (20, 3)),
        (s.f(new), (4, 3)),
        (s.component(1, new), (4, 3)),
        (s.errors(new, Y[:4]), (4, 3)),
        (s.squared_norm, ()),
        (s.norm, ()),
        (s.maximal_variation, (2,)),
    ]:
        assert expression.shape == shape
    result = solved(Machine(s, minimize=ridge(s)))
    for values, shape in [
        (result.alpha, (20, 3)),
        (result.b, (3,)),
        (result.c, (20, 3)),
        (result.e, (20, 3)),
        (result.f, (20, 3)),
        (result.predict(new), (4, 3)),
        (result.component(0, new), (4, 3)),
        (result.maximal_variation, (2,)),
    ]:
        assert values.shape == shape
    total = result.component(0, new) + result.component(1, new) + result.b
    assert_allclose(total, result.predict(new), atol=1e-9)


def test_shared_structure_is_detected_by_all_columns_together():
    X, Y = case()
    X = np.column_stack([X, np.random.default_rng(1).uniform(-2.0, 2.0, size=20)])
    s = Substrate(Componentwise(KERNEL), X, Y[:, :2])
    result = solved(Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 1.5 * cp.sum(s.maximal_variation)))
    largest = [np.abs(result.component(part, X)).max() for part in range(3)]
    assert_allclose(result.maximal_variation, largest, rtol=1e-6)
    assert_allclose(s.maximal_variation.value, largest, rtol=1e-6)


def test_every_column_is_checked():
    X, Y = case()
    s = Substrate(KERNEL, X, Y)
    machine = Machine(s, minimize=ridge(s))
    assert machine.solve().certificate.answer.passes
    conic = machine.conic
    z = conic.compiled[0].z
    for column in range(3):
        kept = z.value
        z.save_value(kept + np.eye(3)[column])
        answer, _ = conic.check.row(conic.witness)
        assert not answer.passes
        assert answer.about == f"fitted values, column {column}"
        assert_allclose(answer.spread, Y[:, column].std())
        z.save_value(kept)


# --- fused ----------------------------------------------------------------------------------------------------------


def sparse(X, Y, **options):
    s, zeta = Substrate(KERNEL, X, Y, **options), cp.Parameter(nonneg=True, name="zeta")
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + zeta * cp.sum(cp.abs(s.alpha)))


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_error_of_the_columns_is_the_sum_of_their_own(task):
    X, Y = (case if task == "regression" else labels)()
    train, V, W = slice(0, 9), X[9:], Y[9:, :2]
    Y = Y[train, :2]
    best = fuse(sparse(X[train], Y, task=task), "zeta", validation=(V, W), gap=0.05)
    assert best.certificate.holds, str(best.certificate)
    own = np.mean((W - best.predict(V)) ** 2, axis=0)
    assert_allclose(best.validation_error, own.sum(), rtol=1e-4)
    for at in (0.05, 0.5):
        alone = [
            np.mean((W[:, j] - sparse(X[train], Y[:, j], task=task).solve(zeta=at).predict(V)) ** 2) for j in (0, 1)
        ]
        assert best.lower_bound <= sum(alone) * (1.0 + 1e-6)


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (lambda Y: Y[:, 0], "y_val must be 2-D"),
        (lambda Y: Y[:, :2], "must have 3 columns, as the output has, received 2"),
        (lambda Y: Y[1:], "expected 20, received 19"),
    ],
)
def test_validation_of_other_columns_is_refused(targets, words):
    X, Y = case()
    with pytest.raises(DataError, match=words):
        fuse(sparse(X, Y), "zeta", validation=(X, targets(Y)))
    s = Substrate(KERNEL, X, Y)
    with pytest.raises(DataError, match=r"expected \(4, 3\), received \(4, 2\)"):
        s.errors(X[:4] + 0.1, Y[:4, :2])
    with pytest.raises(DataError, match=r"y\[:, 1\] must hold labels"):
        Substrate(KERNEL, X, np.column_stack([np.sign(Y[:, 0]), Y[:, 1]]), task="classification")
