r"""Classification with the squared hinge, the 2-norm SVM: an LS-SVM on the rows inside of the margin.

.. math:: \min_{w, b} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i \max(0, 1 - y_i f(x_i))^2

See :mod:`problems.squared_hinge_svm` for the problem and :mod:`substrate.penalized.squared_hinge.active_set` for the
fast path. With S the support rows, a the coefficients on them and B the inverse of their system,

.. math:: f^{(-i)}(x) = f(x) - c_i(x) \frac{a_i}{B_{ii}}, \qquad a^{(-i)} = a - B_{\cdot i} \frac{a_i}{B_{ii}},
          \qquad i \in S,

is the machine without row i as long as S without i is its support ([Cawley2004]_ section 4): all
:math:`y_j a_j^{(-i)} > 0` inside, and all :math:`y_j f^{(-i)}(x_j) \ge 1` outside. A row outside of S can be left out
without a change. Where the set changes, rows are exchanged from S on until the conditions hold
(:mod:`substrate.penalized.squared_hinge.row_exchange`).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.base import WeightedRows
from problems.estimators.shared.checked_again import Added, StoredFit, definite_gram
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import Classes, class_factors, numbers_of_codes, scores_of, winners
from problems.estimators.shared.left_out import LeftOut
from problems.estimators.shared.machine_rows import each_machine, in_columns
from problems.estimators.shared.model import Model
from substrate.arrays import Array, positive
from substrate.certificates import NO_BOUND, Certificate, Row, warn_unless_holds
from substrate.certificates.rounding import relative_rounding
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.kernel_products import CarefulProducts, PlainProducts, expansion_values
from substrate.least_squares.leave_one_out import leave_one_out_residuals, projected_inverse
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.penalized.squared_hinge.accuracy import HingeMachine, hinge_accuracy
from substrate.penalized.squared_hinge.active_set import hinge_rows, solve_squared_hinge
from substrate.penalized.squared_hinge.row_exchange import RowExchange
from substrate.proof import Proof, tolerance_in_balls
from substrate.proof.duality import prove_squared_hinge

__all__ = ["SquaredHingeClassifier"]

_INDEFINITE = "the kernel matrix is not positive semi-definite, so the fit is a saddle point and no minimum"
_UNKNOWN = (
    "rounding",
    "these are not known to be the support values of a minimum; scale the columns of X, centre them, or take a smaller "
    "gamma",
)
Facts = tuple[tuple[str, str], ...]


class _HingeFit(NamedTuple):
    """One machine on its rows: coefficients y alpha, bias, certificate rows, and facts."""

    coefficients: Array
    bias: float
    rows: tuple[Row, ...]
    facts: Facts


class HingeModel(Model):
    """Machines with the squared hinge; the model keeps the rows of their supports."""

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Return all machines on the data of the fit."""
        return nullcontext(StoredFit(self.recall_machines(*self.recall_data(X, y, sample_weight))))

    def recall_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Array, Array]:
        """Return rows of positive weight, their codes and weights, and the coefficients of all machines on them."""
        model = self.estimator
        checked = model._check_again(X, y, sample_weight, numeric=False)
        X, labels, weights, rows = model._weighted(*checked)
        if not model.kernel_.pairwise and X.shape[1] != model.n_features_in_:
            raise DataError(f"X has {X.shape[1]} features, this model was fitted to {model.n_features_in_}")
        Y = model._codes_again(labels)
        places = np.searchsorted(rows, model.support_)
        if places.size and (places.max() >= rows.size or (rows[places] != model.support_).any()):
            raise DataError("the support of this model has rows that are not among these, or have weight zero here")
        coefficients = np.zeros(Y.shape)
        coefficients[places] = np.reshape(model._coefficients(), (places.size, Y.shape[1]))
        return X, Y, weights, coefficients

    def recall_machines(self, X: Any, Y: Array, weights: Array, coefficients: Array) -> Iterator["StoredHinge"]:
        """Return every machine on its rows."""
        model = self.estimator
        biases, gamma = np.atleast_1d(model.bias_), positive(model.gamma, "gamma")
        kernel = model.kernel_
        if kernel.pairwise:  # the columns of rows of weight zero are gone, and predict would look for them
            outputs = expansion_values(kernel, None, coefficients, biases, X)
        else:
            outputs = np.reshape(self.evaluate(X), Y.shape)
        for part in each_machine(Y, True):
            k, points = part.column, part.points(X, kernel.pairwise)
            gram = definite_gram(kernel, points)
            machine = HingeMachine(
                y=part.y,
                gamma=gamma,
                weights=weights[part.rows],
                a=coefficients[part.rows, k],
                b=float(biases[k]),
                fitted=outputs[part.rows, k],
                diagonal=gram.diagonal,
                negative=gram.negative,
            )
            yield StoredHinge(kernel=kernel, points=points, gram=gram, machine=machine, tolerance=model._tolerance())

    def leave_one_out(self, X: Any, y: Any, sample_weight: Any) -> LeftOut:
        """Leave every row out: in closed form where the support holds, by exchanges of rows where it does not."""
        model = self.estimator
        check_is_fitted(model)
        if X is None or y is None:
            raise DataError(
                f"{type(model).__name__} keeps the rows of its support alone; give the training rows again, "
                "leave_one_out(X, y), and their sample_weight if there was one"
            )
        X, Y, weights, coefficients = self.recall_data(X, y, sample_weight)
        outputs, freedom = np.empty(Y.shape), np.empty(Y.shape[1])
        refitted = 0
        checks: list[Row] = []
        for stored in self.recall_machines(X, Y, weights, coefficients):
            k = len(checks)
            rows = np.flatnonzero(Y[:, k])
            left = _leave_rows_out(stored)
            outputs[:, k] = self.outputs_of(stored, X, k) if rows.size < Y.shape[0] else 0.0
            outputs[rows, k] = left.outputs
            freedom[k], refitted = left.freedom, refitted + left.refitted.size
            checks.append(left.check)
        residuals = np.where(Y != 0.0, Y - outputs, np.nan)
        is_single = Y.shape[1] == 1
        values, errors = (array[:, 0] if is_single else array for array in (outputs, residuals))
        decoded = winners(scores_of(values, model.coding, model.code_book_))
        facts = (
            ("closed form", f"for {int((Y != 0.0).sum()) - refitted} of {int((Y != 0.0).sum())} rows and machines"),
            ("exchanged rows", f"for {refitted}, without which the set of support rows is another one"),
            ("conditional on", "kernel, gamma, weights and preparation of the columns, chosen with the left-out row"),
            (NO_BOUND, "refits check the largest left-out outputs; the accuracy of the fit is a row"),
        )
        answer = model.certificate_.answer
        rests_on = () if answer is None else (answer.plain("accuracy of the fit"),)
        worst = max(checks, key=lambda row: row.relative / row.tolerance)
        return LeftOut(
            outputs=values,
            residuals=errors,
            predictions=model.classes_[decoded],
            degrees_of_freedom=float(freedom[0]) if is_single else freedom,
            gcv=float("nan"),
            misclassification=float(np.mean(decoded != numbers_of_codes(Y, model.code_book_))),
            certificate=Certificate("Leave-one-out of the 2-norm SVM", (worst, *rests_on), facts),
        )

    def outputs_of(self, stored: "StoredHinge", X: Any, column: int) -> Array:
        """Return the decision values of one machine at all rows, also those that it was not fitted to."""
        values = self.evaluate(X)
        return np.asarray(values if values.ndim == 1 else values[:, column])


