"""Selected sets along exact paths: those of independent solves at any rho, with crossings inside of segments."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from substrate.fits.coordinates import decoupled_coordinates, shared_coordinates
from substrate.fits.path_bounds import variation_fold
from substrate.fits.paths import l1_path
from substrate.fits.selected_sets import merge_sets, select_along_path, supports_along_paths
from substrate.fits.variation import solve_maximal_variation
from substrate.kernels import RBF


def case(expansion="shared", n=24, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)
    matrices = [RBF(1.0)(X[:, [column]]) for column in range(d)]
    make = shared_coordinates if expansion == "shared" else decoupled_coordinates
    coordinates = make(matrices, True, 1e-3, 0.0 if expansion == "shared" else 0.1)
    none = coordinates.rows_at([np.zeros((0, n)) for _ in range(d)])
    return coordinates, y, variation_fold(coordinates, y, none, np.zeros(0))


def cell_of(sets, rho):
    return int(np.searchsorted(sets.edges, rho, side="right")) - 1


@pytest.mark.parametrize("expansion", ["shared", "decoupled"])
@pytest.mark.parametrize("relevance", [0.0, 0.05, 0.4])
def test_the_selected_set_is_that_of_an_independent_solve(expansion, relevance):
    """:place [Pelckmans2005]_ end of section 3.1: structure is detected, then a classical model predicts"""
    coordinates, y, fold = case(expansion)
    sets = select_along_path([fold], relevance)
    assert sets.edges[0] == 0.0
    assert np.isinf(sets.edges[-1])
    top = float(fold.path.values[-1])
    for rho in np.geomspace(1e-3 * top, 1.2 * top, 9):
        cell = cell_of(sets, rho)
        t = solve_maximal_variation(coordinates, y, float(rho)).maximal_variation
        expected = t > relevance * t.max()
        if relevance == 0.0 and expansion == "shared":
            continue  # no component vanishes alone, and rounding decides what is zero
        assert_array_equal(sets.masks[cell, 0], expected)
    assert not sets.masks[-1].any()  # all components have vanished there


def test_crossings_are_found_inside_of_segments():
    _, _, fold = case()
    sets = select_along_path([fold], 0.05)
    knots = fold.path.values
    inner = sets.edges[(sets.edges > 0.0) & (sets.edges < 0.9 * knots[-1])]
    nearest = np.abs(inner[:, None] - knots).min(axis=1)
    assert (nearest > 1e-6 * inner).sum() >= 3
    for edge in inner[nearest > 1e-6 * inner]:  # one component is at the threshold there, up to what is undecided
        k = int(np.searchsorted(knots, edge)) - 1
        share = (edge - knots[k]) / (knots[k + 1] - knots[k])
        levels = fold.levels
        t = (1.0 - share) * levels[k] + share * levels[k + 1]
        assert np.abs(t - 0.05 * t.max()).min() < 1e-3 * t.max()


def test_rounds_are_merged_by_their_cells():
    folds = [case(seed=seed)[2] for seed in range(2)]
    each = [select_along_path([fold], 0.05) for fold in folds]
    merged = merge_sets(each)
    for rho in np.geomspace(1e-2, 2.0 * merged.edges[-2], 30):
        place = cell_of(merged, rho)
        for number, sets in enumerate(each):
            assert_array_equal(merged.masks[place, number], sets.masks[cell_of(sets, rho), 0])


def test_machines_of_a_round_select_together():
    folds = [case(seed=seed)[2] for seed in range(2)]
    sets = select_along_path(folds, 0.1)
    for rho in np.geomspace(1e-2, 1.0, 12):
        t = np.array([[np.interp(rho, f.path.values, column) for column in f.levels.T] for f in folds])
        cell = cell_of(sets, rho)
        assert_array_equal(sets.masks[cell, 0], t.max(axis=0) > 0.1 * t.max())


def test_supports_are_those_of_points_of_the_path():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(15, 1))
    y = np.sin(3.0 * X[:, 0]) + 0.2 * rng.standard_normal(15)
    path = l1_path(RBF(0.3)(X), y)
    sets = supports_along_paths([path])
    assert len(sets) > 3
    for cell in range(len(sets)):
        at = sets.value_inside(cell)
        assert_array_equal(sets.masks[cell, 0], path.at(at).primal != 0.0)
    assert not sets.masks[-1].any()
    both = merge_sets([sets, supports_along_paths([l1_path(RBF(0.3)(X[:9]), y[:9])])])  # fewer rows: padded
    assert both.masks.shape[1:] == (2, 15)
    assert not both.masks[:, 1, 9:].any()
