"""A basis is a parameter like a kernel: set, searched, cloned, printed and saved by its names."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

import problems
from problems import LSSVMClassifier, LSSVMClassifierCV, LSSVMRegressor, LSSVMRegressorCV
from substrate.basis import Basis
from substrate.errors import DeclarationError
from substrate.kernels import RBF

RNG = np.random.default_rng(4)
X = RNG.normal(size=(60, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=60)
READERS = [LSSVMRegressor, LSSVMClassifier, LSSVMRegressorCV, LSSVMClassifierCV]
over_readers = pytest.mark.parametrize("estimator", READERS)


@over_readers
def test_parameters_are_reached_by_name(estimator):
    model = estimator(RBF(1.0), basis=Basis(5, random_state=1))
    assert model.get_params()["basis__n"] == 5
    model.set_params(basis__n=7, kernel__sigma=2.0)
    assert model.basis == Basis(7, random_state=1)
    assert model.kernel == RBF(2.0)
    assert "Basis(n=7, random_state=1)" in repr(model)
    assert clone(model).get_params() == model.get_params()
    searches = {"verbose", "random_state"} if estimator.__name__.endswith("CV") else set()
    assert not ({"random_state", "verbose", "n_basis", "executor"} - searches) & set(model.get_params(deep=False))


@over_readers
def test_short_forms_have_parameters_too(estimator):
    for short, basis in ((None, Basis(7)), (5, Basis(7)), ("random", Basis(7, "random"))):
        assert estimator(basis=short).set_params(basis__n=7).basis == basis
    assert estimator(basis=5).set_params(basis="random", basis__n=7).basis == Basis(7, "random"), "the value, then it"
    with pytest.raises(DeclarationError, match="has no parameter 'size'"):
        estimator().set_params(basis__size=7)


@over_readers
def test_bad_values_are_refused_by_name(estimator):
    with pytest.raises(DeclarationError, match=r"basis\.n must be an integer >= 1 or None, received 0"):
        estimator(basis=0).fit(X, Y > 0.0)
    with pytest.raises(DeclarationError, match=r"basis\.n must be an integer"):
        estimator().set_params(basis__n=2.5)


@pytest.mark.parametrize("given", [None, 12, "kmeans++", Basis(12, "renyi", random_state=2)], ids=repr)
def test_what_was_given_is_saved_and_loaded(given, tmp_path):
    model = LSSVMRegressor(RBF(1.0), basis=given).fit(X, Y)
    model.save(tmp_path / "m.npz")
    loaded = problems.load(tmp_path / "m.npz")
    assert loaded.basis == given
    assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("rule", [[3, 1, 50], np.array([3, 1, 50]), X[:4] + 0.5], ids=["list", "rows", "points"])
def test_rows_and_points_are_saved_inside_a_basis(rule, tmp_path):
    model = LSSVMRegressor(RBF(1.0), basis=Basis(rule=rule, n_scoring=20, random_state=0)).fit(X, Y)
    model.save(tmp_path / "m.npz")
    assert problems.load(tmp_path / "m.npz").basis == model.basis


def test_the_rule_pruned_needs_a_gamma_however_it_is_named():
    for basis in ("pruned", Basis(5, "pruned")):
        with pytest.raises(DeclarationError, match=r"basis\.rule='pruned' needs gamma before one is chosen"):
            LSSVMRegressorCV(basis=basis).fit(X, Y)
