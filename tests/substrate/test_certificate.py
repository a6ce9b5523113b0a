"""The report: a conjunction of rows, a table, and no way to change it afterwards."""

import math

import pytest

from substrate.certificate import Certificate, Row

GOOD = Row("fit", 1e-12, 1.0, 1e-6, "||y - f - e||")
BAD = Row("a longer name", 2.0, 1.0, 1e-6, "|1'alpha|")
UNKNOWN = Row("gap", math.nan, 1.0, 1e-6, "p - d")


@pytest.mark.parametrize(
    ("rows", "holds"),
    [
        ((GOOD,), True),
        ((GOOD, GOOD), True),
        ((GOOD, BAD), False),
        ((BAD, GOOD), False),
        ((UNKNOWN,), False),
        ((), False),
    ],
)
def test_a_certificate_holds_when_it_has_rows_and_all_pass(rows, holds):
    certificate = Certificate("title", rows)
    assert certificate.holds is holds
    assert certificate.failures == tuple(row for row in rows if row is not GOOD)


def test_rows_are_found_by_name_and_a_missing_one_lists_the_present():
    certificate = Certificate("title", (GOOD, BAD))
    assert certificate["fit"] is GOOD
    with pytest.raises(KeyError, match=r"no row named 'gap'; this certificate has \['fit', 'a longer name'\]"):
        certificate["gap"]


def test_the_table_is_aligned_and_tells_the_verdict():
    text = str(Certificate("LS-SVM", (GOOD, BAD, UNKNOWN), (("kernel", "RBF(sigma=1.0)"),)))
    lines = text.split("\n")
    assert lines[0] == "LS-SVM: DOES NOT HOLD; no bound on the answer"
    assert lines[1].split() == ["check", "residual", "scale", "relative", "tolerance", "pass", "formula"]
    assert set(lines[2]) == {"-"}
    assert lines[3].split()[-4:] == ["||y", "-", "f", "-", "e||"][-4:]
    start = lines[1].index("formula")
    assert [line[start:] for line in lines[3:6]] == ["||y - f - e||", "|1'alpha|", "p - d"]
    assert [line[:start].split()[-1] for line in lines[3:6]] == ["yes", "NO", "NO"]
    assert lines[5].split()[1:4] == ["nan", "1.00e+00", "inf"]
    assert lines[6] == "kernel: RBF(sigma=1.0)"
    assert str(Certificate("LS-SVM", (GOOD,))).startswith("LS-SVM: holds; no bound on the answer\n")
