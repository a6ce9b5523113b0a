r"""The Adaline: a linear system solved by descent on its squared error, and an Adaline that eliminates patterns.

.. math:: E_k = B - A W_k, \qquad W_{k+1} = W_k + \eta\, A^T E_k, \qquad \eta = 1/\|A\|_2^2

[Carvalho2006]_ section 3.1, steps 1 and 2, with all patterns in one epoch. Any :math:`\eta < 2/\|A\|_2^2` makes
:math:`\|E_k\|` decrease; an error along a singular vector of A shrinks by the factor
:math:`1 - \sigma^2/\|A\|_2^2` per epoch, so the number of epochs grows with the *square* of the condition number. The
accelerated variant descends along directions conjugate in :math:`A^T A`: one more product with A per epoch, the same
monotone error, and a number of epochs that grows with the condition number itself.

Both start from W = 0, so that nothing is random, and stop at a relative error, when the gradient is of rounding size,
or after the last epoch; the record states which.

With elimination, patterns leave while the Adaline is trained:

.. math:: W_{k+1} = W_k + \eta\, A^T E_k, \qquad E_k = B - A W_k, \qquad
          \text{pattern } i \text{ leaves when } |E_{k,i}| < \theta

[Carvalho2006]_ section 3.1. The row and the column of A that belong to the pattern are removed; the rest is the LS-SVM
of the remaining patterns.

The paper gives no stopping rule, but one is needed: A is regular, so training drives *every* error to zero, every
pattern falls below every threshold in time, and the number that remains depends on the length of the training. Here

- elimination ends when ``n_support`` patterns remain, or after ``max_epochs`` epochs;
- patterns that fall below the threshold in the same epoch leave in the order of their errors, smallest first;
- the row and column of the bias never leave, nor does the last pattern of a class;
- the start is random, small relative to the solution, and determined by the seed.

The weights at that moment depend on the epoch; the limit of further training on the remaining patterns does not. It is
the LS-SVM of those patterns, by one factorisation, and is taken as the solution.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = ["AdalineSolution", "PatternElimination", "eliminate_patterns", "solve_by_adaline", "spectral_norm"]

#: A gradient this small relative to ||A|| ||E|| leaves only directions that A shortens to the root of the unit
#: roundoff; in A'A, on which descent is based, they are noise.
_STATIONARY = 1e-8


@dataclass(frozen=True, slots=True)
class AdalineSolution:
    """Weights, ||B - A W|| / ||B|| of every output, its history (worst output) and how the training ended."""

    weights: Array
    residual: Array
    history: Array
    epochs: int
    ended: str

    @property
    def is_converged(self) -> bool:
        """Whether every output reached the tolerance."""
        return self.ended == "tolerance"


def spectral_norm(A: Array, steps: int = 50) -> float:
    """Estimate ||A||_2 by the power method on A'A from a fixed start, to about a thousandth and never above.

    Descent needs it to within a factor of the square root of two only.
    """
    largest = float(np.abs(A).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    A = A / largest  # so that squares neither overflow nor vanish
    v = np.asarray(np.random.default_rng(0).standard_normal(A.shape[1]), dtype=np.float64)
    v /= np.linalg.norm(v)
    norm = 0.0
    for _ in range(steps):
        w = A.T @ (A @ v)
        length = float(np.linalg.norm(w))
        if length == 0.0:
            return 0.0
        previous, norm = norm, float(np.sqrt(length))
        v = w / length
        if abs(norm - previous) <= 1e-3 * norm:
            break
    return largest * norm


def solve_by_adaline(
    A: Array, B: Array, *, tolerance: float = 1e-3, max_epochs: int = 10_000, accelerated: bool = True
) -> AdalineSolution:
    """Train on A W = B for one output (a vector B) or several (one column per output), each independently.

    :place [Carvalho2006]_ section 3.1, steps 1-2: the Adaline
    """
    if B.shape[0] != A.shape[0]:
        raise DeclarationError(f"A has {A.shape[0]} rows and B has {B.shape[0]}; they must agree")
    right = B[:, None] if B.ndim == 1 else B
    size = np.linalg.norm(right, axis=0)
    size = np.where(size > 0.0, size, 1.0)
    W, E = np.zeros((A.shape[1], right.shape[1])), right.copy()
    norm = spectral_norm(A)
    descend = _ConjugateDescent(A, W.shape) if accelerated else _PlainDescent(A, norm)
    gradient = A.T @ E
    history, ended = [float((np.linalg.norm(E, axis=0) / size).max())], "epochs"
    epoch = 0
    while True:
        errors = np.linalg.norm(E, axis=0)
        open_ = errors > tolerance * size
        moving = open_ & (np.linalg.norm(gradient, axis=0) > _STATIONARY * norm * errors)
        if not moving.any():
            ended = "stationary" if open_.any() else "tolerance"
            break
        if epoch == max_epochs:
            break
        W[:, moving] += descend(gradient[:, moving], moving)
        E[:, moving] = right[:, moving] - A @ W[:, moving]  # recomputed: a recursion would drift
        gradient[:, moving] = A.T @ E[:, moving]
        epoch += 1
        history.append(float((np.linalg.norm(E, axis=0) / size).max()))
    residual = np.linalg.norm(E, axis=0) / size
    shape = W[:, 0] if B.ndim == 1 else W
    return AdalineSolution(
        weights=shape,
        residual=residual[0] if B.ndim == 1 else residual,
        history=np.array(history),
        epochs=epoch,
        ended=ended,
    )


class _PlainDescent:
    """A fixed step along the gradient."""

    def __init__(self, A: Array, norm: float) -> None:
        self._step = 1.0 / norm**2 if norm > 0.0 else 0.0

    def __call__(self, gradient: Array, moving: Array) -> Array:
        return self._step * gradient


class _ConjugateDescent:
    """The best step along a direction conjugate to the previous one (conjugate gradients on A'A W = A'B)."""

    def __init__(self, A: Array, shape: tuple[int, ...]) -> None:
        self._A = A
        self._direction = np.zeros(shape)
        self._energy = np.full(shape[1], np.inf)

    def __call__(self, gradient: Array, moving: Array) -> Array:
        energy = np.einsum("ij,ij->j", gradient, gradient)
        direction = gradient + (energy / self._energy[moving]) * self._direction[:, moving]
        image = self._A @ direction
        curvature = np.einsum("ij,ij->j", image, image)
        along = np.einsum("ij,ij->j", gradient, direction)  # the best step even where rounding spoilt conjugacy
        self._direction[:, moving], self._energy[moving] = direction, energy
        return np.asarray(direction * np.where(curvature > 0.0, along / np.where(curvature > 0.0, curvature, 1.0), 0.0))


#: Deviation of the random start, in units in which the weights' images are of order one.
_START = 0.01


@dataclass(frozen=True, slots=True)
class PatternElimination:
    """The remaining patterns and a record of the training; weights (bias first) and residual are those at its end."""

    patterns: Any
    weights: Array
    epochs: int
    ended: str
    residual: float


def eliminate_patterns(
    A: Array, B: Array, *, threshold: float, count: int, max_epochs: int, seed: int
) -> PatternElimination:
    """Train on A W = B, the bias first, and eliminate patterns until ``count`` remain or ``max_epochs`` is reached.

    The signs of B are the classes; A must have the signs of regression, see
    :mod:`substrate.least_squares.saddle_system`.

    :place [Carvalho2006]_ section 3.1, steps 3-4: A-LSSVM, patterns leave, with an end
    """
    count = max(count, 2)  # one of each class stays
    norm = spectral_norm(A)
    step = 1.0 / norm**2  # submatrices have no larger norm, so the step remains valid as patterns leave
    W = np.random.default_rng(seed).normal(scale=_START / norm, size=B.size)
    E, remaining, epoch = B - A @ W, np.arange(B.size), 0
    while remaining.size - 1 > count and epoch < max_epochs:
        W += step * (A.T @ E)
        E = B - A @ W
        epoch += 1
        errors = np.abs(E)
        if errors[1:].min() < threshold:
            stay = _staying(errors, B, threshold, remaining.size - 1 - count)
            A, B, W, remaining = A[np.ix_(stay, stay)], B[stay], W[stay], remaining[stay]
            E = B - A @ W
    ended = "count" if remaining.size - 1 <= count else "epochs"
    return PatternElimination(
        patterns=remaining[1:] - 1,
        weights=W,
        epochs=epoch,
        ended=ended,
        residual=float(np.linalg.norm(E) / np.linalg.norm(B)),
    )


def _staying(errors: Array, B: Array, threshold: float, most: int) -> Any:
    """Return all but at most ``most`` patterns below the threshold, smallest error first, never the last of a class."""
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
