r"""Training and validation fused by least squares, see :mod:`problems.fused_least_squares`.

.. math:: \min_{a, b} \; \|t - \Phi a - b 1\|^2 \quad \text{s.t.} \quad 1^T a = 0

over the directions of :math:`\Phi` above a cut-off. Nothing else regularises: singular values near the cut-off decide
which directions count, and rounding changes those. The fitted values therefore have no bound; the certificate states
this, and checks that what ``predict`` returns is the projection of the targets on the directions that were kept.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.model_selection import train_test_split

from problems.estimators.shared.checked_again import Added, StoredFit, certify_stored, definite_gram
from problems.estimators.shared.machine_rows import points_of
from problems.estimators.shared.model import Model
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array, positive
from substrate.certificates import NO_BOUND, Certificate, Row, warn_unless_holds
from substrate.certificates.rows import Distance, root_mean_square, scale_of, spread_of
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.stacked_least_squares import CUTOFF, StackedBasis, stacked_rows
from substrate.namespaces import take_rows
from substrate.proof import Proof

__all__ = ["FusedLeastSquaresRegressor", "ProjectionModel", "StackedRows", "no_proof", "projection_row"]

_REASON = "only the cut-off regularises, and rounding decides on which side of it a direction of kernel values falls"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackedRows:
    """Rows of a fit: points, the numbers of those that train, the points that validate, targets of the former and of
    these, kernel values.
    """

    X: Any
    rows: Any
    X_check: Any
    targets: Array
    kernel: Kernel
    gram: Gram
    below: Array

    @property
    def values(self) -> Array:
        """Kernel values of training and validation rows with the training rows."""
        return np.vstack([self.gram.matrix, self.below])

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return facts of the matrix, and the numbers of rows."""
        n = self.gram.n
        return (*self.gram.record(), ("rows", f"{n} training and {self.targets.size - n} validation"))


class ProjectionModel(Model):
    """The projection of the targets of training and validation rows on the directions that are kept."""

    def recall_fit(
        self, X: Any, y: Any, sample_weight: Any, X_val: Any = None, y_val: Any = None
    ) -> AbstractContextManager[StoredFit]:
        """Return the model on the data of the fit; ``X_val`` and ``y_val`` are those of ``fit``, if any."""
        return nullcontext(StoredFit((_StoredProjection(model=self, X=X, y=y, X_val=X_val, y_val=y_val),)))

    def stack_again(self, X: Any, y: Any, X_val: Any, y_val: Any) -> tuple[StackedRows, Array]:
        """Return training and validation rows as they were fitted, and their predictions."""
        model = self.estimator
        X, y, _ = model._check_again(X, y, None, numeric=True)
        pairwise, train = model.kernel_.pairwise, model.support_
        if train.size and int(train.max()) >= y.size:
            raise DataError(f"the model was fitted to row {int(train.max())}, these are {y.size} rows")
        held_out = np.setdiff1d(np.arange(y.size), train)
        if X_val is None and held_out.size == 0:
            raise DataError("this model was given validation rows; give the same X_val and y_val to certify")
        if X_val is None:
            X_check, y_check = X[held_out], y[held_out]
        elif held_out.size:
            raise DataError("this model took its validation rows from X; certify it without X_val and y_val")
        else:
            X_check, y_check = model._validation(X_val, y_val)
        gram = definite_gram(model.kernel_, points_of(X, train, pairwise))
        below = np.empty((y_check.size, train.size))
        model.kernel_.fill(X_check[:, train] if pairwise else X_check, None if pairwise else X[train], below)
        targets, kernel = np.append(y[train], y_check), model.kernel_
        stacked = StackedRows(X=X, rows=train, X_check=X_check, targets=targets, kernel=kernel, gram=gram, below=below)
        return stacked, self.predict_stacked(stacked)

    def predict_stacked(self, stacked: StackedRows) -> Array:
        """Return what ``predict`` returns for the training and the validation rows."""
        return np.append(self.evaluate(take_rows(stacked.X, stacked.rows)), self.evaluate(stacked.X_check))


