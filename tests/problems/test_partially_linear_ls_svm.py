"""Partially linear LS-SVMs: coefficients without a penalty, next to a kernel, against the dense bordered system."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from bordered_system import solve_with
from exact_saddle import exact_distance
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import KFold

from problems import (
    LSSVMClassifierCV,
    LSSVMRegressor,
    LSSVMRegressorCV,
    partially_linear_ls_svm,
)
from substrate.errors import DataError, DeclarationError, SolverError
from substrate.kernels import RBF, Laplacian, Linear, Polynomial

GAMMA, LINEAR, OTHERS = 5.0, [1, 3], [0, 2]
N = 40


def data(seed=0, n=N, units=(1.0, 1.0), offsets=(0.0, 0.0)):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = np.sin(2.0 * X[:, 0]) + 2.0 * X[:, 1] - 3.0 * X[:, 3] + 5.0 + 0.1 * rng.normal(size=n)
    X[:, LINEAR] = X[:, LINEAR] * units + np.asarray(offsets) * units
    return X, np.column_stack([y, np.cos(X[:, 2]) - X[:, 1] / units[0]]), rng.uniform(0.3, 3.0, size=n)


def oracle(X, Y, v, gamma=GAMMA, rows=slice(None)):
    """A function of new points that returns outputs, and the coefficients, from the dense system of some rows."""
    kernel, center = RBF(1.5), X[:, LINEAR].mean(axis=0)
    Z = np.column_stack([np.ones(len(X)), X[:, LINEAR] - center])[rows]
    points = X[rows][:, OTHERS]
    alpha, c = solve_with(kernel(points), Y[rows], 1.0 / (gamma * v[rows]), Z)

    def predict(new):
        return kernel(new[:, OTHERS], points) @ alpha + c[0] + (new[:, LINEAR] - center) @ c[1:]

    return predict, alpha, c


def fitted(X, Y, v, **changes):
    return LSSVMRegressor(RBF(1.5), GAMMA, linear_columns=LINEAR, **changes).fit(X, Y, v)


# ---- the page ------------------------------------------------------------------------------------


def test_declared_closed_form_and_written_down_agree():
    """:place [Espinoza2005b]_ primal problem: the declared problem is the problem written down anew."""
    X, Y, v = data()
    K, y = RBF(1.5)(X[:, OTHERS]), Y[:, 0]
    given = {"K": K, "Z": X[:, LINEAR], "y": y, "gamma": GAMMA, "weights": v}
    closed = partially_linear_ls_svm.closed_form(**given)
    declared = partially_linear_ls_svm.declare(**given).solve()
    certificate = declared.certificate(against=closed)
    assert certificate.holds, str(certificate)
    assert sum(row.name.startswith("agreement") for row in certificate.rows) == 4
    values, vectors = np.linalg.eigh(K)
    R = vectors * np.sqrt(np.maximum(values, 0.0))
    w, b, beta = cp.Variable(N), cp.Variable(), cp.Variable(2)
    errors = y - R @ w - b - X[:, LINEAR] @ beta
    cost = 0.5 * cp.sum_squares(w) + 0.5 * GAMMA * cp.sum(cp.multiply(v, cp.square(errors)))
    problem = cp.Problem(cp.Minimize(cost))
    problem.solve(solver="CLARABEL")
    assert_allclose(declared.problem.value, problem.value, rtol=1e-6)
    assert_allclose(closed["coefficients"], beta.value, rtol=1e-4)
    assert_allclose(closed["bias"], b.value, rtol=1e-4)


def test_the_system_has_the_linear_columns_beside_the_ones():
    """:place [Espinoza2005b]_ dual problem: the bordered system of the paper, by a general solver."""
    X, Y, v = data()
    closed = partially_linear_ls_svm.closed_form(RBF(1.5)(X[:, OTHERS]), Y[:, 0], GAMMA, v, Z=X[:, LINEAR])
    Z = np.column_stack([X[:, LINEAR], np.ones(N)])
    alpha, c = solve_with(RBF(1.5)(X[:, OTHERS]), Y[:, 0], 1.0 / (GAMMA * v), Z)
    assert_allclose(closed["support_values"], alpha, atol=1e-11)
    assert_allclose([*closed["coefficients"], closed["bias"]], c, rtol=1e-10)


# ---- the estimator is the exact machine of the doubles that were given ----------------------------


@pytest.mark.parametrize("kernel", [RBF(1.5), Laplacian(2.0), Polynomial(2), Linear()], ids=repr)
@pytest.mark.parametrize(("scale", "gamma", "seed"), [("plain", 1e5, 0), ("wild", 5.0, 0), ("wild", 1e-3, 1)])
def test_no_certificate_is_contradicted_by_the_exact_machine(kernel, scale, gamma, seed):
    """Offsets of 1e8 and units of 1e-12 in the linear columns: certificate, certify and proof hold, and are true."""
    wild = {"units": (1e-12, 1e4), "offsets": (1e8, -1e6)} if scale == "wild" else {}
    X, Y, v = data(seed, 16, **wild)
    y = Y[:, 0]
    model = LSSVMRegressor(kernel, gamma, linear_columns=LINEAR).fit(X, y, v)
    true = exact_distance(kernel, X[:, OTHERS], y, gamma, v, model.predict(X), X[:, LINEAR])
    for certificate in (model.certificate_, model.certify(X, y, v)):
        assert certificate.holds, str(certificate)
        assert true <= certificate.answer.value, (true, certificate.answer.value)
    if scale == "wild" and seed == 0:
        proof = model.prove(X, y, v)
        assert proof.proved
        assert true <= proof.accuracy


def wild_outputs(seed):
    """Outputs and linear columns in units that differ by many orders of magnitude, with a gamma for each output."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(9, 14))
    X = rng.normal(size=(n, 3))
    X[:, 1] = 10.0 ** rng.choice([-9.0, 0.0, 6.0]) * (X[:, 1] + rng.choice([0.0, 1e4]))
    shape = np.sin(X[:, 0]) + 2.0 * X[:, 1] / X[:, 1].std()
    outputs = (shape, rng.normal(size=n), np.full(n, 2.5), shape + 1e3)
    Y = np.column_stack([10.0 ** rng.integers(-9, 9) * outputs[k] for k in rng.permutation(4)[:3]])
    gammas = [float(10.0 ** rng.uniform(-3, 8)) for _ in range(3)]
    weights = np.ones(n) if rng.random() < 0.5 else 10.0 ** rng.uniform(-3, 3, size=n)
    kernel = [RBF(1.0), Linear(), Polynomial(2), RBF(10.0)][int(rng.integers(4))]
    solver = str(rng.choice(["auto", "cg", "cg"]))
    return LSSVMRegressor(kernel, gammas, solver=solver, linear_columns=[1]), X, Y, weights


