"""What ``fuse`` validates is what ``predict`` returns: each output against its target, on rows or on folds."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold

from substrate import LinearPart, Machine, Substrate, fuse
from substrate.errors import DataError
from substrate.fusion.validation import folds_of
from substrate.kernels import RBF, Linear


def case(n=8, n_val=6, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, 2)), rng.uniform(-2.0, 2.0, size=(n_val, 2))
    y, w = (np.sin(P[:, 0]) + 0.3 * P[:, 1] + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    return X, y, V, w


def sparse(s, zeta):
    return 0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha)


def pinball(e, level):
    return cp.sum(cp.maximum(level * e, (level - 1.0) * e))


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


def test_three_quantiles_are_three_outputs_and_not_their_sum():
    X, y, V, w = case()
    rho, levels = weight("rho"), {"low": 0.2, "median": 0.5, "high": 0.8}
    parts = [Substrate(RBF(1.0), X, y, name=name) for name in levels]
    loss = sum(pinball(s.e, levels[s.name]) for s in parts)
    norms = 0.5 * sum(s.squared_norm for s in parts)
    low, median, high = parts
    rules = [low.f() <= median.f(), median.f() <= high.f()]
    machine = Machine(*parts, minimize=norms + rho * loss, subject_to=rules)
    best = fuse(machine, over=rho, validation=(V, dict.fromkeys(levels, w)), gap=0.1, box={rho: (0.1, 10.0)})
    values = best.predict(V)
    assert_allclose(best.validation_error, sum(np.mean((w - values[k]) ** 2) for k in levels), rtol=1e-4)


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


def test_a_dict_for_an_output_without_a_name_is_refused():
    X, y, V, w = case()
    zeta, s = weight(), Substrate(RBF(1.0), X, y)
    with pytest.raises(DataError, match=r"targets for \['f'\], but the one output of this machine has no name"):
        fuse(Machine(s, minimize=sparse(s, zeta)), over=zeta, validation=(V, {"f": w}))


def test_sparse_rows_are_rows():
    X, y, V, w = case()
    X, V = np.where(np.abs(X) > 0.7, X, 0.0), np.where(np.abs(V) > 0.7, V, 0.0)
    found = []
    for form in (np.asarray, csr_array):
        s, zeta = Substrate(RBF(1.0), form(X), y), weight()
        held = cp.sum_squares(s.errors(form(V[:2]), w[:2]))
        machine = Machine(s, minimize=sparse(s, zeta) + 0.5 * held)
        found.append(fuse(machine, over=zeta, validation=(form(V[2:]), w[2:]), gap=0.1))
        with pytest.raises(DataError, match=r"rows \[0, 1\] of X_val are fitted by the objective already"):
            fuse(machine, over=zeta, validation=(form(V), w))
    assert_allclose(found[0].validation_error, found[1].validation_error, rtol=1e-6)


# --- folds ----------------------------------------------------------------------------------------------------------


def build(X, y):
    s = Substrate(RBF(1.0), X, y)
    return Machine(s, minimize=sparse(s, weight()))


def test_a_stratified_splitter_is_given_the_labels():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 2)), np.repeat([-1.0, 1.0], 6)
    for targets, labels in ((y, y), (np.column_stack([y, -y]), y)):
        _, sets, _ = folds_of(build, (X, targets), StratifiedKFold(3), None)
        for validation_set, (_, test) in zip(sets, StratifiedKFold(3).split(X, labels), strict=True):
            assert_array_equal(validation_set.X, X[test])
    with pytest.raises(DataError, match=r"does not split 12 rows.*continuous"):
        folds_of(build, (X, X[:, 0]), StratifiedKFold(3), None)


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


def test_folds_of_classes_are_stratified():
    X, y, _, _ = case(n=16)
    labels = np.sort(np.where(y > np.median(y), 1.0, -1.0))

    def classes(X, y):
        s = Substrate(RBF(1.0), X, y, task="classification")
        return Machine(s, minimize=sparse(s, weight()))

    _, sets, _ = folds_of(classes, (X, labels), 2, None)
    for known, (_, test) in zip(sets, StratifiedKFold(2).split(X, labels), strict=True):
        assert_array_equal(known.X, X[test])
        assert_array_equal(np.unique(known.stacked_targets), [-1.0, 1.0])


def test_folds_of_outputs_by_name():
    X, y, _, _ = case(n=8)

    def two(X, y):
        parts = [Substrate(RBF(1.0), X, target, name=name) for name, target in y.items()]
        zeta = weight()
        return Machine(*parts, minimize=sum(sparse(s, zeta) for s in parts))

    best = fuse(two, "zeta", data=(X, {"a": y, "b": -y}), cv=2, gap=0.05)
    one = fuse(build, "zeta", data=(X, y), cv=list(KFold(2).split(X)), gap=0.05)
    assert_allclose(best.validation_error, 2.0 * one.validation_error, rtol=0.05)
    assert set(best.predict(X)) == {"a", "b"}
