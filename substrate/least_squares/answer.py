"""The answer of a kernel least-squares fit: a bound on its distance from the exact optimum, and refinement.

The inexpensive bound of :mod:`~substrate.least_squares.saddle_certificate` suffices for ordinary fits. Where rounding
is too large for it and the kernel has fewer features than there are rows, the machine is fitted in those
(:mod:`~substrate.least_squares.primal_weights`): even exact support values might not represent the answer in double
precision. With any other kernel the check is repeated in blocks of the matrix of the fit, for few percent of its time;
and where that does not settle it, in doubled precision, and the support values are refined by the accurate residual.
Where double precision does not suffice, the certificate states it, with a remedy; where it fails by far, that is
known without doubled precision.
"""

from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.certificates import NO_BOUND, Row
from substrate.certificates.rows import Accuracy, accuracy_of_outputs, root_mean_square
from substrate.certificates.tolerance import Tolerance
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.kernel_products import expansion_values
from substrate.least_squares.primal_weights import FORMULA as PRIMAL_FORMULA
from substrate.least_squares.primal_weights import PrimalWeights, primal_accuracy, solve_primal, support_values_of
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_certificate import (
    BLOCK_FORMULA,
    CAREFUL_FORMULA,
    FORMULA,
    BlockRows,
    CarefulRows,
    Expansion,
    PlainRows,
    bound_carefully,
    bound_plainly,
    kernel_roots,
)
from substrate.namespaces import is_device_array, to_numpy

__all__ = ["Answer", "AnswerProblem", "bound_and_refine", "bound_answer", "kernel_rounding"]

_INDEFINITE = "the kernel matrix is not positive semi-definite, so the fit is a saddle point and no minimum"
_UNKNOWN = (
    "rounding",
    "double precision cannot give the answer to this tolerance; scale the columns, lower gamma, or centre the inputs",
)
_MOST_REFINEMENTS = 4
#: How many tolerances the rounding of kernel values may be for a check in doubled precision to be worth its time.
_FAR_BEYOND = 10.0


class AnswerProblem(NamedTuple):
    """The fitted problem: a kernel on points, targets (one column per output) with their gammas, weights of the rows.

    ``tolerances`` state the absolute error that is permitted, one for every output: by the targets of the user, of
    which Y may be made (y - c). ``negative`` bounds the distance of the kernel matrix from
    positive semi-definite; infinity: it is not. ``border`` holds the columns that are not penalised.
    """

    kernel: Kernel
    X: Any
    Y: Array
    gammas: tuple[float, ...]
    weights: Array
    tolerances: tuple[Tolerance, ...]
    negative: float = 0.0
    border: Border = ONES

    @property
    def largest_radii(self) -> Array:
        """The absolute error that is permitted for every output."""
        return np.array([tolerance.largest_radius for tolerance in self.tolerances])

    @property
    def share(self) -> float:
        """The permitted error of the strictest output as a share of its spread: by it costs are estimated."""
        return min(tolerance.share for tolerance in self.tolerances)

    def expansion(self, column: int, a: Array, b: float, slopes: Array | None = None) -> Expansion:
        """Return one output as it is stored; ``slopes`` has one column per output."""
        y, v = to_numpy(self.Y)[:, column], to_numpy(self.weights)
        c = None if slopes is None or not self.border.slopes else slopes[:, column]
        return Expansion(
            y=y, gamma=self.gammas[column], weights=v, a=a, b=b, negative=self.negative, border=self.border, slopes=c
        )

    def roots(self, diagonal: Array) -> Array:
        """Return what the rounding of a kernel value is a share of, from the diagonal of the kernel matrix."""
        envelope = self.kernel.envelope
        return kernel_roots(diagonal if envelope is self.kernel else to_numpy(envelope.diag(self.X)), self.negative)

    def row(self, column: int, bound: float, formula: str) -> Accuracy:
        """Return the row of one output."""
        return self.tolerances[column].row(bound, formula)


