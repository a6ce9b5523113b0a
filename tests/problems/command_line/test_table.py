"""Tables: what is read, and what is refused, by name and row."""

import inspect
import sys
from datetime import date

import pytest

from problems import TabularRegressor
from problems.command_line.main import main
from problems.tables.table import number, read_table
from substrate import datasets
from substrate.errors import DataError


def write(tmp_path, text, name="data.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def test_cells_are_read_as_written(tmp_path):
    table = read_table(write(tmp_path, 'a,"b, c"\n1,x\n\n2.5,"y\nz"\n'))
    assert table.columns == {"a": ("1", "2.5"), "b, c": ("x", "y\nz")}
    assert table.n_rows == 2


def test_a_name_that_is_there_twice_gets_a_number_and_can_be_left_out(tmp_path):
    path = write(tmp_path, "x,x,y,x,y\n" + "".join(f"{k},{k % 3},{k % 5}.5,{k * k},{k % 5}.5\n" for k in range(20)))
    table = read_table(path)
    assert list(table.columns) == ["x", "x.1", "y", "x.2", "y.1"]
    assert table.remarks == ("header: names that are there twice became x.1, x.2, y.1 (drop=['y.1'] leaves one out)",)
    model = TabularRegressor(kernel="rbf", gamma=1.0, sigma=1.0, drop=["x.1"]).fit(path, "y")
    assert [entry.name for entry in model.preparation_.inputs] == ["x", "x.2"]
    assert "left out: y.1, the same as the target" in model.remarks_


def test_a_byte_order_mark_and_other_delimiters_are_no_part_of_a_name(tmp_path):
    table = read_table(write(tmp_path, "a;b\r\n1;2\r\n", encoding="utf-8-sig"), ";")
    assert list(table.columns) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('"a, b";c\n"1, 2";3\n', {"a, b": ("1, 2",), "c": ("3",)}),
        ("a;b\r1,5;2\r", {"a": ("1,5",), "b": ("2",)}),
        ('\n"x\ny"|b\n1|","\n', {"x\ny": ("1",), "b": (",",)}),
        ("\ta\n0\t1,5\n1\t2\n", {"Unnamed: 0": ("0", "1"), "a": ("1,5", "2")}),
    ],
)
def test_the_first_line_shows_the_separator_outside_quotes(tmp_path, text, columns):
    table = read_table(write(tmp_path, text))
    assert table.columns == columns
    assert table.remarks[0].startswith("separator: the cells are separated by")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; the first line must name the columns"),
        ("a,b\n", "no rows below its first line"),
        ('"größe, cm";b\n1;2;3\n', "Expected 2 fields in line 2, saw 3"),
        ("a,\n1,2\n", "without a name"),
        ("1,2\n3,4\n", "numbers only; put the names"),
        ("a,b\n1,2\n3\n4,5,6\n", "not a CSV file: Expected 2 fields in line 4, saw 3"),
        ("a,b\n1,2\n3\n4,5\n6\n", r"rows 2, 4 of .* have fewer cells than the header, which names 2 columns"),
        ('a,b\n1,"2\n', "not a CSV file: .*quotes must be closed"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_table(write(tmp_path, text))


@pytest.mark.parametrize(
    ("encoding", "remark"),
    [
        ("cp1252", "encoding: cp1252 (Windows), line 1 is not UTF-8 (encoding=..., if not)"),
        ("utf-16", "encoding: utf-16, by its byte order mark"),
        ("utf-16-le", "encoding: utf-16-le, since every other byte is zero (encoding=..., if not)"),
        ("utf-16-be", "encoding: utf-16-be, since every other byte is zero (encoding=..., if not)"),
        ("utf-32", "encoding: utf-32, by its byte order mark"),
        ("utf-8-sig", None),
        ("utf-8", None),
    ],
)
def test_encodings_are_recognised_and_said(tmp_path, encoding, remark):
    text = "gr\u00f6\u00dfe,stra\u00dfe\n1,\u201eAm Tor\u201c\n2,Ufer\n"
    table = read_table(write(tmp_path, text, encoding=encoding))
    assert table.columns == {"gr\u00f6\u00dfe": ("1", "2"), "stra\u00dfe": ("\u201eAm Tor\u201c", "Ufer")}
    assert table.remarks == (() if remark is None else (remark,))
    assert read_table(write(tmp_path, text, encoding=encoding), encoding=encoding).columns == table.columns


def test_an_encoding_that_is_none_or_another_is_refused_in_words(tmp_path):
    path = write(tmp_path, "gr\u00f6\u00dfe,b\n1,2\n", encoding="cp1252")
    with pytest.raises(DataError, match="is not in the encoding utf-8: byte 3, 0xf6, is not valid"):
        read_table(path, encoding="utf-8")
    with pytest.raises(DataError, match="Python has no encoding='cp9'"):
        read_table(path, encoding="cp9")
    assert list(read_table(path, encoding="cp850").columns)[1] == "b"
    path.write_bytes(b"a,b\n\x81\xff,2\n")
    with pytest.raises(DataError, match=r"is not in the encoding cp1252: byte 5, 0x81, is not.*encoding="):
        read_table(path)
    path.write_bytes(b"\xff\xfea\x00,\x00b")
    with pytest.raises(DataError, match="is not in the encoding utf-16: byte"):
        read_table(path)


@pytest.mark.parametrize("name", ["data.xlsx", "data.parquet"])
def test_a_file_that_pandas_wrote_is_read_like_its_frame(tmp_path, name):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl" if name.endswith("xlsx") else "pyarrow")
    days = pandas.to_datetime(["2024-01-31", "2024-02-01", "2024-02-02"])
    frame = pandas.DataFrame({"a": [1.5, 2.0, -3.0], "when": days, "town": ["Ghent", "Paris", "Ghent"]})
    path = tmp_path / name
    (frame.to_excel if name.endswith("xlsx") else frame.to_parquet)(path, index=False)
    table = read_table(path)
    assert [float(cell) for cell in table.columns["a"]] == [1.5, 2.0, -3.0]
    assert [cell[:10] for cell in table.columns["when"]] == ["2024-01-31", "2024-02-01", "2024-02-02"]
    assert table.columns["town"] == ("Ghent", "Paris", "Ghent")
    assert (table.typed, table.dates) == ({"a"}, ("when",))


def test_spreadsheets_are_read_or_refused_in_a_sentence(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    path = write(tmp_path, "PK", "data.xlsx")
    rows = [("a", "when", "town", None), (1.5, date(2024, 1, 31), "Ghent", None), (None, None, None, None)]
    sheets = {"Sales": pandas.DataFrame([*rows, (2, date(2024, 2, 1), None, None)]), "Notes": pandas.DataFrame()}
    monkeypatch.setattr(pandas, "read_excel", lambda path, **options: sheets)
    table = read_table(path)
    assert table.columns["town"] == ("Ghent", "")
    assert [float(cell) for cell in table.columns["a"]] == [1.5, 2.0]
    assert table.columns["when"] == ("2024-01-31", "2024-02-01")
    assert (table.typed, table.dates) == ({"a"}, ("when",))
    assert table.remarks == ("sheet: 'Sales', the first of 2",)
    sheets["Sales"] = pandas.DataFrame([("a", "a"), (1, 2)])
    assert read_table(path).columns == {"a": ("1",), "a.1": ("2",)}
    sheets["Sales"] = pandas.DataFrame()
    with pytest.raises(DataError, match="no rows below its first line"):
        read_table(path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DataError, match=r"pandas, which reads .*, is missing: pip install .*\[tables\]"):
        read_table(path)


@pytest.mark.parametrize("cell", ["", "NA", " nan ", "?", "None", "N/A", "null"])
def test_missing_cells_name_their_rows(tmp_path, cell):
    rows = "\n".join(f"{cell if row % 2 else row},1" for row in range(1, 16))
    table = read_table(write(tmp_path, f"a,b\n{rows}\n"))
    assert table.name_rows(table.missing("a")) == "rows 1, 3, 5, 7, 9 and 3 more"
    assert table.missing("b") == []


def test_parquet_is_read_like_csv(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    write_table(pyarrow.table({"a": [0.1, None], "b": ["x", "y"]}), tmp_path / "data.parquet")
    table = read_table(tmp_path / "data.parquet")
    assert table.columns == {"a": ("0.1", ""), "b": ("x", "y")}


@pytest.mark.parametrize("name", datasets.__all__)
def test_an_embedded_set_goes_to_csv_and_back_exactly(tmp_path, name):
    assert main(["datasets", name, "--out", str(tmp_path / "set.csv")]) == 0
    load = getattr(datasets, name)
    table = read_table(tmp_path / "set.csv")
    X, y = load(**{"random_state": 0} if "random_state" in inspect.signature(load).parameters else {})
    *inputs, target = table.columns.values()
    assert [[float(cell) for cell in column] for column in inputs] == X.T.tolist()
    assert list(target if y.dtype.kind == "U" else map(float, target)) == y.tolist()
    assert read_table(f"@{name}").columns == table.columns


@pytest.mark.parametrize(
    ("cells", "values"),
    [(("1", " -2 "), [1.0, -2.0]), (("1", "x"), None), (("1", "inf"), None), (("1", "1_0"), None), (("1", ""), None)],
)
def test_a_column_is_numeric_when_every_cell_is_a_number(cells, values):
    read = [number(cell) for cell in cells]
    assert read == values if values else None in read
