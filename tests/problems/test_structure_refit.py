"""Structure, then a classical model: the minimum over all weights against refits at many of them; what is stated."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import (
    FusedL1SubstrateRegressor,
    FusedMaximalVariationRegressor,
    LSSVMRegressor,
    LSSVMRegressorCV,
    MaximalVariationRegressor,
)
from substrate.errors import DeclarationError
from substrate.fits.paths import l1_path
from substrate.kernels import RBF, Componentwise

KERNEL = RBF(1.0)
WAYS = ({"expansion": "shared"}, {"expansion": "decoupled", "ridge": 0.1})


def data(n=40, d=4, seed=0, unit=1.0, offset=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    return X, unit * (np.sin(3.0 * X[:, 0]) + X[:, min(1, d - 1)] ** 2 + 0.2 * rng.standard_normal(n)) + offset


def of_components(mask, d=4):
    """The kernel of some components."""
    parts = Componentwise(KERNEL).components(d)
    return Componentwise(tuple(part for part, keep in zip(parts, mask, strict=True) if keep))


@pytest.mark.parametrize("way", WAYS, ids=["shared", "decoupled"])
def test_no_rho_has_a_better_refit(way):
    """:place [Pelckmans2005]_ end of section 3.1: the final predictions by a classical model with the selected
    components
    """
    X, y = data(28)
    train, check = (X[:16], y[:16]), (X[16:], y[16:])
    model = FusedMaximalVariationRegressor(KERNEL, refit=True, gap=1e-3, **way).fit(*train, *check)
    assert model.certificate_.holds
    assert model.criterion_lower_bound_ <= model.criterion_ <= model.criterion_lower_bound_ * 1.001 + 1e-9
    assert_allclose(np.mean((check[1] - model.predict(check[0])) ** 2), model.criterion_, rtol=1e-6)
    selected = set()
    for rho in np.geomspace(0.05, 8.0, 6):
        plain = MaximalVariationRegressor(KERNEL, rho, **way).fit(*train)
        mask = plain.get_support(model.relevance)
        selected.add(tuple(mask))
        if not mask.any():
            assert np.mean((check[1] - train[1].mean()) ** 2) >= model.criterion_lower_bound_
            continue
        rows = np.arange(len(train[1]) + len(check[1]))
        split = [(rows[: len(train[1])], rows[len(train[1]) :])]
        searched = LSSVMRegressorCV(of_components(mask), cv=split)
        searched.fit(*(np.concatenate(pair) for pair in zip(train, check, strict=True)))
        assert searched.criterion_ >= model.criterion_lower_bound_ * (1.0 - 1e-9)
        path = model.selection_path_
        (cell,) = np.flatnonzero((path["start"] < rho) & (rho < path["stop"]))
        assert_array_equal(path["support"][cell], mask)
        assert_allclose(path["criterion"][cell], searched.criterion_, rtol=2e-3)
    assert len(selected) >= 2
    assert tuple(model.component_support_) in {tuple(mask) for mask in model.selection_path_["support"]}
    refitted = LSSVMRegressor(of_components(model.component_support_), model.gamma_).fit(*train)
    assert_allclose(model.predict(check[0]), refitted.predict(check[0]), rtol=1e-6, atol=1e-8)


def test_of_sets_within_a_standard_error_the_smallest_is_taken():
    """The smallest set whose error, by an explicit fit, is within one standard error of the least one's."""
    X, y = data(40, 5, seed=3)
    train, check = (X[:20], y[:20]), (X[20:], y[20:])
    plain, simple = (
        FusedMaximalVariationRegressor(KERNEL, refit=True, standard_errors=c).fit(*train, *check) for c in (0.0, 1.0)
    )
    path = plain.selection_path_
    assert plain.criterion_ == path["criterion"].min()
    parts = Componentwise(KERNEL).components(5)
    best = Componentwise(tuple(parts[place] for place in plain.get_support(indices=True)))
    errors = check[1] - LSSVMRegressor(best, plain.gamma_).fit(*train).predict(check[0])
    assert_allclose(np.mean(errors**2), plain.criterion_, rtol=1e-9)
    limit = plain.criterion_ + np.std(errors**2, ddof=1) / np.sqrt(20)
    within = path["support"][path["criterion"] <= limit]
    fewest = within.sum(axis=1).min()
    assert fewest < plain.get_support().sum(), "the rule has something to do"
    criteria = path["criterion"][(path["criterion"] <= limit) & (path["support"].sum(axis=1) == fewest)]
    assert simple.component_support_.sum() == fewest
    assert simple.criterion_ == criteria.min()
    assert plain.criterion_ < simple.criterion_ <= limit
    # the bound is that over all sets, and the certificate compares it with the least error, not with the one taken
    assert simple.criterion_lower_bound_ == plain.criterion_lower_bound_
    assert simple.certificate_.holds
    assert f"of the least criterion, {plain.criterion_:.6g}" in dict(simple.certificate_.record)["smallest set"]
    assert_allclose(np.mean((check[1] - simple.predict(check[0])) ** 2), simple.criterion_, rtol=1e-6)


