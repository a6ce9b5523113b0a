"""Lower bounds over gamma on a reduced basis, against the criterion of the same machine in ball arithmetic."""

import numpy as np
import pytest
from exact_reduced_criteria import exact_reduced_criterion, features_of

from problems import LSSVMRegressorCV
from substrate.basis import Basis
from substrate.bounds.proof import precision
from substrate.kernels import RBF

pytest.importorskip("flint")


def problem(seed):
    """A smooth function, with noise between none to speak of and a third of its size."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(40, 80)), int(rng.integers(1, 3))
    X = rng.normal(size=(n, d))
    y = np.sin(2.0 * X[:, 0]) + 10.0 ** rng.uniform(-8.0, -0.5) * rng.normal(size=n)
    return X, y, RBF(10.0 ** rng.uniform(-0.3, 0.7))


def check(seed, criterion, points, gamma_range=None):
    X, y, kernel = problem(seed)
    model = LSSVMRegressorCV(
        kernel, cv=5 if criterion == "folds" else criterion, basis=Basis(12, random_state=0), gamma_range=gamma_range
    ).fit(X, y)
    found = dict(model.certificate_.record)["gamma searched"].split(";")[0].split(" to ")
    low, high = (float(end) for end in found)
    with precision(300):
        Z = features_of(model, X)
        rng = np.random.default_rng(seed)
        low, high = 1.01 * low, 0.994 * high  # the range is printed in three digits
        tried = [high, model.gamma_, *np.exp(rng.uniform(np.log(low), np.log(high), points))]
        for gamma in tried:
            exact = exact_reduced_criterion(Z, y, criterion, float(gamma))
            assert exact >= model.criterion_lower_bound_, (seed, gamma)
    return model


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence", "folds"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.covering
def test_no_gamma_of_the_range_has_a_criterion_below_the_bound(seed, criterion):
    check(seed, criterion, 2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_range_beyond_what_double_precision_knows_is_searched_and_does_not_hold():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    y = np.sin(X[:, 0])
    wide = LSSVMRegressorCV(RBF(3.0), gamma_range=(1e-2, 1e14), basis=Basis(15, random_state=0)).fit(X, y)
    assert not wide.certificate_["gap of gamma"].passes
    assert wide.criterion_lower_bound_ < wide.criterion_
