"""What the pages that scripts generate share: tables in Markdown, and the command that prints or writes a page."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

__all__ = ["Source", "page_command", "table"]


class Source(Protocol):
    """What a page is made from: the faults that prevent it, and the page."""

    faults: list[str]

    def page(self) -> str:
        """Return the page in Markdown."""


def table(title: str, headings: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a titled table in Markdown."""
    names = list(headings)
    lines = [title, "", f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


def page_command(source: Source, target: Path, arguments: list[str]) -> int:
    """Print the page, or write it; faults go to standard error and nothing is written."""
    if source.faults:
        print(*source.faults, sep="\n", file=sys.stderr)
        return 1
    if arguments == ["--write"]:
        target.write_text(source.page(), encoding="utf-8")
    elif arguments:
        print(f"unknown arguments {arguments}; usage: python docs/{target.stem}.py [--write]", file=sys.stderr)
        return 2
    else:
        print(source.page())
    return 0