@pytest.mark.parametrize(("unit", "offset"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e8)])
def test_units_and_offsets_change_no_choice(unit, offset):
    X, y = data(24, 3)
    plain = FusedMaximalVariationRegressor(KERNEL, refit=True, random_state=0).fit(X, y)
    model = FusedMaximalVariationRegressor(KERNEL, refit=True, random_state=0).fit(X, unit * y + offset)
    assert_array_equal(model.component_support_, plain.component_support_)
    assert_allclose(model.rho_ / unit, plain.rho_, rtol=1e-4)
    assert_allclose(model.criterion_ / unit**2, plain.criterion_, rtol=1e-3)


# ---- the L1 substrate --------------------------------------------------------------------------------


@pytest.mark.parametrize("pairwise", [False, True])
def test_no_zeta_has_a_better_refit(pairwise):
    X, y = data(30, 1)
    train, check = np.arange(20), np.arange(20, 30)
    kernel, K = RBF(0.5), RBF(0.5)(X)
    model = FusedL1SubstrateRegressor("precomputed" if pairwise else kernel, refit=True, gap=1e-3)
    rows = (K[np.ix_(train, train)], K[np.ix_(check, train)]) if pairwise else (X[train], X[check])
    model.fit(rows[0], y[train], rows[1], y[check])
    assert model.certificate_.holds
    assert model.certify(rows[0], y[train]).holds
    assert_allclose(np.mean((y[check] - model.predict(rows[1])) ** 2), model.criterion_, rtol=1e-6)
    path = l1_path(K[np.ix_(train, train)], y[train] - y[train].mean())
    for zeta in np.geomspace(2.0 * path.values[0], 0.9 * path.values[-1], 6):
        support = np.flatnonzero(path.at(float(zeta)).primal)
        for gamma in (0.1, 10.0, 1e3):
            machine = LSSVMRegressor(kernel, gamma, basis=support.tolist()).fit(X[train], y[train])
            error = np.mean((y[check] - machine.predict(X[check])) ** 2)
            assert error >= model.criterion_lower_bound_ * (1.0 - 1e-9)
    basis = train[model.support_].tolist()
    refitted = LSSVMRegressor(kernel, model.gamma_, basis=basis).fit(X[train], y[train])
    assert_allclose(model.predict(rows[1]), refitted.predict(X[check]), rtol=1e-6, atol=1e-8)
    assert model.n_support_ == model.support_.size < 20


# ---- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "choice", "match"),
    [
        (FusedMaximalVariationRegressor, {"refit": False, "standard_errors": 1.0}, "set refit=True as well"),
        (FusedL1SubstrateRegressor, {"standard_errors": -1.0}, "standard_errors must be >= 0 since it counts"),
        (FusedMaximalVariationRegressor, {"refit": "all"}, "False, True or 'loo'"),
        (FusedMaximalVariationRegressor, {"refit": 1}, "False, True or 'loo'"),
        (FusedMaximalVariationRegressor, {"refit": True, "groups": [[0], [1]]}, "set groups=None"),
        (FusedMaximalVariationRegressor, {"refit": "loo", "cv": 3}, "set cv=None"),
        (FusedMaximalVariationRegressor, {"refit": True, "relevance": -0.1}, "relevance"),
        (FusedL1SubstrateRegressor, {"refit": True, "ridge_range": (0.1, 1.0)}, "set ridge_range=None"),
    ],
)
def test_what_has_no_sets_along_one_path_is_refused(estimator, choice, match):
    X, y = data(12, 2)
    with pytest.raises(DeclarationError, match=match):
        estimator(KERNEL, **choice).fit(X, y)
