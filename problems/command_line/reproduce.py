"""``substrate reproduce``: studies are run, printed, drawn and written to files, each as soon as it is done."""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

from problems.displays.canvas import pyplot
from problems.reproductions import STUDIES, Outcome, Study
from problems.reproductions.record import as_json, from_json, page, summary
from substrate.errors import CertificateError, DataError
from substrate.progress import Progress
from substrate.whole_file import writable_file, written_whole

__all__ = ["chosen_studies", "files_of", "listing", "page_from", "reproduce"]

_DPI = 90
#: Suffixes of a study's figure and of its record.
_SUFFIXES = (".png", ".json")


def chosen_studies(names: Sequence[str]) -> tuple[Study, ...]:
    """The studies of these names, or of the papers so named; all of them unless a name is given."""
    known = {name.lower() for study in STUDIES.values() for name in (study.name, study.paper)}
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        raise DataError(f"no study or paper named {', '.join(unknown)}; `substrate reproduce --list` names them all")
    wanted = {name.lower() for name in names}
    return tuple(s for s in STUDIES.values() if not wanted or s.name in wanted or s.paper.lower() in wanted)


def listing() -> str:
    """All studies, one per line."""
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
            print(summary(outcome), flush=True)
    finally:
        progress.close()
    return failed


def page_from(folder: str, target: str) -> str:
    """The page of all records of a folder, in the order of the studies; figures are linked relative to ``target``."""
    records = [Path(folder) / f"{name}.json" for name in STUDIES]
    found = [path for path in records if path.is_file()]
    if not found:
        raise DataError(f"{folder} holds no record of a study; make some with `substrate reproduce --out {folder}`")
    outcomes = [from_json(path.read_text(encoding="utf-8"), str(path)) for path in found]
    home = Path(target).resolve().parent
    if not Path(folder).resolve().is_relative_to(home):
        raise DataError(f"the page {target} cannot show figures of {folder}: put it into that folder or one above it")
    return page(outcomes, Path(folder).resolve().relative_to(home).as_posix())


def files_of(folder: str) -> list[str]:
    """The figures and records that a folder of all studies has."""
    return [str(Path(folder) / f"{name}{suffix}") for name in STUDIES for suffix in _SUFFIXES]


def _writable(out: str, studies: Sequence[Study]) -> Path:
    """The folder, made if it is missing; refused where nothing can be written, before any work."""
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
