r"""The problem of a block path (rows with signs, in blocks), its knots, and fast products with its rows.

Products of rows and a vector use factors where the blocks of rows have low rank. A component of one variable under a
smooth kernel has numerical rank 10 to 30 whatever the number of points. With :math:`B^l = F^l G^l` for every block the
product costs :math:`k (n + r)` instead of :math:`n r` for each, and, more importantly, the factors stay in the cache.
The factors come from QR with pivoting, truncated far below the slopes that a path takes for zero; a product that is
updated is recomputed from B itself at intervals.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array

__all__ = ["Index", "Knots", "SignedProduct", "SignedRows"]

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SignedRows:
    """The problem: the signed rows M = [B; -B] and the block of each, and the target; blocks count from zero."""

    B: Array
    block: Index
    target: Array
    _order: Index = field(init=False, repr=False, compare=False)
    _starts: Index = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        order = np.argsort(self.block, kind="stable")
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_starts", np.searchsorted(self.block[order], np.arange(int(self.block.max()) + 1)))

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return self._starts.size

    def values(self, u: Array) -> Array:
        """Return M u."""
        v = self.B @ u
        return np.concatenate([v, -v])

    def levels(self, u: Array) -> Array:
        """Return the maximum of M u over each block."""
        return self.levels_of(self.values(u))

    def levels_of(self, values: Array) -> Array:
        """Return the maximum over each block; every block has a row."""
        return np.asarray(np.maximum.reduceat(values[self._order], self._starts))

    def row(self, i: int) -> Array:
        """Return the row of M with this number."""
        p = self.B.shape[0]
        return np.asarray(self.B[i] if i < p else -self.B[i - p])

    def rows(self, chosen: Index) -> Array:
        """Return the rows of M with these numbers."""
        p = self.B.shape[0]
        return np.asarray(np.where(chosen < p, 1.0, -1.0)[:, None] * self.B[chosen % p])

    def combine(self, chosen: Index, weights: Array) -> Array:
        """Return the sum of these rows of M, weighted; all rows are read where picking out a few would cost more."""
        p, signed = self.B.shape[0], np.where(chosen < self.B.shape[0], weights, -weights)
        if 8 * chosen.size < p:
            return np.asarray(signed @ self.B[chosen % p])
        return np.asarray(np.bincount(chosen % p, signed, p) @ self.B)


class Knots:
    """The record of the knots: rho, u, t, and the multipliers by signed row, of all knots one after the other."""

    def __init__(self, columns: int, blocks: int) -> None:
        self.size = 0
        self._rho, self._u, self._t = np.empty(0), np.empty((0, columns)), np.empty((0, blocks))
        self._starts, self._rows, self._eta = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)

    @property
    def rho(self) -> Array:
        """The parameter at the knots."""
        return self._rho[: self.size]

    @property
    def u(self) -> Array:
        """The points, one row per knot."""
        return self._u[: self.size]

    @property
    def t(self) -> Array:
        """The levels, one row per knot."""
        return self._t[: self.size]

    @property
    def starts(self) -> Index:
        """Where the multipliers of each knot begin, and where the last ones end."""
        return self._starts[: self.size + 1]

    @property
    def rows(self) -> Index:
        """The signed rows that have multipliers, knot by knot."""
        return self._rows[: self._starts[self.size]]

    @property
    def eta(self) -> Array:
        """Their multipliers."""
        return self._eta[: self._starts[self.size]]

    def room(self, knots: int, each: int) -> tuple[tuple[Array, Array, Array, Array], tuple[Index, Index]]:
        """Return where to write further knots with at most so many multipliers ``each``: rho, u, t, eta; starts,
        rows.
        """
        if self.size + knots > self._rho.size:
            more = knots + self.size
            self._rho, self._u, self._t, self._starts = (
                np.concatenate([kept, np.zeros((more, *kept.shape[1:]), kept.dtype)])
                for kept in (self._rho, self._u, self._t, self._starts)
            )
        used = int(self._starts[self.size])
        if used + knots * each > self._rows.size:
            more = knots * each + used
            self._rows = np.concatenate([self._rows, np.zeros(more, dtype=np.int64)])
            self._eta = np.concatenate([self._eta, np.zeros(more)])
        free_places = slice(self.size, None)
        return (self._rho[free_places], self._u[free_places], self._t[free_places], self._eta), (
            self._starts[free_places],
            self._rows,
        )

    def append(self, rho: float, u: Array, t: Array, rows: Index, eta: Array) -> None:
        """Append one more knot."""
        (at, points, levels, multipliers), (starts, places) = self.room(1, rows.size)
        place = slice(starts[0], starts[0] + rows.size)
        at[0], points[0], levels[0], starts[1] = rho, u, t, place.stop
        multipliers[place], places[place] = eta, rows
        self.size += 1

    def keep(self, first: int) -> None:
        """Drop all knots but the ``first`` ones; the last ones if negative."""
        self.size = range(self.size)[:first].stop

    def multiply(self, rho: float, u: float, t: float) -> None:
        """Change the units; those of rho are also those of the multipliers."""
        for kept, unit in ((self.rho, rho), (self.u, u), (self.t, t), (self.eta, rho)):
            kept *= unit


#: Residual length of a row, as a share of the longest row, that is neglected.
_CUT = 1e-12
#: The factors are used where they have at most this share of the entries of B.
_WORTH = 0.6


@dataclass(frozen=True, slots=True)
class SignedProduct:
    """B, and its factors F' (blocks, rank, rows) and G (blocks x rank, columns); empty where they are not worth it."""

    B: Array
    F: Array
    G: Array

    @classmethod
    def of(cls, B: Array, block: Index) -> "SignedProduct":
        """Factor B, whose rows lie in the given blocks; several of one size, one after the other, can be factored."""
        from scipy.linalg import qr

        none = np.zeros((0, 0, 0)), np.zeros((0, 0))
        blocks = int(block.max()) + 1
        n, r = B.shape[0] // blocks, B.shape[1]
        if blocks < 2 or n * blocks != block.size or n < 8 or (block != np.repeat(np.arange(blocks), n)).any():
            return cls(B, *none)
        cut = _CUT * float(np.sqrt(np.einsum("ij,ij->i", B, B).max()))
        factors: list[tuple[Array, Array]] = []
        for component in B.reshape(blocks, n, r):
            Q, R, order = qr(component.T, mode="economic", pivoting=True, check_finite=False)
            rank = max(int((np.abs(np.diagonal(R)) > cut).sum()), 1)
            if rank * (n + r) > _WORTH * n * r:
                return cls(B, *none)
            F = np.empty((rank, n))
            F[:, order] = R[:rank]
            factors.append((F, Q[:, :rank].T))
        most = max(F.shape[0] for F, _ in factors)
        padded, turned = np.zeros((blocks, most, n)), np.zeros((blocks, most, r))
        for k, (F, G) in enumerate(factors):
            padded[k, : F.shape[0]], turned[k, : F.shape[0]] = F, G
        return cls(B, padded, turned.reshape(blocks * most, r))
