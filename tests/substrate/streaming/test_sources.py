"""Rows are the same whatever holds them, and a fault is named with its file and rows."""

import pickle

import numpy as np
import pytest
from array_homes import HOMES, assert_close, sender

from substrate.errors import DataError
from substrate.namespaces import HOST, where_it_lives
from substrate.streaming.array_source import ArraySource, CodedSource, numbers
from substrate.streaming.source import LEAF, MICRO, streams
from substrate.streaming.sources import source_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

# pandas deprecates what Dask's dataframes do inside
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

N = LEAF + MICRO + 5
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 3))
Y = RNG.normal(size=N)
NAMES = ("u", "v", "w")


def table(rows=X, y=Y, **more):
    return pa.table({**dict(zip(NAMES, rows.T, strict=True)), "y": y, **more})


@pytest.fixture
def made(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "single.npy", X.astype(np.float32))
    np.save(tmp_path / "y.npy", Y)
    pq.write_table(table(), tmp_path / "rows.parquet", row_group_size=3001)
    (tmp_path / "folder").mkdir()
    for k, start in enumerate(range(0, N, 9000)):
        pq.write_table(table().slice(start, 9000), tmp_path / "folder" / f"part{k}.parquet")
    return tmp_path


def sources(folder):
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    blocks = [(X[k : k + 777], Y[k : k + 777]) for k in range(0, N, 777)]
    mapped = [np.load(folder / name, mmap_mode="r") for name in ("X.npy", "y.npy")]
    from substrate.streaming.sources import NpySource

    return {
        "npy": source_of(folder / "X.npy", folder / "y.npy"),
        "mapped": NpySource.from_memory_map(*mapped),
        "parquet": source_of(str(folder / "rows.parquet"), "y"),
        "folder": source_of(folder / "folder", "y"),
        "list": source_of(blocks),
        "function": source_of(lambda: iter(blocks)),
        "dask array": source_of(da.from_array(X, chunks=(1000, 2)), da.from_array(Y, chunks=999)),
        "dask frame": source_of(dd.read_parquet(folder / "rows.parquet"), "y"),
    }


def test_every_source_has_the_same_rows(made):
    wanted = np.array([0, 5, MICRO, LEAF - 1, LEAF, N - 1])
    for name, source in sources(made).items():
        assert (source.n_rows, source.n_features) == (N, 3), name
        for start, stop, step in [(0, N, MICRO), (LEAF, N, 2 * MICRO), (MICRO, LEAF, LEAF)]:
            blocks = list(source.blocks(start, stop, step))
            assert [block.start for block in blocks] == list(range(start, stop, step)), name
            assert np.array_equal(np.concatenate([block.X for block in blocks]), X[start:stop]), name
            assert np.array_equal(np.concatenate([block.Y for block in blocks]), Y[start:stop]), name
        assert np.array_equal(source.take_rows(wanted), X[wanted]), name


def test_a_source_that_is_read_says_so(made):
    for name, source in sources(made).items():
        assert (source.home, source.block_in_memory) == (HOST, None), name
        assert source.beside(X) is X, name
        with pytest.raises(DataError, match=r"a proof needs all rows, and .* is read in passes"):
            source.whole("a proof needs all rows")
    paths = {name: source.files for name, source in sources(made).items()}
    assert paths["npy"] == paths["mapped"] == (str(made / "X.npy"), str(made / "y.npy"))
    assert (paths["parquet"], paths["list"]) == ((str(made / "rows.parquet"),), ())
    assert CodedSource(sources(made)["npy"], numbers).files == paths["npy"]


@pytest.mark.parametrize("home", HOMES)
def test_arrays_say_where_they_are(home):
    send = sender(home)
    here, there = ArraySource(X, Y), ArraySource(send(X), send(Y))
    assert (here.home, there.home) == (HOST, where_it_lives(send(X)))
    for source in (here, there):
        assert source.whole("all rows").X is source.X
        assert source.block_in_memory.Y is source.Y
    assert here.beside(X) is X
    assert_close(there.beside(X[:4]), X[:4])
    assert_close(there.take_rows(np.array([0, 7, N - 1])), X[[0, 7, N - 1]])


def test_what_is_sent_to_workers_is_small(made):
    for name in ("npy", "mapped", "parquet", "folder"):
        assert len(pickle.dumps(sources(made)[name])) < 5000, name


def test_a_part_of_a_mapped_file_is_that_part(made):
    from substrate.streaming.sources import NpySource

    part = np.load(made / "X.npy", mmap_mode="r")[100:5000]
    (block,) = NpySource.from_memory_map(part, None).blocks(0, 4900, LEAF)
    assert np.array_equal(block.X, X[100:5000])


def test_single_precision_is_read_as_it_is(made):
    (block,) = source_of(made / "single.npy").blocks(0, MICRO, MICRO)
    assert block.X.dtype == np.float64
    assert np.array_equal(block.X, X[:MICRO].astype(np.float32).astype(np.float64))


def test_arrays_and_rows_are_not_streams():
    for plain in (X, X.tolist(), [[1.0, 2.0]], None, ArraySource(X, Y).X):
        assert not streams(plain)
    assert not streams([(1.0, 2.0), (3.0, 4.0)]), "a list of pairs of numbers is a matrix"
    assert streams([(X, Y)])
    assert streams("rows.parquet")


def swept(source):
    return list(source.blocks(0, source.n_rows, MICRO))


