"""The solutions of the LS-SVM saddle system in one record: closed form, conjugate gradients, declared problem."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from problems.estimators.full.declared_fit import declared_fit
from substrate.arrays import Array, positive
from substrate.certificates import Row
from substrate.certificates.rows import unpolished_tolerance
from substrate.certificates.tolerance import tolerances_of
from substrate.device_gram import DeviceGram, HostVectors, device_gram_kind
from substrate.errors import DeclarationError, SolverError
from substrate.gram import Gram
from substrate.kernels import Componentwise, Kernel
from substrate.least_squares.answer import Answer, AnswerProblem, bound_and_refine, kernel_rounding
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.primal_weights import PrimalWeights
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_certificate import saddle_rows, worst_rows
from substrate.least_squares.saddle_system import FACTORED_ROWS, solve_saddle_system, target_unit
from substrate.namespaces import is_device_array, on_device_of, to_numpy
from substrate.operators import SystemMatrix

if TYPE_CHECKING:
    from substrate.least_squares.iterated_fit import IteratedFit
    from substrate.least_squares.queued_system import QueuedSystem

__all__ = ["Method", "SaddleFit", "Way", "fit_saddle", "gammas_of"]

Facts = tuple[tuple[str, str], ...]
Way = Literal["cholesky", "stored_cg", "cg", "cvxpy"]
_NO_FACTS: Facts = ()

#: Number of rows on which the definiteness of a user's kernel is tested when the whole matrix is never formed.
_CHECKED_ROWS = 500


#: The solvers of this package: the closed form and conjugate gradients.
_OWN = ("auto", "cholesky", "stored_cg", "cg")


@dataclass(frozen=True, slots=True)
class Method:
    """The method: ``auto`` (by cost), ``cholesky``, ``stored_cg``, ``cg``, ``cvxpy``, or a conic solver's name.

    ``cg_tol`` and ``max_iter`` are those of conjugate gradients; ``tol`` is the accuracy required, as a share of the
    spread of y. ``page`` names the page that is solved, on one matrix for each component of the kernel if
    ``componentwise``.
    """

    solver: str
    cg_tol: float
    max_iter: int
    tol: float
    page: str = "ls_svm_regression"
    componentwise: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.solver, str) or self.solver not in (*_OWN, "cvxpy"):
            from substrate.solvers import canonical_name  # the closed form has no use for solvers

            object.__setattr__(self, "solver", canonical_name(self.solver))

    @classmethod
    def closed_form(cls, tol: float) -> "Method":
        """Return the closed form, which has no iterations."""
        return cls("cholesky", 1e-8, 1, tol)

    @property
    def tolerance(self) -> float:
        """The tolerance of the accuracy: its root for a conic solver's point."""
        return self.tol if self.solver in _OWN else unpolished_tolerance(self.tol)


class SaddleFit(NamedTuple):
    """Support values in regression's sign (one column per output), biases, certificate rows and facts.

    ``reason`` states why an iteration did not converge, and what to do: a warning of it is issued where the certificate
    does not hold. ``way`` names the solver. ``slopes`` are the coefficients of the columns of the ``border`` beside the
    bias, in the units of these columns, and ``deviations`` the roots of the diagonal of (Z'(K + D)^-1 Z)^-1 that belong
    to them, one column per output each.
    """

    support_values: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: Facts
    iterations: int
    primal: PrimalWeights | None = None
    reason: str = ""
    way: Way = "cholesky"
    border: Border = ONES
    slopes: Array | None = None
    deviations: Array | None = None


def gammas_of(gamma: Any, n_outputs: int) -> tuple[float, ...]:
    """Return one positive gamma per output, from one for all or one for each."""
    if isinstance(gamma, Real) or (isinstance(gamma, np.ndarray) and gamma.ndim == 0):
        return (positive(gamma, "gamma"),) * n_outputs
    if isinstance(gamma, str) or not hasattr(gamma, "__len__"):
        raise DeclarationError(f"gamma must be a positive number or one for each output, received {gamma!r}")
    gammas = tuple(positive(value, "gamma") for value in gamma)
    if len(gammas) != n_outputs:
        raise DeclarationError(f"gamma has {len(gammas)} entries for {n_outputs} outputs; give one each or one for all")
    return gammas