class _LeftOutRows(NamedTuple):
    """Outputs of all rows of one machine left out, effective parameters, the rows fitted again, and a check."""

    outputs: Array
    freedom: float
    refitted: NDArray[np.intp]
    check: Row


def _leave_rows_out(stored: "StoredHinge") -> _LeftOutRows:
    """Leave every row of one machine out.

    :place [Cawley2004]_ section 4: leave-one-out of the 2-norm SVM, while its support holds
    """
    machine, gram = stored.machine, stored.gram
    y, a = machine.y, machine.a
    ridge = Regularization(machine.gamma).ridge(machine.weights)
    fitted = gram.product(a) + machine.b
    outputs = fitted.copy()
    (support,), (others,) = np.nonzero(a), np.nonzero(a == 0.0)
    inside = gram.restrict(support)
    B = projected_inverse(inside, ridge[support])
    residuals = leave_one_out_residuals(a[support], B.diagonal())
    outputs[support] = y[support] - residuals
    inside.release()
    # the influence of a support row on every other one: rows of [1, k(x, S)] times the inverse of the bordered system
    across = gram.matrix[np.ix_(others, support)]
    bordered, corner = _bias_row(inside, ridge[support])
    influence = across @ B + bordered[None, :]
    moved = a[support][:, None] - B * residuals[None, :]
    np.fill_diagonal(moved, y[support])
    holds = ((y[support][:, None] * moved) > 0.0).all(axis=0)
    values = fitted[others][:, None] - influence * residuals[None, :]
    holds &= (y[others][:, None] * values >= 1.0).all(axis=0)
    changed = support[~holds]
    checked = [int(rows[np.argmax(np.abs(y - outputs)[rows])]) for rows in (support[holds], changed) if rows.size]
    if changed.size:
        shares = across @ bordered
        exchange = RowExchange(
            a=a[support],
            y=y[support],
            ridge=ridge[support],
            fitted=fitted[others],
            y_others=y[others],
            ridge_others=ridge[others],
            B=B,
            V=influence,
            C=gram.matrix[np.ix_(others, others)] - influence @ across.T - shares[:, None] - corner,
        )
        for position in np.flatnonzero(~holds):
            output = exchange.output_without(int(position))
            row = int(support[position])
            outputs[row] = _output_without(gram, y, ridge, a != 0.0, row) if output is None else output
    differences = [abs(outputs[row] - _output_without(gram, y, ridge, a != 0.0, row)) for row in checked]
    worst = int(np.argmax(differences))
    largest = float(np.abs(gram.diagonal).max())
    tolerance = 1e-8 + relative_rounding(100.0) * gram.n * largest / float(ridge[support].min())
    check = Row(
        name=f"refit without row {checked[worst]}",
        value=float(differences[worst]),
        scale=float(np.abs(residuals).max()) + 1.0,
        tolerance=tolerance,
        formula="f^(-i)(x_i) by the formula - by a fit",
    )
    freedom = support.size - float(ridge[support] @ B.diagonal())
    return _LeftOutRows(outputs=outputs, freedom=freedom, refitted=changed, check=check)


