r"""The substrate family: additive regularization with given constants, sparse by the 1-norm, fused by least squares.

See :mod:`problems.ls_svm_substrate`, :mod:`problems.l1_substrate` and :mod:`problems.fused_least_squares`.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.model_selection import train_test_split

from problems.estimators.base import KernelEstimator
from problems.estimators.coded import CodedClassifier, classes_of
from problems.estimators.given_again import warn_once_unless_holds
from problems.estimators.sparse_answer import SparseAnswers
from problems.estimators.sparse_fit import SparseFit, fit_sparse
from substrate.arrays import Array, positive, real_array
from substrate.certificates import Certificate
from substrate.closed_form.saddle_certificate import saddle_rows, worst_rows
from substrate.closed_form.saddle_system import solve_saddle_system
from substrate.closed_form.stacked_least_squares import CUTOFF, StackedBasis, stacked_rows
from substrate.codings import code_book
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel

__all__ = ["FusedLeastSquaresRegressor", "L1SubstrateClassifier", "L1SubstrateRegressor", "SubstrateRegressor"]


class SubstrateRegressor(RegressorMixin, KernelEstimator):
    """The LS-SVM substrate with given additive regularization constants ([Pelckmans2005]_ eq. (9)-(10)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    c : float, default=0.0
        The constant of every row, in the units of y; a vector goes to :meth:`fit`.

    Attributes
    ----------
    support_values_ : array of shape (n_samples,)
        alpha, the multipliers of y = f + e.
    constants_ : array of shape (n_samples,)
        The constants c used; the errors are alpha + c.
    bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`.
    """

    def __init__(self, kernel: Any = "rbf", c: float = 0.0) -> None:
        self.kernel = kernel
        self.c = c

    def fit(self, X: Any, y: Any, c: Any = None) -> Self:
        """Fit to rows X and targets y, with a constant for each row if ``c`` is given."""
        self._forget()
        X, y, _ = self._checked(X, y, None, numeric=True, multi_output=False)
        chosen = self.c if c is None else c
        if isinstance(chosen, (bool, np.bool_)):
            raise DataError(f"c must be one number or one for each row, received {chosen!r}")
        given = real_array(chosen, "c", ndim=(0, 1))
        if given.ndim == 1 and given.size != y.size:
            raise DataError(f"c must be one number or one for each row: expected {y.size}, received {given.size}")
        constants = np.array(np.broadcast_to(given, y.shape))
        kernel = self._resolved_kernel(X)
        gram = Gram.of(kernel, X)
        if not kernel.trusted:
            gram.check_definite()
        target, ridge = y - constants, np.ones(y.size)
        solved = solve_saddle_system(gram, target, ridge)
        rows = saddle_rows(solved.products, gram.diagonal, target, ridge, solved.support_values, float(solved.bias))
        self.constants_ = constants
        facts = (*gram.record(), ("solver", f"closed form on y - c, refined {solved.refinements} times"))
        self.certificate_ = Certificate("LS-SVM substrate", rows, facts)
        self._keep_expansion(X, np.arange(y.size), kernel, solved.support_values, float(solved.bias))
        return self

    def predict(self, X: Any) -> Array:
        """f(x) = sum_i alpha_i k(x_i, x) + b."""
        return self._expansion(X)


class L1SubstrateRegressor(RegressorMixin, SparseAnswers):
    """The sparse LS-SVM substrate ([Pelckmans2005]_ eq. (16)): support values that are exactly zero, or not.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    zeta : float, default=1.0
        Weight of the 1-norm beside half the squared errors; from ``zeta_max_`` on nothing but the bias is left.
    solver : str, default="auto"
        ``"auto"`` is the active set; ``"cvxpy"`` or a solver's name solves the declared problem, whose small support
        values are then noise and are kept.

    Attributes
    ----------
    support_ : array of shape (n_support,)
        The rows with a support value other than zero.
    n_support_ : int
        How many they are.
    support_values_, support_vectors_ : arrays
        Those rows only.
    zeta_max_ : float
        The smallest zeta that leaves no support values.
    bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`.
    """

    def __init__(self, kernel: Any = "rbf", zeta: float = 1.0, solver: str = "auto") -> None:
        self.kernel = kernel
        self.zeta = zeta
        self.solver = solver

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X and targets y."""
        self._forget()
        zeta = positive(self.zeta, "zeta")
        X, y, _ = self._checked(X, y, None, numeric=True, multi_output=False)
        kernel = self._resolved_kernel(X)
        fit = fit_sparse(kernel, X, Gram.of(kernel, X), y, zeta, self.solver, labels=False)
        (rows,) = np.nonzero(fit.coefficients)
        self.n_support_ = int(rows.size)
        self.zeta_max_ = fit.zeta_max
        self.certificate_ = Certificate("L1 substrate, regression", fit.rows, fit.facts)
        warn_once_unless_holds(self.certificate_)
        self._keep_expansion(X, rows, kernel, fit.coefficients[rows], fit.bias)
        return self

    def predict(self, X: Any) -> Array:
        """f(x) = sum_i alpha_i k(x_i, x) + b over the support."""
        return self._expansion(X)


class L1SubstrateClassifier(SparseAnswers, CodedClassifier):
    """The sparse LS-SVM substrate for classes ([Pelckmans2005]_ eq. (16) with errors 1 - y f).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    zeta : float, default=1.0
        Weight of the 1-norm beside half the squared errors.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, see :mod:`substrate.codings`.
    solver : str, default="auto"
        As for :class:`L1SubstrateRegressor`.

    Attributes
    ----------
    classes_, code_book_, support_codes_
        As for :class:`~problems.LSSVMClassifier`.
    support_, n_support_, support_values_, support_vectors_
        The rows that some machine uses.
    bias_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    def __init__(
        self, kernel: Any = "rbf", zeta: float = 1.0, coding: str = "one_vs_rest", solver: str = "auto"
    ) -> None:
        self.kernel = kernel
        self.zeta = zeta
        self.coding = coding
        self.solver = solver

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X and labels y of any kind."""
        self._forget()
        zeta = positive(self.zeta, "zeta")
        code_book(self.coding, 2)  # an unknown coding is refused before any work
        X, labels, _ = self._checked(X, y, None, numeric=False)
        classes = classes_of(labels)
        book = code_book(self.coding, classes.size)
        Y = book[np.searchsorted(classes, labels)]
        kernel = self._resolved_kernel(X)
        gram = Gram.of(kernel, X)
        alpha, bias, fits = np.zeros_like(Y), np.empty(Y.shape[1]), list[SparseFit]()
        for column in range(Y.shape[1]):
            (members,) = np.nonzero(Y[:, column])
            part = gram if members.size == gram.n else gram.block(members)
            points = X[members][:, members] if kernel.pairwise else X[members]
            y_column = np.ascontiguousarray(Y[members, column])
            fit = fit_sparse(kernel, points, part, y_column, zeta, self.solver, labels=True)
            alpha[members, column], bias[column] = Y[members, column] * fit.coefficients, fit.bias
            fits.append(fit)
        (rows,) = np.nonzero(alpha.any(axis=1))
        one = Y.shape[1] == 1
        self.classes_, self.code_book_ = classes, book
        self.support_codes_ = np.ascontiguousarray(Y[rows, 0] if one else Y[rows])
        self.n_support_ = int(rows.size)
        facts = tuple(dict.fromkeys(fact for fit in fits for fact in fit.facts))
        self.certificate_ = Certificate("L1 substrate, classification", worst_rows([fit.rows for fit in fits]), facts)
        warn_once_unless_holds(self.certificate_)
        kept = np.ascontiguousarray(alpha[rows, 0] if one else alpha[rows])
        self._keep_expansion(X, rows, kernel, kept, float(bias[0]) if one else bias)
        return self


class FusedLeastSquaresRegressor(RegressorMixin, KernelEstimator):
    """Training and validation fused by least squares ([Pelckmans2005]_ eq. (20)-(22)).

    The machine is expanded in the training points and fits the validation points as well. Nothing penalises it: with
    more training than validation points a warning of over-fitting is given.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    cutoff : float, default=1e-10
        Relative size of the directions of kernel values left out; the only regularization there is.
    validation_fraction : float, default=0.5
        Share of the rows that validates when :meth:`fit` is given no validation rows.
    random_state : int, RandomState or None, default=None
        Seed of that split.

    Attributes
    ----------
    validation_error_ : float
        Mean square of y - f over the validation rows.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`, over the training rows.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        cutoff: float = CUTOFF,
        validation_fraction: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.cutoff = cutoff
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit to training rows and validation rows, splitting the former when there are none of the latter."""
        from problems.fused_least_squares import warn_of_overfitting

        self._forget()
        cutoff = positive(self.cutoff, "cutoff")
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val come together; one of them is missing")
        X, y, _ = self._checked(X, y, None, numeric=True, multi_output=False)
        if X_val is None:
            rows, checks = self._split(y.size)
            y_train, y_check = y[rows], y[checks]
            kernel, gram, below = self._kernel_values(X, rows, checks)
        else:
            rows, y_train = np.arange(y.size), y
            X_check, y_check = self._validation(X_val, y_val)
            kernel, gram = self._gram(X)
            below = kernel(X_check, X)
        warn_of_overfitting(y_train.size, y_check.size)
        both = np.append(y_train, y_check)
        basis = StackedBasis.of(np.vstack([gram.matrix, below]), cutoff)
        solved = basis.project(both)
        self.validation_error_ = float(np.mean(solved.errors[y_train.size :] ** 2))
        facts = (
            *gram.record(),
            ("rows", f"{y_train.size} training and {y_check.size} validation"),
            ("coordinates", f"stacked rows, {basis.rank} kept at cut-off {cutoff:.1e}"),
        )
        self.certificate_ = Certificate("Fused least squares", stacked_rows(basis, both, solved.errors, 1e-9), facts)
        self._keep_expansion(X, rows, kernel, solved.coefficients, solved.bias)
        return self

    def predict(self, X: Any) -> Array:
        """f(x) = sum_i alpha_i k(x_i, x) + b over the training rows."""
        return self._expansion(X)

    def _gram(self, X: Any) -> tuple[Kernel, Gram]:
        kernel = self._resolved_kernel(X)
        gram = Gram.of(kernel, X)
        if not kernel.trusted:
            gram.check_definite()
        return kernel, gram

    def _split(self, n: int) -> tuple[Any, Any]:
        """Rows that train and rows that validate."""
        fraction = positive(self.validation_fraction, "validation_fraction")
        if fraction >= 1.0:
            raise DeclarationError(f"validation_fraction must be below 1, received {self.validation_fraction!r}")
        train, valid = train_test_split(np.arange(n), test_size=fraction, random_state=self.random_state)
        return np.sort(train), np.sort(valid)

    def _kernel_values(self, X: Any, rows: Any, checks: Any) -> tuple[Kernel, Gram, Array]:
        """Of both sets of rows against those that train; of a precomputed matrix all of it is checked."""
        if self.__sklearn_tags__().input_tags.pairwise:
            kernel, whole = self._gram(X)
            return kernel, whole.block(rows), whole.matrix[np.ix_(checks, rows)]
        kernel, gram = self._gram(X[rows])
        return kernel, gram, kernel(X[checks], X[rows])
