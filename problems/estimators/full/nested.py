r"""Nested intervals: folds that repeat everything that was chosen on the rows.

Leaving a row out in closed form holds kernel and gamma, which the row helped to choose, and intervals after a search
cover less than they state. Here the whole fit, search included, is repeated without each of K folds. With the error
:math:`r_i` of row i in the machine :math:`f_{-k(i)}` without its fold, and :math:`k = \lceil c (n + 1) \rceil`, the
interval is that of CV+ ([Barber2021]_ section 3),

.. math:: \big[\, q_{n+1-k}\{ f_{-k(i)}(x) - |r_i| \},\; q_k\{ f_{-k(i)}(x) + |r_i| \} \,\big],

which covers a new target with probability at least :math:`2 c - 1 - \sqrt{2/n}` in finite samples (theorem 4), for
exchangeable rows and a fit that does not depend on their order, and about c in practice. The theorem is about folds of
one size: the rows that are left over, fewer than K, are in all machines and have no score.

Adaptive intervals repeat nothing. A second machine is fitted to the sizes of the left-out errors
(:mod:`substrate.uncertainty.spread`), and with its values s, those at the rows left out too, the interval is

.. math:: f(x) \pm s(x)\; q_k\big\{ |r_i| / s^{(-i)}(x_i) \big\} ,

wide where errors are. Its coverage is about c if the machines change little when a row is left out.

What is made is made at the first call that needs it, from the rows that the model keeps, and is saved with it.
"""

import math
import time
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from problems.estimators.full.shaped import has_closed_forms
from problems.estimators.shared.guarantees import UNEQUAL, Guarantee
from problems.estimators.shared.intervals import Intervals
from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError, LongFitWarning
from substrate.namespaces import is_device_array
from substrate.uncertainty.intervals import cv_plus, exact_level, kth_smallest, rank
from substrate.uncertainty.spread import Spread

__all__ = ["NestedIntervals", "guaranteed_level"]

#: From so many rows on, or beyond so many numbers in them, the default repeats no search: ten of them take too long.
MANY_ROWS, MANY_NUMBERS = 1000, 50_000
#: Number of folds, each of at least so many rows, and the fewest rows of all.
_N_FOLDS, _SMALLEST_FOLD, _FEWEST_ROWS = 10, 2, 10
#: What a machine without a fold is made of, beside its rows: those of these attributes that it has.
_PARTS = (
    "kernel_",
    "support_values_",
    "bias_",
    "coef_",
    "linear_bias_",
    "linear_center_",
    "linear_columns_",
    "estimators_",
    "stack_weights_",
)
#: Seconds that all folds may take before a warning says how long they will.
_LONG = 60.0


