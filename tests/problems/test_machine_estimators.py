"""Estimators around a function that builds a machine."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

import substrate
from problems import MachineClassifier, MachineRegressor, load
from substrate import Machine, Substrate
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

RNG = np.random.default_rng(2)
X = RNG.standard_normal((24, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.standard_normal(24)
CLASSES = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]


def tube(X, y, sigma=1.0, C=1.0):
    s = Substrate(RBF(sigma), X, y)
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(cp.abs(s.e) - 0.1)))


def hinge(X, y, sigma=1.0):
    s = Substrate(RBF(sigma), X, y, task="classification")
    return Machine(s, minimize=0.5 * s.squared_norm + cp.Parameter(nonneg=True, name="C") * cp.sum(cp.pos(s.e)))


def bounded(X, y):
    s = Substrate(RBF(1.0), X, y)
    return Machine(s, minimize=s.squared_norm + cp.sum_squares(s.e), subject_to=[s.f() <= 0.5])


class Tube:
    """The same with a name that is equal in every process, for the names of cases."""

    def __call__(self, X, y, sigma=1.0, C=1.0):
        return tube(X, y, sigma, C)

    def __repr__(self):
        return type(self).__name__.lower()


class Hinge(Tube):
    def __call__(self, X, y, sigma=1.0):
        return hinge(X, y, sigma)


@parametrize_with_checks(
    [
        MachineRegressor(Tube()),
        MachineRegressor(Tube(), {"C": 2.0}, time_limit=60.0),
        MachineClassifier(Hinge(), {"C": 1.0}),
    ]
)
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check):
    assert check(estimator) is None


def test_it_is_the_peer_of_the_same_machine():
    model = MachineRegressor(tube, {"sigma": 1.0, "C": 3.0}).fit(X, Y)
    peer = SVR(gamma=1.0, C=3.0, epsilon=0.1, tol=1e-10).fit(X, Y)
    assert_allclose(model.predict(X), peer.predict(X), atol=1e-6)
    assert model.certificate_.holds
    assert model.certificate_ is model.result_.certificate
    labels = Y > 0.0
    classifier = MachineClassifier(hinge, {"C": 2.0}).fit(X, labels)
    peer = SVC(gamma=1.0, C=2.0, tol=1e-10).fit(X, labels)
    assert_allclose(classifier.decision_function(X), peer.decision_function(X), atol=1e-5)
    assert_array_equal(classifier.predict(X), peer.predict(X))
    assert classifier.result_.parameters["C"] == 2.0
    assert_allclose(MachineRegressor(tube, {"C": 3.0}).fit(sp.csr_matrix(X), Y).predict(X), model.predict(X), atol=1e-6)


def test_its_parameters_can_be_set_cloned_and_searched():
    model = MachineRegressor(tube, {"C": 1.0})
    assert model.get_params()["parameters__C"] == 1.0
    copy = clone(model).set_params(parameters__C=5.0, parameters__sigma=0.7, solver="CLARABEL")
    assert copy.parameters == {"C": 5.0, "sigma": 0.7}
    assert model.parameters == {"C": 1.0}
    assert copy.fit(X, Y).result_.solver_record.attempts[0].solver == "CLARABEL"
    grid = {"machineregressor__parameters__C": [0.01, 1.0], "machineregressor__parameters__sigma": [0.5, 2.0]}
    search = GridSearchCV(make_pipeline(StandardScaler(), MachineRegressor(tube)), grid, cv=2).fit(X, Y)
    assert set(search.best_params_) == set(grid)
    assert search.best_estimator_[-1].certificate_.holds
    assert_array_equal(pickle.loads(pickle.dumps(search.best_estimator_)).predict(X), search.predict(X))


@pytest.mark.parametrize(
    ("model", "y"),
    [(MachineRegressor(bounded), Y), (MachineClassifier(hinge, {"C": 1.0}), CLASSES)],
    ids=["regressor", "classifier"],
)
def test_a_file_has_the_expansion_and_not_the_function(model, y, tmp_path):
    fitted, path = clone(model).fit(X, y), tmp_path / "model.npz"
    fitted.save(path)
    loaded = load(path)
    assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert str(loaded.certificate_) == str(fitted.certificate_)
    assert loaded.get_params(deep=False)["build"] is None
    with pytest.raises(DeclarationError, match="no function is in a file"):
        loaded.fit(X, y)
    with pytest.raises(ValueError, match="features"):
        loaded.predict(X[:, :1])
    with pytest.raises(DataError, match=r"problems\.load"):
        substrate.load(path)


def test_what_cannot_be_fitted_is_refused_with_the_next_step():
    with pytest.raises(DeclarationError, match="needs build="):
        MachineRegressor().fit(X, Y)
    with pytest.raises(DeclarationError, match="must return a Machine"):
        MachineRegressor(lambda X, y: None).fit(X, Y)
    with pytest.raises(DeclarationError, match="has no parameter"):
        MachineRegressor(tube, {"c": 1.0}).fit(X, Y)

    def two(X, y):
        low, high = Substrate(RBF(1.0), X, y, name="low"), Substrate(RBF(2.0), X, y, name="high")
        cost = low.squared_norm + high.squared_norm + cp.sum_squares(low.e) + cp.sum_squares(high.e)
        return Machine(low, high, minimize=cost)

    with pytest.raises(DeclarationError, match="one number per row"):
        MachineRegressor(two).fit(X, Y)
