"""``substrate reproduce``: studies are run, printed, drawn and written to files, each as soon as it is done.

An outcome is text for a terminal, a section of a Markdown page of all outcomes, and a JSON record, version 1:

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
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from problems.displays.canvas import pyplot
from problems.reproductions import STUDIES, Outcome, Study
from problems.reproductions.measured import Claim, Curve, Measured, Printed
from substrate.errors import CertificateError, DataError
from substrate.progress import Progress
from substrate.whole_file import writable_file, written_whole

__all__ = ["SCHEMA", "as_json", "chosen_studies", "files_of", "from_json", "listing", "page_from", "reproduce"]

SCHEMA = "lssvm-substrate reproduction, version 1"
_DPI = 90
#: Suffixes of a study's figure and of its record.
_SUFFIXES = (".png", ".json")


def as_json(outcome: Outcome) -> str:
    """Return the record as text, numbers in full, so that a record that is read back gives the same verdict."""
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
    """Return the outcome of a record; one that does not follow the schema is refused."""
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
    printed = {name: entry["published"] for name, entry in record["quantities"].items()}
    published = {name: Printed(**numbers) for name, numbers in printed.items() if numbers is not None}
    values = {name: tuple(map(float, entry["values"])) for name, entry in record["quantities"].items()}
    if not values or any(len(of) != record["seeds"] for of in values.values()):
        raise ValueError("every quantity has one value per seed")
    curves = {
        name: Curve(**{numbers: tuple(map(float, over)) for numbers, over in entry.items()})
        for name, entry in record["curves"].items()
    }
    claims = tuple(Claim(**claim) for claim in record["claims"])
    entries = {key: record[key] for key in ("study", "paper", "what", "settings", "spread", "quick", "cpu_seconds")}
    return Outcome(
        **entries, published=published, measured=Measured(values, curves), claims=claims, notes=tuple(record["notes"])
    )


_SPREAD = {"quartiles": "median (quartiles)", "deviation": "mean ± standard deviation"}
_HEAD = """# The papers re-run

Made by `substrate reproduce --page`, from the records beside this page; not edited. Each study measures a published
table or figure again, over several seeds, and checks every claim by a rule fixed in its docstring
(`problems/reproductions/`): a *ranking* states which is larger or how a curve behaves, a *level* is a printed number.
The verdict follows from how many of each hold. What does not reproduce is left as it is.

Run all of it with `substrate reproduce --out FOLDER`, or one study or paper by its name; `substrate reproduce --list`
names them. Times are CPU seconds on one core.
"""


def _summary(outcome: Outcome) -> str:
    """Return the outcome for a terminal: numbers, claims, notes, verdict."""
    seeds = _seeds(outcome) + (", quick: small sizes" if outcome.quick else "")
    head = ("", "published", f"ours, {_SPREAD[outcome.spread]}")
    lines = [f"{outcome.study} [{outcome.paper}]: {outcome.what}", f"{outcome.settings} {seeds}.", ""]
    lines += _align([head, *_figures(outcome)])
    lines.append("")
    for claim in outcome.claims:
        lines.append(f"{'yes' if claim.holds else 'NO ':3s}  {claim.says}: {claim.seen}{_erratum(claim.erratum)}")
    lines += [*outcome.notes, f"verdict: {outcome.verdict}", ""]
    return "\n".join(lines)


def _page(outcomes: Sequence[Outcome], folder: str) -> str:
    """Return all outcomes as one Markdown page; ``folder`` is where the figures are, seen from the page."""
    rows = [(f"[{o.study}](#{o.study})", f"[{o.paper}]", o.what, o.verdict) for o in outcomes]
    lines = [_HEAD, *_table(("study", "paper", "what", "verdict"), rows), ""]
    for outcome in outcomes:
        lines += _section(outcome, folder)
    return "\n".join(lines).rstrip() + "\n"


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


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def chosen_studies(names: Sequence[str]) -> tuple[Study, ...]:
    """Return the studies of these names, or of the papers so named; all of them unless a name is given."""
    all_names = {name.lower() for study in STUDIES.values() for name in (study.name, study.paper)}
    unknown = [name for name in names if name.lower() not in all_names]
    if unknown:
        raise DataError(f"no study or paper named {', '.join(unknown)}; `substrate reproduce --list` names them all")
    wanted = {name.lower() for name in names}
    return tuple(s for s in STUDIES.values() if not wanted or s.name in wanted or s.paper.lower() in wanted)


def listing() -> str:
    """Return all studies, one per line."""
    width = max(map(len, STUDIES))
    return "\n".join(f"{s.name.ljust(width)}  [{s.paper}] {s.what}; {s.seeds} seeds" for s in STUDIES.values())


def reproduce(studies: Sequence[Study], quick: bool, seeds: int | None, out: str) -> int:
    """Run the studies, each written before the next begins; the status is 1 where a certificate fails."""
    if seeds is not None and seeds < 1:
        raise DataError(f"--seeds must be at least 1; received {seeds}")
    folder = _writable(out, studies)
    try:
        pyplot()
    except ImportError as error:
        raise DataError("figures need matplotlib; run `pip install 'lssvm-substrate[plot]'`") from error
    progress, failed = Progress(sum(study.count(seeds, quick) for study in studies)), 0
    try:
        for study in studies:
            try:
                outcome = study.run(seeds, quick, progress)
            except CertificateError as error:
                failed = 1
                print(f"substrate: {study.name}: {error}", file=sys.stderr)
                continue
            _keep(study, outcome, folder)
            progress.close()
            print(_summary(outcome), flush=True)
    finally:
        progress.close()
    return failed


def page_from(folder: str, target: str) -> str:
    """Return the page of all records of a folder, in the order of the studies; figures are linked relative to
    ``target``.
    """
    records = [Path(folder) / f"{name}.json" for name in STUDIES]
    files = [path for path in records if path.is_file()]
    if not files:
        raise DataError(f"{folder} holds no record of a study; make some with `substrate reproduce --out {folder}`")
    outcomes = [from_json(path.read_text(encoding="utf-8"), str(path)) for path in files]
    home = Path(target).resolve().parent
    if not Path(folder).resolve().is_relative_to(home):
        raise DataError(f"the page {target} cannot show figures of {folder}: put it into that folder or one above it")
    return _page(outcomes, Path(folder).resolve().relative_to(home).as_posix())


def files_of(folder: str) -> list[str]:
    """Return the figures and records that a folder of all studies has."""
    return [str(Path(folder) / f"{name}{suffix}") for name in STUDIES for suffix in _SUFFIXES]


def _writable(out: str, studies: Sequence[Study]) -> Path:
    """Return the folder, made if it is missing; refused where nothing can be written, before any work."""
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise DataError(f"--out {out} is a file; name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(f"--out {out} cannot be written: {error.strerror}; name another folder") from error
    for study in studies:
        for suffix in _SUFFIXES:
            writable_file(folder / f"{study.name}{suffix}")
    return folder


def _keep(study: Study, outcome: Outcome, folder: Path) -> None:
    plt = pyplot()
    figure = study.draw(outcome.measured)
    try:
        with written_whole(folder / f"{study.name}.png") as stream:
            figure.savefig(stream, format="png", dpi=_DPI, metadata={"Software": None})
    finally:
        plt.close(figure)
    with written_whole(folder / f"{study.name}.json") as stream:
        stream.write(as_json(outcome).encode("utf-8"))
