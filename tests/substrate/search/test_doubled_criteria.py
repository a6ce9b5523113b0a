"""Criteria of few rows far beyond the rounding of double precision, against ball arithmetic."""

import numpy as np
import pytest
from exact_criteria import exact_criterion
from exact_reduced_criteria import exact_reduced_criterion, features_of
from sklearn.model_selection import KFold

from problems import LSSVMRegressorCV, SparseLSSVMRegressor, SparseLSSVMRegressorCV
from substrate.certificates.doubled_numbers import DoubledNumbers
from substrate.kernels import RBF, Laplacian, Matern
from substrate.proof import precision
from substrate.reduced import Basis
from substrate.search.doubled_criteria import FewRows

pytest.importorskip("flint")

N = 11
#: gamma from where double precision suffices to ten decades beyond its end.
GAMMAS = 10.0 ** np.arange(3.0, 22.0, 6.0)


def rows_of(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(N, 1))
    return X, np.sin(1.5 * X[:, 0]) + 0.1 * rng.normal(size=N)


def splits_of(criterion, n=N):
    return tuple(KFold(5).split(np.empty((n, 1)))) if criterion == "folds" else ((np.arange(n), None),)


@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence", "folds"])
@pytest.mark.parametrize("kernel", [RBF(30.0), RBF(1.0), Laplacian(2.0), Matern(3.0, nu=2.5)], ids=repr)
def test_criteria_are_those_of_exact_arithmetic(criterion, kernel):
    X, y = rows_of(5)
    rows = FewRows(kernel, X, N, y[:, None], np.ones(N))
    values = rows.criteria(rows.features(), criterion, splits_of(criterion), 1.0 / GAMMAS)[:, 0]
    exact = exact_criterion(criterion, kernel, X, y, GAMMAS, tuple(KFold(5).split(X)))
    # up to one factor for all gammas
    np.testing.assert_allclose(values / values[0], exact / exact[0], rtol=1e-6)


@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence"])
def test_a_basis_restricts_the_pivots(criterion):
    X, y = rows_of(6)
    model = SparseLSSVMRegressor(RBF(3.0), 1.0, basis=Basis(6, random_state=0)).fit(X, y)
    m = model.support_vectors_.shape[0]
    points, targets = np.concatenate([model.support_vectors_, X]), np.append(np.zeros(m), y)[:, None]
    rows = FewRows(model.kernel_, points, m, targets, np.ones(m + N))
    L = rows.features()
    assert L.shape == (m + N, m)
    values = rows.criteria(L, criterion, ((m + np.arange(N), None),), 1.0 / GAMMAS)[:, 0]
    with precision(500):
        Z = features_of(model, X)
        exact = np.array([exact_reduced_criterion(Z, y, criterion, gamma) for gamma in GAMMAS])
    np.testing.assert_allclose(values / values[0], exact / exact[0], rtol=1e-6)


def test_weights_count_as_copies_of_a_row():
    X, y = rows_of(7)
    weights = np.ones(N)
    weights[[2, 5]] = 2.0
    copies = np.append(np.arange(N), [2, 5])
    lambdas = 1.0 / GAMMAS
    whole = FewRows(RBF(5.0), X[copies], copies.size, y[copies, None], np.ones(copies.size))
    weighted = FewRows(RBF(5.0), X, N, y[:, None], weights)
    check = np.array([0, 1])
    train, other = np.arange(2, N), np.arange(2, copies.size)
    np.testing.assert_allclose(
        weighted.criteria(weighted.features(), "validation", ((train, check),), lambdas),
        whole.criteria(whole.features(), "validation", ((other, check),), lambdas),
        rtol=1e-8,
    )


def test_a_fall_that_double_precision_does_not_see_is_seen():
    """The criterion rises ninefold before it falls again, five decades beyond the end of what is known."""
    rng = np.random.default_rng(11)
    X = rng.uniform(-3.0, 3.0, size=(14, 1))
    y = np.sin(1.5 * X[:, 0]) + 1e-3 * rng.normal(size=14)
    with pytest.warns(UserWarning, match="gamma_range"):
        model = SparseLSSVMRegressorCV(RBF("median"), basis=Basis(9, random_state=0)).fit(X, y)
    assert not model.certificate_.holds
    assert "gamma_range" in dict(model.certificate_.record)["to widen"]
    # a range that is given is all that is asked for
    assert LSSVMRegressorCV(RBF("median"), gamma_range=(1e-2, 1e4)).fit(X, y).certificate_.holds


def test_sums_of_pairs_keep_both_parts():
    values = DoubledNumbers(np.array([1.0, 1e-20, -1.0, 3e-20, 1e-25]))
    assert float(values.sum().pair[0]) == pytest.approx(4.00001e-20, rel=1e-12)
    assert DoubledNumbers(np.empty((0, 3))).sum().shape == (3,)
