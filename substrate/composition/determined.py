r"""How closely the quadratic term of a program determines values F x and single coordinates of its optimum.

With :math:`A_E d = 0` and any matrices X, Y,

.. math::

    F^T = P X + A_E^T Y + E \quad\Rightarrow\quad
    \|F d\| \le \sqrt{\lambda_{\max}(X^T P X)}\, \|d\|_P + \||E|^T |d|\| .

Three methods are tried: a *squared loss*, whose residuals cvxpy calls t in rows :math:`t = c\,(y - F x)_i`; then
:math:`\|F d\|_v = \|d_t\|_P` with the weights :math:`v_i = p_i c^2`. A *norm*, where P is diagonal in the columns of F:
then :math:`X = P^{-1} F^T` and E = 0. Otherwise X and Y are taken from the linear system of the optimality conditions.

For a residual r and :math:`d = x^\star - x` the product :math:`r^T d` is bounded coordinate by coordinate: where the
diagonal entry of P is the only one of its row, by :math:`p_j^{-1/2} \|d\|_P`; where P and the equalities determine
:math:`d_j`,

.. math:: |d_j| \le c_j \|d\|_P + |E_j|^T |d| ,

by the above for one row of the identity; elsewhere by a radius R:

.. math:: |r^T d| \le a \|d\|_P + g^T R .
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.cone_program import ConeProgram, IntegerArray
from substrate.composition.feasible_point import Conditions
from substrate.composition.pivoted_features import largest_eigenvalue

__all__ = ["CoordinateBounds", "NormTies", "OutputBound", "by_conditions", "by_loss", "represent"]


_ROOM = 1.0 + 1e-9
#: Entries of a matrix up to which its singular values are computed at once.
_DECOMPOSED = 40_000
#: Factor on the square of a singular value up to which a bound is tight.
_TIGHT = 4.0
#: Refinements of a representation in one round, and how many rounds there are at most.
_REFINEMENTS, _ROUNDS = 6, 20
#: How many matrices of earlier checks are kept besides the present one.
_NORMS = 7


@dataclass(frozen=True, slots=True)
class OutputBound:
    r"""For all d: :math:`\|F d\|_v \le` ``factor`` :math:`\|d\|_P +` ``rest``."""

    factor: float
    remainder: float
    weights: Array


def by_loss(program: ConeProgram, columns: IntegerArray, F: Array, radius: Array) -> OutputBound | None:
    """Bound values that have a squared error of their own each."""
    rows = program.equalities
    alone = program.alone
    is_column = np.zeros(program.q.size, dtype=bool)
    is_column[columns] = True
    n_other_entries = np.diff(rows[:, ~is_column].indptr)
    errors = sp.csr_array(rows[:, ~is_column & (alone > 0.0)])
    (single,) = np.nonzero((n_other_entries == 1) & (np.diff(errors.indptr) == 1))
    if single.size < F.shape[0]:
        return None
    at = errors.indptr[single]
    coefficients = errors.data[at]
    private = np.flatnonzero(~is_column & (alone > 0.0))[errors.indices[at]]
    if np.unique(private).size != private.size:
        return None
    B = rows[single][:, columns].toarray()
    chosen, scales = _match_rows(F, B)
    if chosen is None:
        return None
    weights = alone[private[chosen]] * (scales / coefficients[chosen]) ** 2
    difference = np.abs(B[chosen] / scales[:, None] - F) + relative_rounding(4.0) * np.abs(F)
    remainder = float(np.linalg.norm(np.sqrt(weights) * (difference @ radius[columns])))
    return OutputBound(_ROOM, remainder, weights)


def _match_rows(F: Array, B: Array) -> tuple[IntegerArray | None, Array]:
    """Return for each row of F one of B that is a multiple of it, each taken once; and the multiples."""
    n = F.shape[0]
    for start in range(0, B.shape[0] - n + 1, max(n, 1)):  # cvxpy keeps the order
        scales = _multiples(F, B[start : start + n])
        if scales is not None:
            return np.arange(start, start + n), scales
    sizes, sizes_of_rows = np.linalg.norm(F, axis=1), np.linalg.norm(B, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        likeness = np.abs((F / sizes[:, None]) @ (B / sizes_of_rows[:, None]).T)
    taken = np.zeros(B.shape[0], dtype=bool)
    chosen = np.zeros(n, dtype=np.intp)
    for i in range(n):
        candidates = np.flatnonzero((likeness[i] > 1.0 - 1e-9) & ~taken)
        good = next((k for k in candidates if _multiples(F[i : i + 1], B[k : k + 1]) is not None), None)
        if good is None:
            return None, np.zeros(0)
        chosen[i], taken[good] = good, True
    scales = _multiples(F, B[chosen])
    return (None, np.zeros(0)) if scales is None else (chosen, scales)


def _multiples(F: Array, B: Array) -> Array | None:
    at = np.abs(F).argmax(axis=1)
    every = np.arange(F.shape[0])
    largest = F[every, at]
    if (largest == 0.0).any():
        return None
    scales = B[every, at] / largest
    if (scales == 0.0).any() or (np.abs(B - scales[:, None] * F) > 1e-13 * np.abs(scales * largest)[:, None]).any():
        return None
    return np.asarray(scales)


class NormTies:
    """Ties by a norm; the last ones are kept, since another weight of the loss leaves them as they are."""

    def __init__(self) -> None:
        self._known: list[tuple[Array, float]] = []

    def by_norm(self, program: ConeProgram, columns: IntegerArray, F: Array) -> OutputBound | None:
        """Bound the values where P is diagonal in all columns that F uses."""
        used = F.any(axis=0)
        diagonal = program.alone[columns][used]
        if (diagonal == 0.0).any():
            return None
        scaled = F[:, used] / np.sqrt(diagonal)
        factor = next((factor for M, factor in self._known if np.array_equal(M, scaled)), None)
        if factor is None:
            factor = _largest_singular_value(scaled) if used.any() else 0.0
            self._known = [*self._known[-_NORMS:], (scaled, factor)]
        if program.whole is not None:
            factor = math.hypot(factor, math.sqrt(program.whole.directly(columns)))
        return OutputBound(_ROOM * factor, 0.0, np.ones(F.shape[0]))


def _largest_singular_value(M: Array) -> float:
    """Bound it by the row sums or the norm of M'M where these are tight, or else by the decomposition."""
    size = float(np.linalg.norm(M))
    if M.size > _DECOMPOSED and 0.0 < size < math.inf:
        # in single precision, at half the cost: M/size has no large entry, and an error of (n + 4) u in the norm
        single = np.asfortranarray(M / size, dtype=np.float32)
        gram = (single.T @ single).astype(np.float64)
        bound = min(float(np.abs(gram).sum(axis=1).max()), float(np.linalg.norm(gram)))
        if bound <= _TIGHT * largest_eigenvalue(gram):
            return size * math.sqrt(bound + (M.shape[0] + 4.0) * 2.0**-23)
    return float(np.linalg.norm(M, 2)) + 1e-12 * size


