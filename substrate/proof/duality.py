r"""The bounds of the L1 substrate, by duality, and of the Huber LS-SVM in ball arithmetic, from the stored numbers.

As in :mod:`~substrate.penalized.l1.accuracy`, P - Q is a sum of terms that cannot be negative, of a
primal point that is made feasible exactly and a dual one that is shrunk into its set, and with squared errors, with or
without a ridge on w,

.. math:: \|f - f^\star\| \le \|f - \tilde f\| + \sqrt{2 (P - Q)} .

A Huber LS-SVM is bounded as in :mod:`~substrate.penalized.huber.accuracy`: the stored point is the exact optimum of
the targets y + r, and with :math:`\rho = \|D^{-1/2} r\|` the optimum of y has :math:`\|w - w^\star\| \le \rho/2`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import ACCURATE
from substrate.kernels import Foreign, Kernel
from substrate.penalized.huber.accuracy import ABOUT_MEAN, AT_BOUND, HuberMachine
from substrate.penalized.l1.accuracy import SparseMachine
from substrate.proof import Proof, above, ball, balls, flint, formula_of, precision
from substrate.proof.least_squares import given_values, kernel_products, points_of, proof_of, weighted_root

__all__ = ["centred", "gap_root", "largest", "prove_huber", "prove_sparse"]

_BITS = 160
#: Columns this near their limit, relatively, are taken for columns at it.
_NEAR = 1e-6


def prove_sparse(
    kernel: Kernel,
    X: Any,
    machine: SparseMachine,
    witnesses: Sequence[Array],
    *,
    tolerance: float = ACCURATE,
    bits: int = _BITS,
) -> Proof:
    """The proof for one output of an L1 substrate; ``witnesses`` are errors that give dual points; the best counts."""
    if not (np.isfinite(machine.a).all() and np.isfinite(machine.fitted).all() and np.isfinite(machine.b)):
        return Proof(float("inf"), 0.0, tolerance, 0.0, bits, "the model holds numbers that are not finite")
    with precision(bits):
        y, a, zeta, tau = balls(machine.y), balls(machine.a), ball(machine.zeta), machine.ridge
        a[int(np.abs(machine.a).argmax())] -= sum(a, ball(0.0))
        errors = centred([t - f for t, f in zip(y, kernel_products(kernel, X, a), strict=True)])
        points = [(centred(balls(one)), a) for one in witnesses if one.any()]
        for some, signs in _at_limits(kernel, X, machine, errors):
            points.append(_stepped(kernel, X, some, signs, zeta, tau, errors, a))
        points = points or [(errors, a)]
        gap = min((_sparse_gap(kernel, X, a, zeta, tau, errors, *point) for point in points), key=above)
        distances = [f - t + e for f, t, e in zip(balls(machine.fitted), y, errors, strict=True)]
        ones = [ball(1.0) for _ in y]
        bound = gap_root(gap, ball(float(len(y)))) + weighted_root(distances, ones)
        return proof_of(bound, machine.y, ones, tolerance, bits)


def _sparse_gap(
    kernel: Kernel, X: Any, a: list[Any], zeta: Any, tau: float, errors: list[Any], theta: list[Any], z: list[Any]
) -> Any:
    """P - Q with theta, and z where there is a ridge, shrunk into their set."""
    g = kernel_products(kernel, X, _pulled(theta, tau, z))
    top, bottom = largest(g), -largest([-one for one in g])
    nu, half = (top + bottom) / 2, (top - bottom) / 2
    shrink = ball(1.0) if half <= zeta else zeta / half.max(zeta)
    missed = [e - shrink * one for e, one in zip(errors, theta, strict=True)]
    gap = sum((one * one for one in missed), ball(0.0)) / 2
    for one, slope in zip(a, g, strict=True):
        gap += zeta * abs(one) - one * shrink * (slope - nu)
    if tau > 0.0:
        rest = [one - shrink * other for one, other in zip(a, z, strict=True)]
        inner = sum((r * k for r, k in zip(rest, kernel_products(kernel, X, rest), strict=True)), ball(0.0))
        gap += ball(tau) * inner / 2
    return gap


def _pulled(theta: list[Any], tau: float, z: list[Any]) -> list[Any]:
    """theta - tau z, of which the correlations are taken."""
    return [one - ball(tau) * other for one, other in zip(theta, z, strict=True)] if tau > 0.0 else theta


def _at_limits(kernel: Kernel, X: Any, machine: SparseMachine, errors: list[Any]) -> list[tuple[list[int], Array]]:
    """Columns that a step may take to their limits, with signs: those in use, and with these all that are nearly there.

    Any choice gives a dual point; numbers in working precision suffice.
    """
    a, zeta = machine.a, machine.zeta
    used = a != 0.0
    if not used.any():
        return []
    pulled = _pulled(errors, machine.ridge, balls(a))
    g = np.array([float(one) for one in kernel_products(kernel, X, pulled)])
    nu = float((g - zeta * np.sign(a))[used].mean())
    near = used | (np.abs(np.abs(g - nu) - zeta) <= _NEAR * zeta)
    signs = np.where(used, np.sign(a), np.sign(g - nu))
    choices = [used] if np.array_equal(used, near) else [used, near]
    return [(_distinct(kernel, X, np.flatnonzero(some)), signs) for some in choices]


def _stepped(
    kernel: Kernel, X: Any, some: list[int], signs: Array, zeta: Any, tau: float, errors: list[Any], a: list[Any]
) -> tuple[list[Any], list[Any]]:
    """The errors less their part in some columns by which correlations there are not at their limits; a with it.

    Both unchanged where the bits do not distinguish these columns.
    """
    n, k = len(errors), len(some)
    plain = [_column(kernel, X, j) for j in some]
    columns = [centred(column) for column in plain]
    table = flint().arb_mat(n, k, [column[i] for i in range(n) for column in columns])
    c, H = table.transpose() * flint().arb_mat(n, 1, errors), table.transpose() * table
    if tau > 0.0:
        rows = flint().arb_mat(k, n, [one for column in plain for one in column])
        c = c - rows * flint().arb_mat(n, 1, a) * ball(tau)
        H = H + flint().arb_mat(k, k, [column[i] for i in some for column in plain]) * ball(tau)
    sides = [value for i, j in enumerate(some) for value in (c[i, 0] - zeta * int(signs[j]), ball(1.0))]
    try:
        x = H.solve(flint().arb_mat(k, 2, sides))
        nu = sum((x[i, 0] for i in range(k)), ball(0.0)) / sum((x[i, 1] for i in range(k)), ball(0.0))
    except ZeroDivisionError:
        return errors, a
    taken = [x[i, 0] - nu * x[i, 1] for i in range(k)]
    moved, z = table * flint().arb_mat(k, 1, taken), list(a)
    for j, one in zip(some, taken, strict=True):
        z[j] = z[j] + one  # the residual of the rows of the ridge is -a
    return [e - moved[i, 0] for i, e in enumerate(errors)], z


def _column(kernel: Kernel, X: Any, j: int) -> list[Any]:
    """k(x_i, x_j) for all rows."""
    if kernel.trusted and not kernel.pairwise:
        return kernel_products(kernel, X, [ball(1.0)], X[[j]])
    one = [ball(0.0)] * X.shape[0]
    one[j] = ball(1.0)
    return kernel_products(kernel, X, one)


def _distinct(kernel: Kernel, X: Any, used: Any) -> list[int]:
    """Of columns that are equal, by their points or by given values, the first."""
    if kernel.pairwise or not kernel.trusted:
        columns = given_values(kernel, X)[:, used].T
    else:
        columns = X[used].toarray() if hasattr(X, "toarray") else np.asarray(X)[used]
    return sorted(used[np.unique(columns, axis=0, return_index=True)[1]].tolist())


def centred(values: Sequence[Any]) -> list[Any]:
    """The values less their mean."""
    mean = sum(values, ball(0.0)) / len(values)
    return [value - mean for value in values]


def largest(values: Sequence[Any]) -> Any:
    """The largest of some balls."""
    found = values[0]
    for value in values[1:]:
        found = found.max(value)
    return found


def gap_root(gap: Any, mass: Any) -> Any:
    """sqrt(2 gap / mass) of a gap known not to be negative."""
    share = 2 * gap / mass
    return share.sqrt() if share > 0 else abs(share).upper().sqrt()  # a ball that holds zero: from above


def prove_huber(
    kernel: Kernel,
    X: Any,
    machine: HuberMachine,
    gamma: float,
    v: Array,
    *,
    tolerance: float = ACCURATE,
    bits: int = _BITS,
) -> Proof:
    """The proof for a machine with these sample weights; a kernel of unknown origin counts as semi-definite."""
    if not machine.finite:
        return Proof(float("inf"), 0.0, tolerance, 0.0, bits, "the model holds numbers that are not finite")
    with precision(bits):
        K = _kernel_matrix(kernel, X)
        y, weights, delta = balls(machine.y), balls(v), ball(machine.delta)
        stiff = [ball(gamma) * weight for weight in weights]  # 1 / D
        e = _errors(K, y, balls(machine.a), machine.b)
        alpha, at_bound = _feasible(machine, stiff, weights, delta, e)
        e = _errors(K, y, alpha, machine.b)
        r = [
            _positive(delta - (error if one > 0 else -error)) if bound else one / pull - error
            for one, pull, error, bound in zip(alpha, stiff, e, at_bound, strict=True)
        ]
        rho = _norm(r, stiff)
        inside = [
            not bound and bool(abs(one) + rho * pull.sqrt() < delta * pull)
            for one, pull, bound in zip(alpha, stiff, at_bound, strict=True)
        ]
        values = [t - error for t, error in zip(y, e, strict=True)]
        apart = weighted_root([f - g for f, g in zip(balls(machine.fitted), values, strict=True)], weights)
        tied = [k for k, one in enumerate(inside) if one]
        if not tied:
            mean = [weight / sum(weights, ball(0.0)) for weight in weights]
            spread = [_distance(K, i, list(range(len(y))), mean) for i in range(len(y))]
            bound = rho * weighted_root(spread, weights) + apart
        else:
            both = rho + _norm([r[k] for k in tied], [stiff[k] for k in tied])
            off = [ball(0.0) for _ in y]
            for i in (k for k, one in enumerate(inside) if not one):
                inner_mass = sum((weights[k] for k in tied), ball(0.0))
                means = [weights[k] / inner_mass for k in tied]
                found = [_tied(K, i, tied, c, stiff, both, rho) for c in (_kriging(K, i, tied, stiff), means)]
                off[i] = found[0].min(found[1])
            mass = sum(weights, ball(0.0))
            inner, outer = both / (ball(gamma) * mass).sqrt(), weighted_root(off, weights)
            bound = (inner * inner + outer * outer).sqrt() + apart
        return proof_of(bound, machine.y, weights, tolerance, bits, "fitted values" if tied else ABOUT_MEAN)


def _kernel_matrix(kernel: Kernel, X: Any) -> list[list[Any]]:
    """All kernel values in balls; a matrix or a function is defined by its values."""
    if kernel.pairwise or isinstance(kernel, Foreign):
        dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        return [balls(row) for row in (dense if kernel.pairwise else np.asarray(kernel(dense)))]
    points = points_of(X)
    formula = formula_of(kernel, len(points[0]))
    return [[formula(x, z) for z in points] for x in points]


def _errors(K: list[list[Any]], y: list[Any], alpha: list[Any], b: float) -> list[Any]:
    return [
        t - ball(b) - sum((k * one for k, one in zip(row, alpha, strict=True)), ball(0.0))
        for t, row in zip(y, K, strict=True)
    ]


def _feasible(
    machine: HuberMachine, stiff: list[Any], weights: list[Any], delta: Any, e: list[Any]
) -> tuple[list[Any], list[bool]]:
    """Support values at their bounds or inside, with the sum zero, and which are at their bounds."""
    alpha = balls(machine.a)
    at_bound = [
        bool(abs(one) > delta * pull)
        or bool(abs(one) >= (1 - ball(AT_BOUND)) * delta * pull and (error if one > 0 else -error) >= delta)
        for one, pull, error in zip(alpha, stiff, e, strict=True)
    ]
    signs = np.sign(machine.a)
    balanced = sum((ball(s) * w for s, w in zip(signs, weights, strict=True)), ball(0.0)) == 0
    if all(at_bound) and not balanced:
        at_bound[int(np.argmin([float(abs(error).mid()) for error in e]))] = False
    moved = [
        ball(s) * delta * pull if bound else one
        for s, one, pull, bound in zip(signs, alpha, stiff, at_bound, strict=True)
    ]
    free = sum((w for w, bound in zip(weights, at_bound, strict=True) if not bound), ball(0.0))
    if all(at_bound):
        return moved, at_bound
    excess = sum(moved, ball(0.0))
    return [
        one if bound else one - excess * w / free for one, w, bound in zip(moved, weights, at_bound, strict=True)
    ], at_bound


def _kriging(K: list[list[Any]], i: int, tied: list[int], stiff: list[Any]) -> list[Any]:
    """Weights that sum to one, from a linear system whose own error is immaterial."""
    n = len(tied)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = [[float(K[j][k].mid()) for k in tied] for j in tied]
    system[np.arange(n), np.arange(n)] += [16.0 / float(stiff[k].mid()) for k in tied]
    system[n, n] = 0.0
    c = balls(np.linalg.lstsq(system, np.append([float(K[i][k].mid()) for k in tied], 1.0))[0][:n])
    missing = (1 - sum(c, ball(0.0))) / n
    return [one + missing for one in c]


def _tied(K: list[list[Any]], i: int, tied: list[int], c: list[Any], stiff: list[Any], both: Any, rho: Any) -> Any:
    """The error of the value at row i, by these weights of interior rows."""
    size = sum((one * one / stiff[k] for one, k in zip(c, tied, strict=True)), ball(0.0)).sqrt()
    return size * both + rho / 2 * _distance(K, i, tied, c)


def _distance(K: list[list[Any]], i: int, rows: list[int], c: list[Any]) -> Any:
    """||phi(x_i) - sum_j c_j phi(x_j)||."""
    matrix = flint().arb_mat(len(rows), len(rows), [K[j][k] for j in rows for k in rows])
    column = flint().arb_mat(len(rows), 1, c)
    across = sum((one * K[i][k] for one, k in zip(c, rows, strict=True)), ball(0.0))
    return _positive(K[i][i] - 2 * across + (column.transpose() * matrix * column)[0, 0]).sqrt()


def _norm(values: list[Any], stiff: list[Any]) -> Any:
    return _positive(sum((pull * value * value for value, pull in zip(values, stiff, strict=True)), ball(0.0))).sqrt()


def _positive(value: Any) -> Any:
    """The positive part, from above where the ball holds zero."""
    if value > 0:
        return value
    return ball(0.0) if value < 0 else abs(value).upper()
