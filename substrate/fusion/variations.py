"""Maximal variations of the components of a machine along its knots."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.composition import Machine

__all__ = ["component_variations"]


def component_variations(machine: Machine, fold: Any, knots: Sequence[Any]) -> Array | None:
    """Return the maximal variation of every component at the knots, where a machine has components."""
    compiled = machine._compiled[0]
    components = compiled.frame.components
    if len(machine._compiled) > 1 or components is None or len(components) < 2:
        return None
    sizes = np.zeros((len(knots), len(components)))
    for column in range(*compiled.substrate.columns or (1,)):
        places = compiled.places(fold.program.columns, column)[: components[0].shape[1]]
        Z = np.array([knot.x[places] for knot in knots]) * fold.program.unit
        if compiled.frame.kind == "coefficients":
            signs = compiled.substrate.signs
            Z = Z * signs.reshape(signs.shape[0], -1)[:, column]
        sizes = np.maximum(sizes, np.column_stack([np.abs(Z @ component.T).max(axis=1) for component in components]))
    return sizes
