r"""Robust weights: weighted fits on one kernel matrix, each with weights from the errors of the fit before.

.. math:: \min_{w, b, e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_k v_k e_k^2, \qquad
          v_k = v(e_k^{\text{before}} / \hat s)

Algorithm 1 of [Suykens2002]_; see :mod:`problems.weighted_ls_svm` for the problem and
:mod:`substrate.least_squares.robust_weights` for weights and scales.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from problems.estimators.full.saddle_fit import Method, SaddleFit, fit_saddle
from problems.estimators.shared.encoding import Reweighting, Robust
from substrate.arrays import Array
from substrate.certificates import Row
from substrate.errors import DataError, user_level
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.border import Border
from substrate.least_squares.error_distribution import density_thresholds, weigh_by_density
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.robust_weights import robust_scale
from substrate.namespaces import to_numpy

__all__ = ["fit_reweighted"]

#: Largest change of a support value, relative to the largest of them, at which repeated fits have settled.
_SETTLED = 1e-4


def fit_reweighted(
    robust: Robust,
    kernel: Kernel,
    X: Any,
    Y: Array,
    gammas: tuple[float, ...],
    weights: Array,
    method: Method,
    border_of: Callable[[Any, Array], Border],
) -> SaddleFit:
    """Return the last of the weighted fits, with its weights, and the accuracy of the fits before on its certificate.

    The robust weights multiply those of the rows; ``border_of`` makes the unpenalised columns, whose center depends on
    the weights.
    """
    if Y.shape[1] > 1:
        raise DataError(f"robust weights are of one output, received {Y.shape[1]}; fit one estimator for each")
    gram, ridge_of = Gram.of(kernel, X), Regularization(gammas[0]).ridge
    v, history, before = np.ones(Y.shape[0]), list[Reweighting](), list[Row]()
    while True:
        total = weights * v
        fit = fit_saddle(kernel, X, Y, gammas, total, method, gram=gram, border=border_of(X, total))
        alpha, change = np.array(to_numpy(fit.support_values[:, 0])), np.inf
        if history:
            largest = float(np.abs(alpha).max())
            change = float(np.abs(alpha - history[-1].support_values).max()) / largest if largest > 0.0 else 0.0
        scale = robust_scale(ridge_of(total) * alpha, robust.scale, weights)
        step = Reweighting(weights=v, support_values=alpha, bias=float(fit.bias[0]), scale=scale, change=change)
        history.append(step)
        if len(history) > robust.max_reweightings or change <= _SETTLED:
            break
        before.append(fit.rows[0])
        v, _ = weigh_by_density(ridge_of(total) * alpha, scale, robust.weighting, weights)
    if robust.max_reweightings > 1 and change > _SETTLED:
        warnings.warn(
            f"the support values still changed by {change:.2g} of the largest after {robust.max_reweightings} "
            "reweightings; raise max_reweightings",
            ConvergenceWarning,
            stacklevel=user_level(),
        )
    source = history[-2] if len(history) > 1 else step
    further: dict[str, Any] = {"weights_": v.copy(), "scale_": source.scale, "history_": tuple(history)}
    if robust.weighting == "density":
        errors = ridge_of(weights * source.weights) * source.support_values
        further["thresholds_"] = np.array(density_thresholds(errors, source.scale, weights))
    rows = (*fit.rows, *(_accuracy_before(before)))
    return fit._replace(rows=rows, facts=(*fit.facts, *_facts(robust, history, source.scale)), further=further)


def _facts(robust: Robust, history: list[Reweighting], scale: float) -> tuple[tuple[str, str], ...]:
    v, last = history[-1].weights, history[-1].change
    settled = f", last change {last:.1e}" if np.isfinite(last) else ""
    light = f"{int((v < 1.0).sum())} of {v.size} rows below one, the least {v.min():.2g}"
    if len(history) > 1 and scale == 0.0:
        light = "all left at one: the robust scale of the errors is zero, so no error is large"
    return (
        ("weights", f"{robust.weighting}, {robust.scale} scale {scale:.3g}: {light}"),
        ("reweightings", f"{len(history) - 1}{settled}"),
    )


def _accuracy_before(rows: list[Row]) -> tuple[Row, ...]:
    """Return the worst accuracy of the fits whose errors determine the weights."""
    if not rows:
        return ()
    worst = max(rows, key=lambda row: row.relative)
    return (
        Row(
            name="accuracy of the fits before",
            value=worst.value,
            scale=worst.scale,
            tolerance=worst.tolerance,
            formula=worst.formula,
        ),
    )
