r"""Fusion of training and validation with regularization constants of a few columns.

.. math::

    \min_{\alpha, b, u, e, e^v} \; \|e\|_2^2 + \|e^v\|_2^2 \quad \text{s.t.} \quad
    \begin{cases} y = \Omega \alpha + b 1_N + e, \quad 1_N^T \alpha = 0, \quad e = \alpha + c, \quad c = Z u, \\
    y^v = \Omega^v \alpha + b 1_n + e^v \end{cases}

Symbols: :math:`\Omega` kernel matrix of the N training points; :math:`\Omega^v` kernel values of the n validation
points against them, :math:`n \times N`; e and :math:`e^v` errors on both; :math:`\alpha` support values; b bias; c
additive regularization constants; Z columns that they are confined to, :math:`N \times q` with q < N: one indicator for
each group of rows, so that a group shares one constant, or a profile of the noise; u their coefficients. In
classification errors are :math:`1 - y \circ f` and the coefficients :math:`y \circ \alpha`.

With c free (:mod:`problems.fused_least_squares`) the machine over-fits its validation points when N exceeds n. Here
they choose q numbers: c = 0 is the LS-SVM with :math:`\gamma = 1`, and validation and training errors together are no
larger than there. A constant column moves the bias and nothing else, since :math:`1^T \alpha = 0` absorbs it.

Closed form: for a given u the machine solves the linear system of the substrate,
:math:`(\Omega + I) \alpha + b 1 = y - Z u`, whose solution is affine in u: :math:`\alpha = \alpha_0 - A u` and
:math:`b = b_0 - \beta^T u`, where every column of A and :math:`\beta` belongs to one of Z as target. All errors
together are

.. math:: r(u) = r_0 + M u, \qquad r_0 = \begin{bmatrix} \alpha_0 \\ y^v - \Omega^v \alpha_0 - b_0 1 \end{bmatrix},
          \qquad M = \begin{bmatrix} Z - A \\ \Omega^v A + 1 \beta^T \end{bmatrix} ,

and :math:`u = -M^+ r_0`. Where columns depend on each other u is the shortest one, and the errors are unique.

[Pelckmans2005]_ eq. (20)-(21) and section 4.2, which proposes to confine c to a subset against over-fitting and leaves
the subset open; here it is a subspace.
"""

from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration, half_validates
from substrate.arrays import Array, positive, real_array
from substrate.certificate import Row
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.expansion import checked_targets, signs_of, validation_rows
from substrate.declare.regression_page import within_solvers
from substrate.errors import DataError
from substrate.ingredients import RegressionFit, regression_fit, zero_sum_row
from substrate.kernels import RBF, Kernel
from substrate.numbers import relative_rounding
from substrate.operators.gram import Gram
from substrate.operators.saddle_system import solve_saddle_system

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

#: Relative size of the directions of M left out.
CUTOFF = 1e-10
_UNBOUNDED = (
    "its errors are a projection along columns that are solutions of linear systems themselves, whose rounding is not "
    "counted; certificate(against=closed_form(...)) compares them"
)


def _thirds_of_rows(kernel: Kernel, X: Array, y: Array) -> dict[str, Any]:
    """Hold out every other row, with one constant for each third of the training rows along the first input."""
    arguments = half_validates(kernel, X, y)
    order = np.argsort(np.argsort(X[1::2, 0], kind="stable"), kind="stable")
    groups = 3 * order // order.size
    return {**arguments, "Z": np.equal.outer(groups, np.arange(3)).astype(np.float64)}


DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (20)-(21), section 4.2",
    cases=(
        Case(
            label="regression",
            choice={"task": "regression"},
            dataset="motorcycle",
            kernel=RBF(sigma=10.0),
            parameters={},
            build=_thirds_of_rows,
        ),
        Case(
            label="classification",
            choice={"task": "classification"},
            dataset="ripley",
            kernel=RBF(sigma=0.5),
            parameters={},
            every=2,
            build=_thirds_of_rows,
        ),
    ),
)


def declare(K: Any, y: Any, K_val: Any, y_val: Any, Z: Any, task: str = "regression") -> Declared:
    """Declare the problem on the kernel matrix, the rows of the validation points, both targets and the columns.

    :place [Pelckmans2005]_ section 4.2, "confining the space of possible c values": constants of few columns
    """
    gram = given_gram(K)
    target, below, target_val, columns, signs = _check_arguments(gram, y, K_val, y_val, Z, task)
    gram.coordinates()  # refuses a matrix that is not positive semi-definite
    both = within_solvers(np.append(target, target_val))
    target, target_val = both[: gram.n], both[gram.n :]
    slopes = _errors_of_columns(own_gram(gram), target, below, target_val, columns)[1]
    problem, fit, alpha, b, u = _problem(gram, target, below, target_val, columns)

    def errors() -> Array:
        return np.append(target - gram.matrix @ alpha.value - b.value, target_val - below @ alpha.value - b.value)

    def rows(tolerance: float) -> tuple[Row, ...]:
        size, scales = float(np.linalg.norm(both)), np.abs(target) + np.abs(columns @ u.value)
        orthogonal = Row(
            name="errors orthogonal to M",
            value=float(np.linalg.norm(slopes.T @ errors())),
            scale=size * float(np.linalg.norm(slopes)),
            tolerance=tolerance,
            formula="||M'r||",
        )
        return fit.row(tolerance), zero_sum_row(alpha.value, tolerance, scales), orthogonal

    all_signs = np.append(signs, signs_of(target_val, task))
    values = {
        "errors": lambda: (all_signs * errors())[: gram.n],
        "validation_errors": lambda: (all_signs * errors())[gram.n :],
        "support_values": lambda: signs * alpha.value,
        "bias": lambda: b.value,
    }
    return Declared(
        title=f"Confined fusion, {task}",
        problem=problem,
        parameters={},
        values=values,
        rows=rows,
        record=lambda: (*gram.record(), ("columns of c", str(columns.shape[1]))),
        unit=lambda: float(np.linalg.norm(both)) or 1.0,
        accuracy=_UNBOUNDED,
    )


