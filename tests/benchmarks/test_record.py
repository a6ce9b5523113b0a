"""The record of benchmarks: what a run writes, keeps and resumes. No figure is measured here."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """The command with three topics and a folder of its own; the benchmarks are no part of the installed package."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # importing them sets these; this gives back what was there
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import __main__ as command
    from benchmarks import record
    from benchmarks.table import Headline, Table

    calls: list[str] = []

    def topic(name: str) -> Callable[[bool], Any]:
        def run(quick: bool) -> Any:
            calls.append(name)
            line = Headline(f"{name} work", "peer", 3.0, least=2.0, limit=1.1)
            return Table(name.title(), "Note.", ("what", "met"), (("one", "yes"), ("two", "no")), summary=(line,))

        return run

    known = {name: topic(name) for name in ("first", "second", "third")}
    monkeypatch.setattr(command, "topics", lambda: known)
    monkeypatch.setattr(command, "Record", SimpleNamespace(read=lambda name: record.Record.read("here", tmp_path)))
    monkeypatch.setattr(command, "Progress", lambda machine, **k: record.Progress(machine, folder=tmp_path, **k))
    return SimpleNamespace(
        main=command.main, known=known, calls=calls, folder=tmp_path, record=record, Headline=Headline, Table=Table
    )


def stored(bench: SimpleNamespace) -> Any:
    return bench.record.Record.read("here", bench.folder)


def test_a_full_run_writes_every_section_and_the_summary_first(bench: SimpleNamespace) -> None:
    assert bench.main([]) == 0
    page = (bench.folder / "RESULTS-here.md").read_text(encoding="utf-8")
    assert page.index("| first work | peer | 3 | 1.10 | ≥ 2 | yes |") < page.index("## First")
    assert page.index("## First") < page.index("## Second") < page.index("## Third")
    assert "3 of 3 targets of the summary met, 3 of 6 of all tables." in page
    assert page.count("of CPU time") == 3
    index = (bench.folder / "RESULTS.md").read_text(encoding="utf-8")
    assert "[RESULTS-here.md](RESULTS-here.md)" in index
    assert "| third work |" in index


def test_an_interrupted_run_goes_on_where_it_ended(bench: SimpleNamespace) -> None:
    whole = bench.known["second"]

    def interrupted(quick: bool) -> None:
        raise KeyboardInterrupt

    bench.known["second"] = interrupted
    assert bench.main([]) == 130
    bench.known["second"] = whole
    assert bench.main([]) == 0
    assert bench.calls == ["first", "second", "third"]
    assert list(stored(bench).entries) == ["first", "second", "third"]
    # a complete run leaves nothing to resume
    assert bench.main([]) == 0
    assert bench.calls[3:] == ["first", "second", "third"]


