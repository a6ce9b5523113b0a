"""Arguments and exit codes of the command ``substrate``."""

import argparse
import sys
from collections.abc import Sequence

import substrate
from substrate.errors import SubstrateError
from substrate.solvers import ORDER

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="substrate",
        description="Least-squares support vector machines, declared as convex problems and certified.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {substrate.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    verify = commands.add_parser(
        "verify",
        help="declare every problem on embedded data, solve it several ways and compare",
        description="Declare every problem on its embedded data set, solve it with every installed solver and in "
        "closed form, and check that all agree. Exit status 1 if anything fails.",
    )
    verify.add_argument("--problem", help="only this problem file, for instance ls_svm_regression")
    verify.add_argument("--solver", help=f"only this solver: {', '.join(ORDER)}")
    verify.add_argument("--json", action="store_true", help="machine-readable output")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when all is well, 1 when a check failed, 2 when the command was not understood."""
    options = _parser().parse_args(arguments)
    # after parsing: --help must not wait for cvxpy
    from problems.command_line.verify import as_json, table, verify

    try:
        lines = list(verify(options.problem, options.solver))
    except SubstrateError as error:
        print(f"substrate: {error}", file=sys.stderr)
        return 2
    print(as_json(lines) if options.json else table(lines))
    return 0 if lines and all(line.passes for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
