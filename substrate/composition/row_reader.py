r"""Losses that are sums over the rows of a machine, read from their cvxpy expression.

For every training row the part of the objective that depends on the value f there is a convex function of one number,

.. math:: \ell(f) = \beta + \alpha f + \sum_k \ell_k(f) + \sum_k w_k \varphi_k(a_k f + c_k) ,

with functions :math:`\ell_k` whose slopes are linear by pieces (:class:`substrate.losses.PieceLoss`): kinks, parabolas,
and parabolas that end in straight lines; and :math:`\varphi` the exponential or :math:`\log(1 + e^x)`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression
from cvxpy.atoms.affine.index import index, special_index
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.unary_operators import NegExpression
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.losses import Exponential, LogisticRows, PieceLoss, RowLoss, SmoothLoss

__all__ = ["ReadLosses", "read_row_losses"]


def _pieces(places: list[Array], slopes: list[tuple[Any, Any]], curvature: list[Any], level: Any = 0.0) -> PieceLoss:
    """Return functions by their breakpoints, the slopes on both sides of each, and the curvatures between them."""
    n = places[0].size
    below, above = (np.column_stack([np.broadcast_to(pair[k], n) for pair in slopes]) for k in (0, 1))
    curved = np.column_stack([np.broadcast_to(values, n) for values in curvature])
    levels = np.broadcast_to(np.asarray(level, dtype=np.float64), n)
    return PieceLoss(np.column_stack(places), below, above, curved, np.zeros(n), levels)


@dataclass(frozen=True)
class _Entries:
    """Functions of single values, as the entries of an expression; ``rows`` says of which.

    They are ``constant`` + ``slope`` f and the sum of the losses. ``width`` is the size of the numbers that breakpoints
    are made of; ``vanishes`` that the function is zero between its breakpoints and positive elsewhere.
    """

    rows: NDArray[np.intp]
    constant: Array
    slope: Array
    losses: tuple[PieceLoss, ...] = ()
    smooth: tuple[SmoothLoss, ...] = ()
    width: Array = field(default_factory=lambda: np.zeros(1))
    vanishes: bool = False

    @property
    def is_affine(self) -> bool:
        """Return whether the term is a constant and a slope only."""
        return not self.losses and not self.smooth

    def of_losses(
        self, *losses: PieceLoss, constant: Any = 0.0, width: Any = 0.0, vanishes: bool = False
    ) -> "_Entries":
        """Return other functions of the same values."""
        zero = np.zeros_like(self.slope)
        return _Entries(self.rows, zero + constant, zero, losses, (), self.width + width, vanishes)

    def scale(self, factor: Any) -> "_Entries | None":
        """Return a multiple; None if that is not convex."""
        size = np.broadcast_to(np.asarray(factor, dtype=np.float64), self.rows.shape)
        if not self.is_affine and (size < 0.0).any():
            return None
        return replace(
            self,
            constant=self.constant * size,
            slope=self.slope * size,
            losses=tuple(_multiply(loss, size) for loss in self.losses),
            smooth=tuple(replace(piece, weight=piece.weight * size) for piece in self.smooth),
            vanishes=False,
        )

    def add(self, other: "_Entries") -> "_Entries | None":
        """Return a sum; None if the entries are of different rows."""
        if not np.array_equal(self.rows, other.rows):
            return None
        return _Entries(
            rows=self.rows,
            constant=self.constant + other.constant,
            slope=self.slope + other.slope,
            losses=self.losses + other.losses,
            smooth=self.smooth + other.smooth,
            width=np.maximum(self.width, other.width),
        )

    def _anchor(self) -> Array:
        """Return where an affine function is zero, and zero where it is constant."""
        return np.where(self.slope == 0.0, 0.0, -self.constant / np.where(self.slope == 0.0, 1.0, self.slope))

    def positive_part(self) -> "_Entries | None":
        """Return max(0, .) of an affine function, or of one with a single kink that falls and then rises."""
        if self.is_affine:
            flat, place = self.slope == 0.0, self._anchor()
            kink = _pieces([place], [(np.minimum(self.slope, 0.0), np.maximum(self.slope, 0.0))], [0.0, 0.0])
            constant = np.where(flat, np.maximum(self.constant, 0.0), 0.0)
            return self.of_losses(kink, constant=constant, width=np.abs(place), vanishes=not flat.any())
        if self.smooth or len(self.losses) > 1 or self.losses[0].places.shape[1] > 1 or self.losses[0].curvature.any():
            return None
        place, first, last = (values[:, 0] for values in (self._loss.places, self._loss.below, self._loss.above))
        first, last = first + self.slope, last + self.slope
        lowest = self._loss.level + self.constant + self.slope * place
        if not ((first < 0.0) & (last > 0.0)).all() or (lowest >= 0.0).any():
            return self if (lowest >= 0.0).all() else None
        ends = [place - lowest / first, place - lowest / last]
        width = np.abs(place) + np.abs(lowest) / np.minimum(-first, last)
        return self.of_losses(_pieces(ends, [(first, 0.0), (0.0, last)], [0.0] * 3), width=width, vanishes=True)

    @property
    def _loss(self) -> PieceLoss:
        (loss,) = self.losses
        return loss

    def absolute_value(self) -> "_Entries | None":
        """Return the size of an affine function."""
        if not self.is_affine:
            return self if self.vanishes else None
        place, steep = self._anchor(), np.abs(self.slope)
        constant = np.where(self.slope == 0.0, np.abs(self.constant), 0.0)
        return self.of_losses(_pieces([place], [(-steep, steep)], [0.0, 0.0]), constant=constant, width=np.abs(place))

    def squared(self) -> "_Entries | None":
        """Return the square of an affine function, or of one that vanishes between its breakpoints."""
        if self.is_affine:
            place, curvature = self._anchor(), 2.0 * self.slope**2
            constant = np.where(self.slope == 0.0, self.constant**2, 0.0)
            parabola = _pieces([place], [(0.0, 0.0)], [curvature, curvature])
            return self.of_losses(parabola, constant=constant, width=np.abs(place))
        if not self.vanishes:
            return None
        loss = self._loss
        kinks, first, last = loss.places.shape[1], 2.0 * loss.below[:, 0] ** 2, 2.0 * loss.above[:, -1] ** 2
        curvatures = [first, *[0.0] * (kinks - 1), last]
        return self.of_losses(_pieces(list(loss.places.T), [(0.0, 0.0)] * kinks, curvatures))

    def huber(self, bound: float) -> "_Entries | None":
        """Return the Huber function of an affine function: x^2 up to a bound, 2 M |x| - M^2 beyond."""
        if not self.is_affine or (self.slope == 0.0).any():
            return None
        place, half, steep = self._anchor(), bound / np.abs(self.slope), 2.0 * bound * np.abs(self.slope)
        ends, slopes = [place - half, place + half], [(-steep, -steep), (steep, steep)]
        return self.of_losses(
            _pieces(ends, slopes, [0.0, 2.0 * self.slope**2, 0.0], bound**2), width=np.abs(place) + half
        )

    def function(self, kind: type[SmoothLoss]) -> "_Entries | None":
        """Return a function with a derivative of an affine function."""
        if not self.is_affine or (self.slope == 0.0).any():
            return None
        zero = np.zeros_like(self.slope)
        return replace(self.of_losses(), smooth=(kind(zero + 1.0, self.slope, self.constant, zero),))


def _multiply(loss: PieceLoss, size: Array) -> PieceLoss:
    below, above, curvature = (values * size[:, None] for values in (loss.below, loss.above, loss.curvature))
    return replace(loss, below=below, above=above, curvature=curvature, level=loss.level * size)


def _maximum(terms: list[Any]) -> _Entries | None:
    """Return the largest of several: all but one affine, or numbers."""
    entries = [term for term in terms if isinstance(term, _Entries)]
    if not entries or any(term is None for term in terms):
        return None
    whole: _Entries | None = None
    for term in sorted(terms, key=lambda term: isinstance(term, _Entries) and not term.is_affine, reverse=True):
        this = term if isinstance(term, _Entries) else entries[0].of_losses(constant=term)
        if whole is None:
            whole = this
            continue
        negative = this.scale(-1.0) if this.is_affine else None
        difference = None if negative is None else whole.add(negative)
        # a maximum with zero keeps what is known of where it vanishes
        if difference is not None and not this.slope.any() and not this.constant.any():
            difference = whole
        over = None if difference is None else difference.positive_part()
        whole = over if over is None or difference is whole else over.add(this)
        if whole is None:
            return None
    return whole


def _constant_or_entries(expression: Any, leaf: Any) -> Any:
    return np.asarray(expression.value).ravel() if expression.is_constant() else _entries(expression, leaf)


def _entries(expression: Any, leaf: Any) -> _Entries | None:
    """Return the entries of an elementwise convex function of single values; None if it is something else."""
    if expression is leaf:
        return _Entries(rows=np.arange(leaf.size), constant=np.zeros(leaf.size), slope=np.ones(leaf.size))
    if expression.ndim > 1:
        return None
    arguments = expression.args
    if isinstance(expression, AddExpression):
        return _sum([_constant_or_entries(argument, leaf) for argument in arguments])
    if isinstance(expression, NegExpression):
        return _change(arguments[0], leaf, lambda entries: entries.scale(-1.0))
    if isinstance(expression, (cp.multiply, DivExpression)):
        return _multiple(expression, leaf)
    if isinstance(expression, (index, special_index)):
        return _change(arguments[0], leaf, lambda entries: _select(expression, entries))
    if isinstance(expression, cp.maximum):
        return _maximum([_constant_or_entries(argument, leaf) for argument in arguments])
    if _is_square(expression):
        return _change(arguments[0], leaf, _Entries.squared)
    functions: dict[type, Callable[[_Entries], _Entries | None]] = {
        cp.abs: _Entries.absolute_value,
        cp.huber: lambda entries: entries.huber(float(expression.M.value)),
        cp.exp: lambda entries: entries.function(Exponential),
        cp.logistic: lambda entries: entries.function(LogisticRows),
    }
    function = functions.get(type(expression))
    return None if function is None else _change(arguments[0], leaf, function)


def _change(argument: Any, leaf: Any, change: Callable[[_Entries], _Entries | None]) -> _Entries | None:
    """Return what a function makes of an argument; None if that is anything else."""
    entries = _entries(argument, leaf)
    return None if entries is None else change(entries)


def _sum(summands: list[Any]) -> _Entries | None:
    """Return the sum of entries and of numbers."""
    whole: _Entries | None = None
    for summand in (summand for summand in summands if summand is None or isinstance(summand, _Entries)):
        whole = summand if whole is None or summand is None else whole.add(summand)
        if whole is None:
            return None
    constants = [summand for summand in summands if not isinstance(summand, _Entries)]
    if whole is None or not constants:
        return whole
    return replace(whole, constant=whole.constant + sum(constants), vanishes=False)


def _multiple(expression: Any, leaf: Any) -> _Entries | None:
    first, second = expression.args
    is_quotient = isinstance(expression, DivExpression)
    constant, operand = (second, first) if is_quotient or second.is_constant() else (first, second)
    if not constant.is_constant() or operand.size != expression.size:
        return None
    factor = np.asarray(constant.value, dtype=np.float64).ravel()
    inner = operand.args[0] if isinstance(operand, Promote) else operand
    return _change(inner, leaf, lambda entries: entries.scale(1.0 / factor if is_quotient else factor))


def _select(expression: Any, entries: _Entries) -> _Entries | None:
    if not entries.is_affine:
        return None
    rows, width = entries.rows, np.broadcast_to(entries.width, entries.rows.shape)
    chosen = (np.atleast_1d(expression.numeric([values])) for values in (rows, entries.constant, entries.slope, width))
    rows, constant, slope, width = chosen
    return _Entries(rows.astype(np.intp), constant, slope, width=width)


def _is_square(expression: Any) -> bool:
    # later releases of cvxpy have a function of this name that returns one of several classes
    is_power = any(kind.__name__.lower() == "power" for kind in type(expression).__mro__)
    return is_power and getattr(expression.p, "value", expression.p) == 2


@dataclass
class _Sum:
    """The weight of w'w, a constant, and the terms that were read."""

    norm: float = 0.0
    constant: float = 0.0
    terms: list[_Entries] = field(default_factory=list)


