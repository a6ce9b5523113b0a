r"""Robust weights: weighted fits on one kernel matrix, each with weights from the errors of the fit before.

.. math:: \min_{w, b, e} \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_k v_k e_k^2, \qquad
          v_k = v(e_k^{\text{before}} / \hat s)

Algorithm 1 of [Suykens2002]_; see :mod:`problems.weighted_ls_svm` for the problem and
:mod:`substrate.robust_weights` for weights and scales.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from substrate.arrays import Array, whole_number
from substrate.certificate import Row
from substrate.errors import DeclarationError, user_level
from substrate.robust_weights import (
    SCALES,
    WEIGHTINGS,
    check_choice,
    density_thresholds,
    robust_scale,
    robust_weights,
)
from substrate.values import Record, Value

__all__ = [
    "Reweighting",
    "Robust",
    "read_robust",
    "reweigh_rows",
]

#: Largest change of a coefficient, relative to the largest of them, at which repeated fits have settled.
_SETTLED = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Reweighting(Record):
    """One weighted fit: its weights, its solution, and the robust scale of its errors for the next weights.

    ``change`` is the largest change of a support value since the previous fit, relative to the largest of them.
    """

    weights: Array
    support_values: Array
    bias: float
    scale: float
    change: float


@dataclass(frozen=True, slots=True, eq=False)
class Robust(Value, Record):
    """The rule by which robust weights are computed.

    Parameters
    ----------
    weighting : {"hampel", "huber", "logistic", "myriad", "density"}, default="hampel"
        How a row's weight falls with its error; see :mod:`substrate.robust_weights`. ``"density"`` is
        Hampel's weight with both thresholds from the density of the errors
        (:mod:`substrate.robust_weights`), by every fit anew.
    scale : {"iqr", "mad"}, default="iqr"
        The robust scale of the errors: interquartile range or median absolute deviation.
    max_reweightings : int, default=1
        Maximum number of weighted fits after the plain one. The paper has one; more iterate until the support values
        settle to 1e-4 of the largest.
    """

    weighting: str = "hampel"
    scale: str = "iqr"
    max_reweightings: int = 1

    def __post_init__(self) -> None:
        check_choice(self.weighting, WEIGHTINGS, "weighting")
        check_choice(self.scale, SCALES, "scale")
        whole_number(self.max_reweightings, "max_reweightings")


def read_robust(given: Any) -> Robust:
    """Return how robust weights are made, from a value or the name of a weighting."""
    if isinstance(given, str):
        return Robust(given)
    if not isinstance(given, Robust):
        raise DeclarationError(f"robust must be None, the name of a weighting or a Robust, received {given!r}")
    return given


#: A fit with its coefficients, its bias, and the errors of the rows.
WeightedFit = tuple[Any, Array, float, Array]


def reweigh_rows(robust: Robust, refit: Callable[[Array], WeightedFit], weights: Array) -> tuple[Any, dict[str, Any]]:
    """Fit with robust weights times the ``weights`` of the rows, each time from the errors of the fit before.

    Return the last fit, and its ``rows``, ``facts`` and ``further`` attributes with the ones of the weights.
    """
    v, history, before, source = np.ones(weights.size), list[Reweighting](), list[Row](), np.zeros(0)
    while True:
        fit, coefficients, bias, errors = refit(v)
        change = np.inf
        if history:
            largest = float(np.abs(coefficients).max(initial=0.0))
            difference = float(np.abs(coefficients - history[-1].support_values).max(initial=0.0))
            change = difference / largest if largest > 0.0 else 0.0
        scale = robust_scale(errors, robust.scale, weights)
        step = Reweighting(weights=v, support_values=coefficients, bias=bias, scale=scale, change=change)
        history.append(step)
        if len(history) > robust.max_reweightings or change <= _SETTLED:
            break
        before.append(fit.rows[0])
        source = errors
        v = robust_weights(source, scale, robust.weighting, weights=weights)
    if robust.max_reweightings > 1 and change > _SETTLED:
        warnings.warn(
            f"the support values still changed by {change:.2g} of the largest after {robust.max_reweightings} "
            "reweightings; raise max_reweightings",
            ConvergenceWarning,
            stacklevel=user_level(),
        )
    scale = history[max(len(history) - 2, 0)].scale
    further: dict[str, Any] = {"weights_": v.copy(), "scale_": scale, "history_": tuple(history)}
    if robust.weighting == "density":
        further["thresholds_"] = np.array(density_thresholds(source if source.size else errors, scale, weights))
    rows, facts = (*fit.rows, *_accuracy_before(before)), (*fit.facts, *_facts(robust, history, scale))
    return fit, {"rows": rows, "facts": facts, "further": further}


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
    return (Row("accuracy of the fits before", worst.value, worst.scale, worst.tolerance, worst.formula),)
