"""A study: one published table or figure, how it is measured again, and by which rule it is judged."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from problems.progress import Progress
from problems.reproductions.measured import Measured, Printed, Round, collected
from problems.reproductions.verdict import Claim, verdict
from substrate.errors import CertificateError

__all__ = ["Outcome", "Spread", "Study", "held"]

Spread = Literal["quartiles", "deviation"]
_Model = TypeVar("_Model")


class Outcome(NamedTuple):
    """What a run of a study gave. Claims and verdict follow from the numbers; the rest says how they were made."""

    study: str
    paper: str
    what: str
    settings: str
    spread: Spread
    quick: bool
    cpu_seconds: float
    published: Mapping[str, Printed]
    measured: Measured
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """One sentence, from the claims."""
        return verdict(self.claims)


def _nothing(measured: Measured) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Study:
    """One published table or figure.

    ``one`` measures a seed, ``judge`` makes the claims from the numbers of all, ``draw`` a figure, and ``notes`` says
    what else the numbers show. ``settings`` says where hyper-parameters come from. ``published`` has the printed figure
    of a number by its name; ``seeds`` and ``quick_seeds`` are how many are drawn unless the user says otherwise.
    """

    name: str
    paper: str
    what: str
    settings: str
    published: Mapping[str, Printed]
    seeds: int
    quick_seeds: int
    one: Callable[[int, bool], Round]
    judge: Callable[[Measured], tuple[Claim, ...]]
    draw: Callable[[Measured], Any]
    notes: Callable[[Measured], tuple[str, ...]] = _nothing
    spread: Spread = "quartiles"

    def count(self, seeds: int | None, quick: bool) -> int:
        """How many seeds a run has."""
        return seeds if seeds is not None else self.quick_seeds if quick else self.seeds

    def run(self, seeds: int | None, quick: bool, progress: Progress) -> Outcome:
        """Measure every seed, then judge."""
        start, rounds = time.process_time(), []
        count = self.count(seeds, quick)
        for seed in range(count):
            progress.step(f"{self.name} {seed + 1}/{count}")
            rounds.append(self.one(seed, quick))
        return self.judged(collected(rounds), quick, time.process_time() - start)

    def judged(self, measured: Measured, quick: bool, cpu_seconds: float) -> Outcome:
        """The outcome that these numbers make."""
        claims, notes = self.judge(measured), self.notes(measured)
        return Outcome(
            self.name, self.paper, self.what, self.settings, self.spread, quick, cpu_seconds, self.published, measured,
            claims, notes,
        )  # fmt: skip


def held(model: _Model) -> _Model:
    """A fitted model of ours whose certificate holds; a study does not go on with another."""
    certificate = model.certificate_  # type: ignore[attr-defined]
    if not certificate.holds:
        failed = ", ".join(row.name for row in certificate.failures)
        raise CertificateError(f"the certificate of {type(model).__name__} does not hold: {failed}")
    return model
