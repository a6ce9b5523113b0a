"""How times become rows of the table, and the page that is made of the records."""

import pytest

from benchmarks.__main__ import FOLDER, main, page_of, write_record
from benchmarks.measure import Row, compare, interleave


def test_contenders_take_turns_and_the_first_round_is_not_counted():
    order = []
    seconds = interleave({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, clock=lambda: 0.0)
    assert order[:4] == ["a", "b", "b", "a"]
    assert len(seconds["a"]) == len(seconds["b"]) == 15
    assert len(order) == 32


def test_a_long_round_is_the_only_one():
    ticks = iter(range(0, 1000, 30))
    assert interleave({"a": lambda: None}, clock=lambda: next(ticks)) == {"a": [30]}


def test_a_least_ratio_is_of_the_peers_time_and_a_largest_one_of_ours():
    seconds = {"now": 0.0}

    def take(duration):
        return lambda: seconds.update(now=seconds["now"] + duration)

    contenders, clock = ("fit", take(1.0), "peer", take(3.0)), lambda: seconds["now"]
    assert compare(*contenders, least=2.0, clock=clock) == Row("fit", "peer", 3.0, least=2.0, low=3.0, high=3.0)
    assert compare(*contenders, most=2.0, times=2.0, clock=clock).figure == 1.0 / 6.0
    assert not compare(*contenders, least=2.0, times=0.5, clock=clock).is_met
    assert Row("fit", "peer", 3.0).cells() == ("fit", "peer", "3", "", "")


def test_the_page_is_what_the_records_say():
    assert (FOLDER / "RESULTS.md").read_text(encoding="utf-8") == page_of(), "python -m benchmarks --write makes it"


def test_a_topic_replaces_its_own_rows(tmp_path):
    write_record("fits", [Row("dense", "peer", 1.0, least=2.0)], tmp_path)
    write_record("imports", [Row("import", "seconds", 0.1, most=0.3)], tmp_path)
    write_record("fits", [Row("dense", "peer", 3.0, least=2.0, low=2.5, high=3.5)], tmp_path)
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "| dense | peer | 3 (2.5 to 3.5) | ≥ 2 | yes |" in page
    assert "| import | seconds | 0.1 | ≤ 0.3 | yes |" in page
    assert "2 of 2 rows" in page


def test_an_unknown_topic_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["absent"])
    assert "known are fits" in capsys.readouterr().err
