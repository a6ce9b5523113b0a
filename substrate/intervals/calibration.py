r"""From scores to probabilities: Platt's sigmoid, isotonic regression, and agreement with the decision.

A score is positive where a machine decides for a class. Platt's map ([Platt2000]_) is

.. math:: p(s) = \frac{1}{1 + e^{-(a s + b)}}, \qquad
          \min_{a \ge 0,\, b} \; - \sum_i v_i \big( t_i \log p(s_i) + (1 - t_i) \log (1 - p(s_i)) \big)

with his targets :math:`t_i = (N_+ + 1)/(N_+ + 2)` for rows of the class and :math:`1/(N_- + 2)` for the others, so that
a and b are finite on separable scores too. The problem is convex; Newton's method with halved steps ([Lin2007]_) solves
it, and the gradient at the end is its certificate. Isotonic regression ([Zadrozny2002]_) is the least-squares fit among
all nondecreasing maps.

Neither map passes through one half where the score is zero, while a machine decides by the sign of its score. A
probability is therefore moved to one half where it lies on the other side of the decision, see :func:`beside_decision`:
maps stay monotone, and the class of the largest probability is the class that is predicted. Where the decision is right
more often than not on both sides of zero, as for any useful machine, nothing moves but scores in the narrow band
between zero and the score at which the map is one half.

**Sets of labels.** A row conforms less, the less its class is ahead of the best other class in a machine that was
fitted without it: with the margins of :func:`margins`, its nonconformity score is minus the margin of the class. A
label z belongs to the set of a new row x unless at least :math:`k = \lceil c (n + 1) \rceil` of the n rows have a
smaller score than (x, z) ([Vovk2005]_).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize, root
from scipy.special import expit, logit

from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.intervals.conformal import rank

__all__ = [
    "DECIDED",
    "IsotonicMap",
    "SigmoidMap",
    "beside_decision",
    "fit_isotonic",
    "fit_sigmoid",
    "in_set",
    "less_strange",
    "margins",
    "nonconformity",
    "smoothed_targets",
]

#: The smallest probability of a class that is decided for, before all are divided by their sum.
DECIDED = 0.5 + 2.0**-40
#: Largest gradient of the mean log loss that counts as zero, in units in which scores have spread one.
_FLAT = 1e-11


def margins(scores: Array) -> Array:
    r"""Return how far each class is ahead of the best other one, one column per class.

    For two classes and one decision value f these are -f and f; for more, with one score per class,
    :math:`m_c = s_c - \max_{j \ne c} s_j`. The class with a positive margin is the one that is decided for.
    """
    if scores.ndim == 1:
        return np.column_stack([-scores, scores])
    ordered = np.partition(scores, -2, axis=1)
    best, second = ordered[:, -1], ordered[:, -2]
    first = np.argmax(scores, axis=1)
    ahead: Array = scores - best[:, None]
    ahead[np.arange(first.size), first] = best - second
    return ahead


def beside_decision(probabilities: Array, decided: Any) -> Array:
    """Return probabilities of the classes, one column each, that agree with a decision and sum to one.

    ``decided`` is the number of the class that each row is decided for. Its probability is at least one half and that
    of every other class at most one half before all are divided by their sum, so it stays the largest.
    """
    is_decided = np.arange(probabilities.shape[1]) == np.asarray(decided)[:, None]
    sided = np.where(is_decided, np.maximum(probabilities, DECIDED), np.minimum(probabilities, 0.5))
    return np.asarray(sided / sided.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class SigmoidMap:
    """Platt's map; ``gradient`` is the size of the gradient of the mean log loss, its certificate, zero at the
    optimum.
    """

    slope: float
    offset: float
    gradient: float = 0.0

    def __call__(self, scores: Array) -> Array:
        """Return the probability at each score."""
        return np.asarray(expit(self.slope * scores + self.offset))


def smoothed_targets(positive: Any, weights: Array) -> Array:
    """Return Platt's targets: (N+ + 1)/(N+ + 2) and 1/(N- + 2), the counts being sums of weights.

    :place [Platt2000]_ smoothed targets: they keep the slope finite
    """
    many, few = float(weights[positive].sum()), float(weights[~positive].sum())
    return np.where(positive, (many + 1.0) / (many + 2.0), 1.0 / (few + 2.0))


def fit_sigmoid(scores: Array, positive: Any, weights: Array) -> SigmoidMap:
    """Fit Platt's map to scores whose rows are of the class, or not.

    The slope is not negative: where scores order the classes the wrong way round, or are all equal, the probability is
    a constant, the mean target.
    """
    targets, share = smoothed_targets(positive, weights), weights / weights.sum()
    mean = float(share @ scores)
    spread = float(np.sqrt(share @ np.square(scores - mean)))
    constant = SigmoidMap(0.0, float(logit(share @ targets)))
    if not spread > 1e-12 * float(np.abs(scores).max()):
        return constant
    inside = np.column_stack([(scores - mean) / spread, np.ones_like(scores)])
    if float(share @ (inside[:, 0] * (targets - share @ targets))) <= 0.0:
        return constant  # the loss rises with the slope from zero on, and it is convex

    def gradient(point: Array) -> Array:
        return np.asarray(inside.T @ (share * (expit(inside @ point) - targets)))

    def curvature(point: Array) -> Array:
        p = expit(inside @ point)
        return np.asarray((inside.T * (share * p * (1.0 - p))) @ inside)

    def loss(point: Array) -> float:
        logits = inside @ point
        return float(share @ (np.logaddexp(0.0, logits) - targets * logits))

    # the mean log loss is convex: it is least where its gradient vanishes
    near = minimize(loss, np.array([0.0, constant.offset]), jac=gradient).x
    parameters = root(gradient, near, jac=curvature, tol=1e-15).x
    flat = float(np.abs(gradient(parameters)).max())
    if not flat <= _FLAT:
        raise SolverError(f"Platt's sigmoid did not converge: the gradient is {flat:.2e}, above {_FLAT:.0e}")
    slope = float(parameters[0]) / spread
    return SigmoidMap(slope, float(parameters[1]) - slope * mean, flat)


@dataclass(frozen=True, slots=True)
class IsotonicMap:
    """A nondecreasing map: ``values`` at the sorted ``scores``, linear between them and constant beyond."""

    scores: Array
    values: Array

    def __call__(self, scores: Array) -> Array:
        """Return the probability at each score."""
        return np.interp(scores, self.scores, self.values)


def fit_isotonic(scores: Array, positive: Any, weights: Array) -> IsotonicMap:
    """Fit the isotonic regression of the class on the scores; rows of equal score count as one of their mean."""
    from scipy.optimize import isotonic_regression

    distinct, place = np.unique(scores, return_inverse=True)
    total, positive_weight = (np.bincount(place, amounts, distinct.size) for amounts in (weights, weights * positive))
    return IsotonicMap(distinct, np.asarray(isotonic_regression(positive_weight / total, weights=total).x))


def nonconformity(scores: Array, classes: Any) -> Array:
    """Return how far each row's own class is behind the best other one."""
    return -np.asarray(margins(scores)[np.arange(len(classes)), classes])


def less_strange(calibration: Array, scores: Array) -> Any:
    """Return how many calibration rows have a smaller score of nonconformity than each row with each label."""
    return np.searchsorted(np.sort(calibration), -margins(scores), side="left")


def in_set(less: Any, coverage: Any, n: int) -> Any:
    """Return whether labels belong to the set: fewer than ceil(coverage (n + 1)) of n rows have smaller scores.

    :place [Vovk2005]_ conformal predictor: the labels of a set
    """
    return np.asarray(less) < rank(coverage, n)
