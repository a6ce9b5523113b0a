r"""The choice of gamma by folds where the machine has no closed forms: a shape that holds everywhere, robust weights.

.. math:: \min_{\gamma \in G} \; \frac{1}{\sum v} \sum_{\text{folds}} \sum_{i \text{ left out}}
          v_i \, (y_i - f_\gamma(x_i))^2 ,

:math:`f_\gamma` the machine of the other rows, with its shape in their box or with robust weights, and G a grid. Least
squares in the folds would let outliers choose gamma ([DeBrabanter2009]_), so that robust machines may be judged by the
absolute errors of the rows left out. Nothing is proved of other values of gamma.
"""

import time
import warnings
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from problems.estimators.chosen.candidates import EvaluatedKernel
from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.full.saddle_fit import Method
from problems.estimators.full.shaped import fit_with_shape, has_shape
from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.least_squares.leave_one_out import ROBUST
from substrate.namespaces import take_rows
from substrate.search.gamma_result import GammaSearch
from substrate.search.gamma_search import gamma_ends

__all__ = ["choose_by_folds"]

_Estimator = TypeVar("_Estimator")
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
    machine = _machine(estimator, kernel)
    if split.X_check is None:
        pairs = search.splits(*data, kept)
        folds = [(train, search.take_points(split.X, test, train), split.y[test], v[test]) for train, test in pairs]
        how = f"{len(folds)} folds"
    else:
        counted = np.ones(len(split.y_check)) if split.held_out is None else np.asarray(weights)[split.held_out]
        folds, how = [(np.arange(split.rows.size), split.X_check, split.y_check, counted)], split.how
    low, high = _ends(estimator.gamma_range, v)
    began, gammas, criteria = time.perf_counter(), list[float](), list[float]()
    counted = np.concatenate([fold[3] for fold in folds])
    for gamma in np.geomspace(low, high, int(np.ceil(_PER_DECADE * np.log10(high / low))) + 1):
        errors = []
        for train, points, checked, _ in folds:
            of_fold = clone(machine).set_params(gamma=float(gamma))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit to all rows gives them
                of_fold.fit(search.take_points(split.X, train, train), split.y[train], sample_weight=v[train])
                errors.append(np.ravel(checked) - np.ravel(of_fold.predict(points)))
        gammas.append(float(gamma))
        criteria.append(_judge(np.concatenate(errors), counted, estimator.loss))
        if len(criteria) - 1 - int(np.argmin(criteria)) >= _BEYOND:
            break
    best = int(np.argmin(criteria))
    found = GammaSearch(
        gamma=np.array(gammas[best : best + 1]),
        values=np.array(criteria[best : best + 1]),
        bounds=np.array([-np.inf]),
        slack=np.zeros(1),
        unit=1.0,
        gamma_range=(gammas[0], gammas[-1]),
        gap=np.inf,
        intervals=len(gammas) - 1,
        evaluations=len(gammas),
        seen=np.array(gammas),
        curve=np.array(criteria)[:, None],
    )
    score, seconds = criteria[best], time.perf_counter() - began
    judged = EvaluatedKernel(kernel, found, score, split_scores=np.array([score]), error=0.0, seconds=seconds)
    search.keep_search([judged], judged, True)
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


def _machine(model: Any, kernel: Any) -> LSSVMRegressor:
    """Return the machine of a fold, without its gamma."""
    columns = [int(column) for column in model._model.linear_numbers()]
    return LSSVMRegressor(
        kernel.kernel if columns else kernel,
        tol=model.tol,
        linear_columns=columns,
        robust=model.robust,
        monotone=model.monotone,
        convex=model.convex,
        bounds=model.bounds,
    )


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
