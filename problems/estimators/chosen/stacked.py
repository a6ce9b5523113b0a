r"""A stack of LS-SVMs: the machines that a search fits, weighted by exact leave-one-out.

A search judges machines of several kernels, each at its best gamma, and keeps one of them. Their left-out predictions P
are known without a refit, so that the best average of them is one small convex problem more,

.. math:: \min_u \| y - P u \|_v^2 \quad \text{subject to} \quad u \ge 0, \; 1^T u = 1, \qquad
          f(x) = \sum_m u_m f_m(x) ,

with a lower bound on the certificate (:mod:`substrate.least_squares.simplex_weights`). ``criterion_``, the mean square
of y - P u, has seen y through u.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from problems.estimators.chosen import families
from problems.estimators.chosen.over_gamma import RECOMMENDED
from problems.estimators.chosen.selection import LSSVMClassifierCV, LSSVMRegressorCV
from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.full.nested import NestedIntervals
from problems.estimators.full.saddle_machine import ridges_of
from problems.estimators.shared.checked_again import Added, Facts, GivenFit, StoredFit, StoredSaddle, recall_saddle
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import Numbers
from problems.estimators.shared.guarantees import UNEQUAL, has_unequal_rows
from problems.estimators.shared.model import Model
from problems.estimators.shared.probabilities import Calibration
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array
from substrate.certificates import NO_BOUND, Certificate, Row, warn_unless_holds
from substrate.certificates.rounding import relative_rounding
from substrate.certificates.rows import Accuracy, accuracy_of_outputs, root_mean_square
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError, DeclarationError
from substrate.least_squares.simplex_weights import bound_stack, weigh_machines
from substrate.namespaces import blocks_beside, room_on_device
from substrate.uncertainty.influence import ShiftBlock
from substrate.uncertainty.intervals import plus_ends

if TYPE_CHECKING:
    from substrate.kernels.nodes import Node
    from substrate.proof import Proof

__all__ = [
    "MOST_LEFT_OUT",
    "StackChoice",
    "StackIntervals",
    "StackedLSSVMClassifier",
    "StackedLSSVMRegressor",
    "StackedModel",
]

#: Most rows that are left out of a stack one by one, for intervals.
MOST_LEFT_OUT = 2000


class StackedModel(Model):
    """Several LS-SVMs on the same rows, and one weight of each."""

    def members(self) -> list[LSSVMRegressor]:
        """Return the machines as estimators of their own, which share the rows."""
        return [self._member(number) for number in range(len(self.estimator.kernels_))]

    def _member(self, number: int) -> LSSVMRegressor:
        model = self.estimator
        kernel = model.kernel_ if number == self.largest() else model.kernels_[number]
        gammas = np.atleast_1d(model.gammas_[number])
        member = LSSVMRegressor(kernel, gamma=[float(gamma) for gamma in gammas], tol=model.tol)
        if gammas.size == 1:
            member.gamma = float(gammas[0])
        member.n_features_in_, member.kernel_ = model.n_features_in_, kernel
        member.support_, member.support_vectors_ = model.support_, model.support_vectors_
        member.ridge_ = ridges_of(tuple(float(gamma) for gamma in gammas), model.row_weights_)
        member.unit_ridge_ = 1.0 / (member.gamma if gammas.size == 1 else gammas)
        member.solver_, member.n_iter_ = "cholesky", 1
        member.bias_ = model.biases_[number] if self.outputs() else float(model.biases_[number])
        alpha = np.ascontiguousarray(model.support_values_[..., number])
        member.support_values_ = alpha if self.outputs() else alpha[:, 0]
        return member

    def outputs(self) -> tuple[int, ...]:
        """Return the shape of one row's prediction."""
        shape: tuple[int, ...] = self.estimator.stack_weights_.shape[1:]
        return shape

    def weights(self) -> Array:
        """Return the weights of the members, one column per output."""
        u = self.estimator.stack_weights_
        return np.asarray(u[:, None] if u.ndim == 1 else u)

    def largest(self) -> int:
        """Return the number of the member with the largest weight in the first output, whose kernel is ``kernel_``."""
        return int(np.argmax(self.weights()[:, 0]))

    def evaluate(self, X: Any) -> Array:
        """Return the weighted mean of what the members predict, at rows that were checked."""
        u = self.weights()
        (used,) = np.nonzero((u > 0.0).any(axis=1))
        outputs = average(self.member_values(X, used.tolist()), u[used])
        return outputs if self.outputs() else outputs[:, 0]

    def member_values(self, X: Any, which: Sequence[int]) -> Array:
        """Return what some members predict at rows that were checked: outputs, then members in the last axis."""
        values = [np.reshape(self._member(m)._model.evaluate(X), (X.shape[0], -1)) for m in which]
        return np.stack(values, axis=-1)

    def targets(self) -> Array:
        """Return the targets or codes of the rows, one column per output, which the system of a member gives back."""
        member = self._member(self.largest())
        alpha, ridge, _ = member._model.to_columns()
        return np.asarray(np.reshape(member._evaluate(self.estimator.support_vectors_), alpha.shape) + ridge * alpha)

    def leave_rows_out(self) -> Array:
        """Return the outputs at every row of the machines without it, one column per output."""
        errors = np.einsum("ikm,mk->ik", left_out_errors(self.members()), self.weights())
        return np.asarray(self.targets() - errors)

    def refuse_many_rows(self) -> None:
        """Refuse to leave each of very many rows out of all members, before any work."""
        model, n = self.estimator, int(self.estimator.support_.size)
        advice = "keep rows for calibrate(X, y), and use method='split', or method='nested'."
        if n > MOST_LEFT_OUT:
            raise DataError(
                f"to leave every row out of a stack takes a matrix of rows by rows for each machine, which is done up "
                f"to {MOST_LEFT_OUT} rows, and this one has {n}; {advice[:-1]}"
            )
        count = len(model.kernels_) * (2.0 + self.weights().shape[1])
        room_on_device(model.support_values_, 8.0 * count * n * n, f"{n} x {n} matrices of every machine", advice)

    def express(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the weighted mean of the members, as :func:`average` forms it."""
        u = self.weights()
        members = {int(m): self._member(int(m))._model.express(x) for m in np.flatnonzero((u > 0.0).any(axis=1))}
        outputs = []
        for k, base in enumerate(np.argmax(u, axis=0).tolist()):
            first = members[base][k]
            further = (float(u[m, k]) * (outputs_of[k] - first) for m, outputs_of in members.items() if m != base)
            outputs.append(sum(further, start=first))
        return outputs

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Return the stack of every output on the data of the fit; the gap of its weights is computed anew."""
        members, u, model = self.members(), self.weights(), self.estimator
        labels = bool(model._labels)
        checked = model._check_again(X, y, sample_weight, numeric=not labels, **model._rules_of_data)
        if checked[0].shape[1] != model.n_features_in_:
            raise DataError(f"X has {checked[0].shape[1]} features, this model was fitted to {model.n_features_in_}")
        points, y, weights, _ = model._weighted(*checked)
        targets = model._codes_again(y) if labels else Numbers().codes(y)
        if targets.shape[1] != u.shape[1]:
            raise DataError(f"the model has {u.shape[1]} outputs, these data have {targets.shape[1]}")
        machines, tolerance = [], model._tolerance()
        for member in members:
            given = GivenFit(
                X=points, Y=targets, weights=weights, gammas=member._gammas(u.shape[1]), tolerance=tolerance
            )
            with recall_saddle(member, given) as stored:
                machines.append(list(stored.machines))
        fitted = np.reshape(self.evaluate(points), targets.shape)
        stacks = [
            StoredStack(
                members=tuple(cast(StoredSaddle, outputs[k]) for outputs in machines),
                u=u[:, k],
                y=targets[:, k],
                weights=weights,
                fitted=fitted[:, k],
                tolerance=tolerance,
            )
            for k in range(u.shape[1])
        ]

        def add() -> Added:
            errors = left_out_errors(members)
            return (weights_row(errors, weights, u, targets, labels),), ()

        return nullcontext(StoredFit(stacks, add))

    def check_loaded(self) -> None:
        """Refuse parts of a stack that do not belong together."""
        model = self.estimator
        M, shape = len(model.kernels_), self.outputs()
        shapes = {
            "stack_weights_": (M, *shape),
            "gammas_": (M, *shape),
            "biases_": (M, *shape),
            "support_values_": (model.support_.size, *(shape or (1,)), M),
            "row_weights_": (model.support_.size,),
        }
        for name, expected in shapes.items():
            values = getattr(model, name)
            if values.shape != expected:
                raise DataError(f"{name} of a stack of {M} machines has the shape {values.shape}, expected {expected}")
        u = self.weights()
        if (u < 0.0).any() or not np.allclose(u.sum(axis=0), 1.0, rtol=0.0, atol=1e-9):
            raise DataError("the weights of a stack must not be negative, and sum to one")
        if not ((model.gammas_ > 0.0).all() and (model.row_weights_ > 0.0).all()):
            raise DataError("a stack needs positive gammas and weights of rows")
        if model.kernels_[self.largest()] != model.kernel_:
            raise DataError("the kernel of a stack must be that of its machine with the largest weight")
        super().check_loaded()
        for member in self.members():
            member._model.check_loaded()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStack:
    """One output of a stack: its machines, their weights, and what ``predict`` returns."""

    members: tuple[StoredSaddle, ...]
    u: Array
    y: Array
    weights: Array
    fitted: Array
    tolerance: float

    def certify(self) -> Added:
        """Bound the distance of the answer from that of exact machines with the same weights."""
        (used,) = np.nonzero(self.u > 0.0)
        parts = [self.members[int(m)].certify() for m in used]
        facts = dict.fromkeys(fact for _, more in parts for fact in more)
        rows = [rows for rows, _ in parts]
        answer = stack_accuracy(rows, self.u[used], self._tolerance(), self._missing())
        return (*answer, *worst_of_members(rows)), tuple(facts)

    def prove(self) -> "Proof":
        """Bound it in ball arithmetic."""
        (used,) = np.nonzero(self.u > 0.0)
        proofs = [self.members[int(m)].prove() for m in used]
        accuracy = _weighted_sum([proof.accuracy for proof in proofs], self.u[used], self._missing())
        reason = next((proof.reason for proof in proofs if proof.reason), "")
        return replace(proofs[0], accuracy=accuracy, reason=reason)

    def _tolerance(self) -> Tolerance:
        return Tolerance.of(self.y, self.weights, self.tolerance)

    def _missing(self) -> float:
        """Bound how far the prediction is from the weighted mean of the members' predictions."""
        (used,) = np.nonzero(self.u > 0.0)
        values = np.stack([self.members[int(m)].fitted for m in used], axis=-1)
        return missing_of(self.fitted, values, self.u[used], self.weights)


def average(values: Array, u: Array) -> Array:
    """Return the weighted mean over the last axis: one column of u per output, that of the values before it.

    It is the member of the largest weight plus weighted differences from it: equal members have exactly their mean, an
    offset costs no digits, and the weight of that member is what the others leave of one.
    """
    base = np.argmax(u, axis=0)
    first = np.take_along_axis(values, base[None, :, None], axis=2)
    return np.asarray(first[:, :, 0] + np.einsum("ikm,mk->ik", values - first, u))


def missing_of(fitted: Array, values: Array, u: Array, weights: Array) -> float:
    """Bound the root mean square distance of ``fitted`` from the exact weighted mean of members' values."""
    again = average(values[:, None, :], u[:, None])[:, 0]
    base = values[:, [int(np.argmax(u))]]
    spreads = np.abs(values - base) @ u
    # equal members have no rounding; otherwise that of differences, products and sums, and of the last addition
    rounding = relative_rounding(u.size + 4.0) * spreads + relative_rounding(1.0) * np.where(
        spreads > 0.0, np.abs(again), 0.0
    )
    return float(root_mean_square(np.abs(fitted - again) + rounding, weights)) * (1.0 + relative_rounding(fitted.size))


def _weighted_sum(radii: Sequence[float], u: Array, missing: float) -> float:
    total = math.fsum(float(weight) * radius for weight, radius in zip(u, radii, strict=True)) + missing
    if not total > 0.0:
        return total
    # the largest weight is what the others leave of one, up to the rounding of as many numbers
    return math.nextafter(total * (1.0 + relative_rounding(len(radii) ** 2 + 4)), math.inf)


def stack_accuracy(
    rows: Sequence[tuple[Row, ...]], u: Array, tolerance: Tolerance, missing: float
) -> tuple[Accuracy, ...]:
    """Return the bound of a stack from those of its members, one output; none where a member has none."""
    answers = [row for member in rows for row in member if isinstance(row, Accuracy)]
    if len(answers) < len(rows):
        return ()
    radius = _weighted_sum([answer.value for answer in answers], u, missing)
    return (tolerance.row(radius, "sum_m u_m ||y - f_m - alpha_m/(gamma_m v)||_v + rounding"),)


def worst_of_members(rows: Sequence[tuple[Row, ...]]) -> Iterator[Row]:
    """Yield, of the members' rows of one name beside the accuracy, the one that comes closest to failing."""
    named: dict[str, list[Row]] = {}
    for member in rows:
        for row in member:
            if not isinstance(row, Accuracy):
                named.setdefault(row.name, []).append(row)
    for same in named.values():
        worst = max(same, key=lambda row: row.relative / row.tolerance)
        yield replace(worst, formula=f"{worst.formula}, worst of {len(same)} members")


def left_out_errors(members: Sequence[LSSVMRegressor]) -> Array:
    """Return the left-out errors of every row, by output and member."""
    return np.stack(
        [
            np.stack([np.asarray(machines.residuals) for machines in member._intervals.machines(None)], axis=1)
            for member in members
        ],
        axis=2,
    )


def weigh_members(errors: Array, weights: Array, pooled: bool) -> Array:
    """Return the weights of the members, one column per output, all the same where outputs are ``pooled``."""
    n, n_outputs, M = errors.shape
    if not pooled:
        return np.column_stack([weigh_machines(errors[:, k], weights) for k in range(n_outputs)])
    u = weigh_machines(np.reshape(errors, (n * n_outputs, M)), np.repeat(weights, n_outputs))
    return np.repeat(u[:, None], n_outputs, axis=1)


def weights_row(errors: Array, weights: Array, u: Array, targets: Array, pooled: bool) -> Row:
    """Return the gap of the weights, of the output that comes closest to failing, or of all outputs together."""
    if pooled:
        n, n_outputs, M = errors.shape
        if (u != u[:, :1]).any():
            raise DataError("the weights of a stack of classes must be the same in all columns")
        joined = np.reshape(errors, (n * n_outputs, M))
        return bound_stack(joined, np.repeat(weights, n_outputs), u[:, 0], float(np.abs(targets).max())).row
    rows = [
        bound_stack(errors[:, k], weights, u[:, k], float(np.abs(targets[:, k]).max(initial=0.0))).row
        for k in range(u.shape[1])
    ]
    return max(rows, key=lambda row: row.relative / row.tolerance)


class StackIntervals(NestedIntervals):
    """Intervals of a stack: by leaving every row out of machines and weights, by calibration rows, or by folds."""

    methods: ClassVar[tuple[str, ...]] = ("auto", "jackknife+", "nested", "adaptive", "split")

    def is_searched(self) -> bool:
        """Return that the gammas of the machines were chosen by a search."""
        return True

    def has_unequal_weights(self) -> bool:
        """Return whether the rows of the fit differ in their weights."""
        return has_unequal_rows(self.estimator.row_weights_)

    def left_out_method(self) -> str:
        """Return jackknife+."""
        return "jackknife+"

    def targets_and_weights(self) -> tuple[Array, Array]:
        """Return the targets of the rows of the fit, one column per output, and the weights of the rows."""
        return self.estimator._model.targets(), self.estimator.row_weights_

    def ends(self, X: Any, coverage: float, method: str) -> Array:
        """Return the ends of intervals; machines without folds are made at the first call."""
        method = self.check(coverage, method)
        if method == "nested":
            return self.nested_ends(X, coverage)
        if method == "adaptive":
            return self.adaptive_ends(X, coverage)
        if method == "split":
            return self.split_ends(X, coverage)
        return self.left_out_ends(self.estimator._new_points(X), (coverage,))[0]

    def left_out_ends(self, points: Any, coverages: Sequence[float]) -> list[Array]:
        r"""Return the ends of jackknife+ by the stacks without each row, at new rows that were checked, for every
        coverage: by studentised errors where rows have one weight.

        For kernels, gammas and weights that are held, :math:`f^{(-i)} = \sum_m u_m f_m^{(-i)}` ([Barber2021]_), and the
        deviation of an error is :math:`s_i(x) = \sum_m u_m s_{mi}(x)`, :math:`s_{mi}^2` the variance of that of a
        machine in units of that of the noise, :math:`\gamma_m / B_{m,ii}` at the row itself.
        """
        machines, u = self.estimator._model, self.estimator._model.weights()
        n_points = int(points.shape[0])
        machines.refuse_many_rows()
        values = machines.member_values(points, range(u.shape[0]))
        fitted, ends = average(values, u), np.empty((len(coverages), n_points, u.shape[1], 2))
        diagonals = [np.asarray(kernel.diag(points)) for kernel in self.estimator.kernels_]
        is_studentised = not self.has_unequal_weights()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit has given those about its kernels
            without = [member._intervals.machines(None) for member in machines.members()]
        for k in range(u.shape[1]):
            members = [(float(u[m, k]), without[m][k], diagonals[m], values[:, k, m]) for m in np.flatnonzero(u[:, k])]
            residuals = np.asarray(sum(weight * member.residuals for weight, member, _, _ in members))
            # s_i(x) / s_i(x_i) of the stack is a mean of those of its machines, by their share in s_i(x_i)
            sizes = [weight * np.sqrt(member.gamma / member.diagonal) for weight, member, _, _ in members]
            for block in blocks_beside(residuals, n_points, residuals.size):
                count = fitted[block].shape[0]
                shifts = np.zeros((count, residuals.size))
                stretches = np.zeros_like(shifts) if is_studentised else None
                for (weight, member, diagonal, of_member), size in zip(members, sizes, strict=True):
                    for part in member.shifts(points[block], diagonal[block], of_member[block], is_studentised):
                        shifts[part.block] += weight * part.shifts
                        if stretches is not None and part.stretches is not None:
                            stretches[part.block] += size / sum(sizes) * part.stretches
                here = ShiftBlock(slice(0, count), fitted[block, k], shifts, stretches)
                for place, coverage in enumerate(coverages):
                    ends[place, block, k] = plus_ends((here,), residuals, count, coverage)
        return [of_coverage if machines.outputs() else of_coverage[:, 0] for of_coverage in ends]

    def left_out_rows(self) -> tuple[Array, Array]:
        """Return errors and predictions of the rows, left out of the machines and not of their weights."""
        predictions = self.estimator._model.leave_rows_out()
        return self.estimator._model.targets() - predictions, predictions

    def chosen_on_rows(self) -> tuple[str, ...]:
        """Return what was chosen or computed from the rows."""
        reasons: tuple[str, ...] = ("the gammas and the weights of the machines were chosen on these rows",)
        if families.is_families(self.estimator.kernels):
            reasons += ("their kernels were chosen on these rows",)
        return (*reasons, UNEQUAL) if self.has_unequal_weights() else reasons


@dataclass(eq=False, repr=False)
class StackChoice:
    """The choice of machines and of their weights, of numbers or of classes: its parameters, and the fit.

    It comes before the task; :class:`StackedLSSVMRegressor` documents the parameters.
    """

    _model_type: ClassVar[Any] = StackedModel
    #: The estimator that searches, and what else its rows are told.
    _search_type: ClassVar[Any]
    _rules_of_data: ClassVar[dict[str, Any]] = {}
    _takes_matrix: ClassVar[bool] = False
    _: KW_ONLY
    kernels: Any = None
    cv: Any = "loo"

    recommended = RECOMMENDED

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose every gamma, fit every machine, and weigh them; ``sample_weight`` weighs errors everywhere."""
        model: Any = self
        pooled = bool(model._labels)
        model._begin_fit()
        families.check_kernels(self.kernels, False)
        if self.kernels is None and model._own_kernel().pairwise:
            raise DeclarationError("a stack computes kernels of the inputs; kernel='precomputed' has one matrix only")
        model._check_coding()
        X, y, weights = model._check_data(X, y, sample_weight, numeric=not pooled, **self._rules_of_data)
        X, y, weights, rows = model._weighted(X, y, weights)
        coded = model._encode(y)
        Y = coded.codes(y)
        one_output = Y.shape[1] == 1
        members, dropped = self._fit_members(X, y, Y[:, 0] if one_output else Y, weights)
        errors = left_out_errors(members)
        u = weigh_members(errors, weights, pooled)
        criterion = _mean_squares(np.einsum("ikm,mk->ik", errors, u), weights)
        model._keep_classes(coded, Y)
        self._keep_stack(members, u, rows, X, weights, one_output)
        self.criterion_ = float(criterion.mean()) if pooled or one_output else criterion
        self.certificate_ = self._report(members, errors, Y, (*dropped, *self._facts(u)))
        warn_unless_holds(self.certificate_)
        self.support_values_ = np.stack([np.reshape(member.support_values_, Y.shape) for member in members], axis=-1)
        return self

    def _fit_members(self, X: Any, y: Any, targets: Array, weights: Array) -> tuple[list[LSSVMRegressor], Facts]:
        """Return a machine of every kernel, or of every family, at its gamma; those not determined are named."""
        model: Any = self
        given = {"coding": model.coding, "calibration": None} if model._labels else {}
        search = self._search_type(model.kernel, kernels=self.kernels, cv=self.cv, tol=model.tol, **given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what does not hold is a row of this certificate
            search.fit(X, y, sample_weight=weights)
            members = [
                LSSVMRegressor(kernel, gamma=gamma if isinstance(gamma, float) else list(gamma), tol=model.tol).fit(
                    X, targets, sample_weight=weights
                )
                for kernel, gamma in best_of_families(search.cv_results_, families.is_families(self.kernels))
            ]
        known = [member for member in members if member.certificate_.holds] or members
        lost = [repr(member.kernel) for member in members if all(member is not other for other in known)]
        return known, (("not determined", f"{', '.join(lost)}: not in the stack"),) if lost else ()

    def _keep_stack(
        self, members: list[LSSVMRegressor], u: Array, rows: Any, X: Any, weights: Array, one_output: bool
    ) -> None:
        """Set all attributes of the stack but the support values, which mark it as fitted."""
        best = members[int(np.argmax(u[:, 0]))]
        self.kernels_ = [member.kernel_ for member in members]
        gammas = np.array([np.broadcast_to(np.asarray(member.gamma, dtype=float), u.shape[1]) for member in members])
        biases = np.array([np.atleast_1d(member.bias_) for member in members])
        self.gammas_, self.stack_weights_, self.biases_ = (
            (np.ascontiguousarray(values[:, 0]) if one_output else values) for values in (gammas, u, biases)
        )
        self.row_weights_ = weights
        self.kernel_, self.support_ = best.kernel_, rows
        self.support_vectors_ = X.copy()
        bias = average(biases.T[None], u)[0]
        self.bias_ = float(bias[0]) if one_output else bias

    def _report(self, members: list[LSSVMRegressor], errors: Array, Y: Array, facts: Facts) -> Certificate:
        """Return the certificate: the accuracy of every output, the worst rows of members, the gap of the weights."""
        model: Any = self
        u, rows = np.reshape(self.stack_weights_, (len(members), -1)), list[Accuracy]()
        used = [int(m) for m in np.flatnonzero((u > 0.0).any(axis=1))]
        fitted = np.stack([np.reshape(members[m].predict(self.support_vectors_), Y.shape) for m in used], axis=2)
        outputs = average(fitted, u[used])
        reports = [members[m].certificate_ for m in used]
        for k in range(Y.shape[1]):
            answers = [tuple(row.each[k] for row in report.rows if isinstance(row, Accuracy)) for report in reports]
            missing = missing_of(outputs[:, k], fitted[:, k], u[used, k], self.row_weights_)
            tolerance = Tolerance.of(np.ascontiguousarray(Y[:, k]), self.row_weights_, model._tolerance())
            rows += stack_accuracy(answers, u[used, k], tolerance, missing)
        accuracy = (accuracy_of_outputs(rows),) if len(rows) == Y.shape[1] else ()
        unbounded = [fact for report in reports for fact in report.record if fact[0] == NO_BOUND]
        return Certificate(
            model._title,
            (
                *accuracy,
                *worst_of_members([report.rows for report in reports]),
                weights_row(errors, self.row_weights_, u, Y, bool(model._labels)),
            ),
            (*dict.fromkeys(unbounded), *facts),
        )

    def _facts(self, u: Array) -> Facts:
        """Return what the stack is made of."""
        parts = [
            f"{' '.join(f'{weight:.3g}' for weight in line)} {kernel!r}"
            for line, kernel in zip(u, self.kernels_, strict=True)
            if (line > 0.0).any()
        ]
        error = " ".join(f"{value:.4g}" for value in np.sqrt(np.atleast_1d(self.criterion_)))
        return (
            ("stack", f"of {u.shape[0]} machines: {'; '.join(parts)}"),
            ("left-out error", f"{error}, root mean square, of rows that the weights have seen"),
            ("conditional on", "preparation of the columns, kernels, gammas and weights, chosen with all rows"),
        )


@dataclass(eq=False, repr=False)
class StackedLSSVMRegressor(StackChoice, MultiOutputMixin, Regressor):
    """A weighted mean of LS-SVMs of several kernels, by exact leave-one-out ([Wolpert1992]_, [Breiman1996]_).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel, as for :class:`LSSVMRegressor`; where ``kernels`` are given, those are used.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    kernels : list of kernels or "families", default=None
        The machines, each at its own best gamma: all of a list; of ``"families"``, see :class:`LSSVMRegressorCV`, the
        best of each. ``StackedLSSVMRegressor.recommended()`` has ``kernels="families"``.
    cv : str, int or splitter, default="loo"
        What chooses the gammas, as for :class:`LSSVMRegressorCV`. Weights are always by leave-one-out.

    Attributes
    ----------
    kernels_ : list of Kernel
        The kernels of the machines.
    gammas_, stack_weights_, biases_ : array of shape (n_machines,) or (n_machines, n_outputs)
        Their gammas, their weights u in the stack, and their biases.
    support_values_ : array of shape (n_support, n_outputs, n_machines)
        Their support values, with one output too.
    row_weights_ : array of shape (n_support,)
        The weights of the rows.
    criterion_ : float or array of shape (n_outputs,)
        Mean square of y - P u, the left-out errors that the weights minimise: a little too small, since they have seen
        the rows.
    kernel_ : Kernel
        The kernel of the machine with the largest weight (in the first output).
    bias_ : float or array of shape (n_outputs,)
        The weighted mean of the biases.
    support_, support_vectors_, certificate_
        As for :class:`LSSVMRegressor`. The certificate bounds the distance from exact machines with these weights, and
        the gap of the weights.

    Examples
    --------
    >>> from problems import StackedLSSVMRegressor
    >>> from substrate.datasets import motorcycle
    >>> X, y = motorcycle()
    >>> model = StackedLSSVMRegressor(kernels="families").fit(X, y)
    >>> bool(model.certificate_.holds), bool(abs(model.stack_weights_.sum() - 1.0) < 1e-12)
    (True, True)
    """

    _search_type = LSSVMRegressorCV
    _intervals_type = StackIntervals
    _rules_of_data: ClassVar[dict[str, Any]] = {"multi_output": True}
    _page, _title = "ls_svm_regression", "Stack of LS-SVM regressions"

    def predict_interval(self, X: Any, coverage: float = 0.9, method: str = "auto") -> Array:
        """Return lower and upper ends that are to hold a new target with probability ``coverage``.

        :meth:`interval_guarantee` states what is guaranteed for this model, and what breaks it.

        Parameters
        ----------
        X, coverage
            As for :meth:`LSSVMRegressor.predict_interval`.
        method : {"auto", "jackknife+", "nested", "adaptive", "split"}, default="auto"
            ``"auto"``: on fewer than 1000 rows ``"nested"``, as where its machines have been made; otherwise
            ``"jackknife+"``, that of [Barber2021]_ with machines that have not seen a row, their weights held, by
            closed forms, up to 2000 rows; errors are studentised where rows have one weight, wider where rows are
            sparse. ``"nested"``, ``"adaptive"`` and ``"split"``: as for :meth:`LSSVMRegressor.predict_interval`.

        Returns
        -------
        array of shape (n, 2) or (n, n_outputs, 2)
            Infinite where there are too few rows for the coverage.
        """
        ends: Array = self._intervals.ends(X, coverage, method)
        return ends

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class StackCalibration(Calibration):
    """Rows left out in folds, in which kernels are held, and weights and gammas are chosen anew."""

    def fold_machine(self, X: Any) -> Any:
        """Return the stack of the same kernels, those of positive weight."""
        model = self.estimator
        used = np.flatnonzero((model._model.weights() > 0.0).any(axis=1)).tolist()
        return super().fold_machine(X).set_params(kernels=list(dict.fromkeys(model.kernels_[m] for m in used)))


@dataclass(eq=False, repr=False)
class StackedLSSVMClassifier(StackChoice, Classifier):
    """A weighted mean of LS-SVM classifiers of several kernels, by exact leave-one-out, two classes or more.

    The weights minimise the squares of what left-out decision values miss of the codes -1 and 1, over all machines of
    the coding together: of probabilities :math:`(1 + f)/2`, times four.

    Parameters
    ----------
    kernel, tol, kernels, cv
        As for :class:`StackedLSSVMRegressor`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, all on the same rows.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`LSSVMClassifier`, by five folds in which the kernels of the stack are held; weights and gammas
        are chosen anew.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into the weights of the rows.

    Attributes
    ----------
    classes_, code_book_
        As for :class:`LSSVMClassifier`.
    kernels_, gammas_, stack_weights_, biases_, support_values_, row_weights_
        As for :class:`StackedLSSVMRegressor`, in the sign of regression on the codes; the weights of all columns of
        the code book are the same.
    criterion_ : float
        As for :class:`StackedLSSVMRegressor`, the mean over the columns of the code book.
    kernel_, bias_, support_, support_vectors_, certificate_, calibration_scores_
        As for :class:`StackedLSSVMRegressor` and :class:`LSSVMClassifier`.
    """

    _search_type = LSSVMClassifierCV
    _calibration_type = StackCalibration
    _page, _title = "ls_svm_classification", "Stack of LS-SVM classifications (as regressions on the labels)"
    _regressed = True
    _: KW_ONLY
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
    class_weight: Any = None


def best_of_families(results: dict[str, Any], by_family: bool) -> list[tuple[Any, Any]]:
    """Return kernel and gamma of the judged machines: of every family, with one width and with several, the best."""
    best: dict[Any, tuple[Any, Any]] = {}
    for number in np.argsort(results["rank_test_score"], kind="stable"):
        kernel, gamma = results["param_kernel"][int(number)], results["param_gamma"][int(number)]
        is_each = isinstance(getattr(kernel, "sigma", None), tuple)
        key = (families.family_name(kernel), is_each) if by_family else kernel
        best.setdefault(key, (kernel, gamma if isinstance(gamma, float) else tuple(gamma)))
    return list(best.values())


def _mean_squares(errors: Array, weights: Array) -> Array:
    """Return the weighted mean square of every column; infinite where squares overflow."""
    with np.errstate(over="ignore"):
        return np.asarray((weights / weights.sum()) @ np.square(errors))