def test_every_output_has_its_own_bound_and_a_warning_says_that_one_fails():
    """Bounds, spreads and verdicts are stated for every output; what does not hold warns once; twice the same fit."""
    for seed in range(12):
        model, X, Y, weights = wild_outputs(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, Y, weights)
        claims = [str(one.message) for one in caught if "certificate does not hold" in str(one.message)]
        assert len(claims) == (not model.certificate_.holds), (seed, claims, str(model.certificate_))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again, proof = model.certify(X, Y, weights), model.prove(X, Y, weights)
            twin = clone(model).fit(X, Y, weights)
        for name in ("support_values_", "coef_", "linear_bias_"):
            assert_array_equal(getattr(twin, name), getattr(model, name))
        assert str(twin.certificate_) == str(model.certificate_)
        outputs = zip(Y.T, model.gamma, model.predict(X).T, strict=True)
        known = model.kernel_.kernel, X[:, [0, 2]]
        errors = [exact_distance(*known, y, gamma, weights, f, X[:, [1]]) for y, gamma, f in outputs]
        spreads = [float(np.sqrt(np.cov(y, aweights=weights, ddof=0))) for y in Y.T]
        for report in (model.certificate_, again):
            found = zip(errors, report.accuracies, strict=True)
            assert all(error <= bound + 1e-290 for error, bound in found), (seed, errors, str(report))
            for y, spread, true in zip(Y.T, report.spreads, spreads, strict=True):
                assert spread == pytest.approx(true, rel=1e-6, abs=1e-12 * np.abs(y).max())
            allowed = [
                max(1e-6 * spread, y.size * np.finfo(float).eps * np.abs(y).max())
                for spread, y in zip(report.spreads, Y.T, strict=True)
            ]
            within = [bound <= 1.000001 * most for bound, most in zip(report.accuracies, allowed, strict=True)]
            assert report.answer.passes == all(within), (seed, str(report))
        assert all(error <= 1.002 * one.accuracy + 1e-290 for error, one in zip(errors, proof.each, strict=True))


@pytest.mark.parametrize("name", ["coef_", "linear_bias_", "linear_center_", "support_values_"])
def test_a_changed_coefficient_fails(name):
    X, Y, v = data()
    model = fitted(X, Y[:, 0], v)
    setattr(model, name, getattr(model, name) * 1.001 + 1e-3)
    assert not model.certify(X, Y[:, 0], v).holds
    assert not model.prove(X, Y[:, 0], v).proved


