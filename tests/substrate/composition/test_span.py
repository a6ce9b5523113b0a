"""What an expansion is built on: the optimum over all w where w is penalised, the training rows where it is not."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from substrate import Machine, Substrate, fuse
from substrate.composition.compiled import CompiledSubstrate
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Componentwise, Linear, Polynomial, Precomputed


@pytest.fixture
def half():
    """A sample of an even function on one side of zero."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.2, 2.0, size=(12, 1))
    return X, np.cos(2.0 * X[:, 0]) + 0.1 * rng.normal(size=12)


@pytest.fixture
def plane():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(14, 2))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=14)


def ridge(s, weight=10.0):
    return 0.5 * s.squared_norm + 0.5 * weight * cp.sum_squares(s.e)


def fact(result):
    return dict(result.certificate.record).get("span", "")


def least_squares_over(kernel, points, rows, y, weight, equal, bias=True):
    """min w'w/2 + weight/2 |y - f(rows)|^2 with equal values at pairs of points, by one dense system."""
    values, vectors = np.linalg.eigh(kernel(points))
    keep = values > 1e-13 * values[-1]
    F = vectors[:, keep] * np.sqrt(values[keep])
    J = np.hstack([F[rows], np.full((len(rows), 1), float(bias))])
    C = np.hstack([F[equal[0]] - F[equal[1]], np.zeros((len(equal[0]), 1))])
    H = weight * J.T @ J + np.diag(np.append(np.ones(F.shape[1]), 0.0 if bias else 1.0))
    system = np.block([[H, C.T], [C, np.zeros((len(C), len(C)))]])
    u = np.linalg.lstsq(system, np.concatenate([weight * J.T @ y, np.zeros(len(C))]), rcond=1e-14)[0][: H.shape[0]]
    w, e = u[:-1], y - J @ u
    return 0.5 * w @ w + 0.5 * weight * e @ e, J @ u


