r"""Prediction intervals of regressors: by rows kept for calibration, or by leaving every training row out.

Every regressor has split conformal intervals: ``calibrate`` measures its errors on rows that it was not fitted to, and
the k-th smallest absolute error, :math:`k = \lceil c (n + 1) \rceil`, is added on both sides ([Vovk2005]_). Machines
with exact leave-one-out need no such rows: :mod:`substrate.uncertainty` gives the full conformal set, jackknife+ and
Gaussian error bars from the inverse of their system.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.guarantees import Guarantee, check_method, guarantee_of
from substrate import uncertainty
from substrate.arrays import Array, real_array
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel
from substrate.namespaces import is_device_array, namespace_of, on_device_of, to_numpy

__all__ = [
    "Intervals",
    "LeftOutIntervals",
    "check_spreads",
    "confidence_band",
    "diagonal_at",
    "influence_of_rows",
    "predict_left_out_interval",
    "predict_left_out_region",
]


@dataclass(frozen=True, eq=False, repr=False)
class Intervals:
    """Split conformal intervals, by the errors of rows that the machine was not fitted to."""

    estimator: Any

    #: The methods of ``predict_interval``; "conformal" is split conformal where there is no exact leave-one-out.
    methods: ClassVar[tuple[str, ...]] = ("auto", "conformal", "split")

    def resolve(self, method: str) -> str:
        """Return the method that "auto" stands for, others as they are."""
        return "conformal" if method == "auto" else method

    def resolve_adaptive(self, method: str) -> str:
        """Return the method of intervals whose width follows the spread of errors; refuse others."""
        if "nested" not in self.methods:
            raise DeclarationError(
                f"{type(self.estimator).__name__} has no left-out errors of its rows at hand, to which a spread could "
                "be fitted"
            )
        if method == "auto":
            return "split" if hasattr(self.estimator, "calibration_spreads_") else "nested"
        if method not in ("nested", "split"):
            raise DeclarationError(
                f"adaptive=True goes with method='nested' or 'split', received {method!r}; method='studentised' widens "
                "where rows are sparse"
            )
        return method

    def spreads(self) -> "list[uncertainty.Spread]":
        """Return the spread of the left-out errors of every output."""
        model = self.estimator
        if model.kernel_.pairwise or is_device_array(model.support_values_):
            kind = "a precomputed kernel" if model.kernel_.pairwise else "arrays on a device"
            raise DeclarationError(f"adaptive intervals compare inputs in numpy, which {kind} does not allow")
        errors, predictions = self.left_out_rows()
        K = np.asarray(model.kernel_(model.support_vectors_))
        return [uncertainty.Spread.of(K, errors[:, k], predictions[:, k]) for k in range(errors.shape[1])]

    def left_out_rows(self) -> tuple[Array, Array]:
        """Return left-out errors and left-out predictions of the rows of the fit, one column per output."""
        self.resolve_adaptive("auto")
        raise TypeError(f"internal error: {type(self).__name__} has nested intervals, and no left-out errors")

    def spread_at(self, points: Any, fitted: Array, spreads: "Sequence[uncertainty.Spread]") -> Array:
        """Return the spreads at new points that were checked, with these predictions, in the shape of these."""
        model = self.estimator
        values = np.asarray(model.kernel_(points, model.support_vectors_))
        columns = np.reshape(fitted, (values.shape[0], -1))
        at_points = [spread.at(values, columns[:, k]) for k, spread in enumerate(spreads)]
        return np.reshape(np.stack(at_points, axis=1), fitted.shape)

    def calibrate_spread(self, points: Any, errors: Array, fitted: Array) -> None:
        """Keep the spread of left-out errors, and the errors of calibration rows over it, in ascending order."""
        model, spreads = self.estimator, self.spreads()
        model.calibration_spreads_ = spreads
        model.calibration_scaled_scores_ = np.sort(errors / self.spread_at(points, fitted, spreads), axis=0)

    def check(self, coverage: float, method: str) -> None:
        """Refuse an unknown method, a coverage that is none, and a model that is not fitted."""
        check_method(method, self.methods)
        uncertainty.exact_level(coverage)
        check_is_fitted(self.estimator)

    def guarantee(self, coverage: float, method: str, adaptive: bool = False) -> Guarantee:
        """Return what intervals guarantee, and what breaks it, if anything does; a spread that has not seen the rows of
        its scores changes nothing.
        """
        check_method(method, self.methods)
        check_is_fitted(self.estimator)
        method = self.resolve_adaptive(method) if adaptive else self.resolve(method)
        split = method == "split" or "jackknife+" not in self.methods
        outputs = int(np.prod(self.estimator._outputs() or (1,)))
        return guarantee_of(method, coverage, outputs, split, self.chosen_on_rows(method))

    def chosen_on_rows(self, method: str = "conformal") -> tuple[str, ...]:
        """Return what was chosen or computed from the training rows, which breaks the guarantee of leaving them out."""
        return ()

    def split_ends(self, X: Any, coverage: float, adaptive: bool = False) -> Array:
        """Return the ends of split conformal intervals."""
        model = self.estimator
        if adaptive:
            return self._scaled_split_ends(X, coverage)
        if not hasattr(model, "calibration_scores_"):
            raise DataError(
                f"this {type(model).__name__} has no calibration rows; call calibrate(X, y) first, with rows that it "
                "was not fitted to"
            )
        fitted, scores = model.predict(X), model.calibration_scores_
        if scores.ndim == 1:
            return uncertainty.split_ends(scores, fitted, coverage)
        ends = [uncertainty.split_ends(scores[:, k], fitted[:, k], coverage) for k in range(scores.shape[1])]
        return namespace_of(fitted).stack(ends, axis=1)  # type: ignore[no-any-return]

    def _scaled_split_ends(self, X: Any, coverage: float) -> Array:
        model = self.estimator
        if not hasattr(model, "calibration_spreads_"):
            raise DataError(
                f"this {type(model).__name__} was not calibrated for adaptive intervals; call calibrate(X, y, "
                "adaptive=True) first, with rows that it was not fitted to"
            )
        points = model._new_points(X)
        fitted, scores = to_numpy(model._evaluate(points)), model.calibration_scaled_scores_
        spreads = self.spread_at(points, fitted, model.calibration_spreads_)
        if scores.ndim == 1:
            return uncertainty.split_ends(scores, fitted, coverage, spreads)
        ends = [
            uncertainty.split_ends(scores[:, k], fitted[:, k], coverage, spreads[:, k]) for k in range(scores.shape[1])
        ]
        return np.stack(ends, axis=1)

    def check_loaded(self) -> None:
        """Refuse scores that no calibration leaves."""
        model = self.estimator
        for name in ("calibration_scores_", "calibration_scaled_scores_"):
            scores = getattr(model, name, None)
            if scores is not None and (
                scores.dtype.kind != "f"
                or scores.shape[1:] != model._outputs()
                or not scores.shape[0]
                or not (np.isfinite(scores).all() and (scores >= 0.0).all() and (np.diff(scores, axis=0) >= 0.0).all())
            ):
                raise DataError("calibration scores must be absolute errors in ascending order, one column per output")
        if hasattr(model, "calibration_spreads_") or hasattr(model, "calibration_scaled_scores_"):
            spreads, n = getattr(model, "calibration_spreads_", []), int(model.support_.size)
            has_scores = hasattr(model, "calibration_scaled_scores_")
            check_spreads(spreads if has_scores else [], n, int(np.prod(model._outputs() or (1,))))


def check_spreads(spreads: "Sequence[uncertainty.Spread]", n_rows: int, n_outputs: int) -> None:
    """Refuse spreads that do not belong to so many rows and outputs."""
    if len(spreads) != n_outputs or not all(spread.is_valid(n_rows) for spread in spreads):
        raise DataError("adaptive intervals need one spread per output, of the rows of its machine, and positive")


class LeftOutIntervals(Intervals):
    """Intervals from leaving every training row out: all of them exact, without a refit."""

    methods: ClassVar[tuple[str, ...]] = (
        "auto",
        "conformal",
        "studentised",
        "jackknife+",
        "jackknife-minmax",
        "gaussian",
        "split",
    )

    @abstractmethod
    def machines(self, rows: Any) -> "tuple[uncertainty.LeftOutMachines, ...]":
        """Return all machines without one row, for every output."""

    @abstractmethod
    def noise(self, rows: Any) -> Array:
        """Return the variance of the noise that the evidence prefers, one number per output."""

    def spreading_machines(self, rows: Any) -> "tuple[uncertainty.LeftOutMachines, ...]":
        """Return the machines as far as p(x) needs them."""
        return self.machines(rows)

    def resolve(self, method: str) -> str:
        """Return studentised conformal intervals for "auto"; by left-out residuals where weights are unequal."""
        if method != "auto":
            return method
        return "conformal" if self.has_unequal_weights() else "studentised"

    @abstractmethod
    def has_unequal_weights(self) -> bool:
        """Return whether the rows of the fit differ in their weights."""

    def ends(self, X: Any, coverage: float, method: str, rows: Any, diagonal: Any) -> Array:
        """Return the ends of intervals by any method."""
        self.check(coverage, method)
        method = self.resolve(method)
        if method == "split":
            return self.split_ends(X, coverage)
        points, point_diagonal = self._at(X, diagonal, method)
        if method == "gaussian":
            fitted, deviations = self.estimator._evaluate(points), self._deviations(points, point_diagonal, rows)
            return uncertainty.gaussian_ends(fitted, deviations[:, 0] if fitted.ndim == 1 else deviations, coverage)
        interval: dict[str, Any] = {
            "conformal": uncertainty.conformal_hull,
            "studentised": uncertainty.studentised_ends,
            "jackknife+": uncertainty.jackknife_plus,
            "jackknife-minmax": uncertainty.jackknife_minmax,
        }
        ends = [
            interval[method](machines, fitted, points, point_diagonal, coverage)
            for machines, fitted in self._machines_and_outputs(points, rows)
        ]
        joined: Array = ends[0] if self.estimator._outputs() == () else namespace_of(ends[0]).stack(ends, axis=1)
        return joined

    def adaptive_ends(self, X: Any, coverage: float, method: str) -> Array:
        """Return the ends of intervals in units of a spread."""
        self.check(coverage, method)
        method = self.resolve_adaptive(method)
        return self.split_ends(X, coverage, adaptive=True) if method == "split" else self.nested_ends(X, coverage, True)

    def nested_ends(self, X: Any, coverage: float, adaptive: bool) -> Array:
        """Return the ends of intervals by machines without folds."""
        raise TypeError(f"internal error: {type(self).__name__} has no machines without folds")

    def region(self, X: Any, coverage: float, rows: Any, diagonal: Any) -> list[Any]:
        """Return the pieces of the full conformal set of every row."""
        uncertainty.exact_level(coverage)
        check_is_fitted(self.estimator)
        points, point_diagonal = self._at(X, diagonal, "conformal")
        regions = [
            uncertainty.conformal_region(machines, fitted, points, point_diagonal, coverage)
            for machines, fitted in self._machines_and_outputs(points, rows)
        ]
        is_single = self.estimator._outputs() == ()
        return list(regions[0]) if is_single else [list(pieces) for pieces in zip(*regions, strict=True)]

    def changes(self, X: Any, rows: Any) -> Array:
        """Return what every row of the fit changes at every new row: f less f without it."""
        check_is_fitted(self.estimator)
        points = self.estimator._new_points(X)
        changes = [machine.changes(points) for machine in self.machines(rows)]
        return changes[0] if self.estimator._outputs() == () else namespace_of(changes[0]).stack(changes, axis=1)

    def predict_deviations(self, X: Any) -> tuple[Array, Array]:
        """Return predictions and their Gaussian standard deviations, noise included."""
        points, point_diagonal = self._at(X, None, "return_std")
        fitted, deviations = self.estimator._evaluate(points), self._deviations(points, point_diagonal, None)
        return fitted, deviations[:, 0] if fitted.ndim == 1 else deviations

    def check_loaded(self) -> None:
        """Refuse scores, and variances of the noise, that no fit leaves."""
        super().check_loaded()
        model = self.estimator
        if hasattr(model, "noise_variance_") or hasattr(model, "unit_ridge_"):
            noise, ridge = (np.asarray(getattr(model, name, None)) for name in ("noise_variance_", "unit_ridge_"))
            shapes = {noise.shape, ridge.shape, model._outputs()}
            if len(shapes) > 1 or noise.dtype.kind != "f" or not ((noise >= 0.0).all() and (ridge > 0.0).all()):
                raise DataError("the variance of the noise and 1/gamma must be one positive number per output each")

    def _machines_and_outputs(self, points: Any, rows: Any) -> "list[tuple[uncertainty.LeftOutMachines, Array | None]]":
        """Return for every output its machines without one row, and predictions, unless computed on the way."""
        machines = self.machines(rows)
        if all(machine.bias is not None for machine in machines):
            return [(machine, None) for machine in machines]
        fitted = self.estimator._evaluate(points)
        columns = fitted[:, None] if fitted.ndim == 1 else fitted
        return [(machine, columns[:, k]) for k, machine in enumerate(machines)]

    def _deviations(self, points: Any, diagonal_of_points: Array, rows: Any) -> Array:
        noise, machines = to_numpy(self.noise(rows)), self.spreading_machines(rows)
        deviations = [
            uncertainty.gaussian_deviations(machine, float(noise[k]), points, diagonal_of_points)
            for k, machine in enumerate(machines)
        ]
        return namespace_of(deviations[0]).stack(deviations, axis=1)  # type: ignore[no-any-return]

    def _at(self, X: Any, diagonal: Any, method: str) -> tuple[Any, Array]:
        """Return the new points, checked, and k(x, x)."""
        points = self.estimator._new_points(X)
        kernel: Kernel = self.estimator.kernel_
        if kernel.pairwise and diagonal is None and method.startswith("jackknife"):
            return points, on_device_of(points, np.zeros(int(points.shape[0])))
        return points, diagonal_at(kernel, points, diagonal, f"method={method!r} needs", ", or use method='jackknife+'")


def predict_left_out_interval(
    self: Any,
    X: Any,
    coverage: float = 0.9,
    method: str = "auto",
    *,
    rows: Any = None,
    diagonal: Any = None,
    adaptive: bool = False,
) -> Array:
    """Lower and upper ends that hold a new target with probability ``coverage``; nothing is fitted again.

    Parameters
    ----------
    X : array of shape (n, n_features)
        New rows.
    coverage : float, default=0.9
        Share of new targets to be covered, above 0 and below 1, for every output on its own.
    method : str, default="auto"
        ``"auto"``: ``"nested"`` where the machines for it have been made, otherwise ``"studentised"``, or
        ``"conformal"`` for rows of unequal weight.
        ``"conformal"``: the hull of the exact full conformal set, by left-out residuals. ``"studentised"``: the exact
        set by residuals over their deviation, one interval, wider where rows are sparse. ``"jackknife+"`` and
        ``"jackknife-minmax"``: those of [Barber2021]_. ``"gaussian"``: error bars of the Gaussian process of this
        machine. ``"nested"`` (not on a reduced basis): CV+ of [Barber2021]_, with ten folds of the whole fit, search
        included, which are made by ``fit(nested=10)`` of a search or at the first call. ``"split"``: by the rows given
        to :meth:`calibrate`. :meth:`interval_guarantee` states what each of them guarantees for this model.
    rows : tuple of arrays, array, or source of rows, default=None
        The training rows and targets (X, y), and sample_weight as a third where the fit had one, for a model that
        does not keep them; with a precomputed kernel the kernel matrix of the training rows.
    diagonal : array of shape (n,), default=None
        k(x, x) of the new rows, which ``"conformal"``, ``"studentised"`` and ``"gaussian"`` need with a precomputed
        kernel.
    adaptive : bool, default=False
        Whether errors are counted in units of a fitted spread, so that intervals are wide where errors are
        (:mod:`substrate.uncertainty.spread`): with ``method="nested"``, the default then, a spread of each machine
        without a fold; with ``"split"`` one of all left-out errors, after ``calibrate(X, y, adaptive=True)``. What is
        guaranteed stays the same. Not on a reduced basis.

    Returns
    -------
    array of shape (n, 2) or (n, n_outputs, 2)
        Infinite where there are too few rows for the coverage (8 or fewer for 0.9).
    """
    if adaptive:
        return self._intervals.adaptive_ends(X, coverage, method)  # type: ignore[no-any-return]
    ends: Array = self._intervals.ends(X, coverage, method, rows, diagonal)
    return ends


def predict_left_out_region(
    self: Any, X: Any, coverage: float = 0.9, *, rows: Any = None, diagonal: Any = None
) -> list[Any]:
    """Return the exact full conformal set of every row: its pieces, ascending, one line (from, to) each.

    Ends may be infinite. ``rows`` and ``diagonal`` are those of :meth:`predict_interval`. The arrays are numpy's;
    of several outputs each row has a list of them.
    """
    pieces: list[Any] = self._intervals.region(X, coverage, rows, diagonal)
    return pieces


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
    changes: Array = self._intervals.changes(X, rows)
    return changes


def confidence_band(
    self: Any,
    X: Any,
    coverage: float = 0.9,
    *,
    simultaneous: bool = False,
    bias_corrected: bool = True,
    noise: str = "constant",
    rows: Any = None,
) -> Array:
    r"""Compute a confidence band of the mean: where the function is that the targets scatter about.

    :meth:`predict_interval` is about a new target, and wider by the noise. The machine is taken as a linear smoother
    with kernel and gamma fixed in advance, the noise as normal (:mod:`substrate.uncertainty.bands`); a choice of gamma
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
    noise : {"constant", "varying"}, default="constant"
        One variance of the noise, over the weights of the rows, or one for each row by its left-out residual, with
        the degrees of freedom of the few rows that have a part in it at a point.
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
    >>> band, everywhere = (model.confidence_band(times, simultaneous=s, noise="varying") for s in (False, True))
    >>> bool((np.diff(everywhere) > np.diff(band)).all())
    True
    """
    band: Array = self._intervals.band(X, coverage, simultaneous, bias_corrected, noise, rows)
    return band


def diagonal_at(kernel: Kernel, points: Any, diagonal: Any, method: str, otherwise: str) -> Array:
    """Return k(x, x) of new points: computed, or checked where the kernel is precomputed.

    ``asked`` begins the sentence that refuses a missing one, and ``otherwise`` ends it.
    """
    if not kernel.pairwise:
        if diagonal is not None:
            raise DataError("diagonal is k(x, x) for a precomputed kernel; leave it out, the kernel computes it")
        computed: Array = kernel.diag(points)
        return computed
    if diagonal is None:
        raise DataError(
            f"{method} k(x, x) of the new rows, which rows of a precomputed kernel do not hold; give "
            f"diagonal={otherwise}"
        )
    values, n = real_array(to_numpy(diagonal), "diagonal", ndim=1), int(points.shape[0])
    if values.shape != (n,):
        raise DataError(f"diagonal must have one entry per row of X: expected {n}, received {values.size}")
    return on_device_of(points, values)  # type: ignore[no-any-return]
