r"""The bounds of the L1 substrates, dense and on a reduced basis, and of the Huber LS-SVM in ball arithmetic.

Each is the formula of the certificate, from the stored numbers: :func:`~substrate.penalized.l1.accuracy.bound_l1` and
:func:`~substrate.penalized.huber.accuracy.bound_huber`. In balls the step of an L1 substrate's dual point is known, not
only its length, and so is what it changes in the correlations.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.balls import Balls, BallTable, root_of
from substrate.certificates.tolerance import Tolerance
from substrate.kernels import Kernel
from substrate.penalized.huber.accuracy import HuberMachine, bound_huber
from substrate.penalized.l1.accuracy import DualPoint, SparseAnswer, bound_l1
from substrate.penalized.squared_hinge.accuracy import HingeMachine, bound_squared_hinge
from substrate.proof import Proof, ball, balls, flint, formula_of, precision
from substrate.proof.least_squares import given_values, points_of, proof_of
from substrate.proof.reduced import BasisRows, GivenRows

__all__ = ["prove_huber", "prove_reduced_l1", "prove_sparse", "prove_squared_hinge"]

_BITS = 160
#: Correlations on a basis may exceed zeta by more powers of ten than fewer bits resolve.
_REDUCED_BITS = 200
_NOT_FINITE = "the model holds numbers that are not finite"


def prove_sparse(kernel: Kernel, X: Any, machine: SparseAnswer, tolerance: Tolerance, *, bits: int = _BITS) -> Proof:
    """Return the proof for one output of an L1 substrate with a coefficient for every row."""
    is_given = kernel.pairwise or not kernel.trusted
    keys = given_values(kernel, X).T if is_given else _dense(X)
    return _prove_l1(lambda: _kernel_values(kernel, X), keys, machine, tolerance, bits)


def prove_reduced_l1(
    rows: BasisRows | GivenRows,
    y: Array,
    zeta: float,
    beta: Array,
    fitted: Array,
    v: Array,
    tolerance: Tolerance,
    *,
    bits: int = _REDUCED_BITS,
) -> Proof:
    """Return the proof for one output of the L1 substrate on a basis; ``beta`` has an entry for every basis vector."""
    machine = SparseAnswer(y=y, zeta=zeta, a=beta, b=0.0, fitted=fitted, weights=v, zero_sum=False)
    keys = np.asarray(rows.X).T if isinstance(rows, GivenRows) else _dense(rows.points)
    return _prove_l1(lambda: rows.matrix(rows.X), keys, machine, tolerance, bits)


def _prove_l1(
    values: Callable[[], Sequence[Sequence[Any]]], keys: Array, machine: SparseAnswer, tolerance: Tolerance, bits: int
) -> Proof:
    """Return the proof from the values of all columns, with more bits if needed; equal columns have equal keys."""
    v = np.ones(machine.y.size) if machine.weights is None else machine.weights
    if not machine.finite:
        return Proof.of(math.inf, tolerance, bits, _NOT_FINITE)
    groups = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    proofs: list[Proof] = []
    for many in (bits, 4 * bits):
        with precision(many):
            bound = bound_l1(machine, Balls, _WeightedBallColumns(BallTable.of(values()), v, groups))
            proofs.append(proof_of(bound.value, tolerance, many))
        if proofs[-1].proved:
            break
    return min(proofs, key=lambda proof: proof.accuracy)


@dataclass(frozen=True, slots=True)
class _WeightedBallColumns:
    """Columns of kernel values in balls, and weights of their rows."""

    table: BallTable
    weights: Array
    labels: Any

    def products(self, x: Balls) -> Balls:
        return self.table @ x

    def adjoint(self, z: Balls) -> Balls:
        return self.table.T @ z

    def groups(self, some: Any) -> Any:
        return self.labels[some]

    def step(self, some: Any, left: Balls, point: DualPoint) -> tuple[Any, Any, Any] | None:
        """Solve H x = left - nu, where nu is free with 1'x = 0; None where the bits do not tell these columns apart."""
        matrix, v, zero = self.table.matrix, balls(self.weights), ball(0.0)
        (n, k), places, tau = (matrix.nrows(), some.size), some.tolist(), ball(point.ridge)
        mass, d = sum(v, zero), left.values.tolist()
        columns = [[matrix[i, j] for i in range(n)] for j in places]
        means = [sum((w * value for w, value in zip(v, column, strict=True)), zero) / mass for column in columns]
        C = flint().arb_mat(n, k, [columns[j][i] - means[j] for i in range(n) for j in range(k)])
        pulled = flint().arb_mat(n, k, [v[i] * C[i, j] for i in range(n) for j in range(k)])
        H = (pulled.transpose() * C).tolist()
        if point.ridge > 0.0:
            H = [[H[i][j] + tau * matrix[places[i], places[j]] for j in range(k)] for i in range(k)]
        if point.zero_sum:
            H, d = [*([*row, ball(1.0)] for row in H), [*[ball(1.0)] * k, zero]], [*d, zero]
        try:
            solved = flint().arb_mat(H).solve(flint().arb_mat(len(d), 1, d)).entries()
        except ZeroDivisionError:
            return None
        x, nu = solved[:k], solved[k] if point.zero_sum else zero
        size = root_of(sum(((entry - nu) * factor for entry, factor in zip(d[:k], x, strict=True)), zero))
        change = self.table.T @ Balls((pulled * flint().arb_mat(k, 1, x)).entries())
        if point.ridge > 0.0:
            change = change + self.table @ (Balls(x).place(some, matrix.ncols()) * point.ridge)
        return Balls(nu), Balls(size), change


