"""Times of contenders that take turns, and the rows of the table that come of them."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

__all__ = ["Row", "certified", "compare", "interleave", "limit"]

#: Rounds of short jobs, and the seconds that all rounds of longer ones may take.
ROUNDS, BUDGET = 15, 20.0

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: the figure of a piece of work, and the target.

    With ``least`` the figure says how many times as fast as the peer ours is, with ``most`` what share of the time of
    the peer it takes or, without a peer, how many of its units. ``low`` and ``high`` are quartiles over the rounds.
    """

    work: str
    against: str
    figure: float
    least: float | None = None
    most: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_met(self) -> bool:
        """Whether the figure reaches its target; without one there is nothing to miss."""
        return (self.least is None or self.figure >= self.least) and (self.most is None or self.figure <= self.most)

    def cells(self) -> tuple[str, ...]:
        """Return work, peer, figure, target and whether it is met."""
        figure = f"{self.figure:.3g}"
        if self.low is not None and self.high is not None and f"{self.low:.3g}" != f"{self.high:.3g}":
            figure += f" ({self.low:.3g} to {self.high:.3g})"
        target = f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}" if self.most is not None else ""
        return self.work, self.against, figure, target, ("yes" if self.is_met else "no") if target else ""


def certified(model: Any) -> Any:
    """Return a fitted model or a result whose certificate holds; one that does not is not worth measuring."""
    certificate = model.certificate_ if hasattr(model, "certificate_") else model.certificate
    assert certificate.holds, str(certificate)
    return model


def interleave(contenders: dict[str, Callable[[], object]], clock: Clock = time.process_time) -> dict[str, list[float]]:
    """Return the seconds of every contender, round by round.

    They take turns, starting with another one each round, so that whatever else the machine does falls on all of them
    alike. The first round loads caches and is not counted, unless it takes so long that it is the only one.
    """
    names, seconds = list(contenders), {name: list[float]() for name in contenders}

    def measure_round(turn: int) -> float:
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            gc.collect()
            start = clock()
            contenders[name]()
            seconds[name].append(clock() - start)
        return sum(times[-1] for times in seconds.values())

    if (first := measure_round(0)) <= BUDGET:
        for turn in range(1, 1 + max(1, min(ROUNDS, int(BUDGET / max(first, 1e-9))))):
            measure_round(turn)
        seconds = {name: times[1:] for name, times in seconds.items()}
    return seconds


def compare(
    work: str,
    ours: Callable[[], object],
    against: str,
    peer: Callable[[], object],
    *,
    least: float | None = None,
    most: float | None = None,
    times: float = 1.0,
    clock: Clock = time.process_time,
) -> Row:
    """Return the row of two contenders; the peer's work is ``times`` what its call does."""
    seconds = interleave({"ours": ours, "peer": peer}, clock)
    peers = [times * taken for taken in seconds["peer"]]
    above, below = (peers, seconds["ours"]) if least is not None else (seconds["ours"], peers)
    ratios = [a / max(b, 1e-9) for a, b in zip(above, below, strict=True)]
    low, _, high = quantiles(ratios, method="inclusive") if len(ratios) > 1 else (None, None, None)
    return Row(work, against, median(above) / max(median(below), 1e-9), least, most, low, high)


def limit(work: str, call: Callable[[], object], most: float) -> Row:
    """Return the row of work whose CPU seconds have a limit."""
    return Row(work, "CPU seconds", median(interleave({"ours": call})["ours"]), most=most)
