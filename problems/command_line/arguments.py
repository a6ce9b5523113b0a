"""The arguments of ``substrate``, in a module of their own so that help is printed quickly."""

import argparse
from typing import TypeAlias

import substrate
from problems.command_line.export import EXPORT, add_export
from problems.command_line.fit_arguments import FIT, PREDICT, add_fit, add_predict
from substrate.solvers import ORDER

__all__ = ["parser"]

_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_MODELS = ("auto", "stack", "lssvm", "robust", "sparse", "l1", "structure", "fused")
_KERNELS = ("families", "rbf", "linear", "polynomial", "laplacian", "matern")
_CODES = (
    "exit status: 0 all is well, 1 a certificate or check fails, 2 the command or its\n"
    "data cannot be used, 130 interrupted by Ctrl-C (143 by SIGTERM): existing files\n"
    "are unchanged, or complete"
)

_MAP = f"""examples:
  substrate map houses.csv --out houses.html
  substrate map @ripley --color yc --kernel rbf --sigma 0.8
  substrate map customers.csv --clusters 4 --scores scores.csv

The picture shows every row in the plane of two kernel principal components, so that
rows which the kernel finds alike are near each other. Columns are treated as by
"substrate fit"; --color names one that is shown by colour and is no input. The
certificate says how near the eigenvalues are to exact ones.
{_CODES}"""

_DATASETS = """examples:
  substrate datasets
  substrate datasets motorcycle --out motorcycle.csv"""

_VERIFY = f"""examples:
  substrate verify
  substrate verify ls_svm_regression ls_svm_classification
  substrate verify --solver CLARABEL --time-limit 10
  substrate verify --strict --json
  substrate verify --prove

A solver holds where recomputed residuals accept its point, otherwise it misses. A problem passes where at
least two solvers hold and all that hold agree with the closed form, or with each other where there is none. With
--solver that one must hold, and agree with the closed form or else with the first other solver that holds. A solver is
not asked for problems with cones that it does not have. Misses are shown and counted; they fail a problem only with
--strict, or when too few solvers are left.

With --prove the closed forms of least squares are proved in ball arithmetic as well: the column "proved" states how
near their fitted values are to those of the exact optimum, as a share of the spread of y. It needs python-flint,
pip install "lssvm-substrate[proof]".
{_CODES}"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command."""
    whole_parser = argparse.ArgumentParser(
        prog="substrate",
        description="Least-squares support vector machines, declared as convex problems and certified.",
        epilog=f"first steps: substrate fit @motorcycle --out model.npz --report report.html\n{_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole_parser.add_argument("--version", action="version", version=f"%(prog)s {substrate.__version__}")
    commands = whole_parser.add_subparsers(dest="command", required=True)
    about = "fit a model to a table, report how good it is, and prove what can be proved"
    add_fit(_command(commands, "fit", about, FIT + _CODES), _MODELS, _KERNELS)
    add_predict(_command(commands, "predict", "predict the rows of a table by a model file", PREDICT + _CODES))
    add_export(_command(commands, "export", "write a model file as an ONNX graph", EXPORT + _CODES))
    _map(commands)
    _datasets(commands)
    _verify(commands)
    return whole_parser


def _command(commands: _Commands, name: str, text: str, epilog: str) -> argparse.ArgumentParser:
    description = f"{text[0].upper()}{text[1:]}."
    raw = argparse.RawDescriptionHelpFormatter
    return commands.add_parser(name, help=text, description=description, epilog=epilog, formatter_class=raw)


_MAP_OUT = "file to write: .png, .svg, .pdf, or .html with the certificate (map.png)"


def _map(commands: _Commands) -> None:
    map_ = _command(commands, "map", "draw the rows of a table in the plane of two kernel components", _MAP)
    map_.add_argument("data", help="a CSV or Parquet file, or @NAME")
    map_.add_argument("--out", default="map.png", metavar="FILE", help=_MAP_OUT)
    map_.add_argument("--color", metavar="COLUMN", help="a column that the colour shows; it is no input")
    map_.add_argument("--clusters", type=int, metavar="K", help="find K clusters, shown unless --color is given")
    map_.add_argument("--scores", metavar="FILE.csv", help="write the scores of all rows too, and their clusters")
    map_.add_argument("--kernel", choices=_KERNELS[1:], default="rbf", help="rbf unless given")
    map_.add_argument("--sigma", type=float, help="width of the kernel; unless given, from the data")
    map_.add_argument("--one-hot", nargs="+", default=[], metavar="COLUMN", help="categories to code as 0 and 1")
    map_.add_argument("--date", nargs="+", default=[], metavar="COLUMN", help="columns that hold dates")
    map_.add_argument("--id", nargs="+", default=[], metavar="COLUMN", help="columns that name rows, no inputs")
    map_.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    map_.add_argument("--impute", choices=("refuse", "median", "drop"), default="refuse", help="missing cells (refuse)")
    map_.add_argument("--no-standardise", action="store_true", help="leave the columns in their own units")
    map_.add_argument("--delimiter", metavar="CHARACTER", help="between the cells of a CSV file; found unless given")
    map_.add_argument("--decimal", metavar="MARK", help="decimal mark of numbers: . or ,")
    map_.add_argument("--thousands", metavar="MARK", help="mark between thousands")
    map_.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _datasets(commands: _Commands) -> None:
    datasets = _command(commands, "datasets", "list the embedded data sets, or write one as CSV", _DATASETS)
    datasets.add_argument("name", nargs="?", help="which one")
    datasets.add_argument("--out", metavar="FILE.csv", help="file to write to; standard output unless given")


def _verify(commands: _Commands) -> None:
    verify = _command(
        commands, "verify", "declare every problem on embedded data, solve it several ways and compare", _VERIFY
    )
    verify.add_argument(
        "names", nargs="*", metavar="PROBLEM", help="only these problem files, for instance ls_svm_regression"
    )
    verify.add_argument("--problem", metavar="PROBLEM", help="one more of them")
    verify.add_argument("--solver", help=f"only this solver: {', '.join(ORDER)}, or another of cvxpy by name")
    verify.add_argument(
        "--time-limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="for each solver (60), which is then ended and counts as a miss",
    )
    verify.add_argument("--strict", action="store_true", help="a solver that misses is a failure too")
    verify.add_argument(
        "--prove", action="store_true", help="prove closed forms in ball arithmetic, where that is known"
    )
    verify.add_argument("--json", action="store_true", help="machine-readable output")
