"""Machines that choose: their criterion is what refits give, their gamma the best of the range, their kernel of all."""

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, LeaveOneOut, PredefinedSplit, cross_val_predict

from problems import LSSVMClassifier, LSSVMClassifierCV, LSSVMRegressor, LSSVMRegressorCV
from substrate.datasets import motorcycle
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear, Precomputed

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.normal(size=40)
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.3 * RNG.normal(size=40), [-0.4, 0.4])]
MOTORCYCLE = motorcycle()


def explicit_loo(kernel, gamma, points=X, y=Y):
    return np.mean((y - cross_val_predict(LSSVMRegressor(kernel, gamma), points, y, cv=LeaveOneOut())) ** 2)


def test_the_criterion_is_that_of_refits_and_no_gamma_does_better():
    model = LSSVMRegressorCV(RBF(1.0)).fit(X, Y)
    assert_allclose(model.criterion_, explicit_loo(RBF(1.0), model.gamma_), rtol=1e-8)
    for factor in (1e-3, 0.5, 2.0, 1e3):
        assert explicit_loo(RBF(1.0), factor * model.gamma_) >= model.criterion_lower_bound_
    assert model.criterion_lower_bound_ <= model.criterion_ <= model.criterion_lower_bound_ * (1.0 + 2e-4)
    assert model.certificate_.holds
    assert model.certificate_["gap of gamma"].passes
    assert "gamma searched" in dict(model.certificate_.record)


@pytest.mark.parametrize("targets", [Y, np.column_stack([Y, X[:, 1] ** 2])], ids=["one output", "two outputs"])
def test_the_path_is_the_criterion_at_every_gamma_that_was_looked_at(targets):
    model = LSSVMRegressorCV(RBF(1.0)).fit(X, targets)
    values, curve = model.path_["values"], model.path_["criterion"]
    assert curve.shape == values.shape + targets.shape[1:]
    assert (np.diff(values) > 0.0).all()
    assert model.path_["parameter"] == "gamma"
    assert_allclose(model.path_["coverage"], model.gamma_range_)
    assert_allclose(curve.min(axis=0), model.criterion_, rtol=1e-12)
    for number in (0, values.size // 2, values.size - 1):
        left = LSSVMRegressor(RBF(1.0), values[number]).fit(X, targets).leave_one_out()
        assert_allclose(curve[number], np.mean(left.residuals**2, axis=0), rtol=1e-6)


def test_workers_change_nothing():
    kernels = [RBF(0.3), RBF(1.0), Linear()]
    one = LSSVMRegressorCV(kernels=kernels).fit(X, Y)
    with joblib.parallel_config(backend="threading"):
        two = LSSVMRegressorCV(kernels=kernels, n_jobs=2).fit(X, Y)
    assert (one.gamma_, one.kernel_, one.criterion_) == (two.gamma_, two.kernel_, two.criterion_)


def test_folds_equal_explicit_folds_and_a_single_validation_set_is_a_split():
    folds = KFold(4, shuffle=True, random_state=0)
    model = LSSVMRegressorCV(RBF(1.0), cv=folds).fit(X, Y)
    scores = []
    for train, valid in folds.split(X):
        inner = LSSVMRegressor(RBF(1.0), model.gamma_).fit(X[train], Y[train])
        scores.append(np.mean((Y[valid] - inner.predict(X[valid])) ** 2))
    assert_allclose(model.criterion_, np.mean(scores), rtol=1e-9)
    held_out = PredefinedSplit(np.where(np.arange(40) % 4 == 0, 0, -1))
    single = LSSVMRegressorCV(RBF(1.0), cv=held_out).fit(X, Y)
    train = np.arange(40) % 4 != 0
    inner = LSSVMRegressor(RBF(1.0), single.gamma_).fit(X[train], Y[train])
    assert_allclose(single.criterion_, np.mean((Y[~train] - inner.predict(X[~train])) ** 2), rtol=1e-9)
    assert single.support_.size == 40, "the final machine has all rows"


def test_gamma_is_equal_under_permutation_and_scaling():
    model = LSSVMRegressorCV(RBF(1.0)).fit(X, Y)
    order = RNG.permutation(40)
    assert_allclose(LSSVMRegressorCV(RBF(1.0)).fit(X[order], Y[order]).gamma_, model.gamma_, rtol=1e-7)
    for factor in (1e-12, 1e12, 1e200, -2.0):
        scaled = LSSVMRegressorCV(RBF(1.0)).fit(X, factor * Y)
        assert_allclose(scaled.gamma_, model.gamma_, rtol=1e-7)
        assert scaled.certificate_.holds
    for offset in (1e3, -1e6):
        assert_allclose(LSSVMRegressorCV(RBF(1.0)).fit(X, Y + offset).gamma_, model.gamma_, rtol=1e-5)


def test_several_outputs_choose_one_gamma_each():
    many = np.column_stack([Y, 1e3 * np.cos(X[:, 1]), np.full(40, 7.0)])
    model = LSSVMRegressorCV(RBF(1.0)).fit(X, many)
    assert model.gamma_.shape == model.criterion_.shape == model.criterion_lower_bound_.shape == (3,)
    for k in range(3):
        alone = LSSVMRegressorCV(RBF(1.0)).fit(X, many[:, k])
        assert_allclose(model.criterion_[k], alone.criterion_, rtol=1e-9, atol=1e-20)
    assert model.criterion_[2] == 0.0
    assert_allclose(model.predict(X)[:, 2], 7.0)
    assert model.certificate_.holds
    assert model.certify(X, many).holds
    with pytest.raises(DataError, match="fitted to 3 outputs, these data have 1"):
        model.certify(X, Y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # so wide a kernel is hidden by rounding
def test_the_search_improves_on_its_start_and_says_that_it_is_local():
    """:place [Cawley2004]_ section 3: the search improves on its start."""
    X1, y1 = MOTORCYCLE
    start = LSSVMRegressorCV(RBF(40.0)).fit(X1, y1)
    model = LSSVMRegressorCV(RBF(40.0), search="gradient", max_evaluations=25).fit(X1, y1)
    assert model.criterion_ < 0.9 * start.criterion_
    assert "local" in dict(model.certificate_.record)["kernels"]
    assert model.kernel == RBF(40.0), "the parameter is left alone"


@pytest.mark.parametrize("coding", ["one_vs_rest", "minimum_output", "ecoc"])
@pytest.mark.parametrize("cv", ["loo", "gcv", 5])
@pytest.mark.covering
def test_classification(coding, cv):
    model = LSSVMClassifierCV(RBF(1.0), cv=cv, coding=coding).fit(X, LABELS)
    plain = LSSVMClassifier(RBF(1.0), model.gamma_, coding=coding).fit(X, LABELS)
    assert_array_equal(model.decision_function(X), plain.decision_function(X))
    left_out = model.leave_one_out()
    if cv == "loo":
        assert_allclose(model.criterion_, np.mean(left_out.residuals**2), rtol=1e-8)
    assert model.criterion_lower_bound_ > -np.inf
    assert model.certificate_.holds
    assert model.certify(X, LABELS).holds


def test_a_given_range_is_kept_and_its_ends_are_reported():
    best = LSSVMRegressorCV(RBF(1.0)).fit(X, Y).gamma_
    model = LSSVMRegressorCV(RBF(1.0), gamma_range=(2.0 * best, 50.0 * best)).fit(X, Y)
    assert_allclose(model.gamma_, 2.0 * best, rtol=1e-12)
    assert "best at the lower end" in dict(model.certificate_.record)["gamma searched"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"cv": "aic"},
            "cv must be 'loo', 'gcv', 'evidence', 'blocks', 'groups', 'noise', a number of folds, a splitter, or a",
        ),
        ({"cv": True}, "cv must be"),
        ({"cv": 2.5}, "cv must be"),
        ({"cv": None}, "cv must be"),
        ({"gap": 0.0}, "gap"),
        ({"gap": "small"}, "gap"),
        ({"gamma_range": (1.0,)}, "pair"),
        ({"gamma_range": (3.0, 1.0)}, "ascend"),
        ({"search": "newton"}, "None or 'gradient'"),
        ({"max_evaluations": 0}, "max_evaluations"),
        ({"max_evaluations": 2.5}, "max_evaluations"),
        ({"time_limit": -1.0}, "time_limit"),
        ({"kernels": []}, "a list of kernels, at least one"),
        ({"kernels": "rbf"}, "a list of kernels, at least one"),
        ({"kernels": RBF(1.0)}, "a list of kernels, at least one"),
        ({"kernels": [Precomputed()]}, "no candidate"),
    ],
)
def test_bad_parameters_are_refused_before_any_work(parameters, message):
    with pytest.raises(DeclarationError, match=message):
        LSSVMRegressorCV(**parameters).fit(X, Y)


