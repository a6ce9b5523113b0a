"""Partially linear LS-SVMs on a reduced basis: against the dense ones, refits, naive equations, proofs and streams."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import LSSVMRegressor
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear, Polynomial

N, KERNEL, GAMMA, LINEAR = 50, RBF(1.5), 7.0, [0, 2]


def instance(seed=0, offset=0.0, unit=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    X[:, 2] += X[:, 1]  # the kernel explains a part of it
    y = X[:, 0] - 2.0 * X[:, 2] + np.sin(2.0 * X[:, 1]) * X[:, 3] + 0.1 * rng.normal(size=N)
    X[:, LINEAR] = offset + unit * X[:, LINEAR]
    return X, y, rng.uniform(0.3, 3.0, size=N)


def fitted(X, y, v=None, **changes):
    settings = {"basis": X[::3], "linear_columns": LINEAR} | changes
    return LSSVMRegressor(KERNEL, GAMMA, **settings).fit(X, y, v)


@pytest.mark.parametrize(("offset", "unit"), [(0.0, 1.0), (1e8, 1.0), (0.0, 1e-9), (1e5, 1e4)])
def test_on_all_rows_it_is_the_dense_machine(offset, unit):
    X, y, v = instance(0, offset, unit)
    dense = LSSVMRegressor(KERNEL, GAMMA, linear_columns=LINEAR).fit(X, y, v)
    here = fitted(X, y, v, basis=np.arange(N))
    assert here.certificate_.holds
    assert here.certify(X, y, v).holds
    assert_allclose(here.predict(X), dense.predict(X), atol=1e-7)
    assert_allclose(here.coef_, dense.coef_, rtol=1e-7)
    assert_allclose(here.noise_variance_, dense.noise_variance_, rtol=1e-6)
    assert_allclose(here.predict(X[:5], return_std=True)[1], dense.predict(X[:5], return_std=True)[1], rtol=1e-6)
    assert_allclose(here.leave_one_out(X, y, v).residuals, dense.leave_one_out().residuals, atol=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_it_solves_the_normal_equations(seed):
    X, y, v = instance(seed)
    model = fitted(X, y, v)
    points, K = X[::3], KERNEL.on(1, 3)
    wide = np.column_stack([K(X, points), X[:, LINEAR], np.ones(N)])
    penalty = np.zeros((wide.shape[1],) * 2)
    penalty[: len(points), : len(points)] = K(points)
    solution = np.linalg.lstsq(penalty + GAMMA * wide.T * v @ wide, GAMMA * wide.T @ (v * y), rcond=None)[0]
    assert_allclose(model.predict(X), wide @ solution, atol=1e-7)
    assert_allclose(np.append(model.coef_, model.bias_), solution[len(points) :], atol=1e-7)


def test_leave_one_out_is_that_of_refits_and_intervals_follow():
    X, y, v = instance(1)
    model = fitted(X, y, v)
    left = model.leave_one_out(X, y, v)
    assert left.certificate.holds
    for row in (0, 17):
        rest = np.delete(np.arange(N), row)
        again = fitted(X[rest], y[rest], v[rest], basis=X[::3])
        assert_allclose(y[row] - again.predict(X[[row]])[0], left.residuals[row], atol=1e-8)
    low, high = model.predict_interval(X[:4], rows=(X, y, v)).T
    assert (low < high).all()
    assert model.left_out_importance(X, y, sample_weight=v).importances_mean.shape == (4,)


WILD = {"rbf": RBF(3.0), "linear": Linear(), "polynomial": Polynomial(2)}


@pytest.mark.parametrize("kernel", WILD)
@pytest.mark.parametrize("seed", range(2))
def test_the_certificate_is_true_and_holds(kernel, seed):
    """The bound is above the distance that balls enclose, over units, offsets, weights and gammas."""
    pytest.importorskip("flint")
    rng = np.random.default_rng(seed)
    X, y, v = instance(seed, 10.0 ** rng.uniform(0.0, 6.0), 10.0 ** rng.uniform(-4.0, 4.0))
    X, y, v = X[:24], 10.0 ** rng.uniform(-3.0, 3.0) * y[:24], v[:24]
    model = LSSVMRegressor(
        WILD[kernel], 10.0 ** rng.uniform(-3.0, 6.0), basis=np.arange(0, 24, 2), linear_columns=LINEAR
    ).fit(X, y, v)
    proof = model.prove(X, y, v)
    assert proof.proved
    for certificate in (model.certificate_, model.certify(X, y, v)):
        assert certificate.holds
        assert certificate.rows[0].value >= 0.999 * proof.accuracy
    model.coef_ = model.coef_ * (1.0 + 1e-3)
    assert not model.certify(X, y, v).holds
    assert not model.prove(X, y, v).proved


@pytest.mark.parametrize("as_blocks", [False, True])
def test_columns_that_depend_on_each_other_are_refused_by_name(as_blocks):
    X, y, _ = instance(6)
    X[:, 2] = 3.0 * X[:, 0] + 1.0
    given = ([(X, y)], None) if as_blocks else (X, y)
    with pytest.raises(DataError, match="column 2 of the linear part is determined by the constant and column 0"):
        fitted(*given, basis=X[:9])
    X[:, 2] = 4.0
    with pytest.raises(DataError, match="column 2 of the linear part is determined by the constant"):
        fitted(*given, basis=X[:9])


def test_what_else_is_refused():
    X, y, _ = instance(7)
    with pytest.raises(DeclarationError, match="integers from 0 to 3 or names, received"):
        fitted(X, y, linear_columns=[4])
    with pytest.raises(DeclarationError, match="precomputed"):
        LSSVMRegressor("precomputed", linear_columns=[0], basis="feature_vectors").fit(np.eye(N), y)
    with pytest.raises(DataError, match="fit all 3 rows"):
        fitted(X[:3], y[:3], basis=X[:2])
    X[:, 0] = np.where(X[:, 0] > 0.0, 1.7e308, -1.7e308)
    with pytest.raises(DataError, match="column 0 overflow"):
        fitted(X, y)
