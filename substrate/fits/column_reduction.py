r"""Fewer columns, all rows: least squares on a part of the columns of the LS-SVM's system, and their selection.

.. math:: \min_{b, \alpha_S} \; \Big\| A_S \begin{bmatrix} b \\ \alpha_S \end{bmatrix} - B \Big\|^2

[Carvalho2006]_ sections 3.3 to 3.5: S are the support vectors, :math:`A_S` the column of the bias and the columns of S,
and every row of A is kept, so that every pattern enters the fit. The column of the bias and the row
:math:`Y^T \alpha = 0` are never removed.

A rank-revealing QR factorisation of the columns, scaled to unit length, gives the shortest solution [Golub2013]_.

The columns are selected by the rank of the support values, or by echelon reduction.

*Ranking* keeps the n columns with the largest criterion: :math:`|\alpha_i|` in Ada-Pinv, :math:`\alpha_i` itself in
IP-LSSVM, where a negative value means a pattern well inside its own class [Carvalho2006]_ sections 3.4 and 3.5.

*Echelon reduction* goes through the columns from left to right, eliminates the kept ones from each with partial
pivoting over the rows, and drops a column without a remaining entry above a threshold [Carvalho2006]_ section 3.3. The
bias column comes first and stays. While row i is no pivot, column i still contains the :math:`1/\gamma` of its
diagonal: a threshold below :math:`1/\gamma` drops hardly any column whatever the kernel, and one slightly above drops
those that the kernel explains. The threshold is therefore

.. math:: \frac1\gamma + \text{tolerance} \cdot \max_i k(x_i, x_i) ,

which makes the tolerance a share of the kernel's own size. The result depends on the order of the rows, as published.

**The answer.** With :math:`C = A_S`, :math:`x = (b, \alpha_S)` and errors :math:`e = B - C x` the exact solution is
:math:`x + \delta` with :math:`C^T C \delta = C^T e =: g`, and its fitted values are the fitted values of x plus the
rows of :math:`C \delta` less :math:`\tfrac1\gamma \delta_\alpha` in the kept rows. Hence

.. math:: \|f - f^\star\| \le \Big(1 + \frac1\gamma \|(C^T C)^{-1} C^T\|\Big) \sqrt{g^T (C^T C)^{-1} g} ,

over numbers with a radius (:mod:`~substrate.numbers`); what e is off by counts with its length. The
kernel need not be positive semi-definite for that. In balls it is a proof.
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lstsq, solve_triangular

from substrate.arrays import Array, blas_threads, positive
from substrate.certificate import Row, roundoff
from substrate.errors import DeclarationError, SolverError
from substrate.kernels.kernel import Kernel
from substrate.numbers import Double, relative_rounding

__all__ = [
    "FORMULA",
    "ColumnMachine",
    "ColumnSolution",
    "column_rows",
    "echelon_columns",
    "echelon_threshold",
    "enclose_columns",
    "ranked_columns",
    "solve_columns",
    "support_count",
    "with_bias",
]

FORMULA = "(1 + ||D (A_S'A_S)^-1 A_S'||) ||(A_S'A_S)^-1/2 A_S'e|| + rounding"


class ColumnSolution(NamedTuple):
    """The bias, the coefficients of the kept columns, and how many directions the columns have."""

    bias: float
    coefficients: Array
    rank: int


def with_bias(columns: Any) -> Any:
    """Return the columns of A that belong to the bias and to these patterns."""
    return np.append(0, np.asarray(columns, dtype=np.intp) + 1)


def solve_columns(A: Array, columns: Any, B: Array) -> ColumnSolution:
    """Solve least squares on the column of the bias and the columns of the given patterns.

    :place [Carvalho2006]_ sections 3.3 to 3.5, X = pinv(A) B: least squares on the kept columns
    """
    C = A[:, with_bias(columns)]
    length = np.linalg.norm(C, axis=0)
    length = np.where(length > 0.0, length, 1.0)
    with blas_threads(A.shape[0]):
        x, _, rank, _ = lstsq(
            C / length, B, cond=relative_rounding(max(C.shape)), lapack_driver="gelsy", check_finite=False
        )
    x = x / length
    if not np.isfinite(x).all():
        raise SolverError(
            "the least-squares solution on the kept columns overflows; scale the kernel, or choose a smaller gamma"
        )
    return ColumnSolution(float(x[0]), np.ascontiguousarray(x[1:]), int(rank))


def column_rows(
    A: Array, columns: Any, B: Array, bias: float, coefficients: Array, *, tolerance: float | None = None
) -> tuple[Row, ...]:
    """Check that the errors are orthogonal to the bias column and to every kept column: optimality of least squares."""
    C = A[:, with_bias(columns)]
    x = np.append(bias, coefficients)
    length = np.linalg.norm(C, axis=0)
    C, x = C / np.where(length > 0.0, length, 1.0), x * length
    e = B - C @ x
    norm = float(np.linalg.norm(C))
    # the errors are a difference of these terms, and each inner product adds them up once more
    scale = norm * float(np.linalg.norm(x)) + float(np.linalg.norm(B))
    limit = roundoff(A.shape[0]) if tolerance is None else tolerance
    inner = C.T @ e
    return (
        Row(
            name="errors orthogonal to the bias column",
            value=float(abs(inner[0])),
            scale=scale,
            tolerance=limit,
            formula="|a_0'e| / |a_0|",
        ),
        Row(
            name="errors orthogonal to the columns",
            value=float(np.linalg.norm(inner[1:])),
            scale=norm * scale,
            tolerance=limit,
            formula="||A_S'e||",
        ),
    )


@dataclass(frozen=True, slots=True)
class ColumnMachine:
    """A stored machine: targets of n rows, which of them are kept, gamma, bias, and coefficients of the kept ones."""

    y: Array
    columns: Any
    gamma: float
    bias: float
    coefficients: Array

    def enclose(self, kernel: Any) -> Any:
        """Return the kept columns of the bordered system, its border last, from enclosed kernel values of all rows."""
        numbers, kept = type(kernel), self.columns
        places = np.zeros((self.y.size, kept.size))
        places[kept, np.arange(kept.size)] = 1.0
        ones, last = np.ones((self.y.size, 1)), np.append(0.0, np.ones(kept.size))[:, None]
        rows = numbers.exact(ones).beside(kernel + numbers.exact(places) * (numbers.exact(1.0) / self.gamma))
        return rows.T.beside(numbers.exact(last)).T

    def bound(self, kernel: Any, fitted: Array) -> float:
        """Bound the distance of the fitted values from the exact solution, root mean square.

        Parameters
        ----------
        kernel
            The kernel values of all rows against the kept ones, in double precision with a radius or in balls.
        fitted
            What predict returns.
        """
        numbers, n = type(kernel), self.y.size
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite is no bound
            C, a, ridge = self.enclose(kernel), numbers.exact(self.coefficients), numbers.exact(1.0) / self.gamma
            f = (kernel * a).add_up() + self.bias
            e = (self.y - f - (ridge * a).place(self.columns, n)).after(-a.total())
            unknown = e.error().bound_norm(np.ones(n + 1)) * numbers.exact(n + 1.0).sqrt()
            middle = e.without_radius()
            rows = middle.take(np.append(np.arange(1, n + 1), 0))  # the border last
            whole, reach = C.bound_inverse((C.T * rows).add_up())
            radius = (whole + unknown) * (ridge * reach + 1.0)
            distance = (fitted - f).bound_norm(np.ones(n))
            return float((radius / numbers.exact(float(n)).sqrt() + distance).upper())


def enclose_columns(kernel: Kernel, points: Any, columns: Any) -> Double:
    """Return kernel values of all rows against the kept ones, each with a radius."""
    if kernel.pairwise:
        return Double.exact(kernel.values(points[:, columns], None))
    return kernel.enclose(points, points[columns])


#: Criteria this close, relative to the largest, are equal: the earlier row then goes first.
_DIGITS = 10


def support_count(n_support: Any, n: int, name: str = "n_support") -> int:
    """Return how many of n patterns: an integer counts them, a float in (0, 1] is a fraction, rounded, at least one."""
    wanted = "a count from 1 to the number of patterns (an integer) or a fraction in (0, 1] (a float)"
    if isinstance(n_support, np.ndarray) and n_support.ndim == 0:
        n_support = n_support[()]
    if isinstance(n_support, Integral) and not isinstance(n_support, (bool, np.bool_)):
        count = int(n_support)
        if not 1 <= count <= n:
            received = repr(count) if abs(count) < 10**12 else "a number of more than twelve digits"
            raise DeclarationError(f"{name} must be {wanted}, received {received} for {n} patterns")
        return count
    try:
        fraction = positive(n_support, name)
    except DeclarationError as error:
        raise DeclarationError(f"{name} must be {wanted}, received {n_support!r}") from error
    if fraction > 1.0:
        raise DeclarationError(f"{name} must be {wanted}, received {n_support!r}")
    return max(1, round(fraction * n))


def ranked_columns(criterion: Array, count: int) -> Any:
    """Return the patterns with the largest criterion, in the order of the rows.

    :place [Carvalho2006]_ sections 3.4 and 3.5: Ada-Pinv and IP-LSSVM, columns by rank
    """
    largest = float(np.abs(criterion).max(initial=0.0))
    rounded = np.round(criterion / largest, _DIGITS) if largest > 0.0 else criterion
    return np.sort(np.argsort(-rounded, kind="stable")[:count])


def echelon_threshold(diagonal: Array, ridge: Array, tolerance: float) -> float:
    """Return the tolerance in the units of A: 1/gamma and a share of the largest kernel value."""
    return float(ridge.max() + positive(tolerance, "tolerance") * np.abs(diagonal).max())


def echelon_columns(A: Array, threshold: float) -> Any:
    """Return the patterns whose columns keep an entry above the threshold when the kept columns before them are
    eliminated.

    Gaussian elimination, column by column, to which the kept columns are applied; dropped ones cost nothing afterwards.

    :place [Carvalho2006]_ section 3.3: LS2-SVM, echelon reduction under a tolerance
    """
    n = A.shape[0]
    order, L, kept = np.arange(n), np.zeros((n, n), order="F"), list[int]()
    for number in range(n):
        column, k = A[order, number], len(kept)
        if k:
            column[:k] = solve_triangular(L[:k, :k], column[:k], lower=True, unit_diagonal=True, check_finite=False)
            column[k:] -= L[k:, :k] @ column[:k]
        pivot = k + int(np.abs(column[k:]).argmax())
        if number > 0 and abs(column[pivot]) <= threshold:
            continue
        for rows in (order, L[:, :k], column):
            rows[[k, pivot]] = rows[[pivot, k]]
        L[k:, k] = column[k:] / column[k]
        kept.append(number)
    return np.array(kept[1:], dtype=np.intp) - 1
