"""The map of the tests names every folder; what they take is measured by a command and by no test."""

import pytest

from tests.times import FILES, FOLDERS, HEADING, PAGE, ROOT, files_of, main, make_page, read_rows

OLD = PAGE.read_text(encoding="utf-8")
TIMES = {"tests/docs": {"shared": 2.0, "files": {"tests/docs/test_x.py": (3, 99.0), "tests/docs/test_y.py": (1, 0.5)}}}


def test_every_folder_with_tests_is_named():
    found = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    assert found == set(FOLDERS)
    assert all(files_of(folder) for folder in FOLDERS)


def test_the_page_is_what_the_command_writes():
    assert make_page({}, OLD) == OLD, "run python tests/times.py --write"
    assert "?" not in {cell for row in read_rows(OLD, HEADING).values() for cell in row}


def test_a_folder_that_is_measured_leaves_the_others():
    page = make_page(TIMES, OLD)
    before, after = read_rows(OLD, HEADING), read_rows(page, HEADING)
    assert after["tests/docs"][2:] == ["4", "102"]
    assert [name for name in FOLDERS if after[name] != before[name]] == ["tests/docs"]
    assert next(iter(read_rows(page, FILES))) == "tests/docs/test_x.py"


def test_a_folder_without_tests_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["tests/oracles"])
    assert "no folders with tests: tests/oracles" in capsys.readouterr().err
