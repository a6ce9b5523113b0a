r"""Feature vector selection from a few candidates drawn anew at every step.

The greedy rule of :mod:`~substrate.closed_form.basis_selection.feature_vectors` looks at every candidate at every step;
here it looks at ``DRAWN`` of them, drawn by lot: with 59 the best of the draw is, with a chance of 95 %, among the best
twentieth of all ([Smola2000]_; [Cawley2002b]_ for this use). Memory and work no longer depend on the number of
candidates.
"""

from typing import Any

import numpy as np

from substrate.certificates.rows import EPS
from substrate.closed_form.basis_selection.candidates import Candidates, Chosen

__all__ = ["DRAWN", "select_stochastically"]

DRAWN = 59


def select_stochastically(candidates: Candidates, count: int, generator: Any, tolerance: float = 0.0) -> Chosen:
    """Choose up to ``count``; three draws in a row without anything outside the span end the choice."""
    rows, scoring = candidates.rows, candidates.scoring
    whole = candidates.diagonal(scoring)
    scale = 1.0 / np.sqrt(np.where(whole > 0.0, whole, np.inf))
    left = rows.copy()
    chosen: list[int] = []
    L = np.zeros((count, count))  # Cholesky factor of the kernel matrix of the chosen ones
    Z = np.zeros((count, scoring.size))  # features of the scoring rows
    error, in_vain = float((whole > 0.0).mean()), 0
    while len(chosen) < count and left.size and in_vain < 3:
        if error <= tolerance and tolerance > 0.0:  # at nought only a complete basis ends it
            return Chosen(np.array(chosen, dtype=np.intp), f"a mean reconstruction error of {max(error, 0.0):.2e}")
        k = len(chosen)
        drawn = generator.choice(left.size, size=min(DRAWN, left.size), replace=False)
        trial = left[drawn]
        features = _features(candidates, trial, chosen, L[:k, :k])
        own = candidates.diagonal(trial)
        rest = own - np.square(features).sum(axis=1)
        outside = rest > rows.size * EPS * own.max(initial=0.0)
        if not outside.any():
            in_vain += 1
            continue
        in_vain = 0
        R = (candidates.block(trial, scoring) - features @ Z[:k]) * scale
        worth = np.where(outside, np.square(R).sum(axis=1) / np.where(outside, rest, 1.0), -np.inf)
        best = int(worth.argmax())
        L[k, :k], L[k, k] = features[best], np.sqrt(rest[best])
        Z[k] = R[best] / scale.clip(np.finfo(float).tiny) / L[k, k]
        chosen.append(int(trial[best]))
        left = np.delete(left, drawn[best])
        error -= float(worth[best]) / scoring.size
    ended = f"{count} vectors" if len(chosen) == count else "draws without a vector outside the span"
    return Chosen(np.array(chosen, dtype=np.intp), ended)


def _features(candidates: Candidates, trial: Any, chosen: list[int], L: Any) -> Any:
    from scipy.linalg import solve_triangular

    if not chosen:
        return np.zeros((len(trial), 0))
    return solve_triangular(L, candidates.block(np.array(chosen), trial), lower=True, check_finite=False).T
