"""Confined fusion: declared = closed form = the problem written down; what columns can and cannot do; the estimator."""

import warnings

import cvxpy as cp
import flint
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from problems import ConfinedFusionRegressor, confined_fusion, fused_least_squares, load, ls_svm_substrate
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import RBF, Laplacian, Linear, Polynomial
from substrate.least_squares.confined_constants import ConfinedSystem, KernelRadii
from tests.oracles import exact_reduced_basis as balls

TASKS = ("regression", "classification")


def case(task="regression", n=12, n_val=15, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, 2)), rng.uniform(-2.0, 2.0, size=(n_val, 2))
    y, v = (np.sin(P[:, 0]) + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    if task == "classification":
        y, v = (np.where(t > np.median(t), 1.0, -1.0) for t in (y, v))
    Z = np.column_stack([X[:, 0] > 0.0, X[:, 0] <= 0.0, np.abs(X[:, 1])]).astype(float)
    return (RBF(1.0)(X), y, RBF(1.0)(V, X), v), Z


def written_down(K, y, K_val, y_val, Z, task):
    """(20)-(21) with c = Z u and all their variables."""
    n, m = y.size, y_val.size
    alpha, b, u, e, e_val = cp.Variable(n), cp.Variable(), cp.Variable(Z.shape[1]), cp.Variable(n), cp.Variable(m)
    signs, signs_val = (y, y_val) if task == "classification" else (np.ones(n), np.ones(m))
    f, f_val = K @ cp.multiply(signs, alpha) + b, K_val @ cp.multiply(signs, alpha) + b
    constraints = [
        cp.multiply(signs, y - f) == e,
        cp.multiply(signs_val, y_val - f_val) == e_val,
        signs @ alpha == 0,
        e == alpha + Z @ u,
    ]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(e) + cp.sum_squares(e_val)), constraints)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return {"errors": e.value, "validation_errors": e_val.value, "support_values": alpha.value, "bias": b.value}


@pytest.mark.parametrize("task", TASKS)
def test_declared_closed_form_and_the_problem_written_down_agree(task):
    """:place [Pelckmans2005]_ section 4.2, "confining the space of possible c values": constants of few columns"""
    given, Z = case(task)
    closed = confined_fusion.closed_form(*given, Z, task)
    declared = confined_fusion.declare(*given, Z, task).solve("CLARABEL")
    assert declared.certificate().holds
    expected = written_down(*given, Z, task)
    for name, value in closed.items():
        assert_allclose(value, expected[name], atol=1e-6, err_msg=name)
        assert_allclose(declared.solution()[name], value, atol=1e-5, err_msg=name)


def test_the_closed_form_is_least_squares_over_the_substrates_of_all_u():
    """:place [Pelckmans2005]_ section 4.2, "confining the space of possible c values": the projection"""
    (K, y, K_val, y_val), Z = case()

    def errors(u):
        solved = ls_svm_substrate.closed_form(K, y, Z @ u)
        return np.append(solved["errors"], y_val - K_val @ solved["support_values"] - solved["bias"])

    solved = ConfinedSystem.of(Gram.from_matrix(K), y, K_val, y_val, Z).solve()
    assert_allclose(errors(solved.levels), solved.errors, atol=1e-12)
    assert_allclose(solved.constants, Z @ solved.levels)
    start = errors(np.zeros(3))
    M = np.column_stack([errors(column) - start for column in np.eye(3)])
    assert_allclose(solved.levels, -np.linalg.lstsq(M, start, rcond=None)[0], atol=1e-10)
    assert solved.errors @ solved.errors <= start @ start


def test_a_constant_column_moves_the_bias_alone():
    given, _ = case()
    plain = ls_svm_substrate.closed_form(given[0], given[1], 0.0)
    solved = confined_fusion.closed_form(*given, np.full(12, 7.0))
    assert_allclose(solved["support_values"], plain["support_values"], atol=1e-12)
    both = np.append(solved["errors"], solved["validation_errors"])
    assert_allclose(both.mean(), 0.0, atol=1e-12)


def test_as_many_columns_as_rows_confine_nothing():
    given, _ = case()
    free = fused_least_squares.closed_form(*given)
    solved = confined_fusion.closed_form(*given, np.eye(12))
    assert_allclose(solved["validation_errors"], free["validation_errors"], atol=1e-7)


@pytest.mark.parametrize("factors", [(1e9, 1.0, 1e-9), (1e200, 1e-200, 1.0)])
def test_units_and_copies_of_columns_change_nothing(factors):
    given, Z = case()
    expected = confined_fusion.closed_form(*given, Z)
    again = confined_fusion.closed_form(*given, np.column_stack([Z * factors, Z[:, 0], np.zeros(12)]))
    for name, value in expected.items():
        assert_allclose(again[name], value, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(("unit", "offset"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e8)])
