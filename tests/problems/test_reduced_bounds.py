"""Lower bounds over gamma on a reduced basis, against the criterion of the same machine in ball arithmetic."""

import numpy as np
import pytest

from problems import SparseLSSVMRegressorCV
from substrate.kernels import RBF
from substrate.proof import ball, below, flint, precision
from substrate.proof.reduced import BasisRows
from substrate.reduced import Basis

pytest.importorskip("flint")


def problem(seed):
    """A smooth function, with noise between none to speak of and a third of its size."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(40, 80)), int(rng.integers(1, 3))
    X = rng.normal(size=(n, d))
    y = np.sin(2.0 * X[:, 0]) + 10.0 ** rng.uniform(-8.0, -0.5) * rng.normal(size=n)
    return X, y, RBF(10.0 ** rng.uniform(-0.3, 0.7))


def features_of(model, X):
    """Coordinates of the rows in all directions of the basis: K_NS L^-T, with K_SS = L L'."""
    rows = BasisRows(model.kernel_, X, model.support_vectors_)
    n = model.support_vectors_.shape[0]
    L, K = rows.matrix(), flint().arb_mat(X.shape[0], n, [value for row in rows.matrix(X) for value in row])
    for j in range(n):
        for i in range(j):
            for k in range(j, n):
                L[k][j] -= L[k][i] * L[j][i]
        root = L[j][j].sqrt()
        for k in range(j, n):
            L[k][j] /= root
    lower = flint().arb_mat(n, n, [L[i][j] if j <= i else ball(0.0) for i in range(n) for j in range(n)])
    return lower.solve(K.transpose()).transpose()


def solved(Z, members, y, gamma):
    """Weights and bias of the machine on some rows, the inverse of its system, and the mean feature."""
    n, r = len(members), Z.ncols()
    means = [sum((Z[i, k] for i in members), ball(0.0)) / n for k in range(r)]
    centred = flint().arb_mat(n, r, [Z[i, k] - means[k] for i in members for k in range(r)])
    H = centred.transpose() * centred
    for k in range(r):
        H[k, k] += 1 / ball(gamma)
    mean = sum((ball(y[i]) for i in members), ball(0.0)) / n
    right = centred.transpose() * flint().arb_mat(n, 1, [ball(y[i]) - mean for i in members])
    return H.solve(right), mean, means, centred, H


def exact_criterion(model, Z, y, criterion, gamma):
    """The criterion at one gamma; the lower end of its ball."""
    n, zero = y.size, ball(0.0)
    if criterion == "folds":
        total = zero
        for fold in np.array_split(np.arange(n), 5):
            u, mean, means, _, _ = solved(Z, np.setdiff1d(np.arange(n), fold).tolist(), y, gamma)
            errors = [
                ball(y[i]) - mean - sum(((Z[i, k] - means[k]) * u[k, 0] for k in range(Z.ncols())), zero)
                for i in fold.tolist()
            ]
            total += sum((e * e for e in errors), zero) / len(errors) / 5
        return below(total)
    u, mean, _, centred, H = solved(Z, list(range(n)), y, gamma)
    fitted, half = centred * u, centred * H.inv()
    errors = [ball(y[i]) - mean - fitted[i, 0] for i in range(n)]
    if criterion == "evidence":
        quadratic = sum(((ball(y[i]) - mean) * e for i, e in enumerate(errors)), zero)
        product = H.det() * ball(float(gamma)) ** Z.ncols()
        return below(quadratic / (n - 1) * (product.log() / (n - 1)).exp())
    spare = [1 - ball(1.0) / n - sum((half[i, k] * centred[i, k] for k in range(Z.ncols())), zero) for i in range(n)]
    if criterion == "gcv":
        left = sum(spare, zero)
        return below(n * sum((e * e for e in errors), zero) / (left * left))
    return below(sum(((e / s) ** 2 for e, s in zip(errors, spare, strict=True)), zero) / n)


def check(seed, criterion, points, gamma_range=None):
    X, y, kernel = problem(seed)
    model = SparseLSSVMRegressorCV(
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
            exact = exact_criterion(model, Z, y, criterion, float(gamma))
            assert exact >= model.criterion_lower_bound_, (seed, gamma)
    return model


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence", "folds"])
@pytest.mark.parametrize("seed", range(4))
def test_no_gamma_of_the_range_has_a_criterion_below_the_bound(seed, criterion):
    check(seed, criterion, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence", "folds"])
def test_many_searches_have_bounds_that_hold(criterion):
    held = [check(seed, criterion, 8).certificate_["gap of gamma"].passes for seed in range(100, 130)]
    wide = [check(seed, criterion, 8, (1e-3, 1e12)) for seed in range(200, 210)]
    assert np.mean(held) >= 0.95
    assert len(wide) == 10


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_range_beyond_what_double_precision_knows_is_searched_and_does_not_hold():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    y = np.sin(X[:, 0])
    wide = SparseLSSVMRegressorCV(RBF(3.0), gamma_range=(1e-2, 1e14), basis=Basis(15, random_state=0)).fit(X, y)
    assert not wide.certificate_["gap of gamma"].passes
    assert wide.criterion_lower_bound_ < wide.criterion_
    usual = SparseLSSVMRegressorCV(RBF(3.0), basis=Basis(15, random_state=0)).fit(X, y)
    assert usual.certificate_["gap of gamma"].passes
    assert "best at the upper end" in dict(usual.certificate_.record)["gamma searched"]