def by_conditions(program: ConeProgram, columns: IntegerArray, F: Array, radius: Array) -> OutputBound | None:
    """Bound the values by a linear system; the remainder of F is included."""
    solved = _represent(program, columns, F)
    if solved is None:
        return None
    X, Y, residual = solved
    gram = X.T @ (program.P @ X)
    form_radius = relative_rounding(X.shape[0]) * float(np.linalg.norm(np.abs(X).T @ (program.sizes[0] @ np.abs(X))))
    largest = float(np.linalg.eigvalsh((gram + gram.T) / 2.0)[-1]) + 2.0 * form_radius
    if program.whole is not None:  # the trace bounds the largest eigenvalue of what is added
        largest += float(program.whole.further(Y, program.equal, columns, F).sum())
    remainder = float(np.linalg.norm(residual.T @ radius))
    return OutputBound(_ROOM * float(np.sqrt(max(largest, 0.0))), remainder, np.ones(F.shape[0]))


def represent(
    program: ConeProgram, columns: IntegerArray, F: Array, conditions: Conditions | None = None
) -> tuple[Array, Array] | None:
    """Return X, and the sizes of E with their rounding; None where there is no such X.

    ``conditions`` are those of the program where they are factored already.
    """
    solved = _represent(program, columns, F, conditions, _ROUNDS)
    return None if solved is None else (solved[0], solved[2])


