"""A warning that the certificate does not hold is issued if and only if it does not hold."""

import warnings

import numpy as np
import pytest
from every_model import WEIGHTED, is_additive, make_data, over_ways, parameters_of, seeded
from sklearn.base import is_classifier
from wild_fits import wild_fit

from problems import LSSVMRegressor
from substrate.errors import SubstrateError
from substrate.kernels import RBF, Laplacian, Linear, Polynomial

CLAIM = "certificate does not hold"


def fit_and_listen(model, X, y, **given):
    """The fitted model, or None where it was refused with a reason, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, **given)
        except SubstrateError as refusal:
            return None, [str(refusal)]
    return model, [str(one.message) for one in caught]


def check_agreement(model, told, where):
    claims = [text for text in told if CLAIM in text]
    assert len(claims) == (not model.certificate_.holds), (where, claims, str(model.certificate_))


def wild_data(estimator, seed):
    """Data of the estimator's kind, with offsets, units, duplicates and weights at random; and parameters."""
    rng = np.random.default_rng(seed)
    X, y = make_data(estimator, n=10, columns=2, seed=seed)
    X = X * 10.0 ** rng.choice([-6, 0, 0, 6]) + rng.choice([0.0, 0.0, 1e6])
    if rng.random() < 0.3:
        X[1] = X[0]
    if not is_classifier(estimator()):
        y = 10.0 ** rng.choice([-9, 0, 0, 9]) * (y + rng.choice([0.0, 1e6]))
    parameters = {}
    if "gamma" in parameters_of(estimator):
        parameters["gamma"] = 10.0 ** rng.uniform(-4, 10)
    width = float(X.std()) or 1.0
    kernels = [Linear()] if is_additive(estimator) else [Linear(), RBF(width), RBF(30.0 * width), Polynomial(2)]
    parameters["kernel"] = kernels[int(rng.integers(len(kernels)))]
    given = {}
    if estimator in WEIGHTED and rng.random() < 0.7:
        given["sample_weight"] = np.where(rng.random(y.size) < 0.3, 1e6, 1.0)
    return X, y, parameters, given


@over_ways
@pytest.mark.parametrize("seed", range(2))
def test_every_estimator_warns_if_and_only_if_its_certificate_fails(estimator, choice, seed):
    X, y, parameters, given = wild_data(estimator, seed)
    model, told = fit_and_listen(seeded(estimator, **parameters, **choice), X, y, **given)
    assert not any("not positive semi-definite" in text for text in told), told  # these kernels are, by their formulas
    if model is not None:
        check_agreement(model, told, (estimator, seed))


def test_every_solver_warns_if_and_only_if_its_certificate_fails():
    for seed in range(60):
        wild = wild_fit(7000 + seed, solvers=("auto", "cholesky", "cg", "cg", "cg"))
        model, told = fit_and_listen(wild.model, wild.X, wild.y, sample_weight=wild.weights)
        if model is not None:
            check_agreement(model, told, (seed, str(wild)))


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2), RBF(1.0), Laplacian(1.0)])
@pytest.mark.parametrize("solver", ["cg", "auto"])
@pytest.mark.parametrize("seed", range(7))
@pytest.mark.covering
def test_weights_far_apart_do_not_make_a_kernel_indefinite(kernel, solver, seed):
    """Curvature that is negative by rounding only is no property of the kernel."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    weights = np.where(rng.random(20) < 0.3, 10.0 ** rng.choice([6.0, 9.0, 12.0]), 1.0)
    model = LSSVMRegressor(kernel, 10.0 ** rng.uniform(-2, 8), solver=solver)
    model, told = fit_and_listen(model, X, y, sample_weight=weights)
    assert not any("semi-definite" in text for text in told), told
    if model is not None:
        check_agreement(model, told, (kernel, solver, seed))
