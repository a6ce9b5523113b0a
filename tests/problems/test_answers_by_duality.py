"""Machines whose answer is bounded by duality: what a certificate promises is proved, and changes are noticed."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from problems import (
    FusedL1SubstrateClassifier,
    FusedL1SubstrateRegressor,
    FusedMaximalVariationClassifier,
    FusedMaximalVariationRegressor,
    KernelRegressor,
    L1SubstrateClassifier,
    L1SubstrateRegressor,
    MaximalVariationClassifier,
    MaximalVariationRegressor,
)
from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning, SolverError
from substrate.fits.l1 import zeta_max
from substrate.kernels import RBF, Laplacian, Linear, Matern, Polynomial
from substrate.losses import Huber

pytest.importorskip("flint")
from exact_l1 import exact_l1_distance

KERNELS = (RBF(1.0), RBF(3.0), Linear(), Polynomial(2, 1.0), Laplacian(1.0), Polynomial(3, 1.0), Matern(1.0, 1.5))


def tame(n=24, d=3, seed=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


def wild(rng):
    """Rows and targets of any unit and offset, a kernel, and labels."""
    n, d = int(rng.integers(4, 14)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d))
    X = X * 10.0 ** rng.integers(-4, 6) if rng.random() < 0.3 else X
    X = X + 10.0 ** rng.integers(0, 9) if rng.random() < 0.3 else X
    y = np.sin(X[:, 0] / np.abs(X[:, 0]).max()) + rng.standard_t(2, size=n)
    y = y + 10.0 ** rng.integers(0, 10) if rng.random() < 0.3 else y
    y = y * 10.0 ** rng.integers(-60, 60) if rng.random() < 0.3 else y
    cuts = np.quantile(y, [0.35, 0.7] if rng.random() < 0.5 and n > 6 else [0.5])
    return KERNELS[rng.integers(len(KERNELS))], X, y, np.digitize(y, cuts)


def expansion(rng):
    """The arguments of an expansion, shared or decoupled, with a ridge where one is needed."""
    decoupled = rng.random() < 0.5
    ridge = 10.0 ** rng.uniform(-6, 3) if decoupled or rng.random() < 0.3 else 0.0
    return {"expansion": "decoupled" if decoupled else "shared", "ridge": ridge}


def l1(rng, kernel, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        largest = L1SubstrateRegressor(kernel, 1e300).fit(X, y).zeta_max_
    return L1SubstrateRegressor(kernel, max(largest, 1e-300) * 10.0 ** rng.uniform(-7, 0.2))


MACHINES = {
    "l1": lambda rng, kernel, X, y, spread: l1(rng, kernel, X, y),
    "l1 classes": lambda rng, kernel, X, y, spread: L1SubstrateClassifier(
        kernel, 10.0 ** rng.uniform(-4, 3), coding=str(rng.choice(["one_vs_rest", "minimum_output"]))
    ),
    "variation": lambda rng, kernel, X, y, spread: MaximalVariationRegressor(
        kernel,
        spread * 10.0 ** rng.uniform(-5, 0.2),
        refit=bool(rng.random() < 0.2),
        gamma=10.0 ** rng.uniform(-4, 8),
        **expansion(rng),
    ),
    "variation classes": lambda rng, kernel, X, y, spread: MaximalVariationClassifier(
        kernel,
        10.0 ** rng.uniform(-4, 2),
        coding=str(rng.choice(["one_vs_rest", "minimum_output"])),
        refit=bool(rng.random() < 0.2),
        **expansion(rng),
    ),
    "huber": lambda rng, kernel, X, y, spread: KernelRegressor(
        kernel,
        10.0 ** rng.uniform(-6, 10),
        loss=Huber() if rng.random() < 0.5 else Huber(float(10.0 ** rng.uniform(-3, 1) * spread)),
    ),
    "fused l1": lambda rng, kernel, X, y, spread: FusedL1SubstrateRegressor(kernel, random_state=0),
    "fused l1 classes": lambda rng, kernel, X, y, spread: FusedL1SubstrateClassifier(kernel, random_state=0),
    "fused variation": lambda rng, kernel, X, y, spread: FusedMaximalVariationRegressor(
        kernel, ridge=0.1, random_state=0
    ),
    "fused variation classes": lambda rng, kernel, X, y, spread: FusedMaximalVariationClassifier(
        kernel, ridge=0.1, random_state=0
    ),
}


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.covering
def test_no_certificate_that_holds_is_contradicted_by_a_proof(name, part):
    held = 0
    for seed in range(part, 12 if name.startswith("fused") else 25, 2):
        rng = np.random.default_rng(seed)
        kernel, X, y, labels = wild(rng)
        target = labels if "classes" in name else y
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = MACHINES[name](rng, kernel, X, y, float(np.abs(y - y.mean()).sum())).fit(X, target)
            except (SolverError, DeclarationError, DataError):
                continue
            proof = model.prove(X, target)
            again = model.certify(X, target)
        where = f"{name}, seed {seed}: {model!r}\n{model.certificate_}\n{proof}"
        assert model.certificate_.answer is not None, where
        assert proof.proved or not model.certificate_.holds, where
        assert proof.proved or not again.holds, where
        held += model.certificate_.holds
    assert held >= 3, "a law about nothing"


@pytest.mark.parametrize("gamma", [1e-3, 1e4])
@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(3.0), Linear(), Laplacian(2.0)], ids=repr)
@pytest.mark.covering
def test_standardised_columns_are_not_refused(kernel, gamma):
    """A warning would be an error here."""
    for seed in range(3):
        X, y = tame(40, 3, seed)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        assert KernelRegressor(kernel, gamma).fit(X, y).certificate_.holds
        largest = L1SubstrateRegressor(kernel, 1.0).fit(X, y).zeta_max_
        assert L1SubstrateRegressor(kernel, largest * gamma**0.5 * 1e-3).fit(X, y).certificate_.holds
        for ridge in (0.0, 0.1):
            rho = 0.3 * np.abs(y - y.mean()).sum() * gamma**-0.5 / 31.0
            assert MaximalVariationRegressor(kernel, rho, ridge=ridge).fit(X, y).certificate_.holds


# ---- changes are noticed -------------------------------------------------------------------------------

EXACT = {
    "l1": L1SubstrateRegressor(RBF(2.0), 1.0),
    "l1 classes": L1SubstrateClassifier(RBF(2.0), 0.3),
    "fused l1": FusedL1SubstrateRegressor(RBF(1.0), random_state=0),
    "shared": MaximalVariationRegressor(RBF(1.0), 2.0),
    "decoupled": MaximalVariationRegressor(RBF(1.0), 2.0, expansion="decoupled", ridge=0.1),
    "refitted": MaximalVariationRegressor(RBF(1.0), 2.0, refit=True),
    "shared classes": MaximalVariationClassifier(RBF(1.0), 1.0),
    "fused variation": FusedMaximalVariationRegressor(RBF(1.0), ridge=0.1, random_state=0),
    "huber": KernelRegressor(RBF(2.0)),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_change_of_what_predict_uses_is_noticed(name):
    X, y = tame()
    target = (y > np.median(y)).astype(int) if "classes" in name else y
    model = EXACT[name].fit(X, target)
    assert model.certify(X, target).holds, str(model.certify(X, target))
    said = model._evaluate(X)
    for attribute in ("support_values_", "bias_", "support_vectors_"):
        original = getattr(model, attribute)
        for position in (0, -1):
            changed = np.array(original, dtype=float)
            if changed.ndim:
                changed.flat[position] += 1e-4
            else:
                changed = float(changed) + 1e-4
            setattr(model, attribute, changed)
            moved = np.sqrt(np.mean((model._evaluate(X) - said) ** 2))
            if moved > 1e-5 * said.std():
                assert not model.certify(X, target).holds, (attribute, position)
                assert not model.prove(X, target).proved, (attribute, position)
            setattr(model, attribute, original)
    model.bias_ = float(model.bias_) + 3e-6 * float(np.std(target))
    assert not model.certify(X, target).holds


def test_an_indefinite_matrix_has_a_bound_for_the_l1_substrate():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(12, 12))
    K, y = A + A.T, rng.normal(size=12)
    with pytest.warns(IndefiniteKernelWarning):
        model = L1SubstrateRegressor("precomputed", 5.0).fit(K, y)
    assert np.isfinite(model.certificate_.accuracy), "convex whatever the matrix is"


@pytest.mark.parametrize("part", range(4))
def test_an_l1_answer_is_no_farther_than_it_says(part):
    """Against the active set solved with hundreds of digits, kernel values included."""
    kernels = [RBF(0.5), RBF(3.0), RBF(15.0), Laplacian(1.0), Linear(), Polynomial(2), Matern(2.0)]
    compared = 0
    for seed in range(20 * part, 20 * (part + 1)):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(int(rng.integers(6, 20)), int(rng.integers(1, 3))))
        y = np.sin(2.0 * X[:, 0]) + 10.0 ** rng.uniform(-4.0, 0.0) * rng.normal(size=len(X))
        y = y * 10.0 ** rng.choice([-3.0, 0.0, 3.0]) + rng.choice([0.0, 50.0, 1e6])
        kernel = kernels[seed % len(kernels)]
        zeta = zeta_max(kernel(X), y) * 10.0 ** rng.uniform(-7.0, -0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = L1SubstrateRegressor(kernel, zeta=zeta).fit(X, y)
        a = np.zeros(len(y))
        a[model.support_] = model.support_values_
        apart = exact_l1_distance(kernel, X, y, zeta, a, model.predict(X))
        if apart is not None:
            compared += 1
            assert apart <= model.certificate_.accuracy, seed
    assert compared >= 15
