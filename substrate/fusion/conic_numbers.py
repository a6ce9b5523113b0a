"""The numbers of a conic program whose objective is affine in weights."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array

__all__ = ["ProgramNumbers", "shared_columns"]

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


def shared_columns(base: ProgramNumbers, fused: ProgramNumbers) -> Any:
    """Return which variables of a program with squared validation errors are those of the one without; None elsewhere.

    The second program must be the first with new variables, each of them one squared error that an equality defines.
    """
    P = fused.P[-1]
    diagonal = P.diagonal()
    new = np.flatnonzero(diagonal)
    if fused.q[-1].any() or fused.d[-1] != 0.0 or (diagonal < 0.0).any() or abs(P - sp.diags_array(diagonal)).sum():
        return None
    columns = sp.csc_array(fused.A)[:, new]
    equal = np.concatenate([np.zeros(0, int), *(np.arange(rows.start, rows.stop) for rows in fused.rows("Zero"))])
    defining = columns.indices
    is_defined = (np.diff(columns.indptr) == 1).all() and np.unique(defining).size == new.size
    if not is_defined or not np.isin(defining, equal).all():
        return None
    kept_columns = np.setdiff1d(np.arange(diagonal.size), new)
    kept_rows = np.setdiff1d(np.arange(fused.b.size), defining)
    return kept_columns if _is_same(base, fused, kept_rows, kept_columns) else None


def _is_same(base: ProgramNumbers, fused: ProgramNumbers, rows: Any, columns: Any) -> bool:
    """Return whether rows and columns of one program are another one, with the same parts of the objective."""
    if rows.size != base.b.size or columns.size != base.q.shape[1] or len(fused.P) != len(base.P) + 1:
        return False
    A = sp.csr_array(fused.A)[rows][:, columns]
    is_equal = abs(A - base.A).sum() == 0.0 and np.array_equal(fused.b[rows], base.b)
    is_equal = is_equal and np.array_equal(fused.q[:-1][:, columns], base.q) and np.array_equal(fused.d[:-1], base.d)
    pairs = zip(fused.P[:-1], base.P, strict=True)
    is_equal = is_equal and all(abs(sp.csr_array(P)[columns][:, columns] - Q).sum() == 0.0 for P, Q in pairs)
    kinds = [np.full(program.b.size, "", dtype=object) for program in (base, fused)]
    for program, kind in zip((base, fused), kinds, strict=True):
        for name, start, sizes in program.cones:
            for number, size in enumerate(sizes):
                kind[start : start + size] = name if name in ("Zero", "NonNeg") else f"{name} {number}"
                start += size
    return bool(is_equal and (kinds[0] == kinds[1][rows]).all())
