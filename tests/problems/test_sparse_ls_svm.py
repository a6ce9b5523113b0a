"""Sparse LS-SVMs on a reduced basis: against the dense machine, against refits, and every way to name a basis."""

import tracemalloc

import naive_reduced_basis as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold

from problems import LSSVMClassifier, LSSVMRegressor, LSSVMRegressorCV
from substrate import conventions
from substrate.basis import RULES, Basis
from substrate.datasets import motorcycle
from substrate.errors import DataError, DeclarationError, SolverError
from substrate.kernels import RBF, Linear, Polynomial, Precomputed

RNG = np.random.default_rng(11)
X = RNG.normal(size=(120, 3))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=120)
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, np.quantile(Y, [0.3, 0.7]))]
KERNEL = RBF(2.0)
over_rules = pytest.mark.parametrize("rule", RULES)


def model(**parameters):
    return LSSVMRegressor(KERNEL, 5.0, basis=Basis(**{"random_state": 0, "n": 20, **parameters}))


# --- against the dense machine --------------------------------------------------------------------------------------


def test_fifteen_vectors_are_the_full_model_on_motorcycle():
    """[Cawley2004] section 3.1, with time scaled to [0, 1] and the gamma that fits.

    :place [Cawley2004]_ section 3.1: against the full machine.
    """
    times, forces = motorcycle()
    times = (times - times.min()) / np.ptp(times)
    sigma, gamma = 13.1**-0.5, conventions.gamma_from("Cawley2004", 1.2055e3)
    full = LSSVMRegressor(RBF(sigma), gamma).fit(times, forces)
    sparse = LSSVMRegressor(RBF(sigma), gamma, basis=15).fit(times, forces)
    grid = np.linspace(0.0, 1.0, 300)[:, None]
    assert sparse.support_.size == 15
    difference = np.abs(sparse.predict(grid) - full.predict(grid)).max()
    assert difference < 1e-3 * np.ptp(forces)
    assert sparse.reconstruction_error_ < 1e-6
    fewer = LSSVMRegressor(RBF(sigma), gamma, basis=5).fit(times, forces)
    assert np.abs(fewer.predict(grid) - full.predict(grid)).max() > 10.0 * difference


def test_all_points_are_the_dense_machine():
    dense = LSSVMRegressor(KERNEL, 5.0).fit(X, Y)
    for basis in (np.arange(120), X, "feature_vectors"):
        sparse = model(rule=basis, n=120 if isinstance(basis, str) else None).fit(X, Y)
        assert_allclose(sparse.predict(X), dense.predict(X), atol=1e-9)
        assert_allclose(sparse.leave_one_out(X, Y).residuals, dense.leave_one_out().residuals, atol=1e-6)


def test_the_classifier_is_the_dense_one_on_all_points():
    for coding in ("one_vs_rest", "minimum_output", "ecoc"):
        dense = LSSVMClassifier(KERNEL, 5.0, coding=coding).fit(X, LABELS)
        sparse = LSSVMClassifier(KERNEL, 5.0, basis=np.arange(120), coding=coding).fit(X, LABELS)
        assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-9)
        one, other = sparse.leave_one_out(X, LABELS), dense.leave_one_out()
        assert_allclose(one.outputs, other.outputs, atol=1e-6)
        assert_array_equal(one.predictions, other.predictions)
        assert one.misclassification == other.misclassification


def test_all_residuals_beat_those_of_the_kept_points():
    """[Cawley2002]: the same few vectors, with and without the errors of the rows that were not kept.

    :place [Cawley2002]_ Fig. 1 and 2: the ordering of the two curves.
    """
    times, forces = motorcycle()
    sparse = LSSVMRegressor(RBF(10.0), 20.0, basis=20).fit(times, forces)
    kept = sparse.basis_indices_
    conventional = LSSVMRegressor(RBF(10.0), 20.0).fit(times[kept], forces[kept])
    improved, old = (np.mean((forces - m.predict(times)) ** 2) for m in (sparse, conventional))
    assert improved < 0.8 * old


# --- leave-one-out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [KERNEL, Linear()], ids=repr)
def test_leave_one_out_is_explicit_leave_one_out(kernel):
    fitted = LSSVMRegressor(kernel, 5.0, basis=3 if kernel == Linear() else 20).fit(X, Y)
    out = fitted.leave_one_out(X, Y)
    expected = naive.explicit_leave_one_out(kernel(fitted.support_vectors_), kernel(X, fitted.support_vectors_), Y, 5.0)
    assert_allclose(out.residuals, expected, atol=1e-10)
    assert_allclose(out.outputs, Y - expected, atol=1e-10)
    assert out.certificate.holds
    assert "basis" in str(out.certificate).split("conditional on")[1]
    assert_allclose(out.degrees_of_freedom, fitted.degrees_of_freedom_, rtol=1e-10)
    errors = Y - fitted.predict(X)
    assert_allclose(out.gcv, np.mean(errors**2) / (1.0 - out.degrees_of_freedom / 120) ** 2, rtol=1e-9)


