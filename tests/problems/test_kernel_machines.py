"""Kernel machines with any loss: optimum, certificate, proof, leave-one-out, files and refusals, for every loss."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from problems import KernelClassifier, KernelRegressor, load
from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning
from substrate.kernels import RBF
from substrate.losses import (
    EpsilonInsensitive,
    Expectile,
    Hinge,
    Huber,
    Logistic,
    Pinball,
    Squared,
    SquaredHinge,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(45, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.standard_t(2, size=45)
LABELS = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=45) > 0.0, "up", "down")
WEIGHTS = RNG.uniform(0.5, 2.0, 45)
SIGNS = np.where(LABELS == "up", 1.0, -1.0)
LOSSES = [
    Squared(),
    Huber(0.4),
    Huber(),
    Pinball(0.9),
    Expectile(0.8),
    EpsilonInsensitive(0.2),
    Hinge(),
    SquaredHinge(),
    Logistic(),
]
over_losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)
POINTS = X[:14]
over_bases = pytest.mark.parametrize("basis", [None, POINTS], ids=["all rows", "a basis"])


def machine_of(loss, **parameters):
    kind = KernelClassifier if loss.is_margin else KernelRegressor
    return kind(RBF(1.0), 10.0, loss=loss, **parameters), LABELS if loss.is_margin else Y


def value_of(loss, y, f):
    """The losses of the table of the module, written out."""
    e, missing = y - f, 1.0 - y * f
    if isinstance(loss, Huber):
        d = loss.delta
        return np.where(np.abs(e) <= d, 0.5 * e**2, d * np.abs(e) - 0.5 * d**2)
    return {
        Squared: lambda: 0.5 * e**2,
        Pinball: lambda: np.maximum(loss.quantile * e, (loss.quantile - 1.0) * e),
        Expectile: lambda: 0.5 * np.where(e < 0.0, 1.0 - loss.level, loss.level) * e**2,
        EpsilonInsensitive: lambda: np.maximum(np.abs(e) - loss.epsilon, 0.0),
        Hinge: lambda: np.maximum(missing, 0.0),
        SquaredHinge: lambda: 0.5 * np.maximum(missing, 0.0) ** 2,
        Logistic: lambda: np.logaddexp(0.0, -y * f),
    }[type(loss)]()


@over_losses
def test_no_other_machine_has_a_smaller_objective(loss):
    model, target = machine_of(loss)
    model.fit(X, target, WEIGHTS)
    y, K = SIGNS if loss.is_margin else Y, RBF(1.0)(X)
    a = np.zeros(45)
    a[model.support_] = model.support_values_

    def objective(a, b):
        return 0.5 * a @ K @ a + 10.0 * float(WEIGHTS @ value_of(model.loss_, y, K @ a + b))

    sign = -1.0 if loss.is_margin and model.decision_function(X)[0] * (K[0] @ a + model.bias_) < 0.0 else 1.0
    least = objective(a, sign * model.bias_)
    rng = np.random.default_rng(1)
    for size in (1e-6, 1e-3, 0.1):
        assert objective(a + size * rng.normal(size=45), model.bias_) > least
        assert objective(a, model.bias_ + size) >= least - 1e-9 * least
    for scale in (0.99, 1.01):
        assert objective(scale * a, model.bias_) > least


@over_bases
@over_losses
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_certified_proved_saved_and_checked_again(loss, weighted, basis, tmp_path):
    model, target = machine_of(loss, basis=basis)
    weights = WEIGHTS if weighted else None
    model.fit(X, target, weights)
    assert model.certificate_.holds, str(model.certificate_)
    assert model.certify(X, target, weights).holds
    proof = model.prove(X, target, weights)
    assert proof.proved, str(proof)
    assert proof.accuracy <= model.certificate_.accuracy
    model.save(tmp_path / "m.npz")
    loaded = load(tmp_path / "m.npz")
    assert loaded.loss == model.loss
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.certify(X, target, weights).holds


@over_bases
@over_losses
def test_every_change_of_a_coefficient_is_noticed(loss, basis):
    model, target = machine_of(loss, basis=basis)
    model.fit(X, target)
    values = model._evaluate(X)
    for name in ("support_values_", "bias_"):
        kept = getattr(model, name)
        setattr(model, name, kept + 0.03 * np.abs(kept))
        moved = np.sqrt(np.mean((model._evaluate(X) - values) ** 2))
        certificate = model.certify(X, target)
        assert not certificate.holds
        assert certificate.accuracy >= 0.5 * moved
        assert not model.prove(X, target).proved
        setattr(model, name, kept)


@over_bases
@over_losses
@pytest.mark.parametrize("size", [1e-2, 0.3])
def test_the_bound_of_changed_coefficients_is_their_distance_at_least(loss, size, basis):
    model, target = machine_of(loss, basis=basis)
    known = model.fit(X, target)._expansion(X)
    model.support_values_ *= 1.0 + size * np.random.default_rng(0).normal(size=model.support_values_.shape)
    moved = float(np.sqrt(np.mean((model._expansion(X) - known) ** 2)))
    assert model.certify(X, target).accuracy >= moved - model.certificate_.accuracy
    assert moved > 10.0 * model.certificate_.accuracy


@over_bases
@over_losses
def test_leaving_a_row_out_is_a_fit_without_it(loss, basis):
    """:place [Cawley2004]_ section 4: leave-one-out of the 2-norm SVM, while its support holds"""
    model, target = machine_of(loss, basis=basis)
    left_out = model.fit(X, target, WEIGHTS).leave_one_out(X, target, WEIGHTS)
    assert left_out.certificate.holds, str(left_out.certificate)
    for i in range(0, 45, 9):
        kept = np.arange(45) != i
        other = clone(model).set_params(loss=model.loss_).fit(X[kept], target[kept], WEIGHTS[kept])
        value = other.decision_function(X[[i]]) if loss.is_margin else other.predict(X[[i]])
        assert_allclose(left_out.outputs[i], value[0], atol=1e-6)
    others = np.setdiff1d(np.arange(45), model.support_) if basis is None else []
    assert_allclose(left_out.outputs[others], model._evaluate(X)[others], atol=1e-9)


@over_bases
@over_losses
def test_linear_columns_are_not_penalised(loss, basis):
    model, target = machine_of(loss, linear_columns=[1], basis=basis)
    model.fit(X, target)
    assert model.certificate_.holds, str(model.certificate_)
    assert model.prove(X, target).proved
    assert model.coef_.shape == (1,)
    if not loss.is_margin:
        moved = clone(model).set_params(loss=model.loss_).fit(X, Y + 3.0 * X[:, 1])
        assert_allclose(moved.coef_, model.coef_ + 3.0, atol=1e-5)
        assert_allclose(moved.predict(X), model.predict(X) + 3.0 * X[:, 1], atol=1e-5)


@over_bases
@over_losses
def test_rows_of_weight_zero_are_absent_and_rows_of_weight_two_count_twice(loss, basis):
    model, target = machine_of(loss, basis=basis)
    model.fit(X, target)
    loss = model.loss_
    counts = np.arange(45) % 3
    rows = np.repeat(np.arange(45), counts)
    weighted = machine_of(loss, basis=basis)[0].fit(X, target, counts.astype(float))
    repeated = machine_of(loss, basis=basis)[0].fit(X[rows], target[rows])
    tolerance = weighted.certificate_.accuracy + repeated.certificate_.accuracy
    assert_allclose(weighted._evaluate(X[rows]), repeated._evaluate(X[rows]), atol=1e-7 + 7.0 * tolerance)
    assert weighted.certify(X, target, counts.astype(float)).holds


@pytest.mark.parametrize("coding", ["one_vs_rest", "minimum_output"])
@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic()], ids=repr)
def test_many_classes(loss, coding):
    classes = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = KernelClassifier(RBF(1.0), 5.0, loss=loss, coding=coding).fit(X, classes)
    assert model.certificate_.holds
    assert model.certify(X, classes).holds
    assert model.score(X, classes) > 0.8
    left_out = model.leave_one_out(X, classes)
    kept = np.arange(45) != 7
    other = clone(model).fit(X[kept], classes[kept])
    assert left_out.predictions[7] == other.predict(X[[7]])[0]
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_the_hinge_is_the_support_vector_machine():
    from sklearn.svm import SVC

    peer = SVC(C=10.0, kernel="rbf", gamma=1.0, tol=1e-8).fit(X, LABELS)  # RBF(1.0) is exp(-d^2)
    model = KernelClassifier(RBF(1.0), 10.0, loss=Hinge()).fit(X, LABELS)
    sign = 1.0 if model.classes_[1] == peer.classes_[1] else -1.0
    assert_allclose(model.decision_function(X), sign * peer.decision_function(X), atol=1e-5)
    assert_array_equal(model.support_, np.sort(peer.support_))


@pytest.mark.parametrize(
    ("model", "target", "message"),
    [
        (KernelRegressor(loss="huber"), Y, "loss must be a value of substrate.losses"),
        (KernelRegressor(loss=Hinge()), Y, "loss of labels; use KernelClassifier"),
        (KernelClassifier(loss=Pinball(0.5)), LABELS, "loss of numbers; use KernelRegressor"),
        (
            KernelRegressor(linear_columns=[5]),
            Y,
            "linear_columns: columns are integers .*, received 5",
        ),
        (KernelRegressor("precomputed", linear_columns=[0]), Y, "precomputed"),
    ],
    ids=lambda value: "" if isinstance(value, np.ndarray) else str(value)[:40],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(model, target, message):
    points = X if model.kernel != "precomputed" else RBF(1.0)(X)
    with pytest.raises((DeclarationError, DataError), match=message):
        model.fit(points, target)


@pytest.mark.parametrize(
    ("loss", "value"), [(Pinball, 0.0), (Pinball, 1.0), (Expectile, 1.5), (EpsilonInsensitive, -1.0)]
)
def test_parameters_of_losses_are_checked(loss, value):
    with pytest.raises(DeclarationError, match=r"quantile|level|epsilon"):
        loss(value)


@pytest.mark.parametrize("loss", [Huber(0.4), Hinge()], ids=repr)
def test_an_indefinite_matrix_has_no_bound(loss):
    model, target = machine_of(loss)
    model.set_params(kernel="precomputed")
    matrix = np.random.default_rng(2).normal(size=(45, 45))
    with pytest.warns(IndefiniteKernelWarning), pytest.warns(ConvergenceWarning, match="does not hold"):
        model.fit(matrix + matrix.T, target)
    assert not model.certificate_.holds
    assert "not positive semi-definite" in model.certificate_.promise


@over_losses
def test_a_given_matrix_is_the_kernel(loss):
    model, target = machine_of(loss)
    values = model.fit(X, target)._evaluate(X)
    given = clone(model).set_params(kernel="precomputed").fit(RBF(1.0)(X), target)
    assert_allclose(given._fitted_values(RBF(1.0)(X)[:, given.support_]), values, atol=1e-5)
    assert given.certificate_.holds
    assert "added to the diagonal of K" in given.certificate_.promise


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # of the peer, at a tolerance that it may not reach
@over_losses
@pytest.mark.parametrize("linear_columns", [(), [1]], ids=["a bias", "a linear column"])
def test_a_machine_on_a_basis_is_the_declared_one_on_features(loss, linear_columns):
    import cvxpy as cp

    model, target = machine_of(loss, linear_columns=linear_columns, basis=POINTS)
    model.fit(X, target, WEIGHTS)
    assert model.certificate_.holds, str(model.certificate_)
    kernel, y = model.kernel_, SIGNS if loss.is_margin else Y
    told_apart = POINTS[model.support_values_ != 0.0]
    features = np.linalg.solve(np.linalg.cholesky(kernel(told_apart)), kernel(told_apart, X)).T
    w, b, slope = cp.Variable(len(told_apart)), cp.Variable(), cp.Variable(len(linear_columns))
    f = features @ w + b + X[:, list(linear_columns)] @ slope
    e, missing = y - f, 1.0 - cp.multiply(y, f)
    if isinstance(loss, Huber):
        each = 0.5 * cp.huber(e, model.loss_.delta)
    else:
        each = {
            Squared: lambda: 0.5 * e**2,
            Pinball: lambda: cp.maximum(loss.quantile * e, (loss.quantile - 1.0) * e),
            Expectile: lambda: 0.5 * (loss.level * cp.pos(e) ** 2 + (1.0 - loss.level) * cp.neg(e) ** 2),
            EpsilonInsensitive: lambda: cp.pos(cp.abs(e) - loss.epsilon),
            Hinge: lambda: cp.pos(missing),
            SquaredHinge: lambda: 0.5 * cp.pos(missing) ** 2,
            Logistic: lambda: cp.logistic(-cp.multiply(y, f)),
        }[type(loss)]()
    tight = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    objective = cp.Minimize(0.5 * cp.sum_squares(w) + 10.0 * WEIGHTS @ each)
    cp.Problem(objective).solve(solver="CLARABEL", max_iter=500, **tight)
    sign = np.sign(model._evaluate(X) @ f.value) if loss.is_margin else 1.0
    distance = np.sqrt(np.average((sign * model._evaluate(X) - f.value) ** 2, weights=WEIGHTS))
    assert distance <= 2e-5 + model.certificate_.accuracy
    assert model.prove(X, target, WEIGHTS).proved


@pytest.mark.parametrize(
    ("basis", "size"), [(12, 12), ("kmeans++", 40), (np.arange(0, 45, 4), 12), (X[:11], 11)], ids=str
)
@pytest.mark.parametrize("loss", [Huber(0.4), Hinge()], ids=repr)
def test_a_basis_is_a_number_a_rule_rows_or_points(loss, basis, size):
    model, target = machine_of(loss, basis=basis)
    is_chosen, is_points = not isinstance(basis, np.ndarray), np.ndim(basis) == 2
    weights = np.where(np.arange(45) % 9 if is_chosen else True, WEIGHTS, 0.0)
    model.fit(X, target, weights)
    assert model.certificate_.holds, str(model.certificate_)
    assert model.certify(X, target, weights).holds
    assert model.n_support_ == len(model.support_values_) == size
    assert (weights[model.support_] > 0.0).all()
    assert_array_equal(model.support_vectors_, basis if is_points else X[model.support_])


def test_intervals_and_classes_on_a_basis():
    model = KernelRegressor(RBF(1.0), 10.0, basis=12).fit(X[:30], Y[:30]).calibrate(X[30:], Y[30:])
    assert np.mean((model.predict_interval(X[30:], 0.8) - Y[30:, None] > 0.0) @ [-1.0, 1.0]) >= 0.8
    classes = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    many = KernelClassifier(RBF(1.0), 5.0, loss=Hinge(), basis=12).fit(X, classes)
    assert many.certificate_.holds
    assert many.certify(X, classes).holds
    assert_allclose(many.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("basis", "message"),
    [("best", "basis must be"), (99, r"basis.n=99 exceeds the 45 rows"), ([[1.0]], "basis has 1 features")],
)
def test_bases_that_make_no_sense_are_refused(basis, message):
    with pytest.raises((DeclarationError, DataError), match=message):
        KernelRegressor(RBF(1.0), basis=basis).fit(X, Y)