def test_units_and_offsets_of_y(unit, offset):
    (K, y, K_val, y_val), Z = case()
    expected = confined_fusion.closed_form(K, y, K_val, y_val, Z)
    found = confined_fusion.closed_form(K, unit * y + offset, K_val, unit * y_val + offset, Z)
    assert_allclose(found["errors"] / unit, expected["errors"], atol=1e-6 if offset else 1e-9)


def test_the_bound_of_the_page_is_above_the_distance():
    (K, y, K_val, y_val), Z = case()
    system = ConfinedSystem.of(Gram.from_matrix(K), y, K_val, y_val, Z)
    exact, size = system.solve().errors, float(np.linalg.norm(np.append(y, y_val)))
    rng = np.random.default_rng(1)
    assert system.radius(exact) < 1e-9
    for scale in (1e-6, 1e-2, 1.0):
        off = scale * rng.normal(size=exact.size)
        assert np.linalg.norm(off) <= system.radius(exact + off) <= 2.0 * np.linalg.norm(off) + 1e-9
    worse = system.rows(exact + 1e-3 * system.directions[:, 0], size, 1e-9)
    assert [row.passes for row in worse] == [True, False]
    beside = system.rows(exact + 1e-3 * np.eye(exact.size)[0], size, 1e-9)
    assert not beside[0].passes


def test_radii_of_kernel_values_widen_the_bound():
    (K, y, K_val, y_val), Z = case()
    gram = Gram.from_matrix(K)
    errors = ConfinedSystem.of(gram, y, K_val, y_val, Z).solve().errors
    rng = np.random.default_rng(3)
    for size in (1e-9, 1e-6, 1e-4):
        noise = rng.normal(size=K.shape)
        noise, noise_val = noise + noise.T, rng.normal(size=K_val.shape)
        scales = size / np.linalg.norm(noise), size / np.linalg.norm(noise_val)
        other = Gram.from_matrix(K + scales[0] * noise)
        truth = ConfinedSystem.of(other, y, K_val + scales[1] * noise_val, y_val, Z).solve().errors
        system = ConfinedSystem.of(gram, y, K_val, y_val, Z, radii=KernelRadii(size, size, size))
        distance = np.linalg.norm(errors - truth)
        assert 1e-3 * size < distance <= system.radius(errors) <= 1e5 * size
    assert ConfinedSystem.of(gram, y, K_val, y_val, Z, radii=KernelRadii(negative=1.0)).radius(errors) == np.inf
    assert ConfinedSystem.of(gram, y, K_val, y_val, Z, radii=KernelRadii(1.0, 1.0)).radius(errors) == np.inf


@pytest.mark.parametrize(
    ("Z", "match"),
    [(np.ones(11), "one row per training row"), (np.ones((12, 0)), "empty"), (np.full(12, np.nan), "Z")],
)
def test_columns_that_do_not_fit_are_refused(Z, match):
    given, _ = case()
    with pytest.raises(DataError, match=match):
        confined_fusion.closed_form(*given, Z)


# ---- the estimator -------------------------------------------------------------------------------------


