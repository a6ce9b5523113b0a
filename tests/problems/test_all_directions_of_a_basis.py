"""What is certified and proved of a reduced basis is the machine on all directions of its span, in exact arithmetic.

The oracle (`tests/oracles/exact_reduced_basis.py`) has the kernel's formula, the rows and the vectors, and no
coordinates of the package. Vectors may be close, clustered, equal, on a line or a grid, with weights, units and many
gammas.
"""

from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("flint")

from exact_reduced_basis import exact_distance, laplacian, polynomial, rbf

from problems import LSSVMClassifier, LSSVMRegressor
from substrate.basis import Basis
from substrate.bounds.proof import Proof
from substrate.certificate import Certificate
from substrate.kernels import RBF, Laplacian, Polynomial
from substrate.numbers import EPS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

KINDS = ("pair", "cluster", "chain", "spread", "grid", "rows", "equal")


def vectors(kind, X, rng):
    """Basis vectors of one kind, at a gap from 1e-2 down to below the rounding of a kernel value."""
    d, m, gap = X.shape[1], int(rng.integers(2, 9)), 10.0 ** rng.uniform(-9.5, -2.0)
    some = rng.normal(size=(m, d))
    if kind == "pair":
        return np.vstack([some, some[0] + gap * rng.normal(size=d)])
    if kind == "cluster":
        return np.vstack([some, some[0] + gap * rng.normal(size=(2, d)), some[1] + gap * rng.normal(size=(1, d))])
    if kind == "chain":
        return some[0] + gap * np.arange(m)[:, None] * np.ones(d)
    if kind == "grid":
        return np.linspace(-2.0, 2.0, m + 6)[:, None] * np.ones(d)
    if kind == "rows":
        return X[: m + 6]
    return some if kind == "spread" else np.vstack([some, some[:2], some[0] + gap])


def instance(kind, seed):
    """Rows, targets, weights, the kernel twice, vectors and gamma."""
    rng = np.random.default_rng((KINDS.index(kind), seed))
    n, d = int(rng.integers(14, 24)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d))
    unit = 10.0 ** rng.uniform(-6.0, 6.0) if rng.random() < 0.3 else 1.0
    y = unit * (np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=n) + (1e3 if rng.random() < 0.1 else 0.0))
    v = 10.0 ** rng.uniform(-3.0, 3.0, size=n) if rng.random() < 0.3 else None
    sigma = float(rng.choice([0.5, 1.0, 2.0, 5.0]))
    which = rng.choice(3, p=[0.7, 0.15, 0.15])
    kernel = (RBF(sigma), Laplacian(sigma), Polynomial(3, 1.0))[which]
    exact = (rbf(sigma), laplacian(sigma), polynomial(3, 1))[which]
    return X, y, v, kernel, exact, vectors(kind, X, rng), 10.0 ** rng.uniform(-2.0, 6.0)


@dataclass(frozen=True)
class Comparison:
    """A fit against the exact optimum: its distance, what the tolerance allows, and what is stated of it."""

    error: float
    allowed: float
    fitted: Certificate
    again: Certificate
    proof: Proof | None


def compare(kind, seed, proof):
    X, y, v, kernel, exact, points, gamma = instance(kind, seed)
    model = LSSVMRegressor(kernel, gamma, basis=points).fit(X, y, sample_weight=v)
    fractions = isinstance(kernel, Polynomial)
    error, spread = exact_distance(exact, X, kept(model, points), y, gamma, model.predict(X), v, fractions=fractions)
    return Comparison(
        error=error,
        allowed=max(1e-6 * spread, y.size * EPS * float(np.abs(y).max())),
        fitted=model.certificate_,
        again=model.certify(X, y, sample_weight=v),
        proof=model.prove(X, y, sample_weight=v) if proof else None,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(13))
@pytest.mark.covering
def test_no_certificate_and_no_proof_is_contradicted(kind, seed):
    found = compare(kind, seed, proof=seed % 2 == 0)
    assert found.error <= found.fitted.accuracy
    assert found.error <= found.again.accuracy
    assert found.error <= found.allowed or not found.fitted.holds
    assert found.again.holds or not found.fitted.holds
    if found.proof is not None:
        assert found.error <= found.proof.accuracy * (1.0 + 1e-9)
        assert found.error <= found.allowed or not found.proof.proved
        assert found.proof.proved or not found.fitted.holds


def kept(model, points):
    """The vectors that the machine is certified on: those that double precision can tell apart."""
    used = np.reshape(model.support_values_, (len(points), -1)).any(axis=1)
    assert used.sum() == model.rank_
    return points[used]


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-7, 3e-8])
@pytest.mark.parametrize("gamma", [1.0, 1e3])
def test_of_vectors_that_cannot_be_told_apart_one_is_used(gap, gamma):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 1))
    y, points = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=20), np.array([[0.1], [0.1 + gap]])
    model = LSSVMRegressor(RBF(1.0), gamma, basis=points).fit(X, y)
    assert model.rank_ == (2 if gap == 1e-3 else 1)
    error, spread = exact_distance(rbf(1.0), X, kept(model, points), y, gamma, model.predict(X))
    assert model.certificate_.holds
    assert error <= model.certificate_.accuracy <= 1e-6 * spread
    assert model.certify(X, y).holds
    assert model.prove(X, y).proved
    assert ("on 1 of 2 basis vectors" in str(model.certificate_).splitlines()[0]) == (gap != 1e-3)


@pytest.mark.parametrize("rule", ["feature_vectors", "random", "kmeans++", "renyi"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.covering
def test_ordinary_fits_hold_on_the_vectors_that_a_rule_chooses(rule, seed):
    """Of smooth kernels in few columns more vectors are asked for than double precision can tell apart."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 1 + seed % 3))
    y, gamma = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=60), 10.0 ** rng.uniform(-3.0, 5.0)
    model = LSSVMRegressor(RBF(1.5), gamma, basis=Basis(n=30, rule=rule, random_state=seed)).fit(X, y)
    error, spread = exact_distance(rbf(1.5), X, model.support_vectors_, y, gamma, model.predict(X))
    assert model.certificate_.holds
    assert error <= model.certificate_.accuracy <= 1e-6 * spread
    assert len(model.support_vectors_) == model.rank_ == model.support_values_.shape[0]


@pytest.mark.parametrize("seed", range(2))
def test_classes_and_robust_weights_are_certified_alike(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    y, points = np.sin(2.0 * X[:, 0]), np.vstack([X[:5], X[0] + 1e-6])
    classes = LSSVMClassifier(RBF(1.0), 10.0, basis=points).fit(X, y > 0.2)
    error, _ = exact_distance(
        rbf(1.0), X, kept(classes, points), np.where(y > 0.2, 1.0, -1.0), 10.0, classes.decision_function(X)
    )
    assert error <= classes.certificate_.accuracy
    assert classes.certificate_.holds
    robust = LSSVMRegressor(RBF(1.0), 10.0, basis=points, robust="hampel").fit(X, y + 0.1 * rng.standard_t(2, size=40))
    assert robust.certificate_.holds
