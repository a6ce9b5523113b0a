"""The numbers of a conic program whose objective is affine in weights."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array

__all__ = ["Cones", "ProgramNumbers"]

Cones = tuple[tuple[str, int, tuple[int, ...]], ...]


@dataclass(frozen=True)
class ProgramNumbers:
    """A conic program whose objective is affine in weights: its parts P_i, q_i, d_i, one A and b, and the cones.

    ``cones`` are kinds with the row where each begins and their sizes.
    """

    P: tuple[Any, ...]
    q: Array
    d: Array
    A: Any
    b: Array
    cones: Cones

    @classmethod
    def of(cls, family: Any) -> "ProgramNumbers":
        """Copy the numbers of a :class:`~substrate.fusion.conic_family.ConicFamily`."""
        k = len(family.d)
        P = tuple(sp.csr_array(family.matrix(row)) for row in np.eye(k))
        return cls(
            P=P,
            q=family.q.copy(),
            d=family.d.copy(),
            A=sp.csr_array(family.A),
            b=family.b.copy(),
            cones=tuple((kind, rows.start, tuple(sizes)) for kind, rows, sizes in family.cones),
        )

    def rows(self, kind: str) -> Iterator[slice]:
        """Yield the rows of every cone of a kind."""
        for cone, start, sizes in self.cones:
            if cone == kind:
                for size in sizes:
                    yield slice(start, start + size)
                    start += size
