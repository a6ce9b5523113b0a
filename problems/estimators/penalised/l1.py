r"""The L1 substrate: sparsity by the 1-norm, on all rows or on a basis.

.. math:: \min_{a, b} \; \tfrac12 \sum_i v_i \Big( y_i - \sum_j a_j k(x_i, z_j) - b \Big)^2 + \zeta \|a\|_1
          + \tfrac{\tau}{2} a^T E a

On all rows :math:`1^T a = 0`, see :mod:`problems.l1_substrate`; on a basis there is no such constraint, see
:mod:`problems.reduced_l1_substrate`. The weights v are one unless ``sample_weight`` gives others.
"""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from problems.estimators.reduced_fit import choose_basis
from problems.estimators.shared.base import (
    Added,
    Facts,
    KernelEstimator,
    StoredFit,
    WeightedRows,
    certify_stored,
    weight_facts,
)
from problems.estimators.shared.checks import definite_gram
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, non_negative, positive
from substrate.bounds.proof import Proof, prove_l1, tolerance_in_balls
from substrate.certificate import Accuracy, Certificate, Tolerance, power_of_two, warn_unless_holds
from substrate.errors import DataError
from substrate.fits.l1 import l1_rows, solve_l1, zeta_max
from substrate.kernels import Kernel
from substrate.penalties import Columns, OneNorm, accuracy_of

__all__ = [
    "LEAST_ZETA",
    "L1Columns",
    "L1Machine",
    "L1SubstrateClassifier",
    "L1SubstrateRegressor",
]

#: Zeta in place of zero.
LEAST_ZETA = float(np.finfo(np.float64).tiny)
_UNKNOWN = (
    "rounding",
    "double precision cannot give the answer to this tolerance; scale the columns, centre the inputs, or take a "
    "larger zeta",
)
_INDEFINITE = ("accuracy", "unknown: the kernel matrix is not positive semi-definite, and w'w is no norm")


@dataclass(frozen=True, slots=True)
class L1Columns:
    """The columns of all machines of a fit: kernel values of its rows with all rows, or with the points of a basis.

    The ``energy`` is the kernel matrix of their points; where the kernel is a precomputed matrix, ``points`` are the
    numbers of its columns. Where the columns belong to the ``whole`` of the rows, coefficients sum to zero.
    ``negative`` is infinite for an indefinite matrix.
    """

    kernel: Kernel
    X: Any
    points: Any
    matrix: Array
    energy: Array
    whole: bool = True
    negative: float = 0.0
    facts: Facts = ()

    @classmethod
    def of(cls, kernel: Kernel, X: Any, basis: Any = None) -> "L1Columns":
        """Return the columns of all rows, or of a basis: points, or numbers of columns where the matrix is given."""
        gram = definite_gram(kernel, X if basis is None or kernel.pairwise else basis)
        E, facts = np.array(gram.matrix), tuple(gram.record())
        if basis is None:
            points = np.arange(gram.n) if kernel.pairwise else X
            return cls(kernel, X, points, E, E, True, gram.negative, facts)
        if kernel.pairwise:
            matrix, E = np.ascontiguousarray(E[:, basis]), np.ascontiguousarray(E[np.ix_(basis, basis)])
        else:
            matrix, facts = kernel.values(X, basis), tuple(fact for fact in facts if fact[0] != "Gram matrix")
        return cls(kernel, X, basis, matrix, E, False, gram.negative, facts)


