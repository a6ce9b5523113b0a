r"""The choice of gamma by folds where the machine has no closed forms: a shape that holds everywhere, robust weights.

.. math:: \min_{\gamma \in G} \; \frac{1}{\sum v} \sum_{\text{folds}} \sum_{i \text{ left out}}
          v_i \, (y_i - f_\gamma(x_i))^2 ,

:math:`f_\gamma` the machine of the other rows, with its shape in the box of all rows or with robust weights by its own
rows, and G a grid. Least squares in the folds would let outliers choose gamma ([DeBrabanter2009]_), so that robust
machines may be judged by the absolute errors of the rows left out. Nothing is proved of other values of gamma.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.full.saddle_fit import Method, center_and_unit
from problems.estimators.full.shaped import (
    fit_with_shape,
    has_shape,
    in_units,
    read_shapes,
    refuse_machine,
)
from substrate.arrays import Array, is_sparse
from substrate.errors import DeclarationError
from substrate.least_squares.leave_one_out import ROBUST
from substrate.namespaces import take_rows
from substrate.search.gamma_search import gamma_ends

__all__ = ["choose_by_folds"]

_Estimator = TypeVar("_Estimator")
#: A function of training rows and gamma that fits the machine and returns its predictions of other rows.
_Machine = Callable[[Any, float], Callable[[Any], Array]]
#: The values of gamma times the mean weight that are considered unless others are given, and how many for each decade.
_RANGE, _PER_DECADE = (1e-2, 1e4), 2
#: How many larger values are tried after the best one: machines of large gamma take the most time.
_BEYOND = 3


def choose_by_folds(model: _Estimator, X: Any, y: Any, X_val: Any, y_val: Any, sample_weight: Any) -> _Estimator:
    """Choose gamma by folds or validation rows, and fit the machine at the best value."""
    estimator: Any = model
    search = estimator._selector
    _refuse(estimator)
    search.check_rules()
    X, y, given = estimator._check_data(X, y, sample_weight, numeric=True, multi_output=True)
    data = (X, y)
    X, y, weights, kept = estimator._weighted(X, y, given)
    split = search.part_rows(X, y, X_val, y_val)
    kernel = search.candidates(split.X)[0]
    v = np.asarray(take_rows(weights, split.rows), dtype=np.float64)
    if estimator.loss != "squared" and (v != v[0]).any():
        raise DeclarationError(f"sample_weight needs loss='squared': loss={estimator.loss!r} counts rows")
    make = _shaped_machine if has_shape(estimator) else _robust_machine
    machine = make(estimator, kernel, split.X, split.y, v)
    if split.X_check is None:
        pairs = search.splits(*data, kept)
        folds = [(train, search.take_points(split.X, test, train), split.y[test], v[test]) for train, test in pairs]
        how = f"{len(folds)} folds"
    else:
        counted = np.ones(len(split.y_check)) if split.held_out is None else np.asarray(weights)[split.held_out]
        folds, how = [(np.arange(split.rows.size), split.X_check, split.y_check, counted)], split.how
    low, high = _ends(estimator.gamma_range, v)
    began, gammas, criteria = time.perf_counter(), list[float](), list[float]()
    for gamma in np.geomspace(low, high, int(np.ceil(_PER_DECADE * np.log10(high / low))) + 1):
        errors = [np.ravel(checked) - machine(train, float(gamma))(points) for train, points, checked, _ in folds]
        counted = np.concatenate([fold[3] for fold in folds])
        gammas.append(float(gamma))
        criteria.append(_judge(np.concatenate(errors), counted, estimator.loss))
        if len(criteria) - 1 - int(np.argmin(criteria)) >= _BEYOND:
            break
    _keep(estimator, kernel, gammas, criteria, time.perf_counter() - began)
    tried = f"{len(gammas)} values from {gammas[0]:.3g} to {gammas[-1]:.3g}, by {how}; nothing is proved of others"
    facts = (("choice of gamma", f"the best of {tried}"),)
    rows, gamma = kept[split.rows], (estimator.gamma_,)
    if has_shape(estimator):
        return fit_with_shape(model, split.X, np.reshape(split.y, (-1, 1)), rows, v, gamma, kernel, ((), facts))
    fit = estimator._model.solve(
        kernel, split.X, np.reshape(split.y, (-1, 1)), gamma, v, Method.closed_form(estimator._tolerance())
    )
    fit = fit._replace(facts=(*fit.facts, *facts))
    estimator._model.keep(split.X, rows, kernel, fit, gamma, v, True)
    return model


def _shaped_machine(model: Any, kernel: Any, X: Any, y: Any, weights: Array) -> _Machine:
    """Return the fit of the machine with its shape in the box of all rows, in units of the targets."""
    from substrate.composition.shaped_least_squares import fit_shaped

    Y = y[:, None] if y.ndim == 1 else y
    refuse_machine(model, X, Y, kernel)
    rows = _dense(X)
    center, unit = center_and_unit(np.ascontiguousarray(Y[:, 0]))
    target = (Y[:, 0] - center) / unit
    shapes = read_shapes(model, rows.shape[1])
    shapes = replace(shapes, bounds=in_units(shapes.bounds, center, unit))
    box = np.column_stack([rows.min(axis=0), rows.max(axis=0)])

    def fit(train: Any, gamma: float) -> Callable[[Any], Array]:
        result, _ = fit_shaped(kernel, rows[train], target[train], gamma, weights[train], shapes, box)
        return lambda points: center + unit * np.asarray(result.expansions[0].predict(_dense(points)))

    return fit


def _robust_machine(model: Any, kernel: Any, X: Any, y: Any, weights: Array) -> _Machine:
    """Return the fit of the machine with robust weights by its own rows."""
    if y.ndim > 1:
        raise DeclarationError(f"robust weights are of one output, received {y.shape[1]}; fit one estimator for each")
    columns = [int(column) for column in model._model.linear_numbers()]
    inside = kernel.kernel if columns else kernel
    plain = LSSVMRegressor(inside, tol=model.tol, linear_columns=columns, robust=model.robust)

    def fit(train: Any, gamma: float) -> Callable[[Any], Array]:
        machine = clone(plain).set_params(gamma=gamma)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit to all rows gives them
            machine.fit(model._selector.take_points(X, train, train), y[train], sample_weight=weights[train])
        return machine.predict  # type: ignore[no-any-return]

    return fit


def _judge(errors: Array, weights: Array, loss: str) -> float:
    """Return the loss of errors of rows left out."""
    if loss != "squared":
        return float(ROBUST[loss](errors))
    unit = float(np.abs(errors).max()) or 1.0
    return float(np.average(np.square(errors / unit), weights=weights)) * unit * unit


def _refuse(model: Any) -> None:
    """Refuse rules that are of the machine with closed forms."""
    criterion = model._selector.criterion
    if criterion not in ("folds", "validation"):
        raise DeclarationError(
            f"cv={model.cv!r} is a closed form of the machine without a shape and robust weights; with robust, "
            "monotone, convex or bounds choose gamma by folds, cv=5, or by validation rows, cv=None"
        )
    if model.kernels is not None or model.search is not None:
        raise DeclarationError(
            "with robust, monotone, convex or bounds gamma is chosen for one kernel: leave kernels and search out, and "
            "choose the kernel without them, or by GridSearchCV"
        )
    losses = ("squared",) if has_shape(model) else ("squared", *ROBUST)
    if model.loss not in losses:
        raise DeclarationError(f"loss must be one of {', '.join(losses)} for this machine, received {model.loss!r}")


def _ends(given: Any, weights: Array) -> tuple[float, float]:
    if given is not None:
        low, high = gamma_ends(given)
        return float(low), float(high)
    mean = float(weights.mean())
    return _RANGE[0] / mean, _RANGE[1] / mean


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)


def _keep(model: Any, kernel: Any, gammas: list[float], errors: list[float], seconds: float) -> None:
    """Set the attributes of a search, in the units of y."""
    best = int(np.argmin(errors))
    model.gamma_, model.criterion_, model.criterion_lower_bound_ = gammas[best], errors[best], -np.inf
    model.gamma_range_ = np.array([gammas[0], gammas[-1]])
    model.path_ = {
        "parameter": "gamma",
        "values": np.array(gammas),
        "criterion": np.array(errors),
        "coverage": (gammas[0], gammas[-1]),
    }
    model.cv_results_ = {
        "params": [{"kernel": kernel, "gamma": model.gamma_}],
        "param_kernel": [kernel],
        "param_gamma": [model.gamma_],
        "mean_fit_time": np.array([seconds]),
        "std_fit_time": np.zeros(1),
        "mean_test_score": np.array([-model.criterion_]),
        "std_test_score": np.zeros(1),
        "rank_test_score": np.ones(1, dtype=np.int32),
        "lower_bound": np.array([-np.inf]),
        "gamma_range": [[gammas[0], gammas[-1]]],
        "n_intervals": np.array([len(gammas) - 1]),
    }
