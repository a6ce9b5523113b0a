"""The arguments of ``substrate explore``, apart from its work, which takes long to import."""

import argparse
from collections.abc import Sequence

__all__ = ["EXPLORE", "add_explore"]

#: Examples and remarks below the options.
EXPLORE = """examples:
  substrate explore @motorcycle --out motorcycle.html
  substrate explore @additive_function --model structure
  substrate explore model.npz --table houses.csv

The page has a slider for gamma, zeta or rho. Data and fit, residuals, multipliers with their slack, and errors follow
it exactly, because the machine is known in closed form at every value. It is one file and needs no network. Models
without such a path (robust, sparse) are refused.
"""


def add_explore(explore: argparse.ArgumentParser, models: Sequence[str], kernels: Sequence[str]) -> None:
    """Add the options to the parser of the command."""
    explore.add_argument("data", help="a CSV or Parquet file, @NAME, or a model file MODEL.npz")
    explore.add_argument("--out", default="explore.html", metavar="PAGE.html", help="where it goes (explore.html)")
    explore.add_argument("--table", metavar="FILE", help="the table that MODEL.npz was fitted to")
    explore.add_argument("--target", metavar="COLUMN", help="what to predict (known for an embedded data set)")
    explore.add_argument("--model", choices=models, default="lssvm", help="lssvm, fused, l1 or structure (lssvm)")
    explore.add_argument("--kernel", choices=kernels, default="rbf", help="rbf unless given; families takes longer")
    explore.add_argument("--sigma", type=float, help="width of the kernel; otherwise by the data")
    explore.add_argument("--gamma", type=float, help="where the page begins (lssvm); otherwise chosen")
    explore.add_argument("--zeta", type=float, help="where the page begins (l1); otherwise chosen")
    explore.add_argument("--rho", type=float, help="where the page begins (structure); otherwise chosen")
    explore.add_argument("--one-hot", nargs="+", default=[], metavar="COLUMN", help="categories to code as 0 and 1")
    explore.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    explore.add_argument("--validation", type=float, default=0.25, metavar="SHARE", help="rows held out (0.25)")
    explore.add_argument("--seed", type=int, default=0, help="seed of the rows held out (0)")
    explore.add_argument("--delimiter", default=",", metavar="CHARACTER", help="between the cells of a CSV file (,)")
    explore.add_argument("--max-bytes", type=float, metavar="BYTES", help="memory that MODEL.npz may take (1 GiB)")
