"""The numbers of a conic program whose objective is affine in weights."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = ["Cones", "ProgramNumbers"]

Cones = tuple[tuple[str, int, tuple[int, ...]], ...]


@dataclass(frozen=True)
class ProgramNumbers:
    """A conic program whose objective is affine in weights: its parts P_i, q_i, d_i, one A and b, and the cones.

    ``cones`` are pairs of a kind and sizes, with the row where each kind begins; ``radius`` is the distance of an
    optimum from a dual point that is assumed in coordinates which no diagonal entry of P bounds. Parameters in
    constraints add their values times the rows of ``b_steps`` to b, and times ``d_steps`` to the first d.
    """

    P: tuple[Any, ...]
    q: Array
    d: Array
    A: Any
    b: Array
    cones: Cones
    radius: Array
    b_steps: Array
    d_steps: Array

    @classmethod
    def of(cls, family: Any) -> "ProgramNumbers":
        """Copy the numbers of a :class:`~substrate.fusion.conic_family.ConicFamily`."""
        k = len(family.d)
        P = tuple(sp.csr_array(family.matrix(row)) for row in np.eye(k))
        program = family.program
        cones: list[tuple[str, int, tuple[int, ...]]] = []
        for kind, rows in (("Zero", program.equal), ("NonNeg", program.linear)):
            if rows.size:
                if not np.array_equal(rows, np.arange(rows[0], rows[0] + rows.size)):
                    raise DeclarationError("the rows of a kind of cone are not one block; this proof cannot be saved")
                cones.append((kind, int(rows[0]), (int(rows.size),)))
        cones += [(cone.kind, cone.rows.start, (cone.rows.stop - cone.rows.start,)) for cone in program.cone_blocks]
        return cls(
            P=P,
            q=family.q.copy(),
            d=family.d.copy(),
            A=sp.csr_array(family.A),
            b=family.b.copy(),
            cones=tuple(cones),
            radius=family.radius(),
            b_steps=family.steps[0].copy(),
            d_steps=family.steps[1].copy(),
        )

    def rows(self, kind: str) -> Iterator[slice]:
        """Yield the rows of every cone of a kind."""
        for cone, start, sizes in self.cones:
            if cone == kind:
                for size in sizes:
                    yield slice(start, start + size)
                    start += size

    @property
    def entries(self) -> int:
        """Return how many numbers dense matrices would hold."""
        return int(self.A.shape[0] * self.A.shape[1] + self.q.shape[1] ** 2)

    def equals(self, other: "ProgramNumbers") -> bool:
        """Return whether two programs have the same numbers, whatever is assumed of the radius."""
        is_same = self.cones == other.cones and self.A.shape == other.A.shape and len(self.P) == len(other.P)
        if (
            not is_same
            or abs(self.A - other.A).sum()
            or any(abs(a - b).sum() for a, b in zip(self.P, other.P, strict=True))
        ):
            return False
        pairs = (
            (self.q, other.q),
            (self.d, other.d),
            (self.b, other.b),
            (self.b_steps, other.b_steps),
            (self.d_steps, other.d_steps),
        )
        return all(np.array_equal(first, second) for first, second in pairs)