def _collect(term: Any, weight: float, leaf: Any, norm: Any, total: _Sum) -> bool:
    """Add a scalar term to the sum; return whether it was understood."""
    if weight == 0.0:  # as a loss whose parameter is zero: nothing
        return True
    if term.is_constant():
        total.constant += weight * float(term.value)
        return True
    if term is norm:
        total.norm += weight
        return True
    if isinstance(term, AddExpression):
        return all(_collect(argument, weight, leaf, norm, total) for argument in term.args)
    if isinstance(term, NegExpression):
        return _collect(term.args[0], -weight, leaf, norm, total)
    if isinstance(term, (cp.multiply, MulExpression, DivExpression)) and all(a.is_scalar() for a in term.args):
        is_quotient = isinstance(term, DivExpression)
        constant, operand = term.args if term.args[0].is_constant() and not is_quotient else term.args[::-1]
        if not constant.is_constant():
            return False
        factor = 1.0 / float(constant.value) if is_quotient else float(constant.value)
        return _collect(operand, weight * factor, leaf, norm, total)
    entries = _sum_of_entries(term, leaf)
    entries = None if entries is None else entries.scale(weight)
    if entries is not None:
        total.terms.append(entries)
    return entries is not None


def _sum_of_entries(term: Any, leaf: Any) -> _Entries | None:
    """Return the entries whose sum a scalar term is."""
    first = term.args[0] if term.args else None
    if isinstance(term, Sum) and term.axis is None:
        return _entries(first, leaf)
    if isinstance(term, cp.norm1) and term.axis is None:
        return _change(first, leaf, _Entries.absolute_value)
    if isinstance(term, cp.quad_over_lin) and term.axis is None and term.args[1].is_constant():
        squares = _change(first, leaf, _Entries.squared)
        return None if squares is None else squares.scale(1.0 / float(term.args[1].value))
    if isinstance(term, MulExpression) and all(argument.ndim == 1 for argument in term.args):
        constant, operand = term.args if term.args[0].is_constant() else term.args[::-1]
        if constant.is_constant():
            return _change(operand, leaf, lambda entries: entries.scale(np.asarray(constant.value, dtype=np.float64)))
    return None


