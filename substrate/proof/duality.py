r"""The bounds of the L1 substrate, by duality, and of the Huber LS-SVM in ball arithmetic, from the stored numbers.

As in :mod:`~substrate.penalized.l1.accuracy`, P - Q is a sum of terms that cannot be negative, of a
primal point that is made feasible exactly and a dual one that is shrunk into its set, and with squared errors, with or
without a ridge on w,

.. math:: \|f - f^\star\| \le \|f - \tilde f\| + \sqrt{2 (P - Q)} .

A Huber LS-SVM is bounded by the formula of its certificate, :func:`~substrate.penalized.huber.accuracy.bound_huber`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.balls import Balls
from substrate.certificates.rows import ACCURATE
from substrate.kernels import Foreign, Kernel
from substrate.penalized.huber.accuracy import HuberMachine, bound_huber
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
    kernel: Kernel, X: Any, machine: HuberMachine, *, tolerance: float = ACCURATE, bits: int = _BITS
) -> Proof:
    """Return the proof for a machine; a kernel of unknown origin counts as semi-definite."""
    if not machine.finite:
        return Proof(float("inf"), 0.0, tolerance, 0.0, bits, "the model holds numbers that are not finite")
    with precision(bits):
        bound, about = bound_huber(replace(machine, negative=0.0), Balls, _BallKernel(_kernel_matrix(kernel, X)))
        return proof_of(bound.value, machine.y, balls(machine.weights), tolerance, bits, about)


@dataclass(frozen=True, slots=True)
class _BallKernel:
    """A kernel matrix in balls."""

    matrix: Balls
    has_blocks: bool = True

    def products(self, x: Balls) -> Balls:
        return self.matrix @ x

    def less(self, product: Balls, correction: Balls) -> Balls:
        return Balls(product.values - (self.matrix @ correction).values)

    def diagonal(self) -> Balls:
        return Balls(self.matrix.values.diagonal())

    def block(self, rows: Any, columns: Any) -> Balls:
        return Balls(self.matrix.values[np.ix_(rows, columns)])


def _kernel_matrix(kernel: Kernel, X: Any) -> Balls:
    """Return all kernel values in balls; a matrix or a function is defined by its values."""
    if kernel.pairwise or isinstance(kernel, Foreign):
        dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        return Balls.exact(dense if kernel.pairwise else np.asarray(kernel(dense)))
    points = points_of(X)
    formula = formula_of(kernel, len(points[0]))
    return Balls([[formula(x, z) for z in points] for x in points])
