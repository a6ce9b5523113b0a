r"""The choice of gamma by folds where the machine has no closed forms: a shape that holds everywhere, robust weights.

.. math:: \min_{\gamma \in G} \; \frac{1}{\sum v} \sum_{\text{folds}} \sum_{i \text{ left out}}
          v_i \, \ell(y_i - f_\gamma(x_i)) ,

:math:`f_\gamma` the machine of the other rows, with its shape in their box or with robust weights, and G a grid; the
loss is the square, and of a robust machine the absolute value, since squares in the folds would let outliers choose
gamma ([DeBrabanter2009]_). Nothing is proved of other values of gamma.
"""

import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from problems.estimators.chosen.judgement import EvaluatedKernel, JudgedKernels
from problems.estimators.chosen.rules import criterion_of, splits_of, take_points
from problems.estimators.full.ls_svm import LSSVMRegressor
from problems.estimators.full.saddle_machine import ChosenKernel
from problems.estimators.full.shaped import has_shape
from substrate.arrays import Array, ascending_pair
from substrate.errors import DeclarationError
from substrate.search.gamma_search import GammaSearch

__all__ = ["check_folds", "choose_by_folds"]

#: The values of gamma times the mean weight that are considered unless others are given, and how many for each decade.
_RANGE, _PER_DECADE = (1e-2, 1e4), 2
#: How many larger values are tried after the best one: machines of large gamma take the most time.
_BEYOND = 3


def check_folds(model: Any) -> None:
    """Refuse parameters whose machines are compared by closed forms only."""
    if criterion_of(model) != "folds":
        raise DeclarationError(
            f"cv={model.cv!r} is a closed form of the machine without a shape and robust weights; with robust, "
            "monotone, convex or bounds choose gamma by folds, cv=5"
        )
    if model.kernels is not None or model.search is not None:
        raise DeclarationError(
            "with robust, monotone, convex or bounds gamma is chosen for one kernel: leave kernels and search out, and "
            "choose the kernel without them, or by GridSearchCV"
        )


def choose_by_folds(model: Any, data: tuple[Any, Any], X: Any, Y: Array, v: Array, rows: Any) -> ChosenKernel:
    """Choose gamma by folds, of one kernel and one output."""
    kernel, shaped, y = model._resolved_kernel(X), has_shape(model), Y[:, 0] if Y.shape[1] == 1 else Y
    folds, columns = splits_of(model, *data, rows), model._model.linear_numbers()
    machine = model._machine_with(LSSVMRegressor, kernel=kernel.kernel if columns else kernel, linear_columns=columns)
    low, high = (end / float(v.mean()) for end in _RANGE)
    if model.gamma_range is not None:
        low, high = ascending_pair(model.gamma_range, "the range of gamma")
    began, gammas, criteria = time.perf_counter(), list[float](), list[float]()
    for gamma in np.geomspace(low, high, int(np.ceil(_PER_DECADE * np.log10(high / low))) + 1):
        errors = [_fold_errors(model, machine.set_params(gamma=float(gamma)), X, y, v, *fold) for fold in folds]
        counted, left_out = np.concatenate([v[test] for _, test in folds]), np.concatenate(errors)
        unit = float(left_out.max()) or 1.0
        power = 2.0 if shaped else 1.0
        gammas.append(float(gamma))
        criteria.append(float(np.average((left_out / unit) ** power, weights=counted)) * unit**power)
        if len(criteria) - 1 - int(np.argmin(criteria)) >= _BEYOND:
            break
    best = int(np.argmin(criteria))
    found = GammaSearch(
        gamma=np.array(gammas[best : best + 1]),
        values=np.array(criteria[best : best + 1]),
        bounds=np.array([-np.inf]),
        unit=1.0,
        gamma_range=(gammas[0], gammas[-1]),
        gap=np.inf,
        evaluations=len(gammas),
        seen=np.array(gammas),
        curve=np.array(criteria)[:, None],
    )
    seconds = time.perf_counter() - began
    judged = EvaluatedKernel(kernel, found, criteria[best], seconds=seconds)
    tried = f"{len(gammas)} values from {gammas[0]:.3g} to {gammas[-1]:.3g}, by {len(folds)} folds"
    facts = (("choice of gamma", f"the best of {tried}; nothing is proved of others"),)
    keep = partial(model._keep_search, JudgedKernels([judged], judged), True)
    return ChosenKernel(kernel, (gammas[best],) * Y.shape[1], ((), facts), keep)


def _fold_errors(model: Any, machine: Any, X: Any, y: Array, v: Array, train: Any, test: Any) -> Array:
    """Return the sizes of the errors of the machine of some rows at others."""
    of_fold = clone(machine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all rows gives them
        of_fold.fit(take_points(model, X, train, train), y[train], sample_weight=v[train])
        predicted = of_fold.predict(take_points(model, X, test, train))
    return np.asarray(np.abs(np.ravel(y[test]) - np.ravel(predicted)))
