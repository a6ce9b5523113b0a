"""The solutions of the LS-SVM saddle system in one record: closed form, conjugate gradients, declared problem."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from problems.estimators.shared.base import import_page
from substrate.arrays import Array, positive
from substrate.certificates import Row
from substrate.certificates.rows import Accuracy, spread_of, unpolished_tolerance
from substrate.certificates.tolerance import tolerances_of
from substrate.errors import DeclarationError
from substrate.gram import Gram, has_room_for_matrix
from substrate.kernels import Componentwise, Kernel
from substrate.least_squares.answer import AnswerProblem, bound_answer
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_certificate import saddle_rows, worst_rows
from substrate.least_squares.saddle_system import FACTORED_ROWS, solve_saddle_system, target_unit
from substrate.namespaces import is_device_array, on_device_of, to_numpy

if TYPE_CHECKING:
    from substrate.least_squares.iterated_fit import IteratedFit

__all__ = ["Method", "SaddleFit", "Way", "center_and_unit", "fit_saddle", "gammas_of"]

Facts = tuple[tuple[str, str], ...]
Way = Literal["cholesky", "cg", "cvxpy"]
_NO_FACTS: Facts = ()


#: The solvers of this package: the closed form and conjugate gradients.
_OWN = ("auto", "cholesky", "cg")


@dataclass(frozen=True, slots=True)
class Method:
    """The method: ``auto`` (by cost), ``cholesky``, ``cg``, ``cvxpy``, or a conic solver's name.

    ``max_iter`` is that of conjugate gradients; ``tol`` is the accuracy required, as a share of the spread of y.
    ``page`` names the page that is solved.
    """

    solver: str
    max_iter: int
    tol: float
    page: str = "ls_svm_regression"

    def __post_init__(self) -> None:
        if not isinstance(self.solver, str) or self.solver not in (*_OWN, "cvxpy"):
            from substrate.solvers import canonical_name  # the closed form has no use for solvers

            object.__setattr__(self, "solver", canonical_name(self.solver))

    @classmethod
    def closed_form(cls, tol: float) -> "Method":
        """Return the closed form, which has no iterations."""
        return cls("cholesky", 1, tol)

    @property
    def tolerance(self) -> float:
        """The tolerance of the accuracy: its root for a conic solver's point."""
        return self.tol if self.solver in _OWN else unpolished_tolerance(self.tol)