def rows(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + (0.1 + (X[:, 0] > 0.0)) * rng.normal(size=n)


def test_groups_and_profiles_are_columns(tmp_path):
    X, y = rows()
    groups = np.where(X[:, 0] > 0.0, "noisy", "calm")
    model = ConfinedFusionRegressor(RBF(1.0)).fit(X[:14], y[:14], X[14:], y[14:], groups[:14], np.abs(X[:14, 1]))
    Z = np.column_stack([groups[:14] == "calm", groups[:14] == "noisy", np.abs(X[:14, 1])]).astype(float)
    assert_array_equal(model.columns_, Z)
    closed = confined_fusion.closed_form(RBF(1.0)(X[:14]), y[:14], RBF(1.0)(X[14:], X[:14]), y[14:], Z)
    assert_allclose(model.support_values_, closed["support_values"], atol=1e-10)
    assert_allclose(model.constants_, Z @ model.levels_)
    assert_allclose(model.criterion_, np.mean(closed["validation_errors"] ** 2))
    assert model.certificate_.holds
    assert model.certify(X[:14], y[:14], None, X[14:], y[14:]).holds
    model.save(tmp_path / "m.npz")
    loaded = load(tmp_path / "m.npz")
    assert_array_equal(loaded.predict(X), model.predict(X))
    loaded.support_values_ = loaded.support_values_ + 1e-3
    assert not loaded.certify(X[:14], y[:14], None, X[14:], y[14:]).holds


def exact_fitted(kernel, X, y, V, v, Z):
    """The fitted values of both sets at the optimum, by normal equations in balls of 500 bits."""
    before, flint.ctx.prec = flint.ctx.prec, 500
    try:
        return _in_balls(kernel, X, y, V, v, Z)
    finally:
        flint.ctx.prec = before


def _in_balls(kernel, X, y, V, v, Z):
    def ball_rows(numbers):
        return [[flint.arb(float(number)) for number in row] for row in numbers]

    n, q = Z.shape
    X, V, Z, zero, one = ball_rows(X), ball_rows(V), ball_rows(Z), flint.arb(0), flint.arb(1)
    y, v = ([flint.arb(float(number)) for number in targets] for targets in (y, v))
    K = [[kernel(x, z) + (1 if i == j else 0) for j, z in enumerate(X)] for i, x in enumerate(X)]
    system = flint.arb_mat([*([*row, one] for row in K), [one] * n + [zero]])
    sides = flint.arb_mat([*([target, *columns] for target, columns in zip(y, Z, strict=True)), [zero] * (q + 1)])
    solved = system.solve(sides)
    below = flint.arb_mat([[*(kernel(x, z) for z in X), one] for x in V]) * solved
    start = [solved[i, 0] for i in range(n)] + [v[i] - below[i, 0] for i in range(len(v))]
    M = flint.arb_mat(
        [[Z[i][j] - solved[i, j + 1] for j in range(q)] for i in range(n)]
        + [[below[i, j + 1] for j in range(q)] for i in range(len(v))]
    )
    right = flint.arb_mat([[number] for number in start])
    errors = right - M * (M.transpose() * M).solve(M.transpose() * right)
    return [target - errors[i, 0] for i, target in enumerate([*y, *v])]


@pytest.mark.parametrize(("unit", "offset"), [(1.0, 0.0), (1e9, 0.0), (1e-9, 0.0), (1.0, 1e8)])
@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (RBF(1.0), balls.rbf(1)),
        (1e4 * Laplacian(1.0), lambda x, z: 10000 * balls.laplacian(1)(x, z)),
        (Polynomial(3, 1.0), balls.polynomial(3, 1)),
    ],
)
def test_the_certificate_bounds_the_distance_from_the_exact_optimum(kernel, formula, unit, offset):
    X, y = rows(16)
    X[9] = X[2]  # a row twice
    y, groups = unit * y + offset, X[:, 0] > 0.0
    model = ConfinedFusionRegressor(kernel).fit(X[:9], y[:9], X[9:], y[9:], groups[:9], np.abs(X[:9, 1]))
    exact = exact_fitted(formula, X[:9], y[:9], X[9:], y[9:], model.columns_)
    off = [float(flint.arb(float(f)) - e) for f, e in zip(model.predict(X), exact, strict=True)]
    distance = float(np.sqrt(np.mean(np.square(off))))
    for certificate in (model.certificate_, model.certify(X[:9], y[:9], None, X[9:], y[9:])):
        assert certificate.holds
        assert 0.0 < distance <= certificate.accuracy
    assert "of the exact optimum" in str(model.certificate_)
    model.support_values_ = model.support_values_ + 1e-3 * unit
    moved = model.certify(X[:9], y[:9], None, X[9:], y[9:])
    assert not moved["accuracy"].passes


@pytest.mark.parametrize("far", [0.0, 100.0, 1e4, 1e6])
def test_a_linear_kernel_far_from_the_origin_loses_the_digits_of_its_values_alone(far):
    X, y = rows(20)
    X, groups = X + far, X[:, 0] > 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ConfinedFusionRegressor(Linear(), random_state=0).fit(X, y, groups=groups, profiles=np.abs(y))
    proof, train = model.prove(X, y), model.support_
    assert 0.0 < proof.accuracy <= model.certificate_.accuracy
    assert far > 1e4 or model.certificate_.accuracy <= 3e-11 * (1.0 + far**2)
    assert model.certificate_.holds == (far <= 100.0)
    # the bias absorbs what a shift of the points adds to the kernel values
    held_out = np.setdiff1d(np.arange(20), train)
    K = Linear()(X - far)
    expected = confined_fusion.closed_form(
        K[np.ix_(train, train)], y[train], K[np.ix_(held_out, train)], y[held_out], model.columns_
    )
    off = y[held_out] - expected["validation_errors"] - model.predict(X[held_out])
    assert np.abs(off).max() <= 1e-13 * (1.0 + far) ** 2


