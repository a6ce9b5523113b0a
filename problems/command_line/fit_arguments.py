"""The arguments of ``substrate fit`` and ``substrate predict``."""

import argparse
from collections.abc import Sequence
from typing import TypeAlias

from problems.tables.sizes import BASIS, EVALUATIONS, MOST_CATEGORIES, MOST_DENSE

__all__ = ["FIT", "PREDICT", "add_fit", "add_predict"]

_Group: TypeAlias = "argparse._ActionsContainer"

FIT = f"""examples:
  substrate fit @motorcycle --out model.npz --report report.html
  substrate fit houses.csv --target price
  substrate fit houses.csv --target price --id address --impute median
  substrate fit visits.csv --target score --group patient
  substrate fit sales.csv --target sold --date day --split time
  substrate fit @ionosphere --model l1 --out model.npz
  substrate fit @additive_function --model structure --report inputs.html
  substrate fit @sunspots --series --out model.npz

What is printed: what was done to the table, one line each; the error on rows
that the model was not fitted to, beside that of a prediction that looks at no
input; what was chosen, and what is proved of the choice; and whether the
certificate of the numbers holds.

how tables are read:
  Cells are separated by commas, or by semicolons, tabs or bars where the header
  shows it; decimal commas are then recognised too. Thousands separated by commas,
  points, spaces or apostrophes, percent and currency signs are recognised where
  all numbers of a column leave one reading; 1,777 beside 365 is refused, with
  both readings, until --thousands or --decimal says which.
  The index that pandas writes, empty columns, and texts that differ in most rows
  (names) are left out. Texts of at most {MOST_CATEGORIES} values are categories, one 0-1 input
  each. Dates need --date.
  Rows without a target are left out, and counted.
  Empty cells, NA, N/A, NaN, null, None and ? are missing, and refused unless
  --impute says what to do.

models:
  auto       lssvm; from more than {MOST_DENSE} training rows on, sparse
  stack      the weighted mean of all machines that the search for lssvm fits,
             weights by leave-one-out, with a proof of the weights
  lssvm      one least-squares support vector machine; gamma and kernel by
             leave-one-out, with a proof
  robust     the same, outliers weighted down (regression only)
  sparse     the same on few basis vectors: memory and time grow with the rows,
             not with their square
  l1         few support vectors by a 1-norm; zeta by the held-out rows, with a
             proof
  structure  a sum of functions of one input each, few of them large; rho likewise
  fused      least-squares support vector machine; gamma and kernel by the
             held-out rows, with a proof

A quarter of the rows is held out to measure its error. The model that is saved is
then fitted again to all rows, with what was chosen before (not l1 and structure).
With --group whole groups are held out, and gamma and kernel are chosen by leaving
whole groups out: for rows of one patient, batch or site. With --split time the last
rows are held out, in the order of the first --date column or of the table, and every
row is left out with its neighbours.
With --series the last quarter is held out instead, and forecast one step at a time
and freely, with adaptive intervals.
"""

PREDICT = """examples:
  substrate predict model.npz new.csv --out predictions.csv
  substrate predict model.npz new.csv | head
  substrate predict model.npz new.csv --coverage 0.9
  substrate predict classifier.npz new.csv --proba

The new table is treated as the training table was: columns are found by name
(others are ignored), dates and categories are coded and missing cells filled in
as the model file says, and the columns of --id come first.

With --proba classes have columns probability_CLASS. With --coverage they have
columns set_CLASS, 1 for the labels that belong to a set with that coverage and 0
for the others; numbers have columns lower and upper: of fewer than 1000 rows by
folds that repeat the search, else by leaving every training row out, or by
Gaussian error bars; for a model of substrate fit --no-refit, by the errors of the
rows that it held out where these only judged the model. With --adaptive they are
wide where errors are large. What they guarantee is printed on standard error.

The rows given to a model of substrate fit --series follow those of its training
table in time: where they have the target, each is predicted one step ahead from
the targets before it, and otherwise all of them by a free run.

A label that a spreadsheet would take for a formula (it begins with =, +, -, @, a
tab or a line break, and is no number) is written with an apostrophe before it; a
program that reads the labels back takes that apostrophe away.
"""


