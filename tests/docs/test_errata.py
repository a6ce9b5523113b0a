"""Every erratum is demonstrated: its printed statement fails, the corrected one holds, and the page lists them all."""

import re

import errata
import pytest
from demonstrations.shown import Shown
from docstring_fields import ROOT
from errata import FILES, PAGE, entries, page, remarks

ENTRIES = entries()


def test_there_are_entries_of_every_paper():
    assert len(ENTRIES) >= 45
    keys = {place.key for entry in ENTRIES for place in entry.places}
    assert keys == {"Cawley2002", "Carvalho2006", "Pelckmans2005", "Cawley2004", "Suykens2002"}
    folder = {path.stem for path in (ROOT / "docs" / "demonstrations").glob("*.py")}
    assert folder - set(FILES) == {"__init__", "shown"}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.function)
def test_the_printed_statement_fails_and_the_corrected_one_holds(entry):
    shown = entry.run()
    assert shown.is_demonstrated, shown
    assert shown.measure


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.function)
def test_an_entry_says_where_what_is_printed_and_what_holds(entry):
    assert entry.title.endswith(".")
    assert entry.holds
    assert all(place.text for place in entry.places)


def test_every_public_function_of_a_demonstration_is_an_entry():
    for module in FILES:
        exported = __import__(f"demonstrations.{module}", fromlist=["__all__"]).__all__
        assert {entry.function for entry in ENTRIES if entry.module == module} == set(exported)


def test_the_page_is_what_the_docstrings_say():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python docs/errata.py --write"
    assert errata.DEMONSTRATIONS_PAGE.read_text(encoding="utf-8") == errata.demonstrations_page()
    linked = re.findall(r"\(demonstrations\.md#(demonstration-\d+)\)", page())
    assert len(linked) == len(ENTRIES)
    assert all(f'<a id="{anchor}"></a>' in errata.demonstrations_page() for anchor in linked)
    assert len(remarks("typography")) >= 6
    assert all("`python " in field.text for field in remarks("benchmark"))


def test_a_slip_needs_both_sides():
    assert Shown("", 1.0, 0.0).is_demonstrated
    assert not Shown("", 1e-9, 0.0).is_demonstrated, "the printed statement is true as well"
    assert not Shown("", 1.0, 1e-3).is_demonstrated, "the corrected statement is false as well"
    assert not Shown("", float("nan"), 0.0).is_demonstrated
    assert not Shown("", 1.0, float("nan")).is_demonstrated
    assert Shown("", 0.0, 0.0, slip=False).is_demonstrated
    assert not Shown("", 1.0, 0.0, slip=False).is_demonstrated
