"""Fusion over a weight where a shape holds everywhere: the bound against machines at other weights, and refusals."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest

from problems import LSSVMRegressorCV
from substrate import Everywhere, Machine, Substrate, fuse
from substrate.errors import DeclarationError
from substrate.fusion.shaped_chord import ShapedKnot, bound_chord, multiply_all
from substrate.fusion.shaped_fusion import ShapedFold
from substrate.fusion.validation import check_validation
from substrate.kernels import RBF, Componentwise


def rows(n, d=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 4.0, (n, d))
    return X, np.tanh(2.0 * (X[:, 0] - 1.0)) + 0.4 * rng.standard_normal(n)


def rising(X, y, weights=None, kernel=None):
    """A machine whose slope is not negative, with C as its weight."""
    s = Substrate(kernel or RBF(1.0), X, y)
    C = cp.Parameter(nonneg=True, name="C")
    v = np.ones(len(y)) if weights is None else weights
    loss = C * cp.sum_squares(cp.multiply(np.sqrt(0.5 * v), s.e))
    return Machine(s, minimize=loss + 0.5 * s.squared_norm, subject_to=[s.gradient(Everywhere(), 0) >= 0.0])


@pytest.mark.parametrize("ridge", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("bounded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_machine_between_two_knots_validates_better_than_the_chord(ridge, bounded):
    """At weights between, machines that are solved to a narrow bracket are above the bound, which is not far below."""
    X, y = rows(14)
    Z, z = rows(30, seed=1)
    s = Substrate(RBF(1.0), X, y)
    C = cp.Parameter(nonneg=True, name="C")
    squares, norm = 0.5 * cp.sum_squares(s.e), 0.5 * s.squared_norm
    objective = squares + C * norm if ridge else C * squares + norm
    everywhere = Everywhere()
    shape = [s.f(everywhere) >= -0.5, s.f(everywhere) <= 0.8] if bounded else [s.gradient(everywhere, 0) >= 0.0]
    machine = Machine(s, minimize=objective, subject_to=shape)
    fold = ShapedFold(machine, "C", check_validation(machine, Z, z))
    ends = [2.0, 2.6]
    for theta in ends:
        fold.solve(theta, 1e-8)
    for low, high in pairwise(ends):
        bound, limit = fold.bound(low, high)
        errors = []
        for theta in np.linspace(low, high, 4):
            result = machine.solve_with_shapes(1e-8, None, C=float(theta))
            errors.append(float(np.square(z - result.expansions[0].predict(Z)).sum()))
        assert bound <= min(errors) * (1.0 + 1e-9)
        assert bound >= 0.9 * min(errors)
        assert limit <= 0.05 * min(errors)


def test_the_chord_needs_its_terms():
    """Without the slack of the other end, or with multipliers of no machine, the bound is another one."""
    X, y = rows(14)
    machine = rising(X, y)
    fold = ShapedFold(machine, "C", check_validation(machine, *rows(20, seed=1)))
    first, second = fold.solve(2.0, 1e-7), fold.solve(8.0, 1e-7)
    assert isinstance(first, ShapedKnot)
    own = (fold.own[2.0], fold.own[8.0])
    crossed = multiply_all(first, second, fold.plans) + multiply_all(second, first, fold.plans)
    assert crossed > 0.0
    honest = bound_chord(first, second, crossed, own)[0]
    assert bound_chord(first, second, 0.0, own)[0] > honest
    assert bound_chord(first, second, 4.0 * crossed, own)[0] < honest


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (1e6, 1e9)])
def test_fusion_over_folds_is_proved(scale, offset):
    """The gap is met, no weight tried afterwards validates better, and a spent budget does not hold."""
    X, y = rows(18)
    data = (X, scale * y + offset)
    found = fuse(rising, "C", cv=2, data=data, gap=0.1, box={"C": (0.3, 30.0)})
    assert found.certificate.holds, found.certificate
    assert found.lower_bound <= found.validation_error <= found.lower_bound + 0.1 * found.validation_error
    halves = np.array_split(np.arange(18), 2)
    for C in (0.5, 3.0, 20.0):
        total = 0.0
        for test in halves:
            train = np.setdiff1d(np.arange(18), test)
            result = rising(X[train], data[1][train]).solve(C=C)
            total += float(np.square(data[1][test] - result.expansions[0].predict(X[test])).sum())
        assert total / 18 >= found.lower_bound * (1.0 - 1e-6)
    assert "hold at all points" in dict(found.certificate.record)["shapes"]


def test_a_spent_budget_does_not_hold():
    """The best so far is returned, with what is proved by then."""
    X, y = rows(18)
    found = fuse(rising, "C", cv=2, data=(X, y), gap=1e-3, box={"C": (1.0, 4.0)}, budget=6)
    assert not found.certificate.holds
    assert "budget" in found.stop
    assert found.lower_bound <= found.validation_error


def test_what_the_chord_is_not_for_is_refused():
    """Before anything is solved, with the reason."""
    X, y = rows(12)
    s = Substrate(RBF(1.0), X, y)
    C = cp.Parameter(nonneg=True, name="C")
    shape, norm = s.gradient(Everywhere(), 0) >= 0.0, 0.5 * s.squared_norm
    validation = rows(6, seed=1)
    cases = [
        (C * cp.norm1(s.e) + norm, [shape], {}),
        (cp.sum_squares(C * s.e) + norm, [shape], {}),
        (C * cp.sum_squares(s.e) + norm, [shape, s.f(X[:2]) >= -3.0], {}),
        (C * cp.sum_squares(s.e) + norm, [shape], {"loss": "mean_absolute"}),
        (C * cp.sum_squares(s.e) + norm, [shape], {"box": {"C": (0.0, 1.0)}}),
    ]
    for objective, constraints, options in cases:
        machine = Machine(s, minimize=objective, subject_to=constraints)
        with pytest.raises(DeclarationError):
            fuse(machine, "C", validation=validation, **options)


def test_the_estimator_chooses_gamma_with_its_shape():
    """The criterion in the units of y, with its bound; rules of the machine without a shape are refused."""
    X, y = rows(16)
    model = LSSVMRegressorCV(RBF(1.0), monotone={0: 1}, cv=2, gamma_range=(1.0, 4.0), gap=0.2).fit(X, 1e3 * y + 5e4)
    assert model.certificate_.holds, model.certificate_
    assert model.criterion_lower_bound_ <= model.criterion_ <= 1.25 * model.criterion_lower_bound_
    assert 1.0 <= model.gamma_ <= 4.0
    assert np.diff(model.predict(np.linspace(X.min(), X.max(), 2000)[:, None])).min() >= 0.0
    assert model.certify(X, 1e3 * y + 5e4).holds
    for rules in ({"cv": "gcv"}, {"cv": 2, "kernels": [RBF(1.0)]}, {"cv": 2, "loss": "mean_absolute"}):
        with pytest.raises(DeclarationError):
            LSSVMRegressorCV(monotone={0: 1}, **rules).fit(X, y)


@pytest.mark.slow
def test_validation_rows_and_weights_choose_gamma():
    """Rows that are given to validate, and rows of different weights."""
    X, y = rows(20)
    model = LSSVMRegressorCV(RBF(1.0), monotone={0: 1}, cv=None, gamma_range=(0.3, 30.0), gap=0.2)
    assert model.fit(X, y, *rows(8, seed=2), sample_weight=np.linspace(0.5, 2.0, 20)).certificate_.holds


@pytest.mark.slow
def test_an_additive_machine_with_weights_is_fused():
    """Three columns, two shapes, rows of different weights."""
    X, y = rows(30, 3)
    weights = np.linspace(0.5, 2.0, 30)

    def build(X, y, v):
        s = Substrate(Componentwise(RBF(1.5)), X, y)
        C = cp.Parameter(nonneg=True, name="C")
        everywhere = Everywhere()
        shapes = [s.gradient(everywhere, 0) >= 0.0, s.derivative(everywhere, {2: 2}) >= 0.0]
        loss = C * cp.sum_squares(cp.multiply(np.sqrt(v), s.e))
        return Machine(s, minimize=loss + 0.5 * s.squared_norm, subject_to=shapes)

    found = fuse(build, "C", cv=3, data=(X, y, weights), gap=0.05, box={"C": (0.1, 100.0)})
    assert found.certificate.holds, found.certificate