class SaddleFit(NamedTuple):
    """Support values in regression's sign (one column per output), biases, certificate rows and facts.

    ``reason`` states why an iteration did not converge, and what to do: a warning of it is issued where the certificate
    does not hold. ``way`` names the solver. ``slopes`` are the coefficients of the columns of the ``border`` beside the
    bias, in the units of these columns, and ``deviations`` the roots of the diagonal of (Z'(K + D)^-1 Z)^-1 that belong
    to them, one column per output each. ``further`` are fitted attributes beside these, by name.
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
    deviations: Array | None = None
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


def fit_saddle(
    kernel: Kernel,
    X: Any,
    Y: Array,
    gammas: tuple[float, ...],
    weights: Array,
    method: Method,
    *,
    gram: Gram | None = None,
    border: Border = ONES,
    observed: Array | None = None,
) -> SaddleFit:
    """Fit every column of Y; support values and biases are where Y is, which may be the host if X is on a device.

    ``gram`` is the kernel matrix if available. ``border`` holds the columns that are not penalised. ``observed`` are
    the targets of the user where Y is made of them: the accuracy is a share of their spread.
    """
    if is_device_array(X) and method.solver not in ("auto", "cholesky", "cg"):
        raise DeclarationError(
            f"solver={method.solver!r} works on numpy arrays; on a device use solver='auto', 'cholesky' or 'cg', or "
            "pass X.cpu().numpy() (torch), X.get() (CuPy)"
        )
    tolerances = tolerances_of(to_numpy(Y if observed is None else observed), to_numpy(weights), method.tolerance)
    question = AnswerProblem(
        kernel=kernel, X=X, Y=Y, gammas=gammas, weights=weights, tolerances=tolerances, border=border
    )
    on_device = is_device_array(X)
    direct, chosen = method.solver in ("auto", "cholesky"), _NO_FACTS
    many = X.shape[0] >= FACTORED_ROWS and not on_device
    iterates = method.solver == "auto" and gram is None and (many or (on_device and not has_room_for_matrix(kernel, X)))
    if iterates or method.solver == "cg":
        from substrate.least_squares.iterated_fit import IteratedFit, iterated_fit  # few fits have so many rows

        on_host = question._replace(Y=to_numpy(Y), weights=to_numpy(weights))
        iterated = iterated_fit(on_host, method.max_iter if method.solver == "cg" else None)
        if isinstance(iterated, IteratedFit):
            return _keep_iterated(iterated, on_host, Y)
        gram, chosen = iterated.gram, iterated.facts
    if many and gram is None and method.solver == "cholesky":
        from substrate.least_squares.solver_choice import factored_seconds, warn_of_long_fit

        n = X.shape[0]
        warn_of_long_fit(n, factored_seconds(n), 8.0 * n * n, "a factorisation")
    home, gram = Y, Gram.of(kernel, X) if gram is None else gram
    if direct:
        if not kernel.trusted:
            gram.check_definite()
        Y, weights = to_numpy(Y), to_numpy(weights)
        solution = _closed_form(gram, Y, gammas, weights, border)
    else:
        K: Any = gram
        if method.page == "componentwise_ls_svm" and isinstance(kernel, Componentwise):
            from problems.estimators.shared.additive import kernel_matrices  # brings feature selection, for few

            K = kernel_matrices(kernel, X)
        name = None if method.solver == "cvxpy" else method.solver
        solution = _declared(gram, kernel, X, K, Y, gammas, weights, method.page, name, border)
        if not kernel.trusted:  # a declaration accepts slightly negative eigenvalues
            gram.check_definite()
    record, negative = gram.record(), gram.negative
    question = question._replace(Y=Y, weights=weights, negative=negative)
    machine = (solution.support_values, solution.bias, solution.products, gram.diagonal, gram if direct else None)
    slopes = solution.slopes if border.slopes else None
    answer, doubts = bound_answer(question, *machine, slopes=slopes)
    facts = (*record, _gamma_fact(gammas), *solution.facts, *chosen, *_unit_facts(Y), *doubts)
    way: Way = "cholesky" if direct else "cvxpy"
    support_values, bias = (on_device_of(home, array) for array in (solution.support_values, solution.bias))
    return SaddleFit(
        support_values=support_values,
        bias=bias,
        rows=(*answer, *solution.rows),
        facts=facts,
        iterations=solution.steps,
        way=way,
        border=border,
        slopes=slopes,
        deviations=solution.deviations if border.slopes else None,
    )


def _keep_iterated(iterated: "IteratedFit", question: AnswerProblem, home: Array) -> SaddleFit:
    """Return a fit by conjugate gradients, which were the cheaper solver, or the one that was required."""
    reason = ""
    if iterated.reason:
        reason = (
            f"conjugate gradients stopped after {iterated.iterations} iterations above the tolerance: "
            f"{iterated.reason}; raise max_iter, lower gamma, or use solver='cholesky'"
        )
    facts = (*iterated.facts[:2], _gamma_fact(question.gammas), *iterated.facts[2:], *_unit_facts(question.Y))
    return SaddleFit(
        support_values=on_device_of(home, iterated.support_values),
        bias=on_device_of(home, iterated.bias),
        rows=iterated.rows,
        facts=facts,
        iterations=max(iterated.iterations, 1),
        reason=reason,
        way="cg",
        border=question.border,
        slopes=iterated.slopes,
        deviations=iterated.deviations,
    )


def _gamma_fact(gammas: tuple[float, ...]) -> tuple[str, str]:
    return "gamma", ", ".join(f"{gamma:g}" for gamma in dict.fromkeys(gammas))


def _unit_facts(Y: Array) -> Facts:
    far = any(target_unit(Y[:, k]) != 1.0 for k in range(Y.shape[1]))
    return (("units", "residuals in units of max|y|"),) if far else ()


class _Solution(NamedTuple):
    """The numbers of a solver before their answer is bounded: ``products`` is K alpha, one column per output each."""

    support_values: Array
    bias: Array
    products: Array
    rows: tuple[Row, ...]
    facts: Facts
    steps: int = 1
    slopes: Array | None = None
    deviations: Array | None = None


def _columns(gammas: tuple[float, ...]) -> list[tuple[float, list[int]]]:
    """Return the outputs that share a gamma, and so a factorisation."""
    return [
        (gamma, [k for k, gamma_of_output in enumerate(gammas) if gamma_of_output == gamma])
        for gamma in dict.fromkeys(gammas)
    ]


def _closed_form(
    gram: Gram,
    Y: Array,
    gammas: tuple[float, ...],
    weights: Array,
    border: Border,
) -> _Solution:
    """Solve in closed form, by one factorisation for each gamma."""
    slopes, deviations = np.empty((border.slopes, Y.shape[1])), np.empty((border.slopes, Y.shape[1]))
    alpha, bias, stored = np.empty_like(Y), np.empty(Y.shape[1]), np.empty_like(Y)
    rows, refinements, diagonal = [], 0, to_numpy(gram.diagonal)
    for gamma, columns in _columns(gammas):
        ridge = Regularization(gamma).ridge(weights)
        targets, diagonals = (on_device_of(gram.diagonal, values) for values in (Y[:, columns], ridge))
        solved = solve_saddle_system(gram, targets, diagonals, border=border)
        alpha[:, columns], stored[:, columns] = to_numpy(solved.support_values), to_numpy(solved.products)
        bias[columns], slopes[:, columns] = to_numpy(solved.bias), to_numpy(solved.slopes)
        if border.slopes and solved.schur is not None:
            deviations[:, columns] = border.deviations(to_numpy(solved.schur))[:, None]
        refinements = max(refinements, solved.refinements)
        for column in columns:
            system = (stored[:, column], diagonal, Y[:, column], ridge, alpha[:, column], float(bias[column]))
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


def _declared(
    gram: Gram,
    kernel: Kernel,
    X: Any,
    K: Any,
    Y: Array,
    gammas: tuple[float, ...],
    weights: Array,
    page_name: str,
    solver: str | None,
    border: Border = ONES,
) -> _Solution:
    """Solve the page, one output at a time; ``border`` are the columns of its data that are not penalised.

    ``gram`` is the kernel matrix, and ``K`` what the page takes: that matrix, or one for each component.
    """
    page = import_page(page_name)
    build = page.DEMONSTRATION.own_build
    arguments = {"K": K} if build is None else build(kernel, X, Y[:, 0])
    labels = page_name == "ls_svm_classification"  # its support values have the sign of the label
    alpha, bias = np.empty_like(Y), np.empty(Y.shape[1])
    slopes = np.empty((border.slopes, Y.shape[1])) if border.slopes else None
    rows: list[tuple[Row, ...]] = []
    facts: list[tuple[str, str]] = []
    for column, gamma in enumerate(gammas):
        y = np.ascontiguousarray(Y[:, column])
        center, unit = (0.0, 1.0) if labels else center_and_unit(y)
        declared = page.declare(**{**arguments, "y": (y - center) / unit}, gamma=gamma, weights=weights)
        declared.solve(solver, warn=False)
        alpha[:, column] = unit * (y * declared.support_values if labels else declared.support_values)
        bias[column] = unit * declared.bias + center
        if slopes is not None:
            slopes[:, column] = unit * declared.coefficients
            bias[column] += border.center @ slopes[:, column]
        if not labels:
            facts.append(("targets", "given to the solver without their mean and in units of their spread"))
        # the bound is computed from the numbers that predict uses
        rows.append(tuple(row for row in declared.certificate().rows if not isinstance(row, Accuracy)))
        if (record := declared.solver_record) is not None:
            facts += record.facts()
    return _Solution(
        support_values=alpha,
        bias=bias,
        products=gram.product(alpha),
        rows=worst_rows(rows),
        facts=tuple(dict.fromkeys(facts)),
        slopes=slopes,
        deviations=_deviations(gram, gammas, weights, border),
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
