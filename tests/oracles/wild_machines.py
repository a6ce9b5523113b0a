"""Any estimator on data that are meant to go wrong: units, offsets, weights, duplicates and parameters at random."""

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
from every_model import is_additive
from sklearn.base import is_classifier

import problems
from substrate.basis import Basis
from substrate.kernels import RBF, Laplacian, Linear, Matern, Polynomial

__all__ = ["WildMachine", "wild_machine"]

ESTIMATORS = [getattr(problems, name) for name in problems.ESTIMATORS]
#: Parameters that weigh one term against another: any size is allowed, and all sizes occur.
WEIGHTS = {"gamma": (-12.0, 14.0), "zeta": (-8.0, 4.0), "rho": (-8.0, 4.0), "ridge": (-6.0, 3.0), "delta": (-6.0, 3.0)}


@dataclass(frozen=True)
class WildMachine:
    """An estimator that is not fitted yet, its data, and the arguments of fit, certify and prove."""

    model: Any
    X: Any
    y: Any
    fit_options: dict[str, Any]

    def __str__(self):
        return f"{self.model} on {self.X!r}, {self.y!r}, {self.fit_options!r}"


def wild_machine(seed):
    """Return the estimators in turn, each with separate data."""
    rng = np.random.default_rng(seed)
    estimator = ESTIMATORS[seed % len(ESTIMATORS)]
    n, d = int(rng.integers(6, 15)), int(rng.integers(1, 4))
    unit = 10.0 ** rng.choice([-12, -6, -3, 0, 0, 0, 3, 6, 12])
    X = unit * (rng.normal(size=(n, d)) + rng.choice([0.0, 0.0, 10.0, 1e4, 1e10]))
    if rng.random() < 0.2:
        X[rng.integers(n, size=n // 3)] = X[0]
    if rng.random() < 0.15 and d > 1:
        X[:, rng.integers(d)] = X[0, 0]
    spread = float(X.std()) or unit
    width = float(spread * 10.0 ** rng.uniform(-1, 2))
    kernels = [RBF(width), Laplacian(width), Matern(width), RBF("median"), Linear(), Polynomial(2), Polynomial(3)]
    if not is_additive(estimator):  # the kernel of an additive one is a function of every column
        kernels += [RBF(width) + Linear(), 2.5 * RBF(width), RBF(width) * Polynomial(2)]
    signature = inspect.signature(estimator).parameters
    choices = {"kernel": kernels[rng.integers(len(kernels))]}
    for name, (low, high) in WEIGHTS.items():
        if name in signature and rng.random() < 0.8:
            choices[name] = float(10.0 ** rng.uniform(low, high))
    if "random_state" in signature:
        choices["random_state"] = int(rng.integers(100))
    if "basis" in signature and rng.random() < 0.4:
        choices["basis"] = Basis(random_state=int(rng.integers(100)), n=int(rng.integers(2, n)))
    fit = inspect.signature(estimator.fit).parameters
    weights = [None, rng.uniform(0.1, 2.0, size=n), 10.0 ** rng.uniform(-30, 12, size=n)][rng.integers(3)]
    fit_options = {"sample_weight": weights} if "sample_weight" in fit and weights is not None else {}
    return WildMachine(estimator(**choices), X, _targets(estimator, X, unit, rng), fit_options)


def _targets(estimator, X, unit, rng):
    n = len(X)
    if is_classifier(estimator()):
        return rng.permutation(np.arange(n) % int(rng.integers(2, 4)))
    signal = np.sin(X[:, 0] / unit) + rng.normal(size=n) * rng.choice([0.0, 0.1, 1.0])
    return 10.0 ** rng.choice([-12, 0, 0, 0, 12]) * (signal + rng.choice([0.0, 0.0, 1e4, 1e10]))
