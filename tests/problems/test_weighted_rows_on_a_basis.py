"""Weights of rows on a reduced basis: on a given basis they count rows, zero is absence, and every check has them."""

import warnings

import numpy as np
import pytest
from array_homes import HOMES, assert_close, sender
from every_model import output
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from problems import (
    L1SubstrateClassifier,
    L1SubstrateRegressor,
    LSSVMClassifier,
    LSSVMClassifierCV,
    LSSVMRegressor,
    LSSVMRegressorCV,
    MaximalVariationRegressor,
    Robust,
)
from substrate.errors import DataError
from substrate.kernels import RBF, Componentwise
from substrate.least_squares.kernel_tiles import KernelTiles
from substrate.reduced import Basis
from substrate.reduced.choice import Candidates, select_by_pruning
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.streaming.rows import ArraySource

RNG = np.random.default_rng(3)
N = 72
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.standard_t(1.5, size=N)
LABELS = np.where(Y > 0.4, "high", np.where(Y > -0.4, "middle", "low"))
TIMES = np.arange(N) % 4
KEPT = np.flatnonzero(TIMES)
POINTS = X[:9] + 0.05
KERNEL = RBF(1.0)

MODELS = {
    "direct": LSSVMRegressor(KERNEL, 10.0, basis="feature_vectors"),
    "classes": LSSVMClassifier(KERNEL, 10.0, basis="feature_vectors"),
    "components": LSSVMRegressor(Componentwise(KERNEL), 10.0, basis="feature_vectors"),
    "robust": LSSVMRegressor(KERNEL, 10.0, basis="feature_vectors", robust="hampel"),
    "robust, iterated": LSSVMRegressor(KERNEL, 10.0, basis=10, robust=Robust("hampel", "mad", 30)),
    "L1": L1SubstrateRegressor(KERNEL, 0.5),
    "L1 of classes": L1SubstrateClassifier(KERNEL, 0.5),
    "maximal variation": MaximalVariationRegressor(KERNEL, rho=2.0, expansion="decoupled", ridge=1.0),
}
SEARCHES = {
    "gamma chosen": LSSVMRegressorCV(KERNEL, basis="feature_vectors"),
    "gamma of classes chosen": LSSVMClassifierCV(KERNEL, cv=3, basis="feature_vectors"),
}


def over(names, *ordinary):
    """Some of the models in the ordinary run, the others in the slow run."""
    marked = [name if name in ordinary else pytest.param(name, marks=pytest.mark.slow) for name in names]
    return pytest.mark.parametrize("name", marked)


over_all = over([*MODELS, *SEARCHES], "direct", "L1", "gamma chosen")


def made(name, basis=POINTS, **parameters):
    return clone((MODELS | SEARCHES)[name]).set_params(basis=basis, **parameters)


def targets(name):
    return LABELS if "classes" in name else Y


@over(MODELS, "direct", "classes", "robust", "L1", "maximal variation")
def test_on_given_points_a_weight_counts_rows(name):
    y = targets(name)
    rows = np.repeat(np.arange(N), TIMES)
    weighted, repeated = made(name).fit(X, y, sample_weight=TIMES), made(name).fit(X[rows], y[rows])
    assert weighted.certificate_.holds
    assert weighted.n_rows_ == KEPT.size
    found, expected = output(weighted, X), output(repeated, X)
    assert_allclose(found, expected, atol=1e-9 * np.ptp(expected))


@over_all
def test_a_common_weight_that_is_not_one_is_one_of_gamma_and_ones_are_none(name):
    y = targets(name)
    model, ones = made(name).fit(X, y), made(name).fit(X, y, sample_weight=np.ones(N))
    assert_array_equal(output(model, X), output(ones, X))
    assert model.certificate_ == ones.certificate_
    heavy = made(name).fit(X, y, sample_weight=np.full(N, 4.0))
    if name in SEARCHES:
        assert_allclose(heavy.gamma_ * 4.0, model.gamma_, rtol=1e-12)
        assert_allclose(heavy.criterion_, model.criterion_, rtol=1e-12)
        assert_allclose(output(heavy, X), output(model, X), atol=1e-11)


