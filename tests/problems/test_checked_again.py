"""Every dense least-squares estimator bounds its answer, checks it again, and proves it, from what predict uses."""

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import has_fit_parameter
from variants import componentwise_machine, robust_machine

from problems import (
    AdaPinvClassifier,
    ALSSVMClassifier,
    IPLSSVMClassifier,
    LS2SVMClassifier,
    LSSVMClassifier,
    LSSVMClassifierCV,
    LSSVMRegressor,
    LSSVMRegressorCV,
    PrunedLSSVMClassifier,
    PrunedLSSVMRegressor,
)
from substrate.errors import DataError
from substrate.kernels import RBF, Linear

KERNEL = RBF(1.0)
MODELS = [
    LSSVMRegressorCV(KERNEL),
    robust_machine(KERNEL, 10.0),
    PrunedLSSVMRegressor(KERNEL, 10.0, n_support=12),
    PrunedLSSVMClassifier(KERNEL, 10.0, n_support=12),
    LSSVMRegressor(KERNEL, c=0.3),
    LSSVMRegressorCV(KERNEL, cv=3, random_state=0),
    LSSVMClassifierCV(KERNEL, cv=3, coding="minimum_output", random_state=0),
    LSSVMClassifier(KERNEL, 10.0, coding="minimum_output"),
    LS2SVMClassifier(KERNEL, 10.0),
    AdaPinvClassifier(KERNEL, 10.0, coding="minimum_output"),
    IPLSSVMClassifier(KERNEL, 10.0),
    ALSSVMClassifier(KERNEL, 10.0, random_state=0),
]
over_models = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


def data(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=24)
    return X, np.digitize(y, [-0.4, 0.4]) if is_classifier(model) else y


@over_models
def test_the_answer_is_bounded_checked_again_and_proved(model):
    X, y = data(model)
    model.fit(X, y)
    again, proof = model.certify(X, y), model.prove(X, y)
    assert model.certificate_.holds
    assert again.holds
    assert proof.proved, proof
    assert proof.accuracy <= min(model.certificate_.accuracy, again.accuracy)
    assert model.certificate_.accuracy <= 1e-6 * model.certificate_.spread


@over_models
def test_a_change_of_what_predict_uses_is_noticed(model):
    X, y = data(model)
    model.fit(X, y)
    for name in ("support_values_", "bias_", "support_vectors_"):
        before = getattr(model, name)
        changed = np.array(before, dtype=float)
        place = np.abs(changed).argmax()  # a code of zero would hide the first
        changed.flat[place] *= 1.001
        setattr(model, name, changed if np.ndim(before) else float(changed))
        assert not model.certify(X, y).holds, name
        assert not model.prove(X, y).proved, name
        setattr(model, name, before)
    assert model.certify(X, y).holds


@over_models
def test_targets_and_weights_are_asked_for_by_name(model):
    X, y = data(model)
    model.fit(X, y)
    with pytest.raises(DataError, match="needs y, the targets of the fit"):
        model.certify(X)
    if not has_fit_parameter(model, "sample_weight"):
        with pytest.raises(DataError, match="takes no sample_weight"):
            model.certify(X, y, sample_weight=np.ones(24))


def far_away(n=20):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    return X, X @ [1.0, -2.0] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize(
    "model",
    [
        componentwise_machine(Linear(), 1.0),
        robust_machine(Linear(), 1.0),
        LSSVMRegressor(Linear(), c=0.0),
        LSSVMRegressorCV(Linear(), cv=3, random_state=0, gamma_range=(0.5, 2.0)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_inputs_far_from_zero_are_out_of_reach_and_say_so(model):
    X, y = far_away()
    with pytest.warns(ConvergenceWarning, match="centre the inputs"):
        model.fit(X + 2.0**27, y)
    assert not model.certificate_.holds
    assert not model.certify(X + 2.0**27, y).holds
    assert model.fit(X, y).certificate_.holds


def test_a_matrix_that_is_indefinite_has_no_bound_and_no_proof():
    K = np.diag([1.0, 1.0, -0.5, 1.0])
    y = np.array([1.0, -1.0, 0.5, 0.2])
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        model = LSSVMRegressor("precomputed", 0.1).fit(K, y)
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        proof = model.prove(K, y)
    assert "not positive semi-definite" in model.certificate_.promise
    assert not proof.proved
    assert "not positive semi-definite" in proof.reason


@pytest.mark.filterwarnings("ignore")  # whether it holds is another matter
def test_a_bound_counts_by_how_much_a_matrix_is_not_semi_definite():
    """Along a direction of eigenvalue -s an error of alpha shows in the residual by 1/gamma - s, in f by s."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(np.column_stack([np.ones(12), rng.normal(size=(12, 11))]))[0]
    K = (Q * np.append(np.linspace(2.0, 1.0, 11), -1.3e-6)) @ Q.T
    K = (K + K.T) / 2.0
    y = rng.normal(size=12)
    model = LSSVMRegressor("precomputed", 6e5).fit(K, y)
    before = model.predict(K)
    model.support_values_ = model.support_values_ + 1e9 * Q[:, -1]
    moved = np.sqrt(np.mean((model.predict(K) - before) ** 2))
    assert np.inf > model.certify(K, y).accuracy >= 0.99 * moved


def test_support_values_that_cannot_carry_the_answer_are_warned_of():
    X, y = far_away()
    with pytest.warns(ConvergenceWarning, match="scale the columns"):
        model = PrunedLSSVMRegressor(Linear(), 1.0, n_support=10).fit(X + 2.0**27, y)
    assert not model.certificate_.holds