def test_a_matrix_that_ends_early(made):
    content = (made / "X.npy").read_bytes()
    (made / "X.npy").write_bytes(content[:-100])
    with pytest.raises(DataError, match=rf"X\.npy ends early: its header announces {N} rows, it holds {N - 5}"):
        source_of(made / "X.npy")


def test_a_matrix_that_is_cut_while_it_is_read(made):
    source = source_of(made / "X.npy")
    content = (made / "X.npy").read_bytes()
    (made / "X.npy").write_bytes(content[:-100])
    with pytest.raises(DataError, match=rf"X\.npy ends early: row {N - 5} is missing"):
        swept(source)


def test_a_table_that_ends_early(made):
    content = (made / "rows.parquet").read_bytes()
    (made / "rows.parquet").write_bytes(content[:-50])
    with pytest.raises(DataError, match=r"rows\.parquet is not a Parquet file, or is damaged or ends early"):
        source_of(made / "rows.parquet", "y")


def test_a_table_whose_pages_are_damaged(made):
    pq.write_table(table(), made / "rows.parquet", write_page_checksum=True)
    source = source_of(made / "rows.parquet", "y")
    assert len(swept(source)) == 6
    content = bytearray((made / "rows.parquet").read_bytes())
    content[200:4000] = b"\x00" * 3800
    (made / "rows.parquet").write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"rows\.parquet, rows 0 to \d+"):
        swept(source)


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
    rows = damaged(MICRO + 7, 1, value)
    np.save(made / "X.npy", rows)
    pq.write_table(table(rows), made / "rows.parquet")
    for source, name in [(source_of(made / "X.npy"), "X.npy"), (source_of(made / "rows.parquet", "y"), "rows.parquet")]:
        with pytest.raises(DataError, match=rf"{name}, rows {MICRO} to {2 * MICRO - 1}: .* row {MICRO + 7}, column 1"):
            swept(source)
    with pytest.raises(DataError, match=rf"first in row {MICRO + 7}, column 1"):
        source_of([(rows[:9000], Y[:9000])])


def test_a_target_that_is_no_number_is_named(made):
    y = Y.copy()
    y[123] = np.nan
    np.save(made / "y.npy", y)
    with pytest.raises(DataError, match=r"X\.npy, rows 0 to 4095: the target has no finite value, first in row 123"):
        swept(source_of(made / "X.npy", made / "y.npy"))
    pq.write_table(table().append_column("c", pa.array([None, *["a"] * (N - 1)])), made / "rows.parquet")
    with pytest.raises(DataError, match=r"rows\.parquet.*first in row 0"):
        swept(source_of(made / "rows.parquet", "c"))


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


def test_blocks_that_are_gone_after_one_pass_are_refused():
    with pytest.raises(DataError, match="only once"):
        source_of(iter([(X, Y)]))


def test_files_of_a_wrong_kind_are_named(made):
    np.save(made / "columns.npy", np.asfortranarray(X))
    np.save(made / "text.npy", X.astype(str))
    np.save(made / "flat.npy", Y)
    np.save(made / "none.npy", X[:0])
    np.save(made / "short.npy", Y[:-1])
    (made / "empty").mkdir()
    (made / "a.csv").write_text("u,v\n", encoding="utf-8")
    (made / "broken.npy").write_bytes(b"not an array")
    pq.write_table(table(), made / "folder" / "z.parquet")
    pq.write_table(table().drop(["w"]), made / "folder" / "zz.parquet")
    pq.write_table(table().append_column("t", pa.array(["a"] * N)), made / "text.parquet")
    pq.write_table(table().slice(0, 0), made / "none.parquet")
    for name, y, words in [
        ("columns.npy", None, "stored by columns"),
        ("text.npy", None, "real numbers are needed"),
        ("flat.npy", None, "must hold a 2-D array"),
        ("none.npy", None, "is empty"),
        ("X.npy", made / "short.npy", "targets"),
        ("X.npy", Y, "need targets there"),
        ("broken.npy", None, r"broken\.npy is not a .npy file"),
        ("missing.npy", None, "there is no file"),
        ("missing.parquet", "y", "there is no file"),
        ("missing", "y", "there is no file"),
        ("empty", "y", "holds no Parquet file"),
        ("a.csv", "y", "neither a .npy file nor Parquet"),
        ("folder", "y", r"zz\.parquet has no column 'w'"),
        ("rows.parquet", "z", "has no column 'z'; it has u, v, w, y"),
        ("text.parquet", "y", r"column 't' of .*text\.parquet is of type string"),
        ("none.parquet", "y", "holds no rows"),
    ]:
        with pytest.raises(DataError, match=words):
            source_of(made / name, y)


def test_dask_collections_of_a_wrong_kind_are_named(made):
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    rows = da.from_array(X, chunks=5000)
    for X_, y, words in [
        (rows, Y, "need targets in one"),
        (rows, da.from_array(Y[:-1], chunks=99), "one target per row"),
        (rows[:, 0], None, "must be 2-D"),
        (rows[:0], None, "holds no rows"),
        (dd.read_parquet(made / "rows.parquet"), "z", "has no column 'z'"),
    ]:
        with pytest.raises(DataError, match=words):
            source_of(X_, y)
    with pytest.raises(DataError, match="row 3, column 2"):
        swept(source_of(da.from_array(damaged(3, 2, np.nan), chunks=5000)))