@over_all
def test_rows_of_weight_zero_are_absent_also_for_the_choice_of_the_basis(name):
    weights = TIMES * np.linspace(0.5, 1.0, N)
    basis = Basis(7, "kmeans++", random_state=0)
    spoilt = np.where(TIMES[:, None] > 0, X, 1e6)
    model = made(name, basis).fit(spoilt, targets(name), sample_weight=weights)
    alone = made(name, basis).fit(X[KEPT], targets(name)[KEPT], sample_weight=weights[KEPT])
    assert_array_equal(output(model, X), output(alone, X))
    assert_array_equal(model.basis_indices_, KEPT[alone.basis_indices_])
    assert_array_equal(model.support_, KEPT[alone.support_])
    assert model.certificate_ == alone.certificate_


@over_all
def test_a_changed_weight_is_noticed_and_that_of_the_fit_is_not(name):
    y, other = targets(name), TIMES * np.where(np.arange(N) == 5, 1.5, 1.0)
    model = made(name).fit(X, y, sample_weight=TIMES)
    assert model.certify(X, y, TIMES).holds
    assert not model.certify(X, y, other).holds
    with pytest.raises(DataError, match=f"fitted to {KEPT.size} rows, these are {N}"):
        model.certify(X, y)
    assert not model.certify(X[KEPT], y[KEPT]).holds


@over_all
def test_the_weighted_problem_is_proved(name):
    pytest.importorskip("flint", reason="a proof needs python-flint")
    y = targets(name)
    model = made(name, POINTS[:4]).fit(X[:24], y[:24], sample_weight=TIMES[:24])
    assert model.prove(X[:24], y[:24], TIMES[:24]).proved
    assert not model.prove(X[:24], y[:24], TIMES[:24] + (TIMES[:24] > 1)).proved


@over([name for name in (*MODELS, *SEARCHES) if name not in ("components", "maximal variation")], "direct", "L1")
def test_a_matrix_of_kernel_values_is_cut_where_rows_are_absent(name):
    K, y, basis = KERNEL(X), targets(name), np.array([7, 1, 2, 42, 5])
    model = made(name, basis, kernel="precomputed").fit(K, y, sample_weight=TIMES)
    alone = made(name, np.searchsorted(KEPT, basis), kernel="precomputed").fit(
        K[np.ix_(KEPT, KEPT)], y[KEPT], TIMES[KEPT]
    )
    assert_array_equal(output(model, K), output(alone, K[:, KEPT]))
    assert model.certify(K, y, TIMES).holds
    assert set(model.support_) <= set(basis)
    with pytest.raises(DataError, match="basis names row 4, whose sample_weight is zero; name rows of positive weight"):
        made(name, np.array([1, 4])).fit(X, y, sample_weight=TIMES)
    with pytest.raises(DataError, match=f"basis names row {N}"):
        made(name, np.array([1, N])).fit(X, y, sample_weight=TIMES)


@over([*MODELS, *SEARCHES], "classes", "robust")
@pytest.mark.parametrize("where", ["Dask", "blocks"])
@pytest.mark.some_cases(3)
def test_weights_go_along_with_rows_that_are_read_in_passes(name, where):
    y, weights = targets(name), TIMES * np.linspace(0.5, 1.0, N)
    basis = Basis(7, "kmeans++", random_state=0)
    if where == "Dask":
        da = pytest.importorskip("dask.array")
        given = (da.from_array(X, chunks=(9, -1)), da.from_array(y, chunks=9), weights)
    else:
        given = ([(X[k : k + 10], y[k : k + 10]) for k in range(0, N, 10)], None, weights)
    model, here = (
        made(name, basis).fit(*given[:2], sample_weight=given[2]),
        made(name, basis).fit(X, y, sample_weight=weights),
    )
    for attribute in ("support_values_", "bias_", "support_", "basis_indices_"):
        assert_array_equal(getattr(model, attribute), getattr(here, attribute), err_msg=attribute)
    assert model.certificate_ == here.certificate_
    assert model.certify(*given).accuracy == here.certify(X, y, weights).accuracy


