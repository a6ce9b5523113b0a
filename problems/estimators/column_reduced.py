r"""Sparse LS-SVM classifiers that keep some columns of the linear system (4) of [Carvalho2006]_.

.. math:: A_S \begin{bmatrix} b \\ \alpha_S \end{bmatrix} \approx \begin{bmatrix} 0 \\ 1 \end{bmatrix},
          \qquad f(x) = \sum_{i \in S} \alpha_i y_i k(x_i, x) + b

========================  ==============================================  ===========================================
estimator                 which patterns S                                solution
========================  ==============================================  ===========================================
LS2SVMClassifier          echelon reduction under a tolerance             least squares, all rows
AdaPinvClassifier         largest absolute alpha, by an Adaline           least squares, all rows
IPLSSVMClassifier         largest signed alpha, by the direct solution    least squares, all rows
ALSSVMClassifier          an Adaline that eliminates patterns             the LS-SVM of S, without the other rows
========================  ==============================================  ===========================================

The row and the column of the bias are always kept. On the paper's data a random S of the same size with the same least
squares tests as well as any of the first three rules (``python examples/reproductions/run.py carvalho2006``): it
matters that every row enters the fit, not which columns are kept.

:place [Carvalho2006]_ Tables 1-3: the comparison, with controls

The problem itself is :mod:`problems.column_reduced_ls_svm`.
"""

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from problems.estimators.full.saddle_machine import StoredSaddle
from problems.estimators.shared.base import Added, Facts, StoredFit, StoredMachine, certify_stored
from problems.estimators.shared.checks import definite_gram
from problems.estimators.shared.classifier import Classifier
from substrate.arrays import Array, positive, take_points, whole_number
from substrate.bounds.proof import Proof, prove_kept_columns, tolerance_in_balls
from substrate.bounds.saddle import AnswerProblem
from substrate.certificate import NO_BOUND, Certificate, Tolerance, warn_unless_holds
from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning
from substrate.fits.adaline import TrainedAdaline, eliminate_patterns, solve_by_adaline
from substrate.fits.column_reduction import (
    FORMULA,
    ColumnMachine,
    column_rows,
    echelon_columns,
    echelon_threshold,
    enclose_columns,
    ranked_columns,
    solve_columns,
    support_count,
)
from substrate.kernels import Kernel
from substrate.operators.gram import Gram
from substrate.operators.saddle_system import bordered_matrix, bordered_target, ridge_of, solve_saddle_system

__all__ = ["ALSSVMClassifier", "AdaPinvClassifier", "IPLSSVMClassifier", "LS2SVMClassifier"]

_DEPENDENT = (NO_BOUND, "the kept columns are dependent up to rounding, and a cut-off decides among their solutions")
_UNKNOWN = ("rounding", "double precision cannot give the answer to this tolerance; scale the columns, or lower gamma")


class PatternSystem(NamedTuple):
    """The system (4) of one machine in regression's signs: the kernel matrix, 1/gamma per row, A and B.

    Labels are signs of rows and columns only, see :mod:`substrate.operators.saddle_system`.
    """

    gram: Gram
    ridge: Array
    A: Array
    B: Array

    @classmethod
    def of(cls, gram: Gram, codes: Array, gamma: float) -> "PatternSystem":
        """Return the system of codes -1 and +1."""
        ridge = ridge_of(gamma, np.ones(codes.size))
        return cls(gram, ridge, bordered_matrix(gram.matrix, ridge), bordered_target(codes))

    @property
    def labels(self) -> Array:
        """Return the codes of the labels."""
        return np.ascontiguousarray(self.B[1:])

    def solve(self) -> Array:
        """Return the support values of the LS-SVM of all patterns, in regression's sign."""
        return solve_saddle_system(self.gram, self.labels, self.ridge).support_values


