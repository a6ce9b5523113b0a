r"""The solution of the LS-SVM saddle system, with its certificate: in closed form or by conjugate gradients.

The bound of the certificate, and of a stored machine that is checked again or proved in ball arithmetic, is that of
:mod:`substrate.bounds.saddle`,

.. math:: \|f - f^\star\|_v \le \|y - f - \alpha / (\gamma v)\|_v .
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from problems.estimators.shared.base import Added, Facts, StoredFit
from problems.estimators.shared.checks import check_home, definite_gram
from substrate.arrays import (
    Array,
    is_device_array,
    namespace_of,
    on_device_of,
    own_copy,
    positive,
    to_numpy,
    where_it_lives,
)
from substrate.bounds.saddle import AnswerProblem, bound_answer
from substrate.certificate import Row, Tolerance, roundoff, spread_of, worst_rows
from substrate.errors import DataError, DeclarationError, LongFitWarning, SolverError
from substrate.kernels import Kernel
from substrate.operators.border import ONES, Border
from substrate.operators.gram import Gram, KernelOperator, has_room_for_matrix
from substrate.operators.saddle_system import SaddleSolution, ridge_of, saddle_row, solve_saddle_system, target_unit

if TYPE_CHECKING:
    from substrate.bounds.proof import Proof

__all__ = [
    "SOLVERS",
    "SaddleFit",
    "StoredSaddle",
    "Way",
    "center_and_unit",
    "fit_saddle",
    "gammas_of",
    "recall_saddle",
    "ridges_of",
]

Way = Literal["cholesky", "cg", "cvxpy"]
#: Solve the system of some outputs with one diagonal: targets, diagonal, absolute errors that are permitted.
_Solve = Callable[[Array, Array, Array], SaddleSolution]

#: How the system is solved; "auto" decides by the number of rows.
SOLVERS = ("auto", "cholesky", "cg")
#: Rows on the host up to which a factorisation takes half a minute at most, and its further digits are free.
FACTORED_ROWS = 10_000
#: Iterations that are allowed where a factorisation does not fit. Where it can follow, they are to take no longer.
_MOST, _ROWS_PER_ITERATION = 1000, 600
#: Seconds above which a fit warns before it begins, by an estimate: of a factorisation per row cubed, of an iteration
#: per row squared.
_LONG, _FACTORED, _ITERATED = 600.0, 1e-11, 6.4e-9
_USUAL_ITERATIONS = 20


class SaddleFit(NamedTuple):
    """The support values in regression's sign (one column per output), biases, certificate rows and facts.

    ``reason`` states why an iteration did not converge, and what to do: a warning of it is issued where the certificate
    does not hold. ``way`` names the solver. ``slopes`` are the coefficients of the columns of the ``border`` other than
    the bias, in the units of these columns, one column per output. ``further`` are other fitted attributes, by name.
    """

    support_values: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: Facts
    iterations: int
    reason: str = ""
    way: Way = "cholesky"
    border: Border = ONES
    slopes: Array | None = None
    further: Mapping[str, Any] = MappingProxyType({})


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


def ridges_of(gammas: tuple[float, ...], weights: Array) -> Array:
    """Return the diagonal of the system, one for all outputs where their gammas agree."""
    if len(set(gammas)) == 1:
        return ridge_of(gammas[0], weights)
    return namespace_of(weights).stack([ridge_of(gamma, weights) for gamma in gammas], axis=1)


def fit_saddle(
    kernel: Kernel,
    X: Any,
    Y: Array,
    gammas: tuple[float, ...],
    weights: Array,
    tol: float,
    *,
    solver: str = "cholesky",
    max_iter: int = _MOST,
    gram: Gram | None = None,
    border: Border = ONES,
    observed: Array | None = None,
) -> SaddleFit:
    """Fit every column of Y; support values and biases are where Y is, which may be the host if X is on a device.

    ``tol`` is the accuracy required, as a share of the spread of y. ``max_iter`` limits the iterations of conjugate
    gradients; ``gram`` is the kernel matrix if available. ``border`` holds the columns that are not penalised.
    ``observed`` are the targets of the user where Y is made of them: the accuracy is a share of their spread.
    """
    n, targets, v = int(X.shape[0]), to_numpy(Y), to_numpy(weights)
    columns = np.ascontiguousarray((targets if observed is None else to_numpy(observed)).T)
    tolerances = tuple(Tolerance.of(column, v, tol) for column in columns)
    problem = AnswerProblem(
        kernel=kernel, X=X, Y=targets, gammas=gammas, weights=v, tolerances=tolerances, border=border
    )
    facts: Facts = ()
    is_large = not is_device_array(X) and X.shape[0] > FACTORED_ROWS
    is_iterated = solver == "auto" and gram is None and kernel.trusted
    if solver == "cg" or (is_iterated and (is_large or not has_room_for_matrix(kernel, X))):
        can_factor = solver == "auto" and has_room_for_matrix(kernel, X)
        most = max_iter if solver == "cg" else n // _ROWS_PER_ITERATION if can_factor else _MOST
        try:
            fit = _iterate(problem, most, Y)
            why = fit.reason
        except SolverError as error:
            if not can_factor:
                raise
            why = str(error)
        if not (why and can_factor):
            return fit
        facts = (("choice", f"a factorisation, after {why.partition(';')[0]}"),)
    if gram is None:
        _warn_of_long_fit(n, _FACTORED * float(n) ** 3, 16.0 * n * n, "a factorisation")
        gram = Gram.of(kernel, X)
    if not kernel.trusted:
        gram.check_definite()
    matrix = gram

    def solve(targets: Array, ridge: Array, radii: Array) -> SaddleSolution:
        like = matrix.diagonal
        return solve_saddle_system(matrix, on_device_of(like, targets), on_device_of(like, ridge), border=border)

    solution = _solve_outputs(problem, solve)
    problem = problem._replace(negative=gram.negative)
    facts = (("solver", f"closed form, refined {solution.steps - 1} times"), *facts)
    return _certify(problem, gram, solution, gram.record(), facts, Y)


def _iterate(problem: AnswerProblem, most: int, home: Array) -> SaddleFit:
    """Fit by conjugate gradients, which store no matrix; points may be on a device."""
    from substrate.fits.conjugate_gradient import (
        SampledInverse,
        sample_rows,
        solve_by_conjugate_gradients,  # few fits have so many rows
    )
    from substrate.operators.kernel_tiles import KernelTiles
    from substrate.progress import LateProgress

    kernel, X, n = problem.kernel, problem.X, int(problem.X.shape[0])
    if not kernel.trusted:
        raise DeclarationError(
            f"solver='cg' needs a kernel that is positive semi-definite by its formula, received {kernel!r}; use "
            "solver='cholesky', which finds out whether it is"
        )
    rows = sample_rows(kernel, X, ridge_of(max(problem.gammas), problem.weights))
    seconds = _ITERATED * float(n) ** 2 * _USUAL_ITERATIONS
    _warn_of_long_fit(n, seconds, 8.0 * n * rows.size, "conjugate gradients")
    progress = LateProgress()
    matrix = KernelTiles(kernel, X)

    def solve(targets: Array, ridge: Array, radii: Array) -> SaddleSolution:
        progress.piece(f"preconditioner of {rows.size} sampled rows")
        inverse = SampledInverse(kernel, X, rows, ridge)
        return solve_by_conjugate_gradients(
            matrix, inverse, targets, ridge, radii, most, progress=progress, border=problem.border
        )

    try:
        solution = _solve_outputs(problem, solve)
    finally:
        progress.close()
    solver = f"conjugate gradients, {solution.steps} iterations, preconditioner of {rows.size} sampled rows"
    facts: Facts = (("solver", solver), ("precision", matrix.precision))
    facts += (("computed by", where_it_lives(X)),) if is_device_array(X) else ()
    record = (("kernel", repr(kernel)), ("Gram matrix", f"{n} x {n}, never stored"))
    fit = _certify(problem, matrix, solution, record, facts, home)
    failed = solution.reason or next(
        (f"their row {row.name!r} does not hold" for row in fit.rows if not row.passes), ""
    )
    if not failed:
        return fit
    reason = (
        f"conjugate gradients stopped after {solution.steps} iterations above the tolerance: {failed}; raise max_iter, "
        "lower gamma, or use solver='cholesky'"
    )
    return fit._replace(reason=reason)


def _solve_outputs(problem: AnswerProblem, solve: _Solve) -> SaddleSolution:
    """Solve for all outputs, together where they share a gamma."""
    Y, k = problem.Y, problem.border.slopes
    alpha, products, bias = np.empty_like(Y), np.empty_like(Y), np.empty(Y.shape[1])
    slopes, steps, reason = np.empty((k, Y.shape[1])), 1, ""
    for gamma in dict.fromkeys(problem.gammas):
        columns = [column for column, of_output in enumerate(problem.gammas) if of_output == gamma]
        ridge = ridge_of(gamma, problem.weights)
        solved = solve(
            np.ascontiguousarray(Y[:, columns]),
            ridge,
            np.array([problem.tolerances[column].largest_radius for column in columns]),
        )
        alpha[:, columns], products[:, columns] = to_numpy(solved.support_values), to_numpy(solved.products)
        bias[columns], slopes[:, columns] = to_numpy(solved.bias), to_numpy(solved.slopes)
        steps, reason = max(steps, solved.steps), reason or solved.reason
    return SaddleSolution(
        support_values=alpha,
        bias=bias,
        products=products,
        slopes=slopes,
        steps=steps,
        reason=reason,
    )


def _certify(
    problem: AnswerProblem,
    matrix: KernelOperator,
    solution: SaddleSolution,
    record: Facts,
    facts: Facts,
    home: Array,
) -> SaddleFit:
    """Return the fit with its certificate; iterations solve the equations to the tolerance."""
    gram, border, Y = matrix if isinstance(matrix, Gram) else None, problem.border, problem.Y
    slopes = solution.slopes if border.slopes else None
    tolerance = None if gram is not None else max(min(each.share for each in problem.tolerances), roundoff(Y.shape[0]))
    numbers = solution.support_values, solution.bias, slopes
    rows, doubts = _check(problem, matrix, *numbers, solution.products, equations=tolerance)
    gammas = ", ".join(f"{gamma:g}" for gamma in dict.fromkeys(problem.gammas))
    is_scaled = any(target_unit(y) != 1.0 for y in Y.T)
    units = (("units", "residuals in units of max|y|"),) if is_scaled else ()
    return SaddleFit(
        support_values=on_device_of(home, solution.support_values),
        bias=on_device_of(home, solution.bias),
        rows=rows,
        facts=(*record, ("gamma", gammas), *facts, *units, *doubts),
        iterations=solution.steps,
        way="cg" if gram is None else "cholesky",
        border=border,
        slopes=slopes,
    )


def _check(
    problem: AnswerProblem,
    matrix: KernelOperator,
    alpha: Array,
    bias: Array,
    slopes: Array | None,
    products: Array,
    *,
    fitted: Array | None = None,
    equations: float | None = None,
) -> Added:
    """Bound the error of the numbers that predict uses, one column per output, and check their equations."""
    gram, diagonal = matrix if isinstance(matrix, Gram) else None, to_numpy(matrix.diagonal)
    answer, doubts = bound_answer(problem, alpha, bias, products, diagonal, gram, slopes=slopes, fitted=fitted)
    rows = [
        saddle_row(
            products[:, k],
            diagonal,
            problem.Y[:, k],
            ridge_of(gamma, problem.weights),
            alpha[:, k],
            float(bias[k]),
            tolerance=equations,
            border=problem.border,
            slopes=None if slopes is None else slopes[:, k],
        )
        for k, gamma in enumerate(problem.gammas)
    ]
    return (*answer, *worst_rows([(row,) for row in rows])), doubts


class StoredSaddle(NamedTuple):
    """One output of a dense least-squares machine: its problem, its stored numbers, and what ``predict`` returns.

    Parameters
    ----------
    problem, gram
        The problem of this output on the host, and a function that returns the kernel matrix of its points.
    a, b, slopes
        Support values, bias, and coefficients of the border other than the constant.
    fitted
        What ``predict`` returns for the points.
    observed
        The targets of the user where those of the problem are made of them.
    equations
        The accuracy required of the equations of the support values; LAPACK's for a direct method unless given.
    """

    problem: AnswerProblem
    gram: Callable[[], Gram]
    a: Array
    b: float
    fitted: Array
    slopes: Array | None = None
    observed: Array | None = None
    equations: float | None = None

    def certify(self) -> Added:
        """Bound the answer, and check the equations of the support values."""
        gram, slopes = self.gram(), None if self.slopes is None else self.slopes[:, None]
        numbers = to_numpy(self.a)[:, None], np.array([self.b]), slopes, to_numpy(gram.product(self.a))[:, None]
        problem = self.problem._replace(negative=gram.negative)
        return _check(problem, gram, *numbers, fitted=self.fitted[:, None], equations=self.equations)

    def prove(self) -> "Proof":
        """Bound the answer in ball arithmetic."""
        from substrate.bounds.proof import prove_expansion, tolerance_in_balls  # for few, who have ball arithmetic

        problem = self.problem
        y, v = problem.Y[:, 0], problem.weights
        tolerance = tolerance_in_balls(y if self.observed is None else self.observed, v, problem.tolerances[0].share)
        data = problem.kernel, problem.X, y, problem.gammas[0], v, to_numpy(self.a), self.b, self.fitted
        return prove_expansion(*data, tolerance=tolerance, border=problem.border, slopes=self.slopes)


def recall_saddle(
    model: Any,
    X: Any,
    Y: Array,
    weights: Array,
    gammas: tuple[float, ...],
    *,
    border: Border = ONES,
    slopes: Array | None = None,
    bias: Any = None,
    observed: Array | None = None,
    equations: float | None = None,
) -> StoredFit:
    """Return the machines of a dense least-squares estimator on the data of its fit, which were checked.

    Parameters
    ----------
    model
        The estimator, fitted.
    X
        The rows of the expansion; for a precomputed kernel the square matrix of those rows.
    Y
        Targets, one column per output; of codes, where zero excludes a row from a machine.
    weights, gammas
        Weights of the rows, and one gamma for each output.
    border, slopes, bias
        The columns that are not penalised, their coefficients, one column per output, and the bias at their center;
        without linear columns the bias of the model.
    observed
        The targets of the user, one column per output, where Y is made of them: the spread is theirs.
    equations
        As for :class:`StoredSaddle`.
    """
    gram = cache(lambda: definite_gram(model.kernel_, X))
    alpha: Array = model._coefficients()
    alpha = alpha[:, None] if alpha.ndim == 1 else alpha
    if tuple(alpha.shape) != tuple(Y.shape):
        raise DataError(f"the model has support values of shape {tuple(alpha.shape)}, these rows need {tuple(Y.shape)}")
    check_home(model, alpha, X)

    def machines() -> Iterator[StoredSaddle]:
        targets, v, points = to_numpy(Y), to_numpy(weights), to_numpy(X)
        given = targets if observed is None else observed
        biases = np.atleast_1d(to_numpy(model.bias_ if bias is None else bias))
        fitted = np.reshape(to_numpy(model._fitted_values(X)), targets.shape)
        for k, gamma in enumerate(gammas):
            tolerance = Tolerance.of(given[:, k], v, model._tolerance())
            yield StoredSaddle(
                problem=AnswerProblem(
                    model.kernel_, points, targets[:, k : k + 1], (gamma,), v, (tolerance,), border=border
                ),
                gram=gram,
                a=own_copy(alpha[:, k]),
                b=float(biases[k]),
                fitted=fitted[:, k],
                slopes=None if slopes is None else slopes[:, k],
                observed=given[:, k],
                equations=equations,
            )

    return StoredFit(machines(), lambda: ((), gram().record()))


def _warn_of_long_fit(n: int, seconds: float, n_bytes: float, how: str) -> None:
    """Warn, before a fit begins, that it takes more than ten minutes by its estimate."""
    if seconds <= _LONG:
        return
    time = f"{seconds / 3600.0:.1f} hours" if seconds > 5400.0 else f"{seconds / 60.0:.0f} minutes"
    warnings.warn(
        f"a fit to all {n} rows by {how} takes about {time} and {n_bytes / 2**30:.1f} GiB of memory, by its estimate. "
        "A reduced basis takes a fraction of both: LSSVMRegressor or LSSVMClassifier with basis=1000 fits the same "
        "rows in minutes, and reads them from files too",
        LongFitWarning,
        stacklevel=6,
    )


def center_and_unit(y: Array) -> tuple[float, float]:
    """Return mean and spread of the targets: the free bias absorbs the mean, all other quantities scale with the
    spread.

    A solver stops at a share of the given numbers, which an offset must not dominate.
    """
    largest = target_unit(y)
    center = largest * float(np.clip(np.mean(y / largest), (y / largest).min(), (y / largest).max()))
    spread, rounding = spread_of(y - center, np.ones(y.size))
    return center, spread if spread > rounding else max(largest, 1.0)
