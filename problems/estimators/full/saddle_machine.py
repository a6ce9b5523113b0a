r"""The LS-SVM on all rows: one saddle system, its fit and certificate, every row left out, and new points.

The system is solved in closed form or by conjugate gradients. The bound of the certificate, and of a stored machine
that is checked again or proved in ball arithmetic, is that of :mod:`substrate.bounds.saddle`,

.. math:: \|f - f^\star\|_v \le \|y - f - \alpha / (\gamma v)\|_v .
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from problems.estimators.full.robust import WeightedFit, read_robust, reweigh_rows
from problems.estimators.shared.base import Added, Facts, StoredFit, WeightedRows
from problems.estimators.shared.checks import check_home, definite_gram
from problems.estimators.shared.coded import Coding
from problems.estimators.shared.left_out import LeftOutOutputs, gcv_of
from substrate.arrays import (
    Array,
    is_device_array,
    is_sparse,
    namespace_of,
    on_device_of,
    real_array,
    real_points,
    room_on_device,
    take_columns,
    take_points,
    take_rows,
    target_unit,
    to_numpy,
    where_it_lives,
)
from substrate.bounds.saddle import AnswerProblem, bound_answer
from substrate.certificate import (
    Certificate,
    Row,
    Tolerance,
    accuracy_of_outputs,
    roundoff,
    warn_unless_holds,
    worst_rows,
)
from substrate.errors import DataError, DeclarationError, LongFitWarning, SolverError
from substrate.intervals.conformal import LeftOutMachines
from substrate.kernels import Kernel
from substrate.left_out.influence import kernel_influence
from substrate.left_out.leave_one_out import leave_one_out_residuals
from substrate.numbers import relative_rounding
from substrate.operators.border import ONES, Border
from substrate.operators.gram import Gram, KernelOperator, has_room_for_matrix
from substrate.operators.saddle_system import (
    SaddleSolution,
    noise_of_targets,
    ridge_of,
    saddle_row,
    solve_saddle_system,
)

if TYPE_CHECKING:
    from substrate.bounds.proof import Proof

__all__ = ["ChosenKernel", "LSSVMModel", "StoredSaddle", "Way", "recall_saddle"]

Way = Literal["cholesky", "cg", "cvxpy"]
#: How the system is solved; "auto" decides by the number of rows.
SOLVERS = ("auto", "cholesky", "cg")
#: Solve the system of some outputs with one diagonal: targets, diagonal, numbers of the outputs.
_Solve = Callable[[Array, Array, Any], SaddleSolution]
#: Rows on the host up to which a factorisation takes half a minute at most, and its further digits are free.
FACTORED_ROWS = 10_000
#: Iterations that are allowed where a factorisation does not fit. Where it can follow, they are to take no longer.
_MOST, _ROWS_PER_ITERATION = 1000, 600
#: Seconds above which a fit warns before it begins, by an estimate: of a factorisation per row cubed, of an iteration
#: per row squared.
_LONG, _FACTORED, _ITERATED = 600.0, 1e-11, 6.4e-9
_USUAL_ITERATIONS = 20


class SaddleFit(NamedTuple):
    """The solution on the host, one column per output, its certificate rows and facts.

    ``reason`` states why an iteration did not converge, and what to do: a warning of it is issued where the certificate
    does not hold. ``further`` are other fitted attributes, by name.
    """

    solution: SaddleSolution
    rows: tuple[Row, ...]
    facts: Facts
    border: Border
    way: Way = "cholesky"
    reason: str = ""
    further: Mapping[str, Any] = MappingProxyType({})


class ChosenKernel(NamedTuple):
    """The kernel and gammas of a fit, and what their choice adds to its certificate."""

    kernel: Kernel
    gammas: tuple[float, ...]
    added: Added = ((), ())


def fit_saddle(
    problem: AnswerProblem, *, solver: str = "cholesky", max_iter: int = _MOST, gram: Gram | None = None
) -> SaddleFit:
    """Fit every column of the targets; points may be on a device, all else is on the host.

    ``max_iter`` limits the iterations of conjugate gradients; ``gram`` is the kernel matrix if available.
    """
    kernel, X, n = problem.kernel, problem.X, int(problem.X.shape[0])
    facts: Facts = ()
    is_large = n > FACTORED_ROWS and not is_device_array(X)
    is_iterated = solver == "auto" and gram is None and kernel.trusted
    if solver == "cg" or (is_iterated and (is_large or not has_room_for_matrix(kernel, X))):
        can_factor = solver == "auto" and has_room_for_matrix(kernel, X)
        most = max_iter if solver == "cg" else n // _ROWS_PER_ITERATION if can_factor else _MOST
        try:
            fit = _iterate(problem, most)
            why = fit.reason
        except SolverError as error:
            if not can_factor:
                raise
            why = str(error)
        if not (why and can_factor):
            return fit
        facts = (("choice", f"a factorisation, after {why.partition(';')[0]}"),)
    if gram is None:
        if n > FACTORED_ROWS:
            _warn_of_long_fit(n, _FACTORED * float(n) ** 3, 16.0 * n * n, "a factorisation")
        gram = definite_gram(kernel, X)
    matrix = gram

    def solve(targets: Array, ridge: Array, columns: Any) -> SaddleSolution:
        like = matrix.diagonal
        return solve_saddle_system(matrix, on_device_of(like, targets), on_device_of(like, ridge), problem.border)

    solution = _solve_outputs(problem, solve)
    facts = (("solver", f"closed form, refined {solution.steps - 1} times"), *facts)
    return _certify(problem._replace(negative=gram.negative), gram, solution, gram.record(), facts)


def _iterate(problem: AnswerProblem, most: int) -> SaddleFit:
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
    radii = np.array([tolerance.largest_radius for tolerance in problem.tolerances])

    def solve(targets: Array, ridge: Array, columns: Any) -> SaddleSolution:
        progress.piece(f"preconditioner of {rows.size} sampled rows")
        inverse = SampledInverse(kernel, X, rows, ridge)
        return solve_by_conjugate_gradients(
            matrix, inverse, targets, ridge, radii[columns], most, progress=progress, border=problem.border
        )

    try:
        solution = _solve_outputs(problem, solve)
    finally:
        progress.close()
    solver = f"conjugate gradients, {solution.steps} iterations, preconditioner of {rows.size} sampled rows"
    facts: Facts = (("solver", solver), ("precision", matrix.precision))
    facts += (("computed by", where_it_lives(X)),) if is_device_array(X) else ()
    record = (("kernel", repr(kernel)), ("Gram matrix", f"{n} x {n}, never stored"))
    fit = _certify(problem, matrix, solution, record, facts)
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
    """Solve for all outputs, together where they share a gamma, and take the solution to the host."""
    Y, gammas = problem.Y, np.array(problem.gammas)
    alpha, products, bias = np.empty_like(Y), np.empty_like(Y), np.empty(Y.shape[1])
    slopes, steps, reason = np.empty((problem.border.slopes, Y.shape[1])), 1, ""
    for gamma in dict.fromkeys(problem.gammas):
        (columns,) = np.nonzero(gammas == gamma)
        solved = solve(np.ascontiguousarray(Y[:, columns]), ridge_of(gamma, problem.weights), columns)
        alpha[:, columns] = to_numpy(solved.support_values)
        products[:, columns] = to_numpy(solved.products)
        bias[columns] = to_numpy(solved.bias)
        slopes[:, columns] = to_numpy(solved.slopes)
        steps, reason = max(steps, solved.steps), reason or solved.reason
    return SaddleSolution(alpha, bias, products, slopes, steps, reason)


def _certify(
    problem: AnswerProblem, matrix: KernelOperator, solution: SaddleSolution, record: Facts, facts: Facts
) -> SaddleFit:
    """Return the fit with its certificate; iterations solve the equations to the tolerance."""
    is_factored = isinstance(matrix, Gram)
    tolerance = None if is_factored else max(problem.tolerances[0].share, roundoff(problem.Y.shape[0]))
    rows, doubts = _check(problem, matrix, solution, equations=tolerance)
    gammas = ", ".join(map("{:g}".format, dict.fromkeys(problem.gammas)))
    units = () if target_unit(problem.Y) == 1.0 else (("units", "residuals in units of max|y|"),)
    facts = (*record, ("gamma", gammas), *facts, *units, *doubts)
    return SaddleFit(solution, rows, facts, problem.border, "cholesky" if is_factored else "cg")


def _check(
    problem: AnswerProblem,
    matrix: KernelOperator,
    solution: SaddleSolution,
    *,
    fitted: Array | None = None,
    equations: float | None = None,
) -> Added:
    """Bound the error of the numbers that predict uses, one column per output, and check their equations."""
    gram, diagonal, slopes = matrix if isinstance(matrix, Gram) else None, to_numpy(matrix.diagonal), solution.slopes
    alpha, bias, products = solution.support_values, solution.bias, solution.products
    answer, doubts = bound_answer(problem, alpha, bias, products, diagonal, gram, slopes=slopes, fitted=fitted)
    rows = list[tuple[Row, ...]]()
    for k, gamma in enumerate(problem.gammas):
        ridge, numbers = ridge_of(gamma, problem.weights), (alpha[:, k], float(bias[k]))
        how: dict[str, Any] = {"tolerance": equations, "border": problem.border, "slopes": slopes[:, k]}
        rows.append((saddle_row(products[:, k], diagonal, problem.Y[:, k], ridge, *numbers, **how),))
    return (*answer, *worst_rows(rows)), doubts


class StoredSaddle(NamedTuple):
    """A dense least-squares machine: its problem, its stored numbers, and what ``predict`` returns.

    Parameters
    ----------
    problem, gram
        The problem on the host, and a function that returns the kernel matrix of its points.
    a, b, slopes
        Support values, biases, and coefficients of the border other than the constant, one column per output.
    fitted
        What ``predict`` returns for the points, one column per output.
    observed
        The targets of the user, where those of the problem are made of them.
    equations
        The accuracy required of the equations of the support values; LAPACK's for a direct method unless given.
    """

    problem: AnswerProblem
    gram: Callable[[], Gram]
    a: Array
    b: Array
    slopes: Array
    fitted: Array
    observed: Array
    equations: float | None = None

    def certify(self) -> Added:
        """Bound the answer, and check the equations of the support values."""
        gram = self.gram()
        products = to_numpy(gram.product(on_device_of(gram.diagonal, self.a)))
        solution = SaddleSolution(self.a, self.b, products, self.slopes, 1)
        problem = self.problem._replace(negative=gram.negative)
        rows, doubts = _check(problem, gram, solution, fitted=self.fitted, equations=self.equations)
        return rows, (*gram.record(), *doubts)

    def prove(self) -> "Proof":
        """Bound the answer in ball arithmetic."""
        from substrate.bounds.proof import prove_expansion, tolerance_in_balls  # for few, who have ball arithmetic

        problem, proofs = self.problem, []
        v = problem.weights
        for k, gamma in enumerate(problem.gammas):
            tolerance = tolerance_in_balls(self.observed[:, k], v, problem.tolerances[k].share)
            a, b, fitted = np.ascontiguousarray(self.a[:, k]), float(self.b[k]), self.fitted[:, k]
            data = (problem.kernel, problem.X, problem.Y[:, k], gamma, v, a, b, fitted)
            linear: dict[str, Any] = {"border": problem.border, "slopes": self.slopes[:, k]}
            proofs.append(prove_expansion(*data, tolerance=tolerance, **linear))
        return accuracy_of_outputs(proofs)


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
    """Return the machine of a dense least-squares estimator on the data of its fit, which were checked.

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
    alpha: Array = to_numpy(model.support_values_)
    alpha = alpha[:, None] if alpha.ndim == 1 else alpha
    if tuple(alpha.shape) != tuple(Y.shape):
        raise DataError(f"the model has support values of shape {tuple(alpha.shape)}, these rows need {tuple(Y.shape)}")
    check_home(model, model.support_values_, X)
    targets = to_numpy(Y)
    given = targets if observed is None else to_numpy(observed)
    data = to_numpy(X), targets, given, gammas, to_numpy(weights)
    stored = StoredSaddle(
        problem=answer_problem(model.kernel_, *data, model._tolerance(), border),
        gram=cache(lambda: definite_gram(model.kernel_, X)),
        a=alpha,
        b=np.atleast_1d(to_numpy(model.bias_ if bias is None else bias)),
        slopes=np.empty((0, targets.shape[1])) if slopes is None else slopes,
        fitted=np.reshape(to_numpy(model._fitted_values(X)), targets.shape),
        observed=given,
        equations=equations,
    )
    return StoredFit([stored])