def prove_huber(kernel: Kernel, X: Any, machine: HuberMachine, tolerance: Tolerance, *, bits: int = _BITS) -> Proof:
    """Return the proof for a machine; a kernel of unknown origin counts as semi-definite."""
    if not machine.is_sound:
        return Proof.of(math.inf, tolerance, bits, _NOT_FINITE)
    with precision(bits):
        bound, about = bound_huber(replace(machine, negative=0.0), Balls, _BallKernel(Balls(_kernel_values(kernel, X))))
        return proof_of(bound.value, tolerance, bits, about)


def prove_squared_hinge(
    kernel: Kernel, X: Any, machine: HingeMachine, tolerance: Tolerance, *, bits: int = _BITS
) -> Proof:
    """Return the proof for a 2-norm SVM; a kernel of unknown origin counts as semi-definite."""
    if not machine.is_sound:
        return Proof.of(math.inf, tolerance, bits, _NOT_FINITE)
    with precision(bits):
        values = _BallKernel(Balls(_kernel_values(kernel, X)))
        bound, about = bound_squared_hinge(replace(machine, negative=0.0), Balls, values)
        return proof_of(bound.value, tolerance, bits, about)


@dataclass(frozen=True, slots=True)
class _BallKernel:
    """A kernel matrix in balls."""

    matrix: Balls
    has_blocks: bool = True

    def products(self, x: Balls) -> Balls:
        return self.matrix @ x

    def small_products(self, x: Balls) -> Balls:
        return self.matrix @ x

    def diagonal(self) -> Balls:
        return Balls(self.matrix.values.diagonal())

    def block(self, rows: Any, columns: Any) -> Balls:
        return Balls(self.matrix.values[np.ix_(rows, columns)])


def _dense(X: Any) -> Array:
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def _kernel_values(kernel: Kernel, X: Any) -> list[list[Any]]:
    """Return all kernel values in balls; a matrix or a function is defined by its values."""
    if kernel.pairwise or not kernel.trusted:
        return [balls(row) for row in given_values(kernel, X)]
    points = points_of(X)
    formula = formula_of(kernel, len(points[0]))
    lower = [[formula(x, points[j]) for j in range(i + 1)] for i, x in enumerate(points)]
    return [[lower[max(i, j)][min(i, j)] for j in range(len(points))] for i in range(len(points))]
