r"""Nonlinear autoregression with exogenous inputs around any regressor, and what is proved of its recursion.

.. math:: \hat y_t = f(y_{t-1}, \dots, y_{t-p},\; u_{t-d_1}, \dots, u_{t-d_q})

f is fitted to windows of the series (:mod:`substrate.windows`), for an LS-SVM the problem of
:mod:`problems.narx_ls_svm`. One step uses observed outputs; a free run uses its own predictions in their place. With a
horizon h the regressor has h outputs, the next h steps, and a free run advances by h at a time.

Lags are compared on the same targets by what the regressor was chosen by, for an LS-SVM exact leave-one-out or, where
errors are correlated, leave-block-out (:mod:`substrate.least_squares.left_out_blocks`): errors of forecasts h steps
ahead overlap by h - 1 steps, and so many neighbours are left out with each.
"""

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from problems.estimators.chosen.selection import LSSVMRegressorCV
from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.files import save
from substrate.arrays import Array, real_array, whole_number
from substrate.certificates import Certificate
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DataError, DeclarationError, SubstrateError
from substrate.windows import Windows, read_delays, read_series, windowize

if TYPE_CHECKING:
    from substrate.uncertainty.adaptive import SeriesIntervals

__all__ = ["NARXRegressor"]

#: Criteria this near each other are equal, and fewer lags win.
_TIE = 1e-9