@pytest.mark.parametrize("kernel", [RBF(1.0), Polynomial(3, 1.0)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_constraint_away_from_the_training_rows_costs_what_it_costs_over_all_w(half, kernel, bias):
    X, y = half
    s = Substrate(kernel, X, y, bias=bias)
    result = Machine(s, minimize=ridge(s), subject_to=[s.f(X) == s.f(-X)]).solve()
    both, n = np.vstack([X, -X]), np.arange(12)
    truth, fitted = least_squares_over(kernel, both, n, y, 10.0, (n, n + 12), bias)
    assert_allclose(result.objective, truth, rtol=1e-7)
    assert_allclose(result.f, fitted, atol=1e-6)
    assert result.certificate.holds


def test_what_joined_is_reported_and_predicts(half):
    X, y = half
    s = Substrate(RBF(1.0), X, y)
    there = s.f(-X)
    result = Machine(s, minimize=ridge(s), subject_to=[s.f() == there]).solve()
    (further,) = result.further
    assert result.alpha.shape == (12,)
    assert_array_equal(further.points, -X)
    assert further.part is None
    new = np.linspace(-2.0, 2.0, 9)[:, None]
    expected = RBF(1.0)(new, X) @ result.alpha + RBF(1.0)(new, -X) @ further.coefficients + result.b
    assert_allclose(result.predict(new), expected, atol=1e-12)
    assert_allclose(result.predict(new), result.predict(-new), atol=1e-6)
    assert_allclose(there.value, result.predict(-X), atol=1e-12)
    assert_allclose(result.alpha.sum() + further.coefficients.sum(), 0.0, atol=1e-10)
    G, a = RBF(1.0)(np.vstack([X, -X])), np.append(result.alpha, further.coefficients)
    assert_allclose([result.squared_norm, float(s.squared_norm.value)], a @ G @ a, rtol=1e-9)
    assert fact(result).startswith("12 training rows and what the machine mentions beside them, 12 further points:")
    assert fact(result).endswith("the optimum over all w")


@pytest.mark.parametrize("seed", range(3))
def test_more_points_never_cost_more(seed):
    """The span grows by points that are mentioned with weight zero."""
    rng = np.random.default_rng(seed)
    X, P, Q = rng.normal(size=(10, 2)), rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    y = rng.normal(size=10)
    costs = []
    for idle in (False, True):
        s = Substrate(RBF(1.0), X, y)
        objective = ridge(s) + (0.0 * cp.sum(s.f(Q)) if idle else 0.0)
        costs.append(Machine(s, minimize=objective, subject_to=[s.f(P) >= 0.5]).solve().objective)
    assert_allclose(costs[0], costs[1], rtol=1e-6)  # what is mentioned without effect is not used


def test_points_that_are_there_already_add_nothing(half):
    X, y = half
    s = Substrate(RBF(1.0), X, y)
    again = np.vstack([X[3:6], -X[:2], -X[1:3], -0.0 * X[:1], 0.0 * X[:1]])
    holders = (s.f(), s.squared_norm, s.f(again), s.f(-X[:2]))
    compiled = CompiledSubstrate(s, tuple(h for h in s.holders() if any(h.leaf is leaf for leaf in holders)))
    assert compiled.span.size == 12 + 4
    assert_array_equal(compiled.span.places[id(holders[2])], [3, 4, 5, 12, 13, 13, 14, 15, 15])
    assert_array_equal(compiled.span.places[id(holders[3])], [12, 13])
    plain = Machine(s, minimize=ridge(s), subject_to=[s.f(X[2:5]) <= 0.5]).solve()
    assert plain.further == ()
    assert fact(plain) == ""
    near = Substrate(RBF(1.0), X, y)
    result = Machine(near, minimize=ridge(near), subject_to=[near.f(X[2:5] + 1e-14) <= 0.5]).solve()
    assert_allclose(result.f, plain.f, atol=1e-6)


def test_the_matrix_of_values_is_that_of_predictions(plane):
    X, y = plane
    new = np.random.default_rng(3).normal(size=(6, 2))
    for kernel, mention in (
        (RBF(1.5), lambda s: s.f(new[:2]) <= 1.0),
        (Componentwise(RBF(1.5)), lambda s: s.component(1, new[:2]) <= 1.0),
        (RBF(1.5), lambda s: s.alpha <= 1.0),
    ):
        s = Substrate(kernel, X, y)
        machine = Machine(s, minimize=ridge(s), subject_to=[mention(s)])
        result = machine.solve()
        one = machine._compiled[0]
        values = one.values_at(new) @ one.z.value + one.shift.value
        assert_allclose(values, result.predict(new), atol=1e-9)
        assert_allclose(one.in_variables() @ one.z.value + one.shift.value, result.predict(X), atol=1e-9)
        assert_allclose(one.fitted_values(), result.predict(X), atol=1e-9)


def test_a_component_joins_as_what_it_is(plane):
    """Over all w the component at a point has a representer of its own kernel."""
    X, y = plane
    P = np.random.default_rng(5).normal(size=(3, 2))
    kernel = Componentwise([RBF(1.0), RBF(0.7)])
    s = Substrate(kernel, X, y)
    floor = s.component(0, P) >= 1.0
    result = Machine(s, minimize=ridge(s), subject_to=[floor]).solve()
    assert result.certificate.holds, str(result.certificate)
    assert "3 points of components" in fact(result)
    assert result.further[0].part == 0
    assert_allclose(result.component(0, P), floor.args[1].value, atol=1e-12)
    total = result.component(0, X) + result.component(1, X) + result.b
    assert_allclose(total, result.predict(X), atol=1e-10)

    k0, k1 = RBF(1.0).on(0), RBF(0.7).on(1)
    K0 = k0(np.vstack([X, P]))  # both components, each on the points where it is mentioned
    values, vectors = np.linalg.eigh(K0)
    F0 = vectors * np.sqrt(np.maximum(values, 0.0))
    values, vectors = np.linalg.eigh(k1(X))
    F1 = vectors * np.sqrt(np.maximum(values, 0.0))
    u, v, b = cp.Variable(17), cp.Variable(14), cp.Variable()
    e = y - F0[:14] @ u - F1 @ v - b
    objective = 0.5 * (cp.sum_squares(u) + cp.sum_squares(v)) + 5.0 * cp.sum_squares(e)
    raw = cp.Problem(cp.Minimize(objective), [F0[14:] @ u >= 1.0])
    raw.solve(solver="CLARABEL", tol_gap_rel=1e-11, tol_gap_abs=1e-11)
    assert_allclose(result.objective, raw.value, rtol=1e-7)


def test_components_at_the_training_rows_join_beside_other_points(plane):
    X, y = plane
    s = Substrate(Componentwise(RBF(1.5)), X, y)
    mixed = s.component(0, np.vstack([X[:2], X[:2] + 0.1]))
    for terms, count in ((cp.sum(s.maximal_variation), 2 * 14), (cp.norm1(mixed), 4)):
        result = Machine(s, minimize=ridge(s) + terms, subject_to=[s.f(X + 0.1) <= 2.0]).solve()
        assert f"14 further points, {count} points of components: the optimum over all w" in fact(result)
        assert result.certificate.holds, str(result.certificate)
    assert_allclose(mixed.value, result.component(0, np.vstack([X[:2], X[:2] + 0.1])), atol=1e-9)
    assert not fact(Machine(s, minimize=ridge(s)).solve())


def test_a_bias_that_is_mentioned_is_not_free_to_make_up_for_anything(half):
    """Stationarity in b has a term of its own then, and the coefficients do not sum to zero."""
    X, y = half
    s = Substrate(RBF(1.0), X, y + 2.0)
    result = Machine(s, minimize=ridge(s) + 5.0 * cp.square(s.b)).solve()
    K = RBF(1.0)(X) + 0.1  # a penalty 5 b^2 = (10/2) b^2 is a kernel of constants 1/10
    a = np.linalg.solve(K + 0.1 * np.eye(12), y + 2.0)
    assert_allclose(result.f, K @ a, atol=1e-6)
    assert_allclose(result.b, 0.1 * a.sum(), atol=1e-6)
    assert abs(result.alpha.sum()) > 0.1
    assert "need not sum to zero" in fact(result)
    assert "1'alpha = 0" not in [row.name for row in result.certificate.rows]
    assert result.certificate.holds, str(result.certificate)


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        (lambda s: cp.sum_squares(s.e), "does not penalise w"),
        (lambda s: ridge(s) + cp.norm1(s.alpha), "mentions alpha, one per row"),
    ],
)
def test_where_the_span_is_the_training_rows_it_is_said(half, terms, why):
    X, y = half
    s = Substrate(RBF(1.0), X, y)
    result = Machine(s, minimize=terms(s), subject_to=[s.f(-X[:3]) <= 1.0]).solve()
    assert fact(result).startswith("the training rows: ")
    assert why in fact(result)
    assert result.further == ()