@dataclass(frozen=True, slots=True)
class L1Machine:
    """One machine on its columns; of one that is solved, coefficients, bias, and what ``predict`` returns."""

    columns: L1Columns
    y: Array
    weights: Array
    zeta: float
    ridge: float
    tolerance: float
    a: Any = None
    b: float = 0.0
    fitted: Any = None
    facts: Facts = ()

    def solve(self) -> "L1Machine":
        """Return the machine with its solution, by the path down to zeta, in the units of y."""
        unit, columns = power_of_two(float(np.abs(self.y).max())), self.columns
        solved = solve_l1(columns.matrix, self.y / unit, self.zeta / unit, ridge=self.ridge, **self._how())
        a, b = unit * solved.coefficients, unit * solved.bias
        (used,) = np.nonzero(a)
        points = None if columns.kernel.pairwise else columns.points[used]
        numbers = columns.points[used] if columns.kernel.pairwise else used
        fitted = columns.kernel.expansion_values(points, a[used], b, columns.X, numbers)
        return replace(self, a=a, b=b, fitted=fitted, facts=(("solver", f"exact path, {len(solved.path)} knots"),))

    def zeta_max(self) -> float:
        """Return the smallest zeta at which all coefficients are zero."""
        return zeta_max(self.columns.matrix, self.y, weights=self._unequal(), zero_sum=self.columns.whole)

    def bound(self) -> Accuracy:
        """Return the row of the answer."""
        given = self.columns
        basis: Any = {} if given.whole else {"points": given.points, "energy": given.energy}
        columns = Columns.of_kernel(given.kernel, given.X, given.matrix, self.ridge, weights=self.weights, **basis)
        tolerance = Tolerance.of(self.y, self.weights, self.tolerance)
        row = accuracy_of(columns, OneNorm(self.zeta, given.whole), self.y, self.a, self.fitted, tolerance)
        return replace(row, value=float("inf")) if self._is_indefinite else row

    def certify(self) -> Added:
        """Bound the answer, and check the conditions of optimality."""
        answer = self.bound()
        checks = l1_rows(self.columns.matrix, self.y, self.zeta, self.a, self.b, ridge=self.ridge, **self._how())
        doubt = _INDEFINITE if self._is_indefinite else _UNKNOWN
        return (answer, *checks), self.facts if answer.passes else (*self.facts, doubt)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        tolerance, columns = tolerance_in_balls(self.y, self.weights, self.tolerance), self.columns
        if self._is_indefinite:
            return Proof.of(float("inf"), tolerance, 0, "the kernel matrix is not positive semi-definite")
        penalty = OneNorm(self.zeta, columns.whole)
        arguments = (self.y, penalty, self.a, self.fitted, self.weights, tolerance, self.ridge)
        return prove_l1(columns.kernel, columns.X, columns.points, *arguments)

    @property
    def _is_indefinite(self) -> bool:
        """Return whether the matrix is indefinite and has a ridge, which would make the problem non-convex."""
        return self.ridge > 0.0 and np.isinf(self.columns.negative)

    def _how(self) -> dict[str, Any]:
        """Return the arguments of the solver and of the conditions other than the columns."""
        return {"weights": self._unequal(), "energy": self.columns.energy, "zero_sum": self.columns.whole}

    def _unequal(self) -> Array | None:
        """Return the weights of the rows; None where all are one."""
        return None if (self.weights == 1.0).all() else self.weights


@dataclass(eq=False, repr=False)
class L1Substrate(KernelEstimator):
    """A base of the L1 substrates, of numbers or of classes: their parameters, and the fit.

    :class:`L1SubstrateRegressor` documents them.
    """

    _page = "l1_substrate"
    _typical = ({"ridge": 0.1}, {"basis": 10})
    zeta: float = 1.0
    _: KW_ONLY
    basis: Any = None
    ridge: float = 0.0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y, or labels of any kind; ``sample_weight`` weighs the squared errors against zeta.

        With ``basis`` X may be blocks ``(X, y)`` or a Dask collection.
        """
        self._begin_fit()
        zeta, ridge = self._weights()
        given = self._read_rows(X, y, sample_weight)
        coded, kernel = self._encode(given.y), self._resolved_kernel(given.X)
        Y = coded.codes(given.y)
        basis = None if self.basis is None else choose_basis(self, "kmeans++", kernel, given, Y)
        points = given.X if basis is None else basis.points
        columns = L1Columns.of(kernel, given.X, None if basis is None else basis.rows if points is None else points)
        shared = (given.weights, zeta, ridge, self._tolerance())
        machines = [L1Machine(columns, y, *shared).solve() for y in np.ascontiguousarray(Y.T)]
        checked = certify_stored(self._title, StoredFit(machines))
        coefficients = np.column_stack([machine.a for machine in machines])
        (used,) = np.nonzero(coefficients.any(axis=1))
        kept, bias, names = coefficients[used], np.array([machine.b for machine in machines]), used
        self._keep_classes(coded)
        if basis is None:
            names = given.numbers[used]
        else:
            self.basis_indices_: Any = None if basis.rows is None else given.numbers[basis.rows]
            names = used if basis.rows is None else given.numbers[basis.rows][used]
            if points is not None:
                self.candidates_ = points
        self.zeta_max_ = max(machine.zeta_max() for machine in machines)
        self.n_support_, self.n_rows_ = int(used.size), int(Y.shape[0])
        facts = (
            *columns.facts,
            ("zeta", f"{zeta:g}"),
            *((("ridge", f"{ridge:g}/2 w'w is part of the objective"),) if ridge > 0.0 else ()),
            *checked.record,
            *(() if basis is None else (("basis", basis.description),)),
            *weight_facts(given.weights),
        )
        self.certificate_ = Certificate(self._title, checked.rows, facts)
        warn_unless_holds(self.certificate_)
        self._keep_outputs(None if kernel.pairwise else points[used], names, kernel, kept, bias)
        return self

    def _weights(self) -> tuple[float, float]:
        """Return the weights of the 1-norm and of half the squared norm of w, checked."""
        return positive(self.zeta, "zeta"), non_negative(self.ridge, "ridge", "as the weight of a squared norm")

    def _recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return all machines on the data of the fit."""
        given = self._read_rows(X, y, sample_weight, again=True)
        Y, weights = self._codes_again(given.y), self._weights()
        facts = (("kernel", repr(self.kernel_)), ("zeta", f"{weights[0]:g}"), *weight_facts(given.weights))
        return StoredFit(self._recall_machines(given, Y, *weights), ((), facts))

    def _recall_machines(self, given: WeightedRows, Y: Array, zeta: float, ridge: float) -> Iterator[L1Machine]:
        """Return every machine, with the coefficients of all its columns and the values that ``predict`` returns."""
        kernel, pairwise, support = self.kernel_, self.kernel_.pairwise, self.support_
        points, names = None, given.numbers  # the numbers of the columns as support_ has them
        if self.basis is not None:
            rows = self.basis_indices_
            points = np.searchsorted(given.numbers, rows) if pairwise else self.candidates_
            names = np.arange(self.candidates_.shape[0]) if rows is None else rows
        if not np.isin(support, names).all():
            raise DataError(f"the model has support at row {support.max()}, these are {Y.shape[0]} rows")
        columns, stored = L1Columns.of(kernel, given.X, points), self.support_values_
        vectors = None if pairwise else self.support_vectors_
        used = np.searchsorted(given.numbers, support)  # in a given matrix, without rows of weight zero
        values = kernel.expansion_values(vectors, stored, self.bias_, given.X, used)
        fitted, biases = np.reshape(values, Y.shape), np.atleast_1d(self.bias_)
        coefficients = np.zeros((names.size, Y.shape[1]))
        order = np.argsort(names)
        coefficients[order[np.searchsorted(names[order], support)]] = np.reshape(stored, (support.size, Y.shape[1]))
        shared = (given.weights, zeta, ridge, self._tolerance())
        for k, y in enumerate(np.ascontiguousarray(Y.T)):
            yield L1Machine(columns, y, *shared, coefficients[:, k], float(biases[k]), fitted[:, k], columns.facts)


