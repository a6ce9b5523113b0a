"""Text that a spreadsheet would evaluate is marked as text, numbers are numbers, and labels stay distinct."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.tables.predictions import csv_text, safe_cells

FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "\uff1d1+1",
    "-",
    "+1-1",
    "=",
    "-1_0",
]
PLAIN = ["yes", "a=b", "1-2", "-1.5", "+3", "-1e-9", "-.5", "", "'quoted'", "it's", " =1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_has_an_apostrophe_before_it(text):
    assert safe_cells([text]) == [f"'{text}"]


@pytest.mark.parametrize("text", PLAIN)
def test_other_text_is_as_it_was(text):
    assert safe_cells([text]) == [text]


@given(st.lists(st.text("'=+-@\t\r1ab.", max_size=6), min_size=2, max_size=2, unique=True))
def test_different_labels_stay_different_and_one_apostrophe_leads_back(labels):
    cells = safe_cells(labels)
    assert cells[0] != cells[1]
    assert all(cell == label or cell == f"'{label}" for cell, label in zip(cells, labels, strict=True))


@pytest.mark.parametrize("values", [[-1.5, 2.0], [-1, 3], [True, False]])
def test_numbers_stay_numbers(values):
    assert csv_text({"x": values}).split() == ["x", *map(str, values)]