def fit_saddle(
    kernel: Kernel,
    X: Any,
    Y: Array,
    gammas: tuple[float, ...],
    weights: Array,
    method: Method,
    *,
    gram: Gram | None = None,
    primal: bool = False,
    border: Border = ONES,
    queued: "QueuedSystem | None" = None,
) -> SaddleFit:
    """Fit every column of Y; support values and biases are where Y is, which may be the host if X is on a device.

    ``gram`` is the kernel matrix if available, ``primal`` whether the caller keeps primal weights: one that drops them
    would predict by support values that cannot represent the answer. ``border`` holds the columns that are not
    penalised. ``queued`` is the same system, at which a device works already.
    """
    if is_device_array(X) and method.solver not in ("auto", "cholesky", "cg"):
        raise DeclarationError(
            f"solver={method.solver!r} works on numpy arrays; on a device use solver='auto', 'cholesky' or 'cg', or "
            "pass X.cpu().numpy() (torch), X.get() (CuPy)"
        )
    tolerances = tolerances_of(to_numpy(Y), to_numpy(weights), method.tolerance)
    question = AnswerProblem(
        kernel=kernel, X=X, Y=Y, gammas=gammas, weights=weights, tolerances=tolerances, border=border
    )
    queued = None if queued is None or queued.kernel != kernel else queued
    kind: type[DeviceGram] | None = None
    if is_device_array(X) and gram is None and queued is None:
        kind = None if method.solver == "cg" else device_gram_kind(kernel, X)
        if kind is None and method.solver in ("auto", "cg"):
            return _fit_on_device(question, None if method.solver == "auto" else method.max_iter)
    direct, chosen = method.solver in ("auto", "cholesky"), _NO_FACTS
    many = X.shape[0] >= FACTORED_ROWS and not is_device_array(X)
    if method.solver == "stored_cg" or (method.solver == "auto" and gram is None and many):
        from substrate.least_squares.iterated_fit import IteratedFit, iterated_fit  # few fits have so many rows

        iterated = iterated_fit(question, method.max_iter if method.solver == "stored_cg" else None)
        if isinstance(iterated, IteratedFit):
            return _keep_iterated(iterated, question)
        gram, chosen = iterated.gram, iterated.facts
    if many and gram is None and method.solver in ("cholesky", "cg"):
        _announce(question, method)
    negative, rounding, home = 0.0, None, Y
    if method.solver == "cg":
        solution = _conjugate_gradients(question, method)
        diagonal = kernel.diag(X)
        negative = 0.0 if kernel.trusted else _negative_of_some(kernel, X)
        record: Facts = (("kernel", repr(kernel)), ("Gram matrix", f"{X.shape[0]} x {X.shape[0]}, never stored"))
    else:
        new = gram is None
        if gram is None:
            # on a device before the matrix is queued, since the number waits for all that is
            rounding = kernel_rounding(kernel, X) if is_device_array(X) and kernel.trusted else None
        if queued is not None:
            gram = queued.gram
        elif gram is None:
            kind = kind or DeviceGram
            gram = kind.of(kernel, X, warn=False, checked=True) if is_device_array(X) else Gram.of(kernel, X)
        diagonal = gram.diagonal
        if direct:
            if not kernel.trusted:
                gram.check_definite()
            Y, weights = to_numpy(Y), to_numpy(weights)
            if isinstance(gram, DeviceGram):
                host_vectors = HostVectors(gram)
                solution = _closed_form(host_vectors, Y, gammas, weights, border, queued)
                diagonal = host_vectors.diagonal
                if new and kernel.decays:
                    host_vectors.warn_if_degenerate(X)
            else:
                solution = _closed_form(gram, Y, gammas, weights, border)
        else:
            K: Any = gram
            if method.componentwise and isinstance(kernel, Componentwise):
                from problems.estimators.shared.additive import kernel_matrices  # brings feature selection, for few

                K = kernel_matrices(kernel, X)
            name = None if method.solver == "cvxpy" else method.solver
            declared = declared_fit(kernel, X, K, Y, gammas, weights, method.page, name, border)
            solution = _Solution(
                support_values=declared.support_values,
                bias=declared.bias,
                products=gram.product(declared.support_values),
                rows=declared.rows,
                facts=declared.facts,
                slopes=declared.slopes,
                deviations=_deviations(gram, gammas, weights, border),
            )
            if not kernel.trusted:  # a declaration accepts slightly negative eigenvalues
                gram.check_definite()
        record, negative = gram.record(), gram.negative
    question = question._replace(Y=Y, weights=weights, negative=negative)
    machine = (solution.support_values, solution.bias, solution.products, diagonal, gram if direct else None)
    slopes = solution.slopes if border.slopes else None
    answer = bound_and_refine(question, *machine, primal=primal, rounding=rounding, slopes=slopes)
    deviations = solution.deviations if border.slopes else None
    if answer.primal is not None:
        rows = answer.rows  # the equations of the support values do not apply to primal weights
        deviations = answer.deviations
    elif gram is not None and direct and _was_refined(answer, solution.support_values, solution.bias):
        rows = (*answer.rows, *_refined_rows(gram, Y, gammas, weights, answer, border))
    else:
        rows = (*answer.rows, *solution.rows)
    facts = (*record, _gamma_fact(gammas), *solution.facts, *chosen, *_unit_facts(Y), *answer.facts)
    way: Way = "cholesky" if direct else "cg" if method.solver == "cg" else "cvxpy"
    support_values, bias = (on_device_of(home, array) for array in (answer.support_values, answer.bias))
    return SaddleFit(
        support_values=support_values,
        bias=bias,
        rows=rows,
        facts=facts,
        iterations=solution.steps,
        primal=answer.primal,
        reason=solution.reason,
        way=way,
        border=border,
        slopes=answer.slopes,
        deviations=deviations,
    )


