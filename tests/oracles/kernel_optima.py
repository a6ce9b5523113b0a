"""Optima of small machines from the kernel's formula in ball arithmetic, without coordinates of the package.

Every machine is a quadratic program in the coefficients of all representers, the bias and slacks (or in the fitted
values themselves, which at distinct points can be anything where w is not penalised). Its active rows are guessed from
the package's answer; what comes back satisfies all optimality conditions in balls of many digits.
"""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from substrate import Machine, Substrate
from substrate.kernels import RBF

__all__ = ["PENALISED", "UNPENALISED", "KernelOptimum", "kernel_optimum"]

BITS = 1600
PENALISED = ("squares", "known values", "collocation", "bounds", "rising", "tube", "pinball", "hinge")
UNPENALISED = ("largest value", "sum of values", "sum of coefficients")


@dataclass(frozen=True)
class KernelOptimum:
    """A machine, its data, and the fitted values and the objective of its exact optimum as a function of its result."""

    machine: Machine
    X: Any
    y: Any
    exact: Any


def kernel_optimum(kind, seed, sigma=None, rows=None, points=None, unit=1.0):
    """Return a machine of one kind on the line, with its oracle."""
    rng = np.random.default_rng([seed, (PENALISED + UNPENALISED).index(kind)])
    n = rows or int(rng.integers(6, 12))
    m = points or int(rng.integers(2, 8))
    sigma = sigma or float(10.0 ** rng.uniform(-0.4, 0.5))
    X, p = np.sort(rng.uniform(-2.0, 2.0, size=n)), np.sort(rng.uniform(-2.0, 2.0, size=m))
    y = unit * (np.sin(2.0 * X) + 0.2 * rng.normal(size=n))
    gamma = float(10.0 ** rng.uniform(-1.0, 2.0))
    task = "classification" if kind == "hinge" else "regression"
    y = np.where(y > np.median(y), 1.0, -1.0) if kind == "hinge" else y
    s = Substrate(RBF(sigma), X[:, None], y, task=task)
    build = {
        "squares": _squares,
        "known values": _make_optimum,
        "collocation": _make_optimum,
        "bounds": _bounds,
        "rising": _bounds,
        "tube": _loss,
        "pinball": _loss,
        "hinge": _loss,
        "largest value": _largest,
        "sum of values": _sum,
        "sum of coefficients": _coefficients,
    }[kind]
    machine, exact = build(kind, s, X, y, p, gamma, sigma, unit)
    return KernelOptimum(machine, X[:, None], y, exact)


def _gram(sigma, X, p=(), slopes=False):
    """Inner products of phi(x) for all x, and of phi(p) or of its derivatives."""
    from flint import arb, arb_mat

    s2 = arb(float(sigma)) ** 2
    readings = [(arb(float(x)), False) for x in X] + [(arb(float(x)), slopes) for x in p]

    def product(first, second):
        u = first[0] - second[0]
        k = (-(u * u) / s2).exp()
        if first[1] and second[1]:
            return k * (2 / s2 - 4 * u * u / (s2 * s2))
        return k * (-2 * u / s2) if first[1] else k * (2 * u / s2) if second[1] else k

    return arb_mat([[product(first, second) for second in readings] for first in readings])


def _squares(kind, s, X, y, p, gamma, sigma, unit):
    machine = Machine(s, minimize=0.5 * s.squared_norm + 0.5 * gamma * cp.sum_squares(s.e))
    return machine, lambda result: _least_squares(_gram(sigma, X), y, gamma, [], [], [], [], [])


def _make_optimum(kind, s, X, y, p, gamma, sigma, unit):
    slopes = kind == "collocation"
    values = unit * (2.0 * np.cos(2.0 * p) if slopes else np.sin(2.0 * p))
    read = s.gradient(p[:, None], 0) if slopes else s.f(p[:, None])
    squares = 0.5 * s.squared_norm + 0.5 * gamma * cp.sum_squares(s.e)
    machine = Machine(s, minimize=squares, subject_to=[read == values])
    n, m = X.size, p.size
    equal = [({n + i: 1.0}, 0.0 if slopes else 1.0) for i in range(m)]
    return machine, lambda result: _least_squares(_gram(sigma, X, p, slopes), y, gamma, equal, values, [], [], [])


