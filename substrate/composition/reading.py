"""What a machine reads of w at points: values of f, of a component or of a derivative, and their inner products."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.composition.level import Substrate
from substrate.composition.place_holders import PlaceHolder

__all__ = ["Reading", "inner_products", "points_of", "read", "reading_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """f without its bias, its component ``part`` or its derivative in input ``column``, at points (None: training)."""

    points: Any = None
    part: int | None = None
    column: int | None = None


def reading_of(holder: PlaceHolder) -> Reading:
    """What a place-holder of values reads."""
    return read(holder.role, holder.points, holder.part)


def read(role: str, points: Any, part: int) -> Reading:
    """What a role reads at points; ``part`` is the component, or the input of a derivative."""
    return Reading(points, part if role == "component" else None, part if role == "gradient" else None)


def inner_products(substrate: Substrate, left: Reading, right: Reading) -> Array:
    """The matrix of all inner products of the representers of two readings."""
    P, Q = points_of(substrate, left), points_of(substrate, right)
    if left.part is not None and right.part is not None and left.part != right.part:
        return np.zeros((P.shape[0], Q.shape[0]))
    part = right.part if left.part is None else left.part
    kernel = substrate.kernel if part is None else substrate.components[part]
    if left.column is not None and right.column is not None:
        return kernel.mixed_derivative(P, Q, left.column, right.column)
    if left.column is not None:
        return kernel.gradient(P, Q, left.column)
    if right.column is not None:
        return kernel.gradient(Q, P, right.column).T
    if right.points is substrate.basis:
        return substrate.kernel_rows(left.points, part)
    return np.asarray(kernel(P) if P is Q else kernel(P, Q))


def points_of(substrate: Substrate, reading: Reading) -> Any:
    """The points of a reading."""
    return substrate.X if reading.points is None else reading.points
