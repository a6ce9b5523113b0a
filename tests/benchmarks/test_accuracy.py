"""The figures of the benchmark of accuracy, from errors that are made up."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.accuracy import KERNEL_PEERS, METHODS, ONE, STACK, Cells, Comparison, Figures, main, tabulate
from benchmarks.accuracy_sets import EmbeddedSets
from benchmarks.accuracy_tables import PublicTables

SETS = ("motorcycle", "iris")
COMPARISON = Comparison(EmbeddedSets(), SETS, 2)


def made_up(errors, comparison=COMPARISON):
    """The same error in every split, one second each, for the methods that a set has."""
    cells = {cell: (errors.get((cell[0], cell[2]), 1.0), 1.0) for cell in comparison.cells()}
    return Figures(comparison, cells)


@pytest.fixture
def folder(tmp_path):
    """Two tables, one of them with 2,100 rows to fit, and splits of an embedded one and of a missing one."""
    for name, n in (("small", 12), ("large", 2110)):
        rows = np.random.default_rng(n).normal(size=(n, 3)).round(3)
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="x1,x2,y", comments="")
    splits = {"small": [[0, 3], [1, 2]], "large": [list(range(10))] * 3, "boston": [[5, 6]] * 2, "absent": [[0]]}
    (tmp_path / "splits.json").write_text(json.dumps(splits), encoding="utf-8")
    return tmp_path


def test_equal_errors_share_their_places_and_a_place_among_fewer_counts_as_much():
    ranks = made_up({("motorcycle", STACK): 0.5, ("iris", "SVM"): 0.5}).ranks((STACK, *KERNEL_PEERS))
    # motorcycle: ours first, the three others share places 2 to 4; iris has no kernel ridge: 1 and twice 2.5 of three
    assert_allclose(ranks[STACK], (1.0 + 1.0 + 1.5 * 1.5) / 2.0)
    assert_allclose(ranks["kernel ridge"], 3.0)
    assert_allclose(ranks["SVM"], (3.0 + 1.0) / 2.0)
    rounded = made_up({("motorcycle", STACK): 1.0 + 1e-13})
    assert_allclose(rounded.ranks((STACK, *KERNEL_PEERS))[STACK], (2.5 + (1.0 + 1.5)) / 2.0)


def test_one_machine_is_ranked_in_the_place_of_the_stack():
    ranks = made_up({("motorcycle", STACK): 0.5, ("motorcycle", ONE): 2.0}).ranks_of_ours(KERNEL_PEERS)
    iris = 2.5  # all alike, of a place among three
    assert_allclose([ranks[STACK], ranks[ONE]], [(1.0 + iris) / 2.0, (4.0 + iris) / 2.0])
    assert_allclose(ranks["SVM"], (3.0 + iris) / 2.0)  # behind the stack, whatever one machine does


def test_wrong_rows_are_counted_over_all_splits_and_half_a_row_is_added():
    rows = COMPARISON.shape("iris")[2]
    errors = {("iris", ONE): 0.0, ("iris", "always each"): 1.0 / rows, ("motorcycle", "always shared"): 4.0}
    ratios = made_up(errors).ratios(ONE)
    assert_allclose(ratios["always each"], np.sqrt(2.5 / 0.5))  # two wrong rows of both splits against none
    assert_allclose(ratios["always shared"], np.sqrt(4.0 * (2.0 * rows + 0.5) / 0.5))
    assert ratios[ONE] == 1.0


def test_sums_of_pairs_are_where_the_inputs_are_few():
    assert "sums" not in COMPARISON.methods_of("motorcycle")  # one input
    assert "sums" in COMPARISON.methods_of("iris")
    assert "sums" not in COMPARISON.methods_of("wine")
    assert set(COMPARISON.methods_of("iris")) <= set(METHODS)


def test_finished_cells_are_kept_and_a_broken_line_is_measured_again(tmp_path):
    file, sets = tmp_path / "cells.jsonl", EmbeddedSets()
    cell = ("iris", 0, ONE)
    Cells(file, sets).add(cell, (0.25, 1.5))
    with file.open("a", encoding="utf-8") as more:
        more.write('{"code": "interr')
    assert Cells(file, sets).get(cell) == pytest.approx((0.25, 1.5))
    assert Cells(file, sets).get(("iris", 1, ONE)) is None


def test_public_tables_have_the_printed_rows_standardised_by_those_that_train(folder):
    tables = PublicTables(str(folder))
    assert tables.names == ("small", "boston", "large")
    assert tables.n_splits == 2
    split = tables.split_of("small", 1)
    rows = np.loadtxt(folder / "small.csv", delimiter=",", skiprows=1)
    assert_allclose(split.y_test, rows[[1, 2], 2])
    assert_allclose(split.y, np.delete(rows[:, 2], [1, 2]))
    assert_allclose(split.X.mean(axis=0), 0.0, atol=1e-14)
    assert_allclose(split.X.std(axis=0), 1.0)
    assert tables.split_of("boston", 0).X.shape == (504, 13)


def test_cells_of_other_rows_are_measured_again(folder, tmp_path):
    file, cell = tmp_path / "cells.jsonl", ("small", 0, ONE)
    Cells(file, PublicTables(str(folder))).add(cell, (0.25, 1.5))
    assert Cells(file, PublicTables(str(folder))).get(cell) is not None
    rows = np.loadtxt(folder / "small.csv", delimiter=",", skiprows=1)
    np.savetxt(folder / "small.csv", rows + 1.0, delimiter=",", header="x1,x2,y", comments="")
    assert Cells(file, PublicTables(str(folder))).get(cell) is None


def test_above_2000_rows_the_sparse_search_and_peers_on_drawn_rows(folder, monkeypatch):
    comparison = Comparison(PublicTables(str(folder)), ("small", "large"), 1)
    assert STACK in comparison.methods_of("small")
    large = comparison.methods_of("large")
    assert set(large) & {STACK, ONE, "RBF"} == {ONE}
    assert type(large[ONE](3)).__name__ == "SparseLSSVMRegressorCV"
    seen = []

    class Counted:
        def fit(self, X, y):
            seen.append(X.shape[0])
            return self

        def predict(self, X):
            return np.zeros(X.shape[0])

    monkeypatch.setattr("benchmarks.accuracy.NUMBERS", {"linear": lambda d: Counted()})
    comparison.measure(("large", 0, "linear"))
    comparison.measure(("small", 0, "linear"))
    assert seen == [2000, 10]


def test_targets_are_stated_of_the_methods_that_were_measured():
    whole = tabulate(made_up({("motorcycle", STACK): 1.1}))
    assert [headline.is_met for headline in whole.summary if headline.work.startswith("error of the stack")] == [False]
    assert any(sentence.startswith("error of the stack") for sentence in whole.shortfalls)
    some = Comparison(EmbeddedSets(), SETS, 1, ("SVM", "linear"))
    assert tabulate(made_up({}, some)).summary == ()


def test_the_command_line_measures_once_and_refuses_unknown_sets(folder, monkeypatch, capsys):
    monkeypatch.setenv("SUBSTRATE_BENCHMARK_CELLS", str(folder / "cells.jsonl"))
    asked = ["--tables", str(folder), "--sets", "small", "--splits", "2", "--methods", "linear", "--jobs", "1"]
    assert main(asked) == 0
    assert "| small | 10 x 2 |" in capsys.readouterr().out
    kept = (folder / "cells.jsonl").read_text(encoding="utf-8")
    assert len(kept.splitlines()) == 2
    assert main(asked) == 0
    assert (folder / "cells.jsonl").read_text(encoding="utf-8") == kept
    with pytest.raises(SystemExit):
        main(["--tables", str(folder), "--sets", "absent"])
    assert "known are small, boston, large" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"splits\.json is missing"):
        main(["--tables", str(folder / "nowhere")])