def read_row_losses(objective: Any, leaf: Any, norm: Any) -> "ReadLosses | None":
    """Return the weight of w'w and the losses of the rows; None if the objective has anything else in it.

    ``leaf`` is the variable of the fitted values, ``norm`` the variable of w'w.
    """
    total = _Sum()
    with np.errstate(all="ignore"):
        if not _collect(objective, 1.0, leaf, norm, total) or not total.norm > 0.0:
            return None
        losses = _total_loss(leaf.size, total.terms)
    if losses is None:
        return None
    constant = total.constant + sum(float(term.constant.sum()) for term in total.terms)
    return ReadLosses(total.norm, losses, constant)


class ReadLosses(NamedTuple):
    """The weight of w'w, the losses of the rows, and the constant of the objective."""

    norm: float
    losses: RowLoss
    constant: float


def _total_loss(n: int, terms: list[_Entries]) -> RowLoss | None:
    """Return the sum of the terms of every row; None if a row loss cannot hold it."""
    slope, width = np.zeros(n), np.zeros(n)
    losses = list[PieceLoss]()
    for term in terms:
        if np.unique(term.rows).size != term.rows.size:
            return None
        slope[term.rows] += term.slope
        width[term.rows] += term.width
        losses += [_spread(n, term.rows, loss) for loss in term.losses]
    numbers = [slope, width, *(part for loss in losses for part in (loss.below, loss.above, loss.curvature))]
    if not all(np.isfinite(values).all() for values in numbers):
        return None
    smooth = [(term.rows, part) for term in terms for part in term.smooth]
    if smooth:
        rows, part = smooth[0]
        alone = len(smooth) == 1 and not losses and np.array_equal(rows, np.arange(n))
        return replace(part, slope=slope) if alone and (part.weight > 0.0).all() else None
    return _add(losses, slope, width)


