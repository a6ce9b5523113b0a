r"""The column-reduced LS-SVM classifier: the second stage of LS2-SVM, Ada-Pinv and IP-LSSVM.

.. math::

    \min_{b, \alpha_S} \; \Big\| A_S \begin{bmatrix} b \\ \alpha_S \end{bmatrix} - B \Big\|^2, \qquad
    A = \begin{bmatrix} 0 & Y^T \\ Y & \Omega + I/\gamma \end{bmatrix}, \qquad
    B = \begin{bmatrix} 0 \\ 1 \end{bmatrix}

Symbols: Y labels -1, +1; :math:`\Omega = Y Y^T \circ K` label-signed kernel matrix; :math:`\gamma` weight of the
errors; b bias; :math:`\alpha_S` support values of the kept patterns S, all others are zero; :math:`A_S` the first
column of A, which belongs to the bias, and the columns of S. All rows are kept: the first requires
:math:`Y^T \alpha = 0`, here in the sense of least squares only, the others for
:math:`y_i f(x_i) = 1 - \alpha_i/\gamma`.

The classifier is the sign of :math:`f(x) = \sum_{i \in S} \alpha_i y_i k(x_i, x) + b`. With all columns the residual is
zero and this is the LS-SVM. The problem is declared in orthonormal coordinates of the range of :math:`A_S`.

S is given, or chosen by the support values of the LS-SVM: the largest (``"signed"``, IP-LSSVM) or the largest in size
(``"absolute"``, Ada-Pinv with a converged Adaline).

Closed form: :func:`substrate.fits.column_reduction.solve_columns`.

[Carvalho2006]_ eq. (3)-(5), sections 3.3-3.5. Errata: (3) adds :math:`1/\gamma` to every entry where it belongs on the
diagonal; :math:`-Y^T` in (4) is harmless but makes A non-symmetric; it is not stated that the bias is kept.
"""

from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive
from substrate.certificate import Row
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.errors import DataError
from substrate.fits.column_reduction import (
    column_rows,
    ranked_columns,
    solve_columns,
    support_count,
    with_bias,
)
from substrate.ingredients import RegressionFit, regression_fit, signed_labels
from substrate.kernels import RBF
from substrate.numbers import relative_rounding
from substrate.operators.gram import Gram
from substrate.operators.saddle_system import bordered_system, ridge_of, solve_saddle_system
from substrate.robust_weights import check_choice

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

DEMONSTRATION = Demonstration(
    equations="Carvalho2006 (4), sections 3.3-3.5",
    cases=tuple(
        Case(
            label=chosen,
            choice={"selection": chosen},
            dataset="ripley",
            kernel=RBF(sigma=0.5),
            parameters={"gamma": 1.0, "n_support": 0.2},
            every=2,
        )
        for chosen in ("signed", "absolute")
    ),
)

_UNBOUNDED = "it minimises the squared residual of a system, which does not bound the fitted values of the LS-SVM"


def declare(
    K: Any, y: Any, gamma: float, n_support: float = 0.5, selection: str = "signed", columns: Any = None
) -> Declared:
    """Declare the problem on a kernel matrix (or a Gram) and labels -1, +1; ``columns`` names the patterns S itself.

    :place [Carvalho2006]_ sections 3.3 to 3.5, X = pinv(A) B: the same, declared
    """
    gram = given_gram(K)
    system = _check_arguments(gram, y, gamma, n_support, selection, columns, convex=True)
    labels, kept, A, B = system.labels, system.kept, system.A, system.B
    kept_columns = A[:, with_bias(kept)]
    U, s, Vt = np.linalg.svd(kept_columns, full_matrices=False)
    inside = s > relative_rounding(max(A.shape)) * s[0]
    basis, back = U[:, inside], Vt[inside].T / s[inside]  # x = back z is the shortest x with the values basis z
    stated = _problem(basis, B)

    def solution() -> Array:
        return np.asarray(back @ stated.z.value)

    def rows(tolerance: float) -> tuple[Row, ...]:
        x = solution()
        return (stated.fit.row(tolerance), *column_rows(A, kept, B, float(x[0]), x[1:], tolerance=tolerance))

    def record() -> tuple[tuple[str, str], ...]:
        kept_columns = f"{kept.size} of {labels.size}, {int(inside.sum())} directions of {kept.size + 1} kept"
        return (*gram.record(), ("columns", kept_columns))

    values = {
        "support_values": lambda: _spread(solution()[1:], kept, labels.size),
        "bias": lambda: solution()[0],
        "errors": lambda: stated.e.value,
    }
    units = {"support_values": float(1.0 / system.ridge.max()), "bias": 1.0, "errors": 1.0}
    title = "Column-reduced LS-SVM classification"
    return Declared(
        title=title,
        problem=stated.problem,
        parameters={},
        values=values,
        rows=rows,
        record=record,
        units=lambda: units,
        unit=lambda: float(np.linalg.norm(B)),
        accuracy=_UNBOUNDED,
    )


