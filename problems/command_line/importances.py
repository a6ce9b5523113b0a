"""What every input is worth to a fit: measured once, for the terminal and for the report."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from problems.estimators.shared.importance import LeftOutImportance
from problems.tables.fit import Fit

__all__ = ["importance", "important"]

#: Multiplications up to which importances are looked for.
_MOST_WORK = 4e9
#: Permutations of each input, and rows beyond which one has to do: so many rows average over themselves.
_REPEATS, _MANY_ROWS = 3, 5000
#: The least that shuffling an input that matters adds, as a share of the error, or takes from the accuracy.
_LEAST_SHARE = 0.01


def importance(fit: Fit) -> LeftOutImportance | None:
    """Measure by leaving training rows out, where the machine can and that takes no more work than its fit.

    An input is a column of the table: the 0-1 columns of its categories are permuted together.
    """
    model, (n, d), groups = fit.model.estimator, fit.X.shape, fit.preparation.columns_of_inputs
    if len(groups) < 2 or not hasattr(model, "left_out_importance") or hasattr(model, "shape_points_"):
        return None
    repeats = _REPEATS if n <= _MANY_ROWS else 1
    machines = len(getattr(model, "kernels_", (None,)))
    if float(n) * model.support_values_.shape[0] * d * len(groups) * repeats * machines > _MOST_WORK:
        return None
    rows = (fit.X, fit.y) if hasattr(model, "basis_indices_") else ()  # a basis does not keep them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # importances that rounding decides are not shown
        importances: LeftOutImportance = model.left_out_importance(*rows, n_repeats=repeats, groups=groups)
    return importances if importances.certificate.holds else None


def important(importances: LeftOutImportance) -> list[int]:
    """Return the inputs whose importance is more than chance, and than a hundredth, the most important first."""
    mean, deviation = np.asarray(importances.importances_mean), np.asarray(importances.importances_std)
    least = np.maximum(2.0 * deviation, _LEAST_SHARE * abs(importances.left_out_score))
    return [int(k) for k in np.argsort(-mean, kind="stable") if mean[k] > least[k]]
