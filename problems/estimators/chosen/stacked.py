r"""A stack of LS-SVMs: the machines that a search fits, weighted by exact leave-one-out.

A search judges machines of several families, with one width for all inputs and one for each, at the ends that
leave-one-out and the evidence prefer, and keeps one of them. Their left-out predictions P are known without a refit, so
that the best average of them is one small convex problem more,

.. math:: \min_u \| y - P u \|_v^2 \quad \text{subject to} \quad u \ge 0, \; 1^T u = 1, \qquad
          f(x) = \sum_m u_m f_m(x) ,

with a lower bound on the certificate (:mod:`substrate.least_squares.simplex_weights`). The mean square of y - P u has
seen y through u: ``criterion_`` is that of the stack whose machines and weights are both without the row
(:mod:`substrate.uncertainty.left_out_pairs`).
"""

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from problems.estimators.chosen import families
from problems.estimators.chosen.joint_criterion import JointCriterion
from problems.estimators.chosen.kernel_search import check_slopes, most_evaluations
from problems.estimators.chosen.over_gamma import RECOMMENDED
from problems.estimators.chosen.selection import LSSVMClassifierCV, LSSVMRegressorCV
from problems.estimators.chosen.stack_members import StackSearch, search_machines
from problems.estimators.chosen.tasks import Task
from problems.estimators.full.ls_svm import LSSVMClassifier, LSSVMRegressor, matrix_at_hand
from problems.estimators.full.nested import NestedIntervals
from problems.estimators.full.saddle_machine import has_same_rows, left_out_importance, ridges_of
from problems.estimators.shared.base import Uses
from problems.estimators.shared.checked_again import Added, Facts, GivenFit, StoredFit, StoredSaddle, recall_saddle
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import Numbers
from problems.estimators.shared.guarantees import UNEQUAL, has_unequal_rows
from problems.estimators.shared.model import Model
from problems.estimators.shared.probabilities import Calibration
from problems.estimators.shared.regressor import Regressor
from problems.estimators.shared.relevance import input_relevance
from substrate import uncertainty
from substrate.arrays import Array, positive, whole_number
from substrate.certificates import NO_BOUND, Certificate, Row, warn_unless_holds
from substrate.certificates.rounding import relative_rounding
from substrate.certificates.rows import Accuracy, accuracy_of_outputs, root_mean_square
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.log_loss_weights import bound_log_loss, left_out_probabilities, weigh_by_log_loss
from substrate.least_squares.saddle_system import FACTORED_ROWS
from substrate.least_squares.simplex_weights import bound_stack, weigh_machines
from substrate.namespaces import is_device_array, room_on_device
from substrate.progress import Progress
from substrate.search.gamma_search import GAP, gamma_ends
from substrate.uncertainty.left_out_pairs import nested_log_loss_weights, nested_stack_weights, pair_residuals
from substrate.uncertainty.left_out_stack import LeftOutStack

if TYPE_CHECKING:
    from problems.estimators.shared.importance import LeftOutImportance
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

