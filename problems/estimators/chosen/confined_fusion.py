r"""Training and validation fused, with constants of few columns, see :mod:`problems.confined_fusion`.

.. math:: \min_{u, \alpha, b} \; \|e\|^2 + \|e^v\|^2 \quad \text{s.t.} \quad e = \alpha + Z u

One linear system for every column, and a projection. Which rows share a constant, or the profile of their noise, is
told to ``fit`` by the row.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.estimators.chosen.fused_least_squares import (
    FusedLeastSquaresRegressor,
    ProjectionModel,
    StackedRows,
    no_proof,
    projection_row,
)
from problems.estimators.chosen.tasks import stack_points
from problems.estimators.shared.checked_again import Added, StoredFit
from substrate.arrays import Array, positive, real_array, refuse_disguised
from substrate.certificates import NO_BOUND, Certificate, Row, warn_unless_holds
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError
from substrate.least_squares.answer import kernel_rounding
from substrate.least_squares.confined_constants import CUTOFF, ConfinedSystem, KernelRadii, checked_columns
from substrate.least_squares.saddle_certificate import kernel_roots
from substrate.namespaces import take_rows
from substrate.proof import Proof

__all__ = ["ConfinedFusionRegressor"]

_DEPENDENT = "columns depend on each other up to rounding, and only a cut-off tells which directions of them count"
_INDEFINITE = "the kernel matrix is not positive semi-definite, and the systems of the columns have no bound"
_ROUNDING = (
    "rounding",
    "double precision cannot give the answer to this tolerance; columns that nearly depend on each other, or a large "
    "factor of the kernel, are what loses digits",
)


class ConfinedModel(ProjectionModel):
    """The machine at the constants that fit training and validation rows best."""

    def recall_fit(
        self, X: Any, y: Any, sample_weight: Any, X_val: Any = None, y_val: Any = None
    ) -> AbstractContextManager[StoredFit]:
        """Return the model on the data of the fit; ``X_val`` and ``y_val`` are those of ``fit``, if any."""
        return nullcontext(StoredFit((_StoredConfined(model=self, X=X, y=y, X_val=X_val, y_val=y_val),)))


@dataclass(eq=False, repr=False, kw_only=True)
class ConfinedFusionRegressor(FusedLeastSquaresRegressor):
    """Training and validation fused, with constants c = Z u of few columns ([Pelckmans2005]_ (20)-(21), section 4.2).

    The constants of the substrate are what validation chooses; all of them over-fit the validation rows. Here rows
    share them: one constant for each group of rows, or multiples of a profile of the noise. The errors of training and
    validation together are as small as such constants can make them, and no larger than those of the LS-SVM with
    gamma = 1, which has none; a factor of the kernel is what gamma is elsewhere.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`.
    tol : float, default=1e-6
        Accuracy of the fitted values of training and validation rows, as a share of the spread of y, up to which the
        certificate holds.
    cutoff : float, default=1e-10
        Relative size of the directions of the constants left out, of columns that depend on each other for instance.
    validation_fraction : float, default=0.5
        Share of the rows that validates when :meth:`fit` is given no validation rows.
    random_state : int, RandomState or None, default=None
        Seed of that split.

    Attributes
    ----------
    constants_ : array of shape (n_training,)
        c = Z u.
    levels_ : array of shape (n_columns,)
        u: the constant of every group, in the order of the sorted labels, then the factors of the profiles.
    columns_ : array of shape (n_training, n_columns)
        Z at the training rows.
    criterion_ : float
        Mean square of y - f over the validation rows.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`, over the training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from problems import ConfinedFusionRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> early = X[:, 0] < 15.0  # when there is hardly any noise
    >>> model = ConfinedFusionRegressor(10.0 * RBF(6.6), random_state=0).fit(X, y, groups=early)
    >>> model.levels_.shape
    (2,)
    """

    _model_type = ConfinedModel
    _page, _title = "confined_fusion", "Confined fusion"
    cutoff: float = CUTOFF

    def fit(
        self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, groups: Any = None, profiles: Any = None
    ) -> Self:
        """Fit to training rows and validation rows, splitting the former when no validation rows are given.

        Parameters
        ----------
        X, y, X_val, y_val
            Rows and targets.
        groups
            One label for every row of X: rows with the same label share one constant.
        profiles
            One number, or several, for every row of X: columns of which c is a combination, a profile of the noise for
            instance. Without groups and profiles all rows share one constant, which moves the bias and nothing else.
        """
        cutoff, stacked = self._begin_stacked(X, y, X_val, y_val)
        Z = _columns(groups, profiles, stacked.X.shape[0])[stacked.rows]
        Z = Z[:, np.abs(Z).max(axis=0) > 0.0] if np.abs(Z).max() > 0.0 else Z  # groups without training rows
        columns, n = checked_columns(Z, stacked.gram.n), stacked.gram.n
        system = _system(stacked, columns, cutoff)
        solved = system.solve()
        self.criterion_ = float(np.mean(solved.errors[n:] ** 2))
        self.constants_, self.levels_, self.columns_ = solved.constants, solved.levels, columns
        self._keep_expansion(stacked.X, stacked.rows, stacked.kernel, solved.support_values, solved.bias)
        predicted = self._model.predict_stacked(stacked)
        rows, facts = _checks(system, stacked, predicted, solved.support_values, self._tolerance())
        facts = (*stacked.facts(), ("columns of c", str(columns.shape[1])), *facts)
        self.certificate_ = Certificate(self._title, rows, facts)
        warn_unless_holds(self.certificate_)
        return self


def _columns(groups: Any, profiles: Any, n: int) -> Array:
    """Return Z, one row per row of X: indicators of the groups, then the profiles."""
    parts = []
    if groups is not None:
        refuse_disguised(groups, "groups", text=True)
        labels = np.asarray(groups)
        if labels.ndim != 1 or labels.shape[0] != n:
            raise DataError(f"groups must have one label per row of X: expected {n}, received shape {labels.shape}")
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise DataError("groups contains NaN or infinity; give every row a label")
        try:
            names = np.unique(labels)
        except TypeError as error:
            raise DataError(f"groups must have labels of one kind, which can be sorted: {error}") from error
        parts.append((labels[:, None] == names).astype(np.float64))
    if profiles is not None:
        refuse_disguised(profiles, "profiles")
        given = real_array(profiles, "profiles", ndim=(1, 2))
        given = given[:, None] if given.ndim == 1 else given
        if given.shape[0] != n or not given.shape[1]:
            raise DataError(f"profiles must have one row per row of X: expected {n}, received shape {given.shape}")
        parts.append(given)
    return np.concatenate(parts, axis=1) if parts else np.ones((n, 1))


def _system(stacked: StackedRows, columns: Array, cutoff: float) -> ConfinedSystem:
    n, t = stacked.gram.n, stacked.targets
    return ConfinedSystem.of(stacked.gram, t[:n], stacked.below, t[n:], columns, cutoff, _kernel_radii(stacked))


def _kernel_radii(stacked: StackedRows) -> KernelRadii:
    """Bound the rounding of the kernel values of all rows with the training rows, in the Frobenius norm.

    Values within p s_i s_j have a matrix of errors of norm p (sum s_i^2) among the training rows, s_i^2 being k(x, x).
    """
    negative, kernel = stacked.gram.negative, stacked.kernel
    if kernel.pairwise:
        return KernelRadii(negative=negative)
    train, check = take_rows(stacked.X, stacked.rows), stacked.X_check
    share = kernel_rounding(kernel, stack_points(train, check))
    trace, trace_val = (float(np.sum(np.square(kernel_roots(kernel.envelope.diag(X))))) for X in (train, check))
    return KernelRadii(
        matrix=at_most(share * trace),
        below=at_most(share * math.sqrt(trace * trace_val)),
        negative=negative,
        trace_val=at_most(trace_val) if kernel.trusted else math.inf,
    )


@dataclass(frozen=True, slots=True)
class _StoredConfined:
    """The expansion of a model, and the rows of its fit."""

    model: ConfinedModel
    X: Any
    y: Any
    X_val: Any
    y_val: Any

    def certify(self) -> Added:
        """Check that what ``predict`` returns is the best that constants of the columns can do."""
        model = self.model.estimator
        stacked, predicted = self.model.stack_again(self.X, self.y, self.X_val, self.y_val)
        columns = checked_columns(model.columns_, stacked.gram.n)
        system = _system(stacked, columns, positive(model.cutoff, "cutoff"))
        rows, facts = _checks(system, stacked, predicted, model.support_values_, model._tolerance())
        return rows, (*stacked.gram.record(), *facts)

    def prove(self) -> Proof:
        """Compare what ``predict`` returns with the exact optimum, in ball arithmetic."""
        from substrate.proof import tolerance_in_balls
        from substrate.proof.confined import ConfinedRows, prove_confined

        model = self.model.estimator
        stacked, predicted = self.model.stack_again(self.X, self.y, self.X_val, self.y_val)
        columns = checked_columns(model.columns_, stacked.gram.n)
        targets, tolerance = stacked.targets, model._tolerance()
        if not np.isfinite(stacked.gram.negative):
            return no_proof(targets, tolerance, _INDEFINITE)
        if not _system(stacked, columns, positive(model.cutoff, "cutoff")).keeps_all:
            return no_proof(targets, tolerance, _DEPENDENT)
        rows = ConfinedRows(
            kernel=stacked.kernel,
            X=take_rows(stacked.X, stacked.rows),
            X_check=stacked.X_check,
            matrix=np.asarray(stacked.gram.matrix),
            below=stacked.below,
            targets=targets,
            columns=columns,
        )
        return prove_confined(rows, predicted, tolerance_in_balls(targets, np.ones(targets.size), tolerance))


def _checks(
    system: ConfinedSystem, stacked: StackedRows, predicted: Array, support_values: Array, tolerance: float
) -> tuple[tuple[Row, ...], tuple[tuple[str, str], ...]]:
    """Check that the model predicts the projection, and bound its errors by those of the optimum; with facts."""
    targets = stacked.targets
    errors, size = targets - predicted, float(np.linalg.norm(targets))
    row = projection_row(targets, predicted, targets - system.solve().errors, tolerance)
    checked = (row, *system.rows(errors, size, 1e-9))
    if not np.isfinite(stacked.gram.negative):
        return checked, ((NO_BOUND, _INDEFINITE),)
    share, values = relative_rounding(targets.size + 2.0), float(np.linalg.norm(stacked.values))
    radii = _kernel_radii(stacked)
    # predict may sum in another order, or in other blocks of rows
    again = 2.0 * (share * values + radii.matrix + radii.below) * float(np.linalg.norm(support_values))
    evaluated = at_most(again + relative_rounding(1.0) * float(np.linalg.norm(predicted)))
    accuracy = system.accuracy(errors, evaluated, Tolerance.of(targets, np.ones(targets.size), tolerance))
    return (accuracy, *checked), () if accuracy.passes else (_ROUNDING,)