class Answer(NamedTuple):
    """Support values and biases, perhaps refined; primal weights where they represent the answer; row and facts."""

    support_values: Array
    bias: Array
    primal: PrimalWeights | None
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    slopes: Array | None = None
    #: Of the slopes, where primal weights are the answer: a kernel matrix may not know them.
    deviations: Array | None = None


def kernel_rounding(kernel: Kernel, X: Any) -> float:
    """Return the rounding of a kernel value as a share of its diagonal, twice that of its envelope if it has one."""
    envelope = kernel.envelope
    return float(envelope.rounding(X) * (1.0 if envelope is kernel else 2.0))


def bound_and_refine(
    question: AnswerProblem,
    alpha: Array,
    bias: Array,
    products: Array,
    diagonal: Array,
    gram: Gram | None = None,
    *,
    primal: bool = False,
    rounding: float | None = None,
    slopes: Array | None = None,
) -> Answer:
    """Bound the answer, and refine it where the bound is above the tolerance.

    ``products`` is K alpha, one column per output; ``gram`` the kernel matrix, for refinement; ``primal`` states
    whether the caller keeps primal weights, which may then replace the support values; ``rounding`` is the
    :func:`kernel_rounding`, where it is known already. ``slopes`` are the coefficients of the columns of the border
    beside the constant.
    """
    if not np.isfinite(question.negative):
        return Answer(
            support_values=alpha, bias=bias, primal=None, rows=(), facts=((NO_BOUND, _INDEFINITE),), slopes=slopes
        )
    rounding = kernel_rounding(question.kernel, question.X) if rounding is None else rounding
    a, b, p, k = (to_numpy(array) for array in (alpha, bias, products, diagonal))
    predicted = _predict(question, alpha, bias, slopes)
    roots = question.roots(k)
    rows = []
    for column in range(a.shape[1]):
        machine = question.expansion(column, a[:, column], float(b[column]), slopes)
        shown = None if predicted is None else predicted[:, column]
        bound = bound_plainly(machine, PlainRows(p[:, column], roots, rounding), shown)
        rows.append(question.row(column, bound, FORMULA))
    if all(row.passes for row in rows):
        return Answer(
            support_values=alpha, bias=bias, primal=None, rows=(accuracy_of_outputs(rows),), facts=(), slopes=slopes
        )
    if is_device_array(question.X):
        return Answer(
            support_values=alpha,
            bias=bias,
            primal=None,
            rows=(accuracy_of_outputs(rows),),
            facts=(_UNKNOWN,),
            slopes=slopes,
        )
    rank = question.kernel.rank(question.X.shape[1])
    if primal and rank is not None and rank < question.X.shape[0]:
        return _primal_answer(question, rank)
    for column, row in enumerate(rows if gram is not None else ()):
        if gram is None or row.passes:
            continue
        machine = question.expansion(column, a[:, column], float(b[column]), slopes)
        shown = None if predicted is None else predicted[:, column]
        bound = bound_plainly(machine, BlockRows.of(gram, question.X, machine.a, roots, rounding), shown)
        rows[column] = min(row, question.row(column, bound, BLOCK_FORMULA), key=lambda either: either.value)
    is_settled = all(row.passes for row in rows)
    if is_settled or _is_out_of_reach(question, a, roots, rows):
        return Answer(
            support_values=alpha,
            bias=bias,
            primal=None,
            rows=(accuracy_of_outputs(rows),),
            facts=(("check", "in blocks") if is_settled else _UNKNOWN,),
            slopes=slopes,
        )
    refined = _refine(question, a, b, k, gram, slopes)
    for column, accuracy in enumerate(refined.accuracies):
        is_same = _is_same_column(refined, a, b, slopes, column)
        rows[column] = min(rows[column], accuracy, key=lambda either: either.value) if is_same else accuracy
    if all(row.passes for row in rows):
        return Answer(
            support_values=refined.support_values,
            bias=refined.bias,
            primal=None,
            rows=(accuracy_of_outputs(rows),),
            facts=(("check", "in doubled precision"),),
            slopes=refined.slopes,
        )
    return Answer(
        support_values=refined.support_values,
        bias=refined.bias,
        primal=None,
        rows=(accuracy_of_outputs(rows),),
        facts=(_UNKNOWN,),
        slopes=refined.slopes,
    )


