r"""Nonlinear autoregression with exogenous inputs around any regressor.

.. math:: \hat y_t = f(y_{t-1}, \dots, y_{t-p},\; u_{t-d_1}, \dots, u_{t-d_q})

f is fitted to windows of the series (:mod:`substrate.windows`), for an LS-SVM the problem of
:mod:`problems.narx_ls_svm`. One step uses observed outputs; a free run uses its own predictions in their place. With a
horizon h the regressor has h outputs, the next h steps, and a free run advances by h at a time.

Errors of forecasts h steps ahead overlap by h - 1 steps, and so many neighbours are left out with each row where the
regressor is chosen (:mod:`substrate.left_out.leave_one_out`).
"""

import math
import os
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from problems.estimators.chosen.selection import LSSVMRegressorCV
from problems.estimators.shared.base import KernelEstimator
from substrate.arrays import Array, real_array, whole_number
from substrate.certificate import Certificate
from substrate.errors import DataError, DeclarationError
from substrate.files import save
from substrate.windows import Windows, read_delays, read_series, windowize

__all__ = ["NARXRegressor"]


class NARXRegressor(RegressorMixin, BaseEstimator):
    """A forecast of a series from its past values, and past values of inputs, by a regressor of this package.

    Outputs and inputs in other units need a kernel with one width per column, as ``RBF("each")``, or to be scaled.
    Lags are parameters like others: ``GridSearchCV`` with ``TimeSeriesSplit`` compares free runs, and
    ``regressor_.criterion_`` of a regressor that chooses its gamma judges the rows that it leaves out.

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
        The number of steps that one evaluation predicts, each by a separate output.

    Attributes
    ----------
    regressor_ : estimator
        The fitted regressor; its ``certificate_`` is also the ``certificate_`` of this estimator.
    lags_, inputs_ : tuple of int
        The lags of the output and the delays of the inputs.
    history_ : array of shape (reach, 1 + m)
        The end of the series, outputs before inputs, from which :meth:`predict` goes on.
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

    def __init__(self, regressor: Any = None, *, lags: Any = 2, inputs: Any = 0, horizon: int = 1) -> None:
        self.regressor = regressor
        self.lags = lags
        self.inputs = inputs
        self.horizon = horizon

    @property
    def certificate_(self) -> Certificate:
        """The certificate of the regressor on its windows."""
        check_is_fitted(self)
        return self.regressor_.certificate_

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
        lags, delays = read_delays(self.lags, "lags", 1), read_delays(self.inputs, "inputs", 0)
        values, outputs = read_series(X, y, delays)
        windows = windowize(outputs, values, lags=lags, inputs=delays, horizon=self.horizon, groups=groups)
        labels = {}
        if groups is not None and getattr(regressor, "cv", None) in ("blocks", "groups"):
            labels = {"groups": np.asarray(groups)[windows.rows]}
        fitted = regressor.fit(windows.X, windows.y, **labels)
        self.lags_, self.inputs_ = lags, delays
        self.n_features_in_ = 0 if values is None else int(values.shape[1])
        if values is not None and hasattr(X, "columns"):
            self.feature_names_in_ = np.array([str(name) for name in X.columns], dtype=object)
        self.history_ = _join(outputs, values)[-max((*lags, *delays)) :].copy()
        self.regressor_ = fitted
        return self

    def predict(self, X: Any) -> Array:
        """Forecast the rows of X, which follow the training rows in time, by a free run.

        Without delays of inputs only the number of rows of X counts. scikit-learn's ``TimeSeriesSplit`` needs such
        predictions.
        """
        check_is_fitted(self)
        return self.forecast(int(np.asarray(X).shape[0]), X if self.inputs_ else None)

    def forecast(self, steps: int, X: Any = None, *, history: Any = None) -> Array:
        """Forecast the next steps by a free run: every prediction is used for the next ones.

        Parameters
        ----------
        steps : int
            The number of steps.
        X : array of shape (steps, m), default=None
            The inputs of these steps.
        history : pair (X, y), default=None
            The rows before them, at least as many as the largest lag or delay; X is None without inputs. None: the end
            of the series of the fit.
        """
        check_is_fitted(self)
        count, h = whole_number(steps, "steps", 1), int(self.horizon)
        past = self.history_ if history is None else self._read_history(history)
        run = np.concatenate([past[:, 0], np.full(count + h, math.nan)])
        inputs = np.vstack([past[:, 1:], self._future(X, count)])
        for now in range(past.shape[0], past.shape[0] + count, h):
            window = [run[now - lag] for lag in self.lags_]
            window += [inputs[now - delay, column] for column in range(self.n_features_in_) for delay in self.inputs_]
            run[now : now + h] = np.ravel(self.regressor_.predict(np.array([window])))
        return np.asarray(run[past.shape[0] : past.shape[0] + count])

    def predict_one_step(self, X: Any, y: Any, groups: Any = None) -> Array:
        """Predict every row from the rows before it, as they were observed; NaN where the lags reach too far."""
        windows, n_rows = self._windows(X, y, 1, groups)
        predictions = np.full(n_rows, math.nan)
        predictions[windows.rows] = np.reshape(self.regressor_.predict(windows.X), (windows.rows.size, -1))[:, 0]
        return predictions

    def certify(self, X: Any, y: Any, groups: Any = None) -> Certificate:
        """Check the present coefficients on the windows of the training series, given again."""
        windows, _ = self._windows(X, y, self.horizon, groups)
        return self.regressor_.certify(windows.X, windows.y)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the regressor, the lags and the end of the series to a file that :func:`problems.load` reads back."""
        check_is_fitted(self)
        save(self, path)

    def _new_regressor(self) -> Any:
        """Return the regressor to fit; refuse regressors from other packages."""
        steps = whole_number(self.horizon, "horizon", 1)
        if self.regressor is None:
            return LSSVMRegressorCV("rbf", search="gradient", cv="blocks", reach=steps - 1)
        if not isinstance(self.regressor, KernelEstimator) or self.regressor._labels:
            raise DeclarationError(
                f"regressor must be a regressor of this package, as LSSVMRegressorCV(), received {self.regressor!r}"
            )
        return clone(self.regressor)

    def _windows(self, X: Any, y: Any, horizon: int, groups: Any) -> tuple[Windows, int]:
        """Return the windows of a series like the series of the fit, and the number of its rows."""
        check_is_fitted(self)
        values, outputs = read_series(X, y, self.inputs_)
        self._check_columns(values)
        how: Any = {"lags": self.lags_, "inputs": self.inputs_, "horizon": horizon, "groups": groups}
        return windowize(outputs, values, **how), int(outputs.size)

    def _read_history(self, history: Any) -> Array:
        """Return outputs and inputs of rows that were given, one line per time."""
        if not isinstance(history, tuple) or len(history) != 2:
            raise DataError(f"history must be a pair (X, y) of the rows before, received a {type(history).__name__}")
        values, outputs = read_series(*history, self.inputs_)
        self._check_columns(values)
        reach = self.history_.shape[0]
        if outputs.size < reach:
            raise DataError(f"history must have {reach} rows, the largest lag or delay; received {outputs.size}")
        return _join(outputs, values)

    def _future(self, X: Any, steps: int) -> Array:
        """Return the inputs of the steps to come, without columns where the model has none."""
        if not self.inputs_:
            return np.empty((steps, 0))
        if X is None:
            raise DataError(f"the model has inputs: give X, one row for each of the {steps} steps")
        future = real_array(X, "X", ndim=(1, 2))
        future = future[:, None] if future.ndim == 1 else future
        if future.shape[0] != steps:
            raise DataError(f"X must have one row for each of the {steps} steps, received {future.shape[0]}")
        self._check_columns(future)
        return future

    def _check_columns(self, values: Array | None) -> None:
        if values is not None and values.shape[1] != self.n_features_in_:
            raise DataError(
                f"X has {values.shape[1]} features, but NARXRegressor is expecting {self.n_features_in_} features as "
                "input"
            )


def _join(outputs: Array, values: Array | None) -> Array:
    """Return outputs and inputs, one line per time."""
    return outputs[:, None] if values is None else np.column_stack([outputs, values])
