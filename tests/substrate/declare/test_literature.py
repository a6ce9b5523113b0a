"""Twenty machines of the literature, each against plain cvxpy on explicit Gram matrices."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from numpy.polynomial.hermite import hermval
from numpy.testing import assert_allclose

from substrate import Column, LinearOperator, Machine, Substrate
from substrate.kernels import RBF

N, WIDTH = 14, 1.3
KERNEL = RBF(WIDTH)
RNG = np.random.default_rng(5)
X = RNG.uniform(-1.5, 1.5, size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.normal(size=N)
LABELS = np.where(np.median(Y) < Y, 1.0, -1.0)
OUTPUTS = np.column_stack([Y, Y + 0.3 * X[:, 0], X[:, 1]])
GRID = RNG.uniform(-1.0, 1.0, size=(4, 2))


def gram(A, B, a=(0, 0), b=(0, 0), width=WIDTH):
    """Derivatives of exp(-|x - z|^2 / width^2) of orders a in x and b in z, by the polynomials of Hermite."""
    K = np.ones((len(A), len(B)))
    for c, (left, right) in enumerate(zip(a, b, strict=True)):
        u, n = (A[:, None, c] - B[None, :, c]) / width, left + right
        K *= (-1.0) ** right * (-1.0 / width) ** n * hermval(u, [0.0] * n + [1.0]) * np.exp(-(u**2))
    return K


def joint_gram(*readings):
    """The Gram matrix of sums of derivatives at points: each a list of factors and orders, with the points."""
    return np.block(
        [
            [sum(f * g * gram(P, Q, a, b) for f, a in left for g, b in right) for right, Q in readings]
            for left, P in readings
        ]
    )


VALUES = ([(1.0, (0, 0))], X)


class Plain:
    """w in coordinates with w'w = |z|^2: values of its readings, by a factor of their Gram matrix."""

    def __init__(self, K=None, bias=True, columns=()):
        eigenvalues, vectors = np.linalg.eigh(gram(X, X) if K is None else K)
        kept = eigenvalues > 1e-13 * eigenvalues[-1]
        self.z, self.b = cp.Variable((int(kept.sum()), *columns)), cp.Variable(columns) if bias else 0.0
        self.readings = (vectors[:, kept] * np.sqrt(eigenvalues[kept])) @ self.z
        shift = np.ones((N, 1)) @ cp.reshape(self.b, (1, *columns), order="F") if columns and bias else self.b
        self.f = self.readings[:N] + shift
        self.square, self.norm = cp.sum_squares(self.z), cp.norm(self.z)


def one(cost, y=Y, rules=lambda s, f: [], bias=True, columns=(), **options):
    """A machine of w'w / 2 and a cost of the values f, which is written once for both."""
    s, p = Substrate(KERNEL, X, y, bias=bias, **options), Plain(bias=bias, columns=columns)
    machine = Machine(s, minimize=0.5 * s.squared_norm + cost(s.f()), subject_to=rules(s, s.f()))
    return machine, cp.Problem(cp.Minimize(0.5 * p.square + cost(p.f)), rules(p, p.f)), [(s.f(), p.f)]


def multiple_kernels():
    first, second = Substrate(KERNEL, X, Y), Substrate(RBF(3.0), X, Y, bias=False)
    p, q = Plain(), Plain(gram(X, X, width=3.0), bias=False)

    def cost(a, b, f):
        return 0.5 * cp.square(a.norm + b.norm) + 5.0 * cp.sum_squares(Y - f)

    machine = Machine(first, second, minimize=cost(first, second, first.f() + second.f()), predict=first + second)
    return machine, cp.Problem(cp.Minimize(cost(p, q, p.f + q.f))), [(first.f() + second.f(), p.f + q.f)]


def tasks_on_a_graph():
    tasks, plain = [Substrate(KERNEL, X, y, name=f"{k}") for k, y in enumerate(OUTPUTS.T)], [Plain() for _ in range(3)]

    def cost(squares, fs):
        errors = sum(cp.sum_squares(y - f) for y, f in zip(OUTPUTS.T, fs, strict=True))
        return 0.5 * sum(squares) + 3.0 * errors + 2.0 * sum(cp.sum_squares(f - g) for f, g in pairwise(fs))

    machine = Machine(*tasks, minimize=cost([s.squared_norm for s in tasks], [s.f() for s in tasks]))
    problem = cp.Problem(cp.Minimize(cost([p.square for p in plain], [p.f for p in plain])))
    return machine, problem, [(s.f(), p.f) for s, p in zip(tasks, plain, strict=True)]


