"""The matrix from the solution of a machine's program to the validation values of its outputs."""

from collections.abc import Mapping

import numpy as np

from substrate.arrays import Array
from substrate.composition import LinearPart, Machine
from substrate.composition.outputs import columns_of
from substrate.composition.terms import Term, WeightedTerm, base_of
from substrate.fusion.validation import ValidationSet

__all__ = ["output_map"]


def output_map(machine: Machine, columns: Mapping[int, int], size: int, validation_set: ValidationSet) -> Array:
    """Return the values of all outputs that are validated, by output and column; ``columns`` has the places."""
    terms = [machine.outputs.terms[name] for name in validation_set.targets]
    return np.vstack(
        [
            _map(machine, dict(columns), size, terms_of_output, validation_set.X, k)
            for terms_of_output in terms
            for k in range(*max(map(columns_of, terms_of_output)) or (1,))
        ]
    )


def _map(
    machine: Machine, columns: dict[int, int], size: int, terms: tuple[Term, ...], X_val: Array, column: int
) -> Array:
    """Return the matrix that takes a solution of the program to the values of one output, or of one of its columns."""
    M = np.zeros((X_val.shape[0], size))
    for term in terms:
        base, rows, weights = base_of(term), X_val, np.ones((X_val.shape[0], 1))
        if isinstance(term, WeightedTerm):
            rows, weights = term.take(X_val), term.weights(X_val)[:, None]
        for compiled in (compiled for compiled in machine._compiled if compiled.substrate is base):
            ones = np.ones((X_val.shape[0], int(compiled.substrate.bias)))
            block = np.hstack([compiled.values_at(rows, column), ones])
            M[:, compiled.places(columns, column)] += weights * block
        if isinstance(base, LinearPart):
            M[:, base.places(columns, column)] += weights * base.matrix(rows, "X_val")
    return M
