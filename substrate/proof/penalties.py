r"""The bounds of the L1 substrate and of maximal variation in ball arithmetic, from the stored numbers.

Each is the formula of the certificate, :func:`~substrate.penalties.bound_distance`, for exact kernel values. Maximal
variation is the machine in the directions of its coordinates, whose values at the rows are plain numbers as double
precision computed them; the stored expansion in exact kernel values is compared with what ``predict`` returned.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from substrate.arrays import Array
from substrate.balls import Balls
from substrate.certificates import Tolerance
from substrate.kernels import Kernel
from substrate.penalties import BallColumns, OneNorm, VariationMachine, bound_distance
from substrate.proof import Proof
from substrate.proof.least_squares import ball_matrix, prove_bound

__all__ = ["prove_l1", "prove_variation"]

_BITS = 160


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

    ``points`` are the points of the expansion, or the numbers of columns of a given matrix.
    """
    basis = X[points] if kernel.pairwise else points

    def bound() -> Any:
        energy = ball_matrix(kernel, basis, points) if ridge > 0.0 else None
        columns = BallColumns(ball_matrix(kernel, X, points), weights, True, ridge, energy)
        return bound_distance(columns, penalty, y, a, fitted)

    return prove_bound(bound, tolerance, _BITS)


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

    def enclosed() -> Any:
        parts, W = [Balls.exact(component) for component in machine.components], Balls.exact(machine.root)
        columns = BallColumns(reduce(add, parts), machine.weights, machine.bias, machine.ridge, W.T @ W)
        bound = bound_distance(columns, machine.penalty(parts), y, machine.v, fitted)
        expansions = [ball_matrix(kernel, X, points) @ a for kernel, a in zip(kernels, coefficients, strict=True)]
        stored = reduce(add, expansions) + bias
        return bound + (stored - fitted).bound_norm(machine.weights)

    return prove_bound(enclosed, tolerance, _BITS)