def _bounds(kind, s, X, y, p, gamma, sigma, unit):
    squares, n = 0.5 * s.squared_norm + 0.5 * gamma * cp.sum_squares(s.e), X.size
    if kind == "bounds":
        rules, rows = [s.f(p[:, None]) >= -0.3 * unit], [({n + i: 1.0}, 1.0) for i in range(p.size)]
        limit, points = -0.3 * unit, p
    else:
        points = np.concatenate([p, p + 0.5])
        rules = [s.f(p[:, None]) <= s.f(p[:, None] + 0.5)]
        rows, limit = [({n + p.size + i: 1.0, n + i: -1.0}, 0.0) for i in range(p.size)], 0.0
    machine = Machine(s, minimize=squares, subject_to=rules)

    def exact(result):
        f = result.predict(points[:, None])
        slack = f - limit if kind == "bounds" else f[p.size :] - f[: p.size]
        return _least_squares(_gram(sigma, X, points), y, gamma, [], [], rows, np.full(len(rows), limit), slack)

    return machine, exact


def _least_squares(G, y, gamma, equal, values, unequal, limits, slack):
    """min a'Ga/2 + gamma/2 |y - (Ga)_i - b|^2 under readings that equal values, or are at least limits."""
    from flint import arb, arb_mat

    size, n = G.nrows(), len(y)
    unit, many = arb(1), arb(float(gamma))
    F = arb_mat([[G[i, j] for j in range(size)] + [unit] for i in range(n)])
    target = arb_mat([[arb(float(value))] for value in y])
    P = many * F.transpose() * F
    P = arb_mat([[P[i, j] + (G[i, j] if max(i, j) < size else 0) for j in range(size + 1)] for i in range(size + 1)])
    q = -many * F.transpose() * target
    rows = [
        [sum((arb(c) * G[k, j] for k, c in w.items()), arb(0)) for j in range(size)] + [arb(b)]
        for w, b in [*equal, *unequal]
    ]
    right = [arb(float(value)) for value in [*values, *limits]]
    x = _optimum(P, q, rows, right, len(equal), slack)
    if x is None:
        return None
    f = F * x
    e = target - f
    a = arb_mat([[x[i, 0]] for i in range(size)])
    objective = (a.transpose() * G * a)[0, 0] / 2 + many * (e.transpose() * e)[0, 0] / 2
    return _double(f), float(objective.mid())


def _loss(kind, s, X, y, p, gamma, sigma, unit):
    e, n, width, level = s.e, X.size, 0.1 * unit, 0.8
    # each t_i is at least slope * (error - offset) for each of these
    kinks = {
        "tube": [(1.0, width), (-1.0, -width), (0.0, 0.0)],
        "pinball": [(level, 0.0), (level - 1.0, 0.0)],
        "hinge": [(1.0, 0.0), (0.0, 0.0)],
    }[kind]
    cost = {
        "tube": cp.sum(cp.pos(cp.abs(e) - width)),
        "hinge": cp.sum(cp.pos(e)),
        "pinball": cp.sum(cp.maximum(level * e, (level - 1.0) * e)),
    }[kind]
    machine = Machine(s, minimize=0.5 * s.squared_norm + gamma * unit * cost)

    def exact(result):
        from flint import arb, arb_mat

        G, signs = _gram(sigma, X), y if kind == "hinge" else np.ones(n)
        base = np.ones(n) if kind == "hinge" else y
        size = 2 * n + 1
        P = arb_mat([[G[i, j] if max(i, j) < n else arb(0) for j in range(size)] for i in range(size)])
        q = arb_mat([[arb(0)]] * (n + 1) + [[arb(float(gamma)) * arb(float(unit))]] * n)
        rows, right, slack = [], [], []
        errors = base - signs * result.predict(X[:, None])
        for i in range(n):
            values = [c * (errors[i] - o) for c, o in kinks]
            for (c, o), value in zip(kinks, values, strict=True):
                slope = arb(float(c)) * arb(float(signs[i]))
                row = [slope * G[i, j] for j in range(n)] + [slope] + [arb(int(j == i)) for j in range(n)]
                rows.append(row)
                right.append(arb(float(c)) * (arb(float(base[i])) - arb(float(o))))
                slack.append(max(values) - value)
        x = _optimum(P, q, rows, right, 0, np.array(slack))
        if x is None:
            return None
        a = arb_mat([[x[i, 0]] for i in range(n)])
        objective = (a.transpose() * G * a)[0, 0] / 2 + (q.transpose() * x)[0, 0]
        return _double(G * a, x[n, 0]), float(objective.mid())

    return machine, exact


