r"""A stack of LS-SVMs: the machines that a search fits, weighted by exact leave-one-out.

A search judges machines of several kernels, each at its best gamma, and keeps one of them. Their left-out predictions P
are known without a refit, so that the best average of them is one small convex problem more,

.. math:: \min_u \| y - P u \|_v^2 \quad \text{subject to} \quad u \ge 0, \; 1^T u = 1, \qquad
          f(x) = \sum_m u_m f_m(x) ,

with a lower bound on the certificate (:mod:`substrate.fits.simplex_weights`). The machines are estimators of
the same rows, ``estimators_``, and their mean is as near to the mean of the exact machines as they are to these on
average, up to the rounding of the mean. ``criterion_``, the mean square of y - P u, has seen y through u.
"""

import math
import operator
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.exceptions import ConvergenceWarning

from problems.estimators.chosen.rules import check_kernels, family_name, is_families
from problems.estimators.chosen.selection import LSSVMClassifierCV, LSSVMRegressorCV, recommended
from problems.estimators.full.intervals import IntervalRegressor
from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.shared.base import Added, Facts, KernelEstimator, StoredFit, StoredMachine, certify_stored
from problems.estimators.shared.classifier import Classifier
from substrate.arrays import Array
from substrate.certificate import Accuracy, Certificate, Tolerance, accuracy_of_outputs, warn_unless_holds
from substrate.errors import DeclarationError
from substrate.fits.simplex_weights import bound_stack, weigh_machines
from substrate.numbers import relative_rounding, root_mean_square

if TYPE_CHECKING:
    from substrate.bounds.proof import Proof
    from substrate.kernels.nodes import Node

__all__ = ["StackedLSSVMClassifier", "StackedLSSVMRegressor"]


class StoredStack(NamedTuple):
    """A stack: its machines, their weights, one column per output, and the rounding of the mean of each output."""

    members: list[StoredMachine]
    u: Array
    missing: Array
    tolerances: list[Tolerance]

    def certify(self) -> Added:
        """Bound the distance of the answer from the exact machines with the same weights."""
        reports = [member.certify() for member in self.members]
        facts = tuple(dict.fromkeys(fact for _, more in reports for fact in more))
        answers = [row for rows, _ in reports for row in rows if isinstance(row, Accuracy)]
        if len(answers) < len(reports):
            return (), facts
        formula = "sum_m u_m ||y - f_m - alpha_m/(gamma_m v)||_v + rounding"
        rows = [
            tolerance.row(self._weigh([answer.each[k].value for answer in answers], k), formula)
            for k, tolerance in enumerate(self.tolerances)
        ]
        return (accuracy_of_outputs(rows),), facts

    def prove(self) -> "Proof":
        """Bound the answer in ball arithmetic."""
        proofs: list[Any] = [member.prove() for member in self.members]
        reason = next((proof.reason for proof in proofs if proof.reason), "")
        outputs = [
            replace(first, value=self._weigh([proof.each[k].accuracy for proof in proofs], k), reason=reason)
            for k, first in enumerate(proofs[0].each)
        ]
        return accuracy_of_outputs(outputs)

    def _weigh(self, radii: Sequence[float], output: int) -> float:
        """Return the mean of radii by the weights of an output, and the rounding of its mean."""
        weighted = [float(u) * radius for u, radius in zip(self.u[:, output], radii, strict=True) if u]
        # weights sum to one up to the rounding of as many numbers
        return (math.fsum(weighted) + float(self.missing[output])) * (1.0 + relative_rounding(len(radii) ** 2 + 8.0))


def average(values: Array, u: Array) -> Array:
    """Return the weighted mean over the last axis; u has one column per output, the axis of the values before it.

    It is the first member plus weighted differences from it: equal members have exactly their mean, and an offset costs
    no digits.
    """
    first = values[:, :, :1]
    return np.asarray(first[:, :, 0] + np.einsum("ikm,mk->ik", values - first, u))


def _predict_each(members: Sequence[LSSVMRegressor], X: Any) -> Array:
    """Return what members predict at rows that were checked: outputs, then members in the last axis."""
    return np.stack([np.reshape(member._evaluate(X), (X.shape[0], -1)) for member in members], axis=-1)


def left_out_errors(members: Sequence[LSSVMRegressor]) -> Array:
    """Return the left-out errors of every row, by output and member."""
    left_out: list[Any] = [member.leave_one_out() for member in members]
    return np.stack([np.reshape(each.residuals, (len(each.residuals), -1)) for each in left_out], axis=-1)


