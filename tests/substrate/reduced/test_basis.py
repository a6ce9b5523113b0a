"""Which vectors become the basis: each rule against its definition, its ends, and its seeds."""

import naive_reduced_basis as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.arrays import memory_limit
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import RBF, Linear, Polynomial, Precomputed
from substrate.least_squares.kernel_tiles import KernelTiles
from substrate.reduced.features import basis_features, reconstruction_errors
from substrate.reduced.rows import KernelRows
from substrate.reduced.rules import (
    Candidates,
    select_by_entropy,
    select_by_pruning,
    select_feature_vectors,
    select_spread,
)

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 2))
EVERY = np.arange(60)
KERNEL = RBF(1.0)
K = KERNEL(X)
Y = np.sin(2.0 * X[:, :1]) + X[:, 1:]


def everything(kernel=KERNEL, points=X):
    rows = np.arange(len(points))
    return Candidates(KernelTiles(kernel, points), rows, rows)


def rows_with(candidates):
    """All rows, with the candidates as basis."""
    matrix, rows = candidates.matrix, candidates.rows
    if isinstance(matrix, Gram):
        return KernelRows.of(Precomputed(), matrix.matrix, rows, Y[: matrix.n])
    return KernelRows.of(matrix.kernel, matrix.points, matrix.points[rows], Y[: matrix.n])


RULES = {
    "feature_vectors": lambda c, n, seed: select_feature_vectors(c, n),
    "pruned": lambda c, n, seed: select_by_pruning(c, rows_with(c), n, 0.1),
    "renyi": lambda c, n, seed: select_by_entropy(c, n, np.random.default_rng(seed)),
    "kmeans++": lambda c, n, seed: select_spread(c, n, np.random.default_rng(seed)),
}
over_rules = pytest.mark.parametrize("rule", RULES)


@over_rules
def test_as_many_distinct_rows_as_asked_for_and_the_same_for_the_same_seed(rule):
    chosen = RULES[rule](everything(), 12, 0).rows
    assert chosen.dtype.kind == "i"
    assert np.unique(chosen).size == 12
    assert_array_equal(chosen, RULES[rule](everything(), 12, 0).rows)
    of_matrix = Candidates(Gram(K), EVERY, EVERY)
    assert_array_equal(np.sort(RULES[rule](of_matrix, 12, 0).rows), np.sort(chosen))


@over_rules
def test_only_candidates_are_chosen(rule):
    some = np.arange(5, 60, 3)
    chosen = RULES[rule](Candidates(KernelTiles(KERNEL, X), some, EVERY[::2]), 6, 1).rows
    assert set(chosen) <= set(some)


@over_rules
def test_all_of_them(rule):
    assert_array_equal(np.sort(RULES[rule](everything(points=X[:8]), 8, 2).rows), np.arange(8))


@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(0.3), Polynomial(2, 1.0)], ids=repr)
def test_the_greedy_rule_is_the_published_one(kernel):
    """:equation [Cawley2004]_ (5): against J(S) computed anew for every candidate."""
    matrix = kernel(X[:30])
    chosen = select_feature_vectors(everything(kernel, X[:30]), 5).rows
    assert list(chosen) == naive.greedy_basis(matrix, 5)


