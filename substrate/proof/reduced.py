r"""The bounds of machines on a reduced basis in ball arithmetic, from the stored numbers.

The machine is that on all directions of the span of the basis vectors, in exact arithmetic, as for its certificate
(:mod:`~substrate.reduced.basis_matrix`): the coefficients of all basis vectors are free, and the penalty is
:math:`\tfrac{\lambda}{2} \beta^T K_{SS} \beta`. In coordinates :math:`\beta = T u`, T a matrix of plain numbers from
the eigenvectors of :math:`K_{SS}`, it has the features :math:`z(x) = T^T k_S(x)`, and one exact optimum

.. math:: H u^\star = Z^T V (y - \bar y), \qquad H = \lambda T^T K_{SS} T + Z^T V (Z - 1 \bar z^T), \qquad
          f^\star = \bar y + (Z - 1 \bar z^T) u^\star ,

which is enclosed, row by row, and compared with what ``predict`` returned. Where directions are below rounding, T has
fewer columns than there are directions. Then the system in beta itself is solved, which is nearly singular, in as many
bits as that requires; where none is enough, as for vectors that depend on each other exactly, what the directions that
T lacks may change is bounded and added. A lasso is bounded by duality (:mod:`substrate.proof.duality`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.balls import Balls
from substrate.certificates.tolerance import Tolerance
from substrate.kernels import Foreign, Kernel
from substrate.proof import Proof, ball, balls, flint, formula_of, precision
from substrate.proof.least_squares import points_of, proof_of, weighted_root
from substrate.reduced.basis_matrix import change_by_cut
from substrate.reduced.features import eigen_features
from substrate.reduced.rows import KernelValues, MatrixColumns

__all__ = ["BasisRows", "GivenRows", "ReducedProof", "prove_reduced"]

_BITS = 200
#: Bits tried in turn for the system in all coefficients, which is harder for smoother kernels.
_MANY_BITS = (400, 1200, 3600)


@dataclass(frozen=True, slots=True)
class ReducedProof(Proof):
    """A proof for the machine on all directions of the span of the basis vectors, in exact arithmetic."""

    def __str__(self) -> str:
        text = super(ReducedProof, self).__str__()
        return text if self.reason else f"{text}, on all directions of the basis"


@dataclass(frozen=True, slots=True)
class BasisRows:
    """A kernel between rows and basis vectors.

    ``linear`` are columns of the rows that are not penalised, which are measured from ``center``.
    """

    kernel: Kernel
    X: Any
    points: Any
    linear: Array | None = None
    center: Array | None = None

    @property
    def defined_by_values(self) -> bool:
        """Whether a user's function makes the values: what is below their rounding means nothing."""
        return isinstance(self.kernel, Foreign)

    @property
    def features_of_kernel(self) -> int | None:
        """How many features the kernel has; None where no finite number is known."""
        return None if self.defined_by_values else self.kernel.rank(self.points.shape[1])

    def matrix(self, X: Any = None) -> list[list[Any]]:
        """Return kernel values of rows (the basis itself unless given), in balls."""
        points_of_rows = self.points if X is None else X
        if isinstance(self.kernel, Foreign):
            return [balls(row) for row in np.asarray(self.kernel(points_of_rows, self.points))]
        rows, columns = points_of(points_of_rows), points_of(self.points)
        formula = formula_of(self.kernel, len(columns[0]))
        return [[formula(x, z) for z in columns] for x in rows]

    def lengths(self) -> list[Any]:
        """Return k(x, x) of all rows, in balls."""
        if isinstance(self.kernel, Foreign):
            return balls(np.asarray(self.kernel.diag(self.X), dtype=np.float64))
        rows = points_of(self.X)
        formula = formula_of(self.kernel, len(rows[0]))
        return [formula(x, x) for x in rows]

    def beside(self, Z: Any, penalty: Any) -> tuple[Any, Any]:
        """Return features and the matrix of their penalty with the linear columns after them, which have none."""
        if self.linear is None or self.center is None:
            return Z, penalty
        center, (n, r), k = balls(self.center), (Z.nrows(), Z.ncols()), self.center.size
        columns = [[z - c for z, c in zip(balls(row), center, strict=True)] for row in self.linear]
        wide = [Z[i, j] if j < r else columns[i][j - r] for i in range(n) for j in range(r + k)]
        inside = [penalty[i, j] if max(i, j) < r else ball(0.0) for i in range(r + k) for j in range(r + k)]
        return flint().arb_mat(n, r + k, wide), flint().arb_mat(r + k, r + k, inside)

    def distinct(self) -> "BasisRows":
        """Return the rows without repetitions: vectors that agree are one, and their coefficients add up."""
        kept = KernelValues(self.kernel, self.points).distinct_vectors(self._values())
        return replace(self, points=self.points[kept])

    def directions(self) -> Array:
        """Return T, from the eigenvectors above rounding: plain numbers."""
        return np.asarray(eigen_features(self._values()).transform)

    def _values(self) -> Array:
        return np.asarray(self.kernel(self.points), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Given kernel values of rows with basis vectors, and of those with each other (``points``), taken as exact.

    ``diagonal`` are the values k(x, x) of the rows.
    """

    X: Array
    points: Array
    diagonal: Array

    @property
    def defined_by_values(self) -> bool:
        """True: what is below the rounding of given values means nothing."""
        return True

    @property
    def features_of_kernel(self) -> int | None:
        """None: no finite number is known."""
        return None

    def matrix(self, X: Any = None) -> list[list[Any]]:
        """Return kernel values of rows (the basis itself unless given), in balls."""
        return [balls(row) for row in (self.points if X is None else X)]

    def lengths(self) -> list[Any]:
        """Return k(x, x) of all rows, in balls."""
        return balls(np.asarray(self.diagonal, dtype=np.float64))

    def beside(self, Z: Any, penalty: Any) -> tuple[Any, Any]:
        """Return features and the matrix of their penalty: given values have no linear columns beside them."""
        return Z, penalty

    def distinct(self) -> "GivenRows":
        """Return the rows without repetitions, as :meth:`BasisRows.distinct`."""
        K = np.asarray(self.points, dtype=np.float64)
        kept = MatrixColumns(np.arange(K.shape[0])).distinct_vectors(K)
        return replace(self, X=np.asarray(self.X)[:, kept], points=np.asarray(self.points)[np.ix_(kept, kept)])

    def directions(self) -> Array:
        """Return T, from the eigenvectors above rounding: plain numbers."""
        return np.asarray(eigen_features(np.asarray(self.points, dtype=np.float64)).transform)


def prove_reduced(
    rows: BasisRows | GivenRows,
    y: Array,
    gamma: float,
    v: Array,
    fitted: Array,
    tolerance: Tolerance,
    *,
    bits: int = _BITS,
) -> ReducedProof:
    """Return the proof for one output; ``fitted`` is what predict returned for the rows."""
    rows = rows.distinct()
    n, T = int(rows.points.shape[0]), rows.directions()
    features = rows.features_of_kernel
    complete = T.shape[1] >= (n if features is None else min(n, features))
    with precision(bits):
        optimum, change = _in_directions(rows, T, y, gamma, v, complete)
        best = _proof(optimum, change, v, fitted, tolerance, bits)
    if best.proved or complete or rows.defined_by_values or (features is not None and features < n):
        return best
    for more in _MANY_BITS:
        with precision(more):
            matrix = rows.matrix()
            optimum = _optimum(*rows.beside(_table(rows.matrix(rows.X), n), _table(matrix, n)), y, gamma, v)
            proof = _proof(optimum, ball(0.0), v, fitted, tolerance, more)
        if np.isfinite(proof.accuracy) and proof.accuracy <= best.accuracy:
            best = proof
        if proof.proved:
            break
    return best


def _in_directions(
    rows: BasisRows | GivenRows, T: Array, y: Array, gamma: float, v: Array, complete: bool
) -> tuple[list[Any] | None, Any]:
    """Return the exact fitted values on the directions of T, and a bound on what the others may change in them."""
    n, r = T.shape
    columns = flint().arb_mat(n, r, [value for row in T for value in balls(row)])
    Z = _table(rows.matrix(rows.X), n) * columns if r else flint().arb_mat(y.size, 0)
    M = columns.transpose() * _table(rows.matrix(), n) * columns if r else flint().arb_mat(0, 0)
    distance = sum((_square(M[i, j] - int(i == j)) for i in range(r) for j in range(r)), ball(0.0))
    is_known = distance < 1  # else M is not known to be positive definite
    optimum = _optimum(*rows.beside(Z, M), y, gamma, v) if is_known else None
    if optimum is None or complete:
        return optimum, ball(0.0)
    weights, zero = balls(v), ball(0.0)
    inside: Any = M.solve(Z.transpose()) if r else None
    outside = zero
    for i, (length, weight) in enumerate(zip(rows.lengths(), weights, strict=True)):
        remainder = length - sum((Z[i, k] * inside[k, i] for k in range(r)), zero)
        outside += weight * remainder.max(zero)
    errors = [t - f for t, f in zip(balls(y), optimum, strict=True)]
    return optimum, change_by_cut(Balls(ball(gamma) * outside), Balls(weighted_root(errors, weights))).value


def _square(value: Any) -> Any:
    return value * value


def _optimum(Z: Any, penalty: Any, y: Array, gamma: float, v: Array) -> list[Any] | None:
    """Return the exact fitted values of min 1/2 u'Pu + gamma/2 sum v (y - Zu - b)^2; None where the bits do not
    suffice.
    """
    n, r = Z.nrows(), Z.ncols()
    weights, targets, zero = balls(v), balls(y), ball(0.0)
    mass = sum(weights, zero)
    mean = sum((weight * t for weight, t in zip(weights, targets, strict=True)), zero) / mass
    if r == 0:
        return [mean] * n
    row = flint().arb_mat(1, n, weights) * Z
    means = [row[0, k] / mass for k in range(r)]
    centred = flint().arb_mat(n, r, [Z[i, k] - means[k] for i in range(n) for k in range(r)])
    pulled = flint().arb_mat(n, r, [weights[i] * centred[i, k] for i in range(n) for k in range(r)])
    H = pulled.transpose() * centred
    lam = 1 / ball(gamma)
    for i in range(r):
        for j in range(r):
            H[i, j] += lam * penalty[i, j]
    right = pulled.transpose() * flint().arb_mat(n, 1, [t - mean for t in targets])
    try:
        u = H.solve(right)
    except ZeroDivisionError:
        return None
    values = centred * u
    return [mean + values[i, 0] for i in range(n)]


def _proof(
    optimum: list[Any] | None, change: Any, v: Array, fitted: Array, tolerance: Tolerance, bits: int
) -> ReducedProof:
    """Return the proof from the exact fitted values on some directions, and what the others may change in them."""
    bound = flint().arb("inf")
    if optimum is not None:
        differences = [ball(f) - best for f, best in zip(fitted.tolist(), optimum, strict=True)]
        bound = weighted_root(differences, balls(v)) + change
    proof = proof_of(bound, tolerance, bits)
    return ReducedProof.of(proof.accuracy, tolerance, bits, proof.reason)


def _table(rows: Sequence[Sequence[Any]], width: int) -> Any:
    return flint().arb_mat(len(rows), width, [value for row in rows for value in row])
