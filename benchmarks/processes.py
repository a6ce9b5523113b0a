"""Jobs beside one another: a process for every core, each on one BLAS thread.

It is for errors and coverages, which do not depend on what else runs, and for CPU times of jobs of seconds and minutes,
whose contenders are measured inside the same job. Short jobs are measured alone, by :mod:`benchmarks.measure`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

__all__ = ["complete_all", "complete_each", "count_cores"]

Job = TypeVar("Job")
Result = TypeVar("Result")


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def complete_each(
    call: Callable[[Job], Result], jobs: Sequence[Job], processes: int | None = None
) -> Iterator[tuple[Job, Result]]:
    """Yield every job with its result as it is finished; the longest come first in ``jobs``.

    ``call`` is a function of a module, or a method of what can be pickled. With one process the jobs are done here.
    """
    if (processes := min(processes or count_cores(), len(jobs))) <= 1:
        yield from ((job, call(job)) for job in jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(call, job): job for job in jobs}
        try:
            yield from ((waiting[future], future.result()) for future in as_completed(waiting))
        except BaseException:  # the jobs that wait are not begun
            pool.shutdown(cancel_futures=True)
            raise


def complete_all(call: Callable[[Job], Result], jobs: Sequence[Job], processes: int | None = None) -> dict[Job, Result]:
    """Return the results of all jobs, in their order."""
    results = dict(complete_each(call, jobs, processes))
    return {job: results[job] for job in jobs}
