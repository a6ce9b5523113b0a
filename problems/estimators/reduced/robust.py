r"""Robust regression on a reduced basis: the weights of [Suykens2002]_ with the expansion of [Cawley2004]_.

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l v_i \Big( y_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2

See :mod:`substrate.reduced.reweighting` for the passes and :mod:`substrate.least_squares.robust_weights` for
weights and scales. No weight is stored: each is a function of its row and of the previous fit. A
``sample_weight`` multiplies it, and counts in the robust scale.
"""

import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from problems.estimators.reduced.fit import FitData, PreparedRows, prepare
from problems.estimators.reduced.machine import BASIS, READERS, ReducedModel
from problems.estimators.reduced.weighed import weight_facts
from problems.estimators.shared.checked_again import Added, StoredMachine
from problems.estimators.shared.encoding import ReducedReweighting
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, positive, whole_number
from substrate.certificates import Certificate, warn_unless_holds
from substrate.errors import DataError
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.robust_weights import SCALES, WEIGHTINGS, check_choice, robust_weights
from substrate.proof import Proof
from substrate.reduced.moments import accumulate
from substrate.reduced.reweighting import Reweighted, errors_of_rows, iterate_weights, reweigh
from substrate.reduced.rows import KernelRows
from substrate.reduced.solution import ReducedSolution, solve_reduced
from substrate.reduced.spectrum import reduced_spectrum

__all__ = ["RobustSparseLSSVMRegressor"]

#: The quantities that the rows of the certificate check.
_WEIGHTED = ("residuals", "of the weighted rows: e, K and 1 times the root of v")


class RobustReducedModel(ReducedModel):
    """The weighted machines of all reweightings on one basis."""

    def recall_machines(self, data: FitData, X: Any, y: Any) -> StoredMachine:
        return StoredRobust(model=self, data=data, gamma=positive(self.estimator.gamma, "gamma"), X=X, y=y)

    def fits(self, prepared: PreparedRows, gamma: float, most: int, tolerance: float) -> Iterable[Reweighted]:
        """Return all fits on one basis, the plain one first."""
        model, lam, features = self.estimator, Regularization(gamma).lam, prepared.features

        def solve(rows: KernelRows) -> ReducedSolution:
            statistic = accumulate(rows, features, prepared.origin, lam, prepared.K)
            spectrum = reduced_spectrum(statistic)
            return solve_reduced(rows, spectrum, lam, prepared.K, prepared.targets, model._tolerance())

        return iterate_weights(prepared.rows, prepared.K, solve, model.weighting, model.scale, most, tolerance)

    def weigh_again(self, rows: KernelRows) -> KernelRows:
        """Return rows with the weights of the last fit."""
        model = self.estimator
        if len(model.history_) < 2:
            return rows
        before = model.history_[-2]
        errors = errors_of_rows(rows, before.support_values, before.bias)
        return reweigh(rows, robust_weights(errors, model.scale_, model.weighting))

    def facts(self, fits: tuple[Reweighted, ...], rows: KernelRows) -> tuple[tuple[str, str], ...]:
        last = fits[-1]
        settled = f", last change {last.change:.1e}" if np.isfinite(last.change) else ""
        weights_given = "" if rows.weights is None else "with those given "
        light = f"{weights_given}they sum to {last.mass:.6g} over {rows.n_rows} rows"
        if len(fits) > 1 and last.scale == 0.0:
            light = "all left at one: the robust scale of the errors is zero, so no error is large"
        return (
            ("weights", f"{self.estimator.weighting}, {self.estimator.scale} scale {last.scale:.3g}: {light}"),
            ("reweightings", f"{len(fits) - 1}{settled}"),
            ("solver", f"sums over the rows, refined {last.solution.refinements} times"),
        )

    def check_loaded(self) -> None:
        """Refuse a history that no fit leaves."""
        super().check_loaded()
        steps = self.estimator.history_
        if not steps or not all(isinstance(step, ReducedReweighting) for step in steps):
            raise DataError("the history of a robust model must hold one record per fit")
        if any(step.support_values.shape != self.estimator.support_values_.shape for step in steps):
            raise DataError("the history and the support values do not belong together")


