r"""Nested scores: intervals that count everything that was chosen on the rows, by K folds of the whole choice.

Leaving a row out in closed form holds kernel and gamma, which the row helped to choose, and intervals after a search
cover less than they state. Here the whole fit, search included, is repeated without each of K folds. With the error
:math:`r_i` of row i in the machine :math:`f_{-k(i)}` without its fold, and :math:`k = \lceil c (n + 1) \rceil`, the
interval is that of CV+ ([Barber2021]_ section 3),

.. math:: \big[\, q_{n+1-k}\{ f_{-k(i)}(x) - |r_i| \},\; q_k\{ f_{-k(i)}(x) + |r_i| \} \,\big],

which covers a new target with probability at least :math:`2 c - 1 - \sqrt{2/n}` in finite samples (theorem 4), for
exchangeable rows and a fit that does not depend on their order, and about c in practice. The theorem is about folds of
one size: the rows that are left over, fewer than K, are in all machines and have no score.

Every machine without a fold has a spread of its own left-out errors (:mod:`substrate.uncertainty.spread`), which has
not seen the fold either. With errors over it in the place of errors, and its value at x times a score in the place of
that, intervals follow the noise, and the theorem, which holds for any score, stays. Missing cells of the rows are
missing here too: what stands for them, and the scales of the columns, are those of the rows of each machine.
"""

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from problems.estimators.full.shaped import has_shape
from problems.estimators.shared.guarantees import UNEQUAL, Guarantee
from problems.estimators.shared.intervals import check_spreads
from substrate import uncertainty
from substrate.arrays import Array, whole_number
from substrate.errors import DataError, DeclarationError, LongFitWarning
from substrate.namespaces import is_device_array

__all__ = [
    "N_FOLDS",
    "check_nested",
    "check_stored",
    "guaranteed_level",
    "keep_nested",
    "nested_ends",
    "nested_guarantee",
]

#: Number of folds where none is given.
N_FOLDS = 10
#: What a machine without a fold is made of, beside its rows: those of these attributes that it has.
_PARTS = (
    "kernel_",
    "support_values_",
    "bias_",
    "primal_weights_",
    "primal_center_",
    "primal_bias_",
    "coef_",
    "linear_bias_",
    "linear_center_",
    "linear_columns_",
    "kernels_",
    "gammas_",
    "stack_weights_",
    "biases_",
    "primals_",
    "row_weights_",
)
#: Seconds that all folds may take before a warning says how long they will.
_LONG = 60.0


def nested_guarantee(guarantee: Guarantee, model: Any, is_unequal: bool) -> Guarantee:
    """Return what nested scores guarantee: all that was chosen is chosen anew in every fold.

    ``guarantee`` is that of another method, whose condition on what is fixed in advance is not needed.
    """
    conditions = (guarantee.conditions[0], "the fit does not depend on their order", *guarantee.conditions[2:])
    folds = getattr(model, "nested_folds_", None)
    n, made = (model.support_.size, N_FOLDS) if folds is None else (folds[folds >= 0].size, int(folds.max()) + 1)
    level = guaranteed_level(guarantee.coverage, n - n % made)
    return replace(guarantee, level=level, conditions=conditions, broken=(UNEQUAL,) if is_unequal else ())


def check_nested(model: Any, n_folds: Any) -> None:
    """Refuse folds of a choice that cannot be repeated on fewer rows, before any work."""
    whole_number(n_folds, "nested", 2)
    if model._labels:
        raise DeclarationError("nested= makes intervals of a regressor; classes have predict_set and calibrate(X, y)")
    has_a_shape = hasattr(model, "monotone") and has_shape(model)
    if has_a_shape or model.__sklearn_tags__().input_tags.pairwise:
        kind = "a shape" if has_a_shape else "a precomputed kernel"
        raise DeclarationError(
            f"nested scores repeat the whole fit on parts of the rows, which is not done for {kind}; keep rows, and "
            "call calibrate(X, y), then predict_interval(X, method='split')"
        )
    cv = getattr(model, "cv", "loo")
    if not isinstance(cv, (str, int)) or isinstance(cv, bool) or cv in ("blocks", "groups"):
        raise DeclarationError(
            f"nested scores repeat the whole choice on parts of the rows, which cv={cv!r} does not allow: use "
            "cv='loo', 'gcv', 'evidence' or a number of folds"
        )