@dataclass(eq=False, repr=False, kw_only=True)
class FusedLeastSquaresRegressor(Regressor):
    """Training and validation fused by least squares ([Pelckmans2005]_ eq. (20)-(22)).

    The machine is expanded in the training points and fits the validation points as well. Nothing penalises it: with
    more training than validation points a warning of over-fitting is issued.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    tol : float, default=1e-6
        Distance of predictions from the projection, as a share of the spread of y, up to which the certificate holds.
    cutoff : float, default=1e-10
        Relative size of the directions of kernel values left out; the only regularization there is.
    validation_fraction : float, default=0.5
        Share of the rows that validates when :meth:`fit` is given no validation rows.
    random_state : int, RandomState or None, default=None
        Seed of that split.

    Attributes
    ----------
    criterion_ : float
        Mean square of y - f over the validation rows.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`, over the training rows.
    """

    _model_type = ProjectionModel
    _page, _title, _location = "fused_least_squares", "Fused least squares", None
    _takes_weights = False
    cutoff: float = CUTOFF
    validation_fraction: float = 0.5
    random_state: Any = None

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit to training rows and validation rows, splitting the former when no validation rows are given."""
        from problems.fused_least_squares import warn_of_overfitting

        cutoff, stacked = self._begin_stacked(X, y, X_val, y_val)
        n = stacked.gram.n
        warn_of_overfitting(n, stacked.targets.size - n)
        Phi = stacked.values
        basis = StackedBasis.of(Phi, cutoff)
        solved = basis.project(stacked.targets)
        self.criterion_ = float(np.mean(solved.errors[n:] ** 2))
        coordinates = ("coordinates", f"stacked rows, {basis.rank} kept at cut-off {cutoff:.1e}")
        facts = (*stacked.facts(), coordinates, (NO_BOUND, _REASON))
        predicted = Phi @ solved.coefficients + solved.bias
        checks = _checks(basis, stacked.targets, predicted, self._tolerance())
        self.certificate_ = Certificate(self._title, checks, facts)
        warn_unless_holds(self.certificate_)
        self._keep_expansion(stacked.X, stacked.rows, stacked.kernel, solved.coefficients, solved.bias)
        return self

    def predict(self, X: Any) -> Array:
        """Predict f(x) = sum_i alpha_i k(x_i, x) + b over the training rows."""
        return self._expansion(X)

    def certify(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None
    ) -> Certificate:
        """Check that what :meth:`predict` returns is the projection of the targets, on the rows of the fit given again.

        ``X_val`` and ``y_val`` are those of :meth:`fit`, where it was given any.
        """
        self._check_given_again(X, y, sample_weight)
        return certify_stored(self._title, self._model.recall_fit(X, y, sample_weight, X_val, y_val))

    def _begin_stacked(self, X: Any, y: Any, X_val: Any, y_val: Any) -> tuple[float, StackedRows]:
        """Return the cut-off, and training and validation rows with their kernel values, all checked."""
        self._begin_fit()
        cutoff = positive(self.cutoff, "cutoff")
        if (X_val is None) != (y_val is None):
            raise DataError("X_val and y_val come together; one of them is missing")
        X, y, _ = self._check_data(X, y, None, numeric=True, multi_output=False)
        if X_val is None:
            rows, checks = self._split(y.size)
            targets, X_check = np.append(y[rows], y[checks]), take_rows(X, checks)
            kernel, gram, below = self._kernel_values(X, rows, checks)
        else:
            rows = np.arange(y.size)
            X_check, y_check = self._validation(X_val, y_val)
            targets = np.append(y, y_check)
            kernel, gram = self._gram(X)
            below = kernel(X_check, X)
        return cutoff, StackedRows(
            X=X, rows=rows, X_check=X_check, targets=targets, kernel=kernel, gram=gram, below=below
        )

    def _gram(self, X: Any) -> tuple[Kernel, Gram]:
        kernel = self._resolved_kernel(X)
        return kernel, definite_gram(kernel, X)

    def _split(self, n: int) -> tuple[Any, Any]:
        """Return training and validation rows."""
        fraction = positive(self.validation_fraction, "validation_fraction")
        if fraction >= 1.0:
            raise DeclarationError(f"validation_fraction must be below 1, received {self.validation_fraction!r}")
        train, valid = train_test_split(np.arange(n), test_size=fraction, random_state=self.random_state)
        return np.sort(train), np.sort(valid)

    def _kernel_values(self, X: Any, rows: Any, checks: Any) -> tuple[Kernel, Gram, Array]:
        """Return kernel values of both sets with the training rows; a precomputed matrix is checked as a whole."""
        if self.__sklearn_tags__().input_tags.pairwise:
            kernel, whole = self._gram(X)
            return kernel, whole.restrict(rows), whole.matrix[np.ix_(checks, rows)]
        kernel, gram = self._gram(X[rows])
        return kernel, gram, kernel(X[checks], X[rows])


@dataclass(frozen=True, slots=True)
class _StoredProjection:
    """The expansion of a model, and the rows of its fit."""

    model: ProjectionModel
    X: Any
    y: Any
    X_val: Any
    y_val: Any

    def certify(self) -> Added:
        """Check that what ``predict`` returns is the projection of the targets."""
        model = self.model.estimator
        stacked, predicted = self.model.stack_again(self.X, self.y, self.X_val, self.y_val)
        basis = StackedBasis.of(stacked.values, positive(model.cutoff, "cutoff"))
        rows = _checks(basis, stacked.targets, predicted, model._tolerance())
        return rows, (*stacked.gram.record(), (NO_BOUND, _REASON))

    def prove(self) -> Proof:
        """Return no bound: the cut-off has no exact optimum."""
        model = self.model.estimator
        _, y, _ = model._check_again(self.X, self.y, None, numeric=True)
        return no_proof(y, model._tolerance(), _REASON)


def no_proof(y: Array, tolerance: float, reason: str) -> Proof:
    """Return a proof without a bound, with the reason."""
    spread, rounding = spread_of(y, np.ones(y.size))
    return Proof(accuracy=math.inf, spread=spread, tolerance=tolerance, rounding=rounding, bits=0, reason=reason)


def projection_row(targets: Array, predicted: Array, projection: Array, tolerance: float) -> Distance:
    """Return how far predictions are from the projection of the targets, root mean square, as a row."""
    weights = np.ones(targets.size)
    spread, rounding = spread_of(targets, weights)
    return Distance(
        name="predictions are the projection",
        value=root_mean_square(predicted - projection, weights),
        scale=scale_of(spread, rounding, tolerance),
        tolerance=tolerance,
        formula="rms of f - projection of y",
        spread=spread,
    )


def _checks(basis: StackedBasis, t: Array, predicted: Array, tolerance: float) -> tuple[Row, ...]:
    """Check that the projection solves least squares on the kept directions, and the model predicts the projection."""
    solved = basis.project(t)
    row = projection_row(t, predicted, t - solved.errors, tolerance)
    return (row, *stacked_rows(basis, t, solved.errors, 1e-9))
