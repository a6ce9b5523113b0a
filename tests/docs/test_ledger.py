"""The equation ledger: every equation has an owner that exists and a test, and the page is what the docstrings say."""

import importlib
import re
from functools import cache, reduce

import ledger
import pytest
from docstring_fields import ROOT, Field, fields_of, fields_under
from equations import EQUATIONS, label
from ledger import PAGE, TESTS_PAGE, Ledger


@cache
def below(folder):
    """The fields of a folder of this repository, read once."""
    return fields_under(folder)


def below_all(*folders):
    return [found for folder in folders for found in below(folder)]


@pytest.fixture(scope="module")
def sources():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ledger, "fields_under", below_all)
        return Ledger.of_the_sources()


def field(kind="equation", key="Carvalho2006", where="(1)", path="substrate/a.py", symbol="f"):
    return Field(kind, key, where, "what it states", path, symbol)


def whole():
    """Fields that own and check every equation."""
    places = [(key, label(number)) for key, numbers in EQUATIONS.items() for number in numbers]
    owners = [field(key=key, where=where) for key, where in places]
    return owners, [field(key=key, where=where, path="tests/test_a.py", symbol="test_f") for key, where in places]


# ---- this repository -----------------------------------------------------------------------------


def test_every_equation_has_an_owner_and_a_test(sources):
    assert sources.faults == []


def test_the_page_is_what_the_docstrings_say(sources):
    assert PAGE.read_text(encoding="utf-8") == sources.page(), "run python docs/ledger.py --write"
    assert TESTS_PAGE.read_text(encoding="utf-8") == sources.tests_page(), "run python docs/ledger.py --write"
    linked = set(re.findall(r"\(ledger_tests\.md#([\w-]+)\)", sources.page()))
    assert linked == set(re.findall(r'<a id="([\w-]+)">', sources.tests_page()))


def test_every_owner_can_be_imported(sources, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)  # for the examples, which are no part of the installed package
    owners = {field for fields in sources.owners.values() for field in fields}
    assert len(owners) > 60
    for owner in owners:
        module = importlib.import_module(owner.path.removesuffix(".py").replace("/", "."))
        assert reduce(getattr, filter(None, owner.symbol.split(".")), module) is not None  # a file may own, too


def test_the_papers_have_this_many_equations():
    assert {key: len(numbers) for key, numbers in EQUATIONS.items()} == {
        "Cawley2002": 4,
        "Carvalho2006": 5,
        "Pelckmans2005": 36,
        "Cawley2004": 9,
        "Suykens2002": 15,
        "Espinoza2005": 0,
        "Espinoza2005b": 0,
        "Morozov1984": 0,
        "Ivanov1976": 0,
        "Alzate2010": 0,
        "Mika1999b": 0,
        "Suykens2003": 0,
        "Barber2021": 0,
        "Breiman1996": 0,
        "Platt2000": 0,
        "SunLoader1994": 0,
        "Suykens2002b": 0,
        "Vovk2005": 0,
    }


def test_no_field_is_misspelt():
    known = {"equation", "place", "printed", "holds", "typography", "benchmark"}
    folders = ("substrate", "problems", "examples", "tests", "docs/demonstrations")
    assert {found.kind for found in below_all(*folders)} <= known
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            for line in re.findall(r"^\s*(?:\"\"\")?:(?:equation|place)\b.*", path.read_text(encoding="utf-8"), re.M):
                text = line.strip().removeprefix('"""')
                assert fields_of(text)[0].key in EQUATIONS, f"{path}: {text}"


# ---- what it refuses -----------------------------------------------------------------------------


def test_a_whole_set_has_no_faults():
    assert Ledger(*whole(), []).faults == []


@pytest.mark.parametrize("side", [0, 1])
def test_a_missing_owner_or_test_is_a_fault(side):
    given = list(whole())
    given[side] = [found for found in given[side] if (found.key, found.where) != ("Suykens2002", "(14)")]
    assert Ledger(*given, []).faults == [f"[Suykens2002] (14) has no {('owner', 'test')[side]}"]


@pytest.mark.parametrize("where", ["(6)", "(0)", "(2)-(9)", "(3)-(1)", "1", "(1) (2)", "(27a)"])
def test_an_equation_the_paper_does_not_have_is_a_fault(where):
    owners, checks = whole()
    (fault,) = Ledger([*owners, field(where=where)], checks, []).faults
    assert fault.startswith("substrate/a.py f: ")
    assert "Carvalho2006" in fault


def test_a_place_needs_both_sides():
    owners, checks = whole()
    place = field("place", "Suykens2002", "Algorithm 1")
    assert Ledger([*owners, place], checks, []).faults == ["[Suykens2002] Algorithm 1 has no test"]