def _spread(n: int, rows: NDArray[np.intp], loss: PieceLoss) -> PieceLoss:
    """Return the losses of some rows as losses of all rows, zero elsewhere."""
    whole = _pieces(
        [np.zeros(n)] * loss.places.shape[1], [(0.0, 0.0)] * loss.places.shape[1], [0.0] * loss.curvature.shape[1]
    )
    arrays = {}
    for name in ("places", "below", "above", "curvature", "level"):
        values = np.array(getattr(whole, name))
        values[rows] = getattr(loss, name)
        arrays[name] = values
    return replace(whole, **arrays)


def _add(losses: list[PieceLoss], slope: Array, width: Array) -> PieceLoss:
    """Return the sum of losses and of a slope."""
    n = slope.size
    places = np.sort(np.column_stack([loss.places for loss in losses] or [np.zeros(n)]), axis=1)
    changed = np.append(True, (np.diff(places, axis=1) > 0.0).any(axis=0))
    places = places[:, changed]
    below, above = (
        np.column_stack([slope + sum(loss.slopes(place, right) for loss in losses) for place in places.T])
        for right in (False, True)
    )
    # the curvature behind each breakpoint, and before the first
    behind = [sum((_behind(loss, place) for loss in losses), np.zeros(n)) for place in places.T]
    before = sum((loss.curvature[:, 0] for loss in losses), np.zeros(n))
    first = places[:, 0]
    level = slope * first + sum(loss.values(first) for loss in losses)
    return PieceLoss.of(places, below, above, np.column_stack([before, *behind]), level, width)


def _behind(loss: PieceLoss, place: Array) -> Array:
    """Return the curvature just behind places."""
    return np.asarray(loss.curvature[np.arange(loss.n), (loss.places <= place[:, None]).sum(axis=1)])