@dataclass(eq=False, repr=False)
class RobustSparseLSSVMRegressor(Regressor):
    """Weighted LS-SVM regression on a reduced basis, robust against outliers at any number of rows.

    [Suykens2002]_ Algorithm 1 on the machine of [Cawley2004]_ eq. (2)-(3).

    Parameters
    ----------
    kernel, gamma, tol, basis
        As for :class:`~problems.SparseLSSVMRegressor`.
    weighting, scale
        As for :class:`~problems.Robust`; the scale is that of the errors of all rows, exact.
    max_reweightings : int, default=1
        Maximum number of weighted fits after the plain one. The paper has one; more iterate until convergence.
    weights_tol : float, default=1e-4
        Largest change of w, relative to its norm, at which the iteration has converged.

    Attributes
    ----------
    scale_ : float
        The robust scale from which the weights of the last fit were computed.
    history_ : tuple of ReducedReweighting
        Each fit, the plain one first: beta, bias, scale, the sum of its weights, and the change.
    support_values_, bias_, basis_, basis_indices_, support_, support_vectors_, reconstruction_error_, rank_
        As for :class:`~problems.SparseLSSVMRegressor`.
    n_rows_, kernel_, certificate_
        As for :class:`~problems.SparseLSSVMRegressor`; the certificate is that of the last weighted problem.

    Examples
    --------
    >>> from problems import RobustSparseLSSVMRegressor
    >>> from substrate.datasets import sinc_outliers
    >>> from substrate.kernels import RBF
    >>> X, y = sinc_outliers(random_state=0)
    >>> model = RobustSparseLSSVMRegressor(kernel=RBF(sigma=1.0), gamma=10.0, basis=20).fit(X, y)
    >>> int((model.row_weights(X, y) < 0.01).sum())  # the three outliers, and two rows of large noise
    5
    """

    _model_type = RobustReducedModel
    _typical = ({"gamma": 10.0},)
    _page, _title, _location = "reduced_basis_ls_svm", "Weighted sparse LS-SVM", "weighted"
    _readers = READERS
    _rows_have_targets = True
    gamma: float = 1.0
    _: KW_ONLY
    basis: Any = None
    weighting: str = "hampel"
    scale: str = "iqr"
    max_reweightings: int = 1
    weights_tol: float = 1e-4

    basis_ = BASIS

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the basis, fit to all rows, wherever they are, and fit again with weights.

        ``sample_weight`` is that of :class:`~problems.SparseLSSVMRegressor`, and multiplies the robust weights; on a
        given basis a row of weight 2 counts as two rows, also in the robust scale.
        """
        self._begin_fit()
        model, gamma = self._model, positive(self.gamma, "gamma")
        model.choice()  # refused before any row is read
        most = whole_number(self.max_reweightings, "max_reweightings")
        tolerance = positive(self.weights_tol, "weights_tol")
        check_choice(self.weighting, WEIGHTINGS, "weighting")
        check_choice(self.scale, SCALES, "scale")
        data = model.read(X, y, sample_weight)
        prepared = prepare(model.data_kernel(data), data, model.choice(), Regularization(gamma).lam)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not finite, and its rows fail
            fits = tuple(model.fits(prepared, gamma, most, tolerance))
        last = fits[-1]
        if most > 1 and last.change > tolerance:
            warnings.warn(
                f"w still changed by {last.change:.2g} of its norm after {most} reweightings; raise max_reweightings, "
                "or weights_tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        facts = (*prepared.facts, ("gamma", f"{gamma:g}"), *weight_facts(prepared.rows))
        facts += (*model.facts(fits, prepared.rows), _WEIGHTED, *last.solution.facts)
        self.scale_ = float(last.scale)
        self.history_ = tuple(
            ReducedReweighting(
                support_values=fit.solution.coefficients[:, 0].copy(),
                bias=float(fit.solution.bias[0]),
                scale=fit.scale,
                mass=fit.mass,
                change=fit.change,
            )
            for fit in fits
        )
        self.certificate_ = Certificate(self._title, (last.solution.row,), facts)
        warn_unless_holds(self.certificate_)
        model.keep_machine(prepared, last.solution.coefficients[:, 0], float(last.solution.bias[0]))
        return self

    def row_weights(self, X: Any, y: Any) -> Array:
        """Return the robust weights v of the last fit for these rows, or any others: from the errors of the previous
        fit.

        They are without ``sample_weight``.
        """
        check_is_fitted(self)
        X, y, _ = self._check_again(X, y, None, numeric=True)
        if len(self.history_) < 2:
            return np.ones(y.size)
        before, model = self.history_[-2], self._model
        rows = model.rows_on(FitData.of_numbers(X, y), self.support_ if self.kernel_.pairwise else self.basis_)
        errors = errors_of_rows(rows, before.support_values, before.bias)
        return robust_weights(errors, self.scale_, self.weighting)


@dataclass(frozen=True, slots=True)
class StoredRobust:
    """The last weighted machine of a model; its robust weights are those of the errors of the previous fit."""

    model: RobustReducedModel
    data: FitData
    gamma: float
    X: Any
    y: Any

    def certify(self) -> Added:
        """Bound the answer and check the equations, in passes over the rows."""
        rows = self.model.weigh_again(self.model.training_rows(self.data))
        return self.model.certify(rows, self.gamma, (_WEIGHTED,))

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic; the weights are numbers here."""
        training_rows = self.model.read_in_memory(self.data)  # refuses rows whose weights are not known
        robust = self.model.estimator.row_weights(self.X, self.y)
        kept = robust if training_rows.weighed.kept is None else robust[training_rows.weighed.kept]
        return self.model.prove(training_rows, self.gamma, training_rows.weights * kept)
