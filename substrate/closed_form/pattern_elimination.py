r"""The Adaline that lets go of patterns while it trains, with an end.

.. math:: W_{k+1} = W_k + \eta\, A^T E_k, \qquad E_k = B - A W_k, \qquad
          \text{pattern } i \text{ leaves when } |E_{k,i}| < \theta

[Carvalho2006]_ section 3.1. A pattern that leaves takes its row and its column of A with it; what is left is the LS-SVM
of the patterns that stay, so an eliminated pattern is as if it had never been there.

The paper names no end. It needs one: A is regular, so training drives *every* error to zero, every pattern falls below
every threshold in time, and the number that is left is a matter of how long one trains. Here

- elimination ends when ``n_support`` patterns are left, or after ``max_epochs`` epochs;
- patterns that fall below the threshold in the same epoch leave in the order of their errors, smallest first;
- the row and column of the bias never leave, nor does the last pattern of a class;
- the start is random, small beside the solution's scale, and given by the seed alone.

The weights at that moment depend on the epoch at which one looks; the limit of further training on what is left does
not, and it is the LS-SVM of those patterns, by one factorisation: so that is the solution.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.closed_form.adaline import spectral_norm

__all__ = ["Elimination", "eliminate_patterns"]

#: Deviation of the random start, in units in which the weights' images are of order one.
_START = 0.01


@dataclass(frozen=True, slots=True)
class Elimination:
    """The patterns that stay, and how the training went; weights (bias first) and residual are those at its end."""

    patterns: Any
    weights: Array
    epochs: int
    ended: str
    residual: float


def eliminate_patterns(A: Array, B: Array, *, threshold: float, count: int, max_epochs: int, seed: int) -> Elimination:
    """Train on A W = B, the bias first, and let patterns go until ``count`` are left or the epochs are spent.

    The signs of B tell the classes apart; A must be in the signs of regression, see
    :mod:`substrate.closed_form.bordered_system`.

    :place [Carvalho2006]_ section 3.1, steps 3-4: A-LSSVM, patterns leave, with an end
    """
    count = max(count, 2)  # one of each class stays
    norm = spectral_norm(A)
    step = 1.0 / norm**2  # submatrices have no larger norm, so the step stays safe as patterns leave
    W = np.random.default_rng(seed).normal(scale=_START / norm, size=B.size)
    E, left, epoch = B - A @ W, np.arange(B.size), 0
    while left.size - 1 > count and epoch < max_epochs:
        W += step * (A.T @ E)
        E = B - A @ W
        epoch += 1
        errors = np.abs(E)
        if errors[1:].min() < threshold:
            stay = _staying(errors, B, threshold, left.size - 1 - count)
            A, B, W, left = A[np.ix_(stay, stay)], B[stay], W[stay], left[stay]
            E = B - A @ W
    ended = "count" if left.size - 1 <= count else "epochs"
    return Elimination(left[1:] - 1, W, epoch, ended, float(np.linalg.norm(E) / np.linalg.norm(B)))


def _staying(errors: Array, B: Array, threshold: float, most: int) -> Any:
    """All but at most so many below the threshold, smallest error first, and never the last of a class."""
    order = np.argsort(errors[1:], kind="stable") + 1
    stay = np.ones(B.size, dtype=bool)
    spare = {side: int((np.sign(B) == side).sum()) - 1 for side in (-1.0, 1.0)}
    for pattern in order[: int((errors[1:] < threshold).sum())]:
        side = float(np.sign(B[pattern]))
        if most > 0 and spare[side] > 0:
            stay[pattern] = False
            spare[side] -= 1
            most -= 1
    return np.flatnonzero(stay)