def test_bad_splits_are_refused_by_number():
    every = np.arange(40)
    for splits, message in (
        ([(every, every[:5])], "trains on row 0 and validates on it"),
        ([(every[:1], every[5:])], "1 training"),
        ([(every, every[:0])], "test must be row numbers, at least one"),
        ([], "no split"),
    ):
        with pytest.raises(DataError, match=message):
            LSSVMRegressorCV(cv=splits).fit(X, Y)
    with pytest.raises(ValueError, match="n_splits=50"):
        LSSVMRegressorCV(cv=50).fit(X, Y)
    only_a = [(every[LABELS == "a"], every[LABELS != "a"])]
    with pytest.raises(DataError, match="absent from its training rows"):
        LSSVMClassifierCV(cv=only_a).fit(X, LABELS)


WEIGHTS = np.where(np.arange(40) == 3, 0.0, RNG.uniform(0.1, 5.0, size=40))
KEPT = np.flatnonzero(WEIGHTS)


def weighted_error(gamma, train, valid):
    plain = LSSVMRegressor(RBF(1.0), gamma).fit(X[train], Y[train], WEIGHTS[train])
    return np.average((Y[valid] - plain.predict(X[valid])) ** 2, weights=WEIGHTS[valid])


@pytest.mark.parametrize("cv", ["loo", "gcv", 5])
def test_a_weighted_row_is_left_out_whole_and_the_criterion_is_weighted(cv):
    model = LSSVMRegressorCV(RBF(1.0), cv=cv).fit(X, Y, sample_weight=WEIGHTS)
    plain = LSSVMRegressor(RBF(1.0), model.gamma_).fit(X, Y, WEIGHTS)
    folds = [(KEPT[a], KEPT[b]) for a, b in KFold(5).split(KEPT)]

    def criterion(gamma):
        if cv == 5:
            return np.mean([weighted_error(gamma, *fold) for fold in folds])
        left = LSSVMRegressor(RBF(1.0), gamma).fit(X, Y, WEIGHTS).leave_one_out()
        return left.gcv if cv == "gcv" else np.average(left.residuals**2, weights=WEIGHTS[KEPT])

    assert_allclose(model.criterion_, criterion(model.gamma_), rtol=1e-9)
    for factor in (0.1, 0.5, 2.0, 10.0):
        assert criterion(factor * model.gamma_) >= model.criterion_lower_bound_
    assert model.certificate_.holds
    assert model.certify(X, Y, WEIGHTS).holds
    assert not model.certify(X, Y, np.where(WEIGHTS > 0.0, 1.0, 0.0)).holds
    assert_allclose(model.predict(X), plain.predict(X), atol=1e-10)