def _is_out_of_reach(question: AnswerProblem, a: Array, roots: Array, rows: list[Accuracy]) -> bool:
    """Return whether the rounding of accurate kernel values alone exceeds the tolerance of an output by far.

    Doubled precision would then find no bound that passes, of these support values or of others near them.
    """
    rounding = CarefulRows(question.kernel, question.X, roots).rounding
    typical = root_mean_square(roots, to_numpy(question.weights))
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = roots @ np.abs(a)
    floors = rounding * typical * sizes if rounding > 0.0 else np.zeros_like(sizes)
    return any(
        not row.passes and floor > _FAR_BEYOND * radius
        for row, floor, radius in zip(rows, floors, question.largest_radii, strict=True)
    )


def _is_same_column(refined: "_RefinedMachine", a: Array, b: Array, slopes: Array | None, column: int) -> bool:
    """Return whether an output was not changed by refinement: a bound from before then is one of it."""
    pairs = [(refined.support_values, a), (refined.bias, b)]
    if slopes is not None and refined.slopes is not None:
        pairs.append((refined.slopes, slopes))
    return all(np.array_equal(new[..., column], old[..., column]) for new, old in pairs)


def _primal_answer(question: AnswerProblem, rank: int) -> Answer:
    """Return the machine fitted in its features, which costs less than a check in doubled precision and loses fewer
    digits.
    """
    data, border = (question.X, question.Y, question.gammas, question.weights), question.border
    solved = solve_primal(question.kernel, *data, border)
    fact = ("expansion", f"{rank} primal weights and a centre; support values may not represent this answer")
    a, b = support_values_of(solved.weights, *data, border, solved.slopes)
    rows = _primal_rows(question, solved.weights, solved.slopes)
    answer = Answer(
        support_values=a,
        bias=b,
        primal=solved.weights,
        rows=rows,
        facts=(fact,),
        slopes=solved.slopes if border.slopes else None,
        deviations=solved.deviations if border.slopes else None,
    )
    return _add_rows(answer)


def bound_answer(
    question: AnswerProblem,
    alpha: Array,
    bias: Array,
    fitted: Array,
    primal: PrimalWeights | None,
    slopes: Array | None = None,
) -> Answer:
    """Return the bound for given coefficients; ``fitted`` is what predict returns for the training rows."""
    if not np.isfinite(question.negative):
        return Answer(
            support_values=alpha, bias=bias, primal=None, rows=(), facts=((NO_BOUND, _INDEFINITE),), slopes=slopes
        )
    if primal is not None:
        return _add_rows(
            Answer(
                support_values=alpha,
                bias=bias,
                primal=primal,
                rows=_primal_rows(question, primal, slopes),
                facts=(),
                slopes=slopes,
            )
        )
    careful = CarefulRows(question.kernel, question.X, question.roots(question.kernel.diag(question.X)))
    rows = []
    for column in range(alpha.shape[1]):
        machine = question.expansion(column, alpha[:, column], float(bias[column]), slopes)
        bound, _ = bound_carefully(machine, careful, fitted[:, column])
        rows.append(question.row(column, bound, CAREFUL_FORMULA))
    return _add_rows(
        Answer(support_values=alpha, bias=bias, primal=None, rows=(accuracy_of_outputs(rows),), facts=(), slopes=slopes)
    )


