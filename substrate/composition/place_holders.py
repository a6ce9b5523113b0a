"""Variables that stand for values of a substrate until a machine replaces them."""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp

__all__ = ["PlaceHolder", "Standing"]


class Standing(cp.Variable):  # type: ignore[misc]
    """The variable of a place-holder: it stands for values of a substrate, and is never passed to a solver."""


@dataclass(frozen=True, slots=True, eq=False)
class PlaceHolder:
    """A variable that stands for values of the machine at ``points`` (None: training).

    ``part`` is the number of a component, or the input of a derivative.
    """

    leaf: Any
    role: str
    points: Any = None
    part: int = 0
