r"""How far a machine in its coordinates is from the machine over all w: cut-off and rounding of the kernel included.

A program in features knows w by coordinates z with readings :math:`L z`, where :math:`L L^T` is the matrix G of inner
products of the representers :math:`r_j` up to the directions that were cut and to rounding,

.. math:: \|G - L L^T\| \le \eta .

Let :math:`t_j` be added to reading j in every row, :math:`s = A x + B t + b`, so that a point with multipliers z pulls
at the readings with :math:`u = B^T z - q_t`. Where the objective has :math:`\tfrac{c}{2} w^T w`, a point of all
w is taken in place of one of coordinates,

.. math:: \tilde w = \tfrac1c \sum_j u_j r_j + \tfrac1c \sum_j (A_z \rho)_j r_j , \qquad \rho = c \tilde z - L^T u ,

with :math:`A_z` from coordinates to coefficients. Its slope is :math:`c \tilde w - \sum_j u_j r_j`, of norm at most
:math:`\|\rho\| \sqrt{1 + \eta \|A_z\|^2}`, with nothing in the directions that were cut; and its readings differ from
:math:`L \tilde z` by :math:`\delta`, which is measured, rounding of the kernel values included. The bound of
:mod:`substrate.composition.nearness` then holds for the machine over all w with :math:`|B| \delta` added to the
doubt of the rows, and ties by squares, :math:`F^T = P X + A_E^T Y`, with

.. math:: X^T P X + \tfrac{\eta}{c} \kappa^T \kappa , \qquad \kappa = F_t^T - B_E^T Y .
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array, is_sparse
from substrate.certificates.rounding import relative_rounding
from substrate.composition.compiled import CompiledSubstrate
from substrate.composition.cone_program import ConeProgram, IntegerArray
from substrate.composition.linear_operators import add_lengths, bound_rounding
from substrate.composition.place_holders import PlaceHolder
from substrate.composition.reading import points_of
from substrate.composition.span import SubstrateSpan

__all__ = ["Gap", "Shifted", "WholeSpace", "gap_of", "whole_space"]

#: Representers up to which their matrix is compared with its coordinates.
_LARGEST = 2000
#: Roundings for each reading in a row that combines several, by sums or by a decomposition.
_COMBINED = 10.0
#: Inner products of components lose so many times what those of the whole lose.
_COMPONENTS = 16.0


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """What the coordinates of one substrate leave out.

    ``matrix`` is G, ``lengths`` those of the representers and ``relative`` the rounding of an entry of G in units of
    two of them; ``eta`` bounds G - L L', centred where the coordinates are, and ``amplified`` is the square of the norm
    of A_z. The first ``values`` representers are centred where ``balanced``.
    """

    matrix: Array
    lengths: Array
    relative: float
    eta: float
    amplified: float
    values: int
    balanced: bool

    def coefficients(self, pull: Array) -> Array:
        """Return the pulls at the representers; those of values of f sum to zero where the expansion has that."""
        if not self.balanced:
            return pull
        pull = pull.copy()
        pull[: self.values] -= pull[: self.values].mean()
        return pull

    def readings(self, a: Array) -> tuple[Array, Array]:
        """Return the readings of coefficients a that sum to zero, and how far those of the exact kernel can be."""
        values = self.matrix @ a
        relative = self.relative + relative_rounding(a.size + 4.0)
        radius = relative * self.lengths * float(self.lengths @ np.abs(a))
        if self.balanced:
            m = self.values
            # the sum is zero up to rounding, which acts like one coefficient at the mean of the representers
            radius += relative_rounding(float(self.lengths[:m].mean()) * m) * float(np.abs(a[:m]).sum()) * self.lengths
            values[:m] -= values[:m].mean()
            radius[:m] += float(radius[:m].mean()) + relative_rounding(2.0) * np.abs(values[:m])
        return values, radius


def gap_of(compiled: CompiledSubstrate) -> Gap | None:
    """Return the gap of a substrate whose w is penalised, on representers of all that is read; None where it is not
    known.
    """
    frame, span, s = compiled.frame, compiled.span, compiled.substrate
    L = frame.training if frame.representers is None else frame.representers
    if s.basis is not None or "features" not in frame.kind or L.shape[0] != span.size or span.size > _LARGEST:
        return None
    if s.cutoff is not None or not frame.size:
        return None
    G, relative = _inner_products(span)
    lengths, m = np.maximum(np.sqrt(np.maximum(np.diagonal(G), 0.0)), _uncancelled(span)), span.values
    centred, sizes = G.copy(), lengths.copy()
    if span.balanced:
        centred[:m] -= centred[:m].mean(axis=0)
        centred[:, :m] -= centred[:, :m].mean(axis=1)[:, None]
        sizes[:m] += float(lengths[:m].mean())
    rounding = (relative + relative_rounding(L.shape[1] + 8.0)) * float(sizes @ sizes)
    eta = float(np.linalg.norm(centred - L @ L.T)) + rounding
    amplified = float(np.linalg.norm(frame.coefficients.T @ frame.coefficients, 2))
    return Gap(
        matrix=G,
        lengths=lengths,
        relative=relative,
        eta=eta,
        amplified=amplified,
        values=m,
        balanced=span.balanced,
    )


def _inner_products(span: SubstrateSpan) -> tuple[Array, float]:
    """Return G by the more accurate formula where there is one, and the rounding of its entries."""
    kernel, points = span.substrate.kernel, [points_of(span.substrate, reading) for reading in span.readings]
    plain = all(reading.operator is None and reading.part is None for reading in span.readings)
    if plain and not kernel.pairwise and not any(is_sparse(points_of_side) for points_of_side in points):
        every = np.vstack(points)
        G = kernel.enclose(every, every).midpoint
        return (G + G.T) / 2.0, float(kernel.rounding(every, by_differences=True))
    rounding = bound_rounding(kernel, ((r.operator, own) for r, own in zip(span.readings, points, strict=True)))
    return span.matrix(), rounding if plain or any(r.operator for r in span.readings) else _COMPONENTS * rounding


def _uncancelled(span: SubstrateSpan) -> Array:
    """Return the sums of the lengths of all terms of each representer: what the rounding of an operator is relative
    to.
    """
    sums = []
    for reading in span.readings:
        points = points_of(span.substrate, reading)
        kernel = span.substrate.kernel if reading.part is None else span.substrate.components[reading.part]
        sums.append(
            np.zeros(points.shape[0]) if reading.operator is None else add_lengths(kernel, reading.operator, points)
        )
    return np.concatenate(sums)


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    """The rows of a program in shifts of what is read: B, q_t, and where the shifts of each mention begin."""

    B: Any
    q: Array
    starts: dict[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class _SubstrateInSpace:
    """One column of one substrate: its place in the program, its weight c, its shifts and their representers."""

    compiled: CompiledSubstrate
    gap: Gap
    z: IntegerArray
    weight: float
    shifts: IntegerArray
    places: IntegerArray
    rows: Array
    bias: IntegerArray


@dataclass(frozen=True, slots=True, eq=False)
class WholeSpace:
    """What a program says of the machine over all w."""

    shifted: Shifted
    sizes: Any
    substrates: tuple[_SubstrateInSpace, ...]

    def bound_radius(self, program: ConeProgram, x: Array, z: Array, point_radius: float = 0.0) -> Array:
        """Return how far the rows at a point of all w can be from those at x, after a correction of w of length
        ``moved``.
        """
        pulls, slope = self.shifted.B.T @ z - self.shifted.q, program.slope(x, z)[0]
        radius, several = np.zeros(pulls.size), np.zeros(pulls.size)
        for substrate in self.substrates:
            pull = np.zeros(substrate.gap.lengths.size)
            np.add.at(pull, substrate.places, pulls[substrate.shifts])
            a = (
                substrate.gap.coefficients(pull) + substrate.compiled.frame.expand(slope[substrate.z])
            ) / substrate.weight
            values, value_radius = substrate.gap.readings(a)
            values_here, coordinates = substrate.rows @ x[substrate.z], np.abs(substrate.rows) @ np.abs(x[substrate.z])
            rounding = value_radius[substrate.places] + relative_rounding(substrate.z.size + 4.0) * coordinates
            several[substrate.shifts] = coordinates + float(np.abs(x[substrate.bias]).sum())
            radius[substrate.shifts] = (
                np.abs(values[substrate.places] - values_here) + rounding + np.sqrt(substrate.gap.eta) * point_radius
            )
        # rows that combine readings, with constants of their size, are themselves rounded
        terms = np.diff(self.sizes.indptr)
        return np.asarray(
            self.sizes @ radius
            + np.where(terms > 1, relative_rounding(_COMBINED * terms), 0.0) * (self.sizes @ several)
        )

    def steeper(self, z: Array, residual: Array) -> Array:
        """Return the slope in coordinates as it is in all directions, from its sizes."""
        residual = residual.copy()
        terms = np.diff(sp.csc_array(self.sizes).indptr) + 2.0
        rounding = relative_rounding(terms) * (self.sizes.T @ np.abs(z) + np.abs(self.shifted.q))
        for substrate in self.substrates:
            residual[substrate.z] *= np.sqrt(1.0 + substrate.gap.eta * substrate.gap.amplified)
            # what rounding may change in the pulls acts on w by the lengths of the representers
            residual[substrate.z[:1]] += float(substrate.gap.lengths[substrate.places] @ rounding[substrate.shifts])
        return residual

    def curvature_radius(self, rows: IntegerArray) -> float:
        """Return what a squared singular value of these rows may lose in all directions."""
        block = self.shifted.B[rows].toarray()
        return float(
            sum(substrate.gap.eta * np.linalg.norm(block[:, substrate.shifts], 2) ** 2 for substrate in self.substrates)
        )

    def further(self, multipliers: Array, equal: IntegerArray, columns: IntegerArray, F: Array) -> Array:
        """Return what X'PX gains in all directions, for each value: its representation has these multipliers of
        equalities.
        """
        through = -(self.shifted.B[equal].T @ multipliers)
        total = np.zeros(F.shape[0])
        for substrate in self.substrates:
            is_read = float(np.isin(substrate.z, columns).any())
            square = 2.0 * (np.square(through[substrate.shifts]).sum(axis=0) + is_read)
            total += substrate.gap.eta / substrate.weight * square
        return total

    def directly(self, columns: IntegerArray) -> float:
        """Return what the square of a tie by a norm gains: every value is a reading of its own."""
        used = [substrate for substrate in self.substrates if np.isin(substrate.z, columns).any()]
        return float(sum(substrate.gap.eta / substrate.weight for substrate in used))


def whole_space(
    program: ConeProgram,
    shifted: Shifted,
    compiled: Iterable[CompiledSubstrate],
    columns: dict[int, int],
    gap: Callable[[CompiledSubstrate], Gap | None],
) -> WholeSpace | None:
    """Return what the program says of the machine over all w; None where w enters by more than what is read and w'w."""
    substrates: list[_SubstrateInSpace] = []
    for compiled_substrate in compiled:
        gap_found = gap(compiled_substrate)
        if gap_found is None:
            return None
        for column in range(compiled_substrate.z.shape[1] if compiled_substrate.z.ndim == 2 else 1):
            substrate = _part(program, shifted, compiled_substrate, gap_found, columns, column)
            if substrate is None:
                return None
            substrates.append(substrate)
    return WholeSpace(shifted, abs(shifted.B), tuple(substrates))