def test_a_precomputed_matrix_stays_with_its_rows(half):
    X, y = half
    K, below = RBF(1.0)(X), RBF(1.0)(-X[:3], X)
    s = Substrate(Precomputed(), K, y)
    result = Machine(s, minimize=ridge(s), subject_to=[s.f(below) <= 0.5]).solve()
    assert "no kernel values between other points" in fact(result)


def test_sparse_and_dense_points_join_alike(plane):
    X, y = plane
    P, Q = X[:3] + 0.3, X[3:5] - 0.2
    costs = []
    for make in (np.asarray, csr_array):
        s = Substrate(RBF(1.5), make(X), y)
        rules = [s.f(make(P)) <= 1.0, s.f(Q) >= 0.2]
        result = Machine(s, minimize=ridge(s), subject_to=rules).solve()
        costs.append([result.objective, *result.predict(P), *result.further[0].coefficients])
    assert_allclose(costs[1], costs[0], rtol=1e-6, atol=1e-7)


def test_an_indefinite_kernel_is_refused_where_the_points_show_it(half):
    X, y = half

    def odd(A, B):
        return np.where((A < 0.0) & (B.T < 0.0), -1.0, 1.0) * (A @ B.T)

    s = Substrate(odd, X, y)
    with pytest.raises(DeclarationError, match="smallest eigenvalue"):
        Machine(s, minimize=ridge(s), subject_to=[s.f(-X) <= 1.0])


def test_fewer_features_than_points_are_enough(half):
    X, y = half
    s = Substrate(Linear(), X, y)
    result = Machine(s, minimize=ridge(s), subject_to=[s.f([[0.0]]) == 1.0]).solve()
    assert_allclose(result.predict([[0.0]]), 1.0, atol=1e-8)
    slope = (X[:, 0] @ (y - 1.0)) / (X[:, 0] @ X[:, 0] + 0.1)
    assert_allclose(result.predict([[1.0]]), 1.0 + slope, atol=1e-7)


def test_an_offset_of_the_inputs_is_not_taken_for_an_indefinite_kernel():
    """What centring leaves of large numbers has the rounding of these."""
    rng = np.random.default_rng(28)
    X = 1e3 * (rng.normal(size=(14, 2)) + 1e6)
    s = Substrate(Linear(), X, rng.normal(size=14))
    machine = Machine(s, minimize=ridge(s), subject_to=[s.f(X[:6] + 500.0) <= 1.0])
    assert machine._compiled[0].frame.size <= 2


def test_a_fusion_validates_what_the_whole_expansion_predicts(plane):
    X, y = plane
    new = np.random.default_rng(8).normal(size=(9, 2))
    s = Substrate(RBF(1.5), X, y)
    rho = cp.Parameter(nonneg=True, name="rho")
    rules = [s.f(new[:3] + 1.0) <= 1.0, s.gradient(new[3:5], 0) >= 0.0]
    machine = Machine(s, minimize=ridge(s, 1.0) + rho * cp.norm1(s.e), subject_to=rules)
    fused = fuse(machine, over=rho, validation=(new, np.sin(new[:, 0]) + new[:, 1] ** 2))
    orders = {further.operator and further.operator.terms[0].orders for further in fused.result.further}
    assert orders == {None, ((0, 1),)}
