r"""How much floating point may change a formula, for all inputs of a box at once.

Every operation has an interval that holds its exact value :math:`v` for all inputs of the box, and two numbers with

.. math:: |\hat v - v| \le r |v| + a

for the computed :math:`\hat v`: a share of its size and an absolute part ([Higham2002]_ chapter 3). With the unit
roundoff :math:`u`, a product has :math:`r = r_1 + r_2 + r_1 r_2`, and then :math:`(1 + r)(1 + u) - 1`; a sum of terms
of one sign the larger share, and any other sum an absolute error. Of an exponential

.. math:: |e^{-\hat t} - e^{-t}| \le e^{-t (1 - r)} (e^a - 1) + e^{-t} (e^{r t} - 1) ,

whose first part is largest at the smallest :math:`t` and whose second one, which rises and falls, at
:math:`t = -\log(1 - r)/r`: a large exponent that is right to a share costs nothing, since its exponential is small. A
sum over points adds :math:`n u \sum_i |\alpha_i| |k_i|` to the errors of its terms, in whatever order it is formed
[Jeannerod2013]_.

Exponentials and powers are assumed right to four units of the last place, as in onnxruntime, and roots to half a unit.
Numbers below the smallest normal one may be lost. Where an intermediate number may overflow nothing is known, and the
bound is infinite.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.kernels.nodes import Node, NodeProgram, order_nodes
from substrate.numbers import at_most, relative_rounding

__all__ = ["DOUBLE", "LAST_PLACES", "SINGLE", "Arithmetic", "Format", "RoundingBound", "bound_rounding", "places_of"]

#: Units of the last place that an exponential or a power may be off by; each is two unit roundoffs.
LAST_PLACES = 4.0
#: The share by which the ends of an interval may be off: four units of the last place, in an exponential or a power.
_OUTWARD = relative_rounding(LAST_PLACES)


class Format(NamedTuple):
    """A format of numbers: its type in numpy, unit roundoff, smallest normal and largest number."""

    type: Any
    unit: float
    tiny: float
    largest: float

    @classmethod
    def of(cls, kind: Any) -> "Format":
        """Return the format of a type of numpy."""
        limits = np.finfo(kind)
        return cls(kind, float(limits.eps) / 2.0, float(limits.tiny), float(limits.max))


class Arithmetic(NamedTuple):
    """The formats of a program: of inputs and all that is inside a sum over points, and of sums and what follows."""

    name: str
    inside: Format
    outside: Format


#: Inputs, kernel values and points in single precision, sums and what follows in double.
SINGLE = Arithmetic("float32", Format.of(np.float32), Format.of(np.float64))
#: All in double precision.
DOUBLE = Arithmetic("float64", Format.of(np.float64), Format.of(np.float64))


@dataclass(frozen=True, slots=True)
class RoundingBound:
    """For all rows of ``box``, one line (lower, upper) per input: outputs are within ``losses`` of the exact formula.

    ``lows`` and ``highs`` roughly enclose the outputs there; ``arithmetic`` is the arithmetic of the program.
    """

    arithmetic: str
    box: Array
    losses: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]

    @property
    def loss(self) -> float:
        """The largest of all outputs."""
        return max(self.losses)


class _Known(NamedTuple):
    """An interval of the exact value, and what the computed one may be off by: a share of it, and an absolute part."""

    low: Any
    high: Any
    share: Any
    absolute: Any

    @property
    def size(self) -> Any:
        """The largest absolute value."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def error(self) -> Any:
        """The largest absolute error."""
        return _times(self.share, self.size) + self.absolute


def bound_rounding(program: NodeProgram, box: Array, arithmetic: Arithmetic) -> RoundingBound:
    """Bound the error of the arithmetic in the first output of a program, for all inputs of the box."""
    roots = program.outputs[0].nodes
    order = order_nodes(roots)
    wanted = places_of(order, roots)
    bounded: dict[tuple[Node, str], _Known] = {}
    with np.errstate(all="ignore"):
        for node in order:
            for place in sorted(wanted[node]):
                inner = "inside" if node.operation == "total" else place
                operands = [bounded[operand, inner] for operand in node.operands]
                form = getattr(arithmetic, place)
                entry = _bound(node, operands, form, arithmetic.inside, box)
                if node.operation in ("root", "exponential"):
                    entry = _sharper(node, entry, [bounded[square, inner] for square in _squares_of(node)], form)
                bounded[node, place] = _checked(entry, form)
        entries = [bounded[node, "outside"] for node in roots]
        return RoundingBound(
            arithmetic=arithmetic.name,
            box=box,
            losses=tuple(_number(at_most(1.0) * entry.error, math.inf) for entry in entries),
            lows=tuple(_number(entry.low, -math.inf) for entry in entries),
            highs=tuple(_number(entry.high, math.inf) for entry in entries),
        )


def _number(value: Any, unknown: float) -> float:
    number = float(np.max(value)) if unknown > 0.0 else float(np.min(value))
    return unknown if math.isnan(number) else number


