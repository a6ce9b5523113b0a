"""LS-SVM regression with a shape: proofs, files, weights, refusals."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import problems
from problems import LSSVMRegressor, LSSVMRegressorCV
from substrate import Everywhere, Machine, Substrate, fuse
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Matern

DISTANCE = "distance from the optimum over all functions"


def rows(n=40, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 4.0, (n, d))
    y = 100.0 - 2.0 * np.tanh(X[:, 0]) + 0.2 * (X[:, -1] - 2.0) ** 2 + 0.3 * rng.standard_normal(n)
    return X, y


def shaped(**parameters):
    given = {"monotone": {0: -1}, "convex": [1], "bounds": (97.0, None)} | parameters
    return LSSVMRegressor(Componentwise(RBF(1.5)), 10.0, **given)


@pytest.fixture(scope="module")
def model():
    return shaped().fit(*rows())


def test_the_shape_holds_and_the_certificate_says_so(model):
    """No violation at random points; the bracket and the accuracy are rows."""
    X, _ = rows()
    assert model.certificate_.holds, model.certificate_
    assert model.certificate_[DISTANCE].relative <= 1e-4
    rng = np.random.default_rng(1)
    points = rng.uniform(X.min(axis=0), X.max(axis=0), (10_000, 2))
    steps = points.copy()
    steps[:, 0] = np.minimum(points[:, 0] + 1e-3, X[:, 0].max())
    assert (model.predict(steps) - model.predict(points)).max() <= 1e-9
    assert model.predict(points).min() >= 97.0
    grid = np.column_stack([np.full(400, 2.0), np.linspace(X[:, 1].min(), X[:, 1].max(), 400)])
    assert np.diff(model.predict(grid), 2).min() >= -1e-9


def test_it_is_checked_again_from_stored_numbers_and_a_changed_one_fails(model, tmp_path):
    """Files keep the shape; certify starts from what is stored."""
    X, y = rows()
    model.save(tmp_path / "model")
    loaded = problems.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.certify(X, y).holds
    assert (loaded.monotone, loaded.bounds) == ({0: -1}, (97.0, None))
    loaded.bias_ += 0.05
    assert not loaded.certify(X, y).holds
    loaded.bias_ -= 0.05
    loaded.shape_multipliers_ = 0.0 * loaded.shape_multipliers_
    assert not loaded.certify(X, y)[DISTANCE].passes


def test_ball_arithmetic_agrees_and_notices_changes():
    """The bracket and the shape are proved from stored numbers; a moved coefficient is not."""
    pytest.importorskip("flint")
    X, y = rows(10, 1)
    model = LSSVMRegressor(RBF(1.5), 10.0, monotone={0: -1}).fit(X, y)
    proof = model.prove(X, y)
    assert proof.proved, proof
    assert 0.9 * model.certificate_.accuracy <= proof.accuracy <= 1.001 * model.certificate_.accuracy
    model.shape_coefficients_ = 0.99 * model.shape_coefficients_
    assert not model.prove(X, y).proved
    jointly = LSSVMRegressor(RBF(1.5), 10.0, bounds=(0.0, None), convex="jointly").fit(X, y)
    assert jointly.prove(X, y).proved
    rough = LSSVMRegressor(Matern(1.0, nu=2.5), 10.0, bounds=(90.0, None)).fit(X, y)
    with pytest.raises(DeclarationError, match="double precision only"):
        rough.prove(X, y)


def test_names_of_columns_and_the_warning_outside_the_box():
    """Columns of a data frame by name; one warning."""
    pandas = pytest.importorskip("pandas")
    X, y = rows(20, 2)
    frame = pandas.DataFrame(X, columns=["price", "age"])
    model = LSSVMRegressor(Componentwise(RBF(1.5)), 10.0, monotone={"price": -1}).fit(frame, y)
    assert model.certificate_["holds everywhere: d f/d price <= 0"].passes
    outside = pandas.DataFrame([[9.0, 1.0]], columns=["price", "age"])
    with pytest.warns(UserWarning, match="outside the box"):
        model.predict(outside)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(outside)
    with pytest.raises(DeclarationError, match="names the column 'size'"):
        clone(model).set_params(monotone={"size": 1}).fit(frame, y)


def test_closed_forms_are_refused_with_advice(model):
    """Leave-one-out, intervals by leaving rows out and the choice of gamma; split intervals are not."""
    X, y = rows()
    calls = (
        model.leave_one_out,
        model.left_out_importance,
        lambda: model.predict_interval(X, method="conformal"),
        lambda: model.predict_interval(X, method="nested"),
        lambda: model.predict(X, return_std=True),
    )
    for call in calls:
        with pytest.raises(DeclarationError, match="split"):
            call()
    assert model.calibrate(X, y).predict_interval(X).shape == (40, 2)
    with pytest.raises(DeclarationError, match="cv=5"):
        LSSVMRegressorCV(monotone={0: 1}).fit(X, y)


@pytest.mark.parametrize(
    "wrong",
    [
        {"monotone": {0: 2}},
        {"monotone": [1, 0]},
        {"monotone": {7: 1}},
        {"convex": "together"},
        {"bounds": (1.0, 0.0)},
        {"bounds": 3.0},
        {"kernel": RBF(1.0), "bounds": (0.0, None)},
    ],
    ids=repr,
)
def test_what_cannot_be_meant_is_refused(wrong):
    """Before long work, also too many columns at once."""
    X, y = rows(20, 5)
    with pytest.raises(DeclarationError):
        LSSVMRegressor(**{"kernel": Componentwise(RBF(1.0))} | wrong).fit(X, y)


def test_several_outputs_and_precomputed_matrices_are_refused():
    """A shape is of one function."""
    X, y = rows(20, 1)
    with pytest.raises(DataError, match="one output"):
        LSSVMRegressor(RBF(1.0), monotone={0: 1}).fit(X, np.column_stack([y, y]))
    with pytest.raises(DeclarationError, match="precomputed"):
        LSSVMRegressor("precomputed", monotone={0: 1}).fit(X @ X.T, y)


def test_gamma_is_chosen_by_plain_folds():
    """The best of a grid, with no bound claimed; rules of the machine without a shape are refused."""
    X, y = rows(20, d=1)
    y = 1e3 * y + 5e4
    folds = [(np.arange(0, 20, 2), np.arange(1, 20, 2)), (np.arange(1, 20, 2), np.arange(0, 20, 2))]
    model = LSSVMRegressorCV(RBF(1.0), monotone={0: -1}, cv=folds, gamma_range=(1.0, 10.0)).fit(X, y)
    gammas, errors = model.path_["values"], model.path_["criterion"]
    assert_allclose(np.diff(np.log10(gammas)), 0.5)
    assert gammas[0] == 1.0
    assert errors.size - 1 - errors.argmin() == 3 or gammas[-1] == pytest.approx(10.0)
    assert (model.gamma_, model.criterion_) == (gammas[errors.argmin()], errors.min())
    squares = []
    for train, test in folds:
        s = Substrate(RBF(1.0), X[train], y[train])
        falling = s.gradient(Everywhere(np.array([[X[train].min(), X[train].max()]])), 0) <= 0.0
        objective = 0.5 * model.gamma_ * cp.sum_squares(s.e) + 0.5 * s.squared_norm
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # some rows are outside the box of the others
            left_out = Machine(s, minimize=objective, subject_to=[falling]).solve().predict(X[test])
        squares.append(np.square(y[test] - left_out))
    assert_allclose(model.criterion_, np.mean(squares), rtol=1e-3)
    assert model.criterion_lower_bound_ == -np.inf
    assert model.certificate_.holds, model.certificate_
    assert not any(row.name.startswith("gap") for row in model.certificate_.rows)
    assert "nothing is proved of others" in dict(model.certificate_.record)["choice of gamma"]
    assert np.diff(model.predict(np.linspace(X.min(), X.max(), 2000)[:, None])).max() <= 0.0
    assert model.certify(X, y).holds
    for rules in ({"cv": "loo"}, {"cv": "gcv"}, {"cv": 2, "kernels": [RBF(1.0)]}):
        with pytest.raises(DeclarationError):
            LSSVMRegressorCV(monotone={0: -1}, **rules).fit(X, y)


def test_fuse_refuses_shapes_and_says_what_to_do():
    X, y = rows(d=1)
    s, C = Substrate(RBF(1.0), X, y), cp.Parameter(nonneg=True, name="C")
    objective = C * cp.sum_squares(s.e) + 0.5 * s.squared_norm
    machine = Machine(s, minimize=objective, subject_to=[s.gradient(Everywhere(), 0) <= 0.0])
    with pytest.raises(DeclarationError, match=r"choose the weight by folds, as LSSVMRegressorCV\(monotone="):
        fuse(machine, over=C, validation=(X, y))