def add_fit(fit: argparse.ArgumentParser, models: Sequence[str], kernels: Sequence[str]) -> None:
    """Give the parser of ``substrate fit`` its arguments."""
    fit.add_argument("data", nargs="?", help="a CSV or Parquet file, or @NAME")
    fit.add_argument("--dataset", metavar="NAME", help="the same as @NAME")
    fit.add_argument("--target", metavar="COLUMN", help="what to predict (known for an embedded data set)")
    fit.add_argument(
        "--task",
        choices=("auto", "regression", "classification"),
        default="auto",
        help="auto: classification if the target is not numeric, or has two values",
    )
    fit.add_argument("--out", metavar="MODEL.npz", help="file to write the model to")
    fit.add_argument("--report", metavar="REPORT.html", help="file to write a report to: one page, no network needed")
    fit.add_argument("--verbose", action="store_true", help="print all that was tried, and the whole certificate")
    fit.add_argument("--quiet", action="store_true", help="print nothing unless something is wrong")
    _add_columns(fit.add_argument_group("the table"))
    _machine(fit.add_argument_group("the model"), models, kernels)
    judged = fit.add_argument_group("validation")
    judged.add_argument(
        "--validation",
        type=float,
        default=0.25,
        metavar="SHARE",
        help="share of the rows held out (0.25); with 0 every training row is left out in turn instead",
    )
    judged.add_argument("--seed", type=int, default=0, help="seed of the rows held out (0)")
    _add_split(judged)
    judged.add_argument(
        "--no-refit", action="store_true", help="save the model of the training rows, not one fitted again to all rows"
    )
    series = fit.add_argument_group("a series")
    series.add_argument(
        "--series", action="store_true", help="rows are in the order of time: predict the target from its own past"
    )
    series.add_argument(
        "--lags", type=int, metavar="N", help="past values of the target; unless given, by left-out rows"
    )
    series.add_argument(
        "--input-lags",
        type=int,
        default=0,
        metavar="N",
        help="past values of every other column (0: they are not used)",
    )
    series.add_argument("--horizon", type=int, default=1, metavar="STEPS", help="steps that are predicted at once (1)")


def _add_split(group: _Group) -> None:
    """Give a parser what says which rows belong together."""
    group.add_argument(
        "--group",
        metavar="COLUMN",
        help="rows of one value in this column belong together: held out and left out whole; it is no input",
    )
    group.add_argument(
        "--split",
        choices=("random", "time"),
        default="random",
        help="rows held out: drawn at random, or the last in time, by the first --date column or in the order of "
        "the table (random)",
    )


def _add_columns(group: _Group) -> None:
    """Give a parser what says how the columns of a table are read."""
    group.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    group.add_argument(
        "--id",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="columns that name the rows: no inputs, but written beside the predictions",
    )
    group.add_argument(
        "--one-hot",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="categorical columns, also of numbers, to code as 0 and 1",
    )
    group.add_argument(
        "--categorical",
        choices=("one-hot", "kernel"),
        default="one-hot",
        help="categories as 0 and 1, or by a kernel of their own with a width for each column of them (one-hot)",
    )
    group.add_argument(
        "--ordered",
        nargs="+",
        default=[],
        metavar="COLUMN:ORDER",
        help="categories with an order, to use as ranks: size:small,middle,large",
    )
    group.add_argument(
        "--date", nargs="+", default=[], metavar="COLUMN", help="columns of dates, to use as days since the first one"
    )
    group.add_argument(
        "--impute",
        choices=("refuse", "median", "drop"),
        default="refuse",
        help="missing cells: refuse them; fill in the median of the training rows, of categories one of their own; or "
        "drop their rows (refuse)",
    )
    group.add_argument("--no-standardise", action="store_true", help="leave the inputs in their own units")
    _separators(group)