def places_of(order: list[Node], roots: Sequence[Node]) -> dict[Node, set[str]]:
    """Return where every node is needed: inside a sum over points, outside, or both."""
    wanted: dict[Node, set[str]] = {node: set() for node in order}
    for node in roots:
        wanted[node].add("outside")
    for node in reversed(order):
        for operand in node.operands:
            wanted[operand] |= {"inside"} if node.operation == "total" else wanted[node]
    return wanted


def _checked(entry: _Known, form: Format) -> _Known:
    """Return an entry that says nothing where a number may overflow or be none."""
    safe = (entry.size + entry.error < 0.99 * form.largest) & np.isfinite(entry.share) & (entry.share < 0.5)
    if np.all(safe):
        return entry
    return _Known(
        np.where(np.isnan(entry.low), -np.inf, entry.low),
        np.where(np.isnan(entry.high), np.inf, entry.high),
        np.where(safe, entry.share, 0.0),
        np.where(safe, entry.absolute, np.inf),
    )


def _bound(node: Node, operands: list[_Known], form: Format, inputs: Format, box: Array) -> _Known:
    """Return the interval and the errors of one operation."""
    operation, value = node.operation, node.value
    if operation == "input":
        # a row that is given in single precision was rounded to it
        share = inputs.unit if inputs.type is np.float32 else 0.0
        return _Known(box[value, 0], box[value, 1], share, form.tiny if share else 0.0)
    if operation == "constant":
        rounded = float(form.type(value)) != value
        return _Known(value, value, form.unit if rounded else 0.0, form.tiny if rounded else 0.0)
    if operation == "coordinate":
        exact = node.points[:, value]
        rounded = exact.astype(form.type).astype(np.float64) != exact
        return _Known(exact, exact, np.where(rounded, form.unit, 0.0), np.where(rounded, form.tiny, 0.0))
    if operation == "total":
        return _total(operands[0], value, form)
    if operation == "differs":
        # a code is read as given; in single precision two codes may become one
        is_exact = form.type is np.float64 and inputs.type is np.float64
        return _Known(0.0, 1.0, 0.0, 0.0 if is_exact else np.inf)
    if operation not in _RULES:
        return _Known(-np.inf, np.inf, 0.0, np.inf)
    entry = _RULES[operation](operands, form)
    is_square = operation == "multiply" and node.operands[0] is node.operands[1]
    return entry._replace(low=np.maximum(entry.low, 0.0)) if is_square else entry


def _times(left: Any, right: Any) -> Any:
    """Return the product of bounds, where zero times infinity is zero."""
    return np.where((np.asarray(left) == 0.0) | (np.asarray(right) == 0.0), 0.0, np.multiply(left, right))


def _rounded(low: Any, high: Any, share: Any, absolute: Any, form: Format, roundings: float = 1.0) -> _Known:
    """Return an interval with the errors of the operands, and then of the operation itself.

    The ends of the interval were computed in double precision. What underflow may have hidden of a sign is less than
    the smallest number, which every operation adds to its error.
    """
    rounding = roundings * form.unit
    low, high = low - _OUTWARD * np.abs(low), high + _OUTWARD * np.abs(high)
    return _Known(low, high, share + rounding + share * rounding, absolute * (1.0 + rounding) + form.tiny)


def _sum(operands: list[_Known], form: Format) -> _Known:
    left, right = operands
    one_sign = ((left.low >= 0.0) & (right.low >= 0.0)) | ((left.high <= 0.0) & (right.high <= 0.0))
    share = np.where(one_sign, np.maximum(left.share, right.share), 0.0)
    absolute = np.where(one_sign, left.absolute + right.absolute, left.error + right.error)
    return _rounded(left.low + right.low, left.high + right.high, share, absolute, form)


