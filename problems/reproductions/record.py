"""The JSON record of an outcome, version 1, written and read back.

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
``quantities``            by name: ``values``, a number a seed, and ``published``, null or ``text``, ``value``,
                          ``deviation`` (both null where the paper prints none)
``curves``                by name: ``x``, and over it ``low``, ``middle``, ``high``: the quartiles over the seeds
========================  ==========================================================================================
"""

import json
from dataclasses import asdict
from typing import Any

from problems.reproductions.measured import Curve, Measured, Printed
from problems.reproductions.study import Outcome
from problems.reproductions.verdict import Claim
from substrate.errors import DataError

__all__ = ["SCHEMA", "as_json", "from_json"]

SCHEMA = "lssvm-substrate reproduction, version 1"


def as_json(outcome: Outcome) -> str:
    """The record as text, numbers in full: what is read back is judged alike."""
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
    """The outcome that a record holds; what does not follow the schema is refused."""
    try:
        record = json.loads(text)
        outcome = _outcome(record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{where} is not a record of `substrate reproduce`: {error!r}; run the study again") from error
    if record["schema"] != SCHEMA:
        raise DataError(f"{where} has the schema {record['schema']!r}, this version reads {SCHEMA!r}")
    if record["verdict"] != outcome.verdict:
        raise DataError(f"{where} says {record['verdict']!r}, but its claims make {outcome.verdict!r}")
    return outcome


def _outcome(record: dict[str, Any]) -> Outcome:
    parts = {name: entry["published"] for name, entry in record["quantities"].items()}
    published = {name: Printed(**part) for name, part in parts.items() if part is not None}
    values = {name: tuple(map(float, entry["values"])) for name, entry in record["quantities"].items()}
    if not values or any(len(of) != record["seeds"] for of in values.values()):
        raise ValueError("every quantity has one value a seed")
    curves = {
        name: Curve(**{part: tuple(map(float, over)) for part, over in entry.items()})
        for name, entry in record["curves"].items()
    }
    claims = tuple(Claim(**claim) for claim in record["claims"])
    made = {key: record[key] for key in ("study", "paper", "what", "settings", "spread", "quick", "cpu_seconds")}
    return Outcome(
        **made, published=published, measured=Measured(values, curves), claims=claims, notes=tuple(record["notes"])
    )