# ---- everything that the plain machine has ---------------------------------------------------------


@pytest.mark.parametrize("weights", [False, True], ids=["equal", "weighted"])
def test_coefficients_and_left_out_rows_equal_the_dense_system(weights):
    X, Y, v = data(units=(1e-3, 10.0), offsets=(1e3, 1e3))
    v = v if weights else np.ones(N)
    model = fitted(X, Y, v if weights else None)
    predict, alpha, c = oracle(X, Y, v)
    assert_allclose(model.coef_, c[1:].T, rtol=1e-9)
    assert_allclose(model.support_values_, alpha, atol=1e-9)
    new = data(5, units=(1e-3, 10.0), offsets=(1e3, 1e3))[0]
    assert_allclose(model.predict(new), predict(new), atol=1e-9)
    assert_allclose(
        model.bias_,
        predict(X[:1])[0] - RBF(1.5)(X[:1, OTHERS], X[:, OTHERS])[0] @ alpha - X[0, LINEAR] @ c[1:],
        rtol=1e-8,
    )
    noise = np.einsum("ij,ij->j", Y - Y.mean(axis=0), alpha) / (N - 3)
    assert_allclose(model.noise_variance_, noise / GAMMA, rtol=1e-8)
    left = model.leave_one_out()
    assert left.certificate.holds
    for i in range(N):
        others = np.delete(np.arange(N), i)
        again = oracle(X, Y, v, rows=others)[0]
        assert_allclose(left.outputs[i], again(X[i : i + 1])[0], atol=1e-8)