def _product(operands: list[_Known], form: Format) -> _Known:
    left, right = operands
    corners = [_times(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    share = left.share + right.share + left.share * right.share
    absolute = _times(left.absolute, right.size) * (1.0 + right.share) + _times(right.absolute, left.size) * (
        1.0 + left.share
    )
    return _rounded(low, high, share, absolute + _times(left.absolute, right.absolute), form)


def _quotient(operands: list[_Known], form: Format) -> _Known:
    left, right = operands
    least = np.minimum(np.abs(right.low), np.abs(right.high))
    lowest = least * (1.0 - right.share) - right.absolute  # of the computed divisor
    sure = (right.low * right.high > 0.0) & (lowest > 0.0)
    corners = [a / b for a in (left.low, left.high) for b in (right.low, right.high)]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    relative = right.share + right.absolute / least
    share = (left.share + relative) / (1.0 - relative)
    absolute = np.where(sure, left.absolute / lowest, np.inf)
    return _rounded(np.where(sure, low, -np.inf), np.where(sure, high, np.inf), share, absolute, form)


def _exponential(operands: list[_Known], form: Format) -> _Known:
    (v,) = operands
    least, most = np.maximum(-v.high, 0.0), np.maximum(-v.low, 0.0)
    peak = np.where(v.share > 0.0, -np.log1p(-v.share) / np.where(v.share > 0.0, v.share, 1.0), 1.0)
    at = np.clip(peak, least, most)
    falling = np.exp(-least * (1.0 - v.share)) * np.expm1(v.absolute) + np.exp(-at) * np.expm1(v.share * at)
    rising = np.exp(v.high) * np.expm1(v.error)
    absolute = np.where(v.high > 0.0, rising, falling)
    return _rounded(np.exp(v.low), np.exp(v.high), 0.0, at_most(1.0) * absolute, form, 2.0 * LAST_PLACES)


def _root(operands: list[_Known], form: Format) -> _Known:
    (v,) = operands
    low, high = np.maximum(v.low, 0.0), np.maximum(v.high, 0.0)
    computed = np.sqrt(low * (1.0 - v.share))
    absolute = np.minimum(np.sqrt(v.absolute), np.where(computed > 0.0, v.absolute / computed, np.inf))
    return _rounded(np.sqrt(low), np.sqrt(high), v.share, absolute, form)


def _squares_of(node: Node) -> list[Node]:
    """Return the numbers whose squares are added up in a root, or in the exponential of the negative of that sum."""
    (operand,) = node.operands
    if node.operation == "exponential":
        if operand.operation != "negative":
            return []
        (operand,) = operand.operands
    squares, waiting = [], [operand]
    while waiting:
        part = waiting.pop()
        if part.operation == "add":
            waiting.extend(part.operands)
        elif part.operation == "multiply" and part.operands[0] is part.operands[1]:
            squares.append(part.operands[0])
        else:
            return []
    return squares


def _sharper(node: Node, entry: _Known, squares: list[_Known], form: Format) -> _Known:
    r"""Return a root of a sum of squares, or the exponential of its negative, with the smaller of two errors.

    A length changes by less than its vector, where the rule of the root takes an error of 1e-7 in a square for one of
    3e-4 in the length, which may be zero; and :math:`e^{-s^2}` changes by at most :math:`\sqrt{2 / e}` times what the
    length s does, where the rule of the exponential takes the largest difference of the box for every point.
    """
    if not squares:
        return entry
    count = len(squares)
    vector = np.sqrt(sum(np.square(v.error) for v in squares)) + np.sqrt(2.0 * count * form.tiny)
    of_sum = (count + 4.0) * form.unit
    share, absolute = (of_sum, vector) if node.operation == "root" else (entry.share, 0.86 * vector + 0.38 * of_sum)
    absolute = at_most(1.0) * absolute * (1.0 + 2.0 * LAST_PLACES * form.unit) + form.tiny
    sharper = absolute + share * entry.size < entry.error
    return _Known(
        entry.low, entry.high, np.where(sharper, share, entry.share), np.where(sharper, absolute, entry.absolute)
    )


def _power(operands: list[_Known], form: Format) -> _Known:
    """Bound the power of a number that is not negative: for an exponent up to one the power of the error."""
    v, exponent = operands
    e = exponent.high  # a constant, up to its rounding
    low, high = np.maximum(v.low, 0.0), np.maximum(v.high, 0.0)
    most = high * (1.0 + v.share) + v.absolute
    share = np.expm1(np.maximum(e, 1.0) * np.log1p(v.share))
    absolute = np.where(e <= 1.0, np.power(v.absolute, e), e * np.power(most, e - 1.0) * v.absolute)
    # v^e log v is at most 1/e of exp(1) below one, and rises above it
    off, large = exponent.share + exponent.absolute / e, np.maximum(most, 1.0)
    absolute = absolute + off * (0.5 + np.power(large, e * (1.0 + off)) * np.log(large) * e)
    return _rounded(np.power(low, e), np.power(high, e), share, at_most(1.0) * absolute, form, 2.0 * LAST_PLACES)


def _absolute(v: _Known) -> _Known:
    low = np.where((v.low <= 0.0) & (v.high >= 0.0), 0.0, np.minimum(np.abs(v.low), np.abs(v.high)))
    return _Known(low, v.size, v.share, v.absolute)


def _total(body: _Known, coefficients: Array, form: Format) -> _Known:
    """Add up the terms with their errors, the errors of the products and of the sum in any order."""
    sizes = np.abs(coefficients)
    ends = np.stack([np.broadcast_to(_times(coefficients, end), coefficients.shape) for end in (body.low, body.high)])
    largest = float(np.sum(_times(sizes, body.size + body.error)))
    rounding = at_most((coefficients.size + 1.0) * form.unit * largest)
    error = float(np.sum(_times(sizes, body.error)))
    low, high = float(np.min(ends, axis=0).sum()), float(np.max(ends, axis=0).sum())
    return _Known(low - rounding, high + rounding, 0.0, error + rounding + coefficients.size * form.tiny)


_RULES: Mapping[str, Callable[[list[_Known], Format], _Known]] = {
    "add": _sum,
    "multiply": _product,
    "divide": _quotient,
    "negative": lambda operands, form: _Known(-operands[0].high, -operands[0].low, *operands[0][2:]),
    "absolute": lambda operands, form: _absolute(operands[0]),
    "exponential": _exponential,
    "root": _root,
    "power": _power,
}
