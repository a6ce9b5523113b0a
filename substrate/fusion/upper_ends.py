"""The upper ends of weights that have none: where what they weigh has vanished."""

import math

import numpy as np

from substrate.errors import DeclarationError
from substrate.fusion.affine_program import AffineProgram
from substrate.fusion.box import Box
from substrate.fusion.knot_store import KnotStore
from substrate.fusion.program_numbers import least_linear
from substrate.search.best_first import Limits

__all__ = ["choose_upper_ends"]

#: Penalty, as a share of its largest value, that counts as vanished; the first weight, its growth and steps.
_NOUGHT, _FIRST, _GROWTH, _STEPS = 1e-9, 1e-3, 4.0, 40
#: Steps after which a penalty that falls no more is compared with the smallest that the constraints allow.
_STALLED = 4


def choose_upper_ends(store: KnotStore, ends: Box, limits: Limits | None = None) -> Box:
    """Return the box with every infinite end replaced by a value at which the penalties have vanished, or are as small
    as the constraints allow, if all of these have it.

    At smaller values of the others a penalty may last longer: nothing is said of values beyond these ends.
    """
    infinite = [k for k, (_, high) in enumerate(ends) if math.isinf(high)]
    if not infinite:
        return ends
    size = max(fold.size for fold in store.folds)
    corner = [low for low, _ in ends]
    value, most = max(_FIRST * size, _GROWTH * max(ends[k][0] for k in infinite)), 0.0
    least, before = 0.0, np.inf
    for step in range(_STEPS):
        for k in infinite:
            corner[k] = value
        if limits is not None and store.corners:  # the first one is solved whatever the limits
            limits.check(store.solves, len(store.folds))
        at = store.add(tuple(corner))
        pairs = zip(store.folds, store.knots, strict=True)
        penalty_left = max(fold.program.penalty(k, knots[at].x) for fold, knots in pairs for k in infinite)
        most = max(most, penalty_left)
        if step >= _STALLED and penalty_left > 0.5 * before and least == 0.0:
            least = max(_least_penalty(fold.program, k) for fold in store.folds for k in infinite)
        if penalty_left - least <= _NOUGHT * max(most - least, 1e-12):
            break
        value, before = value * _GROWTH, penalty_left
    else:
        raise DeclarationError(
            f"the penalties do not vanish at {value / _GROWTH:.1e}, nor are they as small as the constraints allow, so "
            "the search has no upper end; give one for each: "
            "box={name: (low, high), ...}"
        )
    return tuple((low, value) if k in infinite else (low, high) for k, (low, high) in enumerate(ends))


def _least_penalty(program: AffineProgram, k: int) -> float:
    """Return the smallest value that the constraints allow of what parameter k weighs; zero where there is none."""
    return least_linear(program.q[k], program.A, program.b, program.G, program.h) or 0.0
