r"""A problem in standard form as plain numbers, with bounds on the rounding errors of its rows.

.. math:: \min_x \; \tfrac12 x^T P x + q^T x \quad \text{s.t.} \quad s = A x + b \in \mathcal{K} .

A sum of k products has an error of at most :math:`\gamma_k = k \epsilon / (1 - k \epsilon)` times the sum of their
sizes [Higham2002]_.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding

__all__ = ["Cone", "ConeProgram", "Substitution"]

IntegerArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Substitution:
    """x = T x' with the columns that are kept, and the rows that are kept: values are replaced by their definitions."""

    columns: IntegerArray
    rows: IntegerArray
    T: Any

    @classmethod
    def of(cls, P: Any, A: Any, values: IntegerArray, defining: IntegerArray) -> "Substitution":
        """Return the substitution of the values that P does not weigh, each defined by one of the given rows."""
        E = sp.csr_array(sp.csr_array(A)[defining])
        pivots = np.ravel(E[:, values].diagonal())
        weighed = np.asarray(abs(sp.csr_array(P)).sum(axis=1)).ravel()[values] > 0.0
        gone, rows = values[~weighed], defining[~weighed]
        columns = np.setdiff1d(np.arange(A.shape[1]), gone)
        E = E[~weighed]
        if not np.array_equal(np.ravel(abs(E[:, gone]).sum(axis=1)), np.abs(pivots[~weighed])):
            raise ArithmeticError("the definitions of values are not where they were expected")
        identity = sp.csr_array((np.ones(columns.size), (columns, np.arange(columns.size))), (A.shape[1], columns.size))
        place = sp.csr_array((-1.0 / pivots[~weighed], (gone, np.arange(gone.size))), (A.shape[1], gone.size))
        T = sp.csr_array(identity + place @ E[:, columns])
        return cls(columns, np.setdiff1d(np.arange(A.shape[0]), rows), T)


@dataclass(frozen=True, slots=True)
class Cone:
    """One second-order, exponential or semi-definite cone: its kind, and the rows that are in it."""

    kind: str
    rows: slice


@dataclass(frozen=True)
class ConeProgram:
    """P, q, A, b; the rows of equalities and of inequalities; the other cones one by one."""

    P: Any
    q: Array
    A: Any
    b: Array
    equal: IntegerArray
    linear: IntegerArray
    cone_blocks: tuple[Cone, ...]
    #: What is known of the machine over all w, a ``WholeSpace``, and how far its rows may be from those of a point.
    whole: Any = None
    radius: Array | None = None

    @classmethod
    def of(cls, numbers: tuple[Any, Array, Any, Array], cones: Iterable[tuple[str, slice, list[int]]]) -> "ConeProgram":
        """Build the program from the data that cvxpy passes to a solver and the kinds of its cones."""
        P, q, A, b = numbers
        sizes_of_cones = list(cones)
        rows = {
            kind: np.concatenate(
                [np.zeros(0, np.intp), *(np.arange(r.start, r.stop) for k, r, _ in sizes_of_cones if k == kind)]
            )
            for kind in ("Zero", "NonNeg")
        }
        cone_blocks = []
        for kind, where, sizes in sizes_of_cones:
            edges = where.start + np.concatenate([[0], np.cumsum(sizes)]).astype(int)
            if kind not in rows:
                cone_blocks += [Cone(kind, slice(int(a), int(c))) for a, c in pairwise(edges)]
        return cls(
            P=sp.csr_array(P),
            q=np.asarray(q),
            A=sp.csr_array(A),
            b=np.asarray(b),
            equal=rows["Zero"],
            linear=rows["NonNeg"],
            cone_blocks=tuple(cone_blocks),
        )

    def substitute(self, substitution: Substitution) -> "ConeProgram":
        """Return the program without the values that are replaced by their definitions, which have no constants."""
        T, rows = substitution.T, substitution.rows
        place = np.full(self.b.size, -1, dtype=np.intp)
        place[rows] = np.arange(rows.size)
        A = sp.csr_array(self.A[rows] @ T)
        A.sort_indices()
        return ConeProgram(
            P=sp.csr_array(self.P[substitution.columns][:, substitution.columns]),
            q=T.T @ self.q,
            A=A,
            b=self.b[rows],
            equal=place[self.equal[place[self.equal] >= 0]],
            linear=place[self.linear],
            cone_blocks=tuple(
                Cone(cone.kind, slice(int(place[cone.rows.start]), int(place[cone.rows.stop - 1]) + 1))
                for cone in self.cone_blocks
            ),
        )

    def with_space(self, whole: Any, radius: Array | None = None) -> "ConeProgram":
        """Return the same program with what is known of the machine over all w; what was computed is kept."""
        vars(self).update(inward=self.inward)
        program = replace(self, whole=whole, radius=radius)
        vars(program).update({name: value for name, value in vars(self).items() if name not in vars(program)})
        return program

    @property
    def quadratic(self) -> bool:
        """Whether it is a quadratic program."""
        return not self.cone_blocks

    @cached_property
    def inward(self) -> list[Array]:
        """The latest change of x that led into the interior, where there was one."""
        return []

    @cached_property
    def equalities(self) -> Any:
        """The rows of A that are equalities."""
        return sp.csr_array(self.A[self.equal])

    @cached_property
    def sizes(self) -> tuple[Any, Any]:
        """|P| and |A|."""
        return abs(self.P), abs(self.A)

    @cached_property
    def alone(self) -> Array:
        """The diagonal of P where it is the only entry of its row, zero elsewhere."""
        diagonal = self.P.diagonal()
        entries = np.diff((self.P != 0).tocsr().indptr)
        return np.where((entries == 1) & (diagonal > 0.0), diagonal, 0.0)

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """Rows of A without an entry."""
        return np.asarray(np.diff((self.A != 0).tocsr().indptr) == 0)

    @cached_property
    def _lengths(self) -> tuple[Array, Array]:
        """The number of rounded operations in a row of A x + b, and in an entry of P x + q - A'z."""
        rows = np.diff(self.A.indptr).astype(np.float64)
        columns = np.diff(self.P.indptr) + np.bincount(self.A.indices, minlength=self.q.size)
        return np.where(rows > 0, rows + 3.0, 0.0), columns + 4.0

    def slack(self, x: Array) -> tuple[Array, Array]:
        """Return A x + b and a bound on each entry's error, ``radius`` included."""
        size = self.sizes[1] @ np.abs(x) + np.abs(self.b)
        error = relative_rounding(1.01) * self._lengths[0] * size
        return self.A @ x + self.b, error if self.radius is None else error + self.radius

    def slope(self, x: Array, z: Array, q: Array | None = None) -> tuple[Array, Array]:
        """Return P x + q - A'z, for another q if one is given, and a bound on the error of each entry."""
        q = self.q if q is None else q
        size = self.sizes[0] @ np.abs(x) + np.abs(q) + self.sizes[1].T @ np.abs(z)
        return self.P @ x + q - self.A.T @ z, relative_rounding(1.01) * self._lengths[1] * size