def _announce(question: AnswerProblem, method: Method) -> None:
    """Warn before a solver that was required begins, where it takes long by its estimate."""
    from substrate.least_squares.preconditioner import preconditioner_rank
    from substrate.least_squares.solver_choice import factored_seconds, iterated_seconds, warn_of_long_fit

    n, outputs = question.Y.shape
    if method.solver == "cholesky":
        warn_of_long_fit(n, factored_seconds(n), 8.0 * n * n, "a factorisation")
        return
    rank = preconditioner_rank(n)
    border = question.border
    systems = outputs + (border.count if border.slopes else 0)  # those of the deviations of the slopes
    seconds = iterated_seconds(n, rank, systems, method.cg_tol)
    warn_of_long_fit(n, seconds, 16.0 * n * rank, "conjugate gradients")


def _fit_on_device(question: AnswerProblem, max_iter: int | None) -> SaddleFit:
    """Fit points of a device by conjugate gradients, without a kernel matrix; ``max_iter`` where they are required."""
    from substrate.least_squares.iterated_fit import IteratedFit, iterated_fit

    if question.kernel.pairwise or not question.kernel.trusted:
        raise DeclarationError(
            "conjugate gradients on a device compute kernel values anew, by a formula of this package; "
            "use solver='cholesky'"
        )
    home = question.Y
    on_host = question._replace(Y=to_numpy(question.Y), weights=to_numpy(question.weights))
    iterated = iterated_fit(on_host, max_iter)
    if not isinstance(iterated, IteratedFit):
        raise SolverError("conjugate gradients were not tried")
    fit = _keep_iterated(iterated, on_host)
    support_values, bias = (on_device_of(home, array) for array in (fit.support_values, fit.bias))
    return fit._replace(support_values=support_values, bias=bias)


def _keep_iterated(iterated: "IteratedFit", question: AnswerProblem) -> SaddleFit:
    """Return a fit by conjugate gradients, which were the cheaper solver, or the one that was required."""
    reason = ""
    if iterated.reason:
        reason = (
            f"conjugate gradients stopped after {iterated.iterations} iterations above the tolerance: "
            f"{iterated.reason}; raise max_iter, lower gamma, or use solver='cholesky'"
        )
    facts = (*iterated.facts[:2], _gamma_fact(question.gammas), *iterated.facts[2:], *_unit_facts(question.Y))
    return SaddleFit(
        support_values=iterated.support_values,
        bias=iterated.bias,
        rows=iterated.rows,
        facts=facts,
        iterations=max(iterated.iterations, 1),
        reason=reason,
        way=iterated.way,
        border=question.border,
        slopes=iterated.slopes,
        deviations=iterated.deviations,
    )


def _gamma_fact(gammas: tuple[float, ...]) -> tuple[str, str]:
    return "gamma", ", ".join(f"{gamma:g}" for gamma in dict.fromkeys(gammas))


def _unit_facts(Y: Array) -> Facts:
    far = any(target_unit(Y[:, k]) != 1.0 for k in range(Y.shape[1]))
    return (("units", "residuals in units of max|y|"),) if far else ()


