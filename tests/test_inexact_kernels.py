"""A kernel whose values are only as right as it says: every bound covers the worst that its errors may do.

Rounding of ordinary kernels is far smaller than its bound, so a bound that forgets a term of it would pass any test
of ordinary fits. Here the errors are a millionth, as large as the kernel admits, and smooth, so that they do not
average out; the optimum is the one of the exact formula.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from exact_criteria import exact_criterion
from exact_reduced_criteria import exact_reduced_criterion, features_of
from exact_saddle import exact_distance

from problems import (
    KernelClassifier,
    KernelRegressor,
    L1SubstrateRegressor,
    LSSVMClassifier,
    LSSVMRegressor,
    LSSVMRegressorCV,
    MaximalVariationRegressor,
)
from substrate.basis import Basis
from substrate.bounds.proof import precision
from substrate.kernels import RBF, Componentwise
from substrate.losses import Hinge, Huber, Logistic, Pinball
from substrate.numbers import Double

pytest.importorskip("flint", reason="proofs need python-flint")

ERROR = 1e-6


@dataclass(frozen=True, repr=False)
class InexactRBF(RBF):
    """An RBF kernel whose values are off by up to a millionth, and that says so."""

    off: ClassVar[float] = ERROR

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        phases = 3.0 * np.asarray(X).sum(axis=1)[:, None] + 3.0 * np.asarray(Z).sum(axis=1)
        return RBF(self.sigma).evaluate(X, Z, dtype) + self.off * np.sign(np.sin(phases))

    def fill(self, X: Any, Z: Any, out: Any) -> None:
        out[...] = self.evaluate(X, Z, np.float64)

    def enclose(self, X: Any, Z: Any) -> Double:
        return Double(self.evaluate(X, Z, np.float64), 1.001 * self.off)

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        return 1.001 * self.off + super().rounding(X)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=30)
LABELS = np.where(Y > 0.0, 1.0, -1.0)
WEIGHTS = RNG.uniform(0.2, 2.0, size=30)
KERNEL = InexactRBF(1.5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("gamma", [1.0, 1e3, 1e5])
def test_a_dense_fit_is_no_farther_from_the_optimum_than_its_certificate_says(gamma):
    model = LSSVMRegressor(KERNEL, gamma).fit(X, Y, sample_weight=WEIGHTS)
    distance = exact_distance(RBF(1.5), X, Y, gamma, WEIGHTS, model.predict(X))
    assert 0.1 * ERROR <= distance <= model.certificate_.accuracy


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        LSSVMRegressor(KERNEL, 1e2, basis=Basis(10, random_state=0)),
        LSSVMRegressor(KERNEL, 1e4, basis=Basis(10, random_state=0)),
        LSSVMRegressor(KERNEL, 1e2, basis=np.arange(30)),
        LSSVMRegressor(KERNEL, 1e2, linear_columns=[1]),
        LSSVMRegressor(KERNEL, 1e2, basis=Basis(10, random_state=0), linear_columns=[1]),
        LSSVMRegressor(Componentwise(KERNEL), 1e2),
        LSSVMClassifier(KERNEL, 1e2, basis=Basis(10, random_state=0)),
        KernelRegressor(KERNEL, 1e2, loss=Huber(0.3)),
        KernelRegressor(KERNEL, 1e2, loss=Pinball(0.9)),
        KernelRegressor(KERNEL, 1e2, loss=Huber(0.3), basis=Basis(10, random_state=0)),
        KernelClassifier(KERNEL, 1e2, loss=Hinge()),
        KernelClassifier(KERNEL, 1e2, loss=Logistic()),
        L1SubstrateRegressor(KERNEL, 0.1),
        L1SubstrateRegressor(KERNEL, 0.1, basis=Basis(10, random_state=0)),
        MaximalVariationRegressor(KERNEL, 2.0, ridge=0.1),
    ],
    ids=repr,
)
def test_a_certificate_is_no_smaller_than_the_proof_from_the_formula(model):
    targets = LABELS if "Classifier" in type(model).__name__ else Y
    model.fit(X, targets)
    assert model.prove(X, targets).accuracy <= model.certificate_.accuracy
    assert model.certificate_.accuracy >= ERROR


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence"])
def test_no_criterion_of_the_exact_kernel_is_below_the_bound(criterion):
    model = LSSVMRegressorCV(KERNEL, cv=criterion, gamma_range=(1e-1, 1e3)).fit(X[:15], Y[:15])
    scan = np.append(np.geomspace(0.1, 1e3, 10), model.gamma_)
    assert exact_criterion(criterion, RBF(1.5), X[:15], Y[:15], scan, ()).min() >= model.criterion_lower_bound_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence", "folds"])
def test_no_criterion_of_the_exact_kernel_on_a_basis_is_below_the_bound(criterion):
    cv = 5 if criterion == "folds" else criterion
    model = LSSVMRegressorCV(KERNEL, cv=cv, basis=Basis(10, random_state=0), gamma_range=(1e-1, 1e3)).fit(X, Y)
    with precision(300):
        Z = features_of(model, X)
        exact = [exact_reduced_criterion(Z, Y, criterion, float(gamma)) for gamma in (0.2, 30.0, 900.0, model.gamma_)]
    assert min(exact) >= model.criterion_lower_bound_