def poisson():
    counts = np.random.default_rng(1).poisson(np.exp(0.5 * Y)).astype(float)
    return one(lambda f: 2.0 * cp.sum(cp.exp(f) - cp.multiply(counts, f)), counts)


def gamma_regression():
    times = np.exp(0.5 * Y)
    return one(lambda f: 3.0 * cp.sum(f + cp.multiply(times, cp.exp(-f))), times)


def cox():
    return one(lambda f: 2.0 * sum(cp.log_sum_exp(f[time <= Y]) - f[i] for i, time in enumerate(Y)), bias=False)


def ordinal():
    levels, thresholds = np.digitize(Y, np.quantile(Y, [0.33, 0.66])), cp.Variable(2)
    signs = np.where(levels[:, None] > np.arange(2), 1.0, -1.0)

    def cost(f):
        margins = [cp.multiply(signs[:, k], f - thresholds[k]) for k in range(2)]
        return 3.0 * sum(cp.sum(cp.pos(1.0 - margin)) for margin in margins)

    return one(cost, bias=False, rules=lambda s, f: [thresholds[0] <= thresholds[1]])


def ranking():
    pairs = [(i, j) for i in range(N) for j in range(N) if Y[i] > Y[j] + 0.5]
    above, below = np.array(pairs).T
    return one(lambda f: 0.5 * cp.sum(cp.pos(1.0 - f[above] + f[below])), y=None, bias=False)


def one_class():
    level = cp.Variable()
    return one(lambda f: cp.sum(cp.pos(level - f)) / (0.3 * N) - level, y=None, bias=False)


def fairness():
    group = X[:, 1] > 0.0

    def rules(s, f):
        return [cp.abs(cp.sum(f[group]) / group.sum() - cp.sum(f[~group]) / (~group).sum()) <= 0.1]

    return one(lambda f: 5.0 * cp.sum(cp.pos(1.0 - cp.multiply(LABELS, f))), LABELS, rules)


def manifold():
    edges = np.array([(i, j) for i in range(N) for j in range(i) if np.linalg.norm(X[i] - X[j]) < 1.0]).T
    return one(lambda f: 5.0 * cp.sum_squares((Y - f)[:6]) + cp.sum_squares(f[edges[0]] - f[edges[1]]))


def conditional_value_at_risk():
    return one(lambda f: 20.0 * cp.cvar(cp.abs(Y - f), 0.8))


def adversarial_tube():
    s, p = Substrate(KERNEL, X, Y), Plain()

    def cost(w, f):
        return 5.0 * cp.sum(cp.pos(cp.abs(Y - f) + 0.1 * w.norm - 0.2))

    machine = Machine(s, minimize=0.5 * s.squared_norm + cost(s, s.f()))
    return machine, cp.Problem(cp.Minimize(0.5 * p.square + cost(p, p.f))), [(s.f(), p.f)]


def heredity():
    columns = [gram(X[:, [c]], X[:, [c]], (0,), (0,)) for c in range(2)]
    parts = [*(Substrate(KERNEL, X[:, [c]], Y, bias=False) for c in range(2)), Substrate(KERNEL, X, Y)]
    plain = [*(Plain(K, bias=False) for K in columns), Plain()]

    def problem(squares, fs):
        t = cp.Variable(3)
        rules = [cp.norm_inf(f) <= t[k] for k, f in enumerate(fs)] + [t[2] <= t[0], t[2] <= t[1]]
        return 0.1 * sum(squares) + 0.5 * cp.sum_squares(Y - sum(fs)) + 0.3 * cp.sum(t), rules

    cost, rules = problem([s.squared_norm for s in parts], [s.f() for s in parts])
    machine = Machine(*parts, minimize=cost, subject_to=rules, predict=parts[0].on(0) + parts[1].on(1) + parts[2])
    cost, rules = problem([p.square for p in plain], [p.f for p in plain])
    return machine, cp.Problem(cp.Minimize(cost), rules), [(s.f(), p.f) for s, p in zip(parts, plain, strict=True)]


def total_variation_over_outputs():
    return one(
        lambda f: 3.0 * cp.sum_squares(OUTPUTS - f) + cp.sum(cp.abs(f[:, 1:] - f[:, :-1])), OUTPUTS, columns=(3,)
    )