@pytest.mark.parametrize("again", ["restart", "other code"])
def test_nothing_is_kept_of_other_code_or_after_restart(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    bench.record.Progress("here", folder=bench.folder).add("first")
    if again == "other code":
        monkeypatch.setattr(bench.record, "state_of_the_code", lambda: "another commit")
    assert bench.main(["--restart"] if again == "restart" else []) == 0
    assert bench.calls == ["first", "second", "third"]


def test_a_topic_that_fails_does_not_lose_the_others(
    bench: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = bench.known["first"]

    def failing(quick: bool) -> None:
        raise ArithmeticError("no convergence")

    bench.known["first"] = failing
    assert bench.main([]) == 1
    assert "not measured, see above: first; the same command tries again" in capsys.readouterr().err
    assert list(stored(bench).entries) == ["second", "third"]
    bench.known["first"] = whole
    assert bench.main([]) == 0
    assert bench.calls == ["second", "third", "first"]
    assert list(stored(bench).entries) == ["first", "second", "third"]


def test_a_section_that_cannot_be_measured_here_stays_as_it_is(bench: SimpleNamespace) -> None:
    bench.main([])
    before = stored(bench).entries["second"]
    bench.known["second"] = lambda quick: None
    assert bench.main([]) == 0
    assert stored(bench).entries["second"] == before


def test_a_quick_run_is_printed_and_never_written(bench: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--quick"]) == 0
    assert "Rough: small sizes and few rounds." in capsys.readouterr().out
    assert not list(bench.folder.glob("RESULTS*"))
    with pytest.raises(SystemExit):
        bench.main(["first", "--quick", "--write"])
    assert "never written to the record" in capsys.readouterr().err
    table = bench.Table("First", "Note.", ("what",), ())
    with pytest.raises(ValueError, match="first was measured quickly"):
        stored(bench).put(bench.record.entry_of("first", table, "command", 1.0, 1.0, True), ["first"])


def test_a_section_that_is_still_quick_says_so_in_the_summary(bench: SimpleNamespace) -> None:
    bench.main([])
    path = bench.folder / "RESULTS-here.json"
    text = json.loads(path.read_text(encoding="utf-8"))
    text["entries"][1]["quick"] = True
    path.write_text(json.dumps(text), encoding="utf-8")
    page = stored(bench).page()
    assert "| second work (quick) |" in page
    assert "Still from a quick run: Second." in page


def test_some_topics_are_written_only_on_request(bench: SimpleNamespace) -> None:
    assert bench.main(["second"]) == 0
    assert not list(bench.folder.glob("RESULTS*"))
    assert bench.main(["second", "--write"]) == 0
    assert list(stored(bench).entries) == ["second"]


def test_topics_that_are_measured_side_by_side_are_all_kept(bench: SimpleNamespace) -> None:
    one, other = stored(bench), stored(bench)
    for record, topic in ((one, "first"), (other, "second"), (one, "third")):
        table = bench.Table(topic.title(), "Note.", ("what",), ())
        record.add(topic, table, "command", 1.0, 2.0)
    assert set(stored(bench).entries) == {"first", "second", "third"}
    assert stored(bench).entries["second"].wall_seconds == 2.0


def test_without_a_repository_the_commit_is_that_of_the_environment(
    bench: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.record, "_ROOT", tmp_path)
    assert bench.record.commit_of_the_code() == ""
    monkeypatch.setenv("SUBSTRATE_BENCHMARK_COMMIT", "abc")
    assert bench.record.commit_of_the_code() == "abc"


def test_a_record_is_read_as_it_was_written(bench: SimpleNamespace) -> None:
    bench.main([])
    record = stored(bench)
    record.write()
    assert stored(bench) == record


def test_numbers_of_numpy_are_written_and_read(bench: SimpleNamespace) -> None:
    line = bench.Headline(
        "work", "peer", np.float64(np.inf), most=np.int64(2), limit=np.float32(1.5), held=np.bool_(True)
    )
    table = bench.Table("First", "Note.", ("what",), (), summary=(line,))
    stored(bench).put(bench.record.entry_of("first", table, "command", 1.0, 1.0, False), ["first"])
    assert stored(bench).entries["first"].headlines == (
        bench.Headline("work", "peer", float("inf"), most=2.0, limit=1.5),
    )


def test_a_headline_is_judged_by_one_bound(bench: SimpleNamespace) -> None:
    assert bench.Headline("work", "peer", 2.0, least=2.0).is_met
    assert not bench.Headline("work", "peer", 1.9, least=2.0).is_met
    assert bench.Headline("work", "peer", 1.25, most=1.25).is_met
    assert not bench.Headline("work", "peer", 1.3, most=1.25).is_met
    assert not bench.Headline("work", "peer", 3.0, least=2.0, held=False).is_met
    assert not bench.Headline("work", "peer", float("nan"), most=2.0).is_met
    for bounds in ({}, {"least": 1.0, "most": 2.0}):
        with pytest.raises(ValueError, match="needs either least or most"):
            bench.Headline("work", "peer", 1.0, **bounds)


def test_short_jobs_are_measured_often_and_quick_ones_as_asked(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import measure

    clock = iter(range(10**6))  # every reading is one second later: a call takes one
    monkeypatch.setattr(measure, "time", SimpleNamespace(process_time=lambda: float(next(clock))))
    calls = {"ours": 0}

    def ours() -> None:
        calls["ours"] += 1

    assert len(measure.time_interleaved({"ours": ours}, 2)["ours"].rounds) == measure.ROUNDS
    assert calls["ours"] == measure.ROUNDS + 1
    with measure.few_rounds(True):
        assert len(measure.time_interleaved({"ours": ours}, 2)["ours"].rounds) == 2
    # of jobs that take long together, fewer rounds; but no fewer than are asked for
    assert len(measure.time_interleaved({str(k): ours for k in range(10)}, 1)["0"].rounds) == 6
    assert len(measure.time_interleaved({str(k): ours for k in range(10)}, 8)["0"].rounds) == 8


def test_long_jobs_are_measured_a_few_times_and_the_longest_once(bench: SimpleNamespace) -> None:
    from benchmarks import measure

    def rounds_of(*seconds: float, always: bool = False) -> tuple[int, int]:
        """Return the rounds of jobs of so many seconds, of which five are asked for, and how often they are called."""
        turns: list[int] = []

        def measure_round(turn: int) -> dict[str, float]:
            turns.append(turn)
            return {str(k): taken for k, taken in enumerate(seconds)}

        figures = measure.measure_rounds(measure_round, 5, always=always)
        return len(figures["0"].rounds), len(turns)

    assert rounds_of(0.5, 0.9) == (15, 16)
    assert rounds_of(0.5, 1.5) == (10, 11)
    assert rounds_of(8.0) == (5, 6)
    assert rounds_of(4.0, 8.0) == (1, 2)
    assert rounds_of(1.0, 20.0) == (1, 1)
    assert rounds_of(1.0, 20.0, always=True) == (5, 6)
    assert measure.rounds_within(11.0) == 1


def test_objects_from_before_the_rounds_are_not_collected_and_others_are(bench: SimpleNamespace) -> None:
    import gc

    from benchmarks import measure

    frozen: list[int] = []
    measure.time_interleaved({"ours": lambda: frozen.append(gc.get_freeze_count())}, 1)
    assert frozen[0] == 0
    assert min(frozen[1:]) > 0
    assert gc.get_freeze_count() == 0


def test_a_figure_knows_the_spread_of_its_rounds(bench: SimpleNamespace) -> None:
    from benchmarks.measure import Measured, describe_spread

    ours, peer = Measured([1.0, 2.0, 3.0, 4.0, 5.0]), Measured([2.0, 4.0, 6.0, 8.0, 20.0])
    assert (float(ours), ours.spread) == (3.0, (2.0, 4.0))
    ratio = peer * 10 / ours
    assert (float(ratio), ratio.spread) == (20.0, (20.0, 20.0))  # slow rounds are slow for both
    assert (ratio - 1.0).rounds == (19.0, 19.0, 19.0, 19.0, 39.0)
    assert (1.0 / ours).spread == (0.25, 0.5)
    assert not isinstance(ours / Measured([1.0]), Measured)
    assert (Measured([1.0, 1.0]) / Measured([0.0, 1.0])).rounds == (np.inf, 1.0)
    line = bench.Headline("work", "peer", peer / ours, least=1.0)
    assert line.row()[2] == "2"
    assert bench.Headline("work", "peer", ours, least=1.0).row()[2] == "3 (2 to 4)"
    assert describe_spread([ours, Measured([1.0])]) == (
        "Times are medians of 5 rounds; half of the rounds are within 33.3 % of them, at the worst of 1 within 33.3 %. "
        "1 was measured once."
    )
    assert describe_spread([]) == ""


def test_spreads_are_written_with_the_record(bench: SimpleNamespace) -> None:
    from benchmarks.measure import measure_rounds

    def topic(quick: bool) -> Any:
        ratio = measure_rounds(lambda turn: {"ours": float(turn)}, 3)["ours"]
        line = bench.Headline("first work", "peer", ratio, least=2.0)
        return bench.Table("First", "Note.", ("what", "met"), (("one", "yes"),), summary=(line,))

    bench.known["first"] = topic
    assert bench.main(["first", "--write"]) == 0
    page = (bench.folder / "RESULTS-here.md").read_text(encoding="utf-8")
    assert "| first work | peer | 8 (4.5 to 11.5) |  | ≥ 2 | yes |" in page
    assert "In brackets behind a ratio are its quartiles" in page
    assert "Times are medians of 15 rounds" in page
    record = stored(bench)
    assert record.entries["first"].headlines[0].spread == (4.5, 11.5)
    record.write()
    assert stored(bench) == record


def test_the_written_record_is_its_page(bench: SimpleNamespace) -> None:
    """The pages in the repository are those of the JSON files: nobody edits them."""
    folder, read = bench.record.FOLDER, bench.record.Record.read
    records = sorted(folder.glob("RESULTS-*.json"))
    assert records
    for path in records:
        assert path.with_suffix(".md").read_text(encoding="utf-8") == read(path.stem[len("RESULTS-") :]).page()
    assert (folder / "RESULTS.md").read_text(encoding="utf-8") == bench.record.index(folder)


def test_the_functions_that_are_timed_exist(bench: SimpleNamespace) -> None:
    """They are replaced by their names, which a change to the package may have moved."""
    phases = importlib.import_module("benchmarks.device_phases").PHASES
    missing = [f"{m}.{n}" for m, names in phases.items() for n in names if not hasattr(importlib.import_module(m), n)]
    assert phases
    assert missing == []
