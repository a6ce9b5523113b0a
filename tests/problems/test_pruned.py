"""Pruned machines: steps are what refits are, outliers leave first or last, the index decides, steps are models."""

from dataclasses import replace

import naive_pruning as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import LSSVMClassifier, LSSVMRegressor, PrunedLSSVMClassifier, PrunedLSSVMRegressor, load
from substrate.codings import code_book
from substrate.datasets import ripley, sinc, sinc_outliers
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear, Precomputed

KERNEL, GAMMA = RBF(1.0), 10.0


def data(n=60, seed=0):
    return sinc(n, random_state=seed)


def pruned(**parameters):
    return PrunedLSSVMRegressor(KERNEL, GAMMA, **parameters)


def three_classes(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    number = (X[:, 0] + 0.3 * rng.normal(size=n) > 0.0).astype(int) + (X[:, 1] > 0.5)
    return X, np.array(["a", "b", "c"])[number]


# --- the way down -----------------------------------------------------------------------------------------------------


def assert_same_path(path, expected, atol=1e-9):
    assert [step.size for step in path] == [rows.size for rows, _, _ in expected]
    for step, (rows, alpha, _) in zip(path, expected, strict=True):
        assert_array_equal(step.rows, rows)
        assert_allclose(step.support_values, alpha, atol=atol)
        assert_allclose(
            step.spectrum, np.sort(np.abs(alpha) if alpha.ndim == 1 else np.linalg.norm(alpha, axis=1))[::-1]
        )


@pytest.mark.parametrize("step", [0.05, 0.3, 1, 7, 59])
def test_every_machine_on_the_way_is_the_one_refitted(step):
    X, y = data()
    model = pruned(step=step, n_support=2).fit(X, y)
    how = {"share": step} if isinstance(step, float) else {"count": step}
    assert_same_path(model.pruning_path_, naive.prune(KERNEL(X), y, GAMMA, np.ones(60), **how))
    assert model.step_ == len(model.pruning_path_) - 1


def test_robust_weights_are_found_at_every_step_as_in_the_paper():
    """:place [Suykens2002]_ Algorithm 2: against the steps written out."""
    X, y = sinc_outliers(60, n_outliers=4, random_state=1)
    model = pruned(robust="hampel", n_support=4).fit(X, y)
    assert_same_path(model.pruning_path_, naive.prune(KERNEL(X), y, GAMMA, np.ones(60), fewest=4, reweight=True))
    assert "hampel, iqr scale" in str(model.certificate_)


def test_several_machines_are_pruned_by_the_norm_of_their_support_values():
    """:place [Carvalho2006]_ section 3.2: against refits."""
    X, labels = three_classes()
    for coding in ("one_vs_rest", "minimum_output", "ecoc"):
        Y = code_book(coding, 3)[np.searchsorted(["a", "b", "c"], labels)]
        model = PrunedLSSVMClassifier(KERNEL, GAMMA, coding=coding, n_support=20).fit(X, labels)
        assert_same_path(model.pruning_path_, naive.prune(KERNEL(X), Y, GAMMA, np.ones(60), fewest=20))


def test_the_last_row_of_a_class_stays():
    X, labels = three_classes()
    labels = np.where(np.arange(60) == 17, "rare", labels)
    model = PrunedLSSVMClassifier(KERNEL, GAMMA, step=1, n_support=4).fit(X, labels)
    for step in model.pruning_path_:
        assert set(labels[step.rows]) == {"a", "b", "c", "rare"}
    assert model.support_.size == 4


# --- outliers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.some_cases(3)
def test_weighted_pruning_drops_outliers_first_and_plain_pruning_keeps_them_longest(seed):
    sample = sinc_outliers(random_state=seed)
    X, y, outliers = sample.data, sample.target, sample.outliers
    weighted = pruned(robust="hampel", n_support=20).fit(X, y)
    plain = pruned(n_support=20).fit(X, y)
    assert not np.isin(outliers, weighted.pruning_path_[1].rows).any(), "gone after the first step"
    assert np.isin(outliers, plain.support_).all(), "still there at the end"


# --- the index --------------------------------------------------------------------------------------------------------


def refit(X, y, rows, points):
    return LSSVMRegressor(KERNEL, GAMMA).fit(X[rows], y[rows]).predict(points)


def test_the_training_index_is_the_error_over_all_rows():
    X, y = data()
    for step in pruned(n_support=5).fit(X, y).pruning_path_:
        assert_allclose(step.score, np.mean((y - refit(X, y, step.rows, X)) ** 2), rtol=1e-8)


def test_the_validation_index_is_the_error_over_those_rows():
    X, y = data()
    X_val, y_val = data(40, seed=1)
    model = pruned(n_support=5, cv=None).fit(X, y, X_val, y_val)
    for step in model.pruning_path_:
        assert_allclose(step.score, np.mean((y_val - refit(X, y, step.rows, X_val)) ** 2), rtol=1e-8)


def test_closed_form_cross_validation_is_refitting():
    X, y = data(30)
    model = pruned(step=4, n_support=3, cv="loo").fit(X, y)
    for step in model.pruning_path_[::2]:
        errors = y - refit(X, y, step.rows, X)  # a pruned row is left out as it is
        for row in step.rows:
            errors[row] = y[row] - refit(X, y, np.setdiff1d(step.rows, [row]), X[[row]])[0]
        assert_allclose(step.score, np.mean(errors**2), rtol=1e-7)


def test_the_index_of_a_weighted_machine_weighs_rows_as_its_fit_does():
    X, y = sinc_outliers(80, n_outliers=5, random_state=0)
    v = naive.algorithm_1(KERNEL(X), y, GAMMA)[0]
    model = pruned(robust="hampel", n_support=20).fit(X, y)
    errors = y - model.predict(X)
    assert_allclose(model.pruning_path_[-1].score, np.average(errors**2, weights=v), rtol=1e-8)


def test_the_index_of_a_classifier_is_the_share_of_wrong_classes():
    X, labels = three_classes()
    for coding in ("one_vs_rest", "minimum_output", "ecoc"):
        model = PrunedLSSVMClassifier(KERNEL, GAMMA, coding=coding, n_support=12).fit(X, labels)
        for number in (0, 5, -1):
            step = model.pruning_path_[number]
            other = LSSVMClassifier(KERNEL, GAMMA, coding=coding).fit(X[step.rows], labels[step.rows])
            assert_allclose(step.score, np.mean(other.predict(X) != labels))
    half = np.arange(60) % 2 == 0
    model = PrunedLSSVMClassifier(KERNEL, GAMMA, cv=None, n_support=8)
    model.fit(X[half], labels[half], X[~half], labels[~half])
    assert_allclose(model.pruning_path_[-1].score, np.mean(model.predict(X[~half]) != labels[~half]))


@pytest.mark.parametrize("cv", ["training", "loo"])
@pytest.mark.parametrize("growth", [0.0, 0.1, 1.0])
def test_it_stops_before_the_first_machine_whose_index_has_degraded(cv, growth):
    X, y = data(100)
    model = pruned(cv=cv, growth=growth, step=3).fit(X, y)
    scores = np.array([step.score for step in model.pruning_path_])
    limit = scores[0] * (1.0 + growth)
    assert (scores[:-1] <= limit).all()
    assert scores[-1] > limit
    assert model.step_ == len(scores) - 2
    assert_array_equal(model.support_, model.pruning_path_[-2].rows)
    assert f"> {limit:.4g}" in str(model.certificate_)


def test_a_classifier_may_lose_so_many_rows_in_a_hundred():
    X, labels = ripley()
    model = PrunedLSSVMClassifier(RBF(0.5), 1.0, growth=0.02).fit(X, labels)
    first, *_, last = model.pruning_path_
    assert last.score > first.score + 0.02 >= model.pruning_path_[model.step_].score
    assert model.support_.size < 125


def test_a_number_of_rows_overrules_the_index():
    X, y = data(100)
    model = pruned(n_support=7).fit(X, y)
    assert model.support_.size == 7
    assert model.pruning_path_[-1].score > 2.0 * model.pruning_path_[0].score
    whole = pruned(n_support=100).fit(X, y)
    assert len(whole.pruning_path_) == 1
    assert_allclose(whole.support_values_, LSSVMRegressor(KERNEL, GAMMA).fit(X, y).support_values_, atol=1e-12)


def test_where_nothing_degrades_two_rows_are_left():
    X, _ = data(30)
    model = PrunedLSSVMRegressor(Linear(), 1.0).fit(X, np.full(30, 2.5))
    assert model.support_.size == 2
    assert "no more rows can be removed" in str(model.certificate_)


# --- retuning ---------------------------------------------------------------------------------------------------------


def test_retuning_carries_on_where_the_index_degraded():
    X, y = sinc(150, random_state=3)
    kernel = RBF(0.6)
    fixed = PrunedLSSVMRegressor(kernel, GAMMA, cv="loo", growth=0.05).fit(X, y)
    tuned = PrunedLSSVMRegressor(kernel, GAMMA, cv="loo", growth=0.05, retune=True).fit(X, y)
    assert tuned.support_.size < fixed.support_.size
    at = [number for number, step in enumerate(tuned.pruning_path_) if step.retuned]
    assert at
    assert at[0] == fixed.step_ + 1
    for one, other in zip(tuned.pruning_path_[: at[0]], fixed.pruning_path_, strict=False):
        assert one.score == other.score
    step = tuned.pruning_path_[at[0]]
    assert (step.gamma, step.kernel) != (GAMMA, kernel)
    assert_array_equal(step.rows, fixed.pruning_path_[at[0]].rows)
    assert step.score < fixed.pruning_path_[at[0]].score
    assert (tuned.gamma_, tuned.kernel_) == (
        tuned.pruning_path_[tuned.step_].gamma,
        tuned.pruning_path_[tuned.step_].kernel,
    )
    assert tuned.certificate_.holds
    assert "retuned" in str(tuned.certificate_)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_retuning_does_not_move_the_limit(seed):
    X, y = sinc(100, random_state=seed)
    model = PrunedLSSVMRegressor(RBF(0.6), GAMMA, cv="loo", growth=0.3, retune=True).fit(X, y)
    assert any(step.retuned for step in model.pruning_path_[: model.step_ + 1])
    limit = 1.3 * model.pruning_path_[0].score
    assert all(step.score <= limit for step in model.pruning_path_[: model.step_ + 1])


def test_a_kernel_without_a_width_has_its_gamma_tuned():
    X, y = sinc(80, random_state=3)
    K = RBF(0.6)(X)
    model = PrunedLSSVMRegressor(Precomputed(), GAMMA, n_support=10, retune=True).fit(K, y)
    assert any(step.retuned for step in model.pruning_path_)
    assert all(step.kernel == Precomputed() for step in model.pruning_path_)
    assert model.gamma_ != GAMMA
    assert model.certificate_.holds


# --- models -----------------------------------------------------------------------------------------------------------


def test_rows_of_another_fit_are_refused():
    X, y = data()
    model = pruned(n_support=30).fit(X, y)
    with pytest.raises(DataError, match="the path began with 60 rows, these are 59"):
        model.certify(X[:-1], y[:-1])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *[
            ({"step": wrong}, "step must be a share in")
            for wrong in (0, -1, 0.0, 1.0, 1.5, -0.1, np.nan, "5%", None, True)
        ],
        *[({"n_support": wrong}, "n_support must be an integer >= 2") for wrong in (0, 1, -3, 2.0, "10", True)],
        *[
            ({"cv": wrong}, "cv must be 'training', 'loo', or None for validation rows")
            for wrong in ("test", "gcv", 5, True, 2.5, [(0, 1)])
        ],
        ({"growth": -0.1}, "growth must be >= 0"),
        ({"growth": np.nan}, "growth must be a finite number"),
        ({"robust": "tukey"}, "weighting must be one of"),
        ({"robust": 1.0}, "robust must be None, the name of a weighting or a Robust"),
    ],
)
def test_bad_settings_are_refused(parameters, message):
    X, y = data()
    with pytest.raises(DeclarationError, match=message):
        pruned(**parameters).fit(X, y)