def low_rank():
    return one(lambda f: 3.0 * cp.sum_squares(OUTPUTS - f) + 2.0 * cp.normNuc(f), OUTPUTS, columns=(3,))


def heat_equation():
    heat = LinearOperator.derivative({1: 1}) - 0.1 * LinearOperator.derivative({0: 2})
    s, p = Substrate(KERNEL, X, Y), Plain(joint_gram(VALUES, ([(1.0, (0, 1)), (-0.1, (2, 0))], GRID)))
    machine = Machine(
        s, minimize=0.5 * s.squared_norm + 5.0 * cp.sum_squares(s.e), subject_to=[s.apply(heat, GRID) == 0]
    )
    cost = 0.5 * p.square + 5.0 * cp.sum_squares(Y - p.f)
    return machine, cp.Problem(cp.Minimize(cost), [p.readings[N:] == 0]), [(s.f(), p.f)]


def divergence_free_field():
    fields = [Substrate(KERNEL, X, OUTPUTS[:, k], name="uv"[k]) for k in range(2)]
    plain = [Plain(joint_gram(VALUES, ([(1.0, orders)], GRID))) for orders in ((1, 0), (0, 1))]

    def cost(squares, fs):
        return 0.5 * sum(squares) + 5.0 * sum(cp.sum_squares(OUTPUTS[:, k] - f) for k, f in enumerate(fs))

    free = fields[0].gradient(GRID, 0) + fields[1].gradient(GRID, 1) == 0
    machine = Machine(
        *fields, minimize=cost([s.squared_norm for s in fields], [s.f() for s in fields]), subject_to=[free]
    )
    rule = plain[0].readings[N:] + plain[1].readings[N:] == 0
    problem = cp.Problem(cp.Minimize(cost([p.square for p in plain], [p.f for p in plain])), [rule])
    return machine, problem, [(s.f(), p.f) for s, p in zip(fields, plain, strict=True)]


def varying_coefficients():
    first, second = Substrate(KERNEL, X, Y), Substrate(KERNEL, X, Y)
    p, q = Plain(), Plain()

    def cost(a, b, f, g):
        return 0.5 * (a + b) + 5.0 * cp.sum_squares(Y - f - cp.multiply(X[:, 1], g))

    declared = cost(first.squared_norm, second.squared_norm, first.f(), second.f())
    machine = Machine(first, second, minimize=declared, predict=first + second * Column(1))
    problem = cp.Problem(cp.Minimize(cost(p.square, q.square, p.f, q.f)))
    return machine, problem, [(first.f(), p.f), (second.f(), q.f)]


def sparse_with_bounded_constants():
    s, a, b = Substrate(KERNEL, X, Y), cp.Variable(N), cp.Variable()
    e = Y - gram(X, X) @ a - b
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 0.2 * cp.norm1(s.alpha), subject_to=[cp.abs(s.c) <= 0.15])
    rules = [cp.abs(e - a) <= 0.15, cp.sum(a) == 0]
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(e) + 0.2 * cp.norm1(a)), rules)
    return machine, problem, [(s.e, e)]


def expectile_with_a_tube():
    def cost(f):
        above, below = cp.pos(Y - f - 0.1), cp.pos(f - Y - 0.1)
        return 5.0 * (0.8 * cp.sum_squares(above) + 0.2 * cp.sum_squares(below))

    return one(cost)


MACHINES = [
    *(multiple_kernels, tasks_on_a_graph, poisson, gamma_regression, cox, ordinal, ranking, one_class, fairness),
    *(manifold, conditional_value_at_risk, adversarial_tube, heredity, total_variation_over_outputs, low_rank),
    *(heat_equation, divergence_free_field, varying_coefficients, sparse_with_bounded_constants),
    expectile_with_a_tube,
]


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # of the peer
@pytest.mark.parametrize("build", MACHINES, ids=lambda build: build.__name__)
def test_a_machine_is_the_problem_of_its_gram_matrix(build):
    machine, problem, values = build()
    result = machine.solve()
    assert result.certificate.holds, str(result.certificate)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9, max_step_fraction=0.9)
    assert_allclose(result.objective, problem.value, rtol=1e-6, atol=1e-7)
    for ours, plain in values:
        assert_allclose(ours.value, plain.value, atol=2e-4)
