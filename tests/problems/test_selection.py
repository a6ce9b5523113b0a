"""Machines that choose: their criterion is what refits give, their gamma the best of the range, their kernel of all."""

from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, LeaveOneOut, PredefinedSplit, cross_val_predict

from problems import LSSVMClassifier, LSSVMClassifierCV, LSSVMRegressor, LSSVMRegressorCV
from substrate.datasets import motorcycle
from substrate.errors import DataError, DeclarationError, DegenerateKernelWarning
from substrate.kernels import RBF, Linear, Matern, Polynomial, Precomputed

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


def test_the_final_machine_is_the_machine_at_that_gamma():
    model = LSSVMRegressorCV(RBF(1.0)).fit(X, Y)
    plain = LSSVMRegressor(RBF(1.0), model.gamma_).fit(X, Y)
    assert_array_equal(model.predict(X), plain.predict(X))
    assert_allclose(model.leave_one_out().mean_square, model.criterion_, rtol=1e-9)
    assert model.certify(X, Y).holds
    model.support_values_ = model.support_values_ * 1.001
    assert not model.certify(X, Y).holds


def test_selection_on_motorcycle_is_never_worse_than_a_grid():
    X1, y1 = MOTORCYCLE
    model = LSSVMRegressorCV(kernels=[RBF(s) for s in (3.0, 6.6, 10.0, 20.0)]).fit(X1, y1)
    for sigma in (3.0, 6.6, 10.0, 20.0):
        for gamma in np.logspace(-2, 6, 17):
            mean = LSSVMRegressor(RBF(sigma), gamma).fit(X1, y1).leave_one_out().mean_square
            assert mean >= model.criterion_ * (1.0 - 1e-9)
            assert mean >= model.criterion_lower_bound_


def test_candidates_are_tabulated_as_scikit_learn_does():
    kernels = [RBF(0.3), RBF(1.0), Linear(), RBF(1.0), Matern(1.0)]
    model = LSSVMRegressorCV(kernels=kernels).fit(X, Y)
    table = pd.DataFrame(model.cv_results_)
    assert len(table) == 4  # a duplicate is judged once
    assert set(table) >= {"params", "param_kernel", "mean_test_score", "rank_test_score"}
    best = table["rank_test_score"].idxmin()
    assert table["params"][best] == {"kernel": model.kernel_, "gamma": model.gamma_}
    assert_allclose(-table["mean_test_score"][best], model.criterion_)
    assert (table["lower_bound"] <= -table["mean_test_score"]).all()
    assert model.criterion_lower_bound_ == table["lower_bound"].min()
    assert (table["mean_fit_time"] > 0.0).all()
    assert dict(model.certificate_.record)["kernels"] == "4 evaluated"


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_workers_change_nothing(backend):
    kernels = [RBF(0.3), RBF(1.0), Linear()]
    one = LSSVMRegressorCV(kernels=kernels).fit(X, Y)
    with joblib.parallel_config(backend=backend):
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


def test_a_seed_draws_the_rows_of_a_number_of_folds():
    drawn = LSSVMRegressorCV(RBF(1.0), cv=4, random_state=0).fit(X, Y)
    folds = LSSVMRegressorCV(RBF(1.0), cv=KFold(4, shuffle=True, random_state=0)).fit(X, Y)
    assert (drawn.gamma_, drawn.criterion_) == (folds.gamma_, folds.criterion_)
    assert drawn.criterion_ != LSSVMRegressorCV(RBF(1.0), cv=4).fit(X, Y).criterion_


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