def test_the_relative_error_on_motorcycle_is_below_the_published_one():
    """:equation [Cawley2004]_ (6): the paper reports 7.6e-6 by normal equations; by eigen-features it is rounding."""
    times, forces = motorcycle()
    fitted = LSSVMRegressor(RBF(10.0), 20.0, basis=15).fit(times, forces)
    kernel = fitted.kernel_
    explicit = naive.explicit_leave_one_out(
        kernel(fitted.support_vectors_), kernel(times, fitted.support_vectors_), forces, 20.0
    )
    fast = fitted.leave_one_out(times, forces).residuals
    assert np.linalg.norm(explicit - fast) < 1e-9 * np.linalg.norm(explicit)


def test_a_leverage_of_one_is_refused():
    fitted = model().fit(X, Y)
    fitted.leverage_factor_ = fitted.leverage_factor_ * 100.0
    fitted.leverage_offset_ = fitted.leverage_offset_ * 100.0
    fitted.degrees_of_freedom_ = 1.0 + 1e4 * (fitted.degrees_of_freedom_ - 1.0)
    with pytest.raises(SolverError, match="must be below 1"):
        fitted.leave_one_out(X, Y)


# --- the basis ------------------------------------------------------------------------------------------------------


@over_rules
def test_every_rule_fits_and_is_on_record(rule):
    fitted = model(rule=rule).fit(X, Y)
    assert fitted.basis_indices_.size == 20
    assert_array_equal(fitted.support_vectors_, X[fitted.basis_indices_])
    assert fitted.certificate_.holds
    assert f"by {rule}" in str(fitted.certificate_)
    assert 0.0 <= fitted.reconstruction_error_ < 0.3
    assert_array_equal(fitted.predict(X), model(rule=rule).fit(X, Y).predict(X))
    K = KERNEL(X)
    paired = LSSVMRegressor(Precomputed(), 5.0, basis=Basis(20, rule=rule, random_state=0)).fit(K, Y)
    assert_allclose(paired.predict(K), fitted.predict(X), atol=1e-6)
    assert paired.leave_one_out(K, Y).certificate.holds


@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(0.3), Polynomial(2, 1.0)], ids=repr)
def test_the_greedy_rule_is_the_published_one(kernel):
    """:equation [Cawley2004]_ (4)-(5): against J(S) computed anew for every candidate."""
    K = kernel(X[:30])
    fitted = LSSVMRegressor(kernel, 5.0, basis=Basis(5, n_candidates=None, n_scoring=None)).fit(X[:30], Y[:30])
    assert list(fitted.basis_indices_) == naive.greedy_basis(K, 5)
    assert_allclose(fitted.reconstruction_error_, naive.reconstruction(K, list(fitted.basis_indices_)), atol=1e-10)


def pruned_by_refits(K, y, count, gamma, start):
    """Rows that are left when the smallest coefficients of fits to all rows leave, a twentieth at a time."""
    kept = list(start)
    while len(kept) > count:
        u, _, _ = naive.weights(K[np.ix_(kept, kept)], K[:, kept], y, gamma)
        values, vectors = np.linalg.eigh(K[np.ix_(kept, kept)])
        inside = values > len(kept) * np.finfo(float).eps * values[-1]
        beta = vectors[:, inside] @ (u / np.sqrt(values[inside]))
        leaving = min(max(1, int(0.05 * len(kept))), len(kept) - count)
        kept = [kept[i] for i in np.sort(np.argsort(np.abs(beta), kind="stable")[leaving:])]
    return kept


@pytest.mark.parametrize("count", [15, 45])
def test_pruning_drops_the_smallest_coefficients_of_a_fit_to_all_rows(count):
    """:place [Cawley2002]_ section 2, backward elimination: against refits."""
    points, targets = X[:60, :2], Y[:60]  # a narrow kernel: beta is known to all digits, so the order is
    fitted = LSSVMRegressor(RBF(1.0), 10.0, basis=Basis(count, "pruned")).fit(points, targets)
    expected = pruned_by_refits(RBF(1.0)(points), targets, count, 10.0, range(60))
    assert_array_equal(np.sort(fitted.basis_indices_), expected)