def _represent(
    program: ConeProgram,
    columns: IntegerArray,
    F: Array,
    conditions: Conditions | None = None,
    rounds: int = 1,
) -> tuple[Array, Array, Array] | None:
    """Return X, Y, and the sizes of E.

    A weak direction of P loses little of its residual in a refinement, as the diagonal that is added weighs more than
    it: another round follows where the last one has halved a residual that is not yet of rounding size.
    """
    n, rows = program.q.size, program.equalities
    if not program.P.nnz:
        return None
    right = np.zeros((n + rows.shape[0], F.shape[0]))
    right[columns] = F.T
    solved, before = np.zeros_like(right), np.full(F.shape[0], np.inf)
    try:
        factored = conditions or Conditions(program.P, rows)
    except RuntimeError:  # singular all the same
        return None
    for _ in range(rounds):
        solved = factored.solve(right, solved, refinements=_REFINEMENTS)
        if not np.isfinite(solved).all():
            return None
        X, Y = solved[:n], solved[n:]
        residual = np.abs(right[:n] - program.P @ X - rows.T @ Y)
        sizes = program.sizes[0] @ np.abs(X) + program.sizes[1][program.equal].T @ np.abs(Y) + np.abs(right[:n])
        rounding = relative_rounding(n + rows.shape[0]) * sizes
        largest = residual.max(axis=0, initial=0.0)
        if not ((largest > rounding.max(axis=0, initial=0.0)) & (largest <= 0.5 * before)).any():
            break
        before = largest
    return X, Y, residual + rounding


#: Factor up to which a coordinate counts as determined, and share of its radius that may remain.
_STIFF, _LITTLE = 1e6, 1e-3


@dataclass(frozen=True, slots=True)
class CoordinateBounds:
    """The diagonal of P where it is the only entry; further columns that P determines, their c and sizes of E."""

    alone: Array
    columns: IntegerArray
    factors: Array
    remainder: Array

    @classmethod
    def of(cls, program: ConeProgram, largest: int) -> "CoordinateBounds":
        """Return the ties of a program; with more variables than ``largest``, those on the diagonal only."""
        weak = np.flatnonzero(program.alone == 0.0)
        unit = np.eye(weak.size)
        representation = _represent(program, weak, unit) if weak.size and program.q.size <= largest else None
        if representation is None:
            return cls(program.alone, np.zeros(0, np.intp), np.zeros(0), np.zeros((program.q.size, 0)))
        X, Y, residual = representation
        size = relative_rounding(X.shape[0]) * np.sum(np.abs(X) * (program.sizes[0] @ np.abs(X)), axis=0)
        if program.whole is not None:
            size = size + program.whole.further(Y, program.equal, weak, unit)
        factors = _ROOM * np.sqrt(np.maximum(np.sum(X * (program.P @ X), axis=0), 0.0) + size)
        use = np.isfinite(factors) & (factors <= _STIFF)
        return cls(program.alone, weak[use], factors[use], residual[:, use])

    def split(self, r: Array, radius: Array) -> tuple[float, Array]:
        """Return a and g for the sizes r of a residual."""
        diagonal = self.alone > 0.0
        a = float(np.linalg.norm(r[diagonal] / np.sqrt(self.alone[diagonal])))
        use = self.remainder.T @ radius <= _LITTLE * radius[self.columns]
        tied = self.columns[use]
        g = np.where(diagonal, 0.0, r)
        g[tied] = 0.0
        return a + float(r[tied] @ self.factors[use]), g + self.remainder[:, use] @ r[tied]
