"""The figures of the benchmark of accuracy, from errors that are made up."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.accuracy import KERNEL_METHODS, METHODS, Cells, _methods, _ranks, _ratios, _shape

SETS = ("motorcycle", "iris")


def made_up(errors, splits=2):
    """The same error in every split, one second each, for the methods that a set has."""
    return {
        (name, seed, method): (errors.get((name, method), 1.0), 1.0)
        for name in SETS
        for seed in range(splits)
        for method in _methods(name)
    }


def test_equal_errors_share_their_places_and_a_place_among_fewer_counts_as_much():
    found = made_up({("motorcycle", "ours"): 0.5, ("iris", "SVM"): 0.5})
    ranks = _ranks(found, SETS, 2, KERNEL_METHODS)
    # motorcycle: ours first, the three others share places 2 to 4; iris has no kernel ridge: 1 and twice 2.5 of three
    assert_allclose(ranks["ours"], (1.0 + 1.0 + 1.5 * 1.5) / 2.0)
    assert_allclose(ranks["kernel ridge"], 3.0)
    assert_allclose(ranks["SVM"], (3.0 + 1.0) / 2.0)
    rounded = made_up({("motorcycle", "ours"): 1.0 + 1e-13})
    assert_allclose(_ranks(rounded, SETS, 2, KERNEL_METHODS)["ours"], (2.5 + (1.0 + 1.5)) / 2.0)


def test_wrong_rows_are_counted_over_all_splits_and_half_a_row_is_added():
    rows = _shape("iris")[2]
    found = made_up({("iris", "ours"): 0.0, ("iris", "always each"): 1.0 / rows, ("motorcycle", "always shared"): 4.0})
    ratios = _ratios(found, SETS, 2)
    assert_allclose(ratios["always each"], np.sqrt(2.5 / 0.5))  # two wrong rows of both splits against none
    assert_allclose(ratios["always shared"], np.sqrt(4.0 * (2.0 * rows + 0.5) / 0.5))
    assert ratios["ours"] == 1.0


def test_sums_of_pairs_are_where_the_inputs_are_few():
    assert "sums" not in _methods("motorcycle")  # one input
    assert "sums" in _methods("iris")
    assert "sums" not in _methods("wine")
    assert set(_methods("iris")) <= set(METHODS)


def test_finished_cells_are_kept_and_a_broken_line_is_measured_again(tmp_path):
    file = tmp_path / "cells.jsonl"
    cell = ("iris", 0, "ours")
    Cells(file).add(cell, (0.25, 1.5))
    with file.open("a", encoding="utf-8") as more:
        more.write('{"code": "interr')
    assert Cells(file).get(cell) == pytest.approx((0.25, 1.5))
    assert Cells(file).get(("iris", 1, "ours")) is None