@pytest.mark.parametrize("width", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("copies", [1, 2])
def test_products_over_the_entries_that_count_change_no_choice(width, copies):
    """Separate clusters, where most entries of a product are negligible, through to a wide kernel, where none are."""
    generator = np.random.default_rng(copies)
    centers = generator.uniform(0.0, 20.0, (12, 3))
    X = np.repeat(centers, 10, axis=0) + 0.3 * generator.standard_normal((120, 3))
    X = np.tile(X, (copies, 1))
    kernel, rows, scoring = RBF(width), np.arange(X.shape[0]), np.arange(0, X.shape[0], 3)
    chosen = select_feature_vectors(Candidates(KernelTiles(kernel, X), rows, scoring), 25).rows
    K = kernel(X)
    for k, best in enumerate(chosen):
        S = chosen[:k]
        away = K - K[:, S] @ np.linalg.solve(K[np.ix_(S, S)], K[S]) if k else K
        own = away.diagonal()
        outside = own > 1e-10
        gains = np.where(outside, (away[:, scoring] ** 2).sum(axis=1) / np.where(outside, own, 1.0), 0.0)
        assert gains[best] >= gains.max() * (1.0 - 1e-6)
        assert gains[best] > gains[:best].max(initial=0.0) * (1.0 - 1e-6)


def test_the_errors_of_the_greedy_rule_fall_to_the_tolerance():
    ended = select_feature_vectors(everything(), 60, tolerance=0.05)
    assert "reconstruction error" in ended.ended
    chosen = list(ended.rows)
    assert naive.reconstruction(K, chosen) <= 0.05 < naive.reconstruction(K, chosen[:-1])


def test_a_complete_basis_ends_the_choice():
    select = select_feature_vectors
    line = everything(Linear())
    assert select(line, 20).rows.size == 2
    assert select(line, 20).ended == "a complete basis"
    tied = everything(KERNEL, np.repeat(X[:6], 4, axis=0))
    assert select(tied, 20).rows.size == 6
    nothing = everything(Linear(), np.zeros((5, 2)))
    assert select(nothing, 3).rows.size == 0


def test_swaps_raise_the_entropy():
    def entropy(rows):
        return -np.log(K[np.ix_(rows, rows)].mean())

    for seed in range(5):
        generator = np.random.default_rng(seed)
        start = generator.permutation(60)[:12]
        assert entropy(RULES["renyi"](everything(), 12, seed).rows) > entropy(start)


def test_spread_points_avoid_chosen_ones():
    tied = np.repeat(X[:6], 4, axis=0)
    chosen = RULES["kmeans++"](everything(KERNEL, tied), 20, 0)
    assert np.unique(chosen.rows // 4).size == chosen.rows.size == 6
    assert "on a chosen point" in chosen.ended
    tied = np.repeat(3.0 * np.random.default_rng(1).normal(size=(6, 7)), 4, axis=0)
    for seed in range(10):  # here some distances between tied rows are rounding, not nought
        assert RULES["kmeans++"](everything(Linear(), tied), 20, seed).rows.size == 6


def naive_pruning(count, lam, start):
    kept = list(start)
    while len(kept) > count:
        K_basis, rows = K[np.ix_(kept, kept)], K[:, kept]
        u, _, _ = naive.weights(K_basis, rows, Y[:, 0], 1.0 / lam)
        values, vectors = np.linalg.eigh(K_basis)
        inside = values > len(kept) * np.finfo(float).eps * values[-1]
        beta = vectors[:, inside] @ (u / np.sqrt(values[inside]))
        leaving = min(max(1, int(0.05 * len(kept))), len(kept) - count)
        kept = [kept[i] for i in np.sort(np.argsort(np.abs(beta), kind="stable")[leaving:])]
    return kept


def test_pruning_drops_the_smallest_coefficients_of_a_fit_to_all_rows():
    """:place [Cawley2002]_ section 2, backward elimination: against refits."""
    # a narrow kernel: beta is known to all digits, so the order is
    far = np.flatnonzero(X[:, 0] > 0.3)  # candidates whose mean is not that of all rows
    for start, count in ((EVERY, 45), (EVERY, 15), *((far, count) for count in range(2, far.size, 2))):
        found = RULES["pruned"](Candidates(KernelTiles(KERNEL, X), start, EVERY), count, 0).rows
        assert_array_equal(np.sort(found), naive_pruning(count, 0.1, start))


def test_pruning_works_from_fewer_candidates_than_rows():
    some = EVERY[::3]
    chosen = RULES["pruned"](Candidates(KernelTiles(KERNEL, X), some, EVERY), 5, 0)
    assert set(chosen.rows) <= set(some)
    assert "20 candidates down to 5" in chosen.ended


def test_a_block_that_cannot_fit_is_refused_before_it_is_allocated():
    with memory_limit(1000.0), pytest.raises(DataError, match=r"60 x 60 block.*n_candidates"):
        select_feature_vectors(everything(), 5)


def test_reconstruction_errors_are_squared_distances_from_the_span():
    """:equation [Cawley2004]_ (4): with the linear kernel features are the points, and the span can be projected on."""
    points = np.random.default_rng(3).normal(size=(20, 5))
    kernel, chosen = Linear(), [2, 7, 11]
    features = basis_features(kernel(points[chosen]))
    found = reconstruction_errors(kernel(points, points[chosen]), kernel.diag(points), features)
    projected = np.linalg.lstsq(points[chosen].T, points.T, rcond=None)[0].T @ points[chosen]
    expected = np.sum((points - projected) ** 2, axis=1) / np.sum(points**2, axis=1)
    assert_allclose(found, expected, atol=1e-12)
    assert expected.max() > 0.5


def test_features_of_a_greedy_basis_span_what_they_say():
    rows = select_feature_vectors(everything(), 20).rows
    Z = K[:, rows] @ basis_features(K[np.ix_(rows, rows)]).transform
    assert_allclose(1.0 - np.square(Z).sum(axis=1).mean(), naive.reconstruction(K, list(rows)), atol=1e-8)
