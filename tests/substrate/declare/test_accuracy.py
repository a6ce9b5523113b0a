"""What a machine promises of its answer: never less than the true error, near to it, and first on its certificate."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from small_machines import KINDS, exact_fitted_values, small_machine, true_error

from substrate import Machine, Substrate
from substrate.certificate import Accuracy
from substrate.errors import SolverError
from substrate.fits.l1 import solve_l1
from substrate.kernels import RBF, Linear

#: Maximal variation without w'w leaves directions of the kernel out, which nothing counts.
BOUNDED = tuple(kind for kind in KINDS if kind != "variation")
SOLVERS = ("CLARABEL", "OSQP", "SCS", "PIQP", "ECOS", "HIGHS")


def data(n=12, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=n)


def errors_of(machine, result, exact):
    """The true error of each substrate, in the norm of its row."""
    answer, known = result.certificate.answer, machine.conic.optimal_value().bounds
    assert len(known) == len(exact)
    about_mean = "about their mean" in answer.about
    return [
        true_error(expansion.f, f, one.weights, about_mean)
        for expansion, f, one in zip(result.expansions, exact, known, strict=True)
    ]


def scanned(seeds):
    """Random machines, each with one solver: how many had a bound, and how many an exact optimum to compare with."""
    pytest.importorskip("flint", reason="the exact optimum is found in rational arithmetic")
    bounded = compared = 0
    for seed in seeds:
        machine = small_machine(np.random.default_rng(seed), BOUNDED[seed % len(BOUNDED)])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = machine.solve(SOLVERS[seed % 4])
        assert {warning.category for warning in caught} <= {ConvergenceWarning}, seed
        assert result.certificate.holds == (not caught), (seed, str(result.certificate))
        bounded += result.certificate.answer is not None
        exact = exact_fitted_values(machine)
        if exact is None or result.certificate.answer is None:
            continue
        compared += 1
        errors = errors_of(machine, result, exact)
        assert max(errors) <= result.certificate.accuracy, (seed, errors, str(result.certificate))
    return bounded, compared


def test_no_error_of_a_random_machine_is_above_its_bound():
    bounded, compared = scanned(range(16))
    assert bounded >= 0.85 * 16
    assert compared >= 0.6 * 16


@pytest.mark.parametrize("kind", BOUNDED)
def test_the_bound_is_small_where_the_answer_is_right(kind):
    machine = small_machine(np.random.default_rng(7), kind, wild=False)
    certificate = machine.solve("CLARABEL").certificate
    assert isinstance(certificate.rows[0], Accuracy)
    assert certificate.holds, str(certificate)
    assert certificate.accuracy <= 2e-4 * certificate.spread
    assert str(certificate).splitlines()[0].startswith("Machine: holds; fitted values")


@pytest.mark.parametrize("kind", BOUNDED)
def test_a_point_that_was_moved_is_known_to_be_off_by_as_much(kind):
    """The bound of a moved point is its true distance, hardly more; by more than is tolerated, and it fails."""
    machine = small_machine(np.random.default_rng(11), kind, wild=False)
    before = machine.solve("CLARABEL").certificate
    rng = np.random.default_rng(0)
    one = machine.conic.compiled[0]
    f, kept = one.fitted_values(), np.array(one.z.value)
    for size in (1e-5, 3e-3, 1.0):
        one.z.save_value(kept + size * rng.normal(size=kept.size))
        moved = one.fitted_values() - f
        about_mean = before.answer.about.endswith("about their mean")
        weights = machine.conic.optimal_value().bounds[0].weights
        distance = true_error(moved, 0.0 * moved, weights, about_mean)
        answer, _ = machine.conic.check.row(machine.conic.witness)
        assert distance - before.accuracy <= answer.value <= 1.1 * distance + before.accuracy
        assert answer.passes == (answer.value <= 1e-3 * answer.spread)
    assert not answer.passes
    one.z.save_value(kept)
    answer, _ = machine.conic.check.row(machine.conic.witness)
    assert answer.value == before.accuracy


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_is_measured_against_the_active_set(solver):
    if solver not in cp.installed_solvers():
        pytest.skip(f"{solver} is not installed")
    X, y = data()
    s = Substrate(RBF(1.0), X, y)
    result = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 0.3 * cp.norm1(s.alpha)).solve(solver)
    exact = solve_l1(RBF(1.0)(X), y, 0.3)
    error = np.sqrt(np.mean((result.f - RBF(1.0)(X) @ exact.coefficients - exact.bias) ** 2))
    assert error <= result.certificate.accuracy <= 1e-4 * result.certificate.spread


def test_weights_of_the_loss_weigh_the_answer():
    X, y = data()
    weights = np.geomspace(1e-4, 1e4, y.size)
    s = Substrate(Linear(), X, y)
    machine = Machine(s, minimize=cp.sum_squares(cp.multiply(np.sqrt(weights), s.e)))
    certificate = machine.solve().certificate
    assert certificate.holds
    known = machine.conic.optimal_value().bounds[0].weights
    assert_allclose(known / known.sum(), weights / weights.sum(), rtol=1e-9)
    mean = weights @ y / weights.sum()
    assert_allclose(certificate.spread, np.sqrt(weights @ (y - mean) ** 2 / weights.sum()))


def test_cones_that_are_not_quadratic_are_bounded_too():
    """The logistic loss against Newton's method on its own equations."""
    X, y = data(30)
    labels = np.where(y > 0.0, 1.0, -1.0)
    s = Substrate(RBF(1.0), X, labels)
    machine = Machine(s, minimize=0.5 * s.squared_norm + cp.sum(cp.logistic(-cp.multiply(labels, s.f()))))
    by_rows, result = machine.solve(), machine.solve("CLARABEL")
    F = np.hstack([s.gram.coordinates().factor, np.ones((30, 1))])
    ridge, w = np.diag(np.append(np.ones(F.shape[1] - 1), 0.0)), np.zeros(F.shape[1])
    for _ in range(60):
        p = 1.0 / (1.0 + np.exp(labels * (F @ w)))
        slope, curve = ridge @ w - F.T @ (labels * p), ridge + F.T @ ((p * (1.0 - p))[:, None] * F)
        w = w - np.linalg.lstsq(curve, slope, rcond=1e-15)[0]
    assert np.abs(slope).max() <= 1e-12
    error = true_error(result.f, F @ w, np.ones(30), True)
    assert error <= result.certificate.accuracy <= 1e-4 * result.certificate.spread
    assert result.certificate.answer.about == "fitted values about their mean"
    error = true_error(by_rows.f, F @ w, np.ones(30), True)
    assert error <= by_rows.certificate.accuracy <= 1e-8 * result.certificate.spread
    assert by_rows.certificate.answer.about == "fitted values"
    assert "is taken to be within 1000 times" in dict(result.certificate.record)["radius of the check"]