def _was_refined(answer: Answer, alpha: Array, bias: Array) -> bool:
    """Return whether the answer was refined after the solution; one that was only checked again is the same."""
    if answer.support_values is alpha:
        return False
    return not (np.array_equal(answer.support_values, alpha) and np.array_equal(answer.bias, bias))


def _refined_rows(
    gram: Gram, Y: Array, gammas: tuple[float, ...], weights: Array, answer: Answer, border: Border
) -> tuple[Row, ...]:
    """Return the equations of support values that were refined after the solution."""
    products, diagonal = gram.product(answer.support_values), gram.diagonal
    outputs = zip(products.T, Y.T, gammas, answer.support_values.T, answer.bias, strict=True)
    return worst_rows(
        [
            saddle_rows(p, diagonal, y, Regularization(gamma).ridge(weights), a, float(b), border=border, slopes=c)
            for (p, y, gamma, a, b), c in zip(outputs, _each_slope(answer.slopes, Y.shape[1]), strict=True)
        ]
    )


def _each_slope(slopes: Array | None, n_outputs: int) -> list[Array | None]:
    """Return the slopes of every output."""
    return [None] * n_outputs if slopes is None else list(slopes.T)


class _Solution(NamedTuple):
    """The numbers of a solver before their answer is bounded: ``products`` is K alpha, one column per output each."""

    support_values: Array
    bias: Array
    products: Array
    rows: tuple[Row, ...]
    facts: Facts
    steps: int = 1
    reason: str = ""
    slopes: Array | None = None
    deviations: Array | None = None


def _columns(gammas: tuple[float, ...]) -> list[tuple[float, list[int]]]:
    """Return the outputs that share a gamma, and so a factorisation."""
    return [
        (gamma, [k for k, gamma_of_output in enumerate(gammas) if gamma_of_output == gamma])
        for gamma in dict.fromkeys(gammas)
    ]


def _closed_form(
    gram: SystemMatrix,
    Y: Array,
    gammas: tuple[float, ...],
    weights: Array,
    border: Border,
    queued: "QueuedSystem | None" = None,
) -> _Solution:
    """Solve in closed form, by one factorisation for each gamma, unless a device has been asked to already."""
    slopes, deviations = np.empty((border.slopes, Y.shape[1])), np.empty((border.slopes, Y.shape[1]))
    alpha, bias, stored = np.empty_like(Y), np.empty(Y.shape[1]), np.empty_like(Y)
    rows, refinements = [], 0
    for gamma, columns in _columns(gammas):
        ridge = Regularization(gamma).ridge(weights)
        solved = None
        if queued is not None and isinstance(gram, HostVectors):
            solved = queued.solve(gram, Y[:, columns], ridge)
        if solved is None:
            solved = solve_saddle_system(gram, Y[:, columns], ridge, border=border)
        slopes[:, columns] = solved.slopes
        if border.slopes and solved.schur is not None:
            deviations[:, columns] = border.deviations(solved.schur)[:, None]
        refinements = max(refinements, solved.refinements)
        for k, column in enumerate(columns):
            a, p, b = solved.support_values[:, k], solved.products[:, k], solved.bias[k]
            alpha[:, column], bias[column], stored[:, column] = a, b, p
            system = (p, gram.diagonal, Y[:, column], ridge, a, float(b))
            rows.append(saddle_rows(*system, border=border, slopes=slopes[:, column] if border.slopes else None))
    facts = (("solver", f"closed form, refined {refinements} times"),)
    return _Solution(
        support_values=alpha,
        bias=bias,
        products=stored,
        rows=worst_rows(rows),
        facts=facts,
        steps=1 + refinements,
        slopes=slopes,
        deviations=deviations,
    )


def _deviations(gram: Gram, gammas: tuple[float, ...], weights: Array, border: Border) -> Array | None:
    """Return the deviations of the slopes, where the solver has no factor: by one of its own."""
    if not border.slopes:
        return None
    deviations = []
    for gamma in gammas:
        ridge = Regularization(gamma).ridge(weights)
        gram.factorize(ridge)
        deviations.append(border.deviations(border.eliminate(gram.solve(border.matrix(ridge[:, None]))).schur))
    gram.release()
    return np.stack(deviations, axis=1)