def answer_problem(
    kernel: Kernel,
    X: Any,
    Y: Array,
    observed: Array,
    gammas: tuple[float, ...],
    weights: Array,
    tol: float,
    border: Border,
) -> AnswerProblem:
    """Return the problem of some targets, which is solved to a share ``tol`` of the spread of the observed ones."""
    tolerances = tuple(Tolerance.of(y, weights, tol) for y in np.ascontiguousarray(observed.T))
    return AnswerProblem(kernel, X, Y, gammas, weights, tolerances, border=border)


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


@dataclass(frozen=True, eq=False, repr=False)
class LSSVMModel:
    """The LS-SVM on all rows, which it keeps, of numbers or of the codes of classes.

    Robust weights and constants c are in what it stores: ``weights_``, ``constants_``. All that is fitted belongs to
    the estimator, ``model``.
    """

    model: Any

    def refuse_combinations(self) -> None:
        """Refuse parameters that exclude each other, before any work."""
        model = self.model
        if model.solver not in SOLVERS:
            raise DeclarationError(
                f"solver must be 'auto', 'cholesky' or 'cg', received {model.solver!r}; the problem that a page of "
                "problems declares is solved by every solver of cvxpy"
            )
        if model._labels:
            return
        if model.robust is not None:
            read_robust(model.robust)
        if model.c is not None and model.robust is not None:
            raise DeclarationError("c is given to the plain machine: leave robust, monotone, convex and bounds out")
        if model.c is not None and model.gamma != 1.0:
            raise DeclarationError(f"with c the errors are alpha + c, which is gamma=1; received gamma={model.gamma!r}")
        if (model.robust is not None or model.c is not None) and model.solver == "cg":
            asked = "c" if model.robust is None else "robust"
            raise DeclarationError(
                f"with {asked} the machine is solved in closed form, received solver={model.solver!r}; use 'auto'"
            )

    def fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit to numbers, one column per output, or to the codes of labels."""
        _, rows, coded, Y = self.read(X, y, sample_weight)
        kernel = self.model._resolved_kernel(rows.X)
        self.fit_rows(rows, coded, Y, ChosenKernel(kernel, self.model._gammas(Y.shape[1])))

    def read(self, X: Any, y: Any, sample_weight: Any) -> tuple[tuple[Any, Any], WeightedRows, Coding, Array]:
        """Return the rows that were given, and the rows of positive weight with their targets; vectors are on the host
        until they are kept.
        """
        X, y, weights = self.model._check_data(X, y, sample_weight)
        rows = self.model._weighted(X, to_numpy(y), to_numpy(weights))
        coded = self.model._encode(rows.y)
        return (X, y), rows, coded, coded.codes(rows.y)

    def fit_rows(self, rows: WeightedRows, coded: Coding, Y: Array, chosen: ChosenKernel) -> None:
        """Fit to rows of positive weight and their targets, and set the fitted attributes where the rows are, all at
        the end, the one that marks the model as fitted last.
        """
        model, X, gammas, is_single = self.model, rows.X, chosen.gammas, Y.shape[1] == 1
        fit = self.solve(chosen, rows, Y)
        alpha, bias = fit.solution.support_values, fit.solution.bias
        model._keep_units(gammas, None if model._labels else noise_of_targets(Y, alpha, gammas, fit.border), is_single)
        model._keep_classes(coded)
        if np.size(model.linear_columns):
            slopes = fit.solution.slopes if fit.border.slopes else None
            bias = model._keep_linear(slopes, fit.border.center, bias, is_single, X)
        for name, value in fit.further.items():
            setattr(model, name, value)
        weights = rows.weights * fit.further.get("weights_", 1.0)
        ridge = ridge_of(gammas[0], weights)
        if len(set(gammas)) > 1:
            ridge = np.stack([ridge_of(gamma, weights) for gamma in gammas], axis=1)
        model.ridge_ = on_device_of(X, ridge)
        model.solver_, model.n_iter_ = fit.way, fit.solution.steps
        added_rows, added_facts = chosen.added
        model.certificate_ = Certificate(model._title, (*fit.rows, *added_rows), (*fit.facts, *added_facts))
        warn_unless_holds(model.certificate_, fit.reason)
        model._keep_outputs(X, rows.numbers, chosen.kernel, on_device_of(X, alpha), on_device_of(X, bias))

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return the machines on the data of the fit, checked as the fit checks them, with its robust weights and its
        constants; a machine with a shape carries its own bracket.
        """
        model = self.model
        X, y, weights, *_ = model._read_rows(X, y, sample_weight, again=True)
        Y = model._codes_again(y)
        for name in ("weights_", "constants_"):
            if hasattr(model, name) and getattr(model, name).size != Y.shape[0]:
                raise DataError(f"the model has {name} of {getattr(model, name).size} rows, these are {Y.shape[0]}")
        if hasattr(model, "weights_"):
            weights = weights * on_device_of(weights, model.weights_)
        return self.recall_rows(X, Y, weights, model._gammas(Y.shape[1]))

    def recall_rows(self, X: Any, Y: Array, weights: Array, gammas: tuple[float, ...]) -> StoredFit:
        """Return the machines on the rows of the fit."""
        model, constants = self.model, getattr(self.model, "constants_", None)
        return recall_saddle(
            model,
            X,
            Y if constants is None else Y - constants[:, None],
            weights,
            gammas,
            border=model._border(X, weights),
            slopes=model._linear_slopes(),
            bias=model._central_bias(),
            observed=Y,
            # iterations solve the equations to the tolerance
            equations=None if model.solver_ == "cholesky" else max(model._tolerance(), roundoff(model.support_.size)),
        )

    def read_constants(self, rows: WeightedRows) -> Array:
        """Return the constant c of every row."""
        given, n = self.model.c, rows.n_given
        if isinstance(given, (bool, np.bool_)):
            raise DataError(f"c must be one number or one for each row, received {given!r}")
        constants = real_array(given, "c", ndim=(0, 1))
        if constants.ndim == 1 and constants.size != n:
            raise DataError(f"c must be one number or one for each row: expected {n}, received {constants.size}")
        return np.array(np.broadcast_to(constants, n))[rows.numbers]

    def solve(self, chosen: ChosenKernel, rows: WeightedRows, Y: Array) -> SaddleFit:
        """Fit every column of targets less constants, or of codes, with one factorisation."""
        model, kernel, X, v, gammas = self.model, chosen.kernel, rows.X, rows.weights, chosen.gammas
        tol = model._tolerance()
        if getattr(model, "robust", None) is not None:
            return self.solve_reweighted(chosen, rows, Y)
        how: dict[str, Any] = {"solver": model.solver, "max_iter": model.max_iter}
        border = model._border(X, v)
        if getattr(model, "c", None) is None:
            return fit_saddle(answer_problem(kernel, X, Y, Y, gammas, v, tol, border), **how)
        constants = self.read_constants(rows)
        fit = fit_saddle(answer_problem(kernel, X, Y - constants[:, None], Y, gammas, v, tol, border), **how)
        facts = (*fit.facts, ("constants", "closed form on y - c, in double precision"))
        return fit._replace(facts=facts, further={"constants_": constants})

    def solve_reweighted(self, chosen: ChosenKernel, rows: WeightedRows, Y: Array) -> SaddleFit:
        """Fit again and again with robust weights, which multiply the weights of the rows."""
        model, kernel, X, gammas = self.model, chosen.kernel, rows.X, chosen.gammas
        if Y.shape[1] > 1:
            raise DataError(f"robust weights are of one output, received {Y.shape[1]}; fit one estimator for each")
        gram = definite_gram(kernel, X)

        def refit(robust_weights: Array) -> WeightedFit:
            v = rows.weights * robust_weights
            problem = answer_problem(kernel, X, Y, Y, gammas, v, model._tolerance(), model._border(X, v))
            fit = fit_saddle(problem, gram=gram)
            alpha = np.array(fit.solution.support_values[:, 0])
            return fit, alpha, float(fit.solution.bias[0]), ridge_of(gammas[0], v) * alpha

        fit, added = reweigh_rows(read_robust(model.robust), refit, rows.weights)
        refitted: SaddleFit = fit._replace(**added)
        return refitted

    def leave_rows_out(
        self, X: Any, y: Any = None, sample_weight: Any = None, is_checked: bool = True
    ) -> LeftOutOutputs:
        """Leave every row out of every machine, in closed form."""
        model, gram = self.model, self.training_gram(X)
        alpha, ridge = self.to_columns()
        added = np.atleast_1d(to_numpy(model._central_bias()))
        if model._linear_slopes() is not None:
            added = np.reshape(to_numpy(model._unpenalised(model.support_vectors_)), alpha.shape)
        errors = ridge * alpha
        # what the stored support values solve, which iterations leave near the codes
        solved = to_numpy(gram.product(on_device_of(gram.diagonal, alpha))) + added + errors
        residuals, checks = np.empty(alpha.shape), list[Row]()
        freedom, gcv = np.empty(alpha.shape[1]), np.empty(alpha.shape[1])
        for columns, d, border in self.groups():
            B = to_numpy(kernel_influence(gram, on_device_of(gram.diagonal, d), border).diagonal)
            residuals[:, columns] = leave_one_out_residuals(alpha[:, columns], B)
            freedom[columns] = d.size - d @ B
            gcv[columns] = gcv_of(errors[:, columns], 1.0 - d * B, 1.0 / d)
            if is_checked:
                row = int((d * B).argmin())
                checks.append(_refit(gram, d, border, solved[:, columns], residuals[:, columns], row))
        return LeftOutOutputs(
            X=None if model.kernel_.pairwise else model.support_vectors_,
            targets=np.rint(solved) if model._labels else solved,  # codes are -1 and 1
            errors=errors,
            residuals=residuals,
            weights=self.row_weights(),
            degrees_of_freedom=freedom,
            gcv=gcv,
            conditional="kernel, gamma, weights and preparation of the columns",
            rows=tuple(sorted(checks, key=lambda row: row.relative / row.tolerance)[-1:]),
            facts=gram.record(),
        )

    def leave_groups_out(self, left_out: LeftOutOutputs, groups: Any) -> Array:
        """Leave equal rows out as the one row that they are together, of the sum of their weights: near interpolation
        nothing remains of one less the sum of their leverages.
        """
        _, first = np.unique(groups, return_index=True)
        if first.size == groups.size:
            return left_out.residuals
        gram = Gram.of(self.model.kernel_, take_rows(self.model.support_vectors_, first))
        alpha, _ = self.to_columns()
        residuals = np.empty(left_out.residuals.shape)
        for columns, d, border in self.groups():
            ridge = 1.0 / np.bincount(groups, 1.0 / d)
            B = to_numpy(
                kernel_influence(gram, on_device_of(gram.diagonal, ridge), border.take(first, 1.0 / ridge)).diagonal
            )
            is_determined = B > 0.0  # otherwise the columns of a linear part need a row of the group
            for column in columns:
                together = np.bincount(groups, alpha[:, column]) / np.where(is_determined, B, 1.0)
                single = left_out.residuals[:, column]
                residuals[:, column] = np.where(is_determined[groups], together[groups], single)
        return residuals

    def left_out_machines(self, rows: Any) -> tuple[LeftOutMachines, ...]:
        """Return all machines without one row, for every output."""
        gram = self.training_gram(rows[0] if isinstance(rows, tuple) else rows)
        alpha, _ = self.to_columns()
        machines: dict[int, LeftOutMachines] = {}
        for columns, d, border in self.groups():
            ridge = on_device_of(gram.diagonal, d)
            influence = kernel_influence(gram, ridge, border, self.kernel_rows)
            residuals = leave_one_out_residuals(alpha[:, columns], to_numpy(influence.diagonal))
            for k, column in enumerate(columns.tolist()):
                a, r = (on_device_of(ridge, np.ascontiguousarray(v)) for v in (alpha[:, column], residuals[:, k]))
                machines[column] = LeftOutMachines(influence, a, r, ridge)
        gram.release()
        return tuple(machines[column] for column in range(alpha.shape[1]))

    def groups(self) -> "Iterator[tuple[Any, Array, Border]]":
        """Yield columns, diagonal and border for each group of machines that share a system, and so an inverse."""
        alpha, ridge = self.to_columns()
        border = ONES
        if self.model._linear_slopes() is not None:
            border = self.model._border(self.model.support_vectors_, np.ones(alpha.shape[0]))
        shared = dict[bytes, list[int]]()
        for k in range(alpha.shape[1]):
            shared.setdefault(ridge[:, k].tobytes(), []).append(k)
        for columns in shared.values():
            d = np.array(ridge[:, columns[0]])  # a copy: a device takes no read-only view
            yield np.array(columns), d, border.take(np.arange(d.size), 1.0 / d)

    def effective_parameters(self) -> Any:
        """Return the trace of the hat matrix, one number or one per machine."""
        freedom = self.leave_rows_out(None, is_checked=False).degrees_of_freedom
        return float(freedom[0]) if self.model.support_values_.ndim == 1 else freedom

    def spread(self, points: Any, diagonal: Array) -> Array:
        """Return p(x) of new points, one column per output."""
        machines = self.left_out_machines(None)
        return namespace_of(diagonal).stack([machine.spread(points, diagonal) for machine in machines], axis=1)

    def row_weights(self) -> Array:
        """Return the weights of the rows of the fit, including the weights of their classes, up to a factor."""
        ridge = self.to_columns()[1][:, 0]
        unit = np.atleast_1d(getattr(self.model, "unit_ridge_", ridge.min()))
        return np.asarray(unit[0] / ridge)

    def has_unequal_weights(self) -> bool:
        """Return whether the rows of the fit differ in their weights."""
        return bool(np.ptp(self.row_weights()) != 0.0)

    def kernel_rows(self, X: Any) -> Array:
        """Return the kernel values of points with the rows of the expansion, and the columns of a linear part."""
        model, kernel = self.model, self.model.kernel_
        new_points = take_columns(X, model.support_) if kernel.pairwise else X
        points = None if kernel.pairwise else model.support_vectors_
        if is_device_array(X):
            xp = namespace_of(X)
            values = kernel.evaluate(new_points, new_points if points is None else points, xp.float64)
        else:
            values = np.empty((X.shape[0], model.support_.size))
            kernel.fill(new_points, points, values)
        linear = model._linear_values(X)
        return values if linear is None else namespace_of(values).concat([values, linear], axis=1)

    def to_columns(self) -> tuple[Array, Array]:
        """Return support values and the diagonal of the system, one column per machine."""
        alpha, ridge = to_numpy(self.model.support_values_), to_numpy(self.model.ridge_)
        alpha = alpha[:, None] if alpha.ndim == 1 else alpha
        return alpha, np.broadcast_to(ridge[:, None] if ridge.ndim == 1 else ridge, alpha.shape)

    def training_gram(self, X: Any) -> Gram:
        """Return the kernel matrix of the rows of the fit, which X holds where the kernel is precomputed; refuse an
        inverse that does not fit memory.
        """
        model, home = self.model, self.model.support_values_
        copies = 6.0 if is_device_array(home) else 4.0  # a device factors and inverts out of place
        n = model.support_.size
        advice = "leave rows out by folds, with cross_val_predict; keep rows for calibrate(X, y); or give basis=."
        room_on_device(home, 8.0 * copies * n * n, f"the {n} x {n} inverse", advice)
        if not model.kernel_.pairwise:
            if X is not None and not has_same_rows(model, X):
                name = type(model).__name__
                raise DataError(f"X does not hold the rows that this {name} was fitted to; leave it out, or give those")
            return Gram.of(model.kernel_, model.support_vectors_)
        if X is None:
            raise DataError("with a precomputed kernel leave_one_out needs X, the kernel matrix of the training rows")
        check_home(model, home, X, "X")
        matrix = real_points(X) if is_device_array(X) else real_array(X, "X", ndim=2)
        wanted = (model.n_features_in_, model.n_features_in_)
        if tuple(matrix.shape) != wanted:
            raise DataError(f"X must be the training kernel matrix of shape {wanted}, received {tuple(matrix.shape)}")
        return Gram.of(model.kernel_, take_points(matrix, model.support_, True))