def _problem(
    gram: Gram, target: Array, below: Array, target_val: Array, columns: Array
) -> tuple[Any, RegressionFit, Any, Any, Any]:
    alpha, b = cp.Variable(gram.n, name="alpha"), cp.Variable(name="b")
    lengths = np.linalg.norm(columns, axis=0)
    unit_columns = columns / np.where(lengths > 0.0, lengths, 1.0)
    scaled = cp.Variable(columns.shape[1], name="u")
    e = alpha + unit_columns @ scaled
    fit = regression_fit(target, gram.matrix @ alpha + b, e)
    validation = target_val - below @ alpha - b
    total = cp.sum_squares(e) + cp.sum_squares(validation)
    # where columns depend on each other u is not determined, and is not read
    problem = cp.Problem(cp.Minimize(total), [fit.constraint, cp.sum(alpha) == 0])
    return problem, fit, alpha, b, scaled


def closed_form(
    K: Any, y: Any, K_val: Any, y_val: Any, Z: Any, task: str = "regression", cutoff: float = CUTOFF
) -> dict[str, Array]:
    """Return the same quantities by linear systems and a projection.

    :place [Pelckmans2005]_ section 4.2, "confining the space of possible c values": the projection
    """
    gram = own_gram(K)
    target, below, target_val, columns, signs = _check_arguments(gram, y, K_val, y_val, Z, task)
    gram.check_definite()  # convex for any matrix, but then without a w
    positive(cutoff, "cutoff")
    centre = float(np.mean(target))  # the rounding is then of y about its mean, whatever the offset
    start, slopes, machines, biases = _errors_of_columns(gram, target - centre, below, target_val - centre, columns)
    Q, s, Vt = np.linalg.svd(slopes, full_matrices=False)
    keep = s > max(cutoff, relative_rounding(slopes.shape[0])) * float(s[0])
    along = Q[:, keep].T @ start
    weights = np.append(1.0, (Vt[keep].T / s[keep]) @ along)  # one, and minus u for columns of length one
    errors = np.append(signs, signs_of(target_val, task)) * (start - Q[:, keep] @ along)
    return {
        "errors": errors[: gram.n],
        "validation_errors": errors[gram.n :],
        "support_values": signs * (machines @ weights),
        "bias": np.asarray(centre + biases @ weights),
    }


def _errors_of_columns(
    gram: Gram, target: Array, below: Array, target_val: Array, columns: Array
) -> tuple[Array, Array, Array, Array]:
    """Return r_0 and M for columns of length one, and the support values and biases of y and of every column."""
    sizes = np.abs(columns).max(axis=0)  # in two steps: squares of large or small columns leave the range
    unit = columns / np.where(sizes > 0.0, sizes, 1.0)
    lengths = np.linalg.norm(unit, axis=0)
    unit = unit / np.where(lengths > 0.0, lengths, 1.0)
    ridge = np.ones(gram.n)
    solved = [solve_saddle_system(gram, values, ridge) for values in (target, *unit.T)]
    machines = np.column_stack([solution.support_values for solution in solved])
    biases = np.array([solution.bias for solution in solved])
    moved = below @ machines + biases
    start = np.append(machines[:, 0], target_val - moved[:, 0])
    return start, np.vstack([unit - machines[:, 1:], moved[:, 1:]]), machines, biases


def _check_arguments(
    gram: Gram, y: Any, K_val: Any, y_val: Any, Z: Any, task: str
) -> tuple[Array, Array, Array, Array, Array]:
    """Return both targets, the rows of the validation points, the columns in regression's sign, and the signs."""
    target = checked_targets(y, gram.n, task)
    below, target_val = validation_rows(K_val, y_val, gram.n, task)
    signs = signs_of(target, task)
    columns = real_array(Z, "Z", ndim=(1, 2))
    columns = columns[:, None] if columns.ndim == 1 else columns
    if columns.shape[0] != gram.n:
        raise DataError(f"Z must have one row per training row: expected {gram.n}, received {columns.shape[0]}")
    return target, below, target_val, signs[:, None] * columns, signs
