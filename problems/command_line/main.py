"""The command ``substrate``: exit codes, and outputs that are checked before any work and written whole."""

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from problems.command_line.words import in_shell
from substrate.errors import DataError, DeclarationError, SubstrateError
from substrate.progress import Progress
from substrate.whole_file import refuse_inputs, writable_file, written_whole

__all__ = ["main"]


def _refuse_unwritable(path: str | None, *taken: str | None) -> None:
    """Refuse, before any long work, a ``path`` that exists and is not a regular file, or is one of ``taken``."""
    if path is not None:
        writable_file(path)
        refuse_inputs(path, *taken)


def _complain(line: object) -> None:
    print(f"substrate: {in_shell(str(line))}", file=sys.stderr)


@contextmanager
def _printed_warnings() -> Iterator[None]:
    """Print warnings of the block, each once, as lines of this command on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for line in dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught):
        _complain(line)


def _write(path: str | None, text: str) -> None:
    """Write to standard output, or to a file that is whole or absent."""
    if path is None:
        sys.stdout.write(text)
        return
    with written_whole(path) as stream:
        stream.write(text.encode("utf-8"))


def _end(number: int, frame: Any) -> None:
    """End the process by SIGTERM as by an exit, so that temporary files are removed."""
    sys.exit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    0 when all is well, 1 when a check failed, 2 when the command or its data cannot be used, 130 when Ctrl-C ended it
    and 143 when SIGTERM did.
    """
    if arguments is None:
        signal.signal(signal.SIGTERM, _end)
    try:
        status = _answer(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()  # here, where what goes wrong is handled
        return status
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("\nsubstrate: interrupted; every file is as before, or complete", file=sys.stderr)
        return 130
    # ValueError: scikit-learn's checks of data
    except (SubstrateError, ImportError, OSError, ValueError, MemoryError) as error:
        _complain(error or type(error).__name__)
        return 2


def _answer(arguments: Sequence[str]) -> int:
    # here and below, not above: imports can be interrupted, and --help must not wait for scikit-learn or cvxpy
    from problems.command_line.arguments import parser

    options = parser(full="--help-all" in arguments).parse_args(arguments)
    commands: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "fit": _fit,
        "predict": _predict,
        "export": _export,
        "map": _map,
        "datasets": _datasets,
        "verify": _verify,
    }
    return commands[options.command](options)


def _fit(options: argparse.Namespace) -> int:
    from problems.tables.columns import treat
    from problems.tables.embedded_sets import target_of
    from problems.tables.options import check_options
    from problems.tables.table import named_columns, read_table

    check_options(options)
    _refuse_unwritable(options.out, options.data)
    _refuse_unwritable(options.report, options.data, options.out)
    if options.report is not None and find_spec("matplotlib") is None:
        raise DataError('the pictures of a report need matplotlib: pip install "lssvm-substrate[tables]"')
    progress = Progress(2 + (options.out is not None) + (options.report is not None))
    try:
        progress.step(f"reading {options.data}")
        table = read_table(options.data, options.delimiter, options.decimal, options.thousands, options.encoding)
        target, task = options.target, options.task
        if target is None and not options.data.startswith("@"):
            raise DataError(f"--target is missing; {options.data} has the columns {named_columns(table.columns)}")
        if target is None:  # an embedded data set has a target
            target, classes = target_of(options.data[1:])
            task = classes if task == "auto" else task
        treated = treat(table, options, target, task)
        task, why = treated.task, treated.remarks[0]
        if options.class_weight is not None and task != "classification":
            raise DeclarationError("--class-weight weighs classes, and this is a regression; leave it out")

        from problems import TabularClassifier, TabularRegressor  # a refusal need not wait for scikit-learn
        from problems.command_line.report import report
        from problems.command_line.summary import describe_file, said, summary
        from problems.tables.predictions import make_intervals
        from problems.tables.quality import importance, is_reliable

        kind = TabularRegressor if task == "regression" else TabularClassifier
        parameters = {name: value for name, value in vars(options).items() if name in kind().get_params()}
        model = kind(**parameters | {"verbose": 1})
        progress.step("fitting")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the warnings of the fit are printed below
            model.fit(table, target)
            model.set_params(verbose=0)
            importances = importance(model)
            if options.out is not None:
                progress.step("repeating the search for intervals")
                make_intervals(model.estimator_, model.judged_.X[:1])
            if options.report is not None:
                progress.step("drawing the report")
                page = report(model, why, options.out, importances)
    finally:
        progress.close()
    if options.report is not None:
        _write(options.report, page)
    good = [is_reliable(each.certificate_, model.quality_) for each in (model.judged_.machine, model.estimator_)]
    for warning in model.judged_.warnings:
        if options.verbose or not all(good) or "the certificate does not hold" not in warning:
            _complain(warning)
    if not options.quiet:
        lines = summary(model, why, importances, verbose=options.verbose, report=options.report)
        print(said(lines), flush=True)
    if options.out is not None:  # last: a file that cannot be written takes nothing else with it
        with _printed_warnings():
            model.save(options.out)
    if not options.quiet:
        print(said([describe_file(model, options.out)]), flush=True)
    certificates = [machine.certificate_ for machine in (model.judged_.machine, model.estimator_)]
    for certificate in {id(certificate): certificate for certificate in certificates}.values():
        if not is_reliable(certificate, model.quality_):
            _complain(f"the certificate does not hold: {', '.join(row.name for row in certificate.failures)}")
    return 0 if all(good) else 1