@dataclass(eq=False, repr=False)
class StackChoice(KernelEstimator):
    """The choice of machines and of their weights, of numbers or of classes: its parameters, and the fit.

    It comes before the task; :class:`StackedLSSVMRegressor` documents the parameters.
    """

    #: The estimator that searches.
    _search_type: ClassVar[Any]
    _takes_matrix: ClassVar[bool] = False
    _chooses: ClassVar[str | None] = "every gamma"
    _: KW_ONLY
    kernels: Any = None
    cv: Any = "loo"

    recommended = recommended

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose every gamma, fit every machine, and weigh them; ``sample_weight`` weighs errors everywhere."""
        self._begin_fit()
        check_kernels(self.kernels, False)
        if self.kernels is None and self._own_kernel().pairwise:
            raise DeclarationError("a stack computes kernels of the inputs; kernel='precomputed' has one matrix only")
        X, y, weights, rows, _ = self._read_rows(X, y, sample_weight)
        coded = self._encode(y)
        Y = coded.codes(y)
        members, lost = self._fit_members(X, y, Y[:, 0] if Y.shape[1] == 1 else Y, weights)
        parts = self._judged_parts(members, weights)
        u = np.column_stack([weigh_machines(*part) for part in parts])
        with np.errstate(over="ignore"):  # beyond 1e154 a square is infinite
            squares = [float(np.average(np.square(e @ u[:, k]), weights=v)) for k, (e, v) in enumerate(parts)]
        self.criterion_ = squares[0] if len(parts) == 1 else np.array(squares)
        self.estimators_, self.stack_weights_ = members, u[:, 0] if len(parts) == 1 else u
        self._keep_classes(coded)
        best = members[int(np.argmax(u[:, 0]))]
        self._keep_expansion(X, rows, best.kernel_, best.support_values_, best.bias_)
        report = certify_stored(self._title, self._store(X, Y, weights, parts))
        shares = [
            f"{' '.join(f'{weight:.3g}' for weight in line)} {m.kernel_!r}" for line, m in zip(u, members, strict=True)
        ]
        facts: Facts = (
            ("stack", f"of {len(members)} machines: {'; '.join(shares)}"),
            (
                "left-out error",
                f"{' '.join(f'{value**0.5:.4g}' for value in squares)}, of rows that the weights have seen",
            ),
            ("conditional on", "preparation of the columns, kernels, gammas and weights, chosen with all rows"),
            *((("not determined", f"{', '.join(lost)}: not in the stack"),) if lost else ()),
        )
        self.certificate_ = Certificate(self._title, report.rows, (*report.record, *facts))
        warn_unless_holds(self.certificate_)
        return self

    def _used(self) -> tuple[list[LSSVMRegressor], Array]:
        """Return the machines of positive weight, and their weights, one column per output."""
        members, outputs = self.estimators_, int(np.prod(self._outputs()))
        u = np.array(np.broadcast_to(self.stack_weights_.T, (outputs, len(members))).T)
        places = np.flatnonzero(u.any(axis=1))
        return [members[place] for place in places], u[places]

    def _evaluate(self, X: Any) -> Array:
        """Return the weighted mean of what the members predict, at rows that were checked."""
        members, u = self._used()
        outputs = average(_predict_each(members, X), u)
        return outputs if self._outputs() else outputs[:, 0]

    def _express(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the weighted mean of the formulas of the members."""
        members, u = self._used()
        formulas = [member._express(x) for member in members]
        terms = [
            [float(weight) * f for weight, f in zip(u[:, k], each, strict=True)]
            for k, each in enumerate(zip(*formulas, strict=True))
        ]
        return [reduce(operator.add, each) for each in terms]

    def _recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return the stack of every output on the data of the fit; the gap of its weights is computed anew."""
        X, y, weights, *_ = self._read_rows(X, y, sample_weight, again=True)
        Y = self._codes_again(y)
        return self._store(X, Y, weights, self._judged_parts(self.estimators_, weights))

    def _judged_parts(self, members: Sequence[LSSVMRegressor], weights: Array) -> list[tuple[Array, Array]]:
        """Return left-out errors, one column per member, and the weights of their rows, for each output; of classes,
        which share the weights of the members, for all outputs together.
        """
        errors = left_out_errors(members)
        n, n_outputs, count = errors.shape
        if self._labels:
            return [(np.reshape(errors, (n * n_outputs, count)), np.repeat(weights, n_outputs))]
        return [(errors[:, k], weights) for k in range(n_outputs)]

    def _store(self, X: Any, Y: Array, weights: Array, parts: list[tuple[Array, Array]]) -> StoredFit:
        """Return the stack of every output on rows that were checked, and the gap of its weights."""
        members, u = self._used()
        machines = list[StoredMachine]()
        for member in members:
            machines += member._recall_fit(X, Y[:, 0] if Y.shape[1] == 1 else Y, weights).machines
        values = _predict_each(members, X)
        # equal members have no rounding; others have it in differences, products, sums and the last addition
        spreads = np.einsum("ikm,mk->ik", np.abs(values - values[:, :, :1]), u)
        sizes = np.where(spreads > 0.0, np.abs(average(values, u)), 0.0)
        missing = relative_rounding(len(members) + 4.0) * spreads + relative_rounding(1.0) * sizes
        rounding = np.array([root_mean_square(column, weights) for column in missing.T])
        tolerances = [Tolerance.of(y, weights, self._tolerance()) for y in np.ascontiguousarray(Y.T)]
        stack = StoredStack(machines, u, rounding * (1.0 + relative_rounding(weights.size)), tolerances)
        columns = np.reshape(self.stack_weights_, (len(self.estimators_), len(parts))).T
        gaps = [
            bound_stack(*part, column, float(np.abs(Y).max())).row for part, column in zip(parts, columns, strict=True)
        ]
        return StoredFit([stack], ((max(gaps, key=lambda row: row.relative),), ()))

    def _fit_members(self, X: Any, y: Any, targets: Array, weights: Array) -> tuple[list[LSSVMRegressor], list[str]]:
        """Return a machine of every kernel, or of every family, at its gamma; and the names of those not determined."""
        given = {"coding": self.coding, "calibration": None} if self._labels else {}
        search = self._search_type(self.kernel, kernels=self.kernels, cv=self.cv, tol=self.tol, **given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what does not hold is a row of this certificate
            search.fit(X, y, sample_weight=weights)
            members = [
                LSSVMRegressor(kernel, gamma=gamma, tol=self.tol).fit(X, targets, sample_weight=weights)
                for kernel, gamma in best_of_families(search.cv_results_, is_families(self.kernels))
            ]
        certified = [member for member in members if member.certificate_.holds] or members
        return certified, [repr(member.kernel) for member in members if member not in certified]


@dataclass(eq=False, repr=False)
class StackedLSSVMRegressor(MultiOutputMixin, StackChoice, IntervalRegressor):
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
        How the gammas are chosen, as for :class:`LSSVMRegressorCV`. Weights are always by leave-one-out.

    Attributes
    ----------
    estimators_ : list of LSSVMRegressor
        The fitted machines.
    stack_weights_ : array of shape (n_machines,) or (n_machines, n_outputs)
        Their weights u.
    criterion_ : float or array of shape (n_outputs,)
        Mean square of y - P u, the left-out errors that the weights minimise: a little too small, since they have seen
        the rows.
    kernel_, support_values_, bias_
        Those of the machine with the largest weight (in the first output).
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
    _interval_methods: ClassVar[tuple[str, ...]] = ("auto", "nested", "adaptive", "split")
    _page, _title = "ls_svm_regression", "Stack of LS-SVM regressions"

    def _left_out_method(self) -> str:
        """Return the method that repeats no fit."""
        return "adaptive"

    def _has_unequal_weights(self) -> bool:
        """Return whether the rows of the fit differ in their weights."""
        return bool(self.estimators_[0]._has_unequal_weights())

    def _targets_and_weights(self) -> tuple[Array, Array]:
        """Return the targets of the rows of the fit, one column per output, and the weights of the rows."""
        return self.estimators_[0]._targets_and_weights()

    def _left_out_rows(self) -> tuple[Array, Array]:
        """Return left-out errors and predictions of the stack with its weights held, one column per output."""
        members, u = self._used()
        errors = average(left_out_errors(members), u)
        return errors, self._targets_and_weights()[0] - errors


@dataclass(eq=False, repr=False)
class StackedLSSVMClassifier(StackChoice, Classifier):
    """A weighted mean of LS-SVM classifiers of several kernels, by exact leave-one-out, two classes or more.

    The weights minimise the squared distance of left-out decision values from the codes -1 and 1, over all machines of
    the coding together: of probabilities :math:`(1 + f)/2`, times four.

    Parameters
    ----------
    kernel, tol
        As for :class:`StackedLSSVMRegressor`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, all on the same rows.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`LSSVMClassifier`, by five folds in which the kernels of the stack are held; weights and gammas
        are chosen anew.
    kernels, cv
        As for :class:`StackedLSSVMRegressor`.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into the weights of the rows.

    Attributes
    ----------
    classes_, code_book_
        As for :class:`LSSVMClassifier`.
    estimators_, stack_weights_
        As for :class:`StackedLSSVMRegressor`: regressions on the codes, with one weight each for all columns of the
        code book.
    criterion_ : float
        As for :class:`StackedLSSVMRegressor`, the mean over the columns of the code book.
    kernel_, support_values_, bias_, support_, support_vectors_, certificate_, calibration_scores_
        As for :class:`StackedLSSVMRegressor` and :class:`LSSVMClassifier`.
    """

    _search_type = LSSVMClassifierCV
    _page, _title = "ls_svm_classification", "Stack of LS-SVM classifications (as regressions on the labels)"
    _: KW_ONLY
    class_weight: Any = None

    def _fold_machine(self, X: Any) -> Any:
        """Return the stack of the same kernels, without kernels of weight zero; weights and gammas are chosen anew."""
        used, _ = self._used()
        return super()._fold_machine(X).set_params(kernels=list(dict.fromkeys(member.kernel_ for member in used)))


def best_of_families(results: dict[str, Any], by_family: bool) -> list[tuple[Any, Any]]:
    """Return kernel and gamma of the judged machines: of every family, with one width and with several, the best."""
    best: dict[Any, tuple[Any, Any]] = {}
    for number in np.argsort(results["rank_test_score"], kind="stable"):
        kernel, gamma = results["param_kernel"][int(number)], results["param_gamma"][int(number)]
        is_each = isinstance(getattr(kernel, "sigma", None), tuple)
        best.setdefault((family_name(kernel), is_each) if by_family else kernel, (kernel, gamma))
    return list(best.values())
