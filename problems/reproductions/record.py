"""An outcome as a JSON record, version 1, as text for a terminal, and on a Markdown page of all outcomes.

========================  ==========================================================================================
key                       value
========================  ==========================================================================================
``schema``                ``"lssvm-substrate reproduction, version 1"``
``study``, ``paper``      name of the study, key of the paper on the references page
``what``, ``settings``    what is reproduced, and where hyper-parameters come from; text
``spread``                ``"quartiles"`` (median and quartiles) or ``"deviation"`` (mean and standard deviation)
``quick``, ``seeds``      whether sizes were small; how many seeds
``cpu_seconds``           of the whole study
``verdict``               the sentence that the claims make
``claims``                list of ``says``, ``kind``, ``rule``, ``seen``, ``holds``, ``erratum`` (empty: none)
``notes``                 list of sentences computed from the numbers
``quantities``            by name: ``values``, one per seed, and ``published``, null or ``text``, ``value``,
                          ``deviation`` (both null where the paper prints none)
``curves``                by name: ``x``, and over it ``low``, ``middle``, ``high``: the quartiles over the seeds
========================  ==========================================================================================
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from problems.reproductions.measured import Claim, Curve, Measured, Printed
from problems.reproductions.study import Outcome
from substrate.errors import DataError

__all__ = ["SCHEMA", "as_json", "from_json", "page", "summary"]


SCHEMA = "lssvm-substrate reproduction, version 1"


def as_json(outcome: Outcome) -> str:
    """The record as text, numbers in full, so that a record that is read back gives the same verdict."""
    quantities = {
        name: {
            "published": outcome.published[name]._asdict() if name in outcome.published else None,
            "values": list(values),
        }
        for name, values in outcome.measured.of.items()
    }
    curves = {name: asdict(curve) for name, curve in outcome.measured.curves.items()}
    record = {
        "schema": SCHEMA,
        "study": outcome.study,
        "paper": outcome.paper,
        "what": outcome.what,
        "settings": outcome.settings,
        "spread": outcome.spread,
        "quick": outcome.quick,
        "seeds": outcome.measured.seeds,
        "cpu_seconds": round(outcome.cpu_seconds, 2),
        "verdict": outcome.verdict,
        "claims": [claim._asdict() for claim in outcome.claims],
        "notes": list(outcome.notes),
        "quantities": quantities,
        "curves": curves,
    }
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str, where: str) -> Outcome:
    """The outcome of a record; one that does not follow the schema is refused."""
    try:
        record = json.loads(text)
        outcome = _outcome(record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{where} is not a record of `substrate reproduce`: {error!r}; run the study again") from error
    if record["schema"] != SCHEMA:
        raise DataError(f"{where} has the schema {record['schema']!r}, this version reads {SCHEMA!r}")
    if record["verdict"] != outcome.verdict:
        raise DataError(f"{where} states {record['verdict']!r}, but its claims make {outcome.verdict!r}")
    return outcome


def _outcome(record: dict[str, Any]) -> Outcome:
    parts = {name: entry["published"] for name, entry in record["quantities"].items()}
    published = {name: Printed(**part) for name, part in parts.items() if part is not None}
    values = {name: tuple(map(float, entry["values"])) for name, entry in record["quantities"].items()}
    if not values or any(len(of) != record["seeds"] for of in values.values()):
        raise ValueError("every quantity has one value per seed")
    curves = {
        name: Curve(**{part: tuple(map(float, over)) for part, over in entry.items()})
        for name, entry in record["curves"].items()
    }
    claims = tuple(Claim(**claim) for claim in record["claims"])
    made = {key: record[key] for key in ("study", "paper", "what", "settings", "spread", "quick", "cpu_seconds")}
    return Outcome(
        **made, published=published, measured=Measured(values, curves), claims=claims, notes=tuple(record["notes"])
    )


_SPREAD = {"quartiles": "median (quartiles)", "deviation": "mean ± standard deviation"}
_HEAD = """# The papers re-run

Made by `substrate reproduce --page`, from the records beside this page; not edited. Each study measures a published
table or figure again, over several seeds, and judges every claim by a rule fixed in its docstring
(`problems/reproductions/`): a *ranking* states which is larger or how a curve behaves, a *level* is a printed number.
The verdict follows from how many of each hold. What does not reproduce is left as it is.

Run all of it with `substrate reproduce --out FOLDER`, or one study or paper by its name; `substrate reproduce --list`
names them. Times are CPU seconds on one core.
"""


def summary(outcome: Outcome) -> str:
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
        (name, printed[name].text if name in printed else "", outcome.measured.summary(name, outcome.spread))
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
