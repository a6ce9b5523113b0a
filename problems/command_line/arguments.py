"""The arguments of ``substrate``, in a module that imports little so that help is printed quickly."""

import argparse
from typing import Any, TypeAlias

import substrate

__all__ = ["parser"]

_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_KERNELS = ("rbf", "linear", "polynomial", "laplacian", "matern")
_CODES = """
exit status: 0 all is well, 1 a certificate or check fails, 2 the command or its data
cannot be used, 130 interrupted by Ctrl-C: files are as before, or complete
"""

_FIT = f"""examples:
  substrate fit @motorcycle --out model.npz --report report.html
  substrate fit houses.csv --target price --id address --impute median
  substrate fit visits.csv --target score --group patient
  substrate fit sales.csv --target sold --time day

The command prints how the table was prepared, the error on held-out rows next to the
error of a guess (the mean, or the most frequent class), which inputs matter, and
which kernel and gamma were chosen. --verbose and the report show the certificates.

A table needs no preparation: separators, encodings, decimal commas, thousands,
percent and currency signs are recognised; an ambiguous table is refused with the
option that decides. Text with few values is a category, text that differs in most
rows is left out, --dates or --time name dates, and missing cells are refused until
--impute says what to do. A quarter of the rows is held out to test the model; the
model that is saved is then fitted again to all rows.
{_CODES}"""

_PREDICT = f"""examples:
  substrate predict model.npz new.csv --out predictions.csv
  substrate predict model.npz new.csv --coverage 0.9
  substrate predict classifier.npz new.csv --proba

The new table is treated like the training table: columns are found by name (others
are ignored), dates and categories are coded and missing cells filled in as the model
file says, and the columns of --id come first.

With --coverage a regression adds columns lower and upper, and a classification
set_CLASS, 1 for the labels that belong to a set with that coverage; standard error
states the guarantee. A label that a spreadsheet would take for a formula is written
with an apostrophe before it.
{_CODES}"""

_EXPORT = """examples:
  substrate export model.npz model.onnx
  substrate export model.npz model.onnx --tol 0.01

The file does not need this package. It states how far its outputs can be from the
exact formula of the model in the box of its support vectors, with all rounding, if
exp and pow are accurate to 4 units of the last place.
Its inputs are the columns of the model in their original units: one 0-1 column for
each category, and days since the first date for dates.
"""

_MAP = f"""examples:
  substrate map houses.csv --out houses.png
  substrate map @ripley --color yc --kernel rbf --sigma 0.8

The picture shows every row in the plane of two kernel principal components: rows
that are similar by the kernel are near each other. Columns are treated as by
"substrate fit"; --color names a column that the colour shows and that is not an
input. The certificate bounds the distance of the eigenvalues from the exact ones.
{_CODES}"""

_DATASETS = """examples:
  substrate datasets
  substrate datasets motorcycle --out motorcycle.csv"""

_VERIFY = f"""examples:
  substrate verify
  substrate verify ls_svm_regression ls_svm_classification
  substrate verify --solver CLARABEL --time-limit 10

A solver holds if recomputed residuals accept its point, otherwise it misses. A problem passes if at least two solvers
hold and all that hold agree with the closed form, or with each other where there is none. With --solver this solver
must hold, and agree with the closed form or else with the first other solver that holds. Solvers skip problems with
cones that they do not support. Misses are shown and counted.
{_CODES}"""