#: The kept patterns of a machine, facts for the certificate, and numbers that become fitted attributes.
Selection = tuple[Any, Facts, dict[str, float]]


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """The least-squares machine on the kept columns and all rows, as a model stores it, in regression's sign.

    ``fitted`` are the values that predict returns for the rows. ``tolerance`` is the accuracy required, as a share of
    the spread of y.
    """

    kernel: Kernel
    points: Any
    machine: ColumnMachine
    fitted: Array
    tolerance: float

    def certify(self) -> Added:
        """Bound the answer, and check the conditions of optimality."""
        machine = self.machine
        columns = enclose_columns(self.kernel, self.points, machine.columns)
        C, B = machine.enclose(columns).midpoint, bordered_target(machine.y)
        C, kept = np.roll(C, 1, axis=0), np.arange(machine.columns.size)  # the border first
        rows = column_rows(C, kept, B, machine.bias, machine.coefficients)
        bound = machine.bound(columns, self.fitted)
        if not np.isfinite(bound):
            return rows, (_DEPENDENT,)
        row = Tolerance.of(machine.y, np.ones(machine.y.size), self.tolerance).row(bound, FORMULA)
        return (row, *rows), () if row.passes else (_UNKNOWN,)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        y = self.machine.y
        tolerance = tolerance_in_balls(y, np.ones(y.size), self.tolerance)
        return prove_kept_columns(self.kernel, self.points, self.machine, self.fitted, tolerance)


@dataclass(eq=False, repr=False)
class ColumnReducedClassifier(Classifier):
    """A base of the classifiers that keep some columns of the linear system of the LS-SVM."""

    _page = "column_reduced_ls_svm"
    _takes_weights = False
    gamma: float = 1.0

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X and labels y of any kind."""
        self._begin_fit()
        gamma = positive(self.gamma, "gamma")
        X, labels, _ = self._check_data(X, y, None)
        classes = self._encode(labels)
        Y = classes.codes(labels)
        kernel = self._resolved_kernel(X)
        gram = definite_gram(kernel, X)
        a, bias = np.zeros_like(Y), np.zeros(Y.shape[1])
        facts, measured = dict.fromkeys((*gram.record(), ("gamma", f"{gamma:g}"))), dict[str, float]()
        for k, y in enumerate(np.ascontiguousarray(Y.T)):
            system = PatternSystem.of(gram, y, gamma)
            columns, told, numbers = self._select(system)
            a[columns, k], bias[k] = self._solve(system, columns)
            facts |= dict.fromkeys(told)
            measured |= {name: max(value, measured.get(name, value)) for name, value in numbers.items()}
        kept = np.flatnonzero(a.any(axis=1))
        self._keep_classes(classes)
        self.n_support_ = int(kept.size)
        for name, value in measured.items():
            setattr(self, name, value)
        self._keep_outputs(None if kernel.pairwise else X[kept], kept, kernel, a[kept], bias)
        with warnings.catch_warnings(action="ignore", category=IndefiniteKernelWarning):  # warned of above
            checked = certify_stored(self._title, self._recall_machines(X, Y))
        support = ("support vectors", f"{kept.size} of {Y.shape[0]} rows")
        self.certificate_ = Certificate(self._title, checked.rows, (*facts, *checked.record, support))
        warn_unless_holds(self.certificate_)
        return self

    @abstractmethod
    def _select(self, system: PatternSystem) -> Selection:
        """Choose the patterns that a machine keeps; bad parameters are refused."""

    def _solve(self, system: PatternSystem, columns: Any) -> tuple[Array, float]:
        """Return coefficients and bias of least squares on the kept columns, all rows."""
        solved = solve_columns(system.A, columns, system.B)
        return solved.coefficients, solved.bias

    def _recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return all machines on the data of the fit."""
        # the kept columns are chosen by a rule of the paper, not as an optimum: all is about the solution on them
        X, labels, _ = self._check_again(X, y, None)
        last = int(self.support_.max(initial=-1))
        if last >= labels.size:
            raise DataError(f"the model was fitted to row {last}, these are {labels.size} rows")
        return self._recall_machines(X, self._codes_again(labels))

    def _recall_machines(self, X: Any, Y: Array) -> StoredFit:
        """Return all machines on checked rows and codes: their columns are those with a coefficient."""
        a = np.reshape(self.support_values_, (self.support_.size, Y.shape[1]))
        bias, fitted = np.atleast_1d(self.bias_), np.reshape(self._evaluate(X), (X.shape[0], -1))
        machines = []
        for k, y in enumerate(np.ascontiguousarray(Y.T)):
            used = np.flatnonzero(a[:, k])
            machine = ColumnMachine(
                y=y,
                columns=self.support_[used],
                gamma=positive(self.gamma, "gamma"),
                bias=float(bias[k]),
                coefficients=np.ascontiguousarray(a[used, k]),
            )
            stored = StoredColumns(self.kernel_, X, machine, np.ascontiguousarray(fitted[:, k]), self._tolerance())
            machines.append(self._recall_machine(stored))
        return StoredFit(machines, ((), (("kernel", repr(self.kernel_)),)))

    def _recall_machine(self, stored: StoredColumns) -> StoredMachine:
        """Return one machine as stored: least squares on its columns."""
        return stored


