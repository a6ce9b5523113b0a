r"""A problem in standard form as plain numbers, with bounds on the rounding errors of its rows.

.. math:: \min_x \; \tfrac12 x^T P x + q^T x \quad \text{s.t.} \quad s = A x + b \in \mathcal{K} .

A sum of k products has an error of at most :math:`\gamma_k = k \epsilon / (1 - k \epsilon)` times the sum of their
sizes [Higham2002]_.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from substrate.arrays import EPS, Array
from substrate.certificates.doubled_precision import add, exact_product

__all__ = ["ConeProgram", "Part"]

IntegerArray = NDArray[np.intp]

#: Largest number of entries of A, and of the rows that stationarity takes, that are multiplied in doubled precision.
_SLACK_ENTRIES, _SLOPE_ENTRIES = 250_000, 20_000_000


@dataclass(frozen=True, slots=True)
class Part:
    """One second-order or exponential cone: its kind, and the rows that are in it."""

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
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, numbers: tuple[Any, Array, Any, Array], cones: Iterable[tuple[str, slice, list[int]]]) -> "ConeProgram":
        """From the data that cvxpy passes to a solver and the kinds of its cones."""
        P, q, A, b = numbers
        known = list(cones)
        rows = {
            kind: np.concatenate(
                [np.zeros(0, np.intp), *(np.arange(r.start, r.stop) for k, r, _ in known if k == kind)]
            )
            for kind in ("Zero", "NonNeg")
        }
        parts = []
        for kind, where, sizes in known:
            edges = where.start + np.concatenate([[0], np.cumsum(sizes)]).astype(int)
            if kind not in rows:
                parts += [Part(kind, slice(int(a), int(c))) for a, c in pairwise(edges)]
        return cls(
            sp.csr_array(P), np.asarray(q), sp.csr_array(A), np.asarray(b), rows["Zero"], rows["NonNeg"], tuple(parts)
        )

    @property
    def quadratic(self) -> bool:
        """Whether it is a quadratic program."""
        return not self.parts

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
    def _dense(self) -> tuple[Array | None, Array | None]:
        """A, and the rows of [P, -A'] without a single entry on the diagonal of P; None where they are too large."""
        weak = np.flatnonzero(self.alone == 0.0)
        rows, columns = self.A.shape
        slack = self.A.toarray() if 0 < rows * columns <= _SLACK_ENTRIES else None
        if not 0 < weak.size * (rows + columns) <= _SLOPE_ENTRIES:
            return slack, None
        return slack, np.hstack([self.P[weak].toarray(), -self.A[:, weak].toarray().T])

    def slack(self, x: Array) -> tuple[Array, Array]:
        """A x + b and a bound on the error of each entry; in doubled precision where A is not too large."""
        size = self.sizes[1] @ np.abs(x) + np.abs(self.b)
        if self._dense[0] is None or not np.isfinite(size).all():
            return self.A @ x + self.b, 1.01 * EPS * self._lengths[0] * size
        product, doubt = exact_product(self._dense[0], x)
        high, low = add(product, (self.b, np.zeros_like(self.b)))
        slack, alone = high + low, size == np.abs(self.b)  # nothing but b: exact
        error = doubt + EPS * (np.abs(slack) + 4.0 * EPS * size)
        return np.where(alone, self.b, slack), np.where(alone, 0.0, error)

    def slope(self, x: Array, z: Array, q: Array | None = None) -> tuple[Array, Array]:
        """P x + q - A'z, for another q if one is given, and a bound on the error of each entry.

        In doubled precision where no single entry on the diagonal of P compensates for rounding.
        """
        q = self.q if q is None else q
        size = self.sizes[0] @ np.abs(x) + np.abs(q) + self.sizes[1].T @ np.abs(z)
        slope, error = self.P @ x + q - self.A.T @ z, 1.01 * EPS * self._lengths[1] * size
        if self._dense[1] is not None and np.isfinite(size).all():
            weak = self.alone == 0.0
            product, doubt = exact_product(self._dense[1], np.concatenate([x, z]))
            high, low = add(product, (q[weak], np.zeros(doubt.size)))
            slope[weak] = high + low
            error[weak] = doubt + EPS * (np.abs(high + low) + 4.0 * EPS * size[weak])
        return slope, error
