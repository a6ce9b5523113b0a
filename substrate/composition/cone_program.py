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
from substrate.certificates.doubled_precision import Pair, SlicedMatrix, add, minus, multiply
from substrate.certificates.rounding import relative_rounding

__all__ = ["Cone", "ConeProgram", "Substitution"]

IntegerArray = NDArray[np.intp]

#: Entries of A, and of the rows of stationarity, up to which all are multiplied in doubled precision.
_SLACK_ENTRIES, _SLOPE_ENTRIES = 250_000, 1_000_000
#: Length of a row whose rounding matters, and largest number of entries of such rows.
_LONG, _DENSE_ENTRIES = 32, 40_000_000


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
        """Return the same program with what is known of the machine over all w; what was computed is kept.

        What is found later of either of them is known of both: ``moves`` and ``inward`` are theirs in common.
        """
        vars(self).update(moves=self.moves, inward=self.inward)
        program = replace(self, whole=whole, radius=radius)
        vars(program).update({name: value for name, value in vars(self).items() if name not in vars(program)})
        return program

    @property
    def quadratic(self) -> bool:
        """Whether it is a quadratic program."""
        return not self.cone_blocks

    def take_over(self, other: "ConeProgram") -> None:
        """Take over what was computed from A, or from A and P, where the other program has the same ones."""
        kinds = np.array_equal(self.equal, other.equal) and np.array_equal(self.linear, other.linear)
        if not kinds or not _same(self.A, other.A):
            return
        values, kept = vars(other), ["_long", "moves", "inward", "equalities"]
        vars(self).update({name: values[name] for name in kept if name in values})
        if "sizes" in values:
            vars(self)["sizes"] = abs(self.P), values["sizes"][1]
        if _same(self.P, other.P):
            kept = ["alone", "_lengths", "_steep"]
            vars(self).update({name: values[name] for name in kept if name in values})

    @cached_property
    def moves(self) -> list[Any]:
        """What bounds the changes of coordinates by those of the rows of A, where that was computed."""
        return []

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

    @cached_property
    def _long(self) -> "_LongRows":
        return _LongRows(self.A, _SLACK_ENTRIES)

    @cached_property
    def _steep(self) -> "_LongRows | None":
        """[P, -A'] in the columns without a single entry on the diagonal of P; None where there are none."""
        weak = np.flatnonzero(self.alone == 0.0)
        if not weak.size:
            return None
        return _LongRows(sp.csr_array(sp.hstack([self.P[weak], -self.A[:, weak].T])), _SLOPE_ENTRIES)

    def slack(self, x: Array) -> tuple[Array, Array]:
        """Return A x + b and a bound on each entry's error, ``radius`` included; long rows in doubled precision."""
        slack, error = self._slack(x)
        return slack, error if self.radius is None else error + self.radius

    def _slack(self, x: Array) -> tuple[Array, Array]:
        size = self.sizes[1] @ np.abs(x) + np.abs(self.b)
        if not np.isfinite(size).all():
            return self.A @ x + self.b, relative_rounding(1.01) * self._lengths[0] * size
        slack, error = self._long.times(x, self.b, size)
        alone = size == np.abs(self.b)  # nothing but b: exact
        return np.where(alone, self.b, slack), np.where(alone, 0.0, error)

    def slope(self, x: Array, z: Array, q: Array | None = None) -> tuple[Array, Array]:
        """Return P x + q - A'z, for another q if one is given, and a bound on the error of each entry.

        Long rows in doubled precision where no single entry on the diagonal of P compensates for rounding.
        """
        q = self.q if q is None else q
        size = self.sizes[0] @ np.abs(x) + np.abs(q) + self.sizes[1].T @ np.abs(z)
        slope, error = self.P @ x + q - self.A.T @ z, relative_rounding(1.01) * self._lengths[1] * size
        if self._steep is not None and np.isfinite(size).all():
            weak = self.alone == 0.0
            slope[weak], error[weak] = self._steep.times(np.concatenate([x, z]), q[weak], size[weak])
        return slope, error