@pytest.mark.parametrize("solver", ["PIQP", "HIGHS"])
def test_bounds_of_variables_that_a_solver_takes_apart_from_the_rows_are_not_believed(solver):
    """A variable of one's own that wants to be negative: their multipliers are not known, and CLARABEL is asked."""
    if solver not in cp.installed_solvers():
        pytest.skip(f"{solver} is not installed")
    X, y = data()
    s, shift = Substrate(RBF(1.0), X, y, bias=False), cp.Variable(name="shift", bounds=[-0.5, None])
    machine = Machine(s, minimize=0.5 * s.squared_norm + cp.sum_squares(s.e - 2.0 - shift))
    with pytest.raises(SolverError, match=f"{solver}: optimal"):
        machine.solve(solver)
    assert machine.solve().certificate.holds
    assert_allclose(shift.value, -0.5, atol=1e-6)


def test_where_nothing_ties_the_values_the_first_line_says_so():
    X, y = data()
    s = Substrate(RBF(1.0), X, y)
    certificate = Machine(s, minimize=cp.norm1(s.e) + 0.1 * cp.norm1(s.alpha)).solve().certificate
    assert certificate.accuracy == np.inf
    assert certificate.holds
    assert (
        str(certificate)
        .splitlines()[0]
        .startswith(
            "Machine: holds; no bound on the answer: the solver was given neither a squared loss in f nor (w'w)/2"
        )
    )


def test_the_worst_substrate_speaks():
    X, y = data()
    near, far = Substrate(RBF(1.0), X, y, name="near"), Substrate(RBF(1.0), X[::-1], 100.0 * y, name="far")
    objective = near.squared_norm + cp.norm1(near.e) + far.squared_norm + cp.norm1(far.e)
    machine = Machine(near, far, minimize=objective)
    machine.solve()
    z = machine.conic.compiled[0].z
    z.save_value(z.value + 1.0)
    answer, _ = machine.conic.check.row(machine.conic.witness)
    assert_allclose(answer.spread, y.std())
    assert not answer.passes
    assert answer.about == "fitted values of near about their mean"


def test_constraints_without_an_inside_leave_no_bound():
    X, y = data()
    s = Substrate(RBF(1.0), X, y)
    pinned = [s.f() <= 1.0, s.f() >= -1.0, s.f()[0] >= 1.0]
    certificate = Machine(s, minimize=s.squared_norm + cp.sum_squares(s.e), subject_to=pinned).solve().certificate
    assert "no bound on the answer: its constraints leave no inside" in str(certificate).splitlines()[0]
    assert certificate.holds, str(certificate)


def test_the_bound_is_left_out_where_it_is_asked_for():
    X, y = data()
    s = Substrate(RBF(1.0), X, y)
    machine = Machine(s, minimize=s.squared_norm + cp.norm_inf(s.e))
    bounded = machine.solve().certificate
    certificate = machine.solve(certify=False).certificate
    assert bounded.answer is not None
    assert certificate.holds
    assert certificate.promise.endswith("no bound on the answer: certify=False leaves it out")
    assert machine.solve().certificate.accuracy == bounded.accuracy


def test_a_point_that_ran_away_leaves_no_bound(monkeypatch):
    X, y = data()
    s = Substrate(RBF(1.0), X, y)
    machine = Machine(s, minimize=s.squared_norm + cp.sum_squares(s.e))
    machine.solve("CLARABEL")
    program, point = machine.conic.witness
    assert "is not finite" in machine.conic.check.optimal_value((program, point._replace(x=np.inf * point.x)))

    def failing(*_):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr("substrate.declare.accuracy._feasible_point", failing)
    promise = machine.solve("CLARABEL").certificate.promise
    assert "the linear algebra of the check failed (SVD did not converge)" in promise
