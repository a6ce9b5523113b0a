r"""The bound of a Huber LS-SVM in ball arithmetic, from the stored numbers.

As in :mod:`~substrate.closed_form.huber_accuracy`: the stored point is the exact optimum of the targets y + r, and with
:math:`\rho = \|D^{-1/2} r\|` the optimum of y has :math:`\|w - w^\star\| \le \rho/2`.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import ACCURATE
from substrate.closed_form.huber_accuracy import AT_BOUND, HuberMachine
from substrate.kernels import Foreign, Kernel
from substrate.proof.balls import Proof, ball, balls, flint, formula_of, precision
from substrate.proof.duality import proof_of
from substrate.proof.least_squares import weighted_root

__all__ = ["kernel_matrix", "prove_huber"]

_BITS = 160


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
        K = kernel_matrix(kernel, X)
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
        return proof_of(bound, machine.y, weights, tolerance, bits)


def kernel_matrix(kernel: Kernel, X: Any) -> list[list[Any]]:
    """All kernel values in balls; a matrix or a function is defined by its values."""
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if kernel.pairwise or isinstance(kernel, Foreign):
        return [balls(row) for row in (dense if kernel.pairwise else np.asarray(kernel(dense)))]
    points = [balls(row) for row in dense]
    formula = formula_of(kernel, dense.shape[1])
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
