r"""The bounds of the L1 substrate and of maximal variation in ball arithmetic, from the stored numbers.

Each is the formula of the certificate, :func:`~substrate.penalties.bound_distance`, for exact kernel values. Maximal
variation is the machine in the directions of its coordinates, whose values at the rows are plain numbers as double
precision computed them; the stored expansion in exact kernel values is compared with what ``predict`` returned.
"""

import math
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.balls import BallTable
from substrate.certificates.tolerance import Tolerance
from substrate.kernels import Kernel
from substrate.penalties import BallColumns, OneNorm, VariationMachine, bound_distance
from substrate.proof import Proof, balls, flint, formula_of, precision
from substrate.proof.least_squares import given_values, points_of, proof_of

__all__ = ["prove_l1", "prove_variation"]

_BITS = 160
_NOT_FINITE = "the model holds numbers that are not finite"


def prove_l1(
    kernel: Kernel,
    X: Any,
    points: Any,
    y: Array,
    penalty: OneNorm,
    a: Array,
    fitted: Array,
    weights: Array,
    tolerance: Tolerance,
    ridge: float = 0.0,
) -> Proof:
    """Return the proof of one output of an L1 substrate, with more bits if needed.

    ``points`` are those of the expansion, or the numbers of columns of a given matrix.
    """
    if not (np.isfinite(a).all() and np.isfinite(fitted).all()):
        return Proof.of(math.inf, tolerance, _BITS, _NOT_FINITE)
    proofs: list[Proof] = []
    for bits in (_BITS, 4 * _BITS):
        with precision(bits):
            basis = X[points] if kernel.pairwise else points
            energy = kernel_table(kernel, basis, points).matrix if ridge > 0.0 else None
            columns = BallColumns(kernel_table(kernel, X, points).matrix, weights, True, ridge, energy)
            bound = bound_distance(columns, penalty, y, a, fitted).value
            proofs.append(proof_of(bound, tolerance, bits))
        if proofs[-1].proved:
            break
    return min(proofs, key=lambda proof: proof.accuracy)


def prove_variation(
    kernels: Sequence[Kernel],
    X: Any,
    points: Any,
    machine: VariationMachine,
    y: Array,
    coefficients: Sequence[Array],
    bias: float,
    fitted: Array,
    tolerance: Tolerance,
) -> Proof:
    """Return the proof for one machine of maximal variation, with the stored coefficients of every component."""
    if not all(np.isfinite(numbers).all() for numbers in (fitted, machine.v, *coefficients)):
        return Proof.of(math.inf, tolerance, _BITS, _NOT_FINITE)
    with precision(_BITS):
        parts = [BallTable.of([balls(row) for row in component]) for component in machine.components]
        W = flint().arb_mat(machine.root.tolist())
        F = reduce(add, [part.matrix for part in parts])
        columns = BallColumns(F, machine.weights, machine.bias, machine.ridge, W.transpose() * W)
        bound = bound_distance(columns, machine.penalty(parts), y, machine.v, fitted)
        expansions = [kernel_table(kernel, X, points) @ a for kernel, a in zip(kernels, coefficients, strict=True)]
        stored = reduce(add, expansions) + bias
        return proof_of((bound + (stored - fitted).bound_norm(machine.weights)).value, tolerance, _BITS)


def kernel_table(kernel: Kernel, X: Any, points: Any) -> BallTable:
    """Return exact kernel values of rows and points; a matrix or a function is defined by its values."""
    if kernel.pairwise:
        return BallTable.of([balls(row) for row in given_values(kernel, X)[:, points]])
    if not kernel.trusted:
        return BallTable.of([balls(row) for row in np.asarray(kernel(X, points))])
    rows, columns = points_of(X), points_of(points)
    formula = formula_of(kernel, len(columns[0]))
    return BallTable.of([[formula(x, z) for z in columns] for x in rows])