@pytest.mark.parametrize("shift", [0.0, 1.0, 1e3, 1e6])
def test_what_a_constant_adds_to_the_features_moves_the_bias_alone(shift):
    """K + m 1' + 1 m' has the answer of K: the bound knows of it, whatever its size."""
    (K, y, K_val, y_val), Z = case()
    rng = np.random.default_rng(2)
    m, m_val = shift * rng.normal(size=12), shift * rng.normal(size=15)
    gram = Gram.from_matrix(K + m[:, None] + m)
    system = ConfinedSystem.of(gram, y, K_val + m_val[:, None] + m, y_val, Z)
    expected = ConfinedSystem.of(Gram.from_matrix(K), y, K_val, y_val, Z).solve()
    solved = system.solve()
    lost = 1e-13 * (1.0 + shift)
    assert_allclose(solved.errors, expected.errors, atol=lost)
    assert_allclose(solved.support_values, expected.support_values, atol=lost)
    f = (K_val + m_val[:, None] + m) @ solved.support_values + solved.bias
    assert_allclose(f, y_val - expected.errors[12:], atol=10.0 * lost)
    distance = float(np.linalg.norm(solved.errors - expected.errors))
    assert distance <= system.radius(solved.errors) <= 1e3 * lost


def test_columns_that_depend_on_each_other_bound_the_kept_directions():
    X, y = rows()
    groups = X[:, 0] > 0.0
    model = ConfinedFusionRegressor(RBF(1.0), random_state=0).fit(X, y, groups=groups, profiles=groups)
    assert model.certificate_.holds
    assert "of the machine with its cutoff" in str(model.certificate_)
    assert "depend on each other" in model.prove(X, y).reason


def test_what_double_precision_cannot_bound_does_not_hold():
    X, y = rows()
    with pytest.warns(UserWarning, match="does not hold"):
        model = ConfinedFusionRegressor(1e12 * RBF(1.0), random_state=0).fit(X, y, groups=X[:, 0] > 0.0)
    assert not model.certificate_["accuracy"].passes
    assert "rounding" in dict(model.certificate_.record)
    assert not model.certify(X, y).holds


@pytest.mark.parametrize("is_matrix", [False, True])
def test_a_proof_bounds_what_predict_returns(is_matrix):
    X, y = rows(18)
    given, kernel = (RBF(1.0)(X), "precomputed") if is_matrix else (X, RBF(1.0))
    model = ConfinedFusionRegressor(kernel, random_state=0).fit(given, y, groups=X[:, 0] > 0.0)
    proof = model.prove(given, y)
    assert proof.proved
    assert proof.accuracy <= model.certificate_.accuracy
    model.bias_ = model.bias_ + 1e-3
    moved = model.prove(given, y)
    assert not moved.proved
    assert_allclose(moved.accuracy, 1e-3, rtol=1e-6)


def test_an_indefinite_matrix_has_no_bound():
    X, y = rows()
    K = RBF(1.0)(X)
    K[0, 1] = K[1, 0] = 3.0
    with pytest.warns(UserWarning, match="positive semi-definite"):
        model = ConfinedFusionRegressor("precomputed", random_state=0).fit(K, y, groups=X[:, 0] > 0.0)
    assert model.certificate_.accuracy == np.inf
    assert "positive semi-definite" in model.certificate_.promise
    with pytest.warns(UserWarning, match="positive semi-definite"):
        assert "positive semi-definite" in model.prove(K, y).reason


def test_groups_follow_the_rows_that_train():
    X, y = rows()
    groups = np.arange(30) // 10
    model = ConfinedFusionRegressor(RBF(1.0), random_state=0).fit(X, y, groups=groups)
    present = np.unique(groups[model.support_])
    assert_array_equal(model.columns_, groups[model.support_][:, None] == present)
    assert model.certify(X, y).holds


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"groups": [1, 2]}, "one label per row"),
        ({"groups": np.full(30, np.nan)}, "NaN"),
        ({"groups": np.array([None, "a"] * 15, dtype=object)}, "one kind"),
        ({"profiles": np.ones(29)}, "one row per row of X"),
        ({"profiles": np.full((30, 1), np.inf)}, "profiles"),
    ],
)
def test_rows_without_a_group_are_refused(given, match):
    with pytest.raises(DataError, match=match):
        ConfinedFusionRegressor(RBF(1.0)).fit(*rows(), **given)


def test_a_cutoff_has_to_be_positive():
    with pytest.raises(DeclarationError, match="cutoff"):
        ConfinedFusionRegressor(RBF(1.0), cutoff=0.0).fit(*rows())