def _conjugate_gradients(question: AnswerProblem, method: Method) -> _Solution:
    """Solve without a kernel matrix."""
    # imported here, since few fits use it: only where the solver was chosen by name, or for its cost
    from substrate.least_squares.conjugate_gradient import IterationLimits
    from substrate.least_squares.iterated_fit import solve_groups
    from substrate.least_squares.kernel_tiles import KernelTiles
    from substrate.least_squares.preconditioner import LowRankInverse, pivoted_columns, preconditioner_rank
    from substrate.progress import LateProgress

    kernel, X, Y, border = question.kernel, question.X, question.Y, question.border
    if kernel.pairwise:
        raise DeclarationError(
            "conjugate gradients evaluate the kernel block by block, but a precomputed matrix is in memory already; "
            "use solver='auto'"
        )
    progress = LateProgress()
    matrix = KernelTiles(kernel, X, progress)
    limits = IterationLimits.plain(method.max_iter)
    permitted = tuple(
        tolerance._replace(share=max(method.cg_tol, tolerance.share)) for tolerance in question.tolerances
    )
    try:
        progress.piece(f"preconditioner of {preconditioner_rank(Y.shape[0])} columns")
        L = pivoted_columns(kernel, X, progress)
        solved = solve_groups(
            question._replace(tolerances=permitted),
            matrix,
            lambda ridge: LowRankInverse(L, None, ridge, progress),
            limits,
            progress,
            relative_residual=method.cg_tol,
        )
    finally:
        progress.close()
    if not kernel.trusted and any(group.solution.indefinite for group in solved):
        raise DeclarationError(
            "the kernel is not positive semi-definite: a direction of negative curvature was met, and conjugate "
            "gradients do not apply; use solver='auto', which reports how negative it is"
        )
    alpha, bias, products = np.empty_like(Y), np.empty(Y.shape[1]), np.empty_like(Y)
    slopes, deviations = np.empty((border.slopes, Y.shape[1])), np.empty((border.slopes, Y.shape[1]))
    diagonal = matrix.diagonal
    most, reason = 0, ""
    rows: list[tuple[Row, ...]] = []
    facts: list[tuple[str, str]] = []
    for group in solved:
        solution, columns, ridge = group.solution, group.columns, Regularization(group.gamma).ridge(question.weights)
        slopes[:, columns], deviations[:, columns] = solution.slopes, group.deviations[:, None]
        alpha[:, columns], bias[columns], products[:, columns] = (
            solution.support_values,
            solution.bias,
            solution.products,
        )
        steps = f"conjugate gradients, {solution.iterations} iterations, preconditioner of rank {L.shape[1]}"
        most = max(most, solution.iterations)
        if solution.reason:
            reason = (
                f"conjugate gradients stopped after {solution.iterations} iterations above the tolerance "
                f"{method.cg_tol:g}: {solution.reason}; raise max_iter, lower gamma, or use solver='auto'"
            )
            steps = f"{steps}, stopped above the tolerance {method.cg_tol:g}: {solution.reason}"
        facts.append(("solver", steps))
        for column in columns:
            y, a, p, b = Y[:, column], alpha[:, column], products[:, column], float(bias[column])
            limit = 10.0 * method.cg_tol  # rounding may leave a residual that the tolerance itself does not allow
            spread = float(np.linalg.norm(y - y.mean()))
            c = slopes[:, column] if border.slopes else None
            residual = float(np.linalg.norm(y - p - ridge * a - b - border.slope_values(c)))
            relative = Row(
                name="relative residual",
                value=residual,
                scale=spread,
                tolerance=limit,
                formula="||y - (K + D) alpha - b|| / ||y - mean y||",
            )
            equations = saddle_rows(p, diagonal, y, ridge, a, b, tolerance=limit, border=border, slopes=c)
            rows.append((*equations, relative))
    facts.append(("precision", matrix.precision))
    return _Solution(
        support_values=alpha,
        bias=bias,
        products=products,
        rows=worst_rows(rows),
        facts=tuple(facts),
        steps=max(most, 1),
        reason=reason,
        slopes=slopes,
        deviations=deviations,
    )


def _negative_of_some(kernel: Kernel, X: Any) -> float:
    """Return a negative eigenvalue among some of the rows, which is one of the whole matrix; all rows would not fit
    memory.

    Some rows prove nothing about all: a user's kernel whose matrix is never formed has no bound.
    """
    rows = np.linspace(0, X.shape[0] - 1, min(X.shape[0], _CHECKED_ROWS)).astype(np.intp)
    gram_of_sample = Gram.of(kernel, X[rows])
    gram_of_sample.check_definite()
    return gram_of_sample.negative if rows.size == X.shape[0] else math.inf
