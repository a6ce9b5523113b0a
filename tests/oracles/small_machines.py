"""Small machines that are quadratic programs, and their exact fitted values in rational arithmetic."""

import cvxpy as cp
import numpy as np
from exact_quadratic_program import exact_optimum, exact_values

from substrate import Machine, Substrate
from substrate.declare.cones import read_cones
from substrate.declare.program import compiled_program
from substrate.kernels import RBF, Componentwise, Linear

KERNELS = (RBF(1.0), RBF(3.0), Linear(), Componentwise(RBF(1.0)))
KINDS = (
    "l1",
    "rising",
    "tube",
    "pinball",
    "non-crossing",
    "variation",
    "weighted",
    "huber with a known mean",
    "groups",
)


def pinball(e, level):
    return cp.sum(cp.maximum(level * e, (level - 1.0) * e))


def small_machine(rng, kind=None, wild=True):
    """Return a machine of five to ten rows, in any unit and with any offset where ``wild``."""
    n, d = int(rng.integers(5, 11)), int(rng.integers(1, 3))
    X = rng.normal(size=(n, d))
    unit = 10.0 ** rng.uniform(-3.0, 3.0) if wild and rng.random() < 0.3 else 1.0
    offset = 10.0 ** rng.uniform(0.0, 6.0) if wild and rng.random() < 0.2 else 0.0
    y = unit * (np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=n) + offset)
    kernel, weight = KERNELS[rng.integers(len(KERNELS))], 10.0 ** rng.uniform(-2.0, 1.0)
    kind = KINDS[rng.integers(len(KINDS))] if kind is None else kind
    s, rules = Substrate(kernel, X, y), []
    norm, squares = 0.5 * weight * s.squared_norm, 0.5 * cp.sum_squares(s.e)
    if kind == "l1":
        objective = squares + weight * unit * cp.norm1(s.alpha)
    elif kind == "rising":
        objective, rules = norm + squares, [s.f(X[:3] - 0.5) <= s.f(X[:3] + 0.5)]
    elif kind == "tube":
        objective = norm + unit * cp.sum(cp.pos(cp.abs(s.e) - 0.1 * unit))
    elif kind == "pinball":
        objective = norm + unit * pinball(s.e, 0.8)
    elif kind == "non-crossing":
        high = Substrate(kernel, X, y)
        norms = norm + 0.5 * weight * high.squared_norm
        losses = unit * (pinball(s.e, 0.2) + pinball(high.e, 0.8))
        rules = [s.f() <= high.f()]
        return Machine(s, high, minimize=norms + losses, subject_to=rules, predict={"low": s, "high": high})
    elif kind == "variation":
        objective = squares + weight * unit * cp.sum(s.maximal_variation)
    elif kind == "weighted":
        weights = 10.0 ** rng.uniform(-2.0, 2.0, size=n)
        objective = norm + 0.5 * cp.sum(cp.multiply(weights, cp.square(s.e)))
    elif kind == "huber with a known mean":
        objective, rules = norm + cp.sum(cp.huber(s.e, 0.1 * unit)), [cp.sum(s.f()) == y.sum()]
    else:
        low = X[:, 0] < np.median(X[:, 0])
        between = cp.sum(s.f()[low]) / low.sum() - cp.sum(s.f()[~low]) / (~low).sum()
        objective, rules = norm + 10.0 * squares, [cp.abs(between) <= 0.1 * unit]
    return Machine(s, minimize=objective, subject_to=rules)


def exact_fitted_values(machine):
    """Return the fitted values of each substrate at the exact optimum; None where rational arithmetic does not
    find it.
    """
    compiled = machine.problem.get_problem_data("CLARABEL")[0]["param_prob"]
    program = compiled_program(compiled, read_cones(compiled.constraints))
    P, q, A, b = program.P[0], program.q[0], program.A, program.b[0]
    rows = {
        kind: [r for k, where in program.cones if k == kind for r in range(where.start, where.stop)]
        for kind in ("Zero", "NonNeg")
    }
    near = interior_point(P, q, A, b, rows["Zero"], rows["NonNeg"])
    x = None if near is None else exact_optimum(P, q, A, b, rows["Zero"], near)
    if x is None:
        return None
    values = []
    for compiled in machine.conic.compiled:
        start = program.columns[compiled.z.id]
        signs = compiled.substrate.signs if compiled.frame.kind == "coefficients" else 1.0
        F, at = compiled.frame.training * signs, list(range(start, start + compiled.z.size))
        if compiled.substrate.bias:
            F, at = np.hstack([F, np.ones((F.shape[0], 1))]), [*at, program.columns[compiled.shift.id]]
        values.append(exact_values(F, [x[column] for column in at]))
    return values


def interior_point(P, q, A, b, equal, linear):
    """Return an interior point by PIQP itself, without cvxpy."""
    import piqp
    import scipy.sparse as sp

    solver, A = piqp.SparseSolver(), sp.csr_array(A)
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-12
    solver.setup(
        sp.csc_matrix(P), q, sp.csc_matrix(A[equal]), -b[equal], sp.csc_matrix(-A[linear]), None, b[linear], None, None
    )
    solver.solve()
    z = np.zeros(b.size)
    z[linear] = solver.result.z_u
    x = np.array(solver.result.x)
    return (x, z) if np.isfinite(x).all() and np.isfinite(z).all() else None


def true_error(fitted, exact, weights, about_mean):
    """Return the weighted root mean square of the difference, about its mean where that is asked."""
    difference = fitted - exact
    if about_mean:
        difference = difference - difference.mean()
    return float(np.sqrt(weights @ difference**2 / weights.sum()))
