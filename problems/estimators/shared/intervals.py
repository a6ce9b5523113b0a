r"""Prediction intervals of regressors: by rows kept for calibration, or by leaving every training row out.

Every regressor has split conformal intervals: :meth:`Intervals.calibrate` measures its errors on rows that it was not
fitted to, and the k-th smallest absolute error, :math:`k = \lceil c (n + 1) \rceil`, is added on both sides
([Vovk2005]_). Machines with exact leave-one-out need no such rows: :mod:`substrate.uncertainty` gives the full
conformal set, jackknife+ and Gaussian error bars from the inverse of their system.
"""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.guarantees import Guarantee, check_method, guarantee_of
from substrate import uncertainty
from substrate.arrays import Array, real_array
from substrate.errors import DataError
from substrate.kernels import Kernel
from substrate.namespaces import is_device_array, namespace_of, on_device_of, same_home, to_numpy

__all__ = ["Intervals", "LeftOutIntervals", "diagonal_at"]


class Intervals:
    """Split conformal intervals, by the errors of rows that the machine was not fitted to."""

    #: The methods of :meth:`predict_interval`; "conformal" is split conformal where there is no exact leave-one-out.
    _interval_methods: ClassVar[tuple[str, ...]] = ("conformal", "split")

    def calibrate(self, X: Any, y: Any) -> Self:
        """Measure the errors of this fitted model on rows that it has not seen; the model itself is not changed.

        ``calibration_scores_``, the absolute errors in ascending order, is what ``method="split"`` uses. The coverage
        is guaranteed if these rows are exchangeable with the new ones, however the model was chosen and fitted.
        """
        check_is_fitted(self)
        fitted = self.predict(X)  # type: ignore[attr-defined]
        if is_device_array(fitted):
            same_home(X=X, y=y)
        known = real_array(to_numpy(y), "y", ndim=fitted.ndim)
        if known.shape != tuple(fitted.shape):
            raise DataError(
                f"y must have the targets of the rows of X: expected shape {tuple(fitted.shape)}, received "
                f"{known.shape}"
            )
        self.calibration_scores_ = np.sort(np.abs(known - to_numpy(fitted)), axis=0)
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9, method: str = "conformal") -> Array:
        """Lower and upper ends that hold a new target with probability ``coverage``.

        Parameters
        ----------
        X : array of shape (n, n_features)
            New rows.
        coverage : float, default=0.9
            Share of new targets to be covered, above 0 and below 1, for every output on its own.
        method : str, default="conformal"
            ``"conformal"`` and ``"split"`` are split conformal intervals here, after :meth:`calibrate`: the machine
            without one of its rows is not available in closed form.

        Returns
        -------
        array of shape (n, 2) or (n, n_outputs, 2)
            Infinite where there are too few rows for the coverage (8 or fewer for 0.9).
        """
        check_method(method, self._interval_methods)
        uncertainty.exact_level(coverage)
        check_is_fitted(self)
        return self._split_interval(X, coverage)

    def predict_region(self, X: Any, coverage: float = 0.9) -> list[Any]:
        """The set of targets that belong to the coverage, one array of pieces (from, to) per row.

        For split conformal intervals there is one piece; of several outputs each has a list of its own.
        """
        ends = to_numpy(self.predict_interval(X, coverage))
        if ends.ndim == 2:
            return [line[None, :] for line in ends]
        return [[line[None, :] for line in lines] for lines in ends]

    def interval_guarantee(self, coverage: float = 0.9, method: str = "conformal") -> Guarantee:
        """What :meth:`predict_interval` guarantees for this model, and what breaks it, if anything does."""
        check_method(method, self._interval_methods)
        check_is_fitted(self)
        split = method == "split" or "jackknife+" not in self._interval_methods
        return guarantee_of(method, coverage, int(np.prod(self._outputs() or (1,))), split, self._chosen_on_rows())  # type: ignore[attr-defined]

    def _chosen_on_rows(self) -> tuple[str, ...]:
        """What was chosen or computed from the training rows, which breaks the guarantee of leaving them out."""
        return ()

    def _split_interval(self, X: Any, coverage: float) -> Array:
        if not hasattr(self, "calibration_scores_"):
            raise DataError(
                f"this {type(self).__name__} has no calibration rows; call calibrate(X, y) first, with rows that it "
                "was not fitted to"
            )
        fitted, scores = self.predict(X), self.calibration_scores_  # type: ignore[attr-defined]
        if scores.ndim == 1:
            return uncertainty.split_ends(scores, fitted, coverage)
        ends = [uncertainty.split_ends(scores[:, k], fitted[:, k], coverage) for k in range(scores.shape[1])]
        return namespace_of(fitted).stack(ends, axis=1)  # type: ignore[no-any-return]

    def _check_loaded(self) -> None:
        super()._check_loaded()  # type: ignore[misc]
        scores = getattr(self, "calibration_scores_", None)
        if scores is not None and (
            scores.dtype.kind != "f"
            or scores.shape[1:] != self._outputs()  # type: ignore[attr-defined]
            or not scores.shape[0]
            or not (np.isfinite(scores).all() and (scores >= 0.0).all() and (np.diff(scores, axis=0) >= 0.0).all())
        ):
            raise DataError("calibration scores must be absolute errors in ascending order, one column per output")


