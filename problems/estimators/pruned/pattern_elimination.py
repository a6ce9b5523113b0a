"""The classifier that eliminates patterns: the A-LSSVM of [Carvalho2006]_."""

import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from problems.estimators.full.saddle_machine import LeavesOut, leave_one_out, left_out_importance
from problems.estimators.pruned.column_fit import (
    ColumnModel,
    ColumnReducedClassifier,
    MachineGroup,
    Reduced,
    Selection,
    StoredRows,
)
from problems.estimators.shared.checked_again import StoredMachine, StoredSaddle, definite_gram
from problems.estimators.shared.machine_rows import points_of
from substrate.arrays import Array, positive, whole_number
from substrate.certificates.tolerance import tolerances_of
from substrate.errors import IndefiniteKernelWarning
from substrate.least_squares.adaline import eliminate_patterns
from substrate.least_squares.answer import AnswerProblem, bound_answer
from substrate.least_squares.column_reduction import support_count
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_certificate import saddle_rows
from substrate.least_squares.saddle_system import bordered_target, solve_saddle_system

__all__ = ["ALSSVMClassifier"]


class PatternModel(ColumnModel, LeavesOut):
    """The LS-SVMs of the patterns left, each without the other rows."""

    conditional = "the patterns that were kept, kernel, gamma and preparation of the columns"

    def ridge(self) -> Array:
        return np.full(self.estimator.support_.size, Regularization(positive(self.estimator.gamma, "gamma")).lam)

    def members(self, alpha: Array, codes: Array) -> Any:
        return alpha != 0.0  # every machine keeps its own rows

    def recall_machine(self, stored: StoredRows) -> StoredMachine:
        """Return the LS-SVM of the kept patterns alone."""
        machine, kernel = stored.machine, self.estimator.kernel_
        points = points_of(stored.points, machine.columns, kernel.pairwise)
        return StoredSaddle(
            kernel=kernel,
            points=points,
            gram=partial(definite_gram, kernel, points),
            y=machine.y[machine.columns],
            gamma=machine.gamma,
            weights=np.ones(machine.columns.size),
            a=machine.coefficients,
            b=machine.bias,
            fitted=stored.fitted[machine.columns],
            tolerance=stored.tolerance,
        )


@dataclass(eq=False, repr=False, kw_only=True)
class ALSSVMClassifier(ColumnReducedClassifier):
    """A-LSSVM: an Adaline that eliminates the patterns it fits ([Carvalho2006]_ section 3.1), with a stopping rule.

    The paper gives no stopping rule, and without one every pattern is removed in time. Here elimination ends when
    ``n_support`` patterns remain or after ``max_epochs``, and the solution is the limit of further training, the
    LS-SVM of the remaining patterns; see :mod:`substrate.least_squares.adaline`.

    Parameters
    ----------
    kernel, gamma, tol, coding, calibration
        As for :class:`~problems.LS2SVMClassifier`.
    threshold : float, default=0.1
        A pattern leaves when the error of its row of the system is smaller than this.
    max_epochs : int, default=500
        Maximum number of epochs of elimination; more patterns than wanted may then remain, as the record states.
    n_support : int or float, default=0.5
        Patterns at which elimination ends: a count (an int), or a fraction of a machine's rows in (0, 1] (a float).
        The last pattern of a class is never eliminated, so at least two remain.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random start of the weights.

    Attributes
    ----------
    n_epochs_, residual_
        Epochs of elimination, and the relative residual of the rows left at their end, of the worst machine.
    support_, n_support_, support_values_, support_vectors_
        The rows that some machine keeps.
    classes_, code_book_, support_codes_, bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    threshold: float = 0.1
    max_epochs: int = 500
    n_support: float = 0.5
    random_state: Any = None
    _model_type = PatternModel
    _title = "A-LSSVM classification"

    leave_one_out = leave_one_out
    left_out_importance = left_out_importance

    def _check_parameters(self, smallest: int) -> None:
        positive(self.threshold, "threshold")
        whole_number(self.max_epochs, "max_epochs", 1)
        support_count(self.n_support, smallest)
        _generator(self.random_state)

    def _select(self, group: MachineGroup) -> Selection:
        seed = int(_generator(self.random_state).randint(2**31 - 1))  # one for all: each starts as it would alone
        count = support_count(self.n_support, group.labels.shape[0])
        trained = [
            eliminate_patterns(
                group.matrix,
                target,
                threshold=positive(self.threshold, "threshold"),
                count=count,
                max_epochs=int(self.max_epochs),
                seed=seed,
            )
            for target in bordered_target(group.labels).T
        ]
        epochs, residual = max(solution.epochs for solution in trained), max(solution.residual for solution in trained)
        n = group.labels.shape[0]
        remarks = dict.fromkeys(
            f"{solution.patterns.size} of {n}, elimination ended by {solution.ended}" for solution in trained
        )
        facts = (
            ("columns", "; ".join(remarks)),
            ("Adaline", f"with elimination below {self.threshold:g}, {epochs} epochs"),
        )
        measured = {"n_epochs_": epochs, "residual_": residual}
        return Selection(tuple(solution.patterns for solution in trained), facts, measured)

    def _solve(self, group: MachineGroup, machine: int, columns: Any) -> Reduced:
        gram_of_columns, ridge = group.gram.restrict(columns), group.ridge[columns]
        target = np.ascontiguousarray(group.labels[columns, machine])
        # an alteration of the whole matrix has been warned of already, and its blocks have other eigenvalues
        warned = bool(group.gram.alterations)
        with warnings.catch_warnings(action="ignore", category=IndefiniteKernelWarning) if warned else nullcontext():
            solved = solve_saddle_system(gram_of_columns, target, ridge)
        points = points_of(group.points, columns, group.kernel.pairwise)
        gammas, ones = (positive(self.gamma, "gamma"),), np.ones(target.size)
        tolerances = tolerances_of(target[:, None], ones, self._tolerance())
        question = AnswerProblem(
            kernel=group.kernel,
            X=points,
            Y=target[:, None],
            gammas=gammas,
            weights=ones,
            tolerances=tolerances,
            negative=gram_of_columns.negative,
        )
        solution = (solved.support_values[:, None], np.atleast_1d(solved.bias), solved.products[:, None])
        answer, doubts = bound_answer(question, *solution, gram_of_columns.diagonal, gram_of_columns)
        alpha, bias = solved.support_values, float(solved.bias)
        rows = (*answer, *saddle_rows(solved.products, gram_of_columns.diagonal, target, ridge, alpha, bias))
        alterations = [
            str(alteration) for alteration in gram_of_columns.alterations if alteration not in group.gram.alterations
        ]
        method = "; ".join(["the LS-SVM of the patterns left, closed form", *alterations])
        return Reduced(bias=bias, coefficients=alpha, rows=rows, method=method, facts=doubts)


def _generator(random_state: Any) -> Any:
    """Return a random state as scikit-learn reads it, or one of numpy's generators."""
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.integers(2**31))
    return check_random_state(random_state)
