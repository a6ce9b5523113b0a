"""The map of the tests names every folder; what they take is measured by a command and by no test."""

from pathlib import Path

import pytest

from tests.times import (
    FILES,
    FOLDERS,
    HEADING,
    LONG,
    PAGE,
    ROOT,
    TURNS,
    files_of,
    find_long_tests,
    main,
    make_page,
    read_long_tests,
    read_rows,
)

OLD = PAGE.read_text(encoding="utf-8")
TIMES = {
    "tests/docs": {
        "shared": 2.0,
        "tests": {
            "tests/docs/test_x.py::test_long": (4, 99.0),
            "tests/docs/test_x.py::test_short": (1, LONG / 2),
            "tests/docs/test_y.py::test_both": (1, 0.4),
        },
    }
}


def test_every_folder_with_tests_is_named():
    found = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    assert found == set(FOLDERS)
    assert all(files_of(folder) for folder in FOLDERS)


def test_the_page_is_what_the_command_writes():
    assert make_page({}, OLD) == OLD, "run python tests/times.py --write"
    assert "?" not in {cell for row in read_rows(OLD, HEADING).values() for cell in row}


def test_a_folder_that_is_measured_leaves_the_others():
    page = make_page(TIMES, OLD, ["tests/docs/test_x.py::test_long"])
    before, after = read_rows(OLD, HEADING), read_rows(page, HEADING)
    assert after["tests/docs"][2:] == [f"{4 // TURNS + 2}", f"{2 + 99 / TURNS + LONG / 2 + 0.4:.0f}"]
    assert [name for name in FOLDERS if after[name] != before[name]] == ["tests/docs"]
    assert next(iter(read_rows(page, FILES))) == "tests/docs/test_x.py"


def test_long_tests_are_those_measured_and_those_of_other_folders_as_they_were():
    old = ["tests/docs/test_x.py::test_short", "tests/benchmarks/test_z.py::test_z"]
    assert find_long_tests(TIMES, old) == [
        "tests/benchmarks/test_z.py::test_z",
        "tests/docs/test_x.py::test_long",
        "tests/docs/test_y.py::test_both",
    ]
    always = {"tests": {"shared": 0.0, "tests": {"tests/test_readme.py::test_x": (1, 9.0)}}}
    assert find_long_tests(always) == []


def test_every_long_test_is_there():
    for name in read_long_tests():
        file, _, test = name.partition("::")
        *classes, function = test.split("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {function}(" in text, f"{name}: run python tests/times.py {Path(file).parent} --write"
        assert all(f"class {one}" in text for one in classes)


def test_a_folder_without_tests_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["tests/oracles"])
    assert "no folders with tests: tests/oracles" in capsys.readouterr().err