def keep_nested(model: Any, X: Any, y: Array, weights: Array, n_folds: int) -> None:
    """Fit the estimator without each fold of its rows, all of positive weight, and keep machines and errors."""
    check_nested(model, n_folds)
    if is_device_array(X):
        raise DataError("nested scores are made of numpy arrays (X.cpu().numpy(), X.get())")
    n = int(X.shape[0])
    if n < 2 * n_folds:
        raise DataError(f"{n_folds} folds need at least two rows each, received {n} rows; give fewer folds, nested=")
    order, folds = np.random.default_rng(0).permutation(n), np.full(n, -1)
    scored = order[: n - n % n_folds]
    folds[scored] = np.arange(scored.size) % n_folds
    given = {} if (weights == 1.0).all() else {"sample_weight": weights}
    scores, machines, start = np.zeros(y.shape), [], time.perf_counter()
    for fold in range(n_folds):
        (train,), (test,) = np.nonzero(folds != fold), np.nonzero(folds == fold)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the fit to all rows they were, or will be, given
            machine = clone(model).fit(X[train], y[train], **{name: values[train] for name, values in given.items()})
        scores[test] = np.abs(y[test] - machine.predict(X[test]))
        parts = {name: getattr(machine, name) for name in _PARTS if hasattr(machine, name)}
        machines.append(parts | {"spreads": machine._intervals.spreads()})
        if fold == 0 and (seconds := (n_folds - 1) * (time.perf_counter() - start)) > _LONG:
            warnings.warn(
                f"{n_folds - 1} more folds of the whole fit take about {seconds:.0f} s; fewer folds, nested=5, take "
                "less",
                LongFitWarning,
                stacklevel=4,
            )
    model.nested_machines_, model.nested_folds_, model.nested_scores_ = machines, folds, scores


def nested_ends(model: Any, points: Any, coverage: Any, adaptive: bool = False) -> Array:
    """Return the ends of the intervals at new rows that were checked, in the units of the model, of every output.

    With ``adaptive``, scores are errors over the spread of the machine without the fold, at the row.
    """
    if adaptive and not all("spreads" in parts for parts in model.nested_machines_):
        raise DataError(
            "the machines without folds of this model file have no spreads; fit the model again, with nested="
        )
    values, spreads = list[Array](), list[Array]()
    folds, scores, rows = model.nested_folds_, np.array(model.nested_scores_), model.support_vectors_
    for fold, machine in enumerate(_machines(model)):
        scaled = points
        values.append(machine._evaluate(scaled))
        if adaptive:
            parts = model.nested_machines_[fold]["spreads"]
            spreads.append(machine._intervals.spread_at(scaled, values[-1], parts))
            test = rows[folds == fold]
            scores[folds == fold] /= machine._intervals.spread_at(test, machine._evaluate(test), parts)
    centers, sizes = np.stack(values, axis=-1), np.stack(spreads, axis=-1) if adaptive else None
    (scored,) = np.nonzero(folds >= 0)
    folds, scores = folds[scored], scores[scored]
    if centers.ndim == 2:
        return uncertainty.cv_plus(centers, folds, scores, coverage, sizes)
    outputs = [
        uncertainty.cv_plus(centers[:, k], folds, scores[:, k], coverage, None if sizes is None else sizes[:, k])
        for k in range(centers.shape[1])
    ]
    return np.stack(outputs, axis=1)


def _machines(model: Any) -> Iterator[Any]:
    """Yield the machine without each fold, on rows of the model."""
    rows = model.support_vectors_
    for fold, parts in enumerate(model.nested_machines_):
        (train,) = np.nonzero(model.nested_folds_ != fold)
        machine = clone(model)
        machine.n_features_in_, machine.support_ = model.n_features_in_, np.arange(train.size)
        for name, value in parts.items():
            setattr(machine, name, value)
        machine.support_vectors_ = rows[train]
        yield machine


def guaranteed_level(coverage: Any, n: int) -> float:
    """Return 2 c - 1 - sqrt(2/n), rounded down, and zero where that is negative.

    :place [Barber2021]_ theorem 4: the coverage of CV+
    """
    level = float(2 * uncertainty.exact_level(coverage) - 1)
    return max(math.nextafter(level - math.nextafter(math.sqrt(2.0 / n), 1.0e300), -1.0), 0.0)


def check_stored(model: Any) -> None:
    """Refuse machines without folds that do not belong to the rows of a model."""
    stored = [name for name in ("nested_machines_", "nested_folds_", "nested_scores_") if hasattr(model, name)]
    if not stored:
        return
    if len(stored) < 3 or model.nested_folds_.shape != (model.support_.size,):
        raise DataError("nested scores need machines, and the fold and the score of every row")
    folds, scores, outputs = model.nested_folds_, model.nested_scores_, model._outputs()
    if scores.shape != (folds.size, *outputs) or not (scores >= 0.0).all():
        raise DataError("nested scores are absolute errors, one column per output")
    if set(np.unique(folds[folds >= 0]).tolist()) != set(range(len(model.nested_machines_))) or folds.min() < -1:
        raise DataError("every fold of nested scores has one machine")
    for fold, parts in enumerate(model.nested_machines_):
        n = int((folds != fold).sum())
        if not {"kernel_", "support_values_", "bias_"} <= set(parts) or parts["support_values_"].shape[0] != n:
            raise DataError("a machine without a fold does not belong to the rows of the others")
        if "spreads" in parts:
            check_spreads(parts["spreads"], n, int(np.prod(outputs or (1,))))
    for machine in _machines(model):
        trial = machine._evaluate(model.support_vectors_[:1])
        if trial.shape != (1, *outputs) or not np.isfinite(trial).all():
            raise DataError("a trial prediction of a machine without a fold is not finite, or of other outputs")