class NARXRegressor(RegressorMixin, BaseEstimator):
    """A forecast of a series from its past values, and those of inputs, by a regressor of this package.

    Parameters
    ----------
    regressor : estimator, default=None
        Any regressor of this package, which is fitted to windows. None: ``LSSVMRegressorCV("rbf", search="gradient",
        cv="blocks", reach=horizon - 1)``; for a horizon of one that is leave-one-out.
    lags : int or list of int, default=2
        The lags of the output: a number p stands for 1 to p.
    inputs : int or list of int, default=0
        The delays of every column of X: a number q stands for 1 to q, zero for none. A list may have 0, the input of
        the time that is predicted.
    horizon : int, default=1
        The number of steps that one evaluation predicts, each by an output of its own.
    candidates : list, default=None
        Values of ``lags`` to choose from, by the criterion of the regressor on the targets that all of them have;
        ``lags`` is not used then. The regressor must be one that chooses, such as ``LSSVMRegressorCV``.
    standardize : bool, default=True
        Whether the columns of windows are measured from the mean of the series, in its deviations, so that one width
        fits outputs and inputs.

    Attributes
    ----------
    regressor_ : estimator
        The fitted regressor; its ``certificate_`` is also that of this estimator.
    lags_, inputs_ : tuple of int
        The lags of the output and the delays of the inputs.
    lag_results_ : list of dict
        ``lags``, ``criterion`` and ``lower_bound`` of every candidate, where there are some.
    center_, scale_ : array
        What is subtracted from the columns of windows, and what they are divided by.
    history_, input_history_ : array
        The end of the series, from which :meth:`predict` goes on; :meth:`observe` extends it.
    scores_ : array
        Absolute errors of left-out rows, one step ahead; of the training rows where the regressor leaves none out.
    feature_names_in_ : array of shape (m,)
        The names of the inputs, where X had some.

    Examples
    --------
    >>> import numpy as np
    >>> from problems import LSSVMRegressor, NARXRegressor
    >>> y = np.sin(0.3 * np.arange(120))
    >>> model = NARXRegressor(LSSVMRegressor("rbf", 1e4), lags=2).fit(None, y)
    >>> bool(np.abs(model.forecast(5) - np.sin(0.3 * np.arange(120, 125))).max() < 0.01)
    True
    """

    def __init__(
        self,
        regressor: Any = None,
        *,
        lags: Any = 2,
        inputs: Any = 0,
        horizon: int = 1,
        candidates: Any = None,
        standardize: bool = True,
    ) -> None:
        self.regressor = regressor
        self.lags = lags
        self.inputs = inputs
        self.horizon = horizon
        self.candidates = candidates
        self.standardize = standardize

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # rows follow each other: a prediction depends on those before it
        tags.non_deterministic = False
        tags.input_tags.two_d_array = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "regressor_")

    @property
    def certificate_(self) -> Certificate:
        """The certificate of the regressor on its windows."""
        check_is_fitted(self)
        certificate: Certificate = self.regressor_.certificate_
        return certificate

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit the regressor to all windows of a series.

        Parameters
        ----------
        X : array of shape (T, m) or None
            Inputs, one row per time; without delays of inputs it is not used and may be None.
        y : array of shape (T,)
            The outputs, in the order of time.
        groups : array of shape (T,), default=None
            One label per row where there are several series: no window crosses from one to another, and a regressor
            with ``cv="groups"`` leaves them out in turn.
        """
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        if y is None:
            raise DataError("NARXRegressor requires y to be passed, but the target y is None: give the series")
        regressor = self._new_regressor()
        delays = read_delays(self.inputs, "inputs", 0)
        values, outputs = read_series(X, y, delays)
        lags = read_delays(self.lags, "lags", 1)
        if self.candidates is not None:
            lags, results = self._choose_lags(regressor, values, outputs, delays, groups)
        windows = windowize(outputs, values, lags=lags, inputs=delays, horizon=self.horizon, groups=groups)
        center, scale = self._units(values, outputs, len(lags), len(delays))
        fitted = _fit_windows(clone(regressor), windows, center, scale, groups)
        self.lags_, self.inputs_, self.center_, self.scale_ = lags, delays, center, scale
        if self.candidates is not None:
            self.lag_results_ = results
        self.n_features_in_ = 0 if values is None else int(values.shape[1])
        if values is not None and hasattr(X, "columns"):
            self.feature_names_in_ = np.array([str(name) for name in X.columns], dtype=object)
        self.scores_ = _left_out_scores(fitted, (windows.X - center) / scale, windows.y)
        self._keep_history(values, outputs)
        self.regressor_ = fitted
        return self

    def predict(self, X: Any) -> Array:
        """Forecast the rows of X, which follow those of the training in time, by a free run.

        Without delays of inputs only the number of rows of X counts. This is what scikit-learn's ``TimeSeriesSplit``
        asks of an estimator.
        """
        return self.forecast(int(np.asarray(X).shape[0]), X if self._fitted_inputs() else None)

    def forecast(self, steps: int, X: Any = None) -> Array:
        """Forecast the next steps by a free run, from the end of the series that was fitted or observed."""
        check_is_fitted(self)
        return self.simulate(self.history_, steps, X, past_inputs=self.input_history_)

    def simulate(self, start: Any, steps: int, X: Any = None, past_inputs: Any = None) -> Array:
        """Run freely from given outputs: every prediction is used for the next ones.

        Parameters
        ----------
        start : array
            At least as many outputs as the largest lag, the latest one last.
        steps : int
            The number of steps.
        X : array of shape (steps, m), default=None
            The inputs of these steps.
        past_inputs : array, default=None
            The inputs before them, as far as the delays reach; the latest one last.
        """
        check_is_fitted(self)
        count = whole_number(steps, "steps", 1)
        past = real_array(start, "start", ndim=1)
        if past.size < max(self.lags_):
            raise DataError(f"start must have {max(self.lags_)} outputs, the largest lag; received {past.size}")
        inputs = self._all_inputs(X, past_inputs, count)
        run = np.concatenate([past, np.full(count + self.horizon, math.nan)])
        reach = past.size
        for step in range(0, count, self.horizon):
            now = reach + step
            window = [run[now - lag] for lag in self.lags_]
            if inputs is not None:
                offset = inputs.shape[0] - count
                window += [inputs[offset + step - d, c] for c in range(inputs.shape[1]) for d in self.inputs_]
            run[now : now + self.horizon] = self._evaluate(np.array([window]))[0]
        return np.asarray(run[reach : reach + count])

    def predict_one_step(self, X: Any, y: Any, groups: Any = None) -> Array:
        """Predict every row from the rows before it, as they were observed; NaN where the lags reach too far."""
        return self.predict_ahead(X, y, 1, groups)

    def predict_ahead(self, X: Any, y: Any, steps: int, groups: Any = None) -> Array:
        """Predict every row from outputs up to ``steps`` rows before it; NaN where there are too few.

        Between those outputs and the row the predictions take their place; inputs are those observed.
        """
        check_is_fitted(self)
        ahead = whole_number(steps, "steps", 1)
        values, outputs = read_series(X, y, self.inputs_)
        self._check_columns(values)
        predictions = np.full(outputs.size, math.nan)
        reach, rounds = max((*self.lags_, *self.inputs_)), -(-ahead // self.horizon)
        if outputs.size < reach + ahead:
            return predictions
        windows = windowize(
            outputs, values, lags=self.lags_, inputs=self.inputs_, horizon=ahead, groups=groups
        )  # also refuses labels that are none
        first = windows.rows
        past = np.column_stack([outputs[first - lag] for lag in range(max(self.lags_), 0, -1)])
        for turn in range(rounds):
            columns = [past[:, -lag] for lag in self.lags_]
            if values is not None:
                at = first + turn * self.horizon
                columns += [values[at - d, c] for c in range(values.shape[1]) for d in self.inputs_]
            past = np.hstack([past, self._evaluate(np.column_stack(columns))])
        predictions[first + ahead - 1] = past[:, max(self.lags_) + ahead - 1]
        return predictions

    def observe(self, X: Any, y: Any) -> Self:
        """Take rows that follow into the history, without fitting again; :meth:`predict` goes on from their end."""
        check_is_fitted(self)
        values, outputs = read_series(X, y, self.inputs_)
        self._check_columns(values)
        self._keep_history(self._join_inputs(values), np.concatenate([self.history_, outputs]))
        return self

    def follow(self, X: Any, y: Any, coverage: float = 0.9, rate: float = 0.05) -> "SeriesIntervals":
        """Return intervals of rows that follow in time, one step ahead, each made before its target is seen.

        They are those of adaptive conformal inference (:mod:`substrate.uncertainty.adaptive`), which begin with the
        errors of left-out rows; the guarantee is on the result. The rows are not taken into the history.
        """
        from substrate.uncertainty.adaptive import AdaptiveIntervals  # most fits need no intervals

        check_is_fitted(self)
        values, outputs = read_series(X, y, self.inputs_)
        self._check_columns(values)
        whole = np.concatenate([self.history_, outputs])
        predictions = self.predict_one_step(self._join_inputs(values), whole)[self.history_.size :]
        intervals: SeriesIntervals = AdaptiveIntervals(list(self.scores_), coverage, rate).follow(predictions, outputs)
        return intervals

    def certify(self, X: Any, y: Any, groups: Any = None) -> Certificate:
        """Check the present coefficients on the windows of the training series, given again."""
        check_is_fitted(self)
        values, outputs = read_series(X, y, self.inputs_)
        windows = windowize(outputs, values, lags=self.lags_, inputs=self.inputs_, horizon=self.horizon, groups=groups)
        certificate: Certificate = self.regressor_.certify((windows.X - self.center_) / self.scale_, windows.y)
        return certificate

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the regressor, the lags and the end of the series to a file that :func:`problems.load` reads back."""
        check_is_fitted(self)
        notes = {
            "lags": list(self.lags_),
            "inputs": list(self.inputs_),
            "horizon": int(self.horizon),
            "standardize": bool(self.standardize),
            "n_features_in": self.n_features_in_,
            "center": self.center_.tolist(),
            "scale": self.scale_.tolist(),
            "history": self.history_.tolist(),
            "input_history": None if self.input_history_ is None else self.input_history_.tolist(),
            "scores": self.scores_.tolist(),
            "names": [str(name) for name in getattr(self, "feature_names_in_", ())],
        }
        save(self.regressor_, path, {"series": notes}, lambda model, found: type(self).restore(model, found, path))

    @classmethod
    def restore(cls, regressor: Any, notes: Any, path: Any) -> Self:
        """Return the estimator of a file, from its regressor and its notes, checked."""
        kept = notes.get("series") if isinstance(notes, Mapping) else None
        if not isinstance(kept, Mapping):
            raise DataError(f"{path} holds a {type(regressor).__name__} and no series around it; load it by load(path)")
        try:
            lags, inputs = read_delays(kept["lags"], "lags", 1), read_delays(kept["inputs"], "inputs", 0)
            features = whole_number(kept["n_features_in"], "n_features_in", 0)
            model = cls(
                regressor,
                lags=list(lags),
                inputs=list(inputs),
                horizon=whole_number(kept["horizon"], "horizon", 1),
                standardize=bool(kept["standardize"]),
            )
            columns = len(lags) + features * len(inputs)
            center, scale = (real_array(kept[name], name, ndim=1) for name in ("center", "scale"))
            history, scores = (real_array(kept[name], name, ndim=1) for name in ("history", "scores"))
            past = None if kept["input_history"] is None else real_array(kept["input_history"], "input_history", ndim=2)
            names = [str(name) for name in kept.get("names", ())]
        except (KeyError, TypeError, ValueError, SubstrateError) as error:
            raise DataError(f"{path} is refused: it does not describe a series ({error})") from error
        fits = center.shape == scale.shape == (columns,) and (scale > 0.0).all() and history.size >= max(lags)
        fits = (
            fits and scores.size > 0 and (past is None) == (not inputs) and (past is None or past.shape[1] == features)
        )
        if not fits or getattr(regressor, "n_features_in_", None) != columns:
            raise DataError(f"{path} is refused: its windows have other columns than its regressor")
        model.lags_, model.inputs_, model.center_, model.scale_ = lags, inputs, center, scale
        model.history_, model.input_history_, model.scores_ = history, past, scores
        if names and len(names) != features:
            raise DataError(f"{path} is refused: it has other names of inputs than inputs")
        if names:
            model.feature_names_in_ = np.array(names, dtype=object)
        model.n_features_in_, model.regressor_ = features, regressor
        return model

    def _new_regressor(self) -> Any:
        """Return the regressor to fit, refused where it is none of this package."""
        steps = whole_number(self.horizon, "horizon", 1)
        if self.regressor is None:
            return LSSVMRegressorCV("rbf", search="gradient", cv="blocks", reach=steps - 1)
        if not isinstance(self.regressor, KernelEstimator) or self.regressor._labels:
            raise DeclarationError(
                f"regressor must be a regressor of this package, as LSSVMRegressorCV(), received {self.regressor!r}"
            )
        return self.regressor

    def _choose_lags(
        self, regressor: Any, values: Array | None, outputs: Array, delays: tuple[int, ...], groups: Any
    ) -> tuple[tuple[int, ...], list[dict[str, Any]]]:
        """Return the candidate of the least criterion on the targets that all have, and the table."""
        if (
            isinstance(self.candidates, (str, bytes))
            or not isinstance(self.candidates, Sequence)
            or not self.candidates
        ):
            raise DeclarationError(f"candidates must be a list of values of lags, received {self.candidates!r}")
        if getattr(regressor, "_chooses", None) is None:
            raise DeclarationError(
                f"candidates are compared by the criterion that a regressor chooses by, and {type(regressor).__name__} "
                "chooses nothing; use LSSVMRegressorCV, or give lags"
            )
        tried = [read_delays(lags, "candidates", 1) for lags in self.candidates]
        every = tuple(sorted({lag for lags in tried for lag in lags}))
        common = windowize(outputs, values, lags=every, inputs=delays, horizon=self.horizon, groups=groups)
        results: list[dict[str, Any]] = []
        for lags in tried:
            center, scale = self._units(values, outputs, len(lags), len(delays))
            kept = [every.index(lag) for lag in lags] + list(range(len(every), common.X.shape[1]))
            windows = Windows(common.X[:, kept], common.y, common.rows, tuple(common.names[k] for k in kept))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the machine that is kept they will be given
                fitted = _fit_windows(clone(regressor), windows, center, scale, groups)
            results.append(
                {
                    "lags": lags,
                    "criterion": float(np.mean(fitted.criterion_)),
                    "lower_bound": float(np.mean(fitted.criterion_lower_bound_)),
                }
            )
        least = min(result["criterion"] for result in results)
        near = [result for result in results if result["criterion"] <= least * (1.0 + _TIE)]
        best: tuple[int, ...] = min(near, key=lambda result: len(result["lags"]))["lags"]
        return best, results

    def _units(self, values: Array | None, outputs: Array, p: int, delays: int) -> tuple[Array, Array]:
        """Return the center and the unit of every column of windows: mean and deviation of its series."""
        series = [(outputs, p)]
        series += [] if values is None else [(values[:, column], delays) for column in range(values.shape[1])]
        centers, units = [], []
        for each, count in series:
            largest = float(np.abs(each).max())
            mean = float(np.mean(each / largest) * largest) if largest > 0.0 else 0.0
            mean = min(max(mean, float(each.min())), float(each.max()))
            spread = float(np.std((each - mean) / largest) * largest) if largest > 0.0 else 0.0
            is_moving = spread > relative_rounding(1e4) * largest
            centers += [mean if self.standardize else 0.0] * count
            units += [spread if self.standardize and is_moving else 1.0] * count
        return np.array(centers), np.array(units)

    def _keep_history(self, values: Array | None, outputs: Array) -> None:
        """Keep as much of the end of the series as windows need."""
        reach = max((*self.lags_, *self.inputs_))
        self.history_ = outputs[-reach:].copy()
        self.input_history_ = None if values is None else values[-reach:].copy()

    def _join_inputs(self, values: Array | None) -> Array | None:
        """Return the inputs of the history and those that follow."""
        if values is None or self.input_history_ is None:
            return None
        return np.asarray(np.vstack([self.input_history_, values]))

    def _fitted_inputs(self) -> bool:
        check_is_fitted(self)
        return bool(self.inputs_)

    def _check_columns(self, values: Array | None) -> None:
        if values is not None and values.shape[1] != self.n_features_in_:
            raise DataError(
                f"X has {values.shape[1]} features, but NARXRegressor is expecting {self.n_features_in_} features as "
                "input"
            )

    def _all_inputs(self, X: Any, past_inputs: Any, steps: int) -> Array | None:
        """Return past and future inputs, as far as the delays reach, the future ones last."""
        if not self.inputs_:
            return None
        if X is None:
            raise DataError(f"the model has inputs: give X, one row for each of the {steps} steps")
        future = real_array(X, "X", ndim=(1, 2))
        future = future[:, None] if future.ndim == 1 else future
        if future.shape[0] != steps:
            raise DataError(f"X must have one row for each of the {steps} steps, received {future.shape[0]}")
        self._check_columns(future)
        reach = max(self.inputs_)
        past = self.input_history_ if past_inputs is None else real_array(past_inputs, "past_inputs", ndim=(1, 2))
        past = np.asarray(past).reshape(-1, future.shape[1])
        if past.shape[0] < reach:
            raise DataError(f"past_inputs must have {reach} rows, the largest delay; received {past.shape[0]}")
        # the steps of the last evaluation of a horizon need no inputs beyond those given
        return np.vstack([past, future])

    def _evaluate(self, windows: Array) -> Array:
        """Return the next steps of every window, one column each."""
        outputs = np.asarray(self.regressor_.predict((windows - self.center_) / self.scale_))
        return outputs.reshape(windows.shape[0], self.horizon)


def _fit_windows(regressor: Any, windows: Windows, center: Array, scale: Array, groups: Any) -> Any:
    """Fit a regressor to scaled windows; labels of series go to a search that uses them."""
    X = (windows.X - center) / scale
    cv = getattr(regressor, "cv", "loo")
    uses_groups = cv in ("blocks", "groups") if isinstance(cv, str) else cv is not None
    if groups is not None and uses_groups and isinstance(regressor, LSSVMRegressorCV):
        return regressor.fit(X, windows.y, groups=np.asarray(groups)[windows.rows])
    return regressor.fit(X, windows.y)


def _left_out_scores(regressor: Any, X: Array, y: Array) -> Array:
    """Return absolute errors one step ahead, of rows left out where the regressor has such in closed form."""
    try:
        residuals = np.asarray(regressor.leave_one_out(X, y).residuals)
    except (AttributeError, SubstrateError):
        residuals = np.asarray(y - regressor.predict(X))
    first = residuals if residuals.ndim == 1 else residuals[:, 0]
    return np.sort(np.abs(first))