@dataclass(eq=False, repr=False, kw_only=True)
class LS2SVMClassifier(ColumnReducedClassifier):
    """LS2-SVM: columns that the ones before them explain are dropped ([Carvalho2006]_ section 3.3).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    gamma : float, default=1.0
        Weight of the squared errors against the norm; 1/gamma is on the diagonal of the system.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.
    threshold : float, default=0.2
        A column is dropped when, with the kept columns before it eliminated, no entry exceeds
        1/gamma + threshold * max k(x, x). The published threshold is that whole sum; since anything below 1/gamma drops
        hardly any column, only the part above it is a parameter.

    Attributes
    ----------
    threshold_ : float
        The threshold as published, in the units of the system.
    support_, n_support_, support_values_, support_vectors_
        The rows that some machine keeps. They depend on the order of the rows of X.
    classes_, code_book_, bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    threshold: float = 0.2
    _title = "LS2-SVM classification"

    def _select(self, system: PatternSystem) -> Selection:
        share = positive(self.threshold, "threshold")
        threshold = echelon_threshold(system.gram.diagonal, system.ridge, share)
        fact = ("columns", f"echelon reduction, threshold {threshold:.6g}")
        return echelon_columns(system.A, threshold), (fact,), {"threshold_": threshold}


@dataclass(eq=False, repr=False, kw_only=True)
class AdaPinvClassifier(ColumnReducedClassifier):
    """Ada-Pinv: columns ranked by the absolute support values of an Adaline ([Carvalho2006]_ section 3.4).

    Parameters
    ----------
    kernel, gamma, tol, coding, calibration
        As for :class:`~problems.LS2SVMClassifier`.
    n_support : int or float, default=0.5
        Patterns that each machine keeps: a count (an int), or a fraction of its rows in (0, 1] (a float).
    accelerated : bool, default=True
        Conjugate directions; ``False`` is the plain Adaline of the paper, whose epochs grow with the square of the
        condition number (millions on tic-tac-toe).
    adaline_tol : float, default=1e-3
        Relative residual of the system at which the Adaline stops.
    max_epochs : int, default=2000
        Maximum number of epochs of the Adaline. Where the accelerated one does not reach ``adaline_tol``, the direct
        solution, its limit, ranks the columns, which the certificate's record states; where the plain one does not, its
        unfinished weights do, with a warning. The certificate is about the least squares on the columns, however they
        were ranked.

    Attributes
    ----------
    n_epochs_, residual_
        Epochs of the Adaline and its relative residual at their end, of the machine that took longest.
    support_, n_support_, support_values_, support_vectors_
        The rows that some machine keeps.
    classes_, code_book_, bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    n_support: float = 0.5
    accelerated: bool = True
    adaline_tol: float = 1e-3
    max_epochs: int = 2000
    _title = "Ada-Pinv classification"

    def _select(self, system: PatternSystem) -> Selection:
        count = support_count(self.n_support, system.labels.size)
        if not isinstance(self.accelerated, (bool, np.bool_)):
            raise DeclarationError(f"accelerated must be True or False, received {self.accelerated!r}")
        trained = solve_by_adaline(
            system.A,
            system.B,
            tolerance=positive(self.adaline_tol, "adaline_tol"),
            max_epochs=whole_number(self.max_epochs, "max_epochs", 1),
            accelerated=bool(self.accelerated),
        )
        alpha, facts = trained.weights[1:], [_tell_training(trained)]
        if trained.ended != "tolerance" and not self.accelerated:
            warnings.warn(
                f"the plain Adaline ended at a relative residual of {trained.residual:.2e} after {trained.epochs} "
                f"epochs, above adaline_tol = {self.adaline_tol:g}, and its unfinished weights rank the columns; raise "
                "max_epochs or adaline_tol, or use accelerated=True",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif trained.ended != "tolerance":
            alpha = system.solve()
            facts.append(("fallback", "the Adaline did not reach adaline_tol; columns ranked by the direct solution"))
        facts.append(("columns", f"{count} of {alpha.size} by absolute alpha"))
        measured = {"n_epochs_": trained.epochs, "residual_": trained.residual}
        return ranked_columns(np.abs(alpha), count), tuple(facts), measured


@dataclass(eq=False, repr=False, kw_only=True)
class IPLSSVMClassifier(ColumnReducedClassifier):
    """IP-LSSVM: columns ranked by the signed support values of the LS-SVM ([Carvalho2006]_ section 3.5).

    Parameters
    ----------
    kernel, gamma, tol, coding, calibration
        As for :class:`~problems.LS2SVMClassifier`.
    n_support : int or float, default=0.5
        Patterns that each machine keeps: a count (an int), or a fraction of its rows in (0, 1] (a float). Those with
        the largest alpha are kept; a negative alpha is a pattern beyond its margin.

    Attributes
    ----------
    support_, n_support_, support_values_, support_vectors_
        The rows that some machine keeps.
    classes_, code_book_, bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    n_support: float = 0.5
    _title = "IP-LSSVM classification"

    def _select(self, system: PatternSystem) -> Selection:
        alpha = system.labels * system.solve()
        count = support_count(self.n_support, alpha.size)
        fact = ("columns", f"{count} of {alpha.size} by signed alpha of the direct solution")
        return ranked_columns(alpha, count), (fact,), {}


@dataclass(eq=False, repr=False, kw_only=True)
class ALSSVMClassifier(ColumnReducedClassifier):
    """A-LSSVM: an Adaline that eliminates the patterns it fits ([Carvalho2006]_ section 3.1), with a stopping rule.

    The paper gives no stopping rule, and without one every pattern is removed in time. Here elimination ends when
    ``n_support`` patterns remain or after ``max_epochs``, and the solution is the limit of further training, the
    LS-SVM of the remaining patterns; see :mod:`substrate.fits.adaline`.

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
    classes_, code_book_, bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    threshold: float = 0.1
    max_epochs: int = 500
    n_support: float = 0.5
    random_state: Any = None
    _title = "A-LSSVM classification"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X and labels y of any kind."""
        self._seed = int(_generator(self.random_state).randint(2**31 - 1))  # one for all: each starts as it would alone
        return super().fit(X, y)

    def _select(self, system: PatternSystem) -> Selection:
        n = system.labels.size
        trained = eliminate_patterns(
            system.A,
            system.B,
            threshold=positive(self.threshold, "threshold"),
            count=support_count(self.n_support, n),
            max_epochs=whole_number(self.max_epochs, "max_epochs", 1),
            seed=self._seed,
        )
        fact = ("columns", f"{trained.patterns.size} of {n}, elimination ended by {trained.ended}")
        measured = {"n_epochs_": trained.epochs, "residual_": trained.residual}
        return trained.patterns, (fact, _tell_training(trained)), measured

    def _solve(self, system: PatternSystem, columns: Any) -> tuple[Array, float]:
        solved = solve_saddle_system(system.gram.restrict(columns), system.labels[columns], system.ridge[columns])
        return solved.support_values, float(solved.bias)

    def _recall_machine(self, stored: StoredColumns) -> StoredMachine:
        """Return the LS-SVM of the kept patterns alone."""
        machine, kernel = stored.machine, self.kernel_
        points = take_points(stored.points, machine.columns, kernel.pairwise)
        y, weights = machine.y[machine.columns], np.ones(machine.columns.size)
        tolerance = Tolerance.of(y, weights, stored.tolerance)
        problem = AnswerProblem(kernel, points, y[:, None], (machine.gamma,), weights, (tolerance,))
        matrix = partial(definite_gram, kernel, points)
        a, fitted = machine.coefficients[:, None], stored.fitted[machine.columns][:, None]
        return StoredSaddle(problem, matrix, a, np.array([machine.bias]), np.empty((0, 1)), fitted, y[:, None])


def _tell_training(trained: TrainedAdaline) -> tuple[str, str]:
    """Return how an Adaline was trained, for the certificate."""
    return "Adaline", f"{trained.epochs} epochs, relative residual {trained.residual:.2e}, ended by {trained.ended}"


def _generator(random_state: Any) -> Any:
    """Return a random state as scikit-learn reads it, or one of numpy's generators."""
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.integers(2**31))
    return check_random_state(random_state)