def test_gcv_is_that_of_the_final_machine():
    model = LSSVMRegressorCV(RBF(1.0), cv="gcv").fit(X, Y)
    assert_allclose(model.leave_one_out().gcv, model.criterion_, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # so wide a kernel is hidden by rounding
def test_the_search_improves_on_its_start_and_says_that_it_is_local():
    """:place [Cawley2004]_ section 3: the search improves on its start."""
    X1, y1 = MOTORCYCLE
    start = LSSVMRegressorCV(RBF(40.0)).fit(X1, y1)
    model = LSSVMRegressorCV(RBF(40.0), search="gradient", max_evaluations=25).fit(X1, y1)
    assert model.criterion_ < 0.9 * start.criterion_
    assert "local" in dict(model.certificate_.record)["kernels"]
    assert model.kernel == RBF(40.0), "the parameter is left alone"


def test_what_can_be_searched_is_known():
    kernel = 0.5 * RBF(2.0) + Polynomial(3, 1.5)
    assert set(kernel.scales().values()) >= {2.0, 1.5}
    assert Matern(1.1, nu=2.5).scales() == {"sigma": 1.1}
    with pytest.raises(DeclarationError, match="no parameter to search"):
        LSSVMRegressorCV(Linear(), search="gradient").fit(X, Y)


@pytest.mark.parametrize("coding", ["one_vs_rest", "minimum_output", "ecoc"])
@pytest.mark.parametrize("cv", ["loo", "gcv", 5])
@pytest.mark.some_cases(10)
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


def test_two_classes_are_one_machine_whatever_the_coding():
    labels = LABELS == "a"
    found = {c: LSSVMClassifierCV(RBF(1.0), coding=c).fit(X, labels).gamma_ for c in ("one_vs_rest", "minimum_output")}
    assert found["one_vs_rest"] == found["minimum_output"]
    assert LSSVMClassifierCV(RBF(1.0), coding="minimum_output", cv=5).fit(X, labels).certificate_.holds


def test_a_precomputed_kernel_and_an_indefinite_one():
    model = LSSVMRegressorCV(RBF(1.0)).fit(X, Y)
    given = LSSVMRegressorCV(Precomputed()).fit(RBF(1.0)(X), Y)
    assert_allclose(given.gamma_, model.gamma_, rtol=1e-7)
    assert given.certificate_.holds


def test_a_given_range_is_kept_and_its_ends_are_reported():
    best = LSSVMRegressorCV(RBF(1.0)).fit(X, Y).gamma_
    model = LSSVMRegressorCV(RBF(1.0), gamma_range=(2.0 * best, 50.0 * best)).fit(X, Y)
    assert_allclose(model.gamma_, 2.0 * best, rtol=1e-12)
    assert "best at the lower end" in dict(model.certificate_.record)["gamma searched"]


def test_degenerate_data():
    constant = LSSVMRegressorCV(RBF(1.0)).fit(X, np.full(40, 0.1))
    assert constant.criterion_ == 0.0
    assert constant.certificate_.holds
    assert_array_equal(constant.predict(X), np.full(40, 0.1))
    same = LSSVMRegressorCV(RBF(1.0)).fit(np.ones((10, 2)), Y[:10])
    assert_allclose(same.predict([[1.0, 1.0]]), Y[:10].mean(), rtol=1e-9)
    assert same.certificate_.holds
    with pytest.warns(DegenerateKernelWarning, match="identity"):
        lonely = LSSVMRegressorCV(RBF(1e-6)).fit(X, Y)
    assert lonely.certificate_.holds
    # a candidate that tells nothing apart loses without a word
    assert LSSVMRegressorCV(kernels=[RBF(1e-6), RBF(1.0)]).fit(X, Y).kernel_ == RBF(1.0)


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


@pytest.mark.parametrize(
    "parameters",
    [{}, {"search": "gradient"}],
    ids=["a list", "slopes"],
)
@pytest.mark.parametrize("cv", ["loo", "gcv"])
def test_rows_of_vanishing_weight_count_as_absent_rows_whatever_the_unit_of_weights(cv, parameters):
    kernels = [RBF(0.03), RBF(1.0)]  # the first one interpolates
    few = np.arange(0, 40, 2)
    noisy, ends = Y + 0.5 * np.random.default_rng(0).normal(size=40), np.array([1e-2, 1e2])
    absent = LSSVMRegressorCV(kernels=kernels, cv=cv, gamma_range=ends, **parameters).fit(X[few], noisy[few])
    for unit in (1.0, 1e6):
        weights = unit * np.where(np.isin(np.arange(40), few), 1.0, 1e-30)
        model = LSSVMRegressorCV(kernels=kernels, cv=cv, gamma_range=ends / unit, **parameters)
        model.fit(X, noisy, sample_weight=weights)
        rtol = 1e-3 if parameters else 1e-9  # a search by slopes ends within its tolerance
        assert_allclose(model.criterion_, absent.criterion_, rtol=rtol)
        assert model.criterion_lower_bound_ <= absent.criterion_
        assert_allclose(model.leave_one_out().gcv, absent.leave_one_out().gcv, rtol=max(rtol, 1e-6))
        tried = (one.cv_results_["mean_test_score"][:2] for one in (model, absent))
        assert_allclose(*tried, rtol=1e-9)
        if not parameters:
            assert model.kernel_ == absent.kernel_
            assert_allclose(unit * model.gamma_, absent.gamma_, rtol=1e-6)


def test_weights_scale_gamma_and_equal_ones_change_nothing():
    model = LSSVMRegressorCV(RBF(1.0)).fit(X, Y, sample_weight=WEIGHTS)
    heavy = LSSVMRegressorCV(RBF(1.0)).fit(X, Y, sample_weight=8.0 * WEIGHTS)
    assert_allclose(8.0 * heavy.gamma_, model.gamma_, rtol=1e-6)
    assert_allclose(heavy.criterion_, model.criterion_, rtol=1e-9)
    plain, ones = LSSVMRegressorCV(RBF(1.0)).fit(X, Y), LSSVMRegressorCV(RBF(1.0)).fit(X, Y, sample_weight=np.ones(40))
    assert_allclose(ones.gamma_, plain.gamma_, rtol=1e-6)
    assert_allclose(ones.predict(X), plain.predict(X), atol=1e-8)


@pytest.mark.parametrize("coding", ["one_vs_rest", "minimum_output"])
def test_a_weighted_criterion_of_classes(coding):
    model = LSSVMClassifierCV(RBF(1.0), coding=coding).fit(X, LABELS, sample_weight=WEIGHTS)
    left = model.leave_one_out().residuals
    assert_allclose(model.criterion_, np.average((left**2).mean(axis=1), weights=WEIGHTS[KEPT]), rtol=1e-9)
    assert model.certify(X, LABELS, WEIGHTS).holds
    other = LSSVMClassifierCV(RBF(1.0), coding=coding, cv=4, random_state=0).fit(X, LABELS, sample_weight=WEIGHTS)
    assert other.certify(X, LABELS, WEIGHTS).holds


@pytest.mark.parametrize(
    "machine", [LSSVMClassifierCV, partial(LSSVMClassifierCV, basis="feature_vectors"), LSSVMClassifier]
)
@pytest.mark.parametrize("class_weight", ["balanced", {"a": 3.0, "b": 1.0, "c": 0.5}], ids=str)
@pytest.mark.some_cases(3)
def test_weights_of_classes_are_weights_of_their_rows(machine, class_weight):
    """In every fit, in the criterion, in leave-one-out and in the certificate."""
    share = {label: LABELS.size / (3.0 * np.sum(label == LABELS)) for label in "abc"}
    factors = share if class_weight == "balanced" else class_weight
    weights = np.array([factors[label] for label in LABELS])
    basis = {} if machine is LSSVMClassifierCV else {"basis": np.arange(0, 40, 3)}
    by_class = machine(RBF(1.0), class_weight=class_weight, **basis).fit(X, LABELS)
    by_row = machine(RBF(1.0), **basis).fit(X, LABELS, sample_weight=weights)
    assert np.array_equal(by_class.support_values_, by_row.support_values_)
    assert by_class.certificate_ == by_row.certificate_
    assert by_class.certify(X, LABELS).rows == by_row.certify(X, LABELS, sample_weight=weights).rows
    if machine is not LSSVMClassifier:
        assert (by_class.gamma_, by_class.criterion_) == (by_row.gamma_, by_row.criterion_)
        assert by_class.gamma_ != machine(RBF(1.0), **basis).fit(X, LABELS).gamma_
    rows = (X, LABELS) if basis else ()
    again = by_row.leave_one_out(*rows, weights) if basis else by_row.leave_one_out()
    assert np.array_equal(by_class.leave_one_out(*rows).outputs, again.outputs)
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))


def test_weights_of_classes_that_cannot_be_used_are_refused():
    for machine in (LSSVMClassifierCV, LSSVMClassifierCV):
        with pytest.raises(ValueError, match="class_weight"):
            machine(RBF(1.0), class_weight="heavy").fit(X, LABELS)
    blocks = [(X, np.searchsorted(["a", "b", "c"], LABELS))]
    with pytest.raises(DeclarationError, match=r"needs labels in memory, and .* is read in passes; give sample_weight"):
        LSSVMClassifierCV(RBF(1.0), class_weight="balanced", basis="feature_vectors").fit(blocks)