@over(["direct", "classes", "components", *SEARCHES], "classes", "gamma chosen")
def test_leave_one_out_is_that_of_refits_without_the_row_and_its_weight(name):
    y, weights = targets(name), TIMES * np.linspace(0.5, 1.0, N)
    model = made(name).fit(X, y, sample_weight=weights)
    left = model.leave_one_out(X, y, weights)
    assert left.certificate.holds
    assert left.outputs.shape[0] == KEPT.size
    gamma = getattr(model, "gamma_", model.gamma)
    plain = "classes" if "classes" in name else "components" if name == "components" else "direct"
    for place in (0, 11, 30):
        light = weights.copy()
        light[KEPT[place]] = 0.0
        refit = made(plain, gamma=gamma).fit(X, y, sample_weight=light)
        raw = refit._expansion(X[[KEPT[place]]])[0]  # before classes are decoded
        assert_allclose(left.outputs[place], raw, rtol=1e-9, atol=1e-10)
    with pytest.raises(DataError, match="these are not the rows of the fit"):
        model.leave_one_out(X, y, np.where(np.arange(N) == 5, 0.5, 1.0) * weights)


def test_leave_one_out_of_blocks_has_the_sums_of_that_of_arrays():
    weights = TIMES * np.linspace(0.5, 1.0, N)
    model = made("direct").fit(X, Y, sample_weight=weights)
    sums = model.leave_one_out([(X, Y)], None, weights)
    left = model.leave_one_out(X, Y, weights)
    for name in ("press", "mean_square", "mean_absolute", "gcv", "degrees_of_freedom"):
        assert_allclose(getattr(sums, name), getattr(left, name), rtol=1e-12)
    v, errors = weights[KEPT], Y[KEPT] - model.predict(X[KEPT])
    spare = np.average(errors / left.residuals, weights=v)  # 1 - h_ii
    assert_allclose(left.gcv, (v * errors**2).sum() / v.sum() / spare**2, rtol=1e-12)


def test_the_rule_that_goes_by_fits_weighs_their_errors():
    candidates = Candidates(KernelTiles(KERNEL, X[KEPT]), np.arange(KEPT.size), np.arange(KEPT.size))
    rows, v = np.repeat(KEPT, 50 * TIMES[KEPT]), 50.0 * TIMES[KEPT]

    def chosen(source):
        return select_by_pruning(candidates, KernelRows(KernelValues(KERNEL, X[KEPT]), source), 6, 0.1).rows

    weighted = chosen(ArraySource(X[KEPT], Y[KEPT, None], weights=v))
    assert_array_equal(weighted, chosen(ArraySource(X[rows], Y[rows, None])))
    assert set(weighted) != set(chosen(ArraySource(X[KEPT], Y[KEPT, None])))


@pytest.mark.parametrize("spoilt", [5e-324, 1.7e308])
def test_weights_beyond_floating_point_are_refused(spoilt):
    with pytest.raises(DataError, match="sample_weight leaves the range of floating point"):
        made("direct").fit(X, Y, sample_weight=np.where(np.arange(N) < 2, spoilt, 1.0))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_weights_in_any_unit_are_certified(scale):
    weights = scale * (1.0 + TIMES)
    model = made("direct", gamma=10.0 / scale).fit(X, Y, sample_weight=weights)
    assert_allclose(output(model, X), output(made("direct").fit(X, Y, sample_weight=1.0 + TIMES), X), rtol=1e-9)
    assert model.certificate_.holds
    assert model.certify(X, Y, weights).holds


@pytest.mark.parametrize("home", HOMES)
@over(["direct", "classes", "gamma chosen"], "direct", "gamma chosen")
def test_rows_and_weights_on_a_device_are_fitted_there(name, home):
    send, y = sender(home), Y if name != "classes" else np.digitize(Y, [-0.4, 0.4])
    weights = TIMES * np.linspace(0.5, 1.0, N)
    there = [send(values) for values in (X, y, weights)]
    model, here = (
        made(name, send(POINTS)).fit(*there[:2], sample_weight=there[2]),
        made(name).fit(X, y, sample_weight=weights),
    )
    assert_close(model._expansion(there[0]), here._expansion(X), 1e-9)
    assert model.certificate_.holds
    assert model.certify(*there).holds
    left = model.leave_one_out(*there)
    assert left.certificate.holds
    assert_close(left.residuals, here.leave_one_out(X, y, weights).residuals, 1e-9)


def test_one_row_that_outweighs_all_others_is_no_overflow():
    weights = np.where(np.arange(N) == 7, 1e12, 10.0 ** np.linspace(-30.0, 0.0, N))
    models = {name: made(name) for name in ("direct", "robust", "gamma chosen", "L1", "maximal variation")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a certificate that may fail here
        for name, model in models.items():
            assert np.isfinite(model.fit(X, Y, sample_weight=weights).predict(X)).all(), name
