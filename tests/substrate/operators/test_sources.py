"""Rows are the same whatever holds them, and a fault is named with its rows."""

import numpy as np
import pandas as pd
import pytest

from substrate.errors import DataError
from substrate.operators.sources import BLOCK_ROWS, SlicedSource, source_of

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

# pandas deprecates what Dask's dataframes do inside
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

N = 3 * BLOCK_ROWS + 5
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 3))
Y = RNG.normal(size=N)
NAMES = ("u", "v", "w")


@pytest.fixture
def made(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    return tmp_path


def mapped(folder, *names):
    return [np.load(folder / name, mmap_mode="r") for name in names]


def frame():
    return dd.from_pandas(pd.DataFrame({**dict(zip(NAMES, X.T, strict=True)), "y": Y}), npartitions=7)


def sources(folder):
    blocks = [(X[k : k + 777], Y[k : k + 777]) for k in range(0, N, 777)]
    return {
        "mapped": SlicedSource.of_arrays(*mapped(folder, "X.npy", "y.npy")),
        "list": source_of(blocks),
        "function": source_of(lambda: iter(blocks)),
        "dask array": source_of(da.from_array(X, chunks=(1000, 2)), da.from_array(Y, chunks=999)),
        "dask frame": source_of(frame(), "y"),
    }


def test_every_source_has_the_same_rows(made):
    wanted = np.array([0, 5, BLOCK_ROWS - 1, BLOCK_ROWS, N - 1])
    for name, source in sources(made).items():
        assert (source.n_rows, source.n_features) == (N, 3), name
        blocks = list(source.blocks())
        assert [block.start for block in blocks] == list(range(0, N, BLOCK_ROWS)), name
        assert np.array_equal(np.concatenate([block.X for block in blocks]), X), name
        assert np.array_equal(np.concatenate([block.Y for block in blocks]), Y), name
        assert np.array_equal(source.take_rows(wanted), X[wanted]), name


def swept(source):
    return list(source.blocks())


def test_blocks_that_end_early_when_gone_through_again():
    rows = [(X[:5000], Y[:5000]), (X[5000:9000], Y[5000:9000])]
    source = source_of(rows)
    rows.pop()
    with pytest.raises(DataError, match="the row blocks ends early: row 5000 is missing, 9000 rows were announced"):
        swept(source)


def damaged(row, column, value):
    rows = X.copy()
    rows[row, column] = value
    return rows


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_named(made, value):
    rows = damaged(BLOCK_ROWS + 7, 1, value)
    np.save(made / "X.npy", rows)
    with pytest.raises(
        DataError, match=rf"X\.npy, rows {BLOCK_ROWS} to {2 * BLOCK_ROWS - 1}: .* row {BLOCK_ROWS + 7}, column 1"
    ):
        swept(SlicedSource.of_arrays(*mapped(made, "X.npy"), None))
    with pytest.raises(DataError, match=rf"first in row {BLOCK_ROWS + 7}, column 1"):
        source_of([(rows[:9000], Y[:9000])])


def test_a_target_that_is_no_number_is_named(made):
    y = Y.copy()
    y[123] = np.nan
    np.save(made / "y.npy", y)
    with pytest.raises(DataError, match=r"X\.npy, rows 0 to 4095: the target has no finite value, first in row 123"):
        swept(SlicedSource.of_arrays(*mapped(made, "X.npy", "y.npy")))
    labels = da.from_array(np.array([None, *["a"] * (N - 1)], dtype=object), chunks=N)
    with pytest.raises(DataError, match=r"the Dask collection.*first in row 0"):
        swept(source_of(da.from_array(X, chunks=N), labels))


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([(X[:10], Y[:10]), (X[10:20, :2], Y[10:20])], "rows 10 to 19: 2 columns where 3 are expected"),
        ([(X[:10], Y[:10]), (X[:0], Y[:0])], "at row 10: the block is empty"),
        ([(X[:10], Y[:10]), (X[10:20].astype(str), Y[10:20])], "row.* 10.*text"),
        ([(X[:10], Y[:9])], r"rows 0 to 9: targets of shape \(9,\) for 10 rows"),
        ([(X[:10], Y[:10]), (X[10:20].astype("M8[s]"), Y[10:20])], "dates"),
        ([(X[:10] + 1j, Y[:10])], "rows 0 to 9: .*complex128"),
        ([], "hold no rows"),
    ],
)
def test_blocks_of_a_wrong_kind_are_named(blocks, words):
    with pytest.raises(DataError, match=words):
        source_of(lambda: blocks)


def test_dask_collections_of_a_wrong_kind_are_named():
    rows = da.from_array(X, chunks=5000)
    for X_, y, words in [
        (rows, Y, "need targets in one"),
        (rows, da.from_array(Y[:-1], chunks=99), "one target per row"),
        (rows[:, 0], None, "must be 2-D"),
        (rows[:0], None, "holds no rows"),
        (frame(), "z", "has no column 'z'"),
    ]:
        with pytest.raises(DataError, match=words):
            source_of(X_, y)
    with pytest.raises(DataError, match="row 3, column 2"):
        swept(source_of(da.from_array(damaged(3, 2, np.nan), chunks=5000)))
