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
squares tests as well as any of the first three rules (``python examples/reproductions/run.py carvalho2006``): what
matters is that every row enters the fit, not which columns are kept.

:place [Carvalho2006]_ Tables 1-3: the comparison, with controls

The problem itself is :mod:`problems.column_reduced_ls_svm`.
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from problems.estimators.full.saddle_fit import Method, fit_saddle
from problems.estimators.full.saddle_machine import LeavesOut, leave_one_out, left_out_importance
from problems.estimators.shared.checked_again import (
    Added,
    Facts,
    StoredFit,
    StoredMachine,
    StoredSaddle,
    definite_gram,
)
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.machine_rows import each_machine, points_of
from problems.estimators.shared.model import Model
from substrate.arrays import Array, positive, whole_number
from substrate.certificates import NO_BOUND, Certificate, Row, warn_unless_holds
from substrate.certificates.enclosed import Double
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.adaline import eliminate_patterns, solve_by_adaline
from substrate.least_squares.column_reduction import (
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
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.least_squares.saddle_system import bordered_matrix, bordered_target, solve_saddle_system
from substrate.proof import Proof, tolerance_in_balls
from substrate.proof.least_squares import prove_kept_columns

__all__ = ["ALSSVMClassifier", "AdaPinvClassifier", "IPLSSVMClassifier", "LS2SVMClassifier"]

_DEPENDENT = (NO_BOUND, "the kept columns are dependent up to rounding, and a cut-off decides among their solutions")
_UNKNOWN = ("rounding", "double precision cannot give the answer to this tolerance; scale the columns, or lower gamma")


@dataclass(frozen=True, slots=True)
class MachineGroup:
    """Machines on the same rows: their kernel matrix, the matrix of (4) in regression's signs, columns of labels.

    Labels are signs of rows and columns only (see :mod:`substrate.least_squares.saddle_system`), so one matrix is
    shared by all of them.
    """

    gram: Gram
    matrix: Array
    labels: Array
    ridge: Array
    kernel: Kernel
    points: Any


@dataclass(frozen=True, slots=True)
class Selection:
    """The kept patterns of every machine, facts for the certificate, and numbers that become fitted attributes."""

    columns: tuple[Any, ...]
    facts: Facts
    measured: Mapping[str, float] = field(default_factory=dict)


class Reduced(NamedTuple):
    """One machine on its kept patterns, coefficients in regression's sign; ``facts`` on its answer."""

    bias: float
    coefficients: Array
    rows: tuple[Row, ...]
    method: str
    facts: Facts = ()


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """Least squares on the kept columns, all rows, as a model stores it, coefficients in regression's sign.

    ``fitted`` is what predict returns for the rows. ``tolerance`` is the accuracy required, as a share of the spread
    of y.
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
        bounded, facts = _bound_columns(machine, columns, self.fitted, self.tolerance)
        C, B = machine.enclose(columns).midpoint, bordered_target(machine.y)
        C, kept = np.roll(C, 1, axis=0), np.arange(machine.columns.size)  # the border first
        return (*bounded, *column_rows(C, kept, B, machine.bias, machine.coefficients)), facts

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        y = self.machine.y
        tolerance = tolerance_in_balls(y, np.ones(y.size), self.tolerance)
        return prove_kept_columns(self.kernel, self.points, self.machine, self.fitted, tolerance)


class ColumnModel(Model):
    """Machines on some of the columns of their systems."""

    def recall_codes(self, X: Any, y: Any) -> tuple[Any, Array]:
        """Return the rows of the fit and the codes of their labels."""
        model = self.estimator
        X, labels, _ = model._check_again(X, y, None, numeric=False)
        Y = model._codes_again(labels)
        last = int(model.support_.max(initial=-1))
        if last >= labels.size:
            raise DataError(f"the model was fitted to row {last}, these are {labels.size} rows")
        return X, Y

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Return all machines on the data of the fit."""
        # the kept columns are chosen by a rule of the paper, not as an optimum: all is about the solution on them
        machines = (self.recall_machine(stored) for stored in self.stored_columns(*self.recall_codes(X, y)))
        facts = (("kernel", repr(self.estimator.kernel_)),)
        return nullcontext(StoredFit(machines, lambda: ((), facts)))

    def recall_machine(self, stored: StoredColumns) -> StoredMachine:
        """Return what one machine solves: least squares on its columns, those of its nonzero coefficients."""
        return stored

    def stored_columns(self, X: Any, Y: Array) -> Iterator[StoredColumns]:
        """Return every machine of this model, on the training rows."""
        model = self.estimator
        a = np.reshape(model._coefficients(), (model.support_.size, Y.shape[1]))
        bias, fitted = np.atleast_1d(model.bias_), np.reshape(self.evaluate(X), (X.shape[0], -1))
        for machine_rows in each_machine(Y, True):
            members, column = machine_rows.rows, machine_rows.column
            used = np.flatnonzero(a[:, column])
            # a coefficient on a row outside this machine is not one of its columns
            place = np.searchsorted(members, model.support_[used])
            inside = place < members.size
            inside[inside] = members[place[inside]] == model.support_[used][inside]
            machine = ColumnMachine(
                y=machine_rows.y,
                columns=place[inside],
                gamma=positive(model.gamma, "gamma"),
                bias=float(bias[column]),
                coefficients=np.ascontiguousarray(a[used[inside], column]),
            )
            yield StoredColumns(
                kernel=model.kernel_,
                points=machine_rows.points(X, model.kernel_.pairwise),
                machine=machine,
                fitted=np.ascontiguousarray(fitted[members, column]),
                tolerance=model._tolerance(),
            )


@dataclass(eq=False, repr=False)
class ColumnReducedClassifier(Classifier):
    """Base of the classifiers that keep some columns of the linear system of the LS-SVM."""

    _model_type: ClassVar[type[Model]] = ColumnModel
    _page = "column_reduced_ls_svm"
    _takes_weights = False
    gamma: float = 1.0
    _: KW_ONLY
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X and labels y of any kind."""
        self._begin_fit()
        gamma = positive(self.gamma, "gamma")
        self._check_coding()
        X, labels, _ = self._check_data(X, y, None, numeric=False)
        classes = self._encode(labels)
        Y = classes.codes(labels)
        self._check_parameters(int((Y != 0.0).sum(axis=0).min()))
        kernel = self._resolved_kernel(X)
        gram = definite_gram(kernel, X)
        alpha, bias, used = np.zeros_like(Y), np.empty(Y.shape[1]), np.zeros(Y.shape[0], dtype=bool)
        rows: list[tuple[Row, ...]] = []
        facts: dict[tuple[str, str], None] = {}
        measured: dict[str, float] = {}
        for machines, members in _groups(Y):
            gram_of_members = gram if members.size == gram.n else gram.restrict(members)
            ridge = Regularization(gamma).ridge(np.ones(members.size))
            codes = np.ascontiguousarray(Y[np.ix_(members, machines)])
            points = points_of(X, members, kernel.pairwise)
            group = MachineGroup(
                gram=gram_of_members,
                matrix=bordered_matrix(gram_of_members.matrix, ridge),
                labels=codes,
                ridge=ridge,
                kernel=kernel,
                points=points,
            )
            selected = self._select(group)
            solved = [self._solve(group, k, columns) for k, columns in enumerate(selected.columns)]
            for machine, columns, solution in zip(machines, selected.columns, solved, strict=True):
                alpha[members[columns], machine] = Y[members[columns], machine] * solution.coefficients
                bias[machine] = solution.bias
                used[members[columns]] = True
                rows.append(solution.rows)
            second = ("solved by", ", ".join(dict.fromkeys(solution.method for solution in solved)))
            answers = (fact for solution in solved for fact in solution.facts)
            facts |= dict.fromkeys(
                (*gram_of_members.record(), ("gamma", f"{gamma:g}"), *selected.facts, second, *answers)
            )
            measured |= {name: max(value, measured.get(name, value)) for name, value in selected.measured.items()}
        (kept,) = np.nonzero(used)
        single = Y.shape[1] == 1
        self._keep_classes(classes, Y[kept])
        self.n_support_ = int(kept.size)
        for name, value in measured.items():
            setattr(self, name, value)
        support = ("support vectors", f"{kept.size} of {Y.shape[0]} rows")
        self.certificate_ = Certificate(self._title, worst_rows(rows), (*facts, support))
        warn_unless_holds(self.certificate_)
        values = np.ascontiguousarray(alpha[kept, 0] if single else alpha[kept])
        self._keep_expansion(X, kept, kernel, values, float(bias[0]) if single else bias)
        return self

    @abstractmethod
    def _check_parameters(self, smallest: int) -> None:
        """Refuse bad parameters, given the number of rows of the smallest machine, before the kernel is computed."""

    @abstractmethod
    def _select(self, group: MachineGroup) -> Selection:
        """Choose the patterns that each machine of the group keeps."""

    def _solve(self, group: MachineGroup, machine: int, columns: Any) -> Reduced:
        """Solve least squares on the kept columns, all rows."""
        B = bordered_target(group.labels[:, machine])
        solved = solve_columns(group.matrix, columns, B)
        rows = column_rows(group.matrix, columns, B, solved.bias, solved.coefficients)
        method = f"least squares on the columns, {solved.method}"
        y = np.ascontiguousarray(B[1:])
        gamma = positive(self.gamma, "gamma")
        stored = ColumnMachine(y=y, columns=columns, gamma=gamma, bias=solved.bias, coefficients=solved.coefficients)
        bounded: tuple[Row, ...] = ()
        facts: Facts = (_DEPENDENT,)
        if solved.full:
            enclosed = enclose_columns(group.kernel, group.points, columns)
            bounded, facts = _bound_columns(stored, enclosed, None, self._tolerance())
        return Reduced(
            bias=solved.bias, coefficients=solved.coefficients, rows=(*bounded, *rows), method=method, facts=facts
        )


def _groups(Y: Array) -> Iterator[tuple[list[int], Any]]:
    """Yield machines that share their rows, and those rows: all at once for a dense code book, else one by one."""
    if (Y != 0.0).all():
        yield list(range(Y.shape[1])), np.arange(Y.shape[0])
    else:
        yield from (([machine.column], machine.rows) for machine in each_machine(Y, True))


def _bound_columns(
    machine: ColumnMachine, columns: Double, fitted: Array | None, tolerance: float
) -> tuple[tuple[Row, ...], Facts]:
    """Return the row of the solution on the kept columns, none where they cannot be told from dependent ones."""
    bound = machine.bound(columns, fitted)
    if not np.isfinite(bound):
        return (), (_DEPENDENT,)
    row = Tolerance.of(machine.y, np.ones(machine.y.size), tolerance).row(bound, FORMULA)
    return (row,), () if row.passes else (_UNKNOWN,)


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
    coding : {"one_vs_rest", "one_vs_one", "minimum_output", "ecoc"}, default="one_vs_rest"
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
    classes_, code_book_, support_codes_, bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    threshold: float = 0.2
    _title = "LS2-SVM classification"

    def _check_parameters(self, smallest: int) -> None:
        positive(self.threshold, "threshold")

    def _select(self, group: MachineGroup) -> Selection:
        threshold = echelon_threshold(group.gram.diagonal, group.ridge, self.threshold)
        columns = echelon_columns(group.matrix, threshold)
        facts = (("columns", f"echelon reduction, threshold {threshold:.6g}"),)
        return Selection((columns,) * group.labels.shape[1], facts, {"threshold_": threshold})


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
    classes_, code_book_, support_codes_, bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    n_support: float = 0.5
    accelerated: bool = True
    adaline_tol: float = 1e-3
    max_epochs: int = 2000
    _title = "Ada-Pinv classification"

    def _check_parameters(self, smallest: int) -> None:
        support_count(self.n_support, smallest)
        positive(self.adaline_tol, "adaline_tol")
        whole_number(self.max_epochs, "max_epochs", 1)
        if not isinstance(self.accelerated, (bool, np.bool_)):
            raise DeclarationError(f"accelerated must be True or False, received {self.accelerated!r}")

    def _select(self, group: MachineGroup) -> Selection:
        trained = solve_by_adaline(
            group.matrix,
            bordered_target(group.labels),
            tolerance=positive(self.adaline_tol, "adaline_tol"),
            max_epochs=int(self.max_epochs),
            accelerated=bool(self.accelerated),
        )
        weights, residual = trained.weights[1:], float(trained.residual.max())
        kind = "accelerated" if self.accelerated else "plain"
        training = f"{kind}, {trained.epochs} epochs, relative residual {residual:.2e}, ended by {trained.ended}"
        facts = [("Adaline", training)]
        if not trained.is_converged and self.accelerated:
            weights = solve_saddle_system(group.gram, group.labels, group.ridge).support_values
            facts.append(("fallback", "the Adaline did not reach adaline_tol; columns ranked by the direct solution"))
        elif not trained.is_converged:
            warnings.warn(
                f"the plain Adaline ended at a relative residual of {residual:.2e} after {trained.epochs} epochs, "
                f"above adaline_tol = {self.adaline_tol:g}, and its unfinished weights rank the columns; raise "
                "max_epochs or adaline_tol, or use accelerated=True",
                ConvergenceWarning,
                stacklevel=3,
            )
        count = support_count(self.n_support, group.labels.shape[0])
        columns = tuple(ranked_columns(np.abs(a), count) for a in weights.T)
        facts.append(("columns", f"{count} of {group.labels.shape[0]} by absolute alpha"))
        return Selection(columns, tuple(facts), {"n_epochs_": trained.epochs, "residual_": residual})


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
    classes_, code_book_, support_codes_, bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    n_support: float = 0.5
    _title = "IP-LSSVM classification"

    def _check_parameters(self, smallest: int) -> None:
        support_count(self.n_support, smallest)

    def _select(self, group: MachineGroup) -> Selection:
        solved = solve_saddle_system(group.gram, group.labels, group.ridge)
        count = support_count(self.n_support, group.labels.shape[0])
        columns = tuple(ranked_columns(alpha, count) for alpha in (group.labels * solved.support_values).T)
        kept = f"{count} of {group.labels.shape[0]} by signed alpha of the direct solution"
        return Selection(columns, (("columns", kept),))


class PatternModel(ColumnModel, LeavesOut):
    """The LS-SVMs of the patterns left, each without the other rows."""

    conditional = "the patterns that were kept, kernel, gamma and preparation of the columns"

    def ridge(self) -> Array:
        return np.full(self.estimator.support_.size, Regularization(positive(self.estimator.gamma, "gamma")).lam)

    def members(self, alpha: Array, codes: Array) -> Any:
        return alpha != 0.0  # every machine keeps its own rows

    def recall_machine(self, stored: StoredColumns) -> StoredMachine:
        """Return the LS-SVM of the kept patterns alone."""
        machine, kernel = stored.machine, self.estimator.kernel_
        points = points_of(stored.points, machine.columns, kernel.pairwise)
        return StoredSaddle(
            kernel=kernel,
            points=points,
            gram=lambda: definite_gram(kernel, points),
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
        gram, target = group.gram.restrict(columns), np.ascontiguousarray(group.labels[columns, machine])
        points = points_of(group.points, columns, group.kernel.pairwise)
        data = (points, target[:, None], (positive(self.gamma, "gamma"),), np.ones(target.size))
        # an alteration of the whole matrix has been warned of already, and its blocks have other eigenvalues
        warned = bool(group.gram.alterations)
        with warnings.catch_warnings(action="ignore", category=IndefiniteKernelWarning) if warned else nullcontext():
            fit = fit_saddle(group.kernel, *data, Method.closed_form(self._tolerance()), gram=gram)
        doubts = tuple(fact for fact in fit.facts if fact[0] in (NO_BOUND, _UNKNOWN[0]))
        alterations = [str(alteration) for alteration in gram.alterations if alteration not in group.gram.alterations]
        method = "; ".join(["the LS-SVM of the patterns left, closed form", *alterations])
        return Reduced(float(fit.bias[0]), fit.support_values[:, 0], fit.rows, method, doubts)


def _generator(random_state: Any) -> Any:
    """Return a random state as scikit-learn reads it, or one of numpy's generators."""
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.integers(2**31))
    return check_random_state(random_state)
