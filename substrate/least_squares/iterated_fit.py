"""Dense least-squares fits by conjugate gradients: the outputs of a question, and a fit judged by its certificate rows.

The plan is that of :mod:`~substrate.least_squares.solver_choice`. Rows are computed from a product with K in double
precision; where one of them fails, no part of the iteration is used, and the stored triangle becomes the matrix that is
factored.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rows import roundoff
from substrate.certificates.tolerance import tolerances_of
from substrate.errors import DeclarationError, SolverError
from substrate.gram import Gram
from substrate.least_squares.answer import AnswerProblem, bound_answer
from substrate.least_squares.border import Border
from substrate.least_squares.conjugate_gradient import GradientSolution, solve_by_conjugate_gradients
from substrate.least_squares.kernel_tiles import KernelTiles
from substrate.least_squares.preconditioner import KernelSample
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_certificate import saddle_rows, worst_rows
from substrate.least_squares.solver_choice import (
    Plan,
    iterated_seconds,
    plan,
    plan_on_device,
    sample_size,
    warn_of_long_fit,
)
from substrate.namespaces import is_device_array, where_it_lives
from substrate.operators import KernelOperator
from substrate.progress import LateProgress

__all__ = ["IteratedFit", "Unfitted", "iterated_fit"]

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class IteratedFit:
    """Support values, biases, certificate rows and facts of a fit.

    ``reason`` states why an iteration that was required did not converge. ``slopes`` are the coefficients of the
    columns of the border beside the constant, ``deviations`` the roots of the diagonal of (Z'(K + D)^-1 Z)^-1 that
    belong to them.
    """

    facts: Facts
    support_values: Array
    bias: Array
    rows: tuple[Row, ...]
    iterations: int
    reason: str
    slopes: Array | None = None
    deviations: Array | None = None


@dataclass(frozen=True, slots=True)
class Unfitted:
    """A fit that is left to a factorisation: the reason as a fact, and the matrix if it is in memory."""

    facts: Facts
    gram: Gram | None = None


def _solve(
    question: AnswerProblem,
    matrix: KernelOperator,
    inverse: Callable[[Array], Array],
    columns: list[int],
    ridge: Array,
    most: int,
    progress: LateProgress,
) -> tuple[GradientSolution, Array]:
    """Solve the outputs that share a gamma; also return the deviations of their slopes."""
    border, targets, radii = question.border, np.ascontiguousarray(question.Y[:, columns]), question.largest_radii
    across = products = np.empty((ridge.size, 0))
    if border.slopes:
        shares = (1.0 / ridge) / float((1.0 / ridge).sum())
        across = shares[:, None] * border.matrix(ridge[:, None])
        products = np.ascontiguousarray(matrix.accurate_product(across))
        targets = np.concatenate([targets, products], axis=1)
    # the systems of the deviations are no user's: they are solved to the same share of their own spread
    radii_of_slopes = [tolerance.largest_radius for tolerance in tolerances_of(products, 1.0 / ridge, question.share)]
    allowed = np.append(radii[columns], radii_of_slopes)
    solution = solve_by_conjugate_gradients(
        matrix, inverse, targets, ridge, allowed, most, progress=progress, border=border
    )
    n = len(columns)
    deviations = _deviations(border, ridge, across, products, solution.part(slice(n, None)))
    return solution.part(slice(n)), deviations


def _deviations(border: Border, ridge: Array, across: Array, products: Array, solved: GradientSolution) -> Array:
    r"""Return the deviations of the slopes of one gamma, by as many more systems as the border has columns.

    With :math:`W = Z^T V / \sum_i v_i`, so that :math:`W Z = I`, and :math:`A = K + D`,

    .. math:: (Z^T A^{-1} Z)^{-1} = W A W^T - W A B A W^T
              = \frac{1}{\operatorname{tr} D^{-1}} I + W K W^T - (K W^T)^T B\, (K W^T) .

    Where these systems are not solved, the deviations are not known: they are NaN.
    """
    if not border.slopes or not solved.is_converged:
        return np.full(border.slopes, np.nan)
    covariance = across.T @ products - products.T @ solved.support_values
    covariance = (covariance + covariance.T) / 2.0
    covariance[np.diag_indices(border.count)] += 1.0 / float((1.0 / ridge).sum())
    return border.deviations(np.asarray(np.linalg.inv(covariance), dtype=np.float64))


def iterated_fit(question: AnswerProblem, max_iter: int | None = None) -> IteratedFit | Unfitted:
    """Fit every output by the cheaper solver; with ``max_iter``, by conjugate gradients without a stored matrix.

    Points may be on a device, where this is for kernel matrices that do not fit; targets and weights are on the host.
    """
    plan = _plan(question, max_iter)
    if plan.sample is None:
        return Unfitted((("choice", plan.fact),) if plan.fact else ())
    progress, sample = LateProgress(), plan.sample
    stored = Gram.of(question.kernel, question.X) if plan.stored else None
    matrix = KernelTiles(question.kernel, question.X, progress) if stored is None else stored
    required, border = max_iter is not None or plan.only, question.border

    alpha, bias, products = np.empty_like(question.Y), np.empty(question.Y.shape[1]), np.empty_like(question.Y)
    slopes, deviations = np.empty((border.slopes, bias.size)), np.empty((border.slopes, bias.size))
    iterations, failed = 0, ""
    try:
        for gamma in dict.fromkeys(question.gammas):
            columns = [k for k, gamma_of_output in enumerate(question.gammas) if gamma_of_output == gamma]
            ridge = Regularization(gamma).ridge(question.weights)
            progress.piece(f"preconditioner of {sample.rows.size} sampled rows")
            inverse = sample.inverse(ridge, progress)
            solution, deviation = _solve(question, matrix, inverse, columns, ridge, plan.most, progress)
            alpha[:, columns], products[:, columns] = solution.support_values, solution.products
            bias[columns], slopes[:, columns] = solution.bias, solution.slopes
            deviations[:, columns] = deviation[:, None]
            iterations, failed = max(iterations, solution.iterations), failed or solution.reason
    except SolverError as error:
        if required:
            raise
        return _leave_to_factorisation(stored, 0, str(error).partition(";")[0])
    finally:
        progress.close()
    diagonal = matrix.diagonal
    answer, doubts = bound_answer(question, alpha, bias, products, diagonal, slopes=slopes if border.slopes else None)
    equations = []
    for column, gamma in enumerate(question.gammas):
        ridge, c = Regularization(gamma).ridge(question.weights), slopes[:, column] if border.slopes else None
        system = (products[:, column], diagonal, question.Y[:, column], ridge, alpha[:, column], float(bias[column]))
        tolerance = max(question.share, roundoff(ridge.size))
        equations.append(saddle_rows(*system, tolerance=tolerance, border=border, slopes=c))
    rows = (*answer, *worst_rows(equations))
    failed = failed or next((f"their row {row.name!r} does not hold" for row in rows if not row.passes), "")
    if failed and not required:
        return _leave_to_factorisation(stored, iterations, failed)
    n, m = question.X.shape[0], sample.rows.size
    facts = [
        ("kernel", repr(question.kernel)),
        ("Gram matrix", f"{n} x {n}, " + ("never stored" if stored is None else "stored")),
        ("solver", f"conjugate gradients, {iterations} iterations, preconditioner of {m} sampled rows"),
    ]
    facts += [("precision", matrix.precision)] if isinstance(matrix, KernelTiles) else []
    facts += [("choice", plan.fact)] if plan.fact else []
    facts += [("computed by", where_it_lives(question.X))] if is_device_array(question.X) else []
    return IteratedFit(
        facts=(*facts, *doubts),
        support_values=alpha,
        bias=bias,
        rows=rows,
        iterations=iterations,
        reason=failed,
        slopes=slopes if border.slopes else None,
        deviations=deviations if border.slopes else None,
    )


def _leave_to_factorisation(stored: Gram | None, iterations: int, why: str) -> Unfitted:
    """Leave the fit to a factorisation, of the matrix that is in memory already."""
    fact = f"a factorisation, after {iterations} iterations of conjugate gradients: {why}"
    return Unfitted((("choice", fact),), stored)


def _plan(question: AnswerProblem, max_iter: int | None) -> Plan:
    """Choose the plan by cost for the largest gamma, or the one that is required."""
    kernel, X = question.kernel, question.X
    if not kernel.trusted and (max_iter is not None or is_device_array(X)):
        raise DeclarationError(
            f"solver='cg' needs a kernel that is positive semi-definite by its formula, received {kernel!r}; use "
            "solver='cholesky', which finds out whether it is"
        )
    ridge = Regularization(max(question.gammas)).ridge(question.weights)
    if is_device_array(X):
        return plan_on_device(kernel, X, ridge, max_iter)
    systems = question.Y.shape[1] + (question.border.count if question.border.slopes else 0)
    if max_iter is None:
        return plan(kernel, X, systems, ridge, question.share)
    n = X.shape[0]
    sample = KernelSample.of(kernel, X, sample_size(n, ridge, kernel.diag(X)))
    seconds = iterated_seconds(n, sample.rows.size, systems, question.share)
    warn_of_long_fit(n, seconds, sample.bytes, "conjugate gradients")
    return Plan("cg", sample, max_iter, only=True)