class LeftOutIntervals(Intervals):
    """Intervals from leaving every training row out: all of them exact, without a refit."""

    _interval_methods = ("conformal", "jackknife+", "jackknife-minmax", "gaussian", "split")

    @abstractmethod
    def _left_out_machines(self, rows: Any) -> "tuple[uncertainty.LeftOutMachines, ...]":
        """All machines without one row, for every output."""

    @abstractmethod
    def _noise(self, rows: Any) -> Array:
        """The variance of the noise that the evidence prefers, one number per output."""

    def predict_interval(
        self, X: Any, coverage: float = 0.9, method: str = "conformal", *, rows: Any = None, diagonal: Any = None
    ) -> Array:
        """Lower and upper ends that hold a new target with probability ``coverage``; nothing is fitted again.

        Parameters
        ----------
        X : array of shape (n, n_features)
            New rows.
        coverage : float, default=0.9
            Share of new targets to be covered, above 0 and below 1, for every output on its own.
        method : {"conformal", "jackknife+", "jackknife-minmax", "gaussian", "split"}, default="conformal"
            ``"conformal"``: the hull of the exact full conformal set, by left-out residuals. ``"jackknife+"`` and
            ``"jackknife-minmax"``: those of [Barber2021]_. ``"gaussian"``: error bars of the Gaussian process of this
            machine. ``"split"``: by the rows given to :meth:`calibrate`. :meth:`interval_guarantee` states what each
            of them guarantees for this model.
        rows : tuple of arrays, array, or source of rows, default=None
            The training rows and targets (X, y), and sample_weight as a third where the fit had one, for a model that
            does not keep them; with a precomputed kernel the kernel matrix of the training rows.
        diagonal : array of shape (n,), default=None
            k(x, x) of the new rows, which ``"conformal"`` and ``"gaussian"`` need with a precomputed kernel.

        Returns
        -------
        array of shape (n, 2) or (n, n_outputs, 2)
            Infinite where there are too few rows for the coverage (8 or fewer for 0.9).
        """
        check_method(method, self._interval_methods)
        uncertainty.exact_level(coverage)
        check_is_fitted(self)
        if method == "split":
            return self._split_interval(X, coverage)
        points, own = self._at(X, diagonal, method)
        if method == "gaussian":
            return self._gaussian(points, own, coverage, rows)
        interval = {
            "conformal": uncertainty.conformal_hull,
            "jackknife+": uncertainty.jackknife_plus,
            "jackknife-minmax": uncertainty.jackknife_minmax,
        }
        ends = [
            interval[method](machines, fitted, points, own, coverage)
            for machines, fitted in self._machines_and_outputs(points, rows)
        ]
        return ends[0] if self._outputs() == () else namespace_of(ends[0]).stack(ends, axis=1)  # type: ignore[attr-defined]

    def predict_region(self, X: Any, coverage: float = 0.9, *, rows: Any = None, diagonal: Any = None) -> list[Any]:
        """The exact full conformal set of every row: its pieces, ascending, one line (from, to) each.

        Ends may be infinite. ``rows`` and ``diagonal`` are those of :meth:`predict_interval`. The arrays are numpy's;
        of several outputs each row has a list of them.
        """
        uncertainty.exact_level(coverage)
        check_is_fitted(self)
        points, own = self._at(X, diagonal, "conformal")
        found = [
            uncertainty.conformal_region(machines, fitted, points, own, coverage)
            for machines, fitted in self._machines_and_outputs(points, rows)
        ]
        one = self._outputs() == ()  # type: ignore[attr-defined]
        return list(found[0]) if one else [list(pieces) for pieces in zip(*found, strict=True)]

    def _machines_and_outputs(self, points: Any, rows: Any) -> "list[tuple[uncertainty.LeftOutMachines, Array | None]]":
        """For every output its machines without one row, and predictions, where these are not computed on the way."""
        machines = self._left_out_machines(rows)
        if all(one.bias is not None for one in machines):
            return [(one, None) for one in machines]
        fitted = self._evaluated(points)  # type: ignore[attr-defined]
        columns = fitted[:, None] if fitted.ndim == 1 else fitted
        return [(one, columns[:, k]) for k, one in enumerate(machines)]

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if hasattr(self, "noise_variance_") or hasattr(self, "unit_ridge_"):
            noise, ridge = (np.asarray(getattr(self, name, None)) for name in ("noise_variance_", "unit_ridge_"))
            shapes = {noise.shape, ridge.shape, self._outputs()}  # type: ignore[attr-defined]
            if len(shapes) > 1 or noise.dtype.kind != "f" or not ((noise >= 0.0).all() and (ridge > 0.0).all()):
                raise DataError("the variance of the noise and 1/gamma must be one positive number per output each")

    def _with_deviations(self, X: Any) -> tuple[Array, Array]:
        """Predictions and their Gaussian standard deviations, noise included."""
        points, own = self._at(X, None, "return_std")
        fitted, deviations = self._evaluated(points), self._deviations(points, own, None)  # type: ignore[attr-defined]
        return fitted, deviations[:, 0] if fitted.ndim == 1 else deviations

    def _gaussian(self, points: Any, own: Array, coverage: float, rows: Any) -> Array:
        fitted, deviations = self._evaluated(points), self._deviations(points, own, rows)  # type: ignore[attr-defined]
        return uncertainty.gaussian_ends(fitted, deviations[:, 0] if fitted.ndim == 1 else deviations, coverage)

    def _deviations(self, points: Any, own: Array, rows: Any) -> Array:
        noise, machines = to_numpy(self._noise(rows)), self._spreading_machines(rows)
        found = [uncertainty.gaussian_deviations(one, float(noise[k]), points, own) for k, one in enumerate(machines)]
        return namespace_of(found[0]).stack(found, axis=1)  # type: ignore[no-any-return]

    def _spreading_machines(self, rows: Any) -> "tuple[uncertainty.LeftOutMachines, ...]":
        """Machines as far as p(x) needs them."""
        return self._left_out_machines(rows)

    def _at(self, X: Any, diagonal: Any, method: str) -> tuple[Any, Array]:
        """The new points, checked, and k(x, x)."""
        points = self._new_points(X)  # type: ignore[attr-defined]
        kernel: Kernel = self.kernel_  # type: ignore[attr-defined]
        if kernel.pairwise and diagonal is None and method.startswith("jackknife"):
            return points, on_device_of(points, np.zeros(int(points.shape[0])))
        return points, diagonal_at(kernel, points, diagonal, f"method={method!r} needs", ", or use method='jackknife+'")


def diagonal_at(kernel: Kernel, points: Any, diagonal: Any, asked: str, otherwise: str) -> Array:
    """k(x, x) of new points: computed, or checked where the kernel is precomputed.

    ``asked`` begins the sentence that refuses a missing one, and ``otherwise`` ends it.
    """
    if not kernel.pairwise:
        if diagonal is not None:
            raise DataError("diagonal is k(x, x) for a precomputed kernel; leave it out, the kernel computes it")
        computed: Array = kernel.diag(points)
        return computed
    if diagonal is None:
        raise DataError(
            f"{asked} k(x, x) of the new rows, which rows of a precomputed kernel do not hold; give "
            f"diagonal={otherwise}"
        )
    own, n = real_array(to_numpy(diagonal), "diagonal", ndim=1), int(points.shape[0])
    if own.shape != (n,):
        raise DataError(f"diagonal must have one entry per row of X: expected {n}, received {own.size}")
    return on_device_of(points, own)  # type: ignore[no-any-return]