def _same(first: Any, second: Any) -> bool:
    return first is second or (
        first.shape == second.shape
        and all(np.array_equal(getattr(first, name), getattr(second, name)) for name in ("indptr", "indices", "data"))
    )


class _LongRows:
    """A matrix as the sum of a dense one of long rows and of short rows, both multiplied in doubled precision.

    Where the second half of the dense rows is the first one with the other sign, as -t <= e <= t gives, one is kept.
    """

    def __init__(self, matrix: Any, entries: int) -> None:
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        height, width = matrix.shape
        counts = np.diff(matrix.indptr)
        rows, columns = np.arange(height), np.arange(width)
        if height * width > entries:
            rows = np.flatnonzero(counts > _LONG)
            filled = np.bincount(matrix.indices[np.repeat(counts > _LONG, counts)], minlength=width)
            # the columns of many long rows, or of any where there are few of these
            columns = np.flatnonzero(filled > (0 if rows.size <= _LONG else rows.size // 10))
        if rows.size * columns.size > max(entries, _DENSE_ENTRIES):
            rows, columns = rows[:0], columns[:0]
        self._rows, self._columns = rows, columns
        place, long = np.full(width, -1, dtype=np.intp), np.zeros(height, dtype=bool)
        place[columns], long[rows] = np.arange(columns.size), True
        inside = np.repeat(long, counts) & (place[matrix.indices] >= 0)
        contained = np.diff(np.concatenate([[0], np.cumsum(inside)])[matrix.indptr])
        if (contained[rows] == columns.size).all():
            dense = matrix.data[inside].reshape(rows.size, columns.size)
        else:
            dense = np.zeros((rows.size, columns.size))
            dense[np.repeat(np.cumsum(long) - 1, contained), place[matrix.indices[inside]]] = matrix.data[inside]
        half = rows.size // 2
        self._twice = rows.size == 2 * half > 0 and np.array_equal(dense[:half], -dense[half:])
        self._dense = SlicedMatrix(dense[:half] if self._twice else dense)
        self._lengths = counts - contained
        starts = np.concatenate([[0], np.cumsum(self._lengths)])
        self._rest = sp.csr_array((matrix.data[~inside], matrix.indices[~inside], starts), matrix.shape)
        self._sizes = abs(self._rest)
        self._short = int(self._lengths.max(initial=0)) <= 2 * _LONG

    def times(self, x: Array, b: Array, size: Array) -> tuple[Array, Array]:
        """Return the product plus b, and a bound on its error; ``size`` is the same of absolute values."""
        total: Pair = (b.copy(), np.zeros_like(b))
        error = np.zeros_like(b)
        if self._rows.size:
            product, radius = self._dense.times(x[self._columns])
            if self._twice:
                negative = minus(product)
                product = np.concatenate([product[0], negative[0]]), np.concatenate([product[1], negative[1]])
                radius = np.concatenate([radius, radius])
            total_pair = add(product, (b[self._rows], np.zeros(self._rows.size)))
            total[0][self._rows], total[1][self._rows] = total_pair
            error[self._rows] = radius
        if self._short:
            for number in range(int(self._lengths.max(initial=0))):
                rows = np.flatnonzero(self._lengths > number)
                at = self._rest.indptr[rows] + number
                products = multiply(self._rest.data[at], x[self._rest.indices[at]])
                total_pair = add((total[0][rows], total[1][rows]), products)
                total[0][rows], total[1][rows] = total_pair
        else:
            total = add(total, (self._rest @ x, np.zeros_like(b)))
            error += relative_rounding(1.01) * self._lengths * (self._sizes @ np.abs(x))
        value = total[0] + total[1]
        # 2^-104 for each of the products and sums of pairs, and one rounding of the result
        return value, error + relative_rounding(1.0) * (np.abs(value) + relative_rounding(64.0) * size)
