"""Machines with a loss for every row in ball arithmetic, by the bound of certificates, :mod:`~substrate.bounds`."""

from collections.abc import Callable

from substrate.arrays import Array
from substrate.bounds import Point, RowMachine, bound_rows
from substrate.certificates import Tolerance
from substrate.proof import Proof, precision, tolerance_in_balls

__all__ = ["prove_rows"]

_BITS = 160


def prove_rows(
    machine: RowMachine, enclose: Callable[[], Point], g: Array, y: Array, weights: Array, share: float
) -> Proof:
    """Return the proof for one machine with slopes g of its losses, where ``share`` of the spread of y is permitted.

    ``enclose`` returns the function of the machine in balls of the present precision.
    """
    permitted = Tolerance.of_page(y, weights, share)
    tolerance = tolerance_in_balls(y, weights, share)._replace(rounding=permitted.rounding)
    with precision(_BITS):
        bound = bound_rows(machine, enclose(), g, tolerance.largest_radius)
    return Proof.of(bound.radius, tolerance, _BITS, about=bound.about)