def _refit(gram: Gram, ridge: Array, border: Border, Y: Array, residuals: Array, row: int) -> Row:
    """Return the machines without one row by the saddle system of the others, compared with the closed form."""
    gram.release()
    others = np.flatnonzero(np.arange(gram.n) != row)
    targets, d = (on_device_of(gram.diagonal, array[others]) for array in (Y, ridge))
    without = border.take(others, 1.0 / ridge[others])
    solved = solve_saddle_system(gram.restrict(others), targets, d, border=without)
    explicit = Y[row] - to_numpy(gram.matrix[row, :])[others] @ to_numpy(solved.support_values) - to_numpy(solved.bias)
    if border.slopes:
        explicit = explicit - (border.columns[row] - border.center) @ to_numpy(solved.slopes)
    xp = namespace_of(gram.matrix)
    largest = max(float(xp.max(gram.matrix)), -float(xp.min(gram.matrix)))
    return Row(
        name=f"refit without row {row}",
        value=float(np.abs(explicit - residuals[row]).max()),
        scale=float(np.abs(residuals).max()) + float(np.abs(Y - Y.mean(axis=0)).max()),
        tolerance=1e-10 + relative_rounding(100.0) * gram.n * largest / float(ridge.min()),
        formula="alpha_i/B_ii - (y_i - f^(-i)(x_i))",
    )


def has_same_rows(model: Any, X: Any) -> bool:
    """Return whether a model's rows are the rows of X."""
    rows, kept = model.support_, to_numpy(model.support_vectors_)
    given: Any = to_numpy(X) if is_device_array(X) or is_sparse(X) else np.asarray(X)
    if given.ndim != 2 or given.shape[1] != kept.shape[1] or (rows.size and given.shape[0] <= int(rows.max())):
        return False
    is_different = (given.tocsr() if is_sparse(given) else given)[rows] != kept
    return not (is_different.nnz if is_sparse(is_different) else np.asarray(is_different).any())
