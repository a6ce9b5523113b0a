"""What a block path is followed on, and what is kept of it: rows with signs in blocks, and knots."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array

__all__ = ["Index", "Knots", "SignedRows"]

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SignedRows:
    """The problem: the signed rows M = [B; -B] and the block of each, and the target; blocks count from zero."""

    B: Array
    block: Index
    target: Array

    @property
    def blocks(self) -> int:
        """How many."""
        return int(self.block.max()) + 1

    def values(self, u: Array) -> Array:
        """M u."""
        v = self.B @ u
        return np.concatenate([v, -v])

    def levels(self, u: Array) -> Array:
        """The maximum over each block."""
        level = np.full(self.blocks, -np.inf)
        np.maximum.at(level, self.block, self.values(u))
        return level

    def slack(self, u: Array, t: Array) -> Array:
        """What is left of every signed row to the level of its block."""
        return np.asarray(t[self.block] - self.values(u))

    def row(self, i: int) -> Array:
        """The row of M with this number."""
        p = self.B.shape[0]
        return np.asarray(self.B[i] if i < p else -self.B[i - p])

    def rows(self, chosen: Index) -> Array:
        """The rows of M with these numbers."""
        p = self.B.shape[0]
        return np.asarray(np.where(chosen < p, 1.0, -1.0)[:, None] * self.B[chosen % p])


@dataclass(slots=True)
class Knots:
    """What is kept of each knot: rho, u, t, and the multipliers by signed row."""

    rho: list[float] = field(default_factory=list)
    u: list[Array] = field(default_factory=list)
    t: list[Array] = field(default_factory=list)
    rows: list[Index] = field(default_factory=list)
    eta: list[Array] = field(default_factory=list)

    def append(self, rho: float, u: Array, t: Array, rows: Index, eta: Array) -> None:
        """One more."""
        self.rho.append(rho)
        self.u.append(u)
        self.t.append(t)
        self.rows.append(rows)
        self.eta.append(eta)

    def keep(self, first: int) -> None:
        """Drop all but the first so many."""
        for kept in (self.rho, self.u, self.t, self.rows, self.eta):
            del kept[first:]
