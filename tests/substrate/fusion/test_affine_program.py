"""The program of several parameters: its terms, its knots, and the parts that make knots exact."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from substrate.fusion.affine_terms import AffineTerms
from substrate.fusion.bound_variables import BoundVariables
from tests.oracles.joint_machines import MACHINES, lines, ridge_line, rows, store_of


def program_of(name, n=8):
    build, box = MACHINES[name]
    X, y, *held = rows(n=n)
    machine, parameters = build(X, y)
    return store_of(machine, parameters, box, held).folds[0], machine, parameters, box


@pytest.mark.parametrize("name", MACHINES)
def test_the_terms_are_those_that_cvxpy_passes_to_a_solver(name):
    _, machine, parameters, _ = program_of(name)
    problem = cp.Problem(machine.problem.objective, machine.problem.constraints)
    terms = AffineTerms.of(problem, parameters)
    for value, parameter in zip((0.3, 2.1), parameters, strict=True):
        parameter.value = value
    data, _, _ = problem.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": True})
    tau = 2.1 if terms.ridge >= 0 else 0.0
    assert_allclose((terms.P0 + tau * terms.P1).toarray(), data["P"].toarray(), atol=1e-14)
    assert_allclose(terms.q0 + np.array([0.3, 2.1]) @ terms.q, data["c"], atol=1e-14)
    assert terms.ridge == (-1 if name == "two groups" else 1)


@pytest.mark.parametrize("name", MACHINES)
def test_knots_are_feasible_stationary_and_complementary(name):
    """Also on the border of the box, where weights are zero."""
    fold, _, _, box = program_of(name)
    program = fold.program
    for theta in ((1.0, 1.0), (box[0][0], box[1][1]), (box[0][1], box[1][0]), (box[0][0], box[1][0])):
        knot = program.solve(theta)
        m = program.b.size
        mu = knot.dual[m:]
        assert knot.gap <= 1e-9
        assert (mu >= 0.0).all()
        assert (program.h - program.G @ knot.x >= -1e-15).all()
        P = program.quadratic(program.tau(theta))
        r = P @ knot.x + program.linear(theta) + program.A.T @ knot.dual[:m] + program.G.T @ mu
        assert_allclose(r, 0.0, atol=2e-9)  # at a weight of zero the knot is that of a weight of 1e-9
        assert mu @ knot.slack <= knot.gap


def test_knots_are_known_by_hand():
    machine, parameters = lines(target=2.0)
    fold = store_of(machine, parameters, ((0.0, 9.0),) * 2, (2.0 * np.eye(2), np.zeros(2))).folds[0]
    for theta in ((0.0, 0.0), (1.0, 0.5), (5.0, 0.0), (9.0, 3.0)):
        assert_allclose(-fold.errors(fold.program.solve(theta)), np.maximum(4.0 - np.array(theta), 0.0), atol=1e-6)
    machine, parameters = ridge_line()
    fold = store_of(machine, parameters, ((0.0, 4.0), (0.1, 9.0)), (np.ones((1, 1)), np.zeros(1))).folds[0]
    for rho, tau in ((0.0, 0.1), (1.0, 3.0), (4.0, 9.0)):
        assert_allclose(-fold.errors(fold.program.solve((rho, tau))), max(2.0 - rho, 0.0) / (2.0 + tau), atol=1e-7)


def test_bounds_such_as_a_maximum_are_found_lowered_and_balanced():
    fold, *_ = program_of("two groups")
    program, bounds = fold.program, fold.program.bounds
    assert bounds.columns.size == 3  # one per component
    x = np.random.default_rng(0).normal(size=program.q0.size)
    low = bounds.lower(x)
    slack = (program.h - program.G @ low)[bounds.rows]
    assert_allclose(np.minimum.reduceat(slack, bounds.starts), 0.0, atol=1e-14)
    assert (np.delete(low, bounds.columns) == np.delete(x, bounds.columns)).all()
    dual = np.random.default_rng(1).random(program.b.size + program.h.size)
    q = program.linear((2.0, 0.0))
    balanced = bounds.balance(q, dual, program.b.size, slack)
    r = q + program.G.T @ balanced[program.b.size :]
    assert_allclose(r[bounds.columns], 0.0, atol=1e-15)
    empty = bounds.balance(q, np.zeros_like(dual), program.b.size, program.h - program.G @ low)
    assert_allclose((q + program.G.T @ empty[program.b.size :])[bounds.columns], 0.0, atol=1e-15)


def test_a_variable_with_a_row_of_another_kind_is_no_bound():
    """A limit on the variable itself: it can be neither lowered nor balanced by its own rows alone."""
    A, h, nothing = sp.csr_array((0, 2)), np.zeros(3), np.zeros(2)
    weighed = np.array([[0.0, 1.0]])
    bounds = sp.csr_array(np.array([[1.0, -1.0], [-1.0, -1.0], [1.0, 0.0]]))
    assert BoundVariables.of(A, bounds, h, nothing, nothing, weighed).columns.tolist() == [1]
    for row in ([0.0, 1.0], [1.0, 1.0]):
        limited = sp.csr_array(np.vstack([bounds.toarray(), row]))
        assert not BoundVariables.of(A, limited, np.zeros(4), nothing, nothing, weighed).columns.size
    assert not BoundVariables.of(A, bounds, h, np.array([0.0, 1.0]), nothing, weighed).columns.size
    assert not BoundVariables.of(sp.csr_array([[0.0, 1.0]]), bounds, h, nothing, nothing, weighed).columns.size


@pytest.mark.parametrize("name", ["two groups", "variation and ridge"])
def test_sigma_bounds_every_direction_and_is_reached(name):
    """u'M d <= sigma_u |d|_P for all d that keep the equalities, with equality for one of them."""
    fold, _, _, box = program_of(name)
    program = fold.program
    rng = np.random.default_rng(0)
    _, _, basis = np.linalg.svd(program.A.toarray())
    free = basis[program.A.shape[0] :].T  # A d = 0
    determined = free[:, np.abs(fold.M @ free).sum(axis=0) > 1e-12]
    tau = 0.3 * box[1][1] if program.ridge >= 0 else 0.0
    P = program.quadratic(tau).toarray()
    for _ in range(5):
        u = rng.normal(size=fold.M.shape[0])
        sigma, _ = fold.reach.along(u, tau)
        D = determined @ rng.normal(size=(determined.shape[1], 200))
        lengths = np.sqrt(np.einsum("ik,ij,jk->k", D, P, D))
        assert (u @ fold.M @ D <= sigma * lengths * (1.0 + 1e-9)).all()
        inner = free.T @ P @ free
        best = free @ np.linalg.pinv(inner, rcond=1e-12) @ (free.T @ fold.M.T @ u)
        assert_allclose(u @ fold.M @ best, sigma * np.sqrt(best @ P @ best), rtol=2e-2)
