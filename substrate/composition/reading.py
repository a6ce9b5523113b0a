"""What a machine reads of w at points: values of f, of a component or of an operator, and their inner products."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.composition.level import Substrate
from substrate.composition.linear_operators import (
    VALUE,
    Functional,
    inner_product_matrix,
)
from substrate.composition.place_holders import PlaceHolder

__all__ = ["Reading", "inner_products", "points_of", "read", "reading_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """f without its bias, its component ``part`` or what an operator makes of it, at points (None: training)."""

    points: Any = None
    part: int | None = None
    operator: Functional | None = None


def reading_of(holder: PlaceHolder) -> Reading:
    """Return what a place-holder of values reads."""
    return read(holder.role, holder.points, holder.part)


def read(role: str, points: Any, part: Any) -> Reading:
    """Return what a role reads at points; ``part`` is the component, or the operator."""
    return Reading(points, part if role == "component" else None, part if role == "operator" else None)


def inner_products(substrate: Substrate, left: Reading, right: Reading) -> Array:
    """Return the matrix of all inner products of the representers of two readings."""
    P, Q = points_of(substrate, left), points_of(substrate, right)
    if left.part is not None and right.part is not None and left.part != right.part:
        return np.zeros((P.shape[0], Q.shape[0]))
    component = right.part if left.part is None else left.part
    kernel = substrate.kernel if component is None else substrate.components[component]
    if left.operator is not None or right.operator is not None:
        return inner_product_matrix(kernel, left.operator or VALUE, P, right.operator or VALUE, Q)
    if right.points is substrate.basis:
        return substrate.kernel_rows(left.points, component)
    return np.asarray(kernel(P) if P is Q else kernel(P, Q))


def points_of(substrate: Substrate, reading: Reading) -> Any:
    """Return the points of a reading."""
    return substrate.X if reading.points is None else reading.points
