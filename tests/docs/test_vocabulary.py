"""The table of the vocabulary: it is what the classes are, and what an estimator lacks has a reason."""

import inspect

import pytest
from vocabulary import METHODS, PAGE, Vocabulary

import problems


@pytest.fixture(scope="module")
def table():
    return Vocabulary.of_the_package()


def test_every_estimator_is_there_and_what_it_lacks_has_a_reason(table):
    assert table.faults == []
    assert set(table.cells) == set(problems.ESTIMATORS)
    assert all(cells.keys() == METHODS.keys() and all(cells.values()) for cells in table.cells.values())


def test_the_page_is_what_the_classes_are(table):
    assert PAGE.read_text(encoding="utf-8") == table.page(), "run python docs/vocabulary.py --write"


@pytest.mark.parametrize("name", sorted(problems.ESTIMATORS))
def test_methods_have_one_signature(name):
    kind = getattr(problems, name)
    certify = list(inspect.signature(kind.certify).parameters)
    assert certify[:4] == ["self", "X", "y", "sample_weight"]
    if hasattr(kind, "leave_one_out"):
        found = inspect.signature(kind.leave_one_out).parameters
        assert list(found) == ["self", "X", "y", "sample_weight"]
        assert all(found[name].default is None for name in ("X", "y", "sample_weight"))


class Bare:
    """No estimator."""

    def fit(self, X, y):
        pass


class Nothing:
    """An estimator with nothing but what every one has."""

    def fit(self, X, y):
        pass

    predict = score = save = certify = prove = calibrate = fit


def test_a_method_without_a_reason_is_a_fault_and_a_reason_without_need_too():
    bare = Vocabulary({"Nothing": Nothing}, ())
    assert "Nothing has no leave_one_out, and no reason is given" in bare.faults
    idle = Vocabulary({"Nothing": Nothing}, (("certify", ("Nothing",), "why"), ("prove", ("Nobody",), "why")))
    assert "Nothing has certify and reason 1 says why not" in idle.faults
    assert "a reason for prove of Nobody, which does not exist" in idle.faults
    assert Vocabulary({"Bare": Bare}, ()).faults[0] == "Bare has no predict"
