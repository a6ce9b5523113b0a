"""How far confined constants are from their optimum: every term of the bounds, where it is all there is.

The systems are small enough to be solved exactly, up to a rounding that is far below what they are off by on purpose.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from substrate.gram import Gram
from substrate.least_squares.confined_constants import (
    ConfinedSystem,
    KernelRadii,
    _CentredValues,
    _errors_of_machines,
)


def machines_of(K, targets):
    """Return the exact support values and biases of (K + I) a + b 1 = t, 1'a = 0, one column each."""
    n = len(K)
    system = np.block([[K + np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.vstack([targets, np.zeros((1, targets.shape[1]))]))
    return solved[:-1], solved[-1]


def ratio(K, below, change, change_of_bias, *, radii=None, exact=None, skew=0.0, target=None):
    """Return how far a machine that is off on purpose is, all its errors, over what the bound says.

    ``exact`` are other kernel values within the radii, of the matrix and of the rows below it.
    """
    K, below = np.asarray(K, dtype=float), np.asarray(below, dtype=float)
    n = len(K)
    targets = np.zeros((n, 1)) if target is None else np.asarray(target, dtype=float)[:, None]
    right, bias = machines_of(K, targets)
    machines, biases = right + np.asarray(change, dtype=float)[:, None], bias + change_of_bias
    centred = _CentredValues(
        gram=Gram(K.copy()), below=below, means=np.zeros(n), radii=radii or KernelRadii(), skew=skew
    )
    bound = float(_errors_of_machines(centred, targets, machines, biases)[0])
    true_K, true_below = (K, below) if exact is None else exact
    best, best_bias = machines_of(true_K, targets)
    train = machines - best
    check = below @ machines + biases - (true_below @ best + best_bias)
    return math.hypot(float(np.linalg.norm(train)), float(np.linalg.norm(check))) / bound


D = np.array([1.0, -1.0]) / math.sqrt(2.0)
NONE = np.zeros((0, 2))
NOTHING = np.zeros((2, 2))

#: Systems in which one term of the bound is nearly all of it, and reached.
TERMS = {
    "the residual, over one less nu": lambda: ratio(
        -0.5 * np.outer(D, D), NONE, 1e-3 * D, 0.0, radii=KernelRadii(negative=0.5)
    ),
    "the residual": lambda: ratio(NOTHING, NONE, 1e-3 * D, 0.0),
    "a sum that is not zero": lambda: ratio(NOTHING, NONE, [1e-3, 1e-3], -1e-3),
    "the bias, by the residual": lambda: ratio(NOTHING, np.zeros((4000, 2)), [0.0, 0.0], 1e-3),
    "the bias, by the sum": lambda: ratio(NOTHING, np.zeros((4000, 2)), [1e-3, 1e-3], -1e-3),
    "rows below, by their product": lambda: ratio(NOTHING, 1e3 * D[None, :], 1e-3 * D, 0.0),
    "rows below, in the space of the kernel": lambda: ratio(
        np.outer(D, D), 1e3 * D[None, :], 1e-3 * D, 0.0, radii=KernelRadii(trace_val=1e6)
    ),
    "rows below, by the sum": lambda: ratio(NOTHING, 1e3 * np.ones((1, 2)), [1e-3, 1e-3], -1e-3),
    "the radius of the matrix": lambda: ratio(
        NOTHING, NONE, [0.0, 0.0], 0.0, radii=KernelRadii(matrix=1e-4), exact=(1e-4 * np.outer(D, D), NONE), target=D
    ),
    "the radius of the rows below": lambda: ratio(
        NOTHING,
        np.zeros((1, 2)),
        [0.0, 0.0],
        0.0,
        radii=KernelRadii(below=1e-3),
        exact=(NOTHING, 1e-3 * D[None, :]),
        target=D,
    ),
}


@pytest.mark.parametrize("term", TERMS)
def test_every_term_of_the_error_of_a_machine_is_reached(term):
    assert 0.9 <= TERMS[term]() <= 1.0


@pytest.mark.parametrize("seed", range(40))
def test_no_machine_is_off_by_more_than_its_bound(seed):
    """Matrices that are positive semi-definite or nearly so, kernel values within their radii."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 5)), int(rng.integers(0, 4))
    features, below = rng.normal(size=(n, 2)) * np.exp(rng.uniform(-2.0, 2.0)), rng.normal(size=(m, 2))
    centred = features - features.mean(axis=0)
    nu = float(rng.choice([0.0, 0.4]))
    K, rows = centred @ centred.T - nu * (np.eye(n) - 1.0 / n), below @ centred.T
    E, F = rng.normal(size=(n, n)), rng.normal(size=(m, n))
    E, F = 1e-3 * (E + E.T) / np.linalg.norm(E + E.T), 1e-3 * F / max(np.linalg.norm(F), 1e-300)
    if nu > 0.0:
        E = np.zeros_like(E)  # nu is that of the exact matrix
    trace = float(np.square(below).sum()) if rng.uniform() < 0.5 and nu == 0.0 else math.inf
    radii = KernelRadii(matrix=1e-3, below=1e-3, negative=max(nu, 1e-3), trace_val=trace + 1e-3 if m else math.inf)
    change = 1e-2 * rng.normal(size=n)
    found = ratio(
        K, rows, change, 1e-2 * rng.normal(), radii=radii, exact=(K + E, rows + F), skew=1e-2, target=rng.normal(size=n)
    )
    assert found <= 1.0


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


@pytest.mark.parametrize("seed", range(6))
def test_kernel_values_within_their_radii_have_their_optimum_within_that_of_the_system(seed):
    """The errors of its linear systems are part of it, so that it speaks for values that it does not know."""
    rng = np.random.default_rng(seed)
    n, m, q = 5, 4, 2
    X, V = rng.normal(size=(n, 1)), rng.normal(size=(m, 1))
    K, below = np.exp(-((X - X.T) ** 2)), np.exp(-((V - X.T) ** 2))
    y, y_val, Z = rng.normal(size=n), rng.normal(size=m), rng.normal(size=(n, q))
    E, F = rng.normal(size=(n, n)), rng.normal(size=(m, n))
    E, F = 1e-4 * (E + E.T) / np.linalg.norm(E + E.T), 1e-4 * F / np.linalg.norm(F)
    radii = KernelRadii(matrix=1e-4, below=1e-4, negative=1e-4)
    system = ConfinedSystem.of(Gram(K.copy()), y, below, y_val, Z, radii=radii)
    exact = ConfinedSystem.of(Gram(K + E), y, below + F, y_val, Z)
    errors = system.solve().errors
    distance = float(np.linalg.norm(errors - exact.solve().errors))
    assert 1e-6 < distance <= system.radius(errors)
    assert float(np.linalg.norm(system.start - exact.start)) <= system.errors[0]
    assert float(np.linalg.norm(system.slopes - exact.slopes)) <= system.errors[1]


def test_rounding_of_centred_values_is_known_where_an_eigenvalue_is_negative():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(10, 3))
    centred = _CentredValues.of(Gram(1e14 + F @ F.T), np.full((2, 10), 1e14), KernelRadii())
    smallest = float(np.linalg.eigvalsh(centred.gram.matrix)[0])
    assert -centred.gram.cancelled <= smallest < 0.0
    assert centred.gram.cancelled < 1e-13 * 1e14 * 10
