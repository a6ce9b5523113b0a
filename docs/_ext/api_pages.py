"""Write the pages of the reference from the packages themselves, so that no public name can be missing.

A page lists the public names of a package (its ``__all__``), or the modules in a folder; autosummary then gives each
a separate page. The lists are written before Sphinx looks for files.
"""

import argparse
import pkgutil
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from textwrap import indent
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.ext import autosummary

import problems
import substrate
from problems.command_line.arguments import parser

OURS = {"problems", "substrate"}
#: The families listed first, in the order of the guide; the others follow.
FIRST_FAMILIES = (
    "full.ls_svm",
    "chosen.selection",
    "chosen.stacked",
    "kernel_machine",
    "penalised.l1",
    "penalised.structure",
    "chosen.fused_l1",
    "chosen.fused_variation",
    "pruned",
)
#: A field that names what implements an equation, of docs/docstring_fields.py.
CLAIM = re.compile(r":(?:equation|place) (\[\w+\]_ [^:]+): ?(.*)")
CORE = ("operators", "fits", "bounds", "left_out", "select")
INSIDE = ("declare", "shapes", "fusion")
ON_OTHER_PAGES = {"kernels", "datasets", "basis", *CORE, *INSIDE}


def table(package: str, names: Iterable[str]) -> str:
    """Return an autosummary of names in a package."""
    head = f".. currentmodule:: {package}\n\n.. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n"
    return head + "".join(f"   {name}\n" for name in names) + "\n"


def put_under_heading(heading: str, text: str, rule: str = "=") -> str:
    """Return a heading and the text below it."""
    return f"{heading}\n{rule * len(heading)}\n\n{text}\n"


def said_by(package: str) -> str:
    """Return the docstring of a package, and a target for references to it."""
    return f".. automodule:: {package}\n   :no-members:\n\n"


def public(package: str) -> Iterator[str]:
    """Return the names in a package's ``__all__``, without constants of the distribution."""
    return (name for name in import_module(package).__all__ if name not in {"DISTRIBUTION", "__version__"})


def modules(package: str) -> Iterator[str]:
    """Return the names of the modules below a package."""
    packages = pkgutil.walk_packages(import_module(package).__path__, f"{package}.")
    return (module.name.removeprefix(f"{package}.") for module in packages)


def first_line(module: str) -> str:
    """Return the summary line of a module."""
    return (import_module(module).__doc__ or module).strip().splitlines()[0]


def by_family() -> str:
    """Return the estimators, one table per file."""
    family = problems.ESTIMATORS.__getitem__
    rank = {f"problems.estimators.{name}": place for place, name in enumerate(FIRST_FAMILIES)}
    order = sorted(problems.ESTIMATORS, key=lambda name: (rank.get(family(name), len(rank)), family(name), name))
    groups = groupby(order, key=family)
    tables = (f"{first_line(module)}\n\n{table('problems', names)}" for module, names in groups)
    values = table("substrate.basis", public("substrate.basis"))
    saved = put_under_heading("Saved models", table("problems", ["load"]), rule="-")
    words = "From a function that builds a machine, windows of a series, or a table as it is.\n\n"
    around = words + table("problems", sorted(problems.COMPOSED))
    composed = put_under_heading("Estimators around others", around, rule="-")
    words = "Components, clusters and two views, which have no targets; imported from ``problems`` like the others.\n\n"
    composed += put_under_heading("Eigenproblems", words + table("problems", sorted(problems.SPECTRAL)), rule="-")
    return "\n".join(tables) + composed + put_under_heading("Parameters that are values", values, rule="-") + saved


def problem_pages() -> str:
    """Return the problems, which are the public names of their package that are not estimators."""
    return table("problems", problems.PAGES)


def whole(package: str, names: Iterable[str]) -> str:
    """Return the docstring of a package, and its contents."""
    return said_by(package) + table(package, names)


