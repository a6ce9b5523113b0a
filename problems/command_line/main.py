"""The command ``substrate``: exit codes, and outputs that are checked before any work and written whole."""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from problems.command_line.interruption import Interruption, interruptible
from substrate.errors import DataError, SubstrateError
from substrate.progress import Progress
from substrate.whole_file import refuse_inputs, writable_file, written_whole

__all__ = ["main", "printed_warnings", "refuse_unwritable", "write"]


def refuse_unwritable(path: str | None, *taken: str | None) -> None:
    """Refuse, before any long work, a ``path`` that is no regular file or absent one, or one of ``taken``."""
    if path is None:
        return
    writable_file(path)
    refuse_inputs(path, *taken)


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Print warnings of the block, each once, as lines of this command on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for line in dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught):
        print(f"substrate: {line}", file=sys.stderr)


def write(path: str | None, text: str) -> None:
    """Write to standard output, or to a file that is whole or absent."""
    if path is None:
        sys.stdout.write(text)
        return
    with written_whole(path) as stream:
        stream.write(text.encode("utf-8"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    0 when all is well, 1 when a check failed, 2 when the command or its data cannot be used, 130 when Ctrl-C ended it
    and 143 when SIGTERM did.
    """
    with interruptible(ending=arguments is None) as interruption:
        try:
            status = _answer(arguments, interruption)
            interruption.finish()
            return status
        except BaseException as error:  # an interrupted import may raise anything
            interruption.finished = True  # another signal, from here on, does not leave this block
            if interruption.number is None and not isinstance(error, KeyboardInterrupt):
                raise
            return interruption.report()


def _answer(arguments: Sequence[str] | None, interruption: Interruption) -> int:
    # here and below, not above: imports can be interrupted, and --help must not wait for scikit-learn or cvxpy
    from problems.command_line.arguments import parser

    options = parser().parse_args(arguments)
    commands: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "fit": partial(_fit, interruption=interruption),
        "predict": partial(_predict, interruption=interruption),
        "export": partial(_export, interruption=interruption),
        "map": _map,
        "datasets": _datasets,
        "verify": _verify,
    }
    interruption.watch(*_outputs(options))
    try:
        status = commands[options.command](options)
        sys.stdout.flush()  # here, where what goes wrong is handled
        return status
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (SubstrateError, OSError, ValueError, MemoryError) as error:  # ValueError: scikit-learn's checks of data
        interruption.check()
        print(f"substrate: {error or type(error).__name__}", file=sys.stderr)
        return 2


def _outputs(options: argparse.Namespace) -> tuple[list[str | None], str]:
    """Return the files that a command may write, and what an interrupted command reports where it writes none."""
    if options.command == "verify":
        return [], "nothing is written by this command"
    if options.command in ("predict", "datasets") and options.out is None:
        return [], "the table on standard output may be incomplete"
    return [options.out, getattr(options, "report", None), getattr(options, "scores", None)], ""


def _fit(options: argparse.Namespace, interruption: Interruption) -> int:
    from problems.command_line.choices import choices_of, read_options
    from problems.command_line.importances import importance
    from problems.command_line.report.report import report
    from problems.command_line.summary import describe_file, said, summary
    from problems.tables.embedded_sets import question_of
    from problems.tables.fit import fit_prepared, prepare, reliance_of
    from problems.tables.intervals import keep_intervals
    from problems.tables.table import named_columns

    if options.series or options.lags is not None or options.input_lags or options.horizon != 1:
        return _fit_series(options, interruption)
    source = options.data if options.dataset is None else f"@{options.dataset}"
    if source is None or (options.data is not None and options.dataset is not None):
        raise DataError("name one table: a file, @NAME, or --dataset NAME")
    refuse_unwritable(options.out, options.data)
    refuse_unwritable(options.report, options.data, options.out)
    progress = Progress(3 + (options.report is not None) + (options.out is not None))
    try:
        progress.step(f"reading {source}")
        table = read_options(source, options).drop_columns(options.drop)
        if options.target is None and not source.startswith("@"):
            raise DataError(f"--target is missing; {source} has the columns {named_columns(table.names)}")
        target, task = options.target, options.task
        if target is None:  # an embedded data set has a target of its own
            target, classes = question_of(source[1:])
            task = classes if task == "auto" else task
        progress.step("preparing the columns")
        ready = prepare(table, choices_of(options, target, task))
        progress.close()
        if not options.quiet:
            print(said(ready.description), flush=True)
        progress.step(f"fitting {ready.choices.model}")
        fit = fit_prepared(ready)
        interruption.check()
        page, importances = None, None
        if options.report is not None:
            progress.step("drawing the report")
            importances = importance(fit)  # once, for the page and the terminal
            page = report(fit, options.out, importances)
        if options.out is not None:
            progress.step("making intervals")
            with printed_warnings():
                keep_intervals(fit.saved.estimator)
    finally:
        progress.close()
    interruption.check()
    if page is not None:
        write(options.report, page)
    estimators = (fit.saved.estimator, fit.model.estimator)
    certificates = {id(each.certificate_): each.certificate_ for each in estimators}.values()
    # of a model that can be relied on the summary says what is not proved
    are_good = all(reliance_of(certificate, fit.quality).is_good for certificate in certificates)
    for warning in fit.warnings:
        if (
            options.verbose or not are_good or "the certificate does not hold" not in warning
        ):  # the summary says what is not proved
            print(f"substrate: {warning}", file=sys.stderr)
    if not options.quiet:
        print(said(summary(fit, options.verbose, importances)), flush=True)
        if options.report is not None:
            print(f"report: {options.report}", flush=True)
    if options.out is not None:  # last: a file that cannot be written takes nothing else with it
        fit.saved.save(options.out)
    if not options.quiet:
        print(said(describe_file(fit, options.out)))
    return max(_exit_status(certificate, fit.quality) for certificate in certificates)


def _fit_series(options: argparse.Namespace, interruption: Interruption) -> int:
    from problems.command_line.choices import read_options
    from problems.command_line.series import SeriesChoices, describe_series, fit_series, series_report
    from problems.command_line.summary import said
    from problems.tables.embedded_sets import question_of
    from problems.tables.table import named_columns

    if not options.series:
        raise DataError("--lags, --input-lags and --horizon are those of a series: give --series too")
    others = ("gamma", "sigma", "zeta", "rho", "monotone", "convex", "bounds")
    given = [name for name in others if getattr(options, name) is not None]
    given += [name for name in ("class_weight", "one_hot", "group") if getattr(options, name)]
    given += ["split"] if options.split != "random" else []
    if (
        given
        or options.model not in ("auto", "lssvm")
        or options.impute != "refuse"
        or options.task == "classification"
    ):
        named = f"--{given[0].replace('_', '-')}" if given else "another --model, --task or --impute"
        raise DataError(f"a series is fitted by lssvm, with all but the lags chosen; leave {named} out")
    source = options.data if options.dataset is None else f"@{options.dataset}"
    if source is None or (options.data is not None and options.dataset is not None):
        raise DataError("name one table: a file, @NAME, or --dataset NAME")
    refuse_unwritable(options.out, options.data)
    refuse_unwritable(options.report, options.data, options.out)
    table = read_options(source, options).drop_columns(options.drop)
    if options.target is None and not source.startswith("@"):
        raise DataError(f"--target is missing; {source} has the columns {named_columns(table.names)}")
    choices = SeriesChoices(
        target=options.target or question_of(source[1:])[0],
        lags=options.lags,
        input_lags=options.input_lags,
        horizon=options.horizon,
        validation=options.validation,
        dates=tuple(options.date),
        ids=tuple(options.id),
    )
    with printed_warnings():
        fit = fit_series(table, choices)
        page = None if options.report is None else series_report(fit, source)
    interruption.check()
    if page is not None:
        write(options.report, page)
    if not options.quiet:
        print(said(describe_series(fit)), flush=True)
        if options.verbose:
            print(fit.model.certificate_, flush=True)
    if options.out is not None:
        fit.saved.save(options.out, target=choices.target)
        if not options.quiet:
            print(f"saved: {options.out}, fitted again to all rows")
    return _exit_status(fit.saved.certificate_)


def _exit_status(certificate: Any, quality: Any = None) -> int:
    """Return 0 for a model that can be relied on, otherwise 1 and what failed."""
    from problems.tables.fit import reliance_of

    if reliance_of(certificate, quality).is_good:
        return 0
    failed = ", ".join(row.name for row in certificate.failures)
    print(f"substrate: the certificate does not hold: {failed}", file=sys.stderr)
    return 1


def _predict(options: argparse.Namespace, interruption: Interruption) -> int:
    import problems
    from problems.command_line.choices import read_options
    from problems.tables.intervals import interval_statement
    from problems.tables.tabular_model import TabularModel, predictions_csv, refuse_absent_model

    refuse_unwritable(options.out, options.data, options.model)
    with printed_warnings():
        refuse_absent_model(options.model)
        loaded, notes = problems.load_with_notes(options.model, options.max_bytes)
    if notes is not None and "series" in notes:
        return _predict_series(options, loaded, notes)
    model = TabularModel.of(loaded, notes, options.model)
    coverage = options.coverage
    if options.adaptive and coverage is None:
        raise DataError("--adaptive is about intervals: give --coverage too, for instance --coverage 0.9")
    table = read_options(options.data, options, decided=True).drop_columns(options.drop)
    text = predictions_csv(
        model, table, coverage, options.proba, options.id, options.unknown, adaptive=options.adaptive
    )
    interruption.check()
    write(options.out, text)
    for line in model.remarks(table):
        print(f"substrate: {line}", file=sys.stderr)
    if coverage is not None:
        said = interval_statement(model.estimator, model.preparation, coverage, adaptive=options.adaptive)
        print(f"substrate: {said}", file=sys.stderr)
    return 0


def _predict_series(options: argparse.Namespace, regressor: Any, notes: Mapping[str, Any]) -> int:
    from problems.command_line.choices import read_options
    from problems.command_line.series import predict_series
    from problems.estimators.series.narx import NARXRegressor

    if options.proba or options.id or options.adaptive:
        raise DataError(
            "forecasts of a series have no --proba and no --id, and their intervals are adaptive as they are; leave "
            "--proba, --id and --adaptive out"
        )
    model = NARXRegressor.restore(regressor, notes, options.model)
    target = notes["series"].get("target")
    table = read_options(options.data, options, decided=True).drop_columns(options.drop)
    text, said = predict_series(model, target if isinstance(target, str) else None, table, options.coverage)
    write(options.out, text)
    print(f"substrate: {said}", file=sys.stderr)
    return 0


def _export(options: argparse.Namespace, interruption: Interruption) -> int:
    from problems.command_line.export import export_model

    refuse_unwritable(options.out, options.model)
    with printed_warnings():
        lines = export_model(options, interruption)
    print("\n".join(lines))
    return 0


def _map(options: argparse.Namespace) -> int:
    from problems.command_line.map import make_map, refuse_picture

    refuse_picture(options.out)
    refuse_unwritable(options.out, options.data)
    refuse_unwritable(options.scores, options.data, options.out)
    with printed_warnings():
        drawn = make_map(options)
    with written_whole(options.out) as stream:
        stream.write(drawn.picture)
    if options.scores is not None:
        write(options.scores, drawn.csv())
    if not options.quiet:
        print("\n".join([*drawn.remarks, drawn.certificate.promise, f"written: {options.out}"]))
    return _exit_status(drawn.certificate)


def _datasets(options: argparse.Namespace) -> int:
    from problems.tables.embedded_sets import as_csv, listing

    if options.name is None:
        if options.out is not None:
            raise DataError("--out writes one data set: name it, for instance motorcycle")
        print(listing())
        return 0
    refuse_unwritable(options.out)
    write(options.out, as_csv(options.name))
    return 0


def _verify(options: argparse.Namespace) -> int:
    from problems.command_line.verdicts import announce, as_json, table
    from problems.command_line.verify import verify

    names = [*options.names, *([] if options.problem is None else [options.problem])]
    settings = {"time_limit": options.time_limit, "strict": options.strict, "prove": options.prove}
    lines, is_announced = [], not sys.stderr.isatty() and not options.json
    for line in verify(names or None, options.solver, **settings):
        lines.append(line)
        if is_announced:  # no bar is drawn into a file or a pipe
            print(announce(line, len(lines)), file=sys.stderr, flush=True)
    print(as_json(lines) if options.json else table(lines))
    return 0 if lines and all(line.passes for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
