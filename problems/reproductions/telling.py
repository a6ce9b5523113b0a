"""An outcome in words: for a terminal, and for a page of all outcomes in Markdown."""

from collections.abc import Sequence

from problems.reproductions.study import Outcome

__all__ = ["page", "told"]

_SPREAD = {"quartiles": "median (quartiles)", "deviation": "mean ± standard deviation"}
_HEAD = """# The papers re-run

Made by `substrate reproduce --page`, from the records beside this page; not edited. Each study measures a published
table or figure again, over several seeds, and judges every claim by a rule fixed in its docstring
(`problems/reproductions/`): a *ranking* says which is larger or what a curve does, a *level* is a printed number. The
verdict follows from how many of each hold. What does not reproduce is left as it is.

Run all of it with `substrate reproduce --out FOLDER`, or one study or paper by its name; `substrate reproduce --list`
names them. Times are CPU seconds on one core.
"""


def told(outcome: Outcome) -> str:
    """The outcome for a terminal: numbers, claims, notes, verdict."""
    seeds = _seeds(outcome) + (", quick: small sizes" if outcome.quick else "")
    head = ("", "published", f"ours, {_SPREAD[outcome.spread]}")
    lines = [f"{outcome.study} [{outcome.paper}]: {outcome.what}", f"{outcome.settings} {seeds}.", ""]
    lines += _aligned([head, *_figures(outcome)])
    lines.append("")
    for claim in outcome.claims:
        lines.append(f"{'yes' if claim.holds else 'NO ':3s}  {claim.says}: {claim.seen}{_erratum(claim.erratum)}")
    lines += [*outcome.notes, f"verdict: {outcome.verdict}", ""]
    return "\n".join(lines)


def page(outcomes: Sequence[Outcome], folder: str) -> str:
    """All outcomes as one Markdown page; ``folder`` is where the figures are, seen from the page."""
    rows = [(f"[{o.study}](#{o.study})", f"[{o.paper}]", o.what, o.verdict) for o in outcomes]
    parts = [_HEAD, *_table(("study", "paper", "what", "verdict"), rows), ""]
    for outcome in outcomes:
        parts += _section(outcome, folder)
    return "\n".join(parts).rstrip() + "\n"


def _section(outcome: Outcome, folder: str) -> list[str]:
    quick = " A quick run: small sizes, few seeds." if outcome.quick else ""
    claims = [
        (c.says + _erratum(c.erratum), c.kind, c.rule, c.seen, "yes" if c.holds else "**no**") for c in outcome.claims
    ]
    return [
        f"({outcome.study})=",
        f"## {outcome.study}",
        "",
        f"[{outcome.paper}]: {outcome.what}. **Verdict: {outcome.verdict}.**",
        "",
        f"{outcome.settings} {_seeds(outcome)}, {outcome.cpu_seconds:.0f} s.{quick}",
        "",
        f"![{outcome.what}]({folder}/{outcome.study}.png)",
        "",
        *_table(("claim", "kind", "rule", "seen", "holds"), claims),
        "",
        *(f"{note}\n" for note in outcome.notes),
        *_table(("number", "published", f"ours, {_SPREAD[outcome.spread]}"), _figures(outcome)),
        "",
    ]


def _figures(outcome: Outcome) -> list[tuple[str, ...]]:
    printed = outcome.published
    return [
        (name, printed[name].text if name in printed else "", outcome.measured.told(name, outcome.spread))
        for name in outcome.measured.of
    ]


def _seeds(outcome: Outcome) -> str:
    n = outcome.measured.seeds
    return "One seed" if n == 1 else f"{n} seeds"


def _erratum(where: str) -> str:
    return f" (errata: {where})" if where else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