def _largest(kind, s, X, y, p, gamma, sigma, unit):
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + unit * cp.norm_inf(s.f()))

    def exact(result):
        """f is y, clipped at the level where what is clipped adds up to the weight."""
        sizes, best = np.sort(np.abs(y))[::-1], 0.0
        for count in range(1, y.size + 1):
            level = (sizes[:count].sum() - unit) / count
            if level >= (sizes[count] if count < y.size else 0.0):
                best = max(level, 0.0)
                break
        f = np.clip(y, -best, best)
        return f, float(0.5 * np.sum((y - f) ** 2) + unit * best)

    return machine, exact


def _sum(kind, s, X, y, p, gamma, sigma, unit):
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 0.3 * unit * cp.norm1(s.f()))
    f = np.sign(y) * np.maximum(np.abs(y) - 0.3 * unit, 0.0)
    return machine, lambda result: (f, float(0.5 * np.sum((y - f) ** 2) + 0.3 * unit * np.abs(f).sum()))


def _coefficients(kind, s, X, y, p, gamma, sigma, unit):
    machine, n = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 0.3 * unit * cp.norm1(s.alpha)), X.size

    def exact(result):
        from flint import arb, arb_mat

        G, size = _gram(sigma, X), 2 * n + 1
        F = arb_mat([[G[i, j] for j in range(n)] + [arb(1)] + [arb(0)] * n for i in range(n)])
        target = arb_mat([[arb(float(value))] for value in y])
        weight = arb(0.3 * unit)
        q = -F.transpose() * target + arb_mat([[weight if i > n else arb(0)] for i in range(size)])
        rows, slack = [[arb(1)] * n + [arb(0)] * (n + 1)], []
        for sign in (1, -1):
            for i in range(n):
                row = [arb(0)] * size
                row[i], row[n + 1 + i] = arb(-sign), arb(1)
                rows.append(row)
                slack.append(abs(result.alpha[i]) - sign * result.alpha[i])
        # one row of a pair suffices where a coefficient is zero: both, and the coefficient is zero
        x = _optimum(F.transpose() * F, q, rows, [arb(0)] * len(rows), 1, np.array(slack))
        if x is None:
            return None
        f = F * x
        e = target - f
        cost = sum((x[n + 1 + i, 0] for i in range(n)), arb(0))
        return _double(f), float(((e.transpose() * e)[0, 0] / 2 + weight * cost).mid())

    return machine, exact


def _optimum(P, q, rows, right, equal, slack, rounds=60):
    """x of min x'Px/2 + q'x, the first rows equal to ``right`` and the others at least it; None where not found."""
    from flint import arb, arb_mat

    n, count = P.nrows(), len(rows)
    scale = 1e-7 * (1.0 + max((abs(float(value.mid())) for value in right), default=0.0))
    active = [equal + i for i, value in enumerate(slack) if value <= scale]
    visited = set()
    for _ in range(rounds):
        if tuple(active) in visited:
            return None
        visited.add(tuple(active))
        at = [*range(equal), *active]
        system = [[P[i, j] for j in range(n)] + [-rows[k][i] for k in at] for i in range(n)]
        system += [[*rows[k], *([arb(0)] * len(at))] for k in at]
        try:
            solution = arb_mat(system).solve(arb_mat([[-q[i, 0]] for i in range(n)] + [[right[k]] for k in at]))
        except ZeroDivisionError:
            return None
        if any(float(solution[i, 0].rad()) > 1e-25 * (1.0 + abs(float(solution[i, 0].mid()))) for i in range(n)):
            return None
        x = arb_mat([[solution[i, 0]] for i in range(n)])
        negative = [k for place, k in enumerate(active) if solution[n + equal + place, 0] < 0]
        violated = [
            k
            for k in range(equal, count)
            if k not in active and sum((rows[k][j] * x[j, 0] for j in range(n)), arb(0)) - right[k] < 0
        ]
        if not negative and not violated:
            return x
        active = sorted([*active, *violated]) if violated else [k for k in active if k not in negative]
    return None


def _double(column, more=0):
    return np.array([float((column[i, 0] + more).mid()) for i in range(column.nrows())])
