"""The matrix from the solution of a machine's program to the validation values of its outputs."""

from collections.abc import Mapping

import numpy as np

from substrate.arrays import Array
from substrate.composition import LinearPart, Machine
from substrate.composition.outputs import columns_of
from substrate.composition.terms import Term
from substrate.fusion.validation import ValidationSet

__all__ = ["output_map", "weighed_map"]


def output_map(machine: Machine, columns: Mapping[int, int], size: int, validation_set: ValidationSet) -> Array:
    """Return the values of all outputs that are validated, by output and column; ``columns`` has the places."""
    terms = [machine.outputs.terms[name] for name in validation_set.targets]
    return np.vstack(
        [
            _map(machine, dict(columns), size, term, validation_set.X, k)
            for term in terms
            for k in range(*columns_of(term[0]) or (1,))
        ]
    )


def _map(
    machine: Machine, columns: dict[int, int], size: int, terms: tuple[Term, ...], X_val: Array, column: int
) -> Array:
    """Return the matrix that takes a solution of the program to the values of one output, or of one of its columns."""
    M = np.zeros((X_val.shape[0], size))
    for compiled in machine._compiled:
        if any(compiled.substrate is term for term in terms):
            block = compiled.values_at(X_val, column)
            ones = np.ones((X_val.shape[0], int(compiled.substrate.bias)))
            M[:, compiled.places(columns, column)] += np.hstack([block, ones])
    for linear_part in (term for term in terms if isinstance(term, LinearPart)):
        M[:, linear_part.places(columns, column)] += linear_part.matrix(X_val, "X_val")
    return M


def weighed_map(
    machine: Machine, columns: Mapping[int, int], size: int, validation_set: ValidationSet
) -> tuple[Array, Array]:
    """Return the same times the roots of the rows' weights, and the targets times them: the weighted squares are
    squares.
    """
    M = output_map(machine, columns, size, validation_set)
    if validation_set.weights is None:
        return M, validation_set.stacked_targets
    return validation_set.roots[:, None] * M, validation_set.roots * validation_set.stacked_targets