def _separators(group: _Group) -> None:
    group.add_argument("--delimiter", metavar="CHARACTER", help="between the cells of a CSV file, if not recognised")
    group.add_argument(
        "--encoding",
        metavar="NAME",
        help="encoding of a CSV file, as cp1252 or utf-16, if not recognised",
    )
    group.add_argument("--decimal", metavar="MARK", help="decimal mark of a CSV file, . or , if not recognised")
    group.add_argument(
        "--thousands",
        metavar="MARK",
        help="mark between thousands: a comma, a point, a space or an apostrophe, where the numbers leave it open",
    )


def _machine(group: _Group, models: Sequence[str], kernels: Sequence[str]) -> None:
    group.add_argument("--model", choices=models, default="auto", help="see below (auto)")
    group.add_argument(
        "--kernel",
        choices=kernels,
        default="families",
        help="families: the best of linear, rbf, laplacian and matern kernels at several widths, and then of those "
        "along the slopes of the error; a single one is tried at a few widths (families)",
    )
    group.add_argument("--sigma", type=float, help="width of the kernel, rbf unless named; unless given, from the data")
    group.add_argument(
        "--evaluations",
        type=int,
        metavar="N",
        help=f"largest number of kernels in the search along slopes ({EVALUATIONS}; for many rows 0 unless given)",
    )
    group.add_argument(
        "--seconds", type=float, metavar="S", help="try fewer kernels where all of them would take longer"
    )
    group.add_argument("--gamma", type=float, help="weight of the errors (lssvm, robust, sparse); otherwise chosen")
    group.add_argument("--zeta", type=float, help="weight of the 1-norm (l1); otherwise chosen")
    group.add_argument("--rho", type=float, help="weight of the maximal variations (structure); otherwise chosen")
    group.add_argument(
        "--monotone",
        nargs="+",
        metavar="COLUMN:SIGN",
        help="the prediction rises (1) or falls (-1) with a column, everywhere between the rows, with proof: price:-1 "
        "(lssvm; gamma is chosen by folds, or given)",
    )
    group.add_argument(
        "--convex", nargs="+", metavar="COLUMN", help="the prediction is convex along these columns, in the same way"
    )
    group.add_argument(
        "--bounds",
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="lowest and highest prediction, in the same way; none for no bound",
    )
    group.add_argument(
        "--class-weight",
        nargs="+",
        metavar="WEIGHT",
        help="balanced: classes count alike, however many rows they have; or LABEL=WEIGHT for some of them",
    )
    group.add_argument(
        "--n-basis", type=int, metavar="N", help=f"basis vectors of a sparse model ({BASIS}; 100 for rows in passes)"
    )


def add_predict(predict: argparse.ArgumentParser) -> None:
    """Give the parser of ``substrate predict`` its arguments."""
    predict.add_argument("model", help="a file of substrate fit --out, or of save() in Python")
    predict.add_argument("data", help="a CSV or Parquet file, or @NAME")
    predict.add_argument(
        "--out", metavar="FILE.csv", help="file to write the predictions to; standard output unless given"
    )
    predict.add_argument(
        "--max-bytes",
        type=float,
        metavar="BYTES",
        help="memory that the model may take (1 GiB, or four times the size of its file if that is more)",
    )
    predict.add_argument(
        "--coverage",
        type=float,
        metavar="SHARE",
        help="add columns lower and upper that hold this share of new targets, or set_CLASS, for instance 0.9",
    )
    predict.add_argument(
        "--adaptive",
        action="store_true",
        help="intervals that are wide where errors are large, by a spread that is fitted to errors of rows left out",
    )
    predict.add_argument(
        "--unknown",
        choices=("refuse", "ignore"),
        default="refuse",
        help="categories that training did not see: refuse the table, or predict as of none of the known ones (refuse)",
    )
    predict.add_argument("--proba", action="store_true", help="add columns probability_CLASS of a classifier")
    predict.add_argument(
        "--id",
        nargs="*",
        metavar="COLUMN",
        help="columns to write beside the predictions; unless given, those of the model; alone, none",
    )
    predict.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    _separators(predict)
