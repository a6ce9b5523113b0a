"""Threads of this process, or whatever backend joblib was told to use."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from substrate.streaming.executors.base import Executor, Pass
from substrate.streaming.span import Span, spans, work_on
from substrate.threads import one_blas_thread

__all__ = ["Joblib"]


@dataclass(frozen=True)
class Joblib(Executor):
    """Spans side by side; ``joblib.parallel_config`` chooses another backend, or how many at a time."""

    n_jobs: int | None = None

    @property
    def workers(self) -> int:
        """As many as asked for, here or by ``parallel_config``; otherwise as many as there are cores."""
        from joblib import effective_n_jobs

        told = int(effective_n_jobs(self.n_jobs))
        return told if self.n_jobs is not None or told > 1 else int(effective_n_jobs(-1))

    def results(self, job: Pass, start: int, stop: int, level: int) -> Iterator[tuple[Span, Any]]:
        """Threads unless joblib is told otherwise: BLAS and numpy let go of the interpreter, and nothing is copied."""
        from joblib import Parallel, delayed

        every = list(spans(stop, level, start))
        work = Parallel(n_jobs=self.workers, prefer="threads", return_as="generator")
        tasks = (delayed(work_on)(job.work, job.function, job.source, span, job.step) for span in every)
        with one_blas_thread():  # for threads; another process sets its own
            yield from zip(every, work(tasks), strict=True)
