r"""Rows times a vector, through factors where the blocks of rows have low rank.

A component of one variable under a smooth kernel has numerical rank 10 to 30 whatever the number of points. With
:math:`B^l = F^l G^l` for every block the product costs :math:`k (n + r)` instead of :math:`n r` for each, and, what
counts more, the factors stay in the cache. The factors come from QR with pivoting, cut far below the slopes that a path
takes for zero; whoever carries a product along looks it up anew from B itself now and then.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.paths.signed_rows import Index

__all__ = ["Product"]

#: Length of what is left of a row, as a share of the longest row, that is left out.
_CUT = 1e-12
#: The factors are used where they have at most this share of the entries of B.
_WORTH = 0.6


@dataclass(frozen=True, slots=True)
class Product:
    """B, and its factors F' (blocks, rank, rows) and G (blocks x rank, columns) where they are worth it."""

    B: Array
    F: Array | None
    G: Array | None

    @classmethod
    def of(cls, B: Array, block: Index) -> "Product":
        """Factor B, whose rows lie in the given blocks; several of one size, one after the other, can be factored."""
        from scipy.linalg import qr

        blocks = int(block.max()) + 1
        n, r = B.shape[0] // blocks, B.shape[1]
        if blocks < 2 or n * blocks != block.size or n < 8 or (block != np.repeat(np.arange(blocks), n)).any():
            return cls(B, None, None)
        cut = _CUT * float(np.sqrt(np.einsum("ij,ij->i", B, B).max()))
        factors: list[tuple[Array, Array]] = []
        for part in B.reshape(blocks, n, r):
            Q, R, order = qr(part.T, mode="economic", pivoting=True, check_finite=False)
            rank = max(int((np.abs(np.diagonal(R)) > cut).sum()), 1)
            if rank * (n + r) > _WORTH * n * r:
                return cls(B, None, None)
            F = np.empty((rank, n))
            F[:, order] = R[:rank]
            factors.append((F, Q[:, :rank].T))
        most = max(F.shape[0] for F, _ in factors)
        padded, turned = np.zeros((blocks, most, n)), np.zeros((blocks, most, r))
        for k, (F, G) in enumerate(factors):
            padded[k, : F.shape[0]], turned[k, : F.shape[0]] = F, G
        return cls(B, padded, turned.reshape(blocks * most, r))

    def __call__(self, x: Array) -> Array:
        """B x."""
        if self.F is None or self.G is None:
            return np.asarray(self.B @ x)
        return np.asarray(np.vecmat((self.G @ x).reshape(self.F.shape[:2]), self.F)).ravel()