class NestedIntervals(Intervals):
    """Intervals by folds of the whole fit, of a machine that keeps its rows."""

    @abstractmethod
    def is_searched(self) -> bool:
        """Return whether kernel or gamma was chosen by a search."""

    @abstractmethod
    def targets_and_weights(self) -> tuple[Array, Array]:
        """Return the targets of the rows of the fit, one column per output, and the weights of the rows."""

    @abstractmethod
    def left_out_rows(self) -> tuple[Array, Array]:
        """Return left-out errors and left-out predictions of the rows of the fit, one column per output."""

    def resolve(self, method: str) -> str:
        """Return for "auto" nested intervals where they have been made, and after a search of few rows."""
        if method != "auto":
            return method
        model = self.estimator
        if hasattr(model, "nested_machines_"):
            return "nested"
        n, is_searched = int(model.support_.size), self.is_searched()
        is_few = n < MANY_ROWS and n * model.n_features_in_ <= MANY_NUMBERS
        return "nested" if is_searched and is_few and self.refusal() is None else self.left_out_method()

    def refusal(self) -> str | None:
        """Return why the whole fit cannot be repeated on parts of the rows; None where it can."""
        model, n = self.repeated(), int(self.estimator.support_.size)
        if not has_closed_forms(model):
            return "a machine with a shape, robust weights or c is not fitted again"
        if self.estimator.kernel_.pairwise or is_device_array(self.estimator.support_vectors_):
            kind = "a precomputed kernel" if self.estimator.kernel_.pairwise else "arrays on a device"
            return f"rows are divided in numpy, which {kind} does not allow"
        cv = getattr(model, "cv", "loo")
        if not isinstance(cv, (str, int)) or isinstance(cv, bool) or cv in ("blocks", "groups"):
            return f"cv={cv!r} is about these rows; use cv='loo', 'gcv', 'evidence' or a number of folds"
        needed = _FEWEST_ROWS if isinstance(cv, str) else max(_FEWEST_ROWS, 2 * cv)
        return f"at least {needed} rows are needed, and there are {n}" if n < needed else None

    def repeated(self) -> Any:
        """Return the estimator that the folds fit: the search that chose kernel and gamma, where another one did."""
        return getattr(self.estimator, "_chosen_by", self.estimator)

    def make_nested(self) -> None:
        """Fit without each fold of the rows, and keep machines and errors; nothing where they are there."""
        model = self.estimator
        if hasattr(model, "nested_machines_"):
            return
        if (reason := self.refusal()) is not None:
            raise DeclarationError(
                f"nested intervals repeat the whole fit on parts of the rows: {reason}; or keep rows, call "
                "calibrate(X, y), then predict_interval(X, method='split')"
            )
        targets, weights = self.targets_and_weights()
        y = targets if model._outputs() else targets[:, 0]
        X, n = model.support_vectors_, int(weights.size)
        n_folds = min(_N_FOLDS, n // _SMALLEST_FOLD)
        order, folds = np.random.default_rng(0).permutation(n), np.full(n, -1)
        scored = order[: n - n % n_folds]
        folds[scored] = np.arange(scored.size) % n_folds
        given = {} if np.allclose(weights, 1.0, rtol=1e-12, atol=0.0) else {"sample_weight": weights}
        scores, machines, start = np.zeros(y.shape), [], time.perf_counter()
        for fold in range(n_folds):
            (train,), (test,) = np.nonzero(folds != fold), np.nonzero(folds == fold)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit to all rows has given them
                machine = clone(self.repeated())
                machine.fit(X[train], y[train], **{name: values[train] for name, values in given.items()})
            scores[test] = np.abs(y[test] - machine.predict(X[test]))
            machines.append({name: getattr(machine, name) for name in _PARTS if hasattr(machine, name)})
            if fold == 0 and (seconds := (n_folds - 1) * (time.perf_counter() - start)) > _LONG:
                warnings.warn(
                    f"nested intervals repeat the whole fit {n_folds - 1} more times, which takes about {seconds:.0f} "
                    "s; method='jackknife+' takes no fit, and no coverage is guaranteed after a search",
                    LongFitWarning,
                    stacklevel=4,
                )
        model.nested_machines_, model.nested_folds_, model.nested_scores_ = machines, folds, scores

    def nested_ends(self, X: Any, coverage: Any) -> Array:
        """Return the ends of nested intervals."""
        self.make_nested()
        model = self.estimator
        points = model._new_points(X)
        (scored,) = np.nonzero(model.nested_folds_ >= 0)
        folds, scores = model.nested_folds_[scored], model.nested_scores_[scored]
        centers = np.stack([machine._evaluate(points) for machine in _machines(model)], axis=-1)
        if centers.ndim == 2:
            return cv_plus(centers, folds, scores, coverage)
        outputs = [cv_plus(centers[:, k], folds, scores[:, k], coverage) for k in range(centers.shape[1])]
        return np.stack(outputs, axis=1)

    def adaptive_ends(self, X: Any, coverage: Any) -> Array:
        """Return the ends of intervals that are wide where left-out errors are."""
        model = self.estimator
        if not hasattr(model, "spreads_"):
            if model.kernel_.pairwise or is_device_array(model.support_vectors_):
                raise DeclarationError(
                    "adaptive intervals fit a second machine to the rows in numpy, which a precomputed kernel or "
                    "arrays on a device do not allow; use method='conformal' or 'jackknife+'"
                )
            errors, predictions = self.left_out_rows()
            K = np.asarray(model.kernel_(model.support_vectors_))
            model.spreads_ = [Spread.of(K, errors[:, k], predictions[:, k]) for k in range(errors.shape[1])]
        points = model._new_points(X)
        fitted, values = model._evaluate(points), np.asarray(model.kernel_(points, model.support_vectors_))
        columns, ends = np.reshape(fitted, (values.shape[0], -1)), []
        for k, spread in enumerate(model.spreads_):
            reach = kth_smallest(spread.scores, rank(coverage, spread.scores.size)) * spread.at(values, columns[:, k])
            ends.append(np.stack([columns[:, k] - reach, columns[:, k] + reach], axis=-1))
        return ends[0] if fitted.ndim == 1 else np.stack(ends, axis=1)

    def guarantee(self, coverage: float, method: str) -> Guarantee:
        """Return what intervals guarantee, and what breaks it; folds repeat all that was chosen."""
        guarantee = super().guarantee(coverage, method)
        if guarantee.method == "adaptive":
            stable = "the machine and the spread of its errors change little when a row is left out"
            return replace(guarantee, level=None, conditions=(stable, *guarantee.conditions[2:]), broken=())
        if guarantee.method != "nested":
            return guarantee
        conditions = (guarantee.conditions[0], "the fit does not depend on their order", *guarantee.conditions[2:])
        n = int(self.estimator.support_.size)
        level = guaranteed_level(coverage, n - n % max(min(_N_FOLDS, n // _SMALLEST_FOLD), 1))
        broken = (UNEQUAL,) if self.has_unequal_weights() else ()
        return replace(guarantee, level=level, conditions=conditions, broken=broken)

    def check_loaded(self) -> None:
        """Refuse machines without folds that do not belong to the rows of a model."""
        super().check_loaded()
        model = self.estimator
        if not model.__sklearn_is_fitted__():
            return
        outputs, spreads = model._outputs(), getattr(model, "spreads_", None)
        n_outputs = int(np.prod(outputs or (1,)))
        if spreads is not None and (
            len(spreads) != n_outputs or not all(spread.is_valid(model.support_.size) for spread in spreads)
        ):
            raise DataError("adaptive intervals need one spread per output, of the rows of the machine, and positive")
        stored = [name for name in ("nested_machines_", "nested_folds_", "nested_scores_") if hasattr(model, name)]
        if not stored:
            return
        if len(stored) < 3 or model.nested_folds_.shape != (model.support_.size,):
            raise DataError("nested scores need machines, and the fold and the score of every row")
        folds, scores = model.nested_folds_, model.nested_scores_
        if scores.shape != (folds.size, *outputs) or not (scores >= 0.0).all():
            raise DataError("nested scores are absolute errors, one column per output")
        if set(np.unique(folds[folds >= 0]).tolist()) != set(range(len(model.nested_machines_))) or folds.min() < -1:
            raise DataError("every fold of nested scores has one machine")
        for fold, parts in enumerate(model.nested_machines_):
            if not {"kernel_", "bias_"} <= set(parts) or parts["support_values_"].shape[0] != int(
                (folds != fold).sum()
            ):
                raise DataError("a machine without a fold does not belong to the rows of the others")
        for machine in _machines(model):
            trial = machine._evaluate(model.support_vectors_[:1])
            if trial.shape != (1, *outputs) or not np.isfinite(trial).all():
                raise DataError("a trial prediction of a machine without a fold is not finite, or of other outputs")


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
    level = float(2 * exact_level(coverage) - 1)
    return max(math.nextafter(level - math.nextafter(math.sqrt(2.0 / n), 1.0e300), -1.0), 0.0)
