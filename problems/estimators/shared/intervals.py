r"""Prediction intervals of regressors: by rows kept for calibration, or by leaving every training row out.

Every regressor has split conformal intervals: ``calibrate`` measures its errors on rows that it was not fitted to, and
the k-th smallest absolute error, :math:`k = \lceil c (n + 1) \rceil`, is added on both sides ([Vovk2005]_). Machines
with exact leave-one-out need no such rows: :mod:`substrate.uncertainty` gives the full conformal set and jackknife+
from the inverse of their system.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.guarantees import Guarantee, check_method, guarantee_of
from substrate.arrays import Array, real_array
from substrate.errors import DataError
from substrate.kernels import Kernel
from substrate.namespaces import namespace_of, on_device_of, to_numpy
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.intervals import conformal_ends, exact_level, gaussian_deviations, jackknife_plus, split_ends

__all__ = [
    "Intervals",
    "LeftOutIntervals",
    "confidence_band",
    "diagonal_at",
    "influence_of_rows",
    "predict_left_out_interval",
]


@dataclass(frozen=True, eq=False, repr=False)
class Intervals:
    """Split conformal intervals, by the errors of rows that the machine was not fitted to."""

    estimator: Any

    #: The methods of ``predict_interval``.
    methods: ClassVar[tuple[str, ...]] = ("auto", "split")

    def resolve(self, method: str) -> str:
        """Return the method that "auto" stands for, others as they are."""
        return self.left_out_method() if method == "auto" else method

    def left_out_method(self) -> str:
        """Return the method that repeats no fit."""
        return "split"

    def has_unequal_weights(self) -> bool:
        """Return whether the rows of the fit differ in their weights."""
        return False

    def check(self, coverage: float, method: str) -> str:
        """Return the method to use; refuse an unknown one, a coverage that is none, and a model that is not fitted."""
        check_method(method, self.methods)
        exact_level(coverage)
        check_is_fitted(self.estimator)
        return self.resolve(method)

    def guarantee(self, coverage: float, method: str) -> Guarantee:
        """Return what intervals guarantee, and what breaks it, if anything does."""
        method = self.check(coverage, method)
        outputs = int(np.prod(self.estimator._outputs() or (1,)))
        return guarantee_of(method, coverage, outputs, self.chosen_on_rows())

    def chosen_on_rows(self) -> tuple[str, ...]:
        """Return what was chosen or computed from the training rows, which breaks the guarantee of leaving them out."""
        return ()

    def split_ends(self, X: Any, coverage: float) -> Array:
        """Return the ends of split conformal intervals."""
        model = self.estimator
        if not hasattr(model, "calibration_scores_"):
            raise DataError(
                f"this {type(model).__name__} has no calibration rows; call calibrate(X, y) first, with rows that it "
                "was not fitted to"
            )
        fitted, scores = model.predict(X), model.calibration_scores_
        if scores.ndim == 1:
            return split_ends(scores, fitted, coverage)
        ends = [split_ends(scores[:, k], fitted[:, k], coverage) for k in range(scores.shape[1])]
        return namespace_of(fitted).stack(ends, axis=1)  # type: ignore[no-any-return]

    def check_loaded(self) -> None:
        """Refuse scores that no calibration leaves."""
        model = self.estimator
        scores = getattr(model, "calibration_scores_", None)
        if scores is not None and (
            scores.dtype.kind != "f"
            or scores.shape[1:] != model._outputs()
            or not scores.shape[0]
            or not (np.isfinite(scores).all() and (scores >= 0.0).all() and (np.diff(scores, axis=0) >= 0.0).all())
        ):
            raise DataError("calibration scores must be absolute errors in ascending order, one column per output")


class LeftOutIntervals(Intervals):
    """Intervals from leaving every training row out: all of them exact, without a refit."""

    methods: ClassVar[tuple[str, ...]] = ("auto", "conformal", "jackknife+", "split")

    @abstractmethod
    def machines(self, rows: Any) -> "tuple[LeftOutMachines, ...]":
        """Return all machines without one row, for every output."""

    @abstractmethod
    def noise(self, rows: Any) -> Array:
        """Return the variance of the noise that the evidence prefers, one number per output."""

    def spreading_machines(self, rows: Any) -> "tuple[LeftOutMachines, ...]":
        """Return the machines as far as p(x) needs them."""
        return self.machines(rows)

    def left_out_method(self) -> str:
        """Return full conformal intervals where rows have one weight, jackknife+ otherwise."""
        return "jackknife+" if self.has_unequal_weights() else "conformal"

    def ends(self, X: Any, coverage: float, method: str, rows: Any, diagonal: Any) -> Array:
        """Return the ends of intervals by any method."""
        method = self.check(coverage, method)
        if method == "split":
            return self.split_ends(X, coverage)
        points, point_diagonal = self._at(X, diagonal, method)
        interval = conformal_ends if method == "conformal" else jackknife_plus
        ends = [
            interval(machines, fitted, points, point_diagonal, coverage)
            for machines, fitted in self._machines_and_outputs(points, rows)
        ]
        joined: Array = ends[0] if self.estimator._outputs() == () else namespace_of(ends[0]).stack(ends, axis=1)
        return joined

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

    def _machines_and_outputs(self, points: Any, rows: Any) -> "list[tuple[LeftOutMachines, Array | None]]":
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
            gaussian_deviations(machine, float(noise[k]), points, diagonal_of_points)
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
) -> Array:
    """Return lower and upper ends that are to hold a new target with probability ``coverage``.

    :meth:`interval_guarantee` states what is guaranteed for this model, and what breaks it.

    Parameters
    ----------
    X : array of shape (n, n_features)
        New rows.
    coverage : float, default=0.9
        Share of new targets to be covered, above 0 and below 1, for every output on its own.
    method : str, default="auto"
        ``"auto"``: after a search on fewer than 1000 rows ``"nested"``, as where its machines have been made; otherwise
        ``"conformal"``, or ``"jackknife+"`` for rows of unequal weight. From 1000 rows on, or 50,000 numbers
        in them, no coverage is guaranteed after a search.
        ``"conformal"``: the exact full conformal set by studentised residuals, wider where rows are sparse.
        ``"jackknife+"``: that of [Barber2021]_. Both hold kernel and gamma, and fit nothing again.
        ``"nested"`` (not on a reduced basis): CV+ of [Barber2021]_, with ten folds that repeat the whole fit, search
        included. They are made at the first call, which takes about ten fits, and are kept in the model and its file.
        ``"adaptive"`` (not on a reduced basis): left-out errors in units of a fitted spread, so that intervals are
        wide where errors are (:mod:`substrate.uncertainty.spread`), by one more fit. ``"split"``: by the rows given to
        :meth:`calibrate`.
    rows : tuple of arrays, array, or source of rows, default=None
        The training rows and targets (X, y), and sample_weight as a third where the fit had one, for a model that
        does not keep them; with a precomputed kernel the kernel matrix of the training rows.
    diagonal : array of shape (n,), default=None
        k(x, x) of the new rows, which ``"conformal"`` needs with a precomputed kernel.

    Returns
    -------
    array of shape (n, 2) or (n, n_outputs, 2)
        Infinite where there are too few rows for the coverage (8 or fewer for 0.9).
    """
    ends: Array = self._intervals.ends(X, coverage, method, rows, diagonal)
    return ends


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
