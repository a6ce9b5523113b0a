"""How far confined constants are from their optimum: every term of the bounds, where it is all there is.

The systems are small enough to be solved exactly, up to a rounding that is far below what they are off by on purpose.
"""

from dataclasses import replace

import numpy as np
import pytest

from substrate.gram import Gram
from substrate.least_squares.confined_constants import (
    ConfinedSystem,
    _CentredValues,
)


def system_of(seed, n=5, m=4, q=2):
    rng = np.random.default_rng(seed)
    X, V = rng.normal(size=(n, 1)), rng.normal(size=(m, 1))
    gram, below = Gram(np.exp(-((X - X.T) ** 2))), np.exp(-((V - X.T) ** 2))
    return ConfinedSystem.of(gram, rng.normal(size=n), below, rng.normal(size=m), rng.normal(size=(n, q))), rng


def optimum_of(start, slopes):
    """Return r_0 less its projection on the range of M."""
    return start - slopes @ np.linalg.lstsq(slopes, start, rcond=None)[0]


@pytest.mark.parametrize("seed", range(6))
def test_errors_along_the_columns_and_beside_them_are_all_counted(seed):
    system, rng = system_of(seed)
    best = optimum_of(system.start, system.slopes)
    Q = system.directions
    for step in (Q @ rng.normal(size=Q.shape[1]), rng.normal(size=best.size)):
        step = 1e-3 * step / np.linalg.norm(step)
        beside = step - Q @ (Q.T @ step)
        for change in (step, beside):
            length = float(np.linalg.norm(change))
            radius = system.radius(best + change)
            assert length * (1.0 - 1e-6) <= radius
            assert radius <= 1.02 * (length + float(np.linalg.norm(Q.T @ change))) + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_a_start_and_slopes_that_are_off_move_the_optimum(seed):
    """The start by all of its error; slopes by what they turn the range of M, whatever they are within their radius."""
    system, rng = system_of(seed)
    Q = system.directions
    shift = rng.normal(size=system.start.size)
    shift = shift - Q @ (Q.T @ shift)
    shift = 1e-3 * shift / np.linalg.norm(shift)
    shifted = replace(system, errors=(1e-3, 0.0))
    best = optimum_of(system.start + shift, system.slopes)
    computed = system.solve().errors
    distance = float(np.linalg.norm(computed - best))
    assert distance == pytest.approx(1e-3, rel=1e-6)
    assert distance <= shifted.radius(computed) <= 1.1 * distance
    off = rng.normal(size=system.slopes.shape)
    off = 1e-4 * off / np.linalg.norm(off)
    turned = replace(system, errors=(0.0, 1e-4))
    assert float(np.linalg.norm(computed - optimum_of(system.start, system.slopes + off))) <= turned.radius(computed)


def test_slopes_that_are_off_turn_the_range_by_their_error_over_their_size():
    """One column: the optimum moves by the part of the start across it, and by that along it."""
    start, slopes = np.array([1.0, 1.0, 0.0]), np.array([[2.0], [0.0], [0.0]])
    system = replace(
        system_of(0)[0],
        start=start,
        slopes=slopes,
        directions=np.array([[1.0], [0.0], [0.0]]),
        levels_of=np.array([[0.5]]),
        errors=(0.0, 1e-3),
    )
    computed = start - np.array([1.0, 0.0, 0.0])
    best = optimum_of(start, slopes + np.array([[0.0], [1e-3], [0.0]]))
    distance = float(np.linalg.norm(computed - best))
    assert distance <= system.radius(computed) <= 1.5 * distance
    # a basis that is not the range of M is turned by as much
    tilted = replace(system, directions=np.array([[1.0], [1e-3], [0.0]]), errors=(0.0, 0.0))
    along = tilted.directions[:, 0] / np.linalg.norm(tilted.directions)
    projected = start - along * float(along @ start)
    assert float(np.linalg.norm(projected - computed)) <= tilted.radius(projected)


def test_rounding_of_centred_values_is_known_where_an_eigenvalue_is_negative():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(10, 3))
    centred = _CentredValues.of(Gram(1e14 + F @ F.T), np.full((2, 10), 1e14), 0.0)
    smallest = float(np.linalg.eigvalsh(centred.gram.matrix)[0])
    assert -centred.gram.cancelled <= smallest < 0.0
    assert centred.gram.cancelled < 1e-13 * 1e14 * 10
