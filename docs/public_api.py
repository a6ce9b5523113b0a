"""``python docs/public_api.py [--write]``: every public name with its signature, from the packages themselves.

What is on the page is kept by the rules of ``docs/stability.md``; a test compares it with the packages, so that nothing
public changes unnoticed. Whoever changes something on purpose writes the page anew, and the difference is seen.
"""

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from docstring_fields import ROOT
from generated_page import page_command

from problems.command_line.arguments import parser

__all__ = ["PACKAGES", "PAGE", "PublicInterface", "main", "signature_of"]

PAGE = ROOT / "docs" / "public_api.md"
#: Where users import from; a name of ``__all__`` there is public, and so are its methods without an underscore.
PACKAGES = (
    "substrate",
    "substrate.kernels",
    "substrate.datasets",
    "substrate.basis",
    "substrate.certificate",
    "substrate.errors",
    "problems",
    "problems.displays",
    "problems.export",
)
OURS = ("problems", "substrate")

_HEAD = """# Public interface

Every public name with its parameters and defaults, and the options of the command; [versions](stability.md) says how
they may change. Made by `python docs/public_api.py --write`; a test compares this page with the packages.
"""


def names_of(package: str) -> list[str]:
    """Return the public names of a package; those that are looked up on demand count too."""
    return sorted(import_module(package).__all__)


def signature_of(function: Any) -> str:
    """Return the parameters of a function with their defaults, and without types."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    if parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return re.sub(r"<(\w[\w.]*)[^<>]* at 0x[0-9a-f]+>", r"<\1>", text)


def members_of(kind: type) -> Iterator[str]:
    """Yield the public methods and properties that a class or one of its bases of ours defines."""
    found = {
        name: value
        for base in reversed(kind.__mro__)
        if base.__module__.partition(".")[0] in OURS
        for name, value in vars(base).items()
        if not name.startswith("_")
    }
    for name, value in sorted(found.items()):
        inner = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(inner, property) or type(inner).__name__ in ("cached_property", "member_descriptor"):
            yield name
        elif inspect.isfunction(inner) or type(inner).__name__ == "_AvailableIfDescriptor":
            yield name + signature_of(getattr(inner, "fn", inner))


def entries_of(package: str) -> Iterator[str]:
    """Yield one line for every public name of a package, and one for every member of a class."""
    for name in names_of(package):
        thing = getattr(import_module(package), name)
        if isinstance(thing, ModuleType):
            for function in ("declare", "closed_form"):
                if hasattr(thing, function):
                    yield f"{name}.{function}{signature_of(getattr(thing, function))}"
        elif inspect.isclass(thing):
            yield name if issubclass(thing, Warning | Exception) else name + signature_of(thing)
            yield from (f"    .{member}" for member in members_of(thing))
        elif callable(thing):
            yield name + signature_of(thing)
        else:
            yield name


def command_entries() -> Iterator[str]:
    """Yield the commands of ``substrate`` with their arguments and options."""
    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, command in sorted(commands.choices.items()):
        yield name
        for action in command._actions:
            if not isinstance(action, argparse._HelpAction):
                words = ", ".join(action.option_strings) or action.dest
                yield f"    {words}" + (f" {{{','.join(map(str, action.choices))}}}" if action.choices else "")


class PublicInterface:
    """The page; it has no faults."""

    faults: list[str] = []  # noqa: RUF012

    def page(self) -> str:
        """Return the page in Markdown."""
        parts = [(f"`{package}`", entries_of(package)) for package in PACKAGES]
        parts.append(("The command `substrate`", command_entries()))
        blocks = ("\n".join([f"## {title}", "", "```text", *lines, "```", ""]) for title, lines in parts)
        return "\n".join([_HEAD, *blocks])


def main(arguments: list[str]) -> int:
    """Print the page, or write it."""
    return page_command(PublicInterface(), PAGE, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
