"""An Adaline that lets patterns go: it has an end, keeps the bias and both classes, and depends on its seed alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.kernels import RBF
from substrate.least_squares.adaline import _staying, eliminate_patterns, solve_by_adaline
from substrate.least_squares.saddle_system import bordered_matrix, bordered_target

RULE = {"threshold": 0.1, "count": 10, "max_epochs": 2000, "seed": 0}


def system(n=40, gamma=10.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.4 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return bordered_matrix(RBF(1.0)(X), np.full(n, 1.0 / gamma)), bordered_target(y)


def test_every_error_tends_to_zero_so_without_an_end_every_pattern_leaves():
    """The erratum of section 3.1: the system has an exact solution, and any threshold is passed in time."""
    A, B = system()
    trained = solve_by_adaline(A, B, tolerance=1e-6, max_epochs=10**6)
    assert (np.abs(B - A @ trained.weights) < 1e-4).all()
    for threshold in (0.5, 0.1, 0.02):
        found = eliminate_patterns(A, B, **RULE | {"threshold": threshold, "count": 1, "max_epochs": 200_000})
        assert found.patterns.size == 2, "nothing but the rule that keeps one of each class"


def test_the_number_left_is_a_matter_of_threshold_and_epochs():
    A, B = system()
    left = [
        [eliminate_patterns(A, B, **RULE | {"threshold": t, "count": 1, "max_epochs": e}).patterns.size for e in epochs]
        for t, epochs in ((0.02, (10, 100, 1000)), (0.2, (10, 100, 1000)))
    ]
    assert left[0] == sorted(left[0], reverse=True)
    assert left[0][0] > left[0][-1]
    assert left[0][1] > left[1][1]


@pytest.mark.parametrize("count", [2, 3, 10, 39, 40])
def test_it_ends_at_the_wanted_number(count):
    A, B = system()
    found = eliminate_patterns(A, B, **RULE | {"count": count, "max_epochs": 100_000})
    assert found.patterns.size == count
    assert found.ended == "count"
    assert_array_equal(np.unique(np.sign(B[found.patterns + 1])), [-1.0, 1.0])
    assert_array_equal(found.patterns, np.unique(found.patterns))
    assert found.weights.size == count + 1, "the bias is never eliminated"


def test_the_last_of_a_class_stays_however_well_it_is_fitted():
    B = np.array([0.0, 1.0, -1.0, -1.0, -1.0])
    errors = np.array([0.0, 0.01, 0.02, 0.03, 0.9])
    assert_array_equal(_staying(errors, B, threshold=0.1, most=4), [0, 1, 4])
    assert_array_equal(_staying(errors, B, threshold=0.1, most=1), [0, 1, 3, 4])
    assert_array_equal(_staying(errors, B, threshold=0.001, most=4), [0, 1, 2, 3, 4])
    assert_array_equal(_staying(errors, -B, threshold=9.0, most=4), [0, 1, 4])


def test_or_when_the_epochs_are_spent():
    A, B = system()
    found = eliminate_patterns(A, B, **RULE | {"threshold": 1e-9, "max_epochs": 5})
    assert (found.epochs, found.ended) == (5, "epochs")
    assert found.patterns.size == 40


def test_the_seed_alone_decides():
    A, B = system()
    first, again = eliminate_patterns(A, B, **RULE), eliminate_patterns(A, B, **RULE)
    assert_array_equal(first.patterns, again.patterns)
    assert_array_equal(first.weights, again.weights)
    assert not np.array_equal(eliminate_patterns(A, B, **RULE | {"seed": 1}).weights, first.weights)


def test_epoch_by_epoch_it_is_the_paper_written_with_masks():
    """:place [Carvalho2006]_ section 3.1, steps 3-4: epoch by epoch."""
    A, B = system(20)
    found = eliminate_patterns(A, B, threshold=0.3, count=8, max_epochs=60, seed=3)
    norm = np.linalg.norm(A, 2)
    W = np.random.default_rng(3).normal(scale=0.01 / norm, size=21)
    active = np.ones(21, dtype=bool)
    epochs = 0
    while active.sum() > 9 and epochs < 60:
        E = np.where(active, B - A @ W, 0.0)
        W = np.where(active, W + (A.T @ E) / norm**2, 0.0)
        epochs += 1
        errors = np.abs(B - A @ W)
        for i in sorted(range(1, 21), key=lambda i: errors[i]):
            same = [j for j in range(1, 21) if active[j] and B[j] == B[i]]
            if active[i] and errors[i] < 0.3 and active.sum() > 9 and len(same) > 1:
                active[i] = False
        W = np.where(active, W, 0.0)
    assert found.epochs == epochs
    assert_array_equal(found.patterns, np.flatnonzero(active[1:]))
    assert_allclose(found.weights, W[active], rtol=1e-3)  # the step uses an estimate of the norm
    assert_allclose(found.residual, np.linalg.norm((B - A @ W)[active]) / np.linalg.norm(B[active]), rtol=1e-3)
