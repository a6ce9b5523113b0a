"""Machines on a reduced basis: the same grammar on n vectors and all rows, and what all rows could gain."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import LSSVMRegressor
from substrate import Machine, Substrate
from substrate.basis import Basis
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Precomputed


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(300, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * rng.normal(size=300)


@pytest.fixture
def few(rows):
    return rows[0][:20], rows[1][:20]


def ridge(s, weight=10.0):
    return 0.5 * s.squared_norm + 0.5 * weight * cp.sum_squares(s.e)


def solved(machine, **parameters):
    result = machine.solve(**parameters)
    assert result.certificate.holds, str(result.certificate)
    return result


def by_normal_equations(kernel, B, X, y, weight):
    """min a'K_bb a/2 + weight/2 |y - K_xb a - b|^2."""
    K, R = kernel(B), np.hstack([kernel(X, B), np.ones((len(X), 1))])
    H = weight * R.T @ R
    H[:-1, :-1] += K
    u = np.linalg.lstsq(H, weight * R.T @ y, rcond=1e-14)[0]
    e = y - R @ u
    return 0.5 * u[:-1] @ K @ u[:-1] + 0.5 * weight * e @ e, R @ u


def test_least_squares_is_the_closed_form_and_its_estimator(rows):
    X, y = rows
    s = Substrate(RBF(1.0), X, y, basis=X[:30])
    result = solved(Machine(s, minimize=ridge(s)))
    cost, fitted = by_normal_equations(RBF(1.0), X[:30], X, y, 10.0)
    assert_allclose(result.objective, cost, rtol=1e-8)
    assert_allclose(result.f, fitted, atol=1e-6)
    peer = LSSVMRegressor(RBF(1.0), 10.0, basis=X[:30]).fit(X, y)
    new = np.random.default_rng(1).normal(size=(7, 2))
    assert_allclose(result.predict(new), peer.predict(new), atol=1e-6)
    assert result.alpha.shape == (30,)
    assert_allclose(result.predict(new), RBF(1.0)(new, X[:30]) @ result.alpha + result.b, atol=1e-10)
    assert_allclose(result.squared_norm, result.alpha @ RBF(1.0)(X[:30]) @ result.alpha, rtol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "bias", "terms", "rules"),
    [
        (RBF(1.0), True, ridge, lambda s: []),
        (RBF(1.0), True, ridge, lambda s: [s.f() <= 1.0]),
        (RBF(1.0), True, lambda s: 0.1 * s.squared_norm + cp.norm1(s.e), lambda s: []),
        (Linear(), True, lambda s: cp.norm1(s.e), lambda s: []),
    ],
)
def test_with_all_rows_as_basis_it_is_the_full_machine(few, kernel, bias, terms, rules):
    X, y = few
    whole, reduced = (Substrate(kernel, X, y, bias=bias, basis=B) for B in (None, X))
    full = solved(Machine(whole, minimize=terms(whole), subject_to=rules(whole)))
    result = solved(Machine(reduced, minimize=terms(reduced), subject_to=rules(reduced)))
    assert_allclose(result.objective, full.objective, rtol=1e-6)
    assert_allclose(result.f, full.f, atol=1e-4 * np.abs(full.f).max())


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_whole_grammar_works(rows, task):
    X, y = rows
    y = np.where(y > y.mean(), 1.0, -1.0) if task == "classification" else y
    B = X[:12]
    s = Substrate(Componentwise(RBF(1.5)), X, y, task, basis=B)
    new = np.random.default_rng(2).normal(size=(6, 2))
    there, part, slope = s.f(new), s.component(1, new), s.gradient(new, 0)
    for terms in (
        ridge(s) + cp.sum(s.maximal_variation),
        cp.sum_squares(s.e) + cp.sum(s.maximal_variation),
        cp.sum_squares(s.e) + 0.5 * cp.norm1(s.alpha),
    ):
        result = solved(Machine(s, minimize=terms, subject_to=[part <= 1.0, there <= 2.0, slope <= 3.0]))
        assert_allclose(there.value, result.predict(new), atol=1e-8)
        assert_allclose(part.value, result.component(1, new), atol=1e-8)
        step = np.array([1e-5, 0.0])
        assert_allclose(slope.value, (result.predict(new + step) - result.predict(new - step)) / 2e-5, atol=1e-5)
        values = result.component(0, X) + result.component(1, X) + result.b
        assert_allclose(values, result.f, atol=1e-8)
        expected = y - result.f if task == "regression" else 1.0 - y * result.f
        assert_allclose(s.e.value, expected, atol=1e-8)
        assert_allclose(s.alpha.value, result.alpha)
        assert "1'alpha = 0" not in [row.name for row in result.certificate.rows]
        assert dict(result.certificate.record)["basis"].startswith("12 given points; f is in their span")


