r"""Verdicts: what a paper claims, whether our numbers bear it out, and one sentence for all claims of a study.

A claim is of one of two kinds: a *ranking* says which is larger, or what a curve does; a *level* is a printed number.
From how many of each hold the sentence follows, by the rule of :func:`verdict`; nothing else goes into it. Claims are
made by the functions below, whose rules are the same for all studies:

.. math:: \text{better: } \#\{s : a_s < b_s\} \ge \tfrac34 n, \qquad
          \text{level: } q_{1/4} - \tau \le p \le q_{3/4} + \tau

for numbers a and b of n seeds, a printed p and its tolerance :math:`\tau`, a tenth of p unless a study says otherwise.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from problems.reproductions.measured import Measured, Printed
from substrate.errors import DeclarationError

__all__ = ["Claim", "better", "level", "verdict"]


class Claim(NamedTuple):
    """One statement of a paper with what was seen; ``erratum`` is where the errata page speaks of it, if it does."""

    says: str
    kind: Literal["ranking", "level"]
    rule: str
    seen: str
    holds: bool
    erratum: str = ""


def verdict(claims: Sequence[Claim]) -> str:
    """All claims hold, or none, or one kind does and the other not, or some of each."""
    counts = {kind: [claim.holds for claim in claims if claim.kind == kind] for kind in ("ranking", "level")}
    if not claims:
        raise DeclarationError("a study without a claim has no verdict")
    if all(claim.holds for claim in claims):
        return "reproduces"
    if not any(claim.holds for claim in claims):
        return "does not reproduce"
    ranking, level = counts["ranking"], counts["level"]
    if ranking and level and all(ranking):
        return f"the ranking reproduces, the level {_part(level)}"
    if ranking and level and all(level):
        return f"the level reproduces, the ranking {_part(ranking)}"
    told = [f"{sum(held)} of {len(held)} {kind}s" for kind, held in counts.items() if held]
    return f"reproduces in part: {', '.join(told)}"


def _part(held: list[bool]) -> str:
    return f"in part ({sum(held)} of {len(held)})" if any(held) else "does not"


def better(measured: Measured, name: str, against: str, says: str, erratum: str = "") -> Claim:
    """The first number is below the second on at least three quarters of the seeds."""
    wins, n = measured.wins(name, against), measured.seeds
    seen = f"on {wins} of {n}; median ratio {measured.ratio(name, against):.3g}"
    rule = f"{name} below {against} on at least three quarters of the seeds"
    return Claim(says, "ranking", rule, seen, wins >= 0.75 * n, erratum)


def level(measured: Measured, name: str, printed: Printed, tolerance: float | None = None, erratum: str = "") -> Claim:
    """The printed number lies between our quartiles, widened by the tolerance (a tenth of it)."""
    if printed.value is None:
        raise DeclarationError(f"{name}: {printed.text!r} is not a number, so it has no level")
    wide = 0.1 * abs(printed.value) if tolerance is None else tolerance
    low, high = measured.quartiles(name)
    rule = f"the printed number between our quartiles widened by {wide:.2g}"
    holds = low - wide <= printed.value <= high + wide
    return Claim(f"{name}: {printed.text}", "level", rule, measured.told(name, "quartiles"), holds, erratum)
