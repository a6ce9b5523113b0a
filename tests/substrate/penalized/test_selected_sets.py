"""Selected sets along exact paths: those of independent solves at any rho, with crossings inside of segments."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from substrate.compilation import run_interpreted
from substrate.kernels import RBF
from substrate.penalized.homotopy.homotopies import l1_path
from substrate.penalized.homotopy.selected_sets import (
    SelectedSets,
    _intervals,
    _LevelBounds,
    merge_sets,
    select_along_path,
    supports_along_paths,
)
from substrate.penalized.homotopy.tracks import VariationFold
from substrate.penalized.variation.active_rows import solve_maximal_variation
from substrate.penalized.variation.component_coordinates import decoupled_coordinates, shared_coordinates


@pytest.fixture(autouse=True)
def _plain_numpy():
    """The compiled twin has its own test; here its compilation would be most of the time."""
    with run_interpreted():
        yield


def case(expansion="shared", n=24, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)
    matrices = [RBF(1.0)(X[:, [column]]) for column in range(d)]
    make = shared_coordinates if expansion == "shared" else decoupled_coordinates
    coordinates = make(matrices, True, 1e-3, 0.0 if expansion == "shared" else 0.1)
    none = coordinates.rows_at([np.zeros((0, n)) for _ in range(d)])
    return coordinates, y, VariationFold.of(coordinates, y, none, np.zeros(0))


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
    top, seen = float(fold.path.values[-1]), 0
    for rho in np.geomspace(1e-3 * top, 1.2 * top, 9):
        cell = cell_of(sets, rho)
        t = solve_maximal_variation(coordinates, y, float(rho)).maximal_variation
        expected = t > relevance * t.max()
        if relevance == 0.0 and expansion == "shared":
            continue  # no component vanishes alone, and rounding decides what is zero
        inside, perhaps = sets.certain[cell, 0], sets.possible[cell, 0]
        assert (inside <= expected).all()
        assert (expected <= perhaps).all()
        seen += bool(sets.is_decided[cell])
    assert seen >= 7 or (relevance == 0.0 and expansion == "shared")
    assert not sets.certain[-1].any()  # all components have vanished there


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
        levels = fold.knots.variations()
        t = (1.0 - share) * levels[k] + share * levels[k + 1]
        assert np.abs(t - 0.05 * t.max()).min() < 1e-3 * t.max()


@pytest.mark.parametrize("expansion", ["shared", "decoupled"])
def test_levels_are_within_their_margins_also_where_knots_are_left_out(expansion):
    coordinates, y, fold = case(expansion)
    path = fold.path
    kept = np.unique(np.append(np.arange(0, len(path), 3), len(path) - 1))
    rows = (np.array([part[k] for k in kept]) for part in (path.primal, path.dual))
    primal, dual = rows
    coarse = replace(path, values=path.values[kept], primal=primal, dual=dual, bias=path.bias[kept])
    knots = type(fold.knots).of(
        fold.knots.B, fold.knots.target, coarse, np.zeros((0, fold.knots.target.size)), np.zeros(0)
    )
    bounds, widest = _LevelBounds.of(knots), 0.0
    for k in range(1, len(kept) - 1, max(1, len(kept) // 12)):
        rho = 0.5 * (coarse.values[k] + coarse.values[k + 1])
        margins = bounds.margins_from(np.array([k]), coarse.values[[k]])[0]
        t = 0.5 * (knots.variations()[k] + knots.variations()[k + 1])
        exact = solve_maximal_variation(coordinates, y, float(rho)).maximal_variation
        assert (np.abs(t - exact) <= margins + 1e-9 * exact.max()).all()
        widest = max(widest, float(np.abs(t - exact).max() / max(exact.max(), 1e-3)))
    assert widest > 1e-6  # chords over knots do leave the path


def test_undecided_components_are_enumerated():
    certain = np.array([[[True, False, False]], [[True, False, False]]])
    possible = np.array([[[True, True, True]], [[True, False, False]]])
    sets = SelectedSets(np.array([0.0, 1.0, np.inf]), certain, possible, np.ones(2, dtype=bool))
    assert set(sets.sets_of(0)) == {((0,),), ((0, 1),), ((0, 2),), ((0, 1, 2),)}
    assert list(sets.sets_of(1)) == [((0,),)]
    assert_array_equal(sets.is_decided, [False, True])
    assert sets.join(~sets.is_decided) == ((0.0, 1.0),)
    assert 0.0 < sets.value_inside(0) < 1.0 < sets.value_inside(1) < np.inf
    many = np.zeros((1, 1, 9), dtype=bool)
    assert not SelectedSets(np.array([0.0, 1.0]), many, ~many, np.ones(1, dtype=bool)).is_enumerated.any()
    uncovered = SelectedSets(np.array([0.0, 1.0]), many, many, np.zeros(1, dtype=bool))
    assert not uncovered.is_decided.any()


def test_rounds_are_merged_by_their_cells():
    folds = [case(seed=seed)[2] for seed in range(2)]
    each = [select_along_path([fold], 0.05) for fold in folds]
    merged = merge_sets(each)
    for rho in np.geomspace(1e-2, 2.0 * merged.edges[-2], 30):
        place = cell_of(merged, rho)
        for number, sets in enumerate(each):
            assert_array_equal(merged.certain[place, number], sets.certain[cell_of(sets, rho), 0])


def test_machines_of_a_round_select_together():
    folds = [case(seed=seed)[2] for seed in range(2)]
    sets = select_along_path(folds, 0.1)
    for rho in np.geomspace(1e-2, 1.0, 12):
        t = np.array([[np.interp(rho, f.path.values, column) for column in f.knots.variations().T] for f in folds])
        cell = cell_of(sets, rho)
        if sets.is_decided[cell]:
            assert_array_equal(sets.certain[cell, 0], t.max(axis=0) > 0.1 * t.max())


def test_supports_are_those_of_points_of_the_path():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(15, 1))
    y = np.sin(3.0 * X[:, 0]) + 0.2 * rng.standard_normal(15)
    path = l1_path(RBF(0.3)(X), y)
    sets = supports_along_paths([path])
    assert len(sets) > 3
    for cell in range(len(sets)):
        at = sets.value_inside(cell)
        assert_array_equal(sets.certain[cell, 0], path.at(at).primal != 0.0)
    assert not sets.certain[-1].any()
    both = merge_sets([sets, supports_along_paths([l1_path(RBF(0.3)(X[:9]), y[:9])])])  # fewer rows: padded
    assert both.certain.shape[1:] == (2, 15)
    assert not both.certain[:, 1, 9:].any()


def test_a_level_within_its_margin_of_the_threshold_is_selected_perhaps():
    """Levels 1, 0.5 and 0.1 of which the second may be on either side of half of the largest."""
    levels, zeros = np.array([[1.0, 0.5, 0.1]]), np.zeros((1, 3), dtype=bool)
    for margin, perhaps in ((0.2, [True, True, False]), (0.45, [True, True, True])):
        low, high, low_perhaps, high_perhaps = _intervals(levels, levels, np.full((1, 3), margin), zeros, 0.5)
        assert_array_equal(low_perhaps < high_perhaps, [perhaps])
        assert_array_equal((low < high)[:, 1:], [[False, False]])
    low, high, *_ = _intervals(levels, levels, np.zeros((1, 3)), zeros, 0.4)
    assert_array_equal(low < high, [[True, True, False]])
