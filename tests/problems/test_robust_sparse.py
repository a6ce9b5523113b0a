"""Robust regression on a reduced basis: the dense robust machine on a full basis, and outliers that do not matter."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from problems import RobustSparseLSSVMRegressor, SparseLSSVMRegressor, load
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Precomputed
from substrate.least_squares.robust_weights import SCALES, WEIGHTINGS
from substrate.reduced import Basis
from tests.oracles.variants import robust_machine

RNG = np.random.default_rng(4)
X = RNG.normal(size=(150, 2))
CLEAN = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=150)
Y = np.where(np.arange(150) % 15 == 0, CLEAN + 6.0, CLEAN)
KERNEL = RBF(1.0)


def model(**parameters):
    return RobustSparseLSSVMRegressor(KERNEL, 10.0, **{"basis": Basis(25, random_state=0), **parameters})


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.some_cases(4)
def test_on_all_points_it_is_the_dense_machine(weighting, scale):
    dense = robust_machine(KERNEL, 10.0, weighting=weighting, scale=scale, max_reweightings=1).fit(X, Y)
    sparse = model(weighting=weighting, scale=scale, basis=np.arange(150)).fit(X, Y)
    assert_allclose(sparse.predict(X), dense.predict(X), atol=1e-9)
    assert_allclose(sparse.scale_, dense.scale_, rtol=1e-6)
    assert_allclose(sparse.row_weights(X, Y), dense.weights_, atol=1e-5)
    assert_allclose(sparse.history_[-1].mass, dense.weights_.sum(), rtol=1e-6)
    assert sparse.certificate_.holds


def test_outliers_do_not_matter():
    plain = SparseLSSVMRegressor(KERNEL, 10.0, basis=Basis(25, random_state=0))
    wanted = plain.fit(X, CLEAN).predict(X)
    robust = np.abs(model().fit(X, Y).predict(X) - wanted).max()
    assert robust < 0.2 * np.abs(plain.fit(X, Y).predict(X) - wanted).max()


def test_rounds_end_when_w_settles_and_say_so_when_it_does_not():
    settled = model(weighting="logistic", max_reweightings=100, weights_tol=1e-4).fit(X, Y)
    changes = [step.change for step in settled.history_]
    assert len(settled.history_) < 100
    assert changes[-1] <= 1e-4 < changes[-2]
    again = model(weighting="logistic", max_reweightings=100, weights_tol=1e-7).fit(X, Y)
    assert_allclose(again.predict(X), settled.predict(X), atol=1e-3)
    with pytest.warns(ConvergenceWarning, match="raise max_reweightings"):
        model(weighting="logistic", max_reweightings=2, weights_tol=1e-12).fit(X, Y)


def test_without_reweighting_it_is_the_plain_machine():
    plain = SparseLSSVMRegressor(KERNEL, 10.0, basis=Basis(25, random_state=0)).fit(X, Y)
    none = model(max_reweightings=0).fit(X, Y)
    assert_array_equal(none.support_values_, plain.support_values_)
    assert_array_equal(none.row_weights(X, Y), np.ones(150))
    assert none.certify(X, Y).holds


def test_equal_errors_have_no_scale():
    fitted = model().fit(X, np.ones(150))
    assert fitted.scale_ == 0.0
    assert "all left at one" in dict(fitted.certificate_.record)["weights"]


def test_a_matrix_is_its_kernel():
    matrix = KERNEL(X)
    given = RobustSparseLSSVMRegressor(Precomputed(), 10.0, basis=Basis(25, random_state=0)).fit(matrix, Y)
    wanted = model(basis=given.basis_indices_).fit(X, Y)
    assert_allclose(given.predict(matrix), wanted.predict(X), atol=1e-9)
    assert_allclose(given.row_weights(matrix, Y), wanted.row_weights(X, Y), atol=1e-9)
    assert given.certify(matrix, Y).holds


def test_the_certificate_knows_its_rows_and_its_coefficients(tmp_path):
    fitted = model().fit(X, Y)
    assert fitted.certify(X, Y).holds
    with pytest.raises(DataError, match="150 rows, these are 149"):
        fitted.certify(X[1:], Y[1:])
    fitted.save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    assert back.history_ == fitted.history_
    assert_array_equal(back.row_weights(X, Y), fitted.row_weights(X, Y))
    back.support_values_ = back.support_values_ * (1.0 + 1e-6)
    assert not back.certify(X, Y).holds


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"weighting": "tukey"}, "weighting must be one of"),
        ({"scale": "std"}, "scale must be one of"),
        ({"max_reweightings": 1.5}, "max_reweightings must be an integer"),
        ({"weights_tol": 0.0}, "weights_tol"),
        ({"gamma": -1.0}, "gamma"),
        ({"basis": "best"}, "basis must be a Basis, a number of vectors, one of"),
    ],
)
def test_bad_choices_are_refused(parameters, words):
    with pytest.raises(DeclarationError, match=words):
        RobustSparseLSSVMRegressor(**parameters).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("history_", (), "history_ must be a list of 1 or more"), ("n_rows_", True, "n_rows_ must be an integer")],
)
def test_a_model_file_that_does_not_belong_together_is_refused(name, value, words, tmp_path):
    fitted = model().fit(X, Y)
    setattr(fitted, name, value)
    with pytest.raises(DataError, match=words):  # what would be written is read back first
        fitted.save(tmp_path / "model.npz")
    assert not (tmp_path / "model.npz").exists()