def _bias_row(gram: Gram, ridge: Array) -> tuple[Array, float]:
    """Return the derivative of the bias in every target, the share of each row in A^-1 1, and that in the sum of the
    coefficients.
    """
    gram.factorize(ridge)
    eta = gram.solve(np.ones(ridge.size))
    gram.release()
    total = float(eta.sum())
    return np.asarray(eta / total), -1.0 / total


def _output_without(gram: Gram, y: Array, ridge: Array, start: Any, row: int) -> float:
    """Return the decision value of a row in the machine fitted without it."""
    rest = np.flatnonzero(np.arange(y.size) != row)
    solved = solve_squared_hinge(gram.restrict(rest), y[rest], ridge[rest], start[rest])
    return float(gram.matrix[row, rest] @ solved.coefficients + solved.bias)


@dataclass(eq=False, repr=False)
class SquaredHingeClassifier(Classifier):
    """The squared-hinge machine, or 2-norm SVM ([Cawley2004]_ section 4): an LS-SVM on the rows inside of the margin.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    gamma : float, default=1.0
        Weight of half the squared slacks against the norm; C of an SVM with squared slacks is half of it.
    tol : float, default=1e-6
        Accuracy of the decision values, as a share of the spread of the codes, up to which the certificate holds.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into the weights of the rows.

    Attributes
    ----------
    support_ : array of shape (n_support,)
        The rows inside of the margin of some machine, whose support values are positive.
    n_support_ : int
        The number of those rows.
    support_values_, support_vectors_ : arrays
        Those rows only.
    classes_, code_book_, support_codes_
        As for :class:`~problems.LSSVMClassifier`.
    bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.

    Examples
    --------
    >>> from problems import SquaredHingeClassifier
    >>> from substrate.datasets import ripley
    >>> from substrate.kernels import RBF
    >>> X, y = ripley()
    >>> model = SquaredHingeClassifier(RBF(0.5), 30.0).fit(X, y)
    >>> model.n_support_ < len(y), bool(model.certificate_.holds)
    (True, True)
    """

    _model_type = HingeModel
    _page, _title = "squared_hinge_svm", "Squared-hinge machine"
    _typical = ({"gamma": 10.0},)
    gamma: float = 1.0
    _: KW_ONLY
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
    class_weight: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and labels y of any kind; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        self._begin_fit()
        gamma = positive(self.gamma, "gamma")
        self._check_coding()
        X, labels, weights = self._check_data(X, y, sample_weight, numeric=False)
        X, labels, weights, rows = self._weighted(X, labels, weights)
        classes = Classes.of(labels, self.coding)
        Y = classes.codes(labels)
        kernel = self._resolved_kernel(X)
        gram = definite_gram(kernel, X)
        machines, fits = list(each_machine(Y, True)), []
        for part in machines:
            matrix = gram if part.whole else gram.restrict(part.rows)
            points = part.points(X, kernel.pairwise)
            fits.append(_fit_machine(kernel, points, matrix, part.y, gamma, weights[part.rows], self._tolerance()))
        a = in_columns(machines, [fit.coefficients for fit in fits], gram.n)
        bias = np.array([fit.bias for fit in fits])
        (used,) = np.nonzero(a.any(axis=1))
        single = Y.shape[1] == 1
        self._keep_classes(classes, Y[used])
        self.n_support_ = int(used.size)
        facts = tuple(dict.fromkeys(fact for fit in fits for fact in fit.facts))
        self.certificate_ = Certificate(self._title, worst_rows([fit.rows for fit in fits]), facts)
        warn_unless_holds(self.certificate_)
        alpha = (Y * a)[used]
        kept = np.ascontiguousarray(alpha[:, 0] if single else alpha)
        points = X if kernel.pairwise else X[used]
        self._keep_expansion(points, rows[used], kernel, kept, float(bias[0]) if single else bias)
        return self

    def leave_one_out(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> LeftOut:
        """Return outputs and residuals of every training row with that row left out.

        The training rows are given again, since the model keeps its support only, and their weights if the fit had any.
        In closed form where the set of support rows holds without the row, and by exchanging rows with it where it does
        not; the certificate states how many there are of each. There is no generalised cross-validation, ``gcv`` is
        NaN.
        """
        left_out: LeftOut = self._model.leave_one_out(X, y, sample_weight)
        return left_out

    def _weighted(self, X: Any, labels: Any, weights: Array) -> WeightedRows:
        """Multiply the class weights in, and drop rows of weight zero."""
        if self.class_weight is not None:
            weights = weights * class_factors(self.class_weight, labels, weights)
        return self._keep_weighted(X, labels, weights)


def _fit_machine(kernel: Kernel, X: Any, gram: Gram, y: Array, gamma: float, weights: Array, tol: float) -> _HingeFit:
    """Fit one machine to labels -1 and +1, and bound its answer."""
    ridge = Regularization(gamma).ridge(weights)
    solved = solve_squared_hinge(gram, y, ridge)
    machine = _stored(kernel, X, gram, y, gamma, weights, solved.coefficients, solved.bias)
    answer, more = _answer(kernel, X, gram, machine, tol)
    checks = hinge_rows(gram.product(machine.a), gram.diagonal, y, ridge, machine.a, machine.b)
    facts = (
        *gram.record(),
        ("gamma", f"{gamma:g}"),
        ("support", f"{int(solved.active.sum())} of {y.size} rows"),
        ("solver", f"active set of support rows, {solved.steps} systems"),
    )
    return _HingeFit(machine.a, machine.b, (*answer, *checks), (*facts, *more))


def _stored(
    kernel: Kernel, X: Any, gram: Gram, y: Array, gamma: float, weights: Array, a: Array, b: float
) -> HingeMachine:
    """Return the machine with the decision values that its support gives."""
    (used,) = np.nonzero(a)
    points = None if kernel.pairwise else X[used]
    fitted = expansion_values(kernel, points, a[used], b, X, used)
    return HingeMachine(
        y=y, gamma=gamma, weights=weights, a=a, b=b, fitted=fitted, diagonal=gram.diagonal, negative=gram.negative
    )


@dataclass(frozen=True, slots=True)
class StoredHinge:
    """A 2-norm SVM on its rows of positive weight."""

    kernel: Kernel
    points: Any
    gram: Gram
    machine: HingeMachine
    tolerance: float

    def certify(self) -> Added:
        """Bound the answer, and check the conditions of optimality."""
        gram, machine = self.gram, self.machine
        ridge = Regularization(machine.gamma).ridge(machine.weights)
        rows = hinge_rows(gram.product(machine.a), gram.diagonal, machine.y, ridge, machine.a, machine.b)
        answer, facts = _answer(self.kernel, self.points, gram, machine, self.tolerance)
        return (*answer, *rows), (*gram.record(), *facts)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        tolerance = tolerance_in_balls(self.machine.y, self.machine.weights, self.tolerance)
        if not np.isfinite(self.machine.negative):
            return Proof.of(float("inf"), tolerance, 0, _INDEFINITE)
        return prove_squared_hinge(self.kernel, self.points, self.machine, tolerance)


def _answer(
    kernel: Kernel, X: Any, gram: Gram, machine: HingeMachine, tolerance: float
) -> tuple[tuple[Row, ...], Facts]:
    """Return the row that bounds the answer, and facts about it."""
    if not np.isfinite(machine.negative):
        return (), ((NO_BOUND, _INDEFINITE),)
    plain = PlainProducts(np.asarray(gram.matrix), kernel.rounding(X), kernel.trusted and not kernel.pairwise)
    permitted = Tolerance.of(machine.y, machine.weights, tolerance)
    row, careful = hinge_accuracy(machine, CarefulProducts(kernel, X, plain), permitted)
    if row.passes:
        return (row,), (("check", "in doubled precision"),) if careful else ()
    return (row,), (_UNKNOWN,)
