r"""The gamma of a robust machine by folds whose machines are robust too.

Least squares in the folds lets outliers choose gamma, and a machine that is weighted afterwards keeps that choice. Here
every fold is fitted with robust weights of its own, from the errors of its own training rows
([DeBrabanter2009]_), and rows left out are judged by a loss that does not square their errors,

.. math:: F(\gamma) = \frac1N \sum_i \ell\big( y_i - f_\gamma^{(-F(i))}(x_i) \big), \qquad \ell(e) = |e| .

The weights are no smooth function of gamma, so that F has no bound between two gammas: the best of a list is chosen,
and said to be no more. One kernel matrix serves all folds and all gammas.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv

from problems.estimators.full.reweighted_fits import reweighted_fits
from substrate.arrays import Array, positive, real_array, whole_number
from substrate.certificates import NO_BOUND, Certificate, Row, warn_unless_holds
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.least_squares.error_distribution import ALL_WEIGHTINGS
from substrate.least_squares.leave_one_out import checked_splits
from substrate.least_squares.robust_weights import SCALES, check_choice, weighted_quantile
from substrate.least_squares.saddle_system import target_unit
from substrate.values import Record

__all__ = ["LOSSES", "FoldedGamma", "gamma_by_folds"]

#: How errors of rows left out are judged.
LOSSES: tuple[str, ...] = ("mean_absolute", "median_absolute", "squared")
#: Gammas that are tried unless others are given, for a kernel whose diagonal has mean one.
_GAMMAS = 10.0 ** np.linspace(-2.0, 6.0, 33)
#: Criteria of neighbours that differ by less, relative to them, are level: nothing is to be expected beyond an end.
_EQUAL = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class FoldedGamma(Record):
    """The answer of ``gamma_by_folds``.

    Attributes
    ----------
    gamma : float
        The gamma with the smallest criterion, the smaller of several.
    criterion : float
        Its criterion, in units of y, or of y squared.
    gammas, criteria : array of shape (n_gammas,)
        All gammas, ascending, and their criteria.
    outputs : array of shape (n_rows,)
        Predictions of the rows left out at the chosen gamma, NaN for a row that is in no fold or has weight zero; where
        folds overlap, of the last.
    certificate : Certificate
        Whether the choice is inside of the list, and what it is conditional on.
    """

    gamma: float
    criterion: float
    gammas: Array
    criteria: Array
    outputs: Array
    certificate: Certificate


def gamma_by_folds(
    self: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    cv: Any = 10,
    loss: str = "mean_absolute",
    gammas: Any = None,
) -> FoldedGamma:
    """Choose gamma by folds with robust weights inside; the model itself is left as it is.

    Parameters
    ----------
    X, y, sample_weight
        As for :meth:`fit`; a row of weight 2 counts twice, in the fits and in the criterion.
    cv : int, splitter or iterable, default=10
        Folds, as scikit-learn takes them: a number of folds does not shuffle, so give ``KFold(10, shuffle=True)`` where
        rows are sorted.
    loss : {"mean_absolute", "median_absolute", "squared"}, default="mean_absolute"
        How the errors of rows left out are judged.
    gammas : array of float, default=None
        The gammas to try; by default 33 from 0.01 to a million, over the mean of k(x, x).

    Returns
    -------
    FoldedGamma
        ``gamma``, ``criterion``, all ``gammas`` with their ``criteria``, ``outputs`` of rows left out, and a
        certificate.

    Examples
    --------
    >>> from problems import RobustLSSVMRegressor
    >>> from sklearn.model_selection import KFold
    >>> from substrate.datasets import sinc_outliers
    >>> from substrate.kernels import RBF
    >>> X, y = sinc_outliers(100, n_outliers=8, random_state=0)
    >>> model = RobustLSSVMRegressor(RBF(1.0))
    >>> model.gamma = model.gamma_by_folds(X, y, cv=KFold(5, shuffle=True, random_state=0)).gamma
    >>> bool(model.fit(X, y).certificate_.holds)
    True
    """
    machine = clone(self)
    check_choice(loss, LOSSES, "loss")
    check_choice(machine.weighting, ALL_WEIGHTINGS, "weighting")
    check_choice(machine.scale, SCALES, "scale")
    most = whole_number(machine.max_reweightings, "max_reweightings")
    tolerance = positive(machine.weights_tol, "weights_tol")
    n = int(np.shape(y)[0]) if np.ndim(y) else 0
    X, y, weights = machine._check_data(X, y, sample_weight, numeric=True)
    splitter = check_cv(cv, y)
    X, y_kept, weights, rows = machine._keep_weighted(X, y, weights)
    kernel = machine._resolved_kernel(X)
    gram = Gram.of(kernel, X)
    if not kernel.trusted:
        gram.check_definite()
    tried = _check_gammas(gammas, float(np.mean(gram.diagonal)))
    splits = checked_splits(splitter.split(np.zeros((n, 1)), y), n, rows)
    unit = target_unit(y_kept)
    errors = np.full((tried.size, y_kept.size), np.nan)
    for number, (train, test) in enumerate(splits):
        if train.size < 2:
            raise DataError(f"split {number} leaves {train.size} rows to train on; use fewer folds or more rows")
        inside, across = gram.restrict(train), gram.matrix[np.ix_(test, train)]
        for k, gamma in enumerate(tried):
            arguments = (inside, y_kept[train], float(gamma), weights[train], machine.weighting, machine.scale)
            _, history = reweighted_fits(*arguments, most, tolerance)
            errors[k, test] = y_kept[test] - across @ history[-1].support_values - history[-1].bias
            inside.release()
    is_tested = ~np.isnan(errors[0])
    criteria = np.array([_judge(e[is_tested] / unit, weights[is_tested], loss) for e in errors])
    best = int(np.argmin(criteria))
    power = 2 if loss == "squared" else 1
    outputs = np.full(n, np.nan)
    outputs[rows] = y_kept - errors[best]
    # an end of a range is no minimum: what is beyond it may be better
    beside = criteria[min(best + 1, tried.size - 1) if best == 0 else best - 1]
    is_end = best in (0, tried.size - 1) and criteria[best] < (1.0 - _EQUAL) * beside
    inner = Row(
        name="the best gamma is inside of the list",
        value=float(is_end),
        scale=1.0,
        tolerance=0.5,
        formula="0 inside, 1 at an end",
    )
    facts = (
        *gram.record(),
        ("criterion", f"{loss} error of rows left out in {len(splits)} folds, {most} reweightings in each"),
        ("gammas", f"{tried.size} from {tried[0]:.3g} to {tried[-1]:.3g}; none between them is known to be worse"),
        ("conditional on", "kernel and preparation of the columns, chosen with the left-out rows included"),
        (NO_BOUND, "robust weights are no smooth function of gamma, so that a list is searched"),
    )
    certificate = Certificate("Gamma by folds with robust weights", (inner,), facts)
    warn_unless_holds(certificate, "the best gamma is at an end of the list; give gammas beyond it")
    return FoldedGamma(
        gamma=float(tried[best]),
        criterion=float(criteria[best]) * unit**power,
        gammas=tried,
        criteria=criteria * unit**power,
        outputs=outputs,
        certificate=certificate,
    )


def _check_gammas(gammas: Any, size: float) -> Array:
    """Return the gammas to try, ascending."""
    if gammas is None:
        return np.asarray(_GAMMAS / size if size > 0.0 else _GAMMAS)
    given = real_array(gammas, "gammas", ndim=1)
    if not given.size or not (given > 0.0).all():
        raise DataError(f"gammas must be positive numbers, at least one, received {gammas!r}")
    return np.unique(given)


def _judge(errors: Array, weights: Array, loss: str) -> float:
    """Return the loss of errors of rows left out, each by its weight."""
    if loss == "median_absolute":
        return weighted_quantile(np.abs(errors), 0.5, weights)
    sizes = np.square(errors) if loss == "squared" else np.abs(errors)
    return float(np.average(sizes, weights=weights / weights.max()))
