"""What is on the record of a solve: every attempt, with the solver's word and our verdict."""

from dataclasses import dataclass

__all__ = ["OUT_OF_TIME", "Attempt", "SolverRecord"]

#: How the word of an attempt begins that the time limit ended.
OUT_OF_TIME = "time limit"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One solver's try: its own word, the largest ``relative/tolerance`` of our rows, and our verdict.

    The word is cvxpy's status, ``failed (...)`` or ``time limit 60 s``.
    """

    solver: str
    status: str
    unit: float
    worst: float
    accepted: bool
    seconds: float

    def __str__(self) -> str:
        verdict = "accepted" if self.accepted else "rejected"
        units = "" if self.unit == 1.0 else f" in units of {self.unit:.3g}"
        word = f": {self.status}" if self.out_of_time else f" says {self.status}"
        found = f"{verdict} at {self.worst:.1e} of its tolerance" if self.worst < float("inf") else "without a point"
        return f"{self.solver}{units}{word}, {found}"

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit ended it."""
        return self.status.startswith(OUT_OF_TIME)


@dataclass(frozen=True, slots=True)
class SolverRecord:
    """All attempts at one problem, in order."""

    attempts: tuple[Attempt, ...]

    @property
    def accepted(self) -> bool:
        """Whether some attempt was good enough."""
        return any(attempt.accepted for attempt in self.attempts)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """The attempts as lines of a certificate."""
        return tuple(("solver", str(attempt)) for attempt in self.attempts)