def _part(
    program: ConeProgram, shifted: Shifted, compiled: CompiledSubstrate, gap: Gap, columns: dict[int, int], column: int
) -> _SubstrateInSpace | None:
    z, bias = np.split(compiled.places(columns, column), [compiled.frame.training.shape[1]])
    weights = program.alone[z]
    if not weights.size or (weights != weights[0]).any() or weights[0] <= 0.0:
        return None
    shifts, places = [], []
    for holder in compiled.mentioned:
        if holder.role == "squared_norm" or (holder.role == "b" and not compiled.span.balanced):
            continue  # b is a variable of its own where nothing is centred
        if holder.role in ("norm", "alpha", "b"):
            return None
        place = _representers(compiled, holder)
        if place is None or id(holder.leaf) not in shifted.starts:
            return None
        start = shifted.starts[id(holder.leaf)] + column * place.size
        shifts.append(np.arange(start, start + place.size))
        places.append(place)
    if not shifts:
        return None
    every = np.concatenate(places)
    L = compiled.frame.training if compiled.frame.representers is None else compiled.frame.representers
    return _SubstrateInSpace(
        compiled=compiled,
        gap=gap,
        z=z,
        weight=float(weights[0]),
        shifts=np.concatenate(shifts),
        places=every,
        rows=L[every],
        bias=bias,
    )


def _representers(compiled: CompiledSubstrate, holder: PlaceHolder) -> IntegerArray | None:
    if holder.role == "f" and holder.points is None:
        return np.arange(compiled.substrate.n)
    return compiled.span.places.get(id(holder.leaf))
