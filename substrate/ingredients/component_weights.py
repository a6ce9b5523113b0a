r"""The weights of maximal variations: one number for all components, or one for each.

.. math:: \rho \sum_l t_l \qquad \text{or} \qquad \sum_l \rho_l t_l, \quad \rho_l > 0 .

Groups of components that share a number are a vector with equal entries. One number is computed with as such, in the
order of operations that it always had, so that results with it do not depend on vectors being possible.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from substrate.arrays import Array, positive, real_array
from substrate.errors import DeclarationError

__all__ = ["Weights", "each_weight", "penalty", "weights_of"]

#: One number for all components, or one for each.
Weights = float | Array


def weights_of(rho: Any, components: int | None = None, name: str = "rho") -> Weights:
    """Return the weights that were given: a positive number, or one for each component, of which there are so many."""
    if not isinstance(rho, (list, tuple)) and np.ndim(rho) != 1:
        return positive(rho, name)
    weights = list(rho)
    if components is not None and len(weights) != components:
        raise DeclarationError(
            f"{name} must be one number or one for each component: expected {components}, received {len(weights)}"
        )
    return real_array([positive(weight, f"{name}[{k}]") for k, weight in enumerate(weights)], name, ndim=1)


def penalty(rho: Weights, t: Array) -> float:
    """Return sum_l rho_l t_l."""
    return float(rho @ t) if isinstance(rho, np.ndarray) else float(rho * t.sum())


def each_weight(rho: Weights, components: int) -> Iterator[float]:
    """Yield the weight of every component in turn."""
    yield from (float(weight) for weight in np.broadcast_to(rho, components))
