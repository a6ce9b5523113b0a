"""Weights of rows on a reduced basis: on a given basis they count rows, zero is absence, and every check has them."""

import numpy as np
import pytest
from array_homes import HOMES, assert_close, sender
from every_model import output
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

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
from substrate.basis import Basis
from substrate.errors import DataError
from substrate.kernels import RBF, Componentwise

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


over_all = pytest.mark.parametrize("name", [*MODELS, *SEARCHES])


def made(name, basis=POINTS, **parameters):
    return clone((MODELS | SEARCHES)[name]).set_params(basis=basis, **parameters)


def targets(name):
    return LABELS if "classes" in name else Y


@pytest.mark.parametrize("name", MODELS)
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


@pytest.mark.parametrize("name", [*MODELS, *SEARCHES])
@pytest.mark.parametrize("where", ["Dask", "blocks"])
@pytest.mark.covering
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


@pytest.mark.parametrize("name", ["direct", "classes", "components", *SEARCHES])
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


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("name", ["direct", "classes", "gamma chosen"])
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