REFUSED = [
    ({"n": 0}, r"basis\.n must be an integer >= 1 or None, received 0"),
    ({"n": 2.0}, r"basis\.n must be an integer >= 1"),
    ({"n": True}, r"basis\.n must be an integer >= 1"),
    ({"n": 121}, r"basis\.n=121 exceeds the 120 rows"),
    ({"n_candidates": 10}, r"basis\.n=20 exceeds the 10 candidates of basis\.n_candidates=10"),
    ({"n_candidates": -1}, r"basis\.n_candidates must be an integer"),
    ({"n_scoring": "all"}, r"basis\.n_scoring must be an integer"),
    ({"reconstruction_tolerance": -0.1}, r"basis\.reconstruction_tolerance must be >= 0"),
    ({"reconstruction_tolerance": 0.1, "rule": "renyi"}, r"basis\.reconstruction_tolerance=0\.1 stops feature_vectors"),
    ({"rule": "greedy"}, r"basis\.rule must be one of feature_vectors"),
    ({"rule": 5}, r"basis\.rule must be one of feature_vectors"),
    ({"rule": [1, 2]}, r"basis\.n=20 goes with a rule"),
    ({"rule": [1, 120], "n": None}, "names row 120 of 120"),
    ({"rule": [-1, 2], "n": None}, "rows run from 0 to 119"),
    ({"rule": np.ones((4, 2)), "n": None}, "basis has 2 features, X has 3"),
    ({"rule": np.full((4, 3), np.nan), "n": None}, "basis contains NaN"),
    ({"random_state": "seed"}, r"basis\.random_state must be an integer.*received 'seed'"),
    ({"random_state": -1}, r"basis\.random_state must be an integer from 0 to"),
]


@pytest.mark.parametrize(("parameters", "message"), REFUSED)
def test_what_is_refused(parameters, message):
    with pytest.raises((DeclarationError, DataError, ValueError), match=message):
        model(**parameters).fit(X, Y)


def test_memory_does_not_grow_with_the_rows():
    def peak(n):
        rows = RNG.normal(size=(n, 2))
        target = np.sin(rows[:, 0])
        fitted = LSSVMRegressor(RBF(1.0), basis=Basis(30, n_candidates=200, n_scoring=200, random_state=0))
        fitted.fit(rows[:500], target[:500])
        tracemalloc.start()
        try:
            fitted.fit(rows, target)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # a few numbers a row for checks of the input, never a row of kernel values
    assert peak(40_000) - peak(20_000) < 20_000 * 8 * 15


# --- machines that choose -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*does not hold .gap of gamma:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("criterion", ["loo", "gcv", "folds"])
def test_gamma_is_that_of_the_dense_search_on_all_points(criterion):
    """Over a range that reaches further than the criterion of as many vectors as rows is known."""
    reach = {"cv": 5 if criterion == "folds" else criterion, "gamma_range": (1e-2, 1e5)}
    dense = LSSVMRegressorCV(KERNEL, **reach).fit(X, Y)
    sparse = LSSVMRegressorCV(KERNEL, **reach, basis=np.arange(120)).fit(X, Y)
    assert sparse.certificate_.accuracy <= 1e-6 * sparse.certificate_.spread
    assert_allclose(sparse.gamma_, dense.gamma_, rtol=1e-4)
    assert_allclose(sparse.criterion_, dense.criterion_, rtol=1e-8)
    assert sparse.criterion_lower_bound_ <= sparse.criterion_


@pytest.mark.parametrize("criterion", ["loo", "gcv", "folds"])
@pytest.mark.parametrize("gamma_range", [None, (1e-2, 1e3)])
@pytest.mark.covering
def test_the_choice_is_the_best_of_many_fits(criterion, gamma_range):
    chosen = LSSVMRegressorCV(
        KERNEL, cv=5 if criterion == "folds" else criterion, basis=15, gamma_range=gamma_range
    ).fit(X, Y)
    assert chosen.certificate_.holds
    assert chosen.certify(X, Y).holds
    values = []
    for gamma in np.geomspace(1e-2, 1e3, 15):
        fitted = LSSVMRegressor(KERNEL, gamma, basis=chosen.basis_indices_).fit(X, Y)
        if criterion == "folds":
            folds = [
                np.mean(
                    (Y[v] - LSSVMRegressor(KERNEL, gamma, basis=chosen.support_vectors_).fit(X[t], Y[t]).predict(X[v]))
                    ** 2
                )
                for t, v in KFold(5).split(X)
            ]
            values.append(np.mean(folds))
        else:
            out = fitted.leave_one_out(X, Y)
            values.append(out.mean_square if criterion == "loo" else out.gcv)
    assert chosen.criterion_ <= min(values) * (1.0 + 1e-9)
    assert chosen.criterion_lower_bound_ <= min(values)
    assert min(values) <= 1.05 * chosen.criterion_
