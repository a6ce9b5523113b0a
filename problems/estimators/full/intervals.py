r"""Prediction intervals of LS-SVMs: by leaving every training row out without a refit, or by folds that repeat it.

The full conformal set and jackknife+ follow from all machines without one row (:mod:`substrate.intervals.conformal`).

Nested intervals repeat everything that was chosen on the rows. Leaving a row out in closed form holds kernel and gamma,
which the row helped to choose, and intervals after a search cover less than they state. Here the whole fit, search
included, is repeated without each of K folds. With the error
:math:`r_i` of row i in the machine :math:`f_{-k(i)}` without its fold, and :math:`k = \lceil c (n + 1) \rceil`, the
interval is the CV+ interval ([Barber2021]_ section 3),

.. math:: \big[\, q_{n+1-k}\{ f_{-k(i)}(x) - |r_i| \},\; q_k\{ f_{-k(i)}(x) + |r_i| \} \,\big],

which covers a new target with probability at least :math:`2 c - 1 - \sqrt{2/n}` in finite samples (theorem 4), for
exchangeable rows and a fit that does not depend on their order, and about c in practice. The theorem is about folds of
one size: the rows that are left over, fewer than K, are in all machines and have no score.

Adaptive intervals repeat nothing. A second machine is fitted to the sizes of the left-out errors
(:mod:`substrate.intervals.spread`), and with its values s, those at the rows left out too, the interval is

.. math:: f(x) \pm s(x)\; q_k\big\{ |r_i| / s^{(-i)}(x_i) \big\} ,

wide where errors are. Its coverage is about c if the machines change little when a row is left out.

Further machines are fitted at the first call that needs them, from the rows that the model keeps, and are
saved with it.
"""

import math
import time
import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.guarantees import UNEQUAL, Guarantee
from problems.estimators.shared.left_out import has_closed_forms, refuse_closed_form
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import (
    Array,
    is_device_array,
    is_sparse,
    on_device_of,
    take_rows,
    to_numpy,
)
from substrate.errors import DataError, DeclarationError, LongFitWarning
from substrate.intervals.bands import Smoother, curve_length, tube_quantile
from substrate.intervals.conformal import (
    LeftOutMachines,
    conformal_ends,
    cv_plus,
    exact_level,
    jackknife_plus,
    kth_smallest,
    rank,
)
from substrate.intervals.spread import Spread

__all__ = ["IntervalRegressor", "confidence_band", "guaranteed_level", "influence_of_rows"]

#: From so many rows on, or beyond so many numbers in them, the default repeats no search: ten of them take too long.
MANY_ROWS, MANY_NUMBERS = 1000, 50_000
#: Number of folds, each of at least so many rows, and the fewest rows of all.
_N_FOLDS, _SMALLEST_FOLD, _FEWEST_ROWS = 10, 2, 10
#: Seconds that all folds may take before a warning says how long they will.
_LONG = 60.0


