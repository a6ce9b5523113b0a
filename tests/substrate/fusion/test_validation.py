"""What ``fuse`` validates is what ``predict`` returns: each output against its target, on rows or on folds."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, LeaveOneOut

from substrate import LinearPart, Machine, Substrate, fuse
from substrate.errors import DataError
from substrate.fusion.task import folds_of
from substrate.kernels import RBF, Linear


def case(n=8, n_val=6, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, 2)), rng.uniform(-2.0, 2.0, size=(n_val, 2))
    y, w = (np.sin(P[:, 0]) + 0.3 * P[:, 1] + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    return X, y, V, w


def sparse(s, zeta):
    return 0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha)


def weight(name="zeta"):
    return cp.Parameter(nonneg=True, name=name)


def test_the_error_of_several_outputs_is_the_sum_of_their_own():
    """Two machines side by side, each of which could be fused alone: with a bound over all weights."""
    X, y, V, w = case()
    targets, zeta = {"first": w, "second": w**2}, weight()
    parts = [Substrate(RBF(1.0), X, y, name="first"), Substrate(RBF(1.5), X, y**2, name="second")]
    machine = Machine(*parts, minimize=sum(sparse(s, zeta) for s in parts))
    both = fuse(machine, over=zeta, validation=(V, targets), gap=0.01)
    assert both.certificate.holds, str(both.certificate)
    values = both.predict(V)
    own = {name: np.mean((targets[name] - values[name]) ** 2) for name in targets}
    assert_allclose(both.validation_error, sum(own.values()), rtol=1e-5)
    for at in np.geomspace(1e-2, 3.0, 6):
        errors = [
            np.mean((targets[s.name] - Machine(s, minimize=sparse(s, zeta)).solve(zeta=at).predict(V)) ** 2)
            for s in parts
        ]
        assert both.lower_bound <= sum(errors) * (1.0 + 1e-6)
    only = fuse(machine, over=zeta, validation=(V, {"first": w, "second": None}), gap=0.01)
    alone = fuse(Machine(parts[0], minimize=sparse(parts[0], zeta)), over=zeta, validation=(V, w), gap=0.01)
    assert_allclose(only.validation_error, alone.validation_error, rtol=0.02)
    assert only.certificate.holds, str(only.certificate)


def test_one_output_of_several_substrates_is_their_sum():
    X, y, V, w = case()
    zeta, one, two = weight(), Substrate(RBF(1.0), X, y), Substrate(Linear(), X, y, bias=False)
    e = one.e - two.f()
    cost = 0.5 * cp.sum_squares(e) + zeta * (cp.norm1(one.alpha) + cp.norm1(two.alpha))
    best = fuse(Machine(one, two, minimize=cost, predict=one + two), over=zeta, validation=(V, w), gap=0.1, budget=40)
    assert_allclose(best.validation_error, np.mean((w - best.predict(V)) ** 2), rtol=1e-4)
    part = fuse(Machine(one, two, minimize=cost, predict=one), over=zeta, validation=(V, w), gap=0.1, budget=40)
    assert_allclose(part.validation_error, np.mean((w - part.result[one].predict(V)) ** 2), rtol=1e-3)


def test_a_partly_linear_model_is_validated_with_its_linear_part():
    X, y, V, w = case()
    zeta, weights = weight(), cp.Variable(2)
    s, part = Substrate(RBF(1.0), X, y), LinearPart(weights)
    cost = 0.5 * cp.sum_squares(s.e - part(X)) + zeta * cp.norm1(s.alpha)
    machine = Machine(s, minimize=cost, predict=s + part)
    best = fuse(machine, over=zeta, validation=(V, w), gap=0.01)
    assert best.certificate.holds, str(best.certificate)
    assert_allclose(best.validation_error, np.mean((w - best.predict(V)) ** 2), rtol=1e-5)
    grid = [np.mean((w - machine.solve(zeta=at).predict(V)) ** 2) for at in np.geomspace(1e-2, 3.0, 6)]
    assert best.lower_bound <= min(grid) * (1.0 + 1e-6)


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (
            lambda w: w,
            r"predicts \['first', 'second'\], and y_val is one target for all; give each .*'second': \.\.\.\}",
        ),
        (lambda w: {"first": w}, r"missing \['second'\], unknown \[\]"),
        (lambda w: {"first": w, "third": w, "second": w}, r"missing \[\], unknown \['third'\]"),
        (lambda w: {"first": None, "second": None}, "None for every output"),
        (lambda w: {"first": w, "second": w[1:]}, r"y_val\['second'\] must have one entry per row"),
    ],
)
def test_targets_that_do_not_fit_the_outputs_are_refused(targets, words):
    X, y, V, w = case()
    zeta = weight()
    parts = [Substrate(RBF(1.0), X, y, name=name) for name in ("first", "second")]
    machine = Machine(*parts, minimize=sum(sparse(s, zeta) for s in parts))
    with pytest.raises(DataError, match=words):
        fuse(machine, over=zeta, validation=(V, targets(w)))


# --- folds ----------------------------------------------------------------------------------------------------------


def build(X, y):
    s = Substrate(RBF(1.0), X, y)
    return Machine(s, minimize=sparse(s, weight()))


@pytest.mark.parametrize(
    ("cv", "splitter"), [(3, KFold(3)), (KFold(2, shuffle=True, random_state=0),) * 2, ("loo", LeaveOneOut())]
)
def test_folds_are_those_of_scikit_learn(cv, splitter):
    X, y, _, _ = case(n=8)
    machines, sets, final = folds_of(build, (X, y), cv, None)
    assert_array_equal(final.substrates[0].X, X)
    assert len(machines) == splitter.get_n_splits(X)
    for machine, known, (train, test) in zip(machines, sets, splitter.split(X), strict=True):
        assert_array_equal(machine.substrates[0].y, y[train])
        assert_array_equal(known.X, X[test])
        assert_array_equal(known.stacked_targets, y[test])