def _load(options: argparse.Namespace) -> Any:
    """Return the model of a file."""
    import problems

    with _printed_warnings():
        return problems.load(options.model, options.max_bytes)


def _predict(options: argparse.Namespace) -> int:
    from problems.tables.estimators import around
    from problems.tables.predictions import guarantee_in_words, predictions_csv

    _refuse_unwritable(options.out, options.data, options.model)
    model = _load(options)
    if not hasattr(model, "kernel_") and not hasattr(model, "preparation_"):
        raise DataError(
            f"{options.model} holds a {type(model).__name__}, which predicts no rows of a table; use it in Python"
        )
    if not hasattr(model, "preparation_"):  # a machine of save(), which takes columns unchanged
        model = around(model)
    if options.adaptive and options.coverage is None:
        raise DataError("adaptive=True needs intervals: give --coverage too, for instance --coverage 0.9")
    names = ("unknown", "delimiter", "decimal", "thousands", "encoding")
    model.set_params(**{name: getattr(options, name) for name in names})
    table = model.read(options.data).drop_columns(options.drop)
    with _printed_warnings():
        text = predictions_csv(model, table, options.coverage, options.proba, options.id, adaptive=options.adaptive)
    _write(options.out, text)
    for line in model.remarks_on(table):
        _complain(line)
    if options.coverage is not None:
        _complain(guarantee_in_words(model, options.coverage, adaptive=options.adaptive))
    return 0


def _export(options: argparse.Namespace) -> int:
    from problems.export import to_onnx

    _refuse_unwritable(options.out, options.model)
    if not options.out.lower().endswith(".onnx"):
        raise DataError(f"the file is an ONNX graph, but {options.out} does not end with .onnx; rename it")
    model = _load(options)
    with _printed_warnings():
        export = to_onnx(model, options.out, tol=options.tol, probabilities=not options.no_proba)
    print(f"{export}\nwritten: {options.out}")
    return 0


def _map(options: argparse.Namespace) -> int:
    from problems.command_line.map import make_map, refuse_picture

    refuse_picture(options.out)
    _refuse_unwritable(options.out, options.data)
    with _printed_warnings():
        picture, certificate, remarks = make_map(options)
    with written_whole(options.out) as stream:
        stream.write(picture)
    if not options.quiet:
        print("\n".join([*map(in_shell, remarks), certificate.promise, f"written: {options.out}"]))
    if not certificate.holds:
        _complain(f"the certificate does not hold: {', '.join(row.name for row in certificate.failures)}")
    return 0 if certificate.holds else 1


def _datasets(options: argparse.Namespace) -> int:
    from problems.tables.embedded_sets import as_csv, listing

    if options.name is None:
        if options.out is not None:
            raise DataError("--out writes one data set: name it, for instance motorcycle")
        print(listing())
        return 0
    _refuse_unwritable(options.out)
    _write(options.out, as_csv(options.name))
    return 0


def _verify(options: argparse.Namespace) -> int:
    from problems.command_line.verify import announce, table, verify

    lines = []
    for line in verify(options.names or None, options.solver, time_limit=options.time_limit):
        lines.append(line)
        if not sys.stderr.isatty():  # no bar is drawn into a file or a pipe
            print(announce(line, len(lines)), file=sys.stderr, flush=True)
    print(table(lines))
    return 0 if lines and all(line.passes for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
