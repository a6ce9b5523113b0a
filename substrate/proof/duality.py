r"""Bounds by duality in ball arithmetic, from the stored numbers.

As in :mod:`~substrate.closed_form.l1_accuracy`, P - Q is a sum of terms that cannot be negative, of a
primal point that is made feasible exactly and a dual one that is shrunk into its set, and with squared errors

.. math:: \|f - f^\star\| \le \|f - \tilde f\| + \sqrt{2 (P - Q)} .
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates.rows import ACCURATE
from substrate.closed_form.l1_accuracy import SparseMachine
from substrate.kernels import Kernel
from substrate.proof.balls import Proof, above, ball, balls, flint, precision
from substrate.proof.least_squares import given_values, kernel_products, spread_below, weighted_root

__all__ = ["centred", "gap_root", "largest", "proof_of", "prove_sparse", "smallest"]

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
        y, a, zeta = balls(machine.y), balls(machine.a), ball(machine.zeta)
        a[int(np.abs(machine.a).argmax())] -= sum(a, ball(0.0))
        errors = centred([t - f for t, f in zip(y, kernel_products(kernel, X, a), strict=True)])
        points = [centred(balls(one)) for one in witnesses if one.any()]
        for some, signs in _at_limits(kernel, X, machine.a, machine.zeta, errors):
            points.append(_stepped(kernel, X, some, signs, zeta, errors))
        points = points or [errors]
        gap = min((_sparse_gap(kernel, X, a, zeta, errors, theta) for theta in points), key=above)
        distances = [f - t + e for f, t, e in zip(balls(machine.fitted), y, errors, strict=True)]
        ones = [ball(1.0) for _ in y]
        bound = gap_root(gap, ball(float(len(y)))) + weighted_root(distances, ones)
        return proof_of(bound, machine.y, ones, tolerance, bits)


def _sparse_gap(kernel: Kernel, X: Any, a: list[Any], zeta: Any, errors: list[Any], theta: list[Any]) -> Any:
    """P - Q with theta shrunk into its set."""
    g = kernel_products(kernel, X, theta)
    top, bottom = largest(g), smallest(g)
    nu, half = (top + bottom) / 2, (top - bottom) / 2
    shrink = ball(1.0) if half <= zeta else zeta / half.max(zeta)
    missed = [e - shrink * one for e, one in zip(errors, theta, strict=True)]
    gap = sum((one * one for one in missed), ball(0.0)) / 2
    for one, slope in zip(a, g, strict=True):
        gap += zeta * abs(one) - one * shrink * (slope - nu)
    return gap


def _at_limits(kernel: Kernel, X: Any, a: Array, zeta: float, errors: list[Any]) -> list[tuple[list[int], Array]]:
    """Columns that a step may take to their limits, with signs: those in use, and with these all that are nearly there.

    Any choice gives a dual point; numbers in working precision suffice.
    """
    used = a != 0.0
    if not used.any():
        return []
    g = np.array([float(one) for one in kernel_products(kernel, X, errors)])
    nu = float((g - zeta * np.sign(a))[used].mean())
    near = used | (np.abs(np.abs(g - nu) - zeta) <= _NEAR * zeta)
    signs = np.where(used, np.sign(a), np.sign(g - nu))
    choices = [used] if np.array_equal(used, near) else [used, near]
    return [(_distinct(kernel, X, np.flatnonzero(some)), signs) for some in choices]


def _stepped(kernel: Kernel, X: Any, some: list[int], signs: Array, zeta: Any, errors: list[Any]) -> list[Any]:
    """The errors less their part in some columns by which correlations there are not at their limits.

    The errors unchanged where the bits do not distinguish these columns.
    """
    n, k = len(errors), len(some)
    columns = [centred(_column(kernel, X, j)) for j in some]
    table = flint().arb_mat(n, k, [column[i] for i in range(n) for column in columns])
    c = table.transpose() * flint().arb_mat(n, 1, errors)
    sides = [value for i, j in enumerate(some) for value in (c[i, 0] - zeta * int(signs[j]), ball(1.0))]
    try:
        x = (table.transpose() * table).solve(flint().arb_mat(k, 2, sides))
        nu = sum((x[i, 0] for i in range(k)), ball(0.0)) / sum((x[i, 1] for i in range(k)), ball(0.0))
    except ZeroDivisionError:
        return errors
    moved = table * flint().arb_mat(k, 1, [x[i, 0] - nu * x[i, 1] for i in range(k)])
    return [e - moved[i, 0] for i, e in enumerate(errors)]


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


def smallest(values: Sequence[Any]) -> Any:
    """The smallest of some balls."""
    return -largest([-value for value in values])


def gap_root(gap: Any, mass: Any) -> Any:
    """sqrt(2 gap / mass) of a gap known not to be negative."""
    share = 2 * gap / mass
    return share.sqrt() if share > 0 else abs(share).upper().sqrt()  # a ball that holds zero: from above


def proof_of(bound: Any, y: Array, weights: Sequence[Any], tolerance: float, bits: int) -> Proof:
    """The record from a bound and the spread of y."""
    accuracy = above(bound)
    reason = "" if np.isfinite(accuracy) else f"{bits} bits are not enough"
    rounding = y.size * EPS * float(np.abs(y).max(initial=0.0))
    return Proof(accuracy, spread_below(balls(y), weights), tolerance, rounding, bits, reason)