class IntervalRegressor(Regressor):
    """A regressor with intervals from leaving every training row out, or by folds of the whole fit.

    A model on a basis keeps its basis and not its rows: they are given again as ``rows``, and folds are not made.
    """

    _interval_methods: ClassVar[tuple[str, ...]] = ("auto", "conformal", "jackknife+", "nested", "adaptive", "split")

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        method: str = "auto",
        *,
        rows: Any = None,
    ) -> Array:
        """Return lower and upper ends that are to hold a new target with probability ``coverage``.

        :meth:`interval_guarantee` states what is guaranteed for this model, and what breaks it.

        Parameters
        ----------
        X : array of shape (n, n_features)
            New rows.
        coverage : float, default=0.9
            Share of new targets to be covered, above 0 and below 1, for every output separately.
        method : str, default="auto"
            ``"auto"``: after a search on fewer than 1000 rows ``"nested"``, as where its machines have been made;
            otherwise ``"conformal"``, or ``"jackknife+"`` for rows of unequal weight and precomputed kernels. From 1000
            rows on, or 50,000 numbers in them, no coverage is guaranteed after a search. ``"conformal"``: the exact
            full conformal set by studentised residuals, wider where rows are sparse. ``"jackknife+"``: the interval of
            [Barber2021]_. Both hold kernel and gamma, and fit nothing again. ``"nested"`` (not on a reduced basis): CV+
            of [Barber2021]_, with ten folds that repeat the whole fit, search included. They are made at the first
            call, which takes about ten fits, and are kept in the model and its file. ``"adaptive"`` (not on a reduced
            basis): left-out errors in units of a fitted spread, so that intervals are wide where errors are
            (:mod:`substrate.intervals.spread`), by one more fit. ``"split"``: by the rows given to :meth:`calibrate`.
        rows : tuple of arrays, array, or source of rows, default=None
            The training rows and targets (X, y), and sample_weight as a third where the fit had one, for a model that
            does not keep them; with a precomputed kernel the kernel matrix of the training rows.

        Returns
        -------
        array of shape (n, 2) or (n, n_outputs, 2)
            Infinite where there are too few rows for the coverage (8 or fewer for 0.9).
        """
        method = self._interval_method(coverage, method)
        if method == "nested":
            return self._nested_ends(X, coverage)
        if method == "adaptive":
            return self._adaptive_ends(X, coverage)
        if method == "split":
            return self._split_ends(X, coverage)
        points, diagonal = self._points_and_diagonal(X, method)
        interval, fitted = conformal_ends if method == "conformal" else jackknife_plus, self._evaluate(points)
        columns = fitted[:, None] if fitted.ndim == 1 else fitted
        ends = [
            interval(machines, columns[:, k], points, diagonal, coverage)
            for k, machines in enumerate(self._left_out_machines(rows))
        ]
        return self._joined(ends)

    def interval_guarantee(self, coverage: float = 0.9, method: str = "auto") -> Guarantee:
        """Return what :meth:`predict_interval` guarantees for this model, and what breaks it, if anything does."""
        guarantee = super().interval_guarantee(coverage, method)
        if guarantee.method == "adaptive":
            stable = "the machine and the spread of its errors change little when a row is left out"
            return replace(guarantee, level=None, conditions=(stable, *guarantee.conditions[2:]), broken=())
        if guarantee.method != "nested":
            return guarantee
        conditions = (guarantee.conditions[0], "the fit does not depend on their order", *guarantee.conditions[2:])
        n = int(self.support_.size)
        level = guaranteed_level(coverage, n - n % max(min(_N_FOLDS, n // _SMALLEST_FOLD), 1))
        broken = (UNEQUAL,) if self._has_unequal_weights() else ()
        return replace(guarantee, level=level, conditions=conditions, broken=broken)

    def _default_method(self) -> str:
        """Return nested intervals where they have been made, and after a search of few rows."""
        if hasattr(self, "nested_machines_"):
            return "nested"
        n = int(self.support_.size)
        is_few = n < MANY_ROWS and n * self.n_features_in_ <= MANY_NUMBERS
        is_nested = self._repeated()._chooses is not None and is_few and self._refusal_of_folds() is None
        return "nested" if is_nested else self._left_out_method()

    def _left_out_method(self) -> str:
        """Return full conformal intervals where rows have one weight and k(x, x) is known, otherwise jackknife+;
        without closed forms, only calibration rows remain.
        """
        if not has_closed_forms(self):
            return "split"
        return "jackknife+" if self._has_unequal_weights() or self.kernel_.pairwise else "conformal"

    def _has_unequal_weights(self) -> bool:
        """Return whether the rows of the fit differ in their weights."""
        return bool(self._model.has_unequal_weights())

    def _targets_and_weights(self) -> tuple[Array, Array]:
        """Return the targets of the rows, which the system gives back, one column per output, and their weights."""
        alpha, ridge = self._model.to_columns()
        targets = np.reshape(to_numpy(self._evaluate(self.support_vectors_)), alpha.shape) + ridge * alpha
        return targets, self._model.row_weights()

    def _left_out_rows(self) -> tuple[Array, Array]:
        """Return left-out errors and left-out predictions of the rows of the fit, one column per output."""
        errors = np.stack([to_numpy(machines.residuals) for machines in self._left_out_machines(None)], axis=1)
        return errors, self._targets_and_weights()[0] - errors

    def _left_out_machines(self, rows: Any) -> tuple[LeftOutMachines, ...]:
        """Return all machines without one row, for every output, where there are closed forms."""
        check_is_fitted(self)
        refuse_closed_form(self, "an interval by leaving rows out")
        return self._model.left_out_machines(rows)

    def _points_and_diagonal(self, X: Any, method: str) -> tuple[Any, Array]:
        """Return the new points, checked, and k(x, x), which jackknife+ does not need."""
        points, kernel = self._new_points(X), self.kernel_
        if not kernel.pairwise:
            return points, kernel.diag(points)
        if method != "jackknife+":
            raise DataError(
                f"method={method!r} needs k(x, x) of the new rows, which rows of a precomputed kernel do not hold; use "
                "method='jackknife+', or fit X with the kernel itself"
            )
        return points, on_device_of(points, np.zeros(int(points.shape[0])))

    def _refusal_of_folds(self) -> str | None:
        """Return why the whole fit cannot be repeated on parts of the rows; None where it can."""
        model, n = self._repeated(), int(self.support_.size)
        if not has_closed_forms(model):
            return "a machine with a shape, robust weights or c is not fitted again"
        if getattr(self, "basis", None) is not None:
            return "a model on a basis keeps its basis and not its rows"
        if self.kernel_.pairwise or is_device_array(self.support_vectors_):
            kind = "a precomputed kernel" if self.kernel_.pairwise else "arrays on a device"
            return f"rows are divided in numpy, which {kind} does not allow"
        cv = getattr(model, "cv", "loo")
        if not isinstance(cv, (str, int)) or isinstance(cv, bool) or cv in ("blocks", "groups"):
            return f"cv={cv!r} is about these rows; use cv='loo', 'gcv', 'evidence' or a number of folds"
        needed = _FEWEST_ROWS if isinstance(cv, str) else max(_FEWEST_ROWS, 2 * cv)
        return f"at least {needed} rows are needed, and there are {n}" if n < needed else None

    def _repeated(self) -> Any:
        """Return the estimator that the folds fit: if a search chose kernel and gamma, that search."""
        return getattr(self, "_chosen_by", self)

    def _make_nested(self) -> None:
        """Fit without each fold of the rows, and keep machines and errors; do nothing if they exist."""
        if hasattr(self, "nested_machines_"):
            return
        if (reason := self._refusal_of_folds()) is not None:
            raise DeclarationError(
                f"nested intervals repeat the whole fit on parts of the rows: {reason}; or keep rows, call "
                "calibrate(X, y), then predict_interval(X, method='split')"
            )
        targets, weights = self._targets_and_weights()
        y = targets if self._outputs() else targets[:, 0]
        X, n = self.support_vectors_, int(weights.size)
        n_folds = min(_N_FOLDS, n // _SMALLEST_FOLD)
        order, folds = np.random.default_rng(0).permutation(n), np.full(n, -1)
        scored = order[: n - n % n_folds]
        folds[scored] = np.arange(scored.size) % n_folds
        is_equal = np.allclose(weights, 1.0, rtol=1e-12, atol=0.0)
        scores, machines, start = np.zeros(y.shape), [], time.perf_counter()
        for fold in range(n_folds):
            train, test = folds != fold, folds == fold
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit to all rows has given them
                how = {} if is_equal else {"sample_weight": weights[train]}
                machine = clone(self._repeated()).fit(X[train], y[train], **how)
            scores[test] = np.abs(y[test] - machine.predict(X[test]))
            machines.append(machine)
            if fold == 0 and (seconds := (n_folds - 1) * (time.perf_counter() - start)) > _LONG:
                warnings.warn(
                    f"nested intervals repeat the whole fit {n_folds - 1} more times, which takes about {seconds:.0f} "
                    "s; method='jackknife+' takes no fit, and no coverage is guaranteed after a search",
                    LongFitWarning,
                    stacklevel=4,
                )
        self.nested_machines_, self.nested_folds_, self.nested_scores_ = machines, folds, scores

    def _nested_ends(self, X: Any, coverage: Any) -> Array:
        """Return the ends of nested intervals."""
        self._make_nested()
        points = self._new_points(X)
        (scored,) = np.nonzero(self.nested_folds_ >= 0)
        folds, scores = self.nested_folds_[scored], np.reshape(self.nested_scores_[scored], (scored.size, -1))
        centers = np.stack([machine._evaluate(points) for machine in self.nested_machines_], axis=-1)
        columns = np.reshape(centers, (points.shape[0], scores.shape[1], -1))
        return self._joined([cv_plus(columns[:, k], folds, scores[:, k], coverage) for k in range(scores.shape[1])])

    def _adaptive_ends(self, X: Any, coverage: Any) -> Array:
        """Return the ends of intervals that are wide where left-out errors are."""
        if not hasattr(self, "spreads_"):
            has_basis = getattr(self, "basis", None) is not None
            if has_basis or self.kernel_.pairwise or is_device_array(self.support_vectors_):
                raise DeclarationError(
                    "adaptive intervals fit a second machine to the rows in numpy, which a basis, a precomputed kernel "
                    "or arrays on a device do not allow; use method='conformal' or 'jackknife+'"
                )
            errors, predictions = self._left_out_rows()
            K = np.asarray(self.kernel_(self.support_vectors_))
            self.spreads_ = [Spread.of(K, errors[:, k], predictions[:, k]) for k in range(errors.shape[1])]
        points = self._new_points(X)
        fitted, values = self._evaluate(points), np.asarray(self.kernel_(points, self.support_vectors_))
        columns, ends = np.reshape(fitted, (values.shape[0], -1)), []
        for k, spread in enumerate(self.spreads_):
            reach = kth_smallest(spread.scores, rank(coverage, spread.scores.size)) * spread.at(values, columns[:, k])
            ends.append(np.stack([columns[:, k] - reach, columns[:, k] + reach], axis=-1))
        return self._joined(ends)

    def _chosen_on_rows(self) -> tuple[str, ...]:
        """Return what was chosen or computed from the training rows; a new row has the weight of the others."""
        reasons = [] if self._chooses is None else [f"{self._chooses} was chosen on these rows"]
        if getattr(self, "kernels", None) or getattr(self, "search", None):
            reasons.append("the kernel was chosen on these rows")
        elif self._own_kernel() != self.kernel_:
            reasons.append("the width of the kernel is computed from these rows")
        if getattr(self, "basis_indices_", None) is not None:
            reasons.append("the basis was chosen among these rows")
        return (*reasons, UNEQUAL) if self._has_unequal_weights() else tuple(reasons)


def guaranteed_level(coverage: Any, n: int) -> float:
    """Return 2 c - 1 - sqrt(2/n), rounded down, and zero where that is negative.

    :place [Barber2021]_ theorem 4: the coverage of CV+
    """
    level = float(2 * exact_level(coverage) - 1)
    return max(math.nextafter(level - math.nextafter(math.sqrt(2.0 / n), 1.0e300), -1.0), 0.0)


def influence_of_rows(self: Any, X: Any, *, rows: Any = None) -> Array:
    r"""Compute how much every row of the fit changes every prediction: :math:`f(x) - f^{(-i)}(x)`, without a refit.

    :math:`f^{(-i)}` is the machine that was fitted without row i, whole weight and all, with the same kernel and gamma.
    The largest size over the rows i is the stability of the machine at x ([Bousquet2002]_), here for the data at hand
    instead of a bound over all data.

    Parameters
    ----------
    X : array of shape (n, n_features)
        New rows.
    rows
        As for :meth:`predict_interval`.

    Returns
    -------
    array of shape (n, n_support) or (n, n_outputs, n_support)
        One column for every row of ``support_``, in its order.
    """
    machines, points = self._left_out_machines(rows), self._new_points(X)
    return self._joined([machine.lines(points) * machine.residuals[None, :] for machine in machines])


def confidence_band(
    self: Any,
    X: Any,
    coverage: float = 0.9,
    *,
    simultaneous: bool = False,
    bias_corrected: bool = True,
    rows: Any = None,
) -> Array:
    r"""Compute a confidence band of the mean, the function about which the targets scatter.

    :meth:`predict_interval` is about a new target, and wider by the noise. The machine is taken as a linear smoother
    with kernel and gamma fixed in advance, the noise as normal (:mod:`substrate.intervals.bands`); a choice of gamma
    on the same rows is not counted.

    Parameters
    ----------
    X : array of shape (n, n_features)
        New rows.
    coverage : float, default=0.9
        Probability that the band holds the mean: at each row, or, where ``simultaneous``, along the whole curve.
    simultaneous : bool, default=False
        Whether the band holds everywhere between the rows of X at once, by the tube formula [SunLoader1994]_: over
        their range where there is one input, and along the straight lines from row to row, in their order, where there
        are several.
    bias_corrected : bool, default=True
        Whether the bias of the smoother is estimated by smoothing once more and subtracted, with the variance of what
        is then left: the center of the band is not the prediction.
    rows
        With a precomputed kernel, the kernel matrix of the training rows.

    Returns
    -------
    array of shape (n, 2) or (n, n_outputs, 2)
        Lower and upper ends.

    Examples
    --------
    >>> import numpy as np
    >>> from problems import LSSVMRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> model = LSSVMRegressor(RBF(6.6), 2.0).fit(*motorcycle())
    >>> times = np.linspace(5.0, 50.0, 10)[:, None]
    >>> band, everywhere = (model.confidence_band(times, simultaneous=s) for s in (False, True))
    >>> bool((np.diff(everywhere) > np.diff(band)).all())
    True
    """
    level = float(exact_level(coverage))
    check_is_fitted(self)
    refuse_closed_form(self, "a confidence band")
    if self.basis is not None:
        raise DeclarationError("a confidence band is of a machine on all rows; leave basis=None")
    points, pairwise = self._new_points(X), bool(self.kernel_.pairwise)
    if simultaneous and (pairwise or is_sparse(points)):
        given = "a precomputed kernel" if pairwise else "a sparse matrix"
        raise DeclarationError(
            f"a simultaneous band needs points between the rows of X, which {given} does not give; use dense rows "
            "and a kernel of substrate.kernels, or simultaneous=False"
        )
    alpha, ridge = self._model.to_columns()
    training = _training_points(self, rows)
    fitted = np.reshape(to_numpy(self._evaluate(points)), (int(points.shape[0]), -1))
    ends, weights = [], self._model.row_weights()
    for k, machine in enumerate(self._left_out_machines(rows)):

        def lines(at: Any, machine: Any = machine) -> Array:
            return np.asarray(to_numpy(machine.lines(at)))

        errors = ridge[:, k] * alpha[:, k]
        smoother = Smoother.of(lines(training), errors, weights, bool(bias_corrected))
        at_points, (deviation, freedom) = lines(points), smoother.noise()
        length = _tube(smoother, lines, points) if simultaneous and deviation > 0.0 else 0.0
        spread = deviation * np.linalg.norm(smoother.lines(at_points), axis=1)
        reach = tube_quantile(level, freedom, length) * spread
        center = fitted[:, k] + smoother.shift(at_points)
        ends.append(np.stack([center - reach, center + reach], axis=-1))
    return on_device_of(points, self._joined(ends))


def _tube(smoother: Any, lines: Any, points: Any) -> float:
    """Return the length of the curve of unit vectors along the points: sorted, where there is one input."""
    corners = np.asarray(to_numpy(points))
    if corners.shape[1] == 1:
        corners = np.sort(corners, axis=0)

    def unit_lines(at: Array) -> Array:
        vectors = smoother.lines(lines(on_device_of(points, at)))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths > 0.0, lengths, 1.0))

    return curve_length(unit_lines, corners)


def _training_points(model: Any, rows: Any) -> Any:
    """Return the rows of the fit as new points; for a precomputed kernel, the rows of the matrix given."""
    if not model.kernel_.pairwise:
        return model.support_vectors_
    matrix = rows[0] if isinstance(rows, tuple) else rows
    model._model.training_gram(matrix)  # refuses a matrix of other rows
    return take_rows(model._new_points(matrix), model.support_)