def test_more_rows_than_there_are_are_refused():
    X, y = data()
    with pytest.raises(DataError, match="n_support = 61 is more than the 60 rows"):
        pruned(n_support=61).fit(X, y)


def test_validation_rows_that_cannot_be_used_are_refused():
    X, y = data()
    V, v = data(20, seed=1)
    with pytest.raises(DataError, match="X_val and y_val come together"):
        pruned(cv=None).fit(X, y, V)
    with pytest.raises(DataError, match=r"no other cv takes them: received cv=None without them"):
        pruned(cv=None).fit(X, y)
    with pytest.raises(DataError, match=r"received cv='training' with them"):
        pruned().fit(X, y, V, v)
    with pytest.raises(DataError, match="X_val has 2 features, X has 1"):
        pruned(cv=None).fit(X, y, np.hstack([V, V]), v)
    X, labels = three_classes()
    with pytest.raises(DataError, match=r"y_val has classes \['z'\] that y lacks"):
        PrunedLSSVMClassifier(cv=None).fit(X, labels, X[:3], np.array(["a", "z", "b"]))


def test_a_file_keeps_the_path_and_lies_in_it_are_refused(tmp_path):
    X, y = data()
    model = pruned(n_support=20).fit(X, y)
    model.save(tmp_path / "m.npz")
    other = load(tmp_path / "m.npz")
    assert other.pruning_path_ == model.pruning_path_
    for name, value in (
        ("step_", 99),
        ("step_", 0),
        ("step_", 1.0),
        ("pruning_path_", (1, 2)),
        ("pruning_path_", 3),
        ("pruning_path_", "cut"),
    ):
        spoilt = pruned(n_support=20).fit(X, y)
        if value == "cut":
            value = tuple(replace(step, rows=step.rows[1:]) for step in spoilt.pruning_path_)
        setattr(spoilt, name, value)
        # what would be written is read back first
        with pytest.raises(DataError, match=r"step_ must be|not that of the step|pruning_path_ must"):
            spoilt.save(tmp_path / "s.npz")
        assert not (tmp_path / "s.npz").exists()