def _predict(question: AnswerProblem, alpha: Array, bias: Array, slopes: Array | None) -> Array | None:
    """Return what predict returns, for a function as kernel: its rounding may depend on the block, and has no bound."""
    if question.kernel.trusted or is_device_array(question.X):
        return None
    points = None if question.kernel.pairwise else question.X
    values = expansion_values(question.kernel, points, alpha, bias, question.X)
    return np.asarray(values + question.border.slope_values(slopes))


def _add_rows(answer: Answer) -> Answer:
    return answer if answer.rows[0].passes else answer._replace(facts=(*answer.facts, _UNKNOWN))


def _primal_rows(question: AnswerProblem, primal: PrimalWeights, slopes: Array | None) -> tuple[Row, ...]:
    Y, v, border = to_numpy(question.Y), to_numpy(question.weights), question.border
    outputs = []
    for column, gamma in enumerate(question.gammas):
        bound, gradient = primal_accuracy(primal, question.X, Y[:, column], gamma, v, column, border, slopes)
        outputs.append((question.row(column, bound, PRIMAL_FORMULA), gradient))
    answers, gradients = zip(*outputs, strict=True)
    return accuracy_of_outputs(list(answers)), max(gradients, key=lambda row: row.relative)


class _RefinedMachine(NamedTuple):
    """Support values, biases and slopes after refinement, and the accuracy of every output."""

    support_values: Array
    bias: Array
    slopes: Array | None
    accuracies: list[Accuracy]


@np.errstate(over="ignore", invalid="ignore")  # a step that overflows has no bound, and is not taken
def _refine(
    question: AnswerProblem, a: Array, b: Array, diagonal: Array, gram: Gram | None, slopes: Array | None
) -> _RefinedMachine:
    """Refine iteratively by the accurate residual, of the outputs that need it, as long as the bound falls."""
    rows, border = CarefulRows(question.kernel, question.X, question.roots(diagonal)), question.border
    a, b = a.copy(), b.copy()
    accuracies: list[Accuracy] = []
    for column, gamma in enumerate(question.gammas):
        best, residual = _check_column(question, rows, a, b, column, slopes)
        weights = to_numpy(question.weights)
        for _ in range(_MOST_REFINEMENTS if gram is not None else 0):
            # a residual that is the smaller part of the bound cannot halve it
            if best.passes or gram is None or root_mean_square(residual, weights) < 0.25 * best.value:
                break
            gram.factorize(Regularization(gamma).ridge(question.weights))
            right = residual[:, None]
            solved = gram.solve(np.concatenate([right, border.matrix(right)], axis=1))
            eliminate = border.eliminate(solved[:, 1:])
            # Z'a becomes zero: what the support values lack is taken up by the step
            step, c = eliminate(solved[:, :1], -border.totals(a[:, [column]]), is_repeated=False)
            tried_a, tried_b = a.copy(), b.copy()
            tried_a[:, column] += step[:, 0]
            shift, more = border.split(c)
            tried_b[column] += shift[0]
            tried_slopes = slopes
            if slopes is not None:
                tried_slopes = slopes.copy()
                tried_slopes[:, column] += more[:, 0]
            row, errors_tried = _check_column(question, rows, tried_a, tried_b, column, tried_slopes)
            if not row.value < 0.5 * best.value:
                break
            a, b, slopes, best, residual = tried_a, tried_b, tried_slopes, row, errors_tried
        accuracies.append(best)
    return _RefinedMachine(support_values=a, bias=b, slopes=slopes, accuracies=accuracies)


def _check_column(
    question: AnswerProblem, rows: CarefulRows, a: Array, b: Array, column: int, slopes: Array | None
) -> tuple[Accuracy, Array]:
    points = None if question.kernel.pairwise else question.X
    fitted = expansion_values(question.kernel, points, a[:, [column]], b[[column]], question.X)[:, 0]
    machine = question.expansion(column, a[:, column], float(b[column]), slopes)
    bound, residual = bound_carefully(machine, rows, fitted + question.border.slope_values(machine.slopes))
    return question.row(column, bound, CAREFUL_FORMULA), residual
