r"""The LS-SVM regressor.

.. math:: \min_{w,b,e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i e_i^2
          \quad\text{s.t.}\quad y_i = w^T\varphi(x_i) + b + e_i

See :mod:`problems.ls_svm_regression` for the problem and :mod:`substrate.closed_form.saddle_system` for the fast path.
"""

from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags

from problems.estimators.base import KernelEstimator
from substrate.arrays import Array, positive
from substrate.certificates import Certificate, Row
from substrate.closed_form.saddle_certificate import saddle_rows, target_unit, worst_rows
from substrate.closed_form.saddle_system import ridge_of, solve_saddle_system
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.solvers import canonical_name

__all__ = ["LSSVMRegressor"]


class LSSVMRegressor(MultiOutputMixin, RegressorMixin, KernelEstimator):
    """Least-squares support vector regression with an unpenalised bias ([Suykens2002]_ eq. (1)-(9)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of :mod:`substrate.kernels`; a name (``"rbf"`` is ``RBF(sigma="median")``); or a function of two
        point sets. ``kernel__sigma`` reaches its width in a grid search.
    gamma : float or sequence of float, default=1.0
        Weight of the squared errors against the norm; one number, or one for each output.
    solver : str, default="auto"
        ``"auto"`` is the closed form. ``"cvxpy"`` solves the declared problem by the first solver whose residuals are
        accepted; a solver's name (``"CLARABEL"``, ``"OSQP"``, ...) by that one.

    Attributes
    ----------
    support_values_ : array of shape (n_support,) or (n_support, n_outputs)
        alpha, the multipliers of y = f + e.
    bias_ : float or array of shape (n_outputs,)
        b.
    support_ : array of shape (n_support,)
        Rows of X that carry the expansion: all rows of positive weight.
    support_vectors_ : array or sparse matrix of shape (n_support, n_features)
        Those rows (absent for a precomputed kernel).
    kernel_ : Kernel
        The kernel with its width as a number.
    certificate_ : Certificate
        The report on the fit.

    Examples
    --------
    >>> from problems import LSSVMRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> model = LSSVMRegressor(kernel=RBF(sigma=6.6), gamma=2.0).fit(X, y)
    >>> bool(model.certificate_.holds)
    True
    """

    def __init__(self, kernel: Any = "rbf", gamma: Any = 1.0, solver: str = "auto") -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.solver = solver

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        self._forget()
        solver = self.solver if self.solver in ("auto", "cvxpy") else canonical_name(self.solver)
        X, y, weights, rows = self._checked(X, y, sample_weight, multi_output=True)
        gammas = self._gammas(1 if y.ndim == 1 else y.shape[1])
        kernel = self._resolved_kernel(X)
        gram = Gram.of(kernel, X)
        solve = _closed_form if solver == "auto" else _declared
        Y = y[:, None] if y.ndim == 1 else y
        alpha, bias, checks, how = solve(gram, Y, gammas, weights, solver)
        facts = [*gram.record(), ("gamma", ", ".join(f"{gamma:g}" for gamma in dict.fromkeys(gammas))), *how]
        if any(target_unit(column) != 1.0 for column in Y.T):
            facts.append(("units", "residuals in units of max|y|"))
        self.kernel_ = kernel
        self.support_ = rows
        if not kernel.pairwise:
            self.support_vectors_ = X.copy()
        self.bias_ = float(bias[0]) if y.ndim == 1 else bias
        self.certificate_ = Certificate("LS-SVM regression", checks, tuple(facts))
        self.support_values_ = np.ascontiguousarray(alpha[:, 0] if y.ndim == 1 else alpha)
        return self

    def predict(self, X: Any) -> Array:
        """f(x) = sum_i alpha_i k(x_i, x) + b, in memory that does not grow with the number of rows."""
        return self._expansion(X)

    def certify(self, X: Any, y: Any, sample_weight: Any = None) -> Certificate:
        """Check the coefficients this model holds now against the KKT system on the given training data.

        Everything is computed anew from ``X``, ``y``, ``support_values_`` and ``bias_``; a coefficient changed since
        the fit makes the certificate fail.
        """
        X, y, weights, _ = type(self)(self.kernel)._checked(X, y, sample_weight, multi_output=True)
        gram = Gram.of(self.kernel_, X)
        Y = y[:, None] if y.ndim == 1 else y
        alpha = self.support_values_.reshape(Y.shape[0], -1)
        if alpha.shape != Y.shape:
            raise DataError(f"the model has support values of shape {self.support_values_.shape}, y has {y.shape}")
        rows = []
        for column, gamma in enumerate(self._gammas(Y.shape[1])):
            a = np.ascontiguousarray(alpha[:, column])
            ridge = ridge_of(gamma, weights)
            b = float(np.atleast_1d(self.bias_)[column])
            rows.append(saddle_rows(gram.product(a), gram.diagonal, Y[:, column], ridge, a, b))
        return Certificate("LS-SVM regression, checked again", worst_rows(rows), gram.record())

    def _gammas(self, n_outputs: int) -> tuple[float, ...]:
        if isinstance(self.gamma, Real):
            return (positive(self.gamma, "gamma"),) * n_outputs
        if isinstance(self.gamma, str) or not hasattr(self.gamma, "__len__"):
            raise DeclarationError(f"gamma must be a positive number or one for each output, received {self.gamma!r}")
        gammas = tuple(positive(gamma, "gamma") for gamma in self.gamma)
        if len(gammas) != n_outputs:
            raise DeclarationError(
                f"gamma has {len(gammas)} entries for {n_outputs} outputs; give one each or one for all"
            )
        return gammas

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


_Fit = tuple[Array, Array, tuple[Row, ...], list[tuple[str, str]]]


def _closed_form(gram: Gram, Y: Array, gammas: tuple[float, ...], weights: Array, solver: str) -> _Fit:
    """One factorisation for every distinct gamma, all its outputs at once."""
    alpha, bias = np.empty_like(Y), np.empty(Y.shape[1])
    rows, refinements = [], 0
    for gamma in dict.fromkeys(gammas):
        columns = [column for column, other in enumerate(gammas) if other == gamma]
        ridge = ridge_of(gamma, weights)
        solved = solve_saddle_system(gram, Y[:, columns], ridge)
        alpha[:, columns], bias[columns] = solved.support_values, solved.bias
        refinements = max(refinements, solved.refinements)
        for k, column in enumerate(columns):
            a, p = solved.support_values[:, k], solved.products[:, k]
            rows.append(saddle_rows(p, gram.diagonal, Y[:, column], ridge, a, float(solved.bias[k])))
    how = [("solver", f"closed form, refined {refinements} times")]
    return alpha, bias, worst_rows(rows), how


def _declared(gram: Gram, Y: Array, gammas: tuple[float, ...], weights: Array, solver: str) -> _Fit:
    """The declared problem, an output at a time."""
    from problems import ls_svm_regression  # brings cvxpy, which the closed form must not pay for

    name = None if solver == "cvxpy" else solver
    alpha, bias = np.empty_like(Y), np.empty(Y.shape[1])
    rows, how = [], []
    for column, gamma in enumerate(gammas):
        declared = ls_svm_regression.declare(gram, Y[:, column], gamma, weights).solve(name)
        alpha[:, column], bias[column] = declared.support_values, declared.bias
        rows.append(declared.certificate().rows)
        record = declared.solver_record
        how += list(record.facts()) if record is not None else []
    return alpha, bias, worst_rows(rows), list(dict.fromkeys(how))
