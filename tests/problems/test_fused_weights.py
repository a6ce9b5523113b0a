"""Several weights chosen together: one rho for each group of inputs, and zeta with a ridge, each with a bound."""

import itertools

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from problems import (
    FusedL1SubstrateClassifier,
    FusedL1SubstrateRegressor,
    FusedMaximalVariationClassifier,
    FusedMaximalVariationRegressor,
    L1SubstrateRegressor,
    MaximalVariationRegressor,
    load,
)
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Linear

GROUPS = {"cheap": ["a", "b"], "dear": ["c", "d"]}
SMOOTH = {"expansion": "decoupled", "ridge": 0.3}


def data(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * X[:, 2] + 0.3 * rng.normal(size=n)


def framed(n=20, seed=0):
    X, y = data(n, seed)
    return pd.DataFrame(X, columns=list("abcd")), y


def mean_squares(model, X, y):
    return float(np.mean((model.predict(X) - y) ** 2))


@pytest.fixture(scope="module")
def grouped():
    (X, y), (V, w) = framed(), framed(12, 1)
    model = FusedMaximalVariationRegressor(RBF(2.0), groups=GROUPS, gap=0.05, **SMOOTH).fit(X, y, V, w)
    return model, X, y, V, w


@pytest.fixture(scope="module")
def ridged():
    (X, y), (V, w) = data(20, 0), data(16, 1)
    model = FusedL1SubstrateRegressor(RBF(3.0), ridge_range=(0.01, 10.0), gap=0.05).fit(X, y, V, w)
    return model, X, y, V, w


# ---- one rho for each group ----------------------------------------------------------------------


def test_the_machine_is_that_of_the_chosen_weights(grouped):
    model, X, y, V, w = grouped
    assert model.certificate_.holds, str(model.certificate_)
    assert set(model.rho_) == set(model.proved_on_) == set(GROUPS)
    rho = {name: max(value, 1e-9) for name, value in model.rho_.items()}
    plain = MaximalVariationRegressor(RBF(2.0), rho, groups=GROUPS, **SMOOTH).fit(X, y)
    assert_allclose(plain.predict(X), model.predict(X), atol=1e-6)
    assert_allclose(mean_squares(model, V, w), model.criterion_, rtol=1e-6)
    assert dict(model.certificate_.record)["rho of groups"].startswith("'cheap' ")


def test_no_weights_of_a_grid_are_below_the_bound(grouped):
    model, X, y, V, w = grouped
    assert 0.0 < model.criterion_lower_bound_ <= model.criterion_
    assert model.criterion_ - model.criterion_lower_bound_ <= 0.05 * model.criterion_
    tops = [min(high, 50.0) for _, high in model.proved_on_.values()]
    for shares in itertools.product((1e-3, 0.05, 0.5), repeat=2):
        rho = [share * top for share, top in zip(shares, tops, strict=True)]
        other = MaximalVariationRegressor(RBF(2.0), rho, groups=GROUPS, **SMOOTH).fit(X, y)
        assert mean_squares(other, V, w) >= model.criterion_lower_bound_


def test_files_clones_certify_and_prove_know_the_groups(grouped, tmp_path):
    pytest.importorskip("flint")
    model, X, y, *_ = grouped
    model.save(tmp_path / "m.npz")
    loaded = load(tmp_path / "m.npz")
    assert loaded.rho_ == model.rho_
    assert {name: tuple(ends) for name, ends in loaded.proved_on_.items()} == model.proved_on_
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.path_["values"], model.path_["values"])
    assert loaded.certify(X, y).holds
    assert loaded.prove(X, y).proved
    assert clone(loaded).get_params()["groups"] == GROUPS
    loaded.rho_ = {"cheap": 1.0, "dear": 5.0}
    assert not loaded.certify(X, y).holds


def test_a_search_that_ends_early_says_so():
    (X, y), (V, w) = data(20, 0), data(16, 1)
    model = FusedMaximalVariationRegressor(RBF(2.0), groups=[[0, 1], [2, 3]], gap=1e-6, max_evaluations=40, **SMOOTH)
    with pytest.warns(UserWarning, match="gap of rho"):
        model.fit(X, y, V, w)
    assert "budget of 40 solves is spent" in model.path_["stop"]
    assert not model.certificate_.holds
    assert model.criterion_lower_bound_ < model.criterion_


# ---- zeta and a ridge ----------------------------------------------------------------------------


def test_the_sparse_machine_is_that_of_both_weights(ridged):
    model, X, y, V, w = ridged
    assert model.certificate_.holds, str(model.certificate_)
    assert 0.01 <= model.ridge_ <= 10.0
    plain = L1SubstrateRegressor(RBF(3.0), model.zeta_, ridge=model.ridge_).fit(X, y)
    assert_allclose(plain.predict(X), model.predict(X), atol=1e-8)
    assert_allclose(mean_squares(model, V, w), model.criterion_, rtol=1e-6)
    low, high = model.proved_on_["zeta"]
    assert 0.0 < low < model.zeta_ < high == np.inf
    assert tuple(model.proved_on_["ridge"]) == (0.01, 10.0)


def test_no_pair_of_a_grid_is_below_the_bound(ridged):
    model, X, y, V, w = ridged
    for zeta, ridge in itertools.product((1e-3, 1e-2, 0.1, 1.0, 100.0), (0.01, 0.1, 1.0, 10.0)):
        other = L1SubstrateRegressor(RBF(3.0), zeta, ridge=ridge).fit(X, y)
        assert mean_squares(other, V, w) >= model.criterion_lower_bound_


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": [[0, 1, 2, 3]]}, "two or three weights are chosen with a proof, and groups has 1"),
        ({"groups": [[0], [1], [2], [3]]}, "groups has 4"),
        ({"groups": [[0, 1], [2]]}, "3 of 4 in no group"),
        ({"groups": [[0, 1], []]}, "group 1 must be a list of columns"),
        ({"max_evaluations": 0}, "max_evaluations must be an integer >= 1"),
        ({"max_evaluations": 10.0}, "max_evaluations must be an integer >= 1"),
    ],
)
def test_wrong_groups_and_ranges_are_refused(given, message):
    X, y = data(16, 0)
    for estimator, target in ((FusedMaximalVariationRegressor, y), (FusedMaximalVariationClassifier, y > 0.0)):
        with pytest.raises(DeclarationError, match=message):
            estimator(Linear(), **given).fit(X, target)


@pytest.mark.parametrize("wrong", [(0.0, 1.0), (1.0, 0.1), (0.1, np.inf), (np.nan, 1.0), 0.1, (0.1,), ("a", "b"), True])
def test_a_wrong_range_of_the_ridge_is_refused(wrong):
    X, y = data(16, 0)
    for estimator, target in ((FusedL1SubstrateRegressor, y), (FusedL1SubstrateClassifier, y > 0.0)):
        with pytest.raises(DeclarationError, match=r"ridge_range must"):
            estimator(RBF(3.0), ridge_range=wrong).fit(X, target)
