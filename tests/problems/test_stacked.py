"""A stack of LS-SVMs: its weights and its error by explicit refits, its certificate, files, units and refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import (
    LSSVMClassifierCV,
    LSSVMRegressor,
    LSSVMRegressorCV,
    SparseLSSVMRegressorCV,
    StackedLSSVMClassifier,
    StackedLSSVMRegressor,
    load,
)
from problems.estimators.chosen import stacked
from problems.estimators.chosen.joint_criterion import JointCriterion
from problems.estimators.chosen.stack_members import search_machines
from problems.estimators.full.ls_svm import matrix_at_hand
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import RBF, Laplacian, Linear, Matern
from substrate.least_squares.log_loss_weights import left_out_probabilities, weigh_by_log_loss
from substrate.least_squares.saddle_system import target_unit
from substrate.least_squares.simplex_weights import weigh_machines

RNG = np.random.default_rng(7)
N = 12
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=N)
V = RNG.uniform(0.3, 3.0, size=N)
NEW = RNG.normal(size=(5, 2))
KERNELS = [RBF(1.0), Laplacian(2.0), Linear(), Matern(0.5, nu=1.5)]


def stack(**parameters):
    return StackedLSSVMRegressor(**{"kernels": KERNELS, "criteria": "loo"} | parameters)


def members(model, rows, targets, weights):
    """The machines of a stack, fitted again to some rows."""
    return [
        LSSVMRegressor(kernel, gamma=float(gamma)).fit(rows, targets, sample_weight=weights)
        for kernel, gamma in zip(model.kernels_, model.gammas_, strict=True)
    ]


@pytest.mark.parametrize("weights", [np.ones(N), V], ids=["plain", "weighted"])
@pytest.mark.some_cases(1)
def test_weights_and_criterion_are_those_of_explicit_refits(weights):
    """Every row left out of machines and weights; what the weights have seen is smaller."""
    model = stack().fit(X, Y, sample_weight=weights)
    machines = members(model, X, Y, weights)
    errors = np.column_stack([machine.leave_one_out().residuals for machine in machines])
    u = model.stack_weights_
    assert_allclose(u, weigh_machines(errors, weights), atol=1e-8)
    assert_allclose(model.predict(NEW), sum(w * m.predict(NEW) for w, m in zip(u, machines, strict=True)), atol=1e-10)
    assert_allclose(model.apparent_criterion_, weights @ (errors @ u) ** 2 / weights.sum(), rtol=1e-9)
    left_out = np.empty(N)
    for i in range(N):
        rest = np.arange(N) != i
        without = members(model, X[rest], Y[rest], weights[rest])
        pairs = np.column_stack([machine.leave_one_out().residuals for machine in without])
        at = [machine.predict(X[[i]])[0] for machine in without]
        left_out[i] = Y[i] - weigh_machines(pairs, weights[rest]) @ at
    assert_allclose(model.criterion_, weights @ left_out**2 / weights.sum(), rtol=1e-6)
    assert model.criterion_ > model.apparent_criterion_
    single = min(weights @ error**2 / weights.sum() for error in errors.T)
    assert model.apparent_criterion_ <= single * (1.0 + 1e-12)


def test_members_are_the_best_of_every_family_by_both_criteria():
    model = StackedLSSVMRegressor.recommended(max_evaluations=40).fit(X, Y)
    assert model.certificate_.holds
    assert "gap of the weights" in [row.name for row in model.certificate_.rows]
    assert {type(kernel).__name__ for kernel in model.kernels_} == {
        "Linear",
        "RBF",
        "Laplacian",
        "Matern",
        "PowerExponential",
    }
    assert any(isinstance(getattr(kernel, "sigma", None), tuple) for kernel in model.kernels_)
    found = LSSVMRegressorCV.recommended(max_evaluations=40, widths="each").fit(X, Y)
    alone = StackedLSSVMRegressor.recommended(max_evaluations=40, criteria="loo").fit(X, Y)
    first = StackedLSSVMRegressor.recommended(max_evaluations=40, criteria="evidence").fit(X, Y)
    assert set(first.kernels_) < set(model.kernels_), "the evidence is searched as if it were alone"
    assert model.apparent_criterion_ <= first.apparent_criterion_ * (1.0 + 1e-9)
    assert alone.apparent_criterion_ <= found.criterion_ * 1.01, "the descents end where the search ends"
    assert_allclose(model.relevance_.sum(), 1.0)
    assert model.kernel_ == model.kernels_[int(np.argmax(model.stack_weights_))]


def test_left_out_errors_of_earlier_machines_are_the_criterion_of_the_search_that_follows(monkeypatch):
    """Also with weights; and the machines are those of a search that computes the values itself."""
    given = []

    def noted(*arguments, **named):
        given.append((arguments[1], named["left_out"]))
        return search_machines(*arguments, **named)

    monkeypatch.setattr(stacked, "search_machines", noted)
    model = StackedLSSVMRegressor.recommended(max_evaluations=24).fit(X, Y, sample_weight=V)
    (_, first), (task, squares) = given
    assert not first
    assert len(squares) > 6
    for (kernel, gamma), square in squares.items():
        if joint := JointCriterion.of(kernel, task):
            x = np.log(np.array(list(kernel.scales().values())))
            value = joint.value_at(kernel, x, gamma).value * target_unit(task.Y) ** 2
            assert_allclose(square, value, rtol=1e-4)
    monkeypatch.setattr(stacked, "search_machines", lambda *a, **k: search_machines(*a, **k | {"left_out": None}))
    unknown = StackedLSSVMRegressor.recommended(max_evaluations=24).fit(X, Y, sample_weight=V)
    assert set(model.kernels_) <= set(unknown.kernels_)
    assert model.apparent_criterion_ <= unknown.apparent_criterion_ * 1.02


def test_classes_have_a_width_per_input_only_where_the_rule_takes_it():
    """The right class depends on one input of eight, or on the distance from the origin."""
    points = np.random.default_rng(3).normal(size=(90, 8))
    one_input = np.where(np.abs(points[:, 0]) < 0.7, 1, -1)
    radius = np.where((points[:, :3] ** 2).sum(axis=1) < 2.4, 1, -1)
    for labels, each in ((one_input, True), (radius, False)):
        inputs = points if each else points[:, :3]
        model = StackedLSSVMClassifier.recommended(max_evaluations=16, criteria="loo").fit(inputs, labels)
        ruled = LSSVMClassifierCV.recommended(max_evaluations=16).fit(inputs, labels)
        said = dict(ruled.certificate_.record)["widths"]
        assert said.startswith("one per input" if each else "shared")
        assert any(isinstance(getattr(kernel, "sigma", None), tuple) for kernel in model.kernels_) == each
        assert model.certificate_.holds


def test_outputs_are_stacked_each_on_its_own():
    both = np.column_stack([Y, X[:, 0] ** 2])
    model = stack().fit(X, both)
    assert model.stack_weights_.shape == model.gammas_.shape == model.biases_.shape == (4, 2)
    for k in range(2):
        alone = stack().fit(X, both[:, k])
        assert_allclose(model.predict(NEW)[:, k], alone.predict(NEW), atol=1e-8)
        assert_allclose(model.criterion_[k], alone.criterion_, rtol=1e-6)
    assert len(model.certificate_.rows[0].outputs) == 2
    assert model.certify(X, both).holds
    ends = model.calibrate(X, both).predict_interval(NEW, 0.8)
    assert ends.shape == (5, 2, 2)


def test_rows_of_weight_zero_are_absent():
    weights = np.where(np.arange(N) < 4, 0.0, V)
    model, other = stack().fit(X, Y, sample_weight=weights), stack().fit(X[4:], Y[4:], sample_weight=V[4:])
    assert_array_equal(model.predict(NEW), other.predict(NEW))
    assert_array_equal(model.support_, np.arange(4, N))
    assert model.certify(X, Y, sample_weight=weights).holds


def test_a_file_has_the_whole_stack(tmp_path):
    model = stack(kernels=[*KERNELS, Linear() + RBF(3.0)], gamma_range=(1e-3, 1e9)).fit(X, 2.0 * X[:, 0] + 1e-4 * Y)
    model.save(tmp_path / "stack.npz")
    again = load(tmp_path / "stack.npz")
    assert_array_equal(again.predict(NEW), model.predict(NEW))
    assert_array_equal(again.relevance_, model.relevance_)
    assert str(again.certificate_) == str(model.certificate_)
    assert again.certify(X, 2.0 * X[:, 0] + 1e-4 * Y).holds == model.certificate_.holds
    for change, message in (
        ({"stack_weights_": np.array([0.5, 0.5, 0.5, 0.5, -1.0])}, "must not be negative, and sum to one"),
        ({"gammas_": model.gammas_[1:]}, r"gammas_ of a stack of 5 machines has the shape \(4,\)"),
        ({"kernels_": model.kernels_[::-1]}, "must be that of its machine with the largest weight"),
        ({"row_weights_": -model.row_weights_}, "needs positive gammas and weights of rows"),
    ):
        kept = {name: getattr(model, name) for name in change}
        vars(model).update(change)
        with pytest.raises(DataError, match=message):
            model.save(tmp_path / "other.npz")
        vars(model).update(kept)


def test_a_changed_number_is_noticed():
    model = stack().fit(X, Y)
    assert model.certify(X, Y).holds
    kept = model.stack_weights_.copy()
    model.stack_weights_ = np.full(4, 0.25)
    checked = model.certify(X, Y)
    assert [row.name for row in checked.failures] == ["gap of the weights"]
    model.stack_weights_ = kept
    used = int(np.argmax(kept))
    model.support_values_[0, 0, used] += 1e-3
    assert "accuracy" in [row.name for row in model.certify(X, Y).failures]


def test_the_bound_is_true_and_proved():
    """Against machines solved in doubled precision, the same weights."""
    pytest.importorskip("flint")
    model = stack(kernels=[RBF(1.0), Laplacian(2.0)]).fit(X, Y)
    proof = model.prove(X, Y)
    assert proof.proved
    assert proof.accuracy <= model.certify(X, Y).rows[0].value
    exact = np.zeros(N, dtype=np.longdouble)
    for weight, kernel, gamma in zip(model.stack_weights_, model.kernels_, model.gammas_, strict=True):
        M = np.zeros((N + 1, N + 1))
        M[0, 1:] = M[1:, 0] = 1.0
        M[1:, 1:] = kernel(X) + np.eye(N) / gamma
        right, s = np.append(0.0, Y), np.zeros(N + 1, dtype=np.longdouble)
        for _ in range(4):
            s += np.linalg.solve(M, (right - M.astype(np.longdouble) @ s).astype(np.float64))
        exact += weight * (Y - s[1:] / np.longdouble(gamma))
    distance = float(np.sqrt(np.mean((model.predict(X) - exact) ** 2)))
    assert distance <= proof.accuracy * (1.0 + 1e-6) + 1e-15


@pytest.mark.parametrize(("unit", "offset"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e8)])
@pytest.mark.some_cases(2)
def test_units_and_offsets_go_through(unit, offset):
    model, moved = stack().fit(X, Y), stack().fit(X, unit * Y + offset)
    assert_allclose((moved.predict(NEW) - offset) / unit, model.predict(NEW), atol=1e-5)
    assert_allclose(moved.stack_weights_, model.stack_weights_, atol=1e-4)
    assert moved.certificate_.holds


def test_constants_and_few_rows():
    flat = stack().fit(X, np.full(N, 7.0))
    assert_array_equal(flat.predict(NEW), np.full(5, 7.0))
    assert flat.criterion_ == flat.apparent_criterion_ == 0.0
    two = stack(kernels=[RBF(1.0), RBF(2.0)]).fit(X[:2], Y[:2])
    assert two.criterion_ == np.inf
    assert np.isfinite(two.predict(NEW)).all()
    three = stack(kernels=[RBF(1.0), RBF(2.0)]).fit(X[:3], Y[:3])
    assert np.isfinite(three.criterion_)
    doubled = stack().fit(np.repeat(X, 2, axis=0), np.repeat(Y, 2))
    assert np.isfinite(doubled.criterion_)


def test_wrong_parameters_are_refused_before_any_work():
    for parameters, message in (
        ({"criteria": "gcv"}, "criteria must be 'loo', 'evidence' or 'both', received 'gcv'"),
        ({"search": "nelder-mead"}, "search must be None or 'gradient'"),
        ({"kernels": "all"}, "kernels must be a list of kernels, at least one, or 'families'"),
        ({"kernels": None, "kernel": "precomputed"}, "a stack computes kernels of the inputs"),
        ({"gap": 0.0}, "gap"),
        ({"gammas": [1.0]}, "one gamma for each of 4 kernels"),
        ({"gammas": 3.0}, "one gamma for each of 4 kernels"),
        ({"gammas": [1.0, 2.0, -1.0, 1.0]}, r"gammas\[2\]"),
        ({"kernels": "families", "gammas": [1.0]}, "gammas are those of a list of kernels"),
        ({"max_evaluations": 0}, "max_evaluations"),
        ({"gamma_range": (1.0,)}, "the range of gamma must be a pair"),
    ):
        with pytest.raises((DeclarationError, DataError), match=message):
            stack(**parameters).fit(X, Y)
    with pytest.raises(DeclarationError, match="method must be one of auto, jackknife"):
        stack().fit(X, Y).predict_interval(NEW, method="conformal")
    with pytest.raises(DataError, match="has no calibration rows"):
        stack().fit(X, Y).predict_interval(NEW, method="split")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_have_one_weight_for_all_codes(n_classes, tmp_path):
    """The weights minimise the squares of all codes together; probabilities agree with decisions; a file has it all."""
    points = RNG.normal(size=(30, 2))
    labels = np.array(list("abc"))[np.digitize(points[:, 0] + 0.5 * points[:, 1] ** 2, [0.2, 1.2][: n_classes - 1])]
    weights = RNG.uniform(0.5, 2.0, size=30)
    model = StackedLSSVMClassifier(kernels=KERNELS, criteria="loo").fit(points, labels, sample_weight=weights)
    assert model.certificate_.holds
    codes = model.code_book_[np.searchsorted(model.classes_, labels)]
    errors = np.stack(
        [
            np.reshape(
                LSSVMRegressor(kernel, gamma=float(np.ravel(gamma)[0]))
                .fit(points, codes[:, 0] if n_classes == 2 else codes, sample_weight=weights)
                .leave_one_out()
                .residuals,
                codes.shape,
            )
            for kernel, gamma in zip(model.kernels_, model.gammas_, strict=True)
        ],
        axis=2,
    )
    u = weigh_machines(errors.reshape(-1, 4), np.repeat(weights, codes.shape[1]))
    assert_allclose(np.reshape(model.stack_weights_, (4, -1)), np.repeat(u[:, None], codes.shape[1], axis=1), atol=1e-7)
    assert model.criterion_ > model.apparent_criterion_
    assert set(model.predict(points)) <= set("abc")
    probabilities = model.predict_proba(points)
    assert_array_equal(model.classes_[np.argmax(probabilities, axis=1)], model.predict(points))
    assert model.certify(points, labels, sample_weight=weights).holds
    model.save(tmp_path / "stack.npz")
    again = load(tmp_path / "stack.npz")
    assert_array_equal(again.decision_function(points), model.decision_function(points))
    assert_array_equal(again.predict_proba(points), probabilities)
    found = LSSVMClassifierCV(kernels=KERNELS).fit(points, labels, sample_weight=weights)
    assert model.apparent_criterion_ <= found.criterion_ * (1.0 + 1e-9)
    if n_classes > 2:
        model.stack_weights_[:, 0] = 0.25
        with pytest.raises(DataError, match="must be the same in all columns"):
            model.certify(points, labels, sample_weight=weights)
    with pytest.raises(DeclarationError, match="coding 'one_vs_one' has other rows in every machine"):
        StackedLSSVMClassifier(coding="one_vs_one").fit(points, labels)


def test_weights_by_log_loss_are_certified_kept_and_left_out(tmp_path):
    """The error of every row is that of machines and weights which have not seen it, by explicit refits."""
    labels = np.where(X[:, 0] + 0.8 * X[:, 1] + 0.6 * RNG.normal(size=N) > 0.0, "b", "a")
    model = StackedLSSVMClassifier(kernels=KERNELS, criteria="loo", loss="log", calibration=None).fit(X, labels, V)
    assert model.certificate_.holds
    (row,) = [row for row in model.certificate_.rows if row.name == "gap of the weights"]
    assert "P_im" in row.formula
    (same,) = [each for each in model.certify(X, labels, V).rows if each.name == row.name]
    assert_allclose(same.value, row.value, atol=1e-9)
    codes = np.where(labels == "b", 1.0, -1.0)
    u = model.stack_weights_.reshape(len(KERNELS), -1)[:, 0]
    errors = np.column_stack([machine.leave_one_out().residuals for machine in members(model, X, codes, V)])
    P = left_out_probabilities(errors[:, None, :], codes[:, None])[:, 0]
    assert_allclose(u, weigh_by_log_loss(P, V), atol=1e-6)
    left_out = np.empty(N)
    for i in range(N):
        rest = np.arange(N) != i
        without = members(model, X[rest], codes[rest], V[rest])
        pairs = np.column_stack([machine.leave_one_out().residuals for machine in without])
        weights = weigh_by_log_loss(left_out_probabilities(pairs[:, None, :], codes[rest, None])[:, 0], V[rest])
        left_out[i] = codes[i] - weights @ [machine.predict(X[[i]])[0] for machine in without]
    assert_allclose(model.criterion_, V @ left_out**2 / V.sum(), rtol=1e-4)
    model.save(tmp_path / "stack.json")
    loaded = load(tmp_path / "stack.json")
    assert loaded.loss == "log"
    assert_array_equal(loaded.decision_function(NEW), model.decision_function(NEW))
    with pytest.raises(DeclarationError, match="loss must be 'squared' or 'log', received 'logarithm'"):
        StackedLSSVMClassifier(kernels=KERNELS, loss="logarithm").fit(X, labels)


def test_recommended_makes_a_stack_where_there_is_one():
    stack = LSSVMRegressorCV.recommended(stack=True, max_evaluations=8)
    assert isinstance(stack, StackedLSSVMRegressor)
    assert stack.get_params() == StackedLSSVMRegressor.recommended(stack=True, max_evaluations=8).get_params()
    assert (stack.kernels, stack.search) == ("families", "gradient")
    assert isinstance(LSSVMClassifierCV.recommended(stack=True), StackedLSSVMClassifier)
    assert isinstance(LSSVMRegressorCV.recommended(stack=False), LSSVMRegressorCV)
    with pytest.raises(DeclarationError, match="SparseLSSVMRegressorCV has no stack"):
        SparseLSSVMRegressorCV.recommended(stack=True)


def test_a_matrix_at_hand_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    expected = LSSVMRegressor(RBF(1.5), 3.0).fit(X, y).support_values_
    gram, made = Gram.of(RBF(1.5), X), []
    monkeypatch.setattr(Gram, "of", classmethod(lambda cls, *given: made.append(given)))
    model = LSSVMRegressor(RBF(1.5), 3.0)
    with matrix_at_hand(model, gram):
        model.fit(X, y)
    assert not made
    assert np.array_equal(model.support_values_, expected)
    assert "_matrix" not in vars(model)