def test_l1_on_a_basis_is_the_raw_problem(rows):
    X, y = rows
    s = Substrate(RBF(1.0), X, y, basis=X[:25])
    result = solved(Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 2.0 * cp.norm1(s.alpha)))
    a, b = cp.Variable(25), cp.Variable()
    e = y - RBF(1.0)(X, X[:25]) @ a - b
    raw = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(e) + 2.0 * cp.norm1(a)))
    raw.solve(solver="CLARABEL", tol_gap_rel=1e-11, tol_gap_abs=1e-11)
    assert_allclose(result.objective, raw.value, rtol=1e-8)


@pytest.mark.parametrize(
    ("basis", "words"),
    [
        (15, "15 of 300 rows by feature_vectors"),
        ("renyi", "100 of 300 rows by renyi"),
        (Basis(8, rule="kmeans++", random_state=0), "8 of 300 rows by kmeans"),
        (Basis(8, rule="renyi"), "8 of 300 rows by renyi"),
        ([3, 1, 4], "3 given rows of 300"),
        ([[0.0, 1.0], [1.0, 1.0]], "2 given points"),
    ],
)
def test_a_basis_is_chosen_as_estimators_choose_it(rows, basis, words):
    X, y = rows
    s = Substrate(RBF(1.0), X, y, basis=basis)
    assert s.described.startswith(words)
    assert s.alpha.shape == (s.size,) == (s.basis.shape[0],)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"basis": 21}, DeclarationError, "basis.n=21 exceeds the 20 rows"),
        ({"basis": 0}, DeclarationError, "basis.n must be an integer >= 1"),
        ({"basis": True}, DeclarationError, "basis must be a Basis, a number of vectors"),
        ({"basis": "best"}, DeclarationError, "received 'best'"),
        ({"basis": "pruned"}, DeclarationError, "one gamma, which a machine need not have; take another rule"),
        ({"basis": [0, 20]}, DataError, "basis names row 20 of 20"),
        ({"basis": np.ones((3, 1))}, DataError, "basis has 1 features, X has 2"),
        ({"basis": np.full((3, 2), np.nan)}, ValueError, "NaN"),
        ({"basis": 3, "kernel": Precomputed(), "X": np.eye(20)}, DeclarationError, "no points that could be a basis"),
    ],
)
def test_bad_bases_are_refused_by_name(few, change, error, words):
    given = {"kernel": RBF(1.0), "X": few[0], "y": few[1], **change}
    with pytest.raises(error, match=words):
        Substrate(**given)


def test_what_a_basis_does_not_have_is_refused(few):
    s = Substrate(Laplacian(1.0), *few, basis=4)
    with pytest.raises(DeclarationError, match=r"one alpha per row; the basis has 4 for 20 rows\. Write"):
        _ = s.c
    result = solved(Machine(s, minimize=ridge(s)))
    with pytest.raises(DeclarationError, match="one alpha per row"):
        _ = result.c
    with pytest.raises(DeclarationError, match="has no derivatives"):
        s.gradient(None, 0)


def test_components_on_a_basis_share_their_coefficients_and_it_is_said(few):
    X, y = few
    s = Substrate(Componentwise(RBF(1.5)), X, y, basis=X[:5])
    result = solved(Machine(s, minimize=ridge(s) + cp.norm1(s.component(1))))
    assert "components share the coefficients of the vectors" in dict(result.certificate.record)["basis"]
    plain = solved(Machine(s, minimize=ridge(s)))
    assert "components" not in dict(plain.certificate.record)["basis"]
