"""Numbers as people write them: every reading is the right one, or the table is refused with all readings shown."""

import ast
import csv
import re

import numpy as np
import pytest
from treated_tables import treated

from problems import load
from problems.command_line.main import main
from problems.command_line.words import in_shell
from problems.tables.table import Table
from substrate.errors import DataError


def written(value, decimals, mark=".", thousands="", before="", after=""):
    """A number as a program writes it, by the formatting of Python alone."""
    text = f"{abs(value):,.{decimals}f}".translate(str.maketrans({",": thousands, ".": mark}))
    return f"{'-' if value < 0 else ''}{before}{text}{after}"


#: How numbers are written, by name: decimal mark, thousands, and signs before and behind.
WAYS = {
    "plain": (".", ""),
    "decimal comma": (",", ""),
    "commas and point": (".", ","),
    "points and comma": (",", "."),
    "spaces": (".", " "),
    "spaces and comma": (",", " "),
    "no-break spaces": (",", "\u00a0"),
    "narrow no-break spaces": (",", "\u202f"),
    "thin spaces": (".", "\u2009"),
    "apostrophes": (".", "'"),
    "curly apostrophes": (".", "\u2019"),
    "percent": (".", "", "", "%"),
    "percent of Europe": (",", ".", "", "\u00a0%"),
    "dollars": (".", ",", "$"),
    "Brazilian real": (",", ".", "R$ "),
    "euros": (",", ".", "", " \u20ac"),
    "pounds": (".", ",", "\u00a3"),
    "euros by their code": (",", ".", "EUR "),
    "francs by their code": (".", "'", "CHF "),
}
#: Columns of numbers: how many decimals, and the numbers.
KINDS = {
    "whole": (0, lambda rng: np.round(10.0 ** rng.uniform(0.0, 4.5, 40))),
    "small and large": (0, lambda rng: np.array([365.0, 1777.0, 12.0, 24310.0])),
    "millions": (0, lambda rng: np.round(10.0 ** rng.uniform(5.0, 8.0, 40))),
    "prices": (2, lambda rng: np.round(10.0 ** rng.uniform(0.0, 5.0, 40), 2)),
    "thousandths": (3, lambda rng: np.round(1.0 + 10.0 ** rng.uniform(0.0, 2.0, 40), 3)),
    "shares": (3, lambda rng: np.round(rng.uniform(0.0, 1.0, 40), 3)),
    "signed": (1, lambda rng: np.round(1e4 * rng.normal(size=40), 1)),
}


def cells_of(way, kind, seed=0):
    decimals, make = KINDS[kind]
    values = make(np.random.default_rng(seed))
    return values, [written(value, decimals, *WAYS[way]) for value in values]


def read(cells, decimal=None, thousands=None, **others):
    """The numbers that a fit would take from a column, or the refusal."""
    table = Table("t.csv", {"u": tuple(cells), **others}, decimal=decimal, thousands=thousands)
    form = table.number_format("u")
    return None if form is None else np.array([form.number(cell) for cell in cells])


def advice_of(message):
    """The options that a message names, each with the number that it says they give, if it does."""
    marks = r"('[^']*'|\"[^\"]*\"|\S+?)"
    found = re.findall(rf"--(decimal|thousands) {marks}[;,]?(?: if it is (-?[\d.]+\d))?(?=[\s;,]|$)", message)
    return [(option, mark.strip("'") or "'", float(value) if value else None) for option, mark, value in found]


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.covering
def test_a_column_is_read_rightly_or_refused_and_no_advice_makes_it_wrong(way, kind, seed):
    """Of advice that names a number, the one with the right number is followed; other advice is followed always."""
    values, cells = cells_of(way, kind, seed)
    try:
        np.testing.assert_array_equal(read(cells), values)
        return
    except DataError as error:
        message = in_shell(str(error))
    cell = ast.literal_eval(re.search(r" has ('[^']*'|\"[^\"]*\")", message)[1])
    place = cells.index(cell)
    shown = [float(number) for number in re.findall(r"if it is (-?[\d.]+\d)", message)]
    assert values[place] in shown, "the right reading is among those shown"
    assert len(set(shown)) == 2, "and both are"
    obeyed = 0
    for option, mark, number in advice_of(message):
        if number in (None, values[place]):
            obeyed += 1
            try:
                np.testing.assert_array_equal(read(cells, **{option: mark}), values)
            except DataError:
                assert number is None
    assert obeyed


def test_most_ways_need_no_advice():
    """Refused are whole numbers below a million with commas or points, and nothing but three decimals behind commas."""
    for way, (mark, thousands, *_) in WAYS.items():
        for kind in KINDS:
            values, cells = cells_of(way, kind)
            twofold = kind in ("whole", "small and large") and thousands in (",", ".")
            twofold |= kind == "thousandths" and mark == ","
            if not twofold:
                np.testing.assert_array_equal(read(cells), values)


def test_thousands_next_to_small_numbers_are_refused_with_both_readings():
    with pytest.raises(DataError) as caught:
        read(["1,777", "365"])
    said = str(caught.value)
    assert "'1,777' next to '365', where the comma can be decimal or separate thousands" in said
    assert "give thousands=',' if it is 1777; if it is 1.777, write 1.7770 in the file" in said
    assert "--decimal" not in said
    np.testing.assert_array_equal(read(["1,777", "365"], thousands=","), [1777.0, 365.0])
    with pytest.raises(DataError, match="next to '365'"):
        read(["1,777", "365"], decimal=",")


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,777", "365", "1,234,567"], [1777, 365, 1234567]),
        (["1,777", "365", "12.5"], [1777, 365, 12.5]),
        (["1,777", "365", "0,5"], [1.777, 365, 0.5]),
        (["1.777", "365", "2.095,13"], [1777, 365, 2095.13]),
        (["12,34,567", "1,777"], [1234567, 1777]),
        (["5%", "12.5 %", "0"], [5, 12.5, 0]),
        (["-$5", "$-1,777.5", "$ 3"], [-5, -1777.5, 3]),
        (["\u22125", "+3"], [-5, 3]),
        (["1,777.", ".5"], [1777, 0.5]),
    ],
)
def test_one_cell_decides_for_its_column(cells, values):
    np.testing.assert_array_equal(read(cells), values)


