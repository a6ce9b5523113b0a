"""Jobs beside one another give what they give one after another, in the order of the jobs."""

import os
from pathlib import Path

import pytest

from benchmarks import processes
from benchmarks.processes import complete_all, complete_each, count_cores


def _square(number: int) -> tuple[int, int]:
    return number**2, os.getpid()


def test_one_process_is_this_one_and_several_are_not():
    here = dict(complete_each(_square, [3, 1, 2], 1))
    assert here == {3: (9, os.getpid()), 1: (1, os.getpid()), 2: (4, os.getpid())}
    beside = complete_all(_square, [3, 1, 2], 2)
    assert [(job, result[0]) for job, result in beside.items()] == [(3, 9), (1, 1), (2, 4)]
    assert os.getpid() not in {process for _, process in beside.values()}
    assert complete_all(_square, [5]) == {5: (25, os.getpid())}  # one job needs no process of its own
    assert complete_all(_square, []) == {}
    assert count_cores() >= 1


def test_results_have_the_order_of_the_jobs_whichever_is_finished_first(monkeypatch):
    monkeypatch.setattr(processes, "complete_each", lambda call, jobs, count: [(job, call(job)) for job in jobs[::-1]])
    assert list(complete_all(_square, [3, 1, 2])) == [3, 1, 2]


def _write(path: Path) -> None:
    if path.name == "0":
        raise ValueError("this one fails")
    path.write_text("done")


def test_a_job_that_fails_ends_the_others(tmp_path):
    jobs = [tmp_path / str(number) for number in range(500)]
    with pytest.raises(ValueError, match="this one fails"):
        complete_all(_write, jobs, 2)
    assert len(list(tmp_path.iterdir())) < 400
