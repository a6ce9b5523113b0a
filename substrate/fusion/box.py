"""The box of several parameters: what the user asked for, checked, and the defaults."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = ["Box", "check_box", "levels", "parameters_of", "reciprocal_ends"]

Box = tuple[tuple[float, float], ...]

#: The default of a ridge weight, which must not be zero.
RIDGE = (1e-3, 1e3)
#: Ratio of neighbouring knots of the first grid, and how many there are above zero, by the number of parameters.
_GROWTH = 4.0
_LEVELS = {1: 6, 2: 5, 3: 3}
_MOST = 3


def parameters_of(machine: Any, over: Sequence[Any]) -> list[Any]:
    """Return the parameters of a machine, given as such or by name."""
    if len(over) > _MOST:
        raise DeclarationError(
            f"fuse searches two or three parameters with a proof, received {len(over)}: the number of solves grows too "
            "fast beyond that; give all but three a value (parameter.value = ...) and fuse over the others"
        )
    by_name = {parameter.name(): parameter for parameter in machine.problem.parameters()}
    names = [_name(candidate) for candidate in over]
    for name in names:
        if name not in by_name:
            raise DeclarationError(f"the machine has no parameter {name!r}; it has {sorted(by_name)}")
        weighs = any(candidate is by_name[name] for candidate in machine.problem.objective.parameters())
        if not by_name[name].is_scalar() or (weighs and not by_name[name].is_nonneg()):
            raise DeclarationError(
                f"{name!r} must be one non-negative number: cp.Parameter(nonneg=True, name={name!r})"
            )
    if len(set(names)) != len(names):
        raise DeclarationError(f"a parameter is named twice: {names}")
    missing = sorted(
        name_of_other
        for name_of_other, candidate in by_name.items()
        if name_of_other not in names and candidate.value is None
    )
    if missing:
        raise DeclarationError(f"parameters {missing} have no value; give them one before fusing over {names}")
    return [by_name[name] for name in names]


def _name(parameter: Any) -> str:
    name = parameter.name() if isinstance(parameter, cp.Parameter) else parameter
    if not isinstance(name, str):
        raise DeclarationError(f"over holds cvxpy.Parameters or their names, received {parameter!r}")
    return name


def check_box(box: Any, names: Sequence[str], ridge: str | None, signed: bool = False) -> Box:
    """Return the ends of each parameter in the order of names; an infinite upper end is one that is chosen later.

    ``signed`` accepts negative ends, as of a bound in a constraint.
    """
    if box is not None and not isinstance(box, Mapping):
        raise DeclarationError(f"box is a dict of (low, high) by parameter or name, received {box!r}")
    ends_by_name = {_name(key): ends for key, ends in (box or {}).items()}
    unknown = sorted(set(ends_by_name) - set(names))
    if unknown:
        raise DeclarationError(f"box has ends for {unknown}, which are not fused over; over has {list(names)}")
    return tuple(_ends(name, ends_by_name.get(name), name == ridge, signed) for name in names)


def _ends(name: str, ends: Any, ridge: bool, signed: bool) -> tuple[float, float]:
    if ends is None:
        return RIDGE if ridge else (0.0, math.inf)
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"box[{name!r}] must be two numbers (low, high), received {ends!r}") from error
    if not (low < high if signed else 0.0 <= low < high):
        raise DeclarationError(f"box[{name!r}] must have 0 <= low < high, received {ends!r}")
    if ridge and low == 0.0:
        raise DeclarationError(
            f"{name!r} weighs a quadratic term, so its lower end must be above zero, where only it may determine "
            f"the machine; received {ends!r}, try ({RIDGE[0]:g}, {high:g})"
        )
    if ridge and math.isinf(high):
        raise DeclarationError(
            f"{name!r} weighs a quadratic term, and a large weight of one changes the machine for ever; give "
            f"box[{name!r}] a finite upper end, received {ends!r}"
        )
    return low, high


def reciprocal_ends(ends: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of one over a positive weight; those of the weight, given those of one over it."""
    low, high = ends
    return (0.0 if math.isinf(high) else 1.0 / high), (math.inf if low == 0.0 else 1.0 / low)


def levels(ends: tuple[float, float], parameters: int) -> Array:
    """Return the values of one parameter in the first grid: geometric, from the upper end down."""
    low, high = ends
    count = _LEVELS[parameters]
    if low == 0.0:
        return np.append(0.0, high / _GROWTH ** np.arange(count)[::-1])
    count = max(1, min(count, round(math.log(high / low, _GROWTH))))
    values = np.geomspace(low, high, count + 1)
    values[0], values[-1] = low, high
    return np.asarray(values)