class _StatedProblem(NamedTuple):
    """The cvxpy problem with its equality and its variables."""

    problem: Any
    fit: RegressionFit
    z: Any
    e: Any


def _problem(basis: Array, B: Array) -> _StatedProblem:
    z, e = cp.Variable(basis.shape[1], name="z"), cp.Variable(B.size, name="e")
    fit = regression_fit(B, basis @ z, e)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(e)), [fit.constraint])
    return _StatedProblem(problem=problem, fit=fit, z=z, e=e)


def closed_form(
    K: Any, y: Any, gamma: float, n_support: float = 0.5, selection: str = "signed", columns: Any = None
) -> dict[str, Array]:
    """Return the same quantities by normal equations or a rank-revealing factorisation."""
    system = _check_arguments(own_gram(K), y, gamma, n_support, selection, columns, convex=False)
    kept, A, B = system.kept, system.A, system.B
    solved = solve_columns(A, kept, B)
    errors = B - A[:, with_bias(kept)] @ np.append(solved.bias, solved.coefficients)
    alpha = _spread(solved.coefficients, kept, system.labels.size)
    return {"support_values": alpha, "bias": np.asarray(solved.bias), "errors": errors}


class _KeptSystem(NamedTuple):
    """The labels, the diagonal 1/gamma, the kept patterns, and A and B of the system."""

    labels: Array
    ridge: Array
    kept: Any
    A: Array
    B: Array


def _check_arguments(
    gram: Gram, y: Any, gamma: float, n_support: Any, selection: str, columns: Any, *, convex: bool
) -> _KeptSystem:
    """Check the arguments, and choose the patterns whose columns are kept."""
    labels = signed_labels(y, gram.n)
    ridge = ridge_of(positive(gamma, "gamma"), np.ones(gram.n))
    count = support_count(n_support, gram.n)
    check_choice(selection, ("signed", "absolute"), "selection")
    if convex:
        gram.coordinates()  # refuses a matrix that is not positive semi-definite
    else:
        gram.check_definite()  # convex for any matrix, but then without a w
    A, B = bordered_system(gram.matrix, labels, ridge)
    if columns is not None:
        kept = _check_columns(columns, gram.n)
    else:
        # a copy: the factor of the first stage would overwrite the caller's Gram matrix
        alpha = labels * solve_saddle_system(Gram.from_matrix(gram.matrix), labels, ridge).support_values
        kept = ranked_columns(alpha if selection == "signed" else np.abs(alpha), count)
    return _KeptSystem(labels=labels, ridge=ridge, kept=kept, A=A, B=B)


def _check_columns(columns: Any, n: int) -> Any:
    """Return distinct patterns among n, in order."""
    kept = np.asarray(columns)
    if kept.ndim != 1 or kept.dtype.kind not in "iu" or (kept.size and not 0 <= kept.min() <= kept.max() < n):
        raise DataError(f"columns must be a list of patterns, integers from 0 to {n - 1}, received {columns!r}")
    distinct = np.unique(kept)
    if distinct.size < kept.size:
        raise DataError(f"columns names {kept.size} patterns of which {distinct.size} are distinct; name each once")
    return distinct


def _spread(coefficients: Array, kept: Any, n: int) -> Array:
    alpha = np.zeros(n)
    alpha[kept] = coefficients
    return alpha