def test_coefficients_of_repeated_samples_have_the_true_mean():
    """Of a linear effect next to a smooth one, over samples of the process that the machine assumes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    K, gamma, sigma = RBF(1.0)(X[:, 1:]), 3.0, 0.5
    root = np.linalg.cholesky(gamma * sigma**2 * K + sigma**2 * np.eye(30))
    Y = 2.0 * X[:, :1] + root @ rng.normal(size=(30, 400))
    model = LSSVMRegressor(RBF(1.0), gamma, linear_columns=[0]).fit(X, Y)
    assert abs(np.mean(model.coef_) - 2.0) < 4.0 * np.std(model.coef_) / 20.0
    assert_allclose(np.mean(model.noise_variance_), sigma**2, rtol=0.05)


def test_intervals_and_deviations_are_those_of_refits():
    X, Y, _v = data(n=25)
    y, model = Y[:, 0], fitted(X, Y[:, 0], None)
    new = data(7, 3)[0]
    ends = model.predict_interval(new, 0.8, method="jackknife+")
    ones = np.ones(25)
    outs, residuals = [], []
    for i in range(25):
        predict = oracle(X, y, ones, rows=np.delete(np.arange(25), i))[0]
        outs.append(predict(new))
        residuals.append(abs(y[i] - predict(X[i : i + 1])[0]))
    outs, residuals = np.array(outs), np.array(residuals)[:, None]
    k = int(np.ceil(0.8 * 26)) - 1
    assert_allclose(ends[:, 1], np.sort(outs + residuals, axis=0)[k], atol=1e-8)
    assert_allclose(ends[:, 0], np.sort(outs - residuals, axis=0)[25 - k - 1], atol=1e-8)
    A = RBF(1.5)(X[:, OTHERS]) + np.eye(25) / GAMMA
    Z = np.column_stack([np.ones(25), X[:, LINEAR]])
    M = np.block([[np.zeros((3, 3)), Z.T], [Z, A]])
    q = np.vstack([np.ones(3), new[:, LINEAR].T, RBF(1.5)(X[:, OTHERS], new[:, OTHERS])])
    p = 1.0 - np.einsum("ij,ij->j", q, np.linalg.solve(M, q))
    deviations = np.sqrt(model.noise_variance_ * (GAMMA * p + 1.0))
    assert_allclose(model.predict(new, return_std=True)[1], deviations, rtol=1e-8)


@pytest.mark.parametrize("cv", ["loo", "gcv", "evidence", 4])
@pytest.mark.parametrize("weights", [False, True], ids=["equal", "weighted"])
@pytest.mark.covering
def test_gamma_is_chosen_by_the_criterion_of_the_exact_machine(cv, weights):
    X, Y, v = data(units=(1e-3, 10.0), offsets=(1e3, 1e3))
    y, v = Y[:, 0], v if weights else np.ones(N)
    model = LSSVMRegressorCV(RBF(1.5), linear_columns=LINEAR, cv=cv, random_state=0)
    model.fit(X, y, sample_weight=v if weights else None)
    assert model.certificate_.holds, str(model.certificate_)

    def criterion(gamma):
        if cv == 4:
            squares = []
            for train, test in KFold(4, shuffle=True, random_state=0).split(X):
                predict = oracle(X, y, v, gamma=gamma, rows=train)[0]
                squares.append(np.average((y[test] - predict(X[test])) ** 2, weights=v[test]))
            return np.mean(squares)
        left = LSSVMRegressor(RBF(1.5), gamma, linear_columns=LINEAR).fit(X, y, v).leave_one_out()
        if cv == "loo":
            return np.average(left.residuals**2, weights=v)
        if cv == "gcv":
            return left.gcv
        u = v / v.mean()
        A = RBF(1.5)(X[:, OTHERS]) + np.diag(1.0 / (gamma * v))
        Z = np.column_stack([np.ones(N), X[:, LINEAR] - X[:, LINEAR].mean(axis=0)])
        logs = [np.linalg.slogdet(M)[1] for M in (A, Z.T @ np.linalg.solve(A, Z), Z.T @ (u[:, None] * Z))]
        alpha = oracle(X, y, v, gamma=gamma)[1]
        mean_log = (logs[0] + np.log(u).sum() + logs[1] - logs[2]) / (N - 3)
        return (y - y.mean()) @ alpha / (N - 3) * np.exp(mean_log)

    assert_allclose(model.criterion_, criterion(model.gamma_), rtol=1e-8)
    low, high = model.gamma_range_
    for gamma in np.geomspace(max(low, 1e-3), min(high, 1e6), 9):
        assert criterion(gamma) >= model.criterion_lower_bound_ * (1.0 - 1e-9)


def test_names_sparse_rows_and_devices_are_the_same_machine():
    import pandas as pd
    import scipy.sparse as sp

    X, Y, v = data()
    model = fitted(X, Y[:, 0], v)
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = LSSVMRegressor(RBF(1.5), GAMMA, linear_columns=["b", "d"]).fit(frame, Y[:, 0], v)
    assert_array_equal(named.predict(frame), model.predict(X))
    thin = fitted(sp.csr_array(X), Y[:, 0], v)
    assert_allclose(thin.predict(sp.csr_array(X)), model.predict(X), atol=1e-10)
    assert thin.leave_one_out().certificate.holds
    torch = pytest.importorskip("torch")
    there = fitted(torch.asarray(X), torch.asarray(Y), torch.asarray(v))
    here = fitted(X, Y, v)
    assert_allclose(there.predict(torch.asarray(X)).numpy(), here.predict(X), atol=1e-10)
    assert_allclose(there.leave_one_out().residuals.numpy(), here.leave_one_out().residuals, atol=1e-9)
    assert_allclose(there.predict_interval(torch.asarray(X[:3])).numpy(), here.predict_interval(X[:3]), atol=1e-8)
    assert there.certify(torch.asarray(X), torch.asarray(Y), torch.asarray(v)).holds


# ---- refusals --------------------------------------------------------------------------------------

REFUSED = {
    "out of range": ([7], DeclarationError, "integers from 0 to 3 or names, received 7"),
    "negative": ([-1], DeclarationError, "integers from 0 to 3 or names, received -1"),
    "no such name": (["age"], DeclarationError, "names the column 'age'"),
    "twice": ([1, 1], DeclarationError, "twice"),
    "all": ([0, 1, 2, 3], DataError, "leaves none to the kernel"),
    "a number": (3, DeclarationError, "list of columns"),
    "a fraction": ([1.5], DeclarationError, "received 1.5"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("kind", [LSSVMRegressor, LSSVMClassifierCV])
def test_columns_that_cannot_be_are_refused_by_name(kind, case):
    columns, error, message = REFUSED[case]
    X, Y, _ = data()
    with pytest.raises(error, match=message):
        kind(linear_columns=columns).fit(X, Y[:, 0] > 5.0)


def test_columns_that_depend_on_each_other_are_refused_by_name():
    pd = pytest.importorskip("pandas")
    X, Y, _ = data()
    X[:, 3] = 1.0 - 2.0 * X[:, 1]
    frame = pd.DataFrame(X, columns=["a", "dose", "c", "share"])
    with pytest.raises(DataError, match=r"column 'share' of the linear part is determined by .*column 'dose'"):
        LSSVMRegressor(linear_columns=["dose", "share"]).fit(frame, Y[:, 0])
    X[:, 3] = 0.0
    X[7, 3] = 1.0
    model = fitted(X, Y[:, 0], None)
    assert model.certificate_.holds
    with pytest.raises(SolverError, match="without row 7 the machine is not determined"):
        model.leave_one_out()