def command_line() -> str:
    """Return the help of the command and of its subcommands."""
    whole_parser = parser()
    (commands,) = (action for action in whole_parser._actions if isinstance(action, argparse._SubParsersAction))
    parsers = [
        ("substrate", whole_parser),
        *((f"substrate {name}", parser_of_command) for name, parser_of_command in commands.choices.items()),
    ]
    helps = (
        put_under_heading(name, ".. code-block:: text\n\n" + indent(parser_of_command.format_help(), "   "), "-")
        for name, parser_of_command in parsers
    )
    return "\n".join(helps)


def ground() -> str:
    """Return the files of substrate that are in no folder, and the folders, without those on another page."""
    modules_found = list(pkgutil.iter_modules(substrate.__path__))
    shown = [module for module in modules_found if module.name not in ON_OTHER_PAGES]
    files = table("substrate", (module.name for module in shown if not module.ispkg))
    folders = (f"substrate.{module.name}" for module in shown if module.ispkg)
    return files + "".join(whole(folder, modules(folder)) for folder in folders)


def pages() -> dict[str, str]:
    """Return the text of each page, by file name."""
    return {
        "machines": put_under_heading("Your own machines", whole("substrate", public("substrate"))),
        "estimators": put_under_heading("Estimators", said_by("problems.estimators") + by_family()),
        "problems": put_under_heading("Problem pages", said_by("problems") + problem_pages()),
        "kernels": put_under_heading("Kernels", whole("substrate.kernels", public("substrate.kernels"))),
        "datasets": put_under_heading("Data", whole("substrate.datasets", public("substrate.datasets"))),
        "displays": put_under_heading("Displays", whole("problems.displays", public("problems.displays"))),
        "export": put_under_heading("Export", whole("problems.export", public("problems.export"))),
        "core": put_under_heading(
            "Operators, fits, bounds and searches",
            "".join(whole(f"substrate.{room}", modules(f"substrate.{room}")) for room in CORE),
        ),
        "inside": put_under_heading(
            "Inside machines and fusion",
            "".join(whole(f"substrate.{room}", modules(f"substrate.{room}")) for room in INSIDE),
        ),
        "command_line": put_under_heading("Command line", command_line()),
        "ground": put_under_heading("Files that all rooms use", ground()),
    }


def list_names(text: str) -> Iterator[str]:
    """Yield the full names in the tables of a page."""
    package = ""
    for line in text.splitlines():
        if line.startswith(".. currentmodule:: "):
            package = line.split()[-1]
        elif re.fullmatch(r"   [\w.]+", line):
            yield f"{package}.{line.strip()}"


def write_pages(app: Sphinx, config: Config) -> None:
    """Write pages that have changed, and delete the pages of names that no longer exist."""
    folder, texts = Path(app.srcdir) / "api", pages()
    for name, text in texts.items():
        target = folder / f"{name}.rst"
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
    names = {name for text in texts.values() for name in list_names(text)}
    for page in [*folder.glob("generated/*.rst"), *folder.glob("*.rst")]:
        if page.stem not in names | set(texts):
            page.unlink()


def of_others(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members inherited from other libraries, which are documented there."""
    home = getattr(getattr(obj, "fget", obj), "__module__", None)
    return True if what == "class" and home is not None and home.partition(".")[0] not in OURS else None


def list_equations(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Show the fields ``:equation`` and ``:place`` as a list; Sphinx prints the argument of an unknown field twice."""
    shown: list[str] = []
    inside = headed = False
    for line in lines:
        claim = CLAIM.match(line)
        if claim:
            shown += [] if headed else ["", ".. rubric:: Equations", ""]
            shown.append(f"- {claim[1]}: {claim[2]}")
        else:
            inside = inside and line.startswith(" ")  # a field continues on indented lines
            shown.append(f"  {line.strip()}" if inside else line)
        inside, headed = inside or bool(claim), headed or bool(claim)
    lines[:] = shown


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the steps."""
    autosummary.WELL_KNOWN_ABBREVIATIONS += ("eq.",)  # "eq. (1)" does not end a summary
    app.connect("config-inited", write_pages)
    app.connect("autodoc-skip-member", of_others)
    app.connect("autodoc-process-docstring", list_equations, priority=900)  # after numpydoc
    return {"parallel_read_safe": True}
