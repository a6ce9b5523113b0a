"""How near the exact optimum an answer must be is asked for by ``tol``, of every estimator and wherever it judges."""

import inspect
import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

import problems
from problems import LSSVMClassifier, LSSVMRegressor, MaximalVariationRegressor
from substrate.basis import Basis
from substrate.certificate import ACCURATE, Tolerance
from substrate.errors import DeclarationError
from substrate.kernels import RBF

ESTIMATORS = [getattr(problems, name) for name in problems.ESTIMATORS]
over_estimators = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__)
BAD = [-1.0, 0.0, "x", math.nan, math.inf, None, True, [1e-6]]


def data_of(estimator, n=20):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    signal = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)
    return X, np.where(signal > np.median(signal), "up", "down") if is_classifier(estimator()) else signal


def made(estimator, **parameters):
    own = estimator().get_params(deep=False)
    choices = {"kernel": RBF(1.5), "random_state": 0} | parameters
    return estimator(**{name: choice for name, choice in choices.items() if name in own})


def tolerances(model, X, y):
    """Of the row that bounds the answer: of the fit, checked again, and proved."""
    rows = [certificate.rows[0] for certificate in (model.certificate_, model.certify(X, y))]
    assert {row.name for row in rows} <= {"accuracy", "predictions are the projection"}
    return {*(row.tolerance for row in rows), model.prove(X, y).tolerance}


@over_estimators
def test_it_goes_by_name_and_is_a_millionth_by_default(estimator):
    parameters = inspect.signature(estimator).parameters
    assert parameters["tol"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["tol"].default == 1e-6 == ACCURATE
    assert any("tol : float, default=1e-6" in (base.__doc__ or "") for base in estimator.__mro__)
    assert "tol" in estimator.__doc__


@over_estimators
def test_one_that_is_none_is_refused_before_any_work(estimator):
    for bad in BAD:
        with pytest.raises(DeclarationError, match=r"^tol must be"):
            made(estimator, tol=bad).fit(None, None)


@over_estimators
def test_the_answer_is_judged_by_it(estimator):
    X, y = data_of(estimator)
    model = made(estimator, tol=3e-5).fit(X, y)
    assert model.certificate_.holds
    assert tolerances(model, X, y) == {3e-5}
    assert tolerances(model.set_params(tol=1e-4), X, y) == {3e-5, 1e-4}, "a certificate says by what it was judged"
    model.set_params(tol=-1.0)
    for judged in (model.certify, model.prove):
        with pytest.raises(DeclarationError, match=r"^tol must be positive and finite, received -1\.0"):
            judged(X, y)


@over_estimators
def test_no_answer_is_as_near_as_nothing(estimator):
    X, y = data_of(estimator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = made(estimator, tol=1e-300).fit(X, y)
    certificate, again = model.certificate_, model.certify(X, y)
    failed = [row.name for row in certificate.rows if not row.passes]
    if certificate.answer is None or certificate.answer.passes:  # as near as y is to its rounding
        assert failed == [] == caught
        assert certificate.answer is None or certificate.accuracy <= y.size * np.finfo(float).eps * largest(y)
        return
    assert failed == ["accuracy"]
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert "the certificate does not hold (accuracy)" in str(caught[0].message)
    assert not again.holds or again.accuracy <= y.size * np.finfo(float).eps * largest(y)


def largest(y):
    return 1.0 if y.dtype.kind == "U" else float(np.abs(y).max())


def test_a_coarse_answer_holds_where_no_more_is_asked_for():
    X, y = data_of(LSSVMRegressor, 200)
    coarse = LSSVMRegressor(RBF(1.0), 1e3, solver="cg", tol=1e-2).fit(X, y)
    assert coarse.certificate_.holds
    assert coarse.certify(X, y).holds
    assert coarse.prove(X, y).proved
    assert not coarse.set_params(tol=1e-7).certify(X, y).holds


def test_machines_of_their_own_rows_and_refitted_ones_are_judged_by_it():
    X, _ = data_of(LSSVMRegressor)
    y = np.arange(20) % 3
    for estimator in (LSSVMClassifier, problems.AdaPinvClassifier, problems.ALSSVMClassifier):
        model = made(estimator, coding="minimum_output", tol=3e-5).fit(X, y)
        assert tolerances(model, X, y) == {3e-5}
    for rho in (1.0, 1e6):  # some components, and none
        model = MaximalVariationRegressor(RBF(1.5), rho, refit=True, tol=3e-5).fit(X, X[:, 0])
        assert tolerances(model, X, X[:, 0]) == {3e-5}
        assert {row.tolerance for row in model.certificate_.rows if row.name == "selection: accuracy"} == {3e-5}


# ---- an absolute error, by the y that the user gave ---------------------------------------------


def test_what_is_permitted_is_one_number_in_the_units_of_y():
    y, v = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 1.0])
    for unit in (1e-12, 1.0, 1e12):
        one = Tolerance.of(unit * y, v, 1e-3)
        assert one.spread == pytest.approx(unit * np.sqrt(np.average((y - 2.25) ** 2, weights=v)))
        assert one.largest_radius == pytest.approx(1e-3 * one.spread)
        assert one.row(0.99 * one.largest_radius, "").passes
        assert not one.row(1.01 * one.largest_radius, "").passes
        assert not one.row(math.nan, "").passes
    far = Tolerance.of(1e12 + y, v, 1e-6)
    assert far.largest_radius == far.rounding == 3 * np.finfo(float).eps * (1e12 + 4.0)
    assert Tolerance.of(np.zeros(3), v).largest_radius == 0.0


ON_A_BASIS = [
    LSSVMRegressor(RBF(1.5), 10.0, basis="feature_vectors"),
    problems.L1SubstrateRegressor(RBF(1.5), 1e-3, basis=100),
]


@pytest.mark.parametrize("share", [1e-6, 1e-3, 1e-1])
@pytest.mark.parametrize("model", ON_A_BASIS, ids=["least squares", "L1"])
@pytest.mark.covering
def test_weights_far_apart_do_not_make_the_spread_on_a_basis_a_rounding_error(model, share):
    """Rows of no weight move the mean of the targets away from those that count, whose spread then cancels."""
    rng = np.random.default_rng(0)
    X, y, v = rng.normal(size=(200, 2)), np.zeros(200), np.full(200, 1e-30)
    y[::2], v[::2] = 1e4 * (1.0 + 1e-11 * np.sin(X[::2, 0])), 1.0
    permitted = Tolerance.of(y, v, share).largest_radius
    model = clone(model).set_params(basis=Basis(8, random_state=0), tol=share).fit(X, y, sample_weight=v)
    for certificate in (model.certificate_, model.certify(X, y, v)):
        assert certificate.holds
        assert certificate.accuracy <= permitted
        assert certificate.answer.tolerance * certificate.answer.scale <= permitted
    assert model.prove(X, y, v).proved
    model.bias_ += 10.0 * permitted
    assert not model.certify(X, y, v).answer.passes
    assert not model.prove(X, y, v).proved
