"""Where a command writes to: refused before any work where something else would be destroyed, and written whole."""

import sys

from substrate.whole_file import refuse_taken, writable_file, written_whole

__all__ = ["refuse_unwritable", "write"]


def refuse_unwritable(path: str | None, *taken: str | None) -> None:
    """Before any long work: ``path`` is a regular file or absent, in a folder that is there, and none of ``taken``."""
    if path is None:
        return
    writable_file(path)
    refuse_taken(path, *taken)


def write(path: str | None, text: str) -> None:
    """To standard output, or to a file that is whole or absent."""
    if path is None:
        sys.stdout.write(text)
        return
    with written_whole(path) as stream:
        stream.write(text.encode("utf-8"))
