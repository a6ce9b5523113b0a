"""The scripts of examples/reproductions: one runs end to end; every study has a record and a part of the page."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "reproductions"


@pytest.fixture(scope="module")
def run():
    sys.path.insert(0, str(FOLDER))
    try:
        import run
    finally:
        sys.path.pop(0)
    return run


def test_a_study_measures_what_its_record_has(run, tmp_path, capsys):
    run.main(["suykens2002-motorcycle", "--seeds", "1", "--out", str(tmp_path)])
    assert "weighted LS-SVM, region of outliers: " in capsys.readouterr().out
    found, recorded = (
        json.loads((folder / "suykens2002-motorcycle.json").read_text(encoding="utf-8"))
        for folder in (tmp_path, FOLDER / "records")
    )
    assert {name: values[0] for name, values in found["numbers"].items()} == pytest.approx(
        {name: values[0] for name, values in recorded["numbers"].items()}, rel=1e-3
    )


def test_every_study_has_a_record_a_picture_and_a_part_of_the_page(run):
    page = (ROOT / "docs" / "reproductions.md").read_text(encoding="utf-8")
    assert {path.stem for path in (FOLDER / "records").glob("*.json")} == set(run.STUDIES)
    for name, (_, seeds, printed) in run.STUDIES.items():
        record = json.loads((FOLDER / "records" / f"{name}.json").read_text(encoding="utf-8"))
        assert (record["study"], record["seeds"]) == (name, seeds)
        assert set(printed) <= set(record["numbers"])
        assert f"## {name}\n" in page
        assert f"(reproductions/{name}.png)" in page
        assert (ROOT / "docs" / "reproductions" / f"{name}.png").exists()


def test_a_study_that_is_not_there_is_refused_with_the_names(run, capsys):
    with pytest.raises(SystemExit):
        run.main(["pelckmans2006"])
    assert "pelckmans2005-table-1" in capsys.readouterr().err