def parser(full: bool = False) -> argparse.ArgumentParser:
    """Return the parser of the whole command; ``full`` shows all options of ``substrate fit`` in its help."""
    whole_parser = argparse.ArgumentParser(
        prog="substrate",
        description="Least-squares support vector machines, declared as convex problems and certified.",
        epilog=f"first steps: substrate fit @motorcycle --out model.npz --report report.html\n{_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole_parser.add_argument("--version", action="version", version=f"%(prog)s {substrate.__version__}")
    commands = whole_parser.add_subparsers(dest="command", required=True)
    about = "fit a model to a table, and report how good it is"
    _fit(_command(commands, "fit", about, _FIT), full)
    _predict(_command(commands, "predict", "predict the rows of a table by a model file", _PREDICT))
    _export(_command(commands, "export", "write a model file as an ONNX graph", _EXPORT))
    _map(_command(commands, "map", "draw the rows of a table in the plane of two kernel components", _MAP))
    about = "list the embedded data sets, or write one as CSV"
    datasets = _command(commands, "datasets", about, _DATASETS)
    datasets.add_argument("name", nargs="?", help="the data set to write")
    datasets.add_argument("--out", metavar="FILE.csv", help="file to write to (standard output)")
    about = "declare every problem on embedded data, solve it several ways and compare"
    _verify(_command(commands, "verify", about, _VERIFY))
    return whole_parser


def _command(commands: _Commands, name: str, text: str, epilog: str) -> argparse.ArgumentParser:
    description = f"{text[0].upper()}{text[1:]}."
    raw = argparse.RawDescriptionHelpFormatter
    return commands.add_parser(name, help=text, description=description, epilog=epilog, formatter_class=raw)


def _fit(fit: argparse.ArgumentParser, full: bool) -> None:
    fit.add_argument("data", help="a CSV, Excel or Parquet file, or @NAME for an embedded data set")
    fit.add_argument("--target", metavar="COLUMN", help="the column to predict (not needed for an embedded data set)")
    fit.add_argument("--out", metavar="MODEL.npz", help="file to write the model to")
    fit.add_argument("--report", metavar="REPORT.html", help="file to write a report to: one page, no network needed")
    fit.add_argument(
        "--task",
        choices=("auto", "regression", "classification"),
        default="auto",
        help="by default decided by the target",
    )
    _columns(fit)
    fit.add_argument(
        "--group", metavar="COLUMN", help="rows with the same value in this column are held out and left out together"
    )
    fit.add_argument(
        "--time",
        nargs="?",
        const=True,
        metavar="COLUMN",
        help="hold out the last rows, by a column of dates or numbers or, without one, by the order of the table",
    )
    models = ("auto", "stack", "lssvm", "sparse")
    text = "one machine (auto: lssvm, or sparse for more than 2000 rows), or the weighted mean of several (stack)"
    fit.add_argument("--model", choices=models, default="auto", help=text)
    fit.add_argument("--seconds", type=float, metavar="SECONDS", help="about how long the fit may take")
    fit.add_argument("--verbose", action="store_true", help="print all remarks, and the whole certificate")
    fit.add_argument("--quiet", action="store_true", help="print nothing unless something is wrong")
    fit.add_argument("--help-all", action="help", help="show the other options too")

    def further(name: str, text: str, **options: Any) -> None:
        fit.add_argument(name, help=text if full else argparse.SUPPRESS, **options)

    further("--kernel", "the best of all families, or one kernel", choices=("families", *_KERNELS), default="families")
    further("--sigma", "width of the kernel; by default from the data", type=float)
    further("--gamma", "weight of the errors; by default chosen", type=float)
    further("--validation", "share of the rows held out as a test (0.25)", type=float, default=0.25, metavar="SHARE")
    further(
        "--max-evaluations", "the most kernels that the gradient search tries; 0 for no search", type=int, metavar="N"
    )
    further("--n-basis", "basis vectors of a sparse model; by default chosen", type=int, metavar="N")
    further("--class-weight", "give classes of unequal size the same weight", choices=("balanced",))
    text = "categories as 0-1 inputs, or by a kernel with one width per column"
    further("--categorical", text, choices=("one-hot", "kernel"), default="one-hot")
    further("--no-standardize", "keep the inputs in their original units", dest="standardize", action="store_false")
    further("--no-refit", "save the model of the training rows, not of all rows", dest="refit", action="store_false")
    further("--random-state", "seed of the rows held out (0)", type=int, default=0, metavar="SEED")
    _separators(fit, full)


def _columns(command: argparse.ArgumentParser) -> None:
    """Add the options that say how the columns of a table are used."""
    for name, text in (
        ("--drop", "columns to leave out"),
        ("--id", "columns that name the rows: not inputs, but written next to the predictions"),
        ("--categories", "columns, also of numbers, whose values are categories"),
        ("--dates", "columns of dates, to use as days since the first one"),
    ):
        command.add_argument(name, nargs="+", default=[], metavar="COLUMN", help=text)
    text = "missing cells: refuse them, fill in the median (or a separate category), or drop their rows"
    command.add_argument("--impute", choices=("refuse", "median", "drop"), default="refuse", help=text)


def _separators(command: argparse.ArgumentParser, full: bool = True) -> None:
    """Add the options that say how a file is written, where that cannot be recognised."""
    for name, metavar, text in (
        ("--delimiter", "CHARACTER", "between the cells of a CSV file, if not recognised"),
        ("--encoding", "NAME", "encoding of a CSV file, as cp1252 or utf-16, if not recognised"),
        ("--decimal", "MARK", "decimal mark of numbers, . or , if not recognised"),
        ("--thousands", "MARK", "mark between thousands: a comma, a point, a space or an apostrophe"),
    ):
        command.add_argument(name, metavar=metavar, help=text if full else argparse.SUPPRESS)


def _predict(predict: argparse.ArgumentParser) -> None:
    predict.add_argument("model", help="a file of substrate fit --out, or of save() in Python")
    predict.add_argument("data", help="a CSV, Excel or Parquet file, or @NAME")
    predict.add_argument("--out", metavar="FILE.csv", help="file to write to (standard output)")
    text = "add columns lower and upper that cover this share of new targets, or set_CLASS, for instance 0.9"
    predict.add_argument("--coverage", type=float, metavar="SHARE", help=text)
    predict.add_argument("--adaptive", action="store_true", help="intervals that are wide where errors are large")
    predict.add_argument("--proba", action="store_true", help="add columns probability_CLASS of a classifier")
    text = "categories that training did not see: refuse them, or predict as for none of the known categories"
    predict.add_argument("--unknown", choices=("refuse", "ignore"), default="refuse", help=text)
    text = "columns to write before the predictions; by default the id of the model; without names, none"
    predict.add_argument("--id", nargs="*", metavar="COLUMN", help=text)
    predict.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    predict.add_argument("--max-bytes", type=float, metavar="BYTES", help="memory that the model may take (1 GiB)")
    _separators(predict)


def _export(export: argparse.ArgumentParser) -> None:
    export.add_argument("model", metavar="MODEL.npz", help="a model file of substrate fit --out, or of save")
    export.add_argument("out", metavar="OUT.onnx", help="file to write")
    export.add_argument("--tol", type=float, help="largest loss of float32 (a thousandth of the spread)")
    export.add_argument("--no-proba", action="store_true", help="leave out the probabilities of classes")
    export.add_argument("--max-bytes", type=float, metavar="BYTES", help="memory that MODEL.npz may take (1 GiB)")


def _map(map_: argparse.ArgumentParser) -> None:
    map_.add_argument("data", help="a CSV, Excel or Parquet file, or @NAME")
    map_.add_argument("--out", default="map.png", metavar="FILE", help="file to write: .png, .svg or .pdf (map.png)")
    map_.add_argument("--color", metavar="COLUMN", help="a column that the colour shows; it is not an input")
    map_.add_argument("--kernel", choices=_KERNELS, default="rbf", help="the kernel (rbf)")
    map_.add_argument("--sigma", type=float, help="width of the kernel; by default from the data")
    _columns(map_)
    map_.add_argument(
        "--no-standardize", dest="standardize", action="store_false", help="keep the inputs in their original units"
    )
    map_.add_argument("--quiet", action="store_true", help="print nothing but errors")
    map_.set_defaults(group=None, time=None, categorical="one-hot")
    _separators(map_)


def _verify(verify: argparse.ArgumentParser) -> None:
    text = "only these problem files, for instance ls_svm_regression"
    verify.add_argument("names", nargs="*", metavar="PROBLEM", help=text)
    verify.add_argument("--solver", help="only this solver of cvxpy, by name")
    text = "time for each solver (60); one that needs more is stopped and counts as a miss"
    verify.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS", help=text)