def test_points_are_decimal_unless_something_speaks_against_it():
    np.testing.assert_array_equal(read(["1.777", "2.5", "365"]), [1.777, 2.5, 365])
    np.testing.assert_array_equal(read(["1.7770", "365"]), [1.777, 365])
    np.testing.assert_array_equal(read(["1.777", "36.520"]), [1.777, 36.52])
    np.testing.assert_array_equal(read(["1.777", "365"], a=("2.095,13", "1")), [1777, 365])
    np.testing.assert_array_equal(read(["1.777", "365"], decimal="."), [1.777, 365])
    with pytest.raises(DataError, match=r"'1.777' next to '365', where the point can be .*thousands='.' if it is 1777"):
        read(["1.777", "365"])
    for cells, values in ((["1.777", "365"], [1777, 365]), (["1.777", "36.520"], [1777, 36520])):
        np.testing.assert_array_equal(read(cells, a=("0,5", "1")), values)  # the comma is decimal there
    with pytest.raises(DataError, match=r"where the point can be decimal"):
        read(["1.777", "365"], decimal=",")
    np.testing.assert_array_equal(read(["1.777", "365"], thousands="."), [1777, 365])
    with pytest.raises(DataError, match=r"is not a number with the given decimal and thousands marks"):
        read(["1.5", "365"], thousands=".")


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["9 kg", "12.5 kg", "0"], [9, 12.5, 0]),
        (["45,5 m\u00b2", "1.045,5 m\u00b2"], [45.5, 1045.5]),
        (["-3\u00b0C", "4\u00b0C"], [-3, 4]),
        (["1e3 km/h", "5 km/h"], [1000, 5]),
    ],
    ids=str,
)
def test_letters_behind_all_numbers_are_their_unit(cells, values):
    np.testing.assert_array_equal(read(cells), values)


@pytest.mark.parametrize(
    "cells", [["5%", "0.05"], ["$5", "\u20ac5"], ["$5", "7"], ["1 234", "1,234.5"], ["1'234", "1 234"]], ids=str
)
def test_different_ways_in_one_column_are_refused(cells):
    with pytest.raises(DataError, match="written in different ways; write all of them in the same way"):
        read(cells)


def rows(n=30, seed=0):
    rng = np.random.default_rng(seed)
    u = np.round(10.0 ** rng.uniform(1.5, 5.0, n), 2)
    u[:2] = 365.25, 1777.75
    return u, np.round(np.log(u), 4)


def write_table(path, delimiter=",", **columns):
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return str(path)


def predictions(capsys, *arguments):
    """The predictions, or None where they are refused."""
    capsys.readouterr()
    if main(["predict", *map(str, arguments)]) != 0:
        return None
    return [float(line) for line in capsys.readouterr().out.split()[1:]]


TABLES = [
    "plain",
    "decimal comma",
    "commas and point",
    "points and comma",
    "no-break spaces",
    "apostrophes",
    "percent",
    "dollars",
    "euros",
]


@pytest.mark.parametrize("way", ["commas and point", "points and comma", "percent"])
def test_predictions_of_tables_in_other_ways_are_right_or_refused(tmp_path, capsys, way):
    """A model reads numbers as its fit did; no table is read in another way without a word."""
    u, y = rows()
    delimiter = "," if WAYS[way][0] == "." else ";"
    table = write_table(tmp_path / "t.csv", delimiter, u=[written(x, 2, *WAYS[way]) for x in u], y=y)
    model = tmp_path / "m.npz"
    line = ["fit", table, "--target", "y", "--gamma", "100", "--sigma", "1", "--kernel", "rbf", "--out", str(model)]
    assert main([*line, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    own = load(model)
    expected = own.estimator_.predict(own.preparation_.scale(u[:, None]))
    for other in TABLES:
        for decimals, few in ((2, u[:4]), (0, np.array([365.0, 1777.0])), (0, np.array([1777.0]))):
            cells = [written(x, decimals, *WAYS[other]) for x in few]
            right = own.estimator_.predict(own.preparation_.scale(few[:, None]))
            new = write_table(tmp_path / "new.csv", delimiter, u=cells, y=[0.0] * len(cells))
            found = predictions(capsys, model, new)
            if found is None:
                message = capsys.readouterr().err
                assert other != way, message
                for option, mark, number in advice_of(message):
                    if number in (None, *few):
                        obeyed = predictions(capsys, model, new, f"--{option}", mark)
                        assert obeyed is None or np.allclose(obeyed, right, rtol=0.0, atol=1e-5), (message, other)
            else:
                np.testing.assert_allclose(found, right, rtol=0.0, atol=1e-5)
    np.testing.assert_allclose(predictions(capsys, model, table), expected, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.covering
def test_numbers_are_never_called_a_name_or_a_category(way, kind):
    _, cells = cells_of(way, kind)
    for some in (cells, [*cells[:-1], "n/a"], [*cells, "about 5"]):
        table = Table(
            "t.csv", {"u": tuple(some), "v": tuple(map(str, range(len(some)))), "y": tuple(map(str, range(len(some))))}
        )
        try:
            found = treated(table, "y", "regression", impute="drop")
        except DataError:
            continue
        assert not any("left out: u" in line for line in found.remarks)
        assert all(one.categories is None for one in found.inputs)