#: Most rows whose error without the row is computed, weights of the stack included; of more, evenly spaced ones.
_MOST_ROWS = 1000
#: Rows below which the search itself decides what can be fitted.
_FEWEST_ROWS = 4
#: Most rows that are left out of a stack one by one, for intervals.
MOST_LEFT_OUT = 2000
#: Most numbers that are held of residuals without two rows, and as many machines as there may be in a stack.
_MOST_PAIRS, _MACHINES = 2**27, 24


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

    def left_out_stacks(self) -> tuple[LeftOutStack, ...]:
        """Return, for every output, the stacks that are made without each row, their kernels and gammas held."""
        model, n = self.estimator, int(self.estimator.support_.size)
        members, X, rows = self.members(), model.support_vectors_, np.arange(n)
        self.refuse_many_rows()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit has given those about its kernels
            machines = [member._intervals.machines(None) for member in members]
        errors = np.stack([np.stack([output.residuals for output in outputs], axis=1) for outputs in machines], axis=2)
        pairs = np.empty((n, n, errors.shape[1], len(members)))
        for m, (member, outputs) in enumerate(zip(members, machines, strict=True)):
            pairs[..., m] = pair_residuals(outputs, X, np.asarray(member.kernel_.diag(X)), rows)
        targets = np.sign(self.targets()) if model._labels else self.targets()
        u = model._weights_without(errors, pairs, targets, model.row_weights_, self.weights())
        return tuple(LeftOutStack([outputs[k] for outputs in machines], u[:, k]) for k in range(errors.shape[1]))

    def leave_rows_out(self) -> Array:
        """Return the outputs at every row of the stack that was made without it, one column per output."""
        residuals = np.column_stack([stack.residuals for stack in self.left_out_stacks()])
        return self.targets() - residuals

    def left_out_importance(
        self, X: Any, n_repeats: int, random_state: Any, groups: Any, sample_weight: Any
    ) -> "LeftOutImportance":
        """Permute every input of rows that are left out of machines and weights."""
        from problems.estimators.shared.importance import Losses, importance_of, weights_of  # for few

        model = self.estimator
        check_is_fitted(model)
        if X is not None and not has_same_rows(model, X):
            name = type(model).__name__
            raise DataError(f"X does not hold the rows that this {name} was fitted to; leave it out, or give those")
        weights = weights_of(sample_weight, model.support_)
        members, stacks = self.members(), self.left_out_stacks()
        u = np.stack([stack.weights for stack in stacks], axis=1)
        used = np.flatnonzero((u > 0.0).any(axis=(0, 1))).tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit has given those about its kernels
            without = [members[m]._model.own_rows(members[m]._model.training_gram(None))[0] for m in used]
        targets = np.sign(self.targets()) if model._labels else self.targets()
        outputs = self.targets() - np.column_stack([stack.residuals for stack in stacks])
        answer = model.certificate_.answer
        return importance_of(
            uncertainty.StackedOwnRows(without, u[:, :, used]),
            model.support_vectors_,
            outputs,
            Losses.of_model(model, targets, weights),
            n_repeats,
            random_state,
            groups,
            () if answer is None else (answer.plain("accuracy of the fit"),),
        )

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
            return (model._weights_row(errors, weights, u, targets),), ()

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
        """Return whether kernels or gammas of the machines were chosen by a search."""
        model = self.repeated()
        return model.gammas is None or families.is_families(model.kernels) or model.search is not None

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
        if method in ("nested", "adaptive"):
            return self.nested_ends(X, coverage, method)
        if method == "split":
            return self.split_ends(X, coverage)
        return self.left_out_ends(self.estimator._new_points(X), (coverage,))[0]

    def left_out_ends(self, points: Any, coverages: Sequence[float]) -> list[Array]:
        """Return the ends of jackknife+ by the stacks without each row, at new rows that were checked, for every
        coverage: by studentised errors where rows have one weight.
        """
        machines, u = self.estimator._model, self.estimator._model.weights()
        n_points = int(points.shape[0])
        machines.refuse_many_rows()
        if self.estimator.support_.size < 3:  # of two rows none is left to weigh machines by: every target is allowed
            every = np.broadcast_to([-np.inf, np.inf], (n_points, *machines.outputs(), 2))
            return [every.copy() for _ in coverages]
        values = machines.member_values(points, range(u.shape[0]))
        fitted, ends = average(values, u), np.empty((len(coverages), n_points, u.shape[1], 2))
        diagonals = np.column_stack([np.asarray(kernel.diag(points)) for kernel in self.estimator.kernels_])
        is_studentised = not self.has_unequal_weights()
        for k, stack in enumerate(machines.left_out_stacks()):
            residuals = stack.residuals
            for shifts in stack.shifts(points, diagonals, values[:, k], fitted[:, k], studentised=is_studentised):
                count = shifts.fitted.shape[0]
                here = shifts._replace(block=slice(0, count))
                for place, coverage in enumerate(coverages):
                    ends[place, shifts.block, k] = uncertainty.plus_ends((here,), residuals, count, coverage)
        return [of_coverage if machines.outputs() else of_coverage[:, 0] for of_coverage in ends]

    def left_out_rows(self) -> tuple[Array, Array]:
        """Return errors and predictions of the rows, left out of the machines and not of their weights."""
        model = self.estimator
        errors = np.einsum("ikm,mk->ik", left_out_errors(model._model.members()), model._model.weights())
        return errors, model._model.targets() - errors

    def chosen_on_rows(self) -> tuple[str, ...]:
        """Return what was chosen or computed from the rows; weights of machines, which each row is left out of, are no
        part of it.
        """
        model = self.estimator
        reasons = [] if model.gammas is not None else ["the gammas of the machines were chosen on these rows"]
        is_searched = families.is_families(model.kernels) or model.search is not None
        if is_searched:
            reasons.append("their kernels were chosen on these rows")
        elif not set(model.kernels_) <= set(model._stated_kernels()):
            reasons.append("the widths of their kernels are computed from these rows")
        if not is_searched and model.gammas is not None and len(model.kernels_) < len(model._stated_machines()):
            reasons.append("machines that rounding hides on these rows are not in the stack")
        if self.has_unequal_weights():
            reasons.append(UNEQUAL)
        return tuple(reasons)


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """Left-out ``errors`` by row, output and machine, those without one of ``rows`` and another one, machines in the
    last axis, None where there are two rows in all.
    """

    errors: Array
    pairs: Array | None
    rows: Any

    @classmethod
    def of(cls, member: LSSVMRegressor, gram: Gram | None, X: Any, rows: Any) -> "_LeftOut":
        """Return what one machine leaves out, by its kernel matrix, if available."""
        outputs = member._intervals.machines(None, gram)
        errors = np.stack([np.asarray(machines.residuals) for machines in outputs], axis=1)
        if X.shape[0] <= 2:
            return cls(errors[..., None], None, rows)
        diagonal = np.asarray(member.kernel_.diag(X))
        return cls(errors[..., None], pair_residuals(outputs, X, diagonal, rows)[..., None], rows)

    def mean_square(self, weights: Array) -> float:
        """Return the mean square of the left-out errors, over outputs too."""
        return float(_mean_squares(self.errors[..., 0], weights).mean())

    @classmethod
    def joined(cls, parts: "Sequence[_LeftOut]") -> "_LeftOut":
        """Return what several machines leave out, in their order."""
        pairs = [part.pairs for part in parts if part.pairs is not None]
        errors = np.concatenate([part.errors for part in parts], axis=2)
        return cls(errors, np.concatenate(pairs, axis=3) if pairs else None, parts[0].rows)


