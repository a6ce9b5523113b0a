"""``substrate reproduce``: every study in a quick run, its files, its page, and what is refused before any work."""

import json
import re
from pathlib import Path

import pytest

from problems.command_line.main import main
from problems.command_line.reproduce import SCHEMA, from_json
from problems.reproductions import STUDIES
from problems.reproductions.study import Study
from substrate.errors import CertificateError

DOCS = Path(__file__).resolve().parents[3] / "docs"
KEYS = [
    "schema",
    "study",
    "paper",
    "what",
    "settings",
    "spread",
    "quick",
    "seeds",
    "cpu_seconds",
    "verdict",
    "claims",
    "notes",
    "quantities",
    "curves",
]


@pytest.fixture(autouse=True)
def _no_screen():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install matplotlib").use("Agg")


#: A quick study of each paper belongs to the ordinary run; the others differ from it in numbers only.
ONE_OF_EACH_PAPER = {
    "suykens2002-motorcycle",
    "pelckmans2005-additive",
    "cawley2002-motorcycle",
    "cawley2004-reconstruction",
    "carvalho2006-tic-tac-toe",
}
OVER_STUDIES = [pytest.param(n, marks=() if n in ONE_OF_EACH_PAPER else pytest.mark.slow) for n in STUDIES]


def test_every_paper_has_a_quick_study():
    assert {STUDIES[name].paper for name in ONE_OF_EACH_PAPER} == {study.paper for study in STUDIES.values()}


@pytest.mark.parametrize("name", OVER_STUDIES)
@pytest.mark.some_cases(2)
def test_a_quick_run_writes_a_figure_and_a_record_and_tells_both(name, tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    assert main(["reproduce", name, "--quick", "--seeds", "1", "--out", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == [f"{name}.json", f"{name}.png"]
    assert (folder / f"{name}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    text = (folder / f"{name}.json").read_text(encoding="utf-8")
    record = json.loads(text)
    assert list(record) == KEYS
    assert (record["schema"], record["study"], record["quick"], record["seeds"]) == (SCHEMA, name, True, 1)
    outcome = from_json(text, "record")
    assert outcome.verdict == record["verdict"]
    assert set(STUDIES[name].published) <= set(record["quantities"])
    told = capsys.readouterr().out
    assert f"verdict: {record['verdict']}" in told
    for printed in STUDIES[name].published.values():
        assert printed.text in told


def test_the_committed_page_is_what_the_committed_records_make(tmp_path, monkeypatch):
    monkeypatch.chdir(DOCS.parent)
    committed = (DOCS / "reproductions.md").read_text(encoding="utf-8")
    target = DOCS / "reproductions.md"
    from problems.command_line.reproduce import page_from

    assert page_from(str(DOCS / "reproductions"), str(target)) == committed
    figures = re.findall(r"\]\((reproductions/[^)]*)\)", committed)
    assert len(figures) == len(STUDIES)
    assert all((DOCS / figure).is_file() for figure in figures)


def test_a_page_is_written_beside_or_above_its_figures(tmp_path, capsys):
    name = "suykens2002-boston"
    (tmp_path / "in").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "in" / f"{name}.json").write_bytes((DOCS / "reproductions" / f"{name}.json").read_bytes())
    page = tmp_path / "page.md"
    assert main(["reproduce", "--page", str(page), "--from", str(tmp_path / "in")]) == 0
    assert f"(in/{name}.png)" in page.read_text(encoding="utf-8")
    outside = tmp_path / "elsewhere" / "page.md"
    assert main(["reproduce", "--page", str(outside), "--from", str(tmp_path / "in")]) == 2
    assert "cannot show figures" in capsys.readouterr().err
    assert not outside.exists()
    assert main(["reproduce", "--page", str(page), "--from", str(tmp_path / "elsewhere")]) == 2
    assert "holds no record" in capsys.readouterr().err


def test_the_list_names_every_study(capsys):
    assert main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(STUDIES)


# ---- what is refused, and what is kept -----------------------------------------------------------


@pytest.fixture
def no_work(monkeypatch):
    def run(self, seeds, quick, progress):
        raise AssertionError("work was begun")

    monkeypatch.setattr(Study, "run", run)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "no study or paper named nosuch; `substrate reproduce --list`"),
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--out", "{file}"], "is a file; name a folder"),
        (["--out", "{file}/below"], "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_work(arguments, message, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("kept", encoding="utf-8")
    out = ["--out", str(tmp_path / "out")] if "--out" not in arguments else []
    assert main(["reproduce", *[a.format(file=file) for a in arguments], *out]) == 2
    assert message in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == "kept"


@pytest.mark.usefixtures("no_work")
def test_a_missing_matplotlib_is_refused_before_any_work(tmp_path, capsys, monkeypatch):
    def missing():
        raise ImportError("no module named matplotlib")

    monkeypatch.setattr("problems.command_line.reproduce.pyplot", missing)
    assert main(["reproduce", "--quick", "--out", str(tmp_path)]) == 2
    assert "pip install 'lssvm-substrate[plot]'" in capsys.readouterr().err


def stop_at(monkeypatch, name, error):
    run = Study.run

    def interrupted(self, seeds, quick, progress):
        if self.name == name:
            raise error
        return run(self, seeds, quick, progress)

    monkeypatch.setattr(Study, "run", interrupted)


def test_an_interrupted_run_keeps_what_is_finished(tmp_path, capsys, monkeypatch):
    stop_at(monkeypatch, "suykens2002-boston", KeyboardInterrupt())
    quick = ["--quick", "--seeds", "1", "--out", str(tmp_path)]
    assert main(["reproduce", "suykens2002-motorcycle", "suykens2002-boston", "suykens2002-pruning", *quick]) == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"suykens2002-motorcycle.{end}" for end in ("json", "png")
    ]
    assert "interrupted" in capsys.readouterr().err


def test_a_certificate_that_fails_is_told_and_the_others_go_on(tmp_path, capsys, monkeypatch):
    stop_at(monkeypatch, "suykens2002-motorcycle", CertificateError("the certificate does not hold: stationarity"))
    quick = ["--quick", "--seeds", "1", "--out", str(tmp_path)]
    assert main(["reproduce", "suykens2002-motorcycle", "suykens2002-boston", *quick]) == 1
    assert "suykens2002-motorcycle: the certificate does not hold" in capsys.readouterr().err
    assert (tmp_path / "suykens2002-boston.json").is_file()


def test_a_paper_stands_for_its_studies():
    from problems.command_line.reproduce import chosen_studies

    assert [study.name for study in chosen_studies(["Cawley2004"])] == [
        "cawley2004-timing",
        "cawley2004-reconstruction",
    ]
    assert len(chosen_studies([])) == len(STUDIES)
