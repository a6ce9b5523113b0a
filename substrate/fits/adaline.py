r"""The Adaline: a linear system solved by descent on its squared error, and an Adaline that eliminates patterns.

.. math:: E_k = B - A W_k, \qquad W_{k+1} = W_k + \eta\, A^T E_k, \qquad 0 < \eta < 2/\|A\|_2^2

[Carvalho2006]_ section 3.1, steps 1 and 2, with all patterns in one epoch. With a fixed :math:`\eta` the number of
epochs grows with the *square* of the condition number, to millions on the paper's data. The accelerated variant
descends along directions conjugate in :math:`A^T A` (LSQR, [Golub2013]_): the same monotone error, with as many epochs
as the condition number itself. Both begin at W = 0, so that nothing is random.

With elimination, patterns leave while the Adaline is trained:

.. math:: \text{pattern } i \text{ leaves when } |E_{k,i}| < \theta

[Carvalho2006]_ section 3.1. The row and the column of A that belong to the pattern are removed; the rest is the LS-SVM
of the remaining patterns.

The paper gives no stopping rule, but one is needed: A is regular, so training drives *every* error to zero, every
pattern falls below every threshold in time, and the number that remains depends on the length of the training. Here

- elimination ends when ``count`` patterns remain, or after ``max_epochs`` epochs;
- patterns that fall below the threshold in the same epoch leave in the order of their errors, smallest first;
- the row and column of the bias never leave, nor does the last pattern of a class;
- the start is random, small relative to the solution, and determined by the seed.

The weights at that moment depend on the epoch; the limit of further training on the remaining patterns does not. It is
the LS-SVM of those patterns, by one factorisation, and is taken as the solution.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import eigsh, lsqr

from substrate.arrays import Array

__all__ = ["TrainedAdaline", "eliminate_patterns", "solve_by_adaline"]

#: Deviation of the random start, in units in which the weights' images are of order one.
_START = 0.01
#: A residual that is larger than the tolerance by rounding counts as having reached it.
_REACHED = 1.0 + 1e-9


class TrainedAdaline(NamedTuple):
    """Weights, bias first, ||B - A W|| / ||B||, the number of epochs, what ended them, and the patterns that remain."""

    weights: Array
    residual: float
    epochs: int
    ended: str
    patterns: Any


def solve_by_adaline(
    A: Array, B: Array, *, tolerance: float, max_epochs: int, accelerated: bool = True
) -> TrainedAdaline:
    """Train on A W = B, A being symmetric, until the relative residual is small, or the epochs are spent.

    :place [Carvalho2006]_ section 3.1, steps 1-2: the Adaline
    """
    size, W, epochs = float(np.linalg.norm(B)), np.zeros(B.size), 0
    if accelerated:
        W, _, epochs = lsqr(A, B, atol=0.0, btol=tolerance, conlim=0.0, iter_lim=max_epochs)[:3]
    E, step = B - A @ W, _largest_step(A)
    while not accelerated and epochs < max_epochs and np.linalg.norm(E) > tolerance * size:
        W += step * (A.T @ E)
        E, epochs = B - A @ W, epochs + 1
    residual = float(np.linalg.norm(E)) / size
    ended = "tolerance" if residual <= _REACHED * tolerance else "epochs"
    return TrainedAdaline(W, residual, int(epochs), ended, np.arange(B.size - 1))


def _largest_step(A: Array) -> float:
    """Return 1/||A||^2 of a symmetric matrix; descent needs it to within a factor of two only."""
    (largest,) = eigsh(A, k=1, v0=np.ones(len(A)), tol=1e-3, return_eigenvectors=False)
    return 1.0 / float(largest) ** 2


def eliminate_patterns(
    A: Array, B: Array, *, threshold: float, count: int, max_epochs: int, seed: int
) -> TrainedAdaline:
    """Train on A W = B, the bias first, and eliminate patterns until ``count`` remain or ``max_epochs`` is reached.

    The signs of B are the classes; A must have the signs of regression, in which it is symmetric, see
    :mod:`substrate.operators.saddle_system`.

    :place [Carvalho2006]_ section 3.1, steps 3-4: A-LSSVM, patterns leave, with an end
    """
    count = max(count, 2)  # one of each class stays
    step = _largest_step(A)  # submatrices have no larger norm, so that it remains valid as patterns leave
    W = np.random.default_rng(seed).normal(scale=_START * math.sqrt(step), size=B.size)
    E, remaining, epoch = B - A @ W, np.arange(B.size), 0
    while remaining.size - 1 > count and epoch < max_epochs:
        W += step * (A.T @ E)
        E = B - A @ W
        epoch += 1
        stay = _staying(np.abs(E), B, threshold, remaining.size - 1 - count)
        if stay.size < remaining.size:
            A, B, W, remaining = A[np.ix_(stay, stay)], B[stay], W[stay], remaining[stay]
            E = B - A @ W
    ended = "count" if remaining.size - 1 <= count else "epochs"
    return TrainedAdaline(W, float(np.linalg.norm(E) / np.linalg.norm(B)), epoch, ended, remaining[1:] - 1)


def _staying(errors: Array, B: Array, threshold: float, most: int) -> Any:
    """Return all but at most ``most`` patterns below the threshold, smallest error first, never the last of a class."""
    order = np.argsort(errors[1:], kind="stable") + 1
    leaving, spare = list[int](), {side: int((np.sign(B) == side).sum()) - 1 for side in (-1.0, 1.0)}
    for pattern in order[: int((errors[1:] < threshold).sum())]:
        side = float(np.sign(B[pattern]))
        if len(leaving) < most and spare[side] > 0:
            leaving.append(int(pattern))
            spare[side] -= 1
    return np.setdiff1d(np.arange(B.size), leaving)