@dataclass(eq=False, repr=False)
class StackChoice:
    """The choice of machines and of their weights, of numbers or of classes: its parameters, and the fit.

    It comes before the task; :class:`StackedLSSVMRegressor` documents the parameters.
    """

    _model_type: ClassVar[Any] = StackedModel
    #: The estimator that searches, and what else it and its rows are told.
    _search_type: ClassVar[Any]
    _stack_type: ClassVar[Any] = None
    _rules_of_data: ClassVar[dict[str, Any]] = {}
    _takes_matrix: ClassVar[bool] = False
    _typical: ClassVar[Uses] = ({"criteria": "loo"},)
    _: KW_ONLY
    kernels: Any = None
    gammas: Any = None
    criteria: Literal["loo", "evidence", "both"] = "both"
    gamma_range: Any = None
    gap: float = GAP
    search: Literal["gradient"] | None = None
    max_evaluations: int | None = None
    n_jobs: int | None = None
    verbose: int = 0

    recommended = RECOMMENDED
    left_out_importance = left_out_importance

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Search, fit every machine to all rows, and weigh them; ``sample_weight`` weighs errors everywhere."""
        model: Any = self
        pooled = bool(model._labels)
        model._begin_fit()
        self._check_rules()
        model._check_coding()
        X, y, weights = model._check_data(X, y, sample_weight, numeric=not pooled, **self._rules_of_data)
        X, y, weights, rows = model._weighted(X, y, weights)
        coded = model._encode(y)
        Y = coded.codes(y)
        one_output = Y.shape[1] == 1
        members, left_out, dropped = self._fit_members(X, y, Y[:, 0] if one_output else Y, weights)
        errors, pairs, place = left_out.errors, left_out.pairs, left_out.rows
        u = self._weigh(errors, Y, weights)
        honest, facts = self._nested_errors(errors, pairs, place, Y, weights, u)
        apparent = _mean_squares(np.einsum("ikm,mk->ik", errors, u), weights)
        model._keep_classes(coded, Y)
        self._keep_stack(members, u, rows, X, weights, one_output)
        self.criterion_, self.apparent_criterion_ = (
            (float(value.mean()) if pooled or one_output else value) for value in (honest, apparent)
        )
        certificate = self._report(members, errors, Y, (*dropped, *facts, *self._facts(u)))
        warn_unless_holds(certificate)
        self.certificate_ = certificate
        self.support_values_ = np.stack([np.reshape(member.support_values_, Y.shape) for member in members], axis=-1)
        return self

    @property
    def relevance_(self) -> Array:
        """The relevance of every input, that of every machine by its weight (of several outputs their mean)."""
        model: Any = self
        check_is_fitted(model)
        u = model._model.weights().mean(axis=1)
        members = model._model.members()
        return np.asarray(sum(u[m] * input_relevance(members[m], alone=False) for m in np.flatnonzero(u > 0.0)))

    def _check_rules(self) -> None:
        """Refuse parameters before any work."""
        families.check_kernels(self.kernels, False)
        model: Any = self
        if self.kernels is None and model._own_kernel().pairwise:
            raise DeclarationError("a stack computes kernels of the inputs; kernel='precomputed' has one matrix only")
        if self.criteria not in ("loo", "evidence", "both"):
            raise DeclarationError(f"criteria must be 'loo', 'evidence' or 'both', received {self.criteria!r}")
        if self.search not in ("gradient", None):
            raise DeclarationError(f"search must be None or 'gradient', received {self.search!r}")
        if self.gammas is not None:
            self._check_gammas()
        if self.gamma_range is not None:
            gamma_ends(self.gamma_range)
        if self.max_evaluations is not None:
            whole_number(self.max_evaluations, "max_evaluations", 1)
        positive(self.gap, "gap")

    def _check_gammas(self) -> None:
        """Refuse given gammas that are not those of a list of kernels."""
        gammas = self.gammas
        if families.is_families(self.kernels) or self.search is not None:
            raise DeclarationError("gammas are those of a list of kernels; leave them out where a search chooses both")
        count = 1 if self.kernels is None else len(self.kernels)
        if isinstance(gammas, (str, float, int)) or not hasattr(gammas, "__len__") or len(gammas) != count:
            raise DeclarationError(f"gammas must be a list with one gamma for each of {count} kernels, got {gammas!r}")
        for number, gamma in enumerate(gammas):
            for value in [gamma] if np.ndim(gamma) == 0 else gamma:
                positive(value, f"gammas[{number}]")

    def _stated_machines(self) -> dict[tuple[Kernel, float | tuple[float, ...]], None]:
        """Return kernel and gamma of the parameters, each pair once."""
        gammas = [
            float(gamma) if np.ndim(gamma) == 0 else tuple(float(value) for value in gamma) for gamma in self.gammas
        ]
        model: Any = self
        # as many as kernels in every fit; parameters that were changed later, or in a file, may differ
        return dict.fromkeys(zip(model._stated_kernels(), gammas, strict=False))

    def _fit_members(
        self, X: Any, y: Any, targets: Array, weights: Array
    ) -> tuple[list[LSSVMRegressor], "_LeftOut", Facts]:
        """Return the machines of all searches, fitted to targets or codes, what they leave out, and which were dropped
        as not determined.
        """
        model: Any = self
        given = {name: getattr(self, name) for name in ("kernels", "gamma_range", "gap", "max_evaluations", "n_jobs")}
        given |= {"coding": model.coding, "calibration": None} if model._labels else {}
        fitted: dict[Any, tuple[LSSVMRegressor, _LeftOut]] = {}
        by_family = families.is_families(self.kernels) or self.search is not None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            earlier: StackSearch | None = None
            if self.gammas is not None:
                self._add_machines(fitted, self._stated_machines(), X, targets, weights)
            criteria = ("evidence", "loo") if self.criteria == "both" else (self.criteria,)
            for criterion in criteria if self.gammas is None else ():
                search = self._search_type(
                    model.kernel,
                    tol=model.tol,
                    cv=criterion,
                    search=self.search,
                    widths="each" if self.search else None,
                    verbose=self.verbose,
                    **given,
                )
                squares = {machine: left_out.mean_square(weights) for machine, (_, left_out) in fitted.items()}
                earlier = self._descend(search, X, targets, weights, criterion, earlier, squares)
                if earlier is None:
                    search.fit(X, y, sample_weight=weights)
                    machines = best_of_families(search.cv_results_, by_family)
                else:
                    machines = earlier.machines
                self._add_machines(fitted, machines, X, targets, weights)
        for message in {str(warning.message): warning for warning in caught}.values():
            if not issubclass(message.category, ConvergenceWarning):  # what does not hold is a row of this certificate
                warnings.warn(message.message, stacklevel=3)
        every = list(fitted.values())
        known = [pair for pair in every if pair[0].certificate_.holds] or every
        lost = [repr(member.kernel) for member, _ in every if all(member is not other for other, _ in known)]
        facts = (("not determined", f"{', '.join(lost)}: not in the stack"),) if lost else ()
        return [member for member, _ in known], _LeftOut.joined([part for _, part in known]), facts

    def _add_machines(
        self,
        fitted: "dict[Any, tuple[LSSVMRegressor, _LeftOut]]",
        machines: Iterable[Any],
        X: Any,
        targets: Array,
        weights: Array,
    ) -> None:
        """Fit machines that are not yet there, each of a kernel and a gamma, with what they leave out."""
        model: Any = self
        n, n_outputs = int(X.shape[0]), 1 if targets.ndim == 1 else int(targets.shape[1])
        count = min(n, _MOST_ROWS, max(1, _MOST_PAIRS // (n * n_outputs * _MACHINES)))
        rows = np.linspace(0, n - 1, count).astype(np.intp)
        for kernel, gamma in machines:
            if (kernel, gamma) in fitted:
                continue
            gammas = gamma if isinstance(gamma, float) else list(gamma)
            member = LSSVMRegressor(kernel, gamma=gammas, tol=model.tol)
            # one matrix is held at a time, and factored once for the fit and for its rows left out
            gram = None if n >= FACTORED_ROWS or is_device_array(X) else Gram.of(kernel.resolved(X), X)
            with matrix_at_hand(member, gram):
                member.fit(X, targets, sample_weight=weights)
            fitted[kernel, gamma] = member, _LeftOut.of(member, gram, X, rows)

    def _descend(
        self,
        search: Any,
        X: Any,
        targets: Array,
        weights: Array,
        criterion: str,
        earlier: StackSearch | None,
        squares: dict[Any, float],
    ) -> StackSearch | None:
        """Return the machines where descents of all families end; None where a search has to judge kernels.

        ``squares`` has the mean squares of the left-out errors of earlier machines.
        """
        model: Any = self
        if self.search != "gradient" or not families.is_families(self.kernels) or X.shape[0] < _FEWEST_ROWS:
            return None
        Y = np.reshape(targets, (X.shape[0], -1))
        equal = bool((weights == weights[0]).all())
        task = Task(
            X=X,
            Y=Y,
            criterion=criterion,
            splits=(),
            gammas=self.gamma_range,
            gap=float(self.gap),
            pooled=bool(model._labels),
            weights=None if equal and weights[0] == 1.0 else weights,
        )
        kernels = families.at_median_widths(search._selector.candidates(X))
        kernels += [kernel.resolved(X) for kernel in families.ROUGH_FAMILIES]
        most = most_evaluations(self.max_evaluations, True)
        if not all(JointCriterion.fits(kernel, task) for kernel in kernels if kernel.scales()):
            return None
        check_slopes(kernels, X, criterion)
        progress = Progress(len(kernels) + most, shown=bool(self.verbose))
        try:
            # with a machine for every two classes, rows of other classes have errors that do not count
            is_known = criterion == "loo" and bool((Y != 0.0).all() or not model._labels)
            left_out = squares if is_known else None
            return search_machines(kernels, task, most, self.n_jobs, progress, earlier=earlier, left_out=left_out)
        finally:
            progress.close()

    def _weigh(self, errors: Array, Y: Array, weights: Array) -> Array:
        """Return the weights of the members, one column per output."""
        model: Any = self
        return weigh_members(errors, weights, bool(model._labels))

    def _nested_errors(
        self, errors: Array, pairs: Array | None, rows: Any, Y: Array, weights: Array, u: Array
    ) -> tuple[Array, Facts]:
        """Return the mean square error of the stack at rows that are left out of machines and weights."""
        if pairs is None:
            return np.full(errors.shape[1], np.inf), ()
        said = "" if len(rows) == errors.shape[0] else f", {len(rows)} of {errors.shape[0]} rows"
        nested = np.einsum("ikm,ikm->ik", self._weights_without(errors, pairs, Y, weights, u), errors[rows])
        fact = ("criterion of the stack", f"every row left out of machines and weights, their kernels held{said}")
        return _mean_squares(nested, weights[rows]), (fact,)

    def _weights_without(self, errors: Array, pairs: Array, Y: Array, weights: Array, u: Array) -> Array:
        """Return the weights of members that do not know a row, by outputs, for each of the rows of the pairs."""
        model: Any = self
        return nested_stack_weights(errors, pairs, weights, pooled=bool(model._labels))

    def _weights_row(self, errors: Array, weights: Array, u: Array, Y: Array) -> Row:
        """Return the gap of the weights."""
        model: Any = self
        return weights_row(errors, weights, u, Y, bool(model._labels))

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
                self._weights_row(errors, self.row_weights_, u, Y),
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
        honest, seen = (
            " ".join(f"{value:.4g}" for value in np.sqrt(np.atleast_1d(criterion)))
            for criterion in (self.criterion_, self.apparent_criterion_)
        )
        return (
            ("stack", f"of {u.shape[0]} machines: {'; '.join(parts)}"),
            ("left-out error", f"{honest}, root mean square ({seen} where the weights have seen the row)"),
            ("conditional on", "preparation of the columns, kernels and gammas, chosen with all rows"),
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
        best of each. After a search these are joined by the exponential of the root of the L1 distance
        (``PowerExponential(p=1, q=0.5)``), and by the best ones with one width for each input.
        ``StackedLSSVMRegressor.recommended()`` has ``kernels="families"`` and ``search="gradient"``.
    gammas : list of float, default=None
        Gammas of the kernels in their order, or a list for each with one gamma per output, in place of a choice: then
        only the weights of the machines are chosen.
    criteria : {"loo", "evidence", "both"}, default="both"
        What chooses gammas and widths of the machines: leave-one-out, the evidence, or both, which are then two
        machines. Weights are always by leave-one-out.
    gamma_range : pair of float, default=None
        As for :class:`LSSVMRegressorCV`.
    gap : float, default=1e-4
        As for :class:`LSSVMRegressorCV`, of every machine.
    search : {"gradient"} or None, default=None
        As for :class:`LSSVMRegressorCV`, where the shared width and one for each input are both searched.
    max_evaluations, n_jobs, verbose
        As for :class:`LSSVMRegressorCV`.

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
        Mean square error of the stack at rows that neither its machines nor its weights have seen, at given kernels and
        gammas; beyond 1000 rows that of 1000 of them at most. Infinite for two rows.
    apparent_criterion_ : float or array of shape (n_outputs,)
        Mean square of y - P u, which the weights minimise, and which is too small.
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
    >>> model = StackedLSSVMRegressor(kernels="families", criteria="loo").fit(X, y)
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
            ``"auto"``: after a search on fewer than 1000 rows ``"nested"``, as where its machines have been made;
            otherwise ``"jackknife+"``, that of [Barber2021]_ with machines and weights that have not seen a row, by
            closed forms and one small problem per row, up to 2000 rows; errors are studentised where rows have one
            weight, wider where rows are sparse. ``"nested"``, ``"adaptive"`` and ``"split"``: as for
            :meth:`LSSVMRegressor.predict_interval`.

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
    """Rows left out in folds, in which kernels are held, and weights and gammas that were not given are chosen anew."""

    def fold_machine(self, X: Any) -> Any:
        """Return the stack of the same kernels, those of positive weight, each at the gamma that was given, or that
        leave-one-out prefers.
        """
        model = self.estimator
        used = np.flatnonzero((model._model.weights() > 0.0).any(axis=1)).tolist()
        machine = super().fold_machine(X).set_params(search=None, criteria="loo")
        if model.gammas is None:
            return machine.set_params(kernels=list(dict.fromkeys(model.kernels_[m] for m in used)))
        gammas = [float(np.ravel(model.gammas_[m])[0]) for m in used]  # one for all codes
        return machine.set_params(kernels=[model.kernels_[m] for m in used], gammas=gammas)


@dataclass(eq=False, repr=False)
class StackedLSSVMClassifier(StackChoice, Classifier):
    """A weighted mean of LS-SVM classifiers of several kernels, by exact leave-one-out, two classes or more.

    The weights minimise the squares of what left-out decision values miss of the codes -1 and 1, over all machines of
    the coding together: of probabilities :math:`(1 + f)/2`, times four; or, with ``loss="log"``, the log-loss of these
    probabilities (:mod:`substrate.least_squares.log_loss_weights`).

    Parameters
    ----------
    kernel, tol, kernels, gammas, criteria, gamma_range, gap
        As for :class:`StackedLSSVMRegressor`.
    search, max_evaluations, n_jobs, verbose
        As for :class:`StackedLSSVMRegressor`.
    loss : {"squared", "log"}, default="squared"
        What the weights of the machines minimise: squares of left-out decision values less their codes, or the log-loss
        of left-out probabilities of the codes, no smaller than 1/(N + 2) on N rows. Both are convex, with the gap of
        the weights on the certificate.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, all on the same rows.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`LSSVMClassifier`, by five folds in which the kernels of the stack are held; weights, and gammas
        unless they are given, are chosen anew.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into the weights of the rows.

    Attributes
    ----------
    classes_, code_book_
        As for :class:`LSSVMClassifier`.
    kernels_, gammas_, stack_weights_, biases_, support_values_, row_weights_
        As for :class:`StackedLSSVMRegressor`, in the sign of regression on the codes; the weights of all columns of
        the code book are the same.
    criterion_, apparent_criterion_ : float
        As for :class:`StackedLSSVMRegressor`, the mean over the columns of the code book.
    kernel_, bias_, support_, support_vectors_, certificate_, calibration_scores_
        As for :class:`StackedLSSVMRegressor` and :class:`LSSVMClassifier`.
    """

    _search_type = LSSVMClassifierCV
    _calibration_type = StackCalibration
    _page, _title = "ls_svm_classification", "Stack of LS-SVM classifications (as regressions on the labels)"
    _regressed = True
    _typical: ClassVar[Uses] = ({"criteria": "loo"}, {"criteria": "loo", "loss": "log"})
    _: KW_ONLY
    loss: Literal["squared", "log"] = "squared"
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
    class_weight: Any = None

    _weighted = cast(Any, LSSVMClassifier._weighted)

    def _check_rules(self) -> None:
        """Refuse parameters before any work."""
        super()._check_rules()
        if self.loss not in ("squared", "log"):
            raise DeclarationError(f"loss must be 'squared' or 'log', received {self.loss!r}")

    def _weigh(self, errors: Array, Y: Array, weights: Array) -> Array:
        """Return the weights of the members, the same in every column."""
        if self.loss == "squared":
            return super()._weigh(errors, Y, weights)
        u = weigh_by_log_loss(*_joined_probabilities(errors, Y, weights))
        return np.repeat(u[:, None], errors.shape[1], axis=1)

    def _weights_without(self, errors: Array, pairs: Array, Y: Array, weights: Array, u: Array) -> Array:
        """Return the weights of members that do not know a row, the same for all codes."""
        if self.loss == "squared":
            return super()._weights_without(errors, pairs, Y, weights, u)
        return nested_log_loss_weights(pairs, Y, weights, u[:, 0])

    def _weights_row(self, errors: Array, weights: Array, u: Array, Y: Array) -> Row:
        """Return the gap of the weights, that of their squares or of their log-loss."""
        if self.loss == "squared":
            return super()._weights_row(errors, weights, u, Y)
        if (u != u[:, :1]).any():
            raise DataError("the weights of a stack of classes must be the same in all columns")
        return bound_log_loss(*_joined_probabilities(errors, Y, weights), u[:, 0]).row


def _joined_probabilities(errors: Array, codes: Array, weights: Array) -> tuple[Array, Array]:
    """Return the left-out probabilities of the right codes, a line for every row and code, and the weights of these."""
    probabilities = left_out_probabilities(errors, codes)
    return np.reshape(probabilities, (-1, errors.shape[2])), np.repeat(weights, errors.shape[1])


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


LSSVMRegressorCV._stack_type = StackedLSSVMRegressor._stack_type = StackedLSSVMRegressor
LSSVMClassifierCV._stack_type = StackedLSSVMClassifier._stack_type = StackedLSSVMClassifier
