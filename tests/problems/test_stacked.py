"""A stack of LS-SVMs: its weights and its error by explicit refits, its certificate, files, units and refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import (
    LSSVMClassifierCV,
    LSSVMRegressor,
    LSSVMRegressorCV,
    StackedLSSVMClassifier,
    StackedLSSVMRegressor,
    load,
)
from substrate.errors import DataError, DeclarationError
from substrate.fits.simplex_weights import weigh_machines
from substrate.kernels import RBF, Laplacian, Linear, Matern

RNG = np.random.default_rng(7)
N = 12
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=N)
V = RNG.uniform(0.3, 3.0, size=N)
NEW = RNG.normal(size=(5, 2))
KERNELS = [RBF(1.0), Laplacian(2.0), Linear(), Matern(0.5, nu=1.5)]


def stack(**parameters):
    return StackedLSSVMRegressor(**{"kernels": KERNELS} | parameters)


def members(model, rows, targets, weights):
    """The machines of a stack, fitted again to some rows."""
    return [
        LSSVMRegressor(member.kernel_, gamma=member.gamma).fit(rows, targets, sample_weight=weights)
        for member in model.estimators_
    ]


@pytest.mark.parametrize("weights", [np.ones(N), V], ids=["plain", "weighted"])
def test_weights_and_criterion_are_those_of_explicit_refits(weights):
    """The weights of left-out errors of machines that are fitted again.

    :place [Breiman1996]_ stacked regressions: non-negative weights from left-out predictions
    """
    model = stack().fit(X, Y, sample_weight=weights)
    machines = members(model, X, Y, weights)
    errors = np.column_stack([machine.leave_one_out().residuals for machine in machines])
    u = model.stack_weights_
    assert_allclose(u, weigh_machines(errors, weights), atol=1e-8)
    assert_allclose(model.predict(NEW), sum(w * m.predict(NEW) for w, m in zip(u, machines, strict=True)), atol=1e-10)
    assert_allclose(model.criterion_, weights @ (errors @ u) ** 2 / weights.sum(), rtol=1e-9)
    assert model.criterion_ <= min(weights @ error**2 / weights.sum() for error in errors.T) * (1.0 + 1e-12)


@pytest.mark.parametrize("cv", ["loo", "evidence", 3])
def test_members_are_the_best_of_every_family(cv):
    model = StackedLSSVMRegressor.recommended(cv=cv).fit(X, Y)
    assert model.certificate_.holds
    assert "gap of the weights" in [row.name for row in model.certificate_.rows]
    kernels = [member.kernel_ for member in model.estimators_]
    assert {type(kernel).__name__ for kernel in kernels} == {"Linear", "RBF", "Laplacian", "Matern"}
    found = LSSVMRegressorCV(kernels="families", cv=cv).fit(X, Y)
    assert found.kernel_ in kernels
    if cv == "loo":
        assert model.criterion_ <= found.criterion_ * (1.0 + 1e-9)
    assert model.kernel_ == kernels[int(np.argmax(model.stack_weights_))]


def test_the_bound_is_true_and_proved():
    """Against machines solved in doubled precision, the same weights."""
    pytest.importorskip("flint")
    model = stack(kernels=[RBF(1.0), Laplacian(2.0)]).fit(X, Y)
    proof = model.prove(X, Y)
    assert proof.proved
    assert proof.accuracy <= model.certify(X, Y).rows[0].value
    exact = np.zeros(N, dtype=np.longdouble)
    for weight, member in zip(model.stack_weights_, model.estimators_, strict=True):
        kernel, gamma = member.kernel_, member.gamma
        M = np.zeros((N + 1, N + 1))
        M[0, 1:] = M[1:, 0] = 1.0
        M[1:, 1:] = kernel(X) + np.eye(N) / gamma
        right, s = np.append(0.0, Y), np.zeros(N + 1, dtype=np.longdouble)
        for _ in range(4):
            s += np.linalg.solve(M, (right - M.astype(np.longdouble) @ s).astype(np.float64))
        exact += weight * (Y - s[1:] / np.longdouble(gamma))
    distance = float(np.sqrt(np.mean((model.predict(X) - exact) ** 2)))
    assert distance <= proof.accuracy * (1.0 + 1e-6) + 1e-15


def test_wrong_parameters_are_refused_before_any_work():
    for parameters, message in (
        ({"kernels": "all"}, "kernels must be a list of kernels, at least one, or 'families'"),
        ({"kernels": None, "kernel": "precomputed"}, "a stack computes kernels of the inputs"),
        ({"cv": "leave two out"}, "cv"),
    ):
        with pytest.raises((DeclarationError, DataError), match=message):
            stack(**parameters).fit(X, Y)
    with pytest.raises(DeclarationError, match="method must be one of auto, nested"):
        stack().fit(X, Y).predict_interval(NEW, method="conformal")
    with pytest.raises(DataError, match="has no calibration rows"):
        stack().fit(X, Y).predict_interval(NEW, method="split")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_have_one_weight_for_all_codes(n_classes, tmp_path):
    """The weights minimise the squares of all codes together; probabilities agree with decisions; a file has it all."""
    points = RNG.normal(size=(30, 2))
    labels = np.array(list("abc"))[np.digitize(points[:, 0] + 0.5 * points[:, 1] ** 2, [0.2, 1.2][: n_classes - 1])]
    weights = RNG.uniform(0.5, 2.0, size=30)
    model = StackedLSSVMClassifier(kernels=KERNELS).fit(points, labels, sample_weight=weights)
    assert model.certificate_.holds
    codes = model.code_book_[np.searchsorted(model.classes_, labels)]
    errors = np.stack(
        [
            np.reshape(
                LSSVMRegressor(member.kernel_, gamma=member.gamma)
                .fit(points, codes[:, 0] if n_classes == 2 else codes, sample_weight=weights)
                .leave_one_out()
                .residuals,
                codes.shape,
            )
            for member in model.estimators_
        ],
        axis=2,
    )
    u = weigh_machines(errors.reshape(-1, 4), np.repeat(weights, codes.shape[1]))
    assert_allclose(model.stack_weights_, u, atol=1e-7)
    assert set(model.predict(points)) <= set("abc")
    probabilities = model.predict_proba(points)
    assert_array_equal(model.classes_[np.argmax(probabilities, axis=1)], model.predict(points))
    assert model.certify(points, labels, sample_weight=weights).holds
    model.save(tmp_path / "stack.npz")
    again = load(tmp_path / "stack.npz")
    assert_array_equal(again.decision_function(points), model.decision_function(points))
    assert_array_equal(again.predict_proba(points), probabilities)
    found = LSSVMClassifierCV(kernels=KERNELS).fit(points, labels, sample_weight=weights)
    assert model.criterion_ <= found.criterion_ * (1.0 + 1e-9)


def test_intervals_repeat_the_search_or_follow_the_errors(tmp_path):
    model = stack(kernels=[RBF(1.0), Linear()]).fit(X, Y)
    assert model.interval_guarantee(0.9).method == "nested"
    with pytest.raises(DeclarationError, match="method must be one of auto, nested, adaptive, split"):
        model.predict_interval(X, 0.9, "jackknife+")
    ends = model.predict_interval(NEW, 0.5)
    model.save(tmp_path / "stack.npz")
    assert_array_equal(load(tmp_path / "stack.npz").predict_interval(NEW, 0.5), ends)
