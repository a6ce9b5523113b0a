r"""The choice of gamma by folds where the machine has a shape that holds everywhere.

.. math:: \min_{\gamma \in G} \; \frac{1}{\sum v} \sum_{\text{folds}} \sum_{i \text{ left out}}
          v_i \, (y_i - f_\gamma(x_i))^2 ,

:math:`f_\gamma` the machine of the other rows with its shape in the box of all rows, and G a grid. Nothing is proved of
other values of gamma.
"""

import time
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from problems.estimators.full.shaped import center_and_unit, fit_with_shape, in_units, read_shapes, refuse_machine
from substrate.arrays import Array, is_sparse
from substrate.errors import DeclarationError
from substrate.namespaces import take_rows
from substrate.search.gamma_search import gamma_ends

__all__ = ["choose_shaped_gamma"]

_Estimator = TypeVar("_Estimator")
#: The values of gamma times the mean weight that are considered unless others are given, and how many for each decade.
_RANGE, _PER_DECADE = (1e-2, 1e4), 2
#: How many larger values are tried after the best one: machines of large gamma take the most time.
_BEYOND = 3


def choose_shaped_gamma(model: _Estimator, X: Any, y: Any, X_val: Any, y_val: Any, sample_weight: Any) -> _Estimator:
    """Choose gamma by folds or validation rows, and fit the machine with its shape at the best value."""
    from substrate.composition.shaped_least_squares import fit_shaped

    estimator: Any = model
    search = estimator._selector
    _refuse(estimator)
    search.check_rules()
    X, y, given = estimator._check_data(X, y, sample_weight, numeric=True, multi_output=True)
    data = (X, y)
    X, y, weights, kept = estimator._weighted(X, y, given)
    split = search.part_rows(X, y, X_val, y_val)
    kernel = search.candidates(split.X)[0]
    Y = split.y[:, None] if split.y.ndim == 1 else split.y
    refuse_machine(estimator, split.X, Y, kernel)
    rows, v = _dense(split.X), np.asarray(take_rows(weights, split.rows), dtype=np.float64)
    center, unit = center_and_unit(np.ascontiguousarray(Y[:, 0]))
    target = (Y[:, 0] - center) / unit
    if split.X_check is None:
        pairs = search.splits(*data, kept)
        folds = [(train, rows[test], target[test], v[test]) for train, test in pairs]
        how = f"{len(folds)} folds"
    else:
        points, checked = _dense(split.X_check), (np.ravel(split.y_check) - center) / unit
        counted = np.ones(checked.size) if split.held_out is None else np.asarray(weights)[split.held_out]
        folds, how = [(np.arange(len(rows)), points, checked, counted)], split.how
    shapes = read_shapes(estimator, rows.shape[1])
    shapes = replace(shapes, bounds=in_units(shapes.bounds, center, unit))
    box = np.column_stack([rows.min(axis=0), rows.max(axis=0)])
    low, high = _ends(estimator.gamma_range, v)
    began, gammas, errors = time.perf_counter(), list[float](), list[float]()
    for gamma in np.geomspace(low, high, int(np.ceil(_PER_DECADE * np.log10(high / low))) + 1):
        total = mass = 0.0
        for train, points, checked, counted in folds:
            result, _ = fit_shaped(kernel, rows[train], target[train], float(gamma), v[train], shapes, box)
            total += float(counted @ np.square(checked - result.expansions[0].predict(points)))
            mass += float(counted.sum())
        gammas.append(float(gamma))
        errors.append(unit**2 * total / mass)
        if len(errors) - 1 - int(np.argmin(errors)) >= _BEYOND:
            break
    _keep(estimator, kernel, gammas, errors, time.perf_counter() - began)
    tried = f"{len(gammas)} values from {gammas[0]:.3g} to {gammas[-1]:.3g}, by {how}; nothing is proved of others"
    added = ((), (("choice of gamma", f"the best of {tried}"),))
    return fit_with_shape(model, rows, Y, kept[split.rows], v, (estimator.gamma_,), kernel, added)


def _refuse(model: Any) -> None:
    """Refuse rules that are of the machine without a shape."""
    criterion = model._selector.criterion
    if criterion not in ("folds", "validation"):
        raise DeclarationError(
            f"cv={model.cv!r} is a closed form of the machine without a shape; with monotone, convex or bounds choose "
            "gamma by folds, cv=5, or by validation rows, cv=None"
        )
    if model.kernels is not None or model.search is not None:
        raise DeclarationError(
            "with monotone, convex or bounds gamma is chosen for one kernel: leave kernels and search out, and choose "
            "the kernel without the shape, or by GridSearchCV"
        )
    if model.loss != "squared":
        raise DeclarationError(f"with a shape the criterion is loss='squared', received {model.loss!r}")


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