@dataclass(eq=False, repr=False)
class L1SubstrateRegressor(L1Substrate, Regressor):
    """The sparse LS-SVM substrate ([Pelckmans2005]_ eq. (16)): most support values are exactly zero.

    With a ``ridge``, which is not in the paper, it goes over into the LS-SVM.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    zeta : float, default=1.0
        Weight of the 1-norm against half the squared errors; from ``zeta_max_`` on only the bias is left.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    basis : Basis, int, str, array or None, default=None
        The points among which the 1-norm chooses, for many rows; None: all rows, and their support values sum to zero.
        A :class:`~substrate.basis.Basis` or its short forms; a basis that names no rule is chosen by ``"kmeans++"``.
    ridge : float, default=0.0
        Weight of half the squared norm of w: with it and a small zeta the machine is the LS-SVM of gamma = 1/ridge.

    Attributes
    ----------
    support_ : array of shape (n_support,)
        The rows with a support value other than zero (numbers of the points of a basis that was given as points).
    n_support_ : int
        The number of those rows.
    support_values_, support_vectors_ : arrays
        Those rows only.
    n_rows_ : int
        The number of rows of positive weight.
    zeta_max_ : float
        The smallest zeta at which all support values are zero, whatever the ridge.
    candidates_ : array of shape (n_basis, n_features)
        All basis vectors (with ``basis`` only; absent for a precomputed kernel).
    basis_indices_ : array of shape (n_basis,) or None
        Their rows, None for points.
    bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`.

    Examples
    --------
    >>> from problems import L1SubstrateRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> model = L1SubstrateRegressor(kernel=RBF(sigma=5.0), zeta=50.0, basis=30).fit(X, y)
    >>> model.n_support_ < 20, bool(model.certificate_.holds)
    (True, True)
    """

    _title = "L1 substrate, regression"


@dataclass(eq=False, repr=False)
class L1SubstrateClassifier(L1Substrate, Classifier):
    """The sparse LS-SVM substrate for classes ([Pelckmans2005]_ eq. (16) with errors 1 - y f).

    Parameters
    ----------
    kernel, zeta, tol
        As for :class:`L1SubstrateRegressor`, with the same zeta in every machine.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, from decision values of rows left out in five folds.
    basis, ridge
        As for :class:`L1SubstrateRegressor`.

    Attributes
    ----------
    classes_, code_book_
        As for :class:`~problems.LSSVMClassifier`.
    support_, n_support_, support_values_, support_vectors_
        The rows, or basis vectors, that some machine uses.
    zeta_max_ : float
        The smallest zeta that leaves no support value in any machine.
    candidates_, basis_indices_, n_rows_, bias_, kernel_, certificate_
        As for :class:`L1SubstrateRegressor`.
    """

    _title = "L1 substrate, classification"

    def _fold_machine(self, X: Any) -> Any:
        """Return the machine on the same basis vectors, unless they are columns of a matrix, or all rows."""
        machine = super()._fold_machine(X)
        if self.basis is None or self.kernel_.pairwise:
            return machine
        return machine.set_params(kernel=self.kernel_, basis=self.candidates_)
