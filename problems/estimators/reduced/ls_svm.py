r"""Sparse LS-SVMs on a reduced basis: few vectors in the expansion, the errors of all rows in the objective.

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l \Big( y_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2

[Cawley2002]_ section 2, [Cawley2004]_ eq. (2)-(5); see :mod:`problems.reduced_basis_ls_svm` for the problem and
:mod:`substrate.reduced.solution` for the closed form. Time is linear in the number of rows, memory does not
depend on it, and rows need not be in memory: ``fit`` takes arrays, or a ``.npy`` file and another with its targets, a
Parquet file or folder and the name of a column, Dask arrays and dataframes, or an iterable of blocks ``(X, y)`` that
can be iterated again; see :mod:`substrate.streaming`. Rows are drawn and counted here, not weighted: there is no
``sample_weight``.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.estimators.reduced.fit import ReducedFit, prepare
from problems.estimators.reduced.ls_svm_machine import LeftOutSums, SparseMachine
from problems.estimators.reduced.machine import LabelsAgain
from problems.estimators.shared.coded import RegressedClassifier, ScoredRegressor, numbers_of_codes, scores_of, winners
from problems.estimators.shared.left_out import LeftOut
from substrate.arrays import Array, positive
from substrate.namespaces import on_device_of, take_rows, to_numpy

__all__ = ["SparseLSSVMClassifier", "SparseLSSVMRegressor"]


@dataclass(eq=False, repr=False)
class SparseLSSVMRegressor(ScoredRegressor, SparseMachine):
    """Least-squares support vector regression on a reduced basis ([Cawley2002]_, [Cawley2004]_ eq. (2)-(3)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`; beyond 8192 rows a width ``"median"`` is that of 8192 of them, always
        the same ones for the same number of rows.
    gamma : float, default=1.0
        Weight of the squared errors of all rows against the norm; twice that of [Cawley2004]_.
    tol : float, default=1e-6
        Share of the spread of y that the accuracy of the fitted values may be for the certificate to hold.
    n_basis : int, default=None
        How many vectors, at most; None is 100, or all rows where there are fewer.
    basis : str, array of int, or array of points, default="feature_vectors"
        A rule by which rows become the basis: ``"feature_vectors"`` (greedy, the smallest mean reconstruction error),
        ``"stochastic"`` (the same from 59 rows drawn at each step), ``"pruned"`` (backward, by the size of beta, see
        [Cawley2002]_), ``"renyi"`` (entropy, as in fixed-size LS-SVMs), ``"kmeans++"`` (spread in feature space),
        ``"pivoted_cholesky"`` (the worst reconstructed row next), ``"random"``. Or the numbers of the rows; or the
        points themselves, which need not be rows.
    n_candidates : int, default=2000
        How many rows ``"feature_vectors"``, ``"stochastic"``, ``"pivoted_cholesky"`` and ``"pruned"`` choose from; ten
        times as many for ``"renyi"`` and ``"kmeans++"``. Drawn at random where there are more; None is all rows.
    n_scoring : int, default=1000
        How many rows, drawn at random, reconstruction errors are averaged over; None is all of them. With None for both
        the greedy rule is the published one, and needs a matrix of all pairs.
    reconstruction_tolerance : float, default=0.0
        Mean reconstruction error at which ``"feature_vectors"``, ``"stochastic"`` and ``"pivoted_cholesky"`` stop.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything drawn at random; nothing is where all rows are candidates and scoring rows of a greedy rule.
        What is drawn are numbers of rows: the same seed means the same rows of an array, a file or a cluster.
    executor : None, str, dask.distributed.Client or Executor, default=None
        Who makes the passes over the rows: this process (None, with threads for a basis so large that products deserve
        them; ``"serial"``, without), its threads (``"joblib"``), a cluster of this machine made for the fit
        (``"dask"``), a Dask scheduler by its address (``"tcp://host:8786"``), or a client. The result is the same to
        the last bit, on workers with one kind of processor and BLAS library.
    memory_budget : float, default=64 MiB
        Bytes of rows that a process reads at a time, also of mapped files, which are read and not mapped. It changes no
        bit of the model.
    checkpoint : path, default=None
        A file in which a fit that is interrupted leaves its sums, and from which the same call goes on; it is removed
        when the fit is done. Needs an integer ``random_state``.
    verbose : bool, default=False
        Whether a line on the terminal says how far a pass is, in rows and rows a second.
    solver : {"auto", "direct", "cg"}, default="auto"
        ``"direct"``, which is also ``"auto"``, sums products of features in one pass. ``"cg"`` makes ten to twenty-five
        passes of conjugate gradients instead, see :mod:`substrate.reduced.gradients`; with a wide kernel it
        can pay from 1000 to 2000 basis vectors on. It knows no leverages: no leave-one-out, no degrees of freedom, no
        checkpoint.

    Attributes
    ----------
    support_values_ : array of shape (n_basis,)
        beta, the coefficients of the expansion.
    bias_ : float
        b.
    basis_indices_ : array of shape (n_basis,) or None
        Which rows the basis is; None where points were given.
    basis_, support_vectors_ : array of shape (n_basis, n_features)
        The basis vectors (absent for a precomputed kernel).
    support_ : array of shape (n_basis,)
        ``basis_indices_``, or the numbers of the given points.
    reconstruction_error_ : float
        Mean relative error with which the basis spans the scoring rows in feature space.
    rank_ : int
        Directions of the basis above rounding; below n_basis where vectors tie or nearly do.
    degrees_of_freedom_ : float
        Trace of the hat matrix (absent for ``solver="cg"``).
    leverage_factor_, leverage_offset_ : array
        What leave-one-out needs: the leverage of x is ``1/n_rows_ + ||factor k(x) - offset||^2`` (absent as well).
    n_rows_ : int
        How many rows were fitted.
    kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`.

    Examples
    --------
    >>> from problems import SparseLSSVMRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> model = SparseLSSVMRegressor(kernel=RBF(sigma=10.0), gamma=20.0, n_basis=15).fit(X, y)
    >>> model.basis_.shape, bool(model.certificate_.holds)
    ((15, 1), True)
    """

    _on_devices = True
    _title = "Sparse LS-SVM regression"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the basis, then fit to all rows, wherever they are.

        :place [Cawley2004]_ section 3.1: fifteen vectors are the full model on motorcycle
        """
        self._begin_fit()
        gamma, choice = positive(self.gamma, "gamma"), self._choice()
        self._check_solver()
        with self._reading(X, y) as data:
            fit = self._solved(prepare(self._data_kernel(data), data, choice, 1.0 / gamma), gamma)
            self._keep_of_rows(fit)
        self._keep(fit, True)
        return self

    def predict(self, X: Any) -> Array:
        """f(x) = sum_j beta_j k(z_j, x) + b."""
        return self._expansion(X)

    def leave_one_out(self, X: Any = None, y: Any = None) -> LeftOut | LeftOutSums:
        """Outputs, residuals and criteria of every training row with that row left out, in one pass without a refit.

        The training rows are given again, since the model keeps its basis only; of rows that are read in passes, those
        of mapped files among them, only the criteria are kept. Basis, kernel, gamma and scaling are unchanged although
        the left-out row contributed to their choice, which the certificate states.
        """
        self._check_leverages(X)
        with self._reading_again(X, y) as data:
            return self._left_out(data, self._fitted_gamma(), True)

    def _keep_of_rows(self, fit: ReducedFit) -> None:
        """Further quantities of a machine, computed while its rows can be read."""


@dataclass(eq=False, repr=False)
class SparseLSSVMClassifier(LabelsAgain, RegressedClassifier, SparseMachine):
    """The least-squares support vector classifier on a reduced basis, two classes or more.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMClassifier`.
    gamma : float, default=1.0
        Weight of the squared errors of all rows against the norm.
    tol : float, default=1e-6
        Share of the spread of y that the accuracy of the fitted values may be for the certificate to hold.
    n_basis, basis, n_candidates, n_scoring, reconstruction_tolerance, random_state
        As for :class:`SparseLSSVMRegressor`.
    executor, memory_budget, checkpoint
        As for :class:`~problems.SparseLSSVMRegressor`.
    verbose, solver
        As for :class:`SparseLSSVMRegressor`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, all on one basis and one statistic. For pairs of classes
        use scikit-learn's ``OneVsOneClassifier``.

    Attributes
    ----------
    classes_, code_book_
        As for :class:`~problems.LSSVMClassifier`.
    support_values_ : array of shape (n_basis,) or (n_basis, n_machines)
        beta, in the sign of regression on the labels.
    bias_, basis_, basis_indices_, support_, support_vectors_, reconstruction_error_, rank_, degrees_of_freedom_
        As for :class:`SparseLSSVMRegressor`.
    leverage_factor_, leverage_offset_, n_rows_, kernel_, certificate_
        As for :class:`SparseLSSVMRegressor`.
    """

    _on_devices = True
    _title = "Sparse LS-SVM classification (as regression on the labels)"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the basis, then fit to all rows and labels of any kind, wherever they are."""
        self._begin_fit()
        gamma, choice = positive(self.gamma, "gamma"), self._choice()
        self._check_solver()
        self._check_coding()
        with self._reading(X, y, coding=self.coding) as data:
            fit = self._solved(prepare(self._data_kernel(data), data, choice, 1.0 / gamma), gamma)
        self._keep_classes(data.classes)
        self._keep(fit, data.outputs == 1)
        return self

    def leave_one_out(self, X: Any = None, y: Any = None) -> LeftOut | LeftOutSums:
        """The outputs for each training row of the machines fitted without it; see :class:`SparseLSSVMRegressor`."""
        self._check_leverages(X)
        with self._reading_again(X, y) as data:
            return self._left_out(data, self._fitted_gamma(), self.support_values_.ndim == 1)

    def _judged(self, outputs: Array, Y: Array) -> tuple[Any, float | None]:
        found, known = winners(scores_of(outputs, self.coding, self.code_book_)), numbers_of_codes(Y, self.code_book_)
        return take_rows(on_device_of(found, self.classes_), found), float(np.mean(to_numpy(found != known)))
