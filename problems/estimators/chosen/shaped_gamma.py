r"""The choice of gamma where the machine has a shape that holds everywhere: by folds, with a bound over a range.

.. math:: \min_{\gamma_0 \le \gamma \le \gamma_1} \; \frac{1}{\sum v} \sum_{\text{folds}} \sum_{i \text{ left out}}
          v_i \, (y_i - f_\gamma(x_i))^2 ,

:math:`f_\gamma` the machine of the other rows with its shape in the box of all rows. Spectra know nothing of shapes, so
that every gamma is a machine of its own for each fold, and what lies between two of them is bounded by
:mod:`substrate.fusion.shaped_chord`.
"""

import time
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from problems.estimators.full.shaped import center_and_unit, fit_with_shape, in_units, read_shapes, refuse_machine
from substrate.arrays import Array, is_sparse
from substrate.certificates import Row
from substrate.errors import DeclarationError
from substrate.namespaces import take_rows
from substrate.search.gamma_search import GAP, gamma_ends

__all__ = ["choose_shaped_gamma"]

_Estimator = TypeVar("_Estimator")
#: The values of gamma times the mean weight that are considered, and the gap, unless others are given.
_RANGE, _USUAL_GAP = (1e-2, 1e4), 1e-2


def choose_shaped_gamma(model: _Estimator, X: Any, y: Any, X_val: Any, y_val: Any, sample_weight: Any) -> _Estimator:
    """Choose gamma by folds or validation rows, and fit the machine with its shape at the best value."""
    from substrate.fusion import fuse

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
    rows = _dense(split.X)
    v = np.asarray(take_rows(weights, split.rows), dtype=np.float64)
    ends = _ends(estimator.gamma_range, v)
    gap = _USUAL_GAP if estimator.gap == GAP else float(estimator.gap)
    center, unit = center_and_unit(np.ascontiguousarray(Y[:, 0]))
    target = (Y[:, 0] - center) / unit
    build = _builder(estimator, rows, kernel, center, unit)
    if split.X_check is None:
        asked: dict[str, Any] = {"cv": [tuple(each) for each in search.splits(*data, kept)]}
    else:
        checked = (np.ravel(split.y_check) - center) / unit
        own = None if split.held_out is None else np.asarray(weights, dtype=np.float64)[split.held_out]
        asked = {"validation": (_dense(split.X_check), checked, own)}
    began = time.perf_counter()
    found = fuse(build, "gamma", data=(rows, target, v), gap=gap, box={"gamma": ends}, progress=False, **asked)
    _keep(estimator, found, kernel, ends, unit, time.perf_counter() - began)
    gap_row = next(row for row in found.certificate.rows if row.name == "gap of gamma")
    scaled = replace(gap_row, value=unit**2 * gap_row.value, scale=unit**2 * gap_row.scale)
    facts = [fact for fact in found.certificate.record if fact[0] in ("fused over", "search", "choice")]
    how = f"{len(asked['cv'])} folds" if "cv" in asked else split.how
    facts.append(("validated on", how))
    numbers = kept[split.rows]
    added: tuple[tuple[Row, ...], tuple[tuple[str, str], ...]] = ((scaled,), tuple(facts))
    return fit_with_shape(model, rows, Y, numbers, v, (estimator.gamma_,), kernel, added)


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


def _builder(model: Any, X: Array, kernel: Any, center: float, unit: float) -> Any:
    """Return what builds the machine of some rows, with gamma as its parameter, and its shape in the box of all."""
    import cvxpy as cp

    from substrate.composition import Machine, Substrate

    shapes = read_shapes(model, X.shape[1])
    shapes = replace(shapes, bounds=in_units(shapes.bounds, center, unit))
    box = np.column_stack([X.min(axis=0), X.max(axis=0)])

    def build(rows: Array, targets: Array, weights: Array) -> Machine:
        s = Substrate(kernel, rows, targets)
        gamma = cp.Parameter(nonneg=True, name="gamma")
        loss = gamma * cp.sum_squares(cp.multiply(np.sqrt(0.5 * weights), s.e))
        return Machine(s, minimize=loss + 0.5 * s.squared_norm, subject_to=shapes.constraints(s, box))

    return build


def _keep(model: Any, found: Any, kernel: Any, ends: tuple[float, float], unit: float, seconds: float) -> None:
    """Set the attributes of a search, in the units of y."""
    square = unit * unit
    model.gamma_ = float(found.value)
    model.criterion_ = square * float(found.validation_error)
    model.criterion_lower_bound_ = square * float(found.lower_bound)
    model.gamma_range_ = np.array(ends)
    model.path_ = {
        "parameter": "gamma",
        "values": np.asarray(found.path.values),
        "criterion": square * np.asarray(found.path.validation_errors),
        "coverage": tuple(ends),
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
        "lower_bound": np.array([model.criterion_lower_bound_]),
        "gamma_range": [[float(end) for end in ends]],
        "n_intervals": np.array([len(found.path) - 1]),
    }
